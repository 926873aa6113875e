/* SPDX-License-Identifier: BSD-2-Clause */
/* How far apart the samples are of a process that is traced continuously. Arithmetic alone; the
 * caller sets the interval.
 *
 * Continuous tracing costs two things. Calls have a fixed cost each. Samples, a stack each, come
 * the more rarely the longer their interval is. Where calls alone fit what is allowed and calls
 * with samples do not, samples are put farther apart than asked for. The factor is the least power
 * of two with which both fit: few samples of the whole run tell more of what is live than many of
 * some windows. Only where calls are too dear by themselves there must be windows.
 *
 * The number of samples is taken to be inverse to the interval. For blocks larger than the interval
 * it goes down by less. Then tracing is still too dear at the next look, and samples are put
 * farther apart again.
 *
 * The way back. Samples come closer again when a smaller factor would have cost no more than CALM
 * of what was allowed, over at least FINER_NS. If that is too dear soon after, the next attempt
 * needs a stretch twice as long. So a program that changes all the time keeps the larger factor for
 * most of it. */
#ifndef MEMTRACE_PACE_THINNING_H
#define MEMTRACE_PACE_THINNING_H

#include <stdbool.h>
#include <stdint.h>

struct thinning {
	unsigned factor; /* of the interval asked for: a power of two; 1: it is as asked for */
	unsigned most;	 /* largest factor allowed; 1: the interval is not to be touched */
	/* present interval / interval asked for; the caller sets it (in windows it is smaller) */
	double now;
	/* The stretch since the factor was last judged. */
	uint64_t since_ns;
	double calls_ns, samples_ns, other_ns; /* samples_ns: as if at the interval asked for */
	/* The way back: when samples last came closer (0: never), and how long a stretch the next
	 * time needs. */
	uint64_t finer_ns, back_off_ns;
};

/* A stretch of tracing: what calls and samples have cost, at the present interval; its time without
 * samples; and what share of its time tracing may cost, 0..1. */
struct thinning_costs {
	double calls_ns, samples_ns, other_ns, share;
};

/* most: as above; 0 is 1. */
void thinning__init(struct thinning *thinning, unsigned most);

/* The factor with which continuous tracing would fit, if all were as in that stretch; 0: none fits,
 * or none that is allowed. */
unsigned thinning__fit(const struct thinning *thinning, const struct thinning_costs *costs);

/* Continuous tracing begins now, with that factor. */
void thinning__begin(struct thinning *thinning, unsigned factor, uint64_t now_ns);

/* The stretch that ends now was too dear. Sets a larger factor if one that is allowed fits the
 * stretch's costs or, failing that, the costs of all stretches since the factor was last judged.
 * Returns whether it has. */
bool thinning__coarsen(struct thinning *thinning, const struct thinning_costs *costs,
		       uint64_t now_ns);

/* The stretch that ends now was not too dear: the factor may become smaller. */
void thinning__watch(struct thinning *thinning, const struct thinning_costs *costs,
		     uint64_t now_ns);

#endif
