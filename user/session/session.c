// SPDX-License-Identifier: BSD-2-Clause
#include "session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/far.h"
#include "capture/snapshot.h"
#include "ledger/resident.h"
#include "proc/maps.h"
#include "proc/own.h"
#include "proc/process.h"
#include "session/books.h"
#include "session/budget.h"
#include "session/internal.h"
#include "session/large_blocks.h"

#define SIZES_AT_ONCE 32 /* at most this many sizes are read in one call; each takes some 50 us */

void session__free(struct session *s)
{
	if (!s)
		return;
	scheduler__free(&s->scheduler);
	capture__free(s->capture);
	/* A command that never started running must be ended here. A running command is left
	 * alone. */
	if (s->launch.held || (s->launch.pid > 0 && !s->started))
		launch__kill(&s->launch);
	for (size_t i = 0; i < s->n_targets; i++) {
		target__clear(s->targets[i]);
		free(s->targets[i]);
	}
	profile_list__clear(&s->profiles);
	profile_run__free(s->run);
	for (size_t i = 0; i < s->n_attached; i++)
		allocators__free(s->attached[i]);
	free(s->attached);
	free(s->patchers);
	free(s->orphans);
	free(s->paused);
	free(s->borrowers);
	target_index__clear(&s->index);
	free(s->targets);
	series__free(&s->series);
	watch__free(s->watch);
	symbolizer__free(s->symbolizer);
	alloc_files__free(s->alloc_files);
	python_files__free(s->python_files);
	binaries__free(s->binaries);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->beat_fd >= 0)
		close(s->beat_fd);
	if (s->writes_fd >= 0)
		close(s->writes_fd);
	free(s->watched);
	free(s->reopened);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

/* --- running --- */

/* Reads the memory sizes of processes. With probes for all processes, reads only the sizes of
 * processes that had windows: for these processes, sizes show whether the growth of a stack is
 * noise. */
static void watch_sizes(struct session *s, uint64_t now)
{
	size_t n_read = 0;

	if (!s->started || s->stopped)
		return;
	for (size_t i = 0; i < s->n_targets && n_read < SIZES_AT_ONCE; i++) {
		struct target *t = s->targets[i];

		if (t->ended || now < t->anon.next_ns ||
		    (s->everywhere && !t->budget.survivors.n_windows))
			continue;
		if (t->anon.n && targets__rests(t, &t->rest.size)) {
			sizes__add(&t->anon, now, t->anon.at[t->anon.n - 1].bytes);
			continue;
		}
		targets__read_size(t);
		n_read++;
	}
}

/* Reads names of Python's functions while the processes run. */
static void learn_python(struct session *s, const struct capture_table *sites)
{
	_cleanup_(capture_table__free) struct capture_table stacks = {};
	const struct abi_site_key *keys = sites->keys;
	bool any = false;

	for (size_t i = 0; i < s->n_targets; i++)
		any = any || s->targets[i]->python;
	if (!any || capture__read_stacks(s->capture, &stacks) || snapshot__sort_stacks(&stacks))
		return;
	for (size_t i = 0; i < sites->n; i++) {
		const struct abi_stack *stack = snapshot__find_stack(&stacks, &keys[i].stack);
		struct target *t = targets__find_process(s, keys[i].process);

		if (!stack || !t || !t->python || t->ended)
			continue;
		for (uint32_t k = 0; k < stack->n && k < ABI_STACK_FRAMES; k++)
			python_names__learn(t->python, t->info.pid, stack->ip[k], s->capture);
	}
}

/* Notes from time to time how much the processes, and their sites, hold. With probes for all
 * processes, sites are left out, because reading the table of sites again and again takes too
 * long. Not during a window, which would last until all is read. */
static void watch_growth(struct session *s)
{
	_cleanup_(capture_table__free) struct capture_table sites = {};
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	watch_sizes(s, now);
	if (s->everywhere || !s->started || s->stopped || !(s->what & WHAT_HEAP) ||
	    !series__is_due(&s->series, now) || scheduler__has_window(&s->scheduler))
		return;
	if (capture__read_sites(s->capture, &sites))
		return;
	series__add(&s->series, now, &sites);
	learn_python(s, &sites);
}

