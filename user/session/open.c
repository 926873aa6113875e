// SPDX-License-Identifier: BSD-2-Clause
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
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/own.h"
#include "proc/process.h"
#include "session/budget.h"
#include "session/internal.h"
#include "session/privileges.h"

/* at most this many processes are traced at a time, if processes are selected */
#define SELECTED_PROCESSES 2048

/* Cost of a window of perf uprobes in the worst case: for a process that does nothing but allocate.
 * PERF_EDGES_S: what opening and closing a window costs this process, until the probes of malloc
 * and free are out. PERF_WINDOW_S: length of the shortest window. PERF_PAYS_S: these edges and this
 * window must be paid for within this time, by the share of the process's CPU time that the limit
 * allows. */
#define PERF_EDGES_S  0.4
#define PERF_WINDOW_S 0.2
#define PERF_PAYS_S   30

int session__check_pid(pid_t pid, struct error *err)
{
	struct process_info info;
	int rc = process__read(pid, &info);

	if (rc == -ESRCH || rc == -ENOENT)
		return error__set(
			err, -ESRCH,
			"there is no process with pid %d (a container's own pids differ from the "
			"host's)",
			pid);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", pid, process__why(rc));
	if (info.kernel_thread)
		return error__set(err, -EINVAL,
				  "pid %d (%s) is a kernel thread: it has no memory of its own (a "
				  "container's own pids differ from the host's)",
				  pid, info.comm);
	if (info.tgid != pid)
		return error__set(err, -EINVAL, "pid %d (%s) is a thread of process %d: use -p %d",
				  pid, info.comm, info.tgid, info.tgid);
	if (!process__lives(&info))
		return error__set(err, -ESRCH, "pid %d (%s) has ended already", pid, info.comm);
	if (info.compat32)
		return error__set(err, -ENOTSUP,
				  "pid %d (%s) is a 32-bit program: only 64-bit ones can be traced",
				  pid, info.comm);
	if (pid == getpid())
		return error__set(err, -EINVAL, "memtrace cannot trace itself (pid %d)", pid);
	return 0;
}

/* The kernel finds a process's memory by its main thread. A main thread that has ended has no
 * memory any more, so probes for this process alone are placed nowhere. */
int session__check_alone(pid_t pid, struct error *err)
{
	int rc = session__check_pid(pid, err);
	struct process_info info;

	if (!rc && process__living_thread(pid) != pid && !process__read_stat(pid, &info))
		return error__set(err, -ENOTSUP,
				  "pid %d (%s): its main thread has ended while others run: only "
				  "--comm %s traces it",
				  pid, info.comm, info.comm);
	return rc;
}

static int check_target(const struct session *s, pid_t pid, struct error *err)
{
	return s->everywhere ? session__check_pid(pid, err) : session__check_alone(pid, err);
}

/* Descriptors besides those of targets' files: LEAST_DESCRIPTORS for tables, programs and links,
 * DESCRIPTORS_OF_PID for each named process, and one for each CPU. */
#define LEAST_DESCRIPTORS  96
#define DESCRIPTORS_OF_PID 4

