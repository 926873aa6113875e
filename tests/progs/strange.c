/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes in unusual states. Protocol as in truth.h; the first argument names the state:
 *
 * threads		a thousand, in waves; each allocates, keeps some blocks and ends
 * headless		the main thread ends, another one goes on; --early: before "ready";
 *			--busy: both run for some seconds, and allocate as fast as they can
 * exec			a thread that is not the main one executes the program again; --headless: at
 *			"exec", when the main thread has ended
 * undumpable		only root may read the memory of the process
 * strict, filter	seccomp allows only the system calls that the process needs
 * dlopen LIBRARY N	loads a library that allocates, and unloads it again, N times; after a tenth
 *			of these it says "begun" and waits for another "go"; --copies: loads copies,
 *			each a file without a name, and leaves them loaded
 * daemon		forks twice, in a session of its own; the truth is the last process's, with
 *			its "pid"; the processes before it have ended by then */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#define WAVES	 50
#define TOGETHER 20
#define BEFORE	 700
#define BLOCKS	 200

#define PATIENCE_MS 60000
#define BUSY_S	    4

static void die(const char *what)
{
	fprintf(stderr, "strange: %s: %s\n", what, strerror(errno));
	_exit(98);
}

/* The script of most states. It needs no more memory than the heap's first 128 KiB. */
NOINLINE static void script(void)
{
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = T_MALLOC(10 + i);
	for (size_t i = 0; i < BLOCKS; i += 2)
		T_FREE(blocks[i]);
	for (size_t i = 1; i < BLOCKS; i += 4)
		blocks[i] = T_REALLOC(blocks[i], 2 * i);
}

static int tell(void)
{
	truth_print();
	return truth_finish();
}

/* --- threads --- */

NOINLINE static void *short_life(void *arg)
{
	size_t size = 16 + (uintptr_t)arg;
	void *p = T_MALLOC(size);

	p = T_REALLOC(p, 3 * size);
	T_FREE(T_MALLOC(size + 1));
	if ((uintptr_t)arg % 3)
		T_FREE(p);
	return NULL;
}

static int threads(void)
{
	pthread_t ids[TOGETHER];

	truth_ready();
	for (uintptr_t wave = 0; wave < WAVES; wave++) {
		for (uintptr_t i = 0; i < TOGETHER; i++)
			if (pthread_create(&ids[i], NULL, short_life,
					   (void *)(wave * TOGETHER + i)))
				die("pthread_create");
		for (uintptr_t i = 0; i < TOGETHER; i++)
			pthread_join(ids[i], NULL);
	}
	return tell();
}

/* --- no main thread --- */

/* Is the main thread a zombie? (pthread_join() may return before it is one.) */
static bool main_has_ended(void)
{
	char path[64], stat[64] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (n < 0)
		die(path);
	close(fd);
	return strstr(stat, ") Z ");
}

