// SPDX-License-Identifier: BSD-2-Clause
/* The tree of cgroups is a file system. /proc/self/mountinfo tells where it is mounted:
 *
 *	41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
 *	           |  mount point                                  type
 *	           the mounted part of the tree
 *
 * memtrace tells the kernel on which level below the root a cgroup is. In a cgroup namespace, or
 * through a mount of a part of the tree, memtrace does not see the root. Then it would count levels
 * from another directory than the kernel does. So memtrace needs a mount of the whole tree. Two
 * signs together show that a mount has the whole tree. First, the mounted directory is the root of
 * the tree: the cgroup with the number 1 (cgroup_setup_root() of the kernel insists on this
 * number). Second, mountinfo names the mounted directory "/", so this directory is also the root of
 * memtrace's own cgroup namespace. Then paths mean the same to memtrace, to /proc/PID/cgroup and to
 * the kernel. */
#include "proc/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/vector.h"

#define ROOT_ID	       1
#define MAX_MOUNTS     100000 /* lines of mountinfo; fs.mount-max allows as many per namespace */
#define MAX_CGROUPS    100000
#define MAX_DEPTH      16
#define MAX_LISTED     5
#define MIN_ID_LEN     8
#define ID_CHARACTERS  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"
#define OPEN_DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Replaces the kernel's escapes in place: blanks, tabs, newlines and backslashes are \040 and the
 * like. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
		    text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
				       (text[3] - '0'));
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* Is this line of mountinfo a mount of cgroup2? Cuts the line into pieces; *ret_root and *ret_point
 * point into the line. */
static bool parse_mount(char *line, char **ret_root, char **ret_point)
{
	char *field[6], *type;

	for (int i = 0; i < 6; i++) {
		field[i] = strsep(&line, " ");
		if (!field[i])
			return false;
	}
	/* Skips any number of optional fields, ended by a dash. */
	do
		type = strsep(&line, " ");
	while (type && strcmp(type, "-"));
	type = strsep(&line, " ");
	if (!type || strcmp(type, "cgroup2"))
		return false;
	*ret_root = field[3];
	*ret_point = field[4];
	unescape(*ret_root);
	unescape(*ret_point);
	return true;
}

static bool is_cgroup2(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Opens the mount point, if the whole tree is mounted there. (Another file system may have been
 * mounted over it.) */
static int open_root(const char *point)
{
	_cleanup_close_ int fd = open(point, OPEN_DIRECTORY);
	struct stat st;

	if (fd < 0 || !is_cgroup2(fd) || fstat(fd, &st) < 0 || st.st_ino != ROOT_ID)
		return -ENODEV;
	return take_fd(&fd);
}

/* Opens the root of the tree. *ret_point is the path at which it is mounted. A descriptor, or
 * negative errno with err. */
static int find_root(char **ret_point, struct error *err)
{
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	bool partly = false;
	size_t size = 0;
	ssize_t len;

	if (!mounts)
		return error__set(err, -errno, "cannot read /proc/self/mountinfo: %s",
				  strerror(errno));
	for (int i = 0; i < MAX_MOUNTS && (len = getline(&line, &size, mounts)) > 0; i++) {
		char *root, *point;
		int fd;

		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (!parse_mount(line, &root, &point))
			continue;
		partly = true;
		fd = strcmp(root, "/") ? -ENODEV : open_root(point);
		if (fd < 0)
			continue;
		*ret_point = strdup(point);
		if (*ret_point)
			return fd;
		close(fd);
		return error__set(err, -ENOMEM, "out of memory");
	}
	if (partly)
		return error__set(
			err, -ENODEV,
			"cgroup v2 is not mounted here from its root: run memtrace in the "
			"machine's own mount and cgroup namespaces");
	return error__set(err, -ENODEV,
			  "there is no cgroup v2 here: no file system of type cgroup2 is mounted");
}

/* Makes a clean copy of a path below the root, "/a//b/." -> "/a/b", and counts its levels. NULL:
 * out of memory. */
static char *clean_path(const char *path, uint32_t *ret_level)
{
	char *clean = malloc(strlen(path) + 2), *to = clean;

	*ret_level = 0;
	if (!clean)
		return NULL;
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && !(len == 1 && *path == '.')) {
			*to++ = '/';
			to = mempcpy(to, path, len);
			++*ret_level;
		}
		path += len;
		path += *path == '/';
	}
	if (to == clean)
		*to++ = '/';
	*to = '\0';
	return clean;
}

static bool has_dotdot(const char *path)
{
	size_t len;

	for (; *path; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		if (len == 2 && !memcmp(path, "..", 2))
			return true;
	}
	return false;
}

/* Returns the part of `path` below the directory `top`, or NULL if the path is not below it. `top`
 * has no '/' at its end unless it is "/". */
