/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for words in the memory of threads: the thread-local variable at an address, and the
 * function whose frame in a stack holds an address. Reads the process's memory (proc/memory.h). */
#ifndef MEMTRACE_SYMBOLIZE_THREAD_NAMES_H
#define MEMTRACE_SYMBOLIZE_THREAD_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"
#include "proc/thread.h"
#include "symbolize/variables.h"

struct thread_names; /* opaque */

/* The caller keeps maps, threads and variables, which must outlive ret and be those of pid. 0 or
 * -ENOMEM. */
int thread_names__new(pid_t pid, const struct maps *maps, const struct thread_state *threads,
		      size_t n, struct variables *variables, struct thread_names **ret);
void thread_names__free(struct thread_names *names);

/* Names the thread-local variable at addr, and finds its thread. ret->off is the offset in the
 * variable or, without a name, in the file's thread-local memory. 0; -ENOENT: addr lies in no
 * thread-local memory that is known; -ENOMEM. ret->name is valid until the next call.
 *
 * Variables are known only for threads whose tp is known. The variables of the program are known.
 * Under glibc, the variables of two kinds of libraries are known, too: libraries that were loaded
 * with the program, and libraries that dlopen() has put into room that glibc keeps for this. The
 * thread-local memory of other libraries is in the heap. */
int thread_names__variable(struct thread_names *names, uint64_t addr, struct variable *ret,
			   pid_t *ret_tid);

/* Finds the frame that holds addr in the stack of thread tid, and names the function of this frame.
 * The thread must still wait at the same place, and the word at addr must be an address in [low,
 * high). *ret, which the caller frees, is a name or, for code without symbols, the file's name and
 * an offset. 0; -ENOENT: the function is not known; -ENOMEM. */
int thread_names__function(struct thread_names *names, pid_t tid, uint64_t addr, uint64_t low,
			   uint64_t high, char **ret);

#endif
