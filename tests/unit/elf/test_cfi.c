// SPDX-License-Identifier: BSD-2-Clause
/* The expected rows are independent of the code under test: elfutils derives them from the same
 * programs. For invalid programs and for memtrace's own limits, the rows follow from the bytes
 * written here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "eh_frame_draft.h"

#define PLT_WITH(lit)                                                                              \
	DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,    \
		lit, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus

/* The program of one function at 0x10 .. 0x50, and its rows. */
static const struct program {
	const char *name;
	const unsigned char *bytes;
	size_t n;
	const struct unwind_row *rows;
	size_t n_rows;
	bool broken;
} programs[] = {
	{"empty", NULL, 0, ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"push rbp; mov rsp, rbp; pop; ret",
	 BYTES(ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2, ADVANCE(3),
	       DW_CFA_def_cfa_register, 6, ADVANCE(0x10), DW_CFA_def_cfa, 7, 8, DW_CFA_restore | 6),
	 ROWS({0x10, SP(8)}, {0x11, SP_SAVED(16, 2)}, {0x14, BP_SAVED(16, 2)}, {0x24, SP(8)},
	      {0x50, NONE}),
	 false},
	{"advances of all sizes",
	 BYTES(DW_CFA_advance_loc1, 1, DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc2, 1, 0,
	       DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 1, 0, 0, 0, DW_CFA_def_cfa_offset,
	       32, ADVANCE(0), DW_CFA_def_cfa_offset, 40),
	 ROWS({0x10, SP(8)}, {0x11, SP(16)}, {0x12, SP(24)}, {0x13, SP(40)}, {0x50, NONE}), false},
	{"a change taken back within one address",
	 BYTES(ADVANCE(4), DW_CFA_def_cfa_offset, 16, ADVANCE(0), DW_CFA_def_cfa_offset, 8),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"beyond the end",
	 BYTES(ADVANCE(0x3f), DW_CFA_def_cfa_offset, 16, ADVANCE(0x3f), DW_CFA_def_cfa_offset, 24),
	 ROWS({0x10, SP(8)}, {0x4f, SP(16)}, {0x50, NONE}), false},
	{"exactly to the end", BYTES(ADVANCE(0x20), ADVANCE(0x20), DW_CFA_def_cfa_offset, 16),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"remember and restore, nested",
	 BYTES(DW_CFA_remember_state, ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
	       DW_CFA_remember_state, ADVANCE(1), DW_CFA_def_cfa, 6, 24, ADVANCE(1),
	       DW_CFA_restore_state, ADVANCE(1), DW_CFA_restore_state),
	 ROWS({0x10, SP(8)}, {0x11, SP_SAVED(16, 2)}, {0x12, BP_SAVED(24, 2)},
	      {0x13, SP_SAVED(16, 2)}, {0x14, SP(8)}, {0x50, NONE}),
	 false},
	{"signed and extended forms",
	 BYTES(DW_CFA_def_cfa_sf, 7, 0x7e, ADVANCE(1), DW_CFA_def_cfa_offset_sf, 0x7d, ADVANCE(1),
	       DW_CFA_offset_extended, 6, 3, ADVANCE(1), DW_CFA_offset_extended_sf, 6, 4,
	       ADVANCE(1), DW_CFA_restore_extended, 6, ADVANCE(1), DW_CFA_offset_extended_sf, 6,
	       0x7c),
	 ROWS({0x10, SP(16)}, {0x11, SP(24)}, {0x12, SP_SAVED(24, 3)}, {0x13, SP_SAVED(24, 4)},
	      {0x14, SP(24)}, {0x15, BAD}, {0x50, NONE}),
	 false},
	{"the rbp that cannot be said",
	 BYTES(DW_CFA_undefined, 6, ADVANCE(1), DW_CFA_same_value, 6, ADVANCE(1), DW_CFA_register,
	       6, 3, ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_expression, 6, 2,
	       DW_OP_breg6, 0, ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_offset, 6, 2,
	       ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_offset_sf, 6, 2, ADVANCE(1),
	       DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_expression, 6, 1, DW_OP_lit0),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD}, {0x15, SP(8)},
	      {0x16, BAD}, {0x17, SP(8)}, {0x18, BAD}, {0x19, SP(8)}, {0x1a, BAD}, {0x50, NONE}),
	 false},
	{"the return address elsewhere",
	 BYTES(DW_CFA_offset | 16, 2, ADVANCE(1), DW_CFA_restore | 16, ADVANCE(1), DW_CFA_register,
	       16, 5, ADVANCE(1), DW_CFA_restore | 16, ADVANCE(1), DW_CFA_same_value, 16,
	       ADVANCE(1), DW_CFA_undefined, 16),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD},
	      {0x15, UNWIND_END}, {0x50, NONE}),
	 false},
	{"the caller's rsp is not the CFA",
	 BYTES(DW_CFA_same_value, 7, ADVANCE(1), DW_CFA_val_offset, 7, 0, ADVANCE(1),
	       DW_CFA_register, 7, 2, ADVANCE(1), DW_CFA_restore | 7, ADVANCE(1), DW_CFA_val_offset,
	       7, 1),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD}, {0x50, NONE}),
	 false},
	{"other registers, whatever their rules",
	 BYTES(DW_CFA_offset | 3, 2, DW_CFA_undefined, 17, DW_CFA_same_value, 12, DW_CFA_register,
	       1, 2, DW_CFA_expression, 10, 1, DW_OP_lit0, DW_CFA_val_expression, 0, 0,
	       DW_CFA_GNU_args_size, 0x80, 1, DW_CFA_nop, DW_CFA_restore | 3, DW_CFA_val_offset, 15,
	       9),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"CFAs that cannot be said",
	 BYTES(DW_CFA_def_cfa, 10, 0, ADVANCE(1), DW_CFA_def_cfa, 7, 12, ADVANCE(1),
	       DW_CFA_def_cfa_sf, 7, 1, ADVANCE(1), DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78,
	       DW_OP_deref, ADVANCE(1), DW_CFA_def_cfa, 6, 0x10),
	 ROWS({0x10, BAD}, {0x14, UNWIND_RULE(UNWIND_BP, 16, 0, 0)}, {0x50, NONE}), false},
	{"a realigned frame",
	 BYTES(DW_CFA_expression, 6, 2, DW_OP_breg6, 0, DW_CFA_def_cfa_expression, 3, DW_OP_breg6,
	       0x78, DW_OP_deref, ADVANCE(1), DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x58,
	       DW_OP_deref, ADVANCE(1), DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x7c,
	       DW_OP_deref, ADVANCE(1), DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 8, DW_OP_deref,
	       ADVANCE(1), DW_CFA_expression, 6, 2, DW_OP_breg6, 8, DW_CFA_def_cfa_expression, 3,
	       DW_OP_breg6, 0x78, DW_OP_deref, ADVANCE(1), DW_CFA_expression, 6, 2, DW_OP_breg6, 0,
	       DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_plus),
	 ROWS({0x10, UNWIND_REALIGNED(8)}, {0x11, UNWIND_REALIGNED(40)}, {0x12, BAD}, {0x50, NONE}),
	 false},
	{"the largest that can",
	 BYTES(DW_CFA_def_cfa_offset, 0xf8, 0xff, 0x1f, DW_CFA_offset | 6, 0xff, 0x1f, ADVANCE(1),
	       DW_CFA_def_cfa_offset, 0x80, 0x80, 0x20, ADVANCE(1), DW_CFA_def_cfa_offset, 8,
	       ADVANCE(1), DW_CFA_offset | 6, 0x80, 0x20, ADVANCE(1), DW_CFA_offset | 6, 0),
	 ROWS({0x10, SP_SAVED(524280, 4095)}, {0x11, BAD}, {0x12, SP_SAVED(8, 4095)}, {0x13, BAD},
	      {0x50, NONE}),
	 false},
	{"a lazy PLT", BYTES(PLT_WITH(DW_OP_lit11)), ROWS({0x10, UNWIND_PLT}, {0x50, NONE}), false},
	{"PLTs with another meaning",
	 BYTES(PLT_WITH(DW_OP_lit10), ADVANCE(1), PLT_WITH(DW_OP_lit9), ADVANCE(1),
	       PLT_WITH(DW_OP_lit11)),
	 ROWS({0x10, BAD}, {0x12, UNWIND_PLT}, {0x50, NONE}), false},

	{"an opcode that there is not", BYTES(ADVANCE(2), 0x3e),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"restore without remember", BYTES(ADVANCE(2), DW_CFA_restore_state),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"cut off in an operand", BYTES(ADVANCE(2), DW_CFA_def_cfa, 7),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"cut off in an advance", BYTES(ADVANCE(2), DW_CFA_advance_loc4, 1, 0, 0),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"an expression beyond the end", BYTES(ADVANCE(2), DW_CFA_expression, 3, 2, DW_OP_lit0),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"an endless number",
	 BYTES(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	       0x80, 0x80, 0),
	 ROWS({0x10, BAD}, {0x50, NONE}), true},
	{"a register for a CFA that is an expression",
	 BYTES(PLT_WITH(DW_OP_lit11), ADVANCE(2), DW_CFA_def_cfa_register, 6),
	 ROWS({0x10, UNWIND_PLT}, {0x12, BAD}, {0x50, NONE}), true},
};

