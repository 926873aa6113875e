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
#include "base/vector.h"
#include "elf/flow.h"
#include "elf/functions.h"
#include "elf/probe_site.h"

#define CLASSES	     32		 /* size classes: 16 to 512 bytes */
#define PAIR_BYTES   16		 /* bytes of usedpools for each class */
#define MAX_CODE     (64u << 20) /* bytes */
#define MAX_MENTIONS 4096
#define MAX_PATH     48	    /* instructions of one path, at most */
#define MAX_STEPS    4096   /* instructions on all paths from one mention, at most */
#define MAX_INSNS    500000 /* instructions that are decoded, at most */
#define MAX_STORES   12	    /* stores of a path that are remembered, at most */
/* at most so many instructions after the proof are searched for a cheaper place */
#define MAX_AFTER  8
#define MAX_WINDOW 96 /* bytes from the proof's beginning to the place, at most */
/* Work is counted in units. One unit handles one jump, and takes some 50 ns. Decoding an
 * instruction takes DECODE_WORK units. SLICE units make a slice of work. */
#define SLICE	    20000
#define DECODE_WORK 16

enum field { REF_COUNT = 0, FREEBLOCK = 8, NEXTPOOL = 16, PREVPOOL = 24, SZIDX = PYMALLOC_SZIDX };
#define HEADER_BYTES 48

struct store {
	struct flow_value at, value;
	uint64_t vaddr; /* of the instruction */
	uint8_t bytes;
};

/* A block that a path gives out or takes back. */
struct event {
	struct flow_value block, pool;
	bool gives;
	uint64_t from; /* vaddr of the instruction that begins the proof */
};

struct path {
	struct flow_registers registers;
	struct flow_value pool; /* what was loaded from usedpools */
	uint64_t vaddr;
	uint32_t n_insns, n_stores;
	struct store stores[MAX_STORES]; /* the last ones, in a ring */
};

/* Places for a probe that sees an event. */
struct found {
	uint64_t from;		      /* as in struct event */
	struct pymalloc_place proved; /* the instruction that completes the proof */
	/* `proved`, or a cheaper place that is always reached from `proved` */
	struct pymalloc_place best;
};

/* What the paths from one mention have shown. */
struct shown {
	bool given, first_given, taken_back; /* an event of this kind was found */
	/* a block was given from a pool that had no block in use */
	bool reused;
	bool listed;	 /* a pool joins a list of usedpools */
	bool registered; /* an arena joins the tree, or leaves it */
	bool asked_size;
};

struct finder {
	struct flow flow;
	struct functions functions;
	uint64_t table, table_end; /* usedpools */
	uint64_t tree;		   /* arena_map_root; 0: not known yet */
	struct shown shown;
	bool any_first;	   /* some code that begins a pool was found */
	uint64_t side_way; /* target of a branch that bypasses a proof; 0: none */
	struct path *paths;
	size_t n_paths, n_steps, n_decoded;
	struct found *found; /* ascending by best.vaddr */
	size_t n_found;
	struct pymalloc_meanwhile meanwhile;
	size_t n_slice; /* units of work since meanwhile.fn was called */
	struct pymalloc *ret;
};

/* Counts `amount` units of work. Calls meanwhile.fn after each slice of work. */
static void note_work(struct finder *f, size_t amount)
{
	f->n_slice += amount;
	if (f->n_slice < SLICE)
		return;
	f->n_slice = 0;
	if (f->meanwhile.fn)
		f->meanwhile.fn(f->meanwhile.ctx);
}

static int __attribute__((format(printf, 2, 3))) refuse(struct finder *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(f->ret->why, sizeof(f->ret->why), fmt, args);
	va_end(args);
	return -ENOTSUP;
}

/* --- the two variables --- */

/* Fills in the addresses that the dynamic linker would write into data (position-independent
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

/* Do two words of data look like a pair of usedpools? Each pair points to itself, so that its words
 * look like nextpool and prevpool of a pool: both hold the pair's address less 16. */
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
	for (size_t at = 0; !rc && at + PAIR_BYTES <= size && n < CLASSES;) {
		if (is_pair(data + at, vaddr + at)) {
			n++;
			at += PAIR_BYTES;
			f->table_end = vaddr + at;
		} else {
			at = n ? at : at + 8;
			n = 0;
		}
	}
	if (n < CLASSES)
		return refuse(f, "its table of pools is not known (usedpools)");
	f->table = f->table_end - CLASSES * PAIR_BYTES;
	return 0;
}

