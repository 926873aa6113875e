// SPDX-License-Identifier: BSD-2-Clause
#include "profile/slots.h"

#include <errno.h>
#include <stdlib.h>

int frame_slots__init(struct frame_slots *slots, const struct profile *profile)
{
	size_t n = 0;

	*slots = (struct frame_slots){
		.first = calloc(profile->n_locations + 1, sizeof(*slots->first))};
	if (!slots->first)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_locations; i++) {
		slots->first[i] = n;
		n += profile->locations[i].n_frames ? profile->locations[i].n_frames : 1;
	}
	slots->first[profile->n_locations] = n;
	slots->owners = calloc(n + 1, sizeof(*slots->owners));
	if (!slots->owners)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];

		slots->owners[slots->first[i]] = FRAME_OF_RUNTIME;
		for (size_t k = 0; k < location->n_frames; k++)
			slots->owners[slots->first[i] + k] =
				profile__frame_owner(profile, location, location->frames[k].name,
						     location->frames[k].file);
	}
	return 0;
}

void frame_slots__clear(struct frame_slots *slots)
{
	free(slots->first);
	free(slots->owners);
}
