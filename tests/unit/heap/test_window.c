// SPDX-License-Identifier: BSD-2-Clause
/* Windows of words over memory with gaps. */
#include "heap/window.h"

#include "fake.h"

#define BASE  0x400000ULL
#define BYTES (4 * (uint64_t)WINDOW_BYTES)

static struct fake fake;

static void unmap_second_page(struct fake *f, uint64_t addr)
{
	if (addr > BASE + 4096 || f->parts[0].len == 4096)
		return;
	f->parts[0].len = 4096; /* so the fake's reads end here */
}

static void assert_next(struct window *w, struct image *image, uint64_t at, uint64_t start,
			uint64_t end)
{
	assert_int_equal(window__next(w, image, BASE + at, BASE + BYTES - 4096), 0);
	assert_int_equal(w->start, BASE + start);
	assert_int_equal(w->end, BASE + end);
	for (uint64_t i = 0; i < (end - start) / 8; i++)
		assert_int_equal(w->words[i], start / 8 + i);
}

static void test_runs(void **state)
{
	const uint64_t gap = 3 * (uint64_t)WINDOW_BYTES;
	struct image *image;
	struct window w;

	(void)state;
	fake__add(&fake, BASE, BYTES, FAKE_ANON);
	for (uint64_t i = 0; i < BYTES / 8; i++)
		fake__put(&fake, BASE + i * 8, i);
	for (uint64_t at = 0; at < 2 * 4096; at += 4096) {
		fake__set_page(&fake, BASE + at, 0);
		fake__set_page(&fake, BASE + gap + at, 0);
	}
	image = fake__image(&fake);
	assert_int_equal(window__init(&w), 0);
	assert_next(&w, image, 0, 8192, 8192 + WINDOW_BYTES);
	assert_next(&w, image, 8192 + WINDOW_BYTES, 8192 + WINDOW_BYTES, 8192 + 2 * WINDOW_BYTES);
	assert_next(&w, image, 8192 + 2 * WINDOW_BYTES, 8192 + 2 * WINDOW_BYTES, gap);
	assert_next(&w, image, gap, gap + 8192, BYTES - 4096); /* ends at the requested end */
	assert_next(&w, image, BYTES - 4096, BYTES - 4096, BYTES - 4096);
	assert_next(&w, image, gap + 4096, gap + 8192, BYTES - 4096);
	assert_next(&w, image, 16, 8192, 8192 + WINDOW_BYTES); /* a second read of the first part */
	assert_next(&w, image, 8192 + 64, 8192 + 64, 8192 + 64 + WINDOW_BYTES);

	/* the requested end is within a run of resident pages */
	assert_int_equal(window__next(&w, image, BASE + 16384, BASE + 16384 + 800), 0);
	assert_int_equal(w.start, BASE + 16384);
	assert_int_equal(w.end, BASE + 16384 + 800);
	assert_int_equal(w.unread_bytes, 0);
	window__clear(&w);
	fake__free(&fake, image);
}

static void test_memory_that_disappears(void **state)
{
	struct image *image;
	struct window w;

	(void)state;
	fake__add(&fake, BASE, 3 * 4096, FAKE_ANON);
	fake__put(&fake, BASE + 8, 7);
	fake__put(&fake, BASE + 4096, 8);
	image = fake__image(&fake);
	fake.before_read = unmap_second_page;
	assert_int_equal(window__init(&w), 0);
	assert_int_equal(window__next(&w, image, BASE, BASE + 3 * 4096), 0);
	assert_int_equal(w.end, BASE + 3 * 4096);
	assert_int_equal(w.words[1], 7);
	assert_int_equal(w.words[512], 0);
	assert_int_equal(w.unread_bytes, 2 * 4096);
	window__clear(&w);
	fake__free(&fake, image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_memory_that_disappears),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
