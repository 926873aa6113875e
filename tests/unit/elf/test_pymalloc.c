// SPDX-License-Identifier: BSD-2-Clause
/* Inlined copies of pymalloc as GCC makes them, in files that are made here. Labels "here_..." mark
 * the places of the probes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "assembled.h"
#include "base/cleanup.h"
#include "elf/decode.h"
#include "elf/pymalloc.h"

static const char source[] =
	"#define FUNCTION(n) .globl n; .type n, @function; n: .cfi_startproc;\n"
	"#define END .cfi_endproc\n"
	"#define HERE(n) .globl here_##n; .type here_##n, @function; here_##n:\n"
	/* STATE: as in 3.13. r10 points to the thread, which points to its interpreter. */
	"#ifdef STATE\n"
	"#define LOAD mov 16(%r10), %r9; mov 0x2a30(%r9), %r9;\n"
	"#define POOLS(index, to) LOAD mov (%r9,index,8), to\n"
	"#define ARGUMENT mov %r9, %rdi;\n"
	"#define POOLS_OF_ARGUMENT(index, to) mov (%rdi,index,8), to\n"
	"#define NODE(index, to) LOAD mov 0x448(%r9,index,8), to\n"
	"#define PAIRS 0\n"
	"#elif defined(PIE)\n"
	"#define POOLS(index, to) lea usedpools(%rip), to; mov (to,index,8), to\n"
	"#define NODE(index, to) lea tree(%rip), to; mov (to,index,8), to\n"
	"#else\n"
	"#define POOLS(index, to) mov usedpools(,index,8), to\n"
	"#define NODE(index, to) mov tree(,index,8), to\n"
	"#endif\n"
	"#ifndef STATE\n"
	"#define ARGUMENT\n"
	"#define POOLS_OF_ARGUMENT POOLS\n"
	"#endif\n"
	"#ifndef PAIRS\n"
	"#define PAIRS 32\n"
	"#endif\n"
	".data\n.balign 32\n.quad 0\nusedpools:\n"
	".rept PAIRS\n1: .quad 1b - 16\n.quad 1b - 16\n.endr\n.quad 0\n"
	".bss\n.balign 32\ntree: .zero 64\n"
	"arenas: .quad 0\nmaxarenas: .long 0, 0\nunused: .quad 0\n"
	".text\n"
	/* pymalloc_alloc */
	"FUNCTION(alloc) lea -1(%rdi), %eax; shr $4, %eax; add %eax, %eax\n"
	"POOLS(%rax, %rdx); mov 16(%rdx), %rsi; cmp %rsi, %rdx; je 3f\n"
	"1: mov 8(%rdx), %r13; addl $1, (%rdx); mov (%r13), %rcx; mov %rcx, 8(%rdx)\n"
	"5: test %rcx, %rcx; HERE(alloc) je 2f; ret\n"
	"2: mov 40(%rdx), %r8d; mov %r8d, %ecx; add %rdx, %rcx; mov %rcx, 8(%rdx)\n"
	"movq $0, (%rcx); ret\n"
	"3: ARGUMENT call new; ret\n"
	"#ifdef BULK\n .rept BULK; .byte 0xe9; .long 0; .endr; ret\n#endif\n"
	"#ifdef LATE_SIDE_WAY\n jmp 5b\n#endif\n END\n"
	/* allocate_from_new_pool */
	"FUNCTION(new) push %rbx; mov 8(%rbx), %rax; lea (%rbp,%rbp,1), %edx\n"
	"POOLS_OF_ARGUMENT(%rdx, %rdx); movq %rdx, %xmm0\n"
	"punpcklqdq %xmm0, %xmm0; movups %xmm0, 16(%rax)\n"
	"movq %rax, %xmm0; punpcklqdq %xmm0, %xmm0; movups %xmm0, 16(%rdx)\n"
	"movl $1, (%rax); cmp %ecx, %ebp; je 1f; mov %ebp, 36(%rax); lea 48(%rax), %rbx\n"
	"mov %ebp, 40(%rax); mov %ecx, 44(%rax); HERE(first) mov %rdx, 8(%rax)\n"
	"movq $0, (%rdx); mov %rbx, %rax; pop %rbx; ret\n"
	"1: mov 8(%rax), %rbx; mov (%rbx), %rdx; HERE(again) mov %rdx, 8(%rax); mov %rbx, %rax\n"
	"pop %rbx; ret; END\n"
	/* pymalloc_free */
	"#ifndef ARRAY\n"
	"FUNCTION(give) mov %rdi, %rax; mov %rdi, %rsi; shr $49, %rax; and $-16384, %rsi\n"
	"NODE(%rax, %rdx); test %rdx, %rdx; je 9f; mov %rdi, %rax; shr $34, %rax\n"
	"and $0x7fff, %eax; mov (%rdx,%rax,8), %rdx; test %rdx, %rdx; je 9f\n"
	"mov %rdi, %rax; shr $20, %rax; and $0x3fff, %eax; mov (%rdx,%rax,8), %r8d\n"
	"cmp %ecx, 4(%rdx,%rax,8); jg 1f; cmp %ecx, %r8d; jg 9f\n"
	"1: mov 8(%rsi), %rdx; mov %rdx, (%rdi); mov (%rsi), %eax\n"
	"mov %rdi, 8(%rsi); sub $1, %eax; mov %eax, (%rsi)\n"
	"test %rdx, %rdx; HERE(give) je 2f; ret\n"
	"2: mov 36(%rsi), %eax; add %eax, %eax; POOLS(%rax, %rax); mov 24(%rax), %rdx\n"
	"mov %rsi, 24(%rax); mov %rsi, 16(%rdx); ret\n"
	"9: jmp *free(%rip); END\n"
	/* PyObject_GC_Del: rbx already points to the block, too */
	"#ifdef POOL_AGAIN\n"
	"FUNCTION(drop) NODE(%rax, %rdx); mov (%rdx,%rax,8), %rdx; mov (%rdx,%rax,8), %r8d\n"
	"cmp %ecx, %r8d; jg 9f; mov 8(%rsi), %rdx; mov %rdx, -16(%rbx); mov (%rsi), %eax\n"
	"mov %rdi, 8(POOL_AGAIN); lea -1(%rax), %edx; mov %edx, (%rsi)\n"
	"test %rdx, %rdx; HERE(drop) je 2f; ret\n"
	"2: mov 36(%rsi), %ecx; add %ecx, %ecx; 9: ret; END\n"
	"#endif\n"
	/* pymalloc_realloc: reads the size of a block */
	"FUNCTION(size) NODE(%rax, %rdx); mov (%rdx,%rax,8), %rdx; mov (%rdx,%rax,8), %r8d\n"
	"cmp %ecx, %r8d; jg 1f; mov 36(%rsi), %eax; 1: ret; END\n"
	/* arena_map_mark_used */
	"FUNCTION(mark) NODE(%rax, %rdx); mov (%rdx,%rax,8), %rdx; mov %ecx, (%rdx,%rax,8); ret\n"
	"END\n"
	"#else\n"
	/* ARRAY: as in 3.9 */
	"#ifdef BLIND\n#define LOOK_UP(place, to)\n"
	"#else\n"
	"#define LOOK_UP(place, to) mov place, to; mov %rdi, %r8; sub to, %r8;"
	"cmp $0x3ffff, %r8; ja 9f; test to, to; je 9f;\n"
	"#endif\n"
	"#define TAKE(n) mov 8(%rsi), %r10; mov %r10, (%rdi); mov (%rsi), %r11d; sub $1, %r11d;"
	"mov %r11d, (%rsi); mov %rdi, 8(%rsi); test %r10, %r10; HERE(n) je 2f\n"
	/* pymalloc_free, insert_to_freepool */
	"FUNCTION(give) push %rbx; mov %rdi, %rsi; and $-4096, %rsi; mov 32(%rsi), %edx\n"
	"cmp maxarenas(%rip), %edx; jae 9f; mov arenas(%rip), %r9; lea (%rdx,%rdx,2), %rcx\n"
	"shl $4, %rcx; LOOK_UP((%r9,%rcx), %rbx) TAKE(give); test %r11d, %r11d; je 4f\n"
	"3: pop %rbx; ret\n"
	"2: mov 36(%rsi), %eax; add %eax, %eax; POOLS(%rax, %rax); mov 24(%rax), %rdx\n"
	"mov %rsi, 24(%rax); mov %rsi, 16(%rdx); pop %rbx; ret\n"
	"4: mov 32(%rsi), %ecx; imul $48, %rcx, %rbx; add %r9, %rbx; mov 24(%rbx), %rax\n"
	"mov %rax, 16(%rsi); mov %rsi, 24(%rbx); mov 16(%rbx), %eax; mov 40(%rbx), %rdx\n"
	"cmp 20(%rbx), %eax; je 5f; mov %rbx, 32(%rdx); jmp 3b\n"
	"5: mov unused(%rip), %rax; mov %rax, 32(%rbx); mov (%rbx), %rsi; mov %rbx, unused(%rip)\n"
	"call *free(%rip); movq $0, (%rbx); jmp 3b; 9: pop %rbx; jmp *free(%rip); END\n"
	"FUNCTION(other) ret; END\n"
	/* a register keeps the pointer for a second block */
	"FUNCTION(twice) mov arenas(%rip), %r9; LOOK_UP((%r9,%rcx), %rbx) TAKE(twice)\n"
	"2: mov %r14, %rdi; mov %r15, %rsi; LOOK_UP((%r9,%r12), %rbx)\n"
	"#ifdef SECOND\n ret\n"
	"#else\n TAKE(second); 2: ret\n"
	"#endif\n 9: ret; END\n"
	"FUNCTION(resize) mov arenas(%rip), %r9; LOOK_UP((%r9,%rcx), %rbx) TAKE(resize)\n"
	"2: mov %r15, %rsi; LOOK_UP((%r9,%r12), %rbx) mov 36(%rsi), %eax; 9: ret; END\n"
	/* the stack keeps the pointer, or a function gets the pointer in a register */
	"FUNCTION(spill) mov arenas(%rip), %r9; mov %r9, 8(%rsp); call other\n"
	"mov 8(%rsp), %rdx; LOOK_UP((%rdx,%rcx), %rbx) TAKE(spill); 2: 9: ret; END\n"
	"FUNCTION(outer) mov arenas(%rip), %rdx; call inner; ret; END\n"
	"FUNCTION(inner) LOOK_UP((%rdx,%rcx), %rbx) TAKE(inner); 2: 9: nopl (%rdx); ret; END\n"
	/* other ways to compute the address of an entry */
	"FUNCTION(sum) add arenas(%rip), %rcx; LOOK_UP((%rcx), %rbx) TAKE(sum); 2: 9: ret; END\n"
	"FUNCTION(swapped) mov arenas(%rip), %rax; LOOK_UP((%rcx,%rax), %rbx) TAKE(swapped)\n"
	"2: 9: ret; END\n"
	"FUNCTION(address) mov arenas(%rip), %r9; lea (%r9,%rcx), %r9; add $48, %r9\n"
	"LOOK_UP((%r9), %rbx) TAKE(address); 2: 9: ret; END\n"
	/* pymalloc_realloc, _Py_GetAllocatedBlocks, new_arena, allocate_from_new_pool */
	"FUNCTION(size) mov arenas(%rip), %r9; LOOK_UP((%r9,%rcx), %rbx) mov 36(%rsi), %eax\n"
	"9: ret; END\n"
	"FUNCTION(count) mov arenas(%rip), %rsi; 1: mov (%rsi), %rcx; test %rcx, %rcx; je 2f\n"
	"mov 8(%rsi), %rdx; 3: add (%rcx), %eax; add $4096, %rcx; cmp %rcx, %rdx; ja 3b\n"
	"2: add $48, %rsi; dec %edi; jne 1b; ret; END\n"
	"FUNCTION(grow) mov arenas(%rip), %rsi; call *free(%rip); mov %rax, arenas(%rip)\n"
	"1: movq $0, (%rax,%rdi); lea 48(%rax,%rdi), %rbx; mov %rbx, 32(%rax,%rdi)\n"
	"add $48, %rdi; dec %ecx; jne 1b; add %rdi, %rax; mov %rax, unused(%rip)\n"
	"xor %eax, %eax; ret; END\n"
	"FUNCTION(number) sub arenas(%rip), %rdx; sar $4, %rdx; mov %edx, 32(%rax); ret; END\n"
	"#ifdef UNKNOWN\nFUNCTION(unknown) mov arenas(%rip), %r9; LOOK_UP((%r9,%rcx), %rbx)\n"
	"9: ret; END\n#endif\n"
	"#ifdef SIZE_LATE\nFUNCTION(late) mov arenas(%rip), %r9; LOOK_UP((%r9,%rcx), %rbx)\n"
	"mov 8(%rsi), %r10; mov %r10, (%rdi); mov 36(%rsi), %eax; 9: ret; END\n#endif\n"
	"#ifdef XOR\nFUNCTION(xor) mov arenas(%rip), %r9; xor %rcx, %r9; mov (%r9), %rbx; ret\n"
	"END\n#endif\n"
	"#ifdef BOTH\nFUNCTION(both) mov arenas(%rip), %r9; mov (%r9,%r9), %rbx; ret; END\n"
	"#endif\n"
	"#ifdef MULTIPLE\nFUNCTION(multiple) mov arenas(%rip), %r9; mov (%rcx,%r9,2), %rbx; ret\n"
	"END\n#endif\n"
	"#ifdef STORED\nFUNCTION(stored) mov arenas(%rip), %r9; mov %r9, (%rdi); ret; END\n"
	"#endif\n"
	"#ifdef RETURNED\nFUNCTION(returned) mov arenas(%rip), %rax; ret; END\n#endif\n"
	"#ifdef VECTOR\nFUNCTION(vector) mov arenas(%rip), %r9; add $48, %r9; movq %r9, %xmm0\n"
	"ret; END\n#endif\n"
	"#ifdef LEA\nFUNCTION(lea) lea arenas(%rip), %rdx; ret; END\n#endif\n"
	"#ifdef TAIL\nFUNCTION(tail) mov arenas(%rip), %rbp; jmp *free(%rip); END\n#endif\n"
	"#endif\n"
	"#ifdef STATE\n"
	"FUNCTION(other) ret; END\n"
	/* the stack keeps the state across a call */
	"FUNCTION(spill) LOAD mov %r9, 8(%rsp); xor %r9d, %r9d; call other; mov 8(%rsp), %rbx\n"
	"mov (%rbx,%rax,8), %rdx; mov 8(%rdx), %r13; addl $1, (%rdx); mov (%r13), %rcx\n"
	"mov %rcx, 8(%rdx); test %rcx, %rcx; HERE(spill) je 2f; 2: ret; END\n"
	"FUNCTION(push) LOAD push %r9; xor %r9d, %r9d; call other; pop %rbx\n"
	"mov (%rbx,%rax,8), %rdx; mov 8(%rdx), %r13; addl $1, (%rdx); mov (%r13), %rcx\n"
	"mov %rcx, 8(%rdx); test %rcx, %rcx; HERE(push) je 2f; 2: ret; END\n"
	/* a register that calls preserve keeps the state, and a second block is given out */
	"FUNCTION(twice) LOAD mov %r9, %rbp; mov (%rbp,%rax,8), %rdx; mov 8(%rdx), %r13\n"
	"mov (%r13), %rcx; mov %rcx, 8(%rdx); test %rcx, %rcx; HERE(twice) je 2f; 2: call other\n"
	"mov (%rbp,%rax,8), %rdx; mov 8(%rdx), %r13; mov (%r13), %rcx; mov %rcx, 8(%rdx)\n"
	"test %rcx, %rcx; HERE(second) je 3f; 3: ret; END\n"
	/* after the instructions that prove which register holds the block, no register holds it
	 * any more */
	"FUNCTION(early) LOAD mov (%r9,%rax,8), %rax; mov 8(%rax), %rdi; addl $1, (%rax)\n"
	"mov %rdi, (%rsp); HERE(early) mov (%rdi), %rdi; 1: mov %rdi, 8(%rax); ret\n"
	"#ifdef EARLY_SIDE_WAY\n jmp 1b\n#endif\n END\n"
	/* the class of the block's size is a constant */
	"FUNCTION(constant) LOAD mov 16(%r9), %rdx; mov 8(%rdx), %r13; addl $1, (%rdx)\n"
	"mov (%r13), %rcx; mov %rcx, 8(%rdx); test %rcx, %rcx; HERE(constant) je 2f; 2: ret; END\n"
	/* a cache of the process's own, which looks like a pool */
	"FUNCTION(list) mov 0x100(%r15), %rdx; mov %rdx, (%rdi); mov %rdi, 0x100(%r15); ret\n"
	"END\n"
	"#ifdef LEA\nFUNCTION(lea) lea 0x2a30(%rax), %rdx; ret; END\n#endif\n"
	"#ifdef STORED\nFUNCTION(stored) LOAD mov %r9, (%rdi); ret; END\n#endif\n"
	"#ifdef MOVED\nFUNCTION(moved) LOAD mov %r9, 8(%rsp); and $-32, %rsp; ret; END\n#endif\n"
	"#ifdef CONSTANT\nFUNCTION(other_use) LOAD mov 16(%r9), %rdx; mov (%rdx), %rax; ret\n"
	"END\n#endif\n"
	"#ifdef ADDED\nFUNCTION(added) add 0x2a30(%rax), %rdx; mov (%rdx), %rdx; ret; END\n"
	"#endif\n"
	"#ifdef RETURNED\nFUNCTION(returned) LOAD mov %r9, %rax; ret; END\n#endif\n"
	"#ifdef LEFT_EARLY\nFUNCTION(left) LOAD mov (%r9,%rax,8), %rax; mov 8(%rax), %rdi\n"
	"addl $1, (%rax); mov (%rdi), %rcx; xor %edi, %edi; test %ecx, %ecx; je 2f\n"
	"mov %rcx, 8(%rax); 2: ret; END\n#endif\n"
	"#ifdef CHAIN\nFUNCTION(chain) LOAD .rept 40000; jne 1f; 1:; .endr; ret; END\n#endif\n"
	"#ifdef SUM\nFUNCTION(sum) LOAD add %rax, %r9; mov (%r9), %rdx; ret; END\n#endif\n"
	"#ifdef SUM_ELSEWHERE\nFUNCTION(sum) LOAD lea (%r9,%rax,8), %rdx; mov (%rdx), %rdx; ret\n"
	"END\n#endif\n"
	"#ifdef INDEX\nFUNCTION(index) LOAD mov (%rax,%r9), %rdx; ret; END\n#endif\n"
	"#ifdef VECTOR\nFUNCTION(vector) LOAD movq %r9, %xmm0; ret; END\n#endif\n"
	/* a distance is no address */
	"FUNCTION(distance) LOAD sub %r9, %rcx; shr $3, %rcx; cmp %rcx, %rdx; ret; END\n"
	/* a part of the state is an argument */
	"#ifdef PART\nFUNCTION(part) LOAD lea 0x448(%r9), %rdi; xor %r9d, %r9d; call inner; ret\n"
	"END\nFUNCTION(inner) mov (%rdi,%rax,8), %rdx; mov (%rdx,%rax,8), %rdx\n"
	"mov (%rdx,%rax,8), %r8d; ret; END\n#endif\n"
	"#ifdef LOOKUP\nFUNCTION(lookup) NODE(%rax, %rdx); mov (%rdx,%rax,8), %rdx\n"
	"mov (%rdx,%rax,8), %r8d; ret; END\n#endif\n"
	/* the block is taken back in a way that is not known, and then a size is read */
	"#ifdef SIZE_LATE\nFUNCTION(late) NODE(%rax, %rdx); mov (%rdx,%rax,8), %rdx\n"
	"mov (%rdx,%rax,8), %r8d; mov 8(%rsi), %rdx; mov %rdx, (%rdi); mov 36(%rsi), %eax; ret\n"
	"END\n#endif\n"
	"#ifdef LONG\nFUNCTION(long) LOAD .rept 5000; nop; .endr; ret; END\n#endif\n"
	"#endif\n"
	"FUNCTION(_start) ret\n"
	"#ifdef MORE\n POOLS(%rax, %rdx); mov (%rdx), %rax; ret\n#endif\n"
	"#ifdef MORE_TREE\n NODE(%rax, %rdx); mov (%rdx), %rax; ret\n#endif\n END\n"
	"#ifdef OUTSIDE\n .data\n.section .none, \"ax\"; POOLS(%rax, %rdx); ret\n#endif\n"
	".data\nfree: .quad 0\n"
	".section .note.GNU-stack, \"\", @progbits\n";

