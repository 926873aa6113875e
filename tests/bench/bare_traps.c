// SPDX-License-Identifier: BSD-2-Clause
/* The floor under every uprobe tracer: an empty BPF program on the same instructions where memtrace
 * puts its probes on malloc and free. Usage: bare_traps PID; prints "ready" when attached, detaches
 * at the end of its standard input. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/allocator.h"
#include "capture/features.h"

int main(int argc, char **argv)
{
	struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	uint64_t offs[2], cookies[2] = {1, 2};
	struct allocators *found = NULL;
	const struct allocator *a;
	struct error err = {};
	struct maps maps;
	uint32_t n = 0;
	char path[64];
	pid_t pid;
	int prog, link;

	if (argc != 2 || (pid = atoi(argv[1])) <= 0) {
		fputs("usage: bare_traps PID\n", stderr);
		return 2;
	}
	if (maps__read(pid, &maps) || allocators__find(NULL, pid, &maps, false, NULL, 0, &found, &err)) {
		fprintf(stderr, "bare_traps: %s\n", err.text);
		return 1;
	}
	a = found->list[0];
	for (size_t i = 0; i < a->n_points && n < 2; i++)
		if (!strcmp(a->points[i].name, "malloc") || !strcmp(a->points[i].name, "free"))
			offs[n++] = a->points[i].off;
	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "bare_trap", "GPL", nothing, 2, &opts);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	link = uprobe_multi_link(prog, PROBE_MULTI, false, path, offs, cookies, n, pid);
	if (prog < 0 || n != 2 || link < 0) {
		fprintf(stderr, "bare_traps: cannot attach: %s\n", strerror(-link));
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	close(link);
	allocators__free(found);
	maps__free(&maps);
	return 0;
}
