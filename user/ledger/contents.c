// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ledger/internal.h"

#define BATCH	  256 /* blocks that are read at once */
#define DUE_LEAST 0.1 /* a smaller share of blocks that should have changed is ignored */
/* missed_at(): the rate m is ruled out if log(chance under m / chance under c) is below this */
#define DISPROVED (-2)

/* Hashes by multiplying and shifting, with a secret multiplier. The last word is padded with
 * zeros. */
static uint64_t hash(const struct survivors *s, const unsigned char *content, size_t len)
{
	uint64_t h = s->seed[0] ^ len, k = s->seed[1] | 1;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, content + i, len - i < 8 ? len - i : 8);
		h = (h ^ word) * k;
		h ^= h >> 32;
	}
	return h;
}

/* Reads the blocks that `wanted` accepts. Calls `got` for each block with its hash, or with NULL if
 * its address cannot be read. If the reader fails for any batch of blocks, `got` is not called at
 * all. Otherwise the changes of some blocks would be counted, but not the time in which they
 * happened. */
static int read_contents(struct survivors *s,
			 bool (*wanted)(const struct survivors *s, const struct survivors_block *b),
			 void (*got)(struct survivors *s, struct survivors_block *b,
				     const uint64_t *hash),
			 survivors_reader reader, void *ctx)
{
	static unsigned char content[BATCH][SURVIVORS_BYTES];
	struct memory_read reads[BATCH];
	_cleanup_free_ struct seen {
		size_t block;
		uint64_t hash;
		bool there;
	} *seen = calloc(s->n_blocks + 1, sizeof(*seen));
	size_t i = 0, n_seen = 0;

	if (!seen)
		return -ENOMEM;
	while (i < s->n_blocks) {
		size_t n = 0;
		int rc;

		for (; i < s->n_blocks && n < BATCH; i++) {
			uint64_t size = s->blocks[i].live.size;

			if (!wanted(s, &s->blocks[i]))
				continue;
			reads[n] = (struct memory_read){
				s->blocks[i].addr, content[n],
				size < SURVIVORS_BYTES ? size : SURVIVORS_BYTES, false};
			seen[n_seen + n++].block = i;
		}
		rc = n ? reader(ctx, reads, n) : 0;
		if (rc)
			return rc;
		for (size_t k = 0; k < n; k++, n_seen++) {
			seen[n_seen].there = reads[k].ok;
			if (reads[k].ok)
				seen[n_seen].hash = hash(s, content[k], reads[k].len);
		}
	}
	for (size_t k = 0; k < n_seen; k++)
		got(s, &s->blocks[seen[k].block], seen[k].there ? &seen[k].hash : NULL);
	return 0;
}

static bool is_new(const struct survivors *s, const struct survivors_block *b)
{
	return b->window + 1 == s->n_windows && b->live.birth_ns >= s->piece_ns && !b->hashed &&
	       !b->ended && b->live.size;
}

static void note_first(struct survivors *s, struct survivors_block *b, const uint64_t *h)
{
	(void)s;
	if (h)
		b->hash = *h;
	b->hashed = h != NULL;
}

int contents__read_new(struct survivors *s, survivors_reader reader, void *ctx)
{
	return read_contents(s, is_new, note_first, reader, ctx);
}

static bool may_live(const struct survivors *s, const struct survivors_block *b)
{
	return b->hashed && survivors_block__may_live(b) &&
	       (b->window + 1 < s->n_windows || !s->met);
}

static void note_later(struct survivors *s, struct survivors_block *b, const uint64_t *h)
{
	if (h && *h == b->hash)
		return;
	b->changed = true;
	s->counts.changed += h != NULL;
	s->counts.unmapped += h == NULL;
}

/* Returns the age of a window's blocks at now_s, in net seconds. The age is counted from the
 * window's middle, or from the end of a continuous stretch. */
static double age_of(const struct survivors *s, const struct net_clock *clock, uint32_t window,
		     double now_s)
{
	const struct survivors_window *w = &s->windows[window];
	double end = net_clock__at(clock, w->end_ns);

	return now_s - (w->continuous ? end : (net_clock__at(clock, w->start_ns) + end) / 2);
}

/* Are the block's contents compared and counted for its stack? */
static bool is_asked(const struct survivors *s, const struct survivors_block *b)
{
	return may_live(s, b) && !survivors__is_regrown(s, &b->live, b->window);
}

int survivors__look(struct survivors *s, const struct net_clock *clock, uint64_t now_ns,
		    survivors_reader reader, void *ctx)
{
	double now_s = net_clock__at(clock, now_ns), last_s = net_clock__at(clock, s->looked_ns);
	_cleanup_free_ int *class = calloc(s->n_windows + 1, sizeof(*class));
	_cleanup_free_ double *age = calloc(s->n_windows + 1, sizeof(*age));
	/* by window: net seconds since the last comparison, or since the end of the window's last
	 * part, whichever is later */
	_cleanup_free_ double *since = calloc(s->n_windows + 1, sizeof(*since));
	_cleanup_free_ bool *asked = calloc(s->n_blocks + 1, sizeof(*asked));
	int rc;

	if (!class || !age || !since || !asked)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++)
		asked[i] = is_asked(s, &s->blocks[i]);
	rc = read_contents(s, may_live, note_later, reader, ctx);
	if (rc)
		return rc;
	s->looked_ns = now_ns;
	for (uint32_t i = 0; i < s->n_windows; i++) {
		age[i] = age_of(s, clock, i, now_s);
		class[i] = survival__age_class(age[i]);
		since[i] = now_s - fmax(last_s, net_clock__at(clock, s->windows[i].end_ns));
	}
	for (size_t i = 0; i < s->n_stacks; i++) {
		struct survivors_stack *stack = &s->stacks[i];

		for (size_t k = 0; k < stack->n_born; k++) {
			uint32_t window = stack->born[k].window;
			double looked = stack->looked[k] * windowed_born__trust(&stack->born[k]);
			struct survival_ages *ages;

			if (!(looked > 0) || (window + 1 == s->n_windows && s->met))
				continue;
			ages = survivors__ages_of(s, stack, window);
			if (!ages)
				continue;
			ages->looked[class[window]] += looked;
			ages->looked_at[class[window]] += looked * age[window];
		}
	}
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_block *b = &s->blocks[i];
		struct survivors_witness *w;
		struct survival_ages *ages;
		int k = class[b->window];
		double gap = b->window + 1 == s->n_windows && b->live.birth_ns < s->piece_ns
				     ? now_s - last_s
				     : since[b->window];

		w = asked[i] && gap > 0 ? survivors__witness_of(&s->stacks[b->stack]) : NULL;
		if (w) {
			w->asked[k]++;
			w->asked_s[k] += gap;
			w->changed[k] += b->changed;
		}
		if (!is_asked(s, b))
			continue;
		ages = survivors__ages_of(s, &s->stacks[b->stack], b->window);
		if (ages)
			ages->same[k] += survivors__weight(s, b);
	}
	return 0;
}

