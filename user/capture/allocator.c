// SPDX-License-Identifier: BSD-2-Clause
/* Finding the allocators, and reading their functions out of their files.
 *
 * Calls inside an allocator. realloc that moves a block calls malloc, realloc(NULL, n) jumps to
 * it, aligned_alloc with a small alignment hands over to it: such a call must not be counted a
 * second time. In a shared C library every ordinary caller reaches malloc through the PLT, because
 * malloc can be interposed; a direct call to its entry comes from the allocator's own code. Their
 * return addresses ("inner"), and the bodies of the functions that hand over ("outer"), are given
 * to the kernel side, which compares them with the return address of the call. In a library that is
 * nothing but an allocator any call from its code counts as inner while an outer one is under way.
 * Jumps leave no return address; there the kernel side remembers the outer call itself. A function
 * that does nothing but jump to another one is not probed at all: that one is.
 *
 * C++. The operators new and delete of the C++ libraries call malloc and free and are no
 * allocators; those of tcmalloc, jemalloc and mimalloc are doors of their own. An operator new may
 * throw, so it gets no return probe but probes on its ret instructions (elf/exits.h). */
#include "capture/allocator.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/exits.h"
#include "elf/image.h"
#include "proc/link_map.h"
#include "proc/process.h"

#define MAX_UNWIND_ROWS (4u << 20) /* for finding exits */

/* --- the table: a new allocator is new rows --- */

struct alloc_function {
	const char *name;
	struct abi_func func;
};

struct alloc_family {
	const char *name;
	const char *markers[4]; /* symbols that only this allocator defines: any will do */
	const struct alloc_function *functions[5]; /* lists of them, each ended by an empty row */
	enum home {
		HOME_LIBC,     /* the C library's own: others reach it through the PLT */
		HOME_LIBRARY,  /* a library of it holds nothing else; or it is linked into a program
				*/
		HOME_EMBEDDED, /* always linked into something */
	} home;
};

#define ALLOC(...)                                                                                 \
	{                                                                                          \
		.role = ROLE_ALLOC, __VA_ARGS__                                                    \
	}
#define REALLOC(...)                                                                               \
	{                                                                                          \
		.role = ROLE_REALLOC, .outer = 1, __VA_ARGS__                                      \
	}
#define FREE                                                                                       \
	{                                                                                          \
		.role = ROLE_FREE, .ptr_arg = 1                                                    \
	}

/* Functions that everybody calls by these names, with p before each. reallocarray is none of them:
 * it checks the product and calls realloc. calloc_outer: calloc calls malloc. */
#define MALLOC_FAMILY(p, calloc_outer)                                                             \
	{p "malloc", ALLOC(.size_arg = 1)},                                                        \
		{p "calloc", ALLOC(.size_arg = 2, .count_arg = 1, .outer = calloc_outer)},         \
		{p "realloc", REALLOC(.ptr_arg = 1, .size_arg = 2)},                               \
		{p "posix_memalign", ALLOC(.out_arg = 1, .size_arg = 3, .outer = 1)},              \
		{p "aligned_alloc", ALLOC(.size_arg = 2, .outer = 1)},                             \
		{p "memalign", ALLOC(.size_arg = 2, .outer = 1)},                                  \
		{p "valloc", ALLOC(.size_arg = 1, .outer = 1)},                                    \
		{p "pvalloc", ALLOC(.size_arg = 1, .outer = 1)}, {p "free", FREE},                 \
		{p "cfree", FREE}, {p "free_sized", FREE}, /* C23 */                               \
	{                                                                                          \
		p "free_aligned_sized", FREE                                                       \
	}

#define JEMALLOC_FAMILY(p)                                                                         \
	{p "mallocx", ALLOC(.size_arg = 1, .outer = 1)},                                           \
		{p "rallocx", REALLOC(.ptr_arg = 1, .size_arg = 2)},                               \
		{p "xallocx", REALLOC(.ptr_arg = 1, .size_arg = 2, .in_place = 1)},                \
		{p "dallocx", FREE},                                                               \
	{                                                                                          \
		p "sdallocx", FREE                                                                 \
	}

#define NEW(...) ALLOC(.size_arg = 1, .outer = 1, __VA_ARGS__)

static const struct alloc_function plain_functions[] = {MALLOC_FAMILY("", 0), {}};
static const struct alloc_function musl_functions[] = {MALLOC_FAMILY("", 1), {}};

