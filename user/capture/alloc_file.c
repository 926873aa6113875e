// SPDX-License-Identifier: BSD-2-Clause
/* Finds out which families of allocators are in a file, and reads their functions (alloc_reader.c).
 * Keeps the result for the next process that maps the file. */
#include "capture/alloc_reader.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "elf/image.h"
#include "elf/unwind.h"

#define MAX_KEPT_BYTES (8u << 20)
#define LIBC_MARK      "gnu_get_libc_version" /* only glibc defines this symbol */
#define PHP_MODULE     "sapi_module"

struct alloc_files {
	struct alloc_names names;
	const struct binaries *binaries;
	struct alloc_how how;
	struct alloc_file **kept; /* indexed by the binary's index; NULL: the file was not read, or
				   * what was read is freed */
	size_t n_kept;
	size_t kept_bytes;
	struct alloc_file *passing; /* the last result, if it is not kept */
};

/* Stands for every file that offers no allocator. Most files offer none. */
static struct alloc_file nothing;

/* --- reading one file --- */

static void alloc_file__free(struct alloc_file *file)
{
	if (!file || file == &nothing)
		return;
	for (size_t i = 0; i < file->n_parts; i++) {
		free(file->parts[i].offers);
		free(file->parts[i].aliases);
		free(file->parts[i].exits);
	}
	free(file);
}

DEFINE_CLEANUP(struct alloc_file *, cleanup_file, alloc_file__free)

static size_t alloc_file__bytes(const struct alloc_file *file)
{
	size_t bytes = sizeof(*file);

	if (file == &nothing)
		return 0;
	for (size_t i = 0; i < file->n_parts; i++) {
		const struct alloc_part *part = &file->parts[i];

		bytes += part->n_offers * sizeof(*part->offers) +
			 part->n_aliases * sizeof(*part->aliases) +
			 part->n_exits * sizeof(*part->exits);
	}
	return bytes;
}

static int add_extra(struct alloc_reader *r, const char *path,
		     const struct alloc_extra *const *extra, size_t n_extra, struct error *err)
{
	int rc = 0;

	alloc_reader__begin_part(r, "named");
	for (size_t i = 0; i < n_extra && !rc; i++) {
		struct elf_symbol symbol;

		if (elf_image__find_function(r->image, extra[i]->symbol, &symbol) ||
		    symbol.type != STT_FUNC)
			rc = error__set(err, -ENOENT, "%s has no function %s", path,
					extra[i]->symbol);
		else
			rc = alloc_reader__add_offer(r, 0, extra[i]->symbol, &extra[i]->func,
						     &symbol);
	}
	/* the user named these functions: they are used even if another file defines them, too */
	for (size_t i = 0; i < r->part->n_aliases; i++)
		r->part->aliases[i].exported = false;
	return alloc_reader__end_part(r) ?: rc;
}

/* --- families --- */

static bool exports(const struct elf_image *image, const char *name)
{
	struct elf_symbol symbol;

	return !elf_image__find_function(image, name, &symbol) && symbol.dynamic;
}

static bool is_family(const struct alloc_family *f, const struct elf_image *image)
{
	struct elf_symbol symbol;

	for (size_t i = 0; i < ALLOC_MAX_MARKERS && f->markers[i]; i++)
		if (!elf_image__find_function(image, f->markers[i], &symbol))
			return f->home != HOME_PLACE ||
			       (symbol.dynamic && !exports(image, LIBC_MARK));
	return false;
}

/* Does an earlier part of the file already have the function? Earlier parts hold the functions that
 * the user named, or belong to earlier families. */
static bool is_taken(const struct alloc_file *file, uint64_t vaddr)
{
	for (size_t i = 0; i < file->n_parts; i++)
		for (size_t j = 0; j < file->parts[i].n_offers; j++)
			if (file->parts[i].offers[j].func.vaddr == vaddr &&
			    file->parts[i].offers[j].leads_to == ALLOC_NOWHERE)
				return true;
	return false;
}

static bool ends_at_once(const struct alloc_family *f)
{
	return f->home == HOME_POOL || f->home == HOME_METHODS;
}

/* Returns the description of the function for this run. Only runs without a limit of overhead
 * follow the ends of pools. If stacks do not follow unwind tables, the returns of all functions
 * with `wraps` are awaited. */
static struct abi_func func_in(const struct alloc_reader *r, const struct alloc_function *fn)
{
	struct abi_func func = fn->func;

	func.pool_thread = func.pool_thread && r->how.pools;
	if (func.wraps && !r->how.tables)
		func.wraps = WRAPS_AWAITED;
	return func;
}

/* Is the function left out in this run? */
static bool is_left_out(const struct alloc_reader *r, const struct alloc_family *f,
			const struct alloc_function *fn)
{
	return f->home == HOME_REQUEST && !r->how.pools && fn->func.role >= ROLE_POOL_END;
}

