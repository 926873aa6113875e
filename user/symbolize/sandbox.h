/* SPDX-License-Identifier: BSD-2-Clause */
/* A forked child gives up, for good, whatever it could do but compute on the files it was given: it
 * is about to let a library near data that somebody hostile may have written. Private to this room.
 *
 * Two steps, because something may have to be opened in between, by nobody instead of root. */
#ifndef MEMTRACE_SYMBOLIZE_SANDBOX_H
#define MEMTRACE_SYMBOLIZE_SANDBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SANDBOX_FIRST_FD 3
#define SANDBOX_MAX_FDS	 4
#define SANDBOX_NOBODY	 65534 /* user and group */

/* First step. fds[0..n) become descriptors SANDBOX_FIRST_FD + i, 0 to 2 are /dev/null and all
 * others are closed; memory that is shared with the parent (libbpf maps the kernel's tables so) is
 * unmapped. Root becomes nobody; nobody has capabilities, nor can it get any, trace us or be traced
 * by us. The child dies with the thread that forked it, and is the first to go when the machine
 * runs out of memory. The caller has blocked all signals before the fork: no handler may run here.
 * parent: who forked. 0 or negative errno: then the child must not go on. */
int sandbox__leave(pid_t parent, const int *fds, size_t n);

/* Second step: at most cpu_s seconds of CPU and memory_bytes of address space more than now (not
 * under AddressSanitizer, which needs terabytes), no files, no processes, and of system calls only
 * those that malloc, libelf and libdw cannot do without: reading and mapping what is open, without
 * execution, and writing to out_fd. Anything else fails with EPERM. 0 or negative errno, as above.
 */
int sandbox__seal(unsigned int cpu_s, uint64_t memory_bytes, int out_fd);

#endif
