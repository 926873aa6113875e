/* SPDX-License-Identifier: GPL-2.0-only */
/* Blocks that end with their pool. There are three kinds of pools: heaps of mimalloc that are
 * destroyed; pools of programs and runtimes that memtrace knows (PostgreSQL, nginx, APR, PHP);
 * pools that the user has named. The sampled blocks of each pool stand in a list, so that each of
 * them can be counted as freed when the pool ends. Before the first sampled block of a pool, frees
 * call no function of this file.
 *
 * The list is doubly linked by addresses, because blocks are also freed one by one, by any thread.
 * A BPF program takes the pool's lock before it changes the list. It does not wait for the lock,
 * because the lock's holder may be a BPF program that was interrupted on this very CPU. A BPF
 * program that does not get the lock leaves the list unchanged, which is safe. A block that is not
 * in the list does not end with its pool; it is counted as a loss. A block that is in the list but
 * no longer in the live table is passed over.
 *
 * Every pool has a number of its own. Each block in a list is stored with its pool's address and
 * number. If the pool that is now at this address has another number, the block belongs to an
 * earlier pool there.
 *
 * In a process that is traced in windows, the address of a block stays watched after the block's
 * end (BIRTH_ENDED). When a later pool at the same address ends, the block's address counts as
 * freed again. So the lists are kept until user space stops watching the addresses. */
#ifndef MEMTRACE_BPF_POOL_BPF_H
#define MEMTRACE_BPF_POOL_BPF_H

#include "abi.h"
#include "live.bpf.h"
#include "maps.bpf.h"

#define POOL_TRIES 16

static __always_inline bool pool_lock(struct abi_pool *pool)
{
	for (__u32 i = 0; i < POOL_TRIES; i++)
		if (!__sync_val_compare_and_swap(&pool->busy, 0, 1))
			return true;
	return false;
}

static __always_inline void pool_unlock(struct abi_pool *pool)
{
	__sync_lock_test_and_set(&pool->busy, 0);
}

/* Takes the block at addr out of its pool's list, because it was freed or moved. */
static __noinline int pool_leave(__u32 process, __u64 addr)
{
	struct abi_live_key key = {.addr = addr, .process = process}, other = {.process = process};
	struct abi_pooled *block = bpf_map_lookup_elem(&pooled, &key), *next;
	struct abi_pool *pool;
	__u64 before, after, pool_addr;

	if (!block)
		return 0;
	pool_addr = block->pool;
	other.addr = pool_addr;
	pool = bpf_map_lookup_elem(&pools, &other);
	if (!pool || pool->number != block->number) {
		bpf_map_delete_elem(&pooled, &key); /* the block's pool has ended */
		return 0;
	}
	if (!pool_lock(pool))
		return 0;
	before = block->before;
	after = block->after;
	if (pool->told == addr)
		pool->told = after;
	if (before) {
		other.addr = before;
		next = bpf_map_lookup_elem(&pooled, &other);
		if (next)
			next->after = after;
	} else {
		pool->first = after;
	}
	if (after) {
		other.addr = after;
		next = bpf_map_lookup_elem(&pooled, &other);
		if (next)
			next->before = before;
	}
	bpf_map_delete_elem(&pooled, &key);
	if (pool->first) {
		pool_unlock(pool);
		return 0;
	}
	/* The pool stays locked after its deletion. So a BPF program that has found the pool before
	 * cannot put a block into it. */
	other.addr = pool_addr;
	bpf_map_delete_elem(&pools, &other);
	return 0;
}

/* Puts the sampled block at addr into the list of the pool from which it was taken. */
static __noinline int pool_join(struct abi_process_cpu *cpu, __u32 process, __u64 pool_addr,
				__u64 addr)
{
	struct abi_live_key key = {.addr = pool_addr, .process = process};
	struct abi_pooled block = {.pool = pool_addr}, *next;
	struct abi_pool *pool;
	long err;

	pool = bpf_map_lookup_elem(&pools, &key);
	if (!pool) {
		struct abi_pool fresh = {.number = __sync_fetch_and_add(&n_pools, 1) + 1};

		bpf_map_update_elem(&pools, &key, &fresh, BPF_NOEXIST);
		pool = bpf_map_lookup_elem(&pools, &key);
	}
	if (!pool || !pool_lock(pool)) {
		if (cpu)
			lose(cpu, LOST_POOLED);
		return 0;
	}
	block.number = pool->number;
	block.after = pool->first;
	key.addr = addr;
	err = bpf_map_update_elem(&pooled, &key, &block, BPF_NOEXIST);
	if (!err && block.after) {
		key.addr = block.after;
		next = bpf_map_lookup_elem(&pooled, &key);
		if (next)
			next->before = addr;
	}
	if (!err)
		pool->first = addr;
	pool_unlock(pool);
	if (err && cpu)
		lose(cpu, LOST_POOLED);
	return 0;
}

/* The state of a walk along a pool's list. */
struct pool_walk {
	struct abi_process_cpu *cpu;
	const struct abi_process *process;
	__u64 addr, number;
	__u64 told; /* abi_pool.told, if it was set in this part of a window; else 0 */
	__u32 id;
	bool frees;
	bool stays; /* the list is kept, because the blocks' addresses are watched */
};

static long pool_step(__u32 i, struct pool_walk *walk)
{
	struct abi_live_key key = {.addr = walk->addr, .process = walk->id};
	struct abi_pooled *block = bpf_map_lookup_elem(&pooled, &key);

	if (!block || block->number != walk->number)
		return 1;
	if (walk->stays && walk->addr == walk->told)
		return 1;
	walk->addr = block->after;
	if (!walk->stays)
		bpf_map_delete_elem(&pooled, &key);
	if (walk->frees)
		live_forget(walk->cpu, walk->process, key.addr);
	return !walk->addr;
}

/* Handles the end of the pool at addr, just before the pool ends. frees: the pool's blocks end with
 * it; else the pool hands them over to another pool. */
static __noinline int pool_end(struct abi_process_cpu *cpu, __u64 addr, bool frees)
{
	struct abi_process *process = process_current();
	struct pool_walk walk = {.cpu = cpu, .process = process, .frees = frees};
	struct abi_live_key key = {.addr = addr};
	struct abi_pool *pool;
	bool locked;

	if (!process || !cpu)
		return 0;
	if (!use_tables) { /* without use_tables, the kernel may have no bpf_loop(), which a walk
			    * along the list needs */
		lose(cpu, LOST_POOLED);
		return 0;
	}
	walk.id = key.process = process->id;
	walk.stays = frees && process->watch;
	pool = bpf_map_lookup_elem(&pools, &key);
	if (!pool)
		return 0;
	walk.number = pool->number;
	locked = pool_lock(pool);
	if (locked)
		walk.addr = pool->first;
	else
		lose(cpu, LOST_POOLED);
	if (locked && pool->told_in == live_part(process))
		walk.told = pool->told;
	if (locked && walk.stays) { /* new blocks stand first in the list */
		pool->told = pool->first;
		pool->told_in = live_part(process);
	}
	/* a pool that is deleted stays locked: a program that has found it before cannot lock it
	 * any more */
	if (!walk.stays)
		bpf_map_delete_elem(&pools, &key);
	if (walk.addr)
		bpf_loop(ABI_MAX_POOLED, pool_step, &walk, 0);
	if (walk.stays && locked)
		pool_unlock(pool);
	return 0;
}

#endif
