/* SPDX-License-Identifier: BSD-2-Clause */
/* An allocator that lets each allocation fail in turn. For tests named test_no_memory.c, in which
 * the linker replaces the C library's functions with the functions below. Include after cmocka.h.
 *
 * The tested code must either return -ENOMEM and leak nothing, or need no memory and give the same
 * result. (At the end the sanitizer reports leaks.) A different result without an error would be a
 * silent failure. */
#ifndef MEMTRACE_TESTS_FAILING_H
#define MEMTRACE_TESTS_FAILING_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __sanitizer_print_stack_trace(void);

static long failing_in;	    /* number of allocations until one fails; 0: none fails */
static bool failing_done;   /* an allocation has failed */
static bool failing_traced; /* print the stack of the allocation that fails */

static inline bool failing_now(void)
{
	if (!failing_in || --failing_in)
		return false;
	failing_done = true;
	if (failing_traced)
		__sanitizer_print_stack_trace();
	errno = ENOMEM;
	return true;
}

#define FAILING(type, name, params, args)                                                          \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return failing_now() ? NULL : __real_##name args;                                  \
	}

FAILING(void *, malloc, (size_t size), (size))
FAILING(void *, calloc, (size_t n, size_t size), (n, size))
FAILING(void *, realloc, (void *p, size_t size), (p, size))
FAILING(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
FAILING(char *, strdup, (const char *text), (text))
FAILING(char *, strndup, (const char *text, size_t n), (text, n))
FAILING(FILE *, open_memstream, (char **text, size_t *size), (text, size))

int __wrap_vasprintf(char **ret, const char *fmt, va_list ap);
int __real_vasprintf(char **ret, const char *fmt, va_list ap);
int __wrap_vasprintf(char **ret, const char *fmt, va_list ap)
{
	return failing_now() ? -1 : __real_vasprintf(ret, fmt, ap);
}

int __wrap_asprintf(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int rc;

	if (failing_now())
		return -1;
	va_start(ap, fmt);
	rc = __real_vasprintf(ret, fmt, ap);
	va_end(ap);
	return rc;
}

typedef int (*failing_scenario)(void *ctx, FILE *told);

/* Runs the scenario with its n-th allocation failing (0: none). The caller free()s *ret_told. */
static inline int fail_allocation(failing_scenario scenario, void *ctx, long n, char **ret_told,
				  size_t *ret_size)
{
	FILE *told = __real_open_memstream(ret_told, ret_size);
	int rc;

	failing_done = false;
	failing_in = n;
	rc = scenario(ctx, told);
	failing_in = 0;
	fclose(told);
	return rc;
}

/* Runs the scenario without a failure, then with each of its allocations failing in turn. The
 * scenario returns 0 or a negative errno, and frees all its memory. The scenario writes its result
 * as text to `told`. The texts of the runs are compared. */
static inline void fail_each_allocation(const char *name, failing_scenario scenario, void *ctx)
{
	size_t wanted_size, size;
	char *wanted, *got;
	bool right = true;
	long n = 0;
	int rc = fail_allocation(scenario, ctx, 0, &wanted, &wanted_size);

	if (rc)
		fail_msg("%s: %s, and memory is there", name, strerror(-rc));
	do {
		rc = fail_allocation(scenario, ctx, ++n, &got, &size);
		right = rc ? rc == -ENOMEM : size == wanted_size && !memcmp(got, wanted, size);
		free(got);
	} while (right && failing_done);
	free(wanted);
	if (!right) { /* run once more, to print where it failed */
		failing_traced = true;
		fail_allocation(scenario, ctx, n, &got, &size);
		fail_msg("%s: allocation %ld fails: %s", name, n,
			 rc ? strerror(-rc) : "the result is another, and nothing is said");
	}
	if (n == 1)
		fail_msg("%s allocates nothing", name);
}

#endif
