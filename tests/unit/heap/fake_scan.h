/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that replace a scan's child: they define __wrap_scan__start(), which sets scan_stream
 * to what the child writes and *ret to any pointer, and __wrap_scan__end(). */
#ifndef TESTS_UNIT_HEAP_FAKE_SCAN_H
#define TESTS_UNIT_HEAP_FAKE_SCAN_H

#include "heap/scan.h"

static struct stream *scan_stream;

int __wrap_scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task,
		       struct scan **ret, struct error *err);
int __wrap_scan__end(struct scan *scan);
struct stream *__wrap_scan__stream(struct scan *scan);

struct stream *__wrap_scan__stream(struct scan *scan)
{
	(void)scan;
	return scan_stream;
}

#endif
