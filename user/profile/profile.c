// SPDX-License-Identifier: BSD-2-Clause
#include "profile/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "profile/build.h"

const char *unresolved_reason__name(enum unresolved_reason reason)
{
	static const char *const names[] = {
#define X(id, name) [UNRESOLVED_##id] = name,
		UNRESOLVED_REASONS(X)
#undef X
	};

	return (unsigned)reason < UNRESOLVED_MAX ? names[reason] : "unknown";
}

struct profile *profile__new(void)
{
	struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	profile->run = profile_run__new();
	if (!profile->run) {
		free(profile);
		return NULL;
	}
	return profile;
}

void profile__join(struct profile *profile, struct profile_run *run)
{
	profile_run__share(run);
	profile_run__free(profile->run);
	profile->run = run;
}

void profile_location__set_frames(struct profile_location *location, struct profile_frame *frames,
				  size_t n)
{
	for (size_t i = 0; i < location->n_frames; i++) {
		free(location->frames[i].name);
		free(location->frames[i].file);
	}
	free(location->frames);
	location->frames = frames;
	location->n_frames = n;
}

int profile_location__set_name(struct profile_location *location, const char *name)
{
	struct profile_frame *frame = calloc(1, sizeof(*frame));

	if (!frame)
		return -ENOMEM;
	frame->name = strdup(name);
	if (!frame->name) {
		free(frame);
		return -ENOMEM;
	}
	profile_location__set_frames(location, frame, 1);
	return 0;
}

void profile_site__clear(struct profile_site *site)
{
	free(site->locations);
	free(site->threads);
	free(site->blocks);
	site_why__free(site->why);
	*site = (struct profile_site){};
}

void profile__free(struct profile *profile)
{
	if (!profile)
		return;
	for (size_t i = 0; i < profile->n_mappings; i++) {
		free(profile->mappings[i].path);
		free(profile->mappings[i].build_id);
	}
	for (size_t i = 0; i < profile->n_locations; i++)
		profile_location__set_frames(&profile->locations[i], NULL, 0);
	for (size_t i = 0; i < profile->n_sites; i++)
		profile_site__clear(&profile->sites[i]);
	for (size_t i = 0; i < profile->n_probes; i++) {
		free(profile->probes[i].function);
		free(profile->probes[i].object);
		free(profile->probes[i].instruction);
	}
	for (size_t i = 0; i < profile->n_files; i++)
		free(profile->files[i]);
	for (size_t i = 0; i < profile->n_kept; i++)
		free(profile->kept[i]);
	free(profile->kept);
	free(profile->mappings);
	free(profile->locations);
	free(profile->threads);
	free(profile->transfers);
	free(profile->sites);
	free(profile->lost.at);
	free(profile->probes);
	free(profile->files);
	free(profile->exe);
	free(profile->refused);
	resident__free(profile->resident);
	profile_why__free(profile->why);
	profile_build__free(profile->build);
	profile_run__free(profile->run);
	free(profile);
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

int profile__written(const struct profile *profile, bool by_thread, struct profile_extent *ret)
{
	_cleanup_free_ uint32_t *lengths = calloc(profile->n_locations + 1, sizeof(*lengths));

	if (!lengths)
		return -ENOMEM;
	*ret = (struct profile_extent){};
	for (size_t i = 0; i < profile->n_locations; i++)
		for (size_t k = 0; k < profile->locations[i].n_frames; k++)
			lengths[i] += (uint32_t)strlen(profile->locations[i].frames[k].name) + 1;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		uint64_t times = by_thread ? 1 + site->n_threads : 1;

		for (uint32_t k = 0; k < site->n_locations; k++) {
			ret->bytes += times * lengths[site->locations[k]];
			ret->frames += times * profile->locations[site->locations[k]].n_frames;
		}
	}
	return 0;
}

