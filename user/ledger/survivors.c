// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/survivors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "ledger/internal.h"

#define MAX_CHAIN 8 /* at most this many blocks are followed at one address */

void survivors__init(struct survivors *s, const uint64_t seed[2])
{
	memset(s, 0, sizeof(*s));
	memcpy(s->seed, seed, sizeof(s->seed));
	s->random = seed[0] ^ seed[1];
}

/* Frees the counts that tell how long the stack's blocks live. */
static void free_counts(struct survivors_stack *stack)
{
	for (int g = 0; g < WINDOWED_GROUPS; g++) {
		free(stack->groups[g]);
		stack->groups[g] = NULL;
	}
	free(stack->cohort);
	free(stack->witness);
	stack->cohort = NULL;
	stack->witness = NULL;
}

void survivors__free(struct survivors *s)
{
	for (size_t i = 0; i < s->n_stacks; i++) {
		free(s->stacks[i].born);
		free(s->stacks[i].looked);
		free_counts(&s->stacks[i]);
	}
	free(s->stacks);
	table__clear(&s->by_key);
	free(s->windows);
	free(s->blocks);
	table__clear(&s->by_addr);
	free(s->ends);
	free(s->births);
	memset(s, 0, sizeof(*s));
}

/* --- stacks --- */

static uint32_t *stack_slot(const struct survivors *s, const struct abi_stack_key *key)
{
	return TABLE_SLOT(&s->by_key, key->lo, i, /* a keyed hash already */
			  !memcmp(&s->stacks[i].key, key, sizeof(*key)));
}

const struct survivors_stack *survivors__find(const struct survivors *s,
					      const struct abi_stack_key *key)
{
	uint32_t found = s->by_key.n_slots ? *stack_slot(s, key) : 0;

	return found ? &s->stacks[found - 1] : NULL;
}

/* Returns the stack's number, or -ENOMEM. */
static long find_stack(struct survivors *s, const struct abi_stack_key *key)
{
	int rc = table__reserve(&s->by_key, s->n_stacks + 1);
	uint32_t *slot;

	for (size_t i = 0; i < s->n_stacks && rc > 0; i++)
		*stack_slot(s, &s->stacks[i].key) = (uint32_t)i + 1;
	if (rc < 0)
		return -ENOMEM;
	slot = stack_slot(s, key);
	if (!*slot) {
		if (VECTOR_RESERVE(s->stacks, s->stacks_room, s->n_stacks + 1))
			return -ENOMEM;
		s->stacks[s->n_stacks++] = (struct survivors_stack){.key = *key, .alike = 1};
		*slot = (uint32_t)s->n_stacks;
	}
	return *slot - 1;
}

/* Returns the counts of the stack's births in the last window. NULL: out of memory. */
static struct windowed_born *born_of(struct survivors *s, struct survivors_stack *stack,
				     double **ret_looked)
{
	uint32_t window = (uint32_t)s->n_windows - 1;

	if (!stack->n_born || stack->born[stack->n_born - 1].window != window) {
		if (VECTOR_ADD_ROOM(stack->born, stack->n_born) ||
		    VECTOR_ADD_ROOM(stack->looked, stack->n_born))
			return NULL;
		stack->looked[stack->n_born] = 0;
		stack->born[stack->n_born++] = (struct windowed_born){.window = window};
	}
	if (ret_looked)
		*ret_looked = &stack->looked[stack->n_born - 1];
	return &stack->born[stack->n_born - 1];
}

/* Returns the counts, by age, of the stack's blocks that were born in that window. NULL: out of
 * memory. */
struct survival_ages *survivors__ages_of(struct survivors *s, struct survivors_stack *stack,
					 uint32_t window)
{
	const struct survivors_window *w = &s->windows[window];
	struct survival_ages **ages =
		w->continuous ? &stack->cohort : &stack->groups[w->number % WINDOWED_GROUPS];

	if (!*ages)
		*ages = calloc(1, sizeof(**ages));
	return *ages;
}

