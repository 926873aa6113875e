/* SPDX-License-Identifier: BSD-2-Clause */
/* A program made of parts. Each part allocates with a function of its own and frees by a rule of
 * its own. The program counts the blocks of each function exactly (its "account"). The judge
 * (truth.py) compares memtrace with the account.
 *
 *   lives [--threads N] [--work N] [--rate N] [--seed N] PART[:KEY=VALUE...]...
 *
 *   --threads N  threads, all of which do the same (1)
 *   --work N     rounds of arithmetic in each operation, about a nanosecond each (200)
 *   --rate N     operations per second and thread; 0: as fast as possible (0)
 *   --seed N     seed of the random numbers (1)
 *
 * A thread repeats one operation: the work, and then each part whose turn has come. Parts:
 *
 *   request        allocates a block and frees it at once
 *   cache          replaces a random block
 *   table          as cache, by another function
 *   fifo           replaces the oldest block
 *   leak_work      leaks a block
 *   leak_clock     leaks per_s blocks per second, by the clock
 *   leak_share     leaks the share `share` of its blocks; frees the others, each n blocks later
 *   batch          gathers blocks, and frees all of them each period_s
 *   phases         a cache; from at_s after the mark on, it gets a tenth of its turns, and another
 *                  function gets the rest
 *   burst          allocates `bytes` at once, at_s after the mark; otherwise makes only
 *                  idle_per_s requests per second
 *   relink         a cache whose blocks are on a list; each operation moves one to the front.
 *                  links_at: offset of the links in a block
 *   relink_leak    as relink, but no block is freed
 *   buffer         frees each block after 1 to 50 ms
 *
 * Keys: size (bytes of a block), every (operations between two turns), equal (1: all blocks have
 * the same contents), life_s (mean life; the number of slots follows from the speed without a
 * tracer), n (slots), and the keys named above.
 *
 * Protocol: "ready PID", then lines on stdin: "go"; "mark" (allocations after it also count in
 * `since`); "account"; "stop" or the end of input. An account is one line of JSON, printed at
 * "mark", at "account", at SIGUSR1 and at the end:
 *   {"t_ns": CLOCK_MONOTONIC, "cpu_ns", "ops", "end": last one?, "functions": {NAME: {
 *     "live_bytes", "live_objects",
 *     "since_bytes", "since_objects" (live, allocated since the mark),
 *     "alloc_bytes", "alloc_objects", "freed_bytes", "freed_objects"}}}
 * Bytes are requested bytes. The account and the slots are in shared mappings, which are neither
 * heap nor anonymous memory. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <time.h>

#include "truth.h"

#define MAX_THREADS  64
#define MAX_PARTS    8
#define CALIBRATE_NS 400000000ull
#define TURN	     16 /* short operations between two reads of the clock */
#define NS	     1000000000ull
#define MS	     1000000ull

#define FUNCTIONS(X)                                                                               \
	X(request_parse)                                                                           \
	X(cache_insert)                                                                            \
	X(table_insert)                                                                            \
	X(fifo_push)                                                                               \
	X(leak_by_work)                                                                            \
	X(leak_by_clock)                                                                           \
	X(churn_some_leak)                                                                         \
	X(batch_gather)                                                                            \
	X(phase_load)                                                                              \
	X(phase_serve)                                                                             \
	X(burst_set_up)                                                                            \
	X(relink_insert)                                                                           \
	X(relink_forget)                                                                           \
	X(buffer_take)

#define AS_ENUM(name) FN_##name,
enum function { FUNCTIONS(AS_ENUM) N_FUNCTIONS };
#define AS_NAME(name) #name,
static const char *const function_names[] = {FUNCTIONS(AS_NAME)};

/* One thread writes a number while the reporter reads it. Each number is read whole, but numbers
 * read one after the other may differ by one block. */
struct account {
	uint64_t alloc_bytes, alloc_objects;
	uint64_t freed_bytes, freed_objects;
	uint64_t since_alloc_bytes, since_alloc_objects;
	uint64_t since_freed_bytes, since_freed_objects;
};

struct slot {
	void *p;
	uint32_t size;
	uint32_t next; /* slot of the same list */
	bool since;    /* allocated since the mark */
};

