// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "profile/build.h"
#include "profile/profile.h"

static size_t add_site(struct profile *profile, const uint64_t *addrs, size_t n)
{
	size_t site;

	assert_int_equal(profile__add_site(profile, addrs, n, false, &site), 0);
	return site;
}

static size_t add_thread(struct profile *profile, uint32_t tid, const char *name)
{
	size_t thread;

	assert_int_equal(profile__add_thread(profile, tid, name, &thread), 0);
	return thread;
}

static void add_mapping(struct profile *profile, uint64_t start, uint64_t end, const char *perms)
{
	struct profile_mapping mapping = {.start = start, .end = end, .path = (char *)"/bin/x"};

	strcpy(mapping.perms, perms);
	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
}

static uint64_t addr_of(const struct profile *profile, size_t site, uint32_t i)
{
	return profile__location(profile, &profile->sites[site], i)->addr;
}

static struct profile *new_exact(void)
{
	struct profile *profile = profile__new();

	assert_non_null(profile);
	profile->interval_bytes = 1;
	return profile;
}

static void everything_comes_out_sorted(void **state)
{
	static const uint64_t small[] = {0x1001, 0x3005}, large[] = {0x1001, 0x2005, 0x3005},
			      dead[] = {0x1001, 0x1800};
	struct profile *profile = new_exact();
	size_t a, b, c, t9, t3;

	(void)state;
	add_mapping(profile, 0x3000, 0x4000, "r-xp");
	add_mapping(profile, 0x1000, 0x2000, "r-xp");
	a = add_site(profile, small, 2);
	b = add_site(profile, large, 3);
	c = add_site(profile, dead, 2);
	t9 = add_thread(profile, 9, "nine");
	t3 = add_thread(profile, 3, "");
	assert_int_equal(add_thread(profile, 3, "three"), t3);
	assert_int_equal(add_thread(profile, 9, NULL), t9);
	assert_int_equal(profile__add_live(profile, a, t9, 10), 0);
	assert_int_equal(profile__add_live(profile, b, t9, 30), 0);
	assert_int_equal(profile__add_live(profile, b, t3, 5), 0);
	assert_int_equal(profile__add_live(profile, b, t9, 6), 0);
	profile->sites[c].alloc_bytes = 100;
	assert_int_equal(profile__sort(profile), 0);

	assert_int_equal(profile->n_sites, 3);
	assert_true(profile->sites[0].live.bytes == 41 && profile->sites[1].live.bytes == 10);
	assert_true(profile->sites[2].alloc_bytes == 100);
	assert_int_equal(profile->sites[0].n_locations, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(addr_of(profile, 0, i), large[i]);
	assert_int_equal(addr_of(profile, 2, 1), 0x1800);

	assert_int_equal(profile->n_locations, 4);
	for (size_t i = 1; i < profile->n_locations; i++)
		assert_true(profile->locations[i - 1].addr < profile->locations[i].addr);
	assert_int_equal(profile->mappings[0].start, 0x1000);
	assert_int_equal(profile->locations[0].mapping, 0);  /* 0x1001 */
	assert_int_equal(profile->locations[2].mapping, -1); /* 0x2005 */
	assert_int_equal(profile->locations[3].mapping, 1);  /* 0x3005 */

	assert_int_equal(profile->n_threads, 2);
	assert_int_equal(profile->threads[0].tid, 3);
	assert_string_equal(profile->threads[0].name, "three");
	assert_string_equal(profile->threads[1].name, "nine");
	assert_int_equal(profile->sites[0].n_threads, 2);
	assert_int_equal(profile->sites[0].threads[0].thread, 0);
	assert_true(profile->sites[0].threads[0].bytes == 5);
	assert_true(profile->sites[0].threads[1].bytes == 36);
	assert_true(profile->sites[0].threads[1].objects == 2);
	assert_true(profile__live(profile).bytes == 51);
	assert_int_equal(profile__live(profile).samples, 4);
	profile__free(profile);
}

/* A location belongs to the mapping of addr - 1: a call at the very end of a mapping returns to an
 * address behind the mapping. */
static void a_return_address_belongs_to_its_call(void **state)
{
	static const uint64_t stack[] = {0x1000, 0x1001, 0x2000, 0x2001};
	struct profile *profile = new_exact();

	(void)state;
	add_mapping(profile, 0x1000, 0x2000, "r-xp");
	add_site(profile, stack, 4);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile->locations[0].mapping, -1);
	assert_int_equal(profile->locations[1].mapping, 0);
	assert_int_equal(profile->locations[2].mapping, 0);
	assert_int_equal(profile->locations[3].mapping, -1);
	profile__free(profile);
}

