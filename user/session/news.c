// SPDX-License-Identifier: BSD-2-Clause
/* Which processes have done something since their last profile. */
#include "base/clock.h"
#include "proc/process.h"
#include "session/internal.h"

/* A thread that runs may have used more CPU time than its clock says. The clock is right again at
 * the kernel's next tick at the latest. This tick comes at least once a second, also on a CPU
 * without regular ticks (nohz_full). So if the clock has stood at a value for longer than a second,
 * this value was right when it was first read. */
#define TICK_NS 1100000000
/* A process that rests gets a new profile when its run is longer by 1/STALE than at its last
 * profile. */
#define STALE 4
/* If no process has got a new profile for this long, one process gets one. The reason: each profile
 * also has the losses of the whole run, which must not become older than this. (Before a profile is
 * made, all tables are read, which takes some 40 ms.) */
#define LOSSES_NS 60000000000

bool targets__rests(const struct target *t, struct rest *rest)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC), cpu;

	if (t->ended || targets__cpu_ns(t, &cpu))
		return false;
	if (!rest->since_ns || cpu != rest->cpu_ns) {
		*rest = (struct rest){cpu, now};
		return false;
	}
	return now >= rest->since_ns + TICK_NS;
}

static bool is_stale(const struct session *s, const struct target *t, uint64_t now)
{
	uint64_t begin = session__begin_ns(s, t);

	return !t->told_ns || now - begin >= (t->told_ns - begin) / STALE * (STALE + 1);
}

void news__choose(struct session *s, uint64_t now, bool all)
{
	struct target *oldest = NULL;
	uint64_t newest_ns = 0;
	bool any = false;

	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		t->is_lost = false;
		t->is_due = !t->ended &&
			    (!targets__rests(t, &t->rest.news) || all || is_stale(s, t, now));
		any = any || t->is_due;
		if (!t->ended && (!oldest || t->told_ns < oldest->told_ns))
			oldest = t;
		if (t->told_ns > newest_ns)
			newest_ns = t->told_ns;
	}
	if (!any && oldest && now >= newest_ns + LOSSES_NS)
		oldest->is_due = true;
}

void news__lose(struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i]->is_due && s->targets[i]->info.pid == pid)
			s->targets[i]->is_lost = true;
}

void news__note(struct session *s, uint64_t now)
{
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i]->is_due)
			s->targets[i]->told_ns = s->targets[i]->is_lost ? 0 : now;
}
