// SPDX-License-Identifier: BSD-2-Clause
#include "elf/exits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/decode.h"

#define MAX_INSNS  16384 /* at most this many instructions of a function are followed */
#define SEEN_SLOTS (2 * MAX_INSNS)
#define MAX_MOVES  8 /* a function that passes its call on has at most this many moves */

struct walk {
	struct elf_image *image;
	const struct unwind_table *table;
	struct decoder decoder;
	uint64_t *seen; /* hash table with open addressing; an entry is a vaddr + 1 */
	size_t n_seen;
	uint64_t *todo;
	size_t n_todo;
	struct exits *exits;
};

static int __attribute__((format(printf, 2, 3))) refuse(struct walk *w, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(w->exits->why, sizeof(w->exits->why), fmt, args);
	va_end(args);
	return -ENOTSUP;
}

/* Adds vaddr to the hash table. 1: vaddr is new; 0: it was seen before; negative errno: too many
 * instructions. */
static int see(struct walk *w, uint64_t vaddr)
{
	size_t i = (vaddr * 0x9e3779b97f4a7c15ull) >> 32 & (SEEN_SLOTS - 1);

	for (; w->seen[i]; i = (i + 1) & (SEEN_SLOTS - 1))
		if (w->seen[i] == vaddr + 1)
			return 0;
	if (w->n_seen == MAX_INSNS)
		return refuse(w, "more than %d instructions", MAX_INSNS);
	w->seen[i] = vaddr + 1;
	w->n_seen++;
	return 1;
}

static int add_exit(struct walk *w, uint64_t vaddr, uint32_t rule)
{
	if (UNWIND_RULE_KIND(rule) != UNWIND_SP || UNWIND_RULE_CFA_OFF(rule) != 8)
		return refuse(w, "the unwind table sees no return address at the ret of %#llx",
			      (unsigned long long)vaddr);
	if (w->exits->n == EXITS_MAX)
		return refuse(w, "more than %d ret instructions", EXITS_MAX);
	w->exits->vaddrs[w->exits->n++] = vaddr;
	return 0;
}

/* Finds the target of an indirect jump. modrm: the bytes behind its opcode ff; next: the address
 * behind the jump. */
static int slot_target(struct elf_image *image, const uint8_t *modrm, uint64_t next,
		       uint64_t *ret_vaddr)
{
	int32_t rel;

	if (*modrm != 0x25) /* jmp *rel(%rip) */
		return -ENOENT;
	memcpy(&rel, modrm + 1, sizeof(rel));
	return elf_image__slot_function(image, next + (uint64_t)(int64_t)rel, ret_vaddr);
}

enum step { STEP_ON, STEP_CALLED, STEP_END };

/* Handles one instruction. If the instruction can jump, adds the jump's target to the list w->todo.
 * Returns an enum step, or negative errno. */
static int step(struct walk *w, uint64_t vaddr, uint32_t rule, size_t *ret_len)
{
	uint8_t code[MAX_INSN_LEN + 5] = {0}; /* zeroes behind the end */
	long len = elf_image__read_code(w->image, vaddr, code, MAX_INSN_LEN);
	const uint8_t *opcode;
	uint64_t target;
	int64_t rel;

	if (len <= 0 || !decoder__decode(&w->decoder, code, (size_t)len, 0, vaddr))
		return refuse(w, "the instruction at %#llx does not decode",
			      (unsigned long long)vaddr);
	*ret_len = w->decoder.insn->size;
	opcode = code + w->decoder.opcode_off;
	switch (opcode[0]) {
	case 0xc2: /* ret */
	case 0xc3:
		return add_exit(w, vaddr, rule) ?: STEP_END;
	case 0xca: /* far ret, iret */
	case 0xcb:
	case 0xcf:
		return refuse(w, "%.24s at %#llx", w->decoder.insn->mnemonic,
			      (unsigned long long)vaddr);
	case 0xcc: /* int3, hlt: the end of a path that is never taken */
	case 0xf4:
		return STEP_END;
	case 0x0f:
		if (opcode[1] == 0x0b) /* ud2 */
			return STEP_END;
		break;
	case 0xe8:
		return STEP_CALLED;
	case 0xff:
		switch (opcode[1] >> 3 & 7) {
		case 2:
			return STEP_CALLED;
		case 4:
			if (slot_target(w->image, opcode + 1, vaddr + *ret_len, &target))
				return refuse(w, "a jump to an unknown place at %#llx",
					      (unsigned long long)vaddr);
			w->todo[w->n_todo++] = target;
			return STEP_END;
		case 3:
		case 5:
			return refuse(w, "a far branch at %#llx", (unsigned long long)vaddr);
		}
		break;
	}
	if (!decode__branch(opcode, MAX_INSN_LEN, &rel))
		return STEP_ON;
	w->todo[w->n_todo++] = vaddr + w->decoder.opcode_off + (uint64_t)rel;
	return opcode[0] == 0xeb || opcode[0] == 0xe9 ? STEP_END : STEP_ON;
}

