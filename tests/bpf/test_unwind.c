// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's unwinder over tables and stacks laid out by hand. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include "host_stack.h"
#include "unwind.bpf.h"
#include "vma.bpf.h"

#define TEXT	   0x555500000000ULL /* the code: one mapping, one table */
#define TRAMPOLINE 0x7fffffffe000ULL

/* Rules, packed as in user/elf/unwind.h. */
#define GO_FRAME (ABI_UNWIND_GO | 8u)
#define GO_SWITCH(g_off, depth_off, rbp_saved)                                                     \
	(ABI_UNWIND_GO | ((rbp_saved) ? 8u : 0) | (uint32_t)(g_off) / 8 << 4 |                     \
	 (uint32_t)(depth_off) / 8 << 16)
#define RULE(kind, cfa_off, rbp_slot)                                                              \
	((uint32_t)(kind) | ((rbp_slot) ? 8u : 0) | (uint32_t)(rbp_slot) << 4 |                    \
	 (uint32_t)((cfa_off) / 8) << 16)

static struct abi_mappings mappings;
static struct abi_unwind_chunk chunks[3]; /* the index, then two chunks of rows */
static uint64_t hidden_slot, hidden_return;
static struct abi_mapping kernel[2]; /* mappings that the kernel knows */
static unsigned int asked;

__u32 random_u32(void)
{
	return (__u32)rand();
}

__u64 trampoline_addr(void)
{
	return TRAMPOLINE;
}

__u64 original_return(__u64 slot, __u64 trampoline)
{
	assert_int_equal(trampoline, TRAMPOLINE);
	return slot == hidden_slot ? hidden_return : 0;
}

int ask_mapping(__u64 addr, struct abi_mapping *ret)
{
	asked++;
	*ret = (struct abi_mapping){};
	for (size_t i = 0; i < 2; i++)
		if (addr >= kernel[i].start && addr < kernel[i].end)
			*ret = kernel[i];
	return 0;
}

static const struct abi_unwind_chunk *unwind_chunk(__u32 table, __u32 chunk)
{
	return table == 1 && chunk < 3 ? &chunks[chunk] : NULL;
}

/* Lays out functions of 256 bytes each, from TEXT on. Function i has rules[i]. The second chunk
 * holds the second half of the functions. */
static void lay_table(const uint32_t *rules, size_t n)
{
	size_t half = (n + 1) / 2;

	memset(chunks, 0xff, sizeof(chunks));
	for (size_t i = 0; i < n; i++) {
		size_t chunk = i < half ? 1 : 2, row = i < half ? i : i - half;

		chunks[chunk].rows[row].pc = (uint32_t)i * 256;
		chunks[chunk].rows[row].rule = rules[i];
	}
	chunks[0].rows[0].pc = 0;
	if (n > half)
		chunks[0].rows[1].pc = (uint32_t)half * 256;
	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++)
		mappings.entries[i] = (struct abi_mapping){.start = 1ULL << 62};
	/* the code's mapping is neither alone nor the first */
	mappings.entries[0] = (struct abi_mapping){.start = 0x1000, .end = 0x2000};
	mappings.entries[1] = (struct abi_mapping){
		.start = TEXT, .end = TEXT + n * 256, .bias = TEXT, .table = 1};
	memset(memory, 0, sizeof(memory));
	hidden_slot = 0;
}

/* A return address inside function i. */
static uint64_t in(size_t i)
{
	return TEXT + i * 256 + 0x40;
}

/* Walks from function number `first`, as if this function had made a call. rsp is sp, rbp is bp. */
static void walk(struct unwind *u, size_t first, uint64_t sp, uint64_t bp, uint32_t max_frames)
{
	memset(u, 0, sizeof(*u));
	u->trampoline = trampoline_addr();
	u->max_frames = max_frames;
	u->stack.n = 2;
	u->stack.ip[0] = 1;
	u->stack.ip[1] = in(first);
	u->pc = in(first)-1;
	u->sp = sp;
	u->bp = bp;
	for (int i = 0; i < ABI_STACK_FRAMES && !unwind_step(u, &mappings); i++)
		;
}

