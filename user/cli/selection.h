/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that select processes, which several commands share. */
#ifndef MEMTRACE_CLI_SELECTION_H
#define MEMTRACE_CLI_SELECTION_H

#include <stdbool.h>

#include "proc/cgroup.h"
#include "session/session.h"

struct selection_config {
	bool given; /* one of these options was given */
	struct session_selection selection;
	const char *comms[ABI_MAX_WANTED];
	uint32_t users[ABI_MAX_WANTED];
	/* as the user gave them; selection_config__open() looks them up */
	const char *cgroup_path, *container;
	struct cgroup cgroup;
};

/* Stores the value of one option: --all (value NULL), --comm, --exe, --user, --cgroup, --container,
 * --follow (NULL). option is the long name. 0, or EXIT_USAGE after a complaint. */
int selection_config__take(struct selection_config *config, const char *command, const char *option,
			   const char *value);

/* Writes the selection as options, for people: "--comm nginx --user 33". Text that does not fit
 * into `size` bytes is cut off. Returns buf. */
char *selection_config__describe(const struct selection_config *config, char *buf, size_t size);

/* Finds the cgroup that was asked for. 0, or negative errno with err set. */
int selection_config__open(struct selection_config *config, struct error *err);

#endif
