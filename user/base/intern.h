/* SPDX-License-Identifier: BSD-2-Clause */
/* Distinct strings of bytes, numbered from 0 in the order in which they came. Finding one takes
 * constant time whoever chose them: the hash is keyed with a secret of the process. */
#ifndef MEMTRACE_BASE_INTERN_H
#define MEMTRACE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

/* Where a string is stands here, its length before it: to find one in a large table is to wait for
 * two places in memory, not for four. */
struct intern_slot {
	uint32_t hash;	 /* its lower half */
	uint32_t number; /* + 1; 0: the slot is free */
	size_t start;	 /* in bytes */
};

/* All zero: empty. */
struct intern {
	struct intern_slot *slots;
	size_t n_slots; /* a power of two, at least twice n, at most 2^32; or 0 */
	uint32_t n;	/* how many there are */
	char *bytes;	/* theirs, one after the other, each behind its length */
	size_t used;	/* of bytes */
	size_t *starts; /* of each in bytes */
};

/* Finds the string or adds a copy of it; *ret_number is its number. 1 when it is new, 0 when it was
 * there, -ENOMEM. */
int intern__add(struct intern *intern, const void *data, size_t len, uint32_t *ret_number);

/* The string of that number, which must exist; good until the next is added. */
const void *intern__get(const struct intern *intern, uint32_t number, size_t *ret_len);

void intern__clear(struct intern *intern);

#endif
