// SPDX-License-Identifier: BSD-2-Clause
/* The symbol tables of an ELF file, and functions by their names.
 *
 * Tables may be as large as the file's owner likes: in real files, the strings take up to some
 * hundred MiB. So no table is read at once. A part of the strings is read, then all symbols in
 * small pieces, then the next part of the strings. A symbol is kept if its name lies in the part
 * and the caller wants it. */
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/vector.h"

#define VERSION_HIDDEN 0x8000 /* in .gnu.version: this is not the default version of the name */

#define MAX_STRINGS_BYTES (512ull << 20) /* a larger table of strings is not read */
#define MAX_SYMBOLS	  5000000ull	 /* further symbols of a table are not read */
#define PART_BYTES	  (16u << 20)
#define PIECE_SYMBOLS	  8192u
/* The bytes that the symbols of a table may take. Only a hostile file reaches this limit, because
 * the wanted names are few. */
#define MAX_KEPT_BYTES (4u << 20)

/* A table while it is read. */
struct reading {
	const struct elf_image *image;
	const struct elf_wanted *wanted; /* NULL: all symbols are wanted */
	struct symbol_table *table;
	/* The names of .symtab may contain their version, "memalign@GLIBC_2.2.5" (hidden) or
	 * "malloc@@GLIBC_2.2.5" (default). .dynsym keeps versions in .gnu.version. */
	bool has_versioned_names;
	uint64_t symbols_off, n_symbols;
	uint64_t versions_off; /* 0: the file has no versions */
	uint64_t strings_off, strings_size;
	/* the part of the strings that is in memory. It has `bytes` bytes: the names that begin in
	 * [begin, end), and the bytes that follow them in the file */
	char *part;
	uint64_t begin, end;
	size_t bytes;
	Elf64_Sym *symbols;   /* a piece of the symbols */
	Elf64_Half *versions; /* the versions of the symbols in this piece */
};

static void cleanup_reading(struct reading *r)
{
	free(r->part);
	free(r->symbols);
	free(r->versions);
}

static void free_table(struct symbol_table *table)
{
	free(table->symbols);
	free(table->names);
	*table = (struct symbol_table){0};
}

/* --- reading --- */

static bool is_defined_function(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_shndx != SHN_COMMON;
}

static bool is_defined_object(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx != SHN_UNDEF;
}

/* 0 or -ENOMEM. */
static int keep(struct symbol_table *table, const Elf64_Sym *symbol, const char *name, size_t len,
		bool hidden)
{
	if (table->n * sizeof(*table->symbols) + table->names_bytes + len >= MAX_KEPT_BYTES)
		return 0;
	if (VECTOR_RESERVE(table->names, table->names_room, table->names_bytes + len + 1) ||
	    VECTOR_ADD_ROOM(table->symbols, table->n))
		return -ENOMEM;
	table->symbols[table->n++] = (struct kept_symbol){
		.name = (uint32_t)table->names_bytes,
		.hidden = hidden,
		.type = ELF64_ST_TYPE(symbol->st_info),
		.bind = ELF64_ST_BIND(symbol->st_info),
		.vaddr = symbol->st_value,
		.size = symbol->st_size,
	};
	memcpy(table->names + table->names_bytes, name, len);
	table->names[table->names_bytes + len] = '\0';
	table->names_bytes += len + 1;
	return 0;
}

/* Keeps the symbol if its name is in the part, and wanted. 0 or -ENOMEM. */
static int examine(struct reading *r, const Elf64_Sym *symbol, Elf64_Half version)
{
	char buf[ELF_MAX_NAME_BYTES + 1];
	const char *name, *end, *at = NULL;
	size_t len, most;

	if (symbol->st_name < r->begin || symbol->st_name >= r->end ||
	    (!is_defined_function(symbol) && !is_defined_object(symbol)))
		return 0;
	name = r->part + (symbol->st_name - r->begin);
	most = r->bytes - (symbol->st_name - r->begin);
	/* All symbols of a hostile file may name the same endless string. */
	end = memchr(name, '\0', most < sizeof(buf) ? most : sizeof(buf));
	if (!end)
		return 0;
	len = (size_t)(end - name);
	if (r->has_versioned_names)
		at = memchr(name, '@', len);
	if (at) {
		len = (size_t)(at - name);
		memcpy(buf, name, len);
		buf[len] = '\0';
		name = buf;
	}
	if (!len || (r->wanted && !r->wanted->fn(name, r->wanted->ctx)))
		return 0;
	return keep(r->table, symbol, name, len,
		    at ? at[1] != '@' : (version & VERSION_HIDDEN) != 0);
}

