/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the printed report from the results of a scan: roots get names, equal paths become one
 * row. */
#ifndef MEMTRACE_CLI_WHY_H
#define MEMTRACE_CLI_WHY_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap/why.h"
#include "profile/why.h"

struct why_makers;

/* Makes a report with one row for each path of `why`, in the order of the paths.
 * why_report__merge() merges equal rows. asked: the user asked for certain blocks. makers: names
 * the functions that allocated the blocks on the paths; NULL: they are not known. makers must
 * outlive the report. Free ret with why_report__clear(). 0 or -ENOMEM. */
int why_report__make(pid_t pid, const struct why *why, bool asked, const struct why_makers *makers,
		     struct why_report *ret);

/* --- why_makers.c --- */

/* Takes the functions that allocated the live sampled blocks of a profile. These functions are the
 * first names of the stacks (encode/where.h). The profile must have blocks (struct
 * profile_site.blocks), and may be freed afterwards. Free *ret with why_makers__free(). 0 or
 * -ENOMEM. */
int why_makers__new(const struct profile *profile, struct why_makers **ret);
void why_makers__free(struct why_makers *makers);

/* Returns the function that allocated the block of `size` usable bytes at `addr`; owned by makers.
 * NULL: tracing did not sample the block, or sampled several blocks at this address, which
 * different functions allocated. */
const char *why_makers__find(const struct why_makers *makers, uint64_t addr, uint64_t size);

/* --- why_stack.c --- */

/* Blocks of the stacks that the user asks for. */
struct why_stack {
	uint64_t addrs[WHY_MAX_ADDRS], sizes[WHY_MAX_ADDRS]; /* ascending by address; the sizes are
							      * those that the program asked for */
	size_t n;      /* number of `addrs`, which are chosen evenly from n_live blocks */
	size_t n_live; /* sampled blocks that live */
	bool any;      /* at least one stack has a function that matches */
	struct why_makers *makers; /* of all sampled blocks; NULL: nothing was recorded; owned */
};

/* Traces the process, with record's default limits. Finds sampled blocks that are live at the end
 * and whose stacks have a function that matches. pattern: regex as the user wrote it. Before, call
 * nowait__begin(), and then privileges__limit() once. ret: from calloc(); the caller frees it with
 * why_stack__free() in any case. 0, or the exit status after a complaint. */
int why_stack__find(pid_t pid, double duration_s, const char *pattern, const regex_t *regex,
		    struct why_stack *ret);
void why_stack__free(struct why_stack *stack);

/* --- why_type.c --- */

/* Takes a census, and finds the vtables (ascending) of the C++ classes whose names match. pattern:
 * regex as the user wrote it. *ret: NULL before the call; the caller frees it in any case. 0, or
 * the exit status after a complaint. */
int why_type__find(pid_t pid, const char *pattern, const regex_t *regex,
		   const struct scan_pace *pace, uint64_t **ret, size_t *ret_n);

/* --- why_registers.c --- */

struct registers;

/* Adds the registers of a process as roots, and fills in the members tp and bp of `threads` that
 * are not known yet. registers: NULL if registers cannot be read; then returns -ENOTSUP. 0 or
 * negative errno. */
int why_registers__add(struct registers *registers, struct root_threads *threads);

#endif
