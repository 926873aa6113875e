// SPDX-License-Identifier: BSD-2-Clause
#include "cli/trace_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"

#define LEAKS_INTERVAL (64 << 10) /* half a minute of a slow leak is not much */

const char trace_options_help[] =
	"  -p, --pid PID[,PID...]     processes to profile\n"
	"  -a, --all                  every process there is and every one to come\n"
	"      --comm NAME, --exe GLOB, --user USER, --cgroup PATH, --container ID\n"
	"                             those of that name, program, user or cgroup, also new ones\n"
	"  -F, --follow               children of traced processes, too\n"
	"      --what LIST            heap (default), regions: what is taken by mmap and brk,\n"
	"                             growth: what becomes resident, by page faults\n"
	"      --regions-at PLACE     libc or syscalls (default: libc where that sees all)\n"
	"      --max-overhead PCT     share of its CPU time that tracing may cost a process, or of a\n"
	"                             core, where it leaves that idle: where it is more, it is\n"
	"                             traced in random short windows (default: 5 all the time,\n"
	"                             else 1 in windows; 5: more windows, answers sooner; off: no\n"
	"                             limit, the default with -i 1 and for a COMMAND)\n"
	"      --max-host-overhead PCT\n"
	"                             with -a, --comm ...: share of the machine's CPU time that tracing\n"
	"                             may cost all of them together (default 2, off: no limit)\n"
	"      --leaks                stacks by growth; regions are looked at, too, and samples are\n"
	"                             closer (-i 64K), unless told otherwise\n"
	"  -d, --duration SECONDS     how long, fractions allowed (default: until told to end)\n"
	"  -i, --interval BYTES       mean bytes between samples, K M G allowed (default 512K;\n"
	"                             1 = every allocation, exact)\n"
	"  -o, --output PREFIX        where to write (default memtrace); - besides: what is shown of a\n"
	"                             COMMAND goes to its standard output (default: standard error)\n"
	"  -f, --format LIST          heap, collapsed, pprof, svg (a flame graph), symbolized (heap\n"
	"                             with its names, for jeprof without the program), none\n"
	"                             (default heap,collapsed)\n"
	"      --probe-kind KIND      session, multi or perf instead of the best that works\n"
	"      --no-return-probes     no call returns through a probe: what it returns is read at the\n"
	"                             function's ret instructions, which costs more (chosen by itself\n"
	"                             on kernels whose return probes would kill)\n"
	"      --alloc FILE:FUNCTION(size=N[*M])->ret\n"
	"                             a function that allocates, too: a pool's, in the mapped file FILE\n"
	"                             or the program (exe); its size is argument N; ->*N: the block is\n"
	"                             stored where argument N points; ptr=N: it is a realloc of that;\n"
	"                             throws: an exception may leave it\n"
	"      --free FILE:FUNCTION(ptr=N)\n"
	"                             a function that frees\n"
	"      --max-live N           samples of living blocks to hold (default 1048576)\n"
	"      --max-stacks N         distinct stacks to hold (default 65536)\n"
	"      --max-frames N         addresses per stack, at most 127 (default 127)\n"
	"      --max-unwind BYTES     kernel memory for unwind tables (default 96M)\n"
	"      --max-symbols BYTES    memory for symbol tables (default 256M)\n"
	"      --no-demangle          linkers' names instead of C++ and Rust ones\n"
	"      --no-inline            no inlined functions, files and lines from debug information\n";

void trace_config__init(struct trace_config *c)
{
	*c = (struct trace_config){
		.what = WHAT_HEAP,
		/* docs/overhead.md: windows at 1 % touch less than one request of a server in a
		 * hundred, at 5 % its 99th percentile rises by half */
		.max_overhead = 0.01,
		.max_steady_overhead = 0.05,
		.max_host_overhead = 0.02,
		.output = "memtrace",
		.capture = {.interval = 512 * 1024, .kind = -1},
	};
	for (size_t i = 0; i < N_FORMATS; i++)
		c->format[i] = formats[i].by_default;
}

static int parse_pids(const char *command, const char *text, struct trace_config *c)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;
	uint64_t pid;

	if (!copy)
		return no_memory();
	while ((item = strsep(&rest, ","))) {
		bool known = false;

		if (parse_count(item, 1, INT32_MAX, &pid))
			return usage_error(
				command,
				"'%s' is not a pid; processes of a name are traced with --comm NAME",
				item);
		for (size_t i = 0; i < c->n_pids; i++)
			known = known || c->pids[i] == (pid_t)pid;
		if (known)
			continue;
		if (c->n_pids == MAX_PIDS)
			return usage_error(command, "at most %d pids", MAX_PIDS);
		c->pids[c->n_pids++] = (pid_t)pid;
	}
	return 0;
}

