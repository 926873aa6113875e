// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "encode/tree.h"
#include "tests/unit/encode/fixture.h"

static const struct tree_options everything = {};

static struct tree build(const struct profile *profile, const struct profile *base,
			 const struct tree_options *options)
{
	struct tree tree;

	assert_int_equal(tree__build(profile, base, options, &tree), 0);
	return tree;
}

static const char *name_of(const struct tree *tree, size_t i)
{
	return !i			 ? "all"
	       : tree->nodes[i].n_folded ? "(smaller)"
					 : tree->frames[tree->nodes[i].frame].name;
}

/* Returns the node at the end of a path of names. Each name is a child of the previous name. Fails
 * if there is no such node. */
static const struct tree_node *node_at(const struct tree *tree, const char *const *names, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct tree_node *node = &tree->nodes[at];
		size_t k = 0;

		while (k < node->n_children &&
		       strcmp(name_of(tree, node->first_child + k), names[i]))
			k++;
		if (k == node->n_children)
			fail_msg("no %s below %s", names[i], name_of(tree, at));
		at = node->first_child + k;
	}
	return &tree->nodes[at];
}

#define AT(tree, ...)                                                                              \
	node_at(tree, (const char *const[]){__VA_ARGS__},                                          \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The checks that every tree must pass. */
static void assert_sound(const struct tree *tree)
{
	for (size_t i = 0; i < tree->n; i++) {
		const struct tree_node *node = &tree->nodes[i];
		double live = 0, base = 0;

		for (size_t k = 0; k < node->n_children; k++) {
			const struct tree_node *child = &tree->nodes[node->first_child + k];

			assert_int_equal(child->parent, i);
			assert_int_equal(child->depth, node->depth + 1);
			assert_true(child->depth <= tree->depth);
			assert_true(k + 1 == node->n_children || !child->n_folded);
			assert_true(!k || child->n_folded ||
				    child->live.bytes <= child[-1].live.bytes);
			live += child->live.bytes;
			base += child->base.bytes;
		}
		assert_true(live <= node->live.bytes * (1 + 1e-9));
		assert_true(base <= node->base.bytes * (1 + 1e-9));
	}
}

static void stacks_share_their_callers(void **state)
{
	struct profile *profile = new_profile(1);
	struct tree tree;

	(void)state;
	STACK(profile, 1, 100, 2, "malloc", "zeta", "main");
	STACK(profile, 1, 50, 1, "calloc", "zeta", "main");
	STACK(profile, 1, 7, 1, "malloc", "alpha", "main");
	STACK(profile, 1, 3, 1, "malloc");
	STACK(profile, 1, 9, 0, "malloc", "freed", "main");
	end_profile(profile);
	tree = build(profile, NULL, &everything);
	assert_sound(&tree);
	assert_int_equal(tree.n, 8);
	assert_int_equal(tree.depth, 3);
	assert_true(tree.nodes[0].live.bytes == 260);
	assert_true(AT(&tree, "main")->live.bytes == 257);
	assert_true(AT(&tree, "main", "zeta")->live.bytes == 250);
	assert_true(AT(&tree, "main", "zeta")->live.objects == 3);
	assert_true(AT(&tree, "main", "zeta", "malloc")->live.bytes == 200);
	assert_true(AT(&tree, "main", "zeta", "calloc")->live.bytes == 50);
	assert_true(AT(&tree, "main", "alpha", "malloc")->live.bytes == 7);
	assert_true(AT(&tree, "malloc")->live.bytes == 3);
	tree__clear(&tree);
	profile__free(profile);
}

static void add_file(struct profile *profile, uint64_t start, const char *path)
{
	struct profile_mapping mapping = {
		.start = start, .end = start + 0x1000, .perms = "r-xp", .path = (char *)path};

	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
}

static size_t add_addresses(struct profile *profile, const uint64_t *addrs, size_t n, uint64_t size)
{
	size_t site, thread;

	assert_int_equal(profile__add_site(profile, addrs, n, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, size), 0);
	return site;
}

static void name_all(struct profile *profile, uint64_t low, uint64_t high, const char *name)
{
	for (size_t i = 0; i < profile->n_locations; i++)
		if (profile->locations[i].addr >= low && profile->locations[i].addr < high)
			assert_int_equal(profile_location__set_name(&profile->locations[i], name),
					 0);
}

/* A frame is a name and a module. Two addresses of f in /opt/a are one frame, and f in b.so is
 * another one. Each frame has its kind. */
static void frames_are_names_and_modules(void **state)
{
	static const uint64_t stacks[][2] = {{0x5001, 0x1010}, {0x5001, 0x1020}, {0x5001, 0x2010},
					     {0x5001, 0x3010}, {0x5001, 0x4010}, {0x5001, 0x9010}};
	struct profile *profile = new_profile(1);
	enum frame_kind kinds[FRAME_KINDS] = {};
	struct tree tree;

	(void)state;
	add_file(profile, 0x1000, "/opt/a");
	add_file(profile, 0x2000, "/opt/b.so");
	add_file(profile, 0x3000, "[vdso]");
	add_file(profile, 0x4000, "");
	add_file(profile, 0x5000, "/lib/libc.so.6");
	profile->exe = strdup("/opt/a");
	for (size_t i = 0; i < 6; i++)
		add_addresses(profile, stacks[i], 2, 1);
	end_profile(profile);
	name_all(profile, 0x1000, 0x5000, "f");
	name_all(profile, 0x5000, 0x6000, "malloc");
	tree = build(profile, NULL, &everything);
	assert_sound(&tree);
	assert_int_equal(tree.nodes[0].n_children, 5);
	for (size_t i = 1; i < tree.n; i++) {
		const struct tree_frame *frame = &tree.frames[tree.nodes[i].frame];

		if (!strcmp(frame->module, "a"))
			assert_true(tree.nodes[i].live.bytes == 2 && frame->kind == FRAME_PROGRAM);
		else if (!strcmp(frame->module, "b.so"))
			assert_true(frame->kind == FRAME_LIBRARY);
		else if (!strcmp(frame->module, "[vdso]"))
			assert_true(frame->kind == FRAME_KERNEL);
		else if (!strcmp(frame->module, "libc.so.6"))
			assert_true(frame->kind == FRAME_ALLOCATOR);
		else
			assert_true(frame->kind == FRAME_ANONYMOUS);
		kinds[frame->kind]++;
	}
	assert_int_equal(kinds[FRAME_PROGRAM], 1);
	/* f in a mapping without a file; an address without a name or a mapping */
	assert_int_equal(kinds[FRAME_ANONYMOUS], 2);
	assert_true(AT(&tree, "0x900f", "malloc")->live.bytes == 1);
	tree__clear(&tree);
	profile__free(profile);
}

static void inlined_functions_are_frames(void **state)
{
	struct profile *profile = new_profile(1);
	struct tree tree;

	(void)state;
	STACK(profile, 1, 10, 1, "malloc", "f", "main");
	end_profile(profile);
	add_inlined(profile, "f", "inner");
	tree = build(profile, NULL, &everything);
	assert_int_equal(AT(&tree, "main", "f", "inner", "malloc")->depth, 4);
	tree__clear(&tree);
	profile__free(profile);
}

static void what_is_no_code_says_so(void **state)
{
	struct profile *profile = new_profile(1);
	struct tree tree;
	size_t site, thread;

	(void)state;
	site = STACK(profile, 1, 10, 1, "malloc", "f");
	profile->sites[site].truncated = true;
	site = STACK(profile, 1, 20, 1, "mmap", "g");
	profile->sites[site].allocators_own = true;
	assert_int_equal(profile__add_site(profile, NULL, 0, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 5), 0);
	end_profile(profile);
	tree = build(profile, NULL, &everything);
	assert_true(AT(&tree, "[truncated]", "f", "malloc")->live.bytes == 10);
	assert_true(AT(&tree, "[allocator's own]", "g", "mmap")->live.bytes == 20);
	assert_true(AT(&tree, "[no stack]")->live.bytes == 5);
	assert_int_equal(tree.frames[AT(&tree, "[no stack]")->frame].kind, FRAME_NOTE);
	tree__clear(&tree);
	profile__free(profile);
}

static void small_ones_are_folded(void **state)
{
	static const struct tree_options tenth = {.min_share = 0.1};
	struct profile *profile = new_profile(1);
	struct tree tree;

	(void)state;
	STACK(profile, 1, 60, 1, "malloc", "big", "main");
	STACK(profile, 1, 9, 1, "malloc", "a", "main");
	STACK(profile, 1, 8, 1, "malloc", "b", "main");
	STACK(profile, 1, 3, 1, "malloc", "c", "main");
	STACK(profile, 1, 20, 1, "malloc", "other");
	end_profile(profile);
	tree = build(profile, NULL, &tenth);
	assert_sound(&tree);
	assert_int_equal(AT(&tree, "main", "(smaller)")->n_folded, 3);
	assert_true(AT(&tree, "main", "(smaller)")->live.bytes == 20);
	assert_true(AT(&tree, "main", "(smaller)")->live.objects == 3);
	assert_int_equal(AT(&tree, "main", "(smaller)")->n_children, 0);
	assert_int_equal(tree.n, 7);
	tree__clear(&tree);
	profile__free(profile);
}

/* A tree never has more nodes than the limit, even if the limit is very small. */
static void nodes_are_limited(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	for (int i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		STACK(profile, 1, (uint64_t)(i + 1), 1, "malloc", "shared", name,
		      i % 2 ? "even" : "odd");
	}
	end_profile(profile);
	for (size_t max = 2; max < 1000; max = max * 3 / 2) {
		struct tree_options options = {.max_nodes = max};
		struct tree tree = build(profile, NULL, &options);

		assert_sound(&tree);
		assert_in_range(tree.n, 2, max);
		/* nodes: the root, even, odd, and 3 for each of the 200 stacks */
		assert_true(max < 603 || tree.n == 603);
		tree__clear(&tree);
	}
	profile__free(profile);
}

static void depth_is_limited(void **state)
{
	struct tree_options options = {.max_depth = 700};
	struct profile *profile = new_profile(1);
	uint64_t addrs[1000];
	struct tree tree;

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		addrs[i] = 0x1000 + i;
	add_addresses(profile, addrs, 1000, 5);
	end_profile(profile);
	tree = build(profile, NULL, &everything);
	assert_int_equal(tree.n, 1001);
	assert_int_equal(tree.depth, 1000);
	tree__clear(&tree);
	tree = build(profile, NULL, &options);
	assert_int_equal(tree.n, 701);
	assert_true(tree.nodes[700].live.bytes == 5);
	tree__clear(&tree);
	profile__free(profile);
}

static void nothing_live_is_a_root(void **state)
{
	struct profile *profile = new_profile(1);
	struct tree tree;

	(void)state;
	STACK(profile, 1, 9, 0, "malloc", "freed", "main");
	STACK(profile, 1, 0, 3, "malloc", "empty", "main");
	end_profile(profile);
	tree = build(profile, NULL, &everything);
	assert_int_equal(tree.n, 1);
	tree__clear(&tree);
	profile__free(profile);
}

/* The addresses of the same functions differ from process to process. */
static void two_profiles_meet_by_name(void **state)
{
	static const uint64_t there[] = {0x111, 0x222, 0x333};
	struct profile *profile = new_profile(1), *base = new_profile(1);
	struct tree_change change;
	struct tree tree;

	(void)state;
	STACK(profile, 1, 100, 3, "malloc", "f", "main");
	STACK(profile, 1, 40, 1, "malloc", "added", "main");
	end_profile(profile);
	add_addresses(base, there, 3, 100);
	STACK(base, 1, 30, 2, "malloc", "removed", "main");
	STACK(base, 1, 5, 1, "malloc", "main");
	end_profile(base);
	name_all(base, 0x111, 0x112, "malloc");
	name_all(base, 0x222, 0x223, "f");
	name_all(base, 0x333, 0x334, "main");
	tree = build(profile, base, &everything);
	assert_sound(&tree);
	assert_true(tree.nodes[0].live.bytes == 340 && tree.nodes[0].base.bytes == 165);
	assert_true(AT(&tree, "main", "f")->live.bytes == 300);
	assert_true(AT(&tree, "main", "f")->base.bytes == 100);
	assert_true(AT(&tree, "main", "added")->base.bytes == 0);
	assert_true(AT(&tree, "main", "removed")->base.bytes == 60);
	assert_int_equal(tree.gone_stacks, 2);
	assert_true(tree.gone_bytes == 65);
	change = tree_node__change(&tree, AT(&tree, "main", "f"));
	assert_true(change.bytes == 200 && change.interval.low == 200 &&
		    change.interval.high == 200);
	assert_true(tree_change__exceeds_error(&change));
	change = tree_node__change(&tree, AT(&tree, "main", "removed"));
	assert_true(change.bytes == -60 && tree_change__exceeds_error(&change));
	tree__clear(&tree);
	profile__free(profile);
	profile__free(base);
}

/* If one of the two profiles has no interval, the change has none. */
static void unsampled_changes_are_not_known(void **state)
{
	struct profile *profile = new_profile(1), *base = new_profile(0);
	struct tree_change change;
	struct tree tree;

	(void)state;
	STACK(profile, 1, 100, 3, "malloc", "f", "main");
	end_profile(profile);
	end_profile(base);
	tree = build(profile, base, &everything);
	change = tree_node__change(&tree, AT(&tree, "main", "f"));
	assert_true(change.bytes == 300 && isnan(change.interval.low) &&
		    isnan(change.interval.high));
	assert_false(tree_change__exceeds_error(&change));
	tree__clear(&tree);
	profile__free(profile);
	profile__free(base);
}

/* --- does the interval of a change contain the true change as often as it claims? --- */

static uint64_t random_state = 88172645463325252;

static double random_share(void) /* xorshift64; above 0 */
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) * 0x1p-53 + 0x1p-54;
}

