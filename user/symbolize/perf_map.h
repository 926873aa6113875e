/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of code that a JIT compiler made, as it says itself: /tmp/perf-PID.map, a text file of
 * lines "START SIZE name" (numbers in hex, with or without 0x; the name is the rest of the line,
 * and may hold blanks) to which the process appends while it runs. Source: the kernel's
 * tools/perf/Documentation/jit-interface.txt. Written by node --perf-basic-prof, Java
 * (Compiler.perfmap, perf-map-agent), .NET (DOTNET_PerfMapEnabled), Python 3.12 (-X perf). */
#ifndef MEMTRACE_SYMBOLIZE_PERF_MAP_H
#define MEMTRACE_SYMBOLIZE_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>

struct perf_map; /* opaque */

/* Parses the text of such a file, len bytes, not necessarily ended by a NUL. A JIT uses memory
 * again: where lines overlap the last one holds. Names are cleaned (clean.h) and cut at
 * NAME_MAX_BYTES. *ret_skipped (may be NULL) counts the lines that gave nothing: those of another
 * form, without a name, with an empty or wrapped range, or more of them than a JIT could mean (2
 * M); and a last line without its newline, which is only half written: its name cannot be believed.
 * Nothing in text is needed afterwards. 0 or -ENOMEM. */
int perf_map__parse(const char *text, size_t len, struct perf_map **ret_map, size_t *ret_skipped);

/* The same for the file behind fd, read from its start whatever its position, at most 64 MiB; what
 * is behind them counts as one line skipped. Can be called again when the file has grown. 0,
 * -ENOMEM or another negative errno. */
int perf_map__read(int fd, struct perf_map **ret_map, size_t *ret_skipped);

/* The name of the function at a run-time address, or NULL. Owned by the map. *ret_start (may be
 * NULL): START of its line, also where a later line took that start away. */
const char *perf_map__find(const struct perf_map *map, uint64_t addr, uint64_t *ret_start);

void perf_map__free(struct perf_map *map);

#endif
