// SPDX-License-Identifier: BSD-2-Clause
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/own.h"
#include "proc/process.h"
#include "session/books.h"
#include "session/budget.h"
#include "session/internal.h"
#include "session/resident.h"

#define SELECTED_PROCESSES 2048	      /* at a time, when they need not be named */
#define MIN_SETTLED	   16	      /* ended processes that make it worth to read all tables */
#define SETTLE_EVERY_NS	   2000000000 /* and not more often */
/* Profiles of ended processes that are kept, those that held most: that many, of that many bytes. */
#define RECENT_WINDOWS	   8	      /* that tell how much is called now */
#define MAX_ENDED	4096
#define MAX_ENDED_BYTES (64U << 20)

/* Perf uprobes, in the worst case, a process that does nothing but allocate: what opening and closing a window costs it,
 * until the probes of malloc and free are out; the shortest window; and how long it may take to pay for both. */
#define PERF_EDGES_S  0.4
#define PERF_WINDOW_S 0.2
#define PERF_PAYS_S   30

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
	struct capture_options with_regions = *options;
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
	rc = region_source__find(pid, &maps, false, &ret->regions, err);
	if (!rc)
		rc = allocators__find(NULL, pid, &maps, false, options->extra, options->n_extra,
				      &ret->allocators, &ret->no_allocator);
	maps__free(&maps);
	if (rc && rc != -ENOENT && rc != -ENOTSUP) {
		if (ret->no_allocator.text[0])
			*err = ret->no_allocator;
		goto fail;
	}
	rc = capture__new(options, &capture, err);
	if (rc)
		goto fail;
	ret->kind = capture__kind(capture);
	rc = capture__calibrate(capture, &ret->calibration);
	capture__free(capture);
	if (rc) {
		error__set(err, rc, "cannot measure what probes cost: %s", strerror(-rc));
		goto fail;
	}
	/* Not everywhere are there regions to be seen. */
	with_regions.regions = true;
	if (!capture__new(&with_regions, &capture, NULL)) {
		ret->regions_calibrated =
			!capture__calibrate_regions(capture, &ret->region_calibration);
		capture__free(capture);
	}
	return 0;
fail:
	session_plan__clear(ret);
	return rc;
}

void session_plan__clear(struct session_plan *plan)
{
	allocators__free(plan->allocators);
	plan->allocators = NULL;
	region_source__free(plan->regions);
	plan->regions = NULL;
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
	rc = targets__refresh_maps(s, t);
	if (rc)
		return error__set(err, rc, "cannot read the memory map of pid %d (%s): %s", pid,
				  t->info.comm, rc == -ESRCH ? "it has just ended" : strerror(-rc));
	return capture__add_process(s->capture, pid, &t->process, err);
}

/* Probes in the target, or in the files of its allocators for all who run them. */
static int attach_allocators(struct session *s, struct target *t, struct error *err)
{
	if (!s->everywhere)
		return capture__attach(s->capture, t->allocators, t->info.pid, err);
	return targets__attach_everywhere(s, t, err);
}

/* May a call of the target's be made to return through a probe? */
static int check_returns(const struct target *t, struct error *err)
{
	if (t->info.seccomp && features__seccomp_kills())
		return error__set(err, -ENOTSUP,
				  "pid %d (%s) runs under a seccomp filter, and on this kernel the "
				  "return of a probed call would kill it: not traced",
				  t->info.pid, t->info.comm);
	return 0;
}

static int attach_target(struct session *s, struct target *t, bool loading, struct error *err)
{
	pid_t pid = t->info.pid;
	struct process_info now;
	int rc;

	if (!(s->what & WHAT_HEAP) || t->heap_attached)
		return 0;
	rc = allocators__find(s->alloc_files, pid, &t->maps, loading, s->extra, s->n_extra,
			      &t->allocators, err);
	if (!rc)
		rc = check_returns(t, err);
	if (!rc)
		rc = attach_allocators(s, t, err);
	if (rc)
		return rc;
	t->heap_attached = true;
	/* The kernel takes a pid: make sure that it was still the same process. */
	if (process__read(pid, &now) || now.start_ticks != t->info.start_ticks || now.state == 'Z')
		return error__set(err, -ESRCH,
				  "pid %d (%s) has exited while the probes were being placed", pid,
				  t->info.comm);
	return 0;
}

