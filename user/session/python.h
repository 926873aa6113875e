/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of Python's functions for the frames of Python in stacks (bpf/python.bpf.h). */
#ifndef MEMTRACE_SESSION_PYTHON_H
#define MEMTRACE_SESSION_PYTHON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/abi.h"
#include "proc/maps.h"
#include "symbolize/symbolize.h"

/* The Python that a process runs, and the code objects that were read. */
struct python_names;

/* Looks for a Python in the process. 0; -ENOENT: there is none; other negative errno: another
 * attempt may succeed. *ret_how tells the kernel side. */
int python_names__new(pid_t pid, const struct maps *maps, struct python_names **ret,
		      struct abi_python *ret_how);
void python_names__free(struct python_names *names);

/* Reads the code object of the frame, if frame is one of Python and the object is new. The process
 * must run. */
void python_names__learn(struct python_names *names, pid_t pid, uint64_t frame);

/* Looks at the code objects again. An address that another object has now may have had both in the
 * run, so its name is not used any more. */
void python_names__check(struct python_names *names, pid_t pid);

/* Names frames of Python. names: NULL if the process has none. */
struct frame_namer python_names__namer(struct python_names *names);

#endif
