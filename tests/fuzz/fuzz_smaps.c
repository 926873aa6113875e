// SPDX-License-Identifier: BSD-2-Clause
/* The text of /proc/PID/smaps, cut off or made up. */
#include "fuzz.h"

#include <errno.h>

#include "proc/smaps.h"

struct told {
	uint64_t end, n, stop_at;
};

static int check(void *ctx, const struct smaps_entry *e)
{
	struct told *told = ctx;
	uint64_t size = e->map.end - e->map.start;

	require(e->map.start < e->map.end && e->map.start >= told->end);
	require(e->rss <= size && e->anonymous <= size && e->huge <= size && e->swap <= size &&
		e->hugetlb <= size);
	require(e->map.path && strlen(e->map.perms) == 4);
	told->end = e->map.end;
	return ++told->n == told->stop_at ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct told all = {}, half = {};
	uint64_t skipped;

	require(!lseek(fd, 0, SEEK_SET));
	require(!smaps__read_fd(fd, check, &all, &skipped));
	half.stop_at = all.n / 2;
	require(!lseek(fd, 0, SEEK_SET));
	require(smaps__read_fd(fd, check, &half, &skipped) == (half.stop_at ? -ECANCELED : 0));
	close(fd);
	return 0;
}
