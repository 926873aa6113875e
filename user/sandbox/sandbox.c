// SPDX-License-Identifier: BSD-2-Clause
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/priority.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

#define BEGIN_MS 1000 /* how long to wait until the child begins to close descriptors */
/* how long to wait until the child has closed its descriptors. The child's close takes long if the
 * parent has closed its own copy before */
#define CLOSE_MS 10000
#define LOOK_US	 200

/* How far a child is in closing its descriptors. This is kept in memory that the parent shares with
 * the child. While a child has a copy of a probe's descriptor, the probe stays in place, even if
 * the parent closes its own descriptor. */
enum { FORKED, CLOSING, CLOSED, TOO_LATE };

static atomic_int *progress; /* NULL in a process that sandbox__fork() has not forked */

/* --- in the parent --- */

static bool has_ended(pid_t pid)
{
	siginfo_t info = {};

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

/* Waits until the child is CLOSED or has ended, but at most CLOSE_MS. Returns false if the child
 * has not even begun to close its descriptors after BEGIN_MS. A child that is closing descriptors
 * is not killed. It may have the last copy of a probe's descriptor, and then a kill would leave the
 * breakpoint in place (capture/shield.c). */
static bool wait_closed(pid_t pid)
{
	double began = clock__monotonic_s(), ms = 0;

	while (atomic_load(progress) != CLOSED && !has_ended(pid)) {
		if (ms > BEGIN_MS &&
		    atomic_compare_exchange_strong(progress, &(int){FORKED}, TOO_LATE))
			return false;
		if (ms > CLOSE_MS)
			break;
		usleep(LOOK_US);
		ms = 1e3 * (clock__monotonic_s() - began);
	}
	return true;
}

pid_t sandbox__fork(void)
{
	void *shared = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool is_late = false;
	pid_t pid;

	if (shared == MAP_FAILED)
		return -1;
	progress = shared;
	/* memtrace does no other work until the child has closed its copies */
	priority__lend();
	pid = fork__blocked();
	if (!pid)
		return 0;
	priority__take_back();
	is_late = pid > 0 && !wait_closed(pid);
	progress = NULL;
	munmap(shared, sizeof(*progress));
	if (!is_late)
		return pid;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = ETIMEDOUT;
	return -1;
}

/* --- in the child --- */

static bool is_one_of(int fd, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fd == fds[i])
			return true;
	return false;
}

/* Closes all descriptors from SANDBOX_FIRST_FD on, except fds[0..n) and those of files. All
 * descriptors that hold probes are among the closed ones. Closing a file may take for ever: FUSE
 * asks its server, and a network file system writes what is left to write. lseek() tells which
 * descriptors are files. It fails on all other descriptors, and does not ask the file system.
 * False: there is no /proc, or no descriptor left to read it. */
static bool close_all_but_files(const int *fds, size_t n)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd >= SANDBOX_FIRST_FD && fd != dirfd(dir) && !is_one_of(fd, fds, n) &&
		    lseek(fd, 0, SEEK_CUR) < 0)
			close(fd);
	}
	return dir;
}

static void say_closed(void)
{
	if (progress)
		atomic_store(progress, CLOSED);
	progress = NULL; /* unmap_shared() will unmap it */
	priority__give_back();
}

/* Moves fds[0..n) to their final numbers, opens /dev/null as 0 to 2, and closes all others. */
static int keep_only(const int *fds, size_t n)
{
	int copies[SANDBOX_MAX_FDS], end = SANDBOX_FIRST_FD + (int)n, null;

	if (n > SANDBOX_MAX_FDS)
		return -EINVAL;
	if (progress && !atomic_compare_exchange_strong(progress, &(int){FORKED}, CLOSING))
		return -ETIMEDOUT;
	if (close_all_but_files(fds, n))
		say_closed();
	null = open("/dev/null", O_RDWR);
	null = null < 0 ? -1 : fcntl(null, F_DUPFD, end);
	if (null < 0)
		return -errno;
	/* First copy all to higher numbers, because a descriptor may have the final number of
	 * another one. */
	for (size_t i = 0; i < n; i++) {
		copies[i] = fcntl(fds[i], F_DUPFD, end);
		if (copies[i] < 0)
			return -errno;
	}
	for (int fd = 0; fd < end; fd++) {
		int from = fd < SANDBOX_FIRST_FD ? null : copies[fd - SANDBOX_FIRST_FD];

		if (dup2(from, fd) < 0)
			return -errno;
	}
	if (close_range((unsigned int)end, ~0u, 0))
		return -errno;
	say_closed();
	return 0;
}

/* Unmaps memory shared with the parent. A fork does not copy shared memory: a write to it in the
 * child would change the parent's memory. */
static int unmap_shared(void)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (!maps)
		return -errno;
	while (getline(&line, &room, maps) > 0) {
		uint64_t start, end;
		char mode[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, mode) != 3)
			return -EINVAL;
		if (mode[3] == 's' && munmap((void *)(uintptr_t)start, end - start))
			return -errno;
	}
	return ferror(maps) ? -EIO : 0;
}

/* Makes the kernel kill this child first when memory is short. A failure harms only memtrace. */
static void die_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		errno = 0;
	close(fd);
}

