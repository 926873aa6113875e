// SPDX-License-Identifier: BSD-2-Clause
/* The scheduler on a simulated machine. */
#include "machine.h"

static const struct program WILD = {5, 500, 1, 0};
static const struct program MODEST = {50000, 500, 0.2, 0};
static const struct program EASY = {12000, 500, 1, 0};
static const struct program ASLEEP = {1000, 500, 1e-4, 0};
static const struct program RARE = {1e6, 500, 5e-3, 0}; /* a call in 200 ms */

/* --- own --- */

static void a_busy_process_keeps_its_limit(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD);

	(void)state;
	drive(m, 60);
	assert_true(p->cost < 1.01 * LIMIT * p->cpu);
	/* the time in which probes are placed and removed counts, too, although it costs less */
	assert_true(p->cost > 0.8 * LIMIT * p->cpu);
	assert_in_range(p->opened, 40, 90);
	assert_int_equal(p->harvests, p->closed);
	assert_int_equal(p->adapted, p->closed);
	assert_true(p->notes > 2 * p->opened); /* at least at each opening and closing */
	end(m);
}

static void what_fits_is_continuous(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, MODEST), *wild = add(m, WILD);

	(void)state;
	drive(m, 10);
	assert_true(p->pace.windows.continuous && p->in);
	assert_int_equal(p->closed, 0);
	assert_true(wild->opened > 3); /* each has its own limit */
	end(m);
}

static void an_idle_process_is_continuous_again(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD);

	(void)state;
	drive(m, 0.1);
	p->program = ASLEEP;
	for (int i = 0; i < 1500 && !(p->opened && p->inside); i++)
		drive(m, 0.002);
	/* Continuous tracing begins as a stretch, not as a window. Otherwise the stretch would
	 * count as a window if the process is busy at its first check. */
	assert_int_equal(p->restored, 1);
	drive(m, 3);
	assert_true(p->pace.windows.continuous && p->in && p->inside);
	assert_int_equal(p->opened, 1);
	/* a process that is kept from running is not traced continuously */
	p->program = WILD;
	drive(m, 3);
	p->program = ASLEEP;
	p->starved = true;
	drive(m, 3);
	assert_false(p->pace.windows.continuous);
	end(m);
}

static void slow_closing_is_paid_for(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD);

	(void)state;
	m->open_takes_ns = 100 * MS;
	m->close_takes_ns = 400 * MS;
	drive(m, 300);
	assert_true(p->cost < 1.02 * LIMIT * p->cpu);
	assert_true(p->cost > 0.75 * LIMIT * p->cpu);
	assert_in_range(p->opened, 10, 40);
	/* a window is no shorter than a fifth of the time that it really takes to place and remove
	 * its probes (about 500 ms) */
	assert_true(p->pace.windows.length_ns >= 0.16 * 500 * MS);
	end(m);
}

static void probes_that_cannot_be_placed(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD), *other = add(m, WILD);

	(void)state;
	p->fails = true;
	drive(m, 20);
	assert_int_equal(p->opened, 0);
	assert_true(p->pace.failed > 0);
	assert_false(p->in || p->inside);
	assert_true(other->opened > 10);
	p->fails = false; /* now the scheduler's next attempt succeeds */
	drive(m, 10);
	assert_true(p->opened > 3);
	end(m);
}

static void a_process_may_end_in_its_window(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD), *closing = add(m, WILD), *other = add(m, WILD);
	unsigned harvests;

	(void)state;
	until(m, p->inside && p->opened > 2);
	harvests = p->harvests;
	p->gone = true;
	scheduler__end(&m->scheduler, &p->pace);
	assert_int_equal(p->harvests, harvests + 1);
	until(m, closing->pace.closing);
	harvests = closing->harvests;
	closing->gone = true;
	scheduler__end(&m->scheduler, &closing->pace);
	assert_int_equal(closing->harvests, harvests + 1);
	scheduler__forget(&m->scheduler, &closing->pace);
	drive(m, 10);
	assert_int_equal(m->scheduler.n, 2);
	assert_true(other->opened > 5);
	scheduler__stop(&m->scheduler);
	assert_int_equal(p->last_looks, 0);
	assert_int_equal(other->last_looks, 1);
	end(m);
}

