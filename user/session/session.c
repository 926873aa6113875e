// SPDX-License-Identifier: BSD-2-Clause
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "capture/watch.h"
#include "elf/binary.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "session/build.h"
#include "session/launch.h"

/* Mappings that are gone are kept for the names of stacks from then, this many: a process may map
 * at ever new addresses. Beyond, frames there are without a mapping, and counted. */
#define MAX_GONE 16384

struct session {
	struct capture *capture;
	struct calibration calibration;
	bool calibrated;
	struct watch *watch;
	struct binaries *binaries;
	struct symbolizer *symbolizer;
	struct target *targets;
	size_t n_targets;
	struct launch launch;
	bool command_ended;
	struct rlimit command_files; /* the limit that the command is to have */
	int command_status;
	int epoll_fd;
	bool started, stopped;
	uint64_t start_ns, stop_ns, start_unix_ns;
	uint64_t watch_lost, watch_lost_seen;
	uint64_t interval;
	const struct alloc_extra *extra; /* functions that the user named */
	size_t n_extra;
	struct profile **profiles;
};

/* --- news from the kernel --- */

/* Whom the news is of. Not one that has ended: its pid may be another's by now. */
static struct target *find_target(struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i].info.pid == pid && !s->targets[i].ended)
			return &s->targets[i];
	return NULL;
}

static bool on_wanted(void *ctx, pid_t pid)
{
	return find_target(ctx, pid) != NULL;
}

/* Makes the file behind an executable mapping known, so that it can be unwound through and named
 * even when its process is gone. What fails is not remembered: another mapping may yet show the
 * file. */
static void hold_file(struct session *s, pid_t pid, const struct map_entry *entry)
{
	_cleanup_close_ int root = -1;
	struct binary *binary;
	char path[32];
	int fd;

	if (!entry->file.inode || binaries__find(s->binaries, &entry->file))
		return;
	fd = maps__open_file(pid, entry);
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	binaries__add(s->binaries, &entry->file, fd, root, entry->path, &binary);
}

/* The process runs code that lies in no file. What that is called it may say until its end, or after: where
 * is only known while it lives. */
static void note_jit(struct target *t)
{
	if (t->perf_map.root_fd < 0)
		process__find_perf_map(t->info.pid, &t->perf_map);
}

/* Brings a target's maps up to date from /proc, and keeps its files. */
static int refresh_maps(struct session *s, struct target *t)
{
	struct maps now;
	int rc = maps__read(t->info.pid, &now);

	if (rc)
		return rc;
	if (!now.n) { /* gone, or going: what is known stays */
		maps__free(&now);
		return -ESRCH;
	}
	for (size_t i = 0; i < now.n; i++) {
		t->code_replaced +=
			now.entries[i].executable && maps__replaces_code(&t->maps, &now.entries[i]);
		maps__insert(&t->maps, &now.entries[i]);
		if (now.entries[i].executable && now.entries[i].file.inode)
			hold_file(s, t->info.pid, &now.entries[i]);
		else if (now.entries[i].executable)
			note_jit(t);
	}
	t->n_mapped = now.n;
	if (t->maps.n > now.n + MAX_GONE) {
		maps__free(&t->maps);
		t->maps = now;
	} else {
		maps__free(&now);
	}
	t->maps_changed = true;
	return 0;
}

static void on_mapped(void *ctx, pid_t pid, const struct map_entry *entry)
{
	struct session *s = ctx;
	struct target *t = find_target(s, pid);
	bool replaces;

	if (!t)
		return;
	replaces = maps__replaces_code(&t->maps, entry);
	t->code_replaced += replaces;
	if (!entry->file.inode) {
		note_jit(t);
		/* Of generated code there is nothing to know, but that what was there is gone. */
		if (!replaces)
			return;
	}
	maps__insert(&t->maps, entry);
	t->maps_changed = true;
	hold_file(s, pid, entry);
	if (t->maps.n > t->n_mapped + MAX_GONE)
		refresh_maps(s, t);
}

