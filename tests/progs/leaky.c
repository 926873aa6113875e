/* SPDX-License-Identifier: BSD-2-Clause */
/* A small server with a leak, for demonstrations. An acceptor makes requests at a steady rate, and
 * two workers serve them: parse, find the session or log in, render the page, write a log line.
 *
 * The leak: when a user logs in again, session_cache_insert() overwrites the pointer to the old
 * session and does not free it. There is no other leak: requests, pages and log lines are freed,
 * and the page cache is large but bounded.
 *
 * usage: leaky [--rate N] [--seconds S] [--truth]
 *   --rate N     requests per second (2000)
 *   --seconds S  stop after S seconds; else at SIGTERM or SIGINT, or when stdin is a pipe that
 *                closes
 *   --truth      at the end print the leaked bytes, as one line of JSON */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORKERS	    2
#define USERS	    500
#define PAGES	    256
#define QUEUE_SLOTS 1024

#define NOINLINE __attribute__((noinline))

/* --- sessions --- */

struct session {
	uint32_t user;
	char *token;
	char basket[2000];
};

static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *sessions[USERS];
static uint64_t leaked_bytes, leaked_objects;

static void *must(void *p)
{
	if (!p) {
		fputs("leaky: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

NOINLINE static struct session *session_new(uint32_t user)
{
	struct session *session = must(calloc(1, sizeof(*session)));

	session->user = user;
	session->token = must(malloc(48));
	snprintf(session->token, 48, "token-%08" PRIx32 "-of-a-session", user * 2654435761u);
	return session;
}

NOINLINE static void session_cache_insert(uint32_t user)
{
	struct session *session = session_new(user);

	pthread_mutex_lock(&sessions_lock);
	if (sessions[user]) { /* the bug: the old session should be freed here */
		leaked_bytes += sizeof(*session) + 48;
		leaked_objects += 2;
	}
	sessions[user] = session;
	pthread_mutex_unlock(&sessions_lock);
}

NOINLINE static bool session_cache_lookup(uint32_t user)
{
	bool found;

	pthread_mutex_lock(&sessions_lock);
	found = sessions[user] != NULL;
	pthread_mutex_unlock(&sessions_lock);
	return found;
}

/* --- pages --- */

struct page {
	size_t size;
	char *text;
};

static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static struct page *pages[PAGES];

NOINLINE static struct page *render_page(uint32_t number)
{
	struct page *page = must(malloc(sizeof(*page)));
	uint64_t state = number;

	page->size = 2000 + number % 7 * 1500;
	page->text = must(malloc(page->size));
	/* about a tenth of a millisecond of work, as for a real page */
	for (size_t i = 0; i < page->size; i++) {
		for (int round = 0; round < 16; round++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		page->text[i] = (char)('a' + (state >> 33) % 26);
	}
	return page;
}

static void page_free(struct page *page)
{
	if (!page)
		return;
	free(page->text);
	free(page);
}

/* Keeps one page per number, so the cache is bounded. */
NOINLINE static void page_cache_put(uint32_t number, struct page *page)
{
	struct page *old;

	pthread_mutex_lock(&pages_lock);
	old = pages[number];
	pages[number] = page;
	pthread_mutex_unlock(&pages_lock);
	page_free(old);
}

/* --- requests --- */

static uint64_t logged_bytes; /* this server's log is not written anywhere */

struct request {
	char *line;
	char **headers;
	size_t n_headers;
	uint32_t user, page;
	bool login;
};

NOINLINE static struct request *parse_request(uint32_t number)
{
	struct request *request = must(calloc(1, sizeof(*request)));

	request->line = must(malloc(128));
	snprintf(request->line, 128, "GET /page/%" PRIu32 " HTTP/1.1", number);
	request->n_headers = 4 + number % 5;
	request->headers = must(malloc(request->n_headers * sizeof(char *)));
	for (size_t i = 0; i < request->n_headers; i++)
		request->headers[i] = must(strdup("Accept: text/html, application/xhtml+xml"));
	request->user = number * 7919u % USERS;
	request->page = number * 104729u % PAGES;
	request->login = number % 4 == 0;
	return request;
}

static void request_free(struct request *request)
{
	for (size_t i = 0; i < request->n_headers; i++)
		free(request->headers[i]);
	free(request->headers);
	free(request->line);
	free(request);
}

NOINLINE static void log_line(const struct request *request)
{
	char *line = must(malloc(256));

	snprintf(line, 256, "user %" PRIu32 " %s 200", request->user, request->line);
	__atomic_fetch_add(&logged_bytes, strlen(line), __ATOMIC_RELAXED);
	free(line);
}

NOINLINE static void handle_request(uint32_t number)
{
	struct request *request = parse_request(number);

	if (request->login || !session_cache_lookup(request->user))
		session_cache_insert(request->user);
	page_cache_put(request->page, render_page(request->page));
	log_line(request);
	request_free(request);
}

/* --- the server --- */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static uint32_t queue[QUEUE_SLOTS];
static size_t queue_head, queue_tail;
static bool stopping;
static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	signalled = sig;
}

NOINLINE static void *worker(void *arg)
{
	pthread_setname_np(pthread_self(), arg);
	for (;;) {
		uint32_t number;

		pthread_mutex_lock(&queue_lock);
		while (queue_head == queue_tail && !stopping)
			pthread_cond_wait(&queue_filled, &queue_lock);
		if (queue_head == queue_tail) {
			pthread_mutex_unlock(&queue_lock);
			return NULL;
		}
		number = queue[queue_tail++ % QUEUE_SLOTS];
		pthread_mutex_unlock(&queue_lock);
		handle_request(number);
	}
}

static void accept_request(uint32_t number)
{
	pthread_mutex_lock(&queue_lock);
	if (queue_head - queue_tail < QUEUE_SLOTS) /* a full queue turns clients away */
		queue[queue_head++ % QUEUE_SLOTS] = number;
	pthread_cond_signal(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Only a pipe or socket can close. If stdin is a terminal or a file, returns false. */
static bool stdin_closed(void)
{
	struct pollfd pfd = {.fd = STDIN_FILENO};
	struct stat st;

	if (fstat(STDIN_FILENO, &st) || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)))
		return false;
	return poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLHUP);
}

/* Accepts requests until stopped, and ends at most 10 ms later. */
static void serve(double rate, double seconds)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	double begin = now(), elapsed = 0;
	uint32_t accepted = 0;

	while (!signalled && !stdin_closed() && (seconds <= 0 || elapsed < seconds)) {
		while (accepted < elapsed * rate)
			accept_request(accepted++);
		nanosleep(&pause, NULL);
		elapsed = now() - begin;
	}
}

int main(int argc, char **argv)
{
	static char names[WORKERS][16];
	struct sigaction action = {.sa_handler = on_signal};
	double rate = 2000, seconds = 0;
	pthread_t threads[WORKERS];
	bool truth = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--rate") && i + 1 < argc) {
			rate = atof(argv[++i]);
		} else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
			seconds = atof(argv[++i]);
		} else if (!strcmp(argv[i], "--truth")) {
			truth = true;
		} else {
			fputs("usage: leaky [--rate N] [--seconds S] [--truth]\n", stderr);
			return 2;
		}
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	for (int i = 0; i < WORKERS; i++) {
		snprintf(names[i], sizeof(names[i]), "worker-%d", i + 1);
		errno = pthread_create(&threads[i], NULL, worker, names[i]);
		if (errno) {
			perror("leaky: pthread_create");
			return 1;
		}
	}

	serve(rate, seconds);

	pthread_mutex_lock(&queue_lock);
	stopping = true;
	pthread_cond_broadcast(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	if (truth)
		printf("{\"leaked\": {\"session_cache_insert\": {\"live_bytes\": %" PRIu64
		       ", \"live_objects\": %" PRIu64 "}}, \"logged_bytes\": %" PRIu64 "}\n",
		       leaked_bytes, leaked_objects, logged_bytes);
	return 0;
}
