// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/json.h"
#include "encode/text.h"

void json__comma(struct json *json)
{
	if (!json->first)
		sink__puts(json->sink, ",");
	json->first = false;
}

/* Writes a string without its quotes. */
static void json__escaped(struct json *json, const char *text)
{
	const char *run = text;

	while (*text) {
		uint32_t code;
		size_t len = utf8_next(text, &code);

		if (len && !is_control(code) && code != '"' && code != '\\') {
			text += len;
			continue;
		}
		sink__write(json->sink, run, (size_t)(text - run));
		if (!len)
			sink__puts(json->sink, "\xef\xbf\xbd"); /* U+FFFD */
		else if (is_control(code)) /* escaped for terminals; no control is above U+FFFF */
			sink__printf(json->sink, "\\u%04x", code);
		else
			sink__printf(json->sink, "\\%c", (char)code);
		text += len ? len : 1;
		run = text;
	}
	sink__write(json->sink, run, (size_t)(text - run));
}

void json__text(struct json *json, const char *text)
{
	sink__puts(json->sink, "\"");
	json__escaped(json, text);
	sink__puts(json->sink, "\"");
}

/* Writes "file:line". */
static void json__line(struct json *json, const struct profile_frame *frame)
{
	sink__puts(json->sink, "\"");
	json__escaped(json, frame->file);
	sink__printf(json->sink, ":%" PRIu32 "\"", frame->line);
}

void json__key(struct json *json, const char *key)
{
	json__comma(json);
	json__text(json, key);
	sink__puts(json->sink, ":");
}

struct json json__open(struct json *json, const char *key, const char *bracket)
{
	if (key)
		json__key(json, key);
	else
		json__comma(json);
	sink__puts(json->sink, bracket);
	return (struct json){.sink = json->sink, .first = true};
}

struct json json__open_document(struct sink *sink, const char *what)
{
	struct json document = {.sink = sink, .first = true};
	struct json json = json__open(&document, NULL, "{");

	json__put_uint(&json, "version", ENCODE_JSON_VERSION);
	json__put_text(&json, "what", what);
	return json;
}

void json__put_text(struct json *json, const char *key, const char *text)
{
	json__key(json, key);
	json__text(json, text ? text : "");
}

void json__put_uint(struct json *json, const char *key, uint64_t value)
{
	json__key(json, key);
	sink__printf(json->sink, "%" PRIu64, value);
}

/* Puts a number with three decimals. JSON has no infinities, so null stands for them. */
static void put_real(struct sink *sink, double value)
{
	if (isfinite(value))
		sink__printf(sink, "%.3f", value);
	else
		sink__puts(sink, "null");
}

void json__put_real(struct json *json, const char *key, double value)
{
	json__key(json, key);
	put_real(json->sink, value);
}

void json__put_item(struct json *list, double value)
{
	json__comma(list);
	put_real(list->sink, value);
}

void json__put_signed(struct json *json, const char *key, double value)
{
	json__key(json, key);
	if (isfinite(value))
		sink__printf(json->sink, "%.0f", value);
	else
		sink__puts(json->sink, "null");
}

void json__put_bool(struct json *json, const char *key, bool value)
{
	json__key(json, key);
	sink__puts(json->sink, value ? "true" : "false");
}

static void put_integer(struct json *json, const char *key, double value)
{
	if (isfinite(value))
		json__put_uint(json, key, to_integer(value));
	else
		json__put_real(json, key, NAN);
}

/* Puts live bytes with their interval. Ends that are not known are null. */
static void put_live(struct json *json, const struct estimate *live, const struct profile *profile)
{
	struct interval interval = profile__live_interval(profile, live);
	bool known = !profile__unknown_why(profile);

	put_integer(json, "live_bytes", known ? live->bytes : NAN);
	put_integer(json, "live_bytes_low", known ? interval.low : NAN);
	put_integer(json, "live_bytes_high", known ? interval.high : NAN);
	put_integer(json, "live_objects",
		    known && (live->objects > 0 || !(live->bytes > 0)) ? live->objects : NAN);
}

