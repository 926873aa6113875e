// SPDX-License-Identifier: BSD-2-Clause
/* Selects processes that nobody named. The processes that exist when the run begins are examined
 * here. The kernel side judges later processes, at their exec or fork, by the same conditions. The
 * kernel side cannot judge a program's path. So it asks selection__judge() once per program file,
 * and again when the program file has changed. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/cgroup.h"
#include "proc/process.h"
#include "session/internal.h"

void selection__to_kernel(const struct session_selection *selection, struct abi_selection *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->dynamic = selection->dynamic;
	ret->follow = selection->follow;
	for (size_t i = 0; i < selection->n_comms && i < ABI_MAX_WANTED; i++)
		strncpy(ret->comms[ret->n_comms++], selection->comms[i], ABI_COMM_LEN - 1);
	for (size_t i = 0; i < selection->n_users && i < ABI_MAX_WANTED; i++)
		ret->users[ret->n_users++] = selection->users[i];
	if (selection->cgroup) {
		ret->cgroup = selection->cgroup->id;
		ret->cgroup_level = selection->cgroup->level;
	}
	ret->by_exe = selection->exe != NULL;
}

/* Does the program's path match? If the program's file was deleted, or replaced by a newer one,
 * while the program runs, the kernel adds " (deleted)" to the path. */
static bool exe_matches(const char *glob, const char *exe)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(exe), n = strlen(deleted);
	char path[4096];

	if (!fnmatch(glob, exe, 0))
		return true;
	if (len < n || len - n >= sizeof(path) || strcmp(exe + len - n, deleted))
		return false;
	memcpy(path, exe, len - n);
	path[len - n] = '\0';
	return !fnmatch(glob, path, 0);
}

static bool fits(const struct session_selection *selection, const struct process_info *info)
{
	bool found = !selection->n_comms;

	for (size_t i = 0; i < selection->n_comms; i++)
		found = found || !strncmp(info->comm, selection->comms[i], ABI_COMM_LEN - 1);
	if (!found)
		return false;
	found = !selection->n_users;
	for (size_t i = 0; i < selection->n_users; i++)
		found = found || info->euid == selection->users[i];
	if (!found)
		return false;
	if (selection->exe && !exe_matches(selection->exe, info->exe))
		return false;
	return !selection->cgroup || cgroup__holds(selection->cgroup, info->pid);
}

/* After the facts of the process were read, and before the kernel side knew the process: has the
 * process executed a program that does not fit? The kernel side takes no notice of an exec of a
 * process that it does not know. judged: the kernel side has judged the name and the user of the
 * present program. (Programs often change their name a moment later.) */
static bool left_selection(const struct session_selection *selection, pid_t pid, bool judged)
{
	struct process_info now;

	if (selection->follow || process__read(pid, &now) || !now.exe[0])
		return false;
	return judged ? selection->exe && !exe_matches(selection->exe, now.exe)
		      : !fits(selection, &now);
}

/* Makes one process a target. A process that cannot be traced is skipped, because nobody named it.
 * judged_ns: when the process executed a program that was not judged yet; 0: a scan found the
 * process. cpu_ns: the CPU time that the process had used by then. capture__add_process() refuses a
 * process that the kernel side traces already. So if the call succeeds although a target has this
 * pid, the exec has ended that target, and the news of the target's end was lost. Then this
 * function notes the end. */
static void take_in(struct session *s, pid_t pid, uint64_t judged_ns, uint64_t cpu_ns)
{
	struct abi_event event = {
		.kind = EVENT_NEW, .tgid = (uint32_t)pid, .time_ns = judged_ns, .cpu_ns = cpu_ns};
	struct target *t = targets__find(s, pid);
	int rc;

	if ((t && !t->exit_ns && !judged_ns) || active__is_paused(s, pid))
		return;
	rc = capture__add_process(s->capture, pid, &event.process, NULL);
	if (rc) {
		s->processes_refused += rc == -E2BIG || rc == -ENOMEM;
		return;
	}
	if (t && !t->exit_ns)
		t->exit_ns = judged_ns;
	if (left_selection(s->selection, pid, judged_ns)) {
		capture__release_process(s->capture, pid);
		capture__drop_process(s->capture, event.process);
		s->records_left = true;
		return;
	}
	targets__welcome(s, &event);
}

static int scan_one(pid_t pid, void *ctx)
{
	struct session *s = ctx;
	struct process_info info;

	if (session__check_pid(pid, NULL) || process__read(pid, &info) ||
	    info.parent == getpid() || /* one of memtrace's own helpers */
	    !fits(s->selection, &info))
		return 0;
	take_in(s, pid, 0, 0);
	return 0;
}

static int scan_child(pid_t pid, void *ctx)
{
	struct session *s = ctx;
	struct process_info info;

	if (!session__check_pid(pid, NULL) && !process__read(pid, &info) &&
	    targets__find(s, info.parent))
		take_in(s, pid, 0, 0);
	return 0;
}

/* Scans until a round finds no further process. A process may have forked after /proc was listed,
 * and before the kernel side followed its forks: the next round finds the child. With scan_child(),
 * each round finds the children of the targets of the round before. Once the table is full, further
 * rounds would only refuse the same processes again. */
static int scan_all(struct session *s, int (*scan)(pid_t pid, void *ctx))
{
	size_t before;
	int rc;

	do {
		before = s->n_targets;
		rc = process__each(scan, s);
	} while (!rc && s->n_targets > before && !s->processes_refused);
	return rc;
}

int selection__scan(struct session *s, struct error *err)
{
	int rc = s->selection->dynamic ? scan_all(s, scan_one) : 0;

	if (!rc && s->selection->follow)
		rc = scan_all(s, scan_child);
	return rc ? error__set(err, rc, "cannot read /proc: %s", strerror(-rc)) : 0;
}

/* Does the process still run the program? Compares the file's time of change, not its inode number:
 * on some file systems stat shows another number than the kernel uses itself. */
static bool still_runs(pid_t pid, const struct abi_program *program)
{
	struct statx now;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", process__living_thread(pid));
	/* The kernel side compares the time of change, too. AT_STATX_DONT_SYNC: the file system is
	 * not asked, so it cannot make memtrace hang. */
	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_CTIME, &now) &&
	       (uint64_t)now.stx_ctime.tv_sec == program->changed_s &&
	       now.stx_ctime.tv_nsec == program->changed_ns;
}

void selection__judge(struct session *s, const struct abi_event *event)
{
	struct process_info info;
	bool wanted;

	if (process__read((pid_t)event->tgid, &info) || !info.exe[0]) {
		/* most likely it has ended: nobody can tell any more whether it was wanted */
		s->unseen++;
		return;
	}
	wanted = exe_matches(s->selection->exe, info.exe);
	/* After another exec, info.exe is not the path of the file that was asked about. */
	if (still_runs((pid_t)event->tgid, &event->exe))
		capture__judge_program(s->capture, &event->exe, wanted);
	if (wanted)
		take_in(s, (pid_t)event->tgid, event->time_ns, event->cpu_ns);
}
