/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that the server has. For each process, the server has the newest profile in decoded
 * form. It also has files of the newest profile and of some older profiles. The memory of all of
 * them is bounded. */
#ifndef MEMTRACE_WEB_STORE_H
#define MEMTRACE_WEB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "proc/container.h"
#include "profile/profile.h"
#include "web/gains.h"
#include "web/history.h"

#define STORE_PROCESSES 4096
#define STORE_ENDED	64	    /* at most this many ended processes are shown */
#define STORE_KEPT	20	    /* at most this many snapshots of each process are kept */
#define STORE_BYTES	(64u << 20) /* limit for the bytes of all snapshots */
#define STORE_PROFILE	(32u << 20) /* limit for the bytes of one profile */
#define STORE_STACKS	32	    /* at most this many stacks of each process are stored */
/* at most this many thread pools of each process: the pools that hold most */
#define STORE_POOLS 16

/* A profile as encode_pprof() has written it. */
struct snapshot {
	unsigned id; /* number of the snapshot among the process's snapshots, from 1 */
	uint64_t taken_ns;
	char *file; /* owned */
	size_t size;
};

/* Sites whose frames have the same names: a function may allocate in several lines. */
struct stack {
	uint64_t id; /* stacks with the same names have the same id in all processes and runs */
	size_t site; /* index of the first of these sites in the process's newest profile */
	double live_bytes;
	struct growth growth;
};

/* Threads of a process whose names differ only in digits at their end. */
struct pool {
	/* the names without these digits; any bytes. "": all other threads, and those without a
	 * name */
	char name[16];
	uint64_t id; /* the pool's id in moments */
	double live_bytes;
	struct growth growth; /* recent growth: history__growth() */
};

/* Does a process that surely grows have more windows than others? */
enum more_windows {
	MORE_NONE,    /* no: the process is traced all the time, or no process gets more windows */
	MORE_WAITING, /* not yet: perhaps enough other processes have more windows now */
	MORE_NOW,
	MORE_OVER, /* not any more */
	MORE_STATES
};
/* "none", "waiting", "now", "over" */
const char *more_windows__name(enum more_windows state);

/* A time in which a process surely grows. Three profiles are kept: the last one before the growth
 * began, the one in which the growth was noticed, and the last one that was taken with more
 * windows. */
struct rise {
	bool known, goes_on;
	uint64_t noticed_ns, ended_ns; /* ended_ns 0: the process still grows */
	struct onset onset;	       /* ns 0: not known */
	uint64_t stack;		       /* the stack whose growth had the highest low end when growth
				        * was noticed */
	char function[100];	       /* the stack's first own function */
	struct growth growth;	       /* the stack's growth at that time */
	/* ids of the first two of the three profiles; before 0: there is none */
	unsigned before, at;
	enum more_windows more;
	uint64_t more_ns, more_until_ns; /* MORE_NOW, MORE_OVER: the time in which the process has
					  * more windows */
	unsigned detailed;		 /* id of the last profile with more windows; 0: none yet */
	unsigned calm;			 /* judgements in a row that found no sure growth */
};

struct process {
	pid_t pid;
	struct profile *latest; /* owned; never NULL */
	/* By the wall clock. taken_ns: the last time at which the latest profile was right.
	 * before_ns: the same for the profile before it; 0: there was none. */
	uint64_t taken_ns, before_ns;
	/* Figures of the newest profile. They are stored, because each page and each scrape needs
	 * them. */
	struct estimate live;
	/* the process surely grows: over the whole run (profile__leaks()), or recently */
	bool leaks;
	/* growth of all stacks together: recent growth if its low end is higher, else growth over
	 * the whole run */
	struct growth growth;
	double growth_s; /* seconds over which growth is judged */
	/* `growth`, or the growth of at least one stack, is recent growth */
	bool of_late;
	struct stack stacks[STORE_STACKS]; /* the first half by live bytes, then others by growth */
	size_t n_stacks;
	struct pool pools[STORE_POOLS]; /* ordered by live bytes */
	size_t n_pools;
	struct rise rise;
	struct snapshot pinned[3]; /* snapshots of the rise that are no longer among `kept` */
	size_t n_pinned;
	struct snapshot kept[STORE_KEPT]; /* oldest first */
	size_t n_kept;
	/* What the process held at the times of its last profiles, oldest first. The moments stay
	 * when snapshots are deleted because the store is full: growth is judged by the moments. */
	struct moment moments[STORE_KEPT];
	size_t n_moments;
	unsigned next_id;
	uint64_t round; /* the last round in which the tracer named the process */
	struct container container;
	/* what push__add() has sent of the allocations so far */
	struct gains_sent sent;
	bool ended;    /* the latest profile says so, or the tracer does not name the process any
		        * more */
	bool inactive; /* the process is also in store.inactive */
	bool outdated; /* a newer profile came and could not be kept */
	bool asked;    /* the tracer was asked to begin or end tracing the process, and has not
			* reported on the process since */
};