static void on_exec(void *ctx, pid_t pid)
{
	struct session *s = ctx;
	struct target *t = find_target(s, pid);
	struct abi_target_cpu counters;

	if (!t)
		return;
	maps__free(&t->maps);
	if (t->perf_map.root_fd >= 0) /* its user may be another now */
		close(t->perf_map.root_fd);
	t->perf_map.root_fd = -1;
	capture__forget_mappings(s->capture, pid);
	t->maps_changed = true;
	refresh_maps(s, t);
	process__read(pid, &t->info);
	/* What the old program held is gone. */
	if (!capture__counters(s->capture, pid, &counters))
		t->gone_bytes = (double)counters.alloc_bytes - (double)counters.freed_bytes;
}

static void on_lost(void *ctx, uint64_t n)
{
	struct session *s = ctx;

	s->watch_lost += n;
}

/* Puts probes on the allocators of files that a target has mapped since it was opened. One that cannot be
 * probed stays as it is: the others are. */
static void attach_more(struct session *s, struct target *t)
{
	if (!t->allocators)
		return;
	allocators__find_more(t->allocators, t->info.pid, &t->maps, s->extra, s->n_extra);
	while (capture__attach(s->capture, t->allocators, t->info.pid, NULL))
		t->allocators->n_refused++;
}

static size_t count_code(const struct maps *maps)
{
	size_t n = 0;

	for (size_t i = 0; i < maps->n; i++)
		n += maps->entries[i].executable && maps->entries[i].file.inode;
	return n;
}

/* Tells the kernel side what has changed in the targets' maps. Where it has no room for all that
 * ever was, it gets what is there now. */
static void tell_mappings(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = &s->targets[i];
		struct maps now = {};
		int left_out;

		if (!t->maps_changed || t->ended)
			continue;
		t->maps_changed = false;
		if (count_code(&t->maps) > ABI_MAX_MAPPINGS)
			maps__read(t->info.pid, &now);
		left_out = capture__set_mappings(s->capture, s->binaries, t->info.pid,
						 now.n ? &now : &t->maps);
		maps__free(&now);
		if (left_out < 0)
			t->maps_changed = true; /* the next time may go better */
		else if ((uint64_t)left_out > t->mappings_left_out)
			t->mappings_left_out = (uint64_t)left_out;
		attach_more(s, t);
	}
}

/* --- opening --- */

int session__check_pid(pid_t pid, struct error *err)
{
	struct process_info info;
	int rc = process__read(pid, &info);

	if (rc == -ESRCH || rc == -ENOENT)
		return error__set(err, -ESRCH, "there is no process with pid %d", pid);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", pid, strerror(-rc));
	if (info.kernel_thread)
		return error__set(err, -EINVAL,
				  "pid %d (%s) is a kernel thread: it has no memory of its own",
				  pid, info.comm);
	if (info.tgid != pid)
		return error__set(err, -EINVAL, "pid %d (%s) is a thread of process %d: use -p %d",
				  pid, info.comm, info.tgid, info.tgid);
	if (info.state == 'Z' && info.threads > 1)
		return error__set(err, -ENOTSUP,
				  "the main thread of pid %d (%s) has ended while others run: such "
				  "a process cannot be traced",
				  pid, info.comm);
	if (info.state == 'Z' || info.state == 'X')
		return error__set(err, -ESRCH, "pid %d (%s) has ended already", pid, info.comm);
	if (info.compat32)
		return error__set(err, -ENOTSUP,
				  "pid %d (%s) is a 32-bit program: only 64-bit ones can be traced",
				  pid, info.comm);
	if (pid == getpid())
		return error__set(err, -EINVAL, "memtrace cannot trace itself (pid %d)", pid);
	return 0;
}

static int check_machine(struct error *err)
{
	char missing[256];

	if (!features__has_privileges(missing, sizeof(missing)))
		return error__set(err, -EPERM,
				  "tracing needs root or the capabilities it stands for; missing: "
				  "%s. Run it with sudo",
				  missing);
	if (!features__init_pid_ns())
		return error__set(err, -ENOTSUP,
				  "memtrace runs inside a pid namespace, where the kernel knows "
				  "processes by other numbers: run it on the host, or in a "
				  "container with the host's pids");
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return error__set(
			err, -ENOTSUP,
			"this kernel has no BTF (/sys/kernel/btf/vmlinux is not readable): "
			"one built with CONFIG_DEBUG_INFO_BTF=y is needed");
	return 0;
}

