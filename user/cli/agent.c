// SPDX-License-Identifier: BSD-2-Clause
/* memtrace agent: a service that traces processes of a host. It traces with the same kind of
 * session as memtrace record. The profiles go to the server (agent/server.h), which is another
 * process. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/server.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/agent_config.h"
#include "cli/cli.h"
#include "cli/guard_options.h"
#include "cli/nowait.h"
#include "cli/push_options.h"
#include "cli/supervise.h"
#include "cli/trace_options.h"
#include "session/privileges.h"
#include "session/session.h"

/* The default of --rise-overhead: less than the limit of continuous tracing, and three times the
 * limit of windows. */
#define RISE_OVERHEAD 0.03
#define ROUND_SHARE   0.1 /* at most this share of memtrace's time goes to rounds */
#define ASKED_EVERY_S 1.0 /* least time from a round to the next one that the server requests */
#define WISH_EVERY_S  0.2 /* least time between two requests about a process */

struct agent_config {
	struct trace_config trace;
	struct push_config push;
	char *push_text; /* text of FEED_PUSH (agent/feed.h); never freed; NULL: nothing is sent */
	double every_s;
	double rise_overhead; /* limit of the cost for a process that grows; 0: off */
	bool rise_overhead_given;
	const char *spool; /* directory; NULL: none */
	const char *listen[AGENT_LISTEN];
	size_t n_listen;
	const char *for_other_hosts; /* an address of `listen` that other hosts reach, or NULL */
	struct guard_config guard;
};

struct run {
	const struct agent_config *config;
	struct session *session;
	struct server *server;
	struct spool *spool;
	double victims_at_s; /* the next search for killed processes begins no earlier than this */
	uint64_t taken_ns;   /* wall clock: when this round began to read figures */
	struct server_wishes wishes;
	double wishes_at_s; /* the server's next request is carried out no earlier than this */
	int alive;	    /* the supervisor's pipe */
	uint64_t n_started; /* as of the last round: how often the server was started */
	/* n_favours: how often a process got more windows. n_favours_refused: how often this was
	 * refused, because enough other processes had more windows already */
	uint64_t n_favours, n_favours_refused;
};

/* argc, argv: the agent's arguments as given. in_force: the arguments that the present tracer has.
 * before: earlier arguments; they are the last ones with which a tracer has started. in_force and
 * before have the lines of the agent's file in place of --config. */
struct command_line {
	int argc;
	char **argv;
	struct arguments in_force, before;
};

TAKE_OPTION(listen)
{
	struct agent_config *c = config;
	struct listen_address address;
	struct error err = {};

	(void)row;
	if (c->n_listen == AGENT_LISTEN)
		return usage_error(command, "at most %d --listen", AGENT_LISTEN);
	if (listen_address__parse(value, &address, &err))
		return usage_error(command, "%s", err.text);
	for (size_t i = 0; i < c->n_listen; i++)
		if (!strcmp(c->listen[i], value))
			return usage_error(command, "--listen %s is given twice", value);
	if (address.is_for_other_hosts)
		c->for_other_hosts = value;
	c->listen[c->n_listen++] = value;
	return 0;
}

/* Refuses a line such as "conf = FILE" in the file. arguments__expand() has already handled the
 * other cases. It replaces the first --config of the command line, and refuses a second one and the
 * line "config = FILE". */
TAKE_OPTION(config)
{
	(void)row, (void)value, (void)config;
	return usage_error(command, "config cannot stand in a configuration file");
}

TAKE_OPTION(every)
{
	struct agent_config *c = config;
	char *end;

	(void)row;
	c->every_s = strtod(value, &end);
	if (end == value || *end || !(c->every_s >= 1 && c->every_s <= 86400))
		return usage_error(command, "'%s' is not a number of seconds from 1 to 86400",
				   value);
	return 0;
}

