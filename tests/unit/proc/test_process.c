// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <unistd.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "proc/maps.h"
#include "proc/memory.h"
#include "proc/process.h"
#include "tests/unit/proc/children.h"

static void test_read_self(void **state)
{
	struct process_info info;
	char exe[4096] = "";

	(void)state;
	assert_int_equal(process__read(getpid(), &info), 0);
	assert_int_equal(info.pid, getpid());
	assert_int_equal(info.tgid, getpid());
	assert_int_equal(info.parent, getppid());
	assert_int_equal(info.state, 'R');
	assert_false(info.kernel_thread);
	assert_false(info.compat32);
	assert_true(info.start_ticks > 0);
	assert_true(info.rss_bytes > 100 * 1024);
	assert_true(info.rss_bytes % 4096 == 0);
	assert_int_equal(info.threads, 1);
	assert_int_equal(info.euid, geteuid());
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(info.exe, exe);
}

/* /proc/PID/stat alone gives the same values as all files together. Its counts include the pages
 * that this test touches. */
static void test_read_stat(void **state)
{
	struct process_info whole, before, after;
	size_t size = 4 << 20;
	char *pages;

	(void)state;
	assert_int_equal(process__read(getpid(), &whole), 0);
	assert_int_equal(process__read_stat(getpid(), &before), 0);
	assert_int_equal(before.pid, getpid());
	assert_string_equal(before.comm, whole.comm);
	assert_int_equal(before.start_ticks, whole.start_ticks);
	assert_int_equal(before.parent, getppid());
	assert_int_equal(before.tgid, 0); /* the tgid is in other files only */
	assert_true(before.minor_faults >= whole.minor_faults && whole.minor_faults > 0);
	pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	madvise(pages, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		pages[i] = 1;
	assert_int_equal(process__read_stat(getpid(), &after), 0);
	assert_true(after.minor_faults - before.minor_faults >= size / 4096);
	assert_true(after.rss_bytes >= before.rss_bytes + size / 2);
	munmap(pages, size);
	assert_int_equal(process__read_stat(0x7fffffff, &after), -ESRCH);
	assert_int_equal(process__read_stat(-5, &after), -ESRCH);
}

static void test_hostile_names(void **state)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{") R 1 2 3 (", ") R 1 2 3 ("},
		{"a b) Z 0", "a b) Z 0"},
		{"((((", "(((("},
		{"", ""},
		{"x\nTgid:\t1\n", "x?Tgid:?1?"},
		{"\x1b[31m\x7f\\", "?[31m?\\"},
		{"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t child = named_child(cases[i].name);
		struct process_info info;

		assert_int_equal(process__read(child, &info), 0);
		assert_string_equal(info.comm, cases[i].shown);
		assert_int_equal(info.tgid, child);
		assert_int_equal(info.parent, getpid());
		assert_true(info.state == 'S' || info.state == 'R');
		assert_int_equal(info.threads, 1);
		assert_true(info.start_ticks > 0);

		end_child(child);
	}
}