struct survivors_witness *survivors__witness_of(struct survivors_stack *stack)
{
	if (!stack->witness)
		stack->witness = calloc(1, sizeof(*stack->witness));
	return stack->witness;
}

/* --- blocks by address --- */

static uint32_t *slot_of(const struct survivors *s, uint64_t addr)
{
	uint64_t h = (addr ^ s->seed[0]) * (s->seed[1] | 1);

	return TABLE_SLOT(&s->by_addr, h ^ h >> 32, i, s->blocks[i].addr == addr);
}

/* Returns the newest block at the address, or NULL. */
static struct survivors_block *newest(const struct survivors *s, uint64_t addr)
{
	uint32_t found = s->by_addr.n_slots ? *slot_of(s, addr) : 0;

	return found ? &s->blocks[found - 1] : NULL;
}

const struct survivors_block *survivors__at(const struct survivors *s, uint64_t addr)
{
	return newest(s, addr);
}

static struct survivors_block *next_older(const struct survivors *s,
					  const struct survivors_block *block)
{
	return block->older ? &s->blocks[block->older - 1] : NULL;
}

/* Enters all blocks by address, in the order of their births. */
static void enter_all(struct survivors *s)
{
	memset(s->by_addr.slots, 0, s->by_addr.n_slots * sizeof(*s->by_addr.slots));
	for (size_t i = 0; i < s->n_blocks; i++) {
		uint32_t *slot = slot_of(s, s->blocks[i].addr);

		s->blocks[i].older = *slot;
		*slot = (uint32_t)i + 1;
	}
}

/* Makes room for n more blocks. 0 or -ENOMEM. */
static int reserve(struct survivors *s, size_t n)
{
	int rc = VECTOR_RESERVE(s->blocks, s->room, s->n_blocks + n);

	if (!rc)
		rc = table__reserve(&s->by_addr, s->n_blocks + n);
	if (rc > 0)
		enter_all(s);
	return rc < 0 ? rc : 0;
}

/* Follows a block that was born in the last window; there is room already. NULL: out of memory. */
static struct survivors_block *follow(struct survivors *s, uint64_t addr,
				      const struct abi_live *live)
{
	long stack = find_stack(s, &live->stack);
	struct survivors_block *b = newest(s, addr), *older;
	uint32_t *slot;
	int n = 1;

	if (stack < 0)
		return NULL;
	/* an address with so many blocks is freed all the time: the oldest block shows nothing
	 * new */
	for (; b && (older = next_older(s, b)); b = older)
		if (++n == MAX_CHAIN) {
			older->let_go = true;
			b->older = 0;
			break;
		}
	slot = slot_of(s, addr);
	s->blocks[s->n_blocks] = (struct survivors_block){
		.addr = addr,
		.live = *live,
		.window = (uint32_t)s->n_windows - 1,
		.stack = (uint32_t)stack,
		.older = *slot,
	};
	*slot = (uint32_t)++s->n_blocks;
	s->counts.born++;
	s->counts.grown_unknown += live->birth == BIRTH_UNKNOWN;
	return &s->blocks[s->n_blocks - 1];
}

static void forget(struct survivors *s, uint64_t addr)
{
	if (s->forget)
		s->forget(s->ctx, addr);
}

/* Removes the blocks for which keep() is false. */
static void keep_some(struct survivors *s,
		      bool (*keep)(struct survivors *s, struct survivors_block *block))
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n_blocks; i++)
		if (keep(s, &s->blocks[i]))
			s->blocks[kept++] = s->blocks[i];
	if (kept == s->n_blocks)
		return;
	s->n_blocks = kept;
	enter_all(s);
}

static bool is_followed(struct survivors *s, struct survivors_block *block)
{
	(void)s;
	return !block->let_go;
}