static int attach_regions(struct session *s, bool loading, struct error *err)
{
	int rc = 0;

	if (!(s->what & WHAT_REGIONS))
		return 0;
	for (size_t i = 0; i < s->n_targets && !rc && !s->everywhere; i++)
		rc = check_returns(s->targets[i], err);
	if (!rc && s->regions_if_easy && capture__kind(s->capture) == PROBE_PERF)
		rc = -ENOTSUP;
	if (!rc)
		rc = region_calls__attach(s, loading, err);
	if (rc && s->regions_if_easy && !(rc == -ENOENT && loading)) {
		s->what &= ~WHAT_REGIONS;
		*err = (struct error){};
		return 0;
	}
	return rc;
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
	rc = targets__add(s) ? open_target(s, s->targets[0], s->launch.pid, err)
			     : error__set(err, -ENOMEM, "out of memory");
	if (rc)
		return rc;
	/* News of its exec is still to come, and tells nothing new. */
	s->targets[0]->begun_by_exec_ns = clock__now_ns(CLOCK_MONOTONIC);
	if (!s->launch.loading) {
		rc = attach_target(s, s->targets[0], false, err);
		return rc ? rc : attach_regions(s, false, err);
	}
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
		targets__refresh_maps(s, s->targets[0]);
		memset(&none, 0, sizeof(none));
		rc = attach_target(s, s->targets[0], true, &none);
		if (!rc)
			rc = attach_regions(s, more, &none);
		if (rc == -ENOENT && more)
			continue;
		if (rc)
			return error__set(err, rc, "%s: %s", argv[0], none.text);
		return 0;
	}
}

/* Perf uprobes are let go one after the other, a tenth of a second each. */
static int check_perf_limit(const struct session *s, struct error *err)
{
	double window_s = PERF_EDGES_S + PERF_WINDOW_S, pays_s = WINDOWS_FELT * window_s / s->max_overhead;

	if (s->everywhere)
		return error__set(err, -ENOTSUP,
				  "this kernel has perf uprobes only (uprobe_multi comes with Linux 6.6): probes in everybody's "
				  "code cannot come and go there, and no limit of overhead can be kept. Name up to %d "
				  "processes with -p, or say --max-overhead off",
				  SESSION_SEPARATE);
	if (pays_s > PERF_PAYS_S)
		return error__set(err, -ENOTSUP,
				  "with perf uprobes (uprobe_multi comes with Linux 6.6) one window may cost a process %.2f s "
				  "of CPU time, and %.3g %% of its CPU time pay for that in %.0f s only: say --max-overhead %.0f or "
				  "more, or off",
				  WINDOWS_FELT * window_s, 100 * s->max_overhead, pays_s,
				  ceil(100 * WINDOWS_FELT * window_s / PERF_PAYS_S));
	return 0;
}

/* Can a limit of overhead be kept, if there is one? *ret_refuse: not is no answer, even where nobody asked for it. */
static int check_limit(const struct session *s, bool *ret_refuse, struct error *err)
{
	*ret_refuse = false;
	if (!(s->max_overhead > 0))
		return 0;
	if (s->everywhere ? s->what != WHAT_HEAP : s->what & WHAT_GROWTH)
		return error__set(err, -ENOTSUP,
				  "a limit of overhead is kept for the heap and, of a command or of "
				  "up to %d processes given by -p, for regions, so far; not for growth",
				  SESSION_SEPARATE);
	if (!budget__cost_known(s))
		return error__set(err, -ETIMEDOUT,
				  "a limit of overhead cannot be kept: what probes cost here could not "
				  "be measured");
	*ret_refuse = capture__kind(s->capture) == PROBE_PERF && s->what & WHAT_HEAP;
	return *ret_refuse ? check_perf_limit(s, err) : 0;
}

