/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks whose end leaves no trace in their content, from "go" until the line "stop", beside pairs of malloc and
 * free as fast as they go: every 20 ms eight blocks, of which every second one is freed 60 ms later and the others
 * stay. The sizes rise from burst to burst, so that what was freed, between two that stay, is too small for those
 * to come: nobody writes there again but the allocator, soon after the free, for its lists. Larger than what
 * glibc's caches of free blocks take. Prints {"pairs", "kept_bytes", "freed_bytes", "seconds"}. */
#include <malloc.h>

#include "truth.h"

#define BLOCKS	   8
#define PERIOD_NS  20000000ull
#define LIFE	   3 /* bursts */
#define FIRST_SIZE 1100
#define STEP	   16

static uint64_t kept, freed, state;
static void *waiting[LIFE][BLOCKS / 2];

static void *fill(void *p, size_t size)
{
	if (!p)
		abort();
	memset(p, (int)truth_random(&state), size);
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

NOINLINE static void allocate_kept(size_t size)
{
	fill(malloc(size), size);
	kept += size;
}

NOINLINE static void *allocate_freed(size_t size)
{
	freed += size;
	return fill(malloc(size), size);
}

NOINLINE static void churn(void)
{
	void *p = malloc(64);

	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

static void burst(uint64_t n)
{
	void **slot = waiting[n % LIFE];
	size_t size = FIRST_SIZE + n * STEP;

	for (int i = 0; i < BLOCKS / 2; i++)
		free(slot[i]);
	for (int i = 0; i < BLOCKS / 2; i++) {
		slot[i] = allocate_freed(size);
		allocate_kept(size);
	}
}

int main(int argc, char **argv)
{
	uint64_t start, now, pairs = 0, bursts = 0;

	truth_init(argc, argv);
	state = truth_seed(1);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	truth_ready();
	start = truth_now_ns();
	do {
		for (int i = 0; i < 4000; i++)
			churn();
		pairs += 4000;
		now = truth_now_ns();
		if (now - start >= bursts * PERIOD_NS)
			burst(bursts++);
	} while (!truth_told_to_stop());
	printf("{\"pairs\": %" PRIu64 ", \"kept_bytes\": %" PRIu64 ", \"freed_bytes\": %" PRIu64
	       ", \"seconds\": %.3f}\n",
	       pairs, kept, freed, (double)(now - start) / 1e9);
	return truth_finish();
}
