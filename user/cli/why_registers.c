// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "capture/registers.h"
#include "cli/why.h"

static int add(void *ctx, pid_t tid, const uint64_t *values, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = root_threads__add(ctx, tid, values[i]);
	return err;
}

int why_registers__add(struct registers *registers, struct root_threads *threads)
{
	return registers ? registers__read(registers, add, threads) : -ENOTSUP;
}
