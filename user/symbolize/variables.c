// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/variables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/binary.h"
#include "proc/process.h"
#include "symbolize/symtab.h"

#define PATIENCE_S 20 /* per file */
#define MAX_FILES  64 /* files that are read; variables of further files have no names */

struct file {
	struct file_id id;
	struct symtab *symtab; /* NULL: could not be read */
	uint64_t bias;	       /* the address of a byte minus its vaddr */
	bool known;	       /* bias is known */
};

struct variables {
	pid_t pid;
	const struct maps *maps;
	const struct stream_waiting *waiting;
	struct binaries *binaries;
	int root_fd;
	struct file files[MAX_FILES];
	size_t n_files;
	char *name; /* the last name that was returned */
};

int variables__new(pid_t pid, const struct maps *maps, const struct stream_waiting *waiting,
		   struct variables **ret)
{
	struct variables *variables = calloc(1, sizeof(*variables));
	int err;

	if (!variables)
		return -ENOMEM;
	variables->pid = pid;
	variables->maps = maps;
	variables->waiting = waiting;
	err = binaries__new(&variables->binaries);
	if (err) {
		free(variables);
		return err;
	}
	variables->root_fd = process__open(pid, "root", O_PATH | O_DIRECTORY);
	*ret = variables;
	return 0;
}

void variables__free(struct variables *variables)
{
	if (!variables)
		return;
	for (size_t i = 0; i < variables->n_files; i++)
		symtab__free(variables->files[i].symtab);
	binaries__free(variables->binaries);
	if (variables->root_fd >= 0)
		close(variables->root_fd);
	free(variables->name);
	free(variables);
}

/* The mapping of the file to whose data addr belongs: addr's own mapping or, for bss, the one
 * before it. */
static const struct map_entry *data_entry(const struct maps *maps, uint64_t addr)
{
	const struct map_entry *entry = maps__find(maps, addr);

	if (entry && !entry->file.inode && !*entry->path && entry > maps->entries &&
	    entry[-1].end == entry->start)
		entry--;
	return entry && entry->file.inode ? entry : NULL;
}

/* Finds out where the file of `entry` was loaded, from the mapping of the file's code. Only in this
 * mapping does the offset in the file give the vaddr without doubt. */
static void find_bias(const struct variables *variables, const struct map_entry *entry,
		      const struct elf_image *image, struct file *file)
{
	const struct maps *maps = variables->maps;
	uint64_t vaddr;

	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *code = &maps->entries[i];

		if (code->start > entry->start && file->known)
			break; /* the same file may be mapped once more, at higher addresses */
		if (code->executable && file_id__equal(&code->file, &entry->file) &&
		    !elf_image__mapping_to_vaddr(image, code->off, &vaddr)) {
			file->bias = code->start - vaddr;
			file->known = true;
		}
	}
}

static int read_file(struct variables *variables, const struct map_entry *entry, struct file *file)
{
	int fd = maps__open_file(variables->pid, entry);
	struct binary *binary;

	if (fd < 0 || binaries__add(variables->binaries, &entry->file, fd, variables->root_fd,
				    entry->path, &binary))
		return 0;
	if (!binary->image)
		return 0;
	find_bias(variables, entry, binary->image, file);
	return symtab__open(binary->fd, &binary->debug_fd, SYMTAB_VARIABLES, PATIENCE_S,
			    variables->waiting, &file->symtab) == -ENOMEM
		       ? -ENOMEM
		       : 0;
}

static int find_file(struct variables *variables, const struct map_entry *entry,
		     const struct file **ret)
{
	struct file *file;
	int err;

	for (size_t i = 0; i < variables->n_files; i++)
		if (file_id__equal(&variables->files[i].id, &entry->file)) {
			*ret = &variables->files[i];
			return 0;
		}
	if (variables->n_files == MAX_FILES)
		return 0;
	file = &variables->files[variables->n_files];
	file->id = entry->file;
	err = read_file(variables, entry, file);
	if (err)
		return err;
	variables->n_files++;
	*ret = file;
	return 0;
}

int variables__name(struct variables *variables, uint64_t addr, struct variable *ret)
{
	const struct map_entry *entry = data_entry(variables->maps, addr);
	struct variable variable = {};
	const struct file *file = NULL;
	const char *symbol = NULL;
	uint64_t start;
	int err;

	if (!entry)
		return -ENOENT;
	variable.path = entry->path;
	variable.off = addr - entry->start + entry->off;
	err = find_file(variables, entry, &file);
	if (err)
		return err;
	if (file && file->known) {
		variable.off = addr - file->bias;
		symbol = file->symtab ? symtab__find(file->symtab, variable.off, &start) : NULL;
	}
	if (symbol) {
		free(variables->name);
		variables->name = demangle(symbol);
		if (!variables->name)
			return -ENOMEM;
		variable.name = variables->name;
		variable.off -= start;
	}
	*ret = variable;
	return 0;
}