void json__put_lost(struct json *json, const struct profile *profile)
{
	struct json lost = json__open(json, "lost", "{");
	const struct profile_counter *counter;

	for (size_t i = 0; (counter = profile__loss(profile, i)); i++)
		json__put_uint(&lost, counter->name, counter->count);
	sink__puts(json->sink, "}");
}

void json__put_identity(struct json *json, const struct profile *profile)
{
	if (profile->file)
		json__put_text(json, "file", profile->file);
	json__put_uint(json, "pid", (uint64_t)profile->pid);
	json__put_text(json, "comm", profile->comm);
}

static void put_mode(struct json *json, const struct profile *profile)
{
	json__put_text(json, "mode", profile->mode ? profile_mode__name(profile->mode) : NULL);
	if (profile->drawn)
		json__put_text(json, "drawn", profile_drawn__name(profile->drawn));
	if (profile->part)
		json__put_text(json, "interval", profile_part__name(profile->part));
}

static void json__put_interval(struct json *json, const struct profile *profile)
{
	json__put_uint(json, "interval_bytes", profile->interval_bytes);
	if (profile->asked_interval_bytes)
		json__put_uint(json, "asked_interval_bytes", profile->asked_interval_bytes);
	if (profile->finest_interval_bytes)
		json__put_uint(json, "finest_interval_bytes", profile->finest_interval_bytes);
}

int json__put_profiles(struct json *json, const struct diff *diff)
{
	struct json list = json__open(json, "profiles", "[");
	int rc = 0;

	for (size_t i = 0; i < diff->n_profiles && !rc; i++) {
		const struct profile *profile = diff->profiles[i];
		struct json item = json__open(&list, NULL, "{");

		json__put_identity(&item, profile);
		json__put_real(&item, "start_unix_s",
			       profile->start_unix_ns ? (double)profile->start_unix_ns * 1e-9
						      : NAN);
		json__put_real(&item, "duration_s", profile->duration_s);
		json__put_interval(&item, profile);
		put_mode(&item, profile);
		json__put_lost(&item, profile);
		rc = json__put_contradictions(&item, profile);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
	return rc;
}

void json__put_warnings(struct json *json, unsigned warnings)
{
	struct json list = json__open(json, "warnings", "[");

	for (unsigned i = 0; i < DIFF_WARNINGS_MAX; i++) {
		if (!(warnings & 1u << i))
			continue;
		json__comma(&list);
		json__text(&list, diff_warning__text((enum diff_warning)i));
	}
	sink__puts(json->sink, "]");
}

void json__put_frames(struct json *stack, const struct profile *profile,
		      const struct profile_site *site)
{
	struct frame_walk names = {.profile = profile, .site = site}, lines = names;
	struct json list = json__open(stack, "frames", "[");
	bool any_line = false;
	const char *name;

	while ((name = frame_walk__next(&names))) {
		json__comma(&list);
		json__text(&list, name);
		any_line = any_line || (names.frame && names.frame->file);
	}
	sink__puts(stack->sink, "]");
	if (!any_line)
		return;
	list = json__open(stack, "lines", "[");
	while (frame_walk__next(&lines)) {
		json__comma(&list);
		if (lines.frame && lines.frame->file)
			json__line(&list, lines.frame);
		else
			sink__puts(list.sink, "null");
	}
	sink__puts(stack->sink, "]");
}

/* Puts [[age in seconds, share], ...]. */
static void put_shares(struct json *stack, const char *key, const struct profile *profile,
		       const double shares[PROFILE_SURVIVAL_AGES])
{
	struct json list = json__open(stack, key, "[");

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		struct json pair;

		if (!isfinite(shares[i]))
			continue;
		pair = json__open(&list, NULL, "[");
		json__put_item(&pair, profile->survival_age_s[i]);
		json__put_item(&pair, shares[i]);
		sink__puts(stack->sink, "]");
	}
	sink__puts(stack->sink, "]");
}

