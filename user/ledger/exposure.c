// SPDX-License-Identifier: BSD-2-Clause
/* How long a process was watched. */
#include "ledger/survivors.h"

double survivors_window__seconds(const struct survivors_window *window, uint64_t from, uint64_t to)
{
	uint64_t start = window->start_ns > from ? window->start_ns : from;
	uint64_t end = window->end_ns < to ? window->end_ns : to;

	return end > start ? (double)(end - start) * 1e-9 : 0;
}

double survivors__exposure(const struct survivors *s, uint64_t from, uint64_t to)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_windows; i++)
		if (!s->windows[i].continuous)
			sum += survivors_window__seconds(&s->windows[i], from, to);
	return sum;
}

double survivors__hidden(const struct survivors *s, const struct net_clock *clock, uint64_t from,
			 double net_s, double wall_s)
{
	double net = 0, wall = 0;

	for (size_t i = 0; i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		if (w->continuous || w->end_ns <= from)
			continue;
		net += w->stands * (net_clock__at(clock, w->end_ns) -
				    net_clock__at(clock, w->start_ns > from ? w->start_ns : from));
		wall += w->stands * survivors_window__seconds(w, from, UINT64_MAX);
	}
	return net > 0 && wall_s > 0 ? net_s / net / (wall_s / wall) : 0;
}
