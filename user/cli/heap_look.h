/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes a census of a process's heap. Finds the classes of C++ objects, and the functions that
 * probably made the blocks. For memtrace heap, and for record after its run. */
#ifndef MEMTRACE_CLI_HEAP_LOOK_H
#define MEMTRACE_CLI_HEAP_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "cli/options.h"
#include "heap/census.h"
#include "profile/origins.h"
#include "profile/profile.h"

/* For a row {"max-overhead", SCAN_PACE(struct config, member)}: sets `member`, which is a struct
 * scan_pace. */
TAKE_OPTION_HEAD(scan_pace);
#define SCAN_PACE(config, member)                                                                  \
	.arg = "PCT", .take = take_scan_pace, .to = offsetof(config, member),                      \
	.help = "share of one CPU that reading may take, or off",                                  \
	.man = "Per cent. With 10, the reading may last ten times as long. Without this option, "  \
	       "reading takes at most a fifth of a CPU that others need, and all of an idle "      \
	       "one. off: no limit. Tracing has the limits of record in any case."

struct heap_look_options {
	bool origins; /* find out which functions made the blocks */
	/* with `origins`: the heap's profile, with sampled blocks whose makers are known. It must
	 * outlive struct heap_look. NULL: no maker is known. */
	const struct profile *profile;
	bool by_file; /* the profile is from a file, so its blocks may be gone by now */
	const struct heap_range *ranges; /* as in census_options */
	size_t n_ranges;
	double patience_s; /* for all censuses together; 0: SCAN_PATIENCE_S for each */
	struct scan_pace pace;
};

struct heap_look {
	struct heap_report report; /* points to the members that follow */
	struct census census;
	struct heap_type *types;
	struct origins origins;
	struct known_block *known;
	char comm[64];
};

/* Takes up to three censuses, until one is good enough to be reported. 0, or negative errno with
 * err; -EAGAIN: no census was good enough. *ret refers to itself, so it must not be moved.
 * heap_look__clear() frees what *ret owns, also after an error. */
int heap_look__take(pid_t pid, const struct heap_look_options *options, struct heap_look *ret,
		    struct error *err);
void heap_look__clear(struct heap_look *look);

#endif
