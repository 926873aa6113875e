/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of this room share, and that no other room uses. */
#ifndef MEMTRACE_SESSION_INTERNAL_H
#define MEMTRACE_SESSION_INTERNAL_H

#include "base/optional.h"
#include "base/table.h"
#include "capture/watch.h"
#include "elf/binary.h"
#include "pace/others.h"
#include "pace/scheduler.h"
#include "session/build.h"
#include "session/launch.h"
#include "session/privileges.h"
#include "session/session.h"

/* Finds targets by pid, and by their number in the kernel's tables. */
struct target_index {
	struct table by_pid, by_process; /* indices of entries */
	struct target_entry *entries;	 /* owned; in the order in which they came */
	size_t n, room;
	size_t n_gone;	  /* entries whose target has been removed */
	size_t n_entered; /* the first n_entered targets of the session have an entry */
};

/* A list that grows. */
struct profile_list {
	struct profile **at;
	size_t n;
};

struct session {
	struct capture *capture;
	struct calibration calibration;
	struct others others; /* for the cost of all probes together */
	bool calibrated;
	struct region_calibration region_calibration;
	bool regions_calibrated;
	struct watch *watch;
	struct binaries *binaries;
	struct alloc_files *alloc_files;
	struct python_files *python_files;
	struct symbolizer *symbolizer;

	struct target *
		*targets; /* targets that are traced, or have ended and are still to be reported */
	size_t n_targets, room;
	struct target_index index; /* finds these targets: find.c */
	size_t n_met;		   /* number of all targets so far, including those that left
				    * nothing to report */
	/* True: probes are in the files, and act in all processes that run these files; the kernel
	 * side knows which of the processes are traced. False: probes are in the targets alone, and
	 * cost no other process anything. */
	bool everywhere;
	/* the caller's; NULL: only named processes are traced */
	const struct session_selection *selection;
	struct allocators **attached; /* if everywhere: allocators whose files have probes; owned */
	size_t n_attached;
	bool files_idle;  /* perhaps there is a file that no target needs any more */
	bool files_short; /* there was no descriptor left for a file, or no room for its probes */
	bool files_releasing;		/* probes of released files may still take room */
	struct reopened_file *reopened; /* owned; files.c */
	size_t n_reopened;
	/* the first of them: their files are marked; the targets had their turn to get probes */
	size_t n_marked, n_tried;
	uint64_t files_next_ns;	      /* when files__let_go() checks again */
	int writes_fd;		      /* inotify; -1: none (rewritten.c) */
	struct watched_file *watched; /* owned */
	size_t n_watched;
	struct patcher *patchers; /* owned; patched.c */
	size_t n_patchers, patchers_room;
	uint64_t patchers_next_ns; /* when patched__lift() checks again */

