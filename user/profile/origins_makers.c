// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/origins_internal.h"

#define MOST_LEFT_OUT 64 /* at most this many makers of a group are left out, one after another */
/* The largest share of samples that may be taken for another maker's. So if unknown makers made a
 * fifth of the heap, at most a twentieth of the heap gets a wrong maker. */
#define MOST_MISTAKEN 0.25

static int by_functions(const void *a, const void *b)
{
	return sample__compare(a, b);
}

/* Do the first n functions of both samples agree? */
static bool begin_alike(const struct sample *x, const struct sample *y, size_t n)
{
	return x->n_functions >= n && y->n_functions >= n &&
	       !memcmp(x->functions, y->functions, n * sizeof(*x->functions));
}

/* Samples [from, to) that share their first functions. */
struct range {
	size_t from, to;
};

/* The samples in range share a function. Is this function a wrapper of malloc, which says nothing
 * about the maker? It is a wrapper if more than half of all stacks contain it, and more than half
 * of all rough shapes have a block from it. seen: by rough shape; all elements are less than
 * `time`. */
static bool come_by_wrapper(const struct finding *f, struct range range, size_t n_stacks,
			    uint32_t *seen, uint32_t time)
{
	size_t stacks = 0, shapes = 0;

	for (size_t i = range.from; i < range.to; i++) {
		const struct sample *sample = &f->samples[i];

		stacks += i == range.from || sample__compare(&sample[-1], sample);
		shapes += seen[sample->rough] != time;
		seen[sample->rough] = time;
	}
	return 2 * stacks > n_stacks && 2 * shapes > f->census->n_rough;
}

/* All samples in range have more than `depth` functions. Returns the end of those that have the
 * same function number `depth` as the first sample. */
static size_t next_function(const struct finding *f, struct range range, size_t depth)
{
	size_t end = range.from + 1;

	while (end < range.to &&
	       f->samples[end].functions[depth] == f->samples[range.from].functions[depth])
		end++;
	return end;
}

/* Sets maker_depth of all samples. A maker is the list of a stack's innermost functions, up to the
 * first one that is not a wrapper of malloc. The samples are sorted by functions. seen: zeroed, by
 * rough shape. */
static void find_maker_depths(struct finding *f, size_t n_stacks, uint32_t *seen)
{
	struct range range = {0, f->n_samples};
	uint32_t time = 0;

	/* the samples in range share their first depth functions, all of which are wrappers */
	for (size_t depth = 0; range.from < range.to; depth++) {
		struct range wrapped = {};

		for (; range.from < range.to && f->samples[range.from].n_functions == depth;
		     range.from++)
			f->samples[range.from].maker_depth = depth;
		for (size_t next; range.from < range.to; range.from = next) {
			struct range shared = {range.from, next = next_function(f, range, depth)};

			if (come_by_wrapper(f, shared, n_stacks, seen, ++time))
				wrapped = shared;
			for (size_t i = shared.from; i < shared.to; i++)
				f->samples[i].maker_depth = depth + 1;
		}
		range = wrapped;
	}
}

int finding__number_makers(struct finding *f)
{
	_cleanup_free_ uint32_t *seen = calloc((size_t)f->census->n_rough + 1, sizeof(*seen));
	size_t n_stacks = 0;

	if (!seen)
		return -ENOMEM;
	qsort(f->samples, f->n_samples, sizeof(*f->samples), by_functions);
	for (size_t i = 0; i < f->n_samples; i++)
		n_stacks += !i || sample__compare(&f->samples[i - 1], &f->samples[i]);
	find_maker_depths(f, n_stacks, seen);
	for (size_t i = 0; i < f->n_samples; i++) {
		struct sample *sample = &f->samples[i];

		f->n_makers += !i || !begin_alike(&sample[-1], sample, sample->maker_depth);
		sample->maker = (uint32_t)f->n_makers - 1;
	}
	return 0;
}

/* Numbers of samples of a maker. all: all its samples. mistaken: the samples that would get a wrong
 * maker from the other makers' samples. */
struct left_out {
	size_t all, mistaken;
};

static bool is_mistaken(const struct told *told, const struct sample *sample)
{
	size_t n = told->depth < sample->maker_depth ? told->depth : sample->maker_depth;

	return memcmp(sample->functions, told->functions, n * sizeof(*told->functions)) != 0;
}

/* A shape that has a maker may have a few samples of other makers: blocks that were freed unseen
 * and whose addresses were given out again. Can `few` of n samples be such blocks? */
static bool is_noise(size_t few, size_t n)
{
	return (double)few <= (1 - ORIGINS_SHARE) * (double)n;
}

/* Leaves out each maker of a group in turn, and judges this maker's samples by the samples of the
 * other makers. Makers with few samples prove nothing and are skipped. room: for n samples. */
static void leave_out(const struct sample *samples, size_t n, struct sample *room,
		      struct left_out *makers)
{
	size_t left = MOST_LEFT_OUT;

