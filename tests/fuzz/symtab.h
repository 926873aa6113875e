/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that every table of symbols must pass. Include after fuzz.h. */
#ifndef MEMTRACE_TESTS_FUZZ_SYMTAB_H
#define MEMTRACE_TESTS_FUZZ_SYMTAB_H

#include "symbolize/symtab.c" /* for receive(), which is static */

#include <fcntl.h>

/* Gives receive() the stream. bytes: the size of the file with the symbols. 0 or negative errno. */
static inline int fuzz_receive(int stream_fd, uint64_t bytes, struct symtab **ret)
{
	struct stream *stream;
	int err;

	require(!lseek(stream_fd, 0, SEEK_SET));
	require(!stream__new(stream_fd, 60, NULL, SIZE_MAX, &stream));
	err = receive(stream, bytes, NULL, ret);
	stream__free(stream);
	return err;
}

/* Looks vaddr up: its name, or NULL, and where its function starts. */
static inline const char *fuzz_find(const struct symtab *tab, uint64_t vaddr, uint64_t *ret_start)
{
	const char *name = symtab__find(tab, vaddr, ret_start);
	char *shown;

	if (!name)
		return NULL;
	require(!symtab__empty(tab));
	require(*ret_start <= vaddr);
	require(name[0]);
	require(strlen(name) <= NAME_MAX_BYTES);

	/* The name as it is shown. It may begin in the middle of a multi-byte character of another
	 * name. */
	shown = demangle(name);
	require(shown && shown[0]);
	for (const char *p = shown; *p; p += printable_sequence((const unsigned char *)p))
		require(printable_sequence((const unsigned char *)p));
	free(shown);
	return name;
}

#endif
