/* SPDX-License-Identifier: BSD-2-Clause */
/* Stand-ins for allocators that Debian does not have: a simple allocator with their functions'
 * names.
 *
 * Without -DLIKE_GLIBC: Google's tcmalloc (github.com/google/tcmalloc), with the names of its
 * tcmalloc/tcmalloc.h and libc_override.h as of 2025. Every function is TCMallocInternal... The C
 * library's names (also its inner ones, __libc_malloc ...), C++'s operators and the C23 functions
 * are aliases of these functions. TCMallocInternalNewArray and the like are aliases of the
 * functions for single objects. Some of these functions call or jump to others. In tcmalloc, it
 * depends on the compiler and the release which functions do so.
 *
 * With -DLIKE_GLIBC: a C library that is recognized as glibc, with C23's free_sized and
 * free_aligned_sized. Its functions call each other directly, as glibc's do. */
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace
{

/* Blocks of 2^k bytes, at multiples of 2^k: each block is aligned to its size. */
constexpr size_t CHUNK_LOG2 = 20, CHUNKS = 4096;

struct block {
	block *next;
};

char *arena;
uint8_t kind[CHUNKS]; /* k of the blocks in a chunk */
size_t n_chunks;
block *unused[33];
volatile bool locked;

struct lock {
	lock()
	{
		while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
			;
	}
	~lock()
	{
		__atomic_clear(&locked, __ATOMIC_RELEASE);
	}
};

size_t chunk_of(const void *p)
{
	return static_cast<size_t>(static_cast<const char *>(p) - arena) >> CHUNK_LOG2;
}

bool refill(size_t k)
{
	size_t n = k > CHUNK_LOG2 ? 1ul << (k - CHUNK_LOG2) : 1, first = (n_chunks + n - 1) / n * n;
	size_t step = 1ul << k;

	if (!arena) {
		size_t size = (2 * CHUNKS) << CHUNK_LOG2, mask = (CHUNKS << CHUNK_LOG2) - 1;
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return false;
		arena = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(p) + mask) & ~mask);
	}
	if (first + n > CHUNKS)
		return false;
	n_chunks = first + n;
	memset(kind + first, static_cast<int>(k), n);
	for (size_t off = 0; off < n << CHUNK_LOG2; off += step) {
		block *b = reinterpret_cast<block *>(arena + (first << CHUNK_LOG2) + off);

		b->next = unused[k];
		unused[k] = b;
	}
	return true;
}

__attribute__((noinline)) void *take(size_t size, size_t align)
{
	lock held;
	size_t k = 4;

	if (size > 1ul << 31 || align > 1ul << 31) {
		errno = ENOMEM;
		return nullptr;
	}
	while (1ul << k < size || 1ul << k < align)
		k++;
	if (!unused[k] && !refill(k))
		return nullptr;
	block *b = unused[k];
	unused[k] = b->next;
	return b;
}

__attribute__((noinline)) void give(void *p)
{
	lock held;

	if (!p)
		return;
	block *b = static_cast<block *>(p);
	size_t k = kind[chunk_of(p)];
	b->next = unused[k];
	unused[k] = b;
}

size_t usable(const void *p)
{
	return p ? 1ul << kind[chunk_of(p)] : 0;
}

} /* namespace */

#define EXPORT	  __attribute__((visibility("default")))
#define ALIAS(of) __attribute__((alias(#of), visibility("default")))

#ifdef LIKE_GLIBC
#define NAME(own, plain) plain
#else
#define NAME(own, plain) own
#endif