int session__open(const struct session_options *o, struct session **ret, struct error *err)
{
	struct watch_handlers handlers;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	struct capture_options capture_options = o->capture;
	struct rlimit limit;
	struct session *s;
	bool refuse;
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
	s->epoll_fd = s->timer_fd = -1;
	s->max_overhead = o->max_overhead;
	s->max_steady_overhead = fmax(o->max_steady_overhead, o->max_overhead);
	s->max_host_overhead = o->max_host_overhead;
	s->window_period_ns = o->window_period_ns;
	s->interval = o->capture.interval;
	s->extra = o->capture.extra;
	s->n_extra = o->capture.n_extra;
	s->what = o->what ? o->what : WHAT_HEAP;
	s->everywhere = o->selection || o->n_pids > SESSION_SEPARATE;
	s->regions_if_easy = o->regions_if_easy && !s->everywhere && !(s->what & WHAT_REGIONS);
	if (s->regions_if_easy)
		s->what |= WHAT_REGIONS;
	s->region_place = s->regions_if_easy ? REGIONS_LIBC : o->region_place;
	capture_options.regions = s->what & WHAT_REGIONS;
	capture_options.growth = s->what & WHAT_GROWTH;
	s->resident = o->resident;
	s->selection = o->selection;
	if (s->everywhere && s->what & WHAT_HEAP && features__seccomp_kills()) {
		rc = error__set(err, -ENOTSUP,
				"on this kernel the return of a probed call kills a process under a "
				"seccomp filter, and probes in all processes would reach such ones: "
				"name up to %d processes with -p",
				SESSION_SEPARATE);
		goto fail;
	}
	if (binaries__new(&s->binaries) || alloc_files__new(s->binaries, &s->alloc_files) ||
	    symbolizer__new(&o->symbolize, s->binaries, &s->symbolizer)) {
		rc = error__set(err, -ENOMEM, "out of memory");
		goto fail;
	}
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
	if (s->selection) {
		selection__to_kernel(s->selection, &capture_options.selection);
		capture_options.max_processes = SELECTED_PROCESSES;
	}
	capture_options.windows = s->max_overhead > 0;
	capture_options.machine = s->everywhere && s->max_overhead > 0 && s->what == WHAT_HEAP;
	if (capture_options.max_processes < o->n_pids)
		capture_options.max_processes = (uint32_t)o->n_pids;
	rc = capture__new(&capture_options, &s->capture, err);
	if (rc)
		goto fail;
	s->calibrated = s->what & WHAT_HEAP && !capture__calibrate(s->capture, &s->calibration);
	if (s->max_overhead > 0 && s->what & WHAT_REGIONS && !s->everywhere)
		s->regions_calibrated = !capture__calibrate_regions(s->capture, &s->region_calibration);
	/* where a window is dear, a few of them cost more than nobody asked for */
	if (capture__kind(s->capture) == PROBE_PERF && s->max_overhead > 0 && !o->overhead_given)
		s->max_overhead = s->max_steady_overhead;
	rc = check_limit(s, &refuse, err);
	if (rc && (o->overhead_given || refuse))
		goto fail;
	if (rc) {
		s->max_overhead = 0;
		*err = (struct error){};
	}
	rc = s->what & WHAT_GROWTH ? capture__attach_growth(s->capture, err) : 0;
	if (rc)
		goto fail;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, capture__events_fd(s->capture), &event);

	handlers = targets__handlers(s);
	/* Without it the maps are as old as the last look at /proc: no reason to give up. */
	if (!watch__new(&handlers, &s->watch))
		epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, watch__fd(s->watch), &event);

	if (o->command) {
		rc = open_command(s, o->command, o->ret_command_status, err);
		if (rc)
			goto fail;
	}
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		struct target *t = targets__add(s);

		rc = t ? open_target(s, t, o->pids[i], err)
		       : error__set(err, -ENOMEM, "out of memory");
		if (!rc)
			rc = attach_target(s, t, false, err);
		if (rc)
			goto fail;
	}
	if (!o->command) {
		rc = attach_regions(s, false, err);
		if (rc)
			goto fail;
	}
	if (s->selection) {
		if (s->selection->dynamic && s->what & WHAT_HEAP)
			targets__probe_own_libc(s);
		rc = selection__scan(s, err);
		if (rc)
			goto fail;
	}
	targets__tell_mappings(s);
	*ret = s;
	return 0;