static int give_up(bool user)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (user && (!getuid() || !geteuid())) {
		if (setgroups(0, NULL) ||
		    setresgid(SANDBOX_NOBODY, SANDBOX_NOBODY, SANDBOX_NOBODY) ||
		    setresuid(SANDBOX_NOBODY, SANDBOX_NOBODY, SANDBOX_NOBODY))
			return -errno;
	}
	if (syscall(SYS_capset, &header, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	return 0;
}

static int leave(pid_t parent, const int *fds, size_t n, bool user)
{
	int err;

	err = keep_only(fds, n);
	if (err)
		return err;
	err = unmap_shared();
	if (err)
		return err;
	die_first();
	err = give_up(user);
	if (err)
		return err;
	/* The change of user clears the request for a signal at the parent's death, so the request
	 * is made after that change. If the parent has already exited, no signal comes, so the
	 * child also checks the parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

int sandbox__leave(pid_t parent, const int *fds, size_t n)
{
	return leave(parent, fds, n, true);
}

int sandbox__leave_as_user(pid_t parent, const int *fds, size_t n)
{
	return leave(parent, fds, n, false);
}

/* --- limits and system calls --- */

static int limit(int resource, rlim_t max)
{
	struct rlimit now;

	if (getrlimit(resource, &now))
		return -errno;
	if (now.rlim_max < max)
		max = now.rlim_max;
	now = (struct rlimit){max, max};
	return setrlimit(resource, &now) ? -errno : 0;
}

/* RLIMIT_DATA counts only memory that the child writes to. RLIMIT_AS also counts files that the
 * child maps. A file may be a hole of many terabytes, so a large file must not raise the limit of
 * memory. */
static int limit_memory(uint64_t more_bytes, uint64_t mapped_bytes)
{
	_cleanup_fclose_ FILE *statm = NULL;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages, data_pages;
	int rc;

	if (UNDER_ASAN)
		return 0;
	statm = fopen("/proc/self/statm", "re");
	if (!statm)
		return -errno;
	if (fscanf(statm, "%" SCNu64 " %*u %*u %*u %*u %" SCNu64, &pages, &data_pages) != 2)
		return -EINVAL;
	rc = limit(RLIMIT_DATA, data_pages * page + more_bytes);
	return rc ? rc : limit(RLIMIT_AS, pages * page + more_bytes + mapped_bytes);
}

#define LOAD(at)       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define DENY	       RETURN(SECCOMP_RET_ERRNO | EPERM)
/* Loads the low half of an argument (little-endian). Descriptors and protections fit into this
 * half. */
#define LOAD_ARG(i) LOAD(offsetof(struct seccomp_data, args) + 8 * (i))

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), RETURN(SECCOMP_RET_ALLOW)
/* Allows the call only when argument i is value. */
#define ALLOW_IF(nr, i, value)                                                                     \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 4), LOAD_ARG(i),                              \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 1, 0), DENY,                          \
		RETURN(SECCOMP_RET_ALLOW)
/* Allows the call only when argument i has none of these bits. */
#define ALLOW_WITHOUT(nr, i, bits)                                                                 \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 4), LOAD_ARG(i),                              \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1), DENY,                          \
		RETURN(SECCOMP_RET_ALLOW)

static int filter_calls(int out_fd)
{
	struct sock_filter program[] = {
		LOAD(offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		/* the numbers of x32 calls are different, so none of the rules below matches
		 * them */
		LOAD(offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_read),
		ALLOW(SYS_pread64),
		ALLOW(SYS_lseek),
		ALLOW_IF(SYS_write, 0, (unsigned int)out_fd),
		ALLOW(SYS_close),
		ALLOW(SYS_fstat),
		ALLOW_IF(SYS_newfstatat, 3, AT_EMPTY_PATH), /* glibc's fstat */
		ALLOW_IF(SYS_fcntl, 1, F_GETFD),	    /* libelf checks if a descriptor is
							     * open */
		ALLOW(SYS_brk),
		ALLOW_WITHOUT(SYS_mmap, 2, PROT_EXEC),
		ALLOW_WITHOUT(SYS_mprotect, 2, PROT_EXEC),
		ALLOW(SYS_munmap),
		ALLOW(SYS_mremap),
		ALLOW(SYS_madvise),
		ALLOW(SYS_futex),
		ALLOW(SYS_getrandom),
		ALLOW(SYS_clock_gettime),
		ALLOW(SYS_sysinfo), /* qsort asks how much memory there is */
		ALLOW(SYS_sched_yield),
		ALLOW(SYS_clock_nanosleep), /* gentle.h */
		ALLOW(SYS_restart_syscall),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_sigaltstack), /* AddressSanitizer, at _exit */
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		DENY,
	};
	const struct sock_fprog filter = {
		.len = sizeof(program) / sizeof(*program),
		.filter = program,
	};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) ? -errno : 0;
}

int sandbox__seal(unsigned int cpu_s, uint64_t memory_bytes, uint64_t mapped_bytes, int out_fd)
{
	int err;

	err = limit_memory(memory_bytes, mapped_bytes); /* first, because it opens a file */
	if (!err)
		err = limit(RLIMIT_CPU, cpu_s);
	if (!err)
		err = limit(RLIMIT_CORE, 0);
	if (!err)
		err = limit(RLIMIT_FSIZE, 0);
	if (!err)
		err = limit(RLIMIT_NPROC, 0);
	if (!err)
		err = limit(RLIMIT_NOFILE, 0);
	if (!err)
		err = filter_calls(out_fd);
	return err;
}
