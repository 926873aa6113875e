/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that forks or executes another program while it allocates as fast as it can, from "go"
 * until the line "stop". In each second of the wall clock it allocates --leak BYTES (500000), in
 * blocks of 300, and never frees them. --threads T (0) threads start short threads all the time,
 * which allocate, free and end. At the line
 *
 *   fork   the program forks, and says "child <pid>"; the child waits for the end of its parent
 *   exec   it executes another program (itself, in its second life), with the library --preload
 *	   PATH if there is one; the second life says "again <pid>" when it runs
 *
 * At the end prints {"pairs", "kept_bytes", "seconds", "threads"} since its start or exec. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "truth.h"

#define MAX_THREADS 64
#define SIZE	    300

static volatile bool over;
static uint64_t n_ended[MAX_THREADS];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void keep(void)
{
	char *p = malloc(SIZE);

	if (!p)
		abort();
	memset(p, 7, SIZE);
	__asm__ volatile("" : "+r"(p) : : "memory");
}

NOINLINE static void first_life(void)
{
	keep();
	__asm__ volatile("");
}

NOINLINE static void second_life(void)
{
	keep();
	__asm__ volatile("");
}

NOINLINE static void pairs_of(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		void *p = malloc(100);

		__asm__ volatile("" : "+r"(p) : : "memory");
		free(p);
	}
}

static void *live_briefly(void *arg)
{
	pairs_of(300);
	return arg;
}

static void *start_others(void *arg)
{
	uint64_t *n = arg;
	pthread_t thread;

	while (!over)
		if (!pthread_create(&thread, NULL, live_briefly, NULL)) {
			pthread_join(thread, NULL);
			++*n;
		}
	return NULL;
}

static void fork_child(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		abort();
	if (child) {
		printf("child %d\n", child);
		fflush(stdout);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (;;)
		pause();
}

static void become_another(int argc, char **argv)
{
	char *args[16];
	int n = 0;

	for (int i = 0; i < argc && n < 14; i++) {
		if (!strcmp(argv[i], "--preload") && i + 1 < argc)
			setenv("LD_PRELOAD", argv[++i], 1);
		else
			args[n++] = argv[i];
	}
	args[n++] = "--second";
	args[n] = NULL;
	execv("/proc/self/exe", args);
	abort();
}

/* The first letter of a line on stdin, or 0 for none. The end of stdin counts as "stop". */
static char command(void)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	char first = 0, c = 0;

	if (poll(&fd, 1, 0) <= 0)
		return 0;
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		first = first ? first : c;
	return first ? first : 's';
}

int main(int argc, char **argv)
{
	bool second = truth_flag(argc, argv, "--second");
	uint64_t leak, n_threads, start, now, pairs = 0, kept = 0, ended = 0;
	pthread_t threads[MAX_THREADS];
	char line;

	truth_init(argc, argv);
	leak = truth_number(argc, argv, "--leak", 500000);
	n_threads = truth_number(argc, argv, "--threads", 0);
	if (n_threads > MAX_THREADS)
		return 2;
	if (!second) {
		truth_ready();
	} else {
		printf("again %d\n", getpid());
		fflush(stdout);
	}
	for (uint64_t i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, start_others, &n_ended[i]))
			return 2;
	start = now = now_ns();
	while ((line = command()) != 's') {
		if (line == 'f')
			fork_child();
		if (line == 'e')
			become_another(argc, argv);
		/* one round takes 1 or 2 ms in a window, so each window sees leaked blocks */
		pairs_of(100);
		pairs += 100;
		now = now_ns();
		for (; kept < (now - start) / 1000 * leak / 1000000; kept += SIZE)
			second ? second_life() : first_life();
	}
	over = true;
	for (uint64_t i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
		ended += n_ended[i];
	}
	printf("{\"pairs\": %" PRIu64 ", \"kept_bytes\": %" PRIu64
	       ", \"seconds\": %.3f, \"threads\": %" PRIu64 "}\n",
	       pairs, kept, (double)(now - start) / 1e9, ended);
	return truth_finish();
}
