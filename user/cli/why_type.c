// SPDX-License-Identifier: BSD-2-Clause
/* memtrace why --type: makes a census first, to find the vtables of the classes that the user asks
 * for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/heap_types.h"
#include "cli/why.h"
#include "encode/encode.h"
#include "heap/census.h"
#include "proc/maps.h"
#include "proc/process.h"

static int compare_vtables(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Finds the vtables, ascending, of the types whose names match. 0 or -ENOMEM. */
static int choose(const struct heap_type *types, size_t n_types, const regex_t *regex,
		  uint64_t **ret, size_t *ret_n)
{
	uint64_t *vtables = calloc(n_types + 1, sizeof(*vtables));
	size_t n = 0;

	if (!vtables)
		return -ENOMEM;
	for (size_t i = 0; i < n_types; i++)
		if (!regexec(regex, types[i].name, 0, NULL, 0))
			vtables[n++] = types[i].vtable;
	qsort(vtables, n, sizeof(*vtables), compare_vtables);
	*ret = vtables;
	*ret_n = n;
	return 0;
}

/* Returns the reason why the census may lack objects; the text may be in buf. NULL: the census has
 * all objects. */
static const char *why_incomplete(const struct census *census, char *buf, size_t size)
{
	if (census->stopped)
		return census->stopped == -EFBIG       ? "there is too much memory to read"
		       : census->stopped == -ETIMEDOUT ? "the memory could not be read in time"
						       : "some memory could not be read";
	if (heap_report__refusal(census, buf, size))
		return buf;
	return census->untold_types || census->unchecked_types
		       ? "there are too many classes to tell all of them apart"
		       : NULL;
}

/* Complains if no class matches, or if classes that match may be missing. any: at least one class
 * matches. Returns 0, or EXIT_FAILED if no class matches. */
static int say_missing(pid_t pid, const char *pattern, const struct census *census, bool any)
{
	char buf[256];
	const char *why = why_incomplete(census, buf, sizeof(buf));

	if (why && any)
		complain("further classes in the heap of process %d may match '%s', because not "
			 "all objects were found: %s",
			 (int)pid, pattern, why);
	else if (why)
		complain("no class of the objects that were found in the heap of process %d "
			 "matches '%s', but not all objects were found: %s",
			 (int)pid, pattern, why);
	else if (!any)
		complain("no class of an object in the heap of process %d matches '%s': memtrace "
			 "heap -p %d lists them",
			 (int)pid, pattern, (int)pid);
	return any ? 0 : EXIT_FAILED;
}

int why_type__find(pid_t pid, const char *pattern, const regex_t *regex,
		   const struct scan_pace *pace, uint64_t **ret, size_t *ret_n)
{
	struct heap_type *types = NULL;
	struct error err = {};
	struct census census;
	struct maps maps;
	size_t n_types = 0;
	int rc = maps__read(pid, &maps);

	if (rc) {
		error__set(&err, rc, "cannot read /proc/%d/maps: %s", (int)pid, process__why(rc));
		return fail(&err);
	}
	rc = census__take(pid, &maps, &(struct census_options){.pace = *pace}, &census, &err);
	if (rc) {
		maps__free(&maps);
		return fail(&err);
	}
	rc = heap_types__name(pid, &maps, &census, &types, &n_types);
	maps__free(&maps);
	if (!rc)
		rc = choose(types, n_types, regex, ret, ret_n);
	heap_types__free(types, n_types);
	if (rc) {
		error__set(&err, rc, "process %d: cannot name C++ classes: %s", (int)pid,
			   strerror(-rc));
		rc = fail(&err);
	} else {
		rc = say_missing(pid, pattern, &census, *ret_n > 0);
	}
	census__clear(&census);
	return rc;
}
