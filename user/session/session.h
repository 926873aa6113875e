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

/* Processes that are traced without being named. All conditions given must hold. */
struct session_selection {
	bool dynamic; /* any process that fits what follows; else children only */
	/* children of traced processes, those they have and those to come */
	bool follow;
	const char *const *comms; /* names as the kernel has them (15 bytes): one of them */
	size_t n_comms;
	const uint32_t *users; /* effective user ids: one of them */
	size_t n_users;
	const char *exe;	     /* glob that the program's path must match; NULL: any */
	const struct cgroup *cgroup; /* in it or below; NULL: any */
};

/* What is profiled: any of these together. */
enum session_what {
	WHAT_HEAP = 1,	  /* what the allocator hands out */
	WHAT_REGIONS = 2, /* what is taken from the kernel: mmap, munmap, mremap, brk */
	WHAT_FAULTS = 4,  /* what becomes resident, by page faults; not beside the heap */
};

/* Where the calls of WHAT_REGIONS are seen. */
enum session_region_place {
	/* at libc's functions where these see all of them, else at the system calls */
	REGIONS_AUTO,
	REGIONS_LIBC,
	REGIONS_SYSCALLS,
};

/* Longer than a loaded machine keeps us waiting as a rule; with what closing takes, targets are
 * well again within a second. Who has set no limit waits for a trace that misses nothing. */
#define GUARD_LIMITED_MS   300
#define GUARD_UNLIMITED_MS 5000
#define GUARD_BEAT_MS	   100

/* processes at most with probes of their own; each takes the kernel 10 to 30 ms */
#define SESSION_SEPARATE 16

struct session_options {
	unsigned what; /* of enum session_what; 0: heap */
	/* regions as well, where libc's functions show them to probes that go at once */
	bool regions_if_easy;
	bool resident; /* profile.resident as well: of what is there at the end of the run */
	/* No call is to return through a probe: what functions return is read at their ret
	 * instructions, which costs more. Else so where this kernel would kill a process by it. */
	bool no_returns;
	enum session_region_place region_place;
	const struct session_selection *selection; /* besides pids or a command; NULL: none */
	const pid_t *pids;			   /* processes to trace */
	size_t n_pids;
	double planned_s; /* what the run is to take, for its profiles; whoever runs it sees to
			   * that. 0: until told */
	char *const
		*command; /* or, when not NULL, a command to start and trace (NULL-terminated), */
	struct launch *launch; /* and the process that becomes it, of launch__fork(): the session's
				* from then on */
	/* A command's wait status when it ends before it could be traced; session__open then
	 * answers -ECHILD. May be NULL. */
	int *ret_command_status;
	double max_overhead; /* share of its CPU time that tracing in windows may cost a process,
			      * 0..1; 0: no limit */
	double max_steady_overhead; /* the same of tracing all the time, which slows no request more
				     * than others; no less */
	bool overhead_given; /* asked for: it is an error when it cannot be kept; else there is none
			      * then (but with perf uprobes that is an error, too) */
	/* Where probes are in all processes (a selection, more than SESSION_SEPARATE pids): share
	 * of the machine's CPU time that tracing may cost, 0..1; 0: no limit. Only beside
	 * max_overhead. */
	double max_host_overhead;
	/* for tests: how often windows come about; 0: about every second */
	uint64_t window_period_ns;
	/* Was capture.interval asked for by its number? Else tracing may sample at a coarser one
	 * where that lets it go on all the time within the limit. (Who asks for a number
	 * compares by it, or wants each allocation, and can ask for a larger one.) */
	bool interval_given;
	struct capture_options capture;
	struct symbolize_options symbolize;
};

/* 0, or negative errno with err. On failure nothing is left: no probe, no process started. */
int session__open(const struct session_options *options, struct session **ret, struct error *err);
void session__free(struct session *session);

/* Counting begins; a command is let run. */
int session__start(struct session *session, struct error *err);

/* Readable when session__dispatch has something to do. Owned by the session. */
int session__fd(const struct session *session);

/* Takes in the news, and tells that all is well: when that is not called for GUARD_LIMITED_MS
 * (without a limit of overhead: GUARD_UNLIMITED_MS) while there is nothing else to say so, all
 * probes are taken out of the targets, and put back at the next call. News are mapped files, ended
 * processes. True when every target has ended. */
bool session__dispatch(struct session *session);

/* How often that happened since the start; *ret_s: for how long the probes were out in all. */
size_t session__withdrawals(const struct session *session, double *ret_s);

/* Is the process there that does it? Without it the run is to end. */
bool session__is_guarded(struct session *session);

/* Why no call returns through a probe, as in "as asked for"; the session's. NULL: calls do. */
const char *session__no_returns(const struct session *session);

