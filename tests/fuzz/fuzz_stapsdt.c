// SPDX-License-Identifier: BSD-2-Clause
/* Looks for markers in an ELF file, and reads their arguments. An input that is no ELF file is the
 * text of a marker's arguments. */
#include "fuzz.h"

#include <errno.h>

#include "elf/stapsdt.h"

static int check_arguments(const char *text)
{
	struct stapsdt_argument a[12];
	int n = stapsdt__parse(text, a, 12);

	require(n == -EINVAL || n == -E2BIG || (n >= 0 && n <= 12));
	for (int i = 0; i < n; i++) {
		require(a[i].bytes == 1 || a[i].bytes == 2 || a[i].bytes == 4 || a[i].bytes == 8);
		require(a[i].base <= STAPSDT_RSP && a[i].index < STAPSDT_RSP && a[i].shift <= 3);
		require(a[i].kind == STAPSDT_CONSTANT || a[i].kind == STAPSDT_MEMORY ||
			(a[i].kind == STAPSDT_REGISTER && a[i].base));
	}
	return n;
}

static int check_marker(const struct stapsdt_marker *marker, void *ctx)
{
	size_t *n = ctx;

	require(strlen(marker->name) <= 1 << 20);
	check_arguments(marker->arguments);
	return ++*n == 1000 ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	char *text = fuzz_string(data, size);
	struct elf_image *image;
	size_t n = 0;
	int rc;

	check_arguments(text);
	free(text);
	if (!elf_image__open_code(fd, "input", &image, NULL)) {
		rc = stapsdt__each(image, "otel_memory", check_marker, &n);
		require(rc == 0 || rc == 1 || rc == -ENOEXEC || rc == -EIO);
		require(n <= 1000);
		elf_image__free(image);
	}
	close(fd);
	return 0;
}
