// SPDX-License-Identifier: BSD-2-Clause
/* Selects processes that the user did not name. The capture is a fake: the linker replaces its
 * functions with those below. The process to check is the test itself. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "session/internal.h"

static struct {
	size_t n_judged, n_added, n_released, n_dropped;
	bool wanted;
	int exec_fd; /* a byte written to it lets the child call exec; 0: there is no child */
} fake;

/* Waits, for a limited time, until the process runs (or does not run) this test's program. */
static void await_program(pid_t pid, bool this)
{
	struct process_info info;

	for (int i = 0; i < 1000; i++) {
		if (!process__read(pid, &info) && info.exe[0] &&
		    (strstr(info.exe, "/test_selection") != NULL) == this)
			return;
		usleep(5000);
	}
	fail();
}

int __wrap_capture__judge_program(struct capture *capture, const struct abi_program *program,
				  bool wanted);
int __wrap_capture__judge_program(struct capture *capture, const struct abi_program *program,
				  bool wanted)
{
	(void)capture, (void)program;
	fake.n_judged++;
	fake.wanted = wanted;
	return 0;
}

int __wrap_capture__add_process(struct capture *capture, pid_t pid, uint32_t *ret_process,
				struct error *err);
int __wrap_capture__add_process(struct capture *capture, pid_t pid, uint32_t *ret_process,
				struct error *err)
{
	(void)capture, (void)err;
	*ret_process = (uint32_t)++fake.n_added;
	if (fake.exec_fd) {
		assert_int_equal(write(fake.exec_fd, "", 1), 1);
		fake.exec_fd = 0;
		await_program(pid, false);
	}
	return 0;
}

int __wrap_capture__release_process(struct capture *capture, pid_t pid);
int __wrap_capture__release_process(struct capture *capture, pid_t pid)
{
	(void)capture, (void)pid;
	fake.n_released++;
	return 0;
}

void __wrap_capture__drop_process(struct capture *capture, uint32_t process);
void __wrap_capture__drop_process(struct capture *capture, uint32_t process)
{
	(void)capture;
	assert_int_equal(process, fake.n_added);
	fake.n_dropped++;
}

void __wrap_targets__welcome(struct session *session, const struct abi_event *event);
void __wrap_targets__welcome(struct session *session, const struct abi_event *event)
{
	struct target *t = targets__add(session);

	assert_non_null(t);
	t->process = event->process;
	t->info.pid = (pid_t)event->tgid;
	t->start_ns = event->time_ns;
	t->cpu_start_ns = event->cpu_ns;
}

static struct session *session_of(const struct session_selection *selection)
{
	struct session *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	memset(&fake, 0, sizeof(fake));
	s->selection = selection;
	return s;
}

static void end(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++)
		free(s->targets[i]);
	free(s->targets);
	free(s);
}

static struct abi_event exec_of_this(void)
{
	struct abi_event event = {.kind = EVENT_UNKNOWN, .tgid = (uint32_t)getpid()};
	struct stat st;

	assert_int_equal(stat("/proc/self/exe", &st), 0);
	event.exe.changed_s = (uint64_t)st.st_ctim.tv_sec;
	event.exe.changed_ns = (uint32_t)st.st_ctim.tv_nsec;
	return event;
}

static void a_program_is_judged_by_its_path(void **state)
{
	static const struct {
		const char *exe;
		bool wanted;
	} cases[] = {{"*/test_selection", true}, {"/usr/bin/other", false}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct session_selection selection = {.dynamic = true, .exe = cases[i].exe};
		struct session *s = session_of(&selection);
		struct abi_event event = exec_of_this();

		selection__judge(s, &event);
		assert_int_equal(fake.n_judged, 1);
		assert_int_equal(fake.wanted, cases[i].wanted);
		assert_int_equal(s->n_targets, cases[i].wanted);
		end(s);
	}
}

/* A process that runs this test's program calls exec after memtrace has read the program's path,
 * and just before the kernel side knows the process. Returns the number of targets. */
static size_t targets_after_exec(const char *exe, bool follow)
{
	struct session_selection selection = {.dynamic = true, .follow = follow, .exe = exe};
	struct session *s = session_of(&selection);
	struct abi_event event = exec_of_this();
	size_t n_targets;
	int fds[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(fds[0], &byte, 1) == 1)
			execlp("sleep", "sleep", "60", NULL);
		_exit(99);
	}
	assert_true(pid > 0);
	await_program(pid, true);
	fake.exec_fd = fds[1];
	event.tgid = (uint32_t)pid;
	selection__judge(s, &event);
	assert_int_equal(fake.n_added, 1);
	n_targets = s->n_targets;
	assert_int_equal(fake.n_released, !n_targets);
	assert_int_equal(fake.n_dropped, !n_targets);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fds[0]);
	close(fds[1]);
	end(s);
	return n_targets;
}

static void a_process_that_leaves_the_selection_is_no_target(void **state)
{
	(void)state;
	assert_int_equal(targets_after_exec("*/test_selection", false), 0);
	assert_int_equal(targets_after_exec("*/*", false), 1);
	/* a target stays a target after its exec */
	assert_int_equal(targets_after_exec("*/test_selection", true), 1);
}

/* A target has executed a program that memtrace has not judged yet. This ends the target, but so
 * far the end is only noted (exit_ns). */
