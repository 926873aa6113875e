// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fixture.h"

static struct diff *diff_of(struct profile *const *profiles, size_t n, enum diff_measure measure)
{
	struct diff *diff = NULL;
	struct error err = {};

	if (diff__new((const struct profile *const *)profiles, n, measure, &diff, &err))
		fail_msg("refused: %s", err.text);
	return diff;
}

static char *table(const struct diff *diff, struct table_options options)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode_diff(diff, &options, &sink), 0);
	return text.bytes;
}

typedef int (*diff_encoder)(const struct diff *diff, struct sink *sink);

static char *text_of(diff_encoder encode, const struct diff *diff)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode(diff, &sink), 0);
	return text.bytes ? text.bytes : strdup("");
}

static void free_all(struct profile **p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		profile__free(p[i]);
}

/* Two snapshots of one run, 20 s apart. Every allocation of the run is recorded. */
static void two_snapshots(struct profile **p)
{
	for (int i = 0; i < 2; i++) {
		p[i] = new_profile(1);
		p[i]->start_unix_ns = 1700000000000000000;
		p[i]->duration_s = 10 + 20 * i;
		STACK(p[i], 1, 1024, i ? 60 : 20, "malloc", "leaks", "main");
		STACK(p[i], 1, 100, i ? 5 : 40, "malloc", "ends;\n", "main");
		STACK(p[i], 1, 10, i ? 4 : 3, "malloc", "wavers", "main");
		STACK(p[i], 1, 10, 7, "malloc", "stays", "main");
		STACK(p[i], 1, 10, 0, "malloc", "is_over", "main");
		end_profile(p[i]);
		for (size_t k = 0; k < p[i]->n_sites; k++) {
			struct profile_site *site = &p[i]->sites[k];

			/* every block that is allocated between the snapshots is live at the second
			 * one */
			site->freed_bytes = i && site->live.bytes == 500 ? 3500 : 0;
			site->freed_objects = site->freed_bytes / 100;
			site->alloc_bytes = site->live.bytes + site->freed_bytes;
			site->alloc_objects = site->live.objects + site->freed_objects;
		}
		assert_int_equal(profile__add_lost(p[i], "live_full", 3 * (uint64_t)i), 0);
	}
}

static void people_read_a_table(void **state)
{
	static const char expected[] =
		"memtrace: two snapshots of pid 4711 (leaky), 10.0 s, every allocation, to 30.0 s\n"
		"live heap: 24.0 KiB to 60.6 KiB, +36.6 KiB, grows; +1.8 KiB/s over 20.0 s\n"
		"\n"
		"   CHANGE  PER SECOND      FROM        TO  EVIDENCE       WHERE (leaf first)\n"
		"+40.0 KiB    +2.0 KiB  20.0 KiB  60.0 KiB  grows          leaks < main\n"
		" -3.4 KiB      -175 B   3.9 KiB     500 B  shrinks        ends;? < main\n"
		"    +10 B        +0 B      30 B      40 B  may be chance  wavers < main\n"
		"      0 B         0 B      70 B      70 B  the same       stays < main\n"
		"1 stack surely grows (+40.0 KiB), 1 surely shrinks; the difference of 1 may be "
		"chance\n"
		"profile 2: lost: live_full 3\n";
	struct profile *p[2];
	struct diff *diff;
	char *text;

	(void)state;
	two_snapshots(p);
	diff = diff_of(p, 2, DIFF_AUTO);
	text = table(diff, (struct table_options){.width = 100});
	assert_string_equal(text, expected);
	free(text);
	text = table(diff, (struct table_options){.width = 100, .top = 1, .color = true});
	assert_has(text, "leaks < main\n(3 more stacks: -3.4 KiB)\n1 stack");
	assert_has(text, "\033[1m");
	free(text);
	diff__free(diff);
	free_all(p, 2);
}

/* There are 9 and 4 samples, as in sampled_differences_have_errors()
 * (tests/unit/profile/test_diff.c). The interval of 9 R - 4 R is about [-2.9, +13.6] MiB. */