/* Is the load the last of three that look up an address in the tree? The first reads root[i], which
 * points to a node. The second reads an entry of this node, which points to another node. The third
 * reads from this other node. */
static bool looks_up(const struct flow *flow, const struct flow_place *place, uint64_t *ret_root)
{
	struct flow_place node, root;

	if (!place->bytes || !place->indexed)
		return false;
	node = flow__origin(flow, (struct flow_value){.id = place->at.id});
	if (node.bytes != 8 || !node.indexed)
		return false;
	root = flow__origin(flow, (struct flow_value){.id = node.at.id});
	if (root.bytes != 8 || !root.indexed || root.at.id != FLOW_NUMBER)
		return false;
	*ret_root = root.at.off;
	return true;
}

/* --- what a path shows --- */

static const struct store *find_store(const struct path *path, struct flow_value at, uint8_t bytes)
{
	/* the last store to this place */
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

/* Has the path written a pointer to memory other than the stack? Then it does more than ask for a
 * size. */
static bool has_stored(const struct path *path)
{
	uint32_t stack = path->registers.of[DECODE_RSP].id;

	for (uint32_t i = 0; i < MAX_STORES && i < path->n_stores; i++)
		if (path->stores[i].bytes == 8 && path->stores[i].at.id != stack)
			return true;
	return path->n_stores > MAX_STORES;
}

/* Does the path set the pool's count of blocks to 1? */
static bool counts_first(const struct path *path, struct flow_value pool)
{
	const struct store *count = find_store(path, behind(pool, REF_COUNT), 4);

	return count && count->value.id == FLOW_NUMBER && count->value.off == 1;
}

/* Does the store, the last one of the path, complete the giving out of a block? The pool is from
 * usedpools, or has had no blocks. */
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
 * began. The value that was loaded from pool->freeblock is stored in some place, and
 * pool->freeblock gets a new value. Code that changes the list of pools does not match, because
 * that list's links lie elsewhere in the header. */
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

/* Does the store complete the taking back of a block? Its two stores may come in any order. */
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
		return is_same(&f->found[at], new) ? 0
						   : refuse(f, "different things happen at %#llx",
							    (unsigned long long)new->best.vaddr);
	/* one block has one place */
	for (size_t i = 0; i < f->n_found; i++)
		if (f->found[i].proved.vaddr == new->proved.vaddr)
			return refuse(f, "several ways lead on from %#llx",
				      (unsigned long long)new->proved.vaddr);
	if (VECTOR_ADD_ROOM(f->found, f->n_found))
		return -ENOMEM;
	memmove(f->found + at + 1, f->found + at, (f->n_found++ - at) * sizeof(*f->found));
	f->found[at] = *new;
	return 0;
}

/* Records where a probe can see the block of an event that was just proved. One place is the
 * instruction that completes the proof. A better one is a later instruction that always follows and
 * that the kernel emulates. before: the registers before the instruction that completes the
 * proof. */
static int note_place(struct finder *f, const struct path *path,
		      const struct flow_registers *before, const struct event *event)
{
	struct flow_registers registers = *before;
	struct found found = {.from = event->from};
	uint64_t vaddr = path->vaddr;

	for (int i = 0; i < MAX_AFTER; i++) {
		const cs_insn *insn = f->flow.decoder.insn;
		unsigned int block = flow__holder(&registers, event->block);
		unsigned int pool = event->gives ? flow__holder(&registers, event->pool) : 0;
		struct flow_effect effect;
		bool emulated;
		int rc = flow__step(&f->flow, vaddr, &registers, &effect);

		if (rc == -ENOMEM)
			return rc;
		if (rc || !block || block == DECODE_RSP || pool == DECODE_RSP ||
		    (event->gives && !pool))
			break;
		emulated = probe_site__is_emulated(insn->bytes, insn->size);
		if (!i || emulated) {
			found.best = (struct pymalloc_place){.vaddr = vaddr,
							     .block = (uint8_t)block,
							     .pool = (uint8_t)pool,
							     .emulated = emulated};
			snprintf(found.best.instruction, sizeof(found.best.instruction),
				 "%.24s%s%.38s", insn->mnemonic, insn->op_str[0] ? " " : "",
				 insn->op_str);
		}
		if (!i)
			found.proved = found.best;
		if (emulated || effect.next != FLOW_ON)
			break;
		vaddr += effect.len;
	}
	if (!found.proved.vaddr || found.best.vaddr - found.from > MAX_WINDOW)
		return refuse(f, "no place for a probe at %#llx", (unsigned long long)path->vaddr);
	return add_found(f, &found);
}

