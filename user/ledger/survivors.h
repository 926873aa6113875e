/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts, by stack and age, what becomes of the blocks that are sampled in windows.
 * profile/windowed.h makes its estimates from these counts.
 *
 * A block that is born in a window is followed from then on. If it ends in that window, its end is
 * seen (struct abi_end). Every later window shows whether a block at its address is freed: the
 * block itself or a successor. Contents are compared, too. A keyed hash of the block's first bytes
 * is taken before its window ends, while the block is known to be alive. After each later window,
 * the hash is compared with a hash of the bytes at the address. Contents themselves are never kept.
 *
 * A block that was born just before the hash was taken may not have been filled in yet, so its
 * contents prove nothing (SURVIVORS_FILL_NS). Blocks that realloc has made in a window are counted
 * in reallocs.h, not here.
 *
 * Blocks that are followed take memory. When there are more than SURVIVORS_MAX, half of them,
 * chosen at random, are not followed any longer. survivors_stack.looked, the born bytes whose
 * contents can be judged, is then reduced in proportion. */
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

#define SURVIVORS_BYTES	  64   /* the most bytes of a block that are hashed */
#define SURVIVORS_SMALL	  4096 /* bytes: a page */
#define SURVIVORS_MAX	  32768
#define SURVIVORS_FILL_NS 2000000ULL

struct survivors_window {
	uint64_t number;	   /* its number among all windows so far, including dropped ones
				    * (ledger/old_windows.h). Set by survivors__meet() */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC. Probes were in place all that time. */
	uint64_t interval;	   /* the sampling interval, mean bytes */
	uint64_t allocs;	   /* allocating calls in the window */
	/* blocks allocated minus blocks freed: capture__net_blocks() */
	int64_t net_blocks;
	bool bulk;	 /* net_blocks is not known, because blocks that end with their pools are
			  * not counted */
	double stands;	 /* for how many windows it stands: 1, or more if others were dropped. Set
			  * like `number` */
	bool continuous; /* a stretch of continuous tracing, which stands for no other time */
	uint32_t parts;	 /* how many stretches are merged in it, at least 1. Set like `number` */
};

struct survivors_block {
	uint64_t addr;
	struct abi_live live;
	uint32_t window, stack; /* the window of its birth, and the stack that allocated it */
	uint32_t older;		/* 1 + index of the next older block at the address; 0: none */
	uint64_t hash;
	bool ended; /* its own end was seen */
	/* seen in the part of a window that is being harvested: a free at the block's address; the
	 * end of this block itself */
	bool freed_now, ended_now;
	bool hashed;  /* its contents were known when it was new */
	bool changed; /* its contents have changed since, or cannot be read any more */
	bool let_go;  /* not followed any more: removed at the next harvest */
	/* how often half of all blocks were let go since the birth of this block. It stands for
	 * 2^halved blocks */
	uint8_t halved;
};

/* May the block be live? It may if nothing shows that it is gone. */
static inline bool survivors_block__may_live(const struct survivors_block *block)
{
	return !block->ended && !block->changed;
}

