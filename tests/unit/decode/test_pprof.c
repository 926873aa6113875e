// SPDX-License-Identifier: BSD-2-Clause
/* Other programs' profiles are bytes written by hand, from the field numbers of profile.proto.
 * memtrace's own profiles go through its encoder and back. tests/unit/encode tests the encoder's
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>

#include "profile/contradictions.h"
#include "profile/diff.h"
#include "profile/drawing.h"
#include "profile/origins.h"
#include "profile/pprof.h"
#include "tests/unit/decode/fixture.h"
#include "tests/unit/decode/pprof_fixture.h"

/* A profile as Go writes it. An id is not the index of its entry in the table. One stack has two
 * samples, with blocks of 16 and of 524288 bytes. Another stack has no names. */
static const char foreign[] = TYPES
	"\x12\x14\x0a\x02\x2a\x2b\x12\x06\x80\x80\x02\x80\x80\x20" /* 42 43: 2^15 of 2^19 bytes, */
	"\x1a\x06\x08\x04\x18\x10\x20\x04"			   /* of 16 bytes each */
	"\x12\x0c\x08\x2a\x08\x2b\x10\x01\x10\x80\x80\x20\x38\x00" /* unpacked: 1 of 2^19 */
	"\x12\x0e\x0a\x01\x2c\x12\x03\x02\x80\x08\x1a\x04\x08\x0b\x10\x0c" /* 44: 2 of 2^10 */
	GOOD;

static void others_profiles_are_read(void **state)
{
	const double R = 524288, x = 16, p = -expm1(-x / R);
	struct profile *profile = decoded_bytes(foreign, sizeof(foreign) - 1);
	const struct profile_location *location;
	const struct estimate *live;

	(void)state;
	assert_int_equal(profile->interval_bytes, 524288);
	assert_int_equal(profile->mode, MODE_UNKNOWN);
	assert_true(profile->leaf_holds);
	assert_false(profile->no_objects);
	assert_int_equal(profile->n_sites, 2);
	assert_site(profile, 0, 1048576, 32769, "main.f < main.f < main.g");
	assert_site(profile, 1, 1024, 2, "prog+0x30");
	/* the sum over the stack's two entries: 32768 p samples of 16 bytes, and 1 - 1/e samples
	 * of R bytes */
	live = &profile->sites[0].live;
	assert_near(live->variance,
		    32768 * p * (x / p * (x / p) * (1 - p)) +
			    (1 - exp(-1)) * R * R / pow(1 - exp(-1), 2) * exp(-1),
		    1e-9);
	assert_near(live->variance_max, x / p * (x / p) * (1 - p), 1e-9);
	/* over the same samples: the sum of (the bytes that one sample stands for)^2 */
	assert_near(live->squares,
		    32768 * p * (x / p * (x / p)) + (1 - exp(-1)) * pow(R / (1 - exp(-1)), 2),
		    1e-9);
	location = profile__location(profile, &profile->sites[0], 0);
	assert_int_equal(location->addr, 0x1011);
	assert_int_equal(location->n_frames, 1);
	assert_string_equal(location->frames[0].file, "x.go");
	assert_int_equal(location->frames[0].line, 16400);
	assert_int_equal(profile__location(profile, &profile->sites[0], 1)->frames[0].line, 2);
	assert_int_equal(profile->n_mappings, 1);
	assert_string_equal(profile->mappings[0].path, "/bin/prog");
	assert_string_equal(profile->mappings[0].build_id, "beef");
	assert_int_equal(location->mapping, 0);
	assert_int_equal(profile->sites[1].n_threads, 1);
	assert_near(profile->sites[1].threads[0].bytes, 1024, 0);
	assert_string_equal(profile->threads[0].name, "one");
	profile__free(profile);
}

/* A resident set with a row of each kind. */
static struct resident *rich_resident(void)
{
	struct resident *r = calloc(1, sizeof(*r));

	*r = (struct resident){
		.rows = calloc(RESIDENT_N_KINDS, sizeof(*r->rows)),
		.n = RESIDENT_N_KINDS,
		.vmrss_bytes = 1LL << 40,
		.swap_bytes = 4096,
		.huge_bytes = 2 << 20,
		.hugetlb_bytes = 1 << 30,
		.heap_split = true,
		.heap_windowed = true,
		.from_start = true,
		.followed = true,
		.stopped_s = {true, 1 / 3.0},
		.skipped = 3,
	};
	for (size_t i = 0; i < r->n; i++) {
		r->rows[i] = (struct resident_row){
			.kind = (enum resident_kind)i,
			.name = strdup(i == RESIDENT_MAPPED ? "pool < main" : ""),
			.bytes = i == RESIDENT_HEAP ? -8192 : (int64_t)i << 20,
			.anonymous = 4096 * i,
			.swap = i,
			.mappings = 2 * i,
		};
		r->smaps_bytes += r->rows[i].bytes;
	}
	assert_int_equal(
		resident__take_census(r, &(struct heap_slack){1 << 20, 5000, 8192, 4096, 77, 9}),
		0);
	assert_int_equal(resident__fail_census(r, "why not"), 0);
	r->rows[0].interval = (struct interval){NAN, 1e6 / 7};
	r->rows[1].interval = (struct interval){-1e6 / 3, 0};
	r->heap_bytes = r->rows[0].bytes + r->rows[1].bytes;
	return r;
}

static struct site_why *rich_site_why(void)
{
	struct site_why *why = calloc(1, sizeof(*why));

	*why = (struct site_why){
		.asked = 100, .held = 40, .lost = 50, .in_doubt = 7, .gone = 3, .followed = 39};
	why->holders = calloc(SITE_HOLDERS, sizeof(*why->holders));
	why->n_holders = 2;
	why->holders[0] =
		(struct site_holder){strdup("global cache (leaky) -> [88-byte block]"), 30};
	why->holders[1] = (struct site_holder){strdup("register of thread a (7)"), 9};
	return why;
}

static struct profile_why *rich_why(void)
{
	struct profile_why *why = calloc(1, sizeof(*why));

	*why = (struct profile_why){.failed = strdup("it was ended"),
				    .doubt = strdup("all is swapped out"),
				    .scans = 4,
				    .seconds = 1.5,
				    .no_registers = true};
	return why;
}

static void assert_same_why(const struct profile *profile, const struct profile *again)
{
	const struct site_why *a = NULL, *b = NULL;

	for (size_t i = 0; i < profile->n_sites; i++) {
		assert_int_equal(!profile->sites[i].why, !again->sites[i].why);
		a = a ? a : profile->sites[i].why;
		b = b ? b : again->sites[i].why;
	}
	assert_non_null(a);
	assert_int_equal(a->asked, b->asked);
	assert_int_equal(a->held, b->held);
	assert_int_equal(a->lost, b->lost);
	assert_int_equal(a->in_doubt, b->in_doubt);
	assert_int_equal(a->gone, b->gone);
	assert_int_equal(a->followed, b->followed);
	assert_int_equal(a->n_holders, b->n_holders);
	for (size_t i = 0; i < a->n_holders; i++) {
		assert_string_equal(a->holders[i].path, b->holders[i].path);
		assert_int_equal(a->holders[i].blocks, b->holders[i].blocks);
	}
	assert_string_equal(again->why->failed, "it was ended");
	assert_string_equal(again->why->doubt, "all is swapped out");
	assert_int_equal(again->why->scans, 4);
	assert_true(again->why->seconds == 1.5);
	assert_true(again->why->no_registers);
}