static const struct alloc_function cxx_functions[] = {
	{"_Znwm", NEW(.exits = 1)}, /* operator new(size_t) */
	{"_Znam", NEW(.exits = 1)}, /* new[] */
	{"_ZnwmSt11align_val_t", NEW(.exits = 1)},
	{"_ZnamSt11align_val_t", NEW(.exits = 1)},
	{"_ZnwmRKSt9nothrow_t", NEW()},
	{"_ZnamRKSt9nothrow_t", NEW()},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", NEW()},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", NEW()},
	{"_ZdlPv", FREE},
	{"_ZdaPv", FREE},
	{"_ZdlPvm", FREE},
	{"_ZdaPvm", FREE},
	{"_ZdlPvRKSt9nothrow_t", FREE},
	{"_ZdaPvRKSt9nothrow_t", FREE},
	{"_ZdlPvSt11align_val_t", FREE},
	{"_ZdaPvSt11align_val_t", FREE},
	{"_ZdlPvmSt11align_val_t", FREE},
	{"_ZdaPvmSt11align_val_t", FREE},
	{"_ZdlPvSt11align_val_tRKSt9nothrow_t", FREE},
	{"_ZdaPvSt11align_val_tRKSt9nothrow_t", FREE},
	{},
};

static const struct alloc_function jemalloc_functions[] = {
	JEMALLOC_FAMILY(""),
	{},
};

static const struct alloc_function je_functions[] = {
	MALLOC_FAMILY("je_", 0),
	JEMALLOC_FAMILY("je_"),
	{},
};

/* Rust's, by the crate that brings it. */
static const struct alloc_function rjem_functions[] = {
	MALLOC_FAMILY("_rjem_", 0),
	JEMALLOC_FAMILY("_rjem_"),
	MALLOC_FAMILY("__rjem_", 0),
	JEMALLOC_FAMILY("__rjem_"),
	{},
};

static const struct alloc_function tc_functions[] = {
	MALLOC_FAMILY("tc_", 0),
	{"tc_malloc_skip_new_handler", ALLOC(.size_arg = 1)},
	{"tc_new", NEW(.exits = 1)},
	{"tc_newarray", NEW(.exits = 1)},
	{"tc_new_aligned", NEW(.exits = 1)},
	{"tc_newarray_aligned", NEW(.exits = 1)},
	{"tc_new_nothrow", NEW()},
	{"tc_newarray_nothrow", NEW()},
	{"tc_new_aligned_nothrow", NEW()},
	{"tc_newarray_aligned_nothrow", NEW()},
	{"tc_delete", FREE},
	{"tc_deletearray", FREE},
	{"tc_delete_sized", FREE},
	{"tc_deletearray_sized", FREE},
	{"tc_delete_nothrow", FREE},
	{"tc_deletearray_nothrow", FREE},
	{"tc_delete_aligned", FREE},
	{"tc_deletearray_aligned", FREE},
	{"tc_delete_sized_aligned", FREE},
	{"tc_deletearray_sized_aligned", FREE},
	{"tc_delete_aligned_nothrow", FREE},
	{"tc_deletearray_aligned_nothrow", FREE},
	{},
};

