/* SPDX-License-Identifier: BSD-2-Clause */
/* What guards TCP addresses: TLS and a bearer token. The tracer, which has privileges, reads the
 * files with the token, the certificate and the key. The server, which has no privileges, gets the
 * texts in a file in memory. */
#ifndef MEMTRACE_AGENT_GUARD_H
#define MEMTRACE_AGENT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_TOKEN_LEAST 16	    /* characters */
#define GUARD_TOKEN_MOST  4096	    /* characters */
#define GUARD_PEM_MOST	  (1 << 16) /* bytes of a file */

/* The struct owns the texts; NULL: not asked for. Either both cert and key (PEM) are there, or
 * neither. */
struct guard {
	char *token, *cert, *key;
};

/* Writes the texts into a new file in memory. Returns its descriptor, which the caller owns, or
 * negative errno. */
int guard__to_memory(const struct guard *guard);

/* Reads the texts from a file of guard__to_memory(). 0 (then free ret with guard__clear()), or
 * negative errno. */
int guard__from_memory(int fd, struct guard *ret);

/* Does the header Authorization have the token? NULL: there is no header. How long the comparison
 * takes does not depend on where the texts differ. True if no token is asked for. */
bool guard__admits(const struct guard *guard, const char *authorization);

void guard__clear(struct guard *guard);

#endif
