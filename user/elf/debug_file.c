// SPDX-License-Identifier: BSD-2-Clause
/* Both files are hostile, as in image.c: nothing is mapped, what the header claims is looked at
 * before libelf believes it, and of what sections claim only so much is read as build-ids and links
 * need. */
#include "elf/debug_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/in_root.h"
#include "base/io.h"

#define DEBUG_ROOT     "/usr/lib/debug"
#define MAX_BUILD_ID   64	    /* bytes; real ones have 20 */
#define MAX_NOTES      64	    /* sections or segments of notes; real files have three */
#define MAX_NOTE_BYTES (64u << 10)  /* of one of them */
#define MAX_LINK_NAME  255	    /* NAME_MAX of Linux */
#define MAX_CRC_BYTES  (1ull << 30) /* read in all */
#define LINK_SECTION   ".gnu_debuglink"

struct build_id {
	size_t len; /* 0: none */
	unsigned char bytes[MAX_BUILD_ID];
};

/* What is looked for. */
struct search {
	int root_fd;
	struct stat own;
	struct build_id id;
	char link[MAX_LINK_NAME + 1]; /* "": none */
	uint32_t crc;		      /* of the file that link names */
	uint64_t crc_bytes_left;
};

DEFINE_CLEANUP(Elf *, cleanup_elf_end, elf_end)

/* --- reading --- */

/* A program, a library, or the debug file of one, which has the same type? libelf allocates for as
 * many sections as the header says; without the escape to larger numbers those are 65,535. */
static int check_header(int fd)
{
	Elf64_Ehdr header;
	ssize_t n = io__pread(fd, &header, sizeof(header), 0);

	if (n < 0)
		return (int)n;
	if (n != sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != EM_X86_64 ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN) ||
	    (header.e_shoff && !header.e_shnum) || header.e_phnum == PN_XNUM)
		return -ENOEXEC;
	return 0;
}

/* Looks for a build-id in the notes at off. */
static void read_notes(Elf *elf, uint64_t off, uint64_t size, uint64_t align, struct build_id *id)
{
	size_t pos = 0, name_off, desc_off;
	Elf_Data *data = NULL;
	GElf_Nhdr note;

	if (size <= MAX_NOTE_BYTES && off <= INT64_MAX)
		data = elf_getdata_rawchunk(elf, (int64_t)off, size,
					    align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	if (!data || !data->d_buf)
		return;
	while ((pos = gelf_getnote(data, pos, &note, &name_off, &desc_off)) > 0) {
		const char *bytes = data->d_buf;

		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
		    memcmp(bytes + name_off, "GNU", sizeof("GNU")) != 0 || note.n_descsz < 2 ||
		    note.n_descsz > MAX_BUILD_ID)
			continue;
		id->len = note.n_descsz;
		memcpy(id->bytes, bytes + desc_off, id->len);
		return;
	}
}

/* From the sections first: the program headers of a debug file may be the program's own, and say
 * where things lie there. */
static void read_build_id(Elf *elf, struct build_id *id)
{
	size_t n = 0, seen = 0;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Phdr phdr;

	id->len = 0;
	/* Where one header cannot be read none can, but libelf would try for each of them. */
	while (!id->len && seen < MAX_NOTES && (scn = elf_nextscn(elf, scn)) &&
	       gelf_getshdr(scn, &shdr))
		if (shdr.sh_type == SHT_NOTE && ++seen)
			read_notes(elf, shdr.sh_offset, shdr.sh_size, shdr.sh_addralign, id);
	if (id->len || elf_getphdrnum(elf, &n))
		return;
	for (size_t i = 0;
	     !id->len && seen < MAX_NOTES && i < n && gelf_getphdr(elf, (int)i, &phdr); i++)
		if (phdr.p_type == PT_NOTE && ++seen)
			read_notes(elf, phdr.p_offset, phdr.p_filesz, phdr.p_align, id);
}

/* Is the section called so? names_off: of the string table that names sections. Not with
 * elf_strptr(), which reads the whole table, however large it says it is. */
static bool is_link_section(int fd, uint64_t names_off, const GElf_Shdr *shdr)
{
	char buf[sizeof(LINK_SECTION)];

	return names_off <= INT64_MAX - UINT32_MAX &&
	       io__pread(fd, buf, sizeof(buf), names_off + shdr->sh_name) == sizeof(buf) &&
	       memcmp(buf, LINK_SECTION, sizeof(buf)) == 0;
}

/* A bare file name, NULs up to the next multiple of four, and the CRC of that file. */
static void parse_link(struct search *search, const char *bytes, size_t size)
{
	size_t len = strnlen(bytes, size), crc_off = len / 4 * 4 + 4;

	if (!len || len > MAX_LINK_NAME || crc_off + sizeof(search->crc) > size ||
	    memchr(bytes, '/', len))
		return;
	memcpy(search->link, bytes, len + 1);
	memcpy(&search->crc, bytes + crc_off, sizeof(search->crc));
}

