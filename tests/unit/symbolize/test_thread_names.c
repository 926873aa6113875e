// SPDX-License-Identifier: BSD-2-Clause
/* Names for words in the memory of this process's own threads. */
#include "symbolize/thread_names.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER 7 /* tid that stands for the other thread */

static _Thread_local long with_a_value[4] = {1}; /* .tdata */
_Thread_local long without_one[1000];		 /* .tbss */

struct own {
	struct maps maps;
	struct thread_state threads[2];
	struct variables *variables;
	struct thread_names *names;
};

static void begin(struct own *own)
{
	assert_int_equal(maps__read(getpid(), &own->maps), 0);
	assert_int_equal(variables__new(getpid(), &own->maps, NULL, &own->variables), 0);
	assert_int_equal(thread_names__new(getpid(), &own->maps, own->threads, 2, own->variables,
					   &own->names),
			 0);
}

static void end(struct own *own)
{
	thread_names__free(own->names);
	variables__free(own->variables);
	maps__free(&own->maps);
}

struct addrs {
	uintptr_t tp, with_a_value, without_one, errno_at;
};

static void *take_addrs(void *arg)
{
	*(struct addrs *)arg =
		(struct addrs){(uintptr_t)pthread_self(), (uintptr_t)&with_a_value[3],
			       (uintptr_t)&without_one[999], (uintptr_t)&errno};
	return NULL;
}

static void assert_variable(struct own *own, uint64_t addr, pid_t tid, const char *name,
			    uint64_t off, const char *path)
{
	struct variable v;
	pid_t found;

	assert_int_equal(thread_names__variable(own->names, addr, &v, &found), 0);
	assert_int_equal(found, tid);
	assert_string_equal(v.name, name);
	assert_int_equal(v.off, off);
	assert_non_null(strstr(v.path, path));
}

static void test_variables(void **state)
{
	struct addrs mine, others;
	struct own own = {};
	struct variable v;
	pthread_t thread;
	pid_t tid;

	(void)state;
	take_addrs(&mine);
	assert_int_equal(pthread_create(&thread, NULL, take_addrs, &others), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* on x86-64, pthread_self() is the thread pointer */
	own.threads[0] = (struct thread_state){.tid = getpid(), .tp = mine.tp};
	own.threads[1] = (struct thread_state){.tid = OTHER, .tp = others.tp};
	begin(&own);
	assert_variable(&own, mine.with_a_value, getpid(), "with_a_value", 24, "test_thread_names");
	assert_variable(&own, mine.without_one, getpid(), "without_one", 7992, "test_thread_names");
	assert_variable(&own, others.with_a_value, OTHER, "with_a_value", 24, "test_thread_names");
	assert_variable(&own, others.without_one, OTHER, "without_one", 7992, "test_thread_names");
	assert_variable(&own, mine.errno_at, getpid(), "errno", 0, "libc.so");
	assert_variable(&own, others.errno_at, OTHER, "errno", 0, "libc.so");
	/* no thread-local memory */
	assert_int_equal(thread_names__variable(own.names, (uintptr_t)&own, &v, &tid), -ENOENT);
	assert_int_equal(thread_names__variable(own.names, mine.tp, &v, &tid), -ENOENT);
	assert_int_equal(thread_names__variable(own.names, (uintptr_t)&test_variables, &v, &tid),
			 -ENOENT);
	end(&own);
}

static void assert_function(struct own *own, const void *at, const char *wanted)
{
	uint64_t word = *(const uint64_t *)at;
	char *name;

	assert_int_equal(
		thread_names__function(own->names, getpid(), (uintptr_t)at, word, word + 1, &name),
		0);
	assert_string_equal(name, wanted);
	free(name);
}

/* With a slot of its own in its frame, below that of its caller. */
__attribute__((noinline)) static void inner(struct own *own, volatile uint64_t *outer_slot)
{
	volatile uint64_t slot = 0x1234;
	char *name;

	own->threads[0] = (struct thread_state){.tid = getpid()};
	__asm__ volatile("lea (%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
			 : "=r"(own->threads[0].pc), "=r"(own->threads[0].sp),
			   "=r"(own->threads[0].bp));
	begin(own);
	assert_function(own, (const void *)&slot, "inner");
	assert_function(own, (const void *)outer_slot, "outer");
	/* the word has changed, so the thread has gone on */
	assert_int_equal(
		thread_names__function(own->names, getpid(), (uintptr_t)&slot, 1, 0x1234, &name),
		-ENOENT);
	/* below the stack, and a thread that is not known */
	assert_int_equal(thread_names__function(own->names, getpid(), own->threads[0].sp - 4096, 0,
						UINT64_MAX, &name),
			 -ENOENT);
	assert_int_equal(
		thread_names__function(own->names, OTHER, (uintptr_t)&slot, 0, UINT64_MAX, &name),
		-ENOENT);
	end(own);
}

__attribute__((noinline)) static void outer(struct own *own)
{
	volatile uint64_t slot = 0x5678;

	inner(own, &slot);
	slot = 0; /* so that this call is no jump */
}

static void test_functions(void **state)
{
	struct own own = {};

	(void)state;
	outer(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables),
					   cmocka_unit_test(test_functions)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
