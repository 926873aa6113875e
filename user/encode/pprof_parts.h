/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/encode: the parts of the writer of pprof. pprof_write.c has the wire format and
 * the gzip file. pprof.c has the fields that any reader of pprof knows. pprof_own.c has the fields
 * that only memtrace knows. After an error, which struct pprof stores, nothing more is written. */
#ifndef MEMTRACE_ENCODE_PPROF_PARTS_H
#define MEMTRACE_ENCODE_PPROF_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/intern.h"
#include "base/sink.h"
#include "profile/pprof.h"

/* A message that grows. */
struct message {
	char *bytes;
	size_t len, room;
	bool failed; /* out of memory */
};

/* The sum of one value over the samples so far, and the sum of the integers written for them. */
struct carry {
	double sum;
	uint64_t written;
};

/* Returns the integer to write for the next value. It is the difference between the rounded sums
 * with and without this value, so the total stays right. It is at most INT64_MAX, and 0 if the
 * value is not a positive number. */
uint64_t carry__take(struct carry *carry, double value);

/* The fields that a mapping is written with. */
struct mapping_use {
	uint64_t id;			/* 0: the mapping is not written */
	bool functions, files, inlined; /* at least one location has these */
};

struct encode_interval;

struct pprof {
	const struct profile *profile;
	/* set: the file has the standard form, for this interval; NULL: it has memtrace's form */
	const struct encode_interval *interval;
	struct sink *sink;
	z_stream zip;
	struct intern strings;
	struct intern functions; /* each has three numbers: name, why it has no name (0: it has
				  * one), file */
	struct carry carry[VALUES];
	uint64_t max_value; /* limit for a value of one sample, so that no sum overflows */
	struct message message, part;
	struct mapping_use *uses; /* by mapping */
	bool threads_left_out;	  /* samples name no threads, because they would be too many */
	bool *named;		  /* for each thread: does a sample name it? */
	/* count of the sampled blocks of all stacks; number of the next block */
	uint64_t n_blocks, next_block;
	int error;
};

/* --- the wire --- */

/* Append bytes, or a number as a varint. If there is no memory, message.failed becomes true. */
void message__append(struct message *m, const void *data, size_t len);
void message__varint(struct message *m, uint64_t value);
/* Append a field. message__uint() leaves out a field that is 0: an absent field means 0. */
void message__uint(struct message *m, int field, uint64_t value);
void message__bytes(struct message *m, int field, const void *data, size_t len);

/* --- the file --- */

/* Packs len bytes into the file; flush is the argument of zlib's deflate(). */
void pprof__deflate(struct pprof *p, const void *data, size_t len, int flush);

/* Writes p->message as the given field of the profile, and empties p->message. */
void pprof__put_message(struct pprof *p, int field);

/* Write fields of the profile itself; a number that is 0 is not written. */
void pprof__put_field(struct pprof *p, int field, const void *data, size_t len);
void pprof__put_number(struct pprof *p, int field, uint64_t value);

/* Makes the text printable, and returns its number in the table of strings. */
uint64_t pprof__string(struct pprof *p, const char *text);

/* --- pprof_own: memtrace's own fields --- */

/* Adds the rounding errors of a sample's values to p->message; written[] is the rounded values.
 * True: something was added. */
bool pprof_own__add_remainders(struct pprof *p, const double values[OWN_REMAINDERS],
			       const uint64_t written[OWN_REMAINDERS]);

/* Adds the fields that describe a whole stack to p->message. True: something was added. */
bool pprof_own__add_stack(struct pprof *p, const struct profile_site *site);

/* Writes memtrace's own fields of the profile. */
void pprof_own__put(struct pprof *p);

#endif
