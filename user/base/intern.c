// SPDX-License-Identifier: BSD-2-Clause
/* An open-addressing table with linear probing over strings kept end to end. The hash is
 * SipHash-1-3 (Aumasson and Bernstein, 2012; one round per word is what Rust and Python use for the
 * same purpose), for names come from strangers, who could choose them to collide. */
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip__round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static uint64_t hash(const char *data, size_t len)
{
	static uint64_t key[2];
	uint64_t word, tail = (uint64_t)len << 56;
	struct sip s;

	/* Without random numbers it still works, for all but an attacker's input. */
	if (!key[0] && getrandom(key, sizeof(key), GRND_NONBLOCK) != sizeof(key))
		key[0] = 1;
	s = (struct sip){key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
	for (; len >= 8; data += 8, len -= 8) {
		memcpy(&word, data, 8);
		s.v3 ^= word;
		sip__round(&s);
		s.v0 ^= word;
	}
	for (size_t i = 0; i < len; i++)
		tail |= (uint64_t)(unsigned char)data[i] << (8 * i);
	s.v3 ^= tail;
	sip__round(&s);
	s.v0 ^= tail;
	s.v2 ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip__round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

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
	uint64_t h = hash(data, len);
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
