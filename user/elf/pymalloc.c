// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pymalloc.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "elf/pymalloc_internal.h"

#define MAX_CODE     (64u << 20) /* bytes */
#define MAX_MENTIONS 4096
/* Work is counted in units. Handling one jump is one unit, and takes some 50 ns. SLICE units make a
 * slice of work. */
#define SLICE 20000
/* The lowest and the highest offset that the pointer to the state may have in the interpreter's
 * struct. Smaller offsets are mentioned everywhere in the code. */
#define MIN_STATE_OFF 0x200
#define MAX_STATE_OFF 0x100000

void finder__work(struct finder *f, size_t amount)
{
	f->n_slice += amount;
	if (f->n_slice < SLICE)
		return;
	f->n_slice = 0;
	if (f->meanwhile.fn)
		f->meanwhile.fn(f->meanwhile.ctx);
}

int finder__refuse(struct finder *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(f->ret->why, sizeof(f->ret->why), fmt, args);
	va_end(args);
	return -ENOTSUP;
}

/* --- the two variables --- */

/* Writes into data the addresses that the dynamic linker would write there (in position-independent
 * files). */
static int relocate(const struct elf_image *image, unsigned char *data, size_t size, uint64_t vaddr)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	size_t bytes_size;
	uint64_t at;
	int rc = elf_image__read_section(image, ".rela.dyn", &bytes, &bytes_size, &at);

	if (rc)
		return rc == -ENOMEM ? rc : 0;
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= bytes_size; i += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;

		memcpy(&rela, bytes + i, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE && rela.r_offset >= vaddr &&
		    size >= 8 && rela.r_offset - vaddr <= size - 8)
			memcpy(data + (rela.r_offset - vaddr), &rela.r_addend, 8);
	}
	return 0;
}

/* Do two words of data look like a pair of usedpools? Each pair points to itself: both words hold
 * the pair's address less 16, as if they were nextpool and prevpool of a pool. */
static bool is_pair(const unsigned char *data, uint64_t vaddr)
{
	uint64_t words[2];

	memcpy(words, data, sizeof(words));
	return words[0] == vaddr - NEXTPOOL && words[1] == words[0];
}

static int find_table(struct finder *f, const struct elf_image *image)
{
	_cleanup_free_ unsigned char *data = NULL;
	size_t size, n = 0;
	uint64_t vaddr;
	int rc = elf_image__read_section(image, ".data", &data, &size, &vaddr);

	if (!rc)
		rc = relocate(image, data, size, vaddr);
	if (rc == -ENOMEM)
		return rc;
	for (size_t at = 0; !rc && at + PYMALLOC_PAIR_BYTES <= size && n < PYMALLOC_CLASSES;) {
		if (is_pair(data + at, vaddr + at)) {
			n++;
			at += PYMALLOC_PAIR_BYTES;
			f->table_end = vaddr + at;
		} else {
			at = n ? at : at + 8;
			n = 0;
		}
	}
	if (n < PYMALLOC_CLASSES)
		return finder__refuse(f, "its table of pools is not known (usedpools)");
	f->table = f->table_end - PYMALLOC_CLASSES * PYMALLOC_PAIR_BYTES;
	return 0;
}

/* Does the load show that the tree is a part of a state's struct, and that a pointer in memory
 * leads to this struct? If so, records the offsets of the pointer and of the tree. */
static void learn_state(struct finder *f, const struct flow_place *load)
{
	struct flow_value root;
	struct flow_place pointer;

	if (!path__looks_up(&f->flow, load, &root) || root.id == FLOW_NUMBER)
		return;
	pointer = flow__origin(&f->flow, (struct flow_value){.id = root.id});
	if (pointer.bytes != 8 || pointer.indexed || pointer.at.id == FLOW_NUMBER ||
	    pointer.at.off < MIN_STATE_OFF || pointer.at.off > MAX_STATE_OFF)
		return;
	f->state_off = pointer.at.off;
	f->tree = root.off;
}

/* Makes all later walks follow the pointer to the state. 0 or -ENOMEM. */
static int follow(struct finder *f)
{
	f->follows = true;
	f->seen = calloc(PYMALLOC_SEEN, sizeof(*f->seen));
	return f->seen ? 0 : -ENOMEM;
}

/* Finds the state from the first instructions of the function that takes blocks back. 0; -ENOTSUP:
 * these instructions look up nothing in a state; -ENOMEM. */