struct part;
struct thread;

struct kind {
	const char *name;
	void (*one)(struct thread *t, struct part *part);   /* called for a turn */
	void (*clock)(struct thread *t, struct part *part); /* after the clock is read, or NULL */
	void *(*allocate)(struct thread *t, const struct part *part);
};

struct part {
	const struct kind *kind;
	uint64_t size, every, equal, n, period_s, bytes, idle_per_s, links_at;
	double life_s, share, at_s, per_s;
	/* the state in one thread */
	struct slot *slots;
	uint64_t capacity, filled, next, done;
	uint64_t due_ns;
	uint32_t buckets[64], free_list, head;
	uint64_t last_ms;
};

struct thread {
	uint64_t state, ops, serial;
	struct account accounts[N_FUNCTIONS];
	struct part parts[MAX_PARTS];
	uint64_t now_ns, begin_ns;
	pthread_t id;
};

static struct thread *threads; /* a shared mapping */
static struct part parts[MAX_PARTS];
static size_t n_threads = 1, n_parts;
static uint64_t work_rounds = 200, rate;
static volatile bool over, marked;
static volatile uint64_t mark_ns;

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

/* --- memory that is not the heap's --- */

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		perror("lives: mmap");
		_exit(99);
	}
	return p;
}

/* --- birth and death --- */

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline void *born(struct thread *t, enum function f, void *p, const struct part *part)
{
	struct account *account = &t->accounts[f];
	size_t size = part->size;

	if (!p)
		abort();
	memset(p, 'x', size);
	t->serial++;
	if (!part->equal && size >= 16) {
		uint64_t words[2] = {t->serial, truth_random(&t->state)};

		memcpy(p, words, sizeof(words));
	}
	__asm__ volatile("" : "+r"(p) : : "memory");
	add(&account->alloc_bytes, size);
	add(&account->alloc_objects, 1);
	if (marked) {
		add(&account->since_alloc_bytes, size);
		add(&account->since_alloc_objects, 1);
	}
	return p;
}

