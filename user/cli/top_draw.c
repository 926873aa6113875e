// SPDX-License-Identifier: BSD-2-Clause
/* Draws the data of top as lines of text. */
#include "cli/top_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "encode/text.h"
#include "encode/where.h"

#define MIN_WHERE   24 /* columns that put_where() needs */
#define COMMAND_MAX 15
#define MIN_NAMES   8
#define CELL_BYTES  64
#define MAY_BE_0    "may be 0"

/* --- lines of text --- */

struct text {
	struct top_line *lines;
	size_t n, room;
};

static void text__clear(struct text *text)
{
	for (size_t i = 0; i < text->n; i++)
		free(text->lines[i].text);
	free(text->lines);
	*text = (struct text){};
}

void top_screen__clear(struct top_screen *screen)
{
	text__clear(&(struct text){screen->lines, screen->n, 0});
	*screen = (struct top_screen){};
}

/* Returns the number of bytes of the first `columns` characters. */
static size_t clip(const char *text, size_t columns)
{
	size_t i = 0;

	for (; text[i]; i++)
		if ((text[i] & 0xc0) != 0x80 && !columns--)
			break;
	return i;
}

/* Adds a line: the first `bytes` bytes of `line`. 0 or -ENOMEM. */
static int text__add(struct text *text, enum top_style style, const char *line, size_t bytes)
{
	char *copy;

	if (VECTOR_RESERVE(text->lines, text->room, text->n + 1))
		return -ENOMEM;
	copy = strndup(line, bytes);
	if (!copy)
		return -ENOMEM;
	text->lines[text->n++] = (struct top_line){copy, style};
	return 0;
}

/* Adds one line, cut if it is too long. */
static int text__put(struct text *text, enum top_style style, const char *line, size_t width)
{
	return text__add(text, style, line, clip(line, width));
}

/* Adds as many lines as the words need, at most `most`. Lines break at double blanks if possible,
 * else at blanks. */
static int text__wrap(struct text *text, enum top_style style, const char *words, size_t width,
		      size_t most)
{
	int rc = 0;

	while (*words && most-- && !rc) {
		size_t bytes = clip(words, width), end = bytes, skip;

		if (words[bytes]) {
			const char *at = NULL;

			for (size_t i = bytes / 2; i && i <= bytes && i < strlen(words) - 1; i++)
				if (words[i] == ' ' && words[i + 1] == ' ')
					at = words + i;
			for (size_t i = bytes; i > 0 && !at; i--)
				if (words[i] == ' ')
					at = words + i;
			end = at ? (size_t)(at - words) : bytes;
		}
		skip = end + strspn(words + end, " ");
		if (words[skip] && !most && width > 3) { /* no line is left for the rest */
			_cleanup_free_ char *cut = NULL;

			if (asprintf(&cut, "%.*s...", (int)clip(words, width - 3), words) < 0)
				return -ENOMEM;
			return text__add(text, style, cut, strlen(cut));
		}
		rc = text__add(text, style, words, end);
		words += skip;
	}
	return rc;
}

/* --- cells --- */

enum column {
	PID,
	COMMAND,
	LIVE,
	LIVE_INTERVAL,
	GROWTH,
	GROWTH_INTERVAL,
	RATE,
	RATE_INTERVAL,
	OBJECTS,
	COST,
	RSS,
	COLUMNS
};

struct cells {
	char at[COLUMNS][CELL_BYTES];
};

static const struct grid_column list_columns[COLUMNS] = {
	[PID] = {"PID", false},		[COMMAND] = {"COMMAND", true},
	[LIVE] = {"LIVE", false},	[LIVE_INTERVAL] = {"95 % INTERVAL", false},
	[GROWTH] = {"GROWTH/s", false}, [GROWTH_INTERVAL] = {"95 % INTERVAL", false},
	[RATE] = {"ALLOC/s", false},	[RATE_INTERVAL] = {"95 % INTERVAL", false},
	[OBJECTS] = {"OBJECTS", false}, [COST] = {"COST", false},
	[RSS] = {"RSS", false},
};

static void format_known(struct interval interval, char *cell)
{
	if (isfinite(interval.low) && isfinite(interval.high))
		format_interval(interval, cell, CELL_BYTES);
}

