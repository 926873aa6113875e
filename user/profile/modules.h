/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose memory is it, in the words of the one who built the program: a tree of components, each
 * with rules that say which code is its. A hierarchical memory tracker, without a line changed in
 * the program.
 *
 * A file of rules, a rule a line; blank lines and what follows a '#' at a line's beginning are left
 * out:
 *
 *	COMPONENT  function|module|file  REGEX
 *
 * COMPONENT is a path in the tree ("database/keys"; each part is a component of its own); what is
 * matched is the function's name, the base name of the mapped file, or the path of the source file;
 * REGEX is POSIX extended, matches anywhere unless anchored, and goes to the end of the line.
 *
 * A stack belongs to the component of the frame nearest to the allocation that any rule matches -
 * who asked for the memory, not who asked them to - and where several match that frame, to the
 * first in the file. The allocator's own frames at its leaf are not asked. What no rule claims is
 * the remainder, which is always told, so that the components and it add up to the profile. */
#ifndef MEMTRACE_PROFILE_MODULES_H
#define MEMTRACE_PROFILE_MODULES_H

#include "base/error.h"
#include "profile/profile.h"

struct modules;

/* From the len bytes of a file of rules. name is for errors, which tell the line. 0, -EINVAL or
 * -ENOMEM. */
int modules__parse(const char *name, const char *text, size_t len, struct modules **ret,
		   struct error *err);
void modules__free(struct modules *modules);

/* The component of each site of a sorted, symbolized profile, "database/keys" (the modules'), into
 * paths[n_sites]; NULL: no rule claims it. 0 or -ENOMEM. */
int modules__owners(const struct modules *modules, const struct profile *profile,
		    const char **paths);

/* A component, and those below it. */
struct module_sum {
	const char *path; /* "database/keys", the modules'; NULL: the remainder */
	const char *part; /* "keys": the last of it */
	unsigned depth;	  /* 0: at the top */
	uint64_t stacks;
	struct estimate live;
	double alloc_objects, alloc_bytes, freed_objects, freed_bytes;
	struct growth growth;  /* where the profile has_growth */
	struct site_life life; /* where the profile has_life: what it held at least, and at most */
};

struct module_sums {
	struct module_sum *sums; /* in the order of the file, what is below a component after it;
				  * the remainder last */
	size_t n;
};

/* What each has of a sorted, symbolized profile. *ret is freed by module_sums__clear(). 0 or
 * -ENOMEM. */
int modules__sum(const struct modules *modules, const struct profile *profile,
		 struct module_sums *ret);
void module_sums__clear(struct module_sums *sums);

#endif
