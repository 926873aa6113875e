// SPDX-License-Identifier: BSD-2-Clause
/* The table of allocators. docs/architecture.md says what a new allocator needs. */
#include "capture/alloc_table.h"

#include <stdlib.h>
#include <string.h>

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

/* The common functions, with the prefix `p` before each name. reallocarray is left out: it checks
 * the product and calls realloc. `calloc_outer`: 1 if calloc calls malloc. */
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

/* The jemalloc that a crate of Rust contains. */
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

/* Google's own tcmalloc. size_returning_new returns in rax (the block) and rdx. */
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
	{"TCMallocInternalDeleteAlignedNothrow", FREE},
	{"TCMallocInternalDeleteArrayAlignedNothrow", FREE},
	{"TCMallocInternalNewHotCold", NEW(.exits = 1)},
	{"TCMallocInternalNewArrayHotCold", NEW(.exits = 1)},
	{"TCMallocInternalNewAlignedHotCold", NEW(.exits = 1)},
	{"TCMallocInternalNewArrayAlignedHotCold", NEW(.exits = 1)},
	{"TCMallocInternalNewHotColdNothrow", NEW()},
	{"TCMallocInternalNewArrayHotColdNothrow", NEW()},
	{"TCMallocInternalNewAlignedHotColdNothrow", NEW()},
	{"TCMallocInternalNewArrayAlignedHotColdNothrow", NEW()},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t", NEW()},
	{"_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t", NEW()},
	{"TCMallocInternalSizeReturningNew", NEW(.exits = 1)},
	{"TCMallocInternalSizeReturningNewAligned", NEW(.exits = 1)},
	{"TCMallocInternalAllocAtLeast", ALLOC(.size_arg = 1, .outer = 1)},
	{"TCMallocInternalAlignedAllocAtLeast", ALLOC(.size_arg = 2, .outer = 1)},
	{"alloc_at_least", ALLOC(.size_arg = 1, .outer = 1)},
	{"aligned_alloc_at_least", ALLOC(.size_arg = 2, .outer = 1)},
	{},
};

#define HEAP_ALLOC(...)	  ALLOC(.pool_arg = 1, __VA_ARGS__)
#define HEAP_REALLOC(...) REALLOC(.pool_arg = 1, __VA_ARGS__)

