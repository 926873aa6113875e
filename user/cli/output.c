// SPDX-License-Identifier: BSD-2-Clause
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/cli.h"
#include "session/privileges.h"

#define DEFAULT_WIDTH 120 /* for a terminal that tells no width, or less than MIN_WIDTH */
#define MIN_WIDTH     40  /* least width of a table; a smaller number in COLUMNS counts as this */

static int encode_flame_graph(const struct profile *profile, struct sink *sink)
{
	return encode_svg(profile, NULL, sink);
}

/* A row for each format. */
const struct format formats[N_FORMATS] = {
	{"heap", encode_heap_v2, .extension = "heap", .by_default = true, .needs_objects = true,
	 .needs_addresses = true},
	{"collapsed", encode_collapsed, .extension = "collapsed", .by_default = true,
	 .views = true},
	{"pprof", encode_pprof, .extension = "pb.gz", .by_default = true, .binary = true},
	{"svg", encode_flame_graph, .extension = "svg", .views = true},
	{"symbolized", encode_symbolized, .extension = "symbolized", .needs_objects = true},
};

const struct format *find_format(const char *name)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

int take_drawn_format(const char *command, const char *what, const char *value,
		      const struct format **ret)
{
	*ret = find_format(value);
	if (!*ret || (*ret)->needs_objects)
		return usage_error(command, "%s are written as collapsed, pprof or svg, not '%s'",
				   what, value);
	return 0;
}

int check_drawn_format(const char *command, const struct format *format, bool json,
		       const char *output)
{
	if (json && format)
		return usage_error(command,
				   "--json and -f are different outputs: give one of them");
	if (format && format->binary && !output && isatty(STDOUT_FILENO))
		return usage_error(command, "%s is binary, not for a terminal: give -o FILE",
				   format->name);
	return 0;
}

/* Returns the descriptor that the path names, such as 1 for /dev/stdout; -1: it names none. Even if
 * a regular file is behind the descriptor, this file must not be replaced: rename() would replace
 * the link /dev/stdout itself, for all programs of the machine. */
static int named_descriptor(const char *path)
{
	static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
	uint64_t fd;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
		size_t len = strlen(directories[i]);

		if (!strncmp(path, directories[i], len) &&
		    !parse_count(path + len, 0, INT32_MAX, &fd))
			return (int)fd;
	}
	return -1;
}

