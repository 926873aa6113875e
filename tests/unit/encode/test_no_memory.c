// SPDX-License-Identifier: BSD-2-Clause
/* Each allocation of each encoder fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"
#include "tests/unit/failing.h"

static struct profile *sample(void)
{
	struct profile *p = new_profile(1024);

	p->exe = strdup("/usr/bin/leaky");
	p->growth.stacks_known = p->peak.known = true;
	p->life = (struct profile_life){true, true, true};
	STACK(p, 1, 100, 3, "malloc", "std::string::append(char const*)", "keep", "main");
	STACK(p, 1, 3000, 2, "malloc", "leak", "main");
	STACK(p, 2, 64, 50, "calloc", "cache", "worker", "start");
	assert_int_equal(profile__add_lost(p, "live_full", 3), 0);
	assert_int_equal(
		profile__add_transfer(
			p, &(struct profile_transfer){.owner = 1, .freer = 2, .bytes = 300}),
		0);
	add_inlined(p, "keep", "small");
	end_profile(p);
	for (size_t i = 0; i < p->n_sites; i++) {
		p->sites[i].growth = (struct growth){.bytes_per_s = 100, .low = 50, .high = 150};
		p->sites[i].survival[0] = 0.5;
	}
	return p;
}

struct run {
	encoder_fn encode;
	const struct profile *profile;
};

/* The sink's own allocations do not fail. */
static int write_told(void *ctx, const void *data, size_t len)
{
	long left = failing_in;

	failing_in = 0;
	fwrite(data, 1, len, ctx);
	failing_in = left;
	return 0;
}

static int run_encoder(void *ctx, FILE *told)
{
	const struct run *run = ctx;
	struct sink sink = {.write = write_told, .ctx = told};

	return run->encode(run->profile, &sink);
}

static int svg(const struct profile *p, struct sink *sink)
{
	return encode_svg(p, NULL, sink);
}

static int threads(const struct profile *p, struct sink *sink)
{
	return encode_threads(p, &(struct table_options){.top = 20}, sink);
}

static int sites(const struct profile *p, struct sink *sink)
{
	return encode_sites(p, &(struct table_options){.top = 20}, sink);
}

static int leaks(const struct profile *p, struct sink *sink)
{
	return encode_leaks(p, &(struct table_options){.top = 20}, sink);
}

static int table(const struct profile *p, struct sink *sink)
{
	return encode_table(p, &(struct table_options){.top = 20}, sink);
}

static int narrow_table(const struct profile *p, struct sink *sink)
{
	return encode_table(p, &(struct table_options){.top = 20, .leaks = true, .width = 80},
			    sink);
}

static int leader(const struct profile *p, struct sink *sink)
{
	return encode_leader(p, &(struct table_options){}, sink);
}

static int processes(const struct profile *p, struct sink *sink)
{
	return encode_processes(&p, 1, &(struct process_table_options){.top = 20}, sink);
}

static const struct encode_interval interval = {.until_ns = 1000, .most_sites = 100};

static int pprof_interval(const struct profile *p, struct sink *sink)
{
	return encode_pprof_interval(p, &interval, sink);
}

static int otlp(const struct profile *p, struct sink *sink)
{
	static const struct otlp_attribute resource[] = {{"service.name", "leaky", 0}};

	return encode_otlp(
		p,
		&(struct otlp_options){.interval = interval, .resource = resource, .n_resource = 1},
		sink);
}

static void encoders_say_that_memory_is_out(void **state)
{
	static const struct {
		const char *name;
		encoder_fn encode;
	} encoders[] = {
		{"heap_v2", encode_heap_v2},
		{"symbolized", encode_symbolized},
		{"collapsed", encode_collapsed},
		{"pprof", encode_pprof},
		{"pprof_interval", pprof_interval},
		{"otlp", otlp},
		{"svg", svg},
		{"threads", threads},
		{"sites", sites},
		{"leaks", leaks},
		{"table", table},
		{"narrow table", narrow_table},
		{"leader", leader},
		{"processes", processes},
		{"json", encode_json},
		{"leaks_json", encode_leaks_json},
	};
	struct profile *p = sample();

	(void)state;
	for (size_t i = 0; i < sizeof(encoders) / sizeof(encoders[0]); i++)
		fail_each_allocation(encoders[i].name, run_encoder,
				     &(struct run){encoders[i].encode, p});
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encoders_say_that_memory_is_out),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
