/* SPDX-License-Identifier: GPL-2.0-only */
/* What a probe needs to know of the thread that has hit it, kept on its CPU for as long as the
 * thread stays there: a thread hits probes many times between two switches, and to find its process
 * and its last outer call are two look-ups in the storage of tasks, at every hit.
 *
 * The kernel counts how often each thread has been switched out. A note names the thread and its
 * count as that was before anything was looked up, in one word: its turn. It is good while that is
 * what it is. Then the thread has run on this CPU ever since, and nobody else has. So
 * - a note that is good was written by the very thread, on this CPU, and by nobody after it,
 *   whoever preempted whom in the middle of reading or writing one: anybody else who ran had
 *   switched it out, which ended its turn;
 * - of a note that two have written in turns, the word is one's or the other's, and the turns of
 *   both are over;
 * - the thread can write into whatever note it finds: one that is not its own is not good any more.
 * What is read from a note is checked after it has been read.
 *
 * A number of a thread that has ended may be another's, and its count the same: the time of its
 * start is not. (That one is another word does no harm: who have the same number are not there at
 * the same time.)
 *
 * What others know of a process and change has a count, too, which they raise after a change. Of
 * what cannot be found no note is made: before Linux 6.2 the storage of tasks answers "nothing"
 * when it is busy. It is so while a program that was preempted in it waits for this CPU; so when it
 * has told the process, and the thread has not been switched out, it tells the outer call as
 * well. */
#ifndef MEMTRACE_BPF_RUNNING_BPF_H
#define MEMTRACE_BPF_RUNNING_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* What a probe has to know of who has hit it. */
struct caller {
	__u32 process;
	__u64 interval;
	__u64 outer_sp;
};

/* The thread's number, and how often it has been switched out, modulo 2^32. */
static __always_inline __u64 task_turn(const struct task_struct *task)
{
	return (__u64)(__u32)task->pid << 32 | (__u32)(task->nvcsw + task->nivcsw);
}

/* Reads the note on this CPU. false: it says nothing of the thread as it is now. */
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

/* Makes one. turn, changes: as they were before what caller says was asked for. */
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