int session__plan(pid_t pid, const struct capture_options *options, struct session_plan *ret,
		  struct error *err)
{
	struct capture *capture;
	struct maps maps;
	int rc;

	rc = check_machine(err);
	if (!rc)
		rc = session__check_pid(pid, err);
	if (rc)
		return rc;
	rc = maps__read(pid, &maps);
	if (rc)
		return error__set(err, rc, "cannot read the memory map of pid %d: %s", pid,
				  strerror(-rc));
	rc = allocators__find(pid, &maps, false, options->extra, options->n_extra, &ret->allocators,
			      err);
	maps__free(&maps);
	if (rc)
		return rc;
	rc = capture__new(options, &capture, err);
	if (rc)
		goto fail;
	ret->kind = capture__kind(capture);
	rc = capture__calibrate(capture, &ret->calibration);
	capture__free(capture);
	if (!rc)
		return 0;
	error__set(err, rc, "cannot measure what probes cost: %s", strerror(-rc));
fail:
	session_plan__clear(ret);
	return rc;
}

void session_plan__clear(struct session_plan *plan)
{
	allocators__free(plan->allocators);
	plan->allocators = NULL;
}

static int watch_target(struct session *s, struct target *t, struct error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = t};

	t->pidfd = (int)syscall(SYS_pidfd_open, t->info.pid, 0);
	if (t->pidfd < 0)
		return error__set(err, -errno, "pid %d: %s", t->info.pid,
				  errno == ESRCH ? "it has ended" : strerror(errno));
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, t->pidfd, &event))
		return error__set(err, -errno, "cannot watch pid %d: %s", t->info.pid,
				  strerror(errno));
	return 0;
}

/* Everything for one process but its allocator. */
static int open_target(struct session *s, struct target *t, pid_t pid, struct error *err)
{
	int rc = session__check_pid(pid, err);

	if (rc)
		return rc;
	t->pidfd = -1;
	rc = process__read(pid, &t->info);
	if (rc)
		return error__set(err, rc, "pid %d has just ended", pid);
	rc = watch_target(s, t, err);
	if (rc)
		return rc;
	rc = refresh_maps(s, t);
	if (rc)
		return error__set(err, rc, "cannot read the memory map of pid %d (%s): %s", pid,
				  t->info.comm, rc == -ESRCH ? "it has just ended" : strerror(-rc));
	return capture__add_target(s->capture, pid, err);
}

static int attach_target(struct session *s, struct target *t, bool loading, struct error *err)
{
	pid_t pid = t->info.pid;
	struct process_info now;
	int rc;

	rc = allocators__find(pid, &t->maps, loading, s->extra, s->n_extra, &t->allocators, err);
	if (rc)
		return rc;
	if (t->info.seccomp && features__seccomp_kills())
		return error__set(err, -ENOTSUP,
				  "pid %d (%s) runs under a seccomp filter, and on this kernel the "
				  "return of a probed call would kill it: not traced",
				  pid, t->info.comm);
	rc = capture__attach(s->capture, t->allocators, pid, err);
	if (rc)
		return rc;
	/* The kernel takes a pid: make sure that it was still the same process. */
	if (process__read(pid, &now) || now.start_ticks != t->info.start_ticks || now.state == 'Z')
		return error__set(err, -ESRCH,
				  "pid %d (%s) has exited while the probes were being placed", pid,
				  t->info.comm);
	return 0;
}

