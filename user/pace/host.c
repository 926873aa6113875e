// SPDX-License-Identifier: BSD-2-Clause
#include "pace/host.h"

#include <math.h>
#include <string.h>

#define MS 1e6
#define S  1e9

#define CREDIT_NS	 (2 * S)     /* at most the budget of this much time is saved up */
#define STRETCH_NS	 (500 * MS)  /* the stretch over which a process is judged */
#define LEAST_STRETCH_NS (20 * MS)   /* if a stretch ends before this, it tells nothing */
#define STALE_NS	 (1000 * MS) /* a stretch this long is discarded, not judged */
/* cost of all processes / wall time; below this, no process exceeds a limit */
#define BUSY		2.5e-3
#define BACK_OFF_NS	(5 * S)
#define MAX_BACK_OFF_NS (900 * S)
/* an attempt to trace all processes at once has succeeded if it lasts this long */
#define LASTING_NS (30 * S)
/* CPU time that a process must use between two of its turns */
#define MIN_CPU_NS (2 * MS)
/* Probes are placed everywhere again only if the forecast of their cost is at most CALM times the
 * host's limit. For each process, the forecast must be at most EASY times the process's limit. */
#define CALM	      0.5
#define EASY	      0.8
#define GROWTH_WEIGHT 8
#define GROWTH_HALF   (256 * 1024.0) /* growth in bytes a second that gets half of GROWTH_WEIGHT */
/* A page fault counts as this many bytes of growth. The number is small, because the page may be
 * one that the process had before and gave back. */
#define FAULT_BYTES 1024.0
#define CPU_WEIGHT  2
#define FAVOUR	    4
#define ROUND_NS    (20 * S) /* time in which each waiting process should get a turn */
#define MIN_TURN_NS (500 * MS)

