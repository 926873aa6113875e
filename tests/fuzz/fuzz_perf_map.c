// SPDX-License-Identifier: BSD-2-Clause
/* The text of a JIT's perf map. */
#include "fuzz.h"

#include "symbolize/clean.h"
#include "symbolize/perf_map.h"

static void check(const struct perf_map *map, uint64_t addr)
{
	uint64_t start = 0;
	const char *name = perf_map__find(map, addr, &start);

	if (!name)
		return;
	require(start <= addr && *name && strlen(name) <= NAME_MAX_BYTES);
	for (const char *p = name; *p; p += printable_sequence((const unsigned char *)p))
		require(printable_sequence((const unsigned char *)p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *copy, *end;
	size_t skipped, lines = 0;
	struct perf_map *map;

	if (!size)
		return 0;
	text = fuzz_copy(data, size);
	copy = fuzz_string(data, size);
	require(!perf_map__parse(text, size, NULL, &map, &skipped));
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n' || i + 1 == size;
	require(skipped <= lines);
	/* looks up each number in the text, and its neighbours */
	for (char *p = copy; *p; p = *end ? end + 1 : end) {
		uint64_t number = strtoull(p, &end, 16);

		check(map, number - 1);
		check(map, number);
		check(map, number + 1);
	}
	check(map, UINT64_MAX);
	perf_map__free(map);
	free(copy);
	free(text);
	return 0;
}
