// SPDX-License-Identifier: BSD-2-Clause
/* memtrace top: shows which stacks hold memory, and keeps the screen up to date. It traces with the
 * same kind of session as memtrace record. top_view.h makes the screen's text, and terminal.h shows
 * it. This file has the loop that connects the three. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/nowait.h"
#include "cli/snapshots.h"
#include "cli/terminal.h"
#include "cli/top_view.h"
#include "cli/trace_options.h"
#include "session/privileges.h"
#include "session/session.h"

#define LOOK_SHARE 0.05 /* at most this share of memtrace's time goes to updates of the screen */

struct top_config {
	struct trace_config trace;
	double delay_s;
};

struct run {
	struct top_config *config;
	struct session *session;
	struct top_view *view;
	struct snapshots snapshots;
	struct session_status last;
	bool ended; /* all targets have ended: the screen does not change any more */
};

/* While the screen is shown, complaints go to its last line. */
static struct top_view *hearing;

static void hear(const char *text)
{
	top_view__say(hearing, true, "%s", text);
}

TAKE_OPTION(delay)
{
	struct top_config *c = config;
	char *end;

	(void)row;
	c->delay_s = strtod(value, &end);
	if (end == value || *end || !(c->delay_s >= 0.1 && c->delay_s <= 3600))
		return usage_error(command, "'%s' is not a delay: 0.1 to 3600 seconds", value);
	return 0;
}

static const struct option_row delay_rows[] = {
	{"delay", .arg = "SECONDS", .by_default = "1", .take = take_delay,
	 .help = "how often the screen is updated",
	 .man = "0.1 to 3600. If reading the kernel's tables takes long, stacks are updated less "
		"often."},
	{},
};

#define OF_TRACE offsetof(struct top_config, trace)
static const struct option_group groups[] = {
	{"What to trace", trace_target_rows, OF_TRACE, OPTIONS_USUAL},
	{"How", trace_how_rows, OF_TRACE, OPTIONS_USUAL},
	{"Output", delay_rows, 0, OPTIONS_USUAL},
	{"Output", trace_output_rows, OF_TRACE, OPTIONS_USUAL},
	{"Views", trace_view_rows, OF_TRACE, OPTIONS_USUAL},
	{"Rarely needed", trace_rare_rows, OF_TRACE, OPTIONS_RARE},
	{"Rarely needed", trace_where_rows, OF_TRACE, OPTIONS_RARE},
	{"Debugging", trace_debug_rows, OF_TRACE, OPTIONS_DEBUG},
	{},
};

const struct command command_top = {
	.name = "top",
	.run = cmd_top,
	.summary = "which stacks hold memory, live on the screen",
	.usage = "top -p PID[,PID...] [OPTIONS]\n"
		 "top -a|--comm NAME|... [OPTIONS]",
	.about = "Shows live on the screen which stacks hold memory: by live bytes, by growth or "
		 "by allocation rate, of one process, or of the one that is chosen among several. "
		 "The key ? lists all keys, q quits. The key w, or SIGUSR1, writes files like the "
		 "snapshots of record. --leaks begins with the stacks that grow.",
	.groups = groups,
	.status = "Exit status: 0, 1 (failed), 2 (usage).",
	.stops = true,
};

static int parse_options(int argc, char **argv, struct top_config *c)
{
	int rc = command__parse(&command_top, c, argc, argv);

	if (rc)
		return rc;
	if (optind < argc && is_another_pid(&c->trace, argv[optind]))
		return usage_error("top", MORE_PIDS);
	if (optind < argc)
		return usage_error(
			"top",
			"'%s' is not an option, and top starts no commands: start it, and give its "
			"pid with -p",
			argv[optind]);
	if (!c->trace.n_pids && !c->trace.selection.selection.dynamic)
		return usage_error("top", "which process? -p PID, or -a");
	if (c->trace.to_stdout)
		return usage_error(
			"top",
			"-o - works for record only: top needs standard output for its screen");
	return trace_config__settle(&c->trace, "top", false);
}

static void take_status(struct run *run)
{
	struct session_rates rates = {};
	struct session_status now;

	session__status(run->session, &now);
	if (!session_status__rates(&run->last, &now, &rates) && !run->ended)
		return;
	top_view__set_status(run->view, &(struct top_status){.elapsed_s = now.elapsed_s,
							     .overhead_pct = now.overhead_pct,
							     .cpu_cores = now.cpu_cores,
							     .running = now.running,
							     .windowed = now.windowed,
							     .alloc_per_s = rates.alloc_calls,
							     .free_per_s = rates.free_calls,
							     .ended = run->ended});
	run->last = now;
}

