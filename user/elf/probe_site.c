// SPDX-License-Identifier: BSD-2-Clause
/* Moves a probe away from a function's first instruction. This comment says how the code shows that
 * each rule of probe_site.h holds.
 *
 * Capstone 4.0.2 says where instructions begin and end and what they are. Capstone is trusted no
 * further than needed:
 *
 *   - Only a fixed list of plain instructions (moves, arithmetic, tests) may be passed over.
 *     No other instruction is passed over, even if Capstone says that it is no branch. The
 *     register that a plain instruction writes is its destination operand. Neither this operand
 *     nor Capstone's list of written registers may contain rsp, rbp or a special register
 *     (segment, control, debug, x87, ...).
 *   - An instruction that stores to memory is never passed over. The store could hit the return
 *     address. It could also hit the red zone below rsp: the trampoline of an optimized probe
 *     (Linux 6.18, 5-byte nop) pushes values there.
 *   - The bytes of an instruction decide if the kernel emulates it. The only prefix allowed is one
 *     REX.B, because all kernels agree on instructions without other prefixes. (The kernel refuses
 *   a 0x66 before a branch, and Intel and AMD even disagree on such a branch's length. The kernel
 *   refuses es/cs/ss/ds and lock prefixes on any instruction. So a "cs nopw" is not a place for a
 *   probe.)
 *
 * Rule 2, no way in from the side, needs all direct branches of the function. They are collected
 * while the function is decoded from entry to end. Capstone may meet an instruction that it does
 * not know (rdssp, tpause, newer AVX-512), or a jump table inside the code. Behind it, Capstone
 * does not know where instructions begin. From there on, each byte counts as the possible start of
 * a branch. The branches found then include all true branches. So a proof that succeeds is still
 * valid, but fewer proofs succeed. The instructions up to the probe are not affected. The path to
 * the probe starts at the entry and is straight, so the decoder sees the same instructions there as
 * the CPU.
 *
 * An indirect jump (a switch) could in theory also lead back into the first bytes. But compilers
 * put no jump-table target there. The reason: a target starts a basic block, and the function's
 * first basic block is only reached through the function's entry. For the same reason, other
 * functions and the cold part of this one do not jump to a place a few bytes behind the entry. */
#include "elf/probe_site.h"

#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/decode.h"

#define MAX_SIZE (1u << 20) /* a larger function is not worth decoding */

/* Returns the length of the instruction at code if every kernel emulates it, else 0. */
static size_t emulated_length(const uint8_t *code, size_t len)
{
	int64_t target;

	if (len == 0)
		return 0;
	switch (code[0]) {
	case 0x90:	    /* nop */
	case 0x50 ... 0x57: /* push r64 */
		return 1;
	case 0x41: /* push r8..r15 */
		return len >= 2 && code[1] >= 0x50 && code[1] <= 0x57 ? 2 : 0;
	case 0xc7: /* direct branches that branch_setup_ops() does not know */
	case 0xe0 ... 0xe3:
		return 0;
	default:
		return decode__branch(code, len, &target);
	}
}

/* Returns the length of the multi-byte nop at code, or 0. Such nops are "66 90" and "0f 1f /0" with
 * a memory operand, both with any number of 0x66 before them. */
static size_t nop_length(const uint8_t *code, size_t len)
{
	size_t pos = 0, total;
	uint8_t modrm, mod, rm;

	while (pos < len && code[pos] == 0x66)
		pos++;
	if (pos > 0 && pos < len && code[pos] == 0x90)
		return pos + 1 <= MAX_INSN_LEN ? pos + 1 : 0;
	if (len - pos < 3 || code[pos] != 0x0f || code[pos + 1] != 0x1f)
		return 0;
	modrm = code[pos + 2];
	mod = modrm >> 6;
	rm = modrm & 7;
	if ((modrm >> 3 & 7) != 0 || mod == 3)
		return 0;
	total = pos + 3;
	if (rm == 4) {
		if (total == len)
			return 0;
		if (mod == 0 && (code[total] & 7) == 5)
			total += 4;
		total++;
	}
	if (mod == 1)
		total += 1;
	else if (mod == 2 || rm == 5)
		total += 4;
	return total <= len && total <= MAX_INSN_LEN ? total : 0;
}

bool probe_site__is_emulated(const uint8_t *code, size_t len)
{
	return emulated_length(code, len) > 0;
}

