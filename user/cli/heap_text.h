/* SPDX-License-Identifier: BSD-2-Clause */
/* What `memtrace heap` prints of a census. */
#ifndef MEMTRACE_CLI_HEAP_TEXT_H
#define MEMTRACE_CLI_HEAP_TEXT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/sink.h"
#include "heap/census.h"

struct heap_report {
	const struct census *census;
	pid_t pid;
	const char *comm; /* printable */
	double seconds;	  /* that the census took */
	size_t top;	  /* rows of sizes at most */
	bool json;
	/* an allocator that is mapped but cannot be read, as people call it; NULL: none is known */
	const char *unread;
};

/* The name of an allocator whose library is mapped, but whose blocks memtrace cannot find; or
 * NULL. */
const char *heap_report__unread(const struct maps *maps);

/* Why the figures of an allocator are not worth printing, into text. False: they are. */
bool heap_report__refusal(const struct census *census, char *text, size_t size);

/* For write_text(): report is a struct heap_report. */
int heap_report__write(const void *report, struct sink *sink);

#endif
