// SPDX-License-Identifier: BSD-2-Clause
/* Made-up known blocks and shapes. Tests which function is named as the owner of blocks that look
 * like known blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/origins.h"

#include "drawn.h"

#define MAX_KNOWN 4000

static struct profile *profile;
static struct census census;
static uint32_t shape_of[MAX_KNOWN];
static struct known_block *known;
static size_t n_known;
static struct origins origins;

static void start(void)
{
	profile = new_profile(1);
	census = (struct census){.shape_of = shape_of};
	n_known = 0;
	known = calloc(MAX_KNOWN, sizeof(*known));
	assert_non_null(known);
}

/* Adds a shape with a rough shape of its own. `blocks` blocks of 50 bytes have this shape. */
static uint32_t add_shape(enum shape_class shape_class, uint64_t blocks)
{
	size_t n = census.n_shapes++;

	census.n_rough++;
	census.shapes = realloc(census.shapes, (n + 1) * sizeof(*census.shapes));
	census.rough = realloc(census.rough, (n + 1) * sizeof(*census.rough));
	census.shapes[n] = (struct census_shape){.rough = (uint32_t)n,
						 .shape_class = shape_class,
						 .count = {blocks, 50 * blocks},
						 .pinned = blocks};
	census.rough[n] = (struct census_shape){.rough = (uint32_t)n, .shape_class = shape_class};
	census.sizes[HEAP_GLIBC][4].in_use.blocks += blocks;
	census.sizes[HEAP_GLIBC][4].in_use.bytes += 50 * blocks;
	return (uint32_t)n;
}

/* Adds the stack malloc < name < main, with n known blocks of this shape. */
static void add_known(const char *name, uint32_t shape, size_t n)
{
	size_t site = add_stack(profile, name, 0, 50, 1);

	free(profile->sites[site].blocks);
	profile->sites[site].blocks = calloc(1, sizeof(struct profile_block));
	profile->sites[site].n_blocks = 1;
	for (size_t i = 0; i < n; i++) {
		shape_of[n_known] = shape;
		known[n_known] = (struct known_block){0x1000 + 64 * n_known, 50, (uint32_t)site};
		n_known++;
	}
}

/* As add_known(), but for the stack malloc < inner < outer. */
static void add_called(const char *inner, const char *outer, uint32_t shape, size_t n)
{
	uint64_t addrs[] = {0x7f0000001001, 0x600001, 0x620001};
	const char *names[] = {"malloc", inner, outer};
	size_t site;

	for (const char *c = inner; *c; c++)
		addrs[1] = addrs[1] * 31 + (uint64_t)*c;
	for (const char *c = outer; *c; c++)
		addrs[2] = addrs[2] * 31 + (uint64_t)*c;
	assert_int_equal(profile__add_site(profile, addrs, 3, false, &site), 0);
	for (size_t i = 0; i < 3; i++)
		set_name(profile, profile->sites[site].locations[i], names[i]);
	profile->sites[site].blocks = calloc(1, sizeof(struct profile_block));
	profile->sites[site].n_blocks = 1;
	for (size_t i = 0; i < n; i++) {
		shape_of[n_known] = shape;
		known[n_known] = (struct known_block){64 * n_known, 50, (uint32_t)site};
		n_known++;
	}
}

static void find(void)
{
	census.n_labels = n_known;
	assert_int_equal(origins__find(profile, known, &census, &origins), 0);
}

static void end(void)
{
	origins__clear(&origins);
	free(census.shapes);
	free(census.rough);
	free(known);
	profile__free(profile);
}

static const struct origin *row_of(const char *function)
{
	for (size_t i = 0; i < origins.n_rows; i++)
		if (!strcmp(origins.rows[i].functions[0], function))
			return &origins.rows[i];
	return NULL;
}

