// SPDX-License-Identifier: BSD-2-Clause
#include "cli/render.h"

bool more_tables__any(const struct more_tables *more)
{
	return more->threads || more->sites || more->lifetimes || more->resident;
}

static int put_leaks(const struct profile *profile, const struct table_options *options,
		     struct sink *sink)
{
	const char *refusal = leaks__refusal(profile);

	if (!refusal)
		return sink__puts(sink, "\n") ?: encode_leaks(profile, options, sink);
	return sink__printf(sink, "\nmemtrace: pid %d: which stacks leak cannot be told: %s\n",
			    (int)profile->pid, refusal);
}

/* Writes the tables that come below the heap's table. */
static int put_of_heap(const struct profile *profile, const struct render_options *options,
		       struct sink *sink)
{
	const struct table_options *table = &options->table;
	int rc = 0;

	if (profile__is_regions(profile) || profile__is_faults(profile))
		return 0;
	if (options->more.threads)
		rc = sink__puts(sink, "\n") ?: encode_threads(profile, table, sink);
	if (!rc && options->more.sites)
		rc = sink__puts(sink, "\n") ?: encode_sites(profile, table, sink);
	if (!rc && options->more.lifetimes)
		rc = sink__puts(sink, "\n") ?: encode_lifetimes(profile, table, sink);
	return rc;
}

int render_tables(const struct profile *profile, const struct render_options *options,
		  struct sink *sink)
{
	int rc = encode_table(profile, &options->table, sink);

	if (!rc && options->leaks)
		rc = put_leaks(profile, &options->table, sink);
	if (!rc)
		rc = put_of_heap(profile, options, sink);
	if (!rc && options->modules)
		rc = sink__puts(sink, "\n")
			     ?: encode_modules(profile, options->modules, false, sink);
	if (!rc && options->more.resident)
		rc = sink__puts(sink, "\n") ?: encode_resident(profile, &options->table, sink);
	return rc;
}