/* Records a store on a path. 1: the purpose of the path is known. */
static int note_store(struct finder *f, struct path *path, const struct flow_registers *before,
		      const struct flow_effect *effect)
{
	struct store *s = &path->stores[path->n_stores++ % MAX_STORES];
	bool *shown = NULL;
	struct event event;
	uint64_t root;

	*s = (struct store){effect->store.at, effect->stored, path->vaddr, effect->store.bytes};
	if (effect->store.indexed) {
		s->bytes = 0;
		f->shown.registered |= looks_up(&f->flow, &effect->store, &root) && root == f->tree;
		return f->shown.registered;
	}
	if (gives(f, path, s, &event)) {
		shown = &f->shown.given;
		f->shown.reused |= !flow_value__equal(event.pool, path->pool);
	}
	if (!shown && gives_first(path, s, &event))
		shown = &f->shown.first_given;
	if (!shown && takes_back(f, path, s, &event))
		shown = &f->shown.taken_back;
	if (shown) {
		*shown = true;
		return note_place(f, path, before, &event) ?: 1;
	}
	f->shown.listed |= lists(f, path);
	return f->shown.listed;
}

/* --- walking --- */

static bool in_table(const struct finder *f, const struct flow_place *place)
{
	return place->bytes == 8 && place->at.id == FLOW_NUMBER &&
	       place->at.off - f->table < f->table_end - f->table;
}

/* Walks the path's next instruction. 1: the path ends here. */
static int walk_step(struct finder *f, struct path *path)
{
	struct flow_registers before = path->registers;
	struct flow_effect effect;
	uint64_t root;
	int rc = flow__step(&f->flow, path->vaddr, &path->registers, &effect);

	if (rc)
		return rc == -ENOMEM ? rc : 1;
	if (in_table(f, &effect.load))
		path->pool = effect.loaded;
	if (!f->tree && looks_up(&f->flow, &effect.load, &root))
		f->tree = root;
	if (effect.load.bytes == 4 && !effect.load.indexed && effect.load.at.off == SZIDX &&
	    !has_stored(path))
		f->shown.asked_size = true;
	rc = effect.store.bytes ? note_store(f, path, &before, &effect) : 0;
	if (rc)
		return rc;
	if (effect.next == FLOW_BRANCH) {
		struct path *other = &f->paths[f->n_paths++];

		if (f->n_paths > MAX_PATH)
			return refuse(f, "too many ways lead on from %#llx",
				      (unsigned long long)path->vaddr);

		*other = *path;
		other->vaddr = effect.target;
	}
	path->vaddr = effect.next == FLOW_JUMP ? effect.target : path->vaddr + effect.len;
	return effect.next == FLOW_END || ++path->n_insns == MAX_PATH;
}

/* Walks all paths from vaddr on. Each ends where its purpose is known, or where it leaves the
 * code. */
static int walk(struct finder *f, uint64_t vaddr)
{
	struct path *path = &f->paths[0];
	int rc;

	f->n_steps = 0;
	f->shown = (struct shown){};
	*path = (struct path){.vaddr = vaddr};
	rc = flow__begin(&f->flow, true, &path->registers);
	f->n_paths = 1;
	while (!rc && f->n_paths && f->n_steps < MAX_STEPS) {
		struct path now = f->paths[--f->n_paths];

		while (!rc && f->n_steps++ < MAX_STEPS)
			rc = walk_step(f, &now);
		rc = rc == 1 ? 0 : rc;
	}
	f->n_decoded += f->n_steps;
	note_work(f, f->n_steps * DECODE_WORK);
	if (!rc && f->n_decoded > MAX_INSNS)
		rc = refuse(f, "its code takes too long to read");
	return rc;
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
	note_work(f, DECODE_WORK);
	if (++f->n_decoded > MAX_INSNS)
		return refuse(f, "its code takes too long to read");
	if (len <= 0 || !decoder__decode(&f->flow.decoder, code, (size_t)len, 0, vaddr))
		return refuse(f, "the instruction at %#llx does not decode",
			      (unsigned long long)vaddr);
	return 0;
}

