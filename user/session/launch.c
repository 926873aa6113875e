// SPDX-License-Identifier: BSD-2-Clause
#include "session/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/maps.h"
#include "proc/process.h"

/* at most this many stops are followed while a program starts */
#define MAX_STOPS 100000

/* Runs in the child: waits until memtrace traces this process, then becomes the command. */
static void run_command(char *const argv[], int go, int report)
{
	char byte;
	int error;

	if (read(go, &byte, 1) != 1)
		_exit(127);
	execvp(argv[0], argv);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* Waits for the next stop. If the process has stopped for a signal, the caller's next ptrace()
 * passes this signal on. -ESRCH if the process has ended. */
static int wait_stop(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(*ret_status) ? 0 : -ESRCH;
}

/* Returns the signal for which the process has stopped; 0: it has stopped for another reason. */
static int pending_signal(int status)
{
	int sig = WSTOPSIG(status);

	if (status >> 16 || sig == (SIGTRAP | 0x80))
		return 0;
	return sig;
}

int launch__fork(char *const argv[], struct launch *ret, struct error *err)
{
	_cleanup_close_ int go_r = -1, go_w = -1, report_r = -1, report_w = -1;
	int go[2], report[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return error__set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	go_r = go[0];
	go_w = go[1];
	if (pipe2(report, O_CLOEXEC))
		return error__set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	report_r = report[0];
	report_w = report[1];
	pid = fork();
	if (pid < 0)
		return error__set(err, -errno, "cannot fork: %s", strerror(errno));
	if (!pid) {
		/* without this, the child itself would keep the pipe open when memtrace is
		 * killed */
		close(go_w);
		close(report_r);
		run_command(argv, go_r, report_w);
	}
	*ret = (struct launch){.pid = pid,
			       .waiting = true,
			       .go_fd = take_fd(&go_w),
			       .report_fd = take_fd(&report_r)};
	return 0;
}

static void stop_waiting(struct launch *launch)
{
	if (!launch->waiting)
		return;
	launch->waiting = false;
	close(launch->go_fd);
	close(launch->report_fd);
}

/* Waits for the exec of the process, or for its end. */
static int wait_exec(struct launch *launch, const char *name, struct error *err)
{
	int status, rc, error = 0;

	for (;;) {
		rc = wait_stop(launch->pid, &status);
		if (rc)
			break;
		if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXEC << 8)))
			return 0;
		ptrace(PTRACE_CONT, launch->pid, 0, pending_signal(status));
	}
	launch->pid = 0;
	if (read(launch->report_fd, &error, sizeof(error)) == sizeof(error))
		return error__set(err, -error, "cannot run %s: %s%s", name, strerror(error),
				  error == ENOENT && !strchr(name, '/') ? ": it is not in PATH"
				  : error == EACCES ? ": it is not a file that may be executed"
						    : "");
	return error__set(err, rc, "%s was ended before its first instruction", name);
}

int launch__start(struct launch *launch, const char *name, struct error *err)
{
	int rc = 0;

	if (ptrace(PTRACE_SEIZE, launch->pid, 0,
		   PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD))
		rc = error__set(err, -errno, "cannot take hold of the command with ptrace: %s",
				strerror(errno));
	if (!rc && write(launch->go_fd, "", 1) != 1)
		rc = error__set(err, -EIO, "cannot start %s", name);
	if (!rc)
		rc = wait_exec(launch, name, err);
	stop_waiting(launch);
	if (rc) {
		launch__kill(launch);
		return rc;
	}
	launch->held = true;
	launch->interp_addr = process__auxv(launch->pid, AT_BASE);
	launch->loading = launch->interp_addr != 0;
	return 0;
}

/* Is ip outside the dynamic linker's file? Also false if the mapping of ip or of the dynamic linker
 * is not known. */
static bool outside_interp(const struct launch *launch, uint64_t ip)
{
	const struct map_entry *interp, *at;
	struct maps maps;
	bool outside = false;

	if (maps__read(launch->pid, &maps))
		return false;
	interp = maps__find(&maps, launch->interp_addr);
	at = maps__find(&maps, ip);
	if (interp && at && at->file.inode)
		outside = !file_id__equal(&at->file, &interp->file);
	maps__free(&maps);
	return outside;
}

int launch__next_mapping(struct launch *launch, int *ret_status)
{
	int status = 0, sig = 0, rc;

	for (int stops = 0; stops < MAX_STOPS; stops++) {
		struct __ptrace_syscall_info info = {};

		if (ptrace(PTRACE_SYSCALL, launch->pid, 0, sig) && errno != ESRCH)
			return -errno;
		rc = wait_stop(launch->pid, &status);
		if (rc) {
			*ret_status = status;
			launch->pid = 0;
			launch->held = false;
			return rc;
		}
		sig = pending_signal(status);
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, launch->pid, sizeof(info), &info) < 0)
			return -errno;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
			launch->maps_code = info.entry.nr == SYS_mmap &&
					    (info.entry.args[2] & PROT_EXEC) &&
					    (int)info.entry.args[4] >= 0;
			/* glibc's ld.so calls set_tid_address when all libraries are mapped and
			 * before any of their code runs. Another dynamic linker may call it
			 * earlier. Then libraries that it maps after the call are not followed. */
			if (info.entry.nr == SYS_set_tid_address ||
			    outside_interp(launch, info.instruction_pointer)) {
				launch->loading = false;
				return 0;
			}
		} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && launch->maps_code) {
			launch->maps_code = false;
			if (!info.exit.is_error)
				return 1;
		}
	}
	launch->loading = false;
	return 0;
}

int launch__release(struct launch *launch)
{
	if (!launch->held)
		return 0;
	launch->held = false;
	return ptrace(PTRACE_DETACH, launch->pid, 0, 0) ? -errno : 0;
}

void launch__kill(struct launch *launch)
{
	stop_waiting(launch);
	if (launch->pid <= 0)
		return;
	kill(launch->pid, SIGKILL);
	while (waitpid(launch->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	launch->pid = 0;
	launch->held = false;
}
