// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "encode/grid.h"
#include "tests/unit/encode/fixture.h"

/* Checks what grid__put() puts, and clears the grid. */
static void assert_puts(struct grid *grid, const char *expected)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(grid__put(grid, &sink), 0);
	assert_string_equal(text.bytes, expected);
	free(text.bytes);
	grid__clear(grid);
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
	struct grid grid =
		GRID({"N", false}, {"NAME", true}, {"EMPTY", false}, {"B", false}, {"NOTE", true});

	(void)state;
	grid__add_row(&grid, "1\tcaf\u00e9s\t\t%d\t%s", 10, "");
	grid__add_row(&grid, "1000\tx\t\t5\ta\tb\033");
	grid__add_row(&grid, "\t\t\t\tlong note");
	assert_puts(&grid, "   N  NAME    B  NOTE\n"
			   "   1  caf\u00e9s  10\n"
			   "1000  x       5  a?b?\n"
			   "                 long note\n");
}

/* The last text of a row with too few cells fills the row. */
static void a_text_can_fill_the_row(void **state)
{
	struct grid grid = GRID({"N", false}, {"EMPTY", false}, {"M", false});

	(void)state;
	grid__add_row(&grid, "1\t\t2");
	grid__add_row(&grid, "\tof it all that is long");
	grid__add_row(&grid, "1000\tis a sum");
	grid__add_row(&grid, "a line of its own");
	assert_puts(&grid, "   N  M\n"
			   "   1  2\n"
			   "      of it all that is long\n"
			   "1000  is a sum\n"
			   "a line of its own\n");
}

/* The last column has at least 40 columns, even if the line is shorter. A text that begins in an
 * earlier column has more room. */
static void rows_are_cut_at_the_end_of_the_line(void **state)
{
	static const char name[] = "01234567890123456789012345678901234567890\u00e4123456789";

	(void)state;
	for (size_t line = 1; line <= 1000; line += 999) {
		struct grid grid = GRID({"N", false}, {"M", false}, {"WHAT", true});

		grid__add_row(&grid, "1\t2\t%s", name);
		grid__add_row(&grid, "\t%s", name);
		grid__add_row(&grid, "\t\tshort");
		grid.line = line;
		if (line == 1)
			assert_puts(&grid, "N  M  WHAT\n"
					   "1  2  0123456789012345678..234567890\u00e4123456789\n"
					   "   01234567890123456789..01234567890\u00e4123456789\n"
					   "      short\n");
		else
			assert_puts(
				&grid,
				"N  M  WHAT\n"
				"1  2  01234567890123456789012345678901234567890\u00e4123456789\n"
				"   01234567890123456789012345678901234567890\u00e4123456789\n"
				"      short\n");
	}
}

static void a_caller_shows_and_leaves_out_columns(void **state)
{
	struct grid grid = GRID({"N", false}, {"EMPTY", false}, {"NAME", true}, {"B", false});
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	(void)state;
	grid__add_row(&grid, "1\t\tx\t10");
	assert_int_equal(grid__fit(&grid), 0);
	assert_int_equal(grid__columns(&grid), 3 + 6 + 4);
	grid__widen(&grid, 0, 3);
	grid__widen(&grid, 1, 0);
	grid__widen(&grid, 2, 1);
	grid.width[3] = 0;
	assert_int_equal(grid__columns(&grid), 5 + 7 + 6);
	assert_int_equal(grid__put_titles(&grid, "WHERE\n", &sink), 18);
	assert_int_equal(grid__put_row(&grid, 0, NULL, &sink), 18);
	sink__puts(&sink, "main\n");
	assert_int_equal(grid__put_row(&grid, 0, "", &sink), 18);
	assert_string_equal(text.bytes, "  N  EMPTY  NAME  WHERE\n"
					"  1         x     main\n"
					"  1         x");
	free(text.bytes);
	grid__clear(&grid);

	/* without columns, the text begins the line */
	text = (struct text){};
	grid = GRID({"N", false});
	assert_int_equal(grid__fit(&grid), 0);
	assert_int_equal(grid__put_titles(&grid, "WHERE", &sink), 0);
	assert_string_equal(text.bytes, "WHERE");
	free(text.bytes);
	grid__clear(&grid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
		cmocka_unit_test(a_text_can_fill_the_row),
		cmocka_unit_test(rows_are_cut_at_the_end_of_the_line),
		cmocka_unit_test(a_caller_shows_and_leaves_out_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
