/* SPDX-License-Identifier: BSD-2-Clause */
/* A leak beside functions that allocate a lot and do not leak ("innocents"). Runs from "go" until
 * the line "stop", as fast as it can or at --rate N pairs of allocation and free a second. The
 * first argument names the scenario (default: "mixed"). The table "scenarios" below has for each
 * scenario the functions that leak, how fast they leak, and the sizes of their blocks.
 *
 *   --leak N         bytes leaked a second (scenario work: in a million
 *		    pairs; 0: no leak), --size N bytes a block
 *   --connections N  opened a second, each of which lives for --life MS
 *
 * The line "event" starts the scenario's event, if there is one. On the line "truth", and at the
 * end, the program prints one line of JSON:
 *   {"scenario", "pairs", "seconds" since go, "cpu_s", "leaked_bytes" in all,
 *    "leaks": {function: {"bytes", "since_s": when it began to leak}}, "innocents": [functions]}
 * All memory of a leak belongs to one function, on one stack. Caches are full from the start. So
 * most of the memory that stays constant in the long run is constant at first, too. Blocks contain
 * numbers, pointers and text, as in real programs. */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "truth.h"

/* Pairs of allocation and free between two reads of the clock. They are few, so that timed events
 * come in time even if each pair takes a microsecond longer. */
#define TURN	     250
#define LISTEN_TURNS 64 /* turns between checks for a line from the tester */
#define CACHE	     50000
#define SLOW_CACHE   4000
#define CONNECTIONS  100000
#define STORE	     50000
#define TABLES	     200
#define TABLE_BYTES  65536
#define SESSIONS     4000
#define RING	     4096
#define BATCH_BLOCKS 40000
#define MAX_LEAKS    2
#define MAX_TIMED    2

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t state, serial, start_ns, clock_ns;
static uint64_t life_ns;

