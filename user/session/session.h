/* SPDX-License-Identifier: BSD-2-Clause */
/* One tracing run from start to finish: the recipe that the commands share. Prints nothing. Order
 * of use: open (everything is in place, nothing counts yet), start (the run's exact beginning),
 * dispatch and status while it runs, stop (its exact end), profiles, free. */
#ifndef MEMTRACE_SESSION_SESSION_H
#define MEMTRACE_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "capture/capture.h"
#include "profile/profile.h"
#include "session/launch.h"
#include "symbolize/symbolize.h"

struct session;

/* Selects processes that are traced without being named. They must meet all conditions given. */
struct session_selection {
	/* true: each process that meets the conditions below is traced. false: only children */
	bool dynamic;
	/* children of traced processes, present and future ones */
	bool follow;
	/* the process must have one of these names (as the kernel keeps them: 15 bytes) */
	const char *const *comms;
	size_t n_comms;
	const uint32_t *users; /* the process must have one of these effective user ids */
	size_t n_users;
	const char *exe;	     /* glob that the program's path must match; NULL: any */
	const struct cgroup *cgroup; /* the process must be in it, or below; NULL: any */
};

/* What is profiled: any of these together. */
enum session_what {
	WHAT_HEAP = 1,	  /* what the allocator hands out */
	WHAT_REGIONS = 2, /* what is taken from the kernel: mmap, munmap, mremap, brk */
	WHAT_FAULTS = 4,  /* what becomes resident, by page faults; not beside the heap */
};

/* Processes that did not end by themselves. */
enum session_victims {
	VICTIMS_NONE,
	VICTIMS_OF_MEMORY, /* the kernel has killed them because memory was short */
	/* these, and processes that SIGKILL or a signal that dumps core has ended */
	VICTIMS_ALL,
};

/* Where the calls of WHAT_REGIONS are seen. */
enum session_region_place {
	/* at libc's functions if these see all calls, else at the system calls */
	REGIONS_AUTO,
	REGIONS_LIBC,
	REGIONS_SYSCALLS,
};

/* memtrace reports at least every GUARD_BEAT_MS that all is well (a beat). When no beat comes for
 * the time GUARD_LIMITED_MS, all probes are taken out. A loaded machine rarely keeps memtrace
 * waiting this long. Taking the probes out takes time, too: all in all, targets run undisturbed
 * again within a second. Without a limit of overhead, it matters more that the trace misses
 * nothing. So the time is longer then: GUARD_UNLIMITED_MS. While files are written under a limit,
 * a slow disk should not cost the probes, and targets still run undisturbed within a second:
 * GUARD_WRITING_MS. */
#define GUARD_LIMITED_MS   300
#define GUARD_WRITING_MS   600
#define GUARD_UNLIMITED_MS 5000
#define GUARD_BEAT_MS	   100

/* At most so many processes get probes of their own. The kernel takes 10 to 30 ms for the probes of
 * each. */
#define SESSION_SEPARATE 16

#define SESSION_FAVOURED 4 /* processes, at most: session__favour() */