size_t profile__bytes(const struct profile *p)
{
	size_t bytes = sizeof(*p) + text_bytes(p->exe) + text_bytes(p->refused) +
		       p->n_mappings * sizeof(*p->mappings) +
		       p->n_locations * sizeof(*p->locations) + p->n_threads * sizeof(*p->threads) +
		       p->n_transfers * sizeof(*p->transfers) + p->n_sites * sizeof(*p->sites) +
		       p->lost.n * sizeof(*p->lost.at) + p->n_probes * sizeof(*p->probes) +
		       p->n_files * sizeof(*p->files);

	for (size_t i = 0; i < p->n_mappings; i++)
		bytes += text_bytes(p->mappings[i].path) + text_bytes(p->mappings[i].build_id);
	for (size_t i = 0; i < p->n_locations; i++)
		for (size_t k = 0; k < p->locations[i].n_frames; k++)
			bytes += sizeof(*p->locations[i].frames) +
				 text_bytes(p->locations[i].frames[k].name) +
				 text_bytes(p->locations[i].frames[k].file);
	for (size_t i = 0; i < p->n_sites; i++)
		bytes += p->sites[i].n_locations * sizeof(*p->sites[i].locations) +
			 p->sites[i].n_threads * sizeof(*p->sites[i].threads) +
			 p->sites[i].n_blocks * sizeof(*p->sites[i].blocks);
	for (size_t i = 0; i < p->n_probes; i++)
		bytes += text_bytes(p->probes[i].function) + text_bytes(p->probes[i].object) +
			 text_bytes(p->probes[i].instruction);
	for (size_t i = 0; i < p->n_files; i++)
		bytes += text_bytes(p->files[i]);
	for (size_t i = 0; i < p->n_kept; i++)
		bytes += sizeof(*p->kept) + text_bytes(p->kept[i]);
	return bytes;
}

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

int profile__add_mapping(struct profile *profile, const struct profile_mapping *mapping)
{
	_cleanup_free_ char *path = copy(mapping->path), *build_id = NULL;
	struct profile_mapping *mappings;

	if (mapping->build_id)
		build_id = strdup(mapping->build_id);
	if (!path || (mapping->build_id && !build_id) ||
	    VECTOR_ADD_ROOM(profile->mappings, profile->n_mappings))
		return -ENOMEM;
	mappings = &profile->mappings[profile->n_mappings++];
	*mappings = *mapping;
	mappings->path = path;
	mappings->build_id = build_id;
	path = build_id = NULL;
	return 0;
}

int profile__add_lost(struct profile *profile, const char *static_name, uint64_t count)
{
	struct profile_counter *lost = profile_counters__get(&profile->lost, static_name);

	if (!lost)
		return -ENOMEM;
	/* a file may hold any number */
	lost->count = count > UINT64_MAX - lost->count ? UINT64_MAX : lost->count + count;
	return 0;
}

int profile__add_losses(struct profile *profile, const struct profile *of)
{
	const struct profile_counters *lost = &of->lost, *by_run = &of->run->lost;
	int rc = 0;

	for (size_t i = 0; i < lost->n && !rc; i++)
		rc = profile__add_lost(profile, lost->at[i].name, lost->at[i].count);
	for (size_t i = 0; i < by_run->n && !rc; i++)
		rc = profile_run__note_lost(profile->run, by_run->at[i].name, by_run->at[i].count);
	return rc;
}

const struct profile_counter *profile__loss(const struct profile *profile, size_t i)
{
	const struct profile_counters *lost = &profile->lost, *by_run = &profile->run->lost;

	return i < lost->n		 ? &lost->at[i]
	       : i - lost->n < by_run->n ? &by_run->at[i - lost->n]
					 : NULL;
}

uint64_t profile__lost_count(const struct profile *profile, const char *name)
{
	return profile_counters__count(&profile->lost, name);
}

bool profile__is_filtered(const struct profile *profile)
{
	return profile__lost_count(profile, LOST_FILTERED) ||
	       profile__lost_count(profile, LOST_FILTERED_BYTES);
}

