// SPDX-License-Identifier: BSD-2-Clause
/* libdebuginfod is loaded at run time if it is installed, because few machines have it. (elfutils
 * does the same.) libdebuginfod sends the build-id and stores the answer. It does not read any ELF
 * file. */
#include "elf/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "elf/headers.h"

#define LIBRARY "libdebuginfod.so.1"
/* How long a server may send nothing, unless DEBUGINFOD_TIMEOUT says otherwise. libdebuginfod's own
 * default is 90 s. */
#define PATIENCE_S "10"
/* If a failure took more than this share of the timeout, the server did not answer "404", but is
 * dead. */
#define DEAD_SHARE 0.9

struct library {
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *build_id, int len, char **ret_path);
	void (*end)(void *client);
};

static void *function(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

/* Loads libdebuginfod and finds its functions. The library is never closed: curl, which the library
 * uses, is not made for unloading. A static program does not load the library, because a second
 * libc would be loaded with it. */
static bool load(struct library *ret)
{
#ifdef MEMTRACE_STATIC
	void *library = NULL;
#else
	void *library = dlopen(LIBRARY, RTLD_LAZY);
#endif
	void *begin = function(library, "debuginfod_begin");
	void *find = function(library, "debuginfod_find_debuginfo");
	void *end = function(library, "debuginfod_end");

	memcpy(&ret->begin, &begin, sizeof(begin));
	memcpy(&ret->find, &find, sizeof(find));
	memcpy(&ret->end, &end, sizeof(end));
	return begin && find && end;
}

static bool has_symtab(const struct elf_headers *headers)
{
	struct elf_walk walk;
	Elf64_Shdr section;

	elf_headers__walk_sections(headers, &walk);
	while (elf_walk__next(&walk, &section))
		if (section.sh_type == SHT_SYMTAB)
			return true;
	return false;
}

/* Downloads the debug file with this build-id. After one request without an answer, no server is
 * asked again in this run: otherwise memtrace would wait as long for each further file. */
static int download(const struct elf_build_id *id)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct library library;
	static bool dead;
	double start_s, patience_s;
	void *client;
	int own;

	if (dead)
		return -ETIMEDOUT;
	if (!load(&library))
		return -ENOENT;
	setenv("DEBUGINFOD_TIMEOUT", PATIENCE_S, 0);
	patience_s = atof(getenv("DEBUGINFOD_TIMEOUT"));
	client = library.begin();
	if (!client)
		return -ENOMEM;
	start_s = clock__monotonic_s();
	fd = library.find(client, id->bytes, (int)id->len, &path);
	library.end(client);
	dead = fd < 0 && patience_s > 0 && clock__monotonic_s() - start_s > DEAD_SHARE * patience_s;
	if (fd < 0)
		return dead ? -ETIMEDOUT : -ENOENT;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return own < 0 ? -errno : own;
}

int debuginfod__open(int fd)
{
	const char *urls = getenv("DEBUGINFOD_URLS"); /* the user decides if servers are asked */
	_cleanup_close_ int debug_fd = -1;
	struct elf_build_id id, its;
	struct elf_headers headers;
	int err;

	if (!urls || !*urls)
		return -ENOENT;
	err = elf_headers__read(fd, "", &headers, NULL);
	if (err)
		return err;
	elf_headers__build_id(&headers, &id);
	if (!id.len || has_symtab(&headers))
		return -ENOENT;
	debug_fd = download(&id);
	if (debug_fd < 0)
		return debug_fd;
	if (elf_headers__read(debug_fd, "", &headers, NULL))
		return -ENOENT;
	elf_headers__build_id(&headers, &its);
	if (its.len != id.len || memcmp(its.bytes, id.bytes, id.len) != 0)
		return -ENOENT;
	return take_fd(&debug_fd);
}
