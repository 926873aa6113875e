/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to origins.c, origins_tell.c (finds the makers of a shape) and origins_makers.c (decides
 * what a maker is, and which makers could be mistaken for others). */
#ifndef MEMTRACE_PROFILE_ORIGINS_INTERNAL_H
#define MEMTRACE_PROFILE_ORIGINS_INTERNAL_H

#include "base/table.h"
#include "profile/origins.h"

/* What samples are grouped by. */
enum level { LEVEL_SHAPE, LEVEL_ROUGH, LEVELS };

/* A known block that was found in the heap. */
struct sample {
	uint32_t label, shape, rough;
	uint32_t maker;	    /* number that stands for its first maker_depth functions */
	size_t maker_depth; /* see find_maker_depths() */
	const uint32_t *functions;
	size_t n_functions;
	bool second; /* it belongs to the second half: each half is judged by the other */
};

/* The search for makers: its input, the functions of all sites with known blocks (of each site, the
 * innermost function first), and the samples. */
struct finding {
	const struct profile *profile;
	const struct known_block *known;
	const struct census *census;
	const char **names; /* by number of function */
	size_t n_names;
	struct table table; /* of names */
	uint32_t *numbers;  /* of the functions of all sites */
	size_t n_numbers;
	size_t *first; /* by site: index of its first element in `numbers`; n_sites + 1 elements */
	struct sample *samples;
	size_t n_samples, n_makers;
	bool *closed[LEVELS]; /* by shape and rough shape: its family gets no makers */
};

/* --- origins_tell.c --- */

/* The makers of a shape's blocks: the first `depth` functions of the blocks' stacks. depth 0: not
 * known. */
struct told {
	const uint32_t *functions;
	size_t depth;
};

/* Compares the functions of two stacks, or of two beginnings of stacks, the innermost one first. If
 * one list is the beginning of the other, the shorter one comes first. */
int functions__compare(const uint32_t *x, size_t n_x, const uint32_t *y, size_t n_y);
int sample__compare(const struct sample *x, const struct sample *y);

/* Sorts by group, then by functions. */
void samples__sort(struct sample *samples, size_t n, enum level level);
/* The sample's group: its shape or its rough shape, by level. */
uint32_t sample__group(const struct sample *sample, enum level level);
/* Returns the end of the group that begins at number `from` of n sorted samples. */
size_t samples__group_end(const struct sample *samples, size_t from, size_t n, enum level level);

/* Finds the longest list of innermost functions with which enough of the n samples begin. The
 * samples are sorted by their functions. The result is empty if this list is too short to be a
 * maker. */
struct told samples__tell(const struct sample *samples, size_t n);

/* The makers of each shape, and of each rough shape. Free with lesson__clear(). */
struct lesson {
	struct told *shapes, *rough;
	/* by shape: true if the shape must not take the maker of its rough shape. Either its family
	 * is closed, or samples of several makers have this shape */
	bool *own;
};

/* Learns from the samples, whose order changes. 0 or -ENOMEM. */
int lesson__learn(const struct finding *f, struct sample *samples, size_t n, struct lesson *ret);
void lesson__clear(struct lesson *lesson);
/* Returns the makers of a shape. If too few samples have the shape, and these samples agree with
 * each other, returns the makers of its rough shape. */
const struct told *lesson__ask(const struct lesson *lesson, uint32_t shape, uint32_t rough);

/* --- origins_makers.c --- */

/* Sets maker and maker_depth of all samples. 0 or -ENOMEM. */
int finding__number_makers(struct finding *f);
/* Closes the families of shapes that have too many mistakes (origins.h): none of their shapes gets
 * a maker. 0 or -ENOMEM. */
int finding__close_families(struct finding *f);

#endif