/* A list of names, separated by commas: bit i of *ret is set when the i-th is in it. 0, or the exit
 * status, having said why: complaint of the name that is not known. */
static int parse_names(const char *command, const char *text, const char *const *names, size_t n,
		       const char *complaint, unsigned *ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;

	if (!copy)
		return no_memory();
	*ret = 0;
	while ((item = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < n && strcmp(item, names[i]))
			i++;
		if (i == n)
			return usage_error(command, complaint, item);
		*ret |= 1U << i;
	}
	return 0;
}

static int parse_formats(const char *command, const char *text, struct trace_config *c)
{
	const char *names[N_FORMATS + 1];
	unsigned found;
	int rc;

	for (size_t i = 0; i < N_FORMATS; i++)
		names[i] = formats[i].name;
	names[N_FORMATS] = "none";
	rc = parse_names(command, text, names, N_FORMATS + 1,
			 "there is no format '%s': " FORMAT_NAMES ", none", &found);
	for (size_t i = 0; i < N_FORMATS && !rc; i++)
		c->format[i] = found >> i & 1;
	return rc;
}

static int parse_what(const char *command, const char *text, struct trace_config *c)
{
	static const char *const names[] = {"heap", "regions", "growth"}; /* enum session_what */
	int rc = parse_names(command, text, names, 3,
			     "there is no '%s' to profile: heap, regions, growth", &c->what);

	if (!rc && (c->what & WHAT_HEAP) && (c->what & WHAT_GROWTH))
		return usage_error(command, "growth is what does without the heap's probes: one "
					    "or the other");
	return rc;
}

/* Per cent, of a process's CPU time. */
static int parse_overhead(const char *command, const char *text, double *ret)
{
	char *end;

	*ret = 0;
	if (!strcmp(text, "off"))
		return 0;
	*ret = strtod(text, &end) / 100;
	if (end == text || *end || !(*ret >= 0.001 && *ret <= 1))
		return usage_error(command,
				   "'%s' is not a share of CPU time: 0.1 to 100 per cent, or off",
				   text);
	return 0;
}

/* Who names a limit means all that tracing costs. */
static int take_overhead(struct trace_config *c, const char *command, const char *text)
{
	int rc = parse_overhead(command, text, &c->max_overhead);

	c->overhead_given = true;
	c->max_steady_overhead = c->max_overhead;
	return rc;
}

/* For experiments: what each kind adds. */

static int parse_duration(const char *command, const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	if (end == text || *end || !(*ret > 0) || *ret > 1e9)
		return usage_error(command, "'%s' is not a duration: seconds, more than 0", text);
	return 0;
}

static int parse_probe_kind(const char *command, const char *text, int *ret)
{
	for (*ret = 0; *ret < PROBE_KINDS; ++*ret)
		if (!strcmp(text, probe_kind__name((enum probe_kind) * ret)))
			return 0;
	return usage_error(command, "there is no kind of probe '%s': session, multi, perf", text);
}

static int parse_place(const char *command, const char *text, enum session_region_place *ret)
{
	if (!strcmp(text, "libc"))
		*ret = REGIONS_LIBC;
	else if (!strcmp(text, "syscalls"))
		*ret = REGIONS_SYSCALLS;
	else
		return usage_error(command, "regions are seen at libc or at syscalls, not at '%s'",
				   text);
	return 0;
}

/* A number from min to max, or it is not what it should be. */
static int parse_limit(const char *command, const char *text, uint64_t min, uint64_t max,
		       const char *complaint, uint32_t *ret)
{
	uint64_t n;

	if (parse_count(text, min, max, &n))
		return usage_error(command, complaint, text);
	*ret = (uint32_t)n;
	return 0;
}

/* The same in bytes. */
static int parse_size(const char *command, const char *text, uint64_t min, uint64_t max,
		      const char *complaint, uint64_t *ret)
{
	return parse_bytes(text, min, max, ret) ? usage_error(command, complaint, text) : 0;
}

