// SPDX-License-Identifier: BSD-2-Clause
#include "elf/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allowance.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/search.h"
#include "base/vector.h"
#include "elf/debug_file.h"

/* limit of the bytes that are compared in all. A comparison is longest if two files differ only in
 * their last byte */
#define MAX_COMPARED (1ULL << 32)
/* Each second raises the limit by this: the agent runs for months, and new containers bring new
 * copies. */
#define COMPARED_PER_S (1ULL << 20)

/* A file with the content of a binary. fd, a descriptor of this file, keeps the kernel from giving
 * the file's inode to another file. */
struct known {
	struct file_id id, real;
	int fd;
	off_t size;
	struct timespec written, changed;
	struct timespec touched; /* its ctime when `real` was found out, or confirmed */
	struct binary *binary;
	unsigned char mark;
	bool used; /* the file was used since the last binaries__evict() */
	/* time of the first binaries__evict() that found the file unused; 0: the last call found
	 * the file used */
	uint64_t idle_ns;
};

struct binaries {
	struct known *known; /* ascending by id */
	size_t n_known, known_room;
	struct binary **list; /* indexed by binary.index; NULL: the binary was freed */
	size_t n, room;
	size_t *freed; /* indexes that may be reused, the oldest first; there is room for n of
			* them */
	size_t n_freed, freed_room;
	bool (*forget)(void *ctx, size_t index); /* set by binaries__reuse() */
	void *forget_ctx;
	/* bytes that may be compared, of files with the same build-id; renewed by
	 * binaries__evict() */
	struct allowance comparing;
	int fds_end; /* descriptors from this number on are left for other uses */
};

static void binary__free(struct binary *binary)
{
	if (!binary)
		return;
	if (binary->fd >= 0)
		close(binary->fd);
	if (binary->debug_fd >= 0)
		close(binary->debug_fd);
	elf_image__free(binary->image);
	free(binary->path);
	free(binary);
}

DEFINE_CLEANUP(struct binary *, cleanup_binary, binary__free)

int binaries__new(struct binaries **ret)
{
	struct rlimit limit;

	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT_MAX)
		limit.rlim_cur = 1024;
	(*ret)->comparing = (struct allowance)ALLOWANCE(MAX_COMPARED, COMPARED_PER_S);
	(*ret)->fds_end = (int)(limit.rlim_cur - limit.rlim_cur / 4);
	return 0;
}

void binaries__free(struct binaries *binaries)
{
	if (!binaries)
		return;
	for (size_t i = 0; i < binaries->n_known; i++)
		close(binaries->known[i].fd);
	for (size_t i = 0; i < binaries->n; i++)
		binary__free(binaries->list[i]);
	free(binaries->known);
	free(binaries->list);
	free(binaries->freed);
	free(binaries);
}

/* Returns the index of id in `known`, or where to insert it. */
static size_t position(const struct binaries *binaries, const struct file_id *id)
{
	return SEARCH_FIRST(i, binaries->n_known,
			    file_id__compare(&binaries->known[i].id, id) >= 0);
}

/* Returns the file known as id, even if it was written to since it became known; NULL: none. */
static struct known *find_former(const struct binaries *binaries, const struct file_id *id)
{
	size_t at = position(binaries, id);

	return at < binaries->n_known && file_id__equal(&binaries->known[at].id, id)
		       ? &binaries->known[at]
		       : NULL;
}

