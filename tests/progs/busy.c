/* SPDX-License-Identifier: BSD-2-Clause */
/* From "go" until the line "stop", --threads T (4) threads call every function of the malloc
 * family, hold blocks, check their content and free them. A tracer may attach and detach at any
 * moment. Prints {"threads": T, "intact": true}. An overwritten block, an unaligned block or a
 * failed allocation ends the program with SIGABRT. */
#include <pthread.h>

#include "truth.h"

#define MAX_THREADS 64
#define HELD	    256

static volatile bool over;

/* Fills the first and last byte. check() notices if other code has written over them. */
static void *mark(void *p, size_t size, unsigned char fill)
{
	unsigned char *bytes = p;

	if (!p)
		abort();
	bytes[0] = bytes[size - 1] = fill;
	return p;
}

static void check(const void *p, size_t size, unsigned char fill)
{
	const unsigned char *bytes = p;

	if (bytes[0] != fill || bytes[size - 1] != fill)
		abort();
}

static void *allocate(unsigned int way, size_t size)
{
	void *p = NULL;

	switch (way % 6) {
	case 0:
		return calloc(size, 1);
	case 1:
		return posix_memalign(&p, 64, size) || (uintptr_t)p % 64 ? NULL : p;
	case 2:
		return aligned_alloc(32, size);
	case 3:
		return reallocarray(NULL, size, 1);
	default:
		return malloc(size);
	}
}

NOINLINE static void *work(void *arg)
{
	unsigned char fill = (unsigned char)(uintptr_t)arg;
	uint64_t state = truth_seed(fill);
	void *held[HELD] = {NULL};
	size_t sizes[HELD] = {0};

	while (!over) {
		uint64_t r = truth_random(&state);
		size_t i = r % HELD, size = 1 + (r >> 16) % 2000;

		if (held[i])
			check(held[i], sizes[i], fill);
		if (held[i] && r >> 62) {
			free(held[i]);
			held[i] = NULL;
			continue;
		}
		if (held[i])
			held[i] = realloc(held[i], size);
		else
			held[i] = allocate((unsigned int)(r >> 40), size);
		sizes[i] = size;
		mark(held[i], size, fill);
	}
	for (size_t i = 0; i < HELD; i++) {
		if (held[i])
			check(held[i], sizes[i], fill);
		free(held[i]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	uint64_t n;

	truth_init(argc, argv);
	n = truth_number(argc, argv, "--threads", 4);
	if (n < 1 || n > MAX_THREADS) {
		fprintf(stderr, "busy: --threads is 1 to %d\n", MAX_THREADS);
		return 2;
	}
	truth_ready();
	for (uint64_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)))
			abort();
	truth_await("stop");
	over = true;
	for (uint64_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"threads\": %" PRIu64 ", \"intact\": true}\n", n);
	return truth_finish();
}
