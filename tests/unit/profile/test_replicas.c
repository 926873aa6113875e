// SPDX-License-Identifier: BSD-2-Clause
/* Made-up replicas. The test knows which one is abnormal. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "profile/replicas.h"

#include "drawn.h"

#define R      (64 << 10)
#define STACKS 12

static struct replicas *replicas_of(struct profile *const *p, size_t n)
{
	struct replicas *replicas = NULL;
	struct error err = {};

	if (replicas__new((const struct profile *const *)p, n, DIFF_AUTO, &replicas, &err))
		fail_msg("refused: %s", err.text);
	return replicas;
}

static const char *function_of(const struct replicas *replicas, const struct replica_excess *excess)
{
	const struct replica_stack *stack = &replicas->stacks[excess->stack];

	return profile_location__function(profile__location(stack->profile, stack->site, 1));
}

/* A server with `load` times the load of the others: each of its stacks holds about `load` times as
 * much. */
static struct profile *server(int pid, double load, double leak)
{
	struct profile *profile = new_profile(R);
	char name[16];

	profile->pid = pid;
	for (int i = 0; i < STACKS; i++) {
		double bytes = 8e6 / (i + 1) * load * (0.85 + 0.3 * random_unit());

		snprintf(name, sizeof(name), "f%c", 'a' + i);
		draw_blocks(profile, add_stack(profile, name, 0, 100, 0), 100, bytes / 100);
	}
	if (leak > 0)
		draw_blocks(profile, add_stack(profile, "leak", 0, 100, 0), 100, leak / 100);
	end_profile(profile);
	return profile;
}

static void free_all(struct profile **p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		profile__free(p[i]);
}

/* Three to six servers with different loads. Each run compares them twice. The first time none
 * leaks. The second time the second server leaks 4 MB from a stack of its own, and 60 MB from a
 * stack that all servers have. */
static void the_odd_one_is_named(void **state)
{
	int runs = 60;

	(void)state;
	random_state = 3;
	for (size_t n = 3; n <= 6; n++) {
		int named = 0, shared = 0, wrong = 0, wrong_without = 0;

		for (int run = 0; run < runs; run++) {
			struct profile *p[6];
			struct replicas *replicas;

			for (size_t i = 0; i < n; i++)
				p[i] = server(100 + (int)i, 0.8 + 0.4 * random_unit(), 0);
			replicas = replicas_of(p, n);
			wrong_without += replicas->n_abnormal != 0;
			replicas__free(replicas);
			profile__free(p[1]);
			p[1] = server(101, 1, 4e6);
			draw_blocks(p[1], add_stack(p[1], "fd", 0, 100, 0), 100, 60e6 / 100);
			end_profile(p[1]);
			replicas = replicas_of(p, n);
			for (size_t i = 0; i < replicas->n_abnormal; i++) {
				const char *name = function_of(replicas, &replicas->list[i]);
				bool right = replicas->list[i].replica == 1;

				named += right && !strcmp(name, "leak");
				shared += right && !strcmp(name, "fd");
				wrong += !right || (strcmp(name, "leak") && strcmp(name, "fd"));
			}
			assert_true(replicas->ranks[0].index == 1);
			replicas__free(replicas);
			free_all(p, n);
		}
		print_message("%zu replicas: leak %d, more of the same %d, wrong %d and %d of %d\n",
			      n, named, shared, wrong, wrong_without, runs);
		assert_true(named >= 0.95 * runs && wrong <= 0.06 * runs &&
			    wrong_without <= 0.06 * runs);
		assert_true(shared >= (n > 3 ? 0.9 : 0.5) * runs);
	}
}

