/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the caller of a frame by unwind tables, which user space makes from every binary's
 * .eh_frame. So code without frame pointers can be walked, and most distributions ship such code.
 *
 * One step finds the mapping that holds the pc, and in the mapping's table the rule for that pc.
 * The rule gives the CFA (rsp before the call) from rsp or rbp. The return address is at CFA - 8.
 * The caller's rsp is the CFA. The caller's rbp is unchanged, or stored at CFA - n. (In frames that
 * gcc has realigned, the CFA stands at rbp - n, and the caller's rbp at rbp.) If there is no rule
 * (JIT code, hand-written assembly), the walk tries that frame's frame pointer. The pc of a
 * caller's frame is the return address - 1. So the pc is inside the call, not after it.
 *
 * Go's code has no .eh_frame, keeps frame pointers, and switches stacks. Goroutines have stacks of
 * their own, and C code that they call uses the thread's stack. A frame pointer in Go's code may
 * lead to any stack, up or down. So only the limit of frames ends a walk in circles.
 *
 * The searches for mapping and rule are branch-free, so that the verifier walks one path, not one
 * for each outcome. For the same reason, the walk's state is in a map value, not on the stack. The
 * verifier does not track values in a map's memory, so these values do not multiply the verifier's
 * paths. */
#ifndef MEMTRACE_BPF_UNWIND_BPF_H
#define MEMTRACE_BPF_UNWIND_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* words of the stack that are read at once: an access to user memory costs 80 ns at any size */
#define WINDOW_WORDS	64
#define MAX_FRAME_BYTES (16ULL << 20) /* a larger frame is a sign of a wrong frame pointer */

#define GO_STACK_HIGH 8 /* offset of the stack's upper end in Go's struct runtime.g */

/* Offsets in struct ucontext_t (x86-64): uc_mcontext.gregs[REG_RBP, REG_RSP, REG_RIP]. */
#define UCONTEXT_RBP 120
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

#define PYTHON_WORDS 16 /* at most this many words of a Python frame are read; a power of two */

struct unwind {
	__u64 pc; /* the address that the rule is looked up for */
	__u64 sp, bp;
	__u64 window_addr; /* the address that `window` was read from; 0: nothing was read */
	__u64 window[WINDOW_WORDS];
	__u64 trampoline; /* address of the return probes' trampoline; 0: none */
	__u32 max_frames;
	__u32 bridged; /* 0, or the flag STACK_BRIDGED */
	__u32 may_ask; /* the walk may call ask_mapping() */
	/* the walk has followed a frame pointer through code whose file has no table yet */
	__u32 guessed;
	/* the state of python.bpf.h: */
	__u32 python_known; /* the thread's first Python frame was searched for */
	__u32 python_runs;  /* the next steps go through Python's frames */
	__u32 python_first; /* the next Python frame takes the native frame's place */
	__u64 python_frame; /* address of the next frame; 0: none */
	__u64 python_words[PYTHON_WORDS];
	struct abi_mapping asked; /* last answer of ask_mapping(); if start and end are 0, there is
				   * none */
	struct abi_stack stack;	  /* stack.end: why the walk would stop here */
};

/* Finds a chunk of an unwind table for the walk; NULL: there is none. tables.bpf.h defines this
 * function, and on the host a test does. */
static __always_inline const struct abi_unwind_chunk *unwind_chunk(__u32 table, __u32 chunk);

/* Finds the mapping that holds addr, as the kernel knows it (vma.bpf.h, or a test on the host). If
 * the kernel cannot tell, *ret is all zero. If ret->table is 0, the mapping is not a file's code.
 * If it is ABI_MAX_TABLES, the mapping is code of a file that has no table yet. */
int ask_mapping(__u64 addr, struct abi_mapping *ret);

/* Returns the return address that a return probe has hidden at slot; 0: it is not known. */
__u64 original_return(__u64 slot, __u64 trampoline);

static __always_inline int read_stack_word(struct unwind *u, __u64 addr, __u64 *ret)
{
	__u64 off = addr - u->window_addr;

	if (addr & 7)
		return -1;
	if (!u->window_addr || off > 8 * (WINDOW_WORDS - 1)) {
		/* All of a frame is at or above the frame's rsp. */
		__u64 from = addr - u->sp <= 8 * (WINDOW_WORDS - 1) ? u->sp & ~7ULL : addr;

		if (read_user(u->window, sizeof(u->window), from)) {
			u->window_addr = 0; /* the window would reach beyond the end of the stack */
			return read_user_u64(ret, addr) ? -1 : 0;
		}
		u->window_addr = from;
		off = addr - from;
	}
	*ret = u->window[(off >> 3) & (WINDOW_WORDS - 1)];
	return 0;
}

/* Reads the return address at slot. If the kernel has replaced it for a return probe, the result is
 * the original one. */
static __always_inline int read_return(struct unwind *u, __u64 slot, __u64 *ret)
{
	if (read_stack_word(u, slot, ret))
		return -1;
	if (u->trampoline && *ret == u->trampoline) {
		__u64 original = original_return(slot, u->trampoline);

		if (original)
			*ret = original;
	}
	return 0;
}

/* Returns all ones if a <= b, else 0, for numbers below 2^63. The barriers keep clang from making a
 * branch of the comparison. */
static __always_inline __u64 not_above(__u64 a, __u64 b)
{
	__u64 difference = b - a;

	barrier_var(difference);
	difference = (difference >> 63) - 1;
	barrier_var(difference);
	return difference;
}

/* Returns i, and shows the verifier that i is below size (a power of two). If i is below size
 * anyway, clang would see that the mask changes nothing, and leave the mask out. The barrier
 * prevents this. */
static __always_inline __u32 within(__u32 i, __u32 size)
{
	barrier_var(i);
	return i & (size - 1);
}

/* Returns the index of the last entry whose start is not above addr, or 0 if there is no such
 * entry. */
static __always_inline __u32 find_mapping(const struct abi_mappings *mappings, __u64 addr)
{
	__u32 i = 0, step;

	for (step = ABI_MAX_MAPPINGS / 2; step; step >>= 1) {
		__u32 at = within(i + step, ABI_MAX_MAPPINGS);

		i += step & (__u32)not_above(mappings->entries[at].start, addr);
	}
	return within(i, ABI_MAX_MAPPINGS);
}

static __always_inline __u32 find_row(const struct abi_unwind_chunk *chunk, __u32 pc)
{
	__u32 i = 0, step;

	for (step = ABI_CHUNK_ROWS / 2; step; step >>= 1) {
		__u32 at = within(i + step, ABI_CHUNK_ROWS);

		i += step & (__u32)not_above(chunk->rows[at].pc, pc);
	}
	return within(i, ABI_CHUNK_ROWS);
}

/* Marks the last return address in the stack as one that the kernel or makecontext() has put there,
 * not a call. The frame's code begins at this address; no call stands in front of it. Readers of
 * stacks subtract 1 from a return address, so the address is raised by 1. */
static __always_inline void mark_not_called(struct unwind *u)
{
	__u32 n = u->stack.n;

	if (n && n <= ABI_STACK_FRAMES)
		u->stack.ip[n - 1]++;
}

/* Finds the table for u->pc, and the pc within that table. First it searches the mappings from user
 * space (NULL: none yet), then it asks the kernel. It keeps the kernel's answer, because the
 * caller's code is likely to be in the same mapping. Returns 0, or -1 if u->pc is in no known
 * code. */
static __always_inline int find_table(struct unwind *u, const struct abi_mappings *mappings,
				      __u32 *table, __u64 *pc)
{
	if (mappings) {
		const struct abi_mapping *told = &mappings->entries[find_mapping(mappings, u->pc)];

		if (u->pc >= told->start && u->pc < told->end) {
			*table = told->table;
			*pc = u->pc - told->bias;
			return 0;
		}
	}
	if (!u->may_ask)
		return -1;
	if (u->pc < u->asked.start || u->pc >= u->asked.end)
		ask_mapping(u->pc, &u->asked);
	*table = u->asked.table;
	*pc = u->pc - u->asked.bias;
	return *table ? 0 : -1;
}

/* Returns the rule for u->pc, or ABI_UNWIND_NONE with the reason in u->stack.end. */
static __always_inline __u32 find_rule(struct unwind *u, const struct abi_mappings *mappings)
{
	const struct abi_unwind_chunk *chunk;
	__u32 i, rule, table;
	__u64 pc;

	u->stack.end = STACK_END_NO_MAPPING;
	if (find_table(u, mappings, &table, &pc))
		return ABI_UNWIND_NONE;
	u->stack.end = STACK_END_NO_TABLE;
	if (!table || pc >> 32)
		return ABI_UNWIND_NONE;
	chunk = unwind_chunk(table, 0);
	if (!chunk) {
		u->guessed = 1;
		return ABI_UNWIND_NONE;
	}
	chunk = unwind_chunk(table, find_row(chunk, (__u32)pc) + 1);
	if (!chunk)
		return ABI_UNWIND_NONE;
	u->stack.end = STACK_END_NO_RULE;
	i = find_row(chunk, (__u32)pc);
	if (chunk->rows[i].pc > (__u32)pc)
		return ABI_UNWIND_NONE;
	rule = chunk->rows[i].rule;
	/* The condition holds if u->pc is the last byte of a gap in front of a function. No call
	 * stands in a gap. So no call has put the return address (the address of the function's
	 * first byte) on the stack. makecontext() has put it there: a coroutine returns to this
	 * function. (A function whose row is the first of a chunk is not recognized.) */
	if ((rule & 7) == ABI_UNWIND_NONE &&
	    chunk->rows[within(i + 1, ABI_CHUNK_ROWS)].pc == (__u32)pc + 1) {
		mark_not_called(u);
		return ABI_UNWIND_END;
	}
	if ((rule & 7) == ABI_UNWIND_BAD)
		u->stack.end = STACK_END_BAD_RULE;
	return rule;
}

/* Goes one frame up by the frame pointer, in code without a rule. Returns 0, or -1 if this is not
 * possible. */
static __always_inline int step_by_frame_pointer(struct unwind *u, __u64 *ret)
{
	__u64 next;

	if (u->bp < u->sp || u->bp - u->sp > MAX_FRAME_BYTES || (u->bp & 7))
		return -1;
	if (read_return(u, u->bp + 8, ret) || read_stack_word(u, u->bp, &next))
		return -1;
	u->sp = u->bp + 16;
	u->bp = next;
	return 0;
}

/* Goes one frame up from Go's code. The plain rule uses the frame pointer. The other rule is for
 * the function that calls C on the thread's stack. During that call the goroutine's stack may move,
 * and frame pointers that lead to it from C become stale. So the function has stored its depth in
 * the goroutine's stack, and this depth stays right. Returns 0, or -1 if the stack is
 * unreadable. */
static __always_inline int step_in_go(struct unwind *u, __u32 rule, __u64 *ret)
{
	__u64 frame = u->bp;

	if (rule >> 4) {
		__u64 g, high = 0, depth;

		if (read_stack_word(u, u->sp + 8 * ((rule >> 4) & 0xfff), &g) ||
		    read_stack_word(u, u->sp + 8 * (rule >> 16), &depth))
			return -1;
		if (g && read_user_u64(&high, g + GO_STACK_HIGH))
			return -1;
		frame = g ? high - depth : depth;
		if (!(rule & 8))
			frame -= 8;
	}
	if ((rule & 8) && read_stack_word(u, frame, &u->bp))
		return -1;
	if (read_return(u, frame + 8, ret))
		return -1;
	u->sp = frame + 16;
	return 0;
}

/* Goes one frame up. Returns 0 if u->pc, u->sp and u->bp are now the caller's, and the return
 * address is in u->stack. Returns 1 if the walk is over; u->stack.end says why. */
static __always_inline int unwind_step(struct unwind *u, const struct abi_mappings *mappings)
{
	__u32 rule = find_rule(u, mappings), kind = rule & 7, n = u->stack.n;
	__u64 cfa, ret, off, saved;

	if (kind == ABI_UNWIND_END) {
		u->stack.end = STACK_END_COMPLETE;
		return 1;
	}
	if (n >= ABI_STACK_FRAMES || n >= u->max_frames) {
		u->stack.end = STACK_END_TRUNCATED;
		return 1;
	}
	if (kind == ABI_UNWIND_SIGNAL) {
		__u64 context = u->sp, bp, sp;

		u->stack.end = STACK_END_UNREADABLE;
		if (read_user_u64(&ret, context + UCONTEXT_RIP) ||
		    read_user_u64(&sp, context + UCONTEXT_RSP) ||
		    read_user_u64(&bp, context + UCONTEXT_RBP))
			return 1;
		mark_not_called(u);
		/* The interrupted code may use another stack (sigaltstack), above or below. */
		u->sp = sp;
		u->bp = bp;
		u->window_addr = 0;
		u->pc = ret; /* the code was interrupted at pc, and made no call there */
		u->stack.ip[n] = ret + 1;
		u->stack.n = n + 1;
		return 0;
	}
	if (kind == ABI_UNWIND_NONE || kind == ABI_UNWIND_BAD) {
		if (step_by_frame_pointer(u, &ret))
			return 1;
		u->bridged = STACK_BRIDGED;
		goto have_return;
	}
	if (kind == ABI_UNWIND_GO) {
		u->stack.end = STACK_END_UNREADABLE;
		if (step_in_go(u, rule, &ret))
			return 1;
		goto have_return;
	}
	off = (rule >> 16) * 8;
	cfa = kind == ABI_UNWIND_BP ? u->bp : u->sp;
	if (kind == ABI_UNWIND_PLT)
		off = 8 + ((u->pc & 15) >= 11 ? 8 : 0);
	cfa += off;
	saved = cfa - 8 * ((rule >> 4) & 0xfff);
	if ((rule & 0xffff) == (ABI_UNWIND_BP | 8)) { /* UNWIND_REALIGNED */
		u->stack.end = STACK_END_UNREADABLE;
		if (read_user_u64(&cfa, u->bp - off))
			return 1;
		saved = u->bp;
	}
	u->stack.end = STACK_END_NO_PROGRESS;
	if (cfa <= u->sp || cfa - u->sp > MAX_FRAME_BYTES)
		return 1;
	u->stack.end = STACK_END_UNREADABLE;
	if (read_return(u, cfa - 8, &ret))
		return 1;
	if (rule & 8) {
		__u64 bp;

		if (read_stack_word(u, saved, &bp))
			return 1;
		u->bp = bp;
	}
	u->sp = cfa;
have_return:
	if (!ret) {
		u->stack.end = STACK_END_COMPLETE;
		return 1;
	}
	u->stack.ip[n] = ret;
	u->stack.n = n + 1;
	u->pc = ret - 1;
	return 0;
}

#endif