/* Writes contents like those of a real program: an id, a time, pointers, text. */
static void *fill(void *p, size_t size)
{
	static const char text[] = "GET /index.html HTTP/1.1\r\nHost: example.org\r\n";
	uint64_t *word = p;
	size_t n = size / 8;

	if (!p || p == MAP_FAILED)
		abort();
	serial++;
	for (size_t i = 0; i < n; i++)
		word[i] = i % 4 == 0   ? serial + i
			  : i % 4 == 1 ? (uint64_t)(uintptr_t)p + 8 * i
				       : ((const uint64_t *)text)[i % 5];
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

/* --- leaks: each returns how many bytes it has leaked --- */

#define FORGET(name)                                                                               \
	NOINLINE static size_t name(size_t size)                                                   \
	{                                                                                          \
		fill(malloc(size), size);                                                          \
		return size;                                                                       \
	}

FORGET(forget)
FORGET(forget_fast)
FORGET(forget_slowly)

/* A log that grows for ever and is never read. */
NOINLINE static size_t append_log(size_t size)
{
	static char *log;
	static size_t len;

	log = realloc(log, len + size);
	fill(log + len, size);
	len += size;
	return size;
}

NOINLINE static size_t map_forgotten(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fill(p, size);
	return size;
}

/* The list still leads to all nodes, but no code uses them again. */
NOINLINE static size_t link_node(size_t size)
{
	struct node {
		struct node *next, *prev;
	};
	static struct node *head;
	struct node *node = fill(malloc(size), size);

	node->next = head;
	node->prev = NULL;
	if (head)
		head->prev = node;
	head = node;
	return size;
}

static struct {
	void (*handle)(void); /* allocates memory and frees it */
	size_t (*forget)(size_t size);
} plugin;

static size_t leak_in_plugin(size_t size)
{
	return plugin.forget(size);
}

/* --- innocents --- */

/* Reads the block and frees it. */
static void use(void *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

NOINLINE static void parse_request(void)
{
	use(fill(malloc(64 + (truth_random(&state) & 127)), 64));
}

/* Its blocks have the same size as leaked blocks. */
NOINLINE static void parse_same(void)
{
	use(fill(malloc(300), 64));
}

NOINLINE static void parse_small(void)
{
	use(fill(malloc(48), 48));
}

NOINLINE static void parse_large(void)
{
	use(fill(malloc(1000 + (truth_random(&state) & 16383)), 256));
}

static bool images_begun;

static void begin_images(void)
{
	images_begun = true;
}

/* Makes few calls, each for many bytes, on a stack as deep as that of a parser of nested data.
 * Before the event its blocks are small. */
NOINLINE static void decode_image(int depth)
{
	if (depth)
		decode_image(depth - 1);
	else
		use(fill(malloc(images_begun ? 100000 : 48), 48));
	__asm__ volatile("" : : : "memory"); /* the compiler must keep the recursion */
}

static void *cache[CACHE], *slow_cache[SLOW_CACHE];

NOINLINE static void replace_cached(void)
{
	size_t i = truth_random(&state) % CACHE;

	free(cache[i]);
	cache[i] = fill(malloc(200), 200);
}

/* Called by the clock. Each of the 4,000 blocks stays for 8 seconds on average at 500 calls a
 * second, and for 20 seconds at 200 calls a second. */
NOINLINE static void replace_slowly(void)
{
	size_t i = truth_random(&state) % SLOW_CACHE;

	free(slow_cache[i]);
	slow_cache[i] = fill(malloc(2000), 2000);
}

static struct {
	void *block;
	uint64_t end_ns;
} connections[CONNECTIONS];
static size_t first_connection, last_connection;

NOINLINE static void open_connection(void)
{
	size_t i = last_connection++ % CONNECTIONS;

	connections[i].block = fill(malloc(700), 700);
	connections[i].end_ns = clock_ns + life_ns;
}

static void close_connections(void)
{
	while (first_connection < last_connection &&
	       connections[first_connection % CONNECTIONS].end_ns <= clock_ns)
		free(connections[first_connection++ % CONNECTIONS].block);
}

/* A store of 50 MB, in blocks of 200 to 1800 bytes. The same code first fills the store and then
 * replaces blocks, so a stack does not show which of the two happens. */
NOINLINE static void replace_stored(void)
{
	static void *store[STORE];
	static size_t filled;
	size_t i = filled < STORE ? filled++ : truth_random(&state) % STORE;

	free(store[i]);
	store[i] = fill(malloc(200 + truth_random(&state) % 1600), 200);
}

/* The array grows step by step; when it is large, it is freed and a new one begins. */
NOINLINE static void collect_rows(void)
{
	static char *rows;
	static size_t len;

	if (len >= 256 << 10) {
		free(rows);
		rows = NULL;
		len = 0;
	}
	rows = realloc(rows, len + 1024);
	fill(rows + len, 1024);
	len += 1024;
}

NOINLINE static void map_scratch(void)
{
	void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(fill(p, 64), 65536);
}

/* Gathers blocks for 8 seconds, then frees all at once, like a program that writes batches. */
NOINLINE static void gather(void)
{
	static void *batch[BATCH_BLOCKS];
	static size_t n;
	static uint64_t flushed_ns;

	if (n == BATCH_BLOCKS || clock_ns - flushed_ns > 8000000000ull) {
		while (n)
			free(batch[--n]);
		flushed_ns = clock_ns;
	}
	batch[n++] = fill(malloc(500), 500);
}

/* Large, old blocks to which the program writes all the time. */
static uint64_t *tables[TABLES];

static void count_in_table(void)
{
	uint64_t r = truth_random(&state);

	tables[r % TABLES][(r >> 16) % (TABLE_BYTES / 8)]++;
	tables[(r >> 8) % TABLES][0]++;
}

static struct session {
	uint64_t hits, seen_ns;
	char rest[480];
} * sessions[SESSIONS];

/* Called by the clock: a session lives for 10 seconds on average. */
NOINLINE static void replace_session(void)
{
	size_t i = truth_random(&state) % SESSIONS;

	free(sessions[i]);
	sessions[i] = fill(malloc(sizeof(struct session)), sizeof(struct session));
}

static void use_session(void)
{
	struct session *s = sessions[truth_random(&state) % SESSIONS];

	s->hits++;
	s->seen_ns = clock_ns;
}

/* Messages for another thread. That thread frees each message, unless the message's address in the
 * ring is odd. */
static void *ring[RING];
static volatile uint64_t ring_put, ring_got;
static volatile bool ring_ended;

static void *consume(void *arg)
{
	uint64_t got = 0;

	while (!ring_ended || got < ring_put) {
		if (got == __atomic_load_n(&ring_put, __ATOMIC_ACQUIRE)) {
			sched_yield();
			continue;
		}
		if (!((uintptr_t)ring[got % RING] & 1))
			free(ring[got % RING]);
		__atomic_store_n(&ring_got, ++got, __ATOMIC_RELEASE);
	}
	return arg;
}

static void put(void *message)
{
	while (ring_put - __atomic_load_n(&ring_got, __ATOMIC_ACQUIRE) == RING)
		sched_yield();
	ring[ring_put % RING] = message;
	__atomic_store_n(&ring_put, ring_put + 1, __ATOMIC_RELEASE);
}

NOINLINE static void post_message(void)
{
	put(fill(malloc(64 + (truth_random(&state) & 255)), 64));
}

NOINLINE static size_t post_forgotten(size_t size)
{
	put((char *)fill(malloc(size), size) + 1);
	return size;
}

/* --- what happens at the start and at the event --- */

NOINLINE static void set_up(void)
{
	for (int i = 0; i < 20000; i++)
		fill(malloc(1000), 1000);
}

static uint64_t burst_ns;

/* Allocates 40 MB within two seconds of the event. It frees nothing and allocates no more. */
NOINLINE static void warm_up(void)
{
	static uint64_t done;
	uint64_t age_us = burst_ns ? (clock_ns - burst_ns) / 1000 : 0;

	for (uint64_t due = age_us < 2000000 ? age_us / 50 : 40000; done < due; done++)
		fill(malloc(1000), 1000);
}

static void begin_burst(void)
{
	burst_ns = clock_ns;
}

static void load_plugin(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	void *library;

	if (n < 0)
		abort();
	strcpy(path + n, "_plugin.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "leaking: %s\n", dlerror());
		_exit(99);
	}
	*(void **)&plugin.handle = dlsym(library, "plugin_handle");
	*(void **)&plugin.forget = dlsym(library, "plugin_forget");
}

static void start_consumer(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, consume, NULL))
		abort();
	pthread_detach(thread);
}

