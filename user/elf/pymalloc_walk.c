// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pymalloc_internal.h"

#include <errno.h>
#include <string.h>

#define MAX_STEPS 4096 /* at most this many instructions on all paths from one mention */
/* with a state: limit for the instructions on all these paths, and also for those on one path */
#define MAX_STATE_STEPS (32 * MAX_STEPS)
#define MAX_STATE_PATH	4096

/* --- the state, or the array of arenas --- */

/* Returns the offset of the address `value` in the state; in an array, its offset in the entry. */
static uint64_t part_of(const struct finder *f, const struct path *path, struct flow_value value)
{
	int64_t off = (int64_t)(value.off - path->state.off);

	return (uint64_t)(f->array ? (off % ARENA_BYTES + ARENA_BYTES) % ARENA_BYTES : off);
}

bool path__is_state(const struct finder *f, const struct path *path, struct flow_value value)
{
	return value.id != FLOW_NUMBER && value.id == path->state.id && !part_of(f, path, value);
}

/* Does the instruction look up a pool of a size class? */
static bool in_table(const struct finder *f, const struct path *path,
		     const struct flow_effect *effect)
{
	const struct flow_place *place = &effect->load;
	uint64_t off = place->at.off - path->state.off;

	/* usedpools is indexed with twice the class, or the class is a constant */
	if (f->follows && (path->state.id == FLOW_NUMBER || off % PYMALLOC_PAIR_BYTES ||
			   !flow__holder(&path->registers, effect->loaded)))
		return false;
	return place->bytes == 8 && place->at.id == path->state.id &&
	       off - f->table < f->table_end - f->table;
}

/* Notes a lookup of a pool or of an arena, which the path's next instructions should explain. */
static int note_lookup(struct finder *f, struct path *path, bool pool)
{
	unsigned int i = 0;

	if (!f->follows)
		return 0;
	while (i < f->shown.n_lookups && f->shown.lookups[i].vaddr != path->vaddr)
		i++;
	if (i == MAX_LOOKUPS)
		return finder__refuse(f, "too many lookups from %#llx",
				      (unsigned long long)path->vaddr);
	if (i == f->shown.n_lookups)
		f->shown.lookups[f->shown.n_lookups++] = (struct lookup){.vaddr = path->vaddr};
	/* From here on, this path does not explain earlier lookups any more. Exception: if both
	 * lookups read an arena's entry, both may still be explained. */
	path->lookups = (pool || path->pool.id ? 0 : path->lookups) | 1U << i;
	path->due = path->n_insns + MAX_PATH;
	path->n_before = path->n_stores;
	return 0;
}

/* Is the value an address in the state, or computed from such an address? */
static bool is_of_state(const struct path *path, struct flow_value value)
{
	if (value.id == FLOW_NUMBER)
		return false;
	for (int i = 0; i < MAX_COMPUTED; i++)
		if (path->computed[i] == value.id)
			return true;
	return value.id == path->state.id;
}

/* Returns the name of what the followed pointer leads to. */
static const char *name_of(const struct finder *f)
{
	return f->array ? "array of arenas" : "state";
}

static int refuse_use(struct finder *f, const struct path *path)
{
	return finder__refuse(f, "what it does with its %s at %#llx is not known", name_of(f),
			      (unsigned long long)path->vaddr);
}

/* Does anything hold an address in the state, or a value computed from such an address? */
static bool holds_state(const struct path *path)
{
	for (unsigned int i = 1; i <= DECODE_RSP; i++)
		if (is_of_state(path, path->registers.of[i]))
			return true;
	for (int i = 0; i < MAX_SLOTS; i++)
		if (path->slots[i].id)
			return true;
	return false;
}

/* Returns the number of the slot at this place; -1: there is no slot. */
static int slot_at(const struct path *path, const struct flow_place *place)
{
	for (int i = 0; i < MAX_SLOTS; i++)
		if (place->bytes && !place->indexed && path->slots[i].id &&
		    flow_value__equal(path->slots[i], place->at))
			return i;
	return -1;
}

/* May the place be the interpreter's pointer to its state? */
static bool is_pointer(const struct finder *f, const struct flow_place *place)
{
	return !place->indexed && place->at.off == f->state_off;
}

