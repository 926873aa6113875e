// SPDX-License-Identifier: BSD-2-Clause
/* The tests read the file back as jeprof does: line by line. Each pair of numbers is scaled by its
 * own average size, and entries of equal stacks are added up. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

#define R 524288

struct totals {
	double bytes, objects, alloc_bytes, alloc_objects;
};

/* jeprof's AdjustSamples, for one pair. */
static void adjust(double interval, double *objects, double *bytes)
{
	double ratio, factor;

	if (*objects == 0)
		return; /* unscaled, as in jeprof */
	ratio = *bytes / *objects / interval;
	assert_true(ratio > 0); /* else perl would divide by zero */
	factor = 1 / (1 - exp(-ratio));
	*objects *= factor;
	*bytes *= factor;
}

/* Sums the pairs of a thread ("*" or a tid) as a reader does. Only stacks whose '@' line is `stack`
 * count. If `stack` is NULL, all stacks count. */
static struct totals read_back(const char *heap, const char *stack, const char *thread)
{
	struct totals totals = {};
	char *copy = strdup(heap), *save = NULL, at[2048] = "";
	double interval = 0;

	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		double n1, s1, n2, s2;
		char who[32], end;

		if (!strcmp(line, "MAPPED_LIBRARIES:"))
			break;
		if (sscanf(line, "heap_v2/%lf", &interval) == 1)
			continue;
		if (*line == '@') {
			assert_true(!strncmp(line, "@ 0x", 4));
			snprintf(at, sizeof(at), "%s", line + 2);
		} else if (*at && sscanf(line, "  t%31[^:]: %lf: %lf [%lf: %lf%c", who, &n1, &s1,
					 &n2, &s2, &end) == 6) {
			assert_int_equal(end, ']');
			if (strcmp(who, thread) || (stack && strcmp(at, stack)))
				continue;
			adjust(interval, &n1, &s1);
			adjust(interval, &n2, &s2);
			totals.objects += n1;
			totals.bytes += s1;
			totals.alloc_objects += n2;
			totals.alloc_bytes += s2;
		}
	}
	free(copy);
	return totals;
}

static void assert_close(double value, double expected, double relative)
{
	if (!(fabs(value - expected) <= relative * fabs(expected)))
		fail_msg("%.12g is not %.12g within %g", value, expected, relative);
}

/* The whole file, byte by byte. The interval is 1, and blocks are so large that exp(-x) is nearly
 * 0. So the integers are the counts themselves. */
static void the_form_is_jemallocs(void **state)
{
	static const uint64_t first[] = {0x401001, 0x7f0000002345, 0x402000}, second[] = {0x401001};
	static const char expected[] =
		"heap_v2/1\n"
		"  t*: 3: 300 [5: 500]\n"
		"  t17: 1: 100 [0: 0] main\n"
		"  t18: 2: 200 [0: 0] a?b\n"
		"  t19: 0: 0 [0: 0]\n"
		"@ 0x401001 0x7f0000002345 0x402000\n"
		"  t*: 3: 300 [4: 400]\n"
		"  t17: 1: 100 [0: 0]\n"
		"  t18: 2: 200 [0: 0]\n"
		"@ 0x401001\n"
		"  t*: 0: 0 [1: 100]\n"
		"\n"
		"MAPPED_LIBRARIES:\n"
		"00401000-0040b000 r-xp 00001000 08:01 1234                               "
		"/bin/a b\n"
		"7f0000000000-7f0000010000 r-xp 00000000 fd:100 99999999999               "
		"/x\\012\\377 (deleted)\n"
		"7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 \n";
	struct profile *profile = new_profile(1);
	struct profile_mapping mappings[] = {
		{.start = 0x7ffc00000000, .end = 0x7ffc00001000, .perms = "rw-p"},
		{.start = 0x7f0000000000,
		 .end = 0x7f0000010000,
		 .perms = "r-xp",
		 .file.dev_major = 0xfd,
		 .file.dev_minor = 0x100,
		 .file.inode = 99999999999,
		 .deleted = true,
		 .path = (char *)"/x\n\xff"},
		{.start = 0x401000,
		 .end = 0x40b000,
		 .off = 0x1000,
		 .perms = "r-xp",
		 .file.dev_major = 8,
		 .file.dev_minor = 1,
		 .file.inode = 1234,
		 .path = (char *)"/bin/a b"},
	};
	size_t site, thread;
	char *heap;

	(void)state;
	assert_int_equal(profile__add_site(profile, first, 3, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 18, "a\nb", &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 100), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 100), 0);
	assert_int_equal(profile__add_thread(profile, 17, "main", &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 100), 0);
	assert_int_equal(profile__add_thread(profile, 19, "", &thread), 0);
	profile->sites[site].alloc_objects = 4;
	profile->sites[site].alloc_bytes = 400;
	assert_int_equal(profile__add_site(profile, second, 1, false, &site), 0);
	profile->sites[site].alloc_objects = profile->sites[site].freed_objects = 1;
	profile->sites[site].alloc_bytes = profile->sites[site].freed_bytes = 100;
	/* left out: a stack without frames, which has no '@' line, and one without numbers */
	assert_int_equal(profile__add_site(profile, NULL, 0, false, &site), 0);
	assert_int_equal(profile__add_site(profile, first, 2, false, &site), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile__add_mapping(profile, &mappings[i]), 0);
	assert_int_equal(profile__sort(profile), 0);

	heap = encoded(encode_heap_v2, profile);
	assert_string_equal(heap, expected);
	free(heap);
	assert_reports_failures(encode_heap_v2, profile);
	profile__free(profile);
}

