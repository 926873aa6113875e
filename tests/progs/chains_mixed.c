/* SPDX-License-Identifier: BSD-2-Clause */
/* Call chains that mix two kinds of code. One kind has frame pointers and no unwind tables ('f': in
 * this program, 'l': in the library whose path is the argument). The other kind has unwind tables
 * and no frame pointers ('t'). Functions of both kinds call the allocator. */
#include "chains_step.h"
#include "chains.h"

#include <dlfcn.h>
#include <string.h>

static void (*library_step)(const struct path *path, int i);

static const struct kind {
	char letter;
	const char *name;
} kinds[] = {{'f', "step_frame"}, {'t', "step_table"}, {'l', "step_library"}};

/* letters: the kinds of the steps, outermost first. */
NOINLINE static void take(const char *letters, size_t size)
{
	struct path path = {.size = size, .n = (int)strlen(letters)};

	for (int i = 0; i < path.n; i++)
		path.step[i] = letters[i] == 'f'   ? step_frame
			       : letters[i] == 't' ? step_table
						   : library_step;
	path.step[0](&path, 1);
	declare_begin(size, 1);
	for (int i = path.n - 1; i >= 0; i--)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			if (kinds[k].letter == letters[i])
				declare_frames(kinds[k].name, 1);
	declare_frames("take", 1);
	declare_frames("main", 1);
	declare_end();
}

int main(int argc, char **argv)
{
	static const char *const own[] = {"f",	  "t",	    "ft",	"tf",
					  "ftf",  "tft",    "ftft",	"tftf",
					  "fftt", "ttfftt", "fttffttf", "ftftftftftftftftftft"};
	static const char *const other[] = {"l", "lt", "tl", "lft", "tlf", "ltltftlfl"};

#ifndef STATIC
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	library_step =
		library ? (void (*)(const struct path *, int))dlsym(library, "step_library") : NULL;
#else
	(void)argv;
#endif
	if (argc > 1 && !library_step)
		return 3;
	chains_begin();
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		take(own[i], 10001 + 2 * i);
	for (size_t i = 0; library_step && i < sizeof(other) / sizeof(other[0]); i++)
		take(other[i], 11001 + 2 * i);
	return chains_end();
}
