// SPDX-License-Identifier: BSD-2-Clause
/* Reads memory of another process. A read hangs at some pages of that process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/far.h"
#include "proc/memory.h"

#define PAGE 4096

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Three pages: one mapped, one not mapped, and one whose readers wait (userfaultfd) until go is
 * closed. */
static char *pages;

static pid_t start_child(int go[2])
{
	char byte = 0;
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	memset(pages, 'x', PAGE);
	assert_int_equal(munmap(pages + PAGE, PAGE), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct uffdio_api api = {.api = UFFD_API};
		struct uffdio_register range = {
			.range = {(uintptr_t)pages + 2 * PAGE, PAGE},
			.mode = UFFDIO_REGISTER_MODE_MISSING,
		};
		int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		close(go[1]);
		byte = fd >= 0 && !ioctl(fd, UFFDIO_API, &api) &&
		       !ioctl(fd, UFFDIO_REGISTER, &range);
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) < 0)
			_exit(1);
		close(fd); /* gives the page to readers that wait */
		pause();
		_exit(0);
	}
	close(go[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	if (!byte && geteuid()) { /* root may always read the child */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		print_message("userfaultfd takes root, or vm.unprivileged_userfaultfd\n");
		skip();
	}
	assert_int_equal(byte, 1);
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	munmap(pages, 3 * PAGE);
}

static void what_is_there_is_read(void **state)
{
	int go[2];
	pid_t pid = start_child(go);
	char a[4] = "", b[4] = "", c[4] = "";
	struct memory_read reads[] = {
		{(uintptr_t)pages + 1, a, 3, false},
		{(uintptr_t)pages + PAGE - 2, b, 3, false}, /* ends in the unmapped page */
		{(uintptr_t)pages + 100, c, 3, false},
	};

	(void)state;
	assert_int_equal(memory__read_all(pid, reads, 3), 0);
	assert_true(reads[0].ok && !reads[1].ok && reads[2].ok);
	assert_string_equal(a, "xxx");
	assert_string_equal(c, "xxx");
	assert_int_equal(memory__read(pid, (uintptr_t)pages, a, 2), 0);
	assert_int_equal(memory__read(pid, (uintptr_t)pages + PAGE, a, 2), -EFAULT);
	assert_int_equal(memory__given_up(), 0);
	close(go[1]);
	end_child(pid);
	assert_int_equal(memory__read(pid, (uintptr_t)pages, a, 2), -ESRCH);
}

static void what_never_comes_is_given_up(void **state)
{
	int go[2], other_go[2];
	pid_t pid = start_child(go), other;
	uint64_t stuck = (uintptr_t)pages + 2 * PAGE, fine = (uintptr_t)pages;
	uint64_t before = memory__given_up();
	double began = seconds();
	char to[2] = "";

	(void)state;
	assert_int_equal(memory__read(pid, stuck, to, 1), -ETIMEDOUT);
	assert_true(seconds() - began < 1);
	assert_int_equal(memory__given_up(), before + 1);
	/* this process is not read again, but other processes are */
	assert_int_equal(memory__read(pid, fine, to, 1), -ETIMEDOUT);
	assert_int_equal(memory__given_up(), before + 1);
	other = start_child(other_go);
	assert_int_equal(memory__read(other, (uintptr_t)pages, to, 1), 0);
	close(other_go[1]);
	end_child(other);
	close(go[1]); /* now the page is provided, and reads work again */
	began = seconds();
	while (memory__read(pid, fine, to, 1) == -ETIMEDOUT && seconds() - began < 10)
		usleep(1000);
	assert_int_equal(memory__read(pid, fine, to, 1), 0);
	assert_int_equal(to[0], 'x');
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Each read waits for the longest time that a read may wait. All these waits together may take at
 * most a quarter of the time. */
static void the_late_get_a_quarter_of_the_time(void **state)
{
	int rc, n = 0;
	double began = seconds();

	(void)state;
	while (seconds() - began < 3) {
		int go[2];
		pid_t pid = start_child(go);
		char to[2] = "";

		rc = memory__read(pid, (uintptr_t)pages + 2 * PAGE, to, 1);
		assert_true(rc == -ETIMEDOUT || rc == -EBUSY);
		n += rc == -ETIMEDOUT;
		close(go[1]);
		end_child(pid);
		usleep(10000);
	}
	assert_in_range(n, 4, 20); /* reads of 50 ms: 200 ms of credit, and 750 ms in 3 s */
}

static void too_many_are_left_behind(void **state)
{
	pid_t pids[FAR_MAX_LEFT];
	int go[FAR_MAX_LEFT][2];
	char to[2] = "";

	(void)state;
	for (int i = 0; i < FAR_MAX_LEFT; i++) {
		int rc;

		pids[i] = start_child(go[i]);
		/* -EBUSY: earlier waits have used up their quarter of the time */
		while ((rc = memory__read(pids[i], (uintptr_t)pages + 2 * PAGE, to, 1)) == -EBUSY)
			usleep(10000);
		assert_int_equal(rc, -ETIMEDOUT);
	}
	usleep(2000000);
	assert_int_equal(memory__read(getpid(), (uintptr_t)to, to, 1), -EBUSY);
	for (int i = 0; i < FAR_MAX_LEFT; i++) { /* a reader ends with the process that it reads */
		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		close(go[i][1]);
	}
	for (int i = 0; i < 10000 && memory__read(getpid(), (uintptr_t)to, to, 1); i++)
		usleep(1000);
	assert_int_equal(memory__read(getpid(), (uintptr_t)to, to, 1), 0);
}

/* A helper process does the reads. On some machines only its parent may read a process. */
static int begin(void **state)
{
	(void)state;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	far__hurry(true);
	return far__begin(~0ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_is_read),
		cmocka_unit_test(what_never_comes_is_given_up),
		cmocka_unit_test(the_late_get_a_quarter_of_the_time),
		cmocka_unit_test(too_many_are_left_behind),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
