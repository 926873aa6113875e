/* SPDX-License-Identifier: BSD-2-Clause */
/* One ELF file, read for what placing probes and naming addresses needs: segments, build-id,
 * symbols, bytes of code. The file belongs to the target: any field may lie, so every offset and
 * count is checked against the file's size before use, and the file is read, never mapped, and by
 * no library. Three kinds of number are never mixed: addr (run time), vaddr (ELF virtual address),
 * off (file offset). */
#ifndef MEMTRACE_ELF_IMAGE_H
#define MEMTRACE_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct elf_image; /* opaque */

struct elf_symbol {
	const char *name; /* without the version ("@GLIBC_2.2.5"); owned by the image */
	uint64_t vaddr;
	uint64_t size; /* 0: unknown */
	uint8_t type;  /* STT_FUNC, STT_GNU_IFUNC, ... */
	uint8_t bind;  /* STB_GLOBAL, STB_WEAK, STB_LOCAL */
	bool dynamic;  /* from .dynsym, else from .symtab */
};

/* Opens the ELF file behind fd (duplicated; the caller keeps its own). Only 64-bit little-endian
 * x86-64 ET_EXEC and ET_DYN files are taken. 0; -ENOEXEC when it is something else or broken, with
 * err saying what; -ENOMEM; what reading gives. name is for messages. */
int elf_image__open(int fd, const char *name, struct elf_image **ret_image, struct error *err);
/* The same without its symbols, which are most of the work and memory. */
int elf_image__open_code(int fd, const char *name, struct elf_image **ret_image, struct error *err);

/* Gives the descriptor back: what is left answers questions about segments and symbols, and reads
 * no code or tables any more. */
void elf_image__close_file(struct elf_image *image);
void elf_image__free(struct elf_image *image);
DEFINE_CLEANUP(struct elf_image *, elf_image__cleanup, elf_image__free)

bool elf_image__has_interp(const struct elf_image *image);
const char *elf_image__soname(const struct elf_image *image); /* DT_SONAME or NULL */

/* GNU build-id as lower-case hex, or NULL. */
const char *elf_image__build_id(const struct elf_image *image);

/* File offset <-> ELF virtual address, through the PT_LOAD segments. 0 or -ERANGE. */
int elf_image__off_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr);
int elf_image__vaddr_to_off(const struct elf_image *image, uint64_t vaddr, uint64_t *ret_off);

/* The address that the first byte of an executable mapping has in the file, which begins at off, a
 * multiple of the page size (ELF gABI, "Program Loading"). Not elf_image__off_to_vaddr(): a mapping
 * has whole pages, and its first may begin with bytes of the segment before (LLD lets segments
 * share pages of the file). Where no executable segment has bytes in that page, that of any other.
 * 0 or -ERANGE. */
int elf_image__mapping_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr);

/* Bytes at vaddr, at most len, of the file's executable PT_LOAD segments; fewer at a segment's end.
 * Returns how many were copied to buf, or -ERANGE when vaddr lies in no executable segment. */
long elf_image__read_code(const struct elf_image *image, uint64_t vaddr, void *buf, size_t len);

/* Where a process starts that this file is the program or the dynamic linker of; 0: nowhere. */
uint64_t elf_image__entry(const struct elf_image *image);

/* The lowest and the end of the highest virtual address of the executable PT_LOAD segments. 0 or
 * -ENOENT when there is none. */
int elf_image__code_span(const struct elf_image *image, uint64_t *ret_start, uint64_t *ret_end);

/* A copy of .eh_frame, at most 128 MiB, and its virtual address: found through the section headers
 * or, in a file without them, through PT_GNU_EH_FRAME. The caller frees it. 0; -ENOENT when the
 * file has none; -ENOEXEC when it is too large or not in the file; -ENOMEM, -EIO. */
int elf_image__read_eh_frame(const struct elf_image *image, unsigned char **ret_bytes,
			     size_t *ret_size, uint64_t *ret_vaddr);

/* A copy of the section called name and its virtual address. The caller frees it. 0; -ENOENT when
 * the file has none that is loaded and has bytes; -ENOEXEC when it is larger than 256 MiB or not in
 * the file; -ENOMEM, -EIO. */
int elf_image__read_section(const struct elf_image *image, const char *name,
			    unsigned char **ret_bytes, size_t *ret_size, uint64_t *ret_vaddr);

/* Go's link editor made it (Go 1.13 and later, stripped or not). */
bool elf_image__is_go(const struct elf_image *image);

/* Calls fn for each defined function symbol (STT_FUNC, STT_GNU_IFUNC, any binding) of .dynsym and,
 * where present, .symtab. Stops when fn returns non-zero, which is then returned. A table that is
 * cut short or lies is read as far as it is sound. */
int elf_image__each_function(const struct elf_image *image,
			     int (*fn)(const struct elf_symbol *symbol, void *ctx), void *ctx);

/* The defined symbol called name, whichever table has it (.dynsym first; a default version before a
 * hidden one; global before weak before local). 0 or -ENOENT. */
int elf_image__find_function(const struct elf_image *image, const char *name,
			     struct elf_symbol *ret_symbol);

/* Finds direct near calls (e8 rel32) and jumps (e9 rel32) to vaddr in the executable segments by
 * scanning their bytes, and stores the virtual address AFTER each call instruction (the return
 * address it pushes), up to max, in ret_vaddrs. Jumps push nothing and are left out. A data byte
 * that looks like one is harmless: it never becomes a return address. Returns the number found,
 * which may exceed max. */
size_t elf_image__direct_callers(const struct elf_image *image, uint64_t vaddr,
				 uint64_t *ret_vaddrs, size_t max);

/* The function that a jump through the pointer at vaddr slot (of the PLT, or by -fno-plt code)
 * leads to, when the dynamic linker finds it in this very file: the one that the slot's relocation
 * names. 0; -ENOENT when it is another file's, or nothing is known of the slot; other negative
 * errno. */
int elf_image__slot_function(struct elf_image *image, uint64_t slot, uint64_t *ret_vaddr);

#endif
