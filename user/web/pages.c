// SPDX-License-Identifier: BSD-2-Clause
/* HTML pages that need no script. Two clicks lead from the list of processes to a frame. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "encode/encode.h"
#include "encode/json.h"
#include "encode/table.h"
#include "encode/text.h"
#include "profile/estimate.h"
#include "web/reply.h"

static const char style[] =
	"<style>body{font:15px/1.4 system-ui,sans-serif;margin:1.5em;max-width:90em}"
	"table{border-collapse:collapse}th,td{padding:.2em .8em;text-align:right;"
	"white-space:nowrap}"
	"th{border-bottom:2px solid #888}td{border-bottom:1px solid #ccc}"
	".l{text-align:left;white-space:normal}.g{background:#ffe4d0}.e{color:#777}"
	"pre{overflow-x:auto}img{max-width:100%}</style>";

static void begin(FILE *to, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
	put_html(to, title);
	fprintf(to, "</title>%s</head><body>\n", style);
}

static bool surely_grows(const struct process *p)
{
	return !p->ended && !p->inactive && p->leaks;
}

static const char *mode_of(const struct process *p)
{
	if ((p->inactive && !p->ended) || p->latest->not_traced)
		return "not traced";
	if (!p->ended && p->rise.known && p->rise.more == MORE_NOW)
		return "more windows";
	return profile_mode__name(p->latest->mode);
}

/* Order: processes that surely grow, by growth; then the others, by live bytes; then ended
 * processes. */
static int by_evidence(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;
	double grows_x = surely_grows(x) ? x->growth.bytes_per_s : 0,
	       grows_y = surely_grows(y) ? y->growth.bytes_per_s : 0, live_x = x->live.bytes,
	       live_y = y->live.bytes;

	if (surely_grows(x) != surely_grows(y))
		return surely_grows(y) - surely_grows(x);
	if (x->ended != y->ended)
		return x->ended - y->ended;
	if (grows_x != grows_y)
		return grows_x < grows_y ? 1 : -1;
	if (live_x != live_y)
		return live_x < live_y ? 1 : -1;
	return x->pid < y->pid ? -1 : 1;
}

/* Returns the store's processes in the order of by_evidence(); NULL: no memory. */
static struct process **sorted(const struct site *site)
{
	struct process **processes = malloc((site->store.n + 1) * sizeof(struct process *));

	if (!processes)
		return NULL;
	if (site->store.n)
		memcpy(processes, site->store.processes, site->store.n * sizeof(struct process *));
	qsort(processes, site->store.n, sizeof(struct process *), by_evidence);
	return processes;
}

static void put_name(FILE *to, const struct process *p)
{
	_cleanup_free_ char *name = text_profile_name(p->latest);

	put_html(to, name ?: "?");
}

/* Writes "4.3 MiB", and its interval if it is an estimate. A bound has no interval. */
static void put_live(FILE *to, const struct process *p)
{
	char value[CELL_SIZE], range[CELL_SIZE] = "";
	bool lower = profile__is_lower_bound(p->latest), upper = profile__is_upper_bound(p->latest);

	if (profile__unknown_why(p->latest)) {
		fputs("<td class=\"e\">not known</td><td></td>", to);
		return;
	}
	fprintf(to, "<td>%s%s</td>",
		lower && upper ? "~ "
		: lower	       ? "&ge; "
		: upper	       ? "&le; "
			       : "",
		format_bytes(p->live.bytes, value));
	if (!profile__is_exact(p->latest))
		format_live_interval(p->latest, &p->live, range);
	fputs("<td>", to);
	put_html(to, range);
	fputs("</td>", to);
}

static void put_growth(FILE *to, const struct process *p)
{
	const struct growth *growth = &p->growth;
	char value[CELL_SIZE], range[CELL_SIZE] = "";

	if (!isfinite(growth->bytes_per_s)) {
		fputs("<td class=\"e\">not known</td><td></td>", to);
		return;
	}
	if (isfinite(growth->low))
		format_range(growth->low, growth->high, range, sizeof(range));
	fprintf(to, "<td>%s/s</td><td>", format_change(growth->bytes_per_s, value));
	put_html(to, range);
	fputs("</td>", to);
}

/* Writes which stack grows fastest. The latest profile covers the whole run, so it does not show
 * which stack has begun to grow only recently. */
