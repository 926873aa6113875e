// SPDX-License-Identifier: BSD-2-Clause
/* Reads allocators' functions out of their files.
 *
 * Calls inside an allocator must not be counted a second time. Examples: a realloc that moves a
 * block calls malloc, realloc(NULL, n) jumps to malloc, and aligned_alloc with a small alignment
 * hands the call over to malloc. In a shared C library every ordinary caller reaches malloc through
 * the PLT, because malloc can be interposed. So a direct call to malloc's entry comes from the
 * allocator's own code. The kernel side gets the return addresses of such calls ("inner") and the
 * address ranges of the functions that hand calls over ("outer"). It compares the return addresses
 * of calls with both. In a library that is nothing but an allocator, any call from its code counts
 * as inner while an outer call is under way. A jump leaves no return address. So for jumps, the
 * kernel side remembers the outer call itself. If a function does nothing but jump to another one,
 * only the other one gets a probe.
 *
 * C++: the operators new and delete of the C++ libraries call malloc and free, and get no probes.
 * The operators of tcmalloc, jemalloc and mimalloc are entry points of their own, like malloc. An
 * operator new may throw, so it gets no return probe but probes on its ret instructions
 * (elf/exits.h). */
#include "capture/alloc_reader.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "elf/exits.h"
#include "elf/image.h"

#define MAX_UNWIND_ROWS (4u << 20) /* limit for the unwind table that is built to find exits */
#define MAX_KEPT_BYTES	(8u << 20)

