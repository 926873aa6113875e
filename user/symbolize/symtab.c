// SPDX-License-Identifier: BSD-2-Clause
/* libdwfl finds the tables (the file's own, the separate debug file's, .gnu_debugdata); they are
 * copied out once into disjoint ranges of addresses, each with the name of its innermost function,
 * and libdwfl is closed again: a look-up is one binary search, and no descriptor or mapping of the
 * target's files stays behind.
 *
 * What the file says bounds nothing. Symbols are bounded by the size of the files they stand in,
 * names by that of the string tables (equal tails are stored once, as there). */
#include "symbolize/symtab.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <lzma.h>

#include "base/cleanup.h"
#include "symbolize/clean.h"

#define DEBUG_ROOT	 "/usr/lib/debug"
#define MAX_LOADS	 256	      /* PT_LOADs; real files have a dozen */
#define MAX_BUILD_ID	 64	      /* bytes; real ones have 20 */
#define MAX_DEBUGDATA	 (128u << 20) /* bytes of .gnu_debugdata, unpacked (1 s) */
#define MIN_SYMBOL_BYTES 16	      /* sizeof(Elf32_Sym), the smaller one */
#define MAX_SYMBOLS	 10000000     /* per table; chromium has some 3 million */

struct load {
	uint64_t off, vaddr, filesz, memsz;
};

/* A symbol while it is collected. */
struct raw {
	uint64_t start;
	uint64_t end;	    /* 0: no size given */
	uint64_t limit;	    /* end of its section */
	const char *source; /* in libdwfl's memory, source_len bytes before its NUL or the limit */
	size_t source_len;
	const char *name; /* the copy, once there is one */
	size_t name_len;
	unsigned int bind_rank; /* 0 global, 1 weak, 2 local */
};

struct raws {
	struct raw *items;
	size_t n, room;
};

struct range {
	uint64_t start, end; /* virtual addresses, end exclusive */
	uint64_t function;   /* where its function starts */
	const char *name;
};

struct symtab {
	struct range *ranges; /* ascending, disjoint */
	size_t n_ranges;
	char *names; /* all of them, each ended by a NUL */
	size_t names_size;
	struct load *loads;
	size_t n_loads;
	char *build_id;
};

DEFINE_CLEANUP(struct symtab *, cleanup_symtab, symtab__free)
DEFINE_CLEANUP(Dwfl *, cleanup_dwfl, dwfl_end)

static void cleanup_raws(struct raws *raws)
{
	free(raws->items);
}

/* --- libdwfl's callbacks --- */

/* A descriptor, or -1 for none. What the file's own words lead to was found before, with more care
 * than libdwfl takes (elf/debug_file.h). */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
			  const char *path, const char *link, GElf_Word crc, char **debug_path)
{
	int *debug_fd = *userdata, fd;
	const char *urls;

	(void)link, (void)crc;
	if (*debug_fd >= 0) {
		*debug_path = strdup(path);
		return fcntl(*debug_fd, F_DUPFD_CLOEXEC, 0);
	}
	urls = getenv("DEBUGINFOD_URLS"); /* asking a server is the user's decision */
	if (!urls || !*urls)
		return -1;
	fd = dwfl_standard_find_debuginfo(mod, userdata, modname, base, path, NULL, 0, debug_path);
	if (fd >= 0)
		*debug_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd;
}

/* Never needed: the module is reported with its file. */
static int find_no_elf(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
		       char **path, Elf **elf)
{
	(void)mod, (void)userdata, (void)modname, (void)base, (void)path, (void)elf;
	return -1;
}

/* --- reading the file itself --- */

/* 64-bit little-endian x86-64 programs and libraries only; also keeps what libdwfl would try to
 * unpack (gzip, bzip2, xz images) away from it. */
static int check_header(int fd)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != EM_X86_64 || (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return -ENOEXEC;
	return 0;
}