static int put_fastest(FILE *to, const struct process *p)
{
	const char *why = profile__unknown_why(p->latest);
	struct sink sink = sink__to_html(to);
	char value[CELL_SIZE], range[CELL_SIZE] = "";

	if (why) {
		put_html(to, "not traced: ");
		put_html(to, why);
		return 0;
	}
	if (p->rise.goes_on && !profile__leaks(p->latest)) {
		const struct growth *growth = &p->rise.growth;

		format_range(growth->low, growth->high, range, sizeof(range));
		put_html(to, "recently: ");
		put_html(to, p->rise.function);
		fprintf(to, " %s/s", format_change(growth->bytes_per_s, value));
		if (*range) {
			fputs(" (", to);
			put_html(to, range);
			fputs(")", to);
		}
		return 0;
	}
	return encode_fastest(p->latest, &(struct table_options){.width = 160}, &sink);
}

int page_index(const struct site *site, FILE *to)
{
	_cleanup_free_ struct process **processes = sorted(site);

	int rc = 0;

	if (!processes)
		return -ENOMEM;
	begin(to, "memtrace");
	fputs("<h1>memtrace</h1>\n", to);
	if (!site->store.n)
		fputs("<p>No process has a profile yet.</p>\n", to);
	else
		fputs("<table><thead><tr><th>PID</th><th class=\"l\">COMMAND</th>"
		      "<th>LIVE</th><th>95 %</th>"
		      "<th>GROWTH</th><th>95 %</th><th>MODE</th><th>COST</th>"
		      "<th class=\"l\">WHAT GROWS</th></tr>"
		      "</thead><tbody>\n",
		      to);
	for (size_t i = 0; i < site->store.n && !rc; i++) {
		const struct process *p = processes[i];
		char cost[32];

		fprintf(to, "<tr%s><td><a href=\"/pid/%d/\">%d</a></td><td class=\"l\">",
			p->ended	  ? " class=\"e\""
			: surely_grows(p) ? " class=\"g\""
					  : "",
			p->pid, p->pid);
		put_name(to, p);
		fputs(p->ended ? " (ended)</td>" : "</td>", to);
		put_live(to, p);
		put_growth(to, p);
		format_cost_cell(p->latest, cost);
		fprintf(to, "<td>%s</td><td>%s</td><td class=\"l\">", mode_of(p), cost);
		rc = put_fastest(to, p);
		fputs("</td></tr>\n", to);
	}
	if (site->store.n)
		fputs("</tbody></table>\n", to);
	fputs("<p><a href=\"/deaths\">deaths</a> "
	      "<a href=\"/targets\">JSON</a> <a href=\"/metrics\">metrics</a> "
	      "<a href=\"/sd\">discovery</a></p></body></html>\n",
	      to);
	return rc;
}

static int put_table(FILE *to, const struct profile *profile)
{
	const struct table_options options = {.width = 160, .leaks = profile->growth.stacks_known};
	struct sink sink = sink__to_html(to);

	return encode_table(profile, &options, &sink);
}

static void put_time(FILE *to, uint64_t ns)
{
	time_t at = (time_t)(ns / 1000000000);
	char text[32] = "?";
	struct tm utc;

	if (gmtime_r(&at, &utc))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
	fputs(text, to);
}

/* Says whether the process has more windows than others, because it surely grows. */
static void put_more(const struct rise *rise, FILE *to)
{
	switch (rise->more) {
	case MORE_NOW:
		fputs(". Therefore it has more windows than others until ", to);
		put_time(to, rise->more_until_ns);
		break;
	case MORE_OVER:
		fputs(". Therefore it had more windows than others from ", to);
		put_time(to, rise->more_ns);
		break;
	case MORE_WAITING:
		fputs(". It waits for more windows than others have", to);
		break;
	case MORE_NONE:
	case MORE_STATES:
		break;
	}
	if (rise->detailed && rise->before)
		fprintf(to,
			". <a href=\"diff?from=%u&amp;to=%u\">What grew, measured with more windows"
			"</a>",
			rise->before, rise->detailed);
}

/* Says since when the process surely grows, and links to the profiles that were kept because of
 * this growth. */