static const char *path_below(const char *path, const char *top)
{
	size_t len = strcmp(top, "/") ? strlen(top) : 0;

	if (strncmp(path, top, len) || (path[len] != '/' && path[len]))
		return NULL;
	return path + len;
}

/* Opens the directory of a cgroup. path is its path below the root, as clean_path() makes it. */
static int open_below(int root_fd, const char *path)
{
	int fd = openat(root_fd, path[1] ? path + 1 : ".", OPEN_DIRECTORY);

	return fd < 0 ? -errno : fd;
}

/* Fills in the cgroup of a path. Takes over `path`, also on failure. 0 or negative errno. -ENOTDIR:
 * the path is not a cgroup's. */
static int fill(int root_fd, char *path, uint32_t level, struct cgroup *ret_cgroup)
{
	_cleanup_free_ char *owned = path;
	_cleanup_close_ int fd = open_below(root_fd, path);
	struct stat st;

	if (fd < 0)
		return fd;
	if (!is_cgroup2(fd))
		return -ENOTDIR;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_cgroup = (struct cgroup){.id = st.st_ino, .level = level, .path = owned};
	owned = NULL;
	return 0;
}

int cgroup__open(const char *path, struct cgroup *ret_cgroup, struct error *err)
{
	_cleanup_free_ char *point = NULL, *clean = NULL;
	_cleanup_close_ int root_fd = -1;
	const char *below;
	uint32_t level;
	char *within;
	int ret;

	if (*path != '/' || has_dotdot(path))
		return error__set(
			err, -EINVAL,
			"'%s' is not the path of a cgroup: such a path begins with '/', as in "
			"/proc/PID/cgroup or below /sys/fs/cgroup, and has no '..'",
			path);
	root_fd = find_root(&point, err);
	if (root_fd < 0)
		return root_fd;
	clean = clean_path(path, &level);
	if (!clean)
		return error__set(err, -ENOMEM, "out of memory");
	below = path_below(clean, point);
	within = clean_path(below ? below : clean, &level);
	if (!within)
		return error__set(err, -ENOMEM, "out of memory");
	ret = fill(root_fd, within, level, ret_cgroup);
	if (ret == -ENOTDIR || (ret == -ENOENT && !below && access(path, F_OK) == 0))
		return error__set(err, -ENOTDIR,
				  "'%s' is not a cgroup of version 2, whose directories are below "
				  "%s",
				  path, point);
	if (ret == -ENOENT)
		return error__set(err, ret, "there is no cgroup '%s' below %s", path, point);
	if (ret)
		return error__set(err, ret, "cannot open the cgroup '%s': %s", path,
				  strerror(-ret));
	return 0;
}

/* --- the cgroup of a container --- */

/* A cgroup in the list of cgroups to search. */
struct node {
	uint32_t parent; /* the parent's index in the list */
	uint32_t level;
	char *name;
};

/* The list of cgroups to search, those nearer to the root first. The children of a cgroup are added
 * at the end of the list. */
struct walk {
	struct node *nodes;
	uint32_t n;
};

static void walk__clear(struct walk *walk)
{
	for (uint32_t i = 0; i < walk->n; i++)
		free(walk->nodes[i].name);
	free(walk->nodes);
}

static int walk__add(struct walk *walk, uint32_t parent, uint32_t level, const char *name)
{
	struct node *node;

	if (walk->n == MAX_CGROUPS)
		return -E2BIG;
	if (VECTOR_ADD_ROOM(walk->nodes, walk->n))
		return -ENOMEM;
	node = &walk->nodes[walk->n];
	*node = (struct node){parent, level, strdup(name)};
	if (!node->name)
		return -ENOMEM;
	walk->n++;
	return 0;
}

/* Returns the path of a node, such as "/a/b". NULL: out of memory. */
static char *walk__path(const struct walk *walk, uint32_t i)
{
	const struct node *nodes = walk->nodes;
	size_t len = 0;
	char *path, *pos;

	for (uint32_t k = i; k; k = nodes[k].parent)
		len += 1 + strlen(nodes[k].name);
	path = malloc(len + 2);
	if (!path)
		return NULL;
	pos = path + len;
	*pos = '\0';
	for (uint32_t k = i; k; k = nodes[k].parent) {
		size_t n = strlen(nodes[k].name);

		pos -= n;
		memcpy(pos, nodes[k].name, n);
		*--pos = '/';
	}
	return len ? path : strcpy(path, "/");
}

static bool is_directory(int dir_fd, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Adds the children of node i. Adds nothing if the cgroup no longer exists, or if its path is too
 * long for the kernel. */
static int walk__descend(struct walk *walk, int root_fd, uint32_t i)
{
	_cleanup_free_ char *path = walk__path(walk, i);
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int fd, err;

	if (!path)
		return -ENOMEM;
	fd = open_below(root_fd, path);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	if (!is_cgroup2(fd))
		return 0;
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    !is_directory(fd, entry))
			continue;
		err = walk__add(walk, i, walk->nodes[i].level + 1, entry->d_name);
		if (err)
			return err;
	}
	return 0;
}