	struct launch launch;
	struct privileges_use privileges;
	bool command_ended;
	int command_status;
	int epoll_fd;
	bool started, stopped;
	uint64_t start_ns, stop_ns, start_unix_ns;
	double planned_s;
	/* memtrace's own CPU time. Until the run stops: its total at the start. After that: the CPU
	 * time that the run took */
	uint64_t own_cpu_ns;
	/* CPU time of the command, which the kernel adds to memtrace's own */
	uint64_t command_cpu_ns;
	/* news of mappings: how much was lost; how much of this loss is known to
	 * sweep__lost_mappings(); when that function may search again */
	uint64_t watch_lost, watch_lost_seen, watch_next_ns;
	uint64_t files_refused; /* how often there was no descriptor left for a target's file */
	/* processes that the session could not take in. (The kernel side counts those that it could
	 * not take in.) */
	uint64_t processes_refused;
	uint64_t probes_refused; /* how often there was no room for a file's probes */
	uint64_t events_lost, ends_lost;
	/* events_lost at the last sweep__lost_news(), and when that function may search again */
	uint64_t events_lost_seen, lost_next_ns;
	/* the kernel's tables have records of processes that never were targets */
	bool records_left;
	/* totals of the targets that were removed, for session__status() */
	struct past {
		uint64_t alloc_calls, free_calls, samples, cpu_ns;
		double alloc_bytes, probe_ns;
	} past;
	/* how often all probes were taken out because memtrace was held up */
	uint64_t n_withdrawals;
	uint64_t withdrawn_ns; /* for how long the probes were out, in all */
	uint64_t interval;
	bool interval_given;	    /* the user gave it: continuous tracing must use it */
	double max_overhead;	    /* share of a target's CPU time, in windows; 0: no limit */
	double max_steady_overhead; /* the same, for continuous tracing */
	double max_host_overhead;   /* share of the machine's CPU time; 0: no limit */
	double favoured_overhead;   /* as max_overhead, for favoured processes; 0: no process is
				     * favoured */
	struct scheduler scheduler; /* used if there is a limit */
	/* when the session was opened (0: not known), and the machine's idle time until then */
	uint64_t opened_ns, opened_idle_ns;
	uint64_t wait_look_ns;	   /* when guard__wait() checks again */
	uint64_t held_at_ns;	   /* when budget__holds() was last called */
	double held_cost_ns;	   /* what tracing had cost the machine at held_at_ns */
	uint64_t window_period_ns; /* 0: the default */
	/* parts of the model of windows to leave out: session__leave_out() */
	unsigned without;
	int timer_fd;			 /* timer for what is due next; -1: none */
	int beat_fd;			 /* timer for reports that all is well; -1: none */
	const struct alloc_extra *extra; /* functions that the user named */
	size_t n_extra;
	unsigned what;
	bool regions_if_easy; /* WHAT_REGIONS is set in .what, but may be dropped */
	bool lost_limit;      /* the default limit cannot be kept, because no cost is known */
	bool large;	      /* large blocks are asked for */
	bool resident;	      /* profile.resident is asked for */
	bool blocks;	      /* the blocks of sites are asked for */
	enum session_victims victims; /* whose profiles session__victims() gives */
	bool forget_ended;	      /* as in the options */
	uint64_t foresee_next_ns;     /* when profiles__foresee() is due */
	char no_returns[160];	      /* why return probes are not used; "": they are used */
	enum session_region_place region_place; /* where regions are seen */
	bool region_syscalls_stopped;		/* the probes at system calls cost too much */
	char region_text[256];
	struct abi_region_call *orphans; /* calls of processes that are not known yet */
	size_t n_orphans;
	uint64_t settle_next_ns, sweep_next_ns;
	struct series series;  /* snapshots of all sites; empty if `everywhere` is set */
	struct paused *paused; /* active.c */
	size_t n_paused;
	uint64_t paused_look_ns;    /* when to check next if paused processes are alive */
	struct borrower *borrowers; /* borrowers.c; owned */
	size_t n_borrowers;
	/* capture__borrowers_changes() at the last check; when borrowers__keep() checks again */
	uint64_t borrowers_changes, borrowers_look_ns;
	uint64_t forgotten; /* profiles of ended processes for which there was no room */
	/* processes that may have made calls, but ended before any call was seen */
	uint64_t unseen;
	struct profile_list profiles;
	struct profile_run *run; /* the run of all profiles */
};

/* Returns part_ns in percent of the CPU time cpu_ns, at most 100. part_ns below 0: not known. */
static inline struct optional session__share_pct(double part_ns, uint64_t cpu_ns)
{
	if (part_ns < 0 || !cpu_ns)
		return (struct optional){};
	return optional__of(fmin(100.0 * part_ns / (double)cpu_ns, 100));
}

/* Returns when tracing of the target began, monotonic. */
static inline uint64_t session__begin_ns(const struct session *s, const struct target *t)
{
	return t->start_ns > s->start_ns ? t->start_ns : s->start_ns;
}