/* Google's own. size_returning_new answers in rax (the block) and rdx. */
static const struct alloc_function google_functions[] = {
	{"TCMallocInternalMalloc", ALLOC(.size_arg = 1)},
	{"TCMallocInternalCalloc", ALLOC(.size_arg = 2, .count_arg = 1)},
	{"TCMallocInternalRealloc", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"TCMallocInternalReallocArray", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2)},
	{"TCMallocInternalPosixMemalign", ALLOC(.out_arg = 1, .size_arg = 3, .outer = 1)},
	{"TCMallocInternalAlignedAlloc", ALLOC(.size_arg = 2, .outer = 1)},
	{"TCMallocInternalMemalign", ALLOC(.size_arg = 2, .outer = 1)},
	{"TCMallocInternalValloc", ALLOC(.size_arg = 1, .outer = 1)},
	{"TCMallocInternalPvalloc", ALLOC(.size_arg = 1, .outer = 1)},
	{"TCMallocInternalFree", FREE},
	{"TCMallocInternalCfree", FREE},
	{"TCMallocInternalFreeSized", FREE},
	{"TCMallocInternalFreeAlignedSized", FREE},
	{"TCMallocInternalSdallocx", FREE},
	{"sdallocx", FREE},
	{"TCMallocInternalNew", NEW(.exits = 1)},
	{"TCMallocInternalNewArray", NEW(.exits = 1)},
	{"TCMallocInternalNewAligned", NEW(.exits = 1)},
	{"TCMallocInternalNewArrayAligned", NEW(.exits = 1)},
	{"TCMallocInternalNewNothrow", NEW()},
	{"TCMallocInternalNewArrayNothrow", NEW()},
	{"TCMallocInternalNewAlignedNothrow", NEW()},
	{"TCMallocInternalNewArrayAlignedNothrow", NEW()},
	{"__size_returning_new", NEW(.exits = 1)},
	{"__size_returning_new_aligned", NEW(.exits = 1)},
	{"__size_returning_new_hot_cold", NEW(.exits = 1)},
	{"__size_returning_new_aligned_hot_cold", NEW(.exits = 1)},
	{"_Znwm12__hot_cold_t", NEW(.exits = 1)},
	{"_Znam12__hot_cold_t", NEW(.exits = 1)},
	{"_ZnwmSt11align_val_t12__hot_cold_t", NEW(.exits = 1)},
	{"_ZnamSt11align_val_t12__hot_cold_t", NEW(.exits = 1)},
	{"_ZnwmRKSt9nothrow_t12__hot_cold_t", NEW()},
	{"_ZnamRKSt9nothrow_t12__hot_cold_t", NEW()},
	{"TCMallocInternalDelete", FREE},
	{"TCMallocInternalDeleteArray", FREE},
	{"TCMallocInternalDeleteSized", FREE},
	{"TCMallocInternalDeleteArraySized", FREE},
	{"TCMallocInternalDeleteAligned", FREE},
	{"TCMallocInternalDeleteArrayAligned", FREE},
	{"TCMallocInternalDeleteSizedAligned", FREE},
	{"TCMallocInternalDeleteArraySizedAligned", FREE},
	{"TCMallocInternalDeleteNothrow", FREE},
	{"TCMallocInternalDeleteArrayNothrow", FREE},
	{},
};

/* Most come twice: for the thread's heap, and with another one as the first argument. */
static const struct alloc_function mi_functions[] = {
	MALLOC_FAMILY("mi_", 0),
	{"mi_malloc_small", ALLOC(.size_arg = 1)},
	{"mi_zalloc_small", ALLOC(.size_arg = 1)},
	{"mi_zalloc", ALLOC(.size_arg = 1, .outer = 1)},
	{"mi_mallocn", ALLOC(.size_arg = 2, .count_arg = 1, .outer = 1)},
	{"mi_reallocn", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2)},
	{"mi_reallocf", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_rezalloc", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_recalloc", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2)},
	{"mi_expand", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_malloc_aligned", ALLOC(.size_arg = 1, .outer = 1)},
	{"mi_malloc_aligned_at", ALLOC(.size_arg = 1, .outer = 1)},
	{"mi_zalloc_aligned", ALLOC(.size_arg = 1, .outer = 1)},
	{"mi_zalloc_aligned_at", ALLOC(.size_arg = 1, .outer = 1)},
	{"mi_calloc_aligned", ALLOC(.size_arg = 2, .count_arg = 1, .outer = 1)},
	{"mi_calloc_aligned_at", ALLOC(.size_arg = 2, .count_arg = 1, .outer = 1)},
	{"mi_realloc_aligned", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_realloc_aligned_at", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_rezalloc_aligned", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_rezalloc_aligned_at", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_recalloc_aligned", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2)},
	{"mi_recalloc_aligned_at", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2)},
	{"mi_heap_malloc", ALLOC(.size_arg = 2)},
	{"mi_heap_malloc_small", ALLOC(.size_arg = 2)},
	{"mi_heap_zalloc", ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_calloc", ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_mallocn", ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_realloc", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_reallocn", REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_reallocf", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_recalloc", REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_malloc_aligned", ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_malloc_aligned_at", ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_zalloc_aligned", ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_zalloc_aligned_at", ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_calloc_aligned", ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_calloc_aligned_at", ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_realloc_aligned", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_realloc_aligned_at", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc_aligned", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc_aligned_at", REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_recalloc_aligned", REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_recalloc_aligned_at", REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"reallocf", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_new", NEW(.exits = 1)},
	{"mi_new_aligned", NEW(.exits = 1)},
	{"mi_new_n", ALLOC(.size_arg = 2, .count_arg = 1, .outer = 1, .exits = 1)},
	{"mi_new_realloc", REALLOC(.ptr_arg = 1, .size_arg = 2, .exits = 1)},
	{"mi_new_reallocn", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2, .exits = 1)},
	{"mi_heap_alloc_new", ALLOC(.size_arg = 2, .outer = 1, .exits = 1)},
	{"mi_heap_alloc_new_n", ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1, .exits = 1)},
	{"mi_new_nothrow", NEW()},
	{"mi_new_aligned_nothrow", NEW()},
	{"mi_free_size", FREE},
	{"mi_free_aligned", FREE},
	{"mi_free_size_aligned", FREE},
	{"vfree", FREE},
	{},
};

