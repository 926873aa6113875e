// SPDX-License-Identifier: BSD-2-Clause
/* Profile files of every format. Every encoder must be able to write a profile that was read.
 * Written as pprof, the profile must come back with the same totals. */
#include "fuzz.h"

#include <math.h>

#include "decode/decode.h"
#include "encode/encode.h"
#include "profile/filter.h"
#include "profile/view.h"

struct buffer {
	char *bytes;
	size_t len;
};

static int append(void *ctx, const void *data, size_t len)
{
	struct buffer *b = ctx;

	b->bytes = realloc(b->bytes, b->len + len);
	require(b->bytes);
	memcpy(b->bytes + b->len, data, len);
	b->len += len;
	return 0;
}

static int encode_rows(const struct profile *p, struct sink *sink)
{
	const struct table_options options = {.top = 8, .width = 60, .leaks = true};

	return encode_table(p, &options, sink);
}

static int encode_tree(const struct profile *p, struct sink *sink)
{
	const struct table_options options = {.width = 60, .tree = true, .min_share_pct = 0.1};

	return encode_table(p, &options, sink);
}

/* Tables by thread, by site, of lifetimes and of the resident set. */
static int encode_more(const struct profile *p, struct sink *sink)
{
	const struct table_options options = {.top = 8, .width = 60};

	return encode_threads(p, &options, sink) ?: encode_sites(p, &options, sink)
						   ?: encode_lifetimes(p, &options, sink)
						      ?: encode_resident(p, &options, sink);
}

static struct buffer encoded(const struct profile *p,
			     int (*encode)(const struct profile *, struct sink *))
{
	struct buffer b = {};
	struct sink sink = {.write = append, .ctx = &b};

	require(!encode(p, &sink));
	return b;
}

static void check_sound(const struct profile *p)
{
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *site = &p->sites[i];

		require(isfinite(site->live.bytes) && site->live.bytes >= 0);
		require(isfinite(site->live.objects) && site->live.objects >= 0);
		require(isfinite(site->live.variance) && site->live.variance >= 0);
		require(site->alloc_bytes >= 0 && site->freed_bytes >= 0 &&
			site->freed_objects >= 0);
		for (int k = 0; k < PROFILE_AGES; k++)
			require(site->life.ended[k] >= 0 && site->life.living[k] >= 0);
		for (uint32_t k = 0; k < site->n_locations; k++)
			require(site->locations[k] < p->n_locations);
		for (size_t k = 0; k < site->n_threads; k++)
			require(site->threads[k].thread < p->n_threads &&
				site->threads[k].bytes >= 0);
		require(!i || p->sites[i - 1].live.bytes >= site->live.bytes);
	}
	for (size_t i = 0; i < p->n_locations; i++) {
		const struct profile_location *location = &p->locations[i];

		require(location->addr && location->n_frames && *location->frames[0].name);
		require(!i || p->locations[i - 1].addr < location->addr);
		require(location->mapping < (int32_t)p->n_mappings);
	}
}

static void check_round_trip(const struct profile *p)
{
	struct buffer b = encoded(p, encode_pprof);
	struct estimate live = profile__live(p), again_live;
	struct profile *again;

	require(!decode_bytes("own", b.bytes, b.len, &again, NULL));
	check_sound(again);
	again_live = profile__live(again);
	/* larger values are cut, so that their sums do not overflow */
	if (live.bytes < 1e12 && live.objects < 1e12) {
		require(fabs(again_live.bytes - live.bytes) < 1);
		require(fabs(again_live.objects - live.objects) < 1);
	}
	profile__free(again);
	free(b.bytes);
}

/* Tries every view that is possible for this profile. */
static void check_views(const struct profile *p)
{
	for (int i = 0; i < PROFILE_WEIGHTS * PROFILE_ROOTS; i++) {
		const struct view_options options = {
			.weight = (enum profile_weight)(i % PROFILE_WEIGHTS),
			.root = (enum profile_root)(i / PROFILE_WEIGHTS)};
		struct profile_view view;

		if (view_options__refusal(&options, p))
			continue;
		require(!profile_view__init(&view, p, &options));
		for (size_t k = 0; k < view.profile.n_sites; k++)
			require(view.profile.sites[k].live.bytes >= 0);
		free(encoded(&view.profile, encode_collapsed).bytes);
		profile_view__clear(&view);
	}
}

static void check_age(struct profile *p)
{
	int age = profile__find_age(p, p->survival_age_s[0]);
	double unknown, before = profile__live(p).bytes;

	if (age < 0)
		return;
	require(!profile__keep_age(p, age, true, &unknown));
	check_sound(p);
	require(unknown >= 0 && profile__live(p).bytes <= before * (1 + 1e-9));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const encoders[])(const struct profile *, struct sink *) = {
		encode_collapsed, encode_heap_v2, encode_symbolized, encode_json,
		encode_rows,	  encode_tree,	  encode_more};
	void *copy = fuzz_copy(data, size);
	struct profile *p = NULL;
	struct error err = {};
	int rc = decode_bytes("input", copy, size, &p, &err);

	free(copy);
	require(rc ? rc < 0 && !p && !strncmp(err.text, "input: ", 7) : p && !err.code);
	if (rc)
		return 0;
	check_sound(p);
	for (size_t i = 0; i < sizeof(encoders) / sizeof(encoders[0]); i++)
		free(encoded(p, encoders[i]).bytes);
	check_round_trip(p);
	check_views(p);
	check_age(p);
	profile__free(p);
	return 0;
}
