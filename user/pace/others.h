/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates what other probes on the same function add to the cost of a call: probes of other
 * tracers, and probes for other processes. */
#ifndef MEMTRACE_PACE_OTHERS_H
#define MEMTRACE_PACE_OTHERS_H

#include <stdint.h>

/* Totals of what the kernel side has counted: struct abi_process_cpu. A look is one count of the
 * other probes. */
struct others_counts {
	uint64_t looks, trapped, visited, run;
};

/* All zero at first. */
struct others {
	struct others_counts counts; /* totals at the last call of others__note() */
	double calls_ns;	     /* cost of all calls at the last call of others__note() */
	double share; /* extra cost of a call / its cost without other probes, at the last looks */
	double ns;    /* extra cost of all calls so far */
};

/* Returns the extra cost of a call, divided by its cost without other probes. trapped: the share of
 * calls whose return the kernel traps only because of other probes. visited: how many probes for
 * other processes are on the function. run: how many other probes on the function run their program
 * for this process. */
double others__share(double trapped, double visited, double run);

/* Returns the extra cost of all calls so far, in nanoseconds. counts, calls_ns: present totals.
 * calls_ns is what all calls cost according to the calibration, which was measured without other
 * tracers. */
double others__note(struct others *others, const struct others_counts *counts, double calls_ns);

/* Returns the extra cost of all calls so far, as % of their cost by the calibration; 0 if there
 * were no calls. */
double others__pct(const struct others *others);

#endif
