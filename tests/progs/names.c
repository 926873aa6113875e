/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates in places whose function names are hard to find, and prints the right names. The places
 * are inlined functions, code of a JIT (at a fixed address; the test gives it a name), and a signal
 * handler that interrupts the vdso. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define INLINE	 static inline __attribute__((always_inline))
#define KEEP(p)	 __asm__ volatile("" : : "r"(p) : "memory")

#define JIT_ADDR 0x10000000
#define TICKS	 60

enum { INNER_LINE = __LINE__ + 4 };

INLINE void *inner(size_t size)
{
	void *p = malloc(size);

	KEEP(p);
	return p;
}

enum { MIDDLE_LINE = __LINE__ + 4 };

INLINE void *middle(size_t size)
{
	void *p = inner(size);

	KEEP(p);
	return p;
}

enum { OUTER_LINE = __LINE__ + 4 };

NOINLINE static void outer(size_t size)
{
	void *p = middle(size);

	KEEP(p);
}

NOINLINE static void allocate(size_t size)
{
	void *p = malloc(size);

	KEEP(p);
}

NOINLINE static void run_jit(void)
{
	static const unsigned char code[] = {
		0x55,		  /* push %rbp */
		0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
		0xff, 0xd6,	  /* call *%rsi */
		0x5d,		  /* pop %rbp */
		0xc3,		  /* ret */
	};
	void *at = mmap((void *)JIT_ADDR, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != (void *)JIT_ADDR) {
		perror("names: mmap");
		exit(1);
	}
	memcpy(at, code, sizeof(code));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC)) {
		perror("names: mprotect");
		exit(1);
	}
	((void (*)(size_t, void (*)(size_t)))JIT_ADDR)(3002, allocate);
	KEEP(at);
}

static volatile int ticks;

static void on_tick(int sig)
{
	(void)sig;
	if (ticks < TICKS)
		allocate(3003);
	ticks++;
}

NOINLINE static void read_clock(void)
{
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {};
	struct timespec ts;

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &every, NULL);
	while (ticks < TICKS)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	setitimer(ITIMER_REAL, &never, NULL);
	KEEP(&ts);
}

int main(void)
{
	static char buffer[4096];
	char line[8];

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;
	outer(3001);
	run_jit();
	read_clock();
	printf("{\"inlined\": [[\"inner\", %d], [\"middle\", %d], [\"outer\", %d]], "
	       "\"jit\": %d, \"ticks\": %d}\n",
	       INNER_LINE, MIDDLE_LINE, OUTER_LINE, JIT_ADDR, TICKS);
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0; /* "quit", or the end */
}