/* Writes the interval of growth into the cell: MAY_BE_0 if growth may be 0; nothing if the interval
 * is not known, or if growth is exact. bound: growth is only a bound, so it has no interval. */
static void format_growth_interval(const struct growth *growth, bool bound, char *cell)
{
	if (!isfinite(growth->low) || growth->low == growth->high)
		return;
	if (!growth__is_significant(growth))
		strcpy(cell, MAY_BE_0);
	else if (!bound)
		format_known((struct interval){growth->low, growth->high}, cell);
}

static void fill_numbers(struct cells *cells, const struct profile *profile,
			 const struct numbers *n)
{
	bool lower = profile__is_lower_bound(profile), upper = profile__is_upper_bound(profile);
	const char *least = bound_sign(lower, upper);
	char buf[32];

	snprintf(cells->at[LIVE], CELL_BYTES, "%s%s", least, format_bytes(n->live.bytes, buf));
	format_known(top_live_interval(profile, &n->live), cells->at[LIVE_INTERVAL]);
	if (isfinite(n->growth.bytes_per_s))
		snprintf(cells->at[GROWTH], CELL_BYTES, "%s%s", least,
			 format_bytes(n->growth.bytes_per_s, buf));
	else
		strcpy(cells->at[GROWTH], "?");
	format_growth_interval(&n->growth, lower || upper, cells->at[GROWTH_INTERVAL]);
	/* missed frees do not change how much is allocated, so the rate is no upper bound */
	snprintf(cells->at[RATE], CELL_BYTES, "%s%s", bound_sign(lower, false),
		 format_bytes(n->rate, buf));
	format_known(n->rate_interval, cells->at[RATE_INTERVAL]);
	with_commas(to_integer(n->live.objects), cells->at[OBJECTS]);
}

/* Fills in dashes for a process that is not traced, because its figures are unknown, not 0. */
static void fill_unknown(struct cells *cells)
{
	for (size_t i = 0; i < sizeof(cells->at) / sizeof(cells->at[0]); i++)
		*cells->at[i] = '\0';
	strcpy(cells->at[LIVE], "-");
	strcpy(cells->at[GROWTH], "-");
	strcpy(cells->at[RATE], "-");
	strcpy(cells->at[OBJECTS], "-");
}

static bool has_ended(const struct process *process)
{
	return process->gone || process->profile->ended;
}

static int fill_cells(struct cells *cells, const struct row *row)
{
	const struct profile *profile = row->process->profile;
	_cleanup_free_ char *comm = NULL, *shorter = NULL;
	char buf[32], cost[32];

	*cells = (struct cells){};
	fill_numbers(cells, profile, row->numbers);
	if (row->group)
		return 0;
	if (profile__unknown_why(profile))
		fill_unknown(cells);
	comm = text_printable(profile->comm);
	shorter = comm ? text_shorten(comm, COMMAND_MAX) : NULL;
	if (!shorter)
		return -ENOMEM;
	snprintf(cells->at[PID], CELL_BYTES, "%d", (int)profile->pid);
	snprintf(cells->at[COMMAND], CELL_BYTES, "%s%s", shorter,
		 profile__is_regions(profile) ? " regions" : "");
	format_cost_cell(profile, cost);
	snprintf(cells->at[COST], CELL_BYTES, "%s", cost);
	if (has_ended(row->process))
		strcpy(cells->at[RSS], "ended");
	else if (profile->rss_end_bytes)
		strcpy(cells->at[RSS], format_bytes((double)profile->rss_end_bytes, buf));
	return 0;
}

static const enum column sort_columns[TOP_SORTS] = {LIVE, GROWTH, RATE};

/* Chooses the columns that fit. The column that rows are sorted by is always shown. The interval of
 * this column is shown if enough of the names can still be read. Each other column, except pid and
 * command, is shown only if a third of the line (60 columns at most) is left for the names. */
