// SPDX-License-Identifier: BSD-2-Clause
/* Verdicts on programs' files, when the kernel's table of them is full. The table is a fake: the
 * linker replaces the functions that read and change it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "capture/internal.h"

#define ROOM 8

static struct {
	struct abi_file files[ROOM];
	bool wanted[ROOM];
	size_t n;
} table;

static size_t find(const void *key)
{
	size_t i = 0;

	while (i < table.n && memcmp(&table.files[i], key, sizeof(struct abi_file)))
		i++;
	return i;
}

int __wrap_bpf_map__update_elem(const struct bpf_map *map, const void *key, size_t key_size,
				const void *value, size_t value_size, __u64 flags);
int __wrap_bpf_map__update_elem(const struct bpf_map *map, const void *key, size_t key_size,
				const void *value, size_t value_size, __u64 flags)
{
	size_t i = find(key);

	(void)map, (void)key_size, (void)value_size, (void)flags;
	if (i == ROOM)
		return -E2BIG;
	memcpy(&table.files[i], key, sizeof(struct abi_file));
	table.wanted[i] = ((const struct abi_verdict *)value)->wanted;
	table.n += i == table.n;
	return 0;
}

int __wrap_bpf_map__get_next_key(const struct bpf_map *map, const void *key, void *next,
				 size_t size);
int __wrap_bpf_map__get_next_key(const struct bpf_map *map, const void *key, void *next,
				 size_t size)
{
	size_t i = key ? find(key) + 1 : 0;

	(void)map;
	if (i >= table.n)
		return -ENOENT;
	memcpy(next, &table.files[i], size);
	return 0;
}

int __wrap_bpf_map__delete_elem(const struct bpf_map *map, const void *key, size_t size,
				__u64 flags);
int __wrap_bpf_map__delete_elem(const struct bpf_map *map, const void *key, size_t size,
				__u64 flags)
{
	size_t i = find(key);

	(void)map, (void)size, (void)flags;
	if (i == table.n)
		return -ENOENT;
	table.n--;
	memmove(&table.files[i], &table.files[i + 1], (table.n - i) * sizeof(struct abi_file));
	memmove(&table.wanted[i], &table.wanted[i + 1], (table.n - i) * sizeof(bool));
	return 0;
}

__u32 __wrap_bpf_map__max_entries(const struct bpf_map *map);
__u32 __wrap_bpf_map__max_entries(const struct bpf_map *map)
{
	(void)map;
	return ROOM;
}

/* Many short-lived programs have files of their own: each is judged, also when the table has been
 * full before. */
static void a_full_table_takes_new_verdicts(void **state)
{
	struct memtrace_bpf skel = {};
	struct capture c = {.skel = &skel};

	(void)state;
	for (uint64_t i = 1; i <= 10 * ROOM; i++) {
		struct abi_program program = {.file = {.inode = i}};
		size_t at;

		assert_int_equal(capture__judge_program(&c, &program, i % 2), 0);
		at = find(&program.file);
		assert_true(at < table.n);
		assert_int_equal(table.wanted[at], i % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_table_takes_new_verdicts),
	};

	return cmocka_run_group_tests_name("verdicts", tests, NULL, NULL);
}
