// SPDX-License-Identifier: BSD-2-Clause
#include "session/windows.h"

#include <string.h>

#define MS 1e6

#define FIRST_NS   (30 * MS)  /* length of the first window */
#define MIN_NS	   (15 * MS)  /* mean lengths */
#define MAX_NS	   (400 * MS)
#define PERIOD_NS  (1000 * MS) /* from window to window, where the budget allows */
#define LOOK_NS	   (50 * MS)   /* while tracing is continuous */
#define GLANCE_NS  (250 * MS) /* in a gap: the process may have become busier, or idle */
#define CREDIT_NS  (50 * MS) /* unused budget is not kept for ever */
#define PATIENCE_NS (250 * MS) /* of the budget of so long continuous tracing may be in debt: chance */
#define EASY	   0.9	     /* of its share: what continuous tracing may cost to begin with */
#define CHEAP	   2	     /* windows in a row that show it */
#define MIN_CPU	   1e-3	     /* CPU time per wall time: less is as good as idle */

static double uniform(struct windows *w)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15ull; /* splitmix64 (Steele, Lea, Flood 2014) */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A random length of that mean. */
static uint64_t about(struct windows *w, double mean)
{
	return (uint64_t)(mean * (0.5 + uniform(w)));
}

static double between(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

static double smooth(double old, double fresh)
{
	return old > 0 ? 0.7 * old + 0.3 * fresh : fresh;
}

static void restart(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	w->since_ns = now_ns;
	w->cost_ns = cost_ns;
	w->cpu_ns = cpu_ns;
}

void windows__begin(struct windows *w, double budget, double steady, uint64_t seed, uint64_t now_ns,
		    double cost_ns, double cpu_ns)
{
	memset(w, 0, sizeof(*w));
	w->budget = budget;
	w->steady = steady;
	w->spare = 1;
	w->random = seed;
	w->open = true;
	w->continuous = budget <= 0;
	w->length_ns = FIRST_NS;
	w->scale = 1;
	w->n_windows = 1;
	restart(w, now_ns, cost_ns, cpu_ns);
	w->next_ns = w->continuous ? UINT64_MAX : now_ns + (uint64_t)FIRST_NS;
}

void windows__set_period(struct windows *w, uint64_t period_ns)
{
	w->scale = (double)period_ns / PERIOD_NS;
	w->length_ns = FIRST_NS * w->scale;
	if (!w->continuous)
		w->next_ns = w->since_ns + (uint64_t)w->length_ns;
}

/* A stretch since the last change is over: books it. Its cost as a share of its CPU time, or of
 * a core's. */
static double book(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	double cost = cost_ns - w->cost_ns, cpu = cpu_ns - w->cpu_ns;
	double least = w->spare * (double)(now_ns - w->since_ns);

	if (w->open && !w->continuous)
		w->windows_cost_ns += cost;
	if (w->continuous && cpu < least)
		cpu = least;
	w->debt_ns += cost - (w->continuous ? w->steady : w->budget) * cpu;
	if (w->debt_ns < -CREDIT_NS)
		w->debt_ns = -CREDIT_NS;
	cpu = cpu < least ? least : cpu;
	return cpu > cost ? cost / cpu : cost > 0;
}

/* Adds the time since the last change, in which the probes were in place. */
static void book_time(struct windows *w, uint64_t now_ns)
{
	uint64_t *to = w->continuous ? &w->continuous_ns : &w->windows_ns;

	*to += now_ns - w->since_ns;
}

/* The probes are in place. */
static enum windows_action step_open(struct windows *w, uint64_t now_ns, double cost_ns,
				     double cpu_ns)
{
	double wall = (double)(now_ns - w->since_ns), cost = cost_ns - w->cost_ns, share;

	if (!w->n_cheap && wall > 0)
		w->cost_rate = smooth(w->cost_rate, cost / wall);
	if (wall > 0 && (w->continuous || !(w->cpu_rate > 0)))
		w->cpu_rate = (cpu_ns - w->cpu_ns) / wall;
	book_time(w, now_ns);
	share = book(w, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	if (w->continuous ? share <= w->steady || w->debt_ns <= w->steady * PATIENCE_NS
			  : share <= EASY * w->steady) {
		w->n_cheap++;
		if (w->continuous || w->n_cheap >= CHEAP || w->n_windows == 1) {
			w->continuous = true;
			w->next_ns = now_ns + (uint64_t)LOOK_NS;
			return WINDOWS_NONE;
		}
	} else {
		w->n_cheap = 0;
	}
	if (w->continuous && wall > 0)
		w->cost_rate = cost / wall;
	w->continuous = false;
	return WINDOWS_CLOSE;
}

/* When the process will have worked off what is to be worked off before the next window. */
static void plan_look(struct windows *w, uint64_t now_ns)
{
	double rate = w->budget * between(w->cpu_rate, MIN_CPU, 1e6);

	w->next_ns = now_ns + (uint64_t)between((w->debt_ns - w->open_at_ns) / rate, 1 * MS, GLANCE_NS);
}

static enum windows_action step_closed(struct windows *w, uint64_t now_ns, double cost_ns,
				       double cpu_ns)
{
	double wall = (double)(now_ns - w->since_ns);

	if (wall > 0)
		w->cpu_rate = smooth(w->cpu_rate, (cpu_ns - w->cpu_ns) / wall);
	book(w, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	if (w->debt_ns <= w->open_at_ns)
		return WINDOWS_OPEN;
	plan_look(w, now_ns);
	return WINDOWS_NONE;
}

enum windows_action windows__step(struct windows *w, uint64_t now_ns, double cost_ns,
				  double cpu_ns)
{
	if (now_ns < w->next_ns)
		return WINDOWS_NONE;
	return w->open ? step_open(w, now_ns, cost_ns, cpu_ns)
		       : step_closed(w, now_ns, cost_ns, cpu_ns);
}

void windows__done(struct windows *w, enum windows_action action, uint64_t now_ns, double cost_ns,
		   double cpu_ns)
{
	double allowed;

	book(w, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->open = action == WINDOWS_OPEN;
	if (!w->open) {
		/* a random share of it, on the average all; more than the credit is not to be had */
		w->open_at_ns = w->debt_ns - (w->debt_ns > 0 ? w->debt_ns * (0.5 + uniform(w)) : 0);
		w->open_at_ns = between(w->open_at_ns, -CREDIT_NS / 2, w->debt_ns);
		plan_look(w, now_ns);
		return;
	}
	allowed = w->budget * between(w->cpu_rate, MIN_CPU, 1e6) * PERIOD_NS;
	w->length_ns = w->scale * between(w->cost_rate > 0 ? allowed / w->cost_rate : MAX_NS,
					  MIN_NS, MAX_NS);
	w->n_windows++;
	w->next_ns = now_ns + about(w, w->length_ns);
}

void windows__cut(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns,
		  double cost_rate)
{
	double wall = (double)(now_ns - w->since_ns);

	if (cost_rate < 0)
		cost_rate = wall > 0 ? (cost_ns - w->cost_ns) / wall : 0;
	w->cost_rate = smooth(w->cost_rate, cost_rate);
	if (wall > 0 && !(w->cpu_rate > 0))
		w->cpu_rate = (cpu_ns - w->cpu_ns) / wall;
	if (w->open)
		book_time(w, now_ns);
	book(w, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->open = w->continuous = false;
	/* what is left of a few ms more or less is no reason to wait on */
	w->open_at_ns = 0;
	w->next_ns = now_ns;
}

void windows__hold(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	book(w, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->open = w->continuous = true;
	w->next_ns = UINT64_MAX;
}

bool windows__end(struct windows *w, uint64_t now_ns)
{
	bool open = w->open;

	if (open)
		book_time(w, now_ns);
	w->open = false;
	return open;
}