int survivors__let_go_marked(struct survivors *s)
{
	_cleanup_free_ uint64_t *addrs = calloc(s->n_blocks + 1, sizeof(*addrs));
	size_t n = 0;

	if (!addrs)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++)
		if (s->blocks[i].let_go)
			addrs[n++] = s->blocks[i].addr;
	if (!n)
		return 0;
	keep_some(s, is_followed);
	for (size_t i = 0; i < n; i++)
		if (!newest(s, addrs[i]))
			forget(s, addrs[i]);
	s->counts.let_go += n;
	return 0;
}

struct windowed_born *survivors__born_in(struct survivors_stack *stack, uint32_t window)
{
	size_t at = SEARCH_FIRST(i, stack->n_born, stack->born[i].window >= window);

	return at < stack->n_born && stack->born[at].window == window ? &stack->born[at] : NULL;
}

double survivors__weight(const struct survivors *s, const struct survivors_block *b)
{
	const struct windowed_born *born = survivors__born_in(&s->stacks[b->stack], b->window);

	return born ? weight_bytes(&b->live) * windowed_born__trust(born) : 0;
}

/* --- windows --- */

int survivors__note_end(struct survivors *s, const struct abi_end *end)
{
	if (VECTOR_RESERVE(s->ends, s->ends_room, s->n_ends + 1))
		return -ENOMEM;
	s->ends[s->n_ends++] = *end;
	return 0;
}

/* Was the block born in the part of the last window that is not harvested yet? */
static bool is_birth(const struct survivors *s, const struct abi_live *live)
{
	const struct survivors_window *w = &s->windows[s->n_windows - 1];

	return live->birth_ns >= s->piece_ns && live->birth_ns <= w->end_ns;
}

static void drop_late_ends(struct survivors *s)
{
	s->n_ends -= s->n_late;
	if (s->n_late)
		memmove(s->ends, s->ends + s->n_late, s->n_ends * sizeof(*s->ends));
	s->n_late = 0;
}

static int add_window(struct survivors *s, const struct survivors_window *window)
{
	struct survivors_window *last = s->n_windows ? &s->windows[s->n_windows - 1] : NULL;

	s->piece_ns = window->start_ns;
	s->piece_allocs = window->allocs;
	s->met = true;
	if (last && last->end_ns == window->end_ns) /* met again, after an exec */
		return 0;
	if (last && last->end_ns == window->start_ns && last->continuous == window->continuous) {
		last->end_ns = window->end_ns;
		last->allocs += window->allocs;
		last->net_blocks += window->net_blocks;
		last->bulk |= window->bulk;
		return 0;
	}
	drop_late_ends(s);
	if (VECTOR_ADD_ROOM(s->windows, s->n_windows))
		return -ENOMEM;
	last = &s->windows[s->n_windows++];
	*last = *window;
	last->number = s->n_windows > 1 ? last[-1].number + 1 : 0;
	last->stands = last->parts = 1;
	return 0;
}

static int compare_addrs(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the bytes for which a followed block stands. It also stands for blocks that are not
 * followed any more. */
static double all_bytes(const struct survivors_block *b)
{
	return ldexp(weight_bytes(&b->live), b->halved);
}

/* Notes in the last window that a followed block has ended, and counts the end for the block's
 * stack if the block was born in an earlier continuous stretch. 0 or -ENOMEM. */
static int note_ended(struct survivors *s, struct survivors_block *b)
{
	struct windowed_born *born;

	if (b->ended)
		return 0;
	b->ended = b->ended_now = true;
	if (!s->windows[b->window].continuous || b->window + 1 == s->n_windows)
		return 0;
	born = born_of(s, &s->stacks[b->stack], NULL);
	if (!born)
		return -ENOMEM;
	born->lost_bytes += all_bytes(b);
	return 0;
}

/* In a continuous stretch no ends are reported. So a followed block that is not among the n blocks
 * of the table has ended. If the table has none of the blocks that are followed at an address, all
 * of these are let go (not followed any more), because the address shows nothing new. */
static int end_missing(struct survivors *s, const uint64_t *addrs, const struct abi_live *live,
		       size_t n)
{
	_cleanup_free_ uint64_t *there = calloc(n + 1, sizeof(*there));
	size_t n_there = 0;

	if (!there)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct survivors_block *known = newest(s, addrs[i]);

		if (known && known->live.birth_ns == live[i].birth_ns &&
		    live[i].birth != BIRTH_ENDED)
			there[n_there++] = addrs[i];
	}
	qsort(there, n_there, sizeof(*there), compare_addrs);
	for (size_t i = 0; i < s->n_blocks; i++) {
		struct survivors_block *b = &s->blocks[i];

		bool held = bsearch(&b->addr, there, n_there, sizeof(*there), compare_addrs);

		b->let_go = b->let_go || !held;
		if (b->ended || (held && newest(s, b->addr) == b))
			continue;
		s->counts.freed++;
		if (note_ended(s, b))
			return -ENOMEM;
	}
	return 0;
}

