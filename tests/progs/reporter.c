/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples its own allocations and reports the samples by markers, like an allocator that supports
 * OpenTelemetry's design for memory. The markers are otel_memory:alloc(address, size, weighted
 * bytes) and otel_memory:free(address). --interval N (524288): mean bytes between samples. --seed N
 * (1). --rate N (2000): pairs of allocation and free a second. --leak N (6000): blocks leaked a
 * second.
 *
 * leaks() leaks blocks of 600 to 1400 bytes, serves() holds and replaces blocks of several sizes.
 * On the line "pause" it stops its work, and prints the memory that it has allocated since "go" and
 * still holds:
 *   {"functions": {name: {"live_bytes", "live_objects"}}, "samples", "unreported", "semaphores"}
 * samples: how many samples it took; unreported: how many of them no tracer asked for; semaphores:
 * the present values of the markers' two semaphores. On the line "semaphores" it prints these
 * values alone. It ends on the line "quit". */
#include <math.h>
#include <poll.h>
#include <time.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "truth.h"

#define SEMAPHORE __attribute__((section(".probes"))) volatile
SEMAPHORE unsigned short otel_memory_alloc_semaphore;
SEMAPHORE unsigned short otel_memory_free_semaphore;

#define HELD 2000
#define TURN 100 /* pairs between two reads of the clock */

/* A header before each block: whether the block is a sample, and its size. Its length keeps blocks
 * aligned. */
struct header {
	uint64_t sampled, size;
};

static uint64_t state, interval, samples, unreported;
static int64_t until_sample;
static struct function {
	const char *name;
	uint64_t live_bytes, live_objects;
} leaks_of = {"leaks", 0, 0}, serves_of = {"serves", 0, 0};

static int64_t draw(void)
{
	double u = (double)((truth_random(&state) >> 11) + 1) * 0x1p-53;

	return (int64_t)(-(double)interval * log(u)) + 1;
}

NOINLINE static void report(void *block, size_t size)
{
	double weighted = (double)size / -expm1(-(double)size / (double)interval);

	samples++;
	if (!otel_memory_alloc_semaphore)
		unreported++;
	else
		DTRACE_PROBE3(otel_memory, alloc, block, size, (uint64_t)(weighted + 0.5));
}

NOINLINE static void *get(size_t size)
{
	struct header *h = malloc(sizeof(*h) + size);

	if (!h)
		abort();
	*h = (struct header){.size = size};
	until_sample -= (int64_t)size;
	if (until_sample <= 0) {
		until_sample = draw();
		h->sampled = 1;
		report(h + 1, size);
	}
	return h + 1;
}

NOINLINE static void give(void *block)
{
	struct header *h = (struct header *)block - 1;

	if (h->sampled && otel_memory_free_semaphore)
		DTRACE_PROBE1(otel_memory, free, block);
	free(h);
}

static void *forgotten; /* the last block of leaks() */

NOINLINE static void leaks(void)
{
	size_t size = 600 + truth_random(&state) % 800;
	void **block = get(size);

	*block = forgotten;
	forgotten = block;
	leaks_of.live_bytes += size;
	leaks_of.live_objects++;
}

static void *held[HELD];
static bool counted[HELD]; /* allocated since "go" */

NOINLINE static void serves(bool counts)
{
	static const size_t sizes[] = {24, 100, 700, 5000, 40000};
	uint64_t r = truth_random(&state);
	size_t i = r % HELD, size = sizes[(r >> 32) % 16 % 5];

	if (held[i]) {
		if (counted[i]) {
			serves_of.live_bytes -= ((struct header *)held[i] - 1)->size;
			serves_of.live_objects--;
		}
		give(held[i]);
	}
	/* writes to the block, so that live bytes cannot exceed the resident set */
	held[i] = memset(get(size), 0x5a, size);
	counted[i] = counts;
	if (counts) {
		serves_of.live_bytes += size;
		serves_of.live_objects++;
	}
}

static void print_semaphores(void)
{
	printf("\"semaphores\": [%u, %u]}\n", otel_memory_alloc_semaphore,
	       otel_memory_free_semaphore);
	fflush(stdout);
}

static void print_function(const struct function *f, const char *end)
{
	printf("\"%s\": {\"live_bytes\": %llu, \"live_objects\": %llu}%s", f->name,
	       (unsigned long long)f->live_bytes, (unsigned long long)f->live_objects, end);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Answers a line from the tester, if there is one. false: the program is to end. */
static bool listen_to(bool *ret_pause)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];
	size_t len = 0;

	if (poll(&in, 1, 0) <= 0)
		return true;
	while (len < sizeof(line) - 1 && read(STDIN_FILENO, &line[len], 1) == 1 &&
	       line[len] != '\n')
		len++;
	line[len] = '\0';
	if (!len || !strcmp(line, "quit"))
		return false;
	printf("{");
	*ret_pause = *ret_pause || !strcmp(line, "pause");
	if (!strcmp(line, "pause")) {
		printf("\"functions\": {");
		print_function(&leaks_of, ", ");
		print_function(&serves_of, "}, ");
		printf("\"samples\": %llu, \"unreported\": %llu, ", (unsigned long long)samples,
		       (unsigned long long)unreported);
	}
	print_semaphores();
	return true;
}

int main(int argc, char **argv)
{
	double rate, leak, begun, leaked = 0, done = 0;
	bool pause = false;

	truth_init(argc, argv);
	state = truth_seed(truth_number(argc, argv, "--seed", 1));
	interval = truth_number(argc, argv, "--interval", 524288);
	rate = (double)truth_number(argc, argv, "--rate", 2000);
	leak = (double)truth_number(argc, argv, "--leak", 6000);
	until_sample = draw();
	for (int i = 0; i < HELD; i++)
		serves(false);
	truth_ready();
	samples = unreported = 0;
	begun = now_s();
	while (listen_to(&pause)) {
		double elapsed = pause ? 0 : now_s() - begun;

		for (int i = 0; i < TURN && done < elapsed * rate; i++, done++)
			serves(true);
		for (; leaked < elapsed * leak; leaked++)
			leaks();
		if (done >= elapsed * rate)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return 0;
}
