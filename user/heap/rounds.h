/* SPDX-License-Identifier: BSD-2-Clause */
/* Which scans a search for lost blocks makes: a full one, and then rechecks until its list has
 * settled. Plain arithmetic. */
#ifndef MEMTRACE_HEAP_ROUNDS_H
#define MEMTRACE_HEAP_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* A list of lost blocks counts after ROUNDS_LEAST scans at least, of which the last ROUNDS_CALM
 * took no block off. With fewer scans, a block whose pointer moves may be called lost. */
#define ROUNDS_LEAST 3
#define ROUNDS_MORE  9 /* scans beyond those that are wanted at least */
#define ROUNDS_CALM  2

struct rounds {
	unsigned int least, most; /* scans */
	unsigned int n;		  /* that were made */
	unsigned int calm;	  /* the last ones, in a row, that took no block off the list */
	uint64_t left;		  /* blocks on the list */
	uint64_t beyond;	  /* for which the list had no room */
	uint64_t taken_off;	  /* by the last scan */
};

/* least: scans that are wanted; below ROUNDS_LEAST: exactly so many. */
struct rounds rounds__begin(unsigned int least);

/* Time is up: the next scan is the last, if it is not needed for the least. */
void rounds__hurry(struct rounds *rounds);

/* Does the next scan mark all that is reachable? Else it is a recheck. The first one does. If the
 * list has no room for all blocks, all of them do: to a recheck, the blocks beyond would seem to
 * hold those on the list. */
bool rounds__is_full(const struct rounds *rounds);

/* May the next scan be the last one? */
bool rounds__may_end(const struct rounds *rounds);

/* A scan was made: what its list has. True: it was the last one. */
bool rounds__add(struct rounds *rounds, uint64_t left, uint64_t beyond);

/* How many blocks the last scan took off, though no more scans were allowed; 0: the list has
 * settled. */
uint64_t rounds__unsettled(const struct rounds *rounds);

#endif
