// SPDX-License-Identifier: BSD-2-Clause
/* The table of processes. encode.h explains the columns. Cells are stored as text. Columns are as
 * wide as their widest cell, and the rest of the line is for the function. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"
#include "encode/where.h"

#define DEFAULT_TOP   20
#define DEFAULT_WIDTH 100
/* At most this many columns for a program's name: the kernel keeps 15 characters of it. Only the
 * kernel's own workers may have longer names. */
#define COMMAND_MAX 15
#define MIN_ROOM    20 /* other columns are left out until the function has this many columns */

enum column {
	PID,
	COMMAND,
	LIVE,
	LIVE_INTERVAL,
	PEAK,
	PEAK_INTERVAL,
	GROWTH,
	GROWTH_INTERVAL,
	RSS,
	CHANGE,
	THREADS,
	COST,
	N_COLUMNS,
};

static const struct grid_column columns[N_COLUMNS] = {
	[PID] = {"PID", false},		[COMMAND] = {"COMMAND", true},
	[LIVE] = {"LIVE", false},	[LIVE_INTERVAL] = {"95 % INTERVAL", false},
	[PEAK] = {"PEAK", false},	[PEAK_INTERVAL] = {"95 % INTERVAL", false},
	[GROWTH] = {"GROWTH/s", false}, [GROWTH_INTERVAL] = {"95 % INTERVAL", false},
	[RSS] = {"RSS", false},		[CHANGE] = {"CHANGE", false},
	[THREADS] = {"THREADS", false}, [COST] = {"COST", false},
};

const char *process_sort__name(enum process_sort sort)
{
	static const char *const names[PROCESS_SORTS] = {"growth", "live", "rss"};

	return names[sort];
}

struct row {
	char cells[N_COLUMNS][CELL_SIZE];
	char *site; /* the last column, printable, not yet shortened; owned */
};

/* Sums over several processes, or the figures of one process. */
struct sum {
	size_t n, untraced; /* number of processes, and how many of them are not traced */
	struct estimate live;
	double unseen;	/* the largest upper end of live memory's interval, among processes without
			* a sampled live byte; NaN: one of these ends is not known */
	bool allocated; /* something was allocated during the run */
	bool lower, upper, windowed; /* lower, upper: live is a lower or an upper bound */
	double growth;		     /* bytes per second */
	bool at_most;		     /* growth is an upper bound */
	uint64_t rss_start_bytes, rss_end_bytes, threads;
};

struct process {
	const struct profile *profile;
	struct estimate live, peak; /* peak is set if the profile has a peak */
	/* the larger of peak and live, bytes; 0 unless run.peaks */
	double held_most;
	double growth; /* bytes per second */
	size_t index;  /* index in the given order */
};

/* What holds for all processes. */
struct run {
	const struct process_table_options *options;
	double duration_s;
	uint64_t interval_bytes; /* R, the largest interval of a process */
	uint64_t asked_interval_bytes, finest_interval_bytes; /* 0: equal to interval_bytes */
	bool exact;
	bool peaks;		   /* some process's peak is known and above its live bytes */
	struct process *processes; /* processes in the order of the table */
	size_t n;
};

/* Is GROWTH/s the estimated growth of the stacks? Otherwise it is LIVE divided by the time. */
static bool is_by_blocks(const struct profile *profile)
{
	return profile__is_windowed(profile) && profile->growth.stacks_known;
}

/* Are there too few windows to estimate growth? A process grows by LIVE, minus the memory from
 * before the run that it freed during the run. The amount of this freed memory is not known, so
 * LIVE divided by the time is an upper bound. */
static bool is_unknown(const struct profile *profile)
{
	return profile__is_windowed(profile) && !profile->growth.stacks_known;
}

static void sum__add(struct sum *sum, const struct process *process)
{
	const struct profile *profile = process->profile;
	double high = profile__live_interval(profile, &process->live).high;

	sum->n++;
	if (profile->not_traced) {
		sum->untraced++;
	} else {
		if (!(process->live.bytes > 0) && (high > sum->unseen || isnan(high)))
			sum->unseen = high;
		estimate__merge_process(&sum->live, &process->live);
		sum->lower |= profile__is_lower_bound(profile);
	}
	sum->allocated |= profile->alloc_calls != 0;
	sum->upper |= profile__is_upper_bound(profile);
	sum->windowed |= is_by_blocks(profile);
	sum->at_most |= is_unknown(profile) && process->growth > 0;
	sum->growth += process->growth;
	sum->rss_start_bytes += profile->rss_start_bytes;
	sum->rss_end_bytes += profile->rss_end_bytes;
	sum->threads += profile->n_live_threads;
}