/* tcmalloc and mimalloc go by glibc's names, too: they come first. */
static const struct alloc_family families[] = {
	{"tcmalloc", {"tc_malloc"}, {plain_functions, cxx_functions, tc_functions}, HOME_LIBRARY},
	{"tcmalloc",
	 {"TCMallocInternalMalloc"},
	 {plain_functions, cxx_functions, google_functions},
	 HOME_LIBRARY},
	{"mimalloc", {"mi_malloc"}, {plain_functions, cxx_functions, mi_functions}, HOME_LIBRARY},
	{"jemalloc",
	 {"mallctl", "mallocx"},
	 {plain_functions, cxx_functions, jemalloc_functions},
	 HOME_LIBRARY},
	{"jemalloc", {"je_mallctl", "je_mallocx", "je_malloc"}, {je_functions}, HOME_EMBEDDED},
	{"jemalloc",
	 {"_rjem_malloc", "_rjem_mallocx", "__rjem_malloc", "__rjem_mallocx"},
	 {rjem_functions},
	 HOME_EMBEDDED},
	{"musl",
	 {"__dls3", "__libc_malloc_impl", "__simple_malloc", "__malloc_donate"},
	 {musl_functions},
	 HOME_LIBC},
	{"glibc", {"__libc_malloc"}, {plain_functions}, HOME_LIBC},
	{},
};

/* --- names --- */

#define MAX_NAMES 640

/* Every name of the table, sorted, and what is known of it. */
struct names {
	const char *name[MAX_NAMES];
	size_t n;
	bool taken[MAX_NAMES];	  /* a file earlier in link order defines it for others */
	bool here[MAX_NAMES];	  /* the file at hand defines it: at all, */
	bool exported[MAX_NAMES]; /* for others */
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void collect_names(struct names *names)
{
	size_t n = 0;

	for (const struct alloc_family *f = families; f->name; f++)
		for (size_t l = 0; l < 5 && f->functions[l]; l++)
			for (const struct alloc_function *fn = f->functions[l]; fn->name; fn++)
				if (names->n < MAX_NAMES)
					names->name[names->n++] = fn->name;
	qsort(names->name, names->n, sizeof(names->name[0]), compare_names);
	for (size_t i = 0; i < names->n; i++)
		if (!n || strcmp(names->name[n - 1], names->name[i]) != 0)
			names->name[n++] = names->name[i];
	names->n = n;
}

static size_t find_name(const struct names *names, const char *name)
{
	const char *const *found =
		bsearch(&name, names->name, names->n, sizeof(names->name[0]), compare_names);

	return found ? (size_t)(found - names->name) : SIZE_MAX;
}

static int note_symbol(const struct elf_symbol *symbol, void *ctx)
{
	struct names *names = ctx;
	size_t i = find_name(names, symbol->name);

	if (i != SIZE_MAX) {
		names->here[i] = true;
		names->exported[i] |= symbol->dynamic;
	}
	return 0;
}

/* --- reading one file --- */

/* A function that a file has to offer. */
struct candidate {
	const char *name;
	struct abi_func func;
	struct elf_symbol symbol;
	bool used;	 /* the process's calls reach it */
	bool hands_over; /* and go on to another one */
};

struct reader {
	pid_t pid;
	const struct map_entry *entry;
	struct elf_image *image;
	bool interposed; /* ordinary callers come through the PLT, a direct call is the allocator's
			  */
	bool alone;	 /* the file holds nothing else */
	struct unwind_table *table; /* when it was needed */
	struct candidate candidates[ABI_MAX_FUNCS];
	size_t n;
};

/* Arguments that the probe reads. */
static unsigned int n_args(const struct abi_func *func)
{
	unsigned int n = func->size_arg;

	n = func->count_arg > n ? func->count_arg : n;
	n = func->ptr_arg > n ? func->ptr_arg : n;
	return func->out_arg > n ? func->out_arg : n;
}

/* Where argument number n is at the probe. */
static uint8_t place_of(const struct probe_site *site, uint8_t n)
{
	return n && n <= PROBE_SITE_ALL_ARGS ? site->args[n - 1] : 0;
}

/* Does the process have other code at off than the file? The kernel puts the probe over the file's
 * instruction. Where a process has changed its own copy of the code (hot patching), that would undo
 * the change: do not touch it. A breakpoint of a debugger or of another tracer is no such change.
 */
static bool is_patched(const struct reader *r, uint64_t off, uint8_t byte)
{
	uint8_t now;

	return off >= r->entry->off && off - r->entry->off < r->entry->end - r->entry->start &&
	       !process__read_memory(r->pid, r->entry->start + (off - r->entry->off), &now, 1) &&
	       now != byte && now != 0xcc;
}

static int add_exits(struct allocator *a, struct reader *r, struct alloc_point *point)
{
	struct exits exits;
	uint64_t offs[EXITS_MAX];
	int rc = 0;

	if (!r->table) {
		rc = unwind_table__build(r->image, MAX_UNWIND_ROWS, &r->table, NULL);
		if (rc)
			snprintf(exits.why, sizeof(exits.why), "no unwind information");
	}
	if (!rc)
		rc = exits__find(r->image, r->table, point->func.vaddr, &exits);
	for (size_t i = 0; !rc && i < exits.n; i++) {
		uint8_t ret = 0;

		if (elf_image__vaddr_to_off(r->image, exits.vaddrs[i], &offs[i]) ||
		    elf_image__read_code(r->image, exits.vaddrs[i], &ret, 1) != 1 ||
		    is_patched(r, offs[i], ret)) {
			rc = -ENOTSUP;
			snprintf(exits.why, sizeof(exits.why), "a ret instruction was patched");
		}
	}
	if (!rc && a->n_exits + exits.n > ALLOC_MAX_EXITS) {
		rc = -ENOTSUP;
		snprintf(exits.why, sizeof(exits.why), "too many ret instructions");
	}
	if (rc) { /* its calls are counted as lost */
		point->func.exits = 0;
		point->func.blind = 1;
		snprintf(point->site.why, sizeof(point->site.why), "its results are lost: %.72s",
			 exits.why);
		return rc == -ENOMEM ? rc : 0;
	}
	for (size_t i = 0; i < exits.n; i++) {
		bool known = false;

		for (size_t j = 0; j < a->n_exits; j++)
			known = known || a->exits[j] == offs[i];
		if (!known)
			a->exits[a->n_exits++] = offs[i];
	}
	return 0;
}

static int add_point(struct allocator *a, struct reader *r, const struct candidate *c,
		     struct error *err)
{
	struct alloc_point *point = &a->points[a->n_points];
	_cleanup_free_ uint8_t *code = NULL;
	const struct elf_symbol *symbol = &c->symbol;
	uint64_t off;
	size_t want;
	long len;
	int rc;