static void put_rise(const struct rise *rise, FILE *to)
{
	char value[CELL_SIZE];

	fputs(rise->goes_on ? "<p class=\"g\">It surely grows, in " : "<p>It grew, in ", to);
	put_html(to, rise->function);
	fprintf(to, ": by %s/s when that was noticed, at ",
		format_change(rise->growth.bytes_per_s, value));
	put_time(to, rise->noticed_ns);
	if (rise->onset.ns) {
		fputs(rise->onset.earlier ? "; it began at about this time, or earlier: "
					  : "; it began at about ",
		      to);
		put_time(to, rise->onset.ns);
	}
	if (rise->ended_ns) {
		fputs("; it ended before ", to);
		put_time(to, rise->ended_ns);
	}
	if (rise->before && rise->before != rise->at)
		fprintf(to, ". <a href=\"diff?from=%u&amp;to=%u\">What grew until then</a>",
			rise->before, rise->at);
	put_more(rise, to);
	fputs(".</p>\n", to);
}

/* Says whether the process is traced, with a button to stop or resume tracing. */
static void put_switch(const struct site *site, const struct process *p, FILE *to)
{
	const struct inactive *inactive = store__inactive(&site->store, p->pid);
	const char *verb = inactive ? "activate" : "deactivate";

	if (!inactive && p->latest->not_traced) /* the table says why */
		return;
	fprintf(to, "<form method=\"post\" action=\"%s\"><p>%s <button>%s</button></p></form>\n",
		verb,
		inactive ? "It is not traced: what follows is what was known before."
			 : "It is traced.",
		verb);
	if (!inactive || !*inactive->why)
		return;
	fputs("<p>It could not be traced again: ", to);
	put_html(to, inactive->why);
	fputs("</p>\n", to);
}

int page_process(const struct site *site, const struct process *p, FILE *to)
{
	_cleanup_free_ char *name = text_profile_name(p->latest);
	const char *links[][2] = {{"table", "table"},
				  {"profile.json", "JSON"},
				  {"debug/pprof/heap", "pprof"},
				  {"collapsed", "collapsed"},
				  {"snapshots", "snapshots"},
				  {"diff", "since the oldest snapshot"}};

	int rc;

	begin(to, name ?: "?");
	fputs("<p><a href=\"/\">all processes</a></p>\n<h1>", to);
	put_html(to, name ?: "?");
	fprintf(to, " (%d)%s</h1>\n<p>", p->pid, p->ended ? ", ended" : "");
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		fprintf(to, "<a href=\"%s\">%s</a> ", links[i][0], links[i][1]);
	fputs("</p>\n", to);
	if (!p->ended)
		put_switch(site, p, to);
	if (p->rise.known)
		put_rise(&p->rise, to);
	if (p->outdated)
		fputs("<p>These figures are old: newer profiles of it were lost "
		      "(<a href=\"/metrics\">memtrace_profiles_lost_total</a>).</p>\n",
		      to);
	fputs("<pre>", to);
	rc = put_table(to, p->latest);
	fputs("</pre>\n<p><a href=\"flame.svg\"><img src=\"flame.svg\" "
	      "alt=\"flame graph of live memory\"></a></p>\n"
	      "</body></html>\n",
	      to);
	return rc;
}

/* Writes the process's container, if it is in one. */
static void put_container(struct json *json, const struct process *p)
{
	if (*p->container.id)
		json__put_text(json, "container_id", p->container.id);
	if (*p->container.pod)
		json__put_text(json, "pod_uid", p->container.pod);
}

static double seconds_of(uint64_t ns)
{
	return ns ? (double)ns / 1e9 : NAN;
}

static void list_rise(struct json *target, const struct rise *rise)
{
	struct json json = json__open(target, "rise", "{");
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, rise->stack);
	json__put_real(&json, "noticed", seconds_of(rise->noticed_ns));
	json__put_real(&json, "since", seconds_of(rise->onset.ns));
	json__put_real(&json, "since_low",
		       rise->onset.earlier ? NAN : seconds_of(rise->onset.low_ns));
	json__put_real(&json, "since_high", seconds_of(rise->onset.high_ns));
	json__put_real(&json, "until", seconds_of(rise->ended_ns));
	json__put_text(&json, "stack", id);
	json__put_text(&json, "function", rise->function);
	json__put_real(&json, "growth_bytes_per_s", rise->growth.bytes_per_s);
	json__put_real(&json, "growth_low", rise->growth.low);
	json__put_real(&json, "growth_high", rise->growth.high);
	json__put_uint(&json, "before", rise->before);
	json__put_uint(&json, "at", rise->at);
	json__put_text(&json, "more_windows", more_windows__name(rise->more));
	json__put_real(&json, "more_windows_from", seconds_of(rise->more_ns));
	json__put_real(&json, "more_windows_until", seconds_of(rise->more_until_ns));
	json__put_uint(&json, "detailed", rise->detailed);
	sink__puts(json.sink, "}");
}

