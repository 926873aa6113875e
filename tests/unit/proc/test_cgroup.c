// SPDX-License-Identifier: BSD-2-Clause
/* The test makes groups below the machine's own root. getmntent(3) shows where the root is mounted.
 * name_to_handle_at(2) shows the number of a group. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <mntent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "proc/cgroup.h"

#define ID_REST "0123456789abcdef0123456789abcdef0123456789abcdef01234567"

static char mount_point[4096]; /* "" when there is no cgroup v2 */
static char top[64];	       /* "/memtrace-test-PID" */
static pid_t children[4];      /* children in groups of this test; 0: none */
static char id[65];	       /* 64 digits; the first 8 are unique */

static void find_mount(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;

	while (mounts && (entry = getmntent(mounts)))
		if (!strcmp(entry->mnt_type, "cgroup2"))
			snprintf(mount_point, sizeof(mount_point), "%s", entry->mnt_dir);
	if (mounts)
		endmntent(mounts);
}

/* The directory of the group called top + path. */
static const char *directory(const char *path)
{
	static char name[8192];

	snprintf(name, sizeof(name), "%s%s%s", mount_point, top, path);
	return name;
}

/* Makes the group and those above it, top included. */
static void make_group(const char *path)
{
	char part[4096];

	for (size_t i = 0; i <= strlen(path); i++) {
		if (path[i] != '/' && path[i])
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)i, path);
		if (mkdir(directory(part), 0755) && errno != EEXIST)
			fail_msg("cannot make %s: %s", directory(part), strerror(errno));
	}
}

static int remove_group(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP && rmdir(name))
		print_message("cannot remove %s: %s\n", name, strerror(errno));
	return 0;
}

static void remove_groups(void)
{
	nftw(directory(""), remove_group, 32, FTW_DEPTH | FTW_PHYS);
}

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/memtrace-test-%d", getpid());
	snprintf(id, sizeof(id), "%08x%s", getpid() | 0xe0000000u, ID_REST);
	find_mount();
	return 0;
}

static void end_child(size_t i)
{
	if (children[i]) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
		children[i] = 0;
	}
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++)
		end_child(i);
	if (*mount_point)
		remove_groups();
	return 0;
}

static void needs_root(void)
{
	if (geteuid() != 0) {
		print_message("only root can make cgroups\n");
		skip();
	}
	if (!*mount_point) {
		print_message("there is no cgroup v2 here\n");
		skip();
	}
}

/* The kernel's number of a group. */
static uint64_t kernel_id(const char *name)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} buf = {.handle.handle_bytes = MAX_HANDLE_SZ};
	uint64_t number;
	int mount_id;

	assert_int_equal(name_to_handle_at(AT_FDCWD, name, &buf.handle, &mount_id, 0), 0);
	assert_int_equal(buf.handle.handle_bytes, sizeof(number));
	memcpy(&number, buf.handle.f_handle, sizeof(number));
	return number;
}

/* Checks that path opens the group called top + expected, of this level. */
static void assert_opens(const char *path, const char *expected, uint32_t level)
{
	struct cgroup cgroup = {};
	struct error err = {};
	char full[4096];

	if (cgroup__open(path, &cgroup, &err))
		fail_msg("%s: %s", path, err.text);
	snprintf(full, sizeof(full), "%s%s", top, expected);
	assert_string_equal(cgroup.path, full);
	assert_true(cgroup.id == kernel_id(directory(expected)));
	assert_int_equal(cgroup.level, level);
	free(cgroup.path);
}

static void assert_fails(int code, const char *says, const char *path)
{
	struct cgroup cgroup = {.id = 77};
	struct error err = {};

	assert_int_equal(cgroup__open(path, &cgroup, &err), code);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, says))
		fail_msg("%s: says %s", path, err.text);
	assert_true(cgroup.id == 77); /* unchanged */
	assert_int_equal(cgroup__open(path, &cgroup, NULL), code);
}

static void paths_of_both_kinds_are_taken(void **state)
{
	struct cgroup root = {};
	struct error err = {};
	char path[4200];

	(void)state;
	needs_root();
	make_group("/system.slice/x");
	make_group("/a \\040\t\x1b[2Jb\xff");
	snprintf(path, sizeof(path), "%s/system.slice/x", top);
	assert_opens(path, "/system.slice/x", 3);
	assert_opens(directory("/system.slice/x"), "/system.slice/x", 3);
	assert_opens(directory("/system.slice///./x//"), "/system.slice/x", 3);
	assert_opens(directory("/."), "", 1);
	assert_opens(directory("/a \\040\t\x1b[2Jb\xff"), "/a \\040\t\x1b[2Jb\xff", 2);

	assert_int_equal(cgroup__open("/", &root, &err), 0);
	assert_string_equal(root.path, "/");
	assert_true(root.id == kernel_id(mount_point));
	assert_int_equal(root.level, 0);
	free(root.path);
	assert_int_equal(cgroup__open(mount_point, &root, &err), 0);
	assert_string_equal(root.path, "/");
	free(root.path);
}