struct session_options {
	unsigned what; /* of enum session_what; 0: heap */
	/* profile regions as well, but only if probes on libc's functions see them, and if these
	 * probes can be removed at once */
	bool regions_if_easy;
	bool resident; /* fill in profile.resident as well, as of the end of the run */
	/* Fill in the blocks of each profile's sites as well (struct profile_site). The caller then
	 * works on in the targets after the stop, so the stop takes out all probes, perf uprobes,
	 * too. */
	bool blocks;
	/* The processes whose profiles session__victims() gives. Unless VICTIMS_NONE, the caller
	 * has to call session__victims() often. */
	enum session_victims victims;
	/* The profiles of processes that were not named and have ended are not wanted: the caller
	 * does not call session__profiles(). */
	bool forget_ended;
	/* true: use no return probes. Results are then read at the functions' ret instructions,
	 * which costs more. false: return probes are left out only where this kernel would kill a
	 * process because of them. */
	bool no_returns;
	enum session_region_place region_place;
	const struct session_selection *selection; /* besides pids or a command; NULL: none */
	const pid_t *pids;			   /* processes to trace */
	size_t n_pids;
	/* planned length of the run; 0: it has no planned end. Profiles only mention it: the caller
	 * ends the run. */
	double planned_s;
	/* Instead of pids: a command to start and trace, as a NULL-terminated argv. NULL: none. */
	char *const *command;
	/* The process that becomes the command, from launch__fork(). The session takes it over. */
	struct launch *launch;
	/* A command's wait status when it ends before it could be traced; session__open then
	 * answers -ECHILD. May be NULL. */
	int *ret_command_status;
	/* Tracing in windows may cost a process this share of its CPU time, 0..1; 0: no limit. */
	double max_overhead;
	/* The same for continuous tracing, which slows all requests alike. Not less than
	 * max_overhead. */
	double max_steady_overhead;
	/* Did the user give the limit? If so, session__open fails when the limit cannot be kept. If
	 * not, the run then goes on without a limit; with perf uprobes it fails all the same. */
	bool overhead_given;
	/* Where probes are in all processes (with a selection, or with more than SESSION_SEPARATE
	 * pids): share of the machine's CPU time that tracing may cost, 0..1; 0: no limit. Only
	 * beside max_overhead. */
	double max_host_overhead;
	/* Tracing in windows may cost a favoured process this share of its CPU time: as
	 * max_overhead, which counts if it is larger. 0: session__favour() favours no process. */
	double favoured_overhead;
	/* for tests: about the time from window to window; 0: about a second */
	uint64_t window_period_ns;
	/* Did the user give capture.interval as a number? If not, tracing may use a coarser one
	 * if tracing then stays continuous within the limit. (A number that was given is kept,
	 * because the user may compare runs that have it, or may want each allocation. If it costs
	 * too much, the user can give a larger one.) */
	bool interval_given;
	struct capture_options capture;
	struct symbolize_options symbolize;
};

/* 0, or negative errno with err. On failure nothing is left: no probe, no process started. */
int session__open(const struct session_options *options, struct session **ret, struct error *err);
void session__free(struct session *session);

/* Begins counting, and lets a command run. */
int session__start(struct session *session, struct error *err);

/* Readable when session__dispatch has something to do. Owned by the session. */
int session__fd(const struct session *session);

/* Call it right before waiting for session__fd(). Raises memtrace's priority (base/priority.h)
 * until session__dispatch() has done its urgent work. Without a limit of overhead it does nothing.
 * */
void session__hurry(struct session *session);

/* Takes in news (mapped files, ended processes), and reports that all is well. If nothing reports
 * this for GUARD_LIMITED_MS (without a limit of overhead: GUARD_UNLIMITED_MS), all probes are taken
 * out of the targets; the next call puts them back. True when every target has ended. */
bool session__dispatch(struct session *session);

/* Ends tracing a target that is alive. Its probes are taken out, the kernel's records of it are
 * discarded, and it has no profile any more. A child that it forks meanwhile is not traced before
 * the child's next exec. After an exec, the process itself is not traced either. 0; -ESRCH: it is
 * no target; -EINVAL: it is a command. */
int session__deactivate(struct session *session, pid_t pid);

/* Begins to trace such a process anew, with all figures at 0. This happens soon, in a later
 * session__dispatch(). 0; -ESRCH: session__deactivate() was not called for it. */
int session__activate(struct session *session, pid_t pid);

/* Calls fn for each process that is not traced because of session__deactivate(). why: NULL: it will
 * be traced again soon; "": nobody has asked for that; else what failed. If there was no room for
 * the process, that is tried again. 0, or what fn returned, if that is not 0. */
int session__each_inactive(struct session *session,
			   int (*fn)(void *ctx, pid_t pid, const char *why), void *ctx);

/* Gives the process more windows for some minutes (scheduler__favour()). 0; -ESRCH: it is no
 * target, or has ended; -ENOTSUP: the limits allow no more than it has; -EALREADY: it has them, or
 * had them not long ago; -EBUSY: enough others have them. */
int session__favour(struct session *session, pid_t pid);