static const struct elf_meanwhile nobody;

static int make_dir(void **state)
{
	(void)state;
	return assemble_from(source);
}

static struct elf_image *make(const char *options)
{
	return assemble("-Wl,--eh-frame-hdr", options);
}

static void check_place(const struct elf_image *image, const struct pymalloc *found,
			const char *label, unsigned int block, unsigned int pool, bool emulated)
{
	uint64_t vaddr = symbol(image, label);

	for (size_t i = 0; i < found->n; i++)
		if (found->places[i].vaddr == vaddr) {
			assert_int_equal(found->places[i].block, block);
			assert_int_equal(found->places[i].pool, pool);
			assert_int_equal(found->places[i].emulated, emulated);
			return;
		}
	fail_msg("no place at %s", label);
}

/* Numbers of registers: 1 is rdi, 3 rdx, 7 rax, 10 rbx, 12 r13. */
static void check_all(const char *options)
{
	struct elf_image *image = make(options);
	struct pymalloc found;

	if (pymalloc__find(image, symbol(image, "give"), &nobody, &found))
		fail_msg("%s: %s", options, found.why);
	check_place(image, &found, "here_alloc", 12, 3, true);
	check_place(image, &found, "here_first", 10, 7, false);
	check_place(image, &found, "here_again", 10, 7, false);
	check_place(image, &found, "here_give", 1, 0, true);
	assert_int_equal(found.n, 4);
	assert_int_equal(found.n_arena_code, 1);
	assert_int_equal(found.arena_code[0].start, symbol(image, "new"));
	assert_int_equal(found.arena_code[0].end, symbol(image, "give"));
	pymalloc__free(&found);
	elf_image__free(image);
}