static void begin_request_pool(struct alloc_reader *r)
{
	struct elf_symbol symbol;

	r->part->endless = !r->how.pools;
	r->part->slow = !r->how.pools && !r->how.copies;
	if (!elf_image__find_object(r->image, PHP_MODULE, &symbol))
		r->file->sapi = symbol.vaddr;
	alloc_reader__note_shift(r);
}

/* Goes through one of the family's lists of functions. Offers each function that the file has.
 * claimed: indexed by the name's number; true if an earlier list or family has offered the
 * function. 0 or -ENOMEM. */
static int add_list(struct alloc_reader *r, const struct alloc_family *f,
		    const struct alloc_function *list, bool *claimed)
{
	int rc = 0;

	for (const struct alloc_function *fn = list; fn->name && !rc; fn++) {
		size_t i = alloc_names__find(r->names, fn->name);
		struct abi_func func = func_in(r, fn);
		struct elf_symbol symbol;
		uint64_t caller;

		if (i == SIZE_MAX || !r->file->defines[i] || claimed[i] || is_left_out(r, f, fn) ||
		    elf_image__find_function(r->image, fn->name, &symbol) ||
		    symbol.type != STT_FUNC || is_taken(r->file, symbol.vaddr))
			continue;
		claimed[i] = true;
		/* no code calls the function directly, so no call of it has to be recognized as
		 * inner */
		if (abi_role__frees(func.role) && func.outer &&
		    !elf_image__direct_callers(r->image, symbol.vaddr, &caller, 1))
			func.outer = 0;
		rc = alloc_reader__add_offer(r, i, fn->name, &func, &symbol);
	}
	return rc;
}

static int add_families(struct alloc_reader *r)
{
	bool claimed[ALLOC_MAX_NAMES] = {};
	int rc = 0;

	for (const struct alloc_family *f = alloc_families; f->name && !rc; f++) {
		size_t first = 0, end = ALLOC_MAX_LISTS;

		if (!is_family(f, r->image) || (ends_at_once(f) && !r->how.pools))
			continue;
		if (f->home >= HOME_POOL) {
			int all = alloc_reader__shows_all(r, f);

			if (all <= 0) {
				rc = all;
				continue;
			}
		} else {
			r->file->known = true;
		}
		alloc_reader__begin_part(r, f->name);
		r->alone = f->home == HOME_LIBRARY && elf_image__soname(r->image);
		r->interposed =
			f->home == HOME_METHODS || (f->home == HOME_LIBC && r->file->shared);
		if (f->home == HOME_REQUEST)
			begin_request_pool(r);
		if (f->home == HOME_LANGUAGE) {
			first = alloc_reader__stand_alone(r, f);
			end = first ? ALLOC_MAX_LISTS : 1;
		}
		for (size_t l = first; l < end && f->functions[l] && !rc; l++)
			rc = add_list(r, f, f->functions[l], claimed);
		rc = alloc_reader__end_part(r) ?: rc;
	}
	return rc;
}

static int note_symbol(const struct elf_symbol *symbol, void *ctx)
{
	struct alloc_reader *r = ctx;
	size_t i = alloc_names__find(r->names, symbol->name);

	if (i != SIZE_MAX) {
		r->file->defines[i] = true;
		r->file->exports[i] |= symbol->dynamic;
	}
	return 0;
}

/* The symbols that alloc_reader.c, alloc_markers.c, alloc_pools.c and this file ask for. */
struct wanted {
	const struct alloc_names *names;
	const struct alloc_extra *const *extra;
	size_t n_extra;
};

static bool is_wanted(const char *name, const void *ctx)
{
	const struct wanted *wanted = ctx;
	size_t len = strcspn(name, ".");
	char whole[64];

	if (alloc_names__find(wanted->names, name) != SIZE_MAX)
		return true;
	if (len < sizeof(whole) && name[len]) { /* a part of a function: palloc.part.0 */
		memcpy(whole, name, len);
		whole[len] = '\0';
		if (alloc_names__find(wanted->names, whole) != SIZE_MAX)
			return true;
	}
	for (size_t i = 0; i < wanted->n_extra; i++)
		if (!strcmp(wanted->extra[i]->symbol, name))
			return true;
	for (const struct alloc_family *f = alloc_families; f->name; f++)
		for (size_t i = 0; i < ALLOC_MAX_MARKERS && f->markers[i]; i++)
			if (!strcmp(f->markers[i], name))
				return true;
	return !strcmp(name, LIBC_MARK) || !strcmp(name, PHP_MODULE);
}

/* Reads what the file behind fd offers. *ret is newly allocated, or &nothing. 0 or negative
 * errno. */
