/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers that the tests of all decoders share. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_DECODE_FIXTURE_H
#define MEMTRACE_TESTS_DECODE_FIXTURE_H

#include <math.h>
#include <stdio.h>

#include "decode/decode.h"
#include "decode/internal.h"
#include "tests/unit/encode/fixture.h"

/* Decodes len bytes, which must be a profile. */
static inline struct profile *decoded_bytes(const void *bytes, size_t len)
{
	struct profile *profile = NULL;
	struct error err = {};

	if (decode_bytes("FILE", bytes, len, &profile, &err))
		fail_msg("%s", err.text);
	return profile;
}

static inline struct profile *decoded(const char *text)
{
	return decoded_bytes(text, strlen(text));
}

/* Asserts that the bytes are refused within these limits, and that the error message is `text`. */
static inline void assert_refused_within(const struct decode_limits *limits, const void *bytes,
					 size_t len, const char *text)
{
	struct profile *profile = NULL;
	struct error err = {};

	if (decode_within(limits, "FILE", bytes, len, &profile, &err) >= 0) {
		profile__free(profile);
		fail_msg("is read, instead of: %s", text);
	}
	assert_null(profile);
	assert_string_equal(err.text, text);
}

static inline void assert_refused_bytes(const void *bytes, size_t len, const char *text)
{
	assert_refused_within(&decode_limits, bytes, len, text);
}

/* The default limits, but with another value of one limit. */
#define LIMITS(member, value)                                                                      \
	({                                                                                         \
		struct decode_limits limits_ = decode_limits;                                      \
		limits_.member = (value);                                                          \
		limits_;                                                                           \
	})

/* Asserts that the bytes are read with the limit `member` at n, and refused at n - 1. */
#define assert_limit(member, n, bytes, len, why)                                                   \
	do {                                                                                       \
		struct decode_limits enough_ = LIMITS(member, n), less_ = LIMITS(member, (n)-1);   \
		struct profile *profile_ = NULL;                                                   \
		struct error err_ = {};                                                            \
		if (decode_within(&enough_, "FILE", bytes, len, &profile_, &err_))                 \
			fail_msg("%s", err_.text);                                                 \
		profile__free(profile_);                                                           \
		assert_refused_within(&less_, bytes, len, why);                                    \
	} while (0)

static inline void assert_refused(const char *bytes, const char *text)
{
	assert_refused_bytes(bytes, strlen(bytes), text);
}

/* Decodes any bytes, in a buffer of exactly their size. An error must name the file. Returns true
 * if the bytes are a profile. */
static inline bool survives(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct profile *profile = NULL;
	struct error err = {};
	int rc;

	memcpy(copy, bytes, len);
	rc = decode_bytes("FILE", copy, len, &profile, &err);
	free(copy);
	assert_true(rc ? rc < 0 && !profile && !strncmp(err.text, "FILE: ", 6)
		       : profile && !err.code);
	profile__free(profile);
	return !rc;
}

/* Decodes every prefix, and n copies in which one byte is changed. The changes are the same in each
 * run. */
static inline void survives_damage(const uint8_t *bytes, size_t len, int n)
{
	uint8_t *copy = malloc(len);
	uint32_t random = 1;

	for (size_t i = 0; i < len; i++)
		survives(bytes, i);
	for (int i = 0; i < n; i++) {
		size_t at;

		memcpy(copy, bytes, len);
		random = random * 1664525 + 1013904223;
		at = (random >> 8) % len;
		random = random * 1664525 + 1013904223;
		copy[at] = (uint8_t)(random >> 24);
		survives(copy, len);
	}
	free(copy);
}

static inline void assert_near(double got, double wanted, double relative)
{
	if (!(fabs(got - wanted) <= relative * fabs(wanted)))
		fail_msg("%.9g is not %.9g", got, wanted);
}

/* Writes the stack of a site into buf: "leaf < caller < ...". */
static inline const char *story(const struct profile *profile, const struct profile_site *site,
				char *buf, size_t size)
{
	buf[0] = '\0';
	for (uint32_t i = 0; i < site->n_locations; i++) {
		const struct profile_location *location = profile__location(profile, site, i);

		for (size_t k = 0; k < location->n_frames; k++)
			snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", *buf ? " < " : "",
				 location->frames[k].name);
	}
	return buf;
}

/* Asserts that site i has these bytes and objects, and that story() of the site equals the text
 * `reads`. */
static inline void assert_site(const struct profile *profile, size_t i, double bytes,
			       double objects, const char *reads)
{
	char buf[4096];

	assert_true(i < profile->n_sites);
	assert_near(profile->sites[i].live.bytes, bytes, 1e-6);
	assert_near(profile->sites[i].live.objects, objects, 1e-6);
	assert_string_equal(story(profile, &profile->sites[i], buf, sizeof(buf)), reads);
}

#endif
