/* SPDX-License-Identifier: BSD-2-Clause */
/* Call chains of C. The Makefile builds the program in two ways. One is the way of distributions:
 * with unwind tables and without frame pointers. The other is with frame pointers and without
 * unwind tables. Each build is linked dynamically, statically and as a static PIE.
 *
 * If the argument is the path of a library, the program loads the library with dlopen after "go".
 * The library's function lib_leaf() calls back. */
#include "chains.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

NOINLINE static void allocate(size_t size)
{
	void *p = malloc(size);

	KEEP(p);
}

NOINLINE static void descend(int depth, size_t size)
{
	if (depth > 1)
		descend(depth - 1, size);
	else
		allocate(size);
	KEEP(&depth);
}

/* --- callbacks of libc --- */

NOINLINE static int compare(const void *a, const void *b)
{
	static int calls;

	if (!calls++)
		allocate(20001);
	KEEP(a);
	return *(const int *)a - *(const int *)b;
}

NOINLINE static void sort_numbers(void)
{
	int numbers[16];

	for (int i = 0; i < 16; i++)
		numbers[i] = i * 7 % 16;
	qsort(numbers, 16, sizeof(numbers[0]), compare);
	KEEP(numbers);
}

NOINLINE static int find_compare(const void *key, const void *member)
{
	static int calls;

	if (!calls++)
		allocate(20003);
	KEEP(key);
	return *(const int *)key - *(const int *)member;
}

NOINLINE static void search_numbers(void)
{
	static const int numbers[] = {1, 2, 3, 4, 5};
	int key = 9;

	KEEP(bsearch(&key, numbers, 5, sizeof(int), find_compare));
}

/* --- signals --- */

static size_t handler_size;

NOINLINE static void handler(int sig)
{
	allocate(handler_size);
	KEEP(&sig);
}

NOINLINE static void be_interrupted(size_t size)
{
	handler_size = size;
	raise(SIGUSR1);
	KEEP(NULL);
}

/* The signal comes between two instructions of this program, not in libc. At this place the
 * function has set up its frame. Before that, a walk by frame pointers alone would miss the
 * caller. */
NOINLINE static void be_trapped(size_t size)
{
	handler_size = size;
	getpid();
	__asm__ volatile("int3" : : : "memory");
	KEEP(NULL);
}

static void handle(int sig, int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(sig, &action, NULL);
}

/* elsewhere: true: the handlers run on a stack of their own; false: on the interrupted stack. */
NOINLINE static void signals(bool elsewhere, size_t size)
{
	static char memory[65536];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};

	sigaltstack(&stack, NULL);
	handle(SIGUSR1, elsewhere ? SA_ONSTACK : 0);
	handle(SIGTRAP, elsewhere ? SA_ONSTACK : 0);
	be_interrupted(size);
	declare(size, "allocate", "handler", "*", "be_interrupted", "signals", "main", NULL);
	be_trapped(size + 2);
	declare(size + 2, "allocate", "handler", "*", "be_trapped", "signals", "main", NULL);
}

/* --- frames --- */

NOINLINE static void variable_array(int n)
{
	char array[n];

	memset(array, 1, (size_t)n);
	KEEP(array);
	allocate(20041);
	KEEP(array);
}

/* gcc aligns this frame, and keeps the address of the caller's frame in it. */
NOINLINE static void realigned(int n)
{
	_Alignas(64) char aligned[64];
	char array[n];

	memset(aligned, 1, sizeof(aligned));
	memset(array, 1, (size_t)n);
	KEEP(aligned);
	KEEP(array);
	allocate(20047);
	KEEP(aligned);
	KEEP(array);
}

NOINLINE static void call_realigned(int n)
{
	realigned(n);
	KEEP(&n);
}

NOINLINE static void taken_by_alloca(int n)
{
	for (int i = 1; i < 4; i++) {
		char *memory = alloca((size_t)(n * i));

		memset(memory, 1, (size_t)(n * i));
		KEEP(memory);
	}
	allocate(20043);
	KEEP(&n);
}

NOINLINE static void large_frame(void)
{
	char array[100000];

	memset(array, 1, sizeof(array));
	KEEP(array);
	allocate(20045);
	KEEP(array);
}

/* --- tail calls: a function that jumps to another is not on the stack ---
 *
 * Each of these functions jumps. If stay is set, it calls instead, and so is on the stack. */

NOINLINE static void *jumped_to(size_t size)
{
	void *p = malloc(size);

	KEEP(p);
	return p;
}

NOINLINE static void *jump(size_t size, bool stay)
{
	if (!stay)
		return jumped_to(size);
	allocate(size);
	KEEP(size);
	return NULL;
}

NOINLINE static void *jump_to_malloc(size_t size, bool stay)
{
	if (!stay)
		return malloc(size);
	allocate(size);
	KEEP(size);
	return NULL;
}

NOINLINE static void call_those_that_jump(void)
{
	KEEP(jump(20021, false));
	KEEP(jump(20023, true));
	KEEP(jump_to_malloc(20025, false));
	KEEP(jump_to_malloc(20027, true));
}

/* --- coroutines: they allocate between swaps of contexts --- */

static ucontext_t outside, ping_context, pong_context;

NOINLINE static void ping_deep(int depth)
{
	if (depth > 1) {
		ping_deep(depth - 1);
	} else {
		swapcontext(&ping_context, &pong_context);
		allocate(20031);
		swapcontext(&ping_context, &pong_context);
		allocate(20035);
	}
	KEEP(&depth);
}

NOINLINE static void ping(void)
{
	ping_deep(20);
	KEEP(&outside);
}

