// SPDX-License-Identifier: BSD-2-Clause
#include "profile/view.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "profile/threads.h"

#define NOBODY	 "(thread not known)"
#define NO_NAME	 "(thread without a name)"
#define NO_FILE	 "(no file)"
#define NO_RULE	 "(no rule)"
#define NO_STACK "[no stack]"
/* A stack may have more bytes than its threads together. If the excess is at most this share of the
 * stack, it is rounding. */
#define ROUNDING 1e-6

static const char *const weight_names[PROFILE_WEIGHTS] = {"live",  "objects", "allocated",
							  "freed", "growth",  "peak"};
static const char *const root_names[PROFILE_ROOTS] = {"", "thread", "process", "module"};

const char *profile_weight__name(enum profile_weight weight)
{
	return weight_names[weight];
}

const char *profile_root__name(enum profile_root root)
{
	return root_names[root];
}

/* --- what can be seen --- */

const char *view_options__contradiction(const struct view_options *options)
{
	if (options->root == ROOT_THREAD && options->weight != WEIGHT_LIVE &&
	    options->weight != WEIGHT_OBJECTS)
		return "only what is live is known by thread: which thread's memory was freed "
		       "is not known";
	return NULL;
}

static bool any_grows(const struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++)
		if (profile->sites[i].growth.bytes_per_s > 0)
			return true;
	return false;
}

const char *view_options__refusal(const struct view_options *options, const struct profile *profile)
{
	bool filtered = profile__is_filtered(profile);

	if (view_options__contradiction(options))
		return view_options__contradiction(options);
	if (options->weight == WEIGHT_OBJECTS && profile->no_objects)
		return "it does not record objects";
	if ((options->weight == WEIGHT_ALLOCATED || options->weight == WEIGHT_FREED) &&
	    profile->no_allocated)
		return filtered ? "--thread and --age select live memory only: what was "
				  "allocated is not known for the selection"
				: "it does not record what was allocated, only what is live";
	if (options->weight == WEIGHT_GROWTH && !profile->growth.stacks_known && filtered)
		return "--thread and --age select live memory only: growth is not known for the "
		       "selection";
	if (options->weight == WEIGHT_GROWTH && !profile->growth.stacks_known)
		return "it stores no growth: only memtrace's own .pb.gz files of runs of "
		       "some seconds or more do";
	if (options->weight == WEIGHT_GROWTH && !any_grows(profile))
		return "none of its stacks grows";
	if (options->weight == WEIGHT_PEAK && !profile->peak.known && profile__is_windowed(profile))
		return "it was traced in windows, and only continuous tracing (--max-overhead off) "
		       "tells how much was live at the peak";
	if (options->weight == WEIGHT_PEAK && !profile->peak.known)
		return filtered ? "--thread and --age select live memory only: the peak is not "
				  "known for the selection"
				: "it does not say how much was live at the peak: only continuous "
				  "tracing records that, and only memtrace's own .pb.gz files "
				  "store it";
	if (options->root == ROOT_THREAD && !profile->n_threads)
		return "it does not record threads";
	if (options->root == ROOT_PROCESS && !profile->pid && !*profile->comm)
		return "it does not say of which process it is";
	return NULL;
}

const char *view_options__relax(struct view_options *options, const struct profile *profile)
{
	const char *refusal = view_options__refusal(options, profile);
	struct view_options less = *options;

	if (!refusal)
		return NULL;
	less.weight = WEIGHT_LIVE;
	if (view_options__refusal(&less, profile)) {
		less = *options;
		less.root = ROOT_NONE;
		if (view_options__refusal(&less, profile))
			less.weight = WEIGHT_LIVE;
	}
	*options = less;
	return refusal;
}

/* --- weights --- */

static struct estimate weigh(const struct profile_site *site, enum profile_weight weight)
{
	switch (weight) {
	case WEIGHT_OBJECTS:
		return (struct estimate){.bytes = site->live.objects};
	case WEIGHT_ALLOCATED:
		return (struct estimate){.objects = site->alloc_objects,
					 .bytes = site->alloc_bytes};
	case WEIGHT_FREED:
		return (struct estimate){.objects = site->freed_objects,
					 .bytes = site->freed_bytes};
	case WEIGHT_GROWTH:
		return (struct estimate){.bytes = fmax(site->growth.bytes_per_s, 0)};
	case WEIGHT_PEAK:
		return (struct estimate){.objects = site->peak_objects, .bytes = site->peak_bytes};
	default:
		return site->live;
	}
}

/* --- roots --- */

