// SPDX-License-Identifier: BSD-2-Clause
/* Tests the keeper with pipes: when it closes a writing end, the reader sees the end of file. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/keeper.h"

#define PATIENCE_MS 100
#define SOON_MS	    5000 /* long, because machines may be slow */
#define MAX_HELD    65536

static bool is_closed(int reader, int within_ms)
{
	struct pollfd fd = {.fd = reader, .events = POLLIN};

	return poll(&fd, 1, within_ms) == 1 && fd.revents & POLLHUP;
}

static struct keeper *keeper(bool in_turn)
{
	struct keeper *k;

	assert_int_equal(keeper__new(in_turn, &k), 0);
	assert_true(keeper__lives(k));
	return k;
}

/* Ends the keeper. It closes all descriptors that it holds, and no child is left. */
static void end(struct keeper *k)
{
	keeper__free(k);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void beat_for(struct keeper *k, int ms)
{
	for (; ms > 0; ms -= 10) {
		keeper__beat(k);
		usleep(10000);
	}
}

static void who_beats_keeps_all(void **state)
{
	struct keeper *k = keeper(false);
	int fds[2], slot;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	slot = keeper__hold(k, fds[1], 0);
	assert_true(slot >= 0);
	keeper__set_patience(k, 500);
	beat_for(k, 1500);
	assert_false(is_closed(fds[0], 0));
	assert_int_equal(keeper__withdrawn_ns(k), 0);
	assert_int_equal(keeper__take(k, slot), fds[1]);
	keeper__set_patience(k, PATIENCE_MS); /* a keeper that holds nothing ignores silence */
	assert_false(is_closed(fds[0], 4 * PATIENCE_MS));
	assert_int_equal(keeper__withdrawn_ns(k), 0);
	end(k);
	assert_false(is_closed(fds[0], 0));
	close(fds[0]);
	close(fds[1]);
}

static void patience_of_zero_is_for_ever(void **state)
{
	struct keeper *k = keeper(false);
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true(keeper__hold(k, fds[1], 0) >= 0);
	assert_false(is_closed(fds[0], 500));
	end(k); /* what the keeper holds is closed, too */
	assert_true(is_closed(fds[0], 0));
	close(fds[0]);
}

/* If memtrace is silent, the keeper closes all descriptors that it holds. Then it also closes
 * descriptors that memtrace passes to it before keeper__resume(). Descriptors that come later stay
 * open. */
static void check_silence(bool in_turn)
{
	struct keeper *k = keeper(in_turn);
	int fds[3][2], slots[3];

	keeper__set_patience(k, PATIENCE_MS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pipe2(fds[i], O_CLOEXEC), 0);
	for (int i = 0; i < 2; i++)
		slots[i] = keeper__hold(k, fds[i][1], (uint32_t)(2 - i));
	for (int i = 0; i < 2; i++)
		assert_true(is_closed(fds[i][0], SOON_MS));
	assert_int_not_equal(keeper__withdrawn_ns(k), 0);
	keeper__set_patience(k, 0);
	slots[2] = keeper__hold(k, fds[2][1], 0);
	assert_true(is_closed(fds[2][0], SOON_MS));
	for (int i = 0; i < 3; i++)
		assert_int_equal(keeper__take(k, slots[i]), -1);
	keeper__resume(k);
	assert_int_equal(keeper__withdrawn_ns(k), 0);
	close(fds[2][0]);

	assert_int_equal(pipe2(fds[2], O_CLOEXEC), 0);
	slots[2] = keeper__hold(k, fds[2][1], 0);
	assert_false(is_closed(fds[2][0], 500));
	keeper__set_patience(k, PATIENCE_MS);
	assert_true(is_closed(fds[2][0], SOON_MS)); /* now silence has its effect again */
	assert_int_not_equal(keeper__withdrawn_ns(k), 0);
	assert_int_equal(keeper__take(k, slots[2]), -1);
	end(k);
	for (int i = 0; i < 3; i++)
		close(fds[i][0]);
}

static void silence_withdraws_all(void **state)
{
	(void)state;
	check_silence(false);
}

static void silence_withdraws_in_turn(void **state)
{
	(void)state;
	check_silence(true);
}

/* Starts a process that makes a keeper, and sends heartbeats to it until the test stops the
 * process. */
static pid_t start_beating(int *ret_reader)
{
	int fds[2], ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct keeper *k;

		if (keeper__new(false, &k) || keeper__hold(k, fds[1], 0) < 0)
			_exit(1);
		keeper__set_patience(k, 500);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		beat_for(k, 30000);
		_exit(1);
	}
	close(fds[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_reader = fds[0];
	assert_false(is_closed(fds[0], 1000));
	return pid;
}

static void who_is_stopped_loses_all(void **state)
{
	int reader;
	pid_t pid = start_beating(&reader);

	(void)state;
	kill(pid, SIGSTOP);
	assert_true(is_closed(reader, SOON_MS));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(reader);
}

static void who_is_killed_leaves_nothing(void **state)
{
	int reader;
	pid_t pid = start_beating(&reader);

	(void)state;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(is_closed(reader, SOON_MS));
	close(reader);
}

static pid_t only_child_of(pid_t parent)
{
	char path[64];
	FILE *file;
	pid_t pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	fclose(file);
	return pid;
}

static void who_was_stopped_leaves_nothing(void **state)
{
	bool gone;
	int reader;
	pid_t pid = start_beating(&reader), keeper = only_child_of(pid);

	(void)state;
	kill(keeper, SIGSTOP);
	usleep(100000);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	gone = is_closed(reader, SOON_MS);
	kill(keeper, SIGCONT); /* so that the keeper can end if this test fails */
	assert_true(gone);
	close(reader);
}

static void no_signal_but_sigkill_ends_it(void **state)
{
	static const int signals[] = {SIGHUP,  SIGINT,	SIGTERM, SIGUSR1,
				      SIGUSR2, SIGPIPE, SIGALRM, SIGTSTP};
	struct keeper *k = keeper(false);
	pid_t pid = only_child_of(getpid());
	int fds[2], slot;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	slot = keeper__hold(k, fds[1], 0);
	for (int i = 0; i < 500 && getsid(pid) == getsid(0); i++) /* until the keeper runs */
		usleep(10000);
	assert_int_not_equal(getsid(pid), getsid(0));
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		kill(pid, signals[i]);
	usleep(200000);
	assert_true(keeper__lives(k));
	assert_false(is_closed(fds[0], 0));
	kill(pid, SIGKILL);
	for (int i = 0; i < 500 && keeper__lives(k); i++)
		usleep(10000);
	assert_false(keeper__lives(k));
	keeper__resume(k);		    /* does not wait for the keeper */
	assert_false(is_closed(fds[0], 0)); /* the keeper has ended: this process has to close it */
	assert_int_equal(keeper__take(k, slot), fds[1]);
	close(fds[1]);
	assert_true(is_closed(fds[0], 0));
	close(fds[0]);
	end(k);
}

static void slots_are_used_again(void **state)
{
	struct keeper *k = keeper(false);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	static int slots[MAX_HELD];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MAX_HELD; i++)
			slots[i] = keeper__hold(k, fd, 0);
		for (int i = 0; i < MAX_HELD; i++)
			assert_true(slots[i] >= 0);
		assert_int_equal(keeper__hold(k, fd, 0), -ENOSPC);
		for (int i = 0; i < MAX_HELD; i++)
			assert_int_equal(keeper__take(k, slots[i]), fd);
	}
	close(fd);
	end(k);
}

