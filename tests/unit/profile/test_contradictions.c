// SPDX-License-Identifier: BSD-2-Clause
/* Profiles made by hand. Each contradicts itself in one way, or nearly does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "profile/contradictions.h"

#define MIB (1 << 20)

/* 300 blocks of 1 MiB were allocated within 100 s; 100 of them are live. */
static struct profile *sound(uint64_t interval)
{
	struct profile *p = profile__new();
	size_t site, thread;

	assert_non_null(p);
	p->what = PROFILE_HEAP;
	p->mode = MODE_CONTINUOUS;
	p->interval_bytes = interval;
	p->duration_s = 100;
	p->n_live_threads = 1;
	assert_int_equal(profile__add_site(p, (uint64_t[]){0x10, 0x20}, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(p, 7, "main", &thread), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(profile__add_live(p, site, thread, MIB), 0);
	p->sites[site].alloc_bytes = 3 * p->sites[site].live.bytes;
	p->sites[site].alloc_objects = 3 * p->sites[site].live.objects;
	p->sites[site].freed_bytes = 2 * p->sites[site].live.bytes;
	p->sites[site].freed_objects = 2 * p->sites[site].live.objects;
	assert_int_equal(profile__sort(p), 0);
	return p;
}

static void assert_none(const struct profile *p)
{
	struct contradictions all = profile__contradictions(p);

	if (all.n)
		fail_msg("%s: %g, %g", contradiction_rule__name(all.at[0].rule), all.at[0].figure,
			 all.at[0].fact);
}

static void assert_one(const struct profile *p, enum contradiction_rule rule, bool sure,
		       double figure, double fact)
{
	struct contradictions all = profile__contradictions(p);

	assert_int_equal(all.n, 1);
	assert_int_equal(all.at[0].rule, rule);
	assert_int_equal(all.at[0].sure, sure);
	assert_true(fabs(all.at[0].figure - figure) <= 1e-9 * fabs(figure));
	assert_true(fabs(all.at[0].fact - fact) <= 1e-9 * fabs(fact));
}

static void a_sound_profile_has_none(void **state)
{
	static const uint64_t intervals[] = {1, 4096, 512 << 10};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct profile *p = sound(intervals[i]);

		p->rss_end_bytes = 150ULL * MIB;
		p->peak.known = true;
		p->sites[0].peak_bytes = 1.5 * p->sites[0].live.bytes;
		assert_none(p);
		assert_true(profile__is_surely_exact(p) == (intervals[i] == 1));
		profile__free(p);
	}
}

/* A heap was destroyed as a whole, and no probe saw its blocks end. In such a run memtrace once
 * reported 599 objects of 1.4 MiB as exact figures. */
static void frees_that_nobody_saw(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	assert_int_equal(profile__add_lost(p, "freed_unobserved", 25201), 0);
	assert_one(p, CONTRADICTION_FREES_UNSEEN, false, 100, 25201);
	assert_true(profile__is_upper_bound(p));
	assert_false(profile__is_lower_bound(p));
	assert_true(profile__is_exact(p));
	assert_false(profile__is_surely_exact(p));
	p->mode = MODE_WINDOWED; /* windows miss frees anyway */
	assert_none(p);
	assert_false(profile__is_upper_bound(p));
	p->mode = MODE_CONTINUOUS;
	p->what = PROFILE_FAULTS; /* pages can become free without a call */
	assert_none(p);
	assert_true(profile__is_surely_exact(p));
	p->what = PROFILE_REGIONS; /* the counter concerns the heap only */
	p->regions.kind_bytes[0] = 0;
	assert_true(profile__is_surely_exact(p));
	assert_int_equal(profile__contradictions(p).n, 0);
	p->what = PROFILE_HEAP;
	p->mode = MODE_UNKNOWN; /* another tool's file */
	assert_none(p);
	profile__free(p);
}

static void blocks_that_nobody_saw(void **state)
{
	static const char *const counters[] = {"result_unknown", "allocators_refused"};
	struct profile *p;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		p = sound(1);
		assert_int_equal(profile__add_lost(p, counters[i], 3), 0);
		assert_one(p, CONTRADICTION_BLOCKS_UNSEEN, false, 100, 3);
		assert_true(profile__is_lower_bound(p));
		assert_false(profile__is_upper_bound(p));
		assert_false(profile__is_surely_exact(p));
		profile__free(p);
	}
	p = sound(1);
	assert_int_equal(profile__add_lost(p, "main_thread_ended", 1), 0);
	assert_one(p, CONTRADICTION_PROBES_SILENT, false, 100, 1);
	assert_true(profile__is_lower_bound(p));
	assert_true(profile__is_upper_bound(p));
	assert_false(profile__is_surely_exact(p));
	p->interval_bytes = 512 << 10; /* sampled blocks may have been freed since */
	assert_true(profile__is_upper_bound(p));
	p->mode = MODE_WINDOWED; /* later windows saw nothing */
	assert_true(profile__is_upper_bound(p));
	profile__free(p);
	p = sound(1);
	assert_int_equal(profile__add_lost(p, "exec_untraced", 1), 0);
	assert_true(profile__is_lower_bound(p));
	profile__free(p);
	p = sound(1);
	assert_int_equal(profile__add_lost(p, "allocators_late", 1), 0);
	assert_true(profile__is_lower_bound(p));
	assert_false(profile__misses_calls(p)); /* later growth is seen */
	assert_false(profile__is_surely_exact(p));
	p->mode = MODE_WINDOWED; /* a window misses calls, too, and its estimate knows that */
	assert_false(profile__is_lower_bound(p));
	profile__free(p);
}

