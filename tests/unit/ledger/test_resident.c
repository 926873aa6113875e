// SPDX-License-Identifier: BSD-2-Clause
/* Reads the test's own memory. The test knows which pages it has touched. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/resident.h"

#define PAGE 4096UL

static char *map(size_t pages, int flags)
{
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void touch(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		((volatile char *)p)[i * PAGE] = 1;
}

static void own(struct region_book *book, const char *p, size_t pages, uint32_t site,
		enum region_memory kind)
{
	const struct region region = {.start = (uintptr_t)p,
				      .end = (uintptr_t)p + pages * PAGE,
				      .site = site,
				      .kind = kind};

	assert_int_equal(regions__insert(&book->map, &region), 0);
}

/* Returns the resident pages in the range, of this kind and site. */
static uint64_t rss_in(const struct resident_pieces *pieces, const char *p, size_t pages,
		       enum resident_kind kind, uint32_t site)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pieces->n; i++) {
		const struct resident_piece *piece = &pieces->at[i];

		if (piece->start >= (uintptr_t)p && piece->end <= (uintptr_t)p + pages * PAGE &&
		    piece->kind == kind && piece->site == site)
			sum += piece->bytes.rss;
	}
	return sum / PAGE;
}

/* Is this page, which was only read, the kernel's zero page? Also false if this process has no
 * right to know. */
static bool is_known_zero(const char *page)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t word = 0;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &word, sizeof(word), (off_t)((uintptr_t)page / PAGE * 8)), 8);
	close(fd);
	return word & ((1ULL << 55) - 1) && !(word >> 56 & 1);
}

/* The kernel sees one mapping. Three owners have parts of it, and nobody owns the rest. Pages that
 * were only read do not count. */
