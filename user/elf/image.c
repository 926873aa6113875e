// SPDX-License-Identifier: BSD-2-Clause
/* Reading an ELF file that its owner may be rewriting to hurt us.
 *
 * Nothing is mapped. A page of a mapping whose file has been cut short since raises SIGBUS, and the
 * target can cut its file whenever it likes; a read() only comes back short. So libelf gets
 * ELF_C_READ (pread), never ELF_C_READ_MMAP, and the big things (code, symbol tables) are read here
 * with pread into buffers whose sizes were compared with the file's size and a limit first.
 *
 * libelf allocates and touches memory for as many sections as the header claims, up to 2^32 of
 * them; check_header() looks at that claim before libelf does. (A target that swaps the header
 * between the two can still make us use memory, nothing worse.)
 *
 * Where a table lies about itself, the part that is sound is used and the rest left out: symbols
 * whose name begins outside the string table, string tables without a final NUL, segments that
 * reach beyond the file. */
#include "elf/image.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MAX_SECTIONS	(1u << 20)
#define MAX_TABLE_BYTES (512ull << 20) /* of one symbol or string table */
#define MAX_NOTE_BYTES	(64u << 10)
#define MAX_DYNAMIC	(64u << 10)  /* bytes of PT_DYNAMIC */
#define MAX_SCAN_BYTES	(1ull << 30) /* of code searched for callers */
#define PAGE		4096ull	     /* of x86-64 */
#define SCAN_CHUNK	(256u << 10)
#define MAX_EH_FRAME	(128u << 20)
#define MAX_COPY_BYTES	(256u << 20) /* of any other section */
#define MAX_RELOCATION_BYTES (16u << 20) /* searched, for one slot after the other */
#define MAX_NAMES_BYTES (16u << 20) /* of the string table that names sections */
#define VERSION_HIDDEN	0x8000	    /* .gnu.version: not the default version of this name */

struct segment {
	uint64_t vaddr, off, size; /* size: bytes that are in the file */
	bool executable;
};

struct table {
	Elf64_Sym *symbols;
	size_t n;
	char *strings;
	size_t strings_size;  /* up to and including the last NUL */
	Elf64_Half *versions; /* one for each symbol, or NULL */
	uint8_t *cut_hidden;  /* bit i: a hidden version was cut off at strings[i]; or NULL */
};

struct elf_image {
	int fd;
	uint64_t file_size;
	uint64_t entry;
	struct segment *segments;
	size_t n_segments;
	bool has_dynamic, has_interp;
	uint64_t eh_frame_hdr; /* vaddr of PT_GNU_EH_FRAME, 0: none */
	char *soname;
	char *build_id;
	struct table dynsym, symtab;
	struct relocations {
		unsigned char *bytes;
		size_t size;
		bool read; /* or tried to */
	} relocations[2]; /* of the PLT, and others */
};

DEFINE_CLEANUP(Elf *, cleanup_elf_end, elf_end)

static bool in_file(const struct elf_image *image, uint64_t off, uint64_t size)
{
	return off <= image->file_size && size <= image->file_size - off;
}

/* A copy of size bytes at off in the file with one NUL more behind it, or NULL. */
static void *read_range(const struct elf_image *image, uint64_t off, uint64_t size)
{
	_cleanup_free_ char *buf = NULL;

	if (size == 0 || size > MAX_TABLE_BYTES || !in_file(image, off, size))
		return NULL;
	buf = malloc(size + 1);
	if (!buf || io__pread(image->fd, buf, size, off) != (ssize_t)size)
		return NULL;
	buf[size] = '\0';
	return_ptr(buf);
}

static int check_header(struct elf_image *image, const char *name, struct error *err)
{
	uint64_t n_sections;
	Elf64_Shdr first;
	Elf64_Ehdr ehdr;
	ssize_t n;

	n = io__pread(image->fd, &ehdr, sizeof(ehdr), 0);
	if (n < 0)
		return error__set(err, -EIO, "cannot read %s: %s", name, strerror(-n));
	if (n < SELFMAG || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return error__set(err, -ENOEXEC, "%s is not an ELF file", name);
	if (n < (ssize_t)sizeof(ehdr))
		return error__set(err, -ENOEXEC, "%s is cut short inside its ELF header", name);
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_machine != EM_X86_64)
		return error__set(err, -ENOEXEC, "%s is not a 64-bit x86-64 ELF file", name);
	image->entry = ehdr.e_entry;
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN)
		return error__set(err, -ENOEXEC,
				  "%s is an ELF file of type %u, neither program nor library", name,
				  ehdr.e_type);

	n_sections = ehdr.e_shnum;
	if (ehdr.e_shoff && n_sections == 0 && in_file(image, ehdr.e_shoff, sizeof(first)) &&
	    io__pread(image->fd, &first, sizeof(first), ehdr.e_shoff) == sizeof(first))
		n_sections = first.sh_size;
	if (n_sections > MAX_SECTIONS)
		return error__set(err, -ENOEXEC, "%s claims to have %llu sections", name,
				  (unsigned long long)n_sections);
	return 0;
}

