/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a made-up process. The bytes of its mappings are memory of the test. */
#ifndef TEST_HEAP_FAKE_H
#define TEST_HEAP_FAKE_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "heap/image.h"
#include "proc/maps.h"

#define FAKE_MAX 32

struct fake {
	struct {
		uint64_t start, len;
		unsigned char *bytes; /* NULL: no page is resident */
		unsigned char *state; /* per page: 1 resident, 2 swapped, 0 neither */
	} parts[FAKE_MAX];
	size_t n;
	char text[FAKE_MAX * 128];
	struct maps maps;
	uint64_t reads;
	/* called before each read, so that a test can change memory during the search; or NULL */
	void (*before_read)(struct fake *fake, uint64_t addr);
};

/* Adds a mapping. Call it in ascending order. tail: the end of a line of /proc/PID/maps, from the
 * permissions on. */
static inline unsigned char *fake__add(struct fake *fake, uint64_t start, uint64_t len,
				       const char *tail)
{
	size_t at = strlen(fake->text);

	assert_true(fake->n < FAKE_MAX);
	fake->parts[fake->n].start = start;
	fake->parts[fake->n].len = len;
	fake->parts[fake->n].bytes = calloc(1, len);
	fake->parts[fake->n].state = malloc(len / 4096);
	assert_non_null(fake->parts[fake->n].bytes);
	assert_non_null(fake->parts[fake->n].state);
	memset(fake->parts[fake->n].state, 1, len / 4096);
	snprintf(fake->text + at, sizeof(fake->text) - at, "%llx-%llx %s\n",
		 (unsigned long long)start, (unsigned long long)(start + len), tail);
	return fake->parts[fake->n++].bytes;
}

#define FAKE_ANON "rw-p 00000000 00:00 0"
#define FAKE_BRK  "rw-p 00000000 00:00 0 [heap]"
#define FAKE_DATA "rw-p 00001000 08:01 77 /lib/libc.so.6"

static inline size_t fake__part(struct fake *fake, uint64_t addr)
{
	size_t i = 0;

	while (i < fake->n && addr - fake->parts[i].start >= fake->parts[i].len)
		i++;
	return i;
}

/* The test's memory for addr. */
static inline void *fake__at(struct fake *fake, uint64_t addr)
{
	size_t i = fake__part(fake, addr);

	assert_true(i < fake->n);
	return fake->parts[i].bytes + (addr - fake->parts[i].start);
}

static inline void fake__put(struct fake *fake, uint64_t addr, uint64_t word)
{
	memcpy(fake__at(fake, addr), &word, sizeof(word));
}

static inline void fake__set_page(struct fake *fake, uint64_t addr, unsigned char state)
{
	size_t i = fake__part(fake, addr);

	fake->parts[i].state[(addr - fake->parts[i].start) / 4096] = state;
}

static inline long fake__read(void *ctx, uint64_t addr, void *to, size_t len)
{
	struct fake *fake = ctx;
	size_t done = 0;

	fake->reads++;
	if (fake->before_read)
		fake->before_read(fake, addr);
	while (done < len) {
		size_t i = fake__part(fake, addr + done);
		uint64_t off, part;

		if (i == fake->n)
			break;
		off = addr + done - fake->parts[i].start;
		part = 4096 - off % 4096;
		/* memtrace must read resident pages only, because a read would fault other pages
		 * in */
		assert_int_equal(fake->parts[i].state[off / 4096], 1);
		if (part > len - done)
			part = len - done;
		memcpy((char *)to + done, fake->parts[i].bytes + off, part);
		done += part;
	}
	return (long)done;
}

static inline int fake__pagemap(void *ctx, uint64_t page, uint64_t *entries, size_t n)
{
	struct fake *fake = ctx;

	for (size_t k = 0; k < n; k++) {
		size_t i = fake__part(fake, (page + k) * 4096);
		unsigned char state =
			i == fake->n
				? 0
				: fake->parts[i].state[(page + k) - fake->parts[i].start / 4096];

		entries[k] = state == 1 ? 1ULL << 63 : state == 2 ? 1ULL << 62 : 0;
	}
	return 0;
}

static inline struct image *fake__image_with(struct fake *fake, const struct image_limits *limits)
{
	const struct image_source source = {fake__read, fake__pagemap, fake};
	struct image *image;

	assert_int_equal(maps__parse(fake->text, strlen(fake->text), &fake->maps, NULL), 0);
	assert_int_equal(fake->maps.n, fake->n);
	assert_int_equal(image__new(&fake->maps, &source, limits, &image), 0);
	return image;
}

static inline struct image *fake__image(struct fake *fake)
{
	return fake__image_with(fake, &(struct image_limits){});
}

static inline void fake__free(struct fake *fake, struct image *image)
{
	image__free(image);
	maps__free(&fake->maps);
	for (size_t i = 0; i < fake->n; i++) {
		free(fake->parts[i].bytes);
		free(fake->parts[i].state);
	}
	*fake = (struct fake){};
}

#endif
