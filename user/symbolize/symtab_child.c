// SPDX-License-Identifier: BSD-2-Clause
/* Finds the symbol tables: the file's own, the separate debug file's, and the one that is packed in
 * .gnu_debugdata. Turns them into disjoint ranges of addresses, each with the name of its innermost
 * function.
 *
 * No claim of the file is used as a bound. The number of symbols is bounded by the size of the
 * files that hold them. The size of the names is bounded by the size of the string tables: if names
 * share a tail in a string table, the copies of these names share it, too. libelf maps the files.
 * If a file is cut short meanwhile, SIGBUS ends this process, and the parent goes on without the
 * file. */
#include "symbolize/symtab_child.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gelf.h>
#include <lzma.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "elf/headers.h"
#include "symbolize/clean.h"

#define MAX_LOADS	  256	     /* PT_LOADs; real files have a dozen */
#define UNPACK_BYTES	  65536	     /* first size of the buffer for .gnu_debugdata */
#define MAX_DECODER_BYTES (1u << 30) /* memory for liblzma's dictionary; xz -9 needs 65 MiB */

/* A symbol table. */
struct table {
	Elf *elf;
	Elf_Data *symbols;
	/* for each symbol the index of its section, which is used if the symbol's st_shndx is
	 * SHN_XINDEX; NULL: the table has no such indexes */
	Elf_Data *indexes;
	Elf_Data *names;
};

/* A symbol while it is collected. */
struct raw {
	uint64_t start;
	uint64_t end;	/* 0: the symbol has no size */
	uint64_t limit; /* end of the symbol's section or segment */
	/* the name in a string table: source_len bytes, up to the NUL, but at most
	 * NAME_MAX_BYTES */
	const char *source;
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
	char *names; /* all names, each ended by a NUL */
	size_t names_bytes;
	Elf64_Phdr loads[MAX_LOADS];
	size_t n_loads;
	uint64_t tls;	    /* vaddr of PT_TLS */
	Elf64_Phdr dynamic; /* PT_DYNAMIC, or all zero */
};

static void cleanup_content(struct content *content)
{
	free(content->ranges);
	free(content->names);
}

DEFINE_CLEANUP(Elf *, cleanup_elf, elf_end)

static void cleanup_raws(struct raws *raws)
{
	free(raws->items);
}

/* --- finding the tables --- */

static void read_segments(struct content *content, const struct elf_headers *headers)
{
	struct elf_walk walk;
	Elf64_Phdr segment;

	elf_headers__walk_segments(headers, &walk);
	while (elf_walk__next(&walk, &segment)) {
		if (segment.p_type == PT_DYNAMIC)
			content->dynamic = segment;
		else if (segment.p_type == PT_TLS)
			content->tls = segment.p_vaddr;
		else if (segment.p_type == PT_LOAD && content->n_loads < MAX_LOADS &&
			 segment.p_vaddr + segment.p_memsz >= segment.p_vaddr)
			content->loads[content->n_loads++] = segment;
	}
}

/* The bytes of a section. NULL: the file does not have them, or has them compressed. */
static Elf_Data *section_data(Elf_Scn *scn)
{
	GElf_Shdr shdr;
	Elf_Data *data;

	if (!gelf_getshdr(scn, &shdr) || (shdr.sh_flags & SHF_COMPRESSED))
		return NULL;
	data = elf_getdata(scn, NULL);
	return data && data->d_buf ? data : NULL;
}

/* Returns the bytes of the first section of this type. *ret_link: the index of the section that
 * belongs to it. Further sections of the type do not count: a thousand could claim the same
 * bytes. */
static Elf_Data *find_section(Elf *elf, GElf_Word type, size_t *ret_link)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == type) {
			*ret_link = shdr.sh_link;
			return section_data(scn);
		}
	return NULL;
}

/* Finds the table of this type (SHT_SYMTAB, SHT_DYNSYM). False: elf (may be NULL) has none that is
 * sound. */
static bool find_table(Elf *elf, GElf_Word type, struct table *ret)
{
	size_t names, owner;

	if (elf_kind(elf) != ELF_K_ELF)
		return false;
	*ret = (struct table){.elf = elf, .symbols = find_section(elf, type, &names)};
	if (!ret->symbols)
		return false;
	ret->names = section_data(elf_getscn(elf, names));
	if (type == SHT_SYMTAB)
		ret->indexes = find_section(elf, SHT_SYMTAB_SHNDX, &owner);
	return ret->names;
}

/* Returns the `size` bytes at vaddr. NULL: no segment has all of them in the file. */
static Elf_Data *data_at(const struct content *content, Elf *elf, uint64_t vaddr, uint64_t size,
			 Elf_Type type)
{
	for (size_t i = 0; i < content->n_loads; i++) {
		const Elf64_Phdr *load = &content->loads[i];
		uint64_t skip = vaddr - load->p_vaddr;

		if (skip < load->p_filesz && size <= load->p_filesz - skip)
			return elf_getdata_rawchunk(elf, (int64_t)(load->p_offset + skip), size,
						    type);
	}
	return NULL;
}

