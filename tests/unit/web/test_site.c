// SPDX-License-Identifier: BSD-2-Clause
/* The server's store and its answers, without the HTTP library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/encode/fixture.h"
#include "tests/unit/web/exposition.h"
#include "web/intake.h"
#include "web/reply.h"

#define START_NS 1700000000000000000u

static struct site site;

/* Completes a profile of pid and gives it to the store, as if from the tracer. Returns the store's
 * result. */
static int come_as_it_may(struct profile *profile, pid_t pid, const char *comm, uint64_t start_ns,
			  int seconds)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err;

	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	if (!profile->exe)
		profile->exe = strdup("/usr/bin/leaky");
	profile->start_unix_ns = start_ns;
	profile->duration_s = seconds;
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	return store__add(&site.store, pid, start_ns + (uint64_t)seconds, text.bytes, text.len,
			  &err);
}

static void come_with(struct profile *profile, pid_t pid, const char *comm, uint64_t start_ns,
		      int seconds)
{
	assert_int_equal(come_as_it_may(profile, pid, comm, start_ns, seconds), 0);
}

/* A profile of pid with n blocks comes from the tracer. */
static void come(pid_t pid, const char *comm, uint64_t start_ns, int n)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 100, n, "malloc", "keep<T>", "main");
	come_with(profile, pid, comm, start_ns, n);
}

static enum profile_mode mode; /* mode of the profiles that come_nth() makes */

static int begin(void **state)
{
	(void)state;
	memset(&site, 0, sizeof(site));
	site.begin_s = clock__monotonic_s();
	site.round.every_s = 15;
	mode = MODE_CONTINUOUS;
	return 0;
}

static int end(void **state)
{
	(void)state;
	store__clear(&site.store);
	return 0;
}

#define STEP_NS (15 * 1000000000ull)

/* The n-th profile of pid comes, a step after the previous one. Its two stacks hold `first` and
 * `second` blocks of 100 bytes, each allocated by a thread of its own. */
static void come_nth(pid_t pid, int n, const char *const threads[2], int first, int second)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err;
	size_t thread;

	STACK(profile, 1, 100, first, "malloc", "hold", "main");
	STACK(profile, 2, 100, second, "malloc", "leak", "main");
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(profile__add_thread(profile, i + 1, threads[i], &thread), 0);
	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "leaky");
	profile->exe = strdup("/usr/bin/leaky");
	profile->start_unix_ns = START_NS;
	profile->duration_s = 15.0 * n;
	profile->mode = mode;
	profile->windows.n = mode == MODE_WINDOWED ? 30 : 0;
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	assert_int_equal(store__add(&site.store, pid, START_NS + (uint64_t)n * STEP_NS, text.bytes,
				    text.len, &err),
			 0);
}

/* A message comes from the tracer. memory: a file that comes with it; -1: none. */
static void tell_with(const struct feed_message *message, int memory)
{
	int pair[2];

	assert_int_equal(feed__pair(pair), 0);
	assert_int_equal(feed__send(pair[0], message, memory), 0);
	assert_true(site__take_feed(&site, pair[1]));
	close(pair[0]);
	close(pair[1]);
}

static void tell(const struct feed_message *message)
{
	tell_with(message, -1);
}

/* The tracer ends a round. pid: the process that has more windows from step `from` on, for 40
 * steps; 0: none. */
static void end_round(pid_t pid, int from, uint32_t most)
{
	struct feed_message round = {.kind = FEED_ROUND,
				     .complete = 1,
				     .most_favoured = most,
				     .kernel_bytes = 38000000,
				     .n_probes = 16};

	if (pid) {
		round.n_favoured = 1;
		round.favoured[0].pid = pid;
		round.favoured[0].from_ns = START_NS + (uint64_t)from * STEP_NS;
		round.favoured[0].until_ns = START_NS + (uint64_t)(from + 40) * STEP_NS;
		round.n_favours = 3;
		round.n_favours_refused = 5;
	}
	tell(&round);
}

static const char *arguments; /* "name=value" */
static const char *accepted;

static const char *argument(void *ctx, const char *name)
{
	size_t len = strlen(name);

	(void)ctx;
	return arguments && !strncmp(arguments, name, len) && arguments[len] == '='
		       ? arguments + len + 1
		       : NULL;
}

static char *ask_with(const char *path, const char *query, const char *body, unsigned status)
{
	struct request request = {.post = body,
				  .path = path,
				  .argument = argument,
				  .host = "localhost:9178",
				  .accept = accepted,
				  .body = body ?: ""};
	struct reply reply = {};

	arguments = query;
	site__answer(&site, &request, &reply);
	if (reply.status != status)
		fail_msg("%s: %u instead of %u: %s", path, reply.status, status, reply.body);
	assert_non_null(reply.body);
	reply.body = realloc(reply.body, reply.size + 1);
	reply.body[reply.size] = '\0';
	return reply.body;
}

static void assert_says(const char *path, const char *query, const char *body, unsigned status,
			const char *part)
{
	char *text = ask_with(path, query, body, status);

	assert_has(text, part);
	free(text);
}

static const char *file_of(const char *path)
{
	const struct request request = {.path = path, .argument = argument, .body = ""};
	struct reply reply = {};

	arguments = NULL;
	site__answer(&site, &request, &reply);
	assert_int_equal(reply.status, 200);
	free(reply.body);
	return reply.file;
}

static void snapshots_are_kept_within_bounds(void **state)
{
	const struct process *p;

	(void)state;
	for (int n = 1; n <= STORE_KEPT + 3; n++)
		come(7, "leaky", START_NS, n);
	p = store__find(&site.store, 7);
	assert_non_null(p);
	assert_int_equal(p->n_kept, STORE_KEPT);
	assert_int_equal(process__snapshot(p, 0)->id, STORE_KEPT + 3);
	assert_int_equal(process__snapshot(p, 4)->id, 4);
	assert_null(process__snapshot(p, 3));
	assert_null(store__find(&site.store, 8));
	/* the pid is another process's now */
	come(7, "other", START_NS + 5000000000u, 1);
	p = store__find(&site.store, 7);
	assert_int_equal(p->n_kept, 1);
	assert_string_equal(p->latest->comm, "other");
	assert_int_equal(site.store.bytes, process__snapshot(p, 0)->size);
}

static const struct profile *came_before;
static int n_came;

static void count_came(void *ctx, struct process *process, const struct profile *before)
{
	(void)ctx;
	assert_int_equal(process->pid, 7);
	came_before = before;
	n_came++;
}

/* The tracer sends no profile of a process that rests. The process does not count as ended, and no
 * snapshot is added. */
static void a_profile_that_holds_is_of_now(void **state)
{
	const struct process *p;

	(void)state;
	come(7, "quiet", START_NS, 1);
	come(8, "gone", START_NS, 1);
	store__end_round(&site.store, true);
	n_came = 0;
	site.store.came = count_came;
	store__hold(&site.store, 7, START_NS + 15000000000u);
	store__hold(&site.store, 9, START_NS + 15000000000u); /* there is no such process */
	store__end_round(&site.store, true);
	p = store__find(&site.store, 7);
	assert_false(p->ended);
	assert_true(store__find(&site.store, 8)->ended);
	assert_int_equal(p->n_kept, 1);
	assert_int_equal(p->taken_ns, START_NS + 15000000000u);
	assert_int_equal(p->before_ns, START_NS + 1);
	assert_int_equal(n_came, 1);
	assert_ptr_equal(came_before, p->latest);
}

