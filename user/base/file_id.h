/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file: what /proc/PID/maps and the kernel's records tell it by. */
#ifndef MEMTRACE_BASE_FILE_ID_H
#define MEMTRACE_BASE_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>

/* On overlayfs and btrfs the device is not the one that stat(2) shows. */
struct file_id {
	uint32_t dev_major, dev_minor;
	uint64_t inode; /* 0: no file */
};

/* The vdso is an ELF file without being one of a file system's. */
#define FILE_ID_VDSO ((struct file_id){0, 0, UINT64_MAX})

/* Ascending by device, then inode; as strcmp. */
static inline int file_id__compare(const struct file_id *a, const struct file_id *b)
{
	if (a->dev_major != b->dev_major)
		return a->dev_major < b->dev_major ? -1 : 1;
	if (a->dev_minor != b->dev_minor)
		return a->dev_minor < b->dev_minor ? -1 : 1;
	return (a->inode > b->inode) - (a->inode < b->inode);
}

static inline bool file_id__equal(const struct file_id *a, const struct file_id *b)
{
	return !file_id__compare(a, b);
}

#endif
