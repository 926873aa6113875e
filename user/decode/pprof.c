// SPDX-License-Identifier: BSD-2-Clause
/* Reads files in pprof's format, profile.proto: calls the parts of the reader in their order
 * (pprof_parts.h). profile/pprof.h describes what only memtrace's own profiles contain. */
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

#define MAX_TRIES 100 /* at most this many stacks are searched for a function of drop_frames */

/* Does a regular expression contain the name as text? Backslashes that escape a character are
 * skipped. */
static bool is_named_in(struct bytes regex, const char *name)
{
	size_t len = strlen(name);

	for (const uint8_t *start = regex.pos; start < regex.end; start++) {
		const uint8_t *at = start;
		size_t i = 0;

		for (; at < regex.end && i < len && name[i]; at++) {
			if (*at == '\\' && at + 1 < regex.end)
				at++;
			if (*at != (uint8_t)name[i])
				break;
			i++;
		}
		if (i == len)
			return true;
	}
	return false;
}

/* Is the leaf of each stack the function that holds the memory? Yes in files of other tools, and in
 * files whose comments say so. In other files of memtrace, drop_frames names the allocator's
 * functions. The answer is no if any stack begins with one of these functions, if drop_frames is
 * empty, or if no stack has two locations. Otherwise it is yes, because a tool that obeys
 * drop_frames has removed these functions. */
static bool leaf_holds(const struct pprof_file *file)
{
	const struct profile *profile = file->draft->profile;
	struct bytes regex = pprof_file__text(file, file->drop_frames);
	int tries = 0;

	if (!file->own || profile->leaf_holds)
		return true;
	if (regex.pos == regex.end)
		return false;
	for (size_t i = 0; i < profile->n_sites && tries < MAX_TRIES; i++) {
		const struct profile_site *site = &profile->sites[i];
		const char *name;

		if (site->n_locations < 2)
			continue;
		name = profile_location__function(profile__location(profile, site, 0));
		if (name && is_named_in(regex, name))
			return false;
		tries++;
	}
	return tries > 0;
}

int decode_pprof(const struct input *in, struct draft *draft)
{
	_cleanup_(pprof_file__clear) struct pprof_file file = {.input = in, .draft = draft};
	_cleanup_(pprof_places__clear) struct pprof_places places = {};
	int rc = pprof_file__read(&file);

	if (!rc)
		rc = pprof_comments__read(&file);
	if (!rc)
		rc = pprof_places__read(&places, &file);
	if (!rc)
		rc = pprof_samples__read(&file, &places);
	if (!rc && file.own)
		rc = pprof_own__read(&file);
	if (!rc)
		rc = draft__sort(draft);
	if (!rc)
		rc = pprof_names__read(&file, &places);
	if (!rc)
		draft->profile->leaf_holds = leaf_holds(&file);
	return rc;
}
