// SPDX-License-Identifier: BSD-2-Clause
/* Decides by names alone which frames are the allocator's. A wrong guess changes no number: the
 * summary only leaves out a frame and shows its caller instead. */
#include <stdlib.h>
#include <string.h>

#include "profile/own_frame.h"
#include "profile/profile.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The name of an allocating function is one of prefixes[], followed by one of cores[]. The prefixes
 * belong to allocators, or to wrappers of allocators. */
static const char *const cores[] = {
	"malloc",    "calloc",	  "realloc",	   "reallocarray", "memalign",	"posix_memalign",
	"valloc",    "pvalloc",	  "aligned_alloc", "zalloc",	   "malloc0",	"malloc_n",
	"malloc0_n", "realloc_n", "recalloc",	   "reallocf",	   "strdup",	"strndup",
	"memdup",    "memdup2",	  "wcsdup",	   "asprintf",	   "vasprintf", "mmap",
	"mmap64",    "mremap",	  "sbrk",	   "brk",	   "mallocx",	"rallocx",
	"xallocx",
};
static const char *const prefixes[] = {
	"",
	"_",
	"__",
	"___",
	"__libc_",
	"__GI_",
	"__GI___",
	"__GI___libc_",
	"__interceptor_",
	"je_",
	"_rjem_",
	"_rjem_je_",
	"__rjem_",
	"tc_",
	"mi_",
	"mi_heap_",
	"x",
	"z",
	"ztry",
	"g_",
	"g_try_",
	"s",
	"e",
	"_e",
	"_safe_",
	"safe_",
	"do_x",
	"do_",
	"ngx_",
	"apr_p",
	"p",
	"sqlite3_",
	"CRYPTO_",
	"av_",
	"PyMem_Raw",
	"do_malloc_",
	"git__",
	"my_",	/* MySQL and MariaDB, and wrappers of many programs */
	"os::", /* HotSpot */
};

/* Allocating functions whose names follow no pattern. */
static const char *const others[] = {
	"AllocateHeap", /* HotSpot */
	"ReallocateHeap",
	"_int_malloc",
	"_int_realloc",
	"_int_memalign",
	"sysmalloc",
	"tcache_init",
	"arena_get2",
	"new_heap",
	"_IO_vasprintf",
	"__vasprintf_internal",
	"malloc_default",
	"tc_new",
	"tc_newarray",
	"tc_new_nothrow",
	"tc_newarray_nothrow",
	"mi_new",
	"mi_new_nothrow",
	"fallback_impl",
	"zmalloc_usable",
	"zcalloc_num",
	"zcalloc_usable",
	"zrealloc_usable",
	"ztrymalloc_usable",
	"ztrycalloc_usable",
	"ztryrealloc_usable",
	"ztrymalloc_usable_internal",
	"ztrycalloc_usable_internal",
	"ztryrealloc_usable_internal",
	"g_slice_alloc",
	"g_slice_alloc0",
	"g_slice_copy",
	"ngx_alloc",
	"ngx_palloc",
	"ngx_pcalloc",
	"ngx_pnalloc",
	"ngx_create_pool",
	"ngx_palloc_block",
	"ngx_palloc_large",
	"apr_palloc",
	"apr_pcalloc",
	"palloc",
	"palloc0",
	"palloc_extended",
	"palloc_mul",
	"palloc0_mul",
	"repalloc",
	"repalloc_extended",
	"repalloc_huge",
	"repalloc0",
	"palloc_aligned",
	"pstrdup",
	"MemoryContextAlloc",
	"MemoryContextAllocZero",
	"MemoryContextAllocZeroAligned",
	"MemoryContextAllocExtended",
	"MemoryContextAllocHuge",
	"MemoryContextAllocAligned",
	"MemoryContextStrdup",
	"AllocSetAlloc",
	"AllocSetContextCreateInternal",
	"AllocSetRealloc",
	"AllocSetAllocLarge",
	"AllocSetAllocFromNewBlock",
	"GenerationAlloc",
	"GenerationRealloc",
	"GenerationContextCreate",
	"SlabAlloc",
	"SlabContextCreate",
	"BumpAlloc",
	"BumpContextCreate",
	"new_arena",
	"allocate_from_new_pool",
	"pymalloc_alloc",
	"pymalloc_realloc",
	"PyMem_Malloc",
	"PyMem_Calloc",
	"PyMem_Realloc",
	"PyMem_RawMalloc",
	"PyMem_RawCalloc",
	"PyMem_RawRealloc",
	"PyObject_Malloc",
	"PyObject_Calloc",
	"PyObject_Realloc",
	"_PyMem_RawMalloc",
	"_PyMem_RawCalloc",
	"_PyMem_RawRealloc",
	"_PyObject_Malloc",
	"_PyObject_Calloc",
	"_PyObject_Realloc",
	"_PyObject_New",
	"_PyObject_NewVar",
	"_PyObject_GC_New",
	"_PyObject_GC_NewVar",
	"_PyObject_GC_Alloc",
	"_PyObject_GC_Malloc",
	"_PyType_AllocNoTrack",
	"gc_alloc",
	"PyType_GenericAlloc",
	"sqlite3Malloc",
	"sqlite3MallocZero",
	"sqlite3Realloc",
	"sqlite3MemMalloc",
	"sqlite3MemRealloc",
	"sqlite3DbMallocRaw",
	"sqlite3DbMallocRawNN",
	"sqlite3DbMallocZero",
	"dbMallocRawFinish",
	"Perl_safesysmalloc",
	"Perl_safesyscalloc",
	"Perl_safesysrealloc",
	"Perl_more_bodies",
	"_safe_femalloc", /* PHP */
	"_safe_ferealloc",
	"_erealloc2",
	"__zend_malloc",
	"__zend_calloc",
	"__zend_realloc",
	"ruby_xmalloc",
	"ruby_xcalloc",
	"ruby_xrealloc",
	"ruby_xmalloc2",
	"objspace_xmalloc0",
	"__rust_alloc",
	"__rust_alloc_zeroed",
	"__rust_realloc",
	"__rdl_alloc",
	"__rdl_alloc_zeroed",
	"__rdl_realloc",
	"__rg_alloc",
	"__rg_alloc_zeroed",
	"__rg_realloc",
	"__rustc::__rust_alloc",
	"__rustc::__rust_alloc_zeroed",
	"__rustc::__rust_realloc",
	"__rustc::__rdl_alloc",
	"__rustc::__rdl_alloc_zeroed",
	"__rustc::__rdl_realloc",
};