static void the_end_takes_the_last_window_in(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD), *modest = add(m, MODEST);
	unsigned harvests;

	(void)state;
	until(m, p->in && p->opened > 2);
	drive(m, 0.006);
	harvests = p->harvests;
	scheduler__stop(&m->scheduler);
	assert_int_equal(p->harvests, harvests + 1);
	assert_int_equal(modest->harvests, 0); /* continuous from the start */
	assert_int_equal(p->last_looks, 1);
	assert_true(scheduler__keep(&m->scheduler) == UINT64_MAX);
	assert_int_equal(p->harvests, harvests + 1);
	end(m);
}

/* Long work waits for a gap, and a gap comes soon. So long work does not make a window last
 * longer. */
static void work_waits_for_a_gap(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m = machine(shared);
		unsigned waited = 0;

		for (int i = 0; i < (shared ? 20 : 1); i++)
			add(m, WILD);
		add(m, MODEST);
		for (int i = 0; i < 6000 && !(m->processes[0].in && !m->everywhere &&
					      m->processes[0].opened > 1);
		     i++)
			drive(m, 0.005);
		assert_true(m->processes[0].in && !m->everywhere);
		assert_false(scheduler__is_quiet(&m->scheduler));
		for (; waited < 1000 && !scheduler__is_quiet(&m->scheduler); waited++)
			drive(m, 0.005);
		assert_in_range(waited, 1, 120);
		for (size_t i = 0; i < m->n; i++)
			assert_true(!is_in(m, &m->processes[i]) ||
				    m->processes[i].pace.windows.continuous);
		end(m);
	}
}

/* The kernel's idle time goes backwards at times. */
static void spare_is_a_share_of_one_core(void **state)
{
	(void)state;
	assert_true(scheduler__spare(100, 150, 200) == 0.25);
	assert_true(scheduler__spare(100, 700, 200) == 1);
	assert_true(scheduler__spare(100, 50, 200) == 0);
}

/* --- shared --- */

static void quiet_machines_are_traced_everywhere(void **state)
{
	struct machine *m = machine(true);

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, i % 2 ? MODEST : ASLEEP);
	drive(m, 30);
	assert_true(m->everywhere);
	assert_int_equal(m->left, 0);
	assert_int_equal(m->processes[1].opened, 0);
	assert_int_equal(m->processes[1].harvests, 0);
	end(m);
}

static void many_share_the_hosts_limit(void **state)
{
	struct machine *m = machine(true);
	unsigned fewest = UINT32_MAX;
	double begun;

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, WILD);
	drive(m, 120);
	begun = (double)(m->now - 1000 * MS);
	assert_false(m->everywhere);
	assert_true(m->cost < HOST * CPUS * begun * 1.05);
	assert_true(m->cost > HOST * CPUS * begun * 0.6);
	/* the scheduler's figure for the cost of all processes is near the true cost */
	assert_true(fabs(scheduler__machine_cost_ns(&m->scheduler) - m->cost) < 0.1 * m->cost);
	for (size_t i = 0; i < m->n; i++)
		fewest = m->processes[i].opened < fewest ? m->processes[i].opened : fewest;
	assert_true(fewest >= 2);
	assert_true(m->most_open <= PACE_SLOTS);
	end(m);
}

/* The scheduler does not read the clock of a process that waits for its turn. So scheduler__note()
 * must read it before the process's blocks are read. When tracing ends, the clock of each process
 * is read once more. */
static void clocks_go_on_without_turns(void **state)
{
	struct machine *m = machine(true);
	bool behind = false;

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, WILD);
	drive(m, 30);
	for (size_t i = 0; i < m->n; i++)
		behind |= m->processes[i].noted_cpu < m->processes[i].cpu - 0.5 * S;
	assert_true(behind);
	scheduler__note(&m->scheduler, &m->processes[0].pace);
	assert_true(m->processes[0].noted_cpu == m->processes[0].cpu);
	scheduler__end(&m->scheduler, &m->processes[1].pace);
	assert_true(m->processes[1].noted_cpu == m->processes[1].cpu);
	scheduler__stop(&m->scheduler);
	for (size_t i = 2; i < m->n; i++)
		assert_true(m->processes[i].noted_cpu == m->processes[i].cpu);
	end(m);
}

