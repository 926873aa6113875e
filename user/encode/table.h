/* SPDX-License-Identifier: BSD-2-Clause */
/* What the table of one process's stacks (table.c), the table of processes (processes.c) and the
 * screen of `memtrace top` have in common. */
#ifndef MEMTRACE_ENCODE_TABLE_H
#define MEMTRACE_ENCODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"
#include "encode/encode.h"
#include "profile/contradictions.h"
#include "profile/profile.h"

#define BOLD   "\033[1m"
#define YELLOW "\033[33m"
#define RESET  "\033[0m"

/* Live memory of the sites that read the same: their stacks differ in return addresses within the
 * same functions, or in which allocation function was called. */
struct group {
	const struct profile_site *site; /* one of them */
	char *key;			 /* what is read, a line per frame; owned */
	struct estimate live;
	struct growth growth;
	double alloc_objects, alloc_bytes, freed_objects, freed_bytes, peak_objects, peak_bytes;
	double alloc_variance, alloc_common; /* struct profile_site's */
	struct site_life life;
};

/* Which sites, and what they descend by. */
enum groups {
	GROUPS_BY_LIVE,	     /* those with anything live, */
	GROUPS_BY_GROWTH,    /* by live bytes or by growth */
	GROUPS_BY_ALLOCATED, /* all, by allocated bytes */
	GROUPS_BY_CALLS,     /* or objects; */
	GROUPS_BY_NAME,	     /* all, ascending by what is read */
};

/* Groups sites by what is read of them. *ret_groups is for free_groups(). 0 or -ENOMEM. */
int group_sites(const struct profile *profile, struct group **ret_groups, size_t *ret_n,
		enum groups by);
void free_groups(struct group *groups, size_t n);

/* The rows by options->weight, which is not WEIGHT_LIVE and which the profile knows: above them
 * what all of it comes to. 0 or negative errno. */
int put_weighed(const struct profile *profile, const struct table_options *options,
		struct sink *sink);

/* The rows of churn: who allocates how much a second, how much of it is freed again and how long
 * that lived. 0 or negative errno. */
int put_churn(const struct profile *profile, const struct table_options *options,
	      struct sink *sink);

/* The rows of the table as a tree: a line for each function that holds memory, with its callers as
 * far as all its memory came the same way, and below it the callers where it parts. 0 or negative
 * errno. */
int put_tree(const struct profile *profile, const struct table_options *options,
	     const struct estimate *live, struct sink *sink);

/* That the process used on the average, as format_cost() takes them; 0: not known. */
double cpu_cores(const struct profile *profile);

/* The lines that a profile's tables begin with; growth: what the process grows by as well, where
 * that is known. 0, -ENOMEM or the sink's error. */
int put_run_head(const struct profile *profile, bool growth, struct sink *sink);

/* "one sample per 512 KiB": how a file that is not of memtrace's own kind was sampled, if it
 * says. */
void put_foreign_sampling(const struct profile *profile, struct sink *sink);

/* 1.96 standard errors of so many estimated bytes, in per cent of these, at most. 0: they are
 * exact, or none. */
double sampling_error_pct(const struct profile *profile, double bytes);

/* The upper end of their 95 % interval. */
double sampling_high(const struct profile *profile, double bytes);

/* "lost: live_full 12,000, stacks_truncated 3": the counters that are not zero, on one line;
 * nothing when all are. */
void put_lost(const struct profile *profile, bool color, struct sink *sink);

/* The sentence of a finding in the profile, printable; NULL: no memory. The caller frees it. */
char *contradiction_text(const struct profile *profile, const struct contradiction *finding);

/* "CONTRADICTION: " or, of what may be explained otherwise, "note: ": what stands before that
 * sentence where people read it. */
const char *contradiction_word(const struct contradiction *finding);

/* A line for each finding in the profile, with its word, behind `before`. 0, -ENOMEM or the sink's
 * error. */
int put_contradictions(const struct profile *profile, const char *before, struct sink *sink);

/* "AT LEAST ", "AT MOST ", with both "ABOUT ", or "": what stands before figures of what is live;
 * and the same in a cell: ">= ", "<= ", "~ ". */
const char *bound_words(bool lower, bool upper);
const char *bound_sign(bool lower, bool upper);

/* Of several profiles: "profile 2: lost: ..." for each that has lost anything, and likewise what
 * contradicts itself in each. */
int put_each_doubt(const struct profile *const *profiles, size_t n, bool color, struct sink *sink);

#endif