static void what_cannot_be_read_is_counted(void **state)
{
	struct error err = {};

	(void)state;
	assert_true(store__add(&site.store, 7, START_NS, strdup("no profile"), 10, &err) < 0);
	assert_int_equal(site.store.n_unreadable, 1);
	assert_int_equal(site.store.n, 0);
}

static void processes_that_end_stay_for_a_while(void **state)
{
	(void)state;
	for (pid_t pid = 1; pid <= STORE_ENDED + 2; pid++)
		come(pid, "leaky", START_NS, 1);
	store__end_round(&site.store, true);
	assert_false(store__find(&site.store, 1)->ended);
	come(1, "leaky", START_NS, 2);
	store__end_round(&site.store, true);
	assert_false(store__find(&site.store, 1)->ended);
	assert_int_equal(site.store.n, STORE_ENDED + 1);
	assert_true(store__find(&site.store, STORE_ENDED + 2)->ended);
	assert_says("/", NULL, NULL, 200, "(ended)");
}

static void die(pid_t pid, uint32_t sig, bool out_of_memory, int seconds)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 100, 1, "malloc", "keep<T>", "main");
	profile->ended = true;
	profile->killed_by_signal = sig;
	profile->out_of_memory = out_of_memory;
	come_with(profile, pid, "<i>", START_NS, seconds);
}

static void deaths_are_listed(void **state)
{
	char *text, *first, *second;

	(void)state;
	assert_says("/deaths", NULL, NULL, 200, "--spool");
	assert_says("/deaths", "format=json", NULL, 200, "\"deaths\":[]");
	come(6, "lives", START_NS, 1);
	die(7, 9, true, 5);
	die(8, 11, false, 10);
	text = ask_with("/deaths", NULL, NULL, 200);
	first = strstr(text, "SIGSEGV");
	second = strstr(text, "out of memory");
	assert_true(first && second && first < second);
	assert_has(text, "2023-11-14 22:13:30");
	assert_has(text, "href=\"/pid/7/\"");
	assert_null(strstr(text, "<i>"));
	assert_null(strstr(text, "lives"));
	free(text);
	assert_says("/deaths", "format=json", NULL, 200, "\"out_of_memory\":true,\"signal\":9");
	/* ended processes do not count as traced, even before a round ends without naming them */
	for (int i = 0; i < 2; i++) {
		assert_true(store__find(&site.store, 7)->ended);
		assert_false(store__find(&site.store, 6)->ended);
		text = ask_with("/metrics", NULL, NULL, 200);
		assert_has(text, "memtrace_processes{group=\"lives\"} 1\n");
		assert_null(strstr(text, "group=\"<i>\""));
		free(text);
		store__end_round(&site.store, true);
	}
}

/* The interval of live bytes has no signs: only intervals of growth have signs. */
static void an_estimate_has_its_interval(void **state)
{
	struct profile *profile = new_profile(1024);
	char *text;

	(void)state;
	STACK(profile, 1, 100, 900, "malloc", "keep<T>", "main");
	come_with(profile, 7, "leaky", START_NS, 9);
	text = ask_with("/", NULL, NULL, 200);
	assert_has(text, " - ");
	assert_null(strchr(text, '+'));
	free(text);
}

/* If samples were missed, live memory has no upper limit. */
static void a_lower_bound_has_no_interval(void **state)
{
	struct profile *profile = new_profile(1024);
	char *text;

	(void)state;
	STACK(profile, 1, 100, 900, "malloc", "keep<T>", "main");
	assert_int_equal(profile__add_lost(profile, "result_unknown", 5), 0);
	come_with(profile, 7, "leaky", START_NS, 9);
	text = ask_with("/", NULL, NULL, 200);
	assert_has(text, "<td>&ge; ");

	assert_null(strstr(text, " - "));
	free(text);
	assert_says("/targets", NULL, NULL, 200, "\"live_bytes_high\":null,");
	text = ask_with("/metrics", NULL, NULL, 200);
	assert_has(text, "\nmemtrace_live_low_bytes{");
	assert_null(strstr(text, "\nmemtrace_live_high_bytes{"));
	free(text);
	/* the missed calls may also be frees */
	profile = new_profile(1024);
	STACK(profile, 1, 100, 900, "malloc", "keep<T>", "main");
	assert_int_equal(profile_run__note_lost(profile->run, "program_runs_missed", 1), 0);
	come_with(profile, 8, "other", START_NS, 9);
	text = ask_with("/", NULL, NULL, 200);
	assert_has(text, "<td>~ ");
	free(text);
}

/* The heap of a process limits the estimate of this process, but not the estimate of a group. */
static void a_group_may_hold_more_than_one_heap(void **state)
{
	(void)state;
	for (pid_t pid = 7; pid < 9; pid++) {
		struct profile *profile = new_profile(1 << 20);
		size_t stack = STACK(profile, 1, 64, 4, "malloc", "keep<T>", "main");

		profile->sites[stack].live.most = 6 << 20;
		come_with(profile, pid, "leaky", START_NS, 4);
	}
	store__end_round(&site.store, true);
	/* the upper end of a count of 8 is 15.8 samples of 1 MiB; 2 * 6 MiB limit it */
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_live_high_bytes{group=\"leaky\"} 12582912\n");
}

/* A sum over processes leaves out a process of which windows saw nothing. If there is no other
 * process, the upper end of the sum is not known. */
static void what_windows_did_not_see_is_left_out(void **state)
{
	(void)state;
	for (pid_t pid = 7; pid < 9; pid++) {
		struct profile *profile = new_profile(1 << 20);
		char *text;

		profile->mode = pid == 7 ? MODE_WINDOWED : MODE_CONTINUOUS;
		if (pid == 8)
			STACK(profile, 1, 64, 4, "malloc", "keep<T>", "main");
		come_with(profile, pid, "leaky", START_NS, 4);
		text = ask_with("/metrics", NULL, NULL, 200);
		assert_int_equal(strstr(text, "\nmemtrace_live_high_bytes{") != NULL, pid == 8);
		free(text);
	}
}

/* Losses of the whole run are in each profile, and count once. */
static void losses_are_added_up(void **state)
{
	(void)state;
	for (pid_t pid = 7; pid < 9; pid++) {
		struct profile *profile = new_profile(1);

		STACK(profile, 1, 100, 3, "malloc", "keep<T>", "main");
		assert_int_equal(profile__add_lost(profile, "live_full", 2), 0);
		assert_int_equal(profile_run__note_lost(profile->run, "probes_withdrawn", 5), 0);
		come_with(profile, pid, "leaky", START_NS, 3);
	}
	store__end_round(&site.store, true);
	assert_says("/metrics", NULL, NULL, 200, "memtrace_losses{cause=\"live_full\"} 4\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_losses{cause=\"probes_withdrawn\"} 5\n");
}

