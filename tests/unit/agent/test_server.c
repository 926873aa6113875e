// SPDX-License-Identifier: BSD-2-Clause
/* The tracer's side of the server, over a socket whose other end the test has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/server.h"
#include "base/clock.h"
#include "tests/unit/encode/fixture.h"

static struct server server;
static int other = -1;

static int begin(void **state)
{
	int ends[2];

	(void)state;
	server = (struct server){.program = -1, .guard = -1, .progress_s = clock__monotonic_s()};
	if (feed__pair(ends))
		return -1;
	server.feed = ends[0];
	other = ends[1];
	return 0;
}

static int end(void **state)
{
	(void)state;
	server__end(&server);
	if (other >= 0)
		close(other);
	other = -1;
	return 0;
}

static void send_profile(void)
{
	struct profile *profile = new_profile(1);
	uint64_t n_dropped = server.n_dropped;
	int lost;

	STACK(profile, 1, 100, 1, "malloc", "keep", "main");
	end_profile(profile);
	lost = server__send_profile(&server, profile, 7);
	assert_int_equal(lost, server.n_dropped - n_dropped);
	profile__free(profile);
}

/* The profile that was sent last is as large as it may be. */
static void make_it_large(void)
{
	struct outbox *o = &server.outbox;

	assert_true(o->n_parcels > 0);
	o->parcels[o->n_parcels - 1].bytes += SERVER_UNREAD - o->bytes;
	o->bytes = SERVER_UNREAD;
}

/* Reads all messages that the server would read. Returns their number. */
static int read_all(void)
{
	struct feed_message message;
	int n = 0, memory;

	for (; feed__receive(other, &message, &memory) == 1; n++)
		if (memory >= 0)
			close(memory);
	return n;
}

/* If the server reads nothing, the memory of waiting messages has a limit. */
static void what_is_not_read_is_bounded(void **state)
{
	(void)state;
	send_profile();
	assert_true(server.outbox.bytes > 0);
	make_it_large();
	send_profile();
	send_profile();
	assert_int_equal(server.n_dropped, 2);
	assert_int_equal(read_all(), 3); /* the process is named twice more */
	send_profile();
	assert_int_equal(server.n_dropped, 2);
	assert_int_equal(read_all(), 1);
}

/* The server always has something to read, and does read it. Together the profiles are larger than
 * what may wait. */
static void who_is_a_little_behind_loses_nothing(void **state)
{
	struct feed_message message;
	int memory;

	(void)state;
	send_profile();
	for (int i = 0; i < 20; i++) {
		struct outbox *o = &server.outbox;

		o->parcels[o->n_parcels - 1].bytes += SERVER_UNREAD / 4;
		o->bytes += SERVER_UNREAD / 4;
		send_profile();
		assert_int_equal(server__send_same(&server, 42), 0);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(feed__receive(other, &message, &memory), 1);
			if (memory >= 0)
				close(memory);
		}
	}
	assert_int_equal(server.n_dropped, 0);
	assert_true(server.outbox.unread > 0);
	assert_true(server.outbox.bytes > 0);
}

static void a_profile_that_holds_is_said(void **state)
{
	struct feed_message message;
	int memory;

	(void)state;
	assert_int_equal(server__send_same(&server, 42), 0);
	assert_int_equal(feed__receive(other, &message, &memory), 1);
	assert_int_equal(message.kind, FEED_SAME);
	assert_int_equal(message.pid, 42);
	assert_true(message.taken_ns > 0);
	assert_int_equal(memory, -1);
	/* if a message finds no room, the server does not learn that the process lives */
	while (!server.any_unnamed)
		assert_int_equal(server__send_same(&server, 42), 0);
	assert_int_equal(server.n_dropped, 0); /* no profile was lost */
}

/* The socket's buffer has the size that Debian's kernel gives to unprivileged processes. In a round
 * of thousands of processes, the tracer neither waits nor loses a message. */
