// SPDX-License-Identifier: BSD-2-Clause
/* Profiles of others are bytes written by hand, from the field numbers of profile.proto; our own go through the
 * encoder, whose bytes tests/unit/encode has, and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>

#include "profile/pprof.h"
#include "tests/unit/decode/fixture.h"

/* As Go writes it: ids are not those of places in tables; a stack is there twice, with blocks of 16 and of
 * 524288 bytes, another one has no names. */
#define TYPES "\x0a\x04\x08\x01\x10\x02" "\x0a\x04\x08\x03\x10\x04" /* inuse_objects, inuse_space */
#define STRINGS                                                                                    \
	"\x32\x00" "\x32\x0d" "inuse_objects" "\x32\x05" "count" "\x32\x0b" "inuse_space"          \
	"\x32\x05" "bytes" "\x32\x05" "space" "\x32\x06" "main.f" "\x32\x04" "x.go"                \
	"\x32\x09" "/bin/prog" "\x32\x04" "beef" "\x32\x06" "main.g" "\x32\x06" "thread"           \
	"\x32\x03" "one"
#define PERIOD "\x5a\x04\x08\x05\x10\x04" "\x60\x80\x80\x20" /* space/bytes, 524288 */
#define TABLES                                                                                     \
	"\x1a\x0e\x08\x05\x10\x80\x20\x18\x80\x40\x28\x08\x30\x09\x38\x01" /* mapping 5: 0x1000.. */ \
	"\x22\x0f\x08\x2a\x10\x05\x18\x90\x20\x22\x06\x08\x64\x10\x90\x80\x01" /* 42: f, line 16400 */ \
	"\x22\x12\x08\x2b\x10\x05\x18\xa0\x20\x22\x04\x08\x64\x10\x02\x22\x03\x08\xc8\x01" /* 43: f in g */ \
	"\x22\x07\x08\x2c\x10\x05\x18\xb0\x20"				/* 44: 0x1030 */           \
	"\x2a\x06\x08\x64\x10\x06\x20\x07"				/* function 100: main.f */ \
	"\x2a\x05\x08\xc8\x01\x10\x0a"					/* function 200: main.g */

static const char foreign[] = TYPES
	"\x12\x14\x0a\x02\x2a\x2b\x12\x06\x80\x80\x02\x80\x80\x20" /* 42 43: 32768 of 524288 bytes, */
	"\x1a\x06\x08\x04\x18\x10\x20\x04"			     /* of 16 bytes each */
	"\x12\x0c\x08\x2a\x08\x2b\x10\x01\x10\x80\x80\x20\x38\x00" /* the same unpacked: one of 524288 */
	"\x12\x0e\x0a\x01\x2c\x12\x03\x02\x80\x08\x1a\x04\x08\x0b\x10\x0c" /* 44: 2 of 1024, thread one */
	TABLES PERIOD STRINGS;

static void others_profiles_are_read(void **state)
{
	const double R = 524288, x = 16, p = -expm1(-x / R);
	struct profile *profile = decoded_bytes(foreign, sizeof(foreign) - 1);
	const struct profile_location *location;
	const struct estimate *live;

	(void)state;
	assert_int_equal(profile->interval_bytes, 524288);
	assert_null(profile->mode);
	assert_true(profile->leaf_holds);
	assert_false(profile->no_objects);
	assert_int_equal(profile->n_sites, 2);
	assert_site(profile, 0, 1048576, 32769, "main.f < main.f < main.g");
	assert_site(profile, 1, 1024, 2, "prog+0x30");
	/* each as its own blocks make it: 32768 p samples of 16 bytes, and 1 - 1/e of one of R */
	live = &profile->sites[0].live;
	assert_near(live->variance,
		    32768 * p * (x / p * (x / p) * (1 - p)) +
			    (1 - exp(-1)) * R * R / pow(1 - exp(-1), 2) * exp(-1),
		    1e-9);
	assert_near(live->variance_max, x / p * (x / p) * (1 - p), 1e-9);
	location = profile__location(profile, &profile->sites[0], 0);
	assert_int_equal(location->addr, 0x1011);
	assert_int_equal(location->n_frames, 1);
	assert_string_equal(location->frames[0].file, "x.go");
	assert_int_equal(location->frames[0].line, 16400);
	assert_int_equal(profile__location(profile, &profile->sites[0], 1)->frames[0].line, 2);
	assert_int_equal(profile->n_mappings, 1);
	assert_string_equal(profile->mappings[0].path, "/bin/prog");
	assert_string_equal(profile->mappings[0].build_id, "beef");
	assert_int_equal(location->mapping, 0);
	assert_int_equal(profile->sites[1].n_threads, 1);
	assert_near(profile->sites[1].threads[0].bytes, 1024, 0);
	assert_string_equal(profile->threads[0].name, "one");
	profile__free(profile);
}

