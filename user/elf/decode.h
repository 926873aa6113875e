/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes one x86-64 instruction at a time with Capstone, and refuses instructions that Capstone
 * may decode wrongly. */
#ifndef MEMTRACE_ELF_DECODE_H
#define MEMTRACE_ELF_DECODE_H

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define MAX_INSN_LEN 15

struct decoder {
	csh handle;
	cs_insn *insn;	   /* the instruction that was decoded last */
	size_t opcode_off; /* offset in `code` of insn's opcode, behind the prefixes */
};

/* Opens Capstone. 0 or -ENOMEM. */
int decoder__open(struct decoder *decoder);
void decoder__close(struct decoder *decoder);

/* Decodes the instruction at code + off. False when Capstone knows no instruction there, or cannot
 * be relied on. Capstone cannot be relied on in two cases. A REX that is not the last prefix has no
 * effect, but Capstone may apply it. A branch with an operand size prefix (without REX.W) is 4
 * bytes long for AMD and 6 for Intel. */
bool decoder__decode(struct decoder *decoder, const uint8_t *code, size_t len, size_t off,
		     uint64_t vaddr);

/* Returns the length of the direct branch (without prefixes) at code; 0: there is none.
 * *ret_target: the branch's target, relative to code. */
size_t decode__branch(const uint8_t *code, size_t len, int64_t *ret_target);

/* Returns the number of a general register, which may be named whole or in part. 1 to 6 are rdi,
 * rsi, rdx, rcx, r8 and r9; 7 to 14 are rax, r10, r11, rbx and r12 to r15; 15 is rbp, 16 is rsp. 0:
 * any other register. */
#define DECODE_ARGUMENTS 6 /* registers 1 to 6 hold the arguments of a function */
#define DECODE_RAX	 7
#define DECODE_RBP	 15
#define DECODE_RSP	 16
unsigned int decode__register(unsigned int reg);

/* Does an instruction with this id (X86_INS_...) read its last operand (in AT&T order the
 * destination) without writing it? Capstone does not tell. */
bool decode__only_compares(unsigned int id);

/* Is the byte a prefix of an instruction: a legacy one, or REX (0x40 to 0x4f)? */
bool decode__is_legacy_prefix(uint8_t byte);
bool decode__is_rex(uint8_t byte);

#endif
