// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/probe_site.h"
#include "code_samples.h"

#define VADDR	 0x401000ull
#define N(array) (sizeof(array) / sizeof(*(array)))

/* Chooses from a copy that ends where the code ends, for ASan to watch. */
static int choose(const uint8_t *code, size_t len, uint64_t size, struct probe_site *site)
{
	_cleanup_free_ uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, code, len);
	return probe_site__choose(copy, len, VADDR, size, PROBE_SITE_ALL_ARGS, site);
}

/* The choice for a whole function given as bytes. */
#define CHOOSE(site, ...)                                                                          \
	({                                                                                         \
		static const uint8_t code_[] = {__VA_ARGS__};                                      \
		choose(code_, sizeof(code_), sizeof(code_), site);                                 \
	})

static void assert_site(const struct probe_site *site, uint32_t delta, bool emulated, bool nop)
{
	if (site->delta != delta || site->emulated != emulated || site->nop != nop)
		fail_msg("+%u \"%s\" emulated %d nop %d (%s), expected +%u %d %d", site->delta,
			 site->instruction, site->emulated, site->nop, site->why, delta, emulated,
			 nop);
	assert_true(site->instruction[0] != '\0');
	assert_int_equal(emulated, site->why[0] == '\0');
}

static void test_real_functions(void **state)
{
	static const struct {
		const char *name;
		const uint8_t *code;
		size_t size;
		uint32_t delta;
		bool emulated;
		const char *mnemonic;
	} cases[] = {
#define CASE(name, delta, emulated, mnemonic) {#name, name, sizeof(name), delta, emulated, mnemonic}
		CASE(glibc_malloc, 0, true, "push"),
		CASE(glibc_free, 3, true, "je"),
		CASE(glibc_calloc, 0, true, "push"),
		CASE(glibc_realloc, 0, true, "push"),
		CASE(glibc_posix_memalign, 7, true, "push"),
		CASE(glibc_aligned_alloc, 7, true, "je"),
		CASE(glibc_valloc, 7, true, "push"),
		CASE(glibc_pvalloc, 7, true, "push"),
		CASE(jemalloc_malloc, 7, true, "ja"),
		CASE(jemalloc_free, 0, false, "mov"), /* the 2nd instruction writes rdx */
		CASE(musl_malloc, 0, true, "jmp"),
		CASE(musl_calloc, 0, true, "push"),
		CASE(musl_posix_memalign, 0, true, "push"),
		CASE(cet_push, 4, true, "push"),
		CASE(cet_free, 7, true, "je"),
		CASE(cet_wrap, 0, false, "endbr64"),  /* sub $0x18,%rsp */
		CASE(cet_alloc, 0, false, "endbr64"), /* mov pool(%rip),%rdx */
#undef CASE
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		struct probe_site site;

		assert_int_equal(choose(cases[i].code, cases[i].size, cases[i].size, &site), 0);
		if (strncmp(site.instruction, cases[i].mnemonic, strlen(cases[i].mnemonic)) != 0)
			fail_msg("%s: \"%s\"", cases[i].name, site.instruction);
		assert_site(&site, cases[i].delta, cases[i].emulated, false);
	}
}