static int read_loads(struct symtab *tab, Elf *elf)
{
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return -ENOEXEC;
	if (n > INT_MAX)
		n = INT_MAX;
	tab->loads = calloc(MAX_LOADS, sizeof(*tab->loads));
	if (!tab->loads)
		return -ENOMEM;
	for (size_t i = 0; i < n && tab->n_loads < MAX_LOADS; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		if (phdr.p_vaddr + phdr.p_memsz < phdr.p_vaddr ||
		    phdr.p_offset + phdr.p_filesz < phdr.p_offset)
			continue;
		tab->loads[tab->n_loads++] =
			(struct load){phdr.p_offset, phdr.p_vaddr, phdr.p_filesz, phdr.p_memsz};
	}
	return 0;
}

static int read_build_id(struct symtab *tab, Elf *elf)
{
	const unsigned char *id;
	ssize_t len = dwelf_elf_gnu_build_id(elf, (const void **)&id);

	if (len <= 0 || len > MAX_BUILD_ID)
		return 0;
	tab->build_id = malloc(2 * (size_t)len + 1);
	if (!tab->build_id)
		return -ENOMEM;
	for (ssize_t i = 0; i < len; i++)
		snprintf(tab->build_id + 2 * i, 3, "%02x", id[i]);
	return 0;
}

/* Does this unpack to something libdwfl can be let near? It unpacks all there is into memory, and
 * the sizes in the data's own index are as hostile as the rest: count them. */
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
	} while (ret == LZMA_OK && stream.total_out <= MAX_DEBUGDATA);
	lzma_end(&stream);
	return stream.total_out <= MAX_DEBUGDATA;
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

/* The end of what a symbol at vaddr can cover: that of its section, or else of its segment. 0 when
 * it lies in neither. bias: what must be added to the section's address to make it one of ours. */
static uint64_t symbol_limit(const struct symtab *tab, Elf *elf, size_t shndx, uint64_t bias,
			     uint64_t vaddr)
{
	Elf_Scn *scn = shndx && shndx < SHN_LORESERVE ? elf_getscn(elf, shndx) : NULL;
	GElf_Shdr shdr;

	if (scn && gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_ALLOC) &&
	    vaddr - (shdr.sh_addr + bias) < shdr.sh_size)
		return shdr.sh_addr + bias + shdr.sh_size;
	for (size_t i = 0; i < tab->n_loads; i++)
		if (vaddr - tab->loads[i].vaddr < tab->loads[i].memsz)
			return tab->loads[i].vaddr + tab->loads[i].memsz;
	return 0;
}

/* Adds a symbol if it is a function with a name. name lies in elf's image: where that ends the name
 * ends too, whether or not there is a NUL, which libdwfl does not check. */
static int collect(const struct symtab *tab, struct raws *raws, Elf *elf, const GElf_Sym *sym,
		   size_t shndx, uint64_t vaddr, uint64_t bias, const char *name)
{
	unsigned int type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
	uint64_t limit;
	struct raw *raw;
	size_t size, len;
	const char *image;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF || !name)
		return 0;
	image = elf_rawfile(elf, &size);
	if (!image || name < image || name >= image + size)
		return 0;
	size -= (size_t)(name - image);
	len = strnlen(name, size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES);
	limit = symbol_limit(tab, elf, shndx, bias, vaddr);
	if (!len || limit <= vaddr)
		return 0;

	if (raws->n == raws->room) {
		size_t room = raws->room ? 2 * raws->room : 1024;
		struct raw *items = reallocarray(raws->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		raws->items = items;
		raws->room = room;
	}
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

/* What libdwfl found: .symtab of the file or of its debug file, else .dynsym, and .gnu_debugdata.
 */
static int collect_found(const struct symtab *tab, struct raws *raws, Dwfl_Module *mod, Elf *own)
{
	Elf *seen[4] = {own};
	size_t n_seen = 1, bytes = 0;
	int n = dwfl_module_getsymtab(mod);

	elf_rawfile(own, &bytes);
	/* n may be anything: no more symbols are tried than the files seen so far have room for. */
	if (n > MAX_SYMBOLS)
		n = MAX_SYMBOLS;
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
		err = collect(tab, raws, elf, &sym, shndx, vaddr, bias, name);
		if (err)
			return err;
	}
	return 0;
}

