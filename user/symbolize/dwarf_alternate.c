// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/dwarf_alternate.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "base/io.h"
#include "elf/headers.h"

#define DEBUG_ROOT "/usr/lib/debug"

static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The section .gnu_debugaltlink holds a path, a NUL and a build-id. */
int dwarf_alternate__open(int file_fd, const char *debug_root)
{
	const char *root = debug_root ? debug_root : DEBUG_ROOT;
	char link[PATH_MAX + ELF_MAX_BUILD_ID], path[2 * PATH_MAX], hex[2 * ELF_MAX_BUILD_ID + 1],
		*base;
	size_t root_len = strlen(root), path_len, id_len;
	struct elf_headers headers;
	Elf64_Shdr section;
	ssize_t len;
	int fd;

	if (elf_headers__read(file_fd, "", &headers, NULL) ||
	    !elf_headers__find_section(&headers, ".gnu_debugaltlink", 0, &section) ||
	    section.sh_size > sizeof(link))
		return -1;
	len = io__pread(file_fd, link, section.sh_size, section.sh_offset);
	if (len <= 0)
		return -1;
	path_len = strnlen(link, (size_t)len);
	id_len = (size_t)len - path_len;
	if (id_len < 3 || id_len - 1 > ELF_MAX_BUILD_ID)
		return -1;
	for (size_t i = 0; i < id_len - 1; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)link[path_len + 1 + i]);
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", root, hex, hex + 2);
	fd = open_regular(path);
	if (fd >= 0)
		return fd;

	/* Debian's links are absolute. Fedora's are relative and all lead to .dwz below root. */
	if (link[0] == '/') {
		if (strncmp(link, root, root_len) != 0 || link[root_len] != '/' ||
		    strstr(link, "/../"))
			return -1;
		return open_regular(link);
	}
	base = strrchr(link, '/');
	snprintf(path, sizeof(path), "%s/.dwz/%s", root, base ? base + 1 : link);
	return open_regular(path);
}

Dwarf *dwarf_alternate__check(Dwarf *dwarf, int fd)
{
	const void *wanted_id, *id;
	const char *path;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(dwarf, &path, &wanted_id);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (len <= 0 || !elf || dwelf_elf_gnu_build_id(elf, &id) != len ||
	    memcmp(id, wanted_id, (size_t)len) != 0)
		return NULL;
	return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}
