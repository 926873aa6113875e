// SPDX-License-Identifier: BSD-2-Clause
/* A process that is traced in stretches for so long that old ones must be merged. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ledger/old_windows.h"
#include "profile/windowed_strata.h"

#define S	  1000000000ULL
#define MS	  1000000ULL
#define STRETCHES 12000ULL
#define BEGIN	  (100 * S)
#define PERIOD	  (60 * S) /* a stretch begins once a minute */
#define LENGTH	  (10 * S)
#define BUSY	  0.7 /* share of a CPU that the process uses in stretches */
#define IDLE	  0.5 /* the same in gaps */
#define PART	  (1 + IDLE * 50 / (BUSY * 10)) /* of this many blocks, stretches see one */
#define STAYS	  32 /* in each STAYS-th stretch a block is born that stays; a multiple of LEAVES */
#define LEAVES	  16 /* in each LEAVES-th stretch a block is born that lasts LIFE stretches */
#define LIFE	  1000
#define SIZE	  1000
#define YOUNG	  300  /* in each stretch: bytes of a block that ends before the next stretch */
#define SHORT	  5000 /* in each stretch: bytes that end at once */
#define FIRST	  0x10000ULL

struct fixture {
	struct survivors s;
	struct net_clock clock;
	struct reallocs reallocs;
	struct abi_site site; /* the kernel side's counts */
	uint64_t n;	      /* stretches so far */
};

static const struct abi_stack_key KEY = {1, 1};

static int read_nothing(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	(void)reads;
	(void)n;
	return -ESRCH;
}

static uint64_t start_of(uint64_t number)
{
	return BEGIN + number * PERIOD;
}

/* The CPU time that the process has used until this time. */
static double cpu_ns(uint64_t ns)
{
	uint64_t periods = (ns - BEGIN) / PERIOD, rest = (ns - BEGIN) % PERIOD,
		 busy = rest < LENGTH ? rest : LENGTH;

	return BUSY * (double)(periods * LENGTH + busy) +
	       IDLE * (double)(periods * (PERIOD - LENGTH) + rest - busy);
}

static void note(struct fixture *f, uint64_t ns, enum net_clock_edge edge)
{
	double cpu = cpu_ns(ns);

	assert_int_equal(net_clock__add(&f->clock, ns, cpu, cpu / 200, cpu / 1000, edge), 0);
}

/* Blocks of the first half of the run are twice as large. */
static uint32_t size_of(uint64_t number)
{
	return number < STRETCHES / 2 ? 2 * SIZE : SIZE;
}

static void count(struct fixture *f, uint64_t bytes)
{
	f->site.alloc_samples++;
	f->site.alloc_bytes += bytes;
	f->site.alloc_objects_q16 += 65536;
}

static void add_stretch(struct fixture *f)
{
	static struct abi_live live[STRETCHES / STAYS + LIFE / LEAVES + 3];
	static uint64_t addrs[STRETCHES / STAYS + LIFE / LEAVES + 3];
	const struct survivors_window w = {.start_ns = start_of(f->n),
					   .end_ns = start_of(f->n) + LENGTH,
					   .interval = 1,
					   .allocs = 10,
					   .net_blocks = 1,
					   .continuous = true};
	const struct snapshot_sites sites = {
		.keys = &(const struct abi_site_key){.stack = KEY}, .sites = &f->site, .n = 1};
	size_t n = 0;

	note(f, w.start_ns - 3 * MS, NET_CLOCK_ENDS);
	note(f, w.start_ns + 3000, NET_CLOCK_BEGINS);
	note(f, w.start_ns + LENGTH / 2, NET_CLOCK_NONE);
	note(f, w.end_ns + 20 * MS, NET_CLOCK_ENDS);
	note(f, w.end_ns + 20 * S, NET_CLOCK_NONE);
	for (uint64_t i = 0; i <= f->n; i += LEAVES) {
		const struct abi_live block = {.size = size_of(i),
					       .interval = 1,
					       .birth_ns = start_of(i) + 1,
					       .stack = KEY,
					       .tid = 1};

		if (i % STAYS == 0) {
			addrs[n] = FIRST + 3 * i;
			live[n++] = block;
		}
		if (i + LIFE > f->n) {
			addrs[n] = FIRST + 3 * i + 1;
			live[n++] = block;
		}
	}
	addrs[n] = FIRST + 2;
	live[n] = (struct abi_live){
		.size = YOUNG, .interval = 1, .birth_ns = w.end_ns - 1, .stack = KEY, .tid = 1};
	n++;
	if (f->n % STAYS == 0)
		count(f, size_of(f->n));
	if (f->n % LEAVES == 0)
		count(f, size_of(f->n));
	count(f, YOUNG);
	count(f, SHORT);
	f->n++;
	assert_int_equal(survivors__meet(&f->s, &w, w.end_ns, addrs, live, n, read_nothing, NULL),
			 0);
	assert_int_equal(survivors__take_sites(&f->s, &sites), 0);
	net_clock__learn(&f->clock);
	assert_int_equal(survivors__harvest(&f->s, &f->clock), 0);
}

