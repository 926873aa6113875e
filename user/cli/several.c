// SPDX-License-Identifier: BSD-2-Clause
#include "cli/several.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/names.h"
#include "decode/decode.h"

/* Limit for the memory of all profiles together. A single profile may need a large part of this
 * memory. To compare two profiles takes as much additional memory as the two profiles
 * themselves. */
#define MAX_BYTES (2ULL << 30)

int profiles__read(struct profiles *profiles, const char *command, char *const *paths, size_t n,
		   const struct fetch_options *fetching)
{
	struct error err = {};
	uint64_t bytes = 0;

	if (n > MAX_PROFILES)
		return usage_error(command, "at most %d files", MAX_PROFILES);
	profiles->paths = paths;
	while (profiles->n < n) {
		const char *path = paths[profiles->n];

		if (fetching && fetch__is_url(path)
			    ? fetch__profile(path, fetching, &profiles->list[profiles->n], &err)
			    : decode_file(path, &profiles->list[profiles->n], &err))
			return fail(&err);
		profiles->n++;
		if (name_raw(path, profiles->list[profiles->n - 1]))
			return EXIT_FAILED;
		bytes += profile__bytes(profiles->list[profiles->n - 1]);
		if (bytes > MAX_BYTES) {
			complain(
				"%s: with this file, the profiles take more than %llu MiB together",
				path, MAX_BYTES >> 20);
			return EXIT_FAILED;
		}
	}
	return 0;
}

int profiles__fail(const struct profiles *profiles, int rc, const struct error *err)
{
	complain("%s%s%s: %s", profiles->paths[0],
		 profiles->n > 2   ? " ... "
		 : profiles->n > 1 ? ", "
				   : "",
		 profiles->n > 1 ? profiles->paths[profiles->n - 1] : "",
		 err->code ? err->text : strerror(-rc));
	return EXIT_FAILED;
}

void profiles__free(struct profiles *profiles)
{
	while (profiles->n)
		profile__free(profiles->list[--profiles->n]);
}
