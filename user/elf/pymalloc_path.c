// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pymalloc_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/search.h"
#include "base/vector.h"
#include "elf/probe_site.h"

/* a cheaper place for the probe is sought in this many instructions, from the proof on */
#define MAX_AFTER 8

#define HEADER_BYTES 48

bool path__looks_up(const struct flow *flow, const struct flow_place *place,
		    struct flow_value *ret_root)
{
	struct flow_place node, root;

	if (!place->bytes || !place->indexed)
		return false;
	node = flow__origin(flow, (struct flow_value){.id = place->at.id});
	if (node.bytes != 8 || !node.indexed)
		return false;
	root = flow__origin(flow, (struct flow_value){.id = node.at.id});
	if (root.bytes != 8 || !root.indexed)
		return false;
	*ret_root = root.at;
	return true;
}

uint64_t path__looked_up_in(const struct flow *flow, const struct flow_place *place)
{
	struct flow_place pointer = flow__origin(flow, place->at);

	if (place->bytes != 8 || !place->indexed || pointer.bytes != 8 || pointer.indexed ||
	    pointer.at.id != FLOW_NUMBER)
		return 0;
	return pointer.at.off;
}

static const struct store *find_store(const struct path *path, struct flow_value at, uint8_t bytes)
{
	/* searches from the last store to the first */
	for (uint32_t i = 0; i < MAX_STORES && i < path->n_stores; i++) {
		const struct store *store = &path->stores[(path->n_stores - 1 - i) % MAX_STORES];

		if (store->bytes == bytes && flow_value__equal(store->at, at))
			return store;
	}
	return NULL;
}

static struct flow_value behind(struct flow_value value, uint64_t distance)
{
	value.off += distance;
	return value;
}

/* Was the value loaded from this field of the pool? */
static bool is_field(const struct finder *f, struct flow_value value, struct flow_value pool,
		     enum field field)
{
	struct flow_place from = flow__origin(&f->flow, value);

	return from.bytes == 8 && !from.indexed && flow_value__equal(from.at, behind(pool, field));
}

bool path__has_stored(const struct path *path)
{
	uint32_t stack = path->registers.of[DECODE_RSP].id;
	uint32_t n = path->n_stores - path->n_before;

	for (uint32_t i = 1; i <= n && n <= MAX_STORES; i++) {
		const struct store *store = &path->stores[(path->n_stores - i) % MAX_STORES];

		if (store->bytes == 8 && store->at.id != stack)
			return true;
	}
	return n > MAX_STORES;
}

/* Does the path set the pool's count of blocks to 1? */
static bool counts_first(const struct path *path, struct flow_value pool)
{
	const struct store *count = find_store(path, behind(pool, REF_COUNT), 4);

	return count && count->value.id == FLOW_NUMBER && count->value.off == 1;
}

/* Does the path's last store complete the pattern that gives out a block? The block's pool must be
 * from usedpools, or must have had no blocks in use. */
static bool gives(const struct finder *f, const struct path *path, const struct store *s,
		  struct event *ret)
{
	struct flow_place next = flow__origin(&f->flow, s->value);
	struct flow_value pool = behind(s->at, -(uint64_t)FREEBLOCK);

	if (s->bytes != 8 || next.bytes != 8 || next.indexed ||
	    !is_field(f, next.at, pool, FREEBLOCK) ||
	    !(flow_value__equal(pool, path->pool) || counts_first(path, pool)))
		return false;
	*ret = (struct event){next.at, pool, true, flow__origin(&f->flow, next.at).vaddr};
	return true;
}

/* Like gives(), for the first block of a pool. The path has already stored the pool's size class in
 * the pool's header. */
static bool gives_first(const struct path *path, const struct store *s, struct event *ret)
{
	struct flow_value pool = behind(s->at, -(uint64_t)FREEBLOCK);
	const struct store *class = find_store(path, behind(pool, SZIDX), 4);

	if (s->bytes != 8 || !counts_first(path, pool) || !class ||
	    class->value.id == FLOW_NUMBER ||
	    !flow__holder(&path->registers, behind(pool, HEADER_BYTES)))
		return false;
	*ret = (struct event){behind(pool, HEADER_BYTES), pool, true, class->vaddr};
	return true;
}

/* Like takes_back(), for code in which two registers held the block's address before the path
 * began. The value of pool->freeblock is stored in some place (the block), and pool->freeblock gets
 * a new value. Code that changes the list of pools does not match, because that list's links lie
 * elsewhere in the header. */
static bool takes_back_by_other_name(const struct finder *f, const struct path *path,
				     const struct store *s, struct event *ret)
{
	if (s->bytes != 8 || s->at.id == FLOW_NUMBER || s->at.off != FREEBLOCK)
		return false;
	for (uint32_t i = 0; i < MAX_STORES && i < path->n_stores; i++) {
		const struct store *other = &path->stores[i];
		struct flow_place last = flow__origin(&f->flow, other->value);

		if (other == s || other->bytes != 8 || last.bytes != 8 || last.indexed ||
		    !flow_value__equal(last.at, s->at))
			continue;
		*ret = (struct event){.block = s->value, .from = last.vaddr};
		return true;
	}
	return false;
}

