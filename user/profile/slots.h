/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers all frames of all locations, so that facts about a frame are computed once, not once for
 * each stack that has the frame. */
#ifndef MEMTRACE_PROFILE_SLOTS_H
#define MEMTRACE_PROFILE_SLOTS_H

#include "profile/own_frame.h"
#include "profile/profile.h"

/* One slot for each frame, and one for each location without frames. */
struct frame_slots {
	size_t *first;		  /* by location: its first slot; last entry: number of slots */
	enum frame_owner *owners; /* by slot; a location without frames: FRAME_OF_RUNTIME */
};

/* Makes the slots of a profile. 0 or -ENOMEM. Clear the slots in both cases. */
int frame_slots__init(struct frame_slots *slots, const struct profile *profile);
void frame_slots__clear(struct frame_slots *slots);

#endif