static void building_goes_on_after_a_sort(void **state)
{
	static const uint64_t first[] = {0x30, 0x20}, second[] = {0x10, 0x20};
	struct profile *profile = new_exact();
	size_t site, thread;

	(void)state;
	for (uint32_t i = 0; i < 5; i++) /* not a power of two, so arrays have room left */
		add_thread(profile, 100 - i, "t");
	site = add_site(profile, first, 2);
	assert_int_equal(profile__add_live(profile, site, 0, 7), 0);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile__sort(profile), 0);

	thread = add_thread(profile, 100, NULL);
	assert_int_equal(thread, 4);
	assert_int_equal(profile__add_live(profile, 0, thread, 3), 0);
	add_thread(profile, 1, "new");
	add_thread(profile, 2, "new");
	add_thread(profile, 3, "new");
	add_thread(profile, 4, "new");
	site = add_site(profile, second, 2);
	assert_int_equal(profile__add_live(profile, site, 0, 2), 0);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile->n_threads, 9);
	assert_int_equal(profile->n_locations, 3);
	assert_int_equal(profile->sites[0].n_threads, 1);
	assert_true(profile->sites[0].threads[0].bytes == 10);
	assert_int_equal(profile->threads[profile->sites[0].threads[0].thread].tid, 100);
	assert_int_equal(addr_of(profile, 0, 0), 0x30);
	profile__free(profile);
}

static void hostile_input_is_refused_or_tamed(void **state)
{
	static const uint64_t zeros[] = {0, 0x10, 0, UINT64_MAX};
	char name[64];
	struct profile *profile = new_exact();
	size_t site, thread;

	(void)state;
	memset(name, 0xff, sizeof(name));
	name[63] = '\0';
	site = add_site(profile, zeros, 4);
	assert_int_equal(profile->sites[site].n_locations, 2);
	site = add_site(profile, NULL, 0);
	thread = add_thread(profile, 0, name);
	assert_int_equal(strlen(profile->threads[thread].name), 15);
	assert_int_equal(profile__add_live(profile, 99, thread, 1), -EINVAL);
	assert_int_equal(profile__add_live(profile, site, 99, 1), -EINVAL);
	assert_int_equal(profile__add_live(profile, site, thread, UINT64_MAX), 0);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile->sites[0].n_locations, 0);
	profile__free(profile);

	profile = new_exact(); /* an empty profile */
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile__cut_implausible(profile, false, NULL), 0);
	profile__free(profile);
	profile__free(NULL);
}

static void strings_are_copied_and_counters_add_up(void **state)
{
	char text[] = "text";
	struct profile *profile = new_exact();
	struct profile_probe probe = {.function = text, .object = text, .instruction = NULL};
	struct profile_mapping mapping = {.end = 1, .path = text, .build_id = text};

	(void)state;
	assert_int_equal(profile__add_probe(profile, &probe), 0);
	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
	assert_int_equal(profile__add_file(profile, text), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 0), 0);
	assert_int_equal(profile__add_lost(profile, "other", 5), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 2), 0);
	memset(text, 'x', 4);
	assert_string_equal(profile->probes[0].function, "text");
	assert_string_equal(profile->probes[0].instruction, "");
	assert_string_equal(profile->mappings[0].build_id, "text");
	assert_string_equal(profile->files[0], "text");
	assert_int_equal(profile->lost.n, 2);
	assert_int_equal(profile->lost.at[0].count, 2);
	profile__free(profile);
}