static void modest_ones_keep_their_turn(void **state)
{
	struct machine *m = machine(true);
	struct process *wild = add(m, WILD), *modest = add(m, MODEST), *asleep = add(m, ASLEEP);

	(void)state;
	drive(m, 60);
	assert_false(m->everywhere);
	assert_true(wild->opened > 20);
	assert_true(wild->cost < 1.1 * LIMIT * wild->cpu);
	assert_in_range(modest->opened, 1, 4); /* traced continuously */
	assert_true(modest->harvests > 15);    /* its time is harvested in parts */
	assert_true(modest->restored > 15);    /* the parts do not count as windows */
	assert_true(asleep->opened <= 3);
	end(m);
}

/* If more processes want a turn than may have one, even cheap turns are short. Such turns count as
 * windows, so memtrace estimates what happens between the turns. */
static void turns_in_a_crowd_are_windows(void **state)
{
	struct machine *m = machine(true);
	unsigned opened = 0, restored = 0;

	(void)state;
	add(m, WILD);
	for (int i = 0; i < 40; i++)
		add(m, MODEST);
	drive(m, 60);
	assert_false(m->everywhere);
	assert_int_equal(m->most_open, PACE_SLOTS);
	for (size_t i = 1; i < m->n; i++) {
		opened += m->processes[i].opened;
		restored += m->processes[i].restored;
	}
	assert_true(opened > 80);
	assert_true(restored < opened / 20);
	end(m);
}

/* A few cheap processes could together use up the host's budget. Other processes must still get
 * their windows. */
static void cheap_ones_leave_others_their_part(void **state)
{
	struct machine *m = machine(true);
	struct process *wild = add(m, WILD);
	double begun;

	(void)state;
	for (int i = 0; i < 5; i++)
		add(m, EASY); /* together a fifth of a core; 0.08 of a core is allowed */
	drive(m, 120);
	begun = (double)(m->now - 1000 * MS);
	assert_false(m->everywhere);
	assert_true(m->cost < HOST * CPUS * begun * 1.1);
	for (size_t i = 0; i < m->n; i++)
		assert_true(m->processes[i].opened >= 5);
	/* the budget is also kept when only the cheap processes are left */
	wild->gone = true;
	scheduler__end(&m->scheduler, &wild->pace);
	begun = (double)m->now;
	m->cost = 0;
	drive(m, 60);
	assert_true(m->everywhere || m->cost < HOST * CPUS * ((double)m->now - begun) * 1.2);
	end(m);
}

static void it_comes_back_when_the_storm_is_over(void **state)
{
	struct machine *m = machine(true);
	struct process *wild = add(m, WILD), *modest = add(m, MODEST);

	(void)state;
	drive(m, 20);
	assert_false(m->everywhere);
	wild->gone = true;
	scheduler__end(&m->scheduler, &wild->pace);
	drive(m, 20);
	assert_true(m->everywhere);
	assert_true(m->came_back >= 1);
	assert_true(modest->pace.windows.continuous && modest->inside);
	assert_int_equal(m->scheduler.n_open, 0);
	end(m);
}

/* An idle process makes no calls. This does not show that its probes are gone. */
static void it_does_not_come_back_to_probes_that_go(void **state)
{
	struct machine *m = machine(true);
	struct process *wild = add(m, WILD), *rare = add(m, RARE);

	(void)state;
	drive(m, 20);
	assert_false(m->everywhere);
	m->close_takes_ns = 400 * MS; /* probes are removed slowly, as on a starved CPU */
	until(m, rare->in && rare->inside);
	wild->gone = true;
	scheduler__end(&m->scheduler, &wild->pace);
	until(m, !rare->in);
	assert_false(m->everywhere);
	drive(m, 1);
	assert_true(m->everywhere && rare->inside);
	end(m);
}

/* Each attempt that fails doubles the time to the next one, from 5 s up to 15 minutes. It does not
 * matter how long ago the probes were removed. */
