// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "profile/drawing.h"
#include "profile/origins.h"

static int draw_row(struct drawing *d, const struct origin *row)
{
	/* a stack that is too long loses its outer functions, which tell less than the inner
	 * ones */
	size_t n = row->n_functions < DRAWING_MAX_FRAMES ? row->n_functions : DRAWING_MAX_FRAMES;
	int rc = 0;

	for (size_t i = n; i-- > 0 && !rc;)
		rc = drawing__add_frame(d, row->functions[i]);
	return rc ? rc : drawing__add_blocks(d, row->count.blocks, row->count.bytes);
}

static int draw(struct drawing *d, const struct origins *origins)
{
	int rc = 0;

	for (size_t i = 0; i < origins->n_rows && !rc; i++)
		rc = draw_row(d, &origins->rows[i]);
	if (!rc)
		rc = drawing__add_frame(d, "unknown");
	return rc ? rc : drawing__add_blocks(d, origins->unknown.blocks, origins->unknown.bytes);
}

/* --- the census --- */

/* Draws blocks below the frames of their allocator, place, class (NULL: none) and size. */
static int draw_blocks(struct drawing *d, size_t allocator, const char *place, const char *class,
		       size_t size_group, const struct heap_count *count)
{
	char size[64];
	int rc;

	if (!count->blocks)
		return 0;
	snprintf(size, sizeof(size), "up to %" PRIu64 " bytes", heap__group_max(size_group));
	rc = drawing__add_frame(d, heap_allocator__name((enum heap_allocator)allocator));
	if (!rc)
		rc = drawing__add_frame(d, place);
	if (!rc && class)
		rc = drawing__add_frame(d, class);
	if (!rc)
		rc = drawing__add_frame(d, size);
	return rc ? rc : drawing__add_blocks(d, count->blocks, count->bytes);
}

static void subtract(struct heap_count *from, const struct heap_count *count)
{
	from->blocks -= count->blocks < from->blocks ? count->blocks : from->blocks;
	from->bytes -= count->bytes < from->bytes ? count->bytes : from->bytes;
}

/* Draws the objects of a class, and subtracts them from the blocks without a class. */
static int draw_class(struct drawing *d, const struct census *census, const struct heap_type *class,
		      struct heap_count other[HEAP_ALLOCATORS][HEAP_SIZES])
{
	int rc = 0;

	for (size_t i = class->first; i < class->first + class->n && !rc; i++) {
		const struct census_type *t = &census->types[i];

		subtract(&other[t->allocator][t->size_group], &t->count);
		rc = draw_blocks(d, t->allocator, "in use", class->name, t->size_group, &t->count);
	}
	return rc;
}

static int draw_census(struct drawing *d, const struct heap_report *report)
{
	static struct heap_count other[HEAP_ALLOCATORS][HEAP_SIZES];
	const struct census *census = report->census;
	int rc = 0;

	for (size_t a = 0; a < HEAP_ALLOCATORS; a++)
		for (size_t i = 0; i < HEAP_SIZES; i++)
			other[a][i] = census->sizes[a][i].in_use;
	for (size_t i = 0; i < report->n_types && !rc; i++)
		rc = draw_class(d, census, &report->types[i], other);
	for (size_t a = 0; a < HEAP_ALLOCATORS; a++)
		for (size_t i = 0; i < HEAP_SIZES && !rc; i++) {
			const struct census_size *size = &census->sizes[a][i];

			rc = draw_blocks(d, a, "in use", NULL, i, &other[a][i]);
			if (!rc)
				rc = draw_blocks(d, a, "free, in caches", NULL, i, &size->cached);
			if (!rc)
				rc = draw_blocks(d, a, "free", NULL, i, &size->free);
		}
	return rc;
}

int heap_report__stacks(const struct heap_report *report, struct profile **ret)
{
	struct drawing d;
	int rc = drawing__begin(&d, report->origins ? DRAWN_ORIGINS : DRAWN_CENSUS, report->pid,
				report->comm);

	if (!rc)
		rc = report->origins ? draw(&d, report->origins) : draw_census(&d, report);
	if (!rc)
		rc = drawing__finish(&d, ret);
	drawing__end(&d);
	return rc ? -ENOMEM : 0;
}