bool is_stream(const char *path)
{
	struct stat st;

	return named_descriptor(path) >= 0 ||
	       (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* Opens a path for which is_stream() is true. A copy of a descriptor shares its offset. So output
 * goes on where other programs stopped writing, as after >> of a shell. NULL with errno. */
static FILE *open_stream(const char *path)
{
	_cleanup_close_ int fd = -1;
	int named = named_descriptor(path);
	FILE *stream;

	if (named < 0)
		return fopen(path, "we");
	fd = fcntl(named, F_DUPFD_CLOEXEC, 0);
	stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (stream)
		fd = -1; /* the stream closes it */
	return stream;
}

int check_output(const char *path, struct error *err)
{
	if (!path)
		return 0;
	if (!is_stream(path))
		return outfile__check(path, err);
	/* ENOENT: the path names a descriptor that is not open. This fails now, because memtrace
	 * itself might later open another file under this number. */
	if (!faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) || (errno != EACCES && errno != ENOENT))
		return 0;
	return error__set(err, -errno, "cannot write to %s: %s", path, strerror(errno));
}

int begin_output(const char *path, struct error *err)
{
	int rc = check_output(path, err);

	if (privileges__override(rc == -EACCES) && rc == -EACCES) {
		*err = (struct error){};
		rc = check_output(path, err);
	}
	return rc;
}

int write_stream(FILE *stream, const char *name, int (*encode)(const void *what, struct sink *sink),
		 const void *what)
{
	struct sink sink = sink__to_stream(stream);
	int rc = encode(what, &sink);

	if (!rc && fflush(stream))
		rc = -errno;
	if (rc)
		complain("cannot write to %s: %s", name, strerror(-rc));
	return rc ? EXIT_FAILED : 0;
}

int write_text(const char *path, int (*encode)(const void *what, struct sink *sink),
	       const void *what)
{
	struct outfile out = {};
	struct error err = {};
	struct sink sink;
	int rc;

	if (!path)
		return write_stream(stdout, "standard output", encode, what);
	if (is_stream(path)) {
		_cleanup_fclose_ FILE *stream = open_stream(path);

		if (stream)
			return write_stream(stream, path, encode, what);
		complain("cannot write to %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	if (outfile__open(&out, path, &err))
		return fail(&err);
	sink = sink__to_stream(out.stream);
	rc = encode(what, &sink);
	rc = rc ? outfile__fail(&out, rc, &err) : outfile__commit(&out, &err);
	return rc ? fail(&err) : 0;
}

struct formatted {
	const struct format *format;
	const struct profile *profile;
};

static int encode_formatted(const void *what, struct sink *sink)
{
	const struct formatted *f = what;

	return f->format->encode(f->profile, sink);
}

int write_file(const char *path, const struct format *format, const struct profile *profile,
	       const struct view_options *options, const char *name)
{
	_cleanup_(profile_view__clear) struct profile_view view = {};
	int status = 0;

	if (!format->views || !view_options__any(options))
		return write_text(path, encode_formatted, &(struct formatted){format, profile});
	status = open_view(&view, profile, options, name);
	return status ? status
		      : write_text(path, encode_formatted,
				   &(struct formatted){format, &view.profile});
}

int write_capture(const char *path, const struct format *format, const struct profile *profile,
		  const struct view_options *options, bool *ret_written)
{
	struct view_options view = *options;
	const char *refusal = format->views ? view_options__relax(&view, profile) : NULL;
	int status;

	if (view.weight != options->weight)
		complain("%s: its stacks are weighed by live bytes, not by %s: %s", path,
			 profile_weight__name(options->weight), refusal);
	if (view.root != options->root)
		complain("%s: its stacks are not grouped by %s: %s", path,
			 profile_root__name(options->root),
			 view_options__refusal(&(struct view_options){.root = options->root},
					       profile));
	status = write_file(path, format, profile, &view, path);
	*ret_written = !status;
	return refusal ? EXIT_FAILED : status;
}

int take_view_option(struct view_options *view, const char *command, const char *option,
		     const char *value)
{
	int i = 0;

	if (!strcmp(option, "weight")) {
		while (i < PROFILE_WEIGHTS &&
		       strcmp(value, profile_weight__name((enum profile_weight)i)))
			i++;
		if (i == PROFILE_WEIGHTS)
			return usage_error(
				command,
				"stacks are weighed by live, objects, allocated, freed, growth or"
				" peak, "
				"not by '%s'",
				value);
		view->weight = (enum profile_weight)i;
		return 0;
	}
	for (i = ROOT_NONE + 1;
	     i < PROFILE_ROOTS && strcmp(value, profile_root__name((enum profile_root)i));)
		i++;
	if (i == PROFILE_ROOTS)
		return usage_error(command, "--by is thread, process or module, not '%s'", value);
	view->root = (enum profile_root)i;
	return 0;
}

int open_view(struct profile_view *view, const struct profile *profile,
	      const struct view_options *options, const char *name)
{
	const char *refusal = view_options__refusal(options, profile);
	int rc;

	if (refusal) {
		complain("%s: %s", name, refusal);
		return EXIT_FAILED;
	}
	rc = profile_view__init(view, profile, options);
	if (rc)
		complain("%s: %s", name,
			 rc == -EFBIG
				 ? "with a copy of each stack for each of its threads, it has too "
				   "many frames"
				 : "out of memory");
	return rc ? EXIT_FAILED : 0;
}

/* Returns the number in COLUMNS; 0: there is none. */
static unsigned asked_columns(void)
{
	const char *text = getenv("COLUMNS");
	unsigned long columns;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return 0;
	columns = strtoul(text, &end, 10);
	if (*end || !columns)
		return 0;
	return columns < MIN_WIDTH     ? MIN_WIDTH
	       : columns < TABLE_UNCUT ? (unsigned)columns
				       : TABLE_UNCUT;
}

unsigned output_width(int fd)
{
	unsigned columns = asked_columns();
	struct winsize size;

	if (columns)
		return columns;
	if (!isatty(fd))
		return TABLE_UNCUT;
	if (ioctl(fd, TIOCGWINSZ, &size) || size.ws_col < MIN_WIDTH)
		return DEFAULT_WIDTH;
	return size.ws_col;
}

void fit_descriptor(struct table_options *options, int fd)
{
	options->color = isatty(fd) && !getenv("NO_COLOR");
	options->width = output_width(fd);
}

void fit_output(struct table_options *options, const char *path)
{
	fit_descriptor(options, STDOUT_FILENO);
	if (!path)
		return;
	options->color = false;
	options->width = asked_columns() ? options->width : TABLE_UNCUT;
}
