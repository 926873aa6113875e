/* SPDX-License-Identifier: BSD-2-Clause */
/* What a block looks like: its usable size, and the kinds of its first words. For a number or a
 * text, only the kind counts. For a pointer into the block itself, the exact target counts. The
 * same holds for a pointer to a file's memory (a vtable, a type object, a function, a constant).
 * For a pointer to another block, the distance from that block's start counts. (A pointer to the
 * memory behind a block's header differs from a pointer to the block's start.) A block's last word
 * may lie behind the requested size. So if the last word is a pointer, the distance does not
 * count. */
#ifndef MEMTRACE_HEAP_LOOK_H
#define MEMTRACE_HEAP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/types.h"
#include "profile/heap.h"

struct image;

#define LOOK_WORDS 8
#define LOOK_LARGE 1024 /* bytes: a block of this size or more may be SHAPE_LARGE */

/* In each of struct look's words, the kind is the top byte. The other bytes are the target for
 * LOOK_FILE, the offset for LOOK_SELF, and the distance for LOOK_HEAP. */
enum look_kind {
	LOOK_NONE, /* the word is behind the block's end */
	LOOK_ZERO,
	LOOK_SMALL, /* a number below 2^16 */
	LOOK_INT,   /* a number below 2^32 */
	LOOK_TEXT,
	LOOK_OTHER,
	/* a pointer to another block's memory. In a fine look: a pointer to the other block's
	 * start */
	LOOK_HEAP,
	LOOK_MEMORY, /* a pointer to other memory without a file */
	LOOK_SELF,   /* a pointer into the block */
	LOOK_FILE,   /* a pointer to code or data of a file */
	/* the kinds below are only in fine and rough looks */
	LOOK_HEADER,  /* HEAP with a distance of 1 to 16 bytes, as behind a header */
	LOOK_INSIDE,  /* HEAP with a larger distance */
	LOOK_POINTER, /* one of ZERO, MEMORY, HEAP, INSIDE */
	LOOK_DATA,    /* one of SMALL, INT, TEXT, OTHER; also in looks that look__pointers()
		       * returns */
};

struct look {
	uint64_t size, words[LOOK_WORDS];
};

/* Describes a block by its first n words. n: the number of its words, but at most LOOK_WORDS.
 * `blocks` must be finished. */
struct look look__of(struct image *image, const struct blocks *blocks, const struct block *block,
		     const uint64_t *words, size_t n);
/* Like look__of(), but reads the words, too. False: the block has no whole word, or its words are
 * not resident. */
bool look__read(struct first_words *reader, const struct blocks *blocks, const struct block *block,
		struct look *ret);

/* Returns the fine look, in which distances are less exact. Shapes are made of fine looks. */
struct look look__fine(const struct look *look);
/* Returns the rough look: the first four words. Zero and most pointers are one kind, because a
 * pointer may be NULL. Data are another kind. */
struct look look__rough(const struct look *look);
/* Returns the first four words, without the block's last word. Data are one kind. Zero and pointers
 * are different kinds. */
struct look look__pointers(const struct look *look);

/* Returns the class of a fine or rough look. The class is never SHAPE_ALONE. */
enum shape_class look__class(const struct look *look);
/* Returns the look's value for census_shape.mark. */
uint64_t look__mark(const struct look *look);

#endif
