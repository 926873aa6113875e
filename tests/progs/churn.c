/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc and free in a tight loop, to measure the cost of a probe. Each "go" runs one round and
 * prints one line {"pairs", "threads", "size", "seconds", "ns_per_pair"}, until "quit" or the end
 * of input. So the same process can be measured without and with a tracer. ns_per_pair is the mean
 * time that a thread takes for a pair. --pairs N (10000000): pairs per thread and round; --seconds
 * S: instead, a round lasts about S seconds; --size S (64); --threads T (1); --auto: one round,
 * without "go"; --between N (0): N steps of other work between two pairs; a step takes 0.25 to 1
 * ns. Compiled with ALLOC and FREE, the program calls these two functions instead of malloc and
 * free. Compiled with POOL, it calls functions of its own pool. */
#include <pthread.h>
#include <time.h>

#include "truth.h"

#ifdef ALLOC
void *ALLOC(size_t size);
void FREE(void *block);
#elif defined(POOL)
#define ALLOC pool_alloc
#define FREE  pool_free

static __thread void *spare; /* the only block of a thread's pool */

NOINLINE static void *pool_alloc(size_t size)
{
	void *block = spare ? spare : malloc(size);

	spare = NULL;
	return block;
}

NOINLINE static void pool_free(void *block)
{
	if (block)
		spare = block;
}
#else
#define ALLOC malloc
#define FREE  free
#endif

#define MAX_THREADS 256
#define BATCH	    1024 /* pairs and steps of other work between two reads of the clock */

struct worker {
	pthread_t thread;
	uint64_t pairs, ns;
};

static struct worker workers[MAX_THREADS];
static uint64_t n_threads, pairs, round_ns, between;
static size_t size;
static pthread_barrier_t start, done;
static volatile bool over;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

NOINLINE static void churn(uint64_t n)
{
	uint64_t state = truth_seed(n);

	for (uint64_t i = 0; i < n; i++) {
		void *p = ALLOC(size);

		__asm__ volatile("" : "+r"(p) : : "memory"); /* the compiler must keep the pair */
		FREE(p);
		for (uint64_t k = 0; k < between; k++)
			truth_random(&state);
	}
}

static void run_round(struct worker *worker)
{
	uint64_t begin = now_ns();

	if (round_ns) {
		worker->pairs = 0;
		do {
			uint64_t n = BATCH / (between + 1) + 1;

			churn(n);
			worker->pairs += n;
			worker->ns = now_ns() - begin;
		} while (worker->ns < round_ns);
		return;
	}
	churn(pairs);
	worker->pairs = pairs;
	worker->ns = now_ns() - begin;
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&start);
		if (over)
			return NULL;
		run_round(arg);
		pthread_barrier_wait(&done);
	}
}

static void print_round(void)
{
	uint64_t total = 0, longest = 0;
	double ns_per_pair = 0;

	for (uint64_t i = 0; i < n_threads; i++) {
		total += workers[i].pairs;
		if (workers[i].ns > longest)
			longest = workers[i].ns;
		if (workers[i].pairs)
			ns_per_pair += (double)workers[i].ns / (double)workers[i].pairs;
	}
	printf("{\"pairs\": %" PRIu64 ", \"threads\": %" PRIu64
	       ", \"size\": %zu, \"seconds\": %.6f, \"ns_per_pair\": %.2f}\n",
	       total, n_threads, size, (double)longest / 1e9, ns_per_pair / (double)n_threads);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	pairs = truth_number(argc, argv, "--pairs", 10000000);
	size = truth_number(argc, argv, "--size", 64);
	n_threads = truth_number(argc, argv, "--threads", 1);
	between = truth_number(argc, argv, "--between", 0);
	round_ns = truth_number(argc, argv, "--seconds", 0) * 1000000000ull;
	if (n_threads < 1 || n_threads > MAX_THREADS) {
		fprintf(stderr, "churn: --threads is 1 to %d\n", MAX_THREADS);
		return 2;
	}
	pthread_barrier_init(&start, NULL, (unsigned int)n_threads + 1);
	pthread_barrier_init(&done, NULL, (unsigned int)n_threads + 1);
	for (uint64_t i = 0; i < n_threads; i++) {
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
			perror("churn: pthread_create");
			return 2;
		}
	}
	truth_ready();
	do {
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&done);
		print_round();
	} while (!truth_auto && truth_await("go"));

	over = true;
	pthread_barrier_wait(&start);
	for (uint64_t i = 0; i < n_threads; i++)
		pthread_join(workers[i].thread, NULL);
	return truth_exit_status;
}
