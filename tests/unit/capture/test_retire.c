// SPDX-License-Identifier: BSD-2-Clause
/* Which entries of the kernel's tables are removed. The tables are fakes: the linker replaces the
 * functions that read and change them. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/internal.h"

#define ROWS 16 /* process_rows is ROWS - 1 */

enum { OWNERS = 1, CALLS, THREADS, OTHER }; /* the maps, and their descriptors */

static uint32_t owners[ROWS];
static struct {
	struct abi_inflight_key keys[8];
	struct abi_inflight values[8];
	size_t n;
} calls;
static struct {
	uint32_t keys[8];
	struct abi_thread values[8];
	size_t n, room;
} threads;
static pid_t dead; /* no thread has this tid */

int __wrap_bpf_map__fd(const struct bpf_map *map);
int __wrap_bpf_map__fd(const struct bpf_map *map)
{
	return (int)(intptr_t)map;
}

uint32_t __wrap_bpf_map__max_entries(const struct bpf_map *map);
uint32_t __wrap_bpf_map__max_entries(const struct bpf_map *map)
{
	assert_int_equal((intptr_t)map, THREADS);
	return (uint32_t)threads.room;
}

static void copy(const void *keys, size_t key, const void *values, size_t value, size_t n,
		 struct capture_table *ret)
{
	*ret = (struct capture_table){malloc(n * key + 1), malloc(n * value + 1), n};
	assert_true(ret->keys && ret->values);
	if (keys)
		memcpy(ret->keys, keys, n * key);
	memcpy(ret->values, values, n * value);
}

int __wrap_capture__read_table(struct capture *c, const struct bpf_map *map,
			       struct capture_table *ret);
int __wrap_capture__read_table(struct capture *c, const struct bpf_map *map,
			       struct capture_table *ret)
{
	(void)c;
	if ((intptr_t)map == OWNERS)
		copy(NULL, 4, owners, 4, ROWS, ret);
	else if ((intptr_t)map == CALLS)
		copy(calls.keys, sizeof(*calls.keys), calls.values, sizeof(*calls.values), calls.n,
		     ret);
	else if ((intptr_t)map == THREADS)
		copy(threads.keys, 4, threads.values, sizeof(*threads.values), threads.n, ret);
	else
		*ret = (struct capture_table){};
	return 0;
}

static size_t find_call(const void *key)
{
	size_t i = 0;

	while (i < calls.n && memcmp(&calls.keys[i], key, sizeof(*calls.keys)))
		i++;
	return i;
}

static size_t find_thread(const void *key)
{
	size_t i = 0;

	while (i < threads.n && memcmp(&threads.keys[i], key, 4))
		i++;
	return i;
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	size_t i = fd == CALLS ? find_call(key) : find_thread(key);

	if (i == (fd == CALLS ? calls.n : threads.n))
		return -ENOENT;
	if (fd == CALLS)
		*(struct abi_inflight *)value = calls.values[i];
	else
		*(struct abi_thread *)value = threads.values[i];
	return 0;
}

int __wrap_bpf_map_delete_elem(int fd, const void *key);
int __wrap_bpf_map_delete_elem(int fd, const void *key)
{
	size_t i = fd == CALLS ? find_call(key) : find_thread(key);

	if (fd == CALLS && i < calls.n) {
		calls.keys[i] = calls.keys[--calls.n];
		calls.values[i] = calls.values[calls.n];
	} else if (fd == THREADS && i < threads.n) {
		threads.keys[i] = threads.keys[--threads.n];
		threads.values[i] = threads.values[threads.n];
	}
	return 0;
}

size_t __wrap_capture__pausing(struct capture *c, pid_t pid);
size_t __wrap_capture__pausing(struct capture *c, pid_t pid)
{
	(void)pid;
	return c->n_closings;
}

static void add_call(uint64_t sp, pid_t tid, uint32_t process)
{
	calls.keys[calls.n] = (struct abi_inflight_key){.sp = sp, .tid = (uint32_t)tid};
	calls.values[calls.n++] = (struct abi_inflight){.process = process};
}

static void add_thread(pid_t tid, uint32_t process)
{
	threads.keys[threads.n] = (uint32_t)tid;
	threads.values[threads.n++] = (struct abi_thread){.process = process};
}

static bool has_call(uint64_t sp, pid_t tid)
{
	struct abi_inflight_key key = {.sp = sp, .tid = (uint32_t)tid};

	return find_call(&key) < calls.n;
}

static bool has_thread(pid_t tid)
{
	return find_thread(&tid) < threads.n;
}

static struct memtrace_bpf__bss bss;
static struct memtrace_bpf__rodata rodata = {.process_rows = ROWS - 1};
static struct memtrace_bpf skel = {.bss = &bss, .rodata = &rodata};
static struct capture_link links[1];
static struct capture_closing closings[1];
static struct capture capture = {.skel = &skel, .links = links, .closings = closings};

