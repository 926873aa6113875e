/* SPDX-License-Identifier: BSD-2-Clause */
/* A sandbox for a forked child. The child will run a library on data that may be hostile. So it
 * first gives up all rights for ever, except to compute and to read the files that it was given.
 *
 * There are two steps. Between them the child may open one more file, as the user nobody if
 * memtrace is root. */
#ifndef MEMTRACE_SANDBOX_SANDBOX_H
#define MEMTRACE_SANDBOX_SANDBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SANDBOX_FIRST_FD 3
#define SANDBOX_MAX_FDS	 8
#define SANDBOX_NOBODY	 65534 /* user and group */

/* Like fork__blocked(), for a child that calls sandbox__leave(). Returns in the parent when the
 * child has closed its copies of all descriptors of probes. Otherwise a probe that the parent
 * closes would stay in place until the child closes its copy. A child that does not begin to close
 * them within a second, because it is stopped or gets no CPU, is killed. In this case, returns -1
 * with errno ETIMEDOUT. The parent waits at most 10 s for a child that has begun to close them. */
pid_t sandbox__fork(void);

/* First step. Descriptor fds[i] becomes SANDBOX_FIRST_FD + i, for 0 <= i < n. Descriptors 0 to 2
 * become /dev/null. All others are closed, files last, because closing a file may take for ever (on
 * FUSE or a network file system). Memory shared with the parent is unmapped (libbpf maps the
 * kernel's tables as shared). Root becomes the user nobody. The child has no capabilities and
 * cannot get any. It cannot trace the parent. Only a process with CAP_SYS_PTRACE can trace the
 * child. The child dies with the thread that forked it, and is the first to be killed when the
 * machine runs out of memory. The caller has blocked all signals before the fork, because no signal
 * handler may run here. parent: the pid of the forking process. Returns 0; after a negative errno
 * the child must not go on. */
int sandbox__leave(pid_t parent, const int *fds, size_t n);

/* Like sandbox__leave(), but the child keeps its user. Even if this is root, the child has no
 * capabilities. */
int sandbox__leave_as_user(pid_t parent, const int *fds, size_t n);

/* Second step. From now on the child has at most cpu_s seconds of CPU time, at most memory_bytes of
 * additional memory, and at most mapped_bytes of additional address space for files that it maps.
 * (Under AddressSanitizer, which needs terabytes, memory has no limit.) It can open no files and
 * create no processes. Only the system calls that malloc, libelf, libdw and gentle.h need are
 * allowed: reading open files, mapping them (but not as code), sleeping, and writing to out_fd,
 * which must not be a regular file. All others fail with EPERM. Returns 0; after a negative errno
 * the child must not go on. */
int sandbox__seal(unsigned int cpu_s, uint64_t memory_bytes, uint64_t mapped_bytes, int out_fd);

#endif