/* --- numbers as text --- */

/* Finds the interval of live memory. False: live memory is exact, or its error is not known. */
static bool live_interval(const struct run *run, const struct sum *sum, struct interval *ret)
{
	if (run->exact || !sum->allocated || sum->lower)
		return false;
	if (sum->live.bytes > 0)
		*ret = estimate__interval(&sum->live);
	else
		*ret = (struct interval){0, sum->unseen};
	return isfinite(ret->high);
}

/* Formats live bytes and their interval, both divided by divisor. text and interval_text have room
 * for CELL_SIZE bytes each. */
static void format_estimate(const struct run *run, const struct sum *sum, double divisor,
			    char *text, char *interval_text)
{
	struct interval interval;
	char bytes[16];

	snprintf(text, CELL_SIZE, "%s%s", bound_sign(sum->lower, sum->upper),
		 format_bytes(sum->live.bytes / divisor, bytes));
	if (!live_interval(run, sum, &interval) || !(divisor > 0)) {
		*interval_text = '\0';
		return;
	}
	interval.low /= divisor;
	interval.high /= divisor;
	format_interval(interval, interval_text, CELL_SIZE);
}

/* Formats the growth and its interval. The interval is "" if any process was traced in windows. */
static void format_growth(const struct run *run, const struct sum *sum, char *text,
			  char *interval_text)
{
	char bytes[16];

	if (!sum->windowed && !sum->at_most) {
		format_estimate(run, sum, run->duration_s, text, interval_text);
		return;
	}
	snprintf(text, CELL_SIZE, "%s%s", bound_sign(sum->lower, sum->upper || sum->at_most),
		 format_bytes(fmax(sum->growth, 0), bytes));
	*interval_text = '\0';
}

/* "+1.5 KiB" into buf (>= 24 bytes). */
static const char *format_step(uint64_t from, uint64_t to, char *buf)
{
	double change = (double)to - (double)from;
	char bytes[16];

	snprintf(buf, 24, "%s%s", change > 0 ? "+" : "", format_bytes(change, bytes));
	return buf;
}

/* --- rows --- */

/* Makes a printable copy of the name of the function that holds most memory. This is the holder
 * (encode/where.h) of the largest group of stacks that are printed the same. */
static int top_site(const struct profile *profile, bool show_runtime, char **ret_name)
{
	struct group *groups;
	size_t n;
	int err = group_sites(profile, &groups, &n, GROUPS_BY_LIVE);

	if (err)
		return err;
	*ret_name = n ? where_holder(profile, groups[0].site, SIZE_MAX, show_runtime) : strdup("");
	free_groups(groups, n);
	return *ret_name ? 0 : -ENOMEM;
}

static void fill_sum(struct row *row, const struct run *run, const struct sum *sum)
{
	char buf[32];

	format_estimate(run, sum, 1, row->cells[LIVE], row->cells[LIVE_INTERVAL]);
	format_growth(run, sum, row->cells[GROWTH], row->cells[GROWTH_INTERVAL]);
	snprintf(row->cells[RSS], CELL_SIZE, "%s", format_bytes((double)sum->rss_end_bytes, buf));
	snprintf(row->cells[CHANGE], CELL_SIZE, "%s",
		 format_step(sum->rss_start_bytes, sum->rss_end_bytes, buf));
	snprintf(row->cells[THREADS], CELL_SIZE, "%s", with_commas(sum->threads, buf));
}

