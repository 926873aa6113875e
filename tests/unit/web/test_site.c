// SPDX-License-Identifier: BSD-2-Clause
/* What the server keeps and answers, without its HTTP library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/unit/encode/fixture.h"
#include "web/reply.h"

#define START_NS 1700000000000000000u

static struct site site;

/* A profile of pid that holds n blocks, as it comes from the tracer. */
static void come(pid_t pid, const char *comm, uint64_t start_ns, int n)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};

	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	profile->exe = strdup("/usr/bin/leaky");
	profile->start_unix_ns = start_ns;
	profile->duration_s = n;
	STACK(profile, 1, 100, n, "malloc", "keep<T>", "main");
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	if (store__add(&site.store, pid, start_ns + (uint64_t)n, text.bytes, text.len, &err))
		fail_msg("%s", err.text);
}

static int begin(void **state)
{
	(void)state;
	memset(&site, 0, sizeof(site));
	site.begin_s = clock__monotonic_s();
	site.round.every_s = 15;
	return 0;
}

static int end(void **state)
{
	(void)state;
	store__clear(&site.store);
	return 0;
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
	/* the number is another process's now */
	come(7, "other", START_NS + 5000000000u, 1);
	p = store__find(&site.store, 7);
	assert_int_equal(p->n_kept, 1);
	assert_string_equal(p->latest->comm, "other");
	assert_int_equal(site.store.bytes, process__snapshot(p, 0)->size);
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
	store__end_round(&site.store);
	assert_false(store__find(&site.store, 1)->ended);
	come(1, "leaky", START_NS, 2);
	store__end_round(&site.store);
	assert_false(store__find(&site.store, 1)->ended);
	assert_int_equal(site.store.n, STORE_ENDED + 1);
	assert_true(store__find(&site.store, STORE_ENDED + 2)->ended);
	assert_says("/", NULL, NULL, 200, "(ended)");
}

static void each_path_has_its_answer(void **state)
{
	(void)state;
	come(7, "leaky", START_NS, 3);
	come(7, "leaky", START_NS, 9);
	store__end_round(&site.store);
	site.round_at_s = clock__monotonic_s();
	assert_says("/", NULL, NULL, 200, "<a href=\"/pid/7/\">7</a>");
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
	assert_says("/pid/7/", NULL, NULL, 200, "keep&lt;&gt;");
	assert_says("/pid/7/flame.svg", NULL, NULL, 200, "<svg");
	assert_says("/pid/7/table", NULL, NULL, 200, "keep<> < main");
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
	assert_says("/nowhere", NULL, NULL, 404, "/ has what there is");
	assert_says("/pid/8/", NULL, NULL, 404, "no process 8");
	assert_says("/pid/x/", NULL, NULL, 400, "by its number");
	assert_says("/pid/", NULL, NULL, 400, "by its number");
	assert_says("/pid/4294967303/", NULL, NULL, 400, "by its number");
	assert_says("/pid/7/nothing", NULL, NULL, 404, "no such page");
	assert_says("/pid/7/table", NULL, "", 405, "POST");
	assert_says("/pid/7/snapshot", NULL, NULL, 405, "GET");
	assert_says("/pid/7/diff", "from=x", NULL, 400, "a number");
	assert_says("/pid/7/diff", "to=9", NULL, 404, "snapshot 9");
	assert_says("/pid/7/debug/pprof/heap", "seconds=5", NULL, 400, "compare");
	assert_says("/pid/7/pprof/symbol", NULL, "0x12+zz", 400, "addresses");
	assert_says("/debug/pprof/heap", NULL, NULL, 400, "which process");
	assert_says("/stack/", NULL, NULL, 400, "hexadecimal");
	assert_says("/stack/12", NULL, NULL, 404, "no process");
	assert_says("/", NULL, "", 405, "POST");
	assert_int_equal(site.n_requests[4], 16);
}

/* Addresses as jeprof asks for them: of the instruction before the return address. */
static void names_of_addresses(void **state)
{
	const struct profile *profile;
	char body[32], part[256];

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

/* More names than there are groups: the rest is one. */
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

static void names_stay_text(void **state)
{
	(void)state;
	come(7, "<i>\"\\\n", START_NS, 1);
	assert_says("/", NULL, NULL, 200, "&lt;i&gt;&quot;\\?");
	assert_says("/metrics", NULL, NULL, 200, "{group=\"<i>\\\"\\\\?\"}");
	assert_says("/targets", NULL, NULL, 200, "\"comm\":\"<i>\\\"\\\\?\"");
}

static void silence_is_told(void **state)
{
	(void)state;
	site.begin_s -= 100;
	assert_says("/healthz", NULL, NULL, 503, "no profiles for 100 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(snapshots_are_kept_within_bounds, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(processes_that_end_stay_for_a_while, begin, end),
		cmocka_unit_test_setup_teardown(each_path_has_its_answer, begin, end),
		cmocka_unit_test_setup_teardown(wrong_requests_are_told_so, begin, end),
		cmocka_unit_test_setup_teardown(names_of_addresses, begin, end),
		cmocka_unit_test_setup_teardown(a_stack_has_one_number, begin, end),
		cmocka_unit_test_setup_teardown(groups_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(names_stay_text, begin, end),
		cmocka_unit_test_setup_teardown(silence_is_told, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