int survivors__meet(struct survivors *s, const struct survivors_window *window, uint64_t now_ns,
		    const uint64_t *addrs, const struct abi_live *live, size_t n,
		    survivors_reader reader, void *ctx)
{
	int rc = add_window(s, window);

	if (!rc && window->continuous)
		rc = end_missing(s, addrs, live, n);
	if (!rc)
		rc = reserve(s, n);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct survivors_block *known = newest(s, addrs[i]);

		if (known && known->live.birth_ns == live[i].birth_ns)
			continue;
		if (live[i].birth == BIRTH_ENDED)
			continue; /* it was freed: take_end() gets the report of its end */
		if (is_birth(s, &live[i])) {
			if (!follow(s, addrs[i], &live[i]))
				rc = -ENOMEM;
		} else if (!known && live[i].birth_ns < window->start_ns) {
			forget(s, addrs[i]);
		}
	}
	/* contents of a block that may not be filled in yet do not count */
	if (!rc && contents__read_new(s, reader, ctx) == -ENOMEM)
		rc = -ENOMEM; /* otherwise the process is gone, and the contents stay unknown */
	for (size_t i = 0; i < s->n_blocks; i++)
		if (s->blocks[i].window + 1 == s->n_windows &&
		    s->blocks[i].live.birth_ns + SURVIVORS_FILL_NS > now_ns)
			s->blocks[i].hashed = false;
	return rc;
}

/* Adds the time for which a block was watched in the window of its birth, up to the age age_s.
 * per_s: the amount to add for each second. */
static void add_watched(struct survival_ages *ages, double per_s, double age_s)
{
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		double begin = k ? survival__class_end(k - 1) : 0;

		if (age_s <= begin)
			break;
		ages->watched[k] += per_s * (fmin(age_s, survival__class_end(k)) - begin);
	}
}

/* Returns the net seconds of the last window. The clock knows a single window only roughly: nearly
 * all of the window's CPU time is cost. The net time per allocating call is known better, from all
 * windows of the program together. */
static double last_seconds(const struct survivors *s, const struct net_clock *clock)
{
	const struct survivors_window *last = &s->windows[s->n_windows - 1];
	double seconds = 0, allocs = 0;

	for (const struct survivors_window *w = s->windows; w <= last; w++) {
		if (w->continuous || w->end_ns <= s->exec_ns)
			continue;
		seconds += net_clock__at(clock, w->end_ns) - net_clock__at(clock, w->start_ns);
		allocs += (double)w->allocs;
	}
	return allocs > 0
		       ? seconds * (double)last->allocs / allocs
		       : net_clock__at(clock, last->end_ns) - net_clock__at(clock, last->start_ns);
}

/* Counts one birth of the last window. died_ns: when the block ended within that window; 0: it was
 * alive at the window's end. When all births are known, count_watched() counts what becomes of the
 * block. */
