// SPDX-License-Identifier: BSD-2-Clause
#include "base/priority.h"

#include <sched.h>
#include <sys/resource.h>

static bool raised, hurried, lent;
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

static bool set_policy(int policy)
{
	const struct sched_param param = {.sched_priority = policy == SCHED_OTHER ? 0 : 1};

	return !sched_setscheduler(0, policy, &param);
}

/* Does this process have the usual policy and no low priority? The policy that priority__hurry()
 * sets counts as usual. */
static bool is_ordinary(void)
{
	return hurried || ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
			   getpriority(PRIO_PROCESS, 0) <= 0);
}

bool priority__hurry(void)
{
	if (!hurried && is_ordinary())
		hurried = set_policy(SCHED_RR | SCHED_RESET_ON_FORK);
	return hurried;
}

void priority__calm(void)
{
	/* SCHED_RESET_ON_FORK cannot be cleared without CAP_SYS_NICE, and memtrace may have given
	 * up this capability. */
	if (hurried && !set_policy(SCHED_OTHER))
		set_policy(SCHED_OTHER | SCHED_RESET_ON_FORK);
	hurried = false;
}

void priority__lend(void)
{
	lent = is_ordinary() && set_policy(SCHED_RR);
}

void priority__take_back(void)
{
	if (lent)
		set_policy(hurried ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER);
	lent = false;
}

void priority__give_back(void)
{
	if (lent)
		set_policy(SCHED_OTHER);
	lent = hurried = false;
}
