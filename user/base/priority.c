// SPDX-License-Identifier: BSD-2-Clause
#include "base/priority.h"

#include <stdbool.h>
#include <sys/resource.h>

static bool raised;
static int usual;

void priority__raise(int nice)
{
	int now = getpriority(PRIO_PROCESS, 0);

	if (raised || now > 0 || now <= nice || setpriority(PRIO_PROCESS, 0, nice))
		return;
	usual = now;
	raised = true;
}

void priority__restore(void)
{
	if (raised)
		setpriority(PRIO_PROCESS, 0, usual);
	raised = false;
}