/* A profile that has everything that a profile can have. */
static struct profile *rich(void)
{
	static const struct profile_mapping mappings[] = {
		{.start = 0x400000,
		 .end = 0x500000,
		 .off = 0x2000,
		 .perms = "r-xp",
		 .path = (char *)"/usr/bin/leaky",
		 .build_id = (char *)"00c0ffee"},
		{.start = 0x600000,
		 .end = 0x700000,
		 .perms = "r-xp",
		 .deleted = true,
		 .path = (char *)"/usr/lib/libgone.so"},
		{.start = 0x800000, .end = 0x900000, .perms = "rw-p", .path = (char *)"[heap]"},
	};
	const uint64_t a[] = {0x600011, 0x400011, 0x400021, 0x300001}, b[] = {0x600011, 0x400031};
	static const struct profile_transfer transfers[] = {
		{.owner = 10, .samples = UINT64_MAX, .objects = 1 / 3.0, .bytes = 1e15 / 7},
		{.owner = 10, .freer = 10, .samples = 2, .objects = 2.5, .bytes = 0},
		{.owner = 11, .freer = 12, .samples = 0, .objects = 0, .bytes = 77.125},
	};
	const struct profile_probe probe = {
		.function = (char *)"malloc",
		.object = (char *)"/usr/lib/libc.so.6",
		.offset = UINT64_MAX,
		.instruction = (char *)"push %r12",
		.emulated = true,
		.kind = "multi",
		.cost_ns = 99.5,
	};
	const struct profile_probe syscall = {
		.function = (char *)"mmap",
		.object = (char *)"",
		.instruction = (char *)"syscall",
		.emulated = true,
		.kind = "tracepoint",
	};
	struct profile *p = new_profile(65536);
	struct profile_frame *frames;
	size_t sites[2], main, worker, idle;

	p->resident = rich_resident();
	p->why = rich_why();
	p->not_traced = "it has no allocator";
	assert_int_equal(profile__add_probe(p, &probe), 0);
	assert_int_equal(profile__add_probe(p, &syscall), 0);
	p->what = PROFILE_HEAP;
	p->exe = strdup("/usr/bin/leaky");
	p->refused = strdup("free of libx.so cannot be probed");
	p->mode = MODE_WINDOWED;
	p->windows.n = 12;
	p->windows.seconds = 0.7;
	p->windows.continuous_s = 3.25;
	p->growth = (struct process_growth){.bytes_per_s = {true, 12345.6789},
					    .stacks_known = true,
					    .attributed = {1000.5, 900.25, -1e-3},
					    .regions = 1e10 / 3,
					    .blocks_per_s = {true, 1.5},
					    .blocks_low = {true, -2.25},
					    .blocks_high = {true, 5.25}};
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		p->survival_age_s[i] = 0.3 * (i + 1);
	p->windows.evidence = (struct profile_evidence){1, 2, 3, 4, 5, 6};
	p->start_unix_ns = 1700000000123456789;
	p->duration_s = 60.125;
	p->free_calls = UINT64_MAX;
	p->dropped = 3;
	p->stacks_walked = 100;
	p->stacks_complete = 99;
	p->overhead_pct = optional__of(0);
	p->others_pct = 112.5;
	p->cpu_time_ns = 77;
	p->rss_start_bytes = 1 << 20;
	p->rss_end_bytes = 1 << 21;
	p->n_live_threads = 4;
	p->ended = true;
	p->killed_by_signal = 9;
	p->out_of_memory = true;
	p->planned_s = 30;
	p->withdrawals = 3;
	p->process_start_ticks = UINT64_C(1) << 40;
	p->asked_interval_bytes = 4096;
	p->sampled_by_target = true;
	p->finest_interval_bytes = 2048;
	p->peak.known = p->life.ages_known = p->life.living_known = true;
	p->peak.s = 1.25;
	p->children_cpu_ns = 96000000;
	p->n_strays = 12;
	p->file_growth_bytes = -12288;
	p->run->cost = (struct run_cost){true, 1.25, true, 0.5, 1 << 22, 1 << 23, true};
	assert_int_equal(profile__add_site(p, a, 4, true, &sites[0]), 0);
	assert_int_equal(profile__add_site(p, b, 2, false, &sites[1]), 0);
	assert_int_equal(profile__add_thread(p, 10, "main", &main), 0);
	assert_int_equal(profile__add_thread(p, 11, "worker", &worker), 0);
	assert_int_equal(profile__add_thread(p, 12, "holds nothing", &idle), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile__add_transfer(p, &transfers[i]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(profile__add_live(p, sites[0], main, 100), 0);
	assert_int_equal(profile__add_live(p, sites[0], worker, 50000), 0);
	assert_int_equal(profile__add_live_seen(p, sites[1], worker, 64, 1e-6), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile__add_mapping(p, &mappings[i]), 0);
	assert_int_equal(profile__add_lost(p, "live_full", 17), 0);
	assert_int_equal(profile__add_lost(p, "nothing", 0), 0);
	assert_int_equal(profile_run__note_lost(p->run, "files_refused", 2), 0);
	p->sites[sites[0]].alloc_objects = 5000;
	p->sites[sites[0]].alloc_bytes = 1e6;
	p->sites[sites[0]].growth = (struct growth){449.6, 205.4, 693.7};
	p->sites[sites[1]].growth = (struct growth){-3, NAN, NAN};
	p->sites[sites[1]].complete = true;
	p->sites[sites[1]].allocators_own = true;
	p->sites[sites[0]].replaces = true;
	p->sites[sites[0]].why = rich_site_why();
	assert_int_equal(profile__add_block(p, sites[0], UINT64_MAX - 15, 1), 0);
	assert_int_equal(profile__add_block(p, sites[0], 16, UINT64_C(1) << 40), 0);
	assert_int_equal(profile__add_block(p, sites[1], 0x7f0000001000, 100), 0);
	p->sites[sites[0]].life.ended[0] = 1000;
	p->sites[sites[0]].life.ended[9] = 3;
	p->sites[sites[0]].life.ended[3] = 7.5;
	/* only continuous runs have heights, but a file may have them for a run in windows */
	p->life.heights_known = true;
	p->sites[sites[0]].life.low_objects = 1 / 3.0;
	p->sites[sites[0]].life.low_bytes = 100;
	p->sites[sites[0]].life.high_objects = 1e9 / 7;
	p->sites[sites[0]].life.high_bytes = 1e15;
	p->sites[sites[0]].life.living[0] = 0.125;
	p->sites[sites[0]].life.living[9] = 1e6 / 9;
	p->sites[sites[0]].life.half_life = (struct half_life){0.1, 0.01, INFINITY};
	p->sites[sites[1]].life.half_life = (struct half_life){INFINITY, 3, INFINITY};
	p->sites[sites[0]].freed_objects = 4000.25;
	p->sites[sites[0]].freed_bytes = 5e5 / 3;
	p->sites[sites[0]].peak_objects = 777.75;
	p->sites[sites[0]].peak_bytes = 123456;
	p->sites[sites[0]].alloc_variance = 4e8;
	p->sites[sites[0]].alloc_common = 3e4;
	p->sites[sites[0]].live.most = 7e6;
	p->sites[sites[0]].live.least = 1200.25;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		p->sites[sites[0]].survival[i] = i == 2 ? NAN : 1.0 / (i + 1);
		p->sites[sites[1]].survival[i] = NAN;
		p->sites[sites[0]].older[i] = NAN;
		p->sites[sites[1]].older[i] = i == 3 ? 0 : 1 - 0.1 * i;
	}
	end_profile(p);
	for (size_t i = 0; i < p->n_locations; i++) {
		assert_int_equal(profile_location__set_name(&p->locations[i], "libgone.so+0x10"),
				 0);
		p->locations[i].reason = UNRESOLVED_NO_FILE;
	}
	frames = calloc(3, sizeof(*frames));
	frames[0] = (struct profile_frame){strdup("inner<int>"), strdup("b.h"), 3};
	frames[1] = (struct profile_frame){strdup("middle"), NULL, 0};
	frames[2] = (struct profile_frame){strdup("outer \xc3\xa9"), strdup("dir/a.c"), 70000};
	profile_location__set_frames(&p->locations[2], frames, 3); /* 0x400021 */
	p->locations[2].reason = UNRESOLVED_NAMED;
	return p;
}

static char *packed(const struct profile *profile, size_t *ret_len)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode_pprof(profile, &sink), 0);
	*ret_len = text.len;
	return text.bytes;
}

