// SPDX-License-Identifier: BSD-2-Clause
#include "session/evidence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH	     256
#define SECOND_LOOK_NS 1000000000ULL /* after the first; each later one after twice the time */
#define LOOKS (EVIDENCE_CONTENT | EVIDENCE_MAPPING | EVIDENCE_MARKS) /* what they are for */

/* glibc's chunks, on 64 bits; its own names. */
#define SIZE_SZ	     8ULL
#define MINSIZE	     32ULL
#define ALIGNMENT    16ULL
#define PREV_INUSE   1ULL
#define IS_MMAPPED   2ULL
#define FLAGS	     7ULL
#define PAGE	     4096ULL
#define MAX_CHUNK   (1ULL << 46)
#define WALK_CHUNKS 8		/* behind a block whose ends are looked at, */
#define WALK_BYTES  65536ULL	/* as far as they are near: no other memory is to be touched for it */
#define MAX_CACHED  1040ULL	/* of chunks in a thread's cache; fast bins hold smaller ones */
#define NEAR	    (1ULL << 30) /* of an arena's chunks, one from the other */

void evidence__init(struct evidence *e, unsigned kinds, const uint64_t seed[2])
{
	memset(e, 0, sizeof(*e));
	e->kinds = kinds;
	memcpy(e->seed, seed, sizeof(e->seed));
}

void evidence__free(struct evidence *e)
{
	free(e->windows);
	free(e->blocks);
	free(e->slots);
	memset(e, 0, sizeof(*e));
}

/* --- blocks by address --- */

static size_t home_of(const struct evidence *e, uint64_t addr)
{
	uint64_t h = (addr ^ e->seed[0]) * (e->seed[1] | 1);

	return (h ^ h >> 32) & (e->n_slots - 1);
}

/* The slot that names the block at addr, or the free one where it belongs. */
static size_t find_slot(const struct evidence *e, uint64_t addr)
{
	size_t i = home_of(e, addr);

	while (e->slots[i] && e->blocks[e->slots[i] - 1].addr != addr)
		i = (i + 1) & (e->n_slots - 1);
	return i;
}

static struct evidence_block *find(const struct evidence *e, uint64_t addr)
{
	uint32_t found = e->n_slots ? e->slots[find_slot(e, addr)] : 0;

	return found ? &e->blocks[found - 1] : NULL;
}

