// SPDX-License-Identifier: BSD-2-Clause
#include "profile/origins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"

#define MOST_LEFT_OUT 64 /* makers of one shape that are left out, one after the other */
/* The share of them that may be taken for others. So if makers that were not seen have made a fifth
 * of the heap, at most a twentieth of the heap gets a wrong maker. */
#define MOST_MISTAKEN 0.25

enum level { LEVEL_SHAPE, LEVEL_ROUGH, LEVELS };

/* --- the known blocks --- */

static int compare_known(const void *a, const void *b)
{
	const struct known_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

int origins__known(const struct profile *profile, struct known_block **ret, size_t *ret_n)
{
	struct known_block *known;
	size_t n = 0, distinct = 0, some;

	for (size_t i = 0; i < profile->n_sites; i++)
		n += profile->sites[i].n_blocks;
	known = calloc(n + 1, sizeof(*known));
	if (!known)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		for (size_t k = 0; k < site->n_blocks; k++)
			known[n++] =
				(struct known_block){site->blocks[k].addr, site->blocks[k].size, i};
	}
	qsort(known, n, sizeof(*known), compare_known);
	/* Windows may have sampled a block and also its successor at the same address. Which of
	 * them lives is not known. */
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && known[next].addr == known[i].addr; next++)
			;
		if (next == i + 1)
			known[distinct++] = known[i];
	}
	some = distinct < ORIGINS_MAX_KNOWN ? distinct : ORIGINS_MAX_KNOWN;
	for (size_t i = 0; i < some; i++)
		known[i] = known[i * distinct / some];
	*ret = known;
	*ret_n = some;
	return 0;
}

/* --- stacks as numbers of functions --- */

/* Functions of all sites with known blocks, each site's innermost first. */
struct finding {
	const struct profile *profile;
	const struct known_block *known;
	const struct census *census;
	const char **names; /* by number of function */
	size_t n_names;
	struct table table; /* of names */
	uint32_t *numbers;  /* of functions, of all sites */
	size_t n_numbers;
	size_t *first; /* by site: its first element of numbers; n_sites + 1 */
	struct sample *samples;
	size_t n_samples, n_makers;
	bool *closed[LEVELS]; /* by shape and rough shape: nothing is told of its family */
};

/* A known block that was found in the heap. */
struct sample {
	uint32_t label, shape, rough;
	uint32_t maker;	    /* number of its first maker_depth functions */
	size_t maker_depth; /* see number_makers() */
	const uint32_t *functions;
	size_t n_functions;
	bool second; /* the half that it belongs to when they tell each other */
};

static uint32_t *slot_of(const struct finding *f, const char *name)
{
	return TABLE_SLOT(&f->table, hash__keyed(name, strlen(name)), i,
			  !strcmp(f->names[i], name));
}

static int number_of(struct finding *f, const char *name, uint32_t *ret)
{
	int rc = table__reserve(&f->table, f->n_names + 1);
	uint32_t *slot;

	if (rc < 0 || VECTOR_ADD_ROOM(f->names, f->n_names))
		return -ENOMEM;
	for (size_t i = 0; rc && i < f->n_names; i++)
		*slot_of(f, f->names[i]) = (uint32_t)i + 1;
	slot = slot_of(f, name);
	if (!*slot) {
		f->names[f->n_names] = name;
		*slot = (uint32_t)++f->n_names;
	}
	*ret = *slot - 1;
	return 0;
}

static int add_function(struct finding *f, const char *name)
{
	uint32_t number;

	if (number_of(f, name, &number) || VECTOR_ADD_ROOM(f->numbers, f->n_numbers))
		return -ENOMEM;
	f->numbers[f->n_numbers++] = number;
	return 0;
}

/* Who called the allocator: its own functions are left out. */
static int add_functions(struct finding *f, const struct profile_site *site)
{
	size_t first = f->n_numbers;

	for (uint32_t i = 1; i < site->n_locations; i++) {
		const struct profile_location *location = profile__location(f->profile, site, i);

		if (!location->n_frames && add_function(f, "(unknown)"))
			return -ENOMEM;
		for (size_t k = 0; k < location->n_frames; k++) {
			const char *name = location->frames[k].name;

			if (f->n_numbers == first && profile__is_allocator_frame(name))
				continue;
			if (add_function(f, name))
				return -ENOMEM;
		}
	}
	return 0;
}

