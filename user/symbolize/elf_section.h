/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds a section of an ELF file by its name. The file is hostile: no library, and everything is
 * bounded. Private to this room. */
#ifndef MEMTRACE_SYMBOLIZE_ELF_SECTION_H
#define MEMTRACE_SYMBOLIZE_ELF_SECTION_H

#include <elf.h>
#include <stdbool.h>

/* The first section of that name, of at most 31 bytes, that has bytes in the file. False: there is
 * none, or the file is no 64-bit little-endian ELF. What *ret says of its place may still lie
 * outside the file. */
bool elf_section__find(int fd, const char *name, Elf64_Shdr *ret);

#endif
