// SPDX-License-Identifier: BSD-2-Clause
/* Closes many descriptors at a time. Each of them is closed, and no other. No helper is left. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/shield.h"

#define MAX_FDS 200

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Puts the descriptors into places. */
static void put(atomic_int *places, atomic_int **ret, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		atomic_init(&places[i], fds[i] + 1);
		ret[i] = &places[i];
	}
}

static void check_close(size_t n)
{
	int fds[MAX_FDS], other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	atomic_int places[MAX_FDS], *all[MAX_FDS];

	assert_true(other >= 0);
	for (size_t i = 0; i < n; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	put(places, all, fds, n);
	shield__close(all, n);
	for (size_t i = 0; i < n; i++) {
		assert_false(is_open(fds[i]));
		assert_int_equal(atomic_load(&places[i]), 0);
	}
	assert_true(is_open(other));
	close(other);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void each_is_closed(void **state)
{
	(void)state;
	check_close(0);
	check_close(1);
	check_close(2);
	check_close(64);
	check_close(65); /* more descriptors than closers */
	check_close(MAX_FDS);
}

static void others_are_closed_beside_us(void **state)
{
	struct shield_closer *closers[8];
	int fds[16], other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	atomic_int places[16], *all[16];

	(void)state;
	for (int i = 0; i < 16; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	put(places, all, fds, 16);
	for (int i = 0; i < 8; i++)
		closers[i] = shield__begin_close(&all[2 * i], 2);
	for (int i = 0; i < 8; i++)
		if (closers[i])
			assert_true(shield__end_close(closers[i], true));
	for (int i = 0; i < 16; i++)
		assert_false(is_open(fds[i]));
	assert_true(is_open(other));
	close(other);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void who_looks_need_not_wait(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), looks = 1;
	atomic_int place = fd + 1;
	struct shield_closer *closer = shield__begin_close(&(atomic_int *){&place}, 1);

	(void)state;
	assert_non_null(closer);
	for (; !shield__end_close(closer, false) && looks < 10000; looks++)
		usleep(1000);
	assert_true(looks < 10000);
}

/* Another thread may close a descriptor first. Then the number of the descriptor may belong to
 * another file. */
static void what_is_gone_is_not_closed_again(void **state)
{
	int fds[4];
	atomic_int places[4], *all[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	put(places, all, fds, 4);
	atomic_store(&places[1], 0);
	atomic_store(&places[3], 0);
	shield__close(all, 2);
	shield__end_close(shield__begin_close(&all[2], 2), true);
	for (int i = 0; i < 4; i++)
		assert_int_equal(is_open(fds[i]), i % 2);
	close(fds[1]);
	close(fds[3]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_closed),
		cmocka_unit_test(others_are_closed_beside_us),
		cmocka_unit_test(what_is_gone_is_not_closed_again),
		cmocka_unit_test(who_looks_need_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