/* Windows account for times without probes. Continuous tracing does not account for them, so
 * withdrawn probes make a contradiction. */
static void probes_that_were_withdrawn(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	assert_true(profile__is_surely_exact(p));
	p->withdrawals = 2;
	assert_one(p, CONTRADICTION_PROBES_WITHDRAWN, false, 100, 2);
	assert_true(profile__is_lower_bound(p));
	assert_true(profile__is_upper_bound(p));
	assert_false(profile__is_surely_exact(p));
	p->interval_bytes = 512 << 10; /* blocks that were freed meanwhile still count as live */
	assert_true(profile__is_lower_bound(p));
	assert_true(profile__is_upper_bound(p));
	p->mode = MODE_WINDOWED;
	assert_none(p);
	assert_false(profile__is_lower_bound(p));
	profile__free(p);
}

/* An allocation that is not finished at the end is no block yet. Samples for which a table had no
 * room are reported elsewhere. */
static void counters_that_contradict_nothing(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	assert_int_equal(profile__add_lost(p, "returns_missing", 2), 0);
	assert_int_equal(profile__add_lost(p, "dropped_by_exec", 200), 0);
	assert_none(p);
	assert_true(profile__is_surely_exact(p));
	p->dropped = 5;
	assert_none(p);
	assert_false(profile__is_surely_exact(p));
	profile__free(p);
}

/* Makes live bytes like those of windows: with a standard error, and without bytes that are known
 * for certain. */
static void make_unsure(struct profile *p, double error_bytes)
{
	p->sites[0].live.variance = error_bytes * error_bytes;
	p->sites[0].live.sampled_bytes = 0;
}

static void more_is_live_than_was_allocated(void **state)
{
	struct profile *p = sound(1);
	struct profile_site *site = &p->sites[0];

	(void)state;
	site->freed_bytes = 203.0 * MIB; /* tables are read one after another, within a second */
	assert_none(p);
	site->freed_bytes = 250.0 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_ALLOCATED, false, 100.0 * MIB, 50.0 * MIB);
	site->freed_bytes = 0;
	site->alloc_bytes = 90.0 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_ALLOCATED, true, 100.0 * MIB, 90.0 * MIB);
	p->mode = MODE_WINDOWED;
	make_unsure(p, 20.0 * MIB);
	assert_none(p);
	site->alloc_bytes = 20.0 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_ALLOCATED, false, 100.0 * MIB, 20.0 * MIB);
	p->no_allocated = true;
	assert_none(p);
	profile__free(p);
}