static int add_segment(struct elf_image *image, const GElf_Phdr *phdr)
{
	struct segment segment = {
		.vaddr = phdr->p_vaddr,
		.off = phdr->p_offset,
		.size = phdr->p_filesz,
		.executable = phdr->p_flags & PF_X,
	};
	struct segment *bigger;

	if (segment.off >= image->file_size)
		return 0;
	if (segment.size > image->file_size - segment.off)
		segment.size = image->file_size - segment.off;
	if (segment.size == 0 || segment.vaddr + segment.size < segment.vaddr)
		return 0;
	bigger = reallocarray(image->segments, image->n_segments + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	image->segments = bigger;
	image->segments[image->n_segments++] = segment;
	return 0;
}

static void read_build_id(struct elf_image *image, Elf *elf, const GElf_Phdr *phdr)
{
	size_t pos = 0, name_off, desc_off;
	GElf_Nhdr note;
	Elf_Data *data;

	if (image->build_id || phdr->p_filesz > MAX_NOTE_BYTES ||
	    !in_file(image, phdr->p_offset, phdr->p_filesz))
		return;
	data = elf_getdata_rawchunk(elf, phdr->p_offset, phdr->p_filesz,
				    phdr->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	if (!data || !data->d_buf)
		return;
	while ((pos = gelf_getnote(data, pos, &note, &name_off, &desc_off)) > 0) {
		const unsigned char *desc = (unsigned char *)data->d_buf + desc_off;

		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
		    memcmp((char *)data->d_buf + name_off, "GNU", sizeof("GNU")) != 0 ||
		    note.n_descsz == 0 || note.n_descsz > 64)
			continue;
		image->build_id = malloc(2 * note.n_descsz + 1);
		if (!image->build_id)
			return;
		for (size_t i = 0; i < note.n_descsz; i++)
			sprintf(image->build_id + 2 * i, "%02x", desc[i]);
		return;
	}
}

static void read_soname(struct elf_image *image, Elf *elf, const GElf_Phdr *phdr)
{
	uint64_t strtab = 0, soname = 0, off;
	bool has_strtab = false, has_soname = false;
	char name[256];
	Elf_Data *data;
	GElf_Dyn dyn;
	ssize_t n;

	if (phdr->p_filesz > MAX_DYNAMIC || !in_file(image, phdr->p_offset, phdr->p_filesz))
		return;
	data = elf_getdata_rawchunk(elf, phdr->p_offset, phdr->p_filesz, ELF_T_DYN);
	if (!data)
		return;
	for (int i = 0; gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == DT_STRTAB) {
			strtab = dyn.d_un.d_ptr;
			has_strtab = true;
		} else if (dyn.d_tag == DT_SONAME) {
			soname = dyn.d_un.d_val;
			has_soname = true;
		}
	}
	if (!has_strtab || !has_soname || elf_image__vaddr_to_off(image, strtab + soname, &off))
		return;
	n = io__pread(image->fd, name, sizeof(name), off);
	if (n > 1 && name[0] && memchr(name, '\0', n))
		image->soname = strdup(name);
}

static int read_segments(struct elf_image *image, Elf *elf)
{
	GElf_Phdr phdr;
	size_t n;

	/* PN_XNUM and more: no linker makes them, and libelf would read them all. */
	if (elf_getphdrnum(elf, &n) != 0 || n >= PN_XNUM)
		return -ENOEXEC;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, i, &phdr))
			return -ENOEXEC;
		switch (phdr.p_type) {
		case PT_LOAD:
			if (add_segment(image, &phdr))
				return -ENOMEM;
			break;
		case PT_DYNAMIC:
			image->has_dynamic = true;
			break;
		case PT_INTERP:
			image->has_interp = true;
			break;
		case PT_GNU_EH_FRAME:
			image->eh_frame_hdr = phdr.p_vaddr;
			break;
		}
	}
	/* These need the PT_LOADs. */
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, i, &phdr))
			break;
		if (phdr.p_type == PT_NOTE)
			read_build_id(image, elf, &phdr);
		else if (phdr.p_type == PT_DYNAMIC && !image->soname)
			read_soname(image, elf, &phdr);
	}
	return 0;
}