static void by_stack_pointer_and_back_to_rbp(void **state)
{
	/* function 0 has a frame of 24 bytes; 1 has one, too, and saves rbp; 2 has a frame pointer;
	 * the stack starts with 3 */
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 32, 0), RULE(ABI_UNWIND_SP, 32, 2),
					 RULE(ABI_UNWIND_BP, 16, 2), RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 4);
	memory[3] = in(1);  /* function 0 at words 0..3 */
	memory[6] = at(20); /* function 1 at words 4..7: its saved rbp */
	memory[7] = in(2);
	memory[20] = 0x1234; /* function 2: its frame pointer is at word 20 */
	memory[21] = in(3);
	walk(&u, 0, at(0), 0xbad0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 5);
	assert_int_equal(u.stack.ip[2], in(1));
	assert_int_equal(u.stack.ip[3], in(2));
	assert_int_equal(u.stack.ip[4], in(3));
	assert_int_equal(u.bp, 0x1234);
	assert_int_equal(u.sp, at(22));
}

static void realigned_frame(void **state)
{
	/* function 0 is realigned: rbp is at word 4, and the CFA is stored two words below */
	static const uint32_t rules[] = {RULE(ABI_UNWIND_BP, 16, 0) | 8, RULE(ABI_UNWIND_BP, 16, 2),
					 RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 3);
	memory[2] = at(9);
	memory[4] = at(12);
	memory[8] = in(1);
	memory[12] = 0x1234;
	memory[13] = in(2);
	walk(&u, 0, at(0), at(4), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.stack.ip[2], in(1));
	assert_int_equal(u.stack.ip[3], in(2));
	assert_int_equal(u.bp, 0x1234);
	assert_int_equal(u.sp, at(14));
	memory[2] = at(0); /* no progress */
	walk(&u, 0, at(0), at(4), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_NO_PROGRESS);
	walk(&u, 0, at(0), 0x10, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
}

static void plt_entry(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_PLT, 0, 0), RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	for (uint64_t low = 0; low < 16; low++) {
		lay_table(rules, 2);
		memory[low >= 11 ? 1 : 0] = in(1); /* above the pushed index, if there is one */
		memset(&u, 0, sizeof(u));
		u.max_frames = ABI_STACK_FRAMES;
		u.stack.n = 2;
		u.pc = TEXT + low;
		u.sp = at(0);
		assert_int_equal(unwind_step(&u, &mappings), 0);
		assert_int_equal(u.stack.ip[2], in(1));
	}
}

static void signal_frame(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SIGNAL, 0, 0), RULE(ABI_UNWIND_SP, 16, 0),
					 RULE(ABI_UNWIND_END, 0, 0)};
	ucontext_t context = {};
	struct unwind u;

	(void)state;
	lay_table(rules, 3);
	/* the signal interrupted code on another stack, at lower addresses, as with sigaltstack */
	context.uc_mcontext.gregs[REG_RIP] = (greg_t)(TEXT + 256); /* at a function's first byte */
	context.uc_mcontext.gregs[REG_RSP] = (greg_t)at(8);
	context.uc_mcontext.gregs[REG_RBP] = 0x77;
	memcpy(&memory[4000], &context, sizeof(context));
	memory[9] = in(2);
	walk(&u, 0, at(4000), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.stack.ip[1], in(0) + 1);	 /* the trampoline begins at in(0) */
	assert_int_equal(u.stack.ip[2], TEXT + 256 + 1); /* reports subtract 1 */
	assert_int_equal(u.stack.ip[3], in(2));
	assert_int_equal(u.bp, 0x77);
}

static void frame_pointers_bridge_gaps(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 16, 0), RULE(ABI_UNWIND_NONE, 0, 0),
					 RULE(ABI_UNWIND_BAD, 0, 0), RULE(ABI_UNWIND_SP, 8, 0),
					 RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 5);
	memory[1] = 0x7000000; /* a JIT's code, in no mapping */
	memory[10] = at(20);   /* its frame */
	memory[11] = in(1);    /* code without information */
	memory[20] = at(30);
	memory[21] = in(2); /* code whose rule no table can hold */
	memory[30] = 0x99;
	memory[31] = in(3);
	memory[32] = in(4);
	walk(&u, 0, at(0), at(10), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 7);
	assert_int_equal(u.stack.ip[6], in(4));
}