int trace_config__take(struct trace_config *c, const char *command, int opt, char **argv,
		       const char *value)
{
	static const char *const selections[] = {"comm", "exe", "user", "cgroup", "container"};
	char *path;
	int rc;

	switch (opt) {
	case 'p':
		return parse_pids(command, value, c);
	case 'd':
		return parse_duration(command, value, &c->duration_s);
	case 'i':
		c->interval_given = true;
		return parse_size(command, value, 1, ABI_MAX_INTERVAL,
				  "'%s' is not a sampling interval: 1 to 4G bytes, as in 512K",
				  &c->capture.interval);
	case 'o':
		if (!*value)
			return usage_error(command, "the output prefix is empty");
		if (!strcmp(value, "-")) {
			c->to_stdout = true;
			return 0;
		}
		c->output = value;
		/* a directory: its files are not to be hidden ones */
		if (value[strlen(value) - 1] == '/') {
			if (asprintf(&path, "%smemtrace", value) < 0)
				return no_memory();
			c->output = path; /* for good */
		}
		c->output_given = true;
		return 0;
	case 'f':
		c->format_given = true;
		return parse_formats(command, value, c);
	case TRACE_OPT_PROBE_KIND:
		return parse_probe_kind(command, value, &c->capture.kind);
	case TRACE_OPT_ALLOC:
	case TRACE_OPT_FREE:
		rc = add_alloc_option(&c->extra, command, value, opt == TRACE_OPT_FREE);
		c->capture.extra = c->extra.list;
		c->capture.n_extra = c->extra.n;
		return rc;
	case TRACE_OPT_MAX_LIVE:
		return parse_limit(command, value, 1, 1U << 30, "'%s' is not a number of samples",
				   &c->capture.max_live);
	case TRACE_OPT_MAX_STACKS:
		rc = parse_limit(command, value, 1, 1U << 24, "'%s' is not a number of stacks",
				 &c->capture.max_stacks);
		c->capture.max_sites = c->capture.max_stacks * 2;
		return rc;
	case TRACE_OPT_MAX_FRAMES:
		return parse_limit(command, value, 2, ABI_STACK_FRAMES,
				   "'%s' is not a number of frames from 2 to 127",
				   &c->capture.max_frames);
	case TRACE_OPT_MAX_UNWIND:
		return parse_size(command, value, 64 << 10, 1ULL << 36,
				  "'%s' is not a size for unwind tables: 64K to 64G bytes",
				  &c->capture.max_unwind);
	case TRACE_OPT_MAX_SYMBOLS:
		return parse_size(command, value, 1, 1ULL << 40,
				  "'%s' is not a size for symbol tables: 1 to 1024G bytes",
				  &c->symbolize.max_bytes);
	case TRACE_OPT_NO_DEMANGLE:
		c->symbolize.raw_names = true;
		return 0;
	case TRACE_OPT_NO_INLINE:
		c->symbolize.no_lines = true;
		return 0;
	case 'a':
		return selection_config__take(&c->selection, command, "all", NULL);
	case 'F':
		return selection_config__take(&c->selection, command, "follow", NULL);
	case TRACE_OPT_COMM:
	case TRACE_OPT_EXE:
	case TRACE_OPT_USER:
	case TRACE_OPT_CGROUP:
	case TRACE_OPT_CONTAINER:
		return selection_config__take(&c->selection, command,
					      selections[opt - TRACE_OPT_COMM], value);
	case TRACE_OPT_WHAT:
		c->what_given = true;
		return parse_what(command, value, c);
	case TRACE_OPT_REGIONS_AT:
		return parse_place(command, value, &c->region_place);
	case TRACE_OPT_MAX_OVERHEAD:
		return take_overhead(c, command, value);
	case TRACE_OPT_MAX_HOST_OVERHEAD:
		c->host_overhead_given = true;
		return parse_overhead(command, value, &c->max_host_overhead);
	case TRACE_OPT_LEAKS:
		c->leaks = true;
		return 0;
	case TRACE_OPT_NO_RETURN_PROBES:
		c->no_returns = true;
		return 0;
	case TRACE_OPT_WINDOW_PERIOD: /* for tests, in ms: a thousand windows in a minute */
		if (parse_count(value, 10, 10000, &c->window_period_ms))
			return usage_error(command, "'%s' is not 10 to 10000 ms", value);
		return 0;
	case ':':
		return usage_error(command, "%s needs a value", argv[optind - 1]);
	default:
		return unknown_option(command, argv);
	}
}

int trace_config__settle(struct trace_config *c, const char *command, bool starts_program)
{
	if (c->host_overhead_given && !c->selection.given && c->n_pids <= SESSION_SEPARATE)
		return usage_error(
			command,
			"--max-host-overhead is for many processes together (-a, --comm ..., more than %d "
			"pids); for each by itself there is --max-overhead",
			SESSION_SEPARATE);
	if (c->leaks && !c->interval_given)
		c->capture.interval = LEAKS_INTERVAL;
	/* Who asks for every allocation wants no windows. Nor does who starts a program under a
	 * profiler, which slows nobody else; but with a selection the probes are in everybody's
	 * code. */
	if (!c->overhead_given &&
	    (c->capture.interval == 1 || (starts_program && !c->selection.given)))
		c->max_overhead = 0;
	return 0;
}

