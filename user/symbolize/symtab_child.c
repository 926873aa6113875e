// SPDX-License-Identifier: BSD-2-Clause
/* libdwfl finds the symbol tables (the file's own, the separate debug file's, .gnu_debugdata). This
 * file turns them into disjoint ranges of addresses, each with the name of its innermost function.
 *
 * No claim of the file is used as a bound. The number of symbols is bounded by the size of the
 * files that hold them. The size of the names is bounded by the size of the string tables, because
 * names that share a tail in a string table share it here, too. */
#include "symbolize/symtab_child.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <lzma.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "elf/headers.h"
#include "symbolize/clean.h"

#define MAX_LOADS	 256 /* PT_LOADs; real files have a dozen */
#define MIN_SYMBOL_BYTES 16  /* sizeof(Elf32_Sym), the smaller one */

struct load { /* PT_LOAD */
	uint64_t vaddr, memsz;
};

/* A symbol while it is collected. */
struct raw {
	uint64_t start;
	uint64_t end;	    /* 0: no size given */
	uint64_t limit;	    /* end of its section */
	const char *source; /* in libdwfl's memory; source_len bytes, up to its NUL or the limit */
	size_t source_len;
	const char *name; /* the copy of the name, once it is made */
	size_t name_len;
	unsigned int bind_rank; /* 0 global, 1 weak, 2 local */
};

struct raws {
	struct raw *items;
	size_t n, room;
};

/* The table that is made of the symbols. */
struct content {
	enum symtab_kind kind;
	struct symtab_range *ranges; /* ascending, disjoint */
	size_t n_ranges;
	char *names; /* all of them, each ended by a NUL */
	size_t names_bytes;
	struct load loads[MAX_LOADS];
	size_t n_loads;
};

static void cleanup_content(struct content *content)
{
	free(content->ranges);
	free(content->names);
}

DEFINE_CLEANUP(Dwfl *, cleanup_dwfl, dwfl_end)

static void cleanup_raws(struct raws *raws)
{
	free(raws->items);
}

/* --- libdwfl's callbacks --- */

/* Returns the debug file's descriptor, which libdwfl then owns, or -1 for none. The parent has
 * already searched for the debug file, with more care than libdwfl takes. */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
			  const char *path, const char *link, GElf_Word crc, char **debug_path)
{
	int *debug_fd = *userdata;

	(void)mod, (void)modname, (void)base, (void)path, (void)link, (void)crc;
	if (*debug_fd >= 0)
		*debug_path = strdup("debug file");
	return take_fd(debug_fd);
}

/* Never needed, because the module is reported with its file. */
static int find_no_elf(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
		       char **path, Elf **elf)
{
	(void)mod, (void)userdata, (void)modname, (void)base, (void)path, (void)elf;
	return -1;
}

/* --- reading the file itself --- */

static int read_loads(struct content *content, Elf *elf)
{
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return -ENOEXEC;
	if (n > INT_MAX)
		n = INT_MAX;
	for (size_t i = 0; i < n && content->n_loads < MAX_LOADS; i++) {
		GElf_Phdr phdr;

		if (gelf_getphdr(elf, (int)i, &phdr) && phdr.p_type == PT_LOAD &&
		    phdr.p_vaddr + phdr.p_memsz >= phdr.p_vaddr &&
		    phdr.p_offset + phdr.p_filesz >= phdr.p_offset)
			content->loads[content->n_loads++] =
				(struct load){phdr.p_vaddr, phdr.p_memsz};
	}
	return 0;
}

/* Does .gnu_debugdata unpack to a size that libdwfl can handle? libdwfl unpacks everything into
 * memory, and the sizes in the data's own index are as hostile as the rest. So this function counts
 * the unpacked bytes. */
static bool debugdata_is_small(const void *data, size_t len)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	unsigned char out[65536];
	lzma_ret ret;

	if (lzma_auto_decoder(&stream, 1u << 30, 0) != LZMA_OK)
		return false;
	stream.next_in = data;
	stream.avail_in = len;
	do {
		stream.next_out = out;
		stream.avail_out = sizeof(out);
		ret = lzma_code(&stream, LZMA_FINISH);
	} while (ret == LZMA_OK && stream.total_out <= SYMTAB_MAX_UNPACKED);
	lzma_end(&stream);
	return stream.total_out <= SYMTAB_MAX_UNPACKED;
}

