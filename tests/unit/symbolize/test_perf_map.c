// SPDX-License-Identifier: BSD-2-Clause
/* The expected results come from a simple, slow reader. It matches each line with one regular
 * expression, and for each address it searches all lines from the last to the first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <regex.h>

#include "symbolize/clean.h"
#include "symbolize/perf_map.h"

#include "fixture.h"

static struct perf_map *parse_wanted(const char *text, size_t len,
				     const struct perf_map_wanted *wanted, size_t *ret_skipped)
{
	struct perf_map *map = NULL;
	char *copy = malloc(len + 1); /* of the exact size, so that ASan sees reads beyond it */

	assert_non_null(copy);
	copy = realloc(copy, len ? len : 1);
	memcpy(copy, text, len);
	assert_int_equal(perf_map__parse(copy, len, wanted, &map, ret_skipped), 0);
	free(copy);
	assert_non_null(map);
	return map;
}

static struct perf_map *parse(const char *text, size_t len, size_t *ret_skipped)
{
	return parse_wanted(text, len, NULL, ret_skipped);
}

static void assert_name(const struct perf_map *map, uint64_t addr, const char *name, uint64_t start)
{
	uint64_t its_start = 42;
	const char *found = perf_map__find(map, addr, &its_start);

	if (!name) {
		assert_null(found);
		assert_int_equal(its_start, 42);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
	assert_int_equal(its_start, start);
	assert_ptr_equal(perf_map__find(map, addr, NULL), found);
}

/* Lines as the runtimes write them. */
static void test_real_lines(void **state)
{
	static const char text[] = "7f2a8c0a1e40 1c0 LazyCompile:*handle /srv/app/server.js:12:16\n"
				   "3a91c2c4f60 5b Builtin:ArgumentsAdaptorTrampoline\n"
				   "0x7f11c7bff000 0xb py::<module>:/srv/a b.py\n"
				   "00007F9C24A15A60 34 instance void [System.Private.CoreLib] "
				   "System.Threading.Thread::StartCallback()[PreJIT]\n"
				   "0x00007fd0a4f1e0c0 0x0000000000000158 "
				   "java.util.HashMap java.lang.String::hashCode()\n"
				   "1000 10 caf\xc3\xa9 \xe2\x9c\x93\n";
	size_t skipped = 42;
	struct perf_map *map = parse(text, sizeof(text) - 1, &skipped);

	(void)state;
	assert_int_equal(skipped, 0);
	assert_name(map, 0x7f2a8c0a1e3f, NULL, 0);
	assert_name(map, 0x7f2a8c0a1e40, "LazyCompile:*handle /srv/app/server.js:12:16",
		    0x7f2a8c0a1e40);
	assert_name(map, 0x7f2a8c0a1fff, "LazyCompile:*handle /srv/app/server.js:12:16",
		    0x7f2a8c0a1e40);
	assert_name(map, 0x7f2a8c0a2000, NULL, 0);
	assert_name(map, 0x3a91c2c4fba, "Builtin:ArgumentsAdaptorTrampoline", 0x3a91c2c4f60);
	assert_name(map, 0x3a91c2c4fbb, NULL, 0);
	assert_name(map, 0x7f11c7bff00a, "py::<module>:/srv/a b.py", 0x7f11c7bff000);
	assert_name(map, 0x7f9c24a15a60,
		    "instance void [System.Private.CoreLib] "
		    "System.Threading.Thread::StartCallback()[PreJIT]",
		    0x7f9c24a15a60);
	assert_name(map, 0x7fd0a4f1e217, "java.util.HashMap java.lang.String::hashCode()",
		    0x7fd0a4f1e0c0);
	assert_name(map, 0x7fd0a4f1e218, NULL, 0);
	assert_name(map, 0x1008, "caf\xc3\xa9 \xe2\x9c\x93", 0x1000);
	perf_map__free(map);
}

static void test_later_lines_win(void **state)
{
	static const char text[] = "1000 100 old\n"
				   "1040 20 middle\n" /* inside: old goes on behind it */
				   "2000 100 gone\n"
				   "1f00 400 whole\n" /* covers gone */
				   "10f0 20 tail\n"   /* old's end and beyond */
				   "ff0 20 head\n"    /* old's start */
				   "1040 10 again\n"  /* half of middle */
				   "3000 10 same\n"
				   "3010 10 same\n";
	struct perf_map *map = parse(text, sizeof(text) - 1, NULL);

	(void)state;
	assert_name(map, 0xfef, NULL, 0);
	assert_name(map, 0xff0, "head", 0xff0);
	assert_name(map, 0x100f, "head", 0xff0);
	assert_name(map, 0x1010, "old", 0x1000);
	assert_name(map, 0x103f, "old", 0x1000);
	assert_name(map, 0x1040, "again", 0x1040);
	assert_name(map, 0x104f, "again", 0x1040);
	assert_name(map, 0x1050, "middle", 0x1040);
	assert_name(map, 0x105f, "middle", 0x1040);
	assert_name(map, 0x1060, "old", 0x1000);
	assert_name(map, 0x10ef, "old", 0x1000);
	assert_name(map, 0x10f0, "tail", 0x10f0);
	assert_name(map, 0x110f, "tail", 0x10f0);
	assert_name(map, 0x1110, NULL, 0);
	assert_name(map, 0x2080, "whole", 0x1f00);
	assert_name(map, 0x22ff, "whole", 0x1f00);
	assert_name(map, 0x300f, "same", 0x3000);
	assert_name(map, 0x3010, "same", 0x3010);
	perf_map__free(map);
}

static void test_no_entries(void **state)
{
	static const struct {
		const char *line;
		bool entry;
	} cases[] = {
		{"10 10 f", true},
		{"0x10 0X10 f", true},
		{"10  10   f", true},
		{"00000000000000000000000000000010 10 f", true},
		{"10 fffffffffffffff0 f", false}, /* ends at 2^64: no address is behind it */
		{"10 ffffffffffffffef f", true},
		{"ffffffffffffffff 1 f", false},
		{"fffffffffffffffe 1 f", true},
		{"", false},
		{" ", false},
		{"10", false},
		{"10 10", false},
		{"10 10 ", false},
		{"10 10    ", false},
		{"10 0 f", false},
		{"10 ffffffffffffffff f", false}, /* wrapped */
		{"10000000000000000 10 f", false},
		{"10 10000000000000000 f", false},
		{" 10 10 f", false},
		{"10\t10\tf", false},
		{"10 10\tf", false},
		{"-10 10 f", false},
		{"+10 10 f", false},
		{"0x 10 f", false},
		{"0x0x10 10 f", false},
		{"1g 10 f", false},
		{"name 10 10", false},
		{"# a comment", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t skipped = 42;
		struct perf_map *map;
		char text[256];
		int len;

		/* The lines before and after this line are read as usual. */
		len = snprintf(text, sizeof(text), "1 1 before\n%s\n2 1 after\n", cases[i].line);
		map = parse(text, (size_t)len, &skipped);
		assert_int_equal(skipped, !cases[i].entry);
		assert_name(map, 1, "before", 1);
		assert_name(map, 2, "after", 2);
		assert_int_equal(perf_map__find(map, 0x10, NULL) ||
					 perf_map__find(map, UINT64_MAX - 1, NULL),
				 cases[i].entry);
		perf_map__free(map);
	}
}

/* A runtime may still write the file, so a last line without a newline is ignored. */
static void test_half_written(void **state)
{
	static const char text[] = "10 10 f\n20 10 whole_name\n";
	size_t len = sizeof(text) - 1, skipped = 42;
	struct perf_map *map;

	(void)state;
	for (size_t cut = 8; cut < len; cut++) {
		map = parse(text, cut, &skipped);
		assert_int_equal(skipped, cut > 8);
		assert_name(map, 0x10, "f", 0x10);
		assert_name(map, 0x20, NULL, 0);
		perf_map__free(map);
	}
	map = parse(text, len, &skipped);
	assert_int_equal(skipped, 0);
	assert_name(map, 0x20, "whole_name", 0x20);
	perf_map__free(map);

	map = parse("", 0, &skipped);
	assert_int_equal(skipped, 0);
	assert_name(map, 0, NULL, 0);
	assert_name(map, UINT64_MAX, NULL, 0);
	perf_map__free(map);
	perf_map__free(NULL);
}

static void test_hostile_names(void **state)
{
	static const char text[] = "10 10 \033[31mred\x7f\n"
				   "20 10 nul\0here\n"
				   "30 10 \xff\xc0\x80 \xc2\x9b\n"
				   "40 10 \0\n"
				   "50 10 crlf\r\n"
				   "60 10 f \n";
	struct perf_map *map = parse(text, sizeof(text) - 1, NULL);
	char *big = malloc(20000);
	size_t skipped;
	int n;

	(void)state;
	assert_name(map, 0x10, "?[31mred?", 0x10);
	assert_name(map, 0x20, "nul?here", 0x20);
	assert_name(map, 0x30, "??? ??", 0x30);
	assert_name(map, 0x40, "?", 0x40);
	assert_name(map, 0x50, "crlf?", 0x50);
	assert_name(map, 0x60, "f ", 0x60);
	perf_map__free(map);

	/* A long name is cut, also in the middle of a character. */
	n = sprintf(big, "10 10 ");
	memset(big + n, 'x', 10000);
	memcpy(big + n + NAME_MAX_BYTES - 1, "\xc3\xa9", 2);
	memcpy(big + n + 10000, "\n20 1 f\n", 9);
	map = parse(big, strlen(big), &skipped);
	assert_int_equal(skipped, 0);
	assert_int_equal(strlen(perf_map__find(map, 0x10, NULL)), NAME_MAX_BYTES);
	assert_int_equal(perf_map__find(map, 0x10, NULL)[NAME_MAX_BYTES - 1], '?');
	assert_int_equal(perf_map__find(map, 0x10, NULL)[NAME_MAX_BYTES - 2], 'x');
	assert_name(map, 0x20, "f", 0x20);
	perf_map__free(map);
	free(big);
}

/* --- compared with the simple reader --- */

#define MAX_LINES 64

struct model {
	struct {
		uint64_t start, end;
		char name[64];
	} lines[MAX_LINES];
	size_t n, skipped;
};

/* text has no NULs; model_read() changes it. */
static void model_read(struct model *model, const regex_t *form, char *text)
{
	char *line, *newline;

	*model = (struct model){0};
	for (line = text; (newline = strchr(line, '\n')); line = newline + 1) {
		uint64_t start, size;
		regmatch_t m[6];

		*newline = '\0';
		errno = 0;
		if (regexec(form, line, 6, m, 0)) {
			model->skipped++;
			continue;
		}
		start = strtoull(line + m[2].rm_so, NULL, 16);
		size = strtoull(line + m[4].rm_so, NULL, 16);
		if (errno || !size || __builtin_add_overflow(start, size, &size)) {
			model->skipped++;
			continue;
		}
		assert_true(model->n < MAX_LINES);
		model->lines[model->n].start = start;
		model->lines[model->n].end = size;
		strcpy(model->lines[model->n].name, line + m[5].rm_so);
		clean_name(model->lines[model->n++].name);
	}
	model->skipped += *line != '\0';
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 11;
}

static size_t random_text(uint64_t *x, char *text, bool sane)
{
	static const char *const pieces[] = {" ",
					     "  ",
					     "\n",
					     "0x",
					     "f",
					     "10",
					     "0",
					     "ffffffffffffffff",
					     "fffffffffffffff0",
					     "x y",
					     "\t",
					     "-",
					     "g",
					     "\xff",
					     "\r",
					     "8 ",
					     "20 ",
					     "\n1 80 z"};
	size_t len = 0, n = next_random(x) % 60;

	for (size_t i = 0; i < n; i++) {
		if (sane || next_random(x) % 2)
			len += (size_t)sprintf(text + len, "%lx %lx n%zu\n", next_random(x) % 200,
					       next_random(x) % (i % 7 ? 20 : 150), i);
		else
			len += (size_t)sprintf(
				text + len, "%s",
				pieces[next_random(x) % (sizeof(pieces) / sizeof(*pieces))]);
	}
	return len;
}

/* If only some addresses are wanted, these must have the same names as when all are wanted. */
static void assert_same(const struct perf_map *map, const char *text, size_t len, size_t skipped,
			uint64_t every)
{
	uint64_t addrs[420];
	struct perf_map_wanted wanted = {.addrs = addrs};
	struct perf_map *some;
	size_t its_skipped;

	for (uint64_t i = every - 1; i < 420; i += every)
		addrs[wanted.n++] = i < 400 ? i : i - 420;
	some = parse_wanted(text, len, &wanted, &its_skipped);
	assert_int_equal(its_skipped, skipped);
	for (size_t i = 0; i < wanted.n; i++) {
		uint64_t start = 0;
		const char *name = perf_map__find(map, addrs[i], &start);

		assert_name(some, addrs[i], name, start);
	}
	perf_map__free(some);
}

static void test_random(void **state)
{
	uint64_t x = 0x9e3779b97f4a7c15ull, skipped_lines = 0, named = 0;
	static struct model model;
	regex_t form;

	(void)state;
	assert_int_equal(regcomp(&form,
				 "^(0[xX])?([0-9a-fA-F]+) +(0[xX])?([0-9a-fA-F]+) +([^ ].*)$",
				 REG_EXTENDED),
			 0);
	for (int round = 0; round < 3000; round++) {
		char text[60 * 64];
		size_t len = random_text(&x, text, round % 3 == 0), skipped = 42;
		struct perf_map *map = parse(text, len, &skipped);

		assert_same(map, text, len, skipped, 1 + (uint64_t)round % 50);
		text[len] = '\0';
		model_read(&model, &form, text);
		assert_int_equal(skipped, model.skipped);
		skipped_lines += skipped;
		for (uint64_t i = 0; i < 420; i++) {
			uint64_t addr = i < 400 ? i : i - 420; /* also the highest addresses */
			size_t k = model.n;

			while (k > 0 &&
			       (addr < model.lines[k - 1].start || addr >= model.lines[k - 1].end))
				k--;
			assert_name(map, addr, k ? model.lines[k - 1].name : NULL,
				    k ? model.lines[k - 1].start : 0);
			named += k > 0;
		}
		perf_map__free(map);
	}
	regfree(&form);
	assert_true(skipped_lines > 1000 && named > 100000); /* the test had enough of both */
}

/* Half a million lines that overlap in the worst way. The alarm kills the test if the parser is
 * slower than n log n. */
#define MANY 500000

static void many(const char *what, uint64_t (*start)(uint64_t i), uint64_t (*size)(uint64_t i),
		 uint64_t addr, uint64_t winner)
{
	char *text = malloc((size_t)MANY * 48), name[32];
	struct perf_map *map;
	size_t len = 0, skipped;

	print_message("%s\n", what);
	for (uint64_t i = 0; i < MANY; i++)
		len += (size_t)sprintf(text + len, "%lx %lx n%lu\n", start(i), size(i), i);
	alarm(30);
	map = parse(text, len, &skipped);
	alarm(0);
	assert_int_equal(skipped, 0);
	snprintf(name, sizeof(name), "n%lu", winner);
	assert_name(map, addr, name, start(winner));
	perf_map__free(map);
	free(text);
}

static uint64_t up(uint64_t i)
{
	return i + 1;
}

static uint64_t down(uint64_t i)
{
	return MANY - i;
}

static uint64_t nested(uint64_t i)
{
	return 2 * (MANY - i);
}

static uint64_t nesting(uint64_t i)
{
	return 2 * (i + 1);
}

static uint64_t wide(uint64_t i)
{
	(void)i;
	return MANY;
}

static uint64_t scattered(uint64_t i)
{
	return i * 0x9e3779b9 % 1000003 + 1;
}

static void test_many(void **state)
{
	(void)state;
	many("each inside the one before", up, nested, MANY - 10, MANY - 11);
	many("each around the one before", down, nesting, MANY, MANY - 1);
	many("a staircase up", up, wide, MANY, MANY - 1);
	many("a staircase down", down, wide, MANY, MANY - 1);
	many("scattered", scattered, wide, scattered(MANY - 1) + MANY / 2, MANY - 1);
}

/* There are half a million wanted addresses. Each of half a million lines covers most of them. */
static void test_many_wanted(void **state)
{
	uint64_t *addrs = malloc(MANY * sizeof(*addrs));
	struct perf_map_wanted wanted = {addrs, MANY};
	char *text = malloc((size_t)MANY * 48), name[32];
	struct perf_map *map;
	size_t len = 0, skipped;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		addrs[i] = i + 1;
		len += (size_t)sprintf(text + len, "%lx %lx n%lu\n", up(i), wide(i), i);
	}
	alarm(30);
	map = parse_wanted(text, len, &wanted, &skipped);
	alarm(0);
	assert_int_equal(skipped, 0);
	for (uint64_t i = 0; i < MANY; i += 1000) {
		snprintf(name, sizeof(name), "n%lu", i);
		assert_name(map, i + 1, name, i + 1);
	}
	perf_map__free(map);
	/* the only line that a wanted address needs is kept */
	wanted.n = 1;
	map = parse_wanted(text, len, &wanted, &skipped);
	assert_name(map, 1, "n0", 1);
	assert_name(map, MANY + 10, NULL, 0);
	perf_map__free(map);
	free(text);
	free(addrs);
}

static void test_too_many(void **state)
{
	size_t n = (2u << 20) + 10, skipped;
	char *text = malloc(n * 8);
	struct perf_map *map;

	(void)state;
	for (size_t i = 0; i < n; i++)
		memcpy(text + 8 * i, i + 11 == n ? "22 10 a\n" : "11 10 a\n", 8);
	map = parse(text, n * 8, &skipped);
	assert_int_equal(skipped, 10);
	assert_name(map, 0x30, "a", 0x22); /* the last name that had room */
	perf_map__free(map);
	free(text);
}

/* --- files --- */

static int open_map(const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static void append(int fd, const char *text)
{
	assert_true(lseek(fd, 0, SEEK_END) >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* A file is read as it grows. The descriptor's position does not matter. */
static void test_read(void **state)
{
	struct perf_map *map;
	size_t skipped = 42;
	int fd;

	(void)state;
	assert_true(fixture_write("perf-1.map", "", 0));
	fd = open_map("perf-1.map", O_RDWR);
	assert_int_equal(perf_map__read(fd, NULL, &map, &skipped), 0);
	assert_int_equal(skipped, 0);
	perf_map__free(map);

	append(fd, "10 10 f\n20 10 g");
	assert_int_equal(perf_map__read(fd, NULL, &map, &skipped), 0);
	assert_int_equal(skipped, 1);
	assert_name(map, 0x10, "f", 0x10);
	assert_name(map, 0x20, NULL, 0);
	perf_map__free(map);

	append(fd, "reat\n");
	assert_int_equal(perf_map__read(fd, NULL, &map, NULL), 0);
	assert_name(map, 0x10, "f", 0x10);
	assert_name(map, 0x20, "great", 0x20);
	perf_map__free(map);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 20); /* the position did not change */
	close(fd);

	map = NULL;
	skipped = 42;
	assert_int_equal(perf_map__read(-1, NULL, &map, &skipped), -EBADF);
	fd = open_map(".", O_RDONLY | O_DIRECTORY);
	assert_int_equal(perf_map__read(fd, NULL, &map, &skipped), -EISDIR);
	close(fd);
	assert_null(map);
	assert_int_equal(skipped, 42);
}

/* Files of 64 MiB and more. Nearly all of each file is one name that consists of NULs: a
 * hole, which takes no room on disk. */
static void test_large_file(void **state)
{
	const off_t limit = 64 << 20;
	static const char late[] = "\n3000 10 late\n";
	const struct {
		off_t newline; /* offset of late */
		bool fits;
		size_t skipped;
	} cases[] = {
		{limit - (off_t)sizeof(late) + 1, true, 0}, /* ends at the limit */
		{limit - (off_t)sizeof(late) + 2, false, 1},
		{limit - 1, false, 1}, /* the long line just fits */
		{limit, false, 1},
		{limit + 5000000000, false, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int fd = open_map("large.map", O_RDWR | O_CREAT | O_TRUNC);
		struct perf_map *map;
		const char *name;
		size_t skipped;

		append(fd, "1000 10 first\n2000 10 ");
		assert_int_equal(pwrite(fd, late, sizeof(late) - 1, cases[i].newline),
				 sizeof(late) - 1);
		assert_int_equal(perf_map__read(fd, NULL, &map, &skipped), 0);
		assert_int_equal(skipped, cases[i].skipped);
		assert_name(map, 0x1000, "first", 0x1000);
		name = perf_map__find(map, 0x2000, NULL);
		assert_int_equal(name != NULL, cases[i].newline < limit);
		if (name)
			assert_int_equal(strlen(name), NAME_MAX_BYTES);
		assert_name(map, 0x3000, cases[i].fits ? "late" : NULL, 0x3000);
		perf_map__free(map);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_lines),    cmocka_unit_test(test_later_lines_win),
		cmocka_unit_test(test_no_entries),    cmocka_unit_test(test_half_written),
		cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_random),
		cmocka_unit_test(test_many),	      cmocka_unit_test(test_many_wanted),
		cmocka_unit_test(test_too_many),      cmocka_unit_test(test_read),
		cmocka_unit_test(test_large_file),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
