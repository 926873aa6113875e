// SPDX-License-Identifier: BSD-2-Clause
/* The counts of blocks that stay or end, from the kernel side's messages and from the contents of
 * blocks. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ledger/survivors.h"

#define S	1000000000ULL
#define MS	1000000ULL
#define PROCESS 7
#define SIZE	64
#define FIRST	0x10000ULL /* address of block 0; one block every SIZE bytes */
#define BLOCKS	300	   /* more than are read at once */

static unsigned char memory[BLOCKS][SIZE];

static int read_memory(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		size_t block = (reads[i].addr - FIRST) / SIZE;

		reads[i].ok = reads[i].addr >= FIRST && block < BLOCKS;
		if (reads[i].ok)
			memcpy(reads[i].to, memory[block], reads[i].len);
	}
	return 0;
}

static uint64_t forgotten[BLOCKS];
static size_t n_forgotten;

static void forget(void *ctx, uint64_t addr)
{
	(void)ctx;
	forgotten[n_forgotten++ % BLOCKS] = addr;
}

/* ctx: a flag for each address from FIRST on. */
static void mark_forgotten(void *ctx, uint64_t addr)
{
	((bool *)ctx)[addr - FIRST] = true;
}

struct fixture {
	struct survivors s;
	struct net_clock clock; /* runs as fast as the wall clock */
};