static void each_path_has_its_answer(void **state)
{
	(void)state;
	come(7, "leaky", START_NS, 3);
	come(7, "leaky", START_NS, 9);
	store__end_round(&site.store, true);
	site.news_at_s = clock__monotonic_s();
	assert_says("/", NULL, NULL, 200, "<a href=\"/pid/7/\">7</a>");
	/* no other stack is listed */
	assert_says("/", NULL, NULL, 200, "<td class=\"l\">no stack surely grows");
	assert_says("/targets", NULL, NULL, 200, "\"live_bytes\":900");
	assert_says("/sd", NULL, NULL, 200, "\"targets\":[\"localhost:9178\"]");
	assert_says("/healthz", NULL, NULL, 200, "ok");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_live_bytes{group=\"leaky\"} 900\n");
	assert_says("/metrics", NULL, NULL, 200, "# TYPE memtrace_rounds_total counter\n");
	accepted = "text/plain;q=0.5,application/openmetrics-text;version=1.0.0";
	assert_says("/metrics", NULL, NULL, 200, "# EOF\n");
	assert_says("/metrics", NULL, NULL, 200, "# TYPE memtrace_rounds counter\n");
	accepted = NULL;
	assert_says("/pid/7", NULL, NULL, 301, "/pid/7/");
	assert_says("/pid/7/", NULL, NULL, 200, "keep&lt;..&gt;");
	assert_says("/pid/7/flame.svg", NULL, NULL, 200, "<svg");
	assert_says("/pid/7/table", NULL, NULL, 200, "keep<..> < main");
	assert_says("/pid/7/collapsed", NULL, NULL, 200, "main;keep<T> 900\n");
	assert_says("/pid/7/profile.json", NULL, NULL, 200, "\"pid\":7");
	assert_says("/pid/7/snapshots", NULL, NULL, 200, "{\"id\": 2, ");
	assert_says("/pid/7/diff", NULL, NULL, 200, "600");
	assert_says("/pid/7/diff", "format=json", NULL, 200, "\"profiles\"");
	assert_says("/pid/7/pprof/heap", NULL, NULL, 200, "heap_v2/1\n");
	assert_says("/pid/7/pprof/cmdline", NULL, NULL, 200, "/usr/bin/leaky");
	assert_says("/pid/7/pprof/symbol", NULL, NULL, 200, "num_symbols: 1");
	assert_says("/pid/7/debug/pprof/heap", "debug=1", NULL, 200, "live heap");
	assert_says("/debug/pprof/heap", "pid=7", NULL, 200, "\x1f\x8b");
	assert_false(site.ask);
	assert_says("/pid/7/snapshot", NULL, "", 202, "2");
	assert_true(site.ask);
}

static void wrong_requests_are_told_so(void **state)
{
	(void)state;
	come(7, "leaky", START_NS, 1);
	/* as Go's handlers name them */
	assert_string_equal(file_of("/pid/7/debug/pprof/heap"), "heap");
	assert_string_equal(file_of("/pid/7/debug/pprof/allocs"), "allocs");
	assert_null(file_of("/pid/7/table"));
	assert_says("/nowhere", NULL, NULL, 404, "begin at /");
	assert_says("/pid/8/", NULL, NULL, 404, "no process 8");
	assert_says("/pid/x/", NULL, NULL, 400, "by its number");
	assert_says("/pid/", NULL, NULL, 400, "by its number");
	assert_says("/pid/4294967303/", NULL, NULL, 400, "by its number");
	assert_says("/pid/7/nothing", NULL, NULL, 404, "no such page");
	assert_says("/pid/7/table", NULL, "", 405, "POST");
	assert_says("/pid/7/snapshot", NULL, NULL, 405, "GET");
	assert_says("/pid/7/diff", "from=x", NULL, 400, "a number");
	assert_says("/pid/7/diff", "to=9", NULL, 404, "snapshot 9");
	assert_says("/pid/7/debug/pprof/heap", "seconds=0", NULL, 400, "1 to 300");
	assert_says("/pid/7/debug/pprof/heap", "seconds=301", NULL, 400, "1 to 300");
	assert_says("/pid/7/pprof/symbol", NULL, "0x12+zz", 400, "addresses");
	assert_says("/debug/pprof/heap", NULL, NULL, 400, "which process");
	assert_says("/stack/", NULL, NULL, 400, "hexadecimal");
	assert_says("/stack/12", NULL, NULL, 404, "no process");
	assert_says("/", NULL, "", 405, "POST");
	assert_int_equal(site.n_requests[4], 17);
}

/* Clients that take their answers slowly must not exhaust the memory. */
static void answers_that_nobody_takes_are_bounded(void **state)
{
	(void)state;
	come(7, "leaky", START_NS, 1);
	site.unsent = SITE_UNSENT - 100;
	assert_says("/pid/7/profile.json", NULL, NULL, 503, "other clients");
	assert_says("/healthz", NULL, NULL, 200, "ok\n");
	assert_int_equal(site.n_requests[5], 1);
	site.unsent = SITE_UNSENT + 10; /* short errors always find room */
	assert_says("/pid/7/profile.json", NULL, NULL, 503, "other clients");
	site.unsent = REPLY_BODY; /* the largest body */
	assert_says("/pid/7/profile.json", NULL, NULL, 200, "stacks");
}

/* Addresses as jeprof sends them: a return address less 1. */
static void names_of_addresses(void **state)
{
	const struct profile *profile;
	char body[64], part[256];

	(void)state;
	come(7, "leaky", START_NS, 1);
	profile = store__find(&site.store, 7)->latest;
	for (size_t i = 0; i < profile->n_locations; i++) {
		const char *name = profile->locations[i].frames[0].name;

		for (uint64_t before = 0; before < 2; before++) {
			snprintf(body, sizeof(body), "0x%" PRIx64,
				 profile->locations[i].addr - before);
			snprintf(part, sizeof(part), "%s\t%s\n", body, name);
			assert_says("/pid/7/pprof/symbol", NULL, body, 200, part);
		}
	}
	/* The first of the two addresses is the largest possible one, or one less. A loop over this
	 * address and the next one must end, even if a sum overflows. Only the second address is
	 * known. */
	snprintf(part, sizeof(part), "0x%" PRIx64 "\t", profile->locations[0].addr);
	for (int i = 0; i < 2; i++) {
		snprintf(body, sizeof(body), "0x%s+0x%" PRIx64,
			 i ? "ffffffffffffffff" : "fffffffffffffffe", profile->locations[0].addr);
		alarm(60);
		assert_says("/pid/7/pprof/symbol", NULL, body, 200, part);
		alarm(0);
	}
}

/* In the answer, two dashes separate the names of inlined functions. So a name must not contain two
 * dashes. */
static void dashes_within_a_name(void **state)
{
	struct profile *profile = new_profile(1);
	const struct profile *latest;
	char body[64];

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "x---y--", "main");
	come_with(profile, 7, "leaky", START_NS, 1);
	latest = store__find(&site.store, 7)->latest;
	for (size_t i = 0; i < latest->n_locations; i++) {
		if (strcmp(latest->locations[i].frames[0].name, "x---y--") != 0)
			continue;
		snprintf(body, sizeof(body), "0x%" PRIx64, latest->locations[i].addr);
		assert_says("/pid/7/pprof/symbol", NULL, body, 200, "\tx- - -y- -\n");
		return;
	}
	fail_msg("no such function");
}

