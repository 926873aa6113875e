// SPDX-License-Identifier: BSD-2-Clause
/* A process that is watched for so long that old windows must be dropped. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/vector.h"
#include "ledger/old_windows.h"

#define S	1000000000ULL
#define MS	1000000ULL
#define WINDOWS 30000ULL /* one a second, of 40 ms each */
#define BEGIN	(100 * S)
#define APART	33 /* every 33rd window allocates a block, which stays */
#define FIRST	0x10000ULL
#define STRETCH 660 /* this window is a stretch of continuous tracing */

static bool forgotten[WINDOWS / APART + 1];

static void forget(void *ctx, uint64_t addr)
{
	(void)ctx;
	forgotten[addr - FIRST] = true;
}

static int read_nothing(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	(void)reads;
	(void)n;
	return -ESRCH;
}

struct fixture {
	struct survivors s;
	struct net_clock clock; /* half as fast as the wall clock */
	struct reallocs reallocs;
	bool alternate;	  /* every second window is a stretch */
	uint64_t late_ns; /* delay with which the clock is read at the end of a window */
};

static uint64_t start_of(uint64_t number)
{
	return BEGIN + number * S;
}

/* Notes an edge of a window, a little late. */
static void note_edge(struct fixture *f, uint64_t ns, enum net_clock_edge edge)
{
	ns += 3000;
	assert_int_equal(net_clock__add(&f->clock, ns, (double)ns / 2, 0, NAN, edge), 0);
}

/* The size of the block that is born in the window tells the window's number. */
static uint32_t size_of(uint64_t number)
{
	return (uint32_t)number + 1;
}

static void add_window(struct fixture *f, uint64_t number)
{
	const struct survivors_window w = {.start_ns = start_of(number),
					   .end_ns = start_of(number) + 40 * MS,
					   .interval = 1,
					   .allocs = 100,
					   .continuous = number == STRETCH ||
							 (f->alternate && number % 2)};
	const struct abi_live live = {.size = size_of(number),
				      .interval = 1,
				      .birth_ns = w.start_ns + 1,
				      .stack = {1, 1},
				      .tid = 1};
	const uint64_t addr = FIRST + number / APART;
	bool allocates = number % APART == 0;
	struct realloc_record *record;

	if (f->late_ns) /* probes are placed */
		note_edge(f, w.start_ns - 5 * MS, NET_CLOCK_ENDS);
	note_edge(f, w.start_ns, NET_CLOCK_BEGINS);
	note_edge(f, w.end_ns + f->late_ns, NET_CLOCK_ENDS);
	assert_int_equal(
		survivors__meet(&f->s, &w, w.end_ns, &addr, &live, allocates, read_nothing, NULL),
		0);
	if (!allocates)
		return;
	assert_int_equal(survivors__harvest(&f->s, &f->clock), 0);
	f->s.stacks[0].born[f->s.stacks[0].n_born - 1].lost_bytes = 1;
	assert_int_equal(
		VECTOR_RESERVE(f->reallocs.records, f->reallocs.room, f->reallocs.n_records + 1),
		0);
	record = &f->reallocs.records[f->reallocs.n_records++];
	*record = (struct realloc_record){.start_ns = w.start_ns, .end_ns = w.end_ns};
}

static void watch_some(struct fixture *f, uint64_t n, bool alternate, uint64_t late_ns)
{
	memset(f, 0, sizeof(*f));
	f->alternate = alternate;
	f->late_ns = late_ns;
	memset(forgotten, 0, sizeof(forgotten));
	survivors__init(&f->s, (const uint64_t[2]){11, 13});
	f->s.forget = forget;
	for (uint64_t i = 0; i < n; i++) {
		add_window(f, i);
		assert_int_equal(old_windows__drop(&f->s, &f->clock, &f->reallocs), 0);
		assert_true(alternate || f->s.n_windows <= OLD_WINDOWS_MAX);
	}
}

static void watch(struct fixture *f)
{
	watch_some(f, WINDOWS, false, 0);
}

static void end(struct fixture *f)
{
	survivors__free(&f->s);
	net_clock__free(&f->clock);
	reallocs__free(&f->reallocs);
}

/* Returns the index of the window with that number, or -1. */
static long find(const struct fixture *f, uint64_t number)
{
	for (size_t i = 0; i < f->s.n_windows; i++)
		if (f->s.windows[i].start_ns == start_of(number))
			return (long)i;
	return -1;
}

static void test_windows_are_kept_evenly(void **state)
{
	size_t by_part[4] = {}, by_group[WINDOWED_GROUPS] = {}, kept = 0;
	double all = 0;
	struct fixture f;

	(void)state;
	watch(&f);
	assert_true(f.s.n_windows > OLD_WINDOWS_MAX / 2);
	for (uint64_t i = 0; i < WINDOWS; i++) {
		long at = find(&f, i);

		if (at < 0) {
			assert_true(i + OLD_WINDOWS_MAX / 2 < WINDOWS && i && i != STRETCH);
			continue;
		}
		assert_int_equal(at, kept++);
		assert_int_equal(f.s.windows[at].number, i);
		all += f.s.windows[at].stands;
		by_part[i * 4 / WINDOWS]++;
		by_group[i % WINDOWED_GROUPS]++;
	}
	/* the first three quarters of the run have equally many windows */
	assert_true(by_part[0] > 100);
	assert_in_range(by_part[1], by_part[0] - 2, by_part[0] + 2);
	assert_in_range(by_part[2], by_part[0] - 2, by_part[0] + 2);
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		assert_in_range(by_group[g], kept / WINDOWED_GROUPS - 8,
				kept / WINDOWED_GROUPS + 8);
	assert_true(fabs(all - WINDOWS) < 0.02 * WINDOWS);
	end(&f);
}