fail:
	session__free(s);
	return rc;
}

static void profile_list__clear(struct profile_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		profile__free(list->at[i]);
	free(list->at);
	*list = (struct profile_list){};
}

void session__free(struct session *s)
{
	if (!s)
		return;
	scheduler__free(&s->scheduler);
	capture__free(s->capture);
	/* A command that never started running is ours to end; one that runs is not. */
	if (s->launch.held || (s->launch.pid > 0 && !s->started))
		launch__kill(&s->launch);
	for (size_t i = 0; i < s->n_targets; i++) {
		target__clear(s->targets[i]);
		free(s->targets[i]);
	}
	profile_list__clear(&s->profiles);
	for (size_t i = 0; i < s->n_attached; i++)
		allocators__free(s->attached[i]);
	free(s->attached);
	free(s->examined);
	free(s->orphans);
	free(s->targets);
	series__free(&s->series);
	watch__free(s->watch);
	symbolizer__free(s->symbolizer);
	alloc_files__free(s->alloc_files);
	binaries__free(s->binaries);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

/* --- the profiles --- */

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

/* Adds the target's to the list. now_ns: the end of a run that goes on for it. */
static int make_profile(struct session *s, const struct capture_drain *drain, struct target *t,
			uint64_t now_ns, struct profile_list *list)
{
	uint64_t start_ns = t->start_ns > s->start_ns ? t->start_ns : s->start_ns;
	uint64_t end_ns = t->ended ? t->end_ns : now_ns;
	struct build build = {
		.capture = s->capture,
		.calibration = s->calibrated ? &s->calibration : NULL,
		.drain = drain,
		.target = t,
		.series = s->series.n ? &s->series : NULL,
		.begin_ns = start_ns,
		.end_ns = end_ns,
		.symbolizer = s->symbolizer,
		.growth = s->what & WHAT_GROWTH,
		.interval = s->interval,
		.start_unix_ns = s->start_unix_ns + (start_ns - s->start_ns),
		.duration_s = end_ns > start_ns ? (double)(end_ns - start_ns) / 1e9 : 0,
		.overhead_pct = share_pct(t->probe_ns, cpu_used_ns(t)),
		.cpu_time_ns = cpu_used_ns(t),
		.watch_lost = s->watch_lost,
		.events_lost = s->events_lost,
		.ends_lost = s->ends_lost,
		.forgotten = s->forgotten,
		.files_refused = s->files_refused,
		.processes_refused = capture__processes_refused(s->capture),
		.missed_runs = capture__missed_runs(s->capture),
	};
	struct profile **profiles, *regions = NULL;
	size_t first = list->n;
	int rc;

	profiles = reallocarray(list->at, list->n + 2, sizeof(struct profile *));
	if (!profiles)
		return -ENOMEM;
	list->at = profiles;
	/* What the program maps by itself is none of its heap's growth. */
	if (s->what & WHAT_REGIONS) {
		struct build of_regions = build;

		of_regions.calibration = NULL;
		if (!s->regions_calibrated)
			of_regions.overhead_pct = -1;
		rc = build__regions(&of_regions, &regions);
		if (rc)
			return rc;
		build.regions_growth = profile__own_growth(regions);
	}
	if (s->what & (WHAT_HEAP | WHAT_GROWTH)) {
		rc = build__profile(&build, &list->at[list->n]);
		if (rc) {
			profile__free(regions);
			return rc;
		}
		list->n++;
	}
	if (regions)
		list->at[list->n++] = regions;
	/* the process's first, whichever that is */
	return build__resident(&build, s->what & WHAT_HEAP ? list->at[first] : NULL, regions,
			       &list->at[first]->resident);
}

/* One of the profiles kept. */
struct kept {
	size_t index;
	double live_bytes;
};

static int compare_kept(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Of more ended processes than can be kept, those that held least go. */
static void forget_least(struct session *s)
{
	_cleanup_free_ struct kept *kept = NULL;
	size_t bytes = 0, left = s->profiles.n, n = 0;

	for (size_t i = 0; i < s->profiles.n; i++)
		bytes += profile__bytes(s->profiles.at[i]);
	if (left <= MAX_ENDED && bytes <= MAX_ENDED_BYTES)
		return;
	kept = calloc(s->profiles.n, sizeof(*kept));
	if (!kept)
		return;
	for (size_t i = 0; i < s->profiles.n; i++)
		kept[i] = (struct kept){i, profile__live(s->profiles.at[i]).bytes};
	qsort(kept, s->profiles.n, sizeof(*kept), compare_kept);
	for (size_t i = 0; left > MAX_ENDED || (left > 1 && bytes > MAX_ENDED_BYTES); i++, left--) {
		struct profile **least = &s->profiles.at[kept[i].index];

		bytes -= profile__bytes(*least);
		profile__free(*least);
		*least = NULL;
		s->forgotten++;
	}
	for (size_t i = 0; i < s->profiles.n; i++)
		if (s->profiles.at[i])
			s->profiles.at[n++] = s->profiles.at[i];
	s->profiles.n = n;
}

/* Makes the profiles of processes that have ended, and gives the room that they take in the kernel
 * to others: now and then, for it takes a reading of all tables. */
static void settle_ended(struct session *s)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	_cleanup_free_ uint32_t *gone = NULL;
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	size_t n = 0, n_gone = 0;

	for (size_t i = 0; i < s->n_targets; i++)
		n += s->targets[i]->ended && s->targets[i]->uninvited;
	if (n < MIN_SETTLED || now < s->settle_next_ns)
		return;
	s->settle_next_ns = now + SETTLE_EVERY_NS;
	scheduler__harvest(&s->scheduler);
	gone = calloc(n, sizeof(*gone));
	if (!gone || capture__drain(s->capture, &drain, NULL) || build__prepare(&drain))
		return;
	for (size_t i = 0; i < s->n_targets;) {
		struct target *t = s->targets[i];

		if (!t->ended || !t->uninvited) {
			i++;
			continue;
		}
		if (make_profile(s, &drain, t, now, &s->profiles))
			break; /* out of memory: it waits */
		gone[n_gone++] = t->process;
		targets__remove(s, t);
	}
	forget_least(s);
	capture__drop_records(s->capture, &drain, gone, n_gone, !(s->what & WHAT_REGIONS));
}

/* What the run has cost ourselves, for all who are told of it. */
static void note_own_cost(struct session *s)
{
	struct run_cost cost = {.known = true, .host_pct = budget__host_pct(s)};

	cost.host_known = cost.host_pct >= 0;
	if (own__peak_bytes(&cost.user_bytes) || s->stop_ns <= s->start_ns)
		return;
	cost.cpu_pct = 100.0 * (double)s->own_cpu_ns / (double)(s->stop_ns - s->start_ns);
	cost.kernel_bytes = capture__kernel_bytes(s->capture, &cost.at_most);
	if (s->watch)
		cost.kernel_bytes += watch__bytes(s->watch);
	for (size_t i = 0; i < s->profiles.n; i++)
		s->profiles.at[i]->own = cost;
}

int session__profiles(struct session *s, struct profile *const **ret, size_t *ret_n,
		      struct error *err)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	int rc;

	rc = capture__drain(s->capture, &drain, err);
	if (rc)
		return rc;
	rc = build__prepare(&drain);
	if (rc)
		return error__set(err, rc, "out of memory");
	for (size_t i = 0; i < s->n_targets; i++) {
		rc = make_profile(s, &drain, s->targets[i], s->stop_ns, &s->profiles);
		if (rc)
			return error__set(err, rc, "cannot put the profile of pid %d together: %s",
					  s->targets[i]->info.pid, strerror(-rc));
	}
	note_own_cost(s);
	*ret = s->profiles.at;
	*ret_n = s->profiles.n;
	return 0;
}

