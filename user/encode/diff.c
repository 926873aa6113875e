// SPDX-License-Identifier: BSD-2-Clause
/* Differences of profiles, for people and for programs. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/grid.h"
#include "encode/json.h"
#include "encode/table.h"
#include "encode/text.h"

#define DEFAULT_TOP 20
/* the output warns if there are fewer replicas than this and no replica is abnormal */
#define FEW 5

static const struct grid_column columns[] = {{"CHANGE", false},	    {"95 % INTERVAL", false},
					     {"PER SECOND", false}, {"FROM", false},
					     {"TO", false},	    {"EVIDENCE", true}};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static const struct grid_column replica_columns[] = {{"PROFILE", true},
						     {"HAS", false},
						     {"OTHERS", false}};

#define N_REPLICA_COLUMNS (sizeof(replica_columns) / sizeof(replica_columns[0]))

static bool is_live(const struct diff *diff)
{
	return diff->measure != DIFF_GROWTH;
}

static const char *unit_of(const struct diff *diff)
{
	return is_live(diff) ? "" : "/s";
}

/* Returns the change in bytes per second; NaN: not known. */
static double rate_of(const struct diff *diff, const struct diff_stack *stack)
{
	if (!is_live(diff))
		return NAN;
	return isfinite(stack->trend.low) && isfinite(diff->seconds)
		       ? stack->trend.bytes_per_s
		       : stack->change.bytes / diff->seconds;
}

/* --- words --- */

static const char *verdict(const struct diff *diff, const struct diff_stack *stack)
{
	if (stack->grows)
		return "grows";
	if (stack->shrinks)
		return "shrinks";
	if (stack->change.bytes == 0)
		return "the same";
	if (diff->warnings & DIFF_UNSURE || !isfinite(stack->change.low))
		return "not known";
	return "may be chance";
}

static int put_profile(const struct profile *profile, bool with_file, struct sink *sink)
{
	_cleanup_free_ char *comm = text_printable(profile->comm);
	_cleanup_free_ char *file = text_printable(profile->file ? profile->file : "");

	if (!comm || !file)
		return -ENOMEM;
	if (with_file && *file)
		sink__printf(sink, "%s: ", file);
	if (profile->pid)
		sink__printf(sink, "pid %d", (int)profile->pid);
	else
		sink__puts(sink, "a process");
	if (*comm)
		sink__printf(sink, " (%s)", comm);
	if (profile->duration_s > 0)
		sink__printf(sink, ", %.1f s", profile->duration_s);
	if (profile->interval_bytes > 1) {
		sink__puts(sink, ", ");
		put_samples_per(profile->finest_interval_bytes, profile->asked_interval_bytes,
				profile->interval_bytes, sink);
	} else if (profile->drawn)
		sink__printf(sink, ", %s", drawn_how(profile));
	else if (profile->interval_bytes)
		sink__puts(sink, ", every allocation");
	if (profile__is_windowed(profile))
		sink__puts(sink, ", windowed");
	return sink->error;
}

static void put_warnings(unsigned warnings, bool color, struct sink *sink)
{
	for (unsigned i = 0; i < DIFF_WARNINGS_MAX; i++)
		if (warnings & 1u << i)
			sink__printf(sink, "%s %s\n", color ? YELLOW "note:" RESET : "note:",
				     diff_warning__text((enum diff_warning)i));
}

static int put_head(const struct diff *diff, struct sink *sink)
{
	const struct profile *first = diff->profiles[0];
	const struct diff_stack *total = &diff->total;
	size_t last = diff->n_profiles - 1;
	char a[20], b[20], c[20], range[CELL_SIZE];
	int err;

	sink__puts(sink, "memtrace: ");
	if (diff->one_run) {
		sink__printf(sink, "%s of ", diff->n_profiles > 2 ? "snapshots" : "two snapshots");
		err = put_profile(first, false, sink);
		sink__printf(sink, ", to %.1f s\n", diff->profiles[last]->duration_s);
	} else {
		err = put_profile(first, true, sink);
		sink__puts(sink, diff->n_profiles > 2 ? "\n   ... to " : "\n       to ");
		err = err ? err : put_profile(diff->profiles[last], true, sink);
		sink__puts(sink, "\n");
	}
	if (err)
		return err;
	format_range(total->change.low, total->change.high, range, sizeof(range));
	sink__printf(sink, "%s%s: %s%s to %s%s, %s%s%s%s%s, %s",
		     first->drawn    ? ""
		     : is_live(diff) ? "live "
				     : "growth of ",
		     first->drawn ? drawn_what(first) : profile_what__name(first->what),
		     format_bytes(total->change.from, a), unit_of(diff),
		     format_bytes(total->change.to, b), unit_of(diff),
		     format_change(total->change.bytes, c), unit_of(diff), *range ? " (95 %: " : "",
		     range, *range ? ")" : "", verdict(diff, total));
	if (is_live(diff) && isfinite(diff->seconds))
		sink__printf(sink, "; %s/s over %.1f s", format_change(rate_of(diff, total), a),
			     diff->seconds);
	return sink__puts(sink, "\n");
}