/* Does the store complete the pattern that takes a block back? The two stores that take a block
 * back may come in any order. */
static bool takes_back(const struct finder *f, const struct path *path, const struct store *s,
		       struct event *ret)
{
	struct flow_place last = flow__origin(&f->flow, s->value);
	const struct store *other = find_store(path, last.at, 8);

	if (s->bytes != 8)
		return false;
	*ret = (struct event){.block = s->at, .from = last.vaddr};
	if (last.bytes == 8 && !last.indexed && other && flow_value__equal(other->value, s->at))
		return true; /* the store was *(block **)b = l */
	other = find_store(path, s->value, 8);
	if (other) {
		last = flow__origin(&f->flow, other->value);
		*ret = (struct event){.block = s->value, .from = last.vaddr};
		if (last.bytes == 8 && !last.indexed && flow_value__equal(last.at, s->at))
			return true;
	}
	return takes_back_by_other_name(f, path, s, ret);
}

/* Does the path add a pool to the list of pools of its class? */
static bool lists(const struct finder *f, const struct path *path)
{
	const struct store *prev = find_store(path, behind(path->pool, PREVPOOL), 8);

	if (!path->pool.id || !prev)
		return false;
	for (uint32_t i = 0; i < MAX_STORES && i < path->n_stores; i++) {
		const struct store *next = &path->stores[i];
		struct flow_value last = behind(next->at, -(uint64_t)NEXTPOOL);

		if (flow_value__equal(next->value, prev->value) &&
		    is_field(f, last, path->pool, PREVPOOL))
			return true;
	}
	return false;
}

static bool is_same(const struct found *a, const struct found *b)
{
	return a->from == b->from && a->proved.vaddr == b->proved.vaddr &&
	       a->best.vaddr == b->best.vaddr && a->best.block == b->best.block &&
	       a->best.pool == b->best.pool && a->proved.block == b->proved.block &&
	       a->proved.pool == b->proved.pool;
}

static int add_found(struct finder *f, const struct found *new)
{
	size_t at = SEARCH_FIRST(i, f->n_found, f->found[i].best.vaddr >= new->best.vaddr);

	if (at < f->n_found && f->found[at].best.vaddr == new->best.vaddr)
		return is_same(&f->found[at], new)
			       ? 0
			       : finder__refuse(
					 f, "two paths use the instruction at %#llx differently",
					 (unsigned long long)new->best.vaddr);
	/* each proof has only one place for a probe */
	for (size_t i = 0; i < f->n_found; i++)
		if (f->found[i].proved.vaddr == new->proved.vaddr)
			return finder__refuse(f, "several ways lead on from %#llx",
					      (unsigned long long)new->proved.vaddr);
	if (f->n_found == MAX_FOUND)
		return finder__refuse(f, "more than %d places", MAX_FOUND);
	if (VECTOR_ADD_ROOM(f->found, f->n_found))
		return -ENOMEM;
	memmove(f->found + at + 1, f->found + at, (f->n_found++ - at) * sizeof(*f->found));
	f->found[at] = *new;
	return 0;
}

/* Describes a probe at the instruction that was decoded last. registers: their values before this
 * instruction. False: no register holds the block; or the block is given out, and no register holds
 * its pool. */
static bool describe(const struct finder *f, const struct flow_registers *registers,
		     const struct event *event, uint64_t vaddr, struct pymalloc_place *ret)
{
	const cs_insn *insn = f->flow.decoder.insn;
	unsigned int block = flow__holder(registers, event->block);
	unsigned int pool = event->gives ? flow__holder(registers, event->pool) : 0;

	if (!block || block == DECODE_RSP || pool == DECODE_RSP || (event->gives && !pool))
		return false;
	*ret = (struct pymalloc_place){
		.vaddr = vaddr,
		.block = (uint8_t)block,
		.pool = (uint8_t)pool,
		.emulated = probe_site__is_emulated(insn->bytes, insn->size),
	};
	snprintf(ret->instruction, sizeof(ret->instruction), "%.24s%s%.38s", insn->mnemonic,
		 insn->op_str[0] ? " " : "", insn->op_str);
	return true;
}

/* Finds the last instruction before the end of the proof at which registers hold the block and its
 * pool. (The code may need the block's register for something else before the proof is
 * complete.) */
static int find_earlier(struct finder *f, const struct path *path, const struct event *event,
			struct found *found)
{
	uint64_t next = 0;

