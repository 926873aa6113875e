/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that continue to read after a signal or a short read(2). */
#ifndef MEMTRACE_BASE_IO_H
#define MEMTRACE_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads len bytes from fd, fewer only at the end of the file. Returns their number, or negative
 * errno. */
ssize_t io__read(int fd, void *buf, size_t len);

/* Reads all that is left of fd, whose length is unknown, and adds a NUL that *ret_len does not
 * count. Returns 0 (then the caller frees *ret_bytes); -EFBIG: there are more than max bytes; other
 * negative errno. */
int io__read_all(int fd, size_t max, char **ret_bytes, size_t *ret_len);

/* Like io__read(), but reads at off; the file's position does not change. */
ssize_t io__pread(int fd, void *buf, size_t len, uint64_t off);

/* The size of the file behind fd; 0 if fd is -1. */
uint64_t io__file_bytes(int fd);

#endif