#define DEFINE(name)                                                                               \
	NOINLINE static void *name(struct thread *t, const struct part *part)                      \
	{                                                                                          \
		return born(t, FN_##name, malloc(part->size), part);                               \
	}
FUNCTIONS(DEFINE)

static void die(struct thread *t, enum function f, void *p, size_t size, bool since)
{
	struct account *account = &t->accounts[f];

	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
	add(&account->freed_bytes, size);
	add(&account->freed_objects, 1);
	if (since) {
		add(&account->since_freed_bytes, size);
		add(&account->since_freed_objects, 1);
	}
}

static void empty(struct thread *t, enum function f, struct slot *slot)
{
	if (slot->p)
		die(t, f, slot->p, slot->size, slot->since);
	slot->p = NULL;
}

/* The caller reads `marked` into `since` before it allocates the block. If the mark comes in
 * between, born() counts the block as new, but `since` is false. This happens to at most one block
 * per thread. */
static void fill_slot(struct slot *slot, void *p, const struct part *part, bool since)
{
	slot->p = p;
	slot->size = (uint32_t)part->size;
	slot->since = since;
}

static void reserve(struct part *part, uint64_t n)
{
	if (n <= part->capacity)
		return;
	if (part->capacity) {
		fprintf(stderr, "lives: %s: more slots than there is room for\n", part->kind->name);
		_exit(98);
	}
	part->slots = shared(n * sizeof(*part->slots));
	part->capacity = n;
}

/* --- parts --- */

static void request_one(struct thread *t, struct part *part)
{
	bool since = marked;

	die(t, FN_request_parse, request_parse(t, part), part->size, since);
}

static void replace(struct thread *t, struct part *part, enum function f, uint64_t i)
{
	bool since = marked;

	empty(t, f, &part->slots[i]);
	fill_slot(&part->slots[i], part->kind->allocate(t, part), part, since);
}

/* Chooses the slot to fill next: an empty slot if there is any, else a random one. */
static uint64_t random_slot(struct thread *t, struct part *part)
{
	return part->filled < part->n ? part->filled++ : truth_random(&t->state) % part->n;
}

static void cache_one(struct thread *t, struct part *part)
{
	replace(t, part, FN_cache_insert, random_slot(t, part));
}

static void table_one(struct thread *t, struct part *part)
{
	replace(t, part, FN_table_insert, random_slot(t, part));
}

static void fifo_one(struct thread *t, struct part *part)
{
	if (part->filled < part->n)
		part->filled++;
	replace(t, part, FN_fifo_push, part->next++ % part->n);
}

static void leak_work_one(struct thread *t, struct part *part)
{
	leak_by_work(t, part);
}

static void leak_clock_clock(struct thread *t, struct part *part)
{
	uint64_t due = (uint64_t)((double)(t->now_ns - t->begin_ns) * 1e-9 * part->per_s);

	for (; part->done < due; part->done++)
		leak_by_clock(t, part);
}

static void leak_share_one(struct thread *t, struct part *part)
{
	if ((double)(truth_random(&t->state) >> 11) * 0x1p-53 < part->share)
		churn_some_leak(t, part);
	else
		replace(t, part, FN_churn_some_leak, part->next++ % part->n);
}

static void batch_flush(struct thread *t, struct part *part)
{
	while (part->filled)
		empty(t, FN_batch_gather, &part->slots[--part->filled]);
}

static void batch_one(struct thread *t, struct part *part)
{
	bool since = marked;

	if (part->filled == part->n)
		batch_flush(t, part);
	fill_slot(&part->slots[part->filled++], batch_gather(t, part), part, since);
}

static void batch_clock(struct thread *t, struct part *part)
{
	if (!part->due_ns)
		part->due_ns = t->now_ns + part->period_s * NS;
	if (t->now_ns < part->due_ns)
		return;
	batch_flush(t, part);
	part->due_ns += part->period_s * NS;
}

static double since_mark_s(const struct thread *t)
{
	return marked && t->now_ns > mark_ns ? (double)(t->now_ns - mark_ns) * 1e-9 : -1;
}

static void phases_one(struct thread *t, struct part *part)
{
	bool second = since_mark_s(t) >= part->at_s;
	bool since = marked;

	if (second && t->ops / part->every % 10)
		die(t, FN_phase_serve, phase_serve(t, part), part->size, since);
	else
		replace(t, part, FN_phase_load, random_slot(t, part));
}

static void burst_clock(struct thread *t, struct part *part)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	if (!part->done && since_mark_s(t) >= part->at_s) {
		for (; part->done < part->bytes; part->done += part->size)
			burst_set_up(t, part);
		part->due_ns = now(CLOCK_MONOTONIC);
	}
	if (part->idle_per_s && t->now_ns >= part->due_ns) {
		request_one(t, part);
		part->due_ns = t->now_ns + NS / part->idle_per_s;
	}
	nanosleep(&pause, NULL);
}

/* Blocks are on a list, as in a cache that keeps its blocks in order of use. */
struct entry {
	struct entry *next, *prev;
};

static struct entry *links_of(const struct part *part, void *p)
{
	return (struct entry *)((char *)p + part->links_at);
}

static struct entry lists[MAX_THREADS];

static void unlink_entry(struct entry *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
}

static void link_first(struct entry *head, struct entry *entry)
{
	entry->next = head->next;
	entry->prev = head;
	head->next->prev = entry;
	head->next = entry;
}

static struct entry *list_of(struct thread *t)
{
	struct entry *head = &lists[t - threads];

	if (!head->next)
		head->next = head->prev = head;
	return head;
}

static void relink_one(struct thread *t, struct part *part)
{
	uint64_t i = random_slot(t, part);
	struct slot *slot = &part->slots[i];

	if (slot->p)
		unlink_entry(links_of(part, slot->p));
	replace(t, part, FN_relink_insert, i);
	link_first(list_of(t), links_of(part, slot->p));
}

static void relink_leak_one(struct thread *t, struct part *part)
{
	if (part->filled == part->n)
		abort();
	part->slots[part->filled].p = relink_forget(t, part);
	link_first(list_of(t), links_of(part, part->slots[part->filled++].p));
}

/* Moves a random entry to the front, as if it were used. Every operation calls this, also between
 * the turns of the part. */
