// SPDX-License-Identifier: BSD-2-Clause
/* Who holds the blocks of stacks: struct site_why and struct profile_why. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "decode/pprof_parts.h"

#define MAX_ASKED (1ULL << 40) /* limit for numbers of blocks */

/* Copies a text of limited length. The copy counts towards the limit of memory for the file. NULL:
 * *ret_rc is the error. */
static char *take_text(const struct pprof_file *file, uint64_t text, int *ret_rc)
{
	char *copy = pprof_file__copy_text(file, text);

	if (!copy) {
		*ret_rc = -ENOMEM;
	} else if (draft__take(file->draft, strlen(copy) + 1)) {
		free(copy);
		copy = NULL;
		*ret_rc = -EFBIG;
	}
	return copy;
}

static int read_holder(const struct pprof_file *file, const struct field *field,
		       struct site_why *why)
{
	struct site_holder holder = {};
	uint64_t path = 0;
	const struct pprof_member members[] = {
		{OWN_HOLDER_PATH, MEMBER_TEXT, &path},
		{OWN_HOLDER_BLOCKS, MEMBER_NUMBER, &holder.blocks},
	};
	int rc = wire__want_bytes(file->input, field)
			 ?: pprof_file__members(file, field->bytes, members, 2);

	if (rc || why->n_holders == SITE_HOLDERS)
		return rc;
	if (holder.blocks > MAX_ASKED)
		return pprof_file__bad(file, field->at, "an impossible number");
	holder.path = take_text(file, path, &rc);
	if (!holder.path)
		return rc;
	why->holders[why->n_holders++] = holder;
	return 0;
}

/* Are the numbers possible? */
static bool is_sound(const struct site_why *why)
{
	uint64_t told = 0;

	for (size_t i = 0; i < why->n_holders; i++)
		told += why->holders[i].blocks;
	return why->lost <= MAX_ASKED && why->in_doubt <= MAX_ASKED && why->gone <= MAX_ASKED &&
	       why->held <= MAX_ASKED && why->followed <= why->held && told <= why->followed;
}

int pprof_why__set_site(const struct pprof_file *file, const struct field *field,
			struct profile_site *site)
{
	struct site_why *why = calloc(1, sizeof(*why));
	const struct pprof_member members[] = {
		{OWN_SITE_WHY_HELD, MEMBER_NUMBER, why ? &why->held : NULL},
		{OWN_SITE_WHY_LOST, MEMBER_NUMBER, why ? &why->lost : NULL},
		{OWN_SITE_WHY_IN_DOUBT, MEMBER_NUMBER, why ? &why->in_doubt : NULL},
		{OWN_SITE_WHY_GONE, MEMBER_NUMBER, why ? &why->gone : NULL},
		{OWN_SITE_WHY_FOLLOWED, MEMBER_NUMBER, why ? &why->followed : NULL},
	};
	struct bytes in = field->bytes;
	struct field part;
	int rc;

	if (!why)
		return -ENOMEM;
	site_why__free(site->why); /* of several such fields, the last one counts */
	site->why = why;
	if (draft__take(file->draft, sizeof(*why) + SITE_HOLDERS * sizeof(*why->holders)))
		return -EFBIG;
	why->holders = calloc(SITE_HOLDERS, sizeof(*why->holders));
	if (!why->holders)
		return -ENOMEM;
	rc = pprof_file__members(file, field->bytes, members, sizeof(members) / sizeof(*members));
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = part.number == OWN_SITE_WHY_HOLDER ? read_holder(file, &part, why) : 0;
	if (!rc && !is_sound(why))
		rc = pprof_file__bad(file, field->at, "an impossible number");
	why->asked = why->held + why->lost + why->in_doubt + why->gone;
	return rc;
}

int pprof_why__read(const struct pprof_file *file, const struct field *field)
{
	struct profile *profile = file->draft->profile;
	struct profile_why *why = calloc(1, sizeof(*why));
	uint64_t failed = 0, doubt = 0, scans = 0, no_registers = 0;
	const struct pprof_member members[] = {
		{OWN_WHY_FAILED, MEMBER_TEXT, &failed},
		{OWN_WHY_DOUBT, MEMBER_TEXT, &doubt},
		{OWN_WHY_SCANS, MEMBER_NUMBER, &scans},
		{OWN_WHY_NO_REGISTERS, MEMBER_NUMBER, &no_registers},
	};
	struct bytes in = field->bytes;
	struct field part;
	int rc;

	if (!why)
		return -ENOMEM;
	profile_why__free(profile->why); /* of several such fields, the last one counts */
	profile->why = why;
	if (draft__take(file->draft, sizeof(*why)))
		return -EFBIG;
	rc = pprof_file__members(file, field->bytes, members, sizeof(members) / sizeof(*members));
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = part.number == OWN_WHY_SECONDS
			     ? pprof_own__take_reals(file, &part, MAX_VALUE, &why->seconds, 1)
			     : 0;
	if (!rc && failed)
		why->failed = take_text(file, failed, &rc);
	if (!rc && doubt)
		why->doubt = take_text(file, doubt, &rc);
	why->scans = scans < UINT32_MAX ? (uint32_t)scans : UINT32_MAX;
	why->no_registers = no_registers;
	return rc;
}
