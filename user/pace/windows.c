// SPDX-License-Identifier: BSD-2-Clause
#include "pace/windows.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

#define MS 1e6
#define S  1e9

/* Length of the first window, which is not paid for in advance. A longer window is looked at for
 * the first time after FIRST_NS. At a limit of 1 %, the first window is paid for after a second and
 * a half. */
#define FIRST_NS (15 * MS)
#define MIN_NS	 (6 * MS) /* least mean length of windows; MAX_NS: the largest */
#define MAX_NS	 (400 * MS)
/* longest window / mean length; LONGEST - 1: shortest window / mean length */
#define LONGEST	  1.5
#define EDGES	  0.2	      /* least length / time that opening and closing take */
#define PERIOD_NS (1000 * MS) /* from window to window, if the budget allows that */
#define LOOK_NS	  (50 * MS)   /* between steps in continuous tracing, and in a long window */
#define OVERSPENT 4.0	      /* a window ends at this many times its expected cost */
#define GLANCE_NS (250 * MS)  /* between steps in a gap: the process may become busier, or idle */
/* At most this much unused budget is saved up: in continuous tracing CREDIT_NS, otherwise CREDIT_NS
 * or the cost of CREDIT windows, whichever is larger. */
#define CREDIT_NS (50 * MS)
#define CREDIT	  6.0
/* When a window has closed, the budget should on average already pay for this many further
 * windows. */
#define RESERVE	    1.0
#define RETURN	    0.5	 /* the next gap makes up for this part of the difference to RESERVE */
#define LEAST_GAP   0.25 /* least mean gap / usual mean gap, however much budget is left */
#define LONGEST_GAP 4.0	 /* the exponential distribution is cut off at this many means */
/* Continuous tracing goes on while its debt is at most the budget of this time, because such a debt
 * may be due to chance. */
#define PATIENCE_NS (250 * MS)
#define CHEAP	    2	 /* cheap windows in a row before tracing is continuous */
#define NOTICED	    0.25 /* cost / CPU time above which users of the process notice a window */
#define LIGHT	    10.0 /* upper limit of (time that pays) / (CPU time): windows.h, "Light work" */
#define MIN_CPU	    1e-3 /* CPU time per wall time: less counts as idle */
#define DEAREST	    20.0 /* dearness() is at most this */
/* A process that used no CPU counts as idle only if at least this share of a core was free for it.
 * With less, the process may be waiting for a core. */
#define IDLE	0.5
#define IDLE_NS (250 * MS) /* for this time a process must be idle to count as idle */
/* if tracing is continuous for this time, the attempt has succeeded */
#define LASTING_NS	(5 * S)
#define BACK_OFF_NS	(2 * S) /* to the next attempt; doubled by each attempt that fails */
#define MAX_BACK_OFF_NS (60 * S)

/* Draws from an exponential distribution with mean 1. The distribution is cut off at T =
 * LONGEST_GAP, which lowers the mean by T / (e^T - 1). Then it is scaled to have mean 1 again. */
static double exponential(struct windows *w)
{
	const double T = LONGEST_GAP;

	return -log1p(-random__unit(&w->random) * -expm1(-T)) / (1 - T / expm1(T));
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
	w->since_samples_ns = w->samples_ns;
}

void windows__begin(struct windows *w, double budget, double steady, uint64_t seed, uint64_t now_ns,
		    double cost_ns, double cpu_ns)
{
	double samples_ns = w->samples_ns;

	memset(w, 0, sizeof(*w));
	w->samples_ns = samples_ns;
	thinning__init(&w->thinning, 1, 1);
	w->budget = budget;
	w->steady = steady;
	w->spare = 1;
	w->felt = WINDOWS_FELT;
	w->random = seed;
	w->open = true;
	w->continuous = budget <= 0;
	w->length_ns = FIRST_NS;
	w->scale = w->stretch = w->often = 1;
	w->back_off_ns = (uint64_t)BACK_OFF_NS;
	w->n_windows = 1;
	restart(w, now_ns, cost_ns, cpu_ns);
	w->next_ns = w->end_ns = w->continuous ? UINT64_MAX : now_ns + (uint64_t)FIRST_NS;
}

void windows__set_period(struct windows *w, uint64_t period_ns)
{
	w->scale = (double)period_ns / PERIOD_NS;
	w->length_ns = FIRST_NS * w->scale;
	if (!w->continuous)
		w->next_ns = w->end_ns = w->since_ns + (uint64_t)w->length_ns;
}

