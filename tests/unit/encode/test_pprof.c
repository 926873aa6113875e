// SPDX-License-Identifier: BSD-2-Clause
/* Compares the output byte by byte. tests/golden/check.sh checks that pprof reads the file.
 * tests/unit/decode checks that all of it can be read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <zlib.h>

#include "tests/unit/encode/fixture.h"

/* Returns the unpacked content of the encoder's gzip file. The caller calls free(). */
static uint8_t *unpacked(const struct profile *profile, size_t *ret_len)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	size_t room = 1 << 22;
	uint8_t *out = malloc(room);
	z_stream zip = {};

	assert_int_equal(encode_pprof(profile, &sink), 0);
	assert_memory_equal(text.bytes, "\x1f\x8b\x08\x00\0\0\0\0", 8); /* no time */
	assert_int_equal(inflateInit2(&zip, MAX_WBITS + 16), Z_OK);
	zip.next_in = (Bytef *)text.bytes;
	zip.avail_in = (uInt)text.len;
	zip.next_out = out;
	zip.avail_out = (uInt)room;
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	assert_int_equal(zip.avail_in, 0);
	*ret_len = room - zip.avail_out;
	inflateEnd(&zip);
	free(text.bytes);
	return out;
}

/* Are these n bytes in the file? */
static bool holds(const uint8_t *bytes, size_t len, const char *what, size_t n)
{
	return memmem(bytes, len, what, n) != NULL;
}

#define HOLDS(bytes, len, literal) holds(bytes, len, literal, sizeof(literal) - 1)

static struct profile *smallest(void)
{
	const uint64_t addrs[] = {0x1011, 0x1021};
	const struct profile_mapping mapping = {.start = 0x1000,
						.end = 0x2000,
						.off = 0x80,
						.perms = "r-xp",
						.path = (char *)"/p",
						.build_id = (char *)"ab"};
	struct profile *profile = new_profile(1);
	size_t site, thread;

	profile->pid = 7;
	strcpy(profile->comm, "c");
	profile->start_unix_ns = 300;
	assert_int_equal(profile__add_site(profile, addrs, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 3, "t", &thread), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(profile__add_live(profile, site, thread, 5), 0);
	profile->sites[site].complete = true;
	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
	end_profile(profile);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(
			profile_location__set_name(&profile->locations[i], i ? "f" : "malloc"), 0);
		profile->locations[i].reason = UNRESOLVED_NAMED;
	}
	return profile;
}

static void bytes_are_as_promised(void **state)
{
	static const char expected[] =
		/* sample_type: numbers in the table of strings */
		"\x0a\x04\x08\x01\x10\x02" /* alloc_objects/count */
		"\x0a\x04\x08\x03\x10\x04" /* alloc_space/bytes */
		"\x0a\x04\x08\x05\x10\x02" /* inuse_objects/count */
		"\x0a\x04\x08\x06\x10\x04" /* inuse_space/bytes */
		"\x0a\x04\x08\x07\x10\x02" /* inuse_samples/count */
		"\x0a\x04\x08\x08\x10\x04" /* inuse_sampled/bytes */
		"\x0a\x04\x08\x09\x10\x04" /* inuse_variance/bytes */
		"\x0a\x04\x08\x0a\x10\x04" /* growth_per_hour/bytes */
		/* sample: locations 1 and 2, values 2 10 2 10 2 10 0 0 */
		"\x12\x2e\x0a\x02\x01\x02\x12\x08\x02\x0a\x02\x0a\x02\x0a\x00\x00"
		"\x1a\x04\x08\x0b\x10\x0c"	   /* thread: t */
		"\x1a\x04\x08\x0d\x18\x03"	   /* tid: 3 */
		"\x1a\x04\x08\x0e\x18\x07"	   /* pid: 7 */
		"\x1a\x04\x08\x0f\x10\x10"	   /* comm: c */
		"\x1a\x06\x08\x04\x18\x05\x20\x04" /* bytes: 5 bytes */
		/* mapping 1: 0x1000 to 0x2000, off 0x80, /p, ab, has_functions */
		"\x1a\x11\x08\x01\x10\x80\x20\x18\x80\x40\x20\x80\x01\x28\x11\x30\x12\x38\x01"
		/* locations 1 (0x1010) and 2 (0x1020) in mapping 1, with functions 1 and 2 */
		"\x22\x0b\x08\x01\x10\x01\x18\x90\x20\x22\x02\x08\x01"
		"\x22\x0b\x08\x02\x10\x01\x18\xa0\x20\x22\x02\x08\x02"
		"\x2a\x04\x08\x01\x10\x13"			   /* function 1: malloc */
		"\x2a\x04\x08\x02\x10\x14"			   /* function 2: f */
		"\x38\x15"					   /* drop_frames */
		"\x48\xac\x02"					   /* time_nanos: 300 */
		"\x50\x80\xc8\xaf\xa0\x25"			   /* duration_nanos: 10^10 */
		"\x5a\x04\x08\x16\x10\x04"			   /* period_type: space/bytes */
		"\x60\x01"					   /* period */
		"\x68\x17\x68\x18\x68\x19\x68\x1a\x68\x1b\x68\x1c" /* comment */
		"\xc0\x3e\x01"					   /* 1000, our own: version 1 */
		"\x70\x06" /* default_sample_type: inuse_space */
		"\x32\x00"
		"\x32\x0d"
		"alloc_objects"
		"\x32\x05"
		"count"
		"\x32\x0b"
		"alloc_space"
		"\x32\x05"
		"bytes"
		"\x32\x0d"
		"inuse_objects"
		"\x32\x0b"
		"inuse_space"
		"\x32\x0d"
		"inuse_samples"
		"\x32\x0d"
		"inuse_sampled"
		"\x32\x0e"
		"inuse_variance"
		"\x32\x0f"
		"growth_per_hour"
		"\x32\x06"
		"thread"
		"\x32\x01"
		"t"
		"\x32\x03"
		"tid"
		"\x32\x03"
		"pid"
		"\x32\x04"
		"comm"
		"\x32\x01"
		"c"
		"\x32\x02"
		"/p"
		"\x32\x02"
		"ab"
		"\x32\x06"
		"malloc"
		"\x32\x01"
		"f"
		"\x32\x0a"
		"^(malloc)$"
		"\x32\x05"
		"space"
		"\x32\x0a"
		"what: heap"
		"\x32\x10"
		"mode: continuous"
		"\x32\x07"
		"comm: c"
		"\x32\x06"
		"pid: 7"
		"\x32\x0e"
		"alloc_calls: 2"
		"\x32\x0a"
		"samples: 2";
	struct profile *profile = smallest();
	uint8_t *bytes;
	size_t len;

	(void)state;
	bytes = unpacked(profile, &len);
	for (size_t i = 0; i < len && i < sizeof(expected) - 1; i++)
		if (bytes[i] != (uint8_t)expected[i])
			fail_msg("byte %zu is %02x, not %02x", i, bytes[i], (uint8_t)expected[i]);
	assert_int_equal(len, sizeof(expected) - 1);
	free(bytes);
	assert_reports_failures(encode_pprof, profile);
	profile__free(profile);
}

