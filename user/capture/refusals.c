// SPDX-License-Identifier: BSD-2-Clause
/* Allocators and functions that get no probes, and why. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/vector.h"
#include "capture/internal.h"

const struct capture_refusal *capture__refusals(const struct capture *c, size_t *ret_n)
{
	*ret_n = c->n_refusals;
	return c->refusals;
}

const struct capture_refusal *refusals__find(const struct capture *c, const struct allocator *a,
					     const struct alloc_point *point, pid_t pid)
{
	for (size_t i = 0; i < c->n_refusals; i++) {
		const struct capture_refusal *r = &c->refusals[i];

		if (!r->gone_ns && (!r->pid || r->pid == pid) &&
		    file_id__equal(&r->file, &a->file) && r->family == a->family &&
		    (point ? r->vaddr == point->func.vaddr : r->whole))
			return r;
	}
	return NULL;
}

/* Returns the place of a new refusal. Of the refusals that no longer hold, only the latest
 * CAPTURE_GONE_REFUSALS are kept: a run that lasts for days meets new files again and again. NULL:
 * there is no memory. */
static struct capture_refusal *place_of_refusal(struct capture *c)
{
	struct capture_refusal *first = NULL;
	size_t n_gone = 0;

	for (size_t i = 0; i < c->n_refusals; i++) {
		struct capture_refusal *r = &c->refusals[i];

		n_gone += r->gone_ns != 0;
		if (r->gone_ns && (!first || r->gone_ns < first->gone_ns))
			first = r;
	}
	if (n_gone > CAPTURE_GONE_REFUSALS)
		return first;
	return VECTOR_ADD_ROOM(c->refusals, c->n_refusals) ? NULL : &c->refusals[c->n_refusals++];
}

/* Notes a refusal. If the list has this refusal as one that no longer holds, makes it hold again,
 * with the new text. This happens, for example, if a program is started again each day. Returns
 * NULL if there is no memory. */
static const struct capture_refusal *add_refusal(struct capture *c,
						 const struct capture_refusal *fresh)
{
	struct capture_refusal *place;

	for (size_t i = 0; i < c->n_refusals; i++) {
		struct capture_refusal *r = &c->refusals[i];

		if (r->gone_ns && r->pid == fresh->pid && file_id__equal(&r->file, &fresh->file) &&
		    r->family == fresh->family && r->vaddr == fresh->vaddr &&
		    r->whole == fresh->whole) {
			uint64_t number = r->number;

			*r = *fresh;
			r->number = number;
			return r;
		}
	}
	place = place_of_refusal(c);
	if (!place)
		return NULL;
	*place = *fresh;
	place->number = ++c->n_refused;
	return place;
}

static void end_refusal(struct capture_refusal *r)
{
	if (!r->gone_ns)
		r->gone_ns = clock__now_ns(CLOCK_MONOTONIC);
}

const struct capture_refusal *refusals__note(struct capture *c, const struct allocator *a,
					     const struct alloc_point *point, bool whole,
					     int reason)
{
	struct capture_refusal r = {.file = a->file,
				    .family = a->family,
				    .vaddr = point ? point->func.vaddr : 0,
				    .whole = whole};
	char place[96] = "one of its ret instructions";

	if (point)
		snprintf(place, sizeof(place), "its instruction \"%s\"", point->site.instruction);
	snprintf(r.text, sizeof(r.text),
		 "%.120s of %.256s cannot be probed, because the kernel takes no probe on %s "
		 "(error %d): %s",
		 point ? point->name : "a function that may throw", a->path, place, -reason,
		 whole ? "this allocator is not traced, because freed blocks would look live"
		       : alloc_point__loss(point));
	return add_refusal(c, &r);
}

int capture__refuse(struct capture *c, const struct allocator *a, pid_t pid, const char *text)
{
	struct capture_refusal r = {
		.pid = pid, .file = a->file, .family = a->family, .whole = true};

	if (refusals__find(c, a, NULL, pid))
		return 0;
	snprintf(r.text, sizeof(r.text), "%s", text);
	return add_refusal(c, &r) ? 0 : -ENOMEM;
}

void capture__allow(struct capture *c, const struct file_id *file, const char *family)
{
	for (size_t i = 0; i < c->n_refusals; i++) {
		struct capture_refusal *r = &c->refusals[i];

		if (!r->pid && r->whole && r->family == family && file_id__equal(&r->file, file))
			end_refusal(r);
	}
}

void refusals__end(struct capture *c, const struct file_id *file)
{
	for (size_t i = 0; i < c->n_refusals; i++)
		if (file_id__equal(&c->refusals[i].file, file))
			end_refusal(&c->refusals[i]);
}
