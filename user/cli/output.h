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
	const char *extension; /* of the format's files */
	bool by_default;       /* written by record unless told otherwise */
	bool binary;	       /* not for a terminal */
	bool needs_objects;    /* needs numbers of objects, and how they were sampled */
	bool needs_addresses;  /* needs an address for each function, not only its name */
	bool views;	       /* can show stacks by any weight, and below roots (profile/view.h) */
};

#define N_FORMATS 5
extern const struct format formats[N_FORMATS];
#define FORMAT_NAMES "heap, collapsed, pprof, svg, symbolized" /* for people */

/* The format of that name, or NULL. */
const struct format *find_format(const char *name);

/* For stacks that no run has recorded (profile/drawing.h), called what in messages: takes a format
 * that needs no addresses of code. 0, or the status of usage_error(). */
int take_drawn_format(const char *command, const char *what, const char *value,
		      const struct format **ret);
/* Does the format (NULL: none was given) go with --json and with where output goes to? output:
 * NULL: standard output. 0, or the status of usage_error(). */
int check_drawn_format(const char *command, const struct format *format, bool json,
		       const char *output);

/* Lets encode write to standard output if path is NULL, else to the file called path. The file
 * appears whole or not at all; a device, FIFO or socket is written to as it is. 0, or EXIT_FAILED
 * after a complaint. */
int write_text(const char *path, int (*encode)(const void *what, struct sink *sink),
	       const void *what);

/* Lets encode write to a stream, and flushes it. name: how messages call it. 0, or EXIT_FAILED
 * after a complaint. */
int write_stream(FILE *stream, const char *name, int (*encode)(const void *what, struct sink *sink),
		 const void *what);

/* Writes a profile in a format by write_text(), or a view of the profile if the format shows views.
 * name: the profile's name, for messages about data that the profile lacks. */
int write_file(const char *path, const struct format *format, const struct profile *profile,
	       const struct view_options *view, const char *name);

/* Takes --weight or --by; option is the long name. 0, or EXIT_USAGE after a complaint. */
int take_view_option(struct view_options *view, const char *command, const char *option,
		     const char *value);

/* Makes the view of the profile. 0, or EXIT_FAILED after a complaint, also if it is refused. Clear
 * view in any case. */
int open_view(struct profile_view *view, const struct profile *profile,
	      const struct view_options *options, const char *name);

/* Is it a device, FIFO or socket? A file cannot replace one. */
bool is_stream(const char *path);

/* How wide a table may be on a descriptor: as COLUMNS says, else as wide as the terminal, else
 * TABLE_UNCUT. */
unsigned output_width(int fd);

/* Sets width and colours for standard output or, if path is not NULL, for that file, which gets no
 * colours. */
void fit_output(struct table_options *options, const char *path);

/* fit_output() for the target of a descriptor. */
void fit_descriptor(struct table_options *options, int fd);

#endif