/* Returns the unpacked content of the gzip file. The caller calls free(). */
static uint8_t *unpacked(const char *bytes, size_t len, size_t *ret_len)
{
	uint8_t *plain = malloc(1 << 16);
	z_stream zip = {.next_in = (Bytef *)bytes,
			.avail_in = (uInt)len,
			.next_out = plain,
			.avail_out = 1 << 16};

	assert_int_equal(inflateInit2(&zip, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	*ret_len = zip.total_out;
	inflateEnd(&zip);
	return plain;
}

static struct profile *round_trip(const struct profile *profile)
{
	size_t len;
	char *bytes = packed(profile, &len);
	struct profile *again = decoded_bytes(bytes, len);

	free(bytes);
	return again;
}

static void assert_same_facts(const struct profile *p, const struct profile *q)
{
	for (size_t i = 0; i < n_pprof_facts; i++) {
		double x = pprof_fact__get(&pprof_facts[i], p),
		       y = pprof_fact__get(&pprof_facts[i], q);

		if (pprof_fact__is_absent(&pprof_facts[i], p))
			assert_true(pprof_fact__is_absent(&pprof_facts[i], q));
		else if (!(fabs(x - y) <= 1e-9 * fabs(x)))
			fail_msg("%s: %.17g is not %.17g", pprof_facts[i].key, y, x);
	}
	assert_true(p->free_calls == q->free_calls); /* as integers: a double is less exact */
	assert_int_equal(p->what, q->what);
	assert_int_equal(p->mode, q->mode);
	assert_string_equal(p->comm, q->comm);
	assert_string_equal(p->exe, q->exe);
	assert_string_equal(p->refused, q->refused);
	assert_int_equal(p->interval_bytes, q->interval_bytes);
	assert_true(p->start_unix_ns == q->start_unix_ns);
	assert_near(q->duration_s, p->duration_s, 1e-12);
	assert_int_equal(p->growth.stacks_known, q->growth.stacks_known);
	assert_int_equal(p->life.heights_known, q->life.heights_known);
	assert_int_equal(p->life.living_known, q->life.living_known);
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		assert_near(q->survival_age_s[i], p->survival_age_s[i], 1e-5);
}

/* The file stores these figures exactly. (It rounds figures in labels.) */
static void assert_same_life(const struct site_life *a, const struct site_life *b)
{
	assert_true(a->low_objects == b->low_objects && a->low_bytes == b->low_bytes);
	assert_true(a->high_objects == b->high_objects && a->high_bytes == b->high_bytes);
	assert_memory_equal(a->living, b->living, sizeof(a->living));
	assert_memory_equal(&a->half_life, &b->half_life, sizeof(a->half_life));
}

static void assert_same_sites(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_sites, q->n_sites);
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *a = &p->sites[i], *b = &q->sites[i];

		/* the file rounds the values of a sample to 1 / 65536 */
		assert_true(fabs(a->live.bytes - b->live.bytes) < 1e-4);
		assert_true(fabs(a->live.objects - b->live.objects) < 1e-4);
		if (a->live.most > 0)
			assert_near(b->live.most, a->live.most, 1);
		assert_true(fabs(b->live.least - a->live.least) <= 0.5);
		assert_true(fabs(a->alloc_bytes - b->alloc_bytes) < 1e-4);
		assert_true(fabs(a->alloc_objects - b->alloc_objects) < 1e-4);
		assert_true(fabs(a->freed_bytes - b->freed_bytes) < 1e-4);
		assert_true(fabs(a->freed_objects - b->freed_objects) < 1e-4);
		assert_same_life(&a->life, &b->life);
		assert_int_equal(a->live.samples, b->live.samples);
		assert_int_equal(a->live.sampled_bytes, b->live.sampled_bytes);
		assert_near(b->live.variance, a->live.variance, 1e-4);
		assert_near(b->live.variance_max, a->live.variance_max, 1e-4);
		assert_near(estimate__squares(&b->live), estimate__squares(&a->live), 0.011);
		assert_int_equal(a->complete, b->complete);
		assert_int_equal(a->truncated, b->truncated);
		assert_int_equal(a->allocators_own, b->allocators_own);
		assert_near(sqrt(b->alloc_variance), sqrt(a->alloc_variance), 1);
		assert_near(b->alloc_common, a->alloc_common, 1);
		assert_int_equal(a->replaces, b->replaces);
		assert_true(a->peak_bytes == b->peak_bytes);
		assert_true(a->peak_objects == b->peak_objects);
		for (int k = 0; k < PROFILE_AGES; k++)
			assert_true(a->life.ended[k] == b->life.ended[k]);
		assert_int_equal(a->n_locations, b->n_locations);
		for (uint32_t k = 0; k < a->n_locations; k++)
			assert_true(p->locations[a->locations[k]].addr ==
				    q->locations[b->locations[k]].addr);
		assert_int_equal(a->n_blocks, b->n_blocks);
		for (size_t k = 0; k < a->n_blocks; k++) {
			assert_true(a->blocks[k].addr == b->blocks[k].addr);
			assert_true(a->blocks[k].size == b->blocks[k].size);
		}
		assert_int_equal(a->n_threads, b->n_threads);
		for (size_t k = 0; k < a->n_threads; k++) {
			assert_int_equal(p->threads[a->threads[k].thread].tid,
					 q->threads[b->threads[k].thread].tid);
			assert_true(fabs(a->threads[k].bytes - b->threads[k].bytes) < 1e-4);
			assert_true(fabs(a->threads[k].objects - b->threads[k].objects) < 1e-4);
		}
		if (!p->growth.stacks_known)
			continue;
		assert_true(fabs(a->growth.bytes_per_s - b->growth.bytes_per_s) < 1 / 3600.0);
		assert_int_equal(isnan(a->growth.low), isnan(b->growth.low));
		assert_true(isnan(a->growth.low) ||
			    fabs(a->growth.low - b->growth.low) < 1 / 3600.0);
		assert_true(isnan(a->growth.low) ||
			    fabs(a->growth.high - b->growth.high) < 1 / 3600.0);
		for (int k = 0; k < PROFILE_SURVIVAL_AGES; k++)
			assert_true((isnan(a->survival[k]) && isnan(b->survival[k])) ||
				    fabs(a->survival[k] - b->survival[k]) < 1e-6);
		for (int k = 0; k < PROFILE_SURVIVAL_AGES; k++)
			assert_true((isnan(a->older[k]) && isnan(b->older[k])) ||
				    fabs(a->older[k] - b->older[k]) < 1e-6);
	}
}