static void put_growth(struct json *json, const struct growth *growth)
{
	json__put_real(json, "growth_bytes_per_s", growth->bytes_per_s);
	json__put_real(json, "growth_low", growth->low);
	json__put_real(json, "growth_high", growth->high);
}

/* Puts the growth of the process's memory, and how much of this growth the stacks explain. */
static void put_process_growth(struct json *json, const struct profile *profile)
{
	const struct process_growth *growth = &profile->growth;
	struct json object = json__open(json, "process_growth", "{");
	double bytes_per_s = optional__or_nan(growth->bytes_per_s);

	json__put_real(&object, "bytes_per_s", bytes_per_s);
	if (!growth->stacks_known) { /* too few windows for the stacks' growth */
		sink__puts(json->sink, "}");
		return;
	}
	json__put_real(&object, "attributed", growth->attributed.bytes_per_s);
	json__put_real(&object, "attributed_low", growth->attributed.low);
	json__put_real(&object, "attributed_high", growth->attributed.high);
	json__put_real(&object, "regions", growth->regions);
	json__put_real(&object, "remainder",
		       bytes_per_s - growth->attributed.bytes_per_s - growth->regions);
	if (profile__is_windowed(profile)) {
		json__put_real(&object, "blocks_per_s", optional__or_nan(growth->blocks_per_s));
		json__put_real(&object, "blocks_low", optional__or_nan(growth->blocks_low));
		json__put_real(&object, "blocks_high", optional__or_nan(growth->blocks_high));
	}
	sink__puts(json->sink, "}");
}

static void put_ages(struct json *stack, const char *key, const double of[PROFILE_AGES])
{
	struct json list = json__open(stack, key, "[");

	for (int i = 0; i < PROFILE_AGES; i++)
		json__put_item(&list, of[i]);
	sink__puts(stack->sink, "]");
}

/* Puts a half-life. null: the half-life is longer than the run could measure, or not known at
 * all. */
static void put_half_life(struct json *stack, const struct half_life *h)
{
	bool known = h->s > 0;

	json__put_real(stack, "half_life_us", known ? 1e6 * h->s : NAN);
	json__put_real(stack, "half_life_low_us", known ? 1e6 * h->low_s : NAN);
	json__put_real(stack, "half_life_high_us", known ? 1e6 * h->high_s : NAN);
}

static void put_lifetimes(struct json *stack, const struct profile *profile,
			  const struct profile_site *site)
{
	json__put_uint(stack, "freed_bytes", to_integer(site->freed_bytes));
	json__put_uint(stack, "freed_objects", to_integer(site->freed_objects));
	put_ages(stack, "freed_by_age", site->life.ended);
	if (profile->life.living_known)
		put_ages(stack, "live_by_age", site->life.living);
	if (profile__is_windowed(profile))
		put_half_life(stack, &site->life.half_life);
}

static void put_heights(struct json *stack, const struct profile_site *site)
{
	json__put_uint(stack, "low_bytes", to_integer(site->life.low_bytes));
	json__put_uint(stack, "low_objects", to_integer(site->life.low_objects));
	json__put_uint(stack, "high_bytes", to_integer(site->life.high_bytes));
	json__put_uint(stack, "high_objects", to_integer(site->life.high_objects));
}

/* Puts the names of threads by tid, and which thread freed whose memory. In an entry with freer 0,
 * the figures are all that the owner allocated. */
