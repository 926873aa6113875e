// SPDX-License-Identifier: BSD-2-Clause
/* How often windows are opened when each opening takes long. */
#include "machine.h"

static const struct program WILD = {5, 500, 1, 0};
static const struct program DEAR = {5000, 500, 1, 0};

static unsigned opened(const struct machine *m)
{
	unsigned sum = 0;

	for (size_t i = 0; i < m->n; i++)
		sum += m->processes[i].opened;
	return sum;
}

/* While probes are placed, forks wait. So the scheduler places probes for a small part of the time
 * only. */
static void forks_get_their_time(void **state)
{
	struct machine *m = machine(true);

	(void)state;
	m->open_takes_ns = 200 * MS;
	for (int i = 0; i < 8; i++)
		add(m, i ? DEAR : WILD);
	drive(m, 60);
	/* probes are being placed for at most a fifth of the time */
	assert_in_range(opened(m), 1, 60);
	end(m);
}

/* The kernel waits for its own threads before it delays a fork. That costs nobody time. */
static void waiting_needs_no_rest(void **state)
{
	struct machine *m = machine(true);
	unsigned before;

	(void)state;
	for (int i = 0; i < 8; i++)
		add(m, DEAR);
	drive(m, 10);
	before = opened(m);
	m->open_waits_ns = 1000 * MS;
	drive(m, 60);
	/* with rests four times as long as the openings, there would be at most 12 */
	assert_true(opened(m) >= before + 20);
	end(m);
}

/* A process that cannot be probed takes no turns from the others. */
static void vain_turns_take_no_time(void **state)
{
	struct machine *m = machine(true);
	unsigned alone = 0;

	(void)state;
	for (int round = 0; round < 2; round++) {
		m = round ? machine(true) : m;
		add(m, WILD);
		for (int i = 0; i < 4; i++)
			add(m, DEAR);
		for (int i = 0; round && i < 50; i++) {
			struct process *p = add(m, WILD);

			p->fails = true;
			p->program.cost_ns = 0;
		}
		drive(m, 60);
		if (!round)
			alone = opened(m);
		else
			assert_true(opened(m) > 0.8 * alone);
		end(m);
	}
}

/* On a machine without idle time, a process's windows are paid for only by the CPU time of the
 * process itself. */
static void a_full_machine_pays_nothing(void **state)
{
	static const struct program LIGHT = {5000, 2000, 0.1, 0};

	(void)state;
	for (int full = 0; full < 2; full++) {
		struct machine *m = machine(true);
		struct process *p, *wild;

		m->is_full = full;
		m->scheduler.limits.host = 1;
		wild = add(m, WILD);
		p = add(m, LIGHT);
		drive(m, 120);
		assert_true(wild->opened > 10 && p->harvests > 1);
		if (full)
			assert_true(p->cost < 1.3 * LIMIT * p->cpu);
		else
			assert_true(p->cost > 2 * LIMIT * p->cpu);
		end(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_get_their_time),
		cmocka_unit_test(waiting_needs_no_rest),
		cmocka_unit_test(vain_turns_take_no_time),
		cmocka_unit_test(a_full_machine_pays_nothing),
	};

	return cmocka_run_group_tests_name("openings", tests, NULL, NULL);
}
