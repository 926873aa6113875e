/* SPDX-License-Identifier: BSD-2-Clause */
/* What a block looks like: its usable size, and the kinds of its first words. Numbers and texts
 * have no value here. Pointers to a file's memory (a vtable, a type object, a function, a constant)
 * and pointers into the block itself have their exact target. A pointer to another block has the
 * distance from that block's start: pointers behind a header are not those to the start. Only in a
 * block's last word, which may be behind what was asked for, distances do not count. */
#ifndef MEMTRACE_HEAP_LOOK_H
#define MEMTRACE_HEAP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/types.h"
#include "profile/heap.h"

struct image;

#define LOOK_WORDS 8
#define LOOK_LARGE 1024 /* bytes: SHAPE_LARGE */

/* In the top byte of a described word. The rest is the exact target of FILE, the offset of SELF,
 * and the distance of HEAP. */
enum look_kind {
	LOOK_NONE, /* behind the block's end */
	LOOK_ZERO,
	LOOK_SMALL, /* below 2^16 */
	LOOK_INT,   /* below 2^32 */
	LOOK_TEXT,
	LOOK_OTHER,
	LOOK_HEAP,   /* a pointer to another block's memory; in fine looks to its start */
	LOOK_MEMORY, /* a pointer to other memory without a file */
	LOOK_SELF,   /* a pointer into the block */
	LOOK_FILE,   /* a pointer to code or data of a file */
	/* of fine and rough looks only */
	LOOK_HEADER,  /* HEAP, a little behind the block's start, as if behind a header */
	LOOK_INSIDE,  /* HEAP, farther from its start */
	LOOK_POINTER, /* ZERO, MEMORY, HEAP, INSIDE */
	LOOK_DATA,    /* SMALL, INT, TEXT, OTHER; in look__pointers(), too */
};

struct look {
	uint64_t size, words[LOOK_WORDS];
};

/* Describes a block from its first n words (all that it has, but at most LOOK_WORDS). Blocks are
 * finished. */
struct look look__of(struct image *image, const struct blocks *blocks, const struct block *block,
		     const uint64_t *words, size_t n);
/* Reads the words, too. False: the block has none, or they are not resident. */
bool look__read(struct first_words *reader, const struct blocks *blocks, const struct block *block,
		struct look *ret);

/* What shapes are made of: distances are less exact. */
struct look look__fine(const struct look *look);
/* Four words, in which pointers that may be NULL are one kind, and data are another. */
struct look look__rough(const struct look *look);
/* Four words without the block's last one. Data are one kind, but NULL is another one than a
 * pointer. */
struct look look__pointers(const struct look *look);

/* Of a fine or a rough look. Never SHAPE_ALONE. */
enum shape_class look__class(const struct look *look);
/* As struct census_shape has it. */
uint64_t look__mark(const struct look *look);

#endif
