/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc tells of a process. */
#ifndef MEMTRACE_PROC_PROCESS_H
#define MEMTRACE_PROC_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_info {
	pid_t pid;
	pid_t tgid;    /* id of the thread group; differs from pid when pid names a thread */
	pid_t parent;  /* its pid; 0: none that we can see */
	uint32_t euid; /* effective user, as in our own user namespace */
	/* name, control characters replaced by '?'; a kernel worker's has up to 63 bytes */
	char comm[64];
	char state;	    /* 'R', 'S', 'Z', ... of /proc/PID/stat */
	bool kernel_thread; /* PF_KTHREAD is set in the flags of /proc/PID/stat */
	/* the CPU keeps a second copy of its return addresses (x86_Thread_features: shstk) */
	bool shadow_stack;
	bool compat32;	       /* a 32-bit program: EI_CLASS of /proc/PID/exe is ELFCLASS32 */
	uint64_t start_ticks;  /* field 22 of stat: with pid, the process's identity */
	char exe[4096];	       /* target of the link /proc/PID/exe, "" when unreadable */
	uint32_t threads;      /* number of threads */
	uint64_t rss_bytes;    /* resident set */
	uint64_t minor_faults; /* page faults that needed no reading, of all threads so far */
};

/* Reads /proc/PID. 0, -ESRCH, or another negative errno. comm may hold ')' and blanks: stat is
 * parsed from its last ')' on. */
int process__read(pid_t pid, struct process_info *ret_info);

/* Like process__read(), but reads only /proc/PID/stat, at a third of the cost. Sets pid, comm,
 * state, parent, kernel_thread, threads, start_ticks, rss_bytes and minor_faults; all else is zero.
 * 0 or negative errno. */
int process__read_stat(pid_t pid, struct process_info *ret_info);

/* Why a file below /proc/PID could not be read, for a message: that the process has ended, who may
 * read the file, or else errno's own text. rc: the negative errno. The text is static, or
 * strerror()'s. */
const char *process__why(int rc);

/* Is any thread of the process alive? A main thread that has ended stays as a zombie while others
 * live. */
bool process__lives(const struct process_info *info);

/* The id under which /proc shows pid's memory, program and root. It is pid, unless the main thread
 * has ended while others live: then /proc/PID/maps is empty, /proc/PID/exe and root lead nowhere,
 * and another thread's id is needed. */
pid_t process__living_thread(pid_t pid);

/* Opens the file called name in /proc/ID, for this id. flags: as of open(2); O_CLOEXEC is added. A
 * descriptor, or negative errno (-ESRCH: there is no such process). */
int process__open(pid_t pid, const char *name, int flags);

/* Calls fn for every process (not thread) that is in /proc at the beginning, ascending by pid. If
 * fn returns something other than 0, stops and returns it. Otherwise returns 0, or negative errno.
 * When fn is called, a process may have ended, and another may have its pid. */
int process__each(int (*fn)(pid_t pid, void *ctx), void *ctx);

/* Anonymous memory that pid has in use, resident or swapped out, bytes. This amount grows with the
 * heap and with other private memory. 0 or negative errno. Source: RssAnon, VmSwap and HugetlbPages
 * in /proc/PID/status. */
int process__anon_bytes(pid_t pid, uint64_t *ret_bytes);

/* The resident set, bytes: VmRSS in /proc/PID/status. 0 or negative errno (-ESRCH: the process has
 * no memory any more). */
int process__rss_bytes(pid_t pid, uint64_t *ret_bytes);

/* Opens the list of pid's threads; the caller closes it. NULL with errno set. */
DIR *process__open_threads(pid_t pid);
/* The id of the next thread; 0: there is none, or threads is NULL. */
pid_t process__next_thread(DIR *threads);

/* The stack pointers of those threads of pid that are not running just now, at most max, in no
 * order. They tell where the stacks are. Returns how many; 0 if the kernel does not tell. Source:
 * /proc/PID/task/TID/syscall. */
size_t process__stack_pointers(pid_t pid, uint64_t *sps, size_t max);

/* Do all threads of pid sleep just now: none runs, none waits for a CPU, a disk or a lock in the
 * kernel? false also if pid has more than max threads, or cannot be read. Source:
 * /proc/PID/task/TID/stat. */
bool process__sleeps(pid_t pid, size_t max);

/* CPU time (user + system) that all threads of pid have used, dead ones included, nanoseconds. 0,
 * -ESRCH or other negative errno. Source: the clock of clock_getcpuclockid(3). For a thread that
 * runs on another CPU, the time may lag by a tick of the kernel. */
int process__cpu_time_ns(pid_t pid, uint64_t *ret_ns);

/* Bytes that pid's threads, dead ones included, have read and written by system calls: rchar +
 * wchar. 0 or negative errno. Source: /proc/PID/io. */
int process__io_bytes(pid_t pid, uint64_t *ret_bytes);

/* The value of type (AT_PHDR, AT_BASE, ...) in the auxiliary vector that the kernel gave the
 * process at its exec. 0 when it has no such value or cannot be read. */
uint64_t process__auxv(pid_t pid, uint64_t type);

/* Where a process's JIT compiler puts the names of its code, if it writes them at all. The place
 * outlives the process. */
struct perf_map_place {
	int root_fd;   /* the process's own root (O_PATH); the caller closes it */
	char path[64]; /* below root_fd: tmp/perf-N.map, N being the process's pid in the innermost
			* pid namespace, as it sees itself */
	uid_t owner;   /* effective user of the process */
};

/* Finds the place for pid. 0; -ESRCH no such process; other negative errno. */
int process__find_perf_map(pid_t pid, struct perf_map_place *ret_place);

/* Opens the file at this place (symbolize/perf_map.h reads it). The file is as hostile as its
 * writer, and everybody may write to /tmp. So only a regular file is opened, and only one that
 * belongs to the user of the process. A descriptor (read-only, close-on-exec), or negative errno:
 * -ENOENT there is no such file; -EPERM another user's; -ELOOP a symbolic link; -EINVAL not a
 * regular file. Never blocks on a FIFO or device. */
int process__open_perf_map(const struct perf_map_place *place);

#endif
