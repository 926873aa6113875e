// SPDX-License-Identifier: BSD-2-Clause
#include "pace/others.h"

/* others__share() multiplies its arguments by these factors. They were measured (docs/overhead.md,
 * "Beside other tracers"), each as the mean of an allocating and a freeing call. Only returns of
 * the allocating call are trapped. */
#define TRAPPED 0.21
#define VISITED 0.06
#define RUN	0.14

double others__share(double trapped, double visited, double run)
{
	return TRAPPED * trapped + VISITED * visited + RUN * run;
}

double others__note(struct others *o, const struct others_counts *counts, double calls_ns)
{
	double looks = (double)(counts->looks - o->counts.looks);

	/* If there was no new look, the other probes are assumed to be those of the last look. */
	if (looks > 0)
		o->share = others__share((double)(counts->trapped - o->counts.trapped) / looks,
					 (double)(counts->visited - o->counts.visited) / looks,
					 (double)(counts->run - o->counts.run) / looks);
	o->ns += o->share * (calls_ns - o->calls_ns);
	o->calls_ns = calls_ns;
	o->counts = *counts;
	return o->ns;
}

double others__pct(const struct others *o)
{
	return o->calls_ns > 0 ? 100 * o->ns / o->calls_ns : 0;
}