void windows__favour(struct windows *w, double budget, double steady)
{
	if (!(w->budget > 0))
		return;
	w->often *= budget / w->budget;
	w->budget = budget;
	w->steady = fmax(steady, budget);
}

/* Returns the time that pays for windows: "Light work" in windows.h. */
static double earned(const struct windows *w, double wall_ns, double cpu_ns)
{
	return fmax(cpu_ns, fmin(w->spare * wall_ns, LIGHT * cpu_ns));
}

/* --- what windows are expected to cost --- */

/* Returns the time that pays for windows, per ns of a gap. */
static double earning_rate(const struct windows *w)
{
	return between(earned(w, 1, w->cpu_rate), MIN_CPU, 1e6);
}

/* Returns what a window adds to the debt, per wall ns. felt: the felt cost; cpu: the process's CPU
 * time; both per wall ns. If users of the process notice the window, the window adds at least all
 * the time that pays for windows in a gap of the same length ("Touched requests" in windows.h). */
static double charge(const struct windows *w, double felt, double cpu)
{
	return felt > NOTICED * cpu ? fmax(earning_rate(w), felt) : felt;
}

/* Returns the budget that the process earns from one window to the next. */
static double allowed_ns(const struct windows *w)
{
	return w->scale * w->budget * earning_rate(w) * PERIOD_NS / w->often;
}

static double mean_length_ns(const struct windows *w)
{
	double rate = charge(w, w->cost_rate, w->used_rate);
	double allowed = allowed_ns(w) - rate * WINDOWS_SETTLE_NS - w->edge_cost_ns;

	return between(rate > 0 ? allowed / rate : w->scale * MAX_NS,
		       w->scale * between(EDGES * w->edge_ns, MIN_NS, MAX_NS), w->scale * MAX_NS);
}

double windows__longest_ns(const struct windows *w)
{
	return LONGEST * mean_length_ns(w);
}

/* Returns what a window adds to the debt if its length is `stretch` times the mean: C in
 * windows.h. */
static double window_debt_ns(const struct windows *w, double stretch)
{
	double rate =
		charge(w, w->cost_rate, w->used_rate) - w->budget * earned(w, 1, w->used_rate);

	return fmax(rate * (stretch * mean_length_ns(w) + WINDOWS_SETTLE_NS) + w->edge_cost_ns, 0);
}

/* Draws the length of the gap that begins now, and of the window at its end. The second window of a
 * run comes as soon as it is paid for, because a run may be short. */
static void draw_gap(struct windows *w)
{
	double usual = window_debt_ns(w, 1), mean = usual + RETURN * (w->debt_ns + RESERVE * usual);

	w->stretch = LONGEST - 1 + random__unit(&w->random);
	w->open_at_ns = w->debt_ns;
	if (w->n_windows > 1)
		w->open_at_ns -= fmax(mean, LEAST_GAP * usual) * exponential(w);
}

/* Returns how much unused budget is saved up at most. */
static double credit_ns(const struct windows *w)
{
	return w->continuous ? CREDIT_NS : fmax(CREDIT_NS, CREDIT * window_debt_ns(w, 1));
}

/* Returns the debt at which the next window comes. This value is never below -credit_ns(), because
 * the debt cannot fall below it. */
static double open_at_ns(const struct windows *w)
{
	return fmax(fmin(w->open_at_ns, -window_debt_ns(w, w->stretch)), -credit_ns(w));
}

/* --- books --- */

/* Returns the share of a core that was free for the process, but not used by it. */
static double rest(const struct windows *w)
{
	return w->sleeps && !w->open ? 1 : w->spare;
}

/* Returns the felt cost for a calibrated cost. In continuous tracing the two are the same. */
static double felt(const struct windows *w, double cost_ns)
{
	return w->continuous ? cost_ns : w->felt * cost_ns;
}

/* Adds the stretch since the last change to the accounts. window: the whole stretch was a window.
 * Returns the calibrated cost of the stretch as a share of its CPU time. If a core was idle for
 * longer than this CPU time, returns the cost as a share of that idle time. */
