/* SPDX-License-Identifier: BSD-2-Clause */
/* Binary search. */
#ifndef MEMTRACE_BASE_SEARCH_H
#define MEMTRACE_BASE_SEARCH_H

#include <stddef.h>

/* The least index i below n for which `holds` is true; n if there is none. i is a size_t, and
 * `holds` is an expression that uses i. If `holds` is true at an index, it must be true at all
 * higher ones. */
#define SEARCH_FIRST(i, n, holds)                                                                  \
	({                                                                                         \
		size_t low_ = 0, high_ = (n);                                                      \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
                                                                                                   \
			if (holds)                                                                 \
				high_ = i;                                                         \
			else                                                                       \
				low_ = i + 1;                                                      \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
