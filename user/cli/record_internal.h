/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the parts of memtrace record: its options (record_options.c), its output
 * (record_output.c), and the run (record.c). */
#ifndef MEMTRACE_CLI_RECORD_INTERNAL_H
#define MEMTRACE_CLI_RECORD_INTERNAL_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/heap_look.h"
#include "cli/output.h"
#include "cli/render.h"
#include "cli/snapshots.h"
#include "cli/trace_options.h"
#include "session/session.h"

/* The file of a snapshot that was written. */
struct written {
	pid_t pid;
	unsigned what; /* one of enum session_what */
	uint64_t start_unix_ns;
	char *path;
};

/* With --heap: what lies in the heap of a process. */
struct record_heap {
	const struct profile *profile; /* the heap's */
	/* Both are owned. If `look` is NULL, there is no census, and `failed` has the reason. */
	struct heap_look *look;
	char *failed;
};

struct record_config {
	struct trace_config trace;
	char *const *command;
	struct more_tables more;
	struct snapshots snapshots;
	struct written *written;
	size_t n_written;
	struct modules *modules; /* NULL: none were given */
	struct view_options view;
	bool weight_given, sort_given, churn;
	enum process_sort sort;
	unsigned top;
	bool json;
	const char *json_path; /* NULL: JSON goes to the stream of tables */
	const char *parts_dir; /* directory for record_write_parts(); NULL: none */
	FILE *out;	       /* stream of tables and JSON, chosen by record_choose_output() */
	const char *out_name;
	bool quiet, verbose;
	bool why;			     /* --why */
	struct process_registers *registers; /* record_why.c; owned */
	size_t n_registers;
	struct record_heap *heaps; /* record_heap.c; owned */
	size_t n_heaps;
	unsigned n_victims; /* profiles that --on-oom has written so far */
	bool victim_failed; /* one of their files could not be written */
};

/* Parses the options. 0, or the exit status after a complaint about wrong use. Ends memtrace after
 * --help and --version. */
int record_parse_options(int argc, char **argv, struct record_config *c);

/* Can the files be written? The check is made before the tracing, not after an hour of it. 0, or
 * negative errno with err set. */
int record_check_outputs(const struct record_config *c, struct error *err);

/* --- record_why.c: with --why, who holds the blocks of the stacks that grow --- */

/* Loads the programs that read registers. They are loaded before the run, because memtrace drops
 * its privileges when the run stops. */
void record_why__begin(struct record_config *c, struct session *session);

/* Searches the processes' memory after the probes were removed. Stores in the profiles who holds
 * the blocks, or the reason why the holders are not known. If `signals` becomes readable, the
 * search ends. */
void record_why__ask(struct record_config *c, struct profile *const *profiles, size_t n,
		     int signals);

/* --- record_heap.c: with --rss and --heap, what lies in the heaps --- */

/* Makes a census of each process's heap after the probes were removed. With --rss, stores in the
 * profiles what the resident pages of the heap hold. With --heap, stores in `c` what
 * record_heap__of() returns. If a census fails, stores the reason. If `signals` is readable, no
 * further census begins. 0 or -ENOMEM. */
int record_heap__look(struct record_config *c, struct profile *const *profiles, size_t n,
		      int signals);
/* Returns what lies in the heap of the profile's process. NULL: it was not asked for. */
const struct record_heap *record_heap__of(const struct record_config *c,
					  const struct profile *profile);
void record_heap__clear(struct record_config *c);

/* Chooses the stream for tables and JSON. With a command, standard output is the command's, unless
 * the user asks for standard output (trace.to_stdout). */
void record_choose_output(struct record_config *c);

/* record_write_files() writes a profile's files. For a snapshot, `told` is NULL, and c stores the
 * paths. At the end of the run, `told` is the profile itself, and gets the paths of all its files.
 * All three functions return 0, or EXIT_FAILED after a complaint. */
int record_write_files(struct record_config *c, const struct profile *p, struct profile *told);
int record_write_tables(const struct record_config *c, struct profile *const *profiles, size_t n);
int record_write_json(const struct record_config *c, struct profile *const *profiles, size_t n);
/* Does record_write_json() write a regular file? (Writing a regular file never waits for a reader.
 * A FIFO, a terminal or a pipe may have no reader.) False without --json. */
bool record_json_is_file(const struct record_config *c);
/* To be called after the session's profiles are written. The model of windows consists of parts
 * (profile/parts.h). For each part, computes the estimates that the model without this part makes
 * from the same windows, and writes them as JSON into parts_dir. 0, or EXIT_FAILED after a
 * complaint. */
int record_write_parts(const struct record_config *c, struct session *session);

#endif