static void assert_same_locations(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_locations, q->n_locations);
	for (size_t i = 0; i < p->n_locations; i++) {
		const struct profile_location *a = &p->locations[i], *b = &q->locations[i];

		assert_true(a->addr == b->addr);
		assert_int_equal(a->reason, b->reason);
		assert_int_equal(a->n_frames, b->n_frames);
		for (size_t k = 0; k < a->n_frames; k++) {
			assert_string_equal(a->frames[k].name, b->frames[k].name);
			assert_int_equal(!a->frames[k].file, !b->frames[k].file);
			if (a->frames[k].file)
				assert_string_equal(a->frames[k].file, b->frames[k].file);
			assert_int_equal(a->frames[k].line, b->frames[k].line);
		}
		assert_int_equal(a->mapping < 0, b->mapping < 0);
		if (a->mapping >= 0) {
			const struct profile_mapping *x = &p->mappings[a->mapping],
						     *y = &q->mappings[b->mapping];

			assert_true(x->start == y->start && x->end == y->end && x->off == y->off);
			assert_string_equal(x->path, y->path);
			assert_int_equal(x->deleted, y->deleted);
			assert_int_equal(!x->build_id, !y->build_id);
			if (x->build_id)
				assert_string_equal(x->build_id, y->build_id);
		}
	}
}

/* The file stores transfers exactly. */
static void assert_same_transfers(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_transfers, q->n_transfers);
	for (size_t i = 0; i < p->n_transfers; i++) {
		const struct profile_transfer *a = &p->transfers[i], *b = &q->transfers[i];

		assert_int_equal(a->owner, b->owner);
		assert_int_equal(a->freer, b->freer);
		assert_true(a->samples == b->samples && a->objects == b->objects &&
			    a->bytes == b->bytes);
	}
}

static void assert_same_resident(const struct resident *a, const struct resident *b)
{
	assert_non_null(b);
	assert_int_equal(a->n, b->n);
	assert_true(a->smaps_bytes == b->smaps_bytes && a->vmrss_bytes == b->vmrss_bytes &&
		    a->heap_bytes == b->heap_bytes && a->swap_bytes == b->swap_bytes &&
		    a->huge_bytes == b->huge_bytes && a->hugetlb_bytes == b->hugetlb_bytes);
	assert_true(a->heap_split == b->heap_split && a->heap_windowed == b->heap_windowed &&
		    a->from_start == b->from_start && a->followed == b->followed);
	assert_true(a->stopped_s.value == b->stopped_s.value && a->skipped == b->skipped);
	assert_non_null(b->census);
	assert_memory_equal(a->census, b->census, sizeof(*a->census));
	assert_string_equal(a->census_failed, b->census_failed);
	for (size_t i = 0; i < a->n; i++) {
		const struct resident_row *x = &a->rows[i], *y = &b->rows[i];

		assert_int_equal(x->kind, y->kind);
		assert_string_equal(x->name, y->name);
		assert_true(x->bytes == y->bytes && x->anonymous == y->anonymous &&
			    x->swap == y->swap && x->mappings == y->mappings);
		assert_memory_equal(&x->interval, &y->interval, sizeof(x->interval));
	}
}

static void assert_same_probes(const struct profile *p, const struct profile *q)
{
	assert_int_equal(p->n_probes, q->n_probes);
	for (size_t i = 0; i < p->n_probes; i++) {
		const struct profile_probe *a = &p->probes[i], *b = &q->probes[i];

		assert_string_equal(a->function, b->function);
		assert_string_equal(a->object, b->object);
		assert_string_equal(a->instruction, b->instruction);
		assert_string_equal(a->kind, b->kind);
		assert_true(a->offset == b->offset && a->emulated == b->emulated &&
			    a->cost_ns == b->cost_ns);
	}
}

static void all_of_our_own_comes_back(void **state)
{
	struct profile *profile = rich(), *again = round_trip(profile), *third;
	size_t len, len_again;
	char *bytes, *bytes_again;

	(void)state;
	assert_same_facts(profile, again);
	assert_same_sites(profile, again);
	assert_same_locations(profile, again);
	assert_false(again->leaf_holds);
	assert_int_equal(again->own_version, PPROF_OWN_VERSION);
	assert_int_equal(again->n_threads, 3);
	assert_string_equal(again->threads[1].name, "worker");
	assert_int_equal(again->threads[2].tid, 12);
	assert_string_equal(again->threads[2].name, "holds nothing");
	assert_same_transfers(profile, again);
	assert_same_resident(profile->resident, again->resident);
	assert_same_why(profile, again);
	assert_same_probes(profile, again);
	assert_string_equal(again->not_traced, profile->not_traced);
	assert_int_equal(again->n_mappings, 2); /* no stack goes through the third mapping */
	assert_int_equal(again->lost.n, 1);
	assert_int_equal(profile__lost_count(again, "live_full"), 17);
	assert_int_equal(again->run->lost.n, 1);
	assert_int_equal(profile_counters__count(&again->run->lost, "files_refused"), 2);
	/* a second round trip changes nothing */
	third = round_trip(again);
	bytes = packed(again, &len);
	bytes_again = packed(third, &len_again);
	assert_int_equal(len, len_again);
	assert_memory_equal(bytes, bytes_again, len);
	free(bytes);
	free(bytes_again);
	profile__free(third);
	profile__free(again);
	profile__free(profile);
}

/* Appends fields to a file of memtrace. The error must name a byte and contain the text `why`. If
 * why is NULL, there must be no error. */
