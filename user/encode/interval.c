// SPDX-License-Identifier: BSD-2-Clause
/* The values of a stack, for both forms of a pushed profile: pprof and OTLP. */
#include "encode/encode.h"
#include "profile/pprof.h"

size_t encode_interval__n_sites(const struct encode_interval *interval,
				const struct profile *profile)
{
	return profile->n_sites < interval->most_sites ? profile->n_sites : interval->most_sites;
}

void encode_interval__values(const struct encode_interval *interval,
			     const struct profile_site *site, size_t index,
			     double values[STANDARD_VALUES])
{
	values[VALUE_ALLOC_OBJECTS] = interval->allocated ? interval->allocated[index][0] : 0;
	values[VALUE_ALLOC_SPACE] = interval->allocated ? interval->allocated[index][1] : 0;
	values[VALUE_INUSE_OBJECTS] =
		interval->live ? interval->live[index][0] : site->live.objects;
	values[VALUE_INUSE_SPACE] = interval->live ? interval->live[index][1] : site->live.bytes;
}
