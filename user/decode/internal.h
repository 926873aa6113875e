/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the room: what the readers of all formats share. */
#ifndef MEMTRACE_DECODE_INTERNAL_H
#define MEMTRACE_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "profile/profile.h"

/* No profile comes near any of these; they bound what a file can make of us, to some 2 GB. */
#define MAX_STACK_FRAMES 16384	      /* of one stack */
#define MAX_FRAMES	 (1u << 24)   /* of all different stacks */
#define MAX_LOCATIONS	 (1u << 21)   /* different ones in them */
#define MAX_ITEMS	 (1u << 22)   /* functions, strings, stacks ... of each kind */
#define MAX_NAME_BYTES	 4096	      /* longer names are cut */
#define MAX_TEXT	 (256u << 20) /* names of all locations */
#define MAX_STACK_TEXT	 (1ULL << 31) /* names of all stacks, as if written out */

/* The bytes of a file, unpacked. */
struct input {
	const char *name;
	const char *bytes;
	size_t len;
	struct error *err;
};

/* Set the error and return code, negative errno: "NAME: line 3: ..." and "NAME: byte 17: ..." (of
 * the unpacked file). */
int input__bad_line(const struct input *in, int code, size_t line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int input__bad_byte(const struct input *in, int code, size_t byte, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A line of text without its end. */
struct line {
	const char *text;
	size_t len;
	size_t number; /* from 1; 0: before the first */
};

/* The next line after *line; false at the end. */
bool input__next_line(const struct input *in, struct line *line);

bool line__starts(const struct line *line, const char *word);

/* A profile while it is read. Zeroed but for profile at the beginning. */
struct making {
	struct profile *profile;
	struct intern stacks;  /* addresses of a stack; numbered as the profile's sites */
	struct intern names;   /* of frames that have no address; numbered as their addresses */
	struct intern threads; /* names of threads whose tid is not told */
	uint64_t n_frames, n_text;
};

void making__clear(struct making *making);

/* The site of a stack of addresses, leaf first, a new one (survival and growth not known) if it is
 * the first time. 0; -EFBIG; -ENOMEM. */
int making__site(struct making *making, const uint64_t *addrs, size_t n, size_t *ret_site);

/* An address that stands for a name. 0; -EFBIG; -ENOMEM. */
int making__name(struct making *making, const char *name, size_t len, uint64_t *ret_addr);

/* Counts text that is to be held. 0 or -EFBIG. */
int making__take_text(struct making *making, size_t len);

/* What n sampled objects of s bytes altogether stand for, sampled at interval (0: they stand for
 * themselves, and how sure that is is not known). */
struct estimate unsampled(double n, double s, uint64_t interval);

/* When all sites are there: sorts. Then names the locations whose addresses making__name() gave. 0;
 * -ENOMEM. */
int making__sort(struct making *making);

/* At the end: names the locations that have none yet by their offset, and looks whether all stacks
 * written out are of a sound size. 0; -EFBIG; -ENOMEM. */
int making__finish(struct making *making);

/* "libc.so.6+0x1234", or "0x1234" without a path; NULL: no memory. */
char *offset_name(const char *path, uint64_t off);

/* A number in digits at *pos, which moves behind it. 0, -EINVAL: none there or too large. */
int take_decimal(const char **pos, const char *end, uint64_t *ret);

/* The formats. Each fills in making->profile; 0, or negative errno with in->err set but for
 * -ENOMEM. */
int decode_pprof(const struct input *in, struct making *making);
int decode_heap(const struct input *in, struct making *making);
int decode_collapsed(const struct input *in, struct making *making);

#endif
