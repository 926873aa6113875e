/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a profile of stacks that no run has recorded: paths of pointers, or names of functions
 * without addresses. Then these stacks can be drawn, and written in every format of profiles. */
#ifndef MEMTRACE_PROFILE_DRAWING_H
#define MEMTRACE_PROFILE_DRAWING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/intern.h"
#include "profile/profile.h"

#define DRAWING_MAX_FRAMES 128 /* per stack; further frames, towards the leaf, are left out */

/* A profile that is being drawn. Frames have names in place of addresses. All members are private
 * to drawing.c, except `profile` and `thread`: these two are arguments of
 * profile__add_live...(). */
struct drawing {
	struct profile *profile;
	size_t thread;
	struct intern names;
	uint64_t frames[DRAWING_MAX_FRAMES]; /* frames of the present stack, from the root on */
	size_t n;
};

/* Begins a profile without stacks. comm: the profile's. 0 or -ENOMEM. Call drawing__end() in both
 * cases. */
int drawing__begin(struct drawing *drawing, enum profile_drawn what, pid_t pid, const char *comm);

/* Adds the next frame of the present stack, which begins at its root. 0 or negative errno. */
int drawing__add_frame(struct drawing *drawing, const char *name);

/* Makes a stack of the frames that were added: the last one is the leaf. *ret_site: index for
 * profile__add_live...(). 0 or -ENOMEM. */
int drawing__add_stack(struct drawing *drawing, size_t *ret_site);

/* Like drawing__add_stack(), and gives the stack its live memory: `blocks` blocks, with `bytes`
 * bytes together. */
int drawing__add_blocks(struct drawing *drawing, uint64_t blocks, uint64_t bytes);

/* Sorts the profile and names its frames. The caller owns *ret. 0 or -ENOMEM. */
int drawing__finish(struct drawing *drawing, struct profile **ret);
void drawing__end(struct drawing *drawing);

#endif
