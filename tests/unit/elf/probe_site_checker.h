/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks, without the code under test, that a probe at a site does no harm. Include after
 * cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_PROBE_SITE_CHECKER_H
#define MEMTRACE_TESTS_UNIT_ELF_PROBE_SITE_CHECKER_H

#include <stdbool.h>
#include <string.h>

#include "elf/probe_site.h"

/* The checker shares nothing with the code under test. It knows the lengths and effects of
 * instructions from the opcode maps of the processor manuals. */
struct checked {
	size_t len; /* 0: unknown to the checker */
	bool branches;
	int64_t target;	  /* relative to the instruction's first byte */
	bool harmless;	  /* a probe may follow it, if the probe still finds all arguments */
	uint32_t written; /* mask of general registers */
};

static inline struct checked check_instruction(const uint8_t *code, size_t max)
{
	struct checked result = {0};
	bool opsize = false, addr32 = false, rex_w = false, rex = false, lock = false;
	unsigned int op, mod = 0, reg = 0, rm = 0, dest = 16; /* 16: none */
	bool modrm = false, two = false, vector = false, byte_op = false, rm_is_dest = false;
	uint8_t rex_byte = 0, rep = 0;
	size_t pos = 0, imm = 0;
	bool known = false;

	for (; pos < max; pos++) {
		uint8_t b = code[pos];

		if (b == 0x66)
			opsize = true;
		else if (b == 0x67)
			addr32 = true;
		else if (b == 0xf2 || b == 0xf3)
			rep = b;
		else if (b == 0xf0)
			lock = true;
		else if (b != 0x26 && b != 0x2e && b != 0x36 && b != 0x3e && b != 0x64 && b != 0x65)
			break;
	}
	if (pos < max && (code[pos] & 0xf0) == 0x40) {
		rex = true;
		rex_byte = code[pos++];
		rex_w = rex_byte & 8;
	}
	if (pos >= max)
		return result;
	op = code[pos++];
	if (op == 0x0f) {
		if (pos >= max)
			return result;
		two = true;
		op = code[pos++];
	}

	size_t immz = opsize && !rex_w ? 2 : 4;

	if (!two) {
		if (op < 0x40) {
			modrm = (op & 7) < 4;
			imm = (op & 7) == 4 ? 1 : (op & 7) == 5 ? immz : 0;
			if ((op & 7) > 5)
				return result;
			known = true;
			byte_op = !(op & 1);
			if (op < 0x38) {
				if (modrm && !(op & 2))
					rm_is_dest = true;
				else if (!modrm)
					dest = 0;
			}
		} else if (op >= 0x50 && op < 0x60) {
			;
		} else if (op == 0x63) {
			modrm = known = true;
		} else if (op == 0x68) {
			imm = immz;
		} else if (op == 0x69) {
			modrm = true;
			imm = immz;
		} else if (op == 0x6a) {
			imm = 1;
		} else if (op == 0x6b) {
			modrm = true;
			imm = 1;
		} else if (op >= 0x70 && op < 0x80) {
			imm = 1;
			result.branches = true;
		} else if (op == 0x80 || op == 0x83 || op == 0x81) {
			modrm = rm_is_dest = known = true;
			imm = op == 0x81 ? immz : 1;
			byte_op = op == 0x80;
		} else if (op >= 0x84 && op <= 0x8d) {
			modrm = true;
			known = op != 0x86 && op != 0x87 && op != 0x8c;
			byte_op = !(op & 1) && op != 0x8c;
			rm_is_dest = op == 0x88 || op == 0x89;
		} else if (op == 0x8e) {
			modrm = true;
		} else if (op == 0x90 && !(rex_byte & 1) && rep != 0xf3) {
			known = true;
		} else if (op >= 0x90 && op <= 0x9f && op != 0x9a) {
			;
		} else if (op >= 0xa0 && op <= 0xa3) {
			imm = addr32 ? 4 : 8;
			known = op < 0xa2;
			dest = 0;
		} else if (op >= 0xa4 && op <= 0xaf) {
			imm = op == 0xa8 ? 1 : op == 0xa9 ? immz : 0;
			known = op == 0xa8 || op == 0xa9;
		} else if (op >= 0xb0 && op < 0xb8) {
			imm = 1;
			known = byte_op = true;
			dest = (op & 7) | (rex_byte & 1) << 3;
		} else if (op >= 0xb8 && op < 0xc0) {
			imm = rex_w ? 8 : immz;
			known = true;
			dest = (op & 7) | (rex_byte & 1) << 3;
		} else if (op == 0xc0 || op == 0xc1) {
			modrm = rm_is_dest = known = true;
			byte_op = op == 0xc0;
			imm = 1;
		} else if (op == 0xc3 || op == 0xc9 || op == 0xcb || op == 0xcc) {
			;
		} else if (op == 0xc6 || op == 0xc7) {
			modrm = rm_is_dest = known = true;
			byte_op = op == 0xc6;
			imm = op == 0xc6 ? 1 : immz;
		} else if (op >= 0xd0 && op <= 0xd3) {
			modrm = rm_is_dest = known = true;
			byte_op = !(op & 1);
		} else if (op >= 0xd8 && op <= 0xdf) {
			modrm = true;
		} else if ((op >= 0xe0 && op <= 0xe3) || op == 0xeb) {
			imm = 1;
			result.branches = true;
		} else if (op == 0xe8 || op == 0xe9) {
			imm = 4;
			result.branches = true;
		} else if (op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff) {
			modrm = rm_is_dest = known = true;
			byte_op = !(op & 1);
		} else {
			return result;
		}
	} else {
		if (op >= 0x80 && op < 0x90) {
			imm = 4;
			result.branches = true;
		} else if (op == 0x05 || op == 0x0b || op == 0x31 || op == 0xa2) {
			;
		} else if (op == 0x1e && rep == 0xf3 && pos < max && code[pos] == 0xfa) {
			pos++;
			known = true;
		} else if (op == 0x1f || (op >= 0x40 && op < 0x50) || (op >= 0x90 && op < 0xa0) ||
			   op == 0xaf) {
			modrm = true;
			known = op == 0x1f;
		} else if (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf || op == 0xbc ||
			   op == 0xbd) {
			modrm = known = true;
		} else if (op == 0x10 || op == 0x11 || op == 0x28 || op == 0x29 || op == 0x6e ||
			   op == 0x6f || op == 0x7e || op == 0x7f || op == 0xd6 || op == 0xef ||
			   op == 0x57) {
			modrm = known = vector = true;
			rm_is_dest = op == 0x11 || op == 0x29 || op == 0x7f || op == 0xd6 ||
				     (op == 0x7e && rep != 0xf3);
		} else {
			return result;
		}
	}
	if (modrm) {
		if (pos >= max)
			return result;
		mod = code[pos] >> 6;
		reg = (code[pos] >> 3 & 7) | (rex_byte & 4) << 1;
		rm = code[pos] & 7;
		pos++;
		if (mod != 3 && rm == 4) {
			if (pos >= max)
				return result;
			if (mod == 0 && (code[pos] & 7) == 5)
				pos += 4;
			pos++;
		}
		if (mod == 1)
			pos += 1;
		else if (mod == 2 || (mod == 0 && rm == 5))
			pos += 4;
		rm |= (rex_byte & 1) << 3;
	}
	if (!two && (op == 0xf6 || op == 0xf7) && (reg & 7) < 2)
		imm = op == 0xf6 ? 1 : immz;
	if (result.branches && opsize && !rex_w) /* Intel and AMD disagree on the length */
		return (struct checked){0};
	if (pos + imm > max || pos + imm > 15)
		return (struct checked){0};
	result.len = pos + imm;
	if (result.branches) {
		int32_t rel = 0;

		if (imm == 1)
			rel = (int8_t)code[pos];
		else
			memcpy(&rel, code + pos, 4);
		result.target = (int64_t)result.len + rel;
		return result;
	}
	if (!two && op == 0xc7 && mod == 3 && (reg & 7) == 7) {
		result.branches = true; /* xbegin */
		result.target = (int64_t)result.len;
		result.target +=
			opsize ? 0
			       : (int32_t)(code[pos] | code[pos + 1] << 8 | code[pos + 2] << 16 |
					   (uint32_t)code[pos + 3] << 24);
		return result;
	}

	/* What does the instruction write? */
	unsigned int op_reg = reg & 7;

	if (!two && op >= 0x80 && op <= 0x83 && op_reg == 7)
		rm_is_dest = false; /* cmp */
	else if (!two && (op == 0x84 || op == 0x85))
		; /* test */
	else if (!two && (op == 0xf6 || op == 0xf7)) {
		if (op_reg < 2)
			rm_is_dest = false;
		else if (op_reg > 3)
			known = false;
	} else if (!two && (op == 0xfe || op == 0xff)) {
		if (op_reg > 1)
			known = false;
	} else if (!two && (op == 0xc6 || op == 0xc7)) {
		if (op_reg != 0)
			known = false;
	} else if (!two && ((op >= 0x10 && op < 0x20))) {
		known = false; /* adc, sbb */
	} else if (!two && (op >= 0xc0 && op <= 0xd3) && (op_reg < 4)) {
		known = false; /* rotates */
	} else if (modrm && !rm_is_dest && !(two && op == 0x1f) &&
		   !(!two && op >= 0x38 && op < 0x3c)) {
		dest = reg;
	}
	if (modrm && rm_is_dest) {
		if (mod != 3)
			return result; /* a store */
		dest = rm;
	}
	if (!known || lock)
		return result;
	if (vector && !(op == 0x7e && rep != 0xf3)) {
		result.harmless = true;
		return result;
	}
	if (byte_op && !rex && dest >= 4 && dest < 8)
		dest -= 4;			  /* ah, ch, dh, bh */
	result.harmless = dest != 4 && dest != 5; /* rsp, rbp */
	result.written = 1u << dest;
	return result;
}

