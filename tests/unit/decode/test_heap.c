// SPDX-License-Identifier: BSD-2-Clause
/* Expected numbers are calculated by hand with f = 1 / (1 - exp(-(s/n)/R)). jeprof uses the same f
 * for these files: tests/golden/check.sh compares the totals with jeprof's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/decode/fixture.h"

#define MAPS                                                                                       \
	"\nMAPPED_LIBRARIES:\n"                                                                    \
	"00400000-00500000 r-xp 00000000 08:01 7                          /usr/bin/leaky\n"        \
	"00600000-00700000 rw-p 00000000 00:00 0                          [heap]\n"                \
	"7f0000000000-7f0000100000 r-xp 00001000 08:01 8   /usr/lib/libc.so.6 (deleted)\n"

/* As jemalloc 5.3 writes it. Blocks of R bytes have f = 1 / (1 - 1/e) = 1.5819767068693265. */
static const char jemalloc[] = "heap_v2/524288\n"
			       "  t*: 5: 2097168 [0: 0]\n"
			       "  t3: 4: 2097152 [0: 0] jemalloc_bg_thd\n"
			       "  t4: 1: 16 [0: 0] \n"
			       "@ 0x7f0000001001 0x401011 0x402011\n"
			       "  t*: 4: 2097152 [6: 3145728]\n"
			       "  t3: 3: 1572864 [0: 0]\n"
			       "  t4: 1: 524288 [0: 0]\n"
			       "@ 0x7f0000001001 0x601011 0x900000\n"
			       "  t*: 1: 16 [0: 0]\n"
			       "  t4: 1: 16 [0: 0]\n" MAPS;

/* Two entries of one stack: one block of 1 MiB, and a thousand of 1000 bytes. All are recorded, so
 * a sample stands for its block: the sum of the squares is 2^40 + 1000 * 1000^2. */
static void sizes_of_blocks_are_kept(void **state)
{
	static const char *const texts[] = {"heap_v2/1\n"
					    "  t*: 1001: 2048576 [0: 0]\n"
					    "@ 0x1001\n"
					    "  t*: 1: 1048576 [0: 0]\n"
					    "@ 0x1001\n"
					    "  t*: 1000: 1000000 [0: 0]\n" MAPS,
					    "heap profile: 1001: 2048576 [0: 0] @ heapprofile\n"
					    "  1: 1048576 [0: 0] @ 0x1001\n"
					    "  1000: 1000000 [0: 0] @ 0x1001\n" MAPS};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct profile *profile = decoded(texts[i]);

		assert_int_equal(profile->n_sites, 1);
		assert_near(profile->sites[0].live.squares, 0x1p40 + 1e9, 1e-9);
		profile__free(profile);
	}
}

static void numbers_are_unsampled(void **state)
{
	const double f = 1.5819767068693265, R = 524288;
	struct profile *profile = decoded(jemalloc);
	const struct profile_site *site = &profile->sites[0];

	(void)state;
	assert_int_equal(profile->interval_bytes, 524288);
	assert_false(profile->leaf_holds);
	assert_int_equal(profile->n_sites, 2);
	assert_site(profile, 0, 4 * R * f, 4 * f, "libc.so.6+0x2000 < leaky+0x1010 < leaky+0x2010");
	assert_near(site->alloc_bytes, 6 * R * f, 1e-12);
	assert_near(site->freed_objects, 2 * f, 1e-9);
	/* four samples of z = R, each of variance z^2 (1 - p) / p^2 = R^2 f^2 / e */
	assert_int_equal(site->live.samples, 4);
	assert_int_equal(site->live.sampled_bytes, 2097152);
	assert_near(site->live.variance, 4 * R * R * f * f / M_E, 1e-9);
	assert_near(site->live.variance_max, R * R * f * f / M_E, 1e-9);
	assert_int_equal(profile->n_threads, 2);
	assert_string_equal(profile->threads[0].name, "jemalloc_bg_thd");
	assert_int_equal(profile->threads[1].tid, 4);
	assert_int_equal(site->n_threads, 2);
	assert_near(site->threads[0].bytes, 3 * R * f, 1e-9);
	assert_near(site->threads[1].objects, f, 1e-9);
	/* one sample of 16 bytes stands for R/16 + 1/2 blocks (the series' next term: 16/12R) */
	assert_site(profile, 1, R + 8, R / 16 + 0.5, "libc.so.6+0x2000 < [heap]+0x1010 < 0x8fffff");
	assert_int_equal(profile->n_mappings, 3);
	assert_true(profile->mappings[2].deleted);
	profile__free(profile);
}

