/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a word from bytes that were read from another process. */
#ifndef MEMTRACE_PYTHON_WORD_H
#define MEMTRACE_PYTHON_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the 8 bytes at off, which need not be aligned. */
static inline uint64_t python__word(const unsigned char *bytes, size_t off)
{
	uint64_t value;

	memcpy(&value, bytes + off, sizeof(value));
	return value;
}

#endif