static bool read_at(const struct reading *r, void *to, size_t bytes, uint64_t off)
{
	return io__pread(r->image->fd, to, bytes, off) == (ssize_t)bytes;
}

/* Reads all symbols, and examines those with names in the part. 0; -ENOMEM; -EIO: the file was cut
 * short meanwhile. */
static int read_pieces(struct reading *r)
{
	int err = 0;

	for (uint64_t first = 0; first < r->n_symbols; first += PIECE_SYMBOLS) {
		uint64_t left = r->n_symbols - first;
		size_t n = left < PIECE_SYMBOLS ? left : PIECE_SYMBOLS;

		if (!read_at(r, r->symbols, n * sizeof(*r->symbols),
			     r->symbols_off + first * sizeof(*r->symbols)) ||
		    (r->versions_off && !read_at(r, r->versions, n * sizeof(*r->versions),
						 r->versions_off + first * sizeof(*r->versions))))
			return -EIO;
		for (size_t i = 0; i < n && !err; i++)
			err = examine(r, &r->symbols[i], r->versions_off ? r->versions[i] : 0);
		if (err)
			return err;
		if (r->wanted && r->wanted->meanwhile.fn)
			r->wanted->meanwhile.fn(r->wanted->meanwhile.ctx);
	}
	return 0;
}

/* 0; -ENOMEM; -EIO: as read_pieces(). */
static int read_parts(struct reading *r)
{
	uint64_t most = PART_BYTES + ELF_MAX_NAME_BYTES + 1;
	int err = 0;

	r->part = malloc(r->strings_size < most ? r->strings_size : most);
	r->symbols = calloc(PIECE_SYMBOLS, sizeof(*r->symbols));
	r->versions = calloc(PIECE_SYMBOLS, sizeof(*r->versions));
	if (!r->part || !r->symbols || !r->versions)
		return -ENOMEM;
	for (r->begin = 0; r->begin < r->strings_size && !err; r->begin = r->end) {
		uint64_t left = r->strings_size - r->begin;

		r->end = r->begin + (left < PART_BYTES ? left : PART_BYTES);
		r->bytes = left < most ? left : most;
		err = read_at(r, r->part, r->bytes, r->strings_off + r->begin) ? read_pieces(r)
									       : -EIO;
	}
	return err;
}

/* Reads the symbol table of section shdr. versions: its section of versions, or all zero. *table
 * stays empty when the table or its strings are not sound. 0 or -ENOMEM. */
static int read_table(const struct elf_image *image, const struct elf_headers *headers,
		      const Elf64_Shdr *shdr, const Elf64_Shdr *versions,
		      const struct elf_wanted *wanted, struct symbol_table *table)
{
	_cleanup_(cleanup_reading) struct reading r = {
		.image = image,
		.wanted = wanted,
		.table = table,
		.has_versioned_names = shdr->sh_type == SHT_SYMTAB,
		.symbols_off = shdr->sh_offset,
		.n_symbols = shdr->sh_size / sizeof(Elf64_Sym),
	};
	Elf64_Shdr strings;
	int err;

	if (shdr->sh_entsize != sizeof(Elf64_Sym) ||
	    !elf_headers__section(headers, shdr->sh_link, &strings) ||
	    strings.sh_type != SHT_STRTAB || strings.sh_size > MAX_STRINGS_BYTES ||
	    !elf_image__in_file(image, strings.sh_offset, strings.sh_size) ||
	    !elf_image__in_file(image, shdr->sh_offset, shdr->sh_size))
		return 0;
	if (r.n_symbols > MAX_SYMBOLS)
		r.n_symbols = MAX_SYMBOLS;
	r.strings_off = strings.sh_offset;
	r.strings_size = strings.sh_size;
	if (versions->sh_size / sizeof(Elf64_Half) >= r.n_symbols &&
	    elf_image__in_file(image, versions->sh_offset, versions->sh_size))
		r.versions_off = versions->sh_offset;
	table->off = r.symbols_off;
	table->n_in_file = r.n_symbols;
	err = r.n_symbols && r.strings_size ? read_parts(&r) : 0;
	if (err)
		free_table(table);
	return err == -EIO ? 0 : err;
}