/* merge: old stretches are merged. */
static void watch(struct fixture *f, bool merge)
{
	const uint64_t seed[2] = {11, 13};

	memset(f, 0, sizeof(*f));
	survivors__init(&f->s, seed);
	note(f, BEGIN, NET_CLOCK_NONE);
	while (f->n < STRETCHES) {
		add_stretch(f);
		if (!merge)
			continue;
		assert_int_equal(old_windows__drop(&f->s, &f->clock, &f->reallocs), 0);
		assert_true(f->s.n_windows <= OLD_WINDOWS_MAX);
	}
}

/* The same process twice: `merged` with old stretches merged, `all` without. */
static struct fixture all, merged;

static int begin_all(void **state)
{
	(void)state;
	watch(&all, false);
	watch(&merged, true);
	return 0;
}

static void end(struct fixture *f)
{
	survivors__free(&f->s);
	net_clock__free(&f->clock);
	reallocs__free(&f->reallocs);
}

static int end_all(void **state)
{
	(void)state;
	end(&all);
	end(&merged);
	return 0;
}

struct sums {
	double wall_s, net_s, cost_s, allocs, net_blocks;
	double samples, bytes, objects, squares, allocated_in;
};

static struct sums sums_of(const struct fixture *f)
{
	const struct survivors_stack *stack = &f->s.stacks[0];
	struct sums ret = {};

	for (size_t i = 0; i < f->s.n_windows; i++) {
		const struct survivors_window *w = &f->s.windows[i];

		assert_true(w->end_ns > w->start_ns);
		assert_true(!i || w->start_ns > w[-1].end_ns);
		assert_true(!i || w->number > w[-1].number);
		ret.wall_s += (double)(w->end_ns - w->start_ns) / (double)S;
		ret.net_s +=
			net_clock__at(&f->clock, w->end_ns) - net_clock__at(&f->clock, w->start_ns);
		ret.cost_s += net_clock__cost_at(&f->clock, w->end_ns) -
			      net_clock__cost_at(&f->clock, w->start_ns);
		ret.allocs += (double)w->allocs;
		ret.net_blocks += (double)w->net_blocks;
	}
	for (size_t i = 0; i < stack->n_born; i++) {
		const struct windowed_born *born = &stack->born[i];

		ret.samples += (double)born->samples;
		ret.bytes += born->bytes;
		ret.objects += born->objects;
		ret.squares += born->squares;
		ret.allocated_in += born->samples ? 1 + born->more : 0;
	}
	return ret;
}

static bool is_near(double a, double b, double share)
{
	return fabs(a - b) <= share * fabs(b);
}

/* Estimates the stack, as session/windowed_trend.c does. */
static struct windowed_result estimate(const struct fixture *f)
{
	const struct survivors_stack *stack = &f->s.stacks[0];
	const struct windowed_stack known = {.born = stack->born,
					     .n_born = stack->n_born,
					     .groups = stack->groups,
					     .cohort = stack->cohort,
					     .alike = 1};
	struct windowed_window *windows = calloc(f->s.n_windows, sizeof(*windows));
	uint64_t end_ns = start_of(STRETCHES - 1) + LENGTH;
	struct windowed_run run = {
		.windows = windows,
		.n_windows = f->s.n_windows,
		.quarter_s = net_clock__at(&f->clock, BEGIN + (end_ns - BEGIN) / 4),
		.end_s = net_clock__at(&f->clock, end_ns),
		.wall_s = (double)(end_ns - BEGIN) / (double)S,
	};
	struct windowed_strata *strata;
	struct windowed_process process;
	struct windowed_result ret;

