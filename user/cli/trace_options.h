/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that say what is traced, how, and where to it is written: what record and top
 * share. */
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
	double duration_s; /* 0: until told or the targets end */
	unsigned what;	   /* of enum session_what */
	enum session_region_place region_place;
	double max_overhead;	    /* share, in windows; 0: no limit */
	double max_steady_overhead; /* all the time */
	double max_host_overhead;
	bool overhead_given, host_overhead_given;
	uint64_t window_period_ms;
	bool leaks, what_given, interval_given, no_returns;
	const char *output;
	bool output_given, format_given;
	bool to_stdout; /* -o -: what is shown, of a command, too */
	bool format[N_FORMATS];
	struct alloc_options extra;
	struct capture_options capture;
	struct symbolize_options symbolize;
};

/* Sets what holds when no option says otherwise. */
void trace_config__init(struct trace_config *config);

/* Rows that fill in a struct trace_config. */
extern const struct option_row trace_target_rows[], trace_how_rows[], trace_output_rows[],
	trace_view_rows[], trace_rare_rows[], trace_debug_rows[];

/* Once all are taken in: what follows from one for another. 0; EXIT_USAGE with a message, of what
 * is useless together. */
int trace_config__settle(struct trace_config *config, const char *command, bool starts_program);

/* What the session is told. config is for as long as the options are. */
struct session_options trace_config__session_options(const struct trace_config *config);

/* Complains of what a session that was started cannot do: functions of --alloc and --free whose
 * file is not mapped yet, return probes. */
void trace_config__say_missing(const struct trace_config *config, const struct session *session);

/* Complains of functions that could not be probed, but for the first *told, and counts them in. */
void say_refused(const struct session *session, size_t *told);

/* How much the user has been told of the times in which probes were withdrawn. */
struct withdrawn_told {
	size_t n;
	double seconds;
};
/* Complains of those that were not told yet. */
void say_withdrawn(const struct session *session, struct withdrawn_told *told);
/* Complains that the session is not guarded, for which it has to end. EXIT_FAILED. */
int say_unguarded(void);

/* --- the files --- */

/* Is there a format to write? */
bool trace_config__writes_files(const struct trace_config *config);

/* Can all be written? with_command: the process's pid is not known yet. 0 or negative errno with
 * err. Better to hear it now than after an hour of tracing. */
int trace_config__check_files(const struct trace_config *config, bool with_command,
			      struct error *err);

/* Regions that were looked at for leaks, too, and nobody asked for: no files, no table. */
bool trace_config__is_aside(const struct trace_config *config, const struct profile *profile);

/* Of which of enum session_what the profile is. */
unsigned trace_what(const struct profile *profile);

/* Writes one profile in all formats, of that view of it where the format shows any. number: of a
 * snapshot, "" for none. written is told of each file; it returns 0 or -ENOMEM. 0 or EXIT_FAILED,
 * said. */
int trace_config__write_files(const struct trace_config *config, const struct profile *profile,
			      const struct view_options *view, const char *number,
			      int (*written)(void *ctx, const struct profile *profile,
					     const char *path),
			      void *ctx);

#endif
