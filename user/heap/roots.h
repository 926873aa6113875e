/* SPDX-License-Identifier: BSD-2-Clause */
/* Roots: words outside of the heap that keep blocks reachable. */
#ifndef MEMTRACE_HEAP_ROOTS_H
#define MEMTRACE_HEAP_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"
#include "proc/thread.h"

/* Kinds of roots, ordered by how well they tell who holds a block: the best first. */
enum root_kind {
	ROOT_DATA,	/* writable data of a mapped file, with its bss */
	ROOT_ANONYMOUS, /* other memory that no allocator owns, with the main thread's thread-local
			 * memory */
	ROOT_STACK,	/* a thread's stack, and its thread-local memory in the same mapping */
	ROOT_REGISTER,	/* a thread's register, or data of epoll */
	ROOT_KINDS
};

/* A range of memory whose aligned words are roots. */
struct root {
	uint64_t start, end; /* multiples of 8 */
	enum root_kind kind; /* any kind but ROOT_REGISTER */
	pid_t tid;	     /* thread of a ROOT_STACK; else 0 */
};

/* A root without an address: the content of a register, a stack pointer that leads into the heap,
 * or data of epoll. */
struct root_value {
	uint64_t value;
	pid_t tid; /* 0: data of epoll */
};

struct roots {
	struct root *list; /* ascending by kind, then by address; disjoint */
	size_t n;
	struct root_value *values;
	size_t n_values;
};

/* A range of addresses. */
struct root_range {
	uint64_t start, end;
};

/* What is known of the threads when a scan begins. All zero: nothing. */
struct root_threads {
	struct thread_state *list; /* each thread is in the list once */
	size_t n;
	struct root_value *values;
	size_t n_values;
	size_t running;		/* threads that were running: their stack pointers are not known */
	uint64_t unread_epolls; /* struct epoll_kept (proc/epoll.h) */
};

/* Adds the data that the kernel keeps for pid's epoll descriptors (proc/epoll.h). 0 or -ENOMEM. */
int root_threads__add_epoll(struct root_threads *threads, pid_t pid);

/* Reads the stack pointers and program counters of pid's threads. For a thread in a system call,
 * also reads the six registers with the call's arguments. The list ascends by tid. 0; -ESRCH: there
 * is no such process; other negative errno. Only 65,536 threads are listed. The stacks of further
 * threads are treated like stacks of running threads. Source: thread_state__read(). */
int root_threads__read(pid_t pid, struct root_threads *ret);
/* Finds a thread in a list that ascends by tid. NULL: it is not there. */
struct thread_state *root_threads__find(struct root_threads *threads, pid_t tid);
/* root_threads__add_thread() adds a thread to the list; root_threads__add() adds the content of a
 * register. 0 or -ENOMEM. */
int root_threads__add_thread(struct root_threads *threads, const struct thread_state *thread);
int root_threads__add(struct root_threads *threads, pid_t tid, uint64_t value);
void root_threads__clear(struct root_threads *threads);

/* The roots of a process: all private writable memory, except the n_owned ranges that belong to
 * allocators (ascending, disjoint). These are roots, too: writable shared memory that
 * image__is_plain() accepts; pages that the dynamic linker has made read-only; anonymous read-only
 * memory. A stack whose stack pointer is known counts only from its red zone upwards. (This zone is
 * the 128 bytes below the stack pointer, x86-64 psABI.) The stack of a running thread counts as a
 * whole. 0 or -ENOMEM. */
int roots__find(const struct maps *maps, const struct root_threads *threads,
		const struct root_range *owned, size_t n_owned, struct roots *ret);
void roots__clear(struct roots *roots);

#endif
