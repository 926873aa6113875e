/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the scheduler's files. scheduler.c has the run, and processes with probes of their
 * own. shared.c has probes in the code of all processes, and turns. edges.c reads totals, and
 * begins, ends and harvests windows. favours.c gives processes more windows for a while. */
#ifndef MEMTRACE_PACE_INTERNAL_H
#define MEMTRACE_PACE_INTERNAL_H

#include "pace/scheduler.h"

#define MS 1000000ULL

#define CLOSED_LOOK_NS (10 * MS)   /* how often to ask whether a window's probes are out */
#define TICK_NS	       (100 * MS)  /* how often costs and turns are checked */
#define IN_VAIN_NS     (2000 * MS) /* wait after a failed attempt to probe a process */

static inline uint64_t pace__now_ns(struct scheduler *sc)
{
	return sc->ops->now_ns(sc->ctx);
}

static inline uint64_t pace__earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline bool paced__is_kept(const struct paced *p)
{
	return p->begun && !p->ended;
}

/* --- scheduler.c --- */

/* Measures which share of a core the machine has left idle recently. */
void pace__watch_spare(struct scheduler *sc);

/* --- edges.c --- */

/* Reads the totals of a process. Totals are read nowhere else. */
void pace__read_totals(struct scheduler *sc, struct paced *p, double *ret_cost, double *ret_cpu);
double pace__machine_cost_ns(struct scheduler *sc);
/* Adds to the host's account the time, and the machine's cost, since the last call. */
void pace__book(struct scheduler *sc);
/* Adds the extra cost that several processes cause if they have windows at the same time. Call it
 * before the number of open windows changes. */
void pace__note_others(struct scheduler *sc);
void pace__note_felt(struct scheduler *sc, struct paced *p);

/* Appends to a list that grows. 0 or -ENOMEM. */
int pace__add_due(struct paced ***due, size_t *n, size_t *room, struct paced *p);
/* Calls ops->harvest() for all windows that are due. */
void pace__harvest(struct scheduler *sc);
void pace__adapt_interval(struct scheduler *sc, struct paced *p, double cost, double cpu);
/* Returns the factor of the sampling interval of a process that is traced continuously. As a rule
 * this is the process's own factor. But while probes are everywhere, it is the factor for all
 * processes, if that factor is above 1 and larger than the process's own factor. */
double pace__factor(const struct scheduler *sc, const struct paced *p);
/* For a process that is traced continuously: sets its sampling interval by pace__factor(). */
void pace__restore_interval(struct scheduler *sc, struct paced *p);
bool pace__is_stretch(const struct scheduler *sc, const struct paced *p, uint64_t now);

/* Puts a process's own probes in place; its window begins when they have settled. 0, or negative
 * errno: there is nothing to place them on. */
int pace__open_window(struct scheduler *sc, struct paced *p);
void pace__begin_window(struct scheduler *sc, struct paced *p);
/* Begins to remove the process's probes. end_ns: when the window was over. */
void pace__begin_close(struct scheduler *sc, struct paced *p, uint64_t end_ns);
void pace__end_close(struct scheduler *sc, struct paced *p);
/* Ends all windows whose probes are out by now, and harvests them together. */
void pace__end_closes(struct scheduler *sc);
void pace__forget_turn(struct scheduler *sc, const struct paced *p);
/* Returns the smallest factor of sampling intervals that is allowed now. */
double pace__least(struct scheduler *sc);
/* Asks windows__step() what is to be done for the process now. Call it at windows.next_ns. */
enum windows_action pace__step(struct scheduler *sc, struct paced *p, uint64_t now);
/* Returns when the process's window needs its next step, of any kind. */
uint64_t pace__due_ns(const struct paced *p);

/* --- favours.c --- */

/* Ends favours whose time is over. Returns when the next one ends; UINT64_MAX: there is none. */
uint64_t pace__end_favours(struct scheduler *sc);
/* Ends the favour of a process that has ended, if it has one. Another process may then be
 * favoured. */
void pace__forget_favour(struct scheduler *sc, struct paced *p);

/* --- shared.c --- */

/* Does what is due. Returns the time at which something is due again. */
uint64_t shared__keep(struct scheduler *sc);
/* Removes the probes from the code of all processes. end_ns: what the probes saw after this time
 * does not count. */
void shared__leave(struct scheduler *sc, uint64_t end_ns);

#endif
