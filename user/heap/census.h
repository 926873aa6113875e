/* SPDX-License-Identifier: BSD-2-Clause */
/* A census of a heap: memory in use and free memory, page by page, and the blocks that keep pages
 * from going back to the kernel. The child of scan.h counts and sends; the parent receives, and
 * trusts no number that it uses as a length or an index. */
#ifndef MEMTRACE_HEAP_CENSUS_H
#define MEMTRACE_HEAP_CENSUS_H

#include <stdint.h>
#include <stdio.h>

#include "base/sink.h"
#include "heap/find.h"
#include "heap/scan.h"
#include "heap/shapes.h"
#include "profile/heap.h"

#define CENSUS_MAX_ARENAS (1 << 16)

struct census_options {
	const struct shape_label *labels; /* blocks that are known (shapes.h); NULL: none */
	size_t n_labels;
};

/* Counts the blocks. For tests, and for the child. 0 or -ENOMEM. The caller releases ret with
 * census__clear(). */
int census__count(const struct scan_view *view, const struct census_options *options,
		  struct census *ret);

/* A census of pid, whose maps the caller has just read. 0, or negative errno with err: of
 * scan__start() and scan__end(), or -EPROTO. The caller releases ret with census__clear(). */
int census__take(pid_t pid, const struct maps *maps, const struct census_options *options,
		 struct census *ret, struct error *err);

/* Writes a line "ADDRESS SIZE" (hexadecimal, usable bytes in decimal) for each block in use, from a
 * scan of its own. Errors as above, and those of the sink. */
int census__list(pid_t pid, const struct maps *maps, struct sink *sink, struct error *err);

#endif
