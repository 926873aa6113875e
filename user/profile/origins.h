/* SPDX-License-Identifier: BSD-2-Clause */
/* Which functions made the blocks of a heap, as it looks: blocks that a run has sampled are known,
 * and others look like them (heap/shapes.h). This is the only way to say something of blocks that
 * are older than the run.
 *
 * A shape is told if ORIGINS_SHARE of the known blocks that have it were made by the same innermost
 * functions, as far as so few can show this: the mean of Jeffreys' posterior of a share of which k
 * of n were seen is (k + 1/2) / (n + 1) (Brown, Cai, DasGupta, "Interval Estimation for a Binomial
 * Proportion", Statistical Science 16, 2001). So it takes nine known blocks at least. As many
 * functions are named as are common to that share. If a shape is not told, its rough shape may be.
 *
 * A maker that made blocks before the run and none within it can pass for another. How often this
 * would happen is measured with the makers that were seen: each is left out, and told by the
 * others. Families of shapes (those with the same mark, and the rest by enum shape_class) in which
 * it happens too often are not told at all.
 *
 * How right the rest is, is measured, too: half of the known blocks are told by the other half, and
 * the other way round.
 */
#ifndef MEMTRACE_PROFILE_ORIGINS_H
#define MEMTRACE_PROFILE_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/heap.h"
#include "profile/profile.h"

#define ORIGINS_SHARE	  0.95
#define ORIGINS_MAX_KNOWN 65536 /* blocks; more are left out, evenly */

/* A sampled block that lives. */
struct known_block {
	uint64_t addr, size; /* as asked for */
	uint32_t site;	     /* of the profile */
};

/* The profile's sampled blocks, ascending by address, one for each address. 0 or -ENOMEM. The
 * caller frees *ret. */
int origins__known(const struct profile *profile, struct known_block **ret, size_t *ret_n);

/* Blocks that look as if the same functions had made them. */
struct origin {
	const char **functions; /* innermost first; owned; the profile owns the names */
	size_t n_functions;
	struct heap_count count;
	uint64_t pinned;      /* as in struct census_shape */
	uint64_t plain_bytes; /* of count, those in blocks of SHAPE_PLAIN: weak evidence */
};

struct origins {
	struct origin *rows; /* by bytes, descending; owned */
	size_t n_rows;
	struct heap_count unknown; /* all other blocks in use */
	size_t known;		   /* sampled blocks that were found in the heap */
	/* of these, those that half of the others told, and told rightly */
	struct heap_count told, right;
	/* More than 1 - ORIGINS_SHARE of them were told wrongly, by number or by bytes. So there
	 * are no rows. */
	bool misleading;
};

/* known: as origins__known() gives them, which are the labels of the census. The profile is
 * symbolized and must outlive ret; NULL: nothing is known. 0 or -ENOMEM. origins__clear() frees
 * what ret owns. */
int origins__find(const struct profile *profile, const struct known_block *known,
		  const struct census *census, struct origins *ret);
void origins__clear(struct origins *origins);

/* Draws the rows of a report that has origins: the functions of each, outermost first, and a stack
 * for what is unknown. The caller owns *ret. 0 or -ENOMEM. */
int heap_report__stacks(const struct heap_report *report, struct profile **ret);

#endif
