/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that protect the agent's addresses: a certificate with its key, and a token. */
#ifndef MEMTRACE_CLI_GUARD_OPTIONS_H
#define MEMTRACE_CLI_GUARD_OPTIONS_H

#include <stdbool.h>

#include "agent/guard.h"
#include "cli/options.h"

/* Paths of files, as given by the options; NULL: not given. */
struct guard_config {
	const char *cert, *key, *token;
};

extern const struct option_row guard_rows[];

/* Reads the files. for_other_hosts: an address that other hosts reach; such an address needs TLS
 * and a token. NULL: there is no such address. 0, or the exit status after a complaint. Free ret
 * with guard__clear() in any case. */
int guard_config__read(const struct guard_config *config, const char *command,
		       const char *for_other_hosts, struct guard *ret);

#endif
