// SPDX-License-Identifier: BSD-2-Clause
#include "pace/others.h"

double others__note(struct others *o, const struct others_counts *counts, double calls_ns)
{
	double looks = (double)(counts->looks - o->counts.looks);

	/* Without a new look, the others are taken to be those of the last one. */
	if (looks > 0)
		o->share = (OTHERS_VISIT * (double)(counts->visited - o->counts.visited) +
			    OTHERS_RUN * (double)(counts->run - o->counts.run)) /
			   looks;
	o->ns += o->share * (calls_ns - o->calls_ns);
	o->calls_ns = calls_ns;
	o->counts = *counts;
	return o->ns;
}

double others__pct(const struct others *o)
{
	return o->calls_ns > 0 ? 100 * o->ns / o->calls_ns : 0;
}