static void assert_own(const char *fields, size_t len, const char *why)
{
	struct profile *profile = rich(), *again;
	size_t n, packed_len;
	char *bytes = packed(profile, &packed_len), text[200];
	uint8_t *plain = unpacked(bytes, packed_len, &n);

	memcpy(plain + n, fields, len);
	snprintf(text, sizeof(text), "FILE: byte %s", why ? why : "");
	if (!why) {
		again = decoded_bytes(plain, n + len);
		assert_same_sites(profile, again);
		profile__free(again);
	} else {
		struct error err = {};

		assert_int_equal(decode_bytes("FILE", plain, n + len, &again, &err), -EINVAL);
		if (!strstr(err.text, why))
			fail_msg("%s: not in %s", why, err.text);
	}
	free(plain);
	free(bytes);
	profile__free(profile);
}

#define OWN(fields, why) assert_own(fields, sizeof(fields) - 1, why)
#define TRANSFER	 "\xda\x3e" /* 1003 */
#define RESIDENT	 "\xe2\x3e" /* 1004 */

/* A sample of the first location. The bytes that follow the macro are the sample's list of
 * blocks. */
#define BLOCKS(len_of_sample, len_of_stack, len)                                                   \
	"\x12" len_of_sample "\x0a\x01\x01\x12\x08\0\0\0\0\0\0\0\0\xca\x3e" len_of_stack "\x42" len

