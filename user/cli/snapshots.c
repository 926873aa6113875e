// SPDX-License-Identifier: BSD-2-Clause
#include "cli/snapshots.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define MIN_EVERY_S	0.1
#define MIN_EVERY_BYTES 4096
#define SIZE		32
#define LOOK_EVERY_S	0.1

int snapshots__parse_every(struct snapshots *s, const char *text)
{
	uint64_t bytes;
	double seconds;

	if (!parse_seconds(text, &seconds)) {
		if (seconds < MIN_EVERY_S)
			return -EINVAL;
		s->every_s = seconds;
		return 0;
	}
	/* a small "m" is minutes, so sizes have capitals here */
	if (text[strcspn(text, "abcdefghijklmnopqrstuvwxyz")])
		return -EINVAL;
	if (parse_bytes(text, MIN_EVERY_BYTES, UINT64_MAX / 2, &bytes))
		return -EINVAL;
	s->every_bytes = bytes;
	return 0;
}

double snapshots__look_every_s(const struct snapshots *s)
{
	if (s->every_bytes || s->at_peaks)
		return LOOK_EVERY_S;
	return s->every_s > 0 ? fmax(LOOK_EVERY_S, fmin(1, s->every_s / 10)) : INFINITY;
}

bool snapshots__due(struct snapshots *s, double elapsed_s, double alloc_bytes, double live_bytes)
{
	bool due = s->asked;

	s->asked = false;
	if (s->at_peaks && live_bytes > SNAPSHOT_RISE * s->peak_bytes) {
		s->peak_bytes = live_bytes;
		due = true;
	}
	if (s->every_s > 0 && elapsed_s >= s->every_s * (s->intervals + 1.0)) {
		s->intervals = (unsigned)(elapsed_s / s->every_s);
		due = true;
	}
	if (s->every_bytes && alloc_bytes >= (double)s->every_bytes * ((double)s->multiples + 1)) {
		s->multiples = (uint64_t)(alloc_bytes / (double)s->every_bytes);
		due = true;
	}
	return due;
}

const char *snapshots__name(const struct snapshots *s, char *buf)
{
	snprintf(buf, SIZE, "%04u", s->n + 1);
	return buf;
}

void snapshots__written(struct snapshots *s)
{
	s->n++;
}
