// SPDX-License-Identifier: BSD-2-Clause
#include "cli/several.h"

#include "cli/cli.h"
#include "decode/decode.h"

int profiles__read(struct profiles *profiles, const char *command, char *const *paths, size_t n)
{
	struct error err = {};

	if (n > MAX_PROFILES)
		return usage_error(command, "at most %d files", MAX_PROFILES);
	for (; profiles->n < n; profiles->n++)
		if (decode_file(paths[profiles->n], &profiles->list[profiles->n], &err))
			return fail(&err);
	return 0;
}

void profiles__free(struct profiles *profiles)
{
	while (profiles->n)
		profile__free(profiles->list[--profiles->n]);
}
