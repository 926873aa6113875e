// SPDX-License-Identifier: BSD-2-Clause
/* For every hostile file, the answer comes in time, and no process or descriptor is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <sys/stat.h>

#include "dwarf_fixture.h"

static char *read_fixture(const char *name, size_t *ret_len)
{
	int fd = open_fixture(name);
	struct stat st;
	char *data;

	assert_int_equal(fstat(fd, &st), 0);
	data = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return data;
}

static Elf64_Shdr *section_headers(char *data, size_t *ret_n)
{
	Elf64_Ehdr *elf = (Elf64_Ehdr *)data;

	*ret_n = elf->e_shnum;
	return (Elf64_Shdr *)(data + elf->e_shoff);
}

static Elf64_Shdr *find_header(char *data, const char *name)
{
	size_t n;
	Elf64_Shdr *headers = section_headers(data, &n);
	const char *names = data + headers[((Elf64_Ehdr *)data)->e_shstrndx].sh_offset;

	for (size_t i = 0; i < n; i++)
		if (!strcmp(names + headers[i].sh_name, name))
			return &headers[i];
	return NULL;
}

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Resolves addresses in a file of any contents. Any result is right if it comes in time and leaves
 * no process or descriptor. */
static int use(const char *name, const uint64_t *vaddrs, size_t n, struct dwarf_frames *frames)
{
	size_t fds = count_fds();
	double begin_s = now_s();
	int err = resolve_for(name, vaddrs, n, 2, frames);

	assert_true(err == 0 || err == -ENODATA || err == -ETIMEDOUT || err == -ECHILD);
	assert_true(now_s() - begin_s < 15);
	for (size_t i = 0; i < n; i++) {
		assert_true(frames[i].n <= DWARF_MAX_FRAMES);
		for (size_t k = 0; k < frames[i].n; k++) {
			const struct dwarf_frame *frame = &frames[i].frames[k];

			assert_true(!frame->function || strlen(frame->function) <= 4096);
			assert_true(!frame->file || strlen(frame->file) <= 4096);
		}
	}
	dwarf_frames__free(frames, n);
	assert_no_child();
	assert_int_equal(count_fds(), fds);
	return err;
}

