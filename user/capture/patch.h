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

#define CODE_BEFORE 15

/* An instruction of a file. A jump to elsewhere is put at a function's entry, and is longer than
 * one instruction: what it has where the place is may be anything, the file's byte or a
 * breakpoint's among them. So what comes before the place in its function counts, too. */
struct code_place {
	uint64_t off;	  /* in the file */
	uint8_t byte;	  /* the first one there */
	uint8_t n_before; /* bytes that come before it */
	uint8_t before[CODE_BEFORE];
};

/* The place delta bytes behind the entry of a function with that code, at off in the file. */
struct code_place code_place__in(const uint8_t *code, uint32_t delta, uint64_t off);

/* Which of n places process pid, whose address space is maps, has changed in any of the mappings of
 * the file: 1, and *ret is its index; 0: none; -ETIMEDOUT: its memory does not come, so that nobody
 * knows. A breakpoint, of a debugger or a tracer, is no change. */
int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret);

#endif
