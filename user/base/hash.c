// SPDX-License-Identifier: BSD-2-Clause
/* SipHash-1-3 (Aumasson and Bernstein, 2012). Rust and Python use one round per word, too, for the
 * same purpose. */
#include "base/hash.h"

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

uint64_t hash__keyed(const void *bytes, size_t len)
{
	static uint64_t key[2];
	const char *data = bytes;
	uint64_t word, tail = (uint64_t)len << 56;
	struct sip s;

	/* Without random numbers the hash still works, but an attacker can choose keys that
	 * collide. */
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