static void more_is_live_than_is_mapped(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	p->mode = MODE_WINDOWED;
	make_unsure(p, 20.0 * MIB);
	p->windows.heap_mapped_bytes = 100.0 * MIB;
	assert_none(p);
	p->windows.heap_mapped_bytes = 90.0 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_MAPPED, false, 100.0 * MIB, 90.0 * MIB);
	p->windows.heap_mapped_bytes = 30.0 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_MAPPED, true, 100.0 * MIB, 30.0 * MIB);
	profile__free(p);
}

static void more_is_live_than_is_resident(void **state)
{
	struct resident_row rows[] = {{.kind = RESIDENT_HEAP_LIVE, .bytes = 100 * MIB},
				      {.kind = RESIDENT_HEAP, .swap = 30 * MIB}};
	struct resident r = {.rows = rows, .n = 2, .heap_bytes = 70 * MIB, .heap_split = true};
	struct profile *p = sound(1);

	(void)state;
	p->rss_end_bytes = 99ULL * MIB; /* RSS was read a second earlier */
	assert_none(p);
	p->rss_end_bytes = 40ULL * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_RESIDENT, false, 100.0 * MIB, 40.0 * MIB);
	p->resident = &r; /* the resident set is more exact than RSS and includes swap */
	assert_none(p);
	rows[1].swap = 10 * MIB;
	assert_one(p, CONTRADICTION_LIVE_ABOVE_RESIDENT, false, 100.0 * MIB, 80.0 * MIB);
	p->resident = NULL;
	p->ended = true;
	assert_none(p);
	p->ended = false;
	make_unsure(p, 40.0 * MIB); /* the interval reaches down to the RSS */
	assert_none(p);
	profile__free(p);
}

static void stacks_grow_by_more_than_the_process(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	p->growth.stacks_known = true;
	p->growth.bytes_per_s = optional__of(1.0 * MIB);
	p->growth.attributed = p->sites[0].growth = (struct growth){1.01 * MIB, MIB, 1.02 * MIB};
	assert_none(p);
	p->growth.regions = 0.5 * MIB; /* regions explain half of the growth */
	assert_one(p, CONTRADICTION_GROWTH_ABOVE_PROCESS, false, 1.0 * MIB, 0.5 * MIB);
	p->growth.regions = 0;
	p->growth.bytes_per_s = optional__of(-1.0 * MIB);
	assert_one(p, CONTRADICTION_GROWTH_ABOVE_PROCESS, false, 1.0 * MIB, -1.0 * MIB);
	p->growth.bytes_per_s = (struct optional){};
	assert_none(p);
	p->growth.bytes_per_s =
		optional__of(0); /* the allocator has free memory for a few blocks */
	p->growth.attributed = p->sites[0].growth = (struct growth){2000, 2000, 2000};
	assert_none(p);
	p->growth.attributed = p->sites[0].growth =
		(struct growth){1.0 * MIB, -1, 2.0 * MIB}; /* the growth may be 0 */
	assert_none(p);
	profile__free(p);
}

