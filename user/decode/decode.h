/* SPDX-License-Identifier: BSD-2-Clause */
/* Files in, profile out. A file comes from memtrace or from another tool, and is not trusted:
 * reading any file takes bounded memory and time. An error message names the place of the fault in
 * the file. */
#ifndef MEMTRACE_DECODE_DECODE_H
#define MEMTRACE_DECODE_DECODE_H

#include <stddef.h>

#include "base/error.h"
#include "profile/profile.h"

#define DECODE_MAX_BYTES (256u << 20) /* limit for a file, packed and unpacked */

/* Reads the file called path ("-": standard input). The format is found by the file's content:
 *
 * - pprof (profile.proto), gzipped or not: files of memtrace, with all that profile/pprof.h
 *   describes, and files of other heap profilers, if the files have values inuse_space or space.
 *   Files of other profilers have no variance, so the variance is computed. The computation assumes
 *   that the profiler sampled by the file's period, and that all blocks of a pprof sample have the
 *   sample's mean size.
 * - heap_v2 of memtrace and jemalloc, with or without the lines of threads, with or without a
 *   section of symbols ("--- symbol") before the stacks; and the one-line form of gperftools.
 *   Numbers are scaled up as jeprof does it (encode/encode.h), and the variance is computed as
 *   above.
 * - collapsed: live bytes by names, and nothing else. no_objects and leaf_holds are set, and
 *   interval_bytes is 0.
 *
 * Numbers that go into sums are refused if they are impossible (more than 2^62 bytes or objects,
 * all stacks together). Most impossible numbers in memtrace's own fields (profile/pprof.h) are
 * refused, too. Other numbers are limited to possible values: shares to 0 .. 1, sizes to 0 .. 2^62.
 * The kernel gives only tids below 2^31: a thread with another tid gets a new tid from 2^31 on.
 * Unusable lines of a list of libraries are counted as losses, in mappings_unreadable. There are
 * limits (decode/internal.h): 4 million items of each kind, such as stacks or functions, and 1 GiB
 * for the memory of the profile.
 *
 * The profile is sorted, and all locations have names ("module+0xoff" or "0xaddr" where the file
 * has none). The caller frees it. 0, or negative errno (-EINVAL: the file has none of these
 * formats, or is broken; -EFBIG: a limit is exceeded; -ENOMEM). After an error, err names the path
 * and the reason. If only one place is at fault, err also names its line or byte. */
int decode_file(const char *path, struct profile **ret_profile, struct error *err);

/* Like decode_file(), but reads len bytes in memory. err names `name` instead of a path. */
int decode_bytes(const char *name, const void *data, size_t len, struct profile **ret_profile,
		 struct error *err);

#endif
