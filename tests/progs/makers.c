// SPDX-License-Identifier: BSD-2-Clause
/* Ten functions that make blocks. Each function makes blocks of its own kind. First the program
 * fills its heap, then it prints how many blocks of each function it holds ("FUNCTION BLOCKS
 * BYTES", requested bytes) and "ready". Then each function except make_config() replaces its
 * blocks, one after the other. So the numbers of blocks stay the same. Blocks of different
 * functions do not look alike, with one exception: make_config() and make_entry() make the same
 * struct.
 *
 * usage: makers [BLOCKS [SECONDS]]    blocks of each function (default 20000), time (default 60) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct operations {
	int (*open)(void), (*close)(void);
};

struct session {
	const struct operations *ops;
	char *name;
	int fd, state;
	void *peer;
	char rest[56];
};

struct node {
	struct node *next;
	void *data;
};

struct entry {
	char *key;
	void *value;
	struct entry *next;
	uint32_t hash;
};

struct event {
	uint64_t id;
	int kind, priority;
	double at, until;
};

struct tree {
	struct tree *parent, *left, *right;
	uint64_t key;
	char color[24];
};

struct queue {
	struct queue *next, *prev;
	const char *what;
};

struct maker {
	const char *name;
	void *(*make)(void);
	void **kept;
	size_t n, next;
	uint64_t bytes;
	int once;
};

static uint64_t seed = 88172645463325252ULL, last_bytes;
static void *some[256]; /* blocks to which other blocks point */
static size_t n_some;

static uint64_t random64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void *any(void)
{
	return some[random64() % n_some];
}

static int nothing(void)
{
	return 0;
}

static const struct operations operations = {nothing, nothing};

static void *get(size_t size)
{
	void *p = malloc(size);

	if (!p)
		abort();
	last_bytes = size;
	return p;
}

static NOINLINE void *make_session(void)
{
	struct session *s = get(sizeof(*s));

	*s = (struct session){&operations, any(), (int)(random64() % 1000), 1, any(), ""};
	return s;
}

static NOINLINE void *make_node(void)
{
	struct node *n = get(sizeof(*n));

	*n = (struct node){any(), any()};
	return n;
}

static NOINLINE void *make_entry(void)
{
	struct entry *e = get(sizeof(*e));

	*e = (struct entry){any(), any(), random64() % 4 ? NULL : any(), (uint32_t)random64()};
	return e;
}

static NOINLINE void *make_config(void)
{
	struct entry *e = get(sizeof(*e));

	*e = (struct entry){any(), any(), random64() % 4 ? NULL : any(), (uint32_t)random64()};
	return e;
}

static NOINLINE void *make_text(void)
{
	size_t len = 10 + random64() % 90;
	char *text = get(len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + random64() % 26);
	text[len] = '\0';
	return text;
}

static NOINLINE void *make_buffer(void)
{
	return memset(get(2000), 0, 2000);
}

static NOINLINE void *make_event(void)
{
	struct event *e = get(sizeof(*e));

	*e = (struct event){random64(), (int)(random64() % 8), 3, (double)random64(), 0.5};
	return e;
}

static NOINLINE void *make_tree(void)
{
	struct tree *t = get(sizeof(*t));

	*t = (struct tree){any(), any(), random64() % 2 ? NULL : any(), random64(), ""};
	return t;
}

static NOINLINE void *make_queue(void)
{
	struct queue *q = get(sizeof(*q));

	*q = (struct queue){q, q, "a queue"};
	return q;
}

static NOINLINE void *make_samples(void)
{
	double *samples = get(1500);

	for (size_t i = 0; i < 1500 / sizeof(*samples); i++)
		samples[i] = 1.0 / (double)(1 + random64() % 1000);
	return samples;
}

static struct maker makers[] = {
	{.name = "make_session", .make = make_session},
	{.name = "make_node", .make = make_node},
	{.name = "make_entry", .make = make_entry},
	{.name = "make_text", .make = make_text},
	{.name = "make_buffer", .make = make_buffer},
	{.name = "make_event", .make = make_event},
	{.name = "make_tree", .make = make_tree},
	{.name = "make_queue", .make = make_queue},
	{.name = "make_samples", .make = make_samples},
	{.name = "make_config", .make = make_config, .once = 1},
};

#define N_MAKERS (sizeof(makers) / sizeof(*makers))

static void fill(struct maker *m, size_t n)
{
	m->n = n;
	m->kept = calloc(n, sizeof(*m->kept));
	for (size_t i = 0; m->kept && i < n; i++) {
		m->kept[i] = m->make();
		m->bytes += last_bytes;
	}
}

static void replace(struct maker *m)
{
	size_t i = m->next++ % m->n;

	if (m->once)
		return;
	free(m->kept[i]);
	m->kept[i] = m->make();
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
	int seconds = argc > 2 ? atoi(argv[2]) : 60;
	time_t end = time(NULL) + seconds;

	for (n_some = 0; n_some < 256; n_some++)
		some[n_some] = malloc(200);
	for (size_t i = 0; i < N_MAKERS; i++)
		fill(&makers[i], makers[i].once ? n / 40 + 1 : n);
	for (size_t i = 0; i < N_MAKERS; i++)
		printf("%s %zu %llu\n", makers[i].name, makers[i].n,
		       (unsigned long long)makers[i].bytes);
	puts("ready");
	fflush(stdout);
	while (time(NULL) < end) {
		for (size_t i = 0; i < N_MAKERS; i++)
			replace(&makers[i]);
		usleep(1000);
	}
	return 0;
}