static void relink_some(struct thread *t, struct part *part)
{
	struct entry *entry;

	if (!part->filled)
		return;
	entry = links_of(part, part->slots[truth_random(&t->state) % part->filled].p);
	unlink_entry(entry);
	link_first(list_of(t), entry);
}

#define NONE UINT32_MAX

static void buffer_one(struct thread *t, struct part *part)
{
	uint64_t end_ms = t->now_ns / MS + 1 + truth_random(&t->state) % 50;
	uint32_t i = part->free_list;
	bool since = marked;

	if (i != NONE)
		part->free_list = part->slots[i].next;
	else if (part->filled < part->n)
		i = (uint32_t)part->filled++;
	else
		return; /* all slots are in use, so nothing is allocated */
	fill_slot(&part->slots[i], buffer_take(t, part), part, since);
	part->slots[i].next = part->buckets[end_ms % 64];
	part->buckets[end_ms % 64] = i;
}

static void buffer_clock(struct thread *t, struct part *part)
{
	uint64_t ms = t->now_ns / MS;

	if (ms - part->last_ms > 64)
		part->last_ms = ms - 64;
	for (; part->last_ms < ms; part->last_ms++) {
		uint32_t *bucket = &part->buckets[(part->last_ms + 1) % 64];

		while (*bucket != NONE) {
			uint32_t i = *bucket;

			*bucket = part->slots[i].next;
			empty(t, FN_buffer_take, &part->slots[i]);
			part->slots[i].next = part->free_list;
			part->free_list = i;
		}
	}
}

static const struct kind kinds[] = {
	{"request", request_one, NULL, request_parse},
	{"cache", cache_one, NULL, cache_insert},
	{"table", table_one, NULL, table_insert},
	{"fifo", fifo_one, NULL, fifo_push},
	{"leak_work", leak_work_one, NULL, leak_by_work},
	{"leak_clock", NULL, leak_clock_clock, leak_by_clock},
	{"leak_share", leak_share_one, NULL, churn_some_leak},
	{"batch", batch_one, batch_clock, batch_gather},
	{"phases", phases_one, NULL, phase_load},
	{"burst", NULL, burst_clock, burst_set_up},
	{"relink", relink_one, NULL, relink_insert},
	{"relink_leak", relink_leak_one, NULL, relink_forget},
	{"buffer", buffer_one, buffer_clock, buffer_take},
};

/* --- a thread --- */

NOINLINE static void work(struct thread *t)
{
	uint64_t x = t->state | 1;

	for (uint64_t i = 0; i < work_rounds; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	__asm__ volatile("" : : "r"(x));
}

NOINLINE static void operate(struct thread *t)
{
	work(t);
	for (size_t i = 0; i < n_parts; i++) {
		struct part *part = &t->parts[i];

		if (part->kind->one == relink_one || part->kind->one == relink_leak_one)
			relink_some(t, part);
		if (part->kind->one && t->ops % part->every == 0)
			part->kind->one(t, part);
	}
	add(&t->ops, 1);
}

/* Computes the number of slots with which blocks live for life_s on average, from the speed that
 * was measured with few slots. Fills all slots. */
static void set_slots(struct thread *t)
{
	double ops_per_s = (double)t->ops * 1e9 / (double)(t->now_ns - t->begin_ns);

	for (size_t i = 0; i < n_parts; i++) {
		struct part *part = &t->parts[i];

		if (!(part->life_s > 0))
			continue;
		part->n = (uint64_t)(part->life_s * ops_per_s / (double)part->every);
		if (part->n < 16)
			part->n = 16;
		if (part->n > part->capacity)
			part->n = part->capacity;
		while (part->filled < part->n && !over)
			part->kind->one(t, part);
	}
}

static void prepare(struct thread *t)
{
	t->begin_ns = t->now_ns = now(CLOCK_MONOTONIC);
	memcpy(t->parts, parts, sizeof(parts));
	for (size_t i = 0; i < n_parts; i++) {
		struct part *part = &t->parts[i];

		reserve(part, 50000000 / n_threads);
		for (size_t k = 0; k < 64; k++)
			part->buckets[k] = NONE;
		part->free_list = NONE;
		part->last_ms = t->now_ns / MS;
		if (part->n > part->capacity)
			part->n = part->capacity;
	}
}

static void *live(void *arg)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t turn = work_rounds >= 1000 ? 1 : TURN;
	struct thread *t = arg;
	bool calibrated = false;

	prepare(t);
	while (!over) {
		bool idle = false;

		t->now_ns = now(CLOCK_MONOTONIC);
		for (size_t i = 0; i < n_parts; i++) {
			if (t->parts[i].kind->clock)
				t->parts[i].kind->clock(t, &t->parts[i]);
			idle = idle || t->parts[i].kind->clock == burst_clock;
		}
		if (idle)
			continue;
		if (!calibrated && t->now_ns - t->begin_ns > CALIBRATE_NS) {
			set_slots(t);
			calibrated = true;
		}
		if (rate &&
		    (double)t->ops > (double)(t->now_ns - t->begin_ns) * 1e-9 * (double)rate) {
			nanosleep(&pause, NULL);
			continue;
		}
		for (uint64_t i = 0; i < turn; i++)
			operate(t);
	}
	return NULL;
}

