/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of chains_mixed.c. They are compiled to different kinds of code. */
#ifndef TESTS_PROGS_CHAINS_STEP_H
#define TESTS_PROGS_CHAINS_STEP_H

#include <stddef.h>

#define MAX_STEPS 32

struct path {
	size_t size; /* size of the block that is allocated after the last step */
	int n;	     /* number of steps */
	void (*step[MAX_STEPS])(const struct path *path, int i);
};

/* Each function calls step i of the path and passes i + 1. After the last step it allocates.
 * step_frame keeps a frame pointer and has no unwind tables. step_table has unwind tables and a
 * misleading rbp. step_library is like step_frame, but in a library without .eh_frame. */
void step_frame(const struct path *path, int i);
void step_table(const struct path *path, int i);
void step_library(const struct path *path, int i);

#endif
