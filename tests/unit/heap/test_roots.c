// SPDX-License-Identifier: BSD-2-Clause
#include "heap/roots.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/epoll.h"

static const char text[] =
	"400000-401000 r-xp 00000000 08:01 77 /bin/program\n"
	"401000-402000 r--p 00001000 08:01 77 /bin/program\n"
	"402000-403000 rw-p 00002000 08:01 77 /bin/program\n"
	"403000-405000 rw-p 00000000 00:00 0 \n" /* bss */
	"405000-406000 rw-p 00000000 00:00 0 \n" /* not joined to the mapping before, so not bss */
	"500000-600000 rw-p 00000000 00:00 0 [heap]\n"
	"6ff000-700000 ---p 00000000 00:00 0 \n"
	"700000-710000 rw-p 00000000 00:00 0 \n" /* a thread's stack */
	"718000-71c000 rw-p 00000000 00:00 0 \n" /* a pool of stacks */
	"720000-721000 rw-s 00000000 00:05 5 /dev/zero (deleted)\n"
	"730000-731000 rw-s 00000000 08:01 78 /var/lib/database\n"
	"740000-741000 r--p 00000000 00:00 0 \n"
	"750000-751000 r--p 00000000 00:00 0 [vvar]\n"
	"7ff000-803000 rw-p 00000000 00:00 0 [stack]\n";

struct expected {
	uint64_t start, end;
	enum root_kind kind;
	pid_t tid;
};

static void assert_roots(const struct roots *roots, const struct expected *expected, size_t n)
{
	for (size_t i = 0; i < n && i < roots->n; i++) {
		assert_int_equal(roots->list[i].start, expected[i].start);
		assert_int_equal(roots->list[i].end, expected[i].end);
		assert_int_equal(roots->list[i].kind, expected[i].kind);
		assert_int_equal(roots->list[i].tid, expected[i].tid);
	}
	assert_int_equal(roots->n, n);
}

static void test_kinds(void **state)
{
	const struct root_range own[] = {{0x402100, 0x402200}, {0x500000, 0x590000}};
	const struct expected expected[] = {
		{0x401000, 0x402000, ROOT_DATA, 0}, /* RELRO */
		{0x402000, 0x402100, ROOT_DATA, 0},	 {0x402200, 0x403000, ROOT_DATA, 0},
		{0x403000, 0x405000, ROOT_DATA, 0},	 {0x405000, 0x406000, ROOT_ANONYMOUS, 0},
		{0x590000, 0x600000, ROOT_ANONYMOUS, 0}, {0x700000, 0x710000, ROOT_ANONYMOUS, 0},
		{0x718000, 0x71c000, ROOT_ANONYMOUS, 0}, {0x720000, 0x721000, ROOT_ANONYMOUS, 0},
		{0x740000, 0x741000, ROOT_ANONYMOUS, 0}, {0x7ff000, 0x803000, ROOT_STACK, 0},
	};
	struct root_threads threads = {};
	struct roots roots;
	struct maps maps;

	(void)state;
	assert_int_equal(maps__parse(text, strlen(text), &maps, NULL), 0);
	assert_int_equal(roots__find(&maps, &threads, own, 2, &roots), 0);
	assert_roots(&roots, expected, sizeof(expected) / sizeof(expected[0]));
	assert_int_equal(roots.n_values, 0);
	roots__clear(&roots);
	maps__free(&maps);
}