static void equal_stacks_add_up(void **state)
{
	struct profile *profile = decoded("heap_v2/1000\n"
					  "  t*: 3: 3000 [0: 0]\n"
					  "@ 0x401011\n  t*: 2: 2000 [0: 0]\n"
					  "@ 0x401011\n  t*: 1: 1000 [0: 0]\n" MAPS);

	(void)state;
	assert_int_equal(profile->n_sites, 1);
	assert_site(profile, 0, 3000 * 1.5819767068693265, 3 * 1.5819767068693265, "leaky+0x1010");
	profile__free(profile);
}

static void symbols_name_the_frames(void **state)
{
	struct profile *profile = decoded("--- symbol\n"
					  "binary=/usr/bin/leaky\n"
					  "0x00007f0000001001 malloc\n"
					  "0x0000000000401010 main loop--insert--It::operator--\n"
					  "0x0000000000402010 0x0000000000402010\n"
					  "---\n"
					  "--- heap\n"
					  "heap_v2/1\n"
					  "  t*: 2: 4000 [0: 0]\n"
					  "@ 0x7f0000001001 0x401011 0x402011\n"
					  "  t*: 2: 4000 [3: 6000]\n" MAPS);

	(void)state;
	assert_site(profile, 0, 4000, 2,
		    "malloc < It::operator-- < insert < main loop < leaky+0x2010");
	assert_near(profile->sites[0].freed_bytes, 2000, 1e-9);
	assert_string_equal(profile->exe, "/usr/bin/leaky");
	assert_int_equal(profile__location(profile, &profile->sites[0], 1)->reason,
			 UNRESOLVED_NAMED);
	profile__free(profile);
}

/* Two profiles in the form of gperftools' heap profiler: an unsampled one and a sampled one. */
static void one_line_profiles_are_read(void **state)
{
	struct profile *profile =
		decoded("heap profile:     14:    17384 [    34:    19204] @ heapprofile\n"
			"     4:    16384 [     4:    16384] @ 0x00401011 0x00402011\n"
			"    10:     1000 [    25:     2500] @ 0x00403011\n" MAPS);

	(void)state;
	assert_int_equal(profile->interval_bytes, 1);
	assert_site(profile, 0, 16384, 4, "leaky+0x1010 < leaky+0x2010");
	assert_site(profile, 1, 1000, 10, "leaky+0x3010");
	assert_near(profile->sites[1].freed_bytes, 1500, 1e-9);
	profile__free(profile);
	profile = decoded("heap profile: 1: 1000 [ 1: 1000] @ heap_v2/1000\n"
			  "  1: 1000 [ 1: 1000] @ 0x401011\n" MAPS);
	assert_site(profile, 0, 1581.9767068693265, 1.5819767068693265, "leaky+0x1010");
	profile__free(profile);
}

/* Reads what memtrace's encoder writes. A stack with blocks of mixed sizes has two entries there.
 * Live bytes agree within the encoder's tolerance. */
static void what_memtrace_writes_comes_back(void **state)
{
	struct profile *profile = new_profile(524288), *again;
	char *text;

	(void)state;
	STACK(profile, 7, 16, 3, "malloc", "parse", "main");
	STACK(profile, 8, 1 << 20, 40, "malloc", "cache", "main");
	add_stack(profile, (const char *const[]){"calloc", "both", "main"}, 3, 8, 16, 1);
	assert_int_equal(profile__add_live(profile, 2, 1, 32 << 20), 0);
	end_profile(profile);
	text = encoded(encode_heap_v2, profile);
	again = decoded(text);
	assert_int_equal(again->n_sites, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_near(again->sites[i].live.bytes, profile->sites[i].live.bytes, 0.005);
		assert_near(again->sites[i].live.objects, profile->sites[i].live.objects, 0.005);
	}
	assert_near(profile__live(again).bytes, profile__live(profile).bytes, 0.005);
	free(text);
	profile__free(again);
	profile__free(profile);
}

