// SPDX-License-Identifier: BSD-2-Clause
/* Profiles are built, filtered, compared and so on, while each allocation fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "profile/diff.h"
#include "profile/modules.h"
#include "profile/origins.h"
#include "profile/view.h"
#include "tests/unit/failing.h"

#define SITES 20

static int add_site(struct profile *p, uint64_t first)
{
	const uint64_t addrs[] = {0x1000 + first, 0x2000 + first % 3, 0x3000};
	size_t site, thread;
	int rc = profile__add_site(p, addrs, 3, false, &site);

	if (!rc)
		rc = profile__add_thread(p, first % 4, "worker", &thread);
	for (int i = 0; i < 5 && !rc; i++)
		rc = profile__add_live(p, site, thread, 100 + first);
	return rc;
}

/* Builds a profile as a session does, with names. Returns an error, or sets *ret to a whole
 * profile. */
static int build(uint64_t more, struct profile **ret)
{
	struct profile *p = profile__new();
	size_t cut;
	int rc = p ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < SITES && !rc; i++)
		rc = add_site(p, i);
	for (uint64_t i = 0; i < more && !rc; i++)
		rc = add_site(p, 5);
	if (!rc)
		rc = profile__add_mapping(p, &(struct profile_mapping){.start = 0x1000,
								       .end = 0x4000,
								       .path = "/usr/lib/libx.so"});
	if (!rc)
		rc = profile__add_lost(p, "live_full", 1);
	if (!rc)
		rc = profile__sort(p);
	if (!rc)
		rc = profile__cut_implausible(p, false, &cut);
	for (size_t i = 0; !rc && i < p->n_locations; i++)
		rc = profile_location__set_name(&p->locations[i], i % 2 ? "leak" : "keep");
	if (rc) {
		profile__free(p);
		return rc;
	}
	p->interval_bytes = 1024;
	p->duration_s = 10;
	*ret = p;
	return 0;
}

static void tell(const struct profile *p, FILE *told)
{
	failing_in = 0;
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *site = &p->sites[i];

		fprintf(told, "%g", site->live.bytes);
		for (size_t k = 0; k < site->n_locations; k++)
			fprintf(told, " %s",
				profile_location__function(&p->locations[site->locations[k]]));
		for (size_t k = 0; k < site->n_threads; k++)
			fprintf(told, ", %u %g", site->threads[k].thread, site->threads[k].bytes);
		fputc('\n', told);
	}
}

static int build_one(void *ctx, FILE *told)
{
	struct profile *p;
	int rc = build(0, &p);

	(void)ctx;
	if (rc)
		return rc;
	tell(p, told);
	profile__free(p);
	return 0;
}

static void profiles_are_built_whole_or_not(void **state)
{
	(void)state;
	fail_each_allocation("profile", build_one, NULL);
}

static int compare(void *ctx, FILE *told)
{
	struct error err = {};
	struct diff *diff;
	int rc = diff__new(ctx, 2, DIFF_AUTO, &diff, &err);

	if (rc)
		return rc;
	failing_in = 0;
	for (size_t i = 0; i < diff->n_stacks; i++)
		fprintf(told, "%g %g %g %d\n", diff->stacks[i].values[0], diff->stacks[i].values[1],
			diff->stacks[i].trend.bytes_per_s, diff->stacks[i].grows);
	diff__free(diff);
	return 0;
}

static void profiles_are_compared_or_not(void **state)
{
	struct profile *profiles[2];

	(void)state;
	assert_int_equal(build(0, &profiles[0]), 0);
	assert_int_equal(build(500, &profiles[1]), 0);
	fail_each_allocation("diff", compare, profiles);
	profile__free(profiles[0]);
	profile__free(profiles[1]);
}

struct viewed {
	const struct profile *profile;
	struct view_options options;
};

static int view(void *ctx, FILE *told)
{
	const struct viewed *viewed = ctx;
	struct profile_view view;
	int rc = profile_view__init(&view, viewed->profile, &viewed->options);

	if (!rc)
		tell(&view.profile, told);
	failing_in = 0;
	profile_view__clear(&view);
	return rc;
}

static void views_are_made_or_not(void **state)
{
	static const char rules[] = "first module libx\nfirst/leaks function leak\n";
	struct viewed viewed = {};
	struct modules *modules;
	struct error err = {};
	struct profile *p;

	(void)state;
	assert_int_equal(build(0, &p), 0);
	assert_int_equal(modules__parse("rules", rules, sizeof(rules) - 1, &modules, &err), 0);
	viewed.profile = p;
	for (int root = ROOT_NONE + 1; root < PROFILE_ROOTS; root++) {
		viewed.options =
			(struct view_options){.root = (enum profile_root)root, .modules = modules};
		if (!view_options__refusal(&viewed.options, p))
			fail_each_allocation("view", view, &viewed);
	}
	modules__free(modules);
	profile__free(p);
}

/* Each stack has ten blocks of a shape of its own. */
static void fill_known(const struct profile *p, struct known_block *known, struct census *census)
{
	for (uint32_t i = 0; i < 10 * p->n_sites; i++) {
		uint32_t site = i % (uint32_t)p->n_sites;

		known[i] = (struct known_block){64ULL * i, 40, site};
		census->shape_of[i] = site;
		census->shapes[site] = (struct census_shape){.rough = site, .count = {3, 120}};
		census->rough[site].rough = site;
	}
	census->n_shapes = census->n_rough = p->n_sites;
	census->n_labels = 10 * p->n_sites;
}

static int tell_origins(void *ctx, FILE *told)
{
	static struct census_shape shapes[SITES], rough[SITES];
	static uint32_t shape_of[10 * SITES];
	static struct known_block known[10 * SITES];
	struct census census = {.shapes = shapes, .rough = rough, .shape_of = shape_of};
	struct profile *p = ctx;
	struct known_block *none;
	struct origins origins;
	size_t n;
	int rc;

	fill_known(p, known, &census);
	rc = origins__known(p, &none, &n);
	if (rc)
		return rc;
	free(none);
	rc = origins__find(p, known, &census, &origins);
	if (rc)
		return rc;
	failing_in = 0;
	for (size_t i = 0; i < origins.n_rows; i++)
		fprintf(told, "%s %lu\n", origins.rows[i].functions[0],
			(unsigned long)origins.rows[i].count.blocks);
	origins__clear(&origins);
	return 0;
}

static void origins_are_told_or_not(void **state)
{
	static struct profile_block block;
	struct profile *p;

	(void)state;
	assert_int_equal(build(0, &p), 0);
	assert_int_equal(p->n_sites, SITES);
	for (size_t i = 0; i < p->n_sites; i++) {
		p->sites[i].blocks = &block;
		p->sites[i].n_blocks = 1;
	}
	fail_each_allocation("origins", tell_origins, p);
	for (size_t i = 0; i < p->n_sites; i++)
		p->sites[i].blocks = NULL;
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_are_built_whole_or_not),
		cmocka_unit_test(profiles_are_compared_or_not),
		cmocka_unit_test(views_are_made_or_not),
		cmocka_unit_test(origins_are_told_or_not),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