/* The names of .symtab may carry their version, "memalign@GLIBC_2.2.5" (hidden) or
 * "malloc@@GLIBC_2.2.5" (default), where .dynsym has .gnu.version. Cuts it off and remembers where
 * it was a hidden one. One pass over the strings, not one for each symbol: all symbols may name the
 * same endless string. */
static int cut_versions(struct table *table)
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

static void free_table(struct table *table)
{
	free(table->symbols);
	free(table->strings);
	free(table->versions);
	free(table->cut_hidden);
	*table = (struct table){0};
}

/* Reads the symbol table in section scn and its string table; *table stays empty when they are not
 * sound. 0 or -ENOMEM. */
static int read_table(const struct elf_image *image, Elf *elf, const GElf_Shdr *shdr,
		      struct table *table)
{
	Elf_Scn *string_scn = elf_getscn(elf, shdr->sh_link);
	GElf_Shdr strings;
	int err = 0;

	if (shdr->sh_entsize != sizeof(Elf64_Sym) || !string_scn ||
	    !gelf_getshdr(string_scn, &strings) || strings.sh_type != SHT_STRTAB)
		return 0;
	table->symbols = read_range(image, shdr->sh_offset, shdr->sh_size);
	table->strings = read_range(image, strings.sh_offset, strings.sh_size);
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

static int read_symbols(struct elf_image *image, Elf *elf)
{
	GElf_Shdr versions = {0};
	Elf_Scn *scn = NULL;
	int err = 0;

	while (!err && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;

		if (!gelf_getshdr(scn, &shdr))
			continue;
		if (shdr.sh_type == SHT_DYNSYM && !image->dynsym.symbols)
			err = read_table(image, elf, &shdr, &image->dynsym);
		else if (shdr.sh_type == SHT_SYMTAB && !image->symtab.symbols)
			err = read_table(image, elf, &shdr, &image->symtab);
		else if (shdr.sh_type == SHT_GNU_versym)
			versions = shdr;
	}
	if (!err && image->dynsym.n && versions.sh_size / sizeof(Elf64_Half) >= image->dynsym.n)
		image->dynsym.versions = read_range(image, versions.sh_offset, versions.sh_size);
	return err;
}

static int open_image(int fd, const char *name, bool with_symbols, struct elf_image **ret_image,
		      struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_(cleanup_elf_end) Elf *elf = NULL;
	struct stat st;
	int ret;

	if (fstat(fd, &st) < 0)
		return error__set(err, -EIO, "cannot stat %s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error__set(err, -ENOEXEC, "%s is not a regular file", name);

	image = calloc(1, sizeof(*image));
	if (!image)
		return error__set(err, -ENOMEM, "out of memory reading %s", name);
	image->file_size = st.st_size;
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (image->fd < 0)
		return error__set(err, -EIO, "cannot duplicate the descriptor of %s: %s", name,
				  strerror(errno));
	ret = check_header(image, name, err);
	if (ret)
		return ret;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return error__set(err, -ENOEXEC, "libelf is older than its header");
	elf = elf_begin(image->fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return error__set(err, -ENOEXEC, "cannot read %s: %s", name, elf_errmsg(-1));

	ret = read_segments(image, elf);
	if (!ret && image->n_segments == 0)
		ret = -ENOEXEC;
	if (!ret && with_symbols)
		ret = read_symbols(image, elf);
	if (ret == -ENOMEM)
		return error__set(err, ret, "out of memory reading %s", name);
	if (ret)
		return error__set(err, ret, "%s has no sound program headers", name);

	*ret_image = image;
	image = NULL;
	return 0;
}

int elf_image__open(int fd, const char *name, struct elf_image **ret_image, struct error *err)
{
	return open_image(fd, name, true, ret_image, err);
}

int elf_image__open_code(int fd, const char *name, struct elf_image **ret_image, struct error *err)
{
	return open_image(fd, name, false, ret_image, err);
}

void elf_image__close_file(struct elf_image *image)
{
	if (image->fd >= 0)
		close(image->fd);
	image->fd = -1;
}

void elf_image__free(struct elf_image *image)
{
	if (!image)
		return;
	if (image->fd >= 0)
		close(image->fd);
	free_table(&image->dynsym);
	free_table(&image->symtab);
	free(image->relocations[0].bytes);
	free(image->relocations[1].bytes);
	free(image->segments);
	free(image->soname);
	free(image->build_id);
	free(image);
}

bool elf_image__is_dynamic(const struct elf_image *image)
{
	return image->has_dynamic || image->has_interp;
}

bool elf_image__has_interp(const struct elf_image *image)
{
	return image->has_interp;
}

const char *elf_image__soname(const struct elf_image *image)
{
	return image->soname;
}

const char *elf_image__build_id(const struct elf_image *image)
{
	return image->build_id;
}

static const struct segment *segment_of_vaddr(const struct elf_image *image, uint64_t vaddr,
					      bool executable)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->size &&
		    (segment->executable || !executable))
			return segment;
	}
	return NULL;
}