static void what_is_wrong_is_told(void **state)
{
	(void)state;
	assert_refused("heap_v2/0\n",
		       "FILE: line 1: no heap profile that can be read: \"heap_v2/INTERVAL\" or "
		       "\"heap profile: ... @ heapprofile\" is expected");
	assert_refused("heap profile: 1: 2 [3: 4] @ growthz\n",
		       "FILE: line 1: no heap profile that can be read: \"heap_v2/INTERVAL\" or "
		       "\"heap profile: ... @ heapprofile\" is expected");
	assert_refused("heap_v2/512\n  t*: 1: 2 [3: 4\n",
		       "FILE: line 2: no line \"t*: OBJECTS: BYTES [OBJECTS: BYTES]\"");
	assert_refused("heap_v2/512\n@ 0x10 zz\n", "FILE: line 2: no address in a stack");
	assert_refused("heap_v2/512\n@ 0x10\n@ 0x20\n",
		       "FILE: line 3: the stack before this line has no \"t*:\"");
	assert_refused("heap_v2/512\n@ 0x10\n  t*: 1: 2 [3: 4]\n",
		       "FILE: line 3: it ends before MAPPED_LIBRARIES: it was cut short");
	assert_refused("heap_v2/512\n\nMAPPED_LIBRARIES:\n00400000-0050",
		       "FILE: line 3: the list of libraries below it was cut short");
	assert_refused("--- symbol\nbinary=x\n0x10\n",
		       "FILE: line 3: no line \"0xADDRESS NAME\" among the symbols");
	assert_refused("--- symbol\nbinary=x\n---\n",
		       "FILE: line 3: it ends before the stacks: it was cut short");
	assert_refused("--- symbol\n--- heap\n", "FILE: line 2: nothing follows the symbols");
}

/* The number of items of each kind is limited. The error names the line that exceeds the limit. */
static void numbers_of_items_are_bounded(void **state)
{
	static const char threads[] =
		"heap_v2/1\n  t*: 3: 3 [0: 0]\n"
		"@ 0x401011\n  t*: 3: 3 [0: 0]\n  t1: 1: 1 [0: 0]\n  t2: 1: 1 [0: 0]\n"
		"  t3: 1: 1 [0: 0]\n" MAPS;
	static const char same[] = "heap_v2/1\n  t*: 3: 3 [0: 0]\n"
				   "@ 0x401011\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n"
				   "@ 0x401021\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n"
				   "@ 0x401031\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n"
				   "@ 0x401031\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n" MAPS;
	static const char mappings[] =
		"heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x401011\n  t*: 1: 1 [0: 0]\n" MAPS;

	(void)state;
	assert_limit(items, 3, threads, sizeof(threads) - 1,
		     "FILE: line 7: more threads than any profile has");
	assert_limit(items, 4, same, sizeof(same) - 1,
		     "FILE: line 16: more shares of threads in stacks than any profile has");
	assert_limit(items, 3, mappings, sizeof(mappings) - 1,
		     "FILE: line 9: more mappings than any profile has");
}

static void values_are_bounded(void **state)
{
	(void)state;
	assert_refused(
		"heap_v2/1\n@ 0x401011\n  t*: 1: 18446744073709551615 [0: 0]\n" MAPS,
		"FILE: line 5: up to here it counts more than 2^62 objects or bytes: no machine "
		"has them");
	assert_refused("heap_v2/1099511627777\n" MAPS,
		       "FILE: line 1: no heap profile that can be read: \"heap_v2/INTERVAL\" or "
		       "\"heap profile: ... @ heapprofile\" is expected");
}

static uint64_t lost(const struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->lost.n; i++)
		if (!strcmp(profile->lost.at[i].name, name))
			return profile->lost.at[i].count;
	return 0;
}

/* In the list of libraries, one line is unreadable, and the mapping of another line starts below
 * the end of the previous mapping. Both lines count as lost. The valid line after them is read. */
