// SPDX-License-Identifier: BSD-2-Clause
/* The rules of elf/probe_site.h, one by one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "elf/probe_site.h"
#include "code_samples.h"
#include "probe_site_fixture.h"

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

static void test_which_are_emulated(void **state)
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
		/* cs nopw: no kernel allows a probe on an instruction with a cs prefix */
		{{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 10, false, false},
		{{0}, 0, false, false},
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		struct probe_site site;

		if (choose(cases[i].code, cases[i].len, cases[i].len, &site))
			site = (struct probe_site){};
		if (site.delta || site.emulated != cases[i].emulated || site.nop != cases[i].nop)
			fail_msg("%02x %02x %02x", cases[i].code[0], cases[i].code[1],
				 cases[i].code[2]);
	}
}

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

/* Rule 1: instructions that a probe may pass over, and others. */
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

	/* The probe is on the first conditional jump, because no branch is passed over. */
	MOVES(3, TEST_RDI, JE_OVER, PUSH_RBP, RET);
	STAYS("not a plain", 0xff, 0xe0, PUSH_RBP, RET);	     /* jmp *%rax */
	STAYS("not a plain", 0xff, 0xd0, PUSH_RBP, RET);	     /* call *%rax */
	STAYS("not a plain", 0xe3, 0x01, PUSH_RBP, RET);	     /* jrcxz */
	STAYS("not a plain", RET, PUSH_RBP, RET);		     /* ret */
	STAYS("not a plain", 0xf3, RET, PUSH_RBP, RET);		     /* rep ret */
	STAYS("not a plain", 0x0f, 0x05, PUSH_RBP, RET);	     /* syscall */
	STAYS("not a plain", 0x0f, 0x0b, PUSH_RBP, RET);	     /* ud2 */
	STAYS("not a plain", 0xcd, 0x80, PUSH_RBP, RET);	     /* int $0x80 */
	STAYS("not a plain", 0x31, 0xc0, 0xcc, PUSH_RBP, RET);	     /* xor; int3 */
	STAYS("not a plain", 0xf3, 0x90, PUSH_RBP, RET);	     /* pause */
	STAYS("not a plain", 0xf3, 0xa4, PUSH_RBP, RET);	     /* rep movsb */
	STAYS("not a plain", 0x0f, 0xa2, PUSH_RBP, RET);	     /* cpuid */
	STAYS("not a plain", 0x8e, 0xe0, PUSH_RBP, RET);	     /* mov %eax,%fs */
	STAYS("not a plain", 0x0f, 0x20, 0xc0, PUSH_RBP, RET);	     /* mov %cr0,%rax */
	STAYS("not a plain", 0xf2, 0xe9, 1, 0, 0, 0, PUSH_RBP, RET); /* bnd jmp */
	STAYS("not a plain", 0x2e, 0x74, 1, PUSH_RBP, RET);	     /* je,pn */
	STAYS("does not decode", 0x31, 0xc0, 0x66, 0xe9, 0, 0, 0, 0, PUSH_RBP, RET);
	STAYS("beyond the symbol's end", TEST_RDI, JE_OVER, RET, 0x66, 0xe9, 0, 0);
	STAYS("no emulated instruction", 0x31, 0xc0);
}

/* Rule 2: no branch may lead between the entry and the end of the probed instruction. */
static void test_no_way_in_from_the_side(void **state)
{
	struct probe_site site;

	(void)state;
	/* Branches back to the je at +0x3: jmp with 1 and 4 bytes of distance, jne, loop, call,
	 * xbegin, bnd jmp. */
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xeb, 0xfb);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe9, 0xf8, 0xff, 0xff, 0xff);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0x0f, 0x85, 0xf7, 0xff, 0xff, 0xff);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe2, 0xfb, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xe8, 0xf8, 0xff, 0xff, 0xff, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xc7, 0xf8, 0xf7, 0xff, 0xff, 0xff, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0xf2, 0xeb, 0xfa);
	/* Branches into the middle of the instruction passed over, and of the probed one. */
	STAYS("leads to +0x1", TEST_RDI, JE_OVER, RET, 0xeb, 0xf9);
	STAYS("leads to +0x4", TEST_RDI, JE_OVER, RET, 0xeb, 0xfc);
	/* The probed jump leads to itself. */
	STAYS("leads to +0x3", TEST_RDI, 0x74, 0xfe);
	/* Three targets of branches are allowed. The first is behind the probed instruction. The
	 * second is the entry: such a branch is one more call, wherever the probe is. The third is
	 * before the entry. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xfd);
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xf8);
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xeb, 0xf0);
	/* All 4 bytes of the distance count: 0x7ffffff8 leads far away, not to +0x3. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0xe9, 0xf8, 0xff, 0xff, 0x7f);

	/* If a branch leads to the push, the nop before the push can still carry the probe. */
	assert_int_equal(CHOOSE(&site, NOP5, PUSH_RBP, RET, 0xeb, 0xfc), 0);
	assert_site(&site, 0, false, true);
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET, 0xeb, 0xfc), 0);
	assert_site(&site, 3, false, true);
	assert_non_null(strstr(site.why, "leads to +0x8"));
	/* But a nop cannot carry the probe if a branch leads into the nop: the kernel may rewrite
	 * the whole nop. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET, 0xeb, 0xfa), 0);
	assert_site(&site, 0, false, false);
}

/* Rules 3 (arguments at hand) and 4 (frame intact). */
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
	STAYS("not a plain", 0xf7, 0xe7, PUSH_RBP, RET);		/* mul %edi: edx:eax */
	STAYS("not a plain", 0x48, 0x87, 0xc7, PUSH_RBP, RET);		/* xchg %rax,%rdi */
	STAYS("not a plain", 0x99, PUSH_RBP, RET);			/* cltd: edx */
	STAYS("rsp or rbp", 0x48, 0x83, 0xec, 8, PUSH_RBP, RET);	/* sub $8,%rsp */
	STAYS("rsp or rbp", 0x48, 0x89, 0xc5, PUSH_RBP, RET);		/* mov %rax,%rbp */
	STAYS("rsp or rbp", 0x40, 0xb5, 1, PUSH_RBP, RET);		/* mov $1,%bpl */
	STAYS("not a plain", 0x58, PUSH_RBP, RET);			/* pop %rax */
	STAYS("not a plain", 0x6a, 1, PUSH_RBP, RET);			/* push $1 */
	STAYS("not a plain", 0xc9, PUSH_RBP, RET);			/* leave */
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
	/* Smaller sizes: most end inside an instruction. */
	for (size_t size = 1; size < sizeof(code); size++) {
		bool whole = size == 5 || size == 6 || size == 11;

		assert_int_equal(choose(code, sizeof(code), size, &site), 0);
		assert_site(&site, whole ? 3 : 0, whole, false);
	}
	/* The file ends inside the function. */
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

	/* If the first instruction is emulated, size and rest of the code do not matter. */
	static const uint8_t push[] = {PUSH_RBP, 0x06, 0x06};

	assert_int_equal(choose(push, 3, 0, &site), 0);
	assert_site(&site, 0, true, false);
	assert_int_equal(choose(push, 3, 100, &site), 0);
	assert_site(&site, 0, true, false);
}