static void begin(struct fixture *f)
{
	const uint64_t seed[2] = {11, 13};

	memset(f, 0, sizeof(*f));
	survivors__init(&f->s, seed);
	f->s.forget = forget;
	n_forgotten = 0;
	for (size_t i = 0; i < BLOCKS; i++)
		memset(memory[i], (int)i + 1, SIZE);
	net_clock__add(&f->clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__add(&f->clock, 1000 * S, 999e9, 0, NAN, NET_CLOCK_ENDS);
}

static void end(struct fixture *f)
{
	survivors__free(&f->s);
	net_clock__free(&f->clock);
}

static struct abi_live block_of(uint64_t birth_ns, uint64_t stack)
{
	return (struct abi_live){
		.size = SIZE, .interval = 1, .birth_ns = birth_ns, .stack = {stack, 1}, .tid = 1};
}

static void tell(struct fixture *f, size_t block, const struct abi_live *live, uint64_t time_ns,
		 enum abi_end_kind kind)
{
	const struct abi_end e = {.block = *live,
				  .addr = FIRST + block * SIZE,
				  .time_ns = time_ns,
				  .process = PROCESS,
				  .kind = kind};

	assert_int_equal(survivors__note_end(&f->s, &e), 0);
}

/* A window [start, start + 40 ms). The stack allocates n blocks at its beginning, from block
 * `first` on, and they are still there at its end. */
static void meet(struct fixture *f, uint64_t start, size_t first, size_t n, uint64_t stack)
{
	const struct survivors_window w = {.start_ns = start,
					   .end_ns = start + 40 * MS,
					   .interval = 1,
					   .allocs = 100,
					   .net_blocks = 1};
	struct abi_live live[BLOCKS];
	uint64_t addrs[BLOCKS];

	for (size_t i = 0; i < n; i++) {
		addrs[i] = FIRST + (first + i) * SIZE;
		live[i] = block_of(start + 1, stack);
	}
	assert_int_equal(survivors__meet(&f->s, &w, w.end_ns, addrs, live, n, read_memory, NULL),
			 0);
}

static void harvest(struct fixture *f)
{
	assert_int_equal(survivors__harvest(&f->s, &f->clock), 0);
}

static void window(struct fixture *f, uint64_t start, size_t first, size_t n, uint64_t stack)
{
	meet(f, start, first, n, stack);
	harvest(f);
}

static void look(struct fixture *f, uint64_t now)
{
	assert_int_equal(survivors__look(&f->s, &f->clock, now, read_memory, NULL), 0);
}

static const struct survivors_stack *stack_of(struct fixture *f, uint64_t stack)
{
	const struct abi_stack_key key = {stack, 1};
	const struct survivors_stack *found = survivors__find(&f->s, &key);

	assert_non_null(found);
	return found;
}

/* The sum of a field over all groups and classes. */
#define total(stack, field)                                                                        \
	({                                                                                         \
		double sum_ = 0;                                                                   \
		for (int g_ = 0; g_ < WINDOWED_GROUPS; g_++)                                       \
			for (int k_ = 0; (stack)->groups[g_] && k_ < SURVIVAL_CLASSES; k_++)       \
				sum_ += (stack)->groups[g_]->field[k_];                            \
		sum_;                                                                              \
	})

static void test_births_and_deaths_in_a_window(void **state)
{
	const struct abi_live dead = block_of(10 * S + 5 * MS, 1);
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	meet(&f, 10 * S, 0, 3, 1);
	tell(&f, 100, &dead, 10 * S + 15 * MS, END_FREED);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_int_equal(stack->n_born, 1);
	assert_true(stack->born[0].bytes == 4 * SIZE && stack->born[0].left_bytes == 3 * SIZE);
	assert_int_equal(stack->born[0].samples, 4);
	assert_true(total(stack, ended) == SIZE);
	/* three blocks are watched for all 100 calls of the window; the fourth is watched for 10 of
	 * the window's 40 ms */
	assert_true(fabs(total(stack, watched) - SIZE * (3 * 100 + 25)) < 1e-3 * SIZE);
	assert_true(stack->groups[0]->ended[survival__age_class(0.01)] == SIZE);
	assert_int_equal(n_forgotten, 1); /* no block at the fourth address is followed */
	end(&f);
}

/* Windows show how much a stack allocates in small blocks, which are those that fit in a page. */
static void test_small_blocks(void **state)
{
	struct abi_live page = block_of(10 * S + 5 * MS, 1), more = page;
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	page.size = 4096;
	more.size = 4097;
	meet(&f, 10 * S, 0, 3, 1);
	tell(&f, 100, &page, 10 * S + 15 * MS, END_FREED);
	tell(&f, 200, &more, 10 * S + 15 * MS, END_FREED);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_true(stack->small == 3 * SIZE + 4096 && stack->sized == stack->small + 4097);
	survivors__exec(&f.s, 11 * S); /* forgets the allocations of the earlier program */
	assert_true(stack_of(&f, 1)->sized == 0);
	end(&f);
}

/* A block that ended while the table was read was alive at the window's end. */
static void test_death_just_behind_a_window(void **state)
{
	const struct abi_live dead = block_of(10 * S + 5 * MS, 1);
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	meet(&f, 10 * S, 0, 1, 1);
	tell(&f, 100, &dead, 10 * S + 41 * MS, END_FREED);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_true(stack->born[0].bytes == 2 * SIZE && stack->born[0].left_bytes == 2 * SIZE);
	assert_true(total(stack, ended) == 0);
	end(&f);
}

/* In a later window a free may be seen at a block's address. It frees the block itself, or a later
 * block at this address. */
static void test_frees_at_addresses(void **state)
{
	const struct abi_live first = block_of(10 * S + 1, 1);
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	meet(&f, 20 * S, 0, 0, 1);
	tell(&f, 0, &first, 20 * S + 1 * MS, END_FREED);
	harvest(&f);
	meet(&f, 30 * S, 0, 0, 1);
	tell(&f, 0, &first, 30 * S + 1 * MS, END_AGAIN);
	tell(&f, 1, &first, 30 * S + 50 * MS, END_FREED); /* after the window */
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_true(total(stack, pairs) == 8 * SIZE);
	assert_true(total(stack, frees) == 2 * SIZE);
	assert_true(total(stack, exposed) == 8 * SIZE * 100);
	assert_true(stack->groups[0]->pairs[survival__age_class(10.02)] == 4 * SIZE);
	/* both blocks have ended, so they are not read any more */
	look(&f, 31 * S);
	assert_true(total(stack, looked) == 4 * SIZE && total(stack, same) == 2 * SIZE);
	end(&f);
}

/* What windows add to a sum may be little compared with the sum. Here, small blocks are added to a
 * block of a gigabyte. */
static void test_little_is_added(void **state)
{
	const struct survivors_window w = {
		.start_ns = 10 * S, .end_ns = 10 * S + 40 * MS, .interval = 1, .allocs = 100};
	const double large = 1 << 30;
	struct abi_live live[5];
	uint64_t addrs[5];
	struct fixture f;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < 5; i++) {
		addrs[i] = FIRST + i * SIZE;
		live[i] = block_of(10 * S + 1, 1);
	}
	live[0].size = 1 << 30;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, 5, read_memory, NULL), 0);
	harvest(&f);
	window(&f, 20 * S, 0, 0, 1);
	look(&f, 21 * S);
	assert_true(total(stack_of(&f, 1), pairs) == large + 4 * SIZE);
	assert_true(total(stack_of(&f, 1), same) == large + 4 * SIZE);
	assert_true(total(stack_of(&f, 1), looked) == large + 4 * SIZE);
	end(&f);
}