extern "C" {

EXPORT void *NAME(TCMallocInternalMalloc, malloc)(size_t size) noexcept
{
	return take(size, 1);
}

EXPORT void NAME(TCMallocInternalFree, free)(void *p) noexcept
{
	give(p);
}

EXPORT void *NAME(TCMallocInternalCalloc, calloc)(size_t n, size_t size) noexcept
{
	void *p;

	if (__builtin_mul_overflow(n, size, &size))
		return nullptr;
	p = take(size, 1);
	return p ? memset(p, 0, size) : p;
}

/* Jumps to malloc, or calls malloc and free. */
EXPORT void *NAME(TCMallocInternalRealloc, realloc)(void *p, size_t size) noexcept
{
	void *moved;

	if (!p)
		return NAME(TCMallocInternalMalloc, malloc)(size);
	if (size && size <= usable(p))
		return p;
	moved = size ? NAME(TCMallocInternalMalloc, malloc)(size) : nullptr;
	if (!moved && size)
		return nullptr;
	if (moved)
		memcpy(moved, p, usable(p) < size ? usable(p) : size);
	NAME(TCMallocInternalFree, free)(p);
	return moved;
}

EXPORT void *NAME(TCMallocInternalReallocArray, reallocarray)(void *p, size_t n,
							      size_t size) noexcept
{
	if (__builtin_mul_overflow(n, size, &size))
		return nullptr;
	return NAME(TCMallocInternalRealloc, realloc)(p, size);
}

EXPORT void *NAME(TCMallocInternalMemalign, memalign)(size_t align, size_t size) noexcept
{
	if (align <= 16) /* a jump */
		return NAME(TCMallocInternalMalloc, malloc)(size);
	return take(size, align);
}

EXPORT void *NAME(TCMallocInternalAlignedAlloc, aligned_alloc)(size_t align, size_t size) noexcept
{
	if (align & (align - 1))
		return nullptr;
	return NAME(TCMallocInternalMemalign, memalign)(align, size);
}

EXPORT int NAME(TCMallocInternalPosixMemalign, posix_memalign)(void **ret, size_t align,
							       size_t size) noexcept
{
	void *p;

	if (align % sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	p = NAME(TCMallocInternalMemalign, memalign)(align, size);
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

EXPORT void *NAME(TCMallocInternalValloc, valloc)(size_t size) noexcept
{
	return NAME(TCMallocInternalMemalign, memalign)(4096, size);
}

EXPORT void *NAME(TCMallocInternalPvalloc, pvalloc)(size_t size) noexcept
{
	return NAME(TCMallocInternalValloc, valloc)((size + 4095) & ~4095ul);
}

EXPORT void NAME(TCMallocInternalFreeSized, free_sized)(void *p, size_t) noexcept
{
	NAME(TCMallocInternalFree, free)(p);
}

EXPORT void NAME(TCMallocInternalFreeAlignedSized, free_aligned_sized)(void *p, size_t,
								       size_t) noexcept
{
	give(p);
}

EXPORT size_t malloc_usable_size(void *p) noexcept
{
	return usable(p);
}

#ifdef LIKE_GLIBC
void *__libc_malloc(size_t size) noexcept ALIAS(malloc);

/* memtrace recognizes glibc by this function. It is never called here. */
EXPORT const char *gnu_get_libc_version()
{
	return "2.36";
}
#else
/* Throws if p is NULL, like an operator new that fails. May be inlined. */
static void *checked(void *p)
{
	if (!p)
		throw std::bad_alloc();
	return p;
}

struct sized {
	void *p;
	size_t n;
};

EXPORT void TCMallocInternalCfree(void *p) noexcept
{
	TCMallocInternalFree(p);
}

EXPORT void TCMallocInternalSdallocx(void *p, size_t, int) noexcept
{
	give(p);
}

EXPORT void *TCMallocInternalNew(size_t size)
{
	return checked(take(size, 1));
}

EXPORT void *TCMallocInternalNewAligned(size_t size, std::align_val_t align)
{
	return checked(take(size, static_cast<size_t>(align)));
}

EXPORT void *TCMallocInternalNewNothrow(size_t size, const std::nothrow_t &) noexcept
{
	return take(size, 1);
}

EXPORT void *TCMallocInternalNewAlignedNothrow(size_t size, std::align_val_t align,
					       const std::nothrow_t &) noexcept
{
	return take(size, static_cast<size_t>(align));
}

/* The hint is not used. */
EXPORT void *TCMallocInternalNewHotCold(size_t size, uint8_t)
{
	return TCMallocInternalNew(size);
}

EXPORT void *TCMallocInternalNewHotColdNothrow(size_t size, const std::nothrow_t &nt,
					       uint8_t) noexcept
{
	return TCMallocInternalNewNothrow(size, nt);
}

EXPORT void TCMallocInternalDelete(void *p) noexcept
{
	TCMallocInternalFree(p);
}

EXPORT void TCMallocInternalDeleteSized(void *p, size_t) noexcept
{
	give(p);
}

EXPORT void TCMallocInternalDeleteAligned(void *p, std::align_val_t) noexcept
{
	give(p);
}

EXPORT void TCMallocInternalDeleteSizedAligned(void *p, size_t, std::align_val_t align) noexcept
{
	return TCMallocInternalDeleteAligned(p, align);
}

EXPORT void TCMallocInternalDeleteNothrow(void *p, const std::nothrow_t &) noexcept
{
	give(p);
}

EXPORT void TCMallocInternalDeleteAlignedNothrow(void *p, std::align_val_t,
						 const std::nothrow_t &) noexcept
{
	give(p);
}

EXPORT sized TCMallocInternalSizeReturningNew(size_t size)
{
	void *p = TCMallocInternalNew(size);

	return {p, usable(p)};
}

EXPORT sized TCMallocInternalSizeReturningNewAligned(size_t size, std::align_val_t align)
{
	void *p = checked(take(size, static_cast<size_t>(align)));

	return {p, usable(p)};
}

EXPORT sized TCMallocInternalAllocAtLeast(size_t size) noexcept
{
	void *p = take(size, 1);

	return {p, usable(p)};
}

EXPORT sized TCMallocInternalAlignedAllocAtLeast(size_t align, size_t size) noexcept
{
	void *p = take(size, align);

	return {p, usable(p)};
}

/* Returns the size that an allocation would have, and allocates nothing. */
EXPORT size_t nallocx(size_t size, int) noexcept
{
	size_t k = 4;

	while (1ul << k < size)
		k++;
	return 1ul << k;
}

void *TCMallocInternalNewArray(size_t) ALIAS(TCMallocInternalNew);
void *TCMallocInternalNewArrayAligned(size_t, std::align_val_t) ALIAS(TCMallocInternalNewAligned);
void *TCMallocInternalNewArrayNothrow(size_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalNewNothrow);
void *TCMallocInternalNewArrayAlignedNothrow(size_t, std::align_val_t,
					     const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalNewAlignedNothrow);
void TCMallocInternalDeleteArray(void *) noexcept ALIAS(TCMallocInternalDelete);
void TCMallocInternalDeleteArraySized(void *, size_t) noexcept ALIAS(TCMallocInternalDeleteSized);
void TCMallocInternalDeleteArrayAligned(void *, std::align_val_t) noexcept
	ALIAS(TCMallocInternalDeleteAligned);
void TCMallocInternalDeleteArraySizedAligned(void *, size_t, std::align_val_t) noexcept
	ALIAS(TCMallocInternalDeleteSizedAligned);
void TCMallocInternalDeleteArrayNothrow(void *, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalDeleteNothrow);
void TCMallocInternalDeleteArrayAlignedNothrow(void *, std::align_val_t,
					       const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalDeleteAlignedNothrow);

void *malloc(size_t) noexcept ALIAS(TCMallocInternalMalloc);
void free(void *) noexcept ALIAS(TCMallocInternalFree);
void free_sized(void *, size_t) noexcept ALIAS(TCMallocInternalFreeSized);
void free_aligned_sized(void *, size_t, size_t) noexcept ALIAS(TCMallocInternalFreeAlignedSized);
void sdallocx(void *, size_t, int) noexcept ALIAS(TCMallocInternalSdallocx);
void *realloc(void *, size_t) noexcept ALIAS(TCMallocInternalRealloc);
void *reallocarray(void *, size_t, size_t) noexcept ALIAS(TCMallocInternalReallocArray);
void *calloc(size_t, size_t) noexcept ALIAS(TCMallocInternalCalloc);
void cfree(void *) noexcept ALIAS(TCMallocInternalCfree);
void *memalign(size_t, size_t) noexcept ALIAS(TCMallocInternalMemalign);
void *aligned_alloc(size_t, size_t) noexcept ALIAS(TCMallocInternalAlignedAlloc);
void *valloc(size_t) noexcept ALIAS(TCMallocInternalValloc);
void *pvalloc(size_t) noexcept ALIAS(TCMallocInternalPvalloc);
int posix_memalign(void **, size_t, size_t) noexcept ALIAS(TCMallocInternalPosixMemalign);
sized alloc_at_least(size_t) noexcept ALIAS(TCMallocInternalAllocAtLeast);
sized aligned_alloc_at_least(size_t, size_t) noexcept ALIAS(TCMallocInternalAlignedAllocAtLeast);
sized __size_returning_new(size_t) ALIAS(TCMallocInternalSizeReturningNew);
sized __size_returning_new_aligned(size_t, std::align_val_t)
	ALIAS(TCMallocInternalSizeReturningNewAligned);
void *_Znwm12__hot_cold_t(size_t, uint8_t) ALIAS(TCMallocInternalNewHotCold);
void *_ZnwmRKSt9nothrow_t12__hot_cold_t(size_t, const std::nothrow_t &, uint8_t) noexcept
	ALIAS(TCMallocInternalNewHotColdNothrow);
void *__libc_malloc(size_t) noexcept ALIAS(TCMallocInternalMalloc);
void __libc_free(void *) noexcept ALIAS(TCMallocInternalFree);
void *__libc_realloc(void *, size_t) noexcept ALIAS(TCMallocInternalRealloc);
void *__libc_calloc(size_t, size_t) noexcept ALIAS(TCMallocInternalCalloc);
void *__libc_memalign(size_t, size_t) noexcept ALIAS(TCMallocInternalMemalign);
int __posix_memalign(void **, size_t, size_t) noexcept ALIAS(TCMallocInternalPosixMemalign);

} /* extern "C" */

void *operator new(size_t) ALIAS(TCMallocInternalNew);
void *operator new[](size_t) ALIAS(TCMallocInternalNewArray);
void *operator new(size_t, const std::nothrow_t &) noexcept ALIAS(TCMallocInternalNewNothrow);
void *operator new[](size_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalNewArrayNothrow);
void *operator new(size_t, std::align_val_t) ALIAS(TCMallocInternalNewAligned);
void *operator new[](size_t, std::align_val_t) ALIAS(TCMallocInternalNewArrayAligned);
void *operator new(size_t, std::align_val_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalNewAlignedNothrow);
void *operator new[](size_t, std::align_val_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalNewArrayAlignedNothrow);
void operator delete(void *) noexcept ALIAS(TCMallocInternalDelete);
void operator delete[](void *) noexcept ALIAS(TCMallocInternalDeleteArray);
void operator delete(void *, size_t) noexcept ALIAS(TCMallocInternalDeleteSized);
void operator delete[](void *, size_t) noexcept ALIAS(TCMallocInternalDeleteArraySized);
void operator delete(void *, const std::nothrow_t &) noexcept ALIAS(TCMallocInternalDeleteNothrow);
void operator delete[](void *, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalDeleteArrayNothrow);
void operator delete(void *, std::align_val_t) noexcept ALIAS(TCMallocInternalDeleteAligned);
void operator delete[](void *, std::align_val_t) noexcept ALIAS(TCMallocInternalDeleteArrayAligned);
void operator delete(void *, size_t, std::align_val_t) noexcept
	ALIAS(TCMallocInternalDeleteSizedAligned);
void operator delete[](void *, size_t, std::align_val_t) noexcept
	ALIAS(TCMallocInternalDeleteArraySizedAligned);
void operator delete(void *, std::align_val_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalDeleteAlignedNothrow);
void operator delete[](void *, std::align_val_t, const std::nothrow_t &) noexcept
	ALIAS(TCMallocInternalDeleteArrayAlignedNothrow);

extern "C" {
#endif
} /* extern "C" */
