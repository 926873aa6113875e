/* SPDX-License-Identifier: BSD-2-Clause */
/* Control flow that a tracer must not disturb, in --rounds N (200). Signals: they arrive anywhere
 * in the allocator. Their handler runs on an alternate signal stack, and sometimes leaves by
 * siglongjmp. Jumps: setjmp/longjmp over many frames that hold blocks. Stacks: coroutines that
 * allocate on their own stacks, threads that exit from deep stacks, deep recursion. Also qsort with
 * its own buffer.
 * Prints {"checksum": ...}, which depends on --rounds alone, and exits with the status of --exit N.
 * Traced or not, the output is the same. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include "truth.h"

static uint64_t checksum = 0xcbf29ce484222325ull;

/* The compiler must not know that some calls never return. */
static volatile bool certain = true;

static void mix(uint64_t value)
{
	checksum = (checksum ^ value) * 0x100000001b3ull;
}

/* A block filled with one byte: spend_block() aborts if anything wrote over the block. */
NOINLINE static unsigned char *make_block(size_t size, unsigned char fill)
{
	unsigned char *p = malloc(size);

	if (!p)
		abort();
	memset(p, fill, size);
	return p;
}

NOINLINE static void spend_block(unsigned char *p, size_t size, unsigned char fill)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != fill)
			abort();
	mix(size + fill);
	free(p);
}

/* --- signals: a timer runs all the time --- */

static sigjmp_buf jump_target;
/* never set during a call of the allocator, because a jump out of the call would break the
 * allocator */
static volatile sig_atomic_t may_jump;
static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
	if (may_jump) {
		may_jump = 0;
		siglongjmp(jump_target, 1);
	}
}

static void start_ticking(void)
{
	static char stack[64 * 1024];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART | SA_ONSTACK};
	struct itimerval timer = {{0, 500}, {0, 500}};

	if (sigaltstack(&alternate, NULL) || sigaction(SIGALRM, &action, NULL) ||
	    setitimer(ITIMER_REAL, &timer, NULL))
		abort();
}

static void stop_ticking(void)
{
	struct itimerval timer = {{0, 0}, {0, 0}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Allocates in a loop until the timer's handler jumps out, between two calls of the allocator. */
NOINLINE static void thrown_out_by_signal(unsigned int round)
{
	unsigned char *volatile held = make_block(100 + round, 'h');

	if (!sigsetjmp(jump_target, 1)) {
		for (;;) {
			unsigned char *p = malloc(32);

			__asm__ volatile("" : "+r"(p) : : "memory");
			free(p);
			may_jump = 1;
			/* work that takes as long as a traced call */
			for (volatile int i = 0; i < 5000; i++)
				;
			may_jump = 0;
		}
	}
	spend_block(held, 100 + round, 'h');
}

/* Raises the signal itself, on a deep stack. The handler jumps out of this stack. */
NOINLINE static void raise_below(unsigned int depth)
{
	unsigned char *p = make_block(depth + 1, 'r');

	if (!depth) {
		spend_block(p, 1, 'r');
		may_jump = 1;
		raise(SIGALRM);
		return;
	}
	spend_block(p, depth + 1, 'r');
	raise_below(depth - 1);
	mix(depth);
}

NOINLINE static void thrown_out_by_raise(void)
{
	if (!sigsetjmp(jump_target, 1))
		raise_below(40);
}

/* --- longjmp --- */

static jmp_buf unwind_target;
static unsigned char *chain[64];

NOINLINE static void descend(unsigned int depth, unsigned int bottom)
{
	chain[depth] = make_block(depth * 3 + 1, (unsigned char)depth);
	if (depth == bottom) {
		if (certain)
			longjmp(unwind_target, (int)depth + 1);
		return;
	}
	descend(depth + 1, bottom);
	mix(depth);
}

NOINLINE static void longjmp_over_frames(unsigned int bottom)
{
	int landed = setjmp(unwind_target);

	if (!landed)
		descend(0, bottom);
	for (int i = 0; i < landed; i++)
		spend_block(chain[i], (size_t)i * 3 + 1, (unsigned char)i);
}

/* --- coroutines --- */

static ucontext_t main_context, coroutine_context;
static char coroutine_stack[128 * 1024];

NOINLINE static void coroutine(void)
{
	for (unsigned int i = 0; i < 20; i++) {
		unsigned char *p = make_block(i + 10, 'c');

		swapcontext(&coroutine_context, &main_context);
		spend_block(p, i + 10, 'c');
	}
}

NOINLINE static void ping_pong(void)
{
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = coroutine_stack;
	coroutine_context.uc_stack.ss_size = sizeof(coroutine_stack);
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);
	for (unsigned int i = 0; i < 21; i++) {
		unsigned char *p = make_block(i + 20, 'm');

		swapcontext(&main_context, &coroutine_context);
		spend_block(p, i + 20, 'm');
	}
}

/* --- threads --- */

NOINLINE static void exit_deep(unsigned int depth)
{
	free(make_block(64, 't'));
	if (!depth) {
		if (certain)
			pthread_exit((void *)1);
		return;
	}
	exit_deep(depth - 1);
	free(make_block(1, 'u'));
}

static void *short_life(void *arg)
{
	(void)arg;
	exit_deep(10);
	return NULL;
}

NOINLINE static void threads_that_exit(void)
{
	pthread_t threads[4];
	sigset_t tick, old;
	void *result;

	/* Only the main thread may get the timer's signals: the jump buffer belongs to it. */
	sigemptyset(&tick);
	sigaddset(&tick, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &tick, &old);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, short_life, NULL))
			abort();
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &result);
		mix((uint64_t)(uintptr_t)result);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* --- the rest --- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

NOINLINE static void sort_much(uint64_t seed)
{
	enum { N = 4000 };
	uint64_t *values = malloc(N * sizeof(*values)), state = truth_seed(seed);

	if (!values)
		abort();
	for (int i = 0; i < N; i++)
		values[i] = truth_random(&state);
	qsort(values, N, sizeof(*values), compare);
	for (int i = 1; i < N; i++)
		if (values[i - 1] > values[i])
			abort();
	mix(values[0]);
	mix(values[N - 1]);
	free(values);
}

NOINLINE static uint64_t recurse(unsigned int depth)
{
	unsigned char *p = make_block(depth % 100 + 1, 'd');
	uint64_t below = depth ? recurse(depth - 1) : 0;

	spend_block(p, depth % 100 + 1, 'd');
	return below + depth;
}

int main(int argc, char **argv)
{
	unsigned int rounds;

	truth_init(argc, argv);
	rounds = (unsigned int)truth_number(argc, argv, "--rounds", 200);
	truth_ready();
	start_ticking();
	for (unsigned int i = 0; i < rounds; i++) {
		thrown_out_by_signal(i);
		thrown_out_by_raise();
		longjmp_over_frames(i % 64);
		ping_pong();
		threads_that_exit();
		sort_much(i);
		mix(recurse(300));
	}
	stop_ticking();
	printf("{\"checksum\": \"%016" PRIx64 "\", \"rounds\": %u}\n", checksum, rounds);
	return truth_finish();
}