static void attempts_in_vain_come_ever_later(void **state)
{
	struct machine *m = machine(true);
	struct process *wild = add(m, WILD);
	uint64_t left_ns, end_ns;

	(void)state;
	add(m, MODEST);
	until(m, !m->everywhere);
	left_ns = m->now;
	m->sealed = true;
	wild->gone = true;
	scheduler__end(&m->scheduler, &wild->pace);
	drive(m, 330);
	/* the sixth attempt comes after 5 + 10 + 20 + 40 + 80 + 160 = 315 s */
	assert_int_equal(m->n_tried, 6);
	for (size_t i = 0; i < m->n_tried; i++) {
		uint64_t wait = m->tried_ns[i] - (i ? m->tried_ns[i - 1] : left_ns);

		assert_in_range(wait, (5000 * MS << i) - STEP_NS, (5000 * MS << i) + 1500 * MS);
	}
	/* until the first attempt, probes were in no code */
	assert_false(host__was_everywhere(&m->scheduler.host, left_ns, m->tried_ns[0]));
	m->sealed = false;
	end_ns = m->tried_ns[5] + 322000 * MS;
	drive(m, (double)(end_ns - m->now) / S);
	assert_true(m->everywhere);
	end(m);
}

/* A process is held up while its probes are placed. This time is not part of the window. */
static void windows_begin_when_probes_have_settled(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m = machine(shared);
		struct process *p = add(m, WILD), *closing = add(m, WILD);
		uint64_t open_ns, windows;
		unsigned harvests;

		(void)state;
		for (int i = 0; i < 3; i++) {
			until(m, !p->in);
			until(m, p->in);
			open_ns = m->now;
			assert_false(p->inside);
			until(m, p->inside);
			assert_in_range(p->window_ns - open_ns, 1 * MS, 5 * MS);
			assert_int_equal(p->window_ns, p->pace.start_ns);
		}
		/* a process that ends before its window begins adds nothing */
		until(m, !closing->in);
		until(m, closing->in);
		assert_false(closing->inside);
		assert_false(scheduler__is_quiet(&m->scheduler));
		harvests = closing->harvests;
		windows = closing->pace.windows.n_windows;
		closing->gone = true;
		scheduler__end(&m->scheduler, &closing->pace);
		drive(m, 1);
		assert_int_equal(closing->harvests, harvests);
		/* its window does not count */
		assert_int_equal(closing->pace.windows.n_windows, windows - 1);
		/* the process runs another program (an exec) before its window begins */
		until(m, !p->in);
		until(m, p->in);
		p->pace.cut = true;
		drive(m, 0.1);
		assert_false(p->inside && p->pace.cut);
		end(m);
	}
}

/* A window may begin late, because it takes long to place other probes. Such a window does not end
 * at once. */
static void windows_are_whole_however_late_they_begin(void **state)
{
	struct machine *m = machine(false);

	(void)state;
	m->open_takes_ns = 60 * MS;
	for (int i = 0; i < 4; i++)
		add(m, WILD);
	drive(m, 60);
	for (size_t i = 0; i < m->n; i++) {
		assert_true(m->processes[i].harvests > 3);
		/* at least half of the least mean length of windows */
		assert_true(m->processes[i].shortest_ns >= 3 * MS);
	}
	end(m);
}

static void turns_end_with_their_process(void **state)
{
	struct machine *m = machine(true);
	struct process *p = add(m, WILD), *other = add(m, WILD);
	unsigned harvests;

	(void)state;
	until(m, p->inside && p->opened > 2);
	harvests = p->harvests;
	p->gone = true;
	scheduler__end(&m->scheduler, &p->pace);
	assert_false(p->in); /* the kernel is still closing the links */
	drive(m, 1);
	assert_int_equal(p->harvests, harvests + 1);
	scheduler__forget(&m->scheduler, &p->pace);
	assert_int_equal(m->scheduler.n, 1);
	harvests = other->opened;
	drive(m, 10);
	assert_true(other->opened > harvests);
	/* if the process runs another program in the middle of a window, the window ends */
	until(m, other->in && !other->pace.closing);
	other->pace.cut = true;
	drive(m, 0.15);
	assert_false(other->in && other->pace.cut);
	end(m);
}

static void turns_with_nothing_to_see_go_on(void **state)
{
	struct machine *m = machine(true);
	struct process *p = add(m, WILD), *other = add(m, WILD);

	(void)state;
	p->fails = true; /* the process has no known allocator */
	drive(m, 30);
	assert_int_equal(p->opened, 0);
	assert_true(other->opened > 5);
	end(m);
}

static void nobody_comes_by_chance(void **state)
{
	struct machine *m = machine(true);
	struct process *p, *late;

	(void)state;
	p = add(m, WILD);
	drive(m, 5);
	late = add(m, WILD); /* begins in the turn of another process, and waits for its own */
	assert_false(late->pace.windows.open);
	drive(m, 10);
	assert_true(late->opened > 0 && p->opened > 0);
	end(m);
}

