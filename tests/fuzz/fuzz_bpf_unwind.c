// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's stack walk. The input holds mappings, tables, registers and the stack's memory.
 * Addresses are small, so that the fuzzer can guess them: code is at TEXT, the stack at STACK. */
#include "fuzz.h"

#include "stack.bpf.h"

#define TEXT	   0x10000
#define STACK	   0x100000
#define TRAMPOLINE 0x7000
#define TABLES	   2
#define MAX_ROWS   64
#define MAX_MAPPED 8

static struct abi_mappings mappings;
static struct abi_unwind_chunk chunks[TABLES][3]; /* each: an index, and two chunks of rows */
static const uint8_t *image;
static size_t image_size;
static unsigned int reads;
static bool trampoline;

__u32 random_u32(void)
{
	return 0;
}

__u64 trampoline_addr(void)
{
	return trampoline ? TRAMPOLINE : 0;
}

/* The hidden return address is known at every other word of the stack. */
__u64 original_return(__u64 slot, __u64 address)
{
	require(address == TRAMPOLINE && slot % 8 == 0);
	return slot % 16 ? TEXT + 0x101 : 0;
}

long read_user(void *dst, __u32 size, __u64 addr)
{
	reads++;
	if (addr < STACK || addr - STACK > image_size || size > image_size - (addr - STACK)) {
		memset(dst, 0, size); /* as the kernel does */
		return -14;
	}
	memcpy(dst, image + (addr - STACK), size);
	return 0;
}

long read_user_u64(__u64 *dst, __u64 addr)
{
	return read_user(dst, sizeof(*dst), addr);
}

/* The kernel knows all mappings, also those that user space has not given. */
int ask_mapping(__u64 addr, struct abi_mapping *ret)
{
	*ret = (struct abi_mapping){};
	for (size_t i = 0; i < MAX_MAPPED; i++)
		if (addr >= mappings.entries[i].start && addr < mappings.entries[i].end)
			*ret = mappings.entries[i];
	return 0;
}

static const struct abi_unwind_chunk *unwind_chunk(__u32 table, __u32 chunk)
{
	return table && table <= TABLES && chunk < 3 ? &chunks[table - 1][chunk] : NULL;
}

/* Fills in a table. sorted: pcs ascend, as user space promises. */
static void lay_table(struct fuzz_input *in, struct abi_unwind_chunk table[3], bool sorted)
{
	size_t n = fuzz_take(in, 1) % MAX_ROWS, half = (n + 1) / 2;
	uint32_t pc = 0;

	memset(table, 0xff, 3 * sizeof(*table));
	for (size_t i = 0; i < n; i++) {
		size_t chunk = i < half ? 1 : 2, row = i < half ? i : i - half;

		pc = sorted ? pc + (uint32_t)fuzz_take(in, 1) : (uint32_t)fuzz_take(in, 4);
		table[chunk].rows[row].pc = pc;
		table[chunk].rows[row].rule = (uint32_t)fuzz_take(in, 4);
		if (row == 0)
			table[0].rows[chunk - 1].pc = pc;
	}
}

static void lay_mappings(struct fuzz_input *in, bool sorted)
{
	size_t n = fuzz_take(in, 1) % MAX_MAPPED;
	uint64_t at = TEXT;

	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++)
		mappings.entries[i] = (struct abi_mapping){.start = 1ULL << 62};
	for (size_t i = 0; i < n; i++) {
		struct abi_mapping *m = &mappings.entries[i];

		if (sorted) {
			m->start = at + fuzz_take(in, 1);
			at = m->end = m->start + fuzz_take(in, 2);
			m->bias = TEXT + fuzz_take(in, 1);
		} else {
			m->start = fuzz_take(in, 8);
			m->end = fuzz_take(in, 8);
			m->bias = fuzz_take(in, 8);
		}
		m->table = (uint32_t)fuzz_take(in, 1);
	}
}

/* Is there such a word in the image (at any address: a ucontext need not be aligned)? */
static bool in_image(uint64_t word)
{
	return memmem(image, image_size, &word, sizeof(word));
}

