// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize/symtab.h"

static void assert_demangles(const char *mangled, const char *expected)
{
	char *name = demangle(mangled);

	assert_non_null(name);
	assert_string_equal(name, expected);
	free(name);
}

/* Demangles `name` and `slow` in turn, until `name` is left mangled. `slow` takes too long, so it
 * is left mangled each time. Each attempt uses up time, but time is also added from moment to
 * moment. So more than one attempt may be needed. Returns how many names were left mangled, `name`
 * included, or 0 if `name` is still demangled. */
static uint64_t slow_until_left_mangled(const char *slow, const char *name)
{
	for (uint64_t n = 1; n <= 20; n++) {
		char *shown = demangle(name);
		bool mangled;

		assert_non_null(shown);
		mangled = !strcmp(shown, name);
		free(shown);
		if (mangled)
			return n;
		assert_demangles(slow, slow);
	}
	return 0;
}

/* Expected: the output of c++filt without the parameter lists. */
static void test_itanium(void **state)
{
	(void)state;
	assert_demangles("_Z3foov", "foo");
	assert_demangles("_ZN3foo3barEi", "foo::bar");
	assert_demangles("_Znwm", "operator new");
	assert_demangles("_ZnamRKSt9nothrow_t", "operator new[]");
	assert_demangles("_ZNSt6vectorIiSaIiEE9push_backERKi",
			 "std::vector<int, std::allocator<int> >::push_back");
	assert_demangles("_Z3addIiET_S0_S0_", "add<int>");
	assert_demangles("_ZNK5Shape4areaEv", "Shape::area");
	assert_demangles("_ZN12_GLOBAL__N_113virtual_callsEm",
			 "(anonymous namespace)::virtual_calls");
	assert_demangles("_ZN3FooC2Ev", "Foo::Foo");
	assert_demangles("_ZN3FooD1Ev", "Foo::~Foo");
}

static void test_rust_legacy(void **state)
{
	(void)state;
	assert_demangles("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
			 "core::fmt::Write::write_fmt");
	assert_demangles(
		"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar"
		"17h930b740aa94f1d3aE",
		"<Test + 'static as foo::Bar<Test>>::bar");
	assert_demangles("_ZN5alloc5alloc15exchange_malloc17h0a1b2c3d4e5f6071E.llvm.12345",
			 "alloc::alloc::exchange_malloc");
}

/* From RFC 2603 and the tests of rustc-demangle. */
static void test_rust_v0(void **state)
{
	(void)state;
	assert_demangles("_RNvC6_123foo3bar", "123foo::bar");
	assert_demangles("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	assert_demangles("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_",
			 "cc::spawn::{closure#0}::{closure#0}");
	assert_demangles("_RINvNtC3std3mem8align_ofjdE", "std::mem::align_of::<usize, f64>");
}

static void test_others_stay(void **state)
{
	(void)state;
	assert_demangles("malloc", "malloc");
	assert_demangles("", "");
	assert_demangles("_", "_");
	assert_demangles("_Z", "_Z");
	assert_demangles("_R", "_R");
	assert_demangles("_Zebra", "_Zebra");
	assert_demangles("main.main", "main.main");
	assert_demangles("runtime.(*mcache).nextFree", "runtime.(*mcache).nextFree");
}

static void test_control_characters(void **state)
{
	(void)state;
	assert_demangles("a\nb\tc\033[31m\177", "a?b?c?[31m?");
	assert_demangles("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	assert_demangles("\xc2\x9b"
			 "31m",
			 "??31m");
	assert_demangles("cut \xe2\x82", "cut ??");
	assert_demangles("\xff\xfe", "??");
	assert_demangles("_ZN1\n1aEv", "?::a");
}

static void test_long_names_are_cut(void **state)
{
	char *name, *text = malloc(100001);

	(void)state;
	memset(text, 'x', 100000);
	text[100000] = '\0';
	name = demangle(text);
	assert_int_equal(strlen(name), 4096);
	free(name);
	memcpy(text, "_Z99990", 7);
	name = demangle(text);
	assert_int_equal(strlen(name), 4096);
	free(name);
	free(text);
}

