/* SPDX-License-Identifier: BSD-2-Clause */
/* One tracing run from start to finish: the recipe that the commands share. Prints nothing. Order
 * of use: open (puts everything in place, but nothing counts yet), start (the run's exact
 * beginning), dispatch and status while the run goes on, stop (its exact end), profiles, free. */
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

/* Selects processes that are traced without being named. */
struct session_selection {
	/* true: each process that meets all conditions below is traced. false: only children of
	 * traced processes are traced, if `follow` is set */
	bool dynamic;
	/* present and future children of traced processes are traced, whether they meet the
	 * conditions or not */
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
	WHAT_FAULTS = 4,  /* what becomes resident, by page faults; not together with WHAT_HEAP */
};

/* Processes that did not end by themselves. */
enum session_victims {
	VICTIMS_NONE,
	VICTIMS_OF_MEMORY, /* the kernel has killed them because memory was short */
	/* also processes that were ended by SIGKILL, or by a signal that dumps core */
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
 * GUARD_LIMITED_MS, all probes are taken out. A loaded machine rarely keeps memtrace waiting this
 * long. Taking the probes out takes time, too: all in all, targets run undisturbed again within a
 * second. Without a limit of overhead, it matters more that the trace misses nothing. So the time
 * is then GUARD_UNLIMITED_MS, which is longer. While files are written under a limit, the time is
 * GUARD_WRITING_MS. Then a slow disk does not cause the probes to be taken out, and targets still
 * run undisturbed again within a second. */
#define GUARD_LIMITED_MS   300
#define GUARD_WRITING_MS   600
#define GUARD_UNLIMITED_MS 5000
#define GUARD_BEAT_MS	   100

/* At most this many processes get probes of their own. The kernel takes 10 to 30 ms for the probes
 * of each process. */
#define SESSION_SEPARATE 16

/* At most this many processes are favoured at a time: session__favour(). */
#define SESSION_FAVOURED 4

struct session_options {
	unsigned what; /* of enum session_what; 0: heap */
	/* also profile regions, but only if probes on libc's functions see them, and if all these
	 * probes can be removed together */
	bool regions_if_easy;
	/* In windows: count large blocks from outside, so that the profiles at the end of the run
	 * show large blocks that no window saw (profile/large.h) */
	bool large;
	bool resident; /* also fill in profile.resident, as of the end of the run */
	/* Also fill in the blocks of each profile's sites (struct profile_site). The caller then
	 * goes on to read the targets' memory after the stop. So session__stop() takes out all
	 * probes, also perf uprobes. */
	bool blocks;
	/* The processes whose profiles session__victims() gives. If this is not VICTIMS_NONE, the
	 * caller has to call session__victims() often. */
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
	/* The process that becomes the command, from launch__fork(). The session takes the process
	 * over, and *launch becomes empty. If session__open() fails earlier, the process still
	 * belongs to the caller. */
	struct launch *launch;
	/* Gets the command's wait status if the command ends before it could be traced;
	 * session__open() then returns -ECHILD. May be NULL. */
	int *ret_command_status;
	/* Tracing in windows may cost a process this share of its CPU time, 0..1; 0: no limit. */
	double max_overhead;
	/* The same limit for continuous tracing, which slows all requests alike. If max_overhead is
	 * larger, max_overhead counts. */
	double max_steady_overhead;
	/* Did the user give the limit? If so, session__open() fails when the limit cannot be kept.
	 * If not, the run goes on without a limit in this case. But if perf uprobes cannot keep the
	 * limit, session__open() fails even if the user gave no limit. */
	bool overhead_given;
	/* Share of the machine's CPU time that tracing may cost, 0..1; 0: no limit. It counts only
	 * if probes are in the code of all processes: with a selection, or with more than
	 * SESSION_SEPARATE pids. It is used only together with max_overhead. */
	double max_host_overhead;
	/* Tracing in windows may cost a favoured process this share of its CPU time, 0..1. If
	 * max_overhead is larger, max_overhead counts. 0: session__favour() favours no process. */
	double favoured_overhead;
	/* for tests: approximate time from one window to the next; 0: about a second */
	uint64_t window_period_ns;
	/* Did the user give capture.interval as a number? If not, continuous tracing may use a
	 * coarser interval to stay within the limit, or a finer one. (An interval that was given is
	 * kept, because the user may compare runs with this interval, or may want each allocation.
	 * If this interval costs too much, the user can give a larger interval.) */
	bool interval_given;
	struct capture_options capture;
	struct symbolize_options symbolize;
};

/* Puts everything in place for a run. Returns 0, or negative errno with err. A failed call leaves
 * no probe behind, and no process that it started. */
int session__open(const struct session_options *options, struct session **ret, struct error *err);
void session__free(struct session *session);

/* Begins counting, and lets a command run. 0, or negative errno with err. */
int session__start(struct session *session, struct error *err);

/* Returns a descriptor that is readable when session__dispatch() has something to do. The session
 * owns it. */
int session__fd(const struct session *session);

/* Raises memtrace's priority (base/priority.h) until session__dispatch() has done its urgent work.
 * Call it right before waiting for session__fd(). It does nothing without a limit of overhead, or
 * if probes are in the code of all processes. */
void session__hurry(struct session *session);

/* Takes in news (mapped files, ended processes), and reports that all is well. If memtrace does not
 * report this for GUARD_LIMITED_MS (without a limit of overhead: GUARD_UNLIMITED_MS), all probes
 * are taken out of the targets. The next call puts them back. Returns true when every target has
 * ended and no new one can come. */
bool session__dispatch(struct session *session);

/* Ends tracing a target that is alive. Its probes are taken out, and the kernel's records of it are
 * discarded. With options->forget_ended, it has no profile any more. Children that the process
 * forks before session__activate() are not traced until their next exec. An exec of the process
 * itself does not begin tracing again. 0; -ESRCH: it is no target, or has ended, or the run was
 * stopped; -EINVAL: it is a command; -ENOMEM. */
int session__deactivate(struct session *session, pid_t pid);

/* Begins to trace a process again, with all figures at zero, after session__deactivate() was called
 * for it. This happens soon, in a later session__dispatch(). 0; -ESRCH: session__deactivate() was
 * not called for it, or it has ended. */
int session__activate(struct session *session, pid_t pid);

/* Calls fn for each process that is not traced because of session__deactivate(). `why` is NULL if
 * the process will soon be traced again, and "" if nobody has asked to trace it again. Else it says
 * why tracing the process again failed. If there was no room for the process, memtrace tries again
 * to trace it. Stops when fn returns something else than 0, and returns this value. Otherwise
 * returns 0. */
int session__each_inactive(struct session *session,
			   int (*fn)(void *ctx, pid_t pid, const char *why), void *ctx);

/* Gives the process more windows for some minutes (scheduler__favour()). 0; -ESRCH: it is no
 * target, or has ended; -ENOTSUP: the limits do not allow it more windows; -EALREADY: it is
 * favoured now, or was a short time ago; -EBUSY: SESSION_FAVOURED others are favoured. */
int session__favour(struct session *session, pid_t pid);

/* Do the limits allow a process more windows than usual? If not, session__favour() returns -ENOTSUP
 * for each process. */
bool session__may_favour(const struct session *session);

/* A process that has more windows from from_ns until until_ns (CLOCK_MONOTONIC). */
struct session_favoured {
	pid_t pid;
	uint64_t from_ns, until_ns;
};
/* Fills in the processes that are favoured now. Returns their number. */
size_t session__favoured(const struct session *session,
			 struct session_favoured ret[SESSION_FAVOURED]);

/* Returns how often all probes were taken out since the start, because memtrace did not report that
 * all is well (session__dispatch()). *ret_s: for how many seconds in all the probes were out. */
size_t session__withdrawals(const struct session *session, double *ret_s);

/* Is mt-keeper alive, the process that takes the probes out when memtrace is silent? If not, the
 * caller must end the run. */
bool session__is_guarded(struct session *session);

/* Has the run lost its limit of cost, because the cost of probes could not be measured? false if
 * the user switched the limit off. */
bool session__has_lost_limit(const struct session *session);

/* Returns why the run uses no return probes, for example "as asked for". The session owns the text.
 * NULL: the run uses return probes. */
const char *session__no_returns(const struct session *session);

/* The state of the run, over all targets. */
struct session_status {
	double elapsed_s;
	uint64_t alloc_calls, free_calls; /* since the start; estimated for processes in windows */
	uint64_t samples;
	double alloc_bytes; /* estimate: bytes allocated since the start */
	double live_bytes;  /* estimate: bytes allocated and not freed, by n_live targets */
	/* by how much the anonymous memory of the other n_grown targets has grown since their
	 * tracing began. These targets are traced in windows, so only their profiles estimate how
	 * much they hold. */
	double grown_bytes;
	size_t n_live, n_grown;
	/* estimated cost of tracing in percent of the targets' CPU time since the start */
	struct optional overhead_pct;
	double cpu_cores; /* how many cores the targets use, on the average since the start */
	size_t running;	  /* targets that have not ended */
	/* number of running targets that are traced in windows at present; when all have ended,
	 * number of targets that were traced in windows at their end */
	size_t windowed;
};
void session__status(struct session *session, struct session_status *ret);

/* Change from one status to a later one, per second. NaN: the two statuses count different
 * targets. */
struct session_rates {
	double live_bytes, grown_bytes, alloc_calls, free_calls;
};

/* Computes the rates of change from `before` to `now`. Calls that turn out to be the allocator's
 * own are subtracted later, so a count of calls can become a little smaller. The rate of this count
 * is then 0. false: no time has passed. */
bool session_status__rates(const struct session_status *before, const struct session_status *now,
			   struct session_rates *ret);

/* Waits until no window is open: half a second as a rule, one second at most. Call it before long
 * work during the run, such as session__peek() and session__look(), because an open window stays
 * open while that work lasts. */
void session__await_gap(struct session *session);

/* Sets how long memtrace may be silent before the probes are taken out. long_work: the caller
 * writes files from now on. The time is then longer, because a disk may be slow. false: the caller
 * has stopped writing. */
void session__expect_long_work(struct session *session, bool long_work);

/* Makes profiles while the run goes on: calls fn for the present profile of each target that has
 * not ended, in the order in which the targets came. If fn returns something else than 0, or a
 * profile cannot be made, goes on with the other profiles, and returns the first of these errors.
 * The profile is freed after the call of fn. Takes as long as reading all tables does. 0 or
 * negative errno. */
int session__peek(struct session *session, int (*fn)(void *ctx, const struct profile *profile),
		  void *ctx);

/* For a caller that keeps the newest profile of each process. */
struct session_news {
	/* Gets a new profile, which is freed after the call. 0 or negative errno; 1: the profile
	 * was lost on its way, so the next call makes a new one. */
	int (*profile)(void *ctx, const struct profile *profile);
	/* The process pid has not ended, and has done nothing since its last profile. The profile
	 * is still right, except for figures that depend on the length of the run. */
	int (*same)(void *ctx, pid_t pid);
	void *ctx;
	/* true: makes a profile of each process. Set it if the caller may lack profiles of earlier
	 * calls. */
	bool all;
};

/* Like session__peek(), but calls only news->same for a process that has done nothing since its
 * last profile. Even such a process gets a new profile when its run is a quarter longer than at its
 * last profile. There are two reasons: growth is divided by the length of the run, and blocks have
 * become older. At least one process gets a new profile each minute, because each profile also has
 * the losses of the whole run. After an error, the caller lacks profiles: it has to set news->all
 * for the next call. */
int session__news(struct session *session, const struct session_news *news);

/* With options->victims: calls fn for the profile of each target that has ended as a victim since
 * the last call. The profile tells what the target held when it ended. If fn returns something else
 * than 0, or a profile cannot be made, goes on with the other profiles, and returns the first of
 * these errors. A profile that could not be made is tried again. The profile is freed after the
 * call of fn; session__profiles() gives it again. 0 or negative errno. */
int session__victims(struct session *session, int (*fn)(void *ctx, const struct profile *profile),
		     void *ctx);

/* Makes the profiles that session__peek() makes, and also those of targets that were named and have
 * ended. The caller frees the profiles and the array. After session__stop(), the profiles are as of
 * the stop. 0 or negative errno. */
int session__look(struct session *session, struct profile ***ret, size_t *ret_n);

/* Makes session__look() leave out these parts of the model of windows (the bits of
 * profile/parts.h). Call it after session__stop(). What was decided during the run stays as it
 * was. */
void session__leave_out(struct session *session, unsigned parts);

/* Ends counting, and takes the probes out of the targets. Perf uprobes stay in place, idle, until
 * session__detach() (unless options->blocks is set). They are removed one after the other, 80 ms
 * each, and the profiles should not have to wait for this. */
void session__stop(struct session *session);

/* Takes out the probes that are still in the targets. */
void session__detach(struct session *session);

/* Makes profiles of what each target holds. Call it once, after session__stop(). The profiles are
 * sorted and symbolized. The first ones are those that were made during the run, for processes that
 * were not named and had ended. The others are in the order in which the targets came, beginning
 * with the order of options->pids. For each process, the profile of the heap comes before that of
 * the regions. The session owns the array and the profiles. 0, or negative errno with err. */
int session__profiles(struct session *session, struct profile *const **ret, size_t *ret_n,
		      struct error *err);

/* Returns how many processes the run has traced so far, including those that have ended and left
 * nothing to report. */
size_t session__met(const struct session *session);

/* Returns the pid of the command that was started; 0: there is none, or it has ended. */
pid_t session__command(const struct session *session);
/* Has the command ended? If so, its wait status is in *ret_wait_status. */
bool session__command_ended(struct session *session, int *ret_wait_status);

/* Returns where regions are seen, as text for people; "": they are not seen. */
const char *session__region_place(const struct session *session);

/* session__kind() returns how the probes were attached. session__probes() returns where they were
 * attached, as capture__probes() does. */
enum probe_kind session__kind(const struct session *session);
const struct capture_probe *session__probes(const struct session *session, size_t *ret_n);

/* Returns how many bytes the run's tables and programs take in the kernel now. *ret_at_most: is
 * this only an upper limit (struct run_cost)? */
uint64_t session__kernel_bytes(const struct session *session, bool *ret_at_most);

/* Returns what could not be probed so far, as capture__refusals() does. The result is valid until
 * the next session__dispatch(). */
const struct capture_refusal *session__refusals(const struct session *session, size_t *ret_n);

/* What tracing a process would do. This is found out without touching the process. A plan has the
 * kind of probe, the allocators with the place of every probe, and the cost of the probes. This
 * cost is measured on a child of memtrace's own. All zero before session__plan(). */
struct session_plan {
	enum probe_kind kind;
	struct allocators *allocators; /* owned; NULL: no allocator is known */
	struct error no_allocator;     /* why allocators is NULL */
	struct region_source *regions; /* owned */
	struct calibration calibration;
	struct region_calibration region_calibration;
	bool regions_calibrated; /* region_calibration is known */
};
int session__plan(pid_t pid, const struct capture_options *options, struct session_plan *ret,
		  struct error *err);
void session_plan__clear(struct session_plan *plan);

/* Checks whether memtrace can trace on this machine: its privileges (-EPERM), the pid namespace,
 * BTF. 0, or negative errno with err. session__open() and session__plan() call this. A caller that
 * is about to report another error calls this function first: where nothing can be traced, the
 * other error would mislead people. */
int session__check_machine(struct error *err);

/* Computes how much kernel memory a run's tables take on a machine with `cpus` possible CPUs, and
 * how many processes the run can trace at a time (*ret_processes). everywhere: the probes are for
 * all processes, as for a selection; false: for named processes alone. 0 or negative errno. */
int session__footprint(bool everywhere, int cpus, struct capture_footprint *ret,
		       uint32_t *ret_processes);

/* Checks a pid without tracing it: 0, or negative errno with err saying why it cannot be traced (no
 * such process, kernel thread, thread of another process, 32-bit, ended, memtrace itself). */
int session__check_pid(pid_t pid, struct error *err);

/* Like session__check_pid(), for probes in this process alone. Also returns -ENOTSUP if the
 * process's main thread has ended while other threads run. Only probes in the code of all processes
 * see such a process. */
int session__check_alone(pid_t pid, struct error *err);

#endif