static bool debugdata_is_sound(Elf *elf)
{
	size_t names;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return true;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		const char *name;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr))
			continue;
		name = elf_strptr(elf, names, shdr.sh_name);
		if (!name || strcmp(name, ".gnu_debugdata") != 0)
			continue;
		data = elf_rawdata(scn, NULL);
		if (data && data->d_buf && !debugdata_is_small(data->d_buf, data->d_size))
			return false;
	}
	return true;
}

/* --- collecting symbols --- */

/* The highest end of a symbol at vaddr: the end of its section, or else of its segment. 0 when
 * vaddr lies in neither. bias: what is added to a section's address to give our vaddr. */
static uint64_t symbol_limit(const struct content *content, Elf *elf, size_t shndx, uint64_t bias,
			     uint64_t vaddr)
{
	Elf_Scn *scn = shndx && shndx < SHN_LORESERVE ? elf_getscn(elf, shndx) : NULL;
	GElf_Shdr shdr;

	if (scn && gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_ALLOC) &&
	    vaddr - (shdr.sh_addr + bias) < shdr.sh_size)
		return shdr.sh_addr + bias + shdr.sh_size;
	for (size_t i = 0; i < content->n_loads; i++)
		if (vaddr - content->loads[i].vaddr < content->loads[i].memsz)
			return content->loads[i].vaddr + content->loads[i].memsz;
	return 0;
}

static bool is_wanted(enum symtab_kind kind, unsigned int type)
{
	return kind == SYMTAB_VARIABLES ? type == STT_OBJECT
					: type == STT_FUNC || type == STT_GNU_IFUNC;
}

/* Adds a symbol if it is of the kind that is wanted and has a name. name lies in elf's image. The
 * name ends at the image's end at the latest, because libdwfl does not check that there is a
 * NUL. */
static int collect(const struct content *content, struct raws *raws, Elf *elf, const GElf_Sym *sym,
		   size_t shndx, uint64_t vaddr, uint64_t bias, const char *name)
{
	unsigned int type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
	uint64_t limit;
	struct raw *raw;
	size_t size, len;
	const char *image;

	if (!is_wanted(content->kind, type) || sym->st_shndx == SHN_UNDEF || !name ||
	    raws->n == SYMTAB_MAX_SYMBOLS)
		return 0;
	image = elf_rawfile(elf, &size);
	if (!image || name < image || name >= image + size)
		return 0;
	size -= (size_t)(name - image);
	len = strnlen(name, size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES);
	limit = symbol_limit(content, elf, shndx, bias, vaddr);
	if (!len || limit <= vaddr)
		return 0;

	if (VECTOR_RESERVE(raws->items, raws->room, raws->n + 1))
		return -ENOMEM;
	raw = &raws->items[raws->n++];
	*raw = (struct raw){
		.start = vaddr,
		.limit = limit,
		.source = name,
		.source_len = len,
		.bind_rank = bind == STB_LOCAL	? 2
			     : bind == STB_WEAK ? 1
						: 0,
	};
	if (sym->st_size)
		raw->end = sym->st_size < limit - vaddr ? vaddr + sym->st_size : limit;
	return 0;
}

/* Collects the symbols that libdwfl found: .symtab of the file or of its debug file, else .dynsym,
 * and .gnu_debugdata. */
static int collect_found(const struct content *content, struct raws *raws, Dwfl_Module *mod,
			 Elf *own)
{
	Elf *seen[4] = {own};
	size_t n_seen = 1, bytes = 0;
	int n = dwfl_module_getsymtab(mod);

	elf_rawfile(own, &bytes);
	/* n may be anything, so no more symbols are tried than fit into the files seen so far. */
	if (n > SYMTAB_MAX_SYMBOLS)
		n = SYMTAB_MAX_SYMBOLS;
	for (int i = 1; i < n && (size_t)i <= bytes / MIN_SYMBOL_BYTES; i++) {
		GElf_Addr vaddr;
		GElf_Word shndx;
		GElf_Sym sym;
		Dwarf_Addr bias;
		Elf *elf = NULL;
		const char *name;
		size_t k = 0;
		int err;

		name = dwfl_module_getsym_info(mod, i, &sym, &vaddr, &shndx, &elf, &bias);
		if (!name || !elf)
			continue;
		while (k < n_seen && seen[k] != elf)
			k++;
		if (k == n_seen && n_seen < sizeof(seen) / sizeof(*seen)) {
			size_t more = 0;

			elf_rawfile(elf, &more);
			bytes += more;
			seen[n_seen++] = elf;
		}
		err = collect(content, raws, elf, &sym, shndx, vaddr, bias, name);
		if (err)
			return err;
	}
	return 0;
}

