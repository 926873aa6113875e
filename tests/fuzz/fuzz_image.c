// SPDX-License-Identifier: BSD-2-Clause
/* Parses an ELF file, and calls every function that answers questions about its image. */
#include "fuzz.h"

#include <elf.h>

#include "elf/image.h"

#define MAX_LOOKED_UP 16
#define MAX_EH_FRAME  (128u << 20)

struct seen {
	const struct elf_image *image;
	size_t n;
	uint64_t last;
};

static int see(const struct elf_symbol *symbol, void *ctx)
{
	struct seen *seen = ctx;
	struct elf_symbol found;
	uint64_t off;
	char code[16];
	long n;

	require(symbol->name && symbol->name[0]);
	require(symbol->dynamic || !strchr(symbol->name, '@'));
	require(symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC);
	seen->last = symbol->vaddr;
	if (seen->n++ >= MAX_LOOKED_UP)
		return 0;
	require(!elf_image__find_function(seen->image, symbol->name, &found));
	require(!strcmp(found.name, symbol->name));
	n = elf_image__read_code(seen->image, symbol->vaddr, code, sizeof(code));
	require(n <= (long)sizeof(code));
	require(n < 0 || !elf_image__vaddr_to_off(seen->image, symbol->vaddr, &off));
	return 0;
}

static int stop(const struct elf_symbol *symbol, void *ctx)
{
	(void)symbol;
	(void)ctx;
	return 7;
}

static void look(const struct elf_image *image, size_t file_size)
{
	struct seen seen = {.image = image};
	uint64_t start, end, vaddr, off, callers[4];
	struct elf_symbol found;
	unsigned char *bytes, code[64];
	const char *id = elf_image__build_id(image), *soname = elf_image__soname(image);
	size_t size, n;
	long len;

	require(!id || (strlen(id) % 2 == 0 && strspn(id, "0123456789abcdef") == strlen(id)));
	require(!soname || soname[0]);
	require(!elf_image__each_function(image, see, &seen));
	require(elf_image__each_function(image, stop, NULL) == (seen.n ? 7 : 0));
	elf_image__find_function(image, "malloc", &found);
	if (!elf_image__code_span(image, &start, &end)) {
		require(start < end);
		require(elf_image__read_code(image, start, code, sizeof(code)) > 0);
		len = elf_image__read_code(image, end - 1, code, sizeof(code));
		require(len >= 1 && len <= (long)sizeof(code));
		require(elf_image__read_code(image, end, code, sizeof(code)) == -ERANGE);
		require(!elf_image__vaddr_to_off(image, start, &off) && off < file_size);
		require(!elf_image__off_to_vaddr(image, off, &vaddr));
		elf_image__mapping_to_vaddr(image, off & ~0xfffull, &vaddr);
		n = elf_image__direct_callers(image, start, callers, 4);
		for (size_t i = 0; i < n && i < 4; i++)
			require(callers[i] > start && callers[i] <= end);
		elf_image__direct_callers(image, seen.last, NULL, 0);
	}
	require(elf_image__off_to_vaddr(image, file_size, &vaddr) == -ERANGE);
	if (!elf_image__read_eh_frame(image, &bytes, &size, &vaddr)) {
		require(size <= file_size && size <= MAX_EH_FRAME);
		for (size_t i = 0; i < size; i++)
			*(volatile unsigned char *)&bytes[i];
		free(bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *image;
	struct error err = {0};
	int fd = fuzz_file(data, size), ret;

	ret = elf_image__open(fd, "input", NULL, &image, &err);
	require(ret <= 0 && err.code == ret && !err.text[0] == !ret);
	if (!ret) {
		look(image, size);
		elf_image__close_file(image);
		elf_image__free(image);
	}
	err = (struct error){0};
	require(!elf_image__open_code(fd, "input", &image, &err) == !ret);
	if (!ret) {
		require(!elf_image__each_function(image, stop, NULL));
		elf_image__free(image);
	}
	close(fd);
	return 0;
}
