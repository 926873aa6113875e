/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses how far apart the samples of a process are while it is traced continuously. This file is
 * arithmetic alone; the caller sets the interval.
 *
 * The cost of continuous tracing has two parts. Each call costs the same. Each sample costs a walk
 * of the stack, and the longer the interval is, the fewer samples there are. If the cost of calls
 * is within the limit, but the cost of calls and samples together is not, samples are put farther
 * apart than asked for. (Few samples of the whole run tell more about live memory than many samples
 * of some windows.) The factor is the least power of two with which both parts fit. Windows are
 * needed only where calls are too expensive by themselves.
 *
 * The number of samples is assumed to be inverse to the interval. If blocks are larger than the
 * interval, a longer interval leaves more samples than assumed. Then the next check finds that
 * tracing is still too expensive, and samples are put farther apart again.
 *
 * Closer than asked for. Most processes allocate so little that their samples cost next to nothing.
 * But these processes have few samples: at an interval of 512 KiB, a leak of 50,000 bytes a second
 * has one sample in ten seconds. Minutes pass until this leak can be told from chance. So samples
 * come closer than asked for where all samples together cost no more than FINE of the limit.
 * Samples are put farther apart again when they cost more than twice as much.
 *
 * The way back. Samples come closer again when, over at least FINER_NS, a smaller factor would have
 * cost no more than CALM of the limit. If this factor proves too expensive soon after, the next
 * attempt needs a stretch twice as long. So a program whose behaviour changes all the time has the
 * larger factor for most of its time. */
#ifndef MEMTRACE_PACE_THINNING_H
#define MEMTRACE_PACE_THINNING_H

#include <stdbool.h>
#include <stdint.h>

struct thinning {
	double factor;	    /* interval / interval asked for: a power of two */
	double least, most; /* smallest and largest factor allowed; least 1: none below 1; most 1:
			     * none above 1 */
	/* present interval / interval asked for; the caller sets it (in windows it is smaller) */
	double now;
	/* The stretch since the factor was last judged. */
	uint64_t since_ns;
	double calls_ns, samples_ns, other_ns; /* samples_ns: what samples would have cost at the
					        * interval asked for */
	/* When the factor was last made smaller (0: never), and how long a stretch must be before a
	 * smaller factor is tried again. */
	uint64_t finer_ns, back_off_ns;
};

/* A stretch of tracing. calls_ns, samples_ns: cost of calls and of samples, at the present
 * interval. other_ns: all time of the stretch minus samples_ns. share: the share of all its time
 * that tracing may cost, 0..1. */
struct thinning_costs {
	double calls_ns, samples_ns, other_ns, share;
};

/* least, most: the smallest and the largest factor allowed (struct thinning); 0 counts as 1. */
void thinning__init(struct thinning *thinning, double least, double most);

/* Supposes that the process goes on as in the stretch whose costs are given. Returns the least
 * factor of 1 or more with which continuous tracing would then cost at most EASY (thinning.c) times
 * costs->share. 0: no allowed factor is large enough, or the cost of calls leaves too little for
 * samples (LEAST in thinning.c). */
double thinning__fit(const struct thinning *thinning, const struct thinning_costs *costs);

/* Notes that continuous tracing begins now, with that factor. */
void thinning__begin(struct thinning *thinning, double factor, uint64_t now_ns);

/* Call it if the stretch that ends now was too expensive. A factor below 1 becomes 1, if this is
 * enough. Otherwise looks for an allowed factor with which the costs of the stretch would keep the
 * limit. If there is none, looks for a factor with which the costs of all stretches since the last
 * judgement would keep the limit. If one of these searches finds a factor, sets this factor or
 * twice the present factor, whichever is larger, and returns true. Returns false if both searches
 * find none, or if the new factor would be above the largest allowed. */
bool thinning__coarsen(struct thinning *thinning, const struct thinning_costs *costs,
		       uint64_t now_ns);

/* Call it if the stretch that ends now was not too expensive. May make the factor smaller. May also
 * make a factor below 1 larger. */
void thinning__watch(struct thinning *thinning, const struct thinning_costs *costs,
		     uint64_t now_ns);

#endif