/* Brings a target's ledger up to date, a stretch that goes on included. */
static void look_now(struct session *s, struct target *t)
{
	struct target *const only[] = {t};
	struct budget *b = &t->budget;
	struct paced *p = &b->pace;

	targets__read(s, t);
	books__read_bound(t);
	if (b->stretch && !p->closing && p->windows.open) {
		p->end_ns = clock__now_ns(CLOCK_MONOTONIC);
		p->failed += books__harvest(s, only, 1) != 0;
		p->start_ns = p->end_ns;
	} else {
		books__look(t, clock__now_ns(CLOCK_MONOTONIC));
	}
}

/* Adds the profiles of the moment: those of targets that have ended, too, or not. */
static int look(struct session *s, bool ended, struct profile_list *list)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	uint64_t now = s->stopped ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
	int rc = capture__drain(s->capture, &drain, NULL);

	if (!rc)
		rc = build__prepare(&drain);
	for (size_t i = 0; i < s->n_targets && !rc; i++) {
		struct target *t = s->targets[i];

		if (t->ended && (!ended || t->uninvited))
			continue;
		if (!t->ended && !s->stopped && t->budget.survivors.n_windows)
			look_now(s, t);
		rc = make_profile(s, &drain, t, now, list);
	}
	return rc;
}