/* Behind an instruction that the decoder does not know, every byte may start a branch. */
static void test_unknown_instructions(void **state)
{
#define FILLER 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90
	struct probe_site site;

	(void)state;
	MOVES(3, TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, RET);
	STAYS("may lead to +0x3", TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, 0xeb, 0xe8, RET);
	/* A decoder with a wrong position may take the bytes of this immediate for a branch. */
	STAYS("may lead to +0x3", TEST_RDI, JE_OVER, RET, UNKNOWN, FILLER, 0xb8, 0xeb, 0xe7, 0, 0,
	      RET);
	/* Without an unknown instruction the decoder's position is right: there is no branch. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0x90, 0x90, 0x90, 0x90, 0x90, FILLER, 0xb8, 0xeb, 0xe7, 0,
	      0, RET);
	/* The linker's call of __tls_get_addr is known: data16 data16 rex.W call. */
	MOVES(3, TEST_RDI, JE_OVER, RET, 0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4, RET);
	STAYS("leads to +0x3", TEST_RDI, JE_OVER, RET, 0x66, 0x66, 0x48, 0xe8, 0xf5, 0xff, 0xff,
	      0xff, RET);
	/* Instructions on the path to the probe that do not decode. */
	STAYS("does not decode", TEST_RDI, 0x41, 0x48, 0x89, 0xc7, PUSH_RBP, RET); /* two REX */
	STAYS("does not decode", TEST_RDI, 0x48, 0x66, 0x89, 0xc0, PUSH_RBP, RET);
	STAYS("does not decode", TEST_RDI, UNKNOWN, FILLER, PUSH_RBP, RET);
	assert_int_equal(CHOOSE(&site, UNKNOWN, PUSH_RBP, RET), -EINVAL);
	assert_non_null(strstr(site.why, "does not decode"));
	/* The last instruction may be unknown, or cut by a wrong size. */
	STAYS("beyond the symbol's end", TEST_RDI, JE_OVER, RET, UNKNOWN);
}

static void test_nops(void **state)
{
	struct probe_site site;

	(void)state;
	/* A nop is a better site than a single-stepped instruction, but not as good as a push. */
	assert_int_equal(CHOOSE(&site, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 0, false, true);
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 3, false, true);
	assert_non_null(strstr(site.why, "argument"));
	assert_int_equal(CHOOSE(&site, TEST_RDI, NOP5, PUSH_RBP, RET), 0);
	assert_site(&site, 8, true, false);
	/* Of two nops, the first is taken. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, 0x66, 0x90, NOP5, 0x31, 0xff, RET), 0);
	assert_site(&site, 3, false, true);
	assert_string_equal(site.instruction, "nop");
	/* A "cs nopw" carries no probe, but may be passed over. */
	assert_int_equal(CHOOSE(&site, TEST_RDI, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x31,
				0xff, RET),
			 0);
	assert_site(&site, 0, false, false);
	MOVES(13, TEST_RDI, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, PUSH_RBP, RET);
	/* Reserved nops are not passed over, because they may get a meaning (as bndldx and rdssp
	 * did). pause is no nop, and is not passed over either. The text is not compared: newer
	 * decoders refuse some bytes that older ones take for nops. */
	STAYS("", TEST_RDI, 0xf3, 0x66, 0x90, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0x0f, 0x1a, 0x40, 0x00, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0xf3, 0x0f, 0x1e, 0x29, PUSH_RBP, RET);
	STAYS("", TEST_RDI, 0xf3, 0x48, 0x0f, 0x28, 0xc8, PUSH_RBP, RET);
	/* Every kernel emulates the single-byte nop. */
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

/* Code before the probe may write to a register if the probe reads no argument from it. */
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

/* A register that carries an argument may be written after the whole argument was copied to another
 * register. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_beyond_the_arguments_are_free),
		cmocka_unit_test(arguments_are_followed),
		cmocka_unit_test(test_real_functions),
		cmocka_unit_test(test_which_are_emulated),
		cmocka_unit_test(test_straight_path),
		cmocka_unit_test(test_no_way_in_from_the_side),
		cmocka_unit_test(test_registers_and_memory_intact),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_unknown_instructions),
		cmocka_unit_test(test_nops),
		cmocka_unit_test(test_breakpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