static void note_chunk(void *ctx)
{
	note_work(ctx, SLICE);
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
		return refuse(f, "its tables are mentioned more than %d times", MAX_MENTIONS);
	for (size_t i = 0; i < n && !rc; i++) {
		/* decode from the function's start, and each function once only */
		if (bytes[i] >= end && functions__around(&f->functions, bytes[i], &at, &end))
			return refuse(f, "the code at %#llx is of no known function",
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
		return refuse(f, "more than %d functions begin pools", PYMALLOC_ARENA_CODE);
	ret->arena_code[ret->n_arena_code++] = range;
	return 0;
}

/* Were all paths walked? Only then does an explanation count. */
static bool walked_all(const struct finder *f)
{
	return !f->n_paths && f->n_steps < MAX_STEPS;
}

static int explain_table(struct finder *f, uint64_t vaddr)
{
	int rc = walk(f, vaddr);

	f->any_first |= f->shown.first_given;
	if (!rc && f->shown.first_given)
		rc = note_arena_code(f, vaddr);
	if (rc || ((f->shown.given || f->shown.listed) && f->shown.reused == f->shown.first_given &&
		   walked_all(f)))
		return rc;
	return refuse(f, "what it does with a table of pools at %#llx is not known",
		      (unsigned long long)vaddr);
}

static int explain_tree(struct finder *f, uint64_t vaddr)
{
	int rc = walk(f, vaddr);

	if (rc ||
	    ((f->shown.taken_back || f->shown.asked_size || f->shown.registered) && walked_all(f)))
		return rc;
	return refuse(f, "what it does with the tree of arenas at %#llx is not known",
		      (unsigned long long)vaddr);
}

/* --- the proof that a probe may stand there --- */

/* Checks the target of a branch. No branch from elsewhere may lead to an instruction between the
 * beginning of a proof and the probe's place. If such a branch leads behind the end of the proof,
 * the place is moved back to that end. */
static void note_target(uint64_t target, void *ctx)
{
	struct finder *f = ctx;
	size_t at = SEARCH_FIRST(i, f->n_found, f->found[i].best.vaddr >= target);
	struct found *found = &f->found[at];

	note_work(f, 1);
	if (at == f->n_found || target <= found->from)
		return;
	if (target <= found->proved.vaddr)
		f->side_way = target;
	else
		found->best = found->proved;
}

/* Decodes the functions with places from their beginnings, so that each place is known to begin an
 * instruction. */
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
			rc = refuse(f, "no instruction begins at %#llx",
				    (unsigned long long)f->found[n].best.vaddr);
	}
	if (!rc && f->side_way)
		rc = refuse(f, "a branch leads to %#llx", (unsigned long long)f->side_way);
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
			return refuse(f, "two blocks are seen at %#llx",
				      (unsigned long long)ret->places[i].vaddr);
	return 0;
}

int pymalloc__find(const struct elf_image *image, uint64_t free_function,
		   const struct pymalloc_meanwhile *meanwhile, struct pymalloc *ret)
{
	struct finder f = {.meanwhile = *meanwhile, .ret = ret};
	uint64_t start, end;
	int rc;

	*ret = (struct pymalloc){};
	f.paths = calloc(MAX_PATH + 1, sizeof(*f.paths));
	rc = flow__open(&f.flow, image) || !f.paths ? -ENOMEM
						    : functions__read(image, &f.functions);
	if (rc == -ENOENT)
		rc = refuse(&f, "it has no table of functions (.eh_frame_hdr)");
	if (!rc && (elf_image__code_span(image, &start, &end) || end - start > MAX_CODE))
		rc = refuse(&f, "its code is too large");
	rc = rc ?: find_table(&f, image);
	rc = rc ?: walk(&f, free_function);
	if (!rc && !f.tree)
		rc = refuse(&f, "its tree of arenas is not known (arena_map_root)");
	note_work(&f, SLICE);
	rc = rc ?: each_mention(&f, f.table, f.table_end, explain_table);
	if (!rc && !f.any_first)
		rc = refuse(&f, "how it begins a pool is not known");
	rc = rc ?: each_mention(&f, f.tree, f.tree + 8, explain_tree);
	rc = rc ?: check_places(&f);
	rc = rc ?: give_places(&f);
	free(f.found);
	functions__free(&f.functions);
	flow__close(&f.flow);
	free(f.paths);
	return rc;
}

void pymalloc__free(struct pymalloc *pymalloc)
{
	free(pymalloc->places);
}
