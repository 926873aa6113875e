/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocol of the target programs, and the counts ("books") of their own allocations, which
 * are the truth for tests.
 *
 *   program: "ready <pid>\n"     the tracer attaches; the script has not begun
 *   tester:  "go\n"              the script runs
 *   program: one line of JSON    the truth; nothing is allocated or freed after it
 *   tester:  "quit\n" or EOF     the program exits with the status of --exit N (default 0)
 *
 * With --auto the program neither says "ready" nor waits. Between "go" and the truth only the
 * script allocates: stdout has a static buffer, stdin is read with read(2), and the books are
 * static arrays.
 *
 * The books have an entry for each function that calls the allocator (__func__ of the T_ macros).
 * No such function calls another one. So if a stack has such a function, this function is the
 * allocator's caller. Bytes are requested bytes. freed_* counts blocks that the function allocated,
 * whichever function freed them. A realloc counts as a free of the old block and as an allocation
 * by realloc's caller. A failed realloc keeps the old block. realloc(p, 0) frees (glibc).
 * alloc_calls counts calls of allocating functions. Of these, realloc_calls are reallocs, and
 * failed_calls returned no block. free_calls counts calls of free with a block. */
#ifndef TESTS_PROGS_TRUTH_H
#define TESTS_PROGS_TRUTH_H

#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A function that keeps its own frame and its own name. */
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

#define TRUTH_FN static __attribute__((unused))

/* --- protocol --- */

static char truth_stdout_buffer[1 << 16];
static bool truth_auto;
static int truth_exit_status;

TRUTH_FN bool truth_flag(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return false;
}

TRUTH_FN uint64_t truth_number(int argc, char **argv, const char *name, uint64_t otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return strtoull(argv[i + 1], NULL, 0);
	return otherwise;
}

/* Reads lines until one equals word. Returns false at the end of input, or if "quit" comes
 * first. */
TRUTH_FN bool truth_await(const char *word)
{
	char line[64];
	size_t len = 0;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		if (c != '\n') {
			if (len < sizeof(line) - 1)
				line[len++] = c;
			continue;
		}
		line[len] = '\0';
		len = 0;
		if (!strcmp(line, word))
			return true;
		if (!strcmp(line, "quit"))
			return false;
	}
	return false;
}

/* Calls replace() every millisecond until the tester says "stop" or a minute is over. replace()
 * returns how many blocks it has replaced, and the sum is printed. */
TRUTH_FN int truth_replace(size_t (*replace)(void))
{
	const struct timespec nap = {0, 1000000};
	struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
	time_t end = time(NULL) + 60;
	size_t n = 0;

	while (time(NULL) < end && poll(&fd, 1, 0) <= 0) {
		n += replace();
		nanosleep(&nap, NULL);
	}
	truth_await("stop");
	printf("{\"replaced\": %zu}\n", n);
	fflush(stdout);
	truth_await("quit");
	return truth_exit_status;
}

/* Must be called first in main, before anything is printed. */
TRUTH_FN void truth_init(int argc, char **argv)
{
	setvbuf(stdout, truth_stdout_buffer, _IOFBF, sizeof(truth_stdout_buffer));
	truth_auto = truth_flag(argc, argv, "--auto");
	truth_exit_status = (int)truth_number(argc, argv, "--exit", 0);
}

/* Says "ready" and waits for "go". */
TRUTH_FN void truth_ready(void)
{
	if (truth_auto)
		return;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (!truth_await("go"))
		_exit(2);
}

/* Call this after the truth is printed. Waits for "quit". Returns the status to exit with. */
TRUTH_FN int truth_finish(void)
{
	fflush(stdout);
	if (!truth_auto)
		truth_await("quit");
	return truth_exit_status;
}

/* --- a small fast generator (xorshift64*), so that scripts are the same everywhere --- */

TRUTH_FN uint64_t truth_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

TRUTH_FN uint64_t truth_seed(uint64_t seed)
{
	return seed * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull;
}

/* --- books --- */

#ifdef TRUTH_BLOCKS_LOG2 /* programs with books define this: log2 of the largest number of blocks */

#define TRUTH_BLOCKS	    (1ul << TRUTH_BLOCKS_LOG2)
#define TRUTH_MAX_FUNCTIONS 64
#define TRUTH_MAX_THREADS   64

struct truth_function {
	const char *name;
	uint64_t live_bytes, live_objects;
	uint64_t alloc_bytes, alloc_objects;
	uint64_t freed_bytes, freed_objects;
};

struct truth_thread {
	const char *name;
	uint64_t live_bytes, live_objects;
};

struct truth_block {
	uintptr_t addr; /* 0: the slot is empty */
	uint64_t size;
	int16_t function, thread;
};

