/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of `memtrace agent` that say where profiles are sent. The tracer reads these options, and
 * the files with tokens, while it has privileges. The server sends the profiles (web/push.h). */
#ifndef MEMTRACE_CLI_PUSH_OPTIONS_H
#define MEMTRACE_CLI_PUSH_OPTIONS_H

#include "cli/options.h"

#define PUSH_OPTIONS 64 /* at most this many, of all kinds together */

struct push_option {
	const char *name;  /* "pyroscope", "pyroscope-rpc", "otlp", "tenant", "token", "label" */
	const char *value; /* the value as given */
};

/* All zero: nothing is sent. */
struct push_config {
	struct push_option options[PUSH_OPTIONS]; /* in the given order: some options belong to the
						   * option before them */
	size_t n;
};

/* Rows for struct push_config; those of push_rare_rows are rarely needed. */
extern const struct option_row push_rows[], push_rare_rows[];

/* Reads the files with tokens and makes the text of FEED_PUSH (agent/feed.h). *ret_text: the
 * caller's; NULL: nothing is sent. 0, or the exit status after a complaint. */
int push_config__text(const struct push_config *config, const char *command, char **ret_text);

#endif