static void people_read_of_errors(void **state)
{
	struct profile *p[2];
	struct diff *diff;
	char *text;

	(void)state;
	for (int i = 0; i < 2; i++) {
		p[i] = new_profile(1 << 20);
		p[i]->pid = 10 + i;
		STACK(p[i], 1, 16, i ? 9 : 4, "malloc", "some", "main");
		end_profile(p[i]);
	}
	strcpy(p[1]->comm, "other");
	p[1]->file = "new.heap";
	diff = diff_of(p, 2, DIFF_AUTO);
	text = table(diff, (struct table_options){.width = 120});
	assert_has(text, "memtrace: pid 10 (leaky), 10.0 s, one sample per 1 MiB\n"
			 "       to new.heap: pid 11 (other), ");
	assert_has(text, "live heap: 4.0 MiB to 9.0 MiB, +5.0 MiB (95 %: -2.9 to +13.6 MiB), may "
			 "be chance\n");
	assert_has(text, "note: they are of different programs");
	assert_has(text,
		   "+5.0 MiB  -2.9 to +13.6 MiB  4.0 MiB  9.0 MiB  may be chance  some < main\n");
	assert_has(text,
		   "0 stacks surely grow, 0 surely shrink; the difference of 1 may be chance\n");
	free(text);
	diff__free(diff);
	free_all(p, 2);
}

static void programs_read_json(void **state)
{
	static const char stack[] =
		"{\"from\":20480.000,\"to\":61440.000,\"change\":40960.000,\"low\":40960.000,"
		"\"high\":40960.000,\"bytes_per_s\":2048.000,\"bytes_per_s_low\":2048.000,"
		"\"bytes_per_s_high\":2048.000,\"p_grows\":4.547e-13,\"p_shrinks\":1,\"grows\":"
		"true,"
		"\"shrinks\":false,\"rises\":1,\"falls\":0,\"values\":[20480.000,61440.000],"
		"\"frames\":[\"malloc\",\"leaks\",\"main\"]}";
	struct profile *p[2];
	struct diff *diff;
	char *text;

	(void)state;
	two_snapshots(p);
	diff = diff_of(p, 2, DIFF_AUTO);
	text = text_of(encode_diff_json, diff);
	assert_has(text, "{\"version\":1,\"what\":\"heap\",\"measure\":\"live\",\"one_run\":true,"
			 "\"exact\":true,"
			 "\"seconds\":20.000,\"least_growth_bytes_per_s\":null,\"profiles\":[");
	assert_has(text, "{\"pid\":4711,\"comm\":\"leaky\",\"start_unix_s\":1700000000.000,"
			 "\"duration_s\":10.000,\"interval_bytes\":1,\"mode\":\"continuous\","
			 "\"lost\":{\"live_full\":0},\"contradictions\":[]}");
	assert_has(text, "\"warnings\":[],\"total\":{\"from\":24580.000,");
	assert_has(text, stack);
	assert_has(text, "\"ends;\\u000a\"");
	assert_true(strchr(text, '\n') == text + strlen(text) - 1);
	free(text);
	diff__free(diff);
	free_all(p, 2);
}

static void flame_graphs_read_two_columns(void **state)
{
	struct profile *p[2];
	struct diff *diff;
	char *text;

	(void)state;
	two_snapshots(p);
	diff = diff_of(p, 2, DIFF_AUTO);
	text = text_of(encode_diff_collapsed, diff);
	assert_string_equal(text, "main;ends:? 4000 500\n"
				  "main;leaks 20480 61440\n"
				  "main;stays 70 70\n"
				  "main;wavers 30 40\n");
	free(text);
	diff__free(diff);
	free_all(p, 2);
}

