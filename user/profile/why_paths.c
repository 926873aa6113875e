// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "profile/profile.h"

DEFINE_CLEANUP(struct profile *, cleanup_profile, profile__free)

#define MAX_FRAMES 32 /* of a path: its root, its steps, and one for the steps that were cut */

/* Paths as stacks. Names stand for addresses. */
struct drawing {
	struct profile *profile;
	struct intern names;
	size_t thread;
	uint64_t frames[MAX_FRAMES]; /* of the path at hand, from the root on */
	size_t n;
};

static int add_frame(struct drawing *d, const char *name)
{
	uint32_t number;
	int rc = intern__add(&d->names, name, strlen(name) + 1, &number);

	if (rc < 0)
		return rc;
	if (d->n < MAX_FRAMES)
		d->frames[d->n++] = PROFILE_NO_ADDR + number;
	return 0;
}

static int add_step(struct drawing *d, const struct why_step *step)
{
	char name[WHY_STEP_TEXT];

	why_step__text(step, name);
	return add_frame(d, name);
}

/* Makes a stack of the frames at hand: the last one is the leaf. */
static int add_stack(struct drawing *d, size_t *ret_site)
{
	uint64_t leaf_first[MAX_FRAMES];
	int rc;

	for (size_t i = 0; i < d->n; i++)
		leaf_first[i] = d->frames[d->n - 1 - i];
	rc = profile__add_site(d->profile, leaf_first, d->n, false, ret_site);
	d->n = 0;
	return rc;
}

/* seen: the share of the held blocks whose paths were followed. */
static int draw_row(struct drawing *d, const struct why_row *row, double seen)
{
	_cleanup_free_ char *root = NULL;
	size_t site;
	int rc = 0;

	if (asprintf(&root, "%s %s", row->root_kind, row->root) < 0)
		return -ENOMEM;
	rc = add_frame(d, root);
	for (size_t i = 0; i < row->n_steps && !rc; i++) {
		if (row->cut && i == row->n_steps / 2)
			rc = add_frame(d, "...");
		if (!rc)
			rc = add_step(d, &row->steps[i]);
	}
	if (!rc)
		rc = add_stack(d, &site);
	for (uint64_t i = 0; i < row->blocks && !rc; i++)
		rc = profile__add_live_seen(d->profile, site, d->thread, row->bytes / row->blocks,
					    seen);
	return rc;
}

static int draw_leak(struct drawing *d, const struct why_leak *leak)
{
	const struct estimate all = {.samples = leak->blocks,
				     .sampled_bytes = leak->bytes,
				     .objects = (double)leak->blocks,
				     .bytes = (double)leak->bytes};
	size_t site;
	int rc = add_frame(d, "lost: no pointer is left");

	if (!rc)
		rc = add_step(d, &(struct why_step){.size = leak->size, .off = WHY_UNKNOWN});
	if (!rc)
		rc = add_stack(d, &site);
	return rc ? rc : profile__add_live_estimate(d->profile, site, d->thread, &all);
}

static int draw(struct drawing *d, const struct why_report *r)
{
	double seen = r->held_blocks ? (double)r->followed / (double)r->held_blocks : 1;
	struct profile *p = d->profile;
	int rc = profile__add_thread(p, (uint32_t)r->pid, "", &d->thread);

	p->pid = r->pid;
	memcpy(p->comm, r->comm, sizeof(p->comm));
	p->exe = strdup("");
	p->paths = p->leaf_holds = p->no_allocated = true;
	p->interval_bytes = 1;
	p->overhead_pct = -1;
	for (size_t i = 0; i < r->n_rows && !rc; i++)
		rc = draw_row(d, &r->rows[i], seen);
	for (size_t i = 0; i < r->n_leaks && !rc; i++)
		rc = draw_leak(d, &r->leaks[i]);
	for (int i = 0; i < WHY_N_LOSSES && !rc; i++)
		rc = profile__add_lost(p, why_loss__name(i), r->losses[i]);
	if (!rc)
		rc = profile__sort(p);
	for (size_t i = 0; i < p->n_locations && !rc; i++) {
		size_t len;

		rc = profile_location__set_name(
			&p->locations[i],
			intern__get(&d->names, (uint32_t)(p->locations[i].addr - PROFILE_NO_ADDR),
				    &len));
	}
	return rc || !p->exe ? -ENOMEM : 0;
}

int why_report__paths(const struct why_report *report, struct profile **ret)
{
	_cleanup_(cleanup_profile) struct profile *profile = profile__new();
	struct drawing d = {.profile = profile};
	int rc = profile ? draw(&d, report) : -ENOMEM;

	intern__clear(&d.names);
	if (rc)
		return rc;
	*ret = profile;
	profile = NULL;
	return 0;
}