static void test_is_emulated(void **state)
{
	static const struct {
		uint8_t code[16];
		size_t len;
		bool emulated, nop;
	} cases[] = {
		{{0x90}, 1, true, false},
		{{0x50}, 1, true, false},
		{{0x57}, 1, true, false},
		{{0x41, 0x50}, 2, true, false},
		{{0x41, 0x57}, 2, true, false},
		{{0x41}, 1, false, false},
		{{0x48, 0x50}, 2, false, false}, /* rex.w push */
		{{0x40, 0x50}, 2, false, false},
		{{0x43, 0x50}, 2, false, false},
		{{0x66, 0x50}, 2, false, false},       /* push %ax */
		{{0x68, 1, 2, 3, 4}, 5, false, false}, /* push imm */
		{{0xff, 0x30}, 2, false, false},       /* push m */
		{{0xe8, 1, 2, 3, 4}, 5, true, false},
		{{0xe9, 1, 2, 3, 4}, 5, true, false},
		{{0xe9, 1, 2, 3}, 4, false, false},
		{{0xeb, 1}, 2, true, false},
		{{0xeb}, 1, false, false},
		{{0x70, 1}, 2, true, false},
		{{0x7f, 1}, 2, true, false},
		{{0x0f, 0x80, 1, 2, 3, 4}, 6, true, false},
		{{0x0f, 0x8f, 1, 2, 3, 4}, 6, true, false},
		{{0x0f, 0x84, 1, 2, 3}, 5, false, false},
		{{0x0f, 0x90, 0xc0}, 3, false, false},	     /* seto */
		{{0x66, 0xe8, 1, 2, 3, 4}, 6, false, false}, /* 4 bytes for AMD, 6 for Intel */
		{{0xf2, 0xe9, 1, 2, 3, 4}, 6, false, false}, /* bnd jmp */
		{{0x2e, 0x74, 1}, 3, false, false},	     /* je,pn: refused by the kernel */
		{{0x67, 0xe8, 1, 2, 3, 4}, 6, false, false},
		{{0xe0, 1}, 2, false, false},		     /* loopne */
		{{0xe3, 1}, 2, false, false},		     /* jrcxz */
		{{0xc7, 0xf8, 1, 2, 3, 4}, 6, false, false}, /* xbegin */
		{{0xff, 0xe0}, 2, false, false},	     /* jmp *%rax */
		{{0xc3}, 1, false, false},
		{{0xf3, 0xc3}, 2, false, false}, /* rep ret */
		{{0xcc}, 1, false, false},
		{{0xf3, 0x0f, 0x1e, 0xfa}, 4, false, false}, /* endbr64 */
		{{0xf3, 0x90}, 2, false, false},	     /* pause */
		{{0x41, 0x90}, 2, false, false},	     /* xchg %r8d,%eax */
		{{0x48, 0x90}, 2, false, false},
		{{0x66, 0x90}, 2, false, true},
		{{0x66, 0x66, 0x90}, 3, false, true},
		{{0x0f, 0x1f, 0x00}, 3, false, true},
		{{0x0f, 0x1f, 0x40, 0}, 4, false, true},
		{{0x0f, 0x1f, 0x44, 0, 0}, 5, false, true},
		{{0x66, 0x0f, 0x1f, 0x44, 0, 0}, 6, false, true},
		{{0x0f, 0x1f, 0x80, 0, 0, 0, 0}, 7, false, true},
		{{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 8, false, true},
		{{0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 9, false, true},
		{{0x0f, 0x1f, 0x04, 0x25, 0, 0, 0, 0}, 8, false, true}, /* nopl 0 */
		{{0x0f, 0x1f, 0x05, 0, 0, 0, 0}, 7, false, true},	/* nopl (%rip) */
		{{0x0f, 0x1f, 0x44, 0}, 4, false, false},
		{{0x0f, 0x1f, 0x04}, 3, false, false},
		{{0x0f, 0x1f}, 2, false, false},
		{{0x0f, 0x1f, 0xc8}, 3, false, false},
		{{0x66}, 1, false, false},
		/* cs nopw: no kernel lets a probe stand on a cs prefix */
		{{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 10, false, false},
		{{0}, 0, false, false},
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		_cleanup_free_ uint8_t *copy = malloc(cases[i].len ? cases[i].len : 1);
		bool nop = !cases[i].nop;

		memcpy(copy, cases[i].code, cases[i].len);
		if (probe_site__is_emulated(copy, cases[i].len, &nop) != cases[i].emulated ||
		    nop != cases[i].nop)
			fail_msg("%02x %02x %02x", cases[i].code[0], cases[i].code[1],
				 cases[i].code[2]);
		assert_int_equal(probe_site__is_emulated(copy, cases[i].len, NULL),
				 cases[i].emulated);
	}
}

#define TEST_RDI  0x48, 0x85, 0xff /* test %rdi,%rdi */
#define JE_OVER	  0x74, 0x01	   /* je over the ret */
#define PUSH_RBP  0x55
#define RET	  0xc3
#define NOP5	  0x0f, 0x1f, 0x44, 0x00, 0x00
#define MOV_EAX_1 0xb8, 1, 0, 0, 0 /* mov $1,%eax */

static void assert_stays(const uint8_t *code, size_t len, const char *why)
{
	struct probe_site site;

	assert_int_equal(choose(code, len, len, &site), 0);
	assert_int_equal(site.delta, 0);
	assert_false(site.emulated);
	if (!strstr(site.why, why))
		fail_msg("\"%s\" instead of \"%s\"", site.why, why);
}

#define STAYS(why, ...)                                                                            \
	do {                                                                                       \
		static const uint8_t code_[] = {__VA_ARGS__};                                      \
		assert_stays(code_, sizeof(code_), why);                                           \
	} while (0)

#define MOVES(delta, ...)                                                                          \
	do {                                                                                       \
		struct probe_site site_;                                                           \
		assert_int_equal(CHOOSE(&site_, __VA_ARGS__), 0);                                  \
		assert_site(&site_, delta, true, false);                                           \
	} while (0)

/* Rule 1: what may be passed over, and what not. */
static void test_straight_path(void **state)
{
	(void)state;
	MOVES(3, TEST_RDI, JE_OVER, RET, RET);
	MOVES(5, MOV_EAX_1, PUSH_RBP, RET);
	MOVES(4, 0xf3, 0x0f, 0x1e, 0xfa, PUSH_RBP, RET);		      /* endbr64 */
	MOVES(9, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, PUSH_RBP, RET); /* mov %fs:0x28 */
	MOVES(3, 0x0f, 0x57, 0xc0, PUSH_RBP, RET);			      /* xorps */
	MOVES(2, 0x31, 0xc0, 0x41, 0x57, RET); /* xor %eax,%eax; push %r15 */
	MOVES(5, NOP5, PUSH_RBP, RET);
	MOVES(4, 0x48, 0x83, 0x3f, 0x00, PUSH_RBP, RET); /* cmpq $0,(%rdi) */

	/* The conditional jump that carries the probe is the first one. */
	MOVES(3, TEST_RDI, JE_OVER, PUSH_RBP, RET);
	STAYS("no plain", 0xff, 0xe0, PUSH_RBP, RET);		  /* jmp *%rax */
	STAYS("no plain", 0xff, 0xd0, PUSH_RBP, RET);		  /* call *%rax */
	STAYS("no plain", 0xe3, 0x01, PUSH_RBP, RET);		  /* jrcxz */
	STAYS("no plain", RET, PUSH_RBP, RET);			  /* ret */
	STAYS("no plain", 0xf3, RET, PUSH_RBP, RET);		  /* rep ret */
	STAYS("no plain", 0x0f, 0x05, PUSH_RBP, RET);		  /* syscall */
	STAYS("no plain", 0x0f, 0x0b, PUSH_RBP, RET);		  /* ud2 */
	STAYS("no plain", 0xcd, 0x80, PUSH_RBP, RET);		  /* int $0x80 */
	STAYS("no plain", 0x31, 0xc0, 0xcc, PUSH_RBP, RET);	  /* xor; int3 */
	STAYS("no plain", 0xf3, 0x90, PUSH_RBP, RET);		  /* pause */
	STAYS("no plain", 0xf3, 0xa4, PUSH_RBP, RET);		  /* rep movsb */
	STAYS("no plain", 0x0f, 0xa2, PUSH_RBP, RET);		  /* cpuid */
	STAYS("no plain", 0x8e, 0xe0, PUSH_RBP, RET);		  /* mov %eax,%fs */
	STAYS("no plain", 0x0f, 0x20, 0xc0, PUSH_RBP, RET);	  /* mov %cr0,%rax */
	STAYS("no plain", 0xf2, 0xe9, 1, 0, 0, 0, PUSH_RBP, RET); /* bnd jmp */
	STAYS("no plain", 0x2e, 0x74, 1, PUSH_RBP, RET);	  /* je,pn */
	STAYS("does not decode", 0x31, 0xc0, 0x66, 0xe9, 0, 0, 0, 0, PUSH_RBP, RET);
	STAYS("beyond the symbol's end", TEST_RDI, JE_OVER, RET, 0x66, 0xe9, 0, 0);
	STAYS("no emulated instruction", 0x31, 0xc0);
}

/* Rule 2. */
static void test_no_way_in_from_the_side(void **state)
{
	struct probe_site site;

	(void)state;
	/* test; je; ... jmp to the je, with 1 and 4 bytes of distance; loop; call. */
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xeb, 0xfb);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe9, 0xf8, 0xff, 0xff, 0xff);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0x0f, 0x85, 0xf7, 0xff, 0xff, 0xff);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe2, 0xfb, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe8, 0xf8, 0xff, 0xff, 0xff, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xc7, 0xf8, 0xf7, 0xff, 0xff, 0xff, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xf2, 0xeb, 0xfa);
	/* Into the middle of the instruction passed over, and of the probed one. */
	STAYS("leads to +0x1", TEST_RDI, JE_OVER, RET, 0xeb, 0xf9);
	STAYS("leads to +0x4", TEST_RDI, JE_OVER, RET, 0xeb, 0xfc);
	/* The probed jump itself goes there. */
	STAYS("leads to +0x3", TEST_RDI, 0x74, 0xfe);
	/* Behind the probe, to the entry (a call more, wherever the probe is), before it: fine. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xfd);
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xf8);
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xf0);
	/* 256 times round is as good as once: a target is a number, not a byte. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xe9, 0xf8, 0xff, 0xff, 0x7f);

	/* The nop before the target still does. */
	assert_int_equal(CHOOSE(&site, NOP5, PUSH_RBP, RET, 0xeb, 0xfc), 0);
	assert_site(&site, 0, false, true);
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET, 0xeb, 0xfc), 0);
	assert_site(&site, 3, false, true);
	assert_non_null(strstr(site.why, "leads to +0x8"));
	/* But not one with a target inside: it may be rewritten whole. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET, 0xeb, 0xfa), 0);
	assert_site(&site, 0, false, false);
}

/* Rules 3 and 4. */
static void test_registers_and_memory_intact(void **state)
{
	(void)state;
	STAYS("argument", 0x31, 0xff, PUSH_RBP, RET);			/* xor %edi,%edi */
	STAYS("argument", 0x89, 0xff, PUSH_RBP, RET);			/* mov %edi,%edi */
	STAYS("argument", 0x40, 0xb7, 1, PUSH_RBP, RET);		/* mov $1,%dil */
	STAYS("argument", 0xb5, 1, PUSH_RBP, RET);			/* mov $1,%ch */
	STAYS("argument", 0xb6, 1, PUSH_RBP, RET);			/* mov $1,%dh */
	STAYS("argument", 0x66, 0xbe, 1, 0, PUSH_RBP, RET);		/* mov $1,%si */
	STAYS("argument", 0x48, 0x8d, 0x50, 1, PUSH_RBP, RET);		/* lea 1(%rax),%rdx */
	STAYS("argument", 0x4c, 0x8b, 0xc0, PUSH_RBP, RET);		/* mov %rax,%r8 */
	STAYS("argument", 0x41, 0xff, 0xc1, PUSH_RBP, RET);		/* inc %r9d */
	STAYS("argument", 0x48, 0xc1, 0xe6, 4, PUSH_RBP, RET);		/* shl $4,%rsi */
	STAYS("argument", 0x48, 0xf7, 0xd9, PUSH_RBP, RET);		/* neg %rcx */
	STAYS("argument", 0x66, 0x48, 0x0f, 0x7e, 0xc7, PUSH_RBP, RET); /* movq %xmm0,%rdi */
	STAYS("no plain", 0xf7, 0xe7, PUSH_RBP, RET);			/* mul %edi: edx:eax */
	STAYS("no plain", 0x48, 0x87, 0xc7, PUSH_RBP, RET);		/* xchg %rax,%rdi */
	STAYS("no plain", 0x99, PUSH_RBP, RET);				/* cltd: edx */
	STAYS("rsp or rbp", 0x48, 0x83, 0xec, 8, PUSH_RBP, RET);	/* sub $8,%rsp */
	STAYS("rsp or rbp", 0x48, 0x89, 0xc5, PUSH_RBP, RET);		/* mov %rax,%rbp */
	STAYS("rsp or rbp", 0x40, 0xb5, 1, PUSH_RBP, RET);		/* mov $1,%bpl */
	STAYS("no plain", 0x58, PUSH_RBP, RET);				/* pop %rax */
	STAYS("no plain", 0x6a, 1, PUSH_RBP, RET);			/* push $1 */
	STAYS("no plain", 0xc9, PUSH_RBP, RET);				/* leave */
	STAYS("memory", 0x48, 0x89, 0x04, 0x24, PUSH_RBP, RET);		/* mov %rax,(%rsp) */
	STAYS("memory", 0x48, 0x89, 0x7c, 0x24, 0xf8, PUSH_RBP, RET);	/* mov %rdi,-8(%rsp) */
	STAYS("memory", 0xff, 0x00, PUSH_RBP, RET);			/* incl (%rax) */
	STAYS("memory", 0x0f, 0x29, 0x07, PUSH_RBP, RET);		/* movaps %xmm0,(%rdi) */
	MOVES(2, 0xb4, 1, PUSH_RBP, RET);				/* mov $1,%ah */
	MOVES(3, 0x45, 0x31, 0xd2, PUSH_RBP, RET);			/* xor %r10d,%r10d */
	MOVES(2, 0x89, 0xfb, PUSH_RBP, RET);				/* mov %edi,%ebx */
}

