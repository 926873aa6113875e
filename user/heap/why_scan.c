// SPDX-License-Identifier: BSD-2-Clause
/* One scan, in the sandboxed child. Writes struct why_sums, struct why_counts, and the arrays that
 * struct why_counts counts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/evenly.h"
#include "base/search.h"
#include "base/vector.h"
#include "heap/scan.h"
#include "heap/types.h"
#include "heap/why.h"
#include "heap/why_internal.h"

/* The blocks that are asked for. */
struct chosen {
	uint32_t *numbers; /* numbers of the blocks, ascending, each once */
	size_t n;
};

struct scanned {
	const struct scan_view *view;
	const struct why_work *work;
	FILE *out;
	struct reach reach;
	struct late late;
	struct recheck recheck;
	struct lost lost;
	struct leak_group *groups;
	size_t n_groups;
	struct chosen chosen;
	struct why_path *paths;
	size_t n_paths;
	struct census_type *types;
	size_t n_types;
	struct why_block *blocks;
	size_t n_blocks;
	struct why_sums sums;
};

/* --- which blocks --- */

static bool is_asked_for(const struct why_choice *choice)
{
	return choice->n_addrs || choice->size || choice->n_vtables;
}

struct choosing {
	struct scanned *s;
	uint64_t size;
	struct first_words words;
	uint32_t number;
	int (*fn)(struct choosing *choosing, const struct block *block);
};

static int with_number(const struct block *block, void *ctx)
{
	struct choosing *choosing = ctx;
	int rc = block->in_use ? choosing->fn(choosing, block) : 0;

	choosing->number += block->in_use;
	return rc;
}

static int note_size(struct choosing *choosing, const struct block *block)
{
	uint64_t wanted = choosing->s->work->choice->size;

	if (block->size >= wanted && (!choosing->size || block->size < choosing->size))
		choosing->size = block->size;
	return 0;
}

static int add_chosen(struct scanned *s, uint32_t number)
{
	s->chosen.numbers[s->chosen.n++] = number;
	return 0;
}

static int take_size(struct choosing *choosing, const struct block *block)
{
	return block->size == choosing->size ? add_chosen(choosing->s, choosing->number) : 0;
}

static int take_class(struct choosing *choosing, const struct block *block)
{
	const struct why_choice *choice = choosing->s->work->choice;
	uint64_t word;
	size_t at;

	if (!first_words__read(&choosing->words, block, &word, 1))
		return 0;
	at = SEARCH_FIRST(i, choice->n_vtables, choice->vtables[i] >= word);
	return at < choice->n_vtables && choice->vtables[at] == word
		       ? add_chosen(choosing->s, choosing->number)
		       : 0;
}

