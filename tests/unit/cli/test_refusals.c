// SPDX-License-Identifier: BSD-2-Clause
/* Tests which options record, top, check and the agent refuse before tracing begins, with which
 * words and status. Needs no root. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cli/cli.h" /* before cmocka, which makes a macro of fail() */
#include "cli/guard_options.h"
#include "cli/push_options.h"
#include "cli/selection.h"
#include "cli/trace_options.h"

#include <cmocka.h>

#include "command_fixture.h"

static char *const pid = (char *)"1";

static void who_is_traced(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "-p PID, -a, or -- COMMAND", record, "-d", "5");
	ASSERT_REFUSED(EXIT_USAGE,
		       "'redis' is not a pid; of a name: -p $(pgrep -d, -x NAME). (--comm NAME",
		       record, "-p", "redis");
	ASSERT_REFUSED(EXIT_USAGE, "several pids are separated by commas", record, "-p", pid, "2");
	ASSERT_REFUSED(EXIT_USAGE, "'' is not a pid", record, "-p", "1,,2");
	ASSERT_REFUSED(EXIT_USAGE, "'sleep' is not an option; a command to run goes after --",
		       record, "-p", pid, "sleep");
	ASSERT_REFUSED(EXIT_USAGE, "-p and a command cannot be combined", record, "-p", pid, "--",
		       "true");
	ASSERT_REFUSED(EXIT_USAGE, "--comm needs a value", record, "--comm", "");
	ASSERT_REFUSED(EXIT_USAGE, "there is no user 'nobody-at-all'", record, "--user",
		       "nobody-at-all");
	ASSERT_REFUSED(EXIT_USAGE, "only one --exe", record, "--exe", "/a", "--exe", "/b");
	ASSERT_REFUSED(EXIT_USAGE, "only one --cgroup or --container", record, "--cgroup", "/a",
		       "--container", "0123456789ab");
	ASSERT_REFUSED(EXIT_USAGE, "-p PID, or -a", top, "--delay", "1");
	ASSERT_REFUSED(EXIT_USAGE, "top starts no commands", top, "sleep");
	ASSERT_REFUSED(EXIT_USAGE, "one pid at most", check, "1", "2");
	ASSERT_REFUSED(EXIT_USAGE, "'x' is not a pid", check, "x");
	ASSERT_REFUSED(EXIT_USAGE, "give its pid", check, "--free", "lib.so:f(ptr=1)");
}

static void values_of_record(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "'5d' is not a duration: seconds", record, "-d", "5d");
	ASSERT_REFUSED(EXIT_USAGE, "'5X' is not a sampling interval: 1 to 4G bytes", record, "-i",
		       "5X");
	ASSERT_REFUSED(EXIT_USAGE, "no format 'x': heap, collapsed, pprof, svg, symbolized, none",
		       record, "-f", "heap,x");
	ASSERT_REFUSED(EXIT_USAGE, "--what has no 'x': heap, regions, faults", record, "--what",
		       "x");
	ASSERT_REFUSED(EXIT_USAGE, "--what heap and --what faults cannot be combined", record,
		       "--what", "heap,faults");
	ASSERT_REFUSED(EXIT_USAGE, "0.1 to 100 per cent, or off", record, "--max-overhead", "200");
	ASSERT_REFUSED(EXIT_USAGE, "the output prefix is empty", record, "-o", "");
	ASSERT_REFUSED(EXIT_USAGE, "neither seconds (0.1 or more) nor bytes", record, "--every",
		       "3X");
	ASSERT_REFUSED(EXIT_USAGE, "sorted by growth, live or rss, not by 'x'", record, "--sort",
		       "x");
	ASSERT_REFUSED(EXIT_USAGE, "'x' is not a delay", top, "--delay", "x");
}