/* The first value with this tag in PT_DYNAMIC; 0: there is none. */
static uint64_t dynamic_value(Elf_Data *dynamic, int64_t tag)
{
	GElf_Dyn dyn;

	for (int i = 0; gelf_getdyn(dynamic, i, &dyn) && dyn.d_tag != DT_NULL; i++)
		if (dyn.d_tag == tag)
			return dyn.d_un.d_val;
	return 0;
}

/* Finds .dynsym in a file without section headers. No field holds the table's size. But ld, gold,
 * lld and mold put one of the tables in `others` behind .dynsym, and .dynsym ends where that table
 * begins. */
static bool find_dynamic(const struct content *content, Elf *elf, struct table *ret)
{
	static const int64_t others[] = {DT_STRTAB, DT_VERSYM, DT_GNU_HASH, DT_HASH};
	Elf_Data *dynamic = data_at(content, elf, content->dynamic.p_vaddr,
				    content->dynamic.p_filesz, ELF_T_DYN);
	uint64_t start = dynamic_value(dynamic, DT_SYMTAB), end = UINT64_MAX;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		uint64_t other = dynamic_value(dynamic, others[i]);

		if (other > start && other < end)
			end = other;
	}
	*ret = (struct table){
		.elf = elf,
		.symbols = data_at(content, elf, start, end - start, ELF_T_SYM),
		.names = data_at(content, elf, dynamic_value(dynamic, DT_STRTAB),
				 dynamic_value(dynamic, DT_STRSZ), ELF_T_BYTE),
	};
	return start && ret->symbols && ret->names;
}

/* Unpacks the ELF image in .gnu_debugdata. The buffer grows with the bytes that come out, because
 * the sizes in the data may be false. *ret_elf stays NULL if the section is missing or broken. Else
 * the caller calls elf_end(*ret_elf), and then frees *ret_bytes. 0; -ENOEXEC: the image has more
 * than SYMTAB_MAX_UNPACKED bytes; -ENOMEM. */
static int open_debugdata(const struct elf_headers *headers, Elf *elf, unsigned char **ret_bytes,
			  Elf **ret_elf)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	_cleanup_(lzma_end) lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret ret = LZMA_OK;
	Elf64_Shdr shdr;
	Elf_Data *packed;
	size_t room = 0;

	if (!elf_headers__find_section(headers, ".gnu_debugdata", 0, &shdr))
		return 0;
	packed = elf_getdata_rawchunk(elf, (int64_t)shdr.sh_offset, shdr.sh_size, ELF_T_BYTE);
	if (!packed)
		return 0;
	if (lzma_auto_decoder(&stream, MAX_DECODER_BYTES, 0) != LZMA_OK)
		return -ENOMEM;
	stream.next_in = packed->d_buf;
	stream.avail_in = packed->d_size;
	while (ret == LZMA_OK && stream.total_out <= SYMTAB_MAX_UNPACKED) {
		if (VECTOR_RESERVE(bytes, room, stream.total_out + UNPACK_BYTES))
			return -ENOMEM;
		stream.next_out = bytes + stream.total_out;
		stream.avail_out = (room <= SYMTAB_MAX_UNPACKED ? room : SYMTAB_MAX_UNPACKED + 1) -
				   stream.total_out;
		ret = lzma_code(&stream, LZMA_FINISH);
	}
	if (stream.total_out > SYMTAB_MAX_UNPACKED)
		return -ENOEXEC;
	if (ret != LZMA_STREAM_END)
		return 0;
	*ret_elf = elf_memory((char *)bytes, stream.total_out);
	*ret_bytes = bytes;
	bytes = NULL;
	return 0;
}

/* --- collecting symbols --- */

/* Returns the highest address at which a symbol at vaddr can end: the end of its section, or else
 * of its segment. 0: vaddr lies in neither. */
static uint64_t symbol_limit(const struct content *content, Elf *elf, size_t section,
			     uint64_t vaddr)
{
	GElf_Shdr shdr;

	if (gelf_getshdr(elf_getscn(elf, section), &shdr) && (shdr.sh_flags & SHF_ALLOC) &&
	    vaddr - shdr.sh_addr < shdr.sh_size)
		return shdr.sh_addr + shdr.sh_size;
	for (size_t i = 0; i < content->n_loads; i++)
		if (vaddr - content->loads[i].p_vaddr < content->loads[i].p_memsz)
			return content->loads[i].p_vaddr + content->loads[i].p_memsz;
	return 0;
}

static bool is_wanted(enum symtab_kind kind, unsigned int type)
{
	switch (kind) {
	case SYMTAB_VARIABLES:
		return type == STT_OBJECT;
	case SYMTAB_THREAD_LOCAL:
		return type == STT_TLS;
	default:
		return type == STT_FUNC || type == STT_GNU_IFUNC;
	}
}

