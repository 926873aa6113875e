// SPDX-License-Identifier: BSD-2-Clause
#include "cli/heap_types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbolize/symtab.h"
#include "symbolize/variables.h"

DEFINE_CLEANUP(struct variables *, cleanup_variables, variables__free)

/* Copies the text after a prefix. *ret is NULL if the text does not begin with the prefix. 0 or
 * -ENOMEM. */
static int take_behind(const char *text, const char *prefix, char **ret)
{
	size_t len = strlen(prefix);

	*ret = NULL;
	if (strncmp(text, prefix, len))
		return 0;
	*ret = strdup(text + len);
	return *ret ? 0 : -ENOMEM;
}

static int name_by_type_info(const char *mangled, char **ret)
{
	_cleanup_free_ char *symbol = NULL, *name = NULL;

	if (asprintf(&symbol, "_ZTI%s", mangled) < 0) {
		symbol = NULL;
		return -ENOMEM;
	}
	name = demangle(symbol);
	return name ? take_behind(name, "typeinfo for ", ret) : -ENOMEM;
}

/* Names a class by the symbol of its vtable. In a vtable, at least two words come before the place
 * to which objects point. */
static int name_by_symbol(struct variables *variables, uint64_t vtable, char **ret)
{
	struct variable v = {};
	int err = variables__name(variables, vtable - 16, &v);

	*ret = NULL;
	if (err || !v.name)
		return err == -ENOENT ? 0 : err;
	return take_behind(v.name, "vtable for ", ret);
}

static int by_bytes(const void *a, const void *b)
{
	const struct heap_type *x = a, *y = b;

	if (x->count.bytes != y->count.bytes)
		return x->count.bytes < y->count.bytes ? 1 : -1;
	return strcmp(x->name, y->name);
}

int heap_types__name(pid_t pid, const struct maps *maps, const struct census *census,
		     struct heap_type **ret, size_t *ret_n)
{
	_cleanup_(cleanup_variables) struct variables *variables = NULL;
	size_t n = (size_t)census->n_types, named = 0;
	struct heap_type *types = calloc(n + 1, sizeof(*types));
	int err = types ? variables__new(pid, maps, NULL, &variables) : -ENOMEM;

	for (size_t i = 0, next; i < n && !err; i = next) {
		const struct census_type *type = &census->types[i];
		struct heap_type made = {.vtable = type->vtable, .first = i};
		char *name = NULL;

		for (next = i; next < n && census->types[next].vtable == type->vtable; next++) {
			made.count.blocks += census->types[next].count.blocks;
			made.count.bytes += census->types[next].count.bytes;
			made.pinned += census->types[next].pinned;
		}
		err = type->name[0] ? name_by_type_info(type->name, &name)
				    : name_by_symbol(variables, type->vtable, &name);
		made.name = name;
		made.n = next - i;
		if (!err && name)
			types[named++] = made;
	}
	if (err) {
		heap_types__free(types, named);
		return err;
	}
	qsort(types, named, sizeof(*types), by_bytes);
	*ret = types;
	*ret_n = named;
	return 0;
}

void heap_types__free(struct heap_type *types, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(types[i].name);
	free(types);
}
