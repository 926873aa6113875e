// SPDX-License-Identifier: BSD-2-Clause
/* Finds the callers of a function, and where a jump through a pointer leads. */
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define MAX_SCAN_BYTES	     (1ull << 30) /* of code searched for callers */
#define SCAN_CHUNK	     (256u << 10)
#define MAX_RELOCATION_BYTES (16u << 20) /* of one table, which is searched again for each slot */

size_t elf_image__direct_callers(const struct elf_image *image, uint64_t vaddr,
				 uint64_t *ret_vaddrs, size_t max)
{
	_cleanup_free_ unsigned char *chunk = malloc(SCAN_CHUNK);
	uint64_t budget = MAX_SCAN_BYTES;
	size_t found = 0;

	if (!chunk)
		return 0;
	for (size_t s = 0; s < image->n_segments; s++) {
		const struct segment *segment = &image->segments[s];
		uint64_t pos = 0;

		if (!segment->executable)
			continue;
		/* Chunks overlap by 4 bytes, because a call that begins in the last 4 bytes of a
		 * chunk is not whole there. */
		while (segment->size - pos >= 5 && budget) {
			uint64_t want = segment->size - pos;
			const unsigned char *at, *end;
			ssize_t n;

			if (want > SCAN_CHUNK)
				want = SCAN_CHUNK;
			n = io__pread(image->fd, chunk, want, segment->off + pos);
			if (n < 5)
				break;
			/* A call cannot begin in the last 4 bytes. memchr() looks at many bytes at
			 * a time. */
			end = chunk + n - 4;
			for (at = chunk; (at = memchr(at, 0xe8, (size_t)(end - at))); at++) {
				uint64_t next = segment->vaddr + pos + (uint64_t)(at - chunk) + 5;
				int32_t rel;

				memcpy(&rel, at + 1, sizeof(rel));
				if (next + rel != vaddr)
					continue;
				if (found < max)
					ret_vaddrs[found] = next;
				found++;
			}
			pos += n - 4;
			budget -= budget < (uint64_t)n ? budget : (uint64_t)n;
		}
	}
	return found;
}

static int search_slot(const struct elf_image *image, const struct relocations *table,
		       uint64_t slot, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= table->size; i += sizeof(Elf64_Rela)) {
		const Elf64_Sym *symbol;
		Elf64_Rela rela;

		memcpy(&rela, table->bytes + i, sizeof(rela));
		if (rela.r_offset != slot)
			continue;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE) {
			*ret_vaddr = (uint64_t)rela.r_addend;
			return 0;
		}
		if ((ELF64_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
		     ELF64_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
		    ELF64_R_SYM(rela.r_info) >= image->dynsym.n)
			return -ENOENT;
		symbol = &image->dynsym.symbols[ELF64_R_SYM(rela.r_info)];
		if (!symbol_table__is_function(&image->dynsym, symbol) ||
		    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			return -ENOENT;
		*ret_vaddr = symbol->st_value;
		return 0;
	}
	return -ENOENT;
}

int elf_image__slot_function(struct elf_image *image, uint64_t slot, uint64_t *ret_vaddr)
{
	static const char *const sections[] = {".rela.plt", ".rela.dyn"};
	int rc = -ENOENT;

	for (int i = 0; i < 2 && rc == -ENOENT; i++) {
		struct relocations *table = &image->relocations[i];
		uint64_t vaddr;

		if (!table->read) {
			table->read = true;
			elf_image__read_section(image, sections[i], &table->bytes, &table->size,
						&vaddr);
			if (table->size > MAX_RELOCATION_BYTES)
				table->size = MAX_RELOCATION_BYTES;
		}
		rc = search_slot(image, table, slot, ret_vaddr);
	}
	return rc;
}