static void what_is_no_cgroup_is_refused(void **state)
{
	char path[4200];

	(void)state;
	assert_fails(-EINVAL, "not the path of a cgroup", "");
	assert_fails(-EINVAL, "'system.slice'", "system.slice");
	assert_fails(-EINVAL, "no '..'", "/a/../b");
	assert_fails(-EINVAL, "no '..'", "/..");
	needs_root();
	make_group("/..a");
	assert_opens(directory("/..a"), "/..a", 2);
	assert_fails(-ENOENT, "there is no cgroup", "/memtrace-test-none/x");
	assert_fails(-ENOENT, mount_point, directory("/none"));
	/* A path that only begins like the mount point is not below it. */
	snprintf(path, sizeof(path), "%sx", mount_point);
	assert_fails(-ENOENT, "there is no cgroup", path);
	assert_fails(-ENOTDIR, "is not a cgroup of version 2", "/tmp");
	assert_fails(-ENOTDIR, mount_point, "/proc/self");
	assert_fails(-ENOTDIR, "is not a cgroup of version 2", directory("/cgroup.procs"));
}

/* Checks that the container is found as the group called top + expected. */
static void assert_found(const char *name, const char *expected)
{
	struct cgroup cgroup = {};
	struct error err = {};
	uint32_t level = 1;
	char full[4096];

	if (cgroup__find_container(name, &cgroup, &err))
		fail_msg("%s: %s", name, err.text);
	snprintf(full, sizeof(full), "%s%s", top, expected);
	assert_string_equal(cgroup.path, full);
	assert_true(cgroup.id == kernel_id(directory(expected)));
	for (const char *c = expected; *c; c++)
		level += *c == '/';
	assert_int_equal(cgroup.level, level);
	free(cgroup.path);
}

static void assert_not_found(int code, const char *says, const char *name)
{
	struct cgroup cgroup = {.id = 77};
	struct error err = {};

	assert_int_equal(cgroup__find_container(name, &cgroup, &err), code);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, says))
		fail_msg("%s: says %s", name, err.text);
	assert_true(cgroup.id == 77);
}

static void containers_are_found_by_their_id(void **state)
{
	static const char *const forms[] = {
		"/docker-%s.scope",
		"/docker/%s",
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-pod1.slice/crio-%s.scope",
		"/kubepods.slice/kubepods-pod2.slice/cri-containerd-%s.scope",
		"/machine.slice/libpod-%s.scope",
		"/%s",
		"/lxc.payload.%s",
		"/lxc/%s",
	};
	char prefix[13], name[64], path[256];

	(void)state;
	needs_root();
	snprintf(prefix, sizeof(prefix), "%.12s", id);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(path, sizeof(path), forms[i], id);
		assert_not_found(-ENOENT, "there is no container", id);
		make_group(path);
		assert_found(id, path);
		assert_found(prefix, path); /* as docker ps prints it */
		remove_groups();
	}
	snprintf(name, sizeof(name), "web_Server-1.%d", getpid());
	snprintf(path, sizeof(path), "/lxc/%s", name);
	make_group(path);
	assert_found(name, path);
}

static void ids_are_checked(void **state)
{
	(void)state;
	assert_not_found(-EINVAL, "not a container's id", "");
	assert_not_found(-EINVAL, "at least 8", "1234567");
	assert_not_found(-EINVAL, "not a container's id", "12345678/");
	assert_not_found(-EINVAL, "not a container's id", "../../../..");
	assert_not_found(-EINVAL, "not a container's id", "1234 5678");
	assert_not_found(-EINVAL, "not a container's id", "12345678\n");
	needs_root();
	assert_not_found(-ENOENT, "there is no container", "no-such-container-0");
}

static void nearest_to_the_root_is_the_container(void **state)
{
	char path[512], shallow[128];

	(void)state;
	needs_root();
	/* A program in a container may make groups of the container's own name below it. systemd in
	 * a container makes groups with other names. */
	snprintf(path, sizeof(path), "/m/libpod-%s.scope/container/%s", id, id);
	make_group(path);
	snprintf(path, sizeof(path), "/a/b/c/%s", id);
	make_group(path);
	snprintf(shallow, sizeof(shallow), "/m/libpod-%s.scope", id);
	assert_found(id, shallow);
	/* The group of the container's monitor is beside the container's group. */
	snprintf(path, sizeof(path), "/m/libpod-conmon-%s.scope", id);
	make_group(path);
	snprintf(path, sizeof(path), "/m/lxc.monitor.%s", id);
	make_group(path);
	assert_found(id, shallow);
}

