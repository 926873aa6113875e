/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that processes run code from. Each file is opened once, however many processes map it.
 * The file stays open as long as it is needed, because the process that maps it may end, and
 * another file may get the file's name. The arrays of data for unwinding and naming are indexed by
 * binary.index. */
#ifndef MEMTRACE_ELF_BINARY_H
#define MEMTRACE_ELF_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/file_id.h"
#include "elf/image.h"

struct binary {
	size_t index;	/* index in the arrays of binaries__grow(); an index is reused only if
			 * binaries__reuse() was called */
	size_t n_files; /* number of known files with this content */
	char *path;	/* the file's name in the first process that mapped it */
	int fd;		/* a descriptor of one of the files with this content */
	int debug_fd;	/* a descriptor of the separate debug file; -1: none. A caller that finds
			 * the debug file later stores its descriptor here */
	/* Segments and build-id, no code and no symbols. NULL: not an ELF file of this machine. */
	struct elf_image *image;
};

/* opaque; owns the struct binary objects. A binary is freed by binaries__free(), or as soon as it
 * has no files: binaries__evict() forgets files, and binaries__add() replaces a file that
 * changed */
struct binaries;

int binaries__new(struct binaries **ret); /* 0 or -ENOMEM */
void binaries__free(struct binaries *binaries);

/* Finds the binary of the file known as id; NULL: there is none. A file that was written to since
 * it was added is no longer known. */
struct binary *binaries__find(const struct binaries *binaries, const struct file_id *id);

/* Gets the state that the file known as id had when it became known, before anything was read from
 * it. Unlike binaries__find(), also finds a file that was written to since then. False: the file
 * was not added, and *ret is not written. */
struct file_state {
	uint64_t size;		 /* bytes */
	struct timespec changed; /* ctime */
};
bool binaries__state(const struct binaries *binaries, const struct file_id *id,
		     struct file_state *ret);

/* Adds the regular file behind fd, which is then known as id. Takes ownership of fd, also after an
 * error. A file with the same owner, build-id and content as a known file joins this file's binary,
 * because containers hold many copies of a library. (If the build-id alone decided, a hostile
 * process could have the symbols of its own file shown for another process's library.) After 4 GiB
 * have been compared in all, a copy becomes a binary of its own. Each call of binaries__evict()
 * raises the limit again: by 1 MiB for each second since the previous call, up to 4 GiB.
 *
 * path is the file's name in the process that maps it. root_fd is this process's root directory
 * (O_PATH); -1: none. A separate debug file is searched for below root_fd, then below memtrace's
 * own root. Without root_fd, no debug file is searched for. Returns 0, or negative errno. -EMFILE:
 * fd is in the last quarter of the descriptors that memtrace was allowed to have when
 * binaries__new() was called. This quarter is kept free, because a machine that keeps compiling new
 * programs must not use up all descriptors of memtrace. */
int binaries__add(struct binaries *binaries, const struct file_id *id, int fd, int root_fd,
		  const char *path, struct binary **ret);

/* Records that the file known as id has the pages of the file `real`. If that file is on overlayfs,
 * `real` is a file of a layer below it. Before this call, `real` is id itself (binaries__add()). */
void binaries__set_real(struct binaries *binaries, const struct file_id *id,
			const struct file_id *real);
/* Returns the file `real` that was recorded for the file known as id; NULL: id is not known. Valid
 * until the next binaries__add() or binaries__evict(). */
const struct file_id *binaries__real(const struct binaries *binaries, const struct file_id *id);

/* May the file known as id have the pages of another file by now? On overlayfs even a change of the
 * file's owner copies the file. Such a change shows in its ctime. */
bool binaries__may_be_copied(const struct binaries *binaries, const struct file_id *id);
/* Records that the file still has the pages of the file `real`. */
void binaries__keep_real(struct binaries *binaries, const struct file_id *id);

/* Returns a new descriptor of the very file known as id, not merely of a file with the same
 * content. The caller owns the descriptor. -ENOENT: id is not known; other negative errno. */
int binaries__open(const struct binaries *binaries, const struct file_id *id);

/* Returns a pointer to a mark on the file known as id, for the caller's use. The mark is 0 when the
 * file becomes known, and disappears when the file is forgotten. NULL: id is not known. The pointer
 * is valid until the next binaries__add() or binaries__evict(). */
unsigned char *binaries__mark(struct binaries *binaries, const struct file_id *id);
/* Sets the marks of all known files that have the pages of the file `real`. */
void binaries__mark_all(struct binaries *binaries, const struct file_id *real, unsigned char mark);

/* Records that the file known as id is in use: the next binaries__evict() keeps it. */
void binaries__use(struct binaries *binaries, const struct file_id *id);

/* Forgets files that nobody has used since the last call. A deleted file is closed at once, because
 * only memtrace's descriptor still holds its disk blocks. Any other file is kept until it has been
 * unused for idle_ns (by the caller's clock, now_ns), because its program may be run again. After
 * that time the file is closed, because an open file keeps its file system from being unmounted. fn
 * is called for each file before it is closed, and must not use the binaries. `real`: the file that
 * binaries__real() returns. `last`: no other known file has the pages of the file `real`. A binary
 * without files is freed. If a file with the same content comes later, a new binary is made.
 * Returns how many unused files are still kept. */
size_t binaries__evict(struct binaries *binaries, uint64_t now_ns, uint64_t idle_ns,
		       void (*fn)(void *ctx, const struct file_id *id, const struct file_id *real,
				  bool last),
		       void *ctx);

/* From now on a new binary may get the index of a binary that was freed, if forget() returns true.
 * Before forget() returns true, it sets the elements with this index in all arrays to zero. Without
 * binaries__reuse(), each new binary makes the arrays longer. */
void binaries__reuse(struct binaries *binaries, bool (*forget)(void *ctx, size_t index), void *ctx);

/* Enlarges an array that is indexed by binary, so that it has an element for every binary so far.
 * *n is the array's number of elements, `size` is the size of one element in bytes. New elements
 * are zero. array points to the pointer to the elements, which is reallocated. 0 or -ENOMEM. */
int binaries__grow(const struct binaries *binaries, void *array, size_t *n, size_t size);

#endif