/* --- the table --- */

static void add_row(struct grid *grid, const struct diff *diff, const struct diff_stack *stack)
{
	double rate = rate_of(diff, stack);
	char buf[20], range[CELL_SIZE];

	format_range(stack->change.low, stack->change.high, range, sizeof(range));
	grid__add(grid, "%s%s", format_change(stack->change.bytes, buf), unit_of(diff));
	grid__add(grid, "%s", range);
	grid__add(grid, "%s", isfinite(rate) ? format_change(rate, buf) : "");
	grid__add(grid, "%s", format_bytes(stack->change.from, buf));
	grid__add(grid, "%s", format_bytes(stack->change.to, buf));
	if (diff->n_profiles > 2)
		grid__add(grid, "%s, %u of %zu up", verdict(diff, stack), stack->rises,
			  diff->n_profiles - 1);
	else
		grid__add(grid, "%s", verdict(diff, stack));
}

static int put_rows(const struct diff *diff, const struct table_options *options, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	size_t top = options->top ? options->top : DEFAULT_TOP;
	size_t n = diff->n_stacks < top ? diff->n_stacks : top;
	double rest = 0;
	char buf[20];
	int err;

	for (size_t i = 0; i < n; i++)
		add_row(&grid, diff, &diff->stacks[i]);
	err = grid__fit(&grid);
	if (!err)
		put_stack_titles(&grid, options, sink);
	for (size_t i = 0; !err && i < n; i++)
		err = put_stack_row(&grid, i, diff->stacks[i].profile, diff->stacks[i].site,
				    options, sink);
	if (err)
		return err;
	for (size_t i = n; i < diff->n_stacks; i++)
		rest += diff->stacks[i].change.bytes;
	if (n < diff->n_stacks)
		sink__printf(sink, "(%zu more stack%s: %s%s)\n", diff->n_stacks - n,
			     diff->n_stacks - n == 1 ? "" : "s", format_change(rest, buf),
			     unit_of(diff));
	return sink->error;
}

/* Puts a summary of the rows: sure growth, changes that may be chance, and the least growth that
 * would have been found. */
static void put_summary(const struct diff *diff, struct sink *sink)
{
	size_t chance = 0;
	double sure = 0, least = diff__least_growth(diff);
	char buf[20];

	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct diff_stack *stack = &diff->stacks[i];

		if (stack->grows)
			sure += stack->change.bytes;
		chance += !stack->grows && !stack->shrinks && stack->change.bytes != 0;
	}
	if (diff->warnings & DIFF_UNSURE)
		return;
	sink__printf(sink, "%zu stack%s surely grow%s", diff->n_grow, diff->n_grow == 1 ? "" : "s",
		     diff->n_grow == 1 ? "s" : "");
	if (diff->n_grow)
		sink__printf(sink, " (%s%s)", format_change(sure, buf), unit_of(diff));
	sink__printf(sink, ", %zu surely shrink%s; the difference of %zu may be chance",
		     diff->n_shrink, diff->n_shrink == 1 ? "s" : "", chance);
	if (isfinite(least))
		sink__printf(sink, "; a stack that grows by %s/s is found in 95 of 100 such pairs",
			     format_bytes(least, buf));
	sink__puts(sink, "\n");
}

int encode_diff(const struct diff *diff, const struct table_options *options, struct sink *sink)
{
	int err = put_head(diff, sink);

	if (err)
		return err;
	put_warnings(diff->warnings, options->color, sink);
	if (diff->n_stacks)
		err = put_rows(diff, options, sink);
	if (err)
		return err;
	put_summary(diff, sink);
	return put_each_doubt(diff->profiles, diff->n_profiles, options->color, sink);
}

/* --- JSON --- */

/* Puts a probability with four significant digits. With three decimals, small probabilities would
 * be 0. */
static void put_probability(struct json *json, const char *key, double p, bool known)
{
	json__key(json, key);
	if (known)
		sink__printf(json->sink, "%.4g", p);
	else
		sink__puts(json->sink, "null");
}

static void put_values(struct json *json, const double *values, size_t n)
{
	struct json list = json__open(json, "values", "[");

	for (size_t i = 0; i < n; i++)
		json__put_item(&list, values[i]);
	sink__puts(json->sink, "]");
}

