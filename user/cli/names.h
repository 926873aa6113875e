/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for profiles that were read without any. */
#ifndef MEMTRACE_CLI_NAMES_H
#define MEMTRACE_CLI_NAMES_H

#include "profile/profile.h"

/* Names the addresses of a heap profile that has no names. They come from the files that its
 * process had mapped, where these are still the same. path: the profile's own, for messages. 0, or
 * an exit status after a complaint. */
int name_raw(const char *path, struct profile *profile);

#endif