static void fill_tables(void)
{
	for (int i = 0; i < TABLES; i++)
		tables[i] = fill(malloc(TABLE_BYTES), TABLE_BYTES);
	for (int i = 0; i < SESSIONS; i++)
		sessions[i] = fill(malloc(sizeof(struct session)), sizeof(struct session));
}

static void fill_caches(void)
{
	for (int i = 0; i < CACHE; i++)
		cache[i] = fill(malloc(200), 200);
	for (int i = 0; i < SLOW_CACHE; i++)
		slow_cache[i] = fill(malloc(2000), 2000);
}

static void set_up_mixed(void)
{
	set_up();
	fill_caches();
}

/* --- scenarios --- */

static void work_mixed(uint64_t i)
{
	if (i % 16)
		parse_request();
	else
		replace_cached();
}

static void work_churn(uint64_t i)
{
	if (i % 64 == 63)
		parse_large();
	else if (i % 2)
		parse_same();
	else
		parse_request();
}

static void work_threads(uint64_t i)
{
	if (i % 4)
		parse_request();
	else
		post_message();
}

static void work_vector(uint64_t i)
{
	if (i % 64)
		parse_request();
	else
		collect_rows();
}

static void work_plugin(uint64_t i)
{
	if (i % 2 && plugin.handle)
		plugin.handle();
	else
		parse_request();
}

/* Each pair takes a tenth of a microsecond of CPU time. */
static void work_hard(uint64_t i)
{
	for (int n = 0; n < 60; n++)
		truth_random(&state);
	work_churn(i);
}

static void work_store(uint64_t i)
{
	(void)i;
	replace_stored();
}

static void work_small(uint64_t i)
{
	(void)i;
	parse_small();
}

static void work_used(uint64_t i)
{
	count_in_table();
	use_session();
	parse_request();
	(void)i;
}

static void work_images(uint64_t i)
{
	decode_image(110);
	(void)i;
}

struct leak {
	const char *function; /* the function that leaks */
	size_t (*one)(size_t size);
	uint64_t per_s; /* bytes a second; with by_work: bytes in a million pairs */
	size_t size;
	/* bytes leaked so far; when the leak began, by the clock and in pairs */
	uint64_t bytes, since_ns, since_pairs;
};

struct timed {
	void (*one)(void);
	uint64_t per_s;
	uint64_t done;
};

#define LEAK_AS(name, call, rate, bytes_)                                                          \
	{                                                                                          \
		.function = #name, .one = call, .per_s = rate, .size = bytes_                      \
	}
#define LEAK(name, rate, bytes) LEAK_AS(name, name, rate, bytes)
#define TIMED(call, rate)                                                                          \
	{                                                                                          \
		.one = call, .per_s = rate                                                         \
	}