/* The file's .dynsym, which libdwfl leaves out when there is a .symtab, however poor. */
static int collect_dynamic(const struct symtab *tab, struct raws *raws, Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNSYM)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 1;
		     data && i < MAX_SYMBOLS && (size_t)i < data->d_size / sizeof(Elf64_Sym); i++) {
			GElf_Sym sym;
			int err;

			if (!gelf_getsym(data, i, &sym))
				break;
			err = collect(tab, raws, elf, &sym, sym.st_shndx, sym.st_value, 0,
				      elf_strptr(elf, shdr.sh_link, sym.st_name));
			if (err)
				return err;
		}
		return 0; /* there is one; a thousand sections could claim the same bytes */
	}
	return 0;
}

/* --- copying names --- */

static int by_source(const void *a, const void *b)
{
	const struct raw *x = a, *y = b;

	return (x->source > y->source) - (x->source < y->source);
}

/* Lays the names out in tab->names, once for all that share a tail in the string table. */
static int copy_names(struct symtab *tab, struct raws *raws)
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
	at = tab->names = malloc(total);
	tab->names_size = total;
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
	for (char *p = tab->names; p < at; p += strlen(p) + 1) {
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
	/* before weak or global: "calloc" is weak in glibc, "__libc_calloc" is not */
	if ((x->name[0] == '_') != (y->name[0] == '_'))
		return x->name[0] == '_' ? 1 : -1;
	if (x->bind_rank != y->bind_rank)
		return x->bind_rank < y->bind_rank ? -1 : 1;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	return x->name == y->name ? 0 : strcmp(x->name, y->name);
}

static void add_range(struct symtab *tab, uint64_t start, uint64_t end, const struct raw *raw)
{
	if (start < end)
		tab->ranges[tab->n_ranges++] = (struct range){start, end, raw->start, raw->name};
}

/* Functions may nest and overlap; the ranges may not. A sweep over the starts, with those that are
 * still open on a stack: each stretch of addresses goes to the one that began last. Every function
 * makes at most two ranges: one that ends where the next begins, one after those that nest in it
 * have ended. */
static int build_ranges(struct symtab *tab, struct raws *raws)
{
	_cleanup_free_ const struct raw **open = NULL;
	size_t n_open = 0, n = 0;
	struct range *ranges;
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
	tab->ranges = calloc(2 * n, sizeof(*tab->ranges));
	open = calloc(n, sizeof(*open));
	if (!tab->ranges || !open)
		return -ENOMEM;
	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? raws->items[i].start : UINT64_MAX;

		while (n_open && open[n_open - 1]->end <= next) {
			const struct raw *top = open[--n_open];

			add_range(tab, at, top->end, top);
			if (top->end > at)
				at = top->end;
		}
		if (n_open)
			add_range(tab, at, next, open[n_open - 1]);
		at = next;
		if (i < n)
			open[n_open++] = &raws->items[i];
	}
	/* most functions make one */
	ranges = reallocarray(tab->ranges, tab->n_ranges, sizeof(*ranges));
	if (ranges)
		tab->ranges = ranges;
	return 0;
}

/* --- the interface --- */

static int read_symbols(struct symtab *tab, Dwfl_Module *mod, Elf *elf)
{
	_cleanup_(cleanup_raws) struct raws raws = {0};
	int err;

	if (!debugdata_is_sound(elf))
		return -ENOEXEC;
	err = collect_found(tab, &raws, mod, elf);
	if (!err)
		err = collect_dynamic(tab, &raws, elf);
	if (err || !raws.n)
		return err;
	err = copy_names(tab, &raws);
	return err ? err : build_ranges(tab, &raws);
}