static int add_name(struct profile_view *view, const char *name, uint32_t *ret)
{
	return intern__add(&view->names, name, strlen(name), ret) < 0 ? -ENOMEM : 0;
}

/* of[thread]: the root of each thread. of[n_threads]: the root of what no known thread holds. */
static int name_threads(struct profile_view *view, const struct profile *profile, uint32_t *of)
{
	char name[POOL_NAME];
	int rc = 0;

	for (size_t i = 0; i < profile->n_threads && !rc; i++) {
		pool__name(profile->threads[i].name, name);
		rc = add_name(view, *name ? name : NO_NAME, &of[i]);
	}
	return rc ? rc : add_name(view, NOBODY, &of[profile->n_threads]);
}

/* of[site]: the root of each site, a mapped file. */
static int name_files(struct profile_view *view, const struct profile *profile, uint32_t *of)
{
	_cleanup_free_ bool *allocators = calloc(profile->n_locations + 1, sizeof(*allocators));
	int rc = allocators ? 0 : -ENOMEM;

	for (size_t i = 0; i < profile->n_locations && !rc; i++)
		allocators[i] = profile_location__is_allocators(&profile->locations[i]);
	for (size_t i = 0; i < profile->n_sites && !rc; i++) {
		const struct profile_site *site = &profile->sites[i];
		const char *name = NO_FILE;
		uint32_t k = 0;

		while (k + 1 < site->n_locations && allocators[site->locations[k]])
			k++;
		if (k < site->n_locations) {
			int32_t mapping = profile__location(profile, site, k)->mapping;
			const char *path = mapping < 0 ? "" : profile->mappings[mapping].path;

			name = *path ? base_name(path) : name;
		}
		rc = add_name(view, name, &of[i]);
	}
	return rc;
}

static int name_components(struct profile_view *view, const struct profile *profile,
			   const struct modules *modules, uint32_t *of)
{
	_cleanup_free_ const char **paths = calloc(profile->n_sites + 1, sizeof(*paths));
	int rc = paths ? modules__owners(modules, profile, paths) : -ENOMEM;

	for (size_t i = 0; i < profile->n_sites && !rc; i++)
		rc = add_name(view, paths[i] ? paths[i] : NO_RULE, &of[i]);
	return rc;
}

static int name_process(struct profile_view *view, const struct profile *profile, uint32_t *of)
{
	char name[sizeof(profile->comm) + 16];
	int rc = 0;

	snprintf(name, sizeof(name), profile->pid ? "%s (%d)" : "%s",
		 *profile->comm ? profile->comm : "?", (int)profile->pid);
	for (size_t i = 0; i < profile->n_sites && !rc; i++)
		rc = add_name(view, name, &of[i]);
	return rc;
}

/* Adds locations after the profile's own locations: one for each root, and one for stacks without
 * locations. */
static int add_locations(struct profile_view *view, const struct profile *profile)
{
	size_t n = profile->n_locations, n_roots = view->names.n, used = 0;

	view->locations = calloc(n + n_roots + 1, sizeof(*view->locations));
	view->frames = calloc(n_roots + 1, sizeof(*view->frames));
	view->text = malloc(view->names.used + n_roots + sizeof(NO_STACK));
	if (!view->locations || !view->frames || !view->text)
		return -ENOMEM;
	if (n)
		memcpy(view->locations, profile->locations, n * sizeof(*view->locations));
	for (uint32_t i = 0; i <= n_roots; i++) {
		size_t len = strlen(NO_STACK);
		const char *name = i < n_roots ? intern__get(&view->names, i, &len) : NO_STACK;

		view->frames[i].name = view->text + used;
		memcpy(view->text + used, name, len);
		view->text[used + len] = '\0';
		used += len + 1;
		view->locations[n + i] = (struct profile_location){.addr = UINT64_MAX - i,
								   .mapping = -1,
								   .frames = &view->frames[i],
								   .n_frames = 1,
								   .reason = UNRESOLVED_NAMED,
								   .note = true};
	}
	view->profile.locations = view->locations;
	view->profile.n_locations = n + n_roots + 1;
	return 0;
}

/* --- stacks --- */

/* Writes the site's stack, then its root, to `to`. Returns the end of what was written. */
static uint32_t *put_stack(const struct profile_view *view, const struct profile_site *site,
			   size_t n_locations, uint32_t root, uint32_t *to)
{
	if (site->n_locations)
		to = mempcpy(to, site->locations, site->n_locations * sizeof(*to));
	else
		*to++ = (uint32_t)(n_locations + view->names.n);
	*to++ = (uint32_t)n_locations + root;
	return to;
}