static int open_command(struct session *s, char *const argv[], int *ret_status, struct error *err)
{
	struct error none = {};
	int rc, status = 0;

	rc = launch__start(argv, &s->launch, err);
	if (rc)
		return rc;
	/* Nothing of the program has run yet: it shall find the limit that we found. */
	if (s->command_files.rlim_max)
		prlimit(s->launch.pid, RLIMIT_NOFILE, &s->command_files, NULL);
	rc = open_target(s, &s->targets[0], s->launch.pid, err);
	if (rc)
		return rc;
	if (!s->launch.loading)
		return attach_target(s, &s->targets[0], false, err);
	/* The program itself may define malloc, or its dynamic linker be the whole C library
	 * (musl). */
	for (int more = 1;; more = launch__next_mapping(&s->launch, &status)) {
		if (more == -ESRCH) {
			if (ret_status)
				*ret_status = status;
			return error__set(err, -ECHILD,
					  "%s ended while it was being loaded, before it could "
					  "allocate",
					  argv[0]);
		}
		if (more < 0)
			return error__set(err, more, "cannot follow the loading of %s: %s", argv[0],
					  strerror(-more));
		refresh_maps(s, &s->targets[0]);
		memset(&none, 0, sizeof(none));
		rc = attach_target(s, &s->targets[0], true, &none);
		if (rc == -ENOENT && more)
			continue;
		if (rc)
			return error__set(err, rc, "%s: %s", argv[0], none.text);
		return 0;
	}
}

int session__open(const struct session_options *o, struct session **ret, struct error *err)
{
	struct watch_handlers handlers = {on_wanted, on_mapped, on_exec, on_lost, NULL};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	struct capture_options capture_options = o->capture;
	struct rlimit limit;
	struct session *s;
	int rc;

	rc = check_machine(err);
	if (rc)
		return rc;
	/* A descriptor per mapped file, and the links. */
	s = calloc(1, sizeof(*s));
	if (!s)
		return error__set(err, -ENOMEM, "out of memory");
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		s->command_files = limit;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	s->epoll_fd = -1;
	s->interval = o->capture.interval;
	s->extra = o->capture.extra;
	s->n_extra = o->capture.n_extra;
	s->n_targets = o->command ? 1 : o->n_pids;
	s->targets = calloc(s->n_targets, sizeof(*s->targets));
	if (!s->targets || binaries__new(&s->binaries) ||
	    symbolizer__new(&o->symbolize, s->binaries, &s->symbolizer)) {
		rc = error__set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	for (size_t i = 0; i < s->n_targets; i++)
		s->targets[i].pidfd = s->targets[i].perf_map.root_fd = -1;
	/* Wrong pids are told before anything costs time. */
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		rc = session__check_pid(o->pids[i], err);
		if (rc)
			goto fail;
	}
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0) {
		rc = error__set(err, -errno, "cannot make an epoll descriptor: %s",
				strerror(errno));
		goto fail;
	}
	if (capture_options.max_targets < s->n_targets)
		capture_options.max_targets = (uint32_t)s->n_targets;
	rc = capture__new(&capture_options, &s->capture, err);
	if (rc)
		goto fail;
	s->calibrated = !capture__calibrate(s->capture, &s->calibration);

	handlers.ctx = s;
	/* Without it the maps are as old as the last look at /proc: no reason to give up. */
	if (!watch__new(&handlers, &s->watch))
		epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, watch__fd(s->watch), &event);

	if (o->command) {
		rc = open_command(s, o->command, o->ret_command_status, err);
		if (rc)
			goto fail;
	}
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		rc = open_target(s, &s->targets[i], o->pids[i], err);
		if (!rc)
			rc = attach_target(s, &s->targets[i], false, err);
		if (rc)
			goto fail;
	}
	tell_mappings(s);
	*ret = s;
	return 0;
fail:
	session__free(s);
	return rc;
}

