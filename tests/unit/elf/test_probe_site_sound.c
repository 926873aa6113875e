// SPDX-License-Identifier: BSD-2-Clause
/* Tests all rules together on real and random functions. A checker and objdump must agree with each
 * site. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/probe_site.h"
#include "code_samples.h"
#include "probe_site_checker.h"
#include "probe_site_fixture.h"

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

/* Adds a few bytes to a random function. Most additions are whole instructions, so that many
 * functions decode beyond their first bytes. Returns the number of bytes. */
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
			/* Copy only the code up to the probe. Single-byte nops follow, so that
			 * a disassembler's position is right again before the next case. */
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

/* Checks every allocator function of the file, if this machine has the file. */
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
	assert_int_equal(elf_image__open(fd, path, NULL, &image, NULL), 0);
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
		cmocka_unit_test(test_real_functions_are_sound),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