/* The blocks that one stack allocated. */
struct survivors_stack {
	struct abi_stack_key key;
	struct windowed_born *born; /* ascending by window */
	/* for each element of `born`: the bytes of those born blocks whose contents can be
	 * judged */
	double *looked;
	size_t n_born;
	/* Counts by age: of the blocks born in the windows of each group, and of the blocks born in
	 * continuous stretches. NULL: nothing was counted. (A program may have ten thousand stacks,
	 * most of which allocate just once.) */
	struct survival_ages *groups[WINDOWED_GROUPS], *cohort;
	double alike; /* result of survivors__compare(): see struct windowed_stack */
	/* sized: bytes born in windows. small: the part of them in blocks of SURVIVORS_SMALL bytes
	 * and less */
	double sized, small;
	struct survivors_witness {
		/* Sums over windows after a block's birth. watched: the block's bytes times the net
		 * seconds for which its address was watched. freed: the block's bytes, once for
		 * each window that saw a free at its address. */
		double watched, freed;
		/* Both are indexed by a block's age in a window after its birth. Blocks count if
		 * their contents had not changed so far, and if they had not ended before the
		 * window. kept_s: the window's net seconds, added up over these blocks. ended: how
		 * many of these blocks ended in the window. */
		double kept_s[SURVIVAL_CLASSES], ended[SURVIVAL_CLASSES];
		/* All three are indexed by a block's age when contents are compared. Only blocks
		 * that were unchanged at the last comparison count. asked: the number of these
		 * blocks. asked_s: the net seconds since the last comparison, added up over these
		 * blocks. changed: how many of these blocks have changed. */
		double asked[SURVIVAL_CLASSES], asked_s[SURVIVAL_CLASSES],
			changed[SURVIVAL_CLASSES];
		/* result of survivors__compare(): see struct windowed_stack */
		float missed[SURVIVAL_CLASSES];
	} * witness; /* NULL: nothing was counted */
	/* the totals at the last call of survivors__take_sites() or survivors__pass_over() */
	uint64_t samples, bytes, objects_q16;
};

struct survivors_counts {
	uint64_t born, freed, replaced, changed, unmapped;
	uint64_t grown_unknown; /* born by realloc, with an unknown share of new bytes */
	uint64_t let_go;	/* blocks that are not followed any more, for want of room */
};

struct survivors_birth {
	uint32_t stack;
	/* weight: bytes. age_s: the block's age, in net seconds, when it ended. If the block did
	 * not end in the window of its birth: its age at the end of this window */
	double weight, age_s;
	bool died;
};

struct survivors {
	uint64_t seed[2];
	struct survivors_window *windows;
	size_t n_windows;
	uint64_t looked_ns; /* when contents were last compared */
	/* net seconds of the last window, and of its unharvested part: set during its harvest */
	double last_s, piece_s;
	bool met; /* the last window is not harvested yet */
	/* the last window's unharvested part: its start, and the allocating calls in it */
	uint64_t piece_ns, piece_allocs;
	uint64_t exec_ns;    /* when the present program began; 0: there was no exec */
	uint64_t stride;     /* one in `stride` of the older windows is kept: old_windows.c */
	uint64_t most_parts; /* at most this many stretches are merged into one: old_stretches.c */
	double dropped_s;    /* net seconds of the windows that are not kept any more */
	struct survivors_stack *stacks; /* in no order */
	size_t n_stacks, stacks_room;
	struct table by_key; /* stacks */
	struct survivors_block *blocks;
	size_t n_blocks, room;
	struct table by_addr; /* the newest block at each address */
	struct abi_end *ends; /* reported ends that are not counted yet */
	size_t n_ends, ends_room;
	/* The first n_late of `ends` came after the end of the part that was harvested last. They
	 * are already in `counts`. If the window goes on, they belong to its next part. */
	size_t n_late;
	struct survivors_birth *births; /* births in the window that is harvested */
	size_t n_births, births_room;
	struct survivors_counts counts;
	uint64_t random;
	/* Called for an address that need not be watched any more. May be NULL. */
	void (*forget)(void *ctx, uint64_t addr);
	void *ctx;
};

/* seed: secret random numbers, for the hash of addresses and for choices by chance. Free with
 * survivors__free(). */
void survivors__init(struct survivors *survivors, const uint64_t seed[2]);
void survivors__free(struct survivors *survivors);

/* Reads contents by n reads, and sets `ok` of each read that succeeds. 0, or negative errno: no
 * read succeeded. */
typedef int (*survivors_reader)(void *ctx, struct memory_read *reads, size_t n);

/* Notes the end of a block, in the order of the kernel's ring. 0 or -ENOMEM. */
int survivors__note_end(struct survivors *survivors, const struct abi_end *end);

/* Takes in a window that is ending. Call it at window->end_ns, while the window's probes are still
 * in place. addrs, live: addresses and records of the process's n blocks, read from the kernel
 * side's table a moment after window->end_ns. The blocks that were born in the window are followed
 * from now on, and their contents are read. now_ns: the time of that reading. If a window begins
 * where the last one ended, it continues the last one. (Both must be continuous, or neither.) If
 * window->continuous is set, no ends were reported, so a block that is missing from the table has
 * ended. forget() is called for blocks born in no window. 0 or -ENOMEM. */