static int add_sites(struct finding *f)
{
	size_t n = f->profile->n_sites;

	f->first = calloc(n + 1, sizeof(*f->first));
	if (!f->first)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (f->profile->sites[i].n_blocks && add_functions(f, &f->profile->sites[i]))
			return -ENOMEM;
		f->first[i + 1] = f->n_numbers;
	}
	return 0;
}

static int add_samples(struct finding *f)
{
	const struct census *census = f->census;

	f->samples = calloc((size_t)census->n_labels + 1, sizeof(*f->samples));
	if (!f->samples)
		return -ENOMEM;
	for (uint32_t i = 0; i < census->n_labels; i++) {
		uint32_t shape = census->shape_of[i], site = f->known[i].site;

		if (shape == CENSUS_NO_SHAPE || f->first[site] == f->first[site + 1])
			continue;
		f->samples[f->n_samples] = (struct sample){
			.label = i,
			.shape = shape,
			.rough = census->shapes[shape].rough,
			.functions = f->numbers + f->first[site],
			.n_functions = f->first[site + 1] - f->first[site],
			/* Neighbours in the heap are alike, and belong to different halves. */
			.second = f->n_samples % 2,
		};
		f->n_samples++;
	}
	return 0;
}

/* --- telling --- */

/* The first depth functions. 0: not told. */
struct told {
	const uint32_t *functions;
	size_t depth;
};

static int compare_functions(const struct sample *x, const struct sample *y)
{
	size_t n = x->n_functions < y->n_functions ? x->n_functions : y->n_functions;

	for (size_t i = 0; i < n; i++)
		if (x->functions[i] != y->functions[i])
			return x->functions[i] < y->functions[i] ? -1 : 1;
	return (x->n_functions > y->n_functions) - (x->n_functions < y->n_functions);
}

static int by_shape(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->shape != y->shape)
		return x->shape < y->shape ? -1 : 1;
	return compare_functions(x, y);
}

static int by_rough(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->rough != y->rough)
		return x->rough < y->rough ? -1 : 1;
	return compare_functions(x, y);
}

static bool is_enough(size_t k, size_t n)
{
	return ((double)k + 0.5) / ((double)n + 1) >= ORIGINS_SHARE;
}

/* The longest list of innermost functions that enough of the n samples begin with. The samples are
 * sorted by their functions. The result is empty if that list is no maker. */
static struct told common_beginning(const struct sample *samples, size_t n)
{
	struct told told = {};
	size_t from = 0, to = n;

	for (size_t depth = 0;; depth++) {
		size_t best = 0, best_from = 0;

		for (size_t i = from, next; i < to; i = next) {
			for (next = i + 1;
			     next < to && samples[i].n_functions > depth &&
			     samples[next].functions[depth] == samples[i].functions[depth];
			     next++)
				;
			if (samples[i].n_functions > depth && next - i > best) {
				best = next - i;
				best_from = i;
			}
		}
		if (!is_enough(best, n))
			return depth && depth >= samples[from].maker_depth ? told : (struct told){};
		from = best_from;
		to = from + best;
		told = (struct told){samples[from].functions, depth + 1};
	}
}

static uint32_t group_of(const struct sample *sample, enum level level)
{
	return level == LEVEL_SHAPE ? sample->shape : sample->rough;
}

static const struct census_shape *shape_of(const struct census *census, uint32_t group,
					   enum level level)
{
	return &(level == LEVEL_SHAPE ? census->shapes : census->rough)[group];
}

static void sort_by(struct sample *samples, size_t n, enum level level)
{
	qsort(samples, n, sizeof(*samples), level == LEVEL_SHAPE ? by_shape : by_rough);
}

/* Of n sorted samples, the end of the group that begins at from. */
static size_t group_end(const struct sample *samples, size_t from, size_t n, enum level level)
{
	size_t end = from + 1;

	while (end < n && group_of(&samples[end], level) == group_of(&samples[from], level))
		end++;
	return end;
}

/* Sorts the samples, and tells each group. */
static void tell_groups(const struct finding *f, struct sample *samples, size_t n, enum level level,
			struct told *ret)
{
	sort_by(samples, n, level);
	for (size_t i = 0, next; i < n; i = next) {
		uint32_t group = group_of(&samples[i], level);

		next = group_end(samples, i, n, level);
		if (!f->closed[level][group])
			ret[group] = common_beginning(&samples[i], next - i);
	}
}

/* What is told of shapes, and of rough shapes. */
struct lesson {
	struct told *shapes, *rough; /* owned */
};

