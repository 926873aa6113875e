/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/decode: functions that the readers of all formats share. */
#ifndef MEMTRACE_DECODE_INTERNAL_H
#define MEMTRACE_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "profile/profile.h"

#define MAX_STACK_FRAMES 16384 /* limit for one stack */
#define MAX_NAME_BYTES	 4096  /* longer names are cut */
/* limit for the bytes, and for the objects, of all stacks together, so that integer sums cannot
 * overflow */
#define MAX_VALUE    0x1p62
#define MAX_INTERVAL (1ULL << 40) /* bytes between samples */

/* Limits that no real profile comes near. With them, no file can make memtrace use more than some 2
 * GB of memory, including tables that exist only while the file is read. */
struct decode_limits {
	uint64_t items;	    /* limit for each kind of item: functions, strings, stacks, threads,
			     * mappings, lines ... */
	uint64_t locations; /* distinct addresses in stacks */
	uint64_t frames;    /* frames of all distinct stacks together */
	uint64_t bytes;	    /* memory of the profile, with the allocator's overhead */
	/* frames and bytes of all stacks written out in full, with inlined functions */
	uint64_t written_frames, written_bytes;
};

extern const struct decode_limits decode_limits;

/* Like decode_bytes(), with other limits. */
int decode_within(const struct decode_limits *limits, const char *name, const void *data,
		  size_t len, struct profile **ret_profile, struct error *err);

/* The bytes of a file, unpacked. */
struct input {
	const char *name;
	const char *bytes;
	size_t len;
	struct error *err;
	bool packed; /* the file was gzipped, as most pprof files are */
};

/* Set the error "NAME: line 3: ..." or "NAME: byte 17: ..." (of the unpacked file), and return
 * code, a negative errno. */
int input__bad_line(const struct input *in, int code, size_t line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int input__bad_byte(const struct input *in, int code, size_t byte, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A line of text without its newline. */
struct line {
	const char *text;
	size_t len;
	size_t number; /* from 1; 0: no line has been read yet */
};

/* Finds the next line after *line; false: there is no more line. */
bool input__next_line(const struct input *in, struct line *line);

/* Does the line begin with the word? */
bool line__starts(const struct line *line, const char *word);

/* A profile while it is read. At the beginning all fields are zero except profile and limits. If a
 * function below refuses a number or an entry, the function sets `why` to the reason. The format's
 * reader knows the place in the file, and reports the place and the reason. */
struct draft {
	struct profile *profile;
	const struct decode_limits *limits;
	const char *why;      /* static */
	struct intern stacks; /* key: the addresses of a stack; number: index of its site */
	/* names of frames without an address; such a frame gets the address PROFILE_NO_ADDR +
	 * number */
	struct intern names;
	/* threads with an impossible tid; key: the tid, or the name if the tid is NO_TID */
	struct intern threads;
	uint64_t n_frames, n_held, n_bytes, n_blocks;
	struct {
		double objects, bytes, samples, sampled_bytes, alloc_objects, alloc_bytes;
	} sums; /* over all stacks */
};

void draft__clear(struct draft *draft);

/* Sets `why` and returns -EFBIG. */
int draft__refuse(struct draft *draft, const char *static_why);

/* Finds the site of a stack of addresses, leaf first. A new stack gets a new site, in which
 * survival, growth and freed memory are not known. 0; -EFBIG; -ENOMEM. */
int draft__site(struct draft *draft, const uint64_t *addrs, size_t n, size_t *ret_site);

/* Adds to a site's live and allocated memory. 0; -EFBIG: all stacks together have more than
 * MAX_VALUE, or a value is negative or NaN. */
int draft__add(struct draft *draft, size_t site, const struct estimate *live, double alloc_objects,
	       double alloc_bytes);

/* Finds or makes the address, from PROFILE_NO_ADDR on, that stands for a name. 0; -EFBIG;
 * -ENOMEM. */
int draft__name(struct draft *draft, const char *name, size_t len, uint64_t *ret_addr);

#define NO_TID UINT64_MAX

/* Finds or adds a thread. A thread is identified by its tid alone, or, with NO_TID, by its name
 * alone. The kernel gives tids below 2^31 only. A thread with a larger tid or with NO_TID gets a
 * new tid from 2^31 on. 0; -EFBIG; -ENOMEM. */
int draft__thread(struct draft *draft, uint64_t tid, const char *name, size_t *ret_thread);

/* Adds to a thread's part of the live memory of a site. 0; -EFBIG; -ENOMEM. */
int draft__held(struct draft *draft, size_t site, size_t thread, double objects, double bytes);

/* Adds a copy of the mapping. 0; -EFBIG; -ENOMEM. */
int draft__mapping(struct draft *draft, const struct profile_mapping *mapping);

/* Counts the memory of one allocation of `bytes` bytes, with the allocator's overhead. Call it
 * before the allocation is made. 0 or -EFBIG. */
int draft__take(struct draft *draft, size_t bytes);

/* Names a location by path and offset ("libc.so.6+0x1234"). Without a path, off is the address,
 * and the name is the address alone ("0x1234"). 0; -EFBIG; -ENOMEM. */
int draft__name_by_offset(struct draft *draft, struct profile_location *location, const char *path,
			  uint64_t off);

/* n sampled objects have s bytes in total. Estimates how much memory they stand for, if they were
 * sampled at this interval. With interval 0, each object stands for itself only, and the error is
 * not known. */
struct estimate unsampled(double n, double s, uint64_t interval);

/* Sorts the profile, to which all sites must have been added before. Then gives names to the
 * locations whose addresses are from draft__name(). 0; -EFBIG; -ENOMEM. */
int draft__sort(struct draft *draft);

/* Call it last. Makes a name from the offset for each location that has no name yet. Fills in
 * figures of allocated and freed memory that the file lacks. Checks how large all stacks are when
 * they are written out in full. 0; -EFBIG; -ENOMEM. */
int draft__finish(struct draft *draft);

/* Reads decimal digits at *pos, and moves *pos after them. 0, or -EINVAL: no digit, or the number
 * is too large. */
int take_decimal(const char **pos, const char *end, uint64_t *ret);

/* The readers of the formats. Each fills in draft->profile. 0, or negative errno with in->err set.
 * in->err stays unset after -ENOMEM, and after an -EFBIG that no place in the file has caused. */
int decode_pprof(const struct input *in, struct draft *draft);
int decode_heap(const struct input *in, struct draft *draft);
int decode_collapsed(const struct input *in, struct draft *draft);

#endif