NOINLINE static void pong_deep(int depth)
{
	if (depth > 1) {
		pong_deep(depth - 1);
	} else {
		swapcontext(&pong_context, &ping_context);
		allocate(20033);
		swapcontext(&pong_context, &ping_context);
	}
	KEEP(&depth);
}

NOINLINE static void pong(void)
{
	pong_deep(10);
	KEEP(&outside);
}

NOINLINE static void coroutine(ucontext_t *context, void (*entry)(void), char *stack, size_t size)
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = size;
	context->uc_link = &outside;
	makecontext(context, entry, 0);
}

NOINLINE static void run_coroutines(void)
{
	static char stack[65536];
	/* lies below the caller's frames, where a walk that goes too far would read */
	char near[65536];

	coroutine(&ping_context, ping, stack, sizeof(stack));
	coroutine(&pong_context, pong, near, sizeof(near));
	swapcontext(&outside, &ping_context);
	KEEP(near);
}

/* --- threads: each has its own depth, path and size; all run at the same time --- */

#define N_THREADS   16
#define ROUNDS	    50
#define SIZE_OF(i)  (30001 + 2 * (size_t)(i))
#define DEPTH_OF(i) (3 + 5 * (i))

static pthread_barrier_t all_there;

static void left(int id, int depth);

NOINLINE static void right(int id, int depth)
{
	if (depth == 0)
		allocate(SIZE_OF(id));
	else if (id >> depth % 4 & 1)
		right(id, depth - 1);
	else
		left(id, depth - 1);
	KEEP(&id);
}

NOINLINE static void left(int id, int depth)
{
	if (depth == 0)
		allocate(SIZE_OF(id));
	else if (id >> depth % 4 & 1)
		right(id, depth - 1);
	else
		left(id, depth - 1);
	KEEP(&id);
}

NOINLINE static void *one_of_many(void *arg)
{
	int id = (int)(intptr_t)arg;

	pthread_barrier_wait(&all_there);
	for (int i = 0; i < ROUNDS; i++) {
		void *other = malloc(SIZE_OF(id) + 1000); /* freed, so it is not in the truth */

		KEEP(other);
		left(id, DEPTH_OF(id));
		free(other);
	}
	return NULL;
}

NOINLINE static void run_threads(void)
{
	pthread_t threads[N_THREADS];

	pthread_barrier_init(&all_there, NULL, N_THREADS);
	for (intptr_t i = 0; i < N_THREADS; i++)
		if (pthread_create(&threads[i], NULL, one_of_many, (void *)i))
			_exit(3);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < N_THREADS; i++) {
		declare_begin(SIZE_OF(i), ROUNDS);
		declare_frames("allocate", 1);
		for (int depth = 1; depth <= DEPTH_OF(i); depth++)
			declare_frames(i >> depth % 4 & 1 ? "right" : "left", 1);
		declare_frames("left", 1);
		declare_frames("one_of_many", 1);
		declare_end();
	}
}

/* --- a library that is loaded while the program is traced --- */

#ifndef STATIC
NOINLINE static void call_back(size_t size)
{
	allocate(size);
	KEEP(&size);
}

NOINLINE static void use_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*leaf)(void (*)(size_t), size_t) =
		library ? (void (*)(void (*)(size_t), size_t))dlsym(library, "lib_leaf") : NULL;

	if (!leaf) {
		fprintf(stderr, "chains: %s\n", dlerror());
		exit(1);
	}
	/* a tracer knows the library's code only a fraction of a second after it was mapped */
	usleep(700000);
	leaf(call_back, 20051);
	KEEP(library);
}
#endif

int main(int argc, char **argv)
{
	/* the deepest stack has 126 frames: malloc, allocate, main and libc's are among them */
	static const int depths[] = {5, 60, 120};

	chains_begin();
	for (int i = 0; i < 3; i++) {
		size_t size = 10001 + 2 * (size_t)depths[i];

		descend(depths[i], size);
		declare_begin(size, 1);
		declare_frames("allocate", 1);
		declare_frames("descend", depths[i]);
		declare_frames("main", 1);
		declare_end();
	}
	sort_numbers();
	declare(20001, "allocate", "compare", "*", "sort_numbers", "main", NULL);
	search_numbers();
	declare(20003, "allocate", "find_compare", "*", "search_numbers", "main", NULL);

	signals(false, 20005);
	signals(true, 20009);
	variable_array(argc * 1000);
	declare(20041, "allocate", "variable_array", "main", NULL);
	call_realigned(argc * 1000);
	declare(20047, "allocate", "realigned", "call_realigned", "main", NULL);
	taken_by_alloca(argc * 1000);
	declare(20043, "allocate", "taken_by_alloca", "main", NULL);
	large_frame();
	declare(20045, "allocate", "large_frame", "main", NULL);

	call_those_that_jump();
	declare(20021, "jumped_to", "call_those_that_jump", "main", NULL);
	declare(20023, "allocate", "jump", "call_those_that_jump", "main", NULL);
	declare(20025, "call_those_that_jump", "main", NULL);
	declare(20027, "allocate", "jump_to_malloc", "call_those_that_jump", "main", NULL);

	run_coroutines(); /* threads have stacks of their own, without main */
	for (size_t size = 20031; size <= 20035; size += 2) {
		bool is_ping = size != 20033;

		declare_begin(size, 1);
		declare_frames("allocate", 1);
		declare_frames(is_ping ? "ping_deep" : "pong_deep", is_ping ? 20 : 10);
		declare_frames(is_ping ? "ping" : "pong", 1);
		declare_end();
	}
	run_threads();
#ifndef STATIC
	if (argc > 1) {
		use_library(argv[1]);
		declare(20051, "allocate", "call_back", "lib_middle", "lib_leaf", "use_library",
			"main", NULL);
	}
#else
	(void)argv;
#endif
	return chains_end();
}