/* May the place be a link of a list of arenas, or a variable that is the head of such a list? */
static bool is_list(const struct flow_place *place)
{
	return place->at.id == FLOW_NUMBER || place->at.off == NEXTARENA ||
	       place->at.off == PREVARENA;
}

/* Follows a value that the code stores in memory. stack: the id of the stack pointer. */
static int follow_store(struct finder *f, struct path *path, const struct flow_place *to,
			struct flow_value value, uint32_t stack)
{
	int at = slot_at(path, to);

	if (at >= 0)
		path->slots[at] = (struct flow_value){};
	if (to->bytes == 8 && value.id != path->state.id && is_of_state(path, value))
		return refuse_use(f, path);
	if (to->bytes != 8 || !path__is_state(f, path, value))
		return 0;
	for (at = 0; at < MAX_SLOTS && path->slots[at].id; at++)
		;
	if (!to->indexed && to->at.id == stack && at < MAX_SLOTS) {
		path->slots[at] = to->at;
		return 0;
	}
	if (to->at.id != stack && (f->array ? is_list(to) : is_pointer(f, to)))
		return 0;
	return finder__refuse(f, "its %s is stored at %#llx", name_of(f),
			      (unsigned long long)path->vaddr);
}

/* If a move or a pop has loaded the state from a slot into a register, follows the state into this
 * register. */
static int follow_load(struct finder *f, struct path *path, const struct flow_place *from,
		       struct flow_value loaded)
{
	unsigned int to;

	if (from->bytes != 8 || slot_at(path, from) < 0)
		return 0;
	to = flow__holder(&path->registers, loaded);
	if (to)
		path->registers.of[to] = path->state;
	return to || decode__only_compares(f->flow.decoder.insn->id) ? 0 : refuse_use(f, path);
}

/* Follows the state through the stack. */
static int follow_slots(struct finder *f, struct path *path, const struct flow_registers *before,
			const struct flow_effect *effect)
{
	const struct flow_value now = path->registers.of[DECODE_RSP];
	uint32_t stack = before->of[DECODE_RSP].id;
	int rc;

	rc = follow_load(f, path, &effect->load, effect->loaded)
		     ?: follow_load(f, path, &effect->popped, effect->popped_value)
		     ?: follow_store(f, path, &effect->store, effect->stored, stack)
		     ?: follow_store(f, path, &effect->pushed, effect->pushed_value, stack);
	for (int i = 0; i < MAX_SLOTS && !rc; i++) {
		if (!path->slots[i].id)
			continue;
		if (now.id != stack)
			rc = finder__refuse(f, "the stack moves at %#llx",
					    (unsigned long long)path->vaddr);
		else if (path->slots[i].off - before->of[DECODE_RSP].off <
				 now.off - before->of[DECODE_RSP].off &&
			 (int64_t)(now.off - before->of[DECODE_RSP].off) > 0)
			path->slots[i] = (struct flow_value){}; /* the function's frame ends */
	}
	return rc;
}

static bool holds_of_state(const struct path *path, const struct flow_registers *before,
			   unsigned int reg)
{
	unsigned int number = decode__register(reg);

	return number && is_of_state(path, before->of[number]);
}

/* Notes the values that an instruction has computed from addresses in the state. */
static int note_computed(struct finder *f, struct path *path, const struct flow_registers *before)
{
	for (unsigned int reg = 1; reg < DECODE_RSP; reg++) {
		uint32_t id = path->registers.of[reg].id;
		int i = 0;

		if (id == before->of[reg].id || id == FLOW_NUMBER ||
		    is_of_state(path, path->registers.of[reg]))
			continue;
		while (i < MAX_COMPUTED && path->computed[i])
			i++;
		if (i == MAX_COMPUTED)
			return refuse_use(f, path);
		path->computed[i] = id;
	}
	return 0;
}

/* Does the instruction leave values of registers as they are, or change them in a way that flow.h
 * follows? */
static bool is_followed(const cs_insn *insn)
{
	switch (insn->id) {
	case X86_INS_MOV:
	case X86_INS_PUSH:
	case X86_INS_POP:
	case X86_INS_CALL:
		return true;
	case X86_INS_ADD:
	case X86_INS_SUB:
		return insn->detail->x86.operands[0].type == X86_OP_IMM;
	default:
		return decode__only_compares(insn->id);
	}
}

/* Does the instruction write its last operand without reading it? (Capstone's access of operands is
 * not reliable in AT&T order. In case of doubt, the operand counts as read.) */