enum reg_use { REG_OTHER, REG_SCRATCH, REG_FRAME };

/* Is reg a general register in its full 64 bits, but not rsp or rbp? */
static bool is_whole(unsigned int reg)
{
	switch (reg) {
	case X86_REG_RDI:
	case X86_REG_RSI:
	case X86_REG_RDX:
	case X86_REG_RCX:
	case X86_REG_RAX:
	case X86_REG_RBX:
	case X86_REG_R8 ... X86_REG_R15:
		return true;
	default:
		return false;
	}
}

static enum reg_use reg_use(unsigned int reg)
{
	unsigned int number = decode__register(reg);

	if (number)
		return number >= DECODE_RBP ? REG_FRAME : REG_SCRATCH;
	switch (reg) {
	case X86_REG_XMM0 ... X86_REG_XMM15:
	case X86_REG_EFLAGS:
		return REG_SCRATCH;
	default: /* segment, control, debug, x87, ...: not in a prologue */
		return REG_OTHER;
	}
}

static bool is_plain(unsigned int id)
{
	switch (id) {
	case X86_INS_ENDBR64:
	case X86_INS_NOP:
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
	case X86_INS_LEA:
	case X86_INS_ADD:
	case X86_INS_SUB:
	case X86_INS_AND:
	case X86_INS_OR:
	case X86_INS_XOR:
	case X86_INS_NOT:
	case X86_INS_NEG:
	case X86_INS_INC:
	case X86_INS_DEC:
	case X86_INS_SHL:
	case X86_INS_SHR:
	case X86_INS_SAR:
	case X86_INS_BSF:
	case X86_INS_BSR:
	case X86_INS_LZCNT:
	case X86_INS_TZCNT:
	case X86_INS_PXOR:
	case X86_INS_XORPS:
	case X86_INS_MOVD:
	case X86_INS_MOVQ:
	case X86_INS_MOVAPS:
	case X86_INS_MOVUPS:
	case X86_INS_MOVDQA:
	case X86_INS_MOVDQU:
		return true;
	default:
		return false;
	}
}

static const char *bad_write(unsigned int reg)
{
	switch (reg_use(reg)) {
	case REG_FRAME:
		return "it writes rsp or rbp";
	case REG_OTHER:
		return "it is not a plain instruction";
	default:
		return NULL;
	}
}

/* Is the prefix f3 part of the opcode? Otherwise f3 changes the instruction or has no effect. */
static bool has_rep_form(const uint8_t *opcode)
{
	if (opcode[0] != 0x0f)
		return false;
	switch (opcode[1]) {
	case 0x1e: /* endbr64 */
	case 0x6f: /* movdqu */
	case 0x7e: /* movq */
	case 0x7f: /* movdqu */
	case 0xbc: /* tzcnt */
	case 0xbd: /* lzcnt */
		return true;
	default:
		return false;
	}
}

/* Does Capstone decode the bytes as a plainer instruction than the CPU does? Capstone takes an
 * illegal lock or rep prefix for a legal one, and all reserved nops (0f 18 .. 0f 1e; MPX and CET
 * use them) for plain nops. An address size prefix makes Capstone see a 66 that is not there, or
 * overlook one. Capstone then confuses MMX and SSE. Any other prefix behind a 66 may mislead
 * Capstone in the same way. */
static bool is_disguised(const cs_insn *insn)
{
	const uint8_t *opcode = insn->bytes;
	size_t n_prefixes = 0;
	bool rep = false;

	for (; decode__is_legacy_prefix(*opcode); opcode++, n_prefixes++) {
		if (*opcode == 0xf0 || *opcode == 0xf2 || *opcode == 0x67)
			return true;
		rep |= *opcode == 0xf3;
	}
	if (insn->id != X86_INS_NOP) {
		if (n_prefixes > 1)
			return true;
	} else if (opcode[0] != 0x90 && (opcode[0] != 0x0f || opcode[1] != 0x1f)) {
		return true;
	}
	opcode += decode__is_rex(*opcode);
	return rep && !has_rep_form(opcode);
}

/* For each argument that the probe reads: the mask of the registers that hold it (bit n: register
 * number n). */
struct holders {
	uint32_t of[PROBE_SITE_ALL_ARGS];
	unsigned int n_args;
};

/* Updates holders for an instruction that writes the registers of the mask `written` (rule 3).
 * Returns NULL, or why the instruction cannot be passed over. */
