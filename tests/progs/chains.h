/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs of test_stacks.py share. Each program allocates blocks in call chains of known
 * shape and keeps them. Each chain has a block size of its own. For each size, the line of truth
 * has the number of blocks and the functions on the stack. The functions are listed innermost
 * first, from the caller of malloc to the outermost one, which is main or a thread's first
 * function:
 *
 *	{"stacks": [{"size": SIZE, "objects": N, "frames": ["leaf", ..., "main"]}, ...]}
 *
 * "*" stands for any number of functions of libraries. A stack has such functions only where a "*"
 * is.
 *
 * Protocol as in truth.h: "ready PID", waits for "go", prints the truth, waits for the end of its
 * input. Sizes are odd and above 10,000. Nothing else allocates blocks of such sizes. */
#ifndef TESTS_PROGS_CHAINS_H
#define TESTS_PROGS_CHAINS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A function that keeps its own frame and its own name. */
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory") /* uses p; prevents a tail call */

static char chains_buffer[1 << 17];
static int chains_n_stacks, chains_n_frames;

static inline void declare_begin(size_t size, int objects)
{
	printf("%s{\"size\": %zu, \"objects\": %d, \"frames\": [", chains_n_stacks++ ? ", " : "",
	       size, objects);
	chains_n_frames = 0;
}

/* Declares the next frame outwards, repeated `times` times. */
static inline void declare_frames(const char *name, int times)
{
	for (int i = 0; i < times; i++)
		printf("%s\"%s\"", chains_n_frames++ ? ", " : "", name);
}

static inline void declare_end(void)
{
	printf("]}");
}

/* Declares one block and its stack: function names, innermost first, ended by NULL. */
__attribute__((sentinel)) static inline void declare(size_t size, ...)
{
	const char *name;
	va_list names;

	declare_begin(size, 1);
	va_start(names, size);
	while ((name = va_arg(names, const char *)))
		declare_frames(name, 1);
	va_end(names);
	declare_end();
}

static inline void chains_begin(void)
{
	char line[8];

	/* The buffer has room for all output, so that nothing is written or allocated before the
	 * end. */
	setvbuf(stdout, chains_buffer, _IOFBF, sizeof(chains_buffer));
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		_exit(2);
	printf("{\"stacks\": [");
}

/* Ends the truth and waits for "quit". Returns the status to exit with. */
static inline int chains_end(void)
{
	char line[8];

	printf("]}\n");
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0; /* "quit", or the end */
}

#endif