/* Code with unwind information may use rbp for something other than a frame pointer. Such code must
 * not make the unwinder lose the frame pointer of code without unwind information. */
static void tables_restore_frame_pointers(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_NONE, 0, 0), RULE(ABI_UNWIND_SP, 32, 2),
					 RULE(ABI_UNWIND_NONE, 0, 0), RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 4);
	memory[10] = at(40); /* function 1's rbp: only looks like a frame pointer */
	memory[11] = in(1);
	memory[14] = at(30); /* function 1, words 12..15, saves function 2's frame pointer */
	memory[15] = in(2);
	memory[30] = 0x99;
	memory[31] = in(3);
	memory[40] = at(50);
	memory[41] = in(0);
	walk(&u, 0, at(0), at(10), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 5);
	assert_int_equal(u.stack.ip[3], in(2));
	assert_int_equal(u.stack.ip[4], in(3));
	assert_int_equal(u.bp, 0x99);
}

/* makecontext() writes the address of a function's first byte where a return address is expected.
 */
static void coroutine_start(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 16, 0), RULE(ABI_UNWIND_NONE, 0, 0),
					 RULE(ABI_UNWIND_SP, 8, 0), RULE(ABI_UNWIND_NONE, 0, 0),
					 RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 5);
	memory[1] = TEXT + 2 * 256;
	memory[2] = in(4);
	memory[10] = at(20); /* a frame pointer from before the coroutine */
	memory[11] = in(4);
	walk(&u, 0, at(0), at(10), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 3);
	assert_int_equal(u.stack.ip[2], TEXT + 2 * 256 + 1); /* reports subtract 1 */
	memory[1]--; /* an address that is one lower is in code without information */
	walk(&u, 0, at(0), at(10), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.stack.ip[3], in(4));
	memory[1] += 2; /* an address that is one higher is inside the function */
	walk(&u, 0, at(0), at(10), ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.sp, at(3));
}

/* A goroutine calls C, C calls back, and the goroutine calls C again. The goroutine's stack is now
 * at words 100 to 199. During C's first call this stack was at words 7000 and up, where other data
 * are now. C uses the thread's stack, from word 4000 on. */
static void go_changes_stacks(void **state)
{
	enum { C, ASMCGOCALL, CGOCALL, GO, CGOCALLBACK, CROSSCALL2, GOEXIT };
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 16, 0),
					 GO_SWITCH(0x30, 0x28, false),
					 RULE(ABI_UNWIND_SP, 32, 2),
					 GO_FRAME,
					 GO_FRAME,
					 RULE(ABI_UNWIND_SP, 24, 2),
					 RULE(ABI_UNWIND_END, 0, 0)};
	static const int expected[] = {C, ASMCGOCALL, CGOCALL, GO, CGOCALLBACK, CROSSCALL2,
				       C, ASMCGOCALL, CGOCALL, GO, GOEXIT};
	struct unwind u;

	(void)state;
	for (int in_thread = 0; in_thread < 2; in_thread++) {
		for (int saved = 0; saved < 2; saved++) {
			uint32_t changed[7];

			memcpy(changed, rules, sizeof(rules));
			changed[ASMCGOCALL] = GO_SWITCH(0x30, 0x28, saved);
			lay_table(changed, 7);
			memory[3000] = 0xbad; /* struct g: start and end of its stack */
			memory[3001] = at(200);

			memory[4001] = in(ASMCGOCALL); /* C's frame */
			memory[4002 + 5] = 200 * 8 - 110 * 8;
			memory[4002 + 6] = at(3000);
			if (in_thread) { /* no goroutine: Go's code runs on the thread's stack */
				memory[4002 + 5] = at(110);
				memory[4002 + 6] = 0;
			}
			/* the callback's stack: asmcgocall's return, cgocall's frame, Go's frame */
			memory[110] = saved ? at(114) : in(CGOCALL);
			memory[110 + saved] = saved ? in(CGOCALL) : memory[110];
			memory[113 + saved] = at(120); /* cgocall's 32 bytes */
			memory[114 + saved] = in(GO);
			memory[120] = at(4100); /* a frame pointer that leads to the other stack */
			memory[121] = in(CGOCALLBACK);

			memory[4100] = at(7000); /* stale: C's rbp */
			memory[4101] = in(CROSSCALL2);
			memory[4103] = at(7000);
			memory[4104] = in(C);
			memory[4106] = in(ASMCGOCALL);
			memory[4107 + 5] = 200 * 8 - 130 * 8;
			memory[4107 + 6] = at(3000);
			memory[7000] = at(7100);
			memory[7001] = 0x666; /* no address */

			memory[130] = saved ? at(134) : in(CGOCALL);
			memory[130 + saved] = saved ? in(CGOCALL) : memory[130];
			memory[133 + saved] = at(140);
			memory[134 + saved] = in(GO);
			memory[140] = 0; /* a goroutine's first frame */
			memory[141] = in(GOEXIT);

			walk(&u, C, at(4000), at(7000), ABI_STACK_FRAMES);
			assert_int_equal(u.stack.end, STACK_END_COMPLETE);
			assert_int_equal(u.stack.n, 1 + sizeof(expected) / sizeof(expected[0]));
			for (size_t i = 1; i < u.stack.n; i++)
				assert_int_equal(u.stack.ip[i], in((size_t)expected[i - 1]));
		}
	}
}

