// SPDX-License-Identifier: BSD-2-Clause
/* A function's name: is it the allocator's? */
#include "fuzz.h"

#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = fuzz_string(data, size), *variant;
	bool answer = profile__is_allocator_frame(name);

	/* What a compiler adds for a part of a function changes nothing. */
	if (strlen(name) < 400 && !strpbrk(name, "<>. [")) {
		require(asprintf(&variant, "%s.cold", name) > 0);
		require(profile__is_allocator_frame(variant) == answer);
		free(variant);
		require(asprintf(&variant, "%s.part.0.isra.1", name) > 0);
		require(profile__is_allocator_frame(variant) == answer);
		free(variant);
		require(asprintf(&variant, "%s [clone .constprop.0]", name) > 0);
		require(profile__is_allocator_frame(variant) == answer);
		free(variant);
	}
	free(name);
	return 0;
}
