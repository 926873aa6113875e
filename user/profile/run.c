// SPDX-License-Identifier: BSD-2-Clause
#include "profile/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

struct profile_counter *profile_counters__get(struct profile_counters *counters, const char *name)
{
	/* A name that appeared twice would make two equal keys in JSON. There are a few dozen names
	 * at most, so it is cheap to look through them. */
	for (size_t i = 0; i < counters->n; i++)
		if (!strcmp(counters->at[i].name, name))
			return &counters->at[i];
	if (VECTOR_ADD_ROOM(counters->at, counters->n))
		return NULL;
	counters->at[counters->n] = (struct profile_counter){.name = name};
	return &counters->at[counters->n++];
}

uint64_t profile_counters__count(const struct profile_counters *counters, const char *name)
{
	for (size_t i = 0; i < counters->n; i++)
		if (!strcmp(counters->at[i].name, name))
			return counters->at[i].count;
	return 0;
}

struct profile_run *profile_run__new(void)
{
	struct profile_run *run = calloc(1, sizeof(*run));

	if (run)
		run->users = 1;
	return run;
}

struct profile_run *profile_run__share(struct profile_run *run)
{
	run->users++;
	return run;
}

void profile_run__free(struct profile_run *run)
{
	if (!run || --run->users)
		return;
	free(run->lost.at);
	free(run);
}

int profile_run__note_lost(struct profile_run *run, const char *static_name, uint64_t count)
{
	struct profile_counter *lost = profile_counters__get(&run->lost, static_name);

	if (!lost)
		return -ENOMEM;
	lost->count = count > lost->count ? count : lost->count;
	return 0;
}
