/* SPDX-License-Identifier: BSD-2-Clause */
/* Leaks until it is killed, for tests with a limit of memory. Beside the leak, the program replaces
 * the blocks of a cache as fast as it can.
 *
 *   --leak N   bytes leaked a second (10,000,000; 0: as fast as it can, without the cache)
 *   --size N   bytes of a leaked block (4000)
 *   --abort N  ends by abort() once N bytes are leaked (0: never) */
#include <string.h>
#include <time.h>

#include "truth.h"

#define CACHE	 1024
#define TURN	 16 /* blocks of the cache that are replaced between two reads of the clock */
#define SPREAD	 512
#define SMALLEST 16

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* No two blocks begin with equal bytes, as in real programs. All bytes of a block are written, so
 * that the block is resident. */
static void fill(void *block, size_t size)
{
	static uint64_t serial;

	if (!block)
		abort();
	memset(block, 1, size);
	serial++;
	memcpy(block, &serial, sizeof(serial));
	__asm__ volatile("" : : "r"(block) : "memory");
}

/* No pointer to the block is kept. */
NOINLINE static void hoard(size_t size)
{
	fill(malloc(size), size);
}

NOINLINE static void turn_over(void **slot, size_t size)
{
	free(*slot);
	*slot = malloc(size);
	fill(*slot, size);
}

int main(int argc, char **argv)
{
	static void *cache[CACHE];
	uint64_t rate, size, limit, start_ns, leaked = 0, state = truth_seed(1);

	truth_init(argc, argv);
	rate = truth_number(argc, argv, "--leak", 10000000);
	size = truth_number(argc, argv, "--size", 4000);
	limit = truth_number(argc, argv, "--abort", 0);
	truth_ready();
	start_ns = now_ns();
	while (!limit || leaked < limit) {
		while (!rate ||
		       (double)leaked < (double)rate * (double)(now_ns() - start_ns) / 1e9) {
			hoard(size);
			leaked += size;
		}
		for (int i = 0; i < TURN; i++) {
			uint64_t random = truth_random(&state);

			turn_over(&cache[random % CACHE], SMALLEST + (random >> 32) % SPREAD);
		}
	}
	abort();
}