	for (size_t i = 0, next; i < n && left--; i = next) {
		struct left_out *maker = &makers[samples[i].maker];
		struct told told;

		for (next = i + 1; next < n && samples[next].maker == samples[i].maker;)
			next++;
		if (is_noise(next - i, n))
			continue;
		maker->all += next - i;
		if (is_noise(n - (next - i), n))
			continue;
		memcpy(room, samples, i * sizeof(*room));
		memcpy(room + i, samples + next, (n - next) * sizeof(*room));
		told = samples__tell(room, n - (next - i));
		if (told.depth && is_mistaken(&told, &samples[i]))
			maker->mistaken += next - i;
	}
}

/* Could an unknown maker be taken for a known one? The chance is estimated by treating each known
 * maker as unknown in turn (the mean of Jeffreys' posterior, as in origins.h). samples: of one
 * family. A maker that is alone in a family cannot be mistaken for another one. In a family with a
 * mark, such a lone maker counts as evidence that nobody else makes such objects. In a family
 * without a mark, a lone maker proves nothing. makers: their `all` is set to 0. */
static bool would_mislead(const struct sample *samples, size_t n, bool marked,
			  struct left_out *makers)
{
	double mistaken = 0, all = 0;

	for (size_t i = 0; i < n; i++) {
		struct left_out *maker = &makers[samples[i].maker];

		if (!maker->all) /* counted already, or never left out */
			continue;
		mistaken += (double)maker->mistaken / (double)maker->all;
		all++;
		maker->all = 0;
	}
	if (!marked && all < 2)
		return true;
	return (mistaken + 0.5) / (all + 1) > MOST_MISTAKEN;
}

/* The samples of one shape. These groups are sorted by the family of their shape. Shapes with the
 * same mark (objects of one C++ class) are a family. All shapes without a mark that have the same
 * enum shape_class are a family, too. */
struct family_group {
	const struct census_shape *shape;
	uint32_t group;
	size_t from, to; /* samples */
};

static const struct census_shape *shape_of(const struct census *census, uint32_t group,
					   enum level level)
{
	return &(level == LEVEL_SHAPE ? census->shapes : census->rough)[group];
}

static int compare_families(const void *a, const void *b)
{
	const struct census_shape *x = ((const struct family_group *)a)->shape;
	const struct census_shape *y = ((const struct family_group *)b)->shape;

	if (x->mark != y->mark)
		return x->mark < y->mark ? -1 : 1;
	return (x->shape_class > y->shape_class) - (x->shape_class < y->shape_class);
}

/* Room for finding__close_families(). */
struct closing {
	struct sample *samples; /* of a family, or of a group with one maker left out */
	struct left_out *makers;
	struct family_group *groups;
	size_t n_groups;
};

static void close_family(struct finding *f, enum level level, const struct family_group *groups,
			 size_t n, struct closing *c)
{
	size_t n_samples = 0;
	bool closed;

	for (size_t i = 0; i < n; i++)
		for (size_t k = groups[i].from; k < groups[i].to; k++)
			c->makers[f->samples[k].maker] = (struct left_out){};
	for (size_t i = 0; i < n; i++)
		leave_out(f->samples + groups[i].from, groups[i].to - groups[i].from, c->samples,
			  c->makers);
	for (size_t i = 0; i < n; i++)
		for (size_t k = groups[i].from; k < groups[i].to; k++)
			c->samples[n_samples++] = f->samples[k];
	closed = groups[0].shape->shape_class == SHAPE_ALONE ||
		 would_mislead(c->samples, n_samples, groups[0].shape->mark, c->makers);
	for (size_t i = 0; i < n; i++)
		f->closed[level][groups[i].group] = closed;
}

static void close_level(struct finding *f, enum level level, struct closing *c)
{
	c->n_groups = 0;
	samples__sort(f->samples, f->n_samples, level);
	for (size_t i = 0, next; i < f->n_samples; i = next) {
		uint32_t group = sample__group(&f->samples[i], level);

		next = samples__group_end(f->samples, i, f->n_samples, level);
		c->groups[c->n_groups++] =
			(struct family_group){shape_of(f->census, group, level), group, i, next};
	}
	qsort(c->groups, c->n_groups, sizeof(*c->groups), compare_families);
	for (size_t i = 0, next; i < c->n_groups; i = next) {
		for (next = i + 1;
		     next < c->n_groups && !compare_families(&c->groups[i], &c->groups[next]);)
			next++;
		close_family(f, level, &c->groups[i], next - i, c);
	}
}

int finding__close_families(struct finding *f)
{
	struct closing c = {
		.samples = calloc(f->n_samples + 1, sizeof(*c.samples)),
		.makers = calloc(f->n_makers + 1, sizeof(*c.makers)),
		.groups = calloc(f->n_samples + 1, sizeof(*c.groups)),
	};
	int err = c.samples && c.makers && c.groups ? 0 : -ENOMEM;

	f->closed[LEVEL_SHAPE] = calloc((size_t)f->census->n_shapes + 1, sizeof(bool));
	f->closed[LEVEL_ROUGH] = calloc((size_t)f->census->n_rough + 1, sizeof(bool));
	if (!f->closed[LEVEL_SHAPE] || !f->closed[LEVEL_ROUGH])
		err = -ENOMEM;
	for (int level = 0; level < LEVELS && !err; level++)
		close_level(f, level, &c);
	free(c.samples);
	free(c.makers);
	free(c.groups);
	return err;
}
