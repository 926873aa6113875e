// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/variables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "symbolize/variables_internal.h"

#define PATIENCE_S 20	      /* seconds for each file and each kind of symbols */
#define MAX_FILES  64	      /* files that are read; variables of further files have no names */
#define MAX_ROWS   (8u << 20) /* rows for unwinding, in all files together */

struct variables {
	pid_t pid;
	const struct maps *maps;
	const struct stream_waiting *waiting;
	struct binaries *binaries;
	int root_fd;
	struct variables_file files[MAX_FILES];
	size_t n_files;
	size_t n_beyond; /* look-ups in files beyond the first MAX_FILES */
	size_t n_rows;	 /* number of rows in all tables */
	char *name;	 /* the last name that was returned */
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
	for (size_t i = 0; i < variables->n_files; i++) {
		for (int kind = 0; kind < SYMTAB_KINDS; kind++)
			symtab__free(variables->files[i].symtabs[kind]);
		unwind_table__free(variables->files[i].table);
	}
	binaries__free(variables->binaries);
	if (variables->root_fd >= 0)
		close(variables->root_fd);
	free(variables->name);
	free(variables);
}

size_t variables__unread(const struct variables *variables)
{
	size_t n = variables->n_beyond;

	for (size_t i = 0; i < variables->n_files; i++)
		n += variables->files[i].failed;
	return n;
}

/* Returns the mapping of the file whose data holds addr. This is the mapping that holds addr or,
 * for bss, the mapping before it. NULL: addr is in no file's data. */
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
		      const struct elf_image *image, struct variables_file *file)
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

static void open_file(struct variables *variables, const struct map_entry *entry,
		      struct variables_file *file)
{
	int fd = maps__open_file(variables->pid, entry);

	file->failed = fd < 0 || binaries__add(variables->binaries, &entry->file, fd,
					       variables->root_fd, entry->path, &file->binary);
	if (file->failed)
		file->binary = NULL;
	if (file->binary && !file->binary->image)
		file->binary = NULL;
	if (file->binary)
		find_bias(variables, entry, file->binary->image, file);
}

struct variables_file *variables__find_file(struct variables *variables,
					    const struct map_entry *entry)
{
	struct variables_file *file;

	for (size_t i = 0; i < variables->n_files; i++)
		if (file_id__equal(&variables->files[i].id, &entry->file))
			return &variables->files[i];
	if (variables->n_files == MAX_FILES) {
		variables->n_beyond++;
		return NULL;
	}
	file = &variables->files[variables->n_files++];
	*file = (struct variables_file){.id = entry->file, .path = entry->path};
	open_file(variables, entry, file);
	return file;
}

int variables__find_symbol(struct variables *variables, struct variables_file *file,
			   enum symtab_kind kind, uint64_t vaddr, char **ret_name,
			   uint64_t *ret_start)
{
	struct binary *binary = file->binary;
	const char *symbol;
	int rc;

	*ret_name = NULL;
	if (!file->tried[kind] && binary) {
		rc = symtab__open(binary->fd, &binary->debug_fd, kind, PATIENCE_S,
				  variables->waiting, &file->symtabs[kind]);
		if (rc == -ENOMEM)
			return rc;
		file->failed = file->failed || (rc && rc != -ENOEXEC);
	}
	file->tried[kind] = true;
	symbol = file->symtabs[kind] ? symtab__find(file->symtabs[kind], vaddr, ret_start) : NULL;
	if (!symbol)
		return 0;
	*ret_name = demangle(symbol);
	return *ret_name ? 0 : -ENOMEM;
}

const struct unwind_table *variables__find_table(struct variables *variables,
						 struct variables_file *file)
{
	size_t left = MAX_ROWS - variables->n_rows;
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	struct unwind_table *table;

	if (!file->tried_table && file->binary && left &&
	    !elf_image__open_code(file->binary->fd, file->path, &image, NULL) &&
	    !unwind_table__build(image, left, &table, NULL)) {
		file->table = table;
		variables->n_rows += table->n;
	}
	file->tried_table = true;
	return file->table;
}

int variables__name(struct variables *variables, uint64_t addr, struct variable *ret)
{
	const struct map_entry *entry = data_entry(variables->maps, addr);
	struct variables_file *file;
	struct variable variable = {};
	uint64_t start;
	char *name;
	int err;

	if (!entry)
		return -ENOENT;
	variable.path = entry->path;
	variable.off = addr - entry->start + entry->off;
	file = variables__find_file(variables, entry);
	if (file && file->known) {
		variable.off = addr - file->bias;
		err = variables__find_symbol(variables, file, SYMTAB_VARIABLES, variable.off, &name,
					     &start);
		if (err)
			return err;
		free(variables->name);
		variable.name = variables->name = name;
		if (name)
			variable.off -= start;
	}
	*ret = variable;
	return 0;
}
