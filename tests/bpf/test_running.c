// SPDX-License-Identifier: BSD-2-Clause
/* The code that notes which thread runs on a CPU (running.bpf.h), compiled for the host. A
 * simulated scheduler preempts at the worst places. The note must never give a probe another
 * thread's data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Between any two steps of the code under test, another thread may take the CPU. */
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

/* A thread, and what a probe must learn about it. */
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

/* Does what find_caller() does: first reads the turn and the count of changes, then looks up the
 * caller. */
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
	struct abi_running *note = &notes[cpu]; /* a BPF program stays on its CPU */
	__u64 interval = current->truth.interval;
	struct caller caller;

	if (running_recall(note, &current->task, &changes, &caller))
		recalled++;
	else
		find(note, &caller);
	/* If user space changes the interval meanwhile, the new interval counts from the next
	 * call. */
	told_wrong += caller.process != current->truth.process ||
		      caller.outer_sp != current->truth.outer_sp ||
		      (caller.interval != current->truth.interval && caller.interval != interval);
	/* The stack pointer of an outer call is written into the note, even if the note describes
	 * another thread by then. */
	if (!random_below(8)) {
		current->truth.outer_sp = 1 + random_below(1000);
		barrier();
		note->outer_sp = current->truth.outer_sp;
	}
}

/* Another thread takes the CPU and hits up to two probes. Then the first thread goes on. Between
 * two probes of a thread, the scheduler may go on with any thread. */
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
	/* the new thread has the number and the count of the thread that has ended */
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

		/* each thread runs on a CPU for a while, and may then move to the other CPU */
		cpu = (int)random_below(CPUS);
		current = thread;
		thread->on_cpu = true;
		for (uint64_t n = random_below(6); n; n--) {
			probe();
			if (!random_below(6)) { /* a change by an exec or user space */
				thread->truth.process = 1 + (uint32_t)random_below(3);
				thread->truth.interval = 1 + random_below(100);
				changes++;
			}
		}
		thread->on_cpu = false;
		if (random_below(20)) {
			thread->task.nvcsw++;
		} else { /* the thread ends, and a new one gets the same number and count */
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