static void finds_all(void **state)
{
	(void)state;
	check_all("-no-pie -static");
	check_all("-static-pie -DPIE");
}

/* From 3.13 on, a pointer in the interpreter leads to the pools. */
static void finds_all_of_a_state(void **state)
{
	struct elf_image *image = make("-no-pie -static -DSTATE");
	struct pymalloc found;

	(void)state;
	if (pymalloc__find(image, symbol(image, "give"), &nobody, &found))
		fail_msg("%s", found.why);
	assert_string_equal(found.why, "");
	check_place(image, &found, "here_alloc", 12, 3, true);
	check_place(image, &found, "here_first", 10, 7, false);
	check_place(image, &found, "here_again", 10, 7, false);
	check_place(image, &found, "here_give", 1, 0, true);
	check_place(image, &found, "here_spill", 12, 3, true);
	check_place(image, &found, "here_push", 12, 3, true);
	check_place(image, &found, "here_twice", 12, 3, true);
	check_place(image, &found, "here_second", 12, 3, true);
	check_place(image, &found, "here_early", 1, 7, false);
	check_place(image, &found, "here_constant", 12, 3, true);
	assert_int_equal(found.n, 10);
	assert_int_equal(found.n_arena_code, 1);
	assert_int_equal(found.arena_code[0].start, symbol(image, "new"));
	pymalloc__free(&found);
	elf_image__free(image);
}

