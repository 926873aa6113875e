// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "bpf/abi.h"
#include "capture/registers.h"
#include "cli/why.h"

static int add(void *ctx, const struct abi_registers *read)
{
	struct root_threads *threads = ctx;
	pid_t tid = (pid_t)read->tid;
	struct thread_state *thread = root_threads__find(threads, tid);
	int err = 0;

	for (size_t i = 0; !err && i < ABI_REGISTERS; i++)
		err = root_threads__add(threads, tid, read->values[i]);
	if (!thread)
		return err;
	thread->tp = read->tp;
	if (thread->sp == read->sp && thread->pc == read->pc)
		thread->bp = read->bp;
	else /* the thread is not at the place where it was when the list was made */
		thread->pc = 0;
	return err;
}

int why_registers__add(struct registers *registers, struct root_threads *threads)
{
	return registers ? registers__read(registers, add, threads) : -ENOTSUP;
}