static struct truth_function truth_functions[TRUTH_MAX_FUNCTIONS];
static struct truth_thread truth_threads[TRUTH_MAX_THREADS];
static struct truth_block truth_blocks[TRUTH_BLOCKS]; /* open addressing by addr */
static size_t truth_n_functions, truth_n_threads, truth_n_blocks;
static uint64_t truth_alloc_calls, truth_realloc_calls, truth_failed_calls, truth_free_calls;
static __thread int truth_self = -1;
static volatile bool truth_locked;

TRUTH_FN void truth_lock(void)
{
	while (__atomic_test_and_set(&truth_locked, __ATOMIC_ACQUIRE))
		sched_yield();
}

TRUTH_FN void truth_unlock(void)
{
	__atomic_clear(&truth_locked, __ATOMIC_RELEASE);
}

TRUTH_FN void truth_die(const char *why)
{
	fprintf(stderr, "truth: %s\n", why);
	_exit(99);
}

TRUTH_FN size_t truth_slot(uintptr_t addr)
{
	return (size_t)((addr * 0x9e3779b97f4a7c15ull) >> (64 - TRUTH_BLOCKS_LOG2));
}

/* The slot that holds addr, or else the empty slot where addr belongs. */
TRUTH_FN size_t truth_find(uintptr_t addr)
{
	size_t i = truth_slot(addr);

	while (truth_blocks[i].addr && truth_blocks[i].addr != addr)
		i = (i + 1) & (TRUTH_BLOCKS - 1);
	return i;
}

TRUTH_FN void truth_insert(const struct truth_block *block)
{
	size_t i = truth_find(block->addr);

	if (truth_blocks[i].addr)
		truth_die("the allocator handed out a block twice");
	if (++truth_n_blocks > TRUTH_BLOCKS / 4 * 3)
		truth_die("too many blocks, raise TRUTH_BLOCKS_LOG2");
	truth_blocks[i] = *block;
}

/* Removes the block at slot i. Moves later blocks so that no search ends at the gap. */
TRUTH_FN void truth_remove(size_t i)
{
	size_t j = i;

	for (;;) {
		size_t home;

		j = (j + 1) & (TRUTH_BLOCKS - 1);
		if (!truth_blocks[j].addr)
			break;
		home = truth_slot(truth_blocks[j].addr);
		if (((j - home) & (TRUTH_BLOCKS - 1)) >= ((j - i) & (TRUTH_BLOCKS - 1))) {
			truth_blocks[i] = truth_blocks[j];
			i = j;
		}
	}
	truth_blocks[i].addr = 0;
	truth_n_blocks--;
}

TRUTH_FN int truth_function_index(const char *name)
{
	for (size_t i = 0; i < truth_n_functions; i++)
		if (truth_functions[i].name == name || !strcmp(truth_functions[i].name, name))
			return (int)i;
	if (truth_n_functions == TRUTH_MAX_FUNCTIONS)
		truth_die("too many functions");
	truth_functions[truth_n_functions].name = name;
	return (int)truth_n_functions++;
}

/* Enters a name for the calling thread into the books. `name` must stay valid, because the books
 * keep the pointer. */
TRUTH_FN void truth_thread(const char *name)
{
	truth_lock();
	if (truth_n_threads == TRUTH_MAX_THREADS)
		truth_die("too many threads");
	truth_threads[truth_n_threads].name = name;
	truth_self = (int)truth_n_threads++;
	truth_unlock();
}

TRUTH_FN void truth_credit(const char *function, uintptr_t addr, uint64_t size)
{
	int index = truth_function_index(function);
	struct truth_function *f = &truth_functions[index];
	struct truth_block block;

	block.addr = addr;
	block.size = size;
	block.function = (int16_t)index;
	block.thread = (int16_t)truth_self;
	truth_insert(&block);
	f->live_bytes += size;
	f->live_objects++;
	f->alloc_bytes += size;
	f->alloc_objects++;
	if (truth_self >= 0) {
		truth_threads[truth_self].live_bytes += size;
		truth_threads[truth_self].live_objects++;
	}
}

TRUTH_FN void truth_debit(const struct truth_block *block)
{
	struct truth_function *f = &truth_functions[block->function];

	f->live_bytes -= block->size;
	f->live_objects--;
	f->freed_bytes += block->size;
	f->freed_objects++;
	if (block->thread >= 0) {
		truth_threads[block->thread].live_bytes -= block->size;
		truth_threads[block->thread].live_objects--;
	}
}

/* Records that function asked the allocator for size bytes and got p. Returns p. */
TRUTH_FN NOINLINE void *truth_allocated(const char *function, void *p, uint64_t size)
{
	truth_lock();
	truth_alloc_calls++;
	if (p)
		truth_credit(function, (uintptr_t)p, size);
	else {
		truth_function_index(function);
		truth_failed_calls++;
	}
	truth_unlock();
	return p;
}

/* Removes p's block from the table, but leaves the sums as they are. Call it before the call that
 * frees p: after that call another thread may own the address. */