static void read_link(struct search *search, Elf *elf, int fd)
{
	char bytes[MAX_LINK_NAME + 1 + 3 + sizeof(uint32_t)];
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	uint64_t names;
	size_t index;

	if (elf_getshdrstrndx(elf, &index) || !gelf_getshdr(elf_getscn(elf, index), &shdr))
		return;
	names = shdr.sh_offset;
	while ((scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &shdr)) {
		ssize_t n;

		if (shdr.sh_type != SHT_PROGBITS || shdr.sh_offset > INT64_MAX ||
		    shdr.sh_size > sizeof(bytes) || !is_link_section(fd, names, &shdr))
			continue;
		n = io__pread(fd, bytes, shdr.sh_size, shdr.sh_offset);
		if (n > 0)
			parse_link(search, bytes, (size_t)n);
		return;
	}
}

static int read_own(struct search *search, int fd)
{
	_cleanup_(cleanup_elf_end) Elf *elf = NULL;
	int err;

	if (fstat(fd, &search->own) < 0)
		return -errno;
	err = check_header(fd);
	if (err)
		return err;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return -ENOEXEC;
	read_build_id(elf, &search->id);
	read_link(search, elf, fd);
	return 0;
}

/* --- does a file belong to it? --- */

static bool has_build_id(int fd, const struct build_id *id)
{
	_cleanup_(cleanup_elf_end) Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	struct build_id its;

	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return false;
	read_build_id(elf, &its);
	return its.len == id->len && memcmp(its.bytes, id->bytes, id->len) == 0;
}

static bool has_crc(struct search *search, int fd, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size, off = 0;
	unsigned char buf[65536];
	uLong sum = crc32(0, NULL, 0);

	if (size > search->crc_bytes_left)
		return false;
	search->crc_bytes_left -= size;
	while (off < size) { /* it may grow meanwhile */
		size_t want = size - off < sizeof(buf) ? size - off : sizeof(buf);

		if (io__pread(fd, buf, want, off) != (ssize_t)want)
			return false;
		sum = crc32(sum, buf, (uInt)want);
		off += want;
	}
	return sum == search->crc;
}

/* A descriptor of the file called path if it is the one; -ENOENT if it is not, or not there; or a
 * negative errno after which nothing more need be tried. */
static int try_file(struct search *search, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	fd = in_root__open_file(search->root_fd, path, true, &st);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0 || check_header(fd) ||
	    (st.st_dev == search->own.st_dev && st.st_ino == search->own.st_ino))
		return -ENOENT;
	if (search->id.len ? !has_build_id(fd, &search->id) : !has_crc(search, fd, &st))
		return -ENOENT;
	return take_fd(&fd);
}

/* --- where it may be --- */

static int by_build_id(struct search *search)
{
	char path[sizeof(DEBUG_ROOT "/.build-id//.debug") + 2 * MAX_BUILD_ID];
	int n;

	if (!search->id.len)
		return -ENOENT;
	n = sprintf(path, DEBUG_ROOT "/.build-id/%02x/", search->id.bytes[0]);
	for (size_t i = 1; i < search->id.len; i++)
		n += sprintf(path + n, "%02x", search->id.bytes[i]);
	strcpy(path + n, ".debug");
	return try_file(search, path);
}

static int by_link(struct search *search, const char *path)
{
	int dir_len = (int)(strrchr(path, '/') - path), fd = -ENOENT;
	bool in_usr = strncmp(path, "/usr/", 5) == 0;
	const struct {
		const char *before;
		int skip; /* bytes of the directory's name */
		const char *behind;
	} places[] = {
		{"", 0, ""},
		{"", 0, "/.debug"},
		{DEBUG_ROOT, 0, ""},
		{in_usr ? DEBUG_ROOT : DEBUG_ROOT "/usr", in_usr ? 4 : 0, ""},
	};

	if (!*search->link)
		return -ENOENT;
	for (size_t i = 0; fd == -ENOENT && i < sizeof(places) / sizeof(*places); i++) {
		char name[PATH_MAX];
		int n = snprintf(name, sizeof(name), "%s%.*s%s/%s", places[i].before,
				 dir_len - places[i].skip, path + places[i].skip, places[i].behind,
				 search->link);

		if (n < (int)sizeof(name))
			fd = try_file(search, name);
	}
	return fd;
}

int debug_file__open(int root_fd, int fd, const char *path)
{
	struct search search = {.root_fd = root_fd, .crc_bytes_left = MAX_CRC_BYTES};
	int ret;

	if (path[0] != '/' || strlen(path) >= PATH_MAX)
		return -EINVAL;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOEXEC;
	ret = read_own(&search, fd);
	if (ret)
		return ret;
	ret = by_build_id(&search);
	return ret == -ENOENT ? by_link(&search, path) : ret;
}