struct content {
	uint64_t class, hash; /* size class: 16 bytes wide */
	uint32_t stack;
};

static int compare_contents(const void *a, const void *b)
{
	const struct content *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Returns the sum over a class and its two neighbours. The neighbours count, too, because a block's
 * age in a window, and its age when contents are read after that window, may fall into different
 * classes. */
static double around(const double *by_class, int class)
{
	double sum = 0;

	for (int k = class - 1; k <= class + 1; k++)
		sum += k >= 0 && k < SURVIVAL_CLASSES ? by_class[k] : 0;
	return sum;
}

/* Returns windowed_stack.missed for a class of age. A freed block's successor at its address may
 * have the same contents. An example is a header that points to a buffer, if both are freed and
 * allocated together. Then contents do not show that the first block has ended. Let m be the rate,
 * per second, at which blocks at these addresses are freed, and c the rate at which contents
 * change. Blocks that look unchanged are freed at the rate c if contents show every end, but at the
 * rate m if contents miss ends. Let n be the frees of unchanged blocks that were watched for t
 * seconds. n is Poisson, so the logarithms of its chances under m and under c differ by
 * n log(m / c) - t (m - c). If this difference does not rule out m, contents have missed all
 * changes that were due at the rate m but were not seen. slower: the wall time per net second
 * within windows, divided by that of the whole run (survivors__hidden()). */
static double missed_at(const struct survivors_witness *w, int class, double slower)
{
	double asked = w->asked[class], changed = w->changed[class], gap, due, m, c;

	if (!(asked > 0) || !(w->asked_s[class] > 0) || !(w->freed > 0))
		return 0;
	m = w->freed / (w->watched * slower);
	gap = w->asked_s[class] / asked;
	due = asked * -expm1(-m * gap);
	if (due < DUE_LEAST * asked || changed >= due)
		return 0;
	c = -log1p(-fmax(changed, 0.5) / (asked + 1)) / gap;
	if (around(w->ended, class) * log(m / c) - around(w->kept_s, class) * slower * (m - c) <
	    DISPROVED)
		return 0;
	return 1 - changed / due;
}

/* Returns survivors__hidden() up to the last comparison of contents; 1 if it is not known. */
static double hidden_so_far(const struct survivors *s, const struct net_clock *clock)
{
	uint64_t from = s->n_windows ? s->windows[0].start_ns : s->looked_ns;
	double hidden = 0;

	if (s->looked_ns > from)
		hidden = survivors__hidden(s, clock, from,
					   net_clock__at(clock, s->looked_ns) -
						   net_clock__at(clock, from),
					   (double)(s->looked_ns - from) * 1e-9);
	return hidden > 0 ? hidden : 1;
}

int survivors__compare(struct survivors *s, const struct net_clock *clock)
{
	_cleanup_free_ struct content *all = calloc(s->n_blocks + 1, sizeof(*all));
	_cleanup_free_ double *sum = calloc(2 * s->n_stacks + 2, sizeof(*sum));
	double *weight, slower;
	size_t n = 0;

	if (!all || !sum)
		return -ENOMEM;
	weight = sum + s->n_stacks + 1;
	for (size_t i = 0; i < s->n_blocks; i++)
		if (s->blocks[i].hashed)
			all[n++] = (struct content){(s->blocks[i].live.size + 23) / 16,
						    s->blocks[i].hash, s->blocks[i].stack};
	qsort(all, n, sizeof(*all), compare_contents);
	for (size_t i = 0; i < n;) {
		size_t class_end = i, same;

		while (class_end < n && all[class_end].class == all[i].class)
			class_end++;
		for (size_t k = i; k < class_end; k = same) {
			same = k;
			while (same < class_end && all[same].hash == all[k].hash)
				same++;
			for (size_t b = k; b < same && class_end - i > 1; b++) {
				sum[all[b].stack] +=
					(double)(same - k - 1) / (double)(class_end - i - 1);
				weight[all[b].stack]++;
			}
		}
		i = class_end;
	}
	slower = hidden_so_far(s, clock);
	for (size_t i = 0; i < s->n_stacks; i++) {
		struct survivors_stack *stack = &s->stacks[i];

		struct survivors_witness *w = stack->witness;

		stack->alike = weight[i] > 0 ? sum[i] / weight[i] : 1;
		for (int k = 0; w && k < SURVIVAL_CLASSES; k++)
			w->missed[k] = (float)fmin(missed_at(w, k, 1), missed_at(w, k, slower));
	}
	return 0;
}