static bool only_writes(const cs_insn *insn)
{
	return insn->id == X86_INS_LEA || insn->id == X86_INS_MOVZX || insn->id == X86_INS_MOVSX ||
	       insn->id == X86_INS_MOVSXD || insn->id == X86_INS_MOVQ || insn->id == X86_INS_MOVD ||
	       (insn->id == X86_INS_IMUL && insn->detail->x86.op_count == 3);
}

/* Finds the address in the array of arenas that a memory operand computes: a known address in the
 * array, plus any index. False: the operand computes another address. */
static bool find_entry(const struct finder *f, const struct path *path,
		       const struct flow_registers *before, const cs_x86_op *op,
		       struct flow_value *ret)
{
	const struct flow_value base = before->of[decode__register(op->mem.base)];
	const struct flow_value index = before->of[decode__register(op->mem.index)];
	bool by_base = base.id == path->state.id;

	if (!f->array || path->state.id == FLOW_NUMBER ||
	    (by_base ? is_of_state(path, index)
		     : is_of_state(path, base) || index.id != path->state.id || op->mem.scale != 1))
		return false;
	*ret = by_base ? base : index;
	ret->off += (uint64_t)op->mem.disp;
	return true;
}

/* Checks an operand in memory. 1: lea computes another address from an address in the state. */
static int check_address(struct finder *f, struct path *path, const struct flow_registers *before,
			 const cs_x86_op *op)
{
	const cs_insn *insn = f->flow.decoder.insn;
	const cs_x86 *x86 = &insn->detail->x86;
	bool lea = insn->id == X86_INS_LEA, indexed = op->mem.index != X86_REG_INVALID;
	bool by_index = indexed && holds_of_state(path, before, op->mem.index);
	bool by_base = holds_of_state(path, before, op->mem.base);
	struct flow_value entry;
	bool followed = before->of[decode__register(op->mem.base)].id == path->state.id &&
			!(lea && indexed);

	if (find_entry(f, path, before, op, &entry) && (!lea || x86->operands[1].size == 8)) {
		if (lea)
			path->registers.of[decode__register(x86->operands[1].reg)] = entry;
		return 0;
	}
	/* thread-local memory */
	if (op->mem.segment != X86_REG_INVALID && x86->op_count > 1 &&
	    x86->operands[0].type == X86_OP_REG &&
	    holds_of_state(path, before, x86->operands[0].reg))
		return refuse_use(f, path);
	if (!by_index && (!by_base || followed))
		return 0;
	return lea || insn->id == X86_INS_NOP ? 1 : refuse_use(f, path);
}

/* Can the operand be an index that is added to an address? Such an operand is a whole register that
 * holds no address. */
static bool is_index(const struct path *path, const struct flow_registers *before,
		     const cs_x86_op *op)
{
	return op->type == X86_OP_REG && op->size == 8 && decode__register(op->reg) &&
	       !holds_of_state(path, before, op->reg);
}

/* Checks an operand in a register. 1: the instruction computes something from it. */
static int check_value(struct finder *f, struct path *path, const struct flow_registers *before,
		       const cs_x86_op *op)
{
	const cs_insn *insn = f->flow.decoder.insn;
	unsigned int number = decode__register(op->reg);
	const cs_x86_op *first = insn->detail->x86.operands;
	const cs_x86_op *last = first + insn->detail->x86.op_count - 1;

	if (op->size != 8 || is_followed(insn) || !holds_of_state(path, before, op->reg))
		return 0;
	/* the instruction adds an index and an address in the array, in either order */
	if (f->array && insn->id == X86_INS_ADD && before->of[number].id == path->state.id &&
	    is_index(path, before, op == last ? first : last)) {
		path->registers.of[decode__register(last->reg)] = before->of[number];
		return 0;
	}
	/* vector registers are not followed */
	if (last->type == X86_OP_REG && !decode__register(last->reg) &&
	    path__is_state(f, path, before->of[number]))
		return refuse_use(f, path);
	return op != last || !only_writes(insn);
}

/* Checks that the instruction uses addresses in the state only in ways that can be followed. It may
 * compute something else from them, such as a distance. But the result must not be an address of
 * memory that is read or written: a lookup there would not be seen. (Copies of memory, by rep movs,
 * are no lookups.) */
