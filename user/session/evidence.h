/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of blocks that are sampled in windows: most of their frees happen while no probe is in
 * place. Three kinds of evidence are held together for each block.
 *
 *   events    its free, or a sampled block at its address, was seen in a later window: it is dead.
 *   content   a keyed hash of its first bytes, taken a moment after its window (whoever asked for it has
 *	       filled it in by then) and again later: changed, it is in use, or replaced; unchanged, it is
 *	       forgotten, or data that nobody writes to.
 *   mapping   its memory is not mapped any more: it is dead.
 *
 * What is left, the survivors, is what a leak leaves behind; what stays and is only read looks the same, but
 * is not added to for ever, which is what growth is computed from (profile/growth.h). The content itself
 * is never kept. */
#ifndef MEMTRACE_SESSION_EVIDENCE_H
#define MEMTRACE_SESSION_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

#define EVIDENCE_BYTES 64 /* of a block's content that are looked at, at most */

enum evidence_kind {
	EVIDENCE_EVENTS = 1,
	EVIDENCE_CONTENT = 2,
	EVIDENCE_MAPPING = 4,
	EVIDENCE_ALL = 7,
};

struct evidence_window {
	uint64_t start_ns, end_ns; /* monotonic: probes were in place all that time */
};

struct evidence_block {
	uint64_t addr;
	struct abi_live live;
	uint32_t window; /* index of the one in which it was born */
	uint32_t n_same; /* later looks that found its content unchanged */
	enum evidence_fate {
		FATE_OPEN,
		FATE_UNMAPPED,
		FATE_CHANGED, /* in use, or replaced */
	} fate;		  /* by looks; what is not open is on its way out of the book */
	uint64_t hash, hashed_ns; /* of its content when first looked at; hashed_ns 0: not yet */
	uint64_t next_ns;	  /* when to look at it again */
	uint64_t seen;		  /* number of the harvest that saw it last */
};

/* How many blocks ended how. */
struct evidence_counts {
	uint64_t born, freed, replaced, unmapped, changed;
};

struct evidence {
	unsigned kinds; /* enum evidence_kind, ORed: what counts */
	uint64_t seed[2];
	struct evidence_window *windows;
	size_t n_windows;
	struct evidence_block *blocks; /* alive and unchanged, as far as is known; in no order */
	size_t n_blocks, room;
	uint32_t *slots; /* by address; index + 1 */
	size_t n_slots;
	uint64_t harvest;
	struct evidence_counts counts;
	/* Told of a block that a look has settled: nobody need follow it any more. NULL: nobody. */
	void (*settled)(void *ctx, uint64_t addr);
	void *ctx;
};

void evidence__init(struct evidence *evidence, unsigned kinds, const uint64_t seed[2]);
void evidence__free(struct evidence *evidence);

/* A window is over. live: all n blocks that the kernel side tracks of the process at end_ns or later; those
 * born before start_ns or after end_ns and not known yet are passed over. first_look_ns: how long after its
 * end a block's content is looked at first. 0 or -ENOMEM. */
int evidence__harvest(struct evidence *evidence, uint64_t start_ns, uint64_t end_ns,
		      const uint64_t *addrs, const struct abi_live *live, size_t n,
		      uint64_t first_look_ns);

/* A piece of the process's memory. */
struct evidence_read {
	uint64_t addr;
	void *to; /* EVIDENCE_BYTES */
	size_t len;
	bool ok; /* set by the reader; false: not mapped */
};
/* Reads n pieces. 0, or negative errno when the process cannot be read at all. */
typedef int (*evidence_reader)(void *ctx, struct evidence_read *reads, size_t n);

/* Looks at blocks whose time has come, at most max of them. The number looked at, or negative errno. */
int evidence__look(struct evidence *evidence, uint64_t now_ns, size_t max, evidence_reader reader,
		   void *ctx);

/* When the next look is due; UINT64_MAX: never. */
uint64_t evidence__next_look(const struct evidence *evidence);

/* Is the block forgotten: looked at twice or more, and the same? (Without EVIDENCE_CONTENT: alive.) */
bool evidence__is_forgotten(const struct evidence *evidence, const struct evidence_block *block);

/* The process runs another program since: what is known of its memory is void. */
void evidence__exec(struct evidence *evidence, uint64_t exec_ns);

#endif