static void what_cannot_be_code_is_cut(void **state)
{
	/* code 0x1000-0x1fff, data 0x5000-0x5fff; 0x9000 is nowhere */
	static const uint64_t good[] = {0x1001, 0x1100, 0x1200},
			      garbage[] = {0x1001, 0x1100, 0x9000, 0x1300},
			      other_garbage[] = {0x1001, 0x1100, 0x5001},
			      clean[] = {0x1001, 0x1100}, jit_caller[] = {0x1001, 0x9100, 0x9200};
	struct profile *profile = new_exact();
	size_t cut, t1, t2, sites[5];

	(void)state;
	add_mapping(profile, 0x1000, 0x2000, "r-xp");
	add_mapping(profile, 0x5000, 0x6000, "rw-p");
	sites[0] = add_site(profile, good, 3);
	sites[1] = add_site(profile, garbage, 4);
	sites[2] = add_site(profile, other_garbage, 3);
	sites[3] = add_site(profile, clean, 2);
	sites[4] = add_site(profile, jit_caller, 3);
	t1 = add_thread(profile, 1, "a");
	t2 = add_thread(profile, 2, "b");
	profile->sites[sites[1]].truncated = true;
	for (int i = 0; i < 5; i++) {
		profile->sites[sites[i]].survival[0] = profile->sites[sites[i]].older[0] =
			i == 3 ? 1 : 0;
		profile->sites[sites[i]].survival[1] = i == 1 ? NAN : 1;
		profile->sites[sites[i]].alloc_bytes = 1 << i;
		profile->sites[sites[i]].freed_objects = 1;
		assert_int_equal(profile__add_live(profile, sites[i], i == 2 ? t2 : t1, 1 << i), 0);
	}
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile__cut_implausible(profile, false, &cut), 0);

	assert_int_equal(cut, 3); /* garbage, other_garbage, jit_caller */
	assert_int_equal(profile->n_sites, 3);
	/* jit_caller keeps its immediate caller, which is not mapped */
	assert_int_equal(profile->sites[0].n_locations, 2);
	assert_int_equal(addr_of(profile, 0, 1), 0x9100);
	/* garbage + other_garbage + clean */
	assert_true(profile->sites[1].live.bytes == 2 + 4 + 8);
	assert_int_equal(profile->sites[1].live.samples, 3);
	assert_true(profile->sites[1].alloc_bytes == 14 && profile->sites[1].freed_objects == 3);
	/* `survival` is weighted by allocated bytes, and `older` by live bytes. If a share is
	 * unknown for one of the merged stacks, it is unknown for their sum. */
	assert_true(fabs(profile->sites[1].survival[0] - 8 / 14.0) < 1e-9);
	assert_true(fabs(profile->sites[1].older[0] - 8 / 14.0) < 1e-9);
	assert_true(isnan(profile->sites[1].survival[1]));
	assert_true(profile->sites[1].truncated);
	assert_int_equal(profile->sites[1].n_locations, 2);
	assert_int_equal(profile->sites[1].n_threads, 2);
	assert_true(profile->sites[1].threads[0].bytes == 10);
	assert_true(profile->sites[1].threads[1].bytes == 4);
	assert_true(profile->sites[2].live.bytes == 1);
	/* 0x9000, 0x1300, 0x5001 and 0x9200 are in no stack any more */
	assert_int_equal(profile->n_locations, 4);
	assert_int_equal(profile->locations[3].mapping, -1);
	assert_int_equal(profile->locations[0].mapping, 0);
	profile__free(profile);
}

/* 50,000 stacks of 30 frames, 1,000,000 blocks, 200 threads. Then all stacks are cut into one. If
 * the time grew with the square of the size, this would take minutes. */
static void a_large_profile_takes_seconds(void **state)
{
	struct profile *profile = new_exact();
	clock_t start = clock();
	size_t cut;

	(void)state;
	for (uint64_t i = 0; i < 50000; i++) {
		uint64_t stack[30] = {0x1001, 0x1101};

		for (uint64_t k = 2; k < 30; k++)
			stack[k] = 0x100000 + (i * k * 7919) % 200000;
		add_site(profile, stack, 30);
	}
	for (uint32_t i = 0; i < 200; i++)
		add_thread(profile, 1000 - i, "worker");
	for (uint32_t i = 0; i < 1000000; i++)
		assert_int_equal(profile__add_live(profile, i * 31 % 50000, i % 200, 1 + i % 1000),
				 0);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile__live(profile).samples, 1000000);
	assert_int_equal(profile__cut_implausible(profile, false, &cut), 0);
	assert_int_equal(cut, 50000);
	assert_int_equal(profile->n_sites, 1);
	assert_int_equal(profile->n_locations, 2);
	assert_int_equal(profile->sites[0].n_threads, 200);
	assert_int_equal(profile->sites[0].live.samples, 1000000);
	profile__free(profile);
	/* takes about a second, or ten seconds under sanitizers on a slow machine */
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 15);
}

