// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/smaps.h"

struct sums {
	size_t n, stop_at;
	uint64_t rss, anonymous, huge, swap, hugetlb, last_end;
	char last_path[64];
};

static int add(void *ctx, const struct smaps_entry *e)
{
	struct sums *s = ctx;

	assert_true(e->map.start >= s->last_end && e->map.start < e->map.end);
	s->last_end = e->map.end;
	s->rss += e->rss;
	s->anonymous += e->anonymous;
	s->huge += e->huge;
	s->swap += e->swap;
	s->hugetlb += e->hugetlb;
	snprintf(s->last_path, sizeof(s->last_path), "%s", e->map.path);
	return ++s->n == s->stop_at ? -ECANCELED : 0;
}

static int read_bytes(const void *text, size_t len, struct sums *sums, uint64_t *ret_skipped)
{
	_cleanup_close_ int fd = memfd_create("smaps", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return smaps__read_fd(fd, add, sums, ret_skipped);
}

static struct sums sums_of(const char *text, uint64_t want_skipped)
{
	struct sums sums = {};
	uint64_t skipped = 99;

	assert_int_equal(read_bytes(text, strlen(text), &sums, &skipped), 0);
	assert_int_equal(skipped, want_skipped);
	return sums;
}

/* Lines as Linux 6.18 writes them. */
#define HEAD1                                                                                      \
	"55d0c0a00000-55d0c0a02000 rw-p 00000000 fe:00 393231                     /usr/bin/cat\n"
#define REST1                                                                                      \
	"Size:                  8 kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n"  \
	"Rss:                   8 kB\nPss:                   2 kB\nPss_Dirty:             2 kB\n"  \
	"Shared_Clean:          0 kB\nPrivate_Dirty:         4 kB\nReferenced:            8 kB\n"  \
	"Anonymous:             4 kB\nKSM:                   0 kB\nLazyFree:              0 kB\n"  \
	"AnonHugePages:         0 kB\nShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\n"  \
	"Shared_Hugetlb:        0 kB\nPrivate_Hugetlb:       0 kB\nSwap:                  0 kB\n"  \
	"SwapPss:               0 kB\nLocked:                0 kB\nTHPeligible:           0\n"     \
	"VmFlags: rd mr mw me sd \n"
#define HEAD2 "7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n"
#define REST2                                                                                      \
	"Rss:                4096 kB\nAnonymous:          4096 kB\nAnonHugePages:      2048 kB\n"  \
	"Shared_Hugetlb:        4 kB\nPrivate_Hugetlb:      16 kB\nSwap:                  12 kB\n" \
	"VmFlags: rd wr mr mw me ac sd \n"

static void numbers_by_mapping(void **state)
{
	struct sums s = sums_of(HEAD1 REST1 HEAD2 REST2, 0);

	(void)state;
	assert_int_equal(s.n, 2);
	assert_int_equal(s.rss, (8 + 4096) << 10);
	assert_int_equal(s.anonymous, (4 + 4096) << 10);
	assert_int_equal(s.huge, 2048 << 10);
	assert_int_equal(s.swap, 12 << 10);
	assert_int_equal(s.hugetlb, 20 << 10);
	assert_string_equal(sums_of(HEAD1 REST1, 0).last_path, "/usr/bin/cat");
	assert_int_equal(sums_of("", 0).n, 0);
}

/* Absurd lines add nothing to the sums, and are counted as skipped. */
static void absurd_lines(void **state)
{
	static const struct {
		const char *text;
		uint64_t rss, skipped;
		size_t n;
	} cases[] = {
		{"Rss: 4 kB\n", 0, 0, 0}, /* no mapping before it */
		{HEAD1 "Rss:\n", 0, 1, 1},
		{HEAD1 "Rss: kB\n", 0, 1, 1},
		{HEAD1 "Rss: 4\n", 0, 1, 1},
		{HEAD1 "Rss: 4 MB\n", 0, 1, 1},
		{HEAD1 "Rss: -4 kB\n", 0, 1, 1},
		{HEAD1 "Rss: 4 kB more\n", 0, 1, 1},
		{HEAD1 "Rss: 12 kB\n", 0, 1, 1}, /* more than the mapping's 8 kB */
		{HEAD1 "Rss: 99999999999999999999999999 kB\n", 0, 1, 1},
		{HEAD1 "Rss: 18014398509481984 kB\n", 0, 1, 1}, /* 2^64 */
		{HEAD1 "Rss: 4 kB\nRss: 8 kB\n", 4096, 1, 1},
		{HEAD1 "RssAnon: 4 kB\n", 0, 0, 1},
		{HEAD2 "Rss: 4 kB\n" HEAD1 "Rss: 8 kB\n", 4096, 1, 1}, /* addresses go back */
		{HEAD1 "Rss: 4 kB\n" HEAD1 "Rss: 8 kB\n", 4096, 1, 1},
		{"nonsense\nRss: 4 kB\n" HEAD1 "Rss: 8 kB\n", 8192, 1, 1},
		{HEAD1 "Rss: 4 kB\n7f-\nRss: 8 kB\n", 4096, 1,
		 1}, /* numbers below an invalid head */
		{"\n" HEAD1, 0, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sums s = sums_of(cases[i].text, cases[i].skipped);

		assert_int_equal(s.n, cases[i].n);
		assert_int_equal(s.rss, cases[i].rss);
	}
}

/* If the text is cut off anywhere, the whole parts before the cut still count. */
static void truncated(void **state)
{
	static const char text[] = HEAD1 REST1 HEAD2 REST2;

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		struct sums s = {};
		uint64_t skipped;

		assert_int_equal(read_bytes(text, len, &s, &skipped), 0);
		assert_true(s.n <= 2 && s.rss <= (8 + 4096) << 10);
		assert_true(s.rss == 0 || s.rss == 8 << 10 || s.rss == (8 + 4096) << 10);
		assert_int_equal(skipped, len && text[len - 1] != '\n');
	}
}

/* An endless line is skipped. This takes no more memory than another line. */
static void endless_line(void **state)
{
	const size_t junk = 1 << 20;
	struct sums s = {};
	uint64_t skipped;
	_cleanup_free_ char *text = malloc(junk + 4096);
	char *to = stpcpy(text, HEAD1 "Rss: 4 kB\n");

	(void)state;
	memset(to, 'a', junk);
	to += junk;
	to = stpcpy(to, "\nRss: 8 kB\n" HEAD2 "Rss: 16 kB\n");
	assert_int_equal(read_bytes(text, (size_t)(to - text), &s, &skipped), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.rss, 20 << 10);
	assert_int_equal(skipped, 1);
}

/* When the next mapping is read, the previous mapping is no longer kept in memory. */
static void a_million_mappings(void **state)
{
	_cleanup_close_ int fd = memfd_create("smaps", MFD_CLOEXEC);
	_cleanup_fclose_ FILE *out = fdopen(dup(fd), "w");
	struct sums s = {};
	uint64_t skipped;

	(void)state;
	for (uint64_t i = 1; i <= 1000000; i++)
		fprintf(out, "%08lx-%08lx r--p 00000000 00:00 0 \nRss: 4 kB\n", i << 13,
			(i << 13) + 4096);
	assert_int_equal(fflush(out), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(smaps__read_fd(fd, add, &s, &skipped), 0);
	assert_int_equal(s.n, 1000000);
	assert_int_equal(s.rss, 4096000000);
	assert_int_equal(skipped, 0);
}

static void reading_ends_when_told(void **state)
{
	struct sums s = {.stop_at = 1};
	uint64_t skipped;

	(void)state;
	assert_int_equal(
		read_bytes(HEAD1 REST1 HEAD2 REST2, strlen(HEAD1 REST1 HEAD2 REST2), &s, &skipped),
		-ECANCELED);
	assert_int_equal(s.n, 1);
	assert_int_equal(smaps__read(0x7ffffff, add, &s, &skipped), -ESRCH);
}

/* Compares the smaps of this process with pages that it touches, and with the kernel's own sums. */
static int find(void *ctx, const struct smaps_entry *e)
{
	struct smaps_entry *found = ctx;

	if (e->map.start <= found->map.start && e->map.end >= found->map.end)
		found->rss = e->rss;
	return 0;
}

static void own(void **state)
{
	const size_t pages = 300;
	char *area = mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *p = area + 50 * 4096;
	struct smaps_entry found = {
		.map = {.start = (uintptr_t)p, .end = (uintptr_t)p + 100 * 4096}};
	struct sums s = {};
	uint64_t skipped, rss;

	(void)state;
	assert_int_equal(mprotect(p, 100 * 4096, PROT_READ | PROT_WRITE), 0);
	for (size_t i = 0; i < 70; i++)
		p[i * 4096] = 1;
	assert_int_equal(smaps__read(getpid(), find, &found, &skipped), 0);
	assert_int_equal(found.rss, 70 * 4096);
	assert_int_equal(smaps__read(getpid(), add, &s, &skipped), 0);
	assert_int_equal(skipped, 0);
	assert_int_equal(process__rss_bytes(getpid(), &rss), 0);
	/* roughly equal: memory changes between the two reads, and VmRSS lacks counts of some
	 * CPUs */
	assert_true(rss > s.rss / 2 && rss < 2 * s.rss);
	munmap(area, pages * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_by_mapping),
		cmocka_unit_test(absurd_lines),
		cmocka_unit_test(truncated),
		cmocka_unit_test(endless_line),
		cmocka_unit_test(a_million_mappings),
		cmocka_unit_test(reading_ends_when_told),
		cmocka_unit_test(own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
