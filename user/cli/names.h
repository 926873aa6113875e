/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for profiles that were read from files without names. */
#ifndef MEMTRACE_CLI_NAMES_H
#define MEMTRACE_CLI_NAMES_H

#include "profile/profile.h"

/* Names the addresses of a heap profile that has no names. The names come from the files that its
 * process had mapped, if these files are still the same. path: the path of the profile, for
 * messages. 0, or an exit status after a complaint. */
int name_raw(const char *path, struct profile *profile);

#endif
