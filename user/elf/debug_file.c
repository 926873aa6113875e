// SPDX-License-Identifier: BSD-2-Clause
/* Both the ELF file and its debug file may be hostile, as in image.c. Nothing is mapped. From
 * sections, only build-ids and links are read. */
#include "elf/debug_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/allowance.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/in_root.h"
#include "base/io.h"
#include "elf/headers.h"

#define DEBUG_ROOT    "/usr/lib/debug"
#define MAX_LINK_NAME 255	   /* NAME_MAX of Linux */
#define MAX_CRC_BYTES (1ull << 30) /* limit for all checksums of one search together */
/* The same limit for all searches, and how much it grows per second. A hostile user may run as many
 * programs as he likes, each with a huge debug file. Meanwhile memtrace does nothing else. */
#define ALL_CRC_BYTES	(4ull << 30)
#define CRC_BYTES_PER_S (1ull << 20)

/* The debug file to search for. */
struct search {
	int root_fd;
	struct stat own;
	struct elf_build_id id;
	char link[MAX_LINK_NAME + 1]; /* file name in .gnu_debuglink; "": none */
	uint32_t crc;		      /* CRC32 of the debug file that `link` names */
	uint64_t crc_bytes_left;
};

/* --- reading --- */

/* Reads the contents of .gnu_debuglink. The section holds a bare file name, NULs up to the next
 * multiple of four, and the CRC of that file. */
static void parse_link(struct search *search, const char *bytes, size_t size)
{
	size_t len = strnlen(bytes, size), crc_off = len / 4 * 4 + 4;

	if (!len || len > MAX_LINK_NAME || crc_off + sizeof(search->crc) > size ||
	    memchr(bytes, '/', len))
		return;
	memcpy(search->link, bytes, len + 1);
	memcpy(&search->crc, bytes + crc_off, sizeof(search->crc));
}

static void read_link(struct search *search, const struct elf_headers *headers)
{
	char bytes[MAX_LINK_NAME + 1 + 3 + sizeof(uint32_t)];
	Elf64_Shdr section;
	ssize_t n;

	if (!elf_headers__find_section(headers, ".gnu_debuglink", 0, &section) ||
	    section.sh_size > sizeof(bytes))
		return;
	n = io__pread(headers->fd, bytes, section.sh_size, section.sh_offset);
	if (n > 0)
		parse_link(search, bytes, (size_t)n);
}

static int read_own(struct search *search, int fd, const char *path)
{
	struct elf_headers headers;
	int err;

	if (fstat(fd, &search->own) < 0)
		return -errno;
	err = elf_headers__read(fd, path, &headers, NULL);
	if (err)
		return err;
	elf_headers__build_id(&headers, &search->id);
	if (search->id.len < 2) /* too short for a file name */
		search->id.len = 0;
	read_link(search, &headers);
	return 0;
}

/* --- does a file belong to the ELF file? --- */

static bool has_build_id(const struct elf_headers *headers, const struct elf_build_id *id)
{
	struct elf_build_id its;

	elf_headers__build_id(headers, &its);
	return its.len == id->len && memcmp(its.bytes, id->bytes, id->len) == 0;
}

/* May so many bytes be read for a checksum now? */
static bool may_sum(uint64_t bytes)
{
	static struct allowance allowance = ALLOWANCE(ALL_CRC_BYTES, CRC_BYTES_PER_S);

	if ((double)bytes > allowance__renew(&allowance, clock__now_ns(CLOCK_MONOTONIC)))
		return false;
	allowance.left -= (double)bytes;
	return true;
}

static bool has_crc(struct search *search, int fd, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size, off = 0;
	unsigned char buf[65536];
	uLong sum = crc32(0, NULL, 0);

	if (size > search->crc_bytes_left || !may_sum(size))
		return false;
	search->crc_bytes_left -= size;
	while (off < size) { /* reads only st_size bytes, because the file may grow meanwhile */
		size_t want = size - off < sizeof(buf) ? size - off : sizeof(buf);

		if (io__pread(fd, buf, want, off) != (ssize_t)want)
			return false;
		sum = crc32(sum, buf, (uInt)want);
		off += want;
	}
	return sum == search->crc;
}

/* Opens the file called path if it is the debug file. Returns a descriptor; -ENOENT: the file is
 * missing, or is not the debug file; any other negative errno: the search must stop. */
static int try_file(struct search *search, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct elf_headers headers;
	struct stat st;

	fd = in_root__open_file(search->root_fd, path, true, &st);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0 || elf_headers__read(fd, path, &headers, NULL) ||
	    (st.st_dev == search->own.st_dev && st.st_ino == search->own.st_ino))
		return -ENOENT;
	if (search->id.len ? !has_build_id(&headers, &search->id) : !has_crc(search, fd, &st))
		return -ENOENT;
	return take_fd(&fd);
}

/* --- where the debug file may be --- */

static int by_build_id(struct search *search)
{
	char path[sizeof(DEBUG_ROOT "/.build-id//.debug") + 2 * ELF_MAX_BUILD_ID];
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
		int skip; /* how many bytes of the directory's name are left out */
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
	ret = read_own(&search, fd, path);
	if (ret)
		return ret;
	ret = by_build_id(&search);
	return ret == -ENOENT ? by_link(&search, path) : ret;
}
