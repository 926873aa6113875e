/* SPDX-License-Identifier: BSD-2-Clause */
/* Call chains of known shape, in code without frame pointers (built with -O2 -fomit-frame-pointer).
 *Each allocates a block of a size of its own, kept, and the truth line says which functions of this
 *program stand on the stack there, innermost first, main last:
 *
 *	{"stacks": {"SIZE": ["leaf", ..., "main"], ...}, "functions": {}}
 *
 * Protocol as in truth.h: "ready PID", waits for "go", prints the truth, waits for the end of its
 *input. With a library's path as argument it is loaded with dlopen after "go"; its function
 *lib_leaf() is to call back. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP(p)	 __asm__ volatile("" : : "r"(p) : "memory") /* also: no tail call before it */

static char truth[65536] = "{\"stacks\": {";

/* One line of the truth: size and names, innermost first, the second of them times over. */
static void expect(size_t size, int times, const char *const names[])
{
	char *to = truth + strlen(truth);

	to += sprintf(to, "%s\"%zu\": [", to[-1] == '{' ? "" : ", ", size);
	for (int i = 0; names[i]; i++)
		for (int n = 0; n < (i == 1 ? times : 1); n++)
			to += sprintf(to, "%s\"%s\"", i || n ? ", " : "", names[i]);
	sprintf(to, "]");
}

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

static int compare_calls;

NOINLINE static int compare(const void *a, const void *b)
{
	if (!compare_calls++)
		allocate(2001);
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
		allocate(2002);
	KEEP(key);
	return *(const int *)key - *(const int *)member;
}

NOINLINE static void search_numbers(void)
{
	static const int numbers[] = {1, 2, 3, 4, 5};
	int key = 9;

	KEEP(bsearch(&key, numbers, 5, sizeof(int), find_compare));
}

NOINLINE static void handler(int sig)
{
	allocate(2003);
	KEEP(&sig);
}

NOINLINE static void be_interrupted(void)
{
	raise(SIGUSR1);
	KEEP(NULL);
}

NOINLINE static void variable_array(int n)
{
	char array[n];

	memset(array, 1, (size_t)n);
	KEEP(array);
	allocate(2004);
	KEEP(array);
}

NOINLINE static void large_frame(void)
{
	char array[100000];

	memset(array, 1, sizeof(array));
	KEEP(array);
	allocate(2005);
	KEEP(array);
}

static ucontext_t outside, inside;

NOINLINE static void coroutine(void)
{
	allocate(2006);
	KEEP(&inside);
}

NOINLINE static void run_coroutine(void)
{
	static char stack[65536];

	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = sizeof(stack);
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	KEEP(&outside);
}

NOINLINE static void *thread(void *arg)
{
	allocate((size_t)arg);
	KEEP(arg);
	return NULL;
}

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
	/* its code is known to a tracer a fraction of a second after it was mapped */
	usleep(700000);
	leaf(call_back, 2008);
	KEEP(library);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

int main(int argc, char **argv)
{
	static char buffer[65536];
	char line[8];
	pthread_t t;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;

	for (int i = 0; i < 3; i++) {
		int depth = ((const int[]){5, 60, 118})[i];

		descend(depth, 1000 + (size_t)depth);
		expect(1000 + (size_t)depth, depth, NAMES("allocate", "descend", "main"));
	}
	sort_numbers();
	expect(2001, 1, NAMES("allocate", "compare", "sort_numbers", "main"));
	search_numbers();
	expect(2002, 1, NAMES("allocate", "find_compare", "search_numbers", "main"));
	signal(SIGUSR1, handler);
	be_interrupted();
	expect(2003, 1, NAMES("allocate", "handler", "be_interrupted", "main"));
	variable_array(argc * 1000);
	expect(2004, 1, NAMES("allocate", "variable_array", "main"));
	large_frame();
	expect(2005, 1, NAMES("allocate", "large_frame", "main"));
	run_coroutine(); /* its stack is its own: it has no main */
	expect(2006, 1, NAMES("allocate", "coroutine"));
	pthread_create(&t, NULL, thread, (void *)2007);
	pthread_join(t, NULL);
	expect(2007, 1, NAMES("allocate", "thread"));
	if (argc > 1) {
		use_library(argv[1]);
		expect(2008, 1,
		       NAMES("allocate", "call_back", "lib_middle", "lib_leaf", "use_library",
			     "main"));
	}
	printf("%s}, \"functions\": {}}\n", truth);
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0; /* "quit", or the end */
}
