/* SPDX-License-Identifier: BSD-2-Clause */
/* How long to wait before a process that ended is started again. Each wait is twice as long as the
 * last one. But after a process that has lived long, the wait is the shortest one again. */
#ifndef MEMTRACE_BASE_BACKOFF_H
#define MEMTRACE_BASE_BACKOFF_H

struct backoff {
	double first_s, most_s; /* the shortest and the longest wait, seconds */
	double lasting_s;	/* if a process lived longer, the next wait is first_s */
	double wait_s;		/* the last wait; 0: there was none */
};

/* Returns how many seconds to wait before the next start of a process that lived for lived_s
 * seconds. */
double backoff__next(struct backoff *backoff, double lived_s);

/* Makes the next wait the shortest one again. Call it when the cause of the failures may be
 * gone. */
void backoff__reset(struct backoff *backoff);

#endif
