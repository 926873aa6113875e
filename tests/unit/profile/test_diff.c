// SPDX-License-Identifier: BSD-2-Clause
/* Compares with independent truth: figures calculated by hand, and simulated programs that are
 * known to grow or not to grow. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "profile/diff.h"

#include "drawn.h"

#define KIB 1024.0
#define R   (512 << 10)

static struct diff *diff_of(const struct profile *const *profiles, size_t n)
{
	struct diff *diff = NULL;
	struct error err = {};

	if (diff__new(profiles, n, DIFF_AUTO, &diff, &err))
		fail_msg("refused: %s", err.text);
	return diff;
}

#define DIFF(...)                                                                                  \
	diff_of((const struct profile *const[]){__VA_ARGS__},                                      \
		sizeof((const struct profile *const[]){__VA_ARGS__}) / sizeof(void *))

static void assert_refused(const struct profile *a, const struct profile *b,
			   enum diff_measure measure, const char *why)
{
	struct diff *diff = NULL;
	struct error err = {};

	assert_int_equal(diff__new((const struct profile *const[]){a, b}, 2, measure, &diff, &err),
			 -EINVAL);
	assert_null(diff);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static const struct diff_stack *find(const struct diff *diff, const char *name)
{
	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct diff_stack *stack = &diff->stacks[i];
		const char *function = profile_location__function(
			profile__location(stack->profile, stack->site, 1));

		if (!strcmp(function, name))
			return stack;
	}
	return NULL;
}

static void assert_close(double value, double expected, double relative)
{
	if (!(fabs(value - expected) <= relative * fabs(expected)))
		fail_msg("%.12g is not %.12g within %g", value, expected, relative);
}

static void snapshot_of(struct profile *profile, double seconds)
{
	profile->start_unix_ns = 1000000000000000000;
	profile->duration_s = seconds;
}

/* --- by hand --- */

