// SPDX-License-Identifier: BSD-2-Clause
#include "pace/thinning.h"

#define S 1000000000ULL

/* Parts of the allowed share. EASY: the most that continuous tracing may cost when it begins, or
 * goes on with samples farther apart. CALM: samples come closer again only if tracing then costs no
 * more than this. LEAST: the least part that the cost of calls must leave for samples. If calls
 * leave less, there would be so few samples that windows tell more. FINE: the most that samples
 * may cost when they are closer together than asked for. */
#define EASY  0.9
#define CALM  0.8
#define LEAST 0.02
#define FINE  0.05
/* How long a stretch must be to show that a smaller factor fits: FINER_NS at first, MAX_BACK_OFF_NS
 * at most. SOON: if the smaller factor does not last for this many stretches, it was tried too
 * early. */
#define FINER_NS	(5 * S)
#define MAX_BACK_OFF_NS (60 * S)
#define SOON		4

void thinning__init(struct thinning *t, double least, double most)
{
	*t = (struct thinning){.factor = 1,
			       .least = least > 0 ? least : 1,
			       .most = most > 0 ? most : 1,
			       .now = 1,
			       .back_off_ns = FINER_NS};
}

/* Do calls and samples cost no more than this share of all time? All time is the sum of `other`,
 * which includes the time of calls, and `samples`. (With fewer samples, all time becomes less and
 * calls take a larger share of it: a busy process makes more calls in the time that was saved.) */
static bool fits(double calls, double samples, double other, double share)
{
	return calls + samples <= share * (other + samples);
}

/* Returns the least factor with which tracing costs no more than part * share of the time; 0: there
 * is none. samples: the cost of samples at the interval asked for. */
static double fit(const struct thinning *t, double calls, double samples, double other,
		  double share, double part)
{
	double factor = 1;

	if (fits(calls, samples, other, part * share))
		return 1;
	if (!fits(calls, 0, other, (part - LEAST) * share))
		return 0;
	while (factor < t->most && !fits(calls, samples / factor, other, part * share))
		factor *= 2;
	return fits(calls, samples / factor, other, part * share) ? factor : 0;
}

double thinning__fit(const struct thinning *t, const struct thinning_costs *c)
{
	return fit(t, c->calls_ns, c->samples_ns * t->now, c->other_ns, c->share, EASY);
}

static void restart(struct thinning *t, uint64_t now_ns)
{
	t->since_ns = now_ns;
	t->calls_ns = t->samples_ns = t->other_ns = 0;
}

void thinning__begin(struct thinning *t, double factor, uint64_t now_ns)
{
	t->factor = factor;
	restart(t, now_ns);
}

static void add(struct thinning *t, const struct thinning_costs *c)
{
	t->calls_ns += c->calls_ns;
	t->samples_ns += c->samples_ns * t->now;
	t->other_ns += c->other_ns;
}

static double fit_all(const struct thinning *t, double share, double part)
{
	return fit(t, t->calls_ns, t->samples_ns, t->other_ns, share, part);
}

/* Would samples alone, without calls, cost no more than this share of all time at that factor? */
static bool samples_fit(const struct thinning *t, double factor, double share)
{
	return fits(0, t->samples_ns / factor, t->other_ns, share);
}

/* Returns the least factor with which tracing costs no more than CALM of the share, and samples no
 * more than FINE of it. Call it if tracing with the factor 1 costs no more than CALM of the
 * share. */
static double finest(const struct thinning *t, double share)
{
	double factor = 1;

	while (factor / 2 >= t->least && samples_fit(t, factor / 2, FINE * share) &&
	       fits(t->calls_ns, t->samples_ns / (factor / 2), t->other_ns, CALM * share))
		factor /= 2;
	return factor;
}

bool thinning__coarsen(struct thinning *t, const struct thinning_costs *c, uint64_t now_ns)
{
	double factor = thinning__fit(t, c), as_asked = c->samples_ns * t->now;

	add(t, c);
	/* Samples that come closer than asked for are given up before anything else. */
	if (t->factor < 1 && fits(c->calls_ns, as_asked, c->other_ns, c->share)) {
		thinning__begin(t, 1, now_ns);
		return true;
	}
	/* Are calls too expensive by themselves? This stretch alone does not show that: it may have
	 * more calls than the stretches before it. So all stretches together decide. */
	if (factor == 0)
		factor = fit_all(t, c->share, EASY);
	if (factor == 0)
		return false;
	factor = factor > t->factor ? factor : 2 * t->factor;
	if (factor > t->most)
		return false;
	if (!t->finer_ns || now_ns - t->finer_ns >= SOON * t->back_off_ns)
		t->back_off_ns = FINER_NS;
	else if (2 * t->back_off_ns < MAX_BACK_OFF_NS)
		t->back_off_ns *= 2;
	else
		t->back_off_ns = MAX_BACK_OFF_NS;
	thinning__begin(t, factor, now_ns);
	return true;
}

void thinning__watch(struct thinning *t, const struct thinning_costs *c, uint64_t now_ns)
{
	double factor;

	add(t, c);
	if (now_ns - t->since_ns < t->back_off_ns)
		return;
	factor = fit_all(t, c->share, CALM);
	if (factor == 1)
		factor = finest(t, c->share);
	if (factor > 0 && factor < t->factor) {
		t->factor = factor;
		t->finer_ns = now_ns;
	} else if (t->factor < 1 &&
		   (factor == 0 || factor > 1 || !samples_fit(t, t->factor, 2 * FINE * c->share))) {
		t->factor = factor > 0 && factor < 1 ? factor : 1;
	}
	restart(t, now_ns);
}