TAKE_OPTION(rise_overhead)
{
	struct agent_config *c = config;

	(void)row;
	c->rise_overhead_given = true;
	return parse_overhead(command, value, &c->rise_overhead);
}

static const struct option_row agent_rows[] = {
	{"config", .arg = "FILE", .take = take_config, .help = "read more options from this file",
	 .man = "Each line is the name of an option and, after an equals sign, its value, as in "
		"'listen = 127.0.0.1:9178'. An option without a value is its name alone, as in "
		"'leaks'. Empty lines and lines that begin with # are ignored. Options that follow "
		"on the command line override the file. At SIGHUP the file is read again. If a "
		"line of it is refused, the previous configuration stays in force; otherwise "
		"tracing begins anew."},
	{"listen", .arg = "ADDRESS", .by_default = AGENT_ADDRESS, .take = take_listen,
	 .help = "where pages, profiles and metrics are served",
	 .man = "HOST:PORT, or unix:PATH for a unix socket, such as unix:/run/memtrace/socket. The "
		"socket's owner and group may use it. --listen may be given up to four times. An "
		"address that other hosts reach, such as 0.0.0.0:9178, needs --tls-cert, --tls-key "
		"and --token-file."},
	{"every", .arg = "SECONDS", .by_default = "15", .take = take_every,
	 .help = "how often each process gets a new profile",
	 .man = "1 to 86400. A process that has done nothing since its last profile gets no new "
		"profile. If reading the kernel's tables takes long, profiles are made less "
		"often."},
	{"leaks", .flag = offsetof(struct agent_config, trace.leaks),
	 .help = "sample more often: finds leaks sooner, costs more",
	 .man = "One sample per 64 KiB, unless -i is given."},
	{"rise-overhead", .arg = "PCT", .by_default = "3", .take = take_rise_overhead,
	 .help = "limit for the cost of windows in a process that begins to grow",
	 .man = "A process that is traced in windows and surely grows gets more windows for ten "
		"minutes. At most four processes have more windows at a time. The windows may then "
		"take this share of the process's CPU time. All processes together still cost no "
		"more than --max-host-overhead. With off, no process gets more windows. If "
		"--max-overhead is given and this option is not, --max-overhead also limits the "
		"cost in a process that grows. Such a process then gets a larger part of the "
		"windows, at the same limit."},
	{"spool", .arg = "DIR", .take = take_text, .to = offsetof(struct agent_config, spool),
	 .help = "write profiles of processes that are killed or crash",
	 .man = "These are processes that the kernel kills because memory is short, and processes "
		"that end by SIGKILL or by a signal that dumps core. The files are "
		"DIR/TIME.NAME.PID.pb.gz, which 'memtrace report' reads. DIR keeps at most 200 "
		"files, of 256 MiB together: the oldest are deleted first."},
	{},
};

#define OF_TRACE offsetof(struct agent_config, trace)
static const struct option_group groups[] = {
	{"What to trace", trace_target_rows, OF_TRACE, OPTIONS_USUAL},
	{"How", trace_how_rows, OF_TRACE, OPTIONS_USUAL},
	{"Service", agent_rows, 0, OPTIONS_USUAL},
	{"Service", guard_rows, offsetof(struct agent_config, guard), OPTIONS_USUAL},
	{"Push", push_rows, offsetof(struct agent_config, push), OPTIONS_USUAL},
	{"Rarely needed", trace_rare_rows, OF_TRACE, OPTIONS_RARE},
	{"Rarely needed", push_rare_rows, offsetof(struct agent_config, push), OPTIONS_RARE},
	{"Debugging", trace_debug_rows, OF_TRACE, OPTIONS_DEBUG},
	{},
};

