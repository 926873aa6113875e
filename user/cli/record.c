// SPDX-License-Identifier: BSD-2-Clause
/* memtrace record: traces, then shows and writes the results. */
#include <errno.h>
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
#include "cli/cli.h"
#include "cli/nowait.h"
#include "cli/record_internal.h"
#include "encode/encode.h"
#include "encode/text.h"
#include "session/privileges.h"
#include "session/session.h"

struct snapshot_run {
	struct record_config *config;
	int status;
};

static int write_snapshot(void *ctx, const struct profile *profile)
{
	struct snapshot_run *run = ctx;

	if (record_write_files(run->config, profile, NULL))
		run->status = EXIT_FAILED;
	return 0;
}

/* Takes a snapshot. A failure is reported at once and in the exit status; the tracing goes on. */
static int take_snapshot(struct record_config *c, struct session *s)
{
	struct snapshot_run run = {c, 0};
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
	snapshots__written(&c->snapshots);
	return rc ? EXIT_FAILED : run.status;
}

/* The context of write_victim(), which writes the profile of a process killed because memory was
 * short. */
struct victims_run {
	struct record_config *config;
	int status;
};

static int tell_victim_file(void *ctx, const struct profile *p, const char *path)
{
	(void)p;
	++*(unsigned *)ctx;
	complain("its profile: %s", path);
	return 0;
}

static int write_victim(void *ctx, const struct profile *p)
{
	struct victims_run *run = ctx;
	struct record_config *c = run->config;
	_cleanup_free_ char *comm = text_printable(p->comm);
	unsigned n_written = 0, n_wanted = 0;

	if (trace_config__is_aside(&c->trace, p))
		return 0;
	for (size_t i = 0; i < N_FORMATS; i++)
		n_wanted += c->trace.format[i];
	c->n_victims++;
	complain("pid %d (%s) was killed: out of memory", (int)p->pid, comm ? comm : "?");
	/* the call also fails if a file shows another weight than the one that was asked for */
	if (trace_config__write_files(&c->trace, p, &c->view, "", tell_victim_file, &n_written)) {
		c->victim_failed |= n_written < n_wanted;
		run->status = EXIT_FAILED;
	}
	return 0;
}

/* With --on-oom: writes the profiles of the processes killed since the last call. 0 or
 * EXIT_FAILED. */
static int take_victims(struct record_config *c, struct session *s)
{
	struct victims_run run = {c, 0};
	int rc;

	if (!c->trace.on_oom)
		return 0;
	session__expect_long_work(s, true);
	rc = session__victims(s, write_victim, &run);
	session__expect_long_work(s, false);
	if (rc)
		complain("no profile of a process that was killed: %s", strerror(-rc));
	return rc ? EXIT_FAILED : run.status;
}

/* Must the profile's files be written at the end of the run? With --on-oom, the files are there
 * already. But if one of them could not be written, all are written again: when a process was
 * killed because memory was short, there may have been no memory for a file either. */
static bool is_to_be_written(const struct record_config *c, const struct profile *p)
{
	return !c->trace.on_oom || (c->victim_failed && p->out_of_memory);
}

/* With --on-oom: prints the tables of the processes that were killed, or a line that says that none
 * was killed. */
static int show_victims(const struct record_config *c, struct session *s,
			struct profile *const *profiles, size_t n)
{
	_cleanup_free_ struct profile **victims = calloc(n + 1, sizeof(*victims));
	struct session_status st;
	size_t n_victims = 0;

	if (c->quiet)
		return 0;
	if (!victims)
		return no_memory();
	for (size_t i = 0; i < n; i++)
		if (profiles[i]->out_of_memory)
			victims[n_victims++] = profiles[i];
	if (n_victims)
		return record_write_tables(c, victims, n_victims);
	session__status(s, &st);
	if (!c->n_victims)
		complain("in %.1f s no traced process was killed because memory was short: nothing "
			 "is written",
			 st.elapsed_s);
	return 0;
}

