// SPDX-License-Identifier: BSD-2-Clause
/* What a round of profiles reports if one of them cannot be made, or cannot be sent. The linker
 * replaces the capture, and the code that makes profiles. Every process is the test itself. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "session/internal.h"

#define N 4

static struct {
	uint32_t bad;	/* the number of the process whose profile cannot be made; 0: none */
	uint32_t stuck; /* the number of the process whose profile cannot be sent; 0: none */
	unsigned n_same;
	uint64_t sent[N];
	size_t n_sent;
} fake;

int __wrap_capture__drain(struct capture *capture, struct capture_drain *ret, struct error *err);
int __wrap_capture__drain(struct capture *capture, struct capture_drain *ret, struct error *err)
{
	(void)capture, (void)err;
	*ret = (struct capture_drain){};
	return 0;
}

int __wrap_capture__counters(struct capture *capture, uint32_t process,
			     struct abi_process_cpu *ret);
int __wrap_capture__counters(struct capture *capture, uint32_t process, struct abi_process_cpu *ret)
{
	(void)capture, (void)process;
	*ret = (struct abi_process_cpu){};
	return 0;
}

#define NO_LOSS(type, name, capture_type)                                                          \
	type __wrap_capture__##name(capture_type capture);                                         \
	type __wrap_capture__##name(capture_type capture)                                          \
	{                                                                                          \
		(void)capture;                                                                     \
		return 0;                                                                          \
	}
NO_LOSS(uint64_t, missed_runs, struct capture *)
NO_LOSS(uint64_t, processes_refused, const struct capture *)
NO_LOSS(uint64_t, borrowers_lost, const struct capture *)
NO_LOSS(uint32_t, tables_refused, const struct capture *)
NO_LOSS(bool, unwinding_refused, const struct capture *)

void __wrap_capture__beat(struct capture *capture);
void __wrap_capture__beat(struct capture *capture)
{
	(void)capture;
}

int __wrap_build__profile(const struct build *build, struct profile **ret);
int __wrap_build__profile(const struct build *build, struct profile **ret)
{
	if (build->target->process == fake.bad)
		return -ENOMEM;
	*ret = profile__new();
	assert_non_null(*ret);
	(*ret)->samples = build->target->process;
	return 0;
}

static int send(void *ctx, const struct profile *profile)
{
	(void)ctx;
	if (profile->samples == fake.stuck)
		return -EMFILE;
	assert_true(fake.n_sent < N);
	fake.sent[fake.n_sent++] = profile->samples;
	return 0;
}

static int same(void *ctx, pid_t pid)
{
	(void)ctx, (void)pid;
	fake.n_same++;
	return 0;
}

/* The last process rests. Returns the result of a round. */
static int round_of(struct session *s)
{
	const struct session_news news = {.profile = send, .same = same};
	struct target *resting = s->targets[N - 1];

	resting->told_ns = UINT64_MAX / 8; /* it is not due for a long time */
	resting->rest.news.since_ns = 1;
	resting->ended = false;
	assert_int_equal(targets__cpu_ns(resting, &resting->rest.news.cpu_ns), 0);
	fake.n_sent = fake.n_same = 0;
	return session__news(s, &news);
}

static void one_failure_does_not_keep_others_from_being_reported(void **state)
{
	struct target targets[N] = {}, *list[N];
	struct session s = {.what = WHAT_HEAP, .targets = list, .n_targets = N, .started = true};
	pid_t waits = fork();

	(void)state;
	if (!waits) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no child behind */
		for (;;)
			pause();
	}
	assert_true(waits > 0);
	usleep(100000);
	s.run = profile_run__new();
	assert_non_null(s.run);
	for (uint32_t i = 0; i < N; i++) {
		list[i] = &targets[i];
		targets[i].process = i + 1;
		targets[i].info.pid = i + 1 == N ? waits : getpid();
	}
	fake.bad = 1;
	fake.stuck = 2;
	assert_int_equal(round_of(&s), -ENOMEM);
	assert_int_equal(fake.n_sent, 1);
	assert_int_equal(fake.sent[0], 3);
	assert_int_equal(fake.n_same, 1);
	fake.bad = 0;
	assert_int_equal(round_of(&s), -EMFILE);
	assert_int_equal(fake.n_sent, 2);
	assert_int_equal(fake.n_same, 1);
	for (size_t i = 0; i + 1 < N; i++)
		assert_int_equal(targets[i].told_ns, 0); /* all stay due */
	fake.stuck = 0;
	assert_int_equal(round_of(&s), 0);
	assert_int_equal(fake.n_sent, 3);
	assert_int_equal(fake.n_same, 1);
	for (size_t i = 0; i + 1 < N; i++)
		assert_true(targets[i].told_ns > 0);
	profile_run__free(s.run);
	kill(waits, SIGKILL);
	assert_int_equal(waitpid(waits, NULL, 0), waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_failure_does_not_keep_others_from_being_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
