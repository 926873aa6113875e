// SPDX-License-Identifier: BSD-2-Clause
/* The note of who runs on a CPU, compiled for the host, with a scheduler that preempts wherever it
 * hurts: what a probe is told of its caller is always true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Between any two of its steps another thread may take the CPU. */
static void preemption_point(void);
#define barrier() preemption_point()

struct task_struct {
	int pid;
	unsigned long nvcsw, nivcsw;
	unsigned long start_time;
};

#include "running.bpf.h"

#define CPUS  2
#define TASKS 8
#define DEPTH 4
#define STEPS 2000000

/* A thread, and the truth about it. */
struct thread {
	struct task_struct task;
	struct caller truth;
	bool on_cpu; /* running, or preempted in the middle of a probe */
};

static struct thread threads[TASKS];
static struct abi_running notes[CPUS];
static volatile __u64 changes;
static uint64_t random_state = 88172645463325252ULL;
static struct thread *current;
static int cpu, depth, recalled, told_wrong;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 2685821657736338717ULL >> 33) % n;
}

/* What find_caller() does: the count and the changes first, then the look-ups. */
static void find(struct abi_running *note, struct caller *caller)
{
	__u64 turn = task_turn(&current->task), changed = changes;

	barrier();
	caller->process = current->truth.process;
	caller->interval = current->truth.interval;
	barrier();
	caller->outer_sp = current->truth.outer_sp;
	running_note(note, &current->task, turn, changed, caller);
}

static void probe(void)
{
	struct abi_running *note = &notes[cpu]; /* programs are not moved to another CPU */
	__u64 interval = current->truth.interval;
	struct caller caller;

	if (running_recall(note, &current->task, &changes, &caller))
		recalled++;
	else
		find(note, &caller);
	/* An interval that user space changed meanwhile counts from the next call on. */
	told_wrong += caller.process != current->truth.process ||
		      caller.outer_sp != current->truth.outer_sp ||
		      (caller.interval != current->truth.interval && caller.interval != interval);
	/* An outer call is noted in place, whoever's note that is by then. */
	if (!random_below(8)) {
		current->truth.outer_sp = 1 + random_below(1000);
		barrier();
		note->outer_sp = current->truth.outer_sp;
	}
}

/* Another thread takes the CPU and hits a probe or two; then the first one goes on, or, between two
 * probes of its, the scheduler goes on with anybody. */
static void run_another(void)
{
	struct thread *before = current, *next = &threads[random_below(TASKS)];

	if (next->on_cpu)
		return;
	before->task.nivcsw++;
	current = next;
	next->on_cpu = true;
	depth++;
	for (uint64_t n = random_below(3); n; n--)
		probe();
	depth--;
	next->on_cpu = false;
	next->task.nvcsw++;
	current = before;
}

static void preemption_point(void)
{
	__asm__ volatile("" : : : "memory");
	if (depth < DEPTH && !random_below(12))
		run_another();
}

static void renew(struct thread *thread, uint64_t number)
{
	/* with the number of the one that has ended, and its count */
	thread->task.start_time = number;
	thread->truth = (struct caller){.process = 1 + (uint32_t)random_below(3),
					.interval = 1 + random_below(100)};
}

static void callers_are_who_they_are(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < TASKS; i++) {
		threads[i].task.pid = (int)i + 1;
		renew(&threads[i], i + 1);
	}
	for (uint64_t i = 0; i < STEPS; i++) {
		struct thread *thread = &threads[random_below(TASKS)];

		/* each has a while on a CPU, and may be moved to the other */
		cpu = (int)random_below(CPUS);
		current = thread;
		thread->on_cpu = true;
		for (uint64_t n = random_below(6); n; n--) {
			probe();
			if (!random_below(6)) { /* an exec, or user space */
				thread->truth.process = 1 + (uint32_t)random_below(3);
				thread->truth.interval = 1 + random_below(100);
				changes++;
			}
		}
		thread->on_cpu = false;
		if (random_below(20)) {
			thread->task.nvcsw++;
		} else { /* it ends, and another gets its number and comes to the same count */
			renew(thread, TASKS + i + 1);
		}
	}
	assert_int_equal(told_wrong, 0);
	assert_true(recalled > STEPS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_are_who_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