int profile__add_probe(struct profile *profile, const struct profile_probe *probe)
{
	_cleanup_free_ char *function = copy(probe->function), *object = copy(probe->object),
			    *instruction = copy(probe->instruction);
	struct profile_probe *probes;

	if (!function || !object || !instruction ||
	    VECTOR_ADD_ROOM(profile->probes, profile->n_probes))
		return -ENOMEM;
	probes = &profile->probes[profile->n_probes++];
	*probes = *probe;
	probes->function = function;
	probes->object = object;
	probes->instruction = instruction;
	function = object = instruction = NULL;
	return 0;
}

int profile__add_file(struct profile *profile, const char *path)
{
	_cleanup_free_ char *own = copy(path);

	if (!own || VECTOR_ADD_ROOM(profile->files, profile->n_files))
		return -ENOMEM;
	profile->files[profile->n_files++] = own;
	own = NULL;
	return 0;
}

const char *profile__keep(struct profile *profile, const char *text)
{
	_cleanup_free_ char *own = copy(text);

	if (!own || VECTOR_ADD_ROOM(profile->kept, profile->n_kept))
		return NULL;
	profile->kept[profile->n_kept++] = own;
	return_ptr(own);
}

/* Each site's live bytes have an interval. Returns the highest of the intervals' low ends. */
static double least_live(const struct profile *profile)
{
	double least = 0;

	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct estimate *live = &profile->sites[i].live;

		if (live->bytes > least) /* the low end is at most live->bytes */
			least = fmax(least, estimate__interval(live).low);
	}
	return least;
}

struct estimate profile__live(const struct profile *profile)
{
	struct estimate live = {};
	double allocated = 0, one;

	for (size_t i = 0; i < profile->n_sites; i++) {
		estimate__merge(&live, &profile->sites[i].live);
		allocated += profile->sites[i].alloc_bytes;
	}
	if (profile__is_windowed(profile) && profile->interval_bytes > 1 &&
	    profile->duration_s > 0) {
		one = fmin((double)profile->interval_bytes,
			   allocated * profile->windows.continuous_s / profile->duration_s);
		live.variance_max = fmax(live.variance_max, one * one);
	}
	if (profile__is_windowed(profile))
		live.least = least_live(profile);
	return live;
}

struct estimate profile__peak(const struct profile *profile)
{
	struct estimate peak;
	double objects = 0, bytes = 0;

	for (size_t i = 0; i < profile->n_sites; i++) {
		objects += profile->sites[i].peak_objects;
		bytes += profile->sites[i].peak_bytes;
	}
	peak = estimate__of_bytes(bytes, profile->interval_bytes ? profile->interval_bytes : 1);
	peak.objects = objects;
	return peak;
}

double profile__stacks_complete_pct(const struct profile *profile)
{
	if (!profile->stacks_walked)
		return NAN;
	return 100.0 * (double)profile->stacks_complete / (double)profile->stacks_walked;
}

const char *profile_what__name(enum profile_what what)
{
	static const char *const names[PROFILE_WHATS] = {
		[PROFILE_HEAP] = "heap",
		[PROFILE_REGIONS] = "regions",
		[PROFILE_FAULTS] = "faults",
	};

	return names[what];
}

const char *profile_mode__name(enum profile_mode mode)
{
	static const char *const names[PROFILE_MODES] = {
		[MODE_UNKNOWN] = "",
		[MODE_CONTINUOUS] = "continuous",
		[MODE_WINDOWED] = "windowed",
	};

	return names[mode];
}

const char *profile_drawn__name(enum profile_drawn drawn)
{
	static const char *const names[DRAWN_KINDS] = {
		[DRAWN_NOTHING] = "",
		[DRAWN_PATHS] = "paths",
		[DRAWN_ORIGINS] = "origins",
		[DRAWN_CENSUS] = "census",
	};

	return names[drawn];
}