static void failures_are_reported(void **state)
{
	struct profile *p[3];
	struct replicas *replicas = NULL;
	struct diff *diff, *snapshots;

	(void)state;
	two_snapshots(p);
	snapshots = diff_of(p, 2, DIFF_AUTO);
	p[2] = new_profile(1);
	p[2]->pid = 3;
	p[1]->start_unix_ns += 60000000000; /* another run, so a note is printed */
	STACK(p[2], 1, 1024, 2000, "malloc", "own", "main");
	end_profile(p[2]);
	diff = diff_of(p, 2, DIFF_AUTO);
	assert_int_equal(
		replicas__new((const struct profile *const *)p, 3, DIFF_AUTO, &replicas, NULL), 0);
	for (int encoder = 0; encoder < 7; encoder++) {
		struct table_options options = {};
		int calls = 0, left, err;

		do {
			struct sink sink = {.write = failing_write, .ctx = &left};

			left = calls++;
			err = encoder == 0   ? encode_diff(diff, &options, &sink)
			      : encoder == 1 ? encode_diff_json(diff, &sink)
			      : encoder == 2 ? encode_diff_collapsed(diff, &sink)
			      : encoder == 3 ? encode_replicas(replicas, &options, &sink)
			      : encoder == 4 ? encode_replicas_json(replicas, &sink)
			      : encoder == 5 ? encode_diff_leaks_json(snapshots, &sink)
					     : encode_diff_leaks(snapshots, &options, &sink);
			assert_true(err == (left < 0 ? -ENOSPC : 0));
		} while (err);
		assert_true(calls > 1);
	}
	replicas__free(replicas);
	diff__free(diff);
	diff__free(snapshots);
	free_all(p, 3);
}

static void the_odd_replica_is_told(void **state)
{
	static const char expected[] =
		"memtrace: 3 replicas, by live heap\n"
		"profile 2: ?.pb.gz: pid 11 (leaky), 10.0 s, every allocation\n"
		"  1.1 MiB, the others 100.0 KiB in "
		"the median; 1 stack has 1.0 MiB more than ordinary\n"
		"profile 1: pid 10 (leaky), 10.0 s, every allocation\n"
		"  100.0 KiB, the others 612.0 KiB in "
		"the median; no stack has more than is ordinary\n"
		"profile 3: pid 12 (leaky), 10.0 s, every allocation\n"
		"  100.0 KiB, the others 612.0 KiB in "
		"the median; no stack has more than is ordinary\n"
		"\n"
		"PROFILE      HAS  OTHERS  WHERE (leaf first)\n"
		"2        1.0 MiB     0 B  leaks < main\n";
	struct replicas *replicas = NULL;
	struct table_options options = {};
	struct text text = {}, json = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct sink json_sink = {.write = text_write, .ctx = &json};
	struct profile *p[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = new_profile(1);
		p[i]->pid = 10 + i;
		p[i]->file = i == 1 ? "\033.pb.gz" : NULL;
		STACK(p[i], 1, 1024, 100, "malloc", "cache", "main");
		if (i == 1)
			STACK(p[i], 1, 1024, 1024, "malloc", "leaks", "main");
		end_profile(p[i]);
	}
	assert_int_equal(
		replicas__new((const struct profile *const *)p, 3, DIFF_AUTO, &replicas, NULL), 0);
	assert_int_equal(encode_replicas(replicas, &options, &sink), 0);
	assert_string_equal(text.bytes, expected);
	assert_int_equal(encode_replicas_json(replicas, &json_sink), 0);
	assert_has(
		json.bytes,
		"{\"version\":1,\"what\":\"heap\",\"measure\":\"live\",\"per_second\":false,"
		"\"warnings\":[],\"replicas\":[{\"profile\":2,\"file\":\"\\u001b.pb.gz\","
		"\"pid\":11,"
		"\"comm\":\"leaky\",\"total\":1150976.000,\"others\":102400.000,"
		"\"excess\":1048576.000,\"abnormal_stacks\":1,\"lost\":{},\"contradictions\":[]},");
	assert_has(json.bytes, "\"values\":[0.000,1048576.000,0.000],"
			       "\"frames\":[\"malloc\",\"leaks\",\"main\"]}]}\n");
	free(text.bytes);
	free(json.bytes);
	replicas__free(replicas);
	free_all(p, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(people_read_a_table),
		cmocka_unit_test(people_read_of_errors),
		cmocka_unit_test(programs_read_json),
		cmocka_unit_test(flame_graphs_read_two_columns),
		cmocka_unit_test(failures_are_reported),
		cmocka_unit_test(the_odd_replica_is_told),
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
