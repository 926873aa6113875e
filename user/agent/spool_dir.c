// SPDX-License-Identifier: BSD-2-Clause
#include "agent/spool_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/vector.h"

#define TIME_FORM "ddddddddTddddddZ." /* d: a digit */
#define SUFFIX	  ".pb.gz"
#define COMM_LEN  15 /* the kernel keeps no more characters of a name */

/* A profile of the spool. */
struct entry {
	char name[SPOOL_NAME];
	uint64_t bytes;
};

int spool_dir__open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void spool_dir__name(const struct profile *p, char ret[SPOOL_NAME])
{
	time_t at = (time_t)((double)p->start_unix_ns / 1e9 + p->duration_s);
	char time[32], comm[COMM_LEN + 1];
	struct tm utc;

	if (!gmtime_r(&at, &utc))
		memset(&utc, 0, sizeof(utc));
	strftime(time, sizeof(time), "%Y%m%dT%H%M%SZ", &utc);
	snprintf(comm, sizeof(comm), "%.*s", COMM_LEN, p->comm);
	for (char *c = comm; *c; c++)
		if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') &&
		    !(*c >= '0' && *c <= '9') && !strchr("-_.", *c))
			*c = '_';
	snprintf(ret, SPOOL_NAME, "%.16s.%s.%d%s" SUFFIX, time, comm, p->pid,
		 profile__is_regions(p)	 ? ".regions"
		 : profile__is_faults(p) ? ".faults"
					 : "");
}

static bool has_file(int dir_fd, const char *name)
{
	struct stat st;

	return !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
}

void spool_dir__free_name(int dir_fd, char name[SPOOL_NAME])
{
	int len = (int)(strlen(name) - strlen(SUFFIX));
	char given[SPOOL_NAME];

	strcpy(given, name);
	/* the directory has at most SPOOL_FILES profiles */
	for (int i = 2; has_file(dir_fd, name) && i <= SPOOL_FILES + 1; i++)
		snprintf(name, SPOOL_NAME, "%.*s-%d" SUFFIX, len, given, i);
}

static bool is_ours(const char *name)
{
	size_t len = strlen(name);

	if (len >= SPOOL_NAME || len < sizeof(TIME_FORM) + sizeof(SUFFIX) ||
	    strcmp(name + len + 1 - sizeof(SUFFIX), SUFFIX))
		return false;
	for (const char *form = TIME_FORM; *form; form++, name++)
		if (*form == 'd' ? !isdigit((unsigned char)*name) : *form != *name)
			return false;
	return true;
}

/* Compares by time. Of two profiles of the same second, the one with a number at the end of its
 * name is younger. */
static int by_age(const void *a, const void *b)
{
	const char *x = ((const struct entry *)a)->name, *y = ((const struct entry *)b)->name;
	int order = strncmp(x, y, sizeof(TIME_FORM) - 1);

	if (!order)
		order = (strlen(x) > strlen(y)) - (strlen(x) < strlen(y));
	return order ? order : strcmp(x, y);
}

/* Deletes a half-written file, unless an mt-spool is still writing it. The mt-spool of an earlier
 * tracer may still run beside this one. */
static void delete_half_written(int dir_fd, const char *hidden)
{
	_cleanup_close_ int fd =
		openat(dir_fd, hidden, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || !flock(fd, LOCK_SH | LOCK_NB) || errno != EWOULDBLOCK)
		unlinkat(dir_fd, hidden, 0);
}

/* Lists the profiles in the directory, oldest first. Deletes half-written files. */
static int list(int dir_fd, struct entry **ret, size_t *ret_n)
{
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ struct entry *entries = NULL;
	const struct dirent *found;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n = 0;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int rc = -errno;

		if (fd >= 0)
			close(fd);
		return rc;
	}
	while ((found = readdir(dir))) {
		struct stat st;

		if (found->d_name[0] == '.' && is_ours(found->d_name + 1))
			delete_half_written(dir_fd, found->d_name);
		if (!is_ours(found->d_name) ||
		    fstatat(dir_fd, found->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		if (VECTOR_ADD_ROOM(entries, n))
			return -ENOMEM;
		strcpy(entries[n].name, found->d_name);
		entries[n++].bytes = (uint64_t)st.st_size;
	}
	if (n)
		qsort(entries, n, sizeof(*entries), by_age);
	*ret = entries;
	entries = NULL;
	*ret_n = n;
	return 0;
}

int spool_dir__make_room(int dir_fd, uint64_t bytes, size_t *ret_n)
{
	_cleanup_free_ struct entry *entries = NULL;
	uint64_t sum = bytes;
	size_t n = 0, gone = 0;
	int rc = list(dir_fd, &entries, &n);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		sum += entries[i].bytes;
	for (; gone < n && (n - gone >= SPOOL_FILES || sum > SPOOL_BYTES); gone++) {
		if (unlinkat(dir_fd, entries[gone].name, 0) && errno != ENOENT)
			return -errno;
		sum -= entries[gone].bytes;
	}
	*ret_n = gone;
	return 0;
}

static int copy(int to, int from)
{
	uint64_t size = io__file_bytes(from);
	off_t done = 0;

	while ((uint64_t)done < size) {
		ssize_t n = sendfile(to, from, &done, size - (uint64_t)done);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
	}
	return fsync(to) ? -errno : 0;
}

/* Does the name stand for this open file? */
static bool is_name_of(int dir_fd, const char *name, int fd)
{
	struct stat named, opened;

	return !fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &opened) &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* Makes the file, and locks it as long as its descriptor is open. Returns the descriptor, or
 * negative errno. -EEXIST: another mt-spool writes a file of this name. */
static int make_locked(int dir_fd, const char *hidden)
{
	for (;;) {
		_cleanup_close_ int fd = openat(
			dir_fd, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0)
			return -errno;
		flock(fd, LOCK_EX); /* some file systems have no locks */
		/* The file may have been deleted as half-written before it was locked. Another
		 * mt-spool may have made a new file of this name since then. */
		if (is_name_of(dir_fd, hidden, fd))
			return take_fd(&fd);
	}
}

int spool_dir__write(int dir_fd, const char *name, int memory)
{
	_cleanup_close_ int fd = -1;
	char hidden[SPOOL_NAME + 1];
	int rc;

	snprintf(hidden, sizeof(hidden), ".%s", name);
	fd = make_locked(dir_fd, hidden);
	if (fd < 0)
		return fd;
	rc = copy(fd, memory);
	if (!rc && renameat(dir_fd, hidden, dir_fd, name))
		rc = -errno;
	if (rc) {
		unlinkat(dir_fd, hidden, 0);
		return rc;
	}
	/* writes the file's name to the disk, too; some file systems cannot do this, so errors are
	 * ignored */
	fsync(dir_fd);
	return 0;
}
