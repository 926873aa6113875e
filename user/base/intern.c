// SPDX-License-Identifier: BSD-2-Clause
/* An open-addressing table with linear probing over strings kept end to end. */
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

const void *intern__get(const struct intern *intern, uint32_t number, size_t *ret_len)
{
	size_t start = number ? intern->ends[number - 1] : 0;

	*ret_len = intern->ends[number] - start;
	return intern->bytes + start;
}

static struct intern_slot *find_slot(const struct intern *intern, uint64_t h, const void *data,
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
		there = intern__get(intern, slot->number - 1, &there_len);
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

/* Room for one of len bytes. Allocations double, at powers of two: no capacities have to be kept.
 */
static int grow_bytes(struct intern *intern, size_t len)
{
	size_t used = intern->n ? intern->ends[intern->n - 1] : 0, room = 64;

	if (!(intern->n & (intern->n - 1))) {
		size_t *ends =
			reallocarray(intern->ends, intern->n ? 2 * intern->n : 1, sizeof(*ends));

		if (!ends)
			return -ENOMEM;
		intern->ends = ends;
	}
	while (intern->bytes && room < used)
		room *= 2;
	if (!intern->bytes || used + len > room) {
		char *bytes;

		while (room < used + len)
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
	uint64_t h = hash__keyed(data, len);
	struct intern_slot *slot;
	size_t used;

	if (2 * ((size_t)intern->n + 1) > intern->n_slots && grow_slots(intern))
		return -ENOMEM;
	slot = find_slot(intern, h, data, len);
	if (slot->number) {
		*ret_number = slot->number - 1;
		return 0;
	}
	if (intern->n == UINT32_MAX - 1 || grow_bytes(intern, len))
		return -ENOMEM;
	used = intern->n ? intern->ends[intern->n - 1] : 0;
	if (len)
		memcpy(intern->bytes + used, data, len);
	intern->ends[intern->n] = used + len;
	*slot = (struct intern_slot){.hash = h, .number = ++intern->n};
	*ret_number = intern->n - 1;
	return 1;
}

void intern__clear(struct intern *intern)
{
	free(intern->slots);
	free(intern->bytes);
	free(intern->ends);
	*intern = (struct intern){};
}
