/* SPDX-License-Identifier: BSD-2-Clause */
/* The address space of a process as /proc/PID/maps shows it. The process chooses the names of its
 * files, so nothing in the text is trusted but the kernel's fields. */
#ifndef MEMTRACE_PROC_MAPS_H
#define MEMTRACE_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_id.h"

struct map_entry {
	uint64_t start, end; /* run-time addresses, end exclusive */
	uint64_t off;	     /* offset of start in the file, bytes */
	struct file_id file; /* inode 0: no file behind it; FILE_ID_VDSO: the vdso */
	struct file_id real; /* inode 0: see map_entry__real() */
	char perms[5];	     /* "r-xp" */
	bool executable;     /* perms[2] == 'x' */
	bool deleted; /* the kernel marked the path " (deleted)", which is stripped from path */
	/* the file's path, "[heap]" or the like; "": none. The kernel writes a newline as \012,
	 * which is undone here. The kernel escapes nothing else, not even the backslash. So if a
	 * name really holds "\012", the path here is wrong. */
	char *path;
};

struct maps {
	struct map_entry *entries; /* ascending by start, not overlapping */
	size_t n;
};

/* Returns the file whose pages are mapped, and into which the kernel puts probes. On overlayfs this
 * may be a file of a layer below, which containers share. It is known only if a caller has set
 * entry->real: no function of this header does. */
static inline const struct file_id *map_entry__real(const struct map_entry *entry)
{
	return entry->real.inode ? &entry->real : &entry->file;
}

/* Reads /proc/PID/maps. 0; -ESRCH when there is no such process (any more); other negative errno.
 * For a kernel thread, or a process that has just exited, ret_maps->n is 0. */
int maps__read(pid_t pid, struct maps *ret_maps);

/* Parses the text of a maps file, len bytes, not necessarily ended by a NUL. Lines that are not of
 * the kernel's form are skipped and counted in *ret_skipped (may be NULL). 0 or -ENOMEM. */
int maps__parse(const char *text, size_t len, struct maps *ret_maps, size_t *ret_skipped);

/* Parses one line of a maps file, without its newline. In an smaps file, each mapping begins with
 * such a line, too. The caller frees ret->path. 0; -EINVAL when the line is not of the kernel's
 * form; -ENOMEM. */
int maps__parse_line(const char *line, size_t len, struct map_entry *ret);

/* The entry that holds addr, or NULL. */
const struct map_entry *maps__find(const struct maps *maps, uint64_t addr);

/* Would the new mapping `entry` cover code that is already mapped: of another file, or of another
 * part of the same file? */
bool maps__replaces_code(const struct maps *maps, const struct map_entry *entry);

/* Puts a mapping into the list as the kernel would with MAP_FIXED: cuts away the parts of other
 * mappings that the new mapping covers. Copies the entry's path. 0, -EINVAL for an empty or wrapped
 * range, -ENOMEM. */
int maps__insert(struct maps *maps, const struct map_entry *entry);

/* A deep copy. 0 or -ENOMEM. */
int maps__copy(const struct maps *maps, struct maps *ret_maps);

void maps__free(struct maps *maps);

/* Opens the very file behind a mapping, read-only and close-on-exec. Tries /proc/PID/map_files
 * first, then the file's path below /proc/PID/root, then the path itself. Returns a file only if
 * its device and inode are those of the entry. Only a regular file is opened. A descriptor, or
 * negative errno. -ESTALE: another file is mapped there, or has that name, now; -EINVAL: it is no
 * regular file; -ENOENT: there is no file at all. Never blocks on a FIFO or device. For the vdso,
 * the result is a descriptor of a copy in memory. The copy is of memtrace's own vdso, because all
 * 64-bit processes have the same vdso. (-ENOENT: the size of the entry is not that of memtrace's
 * own vdso.) For a file of FUSE, the result is a descriptor of a copy, too (base/far.h);
 * -ETIMEDOUT, -EBUSY: the file system does not answer. */
int maps__open_file(pid_t pid, const struct map_entry *entry);

/* Takes over fd, from maps__open_file(), and returns a descriptor by which the kernel can place a
 * probe in the file. This is fd itself, unless fd is a descriptor of a copy. For a copy, the result
 * is an O_PATH descriptor of the very file. No call with an O_PATH descriptor, not even close(),
 * asks the file system. On failure returns negative errno; -ESTALE: another file is mapped there
 * now. */
int maps__to_probe(int fd, pid_t pid, const struct map_entry *entry);

#endif