static void own_fields_may_be_hostile(void **state)
{
	(void)state;
	OWN(BLOCKS("\x14", "\x04", "\x02") "\x02\x01", "an impossible number"); /* size -1 */
	OWN(BLOCKS("\x14", "\x04", "\x02") "\x02\x80", "");
	OWN("\xc0\x3e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", NULL); /* version */
	OWN("\x80\x3f\x01\x8a\x3f\x02hi", NULL); /* fields 1008, 1009: of a later version */
	OWN("\xc2\x3e\x00", "bytes instead of a number");
	OWN("\xd8\x3e\x00", "a number instead of a message");
	OWN("\xd2\x3e\x05\x08\x07\x10\xff\x7f", "a text that is not in the table of strings");
	OWN(TRANSFER "\x16\x08\x07\x10\x08\x22\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\xf0\x3f", NULL);
	OWN(TRANSFER "\x16\x08\x07\x10\x08\x22\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\xf8\x7f",
	    "an impossible number"); /* NaN */
	OWN(TRANSFER "\x16\x08\x07\x10\x08\x22\x10\0\0\0\0\0\0\xf0\xbf\0\0\0\0\0\0\xf0\x3f",
	    "an impossible number"); /* -1 */
	OWN(TRANSFER "\x16\x08\x07\x10\x08\x22\x10\0\0\0\0\0\0\xf0\x7f\0\0\0\0\0\0\xf0\x3f",
	    "an impossible number"); /* infinite */
	OWN(TRANSFER "\x0e\x08\x07\x10\x08\x22\x08\0\0\0\0\0\0\xf0\x3f",
	    "fewer numbers than there should be");
	OWN(TRANSFER "\x04\x08\x07\x20\x08", "a number instead of a message");
	OWN(RESIDENT "\0", NULL);
	OWN(RESIDENT "\x02\x28\x01", "a resident set without its heap"); /* heap_split */
	OWN(RESIDENT "\x06\x5a\x04\x18\x02\x10\0", NULL);
	OWN(RESIDENT "\x0f\x5a\x0d\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\0",
	    "more in the resident set than any machine has"); /* INT64_MIN */
	OWN(RESIDENT "\x0d\x5a\x0b\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	    "more in the resident set than any machine has");
	OWN(RESIDENT "\x04\x62\x02\x08\x01", NULL);		    /* a census of one byte */
	OWN(RESIDENT "\x08\x62\x02\x08\x01\x62\x02\x08\x01", NULL); /* two censuses */
	OWN(RESIDENT "\x04\x62\x02\x10\x01",
	    "a census of the resident set that does not add up"); /* live bytes without any page */
	OWN(RESIDENT "\x0d\x62\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	    "a census of the resident set that does not add up");
	OWN(RESIDENT "\x02\x60\x01", "a number instead of a message");
	OWN(RESIDENT "\x03\x68\xff\x7f", "a text that is not in the table of strings");
	OWN(RESIDENT "\x05\x5a\x03\x10\xff\x7f", "a text that is not in the table of strings");
	OWN("\xea\x3e\x03\x08\xff\x7f", "a text that is not in the table of strings");
	OWN("\xf2\x3e\x00", "bytes instead of a number");
	OWN("\xf8\x3e\x08", "a number instead of a message");
	OWN("\xfa\x3e\x03\x08\xff\x7f", "a text that is not in the table of strings");
	OWN(TRANSFER "\x02\x10\x08", "an impossible thread number");
	OWN(TRANSFER "\x08\x08\x80\x80\x80\x80\x08\x10\x08", "an impossible thread number");
}

/* A file has at most ORIGINS_MAX_KNOWN blocks, which are chosen evenly from all stacks. */
static void many_blocks_are_thinned_out(void **state)
{
	enum { N = ORIGINS_MAX_KNOWN };
	struct profile *profile = rich(), *again;
	size_t n = 0;

	(void)state;
	for (uint64_t i = 0; i < 3 * N; i++)
		assert_int_equal(profile__add_block(profile, i >= N, i << 12, 8), 0);
	again = round_trip(profile);
	for (size_t i = 0; i < again->n_sites; i++)
		n += again->sites[i].n_blocks;
	assert_int_equal(n, N);
	assert_in_range(again->sites[0].n_blocks, N / 3, N / 3 + 2);
	assert_in_range(again->sites[1].n_blocks, 2 * N / 3 - 2, 2 * N / 3 + 2);
	profile__free(again);
	profile__free(profile);
}

static void regions_and_faults_come_back(void **state)
{
	struct profile *profile = new_profile(1), *again;

	(void)state;
	profile->what = PROFILE_REGIONS;
	profile->regions.kind_bytes[REGION_OF_STACK] = 8192;
	profile->regions.earlier_gone_bytes = optional__of(0);
	profile->regions.stopped_s = optional__of(4.5);
	STACK(profile, 1, 8192, 1, "mmap", "pool", "main");
	end_profile(profile);
	again = round_trip(profile);
	assert_true(profile__is_regions(again));
	assert_near(again->regions.kind_bytes[REGION_OF_STACK], 8192, 0);
	assert_true(again->regions.earlier_gone_bytes.known);
	assert_true(again->regions.earlier_gone_bytes.value == 0);
	assert_near(optional__or_nan(again->regions.stopped_s), 4.5, 0);
	profile__free(again);
	profile->what = PROFILE_FAULTS;
	profile->resident_change_bytes = optional__of(-123);
	again = round_trip(profile);
	assert_true(profile__is_faults(again));
	assert_near(optional__or_nan(again->resident_change_bytes), -123, 0);
	assert_false(again->regions.earlier_gone_bytes.known || again->regions.stopped_s.known);
	profile__free(again);
	profile->resident_change_bytes = (struct optional){};
	again = round_trip(profile);
	assert_false(again->resident_change_bytes.known);
	profile__free(again);
	profile__free(profile);
}

/* In files of older versions of memtrace the name of faults is "growth". */
static void faults_are_read_by_their_old_name(void **state)
{
	static const char name[] = "what: faults", old[] = "what: growth";
	struct profile *profile = new_profile(1), *again;
	uint8_t *plain, *at;
	size_t len;
	char *bytes;

	(void)state;
	profile->what = PROFILE_FAULTS;
	profile->resident_change_bytes = optional__of(8192);
	STACK(profile, 1, 4096, 1, "memset", "f", "main");
	end_profile(profile);
	bytes = packed(profile, &len);
	plain = unpacked(bytes, len, &len);
	at = memmem(plain, len, name, strlen(name));
	assert_non_null(at);
	memcpy(at, old, strlen(old));
	again = decoded_bytes(plain, len);
	assert_true(profile__is_faults(again));
	assert_int_equal(again->what, PROFILE_FAULTS);
	assert_near(optional__or_nan(again->resident_change_bytes), 8192, 0);
	free(bytes);
	free(plain);
	profile__free(again);
	profile__free(profile);
}

/* Totals stay right even if the bytes of many stacks are not integers. */
static void totals_are_kept(void **state)
{
	struct profile *profile = new_profile(524288), *again;
	struct estimate live, live_again;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		STACK(profile, (uint32_t)(i % 7), (uint64_t)(24 + 8 * i), 1 + i % 3, "malloc", name,
		      "main");
		profile->sites[i].alloc_bytes = profile->sites[i].live.bytes * 1.37;
		profile->sites[i].alloc_objects = profile->sites[i].live.objects * 1.37;
	}
	end_profile(profile);
	again = round_trip(profile);
	live = profile__live(profile);
	live_again = profile__live(again);
	assert_true(fabs(live.bytes - live_again.bytes) <= 0.5 + 1e-6 * live.bytes / 1e6);
	assert_true(fabs(live.objects - live_again.objects) <= 0.5 + 1e-6);
	assert_int_equal(live.samples, live_again.samples);
	assert_int_equal(live.sampled_bytes, live_again.sampled_bytes);
	assert_near(live_again.variance, live.variance, 1e-6);
	assert_near(estimate__interval(&live_again).low, estimate__interval(&live).low, 1e-5);
	assert_near(estimate__interval(&live_again).high, estimate__interval(&live).high, 1e-5);
	profile__free(again);
	profile__free(profile);
}

/* Adds a site: main calls f, and f calls malloc at this address. */
static size_t add_call(struct profile *profile, uint64_t addr)
{
	static const char *const names[] = {"f", "main"};

	return add_site_at(profile, (const uint64_t[]){addr, 0x5000}, names, 2);
}

/* Makes a profile, writes it to a file and reads it back. One call in f holds n blocks of 100 MB,
 * and another call in f holds 200 small blocks. Only the small blocks differ in size, so the file
 * has only their sum of squares. */
static struct profile *of_two_calls(int n)
{
	struct profile *profile = new_profile(1), *again;
	size_t large = add_call(profile, 0x1000), small = add_call(profile, 0x2000), thread;

	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(profile__add_live(profile, large, thread, 100000000), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(profile__add_live(profile, small, thread, i % 2 ? 64 : 4096), 0);
	end_profile(profile);
	again = round_trip(profile);
	profile__free(profile);
	return again;
}

/* One more large block may be chance, even if the same function holds small blocks as well. */
static void the_weight_of_large_blocks_is_kept(void **state)
{
	struct profile *one = of_two_calls(1), *two = of_two_calls(2);
	const struct profile *both[] = {one, two};
	struct error err = {};
	struct diff *diff;

	(void)state;
	assert_int_equal(one->n_sites, 2);
	assert_int_equal(diff__new(both, 2, DIFF_LIVE, &diff, &err), 0);
	assert_int_equal(diff->n_stacks, 1);
	assert_near(diff->stacks[0].change.bytes, 1e8, 1e-6);
	/* Two of three events are on the second side. The chance of all three is 1/8. The chance of
	 * exactly two is 3/8, and half of it counts: 3/16. */
	assert_near(diff->stacks[0].change.p_grows, 5 / 16.0, 1e-3);
	assert_int_equal(diff->n_grow, 0);
	diff__free(diff);
	profile__free(one);
	profile__free(two);
}

/* Figures too large for an integer do not overflow in any sum over all samples. */
static void huge_numbers_saturate(void **state)
{
	struct profile *profile = new_profile(65536), *again;

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "f");
	STACK(profile, 1, 100, 1, "malloc", "g");
	for (int i = 0; i < 2; i++) {
		profile->sites[i].live.variance = 1e300;
		profile->sites[i].live.variance_max = 1e300;
		profile->sites[i].growth = (struct growth){1e300, -1e300, 1e300};
	}
	profile->growth.stacks_known = true;
	end_profile(profile);
	again = round_trip(profile);
	for (int i = 0; i < 2; i++) {
		assert_true(again->sites[i].live.variance >= 0);
		assert_true(again->sites[i].growth.bytes_per_s > 1e14);
		assert_true(again->sites[i].growth.low < -1e14);
	}
	profile__free(again);
	profile__free(profile);
}

/* If a run sampled nothing, its allocated figures are known: they are 0. Figures that a filter by
 * thread has taken away are not known. */
static void nothing_is_not_unknown(void **state)
{
	struct profile *profile = new_profile(524288), *again;

	(void)state;
	end_profile(profile);
	again = round_trip(profile);
	assert_int_equal(again->n_sites, 0);
	assert_false(again->no_allocated);
	profile__free(again);
	assert_int_equal(profile__add_lost(profile, "filtered_bytes", 5), 0);
	again = round_trip(profile);
	assert_true(again->no_allocated);
	profile__free(again);
	profile__free(profile);
	profile = new_profile(524288);
	STACK(profile, 1, 100, 1, "malloc", "f");
	profile->no_allocated = true;
	end_profile(profile);
	again = round_trip(profile);
	assert_true(again->no_allocated);
	profile__free(again);
	profile__free(profile);
}

/* After collapsed -> pprof -> collapsed, unknown figures are still unknown. */
static void what_was_unknown_stays_unknown(void **state)
{
	static const char text[] = "main;f 10\nmain;g 5\n";
	struct profile *profile = decoded(text), *again = round_trip(profile);
	char *collapsed = encoded(encode_collapsed, again);

	(void)state;
	assert_string_equal(collapsed, text);
	assert_true(again->no_objects && again->no_allocated && again->leaf_holds);
	assert_int_equal(again->interval_bytes, 0);
	assert_int_equal(again->mode, MODE_UNKNOWN);
	free(collapsed);
	profile__free(again);
	profile__free(profile);
}

static char *diff_of(const struct profile *a, const struct profile *b,
		     int (*encode)(const struct diff *diff, struct sink *sink))
{
	const struct profile *both[] = {a, b};
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};
	struct diff *diff;

	if (diff__new(both, 2, DIFF_AUTO, &diff, &err))
		return strdup(err.text);
	assert_int_equal(encode(diff, &sink), 0);
	diff__free(diff);
	return text.bytes;
}