int elf_image__off_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (off >= segment->off && off - segment->off < segment->size) {
			*ret_vaddr = segment->vaddr + (off - segment->off);
			return 0;
		}
	}
	return -ERANGE;
}

int elf_image__mapping_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];
		uint64_t first = segment->off & ~(PAGE - 1);

		if (!segment->executable || off < first || off - first >= segment->size + (segment->off - first))
			continue;
		/* of two that share the page: the one whose own mapping begins with it */
		if (!found || off == first)
			found = segment;
	}
	if (!found) /* where everything is executable (personality READ_IMPLIES_EXEC) one mapping has several segments */
		return elf_image__off_to_vaddr(image, off, ret_vaddr);
	*ret_vaddr = found->vaddr + (off - found->off);
	return 0;
}

int elf_image__vaddr_to_off(const struct elf_image *image, uint64_t vaddr, uint64_t *ret_off)
{
	const struct segment *segment = segment_of_vaddr(image, vaddr, false);

	if (!segment)
		return -ERANGE;
	*ret_off = segment->off + (vaddr - segment->vaddr);
	return 0;
}

long elf_image__read_code(const struct elf_image *image, uint64_t vaddr, void *buf, size_t len)
{
	const struct segment *segment = segment_of_vaddr(image, vaddr, true);
	uint64_t skip;

	if (!segment)
		return -ERANGE;
	skip = vaddr - segment->vaddr;
	if (len > segment->size - skip)
		len = segment->size - skip;
	return io__pread(image->fd, buf, len, segment->off + skip);
}

uint64_t elf_image__entry(const struct elf_image *image)
{
	return image->entry;
}

int elf_image__code_span(const struct elf_image *image, uint64_t *ret_start, uint64_t *ret_end)
{
	bool found = false;

	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (!segment->executable)
			continue;
		if (!found || segment->vaddr < *ret_start)
			*ret_start = segment->vaddr;
		if (!found || segment->vaddr + segment->size > *ret_end)
			*ret_end = segment->vaddr + segment->size;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

/* The first section of that name that is in the file and in the process. 0 or -ENOENT. */
static int find_section(const struct elf_image *image, const char *name, GElf_Shdr *ret_shdr)
{
	_cleanup_(cleanup_elf_end) Elf *elf = elf_begin(image->fd, ELF_C_READ, NULL);
	_cleanup_free_ char *names = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t index;

	/* Not elf_strptr(): it looks for a final NUL again for each name. */
	if (!elf || elf_getshdrstrndx(elf, &index) != 0 ||
	    !gelf_getshdr(elf_getscn(elf, index), &shdr) || shdr.sh_size > MAX_NAMES_BYTES)
		return -ENOENT;
	names = read_range(image, shdr.sh_offset, shdr.sh_size);
	if (!names)
		return -ENOENT;
	index = shdr.sh_size;
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, ret_shdr) || ret_shdr->sh_type == SHT_NOBITS ||
		    !(ret_shdr->sh_flags & SHF_ALLOC) || ret_shdr->sh_name >= index)
			continue;
		if (strcmp(names + ret_shdr->sh_name, name) == 0)
			return 0;
	}
	return -ENOENT;
}