static int count_birth(struct survivors *s, const struct abi_live *live, uint32_t stack,
		       bool hashed, uint64_t died_ns)
{
	const struct survivors_window *w = &s->windows[s->n_windows - 1];
	double p = estimate__probability(live->size, live->interval), weight = weight_bytes(live),
	       age_s;
	struct windowed_born *born;
	double *looked;

	if (survivors__is_regrown(s, live, (uint32_t)s->n_windows - 1))
		return 0;
	born = born_of(s, &s->stacks[stack], &looked);
	if (!born || VECTOR_RESERVE(s->births, s->births_room, s->n_births + 1))
		return -ENOMEM;
	s->stacks[stack].sized += weight;
	s->stacks[stack].small += live->size <= SURVIVORS_SMALL ? weight : 0;
	born->samples++;
	born->bytes += weight;
	born->objects += 1 / p;
	born->squares += weight * weight * (1 - p);
	age_s = s->last_s * (double)((died_ns ? died_ns : w->end_ns) - live->birth_ns) /
		(double)(w->end_ns - w->start_ns);
	s->births[s->n_births++] = (struct survivors_birth){stack, weight, age_s, died_ns != 0};
	born->left_bytes += died_ns ? 0 : weight;
	/* ended blocks count if their contents could have been read */
	if (hashed || (died_ns && live->birth_ns + SURVIVORS_FILL_NS <= w->end_ns))
		*looked += weight;
	return 0;
}

/* Counts what became of the last window's births within that window. */
static int count_watched(struct survivors *s)
{
	uint32_t window = (uint32_t)s->n_windows - 1;

	for (size_t i = 0; i < s->n_births; i++) {
		const struct survivors_birth *b = &s->births[i];
		struct survivors_stack *stack = &s->stacks[b->stack];
		double weight = b->weight * windowed_born__trust(survivors__born_in(stack, window));
		struct survival_ages *ages = survivors__ages_of(s, stack, window);

		if (!ages)
			return -ENOMEM;
		if (s->last_s > 0)
			add_watched(ages, weight * (double)s->windows[window].allocs / s->last_s,
				    b->age_s);
		if (b->died)
			ages->ended[survival__age_class(b->age_s)] += weight;
	}
	return 0;
}

/* Counts a reported end. The end is at the address of followed blocks, or it is the end of a block
 * that was born and freed in this window. late: it is one of the first n_late ends. */
static int take_end(struct survivors *s, const struct abi_end *end, bool late)
{
	const struct survivors_window *w = &s->windows[s->n_windows - 1];
	struct survivors_block *b = newest(s, end->addr), *own = b;
	bool in_window = end->time_ns >= w->start_ns && end->time_ns <= w->end_ns;
	long stack;

	while (own && own->live.birth_ns != end->block.birth_ns)
		own = next_older(s, own);
	if (end->kind == END_FREED || end->kind == END_MOVED || end->kind == END_UNSEEN) {
		s->counts.freed += !late && end->kind != END_UNSEEN;
		s->counts.replaced += !late && end->kind == END_UNSEEN;
		if (own) {
			own->ended_now |= late;
			if (note_ended(s, own))
				return -ENOMEM;
		} else if (is_birth(s, &end->block) && !w->continuous) {
			if (in_window) {
				stack = find_stack(s, &end->block.stack);
				if (stack < 0 || count_birth(s, &end->block, (uint32_t)stack, false,
							     end->time_ns))
					return -ENOMEM;
				s->counts.born++;
			} else { /* it ended while the table was read */
				if (reserve(s, 1))
					return -ENOMEM;
				own = follow(s, end->addr, &end->block);
				if (!own || count_birth(s, &own->live, own->stack, false, 0) ||
				    note_ended(s, own))
					return -ENOMEM;
			}
		}
	}
	if (!late && !newest(s, end->addr))
		forget(s, end->addr);
	if (in_window && end->kind != END_UNSEEN)
		for (b = newest(s, end->addr); b; b = next_older(s, b))
			b->freed_now = true;
	return 0;
}

