/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the output of commands to files, terminals and standard output. */
#ifndef MEMTRACE_CLI_OUTPUT_H
#define MEMTRACE_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/sink.h"
#include "encode/encode.h"
#include "profile/profile.h"
#include "profile/view.h"

/* A format of files. */
struct format {
	const char *name;
	int (*encode)(const struct profile *profile, struct sink *sink);
	const char *extension; /* extension of the format's files */
	bool by_default;       /* record writes this format if no -f is given */
	bool binary;	       /* the format is not for a terminal */
	bool needs_objects;    /* the profile must have numbers of objects, and say how it was
			        * sampled */
	bool needs_addresses;  /* the profile must have an address for each function */
	bool views;	       /* the format can show views (profile/view.h): stacks by any weight,
			        * with or without a root frame */
};

#define N_FORMATS 5
extern const struct format formats[N_FORMATS];
#define FORMAT_NAMES "heap, collapsed, pprof, svg, symbolized" /* for people */

/* Returns the format of that name, or NULL. */
const struct format *find_format(const char *name);

/* Finds a format for stacks that no run has recorded (profile/drawing.h). Formats that set
 * needs_objects are refused. what: the stacks' name in messages. 0, or the status of
 * usage_error(). */
int take_drawn_format(const char *command, const char *what, const char *value,
		      const struct format **ret);
/* Checks whether the format can be combined with --json and with this output. format: NULL if none
 * was given. output: a path; NULL: standard output. 0, or the status of usage_error(). */
int check_drawn_format(const char *command, const struct format *format, bool json,
		       const char *output);

/* Lets encode() write to standard output if `path` is NULL, else to the file of that path. The file
 * appears whole or not at all. A device, a FIFO and a descriptor such as /dev/stdout are written to
 * directly. 0, or EXIT_FAILED after a complaint. */
int write_text(const char *path, int (*encode)(const void *what, struct sink *sink),
	       const void *what);

/* Can write_text() write to the path? To be called before long work, not after it. path: NULL for
 * standard output. For a stream (is_stream()), some failures cannot be foreseen, and come later. 0,
 * or negative errno with err. */
int check_output(const char *path, struct error *err);
/* Calls check_output(). Then root keeps CAP_DAC_OVERRIDE if writing there needs this capability,
 * and gives it up otherwise. Call it after privileges__limit(). 0, or negative errno with err. */
int begin_output(const char *path, struct error *err);

/* Lets encode() write to a stream, and flushes the stream. name: the stream's name in messages. 0,
 * or EXIT_FAILED after a complaint. */
int write_stream(FILE *stream, const char *name, int (*encode)(const void *what, struct sink *sink),
		 const void *what);

/* Writes a profile in a format with write_text(). If the format shows views, writes the view
 * instead of the whole profile. name: the profile's name, for messages about data that the profile
 * lacks. */
int write_file(const char *path, const struct format *format, const struct profile *profile,
	       const struct view_options *view, const char *name);

/* Like write_file(), for a profile of a run that has just ended and cannot be repeated. If the
 * profile lacks figures that the view needs, complains, and writes the stacks by live bytes,
 * without the view's roots, or both. *ret_written: is the file there? 0, or EXIT_FAILED after a
 * complaint, also if the file is not as it was asked for. */
int write_capture(const char *path, const struct format *format, const struct profile *profile,
		  const struct view_options *view, bool *ret_written);

/* Stores the value of --weight or --by; option is the long name. 0, or EXIT_USAGE after a
 * complaint. */
int take_view_option(struct view_options *view, const char *command, const char *option,
		     const char *value);

/* Makes the view of the profile. 0, or EXIT_FAILED after a complaint, also if the view is refused.
 * Clear `view` in any case. */
int open_view(struct profile_view *view, const struct profile *profile,
	      const struct view_options *options, const char *name);

/* Is this a device, FIFO or socket, or a descriptor such as /dev/stdout? A file must not replace
 * these. */
bool is_stream(const char *path);

/* Returns how wide a table on a descriptor may be: the number in COLUMNS, else the width of the
 * terminal, else TABLE_UNCUT. */
unsigned output_width(int fd);

/* Sets width and colours for standard output or, if `path` is not NULL, for that file, which gets
 * no colours. */
void fit_output(struct table_options *options, const char *path);

/* Like fit_output(), for the file behind a descriptor. */
void fit_descriptor(struct table_options *options, int fd);

#endif