/* --- probes that somebody else has removed --- */

/* The scheduler is held up for `ns` nanoseconds, and all probes are withdrawn at the beginning of
 * this time. */
static void hold_up(struct machine *m, uint64_t ns)
{
	uint64_t when = m->now;

	m->withdrawn = true;
	pass(m, ns);
	m->withdrawn = false;
	scheduler__withdraw(&m->scheduler, when);
	for (size_t i = 0; i < m->n; i++)
		m->processes[i].in = false;
}

static void a_withdrawn_window_is_void(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m = machine(shared);
		struct process *p = add(m, WILD), *other = add(m, WILD);
		double rate, used, cost;
		unsigned harvests;
		uint64_t n, ns;

		(void)state;
		drive(m, 20);
		until(m, p->inside && !p->pace.closing && p->pace.windows.n_windows > 2);
		assert_false(p->pace.windows.continuous);
		rate = p->pace.windows.cost_rate;
		n = p->pace.windows.n_windows;
		ns = p->pace.windows.windows_ns;
		harvests = p->harvests;
		cost = p->cost;
		used = p->cpu;
		hold_up(m, 10 * 1000 * MS);
		assert_true(p->cost - cost < 1); /* checks the simulation: there were no probes */
		assert_false(p->inside || p->pace.windows.open || p->pace.closing || p->pace.due);
		assert_int_equal(p->pace.windows.n_windows, n - 1);
		assert_int_equal(p->pace.windows.windows_ns, ns);
		/* the next window does not include the counts of the hold-up */
		assert_int_equal(p->passed_over, 1);
		assert_true(p->pace.windows.cost_rate == rate);
		until(m, p->inside);
		until(m, other->inside);
		drive(m, 60);
		assert_true(p->harvests > harvests);
		assert_true(p->cost < 1.02 * LIMIT * p->cpu && p->cpu > used);
		assert_true(p->pace.windows.windows_ns <
			    5000 * MS); /* the hold-up does not count as a window */
		end(m);
	}
}

static void withdrawn_tracing_goes_on_after_a_gap(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, MODEST);
	uint64_t when;

	(void)state;
	drive(m, 10);
	assert_true(p->pace.windows.continuous);
	when = m->now;
	hold_up(m, 10 * 1000 * MS);
	assert_false(p->inside);
	assert_true(p->pace.windows.continuous_ns <= when - 1000 * MS);
	until(m, p->harvests == 1);
	assert_int_equal(p->pace.end_ns, when);
	until(m, p->inside && p->pace.windows.continuous);
	assert_int_equal(p->harvests, p->opened); /* also counts the windows at the start */
	end(m);
}

static void withdrawn_from_everybody_it_comes_back(void **state)
{
	struct machine *m = machine(true);
	struct process *p = add(m, MODEST);
	uint64_t when;

	(void)state;
	drive(m, 5);
	assert_true(m->everywhere);
	when = m->now;
	hold_up(m, 10 * 1000 * MS);
	assert_int_equal(m->left, 1);
	assert_int_equal(p->pace.end_ns, when);
	assert_int_equal(p->harvests, 1);
	/* a process that lived during the hold-up met no probe */
	assert_false(host__was_everywhere(&m->scheduler.host, when + 1000 * MS, when + 2000 * MS));
	assert_true(host__was_everywhere(&m->scheduler.host, when - 1000 * MS, when));
	drive(m, 20);
	assert_true(m->everywhere && p->inside);
	end(m);
}

/* The process uses one CPU for 11 s, and has probes for the first of these seconds only. */
static void time_after_the_probes_is_not_theirs(void **state)
{
	struct machine *m = machine(true);
	struct process *p = add(m, MODEST);

	(void)state;
	p->program.busy = 1;
	p->program.cost_ns = 0;
	drive(m, 1);
	assert_true(m->everywhere && !p->pace.turn.known);
	hold_up(m, 10 * 1000 * MS);
	assert_false(m->everywhere);
	assert_in_range((uint64_t)(p->pace.windows.used_rate * 1000), 990, 1010);
	assert_in_range((uint64_t)(p->pace.windows.cpu_rate * 1000), 990, 1010);
	end(m);
}

