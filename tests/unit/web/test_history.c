// SPDX-License-Identifier: BSD-2-Clause
/* Recent growth, and when it began, for histories that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "web/history.h"

#define N     20
#define EVERY 15 /* seconds between two figures */
#define BEGIN 1700000000000000000ull
#define S     1000000000ull

static struct moment moments[N];
static struct held held[N][2];
static const struct moment *list[N];

/* Makes a history in which stack 7 holds bytes(seconds since its start). The whole process holds
 * 1,000 bytes more. */
static void live(double (*bytes)(double seconds))
{
	for (int i = 0; i < N; i++) {
		double now = bytes(i * EVERY);

		held[i][0] = (struct held){7, now};
		held[i][1] = (struct held){HISTORY_ALL, now + 1000};
		moments[i] = (struct moment){BEGIN + (uint64_t)i * EVERY * S, held[i], 2, true};
		moment__sort(&moments[i]);
		list[i] = &moments[i];
	}
}

static double noise(void)
{
	return (double)rand() / RAND_MAX - 0.5;
}

static double level(double seconds)
{
	(void)seconds;
	return 5e6 + 1e6 * noise();
}

static double rises_at_100(double seconds)
{
	return 5e6 + 1e5 * fmax(seconds - 100, 0);
}

static double rises_with_noise(double seconds)
{
	return rises_at_100(seconds) + 1e6 * noise();
}

/* A leak that began 105 seconds before the last figure, as samples show it. There are some 20
 * samples in 15 seconds, and their number varies by a fifth. */
static double rises_lately(double seconds)
{
	static double sum;

	if (seconds == 0)
		sum = 5e6;
	if (seconds > 180)
		sum += 1.5e6 * (1 + 0.7 * noise());
	return sum;
}

/* Blocks come and go at random, so the bytes that stay wander. */
static double wanders(double seconds)
{
	static double sum;

	sum = seconds == 0 ? 5e6 : sum + 1e6 * (noise() + noise() + noise());
	return sum;
}

static double rises_always(double seconds)
{
	return 1e5 * seconds;
}

static void what_is_held_is_found(void **state)
{
	(void)state;
	live(rises_always);
	assert_true(moment__bytes(list[2], 7) == 3e6);
	assert_true(moment__bytes(list[2], HISTORY_ALL) == 3e6 + 1000);
	assert_true(moment__bytes(list[2], 8) == 0);
	moments[2].complete = false;
	assert_true(isnan(moment__bytes(list[2], 8)));
}

static void growth_of_late(void **state)
{
	struct growth growth;
	int wrong = 0;

	(void)state;
	srand(1);
	live(rises_always);
	growth = history__growth(list, N, 7, 0, NULL);
	assert_true(fabs(growth.low - 1e5) < 1 && fabs(growth.high - 1e5) < 1);
	/* one sample more would change the growth by this much */
	growth = history__growth(list, N, 7, 512 << 10, NULL);
	assert_true(growth.low < 1e5 - 1000 && growth.low > 9e4);
	assert_true(isnan(history__growth(list, 3, 7, 0, NULL).low)); /* too few */
	for (int i = 0; i < 2000; i++) {
		live(level);
		wrong += history__growth(list, N, 7, 0, NULL).low > 0;
	}
	assert_in_range(wrong, 0, 3);
	wrong = 0;
	for (int i = 0; i < 20000; i++) {
		live(wanders);
		wrong += history__growth(list, N, 7, 0, NULL).low > 0;
	}
	assert_in_range(wrong, 2, 20); /* of 20,000; at one in 2,000, 10 are expected */
	live(rises_with_noise);
	growth = history__growth(list, N, 7, 0, NULL);
	assert_true(growth.low > 0 && growth.high > 1e5 * 185 / 285);
	/* the time in which the figure was not known does not count */
	live(rises_always);
	for (int i = 0; i < 10; i++)
		moments[i] = (struct moment){.taken_ns = moments[i].taken_ns};
	growth = history__growth(list, N, 7, 0, NULL);
	assert_true(fabs(growth.low - 1e5) < 1);
	assert_true(isnan(history__growth(list, 10, 7, 0, NULL).low));
}

/* Growth over all 285 seconds cannot yet tell a leak that began lately from chance. */
static void growth_that_began_lately(void **state)
{
	double seconds;
	int found = 0;

	(void)state;
	srand(3);
	for (int i = 0; i < 400; i++) {
		struct growth growth;

		live(rises_lately);
		growth = history__growth(list, N, 7, 32 << 10, &seconds);
		if (!(growth.low > 0))
			continue;
		found++;
		assert_true(seconds < 200);
		assert_true(growth.low < 1e5 && growth.high > 0.8e5);
	}
	assert_in_range(found, 390, 400);
	live(level);
	history__growth(list, N, 7, 0, &seconds);
	assert_true(seconds == 285);
}

static double seconds_to(uint64_t ns)
{
	return (double)(int64_t)(ns - BEGIN) / 1e9;
}

static void when_it_began(void **state)
{
	struct onset onset;
	int within = 0, near = 0;

	(void)state;
	srand(2);
	live(rises_at_100);
	assert_true(history__onset(list, N, 7, &onset));
	assert_false(onset.earlier);
	assert_true(fabs(seconds_to(onset.ns) - 100) < 3);
	assert_true(onset.low_ns <= onset.ns && onset.ns <= onset.high_ns);
	assert_true(seconds_to(onset.low_ns) <= 100 && seconds_to(onset.high_ns) >= 100);
	for (int i = 0; i < 400; i++) {
		live(rises_with_noise);
		assert_true(history__onset(list, N, 7, &onset));
		within += seconds_to(onset.low_ns) <= 100 && seconds_to(onset.high_ns) >= 100;
		near += fabs(seconds_to(onset.ns) - 100) < 20;
	}
	assert_in_range(within, 370, 397); /* of 400; at 95 %, 380 are expected */
	assert_in_range(near, 350, 400);
	live(rises_always);
	assert_true(history__onset(list, N, 7, &onset));
	assert_true(onset.earlier);
	assert_int_equal(onset.ns, BEGIN);
	assert_false(history__onset(list, 4, 7, &onset));
	for (int i = 0; i < N; i++) /* the bytes fall */
		held[i][1].bytes = -held[i][1].bytes;
	assert_false(history__onset(list, N, 7, &onset));
}

/* The wall clock may be set back. */
static void clocks_are_set_back(void **state)
{
	struct onset onset;
	struct growth growth;

	(void)state;
	live(rises_always);
	moments[7].taken_ns = moments[8].taken_ns = moments[6].taken_ns;
	moments[12].taken_ns -= 40 * S;
	growth = history__growth(list, N, 7, 0, NULL);
	assert_true(isfinite(growth.low) && isfinite(growth.high));
	assert_true(history__onset(list, N, 7, &onset));
	for (int i = 0; i < N; i++)
		moments[i].taken_ns = BEGIN - (uint64_t)i * S;
	assert_true(isnan(history__growth(list, N, 7, 0, NULL).low));
	assert_false(history__onset(list, N, 7, &onset));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_held_is_found),    cmocka_unit_test(growth_of_late),
		cmocka_unit_test(growth_that_began_lately), cmocka_unit_test(when_it_began),
		cmocka_unit_test(clocks_are_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