/* A long window is harvested in parts. Each part counts its own calls and frees, and blocks that
 * were born in the parts before it. */
static void test_parts_of_a_window(void **state)
{
	const struct abi_live first = block_of(10 * S + 1, 1), late = block_of(20 * S + 1, 2);
	struct survivors_window w = {
		.start_ns = 20 * S, .end_ns = 25 * S, .interval = 1, .allocs = 100};
	uint64_t addr = FIRST + 8 * SIZE;
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, &addr, &late, 1, read_memory, NULL),
			 0);
	tell(&f, 0, &first, 21 * S, END_FREED);
	harvest(&f);
	assert_true(total(stack_of(&f, 2), pairs) == 0);
	w.start_ns = 25 * S;
	w.end_ns = 30 * S;
	w.allocs = 50;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, &addr, &late, 1, read_memory, NULL),
			 0);
	tell(&f, 8, &late, 26 * S, END_FREED);
	harvest(&f);
	assert_int_equal(f.s.n_windows, 2);
	assert_true(total(stack_of(&f, 1), pairs) == 8 * SIZE);
	assert_true(total(stack_of(&f, 1), exposed) == 4 * SIZE * (100 + 50));
	assert_true(total(stack_of(&f, 1), frees) == SIZE);
	assert_true(total(stack_of(&f, 2), pairs) == SIZE);
	assert_true(total(stack_of(&f, 2), exposed) == SIZE * 50);
	assert_true(total(stack_of(&f, 2), frees) == SIZE);
	/* blocks are 12.5 s old in the middle of the first part, and 17.5 s in the middle of the
	 * second */
	assert_true(stack_of(&f, 1)->groups[0]->pairs[survival__age_class(12.5)] == 4 * SIZE);
	assert_true(stack_of(&f, 1)->groups[0]->pairs[survival__age_class(17.5)] == 4 * SIZE);
	/* the freed block was watched in the first part only */
	assert_true(stack_of(&f, 1)->witness->ended[survival__age_class(12.5)] == 1);
	assert_true(stack_of(&f, 1)->witness->ended[survival__age_class(17.5)] == 0);
	end(&f);
}

/* A window of 10 s in which a block of an earlier window is freed, and a block that lives for 5 ms
 * is born. parts: the window is harvested in two parts, and the tables are read some 50 ms after
 * the first part is over. Both blocks end meanwhile. */
static void watch_in_parts(struct fixture *f, bool parts)
{
	const struct abi_live first = block_of(10 * S + 1, 1),
			      brief = block_of(25 * S + 10 * MS, 2);
	struct survivors_window w = {.start_ns = 20 * S,
				     .end_ns = parts ? 25 * S : 30 * S,
				     .interval = 1,
				     .allocs = parts ? 100 : 200};

	begin(f);
	window(f, 10 * S, 0, 4, 1);
	assert_int_equal(survivors__meet(&f->s, &w, w.end_ns, NULL, NULL, 0, read_memory, NULL), 0);
	tell(f, 8, &brief, 25 * S + 15 * MS, END_FREED);
	tell(f, 0, &first, 25 * S + 20 * MS, END_FREED);
	harvest(f);
	if (!parts)
		return;
	w.start_ns = 25 * S;
	w.end_ns = 30 * S;
	assert_int_equal(survivors__meet(&f->s, &w, w.end_ns, NULL, NULL, 0, read_memory, NULL), 0);
	harvest(f);
}

