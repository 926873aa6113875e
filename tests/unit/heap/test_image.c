// SPDX-License-Identifier: BSD-2-Clause
#include "fake.h"

#define LIB  0x500000ULL
#define BRK  0x700000ULL
#define ANON 0x900000ULL

static struct fake fake;

static struct image *usual(void)
{
	fake__add(&fake, LIB, 0x2000, "r-xp 00000000 08:01 77 /lib/a.so");
	fake__add(&fake, LIB + 0x2000, 0x2000, "rw-p 00002000 08:01 77 /lib/a.so");
	fake__add(&fake, LIB + 0x4000, 0x1000, FAKE_ANON);
	fake__add(&fake, BRK, 0x4000, FAKE_BRK);
	fake__add(&fake, ANON, 0x3000, FAKE_ANON);
	fake__add(&fake, ANON + 0x3000, 0x3000, FAKE_ANON);
	fake__add(&fake, ANON + 0x6000, 0x1000, "---p 00000000 00:00 0");
	fake__add(&fake, ANON + 0x7000, 0x1000, "rw-s 00000000 00:01 9 /dev/zero");
	fake__add(&fake, ANON + 0x8000, 0x1000, "rw-p 00000000 00:05 9 /dev/mem");
	fake__add(&fake, ANON + 0x9000, 0x1000, "rw-p 00000000 00:10 9 /dev/hugepages/a");
	fake__add(&fake, ANON + 0xa000, 0x1000, "rw-s 00000000 00:10 10 /dev/hugepages/b");
	fake__add(&fake, ANON + 0xb000, 0x1000, "rw-s 00000000 00:0f 9 /anon_hugepage (deleted)");
	fake__add(&fake, ANON + 0xc000, 0x1000, "rw-p 00000000 00:0f 9 /anon_hugepage (deleted)");
	fake__add(&fake, 0x7ffd00000000ULL, 0x2000, "rw-p 00000000 00:00 0 [stack]");
	return fake__image(&fake);
}

static void test_kinds(void **state)
{
	static const enum image_kind kinds[] = {IMAGE_CONST, IMAGE_DATA,  IMAGE_BSS,   IMAGE_BRK,
						IMAGE_ANON,  IMAGE_ANON,  IMAGE_OTHER, IMAGE_PLAIN,
						IMAGE_OTHER, IMAGE_PLAIN, IMAGE_PLAIN, IMAGE_PLAIN,
						IMAGE_DATA,  IMAGE_STACK};
	struct image *image = usual();

	(void)state;
	assert_int_equal(image__n_regions(image), 14);
	for (size_t i = 0; i < 14; i++) {
		assert_int_equal(image__region(image, i)->kind, kinds[i]);
		assert_int_equal(image_region__readable(image__region(image, i)),
				 kinds[i] != IMAGE_OTHER);
	}
	assert_ptr_equal(image__find(image, BRK + 0x3fff), image__region(image, 3));
	assert_null(image__find(image, BRK + 0x4000));
	fake__free(&fake, image);
}

/* Pages that are not resident are never read: fake__read() would fail. */
static void test_reads_resident_pages_only(void **state)
{
	struct image *image = usual();
	char bytes[0x6000];

	(void)state;
	memcpy(fake__at(&fake, ANON + 0x2ffc), "12345678", 4);
	memcpy(fake__at(&fake, ANON + 0x3000), "5678", 4);
	fake__set_page(&fake, ANON + 0x1000, 0);
	fake__set_page(&fake, ANON + 0x4000, 2);
	assert_int_equal(image__read(image, ANON + 0x2ffc, bytes, 8), 0);
	assert_memory_equal(bytes, "12345678", 8);
	assert_int_equal(image__read(image, ANON + 0xfff, bytes, 2), -EFAULT);
	assert_int_equal(image__read(image, ANON, bytes, 0x6000), -EFAULT);
	assert_int_equal(image__peek(image, ANON + 0x3fff, bytes, 2), -EFAULT);
	assert_int_equal(image__read(image, ANON + 0x6000, bytes, 1), -EFAULT);
	assert_int_equal(image__read(image, ANON + 0x7000, bytes, 1), 0);
	assert_int_equal(image__read(image, ANON + 0x8000, bytes, 1), -EFAULT);
	assert_int_equal(image__read(image, UINT64_MAX - 3, bytes, 8), -EFAULT);
	assert_int_equal(image__region(image, 4)->n_resident, 2);
	assert_int_equal(image__region(image, 5)->n_swapped, 1);
	fake__free(&fake, image);
}