/* A frame of Python has no address. heap_v2 gives it one, and jeprof asks for its name. */
static void names_of_python(void **state)
{
	struct profile *profile = new_profile(1);
	char *heap, *at, body[64];

	(void)state;
	add_python(profile, 0x7f0000005000, "app.load", 3);
	add_python(profile, 0x7f0000003000, "app.keep", 2);
	come_with(profile, 7, "python3", START_NS, 1);
	heap = ask_with("/pid/7/pprof/heap", NULL, NULL, 200);
	at = strstr(heap, "@ ");
	assert_non_null(at);
	snprintf(body, sizeof(body), "%.18s", at + 2);
	assert_says("/pid/7/pprof/symbol", NULL, body, 200, "\tapp.load\n");
	free(heap);
}

static void a_stack_has_one_number(void **state)
{
	char path[32], *metrics;
	const char *at;

	(void)state;
	come(7, "leaky", START_NS, 1);
	come(8, "leaky", START_NS, 2);
	metrics = ask_with("/metrics", NULL, NULL, 200);
	at = strstr(metrics, "stack=\"");
	assert_non_null(at);
	snprintf(path, sizeof(path), "/stack/%.16s", at + strlen("stack=\""));
	assert_says(path, NULL, NULL, 200, "leaky (7): main;keep<T>\n");
	assert_says(path, NULL, NULL, 200, "leaky (8): main;keep<T>\n");
	free(metrics);
}

/* Checks that metrics in both formats have Prometheus' form, with each series once. */
static void assert_metrics_are_read(void)
{
	for (int i = 0; i < 2; i++) {
		char *text;
		const char *fault;

		accepted = i ? "application/openmetrics-text" : NULL;
		text = ask_with("/metrics", NULL, NULL, 200);
		fault = exposition_fault(text);
		if (fault)
			fail_msg("metrics: %s", fault);
		free(text);
	}
	accepted = NULL;
}

static void one_may_be_left_alone(void **state)
{
	(void)state;
	come(7, "leaky", START_NS, 3);
	come(8, "leaky", START_NS, 1);
	store__end_round(&site.store, true);
	assert_says("/pid/7/activate", NULL, "", 200, "pid 7 is traced");
	assert_says("/pid/7/deactivate", NULL, "", 202, "pid 7 is not to be traced");
	assert_says("/pid/9/deactivate", NULL, "", 404, "no process 9");
	assert_says("/pid/9/activate", NULL, "", 404, "no process 9");
	assert_int_equal(site.n_wishes, 1);
	assert_int_equal(site.wishes[0].pid, 7);
	assert_int_equal(site.wishes[0].kind, FEED_DEACTIVATE);
	/* the tracer deactivates the process */
	store__leave(&site.store, 7, "");
	/* not traced since before this server began */
	store__leave(&site.store, 9, "<i>it is a \"32-bit\" program</i>");
	store__hold(&site.store, 8, START_NS + 5);
	store__end_round(&site.store, true);
	assert_says("/targets", NULL, NULL, 200, "\"active\":false");
	assert_says("/targets", NULL, NULL, 200, "{\"pid\":9,\"why\":\"<i>it is a \\\"32-bit");
	assert_says("/", NULL, NULL, 200, "not traced");
	assert_says("/pid/7/", NULL, NULL, 200, "action=\"activate\"");
	assert_says("/pid/8/", NULL, NULL, 200, "action=\"deactivate\"");
	assert_says("/pid/7/snapshot", NULL, "", 409, "POST /pid/7/activate");
	assert_says("/pid/7/debug/pprof/heap", "seconds=1", NULL, 409, "not traced");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_processes{group=\"leaky\"} 1\n");
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_processes_inactive{group=\"leaky\"} 1\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_live_bytes{group=\"leaky\"} 100\n");
	assert_metrics_are_read();
	assert_says("/pid/7/deactivate", NULL, "", 200, "pid 7 is not traced");
	accepted = "text/html,*/*";
	assert_says("/pid/7/activate", NULL, "", 303, "is to be traced again");
	accepted = NULL;
	assert_says("/pid/9/activate", NULL, "", 202, "pid 9 is to be traced again");
	assert_int_equal(site.n_wishes, 3);
	/* the activation of process 7 fails at first; when it is traced again, its snapshots begin
	 * anew, even if the start time is the same */
	store__leave(&site.store, 7, "<i>it is a \"32-bit\" program</i>");
	come(8, "leaky", START_NS, 2);
	store__end_round(&site.store, true);
	assert_says("/pid/7/", NULL, NULL, 200, "again: &lt;i&gt;it is a &quot;32-bit&quot;");
	assert_says("/pid/9/activate", NULL, "", 404, "no process 9"); /* process 9 has ended */
	assert_says("/targets", NULL, NULL, 200, "\"inactive\":[{\"pid\":7");
	come(7, "leaky", START_NS, 1);
	store__end_round(&site.store, true);
	assert_int_equal(store__find(&site.store, 7)->n_kept, 1);
	assert_null(store__inactive(&site.store, 7));
	while (site.n_wishes < SITE_WISHES)
		assert_says("/pid/7/deactivate", NULL, "", 202, "pid 7");
	assert_says("/pid/7/deactivate", NULL, "", 429, "wait");
}

/* As for two tenants of one server. */
static void receivers_with_one_url(void **state)
{
	static const char text[] = "otlp http://h\ntenant a\notlp http://h\ntenant b\n";

	(void)state;
	site.push = push__new(strdup(text), sizeof(text) - 1, START_NS);
	assert_non_null(site.push);
	assert_metrics_are_read();
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_push_queued{kind=\"otlp\",receiver=\"http://h\",number=\"2\"} 0\n");
	push__free(site.push);
}

/* Nobody knows how much memory the group has now, so metrics do not say 0. */
static void a_group_that_is_not_traced(void **state)
{
	struct profile *profile = new_profile(1);
	char *metrics;

	(void)state;
	STACK(profile, 1, 100, 5, "malloc", "keep", "main");
	assert_int_equal(profile__add_lost(profile, "live_full", 2), 0);
	assert_int_equal(profile_run__note_lost(profile->run, "probes_withdrawn", 5), 0);
	come_with(profile, 7, "alone", START_NS, 1);
	store__leave(&site.store, 7, "");
	metrics = ask_with("/metrics", NULL, NULL, 200);
	assert_has(metrics, "memtrace_processes_inactive{group=\"alone\"} 1\n");
	assert_has(metrics, "memtrace_processes{group=\"alone\"} 0\n");
	assert_null(strstr(metrics, "bytes{group=\"alone\""));
	assert_null(strstr(metrics, "live_full"));
	assert_has(metrics, "memtrace_losses{cause=\"probes_withdrawn\"} 5\n"); /* of the run */
	free(metrics);
}

