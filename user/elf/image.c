// SPDX-License-Identifier: BSD-2-Clause
/* Reading an ELF file that its owner may be rewriting to hurt us.
 *
 * Nothing is mapped. A page of a mapping whose file has been cut short since raises SIGBUS, and the
 * target can cut its file whenever it likes; a read() only comes back short. So libelf gets
 * ELF_C_READ (pread), never ELF_C_READ_MMAP, and the big things (code, symbol tables) are read by
 * ourselves, with pread into buffers whose sizes were compared with the file's size and a limit
 * first.
 *
 * libelf allocates and touches memory for as many sections as the header claims, up to 2^32 of
 * them; check_header() looks at that claim before libelf does. (A target that swaps the header
 * between the two can still make us use memory, nothing worse.)
 *
 * Where a table lies about itself, the part that is sound is used and the rest left out: symbols
 * whose name begins outside the string table, string tables without a final NUL, segments that
 * reach beyond the file. */
#include "elf/image_internal.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MAX_SECTIONS   (1u << 20)
#define MAX_NOTE_BYTES (64u << 10)
#define MAX_DYNAMIC    (64u << 10) /* bytes of PT_DYNAMIC */

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
	if (ehdr.e_shoff && n_sections == 0 &&
	    elf_image__in_file(image, ehdr.e_shoff, sizeof(first)) &&
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
	    !elf_image__in_file(image, phdr->p_offset, phdr->p_filesz))
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

	if (phdr->p_filesz > MAX_DYNAMIC ||
	    !elf_image__in_file(image, phdr->p_offset, phdr->p_filesz))
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
		ret = elf_image__read_symbols(image, elf);
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
	elf_image__free_symbols(image);
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

uint64_t elf_image__entry(const struct elf_image *image)
{
	return image->entry;
}
