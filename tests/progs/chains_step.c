/* SPDX-License-Identifier: BSD-2-Clause */
/* One function, which is built three times for chains_mixed.c, each time with another name
 * STEP_NAME. */
#include "chains_step.h"
#include "chains.h"

NOINLINE void STEP_NAME(const struct path *path, int i)
{
#ifdef MISLEAD
	/* rbp is a general register here: its value looks like a frame pointer, but is not one */
	__asm__ volatile("lea 24(%%rsp), %%rbp" : : : "rbp");
#endif
	if (i == path->n)
		KEEP(malloc(path->size));
	else
		path->step[i](path, i + 1);
	KEEP(path);
}