static void be_busy(int seconds)
{
	struct timespec now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + seconds;
	while (now.tv_sec < end) {
		for (int i = 0; i < 1000; i++) {
			void *volatile p = malloc(100);

			free(p);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
}

static void *busy_thread(void *none)
{
	be_busy(4 * BUSY_S); /* the main thread exists for a quarter of this time */
	exit(tell());
	return none;
}

static void *headless_thread(void *early)
{
	for (int i = 0; !main_has_ended(); i++) {
		if (i == PATIENCE_MS)
			die("the main thread does not end");
		usleep(1000);
	}
	if (early)
		truth_ready();
	script();
	exit(tell());
}

static int headless(bool early, bool busy)
{
	pthread_t id;

	if (!early)
		truth_ready();
	if (pthread_create(&id, NULL, busy ? busy_thread : headless_thread, early ? &id : NULL))
		die("pthread_create");
	if (busy)
		be_busy(BUSY_S);
	pthread_exit(NULL);
}

/* --- exec --- */

static char **arguments;

NOINLINE static void *before_exec(void *alone)
{
	char bytes[24], status[24];
	char *args[] = {arguments[0], "exec", "--gone", bytes, "--exit", status, NULL};

	for (int i = 0; alone && !main_has_ended(); i++) {
		if (i == PATIENCE_MS)
			die("the main thread does not end");
		usleep(1000);
	}
	if (alone && !truth_await("exec"))
		_exit(2);
	for (size_t i = 0; i < BEFORE; i++)
		T_MALLOC(100 + i);
	snprintf(bytes, sizeof(bytes), "%" PRIu64, truth_functions[0].live_bytes);
	snprintf(status, sizeof(status), "%d", truth_exit_status);
	execv(arguments[0], args);
	die("execv");
	return alone;
}

static int exec_by_thread(int argc, char **argv)
{
	pthread_t id;

	if (!truth_flag(argc, argv, "--gone")) {
		bool alone = truth_flag(argc, argv, "--headless");

		truth_ready();
		arguments = argv;
		if (pthread_create(&id, NULL, before_exec, alone ? &id : NULL))
			die("pthread_create");
		if (alone)
			pthread_exit(NULL);
		for (;;)
			pause();
	}
	script();
	truth_print_open();
	printf(", \"gone\": {\"live_objects\": %d}}\n", BEFORE);
	return truth_finish();
}

/* --- rights --- */

static int undumpable(void)
{
	if (prctl(PR_SET_DUMPABLE, 0))
		die("prctl");
	truth_ready();
	script();
	return tell();
}

/* The first malloc makes system calls, for memory and more, that seccomp forbids later. */
static void begin_heap(void)
{
	void *p = malloc(1);

	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

/* Ends by the system call exit, because seccomp's strict mode allows no other way. */
static int strict(void)
{
	int status;

	begin_heap();
	truth_ready();
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		die("prctl");
	script();
	status = tell();
	syscall(SYS_exit, status);
	return status;
}

static int filter(bool early)
{
	static const int allowed[] = {SYS_read, SYS_write, SYS_brk, SYS_getpid, SYS_exit_group};
	enum { N = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter code[2 * N + 2];
	struct sock_fprog program = {2 * N + 2, code};

	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					       offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N; i++) {
		code[1 + 2 * i] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		code[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[2 * N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	begin_heap();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		die("prctl");
	if (!early)
		truth_ready();
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("prctl");
	if (early)
		truth_ready();
	script();
	return tell();
}

/* --- dlopen --- */

/* The library calls this function to allocate, so that its blocks are counted. */
NOINLINE static void through_library(size_t size)
{
	void *p = T_MALLOC(size);

	if (size % 4)
		T_FREE(p);
}

/* Copies the library to a file in memory, whose name goes into path. The file stays open, so that
 * no other file gets the same name. */
static void copy_library(const char *library, char *path, size_t size)
{
	int from = open(library, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);

	if (from < 0 || to < 0)
		die(library);
	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	close(from);
	snprintf(path, size, "/proc/self/fd/%d", to);
}

static int cycles(const char *library, int n, bool copies)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s", library);
	truth_ready();
	for (int i = 0; i < n; i++) {
		void (*leaf)(void (*)(size_t), size_t);
		void *handle;

		if (i == n / 10) { /* now a tester can measure how much the other rounds add */
			puts("begun");
			fflush(stdout);
			truth_await("go");
		}
		if (copies)
			copy_library(library, path, sizeof(path));
		handle = dlopen(path, RTLD_NOW);
		leaf = handle ? dlsym(handle, "lib_leaf") : NULL;
		if (!leaf)
			die(library);
		leaf(through_library, 100 + (size_t)i);
		if (copies)
			continue;
		if (dlclose(handle))
			die("dlclose");
		/* maps a page at this address, so that the next library is loaded elsewhere */
		if (mmap((void *)((uintptr_t)leaf & ~4095ul), 4096, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
			die("mmap");
	}
	return tell();
}

/* --- a daemon --- */

static int daemonized(void)
{
	static void *inherited[100];
	pid_t pid, parent;
	int status;

	truth_ready();
	for (size_t i = 0; i < 100; i++)
		inherited[i] = malloc(1000 + i);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid)
		_exit(waitpid(pid, &status, 0) != pid || status ? 97 : truth_exit_status);
	if (setsid() < 0)
		die("setsid");
	parent = getpid();
	pid = fork();
	if (pid)
		_exit(pid < 0);
	for (int i = 0; getppid() == parent; i++) {
		if (i == PATIENCE_MS)
			die("the parent does not end");
		usleep(1000);
	}
	for (size_t i = 0; i < 100; i++)
		free(inherited[i]); /* allocated before the forks */
	script();
	truth_print_open();
	printf(", \"pid\": %d}\n", getpid());
	return truth_finish();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	truth_init(argc, argv);
	if (!strcmp(what, "threads"))
		return threads();
	if (!strcmp(what, "headless"))
		return headless(truth_flag(argc, argv, "--early"),
				truth_flag(argc, argv, "--busy"));
	if (!strcmp(what, "exec"))
		return exec_by_thread(argc, argv);
	if (!strcmp(what, "undumpable"))
		return undumpable();
	if (!strcmp(what, "strict"))
		return strict();
	if (!strcmp(what, "filter"))
		return filter(truth_flag(argc, argv, "--early"));
	if (!strcmp(what, "dlopen") && argc > 3)
		return cycles(argv[2], atoi(argv[3]), truth_flag(argc, argv, "--copies"));
	if (!strcmp(what, "daemon"))
		return daemonized();
	fprintf(stderr,
		"usage: strange threads|headless|exec|undumpable|strict|filter|dlopen|daemon\n");
	return 2;
}