/* A process that cannot be traced may hold any amount of memory, so no answer says 0. */
static void a_process_that_cannot_be_traced(void **state)
{
	struct profile *profile = new_profile(1);
	char *metrics;

	(void)state;
	profile->not_traced = "no allocator in <its> files";
	come_with(profile, 7, "static", START_NS, 1);
	metrics = ask_with("/metrics", NULL, NULL, 200);
	assert_has(metrics, "memtrace_processes_untraced{group=\"static\"} 1\n");
	assert_has(metrics, "memtrace_processes{group=\"static\"} 0\n");
	assert_null(strstr(metrics, "bytes{group=\"static\""));
	free(metrics);
	assert_metrics_are_read();
	assert_says("/targets", NULL, NULL, 200,
		    "\"not_traced\":\"no allocator in <its> files\",\"live_bytes\":null,"
		    "\"live_bytes_low\":null,\"live_bytes_high\":null");
	assert_says("/", NULL, NULL, 200, "not traced: no allocator in &lt;its&gt; files");
	assert_says("/", NULL, NULL, 200, "<td class=\"e\">not known</td>");
	assert_says("/pid/7/", NULL, NULL, 200,
		    "not known, the process is not traced: no allocator in &lt;its&gt; files");
}

/* A process's memory is not known either if the process became another program, or if it still
 * waits for a window. */
static void a_process_of_which_nothing_was_seen(void **state)
{
	struct profile *profile = new_profile(1);
	char *metrics;

	(void)state;
	assert_int_equal(profile__add_lost(profile, "exec_untraced", 1), 0);
	come_with(profile, 7, "exec", START_NS, 1);
	profile = new_profile(1);
	profile->mode = MODE_WINDOWED;
	come_with(profile, 8, "waits", START_NS, 1);
	metrics = ask_with("/metrics", NULL, NULL, 200);
	assert_has(metrics, "memtrace_processes{group=\"exec\"} 1\n");
	assert_has(metrics, "memtrace_processes_windowed{group=\"waits\"} 1\n");
	assert_null(strstr(metrics, "bytes{group=\"exec\""));
	assert_null(strstr(metrics, "bytes{group=\"waits\""));
	free(metrics);
	assert_metrics_are_read();
	assert_says("/targets", NULL, NULL, 200, "\"live_bytes\":null");
	assert_says("/", NULL, NULL, 200, "<td class=\"e\">not known</td>");
}

static void threads_of_one_name_are_a_pool(void **state)
{
	const char *const names[] = {"wor<ker-12", "wor<ker-7"}, *const others[] = {"42", "other"};

	(void)state;
	for (int n = 1; n < 10; n++)
		come_nth(7, n, names, 50, 10 * n);
	come_nth(8, 1, others, 3, 4);
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_pool_live_bytes{group=\"leaky\",pool=\"wor<ker-\"} 14000\n");
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_pool_live_bytes{group=\"leaky\",pool=\"other\"} 700\n");
	assert_says(
		"/metrics", NULL, NULL, 200,
		"memtrace_pool_growth_bytes_per_second{group=\"leaky\",pool=\"wor<ker-\"} 66.6");
	assert_metrics_are_read();
	for (pid_t pid = 100; pid < 120; pid++) { /* more groups than may have series */
		char name[2][16];
		const char *const many[] = {name[0], name[1]};

		snprintf(name[0], sizeof(name[0]), "a%c", 'a' + pid - 100);
		snprintf(name[1], sizeof(name[1]), "b%c", 'a' + pid - 100);
		come_nth(pid, 1, many, 1, 1);
	}
	assert_metrics_are_read();
	{
		char *metrics = ask_with("/metrics", NULL, NULL, 200);
		int n = 0;

		for (const char *at = metrics; (at = strstr(at, "\nmemtrace_pool_live_bytes{"));
		     at++)
			n++;
		assert_int_equal(n, 9);
		free(metrics);
	}
}

/* A process does not grow for a while, then grows, then does not grow again. */
static void a_rise_is_noted(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p;
	int n = 1, blocks = 100;

	(void)state;
	for (; n <= 30; n++)
		come_nth(7, n, names, 500, blocks);
	p = store__find(&site.store, 7);
	assert_false(p->leaks || p->rise.known);
	for (; !p->rise.known && n < 60; n++)
		come_nth(7, n, names, 500, blocks += 100);
	assert_in_range(n, 35, 46); /* five to fifteen profiles later */
	assert_true(p->leaks && p->rise.goes_on);
	assert_string_equal(p->rise.function, "leak");
	assert_int_equal(p->rise.onset.ns, START_NS + 30 * STEP_NS);
	assert_false(p->rise.onset.earlier);
	assert_int_equal(process__snapshot(p, p->rise.before)->taken_ns, START_NS + 30 * STEP_NS);
	assert_says("/targets", NULL, NULL, 200, "\"function\":\"leak\"");
	assert_says("/pid/7/", NULL, NULL, 200, "It surely grows, in leak: ");
	assert_says("/", NULL, NULL, 200, "recently: leak +");
	assert_says("/metrics", NULL, NULL, 200,
		    "memtrace_growth_low_bytes_per_second{group=\"leaky\"}");
	for (int i = 0; i < 60; i++, n++) /* the rise lasts longer than snapshots are stored */
		come_nth(7, n, names, 500, blocks += 100);
	assert_true(p->rise.goes_on);
	assert_int_equal(p->n_kept, STORE_KEPT);
	assert_int_equal(p->n_pinned, 2);
	assert_non_null(process__snapshot(p, p->rise.before));
	assert_non_null(process__snapshot(p, p->rise.at));
	for (int i = 0; i < 2; i++) {
		char id[32];

		snprintf(id, sizeof(id), "{\"id\": %u,", i ? p->rise.at : p->rise.before);
		assert_says("/pid/7/snapshots", NULL, NULL, 200, id);
	}
	for (int i = 0; i < 3 * STORE_KEPT; i++, n++)
		come_nth(7, n, names, 500, blocks);
	assert_true(p->rise.known && !p->rise.goes_on && p->rise.ended_ns);
	assert_says("/pid/7/", NULL, NULL, 200, "It grew, in leak: ");
}

/* A process grows, and then rests: the tracer says that its newest profile is still right. */
static void a_rise_ends_while_the_process_rests(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p = NULL;
	int n = 1, blocks = 100;

	(void)state;
	for (; n < 60 && !(p && p->rise.known); n++) {
		come_nth(7, n, names, 500, blocks += n > 30 ? 100 : 0);
		p = store__find(&site.store, 7);
	}
	assert_true(p->rise.known && p->leaks);
	for (int i = 0; i < 100 && p->leaks; i++, n++)
		store__hold(&site.store, 7, START_NS + (uint64_t)n * STEP_NS);
	assert_false(p->leaks);
	assert_true(p->rise.goes_on); /* it may grow again */
	for (int i = 0; i < STORE_KEPT; i++, n++)
		store__hold(&site.store, 7, START_NS + (uint64_t)n * STEP_NS);
	assert_false(p->rise.goes_on);
	assert_true(p->rise.ended_ns > 0);
	assert_says("/pid/7/", NULL, NULL, 200, "It grew, in leak: ");
}

/* A profile of this many bytes comes, as a file of jemalloc's format. */
static int come_large(pid_t pid, size_t bytes)
{
	const char begin_text[] =
		"heap_v2/1\n  t*: 1: 100 [0: 0]\n@ 0x401000\n  t*: 1: 100 [0: 0]\n\n"
		"MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 1 /";
	char *file = malloc(bytes);
	struct error err = {};
	int rc;

	assert_non_null(file);
	memset(file, 'x', bytes);
	memcpy(file, begin_text, strlen(begin_text));
	file[bytes - 1] = '\n';
	rc = store__add(&site.store, pid, START_NS + (uint64_t)pid, file, bytes, &err);
	if (rc && rc != -ENOSPC)
		fail_msg("%s", err.text);
	return rc;
}

