// SPDX-License-Identifier: BSD-2-Clause
/* The child that reads symbol tables. The child may do nothing else, and its parent trusts no
 * answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "symbolize/clean.h"
#include "symbolize/symtab.h"
#include "symbolize/symtab_child.h"

#include "child_fixture.h"
#include "fixture.h"

#define PATIENCE_S 60

static int make_program(void **state)
{
	static const char source[] = "int shown(int x) { return x + 1; }\n"
				     "int main(void) { return shown(0); }\n";

	unsetenv("DEBUGINFOD_URLS");
	if (fixture_setup(state) || !fixture_write("p.c", source, strlen(source)))
		return -1;
	return fixture_run("gcc -g -no-pie -o program p.c && "
			   "objcopy --only-keep-debug program program.debug")
		       ? 0
		       : -1;
}

/* Reads the program's symbols. The child calls in_child(). */
static int run_in_child(void (*in_child)(void), double patience_s, const char *debug_name,
			struct symtab **ret)
{
	size_t n_fds = count_fds();
	int fd = open_fixture("program"), debug_fd = debug_name ? open_fixture(debug_name) : -1;
	struct symtab *tab = NULL;
	int err;

	symtab__test_hooks.in_child = in_child;
	err = symtab__open(fd, &debug_fd, SYMTAB_FUNCTIONS, patience_s, NULL, &tab);
	symtab__test_hooks.in_child = NULL;
	assert_int_equal(!err, tab != NULL);
	assert_no_child();
	close(fd);
	if (debug_fd >= 0)
		assert_int_equal(close(debug_fd), 0); /* the caller still owns it */
	assert_int_equal(count_fds(), n_fds);
	if (ret)
		*ret = tab;
	else
		symtab__free(tab);
	return err;
}

/* --- what the child may do --- */

static void child_tries_calls(void)
{
	CHILD_ASSERT(refused(syscall(SYS_open, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_socket, 1, 1, 0)));
	CHILD_ASSERT(refused(syscall(SYS_kill, getppid(), 0)));
	CHILD_ASSERT(refused(syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_fork)));
	CHILD_ASSERT(refused(syscall(SYS_execve, "/bin/true", NULL, NULL)));
	CHILD_ASSERT(refused(syscall(SYS_bpf, 0, NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_setresuid, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_write, CHILD_FILE_FD, "", 1)));
}

static void looks_at_fds(int end)
{
	struct stat st;

	for (int fd = 0; fd < SANDBOX_FIRST_FD; fd++)
		CHILD_ASSERT(!fstat(fd, &st) && S_ISCHR(st.st_mode));
	CHILD_ASSERT(!fstat(CHILD_FILE_FD, &st) && S_ISREG(st.st_mode));
	CHILD_ASSERT(!fstat(CHILD_OUT_FD, &st) && S_ISFIFO(st.st_mode));
	for (int fd = CHILD_OTHER_FD; fd < end; fd++)
		CHILD_ASSERT(!fstat(fd, &st) && S_ISREG(st.st_mode));
	for (int fd = end; fd < 4096; fd++)
		CHILD_ASSERT(fstat(fd, &st) && errno == EBADF);
}

static void child_has_one_file(void)
{
	looks_at_fds(CHILD_OTHER_FD);
}

static void child_has_two_files(void)
{
	looks_at_fds(CHILD_OTHER_FD + 1);
}

static void test_confined(void **state)
{
	struct symtab *tab;

	(void)state;
	assert_int_equal(run_in_child(child_tries_calls, PATIENCE_S, NULL, NULL), 0);
	assert_int_equal(run_in_child(child_has_one_file, PATIENCE_S, NULL, NULL), 0);
	assert_int_equal(run_in_child(child_has_two_files, PATIENCE_S, "program.debug", &tab), 0);
	assert_false(symtab__empty(tab));
	symtab__free(tab);
	assert_int_equal(run_in_child(child_has_one_file, PATIENCE_S, "program.debug", NULL),
			 -ECHILD); /* a failed check is noticed */
}

