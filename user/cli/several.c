// SPDX-License-Identifier: BSD-2-Clause
#include "cli/several.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/outfile.h"
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

void fit_terminal(struct table_options *options)
{
	struct winsize size;

	options->width = 120;
	if (!isatty(STDOUT_FILENO))
		return;
	options->color = !getenv("NO_COLOR");
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 40)
		options->width = size.ws_col;
}

int write_text(const char *path, int (*encode)(const void *what, struct sink *sink),
	       const void *what)
{
	struct outfile out = {};
	struct error err = {};
	struct sink sink;
	int rc;

	if (!path) {
		sink = sink__to_stream(stdout);
		rc = encode(what, &sink);
		if (!rc && fflush(stdout))
			rc = -errno;
		if (rc)
			complain("cannot write to standard output: %s", strerror(-rc));
		return rc ? EXIT_FAILED : 0;
	}
	if (outfile__open(&out, path, &err))
		return fail(&err);
	sink = sink__to_stream(out.stream);
	rc = encode(what, &sink);
	if (rc && !ferror(out.stream)) {
		outfile__discard(&out);
		complain("cannot write %s: %s", path, strerror(-rc));
		return EXIT_FAILED;
	}
	/* A failed write shows in the commit, which knows how to say it. */
	return outfile__commit(&out, &err) ? fail(&err) : 0;
}