static void a_target_that_an_exec_ended_is_judged_again(void **state)
{
	struct session_selection selection = {.dynamic = true, .exe = "*/test_selection"};
	struct session *s = session_of(&selection);
	struct abi_event event = exec_of_this();
	struct target *t;

	(void)state;
	t = targets__add(s);
	assert_non_null(t);
	t->info.pid = getpid();
	selection__judge(s, &event);
	assert_int_equal(s->n_targets, 1); /* the process is a target */
	t->exit_ns = 1;
	selection__judge(s, &event);
	assert_int_equal(s->n_targets, 2);
	end(s);
}

/* The process executes another program before it is checked. The check of the new program does not
 * apply to the file in the event, so no verdict is stored for this file. The process still becomes
 * a target if the new program matches. */
static void a_verdict_is_of_the_file_that_was_asked_about(void **state)
{
	struct session_selection selection = {.dynamic = true, .exe = "*/test_selection"};
	struct session *s = session_of(&selection);
	struct abi_event event = exec_of_this();

	(void)state;
	event.exe.changed_ns ^= 1;
	selection__judge(s, &event);
	assert_int_equal(fake.n_judged, 0);
	assert_int_equal(s->n_targets, 1);
	selection__judge(s, &event); /* judged again: the process is a target already */
	assert_int_equal(fake.n_added, 1);
	end(s);
}

static void copy_file(const char *from, const char *to)
{
	char bytes[65536];
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	size_t n;

	assert_true(in && out);
	while ((n = fread(bytes, 1, sizeof(bytes), in)))
		assert_int_equal(fwrite(bytes, 1, n, out), n);
	fclose(in);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(to, 0700), 0);
}

/* Returns when the child runs the program at this path. */
static void wait_until_it_runs(pid_t child, const char *path)
{
	char link[64], exe[4096];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)child);
	for (int i = 0; i < 1000; i++, usleep(10000)) {
		ssize_t len = readlink(link, exe, sizeof(exe) - 1);

		assert_true(len > 0);
		exe[len] = '\0';
		if (!strcmp(exe, path))
			return;
	}
	fail_msg("the program was not started within 10 s");
}

/* The program's package was upgraded while the program ran. */
static void a_program_is_found_when_its_file_is_gone(void **state)
{
	static const struct {
		const char *exe;
		bool wanted;
	} cases[] = {{"*/program", true}, {"*/program *", true}, {"*/progra", false}};
	char dir[] = "/tmp/memtrace-test-selection-XXXXXX", path[64];
	pid_t child;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/program", dir);
	copy_file("/bin/sleep", path);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		execl(path, path, "60", NULL);
		_exit(1);
	}
	wait_until_it_runs(child, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct session_selection selection = {.dynamic = true, .exe = cases[i].exe};
		struct session *s = session_of(&selection);
		struct abi_event event = {.kind = EVENT_UNKNOWN, .tgid = (uint32_t)child};

		selection__judge(s, &event);
		assert_int_equal(s->n_targets, cases[i].wanted);
		end(s);
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The target begins at the time of its exec, not at the time when memtrace judged the exec. */
static void a_judged_target_begins_with_its_exec(void **state)
{
	struct session_selection selection = {.dynamic = true, .exe = "*/test_selection"};
	struct session *s = session_of(&selection);
	struct abi_event event = exec_of_this();

	(void)state;
	event.time_ns = 500;
	event.cpu_ns = 60;
	selection__judge(s, &event);
	assert_int_equal(s->n_targets, 1);
	assert_int_equal(s->targets[0]->start_ns, 500);
	assert_int_equal(s->targets[0]->cpu_start_ns, 60);
	end(s);
}

/* A process that ended before memtrace could judge it may have run the wanted program, so it is
 * counted. */
static void who_ended_unjudged_is_counted(void **state)
{
	struct session_selection selection = {.dynamic = true, .exe = "*/test_selection"};
	struct session *s = session_of(&selection);
	struct abi_event event = exec_of_this();
	pid_t gone = fork();

	(void)state;
	if (!gone)
		_exit(0);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	selection__judge(s, &event);
	assert_int_equal(s->unseen, 0);
	event.tgid = (uint32_t)gone;
	selection__judge(s, &event);
	assert_int_equal(s->unseen, 1);
	assert_int_equal(s->n_targets, 1);
	end(s);
}

static void comms_are_as_long_as_the_kernels(void **state)
{
	static const char *const names[] = {"a-name-of-20-letters"};
	struct session_selection selection = {.dynamic = true, .comms = names, .n_comms = 1};
	struct abi_selection told;

	(void)state;
	selection__to_kernel(&selection, &told);
	assert_int_equal(told.n_comms, 1);
	assert_int_equal(strlen(told.comms[0]), ABI_COMM_LEN - 1);
	assert_false(told.by_exe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_is_judged_by_its_path),
		cmocka_unit_test(a_target_that_an_exec_ended_is_judged_again),
		cmocka_unit_test(a_process_that_leaves_the_selection_is_no_target),
		cmocka_unit_test(a_verdict_is_of_the_file_that_was_asked_about),
		cmocka_unit_test(a_program_is_found_when_its_file_is_gone),
		cmocka_unit_test(a_judged_target_begins_with_its_exec),
		cmocka_unit_test(who_ended_unjudged_is_counted),
		cmocka_unit_test(comms_are_as_long_as_the_kernels),
	};

	return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