void session__free(struct session *s)
{
	if (!s)
		return;
	capture__free(s->capture);
	/* A command that never started running is ours to end; one that runs is not. */
	if (s->launch.held || (s->launch.pid > 0 && !s->started))
		launch__kill(&s->launch);
	for (size_t i = 0; s->targets && i < s->n_targets; i++)
		target__clear(&s->targets[i]);
	if (s->profiles)
		for (size_t i = 0; i < s->n_targets; i++)
			profile__free(s->profiles[i]);
	free(s->profiles);
	free(s->targets);
	watch__free(s->watch);
	symbolizer__free(s->symbolizer);
	binaries__free(s->binaries);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

/* --- running --- */

/* Holds a command until its libraries are all mapped and their unwind tables in place: some run code of
 * their own at once, faster than news of them could come. */
static void follow_loading(struct session *s)
{
	int rc = 1;

	while (s->launch.held && s->launch.loading && rc > 0) {
		rc = launch__next_mapping(&s->launch, &s->command_status);
		if (rc == -ESRCH) {
			s->command_ended = true;
			return;
		}
		refresh_maps(s, &s->targets[0]);
		tell_mappings(s);
	}
}

int session__start(struct session *s, struct error *err)
{
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		process__cpu_time_ns(s->targets[i].info.pid, &s->targets[i].cpu_start_ns);
	s->start_unix_ns = clock__now_ns(CLOCK_REALTIME);
	s->start_ns = clock__now_ns(CLOCK_MONOTONIC);
	capture__activate(s->capture);
	s->started = true;
	follow_loading(s);
	rc = launch__release(&s->launch);
	if (rc)
		return error__set(err, rc, "cannot let the command run: %s", strerror(-rc));
	return 0;
}

int session__fd(const struct session *s)
{
	return s->epoll_fd;
}

/* Brings what is known of a target's calls and of their cost up to date. */
static void read_target(struct session *s, struct target *t)
{
	const struct capture_probe *probes;
	uint64_t cpu;
	size_t n;

	if (!t->ended) {
		if (!process__cpu_time_ns(t->info.pid, &cpu))
			t->cpu_now_ns = cpu;
		t->exec_ns = capture__exec_ns(s->capture, t->info.pid, &t->exec_by_thread);
	}
	capture__counters(s->capture, t->info.pid, &t->counters);
	t->alloc_calls = t->free_calls = 0;
	t->probe_ns = s->calibrated ? 0 : -1;
	probes = capture__probes(s->capture, &n);
	for (size_t i = 0; i < n; i++) {
		uint64_t calls = t->counters.calls[probes[i].index];

		if (probes[i].pid != t->info.pid)
			continue;
		if (probes[i].point->func.role == ROLE_FREE)
			t->free_calls += calls;
		else
			t->alloc_calls += calls;
		if (s->calibrated)
			t->probe_ns += (double)calls *
				       calibration__cost_ns(&s->calibration, probes[i].point);
	}
	t->alloc_calls -= t->counters.inner;
}

static void note_end(struct session *s, struct target *t)
{
	if (t->ended)
		return;
	/* The last of what it did is told by now, and no news of the pid is its own any more. */
	if (s->watch)
		watch__consume(s->watch);
	read_target(s, t);
	t->ended = true;
	t->end_ns = clock__now_ns(CLOCK_MONOTONIC);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, t->pidfd, NULL);
	capture__forget_mappings(s->capture, t->info.pid);
	if (s->launch.pid == t->info.pid) {
		/* It fails only when somebody made the kernel reap our children by itself. */
		if (waitpid(t->info.pid, &s->command_status, 0) < 0)
			s->command_status = 0;
		s->command_ended = true;
		s->launch.pid = 0;
	}
}

bool session__dispatch(struct session *s)
{
	struct epoll_event events[16];
	bool all_ended = true;
	int n;

	/* News first: a process maps before it ends. */
	if (s->watch)
		watch__consume(s->watch);
	if (s->watch_lost > s->watch_lost_seen) {
		s->watch_lost_seen = s->watch_lost;
		for (size_t i = 0; i < s->n_targets; i++)
			if (!s->targets[i].ended)
				refresh_maps(s, &s->targets[i]);
	}
	tell_mappings(s);
	n = epoll_wait(s->epoll_fd, events, 16, 0);
	for (int i = 0; i < n; i++)
		if (events[i].data.ptr)
			note_end(s, events[i].data.ptr);
	for (size_t i = 0; i < s->n_targets; i++)
		all_ended = all_ended && s->targets[i].ended;
	return all_ended;
}

