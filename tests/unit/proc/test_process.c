// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
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

/* stat alone tells the same as all of it, and counts the pages that this test touches. */
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
	assert_int_equal(before.tgid, 0); /* of other files */
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
		assert_int_equal(info.parent, getpid());
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
		/* All four numbers of status differ: real, effective, saved, of the file system. */
		if (setresuid(1001, 4000000002, 1003))
			_exit(1);
		/* A change of rights takes the signal away. */
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

	/* Neither a thread nor who has gone; and none after the one at which fn ends it. */
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

/* Bytes through read() and write(), of a process that is its own witness. */
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
	/* the file that tells it is read, too */
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

/* A thread that waits somewhere on a stack that we gave it. */
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
	for (int i = 0; i < 1000 && !inside; i++) { /* until it waits; a running one is not told of */
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
	if (!child) { /* two threads sleep; told to, the main one runs */
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
	assert_false(process__sleeps(child, 1)); /* nobody knows */
	assert_int_equal(write(fds[1], "xx", 2), 2);
	for (int i = 0; i < 1000 && !ran; i++, usleep(10000))
		ran = !process__sleeps(child, 64);
	assert_true(ran);
	assert_false(process__sleeps(getpid(), 64)); /* we are running */
	assert_false(process__sleeps(0x7ffffff, 64));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

static void test_rss(void **state)
{
	const size_t size = 64 << 20;
	uint64_t before, after;
	char *area;

	(void)state;
	assert_int_equal(process__rss_bytes(getpid(), &before), 0);
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	assert_true(area != MAP_FAILED);
	assert_int_equal(process__rss_bytes(getpid(), &after), 0);
	/* counted on each CPU apart */
	assert_true(after > before + size / 2 && after < before + 2 * size);
	munmap(area, size);
	assert_int_equal(process__rss_bytes(0x7ffffff, &after), -ESRCH);
	assert_int_equal(process__rss_bytes(2, &after), -ESRCH); /* a kernel thread has none */
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

/* --- the map of a JIT compiler --- */

static bool write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static void map_path(pid_t pid, char *path, size_t size)
{
	snprintf(path, size, "/tmp/perf-%d.map", pid);
}

static int open_perf_map(pid_t pid)
{
	struct perf_map_place place;
	int fd = process__find_perf_map(pid, &place);

	if (fd)
		return fd;
	fd = process__open_perf_map(&place);
	close(place.root_fd);
	return fd;
}

static void assert_opens(pid_t pid, const char *expected)
{
	_cleanup_close_ int fd = -1;
	char text[64] = "";

	alarm(10); /* what waits for the writer of a FIFO dies */
	fd = open_perf_map(pid);
	alarm(0);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	assert_string_equal(text, expected);
}

static void assert_refuses(pid_t pid, int err)
{
	alarm(10);
	assert_int_equal(open_perf_map(pid), err);
	alarm(0);
}

static void test_perf_map(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t child = named_child("jit"), tid = 0, seen;
	char path[64], other[80];
	pthread_t thread;
	int fd;

	(void)state;
	map_path(child, path, sizeof(path));
	snprintf(other, sizeof(other), "%s.other", path);
	unlink(path); /* of an earlier process with that pid */
	assert_refuses(child, -ENOENT);
	assert_true(write_text(path, "10 10 f\n"));
	assert_opens(child, "10 10 f\n");

	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_refuses(child, -ELOOP); /* even to a file that would do */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(link(other, path), 0);
	assert_opens(child, "10 10 f\n");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_refuses(child, -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/nowhere", path), 0);
	assert_refuses(child, -ELOOP);

	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refuses(child, -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refuses(child, -EINVAL);
	assert_int_equal(rmdir(path), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(address.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_refuses(child, -EINVAL);
	close(fd);
	assert_int_equal(unlink(path), 0);
	end_child(child);
	assert_refuses(child, -ESRCH);
	assert_refuses(0, -ESRCH);
	assert_refuses(-5, -ESRCH);
	assert_refuses(0x7fffffff, -ESRCH);

	/* A thread's is that of its process. */
	map_path(getpid(), path, sizeof(path));
	assert_true(write_text(path, "own\n"));
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &tid), 0);
	while (!(seen = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)))
		usleep(100);
	assert_opens(seen, "own\n");
	assert_opens(getpid(), "own\n");
	__atomic_store_n(&tid, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(unlink(path), 0);
}

/* Makes us what root is, as far as our own processes and mounts go. */
static bool become_root_of_a_namespace(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		return true;
	if (unshare(CLONE_NEWUSER))
		return false;
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (!write_text("/proc/self/uid_map", map) || !write_text("/proc/self/setgroups", "deny"))
		return false;
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return write_text("/proc/self/gid_map", map);
}

/* A container: a process that is pid 1 of a pid namespace and has a /tmp of its own, in which
 * furnish has put things. Its pid, to us; 0 when this machine lets us make none. */
static pid_t contained_child(bool (*furnish)(const char *arg), const char *arg, pid_t *ret_parent)
{
	int report[2], ready[2];
	pid_t child = 0;
	char byte = 0;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	*ret_parent = fork();
	assert_true(*ret_parent >= 0);
	if (*ret_parent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!become_root_of_a_namespace() || unshare(CLONE_NEWNS | CLONE_NEWPID))
			_exit(1);
		child = fork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			byte = !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
			       !mount("none", "/tmp", "tmpfs", 0, NULL) && furnish(arg);
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user forgets it */
			if (write(ready[1], &byte, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		close(ready[1]);
		if (child > 0 && write(report[1], &child, sizeof(child)) == sizeof(child))
			waitpid(child, NULL, 0);
		_exit(1);
	}
	close(report[1]);
	close(ready[1]);
	if (read(report[0], &child, sizeof(child)) == sizeof(child)) {
		assert_int_equal(read(ready[0], &byte, 1), 1);
		assert_int_equal(byte, 1);
	} else {
		print_message("no container: namespaces are not to be had here\n");
		waitpid(*ret_parent, NULL, 0);
		child = 0;
	}
	close(report[0]);
	close(ready[0]);
	return child;
}

static void end_contained(pid_t child, pid_t parent)
{
	kill(child, SIGKILL);
	waitpid(parent, NULL, 0);
}

static bool furnish_map(const char *text)
{
	return write_text("/tmp/perf-1.map", text);
}

/* The map is where the process sees it, under the pid that it sees. */
static void test_perf_map_in_container(void **state)
{
	pid_t parent, child = contained_child(furnish_map, "contained\n", &parent);
	char path[64];

	(void)state;
	if (!child)
		skip();
	map_path(child, path, sizeof(path));
	assert_true(write_text(path, "not this one\n"));
	assert_opens(child, "contained\n");
	end_contained(child, parent);
	unlink(path);
}

static bool furnish_jail(const char *text)
{
	return write_text("/tmp/perf-1.map", "outside\n") && !mkdir("/tmp/jail", 0700) &&
	       !mkdir("/tmp/jail/tmp", 0700) && write_text("/tmp/jail/tmp/perf-1.map", text) &&
	       !chroot("/tmp/jail") && !chdir("/");
}

static bool furnish_escape(const char *outside)
{
	return !mkdir("/tmp/jail", 0700) && !symlink(outside, "/tmp/jail/tmp") &&
	       !chroot("/tmp/jail") && !chdir("/");
}

static bool furnish_inner_link(const char *target)
{
	return !mkdir("/tmp/jail", 0700) && !symlink(target, "/tmp/jail/tmp") &&
	       !mkdir("/tmp/jail/real", 0700) &&
	       write_text("/tmp/jail/real/perf-1.map", "inside\n") && !chroot("/tmp/jail") &&
	       !chdir("/");
}

static void test_perf_map_in_chroot(void **state)
{
	static const char *const inner[] = {"/real", "../../real", "real"};
	char outside[] = "/var/tmp/memtrace-process-XXXXXX", path[64], naive[64], deep[128];
	pid_t parent, child = contained_child(furnish_jail, "jailed\n", &parent);
	_cleanup_close_ int fd = -1;

	(void)state;
	if (!child)
		skip();
	assert_opens(child, "jailed\n");
	end_contained(child, parent);

	/* A link that leads to a directory of ours, for one who follows it as we see it. */
	assert_non_null(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/perf-1.map", outside);
	assert_true(write_text(path, "escaped\n"));
	child = contained_child(furnish_escape, outside, &parent);
	snprintf(naive, sizeof(naive), "/proc/%d/root/tmp/perf-1.map", child);
	fd = open(naive, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0); /* it does lead there */
	assert_refuses(child, -ENOENT);
	end_contained(child, parent);
	snprintf(deep, sizeof(deep), "../../../../../..%s", outside);
	child = contained_child(furnish_escape, deep, &parent);
	assert_refuses(child, -ENOENT);
	end_contained(child, parent);
	unlink(path);
	rmdir(outside);

	for (size_t i = 0; i < sizeof(inner) / sizeof(*inner); i++) {
		child = contained_child(furnish_inner_link, inner[i], &parent);
		assert_opens(child, "inside\n");
		end_contained(child, parent);
	}
}

/* Through the links of /proc one could get anywhere. */
static bool furnish_magic(const char *target)
{
	return !mkdir("/tmp/jail", 0700) && !symlink(target, "/tmp/jail/tmp") &&
	       !mkdir("/tmp/jail/proc", 0700) &&
	       !mount("/proc", "/tmp/jail/proc", NULL, MS_BIND | MS_REC, NULL) &&
	       !chroot("/tmp/jail") && !chdir("/");
}

static void test_perf_map_by_magic_link(void **state)
{
	char outside[] = "/var/tmp/memtrace-process-XXXXXX", path[64], target[64];
	_cleanup_close_ int dir_fd = -1;
	pid_t parent, child;

	(void)state;
	assert_non_null(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/perf-1.map", outside);
	assert_true(write_text(path, "escaped\n"));
	dir_fd = open(outside, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(target, sizeof(target), "/proc/%d/fd/%d", getpid(), dir_fd);
	child = contained_child(furnish_magic, target, &parent);
	if (child)
		assert_refuses(child, -ELOOP);
	if (child)
		end_contained(child, parent);
	unlink(path);
	rmdir(outside);
	if (!child)
		skip();
}

/* As root the file is given away; others lay one of root's over it. */
static bool furnish_foreign(const char *other)
{
	if (!write_text("/tmp/perf-1.map", "another's\n"))
		return false;
	return geteuid() == 0 ? !chown("/tmp/perf-1.map", 65534, 65534)
			      : !mount(other, "/tmp/perf-1.map", NULL, MS_BIND, NULL);
}

static bool furnish_device(const char *device)
{
	return write_text("/tmp/perf-1.map", "") &&
	       !mount(device, "/tmp/perf-1.map", NULL, MS_BIND, NULL);
}

static void test_perf_map_of_others(void **state)
{
	pid_t parent, child = contained_child(furnish_foreign, "/etc/passwd", &parent);

	(void)state;
	if (!child)
		skip();
	assert_refuses(child, -EPERM);
	end_contained(child, parent);
	child = contained_child(furnish_device, "/dev/zero", &parent);
	assert_refuses(child, -EINVAL);
	end_contained(child, parent);
}

/* It is the effective user who writes files. Among its thousands of groups it is found, too. */
static bool furnish_user(const char *text)
{
	gid_t groups[5000];

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		groups[i] = 1000000 + (gid_t)i;
	return write_text("/tmp/perf-1.map", text) &&
	       !chown("/tmp/perf-1.map", text[0] == 'r' ? 0 : 65534, 0) &&
	       !setgroups(sizeof(groups) / sizeof(*groups), groups) && !seteuid(65534);
}

static void test_perf_map_of_effective_user(void **state)
{
	pid_t parent, child;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
	child = contained_child(furnish_user, "effective user's\n", &parent);
	if (!child)
		skip();
	assert_opens(child, "effective user's\n");
	end_contained(child, parent);
	child = contained_child(furnish_user, "real user's\n", &parent);
	assert_refuses(child, -EPERM);
	end_contained(child, parent);
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
		cmocka_unit_test(test_kernel_thread),
		cmocka_unit_test(test_cpu_time),
		cmocka_unit_test(io_bytes_count_what_goes_through_calls),
		cmocka_unit_test(test_stack_pointers),
		cmocka_unit_test(test_sleeps),
		cmocka_unit_test(test_rss),
		cmocka_unit_test(test_compat32),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_perf_map),
		cmocka_unit_test(test_perf_map_in_container),
		cmocka_unit_test(test_perf_map_in_chroot),
		cmocka_unit_test(test_perf_map_by_magic_link),
		cmocka_unit_test(test_perf_map_of_others),
		cmocka_unit_test(test_perf_map_of_effective_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