static void test_thread(void **state)
{
	struct process_info info, leader;
	pthread_t thread;
	pid_t tid = 0, seen;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &tid), 0);
	while (!(seen = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)))
		usleep(100);
	assert_int_equal(process__read(seen, &info), 0);
	assert_int_equal(process__read(getpid(), &leader), 0);
	assert_int_equal(info.pid, seen);
	assert_int_equal(info.tgid, getpid());
	assert_string_equal(info.comm, "worker thread");
	/* A sanitizer may run threads of its own. */
	assert_true(info.threads >= 2);
	assert_int_equal(info.threads, leader.threads);
	__atomic_store_n(&tid, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static void test_effective_user(void **state)
{
	struct process_info info;
	int ready[2];
	pid_t child;
	char byte;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		/* The real, the effective and the saved user in status differ. */
		if (setresuid(1001, 4000000002, 1003))
			_exit(1);
		/* A change of the user clears this setting, so the change comes first. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(process__read(child, &info), 0);
	assert_true(info.euid == 4000000002);
	end_child(child);
}

struct roll {
	pid_t last, until, children[3];
	bool seen[3], self, sorted;
};

static int call_roll(pid_t pid, void *ctx)
{
	struct roll *roll = ctx;

	roll->sorted &= pid > roll->last;
	roll->last = pid;
	roll->self |= pid == getpid();
	for (int i = 0; i < 3; i++)
		roll->seen[i] |= pid == roll->children[i];
	return pid == roll->until ? 42 : 0;
}

static void test_each(void **state)
{
	struct roll roll = {.sorted = true}, again = {.until = getpid()};
	pthread_t thread;
	pid_t tid = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &tid), 0);
	while (!(again.children[0] = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)))
		usleep(100);
	for (int i = 0; i < 3; i++)
		roll.children[i] = named_child("roll");
	assert_int_equal(process__each(call_roll, &roll), 0);
	assert_true(roll.sorted && roll.self);
	for (int i = 0; i < 3; i++) {
		assert_true(roll.seen[i]);
		end_child(roll.children[i]);
	}

	/* Neither processes that have ended nor threads are visited. If fn ends the walk, no more
	 * processes are visited. */
	again.children[1] = roll.children[1];
	assert_int_equal(process__each(call_roll, &again), 42);
	assert_int_equal(again.last, getpid());
	again.until = 0;
	assert_int_equal(process__each(call_roll, &again), 0);
	assert_false(again.seen[0] || again.seen[1]);
	__atomic_store_n(&tid, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static void test_missing(void **state)
{
	struct process_info info;
	siginfo_t died;
	uint64_t ns;
	pid_t child;

	(void)state;
	assert_int_equal(process__read(0, &info), -ESRCH);
	assert_int_equal(process__read(-5, &info), -ESRCH);
	assert_int_equal(process__read(0x7fffffff, &info), -ESRCH);
	assert_int_equal(process__cpu_time_ns(0, &ns), -ESRCH);
	assert_int_equal(process__cpu_time_ns(-1, &ns), -ESRCH);
	assert_int_equal(process__cpu_time_ns(0x7fffffff, &ns), -ESRCH);

	child = named_child("zombie");
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, child, &died, WEXITED | WNOWAIT), 0);
	assert_int_equal(process__read(child, &info), 0);
	assert_int_equal(info.state, 'Z');
	assert_false(process__lives(&info));
	assert_string_equal(info.exe, "");
	assert_int_equal(info.rss_bytes, 0);
	waitpid(child, NULL, 0);
	assert_int_equal(process__read(child, &info), -ESRCH);
	assert_int_equal(process__cpu_time_ns(child, &ns), -ESRCH);
}

/* A main thread that has ended no longer shows the process's memory, program and root in /proc.
 * memtrace still finds all three. */
static void a_main_thread_that_has_ended_hides_nothing(void **state)
{
	pid_t child = headless_child(), tid;
	struct process_info info;
	struct perf_map_place place;
	struct maps maps;
	uint64_t bytes;
	char path[64];
	int fd;

	(void)state;
	assert_int_equal(maps__read(child, &maps), 0);
	assert_non_null(maps__find(&maps, (uintptr_t)headless_child));
	fd = maps__open_file(child, maps__find(&maps, (uintptr_t)headless_child));
	assert_true(fd >= 0);
	close(fd);
	maps__free(&maps);
	assert_int_equal(memory__read(child, (uintptr_t)headless_child, path, 4), 0);
	assert_memory_equal(path, (const void *)(uintptr_t)headless_child, 4);
	assert_int_equal(process__read(child, &info), 0);
	assert_int_equal(info.state, 'Z');
	assert_int_equal(info.tgid, child);
	assert_true(process__lives(&info));
	assert_true(strstr(info.exe, "test_process"));
	tid = process__living_thread(child);
	assert_int_not_equal(tid, child);
	snprintf(path, sizeof(path), "/proc/%d/task/%d", child, tid);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(process__rss_bytes(child, &bytes), 0);
	assert_true(bytes > 100 * 1024);
	assert_int_equal(process__anon_bytes(child, &bytes), 0);
	assert_int_equal(process__auxv(child, AT_PAGESZ), 4096);
	fd = process__open(child, "root", O_PATH | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(process__find_perf_map(child, &place), 0);
	close(place.root_fd);
	end_child(child);
	assert_int_equal(process__open(child, "maps", O_RDONLY), -ESRCH);
	assert_int_equal(process__living_thread(child), child);
	assert_int_equal(process__living_thread(getpid()), getpid());
}

static void test_kernel_thread(void **state)
{
	struct process_info info;

	(void)state;
	/* pid 2 is kthreadd, unless the test runs in a pid namespace. */
	if (process__read(2, &info) || strcmp(info.comm, "kthreadd") != 0)
		skip();
	assert_true(info.kernel_thread);
	assert_string_equal(info.exe, "");
	assert_int_equal(info.rss_bytes, 0);
}

/* Counts bytes of read() and write(). This process knows how many it has written. */
static void io_bytes_count_what_goes_through_calls(void **state)
{
	static char buf[100000];
	uint64_t before, after;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(process__io_bytes(getpid(), &before), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(write(fd, buf, sizeof(buf)), sizeof(buf));
	assert_int_equal(process__io_bytes(getpid(), &after), 0);
	close(fd);
	/* reading the counter's file counts, too */
	assert_true(after - before >= 10 * sizeof(buf) && after - before < 10 * sizeof(buf) + 4096);
	assert_true(process__io_bytes(0x7fffffff, &after) < 0);
}

static void test_cpu_time(void **state)
{
	uint64_t before, after;
	struct timespec ts;

	(void)state;
	assert_int_equal(process__cpu_time_ns(getpid(), &before), 0);
	do {
		assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
	} while ((uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec < before + 20000000);
	assert_int_equal(process__cpu_time_ns(getpid(), &after), 0);
	assert_true(after - before >= 20000000);
	assert_true(after - before < 2000000000);
	assert_int_equal(process__cpu_time_ns(getppid(), &after), 0);
}

/* Writes the smallest 32-bit program, which calls pause() for ever. */
static int make_program32(const char *path)
{
	static const unsigned char code[] = {
		0xb8, 29,   0, 0, 0, /* mov $__NR_pause, %eax */
		0xcd, 0x80,	     /* int $0x80 */
		0xeb, 0xf7,	     /* jmp to the start */
	};
	struct {
		Elf32_Ehdr ehdr;
		Elf32_Phdr phdr;
		unsigned char code[sizeof(code)];
	} file = {
		.ehdr =
			{
				.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32,
					    ELFDATA2LSB, EV_CURRENT},
				.e_type = ET_EXEC,
				.e_machine = EM_386,
				.e_version = EV_CURRENT,
				.e_entry = 0x10000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
				.e_phoff = sizeof(Elf32_Ehdr),
				.e_ehsize = sizeof(Elf32_Ehdr),
				.e_phentsize = sizeof(Elf32_Phdr),
				.e_phnum = 1,
			},
		.phdr =
			{
				.p_type = PT_LOAD,
				.p_vaddr = 0x10000,
				.p_filesz = sizeof(file),
				.p_memsz = sizeof(file),
				.p_flags = PF_R | PF_X,
				.p_align = 0x1000,
			},
	};
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);

	memcpy(file.code, code, sizeof(code));
	return fd >= 0 && write(fd, &file, sizeof(file)) == sizeof(file) ? 0 : -1;
}

/* A thread that waits. Its stack is memory of the test. */
static void *wait_for_byte(void *fd)
{
	char byte;

	return read(*(int *)fd, &byte, 1) == 1 ? fd : NULL;
}

static void test_stack_pointers(void **state)
{
	const size_t size = 256 << 10;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sps[64], inside = 0;
	pthread_attr_t attr;
	pthread_t thread;
	void *result;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, size), 0);
	assert_int_equal(pthread_create(&thread, &attr, wait_for_byte, &fds[0]), 0);
	/* until the thread waits: running threads are not reported */
	for (int i = 0; i < 1000 && !inside; i++) {
		size_t n = process__stack_pointers(getpid(), sps, 64);

		for (size_t k = 0; k < n; k++)
			inside += sps[k] >= (uintptr_t)stack && sps[k] < (uintptr_t)stack + size;
		usleep(10000);
	}
	assert_int_equal(inside, 1);
	assert_true(process__stack_pointers(getpid(), sps, 1) <= 1);
	assert_int_equal(process__stack_pointers(0x7ffffff, sps, 64), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &fds[0]);
	pthread_attr_destroy(&attr);
	close(fds[0]);
	close(fds[1]);
	munmap(stack, size);
}