struct alloc_files {
	struct alloc_names names;
	const struct binaries *binaries;
	struct alloc_how how;
	struct alloc_file **kept; /* indexed by the binary's index; NULL: not read, or freed */
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

static int __attribute__((format(printf, 3, 4)))
cannot(struct alloc_offer *offer, int rc, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(offer->why, sizeof(offer->why), fmt, args);
	va_end(args);
	offer->rc = rc;
	return 0;
}

/* Returns the highest number of an argument that the probe reads. */
static unsigned int n_args(const struct abi_func *func)
{
	unsigned int n = func->size_arg;

	n = func->count_arg > n ? func->count_arg : n;
	n = func->ptr_arg > n ? func->ptr_arg : n;
	n = func->pool_arg > n ? func->pool_arg : n;
	return func->out_arg > n ? func->out_arg : n;
}

/* Returns the register in which argument number n is at the probe; 0: none. */
static uint8_t place_of(const struct probe_site *site, uint8_t n)
{
	return n && n <= PROBE_SITE_ALL_ARGS ? site->args[n - 1] : 0;
}

/* Is the offer the part's first allocating function (malloc)? If its results cannot be seen, probes
 * on the other functions are of no use. */
static bool is_first_alloc(const struct alloc_part *part, const struct alloc_offer *offer)
{
	const struct alloc_offer *o = part->offers;

	while (o < offer && (o->func.role != ROLE_ALLOC || o->leads_to != ALLOC_NOWHERE))
		o++;
	return o == offer;
}

static int add_exits(struct alloc_reader *r, struct alloc_offer *offer)
{
	struct alloc_part *part = r->part;
	struct code_place insns[EXITS_MAX] = {}, *grown;
	struct exits exits = {};
	int rc = 0;

	if (!r->table && !r->no_table)
		r->no_table = unwind_table__build(r->image, MAX_UNWIND_ROWS, &r->table, NULL);
	if (r->no_table) {
		rc = -ENOTSUP;
		snprintf(exits.why, sizeof(exits.why), "no unwind information");
	}
	if (!rc)
		rc = exits__find(r->image, r->table, offer->func.vaddr, &exits);
	for (size_t i = 0; !rc && i < exits.n; i++)
		if (elf_image__vaddr_to_off(r->image, exits.vaddrs[i], &insns[i].off) ||
		    elf_image__read_code(r->image, exits.vaddrs[i], &insns[i].byte, 1) != 1) {
			rc = -ENOTSUP;
			snprintf(exits.why, sizeof(exits.why),
				 "a ret instruction is not in the file");
		}
	if (rc == -ENOTSUP && r->how.no_returns && is_first_alloc(part, offer))
		return cannot(offer, rc,
			      "its results cannot be seen without a return probe (%.64s)",
			      exits.why);
	if (rc) { /* no exits: calls of the function are counted as lost */
		offer->func.exits = 0;
		offer->func.blind = 1;
		snprintf(offer->site.why, sizeof(offer->site.why), "its results are lost: %.72s",
			 exits.why);
		return rc == -ENOMEM ? rc : 0;
	}
	grown = reallocarray(part->exits, part->n_exits + exits.n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	part->exits = grown;
	memcpy(grown + part->n_exits, insns, exits.n * sizeof(*insns));
	offer->first_exit = part->n_exits;
	offer->n_exits = exits.n;
	part->n_exits += exits.n;
	return 0;
}

/* Finds the place of the offer's probe. If there is no place, sets offer->rc. Returns 0 in both
 * cases, or -ENOMEM. */
static int place(struct alloc_reader *r, struct alloc_offer *offer, uint64_t size)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct abi_func *func = &offer->func;
	size_t want = size && size < 65536 ? size : 64;
	uint64_t off;
	long len;
	int rc;

	code = malloc(want);
	if (!code)
		return -ENOMEM;
	len = elf_image__read_code(r->image, func->vaddr, code, want);
	if (len <= 0)
		return cannot(offer, -ENOEXEC, "the symbol points to no code");
	rc = probe_site__choose(code, (size_t)len, func->vaddr, size, n_args(func), &offer->site);
	if (rc == -ENOMEM)
		return rc;
	if (rc)
		return cannot(offer, rc, "the code cannot be read: %.64s", offer->site.why);
	rc = elf_image__vaddr_to_off(r->image, func->vaddr + offer->site.delta, &off);
	if (rc)
		return cannot(offer, rc, "the symbol points outside the file");
	offer->insn = code_place__in(code, offer->site.delta, off);
	func->size_arg = place_of(&offer->site, func->size_arg);
	func->count_arg = place_of(&offer->site, func->count_arg);
	func->ptr_arg = place_of(&offer->site, func->ptr_arg);
	func->out_arg = place_of(&offer->site, func->out_arg);
	func->pool_arg = place_of(&offer->site, func->pool_arg);
	if (func->outer && r->alone)
		func->outer = OUTER_WITHIN;
	func->delta = offer->site.delta;
	if (r->how.no_returns && !abi_role__frees(func->role))
		func->exits = 1;
	return func->exits ? add_exits(r, offer) : 0;
}

/* If the offer at `index` only hands its calls over to another offer with the same role, returns
 * the index of the other offer. Else returns ALLOC_NOWHERE. */
static size_t hands_over(const struct alloc_reader *r, size_t index)
{
	const struct alloc_offer *offers = r->part->offers;
	uint64_t stages[EXITS_MAX_STAGES];
	size_t n = exits__hand_over(r->image, offers[index].func.vaddr, stages, EXITS_MAX_STAGES);

	for (size_t stage = 0; stage < n; stage++)
		for (size_t i = 0; i < r->part->n_offers; i++)
			if (i != index && offers[i].func.vaddr == stages[stage] &&
			    offers[i].func.role == offers[index].func.role)
				return i;
	return ALLOC_NOWHERE;
}

/* Finds the inner calls and the outer functions of the part. Looks at all functions of the part,
 * even those that the process does not use, because the kernel side has one table for all
 * processes. */
static void find_inner_calls(const struct alloc_reader *r, struct abi_object *o)
{
	if (r->alone)
		elf_image__code_span(r->image, (uint64_t *)&o->text_start,
				     (uint64_t *)&o->text_end);
	o->header = !strcmp(r->part->family, "glibc");
	for (size_t i = 0; i < r->part->n_offers; i++) {
		const struct abi_func *func = &r->part->offers[i].func;
		size_t room = ABI_MAX_INNER - o->n_inner, n;

		/* The inner calls of freeing functions are not needed: a block that is freed twice
		 * is recorded once. (A call of a freeing function with `outer` is inner if an outer
		 * function made it.) A function that makes a pool has direct callers everywhere,
		 * not only in the allocator. */
		if (r->interposed && !abi_role__frees(func->role) && !func->own) {
			n = elf_image__direct_callers(r->image, func->vaddr,
						      (uint64_t *)&o->inner[o->n_inner], room);
			o->n_inner += n < room ? n : room;
		}
		if (func->outer && !abi_role__frees(func->role) && r->sizes[i] &&
		    o->n_outer < ABI_MAX_OUTER)
			o->outer[o->n_outer++] =
				(struct abi_range){func->vaddr, func->vaddr + r->sizes[i]};
	}
	o->low = o->text_end ? o->text_start : ~0ULL;
	o->high = o->text_end;
	for (uint32_t i = 0; i < o->n_inner; i++) {
		o->low = o->inner[i] < o->low ? o->inner[i] : o->low;
		o->high = o->inner[i] > o->high ? o->inner[i] : o->high;
	}
	for (uint32_t i = 0; i < o->n_outer; i++) {
		o->low = o->outer[i].start < o->low ? o->outer[i].start : o->low;
		o->high = o->outer[i].end > o->high ? o->outer[i].end : o->high;
	}
}

int alloc_reader__add_offer(struct alloc_reader *r, size_t name, const char *text,
			    const struct abi_func *func, const struct elf_symbol *symbol)
{
	struct alloc_part *part = r->part;
	struct alloc_offer *offers;
	size_t i = 0;

	while (i < part->n_offers && part->offers[i].func.vaddr != symbol->vaddr)
		i++;
	if (i == ABI_MAX_FUNCS || part->n_aliases == ALLOC_MAX_NAMES)
		return 0;
	if (VECTOR_ADD_ROOM(part->aliases, part->n_aliases))
		return -ENOMEM;
	part->aliases[part->n_aliases++] =
		(struct alloc_alias){(uint16_t)name, (uint16_t)i, symbol->dynamic};
	if (i < part->n_offers)
		return 0;
	if (VECTOR_ADD_ROOM(part->offers, i)) {
		part->n_aliases--;
		return -ENOMEM;
	}
	offers = part->offers;
	offers[i] = (struct alloc_offer){.name = text, .func = *func, .leads_to = ALLOC_NOWHERE};
	offers[i].func.vaddr = symbol->vaddr;
	offers[i].bytes = symbol->size;
	r->sizes[i] = symbol->size;
	part->n_offers++;
	return 0;
}

void alloc_reader__begin_part(struct alloc_reader *r, const char *family)
{
	r->part = &r->file->parts[r->file->n_parts];
	r->part->family = family;
	r->alone = r->interposed = false;
}

/* Completes the current part when all its offers are known. 0 or -ENOMEM. */
static int end_part(struct alloc_reader *r)
{
	struct alloc_part *part = r->part;
	int rc = 0;

	r->file->n_parts++; /* the part is counted now, so that it is freed on failure */
	for (size_t i = 0; i < part->n_offers; i++)
		part->offers[i].leads_to = hands_over(r, i);
	for (size_t i = 0; i < part->n_offers && !rc; i++)
		if (part->offers[i].leads_to == ALLOC_NOWHERE)
			rc = place(r, &part->offers[i], r->sizes[i]);
	find_inner_calls(r, &part->object);
	if (!part->n_offers)
		r->file->n_parts--;
	return rc;
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
	/* the user named these: they are used even if another file defines the name, too */
	for (size_t i = 0; i < r->part->n_aliases; i++)
		r->part->aliases[i].exported = false;
	return end_part(r) ?: rc;
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
			       (symbol.dynamic && !exports(image, "gnu_get_libc_version"));
	return false;
}

/* Does an earlier part of the file have the function already: the part of the user's functions, or
 * the part of an earlier family? */
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

/* Returns what the function does, as far as this run follows it. Only runs without a limit of
 * overhead follow the ends of pools. */
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
	if (!elf_image__find_object(r->image, "sapi_module", &symbol))
		r->file->sapi = symbol.vaddr;
	alloc_reader__note_shift(r);
}

/* Offers those functions of one list of the family that the file has. claimed: indexed by the
 * name's number; true if an earlier list or family has offered the function. 0 or -ENOMEM. */
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
		/* if no code calls the function directly, no direct call has to be recognized */
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
		rc = end_part(r) ?: rc;
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

/* Reads what the file behind fd offers. *ret is newly allocated, or &nothing. 0 or negative
 * errno. */
static int read_file(const struct alloc_files *files, int fd, const char *path, bool shared,
		     const struct alloc_extra *const *extra, size_t n_extra,
		     struct alloc_file **ret, struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_(cleanup_file) struct alloc_file *file = NULL;
	_cleanup_free_ struct alloc_reader *r = NULL;
	bool any = false;
	const char *soname;
	int rc;

	*ret = &nothing;
	rc = elf_image__open(fd, path, &image, NULL);
	if (rc)
		return rc == -ENOMEM ? error__set(err, rc, "out of memory") : 0;
	/* The dynamic linker of older glibc exports a malloc, which only serves the linker's own
	 * start. */
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
	if (*kept) {
		files->kept_bytes -= alloc_file__bytes(*kept);
		alloc_file__free(*kept);
	}
	*kept = file;
	files->kept_bytes += alloc_file__bytes(file);
	return 0;
}