/* A profile that has all that a profile can have. */
static struct profile *rich(void)
{
	static const struct profile_mapping mappings[] = {
		{.start = 0x400000, .end = 0x500000, .off = 0x2000, .perms = "r-xp",
		 .path = (char *)"/usr/bin/leaky", .build_id = (char *)"00c0ffee"},
		{.start = 0x600000, .end = 0x700000, .perms = "r-xp", .deleted = true,
		 .path = (char *)"/usr/lib/libgone.so"},
		{.start = 0x800000, .end = 0x900000, .perms = "rw-p", .path = (char *)"[heap]"},
	};
	const uint64_t a[] = {0x600011, 0x400011, 0x400021, 0x300001}, b[] = {0x600011, 0x400031};
	struct profile *p = new_profile(65536);
	struct profile_frame *frames;
	size_t sites[2], main, worker;

	p->what = "heap";
	p->exe = strdup("/usr/bin/leaky");
	p->mode = "windowed";
	p->n_windows = 12;
	p->windows_s = 0.7;
	p->continuous_s = 3.25;
	p->has_growth = true;
	p->growth = (struct process_growth){12345.6789, {1000.5, 900.25, -1e-3}, 1e10 / 3, 1.5, -2.25, 5.25};
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		p->survival_age_s[i] = 0.3 * (i + 1);
	p->evidence = (struct profile_evidence){1, 2, 3, 4, 5, 6};
	p->start_unix_ns = 1700000000123456789;
	p->duration_s = 60.125;
	p->free_calls = UINT64_MAX;
	p->dropped = 3;
	p->stacks_walked = 100;
	p->stacks_complete = 99;
	p->overhead_pct = 0;
	p->cpu_time_ns = 77;
	p->rss_start_bytes = 1 << 20;
	p->rss_end_bytes = 1 << 21;
	p->n_live_threads = 4;
	p->ended = true;
	p->own = (struct run_cost){true, 1.25, true, 0.5, 1 << 22, 1 << 23, true};
	assert_int_equal(profile__add_site(p, a, 4, true, &sites[0]), 0);
	assert_int_equal(profile__add_site(p, b, 2, false, &sites[1]), 0);
	assert_int_equal(profile__add_thread(p, 10, "main", &main), 0);
	assert_int_equal(profile__add_thread(p, 11, "worker", &worker), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(profile__add_live(p, sites[0], main, 100), 0);
	assert_int_equal(profile__add_live(p, sites[0], worker, 50000), 0);
	assert_int_equal(profile__add_live_seen(p, sites[1], worker, 64, 1e-6), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile__add_mapping(p, &mappings[i]), 0);
	assert_int_equal(profile__add_lost(p, "live_full", 17), 0);
	assert_int_equal(profile__add_lost(p, "nothing", 0), 0);
	assert_int_equal(profile__add_run_lost(p, "files_refused", 2), 0);
	p->sites[sites[0]].alloc_objects = 5000;
	p->sites[sites[0]].alloc_bytes = 1e6;
	p->sites[sites[0]].growth = (struct growth){449.6, 205.4, 693.7};
	p->sites[sites[1]].growth = (struct growth){-3, NAN, NAN};
	p->sites[sites[1]].complete = true;
	p->sites[sites[1]].allocators_own = true;
	p->sites[sites[0]].replaces = true;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		p->sites[sites[0]].survival[i] = i == 2 ? NAN : 1.0 / (i + 1);
		p->sites[sites[1]].survival[i] = NAN;
		p->sites[sites[0]].older[i] = NAN;
		p->sites[sites[1]].older[i] = i == 3 ? 0 : 1 - 0.1 * i;
	}
	end_profile(p);
	for (size_t i = 0; i < p->n_locations; i++) {
		assert_int_equal(profile_location__set_name(&p->locations[i], "libgone.so+0x10"), 0);
		p->locations[i].reason = UNRESOLVED_NO_FILE;
	}
	frames = calloc(3, sizeof(*frames));
	frames[0] = (struct profile_frame){strdup("inner<int>"), strdup("b.h"), 3};
	frames[1] = (struct profile_frame){strdup("middle"), NULL, 0};
	frames[2] = (struct profile_frame){strdup("outer \xc3\xa9"), strdup("dir/a.c"), 70000};
	profile_location__set_frames(&p->locations[2], frames, 3); /* 0x400021 */
	p->locations[2].reason = UNRESOLVED_NAMED;
	return p;
}

static char *packed(const struct profile *profile, size_t *ret_len)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode_pprof(profile, &sink), 0);
	*ret_len = text.len;
	return text.bytes;
}