/* Does what is due, and sets the timer for what is due next. */
static void keep_budgets(struct session *s)
{
	struct itimerspec at = {};
	uint64_t next, passed;

	if (s->timer_fd < 0 || s->stop_ns)
		return;
	if (read(s->timer_fd, &passed, sizeof(passed)) < 0 && errno != EAGAIN)
		return;
	next = budget__keep(s);
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / 1000000000);
		at.it_value.tv_nsec = (long)(next % 1000000000);
	}
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Stops the timer, because nothing is due any more. keep_budgets() does not read the timer of a
 * stopped run. So if the timer expired, it would keep session__fd() readable for as long as the
 * caller waits for a command. */
static void forget_due(struct session *s)
{
	if (s->timer_fd >= 0)
		timerfd_settime(s->timer_fd, 0, &(struct itimerspec){}, NULL);
}

/* Holds a command until all its libraries are mapped and their unwind tables are in place. (Some
 * libraries run code as soon as they are mapped, before news of the mapping comes.) */
static void follow_loading(struct session *s)
{
	int rc = 1;

	while (s->launch.held && s->launch.loading && rc > 0) {
		rc = launch__next_mapping(&s->launch, &s->command_status);
		if (rc == -ESRCH) {
			s->command_ended = true;
			return;
		}
		targets__refresh_maps(s, s->targets[0]);
		targets__tell_mappings(s);
	}
}

/* Notes what the targets have mapped before the run. If a target unmaps some of it later, memtrace
 * then knows that this memory is from before the run. */
static void note_earlier_regions(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct maps maps;

		if (t->uninvited || maps__read(t->info.pid, &maps))
			continue;
		region_book__begin(&t->book, &maps);
		maps__free(&maps);
	}
}

static int begin_budgets(struct session *s)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int rc;

	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->timer_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->timer_fd, &event))
		return -errno;
	rc = budget__begin(s);
	keep_budgets(s);
	return rc;
}

int session__start(struct session *s, struct error *err)
{
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		process__cpu_time_ns(s->targets[i]->info.pid, &s->targets[i]->cpu_start_ns);
	if (s->what & WHAT_REGIONS)
		note_earlier_regions(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		targets__read_size(s->targets[i]);
		targets__note_sizes(s->targets[i]);
	}
	if (guard__note(s)) {
		targets__take_news(s);
		guard__restore(s);
	}
	s->start_unix_ns = clock__now_ns(CLOCK_REALTIME);
	s->own_cpu_ns = own__cpu_ns();
	s->start_ns = clock__now_ns(CLOCK_MONOTONIC);
	capture__activate(s->capture);
	s->started = true;
	if (s->max_overhead > 0) {
		rc = begin_budgets(s);
		if (rc)
			return error__set(err, rc, "cannot keep a limit of overhead: %s",
					  strerror(-rc));
	}
	follow_loading(s);
	rc = launch__release(&s->launch);
	if (rc)
		return error__set(err, rc, "cannot let the command run: %s", strerror(-rc));
	guard__expect(s, false);
	return 0;
}

void session__expect_long_work(struct session *s, bool long_work)
{
	guard__expect(s, long_work);
}

int session__fd(const struct session *s)
{
	return s->epoll_fd;
}

void session__hurry(struct session *s)
{
	budget__hurry(s, true);
}

bool session__dispatch(struct session *s)
{
	struct epoll_event events[16];
	bool all_ended, withdrawn;
	int n;

	capture__beat(s->capture);
	withdrawn = !s->stop_ns && guard__note(s);
	rewritten__take(s); /* first of all: it may save a process from a crash */
	/* takes the news before the probes are put back: a target that has changed its code
	 * meanwhile gets no probes in that code */
	targets__take_news(s);
	if (withdrawn)
		guard__restore(s);
	else if (!s->stop_ns)
		guard__restore_late(s);
	n = epoll_wait(s->epoll_fd, events, 16, 0);
	for (int i = 0; i < n; i++)
		if (events[i].data.ptr)
			targets__note_end(s, events[i].data.ptr);
	all_ended = !active__keep(s);
	borrowers__keep(s);
	keep_budgets(s);
	budget__hurry(s, false);
	watch_growth(s);
	profiles__foresee(s);
	region_calls__note(s);
	profiles__settle_ended(s);
	large_blocks__tend(s);
	sweep__tables(s);
	files__let_go(s);
	patched__lift(s);
	guard__await_beat(s);
	/* A selection may bring new targets at any time, unless it only follows children. */
	if (s->selection && s->selection->dynamic)
		return false;
	for (size_t i = 0; i < s->n_targets; i++)
		all_ended = all_ended && s->targets[i]->ended;
	return all_ended;
}

