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

/* While probes are placed, forks wait. So most of the time no probe is being placed. */
static void forks_get_their_time(void **state)
{
	struct machine *m = machine(true);

	(void)state;
	m->open_takes_ns = 200 * MS;
	for (int i = 0; i < 8; i++)
		add(m, i ? DEAR : WILD);
	drive(m, 60);
	/* at most a fifth of the time */
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
	/* with a rest of four times as long, no more than 12 */
	assert_true(opened(m) >= before + 20);
	end(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_get_their_time),
		cmocka_unit_test(waiting_needs_no_rest),
	};

	return cmocka_run_group_tests_name("openings", tests, NULL, NULL);
}
