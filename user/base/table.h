/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds an element of an array by its key. The table is a hash table of the elements' indexes. It
 * uses linear probing, and is never more than half full. Keys and elements stay in the caller's
 * array. */
#ifndef MEMTRACE_BASE_TABLE_H
#define MEMTRACE_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct table {
	uint32_t *slots; /* index + 1; 0: the slot is free */
	size_t n_slots;	 /* a power of two, or 0 */
};

/* A pointer to the slot (a uint32_t) of the element whose key has this hash. The slot holds the
 * element's index + 1. If there is no such element, the slot is free: the caller writes a new
 * element's index + 1 there. `equal` is an expression in i, a size_t: true if the element at index
 * i has the key. The table must have room. */
#define TABLE_SLOT(of, hash, i, equal)                                                             \
	({                                                                                         \
		const struct table *table_ = (of);                                                 \
		uint32_t *slot_;                                                                   \
                                                                                                   \
		for (size_t at_ = (hash);; at_++) {                                                \
			size_t i;                                                                  \
                                                                                                   \
			slot_ = &table_->slots[at_ & (table_->n_slots - 1)];                       \
			i = (size_t)*slot_ - 1;                                                    \
			if (!*slot_ || (equal))                                                    \
				break;                                                             \
		}                                                                                  \
		slot_;                                                                             \
	})

/* Makes room for n elements in all. Returns 0; 1: the table is empty now, and the caller must enter
 * all elements again; -ENOMEM: nothing has changed. */
int table__reserve(struct table *table, size_t n);

void table__clear(struct table *table);

#endif