static void choose_columns(const struct top_view *view, struct grid *grid, size_t width)
{
	enum column sort = sort_columns[view->sort];
	const enum column order[] = {
		sort,	 PID,  COMMAND,	      sort + 1,	       LIVE,	     GROWTH, RATE, RSS,
		OBJECTS, COST, LIVE_INTERVAL, GROWTH_INTERVAL, RATE_INTERVAL};
	size_t names = width / 3 < 60 ? width / 3 : 60, used = 0;
	bool shown[COLUMNS] = {};

	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		enum column c = order[i];

		size_t room = c == PID || c == COMMAND ? 0 : c == sort + 1 ? MIN_NAMES : names;

		if (shown[c] || !grid->width[c] || (i && used + grid->width[c] + 2 + room > width))
			continue;
		shown[c] = true;
		used += grid->width[c] + 2;
	}
	for (int c = 0; c < COLUMNS; c++)
		if (!shown[c])
			grid->width[c] = 0;
}

/* Returns the most important stack of a process: the first in the order of sorting. */
static const struct group *top_stack(const struct process *process, enum top_sort sort)
{
	struct row best = {};

	for (size_t i = 0; i < process->n; i++) {
		const struct row row = {process, &process->stacks[i], &process->groups[i]};

		if (top_numbers__any(row.numbers) &&
		    (!best.group || top_row__compare(&row, &best, &sort) < 0))
			best = row;
	}
	return best.group;
}

/* --- the parts of the screen --- */

/* Writes row `i` of the page. After the cells, writes where the memory was allocated, or why the
 * process is not traced. */
static int put_row(const struct top_view *view, const struct grid *grid, size_t i, size_t width,
		   struct sink *sink)
{
	const struct row *row = &view->rows[view->first + i];
	const struct profile *profile = row->process->profile;
	const struct group *group = row->group ? row->group : top_stack(row->process, view->sort);
	const char *why = profile__unknown_why(profile);
	size_t used = grid__put_row(grid, i, NULL, sink);
	int rc = 0;

	if (group)
		rc = put_where(profile, group->site,
			       width > used + MIN_WHERE ? width - used : MIN_WHERE,
			       view->show_runtime, sink);
	else if (why)
		rc = sink__printf(sink, "(not traced: %s)", why);
	return rc ? rc : sink__puts(sink, "\n");
}

/* Writes titles and rows, or the reason why there are no rows. */
static int put_list(const struct top_view *view, const struct grid *grid, size_t n,
		    bool with_titles, size_t width, struct sink *sink)
{
	int rc = 0;

	if (with_titles)
		grid__put_titles(grid,
				 view->level == PROCESSES ? "TOP STACK (leaf first)\n"
							  : WHERE_TITLE "\n",
				 sink);
	for (size_t i = 0; i < n && !rc; i++)
		rc = put_row(view, grid, i, width, sink);
	if (!n)
		sink__printf(sink, "(%s)\n",
			     !view->known		? "no state yet"
			     : *view->filter		? "nothing matches the filter"
			     : view->level == PROCESSES ? "no processes"
							: "nothing was sampled yet");
	return rc ? rc : sink->error;
}

/* Draws titles and rows on `height` lines. */
static int draw_list(struct top_view *view, size_t width, size_t height, struct text *text)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = list_columns, .n_columns = COLUMNS};
	bool with_titles = height > 1;
	size_t page = height - with_titles, n, size;
	_cleanup_free_ char *lines = NULL;
	struct cells cells;
	struct sink sink;
	FILE *stream;
	int rc = 0;

	view->page = page;
	if (view->selected < view->first)
		view->first = view->selected;
	if (view->selected >= view->first + page)
		view->first = view->selected - page + 1;
	if (view->first + page > view->n_rows)
		view->first = view->n_rows > page ? view->n_rows - page : 0;
	n = view->n_rows - view->first < page ? view->n_rows - view->first : page;
	for (size_t i = 0; i < n && !rc; i++) {
		rc = fill_cells(&cells, &view->rows[view->first + i]);
		for (int c = 0; c < COLUMNS && !rc; c++)
			grid__add(&grid, "%s", cells.at[c]);
	}
	rc = rc ? rc : grid__fit(&grid);
	/* columns have a least width, so that they do not shift with every number */
	for (int i = 0; i < TOP_SORTS && n && !rc; i++)
		grid__widen(&grid, sort_columns[i], 10);
	stream = rc ? NULL : open_memstream(&lines, &size);
	if (!stream)
		return -ENOMEM;
	sink = sink__to_stream(stream);
	choose_columns(view, &grid, width);
	rc = put_list(view, &grid, n, with_titles, width, &sink);
	if (fclose(stream) && !rc)
		rc = -ENOMEM;
	for (size_t i = 0, at = 0; !rc && lines[at]; i++) {
		size_t len = strcspn(lines + at, "\n");
		bool selected = n && view->first + i == view->selected + with_titles;

		lines[at + len] = '\0';
		rc = text__put(text,
			       with_titles && !i ? TOP_TITLES
			       : selected	 ? TOP_SELECTED
						 : TOP_PLAIN,
			       lines + at, width);
		at += len + 1;
	}
	return rc;
}