/* Functions of memory pools. memtrace probes them only in runs without a limit of overhead
 * (capture/alloc_table.c). Each of these functions calls malloc or a function without a name, and
 * is in the stack during the call. */
static const char *const pools[] = {
	"AllocSetContextCreateInternal",
	"GenerationContextCreate",
	"MemoryContextAlloc",
	"MemoryContextAllocExtended",
	"MemoryContextAllocZero",
	"MemoryContextAllocZeroAligned",
	"palloc",
	"palloc0",
	"repalloc",
	"ngx_create_pool",
	"ngx_palloc",
	"ngx_pnalloc",
	"ngx_pcalloc",
	"apr_palloc",
	"apr_pool_create_ex",
};

/* Prefixes that whole families of C++, Rust and PHP names share, without template arguments. */
static const char *const families[] = {
	"alloc::alloc::",    "alloc::raw_vec::", "hashbrown::raw::", "tcmalloc::",
	"std::sys::alloc::", "std::alloc::",	 "jemallocator::",   "tikv_jemallocator::",
	"core::alloc::",     "mimalloc::",	 "_emalloc_",
};

/* Members of namespace std that allocate for their caller. */
static const char *const std_allocators[] = {
	"allocate",    "allocate_at_least", "allocate_shared",
	"make_shared", "make_unique",	    "new_allocator",
};

static bool listed(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(name, list[i]))
			return true;
	}
	return false;
}

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Is this plumbing: a function through which containers of the C++ library allocate? Such a
 * function has a reserved name (_M_realloc_insert, __shared_count, ...), or belongs to an
 * allocator. push_back() and the like are not plumbing: the program called them. */
static bool is_std_plumbing(const char *name)
{
	const char *last = strrchr(name, ':');

	if (!starts_with(name, "std::") && !starts_with(name, "__gnu_cxx::"))
		return false;
	return last[1] == '_' || starts_with(name, "std::__new_allocator") ||
	       listed(last + 1, std_allocators, ARRAY_SIZE(std_allocators));
}

static bool is_of_family(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		if (starts_with(name, families[i]))
			return true;
	return false;
}

bool profile__is_allocator_frame(const char *name)
{
	struct qualified_name qualified;
	char simple[512];

	if (!name)
		return false;
	if (starts_with(name, "operator new") && strchr("[(", name[strlen("operator new")]))
		return true; /* strchr() finds the terminating NUL, too */
	/* <alloc::raw_vec::RawVec<u8>>::reserve, <arena::Arena as core::alloc::Allocator>::grow */
	if (qualified_name__parse(name, &qualified))
		return is_of_family(qualified.type) ||
		       (qualified.trait && is_of_family(qualified.trait));
	function__simplify(name, simple, sizeof(simple));
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (starts_with(simple, prefixes[i]) &&
		    listed(simple + strlen(prefixes[i]), cores, ARRAY_SIZE(cores)))
			return true;
	}
	if (is_of_family(simple))
		return true;
	return listed(simple, others, ARRAY_SIZE(others)) || is_std_plumbing(simple);
}

bool profile_location__is_allocators(const struct profile_location *location)
{
	for (size_t i = 0; i < location->n_frames; i++)
		if (!profile__is_allocator_frame(location->frames[i].name))
			return false;
	return location->n_frames > 0;
}

static const char *pool_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(pools); i++)
		if (!strcmp(name, pools[i]))
			return pools[i];
	return NULL;
}

/* Returns the innermost pool function in the stack, if all frames from there to the leaf are an
 * allocator's or have no name. NULL: there is no such function, or it is the leaf. If it is the
 * leaf, the run has probed it. */
static const char *pool_above(const struct profile *profile, const struct profile_site *site)
{
	for (size_t i = 0; i < site->n_locations; i++) {
		const struct profile_location *location = profile__location(profile, site, i);
		const char *name, *pool;

		if (!location->n_frames)
			continue;
		name = location->frames[location->n_frames - 1].name;
		pool = pool_of(name);
		if (pool)
			return i ? pool : NULL;
		if (!function__module_length(name) && !profile_location__is_allocators(location))
			return NULL;
	}
	return NULL;
}

const char *profile__pool_above_malloc(const struct profile *profile)
{
	const char *pool = NULL;

	for (size_t i = 0; i < profile->n_sites && !pool; i++)
		pool = pool_above(profile, &profile->sites[i]);
	return pool;
}
