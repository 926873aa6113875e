// SPDX-License-Identifier: BSD-2-Clause
#include "elf/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

static const struct flow_place nowhere;

int flow__open(struct flow *flow, const struct elf_image *image)
{
	*flow = (struct flow){.image = image};
	return decoder__open(&flow->decoder);
}

void flow__close(struct flow *flow)
{
	decoder__close(&flow->decoder);
	free(flow->origins);
}

/* Makes a new unknown value. origin: the place from which the value was loaded. 0 or -ENOMEM. */
static int make_value(struct flow *flow, struct flow_place origin, struct flow_value *ret)
{
	if (VECTOR_ADD_ROOM(flow->origins, flow->n_origins))
		return -ENOMEM;
	*ret = (struct flow_value){.id = (uint32_t)flow->n_origins};
	flow->origins[flow->n_origins++] = origin;
	return 0;
}

int flow__begin(struct flow *flow, bool forget, struct flow_registers *ret)
{
	struct flow_value none;
	int rc = 0;

	if (forget)
		flow->n_origins = 0;
	if (!flow->n_origins) /* FLOW_NUMBER */
		rc = make_value(flow, nowhere, &none);
	for (size_t i = 1; i <= DECODE_RSP && !rc; i++)
		rc = make_value(flow, nowhere, &ret->of[i]);
	return rc;
}

struct flow_place flow__origin(const struct flow *flow, struct flow_value value)
{
	if (value.id >= flow->n_origins || value.off)
		return (struct flow_place){};
	return flow->origins[value.id];
}

unsigned int flow__holder(const struct flow_registers *registers, struct flow_value value)
{
	for (unsigned int i = 1; i <= DECODE_RSP; i++)
		if (flow_value__equal(registers->of[i], value))
			return i;
	return 0;
}

static struct flow_place memory_of(const cs_insn *insn, const cs_x86_op *op,
				   const struct flow_registers *registers)
{
	const x86_op_mem *mem = &op->mem;
	unsigned int base = decode__register(mem->base);
	struct flow_place place = {.vaddr = insn->address, .bytes = op->size};

	if (mem->segment != X86_REG_INVALID)
		return (struct flow_place){};
	if (mem->base == X86_REG_RIP)
		place.at.off = insn->address + insn->size;
	else if (base)
		place.at = registers->of[base];
	else if (mem->base != X86_REG_INVALID)
		return (struct flow_place){};
	place.at.off += (uint64_t)mem->disp;
	place.indexed = mem->index != X86_REG_INVALID;
	return place;
}

static bool is_register(const cs_x86_op *op)
{
	return op->type == X86_OP_REG && decode__register(op->reg);
}

/* Finds the value of an operand that is a whole register or a number. False: it is neither. */
static bool value_of(const cs_x86_op *op, const struct flow_registers *registers,
		     struct flow_value *ret)
{
	if (op->type == X86_OP_IMM)
		*ret = (struct flow_value){FLOW_NUMBER, (uint64_t)op->imm};
	else if (is_register(op) && op->size == 8)
		*ret = registers->of[decode__register(op->reg)];
	else
		return false;
	return true;
}

/* Finds the instruction's result, if it is a moved operand, or a calculation that flow_value can
 * express. False: the result is unknown. Operands are in AT&T order: the destination is the last
 * one. */
static bool result_of(const cs_insn *insn, const struct flow_registers *registers,
		      const struct flow_effect *effect, struct flow_value *ret)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *from = &x86->operands[0], *to = &x86->operands[1];
	struct flow_value number;
	struct flow_place place;

	if (x86->op_count != 2)
		return false;
	switch (insn->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		if (from->type == X86_OP_MEM) {
			*ret = effect->loaded;
			return true;
		}
		/* a move to the lower half of a register sets the upper half to 0 */
		if (from->type == X86_OP_IMM && to->size == 4) {
			*ret = (struct flow_value){FLOW_NUMBER, (uint32_t)from->imm};
			return true;
		}
		return to->size == 8 && value_of(from, registers, ret);
	case X86_INS_LEA:
		place = memory_of(insn, from, registers);
		*ret = place.at;
		return to->size == 8 && !place.indexed;
	case X86_INS_ADD:
	case X86_INS_SUB:
		if (to->size != 8 || from->type != X86_OP_IMM || !value_of(to, registers, ret) ||
		    !value_of(from, registers, &number))
			return false;
		ret->off += insn->id == X86_INS_ADD ? number.off : -number.off;
		return true;
	default:
		return false;
	}
}

/* Records what the instruction loads and stores. 0 or -ENOMEM. */
static int touch_memory(struct flow *flow, const cs_insn *insn,
			const struct flow_registers *registers, struct flow_effect *effect)
{
	const cs_x86 *x86 = &insn->detail->x86;
	bool moves = insn->id == X86_INS_MOV || insn->id == X86_INS_MOVABS;

	if (insn->id == X86_INS_LEA || insn->id == X86_INS_NOP)
		return 0;
	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		bool last = i + 1 == x86->op_count;
		struct flow_place place;

		if (op->type != X86_OP_MEM)
			continue;
		place = memory_of(insn, op, registers);
		if (moves ? !last : op->access & CS_AC_READ || decode__only_compares(insn->id)) {
			effect->load = place;
			if (make_value(flow, place, &effect->loaded))
				return -ENOMEM;
		}
		if (moves ? last : op->access & CS_AC_WRITE) {
			effect->store = place;
			if (!(moves && value_of(&x86->operands[0], registers, &effect->stored)) &&
			    make_value(flow, nowhere, &effect->stored))
				return -ENOMEM;
		}
	}
	return 0;
}