static int encode_diff_lines(const struct diff *diff, struct sink *sink)
{
	const struct table_options options = {};

	return encode_diff(diff, &options, sink);
}

/* Stacks in files of heap -f and why -f were not recorded by tracing. What is printed for such a
 * file must not call them recorded. */
static void what_was_drawn_is_told(void **state)
{
	static const struct {
		enum profile_drawn drawn;
		const char *head, *diff;
	} cases[] = {
		{DRAWN_PATHS,
		 "memtrace: pid 7 (p), below a root: what it leads to\n"
		 "the blocks asked for, by who holds them; some may be lost: 300 B in 3 blocks\n",
		 "\nthe blocks asked for, by who holds them; some may be lost: 300 B to 300 B, "},
		{DRAWN_ORIGINS,
		 "memtrace: pid 7 (p), functions are those of sampled blocks that look alike\n"
		 "blocks in use, by who probably made them: 300 B in 3 blocks\n",
		 "\nblocks in use, by who probably made them: 300 B to 300 B, "},
		{DRAWN_CENSUS,
		 "memtrace: pid 7 (p), usable bytes; sizes are groups\n"
		 "blocks of the heap, by place, class and size: 300 B in 3 blocks\n",
		 "\nblocks of the heap, by place, class and size: 300 B to 300 B, "},
	};
	struct profile *before = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct drawing drawing;
		struct profile *profile, *again;
		char *text;

		assert_int_equal(drawing__begin(&drawing, cases[i].drawn, 7, "p"), 0);
		assert_int_equal(drawing__add_frame(&drawing, "root"), 0);
		assert_int_equal(drawing__add_blocks(&drawing, 3, 300), 0);
		assert_int_equal(drawing__finish(&drawing, &profile), 0);
		drawing__end(&drawing);
		again = round_trip(profile);
		profile__free(profile);
		assert_int_equal(again->drawn, cases[i].drawn);
		assert_true(again->no_allocated);
		text = table_of(again, (struct table_options){.width = 200});
		if (strncmp(text, cases[i].head, strlen(cases[i].head)))
			fail_msg("%s\nis not the head of\n%s", cases[i].head, text);
		free(text);
		text = diff_of(again, again, encode_diff_lines);
		assert_has(text, cases[i].diff);
		assert_null(strstr(text, "every allocation"));
		free(text);
		text = diff_of(again, again, encode_diff_json);
		assert_has(text, "\"exact\":false");
		assert_has(text, profile_drawn__name(cases[i].drawn));
		free(text);
		if (before) {
			text = diff_of(before, again, encode_diff_lines);
			assert_has(text, "they do not count the same thing");
			free(text);
			profile__free(before);
		}
		before = again;
	}
	profile__free(before);
}

static struct profile *interval_of(const struct profile *profile,
				   const struct encode_interval *interval)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct profile *part;

	assert_int_equal(encode_pprof_interval(profile, interval, &sink), 0);
	part = decoded_bytes(text.bytes, text.len);
	free(text.bytes);
	return part;
}

/* A file of the agent has the changes of two seconds. The file says so, and claims nothing about
 * the whole run. */
static void a_part_of_a_run_is_told(void **state)
{
	static const double allocated[][2] = {{10, 3000}, {0, 0}}, gained[][2] = {{1, 300}, {0, 0}};
	struct encode_interval interval = {.from_ns = 5000000000,
					   .until_ns = 7000000000,
					   .allocated = allocated,
					   .live = gained,
					   .most_sites = SIZE_MAX};
	struct profile *profile = rich(), *part, *again;
	struct contradictions doubts;
	char *text;

	(void)state;
	/* These are facts of the run. The part has small amounts, which would contradict them. */
	profile->mode = MODE_CONTINUOUS;
	profile->alloc_calls = 1000000;
	profile->samples = 1000;
	profile->interval_bytes = 1;
	part = interval_of(profile, &interval);
	assert_int_equal(part->part, PART_CHANGE);
	assert_int_equal(part->mode, MODE_CONTINUOUS);
	assert_string_equal(part->comm, profile->comm);
	assert_string_equal(part->exe, profile->exe);
	assert_int_equal(profile__lost_count(part, "live_full"), 17);
	assert_int_equal(part->alloc_calls, 0);
	assert_int_equal(part->killed_by_signal, 0);
	assert_false(part->overhead_pct.known || part->growth.bytes_per_s.known ||
		     part->peak.known);
	doubts = profile__contradictions(part);
	assert_int_equal(doubts.n, 0);
	text = table_of(part, (struct table_options){.width = 200});
	assert_has(text, "memtrace: leaky, change within 2.0 s of a run, every allocation "
			 "recorded\nallocated in this time: 2.9 KiB; gained: 300 B\n");
	assert_null(strstr(text, "live heap"));
	free(text);
	text = diff_of(part, part, encode_diff_lines);
	assert_has(text, "profile 1 is only of an interval");
	free(text);
	assert_has(leaks__refusal(part), "is only of an interval");
	again = round_trip(part); /* as report -f pprof writes it */
	assert_int_equal(again->part, PART_CHANGE);
	assert_int_equal(again->alloc_calls, 0);
	profile__free(again);
	profile__free(part);
	/* the sampling interval does not give the error of a difference */
	profile->interval_bytes = 65536;
	part = interval_of(profile, &interval);
	assert_int_equal(part->interval_bytes, 0);
	profile__free(part);
	/* as it is pushed: live memory, and what was allocated since the last push */
	interval.live = NULL;
	part = interval_of(profile, &interval);
	assert_int_equal(part->part, PART_LIVE);
	assert_int_equal(part->interval_bytes, 65536);
	text = table_of(part, (struct table_options){.width = 200});
	assert_has(text, "allocated in this time: 2.9 KiB; live at its end: ");
	free(text);
	profile__free(part);
	profile__free(profile);
}