static void test_nothing_is_lost_between_parts(void **state)
{
	struct fixture whole, parts;
	const struct survivors_stack *a, *b;
	double witnessed[2] = {};

	(void)state;
	watch_in_parts(&whole, false);
	watch_in_parts(&parts, true);
	a = stack_of(&whole, 2);
	b = stack_of(&parts, 2);
	assert_int_equal(b->n_born, 1);
	assert_true(b->born[0].bytes == SIZE && b->born[0].left_bytes == 0);
	assert_true(memcmp(a->born, b->born, sizeof(*a->born)) == 0);
	assert_true(total(b, ended) == SIZE && fabs(total(b, watched) - total(a, watched)) < 1e-9);
	a = stack_of(&whole, 1);
	b = stack_of(&parts, 1);
	assert_true(total(b, frees) == SIZE && total(b, frees) == total(a, frees));
	assert_true(total(b, exposed) == total(a, exposed));
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		witnessed[0] += a->witness->ended[k];
		witnessed[1] += b->witness->ended[k];
	}
	assert_true(witnessed[0] == 1 && witnessed[1] == 1);
	assert_int_equal(whole.s.counts.freed, 2);
	assert_int_equal(parts.s.counts.freed, 2);
	assert_int_equal(parts.s.counts.born, whole.s.counts.born);
	/* a free between two windows does not count for the later one */
	meet(&parts, 40 * S, 0, 0, 1);
	tell(&parts, 1, &(const struct abi_live){.birth_ns = 10 * S + 1}, 41 * S, END_FREED);
	harvest(&parts);
	meet(&parts, 50 * S, 0, 0, 1);
	assert_int_equal(parts.s.n_ends, 0);
	harvest(&parts);
	assert_true(total(stack_of(&parts, 1), frees) == SIZE);
	end(&whole);
	end(&parts);
}

/* The address of an older block is still followed when a new block is sampled there. */
static void test_address_is_shared(void **state)
{
	const struct abi_live second = block_of(20 * S + 1, 2);
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 1, 1);
	window(&f, 20 * S, 0, 1, 2);
	meet(&f, 30 * S, 0, 0, 1);
	tell(&f, 0, &second, 30 * S + 1 * MS, END_FREED);
	harvest(&f);
	assert_true(total(stack_of(&f, 1), frees) == SIZE);
	assert_true(total(stack_of(&f, 2), frees) == SIZE);
	end(&f);
}

static void test_contents(void **state)
{
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	memory[2][5] ^= 1;
	look(&f, 11 * S);
	stack = stack_of(&f, 1);
	assert_true(total(stack, looked) == 4 * SIZE && total(stack, same) == 3 * SIZE);
	memory[2][5] ^= 1; /* the block has its old contents again, but still counts as changed */
	look(&f, 15 * S);
	assert_true(total(stack, looked) == 8 * SIZE && total(stack, same) == 6 * SIZE);
	assert_true(fabs(total(stack, looked_at) - 4 * SIZE * (1 + 5 - 2 * 0.02)) < 1);
	assert_int_equal(f.s.counts.changed, 1);
	end(&f);
}

/* A block may be born so late in a window that it is not filled in yet. Such a block does not
 * count. */
static void test_not_filled_in(void **state)
{
	const struct survivors_window w = {
		.start_ns = 10 * S, .end_ns = 10 * S + 40 * MS, .interval = 1, .allocs = 1};
	const struct abi_live live[] = {block_of(10 * S + 1, 1), block_of(10 * S + 39 * MS, 1)};
	const uint64_t addrs[] = {FIRST, FIRST + SIZE};
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, 2, read_memory, NULL), 0);
	harvest(&f);
	look(&f, 11 * S);
	stack = stack_of(&f, 1);
	assert_true(total(stack, looked) == SIZE && total(stack, same) == SIZE);
	end(&f);
}

static void test_alike(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	memset(memory[8], 9, 8 * SIZE); /* blocks 8 to 15 */
	meet(&f, 10 * S, 0, 8, 1);
	harvest(&f);
	meet(&f, 20 * S, 8, 8, 2);
	harvest(&f);
	assert_int_equal(survivors__compare(&f.s, &f.clock), 0);
	assert_true(stack_of(&f, 1)->alike == 0);
	assert_true(fabs(stack_of(&f, 2)->alike - 7.0 / 15) < 1e-9);
	end(&f);
}

/* Blocks 4 to 7 look unchanged half a second after their birth. Blocks 0 to 3 of the same stack are
 * freed in every window. Unchanged contents do not prove that blocks 4 to 7 live. By the rate of
 * the stack's frees, these blocks were freed as well, and contents missed this. */
