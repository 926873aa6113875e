/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the form of metrics as Prometheus reads them. */
#ifndef MEMTRACE_TESTS_WEB_EXPOSITION_H
#define MEMTRACE_TESTS_WEB_EXPOSITION_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPOSITION_LINES 10000

/* Reads labels, NAME="VALUE", ..., with the characters that OpenMetrics escapes. Returns the text
 * after the brace, or NULL if these are no labels. */
static inline const char *exposition_labels(const char *at)
{
	while (*at != '}') {
		if (!islower((unsigned char)*at))
			return NULL;
		while (islower((unsigned char)*at) || *at == '_')
			at++;
		if (*at++ != '=' || *at++ != '"')
			return NULL;
		for (; *at != '"'; at++) {
			if ((unsigned char)*at < ' ')
				return NULL;
			if (*at == '\\' && !strchr("\\\"n", *++at))
				return NULL;
		}
		at++;
		if (*at == ',')
			at++;
		else if (*at != '}')
			return NULL;
	}
	return at + 1;
}

static inline int exposition_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns what is wrong with the text, or NULL. Each series must be in it once. Changes the
 * text. */
static inline const char *exposition_fault(char *text)
{
	static char *series[EXPOSITION_LINES];
	size_t n = 0;

	for (char *line = text, *next; *line; line = next) {
		const char *at = line;
		char *end;

		next = strchr(line, '\n');
		if (!next)
			return "a line without an end";
		*next++ = '\0';
		if (*line == '#')
			continue;
		while (islower((unsigned char)*at) || *at == '_')
			at++;
		if (at == line)
			return "a line without a name";
		if (*at == '{')
			at = exposition_labels(at + 1);
		if (!at || *at != ' ')
			return line;
		(void)strtod(at, &end);
		if (end == at || *end)
			return line;
		if (n == EXPOSITION_LINES)
			return "too many lines";
		series[n++] = line;
		*(char *)at = '\0';
	}
	qsort(series, n, sizeof(*series), exposition_order);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(series[i - 1], series[i]))
			return series[i];
	return NULL;
}

#endif
