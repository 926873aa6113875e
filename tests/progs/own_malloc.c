/* SPDX-License-Identifier: BSD-2-Clause */
/* A program with an unknown allocator: it defines malloc itself. Prints "ready PID", allocates a
 * block every 20 ms and never frees one. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM (64 << 20)

static char arena[ROOM];
static size_t used;

void *malloc(size_t size)
{
	char *p = arena + used + 16;

	size = (size + 31) & ~(size_t)15;
	if (size > ROOM - used)
		return NULL;
	used += size;
	memcpy(p - 16, &size, sizeof(size));
	return p;
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size); /* memory that was never used, so its bytes are 0 */
}

void *realloc(void *p, size_t size)
{
	char *grown = malloc(size);
	size_t had;

	if (p && grown) {
		memcpy(&had, (char *)p - 16, sizeof(had));
		memcpy(grown, p, had - 16 < size ? had - 16 : size);
	}
	return grown;
}

int main(void)
{
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (;;) {
		void *p = malloc(1000);

		__asm__ volatile("" : : "r"(p) : "memory");
		usleep(20000);
	}
}
