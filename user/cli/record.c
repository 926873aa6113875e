// SPDX-License-Identifier: BSD-2-Clause
/* memtrace record: trace, then show and write what was found. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/snapshots.h"
#include "cli/trace_options.h"
#include "encode/encode.h"
#include "session/session.h"

/* A snapshot's file. */
struct written {
	pid_t pid;
	unsigned what; /* of enum session_what */
	char *path;
};

struct record_config {
	struct trace_config trace;
	char *const *command;
	bool threads, each_thread, sites, lifetimes, resident; /* tables besides */
	bool jeprof_names;
	struct snapshots snapshots;
	struct written *written;
	size_t n_written;
	struct modules *modules; /* NULL: none were given */
	struct view_options view;
	bool weight_given, churn;
	enum process_sort sort;
	unsigned top;
	bool json;
	const char *json_path; /* NULL: where tables go */
	FILE *out; /* where these go: not where a command writes */
	const char *out_name;
	bool quiet, verbose;
};

const char record_options[] =
	"      --sort KEY             processes by growth (default), live or rss\n"
	"      --rss                  what the resident set is made of, at the end of the run: heap, mappings\n"
	"                             by owner, stacks, files; regions are looked at, too, unless --what\n"
	"                             says otherwise\n"
	"      --every SECONDS|BYTES  also snapshots, PREFIX.PID.0001.heap ...: so often, or each time\n"
	"                             that much has been allocated (32M); SIGUSR1 writes one now\n"
	"      --peak                 the same whenever live memory is higher than ever by 5 %\n"
	"      --jeprof-names         files are named as jemalloc names its own: PREFIX.PID.3.i3.heap\n"
	"      --weight WHAT          stacks of the table, collapsed and svg by live (bytes, default),\n"
	"                             objects, allocated, freed (bytes of the run), growth (bytes per\n"
	"                             second) or peak (bytes at the highest moment: the default of a\n"
	"                             COMMAND's table)\n"
	"      --by WHOSE             their first frame tells the thread, process or module (file,\n"
	"                             or component of --modules)\n"
	"      --churn                stacks by what they allocate per second, whatever is freed again, and\n"
	"                             how long that lived (of what is traced continuously)\n"
	"      --modules FILE         live memory by component, too, by that file's rules\n"
	"      --threads[=each]       who allocated, who freed whose memory, who owns it: by pools of\n"
	"                             threads, or each\n"
	"      --sites                by stack: allocated, freed, lowest, current and highest\n"
	"      --lifetimes            by stack: how old objects were when they were freed\n"
	"                             (these three: of what is traced continuously)\n"
	"  -n, --top N                rows of the table (default 20)\n"
	"      --json[=FILE]          one JSON object per process instead of the table; into FILE, or\n"
	"                             where the table would go (-: standard output)\n"
	"  -q, --quiet                no table, no status line\n"
	"  -v, --verbose              say what is done\n"
	"      --help, --version\n";

static const char help_head[] =
	"memtrace [record] -p PID[,PID...] [OPTIONS]\n"
	"memtrace [record] -a|--comm NAME|... [OPTIONS]\n"
	"memtrace [record] [OPTIONS] -- COMMAND ARGS...\n"
	"\n"
	"Profiles the heap of running processes, or of a command from its first allocation, and\n"
	"writes PREFIX.PID.heap (jemalloc's heap_v2, for jeprof) and PREFIX.PID.collapsed (for\n"
	"flame graphs), or with -f pprof PREFIX.PID.pb.gz (for pprof and `memtrace report`).\n"
	"The table goes to standard output; of a COMMAND, whose that is, to standard error (-o -:\n"
	"standard output all the same).\n"
	"Ends on Ctrl-C, SIGTERM, after the duration or with the target.\n"
	"\n";

static const char help_tail[] =
	"\n"
	"Exit status: 0, 1 (failed, or no process fitted the selection), 2 (usage); with a COMMAND\n"
	"that of the command, 128+N when signal N ended it.\n";

static bool shows_views(const struct record_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->trace.format[i] && formats[i].views)
			return true;
	return false;
}

