/* SPDX-License-Identifier: BSD-2-Clause */
/* What three outputs have in common: the table of one process's stacks (table.c), the table of
 * processes (processes.c), and the screen of `memtrace top`. */
#ifndef MEMTRACE_ENCODE_TABLE_H
#define MEMTRACE_ENCODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "profile/contradictions.h"
#include "profile/profile.h"

#define BOLD   "\033[1m"
#define YELLOW "\033[33m"
#define RESET  "\033[0m"

/* Live memory of the sites whose stacks are printed the same. Their stacks differ only in return
 * addresses within the same functions, or in the allocation function. */
struct group {
	const struct profile_site *site; /* one of the sites */
	char *key;			 /* the text of the stack, one line for each frame; owned */
	struct estimate live;
	struct growth growth;
	double alloc_objects, alloc_bytes, freed_objects, freed_bytes, peak_objects, peak_bytes;
	double alloc_variance, alloc_common; /* as in struct profile_site */
	struct site_life life;
	/* who holds the blocks of one of the sites; NULL: not known for any site */
	const struct site_why *why;
};

/* Which sites are grouped, and how the groups are sorted. */
enum groups {
	GROUPS_BY_LIVE,	     /* sites with anything live, descending by live bytes */
	GROUPS_BY_GROWTH,    /* the same sites, by growth__compare(); allocators' own regions
			      * last */
	GROUPS_BY_ALLOCATED, /* all sites, descending by allocated bytes */
	GROUPS_BY_CALLS,     /* all sites, descending by allocated objects */
	GROUPS_BY_NAME,	     /* all sites, ascending by the text of the stack */
};

/* Groups sites by the text of their stacks. *ret_groups is for free_groups(). 0 or -ENOMEM. */
int group_sites(const struct profile *profile, struct group **ret_groups, size_t *ret_n,
		enum groups by);
void free_groups(struct group *groups, size_t n);

/* These two functions are for a table with a stack in each row, behind the columns of a grid. Call
 * them after grid__fit() (encode/grid.h). They put the titles, or a row with as much of its stack
 * as options->width allows. put_stack_row() returns 0, -ENOMEM or the sink's error. */
void put_stack_titles(const struct grid *grid, const struct table_options *options,
		      struct sink *sink);
int put_stack_row(const struct grid *grid, size_t row, const struct profile *profile,
		  const struct profile_site *site, const struct table_options *options,
		  struct sink *sink);

/* Puts the rows sorted by options->weight, and above them the total of this weight (not for
 * WEIGHT_OBJECTS and WEIGHT_GROWTH). The profile must have this weight, which must not be
 * WEIGHT_LIVE. 0 or negative errno. */
int put_weighed(const struct profile *profile, const struct table_options *options,
		struct sink *sink);

/* Puts the rows of churn: for each stack how much it allocates per second, how much of this is
 * freed again, and how long the freed memory lived. 0 or negative errno. */
int put_churn(const struct profile *profile, const struct table_options *options,
	      struct sink *sink);

/* Puts the rows of the table as a tree. Each function that holds memory has a line. If all memory
 * of the function has the same caller, this caller follows on the same line, and so do further
 * callers. Where callers differ, each caller has a line below. 0 or negative errno. */
int put_tree(const struct profile *profile, const struct table_options *options,
	     const struct estimate *live, struct sink *sink);

/* Returns how many cores the process used on average, for format_cost(); 0: not known. */
double cpu_cores(const struct profile *profile);

/* Puts the lines that a profile's tables begin with. If `growth` is set, they include the growth of
 * the process, where known. 0, -ENOMEM or the sink's error. */
int put_run_head(const struct profile *profile, bool growth, struct sink *sink);

/* For a drawn profile (profile/drawing.h): drawn_what() returns what its bytes are, and drawn_how()
 * returns what to know about its stacks. Both texts are static. NULL: the profile is not drawn. */
const char *drawn_what(const struct profile *profile);
const char *drawn_how(const struct profile *profile);

/* Puts how another program sampled its profile, if its file says so: "one sample per 512 KiB". */
void put_foreign_sampling(const struct profile *profile, struct sink *sink);

/* Returns 1.96 standard errors (an upper bound) of an estimate of this many bytes, in per cent of
 * the bytes. 0: the bytes are exact, or there are none. */
double sampling_error_pct(const struct profile *profile, double bytes);

/* Returns the upper end of the 95 % interval of this many estimated bytes. */
double sampling_high(const struct profile *profile, double bytes);

/* Puts the counters of losses that are not zero, on one line: "lost: live_full 12,000,
 * stacks_truncated 3". Puts nothing if all are zero. */
void put_lost(const struct profile *profile, bool color, struct sink *sink);

/* Returns a printable sentence that describes a contradiction in the profile; NULL: no memory. The
 * caller frees it. */
char *contradiction_text(const struct profile *profile, const struct contradiction *finding);

/* Returns the word that goes before the sentence of contradiction_text(): "CONTRADICTION: ", or
 * "note: " if there may be another explanation. */
const char *contradiction_word(const struct contradiction *finding);

/* Puts a line for each contradiction in the profile: `before`, contradiction_word(),
 * contradiction_text(). 0, -ENOMEM or the sink's error. */
int put_contradictions(const struct profile *profile, const char *before, struct sink *sink);

/* Returns the words before figures of live memory: "AT LEAST ", "AT MOST ", "ABOUT " if both are
 * true, or "". bound_sign() returns the sign for a cell: ">= ", "<= ", "~ ", or "". */
const char *bound_words(bool lower, bool upper);
const char *bound_sign(bool lower, bool upper);

/* Writes the interval of live memory (profile__live_interval()) into buf, which has room for
 * CELL_SIZE bytes. If an end is not known, writes "" and returns false. */
bool format_live_interval(const struct profile *profile, const struct estimate *live, char *buf);

/* For several profiles: puts the contradictions in each profile, and "profile 2: lost: ..." for
 * each profile with losses. */
int put_each_doubt(const struct profile *const *profiles, size_t n, bool color, struct sink *sink);

#endif