static void test_shapes_of_one_function(void **state)
{
	uint32_t session, other;

	(void)state;
	start();
	session = add_shape(SHAPE_PARTICULAR, 1000);
	other = add_shape(SHAPE_PARTICULAR, 300);
	add_shape(SHAPE_PARTICULAR, 11); /* no known block has this shape */
	add_known("session_new", session, 30);
	add_known("page_new", other, 8); /* one too few */
	find();
	assert_int_equal(origins.known, 38);
	assert_int_equal(origins.n_rows, 1);
	assert_int_equal(origins.rows[0].n_functions, 2);
	assert_string_equal(origins.rows[0].functions[0], "session_new");
	assert_string_equal(origins.rows[0].functions[1], "main");
	assert_int_equal(origins.rows[0].count.blocks, 1000);
	assert_int_equal(origins.rows[0].count.bytes, 50000);
	assert_int_equal(origins.rows[0].pinned, 1000);
	assert_int_equal(origins.unknown.blocks, 311);
	assert_int_equal(origins.told.blocks, 30);
	assert_int_equal(origins.right.blocks, 30);
	end();
}

/* If blocks of two functions look the same, their shape has no owner. One known block in twenty may
 * be another function's, because tracing may have missed that a block was freed and used again. */
static void test_shapes_of_two_functions(void **state)
{
	uint32_t both, mostly;

	(void)state;
	start();
	both = add_shape(SHAPE_PARTICULAR, 1000);
	mostly = add_shape(SHAPE_PARTICULAR, 500);
	add_known("this_new", both, 40);
	add_known("that_new", both, 40);
	/* If much_new()'s known blocks were left out, their shape would seem to be rare_new()'s.
	 * But the shape does not count as misleading for this reason. */
	add_known("much_new", mostly, 990);
	add_known("rare_new", mostly, 10);
	/* many good shapes, so that this class of shapes is not given up */
	for (int i = 0; i < 20; i++) {
		char name[] = "a_new";

		name[0] = (char)('a' + i);
		add_known(name, add_shape(SHAPE_PARTICULAR, 1), 10);
	}
	find();
	assert_non_null(row_of("a_new"));
	assert_null(row_of("this_new"));
	assert_null(row_of("that_new"));
	assert_non_null(row_of("much_new"));
	assert_int_equal(row_of("much_new")->count.blocks, 500);
	end();
}

/* All blocks of a rough shape are one function's. Each shape has too few blocks to show this. */
static void test_rough_shapes(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 5; i++)
		add_known("page_new", add_shape(SHAPE_PLAIN, 100), 4);
	for (uint32_t i = 1; i < 5; i++)
		census.shapes[i].rough = 0;
	census.rough[0].count = (struct heap_count){7, 350};
	add_known("text_new", add_shape(SHAPE_PLAIN, 10), 20);
	find();
	assert_int_equal(origins.n_rows, 2);
	assert_int_equal(row_of("page_new")->count.blocks, 507);
	end();
}

/* If the few known blocks of a shape are of two functions, its rough shape cannot decide. */
static void test_rough_shape_of_a_mixed_one(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 3; i++)
		add_known("page_new", add_shape(SHAPE_PLAIN, 100), 30);
	add_known("page_new", add_shape(SHAPE_PLAIN, 5000), 1);
	add_known("text_new", 3, 1);
	add_known("text_new", add_shape(SHAPE_PLAIN, 10), 20);
	for (uint32_t i = 1; i < 4; i++)
		census.shapes[i].rough = 0;
	find();
	assert_int_equal(row_of("page_new")->count.blocks, 300);
	end();
}

/* Of the functions that make plain blocks, one in three makes blocks that look like another
 * function's. So a function without known blocks may make such blocks, too. */
static void test_classes_that_mislead(void **state)
{
	char name[] = "a_new";
	uint32_t shape = 0;

	(void)state;
	start();
	for (int i = 0; i < 12; i++) {
		if (i % 3 != 1)
			shape = add_shape(SHAPE_PLAIN, 100);
		name[0] = (char)('a' + i);
		/* the second function's blocks look like the first function's */
		add_known(name, shape, i % 3 == 1 ? 10 : 100);
	}
	add_known("object_new", add_shape(SHAPE_PARTICULAR, 77), 20);
	add_known("list_new", add_shape(SHAPE_PARTICULAR, 55), 20);
	find();
	assert_int_equal(origins.n_rows, 2);
	assert_string_equal(origins.rows[0].functions[0], "object_new");
	assert_string_equal(origins.rows[1].functions[0], "list_new");
	end();
}

