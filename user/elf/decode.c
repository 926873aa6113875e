// SPDX-License-Identifier: BSD-2-Clause
#include "elf/decode.h"

#include <errno.h>
#include <string.h>

void decoder__close(struct decoder *decoder)
{
	if (decoder->insn)
		cs_free(decoder->insn, 1);
	if (decoder->handle)
		cs_close(&decoder->handle);
}

int decoder__open(struct decoder *decoder)
{
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &decoder->handle) != CS_ERR_OK) {
		decoder->handle = 0;
		return -ENOMEM;
	}
	cs_option(decoder->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	cs_option(decoder->handle, CS_OPT_DETAIL, CS_OPT_ON);
	decoder->insn = cs_malloc(decoder->handle);
	return decoder->insn ? 0 : -ENOMEM;
}

bool decode__is_legacy_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: /* es, cs, ss, ds, fs, gs */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66: /* operand and address size */
	case 0x67:
	case 0xf0: /* lock, repne, rep */
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

size_t decode__branch(const uint8_t *code, size_t len, int64_t *ret_target)
{
	size_t opcode_len = 1, rel_len;
	int32_t rel32;

	if (len == 0)
		return 0;
	switch (code[0]) {
	case 0x70 ... 0x7f: /* jcc rel8 */
	case 0xe0 ... 0xe3: /* loopne, loope, loop, jrcxz */
	case 0xeb:	    /* jmp rel8 */
		rel_len = 1;
		break;
	case 0xe8: /* call, jmp rel32 */
	case 0xe9:
		rel_len = 4;
		break;
	case 0x0f: /* jcc rel32 */
		if (len < 2 || code[1] < 0x80 || code[1] > 0x8f)
			return 0;
		opcode_len = 2;
		rel_len = 4;
		break;
	case 0xc7: /* xbegin rel32, a jump when the transaction fails */
		if (len < 2 || code[1] != 0xf8)
			return 0;
		opcode_len = 2;
		rel_len = 4;
		break;
	default:
		return 0;
	}
	if (len < opcode_len + rel_len)
		return 0;
	if (rel_len == 1) {
		*ret_target = (int64_t)(opcode_len + rel_len) + (int8_t)code[opcode_len];
	} else {
		memcpy(&rel32, code + opcode_len, sizeof(rel32));
		*ret_target = (int64_t)(opcode_len + rel_len) + rel32;
	}
	return opcode_len + rel_len;
}

bool decode__is_rex(uint8_t byte)
{
	return (byte & 0xf0) == 0x40;
}

bool decoder__decode(struct decoder *decoder, const uint8_t *code, size_t len, size_t off,
		     uint64_t vaddr)
{
	const uint8_t *pos = code + off, *opcode = pos, *end;
	uint8_t padded[MAX_INSN_LEN + 5] = {0};
	bool operand_size = false, rex_w = false;
	uint64_t addr = vaddr + off;
	size_t left = len - off, branch_len;
	int64_t target;

	if (!cs_disasm_iter(decoder->handle, &pos, &left, &addr, decoder->insn))
		return false;
	end = opcode + decoder->insn->size;
	for (; opcode < end && decode__is_legacy_prefix(*opcode); opcode++)
		operand_size |= *opcode == 0x66;
	if (opcode < end && decode__is_rex(*opcode))
		rex_w = *opcode++ & 8;
	if (opcode == end || decode__is_legacy_prefix(*opcode) || decode__is_rex(*opcode))
		return false;
	decoder->opcode_off = opcode - code;
	/* Zeroes behind the end, so that decode__branch() also recognizes a branch whose
	 * bytes are cut off. */
	memcpy(padded, opcode, end - opcode);
	branch_len = decode__branch(padded, sizeof(padded), &target);
	return !branch_len || (branch_len == (size_t)(end - opcode) && (!operand_size || rex_w));
}

unsigned int decode__register(unsigned int reg)
{
	switch (reg) {
	case X86_REG_RDI:
	case X86_REG_EDI:
	case X86_REG_DI:
	case X86_REG_DIL:
		return 1;
	case X86_REG_RSI:
	case X86_REG_ESI:
	case X86_REG_SI:
	case X86_REG_SIL:
		return 2;
	case X86_REG_RDX:
	case X86_REG_EDX:
	case X86_REG_DX:
	case X86_REG_DL:
	case X86_REG_DH:
		return 3;
	case X86_REG_RCX:
	case X86_REG_ECX:
	case X86_REG_CX:
	case X86_REG_CL:
	case X86_REG_CH:
		return 4;
	case X86_REG_R8:
	case X86_REG_R8D:
	case X86_REG_R8W:
	case X86_REG_R8B:
		return 5;
	case X86_REG_R9:
	case X86_REG_R9D:
	case X86_REG_R9W:
	case X86_REG_R9B:
		return 6;
	case X86_REG_RAX:
	case X86_REG_EAX:
	case X86_REG_AX:
	case X86_REG_AL:
	case X86_REG_AH:
		return 7;
	case X86_REG_R10:
	case X86_REG_R10D:
	case X86_REG_R10W:
	case X86_REG_R10B:
		return 8;
	case X86_REG_R11:
	case X86_REG_R11D:
	case X86_REG_R11W:
	case X86_REG_R11B:
		return 9;
	case X86_REG_RBX:
	case X86_REG_EBX:
	case X86_REG_BX:
	case X86_REG_BL:
	case X86_REG_BH:
		return 10;
	case X86_REG_R12:
	case X86_REG_R12D:
	case X86_REG_R12W:
	case X86_REG_R12B:
		return 11;
	case X86_REG_R13:
	case X86_REG_R13D:
	case X86_REG_R13W:
	case X86_REG_R13B:
		return 12;
	case X86_REG_R14:
	case X86_REG_R14D:
	case X86_REG_R14W:
	case X86_REG_R14B:
		return 13;
	case X86_REG_R15:
	case X86_REG_R15D:
	case X86_REG_R15W:
	case X86_REG_R15B:
		return 14;
	case X86_REG_RBP:
	case X86_REG_EBP:
	case X86_REG_BP:
	case X86_REG_BPL:
		return DECODE_RBP;
	case X86_REG_RSP:
	case X86_REG_ESP:
	case X86_REG_SP:
	case X86_REG_SPL:
		return DECODE_RSP;
	default:
		return 0;
	}
}

bool decode__only_compares(unsigned int id)
{
	return id == X86_INS_CMP || id == X86_INS_TEST || id == X86_INS_NOP;
}