int survivors__meet(struct survivors *survivors, const struct survivors_window *window,
		    uint64_t now_ns, const uint64_t *addrs, const struct abi_live *live, size_t n,
		    survivors_reader reader, void *ctx);

/* Returns how many seconds of [from, to], monotonic nanoseconds, lie in the window. */
double survivors_window__seconds(const struct survivors_window *window, uint64_t from, uint64_t to);

/* Returns how many seconds of [from, to] lie in windows that are not continuous stretches. */
double survivors__exposure(const struct survivors *survivors, uint64_t from, uint64_t to);

/* Returns windowed_run.hidden, for the windows from `from` on. This is the wall time per net second
 * within windows, divided by the wall time per net second of the whole run. net_s, wall_s: how long
 * the windows and the gaps between them last together, by the net clock and by the wall clock. 0:
 * not known. */
double survivors__hidden(const struct survivors *survivors, const struct net_clock *clock,
			 uint64_t from, double net_s, double wall_s);

/* Harvests the window, or the part of a window, of the last survivors__meet(): counts what became
 * of blocks in it. Call it when this part is over and survivors__note_end() was called for all ends
 * in it. Later ends may be noted before this call, too, even ends of blocks that were born in this
 * part. All these later ends count in the next part. clock: must reach to the part's end.
 * 0 or -ENOMEM. */
int survivors__harvest(struct survivors *survivors, const struct net_clock *clock);

/* Is the window of the last survivors__meet() a stretch of continuous tracing? */
static inline bool survivors__in_stretch(const struct survivors *survivors)
{
	return survivors->n_windows && survivors->windows[survivors->n_windows - 1].continuous;
}

/* Takes over the kernel side's counts so far, for each stack of the process. Call it before each
 * harvest: in a continuous stretch, births are known from these counts. 0 or -ENOMEM. */
int survivors__take_sites(struct survivors *survivors, const struct snapshot_sites *sites);
/* Like survivors__take_sites(), for counts that belong to no window. */
int survivors__pass_over(struct survivors *survivors, const struct snapshot_sites *sites);

/* Compares the contents of all blocks that may still live, for a profile of this moment. 0,
 * -ENOMEM, or what the reader returns. */
int survivors__look(struct survivors *survivors, const struct net_clock *clock, uint64_t now_ns,
		    survivors_reader reader, void *ctx);

/* Finds for every stack the chance q that a block's successor at its address has the same contents.
 * q is the larger of two estimates (struct windowed_stack):
 *
 *   alike   of all pairs of blocks with the same size: the share that has equal contents.
 *   missed  by age: the share of the changes that contents should show, but do not. In windows,
 *           frees are seen at the addresses of the stack's blocks, at a rate r. So if q were 0, the
 *           share 1 - exp(-r t) of the blocks would have changed after t seconds. Fewer have
 *           changed if successors have the same contents. (An object that points to its data may
 *           get its data at the same address as its predecessor did. Then the object and its
 *           predecessor are alike, though no two live objects are.)
 *           The rate of frees may be steady by the net clock or by the wall clock. Each clock gives
 *           a value, and missed is the lower one.
 *
 * 0 or -ENOMEM. */
int survivors__compare(struct survivors *survivors, const struct net_clock *clock);

/* Returns what is known of a stack; NULL: nothing. */
const struct survivors_stack *survivors__find(const struct survivors *survivors,
					      const struct abi_stack_key *key);

/* Returns the newest block at the address that is still followed; NULL: there is none. */
const struct survivors_block *survivors__at(const struct survivors *survivors, uint64_t addr);

/* Notes that the process has replaced its program (exec): blocks born before exec_ns are not
 * followed any more. Forgets what was counted for all stacks, and the window of the last
 * survivors__meet() if it is not harvested yet. */
void survivors__exec(struct survivors *survivors, uint64_t exec_ns);

#endif