static void test_freed_and_looks_the_same(void **state)
{
	const struct abi_live first = block_of(10 * S + 1, 1);
	const int class = survival__age_class(0.5);
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	for (size_t i = 0; i < 4; i++)
		memory[i][0] ^= 1;
	look(&f, 11 * S);
	for (uint64_t at = 12 * S; at < 16 * S; at += S) {
		meet(&f, at, 0, 0, 1);
		for (size_t i = 0; i < 4; i++)
			tell(&f, i, &first, at + MS, END_FREED);
		harvest(&f);
	}
	window(&f, 20 * S, 4, 4, 1);
	look(&f, 20 * S + 500 * MS);
	assert_int_equal(survivors__compare(&f.s, &f.clock), 0);
	assert_true(stack_of(&f, 1)->witness->missed[class] > 0.9);
	/* At other ages contents missed nothing. At 1 s blocks 0 to 3 had changed. At 5 s no
	 * contents were compared. */
	assert_true(stack_of(&f, 1)->witness->missed[survival__age_class(1)] == 0);
	assert_true(stack_of(&f, 1)->witness->missed[survival__age_class(5)] == 0);
	/* At that rate six frees would be seen at blocks 4 to 7 in this window, but none is. So
	 * contents missed nothing. */
	meet(&f, 20 * S + 600 * MS, 0, 0, 1);
	f.s.windows[f.s.n_windows - 1].end_ns += 20 * MS;
	harvest(&f);
	assert_int_equal(survivors__compare(&f.s, &f.clock), 0);
	assert_true(stack_of(&f, 1)->witness->missed[class] == 0);
	end(&f);
}

/* A block ends once. Later blocks at its address are freed in later windows. These frees say
 * nothing about unchanged blocks, because this block is known to have ended. */
static void test_ends_once(void **state)
{
	const struct abi_live first = block_of(10 * S + 1, 1);
	struct fixture f;
	double ended = 0, kept_s = 0;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 2, 1);
	for (uint64_t at = 12 * S; at < 16 * S; at += S) {
		meet(&f, at, 0, 0, 1);
		tell(&f, 0, &first, at + MS, END_FREED);
		harvest(&f);
	}
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		ended += stack_of(&f, 1)->witness->ended[k];
		kept_s += stack_of(&f, 1)->witness->kept_s[k];
	}
	assert_true(ended == 1);
	/* block 1 in four windows of 40 ms, block 0 in the first of them */
	assert_true(fabs(kept_s - 5 * 0.04) < 1e-6);
	/* All four frees count as frees at the block's address. At an interval of 1 every block is
	 * a sample, so a window's births have no sampling error, and count with their full
	 * weight. */
	assert_true(fabs(stack_of(&f, 1)->witness->freed - 4 * SIZE) < 1e-6);
	end(&f);
}

/* Blocks live for 20 s of the wall clock: one in twenty changes per second. The net time of windows
 * is a hundredth of their wall time. Windows see one free. If frees were counted per net time,
 * their rate would come out a hundred times as high, and contents would seem to have missed
 * frees. */
static void test_freed_by_the_wall_clock(void **state)
{
	const struct abi_live first = block_of(10 * S + 1, 1);
	uint64_t cpu = 0, last = S;
	struct fixture f;

	(void)state;
	begin(&f);
	net_clock__free(&f.clock);
	net_clock__add(&f.clock, last, 0, 0, NAN, NET_CLOCK_ENDS);
	for (uint64_t at = 10 * S; at <= 16 * S; at += S) {
		cpu += at - last;
		net_clock__add(&f.clock, at, (double)cpu, 0, NAN, NET_CLOCK_BEGINS);
		cpu += MS * 4 / 10;
		last = at + 40 * MS;
		net_clock__add(&f.clock, last, (double)cpu, 0, NAN, NET_CLOCK_ENDS);
	}
	window(&f, 10 * S, 0, 100, 1);
	for (size_t i = 95; i < 100; i++)
		memory[i][0] ^= 1;
	look(&f, 11 * S);
	for (uint64_t at = 12 * S; at <= 16 * S; at += S) {
		meet(&f, at, 0, 0, 1);
		if (at == 12 * S)
			tell(&f, 0, &first, at + MS, END_FREED);
		harvest(&f);
	}
	f.s.looked_ns = last;
	assert_int_equal(survivors__compare(&f.s, &f.clock), 0);
	assert_true(stack_of(&f, 1)->witness->freed > 0);
	assert_true(stack_of(&f, 1)->witness->missed[survival__age_class(1)] < 0.05);
	end(&f);
}