static void test_runs(void **state)
{
	struct image *image = usual();
	uint64_t start, end;

	(void)state;
	fake__set_page(&fake, ANON + 0x1000, 0);
	fake__set_page(&fake, ANON + 0x5000, 0);
	assert_true(image__run(image, BRK + 0x10, UINT64_MAX, &start, &end));
	assert_int_equal(start, BRK + 0x10);
	assert_int_equal(end, BRK + 0x4000);
	assert_true(image__run(image, end, UINT64_MAX, &start, &end));
	assert_int_equal(start, ANON);
	assert_int_equal(end, ANON + 0x1000);
	/* across the border of two mappings */
	assert_true(image__run(image, end, ANON + 0x4800, &start, &end));
	assert_int_equal(start, ANON + 0x2000);
	assert_int_equal(end, ANON + 0x4800);
	assert_false(image__run(image, ANON + 0x5000, ANON + 0x7000, &start, &end));
	fake__free(&fake, image);
}

static void test_peek_reads_a_page_once(void **state)
{
	struct image *image = usual();
	uint64_t word;

	(void)state;
	fake__put(&fake, BRK + 8, 5);
	assert_int_equal(image__peek(image, BRK + 8, &word, 8), 0);
	fake__put(&fake, BRK + 8, 6);
	assert_int_equal(image__peek(image, BRK + 8, &word, 8), 0);
	assert_int_equal(word, 5);
	assert_int_equal(fake.reads, 1);
	image__forget(image);
	assert_int_equal(image__peek(image, BRK + 8, &word, 8), 0);
	assert_int_equal(word, 6);
	/* across two pages */
	fake__put(&fake, BRK + 0xffc, 0x1122334455667788ULL);
	image__forget(image);
	assert_int_equal(image__peek(image, BRK + 0xffc, &word, 8), 0);
	assert_true(word == 0x1122334455667788ULL);
	fake__free(&fake, image);
}

static void test_limits(void **state)
{
	struct image *image = usual();
	char bytes[0x2000];
	uint64_t start, end;

	(void)state;
	image__free(image);
	maps__free(&fake.maps);
	image = fake__image_with(&fake, &(struct image_limits){.read_bytes = 0x3000});
	assert_int_equal(image__read(image, BRK, bytes, 0x2000), 0);
	assert_int_equal(image__read(image, BRK, bytes, 0x2000), -EFBIG);
	assert_int_equal(image__spent(image), -EFBIG);
	image__free(image);
	maps__free(&fake.maps);
	image = fake__image_with(&fake, &(struct image_limits){.pages = 4});
	assert_int_equal(image__look(image, image__region(image, 4)), 0);
	assert_int_equal(image__look(image, image__region(image, 5)), -EFBIG);
	assert_int_equal(image__stopped(image), -EFBIG);
	assert_int_equal(image__spent(image), 0);
	assert_int_equal(image__read(image, ANON + 0x3000, bytes, 8), -EFAULT);
	image__free(image);
	maps__free(&fake.maps);
	image = fake__image_with(&fake, &(struct image_limits){.deadline_ns = 1});
	assert_int_equal(image__read(image, BRK, bytes, 8), -ETIMEDOUT);
	assert_false(image__run(image, 0, UINT64_MAX, &start, &end));
	fake__free(&fake, image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),  cmocka_unit_test(test_reads_resident_pages_only),
		cmocka_unit_test(test_runs),   cmocka_unit_test(test_peek_reads_a_page_once),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