/* Adds one name. A name that is too long is shortened in the middle. */
static int put_indented(struct text *text, int indent, const char *name, size_t width)
{
	size_t room = width > (size_t)indent + 2 ? width - (size_t)indent : 2;
	_cleanup_free_ char *shorter = text_shorten(name, room), *line = NULL;

	if (!shorter || asprintf(&line, "%*s%s", indent, "", shorter) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return text__put(text, TOP_PLAIN, line, width);
}

/* Adds a frame: function, module and source line. If they do not fit on one line of the screen,
 * module and source line go on the next line. */
static int put_frame(struct text *text, const struct profile *profile,
		     const struct profile_location *location, const struct profile_frame *frame,
		     const char *name, bool inlined, size_t width)
{
	const char *path = location->mapping >= 0 ? profile->mappings[location->mapping].path : "";
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	_cleanup_free_ char *function = text_printable(name), *module = text_printable(base),
			    *file = NULL;
	_cleanup_free_ char *where = NULL, *line = NULL;

	file = text_printable(frame && frame->file ? frame->file : "");
	if (!function || !module || !file)
		return -ENOMEM;
	if (*file && asprintf(&where, "%s%s%s:%u", inlined ? "inlined" : module,
			      *module || inlined ? "  " : "", file, frame->line) < 0)
		where = NULL;
	else if (!*file && asprintf(&where, "%s",
				    inlined   ? "inlined"
				    : *module ? module
					      : "[in no file]") < 0)
		where = NULL;
	if (!where)
		return -ENOMEM;
	if (text_columns(function) + 4 + text_columns(where) <= width) {
		if (asprintf(&line, "  %s  %s", function, where) < 0) {
			line = NULL;
			return -ENOMEM;
		}
		return text__put(text, TOP_PLAIN, line, width);
	}
	return put_indented(text, 2, function, width) ?: put_indented(text, 4, where, width);
}

/* Writes " (95 %: 1.0 - 2.0 MiB)", " (may be 0)" or nothing into buf. Returns buf. */
static const char *in_brackets(const char *interval, char *buf, size_t size)
{
	const char *what = strcmp(interval, MAY_BE_0) ? "95 %: " : "";

	*buf = '\0';
	if (*interval)
		snprintf(buf, size, " (%s%s)", what, interval);
	return buf;
}

static int put_words(struct text *text, size_t width, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int put_words(struct text *text, size_t width, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return text__wrap(text, TOP_PLAIN, line, width, SIZE_MAX);
}

/* Draws all figures and frames of one stack. */
static int describe(const struct row *row, size_t width, struct text *text)
{
	const struct profile *profile = row->process->profile;
	const struct profile_site *site = row->group->site;
	const struct numbers *n = row->numbers;
	struct frame_walk walk = {.profile = profile, .site = site};
	struct cells cells = {};
	char buf[CELL_BYTES + 16], objects[32], bytes[16];
	double total = row->process->numbers.live.bytes;
	const char *name;
	int rc;

	fill_numbers(&cells, profile, n);
	rc = put_words(text, width,
		       "live:    %s%s%s  in %s objects, %" PRIu64
		       " sampled  %.1f %% of the process's",
		       cells.at[LIVE], in_brackets(cells.at[LIVE_INTERVAL], buf, sizeof(buf)),
		       profile__is_windowed(profile) ? ", from windows" : "", cells.at[OBJECTS],
		       n->live.samples, total > 0 ? 100 * n->live.bytes / total : 0);
	if (!rc && !isfinite(n->growth.bytes_per_s))
		rc = put_words(text, width, "growth:  not known yet");
	else if (!rc)
		rc = put_words(text, width, "growth:  %s/s%s%s", cells.at[GROWTH],
			       in_brackets(cells.at[GROWTH_INTERVAL], buf, sizeof(buf)),
			       profile->growth.stacks_known ? "" : "  on average since the start");
	if (!rc)
		rc = put_words(text, width, "alloc:   %s/s%s  %s in %s objects since the start",
			       cells.at[RATE],
			       in_brackets(cells.at[RATE_INTERVAL], buf, sizeof(buf)),
			       format_bytes(n->alloc_bytes, bytes),
			       with_commas(to_integer(n->alloc_objects), objects));
	if (!rc)
		rc = put_words(text, width, "stack:   leaf first%s%s",
			       site->complete	 ? ""
			       : site->truncated ? ", cut at the limit (--max-frames)"
						 : ", which ends before the outermost caller",
			       site->allocators_own ? ", the allocator's own" : "");
	for (uint32_t at = walk.location; !rc && (name = frame_walk__next(&walk));
	     at = walk.location)
		rc = put_frame(text, profile, profile__location(profile, site, at), walk.frame,
			       name, walk.location == at, width);
	return rc;
}

static const char *const help_lines[] = {
	"l g a           sort by live bytes, by growth, by allocation rate",
	"Up Down k j     select; PgUp PgDn, Home End",
	"Enter Right     into the process, into the stack: all its frames",
	"Left Backspace  back; so does Esc, where there is no filter",
	"/               show only rows with a text in a function's name; Esc: show all",
	"space p         pause: what is shown stays, the tracing goes on",
	"w               write a snapshot: the files that record would write",
	"q Ctrl-C        quit",
	"",
	"LIVE: allocated since the start and not freed (traced in windows: estimated from what "
	"they show). GROWTH/s: by how much LIVE grows, since the start; what is sure to grow comes "
	"first. ALLOC/s: bytes allocated a second, in the last 10 to 20 seconds (traced in "
	"windows: since the start). The intervals cover the truth in 95 of 100 cases. A figure "
	"without an interval is exact, or its error is not known.",
};

static int draw_help(size_t width, struct text *text)
{
	int rc = 0;

	for (size_t i = 0; i < sizeof(help_lines) / sizeof(*help_lines) && !rc; i++)
		rc = *help_lines[i] ? text__wrap(text, TOP_PLAIN, help_lines[i], width, SIZE_MAX)
				    : text__put(text, TOP_PLAIN, "", width);
	return rc;
}

/* Draws `height` lines of a text that may have more. */
static int draw_text(struct top_view *view, struct text *all, size_t height, struct text *text)
{
	int rc = 0;

	view->page = height;
	view->text_lines = all->n;
	if (view->text_first + height > all->n)
		view->text_first = all->n > height ? all->n - height : 0;
	for (size_t i = view->text_first; i < all->n && i < view->text_first + height && !rc; i++)
		rc = text__add(text, all->lines[i].style, all->lines[i].text,
			       strlen(all->lines[i].text));
	return rc;
}

/* The sum of the rows of all processes. The head is made from it, so that head and rows show the
 * same moment and the same estimates. growth: bytes per second; NaN: not known yet. (Growth is not
 * computed from the change of live memory within a second, because that change is mostly
 * chance.) */
struct sum {
	double live_bytes, growth;
	uint64_t samples;
};

static struct sum sum_of_all(const struct top_view *view)
{
	struct sum sum = {.growth = NAN};
	bool heaps = false;

	for (size_t i = 0; i < view->n_processes; i++)
		heaps = heaps || !profile__is_regions(view->processes[i].profile);
	for (size_t i = 0; i < view->n_processes; i++) {
		const struct process *p = &view->processes[i];

		/* regions are left out, because an allocator may have mapped them for the heap:
		 * they would count twice */
		if (p->gone || (heaps && profile__is_regions(p->profile)))
			continue;
		sum.live_bytes += p->numbers.live.bytes;
		sum.samples += p->profile->samples;
		if (p->profile->growth.stacks_known)
			sum.growth = (isfinite(sum.growth) ? sum.growth : 0) +
				     p->profile->growth.attributed.bytes_per_s;
	}
	return sum;
}

static int draw_head(const struct top_view *view, size_t width, size_t most, struct text *text)
{
	const struct top_status *s = &view->status;
	struct sum sum = sum_of_all(view);
	double age = s->elapsed_s - view->elapsed_s;
	char line[512], live[32] = "", bytes[16], size[20], change[40] = "",
			mode[64] = "continuous", took[32], cost[48] = "", old[48] = "";

	if (s->windowed && s->windowed < s->running)
		snprintf(mode, sizeof(mode), "in windows (%zu of %zu)", s->windowed, s->running);
	else if (s->windowed)
		strcpy(mode, "in windows");
	if (s->overhead_pct.known) {
		format_cost(s->overhead_pct.value, s->cpu_cores, took);
		snprintf(cost, sizeof(cost), "  cost ~%s", took);
	}
	if (view->known)
		snprintf(live, sizeof(live), "  live ~%s", format_bytes(sum.live_bytes, bytes));
	if (view->known && (view->paused || age >= 2) && !s->ended)
		snprintf(old, sizeof(old), "  shown: %.0f s ago", fmax(age, 0));
	if (isfinite(sum.growth))
		snprintf(change, sizeof(change), " growth %s/s", format_change(sum.growth, size));
	/* The most important fields come first: a narrow terminal loses the last ones. */
	snprintf(line, sizeof(line),
		 "%s%.0f s%s%s%s%s  %s  alloc %.0f/s  free %.0f/s  samples %" PRIu64,
		 s->ended	? "ENDED  "
		 : view->paused ? "PAUSED  "
				: "",
		 s->elapsed_s, live, change, cost, old, mode, s->alloc_per_s, s->free_per_s,
		 sum.samples);
	return text__wrap(text, TOP_HEAD, line, width, most);
}

/* Draws one line with the losses of all processes that the screen shows, added up. A loss of the
 * whole run counts once, not once for each process. */
static int draw_lost(const struct top_view *view, size_t width, size_t most, struct text *text)
{
	struct profile *sum = profile__new(), *profile;
	const struct profile_counter *lost;
	char *line = NULL, count[32];
	size_t size;
	FILE *stream;
	bool any = false;
	int rc = sum ? 0 : -ENOMEM;

	for (size_t i = 0; (profile = top_view__profile(view, i)) && !rc; i++)
		rc = profile__add_losses(sum, profile);
	stream = rc ? NULL : open_memstream(&line, &size);
	if (stream) {
		for (size_t k = 0; (lost = profile__loss(sum, k)); k++) {
			if (!lost->count)
				continue;
			fprintf(stream, "%s%s %s", any ? ",  " : "lost:  ", lost->name,
				with_commas(lost->count, count));
			any = true;
		}
		rc = fclose(stream) ? -ENOMEM : 0;
	} else {
		rc = -ENOMEM;
	}
	if (!rc && any)
		rc = text__wrap(text, TOP_WARNING, line, width, most);
	free(line);
	profile__free(sum);
	return rc;
}

/* Draws the contradictions within the processes on the screen: one line for each, as long as there
 * is room. */
static int draw_findings(const struct top_view *view, size_t width, size_t most, struct text *text)
{
	int rc = 0;

	for (size_t i = 0; i < view->n_processes && most && !rc; i++) {
		const struct profile *profile = view->processes[i].profile;
		const struct contradictions *all = &view->processes[i].findings;

		for (size_t k = 0; k < all->n && most && !rc; k++, most--) {
			_cleanup_free_ char *words = contradiction_text(profile, &all->at[k]);
			_cleanup_free_ char *line = NULL;

			if (!words || asprintf(&line, "pid %d: %s%s", (int)profile->pid,
					       contradiction_word(&all->at[k]), words) < 0) {
				line = NULL;
				return -ENOMEM;
			}
			rc = text__wrap(text, TOP_WARNING, line, width, 1);
		}
	}
	return rc;
}

/* Draws the user's place: process, order of rows, row. */
static int draw_path(const struct top_view *view, size_t width, struct text *text)
{
	static const char *const sorts[TOP_SORTS] = {"live bytes", "growth", "allocation rate"};
	const struct process *process = view->level == PROCESSES ? NULL : top_view__process(view);
	_cleanup_free_ char *comm = text_printable(process ? process->profile->comm : "");
	_cleanup_free_ char *filter = text_printable(view->filter);
	char line[512], who[192] = "", where[64] = "";

	if (!comm || !filter)
		return -ENOMEM;
	if (process)
		snprintf(who, sizeof(who), "pid %d (%s)%s%s > ", (int)process->profile->pid, comm,
			 profile__is_regions(process->profile) ? ", regions" : "",
			 has_ended(process) ? ", ENDED" : "");
	if (view->n_rows)
		snprintf(where, sizeof(where), " %zu of %zu", view->selected + 1, view->n_rows);
	snprintf(line, sizeof(line), "%s%s%s by %s%s%s%s", who,
		 view->level == PROCESSES ? "processes"
		 : view->level == STACKS  ? "stacks"
					  : "stack",
		 where, sorts[view->sort], *filter ? ", with " : "", filter,
		 process && profile__is_windowed(process->profile)
			 ? "; LIVE is estimated from windows"
			 : "");
	return text__put(text, TOP_PLAIN, line, width);
}

static int draw_bottom(const struct top_view *view, size_t width, struct text *text)
{
	_cleanup_free_ char *line = NULL;

	if (view->editing) {
		/* show the end of the filter, where the user types */
		size_t columns = text_columns(view->filter),
		       skip = columns + 2 > width ? columns + 2 - width : 0;

		if (asprintf(&line, "/%s_", view->filter + clip(view->filter, skip)) < 0)
			line = NULL;
	} else if (*view->note) {
		line = text_printable(view->note);
	} else {
		line = strdup(
			view->help	       ? "any key: back"
			: view->level == STACK ? "q quit  Left back  ? help  w write"
			: view->level == STACKS && view->many
				? "q quit  Left back  ? help  l g a sort  Enter open  / filter  p"
				  " pause  w write"
				: "q quit  ? help  l g a sort  Enter open  / filter  p pause  w "
				  "write");
	}
	if (!line)
		return -ENOMEM;
	return text__put(text,
			 view->warning && *view->note && !view->editing ? TOP_WARNING : TOP_TITLES,
			 line, width);
}

int top_view__draw(struct top_view *view, size_t width, size_t height, struct top_screen *ret)
{
	size_t bottom = height >= 3, path = height >= 7, body;
	_cleanup_(text__clear) struct text text = {}, all = {};
	int rc = top_view__arrange(view);

	if (!rc && height >= 5)
		rc = draw_head(view, width, height >= 10 ? 2 : 1, &text);
	if (!rc && height >= 8)
		rc = draw_lost(view, width, height >= 16 ? 3 : 1, &text);
	if (!rc && height >= 12)
		rc = draw_findings(view, width, height >= 16 ? 2 : 1, &text);
	if (!rc && path)
		rc = draw_path(view, width, &text);
	if (rc)
		return rc;
	body = height - text.n - bottom;
	if (view->help) {
		rc = draw_help(width, &all);
	} else if (view->level == STACK) {
		const struct row *row = top_view__stack(view);

		rc = row ? describe(row, width, &all)
			 : text__wrap(&all, TOP_PLAIN, "This stack holds nothing any more.", width,
				      SIZE_MAX);
	}
	if (!rc)
		rc = view->help || view->level == STACK ? draw_text(view, &all, body, &text)
							: draw_list(view, width, body, &text);
	while (!rc && text.n < height - bottom)
		rc = text__put(&text, TOP_PLAIN, "", width);
	if (!rc && bottom)
		rc = draw_bottom(view, width, &text);
	if (rc)
		return rc;
	*ret = (struct top_screen){text.lines, text.n};
	text = (struct text){};
	return 0;
}