/* .eh_frame_hdr begins with a version, three encodings and a pointer to .eh_frame, which all
 * linkers write pc-relative in 4 bytes. How long .eh_frame is it does not say: to the end of its
 * segment at most, the final zero ends it before. */
static int eh_frame_by_header(const struct elf_image *image, GElf_Shdr *ret_shdr)
{
	static const unsigned char expected[2] = {1, 0x1b};
	const struct segment *segment;
	unsigned char start[8];
	int32_t rel;
	uint64_t off;

	if (!image->eh_frame_hdr || elf_image__vaddr_to_off(image, image->eh_frame_hdr, &off) ||
	    io__pread(image->fd, start, sizeof(start), off) != sizeof(start) ||
	    memcmp(start, expected, sizeof(expected)) != 0)
		return -ENOENT;
	memcpy(&rel, start + 4, sizeof(rel));
	ret_shdr->sh_addr = image->eh_frame_hdr + 4 + rel;
	segment = segment_of_vaddr(image, ret_shdr->sh_addr, false);
	if (!segment)
		return -ENOENT;
	off = ret_shdr->sh_addr - segment->vaddr;
	ret_shdr->sh_offset = segment->off + off;
	ret_shdr->sh_size = segment->size - off;
	if (ret_shdr->sh_size > MAX_EH_FRAME)
		ret_shdr->sh_size = MAX_EH_FRAME;
	return 0;
}

static size_t up_to_terminator(const unsigned char *bytes, size_t size)
{
	size_t pos = 0;
	uint32_t len;

	while (size - pos >= sizeof(len)) {
		memcpy(&len, bytes + pos, sizeof(len));
		if (len == 0 || len > size - pos - sizeof(len))
			return pos;
		pos += sizeof(len) + len;
	}
	return pos;
}

int elf_image__read_eh_frame(const struct elf_image *image, unsigned char **ret_bytes,
			     size_t *ret_size, uint64_t *ret_vaddr)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	bool by_section = true;
	GElf_Shdr shdr;
	ssize_t n;

	if (find_section(image, ".eh_frame", &shdr) != 0) {
		by_section = false;
		if (eh_frame_by_header(image, &shdr) != 0)
			return -ENOENT;
	}
	if (shdr.sh_size == 0)
		return -ENOENT;
	if (shdr.sh_size > MAX_EH_FRAME || !in_file(image, shdr.sh_offset, shdr.sh_size))
		return -ENOEXEC;

	/* Exactly as large as it is, so that a sanitizer sees each step over its end. */
	bytes = malloc(shdr.sh_size);
	if (!bytes)
		return -ENOMEM;
	n = io__pread(image->fd, bytes, shdr.sh_size, shdr.sh_offset);
	if (n < 0)
		return -EIO;
	*ret_size = by_section ? (size_t)n : up_to_terminator(bytes, n);
	*ret_vaddr = shdr.sh_addr;
	*ret_bytes = bytes;
	bytes = NULL;
	return 0;
}

int elf_image__read_section(const struct elf_image *image, const char *name,
			    unsigned char **ret_bytes, size_t *ret_size, uint64_t *ret_vaddr)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	GElf_Shdr shdr;
	ssize_t n;

	if (find_section(image, name, &shdr) != 0)
		return -ENOENT;
	if (shdr.sh_size == 0 || shdr.sh_size > MAX_COPY_BYTES ||
	    !in_file(image, shdr.sh_offset, shdr.sh_size))
		return -ENOEXEC;
	bytes = malloc(shdr.sh_size); /* no larger than it is, as above */
	if (!bytes)
		return -ENOMEM;
	n = io__pread(image->fd, bytes, shdr.sh_size, shdr.sh_offset);
	if (n != (ssize_t)shdr.sh_size)
		return -EIO;
	*ret_bytes = bytes;
	*ret_size = shdr.sh_size;
	*ret_vaddr = shdr.sh_addr;
	bytes = NULL;
	return 0;
}

bool elf_image__is_go(const struct elf_image *image)
{
	GElf_Shdr shdr;

	return find_section(image, ".go.buildinfo", &shdr) == 0;
}

static bool is_function(const struct table *table, const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_shndx != SHN_COMMON &&
	       symbol->st_name < table->strings_size && table->strings[symbol->st_name];
}