/* Room for n blocks. 0 or -ENOMEM. */
static int reserve(struct evidence *e, size_t n)
{
	struct evidence_block *blocks;
	size_t n_slots = e->n_slots ? e->n_slots : 256;
	uint32_t *slots;

	if (n > e->room) {
		size_t room = n > 2 * e->room ? n : 2 * e->room;

		blocks = reallocarray(e->blocks, room, sizeof(*blocks));
		if (!blocks)
			return -ENOMEM;
		e->blocks = blocks;
		e->room = room;
	}
	while (n_slots < 2 * n)
		n_slots *= 2;
	if (n_slots == e->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(e->slots);
	e->slots = slots;
	e->n_slots = n_slots;
	for (size_t i = 0; i < e->n_blocks; i++)
		slots[find_slot(e, e->blocks[i].addr)] = (uint32_t)i + 1;
	return 0;
}

/* Takes out all blocks for which it says so, in one go. */
static void remove_if(struct evidence *e,
		      bool (*dead)(struct evidence *e, struct evidence_block *block))
{
	size_t kept = 0;

	for (size_t i = 0; i < e->n_blocks; i++)
		if (!dead(e, &e->blocks[i]))
			e->blocks[kept++] = e->blocks[i];
	if (kept == e->n_blocks)
		return;
	e->n_blocks = kept;
	memset(e->slots, 0, e->n_slots * sizeof(*e->slots));
	for (size_t i = 0; i < e->n_blocks; i++)
		e->slots[find_slot(e, e->blocks[i].addr)] = (uint32_t)i + 1;
}

/* --- events --- */

/* Its free was seen: the kernel side has it no more. */
static bool is_gone(struct evidence *e, struct evidence_block *block)
{
	bool gone = (e->kinds & EVIDENCE_EVENTS) && block->seen != e->harvest;

	e->counts.freed += gone;
	return gone;
}

int evidence__harvest(struct evidence *e, uint64_t start_ns, uint64_t end_ns,
		      const uint64_t *addrs, const struct abi_live *live, size_t n,
		      uint64_t first_look_ns)
{
	struct evidence_window *windows;

	windows = reallocarray(e->windows, e->n_windows + 1, sizeof(*windows));
	if (!windows)
		return -ENOMEM;
	e->windows = windows;
	if (reserve(e, e->n_blocks + n))
		return -ENOMEM;
	/* what follows the last one at once is more of it */
	if (e->n_windows && windows[e->n_windows - 1].end_ns == start_ns)
		windows[--e->n_windows].end_ns = end_ns;
	else
		windows[e->n_windows] = (struct evidence_window){.start_ns = start_ns, .end_ns = end_ns};
	e->harvest++;
	for (size_t i = 0; i < n; i++) {
		struct evidence_block *block = find(e, addrs[i]);

		if (block && block->live.birth_ns == live[i].birth_ns) {
			block->seen = e->harvest;
			continue;
		}
		if (live[i].birth_ns < start_ns || live[i].birth_ns > end_ns) {
			if (e->settled)
				e->settled(e->ctx, addrs[i]);
			continue;
		}
		if (block)
			e->counts.replaced++;
		else
			block = &e->blocks[e->n_blocks];
		*block = (struct evidence_block){
			.addr = addrs[i],
			.live = live[i],
			.window = (uint32_t)e->n_windows,
			.next_ns = live[i].birth_ns + first_look_ns > end_ns
					   ? live[i].birth_ns + first_look_ns
					   : end_ns,
			.seen = e->harvest,
		};
		if (block == &e->blocks[e->n_blocks])
			e->slots[find_slot(e, addrs[i])] = (uint32_t)++e->n_blocks;
		e->counts.born++;
		e->counts.grown_unknown += live[i].birth == BIRTH_UNKNOWN;
	}
	e->n_windows++;
	remove_if(e, is_gone);
	return 0;
}

void evidence__exec(struct evidence *e, uint64_t exec_ns)
{
	size_t kept = 0;

	memset(e->whole, 0, sizeof(e->whole));
	for (size_t i = 0; i < e->n_blocks; i++)
		if (e->blocks[i].live.birth_ns >= exec_ns)
			e->blocks[kept++] = e->blocks[i];
	e->n_blocks = kept;
	if (e->n_slots)
		memset(e->slots, 0, e->n_slots * sizeof(*e->slots));
	for (size_t i = 0; i < kept; i++)
		e->slots[find_slot(e, e->blocks[i].addr)] = (uint32_t)i + 1;
}

/* --- content --- */

/* Two lanes of multiply and shift with secret multipliers; the rest of a word is zero. */
static uint64_t hash(const struct evidence *e, const unsigned char *content, size_t len)
{
	uint64_t h = e->seed[0] ^ len, k = e->seed[1] | 1;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, content + i, len - i < 8 ? len - i : 8);
		h = (h ^ word) * k;
		h ^= h >> 32;
	}
	return h;
}

static size_t look_len(const struct evidence_block *block)
{
	return block->live.size < EVIDENCE_BYTES ? block->live.size : EVIDENCE_BYTES;
}

