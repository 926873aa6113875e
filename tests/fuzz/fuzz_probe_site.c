// SPDX-License-Identifier: BSD-2-Clause
/* Chooses the site of a probe in a function's bytes. The instructions that the probe was moved over
 * are decoded here again, by hand and without Capstone. This decoder knows only plain instructions:
 * the probe must not be moved over any others. The first byte of the input chooses the symbol's
 * size and the number of arguments. The rest is code. */
#include "fuzz.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <stdbool.h>

#include "elf/probe_site.h"

#define VADDR 0x401000

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10 };

/* The CPU's numbers of registers, indexed by the numbers that struct probe_site uses. */
static const uint8_t numbers[] = {0, RDI, RSI, RDX, RCX, R8, R9, RAX, R10, 11, RBX, 12, 13, 14, 15};

/* Returns which registers hold an argument after the instruction, if holders held it before. */
static uint32_t follow(uint32_t holders, const uint8_t *code, size_t len, uint32_t written)
{
	unsigned int reg, rm, from, to;
	bool copied;

	/* REX.W, mov r64,r64 in its two forms */
	if (len != 3 || (code[0] & 0xf8) != 0x48 || (code[1] != 0x89 && code[1] != 0x8b) ||
	    code[2] < 0xc0)
		return holders & ~written;
	reg = (code[2] >> 3 & 7) | (code[0] & 4) << 1;
	rm = (code[2] & 7) | (code[0] & 1) << 3;
	from = code[1] == 0x89 ? reg : rm;
	to = code[1] == 0x89 ? rm : reg;
	copied = holders & 1u << from;
	return (holders & ~written) | (copied ? 1u << to : 0);
}

struct insn {
	size_t len;	  /* 0: not a plain one */
	uint32_t written; /* general registers */
	bool stores;
};

struct bytes {
	const uint8_t *pos, *end;
	bool operand_size, address_size, f2, f3;
	uint8_t rex;
};

static uint8_t next(struct bytes *in)
{
	require(in->pos < in->end);
	return *in->pos++;
}

/* The operands of a ModRM byte. rm: the register number with REX, or -1 for memory. */
struct modrm {
	int rm, reg, extension;
};

static struct modrm take_modrm(struct bytes *in)
{
	uint8_t byte = next(in), mod = byte >> 6, rm = byte & 7;
	struct modrm ret = {.extension = byte >> 3 & 7};

	ret.reg = ret.extension | (in->rex & 4) << 1;
	if (mod == 3) {
		ret.rm = rm | (in->rex & 1) << 3;
		return ret;
	}
	ret.rm = -1;
	if (rm == 4 && (next(in) & 7) == 5 && mod == 0)
		in->pos += 4;
	in->pos += mod == 1 ? 1 : mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
	return ret;
}

static size_t imm(const struct bytes *in, bool byte)
{
	return byte ? 1 : in->operand_size && !(in->rex & 8) ? 2 : 4;
}

/* Records that a general register is written. byte: it is one of al, cl, ... or, without REX, ah,
 * ch, dh, bh. */
static void write_reg(struct insn *insn, const struct bytes *in, int reg, bool byte)
{
	insn->written |= 1u << (byte && !in->rex && reg >= 4 && reg < 8 ? reg - 4 : reg);
}

static void write_rm(struct insn *insn, const struct bytes *in, struct modrm modrm, bool byte)
{
	if (modrm.rm < 0)
		insn->stores = true;
	else
		write_reg(insn, in, modrm.rm, byte);
}

static bool two_byte(struct bytes *in, struct insn *insn)
{
	uint8_t op = next(in);
	struct modrm modrm;

	if (op == 0x1e) /* endbr64 */
		return in->f3 && next(in) == 0xfa;
	modrm = take_modrm(in);
	switch (op) {
	case 0x1f: /* nop */
		return true;
	case 0x10: /* movups */
	case 0x28: /* movaps */
	case 0x57: /* xorps */
		return !in->operand_size && !in->f2 && !in->f3;
	case 0x11:
	case 0x29:
		insn->stores = modrm.rm < 0;
		return !in->operand_size && !in->f2 && !in->f3;
	case 0x6e: /* movd, movq from a general register */
	case 0xef: /* pxor */
		return in->operand_size && !in->f2 && !in->f3;
	case 0x7e:
		if (in->f3) /* movq xmm, xmm */
			return !in->f2;
		write_rm(insn, in, modrm, false);
		return in->operand_size && !in->f2;
	case 0xd6:
		insn->stores = modrm.rm < 0;
		return in->operand_size && !in->f2 && !in->f3;
	case 0x6f: /* movdqa, movdqu */
		return (in->operand_size || in->f3) && !in->f2;
	case 0x7f:
		insn->stores = modrm.rm < 0;
		return (in->operand_size || in->f3) && !in->f2;
	case 0xb6: /* movzx, movsx */
	case 0xb7:
	case 0xbe:
	case 0xbf:
		write_reg(insn, in, modrm.reg, false);
		return !in->f2 && !in->f3;
	case 0xbc: /* bsf, bsr; tzcnt, lzcnt */
	case 0xbd:
		write_reg(insn, in, modrm.reg, false);
		return !in->f2;
	}
	return false;
}

