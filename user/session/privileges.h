/* SPDX-License-Identifier: BSD-2-Clause */
/* Which capabilities a run needs, what for, and until when. The table in privileges.c is the one of
 * docs/safety.md. */
#ifndef MEMTRACE_SESSION_PRIVILEGES_H
#define MEMTRACE_SESSION_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Of a run, in this order. */
enum privileges_phase {
	PRIVILEGES_OPENING,  /* until all is in place */
	PRIVILEGES_TRACING,  /* probes, files and processes come and go */
	PRIVILEGES_STOPPED,  /* what was found is read, named and written */
	PRIVILEGES_DETACHED, /* top writes files when asked to, a command is waited for */
};

struct privileges_use {
	bool as_root; /* the user is root, whose helpers become another one; privileges__limit()
		       * sees to it */
	bool command; /* one was started, and may have become another user */
	/* perf uprobes, or the numbers of pages (--rss): CAP_SYS_ADMIN until tracing is over */
	bool admin;
};

/* What is to be kept of the permitted ones in a phase. */
uint64_t privileges__kept(uint64_t permitted, enum privileges_phase phase,
			  const struct privileges_use *use);

/* Those without which nothing can be traced, and that are not in the set, as "CAP_BPF, CAP_PERFMON"
 * into text. True: none is missing. */
bool privileges__suffice(uint64_t permitted, char *text, size_t size);

/* What one who is not root needs, for people. */
extern const char privileges_without_root[];

/* Is something missing in this process? text as above. */
bool privileges__missing(char *text, size_t size);

/* Has this process the capability? */
bool privileges__have(int cap);

/* Gives up what the phase does not need, for good. What may write where this user may not
 * (CAP_DAC_OVERRIDE) stays out of use meanwhile: privileges__override(). On the first call nothing
 * that is executed later can regain anything (no_new_privs): a command has been forked by then. 0,
 * or negative errno with err. */
int privileges__limit(enum privileges_phase phase, const struct privileges_use *use,
		      struct error *err);

/* After privileges__limit(), and before there is anything to hold: begins the process that opens
 * targets' files (base/far.h), with the capabilities for that. 0, or negative errno with err. */
int privileges__begin_files(struct error *err);

/* Files are to be written where this user may not (wanted): takes CAP_DAC_OVERRIDE into use; else
 * gives it up. Is it there? */
bool privileges__override(bool wanted);

#endif
