// SPDX-License-Identifier: BSD-2-Clause
/* Finding the allocator, and reading its functions out of its file.
 *
 * Calls inside the allocator. realloc that moves a block calls malloc, realloc(NULL, n) jumps to
 * it, aligned_alloc with a small alignment hands over to it: such a call must not be counted a
 * second time. In a shared library every ordinary caller reaches malloc through the PLT, because
 * malloc can be interposed; a direct call to its entry comes from the allocator's own code. Their
 * return addresses ("inner"), and the bodies of the functions that hand over ("outer"), are given
 * to the kernel side, which compares them with the return address of the call. Jumps leave no
 * return address; there the kernel side remembers the outer call itself. */
#include "capture/allocator.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "proc/link_map.h"
#include "proc/process.h"

/* --- the table: a new allocator is new rows --- */

struct alloc_function {
	const char *name;
	struct abi_func func;
	const char *covered_by; /* calls this other function with the right size, always: not probed
				 * where that one is */
};

struct alloc_family {
	const char *name;
	const char *marker; /* a symbol that only this allocator defines */
	const struct alloc_function *functions;
};

#define ALLOC(...)                                                                                 \
	{                                                                                          \
		.role = ROLE_ALLOC, __VA_ARGS__                                                    \
	}
#define REALLOC(...)                                                                               \
	{                                                                                          \
		.role = ROLE_REALLOC, .outer = 1, __VA_ARGS__                                      \
	}
#define FREE(...)                                                                                  \
	{                                                                                          \
		.role = ROLE_FREE, __VA_ARGS__                                                     \
	}

static const struct alloc_function glibc_functions[] = {
	{"malloc", ALLOC(.size_arg = 1), NULL},
	{"calloc", ALLOC(.size_arg = 2, .count_arg = 1), NULL},
	{"realloc", REALLOC(.ptr_arg = 1, .size_arg = 2), NULL},
	/* checks the product and jumps to realloc, in every version since its first (2.26) */
	{"reallocarray", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2), "realloc"},
	{"posix_memalign", ALLOC(.out_arg = 1, .size_arg = 3, .outer = 1), NULL},
	{"aligned_alloc", ALLOC(.size_arg = 2, .outer = 1), NULL},
	{"memalign", ALLOC(.size_arg = 2, .outer = 1), NULL},
	{"valloc", ALLOC(.size_arg = 1, .outer = 1), NULL},
	{"pvalloc", ALLOC(.size_arg = 1, .outer = 1), NULL},
	{"free", FREE(.ptr_arg = 1), NULL},
	{"cfree", FREE(.ptr_arg = 1), NULL},
	{},
};

static const struct alloc_family families[] = {
	{"glibc", "__libc_malloc", glibc_functions},
	{},
};

/* --- reading one file --- */

static int add_point(struct allocator *a, const struct elf_image *image, pid_t pid,
		     const struct map_entry *entry, const struct alloc_function *fn,
		     struct error *err)
{
	struct alloc_point *point = &a->points[a->n_points];
	_cleanup_free_ uint8_t *code = NULL;
	struct elf_symbol symbol;
	uint8_t now[16];
	uint64_t off;
	size_t want;
	long len;
	int rc;

	rc = elf_image__find_function(image, fn->name, &symbol);
	if (rc || symbol.type != STT_FUNC)
		return 0; /* not every version has every function */
	for (size_t i = 0; i < a->n_points; i++) {
		if (a->points[i].func.vaddr == symbol.vaddr)
			return 0; /* an alias */
		if (fn->covered_by && !strcmp(a->points[i].name, fn->covered_by))
			return 0;
	}
	want = symbol.size && symbol.size < 65536 ? symbol.size : 64;
	code = malloc(want);
	if (!code)
		return error__set(err, -ENOMEM, "out of memory");
	len = elf_image__read_code(image, symbol.vaddr, code, want);
	if (len <= 0)
		return error__set(err, -ENOEXEC, "%s: the symbol %s points to no code", a->path,
				  fn->name);
	rc = probe_site__choose(code, (size_t)len, symbol.vaddr, symbol.size, &point->site);
	if (rc)
		return error__set(err, rc, "%s: the code of %s cannot be read: %s", a->path,
				  fn->name, point->site.why);
	rc = elf_image__vaddr_to_off(image, symbol.vaddr + point->site.delta, &off);
	if (rc)
		return error__set(err, rc, "%s: the symbol %s points outside the file", a->path,
				  fn->name);

	/* The kernel puts the probe over the file's instruction. Where a process has changed its
	 * own copy of the code (hot patching), that would undo the change: do not touch it. A
	 * breakpoint of a debugger or of another tracer is no such change. */
	if (off >= entry->off && off - entry->off < entry->end - entry->start) {
		size_t n = (size_t)len - point->site.delta;

		n = n < sizeof(now) ? n : sizeof(now);
		if (!process__read_memory(pid, entry->start + (off - entry->off), now, n))
			if (now[0] != code[point->site.delta] && now[0] != 0xcc && !point->site.nop)
				return error__set(err, -EBUSY,
						  "the code of %s in pid %d is not that of %s: it "
						  "was patched while running, and is left alone",
						  fn->name, pid, a->path);
	}

