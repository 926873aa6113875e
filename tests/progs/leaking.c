/* SPDX-License-Identifier: BSD-2-Clause */
/* A leak among others that allocate a lot, from "go" until the line "stop". By the clock, --leak BYTES
 * (500000) a second are forgotten, in blocks of --size (300). Meanwhile, as fast as it goes or --rate N
 * pairs a second: short-lived blocks, and a full cache of 50,000 of which a random one is replaced each
 * time. --connections (200) a second are opened and live --life MS (2000). At the start 20 MB are set up that stay.
 * Prints {"pairs", "leaked_bytes", "seconds"}. */
#include <poll.h>
#include <time.h>

#include "truth.h"

#define CACHE 50000
#define CONNECTIONS 100000

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t state;
static void *cache[CACHE];
static struct {
	void *block;
	uint64_t end_ns;
} connections[CONNECTIONS];
static size_t first_connection, last_connection;

static void *fill(void *p, size_t size)
{
	if (!p)
		abort();
	memset(p, (int)truth_random(&state), size);
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

NOINLINE static void set_up(void)
{
	for (int i = 0; i < 20000; i++)
		fill(malloc(1000), 1000);
}

NOINLINE static void forget(size_t size)
{
	fill(malloc(size), size);
}

NOINLINE static void parse_request(void)
{
	char *p = malloc(64 + (truth_random(&state) & 127));

	p[0] = p[40] = (char)state;
	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

NOINLINE static void replace_cached(void)
{
	size_t i = truth_random(&state) % CACHE;

	free(cache[i]);
	cache[i] = fill(malloc(200), 200);
}

NOINLINE static void open_connection(uint64_t end_ns)
{
	size_t i = last_connection++ % CONNECTIONS;

	connections[i].block = fill(malloc(700), 700);
	connections[i].end_ns = end_ns;
}

static void close_connections(uint64_t now)
{
	while (first_connection < last_connection &&
	       connections[first_connection % CONNECTIONS].end_ns <= now)
		free(connections[first_connection++ % CONNECTIONS].block);
}

static bool told_to_stop(void)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[16];

	return poll(&fd, 1, 0) > 0 && read(STDIN_FILENO, line, sizeof(line)) >= 0;
}

int main(int argc, char **argv)
{
	uint64_t leak, size, rate, opens, life, start, now, pairs = 0, leaked = 0, opened = 0;

	truth_init(argc, argv);
	leak = truth_number(argc, argv, "--leak", 500000);
	size = truth_number(argc, argv, "--size", 300);
	rate = truth_number(argc, argv, "--rate", 0);
	opens = truth_number(argc, argv, "--connections", 200);
	life = truth_number(argc, argv, "--life", 2000) * 1000000;
	state = truth_seed(1);
	truth_ready();
	start = now = now_ns();
	set_up();
	for (int i = 0; i < CACHE; i++)
		cache[i] = fill(malloc(200), 200);
	do {
		uint64_t due = rate ? (now - start) / 1000 * rate / 1000000 : pairs + 4000;

		for (; pairs < due; pairs++)
			if (pairs % 16)
				parse_request();
			else
				replace_cached();
		for (uint64_t until = now_ns() + 200000; rate && now_ns() < until;)
			truth_random(&state); /* it computes all the same */
		now = now_ns();
		for (; leaked < (now - start) / 1000 * leak / 1000000; leaked += size)
			forget(size);
		for (; opened < (now - start) / 1000 * opens / 1000000; opened++)
			open_connection(now + life);
		close_connections(now);
	} while (!told_to_stop());
	now = now_ns();
	printf("{\"pairs\": %" PRIu64 ", \"leaked_bytes\": %" PRIu64 ", \"seconds\": %.3f}\n", pairs,
	       leaked, (double)(now - start) / 1e9);
	return truth_finish();
}
