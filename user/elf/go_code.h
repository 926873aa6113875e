/* SPDX-License-Identifier: BSD-2-Clause */
/* How to step out of Go's functions, which .eh_frame does not describe.
 *
 * Go keeps frame pointers, so one rule (UNWIND_GO_FRAME) holds nearly everywhere. What needs
 * another is found in .gopclntab, the table by which Go's runtime itself walks stacks; strip leaves
 * it. */
#ifndef MEMTRACE_ELF_GO_CODE_H
#define MEMTRACE_ELF_GO_CODE_H

#include "elf/image.h"
#include "elf/unwind.h"

/* Rows for the Go code of the file, ascending, the last one UNWIND_NONE; their pcs count from vaddr
 * base, which is below all code. The caller frees them. 0; -ENOENT when the file is not Go's;
 * -ENOTSUP when its table has an unknown form (Go 1.18's and 1.20's are known); -ENOEXEC when it
 * makes no sense; -E2BIG when there would be more than max_rows; -ENOMEM, -EIO. */
int go_code__rows(const struct elf_image *image, uint64_t base, size_t max_rows,
		  struct unwind_row **ret_rows, size_t *ret_n);

#endif
