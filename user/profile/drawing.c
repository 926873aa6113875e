// SPDX-License-Identifier: BSD-2-Clause
#include "profile/drawing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int drawing__begin(struct drawing *d, enum profile_drawn what, pid_t pid, const char *comm)
{
	struct profile *p = profile__new();

	*d = (struct drawing){.profile = p};
	if (!p)
		return -ENOMEM;
	p->pid = pid;
	snprintf(p->comm, sizeof(p->comm), "%s", comm);
	p->exe = strdup("");
	p->drawn = what;
	p->leaf_holds = p->no_allocated = true;
	p->interval_bytes = 1;
	return p->exe ? profile__add_thread(p, (uint32_t)pid, "", &d->thread) : -ENOMEM;
}

int drawing__add_frame(struct drawing *d, const char *name)
{
	uint32_t number;
	int rc = intern__add(&d->names, name, strlen(name) + 1, &number);

	if (rc < 0)
		return rc;
	if (d->n < DRAWING_MAX_FRAMES)
		d->frames[d->n++] = PROFILE_NO_ADDR + number;
	return 0;
}

int drawing__add_stack(struct drawing *d, size_t *ret_site)
{
	uint64_t leaf_first[DRAWING_MAX_FRAMES];
	int rc;

	for (size_t i = 0; i < d->n; i++)
		leaf_first[i] = d->frames[d->n - 1 - i];
	rc = profile__add_site(d->profile, leaf_first, d->n, false, ret_site);
	d->n = 0;
	return rc;
}

int drawing__add_blocks(struct drawing *d, uint64_t blocks, uint64_t bytes)
{
	const struct estimate all = {.samples = blocks,
				     .sampled_bytes = bytes,
				     .objects = (double)blocks,
				     .bytes = (double)bytes};
	size_t site;
	int rc = drawing__add_stack(d, &site);

	return rc ? rc : profile__add_live_estimate(d->profile, site, d->thread, &all);
}

int drawing__finish(struct drawing *d, struct profile **ret)
{
	struct profile *p = d->profile;
	int rc = profile__sort(p);

	for (size_t i = 0; i < p->n_locations && !rc; i++) {
		size_t len;

		rc = profile_location__set_name(
			&p->locations[i],
			intern__get(&d->names, (uint32_t)(p->locations[i].addr - PROFILE_NO_ADDR),
				    &len));
	}
	if (rc)
		return -ENOMEM;
	*ret = p;
	d->profile = NULL;
	return 0;
}

void drawing__end(struct drawing *d)
{
	intern__clear(&d->names);
	profile__free(d->profile);
	*d = (struct drawing){};
}
