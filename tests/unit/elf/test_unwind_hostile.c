// SPDX-License-Identifier: BSD-2-Clause
/* Reads .eh_frame sections that are cut, changed or made expensive to read. The sanitizers check
 * the reads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "eh_frame_draft.h"

#define MUTATIONS 1000 /* changed copies of a section; fuzz_unwind tries more of them */

static void build_anything(const struct elf_image *image)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;

	switch (unwind_table__build(image, 0, &table, NULL)) {
	case 0:
		check_shape(table);
		break;
	case -ENOEXEC:
		assert_null(table);
		break;
	default:
		fail();
	}
}

static void test_mutations(void **state)
{
	_cleanup_close_ int fd = copy_file(libc_path);
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);
	_cleanup_free_ unsigned char *bytes = NULL, *mutated = NULL;
	uint64_t vaddr, off;
	double before = now();
	size_t size;

	(void)state;
	assert_int_equal(elf_image__read_eh_frame(image, &bytes, &size, &vaddr), 0);
	assert_int_equal(elf_image__vaddr_to_off(image, vaddr, &off), 0);
	mutated = malloc(size);
	assert_non_null(mutated);
	for (int i = 0; i < MUTATIONS; i++) {
		size_t n = 1 + next_random() % (i % 10 == 0 ? 2000 : 20);

		memcpy(mutated, bytes, size);
		while (n--) {
			size_t pos = next_random() % size;

			switch (next_random() % 4) {
			case 0:
				mutated[pos] ^= 1u << next_random() % 8;
				break;
			case 1:
				mutated[pos] = next_random();
				break;
			case 2:
				mutated[pos] = next_random() % 2 ? 0xff : 0;
				break;
			case 3: /* bytes from another place */
				for (size_t from = next_random() % size, len = next_random() % 32;
				     len && pos < size && from < size; len--)
					mutated[pos++] = bytes[from++];
				break;
			}
		}
		/* A wrong length ends the reading. So in most rounds all lengths stay right. */
		if (i % 4 != 0) {
			for (size_t pos = 0; size - pos >= 4;) {
				uint32_t len;

				memcpy(&len, bytes + pos, 4);
				memcpy(mutated + pos, &len, 4);
				pos += 4 + (size_t)len;
			}
		}
		assert_int_equal(pwrite(fd, mutated, size, off), size);
		build_anything(image);
	}
	print_message("%d mutations of libc's .eh_frame: %.1f s\n", MUTATIONS, now() - before);
}

/* The file is cut at each of the first 500 bytes of .eh_frame, then at random places in it. Two
 * images are read: one opened before the cut, as if a target cut the file at that moment, and one
 * opened after it. */
static void test_truncations(void **state)
{
	_cleanup_close_ int fd = copy_file("/lib64/ld-linux-x86-64.so.2");
	_cleanup_(elf_image__cleanup) struct elf_image *whole = open_image(fd);
	_cleanup_free_ unsigned char *bytes = NULL;
	uint64_t vaddr, off;
	size_t size;

	(void)state;
	assert_int_equal(elf_image__read_eh_frame(whole, &bytes, &size, &vaddr), 0);
	assert_int_equal(elf_image__vaddr_to_off(whole, vaddr, &off), 0);
	for (size_t i = 0; i < 1000; i++) {
		_cleanup_free_ char *tail = NULL;
		size_t end = off + (i < 500 ? i : next_random() % size);
		struct elf_image *again;
		struct stat st;

		assert_int_equal(fstat(fd, &st), 0);
		tail = malloc(st.st_size - end);
		assert_non_null(tail);
		assert_int_equal(pread(fd, tail, st.st_size - end, end), st.st_size - end);
		assert_int_equal(ftruncate(fd, end), 0);
		build_anything(whole);
		if (elf_image__open(fd, "cut", NULL, &again, NULL) == 0) {
			build_anything(again);
			elf_image__free(again);
		}
		assert_int_equal(pwrite(fd, tail, st.st_size - end, end), st.st_size - end);
	}

	/* A valid file with a short section: the first i bytes of the real one. */
	for (size_t i = 1; i < 4096; i++) {
		struct draft draft = {0};
		int copy;

		put(&draft, bytes, i);
		copy = make_file(&draft);
		free(draft.bytes);

		_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(copy);

		build_anything(image);
		close(copy);
	}
}

/* Sections that could multiply the work: many FDEs of one long CIE, many CIEs, many states at one
 * address. */
static void test_multiplied_work(void **state)
{
	static const unsigned char nops[1 << 20];
	struct unwind_table *table = NULL;
	struct draft draft = {0};
	double before;

	(void)state;
	open_entry(&draft);
	put(&draft, BYTES(0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, USUAL));
	put(&draft, nops, sizeof(nops));
	close_entry(&draft);
	for (int i = 0; i < 200000; i++)
		put_fde(&draft, i % CODE_LEN, 1, NULL, 0);
	before = now();
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->fdes, CODE_LEN);
	assert_int_equal(table->skipped, 200000 - CODE_LEN);
	unwind_table__free(table);

	draft = (struct draft){0};
	for (int i = 0; i < 200000; i++)
		put_usual_cie(&draft);
	for (int i = 0; i < 200000; i++)
		put_fde(&draft, 0, CODE_LEN, BYTES(ADVANCE(0), ADVANCE(0), ADVANCE(0), ADVANCE(0)));
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->n, 2);
	unwind_table__free(table);
	assert_true(now() - before < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_multiplied_work),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
