// SPDX-License-Identifier: BSD-2-Clause
#include "cli/sampled.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/nowait.h"
#include "cli/trace_options.h"

/* Traces until the time is over, the process ends, or a signal comes. */
static int trace(struct session *s, double duration_s, int signal_fd)
{
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	double until = clock__monotonic_s() + duration_s, next = 0;
	struct withdrawn_told withdrawn = {};
	uint64_t told = 0;
	bool over;

	for (;;) {
		double now = clock__monotonic_s();

		if (now >= until)
			return 0;
		if (now >= next) {
			struct session_status ignored;

			session__status(s, &ignored); /* keeps the CPU times fresh */
			next = now + 1;
		}
		poll(fds, 2, (int)ceil(fmin(until - now, 1) * 1000));
		if (fds[1].revents & POLLIN)
			return 0;
		over = session__dispatch(s);
		say_refused(s, &told);
		if (over)
			return 0;
		say_withdrawn(s, &withdrawn);
		if (!session__is_guarded(s))
			return say_unguarded();
	}
}

/* Traces for a while. The probes are out when this returns. */
static int run(struct session *session, double duration_s)
{
	_cleanup_close_ int signal_fd = -1;
	struct error err = {};
	sigset_t signals;
	int rc;

	end_signals(&signals);
	signal_fd = take_signals(&signals);
	if (signal_fd < 0)
		return EXIT_FAILED;
	if (session__start(session, &err))
		return fail(&err);
	complain_to(nowait__complain); /* until the probes are out, nothing may block */
	rc = trace(session, duration_s, signal_fd);
	session__stop(session);
	complain_to(NULL);
	release_signals(signal_fd, &signals);
	return rc;
}

int sampled__trace(pid_t pid, double duration_s, const char *command, struct session **ret,
		   const struct profile **ret_profile)
{
	struct trace_config config;
	struct session_options options;
	struct profile *const *profiles;
	struct error err = {};
	size_t n;
	int rc;

	trace_config__init(&config);
	config.pids[config.n_pids++] = pid;
	config.duration_s = duration_s;
	/* a short sampling interval, because the caller needs many known blocks */
	config.heap = true;
	trace_config__settle(&config, command, false);
	options = trace_config__session_options(&config);
	options.blocks = true;
	if (session__open(&options, ret, &err))
		return fail(&err);
	rc = run(*ret, duration_s);
	if (rc)
		return rc;
	if (session__profiles(*ret, &profiles, &n, &err))
		return fail(&err);
	*ret_profile = NULL;
	for (size_t i = 0; i < n && !*ret_profile; i++)
		if (profiles[i]->what == PROFILE_HEAP)
			*ret_profile = profiles[i];
	return 0;
}
