/* SPDX-License-Identifier: BSD-2-Clause */
/* Maps memory in every possible way, and prints how much of it each function holds. The program
 * counts its own calls. Only the C library knows the size of thread stacks, so their figures come
 * from /proc/self/maps. With --threads N, N threads map and unmap as fast as they can, so that
 * addresses pass from thread to thread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "truth.h"

#define PAGE	    4096ul
#define MAX_THREADS 16

#define FUNCTIONS(X)                                                                               \
	X(map_plain)                                                                               \
	X(map_holes)                                                                               \
	X(map_reserved)                                                                            \
	X(map_over)                                                                                \
	X(map_growing)                                                                             \
	X(grow_in_place)                                                                           \
	X(map_moving)                                                                              \
	X(grow_moved)                                                                              \
	X(map_shrinking)                                                                           \
	X(grow_earlier)                                                                            \
	X(map_shared)                                                                              \
	X(map_again)                                                                               \
	X(map_file)                                                                                \
	X(map_stack)                                                                               \
	X(map_gone)                                                                                \
	X(grow_break)                                                                              \
	X(start_threads)                                                                           \
	X(churn_map)

enum function {
#define X(name) FN_##name,
	FUNCTIONS(X)
#undef X
		N_FUNCTIONS
};

static long held[N_FUNCTIONS]; /* bytes */
static long earlier_gone;

static void *check(void *p)
{
	if (p == MAP_FAILED) {
		perror("truth_regions: mmap");
		_exit(99);
	}
	return p;
}

static void check_zero(int rc)
{
	if (rc) {
		perror("truth_regions");
		_exit(98);
	}
}

/* Keeps the compiler from making a tail call, so that each function has its own frame during its
 * call. */
#define MAP(name)                                                                                  \
	NOINLINE static void *name(void *at, size_t bytes, int flags, int fd)                      \
	{                                                                                          \
		void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, fd, 0);     \
                                                                                                   \
		__asm__ volatile("" : "+r"(p) : : "memory");                                       \
		held[FN_##name] += (long)((bytes + PAGE - 1) / PAGE * PAGE);                       \
		return check(p);                                                                   \
	}

MAP(map_plain)
MAP(map_holes)
MAP(map_reserved)
MAP(map_over)
MAP(map_growing)
MAP(map_moving)
MAP(map_shrinking)
MAP(map_file)
MAP(map_stack)
MAP(map_gone)

#define MAP_ANY(name, pages) name(NULL, (pages)*PAGE, MAP_ANONYMOUS, -1)

#define REMAP(name)                                                                                \
	NOINLINE static void *name(void *old, size_t old_bytes, size_t bytes, int flags, void *to) \
	{                                                                                          \
		void *p = mremap(old, old_bytes, bytes, flags, to);                                \
                                                                                                   \
		__asm__ volatile("" : "+r"(p) : : "memory");                                       \
		held[FN_##name] += (long)(bytes - old_bytes);                                      \
		return check(p);                                                                   \
	}

REMAP(grow_in_place)
REMAP(grow_moved)
REMAP(grow_earlier)
REMAP(map_again)

NOINLINE static void *map_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	__asm__ volatile("" : "+r"(p) : : "memory");
	held[FN_map_shared] += (long)bytes;
	return check(p);
}

static uintptr_t page_end(uintptr_t addr)
{
	return (addr + PAGE - 1) / PAGE * PAGE;
}

NOINLINE static void grow_break(intptr_t bytes)
{
	uintptr_t before = (uintptr_t)sbrk(0);

	if (sbrk(bytes) == (void *)-1) {
		perror("truth_regions: sbrk");
		_exit(97);
	}
	held[FN_grow_break] += (long)(page_end(before + (uintptr_t)bytes) - page_end(before));
}

/* The truth does not name this function, because it only returns memory to the kernel. */
NOINLINE static void shrink_break(intptr_t bytes)
{
	grow_break(-bytes);
}

/* Returns the bytes mapped, without the tracer's page. Does not use the allocator. */
static long mapped_bytes(void)
{
	static char text[1 << 20];
	size_t len = 0;
	long sum = 0, n;
	int fd = open("/proc/self/maps", O_RDONLY);

	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		char *dash;
		unsigned long start = strtoul(line, &dash, 16), stop = strtoul(dash + 1, NULL, 16);

		*end = '\0';
		if (!strstr(line, "[uprobes]"))
			sum += (long)(stop - start);
	}
	return sum;
}

/* --- threads --- */

static pthread_barrier_t barrier;
static unsigned n_threads, rounds;

NOINLINE static void *churn_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	__asm__ volatile("" : "+r"(p) : : "memory");
	return check(p);
}

static void *churn(void *arg)
{
	size_t bytes = PAGE * 16;
	void *p;

	(void)arg;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < rounds; i++) {
		p = churn_map(bytes);
		if (i + 1 < rounds)
			munmap(p, bytes);
	}
	__atomic_fetch_add(&held[FN_churn_map], (long)bytes, __ATOMIC_RELAXED);
	return NULL;
}

NOINLINE static void start_threads(pthread_t *threads)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (unsigned i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], &attr, churn, NULL))
			_exit(96);
	pthread_attr_destroy(&attr);
}

static void run_threads(void)
{
	pthread_t threads[MAX_THREADS];
	long before = mapped_bytes();

	pthread_barrier_init(&barrier, NULL, n_threads + 1);
	start_threads(threads);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	held[FN_start_threads] += mapped_bytes() - before - held[FN_churn_map];
}

