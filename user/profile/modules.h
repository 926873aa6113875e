/* SPDX-License-Identifier: BSD-2-Clause */
/* Divides memory among the components of a program, as the program's developers see them. The
 * developers write a tree of components, each with rules that say which code belongs to it. The
 * program itself need not change.
 *
 * A file of rules has one rule a line. Blank lines, and lines that begin with '#', are left out:
 *
 *	COMPONENT  function|module|file  REGEX
 *
 * COMPONENT is a path in the tree ("database/keys"; each part is a component of its own). The rule
 * matches the function's name, the base name of the mapped file, or the path of the source file.
 * REGEX is a POSIX extended regular expression and goes to the end of the line. It may match
 * anywhere in the text, unless it is anchored.
 *
 * Among the frames that a rule matches, the one nearest to the allocation decides to which
 * component the stack belongs. This frame belongs to the code that asked for the memory, not to the
 * caller of this code. If several rules match the frame, the first rule in the file counts. Rules
 * are not tried on the allocator's own frames at the leaf. Stacks that no rule claims are the
 * remainder. The remainder is always shown, so that it and the components add up to the profile. */
#ifndef MEMTRACE_PROFILE_MODULES_H
#define MEMTRACE_PROFILE_MODULES_H

#include "base/error.h"
#include "profile/profile.h"

struct modules;

/* Parses the len bytes of a file of rules. name: the file's name for errors, which also have the
 * line's number. 0, -EINVAL or -ENOMEM. */
int modules__parse(const char *name, const char *text, size_t len, struct modules **ret,
		   struct error *err);
void modules__free(struct modules *modules);

/* Finds the component of each site of a sorted, symbolized profile. Writes the component's path
 * ("database/keys", owned by modules) to paths[n_sites]; NULL: no rule claims the site. 0 or
 * -ENOMEM. */
int modules__owners(const struct modules *modules, const struct profile *profile,
		    const char **paths);

/* The sums over a component and all components below it. */
struct module_sum {
	const char *path; /* "database/keys", owned by modules; NULL: the remainder */
	const char *part; /* "keys": the last part of path */
	unsigned depth;	  /* 0: at the top */
	uint64_t stacks;
	struct estimate live;
	double alloc_objects, alloc_bytes, freed_objects, freed_bytes;
	struct growth_sum growth; /* if the profile's growth.stacks_known */
	/* if the profile's life.heights_known: the least and the most that the component held */
	struct site_life life;
};

struct module_sums {
	struct module_sum *sums; /* in the order of the file, each component before those below it;
				  * the remainder last */
	size_t n;
};

/* Sums up a sorted, symbolized profile by component. module_sums__clear() frees *ret. 0 or
 * -ENOMEM. */
int modules__sum(const struct modules *modules, const struct profile *profile,
		 struct module_sums *ret);
void module_sums__clear(struct module_sums *sums);

#endif