static void begin(void)
{
	skel.maps.row_owners = (struct bpf_map *)OWNERS;
	skel.maps.inflight = (struct bpf_map *)CALLS;
	skel.maps.threads = (struct bpf_map *)THREADS;
	skel.maps.pools = skel.maps.pooled = (struct bpf_map *)OTHER;
	memset(owners, 0, sizeof(owners));
	calls.n = threads.n = 0;
	threads.room = 8;
	capture.n_links = capture.n_closings = 0;
}

/* Process 1 is the test itself. Process 2 has ended, but is kept until its last profile is made. */
static bool lives(void *ctx, uint32_t process, pid_t *ret_pid)
{
	(void)ctx;
	*ret_pid = getpid();
	return process == 1;
}

/* A call was under way when its probes were removed, or when its thread ended. The call's entry is
 * still in the table, but no probe will handle the call's return. */
static void calls_without_a_return_are_dropped(void **state)
{
	(void)state;
	for (int probes = 0; probes < 4; probes++) {
		begin();
		owners[1] = 1;
		owners[2] = 2;
		add_call(0x10, getpid(), 1);
		add_call(0x20, dead, 1);
		add_call(0x30, dead, 2);
		/* 1: links of this process; 2: links of all processes; 3: links that are being
		 * closed */
		links[0] = (struct capture_link){.pid = probes == 2 ? 0 : getpid()};
		closings[0] = (struct capture_closing){.pid = getpid()};
		capture.n_links = probes == 1 || probes == 2;
		capture.n_closings = probes == 3;
		capture__sweep(&capture, lives, NULL);
		assert_int_equal(has_call(0x10, getpid()), probes > 0);
		assert_false(has_call(0x20, dead));
		assert_true(has_call(0x30, dead));
	}
	/* first, links of probes of another kind; then links of another process */
	capture.n_closings = 0;
	capture.n_links = 1;
	links[0] = (struct capture_link){.pid = getpid(), .on = ON_REGIONS};
	add_call(0x40, getpid(), 1);
	capture__sweep(&capture, lives, NULL);
	assert_false(has_call(0x40, getpid()));
	links[0] = (struct capture_link){.pid = dead};
	add_call(0x40, getpid(), 1);
	capture__sweep(&capture, lives, NULL);
	assert_false(has_call(0x40, getpid()));
}

/* A process was killed in a call, and only the entry of this call is left. The process's row is
 * free, or belongs to a later process. */
static void calls_of_dropped_processes_are_dropped(void **state)
{
	(void)state;
	begin();
	owners[3] = 3 + ROWS;
	capture.n_links = 1;
	links[0] = (struct capture_link){};
	add_call(0x10, getpid(), 3);
	add_call(0x20, getpid(), 3 + ROWS);
	add_call(0x30, getpid(), 4);
	capture__sweep(&capture, lives, NULL);
	assert_false(has_call(0x10, getpid()));
	assert_true(has_call(0x20, getpid()));
	assert_false(has_call(0x30, getpid()));
}

static void names_of_ended_threads_make_room(void **state)
{
	(void)state;
	for (size_t room = 3; room <= 8; room++) {
		begin();
		threads.room = room;
		owners[1] = 1;
		owners[2] = 2;
		add_thread(getpid(), 1);
		add_thread(dead, 1);
		add_thread(dead + 1, 2); /* process 2 still needs it for its last profile */
		capture__sweep(&capture, lives, NULL);
		assert_true(has_thread(getpid()));
		assert_int_equal(has_thread(dead), room >= 6);
		assert_true(has_thread(dead + 1));
	}
}

/* All records of a process without a row are dropped. If another process has a record at the same
 * place by now, this record stays. */
static void records_without_a_row_are_dropped(void **state)
{
	struct capture_drain drain = {};

	(void)state;
	begin();
	owners[1] = 1;
	add_call(0x10, getpid(), 1);
	add_call(0x20, dead, 2);
	add_call(0x30, dead, 2);
	add_thread(getpid(), 1);
	add_thread(dead, 2);
	__wrap_capture__read_table(&capture, skel.maps.inflight, &drain.inflight);
	__wrap_capture__read_table(&capture, skel.maps.threads, &drain.threads);
	calls.values[2].process = 1;
	capture__drop_records(&capture, &drain, false);
	assert_true(has_call(0x10, getpid()));
	assert_false(has_call(0x20, dead));
	assert_true(has_call(0x30, dead));
	assert_true(has_thread(getpid()));
	assert_false(has_thread(dead));
	capture_drain__free(&drain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_without_a_return_are_dropped),
		cmocka_unit_test(calls_of_dropped_processes_are_dropped),
		cmocka_unit_test(names_of_ended_threads_make_room),
		cmocka_unit_test(records_without_a_row_are_dropped),
	};

	dead = fork();
	if (!dead)
		_exit(0);
	if (dead < 0 || waitpid(dead, NULL, 0) != dead)
		return 1;
	return cmocka_run_group_tests_name("retire", tests, NULL, NULL);
}