static void test_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const struct program *program = &programs[i];
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
		struct draft draft = {0};

		put_usual_cie(&draft);
		put_fde(&draft, 0x10, 0x40, program->bytes, program->n);
		assert_int_equal(build_draft(&draft, 0, &table, true), 0);
		assert_rows(program->name, table, program->rows, program->n_rows);
		assert_int_equal(table->fdes, 1);
		assert_int_equal(table->skipped, program->broken);
		assert_true(table->base == CODE);
	}
}

/* Forms that no current compiler writes. */
static void test_rare_forms(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *negative = NULL, *deep = NULL,
							     *huge = NULL;
	struct draft draft = {0};

	(void)state;
	put_usual_cie(&draft);
	put_fde(&draft, 0, 0x10, BYTES(DW_CFA_GNU_negative_offset_extended, 6, 2));
	put_fde(&draft, 0x10, 0x10, BYTES(DW_CFA_GNU_negative_offset_extended, 3, 2));
	assert_int_equal(build_draft(&draft, 0, &negative, true), 0);
	assert_rows("negative", negative, ROWS({0, BAD}, {0x10, SP(8)}, {0x20, NONE}));

	/* The program saves more states than memtrace keeps. elfutils keeps any number, so it is
	 * not compared. */
	draft = (struct draft){0};
	put_usual_cie(&draft);
	open_fde(&draft);
	put_number(&draft, (uint32_t)(CODE - (FRAMES + draft.n)), 4);
	put_number(&draft, 0x100, 5);
	for (int i = 0; i < 64; i++)
		put(&draft, BYTES(DW_CFA_remember_state));
	put(&draft, BYTES(ADVANCE(8), DW_CFA_def_cfa_offset, 16, ADVANCE(8), DW_CFA_restore_state,
			  ADVANCE(8), DW_CFA_remember_state, ADVANCE(8), DW_CFA_remember_state));
	close_entry(&draft);
	assert_int_equal(build_draft(&draft, 0, &deep, false), 0);
	assert_rows("deep", deep,
		    ROWS({0, SP(8)}, {8, SP(16)}, {16, SP(8)}, {32, BAD}, {0x100, NONE}));

	/* Products do not fit in 64 bits. */
	draft = (struct draft){0};
	put_cie(&draft,
		BYTES(1, 'z', 'R', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x80,
		      0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f, 16, 1, 0x1b),
		BYTES(DW_CFA_def_cfa, 7, 8));
	put_fde(&draft, 0, 0x10,
		BYTES(DW_CFA_offset | 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
		      DW_CFA_def_cfa_sf, 7, 0x7f, DW_CFA_GNU_negative_offset_extended, 6, 0x7f,
		      DW_CFA_def_cfa, 0x87, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		      1, DW_CFA_advance_loc4, 0xff, 0xff, 0xff, 0xff, DW_CFA_def_cfa, 7, 8));
	assert_int_equal(build_draft(&draft, 0, &huge, true), 0);
	assert_rows("huge", huge, ROWS({0, BAD}, {0x10, NONE}));
	assert_int_equal(huge->skipped, 0);
}