/* In 3.9, the arenas are in an array. */
static void check_array(const char *options)
{
	static const char *const taken[] = {"here_give",   "here_twice",   "here_second",
					    "here_resize", "here_spill",   "here_inner",
					    "here_sum",	   "here_swapped", "here_address"};
	struct elf_image *image = make(options);
	struct pymalloc found;

	if (pymalloc__find(image, symbol(image, "give"), &nobody, &found))
		fail_msg("%s: %s", options, found.why);
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		check_place(image, &found, taken[i], 1, 0, true);
	check_place(image, &found, "here_alloc", 12, 3, true);
	check_place(image, &found, "here_first", 10, 7, false);
	check_place(image, &found, "here_again", 10, 7, false);
	assert_int_equal(found.n, 3 + sizeof(taken) / sizeof(*taken));
	pymalloc__free(&found);
	elf_image__free(image);
}

static void finds_all_of_an_array(void **state)
{
	(void)state;
	check_array("-no-pie -static -DARRAY");
	check_array("-static-pie -DPIE -DARRAY");
}

static void refuses(const char *options, const char *why)
{
	struct elf_image *image = make(options);
	struct pymalloc found;

	assert_int_equal(pymalloc__find(image, symbol(image, "give"), &nobody, &found), -ENOTSUP);
	if (!strstr(found.why, why))
		fail_msg("%s: %s", options, found.why);
	pymalloc__free(&found);
	elf_image__free(image);
}

