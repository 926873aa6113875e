// SPDX-License-Identifier: BSD-2-Clause
/* Patches this process's own code, a mapped file that holds only ret instructions. Needs no
 * root. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/allocator.h"
#include "capture/patch.h"
#include "capture/region_source.h"
#include "proc/memory.h"

#define PAGE  4096UL
#define PAGES 4
#define RET   0xc3

static int unread;	     /* the error of each read; 0: reads succeed */
static unsigned unread_left; /* this many reads of functions fail; 0: see `unread` */

int __real_memory__read_all(pid_t pid, struct memory_read *reads, size_t n);
int __wrap_memory__read_all(pid_t pid, struct memory_read *reads, size_t n);
int __wrap_memory__read_all(pid_t pid, struct memory_read *reads, size_t n)
{
	if (unread_left && n == REGION_FUNCTIONS) { /* other calls read other numbers of places */
		unread_left--;
		return -ETIMEDOUT;
	}
	return unread ? unread : __real_memory__read_all(pid, reads, n);
}

static unsigned char *code;
static struct file_id file;
/* The first two places are in pages 1 and 2 of the mapping. The third place is beyond the mapping,
 * the fourth before it. */
static const struct code_place places[] = {{.off = 2 * PAGE + 8, .byte = RET},
					   {.off = 3 * PAGE + 8, .byte = RET},
					   {.off = 100 * PAGE, .byte = RET},
					   {.off = 8, .byte = RET}};

static int map_file(void **state)
{
	char path[] = "/tmp/memtrace-test-XXXXXX", rets[(PAGES + 1) * PAGE];
	int fd = mkstemp(path);
	struct maps maps;

	(void)state;
	memset(rets, RET, sizeof(rets));
	if (fd < 0 || write(fd, rets, sizeof(rets)) != (ssize_t)sizeof(rets))
		return -1;
	code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, PAGE);
	unlink(path);
	close(fd);
	if (code == MAP_FAILED || maps__read(getpid(), &maps))
		return -1;
	file = maps__find(&maps, (uintptr_t)code)->file;
	maps__free(&maps);
	return 0;
}

static int unmap_file(void **state)
{
	(void)state;
	return munmap(code, PAGES * PAGE);
}

/* Writes a byte of code, as hot patching does. */
static void put(size_t off, unsigned char byte)
{
	unsigned char *page = code + off / PAGE * PAGE;

	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	code[off] = byte;
	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0);
}

/* Returns the index of the place that was found, or -1. */
static int find(size_t n)
{
	struct maps maps;
	size_t which = 77;
	int rc;

	assert_int_equal(maps__read(getpid(), &maps), 0);
	rc = patch__find(getpid(), &maps, &file, places, n, &which);
	maps__free(&maps);
	assert_true(rc == 0 || rc == 1);
	return rc ? (int)which : -1;
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(find(4), -1);
	assert_int_equal(find(0), -1);
}

/* put() splits the mapping into several. */
static void test_changed(void **state)
{
	(void)state;
	put(2 * PAGE + 8, 0x90);
	assert_int_equal(find(4), 1);
	assert_int_equal(find(1), -1);
	put(PAGE + 8, 0x90);
	assert_int_equal(find(1), 0);
	put(PAGE + 8, RET);
	assert_int_equal(find(1), -1);
}

static void test_breakpoint(void **state)
{
	(void)state;
	put(PAGE + 8, 0xcc);
	assert_int_equal(find(4), -1);
}

static void test_elsewhere(void **state)
{
	(void)state;
	put(PAGE + 9, 0x90);
	assert_int_equal(find(4), -1);
}

/* A jump is written at a function's entry, before the place. The byte at the place itself is still
 * the file's, or a breakpoint. */
static void test_before(void **state)
{
	const uint8_t rets[3 * CODE_BEFORE] = {[0 ... 3 * CODE_BEFORE - 1] = RET};
	const struct code_place of[] = {
		code_place__in(rets, 8, 3 * PAGE + 8), code_place__in(rets, 0, 3 * PAGE + 20),
		code_place__in(rets, 40, 3 * PAGE + 40), code_place__in(rets, 4, PAGE + 2)};
	struct maps maps;
	size_t which = 77;

	(void)state;
	assert_int_equal(of[0].n_before, 8);
	assert_int_equal(of[1].n_before, 0);
	assert_int_equal(of[2].n_before, CODE_BEFORE);
	put(2 * PAGE + 19, 0x90); /* before the second place, in another function */
	put(2 * PAGE + 24, 0x90); /* farther away than the known bytes of the third place */
	put(2 * PAGE + 30, 0xcc);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(patch__find(getpid(), &maps, &file, of, 4, &which), 0);
	put(2 * PAGE + 25, 0x90);
	assert_int_equal(patch__find(getpid(), &maps, &file, of, 4, &which), 1);
	assert_int_equal(which, 2);
	put(2 * PAGE, 0xe9);
	put(2 * PAGE + 8, 0xcc);
	assert_int_equal(patch__find(getpid(), &maps, &file, of, 4, &which), 1);
	assert_int_equal(which, 0);
	put(0, 0x90); /* the fourth place begins before the mapping: only its mapped part counts */
	assert_int_equal(patch__find(getpid(), &maps, &file, of + 3, 1, &which), 1);
	maps__free(&maps);
}