/* cfa and ra: an offset minus 128. This is the lower 7 bits of the offset, as its LEB128 form needs
 * them. */
#define UCONTEXT(cfa, ra)                                                                          \
	DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0x80 | (cfa), 1, DW_OP_deref,                   \
		DW_CFA_expression, 6, 3, DW_OP_breg7, 0xf8, 0, DW_CFA_expression, 16, 3,           \
		DW_OP_breg7, 0x80 | (ra), 1

static void test_signal_frames(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	struct draft draft = {0};

	(void)state;
	put_cie(&draft, BYTES(1, 'z', 'R', 'S', 0, 1, 0x78, 16, 1, 0x1b), NULL, 0);
	/* the FDE begins one byte before the function, as in glibc */
	put_fde(&draft, 0xf, 0x11, BYTES(UCONTEXT(160 - 128, 168 - 128)));
	put_fde(&draft, 0x20, 0x10, BYTES(UCONTEXT(168 - 128, 168 - 128)));
	put_fde(&draft, 0x30, 0x10, BYTES(UCONTEXT(160 - 128, 176 - 128)));
	put_fde(&draft, 0x40, 0x10, BYTES(USUAL));
	put_fde(&draft, 0x50, 0x10, BYTES(USUAL, DW_CFA_undefined, 16));
	/* the program of the first FDE again, with a CIE without 'S' */
	put_usual_cie(&draft);
	put_fde(&draft, 0x60, 0x10, BYTES(UCONTEXT(160 - 128, 168 - 128)));
	assert_int_equal(build_draft(&draft, 0, &table, true), 0);
	assert_rows("signal", table,
		    ROWS({0xf, UNWIND_SIGNAL}, {0x20, BAD}, {0x50, UNWIND_END}, {0x60, BAD},
			 {0x70, NONE}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_rare_forms),
		cmocka_unit_test(test_signal_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