const char *profile_part__name(enum profile_part part)
{
	static const char *const names[PROFILE_PARTS] = {
		[PART_ALL] = "",
		[PART_LIVE] = "live",
		[PART_CHANGE] = "change",
	};

	return names[part];
}

bool profile__is_regions(const struct profile *profile)
{
	return profile->what == PROFILE_REGIONS;
}

double profile__watched_s(const struct profile *profile)
{
	return profile->windows.seconds + profile->windows.continuous_s;
}

bool profile__is_faults(const struct profile *profile)
{
	return profile->what == PROFILE_FAULTS;
}

double profile__own_growth(const struct profile *profile)
{
	double sum = 0;

	for (size_t i = 0; profile->growth.stacks_known && i < profile->n_sites; i++)
		if (!profile->sites[i].allocators_own || profile->sites[i].unseen_pools)
			sum += profile->sites[i].growth.bytes_per_s;
	return sum;
}

bool profile__leaks(const struct profile *profile)
{
	for (size_t i = 0; profile->growth.stacks_known && i < profile->n_sites; i++)
		if (!profile->sites[i].allocators_own && profile->sites[i].growth.low > 0)
			return true;
	return false;
}

bool profile__is_windowed(const struct profile *profile)
{
	return profile->windows.n || profile->mode == MODE_WINDOWED;
}

bool profile__knows_process_growth(const struct profile *profile)
{
	return !profile__is_regions(profile) &&
	       (profile->growth.stacks_known ||
		(profile__is_windowed(profile) && profile->growth.bytes_per_s.known));
}

/* Is a part of the run unknown because the probes were withdrawn? (Never for windows: their
 * figures are estimates that cover the whole run.) */
static bool was_withdrawn(const struct profile *profile)
{
	return !profile__is_windowed(profile) && profile->withdrawals;
}

/* Did the kernel not run memtrace's program for some calls of the run? They may be allocations or
 * frees, of any process. */
static bool missed_calls(const struct profile *profile)
{
	return profile_counters__count(&profile->run->lost, "program_runs_missed");
}

/* Were calls lost that may have given regions back? */
static bool lost_regions(const struct profile *profile)
{
	/* regions that were not followed to the end are compared with the maps at the end */
	return profile__is_regions(profile) && !profile->regions.stopped_s.known &&
	       (profile__lost_count(profile, "region_calls_lost") ||
		profile__lost_count(profile, "regions_too_many"));
}

bool profile__lacks_room(const struct profile *profile)
{
	/* in files of older versions, the number of dropped samples includes missed calls */
	return profile->dropped && !missed_calls(profile) && !profile__is_regions(profile) &&
	       !profile__lost_count(profile, "scratch_busy") &&
	       !profile__lost_count(profile, "result_unreadable");
}

bool profile__misses_calls(const struct profile *profile)
{
	static const char *const missed[] = {"result_unknown", "allocators_refused",
					     "functions_refused", "not_traced"};

	/* regions are seen at system calls, so losses of the heap's probes do not concern them */
	for (size_t i = 0; i < sizeof(missed) / sizeof(*missed) && !profile__is_regions(profile);
	     i++)
		if (profile__lost_count(profile, missed[i]))
			return true;
	return profile->dropped || missed_calls(profile) || profile->regions.stopped_s.known ||
	       profile__lost_count(profile, "main_thread_ended") ||
	       profile__lost_count(profile, "exec_untraced") || was_withdrawn(profile);
}

bool profile__is_lower_bound(const struct profile *profile)
{
	/* In windows, the time before the probes counts as a time between windows. */
	return profile__misses_calls(profile) ||
	       (!profile__is_regions(profile) && !profile__is_windowed(profile) &&
		profile__lost_count(profile, "allocators_late"));
}

