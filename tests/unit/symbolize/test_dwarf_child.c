// SPDX-License-Identifier: BSD-2-Clause
/* The sandboxed child. /proc shows which rights it still has. Its parent trusts no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/child.h"

#include "dwarf_fixture.h"

/* --- what the child may do --- */

/* Resolves one address. The child calls in_child(). */
static int run_in_child(void (*in_child)(void), double patience_s, struct dwarf_frames *ret)
{
	uint64_t vaddr = 0x401000;
	size_t fds = count_fds();
	struct dwarf_frames frames;
	int err;

	dwarf__test_hooks.in_child = in_child;
	err = resolve_for("program", &vaddr, 1, patience_s, &frames);
	dwarf__test_hooks.in_child = NULL;
	assert_no_child();
	assert_int_equal(count_fds(), fds);
	if (ret)
		*ret = frames;
	else
		dwarf_frames__free(&frames, 1);
	return err;
}

static void child_tries_calls(void)
{
	struct sockaddr address = {.sa_family = AF_UNIX};
	char byte = 0;

	CHILD_ASSERT(refused(syscall(SYS_open, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0)));
	CHILD_ASSERT(refused(syscall(SYS_connect, 3, &address, sizeof(address))));
	CHILD_ASSERT(refused(syscall(SYS_kill, getppid(), 0)));
	CHILD_ASSERT(refused(syscall(SYS_ptrace, 0, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_clone3, NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_fork)));
	CHILD_ASSERT(refused(syscall(SYS_execve, "/bin/true", NULL, NULL)));
	CHILD_ASSERT(refused(syscall(SYS_bpf, 0, NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_setresuid, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_ioctl, 3, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_fcntl, 3, F_DUPFD, 0)));
	CHILD_ASSERT(refused(syscall(SYS_dup, 3)));
	CHILD_ASSERT(refused(syscall(SYS_ftruncate, 3, 0)));
	CHILD_ASSERT(refused(syscall(SYS_write, 1, &byte, 1)));
	CHILD_ASSERT(refused(syscall(SYS_write, 3, &byte, 1)));
	CHILD_ASSERT(refused(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	CHILD_ASSERT(refused(syscall(SYS_mprotect, (uintptr_t)&child_tries_calls & ~4095ul, 4096,
				     PROT_READ | PROT_WRITE | PROT_EXEC)));
	CHILD_ASSERT(refused(syscall(0x40000000 | SYS_openat, AT_FDCWD, "/etc/passwd", 0)));
	CHILD_ASSERT(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		     -1);
}

/* The filter allows no system calls of i386, whose numbers are different. */
static void child_calls_i386(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20) : "memory");
	_exit(0);
}

static void child_looks_at_fds(void)
{
	struct stat st, null;

	CHILD_ASSERT(!fstat(0, &null) && S_ISCHR(null.st_mode));
	CHILD_ASSERT(!fstat(1, &st) && st.st_rdev == null.st_rdev);
	CHILD_ASSERT(!fstat(2, &st) && st.st_rdev == null.st_rdev);
	CHILD_ASSERT(!fstat(3, &st) && S_ISREG(st.st_mode));
	CHILD_ASSERT(!fstat(CHILD_OUT_FD, &st) && S_ISFIFO(st.st_mode));
	for (int fd = CHILD_OUT_FD + 1; fd < 4096; fd++)
		CHILD_ASSERT(fstat(fd, &st) && errno == EBADF);
}

static int *shared;

static void child_writes_shared(void)
{
	*shared = 1;
}

static void child_fails(void)
{
	_exit(100);
}

static void child_crashes(void)
{
	raise(SIGSEGV); /* refused */
	__builtin_trap();
}

static void test_child_is_confined(void **state)
{
	struct dwarf_frames frames;
	int fds[64];

	(void)state;
	assert_int_equal(run_in_child(child_tries_calls, PATIENCE_S, NULL), 0);
	assert_int_equal(run_in_child(child_calls_i386, PATIENCE_S, NULL), -ECHILD);
	/* a failed check is noticed */
	assert_int_equal(run_in_child(child_fails, PATIENCE_S, NULL), -ECHILD);
	assert_int_equal(run_in_child(child_crashes, PATIENCE_S, &frames), -ECHILD);
	assert_int_equal(frames.n, 0);

	for (int i = 0; i < 64; i++)
		fds[i] = open("/dev/zero", i % 2 ? O_RDWR : O_RDONLY | O_CLOEXEC);
	assert_true(fds[63] > 0);
	assert_int_equal(run_in_child(child_looks_at_fds, PATIENCE_S, NULL), 0);
	for (int i = 0; i < 64; i++)
		close(fds[i]);

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(run_in_child(child_writes_shared, PATIENCE_S, NULL), -ECHILD);
	assert_int_equal(*shared, 0);
	munmap(shared, 4096);
}