static struct scenario {
	const char *name;
	void (*set_up)(void); /* set_up, event and always may be NULL */
	void (*event)(void);
	void (*always)(void);	  /* called once a turn */
	void (*work)(uint64_t i); /* called once for each pair; i is the pair's number */
	struct leak leaks[MAX_LEAKS];
	struct timed timed[MAX_TIMED];
	uint64_t life_ms; /* life of connections */
	bool by_work, from_event;
	const char *innocents;
} scenarios[] = {
	{.name = "mixed",
	 .set_up = set_up_mixed,
	 .work = work_mixed,
	 .leaks = {LEAK(forget, 500000, 300)},
	 .timed = {TIMED(open_connection, 200)},
	 .life_ms = 2000,
	 .innocents = "\"set_up\", \"parse_request\", \"replace_cached\", \"open_connection\""},
	{.name = "churn",
	 .work = work_churn,
	 .leaks = {LEAK(forget, 500000, 300)},
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\""},
	{.name = "cache",
	 .set_up = fill_caches,
	 .work = work_mixed,
	 .leaks = {LEAK(forget, 1000000, 200)},
	 .timed = {TIMED(replace_slowly, 500)},
	 .innocents = "\"parse_request\", \"replace_cached\", \"replace_slowly\""},
	{.name = "cache_slow",
	 .set_up = fill_caches,
	 .work = work_mixed,
	 .leaks = {LEAK(forget, 1000000, 200)},
	 .timed = {TIMED(replace_slowly, 200)},
	 .innocents = "\"parse_request\", \"replace_cached\", \"replace_slowly\""},
	{.name = "connections",
	 .work = work_churn,
	 .leaks = {LEAK(forget, 300000, 700)},
	 .timed = {TIMED(open_connection, 2000)},
	 .life_ms = 5000,
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\", \"open_connection\""},
	{.name = "threads",
	 .set_up = start_consumer,
	 .work = work_threads,
	 .leaks = {LEAK(post_forgotten, 800000, 256)},
	 .innocents = "\"parse_request\", \"post_message\""},
	{.name = "vector",
	 .work = work_vector,
	 .leaks = {LEAK(append_log, 400000, 1024)},
	 .innocents = "\"parse_request\", \"collect_rows\""},
	{.name = "mmap",
	 .work = work_churn,
	 .leaks = {LEAK(map_forgotten, 1000000, 65536)},
	 .timed = {TIMED(map_scratch, 500)},
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\", \"map_scratch\""},
	{.name = "plugin",
	 .set_up = load_plugin,
	 .work = work_plugin,
	 .leaks = {LEAK_AS(plugin_forget, leak_in_plugin, 600000, 400)},
	 .innocents = "\"parse_request\", \"plugin_handle\""},
	{.name = "plugin_late",
	 .event = load_plugin,
	 .work = work_plugin,
	 .leaks = {LEAK_AS(plugin_forget, leak_in_plugin, 600000, 400)},
	 .from_event = true,
	 .innocents = "\"parse_request\", \"plugin_handle\""},
	{.name = "burst",
	 .event = begin_burst,
	 .always = warm_up,
	 .work = work_churn,
	 .leaks = {LEAK(forget, 400000, 300)},
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\", \"warm_up\""},
	{.name = "slow",
	 .work = work_small,
	 .leaks = {LEAK(forget, 200000, 48)},
	 .innocents = "\"parse_small\""},
	{.name = "store",
	 .work = work_store,
	 .leaks = {LEAK(forget, 200000, 300)},
	 .innocents = "\"replace_stored\""},
	{.name = "images",
	 .event = begin_images,
	 .work = work_images,
	 .leaks = {LEAK(forget, 2000000, 4000)},
	 .innocents = "\"decode_image\""},
	{.name = "two",
	 .set_up = fill_caches,
	 .work = work_mixed,
	 .leaks = {LEAK(forget_fast, 2000000, 1000), LEAK(forget_slowly, 250000, 100)},
	 .innocents = "\"parse_request\", \"replace_cached\""},
	{.name = "work",
	 .work = work_hard,
	 .leaks = {LEAK(forget, 300000, 400)},
	 .by_work = true,
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\""},
	{.name = "used",
	 .set_up = fill_tables,
	 .work = work_used,
	 .leaks = {LEAK(link_node, 700000, 96)},
	 .timed = {TIMED(replace_session, 400)},
	 .innocents = "\"parse_request\", \"replace_session\", \"fill_tables\""},
	{.name = "batch",
	 .work = work_churn,
	 .leaks = {LEAK(forget, 500000, 300)},
	 .timed = {TIMED(gather, 2000)},
	 .innocents = "\"parse_request\", \"parse_same\", \"parse_large\", \"gather\""},
};

static struct scenario *find_scenario(const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (!strcmp(scenarios[i].name, name))
			return &scenarios[i];
	fprintf(stderr, "leaking: there is no scenario %s\n", name);
	exit(2);
}

