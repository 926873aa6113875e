/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes that a program has built in: the markers of systemtap's <sys/sdt.h> (also called USDT).
 *
 * A marker is a nop in the code, and a note in the section .note.stapsdt. The note holds the nop's
 * address, the marker's provider and name, and where the marker's arguments are at the nop. The
 * arguments are text, as the compiler wrote them for the assembler: "8@%rdi -4@-20(%rbp) 8@$5". A
 * marker may have a semaphore: a counter in the program's data. While the counter is 0, the program
 * skips the work for the marker.
 *
 * The file is the target's, so no number and no text is trusted. libbpf can attach to such markers
 * by itself, but for that it reads the file with libelf in the privileged process. */
#ifndef MEMTRACE_ELF_STAPSDT_H
#define MEMTRACE_ELF_STAPSDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"

struct stapsdt_marker {
	const char *name;
	const char *arguments; /* the text of the arguments, as in the note; may be "" */
	uint64_t vaddr;	       /* vaddr of the nop; adjusted if the file was prelinked */
	uint64_t semaphore;    /* vaddr of its semaphore, a 16-bit counter, adjusted as `vaddr` is;
				* 0: it has none */
};

/* Calls fn for each marker of the provider. The texts are valid only while fn runs. If fn returns
 * non-zero, stops and returns that value. Notes are read up to the first broken one. Returns 0,
 * also if the file has no markers; -ENOEXEC when the section is larger than 16 MiB or not in the
 * file; -ENOMEM, -EIO. */
int stapsdt__each(const struct elf_image *image, const char *provider,
		  int (*fn)(const struct stapsdt_marker *marker, void *ctx), void *ctx);

enum stapsdt_kind {
	STAPSDT_CONSTANT = 1, /* the number `value` */
	STAPSDT_REGISTER,     /* in the register `base` */
	STAPSDT_MEMORY,	      /* in memory at base + (index << shift) + value */
};

/* Registers have the numbers of struct probe_site's args: 1 to 6 rdi, rsi, rdx, rcx, r8, r9; 7 to
 * 14 rax, r10, r11, rbx, r12 to r15; and 15 rbp, 16 rsp. */
#define STAPSDT_RSP 16

struct stapsdt_argument {
	enum stapsdt_kind kind;
	uint8_t base, index; /* numbers of registers; 0: none */
	uint8_t shift;	     /* 0 to 3 */
	uint8_t bytes;	     /* 1, 2, 4 or 8 */
	bool is_signed;
	int64_t value;
};

/* Reads the text of a marker's arguments. Returns their number; -E2BIG when there are more than max
 * (or more than 12); -EINVAL when one of them is not understood. Three kinds of operand are
 * understood: registers of 8 bytes and parts of them, constants, and memory relative to such
 * registers. Not understood are, for example, a variable's name, a vector register, and the upper
 * half of %ax. *ret_arguments is only written on success. */
int stapsdt__parse(const char *text, struct stapsdt_argument *ret_arguments, size_t max);

#endif