static bool one_byte(struct bytes *in, uint8_t op, struct insn *insn)
{
	bool byte = !(op & 1);
	struct modrm modrm;

	if (op == 0x0f)
		return two_byte(in, insn);
	if (in->f2 || in->f3)
		return false;
	if (op < 0x40 && (op & 7) < 6) {
		int operation = op >> 3;

		if (operation == 2 || operation == 3) /* adc, sbb */
			return false;
		if ((op & 7) >= 4) {
			in->pos += imm(in, byte);
			if (operation != 7)
				write_reg(insn, in, RAX, false);
			return true;
		}
		modrm = take_modrm(in);
		if (operation == 7)
			return true;
		if (op & 2)
			write_reg(insn, in, modrm.reg, byte);
		else
			write_rm(insn, in, modrm, byte);
		return true;
	}
	switch (op) {
	case 0x63: /* movsxd */
		write_reg(insn, in, take_modrm(in).reg, false);
		return true;
	case 0x80:
	case 0x81:
	case 0x83:
		modrm = take_modrm(in);
		in->pos += imm(in, op != 0x81);
		if (modrm.extension != 7)
			write_rm(insn, in, modrm, byte);
		return modrm.extension != 2 && modrm.extension != 3;
	case 0x84: /* test */
	case 0x85:
		take_modrm(in);
		return true;
	case 0x88: /* mov */
	case 0x89:
		write_rm(insn, in, take_modrm(in), byte);
		return true;
	case 0x8a:
	case 0x8b:
		write_reg(insn, in, take_modrm(in).reg, byte);
		return true;
	case 0x8d: /* lea */
		modrm = take_modrm(in);
		write_reg(insn, in, modrm.reg, false);
		return modrm.rm < 0;
	case 0x90:
		return !(in->rex & 1);
	case 0xa0: /* mov with an absolute address */
	case 0xa1:
		in->pos += in->address_size ? 4 : 8;
		write_reg(insn, in, RAX, false);
		return true;
	case 0xa8: /* test */
	case 0xa9:
		in->pos += imm(in, byte);
		return true;
	case 0xb0 ... 0xb7: /* mov */
		in->pos++;
		write_reg(insn, in, (op & 7) | (in->rex & 1) << 3, true);
		return true;
	case 0xb8 ... 0xbf:
		in->pos += in->rex & 8 ? 8 : imm(in, false);
		write_reg(insn, in, (op & 7) | (in->rex & 1) << 3, false);
		return true;
	case 0xc0: /* shl, shr, sar */
	case 0xc1:
	case 0xd0 ... 0xd3:
		modrm = take_modrm(in);
		in->pos += op < 0xd0;
		write_rm(insn, in, modrm, byte);
		return modrm.extension >= 4;
	case 0xc6: /* mov */
	case 0xc7:
		modrm = take_modrm(in);
		in->pos += imm(in, byte);
		write_rm(insn, in, modrm, byte);
		return modrm.extension == 0;
	case 0xf6: /* test, not, neg */
	case 0xf7:
		modrm = take_modrm(in);
		if (modrm.extension < 2)
			in->pos += imm(in, byte);
		else
			write_rm(insn, in, modrm, byte);
		return modrm.extension < 4;
	case 0xfe: /* inc, dec */
	case 0xff:
		modrm = take_modrm(in);
		write_rm(insn, in, modrm, byte);
		return modrm.extension < 2;
	}
	return false;
}

static struct insn plain(const uint8_t *code, size_t len)
{
	struct bytes in = {code, code + len, .rex = 0};
	struct insn insn = {0};

	for (;;) {
		uint8_t byte = next(&in);

		switch (byte) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			continue;
		case 0x66:
			in.operand_size = true;
			continue;
		case 0x67:
			in.address_size = true;
			continue;
		case 0xf2:
			in.f2 = true;
			continue;
		case 0xf3:
			in.f3 = true;
			continue;
		}
		if ((byte & 0xf0) == 0x40) { /* must be the last prefix */
			in.rex = byte;
			byte = next(&in);
		}
		if (one_byte(&in, byte, &insn) && in.pos <= in.end && in.pos - code <= 15)
			insn.len = (size_t)(in.pos - code);
		return insn;
	}
}

/* The length of the instruction at code, if every kernel emulates it; else 0. long_nop() is the
 * same for a multi-byte nop. */