/* Collects the file's .dynsym. libdwfl ignores it when there is a .symtab, even one with few
 * symbols. */
static int collect_dynamic(const struct content *content, struct raws *raws, Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNSYM)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 1;
		     data && i < SYMTAB_MAX_SYMBOLS && (size_t)i < data->d_size / sizeof(Elf64_Sym);
		     i++) {
			GElf_Sym sym;
			int err;

			if (!gelf_getsym(data, i, &sym))
				break;
			err = collect(content, raws, elf, &sym, sym.st_shndx, sym.st_value, 0,
				      elf_strptr(elf, shdr.sh_link, sym.st_name));
			if (err)
				return err;
		}
		return 0; /* only the first .dynsym: a thousand sections could claim the same
			   * bytes */
	}
	return 0;
}

/* --- copying names --- */

static int by_source(const void *a, const void *b)
{
	const struct raw *x = a, *y = b;

	return (x->source > y->source) - (x->source < y->source);
}

/* Copies the names to content->names. Names that share a tail in the string table are stored
 * once. */
static int copy_names(struct content *content, struct raws *raws)
{
	struct raw *items = raws->items;
	const struct raw *whole = NULL;
	size_t total = 0;
	char *at;

	qsort(items, raws->n, sizeof(*items), by_source);
	for (size_t i = 0; i < raws->n; i++) {
		if (whole && items[i].source < whole->source + whole->source_len)
			continue;
		whole = &items[i];
		total += whole->source_len + 1;
	}
	at = content->names = malloc(total);
	content->names_bytes = total;
	if (!at)
		return -ENOMEM;
	whole = NULL;
	for (size_t i = 0; i < raws->n; i++) {
		if (whole && items[i].source < whole->source + whole->source_len) {
			items[i].name = whole->name + (items[i].source - whole->source);
			continue;
		}
		whole = &items[i];
		items[i].name = at;
		memcpy(at, whole->source, whole->source_len);
		at[whole->source_len] = '\0';
		clean_name(at);
		at += strlen(at);
		*at++ = '\0';
	}
	/* Versions ("memcpy@@GLIBC_2.14") say nothing about the function. */
	for (char *p = content->names; p < at; p += strlen(p) + 1) {
		char *version = *p ? strchr(p + 1, '@') : NULL;

		if (version)
			memset(version, '\0', strlen(version));
	}
	for (size_t i = 0; i < raws->n; i++)
		items[i].name_len = strlen(items[i].name);
	return 0;
}

/* --- building the ranges --- */

/* Ascending by address, the best name of each address first. */
static int by_start(const void *a, const void *b)
{
	const struct raw *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (!x->end != !y->end)
		return x->end ? -1 : 1;
	if ((x->bind_rank == 2) != (y->bind_rank == 2))
		return x->bind_rank == 2 ? 1 : -1;
	/* A leading underscore counts more than weak or global: "calloc" is weak in glibc,
	 * "__libc_calloc" is not. */
	if ((x->name[0] == '_') != (y->name[0] == '_'))
		return x->name[0] == '_' ? 1 : -1;
	if (x->bind_rank != y->bind_rank)
		return x->bind_rank < y->bind_rank ? -1 : 1;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	return x->name == y->name ? 0 : strcmp(x->name, y->name);
}

static void add_range(struct content *content, uint64_t start, uint64_t end, const struct raw *raw)
{
	if (start < end)
		content->ranges[content->n_ranges++] = (struct symtab_range){
			start, end, raw->start, (uint64_t)(raw->name - content->names)};
}

/* Functions may nest and overlap; ranges may not. The loop sweeps over the starts and keeps the
 * functions that are still open on a stack. Each stretch of addresses goes to the open function
 * that began last. Every function makes at most two ranges: one that ends where the next function
 * begins, and one behind the functions that are nested in it. */
