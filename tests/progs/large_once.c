/* SPDX-License-Identifier: BSD-2-Clause */
/* Large blocks that are allocated rarely, in a program that makes short-lived blocks as fast as
 * possible. Before "go":
 *
 *   make_old     --old N (0) blocks of --size bytes (48 MiB)
 *
 * From "go" until the line "stop":
 *
 *   make_table   one block of --size bytes, --after seconds (6) later
 *   make_part    --parts N (0) blocks of --size bytes, --every ms (500) apart
 *   make_scratch if --scratch is given: after that, a block of --size bytes that is freed and made
 *                again every 200 ms
 *
 * No block is written to, except for its first page. Prints {"table", "parts", "scratch"}: the
 * usable bytes that live at the end. */
#include "truth.h"

#define MAX_BLOCKS 64

static char *old[MAX_BLOCKS], *parts[MAX_BLOCKS], *table, *scratch;

static char *touch(char *p)
{
	if (!p)
		abort();
	memset(p, 1, 4096);
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

NOINLINE static char *make_old(size_t size)
{
	return touch(malloc(size));
}

NOINLINE static char *make_table(size_t size)
{
	return touch(calloc(1, size));
}

NOINLINE static char *make_part(size_t size)
{
	return touch(malloc(size));
}

NOINLINE static char *make_scratch(char *last, size_t size)
{
	free(last);
	return touch(malloc(size));
}

NOINLINE static void parse_request(void)
{
	free(touch(malloc(5000)));
}

int main(int argc, char **argv)
{
	uint64_t begin, now, after_ns, every_ns, scratch_ns = 0, made = 0;
	size_t size, n_old, n_parts, n = 0;
	bool has_scratch;

	truth_init(argc, argv);
	size = truth_number(argc, argv, "--size", 48 << 20);
	n_old = truth_number(argc, argv, "--old", 0);
	n_parts = truth_number(argc, argv, "--parts", 0);
	after_ns = truth_number(argc, argv, "--after", 6) * 1000000000;
	every_ns = truth_number(argc, argv, "--every", 500) * 1000000;
	has_scratch = truth_flag(argc, argv, "--scratch");
	if (n_old > MAX_BLOCKS || n_parts > MAX_BLOCKS)
		return 2;
	for (size_t i = 0; i < n_old; i++)
		old[i] = make_old(size);
	truth_ready();
	begin = now = truth_now_ns();
	do {
		for (int i = 0; i < 2000; i++)
			parse_request();
		now = truth_now_ns();
		if (!table && now - begin >= after_ns)
			table = make_table(size);
		for (; n < n_parts && now - begin >= after_ns + n * every_ns; n++)
			parts[n] = make_part(size);
		if (has_scratch && table && now - scratch_ns >= 200000000) {
			scratch = make_scratch(scratch, size);
			scratch_ns = now;
		}
	} while (!truth_told_to_stop());
	for (size_t i = 0; i < n; i++)
		made += malloc_usable_size(parts[i]);
	printf("{\"table\": %zu, \"parts\": %" PRIu64 ", \"scratch\": %zu}\n",
	       malloc_usable_size(table), made, malloc_usable_size(scratch));
	return truth_finish();
}