int session__peek(struct session *s, int (*fn)(void *ctx, const struct profile *profile), void *ctx)
{
	struct profile_list list = {};
	int rc = look(s, false, &list);

	for (size_t i = 0; i < list.n && !rc; i++)
		rc = fn(ctx, list.at[i]);
	profile_list__clear(&list);
	return rc;
}

int session__look(struct session *s, struct profile ***ret, size_t *ret_n)
{
	struct profile_list list = {};
	int rc = look(s, true, &list);

	if (rc) {
		profile_list__clear(&list);
		return rc;
	}
	*ret = list.at;
	*ret_n = list.n;
	return 0;
}

/* --- running --- */

/* Of many processes the tables take too long to read, again and again. */
static void watch_growth(struct session *s)
{
	_cleanup_(capture_table__free) struct capture_table sites = {};
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	if (!s->everywhere && s->started && !s->stopped)
		for (size_t i = 0; i < s->n_targets; i++)
			if (now >= s->targets[i]->anon.next_ns)
				targets__read_size(s->targets[i]);
	if (s->everywhere || !s->started || s->stopped || !(s->what & WHAT_HEAP) ||
	    !series__is_due(&s->series, now))
		return;
	if (!capture__read_sites(s->capture, &sites))
		series__add(&s->series, now, &sites);
}

/* Does what is due, and wakes us when there is something again. */
static void keep_budgets(struct session *s)
{
	struct itimerspec at = {};
	uint64_t next, passed;

	if (s->timer_fd < 0 || s->stop_ns)
		return;
	if (read(s->timer_fd, &passed, sizeof(passed)) < 0 && errno != EAGAIN)
		return;
	next = budget__keep(s);
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / 1000000000);
		at.it_value.tv_nsec = (long)(next % 1000000000);
	}
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Holds a command until its libraries are all mapped and their unwind tables in place: some run
 * code of their own at once, faster than news of them could come. */
static void follow_loading(struct session *s)
{
	int rc = 1;

	while (s->launch.held && s->launch.loading && rc > 0) {
		rc = launch__next_mapping(&s->launch, &s->command_status);
		if (rc == -ESRCH) {
			s->command_ended = true;
			return;
		}
		targets__refresh_maps(s, s->targets[0]);
		targets__tell_mappings(s);
	}
}

/* What the targets have mapped by now, so that it is known when they give it back. */
static void note_earlier_regions(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct maps maps;

		if (t->uninvited || maps__read(t->info.pid, &maps))
			continue;
		region_book__begin(&t->book, &maps);
		maps__free(&maps);
	}
}

static int begin_budgets(struct session *s)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int rc;

	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->timer_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->timer_fd, &event))
		return -errno;
	rc = budget__begin(s);
	keep_budgets(s);
	return rc;
}