bool profile__is_upper_bound(const struct profile *profile)
{
	/* A page that is given back without a call needs no probe. If the page is gone at the end,
	 * it is left out. If it is touched again, the new sample replaces the old one. */
	if (profile__is_faults(profile))
		return false;
	return was_withdrawn(profile) || missed_calls(profile) || lost_regions(profile) ||
	       profile__lost_count(profile, "main_thread_ended") ||
	       (profile__is_exact(profile) && !profile__is_regions(profile) &&
		profile__lost_count(profile, "freed_unobserved"));
}

const char *profile__unknown_why(const struct profile *profile)
{
	if (profile->not_traced)
		return profile->not_traced;
	/* another tracer's probes may have shown some blocks of the new program */
	if (profile__lost_count(profile, "exec_untraced") && !(profile__live(profile).bytes > 0))
		return "it became another program by exec";
	if (profile__is_windowed(profile) && !(profile__watched_s(profile) > 0) &&
	    !profile->alloc_calls && !profile->n_sites)
		return "it has had no window yet";
	return NULL;
}

struct interval profile__live_interval(const struct profile *profile, const struct estimate *live)
{
	struct interval ret = estimate__interval(live);

	if (!(live->bytes > 0) && profile__is_windowed(profile))
		ret.high = NAN;
	else if (!(live->bytes > 0) && (profile->alloc_calls || !profile->mode || profile->part))
		ret.high = estimate__unseen(profile->interval_bytes);
	if (!profile->interval_bytes || profile__is_lower_bound(profile))
		ret.high = NAN;
	if (!profile->interval_bytes || profile__is_upper_bound(profile))
		ret.low = NAN;
	return ret;
}

uint64_t profile__asked_interval(const struct profile *profile)
{
	return profile->asked_interval_bytes ? profile->asked_interval_bytes
					     : profile->interval_bytes;
}

bool profile__is_exact(const struct profile *profile)
{
	return profile->interval_bytes == 1 && !profile__is_windowed(profile);
}

bool profile__is_surely_exact(const struct profile *profile)
{
	return profile__is_exact(profile) && !profile->drawn && !profile__is_lower_bound(profile) &&
	       !profile__is_upper_bound(profile);
}

/* --- what memory does over time --- */

#define FIRST_AGE_NS 10000

const char *profile_age__name(int class)
{
	static const char *const names[PROFILE_AGES] = {"10us", "100us", "1ms",	 "10ms",  "100ms",
							"1s",	"10s",	 "100s", "1000s", "more"};

	return names[class];
}

int profile_age_class(uint64_t ns)
{
	uint64_t end = FIRST_AGE_NS;
	int class = 0;

	for (; class < PROFILE_AGES - 1 && ns > end; class ++)
		end *= 10;
	return class;
}

static double all_of(const double of[PROFILE_AGES])
{
	double sum = 0;

	for (int i = 0; i < PROFILE_AGES; i++)
		sum += of[i];
	return sum;
}

/* Merges the half-life of `other` into the half-life of `life`: takes the mean of the rates at
 * which objects end, weighted by objects. */
static void merge_half_life(struct site_life *life, const struct site_life *other)
{
	double n = all_of(life->ended) + all_of(life->living);
	double m = all_of(other->ended) + all_of(other->living);
	struct half_life *h = &life->half_life;
	const struct half_life *o = &other->half_life;

	if (!(m > 0) || !(o->s > 0))
		return;
	if (!(n > 0) || !(h->s > 0)) {
		*h = *o;
		return;
	}
	h->s = (n + m) / (n / h->s + m / o->s);
	h->low_s = fmin(h->low_s, o->low_s);
	h->high_s = fmax(h->high_s, o->high_s);
}

void site_life__merge(struct site_life *life, const struct site_life *other)
{
	merge_half_life(life, other);
	life->high_objects += other->high_objects;
	life->high_bytes += other->high_bytes;
	life->low_objects += other->low_objects;
	life->low_bytes += other->low_bytes;
	for (int i = 0; i < PROFILE_AGES; i++) {
		life->ended[i] += other->ended[i];
		life->living[i] += other->living[i];
	}
}