	point->name = fn->name;
	point->func = fn->func;
	point->func.delta = point->site.delta;
	point->func.vaddr = symbol.vaddr;
	point->off = off;
	a->n_points++;
	if (fn->func.outer && symbol.size && a->object.n_outer < ABI_MAX_OUTER)
		a->object.outer[a->object.n_outer++] =
			(struct abi_range){symbol.vaddr, symbol.vaddr + symbol.size};
	return 0;
}

static void find_inner_calls(struct allocator *a, const struct elf_image *image, bool shared)
{
	struct abi_object *o = &a->object;

	/* In a static program everybody calls directly. */
	if (shared) {
		for (size_t i = 0; i < a->n_points; i++) {
			size_t room = ABI_MAX_INNER - o->n_inner, n;

			if (a->points[i].func.role == ROLE_FREE)
				continue; /* freeing twice books once: no need */
			n = elf_image__direct_callers(image, a->points[i].func.vaddr,
						      (uint64_t *)&o->inner[o->n_inner], room);
			o->n_inner += n < room ? n : room;
		}
	}
	o->low = ~0ULL;
	o->high = 0;
	for (uint32_t i = 0; i < o->n_inner; i++) {
		o->low = o->inner[i] < o->low ? o->inner[i] : o->low;
		o->high = o->inner[i] > o->high ? o->inner[i] : o->high;
	}
	for (uint32_t i = 0; i < o->n_outer; i++) {
		o->low = o->outer[i].start < o->low ? o->outer[i].start : o->low;
		o->high = o->outer[i].end > o->high ? o->outer[i].end : o->high;
	}
}

/* Does the file behind entry define malloc (shared: for others, in .dynsym)? 1: *ret is its
 * allocator; 0: it does not; negative errno: it does, but cannot be used. */
static int read_file(pid_t pid, const struct map_entry *entry, bool shared, struct allocator **ret,
		     struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	struct elf_symbol symbol;
	struct allocator *a;
	const char *soname;
	int rc = 0;

	fd = maps__open_file(pid, entry);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return error__set(err, fd, "cannot open %s of pid %d: %s", entry->path, pid,
				  strerror(-fd));
	if (fd < 0 || elf_image__open(fd, entry->path, &image, NULL))
		return 0;
	if (elf_image__find_function(image, "malloc", &symbol) || (shared && !symbol.dynamic))
		return 0;
	/* The dynamic linker of older glibc exports a malloc for its own start. */
	soname = elf_image__soname(image);
	if (soname && !strncmp(soname, "ld-linux", 8))
		return 0;

	a = calloc(1, sizeof(*a));
	if (!a)
		return error__set(err, -ENOMEM, "out of memory");
	a->fd = -1;
	a->path = strdup(entry->path);
	a->file = entry->file;
	if (!a->path) {
		rc = error__set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	for (const struct alloc_family *family = families; family->name; family++) {
		if (elf_image__find_function(image, family->marker, &symbol))
			continue;
		a->family = family->name;
		for (const struct alloc_function *fn = family->functions; fn->name; fn++) {
			rc = add_point(a, image, pid, entry, fn, err);
			if (rc)
				goto fail;
		}
		break;
	}
	if (!a->family) {
		rc = error__set(err, -ENOTSUP,
				"malloc of pid %d is that of %s, an allocator that memtrace does "
				"not know (known: glibc)",
				pid, entry->path);
		goto fail;
	}
	find_inner_calls(a, image, shared);
	a->fd = take_fd(&fd);
	*ret = a;
	return 1;
fail:
	allocator__free(a);
	return rc;
}

/* The executable mapping of the file that holds addr. */
static const struct map_entry *code_of(const struct maps *maps, uint64_t addr)
{
	const struct map_entry *at = maps__find(maps, addr);

	if (!at || !at->file.inode)
		return NULL;
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];

		if (e->executable && file_id__equal(&e->file, &at->file))
			return e;
	}
	return NULL;
}

int allocator__find(pid_t pid, const struct maps *maps, bool loading, struct allocator **ret,
		    struct error *err)
{
	uint64_t dynamics[1024];
	long n = loading ? -ENODATA : link_map__read(pid, dynamics, 1024);
	int rc;

	for (long i = 0; i < n; i++) {
		const struct map_entry *entry = code_of(maps, dynamics[i]);

		rc = entry ? read_file(pid, entry, true, ret, err) : 0;
		if (rc)
			return rc < 0 ? rc : 0;
	}
	/* No list: a static program, or one still being loaded, of which all that is mapped so far
	 * came in link order. */
	for (size_t i = 0; n <= 0 && i < maps->n; i++) {
		const struct map_entry *entry = &maps->entries[i];

		if (!entry->executable || !entry->file.inode ||
		    (i && entry[-1].executable && file_id__equal(&entry[-1].file, &entry->file)))
			continue;
		rc = read_file(pid, entry, loading, ret, err);
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return error__set(err, -ENOENT,
			  "no allocator found in pid %d: none of its mapped files has a symbol "
			  "malloc (a stripped static program, or a run-time of its own as Go's)",
			  pid);
}

void allocator__free(struct allocator *allocator)
{
	if (!allocator)
		return;
	if (allocator->fd >= 0)
		close(allocator->fd);
	free(allocator->path);
	free(allocator);
}
