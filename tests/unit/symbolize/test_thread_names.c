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
#include <sys/syscall.h>
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

/* A thread that waits in inner(), which outer() has called. */
struct waiter {
	int pipe[2];
	pid_t tid;
	uint64_t bp;
	volatile uint64_t *outer_slot, *inner_slot;
};

__attribute__((noinline)) static void inner(struct waiter *w)
{
	volatile uint64_t slot = 0x1234;
	long rc = SYS_read;
	char byte;

	w->inner_slot = &slot;
	__asm__ volatile("mov %%rbp, %0" : "=r"(w->bp));
	/* a system call in inner() itself, so that rbp is still that of inner() */
	__asm__ volatile("syscall"
			 : "+a"(rc)
			 : "D"((long)w->pipe[0]), "S"(&byte), "d"(1L)
			 : "rcx", "r11", "memory");
	assert_int_equal(rc, 0);
}

__attribute__((noinline)) static void *outer(void *arg)
{
	struct waiter *w = arg;
	volatile uint64_t slot = 0x5678;

	w->outer_slot = &slot;
	w->tid = gettid();
	inner(w);
	slot = 0; /* so that the call of inner() is no jump */
	return NULL;
}

static void assert_function(struct own *own, const struct waiter *w, volatile uint64_t *at,
			    const char *wanted)
{
	uint64_t word = *at;
	char *name;

	assert_int_equal(
		thread_names__function(own->names, w->tid, (uintptr_t)at, word, word + 1, &name),
		0);
	assert_string_equal(name, wanted);
	free(name);
}

static void assert_no_function(struct own *own, pid_t tid, uint64_t at, uint64_t high)
{
	char *name;

	assert_int_equal(thread_names__function(own->names, tid, at, 0, high, &name), -ENOENT);
}

/* Waits until the thread waits. */
static void read_state(const struct waiter *w, struct thread_state *ret)
{
	uint64_t args[THREAD_ARGS] = {};
	size_t n = 0;

	for (int i = 0; i < 5000; i++) {
		if (w->tid && !thread_state__read(getpid(), w->tid, ret, args, &n) && n &&
		    args[0] == (uint64_t)w->pipe[0])
			break;
		usleep(1000);
	}
	assert_int_equal(args[0], w->pipe[0]);
	ret->bp = w->bp;
}

static void test_functions(void **state)
{
	struct waiter w = {};
	struct own own = {};
	pthread_t thread;

	(void)state;
	assert_int_equal(pipe(w.pipe), 0);
	assert_int_equal(pthread_create(&thread, NULL, outer, &w), 0);
	read_state(&w, &own.threads[0]);
	own.threads[1] = own.threads[0];
	own.threads[1].tid = OTHER; /* there is no such thread, so it does not wait there */
	begin(&own);
	assert_function(&own, &w, w.inner_slot, "inner");
	assert_function(&own, &w, w.outer_slot, "outer");
	/* another word is there now */
	assert_no_function(&own, w.tid, (uintptr_t)w.inner_slot, 0x1234);
	/* below the stack; threads that do not wait, or are not known */
	assert_no_function(&own, w.tid, own.threads[0].sp - 4096, UINT64_MAX);
	assert_no_function(&own, OTHER, (uintptr_t)w.inner_slot, UINT64_MAX);
	assert_no_function(&own, OTHER + 1, (uintptr_t)w.inner_slot, UINT64_MAX);
	end(&own);
	close(w.pipe[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(w.pipe[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables),
					   cmocka_unit_test(test_functions)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
