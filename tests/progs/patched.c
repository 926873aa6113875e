/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that has changed its own copy of the C library's code, as hot patching and some agents
 * do: malloc and free begin with a jump to functions of its own. After each "go" it calls them many
 * times and prints {"calls": N, "own": N}: how often it called, and how often its own functions
 * ran. They differ, or the program dies, when somebody puts other code there. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "truth.h"

#define CALLS 1000

static volatile unsigned long own;

NOINLINE static void *own_malloc(size_t size)
{
	static char block[4096];

	own++;
	return size < sizeof(block) ? block : NULL;
}

NOINLINE static void own_free(void *p)
{
	(void)p;
	own++;
}

/* jmp *0(%rip), and the address behind it. */
static void patch(void *code, void *to)
{
	static const unsigned char jump[6] = {0xff, 0x25};
	char *page = (char *)((uintptr_t)code & ~4095UL);

	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	memcpy(code, jump, sizeof(jump));
	memcpy((char *)code + sizeof(jump), &to, sizeof(to));
	if (mprotect(page, 8192, PROT_READ | PROT_EXEC))
		abort();
}

int main(int argc, char **argv)
{
	void *volatile p;

	truth_init(argc, argv);
	patch(dlsym(RTLD_DEFAULT, "malloc"), (void *)own_malloc);
	patch(dlsym(RTLD_DEFAULT, "free"), (void *)own_free);
	truth_ready();
	do {
		own = 0;
		for (int i = 0; i < CALLS; i++) {
			p = malloc(100);
			free(p);
		}
		printf("{\"calls\": %d, \"own\": %lu}\n", 2 * CALLS, own);
		fflush(stdout);
	} while (truth_await("go"));
	return truth_exit_status;
}
