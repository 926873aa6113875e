/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds code that a process has changed in its own memory, as hot patching does. To place a probe,
 * the kernel works with the file's code. In such a process, the kernel would overwrite the change
 * with the file's instruction. The process would then run into the middle of another
 * instruction. */
#ifndef MEMTRACE_CAPTURE_PATCH_H
#define MEMTRACE_CAPTURE_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_id.h"
#include "proc/maps.h"

#define CODE_BEFORE 15

/* An instruction of a file. It may lie after its function's entry. A patch puts a jump at the
 * entry, and the jump is longer than one instruction. So the jump may cover this instruction with
 * any bytes, even with the file's own byte or a breakpoint. Therefore the bytes of the function
 * before the instruction are compared, too. */
struct code_place {
	uint64_t off;	  /* offset in the file */
	uint8_t byte;	  /* the instruction's first byte */
	uint8_t n_before; /* number of bytes in `before` */
	uint8_t before[CODE_BEFORE];
};

/* Returns the place `delta` bytes after the entry of the function whose code is `code`. `off`: the
 * place's offset in the file. */
struct code_place code_place__in(const uint8_t *code, uint32_t delta, uint64_t off);

/* Looks at n places in each mapping of the file's code in process pid. Finds a place where the
 * process has changed the code. `maps`: the process's address space. Returns 1, and sets *ret to
 * the index of this place; 0: no change was found; -ETIMEDOUT: the memory could not be read now, so
 * the answer is unknown. A breakpoint of a debugger or a tracer is no change. */
int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret);

/* Looks at n places in each mapping of the file's code in process pid. Is the file's own
 * instruction at one of them? Then no probe is there. `maps`: the process's address space. If the
 * memory cannot be read, returns false. */
bool patch__is_bare(pid_t pid, const struct maps *maps, const struct file_id *file,
		    const struct code_place *places, size_t n);

#endif