static int choose_classes(struct scanned *s)
{
	struct choosing choosing = {.s = s, .fn = take_class};
	int err = first_words__open(&choosing.words, s->view->image);

	image__forget(s->view->image);
	if (!err)
		blocks__each(s->reach.numbers.blocks, with_number, &choosing);
	first_words__close(&choosing.words);
	return err;
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Finds the block at the i-th address. Returns its number; NO_NUMBER: there is none. */
static uint32_t find_addr(const struct scanned *s, size_t i, struct block *ret)
{
	const struct why_choice *choice = s->work->choice;
	uint32_t number = numbers__find(&s->reach.numbers, choice->addrs[i]);

	if (number == NO_NUMBER || !numbers__block(&s->reach.numbers, number, ret))
		return NO_NUMBER;
	if (choice->sizes && (ret->start != choice->addrs[i] || ret->size < choice->sizes[i]))
		return NO_NUMBER;
	return number;
}

static int choose(struct scanned *s)
{
	const struct why_choice *choice = s->work->choice;
	const struct numbers *numbers = &s->reach.numbers;
	struct choosing choosing = {.s = s, .fn = note_size};
	size_t kept = 0;
	/* a block may be chosen twice: by its size, and by its class */
	size_t room = ((choice->size != 0) + (choice->n_vtables != 0)) * (size_t)numbers->n;

	s->chosen.numbers = calloc(room + choice->n_addrs + 1, sizeof(*s->chosen.numbers));
	if (!s->chosen.numbers || (choice->n_vtables && choose_classes(s)))
		return -ENOMEM;
	for (size_t i = 0; i < choice->n_addrs; i++) {
		struct block block;
		uint32_t number = find_addr(s, i, &block);

		if (number == NO_NUMBER)
			s->sums.chosen[WHY_MISSING]++;
		else
			add_chosen(s, number);
	}
	if (choice->size)
		blocks__each(numbers->blocks, with_number, &choosing);
	if (choosing.size) {
		choosing = (struct choosing){.s = s, .size = choosing.size, .fn = take_size};
		blocks__each(numbers->blocks, with_number, &choosing);
		s->sums.chosen_size = choosing.size;
	}
	qsort(s->chosen.numbers, s->chosen.n, sizeof(*s->chosen.numbers), compare_numbers);
	for (size_t i = 0; i < s->chosen.n; i++)
		if (!i || s->chosen.numbers[i] != s->chosen.numbers[kept - 1])
			s->chosen.numbers[kept++] = s->chosen.numbers[i];
	s->chosen.n = kept;
	return 0;
}

/* --- what became of them --- */

static enum why_verdict verdict_of(const struct scanned *s, uint32_t number, uint64_t addr)
{
	return reach__has(&s->reach, number) ? WHY_HELD
	       : lost__has(&s->lost, addr)   ? WHY_LOST
					     : WHY_IN_DOUBT;
}

/* Judges the blocks at the addresses that were asked for. */
static int judge_addrs(struct scanned *s)
{
	const struct why_choice *choice = s->work->choice;

	s->blocks = calloc(choice->n_addrs + 1, sizeof(*s->blocks));
	if (!s->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < choice->n_addrs; i++) {
		struct why_block *to = &s->blocks[s->n_blocks++];
		struct block block;
		uint32_t number = find_addr(s, i, &block);

		to->verdict = WHY_MISSING;
		if (number == NO_NUMBER)
			continue;
		*to = (struct why_block){.addr = block.start,
					 .size = block.size,
					 .verdict = verdict_of(s, number, block.start)};
	}
	return 0;
}

#define FAR_PATHS 20

/* Judges the chosen blocks. Follows the paths of all held blocks, or of WHY_MAX_PATHS held blocks
 * that are evenly spread. */
static int judge(struct scanned *s)
{
	struct {
		uint64_t hops, paths;
	} left[2]; /* hops that are left for the FAR_PATHS long paths ([0]) and for the other paths
		    * ([1]) */
	uint64_t n_held = 0, held = 0, n = 0, wanted, every;

	for (size_t i = 0; i < s->chosen.n; i++)
		n_held += reach__has(&s->reach, s->chosen.numbers[i]);
	wanted = n_held < WHY_MAX_PATHS ? n_held : WHY_MAX_PATHS;
	every = wanted / FAR_PATHS + 1;
	left[0].paths = (wanted + every - 1) / every;
	left[0].hops = every > 1 ? PATH_MAX_HOPS / 2 : PATH_MAX_HOPS;
	left[1].paths = wanted - left[0].paths;
	left[1].hops = PATH_MAX_HOPS - left[0].hops;
	s->paths = calloc(WHY_MAX_PATHS + 1, sizeof(*s->paths));
	if (!s->paths)
		return -ENOMEM;
	for (size_t i = 0; i < s->chosen.n; i++) {
		uint32_t number = s->chosen.numbers[i];
		struct why_path *path = &s->paths[s->n_paths];
		enum why_verdict verdict;
		struct block block;
		uint64_t share;
		int near, err;

		if (!numbers__block(&s->reach.numbers, number, &block))
			continue;
		verdict = verdict_of(s, number, block.start);
		s->sums.chosen[verdict]++;
		s->sums.chosen_bytes[verdict] += block.size;
		if (verdict != WHY_HELD)
			continue;
		if (!evenly__chosen(held++, WHY_MAX_PATHS, n_held))
			continue;
		/* A path may use only its share of hops, so that hops are left for later paths.
		 * FAR_PATHS of the paths get a large share. With this share, the holder of a long
		 * list is found, too. */
		near = n++ % every != 0;
		share = left[near].hops / left[near].paths--;
		left[near].hops -= share;
		err = reach__path(&s->reach, s->view->image, number, &share, &path->path);
		left[near].hops += share;
		if (err) {
			s->sums.no_path++;
			continue;
		}
		path->addr = block.start;
		path->size = block.size;
		s->n_paths++;
	}
	return 0;
}

/* --- classes of the blocks on the paths --- */

/* Finds `word` in the list of classes, or adds it if it is the vtable of a class. *ret: is it in
 * the list now? */
static int is_type(struct scanned *s, uint64_t word, bool *ret)
{
	char name[CENSUS_TYPE_NAME];
	struct census_type *type;

	*ret = true;
	for (size_t i = 0; i < s->n_types; i++)
		if (s->types[i].vtable == word)
			return 0;
	*ret = s->n_types < WHY_MAX_TYPES && types__is_object(s->view->image, word, name);
	if (!*ret)
		return 0;
	if (VECTOR_ADD_ROOM(s->types, s->n_types))
		return -ENOMEM;
	type = &s->types[s->n_types++];
	*type = (struct census_type){.vtable = word};
	memcpy(type->name, name, strlen(name) + 1);
	return 0;
}

/* Sets the `word` of a step to 0 if it is not the vtable of a class. */
static int find_types(struct scanned *s)
{
	for (size_t i = 0; i < s->n_paths; i++) {
		struct path *path = &s->paths[i].path;

		for (uint32_t k = 0; k < path->n_steps; k++) {
			bool is_one;

			if (!path->steps[k].word)
				continue;
			if (is_type(s, path->steps[k].word, &is_one))
				return -ENOMEM;
			if (!is_one)
				path->steps[k].word = 0;
		}
	}
	return 0;
}

/* --- what is lost --- */

static int list_lost(struct scanned *s)
{
	int err = lost__list(&s->reach, s->view->image, s->work->before, WHY_MAX_LOST, &s->lost);

	s->sums.unreached = s->reach.numbers.n - s->reach.n_marked;
	return err;
}

static int find_leaks(struct scanned *s, const struct numbers *numbers, const struct edges *edges)
{
	_cleanup_free_ struct leak *leaks = NULL;
	size_t n = 0;
	int err = lost__leaks(numbers, edges, &s->lost, &leaks, &n);

	return err ? err : leaks__group(leaks, n, &s->groups, &s->n_groups);
}

/* Marks the lost blocks that were asked for. */
static void mark_asked(struct scanned *s)
{
	size_t k = 0;

	for (size_t i = 0; i < s->lost.n; i++) {
		uint32_t number = numbers__find(&s->reach.numbers, s->lost.list[i].addr);

		while (k < s->chosen.n && s->chosen.numbers[k] < number)
			k++;
		s->lost.list[i].asked = k < s->chosen.n && s->chosen.numbers[k] == number;
	}
}

/* --- all of it --- */

static void sum_up(struct scanned *s)
{
	const struct heap_found *found = s->view->found;

	memcpy(s->sums.quality, found->quality, sizeof(s->sums.quality));
	for (size_t i = 0; i < found->n_arenas; i++)
		s->sums.arenas[found->arenas[i]->allocator]++;
	for (size_t i = 0; i < image__n_regions(s->view->image); i++)
		s->sums.swapped_bytes += image__region(s->view->image, i)->n_swapped * HEAP_PAGE;
	s->sums.stopped = image__stopped(s->view->image);
	s->sums.blocks = blocks__in_use(s->view->blocks, &s->sums.bytes);
	s->sums.lost = s->lost.n;
	for (size_t i = 0; i < s->lost.n; i++)
		s->sums.lost_bytes += s->lost.list[i].size;
	s->sums.lost_beyond = s->lost.beyond;
	s->sums.pointers = s->reach.edges.n;
	s->sums.root_bytes = s->reach.root_bytes + s->recheck.root_bytes;
	s->sums.unread_bytes = s->reach.unread_bytes + s->recheck.unread_bytes;
	s->sums.late_beyond = s->late.beyond + s->recheck.late_beyond;
	s->sums.table_bytes = blocks__bytes(s->view->blocks) +
			      (s->work->recheck ? s->recheck.table_bytes : reach__bytes(&s->reach));
}

static int write_array(FILE *out, const void *array, size_t size, size_t n)
{
	return !n || fwrite(array, size, n, out) == n ? 0 : -EIO;
}

static int write_all(const struct scanned *s)
{
	const struct stale_words *stale = &s->recheck.stale;
	const struct why_counts counts = {s->lost.n,  s->late.seen.n, stale->n,	  s->n_groups,
					  s->n_paths, s->n_types,     s->n_blocks};
	int err = write_array(s->out, &s->sums, sizeof(s->sums), 1);

	if (!err)
		err = write_array(s->out, &counts, sizeof(counts), 1);
	if (!err)
		err = write_array(s->out, s->lost.list, sizeof(*s->lost.list), s->lost.n);
	if (!err)
		err = write_array(s->out, s->late.seen.list, sizeof(*s->late.seen.list),
				  s->late.seen.n);
	if (!err)
		err = write_array(s->out, stale->list, sizeof(*stale->list), stale->n);
	if (!err)
		err = write_array(s->out, s->groups, sizeof(*s->groups), s->n_groups);
	if (!err)
		err = write_array(s->out, s->paths, sizeof(*s->paths), s->n_paths);
	if (!err)
		err = write_array(s->out, s->types, sizeof(*s->types), s->n_types);
	return err ? err : write_array(s->out, s->blocks, sizeof(*s->blocks), s->n_blocks);
}

#define GLIBC_HEADER 16

static int compare_ranges(const void *a, const void *b)
{
	const struct root_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

struct owning {
	struct root_range *ranges;
	size_t n, room;
};

/* Adds a range, or makes the last one longer. */
static int own(struct owning *o, uint64_t start, uint64_t end)
{
	struct root_range *last = o->n ? &o->ranges[o->n - 1] : NULL;

	if (last && start >= last->start && start <= last->end) {
		if (end > last->end)
			last->end = end;
		return 0;
	}
	if (VECTOR_RESERVE(o->ranges, o->room, o->n + 1))
		return -ENOMEM;
	o->ranges[o->n++] = (struct root_range){start, end};
	return 0;
}

/* Adds a block with its header. */
static int own_block(const struct block *block, void *ctx)
{
	uint64_t header = block->start - block->span->start;

	header = header < GLIBC_HEADER ? header : GLIBC_HEADER;
	return own(ctx, block->start - header, block->start + block->size);
}

/* Lists the ranges that belong to allocators, and so hold no roots: ascending, disjoint. Memory
 * that a walk has skipped is not included, because its owner is not known. */
static int own_ranges(const struct scan_view *view, struct root_range **ret, size_t *ret_n)
{
	const struct heap_found *found = view->found;
	struct owning all = {}, merged = {};
	int err = 0;

	for (size_t i = 0; !err && i < blocks__n_spans(view->blocks); i++) {
		const struct span *span = blocks__span(view->blocks, i);

		err = span->kind == SPAN_WALKED ? span__each(span, own_block, &all)
						: own(&all, span->start, span->end);
	}
	for (size_t i = 0; !err && i < found->n_arenas; i++)
		if (found->arenas[i]->own_bytes)
			err = own(&all, found->arenas[i]->addr,
				  found->arenas[i]->addr + found->arenas[i]->own_bytes);
	for (size_t i = 0; !err && i < found->n_records; i++)
		err = own(&all, found->records[i].start, found->records[i].end);
	if (all.n)
		qsort(all.ranges, all.n, sizeof(*all.ranges), compare_ranges);
	for (size_t i = 0; !err && i < all.n; i++)
		err = own(&merged, all.ranges[i].start, all.ranges[i].end);
	free(all.ranges);
	if (err) {
		free(merged.ranges);
		return err;
	}
	*ret = merged.ranges;
	*ret_n = merged.n;
	return 0;
}

static int scan(struct scanned *s, const struct roots *roots)
{
	bool asked = s->work->paths && is_asked_for(s->work->choice);
	int err = reach__scan(s->view->image, s->view->blocks, roots,
			      s->work->stopped ? NULL : &s->late, asked, &s->reach);

	late__sort(&s->late);
	if (!err)
		err = list_lost(s);
	if (!err && s->work->leaks)
		err = find_leaks(s, &s->reach.numbers, &s->reach.edges);
	if (!err && asked)
		err = choose(s);
	if (!err && asked)
		err = judge(s);
	if (!err && asked)
		err = find_types(s);
	if (!err && asked)
		err = judge_addrs(s);
	if (!err && asked)
		mark_asked(s);
	return err;
}

static int scan_again(struct scanned *s, const struct roots *roots)
{
	int err = recheck__scan(s->view->image, s->view->blocks, roots, s->work->before,
				s->work->stale, s->work->leaks, &s->recheck);

	if (err)
		return err;
	s->lost = s->recheck.lost;
	s->recheck.lost = (struct lost){};
	return s->work->leaks ? find_leaks(s, &s->recheck.numbers, &s->recheck.edges) : 0;
}

int why__scan(const struct scan_view *view, const struct why_work *work, FILE *out)
{
	_cleanup_free_ struct root_range *owned = NULL;
	_cleanup_(roots__clear) struct roots roots = {};
	struct scanned s = {
		.view = view,
		.work = work,
		.out = out,
		.late = {.before = work->before ? work->late : NULL, .n_before = work->n_late}};
	size_t n_owned = 0;
	int err = own_ranges(view, &owned, &n_owned);

	if (!err)
		err = roots__find(work->maps, work->threads, owned, n_owned, &roots);
	if (!err)
		err = work->recheck ? scan_again(&s, &roots) : scan(&s, &roots);
	if (!err) {
		sum_up(&s);
		err = write_all(&s);
	}
	reach__clear(&s.reach);
	late__clear(&s.late);
	recheck__clear(&s.recheck);
	free(s.lost.list);
	free(s.groups);
	free(s.chosen.numbers);
	free(s.paths);
	free(s.types);
	free(s.blocks);
	return err;
}
