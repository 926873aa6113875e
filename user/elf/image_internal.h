/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files image*.c share with each other and with no other file. image.c opens a file; it
 * calls image_symbols.c and image_segments.c. image_symbols.c, image_segments.c and
 * image_sections.c read the file; of all these files, they call only image_segments.c.
 * image_calls.c searches the file, and calls image_symbols.c and image_sections.c. */
#ifndef MEMTRACE_ELF_IMAGE_INTERNAL_H
#define MEMTRACE_ELF_IMAGE_INTERNAL_H

#include <elf.h>

#include "elf/headers.h"
#include "elf/image.h"

struct segment {		   /* PT_LOAD */
	uint64_t vaddr, off, size; /* size: bytes that are in the file */
	bool executable;
};

struct symbol_table {
	Elf64_Sym *symbols;
	size_t n;
	char *strings;
	size_t strings_size;  /* bytes up to and including the last NUL */
	Elf64_Half *versions; /* one for each symbol, or NULL */
	uint8_t *cut_hidden;  /* bit i: a hidden version was cut off at strings[i]; or NULL */
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

/* Returns a copy of `size` bytes at off in the file, followed by one NUL; or NULL, also if `size`
 * is 0 or above 512 MiB. The caller frees the copy. */
void *elf_image__read_range(const struct elf_image *image, uint64_t off, uint64_t size);

/* Finds the segment that holds vaddr. If `executable` is true, only executable segments count.
 * NULL: there is none. */
const struct segment *elf_image__segment_at(const struct elf_image *image, uint64_t vaddr,
					    bool executable);

/* --- image_symbols.c --- */

/* Reads both symbol tables; an unsound one stays empty. 0 or -ENOMEM. */
int elf_image__read_symbols(struct elf_image *image, const struct elf_headers *headers);
void elf_image__free_symbols(struct elf_image *image);

/* Is the symbol a function that this file defines, with a name? */
bool symbol_table__is_function(const struct symbol_table *table, const Elf64_Sym *symbol);

#endif