static void test_stacks(void **state)
{
	/* two threads share a mapping, and one thread's stack is in a block of the heap */
	struct thread_state list[] = {{.tid = 1, .sp = 0x802004}, {.tid = 2, .sp = 0x704000},
				      {.tid = 3, .sp = 0x708000}, {.tid = 4, .sp = 0x500100},
				      {.tid = 5, .sp = 0x900000}, {.tid = 6, .sp = 0x719000},
				      {.tid = 7, .sp = 0x71a000}, {.tid = 8}};
	struct root_value values[] = {{0x500200, 1}};
	const struct root_range own = {0x500000, 0x600000};
	const struct root_threads threads = {.list = list, .n = 8, .values = values, .n_values = 1};
	const struct expected stacks[] = {
		{0x703f80, 0x707f80, ROOT_STACK, 2}, {0x707f80, 0x710000, ROOT_STACK, 3},
		{0x718000, 0x719f80, ROOT_STACK, 6}, {0x719f80, 0x71c000, ROOT_STACK, 7},
		{0x801f88, 0x803000, ROOT_STACK, 1},
	};
	struct roots roots;
	struct maps maps;
	size_t at = 0;

	(void)state;
	assert_int_equal(maps__parse(text, strlen(text), &maps, NULL), 0);
	assert_int_equal(roots__find(&maps, &threads, &own, 1, &roots), 0);
	while (at < roots.n && roots.list[at].kind != ROOT_STACK)
		at++;
	assert_int_equal(roots.n - at, 5);
	assert_roots(&(struct roots){.list = roots.list + at, .n = roots.n - at}, stacks, 5);
	assert_int_equal(roots.n_values, 2);
	assert_int_equal(roots.values[0].value, 0x500200);
	assert_int_equal(roots.values[1].value, 0x500100);
	assert_int_equal(roots.values[1].tid, 4);
	roots__clear(&roots);
	maps__free(&maps);
}

static void test_own_threads(void **state)
{
	struct root_threads threads;
	int child = fork();

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	/* the child may not have reached pause() yet */
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(root_threads__read(child, &threads), 0);
		if (threads.n && threads.n_values)
			break;
		root_threads__clear(&threads);
		usleep(1000);
	}
	kill(child, 9);
	assert_int_equal(threads.n, 1);
	assert_int_equal(threads.n_values, 6);
	assert_ptr_equal(root_threads__find(&threads, child), &threads.list[0]);
	assert_true(threads.list[0].sp && threads.list[0].pc);
	assert_null(root_threads__find(&threads, child + 1));
	assert_null(root_threads__find(&threads, child - 1));
	assert_int_equal(threads.running, 0);
	root_threads__clear(&threads);
	assert_int_equal(root_threads__read(0x3fffff, &threads), -ESRCH);
}

static void test_epoll(void **state)
{
	struct epoll_event large = {.events = EPOLLIN, .data.u64 = 0x7f1234567890};
	struct epoll_event small = {.events = EPOLLIN, .data.fd = 5};
	struct root_threads threads = {};
	int epoll = epoll_create1(0), first = eventfd(0, 0), second = eventfd(0, 0);

	(void)state;
	assert_false(epoll_ctl(epoll, EPOLL_CTL_ADD, first, &large));
	assert_false(epoll_ctl(epoll, EPOLL_CTL_ADD, second, &small));
	assert_int_equal(root_threads__add_epoll(&threads, getpid()), 0);
	assert_int_equal(threads.n_values, 1);
	assert_int_equal(threads.values[0].value, 0x7f1234567890);
	assert_int_equal(threads.values[0].tid, 0);
	assert_int_equal(threads.unread_epolls, 0);
	root_threads__clear(&threads);
	close(first);
	close(second);
	close(epoll);
	/* another process cannot be read */
	assert_int_equal(root_threads__add_epoll(&threads, 0x3fffff), 0);
	assert_int_equal(threads.n_values, 0);
	assert_int_equal(threads.unread_epolls, 1);
	root_threads__clear(&threads);
}

/* Of a process with too many descriptors, nothing is read. */
static void test_many_descriptors(void **state)
{
	struct root_threads threads = {};
	struct rlimit old, more;
	int child, status;

	(void)state;
	assert_false(getrlimit(RLIMIT_NOFILE, &old));
	more = old;
	more.rlim_cur = EPOLL_MAX_FDS + 100;
	if (more.rlim_max < more.rlim_cur)
		skip();
	child = fork();
	if (!child) {
		bool right;

		setrlimit(RLIMIT_NOFILE, &more);
		for (int i = 0; i < EPOLL_MAX_FDS; i++)
			dup(STDIN_FILENO);
		root_threads__add_epoll(&threads, getpid());
		right = threads.unread_epolls == 1 && !threads.n_values;
		_exit(!right);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_own_threads),
		cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_many_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
