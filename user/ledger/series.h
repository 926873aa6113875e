/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that every stack held at several times of continuous tracing. A stack's growth is
 * computed from this curve. */
#ifndef MEMTRACE_LEDGER_SERIES_H
#define MEMTRACE_LEDGER_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/capture.h"
#include "profile/growth.h"

#define SERIES_MAX	32
#define SERIES_SEGMENTS 8

struct series_point {
	struct abi_site_key site;
	double bytes, objects; /* held: allocated minus freed */
	double alloc_bytes;    /* allocated so far */
};

/* All sites at one moment. */
struct series_snapshot {
	uint64_t time_ns;
	struct series_point *points; /* ascending by site */
	size_t n;
};

/* At most SERIES_MAX snapshots are kept. If there is no room for another one, every second snapshot
 * is removed, and the period doubles. */
struct series {
	struct series_snapshot snapshots[SERIES_MAX];
	size_t n;
	uint64_t period_ns, next_ns;
};

void series__free(struct series *series);

/* Is it time for the next snapshot? */
bool series__is_due(const struct series *series, uint64_t now_ns);
/* Takes a snapshot. sites: struct abi_site_key -> struct abi_site, in any order. 0 or -ENOMEM. */
int series__add(struct series *series, uint64_t now_ns, const struct capture_table *sites);

/* Finds the boundaries between which growth is measured, ascending. They are snapshots in the last
 * two thirds of [start_ns, end_ns], as evenly spaced as possible. The end itself is not included.
 * Earlier snapshots are left out, because a population that reaches a balance later may still have
 * been filling up at that time. Returns their number, at most SERIES_SEGMENTS. */
size_t series__boundaries(const struct series *series, uint64_t start_ns, uint64_t end_ns,
			  const struct series_snapshot *ret[SERIES_SEGMENTS]);

/* Returns the site's point in the snapshot; NULL: the site had allocated nothing yet. */
const struct series_point *series__find(const struct series_snapshot *snapshot,
					const struct abi_site_key *site);
/* Returns the bytes that the site held at the snapshot. */
double series__bytes(const struct series_snapshot *snapshot, const struct abi_site_key *site);

/* Returns the bytes that the site had allocated by time_ns: linear between snapshots, from 0 at
 * start_ns to `total` at end_ns. If there are snapshots from before start_ns, the last of them
 * gives the value at start_ns and at every earlier time. */
double series__allocated(const struct series *series, const struct abi_site_key *site,
			 uint64_t time_ns, uint64_t start_ns, uint64_t end_ns, double total);

/* A size at several times: the anonymous memory of a process. */
struct sizes {
	struct {
		uint64_t time_ns;
		uint64_t bytes;
	} at[2 * SERIES_MAX]; /* ascending by time; when full, every second size is removed */
	size_t n;
	uint64_t period_ns, next_ns;
	bool early; /* the last entry came too early: the next one replaces it */
};

/* Adds the present size. If sizes come more often than once in period_ns (a second at first), only
 * the latest of them is kept. */
void sizes__add(struct sizes *sizes, uint64_t now_ns, uint64_t bytes);

/* Returns the growth from from_ns to to_ns, in bytes per second. Between known sizes, interpolates
 * linearly. NaN: the known sizes do not cover that time. (At either end, a tenth of it may be
 * missing.) */
double sizes__growth(const struct sizes *sizes, uint64_t from_ns, uint64_t to_ns);

/* Returns sizes__growth() with its confidence interval, from SIZES_SEGMENTS equal parts of the time
 * (profile/growth.h). If sizes__growth() returns NaN, all values are NaN. If the time is too short,
 * or has too few known sizes, only the ends of the interval are NaN. */
#define SIZES_SEGMENTS 6
struct growth sizes__trend(const struct sizes *sizes, uint64_t from_ns, uint64_t to_ns);

#endif