static inline uint64_t target__cpu_used_ns(const struct target *t)
{
	return t->cpu_now_ns > t->cpu_start_ns ? t->cpu_now_ns - t->cpu_start_ns : 0;
}

/* --- profiles.c: profiles at the end of a run, and during it --- */

void profile_list__clear(struct profile_list *list);

/* Handles processes that were not named and have ended: makes their profiles (unless
 * options->forget_ended is set), and frees their room in the kernel's tables. Does this only now
 * and then, because all tables must be read. */
void profiles__settle_ended(struct session *session);

/* With options->victims: now and then reads the blocks of the processes, because a process that has
 * become a victim cannot be read any more. */
void profiles__foresee(struct session *session);

/* --- sweep.c: deletes entries of the kernel's tables that nobody needs, makes up for lost news
 * --- */

/* Deletes, now and then, entries of the kernel's tables that nobody needs but whose processes are
 * still alive. Without this, the tables would fill up in days. */
void sweep__tables(struct session *session);

/* If news of processes was lost since the last call, finds out what the news would have told. It
 * finds targets that have ended or replaced their program, processes that are traced but are not
 * targets yet, and processes that have come and gone unnoticed. Call it when the other news has
 * been read. */
void sweep__lost_news(struct session *session);

/* If news of mappings was lost since the last call, reads the mappings of all targets. */
void sweep__lost_mappings(struct session *session);

/* --- news.c: which processes have done something since their last profile --- */

/* Has the process done nothing since targets__rests() last returned false for this `rest`? Reads
 * only the process's CPU time, with one system call: a process that uses no CPU time calls no
 * function and allocates nothing. */
bool targets__rests(const struct target *target, struct rest *rest);

/* Sets `is_due` of each target, for session__news(). */
void news__choose(struct session *session, uint64_t now_ns, bool all);

/* Notes that the newest profile of the process pid was lost. */
void news__lose(struct session *session, pid_t pid);

/* Notes that all targets that were due got profiles at the time now_ns. A target whose profile was
 * lost is due again. */
void news__note(struct session *session, uint64_t now_ns);

/* --- find.c --- */

/* Returns the traced process that has the pid now, or NULL. */
struct target *targets__find(struct session *session, pid_t pid);

/* Returns the target that has this number in the kernel's tables, or NULL. */
struct target *targets__find_process(struct session *session, uint32_t process);

/* Removes from the index the target at place `at` of the session's list. Call it before the target
 * is removed from this list. */
void targets__forget_entry(struct session *session, size_t at);
void target_index__clear(struct target_index *index);

/* --- borrowers.c: processes that run in a target's memory --- */

/* Reads the CPU time of a target, and adds the CPU time of its borrowers (as of the last
 * borrowers__look()). 0 or negative errno. */
int targets__cpu_ns(const struct target *target, uint64_t *ret_ns);

/* Reads the CPU times of the processes that run in targets' memory, and brings lent_ns and
 * n_borrowers of all targets up to date. Costs nothing while there are no such processes. */
void borrowers__look(struct session *session);
/* Calls borrowers__look() now and then. */
void borrowers__keep(struct session *session);

/* --- status.c --- */

/* Adds the totals of a target that is about to be removed to session->past. */
void status__keep(struct session *session, struct target *target);

/* --- active.c: paused processes --- */

/* Is the process paused? Forgets the pause if the process that was paused has ended, even if
 * another process has its pid now. */
bool active__is_paused(struct session *session, pid_t pid);

/* Begins to trace those paused processes that the user wants traced again. Returns whether any live
 * process is paused. */
bool active__keep(struct session *session);

/* --- open.c: what a run begins with --- */

/* Raises memtrace's limit of descriptors as far as allowed: each mapped file and each link takes
 * one. n_pids: number of named processes. If the limit is too low, fails before anything is
 * captured: later, there might be no descriptor left to write the result. 0, or negative errno with
 * err. */
int open__raise_descriptors(size_t n_pids, struct error *err);