/* Rule 5 and the symbol's size. */
static void test_size(void **state)
{
	static const uint8_t code[] = {TEST_RDI, JE_OVER, RET, MOV_EAX_1, RET};
	struct probe_site site;

	(void)state;
	assert_int_equal(choose(code, sizeof(code), sizeof(code), &site), 0);
	assert_site(&site, 3, true, false);
	assert_int_equal(choose(code, sizeof(code), 0, &site), 0);
	assert_site(&site, 0, false, false);
	assert_string_equal(site.why, "the size of the function is unknown");
	assert_int_equal(choose(code, sizeof(code), sizeof(code) + 1, &site), 0);
	assert_site(&site, 0, false, false);
	assert_string_equal(site.why, "the file ends before the function does");
	/* Sizes that end inside an instruction. */
	for (size_t size = 1; size < sizeof(code); size++) {
		bool whole = size == 5 || size == 6 || size == 11;

		assert_int_equal(choose(code, sizeof(code), size, &site), 0);
		assert_site(&site, whole ? 3 : 0, whole, false);
	}
	/* Functions cut short. */
	for (size_t len = 3; len < sizeof(code); len++) {
		assert_int_equal(choose(code, len, sizeof(code), &site), 0);
		assert_site(&site, 0, false, false);
	}
	assert_int_equal(choose(code, 2, sizeof(code), &site), -EINVAL);
	assert_int_equal(choose(code, 0, sizeof(code), &site), -EINVAL);
	assert_int_equal(choose(code, sizeof(code), UINT64_MAX, &site), 0);
	assert_site(&site, 0, false, false);

	/* What follows the function (padding, the next one) does not matter. */
	static const uint8_t padded[] = {TEST_RDI, JE_OVER, RET, RET, 0xeb, 0xfa, 0xff, 0xff};

	assert_int_equal(choose(padded, sizeof(padded), 7, &site), 0);
	assert_site(&site, 3, true, false);

	/* An emulated first instruction needs none of it. */
	static const uint8_t push[] = {PUSH_RBP, 0x06, 0x06};

	assert_int_equal(choose(push, 3, 0, &site), 0);
	assert_site(&site, 0, true, false);
	assert_int_equal(choose(push, 3, 100, &site), 0);
	assert_site(&site, 0, true, false);
}