TRUTH_FN NOINLINE struct truth_block truth_take(void *p)
{
	struct truth_block block = {0, 0, 0, 0};
	size_t i;

	if (!p)
		return block;
	truth_lock();
	i = truth_find((uintptr_t)p);
	if (!truth_blocks[i].addr)
		truth_die("freeing a block that is not in the books");
	block = truth_blocks[i];
	truth_remove(i);
	truth_unlock();
	return block;
}

/* Records that realloc(old, size) returned p. Returns p. */
TRUTH_FN NOINLINE void *truth_reallocated(const char *function, const struct truth_block *old,
					  void *p, uint64_t size)
{
	truth_lock();
	truth_alloc_calls++;
	truth_realloc_calls++;
	truth_function_index(function);
	if (p) {
		if (old->addr)
			truth_debit(old);
		truth_credit(function, (uintptr_t)p, size);
	} else if (old->addr && !size) {
		truth_debit(old);
	} else {
		truth_failed_calls++;
		if (old->addr)
			truth_insert(old);
	}
	truth_unlock();
	return p;
}

TRUTH_FN NOINLINE void *truth_freeing(void *p)
{
	struct truth_block block = truth_take(p);

	if (p) {
		truth_lock();
		truth_free_calls++;
		truth_debit(&block);
		truth_unlock();
	}
	return p;
}

/* These are macros, so that the function itself calls the allocator: no wrapper is on the stack. */
#define T_NOTE(p, size)	   truth_allocated(__func__, (p), (size))
#define T_MALLOC(n)	   T_NOTE(malloc(n), (n))
#define T_CALLOC(count, n) T_NOTE(calloc((count), (n)), (count) * (n))
#define T_FREE(p)	   free(truth_freeing(p))
#define T_REALLOC(p, n)                                                                            \
	__extension__({                                                                            \
		void *old_ = (p);                                                                  \
		size_t size_ = (n);                                                                \
		struct truth_block block_ = truth_take(old_);                                      \
		void *new_ = realloc(old_, size_);                                                 \
		truth_reallocated(__func__, &block_, new_, size_);                                 \
	})
#define T_REALLOCARRAY(p, count, n)                                                                \
	__extension__({                                                                            \
		void *old_ = (p);                                                                  \
		size_t count_ = (count), size_ = (n), bytes_;                                      \
		struct truth_block block_ = truth_take(old_);                                      \
		void *new_ = reallocarray(old_, count_, size_);                                    \
		if (__builtin_mul_overflow(count_, size_, &bytes_))                                \
			bytes_ = SIZE_MAX;                                                         \
		truth_reallocated(__func__, &block_, new_, bytes_);                                \
	})

/* Prints the truth without its closing brace, so that a program can add to it. */
TRUTH_FN void truth_print_open(void)
{
	const char *comma = "";

	printf("{\"functions\": {");
	for (size_t i = 0; i < truth_n_functions; i++) {
		const struct truth_function *f = &truth_functions[i];

		printf("%s\"%s\": {\"live_bytes\": %" PRIu64 ", \"live_objects\": %" PRIu64
		       ", \"alloc_bytes\": %" PRIu64 ", \"alloc_objects\": %" PRIu64
		       ", \"freed_bytes\": %" PRIu64 ", \"freed_objects\": %" PRIu64 "}",
		       comma, f->name, f->live_bytes, f->live_objects, f->alloc_bytes,
		       f->alloc_objects, f->freed_bytes, f->freed_objects);
		comma = ", ";
	}
	printf("}");
	comma = "";
	if (truth_n_threads) {
		printf(", \"threads\": {");
		for (size_t i = 0; i < truth_n_threads; i++) {
			printf("%s\"%s\": {\"live_bytes\": %" PRIu64 ", \"live_objects\": %" PRIu64
			       "}",
			       comma, truth_threads[i].name, truth_threads[i].live_bytes,
			       truth_threads[i].live_objects);
			comma = ", ";
		}
		printf("}");
	}
	printf(", \"alloc_calls\": %" PRIu64 ", \"realloc_calls\": %" PRIu64
	       ", \"failed_calls\": %" PRIu64 ", \"free_calls\": %" PRIu64,
	       truth_alloc_calls, truth_realloc_calls, truth_failed_calls, truth_free_calls);
}

TRUTH_FN void truth_print(void)
{
	truth_print_open();
	printf("}\n");
	fflush(stdout);
}

#endif /* TRUTH_BLOCKS_LOG2 */
TRUTH_FN uint64_t truth_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Is there a line on stdin? (The only possible line is "stop".) */
TRUTH_FN bool truth_told_to_stop(void)
{
	struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
	char line[16];

	return poll(&fd, 1, 0) > 0 && read(STDIN_FILENO, line, sizeof(line)) >= 0;
}

#endif