/* Counts the reported ends. Ends that came after the window's end are kept for its next part: the
 * tables are read while the window goes on. 0 or -ENOMEM. */
static int take_ends(struct survivors *s)
{
	uint64_t end_ns = s->windows[s->n_windows - 1].end_ns;
	size_t kept = 0;

	for (size_t i = 0; i < s->n_ends; i++) {
		if (take_end(s, &s->ends[i], i < s->n_late))
			return -ENOMEM;
		if (s->ends[i].time_ns > end_ns)
			s->ends[kept++] = s->ends[i];
	}
	s->n_ends = s->n_late = kept;
	return 0;
}

/* Counts, for the last window's unharvested part, the blocks that were born before this part. */
static int count_pairs(struct survivors *s, const struct net_clock *clock)
{
	const struct survivors_window *w = &s->windows[s->n_windows - 1];
	double begin = net_clock__at(clock, s->piece_ns), end = net_clock__at(clock, w->end_ns);

	if (w->continuous)
		return 0;
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_block *b = &s->blocks[i];
		struct survivors_witness *witness;
		struct survival_ages *ages;
		double age, weight;
		int class;

		if (is_birth(s, &b->live) || survivors__is_regrown(s, &b->live, b->window))
			continue;
		age = (begin + end) / 2 -
		      (s->windows[b->window].continuous
			       ? net_clock__at(clock, s->windows[b->window].end_ns)
			       : net_clock__at(clock, b->live.birth_ns));
		class = survival__age_class(age);
		ages = survivors__ages_of(s, &s->stacks[b->stack], b->window);
		witness = survivors__witness_of(&s->stacks[b->stack]);
		if (!ages || !witness)
			return -ENOMEM;
		weight = survivors__weight(s, b);
		ages->pairs[class] += weight;
		ages->exposed[class] += weight * (double)s->piece_allocs;
		ages->frees[class] += b->freed_now ? weight : 0;
		witness->watched += weight * s->piece_s;
		witness->freed += b->freed_now ? weight : 0;
		if (b->hashed && !b->changed && (!b->ended || (b->ended_now && b->freed_now))) {
			witness->kept_s[class] += s->piece_s;
			witness->ended[class] += b->freed_now;
		}
	}
	return 0;
}

/* Returns the bytes of the stack that were held at the end of the last continuous stretch for which
 * `born` has an element. */
static double last_held(const struct survivors *s, const struct survivors_stack *stack)
{
	for (size_t i = stack->n_born; i-- > 0;)
		if (s->windows[stack->born[i].window].continuous)
			return stack->born[i].held_bytes;
	return 0;
}

/* Counts the live blocks that were born in continuous stretches, up to the last one. The last
 * stretch may not be over yet. Then its blocks are counted again later. */
static int count_left(struct survivors *s)
{
	struct sums {
		double left, held, held_objects, held_squares, looked;
	};
	_cleanup_free_ struct sums *sums = calloc(s->n_stacks + 1, sizeof(*sums));
	uint32_t window = (uint32_t)s->n_windows - 1;

	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_block *b = &s->blocks[i];
		double p = ldexp(estimate__probability(b->live.size, b->live.interval), -b->halved);
		double bytes = all_bytes(b);

		if (!s->windows[b->window].continuous || b->ended)
			continue;
		sums[b->stack].held += bytes;
		sums[b->stack].held_objects += 1 / p;
		sums[b->stack].held_squares += bytes * bytes * (1 - p);
		if (b->window != window)
			continue;
		sums[b->stack].left += bytes;
		sums[b->stack].looked += b->hashed ? weight_bytes(&b->live) : 0;
	}
	for (size_t i = 0; i < s->n_stacks; i++) {
		struct survivors_stack *stack = &s->stacks[i];
		struct windowed_born *born = survivors__born_in(stack, window);
		double *looked;

		if (!born && sums[i].held == last_held(s, stack))
			continue;
		born = born_of(s, stack, &looked);
		if (!born)
			return -ENOMEM;
		born->held_bytes = sums[i].held;
		born->held_objects = sums[i].held_objects;
		born->held_squares = sums[i].held_squares;
		born->left_bytes = sums[i].left;
		*looked = sums[i].looked;
	}
	return 0;
}

