/* SPDX-License-Identifier: BSD-2-Clause */
/* ELF files that gcc assembles from a text of the test, in the test's directory. Include after
 * <cmocka.h>. */
#ifndef MEMTRACE_TESTS_ASSEMBLED_H
#define MEMTRACE_TESTS_ASSEMBLED_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "shell.h"

static char dir[] = "/tmp/test_assembled.XXXXXX";

/* Makes the directory, and x.S in it. For a group's setup. */
static int assemble_from(const char *source)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64];

	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/x.S", dir);
	file = fopen(path, "w");
	return !file || fputs(source, file) < 0 || fflush(file);
}

/* For a group's teardown. */
static int remove_dir(void **state)
{
	(void)state;
	shell_run("/tmp", "rm -r %s", dir);
	return 0;
}

/* Assembles x.S with gcc. common: options for all files of a test; options: further ones for this
 * file. The caller frees the image. */
static struct elf_image *assemble(const char *common, const char *options)
{
	_cleanup_close_ int fd = -1;
	struct elf_image *image;
	char path[64];

	shell_run(dir, "gcc -nostdlib %s %s x.S -o x", common, options);
	snprintf(path, sizeof(path), "%s/x", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image__open(fd, path, NULL, &image, NULL), 0);
	return image;
}

/* The address of a function. The test fails if the file has no such function. */
static uint64_t symbol(const struct elf_image *image, const char *name)
{
	struct elf_symbol symbol;

	assert_int_equal(elf_image__find_function(image, name, &symbol), 0);
	return symbol.vaddr;
}

#endif
