// SPDX-License-Identifier: BSD-2-Clause
#include "proc/run_time.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"

void run_time__close(struct run_time *r)
{
	while (r->n > 0)
		close(r->fds[--r->n]);
	r->begin_ns = 0;
}

static int open_event(pid_t tid, bool disabled)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.size = sizeof(attr),
		.disabled = disabled,
		.inherit = !disabled,
		.inherit_thread = !disabled, /* Linux 5.13: no forked processes */
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* At the first event of any thread on the machine, the kernel changes the code that switches
 * between threads. It then waits until all CPUs have seen the change: 15 ms, or hundreds of ms
 * where many threads wait for a CPU. To wait for this only once, the function opens an event that
 * counts nothing, and keeps the event open as long as memtrace runs. */
static void hold_switch(void)
{
	static int held = -1;

	if (held < 0)
		held = open_event(0, true);
}

/* Opens an event for a thread. If the thread has ended, no event is needed, because the thread no
 * longer runs. */
static int add_thread(struct run_time *r, pid_t tid)
{
	int fd;

	if (r->n == RUN_TIME_THREADS)
		return -E2BIG;
	fd = open_event(tid, false);
	if (fd < 0)
		return fd == -ESRCH ? 0 : fd;
	r->fds[r->n++] = fd;
	return 0;
}

int run_time__open(struct run_time *r, pid_t pid)
{
	_cleanup_closedir_ DIR *threads = process__open_threads(pid);
	int rc = threads ? 0 : -errno;
	pid_t tid;

	run_time__close(r);
	hold_switch();
	while (!rc && (tid = process__next_thread(threads)))
		rc = add_thread(r, tid);
	if (!rc && !r->n)
		rc = -ESRCH;
	if (rc)
		run_time__close(r);
	return rc;
}

static int sum_up(const struct run_time *r, uint64_t *ret_ns)
{
	uint64_t ns;

	*ret_ns = 0;
	for (int i = 0; i < r->n; i++) {
		if (read(r->fds[i], &ns, sizeof(ns)) != sizeof(ns))
			return -EIO;
		*ret_ns += ns;
	}
	return 0;
}

void run_time__begin(struct run_time *r)
{
	if (r->n && (sum_up(r, &r->begin_ns) || !r->begin_ns))
		run_time__close(r); /* the events cannot be read, or no thread has run since they
				     * were opened */
}

bool run_time__runs(const struct run_time *r)
{
	return r->begin_ns;
}

int run_time__read(const struct run_time *r, uint64_t *ret_ns)
{
	uint64_t ns = 0;
	int rc = r->begin_ns ? sum_up(r, &ns) : -ENODATA;

	*ret_ns = rc ? 0 : ns - r->begin_ns;
	return rc;
}

int run_time__end(struct run_time *r, uint64_t *ret_ns)
{
	int rc = run_time__read(r, ret_ns);

	if (rc != -ENODATA)
		run_time__close(r);
	return rc;
}
