/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that record, top and agent share: what is traced and how; and where record and top
 * write output. */
#ifndef MEMTRACE_CLI_TRACE_OPTIONS_H
#define MEMTRACE_CLI_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "session/session.h"

#define MAX_PIDS 256

struct trace_config {
	pid_t pids[MAX_PIDS];
	size_t n_pids;
	struct selection_config selection;
	double duration_s; /* 0: until a signal, or until the targets end */
	unsigned what;	   /* bits of enum session_what */
	enum session_region_place region_place;
	/* limit of the cost in windows: a share of CPU time; 0: no limit */
	double max_overhead;
	/* limit of the cost in continuous tracing: a share of CPU time */
	double max_steady_overhead;
	double max_host_overhead;
	bool overhead_given, host_overhead_given;
	uint64_t window_period_ms;
	bool leaks, what_given, interval_given, no_returns;
	bool heap; /* option of record: a census at the end, which needs many sampled blocks */
	/* option of record: only processes that are killed because memory is short get profiles */
	bool on_oom;
	const char *output;
	bool output_given, format_given;
	bool show_runtime; /* as in struct table_options */
	bool to_stdout;	   /* -o -: tables go to standard output, also with a command */
	bool format[N_FORMATS];
	struct alloc_options extra;
	struct capture_options capture;
	struct symbolize_options symbolize;
	struct file_owner *owners; /* the profiles that have got files, in order */
	size_t n_owners;
};

/* Parses per cent of CPU time, or "off". Sets *ret to the share, 0.001..1, or to 0 for "off".
 * Returns 0, or EXIT_USAGE after a complaint. */
int parse_overhead(const char *command, const char *text, double *ret);

/* Sets the defaults. */
void trace_config__init(struct trace_config *config);

/* Rows that fill in a struct trace_config. trace_where_rows are about tables, which the agent does
 * not print. */
extern const struct option_row trace_target_rows[], trace_how_rows[], trace_output_rows[],
	trace_view_rows[], trace_rare_rows[], trace_where_rows[], trace_debug_rows[];

/* Sets the options that other options imply. Call it after all options are parsed. 0, or EXIT_USAGE
 * after a complaint about options that cannot be combined. */
int trace_config__settle(struct trace_config *config, const char *command, bool starts_program);

/* Makes the session's options, which point into config. */
struct session_options trace_config__session_options(const struct trace_config *config);

/* Complains of what a started session cannot do. Names the functions of --alloc, --free and --end
 * whose file is not mapped yet. Says if there are no return probes. */
void trace_config__say_missing(const struct trace_config *config, const struct session *session);

/* Complains of functions that could not be probed, except those with numbers up to *told
 * (capture_refusal.number), which were reported before. Updates *told; it is 0 at first. */
void say_refused(const struct session *session, uint64_t *told);

/* If memtrace is held up, probes are withdrawn for a time. n: how many such times were reported;
 * seconds: their sum. */
struct withdrawn_told {
	size_t n;
	double seconds;
};
/* Complains of times without probes, except those that were reported before. */
void say_withdrawn(const struct session *session, struct withdrawn_told *told);
/* Complains that the session is not guarded and therefore has to end. Returns EXIT_FAILED. */
int say_unguarded(void);

/* Is the word, which follows the options, a pid that belongs to -p? Then MORE_PIDS says what to
 * do. */
bool is_another_pid(const struct trace_config *config, const char *word);
#define MORE_PIDS "several pids are separated by commas, as in -p $(pgrep -d, -x NAME)"

/* --- the files --- */

/* Is there a format to write? */
bool trace_config__writes_files(const struct trace_config *config);

/* Can all files be written? The check is made before the tracing, not after an hour of it.
 * with_command: the process's pid is not known yet. 0, or negative errno with err set. */
int trace_config__check_files(const struct trace_config *config, bool with_command,
			      struct error *err);

/* Is this a profile of regions that only --leaks has added? Such a profile gets no files and no
 * table. */
bool trace_config__is_aside(const struct trace_config *config, const struct profile *profile);

/* What the profile shows, as one of enum session_what. */
unsigned trace_what(const struct profile *profile);

/* Writes one profile in all formats. A format that can show views shows this view of the profile,
 * or as much of the view as the profile has figures for (write_capture()). number: the snapshot's
 * number; "": no snapshot. If another profile of the same pid has got files before, the names of
 * the files have "-2" or the like after the pid. written() is called for each file, and returns 0
 * or -ENOMEM. 0, or EXIT_FAILED after a complaint. */
int trace_config__write_files(struct trace_config *config, const struct profile *profile,
			      const struct view_options *view, const char *number,
			      int (*written)(void *ctx, const struct profile *profile,
					     const char *path),
			      void *ctx);

#endif
