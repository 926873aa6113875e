/* SPDX-License-Identifier: BSD-2-Clause */
/* What identifies a file in /proc/PID/maps and in the kernel's records. */
#ifndef MEMTRACE_BASE_FILE_ID_H
#define MEMTRACE_BASE_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>

/* On overlayfs and btrfs the device differs from the one that stat(2) shows. */
struct file_id {
	uint32_t dev_major, dev_minor;
	uint64_t inode; /* 0: no file */
};

/* The vdso is an ELF file, but lies in no file system. */
#define FILE_ID_VDSO ((struct file_id){0, 0, UINT64_MAX})

/* Orders by device, then inode, ascending; the result is like strcmp()'s. */
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