static int check_use(struct finder *f, struct path *path, const struct flow_registers *before)
{
	const cs_insn *insn = f->flow.decoder.insn;
	int computes = 0;

	if (path->state.id == FLOW_NUMBER || insn->id == X86_INS_MOVSB ||
	    insn->id == X86_INS_MOVSW || insn->id == X86_INS_MOVSD || insn->id == X86_INS_MOVSQ)
		return 0;
	for (uint8_t i = 0; i < insn->detail->x86.op_count && computes >= 0; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		int rc = op->type == X86_OP_MEM	  ? check_address(f, path, before, op)
			 : op->type == X86_OP_REG ? check_value(f, path, before, op)
						  : 0;

		computes = rc < 0 ? rc : computes | rc;
	}
	return computes > 0 ? note_computed(f, path, before) : computes;
}

/* Handles the first instruction of a walk, which mentions the offset of the pointer. 1: after the
 * instruction no register is known to hold the pointer, so the path ends. */
static int take_state(struct finder *f, struct path *path, const struct flow_effect *effect)
{
	const cs_insn *insn = f->flow.decoder.insn;
	const cs_x86_op *to = &insn->detail->x86.operands[1];

	if (path->state.id != FLOW_NUMBER)
		return 0;
	if (effect->load.bytes == 8 && !effect->load.indexed &&
	    flow__holder(&path->registers, effect->loaded))
		path->state = effect->loaded;
	else if (f->array && effect->load.bytes == 8 && insn->id == X86_INS_ADD &&
		 to->type == X86_OP_REG) /* the instruction adds an index */
		path->state = path->registers.of[decode__register(to->reg)];
	else if (f->array && insn->id == X86_INS_SUB && to->type == X86_OP_REG)
		return 1; /* the result is a distance, and no address */
	else if (effect->store.bytes == 8 && effect->stored.id != FLOW_NUMBER)
		path->state = effect->stored;
	else if (effect->store.bytes == 8)
		f->main_state = effect->stored.off;
	else if (insn->id == X86_INS_LEA)
		return finder__refuse(f, "the address of its %s is taken at %#llx", name_of(f),
				      (unsigned long long)path->vaddr);
	else if (!decode__only_compares(insn->id))
		return refuse_use(f, path);
	return path->state.id == FLOW_NUMBER;
}

/* Does a call get the address of an arena? Then this arena may leave the array. */
static bool gives_back_arena(const struct finder *f, const struct path *path,
			     const struct flow_registers *before)
{
	for (unsigned int reg = 1; reg <= DECODE_ARGUMENTS && f->array; reg++) {
		const struct flow_place from = flow__origin(&f->flow, before->of[reg]);

		if (from.bytes == 8 && path__is_state(f, path, from.at))
			return true;
	}
	return false;
}

/* Follows a call. The function that is called may get the state in a register for arguments. 1: the
 * path ends, because no register and no slot holds the state any more. */
static int follow_call(struct finder *f, struct path *path, const struct flow_registers *before,
		       const struct flow_effect *effect)
{
	if (!gives_back_arena(f, path, before))
		path->lookups = path->due = 0;
	for (unsigned int reg = 1; reg <= DECODE_ARGUMENTS && effect->target; reg++) {
		struct callee callee = {effect->target, reg, part_of(f, path, before->of[reg])};
		size_t i = 0;

		if (before->of[reg].id != path->state.id)
			continue;
		while (i < f->n_callees &&
		       (f->callees[i].vaddr != callee.vaddr || f->callees[i].reg != callee.reg ||
			f->callees[i].off != callee.off))
			i++;
		if (i == MAX_CALLEES)
			return finder__refuse(f, "too many functions may get its %s", name_of(f));
		if (i == f->n_callees)
			f->callees[f->n_callees++] = callee;
	}
	return flow__return(&f->flow, before, &path->registers) ?: !holds_state(path);
}

/* Was a walk at this instruction before, with the same knowledge of the state and of the last pool?
 * If so, no new use of the state or the pool follows. */