static void joined_mappings(void **state)
{
	struct resident_pieces pieces = {};
	struct region_book book = {};
	char *area = map(602, 0), *p = area + PAGE, byte;

	(void)state;
	/* neighbours get other rights, so that the kernel joins no other mapping to this one */
	assert_int_equal(mprotect(area, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(p + 600 * PAGE, PAGE, PROT_NONE), 0);
	touch(p, 30); /* pages 0 to 100 have no owner */
	own(&book, p + 100 * PAGE, 50, 0, REGION_OF_ANONYMOUS);
	own(&book, p + 150 * PAGE, 50, 0, REGION_OF_ANONYMOUS);
	touch(p + 120 * PAGE, 60); /* 100 to 200 */
	own(&book, p + 200 * PAGE, 200, 1, REGION_OF_OTHER);
	touch(p + 399 * PAGE, 1); /* 200 to 400 */
	byte = *(volatile char *)(p + 210 * PAGE);
	(void)byte;
	own(&book, p + 450 * PAGE, 100, 2, REGION_OF_STACK);
	touch(p + 450 * PAGE, 7); /* 450 to 550; 400 to 450 and the end are nobody's */
	touch(p + 560 * PAGE, 5);
	own(&book, p + 590 * PAGE, 10, EARLIER_SITE, REGION_OF_OTHER);
	touch(p + 595 * PAGE, 2);
	assert_int_equal(resident__read(getpid(), &book, false, &pieces), 0);
	assert_int_equal(rss_in(&pieces, p, 600, RESIDENT_MAPPED, 0), 60);
	/* A reader without the right to see page frame numbers counts the zero page as the
	 * process's own. Some kernels have no zero page. */
	assert_int_equal(rss_in(&pieces, p, 600, RESIDENT_MAPPED, 1),
			 is_known_zero(p + 210 * PAGE) ? 1 : 2);
	assert_int_equal(rss_in(&pieces, p, 600, RESIDENT_STACK, RESIDENT_NO_SITE), 7);
	assert_in_range(rss_in(&pieces, p, 600, RESIDENT_EARLIER, RESIDENT_NO_SITE),
			geteuid() ? 36 : 37, 37);
	assert_int_equal(pieces.skipped, 0);
	assert_true(pieces.vmrss_bytes > 0);
	resident_pieces__free(&pieces);
	region_book__free(&book);
	munmap(area, 602 * PAGE);
}

/* It would take too long to read this reservation page by page. So its memory counts as memory of
 * several owners. */
static void too_large(void **state)
{
	struct resident_pieces pieces = {};
	struct region_book book = {};
	const size_t pages = (1UL << 24) + 1;
	char *area = map(pages + 2, MAP_NORESERVE), *p = area + PAGE;

	(void)state;
	assert_int_equal(mprotect(area, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(p + pages * PAGE, PAGE, PROT_NONE), 0);
	own(&book, p, 10, 0, REGION_OF_ANONYMOUS);
	touch(p + 5 * PAGE, 20);
	assert_int_equal(resident__read(getpid(), &book, false, &pieces), 0);
	assert_int_equal(rss_in(&pieces, p, pages, RESIDENT_SEVERAL, RESIDENT_NO_SITE), 20);
	assert_int_equal(rss_in(&pieces, p, pages, RESIDENT_MAPPED, 0), 0);
	/* with one owner, pages need not be read one by one */
	own(&book, p, pages, 3, REGION_OF_ANONYMOUS);
	assert_int_equal(resident__read(getpid(), &book, false, &pieces), 0);
	assert_int_equal(rss_in(&pieces, p, pages, RESIDENT_MAPPED, 3), 20);
	resident_pieces__free(&pieces);
	region_book__free(&book);
	munmap(area, (pages + 2) * PAGE);
}

/* The address of a mapping does not show that it is an arena of glibc. The mapping is an arena if
 * it begins with the head of one. */
static void arenas(void **state)
{
	const size_t heap = 64 << 20;
	char *area = map(2 * heap / PAGE + 1, MAP_NORESERVE),
	     *p = (char *)(((uintptr_t)area + heap) & ~(heap - 1));
	struct resident_pieces pieces = {};
	struct region_book book = {};
	uint64_t *head = (uint64_t *)p;

	(void)state;
	assert_int_equal(mprotect(area, (size_t)(p - area), PROT_NONE), 0);
	assert_int_equal(mprotect(p + 100 * PAGE, heap - 100 * PAGE, PROT_NONE), 0);
	touch(p, 9);
	for (int i = 0; i < 6; i++) {
		static const struct {
			uint64_t arena, before, size, writable;
			bool is;
		} heads[] = {
			/* the head points into the mapping itself */
			{0x20, 0, 100 * PAGE, 100 * PAGE, true},
			{0x20, 0, 100 * PAGE, 99 * PAGE, false},
			{0x20, 0, 99 * PAGE, 99 * PAGE, false},
			{0, 0, 100 * PAGE, 100 * PAGE, false},
			{1 << 30, 0, 100 * PAGE, 100 * PAGE, false},
			{1 << 30, 1 << 26, 3, 100 * PAGE, true},
		};

		head[0] = heads[i].arena == 0x20 ? (uintptr_t)p + 0x20 : heads[i].arena;
		head[1] = heads[i].before;
		head[2] = heads[i].size;
		head[3] = heads[i].writable;
		assert_int_equal(resident__read(getpid(), &book, true, &pieces), 0);
		assert_int_equal(rss_in(&pieces, p, 100, RESIDENT_HEAP, RESIDENT_NO_SITE),
				 heads[i].is ? 9 : 0);
		assert_int_equal(resident__read(getpid(), &book, false, &pieces), 0);
		assert_int_equal(rss_in(&pieces, p, 100, RESIDENT_EARLIER, RESIDENT_NO_SITE), 9);
	}
	resident_pieces__free(&pieces);
	munmap(area, 2 * heap + PAGE);
}

static void nobody(void **state)
{
	struct resident_pieces pieces = {};
	struct region_book book = {};

	(void)state;
	assert_int_equal(resident__read(0x7ffffff, &book, false, &pieces), -ESRCH);
	assert_null(pieces.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joined_mappings),
		cmocka_unit_test(too_large),
		cmocka_unit_test(arenas),
		cmocka_unit_test(nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