static double book(struct windows *w, bool window, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	double cost = cost_ns - w->cost_ns, cpu = cpu_ns - w->cpu_ns, dear = felt(w, cost);
	double wall = (double)(now_ns - w->since_ns), at_least = fmax(cpu, w->spare * wall);
	/* The time in which probes are placed or removed is not charged as a window: for most of
	 * that time, few probes are in place. */
	bool in_window = window && !w->continuous && wall > 0;

	w->windows_cost_ns += w->continuous ? 0 : cost;
	w->felt_ns += dear - cost;
	w->debt_ns += (in_window ? wall * charge(w, dear / wall, cpu / wall) : dear) -
		      (w->continuous ? w->steady * at_least : w->budget * earned(w, wall, cpu));
	w->debt_ns = fmax(w->debt_ns, -credit_ns(w));
	w->idle_debt_ns += dear - w->steady * fmax(cpu, rest(w) * wall);
	w->idle_debt_ns = fmax(w->idle_debt_ns, -CREDIT_NS);
	return at_least > cost ? cost / at_least : cost > 0;
}

/* Adds the time since the last change, in which the probes were in place, to continuous_ns or
 * windows_ns. */
static void book_time(struct windows *w, uint64_t now_ns)
{
	uint64_t *to = w->continuous ? &w->continuous_ns : &w->windows_ns;

	*to += now_ns - w->since_ns;
}

static void begin_attempt(struct windows *w, uint64_t now_ns)
{
	w->attempt = true;
	w->attempt_ns = now_ns;
}

/* May continuous tracing be tried? */
static bool may_try(const struct windows *w, uint64_t now_ns)
{
	return !w->attempt_ns || now_ns - w->attempt_ns >= w->back_off_ns;
}

/* Ends the attempt at continuous tracing, if there is one. */
static void end_attempt(struct windows *w, uint64_t now_ns)
{
	if (!w->attempt)
		return;
	w->attempt = false;
	w->back_off_ns = (double)(now_ns - w->attempt_ns) < LASTING_NS
				 ? (uint64_t)between(2.0 * (double)w->back_off_ns, BACK_OFF_NS,
						     MAX_BACK_OFF_NS)
				 : (uint64_t)BACK_OFF_NS;
}

/* Returns the costs since the last change. The probes were in place all that time. */
static struct thinning_costs costs(const struct windows *w, uint64_t now_ns, double cost_ns,
				   double cpu_ns)
{
	double samples = w->samples_ns - w->since_samples_ns, cost = cost_ns - w->cost_ns;
	double at_least = fmax(cpu_ns - w->cpu_ns, w->spare * (double)(now_ns - w->since_ns));
	double other = at_least - samples - (felt(w, cost) - cost);

	return (struct thinning_costs){cost - samples, samples, fmax(other, 0), w->steady};
}

/* Does continuous tracing continue, or begin? share: the cost since the last change, from
 * book(). */
static bool may_go_on(struct windows *w, const struct thinning_costs *costs, double share,
		      uint64_t now_ns)
{
	if (!w->continuous)
		return thinning__fit(&w->thinning, costs) > 0;
	w->borne_ns = fmin(w->borne_ns, fmax(w->debt_ns, 0));
	if (share <= w->steady || w->debt_ns - w->borne_ns <= w->steady * PATIENCE_NS) {
		thinning__watch(&w->thinning, costs, now_ns);
		return true;
	}
	if (!thinning__coarsen(&w->thinning, costs, now_ns))
		return false;
	/* The debt so far does not count against the new interval. Otherwise the next step could
	 * end the tracing by chance. */
	w->borne_ns = w->debt_ns;
	return true;
}

/* Has the open window cost far more than was expected of it? */
static bool is_overspent(const struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	double wall = (double)(now_ns - w->since_ns), dear = felt(w, cost_ns - w->cost_ns);
	double most = OVERSPENT * fmax(window_debt_ns(w, w->stretch), allowed_ns(w));

	return wall > 0 && wall * charge(w, dear / wall, (cpu_ns - w->cpu_ns) / wall) >
				   fmax(most, w->scale * MIN_NS);
}

/* Plans the next look at the open window after `ns`, or when the window ends, if this is
 * earlier. */
static void plan_check(struct windows *w, uint64_t now_ns, double ns)
{
	w->next_ns = now_ns + (uint64_t)ns;
	w->next_ns = w->next_ns < w->end_ns ? w->next_ns : w->end_ns;
}

