// SPDX-License-Identifier: BSD-2-Clause
#include "sandbox/gentle.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define S 1000000000ULL /* ns */

/* --- what is due --- */

void gentle__init(struct gentle *gentle, uint64_t until_ns, double max_share,
		  const struct gentle_times *now)
{
	*gentle = (struct gentle){
		.until_ns = until_ns, .max_share = max_share, .last = *now, .calm = GENTLE_CALM};
}

/* Returns how many ns the child must sleep so that it takes no more than its share of a CPU. 0:
 * there is no limit, or the sleep would be too short, and is made later. */
static uint64_t limit_sleep(const struct gentle *gentle)
{
	double sleep_ns =
		gentle->max_share > 0 ? (double)gentle->awake_ns * (1 / gentle->max_share - 1) : 0;

	return sleep_ns < GENTLE_NAP_NS ? 0 : (uint64_t)sleep_ns;
}

uint64_t gentle__pause(struct gentle *gentle, const struct gentle_times *now)
{
	uint64_t left_ns = gentle->until_ns > now->wall_ns ? gentle->until_ns - now->wall_ns : 0;
	uint64_t sleep_ns = 0, least_ns;

	gentle->awake_ns += now->cpu_ns - gentle->last.cpu_ns;
	if (gentle->calm < GENTLE_CALM)
		gentle->calm++;
	if (now->waited_ns - gentle->last.waited_ns > GENTLE_WAIT_NS)
		gentle->calm = 0;
	if (gentle->calm < GENTLE_CALM)
		sleep_ns = gentle->awake_ns * (GENTLE_SHARE - 1);
	else if (gentle->awake_ns >= GENTLE_REST_NS)
		sleep_ns = GENTLE_NAP_NS;
	if (sleep_ns > left_ns)
		sleep_ns = left_ns;
	least_ns = limit_sleep(gentle);
	if (sleep_ns < least_ns)
		sleep_ns = least_ns;
	if (sleep_ns)
		gentle->awake_ns = 0;
	gentle->last = *now;
	return sleep_ns;
}

/* --- this process --- */

static struct {
	bool on;
	int delay_fd;	 /* schedstat of this process; -1: there is none */
	uint64_t due_ns; /* CLOCK_MONOTONIC: the next break */
	struct gentle gentle;
} here;

/* Returns the run delay, or `otherwise` if it cannot be read. */
static uint64_t read_delay(uint64_t otherwise)
{
	char text[64];
	ssize_t n = here.delay_fd < 0 ? -1 : pread(here.delay_fd, text, sizeof(text) - 1, 0);
	uint64_t delay_ns;

	if (n < 0)
		return otherwise;
	text[n] = '\0';
	return sscanf(text, "%*u %" SCNu64, &delay_ns) == 1 ? delay_ns : otherwise;
}

static struct gentle_times read_clocks(void)
{
	uint64_t wall_ns = clock__now_ns(CLOCK_MONOTONIC);

	/* If the run delay cannot be read, all time counts as waiting. */
	return (struct gentle_times){.wall_ns = wall_ns,
				     .cpu_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID),
				     .waited_ns = read_delay(wall_ns)};
}

void gentle__begin(double for_s, double max_share)
{
	struct gentle_times now;

	/* Without this call, each sleep takes 50 us longer. A failure of the call has only this
	 * effect. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	here.delay_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	now = read_clocks();
	gentle__init(&here.gentle, now.wall_ns + (uint64_t)(for_s * (double)S), max_share, &now);
	here.due_ns = now.wall_ns + GENTLE_BURST_NS;
	here.on = true;
}

static void take_break(void)
{
	struct gentle_times now = read_clocks();
	uint64_t pause_ns = gentle__pause(&here.gentle, &now);
	struct timespec pause = {.tv_sec = (time_t)(pause_ns / S), .tv_nsec = (long)(pause_ns % S)};

	if (pause_ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	else
		sched_yield();
	here.due_ns = clock__now_ns(CLOCK_MONOTONIC) + GENTLE_BURST_NS;
}

void gentle__step(void)
{
	if (here.on && clock__now_ns(CLOCK_MONOTONIC) >= here.due_ns)
		take_break();
}