int elf_image__read_symbols(struct elf_image *image, const struct elf_headers *headers,
			    const struct elf_wanted *wanted)
{
	Elf64_Shdr dynsym = {0}, symtab = {0}, versions = {0}, none = {0}, shdr;
	struct elf_walk walk;
	int err;

	elf_headers__walk_sections(headers, &walk);
	while (elf_walk__next(&walk, &shdr)) {
		/* A file has one table of each type. Of a hostile file, which may have thousands,
		 * only the first one is read. */
		if (shdr.sh_type == SHT_DYNSYM && dynsym.sh_type != SHT_DYNSYM)
			dynsym = shdr;
		else if (shdr.sh_type == SHT_SYMTAB && symtab.sh_type != SHT_SYMTAB)
			symtab = shdr;
		else if (shdr.sh_type == SHT_GNU_versym)
			versions = shdr;
	}
	err = read_table(image, headers, &dynsym, &versions, wanted, &image->dynsym);
	return err ?: read_table(image, headers, &symtab, &none, wanted, &image->symtab);
}

void elf_image__free_symbols(struct elf_image *image)
{
	free_table(&image->dynsym);
	free_table(&image->symtab);
}

/* --- finding --- */

bool elf_image__dynamic_function(const struct elf_image *image, uint64_t i, uint64_t *ret_vaddr)
{
	const struct symbol_table *table = &image->dynsym;
	Elf64_Sym symbol;

	if (i >= table->n_in_file || io__pread(image->fd, &symbol, sizeof(symbol),
					       table->off + i * sizeof(symbol)) != sizeof(symbol))
		return false;
	if (!is_defined_function(&symbol) || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
	    !symbol.st_name)
		return false;
	*ret_vaddr = symbol.st_value;
	return true;
}

bool elf_wanted__is_listed(const char *name, const void *names)
{
	for (const char *const *listed = names; *listed; listed++)
		if (!strcmp(*listed, name))
			return true;
	return false;
}

static const char *name_of(const struct symbol_table *table, const struct kept_symbol *symbol)
{
	return table->names + symbol->name;
}

static struct elf_symbol describe(const struct elf_image *image, const struct symbol_table *table,
				  const struct kept_symbol *symbol)
{
	return (struct elf_symbol){
		.name = name_of(table, symbol),
		.vaddr = symbol->vaddr,
		.size = symbol->size,
		.type = symbol->type,
		.bind = symbol->bind,
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

			if (tables[t]->symbols[i].type == STT_OBJECT)
				continue;
			symbol = describe(image, tables[t], &tables[t]->symbols[i]);
			ret = fn(&symbol, ctx);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Returns the symbol's rank. Smaller is better: a default version before a hidden one, then global,
 * weak, local. */
static unsigned int rank(const struct kept_symbol *symbol)
{
	switch (symbol->bind) {
	case STB_LOCAL:
		return symbol->hidden * 4 + 2;
	case STB_WEAK:
		return symbol->hidden * 4 + 1;
	default:
		return symbol->hidden * 4;
	}
}

int elf_image__find_function(const struct elf_image *image, const char *name,
			     struct elf_symbol *ret_symbol)
{
	const struct symbol_table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++) {
		const struct symbol_table *table = tables[t];
		const struct kept_symbol *best = NULL;

		for (size_t i = 0; i < table->n; i++) {
			const struct kept_symbol *symbol = &table->symbols[i];

			if (symbol->type == STT_OBJECT || strcmp(name_of(table, symbol), name) != 0)
				continue;
			if (!best || rank(symbol) < rank(best))
				best = symbol;
		}
		if (best) {
			*ret_symbol = describe(image, table, best);
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
			const struct kept_symbol *symbol = &tables[t]->symbols[i];

			if (symbol->type != STT_OBJECT ||
			    strcmp(name_of(tables[t], symbol), name) != 0)
				continue;
			*ret_symbol = describe(image, tables[t], symbol);
			return 0;
		}
	return -ENOENT;
}