/* --- the script --- */

static void holes(void)
{
	char *p = map_holes(NULL, 16 * PAGE, MAP_ANONYMOUS, -1);

	check_zero(munmap(p + 6 * PAGE, 3 * PAGE));  /* in the middle */
	check_zero(munmap(p + 14 * PAGE, 2 * PAGE)); /* at the end */
	check_zero(munmap(p, PAGE));		     /* at the start */
	check_zero(munmap(p + 5 * PAGE, 5 * PAGE));  /* across the hole: two more pages */
	held[FN_map_holes] -= 8 * (long)PAGE;
}

static void overlaps(void)
{
	char *area = MAP_ANY(map_reserved, 64), *p;

	map_over(area + 8 * PAGE, 8 * PAGE, MAP_ANONYMOUS | MAP_FIXED, -1);
	held[FN_map_reserved] -= 8 * (long)PAGE;
	/* covers the end of this mapping and the beginning of the next one */
	map_over(area + 12 * PAGE, 8 * PAGE, MAP_ANONYMOUS | MAP_FIXED, -1);
	held[FN_map_reserved] -= 4 * (long)PAGE;
	held[FN_map_over] -= 4 * (long)PAGE;

	/* pages that move stay with their owner; pages that are added belong to the function that
	 * calls mremap */
	p = MAP_ANY(map_moving, 6);
	check_zero(munmap(p + PAGE, PAGE));
	held[FN_map_moving] -= (long)PAGE;
	p = grow_moved(p + 2 * PAGE, 4 * PAGE, 10 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       area + 40 * PAGE);
	held[FN_map_reserved] -= 10 * (long)PAGE;
	/* moved again, to an address with room */
	grow_moved(p, 10 * PAGE, 1000 * PAGE, MREMAP_MAYMOVE, NULL);
	/* pages from the middle are moved away, and become fewer */
	p = MAP_ANY(map_moving, 9);
	check(mremap(p + 3 * PAGE, 3 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     area + 50 * PAGE));
	held[FN_map_moving] -= 2 * (long)PAGE;
	held[FN_map_reserved] -= (long)PAGE;
}

static void sizes(char *earlier)
{
	char *p = MAP_ANY(map_growing, 32);

	check_zero(munmap(p + 4 * PAGE, 28 * PAGE));
	held[FN_map_growing] -= 28 * (long)PAGE;
	grow_in_place(p, 4 * PAGE, 12 * PAGE, 0, NULL);
	p = MAP_ANY(map_shrinking, 20);
	check(mremap(p, 20 * PAGE, 7 * PAGE, 0));
	held[FN_map_shrinking] -= 13 * (long)PAGE;

	/* half of the mapping from before the run is unmapped; the rest moves and grows */
	check_zero(munmap(earlier + 8 * PAGE, 8 * PAGE));
	earlier_gone += 8 * (long)PAGE;
	grow_earlier(earlier, 8 * PAGE, 40 * PAGE, MREMAP_MAYMOVE, NULL);

	p = map_shared(5 * PAGE);
	map_again(p, 0, 5 * PAGE, MREMAP_MAYMOVE, NULL); /* a second mapping of the same memory */
}

/* Calls that change nothing. */
static void failures(void)
{
	char *p = MAP_ANY(map_plain, 3);

	if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
	    mmap(NULL, 1ul << 60, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
	    mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED || !munmap(p + 1, PAGE) ||
	    !munmap(p, 0) || mremap(p, 3 * PAGE, 1ul << 60, MREMAP_MAYMOVE) != MAP_FAILED ||
	    sbrk(1l << 60) != (void *)-1) {
		fprintf(stderr, "truth_regions: a call did not fail\n");
		_exit(95);
	}
	/* the second munmap unmaps a hole, so it succeeds and changes nothing */
	check_zero(munmap(p + PAGE, PAGE));
	check_zero(munmap(p + PAGE, PAGE));
	held[FN_map_plain] -= (long)PAGE;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
#define X(name) #name,
		FUNCTIONS(X)
#undef X
	};
	char *earlier;
	long sum = 0;
	int fd;

	truth_init(argc, argv);
	n_threads = (unsigned)truth_number(argc, argv, "--threads", 4);
	n_threads = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
	rounds = (unsigned)truth_number(argc, argv, "--rounds", 2000);
	earlier = check(
		mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	fd = open("/proc/self/exe", O_RDONLY);
	truth_ready();
	for (size_t i = 1; i <= 10; i++)
		map_plain(NULL, i * 5000, MAP_ANONYMOUS, -1);
	holes();
	overlaps();
	sizes(earlier);
	failures();
	map_file(NULL, 3 * PAGE, 0, fd);
	map_stack(NULL, 64 * PAGE, MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1);
	for (int i = 0; i < 200; i++)
		check_zero(munmap(MAP_ANY(map_gone, 30), 30 * PAGE));
	held[FN_map_gone] = 0;
	grow_break(40 * PAGE + 123);
	grow_break(77);
	shrink_break(15 * PAGE);
	if (n_threads)
		run_threads();
	printf("{\"functions\": {");
	for (int i = 0; i < N_FUNCTIONS; i++) {
		printf("%s\"%s\": %ld", i ? ", " : "", names[i], held[i]);
		sum += held[i];
	}
	printf("}, \"total\": %ld, \"earlier_gone\": %ld, \"file\": %ld, \"stack\": %ld}\n", sum,
	       earlier_gone, 3 * (long)PAGE, held[FN_map_stack]);
	return truth_finish();
}
