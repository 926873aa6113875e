// SPDX-License-Identifier: BSD-2-Clause
/* Which unwind tables get into the kernel. The kernel's maps are fakes, and the tables are made
 * here: the linker replaces the functions that make and change them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/internal.h"
#include "elf/unwind.h"
#include "proc/maps.h"

#define PROCESS 1

enum { MAPPINGS = 1, TABLES, PARTS }; /* the maps, and their descriptors */

static struct abi_mapping told; /* the first mapping that the kernel side was told */
static bool fails;		/* there is no memory for a table */

int __wrap_bpf_map__fd(const struct bpf_map *map);
int __wrap_bpf_map__fd(const struct bpf_map *map)
{
	return (int)(intptr_t)map;
}

int __wrap_bpf_map__update_elem(const struct bpf_map *map, const void *key, size_t key_size,
				const void *value, size_t value_size, uint64_t flags);
int __wrap_bpf_map__update_elem(const struct bpf_map *map, const void *key, size_t key_size,
				const void *value, size_t value_size, uint64_t flags)
{
	(void)key, (void)key_size, (void)value_size, (void)flags;
	if ((intptr_t)map == MAPPINGS)
		told = ((const struct abi_mappings *)value)->entries[0];
	return 0;
}

int __wrap_bpf_map_create(int type, const char *name, uint32_t key_size, uint32_t value_size,
			  uint32_t n, const void *opts);
int __wrap_bpf_map_create(int type, const char *name, uint32_t key_size, uint32_t value_size,
			  uint32_t n, const void *opts)
{
	(void)type, (void)name, (void)key_size, (void)value_size, (void)n, (void)opts;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)
{
	(void)fd, (void)key, (void)value, (void)flags;
	return 0;
}

int __wrap_bpf_map_update_batch(int fd, const void *keys, const void *values, uint32_t *n,
				const void *opts);
int __wrap_bpf_map_update_batch(int fd, const void *keys, const void *values, uint32_t *n,
				const void *opts)
{
	(void)fd, (void)keys, (void)values, (void)n, (void)opts;
	return 0;
}

void __wrap_keeper__beat(struct keeper *keeper);
void __wrap_keeper__beat(struct keeper *keeper)
{
	(void)keeper;
}

int __wrap_unwind_table__build(const struct elf_image *image, size_t max_rows,
			       struct unwind_table **ret, void *err);
int __wrap_unwind_table__build(const struct elf_image *image, size_t max_rows,
			       struct unwind_table **ret, void *err)
{
	(void)image, (void)max_rows, (void)err;
	if (fails)
		return -ENOMEM;
	*ret = calloc(1, sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->rows = calloc(1, sizeof(*(*ret)->rows));
	assert_non_null((*ret)->rows);
	(*ret)->n = 1;
	return 0;
}

static struct memtrace_bpf__rodata rodata = {.use_tables = true};
static struct memtrace_bpf skel = {.rodata = &rodata};
static struct capture capture = {.skel = &skel};
static struct binaries *binaries;
static struct maps maps, one; /* one: only the first file's code */

/* Makes the first file of this process known. */
static int know_one(void **state)
{
	struct binary *binary;
	size_t i = 0;

	(void)state;
	skel.maps.mappings = (struct bpf_map *)MAPPINGS;
	skel.maps.unwind_tables = (struct bpf_map *)TABLES;
	skel.maps.tables_by_file = (struct bpf_map *)PARTS;
	capture.unwind.max_chunks = 16;
	if (maps__read(getpid(), &maps) || binaries__new(&binaries))
		return -1;
	while (i < maps.n && (!maps.entries[i].executable || !maps.entries[i].file.inode))
		i++;
	if (i == maps.n)
		return -1;
	one = (struct maps){&maps.entries[i], 1};
	return binaries__add(binaries, &one.entries->file, maps__open_file(getpid(), one.entries),
			     -1, one.entries->path, &binary);
}

static int forget_all(void **state)
{
	(void)state;
	capture__put_tables(&capture);
	unwind_store__free(&capture.unwind);
	binaries__free(binaries);
	maps__free(&maps);
	return 0;
}

/* There is no memory for a file's table at first. When there is memory, the file gets its table. */
static void a_table_without_memory_is_made_later(void **state)
{
	(void)state;
	fails = true;
	assert_int_equal(capture__set_mappings(&capture, binaries, PROCESS, &one), -ENOMEM);
	assert_int_equal(capture__tables_refused(&capture), 1);
	fails = false;
	assert_int_equal(capture__set_mappings(&capture, binaries, PROCESS, &one), 0);
	assert_int_equal(told.start, one.entries->start);
	assert_int_equal(told.table, 1);
	assert_int_equal(capture__tables_refused(&capture), 1);
}

/* The process's other mappings must not wait for ever for a file that needs too much memory. A
 * later call still tries again. */
static void a_table_without_memory_holds_nothing_up_for_ever(void **state)
{
	int n = 0;

	(void)state;
	fails = true;
	told = (struct abi_mapping){};
	while (n < 100 && capture__set_mappings(&capture, binaries, PROCESS, &one))
		n++;
	assert_in_range(n, 2, 20);
	assert_int_equal(told.start, one.entries->start);
	assert_int_equal(told.table, 0);
	fails = false;
	assert_int_equal(capture__set_mappings(&capture, binaries, PROCESS, &one), 0);
	assert_int_equal(told.table, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_table_without_memory_is_made_later, know_one,
						forget_all),
		cmocka_unit_test_setup_teardown(a_table_without_memory_holds_nothing_up_for_ever,
						know_one, forget_all),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