/* Samples n blocks at random. Returns the estimate. */
static struct estimate sampled(int n, uint64_t size, uint64_t interval)
{
	double missed = log1p(-estimate__probability(size, interval));
	struct estimate estimate = {};

	/* distances from one sampled block to the next are geometrically distributed */
	for (double at = log(random_share()) / missed; at < n;
	     at += 1 + floor(log(random_share()) / missed))
		estimate__add(&estimate, size, interval);
	return estimate;
}

/* Simulates pairs of estimates whose true values differ by (now - before) blocks. *ret_held: per
 * cent of pairs whose interval contains the true change. *ret_exceed: per cent of pairs whose
 * change exceeds its error. */
static void pairs(int before, int now, double *ret_held, double *ret_exceed)
{
	const uint64_t size = 64, interval = 65536;
	const int runs = 4000;
	int held = 0, exceeding = 0;
	struct tree tree = {.unseen_live = 3.6889 * 65536, .unseen_base = 3.6889 * 65536};

	for (int i = 0; i < runs; i++) {
		struct tree_node node = {.live = sampled(now, size, interval),
					 .base = sampled(before, size, interval)};
		struct tree_change change = tree_node__change(&tree, &node);
		double truth = (double)(now - before) * (double)size;

		held += change.interval.low <= truth && truth <= change.interval.high;
		exceeding += tree_change__exceeds_error(&change);
	}
	*ret_held = 100.0 * held / runs;
	*ret_exceed = 100.0 * exceeding / runs;
}