/* Behind an instruction that the decoder does not know every byte may start a branch. */
static void test_unknown_instructions(void **state)
{
#define UNKNOWN 0x0f, 0x04, 0x90, 0x90, 0x90 /* 0f 04: unknown to every decoder */
#define FILLER	0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90
	struct probe_site site;

	(void)state;
	MOVES(3, TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, RET);
	STAYS("may lead to +0x3", TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, 0xeb, 0xe8, RET);
	/* In the immediate of an instruction: a branch for one who is out of step. */
	STAYS("may lead to +0x3", TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, 0xb8, 0xeb, 0xe7, 0, 0,
	      RET);
	/* The same in step, with nothing unknown: no branch. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0x90, 0x90, 0x90, 0x90, 0x90, FILLER, 0xb8, 0xeb, 0xe7, 0,
	      0, RET);
	/* The linker's call of __tls_get_addr is known: data16 data16 rex.W call. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0x66, 0x66, 0x48, 0xe8, 0xf5, 0xff, 0xff,
	      0xff, RET);
	/* On the path itself. */
	STAYS("does not decode", TEST_RDI, 0x41, 0x48, 0x89, 0xc7, PUSH_RBP, RET); /* two REX */
	STAYS("does not decode", TEST_RDI, 0x48, 0x66, 0x89, 0xc0, PUSH_RBP, RET);
	STAYS("does not decode", TEST_RDI, UNKNOWN, FILLER, PUSH_RBP, RET);
	assert_int_equal(CHOOSE(&site, UNKNOWN, PUSH_RBP, RET), -EINVAL);
	assert_non_null(strstr(site.why, "does not decode"));
	/* At the end: is it unknown or cut? */
	STAYS("beyond the symbol's end", TEST_RDI, JE_OVER, RET, UNKNOWN);
}

static void test_nops(void **state)
{
	struct probe_site site;

	(void)state;
	/* Better than a stepped instruction, not as good as a push. */
	assert_int_equal(CHOOSE(&site, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 0, false, true);
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 3, false, true);
	assert_non_null(strstr(site.why, "argument"));
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET), 0);
	assert_site(&site, 8, true, false);
	/* The first of two. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, 0x66, 0x90, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 3, false, true);
	assert_string_equal(site.instruction, "nop");
	/* Not at a "cs nopw", but beyond it. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x31,
				0xff, RET),
			 0);
	assert_site(&site, 0, false, false);
	MOVES(13, TEST_RDI, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, PUSH_RBP, RET);
	/* Reserved nops are none for ever (bndldx, rdssp), and a pause is none at all. */
	/* why differs: newer decoders refuse what older ones take for nops */
	STAYS("", TEST_RDI, 0xf3, 0x66, 0x90, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0x0f, 0x1a, 0x40, 0x00, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0xf3, 0x0f, 0x1e, 0x29, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0xf3, 0x48, 0x0f, 0x28, 0xc8, PUSH_RBP, RET);
	/* The single-byte nop is emulated everywhere. */
	MOVES(3, TEST_RDI, 0x90, 0x31, 0xff, RET);
}

static void test_breakpoint(void **state)
{
	struct probe_site site;

	(void)state;
	assert_int_equal(CHOOSE(&site, 0xcc, 0x48, 0x89, 0xe5, RET), -EINVAL);
	assert_non_null(strstr(site.why, "breakpoint"));
	assert_int_equal(CHOOSE(&site, 0x06, RET), -EINVAL);
	assert_non_null(strstr(site.why, "does not decode"));
}

/* A checker that shares nothing with the code under test: lengths and effects straight from the
 * opcode maps of the processor manuals. */
struct checked {
	size_t len; /* 0: not known to the checker */
	bool branches;
	int64_t target;	  /* from the instruction's first byte */
	bool harmless;	  /* may be passed over, as far as it leaves the arguments alone */
	uint32_t written; /* general registers */
};