static double share_pct(double part_ns, uint64_t cpu_ns)
{
	double pct;

	if (part_ns < 0 || !cpu_ns)
		return -1;
	pct = 100.0 * part_ns / (double)cpu_ns;
	return pct > 100 ? 100 : pct;
}

static uint64_t cpu_used_ns(const struct target *t)
{
	return t->cpu_now_ns > t->cpu_start_ns ? t->cpu_now_ns - t->cpu_start_ns : 0;
}

void session__status(struct session *s, struct session_status *ret)
{
	uint64_t cpu_ns = 0;
	double probe_ns = 0;

	memset(ret, 0, sizeof(*ret));
	ret->elapsed_s =
		(double)((s->stopped ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC)) - s->start_ns) /
		1e9;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = &s->targets[i];

		if (!s->stopped)
			read_target(s, t);
		ret->alloc_calls += t->alloc_calls;
		ret->free_calls += t->free_calls;
		ret->samples += t->counters.samples;
		ret->live_bytes += (double)t->counters.alloc_bytes -
				   (double)t->counters.freed_bytes - t->gone_bytes;
		ret->running += !t->ended;
		cpu_ns += cpu_used_ns(t);
		probe_ns += t->probe_ns;
	}
	if (ret->live_bytes < 0)
		ret->live_bytes = 0;
	ret->overhead_pct = share_pct(s->calibrated ? probe_ns : -1, cpu_ns);
}

void session__stop(struct session *s)
{
	if (s->stopped)
		return;
	capture__deactivate(s->capture);
	s->stop_ns = clock__now_ns(CLOCK_MONOTONIC);
	/* twice: what came in while the first one read waits for the second */
	session__dispatch(s);
	session__dispatch(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		read_target(s, &s->targets[i]);
		if (!s->targets[i].ended)
			refresh_maps(s, &s->targets[i]);
	}
	s->stopped = true;
}

void session__detach(struct session *s)
{
	capture__detach(s->capture);
}

pid_t session__command(const struct session *s)
{
	return s->launch.pid;
}

bool session__command_ended(struct session *s, int *ret_wait_status)
{
	if (s->command_ended)
		*ret_wait_status = s->command_status;
	return s->command_ended;
}

enum probe_kind session__kind(const struct session *s)
{
	return capture__kind(s->capture);
}

const struct capture_probe *session__probes(const struct session *s, size_t *ret_n)
{
	return capture__probes(s->capture, ret_n);
}

/* --- the profiles --- */

int session__profiles(struct session *s, struct profile *const **ret, size_t *ret_n,
		      struct error *err)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	uint64_t missed = capture__missed_runs(s->capture);
	int rc;

	s->profiles = calloc(s->n_targets, sizeof(struct profile *));
	if (!s->profiles)
		return error__set(err, -ENOMEM, "out of memory");
	rc = capture__drain(s->capture, &drain, err);
	if (rc)
		return rc;
	rc = build__prepare(&drain);
	if (rc)
		return error__set(err, rc, "out of memory");
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = &s->targets[i];
		uint64_t end_ns = t->ended ? t->end_ns : s->stop_ns;
		struct build build = {
			.capture = s->capture,
			.calibration = s->calibrated ? &s->calibration : NULL,
			.drain = &drain,
			.target = t,
			.symbolizer = s->symbolizer,
			.interval = s->interval,
			.start_unix_ns = s->start_unix_ns,
			.duration_s = (double)(end_ns - s->start_ns) / 1e9,
			.overhead_pct = share_pct(t->probe_ns, cpu_used_ns(t)),
			.cpu_time_ns = cpu_used_ns(t),
			.watch_lost = s->watch_lost,
			.missed_runs = missed,
		};

		rc = build__profile(&build, &s->profiles[i]);
		if (rc)
			return error__set(err, rc, "cannot put the profile of pid %d together: %s",
					  t->info.pid, strerror(-rc));
	}
	*ret = s->profiles;
	*ret_n = s->n_targets;
	return 0;
}