static void what_record_cannot_combine(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "no format is chosen: give one", record, "-p", pid, "--every",
		       "1", "-f", "none");
	ASSERT_REFUSED(EXIT_USAGE, "different tables: give one of them", record, "-p", pid,
		       "--churn", "--leaks");
	ASSERT_REFUSED(EXIT_USAGE, "give --leaks or --weight", record, "-p", pid, "--leaks",
		       "--weight", "freed");
	ASSERT_REFUSED(EXIT_USAGE, "it needs --what heap", record, "-p", pid, "--churn", "--what",
		       "regions");
	ASSERT_REFUSED(EXIT_USAGE, "--rss shows what is in one process", record, "-a", "--rss");
	ASSERT_REFUSED(EXIT_USAGE, "a pid or a command has its own table", record, "-p", pid,
		       "--sort", "rss");
	ASSERT_REFUSED(EXIT_USAGE, "it needs --leaks", record, "-p", pid, "--why");
	ASSERT_REFUSED(EXIT_USAGE, "add one of them", record, "-p", pid, "-f", "heap", "--by",
		       "thread");
	ASSERT_REFUSED(EXIT_USAGE, "memtrace report -f json makes JSON", record, "-p", pid,
		       "--on-oom", "--json");
	ASSERT_REFUSED(EXIT_USAGE, "of other processes", record, "-p", pid, "--on-oom", "--every",
		       "1");
	ASSERT_REFUSED(EXIT_USAGE, "of other processes", record, "-p", pid, "--on-oom", "--peak");
	ASSERT_REFUSED(EXIT_USAGE, "--max-host-overhead is for many processes", record, "-p", pid,
		       "--max-host-overhead", "5");
	ASSERT_REFUSED(EXIT_USAGE, "--max-host-overhead cannot be kept", record, "-a", "-i", "1",
		       "--max-host-overhead", "2");
	ASSERT_REFUSED(EXIT_USAGE, "--max-host-overhead cannot be kept", record, "-a",
		       "--max-overhead", "off", "--max-host-overhead", "2");
	ASSERT_REFUSED(EXIT_USAGE, "--max-host-overhead cannot be kept", record, "-a", "--what",
		       "regions", "--max-host-overhead", "2");
	ASSERT_REFUSED(EXIT_USAGE, "works for record only", top, "-p", pid, "-o", "-");
}

static void what_why_cannot_combine(void **state)
{
	static char *const nobody = (char *)"4194304"; /* no process has this number */

	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "--freeze makes one scan", why, "-p", nobody, "--freeze",
		       "--scans", "2");
	ASSERT_REFUSED(EXIT_USAGE, "--freeze reads as fast as it can", why, "-p", nobody,
		       "--freeze", "--max-overhead", "1");
}

/* docs/allocators.md has the valid forms. */
static void functions_that_are_named(void **state)
{
	static const struct {
		const char *option, *text, *words;
	} wrong[] = {
		{"--alloc", "f(size=1)->ret", "it must begin with FILE:FUNCTION"},
		{"--alloc", "lib.so:f", "size= is missing, as in lib.so:f(size=1)->ret"},
		{"--alloc", "lib.so:f(ptr=1)->ret", "size= is missing"},
		{"--alloc", "lib.so:f(size=7)->ret", "an argument's number is 1 to 6"},
		{"--alloc", "lib.so:f(size=12)->ret", "an argument's number is 1 to 6"},
		{"--alloc", "lib.so:f(size=1->ret", "a comma or the closing bracket is missing"},
		{"--alloc", "lib.so:f(size=1 throws)->ret",
		 "a comma or the closing bracket is missing"},
		{"--free", "lib.so:f(ptr=1", "a comma or the closing bracket is missing"},
		{"--alloc", "lib.so:f(size=1)", "->ret or ->*N"},
		{"--alloc", "lib.so:f(size=1)->*9", "1 to 6, must follow ->*"},
		{"--alloc", "lib.so:f(size=1)->ret;", "there is text after the end"},
		{"--alloc", "lib.so:f(what=1)->ret",
		 "only size=, ptr=, pool= and throws may stand in brackets"},
		{"--free", "lib.so:f", "ptr= is missing, as in lib.so:f(ptr=1)"},
		{"--free", "lib.so:f(size=1)", "it must have ptr= and nothing else"},
		{"--end", "lib.so:f", "pool= is missing, as in lib.so:f(pool=1)"},
		{"--end", "lib.so:f(ptr=1)", "it must have pool= and nothing else"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ASSERT_REFUSED(EXIT_USAGE, wrong[i].words, record, (char *)wrong[i].option,
			       (char *)wrong[i].text);
		assert_words(said, wrong[i].text);
	}
}

/* The messages that complain_to() received. */
static char heard[2048];

static void hear(const char *text)
{
	snprintf(heard, sizeof(heard), "%s", text);
}

static int push(size_t n, const struct push_option *options, char **ret_text)
{
	struct push_config config = {.n = n};

	memcpy(config.options, options, n * sizeof(*options));
	*heard = '\0';
	return push_config__text(&config, "agent", ret_text);
}

/* The second URL is checked, too. What comes before "@" or ".evil" in a URL is not the host that
 * would get the token. */
static void a_token_is_not_sent_in_the_clear(void **state)
{
	static const char *const exposing[] = {"http://example.org/", "http://localhost@evil/",
					       "http://localhost:80@evil:9178/",
					       "http://localhost.evil/", "http:///localhost/"};
	static const char *const safe[] = {"https://example.org:9178/pid/1/debug/pprof/heap",
					   "http://127.0.0.1:9178/x?y",
					   "http://[::1]:9178/",
					   "http://localhost",
					   "unix:/s:/pid/1",
					   "http.pb.gz"};

	(void)state;
	for (size_t i = 0; i < sizeof(exposing) / sizeof(*exposing); i++) {
		ASSERT_REFUSED(EXIT_USAGE, "unencrypted: give an https:// URL", diff,
			       "--token-file", "/none", "https://a/", (char *)exposing[i]);
		assert_words(said, exposing[i]);
	}
	for (size_t i = 0; i < sizeof(safe) / sizeof(*safe); i++) {
		assert_int_equal(RUN(diff, "--token-file", "/none", "https://a/", (char *)safe[i]),
				 EXIT_FAILED);
		assert_words(said, "/none: No such file");
	}
}

static void where_profiles_are_pushed(void **state)
{
	const struct push_option lost[] = {{"tenant", "a"}},
				 bare[] = {{"otlp", "http://example.org"}, {"token", "/none"}},
				 absent[] = {{"otlp", "https://example.org"}, {"token", "/none"}},
				 label[] = {{"label", "env=test"}},
				 good[] = {{"pyroscope", "http://127.0.0.1:4040/"},
					   {"tenant", "a"},
					   {"label", "env=test"}};
	char *text;

	(void)state;
	complain_to(hear);
	assert_int_equal(push(1, lost, &text), EXIT_USAGE);
	assert_words(heard, "--push-tenant is for the receiver before it: give --push-pyroscope");
	assert_int_equal(push(2, bare, &text), EXIT_USAGE);
	assert_words(heard, "the token would go to http://example.org unencrypted");
	assert_int_equal(push(2, absent, &text), EXIT_FAILED);
	assert_words(heard, "cannot read /none");
	assert_int_equal(push(1, label, &text), EXIT_USAGE);
	assert_words(heard, "--label describes profiles that are pushed");
	assert_int_equal(push(3, good, &text), 0);
	assert_string_equal(heard, "");
	assert_string_equal(text, "pyroscope http://127.0.0.1:4040\ntenant a\nlabel env=test\n");
	free(text);
	complain_to(NULL);
}

static void labels_have_different_names(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "the label env is given twice", agent, "--push-otlp",
		       "http://localhost:1", "--label", "env=a", "--label", "envy=a", "--label",
		       "env=b");
}