	want = symbol->size && symbol->size < 65536 ? symbol->size : 64;
	code = malloc(want);
	if (!code)
		return error__set(err, -ENOMEM, "out of memory");
	len = elf_image__read_code(r->image, symbol->vaddr, code, want);
	if (len <= 0)
		return error__set(err, -ENOEXEC, "%s: the symbol %s points to no code", a->path,
				  c->name);
	rc = probe_site__choose(code, (size_t)len, symbol->vaddr, symbol->size, n_args(&c->func),
				&point->site);
	if (rc)
		return error__set(err, rc, "%s: the code of %s cannot be read: %s", a->path,
				  c->name, point->site.why);
	rc = elf_image__vaddr_to_off(r->image, symbol->vaddr + point->site.delta, &off);
	if (rc)
		return error__set(err, rc, "%s: the symbol %s points outside the file", a->path,
				  c->name);
	if (!point->site.nop && is_patched(r, off, code[point->site.delta]))
		return error__set(err, -EBUSY,
				  "the code of %s in pid %d is not that of %s: it was patched "
				  "while running, and is left alone",
				  c->name, r->pid, a->path);
	point->name = c->name;
	point->func = c->func;
	point->func.size_arg = place_of(&point->site, c->func.size_arg);
	point->func.count_arg = place_of(&point->site, c->func.count_arg);
	point->func.ptr_arg = place_of(&point->site, c->func.ptr_arg);
	point->func.out_arg = place_of(&point->site, c->func.out_arg);
	if (point->func.outer && r->alone)
		point->func.outer = OUTER_WITHIN;
	point->func.delta = point->site.delta;
	point->func.vaddr = symbol->vaddr;
	point->off = off;
	if (c->func.exits) {
		rc = add_exits(a, r, point);
		if (rc)
			return error__set(err, rc, "out of memory");
	}
	a->n_points++;
	return 0;
}

/* A function that does nothing but hand over to another one of the kind is not probed: that one is.
 */
static bool hands_over(struct reader *r, size_t index)
{
	const struct candidate *c = &r->candidates[index];
	uint64_t stages[EXITS_MAX_STAGES];
	size_t n = exits__hand_over(r->image, c->symbol.vaddr, stages, EXITS_MAX_STAGES);

	for (size_t stage = 0; stage < n; stage++)
		for (size_t i = 0; i < r->n; i++)
			if (i != index && r->candidates[i].symbol.vaddr == stages[stage] &&
			    r->candidates[i].func.role == c->func.role) {
				r->candidates[i].used = true;
				return true;
			}
	return false;
}

/* For all functions of the file, whichever of them this process uses: the kernel side has one table
 * for all processes. */
static void find_inner_calls(struct abi_object *o, const struct reader *r)
{
	if (r->alone)
		elf_image__code_span(r->image, (uint64_t *)&o->text_start,
				     (uint64_t *)&o->text_end);
	for (size_t i = 0; i < r->n; i++) {
		const struct candidate *c = &r->candidates[i];
		size_t room = ABI_MAX_INNER - o->n_inner, n;

		/* Freeing twice books once: no need. */
		if (r->interposed && c->func.role != ROLE_FREE) {
			n = elf_image__direct_callers(r->image, c->symbol.vaddr,
						      (uint64_t *)&o->inner[o->n_inner], room);
			o->n_inner += n < room ? n : room;
		}
		if (c->func.outer && c->symbol.size && o->n_outer < ABI_MAX_OUTER)
			o->outer[o->n_outer++] = (struct abi_range){
				c->symbol.vaddr, c->symbol.vaddr + c->symbol.size};
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

static void add_candidate(struct reader *r, const char *name, const struct abi_func *func,
			  const struct elf_symbol *symbol, bool used)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->candidates[i].symbol.vaddr == symbol->vaddr) { /* an alias */
			r->candidates[i].used |= used;
			return;
		}
	if (r->n < ABI_MAX_FUNCS)
		r->candidates[r->n++] = (struct candidate){
			.name = name, .func = *func, .symbol = *symbol, .used = used};
}

static void allocator__free(struct allocator *a)
{
	if (!a)
		return;
	if (a->fd >= 0)
		close(a->fd);
	free(a->path);
	free(a);
}

/* Makes an allocator of the candidates that are used; adds none when there are none. */
static int add_allocator(struct allocators *all, struct reader *r, const char *family, int fd,
			 struct error *err)
{
	struct allocator **grown, *a;
	bool any = false;
	int rc = 0;