/* The parent's descriptors may have any number, also one that the child uses for its own. */
static void test_low_descriptors(void **state)
{
	(void)state;
	for (int victim = 0; victim < 8; victim++) {
		int saved = fcntl(victim, F_DUPFD_CLOEXEC, 100), status = 0;
		pid_t pid = fork();

		if (!pid) {
			uint64_t vaddr = 0x401000;
			struct dwarf_frames frames;
			int fd;

			for (int low = 0; low < 8; low++)
				if (low <= victim)
					close(low);
			fd = open_fixture("program"); /* now the lowest, 0 */
			dwarf__test_hooks.in_child = child_looks_at_fds;
			_exit(dwarf__resolve(fd, &vaddr, 1, PATIENCE_S, NULL, &frames) != 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		if (saved >= 0)
			close(saved);
	}
}

/* --- a child that is held --- */

static void test_child_is_nobody(void **state)
{
	static struct watch watch;
	const struct stream_waiting waiting = {watch_child, &watch};
	uint64_t vaddr = 0x401000;
	struct dwarf_frames frames;
	int fd = open_fixture("program");

	(void)state;
	dwarf__test_hooks.in_child = child_waits;
	assert_int_equal(dwarf__resolve(fd, &vaddr, 1, PATIENCE_S, &waiting, &frames), -ECHILD);
	dwarf__test_hooks.in_child = NULL;
	close(fd);
	assert_nobody(&watch, 5);
}

static void test_deadline(void **state)
{
	double begin_s = now_s();

	(void)state;
	assert_int_equal(run_in_child(child_waits, 0.3, NULL), -ETIMEDOUT);
	assert_true(now_s() - begin_s >= 0.3);
	assert_true(now_s() - begin_s < 10);
	assert_int_equal(run_in_child(NULL, 0, NULL), -ETIMEDOUT);
	assert_int_equal(run_in_child(NULL, -1, NULL), -ETIMEDOUT);
	assert_int_equal(run_in_child(NULL, 1e300, NULL), 0);
}

static void child_spins(void)
{
	for (;;)
		__asm__ volatile("");
}

static void test_cpu_limit(void **state)
{
	(void)state;
	/* With a patience of 0.9 s, the child's limit is one second of CPU time. */
	assert_int_equal(run_in_child(child_spins, 0.9, NULL), -ETIMEDOUT);
}

/* When the parent dies, the child dies, too. */
static void test_parent_dies(void **state)
{
	double end_s = now_s() + 20;
	pid_t parent, child = 0;

	(void)state;
	parent = fork();
	if (!parent) {
		uint64_t vaddr = 0x401000;
		struct dwarf_frames frames;

		dwarf__test_hooks.in_child = child_waits;
		dwarf__resolve(open_fixture("program"), &vaddr, 1, PATIENCE_S, NULL, &frames);
		_exit(0);
	}
	while (!child && now_s() < end_s) {
		char status[8192];

		child = child_of(parent);
		if (child && (!slurp(child, "status", status, sizeof(status)) ||
			      !strstr(status, "Seccomp:\t2")))
			child = 0;
		poll(NULL, 0, 10);
	}
	assert_true(child > 0);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	while (now_s() < end_s) {
		char status[8192];

		if (!slurp(child, "status", status, sizeof(status)) || strstr(status, "State:\tZ"))
			return;
		poll(NULL, 0, 10);
	}
	kill(child, SIGKILL);
	fail_msg("the child outlives its parent");
}

/* Signals pending for the parent do not reach the child. The parent's mask does not change. */
static void test_signals(void **state)
{
	sigset_t before, after, pending;

	(void)state;
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	sigprocmask(SIG_BLOCK, &before, NULL);
	raise(SIGUSR2);
	assert_int_equal(run_in_child(NULL, PATIENCE_S, NULL), 0);
	sigprocmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&after, SIGUSR2));
	assert_false(sigismember(&after, SIGINT));
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGUSR2));
	signal(SIGUSR2, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &before, NULL);
	signal(SIGUSR2, SIG_DFL);
}