static void a_return_that_fails_shows_no_calls(void **state)
{
	struct machine *m = machine(true);
	const struct host *host = &m->scheduler.host;

	(void)state;
	add(m, MODEST);
	drive(m, 5);
	hold_up(m, 1000 * MS);
	m->sealed = true;
	until(m, m->n_tried == 1);
	assert_false(m->everywhere || host->everywhere);
	assert_false(host__was_everywhere(host, m->now - 1000 * MS, m->now - 500 * MS));
	m->sealed = false;
	until(m, m->everywhere);
	end(m);
}

/* On a busy machine the harvest may take seconds. The probes are removed before the harvest. */
static void who_lives_during_the_harvest_met_no_probe(void **state)
{
	struct machine *m = machine(true);
	const struct host *host = &m->scheduler.host;
	uint64_t end_ns;

	(void)state;
	add(m, WILD);
	m->harvest_takes_ns = 3000 * MS;
	until(m, m->left == 1);
	end_ns = m->processes[0].pace.end_ns;
	assert_false(host->everywhere);
	assert_false(host__was_everywhere(host, end_ns + 1000 * MS, end_ns + 2000 * MS));
	assert_true(host__was_everywhere(host, end_ns - 2 * MS, end_ns));
	end(m);
}

static void nothing_is_withdrawn_between_windows(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD);
	struct windows before;
	unsigned harvests;

	(void)state;
	until(m, p->opened > 2 && p->pace.closing);
	harvests = p->harvests;
	hold_up(m, 1000 * MS);
	/* the window that was closing counts, because it was whole */
	until(m, p->harvests == harvests + 1);
	before = p->pace.windows;
	hold_up(m, 1000 * MS);
	assert_int_equal(p->pace.windows.n_windows, before.n_windows);
	assert_int_equal(p->pace.windows.next_ns, before.next_ns);
	end(m);
}

/* --- favours --- */

/* Returns how many windows a process gets in this time, and their cost as a share of its CPU
 * time. */
static unsigned windows_in(struct machine *m, const struct process *p, double seconds,
			   double *ret_share)
{
	unsigned opened = p->opened;
	double cost = p->cost, cpu = p->cpu;

	drive(m, seconds);
	*ret_share = (p->cost - cost) / (p->cpu - cpu);
	return p->opened - opened;
}

static void a_favoured_process_has_more_windows(void **state)
{
	struct machine *m = machine(false);
	struct process *p = add(m, WILD), *other = add(m, WILD);
	unsigned usual, favoured, after, others;
	double share;

	(void)state;
	drive(m, 10);
	usual = windows_in(m, p, 60, &share);
	others = other->opened;
	assert_int_equal(scheduler__favour(&m->scheduler, &p->pace), 0);
	favoured = windows_in(m, p, 60, &share);
	assert_in_range(favoured, 2 * usual, 4 * usual); /* FAVOUR is three times LIMIT */
	assert_true(share < 1.02 * FAVOUR);
	others = other->opened - others;
	assert_in_range(others, usual / 2, usual * 3 / 2);
	/* the favour ends by itself, and another one cannot begin soon */
	assert_int_equal(scheduler__favour(&m->scheduler, &p->pace), -EALREADY);
	drive(m, (double)PACE_FAVOUR_NS / S - 60 + 5);
	assert_int_equal(m->scheduler.n_favoured, 0);
	after = windows_in(m, p, 60, &share);
	assert_in_range(after, usual / 2, usual * 3 / 2);
	assert_true(share < 1.02 * LIMIT);
	assert_int_equal(scheduler__favour(&m->scheduler, &p->pace), -EALREADY);
	m->now = p->pace.favoured_until_ns + PACE_FAVOUR_REST_NS;
	assert_int_equal(scheduler__favour(&m->scheduler, &p->pace), 0);
	end(m);
}

static void favours_keep_the_hosts_limit(void **state)
{
	struct machine *m = machine(true);
	struct process *p;
	unsigned fewest = UINT32_MAX, most = 0, opened[20];
	double begun, cost;

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, WILD);
	drive(m, 60);
	p = &m->processes[3];
	assert_false(m->everywhere);
	for (size_t i = 0; i < m->n; i++)
		opened[i] = m->processes[i].opened;
	assert_int_equal(scheduler__favour(&m->scheduler, &p->pace), 0);
	begun = (double)m->now;
	cost = m->cost;
	drive(m, 300);
	assert_true(m->cost - cost < HOST * CPUS * ((double)m->now - begun) * 1.05);
	for (size_t i = 0; i < m->n; i++) {
		unsigned more = m->processes[i].opened - opened[i];

		if (&m->processes[i] == p)
			continue;
		fewest = more < fewest ? more : fewest;
		most = more > most ? more : most;
	}
	assert_true(p->opened - opened[3] >= 2 * most);
	assert_true(fewest >= 4); /* the others still have their turns */
	end(m);
}