static void what_guards_addresses(void **state)
{
	char token[] = "/tmp/memtrace-token-XXXXXX";
	int fd = mkstemp(token);
	struct guard guard;

	(void)state;
	complain_to(hear);
	assert_true(fd >= 0 && write(fd, "0123456789abcdef\n", 17) == 17 && !close(fd));
	assert_int_equal(
		guard_config__read(&(struct guard_config){.cert = "/none"}, "agent", NULL, &guard),
		EXIT_USAGE);
	assert_words(heard, "give both --tls-cert and --tls-key, or neither");
	assert_int_equal(guard_config__read(&(struct guard_config){.token = token}, "agent",
					    "0.0.0.0:1", &guard),
			 EXIT_USAGE);
	assert_words(heard, "'0.0.0.0:1' is reached from other hosts");
	assert_int_equal(
		guard_config__read(&(struct guard_config){.token = token}, "agent", NULL, &guard),
		0);
	assert_string_equal(guard.token, "0123456789abcdef");
	guard__clear(&guard);
	assert_int_equal(chmod(token, 0644), 0);
	assert_int_equal(
		guard_config__read(&(struct guard_config){.token = token}, "agent", NULL, &guard),
		EXIT_FAILED);
	assert_words(heard, "everybody may read or write");
	guard__clear(&guard);
	unlink(token);
	complain_to(NULL);
}

/* Output files are checked before tracing begins, so that no run is in vain. */
static void files_are_tried_first(void **state)
{
	struct trace_config config;
	struct error err = {};

	(void)state;
	trace_config__init(&config);
	config.pids[config.n_pids++] = 42;
	config.output = "/none/x";
	assert_int_equal(trace_config__check_files(&config, false, &err), -ENOENT);
	assert_words(err.text, "cannot write /none/x.42.heap: No such file or directory: create");
	err = (struct error){};
	config.what = WHAT_REGIONS;
	assert_int_equal(trace_config__check_files(&config, false, &err), -ENOENT);
	assert_words(err.text, "/none/x.42.regions.heap");
	err = (struct error){};
	/* a command's pid is not yet known, so the longest pid is assumed */
	assert_int_equal(trace_config__check_files(&config, true, &err), -ENOENT);
	assert_words(err.text, "/none/x.4194304.regions.heap");
	memset(config.format, 0, sizeof(config.format));
	assert_false(trace_config__writes_files(&config));
	assert_int_equal(trace_config__check_files(&config, false, &err), 0);
}