int list_targets(const struct site *site, FILE *to)
{
	_cleanup_free_ struct process **processes = sorted(site);
	struct sink sink = sink__to_stream(to);
	struct json document, list;

	if (!processes)
		return -ENOMEM;
	document = json__open_document(&sink, "targets");
	json__put_real(&document, "time", (double)site->round.taken_ns / 1e9);
	list = json__open(&document, "targets", "[");
	for (size_t i = 0; i < site->store.n; i++) {
		const struct process *p = processes[i];
		bool unknown = profile__unknown_why(p->latest) != NULL;
		struct interval live = profile__live_interval(p->latest, &p->live);
		struct json target = json__open(&list, NULL, "{");

		json__put_identity(&target, p->latest);
		json__put_text(&target, "exe", p->latest->exe);
		put_container(&target, p);
		json__put_bool(&target, "ended", p->ended);
		json__put_bool(&target, "active", !p->ended && !p->inactive);
		json__put_bool(&target, "outdated", p->outdated);
		json__put_text(&target, "mode", profile_mode__name(p->latest->mode));
		if (p->latest->not_traced)
			json__put_text(&target, "not_traced", p->latest->not_traced);
		json__put_signed(&target, "live_bytes", unknown ? NAN : p->live.bytes);
		json__put_signed(&target, "live_bytes_low", unknown ? NAN : live.low);
		json__put_signed(&target, "live_bytes_high", unknown ? NAN : live.high);
		json__put_real(&target, "growth_bytes_per_s", p->growth.bytes_per_s);
		json__put_real(&target, "growth_low", p->growth.low);
		json__put_real(&target, "growth_high", p->growth.high);
		json__put_real(&target, "growth_over_s", p->growth_s);
		json__put_bool(&target, "surely_grows", surely_grows(p));
		json__put_real(&target, "overhead_pct", optional__or_nan(p->latest->overhead_pct));
		if (p->rise.known)
			list_rise(&target, &p->rise);
		json__put_uint(&target, "snapshots", p->n_kept);
		json__put_uint(&target, "snapshot", process__snapshot(p, 0)->id);
		sink__puts(&sink, "}");
	}
	sink__puts(&sink, "]");
	list = json__open(&document, "inactive", "[");
	for (size_t i = 0; i < site->store.n_inactive; i++) {
		struct json one = json__open(&list, NULL, "{");

		json__put_uint(&one, "pid", (uint64_t)site->store.inactive[i].pid);
		json__put_text(&one, "why", site->store.inactive[i].why);
		sink__puts(&sink, "}");
	}
	sink__puts(&sink, "]}\n");
	return sink.error;
}

/* --- who was killed, or crashed --- */

static bool was_killed(const struct process *p)
{
	return p->latest->out_of_memory || p->latest->killed_by_signal;
}

/* Returns the time when the process ended, by the wall clock, in seconds. */
static double end_of(const struct process *p)
{
	return (double)p->latest->start_unix_ns / 1e9 + p->latest->duration_s;
}

static int by_end(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

	return end_of(x) < end_of(y) ? 1 : end_of(x) > end_of(y) ? -1 : x->pid - y->pid;
}

/* Returns the killed processes of the store, the latest first; NULL: no memory. */
static struct process **killed(const struct site *site, size_t *ret_n)
{
	struct process **found = malloc((site->store.n + 1) * sizeof(struct process *));
	size_t n = 0;

	for (size_t i = 0; found && i < site->store.n; i++)
		if (was_killed(site->store.processes[i]))
			found[n++] = site->store.processes[i];
	if (n)
		qsort(found, n, sizeof(struct process *), by_end);
	*ret_n = n;
	return found;
}

