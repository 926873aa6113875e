// SPDX-License-Identifier: BSD-2-Clause
#include "heap/referrers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
#include "heap/image.h"
#include "heap/look.h"
#include "heap/types.h"

#define PAGE_WORDS (HEAP_PAGE / sizeof(uint64_t))
#define NAMED_BITS (1u << 18) /* 32 KiB: few cache misses */
/* reads of memory between two readings of the clock; a read is at most a page */
#define CLOCK_EVERY 4096

struct finding {
	struct image *image;
	const struct blocks *blocks;
	const struct referrers_options *options;
	struct referrers *referrers;
	struct first_words reader;
	uint64_t n_wanted;	  /* blocks of the wanted sizes */
	uint64_t lowest, highest; /* lowest and highest address of all spans */
	/* A bit for each hash of a page; set: a named block begins on the page. Other pages may
	 * have the same bit. The blocks on these other pages get a colour, too, but it is not
	 * used. */
	uint64_t named[NAMED_BITS / 64];
	uint64_t deadline_ns;
	unsigned int pieces; /* reads since the clock was read */
};

/* The block that is being read. */
struct referrer {
	const struct block *block;
	uint64_t colour; /* the colour, but without the index of a pointer; 0: not known yet */
};

static uint64_t hash_page(uint64_t addr)
{
	return random__mix(addr / HEAP_PAGE);
}

static size_t bit_of(uint64_t hash)
{
	return (size_t)(hash >> 32) % NAMED_BITS;
}

static bool is_chosen(const struct finding *f, uint64_t addr)
{
	uint64_t hash = hash_page(addr);

	return !(hash & (f->referrers->every - 1)) || bits__test(f->named, bit_of(hash));
}

/* May the block that holds addr begin on a chosen page? A block of a wanted size may begin one page
 * before the page of addr. */
static bool may_be_chosen(const struct finding *f, uint64_t addr)
{
	return is_chosen(f, addr) ||
	       (addr % HEAP_PAGE < REFERRERS_SIZES && is_chosen(f, addr - REFERRERS_SIZES));
}

/* Returns the colour of a referrer, without the index of a pointer. The hash has no key, so the
 * same heap always gets the same colours. Only the smallest colour counts. If the hash had a key,
 * each run could have another smallest colour. */
static uint64_t colour_of(struct finding *f, const struct block *block)
{
	struct look look = {.size = block->size};
	uint64_t colour;

	look__read(&f->reader, f->blocks, block, &look);
	look = look__pointers(&look);
	colour = random__mix(look.size);
	for (size_t i = 0; i < LOOK_WORDS; i++)
		colour = random__mix(colour + look.words[i]);
	return colour ? colour : 1;
}

static void take_word(struct finding *f, struct referrer *from, size_t place, uint64_t word)
{
	uint32_t *colour, found, number;

	if (word - f->lowest >= f->highest - f->lowest || !may_be_chosen(f, word) ||
	    word - from->block->start < from->block->size)
		return;
	number = numbers__find(&f->referrers->numbers, word);
	if (number == NO_NUMBER)
		return;
	if (!from->colour)
		from->colour = colour_of(f, from->block);
	found = (uint32_t)random__mix(from->colour + (place < LOOK_WORDS ? place : LOOK_WORDS));
	colour = &f->referrers->colours[number];
	if (found && (!*colour || found < *colour))
		*colour = found;
}

/* 0, or why nothing more is read. */
static int spent(struct finding *f)
{
	if (++f->pieces < CLOCK_EVERY)
		return 0;
	f->pieces = 0;
	if (clock__now_ns(CLOCK_MONOTONIC) > f->deadline_ns)
		return -ETIMEDOUT;
	return image__spent(f->image);
}