/* Do the limits allow that a process has more windows? If not, session__favour() returns -ENOTSUP
 * for each. */
bool session__may_favour(const struct session *session);

/* A favoured process; times as by CLOCK_MONOTONIC. */
struct session_favoured {
	pid_t pid;
	uint64_t from_ns, until_ns;
};
/* The favoured processes of the moment. Returns their number. */
size_t session__favoured(const struct session *session,
			 struct session_favoured ret[SESSION_FAVOURED]);

/* How often since the start all probes were taken out because nothing reported that all is well
 * (session__dispatch()). *ret_s: for how many seconds in all they were out. */
size_t session__withdrawals(const struct session *session, double *ret_s);

/* Is mt-keeper alive, the process that takes the probes out when memtrace is silent? Without it the
 * caller must end the run. */
bool session__is_guarded(struct session *session);

/* Why the run uses no return probes, for example "as asked for". The session owns the text. NULL:
 * it uses them. */
const char *session__no_returns(const struct session *session);

/* The state of the run, over all targets. */
struct session_status {
	double elapsed_s;
	uint64_t alloc_calls, free_calls; /* since the start; of processes in windows an estimate */
	uint64_t samples;
	double alloc_bytes; /* estimate: allocated since the start */
	double live_bytes;  /* estimate: allocated and not freed, by n_live targets */
	/* by how much the anonymous memory of the other targets (there are n_grown) has grown since
	 * their tracing began. They are traced in windows, so only their profiles estimate how much
	 * they hold. */
	double grown_bytes;
	size_t n_live, n_grown;
	double overhead_pct; /* estimated share of the targets' CPU time since the start; negative
			      * when unknown */
	double cpu_cores;    /* how many cores the targets use, on the average since the start */
	size_t running;	     /* targets that have not ended */
	size_t windowed;     /* all targets that are traced in windows at present */
};
void session__status(struct session *session, struct session_status *ret);

/* Change from one status to a later one, per second. NaN: the two count different targets. */
struct session_rates {
	double live_bytes, grown_bytes, alloc_calls, free_calls;
};

/* Calls that turn out to be the allocator's own are subtracted later, so counts can step back a
 * little: their rates are 0 then. false: no time has passed. */
bool session_status__rates(const struct session_status *before, const struct session_status *now,
			   struct session_rates *ret);

/* Call before long work during the run, such as session__peek() and session__look(). A window that
 * is open stays open while that work lasts. So this function waits until no window is open: half a
 * second as a rule, one second at most. */
void session__await_gap(struct session *session);

/* long_work: the caller writes files from now on; false: it has stopped writing. Because a disk may
 * be slow, the probes are taken out only after a longer silence while it writes. */
void session__expect_long_work(struct session *session, bool long_work);

/* Profiles of the moment, while the run goes on: calls fn for the profile of each target that has
 * not ended, in order. When fn returns something else than 0, stops and returns that. The profile
 * is freed after the call. Takes as long as reading all tables does. 0 or negative errno. */
int session__peek(struct session *session, int (*fn)(void *ctx, const struct profile *profile),
		  void *ctx);

/* For a caller that keeps the newest profile of each process. */
struct session_news {
	/* Gets a new profile, which is freed after the call. */
	int (*profile)(void *ctx, const struct profile *profile);
	/* The process pid has not ended, and has done nothing since its last profile. The profile
	 * is still right, except for figures that depend on the length of the run. */
	int (*same)(void *ctx, pid_t pid);
	void *ctx;
	/* true: a profile of each process. Set it at first, and after a profile was lost. */
	bool all;
};

/* Like session__peek(), but calls only news->same for a process that has done nothing since its
 * last profile. Even such a process has a new profile when its run is a quarter longer than at its
 * last profile: growth is divided by the length of the run, and blocks have become older. At least
 * one process has a new profile each minute, because a profile also has the losses of the whole
 * run. */
int session__news(struct session *session, const struct session_news *news);

/* With options->victims: calls fn for the profile of each target that has ended as a victim since
 * the last call, with what it held when it ended. Where fn returns something else than 0, or a
 * profile cannot be made, goes on with the others, and returns the first of these errors. A profile
 * that could not be made is tried again. The profile is freed after the call; session__profiles()
 * has it again. 0 or negative errno. */
