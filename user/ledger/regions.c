// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/regions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/vector.h"

#define PAGE	4096ULL
#define MAX_OPS (1U << 17) /* at most this many entries and returns wait; then half are applied */

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#define MAP_HUGE_MASK  0x3f
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* One half of a call: its effect at its entry, or at its return. */
struct region_op {
	uint64_t time_ns, serial;
	enum { OP_ENTRY, OP_RETURN, OP_EXEC } what;
	struct abi_region_call call;
	/* mremap only: the regions that the entry removed. The return needs these regions, so both
	 * halves point to them */
	struct regions *moved;
};

void region_book__free(struct region_book *b)
{
	/* The halves of a call share `moved`: the later half owns it. */
	for (size_t i = 0; i < b->n_ops; i++)
		if (b->ops[i].what == OP_RETURN && b->ops[i].moved) {
			regions__free(b->ops[i].moved);
			free(b->ops[i].moved);
		}
	regions__free(&b->map);
	free(b->sites);
	table__clear(&b->by_stack);
	free(b->ops);
	memset(b, 0, sizeof(*b));
}

/* --- sites --- */

static bool same_stack(const struct abi_stack_key *a, const struct abi_stack_key *b)
{
	return a->lo == b->lo && a->hi == b->hi;
}

/* The stack's key is a keyed hash already, so the table needs no other hash. */
static uint32_t *find_slot(const struct region_book *b, const struct abi_stack_key *stack)
{
	return TABLE_SLOT(&b->by_stack, stack->lo, i, same_stack(&b->sites[i].stack, stack));
}

/* Returns the site of a stack, which is added if it is new; NULL: out of memory. */
static struct region_site *site_of(struct region_book *b, const struct abi_stack_key *stack)
{
	int rc = table__reserve(&b->by_stack, b->n_sites + 1);
	uint32_t *slot;

	for (size_t i = 0; i < b->n_sites && rc > 0; i++)
		*find_slot(b, &b->sites[i].stack) = (uint32_t)i + 1;
	if (rc < 0)
		return NULL;
	slot = find_slot(b, stack);
	if (!*slot) {
		if (VECTOR_RESERVE(b->sites, b->sites_room, b->n_sites + 1))
			return NULL;
		b->sites[b->n_sites++] = (struct region_site){.stack = *stack};
		*slot = (uint32_t)b->n_sites;
	}
	return &b->sites[*slot - 1];
}

/* --- what a call does --- */

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return n > UINT64_MAX - unit ? n : (n + unit - 1) / unit * unit;
}

static uint64_t pages(uint64_t n)
{
	return round_up(n, PAGE);
}

/* Returns the bytes that the kernel maps: whole pages, or whole huge pages for anonymous huge
 * pages. */
static uint64_t mapped_bytes(uint64_t len, uint64_t flags)
{
	uint64_t shift = flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;

	if (!(flags & MAP_HUGETLB) || !(flags & MAP_ANONYMOUS))
		return pages(len);
	return round_up(len, 1ULL << (shift ? shift : 21));
}

static enum region_memory kind_of(uint64_t flags)
{
	if (flags & MAP_ANONYMOUS) /* the other flags matter only here: they say nothing of a mapped
				    * file */
		return flags & MAP_HUGETLB ? REGION_OF_HUGETLB
		       : flags & MAP_STACK ? REGION_OF_STACK
					   : REGION_OF_ANONYMOUS;
	return REGION_OF_FILE;
}

static void take(struct region_book *b, const struct abi_region_call *call, uint64_t start,
		 uint64_t bytes, enum region_memory kind)
{
	struct region region = {
		.start = start, .end = start + bytes, .tid = call->tid, .kind = kind};
	struct region_site *site;

	if (!bytes || region.end < start)
		return;
	b->taken++;
	/* the call's stack was lost, which is counted elsewhere */
	if (!call->stack.lo && !call->stack.hi) {
		regions__remove(&b->map, start, region.end, NULL);
		return;
	}
	site = b->map.n < REGIONS_MAX ? site_of(b, &call->stack) : NULL;
	if (!site) {
		b->too_many++;
		regions__remove(&b->map, start, region.end, NULL);
		return;
	}
	region.site = (uint32_t)(site - b->sites);
	if (regions__insert(&b->map, &region)) {
		b->too_many++;
		return;
	}
	site->objects++;
	site->bytes += bytes;
}

static bool moves(const struct abi_region_call *call)
{
	return call->addr != call->old_addr && call->old_len && !(call->flags & MREMAP_DONTUNMAP);
}

static void enter(struct region_book *b, const struct region_op *op)
{
	const struct abi_region_call *call = &op->call;
	uint64_t len = pages(call->len), old_len = pages(call->old_len);

	switch (call->kind) {
	case REGION_MUNMAP:
		regions__remove(&b->map, call->addr, call->addr + len, NULL);
		break;
	case REGION_BRK:
		if (call->addr < call->old_addr)
			regions__remove(&b->map, pages(call->addr), pages(call->old_addr), NULL);
		break;
	case REGION_MREMAP:
		if (call->flags & MREMAP_DONTUNMAP)
			break;
		if (len < old_len)
			regions__remove(&b->map, call->old_addr + len, call->old_addr + old_len,
					NULL);
		if (op->moved &&
		    regions__remove(&b->map, call->old_addr,
				    call->old_addr + (len < old_len ? len : old_len), op->moved))
			b->too_many++;
		break;
	}
}

/* Applies the return of mremap. Old memory keeps its owner; memory that mremap adds belongs to the
 * caller of mremap. */