const struct command command_agent = {
	.name = "agent",
	.run = cmd_agent,
	.summary = "the service of a host: profiles and metrics over HTTP",
	.usage = "agent [-p PID[,PID...]|-a|--comm NAME|...] [OPTIONS]",
	.about = "Traces all processes of the host, or those that are selected, until it is told "
		 "to end. Serves over HTTP what they hold: pages for people, profiles for pprof, "
		 "jeprof and collectors, metrics for Prometheus. --leaks samples more closely, so "
		 "that leaks are found sooner.",
	.groups = groups,
	.status = "Exit status: 0, 1 (failed), 2 (usage).",
	.stops = true,
};

#define SHARED_BYTES (4 * AGENT_CONFIG_BYTES)

/* Memory that the supervisor shares with its children. A child gives it up before it starts
 * children of its own, because these are not trusted. */
static struct shared {
	bool had_tracer; /* a tracer has begun before */
	/* the addresses that the tracer listens on */
	size_t n_held;
	char held[AGENT_LISTEN][PATH_MAX + 16];
	/* the arguments that the last successful check has read, each with a NUL behind it */
	int n_arguments;
	char arguments[SHARED_BYTES];
} * shared;

/* Could an agent start with the arguments of one line of the file? This is checked before the old
 * tracer ends, because a new tracer can start only after that. 0, or the exit status after a
 * complaint. */
static int try_line(int n, char **argv)
{
	const char *addresses[AGENT_LISTEN];
	struct agent_config alone = {};
	struct error err = {};
	int rc;

	trace_config__init(&alone.trace);
	optind = 0; /* getopt begins anew */
	rc = command__parse(&command_agent, &alone, n, argv);
	if (rc)
		return rc;
	for (size_t i = 0; i < shared->n_held; i++)
		addresses[i] = shared->held[i];
	for (size_t i = 0; i < alone.n_listen && !rc; i++)
		rc = listener__try(alone.listen[i], addresses, shared->n_held, &err);
	if (!rc && alone.spool)
		rc = spool__try(alone.spool, &err);
	for (size_t i = 0; i < alone.trace.n_pids && !rc; i++)
		rc = session__check_pid(alone.trace.pids[i], &err);
	if (!rc)
		rc = selection_config__open(&alone.trace.selection, &err);
	free(alone.trace.selection.cgroup.path);
	return rc ? fail(&err) : 0;
}

/* Parses the arguments. The configuration points to their strings, which must not be freed. The
 * caller frees *ret_guard with guard__clear() in any case. */
static int parse_options(const struct arguments *args, struct agent_config *c,
			 struct guard *ret_guard)
{
	int rc;

	*ret_guard = (struct guard){};
	*c = (struct agent_config){.every_s = 15, .rise_overhead = RISE_OVERHEAD};
	trace_config__init(&c->trace);
	optind = 0;
	rc = command__parse(&command_agent, c, args->argc, args->argv);
	if (rc)
		return rc;
	if (optind < args->argc)
		return usage_error("agent", "'%s' is not an option, and agent starts no commands",
				   args->argv[optind]);
	if (c->trace.to_stdout)
		return usage_error("agent", "-o - works for record only: agent serves its profiles "
					    "over HTTP");
	if (c->trace.what & (c->trace.what - 1)) /* more than one kind */
		return usage_error("agent",
				   "--what takes one kind here, because the pages show one profile "
				   "of each process: heap, regions or faults");
	if (!c->trace.n_pids && !c->trace.selection.selection.dynamic) {
		rc = selection_config__take(&c->trace.selection, "agent", "all", NULL);
		if (rc)
			return rc;
	}
	if (!c->n_listen)
		c->listen[c->n_listen++] = AGENT_ADDRESS;
	rc = push_config__text(&c->push, "agent", &c->push_text)
		     ?: guard_config__read(&c->guard, "agent", c->for_other_hosts, ret_guard);
	rc = rc ?: trace_config__settle(&c->trace, "agent", false);
	/* --max-overhead, if the user gave it, is the limit for all windows */
	if (c->trace.overhead_given && !c->rise_overhead_given)
		c->rise_overhead = c->trace.max_overhead;
	return rc;
}

