/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the search for copies of pymalloc. pymalloc.c finds where the code mentions the pools,
 * and asks the other two files what the code does with them. pymalloc_walk.c follows the paths from
 * each mention, and pymalloc_path.c tells what a path shows. */
#ifndef MEMTRACE_ELF_PYMALLOC_INTERNAL_H
#define MEMTRACE_ELF_PYMALLOC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/flow.h"
#include "elf/functions.h"
#include "elf/pymalloc.h"

#define PYMALLOC_CLASSES    32 /* size classes: 16 to 512 bytes */
#define PYMALLOC_PAIR_BYTES 16 /* bytes of usedpools for each class */
#define ARENA_BYTES	    48 /* bytes of an entry in the array of arenas (3.9) */

/* With a state, MAX_PATH limits the instructions from a lookup to its explanation. */
#define MAX_DECODED  1000000 /* at most this many instructions are decoded */
#define MAX_PATH     48	     /* a path has at most this many instructions */
#define MAX_STORES   12	     /* at most this many stores of a path are remembered */
#define MAX_RECENT   8	     /* instructions of a path that are remembered */
#define MAX_SLOTS    4	     /* at most this many places on the stack hold the state */
#define MAX_COMPUTED 16	     /* elements of path.computed */
#define MAX_LOOKUPS  32	     /* at most this many lookups on all paths from one mention */
#define MAX_CALLEES  512     /* at most this many functions may get the state as an argument */
#define MAX_FOUND    4096    /* at most this many places for probes */
#define MAX_WINDOW   96	     /* at most this many bytes from the proof's beginning to the place */

#define PYMALLOC_WAYS 512   /* most paths that wait to be walked; without a state: MAX_PATH */
#define PYMALLOC_SEEN 65536 /* elements of finder.seen; a power of 2 */

/* Offsets in a pool's header. */
enum field { REF_COUNT = 0, FREEBLOCK = 8, NEXTPOOL = 16, PREVPOOL = 24, SZIDX = PYMALLOC_SZIDX };

/* Offsets in an arena's entry. */
enum arena_field { ADDRESS = 0, POOL_ADDRESS = 8, NEXTARENA = 32, PREVARENA = 40 };

struct store {
	struct flow_value at, value;
	uint64_t vaddr; /* vaddr of the instruction that stores */
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
	struct flow_value pool; /* the value that was loaded from usedpools */
	uint64_t vaddr;
	uint32_t n_insns, n_stores, n_recent;
	struct store stores[MAX_STORES]; /* the last ones, in a ring */
	uint64_t array; /* vaddr of a variable: the path's last lookup was in the array to which
			 * this variable points (compare finder.array) */
	/* The fields below are used only when walks follow a pointer. */
	struct flow_value state;	    /* the followed pointer; FLOW_NUMBER: it was not loaded
					     * yet */
	struct flow_value slots[MAX_SLOTS]; /* where the stack holds the pointer; FLOW_NUMBER:
					     * unused */
	/* ids of values that were computed from addresses in the state in a way that flow.h does
	 * not follow; 0: unused */
	uint32_t computed[MAX_COMPUTED];
	struct recent { /* the last instructions, in a ring */
		uint64_t vaddr;
		struct flow_registers registers; /* the registers' values before the instruction */
	} recent[MAX_RECENT];
	uint32_t lookups;  /* lookups that are not explained yet: bit i is shown.lookups[i] */
	uint32_t n_before; /* value of n_stores at the last lookup */
	/* the path may explain its lookups (`lookups`) until n_insns is above this number. 0: there
	 * are no such lookups, or this path does not explain them any more */
	uint32_t due;
};

/* Places for a probe that sees an event. */
struct found {
	uint64_t from; /* vaddr of the instruction that begins the proof */
	/* The instruction that completes the proof. If no register holds the block there, only
	 * vaddr is set. */
	struct pymalloc_place proved;
	/* `proved`, or a cheaper place that is always reached from `proved`, or a place between
	 * `from` and `proved` where a register holds the block */
	struct pymalloc_place best;
};

