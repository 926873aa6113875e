/* SPDX-License-Identifier: BSD-2-Clause */
/* refusing LIBRARY: says "ready PID", loads an allocator at "go" and says "loaded". At the next
 * "go", give() allocates 1,000 blocks of 1,000 bytes with the allocator's malloc and frees all but
 * 3. It allocates 5 blocks of 100 bytes with valloc and frees none. It allocates 1,000 blocks of
 * 200 bytes from the C library and frees all but 7. */
#include <dlfcn.h>

#include "truth.h"

#define BLOCKS 1000

static void *(*je_malloc)(size_t), *(*je_valloc)(size_t);
static void (*je_free)(void *);
static void *blocks[BLOCKS], *others[BLOCKS];

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		exit(1);
	return found;
}

NOINLINE static void give(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = je_malloc(1000);
		others[i] = malloc(200);
	}
	for (int i = 0; i < 5; i++)
		if (!je_valloc(100))
			exit(1);
	for (int i = 0; i < BLOCKS; i++) {
		if (i >= 3)
			je_free(blocks[i]);
		if (i >= 7)
			free(others[i]);
	}
}

int main(int argc, char **argv)
{
	void *library;

	setvbuf(stdout, truth_stdout_buffer, _IOFBF, sizeof(truth_stdout_buffer));
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (argc < 2 || !truth_await("go"))
		return 1;
	library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return 1;
	je_malloc = (void *(*)(size_t))symbol(library, "je_malloc");
	je_valloc = (void *(*)(size_t))symbol(library, "je_valloc");
	je_free = (void (*)(void *))symbol(library, "je_free");
	printf("loaded\n");
	fflush(stdout);
	if (!truth_await("go"))
		return 1;
	give();
	printf("{}\n");
	fflush(stdout);
	truth_await("quit");
	return 0;
}