static void test_what_was_born_goes_with_its_window(void **state)
{
	const struct survivors_stack *stack;
	size_t n = 0, n_forgotten = 0;
	struct fixture f;

	(void)state;
	watch(&f);
	stack = &f.s.stacks[0];
	for (uint64_t i = 0; i < WINDOWS; i += APART) {
		long at = find(&f, i);
		bool recorded = false;

		for (size_t k = 0; k < f.reallocs.n_records; k++)
			recorded |= f.reallocs.records[k].start_ns == start_of(i);
		assert_int_equal(recorded, at >= 0);
		if (i == STRETCH) /* births in a stretch are counted elsewhere */
			continue;
		if (at >= 0) {
			while (stack->born[n].window != (uint32_t)at)
				assert_true(++n < stack->n_born);
			assert_true(stack->born[n].bytes == (double)size_of(i));
			assert_true(stack->looked[n] == 0);
		}
		/* the stretch showed that the blocks before it had ended */
		assert_int_equal(forgotten[i / APART], at < 0 && i > STRETCH);
		n_forgotten += forgotten[i / APART];
	}
	assert_true(n_forgotten > WINDOWS / APART / 2);
	assert_int_equal(f.s.n_blocks + n_forgotten, (WINDOWS - STRETCH) / APART + 1);
	for (size_t i = 0; i < f.s.n_blocks; i++)
		assert_true(f.s.blocks[i].live.birth_ns ==
			    f.s.windows[f.s.blocks[i].window].start_ns + 1);
	end(&f);
}

/* Sums over the whole run stay the same. */
static void test_sums_stay(void **state)
{
	double lost = 0, seconds = 0, pairs = 0;
	size_t edges = 0;
	struct fixture f;

	(void)state;
	watch(&f);
	for (size_t i = 0; i < f.s.stacks[0].n_born; i++)
		lost += f.s.stacks[0].born[i].lost_bytes;
	assert_true(lost == WINDOWS / APART + 1);
	for (size_t i = 0; i < f.s.n_windows; i++)
		seconds += net_clock__at(&f.clock, f.s.windows[i].end_ns) -
			   net_clock__at(&f.clock, f.s.windows[i].start_ns);
	assert_true(fabs(seconds + f.s.dropped_s - WINDOWS * 0.02) < 1e-3 * WINDOWS * 0.02);
	for (size_t i = 0; i < f.clock.n; i++)
		edges += f.clock.at[i].keep;
	assert_in_range(edges, 2 * f.s.n_windows, 2 * f.s.n_windows + 2);
	assert_int_equal(f.clock.n, edges); /* all points are edges, here */
	assert_true(f.clock.apart_ns <= S);
	/* the counts of blocks that later windows saw again are kept */
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		for (int k = 0; k < SURVIVAL_CLASSES; k++)
			pairs += f.s.stacks[0].groups[g]->pairs[k];
	assert_true(pairs > 0);
	end(&f);
}

/* Stretches do not take the place of windows. They are merged where no window is left between
 * them. */
static void test_stretches_do_not_displace_windows(void **state)
{
	size_t sampled = 0, old = 0, stretches = 0, together = 0;
	struct fixture f;

	(void)state;
	watch_some(&f, 5 * OLD_WINDOWS_MAX, true, 0);
	for (size_t i = 0; i < f.s.n_windows; i++) {
		const struct survivors_window *w = &f.s.windows[i];

		if (w->continuous) {
			stretches += w->parts;
			together += i && w[-1].continuous;
			continue;
		}
		sampled++;
		old += w->number < 2 * OLD_WINDOWS_MAX;
	}
	/* the window with the number STRETCH is a stretch, too */
	assert_int_equal(stretches, 5 * OLD_WINDOWS_MAX / 2 + 1);
	assert_true(together < OLD_WINDOWS_MAX);
	assert_in_range(sampled, OLD_WINDOWS_MAX / 2, OLD_WINDOWS_MAX);
	assert_true(old > OLD_WINDOWS_MAX / 10);
	end(&f);
}

/* The clock may be read so late at the end of a window that the next one begins soon after. */
static void test_late_edges_belong_to_their_window(void **state)
{
	const uint64_t late[] = {10 * MS, 700 * MS, 950 * MS};
	struct fixture f;

	(void)state;
	for (size_t k = 0; k < sizeof(late) / sizeof(*late); k++) {
		size_t edges = 0;

		watch_some(&f, OLD_WINDOWS_MAX + OLD_WINDOWS_MAX / 4, false, late[k]);
		assert_true(f.s.n_windows < OLD_WINDOWS_MAX);
		for (size_t i = 0; i < f.s.n_windows; i++) {
			const struct survivors_window *w = &f.s.windows[i];
			uint64_t end = w->end_ns + late[k] + 3000;

			assert_int_equal(
				net_clock__edge_ns(&f.clock, NET_CLOCK_NONE, w->start_ns, end),
				w->start_ns + 3000);
			assert_int_equal(
				net_clock__edge_ns(&f.clock, NET_CLOCK_ENDS, w->start_ns, end + 1),
				end);
		}
		for (size_t i = 0; i < f.clock.n; i++)
			edges += f.clock.at[i].keep;
		assert_in_range(edges, 3 * f.s.n_windows, 3 * f.s.n_windows + 1);
		end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows_are_kept_evenly),
		cmocka_unit_test(test_what_was_born_goes_with_its_window),
		cmocka_unit_test(test_sums_stay),
		cmocka_unit_test(test_stretches_do_not_displace_windows),
		cmocka_unit_test(test_late_edges_belong_to_their_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
