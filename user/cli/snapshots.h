/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles that are written while the tracing goes on: when, and under what names. Arithmetic
 * alone. */
#ifndef MEMTRACE_CLI_SNAPSHOTS_H
#define MEMTRACE_CLI_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_RISE 1.05 /* a peak that much above the last one is a new one */

/* Why there is a snapshot. */
enum snapshot_cause {
	SNAPSHOT_NONE,
	SNAPSHOT_INTERVAL, /* so much time has passed, or so much was allocated */
	SNAPSHOT_PEAK,	   /* more is live than ever */
	SNAPSHOT_ASKED,	   /* by a signal */
	SNAPSHOT_FINAL,
	SNAPSHOT_CAUSES
};

struct snapshots {
	double every_s;	      /* 0: not by time */
	uint64_t every_bytes; /* 0: not by what is allocated */
	bool at_peaks, asked;
	/* State. */
	unsigned n, n_of[SNAPSHOT_CAUSES]; /* written so far */
	unsigned intervals;		   /* of time that have passed */
	uint64_t multiples;		   /* of every_bytes */
	double peak_bytes;
};

/* "30" or "0.5": seconds; "32M": bytes allocated. 0 or -EINVAL. */
int snapshots__parse_every(struct snapshots *snapshots, const char *text);

/* How often to ask whether one is due, seconds; INFINITY: none will be, but when asked for. */
double snapshots__look_every_s(const struct snapshots *snapshots);

/* Is one due, so many seconds after the start, with so many bytes allocated since, and live
 * (estimates)? What was missed meanwhile is not made up for: one snapshot stands for it. */
enum snapshot_cause snapshots__due(struct snapshots *snapshots, double elapsed_s,
				   double alloc_bytes, double live_bytes);

/* What stands between pid and extension in the names of the next one's files: its number, "0007";
 * with jeprof as jemalloc counts, from 0, and tells the cause and its number: "7.i5" (interval),
 * "7.u1" (peak), "7.m0" (asked for), "7.f" (the last). buf: >= 32 bytes; returns buf. */
const char *snapshots__name(const struct snapshots *snapshots, enum snapshot_cause cause,
			    bool jeprof, char *buf);

/* That one is written. */
void snapshots__written(struct snapshots *snapshots, enum snapshot_cause cause);

#endif
