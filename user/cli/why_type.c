// SPDX-License-Identifier: BSD-2-Clause
/* memtrace why --type: makes a census first, to find the vtables of the classes that the user asks
 * for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/heap_types.h"
#include "cli/why.h"
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
	census__clear(&census);
	maps__free(&maps);
	if (!rc)
		rc = choose(types, n_types, regex, ret, ret_n);
	heap_types__free(types, n_types);
	if (rc) {
		error__set(&err, rc, "process %d: cannot name C++ classes: %s", (int)pid,
			   strerror(-rc));
		return fail(&err);
	}
	if (*ret_n)
		return 0;
	complain("no class of an object in the heap of process %d matches '%s': memtrace heap -p "
		 "%d lists them",
		 (int)pid, pattern, (int)pid);
	return EXIT_FAILED;
}
