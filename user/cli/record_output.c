// SPDX-License-Identifier: BSD-2-Clause
/* What memtrace record writes: files, tables, JSON. */
#include "cli/record_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vector.h"
#include "cli/cli.h"
#include "encode/encode.h"
#include "profile/parts.h"
#include "session/session.h"

#define HEAP_ROWS 10 /* rows in each table of --heap without -n, as in memtrace heap */

int record_check_outputs(const struct record_config *c, struct error *err)
{
	return trace_config__check_files(&c->trace, c->command, err)
		       ?: check_output(c->json_path, err);
}

/* Remembers a snapshot's file for the summary at the end. */
static int remember(void *ctx, const struct profile *p, const char *path)
{
	struct record_config *c = ctx;
	char *copy;

	if (VECTOR_ADD_ROOM(c->written, c->n_written))
		return -ENOMEM;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	c->written[c->n_written++] =
		(struct written){p->pid, trace_what(p), p->start_unix_ns, copy};
	return 0;
}

static int tell_snapshots(const struct record_config *c, struct profile *p)
{
	for (size_t i = 0; i < c->n_written; i++) {
		if (c->written[i].pid != p->pid || c->written[i].what != trace_what(p) ||
		    c->written[i].start_unix_ns != p->start_unix_ns)
			continue;
		if (profile__add_file(p, c->written[i].path))
			return -ENOMEM;
		p->n_snapshots++;
	}
	return 0;
}

static int tell_file(void *told, const struct profile *p, const char *path)
{
	(void)p;
	return profile__add_file(told, path);
}

int record_write_files(struct record_config *c, const struct profile *p, struct profile *told)
{
	char number[32] = "";
	int status = 0;

	if (!told)
		snapshots__name(&c->snapshots, number);
	else if (tell_snapshots(c, told))
		status = no_memory();
	return trace_config__write_files(&c->trace, p, &c->view, number,
					 told ? tell_file : remember, told ? (void *)told : c)
		       ?: status;
}

struct profile_list {
	const struct record_config *config;
	struct profile *const *profiles;
	size_t n;
};

static int encode_objects(const void *what, struct sink *sink)
{
	const struct profile_list *list = what;
	int rc = 0;

	for (size_t i = 0; i < list->n && !rc; i++) {
		const struct record_config *c = list->config;
		bool aside = trace_config__is_aside(&c->trace, list->profiles[i]);
		const struct record_heap *heap = record_heap__of(c, list->profiles[i]);
		const struct json_options options = {
			.modules = aside ? NULL : c->modules,
			.heap = heap && heap->look ? &heap->look->report : NULL,
			.heap_failed = heap ? heap->failed : NULL,
			.all_stacks = c->more.sites || c->more.lifetimes || c->churn,
			.peak_stacks = c->command || c->view.weight == WEIGHT_PEAK};

		rc = encode_json_with(list->profiles[i], &options, sink);
	}
	return rc;
}

/* Returns the weight that the table's rows show. For a command this is the memory held at the peak,
 * because most commands have freed all their memory at their end. */
static enum profile_weight table_weight(const struct record_config *c,
					const struct profile *profile)
{
	const struct view_options wanted = {.weight = c->weight_given ? c->view.weight
						      : c->command && !c->trace.leaks
							      ? WEIGHT_PEAK
							      : WEIGHT_LIVE};
	const char *refusal = view_options__refusal(&wanted, profile);

	if (refusal && c->weight_given)
		complain("the table of pid %d is ordered by live bytes: %s", profile->pid, refusal);
	return refusal ? WEIGHT_LIVE : wanted.weight;
}

/* Writes what --heap has found. */
static int put_heap(const struct record_config *c, const struct profile *p, struct sink *sink)
{
	const struct record_heap *heap = record_heap__of(c, p);

	if (!heap)
		return 0;
	sink__puts(sink, "\n");
	if (heap->failed)
		return sink__printf(sink, "Process %d: what lies in its heap is not known: %s\n",
				    (int)p->pid, heap->failed);
	return encode_heap_report(&heap->look->report, c->top ? c->top : HEAP_ROWS, sink);
}

