// SPDX-License-Identifier: BSD-2-Clause
/* Processes that run in a target's memory and are not threads of it. What they allocate is the
 * target's, so their CPU time is counted as the target's, too. Otherwise a target that waits while
 * such a process works would seem to rest. Then its profile would not be made anew, and no window
 * would be opened. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/vector.h"
#include "proc/process.h"
#include "session/internal.h"

/* Some probes are for the target alone. It depends on the kernel whether they act in a borrower,
 * too: Linux 6.12 and later compare thread groups, and earlier kernels compare memory. Borrowers in
 * which such probes perhaps do not act are counted. A child of vfork that calls exec at once is not
 * counted, because it allocates nothing. So a process is counted only if it has used at least this
 * CPU time: then it did more than call exec. */
#define WORKED_NS 5000000
/* how often the CPU times of such processes are read, if nothing else asks for this */
#define LOOK_NS 50000000

struct borrower {
	pid_t pid;
	uint32_t process; /* the target's number in the kernel's tables */
	uint64_t cpu_ns;  /* CPU time counted so far */
	bool there;
};

static struct borrower *find(struct session *s, pid_t pid, uint32_t process)
{
	for (size_t i = 0; i < s->n_borrowers; i++)
		if (s->borrowers[i].pid == pid && s->borrowers[i].process == process)
			return &s->borrowers[i];
	return NULL;
}

/* Has each target probes of its own, which no other process hits? True also where processes are
 * traced in turns. */
static bool has_own_probes(const struct session *s)
{
	return capture__kind(s->capture) != PROBE_PERF &&
	       (!s->everywhere || (s->scheduler.begun && !s->scheduler.host.everywhere));
}

static void note(void *ctx, pid_t pid, const struct abi_borrower *now)
{
	struct session *s = ctx;
	struct borrower *b = find(s, pid, now->process);
	struct target *t = targets__find_process(s, now->process);
	uint64_t cpu = now->cpu_ns, before = b ? b->cpu_ns : 0;

	if (!now->ended && process__cpu_time_ns(pid, &cpu))
		cpu = before;
	if (t && cpu > before)
		t->lent_ns += cpu - before;
	if (t && before < WORKED_NS && cpu >= WORKED_NS && has_own_probes(s))
		t->borrowers_unseen++;
	if (now->ended)
		return;
	if (!b && !VECTOR_ADD_ROOM(s->borrowers, s->n_borrowers))
		b = &s->borrowers[s->n_borrowers++];
	if (b)
		*b = (struct borrower){pid, now->process, cpu, true};
	if (t)
		t->n_borrowers++;
}

void borrowers__look(struct session *s)
{
	uint64_t changes = capture__borrowers_changes(s->capture);

	if (changes == s->borrowers_changes && !s->n_borrowers)
		return;
	s->borrowers_changes = changes;
	s->borrowers_look_ns = clock__now_ns(CLOCK_MONOTONIC) + LOOK_NS;
	for (size_t i = 0; i < s->n_targets; i++)
		s->targets[i]->n_borrowers = 0;
	for (size_t i = 0; i < s->n_borrowers; i++)
		s->borrowers[i].there = false;
	capture__borrowers(s->capture, note, s);
	for (size_t i = s->n_borrowers; i-- > 0;)
		if (!s->borrowers[i].there)
			s->borrowers[i] = s->borrowers[--s->n_borrowers];
}

void borrowers__keep(struct session *s)
{
	if (!s->stop_ns && clock__now_ns(CLOCK_MONOTONIC) >= s->borrowers_look_ns)
		borrowers__look(s);
}

int targets__cpu_ns(const struct target *t, uint64_t *ret)
{
	int rc = process__cpu_time_ns(t->info.pid, ret);

	if (!rc)
		*ret += t->lent_ns;
	return rc;
}
