/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of an ELF file, which say where everything else is. The file is hostile, and the
 * reader may be root. So no library is used, no file is mapped, and memory is allocated only up to
 * fixed limits, whatever a header claims. All reads use pread. If a file was cut, pread returns
 * fewer bytes, and a table is read only as far as its bytes are there. A place that a header names
 * may still lie outside the file. */
#ifndef MEMTRACE_ELF_HEADERS_H
#define MEMTRACE_ELF_HEADERS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ELF_MAX_BUILD_ID 64 /* bytes; real ones have 20 */

struct elf_headers {
	int fd; /* owned by the caller */
	Elf64_Ehdr file;
	size_t n_sections; /* number of sections that the file claims, with the empty one at index
			    * 0; 0: none */
	size_t n_segments; /* number of segments that the file claims */
	uint64_t names_off, names_bytes; /* the sections' names; 0 bytes: there are none */
};

/* Reads the header of the file behind fd, which must stay open as long as *ret is used. Accepts
 * only 64-bit little-endian x86-64 programs and libraries, and debug files, which have the same
 * e_type. The file must have fewer than 65,535 segments and at most 65,536 sections. name is for
 * messages. Returns 0; -ENOEXEC, with the reason in err (may be NULL); any error of reading. */
int elf_headers__read(int fd, const char *name, struct elf_headers *ret, struct error *err);

/* An iterator over the headers of all sections (except the one at index 0), or of all segments. */
struct elf_walk {
	int fd;
	size_t header_bytes, n_left; /* n_left: headers not read yet */
	uint64_t off;		     /* file offset of the headers that were not read yet */
	size_t at, end;		     /* the part of buf that was not returned yet */
	unsigned char buf[4096];
};
void elf_headers__walk_sections(const struct elf_headers *headers, struct elf_walk *ret);
void elf_headers__walk_segments(const struct elf_headers *headers, struct elf_walk *ret);

/* Copies the next Elf64_Shdr or Elf64_Phdr to *ret_header. False: no more can be read. */
bool elf_walk__next(struct elf_walk *walk, void *ret_header);

/* Reads the header of the section with that index. False: there is none. */
bool elf_headers__section(const struct elf_headers *headers, size_t index, Elf64_Shdr *ret);

/* Finds the first section called name (at most 31 bytes) that has all of these flags (SHF_*) and
 * has bytes in the file. False: there is none. */
bool elf_headers__find_section(const struct elf_headers *headers, const char *name, uint64_t flags,
			       Elf64_Shdr *ret);

struct elf_build_id {
	size_t len; /* 0: none */
	unsigned char bytes[ELF_MAX_BUILD_ID];
};

/* Find the GNU build-id. The first function looks only at segments: the file of a running program
 * or library always has them. The second also serves debug files. It looks at sections first, and
 * at segments only if no section has a build-id. The reason: the segment headers of a debug file
 * may be copies of the program's, and then their offsets are those in the program's file. At most
 * 64 segments or sections of notes are looked at, and none larger than 64 KiB. ret->len is 0 if
 * there is no build-id. */
void elf_headers__build_id_of_segments(const struct elf_headers *headers, struct elf_build_id *ret);
void elf_headers__build_id(const struct elf_headers *headers, struct elf_build_id *ret);

#endif
