// SPDX-License-Identifier: BSD-2-Clause
/* Searches for allocators without enough memory. The searched process is /bin/sleep. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../failing.h"
#include "capture/allocator.h"
#include "elf/unwind.h"
#include "proc/link_map.h"

static pid_t sleeper;
static struct maps maps; /* the sleeper's */
static struct binaries *binaries;
static bool build_fails;

int __real_unwind_table__build(const struct elf_image *image, size_t max_rows,
			       struct unwind_table **ret, struct error *err);
int __wrap_unwind_table__build(const struct elf_image *image, size_t max_rows,
			       struct unwind_table **ret, struct error *err);
int __wrap_unwind_table__build(const struct elf_image *image, size_t max_rows,
			       struct unwind_table **ret, struct error *err)
{
	return build_fails ? -ENOMEM : __real_unwind_table__build(image, max_rows, ret, err);
}

/* Makes the file known, so that later searches do not read it again. */
static int know(const struct map_entry *entry)
{
	struct binary *binary;
	int fd;

	if (!entry->executable || !entry->file.inode ||
	    file_id__equal(&entry->file, &FILE_ID_VDSO) || binaries__find(binaries, &entry->file))
		return 0;
	fd = maps__open_file(sleeper, entry);
	return fd < 0 ? fd : binaries__add(binaries, &entry->file, fd, -1, entry->path, &binary);
}

static int start(void **state)
{
	struct link_object objects[64];
	int rc = 0, fd;

	(void)state;
	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDIN_FILENO)
		;
	close(fd);
	sleeper = fork();
	if (!sleeper) {
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(127);
	}
	for (int i = 0; i < 500; i++) { /* 5 s, until its dynamic linker has finished */
		bool runs;

		usleep(10000);
		/* the child may still be this program, or its new program may have no libraries
		 * yet */
		if (maps__read(sleeper, &maps))
			continue;
		runs = maps.n && strstr(maps.entries[0].path, "/sleep") &&
		       link_map__read(sleeper, objects, 64) >= 3;
		maps__free(&maps);
		if (runs && !maps__read(sleeper, &maps))
			break;
	}
	if (!maps.n || binaries__new(&binaries))
		return -1;
	for (size_t i = 0; i < maps.n && !rc; i++)
		rc = know(&maps.entries[i]);
	return rc;
}

static int stop(void **state)
{
	(void)state;
	kill(sleeper, SIGKILL);
	waitpid(sleeper, NULL, 0);
	binaries__free(binaries);
	maps__free(&maps);
	return 0;
}

static int search(struct alloc_files *files)
{
	struct allocators *all;
	struct error err = {};
	int rc = allocators__find(files, sleeper, &maps, ALLOC_OWN, NULL, 0, &all, &err);

	if (!rc)
		allocators__free(all);
	return rc;
}

/* An allocator that has no file yet must not close one: descriptor 0 is somebody's. */
static void a_search_that_fails_closes_no_file(void **state)
{
	struct alloc_files *files;
	long n = 0;

	(void)state;
	assert_int_equal(alloc_files__new(binaries, &(struct alloc_how){.tables = true}, &files),
			 0);
	assert_int_equal(search(files), 0);
	do {
		failing_done = false;
		failing_in = ++n;
		search(files);
		failing_in = 0;
		assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	} while (failing_done);
	assert_true(n > 1);
	alloc_files__free(files);
}

/* If memory is short, the file is read again later. Its functions do not count as functions whose
 * ret instructions are unknown. */
static void a_table_without_memory_fails_the_search(void **state)
{
	struct alloc_files *files;

	(void)state;
	assert_int_equal(
		alloc_files__new(binaries, &(struct alloc_how){.no_returns = true}, &files), 0);
	build_fails = true;
	assert_int_equal(search(files), -ENOMEM);
	build_fails = false;
	assert_int_equal(search(files), 0);
	alloc_files__free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_search_that_fails_closes_no_file),
		cmocka_unit_test(a_table_without_memory_fails_the_search),
	};

	return cmocka_run_group_tests_name("no_memory", tests, start, stop);
}