static void inlined_functions_come_innermost_first(void **state)
{
	struct profile *profile = new_profile(1);
	uint8_t *bytes;
	size_t len;

	(void)state;
	STACK(profile, 1, 8, 1, "malloc", "outer");
	add_inlined(profile, "outer", "inner");
	end_profile(profile);
	bytes = unpacked(profile, &len);
	/* lines of function and line: inner (b.h:3), then outer (a.c:7) */
	assert_true(HOLDS(bytes, len, "\x22\x04\x08\x02\x10\x03\x22\x04\x08\x03\x10\x07") ||
		    HOLDS(bytes, len, "\x22\x04\x08\x01\x10\x03\x22\x04\x08\x02\x10\x07"));
	assert_true(HOLDS(bytes, len,
			  "\x32\x03"
			  "b.h"));
	assert_true(HOLDS(bytes, len,
			  "\x32\x0b"
			  "dir \"1\"/a.c"));
	free(bytes);
	profile__free(profile);
}

static void names_cannot_break_it(void **state)
{
	struct profile *profile = new_profile(1);
	uint8_t *bytes;
	size_t len;

	(void)state;
	STACK(profile, 1, 8, 1, "my|all.oc[\xff]", "f\n\x1b[0m");
	end_profile(profile);
	bytes = unpacked(profile, &len);
	assert_true(HOLDS(bytes, len,
			  "\x32\x06"
			  "f??[0m"));
	/* escaped: the regular expression matches the name itself */
	assert_true(HOLDS(bytes, len, "^(my\\|all\\.oc\\[\\?\\])$"));
	free(bytes);
	profile__free(profile);
}

/* In stacks of faults every frame may matter, so no frame is left out. */
static void faults_drop_no_frames(void **state)
{
	struct profile *profile = new_profile(1);
	uint8_t *bytes;
	size_t len;

	(void)state;
	profile->what = PROFILE_FAULTS;
	profile->resident_change_bytes = (struct optional){};
	STACK(profile, 1, 4096, 1, "memset", "f");
	end_profile(profile);
	bytes = unpacked(profile, &len);
	assert_false(HOLDS(bytes, len, "^("));
	assert_true(HOLDS(bytes, len, "what: faults"));
	assert_false(HOLDS(bytes, len, "resident_change_bytes"));
	free(bytes);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_as_promised),
		cmocka_unit_test(inlined_functions_come_innermost_first),
		cmocka_unit_test(names_cannot_break_it),
		cmocka_unit_test(faults_drop_no_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