static void put_transfers(struct json *json, const struct profile *profile)
{
	struct json list = json__open(json, "threads", "[");

	for (size_t i = 0; i < profile->n_threads; i++) {
		struct json item = json__open(&list, NULL, "{");

		json__put_uint(&item, "tid", profile->threads[i].tid);
		json__put_text(&item, "name", profile->threads[i].name);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
	list = json__open(json, "transfers", "[");
	for (size_t i = 0; i < profile->n_transfers; i++) {
		const struct profile_transfer *t = &profile->transfers[i];
		struct json item = json__open(&list, NULL, "{");

		json__put_uint(&item, "owner", t->owner);
		json__put_uint(&item, "freer", t->freer);
		json__put_uint(&item, "samples", t->samples);
		json__put_uint(&item, "objects", to_integer(t->objects));
		json__put_uint(&item, "bytes", to_integer(t->bytes));
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
}

/* Puts the peak with its interval. Only the sum of the samples at the peak is known. So the
 * interval assumes the largest variance (estimate__of_bytes()) and is not narrower than the
 * interval of the same number of live bytes. */
static void put_peak(struct json *json, const struct profile *profile, double objects, double bytes)
{
	struct estimate peak = estimate__of_bytes(bytes, profile->interval_bytes);
	struct interval interval = profile__live_interval(profile, &peak);

	json__put_uint(json, "peak_bytes", to_integer(bytes));
	put_integer(json, "peak_bytes_low", interval.low);
	put_integer(json, "peak_bytes_high", interval.high);
	json__put_uint(json, "peak_objects", to_integer(objects));
}

/* Puts the interval of the allocated bytes. It is put only for windowed runs, where the error of
 * each stack is stored. In continuous runs the error follows from the sampling interval. */
static void put_alloc_interval(struct json *json, const struct profile *profile,
			       const struct profile_site *site)
{
	const struct estimate allocated = {
		.bytes = site->alloc_bytes,
		.variance = site->alloc_variance,
		.common = site->alloc_common,
	};
	struct interval interval = estimate__interval(&allocated);

	if (!(site->alloc_variance > 0) && !(site->alloc_common > 0))
		return;
	put_integer(json, "alloc_bytes_low", interval.low);
	put_integer(json, "alloc_bytes_high",
		    profile__is_lower_bound(profile) ? NAN : interval.high);
}

static void put_stacks(struct json *json, const struct profile *profile,
		       const struct json_options *options)
{
	struct json stacks = json__open(json, "stacks", "[");

	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		struct json stack;

		if (!options->all_stacks &&
		    !(options->peak_stacks && profile->peak.known && site->peak_bytes > 0) &&
		    !(site->live.objects > 0) && !(site->live.bytes > 0))
			continue;
		stack = json__open(&stacks, NULL, "{");
		put_live(&stack, &site->live, profile);
		put_integer(&stack, "alloc_bytes", profile->no_allocated ? NAN : site->alloc_bytes);
		put_alloc_interval(&stack, profile, site);
		put_integer(&stack, "alloc_objects",
			    profile->no_allocated ? NAN : site->alloc_objects);
		if (profile->peak.known)
			put_peak(&stack, profile, site->peak_objects, site->peak_bytes);
		if (profile->growth.stacks_known)
			put_growth(&stack, &site->growth);
		if (site->replaces)
			json__put_bool(&stack, "growth_replaces", true);
		if (profile->survival_age_s[0] > 0) {
			put_shares(&stack, "survival", profile, site->survival);
			put_shares(&stack, "older", profile, site->older);
		}
		if (profile->life.ages_known)
			put_lifetimes(&stack, profile, site);
		if (profile->life.heights_known)
			put_heights(&stack, site);
		if (site->allocators_own) {
			json__key(&stack, "allocators_own");
			sink__puts(json->sink, "true");
		}
		json__put_why(&stack, site->why);
		json__put_frames(&stack, profile, site);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
}

static void put_probes(struct json *json, const struct profile *profile)
{
	struct json probes = json__open(json, "probes", "[");

	for (size_t i = 0; i < profile->n_probes; i++) {
		const struct profile_probe *probe = &profile->probes[i];
		struct json item = json__open(&probes, NULL, "{");

		json__put_text(&item, "function", probe->function);
		json__put_text(&item, "object", probe->object);
		json__put_uint(&item, "offset", probe->offset);
		json__put_text(&item, "instruction", probe->instruction);
		json__put_bool(&item, "emulated", probe->emulated);
		json__put_text(&item, "kind", probe->kind);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
}

/* Puts the members that only a profile of regions has. */
static void put_kinds(struct json *json, const struct profile *profile)
{
	struct json kinds = json__open(json, "kinds", "{");

	for (int i = 0; i < REGION_MEMORY_KINDS; i++)
		json__put_uint(&kinds, region_memory__name((enum region_memory)i),
			       to_integer(profile->regions.kind_bytes[i]));
	sink__puts(json->sink, "}");
	put_integer(json, "earlier_gone_bytes",
		    optional__or_nan(profile->regions.earlier_gone_bytes));
	if (profile->regions.stopped_s.known)
		json__put_real(json, "regions_followed_s", profile->regions.stopped_s.value);
}

/* Puts what became of the blocks of windows. */
static void put_evidence(struct json *json, const struct profile_evidence *evidence)
{
	struct json counts = json__open(json, "evidence", "{");

	json__put_uint(&counts, "born", evidence->born);
	json__put_uint(&counts, "freed", evidence->freed);
	json__put_uint(&counts, "replaced", evidence->replaced);
	json__put_uint(&counts, "unmapped", evidence->unmapped);
	json__put_uint(&counts, "changed", evidence->changed);
	json__put_uint(&counts, "unchanged", evidence->unchanged);
	sink__puts(json->sink, "}");
}

/* Puts what the run has cost memtrace itself. */
static void put_own(struct json *json, const struct run_cost *cost)
{
	struct json own;

	if (!cost->known)
		return;
	own = json__open(json, "memtrace", "{");
	json__put_real(&own, "cpu_pct", cost->cpu_pct);
	if (cost->host_known)
		json__put_real(&own, "overhead_host_pct", cost->host_pct);
	json__put_uint(&own, "user_bytes", cost->user_bytes);
	json__put_uint(&own, cost->at_most ? "kernel_bytes_at_most" : "kernel_bytes",
		       cost->kernel_bytes);
	sink__puts(json->sink, "}");
}

static void put_files(struct json *json, const char *key, const struct profile *profile,
		      size_t from, size_t to)
{
	struct json list = json__open(json, key, "[");

	for (size_t i = from; i < to; i++) {
		json__comma(&list);
		json__text(&list, profile->files[i]);
	}
	sink__puts(json->sink, "]");
}

static int put_modules(struct json *json, const struct profile *profile,
		       const struct modules *modules)
{
	_cleanup_(module_sums__clear) struct module_sums all = {};
	struct json list, item;
	int rc = modules__sum(modules, profile, &all);

	if (rc)
		return rc;
	list = json__open(json, "modules", "[");
	for (size_t i = 0; i < all.n; i++) {
		const struct module_sum *sum = &all.sums[i];

		item = json__open(&list, NULL, "{");
		json__key(&item, "component");
		if (sum->path)
			json__text(&item, sum->path);
		else
			sink__puts(json->sink, "null");
		put_live(&item, &sum->live, profile);
		json__put_uint(&item, "stacks", sum->stacks);
		if (profile->life.heights_known) {
			json__put_uint(&item, "low_bytes", to_integer(sum->life.low_bytes));
			json__put_uint(&item, "high_bytes", to_integer(sum->life.high_bytes));
		}
		if (profile->growth.stacks_known)
			put_growth(&item, &sum->growth.total);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
	return 0;
}

int encode_json_with(const struct profile *profile, const struct json_options *options,
		     struct sink *sink)
{
	struct json json = json__open_document(sink, profile_what__name(profile->what)), list;
	struct estimate live = profile__live(profile);
	int rc = 0;

	json__put_uint(&json, "pid", (uint64_t)profile->pid);
	json__put_text(&json, "comm", profile->comm);
	if (profile->not_traced)
		json__put_text(&json, "not_traced", profile->not_traced);
	json__put_real(&json, "duration_s", profile->duration_s);
	if (profile->planned_s > 0)
		json__put_real(&json, "planned_s", profile->planned_s);
	if (profile->ended)
		json__put_bool(&json, "ended", true);
	if (profile->killed_by_signal)
		json__put_uint(&json, "killed_by_signal", profile->killed_by_signal);
	if (profile->out_of_memory)
		json__put_bool(&json, "out_of_memory", true);
	put_mode(&json, profile);
	if (profile__is_windowed(profile)) {
		list = json__open(&json, "windows", "{");
		json__put_uint(&list, "n", profile->windows.n);
		json__put_real(&list, "seconds", profile->windows.seconds);
		json__put_real(&list, "continuous_seconds", profile->windows.continuous_s);
		sink__puts(sink, "}");
		put_evidence(&json, &profile->windows.evidence);
	}
	if (profile->children_cpu_ns)
		json__put_real(&json, "children_cpu_s", (double)profile->children_cpu_ns / 1e9);
	if (profile->rss_end_bytes)
		json__put_uint(&json, "resident_set_bytes", profile->rss_end_bytes);
	if (profile->n_strays)
		json__put_uint(&json, "untraced_children", profile->n_strays);
	json__put_interval(&json, profile);
	if (profile->sampled_by_target)
		json__put_bool(&json, "sampled_by_target", true);
	json__put_uint(&json, "alloc_calls", profile->alloc_calls);
	json__put_uint(&json, "free_calls", profile->free_calls);
	json__put_uint(&json, "samples", profile->samples);
	put_live(&json, &live, profile);
	if (profile->peak.known) {
		struct estimate peak = profile__peak(profile);

		json__put_real(&json, "peak_s", profile->peak.s);
		put_peak(&json, profile, peak.objects, peak.bytes);
	}
	rc = json__put_contradictions(&json, profile);
	json__put_real(&json, "overhead_pct", optional__or_nan(profile->overhead_pct));
	if (profile->others_pct > 0)
		json__put_real(&json, "others_pct", profile->others_pct);
	json__put_real(&json, "stacks_complete_pct", profile__stacks_complete_pct(profile));
	if (profile__is_regions(profile))
		put_kinds(&json, profile);
	if (profile__is_faults(profile))
		json__put_signed(&json, "resident_change_bytes",
				 optional__or_nan(profile->resident_change_bytes));
	if (profile__knows_process_growth(profile))
		put_process_growth(&json, profile);
	if (profile->life.heights_known)
		put_transfers(&json, profile);
	if (profile->resident)
		json__put_resident(&json, profile->resident);
	json__put_why_search(&json, profile->why);
	if (options->heap)
		json__put_heap_report(&json, options->heap);
	if (options->heap_failed)
		json__put_text(&json, "heap_failed", options->heap_failed);
	put_stacks(&json, profile, options);
	if (profile->refused)
		json__put_text(&json, "refused", profile->refused);
	json__put_lost(&json, profile);
	put_probes(&json, profile);
	put_own(&json, &profile->run->cost);
	if (profile->n_snapshots)
		put_files(&json, "snapshots", profile, 0, profile->n_snapshots);
	if (options->modules && !rc)
		rc = put_modules(&json, profile, options->modules);
	put_files(&json, "files", profile, profile->n_snapshots, profile->n_files);
	sink__puts(sink, "}\n");
	return rc ? rc : sink->error;
}

int encode_json(const struct profile *profile, struct sink *sink)
{
	return encode_json_with(profile, &(struct json_options){}, sink);
}
