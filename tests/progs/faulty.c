// SPDX-License-Identifier: BSD-2-Clause
/* A library to preload. A program makes system calls for BPF and probes, and the library lets one
 * of these calls fail.
 *
 * FAULT_AT is the number of the call that fails, counted from 1 over the program and its children;
 * 0: no call fails. FAULT_ERRNO is the error of this call. Each counted call is a line in the file
 * FAULT_LOG: its number and its name. Calls that make, place or remove something are counted. Calls
 * that read or write maps are not counted, because their number differs from run to run. */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	unsigned n, at;
	int error, log_fd;
} * fault;

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERRNO"),
		   *log = getenv("FAULT_LOG");

	unsetenv("LD_PRELOAD"); /* programs that this program starts get no faults */
	fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (fault == MAP_FAILED || !at)
		abort();
	fault->at = (unsigned)atoi(at);
	fault->error = error ? atoi(error) : ENOMEM;
	fault->log_fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
}

static const char *name_of(long nr, long command)
{
	static const char *const names[] = {
		[BPF_MAP_CREATE] = "map_create",
		[BPF_PROG_LOAD] = "prog_load",
		[BPF_BTF_LOAD] = "btf_load",
		[BPF_LINK_CREATE] = "link_create",
		[BPF_LINK_DETACH] = "link_detach",
		[BPF_ITER_CREATE] = "iter_create",
		[BPF_MAP_FREEZE] = "map_freeze",
		[BPF_PROG_TEST_RUN] = "prog_test_run",
		[BPF_RAW_TRACEPOINT_OPEN] = "raw_tracepoint_open",
	};

	if (nr == SYS_perf_event_open)
		return "perf_event_open";
	if (nr != SYS_bpf || command < 0 || (size_t)command >= sizeof(names) / sizeof(*names))
		return NULL;
	return names[command];
}

static int is_meant(long nr, long command)
{
	const char *name = fault ? name_of(nr, command) : NULL;
	char line[64];
	unsigned n;

	if (!name)
		return 0;
	n = __atomic_add_fetch(&fault->n, 1, __ATOMIC_SEQ_CST);
	snprintf(line, sizeof(line), "%u %s\n", n, name);
	if (fault->log_fd >= 0 && write(fault->log_fd, line, strlen(line)) < 0)
		fault->log_fd = -1;
	return n == fault->at;
}

long syscall(long nr, ...)
{
	long a[6], ret;
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (is_meant(nr, a[0])) {
		ret = -fault->error;
	} else {
		register long r10 __asm__("r10") = a[3];
		register long r8 __asm__("r8") = a[4];
		register long r9 __asm__("r9") = a[5];

		__asm__ volatile("syscall"
				 : "=a"(ret)
				 : "0"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8),
				   "r"(r9)
				 : "rcx", "r11", "memory");
	}
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}