static struct profile *round_trip(const struct profile *profile)
{
	size_t len;
	char *bytes = packed(profile, &len);
	struct profile *again = decoded_bytes(bytes, len);

	free(bytes);
	return again;
}

static void assert_same_facts(const struct profile *p, const struct profile *q)
{
	for (size_t i = 0; i < n_pprof_facts; i++) {
		double x = pprof_fact__get(&pprof_facts[i], p), y = pprof_fact__get(&pprof_facts[i], q);

		if (pprof_fact__is_absent(&pprof_facts[i], p))
			assert_true(pprof_fact__is_absent(&pprof_facts[i], q));
		else if (!(fabs(x - y) <= 1e-9 * fabs(x)))
			fail_msg("%s: %.17g is not %.17g", pprof_facts[i].key, y, x);
	}
	assert_true(p->free_calls == q->free_calls); /* as a double it is inexact */
	assert_string_equal(p->what, q->what);
	assert_string_equal(p->mode, q->mode);
	assert_string_equal(p->comm, q->comm);
	assert_string_equal(p->exe, q->exe);
	assert_int_equal(p->interval_bytes, q->interval_bytes);
	assert_true(p->start_unix_ns == q->start_unix_ns);
	assert_near(q->duration_s, p->duration_s, 1e-12);
	assert_int_equal(p->has_growth, q->has_growth);
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		assert_near(q->survival_age_s[i], p->survival_age_s[i], 1e-5);
}

static void assert_same_sites(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_sites, q->n_sites);
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *a = &p->sites[i], *b = &q->sites[i];

		/* values are within one of what they were */
		assert_true(fabs(a->live.bytes - b->live.bytes) < 3);
		assert_true(fabs(a->live.objects - b->live.objects) < 3);
		assert_true(fabs(a->alloc_bytes - b->alloc_bytes) < 4);
		assert_true(fabs(a->alloc_objects - b->alloc_objects) < 4);
		assert_int_equal(a->live.samples, b->live.samples);
		assert_int_equal(a->live.sampled_bytes, b->live.sampled_bytes);
		assert_near(b->live.variance, a->live.variance, 1e-4);
		assert_near(b->live.variance_max, a->live.variance_max, 1e-4);
		assert_near(estimate__squares(&b->live), estimate__squares(&a->live), 0.011);
		assert_int_equal(a->complete, b->complete);
		assert_int_equal(a->truncated, b->truncated);
		assert_int_equal(a->allocators_own, b->allocators_own);
		assert_int_equal(a->replaces, b->replaces);
		assert_int_equal(a->n_locations, b->n_locations);
		for (uint32_t k = 0; k < a->n_locations; k++)
			assert_true(p->locations[a->locations[k]].addr ==
				    q->locations[b->locations[k]].addr);
		assert_int_equal(a->n_threads, b->n_threads);
		for (size_t k = 0; k < a->n_threads; k++) {
			assert_int_equal(p->threads[a->threads[k].thread].tid,
					 q->threads[b->threads[k].thread].tid);
			assert_true(fabs(a->threads[k].bytes - b->threads[k].bytes) < 2);
			assert_true(fabs(a->threads[k].objects - b->threads[k].objects) < 2);
		}
		if (!p->has_growth)
			continue;
		assert_true(fabs(a->growth.bytes_per_s - b->growth.bytes_per_s) < 1 / 3600.0);
		assert_int_equal(isnan(a->growth.low), isnan(b->growth.low));
		assert_true(isnan(a->growth.low) || fabs(a->growth.low - b->growth.low) < 1 / 3600.0);
		assert_true(isnan(a->growth.low) ||
			    fabs(a->growth.high - b->growth.high) < 1 / 3600.0);
		for (int k = 0; k < PROFILE_SURVIVAL_AGES; k++)
			assert_true((isnan(a->survival[k]) && isnan(b->survival[k])) ||
				    fabs(a->survival[k] - b->survival[k]) < 1e-6);
		for (int k = 0; k < PROFILE_SURVIVAL_AGES; k++)
			assert_true((isnan(a->older[k]) && isnan(b->older[k])) ||
				    fabs(a->older[k] - b->older[k]) < 1e-6);
	}
}