static size_t emulated(const uint8_t *code, size_t len)
{
	size_t n;

	switch (code[0]) {
	case 0x90:
	case 0x50 ... 0x57:
		n = 1;
		break;
	case 0x41:
		n = len >= 2 && code[1] >= 0x50 && code[1] <= 0x57 ? 2 : 0;
		break;
	case 0x70 ... 0x7f:
	case 0xeb:
		n = 2;
		break;
	case 0xe8:
	case 0xe9:
		n = 5;
		break;
	case 0x0f:
		n = len >= 2 && code[1] >= 0x80 && code[1] <= 0x8f ? 6 : 0;
		break;
	default:
		n = 0;
	}
	return n <= len ? n : 0;
}

static size_t long_nop(const uint8_t *code, size_t len)
{
	size_t at = 0;

	while (at < len && code[at] == 0x66)
		at++;
	if (at && at < len && code[at] == 0x90)
		return at + 1;
	if (len - at < 3 || code[at] != 0x0f || code[at + 1] != 0x1f || code[at + 2] >= 0xc0 ||
	    (code[at + 2] & 0x38))
		return 0;
	return plain(code, len).len;
}

/* Rule 2 of elf/probe_site.h: as far as the function decodes, none of its branches leads to a place
 * between its entry and `end`. */
static void check_branches(const uint8_t *code, size_t size, size_t end)
{
	const uint8_t *pos = code;
	uint64_t addr = VADDR;
	cs_insn *insn;
	csh handle;

	require(cs_open(CS_ARCH_X86, CS_MODE_64, &handle) == CS_ERR_OK);
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	insn = cs_malloc(handle);
	require(insn);
	while (cs_disasm_iter(handle, &pos, &size, &addr, insn)) {
		const cs_x86 *x86 = &insn->detail->x86;

		/* with an operand size prefix, a branch's effect depends on the CPU's maker */
		if (memchr(insn->bytes, 0x66, insn->size))
			break;
		if (!cs_insn_group(handle, insn, X86_GRP_BRANCH_RELATIVE) &&
		    !cs_insn_group(handle, insn, X86_GRP_JUMP) &&
		    !cs_insn_group(handle, insn, X86_GRP_CALL))
			continue;
		for (int i = 0; i < x86->op_count; i++)
			require(x86->operands[i].type != X86_OP_IMM ||
				(uint64_t)x86->operands[i].imm <= VADDR ||
				(uint64_t)x86->operands[i].imm >= VADDR + end);
	}
	cs_free(insn, 1);
	cs_close(&handle);
}

static void check(const struct probe_site *site, const uint8_t *code, size_t len, uint64_t size,
		  unsigned int n_args)
{
	size_t off = 0, n = emulated(code + site->delta, len - site->delta);
	uint32_t holders[PROBE_SITE_ALL_ARGS];

	require(site->delta < len);
	require(memchr(site->instruction, '\0', sizeof(site->instruction)) && site->instruction[0]);
	require(memchr(site->why, '\0', sizeof(site->why)));
	require(site->emulated || site->nop || !site->delta);
	require(!site->emulated || n);
	if (site->nop)
		n = long_nop(code + site->delta, len - site->delta);
	require(!site->nop || n);
	for (unsigned int i = 0; i < n_args; i++)
		holders[i] = 1u << numbers[i + 1];
	for (unsigned int i = 0; i < PROBE_SITE_ALL_ARGS; i++)
		require(i < n_args ? site->args[i] && site->args[i] < sizeof(numbers)
				   : !site->args[i]);
	for (unsigned int i = 0; i < n_args && !site->delta; i++)
		require(site->args[i] == i + 1);
	if (!site->delta)
		return;
	require(size && size <= len && site->delta + n <= size);
	while (off < site->delta) {
		struct insn insn = plain(code + off, size - off);

		require(insn.len && !insn.stores && !(insn.written & (1u << RSP | 1u << RBP)));
		for (unsigned int i = 0; i < n_args; i++)
			holders[i] = follow(holders[i], code + off, insn.len, insn.written);
		off += insn.len;
	}
	require(off == site->delta);
	for (unsigned int i = 0; i < n_args; i++)
		require(holders[i] & 1u << numbers[site->args[i]]);
	check_branches(code, size, site->delta + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	uint8_t how = (uint8_t)fuzz_take(&in, 1);
	size_t len = (size_t)(in.end - in.pos);
	uint64_t sizes[] = {len, 0, len + 1 + how / 8, len > how / 8u ? len - how / 8u : 0};
	uint64_t symbol_size = sizes[how % 4];
	uint8_t *code = fuzz_copy(in.pos, len);
	unsigned int n_args = PROBE_SITE_ALL_ARGS - (how >> 5) % (PROBE_SITE_ALL_ARGS + 1);
	struct probe_site site;
	int ret = probe_site__choose(code, len, VADDR, symbol_size, n_args, &site);

	require(!ret || ret == -EINVAL);
	if (!ret)
		check(&site, code, len, symbol_size, n_args);
	else
		require(site.why[0]);
	free(code);
	return 0;
}
