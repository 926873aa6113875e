/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of blocks that are sampled in windows: the counts by stack and age that
 * profile/windowed.h estimates from.
 *
 * A block is followed from its birth in a window on. In that window its end is seen, if it comes
 * (struct abi_end). In every later one it is seen whether a block at its address is freed, its own
 * or a successor. And its contents: a keyed hash of its first bytes is taken before its window
 * ends, while it is known to be alive, and compared after each later window. Contents themselves
 * are never kept.
 *
 * A block that was born just before the hash was taken may not have been filled in yet; it says
 * nothing by its contents (SURVIVORS_FILL_NS). Blocks that realloc has made belong to reallocs
 * (reallocs.h), not here.
 *
 * All that is followed takes room: from SURVIVORS_MAX blocks on, every second one is let go, by
 * chance, and what was born with it counts for so much less. */
#ifndef MEMTRACE_LEDGER_SURVIVORS_H
#define MEMTRACE_LEDGER_SURVIVORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "bpf/abi.h"
#include "ledger/net_clock.h"
#include "capture/snapshot.h"
#include "proc/memory.h"
#include "profile/windowed.h"

#define SURVIVORS_BYTES	  64   /* of a block's contents that are looked at, at most */
#define SURVIVORS_SMALL	  4096 /* bytes: a page */
#define SURVIVORS_MAX	  32768
#define SURVIVORS_FILL_NS 2000000ULL

struct survivors_window {
	uint64_t start_ns, end_ns; /* monotonic: probes were in place all that time */
	uint64_t interval;	   /* at which it sampled, mean bytes */
	uint64_t allocs;	   /* calls in it that allocated */
	/* blocks that came less blocks that went: capture__net_blocks() */
	int64_t net_blocks;
	bool continuous; /* it stands for itself */
};

struct survivors_block {
	uint64_t addr;
	struct abi_live live;
	uint32_t window, stack; /* in which, and by which, it was born */
	uint32_t older;		/* the next older block at the address, index + 1; 0: none */
	uint32_t freed_in;	/* the last window with a free at the address, index + 1 */
	uint64_t hash;
	bool hashed;  /* its contents were known when it was new, */
	bool changed; /* and are other ones, or not there any more, since */
	bool ended;   /* it is known to be freed */
	bool let_go;  /* not followed any more: out with the next harvest */
};

/* Nothing that was seen speaks against it. */
static inline bool survivors_block__may_live(const struct survivors_block *block)
{
	return !block->ended && !block->changed;
}

/* What one stack gave birth to. */
struct survivors_stack {
	struct abi_stack_key key;
	struct windowed_born *born; /* ascending by window */
	/* of each of these: bytes born of whose contents something can be said */
	double *looked;
	size_t n_born, room;
	struct survival_ages *groups; /* WINDOWED_GROUPS */
	struct survival_ages *cohort; /* NULL: none was born in a continuous stretch */
	/* survivors__compare(): struct windowed_stack */
	double alike;
	float missed[SURVIVAL_CLASSES];
	/* bytes born in windows; of these, in blocks of SURVIVORS_SMALL bytes and less */
	double sized, small;
	struct survivors_witness {
		/* In windows after that of their birth: bytes times net seconds for which addresses
		 * of blocks were watched; bytes, with a free there. */
		double watched, freed;
		/* Of blocks that were unchanged so far, by age: blocks times net seconds in
		 * windows; blocks that ended there. */
		float kept_s[SURVIVAL_CLASSES], ended[SURVIVAL_CLASSES];
		/* Blocks that were unchanged when contents were looked at before, by age now; times
		 * net seconds since; what of them has changed. */
		float asked[SURVIVAL_CLASSES], asked_s[SURVIVAL_CLASSES], changed[SURVIVAL_CLASSES];
	} witness;
	/* allocated, when survivors__take_sites() was called last */
	uint64_t samples, bytes, objects_q16;
};

struct survivors_counts {
	uint64_t born, freed, replaced, changed, unmapped;
	uint64_t grown_unknown; /* born by realloc, and how much of them is new is not known */
	uint64_t let_go;	/* not followed any more, for want of room */
};

struct survivors_birth {
	uint32_t stack;
	double weight, age_s; /* bytes; how old it became in its window, net seconds */
	bool died;
};