/* Most functions of mimalloc exist twice: for the thread's own heap, and with a heap as the first
 * argument. */
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
	{"mi_heap_malloc", HEAP_ALLOC(.size_arg = 2)},
	{"mi_heap_malloc_small", HEAP_ALLOC(.size_arg = 2)},
	{"mi_heap_zalloc", HEAP_ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_calloc", HEAP_ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_mallocn", HEAP_ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_realloc", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_reallocn", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_reallocf", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_recalloc", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_malloc_aligned", HEAP_ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_malloc_aligned_at", HEAP_ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_zalloc_aligned", HEAP_ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_zalloc_aligned_at", HEAP_ALLOC(.size_arg = 2, .outer = 1)},
	{"mi_heap_calloc_aligned", HEAP_ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_calloc_aligned_at", HEAP_ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1)},
	{"mi_heap_realloc_aligned", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_realloc_aligned_at", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc_aligned", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_rezalloc_aligned_at", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 3)},
	{"mi_heap_recalloc_aligned", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"mi_heap_recalloc_aligned_at", HEAP_REALLOC(.ptr_arg = 2, .size_arg = 4, .count_arg = 3)},
	{"reallocf", REALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"mi_new", NEW(.exits = 1)},
	{"mi_new_aligned", NEW(.exits = 1)},
	{"mi_new_n", ALLOC(.size_arg = 2, .count_arg = 1, .outer = 1, .exits = 1)},
	{"mi_new_realloc", REALLOC(.ptr_arg = 1, .size_arg = 2, .exits = 1)},
	{"mi_new_reallocn", REALLOC(.ptr_arg = 1, .size_arg = 3, .count_arg = 2, .exits = 1)},
	{"mi_heap_alloc_new", HEAP_ALLOC(.size_arg = 2, .outer = 1, .exits = 1)},
	{"mi_heap_alloc_new_n", HEAP_ALLOC(.size_arg = 3, .count_arg = 2, .outer = 1, .exits = 1)},
	{"mi_new_nothrow", NEW()},
	{"mi_new_aligned_nothrow", NEW()},
	{"mi_heap_destroy", {.role = ROLE_POOL_END, .ptr_arg = 1}},
	{"mi_heap_delete", {.role = ROLE_POOL_LEFT, .ptr_arg = 1}},
	{"mi_free_size", FREE},
	{"mi_free_aligned", FREE},
	{"mi_free_size_aligned", FREE},
	{"vfree", FREE},
	{},
};

/* CPython's domains of memory "object" and "mem". Both take blocks up to 512 bytes from pymalloc,
 * and larger blocks from the domain "raw", which is malloc. With PYTHONMALLOC=malloc, all blocks
 * come from malloc. Calls of malloc inside these functions are not counted, so each block counts
 * once. Calls of the domain "raw" (PyMem_RawMalloc) are counted as calls of malloc. */
#define PYTHON_DOMAIN(p)                                                                           \
	{p "Malloc", ALLOC(.size_arg = 1, .wraps = WRAPS_BY_STACK)},                               \
		{p "Calloc", ALLOC(.size_arg = 2, .count_arg = 1, .wraps = WRAPS_BY_STACK)},       \
		{p "Realloc",                                                                      \
		 {.role = ROLE_REALLOC, .ptr_arg = 1, .size_arg = 2, .wraps = WRAPS_BY_STACK}},    \
	{                                                                                          \
		p "Free", FREE                                                                     \
	}

static const struct alloc_function python_functions[] = {
	PYTHON_DOMAIN("PyObject_"),
	PYTHON_DOMAIN("PyMem_"),
	{},
};

/* The functions of pymalloc itself, to which both domains pass their calls on, with a context as
 * first argument. The kernel can emulate the first instruction of each of them. But it must
 * single-step the first instruction of the domain's PyObject_Free, which takes eight times as long.
 * _PyObject_Realloc and _PyObject_Calloc may call the other functions of this list. */
static const struct alloc_function pymalloc_functions[] = {
	{"_PyObject_Malloc", ALLOC(.size_arg = 2, .wraps = WRAPS_BY_STACK)},
	{"_PyObject_Calloc",
	 ALLOC(.size_arg = 3, .count_arg = 2, .outer = OUTER_DIRECT, .wraps = WRAPS_BY_STACK)},
	{"_PyObject_Realloc",
	 {.role = ROLE_REALLOC,
	  .ptr_arg = 2,
	  .size_arg = 3,
	  .outer = OUTER_DIRECT,
	  .wraps = WRAPS_BY_STACK}},
	{"_PyObject_Free", {.role = ROLE_FREE, .ptr_arg = 2, .outer = OUTER_DIRECT}},
	{},
};

/* With PYTHONMALLOC=mimalloc, and also in builds without the global lock, the domains pass their
 * calls on to these functions. All blocks of a thread may end at once. */
#define PYTHON_MIMALLOC(p)                                                                         \
	{p "Malloc", ALLOC(.size_arg = 2, .wraps = WRAPS_BY_STACK, .pooled = 1)},                  \
		{p "Calloc",                                                                       \
		 ALLOC(.size_arg = 3, .count_arg = 2, .wraps = WRAPS_BY_STACK, .pooled = 1)},      \
		{p "Realloc",                                                                      \
		 {.role = ROLE_REALLOC,                                                            \
		  .ptr_arg = 2,                                                                    \
		  .size_arg = 3,                                                                   \
		  .wraps = WRAPS_BY_STACK,                                                         \
		  .pooled = 1}},                                                                   \
	{                                                                                          \
		p "Free",                                                                          \
		{                                                                                  \
			.role = ROLE_FREE, .ptr_arg = 2                                            \
		}                                                                                  \
	}

static const struct alloc_function python_mimalloc_functions[] = {
	PYTHON_MIMALLOC("_PyObject_Mi"),
	PYTHON_MIMALLOC("_PyMem_Mi"),
	{},
};

/* Functions of pools that can end all their blocks at once. `own`: the bytes of the pool itself. */
#define POOL_NEW(...) ALLOC(.wraps = WRAPS_BY_STACK, __VA_ARGS__)
#define POOL_END                                                                                   \
	{                                                                                          \
		.role = ROLE_POOL_END, .ptr_arg = 1                                                \
	}
#define POOL_FREE                                                                                  \
	{                                                                                          \
		.role = ROLE_POOL_FREE, .ptr_arg = 1                                               \
	}

/* PostgreSQL up to 15. Its memory contexts are pools. In front of each block stands a pointer to
 * the block's context. MemoryContextReset and MemoryContextDelete call MemoryContextDelete for each
 * child of the context. */
#define PALLOC(...) ALLOC(.pool_word = ABI_POOL_WORD, .wraps = WRAPS_BY_STACK, __VA_ARGS__)
#define REPALLOC                                                                                   \
	{                                                                                          \
		.role = ROLE_REALLOC, .ptr_arg = 1, .size_arg = 2, .pool_word = ABI_POOL_WORD,     \
		.wraps = WRAPS_BY_STACK                                                            \
	}
/* Size of an empty context, in PostgreSQL 15 and in 17 (`used_bytes` in
 * pg_backend_memory_contexts). */
#define CONTEXT_OWN   264
#define CONTEXT16_OWN 240

static const struct alloc_function postgres_functions[] = {
	{"palloc", PALLOC(.size_arg = 1)},
	{"palloc0", PALLOC(.size_arg = 1)},
	{"palloc_extended", PALLOC(.size_arg = 1)},
	{"MemoryContextAlloc", PALLOC(.size_arg = 2)},
	{"MemoryContextAllocZero", PALLOC(.size_arg = 2)},
	{"MemoryContextAllocZeroAligned", PALLOC(.size_arg = 2)},
	{"MemoryContextAllocExtended", PALLOC(.size_arg = 2)},
	{"MemoryContextAllocHuge", PALLOC(.size_arg = 2)},
	{"repalloc", REPALLOC},
	{"repalloc_extended", REPALLOC},
	{"repalloc_huge", REPALLOC},
	/* up to PostgreSQL 10, MemoryContextAlloc also makes the contexts themselves */
	{"AllocSetContextCreateExtended", POOL_NEW(.own = CONTEXT_OWN)}, /* 11 */
	{"AllocSetContextCreateInternal", POOL_NEW(.own = CONTEXT_OWN)}, /* from PostgreSQL 12 on */
	{"GenerationContextCreate", POOL_NEW(.own = CONTEXT_OWN)},
	{"SlabContextCreate", POOL_NEW(.own = CONTEXT_OWN)},
	{"pfree", FREE},
	{"MemoryContextReset", POOL_END},
	{"MemoryContextResetOnly", POOL_END},
	{"MemoryContextDelete", POOL_FREE},
	{},
};

/* PostgreSQL from 16 on. Each kind of context has its own functions. palloc, pfree,
 * MemoryContextReset and the like call these functions through a table of pointers. When a context
 * ends, the function that ends it is also called for each context below it. */
#define METHOD_ALLOC ALLOC(.size_arg = 2, .pool_arg = 1, .wraps = WRAPS_BY_STACK)
#define METHOD_REALLOC                                                                             \
	REALLOC(.ptr_arg = 1, .size_arg = 2, .pool_word = ABI_POOL_CHUNK, .wraps = WRAPS_BY_STACK)

static const struct alloc_function postgres16_functions[] = {
	{"AllocSetAlloc", METHOD_ALLOC},
	{"AllocSetRealloc", METHOD_REALLOC},
	{"AllocSetFree", FREE},
	{"AllocSetReset", POOL_END},
	{"AllocSetDelete", POOL_FREE},
	{"AllocSetContextCreateInternal", POOL_NEW(.own = CONTEXT16_OWN)},
	{"GenerationAlloc", METHOD_ALLOC},
	{"GenerationRealloc", METHOD_REALLOC},
	{"GenerationFree", FREE},
	{"GenerationReset", POOL_END},
	{"GenerationDelete", POOL_FREE},
	{"GenerationContextCreate", POOL_NEW(.own = CONTEXT16_OWN)},
	/* chunks in the following two kinds of context never change their size */
	{"SlabAlloc", METHOD_ALLOC},
	{"SlabFree", FREE},
	{"SlabReset", POOL_END},
	{"SlabDelete", POOL_FREE},
	{"SlabContextCreate", POOL_NEW(.own = CONTEXT16_OWN)},
	{"BumpAlloc", METHOD_ALLOC}, /* this kind exists from PostgreSQL 17 on; its chunks are not
				      * freed one by one */
	{"BumpReset", POOL_END},
	{"BumpDelete", POOL_FREE},
	{"BumpContextCreate", POOL_NEW(.own = CONTEXT16_OWN)},
	{},
};

/* ngx_pcalloc calls ngx_palloc. ngx_pfree calls free, and only for blocks that the pool has taken
 * from malloc. */
static const struct alloc_function nginx_functions[] = {
	{"ngx_palloc", ALLOC(.size_arg = 2, .pool_arg = 1, .wraps = WRAPS_BY_STACK)},
	{"ngx_pnalloc", ALLOC(.size_arg = 2, .pool_arg = 1, .wraps = WRAPS_BY_STACK)},
	{"ngx_pmemalign", ALLOC(.size_arg = 2, .pool_arg = 1, .wraps = WRAPS_BY_STACK)},
	{"ngx_create_pool", POOL_NEW(.own = 80)}, /* sizeof(ngx_pool_t) */
	{"ngx_reset_pool", POOL_END},
	{"ngx_destroy_pool", POOL_FREE},
	{},
};

/* APR's other functions allocate by calling apr_palloc. Only apr_pvsprintf does not call it. */
static const struct alloc_function apr_functions[] = {
	{"apr_palloc", ALLOC(.size_arg = 2, .pool_arg = 1, .wraps = WRAPS_BY_STACK)},
	{"apr_pool_create_ex", POOL_NEW(.out_arg = 1, .own = 120)}, /* sizeof(apr_pool_t) */
	{"apr_pool_create_unmanaged_ex", POOL_NEW(.out_arg = 1, .own = 120)},
	{"apr_pool_clear", POOL_END},
	{"apr_pool_destroy", POOL_FREE},
	{},
};

/* PHP 7 and 8. Each size class (bin) has functions of its own to make and to free blocks. PHP's
 * code calls them where the compiler knows the size, so they have no argument for the size. Source:
 * Zend/zend_alloc.h and zend_alloc_sizes.h. The pool is a global variable; in thread-safe builds,
 * each thread has its own. */
#define EMALLOC(...)  ALLOC(.pool_thread = 1, __VA_ARGS__)
#define EREALLOC(...) REALLOC(.pool_thread = 1, __VA_ARGS__)
#define BIN(size)                                                                                  \
	{"_emalloc_" #size, EMALLOC(.own = (size))},                                               \
	{                                                                                          \
		"_efree_" #size, FREE                                                              \
	}

static const struct alloc_function php_functions[] = {
	{"_emalloc", EMALLOC(.size_arg = 1)},
	{"_emalloc_large", EMALLOC(.size_arg = 1)},
	{"_emalloc_huge", EMALLOC(.size_arg = 1)},
	{"_erealloc", EREALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"_erealloc2", EREALLOC(.ptr_arg = 1, .size_arg = 2)},
	{"_efree", FREE},
	{"_efree_large", FREE},
	{"_efree_huge", FREE},
	{"shutdown_memory_manager", {.role = ROLE_POOL_END, .pool_thread = 1}},
	{},
};

static const struct alloc_function php_bins[] = {
	BIN(8),	   BIN(16),   BIN(24),	 BIN(32),   BIN(40),   BIN(48),	  BIN(56),  BIN(64),
	BIN(80),   BIN(96),   BIN(112),	 BIN(128),  BIN(160),  BIN(192),  BIN(224), BIN(256),
	BIN(320),  BIN(384),  BIN(448),	 BIN(512),  BIN(640),  BIN(768),  BIN(896), BIN(1024),
	BIN(1280), BIN(1536), BIN(1792), BIN(2048), BIN(2560), BIN(3072), {},
};

/* tcmalloc and mimalloc define glibc's names, too, so they stand before glibc. */
const struct alloc_family alloc_families[ALLOC_FAMILIES + 1] = {
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
	/* For a program that contains an allocator, but was stripped of the allocator's own names.
	 * The names that the allocator shares with glibc remain, because the program exports them
	 * to libc.so. */
	{"stripped", {"__libc_malloc"}, {plain_functions, cxx_functions}, HOME_PLACE},
	{"glibc", {"__libc_malloc"}, {plain_functions}, HOME_LIBC},
	{"pymalloc",
	 {"PyObject_Malloc"},
	 {python_functions, pymalloc_functions, python_mimalloc_functions},
	 HOME_LANGUAGE},
	{"postgres", {"MemoryContextContains"}, {postgres_functions}, HOME_POOL}, /* PostgreSQL 16
										   * no longer has
										   * this
										   * function */
	{"postgres", {"AllocSetGetChunkContext"}, {postgres16_functions}, HOME_METHODS},
	{"nginx", {"ngx_destroy_pool"}, {nginx_functions}, HOME_POOL},
	{"apr", {"apr_pool_destroy"}, {apr_functions}, HOME_POOL},
	{"zend_mm", {"shutdown_memory_manager"}, {php_functions, php_bins}, HOME_REQUEST},
	{},
};

/* --- names --- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void alloc_names__collect(struct alloc_names *names)
{
	size_t n = 0;

	names->n = 0;
	for (const struct alloc_family *f = alloc_families; f->name; f++)
		for (size_t l = 0; l < ALLOC_MAX_LISTS && f->functions[l]; l++)
			for (const struct alloc_function *fn = f->functions[l]; fn->name; fn++)
				if (names->n < ALLOC_MAX_NAMES)
					names->name[names->n++] = fn->name;
	qsort(names->name, names->n, sizeof(names->name[0]), compare_names);
	for (size_t i = 0; i < names->n; i++)
		if (!n || strcmp(names->name[n - 1], names->name[i]) != 0)
			names->name[n++] = names->name[i];
	names->n = n;
	names->malloc = alloc_names__find(names, "malloc");
}

size_t alloc_names__find(const struct alloc_names *names, const char *name)
{
	const char *const *found =
		bsearch(&name, names->name, names->n, sizeof(names->name[0]), compare_names);

	return found ? (size_t)(found - names->name) : SIZE_MAX;
}

bool alloc_name__is_plain(const char *name)
{
	for (const struct alloc_function *fn = plain_functions; fn->name; fn++)
		if (!strcmp(fn->name, name))
			return true;
	return false;
}

static enum alloc_home home_of(const char *name)
{
	const struct alloc_family *f = alloc_families;

	while (f->name && strcmp(f->name, name) != 0)
		f++;
	return f->name ? f->home : HOME_LIBC;
}

bool alloc_family__is_pool(const char *name)
{
	return home_of(name) >= HOME_POOL;
}

bool alloc_family__is_request(const char *name)
{
	return home_of(name) == HOME_REQUEST;
}

bool alloc_family__is_language(const char *name)
{
	return home_of(name) == HOME_LANGUAGE;
}