/* A sample that stands for many blocks has the weight of one sample. */
static void test_few_samples_count_for_less(void **state)
{
	const struct survivors_window w = {
		.start_ns = 10 * S, .end_ns = 10 * S + 40 * MS, .interval = 65536, .allocs = 100};
	struct abi_live live = block_of(10 * S + 1, 1);
	const uint64_t addr = FIRST;
	double counted;
	struct fixture f;

	(void)state;
	begin(&f);
	live.interval = 65536;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, &addr, &live, 1, read_memory, NULL),
			 0);
	harvest(&f);
	window(&f, 20 * S, 1, 20, 1);
	look(&f, 21 * S);
	assert_true(stack_of(&f, 1)->born[0].bytes > 60000);
	counted = stack_of(&f, 1)->groups[0]->looked[survival__age_class(11)];
	assert_true(fabs(counted / stack_of(&f, 1)->born[0].bytes - 1.0 / 9) < 0.001);
	assert_true(fabs(stack_of(&f, 1)->groups[0]->pairs[survival__age_class(10.02)] - counted) <
		    1e-3 * counted);
	counted = stack_of(&f, 1)->groups[1]->looked[survival__age_class(1)];
	assert_true(counted == 20 * SIZE); /* each block was a sample */
	end(&f);
}

/* Half of the blocks are dropped. In the counts of the remaining blocks, the shares are about the
 * same as before. */
static void test_let_go(void **state)
{
	const size_t n = SURVIVORS_MAX + 2000;
	struct abi_live *live = calloc(n, sizeof(*live));
	uint64_t *addrs = calloc(n, sizeof(*addrs));
	const struct survivors_window w = {
		.start_ns = 10 * S, .end_ns = 10 * S + 40 * MS, .interval = 1, .allocs = 1};
	const struct survivors_stack *stack;
	struct fixture f;

	(void)state;
	begin(&f);
	for (size_t i = 0; i < n; i++) {
		live[i] = block_of(10 * S + 1, 1);
		addrs[i] = FIRST + (i % BLOCKS) * SIZE + (i / BLOCKS << 32);
	}
	for (size_t i = 0; i < n; i++) /* all addresses can be read */
		addrs[i] = FIRST + i * 1;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, n, read_memory, NULL), 0);
	harvest(&f);
	assert_true(f.s.n_blocks <= SURVIVORS_MAX && f.s.n_blocks > n / 3);
	assert_int_equal(f.s.n_blocks + f.s.counts.let_go, n);
	stack = stack_of(&f, 1);
	assert_true(stack->born[0].bytes == (double)n * SIZE);
	look(&f, 11 * S);
	assert_true(total(stack, looked) > 0);
	assert_true(fabs(total(stack, same) / total(stack, looked) - 1) < 1e-3);
	end(&f);
	free(live);
	free(addrs);
}

/* An address is watched as long as any block there is followed. Here each address has an old and a
 * new block, and chance keeps some of them. */