/* Strings have one type object and are made by several functions, so they have no owner. Sets have
 * another type object, and one owner. */
static void test_families(void **state)
{
	uint32_t string, shapes[3];

	(void)state;
	start();
	string = add_shape(SHAPE_PARTICULAR, 1000);
	census.shapes[string].mark = 0x400010;
	for (int i = 0; i < 3; i++) {
		shapes[i] = add_shape(SHAPE_PARTICULAR, 500);
		census.shapes[shapes[i]].mark = i ? 0x400020 : 0x400010;
	}
	add_known("join", string, 30);
	add_known("concat", string, 30);
	add_known("join", shapes[0], 30);    /* only join() makes blocks of this size */
	add_known("set_new", shapes[1], 31); /* a sum of 31 times 1/31 is not quite 1 */
	find();
	assert_int_equal(origins.n_rows, 1);
	assert_string_equal(origins.rows[0].functions[0], "set_new");
	assert_int_equal(origins.rows[0].count.blocks, 500);
	end();
}

/* A family of objects has no owner. The rough shapes of its objects have no mark, so they belong to
 * another family. They must not give the objects an owner either. */
static void test_rough_shape_of_a_closed_family(void **state)
{
	uint32_t shapes[2];

	(void)state;
	start();
	for (int i = 0; i < 2; i++) {
		shapes[i] = add_shape(SHAPE_PARTICULAR, 1000);
		census.shapes[shapes[i]].mark = 0x400010;
		census.rough[shapes[i]].shape_class = SHAPE_PLAIN;
	}
	add_known("join", shapes[0], 30);
	add_known("concat", shapes[0], 30);
	add_known("join", shapes[1], 30);
	add_known("text_new", add_shape(SHAPE_PLAIN, 10), 20);
	add_known("page_new", add_shape(SHAPE_PLAIN, 10), 20);
	find();
	assert_null(row_of("join"));
	assert_non_null(row_of("page_new"));
	end();
}

/* Text to which no block points has no owner, even if some known blocks are such text. */
static void test_plain_blocks_alone(void **state)
{
	(void)state;
	start();
	add_known("text_new", add_shape(SHAPE_ALONE, 10), 20);
	add_known("page_new", add_shape(SHAPE_ALONE, 10), 20);
	add_known("key_new", add_shape(SHAPE_PLAIN, 10), 20);
	add_known("value_new", add_shape(SHAPE_PLAIN, 10), 20);
	find();
	assert_int_equal(origins.n_rows, 2);
	assert_null(row_of("text_new"));
	assert_null(row_of("page_new"));
	assert_int_equal(origins.unknown.blocks, 20);
	end();
}

/* If only one function of a family is known, and its blocks have no mark, other functions may make
 * such blocks, too. */
static void test_family_of_one(void **state)
{
	(void)state;
	start();
	add_known("text_new", add_shape(SHAPE_PLAIN, 10), 20);
	add_known("set_new", add_shape(SHAPE_PARTICULAR, 10), 20);
	census.shapes[1].mark = 0x400010;
	find();
	assert_int_equal(origins.n_rows, 1);
	assert_string_equal(origins.rows[0].functions[0], "set_new");
	end();
}

/* A row begins with the allocator's caller, and has only the frames that all known stacks share. */
static void test_common_beginning(void **state)
{
	uint64_t addrs[] = {0x7f0000001001, 0x600001, 0x610001, 0};
	const char *names[] = {"malloc", "operator new(unsigned long)", "make", NULL};
	uint32_t shape;

	(void)state;
	start();
	shape = add_shape(SHAPE_PARTICULAR, 900);
	for (int i = 0; i < 2; i++) {
		size_t site;

		addrs[3] = 0x620001 + 0x1000 * (uint64_t)i;
		names[3] = i ? "left" : "right";
		assert_int_equal(profile__add_site(profile, addrs, 4, false, &site), 0);
		for (size_t k = 0; k < 4; k++)
			set_name(profile, profile->sites[site].locations[k], names[k]);
		profile->sites[site].blocks = calloc(1, sizeof(struct profile_block));
		profile->sites[site].n_blocks = 1;
		for (int k = 0; k < 20; k++) {
			shape_of[n_known] = shape;
			known[n_known] = (struct known_block){64 * n_known, 50, (uint32_t)site};
			n_known++;
		}
	}
	for (int i = 0; i < 3; i++) {
		char name[] = "a_new";

		name[0] = (char)('a' + i);
		add_known(name, add_shape(SHAPE_PARTICULAR, 1), 1);
	}
	find();
	assert_int_equal(origins.n_rows, 1);
	assert_int_equal(origins.rows[0].n_functions, 1);
	assert_string_equal(origins.rows[0].functions[0], "make");
	end();
}

