// SPDX-License-Identifier: BSD-2-Clause
/* An open-addressing table with linear probing, over strings stored one after the other. */
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vector.h"

#define INTERN_MAX (1u << 31) /* half of the largest hash table, which has 2^32 slots */

static const void *string_at(const struct intern *intern, size_t start, size_t *ret_len)
{
	uint32_t len;

	memcpy(&len, intern->bytes + start, sizeof(len));
	*ret_len = len;
	return intern->bytes + start + sizeof(len);
}

const void *intern__get(const struct intern *intern, uint32_t number, size_t *ret_len)
{
	return string_at(intern, intern->starts[number], ret_len);
}

static struct intern_slot *find_slot(const struct intern *intern, uint32_t h, const void *data,
				     size_t len)
{
	for (size_t i = h;; i++) {
		struct intern_slot *slot = &intern->slots[i & (intern->n_slots - 1)];
		const void *there;
		size_t there_len;

		if (!slot->number)
			return slot;
		if (slot->hash != h)
			continue;
		there = string_at(intern, slot->start, &there_len);
		if (there_len == len && (!len || !memcmp(there, data, len)))
			return slot;
	}
}

static int grow_slots(struct intern *intern)
{
	size_t n = intern->n_slots ? 2 * intern->n_slots : 64;
	struct intern_slot *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < intern->n_slots; i++) {
		size_t to = intern->slots[i].hash;

		if (!intern->slots[i].number)
			continue;
		while (slots[to & (n - 1)].number)
			to++;
		slots[to & (n - 1)] = intern->slots[i];
	}
	free(intern->slots);
	intern->slots = slots;
	intern->n_slots = n;
	return 0;
}

/* Makes room for a string of len bytes. The size of each allocation is the smallest power of two,
 * from 64 on, that holds the used bytes. So the size need not be stored. */
static int grow_bytes(struct intern *intern, size_t len)
{
	size_t need = intern->used + sizeof(uint32_t) + len, room = 64;

	if (VECTOR_ADD_ROOM(intern->starts, intern->n))
		return -ENOMEM;
	while (room < intern->used)
		room *= 2;
	if (!intern->bytes || need > room) {
		char *bytes;

		while (room < need)
			room *= 2;
		bytes = realloc(intern->bytes, room);
		if (!bytes)
			return -ENOMEM;
		intern->bytes = bytes;
	}
	return 0;
}

int intern__add(struct intern *intern, const void *data, size_t len, uint32_t *ret_number)
{
	uint32_t h = (uint32_t)hash__keyed(data, len), stored = (uint32_t)len;
	struct intern_slot *slot;

	if (2 * ((size_t)intern->n + 1) > intern->n_slots && grow_slots(intern))
		return -ENOMEM;
	slot = find_slot(intern, h, data, len);
	if (slot->number) {
		*ret_number = slot->number - 1;
		return 0;
	}
	if (intern->n == INTERN_MAX || len > UINT32_MAX || grow_bytes(intern, len))
		return -ENOMEM;
	memcpy(intern->bytes + intern->used, &stored, sizeof(stored));
	if (len)
		memcpy(intern->bytes + intern->used + sizeof(stored), data, len);
	intern->starts[intern->n] = intern->used;
	*slot = (struct intern_slot){.hash = h, .number = intern->n + 1, .start = intern->used};
	intern->used += sizeof(stored) + len;
	*ret_number = intern->n++;
	return 1;
}

void intern__clear(struct intern *intern)
{
	free(intern->slots);
	free(intern->bytes);
	free(intern->starts);
	*intern = (struct intern){};
}
