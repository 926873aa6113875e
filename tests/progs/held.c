// SPDX-License-Identifier: BSD-2-Clause
/* held THREADS BLOCKS busy|quiet FILE: each thread allocates BLOCKS blocks of all sizes, frees four
 * in ten, and holds the others for ever. Writes the address and size of each block to FILE, as
 * pairs of 64-bit numbers. Address 0: the block was freed. Prints the allocator's own statistics,
 * then "ready". With `busy` the threads go on allocating and freeing other blocks. */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct mallinfo2 mallinfo2(void) __attribute__((weak));
struct mallinfo old_mallinfo(void) __asm__("mallinfo"); /* deprecated in later headers */

struct pair {
	uint64_t addr, size;
};

static size_t n_blocks;
static int busy;
static pthread_barrier_t all_hold;

struct thread {
	uint64_t random;
	struct pair *held; /* not on the heap */
	size_t n;
};

static uint64_t draw(struct thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random;
}

static size_t draw_size(struct thread *thread)
{
	uint64_t kind = draw(thread) % 10000;

	if (kind < 1)
		return 200000 + draw(thread) % 1000000;
	if (kind < 10)
		return 60000 + draw(thread) % 80000;
	if (kind < 500)
		return 1000 + draw(thread) % 9000;
	return 1 + draw(thread) % 600;
}

/* In a small block, only the first word is written. The rest keeps the content that malloc()
 * returned. */
static void *touch(void *block, size_t size)
{
	memset(block, 0x5a, size > 120 ? size : size < 8 ? size : 8);
	return block;
}

/* A thread that ends with blocks in its cache. Other threads get these blocks, which (up to glibc
 * 2.42) contain glibc's key for cached blocks. */
static void *leave_behind(void *arg)
{
	void *blocks[112];

	for (size_t i = 0; i < 112; i++)
		blocks[i] = malloc(1 + i);
	for (size_t i = 0; i < 112; i++)
		free(blocks[i]);
	return arg;
}

static void *work(void *arg)
{
	struct thread *thread = arg;
	void **blocks = mmap(NULL, (n_blocks + 1) * sizeof(void *), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *moving[1000] = {0};

	for (size_t i = 0; i < n_blocks; i++) {
		size_t size = draw_size(thread);

		blocks[i] = touch(i % 1000 == 999 ? memalign(4096, size) : malloc(size), size);
		thread->held[i] = (struct pair){(uint64_t)(uintptr_t)blocks[i], size};
	}
	for (size_t i = 0; i < n_blocks; i++) {
		if (draw(thread) % 10 < 4) {
			free(blocks[i]);
			thread->held[i].addr = 0;
		}
	}
	munmap(blocks, (n_blocks + 1) * sizeof(void *));
	pthread_barrier_wait(&all_hold);
	while (busy) {
		size_t i = draw(thread) % 1000, size = draw_size(thread);

		free(moving[i]);
		moving[i] = malloc(size);
		memset(moving[i], 1, size < 64 ? size : 64);
	}
	pause();
	return NULL;
}

static void print_own_numbers(void)
{
	/* looked up at run time, because the same program runs with and without jemalloc */
	int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
		(int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT,
									       "mallctl");
	uint64_t epoch = 1;
	size_t len = sizeof(epoch), allocated = 0;

	if (mallctl) {
		mallctl("epoch", &epoch, &len, &epoch, len);
		len = sizeof(allocated);
		mallctl("stats.allocated", &allocated, &len, NULL, 0);
		printf("allocated %zu\n", allocated);
	} else {
		struct mallinfo2 info = {0};

		if (mallinfo2) {
			info = mallinfo2();
		} else { /* glibc 2.31; an int suffices for less than 2 GiB */
			struct mallinfo old = old_mallinfo();

			info.uordblks = (size_t)old.uordblks;
			info.fsmblks = (size_t)old.fsmblks;
			info.fordblks = (size_t)old.fordblks;
			info.hblkhd = (size_t)old.hblkhd;
			info.arena = (size_t)old.arena;
		}
		printf("uordblks %zu fsmblks %zu fordblks %zu hblkhd %zu arena %zu\n",
		       info.uordblks, info.fsmblks, info.fordblks, info.hblkhd, info.arena);
	}
}

int main(int argc, char **argv)
{
	size_t n_threads = argc == 5 ? strtoul(argv[1], NULL, 10) : 0, bytes;
	struct thread *threads;
	int fd;

	if (!n_threads)
		return 2;
	n_blocks = strtoul(argv[2], NULL, 10);
	busy = !strcmp(argv[3], "busy");
	fd = open(argv[4], O_CREAT | O_TRUNC | O_WRONLY, 0600);
	setvbuf(stdout, NULL, _IONBF, 0);
	bytes = n_threads * (sizeof(*threads) + n_blocks * sizeof(struct pair));
	threads = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (threads == MAP_FAILED || fd < 0)
		return 1;
	pthread_barrier_init(&all_hold, NULL, (unsigned int)n_threads + 1);
	for (size_t i = 0; i < n_threads; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, leave_behind, NULL) || pthread_join(id, NULL))
			return 1;
	}
	for (size_t i = 0; i < n_threads; i++) {
		pthread_t id;

		threads[i].random = 88172645463325252ULL + i * 7919;
		threads[i].held = (struct pair *)(threads + n_threads) + i * n_blocks;
		if (pthread_create(&id, NULL, work, &threads[i]))
			return 1;
	}
	pthread_barrier_wait(&all_hold);
	bytes = n_threads * n_blocks * sizeof(struct pair);
	for (size_t done = 0; done < bytes;) {
		ssize_t written = write(fd, (char *)threads[0].held + done, bytes - done);

		if (written <= 0)
			return 1;
		done += (size_t)written;
	}
	print_own_numbers();
	puts("ready");
	for (;;)
		pause();
}
