// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/origins_internal.h"

int functions__compare(const uint32_t *x, size_t n_x, const uint32_t *y, size_t n_y)
{
	size_t n = n_x < n_y ? n_x : n_y;

	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return (n_x > n_y) - (n_x < n_y);
}

int sample__compare(const struct sample *x, const struct sample *y)
{
	return functions__compare(x->functions, x->n_functions, y->functions, y->n_functions);
}

static int by_shape(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->shape != y->shape)
		return x->shape < y->shape ? -1 : 1;
	return sample__compare(x, y);
}

static int by_rough(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->rough != y->rough)
		return x->rough < y->rough ? -1 : 1;
	return sample__compare(x, y);
}

static bool is_enough(size_t k, size_t n)
{
	return ((double)k + 0.5) / ((double)n + 1) >= ORIGINS_SHARE;
}

struct told samples__tell(const struct sample *samples, size_t n)
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

uint32_t sample__group(const struct sample *sample, enum level level)
{
	return level == LEVEL_SHAPE ? sample->shape : sample->rough;
}

void samples__sort(struct sample *samples, size_t n, enum level level)
{
	qsort(samples, n, sizeof(*samples), level == LEVEL_SHAPE ? by_shape : by_rough);
}

size_t samples__group_end(const struct sample *samples, size_t from, size_t n, enum level level)
{
	size_t end = from + 1;

	while (end < n &&
	       sample__group(&samples[end], level) == sample__group(&samples[from], level))
		end++;
	return end;
}

/* Sorts the samples, and finds the makers of each group. own: as in struct lesson; NULL: for rough
 * shapes. */
static void tell_groups(const struct finding *f, struct sample *samples, size_t n, enum level level,
			struct told *ret, bool *own)
{
	samples__sort(samples, n, level);
	for (size_t i = 0, next; i < n; i = next) {
		uint32_t group = sample__group(&samples[i], level);

		next = samples__group_end(samples, i, n, level);
		if (!f->closed[level][group])
			ret[group] = samples__tell(&samples[i], next - i);
		if (own)
			own[group] = f->closed[level][group] ||
				     samples[i].maker != samples[next - 1].maker;
	}
}

int lesson__learn(const struct finding *f, struct sample *samples, size_t n, struct lesson *ret)
{
	const struct census *census = f->census;

	ret->shapes = calloc((size_t)census->n_shapes + 1, sizeof(*ret->shapes));
	ret->own = calloc((size_t)census->n_shapes + 1, sizeof(*ret->own));
	ret->rough = calloc((size_t)census->n_rough + 1, sizeof(*ret->rough));
	if (!ret->shapes || !ret->own || !ret->rough)
		return -ENOMEM;
	tell_groups(f, samples, n, LEVEL_SHAPE, ret->shapes, ret->own);
	tell_groups(f, samples, n, LEVEL_ROUGH, ret->rough, NULL);
	return 0;
}

void lesson__clear(struct lesson *lesson)
{
	free(lesson->shapes);
	free(lesson->own);
	free(lesson->rough);
}

const struct told *lesson__ask(const struct lesson *lesson, uint32_t shape, uint32_t rough)
{
	bool own = lesson->shapes[shape].depth || lesson->own[shape];

	return own ? &lesson->shapes[shape] : &lesson->rough[rough];
}