/* If all blocks of a stack have one size, the file has the number of samples and the sum of their
 * sizes. jemalloc's format relies on this. */
static void equal_sizes_are_written_as_sampled(void **state)
{
	static const uint64_t sizes[] = {1, 16, 1000, R / 2, R, 64ull * R};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct profile *profile = new_profile(R);
		char expected[64], *heap;

		STACK(profile, 5, sizes[i], 7, "malloc", "f");
		end_profile(profile);
		snprintf(expected, sizeof(expected), "  t*: 7: %" PRIu64 " [7: %" PRIu64 "]\n",
			 7 * sizes[i], 7 * sizes[i]);
		heap = encoded(encode_heap_v2, profile);
		assert_non_null(strstr(heap, expected));
		assert_non_null(strstr(strchr(heap, '@'), expected));
		free(heap);
		profile__free(profile);
	}
}

/* The mix that critics of the format give as an example, and the mixes with the largest rounding
 * errors. */
static void mixed_sizes_come_back(void **state)
{
	static const uint64_t mixes[][2] = {{8, 8 << 20},   {8, 1 << 20}, {8, R},
					    {8, R / 2},	    {100, 3 * R}, {4096, 2 * R},
					    {R / 4, 2 * R}, {1, 1 << 30}};

	(void)state;
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
		for (int n = 1; n < 6; n++) {
			struct profile *profile = new_profile(R);
			struct totals totals;
			size_t site, thread;
			struct estimate live;
			char *heap;

			site = STACK(profile, 5, mixes[i][0], n, "malloc", "f");
			assert_int_equal(profile__add_thread(profile, 6, "x", &thread), 0);
			assert_int_equal(profile__add_live(profile, site, thread, mixes[i][1]), 0);
			end_profile(profile);
			live = profile__live(profile);
			heap = encoded(encode_heap_v2, profile);
			totals = read_back(heap, NULL, "*");
			assert_close(totals.bytes, live.bytes, 0.005);
			assert_close(totals.alloc_bytes, live.bytes, 0.005);
			assert_close(totals.objects, live.objects, 0.08);
			/* the blocks of each thread have one size, so each thread's total comes
			 * back exactly */
			totals = read_back(heap, NULL, "5");
			assert_close(totals.bytes, profile->sites[0].threads[0].bytes, 1e-6);
			totals = read_back(heap, NULL, "6");
			assert_close(totals.bytes, profile->sites[0].threads[1].bytes, 1e-6);
			free(heap);
			profile__free(profile);
		}
	}
}

/* Random mixes of sizes. Each stack must come back within half a percent, and the total must not
 * drift. */
static void random_mixes_come_back(void **state)
{
	uint64_t seed = 12345;
	double sum = 0, true_sum = 0;

	(void)state;
	for (int run = 0; run < 3000; run++) {
		struct profile *profile = new_profile(R);
		size_t site = STACK(profile, 1, 0, 0, "malloc", "f");
		struct totals totals;
		double bytes;
		int n;
		char *heap;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		n = 1 + (int)(seed >> 60);
		for (int i = 0; i < n; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			/* sizes from 1 byte to 16 MiB, even on a logarithmic scale */
			assert_int_equal(
				profile__add_live(
					profile, site, 0,
					(uint64_t)exp2(24 * (double)(seed >> 11) * 0x1p-53)),
				0);
		}
		end_profile(profile);
		bytes = profile__live(profile).bytes;
		heap = encoded(encode_heap_v2, profile);
		totals = read_back(heap, NULL, "*");
		assert_close(totals.bytes, bytes, 0.0051);
		sum += totals.bytes;
		true_sum += bytes;
		free(heap);
		profile__free(profile);
	}
	assert_close(sum, true_sum, 0.0005);
}

/* Numbers that no sample has, but that a scaled or edited file may contain. */
static void odd_numbers_stay_readable(void **state)
{
	static const double numbers[][2] = {
		/* objects, bytes */
		{1, 1},		{0.25, 100}, {1e-9, 1e-9}, {1.4 * R / 8, 1.4 * R}, {1e15, 1e18},
		{1e300, 1e300}, {NAN, 5},    {5, NAN},	   {INFINITY, INFINITY},   {-3, 100},
		{3, -100},	{5, 0},	     {0, 5}};
	static const uint64_t intervals[] = {0, 1, R, 1ull << 40};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		for (size_t k = 0; k < 4; k++) {
			struct profile *profile = new_profile(intervals[k]);
			size_t site = STACK(profile, 1, 0, 0, "malloc", "f");
			struct totals totals;
			char *heap;

			profile->sites[site].live.objects = numbers[i][0];
			profile->sites[site].live.bytes = numbers[i][1];
			profile->sites[site].alloc_objects = 1;
			profile->sites[site].alloc_bytes = 1;
			assert_int_equal(profile__sort(profile), 0);
			heap = encoded(encode_heap_v2, profile);
			totals = read_back(heap, NULL, "*");
			assert_true(isfinite(totals.bytes) && isfinite(totals.objects));
			free(heap);
			profile__free(profile);
		}
	}
}