/* A process is killed while it grows, for example by the OOM killer. It surely grows no more, and
 * gets no more windows. */
static void a_rise_ends_with_its_process(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p = NULL;
	int n = 1, blocks = 100;

	(void)state;
	mode = MODE_WINDOWED;
	for (; n < 60 && !(p && p->rise.known); n++) {
		come_nth(7, n, names, 500, blocks += n > 30 ? 100 : 0);
		p = store__find(&site.store, 7);
		end_round(0, 0, 4);
	}
	assert_true(p->rise.goes_on && p->rise.more == MORE_WAITING);
	end_round(0, 0, 4); /* in this round nobody named it */
	assert_true(p->ended && !p->rise.goes_on && p->rise.more == MORE_NONE);
	assert_int_equal(p->rise.ended_ns, p->taken_ns);
	assert_says("/pid/7/", NULL, NULL, 200, "It grew, in leak: ");
}

/* Growth is judged by the memory that a process held. This stays known when old snapshots of the
 * process are deleted to make room. */
static void history_outlives_snapshots(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p;

	(void)state;
	for (int n = 1; n <= 10; n++)
		come_nth(7, n, names, 500, 100 * n);
	p = store__find(&site.store, 7);
	assert_int_equal(p->n_kept, 10);
	assert_int_equal(come_large(100, STORE_BYTES - 1000), 0);
	assert_int_equal(p->n_kept, 1);
	assert_int_equal(p->n_moments, 10);
}

/* Processes that have ended make room in a full table. */
static void who_ended_makes_room_in_the_table(void **state)
{
	(void)state;
	for (pid_t pid = 1; pid <= STORE_PROCESSES; pid++)
		come(pid, "leaky", START_NS, 1);
	assert_int_equal(site.store.n, STORE_PROCESSES);
	store__end_round(&site.store, true);
	for (pid_t pid = 2; pid <= STORE_PROCESSES; pid++)
		store__hold(&site.store, pid, START_NS + 15000000000u);
	store__end_round(&site.store, true);
	assert_true(store__find(&site.store, 1)->ended);
	come(STORE_PROCESSES + 1, "new", START_NS, 1);
	assert_int_equal(site.store.n_refused, 0);
	assert_null(store__find(&site.store, 1));
}

/* After a restart of memtrace-web, counters of the tracer must not seem to begin at 0 again. */
static void the_tracer_is_told_once_it_is_known(void **state)
{
	char *text;

	(void)state;
	text = ask_with("/metrics", NULL, NULL, 200);
	assert_null(strstr(text, "memtrace_tracer_"));
	assert_null(strstr(text, "memtrace_spool_"));
	assert_null(strstr(text, "server_slow"));
	assert_has(text, "memtrace_profiles_lost_total{cause=\"no_room\"} 0\n");
	assert_has(text, "memtrace_rounds_total 0\n");
	free(text);
	end_round(0, 0, 0);
	assert_says("/metrics", NULL, NULL, 200, "memtrace_tracer_probes 16\n");
	assert_says("/metrics", NULL, NULL, 200, "cause=\"server_slow\"} 0\n");
	tell(&(struct feed_message){.kind = FEED_ROUND}); /* the round failed */
	assert_says("/metrics", NULL, NULL, 200, "memtrace_rounds_incomplete_total 1\n");
	assert_metrics_are_read();
}

/* A process may end before its program's name is read. */
static void a_process_without_a_program(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	profile->exe = strdup("");
	come_with(profile, 7, "gone", START_NS, 1);
	assert_says("/pid/7/pprof/cmdline", NULL, NULL, 200, "?");
	assert_says("/pid/7/", NULL, NULL, 200, "gone");
}

/* A process that is traced in windows gets more windows when it begins to grow. */
static void who_grows_gets_more_windows(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p;
	int n = 1, blocks = 100, from;
	unsigned last;

	(void)state;
	mode = MODE_WINDOWED;
	for (; n <= 30; n++)
		come_nth(7, n, names, 500, blocks);
	p = store__find(&site.store, 7);
	end_round(0, 0, FEED_FAVOURED);
	assert_int_equal(site.n_wishes, 0);
	for (; !p->rise.known && n < 60; n++)
		come_nth(7, n, names, 500, blocks += 100);
	end_round(0, 0, 0); /* more windows are switched off */
	assert_int_equal(site.n_wishes, 0);
	assert_says("/targets", NULL, NULL, 200, "\"more_windows\":\"none\"");
	store__hold(&site.store, 7, p->taken_ns);
	end_round(0, 0, FEED_FAVOURED);
	assert_int_equal(site.n_wishes, 1);
	assert_int_equal(site.wishes[0].kind, FEED_FAVOUR);
	assert_int_equal(site.wishes[0].pid, 7);
	assert_says("/targets", NULL, NULL, 200, "\"more_windows\":\"waiting\"");
	assert_says("/pid/7/", NULL, NULL, 200, "It waits for more windows than others have");
	site.n_wishes = 0;
	come_nth(7, n++, names, 500, blocks += 100);
	end_round(0, 0, FEED_FAVOURED); /* others have more windows, so the server asks again */
	assert_int_equal(site.n_wishes, 1);
	site.n_wishes = 0;
	from = n;
	for (int i = 0; i < 40; i++) {
		come_nth(7, n++, names, 500, blocks += 100);
		end_round(7, from, FEED_FAVOURED);
		assert_int_equal(p->rise.detailed, i ? process__snapshot(p, 0)->id : 0);
	}
	assert_int_equal(site.n_wishes, 0);
	assert_says("/targets", NULL, NULL, 200, "\"more_windows\":\"now\"");
	assert_says("/", NULL, NULL, 200, "<td>more windows</td>");
	assert_says("/pid/7/", NULL, NULL, 200,
		    "it has more windows than others until 2023-11-14 ");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_processes_with_more_windows 1\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_more_windows_total 3\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_more_windows_refused_total 5\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_windows{group=\"leaky\"} 30\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_tracer_kernel_bytes 38000000\n");
	assert_says("/metrics", NULL, NULL, 200, "memtrace_tracer_probes 16\n");
	assert_metrics_are_read();
	come_nth(7, n++, names, 500, blocks += 100);
	end_round(0, 0, FEED_FAVOURED);
	last = p->rise.detailed;
	assert_int_equal(last, process__snapshot(p, 0)->id);
	assert_says("/targets", NULL, NULL, 200, "\"more_windows\":\"over\"");
	for (int i = 0; i < 2 * STORE_KEPT; i++) {
		come_nth(7, n++, names, 500, blocks += 100);
		end_round(0, 0, FEED_FAVOURED);
	}
	assert_int_equal(site.n_wishes, 0); /* the server asks once for each rise */
	assert_int_equal(p->n_pinned, 3);   /* stored longer than others, to be compared */
	assert_non_null(process__snapshot(p, p->rise.before));
	assert_non_null(process__snapshot(p, p->rise.at));
	assert_non_null(process__snapshot(p, last));
	assert_int_equal(p->rise.detailed, last);
}