static bool is_at(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool unchanged(const struct known *known)
{
	struct stat st;

	return !fstat(known->fd, &st) && st.st_size == known->size &&
	       is_at(&st.st_mtim, &known->written);
}

static struct known *find_known(const struct binaries *binaries, const struct file_id *id)
{
	struct known *known = find_former(binaries, id);

	return known && unchanged(known) ? known : NULL;
}

struct binary *binaries__find(const struct binaries *binaries, const struct file_id *id)
{
	const struct known *known = find_known(binaries, id);

	return known ? known->binary : NULL;
}

int binaries__open(const struct binaries *binaries, const struct file_id *id)
{
	const struct known *known = find_known(binaries, id);
	int fd = known ? fcntl(known->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (!known)
		return -ENOENT;
	return fd < 0 ? -errno : fd;
}

unsigned char *binaries__mark(struct binaries *binaries, const struct file_id *id)
{
	struct known *known = find_known(binaries, id);

	return known ? &known->mark : NULL;
}

void binaries__mark_all(struct binaries *binaries, const struct file_id *real, unsigned char mark)
{
	for (size_t i = 0; i < binaries->n_known; i++)
		if (file_id__equal(&binaries->known[i].real, real))
			binaries->known[i].mark = mark;
}

void binaries__set_real(struct binaries *binaries, const struct file_id *id,
			const struct file_id *real)
{
	struct known *known = find_former(binaries, id);

	if (known)
		known->real = *real;
}

void binaries__keep_real(struct binaries *binaries, const struct file_id *id)
{
	struct known *known = find_former(binaries, id);
	struct stat st;

	if (known && !fstat(known->fd, &st))
		known->touched = st.st_ctim;
}

bool binaries__may_be_copied(const struct binaries *binaries, const struct file_id *id)
{
	const struct known *known = find_former(binaries, id);
	struct stat st;

	return known && !file_id__equal(&known->id, &known->real) && !fstat(known->fd, &st) &&
	       !is_at(&st.st_ctim, &known->touched);
}

const struct file_id *binaries__real(const struct binaries *binaries, const struct file_id *id)
{
	const struct known *known = find_former(binaries, id);

	return known ? &known->real : NULL;
}

bool binaries__state(const struct binaries *binaries, const struct file_id *id,
		     struct file_state *ret)
{
	const struct known *known = find_former(binaries, id);

	if (!known)
		return false;
	*ret = (struct file_state){(uint64_t)known->size, known->changed};
	return true;
}

static bool same_content(struct binaries *binaries, int a, int b, off_t size)
{
	char x[65536], y[sizeof(x)];
	ssize_t n;

	for (off_t off = 0; off < size; off += n) {
		if (binaries->comparing.left <= 0)
			return false;
		binaries->comparing.left -= sizeof(x);
		n = io__pread(a, x, sizeof(x), (uint64_t)off);
		if (n <= 0 || io__pread(b, y, sizeof(y), (uint64_t)off) != n ||
		    memcmp(x, y, (size_t)n) != 0)
			return false;
	}
	return true;
}

/* Finds a known binary whose file has the same content as the file behind fd; NULL: there is none.
 * The two files must have the same owner, and only the owner may write to the known file. Otherwise
 * somebody else could write to the known file later. */
static struct binary *find_copy(struct binaries *binaries, int fd, const struct stat *st,
				const struct elf_image *image)
{
	const char *build_id = image ? elf_image__build_id(image) : NULL;
	struct stat other;

	if (!build_id)
		return NULL;
	for (size_t i = 0; i < binaries->n; i++) {
		struct binary *b = binaries->list[i];
		const char *its_id = b && b->image ? elf_image__build_id(b->image) : NULL;

		if (its_id && !strcmp(its_id, build_id) && !fstat(b->fd, &other) &&
		    other.st_size == st->st_size && other.st_uid == st->st_uid &&
		    !(other.st_mode & (S_IWGRP | S_IWOTH)) &&
		    same_content(binaries, b->fd, fd, st->st_size))
			return b;
	}
	return NULL;
}

static int find_debug_file(int fd, int root_fd, const char *path)
{
	_cleanup_close_ int own_root = -1;
	int debug_fd = -1;

	if (root_fd < 0)
		return -1;
	debug_fd = debug_file__open(root_fd, fd, path);
	if (debug_fd >= 0)
		return debug_fd;
	own_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	debug_fd = own_root < 0 ? -1 : debug_file__open(own_root, fd, path);
	return debug_fd < 0 ? -1 : debug_fd;
}

static int make_room(struct binaries *binaries)
{
	if (VECTOR_RESERVE(binaries->known, binaries->known_room, binaries->n_known + 1))
		return -ENOMEM;
	if (VECTOR_RESERVE(binaries->list, binaries->room, binaries->n + 1))
		return -ENOMEM;
	if (VECTOR_RESERVE(binaries->freed, binaries->freed_room, binaries->n + 1))
		return -ENOMEM;
	return 0;
}

/* Takes one file off the binary's count. Frees the binary if it has no files left, because nobody
 * can find such a binary any more. */
static void forget_file_of(struct binaries *binaries, struct binary *binary)
{
	if (--binary->n_files)
		return;
	binaries->list[binary->index] = NULL;
	binaries->freed[binaries->n_freed++] = binary->index;
	binary__free(binary);
}

/* Gives the binary a descriptor of another of its files. The reason: the file of the present
 * descriptor is being closed, or may have been written to. Searches for the other file among the n
 * entries of `known`. False: there is no other file. */
static bool change_descriptor(struct binary *binary, const struct known *known, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int fd = known[i].binary == binary ? fcntl(known[i].fd, F_DUPFD_CLOEXEC, 0) : -1;

		if (fd < 0)
			continue;
		close(binary->fd);
		binary->fd = fd;
		return true;
	}
	return false;
}

void binaries__reuse(struct binaries *binaries, bool (*forget)(void *ctx, size_t index), void *ctx)
{
	binaries->forget = forget;
	binaries->forget_ctx = ctx;
}

/* Returns an index for a new binary. If an index cannot be reused yet, it is tried again next time.
 * The reason: an unwind table may stay in the kernel long after its binary was freed. */
static size_t take_index(struct binaries *binaries)
{
	for (size_t i = 0; binaries->forget && i < binaries->n_freed; i++) {
		size_t index = binaries->freed[i];

		if (!binaries->forget(binaries->forget_ctx, index))
			continue;
		memmove(binaries->freed + i, binaries->freed + i + 1,
			(--binaries->n_freed - i) * sizeof(*binaries->freed));
		return index;
	}
	return binaries->n++;
}

int binaries__add(struct binaries *binaries, const struct file_id *id, int fd, int root_fd,
		  const char *path, struct binary **ret)
{
	_cleanup_close_ int own_fd = fd;
	_cleanup_(cleanup_binary) struct binary *added = NULL;
	struct binary *binary, *old = NULL;
	struct known *known;
	struct stat st;
	size_t at;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (fd >= binaries->fds_end)
		return -EMFILE;
	err = make_room(binaries);
	if (err)
		return err;
	added = calloc(1, sizeof(*added));
	if (!added)
		return -ENOMEM;
	added->fd = added->debug_fd = -1;
	added->path = strdup(path);
	if (!added->path)
		return -ENOMEM;
	err = elf_image__open_code(fd, path, &added->image, NULL);
	if (err == -ENOMEM)
		return err;
	if (added->image)
		elf_image__close_file(added->image);
	binary = find_copy(binaries, fd, &st, added->image);
	if (!binary) {
		added->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (added->fd < 0)
			return -errno;
		if (added->image)
			added->debug_fd = find_debug_file(fd, root_fd, path);
		added->index = take_index(binaries);
		binary = added;
		binaries->list[added->index] = added;
		added = NULL;
	}

	at = position(binaries, id);
	known = &binaries->known[at];
	if (at < binaries->n_known && file_id__equal(&known->id, id)) {
		close(known->fd); /* the file was written to since it was added, or is added a
				   * second time */
		old = known->binary;
	} else {
		memmove(known + 1, known, (binaries->n_known - at) * sizeof(*known));
		binaries->n_known++;
	}
	*known = (struct known){.id = *id,
				.real = *id,
				.fd = take_fd(&own_fd),
				.size = st.st_size,
				.written = st.st_mtim,
				.touched = st.st_ctim,
				.changed = st.st_ctim,
				.binary = binary};
	binary->n_files++;
	if (old && old != binary)
		change_descriptor(old, binaries->known, binaries->n_known);
	if (old)
		forget_file_of(binaries, old);
	*ret = binary;
	return 0;
}

void binaries__use(struct binaries *binaries, const struct file_id *id)
{
	struct known *known = find_former(binaries, id);

	if (known)
		known->used = true;
}

/* Is it time to close this unused file? */
static bool is_over(struct known *known, uint64_t now_ns, uint64_t idle_ns)
{
	struct stat st;

	if (!known->idle_ns)
		known->idle_ns = now_ns;
	return now_ns - known->idle_ns >= idle_ns || fstat(known->fd, &st) || !st.st_nlink;
}

/* Does one of n known files have the pages of the file `real`? */
static bool any_of_real(const struct known *known, size_t n, const struct file_id *real)
{
	for (size_t i = 0; i < n; i++)
		if (file_id__equal(&known[i].real, real))
			return true;
	return false;
}

size_t binaries__evict(struct binaries *binaries, uint64_t now_ns, uint64_t idle_ns,
		       void (*fn)(void *ctx, const struct file_id *id, const struct file_id *real,
				  bool last),
		       void *ctx)
{
	size_t n = 0, idle = 0, before = binaries->n_known;

	allowance__renew(&binaries->comparing, now_ns);
	for (size_t i = 0; i < before; i++) {
		struct known *known = &binaries->known[i];

		if (known->used) {
			known->idle_ns = 0;
		} else if (is_over(known, now_ns, idle_ns)) {
			fn(ctx, &known->id, &known->real,
			   !any_of_real(binaries->known, n, &known->real) &&
				   !any_of_real(known + 1, before - i - 1, &known->real));
			close(known->fd);
			if (!change_descriptor(known->binary, binaries->known, n))
				change_descriptor(known->binary, known + 1, before - i - 1);
			forget_file_of(binaries, known->binary);
			continue;
		}
		idle += !known->used;
		known->used = false;
		binaries->known[n++] = *known;
	}
	binaries->n_known = n;
	return idle;
}

int binaries__grow(const struct binaries *binaries, void *array, size_t *n, size_t size)
{
	char *grown;

	if (binaries->n <= *n)
		return 0;
	memcpy(&grown, array, sizeof(grown)); /* any type of pointer */
	grown = reallocarray(grown, binaries->n, size);
	if (!grown)
		return -ENOMEM;
	memset(grown + *n * size, 0, (binaries->n - *n) * size);
	memcpy(array, &grown, sizeof(grown));
	*n = binaries->n;
	return 0;
}
