/* SPDX-License-Identifier: BSD-2-Clause */
/* memtrace's own priority. It is raised while memtrace waits for a moment that it must not miss. */
#ifndef MEMTRACE_BASE_PRIORITY_H
#define MEMTRACE_BASE_PRIORITY_H

#include <stdbool.h>

/* Raises the priority to this nice value, until priority__restore(). Does nothing without
 * CAP_SYS_NICE, or if memtrace was started with a low priority. */
void priority__raise(int nice);
/* Does nothing if the priority is not raised. */
void priority__restore(void);

/* Nice values rank only the processes of one session: the kernel first shares the CPUs between
 * sessions (autogroups, sched(7)) and control groups. On a machine with many busy sessions,
 * memtrace waited 0.6 s for a CPU at a nice value of -15. A process with a real-time policy gets a
 * CPU before all processes with nice values.
 *
 * From priority__hurry() to priority__calm() memtrace has the lowest real-time priority, but its
 * children do not have it. Use this only for waiting and for work of a few milliseconds.
 * In three cases, priority__hurry() changes nothing and returns false: memtrace lacks CAP_SYS_NICE;
 * real-time policies are forbidden; memtrace was started with a low priority or with a special
 * policy. Both functions may be called again and again. */
bool priority__hurry(void);
void priority__calm(void);
/* A child that is started after priority__lend() and before priority__take_back() has the real-time
 * priority, too. With priority__give_back() the child gives it back. */
void priority__lend(void);
void priority__take_back(void);
void priority__give_back(void);

#endif
