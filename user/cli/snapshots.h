/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots are profiles written during the tracing. These functions decide when snapshots are
 * written, and how they are named. They only compute, and write nothing. */
#ifndef MEMTRACE_CLI_SNAPSHOTS_H
#define MEMTRACE_CLI_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a snapshot at a peak is due when live memory is this many times the last peak */
#define SNAPSHOT_RISE 1.05

struct snapshots {
	double every_s;	      /* seconds between snapshots; 0: not by time */
	uint64_t every_bytes; /* allocated bytes between snapshots; 0: not by bytes */
	bool at_peaks;	      /* a snapshot is due when live memory is higher than ever */
	bool asked;	      /* a signal has asked for a snapshot now */
	/* State. */
	unsigned n;	    /* written so far */
	unsigned intervals; /* intervals of time that have passed */
	uint64_t multiples; /* multiples of every_bytes that have been allocated */
	double peak_bytes;
};

/* Parses the value of --every: "30" or "0.5" are seconds, "32M" are bytes allocated. 0 or
 * -EINVAL. */
int snapshots__parse_every(struct snapshots *snapshots, const char *text);

/* Returns the seconds between two calls of snapshots__due(); INFINITY: only a signal is a reason to
 * call it. */
double snapshots__look_every_s(const struct snapshots *snapshots);

/* Is a snapshot due, elapsed_s after the start? alloc_bytes (allocated since the start) and
 * live_bytes are estimates. If several snapshots were missed, only one is due. */
bool snapshots__due(struct snapshots *snapshots, double elapsed_s, double alloc_bytes,
		    double live_bytes);

/* Returns the text between pid and extension in the names of the next snapshot's files: the
 * snapshot's number, as in "0007". buf: >= 32 bytes; returns buf. */
const char *snapshots__name(const struct snapshots *snapshots, char *buf);

/* Counts a snapshot as written. */
void snapshots__written(struct snapshots *snapshots);

#endif
