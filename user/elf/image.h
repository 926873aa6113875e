/* SPDX-License-Identifier: BSD-2-Clause */
/* One ELF file, read for placing probes and naming addresses: segments, build-id, symbols, bytes of
 * code. The file belongs to the target, so no field is trusted. Every offset and count is checked
 * against the file's size before use. The file is read without a library and never mapped. Three
 * kinds of number are never mixed: addr (run time), vaddr (ELF virtual address), off (file
 * offset). */
#ifndef MEMTRACE_ELF_IMAGE_H
#define MEMTRACE_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct elf_image; /* opaque */

/* Code of a file, by vaddr: [start, end). */
struct code_range {
	uint64_t start, end;
};

struct elf_symbol {
	const char *name; /* the name without its version ("@GLIBC_2.2.5"); owned by the image */
	uint64_t vaddr;
	uint64_t size; /* 0: unknown */
	uint8_t type;  /* STT_FUNC, STT_GNU_IFUNC, ... */
	uint8_t bind;  /* STB_GLOBAL, STB_WEAK, STB_LOCAL */
	bool dynamic;  /* true: the symbol is from .dynsym; false: from .symtab */
};

/* Work that cannot wait until a large file has been read. */
struct elf_meanwhile {
	void (*fn)(void *ctx); /* NULL: nothing is called */
	void *ctx;
};

/* Which symbols the caller will ask for. fn is called with the name of each symbol, without its
 * version, and returns true if the name is wanted. Reading a large table takes seconds. So
 * meanwhile is called after each piece, which takes some milliseconds. */
struct elf_wanted {
	bool (*fn)(const char *name, const void *ctx);
	const void *ctx;
	struct elf_meanwhile meanwhile;
};

/* For struct elf_wanted: is the name among `names`, an array of pointers that ends with NULL? */
bool elf_wanted__is_listed(const char *name, const void *names);

/* A symbol with a longer name is left out. */
#define ELF_MAX_NAME_BYTES 2048

/* Opens the ELF file behind fd (duplicated; the caller keeps its own). Accepts only 64-bit
 * little-endian x86-64 ET_EXEC and ET_DYN files. name is for messages. Reads only the first 5
 * million symbols of a table. Keeps only the wanted symbols (NULL: all), and at most 4 MiB of them
 * per table. Returns 0; -ENOEXEC when the file is something else or broken, with the reason in err;
 * -ENOMEM; any error of reading. */
int elf_image__open(int fd, const char *name, const struct elf_wanted *wanted,
		    struct elf_image **ret_image, struct error *err);
/* Like elf_image__open(), but without symbols, which need most of the time and memory. */
int elf_image__open_code(int fd, const char *name, struct elf_image **ret_image, struct error *err);

/* Closes the image's descriptor. The image still answers questions about segments and symbols, but
 * reads no code or tables any more. */
void elf_image__close_file(struct elf_image *image);
void elf_image__free(struct elf_image *image);
DEFINE_CLEANUP(struct elf_image *, elf_image__cleanup, elf_image__free)

/* Does the file name a dynamic linker (PT_INTERP)? */
bool elf_image__has_interp(const struct elf_image *image);
const char *elf_image__soname(const struct elf_image *image); /* DT_SONAME or NULL */

/* Returns the GNU build-id as lower-case hex, or NULL. */
const char *elf_image__build_id(const struct elf_image *image);

/* Translate a file offset to an ELF virtual address and back, by the PT_LOAD segments. 0 or
 * -ERANGE. */
int elf_image__off_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr);
int elf_image__vaddr_to_off(const struct elf_image *image, uint64_t vaddr, uint64_t *ret_off);

/* Finds the vaddr of the first byte of an executable mapping that begins at off in the file. off is
 * a multiple of the page size (ELF gABI, "Program Loading"). elf_image__off_to_vaddr() may give
 * another result: a mapping has whole pages, so its first page may begin with bytes of the
 * preceding segment (LLD lets segments share pages of the file). If no executable segment has bytes
 * in that page, another segment with bytes there is used. 0 or -ERANGE. */
int elf_image__mapping_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr);

/* Copies at most len bytes at vaddr from the executable PT_LOAD segments; fewer at a segment's end.
 * Returns how many were copied to buf, or -ERANGE when vaddr lies in no executable segment. */
long elf_image__read_code(const struct elf_image *image, uint64_t vaddr, void *buf, size_t len);

/* Returns the entry address, for a file that is a program or the dynamic linker; 0: none. */
uint64_t elf_image__entry(const struct elf_image *image);

/* The first values of a file's thread-local variables (PT_TLS). Each thread gets a copy. */
struct elf_tls {
	uint64_t vaddr, size; /* size: includes the part that is not in the file, where all first
			       * values are zero */
	uint64_t align;	      /* a power of two */
};

/* 0 or -ENOENT: the file has no thread-local variables. */
int elf_image__tls(const struct elf_image *image, struct elf_tls *ret);