static void put_cause(FILE *to, const struct process *p)
{
	const char *name = sigabbrev_np((int)p->latest->killed_by_signal);

	if (p->latest->out_of_memory)
		fputs("out of memory", to);
	else if (name)
		fprintf(to, "SIG%s", name);
	else
		fprintf(to, "signal %u", p->latest->killed_by_signal);
}

int page_deaths(const struct site *site, FILE *to)
{
	size_t n;
	_cleanup_free_ struct process **processes = killed(site, &n);
	int rc = 0;

	if (!processes)
		return -ENOMEM;
	begin(to, "memtrace: deaths");
	fputs("<p><a href=\"/\">all processes</a></p>\n<h1>Killed, or crashed</h1>\n", to);
	fputs(n ? "<table><thead><tr><th>PID</th><th class=\"l\">COMMAND</th>"
		  "<th class=\"l\">ENDED (UTC)</th><th class=\"l\">BY</th><th>LIVE</th><th>95 "
		  "%</th><th class=\"l\">WHAT GREW</th></tr></thead><tbody>\n"
		: "<p>No such process is known. With --spool, the agent looks for them.</p>\n",
	      to);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct process *p = processes[i];
		time_t at = (time_t)end_of(p);
		char text[32] = "";
		struct tm utc;

		if (gmtime_r(&at, &utc))
			strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc);
		fprintf(to, "<tr><td><a href=\"/pid/%d/\">%d</a></td><td class=\"l\">", p->pid,
			p->pid);
		put_name(to, p);
		fprintf(to, "</td><td class=\"l\">%s</td><td class=\"l\">", text);
		put_cause(to, p);
		fputs("</td>", to);
		put_live(to, p);
		fputs("<td class=\"l\">", to);
		rc = put_fastest(to, p);
		fputs("</td></tr>\n", to);
	}
	fputs(n ? "</tbody></table>\n</body></html>\n" : "</body></html>\n", to);
	return rc;
}

int list_deaths(const struct site *site, FILE *to)
{
	size_t n;
	_cleanup_free_ struct process **processes = killed(site, &n);
	struct sink sink = sink__to_stream(to);
	struct json document, list;

	if (!processes)
		return -ENOMEM;
	document = json__open_document(&sink, "deaths");
	list = json__open(&document, "deaths", "[");
	for (size_t i = 0; i < n; i++) {
		const struct process *p = processes[i];
		struct json death = json__open(&list, NULL, "{");

		json__put_identity(&death, p->latest);
		json__put_text(&death, "exe", p->latest->exe);
		put_container(&death, p);
		json__put_real(&death, "time", end_of(p));
		json__put_bool(&death, "out_of_memory", p->latest->out_of_memory);
		json__put_uint(&death, "signal", p->latest->killed_by_signal);
		json__put_signed(&death, "live_bytes",
				 profile__unknown_why(p->latest) ? NAN : p->live.bytes);
		sink__puts(&sink, "}");
	}
	sink__puts(&sink, "]}\n");
	return sink.error;
}

/* Lists one target per process, with the path of its profiles. A scrape of a target has the
 * argument `pid`. */
int list_discovery(const struct site *site, const struct request *request, FILE *to)
{
	struct sink sink = sink__to_stream(to);
	struct json list = {.sink = &sink, .first = true}, target, labels;
	char pid[16], path[64];

	sink__puts(&sink, "[");
	for (size_t i = 0; i < site->store.n; i++) {
		const struct process *p = site->store.processes[i];
		struct json targets;

		if (p->ended)
			continue;
		snprintf(pid, sizeof(pid), "%d", p->pid);
		snprintf(path, sizeof(path), "/pid/%d/debug/pprof/heap", p->pid);
		target = json__open(&list, NULL, "{");
		targets = json__open(&target, "targets", "[");
		json__comma(&targets);
		json__text(&targets, request->host ?: "localhost");
		sink__puts(&sink, "]");
		labels = json__open(&target, "labels", "{");
		if (request->tls)
			json__put_text(&labels, "__scheme__", "https");
		json__put_text(&labels, "__profile_path__", path);
		json__put_text(&labels, "__param_pid", pid);
		json__put_text(&labels, "pid", pid);
		json__put_text(&labels, "comm", p->latest->comm);
		json__put_text(&labels, "exe", p->latest->exe);
		put_container(&labels, p);
		sink__puts(&sink, "}}");
	}
	sink__puts(&sink, "]\n");
	return sink.error;
}