/* Fills in the process's peak, which is known only if tracing was continuous. */
static void fill_peak(struct row *row, const struct process *process)
{
	const struct profile *profile = process->profile;
	bool lower = profile__is_lower_bound(profile);
	char bytes[16];

	if (!profile->peak.known) {
		strcpy(row->cells[PEAK], "-");
		return;
	}
	snprintf(row->cells[PEAK], CELL_SIZE, "%s%s",
		 bound_sign(lower, profile__is_upper_bound(profile)),
		 format_bytes(process->peak.bytes, bytes));
	if (process->peak.variance > 0 && !lower)
		format_interval(estimate__interval(&process->peak), row->cells[PEAK_INTERVAL],
				CELL_SIZE);
}

/* Fills in the interval of the growth of the process's stacks. bound: the growth is only a bound
 * and has no interval. The cell is then empty, or says that the growth may be 0. */
static void fill_growth_interval(struct row *row, const struct profile *profile, bool bound)
{
	const struct growth *growth = &profile->growth.attributed;

	if (!bound)
		format_interval((struct interval){fmax(growth->low, 0), fmax(growth->high, 0)},
				row->cells[GROWTH_INTERVAL], CELL_SIZE);
	else if (!growth__is_significant(growth))
		strcpy(row->cells[GROWTH_INTERVAL], "may be 0");
}

/* Puts "-", because the heap is not known. (0 would mean that it is empty.) */
static void fill_unknown(struct row *row)
{
	for (int c = LIVE; c <= GROWTH_INTERVAL; c++)
		strcpy(row->cells[c], c == LIVE || c == GROWTH ? "-" : "");
}

