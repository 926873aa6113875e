// SPDX-License-Identifier: BSD-2-Clause
/* If a profile contradicts itself, each output of it says so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>
#include <cmocka.h>

#include "encode/table.h"
#include "tests/unit/encode/fixture.h"

#define KIB 1024

#define FREES                                                                                      \
	"note: 25,201 blocks were found dead only because a new one took the same place: no "      \
	"free was seen (freed_unobserved)"

/* None of the blocks is really live, because their heap was destroyed as a whole. */
static struct profile *destroyed(void)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 2400, 599, "mi_heap_malloc", "serve", "main");
	profile->alloc_calls = 25800;
	end_profile(profile);
	profile->samples = 25800;
	assert_int_equal(profile__add_lost(profile, "freed_unobserved", 25201), 0);
	return profile;
}

static int in_processes(const struct profile *profile, struct sink *sink)
{
	const struct process_table_options options = {.width = 120};

	return encode_processes(&profile, 1, &options, sink);
}

static int in_modules(const struct profile *profile, struct sink *sink)
{
	struct modules *modules = NULL;
	struct error err = {};
	int rc = modules__parse("rules", "web function serve\n", 19, &modules, &err);

	rc = rc ? rc : encode_modules(profile, modules, true, sink);
	modules__free(modules);
	return rc;
}

static int in_leaks(const struct profile *profile, struct sink *sink)
{
	return encode_leaks(profile, &(struct table_options){}, sink);
}

static int in_leader(const struct profile *profile, struct sink *sink)
{
	return encode_leader(profile, &(struct table_options){.width = 200}, sink);
}

static int in_svg(const struct profile *profile, struct sink *sink)
{
	return encode_svg(profile, NULL, sink);
}

static void nothing_is_called_exact_that_is_not(void **state)
{
	struct profile *profile = destroyed();
	char *text = table_of(profile, (struct table_options){});

	(void)state;
	assert_has(text, "continuous, not sampled: 25,800 of 25,800 allocations recorded\n"
			 "live heap: AT MOST 1.4 MiB in 599 objects\n" FREES);
	assert_null(strstr(text, "exact"));
	free(text);
	profile->peak.known = true;
	profile->sites[0].peak_bytes = 2e6;
	profile->sites[0].peak_objects = 800;
	text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});
	assert_has(text, "after the start: AT MOST 1.9 MiB in 800 objects\n");
	assert_null(strstr(text, "exact"));
	free(text);
	text = encoded(in_processes, profile);
	assert_has(text, "1 process, 10.0 s continuous, not sampled: 25,800 of");
	assert_has(text, "<= 1.4 MiB");
	assert_has(text, "\npid 4711: " FREES);
	assert_null(strstr(text, "exact"));
	free(text);
	text = encoded(in_modules, profile);
	assert_has(text, FREES);
	assert_has(text, "<= 1.4 MiB");
	assert_null(strstr(text, "exact"));
	free(text);
	text = encoded(in_svg, profile);
	assert_has(text, FREES);
	assert_has(text, "AT MOST 1.4 MiB in 599 objects");
	assert_null(strstr(text, "exact:"));
	free(text);
	profile__free(profile);
}

/* 40 % of a twentieth of a core is 2 % of a core. These 2 % are the cost to which the limit
 * applies. */
static void progress_tells_the_cost_that_is_felt(void **state)
{
	struct profile *profile = destroyed();
	char *text;

	(void)state;
	profile->overhead_pct = optional__of(40);
	profile->cpu_time_ns = (uint64_t)(profile->duration_s * 1e9 / 20);
	text = encoded(in_leader, profile);
	assert_has(text, ", cost 2.0 % of a core");
	free(text);
	profile->cpu_time_ns *= 18;
	text = encoded(in_leader, profile);
	assert_has(text, ", cost 40 %");
	assert_null(strstr(text, "of a core"));
	free(text);
	profile__free(profile);
}

