// SPDX-License-Identifier: BSD-2-Clause
/* The input stands for what a child that reads symbols sends to its parent. Hostile code may
 * control this child. Numbers in the input are looked up as addresses. */
#include "fuzz.h"
#include "symtab.h"

#define FILE_BYTES (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size), err;
	struct symtab *tab;
	uint64_t number;

	err = fuzz_receive(fd, FILE_BYTES, &tab);
	close(fd);
	require(!err || err == -ECHILD);
	if (err)
		return 0;
	for (size_t i = 0; i + sizeof(number) <= size; i += 8) {
		uint64_t start;

		memcpy(&number, data + i, sizeof(number));
		fuzz_find(tab, number, &start);
		fuzz_find(tab, number - 1, &start);
	}
	symtab__free(tab);
	return 0;
}