static struct elf_symbol describe(const struct elf_image *image, const struct table *table,
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
	const struct table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++) {
		for (size_t i = 0; i < tables[t]->n; i++) {
			struct elf_symbol symbol;
			int ret;

			if (!is_function(tables[t], &tables[t]->symbols[i]))
				continue;
			symbol = describe(image, tables[t], &tables[t]->symbols[i]);
			ret = fn(&symbol, ctx);
			if (ret)
				return ret;
		}
	}
	return 0;
}

static bool is_hidden(const struct table *table, size_t i)
{
	size_t end;

	if (table->versions)
		return table->versions[i] & VERSION_HIDDEN;
	if (!table->cut_hidden)
		return false;
	end = table->symbols[i].st_name + strlen(table->strings + table->symbols[i].st_name);
	return table->cut_hidden[end / 8] >> (end % 8) & 1;
}

/* Smaller is better: a default version before a hidden one, then global, weak, local. */
static unsigned int rank(const struct table *table, size_t i)
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
	const struct table *const tables[] = {&image->dynsym, &image->symtab};

	for (size_t t = 0; t < 2; t++) {
		const struct table *table = tables[t];
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < table->n; i++) {
			if (!is_function(table, &table->symbols[i]) ||
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

size_t elf_image__direct_callers(const struct elf_image *image, uint64_t vaddr,
				 uint64_t *ret_vaddrs, size_t max)
{
	_cleanup_free_ unsigned char *chunk = malloc(SCAN_CHUNK);
	uint64_t budget = MAX_SCAN_BYTES;
	size_t found = 0;

	if (!chunk)
		return 0;
	for (size_t s = 0; s < image->n_segments; s++) {
		const struct segment *segment = &image->segments[s];
		uint64_t pos = 0;

		if (!segment->executable)
			continue;
		/* Chunks overlap by the 4 bytes that a call at the very end would lack. */
		while (segment->size - pos >= 5 && budget) {
			uint64_t want = segment->size - pos;
			const unsigned char *at, *end;
			ssize_t n;

			if (want > SCAN_CHUNK)
				want = SCAN_CHUNK;
			n = io__pread(image->fd, chunk, want, segment->off + pos);
			if (n < 5)
				break;
			/* Before the last 4 bytes; memchr() looks at many at a time. */
			end = chunk + n - 4;
			for (at = chunk; (at = memchr(at, 0xe8, (size_t)(end - at))); at++) {
				uint64_t next = segment->vaddr + pos + (uint64_t)(at - chunk) + 5;
				int32_t rel;

				memcpy(&rel, at + 1, sizeof(rel));
				if (next + rel != vaddr)
					continue;
				if (found < max)
					ret_vaddrs[found] = next;
				found++;
			}
			pos += n - 4;
			budget -= budget < (uint64_t)n ? budget : (uint64_t)n;
		}
	}
	return found;
}

static int search_slot(const struct elf_image *image, const struct relocations *table,
		       uint64_t slot, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= table->size; i += sizeof(Elf64_Rela)) {
		const Elf64_Sym *symbol;
		Elf64_Rela rela;

		memcpy(&rela, table->bytes + i, sizeof(rela));
		if (rela.r_offset != slot)
			continue;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE) {
			*ret_vaddr = (uint64_t)rela.r_addend;
			return 0;
		}
		if ((ELF64_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
		     ELF64_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
		    ELF64_R_SYM(rela.r_info) >= image->dynsym.n)
			return -ENOENT;
		symbol = &image->dynsym.symbols[ELF64_R_SYM(rela.r_info)];
		if (!is_function(&image->dynsym, symbol) ||
		    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			return -ENOENT;
		*ret_vaddr = symbol->st_value;
		return 0;
	}
	return -ENOENT;
}

int elf_image__slot_function(struct elf_image *image, uint64_t slot, uint64_t *ret_vaddr)
{
	static const char *const sections[] = {".rela.plt", ".rela.dyn"};
	int rc = -ENOENT;

	for (int i = 0; i < 2 && rc == -ENOENT; i++) {
		struct relocations *table = &image->relocations[i];
		uint64_t vaddr;

		if (!table->read) {
			table->read = true;
			elf_image__read_section(image, sections[i], &table->bytes, &table->size,
						&vaddr);
			if (table->size > MAX_RELOCATION_BYTES)
				table->size = MAX_RELOCATION_BYTES;
		}
		rc = search_slot(image, table, slot, ret_vaddr);
	}
	return rc;
}