static int send_profile(void *ctx, const struct profile *profile)
{
	struct run *run = ctx;

	if (trace_config__is_aside(&run->config->trace, profile))
		return 0;
	return server__send_profile(run->server, profile, run->taken_ns);
}

static int send_same(void *ctx, pid_t pid)
{
	return server__send_same(((struct run *)ctx)->server, pid);
}

static int send_inactive(void *ctx, pid_t pid, const char *why)
{
	struct run *run = ctx;

	/* make a round as soon as the process can have its first profile */
	run->wishes.round |= !why;
	return server__send_inactive(run->server, pid, why ?: "");
}

/* Asks the session for more windows for the process, because the server says that the process
 * surely grows. The session decides. */
static void favour(struct run *run, pid_t pid)
{
	int rc = session__favour(run->session, pid);

	run->n_favours += !rc;
	run->n_favours_refused += rc == -EBUSY;
	if (!rc)
		complain("pid %d surely grows, and has more windows for some minutes", pid);
}

/* Carries out the server's next request about a process. The server is not trusted: its requests
 * affect targets only, and tracing resumes only if it was stopped at the server's request. Returns
 * true if the set of traced processes has changed. */
static bool grant_wish(struct run *run, double now)
{
	struct server_wishes *w = &run->wishes;
	enum feed_kind kind;
	bool active;
	pid_t pid;
	int rc;

	if (!w->n || now < run->wishes_at_s)
		return false;
	pid = w->of[0].pid;
	kind = w->of[0].kind;
	active = kind == FEED_ACTIVATE;
	memmove(w->of, w->of + 1, --w->n * sizeof(*w->of));
	if (kind == FEED_FAVOUR) {
		favour(run, pid);
		run->wishes_at_s = now + WISH_EVERY_S;
		return false;
	}
	rc = active ? session__activate(run->session, pid) : session__deactivate(run->session, pid);
	if (!rc)
		complain("tracing of pid %d was %s, as a client of the server asked", pid,
			 active ? "resumed" : "stopped");
	run->wishes_at_s = now + fmax(WISH_EVERY_S, (clock__monotonic_s() - now) / ROUND_SHARE);
	return !rc;
}

/* Tells the server that the round is over. complete: the round had a message about every
 * process. */
static void end_round(struct run *run, bool complete, double round_s, double every_s)
{
	struct session_favoured favoured[SESSION_FAVOURED];
	uint64_t wall = clock__now_ns(CLOCK_REALTIME), now = clock__now_ns(CLOCK_MONOTONIC);
	struct feed_message round = {.complete = complete,
				     .n_spooled = run->spool->n_written,
				     .n_spool_lost = run->spool->n_lost,
				     .n_spool_removed = run->spool->n_removed,
				     .n_spool_waiting = run->spool->n_waiting,
				     .round_s = round_s,
				     .every_s = every_s,
				     .n_favours = run->n_favours,
				     .n_favours_refused = run->n_favours_refused};
	size_t n_probes;
	bool at_most;

	_Static_assert(SESSION_FAVOURED == FEED_FAVOURED, "all of them are told");
	round.kernel_bytes = session__kernel_bytes(run->session, &at_most);
	session__probes(run->session, &n_probes);
	round.n_probes = n_probes;
	round.most_favoured = session__may_favour(run->session) ? FEED_FAVOURED : 0;
	round.n_favoured = (uint32_t)session__favoured(run->session, favoured);
	for (uint32_t i = 0; i < round.n_favoured; i++) {
		round.favoured[i].pid = favoured[i].pid;
		round.favoured[i].from_ns = wall - (now - favoured[i].from_ns);
		round.favoured[i].until_ns = wall + (favoured[i].until_ns - now);
	}
	server__end_round(run->server, &round);
}

/* Makes new profiles, and sends them to the server. asked: the round was requested, so every
 * process gets a new profile. Returns the time at which the next round is due. *ret_rest_s: the
 * least time from this round to the next requested one. */