int session__check_machine(struct error *err)
{
	char missing[256];

	if (privileges__missing(missing, sizeof(missing)))
		return error__set(err, -EPERM, "tracing needs root, or %s; missing: %s. %s",
				  privileges_without_root, missing,
				  geteuid() ? "Run it with sudo"
					    : "This root is limited, as in a container: run it on "
					      "the host, or in a container with all privileges "
					      "and the host's pids");
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

int session__footprint(bool everywhere, int cpus, struct capture_footprint *ret,
		       uint32_t *ret_processes)
{
	struct capture_options options = {.windows = true, .regions = true};

	*ret_processes = SESSION_SEPARATE;
	if (everywhere)
		options.max_processes = *ret_processes =
			capture__processes_for(SELECTED_PROCESSES, cpus);
	return capture__footprint(&options, cpus, ret);
}

/* Returns the pid if the process has a shadow stack, else 0. */
static int has_shadow_stack(pid_t pid, void *ctx)
{
	struct process_info info;

	(void)ctx;
	return !process__read(pid, &info) && info.shadow_stack ? pid : 0;
}

static bool dies_by_returns(pid_t pid)
{
	return features__shadow_stacks_kill() && has_shadow_stack(pid, NULL);
}

/* Can hundreds of probes come and go with each window? Perf uprobes are closed one by one, which
 * takes some 100 ms each. */
static bool can_probe_copies(int kind)
{
	if (kind >= 0)
		return kind != PROBE_PERF;
	return !features__try_kind(PROBE_SESSION) || !features__try_kind(PROBE_MULTI);
}

int session__plan(pid_t pid, const struct capture_options *options, struct session_plan *ret,
		  struct error *err)
{
	const struct elf_meanwhile nothing = {};
	struct capture_options with_regions = *options;
	struct alloc_files *files;
	struct alloc_how how;
	struct capture *capture;
	struct maps maps;
	int rc;

	rc = session__check_machine(err);
	if (!rc)
		rc = session__check_alone(pid, err);
	if (rc)
		return rc;
	rc = maps__read(pid, &maps);
	if (rc)
		return error__set(err, rc, "cannot read the memory map of pid %d: %s", pid,
				  process__why(rc));
	how = (struct alloc_how){.no_returns = features__seccomp_kills() || dies_by_returns(pid),
				 .copies = can_probe_copies(options->kind),
				 .tables = features__tables(),
				 .pools = features__tables(),
				 .markers = !options->n_extra};
	rc = alloc_files__new(NULL, &how, &files);
	if (rc) {
		maps__free(&maps);
		return error__set(err, rc, "out of memory");
	}
	rc = region_source__find(pid, &maps, false, &nothing, &ret->regions, err);
	if (!rc)
		rc = allocators__find(files, pid, &maps, ALLOC_OWN, options->extra,
				      options->n_extra, &ret->allocators, &ret->no_allocator);
	alloc_files__free(files);
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
	/* On some machines regions cannot be seen: a failure here does not fail the plan. */
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

int open__target(struct session *s, struct target *t, pid_t pid, struct error *err)
{
	int rc = check_target(s, pid, err);

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
				  t->info.comm, process__why(rc));
	rc = capture__add_process(s->capture, pid, &t->process, err);
	if (rc)
		return rc;
	/* From now on, news comes when its main thread ends. But this thread may have ended just
	 * before. */
	t->headless = process__living_thread(pid) != pid;
	return t->headless && !s->everywhere ? session__check_alone(pid, err) : 0;
}

/* Puts probes into the target alone. Or puts them into its allocators' files, and so into all
 * processes that run these files. */
static int attach_allocators(struct session *s, struct target *t, struct error *err)
{
	if (!s->everywhere)
		return capture__attach(s->capture, t->allocators, t->info.pid, err);
	return targets__attach_everywhere(s, t, err);
}

/* A return probe replaces a call's return address by an address of the kernel. Some kernels then
 * kill a process whose filter of system calls, or whose shadow stack, does not know this address. A
 * process, or a command that it starts, may set such a filter at any time. So on a kernel that
 * kills because of filters, no process gets return probes. A shadow stack exists from a process's
 * start, if its C library was told to use one. */
static void choose_returns(struct session *s, const struct session_options *o)
{
	const char *tunables = o->command ? getenv("GLIBC_TUNABLES") : NULL;
	bool command = tunables && strcasestr(tunables, "shstk");
	int pid = 0;

	if (o->no_returns) {
		snprintf(s->no_returns, sizeof(s->no_returns), "as asked for");
		return;
	}
	if (!(s->what & (WHAT_HEAP | WHAT_REGIONS)))
		return;
	if (features__seccomp_kills()) {
		snprintf(
			s->no_returns, sizeof(s->no_returns),
			"with them, this kernel kills a process that has a filter of system calls");
		return;
	}
	if (!features__shadow_stacks_kill())
		return;
	for (size_t i = 0; i < o->n_pids && !pid; i++)
		pid = has_shadow_stack(o->pids[i], NULL);
	if (!pid && s->everywhere) /* an error counts as a shadow stack */
		pid = process__each(has_shadow_stack, NULL);
	if (pid || command)
		snprintf(s->no_returns, sizeof(s->no_returns),
			 "with them, this kernel kills a process that has a shadow stack%s",
			 command ? "" : ", and there is one");
}

int open__attach(struct session *s, struct target *t, bool loading, struct error *err)
{
	pid_t pid = t->info.pid;
	struct process_info now;
	int rc;

	if (!(s->what & WHAT_HEAP) || t->heap_attached)
		return 0;
	rc = allocators__find(s->alloc_files, pid, &t->maps, loading ? ALLOC_LOADING : ALLOC_OWN,
			      s->extra, s->n_extra, &t->allocators, err);
	if (rc == -ENOTSUP && s->no_returns[0]) {
		struct error first = *err;

		error__set(err, rc, "%s; there are no return probes: %s", first.text,
			   s->no_returns);
	}
	if (!rc)
		targets__note_unseen(s, t);
	if (!rc)
		rc = attach_allocators(s, t, err);
	if (rc)
		return rc;
	t->heap_attached = true;
	/* The kernel was only given a pid. Did this pid still belong to the same process? */
	if (process__read(pid, &now) || now.start_ticks != t->info.start_ticks ||
	    !process__lives(&now))
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
	if (s->regions_if_easy && capture__kind(s->capture) == PROBE_PERF)
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

static int open_command(struct session *s, const char *name, int *ret_status, struct error *err)
{
	struct error none = {};
	int rc, status = 0;

	rc = launch__start(&s->launch, name, err);
	if (rc)
		return rc;
	rc = targets__add(s) ? open__target(s, s->targets[0], s->launch.pid, err)
			     : error__set(err, -ENOMEM, "out of memory");
	if (rc)
		return rc;
	/* News of the command's exec is still to come, but tells nothing new. So on_exec() ignores
	 * execs from before this moment. */
	s->targets[0]->begun_by_exec_ns = clock__now_ns(CLOCK_MONOTONIC);
	if (!s->launch.loading) {
		rc = open__attach(s, s->targets[0], false, err);
		return rc ? rc : attach_regions(s, false, err);
	}
	/* Looks for allocators before the first mapping, too: the program itself may define malloc,
	 * or its dynamic linker may be the whole C library (musl). */
	for (int more = 1;; more = launch__next_mapping(&s->launch, &status)) {
		if (more == -ESRCH) {
			if (ret_status)
				*ret_status = status;
			return error__set(err, -ECHILD,
					  "%s ended while it was being loaded, before it could "
					  "allocate",
					  name);
		}
		if (more < 0)
			return error__set(err, more, "cannot follow the loading of %s: %s", name,
					  strerror(-more));
		targets__refresh_maps(s, s->targets[0]);
		memset(&none, 0, sizeof(none));
		rc = open__attach(s, s->targets[0], true, &none);
		if (!rc)
			rc = attach_regions(s, more, &none);
		if (rc == -ENOENT && more)
			continue;
		if (rc)
			return error__set(err, rc, "%s: %s", name, none.text);
		return 0;
	}
}

/* Can perf uprobes keep the limit? Windows are costly with perf uprobes, which are taken out one
 * after the other, a tenth of a second each. */
static int check_perf_limit(const struct session *s, struct error *err)
{
	double window_s = PERF_EDGES_S + PERF_WINDOW_S,
	       pays_s = WINDOWS_FELT * window_s / s->max_overhead;

	if (s->everywhere)
		return error__set(
			err, -ENOTSUP,
			"perf uprobes (uprobe_multi comes with Linux 6.6) of all processes cannot "
			"be placed and removed for each window, so no limit of overhead can be "
			"kept. Name up to %d processes with -p. With --max-overhead off, every "
			"process of this machine pays for each of its calls",
			SESSION_SEPARATE);
	if (pays_s > PERF_PAYS_S)
		return error__set(
			err, -ENOTSUP,
			"with perf uprobes (uprobe_multi comes with Linux 6.6) one window may "
			"cost a process %.2f s of CPU time. A limit of %.3g %% allows such a "
			"window only every %.0f s: give --max-overhead %.0f or more, or off",
			WINDOWS_FELT * window_s, 100 * s->max_overhead, pays_s,
			ceil(100 * WINDOWS_FELT * window_s / PERF_PAYS_S));
	return 0;
}

/* Can a limit of overhead be kept, if there is one? *ret_refuse: must the run fail if the limit
 * cannot be kept, even if the user gave none? */
static int check_limit(const struct session *s, bool *ret_refuse, struct error *err)
{
	*ret_refuse = false;
	if (!(s->max_overhead > 0))
		return 0;
	if (s->everywhere ? s->what != WHAT_HEAP : s->what & WHAT_FAULTS)
		return error__set(
			err, -ENOTSUP,
			"--max-overhead works for the heap, and for regions of a command or of up "
			"to %d processes given by -p. For others, and for faults, give "
			"--max-overhead off",
			SESSION_SEPARATE);
	if (!budget__cost_known(s))
		return error__set(
			err, -ETIMEDOUT,
			"a limit of overhead cannot be kept: what probes cost here could not "
			"be measured");
	*ret_refuse = capture__kind(s->capture) == PROBE_PERF && s->what & WHAT_HEAP;
	return *ret_refuse ? check_perf_limit(s, err) : 0;
}

/* Begins to report that all is well. The keeper needs these reports from the first probe on. */
static int begin_guard(struct session *s, struct error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	s->beat_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->beat_fd < 0 || guard__await_beat(s) ||
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->beat_fd, &event))
		return error__set(err, -errno, "cannot make a timer: %s", strerror(errno));
	guard__expect(s, false);
	return 0;
}