int record_write_tables(const struct record_config *c, struct profile *const *profiles, size_t n)
{
	struct process_table_options processes = {
		.sort = c->sort, .top = c->top, .show_runtime = c->trace.show_runtime};
	struct sink sink = sink__to_stream(c->out);
	struct render_options options = {.table = {.top = c->top,
						   .leaks = c->trace.leaks,
						   .show_runtime = c->trace.show_runtime}};
	int rc = 0;

	fit_descriptor(&options.table, fileno(c->out));
	if (c->trace.selection.given && !c->trace.on_oom) {
		processes.width = options.table.width;
		processes.color = options.table.color;
		_cleanup_free_ const struct profile **rows = calloc(n + 1, sizeof(*rows));
		size_t n_rows = 0;

		/* one row for each process: from its heap profile, unless only regions are
		 * traced */
		for (size_t i = 0; rows && i < n; i++)
			if (profile__is_regions(profiles[i]) == (c->trace.what == WHAT_REGIONS))
				rows[n_rows++] = profiles[i];
		rc = rows ? encode_processes(rows, n_rows, &processes, &sink) : -ENOMEM;
	}
	for (size_t i = 0; i < n && !rc && (!c->trace.selection.given || c->trace.on_oom); i++) {
		bool aside = trace_config__is_aside(&c->trace, profiles[i]);

		if (aside && !(c->trace.leaks && profile__leaks(profiles[i])))
			continue;
		if (i)
			sink__puts(&sink, "\n");
		options.table.churn = c->churn && trace_what(profiles[i]) == WHAT_HEAP;
		options.table.weight =
			options.table.churn ? WEIGHT_LIVE : table_weight(c, profiles[i]);
		options.leaks = c->trace.leaks && (profiles[i]->growth.stacks_known || !aside);
		options.more = c->more;
		options.more.resident &= !i || profiles[i - 1]->pid != profiles[i]->pid;
		options.modules = aside ? NULL : c->modules;
		rc = render_tables(profiles[i], &options, &sink) ?: put_heap(c, profiles[i], &sink);
	}
	if (rc || fflush(c->out)) {
		complain("cannot write to %s: %s", c->out_name, strerror(rc ? -rc : errno));
		return EXIT_FAILED;
	}
	return 0;
}

int record_write_json(const struct record_config *c, struct profile *const *profiles, size_t n)
{
	const struct profile_list list = {c, profiles, n};

	return c->json_path ? write_text(c->json_path, encode_objects, &list)
			    : write_stream(c->out, c->out_name, encode_objects, &list);
}

bool record_json_is_file(const struct record_config *c)
{
	return c->json && c->json_path && !is_stream(c->json_path);
}

int record_write_parts(const struct record_config *c, struct session *session)
{
	int status = 0;

	for (unsigned part = 0; part < WINDOWED_N_PARTS && !status; part++) {
		_cleanup_free_ char *path = NULL;
		struct profile **profiles = NULL;
		struct profile_list list = {.config = c};

		session__leave_out(session, 1U << part);
		if (asprintf(&path, "%s/%s.json", c->parts_dir,
			     windowed_part__name((enum windowed_part)part)) < 0)
			path = NULL;
		if (!path || session__look(session, &profiles, &list.n))
			return no_memory();
		list.profiles = profiles;
		status = write_text(path, encode_objects, &list);
		for (size_t i = 0; i < list.n; i++)
			profile__free(profiles[i]);
		free(profiles);
	}
	session__leave_out(session, 0);
	return status;
}

/* With a command, standard output belongs to the command: whoever reads it from a pipe expects the
 * command's text, not memtrace's. So tables go to standard error, unless the user asks for standard
 * output. stderr is not buffered and would write a table in small pieces, so the tables get a
 * buffered stream of their own. */
void record_choose_output(struct record_config *c)
{
	int fd = c->command && !c->trace.to_stdout
			 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
			 : -1;
	FILE *errors = fd >= 0 ? fdopen(fd, "w") : NULL;

	c->out = errors ? errors : c->command && !c->trace.to_stdout ? stderr : stdout;
	c->out_name = c->out == stdout ? "standard output" : "standard error";
	if (fd >= 0 && !errors)
		close(fd);
}
