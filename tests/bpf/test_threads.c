// SPDX-License-Identifier: BSD-2-Clause
/* Which thread frees blocks of which thread (threads.bpf.h), compiled for the host. The tables are
 * fakes: one pair, one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MEMTRACE_BPF_MAPS_BPF_H /* the fakes replace maps.bpf.h */
#include "abi.h"
#include "compat.bpf.h"

#define BPF_ANY	    0
#define BPF_NOEXIST 1

static int threads, transfers; /* only their addresses matter */
static const struct abi_transfer no_transfer;
static struct abi_transfer_key only;
static struct abi_transfer pair;
static int n_pairs, n_lost, room;

static long bpf_get_current_comm(void *comm, __u32 size)
{
	memset(comm, 0, size);
	return 0;
}

static void *bpf_map_lookup_elem(void *map, const void *wanted)
{
	return map == &transfers && n_pairs && !memcmp(&only, wanted, sizeof(only)) ? &pair : NULL;
}

static long bpf_map_update_elem(void *map, const void *new_key, const void *value, __u64 flags)
{
	assert_ptr_equal(map, &transfers);
	assert_int_equal(flags, BPF_NOEXIST);
	if (n_pairs == room)
		return -7;
	n_pairs++;
	memcpy(&only, new_key, sizeof(only));
	memcpy(&pair, value, sizeof(pair));
	return 0;
}

static void count(__u64 *counter, __u64 n)
{
	*counter += n;
}

static void lose(struct abi_process_cpu *cpu, enum abi_lost what)
{
	cpu->lost[what]++;
	n_lost++;
}

static void lose_insert(struct abi_process_cpu *cpu, long err, enum abi_lost full)
{
	assert_int_equal(err, -7);
	lose(cpu, full);
}

#include "threads.bpf.h"

static struct abi_process_cpu cpu;
static struct abi_process process;

static void note(bool watch)
{
	process = (struct abi_process){.id = 5, .watch = watch};
	note_transfer(&cpu, &process, 11, 12, 65536, 100);
}

/* The table is for all processes. Windows see few of the frees, and no profile of them shows pairs:
 * they take no room from others. */
static void windows_take_no_room(void **state)
{
	(void)state;
	room = 1;
	note(true);
	assert_int_equal(n_pairs, 0);
	note(false);
	note(false);
	note(true);
	assert_int_equal(n_pairs, 1);
	assert_true(only.process == 5 && only.owner == 11 && only.freer == 12);
	assert_true(pair.samples == 2 && pair.objects_q16 == 2 * 65536 && pair.bytes == 200);
	assert_int_equal(n_lost, 0);
}

static void a_pair_without_room_is_counted(void **state)
{
	(void)state;
	n_pairs = room = 0;
	note(false);
	assert_int_equal(cpu.lost[LOST_TRANSFERS_FULL], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_take_no_room),
		cmocka_unit_test(a_pair_without_room_is_counted),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
