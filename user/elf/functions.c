// SPDX-License-Identifier: BSD-2-Clause
#include "elf/functions.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"

/* The beginning of .eh_frame_hdr as ld, gold and lld write it: version 1, then the encodings of the
 * pointer to .eh_frame, of the number of entries, and of the entries. */
static const unsigned char head[] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
				     DW_EH_PE_datarel | DW_EH_PE_sdata4};
#define ENTRIES_OFF 12
#define ENTRY_BYTES 8

int functions__read(const struct elf_image *image, struct functions *ret)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	uint64_t vaddr, code_start;
	uint32_t n;
	size_t size;
	int rc;

	*ret = (struct functions){};
	rc = elf_image__read_section(image, ".eh_frame_hdr", &bytes, &size, &vaddr);
	if (rc == -ENOMEM)
		return rc;
	if (rc || size < ENTRIES_OFF || memcmp(bytes, head, sizeof(head)) ||
	    elf_image__code_span(image, &code_start, &ret->code_end))
		return -ENOENT;
	memcpy(&n, bytes + 8, sizeof(n));
	if (n > (size - ENTRIES_OFF) / ENTRY_BYTES)
		return -ENOENT;
	ret->starts = malloc((n + 1) * sizeof(*ret->starts));
	if (!ret->starts)
		return -ENOMEM;
	for (; ret->n < n; ret->n++) {
		int32_t rel;

		memcpy(&rel, bytes + ENTRIES_OFF + ret->n * ENTRY_BYTES, sizeof(rel));
		ret->starts[ret->n] = vaddr + (uint64_t)(int64_t)rel;
		if (ret->n && ret->starts[ret->n] <= ret->starts[ret->n - 1])
			return -ENOENT;
	}
	return 0;
}

void functions__free(struct functions *functions)
{
	free(functions->starts);
}

int functions__around(const struct functions *f, uint64_t vaddr, uint64_t *ret_start,
		      uint64_t *ret_end)
{
	size_t next = SEARCH_FIRST(i, f->n, f->starts[i] > vaddr);

	if (!next || vaddr >= f->code_end)
		return -ENOENT;
	*ret_start = f->starts[next - 1];
	*ret_end = next < f->n ? f->starts[next] : f->code_end;
	return 0;
}
