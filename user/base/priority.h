/* SPDX-License-Identifier: BSD-2-Clause */
/* memtrace's own priority. It is raised while memtrace waits for a moment that it must not miss. */
#ifndef MEMTRACE_BASE_PRIORITY_H
#define MEMTRACE_BASE_PRIORITY_H

/* Raises the priority to this nice value, until priority__restore(). Does nothing without
 * CAP_SYS_NICE, or if memtrace was started with a low priority. */
void priority__raise(int nice);
/* Does nothing if the priority is not raised. */
void priority__restore(void);

#endif
