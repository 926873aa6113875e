/* SPDX-License-Identifier: BSD-2-Clause */
/* Distinct strings of bytes, numbered from 0 in the order in which they came. A lookup takes
 * constant time even if an attacker chose the strings: the hash is keyed with a secret of the
 * process. */
#ifndef MEMTRACE_BASE_INTERN_H
#define MEMTRACE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

/* A slot holds the start of its string, and the string's length is stored before the string. So a
 * lookup in a large table reads two places in memory, not four. */
struct intern_slot {
	uint32_t hash;	 /* lower half of the hash */
	uint32_t number; /* the string's number + 1; 0: the slot is free */
	size_t start;	 /* where the string starts in intern.bytes */
};

/* All zero: empty. */
struct intern {
	struct intern_slot *slots;
	size_t n_slots; /* a power of two, at least twice n, at most 2^32; or 0 */
	uint32_t n;	/* number of strings */
	char *bytes;	/* the strings, one after the other, each after its length */
	size_t used;	/* how many bytes of `bytes` are used */
	size_t *starts; /* where each string starts in bytes */
};

/* Finds the string or adds a copy of it; *ret_number is its number. Returns 1 if the string is new,
 * 0 if it was there, or -ENOMEM. */
int intern__add(struct intern *intern, const void *data, size_t len, uint32_t *ret_number);

/* Returns the string with this number, which must exist. The pointer is valid until the next string
 * is added. */
const void *intern__get(const struct intern *intern, uint32_t number, size_t *ret_len);

void intern__clear(struct intern *intern);

#endif