static void assert_same_locations(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_locations, q->n_locations);
	for (size_t i = 0; i < p->n_locations; i++) {
		const struct profile_location *a = &p->locations[i], *b = &q->locations[i];

		assert_true(a->addr == b->addr);
		assert_int_equal(a->reason, b->reason);
		assert_int_equal(a->n_frames, b->n_frames);
		for (size_t k = 0; k < a->n_frames; k++) {
			assert_string_equal(a->frames[k].name, b->frames[k].name);
			assert_int_equal(!a->frames[k].file, !b->frames[k].file);
			if (a->frames[k].file)
				assert_string_equal(a->frames[k].file, b->frames[k].file);
			assert_int_equal(a->frames[k].line, b->frames[k].line);
		}
		assert_int_equal(a->mapping < 0, b->mapping < 0);
		if (a->mapping >= 0) {
			const struct profile_mapping *x = &p->mappings[a->mapping],
						     *y = &q->mappings[b->mapping];

			assert_true(x->start == y->start && x->end == y->end && x->off == y->off);
			assert_string_equal(x->path, y->path);
			assert_int_equal(x->deleted, y->deleted);
			assert_int_equal(!x->build_id, !y->build_id);
			if (x->build_id)
				assert_string_equal(x->build_id, y->build_id);
		}
	}
}

static void all_of_our_own_comes_back(void **state)
{
	struct profile *profile = rich(), *again = round_trip(profile), *third;
	size_t len, len_again;
	char *bytes, *bytes_again;

	(void)state;
	assert_same_facts(profile, again);
	assert_same_sites(profile, again);
	assert_same_locations(profile, again);
	assert_false(again->leaf_holds);
	assert_int_equal(again->n_threads, 2);
	assert_string_equal(again->threads[1].name, "worker");
	assert_int_equal(again->n_mappings, 2); /* of the third nothing is used */
	assert_int_equal(again->n_lost, 2);
	for (size_t i = 0; i < 2; i++) {
		bool of_run = !strcmp(again->lost[i].name, "files_refused");

		assert_true(of_run || !strcmp(again->lost[i].name, "live_full"));
		assert_int_equal(again->lost[i].of_run, of_run);
		assert_int_equal(again->lost[i].count, of_run ? 2 : 17);
	}
	/* and from then on nothing changes any more */
	third = round_trip(again);
	bytes = packed(again, &len);
	bytes_again = packed(third, &len_again);
	assert_int_equal(len, len_again);
	assert_memory_equal(bytes, bytes_again, len);
	free(bytes);
	free(bytes_again);
	profile__free(third);
	profile__free(again);
	profile__free(profile);
}

static void regions_and_growth_come_back(void **state)
{
	struct profile *profile = new_profile(1), *again;

	(void)state;
	profile->what = "regions";
	profile->kind_bytes[REGION_OF_STACK] = 8192;
	profile->earlier_gone_bytes = 0;
	profile->regions_followed_s = 4.5;
	STACK(profile, 1, 8192, 1, "mmap", "pool", "main");
	end_profile(profile);
	again = round_trip(profile);
	assert_true(profile__is_regions(again));
	assert_near(again->kind_bytes[REGION_OF_STACK], 8192, 0);
	assert_true(again->earlier_gone_bytes == 0);
	assert_near(again->regions_followed_s, 4.5, 0);
	profile__free(again);
	profile->what = "growth";
	profile->resident_change_bytes = -123;
	again = round_trip(profile);
	assert_true(profile__is_growth(again));
	assert_near(again->resident_change_bytes, -123, 0);
	assert_true(again->earlier_gone_bytes == -1); /* not known */
	profile__free(again);
	profile->resident_change_bytes = NAN;
	again = round_trip(profile);
	assert_true(isnan(again->resident_change_bytes));
	profile__free(again);
	profile__free(profile);
}

/* However many stacks there are whose bytes are no integers. */
static void totals_are_kept(void **state)
{
	struct profile *profile = new_profile(524288), *again;
	struct estimate live, live_again;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		STACK(profile, (uint32_t)(i % 7), (uint64_t)(24 + 8 * i), 1 + i % 3, "malloc", name, "main");
		profile->sites[i].alloc_bytes = profile->sites[i].live.bytes * 1.37;
		profile->sites[i].alloc_objects = profile->sites[i].live.objects * 1.37;
	}
	end_profile(profile);
	again = round_trip(profile);
	live = profile__live(profile);
	live_again = profile__live(again);
	assert_true(fabs(live.bytes - live_again.bytes) <= 0.5 + 1e-6 * live.bytes / 1e6);
	assert_true(fabs(live.objects - live_again.objects) <= 0.5 + 1e-6);
	assert_int_equal(live.samples, live_again.samples);
	assert_int_equal(live.sampled_bytes, live_again.sampled_bytes);
	assert_near(live_again.variance, live.variance, 1e-6);
	assert_near(estimate__interval(&live_again).low, estimate__interval(&live).low, 1e-5);
	assert_near(estimate__interval(&live_again).high, estimate__interval(&live).high, 1e-5);
	profile__free(again);
	profile__free(profile);
}