/* Makes a target of one process, with its mappings and its number in the kernel's tables, but
 * without probes. target: empty. 0, or negative errno with err. */
int open__target(struct session *session, struct target *target, pid_t pid, struct error *err);

/* Puts probes on the target's allocators. loading: the target is a command that is not loaded yet.
 * 0, or negative errno with err. */
int open__attach(struct session *session, struct target *target, bool loading, struct error *err);

/* --- targets.c: the processes of a run, and what becomes of them --- */

/* Adds a new, empty target, which the session owns. NULL: out of memory. */
struct target *targets__add(struct session *session);
/* Frees a target, and what the kernel side holds of it. */
void targets__remove(struct session *session, struct target *target);

/* Brings a target's maps up to date from /proc, and keeps its files open. 0, -ESRCH, other negative
 * errno. */
int targets__refresh_maps(struct session *session, struct target *target);

/* Opens the file behind an executable mapping and keeps it open. Frames in the file can then be
 * unwound and named even when the process is gone. A failure is not remembered, because it may
 * still be possible to open the file by another mapping. Sets entry->real. 0 or negative errno. */
int targets__hold_file(struct session *session, struct target *target, struct map_entry *entry);

/* Makes a target of a process that is traced without having been named. */
void targets__welcome(struct session *session, const struct abi_event *event);
/* The same, unless the process is paused: then ends tracing it. */
void targets__begin(struct session *session, const struct abi_event *event);

/* Handles the events that have come since the last call. */
void targets__take_events(struct session *session);

/* Tells the kernel side what has changed in the targets' maps. */
void targets__tell_mappings(struct session *session);

/* Updates the counts of a target's calls, and their cost. */
void targets__read(struct session *session, struct target *target);

/* Reads the target's resident set, anonymous memory and number of threads. */
void targets__read_size(struct target *target);

/* Notes that the sizes last read are those at the beginning of the target's run. */
void targets__note_sizes(struct target *target);

/* Notes that the target has replaced its program (exec): the blocks of the old one are gone. */
void targets__note_exec(struct session *session, struct target *target, uint64_t exec_ns);

/* Handles the last news of a target that has ended, and reads its counts. */
void targets__note_end(struct session *session, struct target *target);

/* Has the target ended with nothing to report? Most short-lived processes have nothing. */
bool targets__leaves_nothing(const struct session *session, const struct target *target);

/* Has the target ended as one of the victims that options->victims asks for? */
bool targets__ended_as_victim(const struct session *session, const struct target *target);

/* Handles all news from the kernel. */
void targets__take_news(struct session *session);

/* Returns the handlers that watch__new() needs. */
struct watch_handlers targets__handlers(struct session *session);

/* --- probes.c: probes on the allocators of targets --- */

/* Puts probes for all processes into those files of the target's allocators that have no probes.
 * The session takes over target->allocators, which becomes NULL. 0 or negative errno with err. */
int targets__attach_everywhere(struct session *session, struct target *target, struct error *err);

/* If the target has a pool whose blocks cannot be seen, adds this to the list of refusals. */
void targets__note_unseen(struct session *session, const struct target *target);

/* Puts probes for this target alone on those of its allocators that have no probes. */
void targets__attach_own(struct session *session, struct target *target);
/* Puts the target's own probes back in place, after capture__pause(). Returns what
 * capture__resume() returns. */
int targets__resume_own(struct session *session, struct target *target);

/* Puts probes into the C library that memtrace itself runs on. Most processes of the machine use
 * the same library, so future processes find the probes in place. */
void targets__probe_own_libc(struct session *session);

/* Puts probes into the allocators that a target brings along, or has loaded since. A selected
 * process without a known allocator is traced all the same, and has nothing to show. */
void targets__provide_probes(struct session *session, struct target *target);

/* Looks at which malloc the target's program calls after an exec, if a look is due. This is only
 * for targets with probes of their own: with probes for all processes, files are looked at. */
void targets__judge_exec(struct session *session, struct target *target);