/* A process that is alive and is not traced for a while. */
struct inactive {
	pid_t pid;
	uint64_t round; /* the last round in which the tracer named the process */
	char why[96];	/* why tracing could not be resumed; "": nobody has tried to resume it */
};

struct store {
	struct process **processes; /* ascending by pid; some may have ended */
	size_t n;
	/* All inactive processes. A process that was inactive before this server began has no entry
	 * in `processes`. */
	struct inactive *inactive;
	size_t n_inactive;
	size_t bytes;		    /* bytes of all snapshots */
	uint64_t rounds;	    /* number of rounds that have ended */
	uint64_t rounds_incomplete; /* of these, rounds that failed or did not name all processes */
	/* Losses. n_evicted: snapshots that were deleted early or for which there was no room;
	 * n_unreadable: profiles that could not be read; n_refused: profiles of processes for which
	 * there was no room. */
	uint64_t n_evicted, n_unreadable, n_refused;
	/* Called when `latest` of a process is a new profile. before: the previous profile, which
	 * is freed afterwards unless it is `latest`; NULL: there was none. `came` may be NULL. */
	void (*came)(void *ctx, struct process *process, const struct profile *before);
	void *ctx;
};

/* Adds a profile of len bytes, which the store owns from now on. 0, or negative errno with err: the
 * profile was not stored, and is counted as a loss. */
int store__add(struct store *store, pid_t pid, uint64_t taken_ns, char *file, size_t len,
	       struct error *err);

/* Notes that the process has done nothing since its newest profile, which is therefore still right
 * at taken_ns. Calls came() as for a new profile. If a newer profile came and could not be kept,
 * the store only notes that the process exists. */
void store__hold(struct store *store, pid_t pid, uint64_t taken_ns);

/* Notes that the process lives, but that its newest profile was lost. The store keeps its older
 * data of the process, and marks them as outdated. */
void store__miss(struct store *store, pid_t pid);

/* Notes that the process is alive and is not traced. why: as in struct inactive. */
void store__leave(struct store *store, pid_t pid, const char *why);

/* Ends a round. complete: in this round the tracer has named each process that lives, so the other
 * processes are marked as ended. */
void store__end_round(struct store *store, bool complete);

/* Notes whether the process has more windows than others at present. Call it in each round for each
 * process that surely grows or has surely grown. has: the process has more windows, from from_ns to
 * until_ns. off: no process gets more windows. Returns whether to ask the tracer for more
 * windows. */
bool process__note_windows(struct process *process, bool has, uint64_t from_ns, uint64_t until_ns,
			   bool off);

/* Finds a process; NULL: the store does not have it. */
struct process *store__find(const struct store *store, pid_t pid);

/* Finds an inactive process; NULL: the process is traced, or is not known. */
const struct inactive *store__inactive(const struct store *store, pid_t pid);

/* Returns the process's snapshot with that id; id 0: the newest one. NULL: it is not kept (any
 * more). */
const struct snapshot *process__snapshot(const struct process *process, unsigned id);

/* Returns the process's stack with that id; NULL: no stack has it. */
const struct stack *process__stack(const struct process *process, uint64_t id);

/* Empties the store; came and ctx stay. */
void store__clear(struct store *store);

#endif