static int parse_options(int argc, char **argv, struct record_config *c)
{
	enum {
		OPT_JSON = TRACE_OPT_END,
		OPT_SORT,
		OPT_THREADS,
		OPT_SITES,
		OPT_LIFETIMES,
		OPT_RSS,
		OPT_MODULES,
		OPT_WEIGHT,
		OPT_BY,
		OPT_EVERY,
		OPT_PEAK,
		OPT_CHURN,
		OPT_JEPROF_NAMES,
		OPT_HELP,
		OPT_VERSION,
	};
	static const struct option options[] = {
		TRACE_LONG_OPTIONS,
		{"top", required_argument, NULL, 'n'},
		{"json", optional_argument, NULL, OPT_JSON},
		{"quiet", no_argument, NULL, 'q'},
		{"verbose", no_argument, NULL, 'v'},
		{"sort", required_argument, NULL, OPT_SORT},
		{"threads", optional_argument, NULL, OPT_THREADS},
		{"sites", no_argument, NULL, OPT_SITES},
		{"lifetimes", no_argument, NULL, OPT_LIFETIMES},
		{"rss", no_argument, NULL, OPT_RSS},
		{"modules", required_argument, NULL, OPT_MODULES},
		{"weight", required_argument, NULL, OPT_WEIGHT},
		{"by", required_argument, NULL, OPT_BY},
		{"every", required_argument, NULL, OPT_EVERY},
		{"peak", no_argument, NULL, OPT_PEAK},
		{"churn", no_argument, NULL, OPT_CHURN},
		{"jeprof-names", no_argument, NULL, OPT_JEPROF_NAMES},
		{"help", no_argument, NULL, OPT_HELP},
		{"version", no_argument, NULL, OPT_VERSION},
		{},
	};
	uint64_t n;
	int opt, rc;

	opterr = 0;
	/* '+': what follows the command's name is the command's; ':' tells a missing argument. */
	while ((opt = getopt_long(argc, argv, "+:" TRACE_SHORT_OPTIONS "n:qvh", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			if (parse_count(optarg, 1, 1000000, &n))
				return usage_error("record", "'%s' is not a number of rows",
						   optarg);
			c->top = (unsigned)n;
			break;
		case OPT_JSON:
			c->json = true;
			if (optarg && !*optarg)
				return usage_error("record", "--json= needs a file's name");
			c->json_path = optarg;
			if (optarg && !strcmp(optarg, "-")) {
				c->trace.to_stdout = true;
				c->json_path = NULL;
			}
			break;
		case 'q':
			c->quiet = true;
			break;
		case 'v':
			c->verbose = c->trace.capture.verbose = true;
			break;
		case OPT_SORT:
			for (c->sort = 0; c->sort < PROCESS_SORTS; c->sort++)
				if (!strcmp(optarg, process_sort__name(c->sort)))
					break;
			if (c->sort == PROCESS_SORTS)
				return usage_error("record",
						   "processes are sorted by growth, live or rss, "
						   "not by '%s'",
						   optarg);
			break;
		case OPT_THREADS:
			if (optarg && strcmp(optarg, "each"))
				return usage_error("record", "--threads or --threads=each, not '%s'", optarg);
			c->threads = true;
			c->each_thread = optarg != NULL;
			break;
		case OPT_SITES:
			c->sites = true;
			break;
		case OPT_LIFETIMES:
			c->lifetimes = true;
			break;
		case OPT_RSS:
			c->resident = true;
			break;
		case OPT_MODULES:
			rc = load_modules(optarg, &c->modules);
			if (rc)
				return rc;
			break;
		case OPT_WEIGHT:
		case OPT_BY:
			rc = take_view_option(&c->view, "record", opt == OPT_BY ? "by" : "weight", optarg);
			c->weight_given |= opt == OPT_WEIGHT;
			if (rc)
				return rc;
			break;
		case OPT_EVERY:
			if (snapshots__parse_every(&c->snapshots, optarg))
				return usage_error("record",
						   "'%s' is neither seconds (0.1 or more) nor bytes (4K or more, as in 32M)",
						   optarg);
			break;
		case OPT_PEAK:
			c->snapshots.at_peaks = true;
			break;
		case OPT_CHURN:
			c->churn = true;
			break;
		case OPT_JEPROF_NAMES:
			c->jeprof_names = true;
			break;
		case 'h':
		case OPT_HELP:
			fputs(help_head, stdout);
			fputs(trace_options_help, stdout);
			fputs(record_options, stdout);
			fputs(help_tail, stdout);
			exit(end_output(0));
		case OPT_VERSION:
			puts("memtrace " MEMTRACE_VERSION);
			exit(end_output(0));
		default:
			rc = trace_config__take(&c->trace, "record", opt, argv, optarg);
			if (rc)
				return rc;
		}
	}
	if (optind < argc) {
		/* A command must follow "--", so that a forgotten -p does not start one. */
		if (strcmp(argv[optind - 1], "--"))
			return usage_error("record",
					   "'%s' is no option; a command to run goes after --",
					   argv[optind]);
		c->command = argv + optind;
	}
	if (!c->command && !c->trace.n_pids && !c->trace.selection.selection.dynamic)
		return usage_error("record", "which process? -p PID, -a, or -- COMMAND");
	rc = trace_config__settle(&c->trace, "record", c->command);
	if (rc)
		return rc;
	/* Hundreds of processes leave files only when they are asked for. */
	if (c->trace.selection.selection.dynamic && !c->trace.output_given && !c->trace.format_given)
		memset(c->trace.format, 0, sizeof(c->trace.format));
	if (isfinite(snapshots__look_every_s(&c->snapshots)) && !trace_config__writes_files(&c->trace))
		return usage_error("record", "snapshots in which format? -f LIST");
	c->view.modules = c->modules;
	if (view_options__contradiction(&c->view))
		return usage_error("record", "%s", view_options__contradiction(&c->view));
	if (c->view.root != ROOT_NONE && !shows_views(c))
		return usage_error("record", "--by is for -f collapsed and svg");
	if (c->weight_given && c->trace.leaks)
		return usage_error("record", "--leaks orders the table by growth: either that or --weight");
	if (c->churn && (c->trace.leaks || c->weight_given))
		return usage_error("record", "one table: --churn, --leaks or --weight");
	if (c->churn && !(c->trace.what & WHAT_HEAP))
		return usage_error("record", "--churn tells of the heap: --what heap");
	if (c->churn && c->trace.selection.given)
		return usage_error("record", "--churn shows what is in one process: name it by -p, or run a command");
	if (c->modules && c->trace.selection.given)
		return usage_error("record", "--modules shows what is in one process: name it by -p, or run a command");
	if (c->resident && c->trace.selection.given)
		return usage_error("record", "--rss shows what is in one process: name it by -p, or run a command");
	if ((c->threads || c->sites || c->lifetimes) && !(c->trace.what & WHAT_HEAP))
		return usage_error("record", "--threads, --sites and --lifetimes tell of the heap: --what heap");
	if (c->command && c->trace.n_pids)
		return usage_error("record", "either -p or a command, not both");
	return 0;
}

/* --- output --- */

/* Better to hear it now than after an hour of tracing. */
static int check_outputs(const struct record_config *c, struct error *err)
{
	int rc = trace_config__check_files(&c->trace, c->command, err);

	if (rc || !c->json_path || is_stream(c->json_path))
		return rc;
	return outfile__check(c->json_path, err);
}

/* The summary, which comes at the end, tells it. */
static int remember(void *ctx, const struct profile *p, const char *path)
{
	struct record_config *c = ctx;
	struct written *grown = reallocarray(c->written, c->n_written + 1, sizeof(*grown));
	char *copy = strdup(path);

	if (grown)
		c->written = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	grown[c->n_written++] = (struct written){p->pid, trace_what(p), copy};
	return 0;
}

static int tell_snapshots(const struct record_config *c, struct profile *p)
{
	for (size_t i = 0; i < c->n_written; i++) {
		if (c->written[i].pid != p->pid || c->written[i].what != trace_what(p))
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

/* told: the profile itself, of the last ones, which learns of them. */
static int write_files(struct record_config *c, const struct profile *p, enum snapshot_cause cause,
		       struct profile *told)
{
	char number[32] = "";
	int status = 0;

	if (cause != SNAPSHOT_FINAL || c->jeprof_names)
		snapshots__name(&c->snapshots, cause, c->jeprof_names, number);
	if (told && tell_snapshots(c, told))
		status = EXIT_FAILED;
	return trace_config__write_files(&c->trace, p, &c->view, number, told ? tell_file : remember,
					 told ? (void *)told : c) ?: status;
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
		const struct json_options options = {.modules = aside ? NULL : c->modules,
						     .all_stacks = c->sites || c->lifetimes || c->churn,
						     .peak_stacks = c->command || c->view.weight == WEIGHT_PEAK};

		rc = encode_json_with(list->profiles[i], &options, sink);
	}
	return rc;
}

/* The tables that were asked for besides. */
static int put_leaks(const struct record_config *c, const struct profile *profile, const struct table_options *options,
		     struct sink *sink)
{
	if (profile->has_growth)
		return sink__puts(sink, "\n") ?: encode_leaks(profile, options, sink);
	if (trace_config__is_aside(&c->trace, profile))
		return 0;
	return sink__printf(sink, "\nmemtrace: pid %d: which stacks leak cannot be told: %s\n", (int)profile->pid,
			    leaks__refusal(profile));
}

static int put_views(const struct record_config *c, const struct profile *profile, const struct table_options *options,
		     struct sink *sink)
{
	int rc = 0;

	if (profile__is_regions(profile) || profile__is_growth(profile))
		return 0; /* they stand below the heap's */
	if (c->threads)
		rc = sink__puts(sink, "\n") ?: encode_threads(profile, options, c->each_thread, sink);
	if (!rc && c->sites)
		rc = sink__puts(sink, "\n") ?: encode_sites(profile, options, sink);
	if (!rc && c->lifetimes)
		rc = sink__puts(sink, "\n") ?: encode_lifetimes(profile, options, sink);
	return rc;
}

/* What the table's rows are weighed by. Of a command its highest moment: at its end it has often freed all. */
static enum profile_weight table_weight(const struct record_config *c, const struct profile *profile)
{
	const struct view_options wanted = {.weight = c->weight_given ? c->view.weight
						     : c->command && !c->trace.leaks ? WEIGHT_PEAK : WEIGHT_LIVE};
	const char *refusal = view_options__refusal(&wanted, profile);

	if (refusal && c->weight_given)
		complain("the table of pid %d is by live bytes: %s", profile->pid, refusal);
	return refusal ? WEIGHT_LIVE : wanted.weight;
}

static int write_tables(const struct record_config *c, struct profile *const *profiles, size_t n)
{
	struct process_table_options processes = {.sort = c->sort, .top = c->top};
	struct sink sink = sink__to_stream(c->out);
	struct table_options options = {.top = c->top, .leaks = c->trace.leaks};
	int rc = 0;

	fit_descriptor(&options, fileno(c->out));
	if (c->trace.selection.given) {
		processes.width = options.width;
		processes.color = options.color;
		_cleanup_free_ const struct profile **rows = calloc(n + 1, sizeof(*rows));
		size_t n_rows = 0;

		/* a row per process: of its heap, if that was profiled */
		for (size_t i = 0; rows && i < n; i++)
			if (profile__is_regions(profiles[i]) == (c->trace.what == WHAT_REGIONS))
				rows[n_rows++] = profiles[i];
		rc = rows ? encode_processes(rows, n_rows, &processes, &sink) : -ENOMEM;
	}
	for (size_t i = 0; i < n && !rc && !c->trace.selection.given; i++) {
		if (trace_config__is_aside(&c->trace, profiles[i]) && !(c->trace.leaks && profile__leaks(profiles[i])))
			continue;
		if (i)
			sink__puts(&sink, "\n");
		options.churn = c->churn && trace_what(profiles[i]) == WHAT_HEAP;
		options.weight = options.churn ? WEIGHT_LIVE : table_weight(c, profiles[i]);
		rc = encode_table(profiles[i], &options, &sink);
		if (!rc && c->trace.leaks)
			rc = put_leaks(c, profiles[i], &options, &sink);
		if (!rc)
			rc = put_views(c, profiles[i], &options, &sink);
		if (!rc && c->modules && !trace_config__is_aside(&c->trace, profiles[i]))
			rc = sink__puts(&sink, "\n") ?: encode_modules(profiles[i], c->modules, false, &sink);
		if (!rc && c->resident && (!i || profiles[i - 1]->pid != profiles[i]->pid))
			rc = sink__puts(&sink, "\n") ?: encode_resident(profiles[i], &options, &sink);
	}
	if (rc || fflush(c->out)) {
		complain("cannot write to %s: %s", c->out_name, strerror(rc ? -rc : errno));
		return EXIT_FAILED;
	}
	return 0;
}

static int write_json(const struct record_config *c, struct profile *const *profiles, size_t n)
{
	const struct profile_list list = {c, profiles, n};

	return c->json_path ? write_text(c->json_path, encode_objects, &list)
			    : write_stream(c->out, c->out_name, encode_objects, &list);
}

/* Standard output is a command's: who reads it from a pipe waits for what the command says, not for us. Standard error
 * is written in pieces; a table is to stay in one. */
static void choose_output(struct record_config *c)
{
	int fd = c->command && !c->trace.to_stdout ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
	FILE *errors = fd >= 0 ? fdopen(fd, "w") : NULL;

	c->out = errors ? errors : c->command && !c->trace.to_stdout ? stderr : stdout;
	c->out_name = c->out == stdout ? "standard output" : "standard error";
	if (fd >= 0 && !errors)
		close(fd);
}

/* --- while it goes on --- */

struct snapshot_run {
	struct record_config *config;
	enum snapshot_cause cause;
	int status;
};

static int write_snapshot(void *ctx, const struct profile *profile)
{
	struct snapshot_run *run = ctx;

	if (write_files(run->config, profile, run->cause, NULL))
		run->status = EXIT_FAILED;
	return 0;
}

/* A failure is told at once, and in the end: the tracing goes on. */
static int take_snapshot(struct record_config *c, struct session *s, enum snapshot_cause cause)
{
	struct snapshot_run run = {c, cause, 0};
	int rc;

	if (!trace_config__writes_files(&c->trace)) {
		complain("no snapshot: no format was asked for (-f)");
		return 0;
	}
	rc = session__peek(s, write_snapshot, &run);
	if (rc)
		complain("no snapshot: %s", strerror(-rc));
	else if (c->verbose)
		complain("snapshot %u", c->snapshots.n + 1);
	snapshots__written(&c->snapshots, cause);
	return rc ? EXIT_FAILED : run.status;
}

#define LEADER_EVERY_S 10.0

struct status_line {
	bool shown;
	struct session_status last;
};

static void clear_status(struct status_line *line)
{
	if (line->shown)
		fputs("\r\033[K", stderr);
	line->shown = false;
}

/* Adds a field to the line where it fits whole. */
static void add_field(char *line, size_t columns, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add_field(char *line, size_t columns, const char *fmt, ...)
{
	size_t len = strlen(line);
	char field[96];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(field, sizeof(field), fmt, ap);
	va_end(ap);
	if (len + strlen(field) < columns)
		strcpy(line + len, field);
}

static int show_leader(void *ctx, const struct profile *profile)
{
	static const char before[] = "memtrace: ";
	struct sink sink = sink__to_stream(stderr);

	(void)ctx;
	if (profile__is_regions(profile) && !profile__leaks(profile))
		return 0;
	fputs(before, stderr);
	encode_leader(profile, output_width(STDERR_FILENO) - (unsigned)strlen(before), &sink);
	fputc('\n', stderr);
	return 0;
}

/* Who waits for a leak need not wait for the end. When to say it again: so that it takes a hundredth of our
 * time. */
static double show_leaders(struct session *s)
{
	double start, took;

	session__await_gap(s);
	start = clock__monotonic_s();
	session__peek(s, show_leader, NULL);
	took = clock__monotonic_s() - start;
	return clock__monotonic_s() + fmax(LEADER_EVERY_S, 100 * took);
}

static void show_status(struct session *s, struct status_line *line)
{
	char text[512] = "", live[16], growth[16], cost[32];
	struct session_rates rates;
	struct session_status st;
	struct winsize size;
	size_t columns = 80;

	session__status(s, &st);
	if (!session_status__rates(&line->last, &st, &rates))
		return;
	/* A line that wraps cannot be written over. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1)
		columns = size.ws_col < sizeof(text) ? size.ws_col : sizeof(text);
	format_bytes(fabs(rates.live_bytes), growth);
	/* What matters most comes first: a narrow terminal loses the end. */
	add_field(text, columns, "%.0f s", st.elapsed_s);
	add_field(text, columns, "  live ~%s %c%s/s", format_bytes(st.live_bytes, live),
		  rates.live_bytes < 0 ? '-' : '+', growth);
	if (st.overhead_pct >= 0) {
		format_cost(st.overhead_pct, st.cpu_cores, cost);
		add_field(text, columns, "  cost ~%s", cost);
	}
	if (st.windowed)
		add_field(text, columns, " (in windows)");
	add_field(text, columns, "  alloc %.0f/s", rates.alloc_calls);
	add_field(text, columns, "  free %.0f/s", rates.free_calls);
	add_field(text, columns, "  samples %llu", (unsigned long long)st.samples);
	if (!session__command(s))
		add_field(text, columns, "  (Ctrl-C ends)");
	fprintf(stderr, "\r\033[K%s", text);
	line->shown = true;
	line->last = st;
}

/* A command shares the terminal's Ctrl-C with memtrace and decides for itself what it means;
 * SIGTERM goes to memtrace alone and is passed on. Without a command either ends the tracing. A
 * second one always does. True: the tracing is over. */
static bool take_signal(int signal_fd, struct session *s, struct snapshots *snapshots, int *signals)
{
	struct signalfd_siginfo info;
	pid_t command = session__command(s);

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGUSR1) {
		snapshots->asked = true;
		return false;
	}
	if (!command || ++*signals > 1)
		return true;
	if (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL)
		kill(command, (int)info.ssi_signo);
	return false;
}

static int keep_snapshots(struct record_config *c, struct session *s, struct status_line *line, double *ret_took_s)
{
	enum snapshot_cause cause;
	struct session_status st;
	double start;
	int status;

	session__status(s, &st);
	cause = snapshots__due(&c->snapshots, st.elapsed_s, st.alloc_bytes, st.live_bytes);
	if (cause == SNAPSHOT_NONE)
		return 0;
	clear_status(line);
	session__await_gap(s);
	start = clock__monotonic_s();
	status = take_snapshot(c, s, cause);
	*ret_took_s = clock__monotonic_s() - start;
	return status;
}

/* 0, or the status when a snapshot could not be written. */
static int run(struct record_config *c, struct session *s, int signal_fd)
{
	struct status_line line = {};
	/* A command that writes to the terminal has it for itself. */
	bool show = !c->quiet && isatty(STDERR_FILENO) && !(c->command && isatty(STDOUT_FILENO));
	double start = clock__monotonic_s(), next = start + 1, leaders = start + LEADER_EVERY_S;
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	double every = snapshots__look_every_s(&c->snapshots), snapshots = start + every;
	int signals = 0, status = 0;

	for (;;) {
		double now = clock__monotonic_s(), wait = fmin(next, snapshots) - now;

		if (c->trace.duration_s > 0) {
			double left = start + c->trace.duration_s - now;

			if (left <= 0)
				break;
			wait = left < wait ? left : wait;
		}
		/* rounded up, or the last millisecond is spent in a busy loop */
		poll(fds, 2, wait > 0 ? (int)ceil(wait * 1000) : 0);
		if ((fds[1].revents & POLLIN) && take_signal(signal_fd, s, &c->snapshots, &signals))
			break;
		if (session__dispatch(s))
			break;
		if (c->snapshots.asked || clock__monotonic_s() >= snapshots) {
			double took = 0;

			if (keep_snapshots(c, s, &line, &took))
				status = EXIT_FAILED;
			/* a tenth of our time at most: what is due meanwhile is one snapshot */
			snapshots = clock__monotonic_s() + fmax(every, 10 * took);
		}
		if (c->trace.leaks && !c->quiet && !c->trace.selection.given && clock__monotonic_s() >= leaders) {
			clear_status(&line);
			leaders = show_leaders(s);
		}
		if (clock__monotonic_s() >= next) {
			next = clock__monotonic_s() + 1;
			if (show) {
				show_status(s, &line);
			} else {
				struct session_status ignored; /* keeps the CPU times fresh */

				session__status(s, &ignored);
			}
		}
	}
	clear_status(&line);
	return status;
}

/* As a shell tells how a command ended. */
static int exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* The tracing is over, a command may still run: as its caller expects, wait for it. */
static int wait_command(struct session *s, int signal_fd)
{
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	int status;

	while (!session__command_ended(s, &status)) {
		poll(fds, 2, 1000);
		if ((fds[1].revents & POLLIN) &&
		    read(signal_fd, &info, sizeof(info)) == sizeof(info) &&
		    info.ssi_signo != SIGUSR1 && (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL) && session__command(s))
			kill(session__command(s), (int)info.ssi_signo);
		session__dispatch(s);
	}
	return exit_status(status);
}

static void say_start(const struct record_config *c, struct session *s)
{
	size_t n;
	const struct capture_probe *probes;

	probes = session__probes(s, &n);
	trace_config__say_awaited(&c->trace, s);
	if (!c->verbose)
		return;
	for (size_t i = 0; i < n; i++) {
		char where[32] = "all processes";

		if (probes[i].pid)
			snprintf(where, sizeof(where), "pid %d", probes[i].pid);
		complain("probe on %s+%u (%s%s) of %s in %s", probes[i].point->name,
			 probes[i].point->site.delta, probes[i].point->site.instruction,
			 probes[i].point->site.emulated ? "" : ", single-stepped",
			 probes[i].allocator->path, where);
	}
	if (c->trace.what & WHAT_REGIONS)
		complain("regions: %s", session__region_place(s));
	complain("kind of probe: %s; tracing", probe_kind__name(session__kind(s)));
}

/* A script that asks for a process that is not there is not to take an empty answer for a good one. */
static int say_nothing_traced(const struct record_config *c, struct session *s)
{
	struct session_status st;
	char wanted[512];

	session__status(s, &st);
	selection_config__describe(&c->trace.selection, wanted, sizeof(wanted));
	complain("nothing was traced: no process fitted%s%s in %.1f s", *wanted ? " " : "", wanted, st.elapsed_s);
	return EXIT_FAILED;
}

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

static volatile sig_atomic_t asked_early; /* for a snapshot, before there was a session */

static void ask_early(int signal)
{
	(void)signal;
	asked_early = true;
}

int cmd_record(int argc, char **argv)
{
	static struct record_config config;
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_close_ int signal_fd = -1;
	struct session_options options;
	struct profile *const *profiles;
	struct error err = {};
	size_t n_profiles;
	struct sigaction hangup;
	int status, wait_status = EXIT_FAILED << 8;
	sigset_t signals;

	trace_config__init(&config.trace);
	status = parse_options(argc, argv, &config);
	if (status)
		return status;
	/* before the files: root may write where others may not */
	if (session__check_machine(&err) || check_outputs(&config, &err))
		return fail(&err);
	if (selection_config__open(&config.trace.selection, &err))
		return fail(&err);

	choose_output(&config);
	options = trace_config__session_options(&config.trace);
	options.command = config.command;
	options.regions_if_easy |= config.resident && !config.trace.what_given;
	options.resident = config.resident;
	options.ret_command_status = &wait_status;
	/* A command does not inherit a handler, as it would a mask. */
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ask_early, .sa_flags = SA_RESTART}, NULL);
	/* Ignored, a command's end would not be told. */
	signal(SIGCHLD, SIG_DFL);
	switch (session__open(&options, &session, &err)) {
	case 0:
		break;
	case -ECHILD:
		fail(&err);
		return exit_status(wait_status);
	default:
		return fail(&err);
	}

	/* From here on a signal ends the tracing, not memtrace: nothing captured may be lost. Only
	 * now, because a command must not inherit the mask. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	/* nohup's way to say that the terminal's end is no reason to stop */
	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0) {
		complain("cannot take signals: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (session__start(session, &err))
		return fail(&err);
	say_start(&config, session); /* only now is it true */
	config.snapshots.asked = asked_early;
	status = run(&config, session, signal_fd);
	session__stop(session);

	if (session__profiles(session, &profiles, &n_profiles, &err)) {
		status = fail(&err);
	} else {
		for (size_t i = 0; i < n_profiles; i++)
			if (write_files(&config, profiles[i], SNAPSHOT_FINAL, profiles[i]))
				status = EXIT_FAILED;
		if (config.json && write_json(&config, profiles, n_profiles))
			status = EXIT_FAILED;
		if (!session__met(session))
			status = say_nothing_traced(&config, session);
		else if (!config.json && !config.quiet && write_tables(&config, profiles, n_profiles))
			status = EXIT_FAILED;
	}
	session__detach(session);
	if (config.command) {
		int command_status = wait_command(session, signal_fd);

		if (!status)
			status = command_status;
	}
	return status;
}
