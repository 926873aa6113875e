/* SPDX-License-Identifier: BSD-2-Clause */
/* Code that a process has changed in its own memory, as hot patching does. The kernel puts a probe
 * over what the file has: in such a process it would put the file's instruction in the place of the
 * change, and the process would go on amid another instruction. */
#ifndef MEMTRACE_CAPTURE_PATCH_H
#define MEMTRACE_CAPTURE_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_id.h"
#include "proc/maps.h"

/* An instruction of a file. */
struct code_place {
	uint64_t off; /* in the file */
	uint8_t byte; /* the first one there */
};

/* Which of n places process pid, whose address space is maps, has changed in any of the mappings of
 * the file: 1, and *ret is its index; 0: none; -ETIMEDOUT: its memory does not come, so that nobody
 * knows. A breakpoint, of a debugger or a tracer, is no change. */
int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret);

#endif