	for (size_t i = 0; i < r->n; i++)
		any |= r->candidates[i].used;
	if (!any)
		return 0;
	grown = realloc(all->list, (all->n + 1) * sizeof(*grown));
	a = calloc(1, sizeof(*a));
	if (grown)
		all->list = grown;
	if (!grown || !a) {
		free(a);
		return error__set(err, -ENOMEM, "out of memory");
	}
	a->family = family;
	a->path = strdup(r->entry->path);
	a->file = r->entry->file;
	a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!a->path || a->fd < 0)
		rc = error__set(err, -ENOMEM, "out of memory or descriptors");
	for (size_t i = 0; i < r->n; i++)
		r->candidates[i].hands_over = r->candidates[i].used && hands_over(r, i);
	for (size_t i = 0; i < r->n && !rc; i++)
		if (r->candidates[i].used && !r->candidates[i].hands_over)
			rc = add_point(a, r, &r->candidates[i], err);
	if (rc || !a->n_points) {
		allocator__free(a);
		return rc;
	}
	find_inner_calls(&a->object, r);
	all->list[all->n++] = a;
	return 0;
}

/* --- which file's functions are used --- */

struct search {
	struct allocators *all;
	pid_t pid;
	const struct alloc_extra *extra;
	size_t n_extra;
	struct names *names;
	bool late;	   /* files that were mapped while tracing */
	bool shared;	   /* a dynamic linker is at work */
	char unknown[256]; /* the file whose malloc is of no known family, or "" */
	char *exe;	   /* path of the program */
};

static bool is_family(const struct alloc_family *f, const struct elf_image *image)
{
	struct elf_symbol symbol;

	for (size_t i = 0; i < 4 && f->markers[i]; i++)
		if (!elf_image__find_function(image, f->markers[i], &symbol))
			return true;
	return false;
}