/* Gives a new unknown value to each register that the instruction writes. 0; -ENOEXEC: Capstone
 * does not know these registers; -ENOMEM. */
static int forget_written(struct flow *flow, const cs_insn *insn, struct flow_registers *registers)
{
	const cs_x86 *x86 = &insn->detail->x86;
	cs_regs read, written;
	uint8_t n_read, n_written;

	if (cs_regs_access(flow->decoder.handle, insn, read, &n_read, written, &n_written))
		return -ENOEXEC;
	if (x86->op_count && x86->operands[x86->op_count - 1].type == X86_OP_REG &&
	    !decode__only_compares(insn->id) && insn->id != X86_INS_PUSH)
		written[n_written++] = (uint16_t)x86->operands[x86->op_count - 1].reg;
	for (uint8_t i = 0; i < n_written; i++) {
		unsigned int reg = decode__register(written[i]);

		if (reg && make_value(flow, nowhere, &registers->of[reg]))
			return -ENOMEM;
	}
	return 0;
}

/* Follows the stack pointer through a push, a pop, and a call that returns. before: the stack
 * pointer before the instruction. 0 or -ENOMEM. */
static int follow_stack(struct flow *flow, const cs_insn *insn, struct flow_value before,
			struct flow_registers *registers, struct flow_effect *effect)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];

	if (insn->id == X86_INS_CALL || insn->id == X86_INS_RET)
		registers->of[DECODE_RSP] = before;
	if (insn->detail->x86.op_count != 1 || op->size != 8)
		return 0;
	if (insn->id == X86_INS_PUSH) {
		before.off -= 8;
		effect->pushed = (struct flow_place){before, insn->address, false, 8};
		if (!value_of(op, registers, &effect->pushed_value) &&
		    make_value(flow, nowhere, &effect->pushed_value))
			return -ENOMEM;
		registers->of[DECODE_RSP] = before;
	} else if (insn->id == X86_INS_POP) {
		effect->popped = (struct flow_place){before, insn->address, false, 8};
		if (make_value(flow, effect->popped, &effect->popped_value))
			return -ENOMEM;
		if (is_register(op))
			registers->of[decode__register(op->reg)] = effect->popped_value;
		before.off += 8;
		registers->of[DECODE_RSP] = before;
	}
	return 0;
}

static void find_next(const cs_insn *insn, const uint8_t *opcode, size_t len,
		      struct flow_effect *effect)
{
	int64_t target;

	if (!decode__branch(opcode, len, &target)) {
		/* indirect branches, and all other instructions that leave the path */
		if (opcode[0] == 0xff && (opcode[1] >> 3 & 7) >= 2 && (opcode[1] >> 3 & 7) <= 5)
			effect->next = FLOW_END;
		effect->calls = effect->next == FLOW_END && insn->id == X86_INS_CALL;
		if (insn->id == X86_INS_RET || insn->id == X86_INS_HLT ||
		    insn->id == X86_INS_INT3 || insn->id == X86_INS_UD2 ||
		    insn->id == X86_INS_SYSCALL)
			effect->next = FLOW_END;
		return;
	}
	effect->target = insn->address + (uint64_t)(opcode - insn->bytes) + (uint64_t)target;
	effect->next = opcode[0] == 0xe8			? FLOW_END
		       : opcode[0] == 0xeb || opcode[0] == 0xe9 ? FLOW_JUMP
								: FLOW_BRANCH;
	effect->calls = effect->next == FLOW_END;
}

int flow__step(struct flow *flow, uint64_t vaddr, struct flow_registers *registers,
	       struct flow_effect *ret)
{
	uint8_t code[MAX_INSN_LEN + 5] = {0}; /* zeroes behind the end */
	long len = elf_image__read_code(flow->image, vaddr, code, MAX_INSN_LEN);
	const cs_insn *insn = flow->decoder.insn;
	struct flow_value result, stack = registers->of[DECODE_RSP];
	bool known;
	int rc;

	*ret = (struct flow_effect){};
	if (len <= 0 || !decoder__decode(&flow->decoder, code, (size_t)len, 0, vaddr))
		return -ENOEXEC;
	rc = touch_memory(flow, insn, registers, ret);
	if (rc)
		return rc;
	known = result_of(insn, registers, ret, &result);
	rc = forget_written(flow, insn, registers);
	if (rc)
		return rc;
	if (known && is_register(&insn->detail->x86.operands[1]))
		registers->of[decode__register(insn->detail->x86.operands[1].reg)] = result;
	rc = follow_stack(flow, insn, stack, registers, ret);
	if (rc)
		return rc;
	find_next(insn, insn->bytes + flow->decoder.opcode_off,
		  insn->size - flow->decoder.opcode_off, ret);
	ret->len = insn->size;
	return 0;
}

int flow__return(struct flow *flow, const struct flow_registers *before,
		 struct flow_registers *registers)
{
	for (unsigned int i = 1; i <= DECODE_RSP; i++) {
		registers->of[i] = before->of[i];
		if (i < FLOW_FIRST_PRESERVED && make_value(flow, nowhere, &registers->of[i]))
			return -ENOMEM;
	}
	return 0;
}