static struct checked check_instruction(const uint8_t *code, size_t max)
{
	struct checked result = {0};
	bool opsize = false, addr32 = false, rex_w = false, rex = false, lock = false;
	unsigned int op, mod = 0, reg = 0, rm = 0, dest = 16; /* 16: none */
	bool modrm = false, two = false, vector = false, byte_op = false, rm_is_dest = false;
	uint8_t rex_byte = 0, rep = 0;
	size_t pos = 0, imm = 0;
	bool known = false;

	for (; pos < max; pos++) {
		uint8_t b = code[pos];

		if (b == 0x66)
			opsize = true;
		else if (b == 0x67)
			addr32 = true;
		else if (b == 0xf2 || b == 0xf3)
			rep = b;
		else if (b == 0xf0)
			lock = true;
		else if (b != 0x26 && b != 0x2e && b != 0x36 && b != 0x3e && b != 0x64 && b != 0x65)
			break;
	}
	if (pos < max && (code[pos] & 0xf0) == 0x40) {
		rex = true;
		rex_byte = code[pos++];
		rex_w = rex_byte & 8;
	}
	if (pos >= max)
		return result;
	op = code[pos++];
	if (op == 0x0f) {
		if (pos >= max)
			return result;
		two = true;
		op = code[pos++];
	}

	size_t immz = opsize && !rex_w ? 2 : 4;

	if (!two) {
		if (op < 0x40) {
			modrm = (op & 7) < 4;
			imm = (op & 7) == 4 ? 1 : (op & 7) == 5 ? immz : 0;
			if ((op & 7) > 5)
				return result;
			known = true;
			byte_op = !(op & 1);
			if (op < 0x38) {
				if (modrm && !(op & 2))
					rm_is_dest = true;
				else if (!modrm)
					dest = 0;
			}
		} else if (op >= 0x50 && op < 0x60) {
			;
		} else if (op == 0x63) {
			modrm = known = true;
		} else if (op == 0x68) {
			imm = immz;
		} else if (op == 0x69) {
			modrm = true;
			imm = immz;
		} else if (op == 0x6a) {
			imm = 1;
		} else if (op == 0x6b) {
			modrm = true;
			imm = 1;
		} else if (op >= 0x70 && op < 0x80) {
			imm = 1;
			result.branches = true;
		} else if (op == 0x80 || op == 0x83 || op == 0x81) {
			modrm = rm_is_dest = known = true;
			imm = op == 0x81 ? immz : 1;
			byte_op = op == 0x80;
		} else if (op >= 0x84 && op <= 0x8d) {
			modrm = true;
			known = op != 0x86 && op != 0x87 && op != 0x8c;
			byte_op = !(op & 1) && op != 0x8c;
			rm_is_dest = op == 0x88 || op == 0x89;
		} else if (op == 0x8e) {
			modrm = true;
		} else if (op == 0x90 && !(rex_byte & 1) && rep != 0xf3) {
			known = true;
		} else if (op >= 0x90 && op <= 0x9f && op != 0x9a) {
			;
		} else if (op >= 0xa0 && op <= 0xa3) {
			imm = addr32 ? 4 : 8;
			known = op < 0xa2;
			dest = 0;
		} else if (op >= 0xa4 && op <= 0xaf) {
			imm = op == 0xa8 ? 1 : op == 0xa9 ? immz : 0;
			known = op == 0xa8 || op == 0xa9;
		} else if (op >= 0xb0 && op < 0xb8) {
			imm = 1;
			known = byte_op = true;
			dest = (op & 7) | (rex_byte & 1) << 3;
		} else if (op >= 0xb8 && op < 0xc0) {
			imm = rex_w ? 8 : immz;
			known = true;
			dest = (op & 7) | (rex_byte & 1) << 3;
		} else if (op == 0xc0 || op == 0xc1) {
			modrm = rm_is_dest = known = true;
			byte_op = op == 0xc0;
			imm = 1;
		} else if (op == 0xc3 || op == 0xc9 || op == 0xcb || op == 0xcc) {
			;
		} else if (op == 0xc6 || op == 0xc7) {
			modrm = rm_is_dest = known = true;
			byte_op = op == 0xc6;
			imm = op == 0xc6 ? 1 : immz;
		} else if (op >= 0xd0 && op <= 0xd3) {
			modrm = rm_is_dest = known = true;
			byte_op = !(op & 1);
		} else if (op >= 0xd8 && op <= 0xdf) {
			modrm = true;
		} else if ((op >= 0xe0 && op <= 0xe3) || op == 0xeb) {
			imm = 1;
			result.branches = true;
		} else if (op == 0xe8 || op == 0xe9) {
			imm = 4;
			result.branches = true;
		} else if (op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff) {
			modrm = rm_is_dest = known = true;
			byte_op = !(op & 1);
		} else {
			return result;
		}
	} else {
		if (op >= 0x80 && op < 0x90) {
			imm = 4;
			result.branches = true;
		} else if (op == 0x05 || op == 0x0b || op == 0x31 || op == 0xa2) {
			;
		} else if (op == 0x1e && rep == 0xf3 && pos < max && code[pos] == 0xfa) {
			pos++;
			known = true;
		} else if (op == 0x1f || (op >= 0x40 && op < 0x50) || (op >= 0x90 && op < 0xa0) ||
			   op == 0xaf) {
			modrm = true;
			known = op == 0x1f;
		} else if (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf || op == 0xbc ||
			   op == 0xbd) {
			modrm = known = true;
		} else if (op == 0x10 || op == 0x11 || op == 0x28 || op == 0x29 || op == 0x6e ||
			   op == 0x6f || op == 0x7e || op == 0x7f || op == 0xd6 || op == 0xef ||
			   op == 0x57) {
			modrm = known = vector = true;
			rm_is_dest = op == 0x11 || op == 0x29 || op == 0x7f || op == 0xd6 ||
				     (op == 0x7e && rep != 0xf3);
		} else {
			return result;
		}
	}
	if (modrm) {
		if (pos >= max)
			return result;
		mod = code[pos] >> 6;
		reg = (code[pos] >> 3 & 7) | (rex_byte & 4) << 1;
		rm = code[pos] & 7;
		pos++;
		if (mod != 3 && rm == 4) {
			if (pos >= max)
				return result;
			if (mod == 0 && (code[pos] & 7) == 5)
				pos += 4;
			pos++;
		}
		if (mod == 1)
			pos += 1;
		else if (mod == 2 || (mod == 0 && rm == 5))
			pos += 4;
		rm |= (rex_byte & 1) << 3;
	}
	if (!two && (op == 0xf6 || op == 0xf7) && (reg & 7) < 2)
		imm = op == 0xf6 ? 1 : immz;
	if (result.branches && opsize && !rex_w) /* two lengths */
		return (struct checked){0};
	if (pos + imm > max || pos + imm > 15)
		return (struct checked){0};
	result.len = pos + imm;
	if (result.branches) {
		int32_t rel = 0;

		if (imm == 1)
			rel = (int8_t)code[pos];
		else
			memcpy(&rel, code + pos, 4);
		result.target = (int64_t)result.len + rel;
		return result;
	}
	if (!two && op == 0xc7 && mod == 3 && (reg & 7) == 7) {
		result.branches = true; /* xbegin */
		result.target = (int64_t)result.len;
		result.target +=
			opsize ? 0
			       : (int32_t)(code[pos] | code[pos + 1] << 8 | code[pos + 2] << 16 |
					   (uint32_t)code[pos + 3] << 24);
		return result;
	}

