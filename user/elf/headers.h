/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of an ELF file, which say where all else is. The file is hostile, and whoever reads
 * it here may be root: no library, nothing mapped and nothing allocated for what a header claims.
 * All is read by pread, which comes back short where a file was cut; a table is read as far as it
 * goes. What a header says of a place in the file may still lie outside of it. */
#ifndef MEMTRACE_ELF_HEADERS_H
#define MEMTRACE_ELF_HEADERS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ELF_MAX_BUILD_ID 64 /* bytes; real ones have 20 */

struct elf_headers {
	int fd; /* the caller's */
	Elf64_Ehdr file;
	size_t n_sections; /* that it claims to have, the empty one at index 0 counted; 0: none */
	size_t n_segments; /* that it claims to have */
	uint64_t names_off, names_bytes; /* where sections have their names; 0 bytes: nowhere */
};

/* Reads the header of the file behind fd, which must stay open as long as *ret is used. Only 64-bit
 * little-endian x86-64 programs and libraries are taken, and debug files, which have their types;
 * only with fewer than 65,535 segments and at most 65,536 sections. name is for messages. 0;
 * -ENOEXEC, with err (may be NULL) saying why not; what reading gives. */
int elf_headers__read(int fd, const char *name, struct elf_headers *ret, struct error *err);

/* A way over the headers of all sections (but the one at index 0), or of all segments. */
struct elf_walk {
	int fd;
	size_t header_bytes, n_left; /* n_left: not read yet */
	uint64_t off;		     /* of these */
	size_t at, end;		     /* what buf holds that was not taken yet */
	unsigned char buf[4096];
};
void elf_headers__walk_sections(const struct elf_headers *headers, struct elf_walk *ret);
void elf_headers__walk_segments(const struct elf_headers *headers, struct elf_walk *ret);

/* The next Elf64_Shdr or Elf64_Phdr to *ret_header. False at the end of what can be read. */
bool elf_walk__next(struct elf_walk *walk, void *ret_header);

/* The header of the section with that index. False: there is none. */
bool elf_headers__section(const struct elf_headers *headers, size_t index, Elf64_Shdr *ret);

/* The first section of that name, of at most 31 bytes, with all of these flags (SHF_*), that has
 * bytes in the file. False: there is none. */
bool elf_headers__find_section(const struct elf_headers *headers, const char *name, uint64_t flags,
			       Elf64_Shdr *ret);

struct elf_build_id {
	size_t len; /* 0: none */
	unsigned char bytes[ELF_MAX_BUILD_ID];
};

/* The GNU build-id that its segments show, as a process has them; or its sections, and its segments
 * only where those show none: the program headers of a debug file may be the program's own, and say
 * where things lie there. At most 64 segments or sections of notes are looked at, and none of more
 * than 64 KiB. len 0: none. */
void elf_headers__build_id_of_segments(const struct elf_headers *headers, struct elf_build_id *ret);
void elf_headers__build_id(const struct elf_headers *headers, struct elf_build_id *ret);

#endif