static double make_round(struct run *run, bool asked, double *ret_rest_s)
{
	struct session_news news = {.profile = send_profile, .same = send_same, .ctx = run};
	double start, took, every = run->config->every_s;
	int rc, inactive;

	session__await_gap(run->session);
	start = clock__monotonic_s();
	/* a newly started server has no profiles */
	news.all = asked || run->n_started != run->server->n_started;
	run->n_started = run->server->n_started;
	run->taken_ns = clock__now_ns(CLOCK_REALTIME);
	rc = session__news(run->session, &news);
	inactive = session__each_inactive(run->session, send_inactive, run);
	rc = rc ?: inactive;
	if (rc) {
		complain("not all profiles could be made in this round: %s", strerror(-rc));
		run->n_started = 0;
	}
	took = clock__monotonic_s() - start;
	*ret_rest_s = fmax(ASKED_EVERY_S, took / ROUND_SHARE);
	every = fmax(every, took / ROUND_SHARE);
	end_round(run, !rc, took, every);
	return start + every;
}

static int keep_victim(void *ctx, const struct profile *profile)
{
	struct run *run = ctx;
	int rc;

	if (trace_config__is_aside(&run->config->trace, profile))
		return 0;
	rc = spool__keep(run->spool, profile)
		     ?: server__send_profile(run->server, profile, run->taken_ns);
	return rc < 0 ? rc : 0; /* 1: dropped and counted; nobody waits for this profile */
}

/* With --spool: gives the spool and the server the profiles of processes that were killed. */
static void see_to_victims(struct run *run, double now)
{
	struct spool_report report;
	int rc;

	if (!run->config->spool)
		return;
	while (spool__report(run->spool, &report))
		if (!*report.name && !report.error)
			complain("%s answers: profiles of killed processes are written there",
				 run->config->spool);
		else if (!*report.name)
			complain("mt-spool has ended: nothing is written to %s any more",
				 run->config->spool);
		else if (report.error)
			complain("cannot write %s/%s: %s", run->config->spool, report.name,
				 strerror(-report.error));
		else
			complain("a process was killed; its profile: %s/%s", run->config->spool,
				 report.name);
	if (now < run->victims_at_s)
		return;
	run->taken_ns = clock__now_ns(CLOCK_REALTIME);
	rc = session__victims(run->session, keep_victim, run);
	if (rc)
		complain("no profile of a process that was killed: %s", strerror(-rc));
	run->victims_at_s = now + (clock__monotonic_s() - now) / ROUND_SHARE;
}

/* Starts the server if it does not run. */
static void see_to_server(struct run *run)
{
	bool had = run->server->feed >= 0;
	struct error err = {};

	if (server__start(run->server, &err))
		complain("%s", err.text);
	if (had || run->server->feed < 0 || run->server->n_started < 2)
		return;
	complain("the server had ended, and was started again");
	run->wishes.round = true; /* the new server has no profiles */
}

/* Tells the supervisor that the tracer is alive. If the pipe is full, the supervisor still has
 * bytes to read, so no further byte is needed. */
static void say_alive(const struct run *run)
{
	(void)!write(run->alive, "", 1);
}

/* Traces until a signal, the end of the duration, or the end of all named processes. 0, or the exit
 * status after a complaint. */