static void clear_lesson(struct lesson *lesson)
{
	free(lesson->shapes);
	free(lesson->rough);
}

/* Learns from the samples, whose order changes. 0 or -ENOMEM. */
static int learn(const struct finding *f, struct sample *samples, size_t n, struct lesson *ret)
{
	const struct census *census = f->census;

	ret->shapes = calloc((size_t)census->n_shapes + 1, sizeof(*ret->shapes));
	ret->rough = calloc((size_t)census->n_rough + 1, sizeof(*ret->rough));
	if (!ret->shapes || !ret->rough)
		return -ENOMEM;
	tell_groups(f, samples, n, LEVEL_SHAPE, ret->shapes);
	tell_groups(f, samples, n, LEVEL_ROUGH, ret->rough);
	return 0;
}

static const struct told *told_of(const struct lesson *lesson, uint32_t shape, uint32_t rough)
{
	return lesson->shapes[shape].depth ? &lesson->shapes[shape] : &lesson->rough[rough];
}

/* --- how right it is --- */

static bool is_right(const struct told *told, const struct sample *sample)
{
	return sample->n_functions >= told->depth &&
	       !memcmp(sample->functions, told->functions, told->depth * sizeof(*told->functions));
}

static int by_functions(const void *a, const void *b)
{
	return compare_functions(a, b);
}

/* Do the first n functions of both agree? */
static bool begin_alike(const struct sample *x, const struct sample *y, size_t n)
{
	return x->n_functions >= n && y->n_functions >= n &&
	       !memcmp(x->functions, y->functions, n * sizeof(*x->functions));
}

/* Of sorted stacks that have more functions than depth: the end of those that share the next
 * function with the first one. */
static size_t next_function(const struct sample *stacks, size_t from, size_t to, size_t depth)
{
	size_t end = from + 1;

	while (end < to && stacks[end].functions[depth] == stacks[from].functions[depth])
		end++;
	return end;
}

/* A maker is a stack's innermost functions, as many as tell it from half of all stacks: a wrapper
 * of malloc that all use is nobody's mark, and neither are far callers. stacks: a sample of each
 * stack, sorted. */
static void find_maker_depths(struct sample *stacks, size_t n)
{
	size_t from = 0, to = n;

	/* the stacks in [from, to), more than half of them, share their first depth functions */
	for (size_t depth = 0; from < to; depth++) {
		size_t most_from = 0, most_to = 0;

		for (; from < to && stacks[from].n_functions == depth; from++)
			stacks[from].maker_depth = depth;
		for (size_t next; from < to; from = next) {
			next = next_function(stacks, from, to, depth);
			if (2 * (next - from) > n) {
				most_from = from;
				most_to = next;
			}
			for (size_t i = from; i < next; i++)
				stacks[i].maker_depth = depth + 1;
		}
		from = most_from;
		to = most_to;
	}
}

/* 0 or -ENOMEM. */
static int number_makers(struct finding *f)
{
	_cleanup_free_ struct sample *stacks = calloc(f->n_samples + 1, sizeof(*stacks));
	size_t n = 0, stack = 0;

	if (!stacks)
		return -ENOMEM;
	qsort(f->samples, f->n_samples, sizeof(*f->samples), by_functions);
	for (size_t i = 0; i < f->n_samples; i++)
		if (!n || compare_functions(&stacks[n - 1], &f->samples[i]))
			stacks[n++] = f->samples[i];
	find_maker_depths(stacks, n);
	for (size_t i = 0; i < f->n_samples; i++) {
		struct sample *sample = &f->samples[i];

		if (i && !compare_functions(&sample[-1], sample)) {
			sample->maker_depth = sample[-1].maker_depth;
		} else {
			sample->maker_depth = stacks[stack++].maker_depth;
			f->n_makers += !i || !begin_alike(&sample[-1], sample, sample->maker_depth);
		}
		sample->maker = (uint32_t)f->n_makers - 1;
	}
	return 0;
}

/* Samples of a maker: all, and those that others would have told wrongly. */
struct left_out {
	size_t all, mistaken;
};

static bool is_mistaken(const struct told *told, const struct sample *sample)
{
	size_t n = told->depth < sample->maker_depth ? told->depth : sample->maker_depth;

	return memcmp(sample->functions, told->functions, n * sizeof(*told->functions)) != 0;
}

/* Leaves out the makers of a group, one after the other, and tells each by the others. room: for n
 * samples. */