/* Reads a new state for the screen. Returns when the next one may be read. */
static double look(struct run *run)
{
	struct profile **profiles;
	size_t n, kept = 0;
	double start, took;
	int rc;

	session__await_gap(run->session);
	start = clock__monotonic_s();
	/* the status is read first, because its elapsed_s becomes the time of the new state */
	take_status(run);
	rc = session__look(run->session, &profiles, &n);
	if (!rc) {
		for (size_t i = 0; i < n; i++) {
			if (trace_config__is_aside(&run->config->trace, profiles[i]) &&
			    !profile__leaks(profiles[i]))
				profile__free(profiles[i]);
			else
				profiles[kept++] = profiles[i];
		}
		rc = top_view__update(run->view, profiles, kept, run->last.elapsed_s);
	}
	if (rc)
		top_view__say(run->view, true, "cannot update: %s", strerror(-rc));
	took = clock__monotonic_s() - start;
	return clock__monotonic_s() + fmax(run->config->delay_s, took / LOOK_SHARE);
}

static int name_file(void *names, const struct profile *profile, const char *path)
{
	(void)profile;
	return fprintf(names, " %s", path) < 0 ? -ENOMEM : 0;
}

static void write_snapshot(struct run *run)
{
	_cleanup_free_ char *names = NULL;
	const struct view_options all = {};
	struct profile *profile;
	bool failed = false;
	char number[32];
	size_t size = 0;
	FILE *stream;

	if (!trace_config__writes_files(&run->config->trace)) {
		top_view__say(run->view, true, "nothing is written: no format was asked for (-f)");
		return;
	}
	snapshots__name(&run->snapshots, number);
	stream = open_memstream(&names, &size);
	if (!stream)
		return;
	for (size_t i = 0; (profile = top_view__profile(run->view, i)); i++)
		if (trace_config__write_files(&run->config->trace, profile, &all, number, name_file,
					      stream))
			failed = true;
	/* after a failure, the last line shows the complaint */
	if (!fclose(stream) && size && !failed)
		top_view__say(run->view, false, "written:%s", names);
	else if (!size && !failed)
		top_view__say(run->view, true, "nothing to write yet");
	snapshots__written(&run->snapshots);
}

/* Reads a last state, because the screen may still show a state from before the end. */
static void end(struct run *run)
{
	session__stop(run->session);
	run->ended = true;
	look(run);
	session__detach(run->session);
}

static void draw(struct run *run)
{
	struct top_screen screen = {};
	size_t width, height;

	terminal__size(&width, &height);
	if (!top_view__draw(run->view, width, height, &screen))
		terminal__show(&screen);
	top_screen__clear(&screen);
}

static void write_files(struct run *run)
{
	session__expect_long_work(run->session, true);
	write_snapshot(run);
	session__expect_long_work(run->session, false);
}

/* Handles the keys that were pressed. Returns true if the user quits. */
static bool take_keys(struct run *run, double *next_look, bool *changed)
{
	uint32_t key;

	while (terminal__next_key(&key)) {
		*changed = true;
		if (!key)
			continue;
		switch (top_view__press(run->view, key)) {
		case TOP_QUIT:
			return true;
		case TOP_WRITE:
			write_files(run);
			break;
		case TOP_UNPAUSE:
			*next_look = fmin(*next_look, clock__monotonic_s());
			break;
		case TOP_NOTHING:
			break;
		}
	}
	return false;
}

/* Runs until the user quits, a signal comes, or the duration is over. waiting: the signals blocked
 * during the wait. */