static const char *move_arguments(struct holders *holders, const cs_insn *insn, uint32_t written)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *from = &x86->operands[0], *to = &x86->operands[1];
	bool copies = insn->id == X86_INS_MOV && x86->op_count == 2 && from->type == X86_OP_REG &&
		      to->type == X86_OP_REG && is_whole(from->reg) && is_whole(to->reg);

	for (unsigned int i = 0; i < holders->n_args; i++) {
		bool copied = copies && holders->of[i] & 1u << decode__register(from->reg);

		holders->of[i] &= ~written;
		if (copied)
			holders->of[i] |= 1u << decode__register(to->reg);
		if (!holders->of[i])
			return "it writes an argument register";
	}
	return NULL;
}

/* Returns NULL when a probe may be moved beyond the decoded instruction (rules 1, 3, 4), else the
 * reason why not. Updates holders to the registers that hold the arguments behind the
 * instruction. */
static const char *why_not_passed(const struct decoder *decoder, struct holders *holders)
{
	const cs_insn *insn = decoder->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	uint8_t n_read = 0, n_written = 0;
	uint32_t general = 0;
	cs_regs read, written;

	if (!is_plain(insn->id) || is_disguised(insn))
		return "it is not a plain instruction";
	if (cs_regs_access(decoder->handle, insn, read, &n_read, written, &n_written) != CS_ERR_OK)
		return "its effects are unknown";
	for (int i = 0; i < n_written; i++) {
		const char *why = bad_write(written[i]);

		if (why)
			return why;
		general |= 1u << decode__register(written[i]);
	}
	for (int i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		bool written_to = i == x86->op_count - 1 && !decode__only_compares(insn->id);

		if (op->type == X86_OP_MEM && written_to)
			return "it stores to memory";
		if (op->type == X86_OP_REG && reg_use(op->reg) == REG_OTHER)
			return "it is not a plain instruction";
		if (op->type == X86_OP_REG && written_to && bad_write(op->reg))
			return bad_write(op->reg);
		if (op->type == X86_OP_REG && written_to)
			general |= 1u << decode__register(op->reg);
	}
	return move_arguments(holders, insn, general);
}

/* What is known of the function's direct branches. lowest_target: the lowest branch target that is
 * behind the entry. */
struct body {
	uint64_t lowest_target;
	bool lost;	  /* Capstone does not know one of the instructions */
	size_t lost_at;	  /* offset of this unknown instruction */
	bool ends_inside; /* the unknown instruction probably reaches beyond the end */
};

static void note_branch(struct body *body, const uint8_t *code, size_t size, size_t off)
{
	int64_t target;

	if (decode__branch(code + off, size - off, &target) == 0)
		return;
	target += off;
	if (target > 0 && (uint64_t)target < body->lowest_target)
		body->lowest_target = target;
}

static struct body survey(struct decoder *decoder, const uint8_t *code, size_t size)
{
	struct body body = {.lowest_target = UINT64_MAX};
	size_t off = 0;

	/* A prefix before a branch does not change the branch's target ("bnd jmp", "jne,pt"). */
	while (off < size && decoder__decode(decoder, code, size, off, 0)) {
		size_t end = off + decoder->insn->size;

		note_branch(&body, code, end, decoder->opcode_off);
		off = end;
	}
	body.lost = off < size;
	body.lost_at = off;
	/* If fewer bytes are left than the longest instruction has, a wrong end of the function is
	 * more likely than an unknown instruction. */
	body.ends_inside = body.lost && size - off < MAX_INSN_LEN;
	for (; off < size; off++)
		note_branch(&body, code, size, off);
	return body;
}

static void __attribute__((format(printf, 2, 3)))
explain(struct probe_site *site, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(site->why, sizeof(site->why), fmt, args);
	va_end(args);
}

/* Makes the instruction at code + off the site of the probe. This instruction must be the one that
 * was decoded last. */
static void place(struct probe_site *site, const struct decoder *decoder, const uint8_t *code,
		  size_t len, size_t off)
{
	const cs_insn *insn = decoder->insn;

	site->delta = off;
	site->emulated = emulated_length(code + off, len - off) == insn->size;
	site->nop = nop_length(code + off, len - off) == insn->size;
	snprintf(site->instruction, sizeof(site->instruction), "%.24s%s%.38s", insn->mnemonic,
		 insn->op_str[0] ? " " : "", insn->op_str);
}