/* Reads what targets have in memory, if this is asked for. Call it right after counting has ended,
 * before anything else that takes time, because all these figures must be of the same moment. */
static void read_resident(struct session *s)
{
	for (size_t i = 0; s->resident && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->ended)
			resident__read(t->info.pid, &t->book,
				       allocators__have(t->allocators, "glibc"), &t->resident);
	}
}

static int count_stray(pid_t pid, void *ctx)
{
	struct session *s = ctx;
	struct process_info info;
	struct target *parent;

	if (pid == getpid() || process__read_stat(pid, &info) || !process__lives(&info) ||
	    targets__find(s, pid))
		return 0;
	parent = targets__find(s, info.parent);
	if (parent && !parent->ended)
		parent->n_strays++;
	return 0;
}

/* Counts the children of named processes that are not traced. With a selection, none is counted,
 * because the user has chosen which processes are traced. */
static void count_strays(struct session *s)
{
	if (!s->selection)
		process__each(count_stray, s); /* if it fails, no children are reported */
}

void session__stop(struct session *s)
{
	if (s->stopped)
		return;
	guard__note(s);
	capture__deactivate(s->capture);
	budget__hurry(s, false);
	for (size_t i = 0; i < s->n_targets; i++) {
		/* targets__read() then checks the probes once more, before they are taken out */
		s->targets[i]->silence_look_ns = 0;
		targets__read(s, s->targets[i]);
	}
	s->stop_ns = clock__now_ns(CLOCK_MONOTONIC);
	forget_due(s);
	s->own_cpu_ns = own__cpu_ns() - s->own_cpu_ns - s->command_cpu_ns;
	/* calls it twice: the second call handles the news that came during the first */
	session__dispatch(s);
	session__dispatch(s);
	region_calls__settle(s, true);
	for (size_t i = 0; i < s->n_targets; i++)
		region_calls__compare(s->targets[i]);
	read_resident(s);
	large_blocks__look(s);
	far__hurry(false);
	/* Takes the probes out first, so that targets do not feel them during what follows. */
	if (capture__kind(s->capture) != PROBE_PERF || s->blocks)
		capture__detach(s->capture);
	budget__end(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		books__read_bound(s->targets[i]);
		targets__read(s, s->targets[i]);
		targets__read_size(s->targets[i]);
		if (!s->targets[i]->ended)
			targets__refresh_maps(s, s->targets[i]);
	}
	large_blocks__finish(s);
	count_strays(s);
	s->stopped = true;
	privileges__limit(PRIVILEGES_STOPPED, &s->privileges, NULL);
}

void session__detach(struct session *s)
{
	capture__detach(s->capture);
	privileges__limit(PRIVILEGES_DETACHED, &s->privileges, NULL);
}

bool session__is_guarded(struct session *s)
{
	return capture__is_kept(s->capture);
}

size_t session__withdrawals(const struct session *s, double *ret_s)
{
	*ret_s = (double)s->withdrawn_ns / 1e9;
	return s->n_withdrawals;
}

size_t session__met(const struct session *s)
{
	return s->n_met;
}

pid_t session__command(const struct session *s)
{
	return s->launch.pid;
}

bool session__command_ended(struct session *s, int *ret_wait_status)
{
	if (s->command_ended)
		*ret_wait_status = s->command_status;
	return s->command_ended;
}

bool session__has_lost_limit(const struct session *s)
{
	return s->lost_limit;
}

const char *session__no_returns(const struct session *s)
{
	return s->no_returns[0] ? s->no_returns : NULL;
}

const char *session__region_place(const struct session *s)
{
	return s->region_text;
}

enum probe_kind session__kind(const struct session *s)
{
	return capture__kind(s->capture);
}

const struct capture_probe *session__probes(const struct session *s, size_t *ret_n)
{
	return capture__probes(s->capture, ret_n);
}

const struct capture_refusal *session__refusals(const struct session *s, size_t *ret_n)
{
	return capture__refusals(s->capture, ret_n);
}