static void allocator_frames_are_known(void **state)
{
	static const char *const yes[] = {
		"malloc",
		"calloc",
		"__libc_malloc",
		"__GI___libc_malloc",
		"posix_memalign",
		"operator new",
		"operator new[]",
		"operator new(unsigned long)",
		"xmalloc",
		"xmalloc.part.0",
		"g_malloc0_n",
		"g_try_malloc",
		"strdup",
		"__strdup",
		"zmalloc",
		"ztrycalloc_usable_internal",
		"je_malloc",
		"tc_new",
		"_PyObject_Malloc",
		"__interceptor_malloc",
		"my_malloc",
		"my_realloc",
		"os::malloc",
		"os::strdup",
		"AllocateHeap",
		"_emalloc_56",
		"_safe_femalloc",
		"_erealloc2",
		"__zend_malloc",
		"mmap64",
		"std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>",
		"void std::vector<Foo>::_M_realloc_insert<Foo>",
		"std::__new_allocator<char>::allocate",
		"__gnu_cxx::new_allocator<std::_Rb_tree_node<std::pair<int, int> > >::allocate",
		"std::__cxx11::basic_string<char>::_M_create",
		"std::make_shared<Widget, int&>",
		"alloc::raw_vec::RawVec<T,A>::grow_one",
		"alloc::alloc::exchange_malloc",
		"<alloc::alloc::Global as core::alloc::Allocator>::allocate",
		"__rust_alloc",
	};
	static const char *const no[] = {
		"",
		"main",
		"cache_insert",
		"mallocate",
		"my_malloc_user",
		"new",
		"operator",
		"operator new_thing",
		"std::vector<int>::push_back",
		"Foo::allocate",
		"::allocator",
		"libc.so.6+0x1234",
		"malloc.so+0x10",
		"0x7f0012345678",
		"<",
		">>>>",
		"<<<<",
		"alloc::vec::Vec<T>::push",
		"server::std::_M_x",
		"worker",
		"zend_objects_new",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (!profile__is_allocator_frame(yes[i]))
			fail_msg("%s is an allocator's frame", yes[i]);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		if (profile__is_allocator_frame(no[i]))
			fail_msg("%s is no allocator's frame", no[i]);
	}
	assert_false(profile__is_allocator_frame(NULL));

	char longest[5000];

	memset(longest, 'm', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_false(profile__is_allocator_frame(longest));
	assert_string_equal(unresolved_reason__name(UNRESOLVED_NO_SYMBOLS), "no_symbols");
	assert_string_equal(unresolved_reason__name((enum unresolved_reason)99), "unknown");
}

/* The count of bytes includes all that is added, with its text. */
static void its_memory_is_known(void **state)
{
	struct profile_mapping mapping = {.path = (char *)"/lib/libc.so.6",
					  .build_id = (char *)"ab"};
	struct profile_probe probe = {.function = (char *)"malloc",
				      .object = (char *)"/lib/x",
				      .instruction = (char *)"push"};
	const uint64_t addrs[] = {0x1001, 0x2001, 0x3001};
	struct profile *profile = profile__new();
	size_t before, site, thread;

	(void)state;
	assert_non_null(profile);
	profile->interval_bytes = 1;
	before = profile__bytes(profile);
	assert_int_equal(before, sizeof(*profile));
	assert_int_equal(profile__add_mapping(profile, &mapping), 0);
	assert_int_equal(profile__bytes(profile) - before, sizeof(mapping) + 15 + 3);
	before = profile__bytes(profile);
	assert_int_equal(profile__add_probe(profile, &probe), 0);
	assert_int_equal(profile__add_file(profile, "a.heap"), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 3), 0);
	assert_int_equal(profile__bytes(profile) - before, sizeof(probe) + 7 + 7 + 5 +
								   sizeof(char *) + 7 +
								   sizeof(struct profile_counter));
	before = profile__bytes(profile);
	assert_int_equal(profile__add_site(profile, addrs, 3, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 7, "t", &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 100), 0);
	assert_int_equal(profile__sort(profile), 0);
	assert_int_equal(profile__bytes(profile) - before,
			 sizeof(struct profile_site) + sizeof(struct profile_thread) +
				 3 * (sizeof(struct profile_location) + sizeof(uint32_t)) +
				 sizeof(struct profile_site_thread));
	before = profile__bytes(profile);
	assert_int_equal(profile_location__set_name(&profile->locations[0], "main"), 0);
	assert_int_equal(profile__bytes(profile) - before, sizeof(struct profile_frame) + 5);
	profile__free(profile);
}

/* The n-th address that MurmurHash3's finalizer, which has no key, would put into slot 0 of any
 * table. */
static uint64_t made_to_collide(uint64_t n)
{
	uint64_t inverse[2] = {0xc4ceb9fe1a85ec53ull, 0xff51afd7ed558ccdull}, key = n << 32;

	for (int i = 0; i < 2; i++) {
		uint64_t multiplier = inverse[i];

		for (int k = 0; k < 6; k++) /* Newton's iteration for the inverse modulo 2^64 */
			inverse[i] *= 2 - multiplier * inverse[i];
	}
	key ^= key >> 33;
	key *= inverse[0];
	key ^= key >> 33;
	key *= inverse[1];
	return key ^ key >> 33;
}