/* --- files.c: what processes run --- */

/* What is known of a file: the values of its mark (binaries__mark()). */
enum file_mark {
	FILE_NEW, /* not searched for allocators yet, or the search is to be tried again */
	FILE_SEEN,
	FILE_UNKNOWN, /* it defines its process's malloc, which belongs to no known allocator */
	FILE_REFUSED, /* some function of it, or of a file searched with it, cannot be probed */
};

/* A file of a layer below overlayfs whose probes are to be placed again through another file. */
struct reopened_file {
	struct file_id real;
	const char *family; /* static; of an allocator that had the probes */
};

/* Returns the mark of a mapping's file (binaries__mark()). NULL: there is none. Each file has a
 * mark of its own, even where several files are copies of one binary, because the kernel puts a
 * probe into one file only. */
unsigned char *files__mark(struct session *session, const struct map_entry *entry);

/* Has the file of this mapping got its probes, in all processes, after this moment (monotonic)?
 * False also if it has none. */
bool files__is_late(const struct session *session, const struct map_entry *entry,
		    uint64_t begin_ns);

/* Notes that a file has got its probes just now, in all processes. Targets that have begun during
 * the run, and that map the file already, may have made calls that no probe saw. If the file had
 * probes before, and these were taken out, this holds for all targets that map it. */
void files__note_late(struct session *session, const struct file_id *real);

/* Notes which of its files have got their probes after the target's program began. Call it when
 * news of the beginning is taken: probes were perhaps placed meanwhile. begin_ns: when the program
 * began, monotonic; 0: before the run. */
void files__note_late_begin(const struct session *session, struct target *target,
			    uint64_t begin_ns);

/* Returns why no call of the target's allocator can be seen, as a static string. NULL: the calls
 * can be seen. A target with probes of its own had a known allocator when tracing began. So for
 * such a target only the malloc of a program that it executed later can be a reason. */
const char *files__not_traced(struct session *session, const struct target *target);

/* Takes the probes for all processes out of a file, and forgets its allocators. */
void files__release(struct session *session, const struct file_id *file);
/* Returns the first of the attached allocators for which is_it() returns true, or NULL. */
const struct allocator *files__find_attached(const struct session *session,
					     bool (*is_it)(const void *ctx,
							   const struct allocator *allocator),
					     const void *ctx);

/* As files__release() for the file of an attached allocator, which is freed. Then the targets get
 * probes again, through any file of overlayfs that has the pages of the allocator's file. If there
 * is none, the targets' profiles say so. */
void files__reopen(struct session *session, const struct allocator *allocator);
/* Sets map_entry.real in all entries where it was not known, and is known now. */
void files__name_real(struct session *session, struct maps *maps);
/* As files__release(). The file gets no probes for all processes any more. */
void files__refuse(struct session *session, const struct file_id *file);

/* Frees the indexes of binaries that are gone, so that new files can use these indexes. Clears the
 * elements at these indexes in all arrays that are indexed by binary. */
void files__reuse(struct session *session);
/* Now and then: closes files that no target maps any more, and takes the probes out of them. */
void files__let_go(struct session *session);

/* --- rewritten.c: files that are written to while they have probes for all processes --- */

/* A file that is watched, so that memtrace notices writes to the file. */
struct watched_file {
	int wd; /* of inotify */
	struct file_id file;
};

/* Makes session->writes_fd. If there is no inotify, writes are noticed later. */
void rewritten__begin(struct session *session);
/* Watches the files of allocators that have got probes for all processes. */
void rewritten__watch(struct session *session, const struct allocators *allocators);
/* Does the allocator's descriptor lead to a copy of the file by now (overlayfs)? Probes would be
 * placed in the copy. session: a struct session. */
