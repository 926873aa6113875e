/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a view of a profile, in which stacks are as the user wants to see them. Stacks may be
 * weighed by another figure than live bytes, and each stack may get a root frame that names its
 * thread, process or module. A view is a profile itself. It is for encoders that show stacks by
 * weight: collapsed files, flame graphs, trees (encode/encode.h). */
#ifndef MEMTRACE_PROFILE_VIEW_H
#define MEMTRACE_PROFILE_VIEW_H

#include "base/intern.h"
#include "profile/modules.h"
#include "profile/profile.h"

/* The frame at the root of each stack. */
enum profile_root {
	ROOT_NONE,
	ROOT_THREAD,  /* who allocated: "main", or "worker-#" for all threads with a number in place
		       * of '#' */
	ROOT_PROCESS, /* "comm (pid)" */
	/* the mapped file of the first function that is not the allocator's, or the component */
	ROOT_MODULE,
	PROFILE_ROOTS
};

/* The names that options use: "live", ... for weights, and "", "thread", ... for roots. */
const char *profile_weight__name(enum profile_weight weight);
const char *profile_root__name(enum profile_root root);

/* All zero: the profile is not changed. */
struct view_options {
	enum profile_weight weight;
	enum profile_root root;
	const struct modules *modules; /* for ROOT_MODULE: the root is a component of these; NULL:
				        * the root is a mapped file */
};

/* Do the options change anything? */
static inline bool view_options__any(const struct view_options *options)
{
	return options->weight != WEIGHT_LIVE || options->root != ROOT_NONE;
}

/* view_options__contradiction() tells why no profile at all can be shown with these options.
 * view_options__refusal() also tells why this profile cannot be shown with them, mostly because the
 * profile lacks the figures. Both return text for people; NULL: the options can be used. */
const char *view_options__contradiction(const struct view_options *options);
const char *view_options__refusal(const struct view_options *options,
				  const struct profile *profile);

/* Drops from the options what the profile refuses: the weight (stacks are then weighed by live
 * bytes), the root, or both. Returns the refusal; NULL: nothing was dropped. */
const char *view_options__relax(struct view_options *options, const struct profile *profile);

struct profile_view {
	struct profile profile; /* the original profile must outlive the view, because the original
				 * owns all but the members below. Never pass this copy to
				 * profile__free() or to functions that build a profile */
	struct profile_site *sites; /* private from here on: owned by the view */
	struct profile_location *locations;
	struct profile_frame *frames;
	uint32_t *stacks;
	struct intern names;
	char *text;
};

/* Makes the view of a sorted, symbolized profile for which view_options__refusal() is NULL. The
 * view's sites are in no order, and may have a stack more than once. 0; -ENOMEM; -EFBIG: the view
 * is by thread, and its stacks come to more than PROFILE_MAX_WRITTEN_FRAMES or
 * PROFILE_MAX_WRITTEN_BYTES. Clear the view in all cases. */
int profile_view__init(struct profile_view *view, const struct profile *profile,
		       const struct view_options *options);
void profile_view__clear(struct profile_view *view);

#endif
