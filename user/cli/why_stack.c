// SPDX-License-Identifier: BSD-2-Clause
/* memtrace why --stack: traces the process for a while, as record does by default, to find live
 * blocks of the stacks that are asked for. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/nowait.h"
#include "cli/trace_options.h"
#include "cli/why.h"

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

/* Traces until the time is over, the process ends, or a signal comes. */
static int trace(struct session *s, double duration_s, int signal_fd)
{
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	double until = clock__monotonic_s() + duration_s, next = 0;
	struct withdrawn_told withdrawn = {};

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
		if (session__dispatch(s))
			return 0;
		say_withdrawn(s, &withdrawn);
		if (!session__is_guarded(s))
			return say_unguarded();
	}
}

/* For each location: does the expression match one of its functions? NULL: out of memory. */
static bool *match_locations(const struct profile *profile, const regex_t *pattern)
{
	bool *matched = calloc(profile->n_locations + 1, sizeof(*matched));

	for (size_t i = 0; matched && i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];

		for (size_t k = 0; k < location->n_frames && !matched[i]; k++)
			matched[i] = !regexec(pattern, location->frames[k].name, 0, NULL, 0);
	}
	return matched;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct profile_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Evenly chosen, and ascending. */
static void choose_blocks(struct profile_block *blocks, size_t n, struct why_stack *ret)
{
	size_t distinct = 0;

	if (n)
		qsort(blocks, n, sizeof(*blocks), compare_blocks);
	/* Windows may have seen a block, and its successor at the same address. */
	for (size_t i = 0; i < n; i++)
		if (!distinct || blocks[i].addr != blocks[distinct - 1].addr)
			blocks[distinct++] = blocks[i];
	ret->n_live = distinct;
	ret->n = distinct < WHY_MAX_ADDRS ? distinct : WHY_MAX_ADDRS;
	for (size_t i = 0; i < ret->n; i++) {
		const struct profile_block *block = &blocks[i * distinct / ret->n];

		ret->addrs[i] = block->addr;
		ret->sizes[i] = block->size;
	}
}

/* 0 or -ENOMEM. */
static int take_blocks(const struct profile *profile, const regex_t *pattern, struct why_stack *ret)
{
	_cleanup_free_ bool *matched = match_locations(profile, pattern);
	_cleanup_free_ struct profile_block *blocks = NULL;
	size_t n = 0;

	if (!matched)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		bool wanted = false;

		for (uint32_t k = 0; k < site->n_locations && !wanted; k++)
			wanted = matched[site->locations[k]];
		ret->any |= wanted;
		for (size_t k = 0; wanted && k < site->n_blocks; k++) {
			if (VECTOR_ADD_ROOM(blocks, n))
				return -ENOMEM;
			blocks[n++] = site->blocks[k];
		}
	}
	choose_blocks(blocks, n, ret);
	return 0;
}

/* The probes are out when this returns. */
static int find_blocks(pid_t pid, double duration_s, const regex_t *pattern, struct why_stack *ret)
{
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_close_ int signal_fd = -1;
	struct trace_config config;
	struct session_options options;
	struct profile *const *profiles;
	struct error err = {};
	sigset_t signals;
	size_t n;
	int rc;

	trace_config__init(&config);
	config.pids[config.n_pids++] = pid;
	config.duration_s = duration_s;
	config.leaks = true; /* the closer samples of --leaks: there are to be enough blocks */
	config.what_given = true;
	trace_config__settle(&config, "why", false);
	options = trace_config__session_options(&config);
	options.blocks = true;
	if (session__open(&options, &session, &err))
		return fail(&err);
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
	if (rc)
		return rc;
	if (session__profiles(session, &profiles, &n, &err))
		return fail(&err);
	for (size_t i = 0; i < n && !rc; i++)
		if (profiles[i]->what == PROFILE_HEAP)
			rc = take_blocks(profiles[i], pattern, ret);
	return rc ? no_memory() : 0;
}

int why_stack__find(pid_t pid, double duration_s, const char *pattern, const regex_t *regex,
		    struct why_stack *ret)
{
	int rc = find_blocks(pid, duration_s, regex, ret);

	if (rc)
		return rc;
	if (!ret->any)
		complain("in %.0f s of tracing pid %d, no sample had a function that matches '%s'",
			 duration_s, (int)pid, pattern);
	else if (!ret->n)
		complain("stacks of pid %d match '%s', but no block of theirs that was sampled in "
			 "%.0f s is known to live",
			 (int)pid, pattern, duration_s);
	else
		complain("sampled blocks that live, of stacks that match '%s': %zu", pattern,
			 ret->n_live);
	return ret->n ? 0 : EXIT_FAILED;
}