static int find_state(struct finder *f, uint64_t free_function)
{
	struct flow_registers registers;
	struct flow_effect effect;
	int rc = flow__begin(&f->flow, true, &registers);

	for (int i = 0; i < MAX_PATH && !rc && !f->state_off; i++) {
		rc = flow__step(&f->flow, free_function, &registers, &effect);
		if (rc)
			break;
		learn_state(f, &effect.load);
		if (effect.next == FLOW_END)
			break;
		free_function =
			effect.next == FLOW_JUMP ? effect.target : free_function + effect.len;
	}
	if (rc == -ENOMEM || !f->state_off)
		return rc == -ENOMEM ? rc : -ENOTSUP; /* find_table() has already noted the
						       * reason */
	f->table_end = PYMALLOC_CLASSES * PYMALLOC_PAIR_BYTES;
	return follow(f);
}

/* --- mentions --- */

/* Does an operand of the instruction mention an address of [low, high)? */
static bool mentions(const cs_insn *insn, uint64_t low, uint64_t high)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		uint64_t value = (uint64_t)op->imm;

		if (op->type == X86_OP_MEM)
			value = (uint64_t)op->mem.disp +
				(op->mem.base == X86_REG_RIP ? insn->address + insn->size : 0);
		if (op->type != X86_OP_REG && value - low < high - low)
			return true;
	}
	return false;
}

/* Reads the instruction at vaddr of a function that ends at `end`. */
static int read_insn(struct finder *f, uint64_t vaddr, uint64_t end)
{
	uint8_t code[MAX_INSN_LEN];
	long len = elf_image__read_code(f->flow.image, vaddr, code, sizeof(code));

	if (len > 0 && (uint64_t)len > end - vaddr)
		len = (long)(end - vaddr);
	finder__work(f, DECODE_WORK);
	if (++f->n_decoded > MAX_DECODED)
		return finder__refuse(f, "its code takes too long to read");
	if (len <= 0 || !decoder__decode(&f->flow.decoder, code, (size_t)len, 0, vaddr))
		return finder__refuse(f, "the instruction at %#llx does not decode",
				      (unsigned long long)vaddr);
	return 0;
}

static void note_chunk(void *ctx)
{
	finder__work(ctx, SLICE);
}

/* Calls fn for each instruction that mentions an address of [low, high). */
static int each_mention(struct finder *f, uint64_t low, uint64_t high,
			int (*fn)(struct finder *f, uint64_t vaddr))
{
	_cleanup_free_ uint64_t *bytes = malloc(MAX_MENTIONS * sizeof(*bytes));
	uint64_t at = 0, end = 0;
	size_t n;
	int rc = 0;

	if (!bytes)
		return -ENOMEM;
	n = elf_image__mentions(f->flow.image, low, high, bytes, MAX_MENTIONS, note_chunk, f);
	if (n > MAX_MENTIONS)
		return finder__refuse(f, "its tables are mentioned more than %d times",
				      MAX_MENTIONS);
	for (size_t i = 0; i < n && !rc; i++) {
		/* decode each function from its start, and only once */
		if (bytes[i] >= end && functions__around(&f->functions, bytes[i], &at, &end))
			return finder__refuse(f, "the code at %#llx is of no known function",
					      (unsigned long long)bytes[i]);
		while (!rc && at <= bytes[i]) {
			uint64_t insn = at;

			rc = read_insn(f, at, end);
			if (rc)
				break;
			at += f->flow.decoder.insn->size;
			if (at > bytes[i] && mentions(f->flow.decoder.insn, low, high))
				rc = fn(f, insn);
		}
	}
	return rc;
}

/* Records that the function around vaddr begins pools. */
static int note_arena_code(struct finder *f, uint64_t vaddr)
{
	struct pymalloc *ret = f->ret;
	struct code_range range;

	if (functions__around(&f->functions, vaddr, &range.start, &range.end))
		return 0;
	for (size_t i = 0; i < ret->n_arena_code; i++)
		if (ret->arena_code[i].start == range.start)
			return 0;
	if (ret->n_arena_code == PYMALLOC_ARENA_CODE)
		return finder__refuse(f, "more than %d functions begin pools", PYMALLOC_ARENA_CODE);
	ret->arena_code[ret->n_arena_code++] = range;
	return 0;
}

