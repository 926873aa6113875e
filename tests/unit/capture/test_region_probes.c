// SPDX-License-Identifier: BSD-2-Clause
/* What is left of the probes on mmap and similar functions when the helper that places them is
 * killed. The linker replaces the function that starts the helper. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/internal.h"
#include "capture/shield.h"

static struct capture capture;
static int pipe_fds[2];
static unsigned n_helpers;

/* The first helper is killed when it has placed one probe, whose descriptor is a pipe's. */
int __wrap_shield__run(int (*fn)(void *arg), void *arg);
int __wrap_shield__run(int (*fn)(void *arg), void *arg)
{
	if (n_helpers++)
		return fn(arg);
	assert_int_equal(links__keep(&capture, pipe_fds[1], getpid(), 0), 0);
	return -EINTR;
}

static void half_of_the_probes_is_none(void **state)
{
	struct region_source source = {.path = (char *)"libc.so.6", .fd = -1};
	struct pollfd end;
	struct error err = {};

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(keeper__new(false, &capture.keeper), 0);
	assert_int_equal(capture__attach_regions(&capture, &source, getpid(), &err), -EINTR);
	assert_int_equal(capture.n_links, 0);
	end = (struct pollfd){.fd = pipe_fds[0], .events = POLLIN};
	assert_int_equal(poll(&end, 1, 0), 1);
	assert_true(end.revents & POLLHUP);
	keeper__free(capture.keeper);
	close(pipe_fds[0]);
	free(capture.links);
	free(capture.closing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_the_probes_is_none),
	};

	return cmocka_run_group_tests_name("region_probes", tests, NULL, NULL);
}