/* content: what was read of it; NULL: it is not mapped. Before its time it tells only what has come to an end. */
static void look_at(struct evidence *e, struct evidence_block *block, uint64_t now_ns,
		    const unsigned char *content)
{
	bool early = block->next_ns > now_ns;
	uint64_t h;

	if (!content) {
		block->next_ns = UINT64_MAX;
		if (e->kinds & EVIDENCE_MAPPING)
			block->fate = FATE_UNMAPPED;
		return;
	}
	if (early && (!(e->kinds & EVIDENCE_CONTENT) || !block->hashed_ns))
		return;
	if (!(e->kinds & EVIDENCE_CONTENT)) {
		block->next_ns = now_ns + SECOND_LOOK_NS;
		return;
	}
	h = hash(e, content, look_len(block));
	if (!block->hashed_ns) {
		block->hash = h;
		block->hashed_ns = now_ns;
		block->next_ns = now_ns + SECOND_LOOK_NS;
	} else if (h == block->hash) {
		if (early)
			return;
		block->n_same++;
		block->next_ns = now_ns + 2 * (now_ns - block->hashed_ns);
	} else {
		block->fate = FATE_CHANGED;
	}
}

/* --- marks --- */

/* Bytes before a block that are read with it. */
static size_t header_len(const struct evidence *e)
{
	return (e->kinds & EVIDENCE_MARKS) && e->glibc ? SIZE_SZ : 0;
}

/* Of the chunk that a request of that size gets, at the least. */
static uint64_t chunk_size(uint64_t size)
{
	uint64_t chunk = (size + SIZE_SZ + ALIGNMENT - 1) & ~(ALIGNMENT - 1);

	return chunk < MINSIZE ? MINSIZE : chunk;
}

static size_t class_of(const struct evidence_block *block)
{
	uint64_t class = chunk_size(block->live.size) / ALIGNMENT;

	return class < EVIDENCE_CLASSES ? class : EVIDENCE_CLASSES - 1;
}

/* Have enough of its size been found as they should be? Of small ones, which are of many sizes, those of about its. */
static bool is_known(const struct evidence *e, const struct evidence_block *block)
{
	size_t class = class_of(block), near = class < EVIDENCE_CLASSES - 1 ? EVIDENCE_NEAR : 0;
	unsigned n = e->whole[class];

	for (size_t i = 1; i <= near; i++) {
		n += class >= i ? e->whole[class - i] : 0;
		n += class + i < EVIDENCE_CLASSES - 1 ? e->whole[class + i] : 0;
	}
	return n >= EVIDENCE_WHOLE;
}

/* It is not as a chunk in use must be, or not as it was: its fate, if what is expected is known to hold. */
static void note_broken(const struct evidence *e, struct evidence_block *block, enum evidence_fate fate)
{
	if (is_known(e, block))
		block->fate = fate;
}

/* Can that be a chunk's word? */
static bool is_chunk(uint64_t word)
{
	uint64_t size = word & ~FLAGS;

	return size % ALIGNMENT == 0 && size >= MINSIZE && size <= MAX_CHUNK;
}

/* Is that the chunk that the block got when it was allocated? */
static bool is_its_own(const struct evidence_block *block, uint64_t size)
{
	uint64_t least = chunk_size(block->live.size);

	return size >= least && size <= least + MINSIZE + (block->addr % PAGE ? 0 : PAGE);
}

/* Blocks that nothing speaks against so far, and for each what is read next: up to two words at an address. */
struct suspects {
	size_t n;
	size_t block[BATCH];
	uint64_t size[BATCH]; /* of the chunk that is known to be in question */
	uint64_t words[BATCH][2];
	struct evidence_read reads[BATCH];
};

static void suspects__add(struct suspects *s, size_t block, uint64_t size, uint64_t addr,
			  size_t n_words)
{
	s->block[s->n] = block;
	s->size[s->n] = size;
	s->reads[s->n] = (struct evidence_read){addr, s->words[s->n], n_words * SIZE_SZ, false};
	s->n++;
}

static int suspects__read(struct suspects *s, evidence_reader reader, void *ctx)
{
	return s->n ? reader(ctx, s->reads, s->n) : 0;
}

