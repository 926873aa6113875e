// SPDX-License-Identifier: BSD-2-Clause
/* memtrace check: says in plain words what would work here, what could go wrong, and what tracing
 * would cost. */
#include <errno.h>
#include <getopt.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "encode/encode.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "session/privileges.h"
#include "session/session.h"

static const char *const kind_words[PROBE_KINDS] = {
	[PROBE_SESSION] = "session uprobes (Linux 6.13): one trap per call, a second one only for "
			  "sampled calls",
	[PROBE_MULTI] = "uprobe_multi (Linux 6.6): every allocating call traps twice, entry and "
			"return",
	[PROBE_PERF] = "perf uprobes (Linux 5.15): as uprobe_multi, slower to attach and detach",
};

static void print_privileges(const char *missing)
{
	if (*missing) {
		printf("  NO   privileges: missing %s; run as root of the host, or with %s\n",
		       missing, privileges_without_root);
		return;
	}
	puts("  yes  privileges");
	if (!privileges__have(CAP_DAC_READ_SEARCH))
		puts("  no   CAP_DAC_READ_SEARCH: memtrace cannot read what only another user may "
		     "read of their processes and files");
	if (!privileges__have(CAP_SYS_NICE))
		puts("  no   CAP_SYS_NICE: on a busy machine targets wait longer while probes come "
		     "and go");
}

static void print_kernel(const struct features *f, const char *missing, bool privileged)
{
	struct utsname name = {};
	bool chosen = false;

	uname(&name);
	printf("Kernel: %s %s\n", name.release, name.machine);
	print_privileges(missing);
	if (f->btf)
		puts("  yes  BTF (/sys/kernel/btf/vmlinux)");
	else
		puts("  NO   BTF: this kernel was built without CONFIG_DEBUG_INFO_BTF, or "
		     "/sys/kernel/btf/vmlinux is not readable");
	for (int kind = 0; kind < PROBE_KINDS; kind++) {
		bool works = !f->kind[kind];

		printf("  %s  %s", works ? "yes" : "no ", kind_words[kind]);
		if (!works)
			printf(": %s", f->multi_one_thread && kind == PROBE_MULTI
					       ? "its pid filter sees only one thread here"
				       : kind == PROBE_PERF && f->kind[kind] == -EACCES
					       ? PERF_REFUSED
					       : strerror(-f->kind[kind]));
		else if (!chosen)
			printf("  <- used");
		putchar('\n');
		chosen = chosen || works;
	}
	if (privileged && f->tables)
		puts("  yes  stacks by unwind tables (Linux 5.17): whole without frame pointers");
	else if (privileged)
		puts("  no   stacks by unwind tables (Linux 5.17): stacks need frame pointers, "
		     "which most distributions compile without");
	if (!chosen)
		puts("  No kind of probe works: nothing can be traced here.");
}

static void print_hazards(const struct features *f)
{
	bool session = !f->kind[PROBE_SESSION];

	puts("Hazards of this kernel:");
	if (!f->init_pid_ns)
		puts("  - memtrace runs inside a pid namespace: the kernel side knows processes by "
		     "other numbers, and nothing would be counted. Run it on the host, or in a "
		     "container with the host's pids.");
	if (f->multi_one_thread)
		puts("  - the pid filter of uprobe_multi sees one thread of a process only (fixed "
		     "in "
		     "6.6.35 and 6.9.5): perf uprobes are used instead.");
	if (f->seccomp_kills) /* memtrace uses no return probes: see below */
		;
	else if (session)
		puts("  - return probes touch only sampled calls here.");
	else if (!f->kind[PROBE_MULTI] || !f->kind[PROBE_PERF])
		puts("  - every allocating call goes through a return probe: while one is in "
		     "place, unwinding out of malloc (from a signal handler that throws) can fail "
		     "in the target.");
	if (f->seccomp_kills)
		puts("  - return probes are system calls here, and a seccomp filter that does not "
		     "know them kills the process (Linux 6.11 to 6.13 without the fix of early "
		     "2025; tried on a child of memtrace's own). So memtrace uses no return "
		     "probes: it reads return values at the ret instructions, which costs more.");
	if (f->shadow_stacks_kill)
		puts("  - return probes kill a process that has a shadow stack (fixed in 6.11): "
		     "if a traced process has one, memtrace uses no return probes.");
	puts("  - functions that throw (operator new) never get a return probe from memtrace.");
}