static void rows_do_not_add_up(void **state)
{
	struct profile *p = sound(1);

	(void)state;
	p->growth.stacks_known = true;
	p->growth.bytes_per_s = (struct optional){};
	p->growth.attributed = (struct growth){1000, 900, 1100};
	p->sites[0].growth = (struct growth){995, 900, 1100};
	assert_none(p);
	p->sites[0].growth.bytes_per_s = 2000;
	assert_one(p, CONTRADICTION_GROWTH_OF_ROWS, true, 2000, 1000);
	p->sites[0].growth = (struct growth){NAN, NAN, NAN};
	assert_one(p, CONTRADICTION_GROWTH_OF_ROWS, true, 0, 1000);
	/* a filtered profile need not add up */
	assert_int_equal(profile__add_lost(p, LOST_FILTERED, 1), 0);
	assert_none(p);
	profile__free(p);
	p = sound(1);
	p->what = PROFILE_REGIONS;
	p->regions.kind_bytes[0] = 60.0 * MIB;
	p->regions.kind_bytes[1] = 40.0 * MIB;
	assert_none(p);
	p->regions.kind_bytes[1] = 30.0 * MIB;
	assert_one(p, CONTRADICTION_KINDS_OF_REGIONS, true, 90.0 * MIB, 100.0 * MIB);
	assert_int_equal(profile__add_lost(p, LOST_FILTERED, 1), 0);
	assert_none(p);
	profile__free(p);
	/* a filter by thread or age may leave out a part of each stack, without leaving out a whole
	 * stack */
	p = sound(1);
	p->what = PROFILE_REGIONS;
	p->regions.kind_bytes[0] = 200.0 * MIB;
	assert_one(p, CONTRADICTION_KINDS_OF_REGIONS, true, 200.0 * MIB, 100.0 * MIB);
	assert_int_equal(profile__add_lost(p, LOST_FILTERED_BYTES, 100ULL * MIB), 0);
	assert_none(p);
	profile__free(p);
	p = sound(1);
	p->sites[0].threads[0].bytes = 101.5 * MIB; /* allowed: 1 % and one block */
	assert_none(p);
	p->sites[0].threads[0].bytes = 103.0 * MIB;
	assert_one(p, CONTRADICTION_THREADS_ABOVE_STACK, true, 103.0 * MIB, 100.0 * MIB);
	profile__free(p);
}

static void the_highest_moment_is_not_the_highest(void **state)
{
	struct profile *p = sound(1);
	size_t thread;

	(void)state;
	p->peak.known = true;
	p->sites[0].peak_bytes = 96.0 * MIB;
	assert_none(p);
	p->sites[0].peak_bytes = 94.0 * MIB;
	assert_one(p, CONTRADICTION_PEAK_BELOW_LIVE, true, 94.0 * MIB, 100.0 * MIB);
	assert_int_equal(profile__add_thread(p, 8, "other", &thread), 0);
	assert_one(p, CONTRADICTION_PEAK_BELOW_LIVE, false, 94.0 * MIB, 100.0 * MIB);
	p->peak.known = false;
	assert_none(p);
	profile__free(p);
}

static void several_at_once(void **state)
{
	struct profile *p = sound(1);
	struct contradictions all;

	(void)state;
	assert_int_equal(profile__add_lost(p, "freed_unobserved", 1), 0);
	p->rss_end_bytes = MIB;
	p->sites[0].alloc_bytes = p->sites[0].freed_bytes = 0;
	all = profile__contradictions(p);
	assert_int_equal(all.n, 3);
	assert_string_equal(contradiction_rule__name(all.at[0].rule), "frees_unseen");
	assert_string_equal(contradiction_rule__name(all.at[1].rule), "live_above_allocated");
	assert_string_equal(contradiction_rule__name(all.at[2].rule), "live_above_resident");
	profile__free(p);
}

/* Blocks of functions that cannot be probed are missing, and so are the blocks of a process that
 * was selected but not traced. */
static void what_is_not_probed(void **state)
{
	static const char *const counters[] = {"functions_refused", "not_traced"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct profile *p = sound(1);

		assert_int_equal(profile__add_lost(p, counters[i], 1), 0);
		assert_true(profile__is_lower_bound(p));
		assert_false(profile__is_surely_exact(p));
		if (!i)
			assert_one(p, CONTRADICTION_BLOCKS_UNSEEN, false, 100, 1);
		profile__free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_profile_has_none),
		cmocka_unit_test(frees_that_nobody_saw),
		cmocka_unit_test(blocks_that_nobody_saw),
		cmocka_unit_test(probes_that_were_withdrawn),
		cmocka_unit_test(what_is_not_probed),
		cmocka_unit_test(counters_that_contradict_nothing),
		cmocka_unit_test(more_is_live_than_was_allocated),
		cmocka_unit_test(more_is_live_than_is_mapped),
		cmocka_unit_test(more_is_live_than_is_resident),
		cmocka_unit_test(stacks_grow_by_more_than_the_process),
		cmocka_unit_test(rows_do_not_add_up),
		cmocka_unit_test(the_highest_moment_is_not_the_highest),
		cmocka_unit_test(several_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