/* The addresses come from files, or from the stacks of processes, and may be chosen with bad
 * intent. Even then, a lookup must not pass through many other addresses. */
static void addresses_cannot_be_made_to_collide(void **state)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	const struct table *table;
	size_t run = 0, longest = 0;

	(void)state;
	for (uint64_t n = 1; n <= 40000; n++) {
		uint64_t addr = made_to_collide(n);

		if (addr && addr < PROFILE_NO_ADDR)
			add_site(profile, &addr, 1);
	}
	table = &profile->build->locations;
	for (size_t i = 0; i < table->n_slots; i++) {
		run = table->slots[i] ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	assert_true(longest < 500); /* in a random table, some 30 slots in a row are full */
	profile__free(profile);
}

/* A profile has three small blocks from finely sampled windows. But most of the run had only one
 * sample per 512 KiB. Such a sample would stand for 512 KiB, and it may be chance that the stack
 * has none. So the interval ends at -log(0.025) = 3.69 such samples: if 3.69 are expected, one case
 * in 40 has none. */
static void a_coarse_stretch_may_hide_a_sample(void **state)
{
	struct profile *p = profile__new();
	struct interval interval;
	struct estimate live;
	size_t site, thread;

	(void)state;
	assert_non_null(p);
	p->mode = MODE_WINDOWED;
	p->windows.n = 3;
	p->interval_bytes = 512 << 10;
	p->duration_s = 20;
	assert_int_equal(profile__add_site(p, (const uint64_t[]){0x1000}, 1, false, &site), 0);
	assert_int_equal(profile__add_thread(p, 1, "", &thread), 0);
	assert_int_equal(profile__add_live_estimate(p, site, thread,
						    &(struct estimate){.samples = 3,
								       .objects = 3,
								       .bytes = 2400,
								       .variance = 2400.0 * 2400}),
			 0);
	p->sites[site].alloc_bytes = 36 << 20;
	interval = estimate__interval(&(struct estimate){.bytes = 2400, .variance = 2400.0 * 2400});
	assert_true(interval.high < 16384);
	live = profile__live(p);
	assert_true(estimate__interval(&live).high < 16384);
	p->windows.continuous_s = 18.5;
	live = profile__live(p);
	interval = estimate__interval(&live);
	assert_true(interval.high > 3.6 * (512 << 10) && interval.high < 3.8 * (512 << 10));
	p->sites[site].alloc_bytes = 20000; /* less than one such sample stands for */
	live = profile__live(p);
	interval = estimate__interval(&live);
	assert_true(interval.high > 18500 && interval.high < 4 * 20000);
	profile__free(p);
}

/* One stack has a small error, another a large one. Together they hold no less than the first. */
static void live_is_no_less_than_any_stack(void **state)
{
	const struct estimate known = {.bytes = 41e6, .variance = 1.5e6 * 1.5e6, .samples = 9};
	const struct estimate hardly = {.bytes = 2e6, .variance = 40e6 * 40e6, .samples = 1};
	struct profile *p = profile__new();
	struct estimate live;
	size_t site, thread;

	(void)state;
	assert_non_null(p);
	p->mode = MODE_WINDOWED;
	p->windows.n = 3;
	p->interval_bytes = 512;
	assert_int_equal(profile__add_thread(p, 1, "", &thread), 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(profile__add_site(p, (uint64_t[]){0x1000 + i}, 1, false, &site),
				 0);
		assert_int_equal(profile__add_live_estimate(p, site, thread, i ? &hardly : &known),
				 0);
	}
	live = profile__live(p);
	assert_true(live.bytes == 43e6);
	assert_true(estimate__interval(&live).low == estimate__interval(&known).low);
	assert_true(estimate__interval(&known).low > 37e6);
	assert_true(estimate__interval(&live).high > 90e6);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_coarse_stretch_may_hide_a_sample),
		cmocka_unit_test(live_is_no_less_than_any_stack),
		cmocka_unit_test(everything_comes_out_sorted),
		cmocka_unit_test(a_return_address_belongs_to_its_call),
		cmocka_unit_test(building_goes_on_after_a_sort),
		cmocka_unit_test(hostile_input_is_refused_or_tamed),
		cmocka_unit_test(strings_are_copied_and_counters_add_up),
		cmocka_unit_test(what_cannot_be_code_is_cut),
		cmocka_unit_test(a_large_profile_takes_seconds),
		cmocka_unit_test(allocator_frames_are_known),
		cmocka_unit_test(its_memory_is_known),
		cmocka_unit_test(addresses_cannot_be_made_to_collide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