static void broken_libraries_are_counted(void **state)
{
	struct profile
		*profile = decoded(
			"heap_v2/1\n@ 0x401011 0x501011\n  t*: 1: 1 [0: 0]\n\nMAPPED_LIBRARIES:\n"
			"00400000-00500000 r-xp 00000000 08:01 7 /usr/bin/leaky\n"
			"00500000-0060000 zzzz\n"
			"00300000-00500000 r-xp 00000000 08:01 7 /usr/bin/leaky\n"
			"\n"
			"00600000-00700000 r-xp 00000000 08:01 7 /usr/bin/other\n"),
		*again;
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	char *json = encoded(encode_json, profile);

	(void)state;
	assert_int_equal(profile->n_mappings, 2);
	assert_int_equal(lost(profile, "mappings_unreadable"), 2);
	assert_non_null(strstr(json, "\"mappings_unreadable\":2"));
	assert_int_equal(encode_pprof(profile, &sink), 0);
	again = decoded_bytes(text.bytes, text.len);
	assert_int_equal(lost(again, "mappings_unreadable"), 2);
	profile__free(again);
	free(text.bytes);
	free(json);
	profile__free(profile);
	profile = decoded(jemalloc);
	assert_int_equal(profile->lost.n, 0);
	profile__free(profile);
}

/* A thread number that is too large for the kernel must not be mixed up with another thread. The
 * text has the threads 7, 2^32 + 7 and 2^33 + 7. */
static void large_tids_are_kept_apart(void **state)
{
	struct profile *profile =
		decoded("heap_v2/1\n  t*: 3: 12 [0: 0]\n  t7: 1: 4 [0: 0] seven\n"
			"@ 0x401011\n  t*: 3: 12 [0: 0]\n  t7: 1: 4 [0: 0]\n"
			"  t4294967303: 1: 4 [0: 0]\n  t8589934599: 1: 4 [0: 0]\n" MAPS);

	(void)state;
	assert_int_equal(profile->n_threads, 3);
	assert_int_equal(profile->threads[0].tid, 7);
	assert_string_equal(profile->threads[0].name, "seven");
	assert_int_equal(profile->sites[0].n_threads, 3);
	profile__free(profile);
}

static void damage_does_no_harm(void **state)
{
	(void)state;
	survives_damage((const uint8_t *)jemalloc, sizeof(jemalloc) - 1, 2000);
	/* a file cut within the stacks is refused: it must not be read as a smaller profile */
	for (size_t i = 0; i < sizeof(jemalloc) - sizeof(MAPS) + 18; i++)
		assert_false(survives((const uint8_t *)jemalloc, i));
}

/* Totals, stacks and names, with inlined functions, come back as they were written. */
static void symbolized_profiles_come_back(void **state)
{
	struct profile *p = new_profile(65536), *q;
	char *text;

	(void)state;
	p->exe = strdup("/usr/bin/le\naky");
	STACK(p, 1, 1 << 20, 3, "malloc", "parse", "main");
	STACK(p, 2, 100, 4, "malloc", "grow<a, b>", "parse", "main");
	STACK(p, 2, 9, 0, "malloc", "freed", "main");
	p->sites[2].alloc_objects = 70000;
	p->sites[2].alloc_bytes = 1e6;
	end_profile(p);
	add_inlined(p, "parse", "inner");
	text = encoded(encode_symbolized, p);
	q = decoded(text);
	assert_int_equal(q->n_sites, 3);
	assert_near(q->sites[0].live.bytes, p->sites[0].live.bytes, 0.005);
	assert_near(q->sites[0].live.objects, p->sites[0].live.objects, 0.005);
	assert_near(q->sites[1].live.bytes, p->sites[1].live.bytes, 0.005);
	assert_near(q->sites[2].alloc_bytes, 1e6, 0.005);
	for (size_t i = 0; i < 3; i++) {
		char a[256], b[256];

		assert_string_equal(story(q, &q->sites[i], a, sizeof(a)),
				    story(p, &p->sites[i], b, sizeof(b)));
	}
	assert_string_equal(q->exe, "/usr/bin/le?aky");
	assert_int_equal(q->interval_bytes, 65536);
	free(text);
	assert_reports_failures(encode_symbolized, p);
	profile__free(p);
	profile__free(q);
}

