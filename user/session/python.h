/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of Python's functions for the frames of Python in stacks (bpf/python.bpf.h). */
#ifndef MEMTRACE_SESSION_PYTHON_H
#define MEMTRACE_SESSION_PYTHON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/abi.h"
#include "capture/capture.h"
#include "proc/maps.h"
#include "python/python.h"
#include "symbolize/symbolize.h"

/* The Python that a process runs, and the code objects that were read. */
struct python_names;

/* Looks for a Python in the process. 0; -ENOENT: there is none; -EAGAIN: it is still being loaded;
 * other negative errno: another attempt may succeed. *ret_how: for capture__set_python(). */
int python_names__new(struct python_files *files, pid_t pid, const struct maps *maps,
		      struct python_names **ret, struct abi_python *ret_how);
void python_names__free(struct python_names *names);

/* Reads the code object of the frame, if this is a frame of Python and the object is new. The
 * process must not have ended. For each object, this function asks another process several times
 * (proc/memory.h). So it tells the guard of probes after each object that all is well. */
void python_names__learn(struct python_names *names, pid_t pid, uint64_t frame,
			 struct capture *capture);

/* Takes PYTHON_CHECK_MS at most to check whether the code objects are still at their addresses. The
 * next call continues where this call stopped. If another object is at an address now, frames with
 * this address may be of either object. So the name is not used any more. */
#define PYTHON_CHECK_MS 500
void python_names__check(struct python_names *names, pid_t pid, struct capture *capture);

/* Returns the namer of Python's frames. names: NULL if the process runs no Python. */
struct frame_namer python_names__namer(struct python_names *names);

#endif