static bool came_from_stack(uint64_t ip)
{
	/* ip is the word in memory, plus 1 for interrupted code, or plus 2 for an interrupted
	 * signal trampoline */
	return in_image(ip) || in_image(ip - 1) || in_image(ip - 2) ||
	       (trampoline && ip == TEXT + 0x101);
}

/* Finds the rule for pc by a linear search. */
static uint32_t slow_find(uint64_t pc)
{
	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++) {
		const struct abi_mapping *m = &mappings.entries[i];
		uint32_t rule = ABI_UNWIND_NONE, k = pc - m->bias;

		if (pc < m->start || pc >= m->end)
			continue;
		if (!m->table || m->table > TABLES || (pc - m->bias) >> 32)
			return ABI_UNWIND_NONE;
		for (size_t chunk = 1; chunk < 3; chunk++)
			for (size_t row = 0; row < MAX_ROWS; row++)
				if (chunks[m->table - 1][chunk].rows[row].pc <= k &&
				    chunks[m->table - 1][chunk].rows[row].pc != UINT32_MAX)
					rule = chunks[m->table - 1][chunk].rows[row].rule;
		return rule;
	}
	return ABI_UNWIND_NONE;
}

/* The same walk, as simple as possible: it reads each word by itself. */
struct slow {
	uint64_t pc, sp, bp;
	uint64_t ip[ABI_STACK_FRAMES];
	uint32_t n;
};

static bool word(uint64_t addr, uint64_t *ret)
{
	return addr % 8 == 0 && !read_user_u64((__u64 *)ret, addr);
}

static bool return_at(uint64_t slot, uint64_t *ret)
{
	if (!word(slot, ret))
		return false;
	if (trampoline && *ret == TRAMPOLINE && slot % 16)
		*ret = TEXT + 0x101;
	return true;
}

/* A frame of Go's code may lead to any stack, up or down. */
static bool slow_step_in_go(struct slow *s, uint32_t rule)
{
	uint64_t frame = s->bp, g, depth, high, ret;

	if (rule >> 4) {
		if (!word(s->sp + 8 * (rule >> 4 & 0xfff), &g) ||
		    !word(s->sp + 8 * (rule >> 16), &depth) ||
		    (g && read_user_u64((__u64 *)&high, g + 8)))
			return false;
		frame = (g ? high - depth : depth) - (rule & 8 ? 0 : 8);
	}
	if ((rule & 8 && !word(frame, &s->bp)) || !return_at(frame + 8, &ret) || !ret)
		return false;
	s->sp = frame + 16;
	s->pc = ret - 1;
	s->ip[s->n++] = ret;
	return true;
}

static bool slow_step(struct slow *s, uint32_t rule)
{
	uint32_t kind = rule & 7, off = rule >> 16;
	bool realigned = (rule & 0xffff) == (ABI_UNWIND_BP | 8);
	uint64_t ret, cfa, bp = s->bp;

	switch (kind) {
	case ABI_UNWIND_END:
		return false;
	case ABI_UNWIND_SIGNAL:
		if (read_user_u64((__u64 *)&s->pc, s->sp + 168) ||
		    read_user_u64((__u64 *)&s->bp, s->sp + 120) ||
		    read_user_u64((__u64 *)&s->sp, s->sp + 160))
			return false;
		s->ip[s->n++] = s->pc + 1;
		return true;
	case ABI_UNWIND_GO:
		return slow_step_in_go(s, rule);
	case ABI_UNWIND_NONE:
	case ABI_UNWIND_BAD:
		if (s->bp % 8 || !word(s->bp, &bp) || s->bp < s->sp)
			return false;
		cfa = s->bp + 16;
		break;
	case ABI_UNWIND_PLT:
		cfa = s->sp + ((s->pc & 15) >= 11 ? 16 : 8);
		break;
	case ABI_UNWIND_BP:
		cfa = s->bp + 8 * off;
		if (realigned && read_user_u64((__u64 *)&cfa, s->bp - 8 * off))
			return false;
		break;
	default:
		cfa = s->sp + 8 * off;
	}
	if (cfa <= s->sp || cfa - s->sp > MAX_FRAME_BYTES + 16 || !return_at(cfa - 8, &ret))
		return false;
	if (kind != ABI_UNWIND_NONE && kind != ABI_UNWIND_BAD && rule & 8 &&
	    !word(realigned ? s->bp : cfa - 8 * (rule >> 4 & 0xfff), &bp))
		return false;
	if (!ret)
		return false;
	s->sp = cfa;
	s->bp = bp;
	s->pc = ret - 1;
	s->ip[s->n++] = ret;
	return true;
}