	/* What does it write? */
	unsigned int op_reg = reg & 7;

	if (!two && op >= 0x80 && op <= 0x83 && op_reg == 7)
		rm_is_dest = false; /* cmp */
	else if (!two && (op == 0x84 || op == 0x85))
		; /* test */
	else if (!two && (op == 0xf6 || op == 0xf7)) {
		if (op_reg < 2)
			rm_is_dest = false;
		else if (op_reg > 3)
			known = false;
	} else if (!two && (op == 0xfe || op == 0xff)) {
		if (op_reg > 1)
			known = false;
	} else if (!two && (op == 0xc6 || op == 0xc7)) {
		if (op_reg != 0)
			known = false;
	} else if (!two && ((op >= 0x10 && op < 0x20))) {
		known = false; /* adc, sbb */
	} else if (!two && (op >= 0xc0 && op <= 0xd3) && (op_reg < 4)) {
		known = false; /* rotates */
	} else if (modrm && !rm_is_dest && !(two && op == 0x1f) &&
		   !(!two && op >= 0x38 && op < 0x3c)) {
		dest = reg;
	}
	if (modrm && rm_is_dest) {
		if (mod != 3)
			return result; /* a store */
		dest = rm;
	}
	if (!known || lock)
		return result;
	if (vector && !(op == 0x7e && rep != 0xf3)) {
		result.harmless = true;
		return result;
	}
	if (byte_op && !rex && dest >= 4 && dest < 8)
		dest -= 4;			  /* ah, ch, dh, bh */
	result.harmless = dest != 4 && dest != 5; /* rsp, rbp */
	result.written = 1u << dest;
	return result;
}

/* The registers in which an argument stands after an instruction. */
static uint32_t follow(uint32_t holders, const uint8_t *code, const struct checked *insn)
{
	unsigned int reg = (code[2] >> 3 & 7) | (code[0] & 4) << 1;
	unsigned int rm = (code[2] & 7) | (code[0] & 1) << 3;
	uint32_t left = holders & ~insn->written;

	/* mov r64,r64 */
	if (insn->len != 3 || (code[0] & 0xf8) != 0x48 || code[2] < 0xc0)
		return left;
	if (code[1] == 0x89)
		return left | (holders >> reg & 1u) << rm;
	if (code[1] == 0x8b)
		return left | (holders >> rm & 1u) << reg;
	return left;
}

/* All six arguments are read at the probe. */
static void assert_sound(const uint8_t *code, size_t size, const struct probe_site *site)
{
	/* the registers by their numbers in struct probe_site */
	static const uint8_t numbers[] = {0, 7, 6, 2, 1, 8, 9, 0, 10, 11, 3, 12, 13, 14, 15};
	uint32_t holders[6];
	size_t pos = 0, site_len;
	struct checked insn;

	for (size_t i = 0; i < 6; i++)
		holders[i] = 1u << numbers[i + 1];

	assert_true(site->delta < size);
	assert_true(memchr(site->instruction, '\0', sizeof(site->instruction)) != NULL);
	assert_true(memchr(site->why, '\0', sizeof(site->why)) != NULL);
	if (site->delta == 0)
		return;
	while (pos < site->delta) {
		insn = check_instruction(code + pos, size - pos);
		if (!insn.len || insn.branches || !insn.harmless)
			fail_msg("+%zu: %02x %02x %02x %02x passed over for \"%s\" at +%u", pos,
				 code[pos], code[pos + 1], code[pos + 2], code[pos + 3],
				 site->instruction, site->delta);
		for (size_t i = 0; i < 6; i++)
			holders[i] = follow(holders[i], code + pos, &insn);
		pos += insn.len;
	}
	assert_int_equal(pos, site->delta);
	for (size_t i = 0; i < 6; i++)
		if (!(holders[i] & 1u << numbers[site->args[i]]))
			fail_msg("argument %zu is not in register %u at +%u", i + 1, site->args[i],
				 site->delta);
	insn = check_instruction(code + pos, size - pos);
	assert_true(insn.len > 0);
	site_len = insn.len;
	assert_true(site->emulated != site->nop);
	if (site->emulated) {
		uint8_t b = code[pos];

		assert_true(b == 0x90 || (b & 0xf8) == 0x50 || (b & 0xf0) == 0x70 || b == 0xe8 ||
			    b == 0xe9 || b == 0xeb ||
			    (b == 0x41 && (code[pos + 1] & 0xf8) == 0x50) ||
			    (b == 0x0f && (code[pos + 1] & 0xf0) == 0x80));
	}
	/* In step as far as the checker knows the instructions. */
	for (pos = 0; pos < size; pos += insn.len) {
		insn = check_instruction(code + pos, size - pos);
		if (!insn.len)
			break;
		if (insn.branches && (int64_t)pos + insn.target > 0)
			assert_true((uint64_t)((int64_t)pos + insn.target) >=
				    site->delta + site_len);
	}
}