static void programs_are_told(void **state)
{
	struct profile *profile = destroyed();
	char *text = encoded(encode_json, profile);

	(void)state;
	assert_has(text,
		   "\"live_bytes\":1437600,\"live_bytes_low\":null,\"live_bytes_high\":1437600,");
	assert_has(text,
		   ",\"contradictions\":[{\"rule\":\"frees_unseen\",\"sure\":false,"
		   "\"figure\":599.000,\"fact\":25201.000,\"text\":\"25,201 blocks were found");
	free(text);
	assert_reports_failures(encode_json, profile);
	profile->growth.stacks_known = true;
	text = encoded(encode_leaks_json, profile);
	assert_has(text, ",\"contradictions\":[{\"rule\":\"frees_unseen\",");
	free(text);
	profile->lost.at[0].count = 0;
	text = encoded(encode_json, profile);
	assert_has(text, "\"live_bytes_low\":1437600,");
	assert_has(text, ",\"contradictions\":[],");
	free(text);
	profile__free(profile);
}

/* The report of leaks also says when stacks grow by more than the process does. */
static void leaks_and_their_head(void **state)
{
	static const char text_of[] = "note: the stacks grow by 1.5 MiB/s more than the process's "
				      "anonymous memory (+512.0 KiB/s): their blocks";
	struct profile *profile = destroyed();
	char *text;

	(void)state;
	profile->lost.at[0].count = 0;
	profile->duration_s = 100;
	profile->growth.stacks_known = true;
	profile->growth.bytes_per_s = optional__of(512 * KIB);
	profile->growth.attributed = profile->sites[0].growth =
		(struct growth){2200 * KIB, 2048 * KIB, 2300 * KIB};
	text = encoded(in_leaks, profile);
	assert_has(text, text_of);
	free(text);
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_has(text, text_of);
	free(text);
	text = encoded(in_leader, profile);
	assert_has(text, ", contradictions: growth_above_process: fastest growth ");
	free(text);
	profile__free(profile);
}

/* Each rule has a sentence. The sentence's two figures still differ after rounding. */
static void each_has_a_sentence(void **state)
{
	static const struct {
		struct contradiction found;
		const char *says;
	} cases[] = {
		{{CONTRADICTION_FREES_UNSEEN, false, 2, 1},
		 "1 block was found dead only because a new one"},
		{{CONTRADICTION_BLOCKS_UNSEEN, false, 2, 3},
		 "3 allocations, allocators or functions could"},
		{{CONTRADICTION_PROBES_SILENT, false, 2, 1}, "after the main thread had ended"},
		{{CONTRADICTION_PROBES_WITHDRAWN, false, 2, 3}, "were taken out 3 times"},
		{{CONTRADICTION_LIVE_ABOVE_ALLOCATED, true, 3000, 2999},
		 "live is 1 B more than was allocated and not freed (2.9 KiB)"},
		{{CONTRADICTION_LIVE_ABOVE_ALLOCATED, false, 3000, 2999}, ": it was freed while"},
		{{CONTRADICTION_LIVE_ABOVE_MAPPED, false, 4096, 3072},
		 "live is 1.0 KiB more than the heap has mapped (3.0 KiB): believe the lower part"},
		{{CONTRADICTION_LIVE_ABOVE_MAPPED, true, 4096, 3072}, "has mapped (3.0 KiB)"},
		{{CONTRADICTION_LIVE_ABOVE_RESIDENT, false, 4096, 3072},
		 "live is 1.0 KiB more than the whole resident set (3.0 KiB): its blocks are not "
		 "all "
		 "touched, or are swapped out"},
		{{CONTRADICTION_GROWTH_ABOVE_PROCESS, false, 4096, -1024},
		 "by 5.0 KiB/s more than the process's anonymous memory (-1.0 KiB/s)"},
		{{CONTRADICTION_GROWTH_OF_ROWS, true, 4096, -1024},
		 "add up to +4.0 KiB/s, not to the growth of all stacks together (-1.0 KiB/s)"},
		{{CONTRADICTION_KINDS_OF_REGIONS, true, 4096, 3072},
		 "add up to 4.0 KiB, not to all that are live (3.0 KiB)"},
		{{CONTRADICTION_PEAK_BELOW_LIVE, true, 3072, 4096},
		 "live (4.0 KiB) is 1.0 KiB more than at the highest moment"},
		{{CONTRADICTION_PEAK_BELOW_LIVE, false, 3072, 4096},
		 ": threads that allocate at once"},
		{{CONTRADICTION_THREADS_ABOVE_STACK, true, 4096, 3072},
		 "threads' shares of a stack add up to 1.0 KiB more than is live of it (3.0 KiB)"},
	};
	struct profile *profile = destroyed();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = contradiction_text(profile, &cases[i].found);

		assert_non_null(text);
		assert_has(text, cases[i].says);
		free(text);
	}
	profile__free(profile);
}