/* holders: the registers that hold an argument before the instruction. Returns the registers that
 * hold this argument afterwards. */
static inline uint32_t follow(uint32_t holders, const uint8_t *code, const struct checked *insn)
{
	unsigned int reg = (code[2] >> 3 & 7) | (code[0] & 4) << 1;
	unsigned int rm = (code[2] & 7) | (code[0] & 1) << 3;
	uint32_t left = holders & ~insn->written;

	/* mov r64,r64 */
	if (insn->len != 3 || (code[0] & 0xf8) != 0x48 || code[2] < 0xc0)
		return left;
	if (code[1] == 0x89)
		return left | (holders >> reg & 1u) << rm;
	if (code[1] == 0x8b)
		return left | (holders >> rm & 1u) << reg;
	return left;
}

/* Checks the site for a probe that reads all six arguments. */
static inline void assert_sound(const uint8_t *code, size_t size, const struct probe_site *site)
{
	/* the processor's number of each register; the index is the register's number in struct
	 * probe_site */
	static const uint8_t numbers[] = {0, 7, 6, 2, 1, 8, 9, 0, 10, 11, 3, 12, 13, 14, 15};
	uint32_t holders[6];
	size_t pos = 0, site_len;
	struct checked insn;

	for (size_t i = 0; i < 6; i++)
		holders[i] = 1u << numbers[i + 1];

	assert_true(site->delta < size);
	assert_true(memchr(site->instruction, '\0', sizeof(site->instruction)) != NULL);
	assert_true(memchr(site->why, '\0', sizeof(site->why)) != NULL);
	if (site->delta == 0)
		return;
	while (pos < site->delta) {
		insn = check_instruction(code + pos, size - pos);
		if (!insn.len || insn.branches || !insn.harmless)
			fail_msg("+%zu: %02x %02x %02x %02x passed over for \"%s\" at +%u", pos,
				 code[pos], code[pos + 1], code[pos + 2], code[pos + 3],
				 site->instruction, site->delta);
		for (size_t i = 0; i < 6; i++)
			holders[i] = follow(holders[i], code + pos, &insn);
		pos += insn.len;
	}
	assert_int_equal(pos, site->delta);
	for (size_t i = 0; i < 6; i++)
		if (!(holders[i] & 1u << numbers[site->args[i]]))
			fail_msg("argument %zu is not in register %u at +%u", i + 1, site->args[i],
				 site->delta);
	insn = check_instruction(code + pos, size - pos);
	assert_true(insn.len > 0);
	site_len = insn.len;
	assert_true(site->emulated != site->nop);
	if (site->emulated) {
		uint8_t b = code[pos];

		assert_true(b == 0x90 || (b & 0xf8) == 0x50 || (b & 0xf0) == 0x70 || b == 0xe8 ||
			    b == 0xe9 || b == 0xeb ||
			    (b == 0x41 && (code[pos + 1] & 0xf8) == 0x50) ||
			    (b == 0x0f && (code[pos + 1] & 0xf0) == 0x80));
	}
	/* No branch may lead to a place behind the entry and before the end of the probed
	 * instruction. The check ends at an instruction that the checker does not know. */
	for (pos = 0; pos < size; pos += insn.len) {
		insn = check_instruction(code + pos, size - pos);
		if (!insn.len)
			break;
		if (insn.branches && (int64_t)pos + insn.target > 0)
			assert_true((uint64_t)((int64_t)pos + insn.target) >=
				    site->delta + site_len);
	}
}

#endif