struct session_options trace_config__session_options(const struct trace_config *c)
{
	return (struct session_options){
		.what = c->what,
		.regions_if_easy = c->leaks && !c->what_given,
		.region_place = c->region_place,
		.no_returns = c->no_returns,
		.selection = c->selection.given ? &c->selection.selection : NULL,
		.pids = c->pids,
		.n_pids = c->n_pids,
		.planned_s = c->duration_s,
		.max_overhead = c->max_overhead,
		.max_steady_overhead = c->max_steady_overhead,
		.overhead_given = c->overhead_given,
		.max_host_overhead = c->max_host_overhead,
		.window_period_ns = c->window_period_ms * 1000000,
		.interval_given = c->interval_given,
		.capture = c->capture,
		.symbolize = c->symbolize,
	};
}

void trace_config__say_missing(const struct trace_config *c, const struct session *s)
{
	size_t n;
	const struct capture_probe *probes = session__probes(s, &n);

	if (session__no_returns(s) && !c->no_returns && c->what & WHAT_HEAP)
		complain("no return probes: %s. What calls return is read at the functions' ret "
			 "instructions, which costs more",
			 session__no_returns(s));
	for (size_t i = 0; i < c->extra.n; i++) {
		bool found = false;

		for (size_t j = 0; j < n; j++)
			found = found || probes[j].point->name == c->extra.list[i].symbol;
		if (!found)
			complain("no file %s is mapped (yet): %s is awaited there",
				 c->extra.list[i].file, c->extra.list[i].symbol);
	}
}

void say_refused(const struct session *s, size_t *told)
{
	size_t n;
	const struct capture_refusal *refusals = session__refusals(s, &n);

	for (; *told < n; ++*told)
		complain("%s", refusals[*told].text);
}

void say_withdrawn(const struct session *s, struct withdrawn_told *told)
{
	double seconds;
	size_t n = session__withdrawals(s, &seconds);

	if (n > told->n)
		complain(
			"held up: for %.1f s the probes were taken out of all processes, so that these "
			"keep their speed (probes_withdrawn)",
			seconds - told->seconds);
	*told = (struct withdrawn_told){n, seconds};
}

int say_unguarded(void)
{
	complain(
		"the process that takes the probes out when memtrace hangs (mt-keeper) has ended, by "
		"somebody's signal or for want of memory: tracing ends here");
	return EXIT_FAILED;
}

/* --- the files --- */

bool trace_config__writes_files(const struct trace_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->format[i])
			return true;
	return false;
}

/* number: of a snapshot, "" for none. what: enum session_what. */
static char *output_path(const struct trace_config *c, pid_t pid, const char *number, unsigned what,
			 const char *extension)
{
	const char *part = what == WHAT_REGIONS ? "regions." : what == WHAT_GROWTH ? "growth." : "";
	char *path;

	return asprintf(&path, "%s.%d.%s%s%s%s", c->output, pid, number, *number ? "." : "", part,
			extension) < 0
		       ? NULL
		       : path;
}

int trace_config__check_files(const struct trace_config *c, bool with_command, struct error *err)
{
	/* a pid that is not known yet: the longest there is will do */
	const pid_t longest = 4194304;
	bool named = !with_command && !c->selection.given;
	const pid_t *pids = named ? c->pids : &longest;
	size_t n = named ? c->n_pids : 1;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < 3 * N_FORMATS; j++) {
			_cleanup_free_ char *path = NULL;
			unsigned what = WHAT_HEAP << (j / N_FORMATS);
			int rc;

			if (!c->format[j % N_FORMATS] || !(c->what & what))
				continue;
			path = output_path(c, pids[i], "", what, formats[j % N_FORMATS].extension);
			rc = path ? outfile__check(path, err)
				  : error__set(err, -ENOMEM, "out of memory");
			if (rc)
				return rc;
		}
	return 0;
}

bool trace_config__is_aside(const struct trace_config *c, const struct profile *p)
{
	return profile__is_regions(p) && !c->what_given;
}

unsigned trace_what(const struct profile *p)
{
	return profile__is_regions(p)  ? WHAT_REGIONS
	       : profile__is_growth(p) ? WHAT_GROWTH
				       : WHAT_HEAP;
}

int trace_config__write_files(const struct trace_config *c, const struct profile *p,
			      const struct view_options *view, const char *number,
			      int (*written)(void *ctx, const struct profile *profile,
					     const char *path),
			      void *ctx)
{
	int status = 0;

	for (size_t i = 0; i < N_FORMATS; i++) {
		_cleanup_free_ char *path = NULL;

		if (!c->format[i] || trace_config__is_aside(c, p))
			continue;
		path = output_path(c, p->pid, number, trace_what(p), formats[i].extension);
		if (!path)
			status = no_memory();
		else if (write_file(path, &formats[i], p, view, path))
			status = EXIT_FAILED;
		else if (written(ctx, p, path))
			status = no_memory();
	}
	return status;
}
