/* SPDX-License-Identifier: BSD-2-Clause */
/* Where memtrace can see the calls by which a process takes memory from the kernel. */
#ifndef MEMTRACE_CAPTURE_REGION_SOURCE_H
#define MEMTRACE_CAPTURE_REGION_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "capture/patch.h"
#include "elf/image.h"
#include "elf/probe_site.h"
#include "proc/maps.h"

#define REGION_FUNCTIONS 4

struct region_point {
	const char *name; /* static */
	enum abi_region_kind kind;
	struct code_place place; /* the probed instruction */
	struct probe_site site;
};

/* If all code of the process takes memory from the kernel through functions of the C library, the
 * source is these functions. Otherwise it is the system calls themselves. */
struct region_source {
	bool syscalls;
	char why[160]; /* why the C library's functions do not suffice */
	char *path;    /* path of the library, as the process names it */
	int fd;	       /* the open library, or -1 */
	struct file_id file;
	struct region_point points[REGION_FUNCTIONS];
	size_t n_points;
};

/* Has pid changed the code of one of the source's functions in its own memory? A probe would
 * overwrite the change with the file's code. Returns 1, and sets *ret to the function's name
 * (static); 0: no, or the source needs no probes; -ETIMEDOUT: the memory could not be read now, so
 * the answer is unknown. */
int region_source__patched_in(const struct region_source *source, pid_t pid,
			      const struct maps *maps, const char **ret);

/* Is a probe of the source missing in the code of process pid? Works like
 * capture__misses_probes(). */
bool region_source__is_bare(const struct region_source *source, pid_t pid, const struct maps *maps);

/* Finds the source for pid. `maps`: the address space of pid. `loading`: the dynamic linker of pid
 * is still at work, and -ENOENT means that the C library is not mapped yet. meanwhile: is called
 * while a file is read. 0; other negative errno with err. */
int region_source__find(pid_t pid, const struct maps *maps, bool loading,
			const struct elf_meanwhile *meanwhile, struct region_source **ret,
			struct error *err);
void region_source__free(struct region_source *source);

#endif