/* The server asks for no windows if every call is seen anyway, or if the process has ended. */
static void who_has_all_gets_no_more(void **state)
{
	const char *const names[] = {"one", "two"};
	const struct process *p;
	int n = 1;

	(void)state;
	for (; n <= 30; n++)
		come_nth(7, n, names, 500, 100 * n);
	p = store__find(&site.store, 7);
	assert_true(p->rise.goes_on);
	end_round(0, 0, FEED_FAVOURED);
	assert_int_equal(site.n_wishes, 0);
	mode = MODE_WINDOWED;
	end_round(0, 0, FEED_FAVOURED); /* there is no profile, so the process has ended */
	assert_true(p->ended);
	assert_int_equal(site.n_wishes, 0);
}

/* If there are more names than groups, the rest is one group. */
static void groups_are_bounded(void **state)
{
	char name[32], *metrics;
	int n = 0;

	(void)state;
	for (pid_t pid = 1; pid <= 150; pid++) {
		snprintf(name, sizeof(name), "name-%d", pid);
		come(pid, name, START_NS, pid);
	}
	metrics = ask_with("/metrics", NULL, NULL, 200);
	for (const char *at = metrics; (at = strstr(at, "\nmemtrace_live_bytes{")); at++)
		n++;
	assert_int_equal(n, 101);
	assert_has(metrics, "memtrace_processes{group=\"other\"} 50\n");
	assert_has(metrics,
		   "memtrace_live_bytes{group=\"name-150\"} 15000\n"); /* those that hold most */
	free(metrics);
}

#define HOSTILE "<x y='z'>\"\\\n\x1b[2J\xff&{}#"

/* The name of a command, of a file and of functions is chosen by the target. */
static void names_stay_text(void **state)
{
	const char *paths[] = {"/", "/pid/7/", "/pid/7/flame.svg"};
	struct profile *profile = new_profile(1);

	(void)state;
	profile->exe = strdup("/tmp/" HOSTILE "</pre><script>alert(1)</script>");
	STACK(profile, 1, 100, 3, "malloc", HOSTILE "</pre><script>", HOSTILE);
	come_with(profile, 7, HOSTILE, START_NS, 3);
	assert_says("/", NULL, NULL, 200, "&lt;x y=&#39;z&#39;&gt;&quot;\\?");
	assert_says("/metrics", NULL, NULL, 200, "{group=\"<x y='z'>\\\"\\\\??[2J?&{}#\"}");
	assert_says("/targets", NULL, NULL, 200, "\"comm\":\"<x y='z'>\\\"\\\\??[2J?&{}#\"");
	assert_says("/targets", NULL, NULL, 200, "\"exe\":\"/tmp/<x y='z'>\\\"\\\\??[2J?&");
	assert_says("/sd", NULL, NULL, 200, "\"comm\":\"<x y='z'>\\\"\\\\??[2J?&{}#\"");
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		char *text = ask_with(paths[i], NULL, NULL, 200);

		assert_has(text, "&lt;x y=");
		assert_null(strstr(text, "<x"));
		assert_null(strstr(text, "<script>alert"));
		assert_null(strstr(text, "</pre>&lt;script"));
		assert_null(strstr(text, "\x1b"));
		assert_null(strstr(text, "\xff"));
		free(text);
	}
	assert_metrics_are_read();
}

/* The host name that a client sends is in the discovery's JSON, and cannot end its string. */
static void a_host_stays_text(void **state)
{
	struct request request = {
		.path = "/sd", .argument = argument, .host = "x\"], \"labels\": {\n\\", .body = ""};
	struct reply reply = {};

	(void)state;
	come(7, "leaky", START_NS, 1);
	arguments = NULL;
	site__answer(&site, &request, &reply);
	reply.body = realloc(reply.body, reply.size + 1);
	reply.body[reply.size] = '\0';
	assert_has(reply.body, "\"targets\":[\"x\\\"], \\\"labels\\\": {");
	free(reply.body);
}

/* Two lines of a function are two sites, but one stack. Commands whose names differ only in bytes
 * that cannot be printed are one group. */
static void series_are_there_once(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 3, "malloc", "twice\1", "main");
	STACK(profile, 1, 100, 2, "malloc", "twice\2", "main");
	come_with(profile, 7, "leaky\1", START_NS, 3);
	come(8, "leaky\2", START_NS, 1);
	assert_says("/metrics", NULL, NULL, 200, "memtrace_live_bytes{group=\"leaky?\"} 600\n");
	assert_says("/metrics", NULL, NULL, 200, "function=\"twice?\"} 500\n");
	assert_metrics_are_read();
}

/* Snapshots have a bound of bytes even if there are many processes without an older snapshot. */
static void snapshots_have_a_bound_of_bytes(void **state)
{
	const size_t quarter = STORE_BYTES / 4, slack = 50;
	struct profile *many;
	const struct process *p;
	uint64_t evicted, taken_ns;

	(void)state;
	come(7, "leaky", START_NS, 1);
	for (pid_t pid = 1; pid <= 3; pid++)
		assert_int_equal(come_large(pid, quarter), 0);
	assert_int_equal(come_large(4, STORE_BYTES - site.store.bytes - slack), 0);
	store__end_round(&site.store, true);
	assert_int_equal(site.store.n_evicted, 0);
	/* the next snapshot replaces an older one of the same process */
	come(7, "leaky", START_NS, 2);
	p = store__find(&site.store, 7);
	assert_int_equal(p->n_kept, 1);
	assert_int_equal(p->kept[0].id, 2);
	assert_int_equal(site.store.n_evicted, 1);
	/* if there is still no room, the old snapshot stays. The process does not count as
	 * ended. */
	many = new_profile(1);
	many->pid = 7;
	many->exe = strdup("/usr/bin/leaky");
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		STACK(many, 1, 100, 1, "malloc", name, "main");
	}
	assert_int_equal(come_as_it_may(many, 7, "leaky", START_NS, 3), -ENOSPC);
	assert_int_equal(p->kept[0].id, 2);
	assert_int_equal(site.store.n_evicted, 2);
	assert_says("/metrics", NULL, NULL, 200, "memtrace_processes_outdated 1\n");
	assert_says("/pid/7/", NULL, NULL, 200, "These figures are old");
	/* The tracer says that nothing has changed since its last profile. The store has no such
	 * profile, because there was no room. */
	taken_ns = p->taken_ns;
	store__hold(&site.store, 7, taken_ns + 1000000000);
	assert_int_equal(p->taken_ns, taken_ns);
	assert_int_equal(come_large(5, quarter), -ENOSPC);
	store__end_round(&site.store, true);
	assert_false(store__find(&site.store, 7)->ended);
	assert_true(store__find(&site.store, 4)->ended);
	assert_int_equal(site.store.n, 5);
	assert_true(site.store.bytes <= STORE_BYTES);
	/* processes that have ended are removed to make room, and their snapshots are counted */
	evicted = site.store.n_evicted;
	assert_int_equal(come_large(5, quarter), 0);
	assert_int_equal(site.store.n, 5);
	assert_int_equal(site.store.n_evicted, evicted + 1);
	assert_true(site.store.bytes <= STORE_BYTES);
}