static int go_on(struct run *run, int signal_fd)
{
	double start = clock__monotonic_s(), duration = run->config->trace.duration_s;
	double next = start + fmin(1, run->config->every_s), asked_at = 0, rest = 0, second = start;
	struct withdrawn_told withdrawn = {};
	bool *asked = &run->wishes.round, all;
	uint64_t told = 0;

	for (;;) {
		/* In two cases nothing is read from the server: a requested round is still to be
		 * made, or the list of requests is full. Otherwise the server could wake the tracer
		 * up again and again. */
		bool deaf = *asked || run->wishes.n == SERVER_WISHES;
		short events = server__events(run->server, deaf);
		struct pollfd fds[3] = {{.fd = session__fd(run->session), .events = POLLIN},
					{.fd = signal_fd, .events = POLLIN},
					{.fd = events ? run->server->feed : -1, .events = events}};
		double now = clock__monotonic_s(), wait = fmin(next - now, 1);

		if (duration > 0 && now >= start + duration)
			return 0;
		if (*asked)
			wait = fmin(wait, asked_at + rest - now);
		if (run->wishes.n)
			wait = fmin(wait, run->wishes_at_s - now);
		session__hurry(run->session);
		poll(fds, 3, wait > 0 ? (int)ceil(wait * 1000) : 0);
		if (fds[1].revents & POLLIN)
			return SERVICE_TERMINATED;
		if (session__dispatch(run->session))
			return 0;
		say_refused(run->session, &told);
		say_withdrawn(run->session, &withdrawn);
		if (!session__is_guarded(run->session))
			return say_unguarded();
		server__listen_to(run->server, &run->wishes);
		see_to_server(run);
		now = clock__monotonic_s();
		*asked = grant_wish(run, now) || *asked;
		see_to_victims(run, now);
		if (now >= second) {
			struct session_status ignored;

			second = now + 1;
			say_alive(run);
			session__status(run->session, &ignored); /* keeps the CPU times fresh */
		}
		if (now < next && !(*asked && now >= asked_at + rest))
			continue;
		all = *asked;
		*asked = false; /* the server may request another round while this one is sent */
		next = make_round(run, all, &rest);
		asked_at = clock__monotonic_s();
	}
}

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

/* Leaves out named processes that have ended. The first tracer refuses such processes, because the
 * user may have given a wrong pid. If a later tracer refused them, no tracer would start any more,
 * and the remaining processes would not be traced. Returns false if no process is left to trace. */
static bool leave_out_ended(struct trace_config *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_pids; i++) {
		struct error err = {};

		if (session__check_pid(c->pids[i], &err) == -ESRCH)
			complain("%s", err.text);
		else
			c->pids[n++] = c->pids[i];
	}
	c->n_pids = n;
	return n || c->selection.selection.dynamic;
}

/* The tracer: a child of the supervisor. */
static int trace(void *ctx, int alive)
{
	static struct agent_config config;
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_(server__end) struct server server = {.program = -1, .guard = -1, .feed = -1};
	_cleanup_(spool__close) struct spool spool = {.fd = -1};
	_cleanup_close_ int signal_fd = -1;
	_cleanup_(guard__clear) struct guard guard = {};
	struct run run = {.config = &config, .server = &server, .spool = &spool, .alive = alive};
	const struct command_line *line = ctx;
	struct session_options options;
	struct error err = {};
	sigset_t signals;
	bool is_first;
	int status;

	status = parse_options(&line->in_force, &config, &guard);
	if (status)
		return status;
	if (server__find(&server, &err) || server__guard(&server, &guard, &err))
		return fail(&err);
	guard__clear(&guard);
	server.push = config.push_text;
	shared->n_held = 0;
	for (size_t i = 0; i < config.n_listen; i++) {
		if (server__listen(&server, config.listen[i], &err))
			return fail(&err);
		snprintf(shared->held[i], sizeof(shared->held[i]), "%s", config.listen[i]);
		shared->n_held = i + 1;
	}
	is_first = !shared->had_tracer;
	shared->had_tracer = true;
	munmap(shared, sizeof(*shared));
	if (config.spool && spool__open(&spool, config.spool, &err))
		return fail(&err);
	if (spool.is_slow)
		complain("%s does not answer: up to %d profiles of killed processes wait until it "
			 "does, and further ones are lost",
			 config.spool, SPOOL_WAITING);
	nowait__begin();
	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    privileges__begin_files(&err) || session__check_machine(&err) ||
	    selection_config__open(&config.trace.selection, &err))
		return fail(&err);
	if (!is_first && !leave_out_ended(&config.trace))
		return 0; /* as if the last of them had ended just now */
	options = trace_config__session_options(&config.trace);
	options.victims = config.spool ? VICTIMS_ALL : VICTIMS_NONE;
	options.forget_ended = true;
	options.regions_if_easy = false; /* the server has no page for regions */
	options.favoured_overhead = config.rise_overhead;
	if (session__open(&options, &session, &err))
		return fail(&err);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGQUIT);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = take_signals(&signals);
	if (signal_fd < 0)
		return EXIT_FAILED;
	if (session__start(session, &err))
		return fail(&err);
	run.session = session;
	complain_to(nowait__complain);
	say_alive(&run);
	trace_config__say_missing(&config.trace, session);
	status = go_on(&run, signal_fd);
	session__dispatch(session); /* takes the last news of how processes ended */
	see_to_victims(&run, INFINITY);
	complain_to(NULL);
	session__stop(session);
	session__detach(session);
	return status;
}