/* What no integer can hold does not overflow, in any sum of all samples. */
static void huge_numbers_saturate(void **state)
{
	struct profile *profile = new_profile(65536), *again;

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "f");
	STACK(profile, 1, 100, 1, "malloc", "g");
	for (int i = 0; i < 2; i++) {
		profile->sites[i].live.variance = 1e300;
		profile->sites[i].live.variance_max = 1e300;
		profile->sites[i].growth = (struct growth){1e300, -1e300, 1e300};
	}
	profile->has_growth = true;
	end_profile(profile);
	again = round_trip(profile);
	for (int i = 0; i < 2; i++) {
		assert_true(again->sites[i].live.variance >= 0);
		assert_true(again->sites[i].growth.bytes_per_s > 1e14);
		assert_true(again->sites[i].growth.low < -1e14);
	}
	profile__free(again);
	profile__free(profile);
}

/* Collapsed -> pprof -> collapsed: what was not known is not known still. */
static void what_was_unknown_stays_unknown(void **state)
{
	static const char text[] = "main;f 10\nmain;g 5\n";
	struct profile *profile = decoded(text), *again = round_trip(profile);
	char *collapsed = encoded(encode_collapsed, again);

	(void)state;
	assert_string_equal(collapsed, text);
	assert_true(again->no_objects && again->no_allocated && again->leaf_holds);
	assert_int_equal(again->interval_bytes, 0);
	assert_null(again->mode);
	free(collapsed);
	profile__free(again);
	profile__free(profile);
}

#define GOOD TABLES PERIOD STRINGS