/* Does a step while the probes are in place. */
static enum windows_action step_open(struct windows *w, uint64_t now_ns, double cost_ns,
				     double cpu_ns)
{
	double wall = (double)(now_ns - w->since_ns), cost = cost_ns - w->cost_ns, share;
	struct thinning_costs since = costs(w, now_ns, cost_ns, cpu_ns);

	if (wall > 0 && (w->continuous || !(w->cpu_rate > 0)))
		w->cpu_rate = (cpu_ns - w->cpu_ns) / wall;
	if (!w->n_cheap && wall > 0)
		w->cost_rate = smooth(w->cost_rate, felt(w, cost) / wall);
	if (wall > 0 && !w->continuous)
		w->used_rate = smooth(w->used_rate, (cpu_ns - w->cpu_ns) / wall);
	book_time(w, now_ns);
	share = book(w, true, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	if (may_go_on(w, &since, share, now_ns)) {
		w->n_cheap++;
		if (w->continuous ||
		    ((w->n_cheap >= CHEAP || w->n_windows == 1) && may_try(w, now_ns))) {
			if (!w->continuous) {
				/* This is an attempt, because the process may have been idle only
				 * for a while. */
				begin_attempt(w, now_ns);
				w->borne_ns = 0;
				thinning__begin(&w->thinning, thinning__fit(&w->thinning, &since),
						now_ns);
			}
			w->continuous = true;
			w->next_ns = now_ns + (uint64_t)LOOK_NS;
			return WINDOWS_NONE;
		}
	} else {
		w->n_cheap = 0;
	}
	if (w->continuous && wall > 0) {
		w->cost_rate = w->felt * cost / wall;
		w->used_rate = w->cpu_rate;
	}
	end_attempt(w, now_ns);
	w->continuous = false;
	return WINDOWS_CLOSE;
}

/* Plans the next step for the time when the process will probably have paid for the next window. */
static void plan_look(struct windows *w, uint64_t now_ns)
{
	double rate = w->budget * earning_rate(w);

	w->next_ns =
		now_ns + (uint64_t)between((w->debt_ns - open_at_ns(w)) / rate, 1 * MS, GLANCE_NS);
}

/* Estimates from windows what continuous tracing would cost for each ns of CPU time that the
 * process uses without probes. At least 1. At most DEAREST: if nearly all CPU time in
 * windows is cost, the rest is smaller than the error of the cost. */
static double dearness(const struct windows *w)
{
	double cost = w->cost_rate / w->felt, own = fmax(w->used_rate - cost, cost / DEAREST);

	return own > 0 ? fmax(cost / own, 1) : 1;
}

/* In a gap: is the process so idle that continuous tracing may be tried? There are two conditions.
 * For IDLE_NS, the process has used so little CPU time that tracing would have kept the limit. And
 * it has no debt in the second account. */
static bool is_idle(struct windows *w, uint64_t now_ns, double wall_ns, double used_ns)
{
	if (rest(w) < IDLE || used_ns * dearness(w) >= w->steady * rest(w) * wall_ns)
		w->idle_since_ns = now_ns;
	return (double)(now_ns - w->idle_since_ns) >= IDLE_NS && w->idle_debt_ns <= 0 &&
	       may_try(w, now_ns);
}

static enum windows_action step_closed(struct windows *w, uint64_t now_ns, double cost_ns,
				       double cpu_ns)
{
	double wall = (double)(now_ns - w->since_ns), used = cpu_ns - w->cpu_ns;

	if (wall > 0)
		w->cpu_rate = smooth(w->cpu_rate, used / wall);
	book(w, false, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->attempt = is_idle(w, now_ns, wall, used);
	if (w->attempt || w->debt_ns <= open_at_ns(w))
		return WINDOWS_OPEN;
	plan_look(w, now_ns);
	return WINDOWS_NONE;
}

enum windows_action windows__step(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	if (now_ns < w->next_ns)
		return WINDOWS_NONE;
	if (w->open && !w->continuous && now_ns < w->end_ns &&
	    !is_overspent(w, now_ns, cost_ns, cpu_ns)) {
		plan_check(w, now_ns, LOOK_NS);
		return WINDOWS_NONE;
	}
	return w->open ? step_open(w, now_ns, cost_ns, cpu_ns)
		       : step_closed(w, now_ns, cost_ns, cpu_ns);
}

void windows__delay(struct windows *w, uint64_t ns)
{
	w->next_ns += ns;
	w->end_ns += ns;
}

void windows__done(struct windows *w, enum windows_action action, uint64_t now_ns, double cost_ns,
		   double cpu_ns)
{
	double cost = felt(w, cost_ns - w->cost_ns), wall = (double)(now_ns - w->since_ns);
	bool first = w->n_windows <= 1;

	/* the cost of the first opening is not known, and opening an attempt does not cost the same
	 * as opening a window */
	if (action == WINDOWS_OPEN && !w->attempt) {
		w->opening_cost_ns = cost;
		w->opening_ns = wall;
	} else if (action == WINDOWS_CLOSE) {
		w->edge_cost_ns =
			smooth(w->edge_cost_ns, cost + (first ? cost : w->opening_cost_ns));
		w->edge_ns = smooth(w->edge_ns, wall + (first ? wall : w->opening_ns));
	}
	book(w, false, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->open = action == WINDOWS_OPEN;
	if (!w->open) {
		w->idle_since_ns = now_ns;
		draw_gap(w);
		plan_look(w, now_ns);
		return;
	}
	w->n_windows++;
	if (w->attempt) {
		w->continuous = true;
		begin_attempt(w, now_ns);
		thinning__begin(&w->thinning, 1, now_ns);
		w->borne_ns = 0;
		/* idle_debt_ns pays for the attempt. The attempt's own debt begins at 0, without
		 * credit, because the attempt may fail. */
		w->debt_ns = 0;
		w->next_ns = now_ns + (uint64_t)LOOK_NS;
		return;
	}
	w->length_ns = mean_length_ns(w);
	w->end_ns = now_ns + (uint64_t)(WINDOWS_SETTLE_NS + w->stretch * w->length_ns);
	plan_check(w, now_ns, WINDOWS_SETTLE_NS + FIRST_NS);
}

void windows__cut(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns,
		  const struct windows_rates *recent)
{
	double wall;

	now_ns = now_ns > w->since_ns ? now_ns : w->since_ns; /* now_ns may be in the past */
	wall = (double)(now_ns - w->since_ns);
	if (w->open && recent) {
		w->cost_rate = w->felt * recent->cost;
		w->used_rate = recent->cpu;
	} else if (w->open && wall > 0) {
		w->cost_rate = smooth(w->cost_rate, w->felt * (cost_ns - w->cost_ns) / wall);
		w->used_rate = smooth(w->used_rate, (cpu_ns - w->cpu_ns) / wall);
	}
	if (wall > 0 && !(w->cpu_rate > 0))
		w->cpu_rate = (cpu_ns - w->cpu_ns) / wall;
	if (w->open)
		book_time(w, now_ns);
	book(w, w->open, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->attempt = false; /* the attempt did not fail: something other than its cost ends it */
	w->open = w->continuous = false;
	w->idle_since_ns = now_ns;
	w->stretch = LONGEST - 1 + random__unit(&w->random);
	/* The next window needs no random gap, because host.h decides when it opens. But the
	 * window's own cost must be paid. */
	w->open_at_ns = 0;
	w->next_ns = now_ns;
}

void windows__feel(struct windows *w, double felt)
{
	double was = w->felt, usual = window_debt_ns(w, 1), more;

	w->felt = between(felt, WINDOWS_FELT, WINDOWS_FELT_MOST);
	more = (w->felt - was) * w->windows_cost_ns;
	w->felt_ns += more;
	/* felt_ns is corrected for all past windows. The debt changes by one window's cost at most.
	 * The factor was not known during these windows and may still change, so it does not
	 * justify a long time without windows. */
	more = between(more, -usual, usual);
	w->debt_ns += more;
	w->idle_debt_ns += more;
}

void windows__hold(struct windows *w, uint64_t now_ns, double cost_ns, double cpu_ns)
{
	book(w, false, now_ns, cost_ns, cpu_ns);
	restart(w, now_ns, cost_ns, cpu_ns);
	w->open = w->continuous = true;
	w->next_ns = UINT64_MAX;
}

void windows__withdraw(struct windows *w)
{
	w->open = false;
	w->n_windows--;
}

bool windows__end(struct windows *w, uint64_t now_ns)
{
	bool open = w->open;

	if (open)
		book_time(w, now_ns);
	w->open = false;
	return open;
}
