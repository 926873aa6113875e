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

/* Reads the code object of the frame, if frame is one of Python and the object is new. The process
 * must run. Each object costs questions to another process (proc/memory.h), so the guard of probes
 * is told that all is well after each. */
void python_names__learn(struct python_names *names, pid_t pid, uint64_t frame,
			 struct capture *capture);

/* Checks the code objects again, for PYTHON_CHECK_MS at most; the next call continues there. If
 * another object has an address now, both objects may have had it during the run. So the name is
 * not used any more. */
#define PYTHON_CHECK_MS 500
void python_names__check(struct python_names *names, pid_t pid, struct capture *capture);

/* Names frames of Python. names: NULL if the process has none. */
struct frame_namer python_names__namer(struct python_names *names);

#endif