static void print_footprint(void)
{
	static const char *const names[] = {"-p", "-a, --comm, ..."};
	int cpus = capture__cpus();

	printf("Kernel memory for tables and buffers, with %d possible CPU%s:\n", cpus,
	       cpus == 1 ? "" : "s");
	for (int everywhere = 0; everywhere < 2; everywhere++) {
		char at_once[20], for_cpus[20], at_most[20];
		struct capture_footprint sum;
		uint32_t processes;

		if (session__footprint(everywhere, cpus, &sum, &processes))
			continue;
		printf("  %-16s %s at once, %s of it for the CPUs; %s when all tables are full; "
		       "%u processes at a time\n",
		       names[everywhere], format_bytes(sum.at_once, at_once),
		       format_bytes(sum.for_cpus, for_cpus), format_bytes(sum.at_most, at_most),
		       processes);
	}
}

/* For a pool whose code the compiler has copied to hundreds of places: prints the number of these
 * copies, and the mean cost of a probe hit there. frees: counts the copies that release a block;
 * false: counts those that allocate one. */
static void print_copies(const struct allocator *a, const struct session_plan *plan, bool frees)
{
	unsigned int n = 0, emulated = 0;
	double ns = 0;

	for (size_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *p = &a->points[i];

		if (abi_role__frees(p->func.role) != frees)
			continue;
		n++;
		emulated += p->site.emulated;
		ns += calibration__cost_ns(&plan->calibration, p);
	}
	printf("    %s of a block: copied to %u places, of which %u emulated %7.0f ns\n",
	       frees ? "release" : "allocation", n, emulated, n ? ns / n : 0);
}

static bool is_copied(const struct allocator *a)
{
	for (size_t i = 0; i < a->n_points; i++)
		if (a->points[i].func.role == ROLE_TAKEN)
			return true;
	return false;
}

/* Prints the markers by which the program reports its own samples. */
static void print_markers(const struct allocator *a, const struct session_plan *plan)
{
	printf("  the program takes samples itself, and reports them by markers in %s\n",
	       printable(a->path));
	printf("  probes (%s), and what one report costs with a probe, without the walk of its "
	       "stack:\n",
	       probe_kind__name(plan->kind));
	for (size_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *p = &a->points[i];
		double ns = calibration__cost_ns(&plan->calibration, p);

		if (!abi_role__frees(p->func.role))
			ns += plan->calibration.sample_ns;
		printf("    %-18s at 0x%-14llx %-14s %7.0f ns, %s\n", p->name,
		       (unsigned long long)p->func.vaddr, p->site.emulated ? "emulated" : "nop", ns,
		       p->semaphore ? "with a semaphore" : "without a semaphore");
	}
}