/* Puts the members of the total, or of a stack. */
static void put_change(struct json *json, const struct diff *diff, const struct diff_stack *stack)
{
	const struct change *change = &stack->change;
	bool known = isfinite(change->low);

	json__put_real(json, "from", change->from);
	json__put_real(json, "to", change->to);
	json__put_real(json, "change", change->bytes);
	json__put_real(json, "low", change->low);
	json__put_real(json, "high", change->high);
	if (is_live(diff) && isfinite(diff->seconds)) {
		json__put_real(json, "bytes_per_s", change->bytes / diff->seconds);
		json__put_real(json, "bytes_per_s_low", change->low / diff->seconds);
		json__put_real(json, "bytes_per_s_high", change->high / diff->seconds);
	}
	put_probability(json, "p_grows", change->p_grows, known);
	put_probability(json, "p_shrinks", change->p_shrinks, known);
	json__put_bool(json, "grows", stack->grows);
	json__put_bool(json, "shrinks", stack->shrinks);
	json__put_uint(json, "rises", stack->rises);
	json__put_uint(json, "falls", stack->falls);
	put_values(json, stack->values, diff->n_profiles);
	if (isfinite(stack->trend.low)) {
		struct json trend = json__open(json, "trend", "{");

		json__put_real(&trend, "bytes_per_s", stack->trend.bytes_per_s);
		json__put_real(&trend, "low", stack->trend.low);
		json__put_real(&trend, "high", stack->trend.high);
		sink__puts(json->sink, "}");
	}
}

int encode_diff_json(const struct diff *diff, struct sink *sink)
{
	struct json json = json__open_document(sink, profile_what__name(diff->profiles[0]->what)),
		    item, list;
	int rc;

	json__put_text(&json, "measure", is_live(diff) ? "live" : "growth");
	json__put_bool(&json, "one_run", diff->one_run);
	json__put_bool(&json, "exact", diff->exact);
	json__put_real(&json, "seconds", diff->seconds);
	json__put_real(&json, "least_growth_bytes_per_s", diff__least_growth(diff));
	rc = json__put_profiles(&json, diff);
	json__put_warnings(&json, diff->warnings);
	item = json__open(&json, "total", "{");
	put_change(&item, diff, &diff->total);
	sink__puts(sink, "}");
	list = json__open(&json, "stacks", "[");
	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct diff_stack *stack = &diff->stacks[i];

		item = json__open(&list, NULL, "{");
		put_change(&item, diff, stack);
		if (stack->site->allocators_own)
			json__put_bool(&item, "allocators_own", true);
		json__put_frames(&item, stack->profile, stack->site);
		sink__puts(sink, "}");
	}
	return sink__puts(sink, "]}\n") ?: rc;
}

/* --- two columns --- */

struct line {
	char *names;
	double from, to;
};

static int by_names(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->names, ((const struct line *)b)->names);
}

int encode_diff_collapsed(const struct diff *diff, struct sink *sink)
{
	struct line *lines = calloc(diff->n_stacks + 1, sizeof(*lines));
	size_t n = 0, end;
	int err = lines ? 0 : -ENOMEM;

	for (; !err && n < diff->n_stacks; n++) {
		const struct diff_stack *stack = &diff->stacks[n];

		lines[n] = (struct line){collapsed_names(stack->profile, stack->site),
					 stack->change.from, stack->change.to};
		if (!lines[n].names)
			err = -ENOMEM;
	}
	if (!err)
		qsort(lines, n, sizeof(*lines), by_names);
	for (size_t i = 0; !err && i < n; i = end) {
		double from = 0, to = 0;

		for (end = i; end < n && !by_names(&lines[i], &lines[end]); end++) {
			from += lines[end].from;
			to += lines[end].to;
		}
		if (to_integer(from) || to_integer(to))
			err = sink__printf(sink, "%s %" PRIu64 " %" PRIu64 "\n", lines[i].names,
					   to_integer(from), to_integer(to));
	}
	for (size_t i = 0; i < n; i++)
		free(lines[i].names);
	free(lines);
	return err;
}

/* --- replicas --- */

static const char *replica_unit(const struct replicas *replicas)
{
	return replicas->measure == DIFF_GROWTH || replicas->per_second ? "/s" : "";
}

static int put_replica(const struct replicas *replicas, const struct replica *replica,
		       struct sink *sink)
{
	const char *unit = replica_unit(replicas);
	char a[16], b[16], c[16];
	int err;

