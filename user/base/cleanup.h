/* SPDX-License-Identifier: BSD-2-Clause */
/* Scope cleanup. If a variable is declared as `_cleanup_free_ char *p = NULL;`, p is freed when its
 * scope ends. `return_ptr(p)` returns p to the caller, and does not free it. */
#ifndef MEMTRACE_BASE_CLEANUP_H
#define MEMTRACE_BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <dirent.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Defines `name`, a cleanup handler for variables of this type. It calls `fn` unless the variable
 * is zero. */
#define DEFINE_CLEANUP(type, name, fn)                                                             \
	static inline void name(type *p)                                                           \
	{                                                                                          \
		if (*p)                                                                            \
			fn(*p);                                                                    \
	}

/* Tests for NULL first: if memtrace itself is traced (-a puts probes into its libc, too), a call of
 * free() costs more than the test. */
static inline void cleanup_free(void *p)
{
	if (*(void **)p)
		free(*(void **)p);
}

/* Leaves errno unchanged, so that the code that handles an error can still report it. */
static inline void cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

DEFINE_CLEANUP(FILE *, cleanup_fclose, fclose)
DEFINE_CLEANUP(DIR *, cleanup_closedir, closedir)

#define _cleanup_free_	   _cleanup_(cleanup_free)
#define _cleanup_close_	   _cleanup_(cleanup_close) /* initialise the descriptor to -1 */
#define _cleanup_fclose_   _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

#define return_ptr(p)                                                                              \
	do {                                                                                       \
		__typeof__(p) ret__ = (p);                                                         \
		(p) = NULL;                                                                        \
		return ret__;                                                                      \
	} while (0)

/* Returns the descriptor, and sets *fd to -1, so that the scope no longer closes the descriptor. */
static inline int take_fd(int *fd)
{
	int ret = *fd;

	*fd = -1;
	return ret;
}

#endif
