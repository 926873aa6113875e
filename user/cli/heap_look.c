// SPDX-License-Identifier: BSD-2-Clause
#include "cli/heap_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/heap_types.h"
#include "cli/trace_options.h"
#include "encode/encode.h"
#include "proc/maps.h"
#include "proc/process.h"

/* At most this many censuses. A census fails if the heap changes too fast, but the next one may
 * succeed. */
#define TRIES 3

TAKE_OPTION_HEAD(scan_pace)
{
	struct scan_pace *pace = (struct scan_pace *)((char *)config + row->to);
	int status = parse_overhead(command, value, &pace->max_share);

	pace->hurry = !status && pace->max_share == 0;
	return status;
}

/* Makes the labels of the census: one for each block whose maker is known. *ret: owned by the
 * caller. */
static int label_blocks(const struct heap_look_options *options, struct heap_look *look,
			struct census_options *census, struct shape_label **ret)
{
	size_t n;

	if (!options->origins || !options->profile)
		return 0;
	if (origins__known(options->profile, &look->known, &n))
		return -ENOMEM;
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = (struct shape_label){look->known[i].addr, look->known[i].size};
	census->labels = *ret;
	census->n_labels = n;
	return 0;
}

static int take_census(pid_t pid, const struct census_options *options, struct maps *maps,
		       struct heap_look *look, struct error *err)
{
	double start = clock__monotonic_s();
	int rc = maps__read(pid, maps);

	if (rc)
		return error__set(err, rc, "cannot read /proc/%d/maps: %s", (int)pid,
				  process__why(rc));
	look->report.unread = heap__unread_allocator(maps);
	rc = census__take(pid, maps, options, &look->census, err);
	look->report.seconds = clock__monotonic_s() - start;
	if (rc)
		maps__free(maps);
	return rc;
}

/* Takes up to TRIES censuses, until one is good enough. maps: the process's mappings at the last
 * census. */
static int take_good_census(pid_t pid, struct census_options *options, struct maps *maps,
			    struct heap_look *look, struct error *err)
{
	double until = clock__monotonic_s() + options->patience_s;
	bool limited = options->patience_s > 0;
	char refusal[256];

	for (int i = 1;; i++) {
		int rc = take_census(pid, options, maps, look, err);

		if (rc || !heap_report__refusal(&look->census, refusal, sizeof(refusal)))
			return rc;
		census__clear(&look->census);
		maps__free(maps);
		if (limited)
			options->patience_s = until - clock__monotonic_s();
		if (i == TRIES || (limited && options->patience_s <= 0))
			break;
	}
	return error__set(err, -EAGAIN, "process %d: %s", (int)pid, refusal);
}

static int find_origins(const struct heap_look_options *options, struct heap_look *look)
{
	if (!options->origins)
		return 0;
	if (origins__find(options->profile, look->known, &look->census, &look->origins))
		return -ENOMEM;
	look->report.origins = &look->origins;
	look->report.by_file = options->by_file;
	return 0;
}

int heap_look__take(pid_t pid, const struct heap_look_options *options, struct heap_look *ret,
		    struct error *err)
{
	struct census_options census = {.ranges = options->ranges,
					.n_ranges = options->n_ranges,
					.patience_s = options->patience_s,
					.pace = options->pace};
	_cleanup_free_ struct shape_label *labels = NULL;
	struct process_info info = {};
	struct maps maps;
	int rc;

	*ret = (struct heap_look){};
	if (label_blocks(options, ret, &census, &labels))
		return error__set(err, -ENOMEM, "out of memory");
	rc = take_good_census(pid, &census, &maps, ret, err);
	if (rc)
		return rc;
	rc = heap_types__name(pid, &maps, &ret->census, &ret->types, &ret->report.n_types);
	maps__free(&maps);
	if (rc)
		return error__set(err, rc, "process %d: cannot name C++ classes: %s", (int)pid,
				  process__why(rc));
	process__read_stat(pid, &info);
	snprintf(ret->comm, sizeof(ret->comm), "%s", printable(info.comm));
	ret->report.types = ret->types;
	ret->report.census = &ret->census;
	ret->report.pid = pid;
	ret->report.comm = ret->comm;
	return find_origins(options, ret) ? error__set(err, -ENOMEM, "out of memory") : 0;
}

void heap_look__clear(struct heap_look *look)
{
	origins__clear(&look->origins);
	heap_types__free(look->types, look->report.n_types);
	census__clear(&look->census);
	free(look->known);
	*look = (struct heap_look){};
}