static void few_are_favoured_at_a_time(void **state)
{
	struct machine *m = machine(false);
	struct process *p[PACE_FAVOURED + 1];

	(void)state;
	for (int i = 0; i <= PACE_FAVOURED; i++)
		p[i] = add(m, WILD);
	drive(m, 1);
	for (int i = 0; i < PACE_FAVOURED; i++)
		assert_int_equal(scheduler__favour(&m->scheduler, &p[i]->pace), 0);
	assert_int_equal(scheduler__favour(&m->scheduler, &p[PACE_FAVOURED]->pace), -EBUSY);
	p[1]->gone = true;
	scheduler__end(&m->scheduler, &p[1]->pace);
	assert_int_equal(scheduler__favour(&m->scheduler, &p[1]->pace), -ESRCH);
	assert_int_equal(scheduler__favour(&m->scheduler, &p[PACE_FAVOURED]->pace), 0);
	assert_int_equal(m->scheduler.n_favoured, PACE_FAVOURED);
	/* a favour does not exceed the limits */
	drive(m, (double)PACE_FAVOUR_NS / S + 1);
	assert_int_equal(m->scheduler.n_favoured, 0);
	m->now += PACE_FAVOUR_REST_NS;
	m->scheduler.limits.favour = LIMIT;
	assert_int_equal(scheduler__favour(&m->scheduler, &p[0]->pace), -ENOTSUP);
	m->scheduler.limits.favour = 0;
	assert_int_equal(scheduler__favour(&m->scheduler, &p[0]->pace), -ENOTSUP);
	end(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_process_keeps_its_limit),
		cmocka_unit_test(what_fits_is_continuous),
		cmocka_unit_test(an_idle_process_is_continuous_again),
		cmocka_unit_test(slow_closing_is_paid_for),
		cmocka_unit_test(probes_that_cannot_be_placed),
		cmocka_unit_test(a_process_may_end_in_its_window),
		cmocka_unit_test(the_end_takes_the_last_window_in),
		cmocka_unit_test(work_waits_for_a_gap),
		cmocka_unit_test(spare_is_a_share_of_one_core),
		cmocka_unit_test(quiet_machines_are_traced_everywhere),
		cmocka_unit_test(many_share_the_hosts_limit),
		cmocka_unit_test(clocks_go_on_without_turns),
		cmocka_unit_test(modest_ones_keep_their_turn),
		cmocka_unit_test(turns_in_a_crowd_are_windows),
		cmocka_unit_test(cheap_ones_leave_others_their_part),
		cmocka_unit_test(it_comes_back_when_the_storm_is_over),
		cmocka_unit_test(it_does_not_come_back_to_probes_that_go),
		cmocka_unit_test(attempts_in_vain_come_ever_later),
		cmocka_unit_test(windows_begin_when_probes_have_settled),
		cmocka_unit_test(windows_are_whole_however_late_they_begin),
		cmocka_unit_test(turns_end_with_their_process),
		cmocka_unit_test(turns_with_nothing_to_see_go_on),
		cmocka_unit_test(nobody_comes_by_chance),
		cmocka_unit_test(a_withdrawn_window_is_void),
		cmocka_unit_test(withdrawn_tracing_goes_on_after_a_gap),
		cmocka_unit_test(withdrawn_from_everybody_it_comes_back),
		cmocka_unit_test(time_after_the_probes_is_not_theirs),
		cmocka_unit_test(a_return_that_fails_shows_no_calls),
		cmocka_unit_test(who_lives_during_the_harvest_met_no_probe),
		cmocka_unit_test(nothing_is_withdrawn_between_windows),
		cmocka_unit_test(a_favoured_process_has_more_windows),
		cmocka_unit_test(favours_keep_the_hosts_limit),
		cmocka_unit_test(few_are_favoured_at_a_time),
	};

	return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
