/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations for the files image*.c only. image.c opens a file; it calls image_symbols.c and
 * image_segments.c. image_symbols.c, image_segments.c and image_sections.c read the file. These
 * three call functions of image_segments.c, but of no other file image*.c. image_calls.c searches
 * the file, and calls image_symbols.c and image_sections.c. */
#ifndef MEMTRACE_ELF_IMAGE_INTERNAL_H
#define MEMTRACE_ELF_IMAGE_INTERNAL_H

#include <elf.h>

#include "elf/headers.h"
#include "elf/image.h"

struct segment {		   /* PT_LOAD */
	uint64_t vaddr, off, size; /* size: bytes that are in the file */
	bool executable;
};

/* A defined function or variable that the caller wants. */
struct kept_symbol {
	uint32_t name; /* where the name begins in the table's names */
	bool hidden;   /* the symbol is not the default version of its name */
	uint8_t type, bind;
	uint64_t vaddr, size;
};

struct symbol_table {
	struct kept_symbol *symbols;
	size_t n;
	char *names; /* names of the kept symbols, without versions, each ended by a NUL */
	size_t names_bytes, names_room;
	uint64_t off, n_in_file; /* file offset and number of all symbols of the table */
};

struct elf_image {
	int fd; /* -1: closed */
	uint64_t file_size;
	uint64_t entry;
	struct segment *segments;
	size_t n_segments;
	bool has_dynamic, has_interp;
	uint64_t eh_frame_hdr; /* vaddr of PT_GNU_EH_FRAME, 0: none */
	struct elf_tls tls;    /* size 0: none */
	char *soname;
	char *build_id;
	struct symbol_table dynsym, symtab;
	struct relocations {
		unsigned char *bytes;
		size_t size;
		bool read; /* reading was done or tried */
	} relocations[2];  /* [0]: of the PLT; [1]: all others */
	uint64_t searched; /* bytes of relocations that were searched so far */
};

/* --- image_segments.c: where bytes are --- */

/* Are the `size` bytes at off within the file? */
bool elf_image__in_file(const struct elf_image *image, uint64_t off, uint64_t size);

/* Returns a copy of `size` bytes at off in the file, followed by one NUL. Returns NULL on failure,
 * and if `size` is 0 or above 512 MiB. The caller frees the copy. */
void *elf_image__read_range(const struct elf_image *image, uint64_t off, uint64_t size);

/* Finds the segment that holds vaddr. If `executable` is true, only executable segments count.
 * NULL: there is none. */
const struct segment *elf_image__segment_at(const struct elf_image *image, uint64_t vaddr,
					    bool executable);

/* --- image_symbols.c --- */

/* Reads the wanted symbols (NULL: all) of both symbol tables; an unsound table stays empty. 0 or
 * -ENOMEM. */
int elf_image__read_symbols(struct elf_image *image, const struct elf_headers *headers,
			    const struct elf_wanted *wanted);
void elf_image__free_symbols(struct elf_image *image);

/* Finds the vaddr of symbol i of .dynsym, wanted or not. False: the symbol is not a function
 * (STT_FUNC) that this file defines. */
bool elf_image__dynamic_function(const struct elf_image *image, uint64_t i, uint64_t *ret_vaddr);

#endif