static void error_is_not_exceeded_by_chance(void **state)
{
	/* blocks with 0.5, 2, 5, 20 and 200 samples on average */
	static const int blocks[] = {512, 2048, 5120, 20480, 204800};
	double held, exceeding;

	(void)state;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		pairs(blocks[i], blocks[i], &held, &exceeding);
		assert_true(held >= 94 && exceeding <= 6);
		pairs(blocks[i], 2 * blocks[i], &held, &exceeding);
		assert_true(held >= 94);
	}
	/* a change from 200 to 400 samples is seen */
	assert_true(exceeding > 99);
}

/* A stack has few samples now and none in the base. It may still have been live in the base. */
static void few_samples_prove_nothing(void **state)
{
	for (int n = 1; n <= 10; n++) {
		struct profile *profile = new_profile(65536), *base = new_profile(65536);
		struct tree_change change;
		struct tree tree;

		(void)state;
		STACK(profile, 1, 64, n, "malloc", "f", "main");
		STACK(base, 1, 64, 5, "malloc", "g", "main");
		end_profile(profile);
		end_profile(base);
		tree = build(profile, base, &everything);
		change = tree_node__change(&tree, AT(&tree, "main", "f"));
		assert_true(change.interval.low < change.bytes &&
			    change.bytes < change.interval.high);
		/* a binomial test of n samples against 0 has p = 2^(1 - n): 0.125 for 4, 0.031 for
		 * 6 */
		if (n != 5)
			assert_int_equal(tree_change__exceeds_error(&change), n >= 6);
		tree__clear(&tree);
		profile__free(profile);
		profile__free(base);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_share_their_callers),
		cmocka_unit_test(frames_are_names_and_modules),
		cmocka_unit_test(inlined_functions_are_frames),
		cmocka_unit_test(what_is_no_code_says_so),
		cmocka_unit_test(small_ones_are_folded),
		cmocka_unit_test(nodes_are_limited),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(nothing_live_is_a_root),
		cmocka_unit_test(two_profiles_meet_by_name),
		cmocka_unit_test(unsampled_changes_are_not_known),
		cmocka_unit_test(error_is_not_exceeded_by_chance),
		cmocka_unit_test(few_samples_prove_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