/* Each substitution is a pair of the previous one, so the output doubles every few characters. */
static void test_exponential_output(void **state)
{
	static const char base36[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char base62[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char text[2048] = "_Z1fI1AIiiE", *name;
	clock_t begin = clock();
	size_t len = strlen(text);

	(void)state;
	for (int i = 1; i < 35; i++)
		len += (size_t)sprintf(text + len, "S0_IS%c_S%c_E", base36[i], base36[i]);
	strcpy(text + len, "Evv");
	name = demangle(text);
	assert_int_equal(strlen(name), 4096);
	assert_memory_equal(name, "f<A<int, int>, A<A<int, int>, A<int, int> >", 43);
	free(name);

	/* Exponential output in Rust's v0: each tuple begins with a tuple and ends with a back
	 * reference to it. Offsets count from the end of "_R". Base 62 writes n as n - 1. */
	len = (size_t)sprintf(text, "_RINvC1a1f");
	memset(text + len, 'T', 30);
	len += 30;
	len += (size_t)sprintf(text + len, "uuE");
	for (int i = 36; i >= 8; i--)
		len += (size_t)sprintf(text + len, "B%c_E", base62[i]);
	strcpy(text + len, "E");
	name = demangle(text);
	assert_int_equal(strlen(name), 4096);
	assert_memory_equal(name, "a::f::<((((((", 13);
	free(name);
	assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
}

static double cpu_s(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void repeat(char *text, const char *part, int n)
{
	while (n--)
		strcat(text, part);
}

/* The demangler reads the arguments of each T_ twice, because T_ follows a conversion operator. */
static void endless_conversion(char *text)
{
	strcpy(text, "_ZN1Acv");
	repeat(text, "T_I", 60);
	strcat(text, "i");
	repeat(text, "E", 60);
	strcat(text, "Ev");
}

/* Names that would take years, although they have little output. The two names of Rust have a
 * binder of 62^9 lifetimes in the path of an impl. This path is not printed. */
static void test_endless_work(void **state)
{
	char text[1024];
	double begin_s = cpu_s();

	(void)state;
	alarm(60); /* ends this test if a name does not come back */
	endless_conversion(text);
	assert_demangles(text, text);

	/* A search for a pack walks through both parts of each pointer to a member. Each part is a
	 * substitution of the previous pointer. */
	strcpy(text, "_Z1fIDp");
	repeat(text, "M", 36);
	strcat(text, "MiiS0_S1_S2_S3_S4_S5_S6_S7_S8_S9_SA_SB_SC_SD_SE_SF_SG_SH_SI_SJ_SK_SL_SM_SN_"
		     "SO_SP_SQ_SR_SS_ST_SU_SV_SW_SX_SY_SZ_Evv");
	assert_demangles(text, text);

	strcpy(text, "_RNvMIC1aFGzzzzzzzzz_EuEu1f");
	assert_demangles(text, text);
	strcpy(text, "_RNvMIC1aFGzzzzzzzzz_EuEuu3f_a"); /* with punycode */
	assert_demangles(text, text);

	assert_true(cpu_s() - begin_s < 1);
	assert_demangles("_ZN3foo3barEi", "foo::bar");
	alarm(0);
}

/* Valid names that resemble the endless ones: they have binders, punycode, or the letters of a
 * binder within a crate's disambiguator. The last two are from the tests of rustc-demangle. */
static void test_like_endless(void **state)
{
	(void)state;
	assert_demangles("_RNvMIC1aFG_EuEu1f", "<()>::f");
	assert_demangles("_RNvNtCs1xDGV85I1S7_12rustc_traits7codegen1f",
			 "rustc_traits::codegen::f");
	assert_demangles("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
			 "utf8_idents::"
			 "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1"
			 "\x83\x9a\xe1\x83\x90\xe1\x83\x93_\xe1\x83\x92\xe1\x83\x94\xe1\x83"
			 "\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x98_"
			 "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a\xe1"
			 "\x83\x98");
	assert_demangles("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>");
}

/* The slow names of one profile leave time for the names of the next. All names that stay mangled
 * are counted. */
static void test_next_group(void **state)
{
	uint64_t before = demangle__left(), more;
	char text[1024];

	(void)state;
	alarm(60);
	endless_conversion(text);
	demangle__begin();
	for (int i = 0; i < 1000; i++)
		assert_demangles(text, text);
	assert_true(more = slow_until_left_mangled(text, "_Z3foov"));
	assert_int_equal(demangle__left() - before, 1000 + more);
	demangle__begin();
	assert_demangles("_Z3foov", "foo");
	assert_int_equal(demangle__left() - before, 1000 + more);
	alarm(0);
}

/* A thousand names that would take years take two seconds together. After that, no name is
 * demangled for a while. So this must be the last test. */
static void test_many_endless(void **state)
{
	char text[1024];
	double begin_s = cpu_s();

	(void)state;
	alarm(60);
	endless_conversion(text);
	for (int i = 0; i < 1000; i++)
		assert_demangles(text, text);
	assert_true(cpu_s() - begin_s < 4);
	assert_true(slow_until_left_mangled(text, "_Z3foov"));
	usleep(1500000);
	assert_demangles("_Z3foov", "foo");
	alarm(0);
}

static void test_deep_recursion(void **state)
{
	char *text = malloc(4000), *name;

	(void)state;
	memset(text, 'P', 3999);
	memcpy(text, "_Z1f", 4);
	text[3999] = '\0';
	name = demangle(text);
	assert_non_null(name);
	free(name);
	memset(text, 'T', 3999);
	memcpy(text, "_RINvC1a1f", 10);
	text[3999] = '\0';
	name = demangle(text);
	assert_non_null(name);
	free(name);
	free(text);
}

/* Valid names with random changes: demangle() must not crash, hang or return control characters. */
static void test_noise(void **state)
{
	static const char *const seeds[] = {
		"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
		"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_",
		"_RINvNtC3std3mem8align_ofjdE",
		"_ZZN3fooIXadL_Z3barEEEvvENKUlvE_clEv",
	};
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		char text[256], *name;
		size_t len;

		strcpy(text, seeds[i % 5]);
		len = strlen(text);
		for (int k = 0; k < 1 + i % 4; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			text[2 + x % (len - 2)] = i & 1 ? text[(x >> 32) % len] : (char)(x >> 40);
		}
		name = demangle(text);
		assert_non_null(name);
		for (const char *c = name; *c; c++)
			assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
		free(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_itanium),
		cmocka_unit_test(test_rust_legacy),
		cmocka_unit_test(test_rust_v0),
		cmocka_unit_test(test_others_stay),
		cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_long_names_are_cut),
		cmocka_unit_test(test_exponential_output),
		cmocka_unit_test(test_deep_recursion),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_endless_work),
		cmocka_unit_test(test_like_endless),
		cmocka_unit_test(test_next_group),
		cmocka_unit_test(test_many_endless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