/* Rule 4: the block's first two words. */
static bool is_linked(const struct evidence_block *block, uint64_t size, const unsigned char *content)
{
	uint64_t words[2], next;

	if (size > MAX_CACHED || block->live.size < sizeof(words))
		return false;
	memcpy(words, content, sizeof(words));
	next = words[0] ^ block->addr >> 12;
	return words[1] && next % ALIGNMENT == 0 && (!next || next - block->addr + NEAR < 2 * NEAR);
}

/* Rules 1 and 4, for n blocks, which[], by the words before them, as they stand in reads[]. Of the others the word
 * of the next chunk is to be read. */
static void judge_own(struct evidence *e, const size_t *which, const struct evidence_read *reads,
		      size_t n, struct suspects *next)
{
	next->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct evidence_block *block = &e->blocks[which[i]];
		uint64_t word;

		if (block->fate || !reads[i].ok)
			continue;
		memcpy(&word, reads[i].to, sizeof(word));
		if (!is_chunk(word) ||
		    is_linked(block, word & ~FLAGS, (const unsigned char *)reads[i].to + SIZE_SZ))
			note_broken(e, block, FATE_MARKED);
		else if (!(word & IS_MMAPPED))
			suspects__add(next, which[i], word & ~FLAGS,
				      block->addr - SIZE_SZ + (word & ~FLAGS), 1);
	}
}

/* Rule 2. Of the others what stands between the next chunk and the one after it is to be read. */
static void judge_next(struct evidence *e, const struct suspects *s, struct suspects *next)
{
	next->n = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct evidence_block *block = &e->blocks[s->block[i]];
		uint64_t word = s->words[i][0];

		if (!s->reads[i].ok)
			continue; /* its end, but the next look will say so by the mapping */
		if (!(word & PREV_INUSE)) {
			note_broken(e, block, FATE_MARKED);
			continue;
		}
		if (is_its_own(block, s->size[i]) && e->whole[class_of(block)] < UINT8_MAX)
			e->whole[class_of(block)]++;
		if (is_chunk(word))
			suspects__add(next, s->block[i], s->size[i] + (word & ~FLAGS),
				      s->reads[i].addr - SIZE_SZ + (word & ~FLAGS), 2);
	}
}

/* Rule 3: what ends there is a free chunk that began before the block's, and what it says of its size is to be found at
 * its beginning as well, which is to be read. Where a chunk in use seems to end, what is behind it is looked at next. */
static void judge_foot(const struct suspects *s, struct suspects *heads, struct suspects *further)
{
	heads->n = further->n = 0;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t foot = s->words[i][0], word = s->words[i][1], end = s->reads[i].addr;
		uint64_t size = s->size[i] + (word & ~FLAGS);

		if (!s->reads[i].ok)
			continue;
		if (word & PREV_INUSE) {
			if (is_chunk(word) && size <= WALK_BYTES)
				suspects__add(further, s->block[i], size, end + (word & ~FLAGS), 2);
		} else if (foot > s->size[i] && is_chunk(foot)) {
			suspects__add(heads, s->block[i], foot, end - foot + SIZE_SZ, 1);
		}
	}
}

static void judge_head(struct evidence *e, const struct suspects *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->reads[i].ok && (s->words[i][0] & ~FLAGS) == s->size[i] &&
		    s->words[i][0] & PREV_INUSE)
			note_broken(e, &e->blocks[s->block[i]], FATE_MARKED);
}

/* Rule 5, where the others say nothing. */
static void judge_size(struct evidence *e, const size_t *which, const struct evidence_read *reads, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct evidence_block *block = &e->blocks[which[i]];
		uint64_t word;

		if (block->fate || !reads[i].ok || block->live.birth != BIRTH_NEW)
			continue;
		memcpy(&word, reads[i].to, sizeof(word));
		if (is_chunk(word) && !(word & IS_MMAPPED) && !is_its_own(block, word & ~FLAGS))
			note_broken(e, block, FATE_CHANGED);
	}
}