static int fill_process(struct row *row, const struct run *run, const struct process *process)
{
	const struct profile *profile = process->profile;
	_cleanup_free_ char *printable = text_printable(profile->comm), *comm = NULL;
	const char *why = profile__unknown_why(profile);
	struct sum one = {};
	char cost[32];

	if (!printable)
		return -ENOMEM;
	comm = text_shorten(printable, COMMAND_MAX);
	if (!comm)
		return -ENOMEM;
	sum__add(&one, process);
	fill_sum(row, run, &one);
	fill_peak(row, process);
	snprintf(row->cells[PID], CELL_SIZE, "%d", (int)profile->pid);
	snprintf(row->cells[COMMAND], CELL_SIZE, "%s", comm);
	if (is_by_blocks(profile))
		fill_growth_interval(row, profile, one.lower || one.upper);
	if (profile->ended) {
		strcpy(row->cells[RSS], "ended");
		strcpy(row->cells[CHANGE], "-");
		strcpy(row->cells[THREADS], "-");
	}
	format_cost_cell(profile, cost);
	snprintf(row->cells[COST], CELL_SIZE, "%s", *cost ? cost : "-");
	if (!why)
		return top_site(profile, run->options->show_runtime, &row->site);
	fill_unknown(row);
	if (asprintf(&row->site, "(not traced: %s)", why) < 0) {
		row->site = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Fills the row that sums up the other processes. Ended processes add nothing to it. */
static int fill_rest(struct row *row, const struct run *run, const struct process *rest, size_t n)
{
	struct sum sum = {};
	char count[32];

	for (size_t i = 0; i < n; i++)
		if (!rest[i].profile->ended)
			sum__add(&sum, &rest[i]);
	fill_sum(row, run, &sum);
	if (sum.n && sum.untraced == sum.n)
		fill_unknown(row);
	if (asprintf(&row->site, "(%s more process%s)", with_commas(n, count), n == 1 ? "" : "es") <
	    0) {
		row->site = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* --- columns --- */

/* Leaves out columns until the function has room, and says which columns. An estimate is never
 * shown without its interval, and the column that the rows are sorted by stays. */
static void make_room(struct grid *grid, const struct process_table_options *options, size_t width,
		      struct sink *sink)
{
	const enum column order[] = {THREADS, COST, options->sort == SORT_LIVE ? GROWTH : LIVE,
				     CHANGE,  RSS,  PEAK};
	const char *before = "left out for want of room: ";

	for (size_t i = 0;
	     i < sizeof(order) / sizeof(order[0]) && grid__columns(grid) + MIN_ROOM > width; i++) {
		enum column c = order[i];

		if (!grid->width[c] || (c == RSS && options->sort == SORT_RSS))
			continue;
		grid->width[c] = 0;
		if (c == LIVE || c == GROWTH || c == PEAK)
			grid->width[c + 1] = 0;
		sink__printf(sink, "%s%s", before, columns[c].title);
		before = ", ";
	}
	if (*before == ',')
		sink__puts(sink, "\n");
}

static int put_table(const struct run *run, const struct row *rows, size_t n, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	size_t width = run->options->width ? run->options->width : DEFAULT_WIDTH;
	bool color = run->options->color;
	size_t used, room;

	for (size_t i = 0; i < n * N_COLUMNS; i++)
		grid__add(&grid, "%s", rows[i / N_COLUMNS].cells[i % N_COLUMNS]);
	if (grid__fit(&grid))
		return -ENOMEM;
	for (int c = 0; c < N_COLUMNS; c++)
		if (((c == PEAK || c == PEAK_INTERVAL) && !run->peaks) ||
		    (run->exact &&
		     (c == LIVE_INTERVAL || c == PEAK_INTERVAL || c == GROWTH_INTERVAL)))
			grid.width[c] = 0;
		else
			grid__widen(&grid, c, 0);
	make_room(&grid, run->options, width, sink);
	used = grid__columns(&grid);
	room = used + MIN_ROOM > width ? MIN_ROOM : width - used;
	sink__puts(sink, color ? "\n" BOLD : "\n");
	grid__put_titles(&grid, color ? "TOP SITE" RESET "\n" : "TOP SITE\n", sink);
	for (size_t i = 0; i < n; i++) {
		/* false: this is the row that sums up the rest */
		bool process = *rows[i].cells[PID];
		_cleanup_free_ char *site = text_shorten(rows[i].site, process ? room : SIZE_MAX);

		if (!site)
			return -ENOMEM;
		grid__put_row(&grid, i, site, sink);
		sink__puts(sink, "\n");
	}
	return sink->error;
}

static int put_rows(const struct run *run, struct sink *sink)
{
	size_t top = run->options->top ? run->options->top : DEFAULT_TOP;
	size_t shown = run->n < top ? run->n : top, n = 0;
	struct row *rows = calloc(shown + 1, sizeof(*rows));
	int err = 0;

	if (!rows)
		return -ENOMEM;
	while (!err && n < shown) {
		err = fill_process(&rows[n], run, &run->processes[n]);
		n++;
	}
	if (!err && shown < run->n)
		err = fill_rest(&rows[n++], run, run->processes + shown, run->n - shown);
	if (!err)
		err = put_table(run, rows, n, sink);
	for (size_t i = 0; i < n; i++)
		free(rows[i].site);
	free(rows);
	return err;
}

/* --- around the table --- */

static void put_count(size_t n, const char *what, const char *more, struct sink *sink)
{
	char count[32];

	sink__printf(sink, "%s %s%s", with_commas(n, count), what, n == 1 ? "" : more);
}

static void put_head(const struct run *run, struct sink *sink)
{
	const struct profile *first = run->processes[0].profile;
	uint64_t samples = 0, calls = 0, dropped = 0;
	size_t windowed = 0, by_blocks = 0, unknown = 0;
	bool surely = true, room = true;
	char a[32], b[32];

	for (size_t i = 0; i < run->n; i++) {
		samples += run->processes[i].profile->samples;
		calls += run->processes[i].profile->alloc_calls;
		dropped += run->processes[i].profile->dropped;
		room = room && (!run->processes[i].profile->dropped ||
				profile__lacks_room(run->processes[i].profile));
		surely &= profile__is_surely_exact(run->processes[i].profile);
		windowed += profile__is_windowed(run->processes[i].profile);
		by_blocks += is_by_blocks(run->processes[i].profile);
		unknown += is_unknown(run->processes[i].profile);
	}
	sink__puts(sink, "memtrace: ");
	put_count(run->n, "process", "es", sink);
	if (windowed && windowed < run->n)
		sink__printf(sink, ", %.1f s, %s of them windowed, ", run->duration_s,
			     with_commas(windowed, a));
	else
		sink__printf(sink, ", %.1f s %s, ", run->duration_s,
			     profile_mode__name(first->mode));
	if (run->exact) {
		sink__printf(sink, "%s: %s of %s allocation%s recorded\n",
			     surely ? "exact" : "not sampled", with_commas(samples, a),
			     with_commas(calls, b), plural(calls));
	} else {
		put_samples_per(run->finest_interval_bytes, run->asked_interval_bytes,
				run->interval_bytes, sink);
		sink__printf(sink, ": %s sample%s of %s allocation%s\n", with_commas(samples, a),
			     plural(samples), with_commas(calls, b), plural(calls));
	}
	sink__puts(sink, "LIVE was allocated during the run and not freed; ");
	if (by_blocks == run->n)
		sink__puts(sink, "GROWTH/s is that of its stacks\n");
	else
		sink__printf(sink, "GROWTH/s is LIVE / %.1f s%s%s\n", run->duration_s,
			     by_blocks ? ", and in windows that of its stacks" : "",
			     unknown ? ", at most that where windows were too few to tell" : "");
	if (dropped)
		sink__printf(sink, "INCOMPLETE: %s samples %sare missing%s\n",
			     with_commas(dropped, a), room ? "had no room and " : "",
			     room ? " (--max-live, --max-stacks)" : "");
}

static void put_figure(const char *text, const char *per, const char *interval, struct sink *sink)
{
	sink__printf(sink, "%s%s", text, per);
	if (*interval)
		sink__printf(sink, " (95 %%: %s)", interval);
}

/* Puts the sums of the processes that still exist. The memory of ended processes is gone, so a line
 * of its own says what they held at their end. */
static void put_totals(const struct run *run, struct sink *sink)
{
	struct sum living = {}, ended = {};
	char bytes[16], change[32], text[CELL_SIZE], interval[CELL_SIZE];

	for (size_t i = 0; i < run->n; i++)
		sum__add(run->processes[i].profile->ended ? &ended : &living, &run->processes[i]);
	sink__puts(sink, "total: ");
	put_count(living.n, "process", "es", sink);
	if (living.untraced)
		sink__printf(sink,
			     ", %s of them not traced, which are in no figure but RSS and threads",
			     with_commas(living.untraced, change));
	if (!living.n || living.untraced < living.n) {
		sink__puts(sink, ", live ");
		format_estimate(run, &living, 1, text, interval);
		put_figure(text, "", interval, sink);
		sink__puts(sink, ", growth ");
		format_growth(run, &living, text, interval);
		put_figure(text, "/s", interval, sink);
	}
	sink__printf(sink, ", RSS %s (%s), ", format_bytes((double)living.rss_end_bytes, bytes),
		     format_step(living.rss_start_bytes, living.rss_end_bytes, change));
	put_count(living.threads, "thread", "s", sink);
	sink__puts(sink, "\n");
	if (!ended.n)
		return;
	sink__puts(sink, "ended: ");
	put_count(ended.n, "process", "es", sink);
	sink__puts(sink, ", which held ");
	format_estimate(run, &ended, 1, text, interval);
	put_figure(text, "", interval, sink);
	sink__puts(sink, "\n");
}

/* Puts the cost of the run, which is the same in each profile. */
static void put_own(const struct run_cost *cost, struct sink *sink)
{
	char total[16], kernel[16];

	if (!cost->known)
		return;
	if (cost->host_known)
		sink__printf(sink, "cost to the machine: %.2f %% of its CPU time\n",
			     cost->host_pct);
	sink__printf(sink,
		     "memtrace itself: %.1f %% of one core, %s%s, of which %s in the kernel\n",
		     cost->cpu_pct, cost->at_most ? "at most " : "",
		     format_bytes((double)(cost->user_bytes + cost->kernel_bytes), total),
		     format_bytes((double)cost->kernel_bytes, kernel));
}

/* Puts the losses of all processes, in the order in which they first occur, then the losses of the
 * run. */
static int put_losses(const struct run *run, const struct profile *const *profiles,
		      struct sink *sink)
{
	_cleanup_(cleanup_profile) struct profile *sum = profile__new();
	int err = sum ? 0 : -ENOMEM;

	for (size_t i = 0; i < run->n && !err; i++)
		err = profile__add_losses(sum, profiles[i]);
	if (!err)
		put_lost(sum, run->options->color, sink);
	return err;
}

/* Puts the contradictions of the first processes that have some: of at most as many processes as
 * the table has rows. Then says how many more processes have contradictions. */
static int put_findings(const struct run *run, struct sink *sink)
{
	size_t left = run->options->top ? run->options->top : DEFAULT_TOP, more = 0;
	char who[32];
	int err = 0;

	for (size_t i = 0; i < run->n && !err; i++) {
		const struct profile *profile = run->processes[i].profile;

		if (!profile__contradictions(profile).n)
			continue;
		if (!left) {
			more++;
			continue;
		}
		left--;
		snprintf(who, sizeof(who), "pid %d: ", (int)profile->pid);
		err = put_contradictions(profile, who, sink);
	}
	if (more && !err)
		sink__printf(sink, "(%zu more process%s contradict themselves)\n", more,
			     more == 1 ? "" : "es");
	return err;
}

/* The largest figure comes first. Ended processes hold nothing any more, so they come last, ordered
 * by their peak. Equal processes are ordered by pid. */
static int compare_by(const struct process *a, const struct process *b, enum process_sort sort)
{
	const struct profile *x = a->profile, *y = b->profile;

	if (x->ended != y->ended)
		return x->ended ? 1 : -1;
	if (x->ended && a->held_most != b->held_most)
		return a->held_most > b->held_most ? -1 : 1;
	if (sort == SORT_RSS && x->rss_end_bytes != y->rss_end_bytes)
		return x->rss_end_bytes > y->rss_end_bytes ? -1 : 1;
	if (sort == SORT_GROWTH && a->growth != b->growth)
		return a->growth > b->growth ? -1 : 1;
	if (a->live.bytes != b->live.bytes)
		return a->live.bytes > b->live.bytes ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

static int compare_live(const void *a, const void *b)
{
	return compare_by(a, b, SORT_LIVE);
}

static int compare_growth(const void *a, const void *b)
{
	return compare_by(a, b, SORT_GROWTH);
}

static int compare_rss(const void *a, const void *b)
{
	return compare_by(a, b, SORT_RSS);
}

int encode_processes(const struct profile *const *profiles, size_t n,
		     const struct process_table_options *options, struct sink *sink)
{
	_cleanup_free_ struct process *processes = calloc(n + 1, sizeof(*processes));
	struct run run = {.options = options, .exact = true, .processes = processes, .n = n};
	int err;

	if (!processes)
		return -ENOMEM;
	if (!n)
		return sink__puts(sink, "memtrace: no process was traced\n");
	for (size_t i = 0; i < n; i++) {
		const struct profile *profile = profiles[i];

		processes[i] = (struct process){
			.profile = profile, .live = profile__live(profile), .index = i};
		if (profile->peak.known)
			processes[i].peak = profile__peak(profile);
		run.peaks |= processes[i].peak.bytes > processes[i].live.bytes;
		if (profile->duration_s > run.duration_s)
			run.duration_s = profile->duration_s;
		if (profile->interval_bytes > run.interval_bytes)
			run.interval_bytes = profile->interval_bytes;
		if (profile->asked_interval_bytes)
			run.asked_interval_bytes = profile->asked_interval_bytes;
		if (profile->finest_interval_bytes &&
		    (!run.finest_interval_bytes ||
		     profile->finest_interval_bytes < run.finest_interval_bytes))
			run.finest_interval_bytes = profile->finest_interval_bytes;
		run.exact &= profile->interval_bytes <= 1 && !profile__is_windowed(profile);
	}
	for (size_t i = 0; i < n && run.peaks; i++)
		processes[i].held_most = fmax(processes[i].live.bytes, processes[i].peak.bytes);
	for (size_t i = 0; i < n; i++)
		processes[i].growth =
			is_by_blocks(profiles[i]) ? profiles[i]->growth.attributed.bytes_per_s
			: run.duration_s > 0	  ? processes[i].live.bytes / run.duration_s
						  : 0;
	qsort(processes, n, sizeof(*processes),
	      options->sort == SORT_RSS	   ? compare_rss
	      : options->sort == SORT_LIVE ? compare_live
					   : compare_growth);

	put_head(&run, sink);
	err = put_rows(&run, sink);
	if (err)
		return err;
	put_totals(&run, sink);
	put_own(&profiles[0]->run->cost, sink);
	err = put_findings(&run, sink);
	if (!err)
		err = put_losses(&run, profiles, sink);
	return err ? err : sink->error;
}
