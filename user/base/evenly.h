/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses some of many elements, so that the chosen ones are evenly spread. */
#ifndef MEMTRACE_BASE_EVENLY_H
#define MEMTRACE_BASE_EVENLY_H

#include <stdbool.h>
#include <stdint.h>

/* Is the element with this number (from 0) chosen, if `some` elements are to be chosen from `all`?
 * The answer is true for exactly `some` of the numbers below `all`, or for each of them if `some`
 * is at least `all`. (number + 1) * some must fit into 64 bits. */
static inline bool evenly__chosen(uint64_t number, uint64_t some, uint64_t all)
{
	return (number + 1) * some / all > number * some / all;
}

#endif