/* Shares the arguments with the supervisor. 0, or the exit status after a complaint. */
static int share(const struct arguments *args)
{
	size_t len = 0;

	for (int i = 0; i < args->argc; i++) {
		size_t more = strlen(args->argv[i]) + 1;

		if (more > SHARED_BYTES - len)
			return usage_error("agent", "the options have more than %d bytes",
					   SHARED_BYTES);
		memcpy(shared->arguments + len, args->argv[i], more);
		len += more;
	}
	shared->n_arguments = args->argc;
	return 0;
}

static int check_arguments(const struct arguments *args)
{
	_cleanup_(server__end) struct server server = {.program = -1, .guard = -1, .feed = -1};
	_cleanup_(guard__clear) struct guard guard = {};
	struct agent_config config;
	struct error err = {};
	int status = parse_options(args, &config, &guard);

	if (!status && guard.cert &&
	    (server__find(&server, &err) || server__guard(&server, &guard, &err) ||
	     server__check_guard(&server, &err)))
		status = fail(&err);
	return status ?: share(args);
}

static int check(void *ctx)
{
	const struct command_line *line = ctx;
	struct arguments args;
	int rc = arguments__expand("agent", line->argc, line->argv, try_line, &args);

	if (!rc)
		rc = check_arguments(&args);
	arguments__free(&args);
	return rc == -ENOMEM ? no_memory() : rc;
}

/* Puts the shared arguments in force. A tracer does not read the file itself: when a tracer starts
 * after a crash, the file may have changed. */
static void adopt(void *ctx, bool worked)
{
	struct command_line *line = ctx;
	struct arguments args = {.argv = calloc((size_t)shared->n_arguments + 1, sizeof(char *))};
	const char *at = shared->arguments;

	for (; args.argv && args.argc < shared->n_arguments; args.argc++) {
		args.argv[args.argc] = strdup(at);
		if (!args.argv[args.argc])
			break;
		at += strlen(at) + 1;
	}
	if (!args.argv || args.argc < shared->n_arguments) {
		no_memory();
		arguments__free(&args);
		return;
	}
	arguments__free(worked ? &line->before : &line->in_force);
	if (worked)
		line->before = line->in_force;
	line->in_force = args;
}

static bool revert(void *ctx)
{
	struct command_line *line = ctx;

	if (!line->before.argc)
		return false;
	arguments__free(&line->in_force);
	line->in_force = line->before;
	line->before = (struct arguments){};
	return true;
}

int cmd_agent(int argc, char **argv)
{
	struct command_line line = {.argc = argc, .argv = argv};
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return no_memory();
	status = check(&line); /* also handles --help */
	if (status)
		return status;
	adopt(&line, false);
	return supervise(&(struct service){check, trace, &line, adopt, revert});
}