static int open_table(int fd, int *debug_fd, const char *path, struct symtab **ret_symtab)
{
	static char debug_root[] = DEBUG_ROOT, *debug_path = debug_root;
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_no_elf,
		.find_debuginfo = find_debuginfo,
		.debuginfo_path = &debug_path,
	};
	_cleanup_(cleanup_symtab) struct symtab *tab = NULL;
	_cleanup_(cleanup_dwfl) Dwfl *dwfl = NULL;
	_cleanup_close_ int own_fd = -1;
	Dwfl_Module *mod;
	GElf_Addr bias;
	void **userdata;
	Elf *elf;
	int err;

	err = check_header(fd);
	if (err)
		return err;
	own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own_fd < 0)
		return -errno;
	tab = calloc(1, sizeof(*tab));
	dwfl = dwfl_begin(&callbacks);
	if (!tab || !dwfl)
		return -ENOMEM;

	dwfl_report_begin(dwfl);
	mod = dwfl_report_elf(dwfl, path, path, own_fd, 0, true);
	if (!mod)
		return -ENOEXEC;
	take_fd(&own_fd); /* libdwfl's now */
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = debug_fd;
	elf = dwfl_module_getelf(mod, &bias);
	if (!elf || bias || dwfl_report_end(dwfl, NULL, NULL))
		return -ENOEXEC;
	err = read_loads(tab, elf);
	if (!err)
		err = read_build_id(tab, elf);
	if (!err)
		err = read_symbols(tab, mod, elf);
	if (err)
		return err;
	*ret_symtab = tab;
	tab = NULL;
	return 0;
}

/* libdwfl maps files, and a file that its owner cuts short meanwhile has pages no more: SIGBUS. */
static sigjmp_buf cut_short;

static void on_bus(int sig)
{
	(void)sig;
	siglongjmp(cut_short, 1);
}

int symtab__open(int fd, int *debug_fd, const char *path, struct symtab **ret_symtab)
{
	struct sigaction action = {.sa_handler = on_bus}, old;
	int err;

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, &old))
		return -errno;
	/* What libdwfl had open at that moment stays open: there is no telling what state it is in.
	 */
	if (sigsetjmp(cut_short, 1))
		err = -ENOEXEC;
	else
		err = open_table(fd, debug_fd, path, ret_symtab);
	sigaction(SIGBUS, &old, NULL);
	return err;
}

void symtab__free(struct symtab *symtab)
{
	if (!symtab)
		return;
	free(symtab->ranges);
	free(symtab->names);
	free(symtab->loads);
	free(symtab->build_id);
	free(symtab);
}

const char *symtab__find(const struct symtab *symtab, uint64_t vaddr, uint64_t *ret_start)
{
	size_t low = 0, high = symtab->n_ranges; /* the first range that ends after vaddr */

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (symtab->ranges[mid].end <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == symtab->n_ranges || symtab->ranges[low].start > vaddr)
		return NULL;
	if (ret_start)
		*ret_start = symtab->ranges[low].function;
	return symtab->ranges[low].name;
}

bool symtab__empty(const struct symtab *symtab)
{
	return !symtab->n_ranges;
}

int symtab__off_to_vaddr(const struct symtab *symtab, uint64_t off, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < symtab->n_loads; i++) {
		const struct load *load = &symtab->loads[i];

		if (off - load->off < load->filesz) {
			*ret_vaddr = load->vaddr + (off - load->off);
			return 0;
		}
	}
	return -ERANGE;
}

const char *symtab__build_id(const struct symtab *symtab)
{
	return symtab->build_id;
}

size_t symtab__bytes(const struct symtab *symtab)
{
	return sizeof(*symtab) + symtab->n_ranges * sizeof(*symtab->ranges) + symtab->names_size;
}