/* Adds a symbol if it is of the kind that is wanted and has a name. index: the symbol's entry in
 * table->indexes. */
static int add_symbol(const struct content *content, struct raws *raws, const struct table *table,
		      const GElf_Sym *sym, GElf_Word index)
{
	unsigned int type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
	/* The value of a thread-local variable is its offset in PT_TLS (ELF gABI, "Symbol Table").
	 */
	uint64_t vaddr = sym->st_value + (type == STT_TLS ? content->tls : 0), limit;
	const char *name;
	struct raw *raw;
	size_t len;

	if (!is_wanted(content->kind, type) || sym->st_shndx == SHN_UNDEF ||
	    sym->st_name >= table->names->d_size || raws->n == SYMTAB_MAX_SYMBOLS)
		return 0;
	name = (const char *)table->names->d_buf + sym->st_name;
	len = table->names->d_size - sym->st_name;
	len = strnlen(name, len < NAME_MAX_BYTES ? len : NAME_MAX_BYTES);
	if (sym->st_shndx != SHN_XINDEX)
		index = sym->st_shndx < SHN_LORESERVE ? sym->st_shndx : SHN_UNDEF;
	limit = symbol_limit(content, table->elf, index, vaddr);
	/* A name may be the tail of a longer name, which is made printable as a whole. A tail that
	 * begins within a character would then not become printable, so its symbol is left out. */
	if (!len || limit <= vaddr || begins_within_sequence(name))
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

static int collect(const struct content *content, struct raws *raws, const struct table *table)
{
	GElf_Word index;
	GElf_Sym sym;
	int err = 0;

	for (int i = 1; !err && i < SYMTAB_MAX_SYMBOLS &&
			gelf_getsymshndx(table->symbols, table->indexes, i, &sym, &index);
	     i++)
		err = add_symbol(content, raws, table, &sym, index);
	return err;
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
	/* Cuts off versions ("memcpy@@GLIBC_2.14"): they say nothing about the function. */
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

/* Orders symbols by address, ascending. Of several symbols at one address, the one with the best
 * name comes first. */
static int by_start(const void *a, const void *b)
{
	const struct raw *x = a, *y = b;
	int order;

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
	order = x->name == y->name ? 0 : strcmp(x->name, y->name);
	if (order)
		return order;
	/* Both symbols have the same name, from two tables. The symbol that claims fewer addresses
	 * is more likely to be right. */
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return (x->limit > y->limit) - (x->limit < y->limit);
}

static void add_range(struct content *content, uint64_t start, uint64_t end, const struct raw *raw)
{
	if (start < end)
		content->ranges[content->n_ranges++] = (struct symtab_range){
			start, end, raw->start, (uint64_t)(raw->name - content->names)};
}

/* Functions may nest and overlap; ranges may not. The loop sweeps over the starts, and keeps on a
 * stack the functions that are still open. Each stretch of addresses goes to the open function that
 * began last. The start and the end of a function each add at most one range, so there are at most
 * two ranges for each function. */
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

/* Reads .symtab, or else the debug file's .symtab, or else the one in .gnu_debugdata. Then adds
 * .dynsym, because a .symtab may have few symbols. Builds the table from all of them. debug: NULL
 * for none. 0, -ENOEXEC or -ENOMEM. */
static int read_symbols(struct content *content, const struct elf_headers *headers, Elf *elf,
			Elf *debug)
{
	_cleanup_(cleanup_raws) struct raws raws = {0};
	_cleanup_free_ unsigned char *unpacked = NULL;
	_cleanup_(cleanup_elf) Elf *mini = NULL;
	struct table table;
	bool found;
	int err = 0;

	found = find_table(elf, SHT_SYMTAB, &table) || find_table(debug, SHT_SYMTAB, &table);
	if (!found) {
		err = open_debugdata(headers, elf, &unpacked, &mini);
		found = find_table(mini, SHT_SYMTAB, &table);
	}
	if (found)
		err = collect(content, &raws, &table);
	if (!err && (find_table(elf, SHT_DYNSYM, &table) || find_dynamic(content, elf, &table)))
		err = collect(content, &raws, &table);
	if (err || !raws.n)
		return err;
	err = copy_names(content, &raws);
	return err ? err : build_ranges(content, &raws);
}

static int read_files(struct content *content, int fd, int debug_fd)
{
	_cleanup_(cleanup_elf) Elf *elf = NULL, *debug = NULL;
	struct elf_headers headers;

	if (elf_headers__read(fd, "", &headers, NULL))
		return -ENOEXEC;
	read_segments(content, &headers);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (debug_fd >= 0)
		debug = elf_begin(debug_fd, ELF_C_READ_MMAP, NULL);
	return elf ? read_symbols(content, &headers, elf, debug) : -ENOEXEC;
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

	err = read_files(&content, own_fd, own_debug_fd);
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