static void options_imply_options(void **state)
{
	struct session_options options;
	struct trace_config config;

	(void)state;
	trace_config__init(&config);
	config.leaks = true;
	assert_int_equal(trace_config__settle(&config, "record", false), 0);
	options = trace_config__session_options(&config);
	assert_int_equal(config.capture.interval, 64 << 10); /* docs/architecture.md */
	assert_true(options.regions_if_easy);
	assert_null(options.selection);
	assert_true(config.max_overhead > 0);

	trace_config__init(&config);
	config.on_oom = true;
	assert_int_equal(trace_config__settle(&config, "record", true), 0);
	options = trace_config__session_options(&config);
	assert_int_equal(config.capture.interval, 16 << 10);
	assert_int_equal(options.victims, VICTIMS_OF_MEMORY);
	assert_true(config.max_overhead == 0); /* no limit, as the command slows nobody else */
}

static void what_is_selected_is_told(void **state)
{
	struct selection_config config = {};
	struct error err = {};
	char text[128];

	(void)state;
	assert_string_equal(selection_config__describe(&config, text, sizeof(text)), "");
	assert_int_equal(selection_config__open(&config, &err), 0);
	assert_int_equal(selection_config__take(&config, "record", "comm", "nginx"), 0);
	assert_int_equal(selection_config__take(&config, "record", "user", "33"), 0);
	assert_int_equal(selection_config__take(&config, "record", "user", "root"), 0);
	assert_int_equal(selection_config__take(&config, "record", "exe", "/bin/a"), 0);
	assert_int_equal(selection_config__take(&config, "record", "container", "short"), 0);
	assert_string_equal(selection_config__describe(&config, text, sizeof(text)),
			    "--comm nginx --exe /bin/a --user 33 --user 0 --container short");
	assert_true(selection_config__open(&config, &err) < 0);
	assert_true(*err.text);
	assert_string_equal(selection_config__describe(&config, text, 8), "--comm ");
}

/* A line with which an agent could not start is refused, and the message names the file and the
 * line. Otherwise a reload would end the agent that works. */
static void lines_with_which_no_agent_starts(void **state)
{
	static const struct {
		const char *line, *words;
	} cases[] = {
		{"spool = /nonexistent", "cannot use /nonexistent as spool: No such file"},
		{"listen = unix:/nonexistent/socket", "cannot listen on /nonexistent/socket"},
		{"listen = 192.0.2.1:9", "cannot listen on 192.0.2.1:9: Cannot assign"},
		{"cgroup = /nonexistent", "cgroup"},
		{"every = often", "'often' is not a number of seconds"},
		{"conf = /etc/passwd", "config cannot stand in a configuration file"},
	};
	char path[] = "/tmp/memtrace-config-XXXXXX", where[64];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	snprintf(where, sizeof(where), "%s:2: this line is refused", path);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		FILE *file = fopen(path, "w");

		assert_non_null(file);
		fprintf(file, "every = 60\n%s\n", cases[i].line);
		fclose(file);
		assert_int_equal(RUN(agent, "--config", path), EXIT_USAGE);
		assert_words(said, cases[i].words);
		assert_words(said, where);
	}
	ASSERT_REFUSED(EXIT_USAGE, "--listen 127.0.0.1:1 is given twice", agent, "--listen",
		       "127.0.0.1:1", "--listen", "127.0.0.1:1");
	ASSERT_REFUSED(EXIT_USAGE, "--what takes one kind here", agent, "--what", "heap,regions");
	/* a name may be shortened if only one option begins with it */
	ASSERT_REFUSED(EXIT_FAILED, "cannot open /none", agent, "--conf", "/none");
	ASSERT_REFUSED(EXIT_USAGE, "there is no option --con;", agent, "--con", "/none");
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_traced),
		cmocka_unit_test(values_of_record),
		cmocka_unit_test(what_record_cannot_combine),
		cmocka_unit_test(what_why_cannot_combine),
		cmocka_unit_test(functions_that_are_named),
		cmocka_unit_test(a_token_is_not_sent_in_the_clear),
		cmocka_unit_test(where_profiles_are_pushed),
		cmocka_unit_test(labels_have_different_names),
		cmocka_unit_test(what_guards_addresses),
		cmocka_unit_test(files_are_tried_first),
		cmocka_unit_test(options_imply_options),
		cmocka_unit_test(what_is_selected_is_told),
		cmocka_unit_test(lines_with_which_no_agent_starts),
	};

	return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