static void several_are_listed(void **state)
{
	struct cgroup cgroup = {};
	struct error err = {};
	char path[128], prefix[9];
	int listed = 0;

	(void)state;
	needs_root();
	snprintf(prefix, sizeof(prefix), "%.8s", id);
	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "/%d/%s.%d", i, prefix, i);
		make_group(path);
		if (i != 1)
			continue;
		snprintf(path, sizeof(path), "%s/1/%s.1", top, prefix);
		assert_not_found(-ENOTUNIQ, "2 cgroups could be", prefix);
		assert_not_found(-ENOTUNIQ, path, prefix);
		snprintf(path, sizeof(path), "%s/0/%s.0", top, prefix);
		assert_not_found(-ENOTUNIQ, path, prefix);
	}
	assert_int_equal(cgroup__find_container(prefix, &cgroup, &err), -ENOTUNIQ);
	assert_non_null(strstr(err.text, "6 cgroups could be"));
	assert_non_null(strstr(err.text, ", ...;"));
	for (const char *at = err.text; (at = strstr(at, top)); at++)
		listed++;
	assert_int_equal(listed, 5);
	/* A name that only one container has finds this container. */
	snprintf(path, sizeof(path), "%s.3", prefix);
	assert_int_equal(cgroup__find_container(path, &cgroup, NULL), 0);
	assert_int_equal(cgroup.level, 3);
	free(cgroup.path);
}

static void depth_is_bounded(void **state)
{
	char path[256] = "";

	(void)state;
	needs_root();
	for (int level = 2; level < 16; level++) /* the level of top is 1 */
		strcat(path, "/d");
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", id);
	make_group(path);
	assert_found(id, path);
	remove_groups();

	path[0] = '\0';
	for (int level = 2; level < 17; level++)
		strcat(path, "/d");
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", id);
	make_group(path);
	assert_not_found(-ENOENT, "there is no container", id);
	assert_opens(directory(path), path, 17);
}

/* --- which processes --- */

/* A child, number i, that is in the group called top + path and waits to be killed. */
static pid_t child_in(size_t i, const char *path)
{
	char procs[256];
	FILE *file;
	pid_t child;

	make_group(path);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	children[i] = child;
	file = fopen(directory(procs), "we");
	assert_non_null(file);
	fprintf(file, "%d\n", child);
	assert_int_equal(fclose(file), 0);
	return child;
}

static bool holds(const char *path, pid_t pid)
{
	struct cgroup cgroup;
	bool ret;

	make_group(path);
	assert_int_equal(cgroup__open(directory(path), &cgroup, NULL), 0);
	ret = cgroup__holds(&cgroup, pid);
	free(cgroup.path);
	return ret;
}

static void processes_below_are_held(void **state)
{
	struct cgroup root = {};
	pid_t child, odd;

	(void)state;
	needs_root();
	child = child_in(0, "/a/b");
	odd = child_in(1, "/a/b c\\040");
	assert_true(holds("", child));
	assert_true(holds("/a", child));
	assert_true(holds("/a/b", child));
	assert_false(holds("/a/b/c", child));
	assert_false(holds("/a/", getpid()));
	assert_false(holds("/b", child));
	/* These names begin with the same letters. */
	assert_false(holds("/a/bb", child));
	assert_false(holds("/aa", child));
	assert_false(holds("/a/b", odd));
	assert_true(holds("/a/b c\\040", odd));

	assert_int_equal(cgroup__open("/", &root, NULL), 0);
	assert_true(cgroup__holds(&root, child));
	assert_true(cgroup__holds(&root, getpid()));
	end_child(0);
	assert_false(cgroup__holds(&root, child));
	assert_false(cgroup__holds(&root, 0x7fffffff));
	free(root.path);
}

/* --- where the tree is mounted --- */

