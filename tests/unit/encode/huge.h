/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile like that of a very large program. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_ENCODE_HUGE_H
#define MEMTRACE_TESTS_ENCODE_HUGE_H

#include <stdio.h>

#include "tests/unit/encode/fixture.h"

/* 100,000 stacks, 12 to 43 frames deep, with few callers near the root and many near the leaf. Each
 * fiftieth stack holds 1 to 8 MiB, too large a share to be left out. Others hold 64 bytes. */
static inline struct profile *huge_profile(void)
{
	struct profile *profile = new_profile(65536);
	uint64_t random = 88172645463325252;
	size_t site, thread;

	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	for (int i = 0; i < 100000; i++) {
		size_t n = 12 + (size_t)i % 32;
		uint64_t addrs[43];

		for (size_t k = 0; k < n; k++) {
			random ^= random << 13; /* xorshift64 */
			random ^= random >> 7;
			random ^= random << 17;
			addrs[n - 1 - k] = 0x10000 + 0x1000 * k + random % (k < 4 ? k + 1 : 40);
		}
		assert_int_equal(profile__add_site(profile, addrs, n, false, &site), 0);
		assert_int_equal(profile__add_live(profile, site, thread,
						   i % 50 ? 64 : (1 << 20) + random % (7 << 20)),
				 0);
	}
	end_profile(profile);
	for (size_t i = 0; i < profile->n_locations; i++) {
		char name[64];

		snprintf(name, sizeof(name), "library::component_%zu::function<int>", i);
		assert_int_equal(profile_location__set_name(&profile->locations[i], name), 0);
	}
	return profile;
}

#endif
