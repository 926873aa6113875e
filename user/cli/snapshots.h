/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles that are written while the tracing goes on: when, and under what names. Arithmetic
 * alone. */
#ifndef MEMTRACE_CLI_SNAPSHOTS_H
#define MEMTRACE_CLI_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_RISE 1.05 /* a peak that much above the last one is a new one */

struct snapshots {
	double every_s;	      /* 0: not by time */
	uint64_t every_bytes; /* 0: not by what is allocated */
	bool at_peaks;	      /* when more is live than ever */
	bool asked;	      /* by a signal: one is due now */
	/* State. */
	unsigned n;	    /* written so far */
	unsigned intervals; /* of time that have passed */
	uint64_t multiples; /* of every_bytes */
	double peak_bytes;
};

/* "30" or "0.5": seconds; "32M": bytes allocated. 0 or -EINVAL. */
int snapshots__parse_every(struct snapshots *snapshots, const char *text);

/* How often to ask whether one is due, seconds; INFINITY: none will be, but when asked for. */
double snapshots__look_every_s(const struct snapshots *snapshots);

/* Is one due, so many seconds after the start, with so many bytes allocated since, and live
 * (estimates)? What was missed meanwhile is not made up for: one snapshot stands for it. */
bool snapshots__due(struct snapshots *snapshots, double elapsed_s, double alloc_bytes,
		    double live_bytes);

/* What stands between pid and extension in the names of the next one's files: its number, "0007".
 * buf: >= 32 bytes; returns buf. */
const char *snapshots__name(const struct snapshots *snapshots, char *buf);

/* That one is written. */
void snapshots__written(struct snapshots *snapshots);

#endif
