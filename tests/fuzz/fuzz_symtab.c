// SPDX-License-Identifier: BSD-2-Clause
/* Reads an ELF file's symbols, .gnu_debugdata included, as the sandboxed child does, and then reads
 * the result as its parent does. No child runs here. Numbers in the file are looked up as
 * addresses. */
#include "fuzz.h"
#include "symtab.h"

#define MAX_LOOKED_UP 512

static void check(const struct symtab *tab, uint64_t vaddr)
{
	uint64_t start, again;
	const char *name = fuzz_find(tab, vaddr, &start);

	if (name)
		require(symtab__find(tab, start, &again) == name && again == start);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *out = fdopen(fuzz_file((const uint8_t *)"", 0), "w");
	struct symtab *tab;
	uint64_t number;
	enum child_exit end;

	require(out);
	end = symtab_child__read(out, fuzz_file(data, size), -1,
				 &(enum symtab_kind){SYMTAB_FUNCTIONS});
	require(end == CHILD_DONE || end == CHILD_NO_DATA);
	require(!fflush(out));
	if (end == CHILD_DONE)
		require(!fuzz_receive(fileno(out), size + SYMTAB_MAX_UNPACKED, &tab));
	fclose(out);
	if (end != CHILD_DONE)
		return 0;
	for (size_t i = 0; i + sizeof(number) <= size && i < 8 * MAX_LOOKED_UP; i += 8) {
		memcpy(&number, data + i, sizeof(number));
		check(tab, number);
		check(tab, number - 1);
		check(tab, number + 16);
	}
	check(tab, UINT64_MAX);
	symtab__free(tab);
	return 0;
}
