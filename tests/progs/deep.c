/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc and free in a tight loop below --depth N (10) calls of a function, to measure the cost of
 * walking a stack. The code has no frame pointers (built with -O2 -fomit-frame-pointer). Protocol
 * and rounds as in churn.c, with {"pairs", "ns_per_pair"}. Each round leaves one block live: its
 * stack in a profile shows how deep the loop was. --pairs N (20000) --size S (64) */
#include <time.h>

#include "truth.h"

static uint64_t pairs;
static size_t size;
static void *volatile left;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Calls itself depth times and then runs the loop. Returns the elapsed time of the loop alone. */
NOINLINE static uint64_t descend(uint64_t depth)
{
	uint64_t ns;

	if (depth > 1) {
		ns = descend(depth - 1);
	} else {
		uint64_t begin = now_ns();

		for (uint64_t i = 0; i < pairs; i++) {
			void *p = malloc(size);

			__asm__ volatile("" : "+r"(p) : : "memory");
			free(p);
		}
		ns = now_ns() - begin;
		left = malloc(size);
	}
	__asm__ volatile("" : "+r"(ns) : : "memory"); /* prevents both a tail call and a loop */
	return ns;
}

int main(int argc, char **argv)
{
	uint64_t depth, ns;

	truth_init(argc, argv);
	depth = truth_number(argc, argv, "--depth", 10);
	pairs = truth_number(argc, argv, "--pairs", 20000);
	size = truth_number(argc, argv, "--size", 64);
	truth_ready();
	do {
		ns = descend(depth);
		printf("{\"pairs\": %" PRIu64 ", \"ns_per_pair\": %.2f}\n", pairs,
		       (double)ns / (double)pairs);
		fflush(stdout);
	} while (!truth_auto && truth_await("go"));
	return truth_exit_status;
}