/* Runs fn in a child with its own mounts, from which the cgroup2 mounts are removed. */
static void in_own_mounts(const char *(*fn)(const char *dir))
{
	char dir[] = "/tmp/memtrace-cgroup-XXXXXX";
	int status;
	pid_t child;

	assert_non_null(mkdtemp(dir));
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const char *wrong;

		alarm(30);
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", dir, "tmpfs", 0, NULL))
			_exit(2);
		do {
			if (umount2(mount_point, MNT_DETACH))
				_exit(2);
			*mount_point = '\0';
			find_mount();
		} while (*mount_point);
		wrong = fn(dir);
		if (wrong)
			print_message("%s\n", wrong);
		_exit(wrong ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	rmdir(dir);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2) {
		print_message("mounts cannot be changed here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static const char *no_version_2(const char *dir)
{
	struct cgroup cgroup;
	struct error err = {};

	(void)dir;
	if (cgroup__open("/", &cgroup, &err) != -ENODEV || !strstr(err.text, "no cgroup v2 here"))
		return "a cgroup without a mount";
	if (cgroup__find_container(id, &cgroup, NULL) != -ENODEV)
		return "a container without a mount";
	return NULL;
}

static const char *odd_mount_points(const char *dir)
{
	struct cgroup cgroup;
	struct error err = {};
	char path[256], below[512];

	snprintf(path, sizeof(path), "%s/a \\040\tb\nc", dir);
	if (mkdir(path, 0700) || mount("none", path, "cgroup2", 0, NULL))
		return "no mount";
	snprintf(below, sizeof(below), "%s%s", path, top);
	if (mkdir(below, 0755))
		return "no group";
	if (cgroup__open(below, &cgroup, &err))
		return err.text[0] ? strdup(err.text) : "not opened";
	if (strcmp(cgroup.path, top) || cgroup.level != 1 || cgroup.id != kernel_id(below))
		return "another group";
	free(cgroup.path);
	if (rmdir(below))
		return "the group stays";

	/* Another file system hides the mount. Then the tree is mounted a second time. */
	if (mount("none", path, "tmpfs", 0, NULL))
		return "no mount over it";
	if (cgroup__open("/", &cgroup, NULL) != -ENODEV)
		return "a hidden mount";
	snprintf(path, sizeof(path), "%s/again", dir);
	if (mkdir(path, 0700) || mount("none", path, "cgroup2", 0, NULL))
		return "no second mount";
	if (cgroup__open(path, &cgroup, NULL) || strcmp(cgroup.path, "/") || cgroup.id != 1)
		return "not the second mount";
	free(cgroup.path);
	return NULL;
}

/* If only a part of the tree is mounted or can be seen, its levels cannot be counted from the
 * tree's root. So opening a group fails. */
static const char *parts_of_the_tree(const char *dir)
{
	struct cgroup cgroup;
	struct error err = {};
	char whole[256], part[256], group[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/whole", dir);
	snprintf(part, sizeof(part), "%s/part", dir);
	if (mkdir(whole, 0700) || mkdir(part, 0700) || mount("none", whole, "cgroup2", 0, NULL))
		return "no mount";
	snprintf(group, sizeof(group), "%s%s", whole, top);
	if (mkdir(group, 0755) || mount(group, part, NULL, MS_BIND, NULL))
		return "no group";
	if (cgroup__open(group, &cgroup, NULL))
		return "not opened";
	free(cgroup.path);
	if (umount2(whole, MNT_DETACH))
		return "mount stays";
	if (cgroup__open("/", &cgroup, &err) != -ENODEV || !strstr(err.text, "from its root"))
		return "a mount of a part";

	/* The whole tree, seen from a cgroup namespace, where paths in /proc/PID/cgroup differ. */
	snprintf(group, sizeof(group), "%s/cgroup.procs", part);
	file = fopen(group, "we");
	if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file))
		return "cannot enter the group";
	if (mount("none", whole, "cgroup2", 0, NULL) || cgroup__open("/", &cgroup, NULL))
		return "no mount again";
	free(cgroup.path);
	if (unshare(CLONE_NEWCGROUP))
		return "no namespace";
	err = (struct error){};
	if (cgroup__open("/", &cgroup, &err) != -ENODEV || !strstr(err.text, "from its root"))
		return "another namespace's root";

	/* A part of the tree that is mounted inside the namespace looks like the whole. */
	if (umount2(whole, MNT_DETACH) || mount("none", whole, "cgroup2", 0, NULL))
		return "no mount in the namespace";
	err = (struct error){};
	if (cgroup__open("/", &cgroup, &err) != -ENODEV || !strstr(err.text, "from its root"))
		return "a root that is none";
	return NULL;
}

static void mounts_are_found_wherever_they_are(void **state)
{
	(void)state;
	needs_root();
	in_own_mounts(no_version_2);
	in_own_mounts(odd_mount_points);
	in_own_mounts(parts_of_the_tree);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(paths_of_both_kinds_are_taken),
		TEST(what_is_no_cgroup_is_refused),
		TEST(containers_are_found_by_their_id),
		TEST(ids_are_checked),
		TEST(nearest_to_the_root_is_the_container),
		TEST(several_are_listed),
		TEST(depth_is_bounded),
		TEST(processes_below_are_held),
		TEST(mounts_are_found_wherever_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
