/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures how long threads wait in operations that usually take microseconds, and when the
 * allocator's code was changed. From "go" until the line "stop", --threads N (1) threads do in
 * turn:
 *
 *   spin   read the clock for 100 us: shows interrupts that patch code, and preemption
 *   alloc  --pairs N (32) mallocs and frees
 *   map    mmap, touch and munmap of four pages: shows waits for the lock of the address space. To
 *	   place or remove a probe the kernel takes this lock for writing; page faults wait for it.
 *
 * Then they rest, so that all threads together use half of the CPUs (a single thread: all of one
 * CPU). Another thread checks five thousand times a second if the first bytes of the allocator's
 * functions have changed. Prints {"ops", "waits": [[start, duration, op, voluntary, involuntary
 * switches], ...] of all waits longer than --longer-than US (100), "changes": [[last check before
 * the change, check that found it, functions changed], ...]}. Times are in us since go. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <poll.h>
#include <time.h>

#include "truth.h"

#define MAX_THREADS 256
#define MAX_WAITS   20000 /* limit for the waits of a thread */
#define MAX_CHANGES 40000
#define SPIN_NS	    100000
#define MAP_BYTES   16384
#define FUNCTIONS   8

enum op { OP_SPIN, OP_ALLOC, OP_MAP, OPS };

struct wait {
	uint64_t start_ns, ns;
	enum op op;
	long voluntary, involuntary;
};

struct worker {
	pthread_t thread;
	uint64_t ops[OPS], lost;
	struct rusage usage; /* values from before the present operation */
	struct wait *waits;
	size_t n_waits;
};

struct change {
	uint64_t before_ns, seen_ns;
	int n;
};

static struct worker workers[MAX_THREADS];
static struct change changes[MAX_CHANGES];
static size_t n_changes;
static uint64_t n_threads, pairs, longer_ns, start_ns;
static volatile bool over;
/* A probe changes the first bytes of a function, even if it is on the second or third
 * instruction. */
static void *functions[FUNCTIONS];
static uint64_t untouched[FUNCTIONS][2];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void rest(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	nanosleep(&ts, NULL);
}

static void took(struct worker *worker, enum op op, uint64_t begin, uint64_t end)
{
	struct rusage now;

	worker->ops[op]++;
	if (end - begin <= longer_ns)
		return;
	getrusage(RUSAGE_THREAD, &now);
	if (worker->n_waits == MAX_WAITS)
		worker->lost++;
	else
		worker->waits[worker->n_waits++] =
			(struct wait){begin, end - begin, op, now.ru_nvcsw - worker->usage.ru_nvcsw,
				      now.ru_nivcsw - worker->usage.ru_nivcsw};
	worker->usage = now;
}

static void spin(struct worker *worker)
{
	uint64_t begin = now_ns(), last = begin, now;

	do {
		now = now_ns();
		if (now - last > longer_ns)
			took(worker, OP_SPIN, last, now);
		last = now;
	} while (now - begin < SPIN_NS);
	worker->ops[OP_SPIN]++;
}

NOINLINE static void allocate(void)
{
	for (uint64_t i = 0; i < pairs; i++) {
		void *p = malloc(64);

		__asm__ volatile("" : "+r"(p) : : "memory");
		free(p);
	}
}

static void map(void)
{
	char *p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	for (size_t i = 0; i < MAP_BYTES; i += 4096)
		p[i] = 1;
	munmap(p, MAP_BYTES);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint64_t begin, end;

	while (!over) {
		getrusage(RUSAGE_THREAD, &worker->usage);
		spin(worker);
		begin = now_ns();
		allocate();
		end = now_ns();
		took(worker, OP_ALLOC, begin, end);
		begin = now_ns();
		map();
		end = now_ns();
		took(worker, OP_MAP, begin, end);
		if (n_threads > 1)
			rest((SPIN_NS + 20000) * 2 * n_threads / (uint64_t)get_nprocs());
	}
	return NULL;
}

static void note_functions(void)
{
	void *const all[FUNCTIONS] = {
		(void *)malloc,		(void *)free,	       (void *)calloc,	 (void *)realloc,
		(void *)posix_memalign, (void *)aligned_alloc, (void *)memalign, (void *)valloc,
	};

	memcpy(functions, all, sizeof(all));
	for (int i = 0; i < FUNCTIONS; i++)
		memcpy(untouched[i], functions[i], sizeof(untouched[i]));
}

static void *watch(void *arg)
{
	uint64_t before = now_ns(), now;
	int n_last = 0;

	while (!over) {
		int n = 0;

		now = now_ns();
		for (int i = 0; i < FUNCTIONS; i++)
			n += memcmp(untouched[i], functions[i], sizeof(untouched[i])) != 0;
		if (n != n_last && n_changes < MAX_CHANGES)
			changes[n_changes++] = (struct change){before, now, n};
		n_last = n;
		before = now;
		rest(150000);
	}
	return arg;
}

static void print_all(void)
{
	static const char *const names[] = {"spin", "alloc", "map"};
	uint64_t ops[OPS] = {0}, lost = 0;
	const char *comma = "";

	for (uint64_t i = 0; i < n_threads; i++) {
		for (int op = 0; op < OPS; op++)
			ops[op] += workers[i].ops[op];
		lost += workers[i].lost;
	}
	printf("{\"ops\": {\"spin\": %" PRIu64 ", \"alloc\": %" PRIu64 ", \"map\": %" PRIu64
	       "}, \"lost\": %" PRIu64 ", \"seconds\": %.3f, \"waits\": [",
	       ops[0], ops[1], ops[2], lost, (double)(now_ns() - start_ns) / 1e9);
	for (uint64_t i = 0; i < n_threads; i++)
		for (size_t k = 0; k < workers[i].n_waits; k++, comma = ", ") {
			const struct wait *w = &workers[i].waits[k];

			printf("%s[%.1f, %.1f, \"%s\", %ld, %ld]", comma,
			       (double)(w->start_ns - start_ns) / 1e3, (double)w->ns / 1e3,
			       names[w->op], w->voluntary, w->involuntary);
		}
	printf("], \"start_ns\": %" PRIu64 ", \"changes\": [", start_ns);
	comma = "";
	for (size_t i = 0; i < n_changes; i++, comma = ", ")
		printf("%s[%.1f, %.1f, %d]", comma, (double)(changes[i].before_ns - start_ns) / 1e3,
		       (double)(changes[i].seen_ns - start_ns) / 1e3, changes[i].n);
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	pthread_t watcher;

	truth_init(argc, argv);
	n_threads = truth_number(argc, argv, "--threads", 1);
	pairs = truth_number(argc, argv, "--pairs", 32);
	longer_ns = truth_number(argc, argv, "--longer-than", 100) * 1000;
	if (n_threads < 1 || n_threads > MAX_THREADS) {
		fprintf(stderr, "stalls: --threads is 1 to %d\n", MAX_THREADS);
		return 2;
	}
	for (uint64_t i = 0; i < n_threads; i++) {
		workers[i].waits = calloc(MAX_WAITS, sizeof(struct wait));
		if (!workers[i].waits)
			abort();
	}
	note_functions();
	truth_ready();
	start_ns = now_ns();
	for (uint64_t i = 0; i < n_threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 2;
	if (pthread_create(&watcher, NULL, watch, NULL))
		return 2;
	truth_await("stop");
	over = true;
	for (uint64_t i = 0; i < n_threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_join(watcher, NULL);
	print_all();
	return truth_finish();
}
