// SPDX-License-Identifier: BSD-2-Clause
/* Work in a helper process, which is left behind if it hangs. In these tests, the helper hangs when
 * it opens a FIFO. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/far.h"

static char fifo[] = "/tmp/memtrace-unit-XXXXXX/fifo";

static int tell_pid(int fd, const void *in, void *out)
{
	pid_t pid = getpid();

	(void)fd, (void)in;
	memcpy(out, &pid, sizeof(pid));
	return FAR_NO_FD;
}

/* Opens the file whose name is at `in`, and reads its first byte. */
static int open_it(int fd, const void *in, void *out)
{
	int opened = open(in, O_RDONLY | O_CLOEXEC);

	(void)fd;
	if (opened < 0)
		return -errno;
	if (read(opened, out, 1) != 1)
		*(char *)out = '?';
	return opened;
}

/* Reads the first byte of fd itself. */
static int read_it(int fd, const void *in, void *out)
{
	(void)in;
	return read(fd, out, 1) == 1 ? FAR_NO_FD : -EIO;
}

static int count_open(int fd, const void *in, void *out)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3; /* ".", "..", and the descriptor of dir do not count */

	(void)fd, (void)in;
	while (readdir(dir))
		n++;
	closedir(dir);
	memcpy(out, &n, sizeof(n));
	return FAR_NO_FD;
}

static pid_t far_pid(void)
{
	pid_t pid = 0;

	assert_int_equal(
		far__do(&(struct far_work){
			.fn = tell_pid, .key = 1, .fd = -1, .out = &pid, .out_bytes = sizeof(pid)}),
		FAR_NO_FD);
	return pid;
}

static int open_far(const char *path, uint64_t key, char *ret)
{
	return far__do(&(struct far_work){.fn = open_it,
					  .key = key,
					  .fd = -1,
					  .in = path,
					  .in_bytes = strlen(path) + 1,
					  .out = ret,
					  .out_bytes = 1});
}

static double seconds(void)
{
	return clock__monotonic_s();
}

static void test_there(void **state)
{
	pid_t first;
	char byte = 0;
	int fd, n = 0;

	(void)state;
	first = far_pid();
	assert_int_not_equal(first, getpid());
	assert_int_equal(far_pid(), first);
	fd = open_far("/proc/self/comm", 1, &byte);
	assert_true(fd >= 0);
	assert_int_equal(byte, 'm'); /* "mt-files": the helper's name */
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	byte = 'x';
	assert_int_equal(open_far("/nowhere", 1, &byte), -ENOENT);
	assert_int_equal(byte, 'x');
	fd = open("/dev/zero", O_RDONLY);
	assert_int_equal(far__do(&(struct far_work){
				 .fn = read_it, .key = 1, .fd = fd, .out = &byte, .out_bytes = 1}),
			 FAR_NO_FD);
	assert_int_equal(byte, 0);
	close(fd);
	/* the helper has only two sockets and three descriptors of /dev/null, but no output and no
	 * probe of this process */
	assert_int_equal(
		far__do(&(struct far_work){
			.fn = count_open, .key = 1, .fd = -1, .out = &n, .out_bytes = sizeof(n)}),
		FAR_NO_FD);
	assert_in_range(n, 4, 5);
}

static void test_killed(void **state)
{
	pid_t first = far_pid();
	char byte;

	(void)state;
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_int_equal(open_far("/dev/zero", 1, &byte), -EPIPE);
	assert_int_not_equal(far_pid(), first);
}

static void test_left_behind(void **state)
{
	uint64_t before = far__given_up();
	pid_t first = far_pid();
	double began = seconds();
	char byte = 0;
	int to, fd;

	(void)state;
	far__hurry(true);
	assert_int_equal(open_far(fifo, 7, &byte), -ETIMEDOUT);
	assert_true(seconds() - began >= FAR_HURRIED_MS / 1e3 - 0.01);
	assert_int_equal(far__given_up(), before + 1);
	/* while a helper hangs, work with its key is refused, but work with another key is done */
	assert_int_equal(open_far(fifo, 7, &byte), -ETIMEDOUT);
	assert_int_equal(open_far("/dev/zero", 7, &byte), -ETIMEDOUT);
	assert_int_equal(far__given_up(), before + 1);
	assert_int_not_equal(far_pid(), first);
	/* a late answer goes to the next caller with the same question */
	to = open(fifo, O_WRONLY);
	assert_true(to >= 0);
	assert_int_equal(write(to, "a", 1), 1);
	began = seconds();
	do {
		fd = open_far(fifo, 7, &byte);
		usleep(1000);
	} while (fd == -ETIMEDOUT && seconds() - began < 10);
	assert_true(fd >= 0);
	assert_int_equal(byte, 'a');
	close(fd);
	close(to);
	fd = open_far("/dev/zero", 7, &byte);
	assert_true(fd >= 0);
	close(fd);
	far__hurry(false);
}

/* Targets that always answer slowly get only a share of the time. */
static void test_too_many(void **state)
{
	double began;
	char byte;
	int busy = 0;

	(void)state;
	far__hurry(true);
	began = seconds();
	for (uint64_t i = 0; i < 40; i++)
		busy += open_far(fifo, 100 + i, &byte) == -EBUSY;
	assert_true(busy > 20);
	assert_true(seconds() - began < 20 * FAR_HURRIED_MS / 1e3);
	far__hurry(false);
}

static void test_copy(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	(void)state;
	assert_int_equal(far__keep(fd), fd); /* no copy is made, because the file is not on FUSE */
	assert_false(far__is_copy(fd));
	close(fd);
	fd = memfd_create("test", MFD_ALLOW_SEALING);
	assert_false(far__is_copy(fd));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_true(far__is_copy(fd));
	close(fd);
}

static int begin(void **state)
{
	char *end = strrchr(fifo, '/');
	pid_t own = far_pid(); /* far__begin() was not called yet */

	(void)state;
	if (own != getpid())
		return -1;
	*end = '\0';
	if (!mkdtemp(fifo))
		return -1;
	*end = '/';
	return mkfifo(fifo, 0600) || far__begin(0);
}

static int finish(void **state)
{
	char *end = strrchr(fifo, '/');
	int to;

	(void)state;
	/* a helper may still wait to open the FIFO: opening both ends lets it finish */
	to = open(fifo, O_RDWR | O_NONBLOCK);
	usleep(50000);
	close(to);
	unlink(fifo);
	*end = '\0';
	return rmdir(fifo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there),	    cmocka_unit_test(test_killed),
		cmocka_unit_test(test_left_behind), cmocka_unit_test(test_copy),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, begin, finish);
}
