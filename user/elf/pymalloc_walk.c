// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pymalloc_internal.h"

#include <errno.h>
#include <string.h>

#define MAX_STEPS 4096 /* instructions on all paths from one mention, at most */
/* the same, and instructions of a path, with a state */
#define MAX_STATE_STEPS (32 * MAX_STEPS)
#define MAX_STATE_PATH	4096

/* --- the state --- */

/* Does the instruction look up a pool of a size class? */
static bool in_table(const struct finder *f, const struct path *path,
		     const struct flow_place *place)
{
	uint64_t off = place->at.off - path->state.off;

	/* usedpools is indexed with twice the class */
	if (f->state_off &&
	    (path->state.id == FLOW_NUMBER || !place->indexed || off % PYMALLOC_PAIR_BYTES))
		return false;
	return place->bytes == 8 && place->at.id == path->state.id &&
	       off - f->table < f->table_end - f->table;
}

/* Notes a lookup of a pool or of an arena, which the path's next instructions should explain. */
static int note_lookup(struct finder *f, struct path *path)
{
	unsigned int i = 0;

	if (!f->state_off)
		return 0;
	while (i < f->shown.n_lookups && f->shown.lookups[i].vaddr != path->vaddr)
		i++;
	if (i == MAX_LOOKUPS)
		return finder__refuse(f, "too many lookups from %#llx",
				      (unsigned long long)path->vaddr);
	if (i == f->shown.n_lookups)
		f->shown.lookups[f->shown.n_lookups++] = (struct lookup){.vaddr = path->vaddr};
	path->lookups |= 1U << i;
	path->due = path->n_insns + MAX_PATH;
	return 0;
}

static bool holds_state(const struct path *path)
{
	if (flow__holder(&path->registers, path->state))
		return true;
	for (int i = 0; i < MAX_SLOTS; i++)
		if (path->slots[i].id)
			return true;
	return false;
}

/* Returns the number of the slot at this place; -1: it is none. */
static int slot_at(const struct path *path, const struct flow_place *place)
{
	for (int i = 0; i < MAX_SLOTS; i++)
		if (place->bytes && !place->indexed && path->slots[i].id &&
		    flow_value__equal(path->slots[i], place->at))
			return i;
	return -1;
}

/* Follows a value into memory. stack: the id of the stack pointer. */
static int follow_store(struct finder *f, struct path *path, const struct flow_place *to,
			struct flow_value value, uint32_t stack)
{
	int at = slot_at(path, to);

	if (at >= 0)
		path->slots[at] = (struct flow_value){};
	if (to->bytes != 8 || !flow_value__equal(value, path->state))
		return 0;
	for (at = 0; at < MAX_SLOTS && path->slots[at].id; at++)
		;
	if (!to->indexed && to->at.id == stack && at < MAX_SLOTS) {
		path->slots[at] = to->at;
		return 0;
	}
	/* the interpreter gets its pointer */
	if (!to->indexed && to->at.id != stack && to->at.off == f->state_off)
		return 0;
	return finder__refuse(f, "its state is stored at %#llx", (unsigned long long)path->vaddr);
}

/* Follows the state from a slot into the register that a move or a pop has loaded. */
static void follow_load(struct path *path, const struct flow_place *from, struct flow_value loaded)
{
	unsigned int to = slot_at(path, from) < 0 || from->bytes != 8
				  ? 0
				  : flow__holder(&path->registers, loaded);

	if (to)
		path->registers.of[to] = path->state;
}

/* Follows the state through the stack. */
static int follow_slots(struct finder *f, struct path *path, const struct flow_registers *before,
			const struct flow_effect *effect)
{
	uint32_t stack = before->of[DECODE_RSP].id;
	int rc;

	follow_load(path, &effect->load, effect->loaded);
	follow_load(path, &effect->popped, effect->popped_value);
	rc = follow_store(f, path, &effect->store, effect->stored, stack)
		     ?: follow_store(f, path, &effect->pushed, effect->pushed_value, stack);
	if (rc || path->registers.of[DECODE_RSP].id == stack)
		return rc;
	for (int i = 0; i < MAX_SLOTS; i++)
		if (path->slots[i].id)
			return finder__refuse(f, "the stack moves at %#llx",
					      (unsigned long long)path->vaddr);
	return 0;
}

/* Handles the first instruction of a walk, which mentions the offset of the pointer. 1: it does not
 * give the state to a register. */
static int take_state(struct finder *f, struct path *path, const struct flow_effect *effect)
{
	if (path->state.id != FLOW_NUMBER)
		return 0;
	if (effect->load.bytes == 8 && !effect->load.indexed &&
	    flow__holder(&path->registers, effect->loaded))
		path->state = effect->loaded;
	else if (effect->store.bytes == 8 && effect->stored.id != FLOW_NUMBER)
		path->state = effect->stored;
	else if (f->flow.decoder.insn->id == X86_INS_LEA)
		return finder__refuse(f, "the address of its state is taken at %#llx",
				      (unsigned long long)path->vaddr);
	else
		return 1;
	return 0;
}

