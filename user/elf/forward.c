// SPDX-License-Identifier: BSD-2-Clause
#include "elf/forward.h"

#include <errno.h>
#include <string.h>

#include "elf/decode.h"

#define MAX_INSNS 16
#define MAX_BODY  4096 /* at most this many bytes of a function are searched */

/* If the compiler made no copies, at most this many places of a file load the pointer. They are in
 * the function itself, and in code that replaces the table of allocators. Debian's python3.11 has
 * 22 such places, copies included. */
#define MAX_LOADS 4

/* What is known of a register: the place from which its value was loaded, or the address that it
 * holds. */
struct known {
	uint64_t loaded_from, address;
};

struct reading {
	struct known regs[X86_REG_ENDING];
	struct forward forward;
	bool forwards; /* the branch leads through the pointer */
};

/* Returns the vaddr of a memory operand; 0: the vaddr depends on a register. */
static uint64_t fixed_place(const cs_insn *insn, const x86_op_mem *mem)
{
	if (mem->segment != X86_REG_INVALID || mem->index != X86_REG_INVALID)
		return 0;
	if (mem->base == X86_REG_RIP)
		return insn->address + insn->size + (uint64_t)mem->disp;
	return mem->base == X86_REG_INVALID ? (uint64_t)mem->disp : 0;
}

/* Records where an indirect branch finds its target. */
static void note_branch(struct reading *r, const cs_insn *insn, const cs_x86_op *to)
{
	r->forwards = true;
	if (to->type == X86_OP_MEM)
		r->forward.slot = fixed_place(insn, &to->mem);
	else if (to->type == X86_OP_REG && to->reg < X86_REG_ENDING)
		r->forward.slot = r->regs[to->reg].loaded_from;
	else
		r->forwards = false;
}

/* Records a comparison of a loaded pointer with a function's address. */
static void note_compare(struct reading *r, const cs_x86_op *a, const cs_x86_op *b)
{
	const struct known *left, *right;

	if (b->type != X86_OP_REG || b->reg >= X86_REG_ENDING)
		return;
	left = &r->regs[b->reg];
	if (a->type == X86_OP_IMM) {
		r->forward.slot = left->loaded_from;
		r->forward.usual = (uint64_t)a->imm;
	} else if (a->type == X86_OP_REG && a->reg < X86_REG_ENDING) {
		right = &r->regs[a->reg];
		if (!left->loaded_from) {
			left = right;
			right = &r->regs[b->reg];
		}
		r->forward.slot = left->loaded_from;
		r->forward.usual = right->address;
	}
}

/* Records what a mov or lea puts into a register. Operands are in AT&T order: the destination is
 * the last one. */
static void note_move(struct reading *r, const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *from = &x86->operands[0], *to = &x86->operands[1];
	uint64_t place;

	if (x86->op_count != 2 || to->type != X86_OP_REG || to->reg >= X86_REG_ENDING)
		return;
	r->regs[to->reg] = (struct known){};
	if (from->type != X86_OP_MEM)
		return;
	place = fixed_place(insn, &from->mem);
	if (insn->id == X86_INS_LEA)
		r->regs[to->reg].address = place;
	else
		r->regs[to->reg].loaded_from = place;
}

/* Records an instruction. False: it ends the straight path. */
static bool note(struct reading *r, const cs_insn *insn, uint8_t opcode)
{
	const cs_x86 *x86 = &insn->detail->x86;

	switch (insn->id) {
	case X86_INS_JMP:
	case X86_INS_CALL:
		if (opcode == 0xff && x86->op_count == 1)
			note_branch(r, insn, &x86->operands[0]);
		return false;
	case X86_INS_CMP:
		if (x86->op_count == 2)
			note_compare(r, &x86->operands[0], &x86->operands[1]);
		return true;
	case X86_INS_MOV:
	case X86_INS_LEA:
		note_move(r, insn);
		return true;
	case X86_INS_PUSH:
	case X86_INS_SUB:
	case X86_INS_ENDBR64:
	case X86_INS_NOP:
		return true;
	default:
		return false;
	}
}

int forward__read(const struct elf_image *image, uint64_t vaddr, struct forward *ret)
{
	struct reading r = {};
	struct decoder decoder = {};

	if (decoder__open(&decoder)) {
		decoder__close(&decoder);
		return -ENOMEM;
	}
	for (int i = 0; i < MAX_INSNS; i++) {
		uint8_t code[MAX_INSN_LEN];
		long len = elf_image__read_code(image, vaddr, code, sizeof(code));

		if (len <= 0 || !decoder__decode(&decoder, code, (size_t)len, 0, vaddr) ||
		    !note(&r, decoder.insn, code[decoder.opcode_off]))
			break;
		vaddr += decoder.insn->size;
	}
	decoder__close(&decoder);
	if (!r.forwards && !(r.forward.slot && r.forward.usual))
		return -ENOENT;
	r.forward.copied = r.forward.usual ||
			   (r.forward.slot && elf_image__loads(image, r.forward.slot) > MAX_LOADS);
	*ret = r.forward;
	return 0;
}

static bool has_operand(const cs_insn *insn, uint64_t target)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];

		if (op->type == X86_OP_IMM && (uint64_t)op->imm == target)
			return true;
		if (op->type == X86_OP_MEM && fixed_place(insn, &op->mem) == target)
			return true;
	}
	return false;
}

bool forward__mentions(const struct elf_image *image, uint64_t vaddr, uint64_t size,
		       uint64_t target)
{
	const uint64_t end = vaddr + (size < MAX_BODY ? size : MAX_BODY);
	struct decoder decoder = {};
	bool found = decoder__open(&decoder) != 0;

	while (!found && vaddr < end) {
		uint8_t code[MAX_INSN_LEN];
		long len = elf_image__read_code(image, vaddr, code, sizeof(code));

		if (len <= 0 || !decoder__decode(&decoder, code, (size_t)len, 0, vaddr)) {
			found = true;
			break;
		}
		found = has_operand(decoder.insn, target);
		vaddr += decoder.insn->size;
	}
	decoder__close(&decoder);
	return found;
}
