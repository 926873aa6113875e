/* SPDX-License-Identifier: BSD-2-Clause */
/* What the child of a scan (why_scan.c) writes, and its parent (why.c) reads. Private to both. */
#ifndef MEMTRACE_HEAP_WHY_INTERNAL_H
#define MEMTRACE_HEAP_WHY_INTERNAL_H

#include <stdio.h>

#include "heap/recheck.h"
#include "heap/why.h"

struct scan_view;

/* How many elements of each kind follow, in this order: struct lost_block, values of struct late,
 * struct stale_word, struct leak_group, struct why_path, struct census_type, struct why_block. */
struct why_counts {
	uint64_t lost, late, stale, groups, paths, types, blocks;
};

struct why_work {
	const struct why_choice *choice;
	const struct maps *maps;
	const struct root_threads *threads;
	/* lost blocks of the previous scan; NULL: this is the first scan */
	const struct lost *before;
	const uint64_t *late; /* values that the last full scan has seen (late.h) */
	size_t n_late;
	bool recheck; /* this scan is a recheck of `before` (recheck.h), not a full scan */
	/* stale words that the previous recheck has seen; NULL: there was no recheck */
	const struct stale_words *stale;
	bool stopped; /* the process is stopped */
	bool paths;   /* verdicts on the chosen blocks, and paths, are wanted; never in a recheck */
	bool leaks;   /* leaks are wanted */
};

/* Writes struct why_sums, struct why_counts and the arrays to out. 0; -ENOMEM; -EFBIG, -ETIMEDOUT:
 * the image's limits; -EIO. */
int why__scan(const struct scan_view *view, const struct why_work *work, FILE *out);

#endif