/* --- the account --- */

static char report_buffer[1 << 16];

static void put_account(bool end)
{
	size_t at = 0;
	uint64_t ops = 0;
	bool first = true;

#define PUT(...) at += (size_t)snprintf(report_buffer + at, sizeof(report_buffer) - at, __VA_ARGS__)
	for (size_t i = 0; i < n_threads; i++)
		ops += __atomic_load_n(&threads[i].ops, __ATOMIC_RELAXED);
	PUT("{\"t_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 ", \"ops\": %" PRIu64
	    ", \"end\": %s, \"functions\": {",
	    now(CLOCK_MONOTONIC), now(CLOCK_PROCESS_CPUTIME_ID), ops, end ? "true" : "false");
	for (size_t f = 0; f < N_FUNCTIONS; f++) {
		struct account sum = {0};

		for (size_t i = 0; i < n_threads; i++) {
			const uint64_t *from = (const uint64_t *)&threads[i].accounts[f];
			uint64_t *to = (uint64_t *)&sum;

			/* freed_* is read first, so that it never exceeds alloc_* */
			for (size_t k = sizeof(sum) / sizeof(*to); k--;)
				to[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
		}
		if (!sum.alloc_objects)
			continue;
		PUT("%s\"%s\": {\"live_bytes\": %" PRIu64 ", \"live_objects\": %" PRIu64
		    ", \"since_bytes\": %" PRId64 ", \"since_objects\": %" PRId64
		    ", \"alloc_bytes\": %" PRIu64 ", \"alloc_objects\": %" PRIu64
		    ", \"freed_bytes\": %" PRIu64 ", \"freed_objects\": %" PRIu64 "}",
		    first ? "" : ", ", function_names[f], sum.alloc_bytes - sum.freed_bytes,
		    sum.alloc_objects - sum.freed_objects,
		    (int64_t)(sum.since_alloc_bytes - sum.since_freed_bytes),
		    (int64_t)(sum.since_alloc_objects - sum.since_freed_objects), sum.alloc_bytes,
		    sum.alloc_objects, sum.freed_bytes, sum.freed_objects);
		first = false;
	}
	PUT("}}\n");
#undef PUT
	for (size_t done = 0; done < at;) {
		ssize_t n = write(STDOUT_FILENO, report_buffer + done, at - done);

		if (n <= 0)
			_exit(97);
		done += (size_t)n;
	}
}

static void obey(const char *word)
{
	if (!strcmp(word, "mark")) {
		mark_ns = now(CLOCK_MONOTONIC);
		marked = true;
	}
	if (!strcmp(word, "mark") || !strcmp(word, "account"))
		put_account(false);
	if (!strcmp(word, "stop"))
		over = true;
}

static void *listen_to_tester(void *arg)
{
	int fd = *(int *)arg;
	char line[64];
	size_t len = 0;

	while (!over) {
		struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
				       {.fd = fd, .events = POLLIN}};
		struct signalfd_siginfo info;
		char c;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents && read(fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo == SIGUSR1)
				put_account(false);
			else
				over = true;
		}
		if (!fds[0].revents)
			continue;
		if (read(STDIN_FILENO, &c, 1) != 1) {
			over = true;
		} else if (c != '\n') {
			if (len < sizeof(line) - 1)
				line[len++] = c;
		} else {
			line[len] = '\0';
			len = 0;
			obey(line);
		}
	}
	return NULL;
}