#define LEADER_EVERY_S 10.0

struct status_line {
	bool shown;
	struct session_status last;
};

static void clear_status(struct status_line *line)
{
	if (line->shown)
		nowait__put("\r\033[K", 4);
	line->shown = false;
}

/* the line of this run */
static struct status_line status_line;

/* Complains in a line of its own, in place of the status line. */
static void complain_over_status(const char *text)
{
	clear_status(&status_line);
	nowait__complain(text);
}

/* Returns the width of the terminal, at most `most`. A status line that is wider would wrap, and
 * could not be overwritten. */
static size_t columns(size_t most)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col <= 1)
		return 80 < most ? 80 : most;
	return size.ws_col < most ? size.ws_col : most;
}

/* Adds a field to the line if the whole field fits. */
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

/* Returns " +0.1 MiB/s", or nothing if the change is not known. */
static const char *per_second(double bytes, char buf[32])
{
	char change[20];

	*buf = '\0';
	if (isfinite(bytes))
		snprintf(buf, 32, " %s/s", format_change(bytes, change));
	return buf;
}

static int show_leader(void *ctx, const struct profile *profile)
{
	static const char before[] = "memtrace: ";
	const struct record_config *config = ctx;
	_cleanup_free_ char *text = NULL;
	struct sink sink;
	FILE *stream;
	size_t size;

	if (profile__is_regions(profile) && !profile__leaks(profile))
		return 0;
	stream = open_memstream(&text, &size);
	if (!stream)
		return -ENOMEM;
	sink = sink__to_stream(stream);
	fputs(before, stream);
	encode_leader(profile,
		      &(struct table_options){.width = output_width(STDERR_FILENO) -
						       (unsigned)strlen(before),
					      .show_runtime = config->trace.show_runtime},
		      &sink);
	fputc('\n', stream);
	if (fclose(stream))
		return -ENOMEM;
	nowait__put(text, size);
	return 0;
}

/* Shows the leaks that are known before the end of the run. Returns when to show leaks again, so
 * that this takes at most a hundredth of memtrace's time. */
static double show_leaders(struct session *s, struct record_config *config)
{
	double start, took;

	session__await_gap(s);
	start = clock__monotonic_s();
	session__peek(s, show_leader, config);
	took = clock__monotonic_s() - start;
	return clock__monotonic_s() + fmax(LEADER_EVERY_S, 100 * took);
}

static void show_status(struct session *s, struct status_line *line)
{
	char text[512] = "", shown[sizeof(text) + 8], bytes[20], rate[32], cost[32];
	struct session_rates rates;
	struct session_status st;
	size_t width = columns(sizeof(text));

	session__status(s, &st);
	if (!session_status__rates(&line->last, &st, &rates))
		return;
	/* The most important fields come first: a narrow terminal loses the last ones. */
	add_field(text, width, "%.0f s%s", st.elapsed_s,
		  session__command(s) ? "" : " (Ctrl-C ends)");
	if (st.n_live)
		add_field(text, width, "  live ~%s%s", format_bytes(st.live_bytes, bytes),
			  per_second(rates.live_bytes, rate));
	/* In windows, live memory is estimated only at the end of the run. During the run the line
	 * shows the growth of anonymous memory. */
	if (st.n_grown)
		add_field(text, width, "  anonymous memory %s%s",
			  format_change(st.grown_bytes, bytes),
			  per_second(rates.grown_bytes, rate));
	if (st.overhead_pct.known) {
		format_cost(st.overhead_pct.value, st.cpu_cores, cost);
		add_field(text, width, "  cost ~%s", cost);
	}
	if (st.windowed)
		add_field(text, width, " (in windows)");
	add_field(text, width, "  alloc %.0f/s", rates.alloc_calls);
	add_field(text, width, "  free %.0f/s", rates.free_calls);
	add_field(text, width, "  samples %llu", (unsigned long long)st.samples);
	snprintf(shown, sizeof(shown), "\r\033[K%s", text);
	nowait__put(shown, strlen(shown));
	line->shown = true;
	line->last = st;
}

