// SPDX-License-Identifier: BSD-2-Clause
/* Which block leaves the table of live blocks. The table is a fake: the linker replaces the
 * functions that read and change it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "capture/internal.h"

#define PROCESS 7
#define ADDR	0x1000

static struct abi_live block; /* at ADDR */
static bool there;

int __wrap_bpf_map__fd(const struct bpf_map *map);
int __wrap_bpf_map__fd(const struct bpf_map *map)
{
	(void)map;
	return 0;
}

static bool is_there(const struct abi_live_key *key)
{
	return there && key->addr == ADDR && key->process == PROCESS;
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	(void)fd;
	if (!is_there(key))
		return -ENOENT;
	memcpy(value, &block, sizeof(block));
	return 0;
}

int __wrap_bpf_map_delete_elem(int fd, const void *key);
int __wrap_bpf_map_delete_elem(int fd, const void *key)
{
	(void)fd;
	if (!is_there(key))
		return -ENOENT;
	there = false;
	return 0;
}

static struct memtrace_bpf__bss bss;
static struct memtrace_bpf skel = {.bss = &bss};
static struct capture capture = {.skel = &skel};

/* The table was read at time 100, and an address in it is no longer watched. Does a block at this
 * address, with this birth, leave the table? The filter must count the same blocks as the table. */
static bool leaves(uint64_t birth_ns, enum abi_birth birth)
{
	struct abi_live_key key = {.addr = ADDR, .process = PROCESS};
	uint32_t *slot = &bss.live_filter[abi_filter_slot(&key)];

	block = (struct abi_live){.birth_ns = birth_ns, .birth = birth};
	there = true;
	*slot = 5;
	capture__forget_block(&capture, PROCESS, ADDR, 100);
	assert_int_equal(*slot, there ? 5 : 4);
	return !there;
}

/* A window goes on while its tables are read, so a new block may be at an address that is no longer
 * watched. */
static void a_new_block_at_the_address_stays(void **state)
{
	(void)state;
	assert_true(leaves(99, BIRTH_NEW));
	assert_true(leaves(100, BIRTH_GROWN));
	assert_true(leaves(99, BIRTH_ENDED));
	assert_false(leaves(101, BIRTH_NEW));
	assert_false(leaves(101, BIRTH_UNKNOWN));
	assert_true(leaves(101, BIRTH_ENDED)); /* nothing lives there */
}

static void what_is_gone_changes_nothing(void **state)
{
	struct abi_live_key key = {.addr = ADDR, .process = PROCESS};

	(void)state;
	there = false;
	bss.live_filter[abi_filter_slot(&key)] = 5;
	capture__forget_block(&capture, PROCESS, ADDR, 100);
	assert_int_equal(bss.live_filter[abi_filter_slot(&key)], 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_block_at_the_address_stays),
		cmocka_unit_test(what_is_gone_changes_nothing),
	};

	return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