static int read_file(const struct alloc_files *files, int fd, const char *path, bool shared,
		     const struct alloc_extra *const *extra, size_t n_extra,
		     struct alloc_file **ret, struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_(cleanup_file) struct alloc_file *file = NULL;
	_cleanup_free_ struct alloc_reader *r = NULL;
	const struct wanted wanted = {&files->names, extra, n_extra};
	const struct elf_wanted of_image = {is_wanted, &wanted, files->how.meanwhile};
	bool any = false;
	const char *soname;
	int rc;

	*ret = &nothing;
	rc = elf_image__open(fd, path, &of_image, &image, NULL);
	if (rc)
		return rc == -ENOMEM ? error__set(err, rc, "out of memory") : 0;
	/* In older glibc, the dynamic linker exports a malloc, but uses it only while the linker
	 * itself starts. */
	soname = elf_image__soname(image);
	if (soname && !strncmp(soname, "ld-linux", 8))
		return 0;
	file = calloc(1, sizeof(*file));
	r = calloc(1, sizeof(*r));
	if (!file || !r)
		return error__set(err, -ENOMEM, "out of memory");
	file->shared = shared;
	*r = (struct alloc_reader){
		.names = &files->names, .image = image, .file = file, .how = files->how};
	elf_image__each_function(image, note_symbol, r);
	for (size_t i = 0; i < files->names.n; i++)
		any |= file->defines[i];
	rc = n_extra ? add_extra(r, path, extra, n_extra, err) : alloc_reader__add_markers(r);
	any = any || file->n_parts || file->markers_why[0];
	if (!rc && any)
		rc = add_families(r);
	unwind_table__free(r->table);
	if (rc)
		return error__set(err, rc, "%s: %s", path, strerror(-rc));
	if (any || n_extra) {
		*ret = file;
		file = NULL;
	}
	return 0;
}

/* --- keeping --- */

int alloc_files__new(const struct binaries *binaries, const struct alloc_how *how,
		     struct alloc_files **ret)
{
	struct alloc_files *files = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	alloc_names__collect(&files->names);
	files->binaries = binaries;
	files->how = *how;
	*ret = files;
	return 0;
}

static void let_go(struct alloc_files *files)
{
	for (size_t i = 0; i < files->n_kept; i++) {
		alloc_file__free(files->kept[i]);
		files->kept[i] = NULL;
	}
	files->kept_bytes = 0;
}

void alloc_files__free(struct alloc_files *files)
{
	if (!files)
		return;
	let_go(files);
	alloc_file__free(files->passing);
	free(files->kept);
	free(files);
}

void alloc_files__forget(struct alloc_files *files, size_t index)
{
	if (index >= files->n_kept || !files->kept[index])
		return;
	files->kept_bytes -= alloc_file__bytes(files->kept[index]);
	alloc_file__free(files->kept[index]);
	files->kept[index] = NULL;
}

const struct alloc_names *alloc_files__names(const struct alloc_files *files)
{
	return &files->names;
}

/* Returns the slot in which the file's offers are kept, or NULL. */
static struct alloc_file **find_kept(struct alloc_files *files, const struct file_id *id)
{
	const struct binary *binary = files->binaries ? binaries__find(files->binaries, id) : NULL;

	if (!binary || binaries__grow(files->binaries, &files->kept, &files->n_kept,
				      sizeof(struct alloc_file *)))
		return NULL;
	return &files->kept[binary->index];
}

int alloc_files__open(const struct alloc_files *files, pid_t pid, const struct map_entry *entry)
{
	int fd = files->binaries ? binaries__open(files->binaries, &entry->file) : -ENOENT;

	return fd == -ENOENT ? maps__open_file(pid, entry) : fd;
}

bool alloc_files__have_interp(const struct alloc_files *files, const struct maps *maps)
{
	for (size_t i = 0; files->binaries && i < maps->n; i++) {
		const struct binary *binary =
			binaries__find(files->binaries, &maps->entries[i].file);

		if (binary && binary->image && elf_image__has_interp(binary->image))
			return true;
	}
	return false;
}

int alloc_files__look(struct alloc_files *files, pid_t pid, const struct map_entry *entry,
		      bool shared, const struct alloc_extra *const *extra, size_t n_extra,
		      const struct alloc_file **ret, struct error *err)
{
	/* The user's functions depend on the process ("exe" is its program), so they are not
	 * kept. */
	struct alloc_file **kept = n_extra ? NULL : find_kept(files, &entry->file), *file;
	_cleanup_close_ int fd = -1;
	int rc;

	alloc_file__free(files->passing);
	files->passing = NULL;
	*ret = &nothing;
	if (kept && *kept && (*kept == &nothing || (*kept)->shared == shared)) {
		*ret = *kept;
		return 0;
	}
	fd = alloc_files__open(files, pid, entry);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return error__set(err, fd, "cannot open %s of pid %d: %s", entry->path, pid,
				  strerror(-fd));
	if (fd < 0) {
		error__set(err, fd, "%s could not be opened: %s", entry->path, strerror(-fd));
		return -fd;
	}
	rc = read_file(files, fd, entry->path, shared, extra, n_extra, &file, err);
	if (rc)
		return rc;
	*ret = file;
	if (!kept) {
		files->passing = file;
		return 0;
	}
	if (files->kept_bytes + alloc_file__bytes(file) > MAX_KEPT_BYTES)
		let_go(files);
	alloc_files__forget(files, (size_t)(kept - files->kept));
	*kept = file;
	files->kept_bytes += alloc_file__bytes(file);
	return 0;
}
