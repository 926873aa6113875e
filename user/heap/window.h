/* SPDX-License-Identifier: BSD-2-Clause */
/* A window of words, through which large memory of a process is read. */
#ifndef MEMTRACE_HEAP_WINDOW_H
#define MEMTRACE_HEAP_WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct image;

#define WINDOW_BYTES (32u << 10) /* work on this many bytes takes less than a burst (gentle.h) */
#define WINDOW_WORDS (WINDOW_BYTES / sizeof(uint64_t))

/* Free with window__clear(). */
struct window {
	uint64_t *words;
	uint64_t start, end;	     /* addresses of the words that were loaded last */
	uint64_t run_start, run_end; /* the run of resident memory that holds them (image__run()) */
	uint64_t unread_bytes; /* in all loads: bytes of resident pages that could not be read */
};

int window__init(struct window *window); /* 0 or -ENOMEM */
void window__clear(struct window *window);

/* Loads the first resident memory in [at, end), but at most WINDOW_BYTES. If nothing is resident
 * there, the window is empty: it starts and ends at `end`. Memory that was unmapped meanwhile
 * counts as zeros. 0, or why nothing more can be read: -ETIMEDOUT, -EFBIG. */
int window__next(struct window *window, struct image *image, uint64_t at, uint64_t end);

#endif
