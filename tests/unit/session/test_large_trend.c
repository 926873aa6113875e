// SPDX-License-Identifier: BSD-2-Clause
/* How lists of large blocks correct the figures of windows. The figures of windows are invented,
 * and the results are worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "session/large_trend.h"

#define S	1000000000ULL
#define PROCESS 7
#define MIB	(1ULL << 20)
#define TABLE	0x7f0000000010
#define OTHER	0x7e0000000010
#define BRK	0x550000001000

static const struct abi_site_key keys[] = {
	{.stack = {.lo = 1, .hi = 2}, .process = PROCESS},
	{.stack = {.lo = 3, .hi = 4}, .process = PROCESS},
};

struct fixture {
	struct target target;
	struct abi_site sites[2];
	size_t site_of[2];
	struct process_sites process;
	struct build build;
	struct windowed_result results[2];
	struct large_block before[16], after[16];
	struct large_trend trend;
};

static int read_nothing(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx, (void)reads, (void)n;
	return 0;
}

/* A window, or a stretch of continuous tracing, sees a block of `size` bytes at each of the
 * addresses. Stack `i` allocates them. interval: the sampling interval. */
static void see_at(struct fixture *f, size_t i, uint64_t size, uint32_t birth, size_t n,
		   const uint64_t *addrs, bool continuous, uint64_t interval)
{
	struct survivors *s = &f->target.budget.survivors;
	uint64_t at = (2 + s->n_windows) * S;
	const struct survivors_window window = {.start_ns = at,
						.end_ns = at + S / 50,
						.allocs = 100,
						.continuous = continuous,
						.interval = interval};
	struct abi_live live[4];

	for (size_t k = 0; k < n; k++)
		live[k] = (struct abi_live){.stack = keys[i].stack,
					    .birth_ns = at + 1000,
					    .size = size,
					    .interval = interval,
					    .birth = birth};
	assert_int_equal(
		survivors__meet(s, &window, window.end_ns, addrs, live, n, read_nothing, NULL), 0);
	net_clock__add(&f->target.budget.clock, window.end_ns, 0, 0, NAN, NET_CLOCK_ENDS);
	assert_int_equal(survivors__harvest(s, &f->target.budget.clock), 0);
}

static void see(struct fixture *f, size_t i, uint64_t size, uint32_t birth, size_t n,
		const uint64_t *addrs)
{
	see_at(f, i, size, birth, n, addrs, false, 1024);
}

static void begin(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	survivors__init(&f->target.budget.survivors, (const uint64_t[2]){1, 2});
	f->process = (struct process_sites){
		.keys = keys, .sites = f->sites, .n = 2, .site_of = f->site_of};
	f->build = (struct build){.target = &f->target, .begin_ns = S, .end_ns = 31 * S};
	f->target.large.before.at = f->before;
	f->target.large.after.at = f->after;
	f->target.large.after.jemalloc = true;
	f->target.heap_bound_bytes = 1ULL << 40;
	f->target.large.since_ns = S;
	f->target.large.known = f->target.large.complete = true;
	f->results[0] = (struct windowed_result){.live_bytes = 2560.0 * MIB,
						 .live_objects = 20,
						 .live_variance = 1e18,
						 .live_common = 1e8,
						 .growth = {1e8, -1e8, 3e8}};
}

static void after(struct fixture *f, uint64_t addr, uint64_t size)
{
	f->after[f->target.large.after.n++] = (struct large_block){addr, size};
}

static void correct(struct fixture *f)
{
	assert_int_equal(large_trend__correct(&f->build, &f->process, f->results, &f->trend), 0);
}

static void end(struct fixture *f)
{
	survivors__free(&f->target.budget.survivors);
	net_clock__free(&f->target.budget.clock);
}

static const struct profile_site *add(struct fixture *f, struct profile *p, double vectors)
{
	size_t before = p->n_sites;

	assert_int_equal(large_trend__add(&f->build, p, &f->trend, vectors), 0);
	return p->n_sites > before ? &p->sites[before] : NULL;
}