/* What the paths from one mention have shown. */
struct shown {
	bool given, first_given, taken_back; /* events of these kinds were found */
	/* a block was given from a pool that had no block in use */
	bool reused;
	bool listed;	 /* a pool joins a list of usedpools */
	bool registered; /* an arena joins the tree, or leaves it */
	bool asked_size;
	/* If walks follow a pointer: each place where a path uses the pointer to look up a pool or
	 * an arena. `explained`: some path from there shows the purpose of the lookup. */
	struct lookup {
		uint64_t vaddr;
		bool explained;
	} lookups[MAX_LOOKUPS];
	unsigned int n_lookups;
	uint64_t array;	 /* a path that takes back a block had this value in path.array */
	bool unfinished; /* a path was too long, or led to an instruction that cannot be followed */
};

struct finder {
	struct flow flow;
	struct functions functions;
	/* Up to 3.11: the vaddrs of the variables usedpools and arena_map_root (0: not known yet).
	 * With a state: the offsets of both in the state. */
	uint64_t table, table_end, tree;
	/* In 3.9: the variable arenas, which points to the array of arenas; 0: not known */
	uint64_t array;
	/* Walks follow a pointer, to the state or to the array. The functions below call either of
	 * them "the state". */
	bool follows;
	/* From 3.13 on: the offset of the pointer to the state in struct _is, the interpreter; 0:
	 * there is no state */
	uint64_t state_off;
	/* Functions that may get the address of the state, or of a part of it, as an argument. */
	struct callee {
		uint64_t vaddr;
		unsigned int reg; /* the register with this argument: decode__register() */
		uint64_t off;	  /* offset of the part in the state */
	} callees[MAX_CALLEES];
	size_t n_callees;
	uint64_t main_state; /* vaddr of the main interpreter's state; 0: not known */
	struct shown shown;
	bool any_first;	   /* some code that begins a pool was found */
	uint64_t side_way; /* target of a branch that bypasses a proof; 0: none */
	struct path *paths;
	size_t n_paths, n_steps, n_decoded;
	/* what walks with a state have seen: hashes of a place in the code and of what was known
	 * there; 0: unused */
	uint64_t *seen;
	size_t n_seen, n_walks;
	struct found *found; /* ascending by best.vaddr */
	size_t n_found;
	struct elf_meanwhile meanwhile;
	size_t n_slice; /* units of work since the last call of meanwhile.fn */
	struct pymalloc *ret;
};

/* Counts `amount` units of work (pymalloc.c). Calls meanwhile.fn after each slice of work. */
void finder__work(struct finder *finder, size_t amount);
#define DECODE_WORK 16 /* units of work to decode an instruction */

/* Notes why the copies are not known. Returns -ENOTSUP. */
int __attribute__((format(printf, 2, 3)))
finder__refuse(struct finder *finder, const char *fmt, ...);

/* Is the access the last one of the three accesses that look up an address in the tree? The first
 * reads root[i], which points to a node. The second reads an entry of this node, which points to
 * another node. The third accesses an entry of this other node. *ret_root: where root is. */
bool path__looks_up(const struct flow *flow, const struct flow_place *place,
		    struct flow_value *ret_root);

/* Does the access look up an entry in an array that a variable points to? Returns the address of
 * the variable; 0: it does not. */
uint64_t path__looked_up_in(const struct flow *flow, const struct flow_place *place);

/* Is the value the pointer that the path follows? The addresses of all entries of an array are
 * taken for the same pointer. */
bool path__is_state(const struct finder *finder, const struct path *path, struct flow_value value);

/* Notes that the path's lookups are explained. */
void path__explain(struct finder *finder, const struct path *path);

/* Has the path stored a pointer in any memory but the stack? Then it does more than ask for a size.
 * If the path follows a pointer, only stores since the path's last lookup count. */
bool path__has_stored(const struct path *path);

/* Records a store on a path. before: the registers before the store. Returns 1 if the store shows
 * the purpose of the path or of the path's lookups, else 0; negative errno. */
int path__note_store(struct finder *finder, struct path *path, const struct flow_registers *before,
		     const struct flow_effect *effect);

/* Walks all paths from vaddr on, and fills in finder->shown. Each path ends where its purpose is
 * known, or where it leaves the code. With a state, a path goes on as long as something holds an
 * address in the state. callee: vaddr begins this function, which gets the state. NULL with a
 * state: the instruction at vaddr mentions the pointer to the state. 0 or negative errno. */
int finder__walk(struct finder *finder, uint64_t vaddr, const struct callee *callee);

/* Were all paths walked? Only then does an explanation count. */
bool finder__walked_all(const struct finder *finder);

#endif
