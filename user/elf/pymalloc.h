/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the copies of CPython's small-object allocator in code that was built with -flto. Finds the
 * places where probes see each block that the allocator gives out or takes back.
 *
 * Source: Objects/obmalloc.c of CPython 3.9, 3.10, 3.11 and 3.13. Blocks of up to 512 bytes lie in
 * pools, each of which begins with a header:
 *
 *	 0  uint32 ref.count	 blocks in use
 *	 8  block *freeblock	 head of the list of free blocks, linked by their first word
 *	16  poolp nextpool
 *	24  poolp prevpool
 *	32  uint32 arenaindex
 *	36  uint32 szidx	 size class: (szidx + 1) * 16 bytes
 *	40  uint32 nextoffset
 *	44  uint32 maxnextoffset
 *
 * The search follows values through registers (elf/flow.h), and so proves what the code does to
 * these fields:
 *
 *	a block is given out	b = pool->freeblock; n = *(block **)b; pool->freeblock = n
 *	... the first of a pool	szidx, nextoffset and freeblock of a pool are set, and
 *				b = pool + 48
 *	a block is taken back	l = pool->freeblock; *(block **)b = l; pool->freeblock = b
 *
 * Does the search find all copies? Code that gives out a block must find the block's pool in the
 * table usedpools. Code that takes a block back must ask the radix tree arena_map_root whether the
 * block lies in an arena. So the search must explain each mention of these two variables in the
 * code. Within a few dozen instructions, the mention must lead to one of the three patterns above,
 * or to code for another known purpose. Such code lists a pool, registers an arena, or asks for a
 * block's size.
 *
 * 3.9 has no tree. It has an array with an entry for each arena, and the pool's header has the
 * index of its arena's entry. Code that takes a block back must read the arena's address in this
 * entry:
 *
 *	 0  uintptr address	 0: there is no such arena
 *	 8  block *pool_address	 the first pool that was never used
 *	16  uint32 nfreepools
 *	20  uint32 ntotalpools
 *	24  poolp freepools
 *	32  arena *nextarena
 *	40  arena *prevarena
 *
 * The variable arenas points to the array. Code may keep this pointer for the next block that it
 * takes back. So the pointer is followed from each mention of the variable, like the state of 3.13
 * (below). If code adds an index to an address in the array, the result counts as the address of
 * another entry. Each read of an arena's address must lead to code for one of these purposes: it
 * takes back a block, asks for a block's size, visits the arena's pools, or begins or ends the
 * arena.
 *
 * From 3.13 on, the table and the tree are parts of a state (struct _obmalloc_state, which begins
 * with usedpools). The pointer PyInterpreterState.obmalloc leads to the state, and all code gets
 * the state's address from this pointer (get_state()). So each mention of the pointer's offset must
 * be explained. The offset is learnt from _PyObject_Free. From each mention the state's address is
 * followed through registers, the stack and calls, until nothing holds it any more. It is also
 * followed into functions that get this address, or the address of a part of the state, as an
 * argument. Each lookup of a pool or an arena in the state must be explained in one of the ways
 * above. Code is refused if it computes another address from the state's address, or keeps the
 * state's address where it cannot be followed.
 *
 * The search takes for granted that no code uses the state (or the array) in one of these ways:
 * behind an indirect call that got the state's address; behind a switch; in a register that the ABI
 * does not preserve across calls (-fipa-ra); through the address of a part that was stored in
 * memory before. Compilers have no reason to make such code in inlined copies. (In 3.9, code stores
 * addresses of parts in its lists of arenas. No function returns the array. The code that makes the
 * array larger calls another function before it takes back a block.) Test a new build by comparing
 * with sys.getallocatedblocks(). */
#ifndef MEMTRACE_ELF_PYMALLOC_H
#define MEMTRACE_ELF_PYMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"

#define PYMALLOC_SZIDX 36 /* offset of szidx in a pool's header */

struct pymalloc_place {
	uint64_t vaddr; /* vaddr of the instruction to probe */
	uint8_t block;	/* number (decode__register()) of the register that holds the block at this
			 * instruction */
	uint8_t pool;	/* number of the register that holds the block's pool; 0: the block is taken
			 * back */
	bool emulated;	/* as in struct probe_site */
	char instruction[64];
};

#define PYMALLOC_ARENA_CODE 8

struct pymalloc {
	struct pymalloc_place *places; /* ascending by vaddr */
	size_t n;
	/* functions that begin pools; one of them gets new arenas from the kernel */
	struct code_range arena_code[PYMALLOC_ARENA_CODE];
	size_t n_arena_code;
	char why[96]; /* why the copies are not known */
};

/* Finds all places for probes. free_function: vaddr of the function that takes blocks back
 * (_PyObject_Free). 0; -ENOTSUP, with the reason in ret->why, when not all copies can be proved;
 * -ENOMEM. Call pymalloc__free() in any case.
 *
 * The search takes a quarter to half a second of CPU time. It is cut into slices of some
 * milliseconds, and meanwhile->fn is called after each slice. */
int pymalloc__find(const struct elf_image *image, uint64_t free_function,
		   const struct elf_meanwhile *meanwhile, struct pymalloc *ret);
void pymalloc__free(struct pymalloc *pymalloc);

#endif
