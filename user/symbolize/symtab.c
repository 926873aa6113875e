// SPDX-License-Identifier: BSD-2-Clause
/* There are two processes. The child runs libelf and liblzma (symtab_child.h) and sends the
 * finished table. The parent, in this file, finds the debug file, reads the child's stream within
 * bounds, and checks each byte of it once. After that a look-up is one binary search and trusts the
 * table. */
#include "symbolize/symtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/search.h"
#include "elf/debuginfod.h"
#include "elf/headers.h"
#include "sandbox/child.h"
#include "symbolize/clean.h"
#include "symbolize/symtab_child.h"

#define MAX_NAMES_BYTES (512ull << 20) /* chromium has some 300 MiB */
/* how many names are checked between two calls of `waiting`; this takes some ms */
#define WAITING_NAMES 100000

struct symtab_test_hooks symtab__test_hooks;

struct symtab {
	struct symtab_range *ranges; /* ascending, disjoint */
	size_t n_ranges;
	char *names; /* all names, each ended by a NUL */
	size_t names_bytes;
};

DEFINE_CLEANUP(struct symtab *, cleanup_symtab, symtab__free)

/* --- what the child says --- */

/* Returns the limits for the table of a file. file_bytes: the bytes of the file, of its debug file
 * and of its unpacked .gnu_debugdata. */
static struct symtab_wire limits(uint64_t file_bytes)
{
	uint64_t symbols = file_bytes / sizeof(Elf64_Sym);

	return (struct symtab_wire){
		.n_ranges = 2 * (symbols < SYMTAB_MAX_SYMBOLS ? symbols : SYMTAB_MAX_SYMBOLS),
		.names_bytes = file_bytes < MAX_NAMES_BYTES ? file_bytes : MAX_NAMES_BYTES,
	};
}

/* Checks that `names` ends with a NUL and that no name is too long. Makes each name printable,
 * because a hostile child may send names that are not. */
static int check_names(struct symtab *tab, const struct stream_waiting *waiting)
{
	char *end = tab->names + tab->names_bytes;
	size_t n = 0;

	if (tab->names_bytes && end[-1])
		return -ECHILD;
	for (char *name = tab->names; name < end;) {
		size_t len = strlen(name);

		if (len > NAME_MAX_BYTES)
			return -ECHILD;
		if (n++ % WAITING_NAMES == 0)
			stream_waiting__call(waiting);
		clean_name(name);
		name += len + 1;
	}
	return 0;
}

static int check_ranges(const struct symtab *tab)
{
	uint64_t at = 0;

	for (size_t i = 0; i < tab->n_ranges; i++) {
		const struct symtab_range *range = &tab->ranges[i];

		if (range->start < at || range->end <= range->start ||
		    range->function > range->start || range->name >= tab->names_bytes ||
		    !tab->names[range->name] || begins_within_sequence(tab->names + range->name))
			return -ECHILD;
		at = range->end;
	}
	return 0;
}

/* Reads and checks the child's whole stream, for a file with file_bytes bytes. */
static int receive(struct stream *stream, uint64_t file_bytes, const struct stream_waiting *waiting,
		   struct symtab **ret_symtab)
{
	_cleanup_(cleanup_symtab) struct symtab *tab = calloc(1, sizeof(*tab));
	struct symtab_wire wire, limit = limits(file_bytes);
	char more;
	int err;

	if (!tab)
		return -ENOMEM;
	err = stream__read_all(stream, &wire, sizeof(wire));
	if (err)
		return err;
	if (wire.n_ranges > limit.n_ranges || wire.names_bytes > limit.names_bytes)
		return -ECHILD;
	tab->n_ranges = wire.n_ranges;
	tab->names_bytes = wire.names_bytes;
	tab->ranges = malloc(tab->n_ranges * sizeof(*tab->ranges));
	tab->names = malloc(tab->names_bytes);
	if ((!tab->ranges && tab->n_ranges) || (!tab->names && tab->names_bytes))
		return -ENOMEM;
	err = stream__read_all(stream, tab->ranges, tab->n_ranges * sizeof(*tab->ranges));
	if (!err)
		err = stream__read_all(stream, tab->names, tab->names_bytes);
	if (!err)
		err = stream__read(stream, &more, 1); /* the stream must end here */
	if (err)
		return err > 0 ? -ECHILD : err;
	err = check_names(tab, waiting);
	if (!err)
		err = check_ranges(tab);
	if (err)
		return err;
	*ret_symtab = tab;
	tab = NULL;
	return 0;
}

/* --- the interface --- */

int symtab__open(int fd, int *debug_fd, enum symtab_kind kind, double patience_s,
		 const struct stream_waiting *waiting, struct symtab **ret_symtab)
{
	_cleanup_(cleanup_symtab) struct symtab *tab = NULL;
	struct elf_headers headers;
	struct child_task task = {
		.file_fd = fd,
		.read = symtab_child__read,
		.ctx = &kind,
		.patience_s = patience_s,
		.waiting = waiting,
		.in_child = symtab__test_hooks.in_child,
	};
	struct symtab_wire limit;
	struct child *child;
	uint64_t bytes;
	int err, end;

	if (elf_headers__read(fd, "", &headers, NULL)) /* without this check, a child would be
							* forked for nothing */
		return -ENOEXEC;
	if (*debug_fd < 0) {
		int found = debuginfod__open(fd);

		if (found >= 0)
			*debug_fd = found;
	}
	bytes = io__file_bytes(fd) + io__file_bytes(*debug_fd) + SYMTAB_MAX_UNPACKED;
	limit = limits(bytes);
	task.other_fd = *debug_fd;
	task.max_bytes =
		sizeof(limit) + limit.n_ranges * sizeof(struct symtab_range) + limit.names_bytes;
	err = child__start(&task, &child);
	if (err)
		return err;
	err = receive(child__stream(child), bytes, waiting, &tab);
	end = child__end(child);
	if (!err || (err == -ECHILD && end)) /* the child's exit status may tell why its stream is
					      * too short */
		err = end;
	if (err)
		return err == -ENODATA ? -ENOEXEC : err;
	*ret_symtab = tab;
	tab = NULL;
	return 0;
}

void symtab__free(struct symtab *symtab)
{
	if (!symtab)
		return;
	free(symtab->ranges);
	free(symtab->names);
	free(symtab);
}

const char *symtab__find(const struct symtab *symtab, uint64_t vaddr, uint64_t *ret_start)
{
	size_t at = SEARCH_FIRST(i, symtab->n_ranges, symtab->ranges[i].end > vaddr);

	if (at == symtab->n_ranges || symtab->ranges[at].start > vaddr)
		return NULL;
	if (ret_start)
		*ret_start = symtab->ranges[at].function;
	return symtab->names + symtab->ranges[at].name;
}

bool symtab__empty(const struct symtab *symtab)
{
	return !symtab->n_ranges;
}

size_t symtab__bytes(const struct symtab *symtab)
{
	return sizeof(*symtab) + symtab->n_ranges * sizeof(*symtab->ranges) + symtab->names_bytes;
}
