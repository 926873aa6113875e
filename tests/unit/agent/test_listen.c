// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/listen.h"

static char place[64], path[128], text[160];
static struct error err;

static int begin(void **state)
{
	(void)state;
	strcpy(place, "/tmp/memtrace-listen-XXXXXX");
	if (!mkdtemp(place))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", place);
	snprintf(text, sizeof(text), "unix:%s", path);
	memset(&err, 0, sizeof(err));
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(place);
}

static void addresses(void **state)
{
	static const char *const own[] = {"127.0.0.1:0", "127.1.2.3:0", "[::1]:1",
					  "localhost:0", ":0",		"0"};
	static const char *const others[] = {"0.0.0.0:0", "[::]:0", "10.0.0.1:0",
					     "[::ffff:10.0.0.1]:0"};
	static const char *const wrong[] = {"",
					    "127.0.0.1",
					    "127.0.0.1:",
					    "127.0.0.1:-1",
					    "127.0.0.1:65536",
					    "127.0.0.1:1x",
					    "example.org:1",
					    "[127.0.0.1:1",
					    ":",
					    "[]:1",
					    "127.0.0.1:000000",
					    "unix:",
					    "unix:x",
					    "unix:/",
					    "unix:/x/"};
	struct listen_address address;
	char large[PATH_MAX + 16];

	(void)state;
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		assert_int_equal(listen_address__parse(own[i], &address, &err), 0);
		assert_false(address.is_for_other_hosts || address.path);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_equal(listen_address__parse(others[i], &address, &err), 0);
		assert_true(address.is_for_other_hosts);
	}
	assert_int_equal(listen_address__parse("unix:/x:1", &address, &err), 0);
	assert_string_equal(address.path, "/x:1");
	assert_false(address.is_for_other_hosts);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		memset(&err, 0, sizeof(err));
		assert_int_equal(listen_address__parse(wrong[i], &address, &err), -EINVAL);
		assert_true(*err.text);
	}
	memset(large, '1', sizeof(large));
	strcpy(large + sizeof(large) - 3, ":1");
	assert_int_equal(listen_address__parse(large, &address, &err), -EINVAL);
	memcpy(large, "unix:/", 6);
	assert_int_equal(listen_address__parse(large, &address, &err), -EINVAL);
}

static bool is_there(void)
{
	struct stat st;

	return !lstat(path, &st);
}

static void a_socket_is_for_owner_and_group_and_goes(void **state)
{
	const mode_t before = umask(0077);
	struct listener l;
	struct stat st;

	(void)state;
	assert_int_equal(listener__open(text, &l, &err), 0);
	assert_int_equal(umask(before), 0077);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0660);
	listener__close(&l);
	assert_false(is_there());
}

static void one_without_a_listener_is_replaced(void **state)
{
	struct listener l, other;

	(void)state;
	assert_int_equal(listener__open(text, &l, &err), 0);
	close(l.fd); /* the socket stays, as after a kill of the listener */
	assert_int_equal(listener__open(text, &other, &err), 0);
	assert_int_equal(listener__open(text, &l, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, path));
	/* the earlier listener must not remove a socket that a later one has made */
	unlink(path);
	assert_int_equal(listener__open(text, &l, &err), 0);
	listener__close(&other);
	assert_true(is_there());
	listener__close(&l);
	assert_false(is_there());
}

static void what_is_no_socket_stays(void **state)
{
	struct listener l;
	FILE *file = fopen(path, "w");

	(void)state;
	fclose(file);
	assert_int_equal(listener__open(text, &l, &err), -EEXIST);
	assert_true(is_there());
	unlink(path);
	memset(&err, 0, sizeof(err));
	assert_int_equal(symlink("/dev/log", path), 0);
	assert_int_equal(listener__open(text, &l, &err), -EEXIST);
	assert_true(is_there());
	memset(&err, 0, sizeof(err));
	assert_int_equal(listener__open("unix:/nowhere/at/all", &l, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nowhere/at/"));
}

static void names_that_are_too_long(void **state)
{
	char large[400];
	struct listener l;

	(void)state;
	/* only the last part of a path has to be short */
	snprintf(large, sizeof(large), "unix:%s/%0*d", place, 100, 1);
	assert_int_equal(listener__open(large, &l, &err), -ENAMETOOLONG);
	snprintf(large, sizeof(large), "unix:%s/%0*d/socket", place, 200, 1);
	for (char *c = strstr(large, "/0"); c < large + strlen(large) - strlen("/socket"); c += 2)
		memcpy(c, "/.", 2);
	memset(&err, 0, sizeof(err));
	assert_int_equal(listener__open(large, &l, &err), 0);
	listener__close(&l);
}

/* A trial tells whether a new listener could listen on an address after the present one has
 * ended. */
static void an_address_of_the_predecessor_is_free(void **state)
{
	const char *held[] = {text, NULL};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	char tcp[32], other[32];
	struct listener l;
	int fd;

	(void)state;
	assert_int_equal(listener__try(text, NULL, 0, &err), 0);
	assert_false(is_there());
	assert_int_equal(listener__open(text, &l, &err), 0);
	assert_int_equal(listener__try(text, held, 1, &err), 0);
	assert_int_equal(err.code, 0);
	assert_true(is_there());
	assert_int_equal(listener__try(text, NULL, 0, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, path));
	listener__close(&l);
	err = (struct error){};
	assert_int_equal(listener__try("unix:/nowhere/at/all", held, 1, &err), -ENOENT);

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	snprintf(tcp, sizeof(tcp), "127.0.0.1:%u", ntohs(address.sin_port));
	snprintf(other, sizeof(other), "0.0.0.0:%u", ntohs(address.sin_port));
	err = (struct error){};
	assert_int_equal(listener__try(tcp, held, 1, &err), -EADDRINUSE);
	held[1] = tcp;
	err = (struct error){};
	assert_int_equal(listener__try(tcp, held, 2, &err), 0);
	assert_int_equal(listener__try(other, held, 2, &err),
			 0); /* `other` is the same port on all addresses */
	assert_int_equal(listener__try("192.0.2.1:1", held, 2, &err), -EADDRNOTAVAIL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(addresses),
		TEST(a_socket_is_for_owner_and_group_and_goes),
		TEST(one_without_a_listener_is_replaced),
		TEST(what_is_no_socket_stays),
		TEST(names_that_are_too_long),
		TEST(an_address_of_the_predecessor_is_free),
	};

	return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
