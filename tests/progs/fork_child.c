/* SPDX-License-Identifier: BSD-2-Clause */
/* A parent that allocates, forks a child and allocates again. The child frees the blocks that it
 * inherited and allocates its own, at the same addresses. The printed truth covers only the
 * parent. */
#include <sys/wait.h>

#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#define BLOCKS 5000

static void *before[BLOCKS];

NOINLINE static void *parent_before_fork(size_t size)
{
	return T_MALLOC(size);
}

NOINLINE static void *parent_after_fork(size_t size)
{
	return T_MALLOC(size);
}

/* The child's blocks are not counted, because the counts would end with the child. */
NOINLINE static void child_frees_inherited(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		free(before[i]);
}

NOINLINE static void child_allocates(void)
{
	for (size_t i = 0; i < 2 * BLOCKS; i++) {
		void *p = malloc(200 + i % 300);

		__asm__ volatile("" : "+r"(p) : : "memory");
	}
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	truth_init(argc, argv);
	truth_ready();
	for (size_t i = 0; i < BLOCKS; i++)
		before[i] = parent_before_fork(32 + i % 1000);
	child = fork();
	if (child < 0) {
		perror("fork_child: fork");
		return 99;
	}
	if (!child) {
		child_frees_inherited();
		child_allocates();
		_exit(7);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		parent_after_fork(16 + i % 100);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		fprintf(stderr, "fork_child: the child did not end well\n");
		return 98;
	}
	for (size_t i = 0; i < BLOCKS; i += 2)
		T_FREE(before[i]);
	truth_print();
	return truth_finish();
}
