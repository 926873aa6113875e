/* SPDX-License-Identifier: BSD-2-Clause */
/* A census of a heap. It counts memory in use and free memory, page by page. It also counts the
 * blocks that keep pages from going back to the kernel. A child process (scan.h) makes the census
 * and sends it. The parent receives it, and checks each number that it uses as a length or an
 * index. */
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
	const struct shape_label *labels; /* known blocks (shapes.h); NULL: none */
	size_t n_labels;
	/* `slack` of struct census counts what the pages of these ranges hold. The ranges are
	 * ascending and do not overlap. NULL: only the member `cached` of `slack` is counted */
	const struct heap_range *ranges;
	size_t n_ranges;
	double patience_s; /* time limit for the whole census; 0: SCAN_PATIENCE_S */
	struct scan_pace pace;
};

/* Makes a census of what the child has found. For tests, and for the child. 0 or -ENOMEM. The
 * caller releases ret with census__clear(). */
int census__count(const struct scan_view *view, const struct census_options *options,
		  struct census *ret);

/* Takes a census of pid. maps: the maps of pid, which the caller has just read. 0, or negative
 * errno with err. The error is one of scan__start() or scan__end(), or it is -EPROTO: the child
 * sent invalid data. The caller releases ret with census__clear(). */
int census__take(pid_t pid, const struct maps *maps, const struct census_options *options,
		 struct census *ret, struct error *err);

/* Scans pid, and writes a line "ADDRESS SIZE" for each block in use: the address in hexadecimal,
 * the usable bytes in decimal. An error is one of census__take() or one of the sink. */
int census__list(pid_t pid, const struct maps *maps, struct sink *sink, struct error *err);

#endif
