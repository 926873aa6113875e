/* SPDX-License-Identifier: BSD-2-Clause */
/* What every stack held, again and again while tracing is continuous: the curve from which its
 * growth is read. */
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
	double bytes, objects; /* held: allocated less freed */
	double alloc_bytes;    /* allocated so far */
};

/* At one moment. */
struct series_snapshot {
	uint64_t time_ns;
	struct series_point *points; /* ascending by site */
	size_t n;
};

/* No more than SERIES_MAX are kept: then every second one goes, and they are taken half as
 * often. */
struct series {
	struct series_snapshot snapshots[SERIES_MAX];
	size_t n;
	uint64_t period_ns, next_ns;
};

void series__free(struct series *series);

/* Takes a snapshot when one is due. sites: struct abi_site_key -> struct abi_site, in any order. 0
 * or -ENOMEM. */
bool series__is_due(const struct series *series, uint64_t now_ns);
int series__add(struct series *series, uint64_t now_ns, const struct capture_table *sites);

/* The boundaries between which growth is measured, ascending: snapshots of between two thirds and
 * the end of [start_ns, end_ns], as evenly spaced as they can be; the end itself is not among them.
 * Earlier ones are left out: what is in balance may have been filling up. The number, at most
 * SERIES_SEGMENTS. */
size_t series__boundaries(const struct series *series, uint64_t start_ns, uint64_t end_ns,
			  const struct series_snapshot *ret[SERIES_SEGMENTS]);

/* What is known of the site then; NULL: it had allocated nothing. */
const struct series_point *series__find(const struct series_snapshot *snapshot,
					const struct abi_site_key *site);
/* What the site held then. */
double series__bytes(const struct series_snapshot *snapshot, const struct abi_site_key *site);

/* What the site had allocated at time_ns, linear between snapshots, from nothing at start_ns to
 * total at end_ns. */
double series__allocated(const struct series *series, const struct abi_site_key *site,
			 uint64_t time_ns, uint64_t start_ns, uint64_t end_ns, double total);

/* A size from time to time: of the anonymous memory of a process. */
struct sizes {
	struct {
		uint64_t time_ns;
		uint64_t bytes;
	} at[2 * SERIES_MAX]; /* ascending by time; when full, every second one goes */
	size_t n;
	uint64_t period_ns, next_ns;
	bool early; /* the last one came before its time: the next takes its place */
};

/* The size now; of those that come more often than once a second the latest. */
void sizes__add(struct sizes *sizes, uint64_t now_ns, uint64_t bytes);

/* By how much it grew from one time to the other, bytes per second, linear between what is known;
 * NaN when that does not reach from one to the other (but for a tenth of the time at either
 * end). */
double sizes__growth(const struct sizes *sizes, uint64_t from_ns, uint64_t to_ns);

/* The same with its interval, from SIZES_SEGMENTS equal parts of the time (profile/growth.h). All
 * NaN: as above; its ends NaN: in too short a time. */
#define SIZES_SEGMENTS 6
struct growth sizes__trend(const struct sizes *sizes, uint64_t from_ns, uint64_t to_ns);

#endif