/* Two registers may hold the block, and the code does not prove that they are equal. But the code
 * stores the pool's old first free block, and then makes another block the first free one. The
 * register with the address of this new first block holds the block. */
static void finds_a_block_with_two_names(void **state)
{
	struct elf_image *image = make("-no-pie -static -DPOOL_AGAIN=%rsi");
	struct pymalloc found;

	(void)state;
	if (pymalloc__find(image, symbol(image, "give"), &nobody, &found))
		fail_msg("%s", found.why);
	check_place(image, &found, "here_drop", 1, 0, true);
	assert_int_equal(found.n, 5);
	pymalloc__free(&found);
	elf_image__free(image);
}

static void all_or_nothing(void **state)
{
	(void)state;
	refuses("-no-pie -static -DMORE", "a table of pools");
	refuses("-no-pie -static -DMORE_TREE", "the tree of arenas");
	/* the code reads the size class only after other instructions */
	refuses("-no-pie -static -DPOOL_AGAIN=%r9", "the tree of arenas");
	refuses("-no-pie -static -DPAIRS=31", "usedpools");
	refuses("-no-pie -static -Wl,--no-eh-frame-hdr", "eh_frame_hdr");
}

static void all_or_nothing_of_an_array(void **state)
{
	(void)state;
	refuses("-no-pie -static -DARRAY -DBLIND", "how it finds an arena");
	refuses("-no-pie -static -DARRAY -DSECOND", "with a pool");
	refuses("-no-pie -static -DARRAY -DUNKNOWN", "with a pool");
	refuses("-no-pie -static -DARRAY -DSIZE_LATE", "with a pool");
	refuses("-no-pie -static -DARRAY -DXOR", "with its array of arenas");
	refuses("-no-pie -static -DARRAY -DBOTH", "with its array of arenas");
	refuses("-no-pie -static -DARRAY -DMULTIPLE", "with its array of arenas");
	refuses("-no-pie -static -DARRAY -DSTORED", "its array of arenas is stored");
	refuses("-no-pie -static -DARRAY -DRETURNED", "with its array of arenas");
	refuses("-no-pie -static -DARRAY -DVECTOR", "with its array of arenas");
	refuses("-no-pie -static -DARRAY -DLEA", "the address of its array of arenas");
	refuses("-no-pie -static -DARRAY -DTAIL", "with its array of arenas");
}