	for (uint32_t n = path->n_recent; n && path->n_recent - n < MAX_RECENT; n--) {
		const struct recent *recent = &path->recent[(n - 1) % MAX_RECENT];
		struct flow_registers registers = recent->registers;
		struct flow_effect effect;
		int rc;

		if (recent->vaddr <= event->from || recent->vaddr > path->vaddr)
			return 0;
		rc = flow__step(&f->flow, recent->vaddr, &registers, &effect);
		if (rc)
			return rc == -ENOMEM ? rc : 0;
		/* no instruction from here to the end of the proof may lead elsewhere */
		if (recent->vaddr != path->vaddr &&
		    (effect.next != FLOW_ON || recent->vaddr + effect.len != next))
			return 0;
		next = recent->vaddr;
		if (describe(f, &recent->registers, event, recent->vaddr, &found->best)) {
			found->proved.vaddr = path->vaddr;
			return 0;
		}
	}
	return 0;
}

/* Records where a probe can see the block of an event that was just proved. One place is the
 * instruction that completes the proof. A better place is a later instruction that always follows
 * and that the kernel emulates. With a state, the place may have to be an earlier instruction.
 * before: the registers before the instruction that completes the proof. */
static int note_place(struct finder *f, const struct path *path,
		      const struct flow_registers *before, const struct event *event)
{
	struct flow_registers registers = *before;
	struct found found = {.from = event->from};
	uint64_t vaddr = path->vaddr;
	int rc = 0;

	for (int i = 0; i < MAX_AFTER; i++) {
		struct flow_registers held = registers;
		struct flow_effect effect;
		struct pymalloc_place place;

		rc = flow__step(&f->flow, vaddr, &registers, &effect);
		if (rc == -ENOMEM)
			return rc;
		if (rc || !describe(f, &held, event, vaddr, &place))
			break;
		if (!i || place.emulated)
			found.best = place;
		if (!i)
			found.proved = place;
		if (place.emulated || effect.next != FLOW_ON)
			break;
		vaddr += effect.len;
	}
	if (!found.proved.vaddr && f->follows)
		rc = find_earlier(f, path, event, &found);
	if (rc == -ENOMEM)
		return rc;
	if (!found.proved.vaddr || found.best.vaddr - found.from > MAX_WINDOW)
		return finder__refuse(f, "no place for a probe at %#llx",
				      (unsigned long long)path->vaddr);
	return add_found(f, &found);
}

void path__explain(struct finder *f, const struct path *path)
{
	for (unsigned int i = 0; i < f->shown.n_lookups && path->n_insns <= path->due; i++)
		f->shown.lookups[i].explained |= path->lookups >> i & 1;
}

/* With a state: may the store be a part of an event? An event follows a lookup, and changes no
 * memory of the stack. */
static bool may_show(const struct finder *f, const struct path *path, const struct store *s)
{
	return !f->follows || (path->due && path->n_insns <= path->due &&
			       s->at.id != path->registers.of[DECODE_RSP].id);
}

static int note_indexed_store(struct finder *f, const struct path *path,
			      const struct flow_place *to)
{
	struct flow_value root;

	if (path__looks_up(&f->flow, to, &root) && root.id == path->state.id && !f->array &&
	    (f->follows || root.off == f->tree)) {
		f->shown.registered = true;
		path__explain(f, path);
		return 1;
	}
	/* If walks follow no pointer: the mention is explained as soon as a path from it has shown
	 * that an arena joins or leaves the tree. Then this path may end. */
	return f->shown.registered && !f->follows;
}

int path__note_store(struct finder *f, struct path *path, const struct flow_registers *before,
		     const struct flow_effect *effect)
{
	struct store *s = &path->stores[path->n_stores++ % MAX_STORES];
	bool *shown = NULL;
	struct event event;

	*s = (struct store){effect->store.at, effect->stored, path->vaddr, effect->store.bytes};
	if (effect->store.indexed)
		s->bytes = 0;
	/* an arena leaves the array, or joins it */
	if (f->array && path__is_state(f, path, effect->store.at)) {
		path__explain(f, path);
		return 1;
	}
	if (effect->store.indexed)
		return note_indexed_store(f, path, &effect->store);
	if (!may_show(f, path, s))
		return 0;
	if (gives(f, path, s, &event)) {
		shown = &f->shown.given;
		f->shown.reused |= !flow_value__equal(event.pool, path->pool);
	}
	if (!shown && gives_first(path, s, &event))
		shown = &f->shown.first_given;
	if (!shown && takes_back(f, path, s, &event)) {
		shown = &f->shown.taken_back;
		f->shown.array = path->array;
	}
	if (!shown && lists(f, path))
		shown = &f->shown.listed;
	if (!shown)
		return f->shown.listed && !f->follows;
	*shown = true;
	path__explain(f, path);
	if (shown == &f->shown.listed)
		return 1;
	return note_place(f, path, before, &event) ?: 1;
}