static void mutate(const char *name, const char *const *sections, int rounds)
{
	struct dwarf_frames *frames = calloc(MAX_ADDRESSES, sizeof(*frames));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	size_t n = text_addresses(name, 3, vaddrs), len, outcomes[2] = {0};
	char *good = read_fixture(name, &len), *bad = malloc(len);

	for (int round = 0; round < rounds; round++) {
		memcpy(bad, good, len);
		for (size_t i = 0; sections[i]; i++) {
			const Elf64_Shdr *header = find_header(good, sections[i]);

			if (!header || !header->sh_size || next_random() % 2)
				continue;
			for (int k = 0; k < 1 + round % 8; k++) {
				static const char values[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
				uint64_t x = next_random();
				size_t at = x % header->sh_size, width = (x >> 40) % 3 ? 1 : 4;

				if (at + width > header->sh_size)
					continue;
				if ((x >> 50) % 2)
					bad[header->sh_offset + at] ^= (char)(1 << (x >> 56) % 8);
				else
					memset(bad + header->sh_offset + at,
					       values[(x >> 56) % sizeof(values)], width);
			}
		}
		if (round % 10 == 0) { /* a wrong section size */
			Elf64_Shdr *header = find_header(bad, sections[0]);

			header->sh_size =
				round % 20 ? header->sh_size / 2 : UINT64_MAX >> round % 60;
		}
		assert_true(
			fixture_write("bad", bad, round % 15 == 14 ? next_random() % len : len));
		outcomes[use("bad", vaddrs, n, frames) == 0]++;
	}
	assert_true(outcomes[1] > 0); /* some mutated files are still read */
	free(bad);
	free(good);
	free(frames);
	free(vaddrs);
}

static const char *const dwarf_sections[] = {
	".debug_info",	   ".debug_abbrev",   ".debug_line",	    ".debug_str",  ".debug_ranges",
	".debug_rnglists", ".debug_line_str", ".debug_str_offsets", ".debug_addr", NULL};
static const char *const info_only[] = {".debug_info", NULL};
static const char *const abbrev_only[] = {".debug_abbrev", NULL};
static const char *const line_only[] = {".debug_line", NULL};

static void test_mutated(void **state)
{
	(void)state;
	compile("gcc", "-gdwarf-5", "victim");
	mutate("victim", dwarf_sections, 120);
	mutate("victim", info_only, 80);
	mutate("victim", abbrev_only, 60);
	mutate("victim", line_only, 80);
	compile("clang", "-gdwarf-4", "victim");
	mutate("victim", dwarf_sections, 80);
	compile("gcc", "-g -gz=zlib", "victim");
	mutate("victim", dwarf_sections, 60);
}

/* Section headers that are false. */
static void test_mutated_headers(void **state)
{
	uint64_t vaddr = 0x401000;
	struct dwarf_frames frames;
	size_t len;
	char *good = read_fixture("program", &len), *bad = malloc(len);
	uint64_t shoff = ((Elf64_Ehdr *)good)->e_shoff;

	(void)state;
	for (int round = 0; round < 300; round++) {
		memcpy(bad, good, len);
		for (int k = 0; k < 1 + round % 4; k++) {
			uint64_t x = next_random();
			size_t at = x % 2 ? 16 + (x >> 8) % 48 : shoff + (x >> 8) % (len - shoff);

			bad[at] = (char)(x >> 32);
		}
		if (round % 30 == 0) { /* the largest count, in section 0 */
			((Elf64_Ehdr *)bad)->e_shnum = 0;
			((Elf64_Shdr *)(bad + shoff))->sh_size = UINT64_MAX;
		}
		assert_true(fixture_write("bad", bad, len));
		use("bad", &vaddr, 1, &frames);
	}
	free(bad);
	free(good);
}

/* A million ranges each contain all addresses. Only the deadline ends the work. */
static void test_endless(void **state)
{
	static const char source[] = ".text\n.globl _start\n_start: .skip 40000\n"
				     ".section .debug_abbrev\n"
				     /* compile_unit: low_pc, addr; ranges, sec_offset */
				     ".byte 1, 0x11, 0, 0x11, 1, 0x55, 0x17, 0, 0, 0\n"
				     ".section .debug_info\n"
				     ".long 3f - 2f\n2: .short 4\n.long 0\n.byte 8\n"
				     ".byte 1\n.quad 0\n.long 0\n3:\n"
				     ".section .debug_ranges\n"
				     ".rept 1000000\n.quad 2, 0x7fffffffffff\n.endr\n"
				     ".quad 0, 0\n";
	struct dwarf_frames *frames = calloc(MAX_ADDRESSES, sizeof(*frames));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	double begin_s;
	size_t n;

	(void)state;
	assert_true(fixture_write("e.s", source, strlen(source)));
	assert_true(fixture_run("as -o e.o e.s && ld -o endless e.o"));
	n = text_addresses("endless", 1, vaddrs);
	assert_int_equal(n, MAX_ADDRESSES);
	begin_s = now_s();
	assert_int_equal(resolve_for("endless", vaddrs, n, 0.5, frames), -ETIMEDOUT);
	assert_true(now_s() - begin_s < 10);
	dwarf_frames__free(frames, n);
	free(frames);
	free(vaddrs);
	assert_no_child();
}

/* A compressed section claims a far larger size than is allowed. */
static void test_bomb(void **state)
{
	uint64_t vaddr = 0x401000;
	struct dwarf_frames frames;
	Elf64_Shdr *header;
	size_t len;
	char *data;

	(void)state;
	assert_true(fixture_run("objcopy --compress-debug-sections=zlib program bomb"));
	data = read_fixture("bomb", &len);
	header = find_header(data, ".debug_info");
	assert_true(header->sh_flags & SHF_COMPRESSED);
	((Elf64_Chdr *)(data + header->sh_offset))->ch_size = 1ull << 45;
	assert_true(fixture_write("bomb", data, len));
	free(data);
	use("bomb", &vaddr, 1, &frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_mutated_headers),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_bomb),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
