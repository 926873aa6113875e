/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors: functions return 0 or a negative errno. If only the function that fails knows what the
 * user must be told, it also fills a struct error. The command prints this error once. */
#ifndef MEMTRACE_BASE_ERROR_H
#define MEMTRACE_BASE_ERROR_H

struct error {
	int code;	/* negative errno; 0: there is no error */
	char text[640]; /* one sentence without the program's name, full stop or newline */
};

/* Records code and text in err (which may be NULL) unless err already holds an error: the first,
 * innermost error is the cause. Returns code. */
int error__set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
