// SPDX-License-Identifier: BSD-2-Clause
/* The symbol tables of an ELF file, and functions by their names. */
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_HIDDEN 0x8000 /* .gnu.version: not the default version of this name */

/* The names of .symtab may contain their version, "memalign@GLIBC_2.2.5" (hidden) or
 * "malloc@@GLIBC_2.2.5" (default); .dynsym keeps versions in .gnu.version. Cuts the versions off
 * and remembers which ones were hidden. Makes one pass over the strings and not one for each
 * symbol, because all symbols of a hostile file may name the same endless string. */
static int cut_versions(struct symbol_table *table)
{
	char *strings = table->strings;

	table->cut_hidden = calloc(table->strings_size / 8 + 1, 1);
	if (!table->cut_hidden)
		return -ENOMEM;
	for (size_t i = 0; i < table->strings_size; i++) {
		if (strings[i] != '@')
			continue;
		if (strings[i + 1] == '@')
			strings[i++] = '\0';
		else
			table->cut_hidden[i / 8] |= 1u << (i % 8);
		strings[i] = '\0';
	}
	return 0;
}

static void free_table(struct symbol_table *table)
{
	free(table->symbols);
	free(table->strings);
	free(table->versions);
	free(table->cut_hidden);
	*table = (struct symbol_table){0};
}

/* Reads the symbol table of section shdr and its string table; *table stays empty when they are not
 * sound. 0 or -ENOMEM. */
static int read_table(const struct elf_image *image, const struct elf_headers *headers,
		      const Elf64_Shdr *shdr, struct symbol_table *table)
{
	Elf64_Shdr strings;
	int err = 0;

	if (shdr->sh_entsize != sizeof(Elf64_Sym) ||
	    !elf_headers__section(headers, shdr->sh_link, &strings) ||
	    strings.sh_type != SHT_STRTAB)
		return 0;
	table->symbols = elf_image__read_range(image, shdr->sh_offset, shdr->sh_size);
	table->strings = elf_image__read_range(image, strings.sh_offset, strings.sh_size);
	if (table->symbols && table->strings) {
		const char *last = memrchr(table->strings, '\0', strings.sh_size);

		table->n = shdr->sh_size / sizeof(Elf64_Sym);
		table->strings_size = last ? last - table->strings + 1 : 0;
		if (shdr->sh_type == SHT_SYMTAB)
			err = cut_versions(table);
	} else {
		free_table(table);
	}
	return err;
}

int elf_image__read_symbols(struct elf_image *image, const struct elf_headers *headers)
{
	Elf64_Shdr versions = {0}, shdr;
	bool has_dynsym = false, has_symtab = false;
	struct elf_walk walk;
	int err = 0;

	elf_headers__walk_sections(headers, &walk);
	while (!err && elf_walk__next(&walk, &shdr)) {
		/* A file has one table of each type. Of a hostile file, which may have thousands,
		 * only the first one is read. */
		if (shdr.sh_type == SHT_DYNSYM && !has_dynsym) {
			has_dynsym = true;
			err = read_table(image, headers, &shdr, &image->dynsym);
		} else if (shdr.sh_type == SHT_SYMTAB && !has_symtab) {
			has_symtab = true;
			err = read_table(image, headers, &shdr, &image->symtab);
		} else if (shdr.sh_type == SHT_GNU_versym) {
			versions = shdr;
		}
	}
	if (!err && image->dynsym.n && versions.sh_size / sizeof(Elf64_Half) >= image->dynsym.n)
		image->dynsym.versions =
			elf_image__read_range(image, versions.sh_offset, versions.sh_size);
	return err;
}

void elf_image__free_symbols(struct elf_image *image)
{
	free_table(&image->dynsym);
	free_table(&image->symtab);
}

bool symbol_table__is_function(const struct symbol_table *table, const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_shndx != SHN_COMMON &&
	       symbol->st_name < table->strings_size && table->strings[symbol->st_name];
}

static struct elf_symbol describe(const struct elf_image *image, const struct symbol_table *table,
				  const Elf64_Sym *symbol)
{
	return (struct elf_symbol){
		.name = table->strings + symbol->st_name,
		.vaddr = symbol->st_value,
		.size = symbol->st_size,
		.type = ELF64_ST_TYPE(symbol->st_info),
		.bind = ELF64_ST_BIND(symbol->st_info),
		.dynamic = table == &image->dynsym,
	};
}

int elf_image__each_function(const struct elf_image *image,
			     int (*fn)(const struct elf_symbol *symbol, void *ctx), void *ctx)
{
	const struct symbol_table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++) {
		for (size_t i = 0; i < tables[t]->n; i++) {
			struct elf_symbol symbol;
			int ret;

			if (!symbol_table__is_function(tables[t], &tables[t]->symbols[i]))
				continue;
			symbol = describe(image, tables[t], &tables[t]->symbols[i]);
			ret = fn(&symbol, ctx);
			if (ret)
				return ret;
		}
	}
	return 0;
}

static bool is_hidden(const struct symbol_table *table, size_t i)
{
	size_t end;

	if (table->versions)
		return table->versions[i] & VERSION_HIDDEN;
	if (!table->cut_hidden)
		return false;
	end = table->symbols[i].st_name + strlen(table->strings + table->symbols[i].st_name);
	return table->cut_hidden[end / 8] >> (end % 8) & 1;
}

/* Returns the symbol's rank. Smaller is better: a default version before a hidden one, then global,
 * weak, local. */
static unsigned int rank(const struct symbol_table *table, size_t i)
{
	bool hidden = is_hidden(table, i);

	switch (ELF64_ST_BIND(table->symbols[i].st_info)) {
	case STB_LOCAL:
		return hidden * 4 + 2;
	case STB_WEAK:
		return hidden * 4 + 1;
	default:
		return hidden * 4;
	}
}

int elf_image__find_function(const struct elf_image *image, const char *name,
			     struct elf_symbol *ret_symbol)
{
	const struct symbol_table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++) {
		const struct symbol_table *table = tables[t];
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < table->n; i++) {
			if (!symbol_table__is_function(table, &table->symbols[i]) ||
			    strcmp(table->strings + table->symbols[i].st_name, name) != 0)
				continue;
			if (best == SIZE_MAX || rank(table, i) < rank(table, best))
				best = i;
		}
		if (best != SIZE_MAX) {
			*ret_symbol = describe(image, table, &table->symbols[best]);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_image__find_object(const struct elf_image *image, const char *name,
			   struct elf_symbol *ret_symbol)
{
	const struct symbol_table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < tables[t]->n; i++) {
			const Elf64_Sym *symbol = &tables[t]->symbols[i];

			if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
			    symbol->st_shndx == SHN_UNDEF ||
			    symbol->st_name >= tables[t]->strings_size ||
			    strcmp(tables[t]->strings + symbol->st_name, name) != 0)
				continue;
			*ret_symbol = describe(image, tables[t], symbol);
			return 0;
		}
	return -ENOENT;
}