static bool was_here(struct finder *f, const struct path *path)
{
	uint64_t key = path->vaddr * 31 + f->n_walks;

	for (unsigned int i = 1; i <= DECODE_RSP; i++) {
		const struct flow_value value = path->registers.of[i];

		key = key * 31 + (!is_of_state(path, value)    ? 0
				  : value.id == path->state.id ? part_of(f, path, value) + 2
							       : 1);
	}
	for (int i = 0; i < MAX_SLOTS; i++)
		key = key * 31 + path->slots[i].id * 7 + path->slots[i].off;
	key = (key * 31 + path->pool.id) * 31 + flow__holder(&path->registers, path->pool);
	key = key * 31 + path->lookups;
	key = (key ^ key >> 29) * 0x9e3779b97f4a7c15ULL | 1;
	for (size_t i = key >> 32;; i++) {
		uint64_t *seen = &f->seen[i & (PYMALLOC_SEEN - 1)];

		if (*seen == key)
			return true;
		if (!*seen) {
			*seen = key;
			f->n_seen++;
			return false;
		}
	}
}

/* Does a path with a state end before its next instruction? */
static bool ends(struct finder *f, struct path *path)
{
	if (f->n_seen >= PYMALLOC_SEEN / 2 || ++path->n_insns == MAX_STATE_PATH) {
		f->shown.unfinished = true;
		return true;
	}
	return was_here(f, path) || (!holds_state(path) && path->n_insns > path->due);
}

/* --- walking --- */

/* Does the path only ask for the size class of a pool? With a state, the path must do so soon after
 * the lookup of the arena. The pool's address must have been computed from a block's address, not
 * loaded. */
static bool reads_size(const struct finder *f, const struct path *path,
		       const struct flow_place *load)
{
	const struct flow_value pool = {.id = load->at.id};

	if (load->bytes != 4 || load->indexed || load->at.off != PYMALLOC_SZIDX)
		return false;
	return !path__has_stored(path) &&
	       (!f->follows || (path->n_insns < path->due && !path->pool.id &&
				pool.id != path->registers.of[DECODE_RSP].id &&
				!flow__origin(&f->flow, pool).bytes));
}

/* Notes what the instruction reads of an arena's entry in the array. (Capstone does not always tell
 * that an operand is read.) 1: this explains the path's lookups. */
static int note_entry(struct finder *f, struct path *path, const struct flow_registers *before)
{
	const cs_insn *insn = f->flow.decoder.insn;
	const cs_x86 *x86 = &insn->detail->x86;
	struct flow_value entry;
	uint64_t part;

	if (insn->id == X86_INS_LEA || insn->id == X86_INS_NOP)
		return 0;
	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		bool only_stores = insn->id == X86_INS_MOV && i + 1 == x86->op_count;

		if (only_stores || op->type != X86_OP_MEM ||
		    !find_entry(f, path, before, op, &entry))
			continue;
		part = part_of(f, path, entry);
		if (part < POOL_ADDRESS || part + op->size > ARENA_BYTES)
			return note_lookup(f, path, false);
		/* the code visits all pools of an arena */
		if (part == POOL_ADDRESS && !path__has_stored(path)) {
			path__explain(f, path);
			return 1;
		}
	}
	return 0;
}

/* Handles what the instruction loads. */
static int note_load(struct finder *f, struct path *path, const struct flow_registers *before,
		     const struct flow_effect *effect)
{
	struct flow_value root;
	uint64_t array = path__looked_up_in(&f->flow, &effect->load);
	int rc = note_entry(f, path, before);

	if (rc)
		return rc;
	if (array)
		path->array = array;
	if (in_table(f, path, effect)) {
		rc = note_lookup(f, path, true);
		path->pool = effect->loaded;
	} else if (path__looks_up(&f->flow, &effect->load, &root) && root.id == path->state.id) {
		if (!f->follows && !f->tree)
			f->tree = root.off;
		rc = note_lookup(f, path, false);
		if (f->follows)
			path->pool = (struct flow_value){};
	}
	if (!rc && reads_size(f, path, &effect->load)) {
		f->shown.asked_size = true;
		path__explain(f, path);
	}
	return rc;
}

/* Checks that no other code may still use the state when a path ends. A function may return the
 * state. Code to which an indirect jump leads may find the state in a preserved register or in a
 * slot. (A jump through a table is a switch. The functions of pymalloc have no switch, so their
 * copies have none.) */