int survivors__harvest(struct survivors *s, const struct net_clock *clock)
{
	const struct survivors_window *w = &s->windows[s->n_windows - 1];
	int rc = 0;

	if (!s->met)
		return 0;
	s->last_s = last_seconds(s, clock);
	s->piece_s = s->last_s * (w->allocs ? (double)s->piece_allocs / (double)w->allocs : 1);
	s->n_births = 0;
	for (size_t i = 0; i < s->n_blocks && !rc && !w->continuous; i++) {
		const struct survivors_block *b = &s->blocks[i];

		if (b->window + 1 == s->n_windows && b->live.birth_ns >= s->piece_ns)
			rc = count_birth(s, &b->live, b->stack, b->hashed, 0);
	}
	if (!rc)
		rc = take_ends(s);
	if (rc)
		s->n_ends = s->n_late = 0;
	if (!rc)
		rc = count_watched(s);
	if (!rc)
		rc = count_pairs(s, clock);
	if (!rc && w->continuous)
		rc = count_left(s);
	for (size_t i = 0; i < s->n_blocks; i++)
		s->blocks[i].freed_now = s->blocks[i].ended_now = false;
	s->met = false;
	if (!rc && s->by_addr.n_slots)
		keep_some(s, is_followed);
	while (!rc && s->n_blocks > SURVIVORS_MAX)
		rc = let_go__half(s);
	return rc;
}

/* Takes over the counts. continuous: the allocations since the last call were in a continuous
 * stretch. */
static int take_sites(struct survivors *s, const struct snapshot_sites *sites, bool continuous)
{
	for (size_t i = 0; i < sites->n; i++) {
		const struct abi_site *now = &sites->sites[i];
		struct windowed_born *born;
		struct survivors_stack *stack;
		double bytes, samples;
		long number;

		number = find_stack(s, &sites->keys[i].stack);
		if (number < 0)
			return -ENOMEM;
		stack = &s->stacks[number];
		samples = (double)(now->alloc_samples - stack->samples);
		if (continuous && samples > 0) {
			born = born_of(s, stack, NULL);
			if (!born)
				return -ENOMEM;
			bytes = (double)(now->alloc_bytes - stack->bytes);
			born->samples += (uint64_t)samples;
			born->bytes += bytes;
			born->objects +=
				(double)(now->alloc_objects_q16 - stack->objects_q16) / 65536;
			born->squares += bytes * bytes / samples;
		}
		stack->samples = now->alloc_samples;
		stack->bytes = now->alloc_bytes;
		stack->objects_q16 = now->alloc_objects_q16;
	}
	return 0;
}

int survivors__take_sites(struct survivors *s, const struct snapshot_sites *sites)
{
	return take_sites(s, sites, survivors__in_stretch(s));
}

int survivors__pass_over(struct survivors *s, const struct snapshot_sites *sites)
{
	return take_sites(s, sites, false);
}

static bool is_of_program(struct survivors *s, struct survivors_block *block)
{
	return block->live.birth_ns >= s->piece_ns;
}

void survivors__exec(struct survivors *s, uint64_t exec_ns)
{
	s->piece_ns = s->exec_ns = exec_ns;
	if (s->by_addr.n_slots)
		keep_some(s, is_of_program);
	s->n_ends = s->n_late = 0;
	s->met = false;
	for (size_t i = 0; i < s->n_stacks; i++) {
		struct survivors_stack *stack = &s->stacks[i];

		stack->n_born = 0;
		free_counts(stack);
		stack->sized = stack->small = 0;
	}
}
