// SPDX-License-Identifier: BSD-2-Clause
#include "session/refusals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_TOLD 5 /* at most this many reasons are told: a file may have hundreds of functions */

/* Did the refusal cease to hold before the target began? */
static bool was_over(const struct target *t, const struct capture_refusal *refusal)
{
	return refusal->gone_ns && refusal->gone_ns < (t->begun_by_exec_ns ?: t->start_ns);
}

static int add_reason(struct profile *p, const char *text)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", p->refused ? p->refused : "", p->refused ? "; " : "",
		     text) < 0)
		return -ENOMEM;
	free(p->refused);
	p->refused = joined;
	return 0;
}

int refusals__add(const struct build *b, struct profile *p)
{
	uint64_t whole = b->target->allocators ? b->target->allocators->n_refused : 0,
		 functions = 0;
	const struct capture_refusal *refusals;
	char more[40];
	size_t n, told = 0;
	int rc = 0;

	/* A refusal without a pid holds for all processes that map the code, because the
	 * instruction that cannot be probed is the same in all of them. */
	refusals = capture__refusals(b->capture, &n);
	for (size_t i = 0; i < n && !rc; i++) {
		if ((refusals[i].pid && refusals[i].pid != b->target->info.pid) ||
		    was_over(b->target, &refusals[i]) ||
		    !target__maps_code(b->target, &refusals[i].file))
			continue;
		*(refusals[i].whole ? &whole : &functions) += 1;
		if (told++ < MOST_TOLD)
			rc = add_reason(p, refusals[i].text);
	}
	snprintf(more, sizeof(more), "and %zu more", told > MOST_TOLD ? told - MOST_TOLD : 0);
	if (!rc && told > MOST_TOLD)
		rc = add_reason(p, more);
	if (!rc)
		rc = profile__add_lost(p, "allocators_refused", whole);
	if (!rc)
		rc = profile__add_lost(p, "functions_refused", functions);
	if (!rc)
		rc = profile__add_lost(p, "allocators_late", b->target->allocators_late);
	return rc;
}