static int check_end(struct finder *f, const struct path *path)
{
	const cs_insn *insn = f->flow.decoder.insn;
	bool returns = insn->id == X86_INS_RET;
	unsigned int from = returns ? DECODE_RAX : FLOW_FIRST_PRESERVED;
	unsigned int to = returns ? DECODE_RAX : DECODE_RBP;

	if (insn->id == X86_INS_JMP && insn->detail->x86.operands[0].type == X86_OP_MEM &&
	    insn->detail->x86.operands[0].mem.index != X86_REG_INVALID)
		return 0;
	/* No function returns the array. But a function that looks up arenas in the array may leave
	 * the array's address in rax. */
	if (returns && f->array && f->shown.n_lookups)
		return 0;
	for (unsigned int reg = from; reg <= to; reg++)
		if (is_of_state(path, path->registers.of[reg]))
			return refuse_use(f, path);
	for (int i = 0; i < MAX_SLOTS && !returns; i++)
		if (path->slots[i].id)
			return refuse_use(f, path);
	return 0;
}

static int fork_path(struct finder *f, const struct path *path, uint64_t target)
{
	struct path *other = &f->paths[f->n_paths++];

	if (f->n_paths > (f->follows ? PYMALLOC_WAYS : MAX_PATH))
		return finder__refuse(f, "too many ways lead on from %#llx",
				      (unsigned long long)path->vaddr);
	*other = *path;
	other->vaddr = target;
	return 0;
}

/* Walks the path's next instruction. 1: the path ends here. */
static int walk_step(struct finder *f, struct path *path)
{
	struct flow_registers before = path->registers;
	struct flow_effect effect;
	int rc = flow__step(&f->flow, path->vaddr, &path->registers, &effect);

	if (rc) {
		f->shown.unfinished |= f->follows;
		return rc == -ENOMEM ? rc : 1;
	}
	if (f->follows) {
		path->recent[path->n_recent++ % MAX_RECENT] = (struct recent){path->vaddr, before};
		rc = check_use(f, path, &before) ?: take_state(f, path, &effect)
			     ?: follow_slots(f, path, &before, &effect);
		if (rc)
			return rc;
	}
	rc = note_load(f, path, &before, &effect);
	if (!rc && effect.store.bytes)
		rc = path__note_store(f, path, &before, &effect);
	if (rc == 1 && f->follows) {
		path->pool = (struct flow_value){};
		path->lookups = path->due = 0;
		rc = 0;
	}
	if (!rc && effect.calls && f->follows) {
		rc = follow_call(f, path, &before, &effect);
		effect.next = FLOW_ON;
	}
	if (!rc && effect.next == FLOW_BRANCH)
		rc = fork_path(f, path, effect.target);
	if (!rc && effect.next == FLOW_END && f->follows)
		rc = check_end(f, path);
	if (rc || effect.next == FLOW_END)
		return rc ?: 1;
	path->vaddr = effect.next == FLOW_JUMP ? effect.target : path->vaddr + effect.len;
	return f->follows ? ends(f, path) : ++path->n_insns == MAX_PATH;
}

static size_t most_steps(const struct finder *f)
{
	return f->follows ? MAX_STATE_STEPS : MAX_STEPS;
}

bool finder__walked_all(const struct finder *f)
{
	return !f->n_paths && f->n_steps < most_steps(f) && !f->shown.unfinished;
}

int finder__walk(struct finder *f, uint64_t vaddr, const struct callee *callee)
{
	struct path *path = &f->paths[0];
	int rc;

	f->n_steps = 0;
	f->n_walks++;
	f->shown = (struct shown){};
	*path = (struct path){.vaddr = vaddr};
	rc = flow__begin(&f->flow, true, &path->registers);
	if (callee) {
		path->state = path->registers.of[callee->reg];
		path->registers.of[callee->reg].off += callee->off;
	}
	if (f->n_seen > PYMALLOC_SEEN / 4) {
		memset(f->seen, 0, PYMALLOC_SEEN * sizeof(*f->seen));
		f->n_seen = 0;
	}
	f->n_paths = 1;
	while (!rc && f->n_paths && f->n_steps < most_steps(f) && !f->shown.unfinished) {
		struct path now = f->paths[--f->n_paths];

		while (!rc && f->n_steps++ < most_steps(f)) {
			rc = walk_step(f, &now);
			finder__work(f, DECODE_WORK);
		}
		rc = rc == 1 ? 0 : rc;
	}
	f->n_decoded += f->n_steps;
	if (!rc && f->n_decoded > MAX_DECODED)
		rc = finder__refuse(f, "its code takes too long to read");
	return rc;
}