/* The replicas have exactly 10, 14 and 36 blocks of 1000 bytes. */
static void figures_are_the_medians(void **state)
{
	static const int n_blocks[] = {10, 14, 36};
	struct profile *p[3];
	struct replicas *replicas;

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = new_profile(1);
		p[i]->pid = 10 + i;
		add_stack(p[i], "same", 0, 1000, n_blocks[i]);
		if (i == 2)
			add_stack(p[i], "own", 0, 1000, 50);
		end_profile(p[i]);
	}
	replicas = replicas_of(p, 3);
	assert_true(replicas->measure == DIFF_LIVE && !replicas->per_second);
	assert_int_equal(replicas->n_abnormal, 1);
	assert_string_equal(function_of(replicas, &replicas->list[0]), "own");
	assert_true(replicas->list[0].value == 50000 && replicas->list[0].median == 0);
	assert_true(replicas->ranks[0].index == 2 && replicas->ranks[0].n_abnormal == 1);
	assert_true(replicas->ranks[0].excess == 50000 && replicas->ranks[0].total == 86000);
	assert_true(replicas->ranks[0].median == 12000);
	/* One replica has 36 of 60 blocks, which is more than sampling explains. But the other two
	 * replicas differ, too (10 and 14), and two are too few to show how much replicas usually
	 * differ. */
	assert_string_equal(function_of(replicas, &replicas->list[1]), "same");
	assert_true(replicas->list[1].median == 12000 && replicas->list[1].p > 0.001);
	replicas__free(replicas);
	p[0]->duration_s = 0; /* not known */
	p[1]->duration_s = 20;
	replicas = replicas_of(p, 3);
	assert_true(!replicas->per_second && replicas->warnings == 1u << DIFF_WARN_OTHER_LENGTH);
	replicas__free(replicas);
	p[1]->duration_s = 0;
	p[0]->interval_bytes = 0; /* errors are not known */
	replicas = replicas_of(p, 3);
	assert_true(replicas->n_abnormal == 0 && replicas->ranks[0].index == 2);
	assert_true(replicas->warnings ==
		    (1u << DIFF_WARN_UNSAMPLED | 1u << DIFF_WARN_OTHER_LENGTH));
	replicas__free(replicas);
	p[0]->interval_bytes = 1;
	p[0]->duration_s = p[1]->duration_s = 10;
	/* a run that is twice as long may hold twice as much */
	p[2]->duration_s = 20;
	replicas = replicas_of(p, 3);
	assert_true(replicas->per_second && replicas->ranks[0].total == 4300);
	/* But memory that was allocated once, at the start, does not double with the length of a
	 * run. Divided by the length of a longer run, such memory looks too small, so there is a
	 * warning. */
	assert_true(replicas->warnings == 1u << DIFF_WARN_DIVIDED && !replicas->n_abnormal);
	replicas__free(replicas);
	free_all(p, 3);
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Three to seven replicas, with ties. For each replica, a stack's median must be the median of the
 * other replicas' values. */
static void medians_leave_out_the_one(void **state)
{
	(void)state;
	random_state = 5;
	for (int run = 0; run < 60; run++) {
		size_t n = 3 + (size_t)run % 5;
		struct profile *p[7];
		struct replicas *replicas;

		for (size_t i = 0; i < n; i++) {
			p[i] = new_profile(1);
			p[i]->pid = 10 + (int)i;
			for (int s = 0; s < 3; s++)
				add_stack(p[i], (const char *[]){"a", "b", "c"}[s], 0, 10,
					  1 + (int)(5 * random_unit()));
			end_profile(p[i]);
		}
		replicas = replicas_of(p, n);
		for (size_t i = 0; i < replicas->n_list; i++) {
			const struct replica_excess *excess = &replicas->list[i];
			const double *values = replicas->stacks[excess->stack].values;
			double rest[7];
			size_t k = 0;

			for (size_t j = 0; j < n; j++)
				if (j != excess->replica)
					rest[k++] = values[j];
			qsort(rest, k, sizeof(*rest), by_number);
			assert_true(excess->median == (rest[(k - 1) / 2] + rest[k / 2]) / 2);
			assert_true(excess->value == values[excess->replica]);
		}
		replicas__free(replicas);
		free_all(p, n);
	}
}

static void growth_is_compared_where_it_is_known(void **state)
{
	struct profile *p[4];
	struct replicas *replicas;

	(void)state;
	for (int i = 0; i < 4; i++) {
		p[i] = new_profile(R);
		p[i]->pid = 10 + i;
		p[i]->growth.stacks_known = true;
		p[i]->mode = MODE_WINDOWED;
		add_stack(p[i], "cache", 0, 1000, 9);
		p[i]->sites[0].growth = (struct growth){100 * i, 100 * i - 500, 100 * i + 500};
		add_stack(p[i], "leak", 0, 1000, 1);
		p[i]->sites[1].growth = (struct growth){i == 1 ? 50000 : 0, i == 1 ? 45000 : -400,
							i == 1 ? 55000 : 400};
		end_profile(p[i]);
	}
	replicas = replicas_of(p, 4);
	assert_true(replicas->measure == DIFF_GROWTH);
	assert_int_equal(replicas->n_abnormal, 1);
	assert_true(replicas->list[0].replica == 1 && replicas->list[0].value == 50000);
	assert_string_equal(function_of(replicas, &replicas->list[0]), "leak");
	replicas__free(replicas);
	free_all(p, 4);
}

