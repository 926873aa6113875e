// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "symbolize/clean.h"
#include "symbolize/symtab.h"

struct binary {
	struct file_id file;
	int fd;			       /* -1 when it could not be opened, or is no longer needed */
	char *path;		       /* for the search of its debug file */
	struct symtab *symtab;	       /* NULL until it is read */
	enum unresolved_reason reason; /* why there is no symtab and will be none; else NAMED */
};

struct symbolizer {
	struct binary **binaries; /* ascending by device and inode */
	size_t n, room;
};

static void binary__free(struct binary *binary)
{
	if (binary->fd >= 0)
		close(binary->fd);
	symtab__free(binary->symtab);
	free(binary->path);
	free(binary);
}

DEFINE_CLEANUP(struct binary *, cleanup_binary, binary__free)

int symbolizer__new(struct symbolizer **ret_symbolizer)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	if (!symbolizer)
		return -ENOMEM;
	*ret_symbolizer = symbolizer;
	return 0;
}

void symbolizer__free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->n; i++)
		binary__free(symbolizer->binaries[i]);
	free(symbolizer->binaries);
	free(symbolizer);
}

/* The file's entry, or NULL; *ret_at (may be NULL): where it stands or belongs. */
static struct binary *find_binary(const struct symbolizer *symbolizer, const struct file_id *file,
				  size_t *ret_at)
{
	size_t low = 0, high = symbolizer->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (file_id__compare(&symbolizer->binaries[mid]->file, file) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (ret_at)
		*ret_at = low;
	if (low < symbolizer->n && file_id__equal(&symbolizer->binaries[low]->file, file))
		return symbolizer->binaries[low];
	return NULL;
}

static int insert_binary(struct symbolizer *symbolizer, size_t at, struct binary *binary)
{
	if (symbolizer->n == symbolizer->room) {
		size_t room = symbolizer->room ? 2 * symbolizer->room : 64;
		struct binary **binaries =
			reallocarray(symbolizer->binaries, room, sizeof(*binaries));

		if (!binaries)
			return -ENOMEM;
		symbolizer->binaries = binaries;
		symbolizer->room = room;
	}
	memmove(symbolizer->binaries + at + 1, symbolizer->binaries + at,
		(symbolizer->n - at) * sizeof(*symbolizer->binaries));
	symbolizer->binaries[at] = binary;
	symbolizer->n++;
	return 0;
}

int symbolizer__hold(struct symbolizer *symbolizer, pid_t pid, const struct map_entry *entry)
{
	_cleanup_(cleanup_binary) struct binary *binary = NULL;
	size_t at;
	int err;

	if (!entry->file.inode || find_binary(symbolizer, &entry->file, &at))
		return 0;
	binary = calloc(1, sizeof(*binary));
	if (!binary)
		return -ENOMEM;
	*binary = (struct binary){
		.file = entry->file,
		.fd = -1,
		.path = strdup(entry->path),
	};
	if (!binary->path)
		return -ENOMEM;
	/* What fails is not remembered: another mapping or process may yet show the file. */
	binary->fd = maps__open_file(pid, entry);
	if (binary->fd < 0)
		return binary->fd;
	err = insert_binary(symbolizer, at, binary);
	if (err)
		return err;
	binary = NULL;
	return 0;
}

/* Reads the symbols, once. 0, with reason saying whether there are any; or -ENOMEM. */
static int binary__load(struct binary *binary)
{
	int err;

	if (binary->symtab || binary->reason != UNRESOLVED_NAMED)
		return 0;
	err = symtab__open(binary->fd, binary->path, &binary->symtab);
	if (err == -ENOMEM)
		return err;
	if (err)
		binary->reason = err == -ENOEXEC ? UNRESOLVED_BAD_ELF : UNRESOLVED_NO_FILE;
	close(binary->fd);
	binary->fd = -1;
	return 0;
}

/* "libc.so.6+0x1234", "[vdso]+0x10", "[anon]+0x20"; or NULL. */
static char *offset_name(const char *module, uint64_t off)
{
	const char *slash = strrchr(module, '/');
	char *name;

	if (module[0] != '[' && slash && slash[1])
		module = slash + 1;
	if (asprintf(&name, "%.*s+0x%" PRIx64, NAME_MAX_BYTES, *module ? module : "[anon]", off) <
	    0)
		return NULL;
	clean_name(name);
	return name;
}

/* Looks addr up. *ret_function is owned by the symbol table; without one the reason is returned. */
static int look_up(struct symbolizer *symbolizer, struct profile_mapping *mapping, uint64_t off,
		   enum unresolved_reason *ret_reason, const char **ret_function)
{
	struct binary *binary;
	uint64_t vaddr;
	int err;

	*ret_function = NULL;
	if (!mapping->file.inode) {
		*ret_reason = UNRESOLVED_NOT_A_FILE;
		return 0;
	}
	binary = find_binary(symbolizer, &mapping->file, NULL);
	if (!binary) {
		*ret_reason = UNRESOLVED_NO_FILE;
		return 0;
	}
	err = binary__load(binary);
	if (err)
		return err;
	if (!binary->symtab) {
		*ret_reason = binary->reason;
		return 0;
	}
	if (!mapping->build_id && symtab__build_id(binary->symtab)) {
		mapping->build_id = strdup(symtab__build_id(binary->symtab));
		if (!mapping->build_id)
			return -ENOMEM;
	}
	if (symtab__empty(binary->symtab)) {
		*ret_reason = UNRESOLVED_NO_SYMBOLS;
		return 0;
	}
	if (!symtab__off_to_vaddr(binary->symtab, off, &vaddr))
		*ret_function = symtab__find(binary->symtab, vaddr, NULL);
	*ret_reason = *ret_function ? UNRESOLVED_NAMED : UNRESOLVED_NO_SYMBOL_HERE;
	return 0;
}

static int name_location(struct symbolizer *symbolizer, struct profile *profile,
			 struct profile_location *location)
{
	uint64_t addr = location->addr - 1;
	enum unresolved_reason reason = UNRESOLVED_NO_MAPPING;
	char *name;

	if (location->mapping < 0) {
		if (asprintf(&name, "0x%" PRIx64, addr) < 0)
			return -ENOMEM;
	} else {
		struct profile_mapping *mapping = &profile->mappings[location->mapping];
		uint64_t off = addr - mapping->start + mapping->off;
		const char *function;
		int err;

		err = look_up(symbolizer, mapping, off, &reason, &function);
		if (err)
			return err;
		name = function ? demangle(function) : offset_name(mapping->path, off);
		if (!name)
			return -ENOMEM;
	}
	free(location->name);
	location->name = name;
	location->reason = reason;
	return 0;
}

int symbolizer__symbolize(struct symbolizer *symbolizer, struct profile *profile)
{
	for (size_t i = 0; i < profile->n_locations; i++) {
		int err = name_location(symbolizer, profile, &profile->locations[i]);

		if (err)
			return err;
	}
	return 0;
}