/* Reading the symbols of large programs takes a while, and signals are blocked meanwhile. This line
 * tells a person who has pressed Ctrl-C what memtrace does. */
static void show_ending(struct status_line *line)
{
	static const char text[] = "\r\033[Ktracing has ended; reading symbols";

	if (sizeof(text) > columns(sizeof(text)))
		return;
	nowait__put(text, sizeof(text) - 1);
	line->shown = true;
}

/* The terminal sends Ctrl-C to a traced command as well, and the command decides whether to end.
 * Another signal, such as SIGTERM, is passed on to the command. Without a command, the first signal
 * ends the tracing. A second signal always ends the tracing. Returns true if the tracing is
 * over. */
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

static int keep_snapshots(struct record_config *c, struct session *s, struct status_line *line,
			  double *ret_took_s)
{
	struct session_status st;
	double start;
	int status;

	session__status(s, &st);
	if (!snapshots__due(&c->snapshots, st.elapsed_s, st.alloc_bytes,
			    st.live_bytes + st.grown_bytes))
		return 0;
	clear_status(line);
	session__await_gap(s);
	start = clock__monotonic_s();
	session__expect_long_work(s, true);
	status = take_snapshot(c, s);
	session__expect_long_work(s, false);
	*ret_took_s = clock__monotonic_s() - start;
	return status;
}

/* Have both standard output and standard error lost their readers? This happens if an ssh
 * connection without a terminal is lost: no signal comes, so nobody would ever end the tracing. (If
 * a terminal goes away, SIGHUP comes.) fds: both streams. */
static bool is_deserted(struct pollfd fds[2], int *n_gone)
{
	for (int i = 0; i < 2; i++)
		if (fds[i].fd >= 0 && fds[i].revents) {
			fds[i].fd = -1; /* otherwise poll() would return at once again */
			++*n_gone;
		}
	return *n_gone == 2;
}

/* Traces until the end of the run. Returns 0, or EXIT_FAILED after a complaint: a file could not be
 * written, or the session was not guarded any more. */
static int run(struct record_config *c, struct session *s, int signal_fd)
{
	struct status_line *line = &status_line;
	/* If the traced command writes to the terminal, no status line is shown. */
	bool show = !c->quiet && isatty(STDERR_FILENO) && !(c->command && isatty(STDOUT_FILENO));
	double start = clock__monotonic_s(), next = start + 1, leaders = start + LEADER_EVERY_S;
	/* for the last two, the streams, poll() reports only errors */
	struct pollfd fds[4] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN},
				{.fd = isatty(STDOUT_FILENO) ? -1 : STDOUT_FILENO},
				{.fd = isatty(STDERR_FILENO) ? -1 : STDERR_FILENO}};
	double every = snapshots__look_every_s(&c->snapshots), snapshots = start + every;
	struct withdrawn_told withdrawn = {};
	uint64_t told = 0;
	int signals = 0, status = 0, n_gone = 0;
	bool over;

	for (;;) {
		double now = clock__monotonic_s(), wait = fmin(next, snapshots) - now;

		if (c->trace.duration_s > 0) {
			double left = start + c->trace.duration_s - now;

			if (left <= 0)
				break;
			wait = left < wait ? left : wait;
		}
		session__hurry(s);
		/* rounded up: otherwise the last millisecond is a busy loop */
		poll(fds, 4, wait > 0 ? (int)ceil(wait * 1000) : 0);
		if (is_deserted(fds + 2, &n_gone) && !c->command && !(c->trace.duration_s > 0))
			break;
		if ((fds[1].revents & POLLIN) && take_signal(signal_fd, s, &c->snapshots, &signals))
			break;
		over = session__dispatch(s);
		say_refused(s, &told);
		say_withdrawn(s, &withdrawn);
		if (!session__is_guarded(s))
			status = say_unguarded();
		if (take_victims(c, s))
			status = EXIT_FAILED;
		if (over || !session__is_guarded(s))
			break;
		if (c->snapshots.asked || clock__monotonic_s() >= snapshots) {
			double took = 0;

			if (keep_snapshots(c, s, line, &took))
				status = EXIT_FAILED;
			/* The next check comes so late that snapshots take at most a tenth of the
			 * time. If several snapshots become due before the check, only one is
			 * made. */
			snapshots = clock__monotonic_s() + fmax(every, 10 * took);
		}
		if (c->trace.leaks && !c->quiet && !c->trace.selection.given &&
		    clock__monotonic_s() >= leaders) {
			clear_status(line);
			leaders = show_leaders(s, c);
		}
		if (clock__monotonic_s() >= next) {
			next = clock__monotonic_s() + 1;
			if (show) {
				show_status(s, line);
			} else {
				/* the call keeps the CPU times fresh */
				struct session_status ignored;

				session__status(s, &ignored);
			}
		}
	}
	clear_status(line);
	say_refused(s, &told); /* a run may end before the loop has reported refused probes */
	if (show)
		show_ending(line);
	return status;
}

