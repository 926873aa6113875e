// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vector.h"
#include "profile/origins_internal.h"

/* --- the known blocks --- */

static int compare_known(const void *a, const void *b)
{
	const struct known_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

int origins__sampled(const struct profile *profile, struct known_block **ret, size_t *ret_n)
{
	struct known_block *known;
	size_t n = 0;

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
	*ret = known;
	*ret_n = n;
	return 0;
}

int origins__known(const struct profile *profile, struct known_block **ret, size_t *ret_n)
{
	struct known_block *known;
	size_t n, distinct = 0, some;
	int err = origins__sampled(profile, &known, &n);

	if (err)
		return err;
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

/* Adds the functions of a site's stack that led to the call of the allocator, but not the
 * allocator's own functions. */
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
			/* Neighbours in the heap are alike, so they are put into different
			 * halves. */
			.second = f->n_samples % 2,
		};
		f->n_samples++;
	}
	return 0;
}

/* --- how right it is --- */

static bool is_right(const struct told *told, const struct sample *sample)
{
	return sample->n_functions >= told->depth &&
	       !memcmp(sample->functions, told->functions, told->depth * sizeof(*told->functions));
}

/* Finds the makers of one half of the samples from the other half. Counts the samples that got a
 * maker, and the samples that got the right maker. */
static int tell_half(const struct finding *f, bool second, struct origins *ret)
{
	_cleanup_free_ struct sample *others = calloc(f->n_samples + 1, sizeof(*others));
	_cleanup_(lesson__clear) struct lesson lesson = {};
	size_t n = 0;

	if (!others)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_samples; i++)
		if (f->samples[i].second != second)
			others[n++] = f->samples[i];
	if (lesson__learn(f, others, n, &lesson))
		return -ENOMEM;
	for (size_t i = 0; i < f->n_samples; i++) {
		const struct sample *sample = &f->samples[i];
		const struct told *told = lesson__ask(&lesson, sample->shape, sample->rough);

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

/* A shape and its makers. */
struct counted {
	struct told told;
	const struct census_shape *shape;
};

static int compare_told(const struct told *x, const struct told *y)
{
	return functions__compare(x->functions, x->depth, y->functions, y->depth);
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
		if (shape->shape_class == SHAPE_PLAIN)
			row->plain_bytes += shape->count.bytes;
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
	_cleanup_(lesson__clear) struct lesson lesson = {};

	if (!counted || lesson__learn(f, f->samples, f->n_samples, &lesson))
		return -ENOMEM;
	for (uint32_t i = 0; i < census->n_shapes; i++) {
		const struct told *told = lesson__ask(&lesson, i, census->shapes[i].rough);

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
		err = finding__number_makers(&f);
	if (!err)
		err = finding__close_families(&f);
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
