/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of chains_mixed.c, in code of different kinds. */
#ifndef TESTS_PROGS_CHAINS_STEP_H
#define TESTS_PROGS_CHAINS_STEP_H

#include <stddef.h>

#define MAX_STEPS 32

struct path {
	size_t size; /* of the block at its end */
	int n;	     /* steps */
	void (*step[MAX_STEPS])(const struct path *path, int i);
};

/* Each calls step i of the path, with i + 1; behind the last one it allocates. The first keeps a
 * frame pointer and has no unwind tables, the second has tables and an rbp that misleads, the third
 * is as the first, in a library without .eh_frame. */
void step_frame(const struct path *path, int i);
void step_table(const struct path *path, int i);
void step_library(const struct path *path, int i);

#endif
