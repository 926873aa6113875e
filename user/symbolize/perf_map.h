/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of JIT-compiled code, from the file that the process itself writes: /tmp/perf-PID.map. It
 * is a text file of lines "START SIZE name", to which the process appends while it runs. The
 * numbers are hex, with or without 0x; the name is the rest of the line and may contain blanks.
 * Source: the kernel's tools/perf/Documentation/jit-interface.txt. Such files are written by node
 * --perf-basic-prof, Java (Compiler.perfmap, perf-map-agent), .NET (DOTNET_PerfMapEnabled), Python
 * 3.12 (-X perf). */
#ifndef MEMTRACE_SYMBOLIZE_PERF_MAP_H
#define MEMTRACE_SYMBOLIZE_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>

struct perf_map; /* opaque */

/* The addresses that will be looked up, ascending. Only they need to be found. */
struct perf_map_wanted {
	const uint64_t *addrs;
	size_t n;
};

/* Parses len bytes of such a file. wanted: NULL if any address may be looked up; then a large file
 * takes seconds. The text need not end with a NUL, and is not needed after the call. A JIT reuses
 * memory: where lines overlap, the last one wins. Names are cleaned (clean.h) and cut at
 * NAME_MAX_BYTES. *ret_skipped (may be NULL) counts the lines that were not used. A line
 * is not used if it has another form, no name, or an empty or wrapped range. After 2 Mi used lines,
 * no further line is used (no real JIT writes so many). A last line without a newline is not used,
 * because its name may be only half written. 0 or -ENOMEM. */
int perf_map__parse(const char *text, size_t len, const struct perf_map_wanted *wanted,
		    struct perf_map **ret_map, size_t *ret_skipped);

/* Like perf_map__parse(), for the file behind fd. Reads at most 64 MiB from the file's start,
 * whatever the position of fd; everything beyond counts as one skipped line. Can be called again
 * when the file has grown. 0, -ENOMEM or another negative errno. */
int perf_map__read(int fd, const struct perf_map_wanted *wanted, struct perf_map **ret_map,
		   size_t *ret_skipped);

/* Returns the name of the function at a run-time address, or NULL. The map owns the name.
 * *ret_start (may be NULL): the START of the function's line, even if a later line has overwritten
 * that start. */
const char *perf_map__find(const struct perf_map *map, uint64_t addr, uint64_t *ret_start);

void perf_map__free(struct perf_map *map);

#endif