/* memtrace may be stopped after it has given up a slot and before it has closed the descriptor. */
static void what_is_given_up_is_still_guarded(void **state)
{
	struct keeper *k = keeper(false);
	int fds[2], slot, other, devnull = open("/dev/null", O_RDONLY | O_CLOEXEC);
	atomic_int *place;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	slot = keeper__hold(k, fds[1], 0);
	place = keeper__give_up(k, slot);
	assert_int_equal(atomic_load(place), fds[1] + 1);
	other = keeper__hold(k, devnull, 0); /* the slot is not free yet */
	assert_int_not_equal(other, slot);
	assert_int_equal(keeper__take(k, other), devnull);
	keeper__set_patience(k, PATIENCE_MS);
	assert_true(is_closed(fds[0], SOON_MS));
	keeper__set_patience(k, 0);
	keeper__resume(k);
	assert_int_equal(atomic_load(place), 0);
	/* now both slots are free */
	slot = keeper__hold(k, devnull, 0);
	other = keeper__hold(k, devnull, 0);
	assert_int_equal(slot + other, 1);
	assert_int_equal(keeper__take(k, slot), devnull);
	assert_int_equal(keeper__take(k, other), devnull);
	close(devnull);
	close(fds[0]);
	end(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_beats_keeps_all),
		cmocka_unit_test(patience_of_zero_is_for_ever),
		cmocka_unit_test(silence_withdraws_all),
		cmocka_unit_test(silence_withdraws_in_turn),
		cmocka_unit_test(who_is_stopped_loses_all),
		cmocka_unit_test(who_is_killed_leaves_nothing),
		cmocka_unit_test(who_was_stopped_leaves_nothing),
		cmocka_unit_test(no_signal_but_sigkill_ends_it),
		cmocka_unit_test(what_is_given_up_is_still_guarded),
		cmocka_unit_test(slots_are_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