/* Returns the exit status by which a shell tells how a command ended. */
static int exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* Waits for the command, because whoever has called memtrace expects memtrace to last as long as
 * the command. The tracing is over, but the command may still run. */
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
		    info.ssi_signo != SIGUSR1 &&
		    (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL) && session__command(s))
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
	trace_config__say_missing(&c->trace, s);
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

/* Reports as a failure that no process was traced. Otherwise a script that names a missing process
 * would take an empty profile for a good one. */
static int say_nothing_traced(const struct record_config *c, struct session *s)
{
	struct session_status st;
	char wanted[512];

	session__status(s, &st);
	selection_config__describe(&c->trace.selection, wanted, sizeof(wanted));
	complain("nothing was traced: no process matched%s%s in %.1f s", *wanted ? " " : "", wanted,
		 st.elapsed_s);
	return EXIT_FAILED;
}

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

static volatile sig_atomic_t asked_early; /* SIGUSR1 came before there was a session */

static void ask_early(int signal)
{
	(void)signal;
	asked_early = true;
}

/* If the user has not asked for files, and none can be written here, the table is still wanted. */
static bool does_without_files(struct record_config *c, const struct error *why)
{
	const struct trace_config *t = &c->trace;
	struct error ignored = {};

	if (t->output_given || t->format_given || t->on_oom ||
	    isfinite(snapshots__look_every_s(&c->snapshots)))
		return false;
	memset(c->trace.format, 0, sizeof(c->trace.format));
	if (record_check_outputs(c, &ignored))
		return false;
	complain("%s. No files are written; -o DIR/ would write them there", why->text);
	return true;
}

/* Forks the command, gives up the privileges that memtrace does not need, and checks if tracing and
 * writing are possible. The command is forked first, so it keeps all privileges. */
static int begin(struct record_config *c, struct launch *launch, struct error *err)
{
	struct privileges_use use = {.command = c->command};
	int rc;

	if (c->command && launch__fork(c->command, launch, err))
		return err->code;
	nowait__begin();
	rc = privileges__limit(PRIVILEGES_OPENING, &use, err) ?: privileges__begin_files(err);
	/* This check comes before the check of the files. Otherwise a user who cannot trace would
	 * get a message about a file that only root may write. */
	if (!rc)
		rc = session__check_machine(err);
	if (rc)
		return rc;
	rc = record_check_outputs(c, err);
	/* In another user's directory root needs CAP_DAC_OVERRIDE. memtrace keeps it only in this
	 * case. */
	if (privileges__override(rc == -EACCES) && rc == -EACCES) {
		*err = (struct error){};
		rc = record_check_outputs(c, err);
	}
	if (rc && does_without_files(c, err)) {
		*err = (struct error){};
		rc = 0;
	}
	return rc;
}

