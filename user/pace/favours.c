// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "pace/internal.h"

bool scheduler__may_favour(const struct scheduler *sc)
{
	const struct pace_limits *limits = &sc->limits;

	return sc->begun && limits->aim > 0 && limits->favour > 0 &&
	       (limits->shared || limits->favour > limits->aim);
}

int scheduler__favour(struct scheduler *sc, struct paced *p)
{
	const struct pace_limits *limits = &sc->limits;
	uint64_t now;

	if (!sc->begun || sc->stopped || !paced__is_kept(p))
		return -ESRCH;
	if (!scheduler__may_favour(sc))
		return -ENOTSUP;
	now = pace__now_ns(sc);
	if (p->favoured_until_ns && now < p->favoured_until_ns + PACE_FAVOUR_REST_NS)
		return -EALREADY;
	if (sc->n_favoured == PACE_FAVOURED)
		return -EBUSY;
	sc->favoured[sc->n_favoured++] = p;
	p->favoured_ns = now;
	p->favoured_until_ns = now + PACE_FAVOUR_NS;
	p->turn.favoured = true;
	if (limits->favour > limits->aim)
		windows__favour(&p->windows, limits->favour, limits->steady);
	return 0;
}

static void end_favour(struct scheduler *sc, size_t at)
{
	struct paced *p = sc->favoured[at];

	sc->favoured[at] = sc->favoured[--sc->n_favoured];
	p->turn.favoured = false;
	windows__favour(&p->windows, sc->limits.aim, sc->limits.steady);
}

uint64_t pace__end_favours(struct scheduler *sc)
{
	uint64_t now, next = UINT64_MAX;

	if (!sc->n_favoured)
		return next;
	now = pace__now_ns(sc);
	for (size_t i = sc->n_favoured; i-- > 0;)
		if (now >= sc->favoured[i]->favoured_until_ns)
			end_favour(sc, i);
		else
			next = pace__earlier(next, sc->favoured[i]->favoured_until_ns);
	return next;
}

void pace__forget_favour(struct scheduler *sc, struct paced *p)
{
	for (size_t i = 0; i < sc->n_favoured; i++)
		if (sc->favoured[i] == p) {
			p->favoured_until_ns = pace__now_ns(sc);
			end_favour(sc, i);
			return;
		}
}
