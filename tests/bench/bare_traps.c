// SPDX-License-Identifier: BSD-2-Clause
/* Measures the lowest cost that a uprobe tracer can have: attaches an empty BPF program to every
 * instruction where memtrace puts a probe in the process. Usage: bare_traps PID [ALLOC FREE]. ALLOC
 * and FREE are functions of the traced program, as for --alloc and --free. bare_traps prints
 * "ready" when the probes are attached, and detaches them at the end of its standard input. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/allocator.h"
#include "capture/features.h"

#define MAX_LINKS 16

/* Makes a link for the instructions of one file. Returns a descriptor or a negative errno. */
static int attach(int prog, const struct allocator *a, pid_t pid)
{
	uint64_t offs[ABI_MAX_FUNCS + ALLOC_MAX_EXITS], cookies[ABI_MAX_FUNCS + ALLOC_MAX_EXITS];
	uint32_t n = 0;
	char path[64];

	for (size_t i = 0; i < a->n_points; i++)
		offs[n++] = a->points[i].place.off;
	for (size_t i = 0; i < a->n_exits; i++)
		offs[n++] = a->exits[i];
	memset(cookies, 0, sizeof(cookies));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	return uprobe_multi_link(prog, PROBE_MULTI, false, path, offs, cookies, NULL, n, pid);
}

int main(int argc, char **argv)
{
	struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	struct alloc_extra own[2] = {
		{.file = "exe", .func = {.role = ROLE_ALLOC, .size_arg = 1}},
		{.file = "exe", .func = {.role = ROLE_FREE, .ptr_arg = 1}},
	};
	struct allocators *found = NULL;
	struct error err = {};
	int prog, links[MAX_LINKS];
	struct maps maps;
	pid_t pid;

	if ((argc != 2 && argc != 4) || (pid = atoi(argv[1])) <= 0) {
		fputs("usage: bare_traps PID [ALLOC FREE]\n", stderr);
		return 2;
	}
	for (int i = 0; i < argc - 2; i++)
		own[i].symbol = argv[2 + i];
	if (maps__read(pid, &maps) ||
	    allocators__find(NULL, pid, &maps, ALLOC_OWN, own, (size_t)argc - 2, &found, &err)) {
		fprintf(stderr, "bare_traps: %s\n", err.text);
		return 1;
	}
	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "bare_trap", "GPL", nothing, 2, &opts);
	for (size_t i = 0; i < found->n; i++) {
		links[i] = prog < 0		  ? prog
			   : found->n > MAX_LINKS ? -E2BIG
						  : attach(prog, found->list[i], pid);
		if (links[i] < 0) {
			fprintf(stderr, "bare_traps: cannot attach: %s\n", strerror(-links[i]));
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	for (size_t i = 0; i < found->n; i++)
		close(links[i]);
	allocators__free(found);
	maps__free(&maps);
	return 0;
}