bool rewritten__is_copied(const void *session, const struct allocator *allocator);
/* Places the probes of copied files again through other files. */
void rewritten__check_copies(struct session *session);
void rewritten__forget(struct session *session, const struct file_id *file);
/* Takes the probes for all processes out of a file that was written to, and refuses new ones. */
void rewritten__note(struct session *session, const struct file_id *file);
/* Handles the writes that came since the last call. */
void rewritten__take(struct session *session);

/* --- patched.c: code in memory that differs from its file --- */

/* Checks the allocators that are not attached yet, and refuses those whose code some process has
 * changed. Call it before probes for all processes are placed in these allocators. */
void patched__look_everywhere(struct session *session, struct allocators *allocators);

/* Call it when a target has made code of a file executable again: refuses allocators whose code the
 * target has changed, and takes their probes out. Where probes are for all processes, they are
 * taken out of all processes. */
void patched__look_again(struct session *session, struct target *target);

/* A process that has changed an allocator's code. The allocator is then refused in all
 * processes. */
struct patcher {
	pid_t pid;
	uint64_t start_ticks;
	struct file_id file;
	const char *family; /* static */
};

/* Now and then: lifts the refusals whose patchers have ended. The allocators are probed again if no
 * other process has patched them. */
void patched__lift(struct session *session);

/* --- region_calls.c: the regions that targets take from the kernel --- */

/* Chooses where the regions of the targets are seen, and attaches probes there. Call once, when the
 * targets are known. -ENOENT while a command is being loaded: too early, call again. 0 or negative
 * errno with err. */
int region_calls__attach(struct session *session, bool loading, struct error *err);

/* Like region_calls__attach(), for a target that is traced again. */
int region_calls__attach_again(struct session *session, struct target *target, struct error *err);

/* Takes away for good the probes that see the target's regions, because they cost too much. Where
 * regions are seen at the system calls, these are the probes for all targets. */
void region_calls__stop(struct session *session, struct target *target);

/* If a target's calls are no longer seen, removes from its book the regions that are no longer
 * mapped. */
void region_calls__compare(struct target *target);

/* Takes a snapshot of how much each stack's regions hold, if a snapshot is due. */
void region_calls__note(struct session *session);

/* Some calls of a process are seen before the session has news of that process. This function gives
 * each process its earlier calls. Call it after news of processes. */
void region_calls__find_parents(struct session *session);

/* Applies to the targets' books the calls that are old enough to be settled. `all`: applies every
 * call, because the run is over. */
void region_calls__settle(struct session *session, bool all);

/* Puts back the probes that see the targets' regions, after all probes were withdrawn. */
void region_calls__restore(struct session *session);

/* --- guard.c: when the run was held up --- */

/* Have all probes been withdrawn since the last call? If so, notes this for the run and the
 * scheduler. */
bool guard__note(struct session *session);
/* Puts back the probes that the scheduler does not put back. */
void guard__restore(struct session *session);
/* Puts back a target's own probes for the heap, if the target's code could not be read before. */
void guard__restore_late(struct session *session);
/* Sets how long memtrace may be silent before all probes are withdrawn. long_work: the time is
 * longer, because the caller writes files. */
void guard__expect(struct session *session, bool long_work);
/* Sets the timer for the next beat. It expires only if nothing else wakes memtrace until then. (A
 * separate periodic timer for beats would wake memtrace twice as often.) 0, or -1 with errno. */
int guard__await_beat(struct session *session);
/* Reports that all is well, as long as tracing keeps its limit. It is called during long work that
 * blocks all else, such as looking up names. ctx: the session. */
void guard__wait(void *ctx);

/* --- selection.c: which processes are traced without being named --- */

/* Fills in the kernel side's part of the selection. */
void selection__to_kernel(const struct session_selection *selection, struct abi_selection *ret);

/* Makes targets of those running processes that fit the selection, or that descend from traced
 * processes. 0 or negative errno with err. */
int selection__scan(struct session *session, struct error *err);

/* Tells the kernel side whether the program file of an exec fits the selection. If it does, makes
 * the process a target. */
void selection__judge(struct session *session, const struct abi_event *event);

#endif
