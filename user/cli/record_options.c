// SPDX-License-Identifier: BSD-2-Clause
/* What memtrace record is asked for. */
#include "cli/record_internal.h"

#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cli/cli.h"

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
	"                             how long that lived\n"
	"      --modules FILE         live memory by component, too, by that file's rules\n"
	"      --threads[=each]       who allocated, who freed whose memory, who owns it: by pools of\n"
	"                             threads, or each\n"
	"      --sites                by stack: allocated, freed, lowest, current and highest\n"
	"                             (these two: of what is traced continuously)\n"
	"      --lifetimes            by stack: how old objects were when they were freed\n"
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

int record_parse_options(int argc, char **argv, struct record_config *c)
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
	while ((opt = getopt_long(argc, argv, "+:" TRACE_SHORT_OPTIONS "n:qvh", options, NULL)) !=
	       -1) {
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
				return usage_error("record",
						   "--threads or --threads=each, not '%s'", optarg);
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
			rc = take_view_option(&c->view, "record", opt == OPT_BY ? "by" : "weight",
					      optarg);
			c->weight_given |= opt == OPT_WEIGHT;
			if (rc)
				return rc;
			break;
		case OPT_EVERY:
			if (snapshots__parse_every(&c->snapshots, optarg))
				return usage_error(
					"record",
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
	if (c->trace.selection.selection.dynamic && !c->trace.output_given &&
	    !c->trace.format_given)
		memset(c->trace.format, 0, sizeof(c->trace.format));
	if (isfinite(snapshots__look_every_s(&c->snapshots)) &&
	    !trace_config__writes_files(&c->trace))
		return usage_error("record", "snapshots in which format? -f LIST");
	c->view.modules = c->modules;
	if (view_options__contradiction(&c->view))
		return usage_error("record", "%s", view_options__contradiction(&c->view));
	if (c->view.root != ROOT_NONE && !shows_views(c))
		return usage_error("record", "--by is for -f collapsed and svg");
	if (c->weight_given && c->trace.leaks)
		return usage_error("record",
				   "--leaks orders the table by growth: either that or --weight");
	if (c->churn && (c->trace.leaks || c->weight_given))
		return usage_error("record", "one table: --churn, --leaks or --weight");
	if (c->churn && !(c->trace.what & WHAT_HEAP))
		return usage_error("record", "--churn tells of the heap: --what heap");
	if (c->churn && c->trace.selection.given)
		return usage_error(
			"record",
			"--churn shows what is in one process: name it by -p, or run a command");
	if (c->modules && c->trace.selection.given)
		return usage_error(
			"record",
			"--modules shows what is in one process: name it by -p, or run a command");
	if (c->resident && c->trace.selection.given)
		return usage_error(
			"record",
			"--rss shows what is in one process: name it by -p, or run a command");
	if ((c->threads || c->sites || c->lifetimes) && !(c->trace.what & WHAT_HEAP))
		return usage_error(
			"record",
			"--threads, --sites and --lifetimes tell of the heap: --what heap");
	if (c->command && c->trace.n_pids)
		return usage_error("record", "either -p or a command, not both");
	return 0;
}