static void go_on(struct run *run, int signal_fd, const sigset_t *waiting)
{
	double start = clock__monotonic_s(), delay = run->config->delay_s,
	       duration = run->config->trace.duration_s;
	double next_look = start + delay, next_status = start;
	struct pollfd fds[3] = {{.fd = session__fd(run->session), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN},
				{.fd = STDIN_FILENO, .events = POLLIN}};
	struct signalfd_siginfo info;
	struct withdrawn_told withdrawn = {};
	uint64_t told = 0;

	for (;;) {
		double now = clock__monotonic_s(),
		       wait = (run->ended ? now + 1 : next_status) - now;
		struct timespec at;
		bool changed = false;

		if (duration > 0 && !run->ended) {
			if (now >= start + duration)
				return;
			wait = fmin(wait, start + duration - now);
		}
		wait = fmax(wait, 0);
		at.tv_sec = (time_t)wait;
		at.tv_nsec = (long)((wait - floor(wait)) * 1e9);
		session__hurry(run->session);
		/* After an error, `revents` says nothing. One such error is EINTR, after a signal
		 * that ncurses catches. */
		if (ppoll(fds, 3, &at, waiting) < 0)
			fds[0].revents = fds[1].revents = fds[2].revents = 0;
		if ((fds[1].revents & POLLIN) &&
		    read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo != SIGUSR1)
				return;
			write_files(run);
			changed = true;
		}
		if (fds[2].revents & (POLLHUP | POLLERR | POLLNVAL)) /* the terminal is gone */
			return;
		if (take_keys(run, &next_look, &changed))
			return;
		if (!run->ended && session__dispatch(run->session)) {
			end(run);
			fds[0].fd = -1;
			changed = true;
		}
		say_refused(run->session, &told);
		say_withdrawn(run->session, &withdrawn);
		if (!session__is_guarded(run->session))
			return;
		now = clock__monotonic_s();
		if (!run->ended && now >= next_status) {
			next_status = now + fmin(delay, 1);
			if (now >= next_look && !top_view__paused(run->view))
				next_look = look(run);
			else
				take_status(run);
			changed = true;
		}
		if (changed)
			draw(run);
	}
}

/* Signals that end memtrace or ask for files are read from a descriptor, so that memtrace ends in
 * an orderly way. SIGWINCH and SIGTSTP are blocked except during ppoll(), which blocks only the
 * signals in *ret_waiting. memtrace's parent may have blocked further signals. They stay blocked,
 * and are not read: if SIGCHLD were read, for example, it would end memtrace as soon as one of its
 * children ends. */
static int take_screen_signals(sigset_t *ret_waiting)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGHUP};
	struct sigaction hangup;
	sigset_t taken, blocked;

	/* If SIGHUP is ignored, as under nohup, it stays ignored. (When the terminal is gone,
	 * go_on() ends all the same, because there is no screen.) */
	bool nohup = !sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler == SIG_IGN;

	sigemptyset(&taken);
	sigprocmask(SIG_BLOCK, NULL, ret_waiting);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (signals[i] != SIGHUP || !nohup) {
			sigaddset(&taken, signals[i]);
			sigaddset(ret_waiting, signals[i]);
		}
	sigdelset(ret_waiting, SIGWINCH);
	sigdelset(ret_waiting, SIGTSTP);
	blocked = *ret_waiting;
	sigaddset(&blocked, SIGWINCH);
	sigaddset(&blocked, SIGTSTP);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	return take_signals(&taken);
}

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)
DEFINE_CLEANUP(struct top_view *, cleanup_view, top_view__free)

int cmd_top(int argc, char **argv)
{
	static struct top_config config = {.delay_s = 1};
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_(cleanup_view) struct top_view *view = NULL;
	_cleanup_close_ int signal_fd = -1;
	struct run run = {.config = &config};
	struct session_options options;
	/* refused: ignored here; the user hears of it when a file is written */
	struct error err = {}, refused = {};
	sigset_t waiting;
	int status;

	trace_config__init(&config.trace);
	status = parse_options(argc, argv, &config);
	if (status)
		return status;
	if (terminal__check(&err))
		return fail(&err);
	nowait__begin();
	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    privileges__begin_files(&err))
		return fail(&err);
	/* In another user's directory root needs CAP_DAC_OVERRIDE. memtrace keeps it only in this
	 * case. */
	privileges__override(trace_config__check_files(&config.trace, false, &refused) == -EACCES);
	if (selection_config__open(&config.trace.selection, &err))
		return fail(&err);
	/* the list of processes is shown if there may be several processes */
	view = top_view__new(
		config.trace.leaks ? TOP_BY_GROWTH : TOP_BY_LIVE,
		config.trace.n_pids > 1 || config.trace.selection.given ||
			(config.trace.what & WHAT_REGIONS && config.trace.what != WHAT_REGIONS));
	if (!view) {
		complain("out of memory");
		return EXIT_FAILED;
	}
	top_view__show_runtime(view, config.trace.show_runtime);
	options = trace_config__session_options(&config.trace);
	if (session__open(&options, &session, &err))
		return fail(&err);
	signal_fd = take_screen_signals(&waiting);
	if (signal_fd < 0)
		return EXIT_FAILED;
	if (session__start(session, &err) || terminal__open(&err))
		return fail(&err);
	run.session = session;
	run.view = hearing = view;
	complain_to(hear);
	trace_config__say_missing(&config.trace, session);
	go_on(&run, signal_fd, &waiting);
	complain_to(NULL);
	terminal__close(); /* closed at once, because the removal of the probes may last long */
	session__stop(session);
	session__detach(session);
	return session__is_guarded(session) ? 0 : say_unguarded();
}