static void test_sleeps(void **state)
{
	bool slept = false, ran = false;
	pthread_t thread;
	int fds[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) { /* two threads sleep; a byte makes the main one run */
		char byte;

		pthread_create(&thread, NULL, wait_for_byte, &fds[0]);
		if (read(fds[0], &byte, 1) == 1)
			for (;;)
				;
		_exit(0);
	}
	for (int i = 0; i < 1000 && !slept; i++, usleep(10000))
		slept = process__sleeps(child, 64);
	assert_true(slept);
	assert_false(process__sleeps(child, 1)); /* more threads than max */
	assert_int_equal(write(fds[1], "xx", 2), 2);
	for (int i = 0; i < 1000 && !ran; i++, usleep(10000))
		ran = !process__sleeps(child, 64);
	assert_true(ran);
	assert_false(process__sleeps(getpid(), 64)); /* this process runs */
	assert_false(process__sleeps(0x7ffffff, 64));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

/* The waits of all threads add up. The hash tells whether the same threads live. */
static void test_waits(void **state)
{
	enum { NAPS = 50 };
	const struct timespec nap = {.tv_nsec = 100000};
	struct process_waits before, after, alone;
	pthread_t thread;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(process__waits(getpid(), 8, &alone), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_byte, &fds[0]), 0);
	assert_int_equal(process__waits(getpid(), 8, &before), 0);
	for (int i = 0; i < NAPS; i++)
		nanosleep(&nap, NULL);
	assert_int_equal(process__waits(getpid(), 8, &after), 0);
	assert_true(after.n >= before.n + NAPS);
	assert_true(after.n < before.n + 3 * NAPS);
	assert_true(after.threads == before.threads);
	assert_true(before.threads != alone.threads);
	assert_int_equal(process__waits(getpid(), 1, &after), -E2BIG);
	assert_int_equal(write(fds[1], "", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(process__waits(0x7ffffff, 8, &after), -ENOENT);
	close(fds[0]);
	close(fds[1]);
}

static void test_rss(void **state)
{
	const size_t size = 64 << 20;
	uint64_t before, after;
	char *area;

	(void)state;
	assert_int_equal(process__file_bytes(getpid(), &before), 0);
	assert_true(before > 4096); /* the program itself */
	assert_int_equal(process__file_bytes(0x7ffffff, &after), -ESRCH);
	assert_int_equal(process__rss_bytes(getpid(), &before), 0);
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		    -1, 0);
	assert_true(area != MAP_FAILED);
	assert_int_equal(process__rss_bytes(getpid(), &after), 0);
	/* the kernel counts on each CPU separately */
	assert_true(after > before + size / 2 && after < before + 2 * size);
	munmap(area, size);
	assert_int_equal(process__rss_bytes(0x7ffffff, &after), -ESRCH);
	assert_int_equal(process__rss_bytes(2, &after), -ESRCH); /* a kernel thread has none */
}

static int read_sizes_of_self(void)
{
	uint64_t rss = 0, anon = 0;

	if (process__rss_bytes(getpid(), &rss) || process__anon_bytes(getpid(), &anon))
		return 1;
	return rss > 100 * 1024 && anon > 0 ? 0 : 2;
}

/* In /proc/PID/status, the sizes come after the line "Groups:". */
static void sizes_are_found_behind_many_groups(void **state)
{
	(void)state;
	assert_with_many_groups(read_sizes_of_self);
}

static void test_compat32(void **state)
{
	char dir[] = "/tmp/memtrace-process-XXXXXX", path[64];
	struct process_info info;
	int gone[2], error = 0;
	pid_t child;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/p32", dir);
	assert_int_equal(make_program32(path), 0);
	assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, NULL);
		error = errno;
		_exit(write(gone[1], &error, sizeof(error)) < 0);
	}
	close(gone[1]);
	/* If the child executes the program, the pipe ends. If not, the pipe holds the error. */
	if (read(gone[0], &error, sizeof(error))) {
		/* a kernel without IA32 emulation runs no such programs */
		assert_int_equal(error, ENOEXEC);
		assert_int_equal(waitpid(child, NULL, 0), child);
	} else {
		assert_int_equal(process__read(child, &info), 0);
		assert_true(info.compat32);
		assert_string_equal(info.exe, path);
		assert_string_equal(info.comm, "p32");
		end_child(child);
	}
	close(gone[0]);
	unlink(path);
	rmdir(dir);
}

static void why_a_process_cannot_be_read(void **state)
{
	struct process_info info;

	(void)state;
	assert_string_equal(process__why(process__read(INT32_MAX, &info)), "it has ended");
	assert_non_null(strstr(process__why(-EACCES), geteuid() ? "run as root" : "to root"));
	assert_string_equal(process__why(-EPERM), process__why(-EACCES));
	assert_string_equal(process__why(-EIO), strerror(EIO));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_self),
		cmocka_unit_test(test_read_stat),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_effective_user),
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(a_main_thread_that_has_ended_hides_nothing),
		cmocka_unit_test(test_kernel_thread),
		cmocka_unit_test(test_cpu_time),
		cmocka_unit_test(io_bytes_count_what_goes_through_calls),
		cmocka_unit_test(test_stack_pointers),
		cmocka_unit_test(test_sleeps),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_rss),
		cmocka_unit_test(sizes_are_found_behind_many_groups),
		cmocka_unit_test(test_compat32),
		cmocka_unit_test(why_a_process_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
