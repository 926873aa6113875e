/* SPDX-License-Identifier: BSD-2-Clause */
/* Files in, profile out: what memtrace has written earlier, and other tools. Files are somebody
 * else's: whatever is in them, reading takes bounded memory and time, and what is wrong is told
 * with its place. */
#ifndef MEMTRACE_DECODE_DECODE_H
#define MEMTRACE_DECODE_DECODE_H

#include <stddef.h>

#include "base/error.h"
#include "profile/profile.h"

#define DECODE_MAX_BYTES (256u << 20) /* of a file, and of what is in it when unpacked */

/* Reads the file called path ("-": standard input) and tells by its content which of these it is:
 *
 * - pprof (profile.proto), gzipped or not: memtrace's own, with all that profile/pprof.h tells of,
 *   and other heap profilers' with inuse_space or space. Their variance is what sampling by their
 *   period makes of blocks of each sample's mean size.
 * - heap_v2 of memtrace and jemalloc, with the lines of threads or without, raw or with symbols
 *   before it ("--- symbol"); and the one-line form of gperftools. Numbers are unsampled as jeprof
 *   does it (encode/encode.h), and the variance follows from them likewise.
 * - collapsed: live bytes by names, and nothing else: no_objects, leaf_holds, interval_bytes 0.
 *
 * Numbers that cannot be are refused where they would go into sums (more than 2^62 bytes or
 * objects, all stacks together), and elsewhere cut to what can be: shares to 0 .. 1, sizes to 0 ..
 * 2^62. Threads whose tid is none that a kernel gives are kept apart under numbers from 2^31 on.
 * Lines of a list of libraries that say nothing are counted as lost: mappings_unreadable. There
 * are limits (decode/internal.h): 4 million of whatever a file can have many of, and 1 GiB for the
 * memory of the profile.
 *
 * The profile is sorted, with names for all locations ("module+0xoff" or "0xaddr" where the file
 * has none); the caller frees it. 0, or negative errno (-EINVAL: not such a file, or broken;
 * -EFBIG: more than may be; -ENOMEM) with err naming path, the line or byte (but where it is of the
 * whole), and the reason. */
int decode_file(const char *path, struct profile **ret_profile, struct error *err);

/* The same of len bytes in memory; name is what err calls them. */
int decode_bytes(const char *name, const void *data, size_t len, struct profile **ret_profile,
		 struct error *err);

#endif