static void test_let_go_of_addresses(void **state)
{
	const size_t n = SURVIVORS_MAX / 2 + 1000;
	struct abi_live *live = calloc(n, sizeof(*live));
	uint64_t *addrs = calloc(n, sizeof(*addrs));
	bool *forgotten_at = calloc(n, sizeof(*forgotten_at));
	struct fixture f;

	(void)state;
	begin(&f);
	f.s.forget = mark_forgotten;
	f.s.ctx = forgotten_at;
	for (uint64_t start = 10 * S; start <= 11 * S; start += S) {
		const struct survivors_window w = {
			.start_ns = start, .end_ns = start + 40 * MS, .interval = 1, .allocs = 1};

		for (size_t i = 0; i < n; i++) {
			addrs[i] = FIRST + i;
			live[i] = block_of(start + 1, 1);
		}
		assert_int_equal(
			survivors__meet(&f.s, &w, w.end_ns, addrs, live, n, read_memory, NULL), 0);
		harvest(&f);
	}
	assert_int_equal(f.s.counts.let_go + f.s.n_blocks, 2 * n);
	for (size_t i = 0; i < f.s.n_blocks; i++) {
		assert_false(forgotten_at[f.s.blocks[i].addr - FIRST]);
		/* the block at this address is followed */
		live[f.s.blocks[i].addr - FIRST].size = 0;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(forgotten_at[i], live[i].size != 0);
	end(&f);
	free(forgotten_at);
	free(live);
	free(addrs);
}

/* In a stretch, which is a time of continuous tracing, sites count the blocks that are born. A
 * block counts as ended if it does not exist at the end of the stretch. */
static void test_stretch(void **state)
{
	struct survivors_window w = {.start_ns = 10 * S,
				     .end_ns = 15 * S,
				     .interval = 1,
				     .allocs = 10,
				     .continuous = true};
	const struct abi_site_key key = {.stack = {1, 1}, .process = PROCESS};
	struct abi_site site = {
		.alloc_samples = 10, .alloc_bytes = 10 * SIZE, .alloc_objects_q16 = 10 << 16};
	const struct abi_live live[] = {block_of(11 * S, 1), block_of(12 * S, 1)};
	const uint64_t addrs[] = {FIRST, FIRST + SIZE};
	const struct survivors_stack *stack;
	struct fixture f;
	double part;

	(void)state;
	begin(&f);
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, 2, read_memory, NULL), 0);
	assert_int_equal(survivors__take_sites(&f.s, &(struct snapshot_sites){&key, &site, 1}), 0);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_true(stack->born[0].bytes == 10 * SIZE && stack->born[0].left_bytes == 2 * SIZE);
	assert_false(f.s.windows[0].bulk);
	/* the stretch goes on; one of the blocks was freed, and a pool has ended */
	w.bulk = true;
	w.start_ns = w.end_ns;
	w.end_ns = 20 * S;
	site.alloc_samples++;
	site.alloc_bytes += SIZE;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, 1, read_memory, NULL), 0);
	assert_int_equal(survivors__take_sites(&f.s, &(struct snapshot_sites){&key, &site, 1}), 0);
	harvest(&f);
	assert_int_equal(f.s.n_windows, 1);
	assert_true(f.s.windows[0].bulk);
	stack = stack_of(&f, 1);
	assert_true(stack->born[0].bytes == 11 * SIZE && stack->born[0].left_bytes == SIZE);
	look(&f, 30 * S);
	assert_non_null(stack->cohort);
	/* one block is left; a stretch of n = 11 samples has the weight n / (n + 8) */
	part = SIZE * windowed_born__trust(&stack->born[0]);
	assert_true(part > 0.5 * SIZE && part < 0.6 * SIZE);
	assert_true(fabs(stack->cohort->looked[survival__age_class(10)] - part) < 1e-3);
	assert_true(fabs(stack->cohort->same[survival__age_class(10)] - part) < 1e-3);
	/* In a second stretch this block still lives, which adds nothing to `born`. Then the block
	 * ends. */
	assert_true(stack->born[0].held_bytes == SIZE && stack->born[0].lost_bytes == 0);
	w.start_ns = 40 * S;
	w.end_ns = 45 * S;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, addrs, live, 1, read_memory, NULL), 0);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_int_equal(stack->n_born, 1);
	w.start_ns = w.end_ns;
	w.end_ns = 50 * S;
	assert_int_equal(survivors__meet(&f.s, &w, w.end_ns, NULL, NULL, 0, read_memory, NULL), 0);
	harvest(&f);
	stack = stack_of(&f, 1);
	assert_int_equal(stack->n_born, 2);
	assert_true(stack->born[1].bytes == 0 && stack->born[1].left_bytes == 0);
	assert_true(stack->born[1].held_bytes == 0 && stack->born[1].lost_bytes == SIZE);
	end(&f);
}

static void test_exec(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	survivors__exec(&f.s, 11 * S);
	assert_int_equal(f.s.n_blocks, 0);
	assert_int_equal(stack_of(&f, 1)->n_born, 0);
	window(&f, 20 * S, 0, 2, 1);
	assert_int_equal(f.s.n_blocks, 2);
	end(&f);
}

static int no_process(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	(void)reads;
	(void)n;
	return -ESRCH;
}

/* An exec comes while a window is closing. The window is noted again after the exec, but counts as
 * one window. */
static void test_exec_in_a_window(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 1, 1);
	meet(&f, 20 * S, 8, 1, 1);
	survivors__exec(&f.s, 20 * S + 20 * MS);
	meet(&f, 20 * S, 0, 0, 1);
	harvest(&f);
	assert_int_equal(f.s.n_windows, 2);
	assert_int_equal(f.s.windows[1].number, 1);
	assert_int_equal(f.s.n_blocks, 0);
	/* only the program after the exec counts for the time per call */
	assert_true(fabs(f.s.last_s - 0.04) < 1e-6);
	end(&f);
}

