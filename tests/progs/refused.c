/* SPDX-License-Identifier: BSD-2-Clause */
/* An allocator for refusing.c. One of its functions begins with an instruction on which no uprobe
 * may be placed (it has a segment prefix). So every kernel refuses a probe on this function. Two
 * builds, refused_free.so and refused_valloc.so, are named after the refused function. */
#include <stddef.h>
#include <stdlib.h>

void *body_je_malloc(size_t size);
void *body_je_valloc(size_t size);
void body_je_free(void *block);

__attribute__((used)) static void *(*const to_valloc)(size_t) = body_je_valloc;
__attribute__((used)) static void (*const to_free)(void *) = body_je_free;

#define FUNCTION(name, code)                                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" code           \
		"\n.size " #name ", . - " #name)
/* cs xchg %ax,%ax. The function has no better place for a probe. */
#define REFUSED(to) ".byte 0x2e, 0x66, 0x90\njmp *" #to "(%rip)"

FUNCTION(je_malloc, "push %rax\npop %rax\njmp body_je_malloc");
#ifdef REFUSE_FREE
FUNCTION(je_free, REFUSED(to_free));
FUNCTION(je_valloc, "push %rax\npop %rax\njmp body_je_valloc");
#else
FUNCTION(je_free, "push %rax\npop %rax\njmp body_je_free");
FUNCTION(je_valloc, REFUSED(to_valloc));
#endif

/* Memory is given out in slots of one size. No memory comes from the C library. */
#define SLOT  1024
#define SLOTS 4096

static char slots[SLOTS][SLOT];
static void *unused;
static size_t used;

__attribute__((visibility("hidden"), noinline)) void *body_je_malloc(size_t size)
{
	void **slot = unused;

	if (size > SLOT)
		return NULL;
	if (!slot)
		return used < SLOTS ? slots[used++] : NULL;
	unused = *slot;
	return slot;
}

__attribute__((visibility("hidden"), noinline)) void *body_je_valloc(size_t size)
{
	return body_je_malloc(size);
}

__attribute__((visibility("hidden"), noinline)) void body_je_free(void *block)
{
	*(void **)block = unused;
	unused = block;
}