/* The answer for many addresses with long names is bounded. */
static void an_answer_is_bounded(void **state)
{
	const size_t name_bytes = 5000, n = 20000;
	struct profile *profile = new_profile(1);
	char *name = malloc(name_bytes + 1), *body = malloc(n * 20 + 1);
	uint64_t addr;
	size_t len = 0;

	(void)state;
	memset(name, 'n', name_bytes);
	name[name_bytes] = '\0';
	STACK(profile, 1, 100, 1, "malloc", name, "main");
	come_with(profile, 7, "leaky", START_NS, 3);
	profile = store__find(&site.store, 7)->latest;
	addr = profile->locations[0].addr;
	for (size_t i = 0; i < profile->n_locations; i++)
		if (strlen(profile->locations[i].frames[0].name) > 1000)
			addr = profile->locations[i].addr;
	for (size_t i = 0; i < n; i++)
		len += (size_t)sprintf(body + len, "%" PRIx64 "+", addr);
	assert_says("/pid/7/pprof/symbol", NULL, body, 500, "larger than 64 MiB");
	free(name);
	free(body);
}

static void silence_is_told(void **state)
{
	(void)state;
	site.begin_s -= 100;
	assert_says("/healthz", NULL, NULL, 503, "no profiles for 100 s");
	tell(&(struct feed_message){.kind = FEED_ROUND, .every_s = 15}); /* the round failed */
	assert_says("/healthz", NULL, NULL, 503, "no profiles for ");
	/* a process that is left alone is named in each round, even if all rounds fail */
	tell(&(struct feed_message){.kind = FEED_INACTIVE, .pid = 8});
	assert_says("/healthz", NULL, NULL, 503, "no profiles for ");
	tell(&(struct feed_message){.kind = FEED_SAME, .pid = 7});
	assert_says("/healthz", NULL, NULL, 200, "ok");
	site.news_at_s -= 100;
	assert_says("/healthz", NULL, NULL, 503, "no profiles for 100 s");
	end_round(0, 0, 0); /* no process is traced */
	assert_says("/healthz", NULL, NULL, 200, "ok");
}

/* In a round that failed or arrived in part, a process that is not named may live. */
static void an_incomplete_round_ends_nobody(void **state)
{
	const struct feed_message incomplete = {.kind = FEED_ROUND};

	(void)state;
	come(7, "leaky", START_NS, 9);
	come(8, "other", START_NS, 9);
	store__leave(&site.store, 9, "");
	end_round(0, 0, 0);
	tell(&incomplete);
	assert_false(store__find(&site.store, 7)->ended);
	assert_non_null(store__inactive(&site.store, 9));
	tell(&(struct feed_message){.kind = FEED_SAME, .pid = 8});
	tell(&incomplete);
	assert_false(store__find(&site.store, 7)->ended);
	assert_false(store__find(&site.store, 8)->ended);
	tell(&(struct feed_message){.kind = FEED_SAME, .pid = 7});
	end_round(0, 0, 0);
	assert_false(store__find(&site.store, 7)->ended);
	assert_true(store__find(&site.store, 8)->ended);
	assert_null(store__inactive(&site.store, 9));
	tell(&incomplete);
	assert_true(store__find(&site.store, 8)->ended);
}

/* A process whose profile was lost on the way, or could not be read, does not count as ended. */
static void who_is_left_out_lives(void **state)
{
	const struct feed_message left_out = {.kind = FEED_LEFT_OUT, .pid = 7};
	int empty = memfd_create("empty", MFD_CLOEXEC);

	(void)state;
	come(7, "leaky", START_NS, 9);
	come(8, "other", START_NS, 9);
	end_round(0, 0, 0);
	tell(&left_out);
	tell_with(&(struct feed_message){.kind = FEED_PROFILE, .pid = 8}, empty);
	end_round(0, 0, 0);
	for (int pid = 7; pid <= 8; pid++) {
		assert_false(store__find(&site.store, pid)->ended);
		assert_true(store__find(&site.store, pid)->outdated);
	}
	assert_int_equal(site.store.n_unreadable, 1);
	tell(&left_out);
	end_round(0, 0, 0);
	assert_false(store__find(&site.store, 7)->ended);
	assert_true(store__find(&site.store, 8)->ended);
	close(empty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_is_left_out_lives, begin, end),
		cmocka_unit_test_setup_teardown(snapshots_are_kept_within_bounds, begin, end),
		cmocka_unit_test_setup_teardown(a_profile_that_holds_is_of_now, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(processes_that_end_stay_for_a_while, begin, end),
		cmocka_unit_test_setup_teardown(deaths_are_listed, begin, end),
		cmocka_unit_test_setup_teardown(an_estimate_has_its_interval, begin, end),
		cmocka_unit_test_setup_teardown(a_group_may_hold_more_than_one_heap, begin, end),
		cmocka_unit_test_setup_teardown(what_windows_did_not_see_is_left_out, begin, end),
		cmocka_unit_test_setup_teardown(a_lower_bound_has_no_interval, begin, end),
		cmocka_unit_test_setup_teardown(losses_are_added_up, begin, end),
		cmocka_unit_test_setup_teardown(each_path_has_its_answer, begin, end),
		cmocka_unit_test_setup_teardown(wrong_requests_are_told_so, begin, end),
		cmocka_unit_test_setup_teardown(answers_that_nobody_takes_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(names_of_addresses, begin, end),
		cmocka_unit_test_setup_teardown(dashes_within_a_name, begin, end),
		cmocka_unit_test_setup_teardown(names_of_python, begin, end),
		cmocka_unit_test_setup_teardown(a_stack_has_one_number, begin, end),
		cmocka_unit_test_setup_teardown(one_may_be_left_alone, begin, end),
		cmocka_unit_test_setup_teardown(receivers_with_one_url, begin, end),
		cmocka_unit_test_setup_teardown(a_group_that_is_not_traced, begin, end),
		cmocka_unit_test_setup_teardown(a_process_that_cannot_be_traced, begin, end),
		cmocka_unit_test_setup_teardown(a_process_of_which_nothing_was_seen, begin, end),
		cmocka_unit_test_setup_teardown(threads_of_one_name_are_a_pool, begin, end),
		cmocka_unit_test_setup_teardown(a_rise_is_noted, begin, end),
		cmocka_unit_test_setup_teardown(a_rise_ends_while_the_process_rests, begin, end),
		cmocka_unit_test_setup_teardown(a_rise_ends_with_its_process, begin, end),
		cmocka_unit_test_setup_teardown(history_outlives_snapshots, begin, end),
		cmocka_unit_test_setup_teardown(who_ended_makes_room_in_the_table, begin, end),
		cmocka_unit_test_setup_teardown(the_tracer_is_told_once_it_is_known, begin, end),
		cmocka_unit_test_setup_teardown(a_process_without_a_program, begin, end),
		cmocka_unit_test_setup_teardown(who_grows_gets_more_windows, begin, end),
		cmocka_unit_test_setup_teardown(who_has_all_gets_no_more, begin, end),
		cmocka_unit_test_setup_teardown(groups_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(names_stay_text, begin, end),
		cmocka_unit_test_setup_teardown(a_host_stays_text, begin, end),
		cmocka_unit_test_setup_teardown(series_are_there_once, begin, end),
		cmocka_unit_test_setup_teardown(snapshots_have_a_bound_of_bytes, begin, end),
		cmocka_unit_test_setup_teardown(an_answer_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(silence_is_told, begin, end),
		cmocka_unit_test_setup_teardown(an_incomplete_round_ends_nobody, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