static void test_nobody(void **state)
{
	_cleanup_close_ int fd = open_fixture("program");
	static struct watch watch;
	const struct stream_waiting waiting = {watch_child, &watch};
	struct symtab *tab;
	int none = -1;

	(void)state;
	symtab__test_hooks.in_child = child_waits;
	assert_int_equal(symtab__open(fd, &none, SYMTAB_FUNCTIONS, PATIENCE_S, &waiting, &tab),
			 -ECHILD);
	symtab__test_hooks.in_child = NULL;
	assert_nobody(&watch, 5);
}

/* If the child cannot enter the sandbox, nothing is read. */
static void test_no_sandbox(void **state)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {sizeof(program) / sizeof(*program), program};
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0))
			_exit(2);
		_exit(run_in_child(NULL, PATIENCE_S, NULL, NULL) == -EPERM ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- a child that fails --- */

static void child_crashes(void)
{
	__builtin_trap();
}

static void child_ends(void)
{
	_exit(CHILD_DONE);
}

static void child_fails(void)
{
	_exit(CHILD_FAILED);
}

static void child_refuses(void)
{
	_exit(CHILD_NO_DATA);
}

static void child_spins(void)
{
	for (;;)
		__asm__ volatile("");
}

static void test_failures(void **state)
{
	double begin_s;

	(void)state;
	assert_int_equal(run_in_child(child_crashes, PATIENCE_S, NULL, NULL), -ECHILD);
	assert_int_equal(run_in_child(child_ends, PATIENCE_S, NULL, NULL), -ECHILD);
	assert_int_equal(run_in_child(child_fails, PATIENCE_S, NULL, NULL), -ECHILD);
	assert_int_equal(run_in_child(child_refuses, PATIENCE_S, NULL, NULL), -ENOEXEC);
	begin_s = now_s();
	assert_int_equal(run_in_child(child_spins, 0.3, NULL, NULL), -ETIMEDOUT);
	assert_true(now_s() - begin_s >= 0.3 && now_s() - begin_s < 10);
	assert_int_equal(run_in_child(NULL, 0, NULL, NULL), -ETIMEDOUT);
}

static void count_call(void *ctx)
{
	++*(int *)ctx;
}

static void test_who_waits_is_called(void **state)
{
	_cleanup_close_ int fd = open_fixture("program");
	int n = 0, none = -1;
	struct stream_waiting waiting = {count_call, &n};
	struct symtab *tab;

	(void)state;
	symtab__test_hooks.in_child = child_spins;
	assert_int_equal(symtab__open(fd, &none, SYMTAB_FUNCTIONS, 0.6, &waiting, &tab),
			 -ETIMEDOUT);
	symtab__test_hooks.in_child = NULL;
	assert_true(n >= 4);
}

/* --- a child that lies --- */

static const void *lie;
static size_t lie_len;

static void child_lies(void)
{
	CHILD_ASSERT(write(CHILD_OUT_FD, lie, lie_len) == (ssize_t)lie_len);
	_exit(CHILD_DONE);
}

static int run_lie(const void *data, size_t len, struct symtab **ret)
{
	lie = data;
	lie_len = len;
	return run_in_child(child_lies, PATIENCE_S, NULL, ret);
}

struct said {
	struct symtab_wire wire;
	struct symtab_range ranges[2];
	char names[8];
};

static const struct said truth = {
	{2, 8},
	{{0x10, 0x20, 0x10, 0}, {0x20, 0x30, 0x10, 5}},
	{'a', 'b', 'c', 'd', '\0', 'e', 'f', '\0'},
};

static void test_truth(void **state)
{
	struct symtab *tab;
	uint64_t start;

	(void)state;
	assert_int_equal(run_lie(&truth, sizeof(truth), &tab), 0);
	assert_null(symtab__find(tab, 0xf, &start));
	assert_string_equal(symtab__find(tab, 0x1f, &start), "abcd");
	assert_int_equal(start, 0x10);
	assert_string_equal(symtab__find(tab, 0x20, &start), "ef");
	assert_int_equal(start, 0x10);
	assert_null(symtab__find(tab, 0x30, &start));
	symtab__free(tab);

	/* A file without functions. */
	assert_int_equal(run_lie(&(struct symtab_wire){0}, sizeof(struct symtab_wire), &tab), 0);
	assert_true(symtab__empty(tab));
	assert_null(symtab__find(tab, 0, NULL));
	symtab__free(tab);
}

static void assert_lie(const struct said *said, size_t len)
{
	struct symtab *tab;

	assert_int_equal(run_lie(said, len, &tab), -ECHILD);
}

static void test_lies(void **state)
{
	char more[sizeof(truth) + 1] = {0};
	struct said said;

	(void)state;
	/* an answer that is cut short, at each length */
	for (size_t len = 0; len < sizeof(truth); len += 5)
		assert_lie(&truth, len);
	assert_lie(&truth, sizeof(truth) - 1);
	memcpy(more, &truth, sizeof(truth));
	assert_lie((const void *)more, sizeof(more));

#define LIE(field, value)                                                                          \
	do {                                                                                       \
		said = truth;                                                                      \
		said.field = (value);                                                              \
		assert_lie(&said, sizeof(said));                                                   \
	} while (0)
	/* false numbers */
	LIE(wire.n_ranges, UINT64_MAX);
	LIE(wire.n_ranges, UINT64_MAX / sizeof(struct symtab_range) + 1);
	LIE(wire.n_ranges, 1ull << 40);
	LIE(wire.n_ranges, 2ull * SYMTAB_MAX_SYMBOLS); /* too many for so small a file */
	LIE(wire.n_ranges, 3);
	LIE(wire.n_ranges, 1);
	LIE(wire.names_bytes, UINT64_MAX);
	LIE(wire.names_bytes, 1ull << 40);
	LIE(wire.names_bytes, 9);
	LIE(wire.names_bytes, 7);
	LIE(wire.names_bytes, 0);
	/* ranges in a wrong order */
	LIE(ranges[0].end, 0x10);
	LIE(ranges[0].end, 0xf);
	LIE(ranges[0].end, 0x21);
	LIE(ranges[1].start, 0x1f);
	LIE(ranges[1].start, 0);
	LIE(ranges[1].end, 0);
	LIE(ranges[0].function, 0x11);
	LIE(ranges[1].function, UINT64_MAX);
	/* false names */
	LIE(ranges[0].name, 8);
	LIE(ranges[0].name, UINT64_MAX);
	LIE(ranges[1].name, 1ull << 32);
	LIE(ranges[1].name, 4); /* empty */
	LIE(names[7], 'g');
#undef LIE
}

/* The last name has no end, or a name is too long, or a name cannot be printed. */
static void test_names(void **state)
{
	struct {
		struct symtab_wire wire;
		struct symtab_range range;
		char names[NAME_MAX_BYTES + 2];
	} said = {{1, 0}, {0x10, 0x20, 0x10, 0}, ""};
	struct symtab *tab;
	size_t head = offsetof(__typeof__(said), names);

	(void)state;
	memset(said.names, 'n', NAME_MAX_BYTES);
	said.wire.names_bytes = NAME_MAX_BYTES + 1;
	assert_int_equal(run_lie(&said, head + said.wire.names_bytes, &tab), 0);
	assert_int_equal(strlen(symtab__find(tab, 0x10, NULL)), NAME_MAX_BYTES);
	symtab__free(tab);
	said.names[NAME_MAX_BYTES] = 'n';
	said.wire.names_bytes = NAME_MAX_BYTES + 2;
	assert_int_equal(run_lie(&said, head + said.wire.names_bytes, &tab), -ECHILD);

	memcpy(said.names, "a\n\033\xff", 5);
	said.wire.names_bytes = 5;
	assert_int_equal(run_lie(&said, head + said.wire.names_bytes, &tab), 0);
	assert_string_equal(symtab__find(tab, 0x10, NULL), "a???");
	symtab__free(tab);
}

static void child_talks_forever(void)
{
	static char zeros[65536];

	for (;;)
		CHILD_ASSERT(write(CHILD_OUT_FD, zeros, sizeof(zeros)) == sizeof(zeros));
}

static void test_endless(void **state)
{
	(void)state;
	assert_int_equal(run_in_child(child_talks_forever, PATIENCE_S, NULL, NULL), -ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_no_sandbox),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_who_waits_is_called),
		cmocka_unit_test(test_truth),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_endless),
	};

	return cmocka_run_group_tests(tests, make_program, fixture_teardown);
}
