/* SPDX-License-Identifier: BSD-2-Clause */
/* The C++ class of a block. An object of a class with virtual functions begins with a pointer into
 * the class's vtable. The two words before the target of this pointer are the offset to the whole
 * object (0) and the address of the class's type_info. The words from the target on are addresses
 * of functions. The type_info points to the class's name, even in stripped programs. Source:
 * Itanium C++ ABI, 2.5.2 and 2.9.5. */
#ifndef MEMTRACE_HEAP_TYPES_H
#define MEMTRACE_HEAP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "profile/heap.h"

struct image;

#define TYPES_MAX	4096	  /* limit for combinations of class, allocator and size */
#define TYPES_MAX_WORDS (1 << 16) /* at most this many different first words are checked */

/* Reads the first words of blocks, many at a time. */
struct first_words {
	struct image *image;
	unsigned char *bytes; /* the content of the window [from, to) of the heap; owned by this
			       * struct */
	uint64_t from, to;
};

/* 0 or -ENOMEM. Call first_words__close() also after an error. */
int first_words__open(struct first_words *words, struct image *image);
void first_words__close(struct first_words *words);
/* Reads the first n words of a block (n * 8 <= WINDOW, 256 KiB). The function is fast only if
 * blocks come in ascending order. False: the block is too small, or the words are not resident. */
bool first_words__read(struct first_words *words, const struct block *block, uint64_t *ret,
		       size_t n);

/* Is `word`, with which a block begins, a pointer into a vtable? Writes the class's mangled name,
 * as in struct census_type. */
bool types__is_object(struct image *image, uint64_t word, char name[CENSUS_TYPE_NAME]);

/* The objects of C++ classes among the blocks in use of a heap. */
struct types; /* opaque */

/* The caller keeps `image`. 0 or -ENOMEM. */
int types__new(struct image *image, struct types **ret);
void types__free(struct types *types);
/* If the block has a class, adds `pinned` to the bytes that the class pins (struct census_type).
 * Blocks should come in ascending order. 0 or -ENOMEM. */
int types__pin(struct types *types, const struct block *block, uint64_t pinned);
/* Counts the blocks in use, by their class. Blocks must be finished. A class without type_info gets
 * no name: it may also be a table of functions in C. 0 or -ENOMEM. */
int types__count(struct types *types, const struct blocks *blocks);
/* Moves the list, which ascends by vtable, to *ret. The caller frees it. *ret_untold: the number of
 * objects that are not counted, because of TYPES_MAX. *ret_unchecked: the number of blocks whose
 * first word was not checked, because of TYPES_MAX_WORDS. These blocks may be objects. */
void types__give(struct types *types, struct census_type **ret, uint64_t *ret_n,
		 uint64_t *ret_untold, uint64_t *ret_unchecked);

#endif