static void leave_out(const struct sample *samples, size_t n, struct sample *room,
		      struct left_out *makers)
{
	size_t left = MOST_LEFT_OUT;

	for (size_t i = 0, next; i < n && left--; i = next) {
		struct left_out *maker = &makers[samples[i].maker];
		struct told told;

		for (next = i + 1; next < n && samples[next].maker == samples[i].maker;)
			next++;
		memcpy(room, samples, i * sizeof(*room));
		memcpy(room + i, samples + next, (n - next) * sizeof(*room));
		told = common_beginning(room, n - (next - i));
		maker->all += next - i;
		if (told.depth && is_mistaken(&told, &samples[i]))
			maker->mistaken += next - i;
	}
}

/* Could a maker that was not seen pass for one that was? As often as those that were seen would if
 * each were not (the mean of Jeffreys' posterior, as above). samples: of one family. */
static bool would_mislead(const struct sample *samples, size_t n, const struct left_out *makers)
{
	double mistaken = 0, all = 0;

	for (size_t i = 0; i < n; i++) {
		const struct left_out *maker = &makers[samples[i].maker];

		if (!maker->all) /* beyond MOST_LEFT_OUT */
			continue;
		/* each sample carries its part of the maker */
		mistaken += (double)maker->mistaken / (double)maker->all / (double)maker->all;
		all += 1 / (double)maker->all;
	}
	return (mistaken + 0.5) / (all + 1) > MOST_MISTAKEN;
}

/* A group of samples, by the family of its shape. Shapes with the same mark, such as those of one
 * class's objects, are a family, and so are all others of a class of shapes. */
struct family_group {
	const struct census_shape *shape;
	uint32_t group;
	size_t from, to; /* samples */
};

static int compare_families(const void *a, const void *b)
{
	const struct census_shape *x = ((const struct family_group *)a)->shape;
	const struct census_shape *y = ((const struct family_group *)b)->shape;

	if (x->mark != y->mark)
		return x->mark < y->mark ? -1 : 1;
	return (x->shape_class > y->shape_class) - (x->shape_class < y->shape_class);
}

/* Room for close_families(). */
struct closing {
	struct sample *samples; /* of a family, or of a group but for one maker */
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
	closed = would_mislead(c->samples, n_samples, c->makers);
	for (size_t i = 0; i < n; i++)
		f->closed[level][groups[i].group] = closed;
}