static bool is_named(const struct search *s, const struct alloc_extra *extra, const char *path)
{
	const char *base = strrchr(path, '/');

	if (!strcmp(extra->file, "exe"))
		return s->exe && !strcmp(s->exe, path);
	if (strchr(extra->file, '/'))
		return !strcmp(extra->file, path);
	return !strcmp(extra->file, base ? base + 1 : path);
}

static int add_extra(struct search *s, struct reader *r, int fd, struct error *err)
{
	r->n = 0;
	r->alone = r->interposed = false;
	for (size_t i = 0; i < s->n_extra; i++) {
		const struct alloc_extra *extra = &s->extra[i];
		struct elf_symbol symbol;

		if (!is_named(s, extra, r->entry->path))
			continue;
		if (elf_image__find_function(r->image, extra->symbol, &symbol) ||
		    symbol.type != STT_FUNC)
			return error__set(err, -ENOENT, "%s has no function %s", r->entry->path,
					  extra->symbol);
		add_candidate(r, extra->symbol, &extra->func, &symbol, true);
	}
	return add_allocator(s->all, r, "named", fd, err);
}

static bool is_plain(const char *name)
{
	for (const struct alloc_function *fn = plain_functions; fn->name; fn++)
		if (!strcmp(fn->name, name))
			return true;
	return false;
}

/* Has the user given the function of the file at hand a meaning of his own? */
static bool is_taken_by_extra(const struct search *s, const struct reader *r, uint64_t vaddr)
{
	for (size_t i = 0; i < s->all->n; i++)
		for (size_t j = 0; j < s->all->list[i]->n_points; j++)
			if (file_id__equal(&s->all->list[i]->file, &r->entry->file) &&
			    s->all->list[i]->points[j].func.vaddr == vaddr)
				return true;
	return false;
}

/* Is function i of the table, defined by the file at hand, what calls reach? */
static bool is_used(const struct search *s, const struct elf_symbol *symbol, size_t i)
{
	size_t m = find_name(s->names, "malloc");

	if (!symbol->dynamic || s->late || !s->shared)
		return true; /* its own copy; or it was asked for by address */
	if (s->names->taken[i])
		return false;
	/* What belongs to a malloc that lost has lost with it (glibc's pvalloc, when jemalloc is
	 * used). */
	return !s->names->taken[m] || !s->names->exported[m] || !is_plain(symbol->name);
}

static int add_families(struct search *s, struct reader *r, int fd, bool *ret_known,
			struct error *err)
{
	_cleanup_free_ bool *claimed = calloc(s->names->n, sizeof(*claimed));
	int rc = 0;

	if (!claimed)
		return error__set(err, -ENOMEM, "out of memory");
	for (const struct alloc_family *f = families; f->name && !rc; f++) {
		if (!is_family(f, r->image))
			continue;
		*ret_known = true;
		r->n = 0;
		r->alone = f->home == HOME_LIBRARY && elf_image__soname(r->image);
		r->interposed = f->home == HOME_LIBC && s->shared;
		for (size_t l = 0; l < 5 && f->functions[l]; l++)
			for (const struct alloc_function *fn = f->functions[l]; fn->name; fn++) {
				size_t i = find_name(s->names, fn->name);
				struct elf_symbol symbol;

				if (i == SIZE_MAX || !s->names->here[i] || claimed[i] ||
				    elf_image__find_function(r->image, fn->name, &symbol) ||
				    symbol.type != STT_FUNC ||
				    is_taken_by_extra(s, r, symbol.vaddr))
					continue;
				claimed[i] = true;
				add_candidate(r, fn->name, &fn->func, &symbol,
					      is_used(s, &symbol, i));
			}
		rc = add_allocator(s->all, r, f->name, fd, err);
	}
	return rc;
}