int cmd_record(int argc, char **argv)
{
	static struct record_config config;
	_cleanup_(launch__kill) struct launch launch = {};
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_close_ int signal_fd = -1;
	struct session_options options;
	struct profile *const *profiles;
	struct error err = {};
	size_t n_profiles;
	int status, wait_status = EXIT_FAILED << 8;
	sigset_t signals;

	trace_config__init(&config.trace);
	status = record_parse_options(argc, argv, &config);
	if (status)
		return status;
	if (begin(&config, &launch, &err))
		return fail(&err);
	if (selection_config__open(&config.trace.selection, &err))
		return fail(&err);

	record_choose_output(&config);
	options = trace_config__session_options(&config.trace);
	options.command = config.command;
	options.launch = &launch;
	options.regions_if_easy |= config.more.resident && !config.trace.what_given;
	options.resident = config.more.resident;
	options.large = true;
	options.blocks = config.why || config.trace.heap || config.more.resident;
	options.ret_command_status = &wait_status;
	/* SIGUSR1 gets a handler and is not blocked, because the command would inherit a blocked
	 * signal. It does not inherit a handler. */
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ask_early, .sa_flags = SA_RESTART},
		  NULL);
	switch (session__open(&options, &session, &err)) {
	case 0:
		break;
	case -ECHILD:
		fail(&err);
		return exit_status(wait_status);
	default:
		return fail(&err);
	}

	/* From here on a signal ends the tracing, not memtrace: nothing captured may be lost. The
	 * signals are blocked only now, because the command must not inherit the mask. */
	end_signals(&signals);
	sigaddset(&signals, SIGUSR1);
	signal_fd = take_signals(&signals);
	if (signal_fd < 0)
		return EXIT_FAILED;
	record_why__begin(&config, session);
	if (session__start(session, &err))
		return fail(&err);
	/* As long as probes are in place, memtrace must never block. Nor may it block before the
	 * files are written: signals are blocked, and only SIGKILL would end it. */
	complain_to(complain_over_status);
	say_start(&config, session); /* says that tracing has begun */
	config.snapshots.asked = asked_early;
	status = run(&config, session, signal_fd);
	session__stop(session);
	if (take_victims(&config, session))
		status = EXIT_FAILED;

	if (session__profiles(session, &profiles, &n_profiles, &err)) {
		status = fail(&err);
	} else {
		bool json_is_file = record_json_is_file(&config);

		record_why__ask(&config, profiles, n_profiles, signal_fd);
		if (record_heap__look(&config, profiles, n_profiles, signal_fd))
			status = no_memory();
		for (size_t i = 0; i < n_profiles; i++)
			if (is_to_be_written(&config, profiles[i]) &&
			    record_write_files(&config, profiles[i], profiles[i]))
				status = EXIT_FAILED;
		if (json_is_file && record_write_json(&config, profiles, n_profiles))
			status = EXIT_FAILED;
		/* All files are written. From here on, memtrace may wait for a reader, and a signal
		 * ends it. */
		clear_status(&status_line);
		complain_to(NULL);
		if (!session__command(session))
			release_signals(signal_fd, &signals);
		if (config.json && !json_is_file &&
		    record_write_json(&config, profiles, n_profiles))
			status = EXIT_FAILED;
		if (config.parts_dir && record_write_parts(&config, session))
			status = EXIT_FAILED;
		if (!session__met(session))
			status = say_nothing_traced(&config, session);
		else if (config.trace.on_oom &&
			 show_victims(&config, session, profiles, n_profiles))
			status = EXIT_FAILED;
		else if (!config.trace.on_oom && !config.json && !config.quiet &&
			 record_write_tables(&config, profiles, n_profiles))
			status = EXIT_FAILED;
	}
	record_heap__clear(&config);
	session__detach(session);
	if (config.command) {
		int command_status = wait_command(session, signal_fd);

		if (!status)
			status = command_status;
	}
	return status;
}