/* --- the command line --- */

static bool set_key(struct part *part, const char *key, const char *value)
{
	const struct {
		const char *name;
		uint64_t *whole;
		double *real;
	} keys[] = {
		{"size", &part->size, NULL},
		{"every", &part->every, NULL},
		{"equal", &part->equal, NULL},
		{"n", &part->n, NULL},
		{"period_s", &part->period_s, NULL},
		{"bytes", &part->bytes, NULL},
		{"idle_per_s", &part->idle_per_s, NULL},
		{"life_s", NULL, &part->life_s},
		{"share", NULL, &part->share},
		{"at_s", NULL, &part->at_s},
		{"per_s", NULL, &part->per_s},
		{"links_at", &part->links_at, NULL},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(keys[i].name, key))
			continue;
		if (keys[i].whole)
			*keys[i].whole = strtoull(value, NULL, 10);
		else
			*keys[i].real = atof(value);
		return true;
	}
	return false;
}

static void add_part(char *text)
{
	struct part *part = &parts[n_parts];
	char *rest, *word = strtok_r(text, ":", &rest);

	*part = (struct part){.size = 200,
			      .every = 1,
			      .n = 2000,
			      .period_s = 8,
			      .share = 0.05,
			      .at_s = 1,
			      .per_s = 1000,
			      .bytes = 25000000};
	for (size_t i = 0; word && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, word))
			part->kind = &kinds[i];
	if (!part->kind || n_parts == MAX_PARTS - 1) {
		fprintf(stderr, "lives: %s: not a part, or one too many\n", word);
		exit(2);
	}
	if (part->kind->one == batch_one || part->kind->one == relink_leak_one ||
	    part->kind->one == buffer_one)
		part->n = UINT64_MAX; /* as many as there is room for */
	n_parts++;
	while ((word = strtok_r(NULL, ":", &rest))) {
		char *value = strchr(word, '=');

		if (value)
			*value++ = '\0';
		if (!value || !set_key(part, word, value)) {
			fprintf(stderr, "lives: %s: not a KEY=VALUE of a part\n", word);
			exit(2);
		}
	}
	if (!part->every || part->links_at % 8 ||
	    part->size < part->links_at + sizeof(struct entry)) {
		fprintf(stderr, "lives: every is 1 at least, size 16 and room for the links\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static int signals;
	uint64_t seed;
	pthread_t reporter;
	sigset_t set;

	truth_init(argc, argv);
	n_threads = truth_number(argc, argv, "--threads", 1);
	work_rounds = truth_number(argc, argv, "--work", 200);
	rate = truth_number(argc, argv, "--rate", 0);
	seed = truth_number(argc, argv, "--seed", 1);
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--", 2))
			i++;
		else
			add_part(argv[i]);
	}
	if (!n_parts || n_threads < 1 || n_threads > MAX_THREADS) {
		fprintf(stderr, "usage: lives [--threads N] [--work N] [--rate N] [--seed N] "
				"PART[:KEY=VALUE...]...\n");
		return 2;
	}
	threads = shared(n_threads * sizeof(*threads));
	for (size_t i = 0; i < n_threads; i++)
		threads[i].state = truth_seed(seed * MAX_THREADS + i);

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	truth_ready();
	if (signals < 0 || pthread_create(&reporter, NULL, listen_to_tester, &signals)) {
		perror("lives");
		return 99;
	}
	for (size_t i = 1; i < n_threads; i++)
		if (pthread_create(&threads[i].id, NULL, live, &threads[i]))
			abort();
	live(&threads[0]); /* this thread uses the main arena, like programs with one thread */
	for (size_t i = 1; i < n_threads; i++)
		pthread_join(threads[i].id, NULL);
	pthread_join(reporter, NULL);
	put_account(true);
	return 0;
}