static int read_block(const struct block *block, void *ctx)
{
	uint64_t words[PAGE_WORDS];
	uint64_t first = (block->start + 7) / 8 * 8, end = (block->start + block->size) / 8 * 8;
	struct referrer from = {.block = block};
	struct finding *f = ctx;
	int err = 0;

	if (!block->in_use)
		return 0;
	for (uint64_t at = first; at < end && !err;) {
		struct block piece = *block;
		uint64_t stop = at / HEAP_PAGE * HEAP_PAGE + HEAP_PAGE;
		size_t n = (size_t)((stop < end ? stop : end) - at) / 8;

		piece.start = at;
		piece.size = end - at;
		err = spent(f);
		if (first_words__read(&f->reader, &piece, words, n)) {
			for (size_t i = 0; i < n; i++)
				take_word(f, &from, (at - first) / 8 + i, words[i]);
			at += n * 8;
		} else if (stop >= end || !image__run(f->image, stop, end, &at, &stop)) {
			break;
		}
	}
	return err;
}

static bool is_wanted(const struct finding *f, const struct block *block)
{
	return block->in_use && block->size < REFERRERS_SIZES &&
	       bits__test(f->options->sizes, block->size);
}

static int count_wanted(const struct block *block, void *ctx)
{
	struct finding *f = ctx;

	f->n_wanted += is_wanted(f, block);
	return 0;
}

static int number_chosen(const struct block *block, void *ctx)
{
	struct finding *f = ctx;

	if (is_wanted(f, block) && is_chosen(f, block->start))
		numbers__take(&f->referrers->numbers, block);
	return 0;
}

static int choose(struct finding *f)
{
	const struct referrers_options *o = f->options;
	struct referrers *r = f->referrers;
	int err = numbers__open(&r->numbers, f->blocks);

	if (err)
		return err;
	blocks__each(f->blocks, count_wanted, f);
	if (f->n_wanted > (o->max_blocks ? o->max_blocks : REFERRERS_MAX_BLOCKS))
		return -EFBIG;
	while (f->n_wanted / r->every > (o->exact ? o->exact : REFERRERS_EXACT))
		r->every *= 2;
	for (size_t i = 0; i < o->n_addrs; i++)
		if (o->addrs[i])
			bits__set(f->named, bit_of(hash_page(o->addrs[i])));
	blocks__each(f->blocks, number_chosen, f);
	return numbers__close(&r->numbers);
}

static int find_in(struct finding *f)
{
	const struct referrers_options *o = f->options;
	struct referrers *r = f->referrers;
	size_t n_spans = blocks__n_spans(f->blocks);
	int err = choose(f);

	if (err || !n_spans)
		return err;
	r->colours = calloc((size_t)r->numbers.n + 1, sizeof(*r->colours));
	if (!r->colours)
		return -ENOMEM;
	f->lowest = blocks__span(f->blocks, 0)->start;
	f->highest = blocks__span(f->blocks, n_spans - 1)->end;
	f->deadline_ns =
		clock__now_ns(CLOCK_MONOTONIC) + (o->max_ns ? o->max_ns : REFERRERS_MAX_NS);
	return blocks__each(f->blocks, read_block, f);
}

int referrers__find(struct image *image, const struct blocks *blocks,
		    const struct referrers_options *options, struct referrers *ret)
{
	struct referrers found = {.every = 1};
	struct finding f = {
		.image = image, .blocks = blocks, .options = options, .referrers = &found};
	int err = first_words__open(&f.reader, image);

	if (!err)
		err = find_in(&f);
	first_words__close(&f.reader);
	if (err)
		referrers__clear(&found);
	if (err == -ENOMEM)
		return err;
	*ret = found;
	return 0;
}

void referrers__clear(struct referrers *referrers)
{
	numbers__clear(&referrers->numbers);
	free(referrers->colours);
	*referrers = (struct referrers){};
}

uint32_t referrers__weight(const struct referrers *referrers, const struct block *block)
{
	if (!referrers->colours)
		return 1;
	return hash_page(block->start) & (referrers->every - 1) ? 0 : referrers->every;
}

uint32_t referrers__of(const struct referrers *referrers, const struct block *block)
{
	uint32_t number = NO_NUMBER;

	if (referrers->colours)
		number = numbers__find(&referrers->numbers, block->start);
	return number == NO_NUMBER ? 0 : referrers->colours[number];
}
