/* SPDX-License-Identifier: BSD-2-Clause */
/* Has memory of each kind in its resident set. Prints how many pages of each kind it has touched.
 * During the run it gets:
 *
 *   heap: blocks. It frees every second block, so that freed and kept blocks alternate
 *   mappings by two functions, which the kernel joins
 *   pages of the file given by --file PATH, read and written
 *   shared memory
 *   a thread's stack
 *
 * It has memory from before the run, too. With --earlier BYTES: BYTES of main's blocks, BYTES of a
 * thread's blocks (with glibc's malloc in another arena), the thread's stack, and a mapping of
 * BYTES. With --mappings N: N mappings of one page. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "truth.h"

#define PAGE   4096ul
#define BLOCK  200
#define BLOCKS 40000

static char *blocks[2 * BLOCKS];
static size_t earlier_bytes;
static pthread_barrier_t barrier;

static void *check(void *p)
{
	if (!p || p == MAP_FAILED) {
		perror("truth_resident");
		_exit(99);
	}
	return p;
}

static void touch(char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		((volatile char *)p)[i] = 1;
}

NOINLINE static void keep_every_other(void)
{
	for (size_t i = 0; i < 2 * BLOCKS; i++)
		blocks[i] = memset(check(malloc(BLOCK)), 1, BLOCK);
	for (size_t i = 0; i < 2 * BLOCKS; i += 2)
		free(blocks[i]);
}

/* Keeps the compiler from making a tail call, so that each function has its own frame during its
 * call. */
#define MAP(name)                                                                                  \
	NOINLINE static char *name(void *at, size_t bytes, int flags)                              \
	{                                                                                          \
		char *p = mmap(at, bytes, PROT_READ | PROT_WRITE,                                  \
			       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);                        \
                                                                                                   \
		__asm__ volatile("" : "+r"(p) : : "memory");                                       \
		return check(p);                                                                   \
	}

MAP(map_area)
MAP(map_first)
MAP(map_second)

/* Two functions map neighbouring parts of one area. The kernel merges these parts into one
 * mapping. */
static void map_both(size_t first, size_t second)
{
	char *area = map_area(NULL, 32 << 20, 0);

	touch(map_first(area, 8 << 20, MAP_FIXED), first);
	touch(map_second(area + (8 << 20), 16 << 20, MAP_FIXED), second);
}

/* Changes the rights of every other page of an area, so that each page becomes a mapping of its
 * own. */
static void map_many(size_t n)
{
	char *area = n ? map_area(NULL, n * PAGE, 0) : NULL;

	touch(area, n * PAGE);
	for (size_t i = 0; i < n; i += 2)
		if (mprotect(area + i * PAGE, PAGE, PROT_READ))
			_exit(96);
}

static void map_files(const char *path, size_t bytes, size_t written)
{
	int fd = open(path, O_RDONLY);
	char *p = check(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
	volatile char sum = 0;

	/* Writes before it reads. A write copies its page, and so splits a huge page of the file.
	 * The other pages of the huge page are then not mapped until they are read. */
	touch(p, written);
	for (size_t i = 0; i < bytes; i += PAGE)
		sum += p[i];
	(void)sum;
	close(fd);
}

static void map_memory_file(size_t bytes)
{
	int fd = memfd_create("truth", 0);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		_exit(98);
	touch(check(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), bytes);
	close(fd);
}

static void allocate(size_t bytes)
{
	for (size_t i = 0; i < bytes; i += BLOCK)
		memset(check(malloc(BLOCK)), 1, BLOCK);
}

struct thread {
	size_t stack, heap;
};

NOINLINE static void *thread(void *arg)
{
	struct thread t = *(struct thread *)arg;

	touch(__builtin_alloca(t.stack), t.stack);
	allocate(t.heap);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void start_thread(size_t stack, size_t heap)
{
	struct thread t = {stack, heap};
	pthread_t id;

	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&id, NULL, thread, &t))
		_exit(97);
	pthread_barrier_wait(&barrier);
}

int main(int argc, char **argv)
{
	size_t first = 3 << 20, second = 5 << 20, area = 0, file = 4 << 20, written = 1 << 20,
	       shared = 2 << 20, stack = 512 << 10;
	const char *path = NULL;

	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--file"))
			path = argv[i + 1];
	truth_init(argc, argv);
	signal(SIGINT, SIG_IGN); /* a command also gets the SIGINT meant for the tracer */
	earlier_bytes = truth_number(argc, argv, "--earlier", 0);
	if (earlier_bytes) {
		allocate(earlier_bytes);
		touch(map_area(NULL, earlier_bytes, 0), earlier_bytes);
		start_thread(stack, earlier_bytes);
	}
	map_many(truth_number(argc, argv, "--mappings", 0));
	truth_ready();
	keep_every_other();
	map_both(first, second);
	if (path)
		map_files(path, file, written);
	map_memory_file(shared);
	start_thread(stack, 0);
	printf("{\"live\": %d, \"blocks\": %d, \"freed\": %d, \"earlier\": %zu, \"map_first\": "
	       "%zu, \"map_second\": %zu, "
	       "\"map_area\": %zu, \"file\": %zu, \"written\": %zu, \"shared\": %zu, \"stack\": "
	       "%zu}\n",
	       BLOCK * BLOCKS, BLOCKS, BLOCK * BLOCKS, earlier_bytes, first, second, area,
	       path ? file : (size_t)0, path ? written : (size_t)0, shared, stack);
	return truth_finish();
}
