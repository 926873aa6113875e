// SPDX-License-Identifier: BSD-2-Clause
/* In glibc (seen in the code of 2.36), each of the four system calls mmap, munmap, mremap and brk
 * is made in one place: in the function of the same name. Even glibc's own malloc and its code for
 * thread stacks call these functions. Only glibc's dynamic linker has copies of them. Other C
 * libraries, and programs without a C library, make some of the system calls outside of these
 * functions. */
#include "capture/region_source.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "proc/link_map.h"

#define READ_TRIES    3
#define READ_AGAIN_US 10000

#define LIBC_MARK "gnu_get_libc_version" /* only glibc defines this symbol */

static const struct {
	const char *name;
	enum abi_region_kind kind;
} functions[REGION_FUNCTIONS] = {
	{"mmap", REGION_MMAP},
	{"munmap", REGION_MUNMAP},
	{"mremap", REGION_MREMAP},
	{"brk", REGION_BRK},
};

DEFINE_CLEANUP(struct region_source *, cleanup_source, region_source__free)

static void say_why(struct region_source *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void say_why(struct region_source *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	s->syscalls = true;
}

/* Finds the place of a function's probe. False: no probe is possible. */
static bool find_point(const struct elf_image *image, const char *name, struct region_point *ret)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct elf_symbol symbol;
	uint64_t off;
	size_t want;
	long len;

	if (elf_image__find_function(image, name, &symbol) || symbol.type != STT_FUNC)
		return false;
	want = symbol.size && symbol.size < 65536 ? symbol.size : 64;
	code = malloc(want);
	len = code ? elf_image__read_code(image, symbol.vaddr, code, want) : 0;
	if (len <= 0 || probe_site__choose(code, (size_t)len, symbol.vaddr, symbol.size,
					   PROBE_SITE_ALL_ARGS, &ret->site))
		return false;
	/* The BPF programs read each argument from the register in which it was passed. */
	for (uint8_t i = 0; i < PROBE_SITE_ALL_ARGS; i++)
		if (ret->site.args[i] != i + 1)
			return false;
	if (elf_image__vaddr_to_off(image, symbol.vaddr + ret->site.delta, &off))
		return false;
	ret->place = code_place__in(code, ret->site.delta, off);
	return true;
}

int region_source__patched_in(const struct region_source *s, pid_t pid, const struct maps *maps,
			      const char **ret)
{
	struct code_place places[REGION_FUNCTIONS];
	const char *names[REGION_FUNCTIONS];
	size_t n = 0, which;
	int rc;

	for (size_t i = 0; i < s->n_points && !s->syscalls; i++)
		if (!s->points[i].site.nop) { /* other tools may have put a call over a nop */
			names[n] = s->points[i].name;
			places[n++] = s->points[i].place;
		}
	rc = patch__find(pid, maps, &s->file, places, n, &which);
	if (rc == 1)
		*ret = names[which];
	return rc;
}

bool region_source__is_bare(const struct region_source *s, pid_t pid, const struct maps *maps)
{
	struct code_place places[REGION_FUNCTIONS];

	for (size_t i = 0; i < s->n_points; i++)
		places[i] = s->points[i].place;
	return !s->syscalls && patch__is_bare(pid, maps, &s->file, places, s->n_points);
}

/* Notes why the functions cannot be probed, if the process has changed their code. Code that cannot
 * be read now can mostly be read a moment later. So several attempts must fail before the failure
 * counts. */
static bool notes_patch(struct region_source *s, pid_t pid, const struct maps *maps)
{
	const char *name;
	int rc = region_source__patched_in(s, pid, maps, &name);

	for (int tries = 1; rc < 0 && tries < READ_TRIES; tries++) {
		usleep(READ_AGAIN_US);
		rc = region_source__patched_in(s, pid, maps, &name);
	}
	if (rc == 1)
		say_why(s,
			"%s of the C library was patched in pid %d while running, and is left "
			"alone",
			name, pid);
	else if (rc < 0)
		say_why(s, "the code of the C library in pid %d cannot be read now", pid);
	return rc != 0;
}

