// SPDX-License-Identifier: BSD-2-Clause
#include "base/backoff.h"

#include <math.h>

double backoff__next(struct backoff *b, double lived_s)
{
	if (lived_s > b->lasting_s || !(b->wait_s > 0))
		b->wait_s = b->first_s;
	else
		b->wait_s = fmin(2 * b->wait_s, b->most_s);
	return b->wait_s;
}

void backoff__reset(struct backoff *b)
{
	b->wait_s = 0;
}