static void check(const struct unwind *u, uint32_t limit)
{
	require(u->stack.n >= 2 && u->stack.n <= ABI_STACK_FRAMES && u->stack.n <= limit);
	require(u->stack.end < STACK_END_MAX);
	for (uint32_t i = 1; i < u->stack.n; i++)
		require(came_from_stack(u->stack.ip[i]));
}

static void walk(struct unwind *u, bool sorted, uint32_t limit)
{
	struct slow slow = {.pc = u->pc, .sp = u->sp, .bp = u->bp, .n = 2};
	const struct abi_mappings *told = u->may_ask ? NULL : &mappings;

	for (int i = 0; i <= ABI_STACK_FRAMES; i++) {
		uint32_t n = u->stack.n, rule;
		uint64_t last = u->stack.ip[n - 1];
		uint64_t sp = u->sp;
		bool over;

		rule = find_rule(u, told);
		u->stack.ip[n - 1] = last; /* find_rule()'s mark: unwind_step() sets it again */
		if (sorted)
			require(rule == slow_find(u->pc) || (rule & 7) == ABI_UNWIND_END);
		reads = 0;
		over = unwind_step(u, told);
		require(reads <= ((rule & 7) == ABI_UNWIND_GO ? 9 : 6));
		require(over == (n == limit || n == ABI_STACK_FRAMES || !slow_step(&slow, rule)));
		if (over) {
			require(u->stack.n == n);
			return;
		}
		require(u->stack.n == n + 1 && slow.n == n + 1 && u->stack.ip[n] == slow.ip[n]);
		require(u->pc == slow.pc && u->sp == slow.sp && u->bp == slow.bp);
		require(u->sp > sp || (rule & 7) == ABI_UNWIND_SIGNAL ||
			(rule & 7) == ABI_UNWIND_GO);
	}
	require(!"it ends");
}

static void walk_by_steps(struct unwind *u)
{
	__u32 i = 0;

	while (i < ABI_STACK_FRAMES && !stack_frame_pointer_step(u))
		i++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const __u64 seed[2] = {3, 5};
	struct fuzz_input in = {data, data + size};
	uint8_t flags = (uint8_t)fuzz_take(&in, 1), max_frames = (uint8_t)fuzz_take(&in, 1);
	uint32_t limit = max_frames < 2 ? 2 : max_frames;
	uint64_t sp = STACK + fuzz_take(&in, 2), bp = STACK + fuzz_take(&in, 2);
	bool tables = flags & 1, sorted = flags & 2;
	struct unwind *u = malloc(sizeof(*u));
	struct abi_stack_key key;
	void *copy;

	require(u);
	memset(u, 0xa5, sizeof(*u)); /* scratch memory is reused, so it is not zero */
	trampoline = flags & 4;
	if (flags & 8) {
		sp = fuzz_take(&in, 8);
		bp = fuzz_take(&in, 8);
	}
	if (tables) {
		lay_mappings(&in, sorted);
		for (int i = 0; i < TABLES; i++)
			lay_table(&in, chunks[i], sorted);
	}
	image_size = (size_t)(in.end - in.pos);
	image = copy = fuzz_copy(in.pos, image_size);
	if (!stack_begin(u, TEXT, sp, bp, max_frames)) {
		reads = 0;
		u->may_ask = flags & 16;
		if (tables)
			walk(u, sorted, limit);
		else if (flags & 32)
			walk_by_steps(u);
		else
			stack_walk_frame_pointers(u);
		require(reads <= 4 * ABI_STACK_FRAMES || tables);
		check(u, limit);
		key = stack_hash(&u->stack, seed);
		require(key.lo || key.hi);
	}
	free(copy);
	free(u);
	return 0;
}
