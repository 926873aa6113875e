/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens an image, or fails the test. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_OPEN_IMAGE_H
#define MEMTRACE_TESTS_UNIT_ELF_OPEN_IMAGE_H

#include "elf/image.h"

static inline struct elf_image *open_image(int fd)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	if (elf_image__open(fd, "test", NULL, &image, &err) != 0)
		fail_msg("%s", err.text);
	return image;
}

#endif
