// SPDX-License-Identifier: BSD-2-Clause
/* Looks for copies of CPython's pool in an ELF file. The file's entry stands for the function that
 * takes blocks back. */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>

#include "elf/pymalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct elf_image *image;
	struct pymalloc found;
	int rc;

	if (elf_image__open(fd, "input", NULL, &image, NULL)) {
		close(fd);
		return 0;
	}
	rc = pymalloc__find(image, elf_image__entry(image), &(struct elf_meanwhile){}, &found);
	require(rc == 0 || rc == -ENOTSUP);
	require(!rc == !found.why[0] && memchr(found.why, '\0', sizeof(found.why)));
	require(!rc || !found.n);
	for (size_t i = 0; i < found.n; i++) {
		const struct pymalloc_place *place = &found.places[i];
		uint8_t byte;

		require(elf_image__read_code(image, place->vaddr, &byte, 1) == 1);
		require(place->block >= 1 && place->block <= 15 && place->pool <= 15);
		require(!i || place->vaddr > found.places[i - 1].vaddr);
	}
	pymalloc__free(&found);
	elf_image__free(image);
	close(fd);
	return 0;
}
