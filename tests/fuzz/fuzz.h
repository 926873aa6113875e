/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz targets share. A target is one file, tests/fuzz/fuzz_NAME.c, that defines the function
 * below, and a corpus in tests/fuzz/corpus/NAME. The target is linked with an archive of all rooms
 * up to heap, the room web and the parser of the agent's configuration. A target may include a .c
 * of the archive to reach its static functions: the linker then leaves the archive's copy out.
 * `make fuzz` runs the target under libFuzzer, `make check` runs it on its corpus. */
#ifndef MEMTRACE_TESTS_FUZZ_H
#define MEMTRACE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Gives the code under test one input. Returns 0, or aborts if a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A condition that must hold for every input. */
#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* A file with these bytes, in memory; the caller closes it. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	return fd;
}

/* A copy of exactly this size, so that a sanitizer sees each access beyond it. The caller frees
 * it. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size);

	require(copy || !size);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

/* The same, as a string with a NUL. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	require(copy);
	memcpy(copy, data, size);
	copy[size] = '\0';
	return copy;
}

/* Takes the next bytes of the input as a number of any type. Bytes beyond its end are 0. */
struct fuzz_input {
	const uint8_t *pos, *end;
};

static inline uint64_t fuzz_take(struct fuzz_input *in, size_t bytes)
{
	size_t left = (size_t)(in->end - in->pos), n = left < bytes ? left : bytes;
	uint64_t value = 0;

	memcpy(&value, in->pos, n);
	in->pos += n;
	return value;
}

#endif