/* The rows become stacks. The blocks without an owner become one more stack. */
static void test_stacks(void **state)
{
	struct heap_report report = {.origins = &origins, .pid = 7, .comm = "db"};
	struct profile *stacks;
	bool unknown = false;

	(void)state;
	start();
	add_shape(SHAPE_PARTICULAR, 11);
	add_known("session_new", add_shape(SHAPE_PARTICULAR, 1000), 30);
	census.shapes[1].mark = 0x400010;
	find();
	assert_int_equal(heap_report__stacks(&report, &stacks), 0);
	assert_int_equal(stacks->n_sites, 2);
	assert_string_equal(stacks->comm, "db");
	for (size_t i = 0; i < 2; i++) {
		const struct profile_site *site = &stacks->sites[i];

		if (site->n_locations == 1) {
			unknown = true;
			assert_true(site->live.bytes == 550);
			continue;
		}
		assert_true(site->live.bytes == 50000 && site->live.objects == 1000);
		assert_string_equal(profile__location(stacks, site, 0)->frames[0].name,
				    "session_new");
		assert_string_equal(profile__location(stacks, site, 1)->frames[0].name, "main");
	}
	assert_true(unknown);
	profile__free(stacks);
	end();
}

/* Finds the stack with these frames, outermost first, and returns its bytes; 0: there is none. */
static double bytes_of(struct profile *p, const char *const *frames, size_t n)
{
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *site = &p->sites[i];
		size_t same = 0;

		while (same < n && site->n_locations == n &&
		       !strcmp(profile__location(p, site, n - 1 - same)->frames[0].name,
			       frames[same]))
			same++;
		if (same == n)
			return site->live.bytes;
	}
	return 0;
}

