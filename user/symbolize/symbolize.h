/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses -> names. Never fails a profile: a frame without a name says why. */
#ifndef MEMTRACE_SYMBOLIZE_SYMBOLIZE_H
#define MEMTRACE_SYMBOLIZE_SYMBOLIZE_H

#include <stdint.h>

#include "proc/maps.h"
#include "profile/profile.h"

/* A cache of symbol tables, one per binary file (device, inode), shared by all profiles that are
 * symbolized with it. */
struct symbolizer;

int symbolizer__new(struct symbolizer **ret_symbolizer); /* 0 or -ENOMEM */
void symbolizer__free(struct symbolizer *symbolizer);

/* Makes sure that the file behind an executable mapping can still be read when its process is gone:
 * opens it now (maps__open_file) and keeps the descriptor, once per (device, inode). Cheap; no
 * symbols are read yet. 0, or negative errno (the frames will say file_not_readable). */
int symbolizer__hold(struct symbolizer *symbolizer, pid_t pid, const struct map_entry *entry);

/* Fills in name and reason of every location, and build_id of the mappings they lie in. Only files
 * held before are read, and only those that a location needs. 0 or -ENOMEM. */
int symbolizer__symbolize(struct symbolizer *symbolizer, struct profile *profile);

#endif
