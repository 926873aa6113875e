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
	pid_t parent;  /* the parent's pid; 0: memtrace cannot see a parent */
	uint32_t euid; /* effective user, as in memtrace's own user namespace */
	/* the name, with '?' for control characters; the name of a kernel worker has up to 63
	 * bytes */
	char comm[64];
	char state;	    /* 'R', 'S', 'Z', ... of /proc/PID/stat */
	bool kernel_thread; /* PF_KTHREAD is set in the flags of /proc/PID/stat */
	/* the CPU keeps a second copy of the process's return addresses (x86_Thread_features:
	 * shstk) */
	bool shadow_stack;
	bool compat32;	       /* a 32-bit program: EI_CLASS of /proc/PID/exe is ELFCLASS32 */
	uint64_t start_ticks;  /* field 22 of /proc/PID/stat. The pair of pid and start_ticks
				* identifies the process */
	char exe[4096];	       /* target of the link /proc/PID/exe, "" when unreadable */
	uint32_t threads;      /* number of threads */
	uint64_t rss_bytes;    /* resident set */
	uint64_t minor_faults; /* page faults so far, of all threads, without a read from a disk */
};

/* Reads /proc/PID. 0, -ESRCH, or another negative errno. */
int process__read(pid_t pid, struct process_info *ret_info);

/* Like process__read(), but reads only /proc/PID/stat, at a third of the cost. Sets pid, comm,
 * state, parent, kernel_thread, threads, start_ticks, rss_bytes and minor_faults; the other members
 * become zero. 0 or negative errno. */
int process__read_stat(pid_t pid, struct process_info *ret_info);

/* Returns a text for a message: why a file below /proc/PID could not be read. The text says that
 * the process has ended, or that memtrace is not permitted to read it. For other errors it is
 * errno's own text. `rc`: the negative errno. The text is static, or that of strerror(). */
const char *process__why(int rc);

/* Is any thread of the process alive? A main thread that has ended stays as a zombie while other
 * threads live. */
bool process__lives(const struct process_info *info);

/* Has its main thread ended, while other threads live? */
bool process__is_headless(const struct process_info *info);

/* Returns the id under which /proc shows pid's memory, program and root. Usually this is pid. But
 * if the main thread has ended while other threads live, /proc/PID/maps is empty, and /proc/PID/exe
 * and root lead nowhere. Then the result is another thread's id. */
pid_t process__living_thread(pid_t pid);

/* Opens the file called `name` in /proc/ID, where ID is what process__living_thread() returns.
 * `flags`: as of open(2); O_CLOEXEC is added. A descriptor, or negative errno (-ESRCH: there is no
 * such process). */
int process__open(pid_t pid, const char *name, int flags);

/* Calls fn for every process (not thread) that is in /proc at the beginning, ascending by pid. If
 * fn returns a value other than 0, stops and returns that value. Otherwise returns 0, or negative
 * errno. When fn is called, the process may have ended, and another process may have its pid. */
int process__each(int (*fn)(pid_t pid, void *ctx), void *ctx);

/* Reads how many bytes of anonymous memory pid has in use, resident or swapped out. This number
 * grows with the heap and with other private memory. 0 or negative errno. Source: RssAnon, VmSwap
 * and HugetlbPages in /proc/PID/status. */
int process__anon_bytes(pid_t pid, uint64_t *ret_bytes);

/* Reads how many bytes of the resident set are mapped files or shared memory. 0 or negative errno.
 * Source: RssFile and RssShmem in /proc/PID/status. */
int process__file_bytes(pid_t pid, uint64_t *ret_bytes);

/* Reads the resident set in bytes: VmRSS in /proc/PID/status. 0 or negative errno (-ESRCH: the
 * process has no memory any more). */
int process__rss_bytes(pid_t pid, uint64_t *ret_bytes);

/* Opens the list of pid's threads; the caller closes it. NULL with errno set. */
DIR *process__open_threads(pid_t pid);
/* The id of the next thread; 0: there is none, or threads is NULL. */
pid_t process__next_thread(DIR *threads);

/* Reads the stack pointers of at most `max` threads of pid that are not running just now, in no
 * order. They show where the stacks are. Returns how many; 0 if the kernel does not show them.
 * Source: thread_state__read(). */
size_t process__stack_pointers(pid_t pid, uint64_t *sps, size_t max);

/* Do all threads of pid sleep at this moment? True means that no thread runs, and that no thread
 * waits for a CPU, a disk or a lock in the kernel. false also if pid has more than `max` threads,
 * or cannot be read. Source: /proc/PID/task/TID/stat. */
bool process__sleeps(pid_t pid, size_t max);

/* Reads the CPU time (user + system) in nanoseconds that all threads of pid have used, dead threads
 * included. 0, -ESRCH or other negative errno. Source: the clock of clock_getcpuclockid(3). If a
 * thread runs on another CPU, its time may lag by up to one tick of the kernel. */
int process__cpu_time_ns(pid_t pid, uint64_t *ret_ns);

/* Reads how many bytes pid's threads, dead threads included, have read and written by system calls:
 * rchar + wchar. 0 or negative errno. Source: /proc/PID/io. */
int process__io_bytes(pid_t pid, uint64_t *ret_bytes);

/* How often a process's threads have waited, and who these threads are. */
struct process_waits {
	uint64_t n;	  /* voluntary context switches of all living threads together */
	uint64_t threads; /* a hash of the threads' ids. If it is the same at two moments, no thread
			   * has ended or begun between them (or its id is in use again) */
};

/* Reads how often pid's threads have waited. 0; -E2BIG: pid has more than `max` threads; other
 * negative errno. Takes some 10 us for each thread. Source: voluntary_ctxt_switches in
 * /proc/PID/task/TID/status. */
int process__waits(pid_t pid, size_t max, struct process_waits *ret);

/* Returns the value of `type` (AT_PHDR, AT_BASE, ...) in the auxiliary vector that the kernel gave
 * the process at its exec. 0 when the vector has no such value or cannot be read. */
uint64_t process__auxv(pid_t pid, uint64_t type);

/* The place of the file with the names of a process's JIT code. The file may not exist. The place
 * can still be used after the process has ended. */
struct perf_map_place {
	int root_fd; /* the process's own root (O_PATH); the caller closes it */
	/* the path below root_fd: tmp/perf-N.map. N is the pid by which the process knows itself,
	 * in its innermost pid namespace */
	char path[64];
	uid_t owner; /* effective user of the process */
};

/* Finds the place for pid. 0; -ESRCH: there is no such process; other negative errno. */
int process__find_perf_map(pid_t pid, struct perf_map_place *ret_place);

/* Opens the file at this place (symbolize/perf_map.h reads it). The file is as hostile as its
 * writer, and everybody may write to /tmp. So only a regular file is opened, and only one that
 * belongs to the user of the process. A descriptor (read-only, close-on-exec), or negative errno.
 * -ENOENT: there is no such file; -EPERM: it is another user's; -ELOOP: it is a symbolic link;
 * -EINVAL: it is not a regular file. Never blocks on a FIFO or device. */
int process__open_perf_map(const struct perf_map_place *place);

#endif