static bool is_wanted(const char *name, const void *ctx)
{
	(void)ctx;
	for (size_t i = 0; i < REGION_FUNCTIONS; i++)
		if (!strcmp(name, functions[i].name))
			return true;
	return !strcmp(name, LIBC_MARK);
}

/* Examines one file. 1: the search ends, because the file is the C library, or because it shows
 * that probes on libc are not enough. 0: the search goes on; negative errno. */
static int examine(struct region_source *s, pid_t pid, const struct maps *maps,
		   const struct elf_meanwhile *meanwhile, const struct map_entry *entry)
{
	const struct elf_wanted wanted = {is_wanted, NULL, *meanwhile};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = maps__open_file(pid, entry);
	struct elf_symbol symbol;
	const char *soname;

	if (fd < 0 || elf_image__open(fd, entry->path, &wanted, &image, NULL))
		return 0;
	if (elf_image__is_go(image)) {
		say_why(s, "Go's run-time makes the calls itself");
		return 1;
	}
	if (elf_image__find_function(image, "mmap", &symbol) || !symbol.dynamic)
		return 0;
	soname = elf_image__soname(image);
	if (soname && !strncmp(soname, "ld-linux", 8))
		return 0;
	if (elf_image__find_function(image, LIBC_MARK, &symbol)) {
		say_why(s, "the C library is not glibc, whose functions see all calls");
		return 1;
	}
	for (size_t i = 0; i < REGION_FUNCTIONS; i++) {
		struct region_point *point = &s->points[s->n_points];

		if (!find_point(image, functions[i].name, point)) {
			say_why(s, "no probe can be placed on the C library's %s",
				functions[i].name);
			return 1;
		}
		point->name = functions[i].name;
		point->kind = functions[i].kind;
		s->n_points++;
	}
	s->path = strdup(entry->path);
	if (!s->path)
		return -ENOMEM;
	s->file = *map_entry__real(entry);
	if (notes_patch(s, pid, maps))
		return 1;
	s->fd = maps__to_probe(take_fd(&fd), pid, entry);
	return s->fd < 0 ? s->fd : 1;
}

/* Returns the executable mapping of the file that is mapped at addr, or NULL. */
static const struct map_entry *code_of(const struct maps *maps, uint64_t addr)
{
	const struct map_entry *at = maps__find(maps, addr);

	for (size_t i = 0; at && at->file.inode && i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];

		if (e->executable && file_id__equal(&e->file, &at->file))
			return e;
	}
	return NULL;
}

int region_source__find(pid_t pid, const struct maps *maps, bool loading,
			const struct elf_meanwhile *meanwhile, struct region_source **ret,
			struct error *err)
{
	_cleanup_(cleanup_source) struct region_source *s = calloc(1, sizeof(*s));
	struct link_object objects[1024];
	long n = loading ? -ENODATA : link_map__read(pid, objects, 1024);
	int rc = 0;

	if (!s)
		return error__set(err, -ENOMEM, "out of memory");
	s->fd = -1;
	for (long i = 0; i < n && !rc; i++) {
		const struct map_entry *entry = code_of(maps, objects[i].dynamic);

		rc = entry ? examine(s, pid, maps, meanwhile, entry) : 0;
	}
	/* If the process has no list of its files (yet), all mapped files are searched. While the
	 * process is `loading`, the C library may be among these files. Otherwise the search only
	 * finds out why probes on libc are not enough. */
	for (size_t i = 0; n <= 0 && i < maps->n && !rc; i++) {
		const struct map_entry *entry = &maps->entries[i];

		if (entry->executable && entry->file.inode)
			rc = examine(s, pid, maps, meanwhile, entry);
	}
	if (rc < 0)
		return error__set(err, rc, "cannot look at the C library of pid %d: %s", pid,
				  strerror(-rc));
	if (!rc && loading)
		return error__set(err, -ENOENT, "no C library yet in pid %d", pid);
	if (!rc || (n <= 0 && !loading && !s->syscalls))
		say_why(s, "it is linked statically, its code makes the calls itself");
	*ret = s;
	s = NULL;
	return 0;
}

void region_source__free(struct region_source *source)
{
	if (!source)
		return;
	if (source->fd >= 0)
		close(source->fd);
	free(source->path);
	free(source);
}