static void test_real_functions_are_sound(void **state)
{
	static const struct {
		const uint8_t *code;
		size_t size;
	} functions[] = {
		{glibc_free, sizeof(glibc_free)},
		{glibc_posix_memalign, sizeof(glibc_posix_memalign)},
		{glibc_aligned_alloc, sizeof(glibc_aligned_alloc)},
		{glibc_valloc, sizeof(glibc_valloc)},
		{glibc_pvalloc, sizeof(glibc_pvalloc)},
		{jemalloc_malloc, sizeof(jemalloc_malloc)},
		{cet_push, sizeof(cet_push)},
		{cet_free, sizeof(cet_free)},
	};

	(void)state;
	for (size_t i = 0; i < N(functions); i++) {
		struct probe_site site;

		assert_int_equal(
			choose(functions[i].code, functions[i].size, functions[i].size, &site), 0);
		assert_true(site.delta > 0);
		assert_sound(functions[i].code, functions[i].size, &site);
	}
}

static bool objdump_available(void)
{
	return system("objdump --version >/dev/null 2>&1") == 0;
}

struct wanted {
	uint64_t addr;
	bool met; /* objdump begins an instruction there */
};

/* Looks for the wanted addresses (ascending) in the "ADDR:\tTEXT" lines that command prints. */
static void mark_boundaries(const char *command, struct wanted *wanted, size_t n)
{
	FILE *pipe = popen(command, "r");
	char line[512];

	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		char *end;
		uint64_t addr = strtoull(line, &end, 16);
		size_t low = 0, high = n;

		if (end == line || end[0] != ':' || end[1] != '\t')
			continue;
		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (wanted[mid].addr < addr)
				low = mid + 1;
			else
				high = mid;
		}
		for (; low < n && wanted[low].addr == addr; low++)
			wanted[low].met = true;
	}
	assert_int_equal(pclose(pipe), 0);
}

/* Pieces that random functions are made of, so that many of them get past their first bytes. */
static size_t add_piece(uint8_t *code, size_t room)
{
	static const uint8_t pieces[][10] = {
		{3, TEST_RDI},
		{2, JE_OVER},
		{2, 0x31, 0xc0},
		{1, PUSH_RBP},
		{2, 0x41, 0x54},
		{5, NOP5},
		{2, 0x66, 0x90},
		{4, 0xf3, 0x0f, 0x1e, 0xfa},
		{5, MOV_EAX_1},
		{3, 0x48, 0x89, 0xfb},
		{7, 0x80, 0x3d, 1, 2, 3, 4, 0},
		{7, 0x48, 0x3d, 1, 2, 3, 4, 0x90},
		{4, 0x48, 0x83, 0xec, 8},
		{9, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0},
		{1, RET},
		{2, 0xeb, 0xfa},
		{2, 0x75, 0xf4},
		{5, 0xe8, 1, 2, 3, 4},
		{5, UNKNOWN},
		{4, 0x0f, 0x1f, 0x40, 0},
	};
	const uint8_t *piece = pieces[rand() % N(pieces)];
	size_t len = piece[0];

	if (rand() % 3 == 0) {
		/* A plain opcode with any prefix and operands. */
		static const uint8_t opcodes[] = {0x89, 0x8b, 0x01, 0x39, 0x85, 0x83, 0xf7, 0xc1,
						  0x8d, 0xb8, 0x63, 0x3c, 0xa9, 0xd3, 0xc7, 0xff};

		len = 3 + rand() % 7;
		for (size_t i = 0; i < len && i < room; i++)
			code[i] = rand();
		if (room > 2) {
			code[0] = rand() % 2 ? 0x40 | rand() % 16
					     : (int[]){0x66, 0xf3, 0x64}[rand() % 3];
			code[1] = opcodes[rand() % N(opcodes)];
		}
	} else {
		for (size_t i = 0; i < len && i < room; i++)
			code[i] = piece[i + 1];
	}
	return len < room ? len : room;
}

static void test_random(void **state)
{
	enum { CASES = 100000, MAX = 48, PITCH = 64, MAX_MOVED = 40000 };
	_cleanup_free_ uint8_t *moved_code = malloc((size_t)MAX_MOVED * PITCH);
	_cleanup_free_ struct wanted *wanted = calloc(MAX_MOVED, sizeof(*wanted));
	char path[] = "/tmp/memtrace-probe-site-XXXXXX", command[256];
	size_t n_moved = 0;
	_cleanup_close_ int fd = -1;

	(void)state;
	srand(4);
	memset(moved_code, 0x90, (size_t)MAX_MOVED * PITCH);
	for (int round = 0; round < CASES; round++) {
		uint8_t code[MAX];
		size_t len = rand() % (MAX + 1), size = len;
		struct probe_site site;
		int err;

		if (round % 4 == 0) {
			for (size_t i = 0; i < len; i++)
				code[i] = rand();
		} else {
			for (size_t i = 0; i < len;)
				i += add_piece(code + i, len - i);
		}
		if (len && rand() % 4 == 0)
			code[rand() % len] = rand();
		if (rand() % 8 == 0)
			size = rand() % (MAX + 8);
		err = choose(code, len, size, &site);
		if (err) {
			assert_int_equal(err, -EINVAL);
			continue;
		}
		if (site.delta == 0)
			continue;
		assert_true(size <= len);
		assert_sound(code, size, &site);
		if (n_moved < MAX_MOVED) {
			/* Only up to the probe: behind it are single-byte nops, in which a
			 * disassembler finds its step again before the next case. */
			memcpy(moved_code + n_moved * PITCH, code, site.delta);
			wanted[n_moved].addr = n_moved * PITCH + site.delta;
			n_moved++;
		}
	}
	assert_true(n_moved > 1000);
	if (!objdump_available())
		return;
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, moved_code, n_moved * PITCH), n_moved * PITCH);
	snprintf(command, sizeof(command),
		 "objdump -D -z --no-show-raw-insn -b binary -m i386:x86-64 %s", path);
	mark_boundaries(command, wanted, n_moved);
	unlink(path);
	for (size_t i = 0; i < n_moved; i++)
		assert_true(wanted[i].met);
}