/* 1.4 R bytes must be read back as 1.4 R bytes, for any number of objects. The file gets a single
 * object for these bytes. */
static void bytes_win_over_objects(void **state)
{
	struct profile *profile = new_profile(R);
	size_t site = STACK(profile, 1, 0, 0, "malloc", "f");
	char *heap;

	(void)state;
	profile->sites[site].live.bytes = 1.4 * R;
	profile->sites[site].live.objects = 1.4 * R / 8;
	assert_int_equal(profile__sort(profile), 0);
	heap = encoded(encode_heap_v2, profile);
	assert_close(read_back(heap, NULL, "*").bytes, 1.4 * R, 1e-5);
	free(heap);
	profile__free(profile);
}

/* A profile of windows: 40 samples that stand for 100 KiB each, and 300 stacks of 2,000 bytes. */
static void what_is_less_than_an_object_is_kept_in_sum(void **state)
{
	struct profile *profile = new_profile(R);
	double interval, sum = 40 * 102400 + 300 * 2000;
	struct totals totals;
	char *heap;

	(void)state;
	profile->mode = MODE_WINDOWED;
	for (int i = 0; i <= 300; i++) {
		char name[16];
		size_t site, thread;

		snprintf(name, sizeof(name), "f%d", i);
		site = STACK(profile, 1, 0, 0, "malloc", name);
		assert_int_equal(profile__add_thread(profile, 1, "", &thread), 0);
		for (int k = i ? 1 : 40; k; k--)
			assert_int_equal(profile__add_live_seen(profile, site, thread,
								i ? 100 : 1024, i ? 0.05 : 0.01),
					 0);
	}
	for (size_t i = 0; i < profile->n_sites; i++) {
		profile->sites[i].alloc_objects = profile->sites[i].live.objects;
		profile->sites[i].alloc_bytes = profile->sites[i].live.bytes;
	}
	assert_int_equal(profile__sort(profile), 0);
	for (int i = 0; i < 6; i++) {
		bool symbolized = i % 2;

		if (i == 2) { /* windows before; now continuous, at a coarser interval */
			profile->mode = MODE_CONTINUOUS;
			profile->asked_interval_bytes = 1024;
		}
		if (i == 4) { /* at a finer interval */
			profile->asked_interval_bytes = 0;
			profile->finest_interval_bytes = 512;
		}
		heap = encoded(symbolized ? encode_symbolized : encode_heap_v2, profile);
		assert_int_equal(sscanf(strstr(heap, "heap_v2/"), "heap_v2/%lf", &interval), 1);
		/* the sum of (1 - p) (z / p)^2, divided by the sum of z / p */
		assert_close(interval,
			     (40 * 0.99 * 102400 * 102400 + 300 * 0.95 * 2000 * 2000) / sum, 1e-4);
		if (!symbolized) {
			totals = read_back(heap, NULL, "*");
			assert_true(fabs(totals.bytes - sum) < 0.6 * interval + 0.005 * sum);
			assert_true(fabs(totals.alloc_bytes - sum) < 0.6 * interval + 0.005 * sum);
		}
		free(heap);
	}
	profile__free(profile);
}

/* A thread name that looks like the end of the header must not be taken for the end. */
static void hostile_thread_names_stay_in_their_line(void **state)
{
	struct profile *profile = new_profile(R);
	size_t thread;
	char *heap;

	(void)state;
	STACK(profile, 1, 4096, 3, "malloc", "f");
	assert_int_equal(profile__add_thread(profile, 1, "\n@ 0x1\n  t*: 9:", &thread), 0);
	assert_int_equal(profile__add_thread(profile, 2, "\x80\xc3(\x1b[2J", &thread), 0);
	end_profile(profile);
	heap = encoded(encode_heap_v2, profile);
	assert_non_null(strstr(heap, "] ?@ 0x1?  t*: 9:\n"));
	assert_non_null(strstr(heap, "] ?\?(?[2J\n"));
	assert_null(strstr(heap, "\n@ 0x1\n"));
	free(heap);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_form_is_jemallocs),
		cmocka_unit_test(equal_sizes_are_written_as_sampled),
		cmocka_unit_test(mixed_sizes_come_back),
		cmocka_unit_test(random_mixes_come_back),
		cmocka_unit_test(odd_numbers_stay_readable),
		cmocka_unit_test(bytes_win_over_objects),
		cmocka_unit_test(what_is_less_than_an_object_is_kept_in_sum),
		cmocka_unit_test(hostile_thread_names_stay_in_their_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