static uint32_t *add_site(struct profile_view *view, const struct profile *profile,
			  const struct profile_site *site, const struct estimate *live,
			  uint32_t root, uint32_t *to)
{
	struct profile_site *added = &view->sites[view->profile.n_sites++];

	*added = *site;
	added->live = *live;
	added->locations = to;
	added->threads = NULL;
	added->n_threads = 0;
	to = put_stack(view, site, profile->n_locations, root, to);
	added->n_locations = (uint32_t)(to - added->locations);
	return to;
}

/* Adds a site for each thread's part of `site`, and one for the part that no known thread holds. */
static uint32_t *add_by_thread(struct profile_view *view, const struct profile *profile,
			       const struct profile_site *site, enum profile_weight weight,
			       const uint32_t *of, uint32_t *to)
{
	struct profile_site part = *site;
	double objects = site->live.objects, bytes = site->live.bytes;
	struct estimate weighed;

	for (size_t i = 0; i < site->n_threads; i++) {
		const struct profile_site_thread *held = &site->threads[i];

		part.live = estimate__part(&site->live, held->objects, held->bytes);
		objects -= held->objects;
		bytes -= held->bytes;
		weighed = weigh(&part, weight);
		to = add_site(view, profile, site, &weighed, of[held->thread], to);
	}
	objects = objects > ROUNDING * site->live.objects ? objects : 0;
	bytes = bytes > ROUNDING * site->live.bytes ? bytes : 0;
	part.live = estimate__part(&site->live, objects, bytes);
	weighed = weigh(&part, weight);
	return weighed.bytes > 0
		       ? add_site(view, profile, site, &weighed, of[profile->n_threads], to)
		       : to;
}

static int add_sites(struct profile_view *view, const struct profile *profile,
		     const struct view_options *options, const uint32_t *of)
{
	size_t n_sites = 0, n_frames = 0;
	uint32_t *to;

	for (size_t i = 0; i < profile->n_sites; i++) {
		size_t n = options->root == ROOT_THREAD ? profile->sites[i].n_threads + 1 : 1;

		n_sites += n;
		n_frames += n * ((size_t)profile->sites[i].n_locations + 2);
	}
	view->sites = calloc(n_sites + 1, sizeof(*view->sites));
	view->stacks = to = calloc(n_frames + 1, sizeof(*view->stacks));
	if (!view->sites || !to)
		return -ENOMEM;
	view->profile.sites = view->sites;
	view->profile.n_sites = 0;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		struct estimate weighed = weigh(site, options->weight);

		if (options->root == ROOT_THREAD) {
			to = add_by_thread(view, profile, site, options->weight, of, to);
		} else if (options->root) {
			to = add_site(view, profile, site, &weighed, of[i], to);
		} else {
			view->sites[i] = *site;
			view->sites[i].live = weighed;
			view->profile.n_sites++;
		}
	}
	return 0;
}

/* Refuses a profile that would be too long if written out by thread. The file of one stack and a
 * thousand threads is short, but its text by thread is long. */
static int check_written(const struct profile *profile)
{
	struct profile_extent written;
	int rc = profile__written(profile, true, &written);

	return rc ? rc
	       : written.frames > PROFILE_MAX_WRITTEN_FRAMES ||
			       written.bytes > PROFILE_MAX_WRITTEN_BYTES
		       ? -EFBIG
		       : 0;
}

int profile_view__init(struct profile_view *view, const struct profile *profile,
		       const struct view_options *options)
{
	_cleanup_free_ uint32_t *of =
		calloc(profile->n_sites + profile->n_threads + 1, sizeof(*of));
	int rc = of ? 0 : -ENOMEM;

	*view = (struct profile_view){.profile = *profile};
	view->profile.weight = options->weight;
	if (!rc && options->root == ROOT_THREAD)
		rc = check_written(profile);
	if (!rc && options->root == ROOT_THREAD)
		rc = name_threads(view, profile, of);
	else if (!rc && options->root == ROOT_PROCESS)
		rc = name_process(view, profile, of);
	else if (!rc && options->root == ROOT_MODULE)
		rc = options->modules ? name_components(view, profile, options->modules, of)
				      : name_files(view, profile, of);
	if (!rc && options->root)
		rc = add_locations(view, profile);
	return rc ? rc : add_sites(view, profile, options, of);
}

void profile_view__clear(struct profile_view *view)
{
	free(view->sites);
	free(view->locations);
	free(view->frames);
	free(view->stacks);
	free(view->text);
	intern__clear(&view->names);
}