int session__start(struct session *s, struct error *err)
{
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		process__cpu_time_ns(s->targets[i]->info.pid, &s->targets[i]->cpu_start_ns);
	if (s->what & WHAT_REGIONS)
		note_earlier_regions(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		targets__read_size(s->targets[i]);
		s->targets[i]->rss_start_bytes = s->targets[i]->rss_bytes;
	}
	s->start_unix_ns = clock__now_ns(CLOCK_REALTIME);
	s->own_cpu_ns = own__cpu_ns();
	s->start_ns = clock__now_ns(CLOCK_MONOTONIC);
	capture__activate(s->capture);
	s->started = true;
	if (s->max_overhead > 0) {
		rc = begin_budgets(s);
		if (rc)
			return error__set(err, rc, "cannot keep a limit of overhead: %s",
					  strerror(-rc));
	}
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

bool session__dispatch(struct session *s)
{
	struct epoll_event events[16];
	bool all_ended = true;
	int n;

	targets__take_news(s);
	n = epoll_wait(s->epoll_fd, events, 16, 0);
	for (int i = 0; i < n; i++)
		if (events[i].data.ptr)
			targets__note_end(s, events[i].data.ptr);
	keep_budgets(s);
	watch_growth(s);
	region_calls__note(s);
	settle_ended(s);
	/* Others may come as long as there is a selection, but for one that only follows. */
	if (s->selection && s->selection->dynamic)
		return false;
	for (size_t i = 0; i < s->n_targets; i++)
		all_ended = all_ended && s->targets[i]->ended;
	return all_ended;
}

/* All that a target has allocated, by what it allocated while its probes were in place. */
static double allocated(const struct target *t)
{
	const struct survivors *s = &t->budget.survivors;
	const struct net_clock *clock = &t->budget.clock;
	double seen = 0;

	for (size_t i = 0; i < s->n_windows; i++)
		seen += net_clock__at(clock, s->windows[i].end_ns) - net_clock__at(clock, s->windows[i].start_ns);
	if (t->budget.stretch || !(seen > 0))
		return (double)t->counters.alloc_bytes;
	return (double)t->counters.alloc_bytes * fmax(net_clock__at(clock, UINT64_MAX) / seen, 1);
}

/* Calls that allocate and that free, per net second, of the last windows. false: there were none. */
static bool call_rates(const struct target *t, double *ret_allocs, double *ret_frees)
{
	const struct survivors *s = &t->budget.survivors;
	double seconds = 0, allocs = 0, frees = 0;

	for (size_t i = s->n_windows > RECENT_WINDOWS ? s->n_windows - RECENT_WINDOWS : 0; i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		seconds += net_clock__at(&t->budget.clock, w->end_ns) - net_clock__at(&t->budget.clock, w->start_ns);
		allocs += (double)w->allocs;
		frees += (double)w->allocs - (double)w->net_blocks;
	}
	if (!(seconds > 0))
		return false;
	*ret_allocs = allocs / seconds;
	*ret_frees = fmax(frees / seconds, 0);
	return true;
}

/* Brings the estimate of a target's calls up to date: what was counted where all is, else what its last windows say of the
 * time that it has worked since. */
static void estimate_calls(struct target *t)
{
	const struct net_clock *clock = &t->budget.clock;
	uint64_t last_ns = clock->n ? clock->at[clock->n - 1].wall_ns : 0;
	double worked = net_clock__at(clock, last_ns) - net_clock__at(clock, t->calls.clock_ns), allocs, frees;

	if (t->budget.pace.windows.budget > 0 && !t->budget.stretch && call_rates(t, &allocs, &frees)) {
		t->calls.allocs += allocs * worked;
		t->calls.frees += frees * worked;
	} else {
		t->calls.allocs += (double)t->alloc_calls - (double)t->calls.seen_allocs;
		t->calls.frees += (double)t->free_calls - (double)t->calls.seen_frees;
	}
	t->calls.clock_ns = last_ns;
	t->calls.seen_allocs = t->alloc_calls;
	t->calls.seen_frees = t->free_calls;
}

/* What it has allocated and not freed: windows do not see the frees, but there is the kernel's count of its memory. */
static double held(const struct target *t)
{
	const struct sizes *anon = &t->anon;

	if (!t->ended && !t->exec_ns && t->budget.pace.windows.n_windows > 1 && anon->n)
		return (double)anon->at[anon->n - 1].bytes - (double)anon->at[0].bytes;
	return (double)t->counters.alloc_bytes - (double)t->counters.freed_bytes - t->gone_bytes;
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
		struct target *t = s->targets[i];

		if (!s->stopped)
			targets__read(s, t);
		estimate_calls(t);
		ret->alloc_calls += (uint64_t)fmax(t->calls.allocs, 0);
		ret->free_calls += (uint64_t)fmax(t->calls.frees, 0);
		ret->samples += t->counters.samples;
		ret->alloc_bytes += allocated(t);
		ret->live_bytes += held(t);
		ret->running += !t->ended;
		if (s->what == WHAT_REGIONS) {
			ret->alloc_calls += t->book.calls;
			for (size_t j = 0; j < t->book.n_sites; j++)
				ret->alloc_bytes += (double)t->book.sites[j].bytes;
			ret->live_bytes += (double)region_book__live(&t->book, NULL);
		}
		cpu_ns += cpu_used_ns(t);
		probe_ns += t->probe_ns;
		ret->windowed += t->budget.pace.windows.budget > 0 && !t->budget.pace.windows.continuous;
	}
	if (ret->live_bytes < 0)
		ret->live_bytes = 0;
	ret->overhead_pct = share_pct(budget__cost_known(s) ? probe_ns : -1, cpu_ns);
}

