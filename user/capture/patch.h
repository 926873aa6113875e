/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds code that a process has changed in its own memory, as hot patching does. To place a probe,
 * the kernel works with the file's code. In such a process it would overwrite the change with the
 * file's instruction. The process would then run into the middle of another instruction. */
#ifndef MEMTRACE_CAPTURE_PATCH_H
#define MEMTRACE_CAPTURE_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_id.h"
#include "proc/maps.h"

#define CODE_BEFORE 15

/* An instruction of a file. A patch puts a jump at a function's entry, and the jump is longer than
 * one instruction. At the place itself the patched code may then have any byte, also the file's own
 * or a breakpoint's. So the bytes before the place in its function are compared, too. */
struct code_place {
	uint64_t off;	  /* offset in the file */
	uint8_t byte;	  /* the instruction's first byte */
	uint8_t n_before; /* number of bytes in before */
	uint8_t before[CODE_BEFORE];
};

/* The place delta bytes after the entry of a function with that code. off: the place's offset in
 * the file. */
struct code_place code_place__in(const uint8_t *code, uint32_t delta, uint64_t off);

/* Finds a place among n that process pid has changed in any mapping of the file; maps is its
 * address space. 1, and *ret is the index of the place; 0: none is changed; -ETIMEDOUT: the memory
 * could not be read, so the answer is unknown. A breakpoint of a debugger or a tracer is no
 * change. */
int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret);

#endif