/* Takes in what the file behind entry has. 0 or negative errno. */
static int read_file(struct search *s, const struct map_entry *entry, struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ struct reader *r = NULL;
	struct file_id *grown;
	struct names *names = s->names;
	bool known = false, any = false;
	const char *soname;
	size_t m;
	int rc;

	for (size_t i = 0; i < s->all->n_seen; i++)
		if (file_id__equal(&s->all->seen[i], &entry->file))
			return 0;
	fd = maps__open_file(s->pid, entry);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return error__set(err, fd, "cannot open %s of pid %d: %s", entry->path, s->pid,
				  strerror(-fd));
	grown = realloc(s->all->seen, (s->all->n_seen + 1) * sizeof(*grown));
	r = calloc(1, sizeof(*r));
	if (grown)
		s->all->seen = grown;
	if (!grown || !r)
		return error__set(err, -ENOMEM, "out of memory");
	s->all->seen[s->all->n_seen++] = entry->file;
	if (fd < 0 || elf_image__open(fd, entry->path, &image, NULL))
		return 0;
	/* The dynamic linker of older glibc exports a malloc for its own start. */
	soname = elf_image__soname(image);
	if (soname && !strncmp(soname, "ld-linux", 8))
		return 0;

	memset(names->here, 0, sizeof(names->here));
	memset(names->exported, 0, sizeof(names->exported));
	elf_image__each_function(image, note_symbol, names);
	for (size_t i = 0; i < names->n; i++)
		any |= names->here[i];
	*r = (struct reader){.pid = s->pid, .entry = entry, .image = image};
	rc = add_extra(s, r, fd, err);
	if (!rc && any)
		rc = add_families(s, r, fd, &known, err);
	unwind_table__free(r->table);
	if (rc)
		return rc;
	m = find_name(names, "malloc");
	if (names->here[m] && !known && !s->late &&
	    (!s->shared || (names->exported[m] && !names->taken[m])))
		snprintf(s->unknown, sizeof(s->unknown), "%s", entry->path);
	for (size_t i = 0; i < names->n; i++)
		names->taken[i] |= names->exported[i];
	return 0;
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

static int read_all(struct search *s, const struct maps *maps, bool loading, struct error *err)
{
	uint64_t dynamics[1024];
	long n = loading || s->late ? -ENODATA : link_map__read(s->pid, dynamics, 1024);
	int rc = 0;

	s->shared = n > 0 || loading || s->late;
	for (long i = 0; i < n && !rc; i++) {
		const struct map_entry *entry = code_of(maps, dynamics[i]);

		rc = entry ? read_file(s, entry, err) : 0;
	}
	/* No list: a static program, or one still being loaded, of which all that is mapped so far
	 * came in link order. What is not on the list was loaded aside from it. */
	for (size_t i = 0; i < maps->n && !rc; i++) {
		const struct map_entry *entry = &maps->entries[i];

		if (!entry->executable || !entry->file.inode ||
		    file_id__equal(&entry->file, &FILE_ID_VDSO))
			continue;
		rc = read_file(s, entry, err);
		/* late: one file that cannot be used is no reason to leave the others */
		if (s->late && rc) {
			s->all->n_refused++;
			rc = 0;
		}
	}
	return rc;
}

static char *read_exe(pid_t pid)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return strdup(path);
}

int allocators__find(pid_t pid, const struct maps *maps, bool loading,
		     const struct alloc_extra *extra, size_t n_extra, struct allocators **ret,
		     struct error *err)
{
	_cleanup_free_ struct names *names = calloc(1, sizeof(*names));
	_cleanup_free_ char *exe = read_exe(pid);
	struct allocators *all = calloc(1, sizeof(*all));
	struct search search = {.all = all,
				.pid = pid,
				.extra = extra,
				.n_extra = n_extra,
				.names = names,
				.exe = exe};
	int rc;

	if (!names || !all) {
		free(all);
		return error__set(err, -ENOMEM, "out of memory");
	}
	collect_names(names);
	rc = read_all(&search, maps, loading, err);
	if (!rc && search.unknown[0] && !n_extra)
		rc = error__set(
			err, -ENOTSUP,
			"malloc of pid %d is that of %s, an allocator that memtrace does not "
			"know (known: glibc, musl, jemalloc, tcmalloc, mimalloc); its functions "
			"can be named with --alloc and --free",
			pid, search.unknown);
	if (!rc && !all->n)
		rc = error__set(
			err, -ENOENT,
			"no allocator found in pid %d: none of its mapped files has a symbol "
			"malloc (a stripped static program, or a run-time of its own as Go's)",
			pid);
	if (rc) {
		allocators__free(all);
		return rc;
	}
	*ret = all;
	return 0;
}

size_t allocators__find_more(struct allocators *all, pid_t pid, const struct maps *maps,
			     const struct alloc_extra *extra, size_t n_extra)
{
	_cleanup_free_ struct names *names = NULL;
	_cleanup_free_ char *exe = NULL;
	struct search search = {.all = all,
				.pid = pid,
				.extra = extra,
				.n_extra = n_extra,
				.late = true,
				.shared = true};
	size_t before = all->n;

	names = search.names = calloc(1, sizeof(*names));
	exe = search.exe = read_exe(pid);
	if (!names)
		return 0;
	collect_names(names);
	read_all(&search, maps, false, NULL);
	return all->n - before;
}

void allocators__free(struct allocators *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		allocator__free(all->list[i]);
	free(all->list);
	free(all->seen);
	free(all);
}