static void go_is_not_trusted(void **state)
{
	static const uint32_t rules[] = {GO_FRAME, GO_SWITCH(8, 0, true)};
	struct unwind u;

	(void)state;
	lay_table(rules, 2);
	memory[10] = at(50); /* two frames that point to each other */
	memory[11] = in(0);
	memory[50] = at(10);
	memory[51] = in(0);
	walk(&u, 0, at(0), at(10), 100);
	assert_int_equal(u.stack.end, STACK_END_TRUNCATED);
	assert_int_equal(u.stack.n, 100);
	memory[60] = at(100) - at(60); /* a depth that leads to its own word */
	memory[61] = at(70);
	memory[71] = at(100);
	walk(&u, 1, at(60), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.n, 3);
	assert_int_equal(u.stack.end, STACK_END_NO_MAPPING);
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES); /* no frame pointer */
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	walk(&u, 0, at(0), at(10) + 1, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	walk(&u, 0, at(0), at(STACK_WORDS) - 8, ABI_STACK_FRAMES); /* only half a frame */
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	memory[61] = 0xffffffffffffff00; /* not a goroutine's address */
	walk(&u, 1, at(60), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	memory[61] = at(70);
	memory[60] = at(101); /* the depth exceeds the address of the stack's end */
	walk(&u, 1, at(60), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	assert_int_equal(u.stack.n, 2);
}

static void ends_say_why(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 16, 0), RULE(ABI_UNWIND_NONE, 0, 0),
					 RULE(ABI_UNWIND_BAD, 0, 0), RULE(ABI_UNWIND_BP, 16, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 4);
	walk(&u, 1, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_NO_RULE);
	walk(&u, 2, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_BAD_RULE);
	walk(&u, 3, at(100), at(50), ABI_STACK_FRAMES); /* rbp is below rsp */
	assert_int_equal(u.stack.end, STACK_END_NO_PROGRESS);
	walk(&u, 0, at(STACK_WORDS), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	walk(&u, 0, at(0) + 4, 0, ABI_STACK_FRAMES); /* rsp is not a multiple of 8 */
	assert_int_equal(u.stack.end, STACK_END_UNREADABLE);
	memory[1] = 0x123456;
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_NO_MAPPING);
	assert_int_equal(u.stack.n, 3);
	memory[1] = 0; /* the first word of a thread's stack, in some C libraries */
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	mappings.entries[1].table = 0;
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_NO_TABLE);
	mappings.entries[1].table = 2; /* not loaded */
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_NO_TABLE);
}

static void limit_of_frames(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 8, 0), RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 2);
	for (int i = 0; i < 124; i++)
		memory[i] = in(0);
	memory[124] = in(1);
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.n, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE); /* it just fits */
	walk(&u, 0, at(0), 0, 126);
	assert_int_equal(u.stack.n, 126);
	assert_int_equal(u.stack.end, STACK_END_TRUNCATED);
	memory[124] = in(0);
	memory[125] = in(1);
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.n, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_TRUNCATED);
}