static void a_large_round_waits_for_room(void **state)
{
	const int room = 212992, n = 4000;
	struct feed_message message;
	double start = clock__monotonic_s();
	int memory, next = 0;

	(void)state;
	assert_int_equal(setsockopt(server.feed, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	send_profile();
	for (int i = 0; i < n; i++)
		assert_int_equal(server__send_same(&server, i), 0);
	send_profile();
	server__end_round(&server, &(struct feed_message){.complete = 1});
	assert_true(clock__monotonic_s() - start < 2); /* 20 ms for each would be a minute */
	assert_int_equal(server.n_dropped, 0);
	assert_true(server.outbox.bytes > 0);
	assert_int_equal(server__events(&server, true), POLLOUT);
	for (bool ended = false; !ended;) {
		double progress = server.progress_s -= 1;

		while (feed__receive(other, &message, &memory) == 1) {
			bool is_profile = message.kind == FEED_PROFILE;

			assert_int_equal(memory >= 0, is_profile);
			assert_int_equal(is_profile, !next || next == n + 1);
			if (memory >= 0)
				close(memory);
			if (message.kind == FEED_SAME)
				assert_int_equal(message.pid, next - 1);
			ended = message.kind == FEED_ROUND;
			next++;
		}
		server__listen_to(&server, &(struct server_wishes){});
		assert_true(server.progress_s > progress);
	}
	assert_int_equal(next, n + 3);
	assert_true(message.complete);
	assert_int_equal(server.outbox.bytes, 0);
	assert_int_equal(server__events(&server, false), POLLIN);
	assert_int_equal(server__events(&server, true), 0);
}

/* Ends a round, and reads all messages. n_left_out: expected number of FEED_LEFT_OUT. Returns
 * whether the round had n_left_out of them and is marked as `complete` says. */
static bool round_is_complete(bool asked, int n_left_out)
{
	struct feed_message message;
	int memory;

	server__end_round(&server, &(struct feed_message){.complete = asked});
	do {
		if (feed__receive(other, &message, &memory) != 1) {
			/* sends waiting messages */
			server__listen_to(&server, &(struct server_wishes){});
			assert_int_equal(feed__receive(other, &message, &memory), 1);
		}
		n_left_out -= message.kind == FEED_LEFT_OUT;
		if (memory >= 0)
			close(memory);
	} while (message.kind != FEED_ROUND);
	assert_int_equal(n_left_out, 0);
	return message.complete;
}

/* Files that wait for room in the socket count, too. */
static void what_waits_for_room_is_bounded(void **state)
{
	const int room = 4096;
	uint64_t bytes;

	(void)state;
	assert_int_equal(setsockopt(server.feed, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	send_profile();
	bytes = server.outbox.bytes;
	for (int i = 0; i < 50; i++)
		send_profile();
	assert_true(server.outbox.n > 0);
	assert_int_equal(server.outbox.bytes, 51 * bytes);
	assert_true(round_is_complete(true, 0));
	server__listen_to(&server, &(struct server_wishes){});
	assert_int_equal(server.outbox.bytes, 0);
}

static void lost_profiles_end_nobody(void **state)
{
	(void)state;
	assert_true(round_is_complete(true, 0));
	assert_false(round_is_complete(false, 0));
	send_profile();
	make_it_large();
	read_all();
	send_profile();
	assert_int_equal(server.n_dropped, 0); /* everything had been read */
	make_it_large();
	send_profile();
	assert_int_equal(server.n_dropped, 1);
	/* a message names the process, although its profile was dropped */
	assert_true(round_is_complete(true, 1));
	while (!server.any_unnamed)
		server__send_same(&server, 42);
	outbox__clear(&server.outbox);
	read_all();
	assert_false(round_is_complete(true, 0));
	assert_true(round_is_complete(true, 0));
}

/* Each file that waits takes one of the tracer's descriptors. */
static void few_descriptors_wait(void **state)
{
	const int room = 4096;

	(void)state;
	assert_int_equal(setsockopt(server.feed, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	for (int i = 0; i < 2 * OUTBOX_FILES; i++)
		send_profile();
	assert_int_equal(server.outbox.n_files, OUTBOX_FILES);
	assert_in_range(server.n_dropped, 1, OUTBOX_FILES);
	assert_true(round_is_complete(true, (int)server.n_dropped));
	assert_int_equal(server.outbox.n_files, 0);
}

static struct server_wishes wishes;

static bool wants_a_round(void)
{
	wishes.round = false;
	server__listen_to(&server, &wishes);
	return wishes.round;
}

static void a_server_may_ask_and_nothing_else(void **state)
{
	const struct feed_message ask = {.kind = FEED_ASK}, round = {.kind = FEED_ROUND};

	(void)state;
	assert_false(wants_a_round());
	for (int i = 0; i < 100; i++)
		assert_int_equal(feed__send(other, &ask, -1), 0);
	assert_true(wants_a_round());
	assert_true(wants_a_round()); /* one call does not read all messages */
	assert_false(wants_a_round());
	assert_true(server.feed >= 0);
	assert_int_equal(feed__send(other, &round, -1), 0);
	assert_false(wants_a_round());
	assert_int_equal(server.feed, -1);
}

static void a_server_may_wish_so_much(void **state)
{
	const enum feed_kind kinds[] = {FEED_DEACTIVATE, FEED_ACTIVATE, FEED_FAVOUR};

	(void)state;
	wishes = (struct server_wishes){};
	for (int i = 0; i < SERVER_WISHES + 2; i++) {
		const struct feed_message wish = {.kind = kinds[i % 3], .pid = i - 1};

		assert_int_equal(feed__send(other, &wish, -1), 0);
	}
	server__listen_to(&server, &wishes);
	assert_int_equal(wishes.n, SERVER_WISHES);
	for (int i = 0; i < SERVER_WISHES; i++) {
		assert_int_equal(wishes.of[i].pid, i - 1); /* any pid is accepted here */
		assert_int_equal(wishes.of[i].kind, kinds[i % 3]);
	}
	server__listen_to(&server, &wishes); /* wishes is full, so nothing is added */
	assert_int_equal(wishes.n, SERVER_WISHES);
	wishes.n = 0;
	server__listen_to(&server, &wishes);
	assert_int_equal(wishes.n, 2);
	assert_int_equal(wishes.of[1].pid, SERVER_WISHES);
	assert_false(wishes.round);
	assert_true(server.feed >= 0);
}

static void who_is_left_alone_is_said(void **state)
{
	struct feed_message message;
	int memory;

	(void)state;
	assert_int_equal(server__send_inactive(&server, 42, "<b>: there is no process"), 0);
	assert_int_equal(feed__receive(other, &message, &memory), 1);
	assert_int_equal(message.kind, FEED_INACTIVE);
	assert_int_equal(message.pid, 42);
	assert_string_equal(message.why, "<b>: there is no process");
}

static void a_server_that_does_not_read_is_given_up(void **state)
{
	(void)state;
	server.progress_s -= 1000;
	server__listen_to(&server, &wishes);
	assert_true(server.feed >= 0); /* the server had nothing to read */
	send_profile();
	send_profile();
	server__listen_to(&server, &wishes);
	server.progress_s -= 1000;
	{
		struct feed_message message;
		int memory;

		assert_int_equal(feed__receive(other, &message, &memory), 1);
		close(memory);
	}
	server__listen_to(&server, &wishes);
	assert_true(server.feed >= 0); /* the server has read one of two messages */
	server.progress_s -= 1000;
	server__listen_to(&server, &wishes);
	assert_int_equal(server.feed, -1);
}

static void a_server_that_is_gone_is_noticed(void **state)
{
	(void)state;
	close(other);
	other = -1;
	send_profile();
	assert_int_equal(server.feed, -1);
	assert_int_equal(server.n_dropped, 1);
	send_profile(); /* there is no server */
	assert_int_equal(server.n_dropped, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(what_is_not_read_is_bounded),
		TEST(who_is_a_little_behind_loses_nothing),
		TEST(what_waits_for_room_is_bounded),
		TEST(a_profile_that_holds_is_said),
		TEST(a_large_round_waits_for_room),
		TEST(lost_profiles_end_nobody),
		TEST(few_descriptors_wait),
		TEST(a_server_may_ask_and_nothing_else),
		TEST(a_server_may_wish_so_much),
		TEST(who_is_left_alone_is_said),
		TEST(a_server_that_does_not_read_is_given_up),
		TEST(a_server_that_is_gone_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
