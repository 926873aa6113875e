// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "encode/encode.h"
#include "profile/origins.h"

static struct census_arena arenas[20];
static struct census census;

/* Returns the report. top: the number of rows of the table; 0: as JSON. */
static char *text_of(const struct heap_report *report, unsigned top)
{
	char *text = NULL;
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	struct sink sink = sink__to_stream(stream);

	assert_non_null(stream);
	assert_int_equal(top ? encode_heap_report(report, top, &sink)
			     : encode_heap_report_json(report, &sink),
			 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

static void fill(void)
{
	memset(arenas, 0, sizeof(arenas));
	census = (struct census){.arenas = arenas, .n_arenas = 20};
	for (uint64_t i = 0; i < 20; i++) {
		arenas[i].addr = 0x7f0000000000ULL + i;
		arenas[i].places[PLACE_IN_USE] = (struct heap_count){i, 100 * i};
	}
	for (size_t i = 1; i <= 30; i++)
		census.sizes[HEAP_GLIBC][i] = (struct census_size){
			.in_use = {i, 1000 * i}, .holders = i, .pinned = 100 * i};
	census.pages[HEAP_GLIBC] = (struct census_pages){.mapped = 1 << 20,
							 .pages = 1 << 20,
							 .live = 1 << 19,
							 .whole_free = 1 << 18,
							 .trimmable = 1 << 17,
							 .between = 1 << 18,
							 .sparse = 1 << 16,
							 .pinned = 1 << 15};
}

static void test_table(void **state)
{
	char item[] = "shop::Item", book[] = "shop::Book", shelf[] = "shop::Shelf<int>";
	const struct heap_type types[] = {{.name = item, .count = {9, 4096}, .pinned = 1024},
					  {.name = book, .count = {8, 2048}},
					  {.name = shelf, .count = {2, 64}},
					  {.name = shelf, .count = {3, 32}},
					  {.name = shelf, .count = {4, 32}}};
	const struct heap_report report = {.census = &census,
					   .types = types,
					   .n_types = 5,
					   .pid = 7,
					   .comm = "db",
					   .unread = "musl"};
	char *text;

	(void)state;
	fill();
	census.untold_types = 5;
	census.unchecked_types = 6;
	text = text_of(&report, 3);
	assert_has(text, "Process 7 (db)");
	assert_has(text, "\n\nMEMORY                   RESIDENT\n"
			 "glibc                     1.0 MiB\n"
			 "  blocks in use         512.0 KiB\n"
			 "  free, whole pages     256.0 KiB  128.0 KiB of it in free blocks");
	assert_has(text, "Blocks of musl cannot be found");
	/* the largest are listed; one row has the sum of the rest, such as 12 + 11 + ... + 1 */
	assert_has(text, "\nglibc      0x7f0000000013  in use      19  1.9 KiB\n");
	assert_has(text, "\n           13 others       in use      78  7.6 KiB\n");
	assert_has(text, "\nglibc 480 B               30   29.3 KiB     0 B   0 B\n");
	assert_has(text, "\nglibc 27 others          378  369.1 KiB     0 B   0 B\n");
	assert_has(text, "\n     9  4.0 KiB   1.0 KiB  shop::Item\n");
	assert_has(text, "\n     7     64 B            2 others\n");
	assert_has(text,
		   "\n     5                     of further classes or sizes, not told apart\n"
		   "     6                     not checked: too many different first words\n");
	assert_has(text, "Pinned pages of glibc: 64.0 KiB of pages");
	assert_has(text, "\n27 others                378  36.9 KiB\n");
	assert_null(strstr(text, "jemalloc"));
	free(text);
}

static void test_json(void **state)
{
	const struct heap_report report = {.census = &census, .pid = 7, .comm = "d\"b"};
	char *text;

	(void)state;
	fill();
	census.untold_types = 5;
	census.unchecked_types = 6;
	text = text_of(&report, 0);
	assert_has(text, "\"what\":\"heap_census\"");
	assert_has(text, "\"untold_types\":5,\"unchecked_types\":6");
	assert_has(text, "\"comm\":\"d\\\"b\"");
	assert_has(text, "\"trimmable\":131072");
	assert_has(text, "{\"max\":480,\"in_use\":{\"blocks\":30,\"bytes\":30000}");
	free(text);
}

static void test_origins(void **state)
{
	const char *session[] = {"session_new", "a<int>::b", "c", "d", "main"},
		   *page[] = {"page_new"};
	struct origin rows[] = {{session, 5, {120000, 1 << 23}, 1 << 20, 0},
				{page, 1, {9, 512}, 0, 512},
				{page, 1, {2, 64}, 1024, 0},
				{page, 1, {1, 32}, 0, 0}};
	struct origins origins = {.rows = rows,
				  .n_rows = 4,
				  .unknown = {77, 7 << 10},
				  .known = 812,
				  .told = {400, 5000},
				  .right = {399, 4990}};
	const struct heap_report report = {
		.census = &census, .origins = &origins, .pid = 7, .comm = "db"};
	char *text;

	(void)state;
	fill();
	text = text_of(&report, 2);
	assert_has(text, "\nBLOCKS    BYTES  THEY PIN  LOOK LIKE THOSE OF\n"
			 "120000  8.0 MiB   1.0 MiB  session_new < a<..>::b < c < d < ...\n"
			 "     9    512 B            page_new (plain)\n"
			 "     3     96 B   1.0 KiB  2 others\n"
			 "    77  7.0 KiB            unknown\n");
	assert_has(text,
		   "Known blocks: 812 that tracing sampled and that live. As a check, each half\n"
		   "was used to name the functions of the other half: 400 blocks were named,\n"
		   "399 of them correctly (99.8 % of the blocks, 99.8 % of the bytes).\n");
	free(text);
	text = text_of(&report, 0);
	assert_has(text, "{\"stack\":[\"page_new\"],\"blocks\":9,\"bytes\":512,\"pinned\":0,"
			 "\"plain_bytes\":512}");
	assert_has(text, "\"unknown\":{\"blocks\":77,\"bytes\":7168}");
	assert_has(text, "\"told_rightly\":{\"blocks\":399,\"bytes\":4990}");
	free(text);
	origins = (struct origins){.known = 3, .told = {10, 100}, .misleading = true};
	text = text_of(&report, 2);
	assert_has(text, "No function is named: too many known blocks would get a wrong one.\n");
	free(text);
	origins = (struct origins){.rows = rows, .n_rows = 1, .known = 10};
	text = text_of(&report, 2);
	assert_has(text, "They are too few to check how often the functions are right.\n");
	free(text);
	origins = (struct origins){};
	text = text_of(&report, 2);
	assert_has(text, "Nothing can be told: too few blocks are known");
	free(text);
}

/* glibc counts the blocks that have mappings of their own. If its counters were not found, the
 * report does not call this count 0. */
static void test_large_blocks(void **state)
{
	const struct heap_report report = {.census = &census, .pid = 7, .comm = "db"};
	char *text;

	(void)state;
	fill();
	census.quality[HEAP_GLIBC].found_large = 1 << 20;
	census.quality[HEAP_GLIBC].own_large = 1 << 21;
	text = text_of(&report, 3);
	assert_has(text, "; in mappings of their own 1.0 MiB, by its own count 2.0 MiB\n");
	free(text);
	census.quality[HEAP_GLIBC].own_large = 0;
	text = text_of(&report, 3);
	assert_has(text, "; in mappings of their own 1.0 MiB\n");
	free(text);
}

static void test_refusal(void **state)
{
	char text[256];

	(void)state;
	fill();
	assert_false(heap_report__refusal(&census, text, sizeof(text)));
	census.quality[HEAP_GLIBC].own_bytes = 1000;
	census.quality[HEAP_GLIBC].found_bytes = 940;
	assert_true(heap_report__refusal(&census, text, sizeof(text)));
	assert_has(text, "6 % of the memory of glibc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),	cmocka_unit_test(test_json),
		cmocka_unit_test(test_origins), cmocka_unit_test(test_large_blocks),
		cmocka_unit_test(test_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