static void all_or_nothing_of_a_state(void **state)
{
	(void)state;
	refuses("-no-pie -static -DSTATE -DMORE", "with a pool");
	refuses("-no-pie -static -DSTATE -DLOOKUP", "with a pool");
	refuses("-no-pie -static -DSTATE -DCONSTANT", "with a pool");
	refuses("-no-pie -static -DSTATE -DSIZE_LATE", "with a pool");
	refuses("-no-pie -static -DSTATE -DLEFT_EARLY", "no place");
	refuses("-no-pie -static -DSTATE -DADDED", "with its state");
	refuses("-no-pie -static -DSTATE -DRETURNED", "with its state");
	refuses("-no-pie -static -DSTATE -DCHAIN", "too many ways");
	refuses("-no-pie -static -DSTATE -DLEA", "the address of its state");
	refuses("-no-pie -static -DSTATE -DSTORED", "its state is stored");
	refuses("-no-pie -static -DSTATE -DMOVED", "the stack moves");
	refuses("-no-pie -static -DSTATE -DSUM", "with its state");
	refuses("-no-pie -static -DSTATE -DSUM_ELSEWHERE", "with its state");
	refuses("-no-pie -static -DSTATE -DINDEX", "with its state");
	refuses("-no-pie -static -DSTATE -DVECTOR", "with its state");
	refuses("-no-pie -static -DSTATE -DPART", "with a pool");
	refuses("-no-pie -static -DSTATE -DLONG", "too long");
	refuses("-no-pie -static -DSTATE -DEARLY_SIDE_WAY", "a branch leads to");
}