/* Follows a call. The function that is called may get the state in a register for arguments. 1: the
 * path ends, because nothing holds the state any more. */
static int follow_call(struct finder *f, struct path *path, const struct flow_registers *before,
		       const struct flow_effect *effect)
{
	path->lookups = path->due = 0;
	for (unsigned int reg = 1; reg <= DECODE_ARGUMENTS && effect->target; reg++) {
		size_t i = 0;

		if (!flow_value__equal(before->of[reg], path->state))
			continue;
		while (i < f->n_callees &&
		       (f->callees[i].vaddr != effect->target || f->callees[i].reg != reg))
			i++;
		if (i == MAX_CALLEES)
			return finder__refuse(f, "too many functions may get its state");
		if (i == f->n_callees)
			f->callees[f->n_callees++] = (struct callee){effect->target, reg};
	}
	return flow__return(&f->flow, before, &path->registers) ?: !holds_state(path);
}

/* Was this walk here before with the same knowledge of the state? Then nothing new follows. */
static bool was_here(struct finder *f, const struct path *path)
{
	uint64_t key = path->vaddr * 31 + f->n_walks;

	for (unsigned int i = 1; i <= DECODE_RSP; i++)
		key = key * 2 + flow_value__equal(path->registers.of[i], path->state);
	for (int i = 0; i < MAX_SLOTS; i++)
		key = key * 31 + path->slots[i].id * 7 + path->slots[i].off;
	key = (key * 31 + path->pool.id) * 31 + path->lookups;
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
	if (was_here(f, path) || (!holds_state(path) && path->n_insns >= path->due))
		return true;
	if (++path->n_insns < MAX_STATE_PATH && f->n_seen < PYMALLOC_SEEN / 2)
		return false;
	f->shown.unfinished = true;
	return true;
}

/* --- walking --- */

/* Handles what the instruction loads. */
static int note_load(struct finder *f, struct path *path, const struct flow_effect *effect)
{
	struct flow_value root;
	int rc = 0;

	if (in_table(f, path, &effect->load)) {
		path->pool = effect->loaded;
		rc = note_lookup(f, path);
	} else if (path__looks_up(&f->flow, &effect->load, &root) && root.id == path->state.id) {
		if (!f->state_off && !f->tree)
			f->tree = root.off;
		rc = note_lookup(f, path);
	}
	if (!rc && effect->load.bytes == 4 && !effect->load.indexed &&
	    effect->load.at.off == PYMALLOC_SZIDX && !path__has_stored(path)) {
		f->shown.asked_size = true;
		path__explain(f, path);
	}
	return rc;
}

static int fork_path(struct finder *f, const struct path *path, uint64_t target)
{
	struct path *other = &f->paths[f->n_paths++];

	if (f->n_paths > (f->state_off ? PYMALLOC_WAYS : MAX_PATH))
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

	if (rc)
		return rc == -ENOMEM ? rc : 1;
	if (f->state_off) {
		path->recent[path->n_recent++ % MAX_RECENT] = (struct recent){path->vaddr, before};
		rc = take_state(f, path, &effect) ?: follow_slots(f, path, &before, &effect);
		if (rc)
			return rc;
	}
	rc = note_load(f, path, &effect);
	if (!rc && effect.store.bytes)
		rc = path__note_store(f, path, &before, &effect);
	if (rc == 1 && f->state_off) {
		path->pool = (struct flow_value){};
		path->lookups = path->due = 0;
		rc = 0;
	}
	if (!rc && effect.calls && f->state_off) {
		rc = follow_call(f, path, &before, &effect);
		effect.next = FLOW_ON;
	}
	if (!rc && effect.next == FLOW_BRANCH)
		rc = fork_path(f, path, effect.target);
	if (rc || effect.next == FLOW_END)
		return rc ?: 1;
	path->vaddr = effect.next == FLOW_JUMP ? effect.target : path->vaddr + effect.len;
	return f->state_off ? ends(f, path) : ++path->n_insns == MAX_PATH;
}

static size_t most_steps(const struct finder *f)
{
	return f->state_off ? MAX_STATE_STEPS : MAX_STEPS;
}

bool finder__walked_all(const struct finder *f)
{
	return !f->n_paths && f->n_steps < most_steps(f) && !f->shown.unfinished;
}

int finder__walk(struct finder *f, uint64_t vaddr, unsigned int reg)
{
	struct path *path = &f->paths[0];
	int rc;

	f->n_steps = 0;
	f->n_walks++;
	f->shown = (struct shown){};
	*path = (struct path){.vaddr = vaddr};
	rc = flow__begin(&f->flow, true, &path->registers);
	if (reg)
		path->state = path->registers.of[reg];
	if (f->n_seen > PYMALLOC_SEEN / 4) {
		memset(f->seen, 0, PYMALLOC_SEEN * sizeof(*f->seen));
		f->n_seen = 0;
	}
	f->n_paths = 1;
	while (!rc && f->n_paths && f->n_steps < most_steps(f)) {
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