bool session_status__rates(const struct session_status *before, const struct session_status *now,
			   struct session_rates *ret)
{
	double seconds = now->elapsed_s - before->elapsed_s;

	if (seconds <= 0)
		return false;
	*ret = (struct session_rates){
		.live_bytes = (now->live_bytes - before->live_bytes) / seconds,
		.alloc_calls = now->alloc_calls > before->alloc_calls
				       ? (double)(now->alloc_calls - before->alloc_calls) / seconds
				       : 0,
		.free_calls = now->free_calls > before->free_calls
				      ? (double)(now->free_calls - before->free_calls) / seconds
				      : 0,
	};
	return true;
}

static bool uses_glibc(const struct target *t)
{
	for (size_t i = 0; t->allocators && i < t->allocators->n; i++)
		if (!strcmp(t->allocators->list[i]->family, "glibc"))
			return true;
	return false;
}

/* Before anything else that takes time: nothing is counted any more, and what is read here is to be of the same
 * moment. */
static void read_resident(struct session *s)
{
	for (size_t i = 0; s->resident && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->ended)
			resident__read(t->info.pid, &t->book, uses_glibc(t), &t->resident);
	}
}

void session__stop(struct session *s)
{
	if (s->stopped)
		return;
	capture__deactivate(s->capture);
	s->stop_ns = clock__now_ns(CLOCK_MONOTONIC);
	s->own_cpu_ns = own__cpu_ns() - s->own_cpu_ns - s->command_cpu_ns;
	/* twice: what came in while the first one read waits for the second */
	session__dispatch(s);
	session__dispatch(s);
	region_calls__settle(s, true);
	for (size_t i = 0; i < s->n_targets; i++)
		region_calls__compare(s->targets[i]);
	read_resident(s);
	/* The targets come first: all that follows they need not wait for. */
	if (capture__kind(s->capture) != PROBE_PERF)
		capture__detach(s->capture);
	scheduler__stop(&s->scheduler);
	for (size_t i = 0; i < s->n_targets; i++) {
		books__read_bound(s->targets[i]);
		targets__read(s, s->targets[i]);
		targets__read_size(s->targets[i]);
		if (!s->targets[i]->ended)
			targets__refresh_maps(s, s->targets[i]);
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

const char *session__region_place(const struct session *s)
{
	return s->region_text;
}

enum probe_kind session__kind(const struct session *s)
{
	return capture__kind(s->capture);
}

const struct capture_probe *session__probes(const struct session *s, size_t *ret_n)
{
	return capture__probes(s->capture, ret_n);
}