/* How the run stands, over all targets. */
struct session_status {
	double elapsed_s;
	uint64_t alloc_calls, free_calls; /* since the start; of processes in windows an estimate */
	uint64_t samples;
	double alloc_bytes; /* estimate: allocated since the start */
	double live_bytes;  /* the same, and not freed: the table's estimate, of n_live targets */
	double grown_bytes; /* by which the anonymous memory of the others has grown since tracing
			     * them began: they are traced in windows, and what is live of them only
			     * the table estimates */
	size_t n_live, n_grown;
	double overhead_pct; /* estimated share of the targets' CPU time since the start; negative
			      * when unknown */
	double cpu_cores;    /* that the targets use, on the average since the start */
	size_t running;	     /* targets that have not ended */
	size_t windowed;     /* of all, those that are traced in windows at present */
};
void session__status(struct session *session, struct session_status *ret);

/* What has changed from one status to a later one, per second. NaN: it was of others then. */
struct session_rates {
	double live_bytes, grown_bytes, alloc_calls, free_calls;
};

/* Calls that turn out to be the allocator's own are taken off again, and counts can step back a
 * little: those are 0 then. false: no time has passed. */
bool session_status__rates(const struct session_status *before, const struct session_status *now,
			   struct session_rates *ret);

/* Before what takes long, and is done while the run goes on (the next two): waits until no window
 * is open that would stay open as long, half a second as a rule, one at most. */
void session__await_gap(struct session *session);

/* Files are written from now on, or no more: a slow disk is no reason to take the probes out as
 * early as otherwise. */
void session__expect_long_work(struct session *session, bool long_work);

/* How things stand while the run goes on: calls fn for the profile of each target that has not
 * ended, in order, until it returns something else than 0, which is then returned; the profile is
 * gone afterwards. Takes as long as reading all tables does. 0 or negative errno. */
int session__peek(struct session *session, int (*fn)(void *ctx, const struct profile *profile),
		  void *ctx);

/* The same profiles, for the caller to keep and free, the array, too; also those of targets that
 * have ended, if they were named. After stop: how things stood then. 0 or negative errno. */
int session__look(struct session *session, struct profile ***ret, size_t *ret_n);

/* After stop: what session__look() says from then on is without these parts of the model of windows
 * (the bits of profile/parts.h). What was decided while it ran stays as it was. */
void session__leave_out(struct session *session, unsigned parts);

/* Ends counting, and takes the probes out of the targets, but for perf uprobes: of these each takes
 * 80 ms, one after the other, and nothing that was captured should wait for it. They stay, idle,
 * until session__detach. */
void session__stop(struct session *session);

/* Takes the probes out of the targets that are still there. */
void session__detach(struct session *session);

/* What each target holds: profiles, sorted and symbolized, in the order of the pids, for each pid
 * the heap before the regions. After stop. The array and the profiles are the session's. 0 or
 * negative errno. */
int session__profiles(struct session *session, struct profile *const **ret, size_t *ret_n,
		      struct error *err);

/* How many processes the run has traced so far, those that have ended, and left nothing to report,
 * among them. */
size_t session__met(const struct session *session);

/* The pid of the command that was started (0: none), and, when it has ended, true and its wait
 * status. */
pid_t session__command(const struct session *session);
bool session__command_ended(struct session *session, int *ret_wait_status);

/* Where regions are seen, for people: "" when they are not. */
const char *session__region_place(const struct session *session);

/* How the probes were attached, and where: as capture__probes. */
enum probe_kind session__kind(const struct session *session);
const struct capture_probe *session__probes(const struct session *session, size_t *ret_n);

/* What could not be probed so far: as capture__refusals, valid until the next dispatch. */
const struct capture_refusal *session__refusals(const struct session *session, size_t *ret_n);

/* What tracing pid would do, found out without touching it: the kind of probe, the allocators with
 * the place of every probe, and their cost, calibrated on a child of memtrace's own. */
struct session_plan {
	enum probe_kind kind;
	struct allocators *allocators; /* owned; NULL: none that is known */
	struct error no_allocator;     /* why not */
	struct region_source *regions; /* owned */
	struct calibration calibration;
	struct region_calibration region_calibration;
	bool regions_calibrated; /* the latter is known */
};
int session__plan(pid_t pid, const struct capture_options *options, struct session_plan *ret,
		  struct error *err);
void session_plan__clear(struct session_plan *plan);

/* Can this machine trace, and we: privileges (-EPERM), the pid namespace, BTF. 0, or negative errno
 * with err. Part of session__open and session__plan; for who has something else to complain of that
 * would send people the wrong way first. */
int session__check_machine(struct error *err);

/* Memory of the kernel for a run's tables on a machine of so many possible CPUs, and how many
 * processes it traces at a time: named ones, or those of a selection (everywhere). 0 or negative
 * errno. */
int session__footprint(bool everywhere, int cpus, struct capture_footprint *ret,
		       uint32_t *ret_processes);

/* What can be said of a pid without tracing it: 0, or negative errno with err saying why it cannot
 * be traced (no such process, kernel thread, thread of another, 32-bit, ended). */
int session__check_pid(pid_t pid, struct error *err);

#endif