static void tell(const struct scenario *s, uint64_t pairs)
{
	uint64_t leaked = 0;

	for (int i = 0; i < MAX_LEAKS; i++)
		leaked += s->leaks[i].bytes;
	printf("{\"scenario\": \"%s\", \"pairs\": %" PRIu64 ", \"seconds\": %.6f, \"cpu_s\": %.6f, "
	       "\"leaked_bytes\": %" PRIu64 ", \"leaks\": {",
	       s->name, pairs, (double)(now_ns(CLOCK_MONOTONIC) - start_ns) / 1e9,
	       (double)now_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9, leaked);
	for (int i = 0; i < MAX_LEAKS && s->leaks[i].one; i++)
		printf("%s\"%s\": {\"bytes\": %" PRIu64 ", \"since_s\": %.6f}", i ? ", " : "",
		       s->leaks[i].function, s->leaks[i].bytes,
		       s->leaks[i].since_ns ? (double)(s->leaks[i].since_ns - start_ns) / 1e9 : 0);
	printf("}, \"innocents\": [%s]}\n", s->innocents);
	fflush(stdout);
}

/* Returns the first letter of the tester's line, or '\0' if there is none. The tester must send one
 * line at a time. */
static char told(void)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	static unsigned turns;
	char line[16];

	if (turns++ % LISTEN_TURNS)
		return '\0';
	if (poll(&fd, 1, 0) <= 0)
		return '\0';
	return read(STDIN_FILENO, line, sizeof(line)) > 0 ? line[0] : 's';
}

static void leak_what_is_due(struct scenario *s, uint64_t pairs)
{
	for (struct leak *leak = s->leaks; leak < s->leaks + MAX_LEAKS && leak->one; leak++) {
		uint64_t due;

		if (!leak->since_ns)
			continue;
		due = s->by_work ? (pairs - leak->since_pairs) * leak->per_s / 1000000
				 : (clock_ns - leak->since_ns) / 1000 * leak->per_s / 1000000;
		while (leak->bytes + leak->size <= due)
			leak->bytes += leak->one(leak->size);
	}
}

static void begin_leaks(struct scenario *s, uint64_t pairs)
{
	for (int i = 0; i < MAX_LEAKS; i++) {
		s->leaks[i].since_ns = clock_ns;
		s->leaks[i].since_pairs = pairs;
	}
}

int main(int argc, char **argv)
{
	uint64_t rate, pairs = 0;
	struct scenario *s;

	truth_init(argc, argv);
	s = find_scenario(argc > 1 && argv[1][0] != '-' ? argv[1] : "mixed");
	s->leaks[0].per_s = truth_number(argc, argv, "--leak", s->leaks[0].per_s);
	s->leaks[0].size = truth_number(argc, argv, "--size", s->leaks[0].size);
	if (s->timed[0].one == open_connection)
		s->timed[0].per_s = truth_number(argc, argv, "--connections", s->timed[0].per_s);
	life_ns = truth_number(argc, argv, "--life", s->life_ms) * 1000000;
	rate = truth_number(argc, argv, "--rate", 0);
	state = truth_seed(1);
	truth_ready();
	start_ns = clock_ns = now_ns(CLOCK_MONOTONIC);
	if (s->set_up)
		s->set_up();
	if (!s->from_event)
		begin_leaks(s, 0);
	for (char word = '\0'; word != 's'; word = told()) {
		uint64_t due = rate ? (clock_ns - start_ns) / 1000 * rate / 1000000 : pairs + TURN;

		if (word == 'e' && s->event) {
			s->event();
			if (s->from_event)
				begin_leaks(s, pairs);
		}
		if (word == 't')
			tell(s, pairs);
		for (; pairs < due; pairs++)
			s->work(pairs);
		for (uint64_t until = now_ns(CLOCK_MONOTONIC) + 200000;
		     rate && now_ns(CLOCK_MONOTONIC) < until;)
			truth_random(&state); /* keeps the CPU busy even if no pair is due */
		clock_ns = now_ns(CLOCK_MONOTONIC);
		leak_what_is_due(s, pairs);
		for (struct timed *t = s->timed; t < s->timed + MAX_TIMED && t->one; t++)
			for (; t->done < (clock_ns - start_ns) / 1000 * t->per_s / 1000000;
			     t->done++)
				t->one();
		close_connections();
		if (s->always)
			s->always();
	}
	ring_ended = true;
	tell(s, pairs);
	return truth_finish();
}