/* A register that carries none of the arguments that the probe reads may be written. */
static void registers_beyond_the_arguments_are_free(void **state)
{
	static const uint8_t code[] = {
		0x48, 0x89, 0xfe, /* mov %rdi,%rsi */
		0x31, 0xc9, 0x90, /* xor %ecx,%ecx; nop */
		0x48, 0x85, 0xff, /* test %rdi,%rdi */
		0x74, 0x01,	  /* je +1 */
		0x90, 0xc3,	  /* nop, ret */
	};
	static const struct {
		unsigned int n_args, delta;
	} wanted[] = {{0, 5}, {1, 5}, {2, 0}, {4, 0}, {6, 0}};

	(void)state;
	for (size_t i = 0; i < N(wanted); i++) {
		struct probe_site site;

		assert_int_equal(probe_site__choose(code, sizeof(code), VADDR, sizeof(code),
						    wanted[i].n_args, &site),
				 0);
		assert_site(&site, wanted[i].delta, wanted[i].delta > 0, false);
		assert_int_equal(site.args[0], wanted[i].n_args > 0);
	}
}

/* Nor does it matter when the argument has been put elsewhere, whole. */
static void arguments_are_followed(void **state)
{
	static const uint8_t moved[] = {
		0x48, 0x89, 0xfe,	      /* mov %rdi,%rsi */
		0x49, 0x89, 0xf4,	      /* mov %rsi,%r12 */
		0x64, 0x48, 0x8b, 0x38,	      /* mov %fs:(%rax),%rdi */
		0xbe, 0x01, 0x00, 0x00, 0x00, /* mov $1,%esi */
		0x90, 0xc3,		      /* nop, ret */
	};
	static const uint8_t half[] = {
		0x89, 0xfe,	  /* mov %edi,%esi */
		0x48, 0x31, 0xff, /* xor %rdi,%rdi */
		0x90, 0xc3,	  /* nop, ret */
	};
	struct probe_site site;

	(void)state;
	assert_int_equal(probe_site__choose(moved, sizeof(moved), VADDR, sizeof(moved), 1, &site),
			 0);
	assert_site(&site, 15, true, false);
	assert_int_equal(site.args[0], 11); /* r12 */
	assert_int_equal(probe_site__choose(moved, sizeof(moved), VADDR, sizeof(moved), 2, &site),
			 0);
	assert_site(&site, 0, false, false);
	assert_int_equal(site.args[0], 1);
	assert_int_equal(site.args[1], 2);
	assert_int_equal(probe_site__choose(half, sizeof(half), VADDR, sizeof(half), 1, &site), 0);
	assert_site(&site, 0, false, false);
}

/* The files that are on this machine, every allocator function of them. */
static void check_file(const char *path)
{
	static const char *const names[] = {
		"malloc",
		"free",
		"calloc",
		"realloc",
		"reallocarray",
		"posix_memalign",
		"memalign",
		"valloc",
		"pvalloc",
		"aligned_alloc",
		"malloc_usable_size",
		"mallocx",
		"rallocx",
		"xallocx",
		"sallocx",
		"dallocx",
		"sdallocx",
		"mmap",
		"munmap",
		"mremap",
		"brk",
		"sbrk",
		"_Znwm",
		"_Znam",
		"_ZdlPv",
		"_ZdaPv",
		"_ZdlPvm",
		"cfree",
		"mi_malloc",
		"mi_free",
		"tc_malloc",
		"tc_free",
	};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	assert_int_equal(elf_image__open(fd, path, &image, NULL), 0);
	for (size_t i = 0; i < N(names); i++) {
		_cleanup_free_ uint8_t *code = NULL;
		struct elf_symbol symbol;
		struct probe_site site;
		struct wanted wanted;
		char command[512];
		long n;

		if (elf_image__find_function(image, names[i], &symbol) || !symbol.size)
			continue;
		code = malloc(symbol.size);
		n = elf_image__read_code(image, symbol.vaddr, code, symbol.size);
		assert_int_equal(n, symbol.size);
		assert_int_equal(probe_site__choose(code, n, symbol.vaddr, symbol.size,
						    PROBE_SITE_ALL_ARGS, &site),
				 0);
		assert_sound(code, n, &site);
		wanted = (struct wanted){.addr = symbol.vaddr + site.delta};
		snprintf(command, sizeof(command),
			 "objdump -d --no-show-raw-insn --start-address=%#llx --stop-address=%#llx "
			 "%s | sed 's/^ *//'",
			 (unsigned long long)symbol.vaddr,
			 (unsigned long long)(symbol.vaddr + symbol.size), path);
		mark_boundaries(command, &wanted, 1);
		if (!wanted.met)
			fail_msg("%s %s+%u is no boundary", path, names[i], site.delta);
	}
}

static void test_files(void **state)
{
	static const char *const paths[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/libc.so.6",
		"/lib/ld-musl-x86_64.so.1",
		"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
		"/usr/lib/x86_64-linux-gnu/libmimalloc.so.2",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	};

	(void)state;
	if (!objdump_available())
		skip();
	for (size_t i = 0; i < N(paths); i++)
		check_file(paths[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_beyond_the_arguments_are_free),
		cmocka_unit_test(arguments_are_followed),
		cmocka_unit_test(test_real_functions),
		cmocka_unit_test(test_is_emulated),
		cmocka_unit_test(test_straight_path),
		cmocka_unit_test(test_no_way_in_from_the_side),
		cmocka_unit_test(test_registers_and_memory_intact),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_unknown_instructions),
		cmocka_unit_test(test_nops),
		cmocka_unit_test(test_breakpoint),
		cmocka_unit_test(test_real_functions_are_sound),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