static void what_is_wrong_is_told(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text;
	} cases[] = {
#define CASE(bytes, text) {bytes, sizeof(bytes) - 1, text}
		CASE("\x0a\x7f\x00", "FILE: byte 0: a field is longer than what is left (what is no text is read as pprof)"),
		CASE("\x08", "FILE: byte 1: a number is cut short (what is no text is read as pprof)"),
		CASE("\x0b\x00", "FILE: byte 0: no field of a pprof profile (what is no text is read as pprof)"),
		CASE("\x02\x00", "FILE: byte 0: no field of a pprof profile (what is no text is read as pprof)"),
		CASE("\x7f" "ELF\x02\x01\x01\0", "FILE: byte 0: no field of a pprof profile (what is no text is read as pprof)"),
		CASE("\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		     "FILE: byte 1: a number is longer than 64 bits (what is no text is read as pprof)"),
		CASE("\x32\x00", "FILE: is neither a pprof profile (it has no sample_type), nor heap_v2, "
				 "nor collapsed stacks"),
		CASE("\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x03" "cpu\x32\x0bnanoseconds",
		     "FILE: is a pprof profile of something else (cpu): it has no inuse_space in bytes"),
		CASE(TYPES "\x12\x06\x0a\x01\x2d\x12\x01\x01" GOOD,
		     "FILE: byte 14: a location that is not there"),
		CASE(TYPES "\x12\x06\x0a\x01\x2c\x12\x01\x01" GOOD,
		     "FILE: byte 12: a sample with fewer values than types of them"),
		CASE(TYPES "\x12\x08\x0a\x01\x2c\x12\x03\x01\x01\x01" GOOD,
		     "FILE: byte 17: a sample with more values than types of them"),
		CASE(TYPES "\x12\x10\x0a\x01\x2c\x12\x0b\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" GOOD,
		     "FILE: byte 12: a negative value: it is the difference of two profiles"),
		CASE(TYPES "\x12\x0d\x0a\x01\x2c\x12\x02\x01\x01\x1a\x04\x08\x63\x10\x0c" GOOD,
		     "FILE: byte 23: a text that is not in the table of strings"),
		CASE(TYPES GOOD "\x22\x02\x08\x2a", "FILE: byte 204: an id that is there twice"),
		CASE(TYPES GOOD "\x22\x02\x18\x2a",
		     "FILE: byte 202: an entry of a table without an id"),
		CASE(TYPES GOOD "\x22\x04\x08\x2d\x10\x06",
		     "FILE: byte 206: a mapping that is not there"),
		CASE(TYPES GOOD "\x22\x06\x08\x2d\x22\x02\x08\x07\x12\x07\x0a\x01\x2d\x12\x02\x01\x01",
		     "FILE: byte 206: a function that is not there"),
		CASE(TYPES GOOD "\x20\x01", "FILE: byte 202: a number where a message is due (what is no text is read as pprof)"),
		CASE(TYPES GOOD "\x4a\x01\x00", "FILE: byte 202: bytes where a number is due (what is no text is read as pprof)"),
#undef CASE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused_bytes(cases[i].bytes, cases[i].len, cases[i].text);
}

/* Merged profiles: one mapping over another, and two locations at one address. */
static void odd_addresses_do_no_harm(void **state)
{
	static const char odd[] = TYPES
		"\x12\x09\x0a\x03\x2a\x2c\x2e\x12\x02\x01\x05" /* 42 44 46 */
		TABLES PERIOD STRINGS
		"\x1a\x0a\x08\x06\x10\x80\x30\x18\x80\x50\x28\x08" /* mapping 6: 0x1800 to 0x2800 */
		"\x22\x07\x08\x2e\x10\x06\x18\x90\x40"	       /* 46: 0x2010, in 6 */
		"\x22\x07\x08\x2f\x10\x05\x18\x90\x20"	       /* 47: 0x1010, as 42 */
		"\x12\x07\x0a\x01\x2f\x12\x02\x01\x03";
	struct profile *profile = decoded_bytes(odd, sizeof(odd) - 1);

	(void)state;
	assert_int_equal(profile->n_mappings, 1);
	assert_site(profile, 0, 5, 1, "main.f < prog+0x30 < prog+0x810");
	assert_site(profile, 1, 3, 1, "prog+0x10");
	profile__free(profile);
}

static void damage_does_no_harm(void **state)
{
	struct profile *profile = rich();
	size_t len;
	char *bytes = packed(profile, &len);
	uint8_t *plain = malloc(1 << 16);
	uLongf plain_len;
	z_stream zip = {.next_in = (Bytef *)bytes,
			.avail_in = (uInt)len,
			.next_out = plain,
			.avail_out = 1 << 16};

	(void)state;
	assert_int_equal(inflateInit2(&zip, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	plain_len = zip.total_out;
	inflateEnd(&zip);
	survives_damage((const uint8_t *)foreign, sizeof(foreign) - 1, 3000);
	survives_damage(plain, plain_len, 3000);
	/* gzip's sums see it all */
	for (size_t i = 0; i < len; i++)
		assert_false(survives((const uint8_t *)bytes, i));
	assert_refused_bytes(bytes, 20, "FILE: byte 20: the gzip stream was cut short: its end is missing");
	bytes[len - 8] ^= 1;
	assert_false(survives((const uint8_t *)bytes, len));
	bytes[len - 8] ^= 1;
	/* two files, one after the other, are one message */
	bytes = realloc(bytes, 2 * len);
	memcpy(bytes + len, bytes, len);
	assert_false(survives((const uint8_t *)bytes, 2 * len)); /* ids are there twice */
	free(plain);
	free(bytes);
	profile__free(profile);
}

/* 300 MiB of zeros in little more than one. */
static void bombs_are_refused(void **state)
{
	size_t room = 1 << 21, chunk = 1 << 20;
	uint8_t *bytes = malloc(room), *zeros = calloc(1, chunk);
	z_stream zip = {};

	(void)state;
	assert_int_equal(deflateInit2(&zip, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
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

/* A profile with these lines of a message, whose strings are those of STRINGS, and behind them one of len 'n'. */
static struct text with_long_string(size_t len)
{
	const uint8_t head[] = {0x32, (uint8_t)(0x80 | len), (uint8_t)(0x80 | len >> 7), (uint8_t)(len >> 14)};
	struct text text = {};
	char *name = malloc(len);

	memset(name, 'n', len);
	text_write(&text, TYPES STRINGS, sizeof(TYPES STRINGS) - 1);
	text_write(&text, head, sizeof(head));
	text_write(&text, name, len); /* number 13 */
	free(name);
	return text;
}

/* Location and sample number i < 2^14, with these fields of the location. */
static void put_place(struct text *text, unsigned i, const char *fields, size_t len)
{
	const uint8_t location[] = {0x22, (uint8_t)(3 + len), 0x08, (uint8_t)(0x80 | i), (uint8_t)(i >> 7)};
	const uint8_t sample[] = {0x12, 0x08, 0x0a, 0x02, (uint8_t)(0x80 | i), (uint8_t)(i >> 7), 0x12, 0x02, 0x01, 0x01};

	text_write(text, location, sizeof(location));
	text_write(text, fields, len);
	text_write(text, sample, sizeof(sample));
}

static const char too_much_memory[] = "names and tables take more memory than any profile does";

/* What it takes to refuse the file is far less than what reading it would take. */
static void assert_takes_too_much(const struct text *text, uint64_t bytes)
{
	const struct decode_limits limits = LIMITS(bytes, bytes), more = LIMITS(bytes, 4 * bytes);
	struct profile *profile = NULL;
	struct error err = {};

	assert_int_equal(decode_within(&limits, "FILE", text->bytes, text->len, &profile, &err), -EFBIG);
	if (!strstr(err.text, too_much_memory))
		fail_msg("%s", err.text);
	assert_int_equal(decode_within(&more, "FILE", text->bytes, text->len, &profile, &err), 0);
	/* counted is at least what is held */
	assert_true(profile__bytes(profile) > bytes / 4);
	profile__free(profile);
}

/* Many names of one long string: they are not all copied. */
static void names_are_bounded(void **state)
{
	struct text text = with_long_string(65536);

	(void)state;
	text_write(&text, "\x2a\x06\x08\x01\x10\x0d\x20\x0d", 8); /* function 1: name and file */
	for (unsigned i = 1; i <= 1000; i++)
		put_place(&text, i, "\x22\x02\x08\x01", 4);
	assert_takes_too_much(&text, 6 << 20); /* 1000 names and files of 4096 */
	free(text.bytes);
}

/* Nor are those that are made of the path of a mapping. */
static void names_by_offset_are_bounded(void **state)
{
	struct text text = with_long_string(65536);

	(void)state;
	text_write(&text, "\x1a\x09\x08\x05\x10\x00\x18\x80\x40\x28\x0d", 11); /* mapping 5, up to 0x2000 */
	for (unsigned i = 1; i <= 1000; i++)
		put_place(&text, i, "\x10\x05", 2); /* without an address */
	assert_takes_too_much(&text, 3 << 20);
	for (unsigned i = 1; i <= 1000; i++) {
		const char fields[] = {0x10, 0x05, 0x18, (char)(0x80 | i), (char)(i >> 7)};

		put_place(&text, i + 1000, fields, sizeof(fields)); /* at i */
	}
	assert_takes_too_much(&text, 6 << 20);
	free(text.bytes);
}

/* A frame takes more than the letter that is its name. */
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
	assert_takes_too_much(&text, 2 << 20); /* 30,000 of 24 + 32 + 32 bytes */
	less = LIMITS(items, 29999);
	snprintf(error, sizeof(error), "FILE: byte %zu: more lines of locations than any profile has",
		 text.len - 10 - sizeof(lines) - 3); /* the last location, from its id on */
	assert_refused_within(&less, text.bytes, text.len, error);
	free(text.bytes);
}

/* Of everything that a file can have many of there is a last one. */
static void numbers_of_items_are_bounded(void **state)
{
	struct text text = {};
	char error[128];
	size_t last = 0;

	(void)state;
	text_write(&text, TYPES GOOD, sizeof(TYPES GOOD) - 1);
	for (uint8_t i = 1; i <= 30; i++) { /* stack 42, of thread i */
		const uint8_t sample[] = {0x12, 0x0f, 0x0a, 0x01, 0x2a, 0x12, 0x02, 0x01, 0x01,
					  0x1a, 0x06, 0x08, 0x0d, 0x18, i, 0x20, 0x00};

		last = text.len;
		text_write(&text, sample, sizeof(sample));
	}
	text_write(&text, "\x32\x03tid", 5); /* number 13 */
	snprintf(error, sizeof(error), "FILE: byte %zu: more threads than any profile has", last);
	assert_limit(items, 30, text.bytes, text.len, error);
	/* all the same thread: shares are counted */
	for (size_t at = last, i = 0; i < 30; i++, at -= 17)
		text.bytes[at + 14] = 1;
	snprintf(error, sizeof(error), "FILE: byte %zu: more shares of threads in stacks than any profile has", last);
	assert_limit(items, 30, text.bytes, text.len, error);
	text.len = 0;
	text_write(&text, TYPES GOOD, sizeof(TYPES GOOD) - 1);
	for (uint8_t i = 0; i < 30; i++) {
		const uint8_t mapping[] = {0x1a, 0x08, 0x08, (uint8_t)(i + 10), 0x10, (uint8_t)(2 * i),
					   0x18, (uint8_t)(2 * i + 1), 0x28, 0x08};

		last = text.len;
		text_write(&text, mapping, sizeof(mapping));
	}
	snprintf(error, sizeof(error), "FILE: byte %zu: more entries of a table than any profile has", last);
	assert_limit(items, 31, text.bytes, text.len, error);
	free(text.bytes);
}

/* Two stacks of two locations of two functions each. */
static void stacks_are_bounded(void **state)
{
	static const char file[] = TYPES GOOD
		"\x12\x08\x0a\x02\x2b\x2b\x12\x02\x01\x05" "\x12\x09\x0a\x03\x2b\x2b\x2c\x12\x02\x01\x05";
	const size_t len = sizeof(file) - 1;

	(void)state;
	assert_limit(written_frames, 9, file, len, "FILE: its stacks, written out, are longer than any profile's");
	assert_limit(frames, 5, file, len, "FILE: byte 212: more frames in all stacks than any profile has");
	assert_limit(locations, 2, file, len, "FILE: byte 212: more addresses than any profile has");
}

#define MANY "\xff\xff\xff\xff\xff\xff\xff\xff\x3f" /* 2^62 - 1 */

/* What no machine has does not go into any sum. */
static void values_are_bounded(void **state)
{
	static const char file[] = TYPES GOOD "\x12\x0f\x0a\x01\x2a\x12\x0a\x01" MANY "\x12\x07\x0a\x01\x2b\x12\x02\x01\x01",
			  more[] = TYPES GOOD "\x12\x0f\x0a\x01\x2a\x12\x0a\x01" MANY
				   "\x12\x0f\x0a\x01\x2b\x12\x0a\x01" MANY;
	struct profile *profile = decoded_bytes(file, sizeof(file) - 1);

	(void)state;
	assert_near(profile__live(profile).bytes, 0x1p62, 1e-9);
	profile__free(profile);
	assert_refused_bytes(more, sizeof(more) - 1,
			     "FILE: byte 219: up to here it counts more than 2^62 objects or bytes: no machine has them");
}

/* A profile of ours with one sample of 5 bytes, this comment, and this label of that number. */
static struct profile *with(const char *comment, const char *label, int64_t number)
{
	struct text text = {};
	uint8_t sample[32] = "\x12\x00\x0a\x01\x2a\x12\x02\x01\x05\x1a\x00\x08\x0f\x18", *end = sample + 14;
	uint8_t comments[] = {0x6a, 0x03, 13, 14, 16};
	const char *texts[] = {"what: heap", "survival_age_s: 1 2 3 4 5", label, comment};

	for (uint64_t left = (uint64_t)number; left >= 0x80 || end == sample + 14 || left; left >>= 7) {
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
	assert_true(profile->kind_bytes[REGION_OF_STACK] <= 0x1p62);
	profile__free(profile);
	profile = with("live_bytes_of_kind_stack: nan", "x", 1);
	assert_true(profile->kind_bytes[REGION_OF_STACK] == 0);
	profile__free(profile);
	profile = with("windows_s: -1e300", "x", 1);
	assert_true(profile->windows_s == 0);
	profile__free(profile);
	profile = with("resident_change_bytes: -1e300", "x", 1);
	assert_true(profile->resident_change_bytes == -0x1p62);
	profile__free(profile);
}

/* A number that no thread of the kernel's can have is no other thread's. */
static void large_tids_are_kept_apart(void **state)
{
	static const char file[] = TYPES GOOD "\x32\x03tid"
		"\x12\x0f\x0a\x01\x2a\x12\x02\x01\x05\x1a\x06\x08\x0d\x18\x07\x20\x00"
		"\x12\x13\x0a\x01\x2a\x12\x02\x01\x05\x1a\x0a\x08\x0d\x18\x87\x80\x80\x80\x10\x20\x00"  /* 2^32 + 7 */
		"\x12\x13\x0a\x01\x2a\x12\x02\x01\x05\x1a\x0a\x08\x0d\x18\x87\x80\x80\x80\x20\x20\x00"; /* 2^33 + 7 */
	struct profile *profile = decoded_bytes(file, sizeof(file) - 1);

	(void)state;
	assert_int_equal(profile->n_threads, 3);
	assert_int_equal(profile->threads[0].tid, 7);
	assert_int_equal(profile->sites[0].n_threads, 3);
	for (int i = 0; i < 3; i++)
		assert_near(profile->sites[0].threads[i].bytes, 5, 1e-9);
	profile__free(profile);
}

/* One location with 16384 lines of a function that has no name, but 1 MiB of what no function has: it
 * is read once, and not for each of them, which would be 16 GiB. */
static void functions_are_read_once(void **state)
{
	const uint8_t function[] = {0x2a, 0x82, 0x80, 0x40, 0x08, 0x01}; /* 1, and 1 MiB */
	const uint8_t location[] = {0x22, 0x82, 0x80, 0x04, 0x08, 0x01}; /* 1, and 64 KiB */
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
		cmocka_unit_test(others_profiles_are_read),
		cmocka_unit_test(all_of_our_own_comes_back),
		cmocka_unit_test(regions_and_growth_come_back),
		cmocka_unit_test(totals_are_kept),
		cmocka_unit_test(huge_numbers_saturate),
		cmocka_unit_test(what_was_unknown_stays_unknown),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(odd_addresses_do_no_harm),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(bombs_are_refused),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(names_by_offset_are_bounded),
		cmocka_unit_test(small_frames_are_counted),
		cmocka_unit_test(numbers_of_items_are_bounded),
		cmocka_unit_test(stacks_are_bounded),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(what_cannot_be_is_cut),
		cmocka_unit_test(large_tids_are_kept_apart),
		cmocka_unit_test(functions_are_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