static struct replicas *by_live(struct profile *const *p, size_t n)
{
	struct replicas *replicas = NULL;
	struct error err = {};

	if (replicas__new((const struct profile *const *)p, n, DIFF_LIVE, &replicas, &err))
		fail_msg("refused: %s", err.text);
	return replicas;
}

/* Makes replicas with one stack. It holds 10 MB, plus or minus some per cent, but 40 MB in the
 * second replica. The standard error is `error` in each replica. */
static void add_windows(struct profile **p, int n, double error)
{
	for (int i = 0; i < n; i++) {
		const struct estimate live = {.samples = 100,
					      .objects = 1e4,
					      .bytes = (i == 1 ? 40e6 : 10e6) + 1e5 * i,
					      .variance = error * error};
		size_t site, thread;

		p[i] = new_profile(R);
		p[i]->pid = 10 + i;
		p[i]->mode = MODE_WINDOWED;
		site = add_stack(p[i], "cache", 0, 1000, 0);
		assert_int_equal(profile__add_thread(p[i], 10, "main", &thread), 0);
		assert_int_equal(profile__add_live_estimate(p[i], site, thread, &live), 0);
		end_profile(p[i]);
	}
}

/* Live bytes of windows have errors of their own. A count of samples says nothing about these
 * errors. */
static void live_bytes_of_windows_are_compared_by_their_intervals(void **state)
{
	static const struct {
		double error;
		size_t abnormal;
	} cases[] = {{0.5e6, 1}, {20e6, 0}};
	struct replicas *replicas;
	struct profile *p[6];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		add_windows(p, 6, cases[i].error);
		replicas = by_live(p, 6);
		assert_int_equal(replicas->n_abnormal, cases[i].abnormal);
		assert_true(replicas->list[0].replica == 1);
		replicas__free(replicas);
		p[3]->mode = MODE_CONTINUOUS; /* a continuous run has an interval, too */
		replicas = by_live(p, 6);
		assert_int_equal(replicas->n_abnormal, cases[i].abnormal);
		replicas__free(replicas);
		free_all(p, 6);
	}
}

static void assert_refused(struct profile *const *p, size_t n, const char *why)
{
	struct replicas *replicas = NULL;
	struct error err = {};

	assert_int_equal(
		replicas__new((const struct profile *const *)p, n, DIFF_AUTO, &replicas, &err),
		-EINVAL);
	assert_null(replicas);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static void what_says_nothing_is_refused(void **state)
{
	struct profile *p[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = new_profile(R);
		add_stack(p[i], i == 2 ? "other" : "same", 0, 64, 10);
		end_profile(p[i]);
	}
	replicas__free(replicas_of(p, 3));
	strcpy(p[2]->comm, "another");
	assert_refused(p, 3, "profile 3 has no stack in common with the others");
	free_all(p, 3);
	for (int i = 0; i < 3; i++) {
		p[i] = new_profile(R);
		end_profile(p[i]);
	}
	assert_refused(p, 2, "three or more");
	replicas__free(replicas_of(p, 3)); /* empty profiles are no failure */
	p[1]->what = PROFILE_REGIONS;
	assert_refused(p, 3, "profile 2 of regions");
	p[1]->what = PROFILE_HEAP;
	p[0]->start_unix_ns = p[1]->start_unix_ns = 5000000000;
	assert_refused(p, 3, "one run");
	free_all(p, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_odd_one_is_named),
		cmocka_unit_test(figures_are_the_medians),
		cmocka_unit_test(medians_leave_out_the_one),
		cmocka_unit_test(growth_is_compared_where_it_is_known),
		cmocka_unit_test(live_bytes_of_windows_are_compared_by_their_intervals),
		cmocka_unit_test(what_says_nothing_is_refused),
	};

	return cmocka_run_group_tests_name("replicas", tests, NULL, NULL);
}
