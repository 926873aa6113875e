/* SPDX-License-Identifier: BSD-2-Clause */
/* Fetches profiles by their URLs. curl runs in a child without privileges, so memtrace itself needs
 * no HTTP and no TLS. */
#ifndef MEMTRACE_CLI_FETCH_H
#define MEMTRACE_CLI_FETCH_H

#include <stdbool.h>

#include "base/error.h"
#include "profile/profile.h"

struct fetch_options {
	char *token;	    /* a bearer token, or NULL; owned by the caller */
	const char *cacert; /* file of certificates; NULL: the system's */
};

/* Is the name a URL: "http://...", "https://..." or "unix:/SOCKET:/PATH"? Any other name is a
 * file's. */
bool fetch__is_url(const char *name);

/* Like decode_file(). -ENOENT: there is no curl. */
int fetch__profile(const char *url, const struct fetch_options *options,
		   struct profile **ret_profile, struct error *err);

#endif