static int explain_table(struct finder *f, uint64_t vaddr)
{
	int rc = finder__walk(f, vaddr, NULL);

	f->any_first |= f->shown.first_given;
	if (!rc && f->shown.first_given)
		rc = note_arena_code(f, vaddr);
	if (rc || ((f->shown.given || f->shown.listed) && f->shown.reused == f->shown.first_given &&
		   finder__walked_all(f)))
		return rc;
	return finder__refuse(f, "what it does with a table of pools at %#llx is not known",
			      (unsigned long long)vaddr);
}

static int explain_tree(struct finder *f, uint64_t vaddr)
{
	int rc = finder__walk(f, vaddr, NULL);

	if (rc || ((f->shown.taken_back || f->shown.asked_size || f->shown.registered) &&
		   finder__walked_all(f)))
		return rc;
	return finder__refuse(f, "what it does with the tree of arenas at %#llx is not known",
			      (unsigned long long)vaddr);
}

/* Checks the result of a walk that followed the state. The walk must have explained each lookup,
 * and how the code begins a pool. */
static int explain_walk(struct finder *f, uint64_t vaddr)
{
	f->any_first |= f->shown.first_given;
	if (!finder__walked_all(f))
		return finder__refuse(f, "the ways from %#llx are too long",
				      (unsigned long long)vaddr);
	for (unsigned int i = 0; i < f->shown.n_lookups; i++)
		if (!f->shown.lookups[i].explained)
			return finder__refuse(f, "what it does with a pool at %#llx is not known",
					      (unsigned long long)f->shown.lookups[i].vaddr);
	if (f->shown.reused != f->shown.first_given)
		return finder__refuse(f, "how it begins a pool at %#llx is not known",
				      (unsigned long long)vaddr);
	return f->shown.first_given ? note_arena_code(f, vaddr) : 0;
}

static int explain_state(struct finder *f, uint64_t vaddr)
{
	return finder__walk(f, vaddr, NULL) ?: explain_walk(f, vaddr);
}

/* Explains the functions that may get the state as an argument. The walks through these functions
 * may find more such functions. */
static int explain_callees(struct finder *f)
{
	int rc = 0;

	for (size_t i = 0; i < f->n_callees && !rc; i++) {
		const struct callee callee = f->callees[i];

		rc = finder__walk(f, callee.vaddr, &callee) ?: explain_walk(f, callee.vaddr);
	}
	return rc;
}

/* --- the proof that a probe may stand there --- */

/* Returns the last vaddr that must not be the target of a branch. (The list `found` also ascends by
 * this vaddr, because the proofs do not overlap.) */
static uint64_t end_of(const struct found *found)
{
	return found->best.vaddr > found->proved.vaddr ? found->best.vaddr : found->proved.vaddr;
}

/* Checks the target of a branch. No branch may lead to an instruction between the beginning and the
 * end of a proof. If a branch leads to an instruction between the end of the proof and the probe's
 * place, the place is moved back to that end. */
static void note_target(uint64_t target, void *ctx)
{
	struct finder *f = ctx;
	size_t at = SEARCH_FIRST(i, f->n_found, end_of(&f->found[i]) >= target);
	struct found *found = &f->found[at];

	finder__work(f, 1);
	if (at == f->n_found || target <= found->from)
		return;
	if (target <= found->proved.vaddr)
		f->side_way = target;
	else
		found->best = found->proved;
}

/* Decodes each function that has places, from the function's beginning. This shows that an
 * instruction begins at each place. */
static int check_places(struct finder *f)
{
	const cs_insn *insn = f->flow.decoder.insn;
	uint64_t at = 0, end = 0;
	size_t n = 0;
	int rc = 0;

	elf_image__each_jump(f->flow.image, note_target, f);
	while (n < f->n_found && !rc) {
		bool from = false, proved = false;

		rc = functions__around(&f->functions, f->found[n].from, &at, &end);
		for (; at < end && !rc; at += insn->size) {
			const struct found *found = n < f->n_found ? &f->found[n] : NULL;
			int64_t target;

			rc = read_insn(f, at, end);
			if (rc)
				break;
			if (decode__branch(insn->bytes, insn->size, &target))
				note_target(at + (uint64_t)target, f);
			from = from || (found && at == found->from);
			proved = proved || (found && from && at == found->proved.vaddr);
			if (proved && at >= found->best.vaddr) {
				from = proved = false;
				n++;
			}
		}
		if (!rc && n < f->n_found && f->found[n].from < end)
			rc = finder__refuse(f, "no instruction begins at %#llx",
					    (unsigned long long)f->found[n].best.vaddr);
	}
	if (!rc && f->side_way)
		rc = finder__refuse(f, "a branch leads to %#llx", (unsigned long long)f->side_way);
	return rc;
}

