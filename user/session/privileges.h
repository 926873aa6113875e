/* SPDX-License-Identifier: BSD-2-Clause */
/* Which capabilities a run needs, for what, and until when. privileges.c and docs/safety.md have
 * the same table. */
#ifndef MEMTRACE_SESSION_PRIVILEGES_H
#define MEMTRACE_SESSION_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Phases of a run, in this order. */
enum privileges_phase {
	PRIVILEGES_OPENING,  /* until all is in place */
	PRIVILEGES_TRACING,  /* probes, files and processes come and go */
	PRIVILEGES_STOPPED,  /* what was found is read, symbolized and written */
	PRIVILEGES_DETACHED, /* top writes files when asked to; memtrace waits for a command */
};

struct privileges_use {
	/* The user is root, and root's helpers become another user. privileges__limit() finds out
	 * by itself whether the user is root, and ignores the caller's value. */
	bool as_root;
	bool command; /* a command was started, and may have become another user */
	/* perf uprobes, or page numbers (--rss), need CAP_SYS_ADMIN until tracing is over */
	bool admin;
};

/* Which of the permitted capabilities a phase keeps. */
uint64_t privileges__kept(uint64_t permitted, enum privileges_phase phase,
			  const struct privileges_use *use);

/* Does the set hold all capabilities that tracing always needs? Writes the missing capabilities
 * into text, such as "CAP_BPF, CAP_PERFMON". */
bool privileges__suffice(uint64_t permitted, char *text, size_t size);

/* What a user who is not root needs, as text for people. */
extern const char privileges_without_root[];

/* Does this process lack any capability that tracing always needs? text: as for
 * privileges__suffice(). */
bool privileges__missing(char *text, size_t size);

/* Has this process the capability? */
bool privileges__have(int cap);

/* Gives up, for good, the capabilities that the phase does not need. CAP_DAC_OVERRIDE (to write
 * files where this user may not) is kept but not effective: see privileges__override().
 * The first call sets no_new_privs: programs executed later cannot regain any capability. So a
 * command must be forked before the first call. 0, or negative errno with err. */
int privileges__limit(enum privileges_phase phase, const struct privileges_use *use,
		      struct error *err);

/* Starts the process that opens targets' files (base/far.h), with the capabilities that this takes.
 * Call it after privileges__limit(), and before memtrace has descriptors that this process must not
 * keep open. 0, or negative errno with err. */
int privileges__begin_files(struct error *err);

/* wanted: makes CAP_DAC_OVERRIDE effective, to write files where this user may not. false: gives it
 * up. Returns whether this process has the capability afterwards. */
bool privileges__override(bool wanted);

#endif