/* Does the name show that the directory is the container's? The program that monitors a container
 * has a directory beside the container's, with the same id in its name. */
static bool names_container(const char *name, const char *id)
{
	static const char *const monitors[] = {"conmon-", "lxc.monitor."};

	for (const char *at = strstr(name, id); at; at = strstr(at + 1, id)) {
		bool monitor = false;

		for (size_t i = 0; i < sizeof(monitors) / sizeof(monitors[0]); i++) {
			size_t len = strlen(monitors[i]);

			monitor |=
				(size_t)(at - name) >= len && !memcmp(at - len, monitors[i], len);
		}
		if (!monitor)
			return true;
	}
	return false;
}

/* Sets the error. Its text lists the cgroups at the level of `first` that could be the
 * container. */
static int not_unique(const struct walk *walk, uint32_t first, const char *id, struct error *err)
{
	uint32_t level = walk->nodes[first].level;
	char list[448] = "";
	size_t used = 0, n = 0;

	for (uint32_t i = first; i < walk->n && walk->nodes[i].level == level; i++) {
		_cleanup_free_ char *path = NULL;

		if (!names_container(walk->nodes[i].name, id) || n++ >= MAX_LISTED)
			continue;
		path = walk__path(walk, i);
		if (!path)
			return error__set(err, -ENOMEM, "out of memory");
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 n > 1 ? ", " : "", path);
		if (used >= sizeof(list))
			used = sizeof(list) - 1;
	}
	return error__set(err, -ENOTUNIQ,
			  "%zu cgroups could be the container '%s': %s%s; choose one "
			  "by its path",
			  n, id, list, n > MAX_LISTED ? ", ..." : "");
}

/* Finds the nodes whose names have the container's id, on the first level that has such nodes.
 * *ret_first is the index of the first such node. Returns how many there are, or negative errno.
 * Searches level by level. So a cgroup near the root is found, however many cgroups are far below
 * the root. */
static int walk__search(struct walk *walk, int root_fd, const char *id, uint32_t *ret_first)
{
	int found = 0, err = walk__add(walk, 0, 0, "");
	uint32_t begin = 0, end = walk->n;

	for (int level = 0; !err && !found && begin < end; level++) {
		for (uint32_t i = begin; i < end; i++)
			if (names_container(walk->nodes[i].name, id) && !found++)
				*ret_first = i;
		for (; !err && !found && level < MAX_DEPTH && begin < end; begin++)
			err = walk__descend(walk, root_fd, begin);
		begin = end;
		end = walk->n;
	}
	return err ? err : found;
}

int cgroup__find_container(const char *id, struct cgroup *ret_cgroup, struct error *err)
{
	_cleanup_(walk__clear) struct walk walk = {};
	_cleanup_free_ char *point = NULL;
	_cleanup_close_ int root_fd = -1;
	uint32_t first = 0;
	char *path;
	int ret;

	if (strlen(id) < MIN_ID_LEN || id[strspn(id, ID_CHARACTERS)])
		return error__set(err, -EINVAL,
				  "'%s' is not a container's id: at least %d letters, digits, "
				  "'_', '.' or '-'",
				  id, MIN_ID_LEN);
	root_fd = find_root(&point, err);
	if (root_fd < 0)
		return root_fd;
	ret = walk__search(&walk, root_fd, id, &first);
	if (ret == -E2BIG)
		return error__set(err, ret,
				  "there are more than %d cgroups, too many to look for a "
				  "container in; choose one by its path",
				  MAX_CGROUPS);
	if (ret < 0)
		return error__set(err, ret, "cannot look for the container '%s' below %s: %s", id,
				  point, strerror(-ret));
	if (ret == 0)
		return error__set(
			err, -ENOENT,
			"there is no container '%s': no cgroup below %s has this id in its "
			"name (a name is not an id: docker inspect -f '{{.Id}}' NAME tells it)",
			id, point);
	if (ret > 1)
		return not_unique(&walk, first, id, err);
	path = walk__path(&walk, first);
	if (!path)
		return error__set(err, -ENOMEM, "out of memory");
	ret = fill(root_fd, path, walk.nodes[first].level, ret_cgroup);
	if (ret)
		return error__set(err, ret, "cannot open the cgroup of the container '%s': %s", id,
				  strerror(-ret));
	return 0;
}

bool cgroup__holds(const struct cgroup *cgroup, pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	char name[32];
	size_t size = 0;
	ssize_t len;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	file = fopen(name, "re");
	if (!file)
		return false;
	/* Beside the line "0::PATH", the file has a line for each hierarchy of version 1, and there
	 * are few hierarchies. */
	while ((len = getline(&line, &size, file)) > 0) {
		if (strncmp(line, "0::/", 4))
			continue;
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		return path_below(line + 3, cgroup->path) != NULL;
	}
	return false;
}
