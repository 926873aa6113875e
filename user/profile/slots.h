/* SPDX-License-Identifier: BSD-2-Clause */
/* All frames of all locations in a row: what is to be known of a frame is found out once for each,
 * not for each stack that it is in. */
#ifndef MEMTRACE_PROFILE_SLOTS_H
#define MEMTRACE_PROFILE_SLOTS_H

#include "profile/own_frame.h"
#include "profile/profile.h"

/* A place for each frame, and for a location of none, too. */
struct frame_slots {
	size_t *first;		  /* of each location's, and at last their number */
	enum frame_owner *owners; /* by slot; of a location of no frames: FRAME_OF_RUNTIME */
};

/* 0 or -ENOMEM; to be cleared in both cases. */
int frame_slots__init(struct frame_slots *slots, const struct profile *profile);
void frame_slots__clear(struct frame_slots *slots);

#endif