/* --- a child that lies --- */

static const void *lie;
static size_t lie_len;

static void child_lies(void)
{
	CHILD_ASSERT(write(CHILD_OUT_FD, lie, lie_len) == (ssize_t)lie_len);
	_exit(0);
}

static int run_lie(const void *data, size_t len, struct dwarf_frames *ret)
{
	lie = data;
	lie_len = len;
	return run_in_child(child_lies, PATIENCE_S, ret);
}

static void child_talks_forever(void)
{
	/* Writes zeros for ever. They are no valid records. */
	static uint32_t frame[65536];

	for (;;)
		CHILD_ASSERT(write(CHILD_OUT_FD, frame, sizeof(frame)) == sizeof(frame));
}

static void test_lies(void **state)
{
	static const struct {
		uint32_t words[8];
		size_t len;
	} lies[] = {
		{{1, 1, 7, UINT32_MAX, UINT32_MAX}, 20}, /* index beyond the addresses */
		{{UINT32_MAX, 1, 7, UINT32_MAX, UINT32_MAX}, 20},
		{{0, 0}, 8},  /* no frames */
		{{0, 65}, 8}, /* too many */
		{{0, UINT32_MAX}, 8},
		{{0, 1, 7, 4097, UINT32_MAX}, 20}, /* a name that is too long */
		{{0, 1, 7, UINT32_MAX - 1, UINT32_MAX}, 20},
		{{0, 1, 7, 4096, UINT32_MAX}, 20}, /* cut short */
		{{0, 2, 7, UINT32_MAX, UINT32_MAX}, 20},
		{{0, 1, 7}, 12},
		{{0}, 4},
	};
	static const uint32_t twice[] = {0, 1, 7, UINT32_MAX, UINT32_MAX,
					 0, 1, 8, UINT32_MAX, UINT32_MAX};
	struct {
		uint32_t words[5];
		char function[4], file[5];
	} __attribute__((packed)) dirty = {{0, 1, 9, 4, 5}, {'a', '\n', '\033', 'b'}, {0}};
	struct dwarf_frames frames;

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		assert_int_equal(run_lie(lies[i].words, lies[i].len, &frames), -ECHILD);
		assert_int_equal(frames.n, 0);
	}
	/* A valid record before the bad one is kept. */
	assert_int_equal(run_lie(twice, sizeof(twice), &frames), -ECHILD);
	assert_int_equal(frames.n, 1);
	assert_int_equal(frames.frames[0].line, 7);
	assert_null(frames.frames[0].function);
	dwarf_frames__free(&frames, 1);

	memcpy(dirty.file, "f\0g\xff", 5);
	assert_int_equal(run_lie(&dirty, sizeof(dirty), &frames), 0);
	assert_string_equal(frames.frames[0].function, "a??b");
	assert_string_equal(frames.frames[0].file, "f");
	dwarf_frames__free(&frames, 1);

	assert_int_equal(run_in_child(child_talks_forever, PATIENCE_S, NULL), -ECHILD);
}

/* A sealed child cannot sleep, so it spins. */
static void child_takes_its_time(void)
{
	double end_s = now_s() + 0.6;

	while (now_s() < end_s)
		;
}

static void count_call(void *ctx)
{
	++*(int *)ctx;
}

static void who_waits_is_called(void **state)
{
	int n = 0, fd = open_fixture("program");
	struct stream_waiting waiting = {count_call, &n};
	uint64_t vaddr = 1;
	struct dwarf_frames frames;

	(void)state;
	dwarf__test_hooks.in_child = child_takes_its_time;
	assert_int_equal(dwarf__resolve(fd, &vaddr, 1, PATIENCE_S, &waiting, &frames), 0);
	dwarf__test_hooks.in_child = NULL;
	assert_true(n >= 4);
	dwarf_frames__free(&frames, 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_is_called),
		cmocka_unit_test(test_child_is_confined),
		cmocka_unit_test(test_low_descriptors),
		cmocka_unit_test(test_child_is_nobody),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_cpu_limit),
		cmocka_unit_test(test_parent_dies),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
