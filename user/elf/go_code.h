/* SPDX-License-Identifier: BSD-2-Clause */
/* How to step out of Go's functions, which .eh_frame does not describe.
 *
 * Go keeps frame pointers, so one rule (UNWIND_GO_FRAME) holds nearly everywhere. The functions
 * that need another rule are found in .gopclntab, the table that Go's runtime itself uses to walk
 * stacks. strip does not remove this table. */
#ifndef MEMTRACE_ELF_GO_CODE_H
#define MEMTRACE_ELF_GO_CODE_H

#include "elf/image.h"
#include "elf/unwind.h"

/* Makes rows for the Go code of the file, in ascending order; the last row is UNWIND_NONE. The
 * rows' pcs count from the vaddr `base`, which is below all code. The caller frees the rows. 0;
 * -ENOENT when the file is not a Go file; -ENOTSUP when its table has an unknown form (Go 1.18's
 * and 1.20's are known); -ENOEXEC when the table makes no sense; -E2BIG when there would be more
 * than max_rows; -ENOMEM, -EIO. */
int go_code__rows(const struct elf_image *image, uint64_t base, size_t max_rows,
		  struct unwind_row **ret_rows, size_t *ret_n);

#endif
