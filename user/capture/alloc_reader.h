/* SPDX-License-Identifier: BSD-2-Clause */
/* One file while its allocators are read. alloc_file.c reads the families of the file, with
 * alloc_markers.c and alloc_pools.c. Nobody else uses this header. */
#ifndef MEMTRACE_CAPTURE_ALLOC_READER_H
#define MEMTRACE_CAPTURE_ALLOC_READER_H

#include "capture/alloc_file.h"

struct alloc_reader {
	const struct alloc_names *names;
	struct elf_image *image;
	struct alloc_file *file;
	struct unwind_table *table; /* built when it is first needed */
	bool no_table;
	struct alloc_how how;
	/* the members below describe the part that is being read: */
	/* callers outside the allocator use the PLT or pointers, so direct calls are the
	 * allocator's own */
	bool interposed;
	bool alone; /* the file is nothing but this allocator */
	struct alloc_part *part;
	uint64_t sizes[ABI_MAX_FUNCS]; /* size of each offer's symbol; 0: unknown */
};

/* --- alloc_reader.c --- */

/* Begins the file's next part. */
void alloc_reader__begin_part(struct alloc_reader *reader, const char *family);

/* Adds a function to the current part. If the function is already in the part, only adds its name.
 * 0 or -ENOMEM. */
int alloc_reader__add_offer(struct alloc_reader *reader, size_t name, const char *text,
			    const struct abi_func *func, const struct elf_symbol *symbol);

/* Completes the current part when all its offers are known. 0 or -ENOMEM. */
int alloc_reader__end_part(struct alloc_reader *reader);

/* Notes that the offer cannot be probed, and why. Returns 0. */
int __attribute__((format(printf, 3, 4)))
alloc_reader__cannot(struct alloc_offer *offer, int rc, const char *fmt, ...);

/* Stores in reader->file by how much the addresses of the file's code differ from their offsets in
 * the file. */
void alloc_reader__note_shift(const struct alloc_reader *reader);

/* --- alloc_markers.c --- */

/* Adds the file's markers as a part, all of them or none. If some markers were missing, blocks
 * would be missing, or freed blocks would look live. 0 or -ENOMEM. */
int alloc_reader__add_markers(struct alloc_reader *reader);

/* --- alloc_pools.c --- */

/* Do calls of the pool's functions show all blocks of the pool? If not, and if the pool is a
 * language's, looks for the copies of its functions. 1, 0 or -ENOMEM. */
int alloc_reader__shows_all(struct alloc_reader *reader, const struct alloc_family *family);

/* Can a language's second list of functions be probed instead of the first? Yes, if the file names
 * all functions of the second list, and if other code reaches these functions through pointers
 * only. Then probes on them see each block. Direct calls among the functions are recognized, so
 * that each block counts once. */
bool alloc_reader__stand_alone(const struct alloc_reader *reader,
			       const struct alloc_family *family);

#endif
