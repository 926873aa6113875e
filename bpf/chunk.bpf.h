/* SPDX-License-Identifier: GPL-2.0-only */
/* Which memory context of PostgreSQL (16 and later) a chunk belongs to. Eight bytes stand in front
 * of the chunk. The lowest bits of these eight bytes are the kind of context. If the chunk has a
 * block to itself, the upper bits are a fixed value. Otherwise the upper bits are the distance from
 * the block's header to the eight bytes, a multiple of 8. (From PostgreSQL 17 on, the fields
 * between the lowest and the upper bits have other places.) The block's header holds the context's
 * address.
 *
 * The context is looked up only for chunks that were reallocated. Only two kinds of context
 * reallocate chunks. */
#ifndef MEMTRACE_BPF_CHUNK_BPF_H
#define MEMTRACE_BPF_CHUNK_BPF_H

#include "compat.bpf.h"

#define CHUNK_KIND	 7ULL
#define CHUNK_GENERATION 4ULL /* GenerationContext; any other kind here: AllocSetContext */
#define CHUNK_FAR_SHIFT	 34
#define CHUNK_ALONE	 (0xb1a8db858eb6efbaULL >> CHUNK_FAR_SHIFT)

/* The size of a block's header in bytes, and the offset of the context's address in this header. */
#define ALLOC_SET_HEADER   40
#define ALLOC_SET_CONTEXT  0
#define GENERATION_HEADER  56
#define GENERATION_CONTEXT 16

/* Returns the address of the chunk's context. 0: it cannot be read. */
static __always_inline __u64 chunk_context(__u64 chunk)
{
	__u64 block = chunk - 8, word, far, context;
	bool generation;

	if (read_user_u64(&word, block))
		return 0;
	generation = (word & CHUNK_KIND) == CHUNK_GENERATION;
	far = word >> CHUNK_FAR_SHIFT;
	if (far == CHUNK_ALONE)
		block -= generation ? GENERATION_HEADER : ALLOC_SET_HEADER;
	else
		block -= far & ~7ULL;
	block += generation ? GENERATION_CONTEXT : ALLOC_SET_CONTEXT;
	return read_user_u64(&context, block) ? 0 : context;
}

#endif