static void close_level(struct finding *f, enum level level, struct closing *c)
{
	c->n_groups = 0;
	sort_by(f->samples, f->n_samples, level);
	for (size_t i = 0, next; i < f->n_samples; i = next) {
		uint32_t group = group_of(&f->samples[i], level);

		next = group_end(f->samples, i, f->n_samples, level);
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

/* Closes the families of shapes that would mislead. 0 or -ENOMEM. */
static int close_families(struct finding *f)
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

/* Tells one half of the samples by the other half. */
static int tell_half(const struct finding *f, bool second, struct origins *ret)
{
	_cleanup_free_ struct sample *others = calloc(f->n_samples + 1, sizeof(*others));
	_cleanup_(clear_lesson) struct lesson lesson = {};
	size_t n = 0;

	if (!others)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_samples; i++)
		if (f->samples[i].second != second)
			others[n++] = f->samples[i];
	if (learn(f, others, n, &lesson))
		return -ENOMEM;
	for (size_t i = 0; i < f->n_samples; i++) {
		const struct sample *sample = &f->samples[i];
		const struct told *told = told_of(&lesson, sample->shape, sample->rough);

		if (sample->second != second || !told->depth)
			continue;
		ret->told.blocks++;
		ret->told.bytes += f->known[sample->label].size;
		if (!is_right(told, sample))
			continue;
		ret->right.blocks++;
		ret->right.bytes += f->known[sample->label].size;
	}
	return 0;
}

static int measure(const struct finding *f, struct origins *ret)
{
	int err = tell_half(f, false, ret);

	if (!err)
		err = tell_half(f, true, ret);
	ret->misleading = (double)ret->right.blocks < ORIGINS_SHARE * (double)ret->told.blocks ||
			  (double)ret->right.bytes < ORIGINS_SHARE * (double)ret->told.bytes;
	return err;
}

/* --- rows --- */

/* A shape that is told. */
struct counted {
	struct told told;
	const struct census_shape *shape;
};

static int compare_told(const struct told *x, const struct told *y)
{
	size_t n = x->depth < y->depth ? x->depth : y->depth;

	for (size_t i = 0; i < n; i++)
		if (x->functions[i] != y->functions[i])
			return x->functions[i] < y->functions[i] ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

static int by_told(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;

	return compare_told(&x->told, &y->told);
}

static int by_bytes(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	if (x->count.bytes != y->count.bytes)
		return x->count.bytes < y->count.bytes ? 1 : -1;
	return strcmp(x->functions[0], y->functions[0]);
}

static int start_row(const struct finding *f, const struct told *told, struct origin *row)
{
	row->functions = calloc(told->depth, sizeof(*row->functions));
	if (!row->functions)
		return -ENOMEM;
	row->n_functions = told->depth;
	for (size_t i = 0; i < told->depth; i++)
		row->functions[i] = f->names[told->functions[i]];
	return 0;
}

static void take_away(uint64_t *from, uint64_t n)
{
	*from -= n < *from ? n : *from;
}

static int make_rows(const struct finding *f, struct counted *counted, size_t n,
		     struct origins *ret)
{
	ret->rows = calloc(n + 1, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	qsort(counted, n, sizeof(*counted), by_told);
	for (size_t i = 0; i < n; i++) {
		const struct census_shape *shape = counted[i].shape;
		struct origin *row;

		if (!i || compare_told(&counted[i - 1].told, &counted[i].told)) {
			if (start_row(f, &counted[i].told, &ret->rows[ret->n_rows]))
				return -ENOMEM;
			ret->n_rows++;
		}
		row = &ret->rows[ret->n_rows - 1];
		row->count.blocks += shape->count.blocks;
		row->count.bytes += shape->count.bytes;
		row->pinned += shape->pinned;
		take_away(&ret->unknown.blocks, shape->count.blocks);
		take_away(&ret->unknown.bytes, shape->count.bytes);
	}
	qsort(ret->rows, ret->n_rows, sizeof(*ret->rows), by_bytes);
	return 0;
}

static int tell_all(struct finding *f, struct origins *ret)
{
	const struct census *census = f->census;
	size_t room = (size_t)(census->n_shapes + census->n_rough) + 1, n = 0;
	_cleanup_free_ struct counted *counted = calloc(room, sizeof(*counted));
	_cleanup_(clear_lesson) struct lesson lesson = {};

	if (!counted || learn(f, f->samples, f->n_samples, &lesson))
		return -ENOMEM;
	for (uint32_t i = 0; i < census->n_shapes; i++) {
		const struct told *told = told_of(&lesson, i, census->shapes[i].rough);

		if (told->depth && census->shapes[i].count.blocks)
			counted[n++] = (struct counted){*told, &census->shapes[i]};
	}
	for (uint32_t i = 0; i < census->n_rough; i++)
		if (lesson.rough[i].depth && census->rough[i].count.blocks)
			counted[n++] = (struct counted){lesson.rough[i], &census->rough[i]};
	return make_rows(f, counted, n, ret);
}

/* --- interface --- */

static void clear_finding(struct finding *f)
{
	free(f->names);
	table__clear(&f->table);
	free(f->numbers);
	free(f->first);
	free(f->samples);
	for (int level = 0; level < LEVELS; level++)
		free(f->closed[level]);
}

static struct heap_count count_in_use(const struct census *census)
{
	struct heap_count sum = {};

	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		for (size_t k = 0; k < HEAP_SIZES; k++) {
			sum.blocks += census->sizes[i][k].in_use.blocks;
			sum.bytes += census->sizes[i][k].in_use.bytes;
		}
	return sum;
}

int origins__find(const struct profile *profile, const struct known_block *known,
		  const struct census *census, struct origins *ret)
{
	_cleanup_(clear_finding) struct finding f = {
		.profile = profile, .known = known, .census = census};
	int err;

	*ret = (struct origins){.unknown = count_in_use(census)};
	if (!profile)
		return 0;
	err = add_sites(&f);
	if (!err)
		err = add_samples(&f);
	ret->known = f.n_samples;
	if (!err)
		err = number_makers(&f);
	if (!err)
		err = close_families(&f);
	if (!err)
		err = measure(&f, ret);
	if (!err && !ret->misleading)
		err = tell_all(&f, ret);
	if (err)
		origins__clear(ret);
	return err;
}

void origins__clear(struct origins *origins)
{
	for (size_t i = 0; i < origins->n_rows; i++)
		free(origins->rows[i].functions);
	free(origins->rows);
	*origins = (struct origins){};
}
