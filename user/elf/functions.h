/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the functions of a file begin, read from the sorted table of .eh_frame_hdr (LSB Core,
 * "DWARF Extensions"). */
#ifndef MEMTRACE_ELF_FUNCTIONS_H
#define MEMTRACE_ELF_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"

struct functions {
	uint64_t *starts; /* ascending vaddrs */
	size_t n;
	uint64_t code_end; /* vaddr */
};

/* Reads the sorted table of .eh_frame_hdr. 0; -ENOENT: the file has no such table, or its table has
 * a form that linkers do not write; -ENOMEM. Call functions__free() in any case. */
int functions__read(const struct elf_image *image, struct functions *ret);
void functions__free(struct functions *functions);

/* Finds the start and the end of the function around vaddr. The end is the start of the next
 * function, so bytes between the two functions belong to the range. 0 or -ENOENT. */
int functions__around(const struct functions *functions, uint64_t vaddr, uint64_t *ret_start,
		      uint64_t *ret_end);

#endif
