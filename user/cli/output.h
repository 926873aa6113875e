/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands write, and where to. */
#ifndef MEMTRACE_CLI_OUTPUT_H
#define MEMTRACE_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/sink.h"
#include "encode/encode.h"
#include "profile/profile.h"
#include "profile/view.h"

/* A format of files. */
struct format {
	const char *name;
	int (*encode)(const struct profile *profile, struct sink *sink);
	const char *extension; /* of its files */
	bool by_default;       /* written by record unless told otherwise */
	bool binary;	       /* nothing for a terminal */
	bool needs_objects;    /* and to know how they were sampled */
	bool needs_addresses;  /* of all functions: names alone will not do */
	bool views;	       /* shows stacks by any weight, and below roots (profile/view.h) */
};

#define N_FORMATS 5
extern const struct format formats[N_FORMATS];
#define FORMAT_NAMES "heap, collapsed, pprof, svg, symbolized" /* for people */

/* The format of that name, or NULL. */
const struct format *find_format(const char *name);

/* Lets encode write to a file called path, which appears whole or not at all (a device, FIFO or
 * socket is written to as it is), or, if path is NULL, to standard output. EXIT_FAILED, said, or
 * 0. */
int write_text(const char *path, int (*encode)(const void *what, struct sink *sink),
	       const void *what);

/* Lets encode write to a stream, which is flushed; name: what people call it. EXIT_FAILED, said, or
 * 0. */
int write_stream(FILE *stream, const char *name, int (*encode)(const void *what, struct sink *sink),
		 const void *what);

/* write_text() of a profile in that format; of the view of it, where the format shows any. name is
 * the profile's, for people, who are told what it does not say. */
int write_file(const char *path, const struct format *format, const struct profile *profile,
	       const struct view_options *view, const char *name);

/* Takes in --weight or --by, by its long name. 0 or EXIT_USAGE, said. */
int take_view_option(struct view_options *view, const char *command, const char *option,
		     const char *value);

/* The view of the profile; refused with the reason, EXIT_FAILED. 0; to be cleared in any case. */
int open_view(struct profile_view *view, const struct profile *profile,
	      const struct view_options *options, const char *name);

/* A device, FIFO or socket: it cannot be replaced by a file. */
bool is_stream(const char *path);

/* How wide a table may be on a descriptor: as COLUMNS says, else as wide as the terminal, else
 * TABLE_UNCUT. */
unsigned output_width(int fd);

/* Width and colours of standard output, or, if path is not NULL, of that file, which has no
 * colours. */
void fit_output(struct table_options *options, const char *path);

/* The same of what a descriptor leads to. */
void fit_descriptor(struct table_options *options, int fd);

#endif
