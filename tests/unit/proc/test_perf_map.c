// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "tests/unit/proc/children.h"

/* The map in which a JIT compiler names its functions. */

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

	alarm(10); /* kills the test if open() waits for a FIFO */
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
	unlink(path); /* from an earlier process with this pid */
	assert_refuses(child, -ENOENT);
	assert_true(write_text(path, "10 10 f\n"));
	assert_opens(child, "10 10 f\n");

	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_refuses(child, -ELOOP); /* a symbolic link, although it leads to a good file */
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

	/* A thread has the map of its process. */
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

/* Makes this process root for its own processes and mounts. */
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

/* Starts a container: a process that is pid 1 of a pid namespace and has its own /tmp, which
 * furnish() fills. Returns its pid outside, or 0 if this machine allows no container. */
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
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
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

/* The map is in the process's own /tmp, named by the pid inside the container. */
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

	/* From outside the container, this link leads to a directory of the test. */
	assert_non_null(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/perf-1.map", outside);
	assert_true(write_text(path, "escaped\n"));
	child = contained_child(furnish_escape, outside, &parent);
	snprintf(naive, sizeof(naive), "/proc/%d/root/tmp/perf-1.map", child);
	fd = open(naive, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0); /* without protection, the path leads to the test's file */
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

/* The links of /proc could lead anywhere. */
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

/* If the test is root, it gives the file to another user. If not, it mounts a file of root over
 * it. */
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

/* The effective user owns the files that a process writes. This user is found even if the process
 * has thousands of groups. */
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
		cmocka_unit_test(test_perf_map),
		cmocka_unit_test(test_perf_map_in_container),
		cmocka_unit_test(test_perf_map_in_chroot),
		cmocka_unit_test(test_perf_map_by_magic_link),
		cmocka_unit_test(test_perf_map_of_others),
		cmocka_unit_test(test_perf_map_of_effective_user),
	};

	return cmocka_run_group_tests_name("perf map", tests, NULL, NULL);
}
