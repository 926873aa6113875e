/* SPDX-License-Identifier: BSD-2-Clause */
/* What guards TCP addresses: TLS and a bearer token. The tracer reads the files, with privileges,
 * and the server, which has none, gets their texts in a file in memory. */
#ifndef MEMTRACE_AGENT_GUARD_H
#define MEMTRACE_AGENT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_TOKEN_LEAST 16	    /* characters */
#define GUARD_TOKEN_MOST  4096	    /* characters */
#define GUARD_PEM_MOST	  (1 << 16) /* bytes of a file */

/* Owned texts; NULL: not asked for. cert and key (PEM): both or none. */
struct guard {
	char *token, *cert, *key;
};

/* The texts in a new file in memory: the caller's descriptor, or negative errno. */
int guard__to_memory(const struct guard *guard);

/* The texts of such a file. 0 (then free ret with guard__clear()), or negative errno. */
int guard__from_memory(int fd, struct guard *ret);

/* Does the header Authorization have the token? NULL: there is no header. How long the comparison
 * takes does not depend on where the texts differ. True if no token is asked for. */
bool guard__admits(const struct guard *guard, const char *authorization);

void guard__clear(struct guard *guard);

#endif