/* Some instructions prove which register holds the block. A branch to the probe's place may skip
 * these instructions. Then the probe moves to another place. If there is none, there is no
 * probe. */
static void no_way_from_the_side(void **state)
{
	struct elf_image *image = make("-no-pie -static -DLATE_SIDE_WAY");
	struct pymalloc found;
	uint64_t vaddr;

	(void)state;
	assert_int_equal(pymalloc__find(image, symbol(image, "give"), &nobody, &found), 0);
	vaddr = symbol(image, "here_alloc");
	assert_true(found.places[0].vaddr < vaddr && found.places[0].vaddr > vaddr - 8);
	assert_false(found.places[0].emulated);
	assert_int_equal(found.places[0].block, 12);
	pymalloc__free(&found);
	elf_image__free(image);
}

/* --- slices --- */

struct slices {
	double last_s, longest_s;
	size_t n;
};

/* CPU time of this thread, which does not depend on other load. */
static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void note_slice(void *ctx)
{
	struct slices *slices = ctx;
	double now = cpu_s();

	if (now - slices->last_s > slices->longest_s)
		slices->longest_s = now - slices->last_s;
	slices->last_s = now;
	slices->n++;
}

/* In a function with a hundred thousand jumps, other work is done after every small part of the
 * search. */
static void others_can_work_meanwhile(void **state)
{
	struct elf_image *image = make("-no-pie -static -DBULK=100000");
	double begin_s = cpu_s();
	struct slices slices = {.last_s = begin_s};
	struct pymalloc found;

	(void)state;
	if (pymalloc__find(image, symbol(image, "give"),
			   &(struct elf_meanwhile){note_slice, &slices}, &found))
		fail_msg("%s", found.why);
	note_slice(&slices);
	print_message("%zu slices in %.3f s, the longest %.4f s\n", slices.n,
		      slices.last_s - begin_s, slices.longest_s);
	assert_true(slices.n >= 100);
	assert_true(slices.longest_s < (slices.last_s - begin_s) / 10);
	pymalloc__free(&found);
	elf_image__free(image);
}

int main(void)
{
	const struct CMUnitTest list[] = {
		cmocka_unit_test(finds_all),
		cmocka_unit_test(finds_a_block_with_two_names),
		cmocka_unit_test(finds_all_of_a_state),
		cmocka_unit_test(finds_all_of_an_array),
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(all_or_nothing_of_an_array),
		cmocka_unit_test(all_or_nothing_of_a_state),
		cmocka_unit_test(no_way_from_the_side),
		cmocka_unit_test(others_can_work_meanwhile),
	};

	return cmocka_run_group_tests(list, make_dir, remove_dir);
}
