/* SPDX-License-Identifier: GPL-2.0-only */
/* What a probe needs to know of the thread that has hit it, kept in a note on each CPU. A thread
 * hits probes many times between two switches. Without the note each hit takes two look-ups in the
 * storage of tasks: for the thread's process, and for its last outer call.
 *
 * The kernel counts how often each thread has been switched out. One word of a note is the thread's
 * turn: the thread's number, and this count, read before anything was looked up. The note is valid
 * while the running thread's turn equals that word. Then, since the note was made, the thread has
 * run on this CPU all the time, and no other thread has. So
 * - a valid note was written by this very thread, on this CPU, and no other thread has written to
 *   it since. Preemption in the middle of reading or writing a note does no harm: if another thread
 *   ran, this one was switched out, and its turn is over;
 * - when two threads have each written a part of one note, the note has the turn of one of them,
 *   and the turns of both are over;
 * - the thread may overwrite whatever note it finds: if the note is another thread's, it is no
 *   longer valid.
 * Whether a note is valid is checked after its values have been read.
 *
 * After a thread has ended, another thread may get its number, and reach the same count. But the
 * two threads have different start times, and the note has the start time, too. (The start time is
 * stored in another word than the turn. This does no harm: two threads with the same number never
 * exist at the same time.)
 *
 * An exec or user space may change the data that a note was made from. Whoever does so raises the
 * counter `changes` afterwards. A note holds the value that the counter had when the note was made.
 *
 * If the storage of tasks finds no process for a thread, no note is made. The reason: before Linux
 * 6.2 the storage finds nothing while it is busy. It is busy while a program that was preempted
 * inside the storage's code waits for this CPU. So if the storage has found the process, it was not
 * busy. If the thread has not been switched out since, the storage's answer about the outer call is
 * right, too. */
#ifndef MEMTRACE_BPF_RUNNING_BPF_H
#define MEMTRACE_BPF_RUNNING_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* What a probe has to know of the thread that has hit it. */
struct caller {
	__u32 process;
	__u64 interval;
	__u64 outer_sp;
};

/* Returns one word that has the thread's number and, modulo 2^32, how often the thread has been
 * switched out. */
static __always_inline __u64 task_turn(const struct task_struct *task)
{
	return (__u64)(__u32)task->pid << 32 | (__u32)(task->nvcsw + task->nivcsw);
}

/* Reads the note on this CPU. false: the note is not valid for this thread now. */
static __always_inline bool running_recall(const struct abi_running *running,
					   const struct task_struct *task,
					   const volatile __u64 *changes, struct caller *caller)
{
	caller->process = running->process;
	caller->interval = running->interval;
	caller->outer_sp = running->outer_sp;
	barrier();
	return running->turn == task_turn(task) && running->start_ns == task->start_time &&
	       running->changes == *changes;
}

/* Writes a note. turn, changes: as they were before the look-ups that filled caller. */
static __always_inline void running_note(struct abi_running *running,
					 const struct task_struct *task, __u64 turn, __u64 changes,
					 const struct caller *caller)
{
	running->start_ns = task->start_time;
	running->changes = changes;
	barrier();
	running->process = caller->process;
	running->interval = caller->interval;
	barrier();
	running->outer_sp = caller->outer_sp;
	barrier();
	running->turn = turn;
}

#endif
