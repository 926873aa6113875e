/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the calls by which a process takes memory from the kernel can be seen. */
#ifndef MEMTRACE_CAPTURE_REGION_SOURCE_H
#define MEMTRACE_CAPTURE_REGION_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "capture/patch.h"
#include "elf/probe_site.h"
#include "proc/maps.h"

#define REGION_FUNCTIONS 4

struct region_point {
	const char *name; /* static */
	enum abi_region_kind kind;
	struct code_place place; /* the probed instruction */
	struct probe_site site;
};

/* Either functions of its C library, through which all its code calls, or the system calls. */
struct region_source {
	bool syscalls;
	char why[160]; /* syscalls: why no less will do */
	char *path;    /* of the library, as the process names it */
	int fd;	       /* the file itself, or -1 */
	struct file_id file;
	struct region_point points[REGION_FUNCTIONS];
	size_t n_points;
};

/* The first of its functions whose code pid has changed in its own memory: a probe would put the
 * file's code in its place. NULL: none, or there are no probes. "its code" when its memory does not
 * come. */
const char *region_source__patched_in(const struct region_source *source, pid_t pid,
				      const struct maps *maps);

/* The source for pid; maps is its address space. With loading set the dynamic linker is still at
 * work, and -ENOENT says that the C library has not come yet. 0; other negative errno with err. */
int region_source__find(pid_t pid, const struct maps *maps, bool loading,
			struct region_source **ret, struct error *err);
void region_source__free(struct region_source *source);

#endif
