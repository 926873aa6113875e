/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that processes run code from, each opened once however many processes map it, and kept
 * open while one of them is of interest: its process may end, its name be taken over. What
 * unwinding and naming make of a file hangs on the struct binary found here. */
#ifndef MEMTRACE_ELF_BINARY_H
#define MEMTRACE_ELF_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/file_id.h"
#include "elf/image.h"

struct binary {
	size_t index;	/* for binaries__grow(); never changes, and is no other's later */
	size_t n_files; /* that have this content */
	char *path;	/* as the first process that mapped it calls it */
	int fd;		/* of one of them */
	int debug_fd; /* its separate debug file; -1: none. Whoever finds one later puts it here */
	/* Segments and build-id, no code and no symbols. NULL: it is no ELF file of this machine.
	 */
	struct elf_image *image;
};

/* opaque; owns its struct binary, which live until binaries__evict() or as long as it does */
struct binaries;

int binaries__new(struct binaries **ret); /* 0 or -ENOMEM */
void binaries__free(struct binaries *binaries);

/* What is known as id, or NULL. A file that was written to since is not known any more. */
struct binary *binaries__find(const struct binaries *binaries, const struct file_id *id);

/* What the file known as id was when it became known, before anything was read of it. *ret is
 * written only when there is one: true. */
struct file_state {
	uint64_t size;		 /* bytes */
	struct timespec changed; /* ctime */
};
bool binaries__state(const struct binaries *binaries, const struct file_id *id,
		     struct file_state *ret);

/* Makes the regular file behind fd, which is taken over in any case, known as id. A file with the
 * build-id and the content of one that is known is the same binary: containers hold many copies of
 * a library. (The build-id alone would let a process lend its symbols to another's library.) After
 * 4 GiB of comparing, copies are binaries of their own.
 *
 * path is what the process calls it. root_fd: the process's root directory (O_PATH), below which,
 * and then below our own, a separate debug file is looked for; -1: nowhere. 0; -EMFILE when fd is
 * one of the last quarter of those that we may have (when binaries__new() was called): a machine
 * that goes on compiling new programs must not leave us without any; other negative errno. */
int binaries__add(struct binaries *binaries, const struct file_id *id, int fd, int root_fd,
		  const char *path, struct binary **ret);

/* The very file known as id, not merely its content: a new descriptor, the caller's. -ENOENT when
 * it is not known; other negative errno. */
int binaries__open(const struct binaries *binaries, const struct file_id *id);

/* A mark on the file known as id, for its owner's use: 0 when the file becomes known, and gone with
 * what is known of it. NULL: it is not known. Valid until the next binaries__add(). */
unsigned char *binaries__mark(struct binaries *binaries, const struct file_id *id);

/* The file known as id is in use: the next binaries__evict() keeps it. */
void binaries__use(struct binaries *binaries, const struct file_id *id);

/* Lets go of files that nobody has used since the last call: of a deleted one at once, for its
 * blocks on the disk are held by nothing else; of others when this is so for idle_ns (by the
 * caller's clock, now_ns), for programs are run again, but file systems unmounted. fn is told of
 * each before. A binary without files is gone; if its content comes again, it is another one. How
 * many files nobody uses are still kept. */
size_t binaries__evict(struct binaries *binaries, uint64_t now_ns, uint64_t idle_ns,
		       void (*fn)(void *ctx, const struct file_id *id), void *ctx);

/* How many there have been: the first index that none has had. */
size_t binaries__count(const struct binaries *binaries);

/* Room in an array of n elements of that size, which is indexed by binary, for all there are by
 * now; what is new is zero. *array is a pointer to the elements, realloc'ed. 0 or -ENOMEM. */
int binaries__grow(const struct binaries *binaries, void *array, size_t *n, size_t size);

#endif