static double between(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* --- the host --- */

void host__begin(struct host *h, double budget, double own, unsigned cpus, uint64_t now_ns,
		 double cost_ns)
{
	double samples_ns = h->samples_ns, spare = h->spare;

	memset(h, 0, sizeof(*h));
	h->samples_ns = samples_ns;
	h->spare = spare;
	h->budget = budget;
	h->own = own;
	h->cpus = cpus ? cpus : 1;
	h->everywhere = true;
	h->since_ns = h->changed_ns = now_ns;
	h->cost_ns = cost_ns;
	h->debt_ns = -budget * h->cpus * CREDIT_NS;
	h->last_samples_ns = h->samples_ns;
	thinning__init(&h->thinning, 1, 1);
	h->back_off_ns = (uint64_t)BACK_OFF_NS;
}

void host__book(struct host *h, uint64_t now_ns, double cost_ns)
{
	double wall = (double)(now_ns - h->since_ns), cost = cost_ns - h->cost_ns, least;
	double samples = h->samples_ns - h->last_samples_ns;

	if (now_ns <= h->since_ns)
		return;
	h->rate = cost > 0 ? cost / wall : 0; /* the cost is negative if windows cost less than was
					       * booked */
	least = -h->budget * h->cpus * CREDIT_NS;
	h->debt_ns += cost - h->budget * h->cpus * wall;
	if (h->debt_ns < least)
		h->debt_ns = least;
	*(h->everywhere ? &h->everywhere_ns : &h->windowed_ns) += now_ns - h->since_ns;
	h->since_ns = now_ns;
	h->cost_ns = cost_ns;
	h->last_samples_ns = h->samples_ns;
	h->last = (struct thinning_costs){cost - samples, samples, h->cpus * wall - samples,
					  h->budget};
	if (h->everywhere && !host__is_over(h))
		thinning__watch(&h->thinning, &h->last, now_ns);
}

bool host__is_busy(const struct host *h)
{
	return h->rate > BUSY || host__is_over(h);
}

bool host__is_over(const struct host *h)
{
	return h->budget > 0 && h->debt_ns > 0;
}

bool host__coarsen(struct host *h, uint64_t now_ns)
{
	/* The rate decides, not the debt: when the interval becomes coarser, the rate falls at
	 * once, the debt later. */
	return h->rate <= h->budget * h->cpus || thinning__coarsen(&h->thinning, &h->last, now_ns);
}

/* failed: the last attempt to return has failed. */
static void back_off(struct host *h, uint64_t now_ns, bool failed)
{
	h->back_off_ns = failed ? (uint64_t)between(2.0 * (double)h->back_off_ns, BACK_OFF_NS,
						    MAX_BACK_OFF_NS)
				: (uint64_t)BACK_OFF_NS;
	h->return_ns = now_ns + h->back_off_ns;
}

void host__left(struct host *h, uint64_t out_ns, uint64_t now_ns)
{
	h->everywhere = false;
	back_off(h, now_ns, h->returned_ns && out_ns < h->returned_ns + (uint64_t)LASTING_NS);
	h->changed_ns = out_ns;
}

void host__not_returned(struct host *h, uint64_t now_ns)
{
	back_off(h, now_ns, true);
}

void host__returned(struct host *h, uint64_t now_ns)
{
	h->everywhere = true;
	h->changed_ns = h->returned_ns = now_ns;
	thinning__begin(&h->thinning, h->thinning.factor, now_ns);
}

bool host__was_everywhere(const struct host *h, uint64_t from_ns, uint64_t to_ns)
{
	return from_ns >= h->returned_ns && (h->everywhere || to_ns <= h->changed_ns);
}

bool host__may_open(const struct host *h, double pending_ns)
{
	return !(h->budget > 0) || h->debt_ns + pending_ns <= 0;
}

uint64_t host__turn_ns(size_t n_waiting, size_t n_slots)
{
	if (!n_waiting)
		return UINT64_MAX;
	return (uint64_t)between(ROUND_NS * (double)n_slots / (double)n_waiting, MIN_TURN_NS,
				 (double)HOST_LONGEST_TURN_NS);
}

bool host__may_return(const struct host *h, uint64_t now_ns, double forecast, bool over)
{
	return now_ns >= h->return_ns && !over && !host__is_over(h) &&
	       (!(h->budget > 0) || forecast <= CALM * h->budget * h->cpus);
}

/* --- a process --- */

void host_process__learn(struct host_process *p, double cost_ns, double cpu_ns)
{
	if (!(cpu_ns > 1 * MS))
		return; /* too little to tell */
	p->share = between(cost_ns / cpu_ns, 0, 1);
	p->known = true;
}

bool host_process__judge(struct host_process *p, const struct host *h, struct thinning *thinning,
			 uint64_t now_ns, double cost_ns, double samples_ns, double cpu_ns)
{
	double wall = (double)(now_ns - p->since_ns), cost = cost_ns - p->cost_ns,
	       cpu = cpu_ns - p->cpu_ns;
	double rest = between(STRETCH_NS - wall, 0, STRETCH_NS),
	       samples = samples_ns - p->samples_ns, time;
	struct thinning_costs of;
	bool over = false;

	if (p->since_ns && wall < STALE_NS) {
		/* Does the process exceed its limit even if, for the rest of the stretch, it uses a
		 * whole CPU and tracing costs nothing? (The machine may leave more time of one core
		 * idle than the process uses. Then the limit is the same share of this idle time,
		 * as in windows.h.) */
		time = fmax(cpu, h->spare * wall);
		over = cost > h->own * (time + rest);
		if (!over && rest > 0)
			return false;
		of = (struct thinning_costs){cost - samples, samples, time - samples, h->own};
		if (!over)
			thinning__watch(thinning, &of, now_ns);
		if (over && thinning__coarsen(thinning, &of, now_ns)) {
			/* samples are farther apart now, so the cost of the stretch does not
			 * predict the next ones */
			over = false;
		} else {
			host_process__learn(p, cost, cpu);
			p->cpu_rate = cpu / wall;
		}
	}
	p->since_ns = now_ns;
	p->cost_ns = cost_ns;
	p->samples_ns = samples_ns;
	p->cpu_ns = cpu_ns;
	return over;
}

void host_process__end_stretch(struct host_process *p, uint64_t now_ns, double cost_ns,
			       double cpu_ns)
{
	double wall = (double)(now_ns - p->since_ns);

	if (!p->since_ns || wall < LEAST_STRETCH_NS || wall > STALE_NS)
		return;
	host_process__learn(p, cost_ns - p->cost_ns, cpu_ns - p->cpu_ns);
	p->cpu_rate = (cpu_ns - p->cpu_ns) / wall;
	p->since_ns = 0;
}

void host_process__end_turn(struct host_process *p, uint64_t now_ns, double cpu_ns)
{
	p->turn_ns = now_ns;
	p->turn_cpu_ns = cpu_ns;
}

bool host_process__watch(struct host_process *p, uint64_t now_ns, double cpu_ns)
{
	double wall = (double)(now_ns - p->watched_ns);
	bool used = !p->watched_ns || cpu_ns - p->watched_cpu_ns >= 1e-3 * wall;

	if (p->watched_ns && wall > 0) {
		double rate = (cpu_ns - p->watched_cpu_ns) / wall;

		p->cpu_rate = 0.5 * p->cpu_rate + 0.5 * between(rate, 0, 1e6);
	}
	p->watched_ns = now_ns;
	p->watched_cpu_ns = cpu_ns;
	p->is_idle = !used;
	if (!used)
		p->growth_rate *= 0.7;
	return used;
}

void host_process__watch_size(struct host_process *p, uint64_t now_ns, uint64_t rss_bytes,
			      uint64_t faults)
{
	double seconds = (double)(now_ns - p->read_ns) / S, bytes;

	if (p->read_ns && seconds > 0) {
		bytes = (rss_bytes > p->rss_bytes ? (double)(rss_bytes - p->rss_bytes) : 0) +
			(faults > p->faults ? FAULT_BYTES * (double)(faults - p->faults) : 0);
		p->growth_rate = 0.7 * p->growth_rate + 0.3 * bytes / seconds;
	}
	p->read_ns = now_ns;
	p->rss_bytes = rss_bytes;
	p->faults = faults;
}

double host_process__urgency(const struct host_process *p, uint64_t now_ns)
{
	double weight = 1 + GROWTH_WEIGHT * p->growth_rate / (p->growth_rate + GROWTH_HALF) +
			CPU_WEIGHT * between(p->cpu_rate, 0, 1);

	if (p->watched_cpu_ns - p->turn_cpu_ns < MIN_CPU_NS || now_ns <= p->turn_ns)
		return 0;
	return (p->favoured ? FAVOUR : 1) * weight * (double)(now_ns - p->turn_ns);
}

bool host_process__forecast(const struct host_process *p, const struct host *h, double *sum)
{
	/* a process whose cost is not known yet is assumed to cost CALM of its limit */
	double share = p->known ? p->share : CALM * h->own, rate = share * p->cpu_rate;

	*sum += rate;
	return rate > EASY * h->own * fmax(p->cpu_rate, h->spare);
}