/* Do the rules about the function's body (2 and 5) allow a probe on the instruction at off, which
 * has insn_len bytes? If not, writes the reason to site. */
static bool body_allows(const struct body *body, size_t off, size_t insn_len,
			struct probe_site *site)
{
	if (body->ends_inside) {
		explain(site, "the last instruction reaches beyond the symbol's end, from +%#zx",
			body->lost_at);
		return false;
	}
	/* A jump to a later byte of the probed instruction is not allowed either: the kernel may
	 * rewrite a 5-byte nop as a whole. */
	if (body->lowest_target < off + insn_len) {
		explain(site, "a branch in the function %s to +%#llx",
			body->lost ? "may lead" : "leads", (unsigned long long)body->lowest_target);
		return false;
	}
	return true;
}

/* Writes to site which registers hold the arguments. An argument's own register is preferred if it
 * still holds the argument. */
static void put_arguments(struct probe_site *site, const struct holders *holders)
{
	for (unsigned int i = 0; i < holders->n_args; i++)
		site->args[i] = holders->of[i] & 1u << (i + 1)
					? (uint8_t)(i + 1)
					: (uint8_t)__builtin_ctz(holders->of[i]);
}

static int choose(struct decoder *decoder, const uint8_t *code, size_t len, uint64_t vaddr,
		  uint64_t size, unsigned int n_args, struct probe_site *site)
{
	size_t off = 0, site_off = 0, site_len = 0, nop_off = 0, nop_len = 0;
	struct holders holders = {.n_args = n_args}, at_nop = {};
	struct body body;

	for (unsigned int i = 0; i < PROBE_SITE_ALL_ARGS; i++)
		holders.of[i] = 1u << (i + 1);
	put_arguments(site, &holders);

	if (len == 0 || !decoder__decode(decoder, code, len, 0, vaddr)) {
		explain(site, "the first instruction does not decode");
		return -EINVAL;
	}
	if (decoder->insn->id == X86_INS_INT3) {
		explain(site, "a breakpoint stands on the first instruction");
		return -EINVAL;
	}
	place(site, decoder, code, len, 0);
	if (site->emulated)
		return 0;
	if (size == 0)
		explain(site, "the size of the function is unknown");
	else if (size > len)
		explain(site, "the file ends before the function does");
	else if (size > MAX_SIZE)
		explain(site, "the function is too large to be checked");
	if (site->why[0])
		return 0;

	/* Rules 1, 3 and 4: walk the straight path. */
	for (;;) {
		const char *why;

		if (off == size) {
			explain(site, "no emulated instruction before the function's end");
			break;
		}
		if (!decoder__decode(decoder, code, size, off, vaddr)) {
			explain(site, "the instruction at +%#zx does not decode", off);
			break;
		}
		if (emulated_length(code + off, size - off) == decoder->insn->size) {
			site_off = off;
			site_len = decoder->insn->size;
			break;
		}
		if (!nop_len && nop_length(code + off, size - off) == decoder->insn->size) {
			nop_off = off;
			nop_len = decoder->insn->size;
			at_nop = holders;
		}
		why = why_not_passed(decoder, &holders);
		if (why) {
			explain(site, "%.24s %.30s: %s", decoder->insn->mnemonic,
				decoder->insn->op_str, why);
			break;
		}
		off += decoder->insn->size;
	}

	/* Rules 2 and 5: check the rest of the function. */
	if (!site_len && !nop_len)
		return 0;
	body = survey(decoder, code, size);
	if (site_len && body_allows(&body, site_off, site_len, site)) {
		off = site_off;
		put_arguments(site, &holders);
	} else if (nop_len && body_allows(&body, nop_off, nop_len, site)) {
		off = nop_off;
		put_arguments(site, &at_nop);
	} else {
		return 0;
	}
	if (!decoder__decode(decoder, code, size, off, vaddr))
		return -EINVAL;
	place(site, decoder, code, size, off);
	return 0;
}

int probe_site__choose(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t size,
		       unsigned int n_args, struct probe_site *ret_site)
{
	_cleanup_(decoder__close) struct decoder decoder = {0};
	int err;

	*ret_site = (struct probe_site){0};
	err = decoder__open(&decoder);
	if (err)
		return err;
	return choose(&decoder, code, len, vaddr, size, n_args, ret_site);
}