static void hidden_return_addresses(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 16, 0), RULE(ABI_UNWIND_SP, 16, 0),
					 RULE(ABI_UNWIND_END, 0, 0)};
	struct unwind u;

	(void)state;
	lay_table(rules, 3);
	memory[1] = in(1);
	memory[3] = TRAMPOLINE;
	hidden_slot = at(3);
	hidden_return = in(2);
	walk(&u, 0, at(0), 0, ABI_STACK_FRAMES);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(u.stack.ip[3], in(2));
}

/* Like walk(), but user space has given the process's mappings `told` to the kernel side. */
static void walk_untold(struct unwind *u, const struct abi_mappings *told, bool may_ask)
{
	memset(u, 0, sizeof(*u));
	u->may_ask = may_ask;
	u->max_frames = ABI_STACK_FRAMES;
	u->stack.n = 2;
	u->pc = in(0) - 1;
	u->sp = at(0);
	asked = 0;
	for (int i = 0; i < ABI_STACK_FRAMES && !unwind_step(u, told); i++)
		;
}

static void untold_mappings_are_asked_for(void **state)
{
	static const uint32_t rules[] = {RULE(ABI_UNWIND_SP, 8, 0), RULE(ABI_UNWIND_SP, 8, 0),
					 RULE(ABI_UNWIND_END, 0, 0)};
	static struct abi_mappings told;
	struct abi_mapping whole;
	struct unwind u;

	(void)state;
	lay_table(rules, 3);
	whole = mappings.entries[1];
	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++)
		told.entries[i] = (struct abi_mapping){.start = 1ULL << 62};
	memory[0] = in(0);
	memory[1] = in(1);
	memory[2] = in(2);

	/* one question is enough for addresses near each other */
	kernel[0] = whole;
	for (int i = 0; i < 2; i++) {
		walk_untold(&u, i ? &told : NULL, true);
		assert_int_equal(u.stack.end, STACK_END_COMPLETE);
		assert_int_equal(u.stack.n, 5);
		assert_int_equal(asked, 1);
	}
	/* The kernel is not asked for mappings that user space has given. Without may_ask it is
	 * asked for nothing. */
	walk_untold(&u, &mappings, true);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(asked, 0);
	walk_untold(&u, NULL, false);
	assert_int_equal(u.stack.end, STACK_END_NO_MAPPING);
	assert_int_equal(asked, 0);
	/* user space has given a mapping that covers only function 0 */
	told.entries[0] = whole;
	told.entries[0].end = TEXT + 0x100;
	walk_untold(&u, &told, true);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(asked, 1);
	/* the walk changes between two mappings, and each change needs a question */
	kernel[0].end = TEXT + 0x100;
	kernel[1] = whole;
	kernel[1].start = TEXT + 0x100;
	memory[0] = in(1);
	memory[1] = in(0);
	walk_untold(&u, NULL, true);
	assert_int_equal(u.stack.end, STACK_END_COMPLETE);
	assert_int_equal(asked, 4);
	/* a mapping that has no table, then no mapping at all */
	kernel[0].table = 0;
	walk_untold(&u, NULL, true);
	assert_int_equal(u.stack.end, STACK_END_NO_MAPPING);
	assert_int_equal(u.stack.n, 2);
	assert_int_equal(u.guessed, 0);
	kernel[0].table = ABI_MAX_TABLES; /* the file has no table yet */
	walk_untold(&u, NULL, true);
	assert_int_equal(u.stack.end, STACK_END_NO_TABLE);
	assert_int_equal(u.guessed, 1);
	kernel[0].end = kernel[0].start;
	walk_untold(&u, NULL, true);
	assert_int_equal(u.stack.end, STACK_END_NO_MAPPING);
	memset(kernel, 0, sizeof(kernel));
}