static void functions_of_python_come_back_symbolized(void **state)
{
	struct profile *p = new_profile(1), *q;
	char *text;

	(void)state;
	add_python(p, 0x7f0000005000, "app.load", 3);
	add_python(p, 0x555500003000, "app.keep", 2);
	end_profile(p);
	text = encoded(encode_symbolized, p);
	q = decoded(text);
	assert_int_equal(q->n_sites, 2);
	assert_site(q, 0, 300, 3, "app.load < main");
	assert_site(q, 1, 200, 2, "app.keep < main");
	free(text);
	profile__free(q);
	profile__free(p);
}

/* Stacks with names but no addresses, as in some languages' profiles: each frame keeps its name. */
static void names_without_addresses_come_back_symbolized(void **state)
{
	struct profile *p = decoded("main;f 10\nmain;g 5\nmain;g;h 3\n"), *q;
	char *text, story_of[3][64];

	(void)state;
	p->interval_bytes = 1;
	for (size_t i = 0; i < 3; i++)
		p->sites[i].live.objects = p->sites[i].alloc_objects = 1;
	text = encoded(encode_symbolized, p);
	q = decoded(text);
	assert_int_equal(q->n_sites, 3);
	for (size_t i = 0; i < 3; i++) {
		story(q, &q->sites[i], story_of[i], sizeof(story_of[i]));
		assert_string_equal(story_of[i], lround(q->sites[i].live.bytes) == 10 ? "f < main"
						 : lround(q->sites[i].live.bytes) == 5
							 ? "g < main"
							 : "h < g < main");
	}
	free(text);
	profile__free(q);
	profile__free(p);
}

/* No name, hostile or not, adds a line or another name to the file. */
static void names_do_not_break_symbolized_profiles(void **state)
{
	static const char *const hostile[][2] = {
		{"f\n0x10 g\n---\n", "f?0x10 g?- - -?"},
		{"--- heap", "- - - heap"},
		{"a--b----c", "a- -b- - - -c"},
		{"C::operator--", "C::operator- -"},
		{"C::operator-", "C::operator-"},
		{"\x80\x1b[31m\u202e;@ 0x1", "??[31m?;@ 0x1"},
		{"0xdeadbeef", NULL}, /* memtrace reads no name; jeprof shows the text as it is */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		struct profile *p = new_profile(1), *q;
		char *text, reads[256], inlined[256];

		STACK(p, 1, 100, 1, "malloc", hostile[i][0], "main");
		end_profile(p);
		text = encoded(encode_symbolized, p);
		q = decoded(text);
		assert_int_equal(q->n_sites, 1);
		story(q, &q->sites[0], reads, sizeof(reads));
		snprintf(inlined, sizeof(inlined), "malloc < %s < main",
			 hostile[i][1] ? hostile[i][1] : "");
		if (hostile[i][1])
			assert_string_equal(reads, inlined);
		free(text);
		profile__free(q);
		if (hostile[i][1]) { /* the same name beside an inlined function */
			add_inlined(p, hostile[i][0], "inner");
			text = encoded(encode_symbolized, p);
			q = decoded(text);
			story(q, &q->sites[0], reads, sizeof(reads));
			snprintf(inlined, sizeof(inlined), "malloc < inner < %s%s < main",
				 hostile[i][1],
				 hostile[i][1][strlen(hostile[i][1]) - 1] == '-' ? " " : "");
			assert_string_equal(reads, inlined);
			free(text);
			profile__free(q);
		}
		profile__free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_unsampled),
		cmocka_unit_test(sizes_of_blocks_are_kept),
		cmocka_unit_test(equal_stacks_add_up),
		cmocka_unit_test(symbols_name_the_frames),
		cmocka_unit_test(symbolized_profiles_come_back),
		cmocka_unit_test(names_do_not_break_symbolized_profiles),
		cmocka_unit_test(functions_of_python_come_back_symbolized),
		cmocka_unit_test(names_without_addresses_come_back_symbolized),
		cmocka_unit_test(one_line_profiles_are_read),
		cmocka_unit_test(what_memtrace_writes_comes_back),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(numbers_of_items_are_bounded),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(broken_libraries_are_counted),
		cmocka_unit_test(large_tids_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
