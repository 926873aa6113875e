/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that pass their calls on through a pointer. CPython's PyObject_Free, for example, calls
 * the function that CPython's table of allocators names. Is such a function called each time, or
 * has the compiler put copies of it into its callers (-flto)? The answer matters, because probes on
 * the function see only calls of the function itself.
 *
 * Guided by a profile (PGO), GCC and Clang also copy the function behind the pointer. The code
 * compares the pointer with the address of the most frequent function. If the two are equal, the
 * code continues in a copy of this function. */
#ifndef MEMTRACE_ELF_FORWARD_H
#define MEMTRACE_ELF_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/image.h"

struct forward {
	/* vaddr of the pointer; 0: not known, because the code reaches it through a register */
	uint64_t slot;
	uint64_t usual; /* vaddr of the function that the code has a copy of; 0: none */
	bool copied;	/* other code of the file has a copy of the function's work */
};

/* Reads the code of the function at vaddr up to its first branch, at most 16 instructions. 0;
 * -ENOENT: the function does not begin like one that passes its calls on; -ENOMEM. */
int forward__read(const struct elf_image *image, uint64_t vaddr, struct forward *ret);

/* Does the code at vaddr, of size bytes, contain the address `target`: as the target of a branch or
 * as an operand? Searches only the first 4 KiB. True also if the code cannot be read. */
bool forward__mentions(const struct elf_image *image, uint64_t vaddr, uint64_t size,
		       uint64_t target);

#endif