/* Finds the virtual addresses where the lowest executable PT_LOAD segment begins and the highest
 * one ends. 0 or -ENOENT when there is none. */
int elf_image__code_span(const struct elf_image *image, uint64_t *ret_start, uint64_t *ret_end);

/* Copies .eh_frame, at most 128 MiB, and gives its virtual address. The section is found through
 * the section headers or, in a file without them, through PT_GNU_EH_FRAME. The caller frees the
 * copy. 0; -ENOENT when the file has none; -ENOEXEC when it is too large or not in the file;
 * -ENOMEM, -EIO. */
int elf_image__read_eh_frame(const struct elf_image *image, unsigned char **ret_bytes,
			     size_t *ret_size, uint64_t *ret_vaddr);

/* Copies the section called name and gives its virtual address. The caller frees the copy. 0;
 * -ENOENT when the file has no such section that is loaded and has bytes; -ENOEXEC when it is
 * larger than 256 MiB or not in the file; -ENOMEM, -EIO. */
int elf_image__read_section(const struct elf_image *image, const char *name,
			    unsigned char **ret_bytes, size_t *ret_size, uint64_t *ret_vaddr);

/* Copies the section of notes called name, which need not be loaded. The caller frees the copy. 0;
 * -ENOENT when the file has no such section with bytes; -ENOEXEC when it is larger than max or not
 * in the file; -ENOMEM, -EIO. */
int elf_image__read_notes(const struct elf_image *image, const char *name, uint64_t max,
			  unsigned char **ret_bytes, size_t *ret_size);

/* Finds the virtual address of the loaded section called name. 0 or -ENOENT. */
int elf_image__section_vaddr(const struct elf_image *image, const char *name, uint64_t *ret_vaddr);

/* Was the file made by Go's linker (Go 1.13 and later, stripped or not)? */
bool elf_image__is_go(const struct elf_image *image);

/* Calls fn for each defined function symbol (STT_FUNC, STT_GNU_IFUNC, any binding) of .dynsym and,
 * where present, .symtab. If fn returns non-zero, stops and returns that value. A table that is cut
 * short or broken is read as far as it is sound. */
int elf_image__each_function(const struct elf_image *image,
			     int (*fn)(const struct elf_symbol *symbol, void *ctx), void *ctx);

/* Finds the defined function symbol called name. Order of preference: .dynsym before .symtab; a
 * default version before a hidden one; global before weak before local. 0 or -ENOENT. */
int elf_image__find_function(const struct elf_image *image, const char *name,
			     struct elf_symbol *ret_symbol);

/* Finds the defined variable called name (STT_OBJECT). 0 or -ENOENT. */
int elf_image__find_object(const struct elf_image *image, const char *name,
			   struct elf_symbol *ret_symbol);

/* Finds direct near calls (e8 rel32) to vaddr by scanning the bytes of the executable segments.
 * Stores in ret_vaddrs, for at most max calls, the virtual address AFTER the call instruction. This
 * is the return address that the call pushes. Jumps (e9 rel32) push nothing and are left out. Data
 * that looks like a call is harmless: it never becomes a return address. Returns the number found,
 * which may exceed max. */
size_t elf_image__direct_callers(const struct elf_image *image, uint64_t vaddr,
				 uint64_t *ret_vaddrs, size_t max);

/* Returns how many instructions of the executable segments load the pointer at the vaddr `slot`
 * into a register, or branch through this pointer. Only instructions that address the pointer
 * relative to rip count. The search scans bytes, so it may also count bytes that only look like
 * such an instruction. */
size_t elf_image__loads(const struct elf_image *image, uint64_t slot);

/* Calls fn with the target of each direct jump in the executable segments, conditional or not. Only
 * jumps with 4 bytes for their distance count. The search scans bytes, so fn may also be called
 * with a few wrong targets. */
void elf_image__each_jump(const struct elf_image *image, void (*fn)(uint64_t target, void *ctx),
			  void *ctx);

/* Finds where the code of the executable segments may mention an address of [low, high), absolute
 * or relative to rip. Scans for 4 bytes that could be such an address in an instruction. Some of
 * these bytes look like an address only by chance. Stores at most max vaddrs at which such bytes
 * begin, ascending in each segment. Returns the number found, which may exceed max. meanwhile is
 * called after each 256 KiB of code. */
size_t elf_image__mentions(const struct elf_image *image, uint64_t low, uint64_t high,
			   uint64_t *ret_vaddrs, size_t max, void (*meanwhile)(void *ctx),
			   void *ctx);

/* slot is the vaddr of a pointer that code jumps through (the PLT, or code made with -fno-plt).
 * Finds the function that such a jump leads to: the one that the slot's relocation names. Only
 * functions of this same file are found. Returns 0; -ENOENT: no relocation is known that belongs to
 * the slot and names a function of this file. */
int elf_image__slot_function(struct elf_image *image, uint64_t slot, uint64_t *ret_vaddr);

#endif