/* Blocks whose memory cannot be read any more do not count. */
static void test_process_is_gone(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, 4, 1);
	assert_int_equal(survivors__look(&f.s, &f.clock, 11 * S, no_process, NULL), -ESRCH);
	assert_true(total(stack_of(&f, 1), looked) == 0);
	end(&f);
}

/* ctx: how many more calls succeed. */
static int give_up(void *ctx, struct memory_read *reads, size_t n)
{
	int *calls = ctx;

	return (*calls)-- > 0 ? read_memory(NULL, reads, n) : -ETIMEDOUT;
}

/* If survivors__look() fails halfway, it must count nothing. Otherwise changes would count, but not
 * the comparisons that found them. */
static void test_half_a_look_is_none(void **state)
{
	struct fixture f;
	int calls = 1;

	(void)state;
	begin(&f);
	window(&f, 10 * S, 0, BLOCKS, 1);
	memset(memory, 0xff, sizeof(memory));
	assert_int_equal(survivors__look(&f.s, &f.clock, 12 * S, give_up, &calls), -ETIMEDOUT);
	assert_int_equal(f.s.counts.changed, 0);
	for (size_t i = 0; i < f.s.n_blocks; i++)
		assert_false(f.s.blocks[i].changed);
	assert_int_equal(survivors__look(&f.s, &f.clock, 12 * S, read_memory, NULL), 0);
	/* up to 2 blocks may have had this content before */
	assert_in_range(f.s.counts.changed, BLOCKS - 2, BLOCKS);
	end(&f);
}

/* AddressSanitizer's count of bytes that are allocated now. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
						       : 0;
}

/* Most stacks of a large program allocate in just one window, or in none. */
static void test_rare_stacks_take_little_memory(void **state)
{
	const struct survivors_window w = {
		.start_ns = 10 * S, .end_ns = 10 * S + 40 * MS, .interval = 1, .allocs = 100};
	static struct abi_live live[BLOCKS];
	static uint64_t addrs[BLOCKS];
	size_t before;
	struct fixture f;

	(void)state;
	begin(&f);
	before = allocated();
	for (size_t i = 0; i < BLOCKS; i++) {
		addrs[i] = FIRST + i * SIZE;
		live[i] = block_of(10 * S + 1, i + 1);
	}
	assert_int_equal(
		survivors__meet(&f.s, &w, w.end_ns, addrs, live, BLOCKS, read_memory, NULL), 0);
	harvest(&f);
	window(&f, 20 * S, 0, 0, 1);
	look(&f, 21 * S);
	assert_int_equal(f.s.n_stacks, BLOCKS);
	assert_true((allocated() - before) / BLOCKS < 10000);
	end(&f);
	/* stacks whose blocks the kernel side counts, but windows do not see */
	begin(&f);
	before = allocated();
	for (size_t i = 0; i < BLOCKS; i++) {
		const struct abi_site_key key = {.stack = {i + 1, 1}};
		const struct abi_site site = {.alloc_samples = 1, .alloc_bytes = SIZE};

		assert_int_equal(
			survivors__take_sites(&f.s, &(const struct snapshot_sites){.keys = &key,
										   .sites = &site,
										   .n = 1}),
			0);
	}
	assert_int_equal(f.s.n_stacks, BLOCKS);
	assert_true((allocated() - before) / BLOCKS < 600);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_births_and_deaths_in_a_window),
		cmocka_unit_test(test_small_blocks),
		cmocka_unit_test(test_death_just_behind_a_window),
		cmocka_unit_test(test_frees_at_addresses),
		cmocka_unit_test(test_little_is_added),
		cmocka_unit_test(test_parts_of_a_window),
		cmocka_unit_test(test_nothing_is_lost_between_parts),
		cmocka_unit_test(test_address_is_shared),
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_not_filled_in),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_freed_and_looks_the_same),
		cmocka_unit_test(test_ends_once),
		cmocka_unit_test(test_freed_by_the_wall_clock),
		cmocka_unit_test(test_few_samples_count_for_less),
		cmocka_unit_test(test_let_go),
		cmocka_unit_test(test_let_go_of_addresses),
		cmocka_unit_test(test_stretch),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_exec_in_a_window),
		cmocka_unit_test(test_process_is_gone),
		cmocka_unit_test(test_half_a_look_is_none),
		cmocka_unit_test(test_rare_stacks_take_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