static void print_allocator(const struct allocator *a, const struct session_plan *plan)
{
	bool copied = is_copied(a);

	printf("  allocator: %s, in %s\n", a->family, printable(a->path));
	if (a->reported) {
		puts("  not probed: the program reports samples of its blocks itself");
		return;
	}
	if (alloc_family__is_request(a->family))
		printf("  PHP's command line is probed in any run with -p, its servers only where "
		       "nothing limits tracing: --max-overhead off, -i 1\n");
	else if (alloc_family__is_pool(a->family) && !alloc_family__is_language(a->family))
		printf("  probed only where nothing limits tracing: --max-overhead off, -i 1, or "
		       "memtrace -- COMMAND\n");
	printf("  probes (%s), and what one call costs with a probe:\n",
	       probe_kind__name(plan->kind));
	if (copied) {
		print_copies(a, plan, false);
		print_copies(a, plan, true);
	}
	for (size_t i = 0; i < a->n_points && !copied; i++) {
		const struct alloc_point *p = &a->points[i];
		double ns = calibration__cost_ns(&plan->calibration, p);

		printf("    %-16s +%-3u %-34.34s %-14s %7.0f ns%s\n", p->name, p->site.delta,
		       p->site.instruction,
		       p->site.emulated ? "emulated"
		       : p->site.nop	? "nop"
					: "single-stepped",
		       ns, p->func.exits ? ", with its exits" : "");
		if (p->site.why[0])
			printf("%23s%s\n", "", p->site.why);
	}
	printf("    a call at least a millisecond after the call before it costs %.0f ns more\n",
	       plan->calibration.rare_ns);
}

static void print_regions(const struct session_plan *plan)
{
	const struct region_calibration *cost = &plan->region_calibration;

	if (plan->regions->syscalls)
		printf("  regions (--what regions): at the system calls' tracepoints; %s\n",
		       plan->regions->why);
	else
		printf("  regions (--what regions): at mmap, munmap, mremap and brk of %s\n",
		       printable(plan->regions->path));
	if (!plan->regions_calibrated)
		puts("    the cost of tracing regions could not be measured");
	else if (plan->regions->syscalls)
		printf("    such a call takes %.0f ns longer, any other system call of the machine "
		       "%.0f ns\n",
		       cost->syscall_call_ns, cost->syscall_other_ns);
	else
		printf("    such a call takes %.0f ns longer (at the system calls %.0f, and any "
		       "other one of the machine %.0f)\n",
		       cost->libc_call_ns, cost->syscall_call_ns, cost->syscall_other_ns);
}

/* For each function that the user named, says whether it can be probed. Copies those that can be
 * probed to `list`, to which *capture then points. Returns the command's status. */
static int print_named(pid_t pid, const struct alloc_options *named, struct alloc_extra *list,
		       struct capture_options *capture)
{
	int status = 0, rc;
	struct maps maps;

	if (!named->n)
		return 0;
	rc = maps__read(pid, &maps);
	if (rc) {
		complain("cannot search for the functions that you named: the mappings of pid %d "
			 "cannot be read: %s",
			 pid, strerror(-rc));
		return EXIT_FAILED;
	}
	capture->extra = list;
	for (size_t i = 0; i < named->n; i++) {
		const struct alloc_extra *extra = &named->list[i];
		const struct map_entry *entry;
		struct error err = {};

		rc = alloc_extra__locate(extra, pid, &maps, &entry, &err);

		printf("  %s %s:%s: ",
		       extra->func.role == ROLE_FREE	   ? "--free"
		       : extra->func.role == ROLE_POOL_END ? "--end"
							   : "--alloc",
		       extra->file, extra->symbol);
		if (!rc) {
			printf("found in %s\n", printable(entry->path));
			list[capture->n_extra++] = *extra;
		} else if (rc == -ENXIO) {
			printf("%s: the function will be probed when the file is mapped\n",
			       printable(err.text));
		} else {
			printf("NOT FOUND: %s\n", printable(err.text));
			status = EXIT_FAILED;
		}
	}
	maps__free(&maps);
	return status;
}

static int print_process(pid_t pid, const struct alloc_options *named,
			 struct capture_options *options)
{
	_cleanup_free_ struct alloc_extra *list = calloc(MAX_EXTRA, sizeof(*list));
	struct session_plan plan = {};
	struct process_info info = {};
	struct error err = {};
	int status;