static void what_is_wrong_is_told(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text;
	} cases[] = {
#define CASE(bytes, text) {bytes, sizeof(bytes) - 1, text}
		CASE("\x0a\x7f\x00",
		     "FILE: byte 0: a field is longer than what is left (a file that is not text "
		     "is read as pprof)"),
		CASE("\x08",
		     "FILE: byte 1: a number is cut short (a file that is not text is read as "
		     "pprof)"),
		CASE("\x0b\x00",
		     "FILE: byte 0: no field of a pprof profile (a file that is not text is read "
		     "as pprof)"),
		CASE("\x02\x00",
		     "FILE: byte 0: no field of a pprof profile (a file that is not text is read "
		     "as pprof)"),
		CASE("\x7f"
		     "ELF\x02\x01\x01\0",
		     "FILE: byte 0: no field of a pprof profile (a file that is not text is read "
		     "as pprof)"),
		CASE("\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		     "FILE: byte 1: a number is longer than 64 bits (a file that is not text is "
		     "read as pprof)"),
		CASE("\x32\x00",
		     "FILE: is neither a pprof profile (it has no sample_type), nor heap_v2, "
		     "nor collapsed stacks"),
		CASE("\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x03"
		     "cpu\x32\x0bnanoseconds",
		     "FILE: is a pprof profile of something else (cpu): it has no inuse_space in "
		     "bytes"),
		CASE(TYPES "\x12\x06\x0a\x01\x2d\x12\x01\x01" GOOD,
		     "FILE: byte 14: a reference to a missing location"),
		CASE(TYPES "\x12\x06\x0a\x01\x2c\x12\x01\x01" GOOD,
		     "FILE: byte 12: a sample with fewer values than types of them"),
		CASE(TYPES "\x12\x08\x0a\x01\x2c\x12\x03\x01\x01\x01" GOOD,
		     "FILE: byte 17: a sample with more values than types of them"),
		CASE(TYPES "\x12\x10\x0a\x01\x2c\x12\x0b\x01\xff\xff\xff"
			   "\xff\xff\xff\xff\xff\xff\x01" GOOD,
		     "FILE: byte 12: a negative value: it is the difference of two profiles"),
		CASE(TYPES "\x12\x0d\x0a\x01\x2c\x12\x02\x01\x01\x1a\x04\x08\x63\x10\x0c" GOOD,
		     "FILE: byte 23: a text that is not in the table of strings"),
		CASE(TYPES GOOD "\x22\x02\x08\x2a", "FILE: byte 204: an id that occurs twice"),
		CASE(TYPES GOOD "\x22\x02\x18\x2a",
		     "FILE: byte 202: a table's entry without an id"),
		CASE(TYPES GOOD "\x22\x04\x08\x2d\x10\x06",
		     "FILE: byte 206: a reference to a missing mapping"),
		CASE(TYPES GOOD
		     "\x22\x06\x08\x2d\x22\x02\x08\x07\x12\x07\x0a\x01\x2d\x12\x02\x01\x01",
		     "FILE: byte 206: a reference to a missing function"),
		CASE(TYPES GOOD "\x20\x01",
		     "FILE: byte 202: a number instead of a message (a file that is not text is "
		     "read as pprof)"),
		CASE(TYPES GOOD "\x4a\x01\x00",
		     "FILE: byte 202: bytes instead of a number (a file that is not text is read "
		     "as pprof)"),
#undef CASE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused_bytes(cases[i].bytes, cases[i].len, cases[i].text);
}

/* As in merged profiles: two mappings overlap, and two locations have one address. */
static void odd_addresses_do_no_harm(void **state)
{
	static const char odd[] = TYPES
		"\x12\x09\x0a\x03\x2a\x2c\x2e\x12\x02\x01\x05" /* 42 44 46 */
		GOOD
		"\x1a\x0a\x08\x06\x10\x80\x30\x18\x80\x50\x28\x08" /* mapping 6: 0x1800 to 0x2800 */
		"\x22\x07\x08\x2e\x10\x06\x18\x90\x40"		   /* 46: 0x2010, in 6 */
		"\x22\x07\x08\x2f\x10\x05\x18\x90\x20"		   /* 47: 0x1010, as 42 */
		"\x12\x07\x0a\x01\x2f\x12\x02\x01\x03";
	struct profile *profile = decoded_bytes(odd, sizeof(odd) - 1);

	(void)state;
	assert_int_equal(profile->n_mappings, 1);
	assert_site(profile, 0, 5, 1, "main.f < prog+0x30 < prog+0x810");
	assert_site(profile, 1, 3, 1, "prog+0x10");
	profile__free(profile);
}

static void damage_does_no_harm(void **state)
{
	struct profile *profile = rich();
	size_t len, plain_len;
	char *bytes = packed(profile, &len);
	uint8_t *plain = unpacked(bytes, len, &plain_len);

	(void)state;
	survives_damage((const uint8_t *)foreign, sizeof(foreign) - 1, 3000);
	survives_damage(plain, plain_len, 3000);
	/* gzip's length and checksum reveal all such damage */
	for (size_t i = 0; i < len; i++)
		assert_false(survives((const uint8_t *)bytes, i));
	assert_refused_bytes(bytes, 20,
			     "FILE: byte 20: the gzip stream was cut short: its end is missing");
	bytes[len - 8] ^= 1;
	assert_false(survives((const uint8_t *)bytes, len));
	bytes[len - 8] ^= 1;
	/* two files, one after the other, are read as one message */
	bytes = realloc(bytes, 2 * len);
	memcpy(bytes + len, bytes, len);
	assert_false(survives((const uint8_t *)bytes, 2 * len)); /* the file has each id twice */
	free(plain);
	free(bytes);
	profile__free(profile);
}

/* A thread number too large for the kernel must not be mixed up with another thread. */
static void large_tids_are_kept_apart(void **state)
{
	static const char file[] = TYPES GOOD
		"\x32\x03tid"
		"\x12\x0f\x0a\x01\x2a\x12\x02\x01\x05\x1a\x06\x08\x0d\x18\x07\x20\x00"
		"\x12\x13\x0a\x01\x2a\x12\x02\x01\x05\x1a\x0a\x08\x0d\x18\x87\x80\x80\x80\x10\x20"
		"\x00" /* 2^32 + 7 */
		"\x12\x13\x0a\x01\x2a\x12\x02\x01\x05\x1a\x0a\x08\x0d\x18\x87\x80\x80\x80\x20\x20"
		"\x00"; /* 2^33 + 7 */
	struct profile *profile = decoded_bytes(file, sizeof(file) - 1);

	(void)state;
	assert_int_equal(profile->n_threads, 3);
	assert_int_equal(profile->threads[0].tid, 7);
	assert_int_equal(profile->sites[0].n_threads, 3);
	for (int i = 0; i < 3; i++)
		assert_near(profile->sites[0].threads[i].bytes, 5, 1e-9);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_profiles_are_read),
		cmocka_unit_test(all_of_our_own_comes_back),
		cmocka_unit_test(own_fields_may_be_hostile),
		cmocka_unit_test(many_blocks_are_thinned_out),
		cmocka_unit_test(regions_and_faults_come_back),
		cmocka_unit_test(faults_are_read_by_their_old_name),
		cmocka_unit_test(totals_are_kept),
		cmocka_unit_test(the_weight_of_large_blocks_is_kept),
		cmocka_unit_test(huge_numbers_saturate),
		cmocka_unit_test(nothing_is_not_unknown),
		cmocka_unit_test(what_was_unknown_stays_unknown),
		cmocka_unit_test(what_was_drawn_is_told),
		cmocka_unit_test(a_part_of_a_run_is_told),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(odd_addresses_do_no_harm),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(large_tids_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
