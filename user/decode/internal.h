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

#define MAX_STACK_FRAMES 16384 /* of one stack */
#define MAX_NAME_BYTES	 4096  /* longer names are cut */
/* bytes or objects of all stacks together: they can be added up as integers */
#define MAX_VALUE    0x1p62
#define MAX_INTERVAL (1ULL << 40) /* bytes between samples */

/* No profile comes near any of these; they bound what a file can make of us, to some 2 GB with what
 * stands beside the profile while it is read. */
struct decode_limits {
	uint64_t items;	    /* functions, strings, stacks, threads, mappings, lines of locations ...
			     * of each kind */
	uint64_t locations; /* different ones in stacks */
	uint64_t frames;    /* locations of all different stacks */
	uint64_t bytes;	    /* what the profile takes, with what the allocator adds */
	/* of all stacks as if written out, with inlined functions */
	uint64_t written_frames, written_bytes;
};

extern const struct decode_limits decode_limits;

/* decode_bytes() within other limits. */
int decode_within(const struct decode_limits *limits, const char *name, const void *data,
		  size_t len, struct profile **ret_profile, struct error *err);

/* The bytes of a file, unpacked. */
struct input {
	const char *name;
	const char *bytes;
	size_t len;
	struct error *err;
	bool packed; /* the file was, by gzip, as pprof's are */
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

/* A profile while it is read. Zeroed but for profile and limits at the beginning. What is refused
 * below leaves its reason in why, which the reader tells with the place that it knows. */
struct making {
	struct profile *profile;
	const struct decode_limits *limits;
	const char *why;       /* static */
	struct intern stacks;  /* addresses of a stack; numbered as the profile's sites */
	struct intern names;   /* of frames that have no address; numbered as their addresses */
	struct intern threads; /* what tells those apart that have no tid, or none of a thread's */
	uint64_t n_frames, n_held, n_bytes;
	struct {
		double objects, bytes, samples, sampled_bytes, alloc_objects, alloc_bytes;
	} sums; /* of all stacks */
};

void making__clear(struct making *making);

/* -EFBIG for this reason. */
int making__refuse(struct making *making, const char *static_why);

/* The site of a stack of addresses, leaf first, a new one (survival, growth and what was freed
 * not known) if it is the first time. 0; -EFBIG; -ENOMEM. */
int making__site(struct making *making, const uint64_t *addrs, size_t n, size_t *ret_site);

/* Adds to what is live of a site, and to what was allocated. 0; -EFBIG: all stacks together have
 * more than MAX_VALUE, or something is no number. */
int making__add(struct making *making, size_t site, const struct estimate *live,
		double alloc_objects, double alloc_bytes);

/* An address that stands for a name. 0; -EFBIG; -ENOMEM. */
int making__name(struct making *making, const char *name, size_t len, uint64_t *ret_addr);

#define NO_TID UINT64_MAX

/* The thread of that number; with NO_TID, or one that no thread of the kernel's has, threads are
 * kept apart by that number and their name, and get one of their own. 0; -EFBIG; -ENOMEM. */
int making__thread(struct making *making, uint64_t tid, const char *name, size_t *ret_thread);

/* What a thread holds of a site. 0; -EFBIG; -ENOMEM. */
int making__held(struct making *making, size_t site, size_t thread, double objects, double bytes);

/* A copy of it. 0; -EFBIG; -ENOMEM. */
int making__mapping(struct making *making, const struct profile_mapping *mapping);

/* Counts something of so many bytes that is to be allocated, as much as the allocator takes for it.
 * 0 or -EFBIG. */
int making__take(struct making *making, size_t bytes);

/* Names a location by its place in a file ("libc.so.6+0x1234"), or without a path by its address
 * ("0x1234"). 0; -EFBIG; -ENOMEM. */
int making__name_by_offset(struct making *making, struct profile_location *location,
			   const char *path, uint64_t off);

/* What n sampled objects of s bytes altogether stand for, sampled at interval (0: they stand for
 * themselves, and how sure that is is not known). */
struct estimate unsampled(double n, double s, uint64_t interval);

/* When all sites are there: sorts. Then names the locations whose addresses making__name() gave. 0;
 * -EFBIG; -ENOMEM. */
int making__sort(struct making *making);

/* At the end: names the locations that have none yet by their offset, and looks whether all stacks
 * written out are of a sound size. 0; -EFBIG; -ENOMEM. */
int making__finish(struct making *making);

/* A number in digits at *pos, which moves behind it. 0, -EINVAL: none there or too large. */
int take_decimal(const char **pos, const char *end, uint64_t *ret);

/* The formats. Each fills in making->profile; 0, or negative errno with in->err set but for
 * -ENOMEM and for -EFBIG that has no place. */
int decode_pprof(const struct input *in, struct making *making);
int decode_heap(const struct input *in, struct making *making);
int decode_collapsed(const struct input *in, struct making *making);

#endif