	fflush(stdout); /* the text on stdout must come before the text on stderr */
	if (!list)
		error__set(&err, -ENOMEM, "out of memory");
	if (err.code || session__check_alone(pid, &err))
		return fail(&err);
	process__read(pid, &info);
	printf("Process %d (%s), %u thread%s:\n", pid, printable(info.comm), info.threads,
	       info.threads == 1 ? "" : "s");
	status = print_named(pid, named, list, options);
	fflush(stdout);
	if (session__plan(pid, options, &plan, &err))
		return fail(&err);
	print_regions(&plan);
	if (!plan.allocators) {
		session_plan__clear(&plan);
		fflush(stdout);
		return fail(&plan.no_allocator);
	}
	for (size_t i = 0; i < plan.allocators->n; i++)
		if (!strcmp(plan.allocators->list[i]->family, ALLOC_MARKERS))
			print_markers(plan.allocators->list[i], &plan);
		else
			print_allocator(plan.allocators->list[i], &plan);
	if (plan.allocators->markers_why[0])
		printf("  NOT USED: %s\n", printable(plan.allocators->markers_why));
	if (plan.allocators->unseen.family)
		printf("  NOT SEEN: %s\n", printable(plan.allocators->unseen.text));
	puts("  A program that makes N such pairs of calls a second loses about N times their "
	     "cost\n"
	     "  of each second; sampling makes the rest of the work cheap, not the probe itself.");
	session_plan__clear(&plan);
	return status;
}

/* stores the value of --alloc, --free and --end */
TAKE_OPTION(function)
{
	return add_alloc_option(config, command, row->name, value);
}

static const struct option_row rows[] = {
	{"alloc", .arg = "FILE:FUNCTION(size=N)->ret", .take = take_function,
	 .help = "a function of your own allocator, as memtrace record takes it",
	 .man = "memtrace(1) explains how to write it. Needs a PID. May be given several times."},
	{"free", .arg = "FILE:FUNCTION(ptr=N)", .take = take_function,
	 .help = "a function that frees",
	 .man = "memtrace(1) explains how to write it. Needs a PID. May be given several times."},
	{"end", .arg = "FILE:FUNCTION(pool=N)", .take = take_function,
	 .help = "a function that frees all blocks of a pool",
	 .man = "memtrace(1) explains how to write it. Needs a PID. May be given several times."},
	{},
};

static const struct option_group groups[] = {{"What to look for", rows, 0, OPTIONS_USUAL}, {}};

const struct command command_check = {
	.name = "check",
	.run = cmd_check,
	.summary = "what this kernel offers, and what tracing a process would do",
	.usage = "check [OPTIONS] [PID]",
	.about = "Says what this kernel offers for tracing and which known hazards it has. For a "
		 "PID it also says which allocator the process uses, where each probe would sit "
		 "and what a call would cost there, measured on a child of memtrace's own. Changes "
		 "nothing in any process.",
	.groups = groups,
};

int cmd_check(int argc, char **argv)
{
	struct capture_options capture_options = {.interval = DEFAULT_INTERVAL, .kind = -1};
	static struct alloc_options named;
	struct features features;
	struct error err = {};
	char missing[256];
	bool privileged;
	uint64_t pid = 0;
	int rc;

	rc = command__parse(&command_check, &named, argc, argv);
	if (rc)
		return rc;
	if (argc - optind > 1)
		return usage_error("check", "one pid at most");
	if (optind < argc && parse_count(argv[optind], 1, INT32_MAX, &pid))
		return usage_error("check", "'%s' is not a pid", argv[optind]);
	if (named.n && !pid)
		return usage_error("check", "--alloc, --free and --end are looked for in a "
					    "process: give its pid");

	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    privileges__begin_files(&err))
		return fail(&err);
	privileges__override(false);
	privileged = !privileges__missing(missing, sizeof(missing));
	features__probe(&features);
	print_kernel(&features, missing, privileged);
	print_hazards(&features);
	print_footprint();
	if (!privileged || !features.btf)
		return EXIT_FAILED;
	for (int kind = 0; kind < PROBE_KINDS; kind++)
		if (!features.kind[kind])
			return end_output(pid ? print_process((pid_t)pid, &named, &capture_options)
					      : 0);
	return EXIT_FAILED;
}
