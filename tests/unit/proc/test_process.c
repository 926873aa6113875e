// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "proc/process.h"

static void test_read_self(void **state)
{
	struct process_info info;
	char exe[4096] = "";

	(void)state;
	assert_int_equal(process__read(getpid(), &info), 0);
	assert_int_equal(info.pid, getpid());
	assert_int_equal(info.tgid, getpid());
	assert_int_equal(info.state, 'R');
	assert_false(info.kernel_thread);
	assert_false(info.compat32);
	assert_true(info.start_ticks > 0);
	assert_true(info.rss_bytes > 100 * 1024);
	assert_true(info.rss_bytes % 4096 == 0);
	assert_int_equal(info.threads, 1);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(info.exe, exe);
}

/* A child that has set its name and waits to be killed. */
static pid_t named_child(const char *name)
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
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
		char name[64], tiny[3];

		assert_int_equal(process__read(child, &info), 0);
		assert_string_equal(info.comm, cases[i].shown);
		assert_int_equal(info.tgid, child);
		assert_true(info.state == 'S' || info.state == 'R');
		assert_int_equal(info.threads, 1);
		assert_true(info.start_ticks > 0);

		assert_int_equal(process__thread_name(child, child, name, sizeof(name)), 0);
		assert_string_equal(name, cases[i].shown);
		assert_int_equal(process__thread_name(child, child, tiny, sizeof(tiny)), 0);
		assert_int_equal(strlen(tiny), strlen(name) < 2 ? strlen(name) : 2);
		assert_int_equal(process__thread_name(child, child, name, 0), -EINVAL);
		end_child(child);
	}
}

static void *sleeper(void *arg)
{
	pid_t *tid = arg;

	prctl(PR_SET_NAME, "worker thread");
	__atomic_store_n(tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	while (__atomic_load_n(tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	return NULL;
}

static void test_thread(void **state)
{
	struct process_info info, leader;
	pthread_t thread;
	pid_t tid = 0, seen;
	char name[64];

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
	assert_int_equal(process__thread_name(getpid(), seen, name, sizeof(name)), 0);
	assert_string_equal(name, "worker thread");
	__atomic_store_n(&tid, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(process__thread_name(getpid(), 0x7fffffff, name, sizeof(name)), -ESRCH);
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
	assert_string_equal(info.exe, "");
	assert_int_equal(info.rss_bytes, 0);
	waitpid(child, NULL, 0);
	assert_int_equal(process__read(child, &info), -ESRCH);
	assert_int_equal(process__cpu_time_ns(child, &ns), -ESRCH);
}

static void test_kernel_thread(void **state)
{
	struct process_info info;

	(void)state;
	/* kthreadd, unless we are in a pid namespace of our own. */
	if (process__read(2, &info) || strcmp(info.comm, "kthreadd") != 0)
		skip();
	assert_true(info.kernel_thread);
	assert_string_equal(info.exe, "");
	assert_int_equal(info.rss_bytes, 0);
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

/* The smallest 32-bit program: pause() for ever. */
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

static void test_compat32(void **state)
{
	char dir[] = "/tmp/memtrace-process-XXXXXX", path[64];
	struct process_info info;
	int status, gone[2];
	bool running;
	pid_t child;
	char byte;

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
		_exit(127);
	}
	close(gone[1]);
	/* The pipe ends when the child has become the other program, or could not. */
	assert_int_equal(read(gone[0], &byte, 1), 0);
	close(gone[0]);
	usleep(10000);
	running = waitpid(child, &status, WNOHANG) == 0;
	if (running) {
		assert_int_equal(process__read(child, &info), 0);
		assert_true(info.compat32);
		assert_string_equal(info.exe, path);
		assert_string_equal(info.comm, "p32");
		end_child(child);
	}
	unlink(path);
	rmdir(dir);
	if (!running)
		skip(); /* a kernel without IA32 emulation */
}

static void test_capabilities(void **state)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	(void)state;
	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	for (int cap = 0; cap < 64; cap++)
		assert_int_equal(process__self_has_cap(cap),
				 data[cap / 32].effective >> (cap % 32) & 1);
	assert_false(process__self_has_cap(-1));
	assert_false(process__self_has_cap(64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_self),     cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_thread),	      cmocka_unit_test(test_missing),
		cmocka_unit_test(test_kernel_thread), cmocka_unit_test(test_cpu_time),
		cmocka_unit_test(test_compat32),      cmocka_unit_test(test_capabilities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