/* Judges the blocks of a batch that are still open. 0 or what the reader answers. */
static int look_at_marks(struct evidence *e, const size_t *which, const struct evidence_read *reads,
			 size_t n, evidence_reader reader, void *ctx)
{
	static struct suspects own, ends[2], heads;
	int rc;

	judge_own(e, which, reads, n, &own);
	rc = suspects__read(&own, reader, ctx);
	if (rc)
		return rc;
	judge_next(e, &own, &ends[0]);
	for (int step = 0; step < WALK_CHUNKS && ends[step % 2].n; step++) {
		struct suspects *last = &ends[step % 2];

		rc = suspects__read(last, reader, ctx);
		if (rc)
			return rc;
		judge_foot(last, &heads, &ends[(step + 1) % 2]);
		rc = suspects__read(&heads, reader, ctx);
		if (rc)
			return rc;
		judge_head(e, &heads);
	}
	judge_size(e, which, reads, n);
	return 0;
}

static bool is_settled(struct evidence *e, struct evidence_block *block)
{
	e->counts.unmapped += block->fate == FATE_UNMAPPED;
	e->counts.changed += block->fate == FATE_CHANGED;
	e->counts.marked += block->fate == FATE_MARKED;
	if (block->fate && e->settled)
		e->settled(e->ctx, block->addr);
	return block->fate;
}

/* At those whose time comes by due_ns. */
static int look(struct evidence *e, uint64_t now_ns, uint64_t due_ns, size_t max, evidence_reader reader, void *ctx)
{
	static unsigned char content[BATCH][EVIDENCE_MAX_READ];
	size_t looked = 0, i = 0, header = header_len(e);
	struct evidence_read reads[BATCH];
	int rc = 0;

	if (!(e->kinds & LOOKS))
		return 0;
	while (i < e->n_blocks && looked < max && !rc) {
		size_t which[BATCH], n = 0;

		for (; i < e->n_blocks && n < BATCH && looked + n < max; i++)
			if (e->blocks[i].next_ns <= due_ns) {
				reads[n] = (struct evidence_read){e->blocks[i].addr - header, content[n],
								  look_len(&e->blocks[i]) + header, false};
				which[n++] = i;
			}
		rc = n ? reader(ctx, reads, n) : 0;
		for (size_t k = 0; k < n && !rc; k++)
			look_at(e, &e->blocks[which[k]], now_ns,
				reads[k].ok ? content[k] + header : NULL);
		if (header && !rc)
			rc = look_at_marks(e, which, reads, n, reader, ctx);
		looked += n;
	}
	if (looked)
		remove_if(e, is_settled);
	return rc ? rc : (int)looked;
}

int evidence__look(struct evidence *e, uint64_t now_ns, size_t max, evidence_reader reader, void *ctx)
{
	return look(e, now_ns, now_ns, max, reader, ctx);
}

int evidence__look_early(struct evidence *e, uint64_t now_ns, evidence_reader reader, void *ctx)
{
	return look(e, now_ns, UINT64_MAX - 1, SIZE_MAX, reader, ctx);
}

uint64_t evidence__next_look(const struct evidence *e)
{
	uint64_t next = UINT64_MAX;

	if (e->kinds & LOOKS)
		for (size_t i = 0; i < e->n_blocks; i++)
			if (e->blocks[i].next_ns < next)
				next = e->blocks[i].next_ns;
	return next;
}

bool evidence__is_forgotten(const struct evidence *e, const struct evidence_block *block,
			    uint64_t long_ns)
{
	if (e->windows[block->window].end_ns - block->live.birth_ns >= long_ns)
		return true;
	return e->kinds & EVIDENCE_CONTENT ? block->n_same > 0 : true;
}

uint64_t evidence__n_forgotten(const struct evidence *e, uint64_t long_ns)
{
	uint64_t n = 0;

	for (size_t i = 0; i < e->n_blocks; i++)
		n += evidence__is_forgotten(e, &e->blocks[i], long_ns);
	return n;
}