struct survivors {
	uint64_t seed[2];
	struct survivors_window *windows;
	size_t n_windows;
	uint64_t looked_ns;		/* when contents were looked at last */
	double last_s;			/* net seconds of the last window, while it is harvested */
	bool met;			/* the last one is not harvested yet */
	uint64_t piece_ns;		/* of it: when what is not harvested yet began */
	struct survivors_stack *stacks; /* in no order */
	size_t n_stacks, stacks_room;
	struct table by_key; /* stacks */
	struct survivors_block *blocks;
	size_t n_blocks, room;
	struct table by_addr; /* the newest block there */
	struct abi_end *ends; /* told, and not taken in yet */
	size_t n_ends, ends_room;
	struct survivors_birth *births; /* of the window that is harvested */
	size_t n_births, births_room;
	struct survivors_counts counts;
	uint64_t random;
	/* Told of an address that nobody need watch any more. NULL: nobody. */
	void (*forget)(void *ctx, uint64_t addr);
	void *ctx;
};

void survivors__init(struct survivors *survivors, const uint64_t seed[2]);
void survivors__free(struct survivors *survivors);

/* Reads contents: n reads, of which each that succeeds becomes ok. 0 or negative errno: none
 * did. */
typedef int (*survivors_reader)(void *ctx, struct memory_read *reads, size_t n);

/* An end was told. Order is that of the kernel's ring. 0 or -ENOMEM. */
int survivors__note_end(struct survivors *survivors, const struct abi_end *end);

/* The last moment of a window, end_ns: its probes are in place still. live: the n blocks of the
 * process that the kernel side has a moment later, at addrs. Those of them that were born in the
 * window are followed from now on, and their contents read, at now_ns. What begins where the last
 * window ended is more of it. continuous: no ends were told; what is not there any more has ended.
 * Blocks born in no window are forgotten. 0 or -ENOMEM. */
int survivors__meet(struct survivors *survivors, const struct survivors_window *window,
		    uint64_t now_ns, const uint64_t *addrs, const struct abi_live *live, size_t n,
		    survivors_reader reader, void *ctx);

/* Seconds of [from, to], monotonic nanoseconds, that lie in the window. */
double survivors_window__seconds(const struct survivors_window *window, uint64_t from, uint64_t to);

/* The same of all windows that stand for others: none of them continuous. */
double survivors__exposure(const struct survivors *survivors, uint64_t from, uint64_t to);

/* By how much net time shows more, in windows from `from` on, of what goes by the wall clock:
 * windowed_run.hidden. net_s, wall_s: how long they and the gaps between them took, by either
 * clock. 0: not known. */
double survivors__hidden(const struct survivors *survivors, const struct net_clock *clock,
			 uint64_t from, double net_s, double wall_s);

/* The window that survivors__meet() was told of last is over, and all ends in it were told. clock:
 * reaches up to it. 0 or -ENOMEM. */
int survivors__harvest(struct survivors *survivors, const struct net_clock *clock);

/* sites: what the kernel side has counted so far of the process's stacks. Before each harvest: in a
 * continuous stretch it tells what was born. 0 or -ENOMEM. */
int survivors__take_sites(struct survivors *survivors, const struct snapshot_sites *sites);
/* The same of what belongs to no window. */
int survivors__pass_over(struct survivors *survivors, const struct snapshot_sites *sites);

/* Looks at the contents of all blocks that may still live: for a picture of the moment. 0 or what
 * the reader answers. */
int survivors__look(struct survivors *survivors, const struct net_clock *clock, uint64_t now_ns,
		    survivors_reader reader, void *ctx);

/* Finds for every stack the chance q that what comes after a block at its address has the same
 * contents. As alike as blocks of a size are to each other; and, where that is more, by how many
 * fewer blocks change between windows than end in them: with the rate r at which unchanged blocks
 * are seen to end, 1 - exp(-r t) of them should have changed after t seconds, if q were 0. (Objects
 * that point to their data find it at the same place again: they are as their predecessors were,
 * though no two that live are alike.) The frees may go by either clock: q is what both leave of it.
 * 0 or -ENOMEM. */
int survivors__compare(struct survivors *survivors, const struct net_clock *clock);

/* What is known of a stack; NULL: nothing. */
const struct survivors_stack *survivors__find(const struct survivors *survivors,
					      const struct abi_stack_key *key);

/* The process runs another program since: what is known of its memory is void. */
void survivors__exec(struct survivors *survivors, uint64_t exec_ns);

#endif
