/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc says of one process, and of the rights of this one. */
#ifndef MEMTRACE_PROC_PROCESS_H
#define MEMTRACE_PROC_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_info {
	pid_t pid;
	pid_t tgid;	      /* of the thread group; differs from pid when pid names a thread */
	pid_t parent;	      /* its pid; 0: none that we can see */
	uint32_t euid;	      /* effective user, as in our own user namespace */
	char comm[64];	      /* name, control characters replaced by '?' (workers: up to 63) */
	char state;	      /* 'R', 'S', 'Z', ... of /proc/PID/stat */
	bool kernel_thread;   /* PF_KTHREAD is set in the flags of /proc/PID/stat */
	bool shadow_stack;    /* its return addresses are kept twice (x86_Thread_features: shstk) */
	bool compat32;	      /* a 32-bit program: EI_CLASS of /proc/PID/exe is ELFCLASS32 */
	uint64_t start_ticks; /* field 22 of stat: with pid, the process's identity */
	char exe[4096];	      /* target of /proc/PID/exe, "" when unreadable */
	uint32_t threads;     /* number of threads */
	uint64_t rss_bytes;   /* resident set */
	uint64_t minor_faults; /* page faults that needed no reading, of all threads so far */
};

/* 0, -ESRCH, or another negative errno. comm may hold ')' and blanks: stat is parsed from its last
 * ')' on. */
int process__read(pid_t pid, struct process_info *ret_info);

/* What /proc/PID/stat alone says (pid, comm, state, parent, kernel_thread, threads, start_ticks,
 * rss_bytes, minor_faults; all else is zero), at a third of the cost. 0 or negative errno. */
int process__read_stat(pid_t pid, struct process_info *ret_info);

/* Calls fn for every process (not thread) that is in /proc at the beginning, ascending by pid,
 * until it returns something other than 0, which is then returned. 0, or negative errno. A process
 * may have ended by the time fn hears of it, and another have its pid. */
int process__each(int (*fn)(pid_t pid, void *ctx), void *ctx);

/* Anonymous memory that pid has in use, resident or swapped out, bytes: what its heap and its other
 * private memory grow by. 0 or negative errno. Source: RssAnon, VmSwap and HugetlbPages in
 * /proc/PID/status. */
int process__anon_bytes(pid_t pid, uint64_t *ret_bytes);

/* The resident set as VmRSS in /proc/PID/status has it, bytes. 0 or negative errno (-ESRCH: it has
 * none any more). */
int process__rss_bytes(pid_t pid, uint64_t *ret_bytes);

/* The threads of pid, to be closed by the caller. NULL with errno. */
DIR *process__open_threads(pid_t pid);
/* The id of the next one; 0: there is none, or threads is NULL. */
pid_t process__next_thread(DIR *threads);

/* Where the stacks of pid's threads are: the stack pointers of those that are not running just now,
 * at most max, in no order. Their number; 0 where the kernel does not tell. Source:
 * /proc/PID/task/TID/syscall. */
size_t process__stack_pointers(pid_t pid, uint64_t *sps, size_t max);

/* Do all threads of pid sleep just now: none runs, none waits for a CPU, a disk or a lock in the
 * kernel? false also of one with more than max threads, and of one that cannot be read. Source:
 * /proc/PID/task/TID/stat. */
bool process__sleeps(pid_t pid, size_t max);

/* CPU time (user + system) that all threads of pid have used, dead ones included, nanoseconds.
 * 0, -ESRCH or other negative errno. Source: clock_getcpuclockid(3). */
int process__cpu_time_ns(pid_t pid, uint64_t *ret_ns);

/* Bytes that have gone through the system calls of pid's threads that read and write, dead ones
 * included: rchar + wchar. 0 or negative errno. Source: /proc/PID/io. */
int process__io_bytes(pid_t pid, uint64_t *ret_bytes);

/* The value of type (AT_PHDR, AT_BASE, ...) in the auxiliary vector that the kernel gave the
 * process at its exec; 0 when it has none or cannot be read. */
uint64_t process__auxv(pid_t pid, uint64_t type);

/* Where a process's JIT compiler names its code, if it does: a place that outlives the process. */
struct perf_map_place {
	int root_fd;   /* the process's own root (O_PATH); the caller closes it */
	char path[64]; /* below it: tmp/perf-N.map, N being its pid as it sees it itself, in the
			* innermost pid namespace */
	uid_t owner;   /* its effective user */
};

/* 0; -ESRCH no such process; other negative errno. */
int process__find_perf_map(pid_t pid, struct perf_map_place *ret_place);

/* Opens that file (symbolize/perf_map.h reads it). It is as hostile as its writer, and /tmp is
 * everybody's: only a regular file is taken, and only one that belongs to the user of the process.
 * A descriptor (read-only, close-on-exec), or negative errno: -ENOENT there is no such file; -EPERM
 * another user's; -ELOOP a symbolic link; -EINVAL not a regular file. Never blocks on a FIFO or
 * device. */
int process__open_perf_map(const struct perf_map_place *place);

#endif