static void tables_fit_unchanged_files_only(void **state)
{
	static const struct mapped_file file = {
		.size = 5000, .changed_s = 1700000000, .changed_ns = 123456789};
	static const struct abi_file_table table = {.size = 5000,
						    .changed_s = 1700000000,
						    .changed_ns = 123456789,
						    .number = 7,
						    .shift = 0x200};
	struct abi_mapping mapping = {.start = TEXT, .end = TEXT + 0x1000};
	struct mapped_file other;

	(void)state;
	for (int i = 0; i < 3; i++) {
		other = file;
		other.size += i == 0;
		other.changed_s -= i == 1;
		other.changed_ns += i == 2;
		assert_int_equal(place_table(&mapping, &other, &table), -1);
		assert_int_equal(mapping.table, 0);
	}
	assert_int_equal(place_table(&mapping, &file, &table), 0);
	assert_int_equal(mapping.table, 7);
	assert_int_equal(TEXT + 0x34 - mapping.bias, 0x234);
}

/* Compares what the searches find with the entries that were laid out. */
static void searches_find_what_is_there(void **state)
{
	static uint32_t rules[ABI_CHUNK_ROWS * 2];
	size_t n = sizeof(rules) / sizeof(rules[0]);
	struct unwind u = {};

	(void)state;
	srand(3);
	for (size_t i = 0; i < n; i++)
		rules[i] = RULE(ABI_UNWIND_SP, 8 * (i % 60000 + 1), 0);
	lay_table(rules, n); /* both chunks are full */
	for (int round = 0; round < 100000; round++) {
		size_t i = (size_t)rand() % n;

		u.pc = TEXT + i * 256 + (uint64_t)rand() % 256;
		assert_int_equal(find_rule(&u, &mappings), rules[i]);
	}
	for (size_t m = 0; m < ABI_MAX_MAPPINGS; m++)
		mappings.entries[m] = (struct abi_mapping){.start = 0x1000 * (m * 3 + 1),
							   .end = 0x1000 * (m * 3 + 2)};
	for (uint64_t addr = 0; addr < 0x1000ULL * ABI_MAX_MAPPINGS * 3; addr += 0x800) {
		size_t want = addr < 0x1000 ? 0 : (addr / 0x1000 - 1) / 3;

		assert_int_equal(find_mapping(&mappings, addr),
				 want < ABI_MAX_MAPPINGS ? want : ABI_MAX_MAPPINGS - 1);
	}
}

static void anything_is_survived(void **state)
{
	uint32_t rules[64];
	struct unwind u;

	(void)state;
	srand(4);
	for (int round = 0; round < 20000; round++) {
		for (int i = 0; i < 64; i++)
			rules[i] = rand() % 3 ? RULE(rand() % 8, 8 * (rand() % 12), rand() % 6)
					      : (uint32_t)rand() * 2u;
		lay_table(rules, 64);
		for (int i = 0; i < 300; i++)
			memory[i] = rand() % 2	 ? in((size_t)rand() % 64) + (uint64_t)rand() % 99
				    : rand() % 2 ? at((size_t)rand() % 400) + (uint64_t)rand() % 2
						 : ((uint64_t)rand() << 33) ^ (uint64_t)rand();
		walk(&u, (size_t)rand() % 64, at((size_t)rand() % 40), memory[rand() % 300],
		     ABI_STACK_FRAMES);
		assert_in_range(u.stack.n, 2, ABI_STACK_FRAMES);
		assert_in_range(u.stack.end, 0, STACK_END_MAX - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_stack_pointer_and_back_to_rbp),
		cmocka_unit_test(realigned_frame),
		cmocka_unit_test(plt_entry),
		cmocka_unit_test(signal_frame),
		cmocka_unit_test(frame_pointers_bridge_gaps),
		cmocka_unit_test(tables_restore_frame_pointers),
		cmocka_unit_test(coroutine_start),
		cmocka_unit_test(go_changes_stacks),
		cmocka_unit_test(go_is_not_trusted),
		cmocka_unit_test(ends_say_why),
		cmocka_unit_test(limit_of_frames),
		cmocka_unit_test(hidden_return_addresses),
		cmocka_unit_test(untold_mappings_are_asked_for),
		cmocka_unit_test(tables_fit_unchanged_files_only),
		cmocka_unit_test(searches_find_what_is_there),
		cmocka_unit_test(anything_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