	sink__printf(sink, "profile %u: ", replica->index + 1);
	err = put_profile(replicas->profiles[replica->index], true, sink);
	sink__printf(sink, "\n  %s%s, the others %s%s in the median",
		     format_bytes(replica->total, a), unit, format_bytes(replica->median, b), unit);
	if (replica->n_abnormal)
		sink__printf(sink, "; %zu stack%s %s%s more than ordinary\n", replica->n_abnormal,
			     replica->n_abnormal == 1 ? " has" : "s have",
			     format_bytes(replica->excess, c), unit);
	else
		sink__puts(sink, replicas->warnings & DIFF_UNSURE
					 ? "\n"
					 : "; no stack has more than is ordinary\n");
	return err ? err : sink->error;
}

int encode_replicas(const struct replicas *replicas, const struct table_options *options,
		    struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = replica_columns,
						   .n_columns = N_REPLICA_COLUMNS};
	size_t top = options->top ? options->top : DEFAULT_TOP, n;
	const char *unit = replica_unit(replicas);
	char a[16], b[16];
	int err = 0;

	sink__printf(sink, "memtrace: %zu replicas, by %s%s\n", replicas->n,
		     replicas->measure == DIFF_GROWTH ? "growth of " : "live ",
		     profile_what__name(replicas->profiles[0]->what));
	put_warnings(replicas->warnings, options->color, sink);
	for (size_t i = 0; !err && i < replicas->n; i++)
		err = put_replica(replicas, &replicas->ranks[i], sink);
	if (!replicas->n_abnormal && replicas->n < FEW && !(replicas->warnings & DIFF_UNSURE))
		sink__puts(sink, "So few replicas do not show how much replicas usually differ: "
				 "give more, or compare two of them by memtrace diff.\n");
	if (err || !replicas->n_abnormal)
		return err ? err
			   : put_each_doubt(replicas->profiles, replicas->n, options->color, sink);
	n = replicas->n_abnormal < top ? replicas->n_abnormal : top;
	for (size_t i = 0; i < n; i++) {
		const struct replica_excess *excess = &replicas->list[i];

		grid__add_row(&grid, "%u\t%s%s\t%s%s", excess->replica + 1,
			      format_bytes(excess->value, a), unit, format_bytes(excess->median, b),
			      unit);
	}
	err = grid__fit(&grid);
	if (!err)
		put_stack_titles(&grid, options, sink);
	for (size_t i = 0; !err && i < n; i++) {
		const struct replica_stack *stack = &replicas->stacks[replicas->list[i].stack];

		err = put_stack_row(&grid, i, stack->profile, stack->site, options, sink);
	}
	if (n < replicas->n_abnormal)
		sink__printf(sink, "(%zu more)\n", replicas->n_abnormal - n);
	return err ? err : put_each_doubt(replicas->profiles, replicas->n, options->color, sink);
}

int encode_replicas_json(const struct replicas *replicas, struct sink *sink)
{
	struct json json =
		json__open_document(sink, profile_what__name(replicas->profiles[0]->what));
	struct json list, item;
	int rc = 0;

	json__put_text(&json, "measure", replicas->measure == DIFF_GROWTH ? "growth" : "live");
	json__put_bool(&json, "per_second", replicas->per_second);
	json__put_warnings(&json, replicas->warnings);
	list = json__open(&json, "replicas", "[");
	for (size_t i = 0; i < replicas->n && !rc; i++) {
		const struct replica *replica = &replicas->ranks[i];
		const struct profile *profile = replicas->profiles[replica->index];

		item = json__open(&list, NULL, "{");
		json__put_uint(&item, "profile", replica->index + 1);
		json__put_identity(&item, profile);
		json__put_real(&item, "total", replica->total);
		json__put_real(&item, "others", replica->median);
		json__put_real(&item, "excess", replica->excess);
		json__put_uint(&item, "abnormal_stacks", replica->n_abnormal);
		json__put_lost(&item, profile);
		rc = json__put_contradictions(&item, profile);
		sink__puts(sink, "}");
	}
	sink__puts(sink, "]");
	list = json__open(&json, "abnormal", "[");
	for (size_t i = 0; i < replicas->n_abnormal; i++) {
		const struct replica_excess *excess = &replicas->list[i];
		const struct replica_stack *stack = &replicas->stacks[excess->stack];

		item = json__open(&list, NULL, "{");
		json__put_uint(&item, "profile", excess->replica + 1);
		json__put_real(&item, "value", excess->value);
		json__put_real(&item, "others", excess->median);
		put_probability(&item, "p", excess->p, true);
		put_values(&item, stack->values, replicas->n);
		json__put_frames(&item, stack->profile, stack->site);
		sink__puts(sink, "}");
	}
	return sink__puts(sink, "]}\n") ?: rc;
}
