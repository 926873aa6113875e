// SPDX-License-Identifier: BSD-2-Clause
#include "sandbox/gentle.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"

#define S 1000000000ULL /* ns */

/* --- what is due --- */

/* Returns a - b, or 0 if b is larger, because two clocks do not agree to the ns. */
static uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void gentle__init(struct gentle *gentle, uint64_t until_ns, const struct gentle_times *now)
{
	*gentle = (struct gentle){.until_ns = until_ns, .resumed = *now, .calm = GENTLE_CALM};
}

static void note_wait(struct gentle *gentle, uint64_t waited_ns, uint64_t usual_ns)
{
	if (waited_ns > usual_ns)
		gentle->calm = 0;
}

uint64_t gentle__pause(struct gentle *gentle, const struct gentle_times *now)
{
	uint64_t worked_ns = beyond(now->cpu_ns, gentle->resumed.cpu_ns);
	uint64_t passed_ns = beyond(now->wall_ns, gentle->resumed.wall_ns);
	uint64_t left_ns = beyond(gentle->until_ns, now->wall_ns);

	gentle->awake_ns += worked_ns;
	if (gentle->calm < GENTLE_CALM)
		gentle->calm++;
	note_wait(gentle, beyond(passed_ns, worked_ns), GENTLE_WAIT_NS);
	gentle->paused_ns = now->wall_ns;
	gentle->asked_ns = 0;
	if (gentle->calm < GENTLE_CALM)
		gentle->asked_ns = gentle->awake_ns * (GENTLE_SHARE - 1);
	else if (gentle->awake_ns >= GENTLE_REST_NS)
		gentle->asked_ns = GENTLE_NAP_NS;
	if (gentle->asked_ns > left_ns)
		gentle->asked_ns = left_ns;
	return gentle->asked_ns;
}

void gentle__resume(struct gentle *gentle, const struct gentle_times *now)
{
	uint64_t away_ns = beyond(now->wall_ns, gentle->paused_ns);

	note_wait(gentle, beyond(away_ns, gentle->asked_ns),
		  gentle->asked_ns ? GENTLE_LATE_NS : GENTLE_WAIT_NS);
	if (gentle->asked_ns)
		gentle->awake_ns = 0;
	gentle->resumed = *now;
}

/* --- this process --- */

static struct {
	bool on;
	uint64_t due_ns; /* CLOCK_MONOTONIC: the next break */
	struct gentle gentle;
} here;

static struct gentle_times read_clocks(void)
{
	return (struct gentle_times){.wall_ns = clock__now_ns(CLOCK_MONOTONIC),
				     .cpu_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

void gentle__begin(double for_s)
{
	struct gentle_times now = read_clocks();

	/* Without this, each sleep takes 50 us longer. A failure has no other effect. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	gentle__init(&here.gentle, now.wall_ns + (uint64_t)(for_s * (double)S), &now);
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
	now = read_clocks();
	gentle__resume(&here.gentle, &now);
	here.due_ns = now.wall_ns + GENTLE_BURST_NS;
}

void gentle__step(void)
{
	if (here.on && clock__now_ns(CLOCK_MONOTONIC) >= here.due_ns)
		take_break();
}
