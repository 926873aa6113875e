/* SPDX-License-Identifier: BSD-2-Clause */
/* What the probes of others on the same functions add to the cost of a call. */
#ifndef MEMTRACE_PACE_OTHERS_H
#define MEMTRACE_PACE_OTHERS_H

#include <stdint.h>

/* Totals of what the kernel side has counted: struct abi_process_cpu. */
struct others_counts {
	uint64_t looks, trapped, visited, run;
};

/* All zero at first. */
struct others {
	struct others_counts counts; /* at the last call of others__note() */
	double calls_ns;	     /* the same */
	double share; /* what a call costs more, as a share of its own cost: at the last looks */
	double ns;    /* what all calls so far cost more */
};

/* What a call costs more, as a share of its own cost. trapped: the others' probes make the kernel
 * trap returns that would not be trapped without them (a share of all calls). visited: how many
 * probes for other processes are on the function. run: how many probes whose program runs, too. */
double others__share(double trapped, double visited, double run);

/* counts, calls_ns: totals of now; calls_ns is what all calls cost by the calibration, which was
 * measured without other tracers. Returns what the calls cost more, in nanoseconds, in all. */
double others__note(struct others *others, const struct others_counts *counts, double calls_ns);

/* The same as % of what they cost by the calibration; 0 if there were no calls. */
double others__pct(const struct others *others);

#endif
