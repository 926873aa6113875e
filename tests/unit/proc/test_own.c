// SPDX-License-Identifier: BSD-2-Clause
/* Compares the figures that are reported about this process with what it did. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/own.h"
#include "tests/unit/proc/children.h"

#define MIB 1048576

static void burn(uint64_t ns)
{
	while (clock__now_ns(CLOCK_PROCESS_CPUTIME_ID) < ns)
		;
}

/* The reported CPU time must equal the time of this process's own clock, within 10 us, because
 * getrusage() counts in microseconds. A child's time is added when the child ends. */
static void cpu_time_is_ours_and_our_childrens(void **state)
{
	/* more CPU time than this process has used, so that the two cannot be confused */
	const uint64_t child_ns = 30000000;
	uint64_t before, own, after, told;
	struct rusage usage;
	pid_t child;

	(void)state;
	told = own__cpu_ns();
	before = clock__now_ns(CLOCK_PROCESS_CPUTIME_ID);
	burn(before + 5000000);
	assert_true(own__cpu_ns() + 10000 >= told + 5000000);

	child = fork();
	assert_true(child >= 0);
	if (!child) {
		burn(child_ns);
		_exit(0);
	}
	assert_int_equal(wait4(child, NULL, 0, &usage), child);
	assert_true(own__usage_ns(&usage) + 10000 >= child_ns);
	own = clock__now_ns(CLOCK_PROCESS_CPUTIME_ID);
	after = own__cpu_ns();
	assert_true(after + 10000 >= own + child_ns);
}

/* Runs in a child. The child's peak begins at the memory that the child has after fork(), not at
 * the parent's peak. */
static void peak_outlives_the_memory(void **state)
{
	const size_t size = 64 * MIB;
	int status;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		uint64_t before, after;
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);

		if (memory == MAP_FAILED || own__peak_bytes(&before))
			_exit(1);
		memset(memory, 1, size);
		munmap(memory, size);
		if (own__peak_bytes(&after))
			_exit(2);
		/* allows for other pages that were freed, and for counts that the kernel updates
		 * only in batches */
		_exit(after >= before + size - 4 * MIB && after <= before + size + 16 * MIB ? 0
											    : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int read_peak(void)
{
	uint64_t bytes = 0;

	return own__peak_bytes(&bytes) || bytes < 100 * 1024;
}

/* In /proc/PID/status, VmHWM comes after the line "Groups:". */
static void peak_is_found_behind_many_groups(void **state)
{
	(void)state;
	assert_with_many_groups(read_peak);
}

static int number_in(const char *text, uint64_t *ret)
{
	char path[] = "/tmp/memtrace-own-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	rc = own__number(path, "memlock", ret);
	unlink(path);
	return rc;
}

/* The text of Linux 6.18 about a map, and other texts that are possible. */
static void numbers_are_found_by_their_key(void **state)
{
	uint64_t n = 7;

	(void)state;
	assert_int_equal(number_in("pos:\t0\nflags:\t02000002\nmap_type:\t1\nmax_entries:\t5\n"
				   "memlock:\t16777984\nmap_id:\t12\n",
				   &n),
			 0);
	assert_int_equal(n, 16777984);
	assert_int_equal(number_in("memlock:   12 kB", &n), 0);
	assert_int_equal(n, 12);
	assert_int_equal(number_in("", &n), -ENODATA);
	assert_int_equal(number_in("\n\nmemlock", &n), -ENODATA);
	assert_int_equal(number_in("xmemlock:\t1\nmemlocked:\t2\n", &n), -ENODATA);
	assert_int_equal(number_in("memlock:\t\nmap_id:\t3\n", &n), -EINVAL);
	assert_int_equal(number_in("memlock:\t-3\n", &n), -EINVAL);
	assert_int_equal(n, 12);
	assert_int_equal(own__number("/no/such/file", "memlock", &n), -ENOENT);
}

static void other_descriptors_have_no_memory(void **state)
{
	uint64_t n;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(own__fd_bytes(fds[0], &n), -ENODATA);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(own__fd_bytes(fds[0], &n), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_time_is_ours_and_our_childrens),
		cmocka_unit_test(peak_outlives_the_memory),
		cmocka_unit_test(peak_is_found_behind_many_groups),
		cmocka_unit_test(numbers_are_found_by_their_key),
		cmocka_unit_test(other_descriptors_have_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
