// SPDX-License-Identifier: BSD-2-Clause
/* A function's name: is it an allocator's or a runtime's, and how is it folded? */
#include "fuzz.h"

#include "encode/fold.h"
#include "profile/own_frame.h"
#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const parts[] = {
		".cold",       ".part.0",	 ".isra.0",	 ".constprop.0",
		".lto_priv.0", " [clone .cold]", ".isra.0.cold",
	};
	char *name = fuzz_string(data, size), *variant;
	bool answer = profile__is_allocator_frame(name);

	/* A suffix that a compiler adds for a part of a function does not change the answer. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strlen(name) > 400 || strpbrk(name, "<>. [("))
			break;
		require(asprintf(&variant, "%s%s", name, parts[i]) > 0);
		require(profile__is_allocator_frame(variant) == answer);
		free(variant);
	}
	function__is_runtime(name);
	function__script_owner(name);
	path__is_interpreter(name);
	path__is_library(name);
	variant = fold_name(name);
	require(variant && strlen(variant) <= 3 * strlen(name));
	/* only brackets, paths and ABI tags are ever folded */
	require(strpbrk(name, "<[:") || !strcmp(variant, name));
	free(variant);
	free(name);
	return 0;
}