/* More bytes are live than the heap has resident. Either not all blocks are touched, or the
 * estimate is too high. */
static void more_than_is_resident(void **state)
{
	static const struct {
		uint64_t interval;
		int n;
		enum profile_mode mode;
		const char *says;
	} cases[] = {
		{1, 3079, MODE_CONTINUOUS, NULL}, /* 3,006.8 KiB of 3,007 */
		{1, 4000, MODE_CONTINUOUS,
		 "note: live is 899.2 KiB more than the heap's resident and swapped memory (2.9 "
		 "MiB): its "
		 "blocks are not all touched\n"},
		/* each sample stands for 1 MiB + 500 bytes */
		{1 << 20, 3, MODE_CONTINUOUS,
		 "note: live is 66.5 KiB more than the heap's resident and swapped memory (2.9 "
		 "MiB): believe the lower part of its interval, unless"},
		{4096, 1000, MODE_CONTINUOUS, "(2.9 MiB): its blocks are not all touched\n"},
		{4096, 1000, MODE_WINDOWED, "not all touched, or the estimate is wrong\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct resident_pieces pieces = {.vmrss_bytes = 9000 * KIB};
		const struct resident_piece heap = {.start = 1 << 20,
						    .end = 2 << 20,
						    .bytes = {3000 * KIB, 3000 * KIB, 7 * KIB, 1},
						    .kind = RESIDENT_HEAP,
						    .site = RESIDENT_NO_SITE};
		struct profile *profile = new_profile(cases[i].interval);
		char *text;

		STACK(profile, 1, 1000, cases[i].n, "malloc", "zmalloc", "dictAdd", "main");
		end_profile(profile);
		profile->mode = cases[i].mode;
		resident_pieces__add(&pieces, &heap, NULL);
		assert_int_equal(
			resident__make(&pieces, profile, NULL, NULL, 0, false, &profile->resident),
			0);
		resident_pieces__free(&pieces);
		text = table_of(profile, (struct table_options){});
		if (cases[i].says)
			assert_has(text, cases[i].says);
		else
			assert_null(strstr(text, "note: "));
		free(text);
		profile__free(profile);
	}
}

static int two_diffed(const struct profile *profile, struct sink *sink)
{
	const struct profile *const two[] = {profile, profile};

	return put_each_doubt(two, 2, false, sink);
}

static void several_profiles_say_which(void **state)
{
	struct profile *profile = destroyed();
	char *text = encoded(two_diffed, profile);

	(void)state;
	assert_has(text, "profile 1: " FREES);
	assert_has(text, "\nprofile 1: lost: freed_unobserved 25,201\nprofile 2: " FREES);
	free(text);
	profile__free(profile);
}

/* A pprof file has the sentence among its comments, which people read. The test inflates the
 * file. */
static void a_file_has_it_among_its_comments(void **state)
{
	struct profile *profile = destroyed();
	struct text file = {};
	struct sink sink = {.write = text_write, .ctx = &file};
	static char plain[1 << 16];
	z_stream zip = {.next_out = (Bytef *)plain, .avail_out = sizeof(plain)};
	const char *wanted = "contradiction_frees_unseen: 25,201 blocks were found dead";
	bool found = false;

	(void)state;
	assert_int_equal(encode_pprof(profile, &sink), 0);
	zip.next_in = (Bytef *)file.bytes;
	zip.avail_in = (uInt)file.len;
	assert_int_equal(inflateInit2(&zip, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	for (size_t i = 0; i + strlen(wanted) < zip.total_out; i++)
		found = found || !memcmp(plain + i, wanted, strlen(wanted));
	assert_true(found);
	inflateEnd(&zip);
	free(file.bytes);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_called_exact_that_is_not),
		cmocka_unit_test(progress_tells_the_cost_that_is_felt),
		cmocka_unit_test(programs_are_told),
		cmocka_unit_test(leaks_and_their_head),
		cmocka_unit_test(each_has_a_sentence),
		cmocka_unit_test(more_than_is_resident),
		cmocka_unit_test(several_profiles_say_which),
		cmocka_unit_test(a_file_has_it_among_its_comments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
