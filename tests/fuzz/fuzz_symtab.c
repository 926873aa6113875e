// SPDX-License-Identifier: BSD-2-Clause
/* An ELF file's symbols, .gnu_debugdata among them. Looked up are the numbers that stand in the
 * file. */
#include "fuzz.h"

#include "symbolize/clean.h"
#include "symbolize/symtab.h"

#define MAX_LOOKED_UP 512

static void check(const struct symtab *tab, uint64_t vaddr)
{
	uint64_t start, again;
	const char *name = symtab__find(tab, vaddr, &start);
	char *shown;

	if (!name)
		return;
	require(!symtab__empty(tab));
	require(start <= vaddr);
	require(name[0]);
	require(strlen(name) <= NAME_MAX_BYTES);
	require(symtab__find(tab, start, &again) == name && again == start);

	/* What people see of it. A symbol may begin inside another one's character. */
	shown = demangle(name);
	require(shown && shown[0]);
	for (const char *p = shown; *p; p += printable_sequence((const unsigned char *)p))
		require(printable_sequence((const unsigned char *)p));
	free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symtab *tab;
	const char *id;
	uint64_t number;
	int fd = fuzz_file(data, size), none = -1, ret;

	unsetenv("DEBUGINFOD_URLS");
	ret = symtab__open(fd, &none, "input", &tab);
	close(fd);
	require(ret <= 0);
	if (ret)
		return 0;
	id = symtab__build_id(tab);
	require(!id || (strlen(id) % 2 == 0 && strspn(id, "0123456789abcdef") == strlen(id)));
	for (size_t i = 0; i + sizeof(number) <= size && i < 8 * MAX_LOOKED_UP; i += 8) {
		memcpy(&number, data + i, sizeof(number));
		check(tab, number);
		check(tab, number - 1);
		check(tab, number + 16);
		symtab__off_to_vaddr(tab, number, &number);
	}
	check(tab, UINT64_MAX);
	symtab__free(tab);
	return 0;
}
