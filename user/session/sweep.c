// SPDX-License-Identifier: BSD-2-Clause
/* Frees what no end of a target frees. */
#include "base/clock.h"
#include "session/internal.h"

/* How often the kernel's tables are swept. It takes about a millisecond. */
#define SWEEP_NS 10000000000ULL

static bool lives(void *ctx, uint32_t process, pid_t *ret_pid)
{
	const struct target *t = targets__find_process(ctx, process);

	if (!t || t->ended)
		return false;
	*ret_pid = t->info.pid;
	return true;
}

void sweep__tables(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	/* A window would be closed late. Where probes are for all processes, one is nearly always
	 * open. */
	if (now < s->sweep_next_ns || (!s->everywhere && scheduler__has_window(&s->scheduler)))
		return;
	s->sweep_next_ns = now + SWEEP_NS;
	capture__sweep(s->capture, lives, s);
}