/* A place is bare if the file's own instruction is there in one of the mappings. */
static void test_bare(void **state)
{
	const struct code_place outside = {.off = 100 * PAGE, .byte = RET};
	struct file_id other = file;
	struct maps maps;

	(void)state;
	other.inode++;
	put(PAGE + 8, 0xcc);
	put(2 * PAGE + 8, 0xe8); /* a probe that the kernel has replaced by a call */
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_false(patch__is_bare(getpid(), &maps, &file, &places[0], 1));
	assert_false(patch__is_bare(getpid(), &maps, &file, &places[1], 1));
	assert_false(patch__is_bare(getpid(), &maps, &file, &outside, 1));
	assert_false(patch__is_bare(getpid(), &maps, &file, places, 2));
	put(PAGE + 8, RET);
	assert_true(patch__is_bare(getpid(), &maps, &file, places, 2));
	assert_true(patch__is_bare(getpid(), &maps, &file, &places[0], 1));
	assert_false(patch__is_bare(getpid(), &maps, &other, &places[0], 1));
	maps__free(&maps);
}

static void test_another_file(void **state)
{
	(void)state;
	put(PAGE + 8, 0x90);
	file.inode++;
	assert_int_equal(find(4), -1);
}

/* Code that cannot be read may have been patched, whatever the reason is. Code of a process that
 * has ended counts as not patched. */
static void test_unread(void **state)
{
	static const int reasons[] = {-ETIMEDOUT, -EBUSY,  -ENOMEM, -EAGAIN,
				      -EPIPE,	  -EMFILE, -ENFILE, -EIO};
	struct maps maps;
	size_t which;

	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		unread = reasons[i];
		assert_int_equal(patch__find(getpid(), &maps, &file, places, 4, &which),
				 -ETIMEDOUT);
	}
	unread = -ESRCH;
	assert_int_equal(patch__find(getpid(), &maps, &file, places, 4, &which), 0);
	unread = 0;
	maps__free(&maps);
}

static void test_allocator(void **state)
{
	struct alloc_point points[] = {{.name = "malloc", .place = places[0]}};
	const struct allocator allocator = {.file = file, .points = points, .n_points = 1};
	const char *name = NULL;
	struct maps maps;

	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(allocator__patched_in(&allocator, getpid(), &maps, &name), 0);
	unread = -EBUSY;
	assert_int_equal(allocator__patched_in(&allocator, getpid(), &maps, &name), -ETIMEDOUT);
	unread = 0;
	assert_null(name);
	maps__free(&maps);
	put(PAGE + 8, 0x90);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(allocator__patched_in(&allocator, getpid(), &maps, &name), 1);
	assert_string_equal(name, "malloc");
	maps__free(&maps);
}

/* Finds the source of a child's regions. The first `fails` reads of the child's code fail. */
static struct region_source *source_of(pid_t pid, unsigned fails)
{
	const struct elf_meanwhile meanwhile = {NULL, NULL};
	struct region_source *source = NULL;
	struct maps maps;

	assert_int_equal(maps__read(pid, &maps), 0);
	unread_left = fails;
	assert_int_equal(region_source__find(pid, &maps, false, &meanwhile, &source, NULL), 0);
	unread_left = 0;
	maps__free(&maps);
	return source;
}

/* At the first attempts, the code of a child cannot be read. */
static void test_regions_of_unread_code(void **state)
{
	struct region_source *source = NULL;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		unsetenv("LD_PRELOAD");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("sleep", "sleep", "60", NULL);
		_exit(99);
	}
	assert_true(pid > 0);
	for (int i = 0; i < 200 && (!source || source->syscalls); i++) {
		usleep(20000); /* its dynamic linker is at work */
		region_source__free(source);
		source = source_of(pid, 0);
	}
	assert_false(source->syscalls);
	region_source__free(source);
	source = source_of(pid, 2);
	assert_false(source->syscalls);
	assert_int_equal(source->n_points, REGION_FUNCTIONS);
	region_source__free(source);
	source = source_of(pid, 100);
	assert_true(source->syscalls);
	assert_non_null(strstr(source->why, "cannot be read"));
	region_source__free(source);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_changed, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_breakpoint, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_elsewhere, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_before, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_bare, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_another_file, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_unread, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_allocator, map_file, unmap_file),
		cmocka_unit_test(test_regions_of_unread_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
