/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocator a process uses, and where its functions would be probed. */
#ifndef MEMTRACE_CAPTURE_ALLOCATOR_H
#define MEMTRACE_CAPTURE_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "elf/probe_site.h"
#include "proc/maps.h"

/* A function of the allocator and the place of its probe. */
struct alloc_point {
	const char *name;	/* static, of the table of functions */
	struct abi_func func;	/* how the kernel side reads the call; object is not set */
	uint64_t off;		/* file offset of the probed instruction */
	struct probe_site site; /* what stands there */
};

struct allocator {
	const char *family; /* "glibc"; static */
	char *path;	    /* as the process names the file */
	int fd;		    /* the file itself */
	struct file_id file;
	struct alloc_point points[ABI_MAX_FUNCS];
	size_t n_points;
	struct abi_object object; /* how its calls to itself are told apart */
};

/* The allocator that pid's calls to malloc reach, by the dynamic linker's rule: the first
 * definition in link order. maps is its address space. With loading set the process is still being
 * set up by the dynamic linker: the first definition mapped so far counts.
 *
 * 0; -ENOENT when nothing mapped defines malloc; -ENOTSUP when the definition is of an allocator
 * that is not in the table; other negative errno. err says what was found and where. */
int allocator__find(pid_t pid, const struct maps *maps, bool loading, struct allocator **ret,
		    struct error *err);
void allocator__free(struct allocator *allocator);

#endif
