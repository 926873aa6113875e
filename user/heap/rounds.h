/* SPDX-License-Identifier: BSD-2-Clause */
/* Decides how a search for lost blocks goes on. First comes a full scan, then rechecks follow until
 * they take no more blocks off the list of lost blocks. */
#ifndef MEMTRACE_HEAP_ROUNDS_H
#define MEMTRACE_HEAP_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* A list of lost blocks is final after at least ROUNDS_LEAST scans, if the last ROUNDS_CALM of
 * these took no block off the list. With fewer scans, a block whose pointer moves may be called
 * lost. */
#define ROUNDS_LEAST 3
#define ROUNDS_MORE  9 /* the search makes at most this many scans more than `least` */
#define ROUNDS_CALM  2

struct rounds {
	unsigned int least, most; /* numbers of scans */
	unsigned int n;		  /* scans that were made */
	/* how many scans in a row, up to the last one, followed the heap (rounds__add()) and took
	 * no block off the list */
	unsigned int calm;
	uint64_t left;	 /* blocks on the list */
	uint64_t beyond; /* blocks for which the list had no room */
	/* how many blocks came off the list in the last scan that took any off */
	uint64_t taken_off;
};

/* least: the least number of scans. If it is below ROUNDS_LEAST, it is also the greatest number of
 * scans. */
struct rounds rounds__begin(unsigned int least);

/* To be called when time is up. Makes the next scan the last one. If there would then be fewer than
 * `least` scans in all, changes nothing. */
void rounds__hurry(struct rounds *rounds);

/* Is the next scan a full one, and not a recheck? The first scan is full. If the list has no room
 * for all lost blocks, each scan is full. (In a recheck, lost blocks that are not on the list would
 * seem to hold the blocks on the list.) */
bool rounds__is_full(const struct rounds *rounds);

/* May the next scan be the last one? */
bool rounds__may_end(const struct rounds *rounds);

/* Records a scan. Its list has `left` blocks, and had no room for `beyond` other blocks. followed:
 * the scan could follow all but a small part of the heap (WHY_MAX_UNFOLLOWED). If the scan could
 * not, it proves nothing. True: this was the last scan. */
bool rounds__add(struct rounds *rounds, uint64_t left, uint64_t beyond, bool followed);

/* Returns 0 if the list is final, or if fewer than ROUNDS_LEAST scans were wanted. Otherwise the
 * search ended before ROUNDS_CALM scans in a row took no block off the list. Then returns
 * `taken_off`. */
uint64_t rounds__unsettled(const struct rounds *rounds);

#endif