static int follow(struct walk *w, uint64_t vaddr)
{
	bool called = false;

	for (;;) {
		uint32_t rule = unwind_table__find(w->table, vaddr);
		size_t len = 0;
		int rc;

		if (UNWIND_RULE_KIND(rule) == UNWIND_NONE) {
			if (called) /* the call does not return: the code ends here */
				return 0;
			return refuse(w, "no unwind information at %#llx",
				      (unsigned long long)vaddr);
		}
		rc = see(w, vaddr);
		if (rc <= 0)
			return rc;
		rc = step(w, vaddr, rule, &len);
		if (rc < 0)
			return rc;
		if (rc == STEP_END)
			return 0;
		called = rc == STEP_CALLED;
		vaddr += len;
	}
}

int exits__find(struct elf_image *image, const struct unwind_table *table, uint64_t vaddr,
		struct exits *ret)
{
	_cleanup_free_ uint64_t *seen = calloc(SEEN_SLOTS, sizeof(*seen));
	/* each instruction adds at most one target to `todo` */
	_cleanup_free_ uint64_t *todo = malloc((MAX_INSNS + 1) * sizeof(*todo));
	struct walk w = {.image = image, .table = table, .seen = seen, .todo = todo, .exits = ret};
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (!seen || !todo)
		return -ENOMEM;
	rc = decoder__open(&w.decoder);
	todo[w.n_todo++] = vaddr;
	while (!rc && w.n_todo)
		rc = follow(&w, todo[--w.n_todo]);
	decoder__close(&w.decoder);
	if (!rc && !ret->n)
		rc = refuse(&w, "it has no ret instruction");
	if (rc)
		ret->n = 0;
	return rc;
}

/* Returns the vaddr of the code to which the function at vaddr passes its call on; 0: the function
 * does not pass it on. */
static uint64_t hand_over(struct elf_image *image, struct decoder *decoder, uint64_t vaddr)
{
	for (int i = 0; i <= MAX_MOVES; i++) {
		uint8_t code[MAX_INSN_LEN + 5] = {0};
		long len = elf_image__read_code(image, vaddr, code, MAX_INSN_LEN);
		const uint8_t *opcode;
		uint64_t target;
		int64_t rel;

		if (len <= 0 || !decoder__decode(decoder, code, (size_t)len, 0, vaddr))
			return 0;
		opcode = code + decoder->opcode_off;
		if (opcode[0] == 0xeb || opcode[0] == 0xe9) {
			if (!decode__branch(opcode, MAX_INSN_LEN, &rel))
				return 0;
			return vaddr + decoder->opcode_off + (uint64_t)rel;
		}
		vaddr += decoder->insn->size;
		if (opcode[0] == 0xff)
			return slot_target(image, opcode + 1, vaddr, &target) ? 0 : target;
		switch (decoder->insn->id) {
		case X86_INS_ENDBR64:
		case X86_INS_NOP:
		case X86_INS_MOV:
		case X86_INS_XOR:
			break;
		default:
			return 0;
		}
	}
	return 0;
}

size_t exits__hand_over(struct elf_image *image, uint64_t vaddr, uint64_t *ret_vaddrs, size_t max)
{
	struct decoder decoder = {0};
	size_t n = 0;

	if (decoder__open(&decoder))
		return 0;
	while (n < max) {
		vaddr = hand_over(image, &decoder, vaddr);
		if (!vaddr)
			break;
		ret_vaddrs[n++] = vaddr;
	}
	decoder__close(&decoder);
	return n;
}
