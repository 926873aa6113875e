/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that grows by realloc and mmap, from "go" until the line "stop". Also makes short-lived
 * blocks as fast as possible (or --rate N a second). These functions work by the clock:
 *
 *   grow_vector     --vector BYTES (0) a second are appended to one vector, by reallocs
 *		     that each add --step (2000)
 *   grow_many       --many BYTES (0) a second are appended to 2,000 vectors in turn, --step each
 *   leak_map        --maps BYTES (0) a second are mapped and forgotten, --map-size (65536) each
 *
 * and in balance:
 *
 *   build_reply     a buffer grown in ten steps and freed, once for every 50 short-lived blocks
 *   grow_session    --sessions N (0) vectors, each grown 20 times in its 2 s of life and freed
 *   map_briefly     --pairs N (0) pairs of mmap and munmap a second
 *
 * Prints {"pairs", "seconds", and "vector", "many", "maps": bytes added}. */
#include <sys/mman.h>

#include "truth.h"

#define MANY	     2000
#define SESSIONS     10000
#define LIFE_NS	     2000000000ull
#define SESSION_STEP 3000
#define STEPS	     20

static uint64_t state;

struct vector {
	char *at;
	size_t bytes;
	uint64_t born_ns;
};

static struct vector vector, many[MANY], sessions[SESSIONS];

static void fill(char *p, size_t size)
{
	if (!p)
		abort();
	memset(p, (int)truth_random(&state), size);
	__asm__ volatile("" : "+r"(p) : : "memory");
}

NOINLINE static void grow_vector(size_t step)
{
	vector.at = realloc(vector.at, vector.bytes + step);
	fill(vector.at + vector.bytes, step);
	vector.bytes += step;
}

NOINLINE static void grow_many(struct vector *v, size_t step)
{
	v->at = realloc(v->at, v->bytes + step);
	fill(v->at + v->bytes, step);
	v->bytes += step;
}

NOINLINE static void grow_session(struct vector *v)
{
	v->at = realloc(v->at, v->bytes + SESSION_STEP);
	fill(v->at + v->bytes, SESSION_STEP);
	v->bytes += SESSION_STEP;
}

NOINLINE static void leak_map(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fill(p, 4096);
}

NOINLINE static void map_briefly(void)
{
	char *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	__asm__ volatile("" : "+r"(p) : : "memory");
	munmap(p, 16384);
}

NOINLINE static void build_reply(void)
{
	char *p = NULL;

	for (size_t size = 100; size <= 1000; size += 100) {
		p = realloc(p, size);
		fill(p + size - 100, 100);
	}
	free(p);
}

NOINLINE static void parse_request(void)
{
	char *p = malloc(64 + (truth_random(&state) & 127));

	p[0] = p[40] = (char)state;
	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

/* Grows each of the n sessions to the size that it has at its age, or frees the session at the end
 * of its life. */
static void serve_sessions(size_t n, uint64_t now)
{
	for (size_t i = 0; i < n; i++) {
		struct vector *s = &sessions[i];

		if (!s->born_ns)
			s->born_ns = now - LIFE_NS * i / n;
		if (now - s->born_ns >= LIFE_NS) {
			free(s->at);
			*s = (struct vector){.born_ns = now};
		}
		while (s->bytes / SESSION_STEP < (now - s->born_ns) / (LIFE_NS / STEPS))
			grow_session(s);
	}
}

static uint64_t due(uint64_t since_ns, uint64_t per_s)
{
	return since_ns / 1000 * per_s / 1000000;
}

int main(int argc, char **argv)
{
	uint64_t vector_rate, many_rate, maps_rate, step, map_size, n_sessions, map_pairs, rate;
	uint64_t start, now, pairs = 0, added = 0, mapped = 0, mapped_briefly = 0,
			     sessions_next = 0;
	size_t turn = 0;

	truth_init(argc, argv);
	vector_rate = truth_number(argc, argv, "--vector", 0);
	many_rate = truth_number(argc, argv, "--many", 0);
	step = truth_number(argc, argv, "--step", 2000);
	maps_rate = truth_number(argc, argv, "--maps", 0);
	map_size = truth_number(argc, argv, "--map-size", 65536);
	map_pairs = truth_number(argc, argv, "--pairs", 0);
	n_sessions = truth_number(argc, argv, "--sessions", 0);
	rate = truth_number(argc, argv, "--rate", 0);
	if (n_sessions > SESSIONS)
		n_sessions = SESSIONS;
	state = truth_seed(1);
	truth_ready();
	start = now = truth_now_ns();
	do {
		uint64_t until = rate ? due(now - start, rate) : pairs + 2000;

		for (; pairs < until; pairs++) {
			parse_request();
			if (pairs % 50 == 0)
				build_reply();
		}
		now = truth_now_ns();
		while (vector.bytes < due(now - start, vector_rate))
			grow_vector(step);
		for (; added < due(now - start, many_rate); added += step)
			grow_many(&many[turn++ % MANY], step);
		for (; mapped < due(now - start, maps_rate); mapped += map_size)
			leak_map(map_size);
		for (; mapped_briefly < due(now - start, map_pairs); mapped_briefly++)
			map_briefly();
		if (now >= sessions_next) {
			serve_sessions(n_sessions, now);
			sessions_next = now + 10000000;
		}
	} while (!truth_told_to_stop());
	now = truth_now_ns();
	printf("{\"pairs\": %" PRIu64 ", \"seconds\": %.3f, \"vector\": %zu, \"many\": %" PRIu64
	       ", \"maps\": %" PRIu64 "}\n",
	       pairs, (double)(now - start) / 1e9, vector.bytes, added, mapped);
	return truth_finish();
}