int session__victims(struct session *session, int (*fn)(void *ctx, const struct profile *profile),
		     void *ctx);

/* The same profiles as session__peek() makes, and those of targets that have ended, if these were
 * named. The caller frees the profiles and the array. After stop: as of the stop. 0 or negative
 * errno. */
int session__look(struct session *session, struct profile ***ret, size_t *ret_n);

/* After stop: from then on session__look() leaves out these parts of the model of windows (the bits
 * of profile/parts.h). What was decided during the run stays as it was. */
void session__leave_out(struct session *session, unsigned parts);

/* Ends counting, and takes the probes out of the targets. Perf uprobes stay, idle, until
 * session__detach() (unless options->blocks). Removing them takes 80 ms each, one after the other,
 * and nothing that was captured should wait for this. */
void session__stop(struct session *session);

/* Takes the probes out of the targets that are still there. */
void session__detach(struct session *session);

/* What each target holds: profiles, sorted and symbolized, in the order of the pids, for each pid
 * the heap before the regions. After stop. The array and the profiles are the session's. 0 or
 * negative errno. */
int session__profiles(struct session *session, struct profile *const **ret, size_t *ret_n,
		      struct error *err);

/* How many processes the run has traced so far, also those that have ended and left nothing to
 * report. */
size_t session__met(const struct session *session);

/* The pid of the command that was started; 0: none. */
pid_t session__command(const struct session *session);
/* Has the command ended? If so, its wait status is in *ret_wait_status. */
bool session__command_ended(struct session *session, int *ret_wait_status);

/* Where regions are seen, as text for people: "" when they are not. */
const char *session__region_place(const struct session *session);

/* How the probes were attached, and where: as capture__probes. */
enum probe_kind session__kind(const struct session *session);
const struct capture_probe *session__probes(const struct session *session, size_t *ret_n);

/* Bytes that the run's tables and programs take in the kernel now. *ret_at_most: this is an upper
 * limit (struct run_cost). */
uint64_t session__kernel_bytes(const struct session *session, bool *ret_at_most);

/* What could not be probed so far: as capture__refusals, valid until the next dispatch. */
const struct capture_refusal *session__refusals(const struct session *session, size_t *ret_n);

/* What tracing pid would do, found out without touching it. This is the kind of probe, the
 * allocators with the place of every probe, and their cost, calibrated on a child of memtrace's
 * own. */
struct session_plan {
	enum probe_kind kind;
	struct allocators *allocators; /* owned; NULL: none that is known */
	struct error no_allocator;     /* why allocators is NULL */
	struct region_source *regions; /* owned */
	struct calibration calibration;
	struct region_calibration region_calibration;
	bool regions_calibrated; /* region_calibration is known */
};
int session__plan(pid_t pid, const struct capture_options *options, struct session_plan *ret,
		  struct error *err);
void session_plan__clear(struct session_plan *plan);

/* Can memtrace trace on this machine: privileges (-EPERM), the pid namespace, BTF? 0, or negative
 * errno with err. session__open() and session__plan() call this. A caller that is about to report
 * another error calls it first: where nothing can be traced, the other error would mislead
 * people. */
int session__check_machine(struct error *err);

/* How much kernel memory a run's tables take on a machine with cpus possible CPUs, and how many
 * processes the run can trace at a time (*ret_processes). everywhere: probes are for all processes,
 * as for a selection; false: for named processes alone. 0 or negative errno. */
int session__footprint(bool everywhere, int cpus, struct capture_footprint *ret,
		       uint32_t *ret_processes);

/* Checks a pid without tracing it: 0, or negative errno with err saying why it cannot be traced (no
 * such process, kernel thread, thread of another, 32-bit, ended). */
int session__check_pid(pid_t pid, struct error *err);

/* The same for probes in this process alone: -ENOTSUP, too, if its main thread has ended while
 * others run. Probes in the code of all processes see such a process. */
int session__check_alone(pid_t pid, struct error *err);

#endif