static void exact_differences_are_exact(void **state)
{
	struct profile *a = new_profile(1), *b = new_profile(1);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	snapshot_of(a, 10);
	snapshot_of(b, 30);
	add_stack(a, "stays", 0, 100, 50);
	add_stack(a, "grows", 0, 1000, 4);
	add_stack(a, "ends", 0, 64, 20);
	add_stack(b, "stays", 0, 100, 50);
	add_stack(b, "grows", 0, 1000, 24);
	add_stack(b, "comes", 0, 5000, 1);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_true(diff->one_run && diff->exact && diff->measure == DIFF_LIVE);
	assert_true(diff->seconds == 20 && diff->warnings == 0);
	assert_int_equal(diff->n_stacks, 4);
	stack = find(diff, "grows");
	assert_ptr_equal(stack, &diff->stacks[0]);
	assert_true(stack->change.from == 4000 && stack->change.to == 24000);
	assert_true(stack->change.low == 20000 && stack->change.high == 20000 && stack->grows);
	assert_close(stack->change.p_grows, exp2(-21), 1e-9); /* 20 are new, none was freed */
	assert_true(stack->rises == 1 && stack->falls == 0 && isnan(stack->trend.low));
	stack = find(diff, "ends");
	assert_true(stack->change.bytes == -1280 && stack->change.low == -1280);
	assert_true(stack->falls == 1);
	stack = find(diff, "comes"); /* exact, but one block may be chance */
	assert_true(stack->change.bytes == 5000 && stack->change.low == 5000 && !stack->grows);
	stack = find(diff, "stays");
	assert_true(stack->change.bytes == 0 && stack->change.high == 0 && !stack->shrinks);
	assert_true(diff->total.change.bytes == 20000 - 1280 + 5000 &&
		    diff->total.change.low == 23720);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* Blocks have 16 bytes, and R is 64 KiB, so each sample stands for R + 8 bytes. Printed tables have
 * Garwood's limits of Poisson counts: 4 [1.08987, 10.24159], 9 [4.11537, 17.08480],
 * 0 [0, 3.688879]. */
static void sampled_differences_have_errors(void **state)
{
	struct profile *a = new_profile(64 << 10), *b = new_profile(64 << 10);
	const struct diff_stack *stack;
	double w = (64 << 10) + 8, bytes = 16.0 / -expm1(-16.0 / (64 << 10));
	struct diff *diff;

	(void)state;
	add_stack(a, "some", 0, 16, 4);
	add_stack(b, "some", 0, 16, 9);
	add_stack(b, "new", 0, 16, 4);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_false(diff->one_run || diff->exact);
	assert_true(isnan(diff->seconds) && diff->warnings == 1u << DIFF_WARN_UNTIMED);
	stack = find(diff, "some");
	assert_close(stack->change.bytes, 5 * bytes, 1e-9);
	assert_close(stack->change.low, w * (5 - hypot(9 - 4.11537, 10.24159 - 4)), 2e-3);
	assert_close(stack->change.high, w * (5 + hypot(17.08480 - 9, 4 - 1.08987)), 2e-3);
	/* 13 tosses, 9 heads: 715/2 + 286 + 78 + 13 + 1 of 8192 */
	assert_close(stack->change.p_grows, (715 / 2.0 + 286 + 78 + 13 + 1) / 8192, 1e-3);
	assert_close(stack->change.p_shrinks, 1 - stack->change.p_grows, 1e-9);
	stack = find(diff, "new");
	assert_close(stack->change.low, w * (4 - hypot(4 - 1.08987, 3.688879)), 2e-2);
	assert_close(stack->change.p_grows, 1 / 32.0, 1e-3);
	assert_false(stack->grows);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* The second profile is sampled three times as finely: three of its samples are worth one sample of
 * the first profile. */
static void intervals_may_differ(void **state)
{
	struct profile *a = new_profile(300000), *b = new_profile(100000);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	add_stack(a, "same", 0, 16, 4);
	add_stack(b, "same", 0, 16, 12);
	add_stack(b, "new", 0, 16, 6);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	stack = find(diff, "same");
	assert_true(fabs(stack->change.bytes) < 100);
	assert_true(stack->change.p_grows > 0.4 && stack->change.p_grows < 0.6);
	assert_close(find(diff, "new")->change.p_grows, pow(0.75, 6) / 2, 5e-3);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* One stack has 11 samples in the first snapshot and 11 more in the second. Nothing was freed, so
 * its growth cannot be chance. Another stack allocates and frees much. */
static void snapshots_of_a_run_share_their_samples(void **state)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	const struct diff_stack *stack;
	double w = 16.0 / -expm1(-16.0 / R), high;
	struct diff *diff;
	size_t site;

	(void)state;
	snapshot_of(a, 30);
	snapshot_of(b, 60);
	add_stack(a, "leak", 0, 16, 11);
	add_stack(b, "leak", 0, 16, 22);
	site = add_stack(a, "churn", 0, 16, 40);
	a->sites[site].alloc_bytes = 1000 * w;
	a->sites[site].alloc_objects = 1000 * w / 16;
	site = add_stack(b, "churn", 0, 16, 52);
	b->sites[site].alloc_bytes = 2000 * w;
	b->sites[site].alloc_objects = 2000 * w / 16;
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_true(diff->one_run && diff->seconds == 30);
	stack = find(diff, "leak");
	assert_close(stack->change.p_grows, exp2(-12), 1e-6);
	/* 11 new samples [5.49116, 19.68204], 0 freed ones [0, 3.688879] */
	assert_close(stack->change.low, w * (11 - hypot(11 - 5.49116, 3.688879)), 5e-3);
	assert_close(stack->change.high, w * (11 + 19.68204 - 11), 2e-3);
	assert_true(stack->grows);
	/* 40 and 52 samples, as if they were independent: z = 12 / sqrt(92) */
	stack = find(diff, "churn");
	assert_close(stack->change.p_grows, chance__of_normal(12 / sqrt(92)), 0.05);
	assert_false(stack->grows);
	diff__free(diff);
	/* A coarser sampling interval in the second snapshot does not make it another run. But the
	 * interval of the change is wider, because more of the new blocks may have no sample. */
	high = find((diff = DIFF(a, b)), "leak")->change.high;
	diff__free(diff);
	b->interval_bytes = 4 * R;
	b->asked_interval_bytes = R;
	diff = DIFF(a, b);
	assert_true(diff->one_run && diff->seconds == 30);
	assert_true(find(diff, "leak")->change.high > high);
	diff__free(diff);
	b->interval_bytes = R;
	b->asked_interval_bytes = 0;
	diff = DIFF(b, a);
	assert_true(diff->warnings == 1u << DIFF_WARN_BACKWARDS && isnan(diff->seconds));
	assert_false(find(diff, "leak")->grows);
	diff__free(diff);
	/* another run that traces the same process */
	b->start_unix_ns += 100000000000;
	diff = DIFF(a, b);
	/* the samples of the first run are not in the second */
	assert_true(isnan(diff->seconds) && !diff->one_run);
	diff__free(diff);
	b->start_unix_ns = a->start_unix_ns;
	/* two processes may have 11 and 22 samples by chance */
	b->pid++;
	diff = DIFF(a, b);
	assert_false(diff->one_run || find(diff, "leak")->grows);
	assert_true(diff->warnings == (1u << DIFF_WARN_OTHER_RUNS | 1u << DIFF_WARN_OTHER_LENGTH));
	assert_true(isnan(diff->seconds));
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* --- which stacks are the same --- */

static void add_mapping(struct profile *profile, uint64_t start, const char *path,
			const char *build_id)
{
	struct profile_mapping mapping = {.start = start,
					  .end = start + 0x10000000,
					  .perms = "r-xp",
					  .path = (char *)path,
					  .build_id = (char *)build_id};

	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
}

/* Addresses and the versions of the libraries and the program differ. The names that people read
 * are the same. */
static void stacks_match_by_names(void **state)
{
	struct profile *a = new_profile(1), *b = new_profile(1);
	struct diff *diff;

	(void)state;
	add_stack(a, "one", 0, 10, 1);
	add_stack(a, "two", 0, 10, 2);
	add_stack(b, "one", 0x1000000, 10, 1);
	add_stack(b, "two", 0x1000000, 10, 2);
	add_stack(b, "two", 0x2000000, 10, 3); /* another call of the same functions */
	add_mapping(a, 0x400000, "/usr/bin/server-1.0", NULL);
	add_mapping(a, 0x7f0000000000, "/lib/libc-2.31.so", NULL);
	add_mapping(b, 0x400000, "/opt/server-1.1", "aa");
	add_mapping(b, 0x7f0000000000, "/lib/x86/libc-2.36.so", "bb");
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	assert_true(find(diff, "one")->change.bytes == 0);
	assert_true(find(diff, "two")->change.from == 20 && find(diff, "two")->change.to == 50);
	diff__free(diff);
	/* functions of the same name in a library are different functions */
	free(b->mappings[0].path);
	b->mappings[0].path = strdup("/lib/plugin.so.1");
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 4);
	diff__free(diff);
	free(a->mappings[0].path);
	a->mappings[0].path = strdup("/usr/lib/plugin-1.2.so");
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* One profile has names. The other one has offsets in the same file, which has another name. */
static void places_match_by_build_id(void **state)
{
	struct profile *a = new_profile(1), *b = new_profile(1);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	add_stack(a, "named", 0, 10, 1);
	add_stack(b, "named", 0x30000000, 10, 4);
	add_mapping(a, 0x400000, "/usr/bin/server", "aa");
	add_mapping(b, 0x30400000, "/usr/bin/check", "aa");
	end_profile(a);
	end_profile(b);
	for (size_t i = 0; i < b->n_locations; i++) {
		char name[32];

		if (b->locations[i].mapping < 0)
			continue;
		snprintf(name, sizeof(name), "check+0x%zx", i);
		assert_int_equal(profile_location__set_name(&b->locations[i], name), 0);
		b->locations[i].reason = UNRESOLVED_NO_SYMBOLS;
	}
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 1);
	stack = find(diff, "named"); /* names come from the profile that has them */
	assert_non_null(stack);
	assert_true(stack->change.from == 10 && stack->change.to == 40);
	diff__free(diff);
	/* another build */
	free(b->mappings[0].build_id);
	b->mappings[0].build_id = strdup("ab");
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* --- which profiles can be compared --- */

static void what_cannot_be_compared_says_why(void **state)
{
	struct profile *a = new_profile(1), *b = new_profile(1);
	struct diff *diff = NULL;
	struct error err = {};

	(void)state;
	add_stack(a, "here", 0, 10, 1);
	add_stack(b, "there", 0, 10, 1);
	end_profile(a);
	end_profile(b);
	assert_int_equal(diff__new((const struct profile *const[]){a}, 1, DIFF_AUTO, &diff, &err),
			 -EINVAL);
	assert_int_equal(diff__new(NULL, 0, DIFF_AUTO, &diff, NULL), -EINVAL);
	b->what = PROFILE_REGIONS;
	assert_refused(a, b, DIFF_AUTO, "profile 1 is of heap, profile 2 of regions");
	b->what = PROFILE_HEAP; /* also the kind of profiles from files that name no kind */
	assert_refused(a, b, DIFF_GROWTH, "has no growth rates");
	strcpy(b->comm, "other");
	assert_refused(a, b, DIFF_AUTO, "different programs");
	a->exe = strdup("/bin/x");
	b->exe = strdup("/usr/local/bin/x"); /* the same program; the process has another name */
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	assert_false(diff->warnings & 1u << DIFF_WARN_OTHER_PROGRAM);
	assert_true(diff->warnings & 1u << DIFF_WARN_NOTHING_COMMON);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

static void little_is_enough(void **state)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	struct diff *diff;
	size_t site;

	(void)state;
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_true(diff->n_stacks == 0 && diff->total.change.bytes == 0 && !diff->total.grows);
	/* no sample was seen: the high end is -ln(0.025) R */
	assert_close(diff->total.change.high, -log(0.025) * R, 1e-2);
	diff__free(diff);
	profile__free(b);
	b = new_profile(R);
	assert_int_equal(profile__add_site(b, NULL, 0, false, &site), 0); /* an empty stack */
	assert_int_equal(profile__add_site(b, (uint64_t[]){0x1234}, 1, false, &site),
			 0); /* no names */
	b->dropped = 3;
	end_profile(b);
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 0); /* the stacks hold nothing */
	assert_true(diff->warnings & 1u << DIFF_WARN_INCOMPLETE);
	diff__free(diff);
	b->dropped = 0;
	diff = DIFF(a, b);
	assert_false(diff->warnings & 1u << DIFF_WARN_INCOMPLETE);
	diff__free(diff);
	assert_int_equal(profile__add_lost(b, "functions_refused", 1), 0);
	diff = DIFF(a, b);
	assert_true(diff->warnings & 1u << DIFF_WARN_INCOMPLETE);
	diff__free(diff);
	b->sites[0].live = b->sites[1].live =
		(struct estimate){.samples = 1, .objects = 1, .bytes = 9};
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	assert_false(diff->stacks[0].grows || diff->stacks[1].grows);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* The first profile comes from a file that has only names and bytes. */
static void what_does_not_say_how_it_was_sampled_is_never_sure(void **state)
{
	struct profile *a = new_profile(0), *b = new_profile(1);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	a->mode = MODE_UNKNOWN;
	a->no_objects = true;
	add_stack(a, "more", 0, 0, 0);
	a->sites[0].live.bytes = 1000;
	add_stack(b, "more", 0, 1000, 1000);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	stack = find(diff, "more");
	assert_true(stack->change.bytes == 999000 && isnan(stack->change.low));
	assert_true(stack->change.p_grows == 0.5 && !stack->grows && !diff->exact);
	assert_true(diff->warnings & 1u << DIFF_WARN_UNSAMPLED && isnan(diff__least_growth(diff)));
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

static void set_growth(struct profile *profile, size_t site, double rate, double error)
{
	profile->growth.stacks_known = true;
	profile->sites[site].growth = (struct growth){rate, rate - error, rate + error};
}

static void growth_rates_are_compared_where_live_bytes_cannot_be(void **state)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	b->mode = MODE_WINDOWED;
	set_growth(a, add_stack(a, "same", 0, 16, 10), 1000, 300);
	set_growth(b, add_stack(b, "same", 0, 16, 20), 1100, 400);
	set_growth(b, add_stack(b, "new", 0, 16, 20), 9000, 1000);
	set_growth(b, add_stack(b, "odd", 0, 16, 20), 5, NAN);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_int_equal(diff->measure, DIFF_GROWTH);
	stack = find(diff, "same");
	assert_close(stack->change.low, 100 - 500, 1e-9);
	assert_close(stack->change.high, 100 + 500, 1e-9);
	assert_false(stack->grows);
	/* 9000 +- sqrt(2) 1000; t = 9000 / (1414 / 2.3646) = 15.05 */
	stack = find(diff, "new");
	assert_close(stack->change.low, 9000 - M_SQRT2 * 1000, 1e-9);
	assert_close(stack->change.p_grows, chance__of_student(15.049, 7), 1e-2);
	assert_true(stack->grows);
	stack = find(diff, "odd");
	assert_true(isnan(stack->change.low) && stack->change.p_grows == 0.5 && !stack->grows);
	assert_false(isnan(diff->total.change.bytes));
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* A low end of 0 is a fact, not chance: perhaps the stack has not grown at all. If no such stack
 * has grown, their sum has not grown either. So distances to 0 are added as they are, not as
 * squares. */
static void growth_that_may_be_none_adds_up(void **state)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	a->mode = b->mode = MODE_WINDOWED;
	set_growth(a, add_stack(a, "one", 0, 16, 10), 0, 0);
	set_growth(a, add_stack(a, "two", 0, 16, 10), 40, 30);
	set_growth(a, add_stack(a, "less", 0, 16, 10), 500, 500);
	set_growth(b, add_stack(b, "one", 0, 16, 20), 1000, 1000);
	set_growth(b, add_stack(b, "two", 0, 16, 20), 2000, 2000);
	set_growth(b, add_stack(b, "less", 0, 16, 20), 50, 40);
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_int_equal(diff->measure, DIFF_GROWTH);
	stack = find(diff, "one");
	assert_close(stack->change.low, 0, 1e-9);
	assert_close(stack->change.high, 2000, 1e-9);
	stack = find(diff, "two");
	assert_close(stack->change.low, -40 - 30, 1e-9);
	assert_close(stack->change.high, 1960 + hypot(2000, 30), 1e-9);
	stack = find(diff, "less");
	assert_close(stack->change.low, -450 - hypot(40, 500), 1e-9);
	assert_close(stack->change.high, -450 + 40 + 500, 1e-9);
	/* "one" and "two" may not have grown in the second profile. Then the sum is -490, give or
	 * take what is due to chance. */
	assert_close(diff->total.change.bytes, 1000 + 1960 - 450, 1e-9);
	assert_close(diff->total.change.low, -40 - 450 - sqrt(30 * 30 + 40 * 40 + 500 * 500), 1e-9);
	assert_close(diff->total.change.high,
		     2510 + 500 + sqrt(1000 * 1000 + 2000 * 2000 + 30 * 30 + 40 * 40), 1e-9);
	assert_false(diff->total.grows);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* A stack may have several places in a program. In the sum of these places, too, the distances to 0
 * that are facts are kept apart from errors by chance. */
static void places_of_one_stack_add_up(void **state)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	struct diff *diff;

	(void)state;
	a->mode = b->mode = MODE_WINDOWED;
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "one" : "two";

		set_growth(a, add_stack(a, name, 0, 16, 10), 0, 0);
		set_growth(b, add_stack(b, name, 0, 16, 10), 5, 5); /* down to 0: a fact */
		set_growth(b, add_stack(b, name, 8, 16, 10), 4, 3);
	}
	end_profile(a);
	end_profile(b);
	diff = DIFF(a, b);
	assert_int_equal(diff->n_stacks, 2);
	assert_close(find(diff, "one")->change.low, 9 - 5 - 3, 1e-9);
	assert_close(diff->total.change.low, 18 - 10 - sqrt(3 * 3 + 3 * 3), 1e-9);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

/* A stack that is in neither the first nor the last profile, but in one between them, does not
 * widen the interval of the total. */
static void growth_in_between_is_no_doubt_at_the_ends(void **state)
{
	struct profile *p[3];
	struct diff *diff;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		p[i] = new_profile(R);
		p[i]->mode = MODE_WINDOWED;
		set_growth(p[i], add_stack(p[i], "leak", 0, 16, 10), 200000.0 * (double)i, 100);
		if (i == 1)
			set_growth(p[i], add_stack(p[i], "guest", 0, 16, 1), 5, 1);
		end_profile(p[i]);
	}
	diff = diff_of((const struct profile *const *)p, 3);
	assert_int_equal(diff->measure, DIFF_GROWTH);
	assert_close(diff->total.change.low, 400000 - M_SQRT2 * 100, 1e-9);
	assert_close(diff->total.change.high, 400000 + M_SQRT2 * 100, 1e-9);
	assert_true(diff->total.grows && find(diff, "leak")->grows);
	assert_true(find(diff, "guest")->change.low == 0 && find(diff, "guest")->change.high == 0);
	assert_false(find(diff, "guest")->grows || find(diff, "guest")->shrinks);
	diff__free(diff);
	for (size_t i = 0; i < 3; i++)
		profile__free(p[i]);
}

/* --- more than two profiles --- */

static void many_make_a_trend(void **state)
{
	enum { N = 6 };
	struct profile *p[N];
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	for (int i = 0; i < N; i++) {
		static const int burst[N] = {0, 0, 0, 0, 0, 50};

		p[i] = new_profile(1);
		snapshot_of(p[i], 10 + 5 * i);
		add_stack(p[i], "leak", 0, 1000, 1 + 10 * i);
		add_stack(p[i], "burst", 0, 1000, 1 + burst[i]);
		add_stack(p[i], "wave", 0, 1000, 10 + i % 2);
		end_profile(p[i]);
	}
	diff = diff_of((const struct profile *const *)p, N);
	stack = find(diff, "leak");
	assert_true(stack->grows && stack->rises == N - 1 && stack->falls == 0);
	assert_close(stack->trend.bytes_per_s, 2000, 1e-9);
	assert_true(stack->trend.low == stack->trend.high && stack->values[3] == 31000);
	/* burst grows by the same amount, but in a single step, which is no trend */
	stack = find(diff, "burst");
	assert_close(stack->trend.bytes_per_s, 2000, 1e-9);
	assert_true(stack->trend.low < 0 && !stack->grows && stack->rises == 1);
	stack = find(diff, "wave");
	assert_true(stack->rises == 3 && stack->falls == 2 && !stack->grows);
	diff__free(diff);
	/* If profiles are not in the order of time, only the first and the last are compared. */
	p[1]->duration_s = 100;
	diff = diff_of((const struct profile *const *)p, N);
	stack = find(diff, "leak");
	assert_true(isnan(stack->trend.low) && stack->rises == N - 1);
	assert_true(diff->warnings & 1u << DIFF_WARN_BACKWARDS && diff->seconds == 25);
	diff__free(diff);
	for (int i = 0; i < N; i++)
		profile__free(p[i]);
}

/* --- made-up programs --- */

#define STACKS 30

static const uint64_t sizes[] = {16, 48, 200, 4096, 64 << 10, 700 << 10, 3 << 20};

/* Live bytes of a stack in a program of 50 MB. A few stacks hold most. */
static double mean_of(int stack)
{
	return 50e6 / 3.9950 / (stack + 1); /* the sum of 1/1 .. 1/30 */
}

static double poisson(double mean)
{
	double n = 0, at = -log(random_unit());

	if (mean > 1000) /* nearly a normal distribution */
		return floor(mean +
			     sqrt(mean) * sqrt(-2 * log(random_unit())) *
				     cos(2 * M_PI * random_unit()) +
			     0.5);
	for (; at < mean; at -= log(random_unit()))
		n++;
	return n;
}

/* One run of this program: the number of live blocks in each stack is drawn at random. */
static struct profile *run_of_50_mb(uint64_t interval)
{
	struct profile *profile = new_profile(interval);
	char name[16];

	for (int i = 0; i < STACKS; i++) {
		uint64_t size = sizes[i % 7], other = sizes[(i + 3) % 7];
		size_t site;

		snprintf(name, sizeof(name), "f%c%c", 'a' + i % 26, 'a' + i / 26);
		site = add_stack(profile, name, 0, size, 0);
		draw_blocks(profile, site, size, poisson(mean_of(i) / (double)size / 2));
		draw_blocks(profile, site, other, poisson(mean_of(i) / (double)other / 2));
	}
	end_profile(profile);
	return profile;
}

/* Compares pairs of runs of a program that does not grow. Counts the pairs in which diff says that
 * a stack grows. */
static void what_does_not_grow_is_not_said_to(void **state)
{
	static const uint64_t intervals[3][2] = {{R, R}, {R, 128 << 10}, {64 << 10, R}};
	int pairs = 400;

	(void)state;
	random_state = 20;
	for (int kind = 0; kind < 3; kind++) {
		int claims = 0, totals = 0, worst = 0, in_a_hundred = 0;

		for (int i = 0; i < pairs; i++) {
			struct profile *a = run_of_50_mb(intervals[kind][0]);
			struct profile *b = run_of_50_mb(intervals[kind][1]);
			struct diff *diff = DIFF(a, b);

			in_a_hundred = i % 100 ? in_a_hundred : 0;
			in_a_hundred += diff->n_grow != 0;
			worst = in_a_hundred > worst ? in_a_hundred : worst;
			claims += diff->n_grow != 0;
			totals += diff->total.grows;
			diff__free(diff);
			profile__free(a);
			profile__free(b);
		}
		print_message("of %d pairs %d, of 100 at most %d; totals %d\n", pairs, claims,
			      worst, totals);
		assert_true(claims <= 0.04 * pairs && worst <= 7 && totals <= 0.05 * pairs);
	}
}

/* Between the snapshots, the process executes its program again. The 100 blocks from before the
 * exec are gone without being freed, and 110 blocks of the new program are live. The totals alone
 * would say that 110 blocks came and none went. before: samples of blocks that the stack had
 * allocated and freed long before. */
static void assert_exec_is_noticed(double before)
{
	struct profile *a = new_profile(R), *b = new_profile(R);
	double w = 16.0 / -expm1(-16.0 / R);
	const struct diff_stack *stack;
	struct diff *diff;
	size_t site;

	snapshot_of(a, 30);
	snapshot_of(b, 60);
	site = add_stack(a, "again", 0, 16, 100);
	a->sites[site].alloc_bytes = (before + 100) * w;
	a->sites[site].alloc_objects = (before + 100) * w / 16;
	site = add_stack(b, "again", 0, 16, 110);
	b->sites[site].alloc_bytes = (before + 210) * w;
	b->sites[site].alloc_objects = (before + 210) * w / 16;
	end_profile(a);
	end_profile(b);
	a->sites[0].freed_bytes = b->sites[0].freed_bytes = before * w;
	a->sites[0].freed_objects = b->sites[0].freed_objects = before * w / 16;
	diff = DIFF(a, b);
	assert_true(diff->one_run);
	stack = find(diff, "again");
	/* 100 and 110 samples: z = 10 / sqrt(210) */
	assert_close(stack->change.p_grows, chance__of_normal(10 / sqrt(210)), 0.05);
	assert_false(stack->grows);
	diff__free(diff);
	profile__free(a);
	profile__free(b);
}

static void totals_do_not_hold_across_an_exec(void **state)
{
	(void)state;
	assert_exec_is_noticed(0);
	assert_exec_is_noticed(99900);
}

/* A profile that was filtered by thread or age has no totals: its allocated figures equal the live
 * ones, and its freed figures are 0. */
static void what_has_no_totals_is_not_bounded_by_them(void **state)
{
	struct profile *p[2] = {new_profile(R), new_profile(R)};
	const struct diff_stack *stack;
	struct diff *diff;

	(void)state;
	for (int i = 0; i < 2; i++) {
		size_t site;

		snapshot_of(p[i], 30 * (i + 1));
		site = add_stack(p[i], "some", 0, 16, i ? 115 : 100);
		p[i]->sites[site].alloc_bytes = p[i]->sites[site].live.bytes;
		p[i]->sites[site].alloc_objects = p[i]->sites[site].live.objects;
		end_profile(p[i]);
		p[i]->sites[site].freed_bytes = p[i]->sites[site].freed_objects = 0;
		p[i]->no_allocated = true;
	}
	diff = DIFF(p[0], p[1]);
	assert_true(diff->one_run);
	stack = find(diff, "some");
	assert_close(stack->change.p_grows, chance__of_normal(15 / sqrt(215)), 0.05);
	assert_false(stack->grows);
	diff__free(diff);
	profile__free(p[0]);
	profile__free(p[1]);
}

/* Adds a stack to two snapshots of one run: to each, the samples that are live at its time. Blocks
 * of one size live for life_s on average, and are born at such a rate that `bytes` of them are
 * live. */
static void live_through(struct profile *const *p, const char *name, uint64_t size, double bytes,
			 double life_s, const double *at)
{
	double w = (double)size / -expm1(-(double)size / R), rate = bytes / w / life_s;
	size_t site[2];

	for (int k = 0; k < 2; k++)
		site[k] = add_stack(p[k], name, 0, size, 0);
	/* tracing began with the program, so there are no earlier blocks */
	for (double birth = -log(random_unit()) / rate; birth < at[1];
	     birth -= log(random_unit()) / rate) {
		double death = birth - log(random_unit()) * life_s;

		for (int k = 0; k < 2; k++) {
			if (birth >= at[k])
				continue;
			p[k]->sites[site[k]].alloc_bytes += w;
			p[k]->sites[site[k]].alloc_objects += w / (double)size;
			if (death >= at[k])
				assert_int_equal(profile__add_live(p[k], site[k], 0, size), 0);
		}
	}
}

/* A program has 50 MB of churn in 30 stacks, whose blocks live from a tenth of a second to a few
 * seconds. It also leaks 200 kB/s. Snapshots are taken at 40 and 70 s. Counts how often diff finds
 * the leak, and how often it says that another stack grows. */
static void a_leak_among_churn_is_found(void **state)
{
	static const double at[] = {40, 70};
	int runs = 200, found = 0, wrong = 0, wrong_without = 0;

	(void)state;
	random_state = 7;
	for (int run = 0; run < 2 * runs; run++) {
		bool leaks = run < runs;
		struct profile *p[2] = {new_profile(R), new_profile(R)};
		const struct diff_stack *leak;
		struct diff *diff;
		char name[16];

		for (int i = 0; i < STACKS; i++) {
			snprintf(name, sizeof(name), "f%c%c", 'a' + i % 26, 'a' + i / 26);
			live_through(p, name, 4096, mean_of(i) * 0.7, 0.3 * (1 + i % 4), at);
			live_through(p, name, 600 << 10, mean_of(i) * 0.3, 3.0 * (i % 4) + 1, at);
		}
		if (leaks)
			live_through(p, "leak", 4096, 200e3 * 1e9, 1e9, at);
		for (int k = 0; k < 2; k++) {
			snapshot_of(p[k], at[k]);
			end_profile(p[k]);
		}
		diff = DIFF(p[0], p[1]);
		assert_true(diff->one_run);
		leak = leaks ? find(diff, "leak") : NULL;
		found += leak && leak->grows;
		if (leaks)
			wrong += diff->n_grow > (leak->grows ? 1 : 0);
		else
			wrong_without += diff->n_grow != 0;
		diff__free(diff);
		profile__free(p[0]);
		profile__free(p[1]);
	}
	print_message("found in %d of %d; others said to grow in %d, without a leak in %d\n", found,
		      runs, wrong, wrong_without);
	assert_true(found >= 0.95 * runs);
	assert_true(wrong <= 0.04 * runs && wrong_without <= 0.04 * runs);
}

/* Live bytes of windowed runs have intervals of their own, which do not follow from samples. Only
 * the intervals of the two profiles count. */
static void windows_are_judged_by_their_intervals(void **state)
{
	struct profile *p[2] = {new_profile(4096), new_profile(4096)};
	const double mb = 1e6;
	struct diff *diff;

	(void)state;
	for (int i = 0; i < 2; i++) {
		size_t first = add_stack(p[i], "leak", 0, 4096, i ? 250 : 100);
		size_t second = add_stack(p[i], "cache", 0, 4096, i ? 1000 : 800);
		struct profile_site *leak = &p[i]->sites[first], *cache = &p[i]->sites[second];

		/* The standard error of the leak is a tenth of its bytes. The standard error of the
		 * cache is a quarter of its bytes, sqrt(0.2^2 + 0.15^2): 0.2 of its own, and 0.15
		 * common to all stacks. */
		leak->live.variance = pow(leak->live.bytes * 0.1, 2);
		cache->live.variance = pow(cache->live.bytes * 0.2, 2);
		cache->live.common = cache->live.bytes * 0.15;
		p[i]->mode = MODE_WINDOWED;
		p[i]->start_unix_ns = 1000000000;
		p[i]->duration_s = i ? 60 : 20;
		end_profile(p[i]);
	}
	diff = DIFF(p[0], p[1]);
	assert_true(diff->windowed && diff->one_run);
	assert_int_equal(diff->measure, DIFF_LIVE);
	assert_int_equal(diff->n_grow, 1);
	assert_true(find(diff, "leak")->grows && find(diff, "leak")->change.low > 0);
	/* 250 and 100 blocks of 4 KiB; each of the two figures is right within a fifth */
	assert_true(find(diff, "leak")->change.high - find(diff, "leak")->change.low >
		    2 * 1.9 * 0.1 * mb);
	assert_false(find(diff, "cache")->grows);
	assert_true(find(diff, "cache")->change.low < 0 && find(diff, "cache")->change.high > 0);
	diff__free(diff);
	/* different runs are compared by growth, if both profiles have it */
	p[1]->start_unix_ns = 5000000000;
	p[0]->growth.stacks_known = p[1]->growth.stacks_known = true;
	diff = DIFF(p[0], p[1]);
	assert_int_equal(diff->measure, DIFF_GROWTH);
	diff__free(diff);
	profile__free(p[0]);
	profile__free(p[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_differences_are_exact),
		cmocka_unit_test(sampled_differences_have_errors),
		cmocka_unit_test(intervals_may_differ),
		cmocka_unit_test(snapshots_of_a_run_share_their_samples),
		cmocka_unit_test(totals_do_not_hold_across_an_exec),
		cmocka_unit_test(what_has_no_totals_is_not_bounded_by_them),
		cmocka_unit_test(stacks_match_by_names),
		cmocka_unit_test(places_match_by_build_id),
		cmocka_unit_test(what_cannot_be_compared_says_why),
		cmocka_unit_test(little_is_enough),
		cmocka_unit_test(what_does_not_say_how_it_was_sampled_is_never_sure),
		cmocka_unit_test(growth_rates_are_compared_where_live_bytes_cannot_be),
		cmocka_unit_test(growth_that_may_be_none_adds_up),
		cmocka_unit_test(places_of_one_stack_add_up),
		cmocka_unit_test(growth_in_between_is_no_doubt_at_the_ends),
		cmocka_unit_test(many_make_a_trend),
		cmocka_unit_test(what_does_not_grow_is_not_said_to),
		cmocka_unit_test(a_leak_among_churn_is_found),
		cmocka_unit_test(windows_are_judged_by_their_intervals),
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
