/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile as somebody wants to see its stacks: weighed by something else than live bytes, and
 * below a frame that says whose they are. A view is a profile itself, for what shows stacks by
 * weight: collapsed files, flame graphs, trees (encode/encode.h). */
#ifndef MEMTRACE_PROFILE_VIEW_H
#define MEMTRACE_PROFILE_VIEW_H

#include "base/intern.h"
#include "profile/modules.h"
#include "profile/profile.h"

/* What stands at the root of each stack. */
enum profile_root {
	ROOT_NONE,
	ROOT_THREAD,  /* who allocated: "main", "worker-#" (all threads that have a number there) */
	ROOT_PROCESS, /* "comm (pid)" */
	/* the mapped file of the first function that is not the allocator's, or the component */
	ROOT_MODULE,
	PROFILE_ROOTS
};

/* "live", ...; "", "thread", ...: what options call them. */
const char *profile_weight__name(enum profile_weight weight);
const char *profile_root__name(enum profile_root root);

/* Zeroed: the profile as it is. */
struct view_options {
	enum profile_weight weight;
	enum profile_root root;
	const struct modules *modules; /* whose components ROOT_MODULE tells; NULL: files */
};

/* Does it show anything but the profile as it is? */
static inline bool view_options__any(const struct view_options *options)
{
	return options->weight != WEIGHT_LIVE || options->root != ROOT_NONE;
}

/* Why no profile at all can be seen so, or (the second) why this one cannot: what does not say what
 * is asked for. In words for people; NULL: it can. */
const char *view_options__contradiction(const struct view_options *options);
const char *view_options__refusal(const struct view_options *options,
				  const struct profile *profile);

struct profile_view {
	struct profile profile; /* what is not private below is the original's, which must outlive
				 * it; never given to profile__free() or anything that builds */
	struct profile_site *sites; /* private from here on: what is its own */
	struct profile_location *locations;
	struct profile_frame *frames;
	uint32_t *stacks;
	struct intern names;
	char *text;
};

/* The view of a sorted, symbolized profile that does not refuse it. Its sites are in no order, and
 * a stack may be there more than once. 0; -ENOMEM; -EFBIG: by thread its stacks come to more than
 * PROFILE_MAX_WRITTEN_FRAMES or _BYTES. To be cleared in all cases. */
int profile_view__init(struct profile_view *view, const struct profile *profile,
		       const struct view_options *options);
void profile_view__clear(struct profile_view *view);

#endif
