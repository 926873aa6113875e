/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates which functions made the blocks of a heap. The makers of sampled blocks are known, and
 * other blocks look like sampled ones (heap/shapes.h). Blocks that are older than the run were
 * never sampled, so only this comparison tells something about them.
 *
 * A shape gets a maker if the same innermost functions made a share of ORIGINS_SHARE or more of its
 * known blocks. If k of n blocks have this maker, the share is estimated as (k + 1/2) / (n + 1):
 * the mean of Jeffreys' posterior (Brown, Cai, DasGupta, "Interval Estimation for a Binomial
 * Proportion", Statistical Science 16, 2001). So a shape needs at least nine known blocks. The
 * maker's name is the list of all innermost functions that this share of blocks has in common. If a
 * shape gets no maker, its rough shape may get one.
 *
 * If a maker made blocks before the run but none during it, its blocks may be assigned to another
 * maker by mistake. The known makers show how often this mistake would happen. Each known maker is
 * left out in turn, and its blocks are judged by the blocks of the other makers. This is measured
 * for each family of shapes. Shapes with the same mark (struct census_shape) are a family. Shapes
 * that have no mark, but the same enum shape_class, are a family, too. If a family has too many
 * mistakes, none of its shapes gets a maker.
 *
 * The accuracy of the result is measured, too: each half of the known blocks is judged by the other
 * half. */
#ifndef MEMTRACE_PROFILE_ORIGINS_H
#define MEMTRACE_PROFILE_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/heap.h"
#include "profile/profile.h"

#define ORIGINS_SHARE	  0.95
#define ORIGINS_MAX_KNOWN 65536 /* at most this many known blocks, chosen evenly */

/* A sampled block that lives. */
struct known_block {
	uint64_t addr, size; /* size: what the program asked for */
	uint32_t site;	     /* of the profile */
};

/* All sampled blocks of the profile, ascending by address. Windows may have sampled a block and
 * also its successor at the same address. It is not known which of the two lives. 0 or -ENOMEM. The
 * caller frees *ret. */
int origins__sampled(const struct profile *profile, struct known_block **ret, size_t *ret_n);

/* The sampled blocks whose address no other sampled block has, ascending. If there are more than
 * ORIGINS_MAX_KNOWN such blocks, only ORIGINS_MAX_KNOWN of them are chosen, evenly. 0 or -ENOMEM.
 * The caller frees *ret. */
int origins__known(const struct profile *profile, struct known_block **ret, size_t *ret_n);

/* Blocks that look as if the same functions had made them. */
struct origin {
	const char **functions; /* innermost first; owned; the profile owns the names */
	size_t n_functions;
	struct heap_count count;
	uint64_t pinned;      /* as in struct census_shape */
	uint64_t plain_bytes; /* the part of count.bytes in blocks of SHAPE_PLAIN: weak evidence */
};

struct origins {
	struct origin *rows; /* by bytes, descending; owned */
	size_t n_rows;
	struct heap_count unknown; /* all other blocks in use */
	size_t known;		   /* sampled blocks that were found in the heap */
	/* told: the known blocks to which the other half of the known blocks gave a maker. right:
	 * the part of `told` that got the right maker */
	struct heap_count told, right;
	/* More than 1 - ORIGINS_SHARE of the blocks that were given a maker got a wrong one, by
	 * number or by bytes. So there are no rows. */
	bool misleading;
};

/* Finds the origins of all blocks in use. known: the blocks from origins__known(), which are the
 * labels of the census. The profile is symbolized and must outlive ret; NULL: nothing is known. 0
 * or -ENOMEM. origins__clear() frees what ret owns. */
int origins__find(const struct profile *profile, const struct known_block *known,
		  const struct census *census, struct origins *ret);
void origins__clear(struct origins *origins);

/* Draws a report. With origins: a stack of functions for each row, outermost first, and a stack for
 * blocks of unknown origin. Without origins: the census. Its stacks consist of the allocator, the
 * place, perhaps a C++ class, and the largest size of the group. The caller owns *ret. 0 or
 * -ENOMEM. */
int heap_report__stacks(const struct heap_report *report, struct profile **ret);

#endif