static int compare_places(const void *a, const void *b)
{
	const struct pymalloc_place *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static int give_places(struct finder *f)
{
	struct pymalloc *ret = f->ret;

	ret->places = malloc((f->n_found + 1) * sizeof(*ret->places));
	if (!ret->places)
		return -ENOMEM;
	for (; ret->n < f->n_found; ret->n++)
		ret->places[ret->n] = f->found[ret->n].best;
	qsort(ret->places, ret->n, sizeof(*ret->places), compare_places);
	for (size_t i = 1; i < ret->n; i++)
		if (ret->places[i].vaddr == ret->places[i - 1].vaddr)
			return finder__refuse(f, "two blocks are seen at %#llx",
					      (unsigned long long)ret->places[i].vaddr);
	return 0;
}

/* Explains all mentions of pymalloc's variables (up to 3.11). In 3.9, arenas are in an array. */
static int explain_variables(struct finder *f, uint64_t free_function)
{
	int rc = finder__walk(f, free_function, NULL);
	uint64_t array = f->shown.array;

	if (!rc && !f->tree && !array)
		rc = finder__refuse(f,
				    "how it finds an arena is not known (arena_map_root, arenas)");
	finder__work(f, SLICE);
	rc = rc ?: each_mention(f, f->table, f->table_end, explain_table);
	if (rc || f->tree)
		return rc ?: each_mention(f, f->tree, f->tree + 8, explain_tree);
	f->array = array;
	return follow(f) ?: each_mention(f, array, array + 8, explain_state) ?: explain_callees(f);
}

/* The main interpreter's state is a variable. Checks that the instruction stores this variable's
 * address in the interpreter, or compares the address. */
static int explain_main_state(struct finder *f, uint64_t vaddr)
{
	const cs_insn *insn = f->flow.decoder.insn;
	const cs_x86_op *to = &insn->detail->x86.operands[1];

	if (decode__only_compares(insn->id) || (insn->id == X86_INS_MOV && to->type == X86_OP_MEM &&
						(uint64_t)to->mem.disp == f->state_off))
		return 0;
	return finder__refuse(f, "what it does with its main state at %#llx is not known",
			      (unsigned long long)vaddr);
}

/* Explains all mentions of the pointer to the state (from 3.13 on). */
static int explain_mentions(struct finder *f)
{
	int rc = each_mention(f, f->state_off, f->state_off + 1, explain_state)
			 ?: explain_callees(f);

	return rc || !f->main_state ? rc
				    : each_mention(f, f->main_state, f->main_state + f->tree,
						   explain_main_state);
}

int pymalloc__find(const struct elf_image *image, uint64_t free_function,
		   const struct elf_meanwhile *meanwhile, struct pymalloc *ret)
{
	struct finder f = {.meanwhile = *meanwhile, .ret = ret};
	uint64_t start, end;
	int rc;

	*ret = (struct pymalloc){};
	f.paths = calloc(PYMALLOC_WAYS + 1, sizeof(*f.paths));
	rc = flow__open(&f.flow, image) || !f.paths ? -ENOMEM
						    : functions__read(image, &f.functions);
	if (rc == -ENOENT)
		rc = finder__refuse(&f, "it has no table of functions (.eh_frame_hdr)");
	if (!rc && (elf_image__code_span(image, &start, &end) || end - start > MAX_CODE))
		rc = finder__refuse(&f, "its code is too large");
	if (!rc) {
		rc = find_table(&f, image);
		if (rc == -ENOTSUP)
			rc = find_state(&f, free_function);
	}
	if (!rc)
		rc = f.state_off ? explain_mentions(&f) : explain_variables(&f, free_function);
	if (!rc && !f.any_first)
		rc = finder__refuse(&f, "how it begins a pool is not known");
	rc = rc ?: check_places(&f);
	rc = rc ?: give_places(&f);
	if (!rc)
		ret->why[0] = '\0';
	free(f.found);
	free(f.seen);
	functions__free(&f.functions);
	flow__close(&f.flow);
	free(f.paths);
	return rc;
}

void pymalloc__free(struct pymalloc *pymalloc)
{
	free(pymalloc->places);
}