#define BYTES_OF(p, ...)                                                                           \
	bytes_of(p, (const char *const[]){__VA_ARGS__},                                            \
		 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Each block counts once. An object counts in its class's row, and not again among
 * the other blocks of its size. */
static void test_census_as_stacks(void **state)
{
	char item[] = "shop::Item";
	static struct census c;
	struct census_type objects[] = {{.vtable = 1, .size_group = 4, .count = {3, 168}},
					{.vtable = 2, .size_group = 3, .count = {2, 80}},
					{.vtable = 2, .size_group = 4, .count = {5, 280}}};
	const struct heap_type types[] = {{.name = item, .count = {7, 360}, .first = 1, .n = 2}};
	const struct heap_report report = {
		.census = &c, .types = types, .n_types = 1, .pid = 7, .comm = "shop"};
	struct profile *p;

	(void)state;
	c.types = objects;
	c.n_types = 3;
	c.sizes[HEAP_GLIBC][3] = (struct census_size){.in_use = {2, 80}, .cached = {1, 40}};
	c.sizes[HEAP_GLIBC][4] = (struct census_size){.in_use = {10, 560}, .free = {4, 224}};
	assert_int_equal(heap_report__stacks(&report, &p), 0);
	assert_true(p->drawn == DRAWN_CENSUS);
	assert_int_equal(p->n_sites, 5);
	assert_true(BYTES_OF(p, "glibc", "in use", "shop::Item", "up to 48 bytes") == 80);
	assert_true(BYTES_OF(p, "glibc", "in use", "shop::Item", "up to 64 bytes") == 280);
	assert_true(BYTES_OF(p, "glibc", "in use", "up to 64 bytes") == 280);
	assert_true(BYTES_OF(p, "glibc", "free, in caches", "up to 48 bytes") == 40);
	assert_true(BYTES_OF(p, "glibc", "free", "up to 64 bytes") == 224);
	profile__free(p);
}

/* All blocks come from one wrapper of malloc, so the wrapper does not identify a function. */
static void test_wrapper(void **state)
{
	uint32_t shapes[2];

	(void)state;
	start();
	for (int i = 0; i < 2; i++)
		shapes[i] = add_shape(SHAPE_PARTICULAR, 100);
	add_called("get", "a", shapes[0], 20);
	add_called("get", "b", shapes[0], 20);
	add_called("get", "c", shapes[1], 20);
	add_called("get", "d", shapes[1], 20);
	find();
	assert_int_equal(origins.n_rows, 0);
	assert_int_equal(origins.unknown.blocks, 200);
	end();
}

/* Most stacks go through one function. It is not a wrapper, because it makes blocks of one
 * shape. */
static void test_function_with_many_callers(void **state)
{
	uint32_t session, shapes[2];
	char caller[] = "caller_a";

	(void)state;
	start();
	session = add_shape(SHAPE_PARTICULAR, 1000);
	for (int i = 0; i < 2; i++)
		shapes[i] = add_shape(SHAPE_PARTICULAR, 100);
	for (; caller[7] < 'i'; caller[7]++)
		add_called("session_new", caller, session, 5);
	add_called("page_new", "render", shapes[0], 10);
	add_called("text_new", "render", shapes[1], 10);
	find();
	assert_int_equal(origins.n_rows, 3);
	assert_string_equal(origins.rows[0].functions[0], "session_new");
	assert_int_equal(origins.rows[0].n_functions, 1);
	assert_int_equal(origins.rows[0].count.blocks, 1000);
	end();
}

static void test_known_blocks(void **state)
{
	static const struct profile_block one[] = {{300, 8}, {100, 16}},
					  other[] = {{200, 24}, {100, 16}};
	struct profile *p = new_profile(1);
	size_t n;

	(void)state;
	add_stack(p, "a", 0, 8, 1);
	add_stack(p, "b", 0, 8, 1);
	p->sites[0].blocks = malloc(sizeof(one));
	p->sites[1].blocks = malloc(sizeof(other));
	memcpy(p->sites[0].blocks, one, sizeof(one));
	memcpy(p->sites[1].blocks, other, sizeof(other));
	p->sites[0].n_blocks = p->sites[1].n_blocks = 2;
	assert_int_equal(origins__known(p, &known, &n), 0);
	/* if one address has two stacks, neither is used */
	assert_int_equal(n, 2);
	assert_int_equal(known[0].addr, 200);
	assert_int_equal(known[0].site, 1);
	assert_int_equal(known[1].addr, 300);
	assert_int_equal(known[1].size, 8);
	free(known);
	profile__free(p);
}

/* There are no known blocks, or too few. */
static void test_too_few(void **state)
{
	uint32_t shapes[2];

	(void)state;
	start();
	for (int i = 0; i < 2; i++)
		shapes[i] = add_shape(SHAPE_PARTICULAR, 100);
	add_known("even", shapes[0], 1);
	add_known("odd", shapes[0], 1);
	add_known("even", shapes[1], 1);
	find();
	assert_int_equal(origins.n_rows, 0);
	assert_false(origins.misleading); /* no owner was named, so none was wrong */
	assert_int_equal(origins.told.blocks, 0);
	assert_int_equal(origins.unknown.blocks, 200);
	origins__clear(&origins);
	assert_int_equal(origins__find(NULL, NULL, &census, &origins), 0);
	assert_int_equal(origins.known, 0);
	assert_int_equal(origins.unknown.blocks, 200);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes_of_one_function),
		cmocka_unit_test(test_shapes_of_two_functions),
		cmocka_unit_test(test_rough_shapes),
		cmocka_unit_test(test_rough_shape_of_a_mixed_one),
		cmocka_unit_test(test_classes_that_mislead),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_rough_shape_of_a_closed_family),
		cmocka_unit_test(test_plain_blocks_alone),
		cmocka_unit_test(test_family_of_one),
		cmocka_unit_test(test_common_beginning),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_census_as_stacks),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_function_with_many_callers),
		cmocka_unit_test(test_known_blocks),
		cmocka_unit_test(test_too_few),
	};

	return cmocka_run_group_tests_name("origins", tests, NULL, NULL);
}