static void remapped(struct region_book *b, const struct region_op *op)
{
	const struct abi_region_call *call = &op->call;
	uint64_t len = pages(call->len), old_len = pages(call->old_len);
	enum region_memory kind = REGION_OF_OTHER;
	const struct region *last;

	if (call->addr == call->old_addr) {
		last = old_len ? regions__find(&b->map, call->old_addr + old_len - 1) : NULL;
		if (len > old_len)
			take(b, call, call->old_addr + old_len, len - old_len,
			     last ? last->kind : kind);
		return;
	}
	regions__remove(&b->map, call->addr, call->addr + len, NULL);
	if (!moves(call)) { /* mremap makes a second mapping, and the first one stays where it is */
		last = regions__find(&b->map, call->old_addr);
		take(b, call, call->addr, len, last ? last->kind : kind);
		return;
	}
	for (size_t i = 0; op->moved && i < op->moved->n; i++) {
		struct region region = op->moved->at[i];

		kind = region.kind;
		region.start += call->addr - call->old_addr;
		region.end += call->addr - call->old_addr;
		if (regions__insert(&b->map, &region))
			b->too_many++;
	}
	if (len > old_len)
		take(b, call, call->addr + old_len, len - old_len, kind);
}

static void leave(struct region_book *b, const struct region_op *op)
{
	const struct abi_region_call *call = &op->call;

	switch (call->kind) {
	case REGION_MMAP:
		take(b, call, call->addr, mapped_bytes(call->len, call->flags),
		     kind_of(call->flags));
		break;
	case REGION_BRK:
		if (call->addr > call->old_addr)
			take(b, call, pages(call->old_addr),
			     pages(call->addr) - pages(call->old_addr), REGION_OF_BRK);
		break;
	case REGION_MREMAP:
		remapped(b, op);
		break;
	}
}

static void apply(struct region_book *b, struct region_op *op)
{
	switch (op->what) {
	case OP_ENTRY:
		enter(b, op);
		break;
	case OP_RETURN:
		leave(b, op);
		if (op->moved) {
			regions__free(op->moved);
			free(op->moved);
		}
		break;
	case OP_EXEC:
		for (size_t i = 0; i < b->map.n; i++)
			b->dropped_by_exec += b->map.at[i].site != EARLIER_SITE;
		regions__free(&b->map);
		b->n_sites = 0;
		table__clear(&b->by_stack);
		b->earlier_known = false;
		break;
	}
}

/* --- in order --- */

static int compare_ops(const void *a, const void *b)
{
	const struct region_op *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->serial > y->serial) - (x->serial < y->serial);
}

static void apply_first(struct region_book *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		apply(b, &b->ops[i]);
	memmove(b->ops, b->ops + n, (b->n_ops - n) * sizeof(*b->ops));
	b->n_ops -= n;
}

void region_book__settle(struct region_book *b, uint64_t until_ns)
{
	size_t n = 0;

	if (!b->n_ops)
		return;
	qsort(b->ops, b->n_ops, sizeof(*b->ops), compare_ops);
	while (n < b->n_ops && (b->ops[n].time_ns < until_ns || until_ns == UINT64_MAX))
		n++;
	apply_first(b, n);
}

/* Makes room for both halves of one more call. 0 or -ENOMEM. */
static int make_room(struct region_book *b)
{

	if (b->n_ops + 2 > MAX_OPS) {
		qsort(b->ops, b->n_ops, sizeof(*b->ops), compare_ops);
		apply_first(b, b->n_ops / 2);
	}
	return VECTOR_RESERVE(b->ops, b->ops_room, b->n_ops + 2);
}

void region_book__call(struct region_book *b, const struct abi_region_call *call)
{
	struct region_op op = {.call = *call};

	b->calls++;
	if (make_room(b)) {
		b->too_many++;
		return;
	}
	if (call->kind == REGION_MREMAP && moves(call)) {
		op.moved = calloc(1, sizeof(*op.moved));
		if (!op.moved) {
			b->too_many++;
			return;
		}
	}
	op.what = OP_ENTRY;
	op.time_ns = call->entry_ns;
	op.serial = b->serial++;
	b->ops[b->n_ops++] = op;
	op.what = OP_RETURN;
	op.time_ns = call->exit_ns > call->entry_ns ? call->exit_ns : call->entry_ns;
	op.serial = b->serial++;
	b->ops[b->n_ops++] = op;
}

void region_book__exec(struct region_book *b, uint64_t time_ns)
{
	if (make_room(b))
		return;
	b->ops[b->n_ops++] =
		(struct region_op){.what = OP_EXEC, .time_ns = time_ns, .serial = b->serial++};
}

int region_book__begin(struct region_book *b, const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++) {
		struct region region = {.start = maps->entries[i].start,
					.end = maps->entries[i].end,
					.site = EARLIER_SITE,
					.kind = REGION_OF_OTHER};

		if (region.start >= region.end)
			continue;
		if (regions__insert(&b->map, &region))
			return -ENOMEM;
		b->earlier_bytes += region.end - region.start;
	}
	b->earlier_known = true;
	return 0;
}

uint64_t region_book__live(const struct region_book *b, uint64_t *ret_earlier_gone)
{
	uint64_t live = 0, earlier = 0;

	for (size_t i = 0; i < b->map.n; i++) {
		const struct region *r = &b->map.at[i];

		*(r->site == EARLIER_SITE ? &earlier : &live) += r->end - r->start;
	}
	if (ret_earlier_gone)
		*ret_earlier_gone = b->earlier_known && b->earlier_bytes > earlier
					    ? b->earlier_bytes - earlier
					    : 0;
	return live;
}