static struct fixture f;

static int set_up(void **state)
{
	(void)state;
	begin(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end(&f);
	return 0;
}

/* A block that stands for twenty is one block if no other one lives. */
static void what_a_window_saw_counts_once(void **state)
{
	(void)state;
	see(&f, 0, 128 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	after(&f, TABLE, 128 * MIB);
	correct(&f);
	assert_true(f.trend.known);
	assert_true(f.trend.unseen == 0 && f.trend.rest == 0);
	assert_true(f.results[0].live_bytes == 128.0 * MIB);
	assert_true(fabs(f.results[0].live_objects - 1) < 1e-9);
	assert_true(f.results[0].live_variance < 1 && f.results[0].live_common < 1);
	assert_true(f.results[0].least == 128.0 * MIB && f.results[0].most == 128.0 * MIB);
	assert_true(fabs(f.results[0].growth.bytes_per_s - 5e6) < 1);
	assert_true(f.results[1].live_bytes == 0);
}

/* The block is gone, though no window saw its end. */
static void what_is_gone_does_not_count(void **state)
{
	(void)state;
	see(&f, 0, 128 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	correct(&f);
	assert_true(f.trend.known);
	assert_true(f.results[0].live_bytes == 0);
}

/* The table's first bytes have changed, so its contents look as if the table were gone. But it
 * lives. */
static void what_has_changed_still_lives(void **state)
{
	(void)state;
	see(&f, 0, 128 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	f.target.budget.survivors.blocks[0].changed = true;
	f.results[0] = (struct windowed_result){.by = SURVIVAL_CONTENTS};
	after(&f, TABLE, 128 * MIB);
	correct(&f);
	assert_true(f.results[0].live_bytes == 128.0 * MIB && f.results[0].live_objects == 1);
	assert_true(fabs(f.results[0].growth.bytes_per_s - 128.0 * MIB / 30) < 1);
	assert_true(f.results[0].growth.low == 0);
	assert_true(f.trend.unseen == 0);
}

/* Two large blocks live. Windows saw the stack make one, and it may have made the other one,
 * too. */
static void what_no_window_saw_is_shared_out(void **state)
{
	(void)state;
	see(&f, 0, 2 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	f.results[0].live_bytes = 40.0 * MIB;
	f.results[0].alloc_bytes = 60.0 * MIB;
	after(&f, OTHER, 8 * MIB);
	after(&f, TABLE, 2 * MIB);
	correct(&f);
	assert_true(f.trend.unseen == 8.0 * MIB && f.trend.blocks == 1);
	assert_true(fabs(f.results[0].live_bytes - 10.0 * MIB) < MIB / 100.0);
	/* the bytes that the stack freed are still 20 MiB */
	assert_true(fabs(f.results[0].alloc_bytes - 30.0 * MIB) < MIB / 100.0);
	assert_true(f.results[0].least == 2.0 * MIB && f.results[0].most == 10.0 * MIB);
	assert_true(fabs(f.trend.rest) < 1);
}

/* Half of the bytes that a stack allocates are in small blocks. The share of small blocks in its
 * live bytes is not known well enough to correct the live bytes. But the large blocks that it
 * probably holds do not belong to the rest. */
static void a_mixed_stack_stays(void **state)
{
	(void)state;
	see(&f, 0, 2 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	see(&f, 0, MIB / 2, BIRTH_NEW, 4,
	    (const uint64_t[]){0x1000000, 0x2000000, 0x3000000, 0x4000000});
	f.results[0].live_bytes = 20.0 * MIB;
	after(&f, OTHER, 12 * MIB);
	after(&f, TABLE, 2 * MIB);
	correct(&f);
	assert_true(f.results[0].live_bytes == 20.0 * MIB);
	assert_true(f.results[0].least == 2.0 * MIB && f.results[0].most == 0);
	assert_true(fabs(f.trend.rest - 4.0 * MIB) < MIB / 100.0);
	assert_true(f.trend.error > 0);
}

/* Every block that a window saw has ended, but the stack makes more of them. */
static void what_ended_has_successors(void **state)
{
	(void)state;
	see(&f, 0, 64 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	f.target.budget.survivors.blocks[0].ended = true;
	f.results[0].live_bytes = 70.0 * MIB;
	after(&f, OTHER, 64 * MIB);
	correct(&f);
	assert_true(fabs(f.results[0].live_bytes - 64.0 * MIB) < MIB / 100.0);
	assert_true(fabs(f.trend.rest) < 1);
}

/* A stretch of continuous tracing with a coarse interval has sampled one block of sixteen. The
 * others are in both lists, as if they were older than the run. */
static void what_a_stretch_did_not_sample_counts(void **state)
{
	(void)state;
	see_at(&f, 0, 2 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE}, true, 32 * MIB);
	f.target.large.since_ns = 10 * S;
	f.results[0].live_bytes = 33.0 * MIB; /* 2 MiB / (1 - exp(-1/16)) */
	for (uint64_t i = 0; i < 16; i++) {
		after(&f, TABLE + i * 4 * MIB, 2 * MIB);
		f.before[i] = f.after[i];
	}
	f.target.large.before.n = 16;
	correct(&f);
	/* all 16 blocks */
	assert_true(fabs(f.results[0].live_bytes - 32.0 * MIB) < MIB / 10.0);
	assert_true(sqrt(f.results[0].live_variance) > 20.0 * MIB);
	assert_true(f.results[0].least == 2.0 * MIB && f.results[0].most == 32.0 * MIB);
	assert_true(f.trend.unseen == 0);
}

/* Two stacks may have made one block, and neither surely has. The stack with the share of 0.4
 * blocks is said to hold nothing, so its share belongs to the rest. */
static void thirds_of_a_block_are_the_rest(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		see(&f, i, 40 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE + i * 64 * MIB});
		f.target.budget.survivors.blocks[i].ended = true;
		f.results[i] = (struct windowed_result){.live_bytes = 20.0 * MIB * (double)(3 - i),
							.live_objects = 1};
	}
	after(&f, OTHER, 40 * MIB);
	correct(&f);
	/* 60 and 40 share 40: 24 (0.6 blocks) and 16 (0.4 blocks) */
	assert_true(fabs(f.results[0].live_bytes - 24.0 * MIB) < MIB / 10.0);
	assert_true(fabs(f.trend.rest - 16.0 * MIB) < MIB / 10.0);
}

/* Windows saw realloc make the block, so only the figures of vectors contain it. It is not
 * subtracted from the blocks that no window saw. */
static void a_seen_vector_is_not_the_rest(void **state)
{
	struct profile *p = profile__new();
	const struct profile_site *site;

	(void)state;
	assert_non_null(p);
	see(&f, 1, 100 * MIB, BIRTH_GROWN, 1, (const uint64_t[]){TABLE});
	after(&f, OTHER, 128 * MIB);
	after(&f, TABLE, 100 * MIB);
	correct(&f);
	assert_true(f.trend.unseen == 128.0 * MIB);
	assert_int_equal(large_trend__add(&f.build, p, &f.trend, 100.0 * MIB), 0);
	site = &p->sites[0];
	assert_int_equal(p->n_sites, 1);
	assert_true(site->live.bytes == 128.0 * MIB);
	profile__free(p);
}

/* Blocks from before the run do not count, unless they have grown. A block that windows saw counts,
 * although an older block was at its address. */
static void what_was_there_before_does_not_count(void **state)
{
	(void)state;
	see(&f, 1, 3 * MIB, BIRTH_NEW, 1, (const uint64_t[]){TABLE});
	f.before[0] = (struct large_block){OTHER, 8 * MIB};
	f.before[1] = (struct large_block){OTHER + 64 * MIB, 8 * MIB};
	f.before[2] = (struct large_block){TABLE, 3 * MIB};
	f.target.large.before.n = 3;
	after(&f, OTHER, 8 * MIB);
	after(&f, OTHER + 64 * MIB, 12 * MIB);
	after(&f, TABLE, 3 * MIB);
	f.results[1].live_bytes = 3.0 * MIB;
	f.results[1].live_objects = 1;
	correct(&f);
	assert_true(f.trend.unseen == 4.0 * MIB);
	assert_true(f.results[1].least == 3.0 * MIB);
}

/* If the lists do not have the blocks of the program's allocator, nothing is corrected. */
static void nothing_is_known(void **state)
{
	struct map_entry heap = {.start = BRK, .end = BRK + 256 * MIB};

	(void)state;
	see(&f, 0, 128 * MIB, BIRTH_NEW, 1, (const uint64_t[]){BRK});
	f.target.large.complete = false;
	correct(&f);
	assert_false(f.trend.known);
	assert_true(f.results[0].live_bytes == 2560.0 * MIB);
	/* glibc was told to map no block */
	f.target.large.complete = true;
	heap.path = (char *)"[heap]";
	f.target.maps = (struct maps){.entries = &heap, .n = 1};
	correct(&f);
	assert_false(f.trend.known);
	assert_true(f.results[0].live_bytes == 2560.0 * MIB);
	f.target.maps = (struct maps){};
	/* the target claims more than its mappings have room for */
	after(&f, TABLE, 40 * MIB);
	f.target.heap_bound_bytes = 39 * MIB;
	correct(&f);
	assert_false(f.trend.known);
	f.target.heap_bound_bytes = 1ULL << 40;
	f.target.large.after.n = 0;
	f.build.without = 1U << PART_LARGE;
	correct(&f);
	assert_false(f.trend.known);
	f.build.without = 0;
	correct(&f);
	assert_true(f.trend.known);
}

static void the_rest_is_a_stack_of_its_own(void **state)
{
	struct profile *p = profile__new();
	const struct profile_site *site;
	struct interval interval;

	(void)state;
	assert_non_null(p);
	after(&f, OTHER, 30 * MIB);
	correct(&f);
	p->mode = MODE_WINDOWED;
	site = add(&f, p, 0);
	assert_non_null(site);
	interval = estimate__interval(&site->live);
	assert_true(site->live.bytes == 30.0 * MIB && site->live.objects == 1);
	assert_true(interval.low == 30.0 * MIB && interval.high == 30.0 * MIB);
	assert_true(fabs(site->growth.bytes_per_s - MIB) < 1 && site->growth.low == 0);
	assert_true(isnan(site->survival[0]));
	assert_int_equal(large_trend__name(p), 0);
	assert_true(large_blocks__are_unseen(&p->locations[0]));
	profile__free(p);
}

/* realloc may have made the unseen blocks, and then they are in the figures of vectors. */
static void vectors_may_be_the_rest(void **state)
{
	struct profile *p = profile__new();
	const struct profile_site *site;
	struct interval interval;

	(void)state;
	assert_non_null(p);
	see(&f, 1, 4 * MIB, BIRTH_GROWN, 1, (const uint64_t[]){TABLE});
	after(&f, OTHER, 30 * MIB);
	correct(&f);
	assert_null(add(&f, p, 40.0 * MIB));
	site = add(&f, p, 10.0 * MIB);
	assert_non_null(site);
	interval = estimate__interval(&site->live);
	assert_true(site->live.bytes == 20.0 * MIB);
	assert_true(interval.low < 14.0 * MIB && interval.high > 26.0 * MIB);
	assert_true(interval.high <= 30.0 * MIB);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(what_a_window_saw_counts_once),
		TEST(what_is_gone_does_not_count),
		TEST(what_has_changed_still_lives),
		TEST(what_no_window_saw_is_shared_out),
		TEST(a_mixed_stack_stays),
		TEST(what_ended_has_successors),
		TEST(what_a_stretch_did_not_sample_counts),
		TEST(thirds_of_a_block_are_the_rest),
		TEST(a_seen_vector_is_not_the_rest),
		TEST(what_was_there_before_does_not_count),
		TEST(nothing_is_known),
		TEST(the_rest_is_a_stack_of_its_own),
		TEST(vectors_may_be_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