	assert_non_null(windows);
	for (size_t i = 0; i < f->s.n_windows; i++) {
		const struct survivors_window *w = &f->s.windows[i];

		windows[i] = (struct windowed_window){
			.number = w->number,
			.stands = w->stands,
			.begin_s = net_clock__at(&f->clock, w->start_ns),
			.end_s = net_clock__at(&f->clock, w->end_ns),
			.wall_s = survivors_window__seconds(w, BEGIN, end_ns),
			.interval_bytes = 1,
			.allocs = (double)w->allocs,
			.net_blocks = (double)w->net_blocks,
			.continuous = w->continuous,
		};
	}
	strata = windowed_strata__new(&run);
	assert_non_null(strata);
	process = windowed__process(&run, strata);
	windowed__estimate(&run, strata, &process, &known, &ret);
	windowed_strata__free(strata);
	free(windows);
	return ret;
}

/* After old stretches were merged, all that they saw still counts, and so does all their time. */
static void test_sums_stay(void **state)
{
	struct sums before = sums_of(&all), after = sums_of(&merged);

	(void)state;
	assert_int_equal(all.s.n_windows, STRETCHES);
	assert_true(is_near(after.wall_s, STRETCHES * (double)LENGTH / (double)S, 1e-12));
	assert_true(is_near(after.net_s, before.net_s, 1e-3));
	assert_true(is_near(after.cost_s, before.cost_s, 1e-3));
	assert_true(is_near(net_clock__at(&merged.clock, UINT64_MAX),
			    net_clock__at(&all.clock, UINT64_MAX), 1e-9));
	assert_true(after.allocs == before.allocs && after.net_blocks == before.net_blocks);
	assert_true(after.samples == before.samples && after.bytes == before.bytes);
	assert_true(after.objects == before.objects);
	assert_true(is_near(after.squares, before.squares, 1e-9));
	assert_true(after.allocated_in == STRETCHES);
}

static void test_memory_is_bounded(void **state)
{
	const struct fixture *f = &merged;
	size_t edges = 0, parts = 0;

	(void)state;
	assert_true(f->s.n_windows <= OLD_WINDOWS_MAX);
	assert_true(f->s.stacks[0].n_born <= OLD_WINDOWS_MAX);
	for (size_t i = 0; i < f->clock.n; i++)
		edges += f->clock.at[i].keep;
	assert_true(edges <= 3 * f->s.n_windows);
	assert_int_equal(f->clock.n - edges, f->clock.n_free);
	for (size_t i = 0; i < f->s.n_windows; i++) {
		parts += f->s.windows[i].parts;
		/* the newest half is not merged; the older half is merged evenly */
		assert_true(i + OLD_WINDOWS_MAX / 2 < f->s.n_windows || f->s.windows[i].parts == 1);
		assert_true(f->s.windows[i].parts <= 16);
	}
	assert_int_equal(parts, STRETCHES);
}

static void test_blocks_are_still_known(void **state)
{
	const struct survivors *s = &merged.s;

	(void)state;
	assert_int_equal(s->n_blocks, all.s.n_blocks);
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_window *w = &s->windows[s->blocks[i].window];

		assert_true(w->continuous && s->blocks[i].live.birth_ns <= w->end_ns);
		/* a block is no older than its stretch, which may have been merged from several */
		assert_true(s->blocks[i].live.birth_ns + w->parts * PERIOD > w->end_ns);
	}
}

static void test_estimates_stay(void **state)
{
	double stays = (double)STRETCHES / STAYS * 1.5 * SIZE,
	       leaves = (double)LIFE / LEAVES * SIZE, truth = PART * (stays + leaves),
	       born = (double)STRETCHES *
		      (YOUNG + SHORT + 1.5 * SIZE / STAYS + 1.5 * SIZE / LEAVES);
	struct windowed_result before = estimate(&all), after = estimate(&merged);

	(void)state;
	assert_true(is_near(after.alloc_bytes, PART * born, 0.002));
	assert_true(is_near(after.alloc_bytes, before.alloc_bytes, 1e-4));
	assert_true(fabs(after.live_bytes - truth) <
		    2 * sqrt(after.live_variance + after.live_common * after.live_common));
	assert_true(is_near(after.live_bytes, before.live_bytes, 0.002));
	assert_true(is_near(after.live_objects, before.live_objects, 0.002));
	assert_true(is_near(after.live_common, before.live_common, 0.01));
	assert_true(is_near(after.growth.bytes_per_s, before.growth.bytes_per_s, 0.02));
	for (int i = 0; i < WINDOWED_OLDER; i++)
		assert_true(fabs(after.older[i] - before.older[i]) < 0.002);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_stay),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_blocks_are_still_known),
		cmocka_unit_test(test_estimates_stay),
	};

	return cmocka_run_group_tests(tests, begin_all, end_all);
}
