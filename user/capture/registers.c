// SPDX-License-Identifier: BSD-2-Clause
#include "capture/registers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "bpf/abi.h"
#include "capture/internal.h"
#include "registers.skel.h"

struct registers {
	struct registers_bpf *skel;
};

void registers__free(struct registers *registers)
{
	if (!registers)
		return;
	registers_bpf__destroy(registers->skel);
	free(registers);
}

int registers__new(pid_t pid, struct registers **ret)
{
	struct registers *registers = calloc(1, sizeof(*registers));
	libbpf_print_fn_t print;
	int err;

	if (!registers)
		return -ENOMEM;
	print = libbpf_set_print(
		capture__print_nothing); /* a kernel that cannot do this is no failure */
	registers->skel = registers_bpf__open();
	if (!registers->skel)
		err = -errno;
	if (registers->skel) {
		registers->skel->rodata->target = (uint32_t)pid;
		err = registers_bpf__load(registers->skel);
	}
	if (!err)
		err = registers_bpf__attach(registers->skel);
	libbpf_set_print(print);
	if (err) {
		registers__free(registers);
		return err;
	}
	*ret = registers;
	return 0;
}

int registers__read(struct registers *registers,
		    int (*fn)(void *ctx, const struct abi_registers *thread), void *ctx)
{
	_cleanup_close_ int fd =
		bpf_iter_create(bpf_link__fd(registers->skel->links.read_registers));
	struct abi_registers record;
	ssize_t len;
	size_t n = 0;
	int rc = 0;

	if (fd < 0)
		return -errno;
	while (!rc && (len = io__read(fd, &record, sizeof(record))) > 0) {
		if (len != sizeof(record))
			return -EIO;
		rc = fn(ctx, &record);
		n++;
	}
	return rc ? rc : len < 0 ? (int)len : n ? 0 : -ESRCH;
}
