// SPDX-License-Identifier: BSD-2-Clause
/* A short pprof file must not cost the decoder much memory or time. Numbers that no machine has are
 * refused or cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>

#include "tests/unit/decode/fixture.h"
#include "tests/unit/decode/pprof_fixture.h"

/* 300 MiB of zeros, packed into a little more than 1 MiB, are refused. */
static void bombs_are_refused(void **state)
{
	size_t room = 1 << 21, chunk = 1 << 20;
	uint8_t *bytes = malloc(room), *zeros = calloc(1, chunk);
	z_stream zip = {};

	(void)state;
	assert_int_equal(deflateInit2(&zip, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	zip.next_out = bytes;
	zip.avail_out = (uInt)room;
	zip.next_in = zeros;
	for (int i = 0; i < 300; i++) {
		zip.next_in = zeros;
		zip.avail_in = (uInt)chunk;
		assert_int_equal(deflate(&zip, i == 299 ? Z_FINISH : Z_NO_FLUSH),
				 i == 299 ? Z_STREAM_END : Z_OK);
	}
	assert_refused_bytes(bytes, zip.total_out, "FILE: more than 256 MiB when unpacked");
	deflateEnd(&zip);
	free(bytes);
	free(zeros);
}

/* The beginning of a profile: TYPES, STRINGS, and then one more string, of len times 'n'. */
static struct text with_long_string(size_t len)
{
	const uint8_t head[] = {0x32, (uint8_t)(0x80 | len), (uint8_t)(0x80 | len >> 7),
				(uint8_t)(len >> 14)};
	struct text text = {};
	char *name = malloc(len);

	memset(name, 'n', len);
	text_write(&text, TYPES STRINGS, sizeof(TYPES STRINGS) - 1);
	text_write(&text, head, sizeof(head));
	text_write(&text, name, len); /* the name is string number 13 */
	free(name);
	return text;
}

/* Appends location i (i < 2^14), which has these fields, and a sample of this location. */
static void put_place(struct text *text, unsigned i, const char *fields, size_t len)
{
	const uint8_t location[] = {0x22, (uint8_t)(3 + len), 0x08, (uint8_t)(0x80 | i),
				    (uint8_t)(i >> 7)};
	const uint8_t sample[] = {0x12, 0x08, 0x0a, 0x02, (uint8_t)(0x80 | i), (uint8_t)(i >> 7),
				  0x12, 0x02, 0x01, 0x01};

	text_write(text, location, sizeof(location));
	text_write(text, fields, len);
	text_write(text, sample, sizeof(sample));
}

static const char too_much_memory[] = "names and tables take more memory than any profile does";

/* Asserts that the file is refused if the decoder may use `bytes` of memory, and read if it may use
 * four times as much. */
static void assert_takes_too_much(const struct text *text, uint64_t bytes)
{
	const struct decode_limits limits = LIMITS(bytes, bytes), more = LIMITS(bytes, 4 * bytes);
	struct profile *profile = NULL;
	struct error err = {};

	assert_int_equal(decode_within(&limits, "FILE", text->bytes, text->len, &profile, &err),
			 -EFBIG);
	if (!strstr(err.text, too_much_memory))
		fail_msg("%s", err.text);
	assert_int_equal(decode_within(&more, "FILE", text->bytes, text->len, &profile, &err), 0);
	/* the decoder counts at least the memory that it uses */
	assert_true(profile__bytes(profile) > bytes / 4);
	profile__free(profile);
}

/* Many locations share one long name. The limit stops the decoder before it copies all names. */
static void names_are_bounded(void **state)
{
	struct text text = with_long_string(65536);

	(void)state;
	text_write(&text, "\x2a\x06\x08\x01\x10\x0d\x20\x0d", 8); /* function 1: name and file */
	for (unsigned i = 1; i <= 1000; i++)
		put_place(&text, i, "\x22\x02\x08\x01", 4);
	assert_takes_too_much(&text, 6 << 20); /* 1000 names and 1000 file names of 4096 bytes */
	free(text.bytes);
}

/* The same limit stops names that are made of the path of a mapping. */
static void names_by_offset_are_bounded(void **state)
{
	struct text text = with_long_string(65536);

	(void)state;
	text_write(&text, "\x1a\x09\x08\x05\x10\x00\x18\x80\x40\x28\x0d",
		   11); /* mapping 5, up to 0x2000 */
	for (unsigned i = 1; i <= 1000; i++)
		put_place(&text, i, "\x10\x05", 2); /* without an address */
	assert_takes_too_much(&text, 3 << 20);
	for (unsigned i = 1; i <= 1000; i++) {
		const char fields[] = {0x10, 0x05, 0x18, (char)(0x80 | i), (char)(i >> 7)};

		put_place(&text, i + 1000, fields, sizeof(fields)); /* at the address i */
	}
	assert_takes_too_much(&text, 6 << 20);
	free(text.bytes);
}

/* The limit counts a frame's whole memory, not only its name of one letter. */
static void small_frames_are_counted(void **state)
{
	struct text text = with_long_string(1);
	struct decode_limits less;
	char lines[30 * 4], error[128];

	(void)state;
	text_write(&text, "\x2a\x06\x08\x01\x10\x0d\x20\x0d", 8);
	for (size_t i = 0; i < sizeof(lines); i += 4)
		memcpy(lines + i, "\x22\x02\x08\x01", 4);
	for (unsigned i = 1; i <= 1000; i++)
		put_place(&text, i, lines, sizeof(lines));
	assert_takes_too_much(&text, 2 << 20); /* 30,000 frames of 24 + 32 + 32 bytes */
	less = LIMITS(items, 29999);
	snprintf(error, sizeof(error),
		 "FILE: byte %zu: more lines of locations than any profile has",
		 text.len - 10 - sizeof(lines) - 3); /* the last location, from its id on */
	assert_refused_within(&less, text.bytes, text.len, error);
	free(text.bytes);
}

/* The number of items of each kind is limited. */
static void numbers_of_items_are_bounded(void **state)
{
	struct text text = {};
	char error[128];
	size_t last = 0;

	(void)state;
	text_write(&text, TYPES GOOD, sizeof(TYPES GOOD) - 1);
	for (uint8_t i = 1; i <= 30; i++) { /* location 42, thread i */
		const uint8_t sample[] = {0x12, 0x0f, 0x0a, 0x01, 0x2a, 0x12, 0x02, 0x01, 0x01,
					  0x1a, 0x06, 0x08, 0x0d, 0x18, i,    0x20, 0x00};

		last = text.len;
		text_write(&text, sample, sizeof(sample));
	}
	text_write(&text, "\x32\x03tid", 5); /* string number 13 */
	snprintf(error, sizeof(error), "FILE: byte %zu: more threads than any profile has", last);
	assert_limit(items, 30, text.bytes, text.len, error);
	/* Now all samples are of thread 1. Each sample adds a share of a thread in a stack. */
	for (size_t at = last, i = 0; i < 30; i++, at -= 17)
		text.bytes[at + 14] = 1;
	snprintf(error, sizeof(error),
		 "FILE: byte %zu: more shares of threads in stacks than any profile has", last);
	assert_limit(items, 30, text.bytes, text.len, error);
	text.len = 0;
	text_write(&text, TYPES GOOD, sizeof(TYPES GOOD) - 1);
	for (uint8_t i = 0; i < 30; i++) {
		const uint8_t mapping[] = {0x1a, 0x08,
					   0x08, (uint8_t)(i + 10),
					   0x10, (uint8_t)(2 * i),
					   0x18, (uint8_t)(2 * i + 1),
					   0x28, 0x08};

		last = text.len;
		text_write(&text, mapping, sizeof(mapping));
	}
	snprintf(error, sizeof(error),
		 "FILE: byte %zu: more entries of a table than any profile has", last);
	assert_limit(items, 31, text.bytes, text.len, error);
	free(text.bytes);
}

/* The stacks 43 43 and 43 43 44 have five frames in all, at only two locations. Location 43 has two
 * functions, so the stacks have nine frames when they are written out. */
static void stacks_are_bounded(void **state)
{
	static const char file[] = TYPES GOOD "\x12\x08\x0a\x02\x2b\x2b\x12\x02\x01\x05"
					      "\x12\x09\x0a\x03\x2b\x2b\x2c\x12\x02\x01\x05";
	const size_t len = sizeof(file) - 1;

	(void)state;
	assert_limit(written_frames, 9, file, len,
		     "FILE: its stacks, written out, are longer than any profile's");
	assert_limit(frames, 5, file, len,
		     "FILE: byte 212: more frames in all stacks than any profile has");
	assert_limit(locations, 2, file, len,
		     "FILE: byte 212: more addresses than any profile has");
}

#define MANY "\xff\xff\xff\xff\xff\xff\xff\xff\x3f" /* 2^62 - 1 */

/* A sum of values must not exceed 2^62 bytes: no machine has more. */
static void values_are_bounded(void **state)
{
	static const char file[] = TYPES GOOD "\x12\x0f\x0a\x01\x2a\x12\x0a\x01" MANY
					      "\x12\x07\x0a\x01\x2b\x12\x02\x01\x01",
			  more[] = TYPES GOOD "\x12\x0f\x0a\x01\x2a\x12\x0a\x01" MANY
					      "\x12\x0f\x0a\x01\x2b\x12\x0a\x01" MANY;
	struct profile *profile = decoded_bytes(file, sizeof(file) - 1);

	(void)state;
	assert_near(profile__live(profile).bytes, 0x1p62, 1e-9);
	profile__free(profile);
	assert_refused_bytes(
		more, sizeof(more) - 1,
		"FILE: byte 219: up to here it counts more than 2^62 objects or bytes: no machine"
		" has them");
}

/* A profile of memtrace with two comments: `comment` and `label`. Its one sample has 5 bytes, and a
 * label with the name `label` and this number. */
static struct profile *with(const char *comment, const char *label, int64_t number)
{
	struct text text = {};
	uint8_t sample[32] = "\x12\x00\x0a\x01\x2a\x12\x02\x01\x05\x1a\x00\x08\x0f\x18",
		*end = sample + 14;
	uint8_t comments[] = {0x6a, 0x04, 13, 14, 15, 16};
	const char *texts[] = {"what: heap", "survival_age_s: 1 2 3 4 5", label, comment};

	for (uint64_t left = (uint64_t)number; left >= 0x80 || end == sample + 14 || left;
	     left >>= 7) {
		*end++ = (uint8_t)(left & 0x7f) | (left >= 0x80 ? 0x80 : 0);
		if (left < 0x80)
			break;
	}
	sample[10] = (uint8_t)(end - sample - 11);
	sample[1] = (uint8_t)(end - sample - 2);
	text_write(&text, TYPES GOOD, sizeof(TYPES GOOD) - 1);
	text_write(&text, sample, (size_t)(end - sample));
	for (int i = 0; i < 4; i++) {
		uint8_t head[] = {0x32, (uint8_t)strlen(texts[i])};

		text_write(&text, head, 2);
		text_write(&text, texts[i], strlen(texts[i]));
	}
	text_write(&text, comments, sizeof(comments));

	struct profile *profile = decoded_bytes(text.bytes, text.len);

	free(text.bytes);
	return profile;
}

static void what_cannot_be_is_cut(void **state)
{
	static const struct {
		int64_t ppm;
		double survival;
	} cases[] = {{500000, 0.5}, {3000000, 1}, {-1, 0}, {INT64_MIN, 0}};
	struct profile *profile;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		profile = with("", "survival_1s_ppm", cases[i].ppm);
		assert_near(profile->sites[0].survival[0], cases[i].survival, 1e-9);
		profile__free(profile);
	}
	profile = with("live_bytes_of_kind_stack: inf", "x", 1);
	assert_true(profile->regions.kind_bytes[REGION_OF_STACK] <= 0x1p62);
	profile__free(profile);
	profile = with("live_bytes_of_kind_stack: nan", "x", 1);
	assert_true(profile->regions.kind_bytes[REGION_OF_STACK] == 0);
	profile__free(profile);
	profile = with("live_bytes_of_kind_stack: inf", "live_bytes_of_kind_stack: 1", 1);
	assert_true(profile->regions.kind_bytes[REGION_OF_STACK] <= 0x1p62);
	profile__free(profile);
	/* JSON would have a key that its schema does not allow */
	profile = with("lost_9_lives: 3", "lost_lives_9: 2", 1);
	assert_int_equal(profile->lost.n, 1);
	assert_int_equal(profile__lost_count(profile, "lives_9"), 2);
	profile__free(profile);
	profile = with("windows_s: -1e300", "x", 1);
	assert_true(profile->windows.seconds == 0);
	profile__free(profile);
	profile = with("resident_change_bytes: -1e300", "x", 1);
	assert_true(optional__or_nan(profile->resident_change_bytes) == -0x1p62);
	profile__free(profile);
}

/* When pprof merges files, it puts the comments of all files one after another. For each kind, the
 * bytes in the comments are added up, like the bytes of samples. */
static void merged_kinds_add_up(void **state)
{
	struct profile *profile =
		with("live_bytes_of_kind_stack: 300", "live_bytes_of_kind_stack: 200", 1);

	(void)state;
	assert_true(profile->regions.kind_bytes[REGION_OF_STACK] == 500);
	profile__free(profile);
}

/* One location has 16384 lines of one function. The function has no name, but 1 MiB of unknown
 * fields. The function must be read only once: a read for each line would make 16 GiB. */
static void functions_are_read_once(void **state)
{
	const uint8_t function[] = {0x2a, 0x82, 0x80, 0x40, 0x08, 0x01}; /* id 1, and 1 MiB */
	const uint8_t location[] = {0x22, 0x82, 0x80, 0x04, 0x08, 0x01}; /* id 1, and 64 KiB */
	uint8_t *junk = malloc(1 << 20), *lines = malloc(1 << 16);
	struct text text = {};
	struct profile *profile;

	(void)state;
	for (size_t i = 0; i < 1 << 20; i += 2)
		memcpy(junk + i, "\x78\x00", 2); /* field 15 */
	for (size_t i = 0; i < 1 << 16; i += 4)
		memcpy(lines + i, "\x22\x02\x08\x01", 4);
	text_write(&text, TYPES STRINGS, sizeof(TYPES STRINGS) - 1);
	text_write(&text, function, sizeof(function));
	text_write(&text, junk, 1 << 20);
	text_write(&text, location, sizeof(location));
	text_write(&text, lines, 1 << 16);
	text_write(&text, "\x12\x07\x0a\x01\x01\x12\x02\x01\x05", 9);
	profile = decoded_bytes(text.bytes, text.len);
	assert_site(profile, 0, 5, 1, "0x0");
	profile__free(profile);
	free(text.bytes);
	free(junk);
	free(lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bombs_are_refused),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(names_by_offset_are_bounded),
		cmocka_unit_test(small_frames_are_counted),
		cmocka_unit_test(numbers_of_items_are_bounded),
		cmocka_unit_test(stacks_are_bounded),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(what_cannot_be_is_cut),
		cmocka_unit_test(merged_kinds_add_up),
		cmocka_unit_test(functions_are_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