int open__raise_descriptors(size_t n_pids, struct error *err)
{
	uint64_t least = LEAST_DESCRIPTORS + (uint64_t)sysconf(_SC_NPROCESSORS_CONF) +
			 DESCRIPTORS_OF_PID * n_pids;
	struct rlimit limit;
	rlim_t before;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return error__set(err, -errno, "cannot read the limit of open files: %s",
				  strerror(errno));
	before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) && before < least)
		return error__set(
			err, -EMFILE,
			"memtrace may have %llu files open (ulimit -n) and needs %llu at least, "
			"but cannot raise this limit to %llu: %s",
			(unsigned long long)before, (unsigned long long)least,
			(unsigned long long)limit.rlim_max, strerror(errno));
	if (limit.rlim_max >= least)
		return 0;
	return error__set(
		err, -EMFILE,
		"memtrace may have %llu files open (ulimit -Hn) and needs %llu at least: "
		"as root, raise the limit with `ulimit -n 4096` (systemd: LimitNOFILE=4096)",
		(unsigned long long)limit.rlim_max, (unsigned long long)least);
}

int session__open(const struct session_options *o, struct session **ret, struct error *err)
{
	struct watch_handlers handlers;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	struct capture_options capture_options = o->capture;
	struct symbolize_options symbolize_options = o->symbolize;
	struct alloc_how how;
	struct session *s;
	bool refuse;
	int rc;

	rc = session__check_machine(err);
	if (!rc)
		rc = open__raise_descriptors(o->n_pids, err);
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error__set(err, -ENOMEM, "out of memory");
	if (o->command) {
		s->launch = *o->launch;
		*o->launch = (struct launch){};
	}
	s->opened_ns = clock__now_ns(CLOCK_MONOTONIC);
	if (own__machine_idle_ns(&s->opened_idle_ns))
		s->opened_ns = 0;
	symbolize_options.waiting = (struct stream_waiting){guard__wait, s};
	s->epoll_fd = s->timer_fd = s->beat_fd = s->writes_fd = -1;
	s->max_overhead = o->max_overhead;
	s->max_steady_overhead = fmax(o->max_steady_overhead, o->max_overhead);
	s->max_host_overhead = o->max_host_overhead;
	s->favoured_overhead = o->favoured_overhead;
	s->window_period_ns = o->window_period_ns;
	s->interval = o->capture.interval;
	s->interval_given = o->interval_given;
	s->extra = o->capture.extra;
	s->n_extra = o->capture.n_extra;
	s->planned_s = o->planned_s;
	s->what = o->what ? o->what : WHAT_HEAP;
	s->everywhere = o->selection || o->n_pids > SESSION_SEPARATE;
	s->regions_if_easy = o->regions_if_easy && !s->everywhere && !(s->what & WHAT_REGIONS);
	if (s->regions_if_easy)
		s->what |= WHAT_REGIONS;
	s->region_place = s->regions_if_easy ? REGIONS_LIBC : o->region_place;
	capture_options.regions = s->what & WHAT_REGIONS;
	capture_options.faults = s->what & WHAT_FAULTS;
	s->resident = o->resident;
	s->large = o->large;
	s->blocks = o->blocks;
	s->victims = o->victims;
	s->forget_ended = o->forget_ended;
	s->selection = o->selection;
	choose_returns(s, o);
	if (s->no_returns[0] && s->regions_if_easy) {
		s->regions_if_easy = false;
		s->what &= ~(unsigned)WHAT_REGIONS;
		capture_options.regions = false;
	}
	how = (struct alloc_how){.no_returns = s->no_returns[0],
				 .copies = !s->everywhere && can_probe_copies(capture_options.kind),
				 .tables = features__tables(),
				 /* in windows, figures of pools whose blocks all end at once are
				  * wrong */
				 .pools = features__tables() && !(s->max_overhead > 0),
				 /* A run that is to record every allocation, or the calls of named
				  * functions, needs more than the samples that a program takes
				  * itself. A command's markers are not looked for, because its
				  * libraries come one after the other. */
				 .markers = !s->everywhere && !o->command && s->interval > 1 &&
					    !s->n_extra,
				 .meanwhile = {guard__wait, s}};
	s->run = profile_run__new();
	if (!s->run || binaries__new(&s->binaries) ||
	    alloc_files__new(s->binaries, &how, &s->alloc_files) ||
	    python_files__new(s->binaries, &how.meanwhile, &s->python_files) ||
	    symbolizer__new(&symbolize_options, s->binaries, &s->symbolizer)) {
		rc = error__set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	files__reuse(s);
	/* Reports wrong pids before the slow steps. */
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		rc = check_target(s, o->pids[i], err);
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
		capture_options.max_processes =
			capture__processes_for(SELECTED_PROCESSES, capture__cpus());
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
		s->regions_calibrated =
			!capture__calibrate_regions(s->capture, &s->region_calibration);
	/* Regions that are traced only to complete --leaks must not put the limit of overhead at
	 * risk. So they are not traced if their cost cannot be measured. */
	if (s->max_overhead > 0 && s->what & WHAT_REGIONS && !s->regions_calibrated &&
	    s->regions_if_easy) {
		s->regions_if_easy = false;
		s->what &= ~(unsigned)WHAT_REGIONS;
	}
	/* A window of perf uprobes is costly. So the default limit for windows is raised to the
	 * limit for continuous tracing. */
	if (capture__kind(s->capture) == PROBE_PERF && s->max_overhead > 0 && !o->overhead_given)
		s->max_overhead = s->max_steady_overhead;
	rc = check_limit(s, &refuse, err);
	if (rc && (o->overhead_given || refuse))
		goto fail;
	if (rc) {
		s->max_overhead = 0;
		s->lost_limit = rc == -ETIMEDOUT;
		*err = (struct error){};
	}
	rc = begin_guard(s, err);
	if (rc)
		goto fail;
	rc = s->what & WHAT_FAULTS ? capture__attach_faults(s->capture, err) : 0;
	if (rc)
		goto fail;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, capture__events_fd(s->capture), &event);
	rewritten__begin(s);

	handlers = targets__handlers(s);
	/* A run can do without the watch: the maps are then as old as the last reading of /proc. */
	if (!watch__new(&handlers, &s->watch))
		epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, watch__fd(s->watch), &event);

	if (o->command) {
		rc = open_command(s, o->command[0], o->ret_command_status, err);
		if (rc)
			goto fail;
	}
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		struct target *t = targets__add(s);

		rc = t ? open__target(s, t, o->pids[i], err)
		       : error__set(err, -ENOMEM, "out of memory");
		if (rc)
			goto fail;
	}
	/* Places the probes last: they slow each call from then on, and making the unwind tables of
	 * a large program takes a while. */
	targets__tell_mappings(s);
	for (size_t i = 0; !o->command && i < o->n_pids; i++) {
		rc = open__attach(s, s->targets[i], false, err);
		if (rc)
			goto fail;
	}
	if (!o->command) {
		rc = attach_regions(s, false, err);
		if (rc)
			goto fail;
	}
	if (s->selection) {
		rc = selection__scan(s, err);
		if (rc)
			goto fail;
	}
	targets__tell_mappings(s);
	if (s->selection && s->selection->dynamic && s->what & WHAT_HEAP)
		targets__probe_own_libc(s);
	s->privileges = (struct privileges_use){
		.command = o->command,
		.admin = capture__kind(s->capture) == PROBE_PERF || s->resident,
	};
	rc = privileges__limit(PRIVILEGES_TRACING, &s->privileges, err);
	if (rc)
		goto fail;
	*ret = s;
	return 0;
fail:
	session__free(s);
	return rc;
}