static int build_ranges(struct content *content, struct raws *raws)
{
	_cleanup_free_ const struct raw **open = NULL;
	size_t n_open = 0, n = 0;
	uint64_t at = 0;

	qsort(raws->items, raws->n, sizeof(*raws->items), by_start);
	for (size_t i = 0; i < raws->n; i++)
		if (raws->items[i].name_len &&
		    (!n || raws->items[n - 1].start != raws->items[i].start))
			raws->items[n++] = raws->items[i];
	for (size_t i = 0; i < n; i++) {
		struct raw *raw = &raws->items[i];

		if (!raw->end)
			raw->end =
				i + 1 < n && raw[1].start < raw->limit ? raw[1].start : raw->limit;
	}
	content->ranges = calloc(2 * n, sizeof(*content->ranges));
	open = calloc(n, sizeof(*open));
	if (!content->ranges || !open)
		return -ENOMEM;
	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? raws->items[i].start : UINT64_MAX;

		while (n_open && open[n_open - 1]->end <= next) {
			const struct raw *top = open[--n_open];

			add_range(content, at, top->end, top);
			if (top->end > at)
				at = top->end;
		}
		if (n_open)
			add_range(content, at, next, open[n_open - 1]);
		at = next;
		if (i < n)
			open[n_open++] = &raws->items[i];
	}
	return 0;
}

/* --- the whole --- */

/* Collects the symbols and builds the table. 0, -ENOEXEC or -ENOMEM. */
static int read_symbols(struct content *content, Dwfl_Module *mod, Elf *elf)
{
	_cleanup_(cleanup_raws) struct raws raws = {0};
	int err;

	if (!debugdata_is_sound(elf))
		return -ENOEXEC;
	err = collect_found(content, &raws, mod, elf);
	if (!err)
		err = collect_dynamic(content, &raws, elf);
	if (err || !raws.n)
		return err;
	err = copy_names(content, &raws);
	return err ? err : build_ranges(content, &raws);
}

static int read_file(struct content *content, int *fd, int *debug_fd)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_no_elf,
		.find_debuginfo = find_debuginfo,
	};
	_cleanup_(cleanup_dwfl) Dwfl *dwfl = NULL;
	struct elf_headers headers;
	Dwfl_Module *mod;
	GElf_Addr bias;
	void **userdata;
	Elf *elf;
	int err;

	/* This check also rejects files that libdwfl would try to unpack (gzip, bzip2, xz
	 * images). */
	if (elf_headers__read(*fd, "", &headers, NULL))
		return -ENOEXEC;
	dwfl = dwfl_begin(&callbacks);
	if (!dwfl)
		return -ENOMEM;
	dwfl_report_begin(dwfl);
	mod = dwfl_report_elf(dwfl, "file", "file", *fd, 0, true);
	if (!mod)
		return -ENOEXEC;
	take_fd(fd); /* libdwfl owns the descriptor now */
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = debug_fd;
	elf = dwfl_module_getelf(mod, &bias);
	if (!elf || bias || dwfl_report_end(dwfl, NULL, NULL))
		return -ENOEXEC;
	err = read_loads(content, elf);
	return err ? err : read_symbols(content, mod, elf);
}

static bool send(FILE *out, const void *data, size_t n, size_t size)
{
	return !n || fwrite(data, size, n, out) == n;
}

enum child_exit symtab_child__read(FILE *out, int file_fd, int debug_fd, void *ctx)
{
	_cleanup_(cleanup_content) struct content content = {.kind = *(enum symtab_kind *)ctx};
	_cleanup_close_ int own_fd = file_fd, own_debug_fd = debug_fd;
	struct symtab_wire wire;
	int err;

	err = read_file(&content, &own_fd, &own_debug_fd);
	if (err)
		return err == -ENOEXEC ? CHILD_NO_DATA : CHILD_FAILED;
	wire = (struct symtab_wire){content.n_ranges, content.names_bytes};
	return send(out, &wire, 1, sizeof(wire)) &&
			       send(out, content.ranges, content.n_ranges,
				    sizeof(*content.ranges)) &&
			       send(out, content.names, content.names_bytes, 1)
		       ? CHILD_DONE
		       : CHILD_FAILED;
}
