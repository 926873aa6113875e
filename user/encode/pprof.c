// SPDX-License-Identifier: BSD-2-Clause
/* profile.proto, gzipped. profile/pprof.h describes the fields.
 *
 * The bytes are written by hand. A message consists of tags, varints and lengths, and the code for
 * these takes a hundred lines here and as many in the decoder. protobuf-c would be a dependency.
 * With it, the encoder would have to copy the profile into a tree of protobuf-c's objects. The
 * decoder would unpack a hostile file into a tree many times as large as the file, before any limit
 * could be checked.
 *
 * The file's values are integers, the profile's are not. Each value is written as the difference of
 * two rounded sums. Thus a value is off by less than one, and the total by at most half. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "encode/pprof_parts.h"
#include "encode/table.h"
#include "encode/text.h"

#define MAX_DROP       16  /* drop_frames names at most this many allocator functions */
#define MAX_DROP_BYTES 100 /* longer names are left out of drop_frames */
/* without LABEL_SQUARES, readers compute a sum of squares themselves; the label is written if the
 * right sum exceeds the computed sum by this factor */
#define CLEARLY 1.01
/* limit for the number of locations in all samples of threads; so many locations take some 500 MB
 * before zlib packs them */
#define MAX_THREAD_LOCATIONS (1ULL << 27)

static void put_value_type(struct pprof *p, int field, const char *type, const char *unit)
{
	message__uint(&p->message, VALUE_TYPE_TYPE, pprof__string(p, type));
	message__uint(&p->message, VALUE_TYPE_UNIT, pprof__string(p, unit));
	pprof__put_message(p, field);
}

/* --- samples --- */

/* The values of one sample. */
struct share {
	double value[VALUES]; /* by enum pprof_value */
};

static void add_label(struct pprof *p, const char *key, const char *text, int64_t number,
		      const char *unit)
{
	p->part.len = 0;
	message__uint(&p->part, LABEL_KEY, pprof__string(p, key));
	message__uint(&p->part, LABEL_STR, text ? pprof__string(p, text) : 0);
	message__uint(&p->part, LABEL_NUM, (uint64_t)number);
	message__uint(&p->part, LABEL_NUM_UNIT, unit ? pprof__string(p, unit) : 0);
	message__bytes(&p->message, SAMPLE_LABEL, p->part.bytes, p->part.len);
}

/* Rounds a value that may be negative, and limits it so that sums of such numbers do not overflow
 * in readers. */
static int64_t to_signed(const struct pprof *p, double value)
{
	double limit = (double)p->max_value;

	return isfinite(value) ? llround(fmax(fmin(value, limit), -limit)) : 0;
}

static uint64_t take(struct pprof *p, int i, double value)
{
	uint64_t n = carry__take(&p->carry[i], value);

	return n < p->max_value ? n : p->max_value;
}

/* Adds a label with the share at an age. */
static void add_share(struct pprof *p, const char *label, double age_s, double share)
{
	_cleanup_free_ char *key = NULL;

	if (!isfinite(share))
		return;
	if (asprintf(&key, label, age_s) < 0) {
		key = NULL;
		p->error = -ENOMEM;
		return;
	}
	add_label(p, key, NULL, to_signed(p, PPM * share), "ppm");
}

/* Adds the labels of a stack as a whole. True: something was added. */
static bool add_site_labels(struct pprof *p, const struct profile_site *site)
{
	const struct profile *profile = p->profile;
	struct estimate unsaid = site->live; /* the estimate that readers compute without labels */
	size_t before = p->message.len;

	unsaid.squares = 0;
	if (!site->complete)
		add_label(p, LABEL_INCOMPLETE, NULL, 1, NULL);
	if (site->truncated)
		add_label(p, LABEL_TRUNCATED, NULL, 1, NULL);
	if (site->allocators_own)
		add_label(p, LABEL_ALLOCATORS_OWN, NULL, 1, NULL);
	if (site->live.variance_max > 0)
		add_label(p, LABEL_LARGEST, NULL, to_signed(p, sqrt(site->live.variance_max)),
			  "bytes");
	if (estimate__squares(&site->live) > CLEARLY * estimate__squares(&unsaid))
		add_label(p, LABEL_SQUARES, NULL,
			  to_signed(p, sqrt(estimate__squares(&site->live))), "bytes");
	if (site->live.common > 0)
		add_label(p, LABEL_COMMON, NULL, to_signed(p, site->live.common), "bytes");
	if (site->live.most > 0)
		add_label(p, LABEL_MOST, NULL, to_signed(p, site->live.most), "bytes");
	if (site->live.least > 0)
		add_label(p, LABEL_LEAST, NULL, to_signed(p, site->live.least), "bytes");
	if (site->alloc_variance > 0)
		add_label(p, LABEL_ALLOC_ERROR, NULL, to_signed(p, sqrt(site->alloc_variance)),
			  "bytes");
	if (site->alloc_common > 0)
		add_label(p, LABEL_ALLOC_COMMON, NULL, to_signed(p, site->alloc_common), "bytes");
	if (profile->growth.stacks_known && isfinite(site->growth.low) &&
	    isfinite(site->growth.high)) {
		add_label(p, LABEL_GROWTH_LOW, NULL, to_signed(p, site->growth.low * PER_HOUR),
			  "bytes");
		add_label(p, LABEL_GROWTH_HIGH, NULL, to_signed(p, site->growth.high * PER_HOUR),
			  "bytes");
		if (site->replaces)
			add_label(p, LABEL_REPLACES, NULL, 1, NULL);
	}
	for (int i = 0; i < PROFILE_AGES && profile->life.ages_known; i++) {
		char label[32];

		snprintf(label, sizeof(label), LABEL_FREED "%s", profile_age__name(i));
		if (site->life.ended[i] >= 0.5)
			add_label(p, label, NULL, to_signed(p, site->life.ended[i]), NULL);
	}
	if (profile->peak.known && site->peak_bytes > 0) {
		add_label(p, LABEL_PEAK_OBJECTS, NULL, to_signed(p, site->peak_objects), NULL);
		add_label(p, LABEL_PEAK_SPACE, NULL, to_signed(p, site->peak_bytes), "bytes");
	}
	for (int i = 0; i < PROFILE_SURVIVAL_AGES && profile->survival_age_s[0] > 0; i++) {
		add_share(p, LABEL_SURVIVAL, profile->survival_age_s[i], site->survival[i]);
		if (site->live.bytes > 0)
			add_share(p, LABEL_OLDER, profile->survival_age_s[i], site->older[i]);
	}
	return p->message.len > before;
}

/* Puts one sample of the site: of a thread, or (thread is NULL) of the stack as a whole. An empty
 * sample is left out. */
static void put_sample(struct pprof *p, const struct profile_site *site,
		       const struct profile_thread *thread, const struct share *share)
{
	const struct profile *profile = p->profile;
	double objects = share->value[VALUE_INUSE_OBJECTS], bytes = share->value[VALUE_INUSE_SPACE];
	uint64_t written[VALUES] = {};
	bool any = false;

	if (!(objects > 0)) {
		objects = share->value[VALUE_ALLOC_OBJECTS];
		bytes = share->value[VALUE_ALLOC_SPACE];
	}
	p->part.len = 0;
	for (uint32_t i = 0; i < site->n_locations; i++)
		message__varint(&p->part, (uint64_t)site->locations[i] + 1);
	message__bytes(&p->message, SAMPLE_LOCATION_ID, p->part.bytes, p->part.len);
	p->part.len = 0;
	for (int i = 0; i < VALUES; i++) {
		uint64_t value = i == VALUE_GROWTH ? (uint64_t)to_signed(p, share->value[i])
						   : take(p, i, share->value[i]);

		written[i] = value;
		any = any || value;
		message__varint(&p->part, value);
	}
	message__bytes(&p->message, SAMPLE_VALUE, p->part.bytes, p->part.len);
	any |= pprof_own__add_remainders(p, share->value, written);
	if (thread) {
		if (*thread->name)
			add_label(p, LABEL_THREAD, thread->name, 0, NULL);
		add_label(p, LABEL_TID, NULL, thread->tid, NULL);
	} else {
		any |= add_site_labels(p, site);
		any |= pprof_own__add_stack(p, site);
		any |= !site->n_threads;
	}
	if (!any) {
		p->message.len = 0;
		return;
	}
	if (thread)
		p->named[thread - profile->threads] = true;
	if (profile->pid)
		add_label(p, LABEL_PID, NULL, profile->pid, NULL);
	if (*profile->comm)
		add_label(p, LABEL_COMM, profile->comm, 0, NULL);
	if (objects > 0)
		add_label(p, LABEL_BYTES, NULL, to_signed(p, bytes / objects), "bytes");
	pprof__put_message(p, PROFILE_SAMPLE);
}

/* Puts the samples of a site. Live memory belongs to the threads that hold it, and so does an equal
 * amount of allocated memory. The rest of the allocated memory was freed again and belongs to no
 * thread. */
static void put_site(struct pprof *p, const struct profile_site *site)
{
	const struct profile *profile = p->profile;
	const struct estimate *live = &site->live;
	double interval = profile->interval_bytes ? (double)profile->interval_bytes : 1;
	struct share left = {{
		/* If allocated memory is unknown, the profile has the live figures in its place.
		 * The file gets 0, so that readers do not take live figures for allocated
		 * memory. */
		[VALUE_ALLOC_OBJECTS] = profile->no_allocated ? 0 : site->alloc_objects,
		[VALUE_ALLOC_SPACE] = profile->no_allocated ? 0 : site->alloc_bytes,
		[VALUE_INUSE_OBJECTS] = live->objects,
		[VALUE_INUSE_SPACE] = live->bytes,
		[VALUE_INUSE_SAMPLES] = (double)live->samples,
		[VALUE_INUSE_SAMPLED] = (double)live->sampled_bytes,
		[VALUE_INUSE_VARIANCE] = live->variance / interval,
		[VALUE_GROWTH] = site->growth.bytes_per_s * PER_HOUR,
	}};
	const struct share all = left;

	for (size_t i = 0; i < site->n_threads && !p->error && !p->threads_left_out; i++) {
		const struct profile_site_thread *held = &site->threads[i];
		double part = live->bytes > 0 ? fmin(held->bytes / live->bytes, 1) : 0;
		struct share share = {};

		share.value[VALUE_INUSE_OBJECTS] =
			fmin(held->objects, left.value[VALUE_INUSE_OBJECTS]);
		share.value[VALUE_INUSE_SPACE] = fmin(held->bytes, left.value[VALUE_INUSE_SPACE]);
		for (int k = VALUE_INUSE_SAMPLES; k < VALUE_GROWTH; k++)
			share.value[k] = fmin(all.value[k] * part, left.value[k]);
		/* fmin(), because in windows the estimate of live memory may exceed that of
		 * allocated memory */
		share.value[VALUE_ALLOC_OBJECTS] =
			fmin(share.value[VALUE_INUSE_OBJECTS], left.value[VALUE_ALLOC_OBJECTS]);
		share.value[VALUE_ALLOC_SPACE] =
			fmin(share.value[VALUE_INUSE_SPACE], left.value[VALUE_ALLOC_SPACE]);
		/* A tiny rest is only the rounding error of doubles, so this thread gets it. */
		for (int k = 0; k < VALUE_GROWTH; k++) {
			left.value[k] -= share.value[k];
			if (left.value[k] < 1e-9 * all.value[k]) {
				share.value[k] += left.value[k];
				left.value[k] = 0;
			}
		}
		put_sample(p, site, &profile->threads[held->thread], &share);
	}
	if (!p->error)
		put_sample(p, site, NULL, &left);
}

/* Would samples of threads make the file too large? Each thread that holds memory of a stack has a
 * sample, which repeats the whole stack. The samples of a real process are few enough, but a short
 * hostile file can lead to too many. */
static bool are_threads_too_many(const struct profile *profile)
{
	uint64_t n = 0;

	for (size_t i = 0; i < profile->n_sites; i++)
		n += (uint64_t)profile->sites[i].n_locations * profile->sites[i].n_threads;
	return n > MAX_THREAD_LOCATIONS;
}

/* Puts the site's figures in the interval: one sample, which has the standard values and no
 * labels. */
static void put_interval_site(struct pprof *p, size_t index)
{
	const struct profile_site *site = &p->profile->sites[index];
	double values[STANDARD_VALUES];
	bool any = false;

	encode_interval__values(p->interval, site, index, values);
	p->part.len = 0;
	for (uint32_t i = 0; i < site->n_locations; i++)
		message__varint(&p->part, (uint64_t)site->locations[i] + 1);
	message__bytes(&p->message, SAMPLE_LOCATION_ID, p->part.bytes, p->part.len);
	p->part.len = 0;
	for (int i = 0; i < STANDARD_VALUES; i++) {
		/* take() gets no negative numbers: negative values have rounding sums of their own,
		 * and are written as two's complement */
		uint64_t value = values[i] < 0 ? -take(p, STANDARD_VALUES + i, -values[i])
					       : take(p, i, values[i]);

		any |= value != 0;
		message__varint(&p->part, value);
	}
	message__bytes(&p->message, SAMPLE_VALUE, p->part.bytes, p->part.len);
	if (any)
		pprof__put_message(p, PROFILE_SAMPLE);
	p->message.len = 0;
}

static void put_sites(struct pprof *p)
{
	const struct profile *profile = p->profile;
	size_t n = p->interval ? encode_interval__n_sites(p->interval, profile) : profile->n_sites;

	p->threads_left_out = !p->interval && are_threads_too_many(profile);
	for (size_t i = 0; i < n && !p->error; i++)
		if (p->interval)
			put_interval_site(p, i);
		else
			put_site(p, &profile->sites[i]);
}

/* --- mappings, locations and functions --- */

/* Returns the number of the mapping's path. The path is written as the kernel shows it. */
static uint64_t mapping_name(struct pprof *p, const struct profile_mapping *mapping)
{
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "%s%s", mapping->path ? mapping->path : "",
		     mapping->deleted ? DELETED_SUFFIX : "") < 0) {
		name = NULL;
		p->error = -ENOMEM;
		return 0;
	}
	return pprof__string(p, name);
}

static void put_mapping(struct pprof *p, size_t index)
{
	const struct profile_mapping *mapping = &p->profile->mappings[index];
	const struct mapping_use *use = &p->uses[index];

	message__uint(&p->message, MAPPING_ID, use->id);
	message__uint(&p->message, MAPPING_START, mapping->start);
	message__uint(&p->message, MAPPING_LIMIT, mapping->end);
	message__uint(&p->message, MAPPING_OFFSET, mapping->off);
	message__uint(&p->message, MAPPING_FILENAME, mapping_name(p, mapping));
	message__uint(&p->message, MAPPING_BUILD_ID,
		      mapping->build_id ? pprof__string(p, mapping->build_id) : 0);
	message__uint(&p->message, MAPPING_HAS_FUNCTIONS, use->functions);
	message__uint(&p->message, MAPPING_HAS_FILENAMES, use->files);
	message__uint(&p->message, MAPPING_HAS_LINE_NUMBERS, use->files);
	message__uint(&p->message, MAPPING_HAS_INLINE_FRAMES, use->inlined);
	pprof__put_message(p, PROFILE_MAPPING);
}

/* Puts the mappings in which a location lies. The program's mapping is first, because readers take
 * the first mapping for the program. */
static void put_mappings(struct pprof *p)
{
	const struct profile *profile = p->profile;
	size_t first = profile->n_mappings;
	uint64_t n = 0;

	for (size_t i = 0; i < profile->n_mappings && profile->exe && *profile->exe; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];

		if (first == profile->n_mappings && mapping->perms[2] == 'x' && mapping->path &&
		    !strcmp(mapping->path, profile->exe))
			first = i;
	}
	if (first < profile->n_mappings)
		p->uses[first].id = ++n;
	for (size_t i = 0; i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];
		struct mapping_use *use = &p->uses[location->mapping < 0 ? 0 : location->mapping];

		if (location->mapping < 0)
			continue;
		if (!use->id)
			use->id = ++n;
		use->functions |= location->reason == UNRESOLVED_NAMED;
		use->inlined |= location->n_frames > 1;
		for (size_t k = 0; k < location->n_frames; k++)
			use->files |= location->frames[k].file != NULL;
	}
	if (first < profile->n_mappings)
		put_mapping(p, first);
	for (size_t i = 0; i < profile->n_mappings && !p->error; i++)
		if (p->uses[i].id && i != first)
			put_mapping(p, i);
}

/* Returns the function's number, from 1. */
static uint64_t function(struct pprof *p, const struct profile_location *location,
			 const struct profile_frame *frame, bool outer)
{
	uint32_t key[3] = {(uint32_t)pprof__string(p, frame->name), 0,
			   frame->file ? (uint32_t)pprof__string(p, frame->file) : 0};
	uint32_t number = 0;

	if (outer && location->reason != UNRESOLVED_NAMED) {
		char reason[48];

		snprintf(reason, sizeof(reason), REASON_SYSTEM_NAME,
			 unresolved_reason__name(location->reason));
		key[1] = (uint32_t)pprof__string(p, reason);
	}
	if (intern__add(&p->functions, key, sizeof(key), &number) < 0)
		p->error = -ENOMEM;
	return (uint64_t)number + 1;
}

static void put_locations(struct pprof *p)
{
	const struct profile *profile = p->profile;

	for (size_t i = 0; i < profile->n_locations && !p->error; i++) {
		const struct profile_location *location = &profile->locations[i];

		message__uint(&p->message, LOCATION_ID, i + 1);
		if (location->mapping >= 0)
			message__uint(&p->message, LOCATION_MAPPING_ID,
				      p->uses[location->mapping].id);
		if (location->addr < PROFILE_NO_ADDR)
			message__uint(&p->message, LOCATION_ADDRESS, location->addr - 1);
		if (location->addr >= PROFILE_FRAME_ADDR && !p->interval)
			message__uint(&p->message, LOCATION_OWN_FRAME, location->addr);
		for (size_t k = 0; k < location->n_frames; k++) {
			const struct profile_frame *frame = &location->frames[k];

			p->part.len = 0;
			message__uint(&p->part, LINE_FUNCTION_ID,
				      function(p, location, frame, k + 1 == location->n_frames));
			message__uint(&p->part, LINE_LINE, frame->line);
			message__bytes(&p->message, LOCATION_LINE, p->part.bytes, p->part.len);
		}
		pprof__put_message(p, PROFILE_LOCATION);
	}
}

static void put_functions(struct pprof *p)
{
	for (uint32_t i = 0; i < p->functions.n && !p->error; i++) {
		uint32_t key[3];
		size_t len;

		memcpy(key, intern__get(&p->functions, i, &len), sizeof(key));
		message__uint(&p->message, FUNCTION_ID, (uint64_t)i + 1);
		message__uint(&p->message, FUNCTION_NAME, key[0]);
		message__uint(&p->message, FUNCTION_SYSTEM_NAME, key[1]);
		message__uint(&p->message, FUNCTION_FILENAME, key[2]);
		pprof__put_message(p, PROFILE_FUNCTION);
	}
}

/* --- fields of the profile as a whole --- */

static void put_comment(struct pprof *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put_comment(struct pprof *p, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0) {
		text = NULL;
		p->error = -ENOMEM;
	}
	if (!p->error)
		pprof__put_number(p, PROFILE_COMMENT, pprof__string(p, text));
}

static void put_facts(struct pprof *p)
{
	for (size_t i = 0; i < n_pprof_facts; i++) {
		const struct pprof_fact *fact = &pprof_facts[i];
		double value = pprof_fact__get(fact, p->profile);

		if (pprof_fact__is_absent(fact, p->profile))
			continue;
		if (fact->type == FACT_UINT64)
			put_comment(p, "%s: %" PRIu64, fact->key,
				    *(const uint64_t *)pprof_fact__at(fact, p->profile));
		else
			put_comment(p, "%s: %.10g", fact->key, value);
	}
}

/* Puts the ages, with the same digits as in LABEL_SURVIVAL. */
static void put_survival_ages(struct pprof *p)
{
	char text[PROFILE_SURVIVAL_AGES * 24] = "";

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%g", i ? " " : "",
			 p->profile->survival_age_s[i]);
	put_comment(p, COMMENT_SURVIVAL ": %s", text);
}

/* Puts the contradictions, for people. memtrace finds them itself when it reads the file. */
static void put_findings(struct pprof *p)
{
	struct contradictions all = profile__contradictions(p->profile);

	for (size_t i = 0; i < all.n; i++) {
		_cleanup_free_ char *text = contradiction_text(p->profile, &all.at[i]);

		if (text)
			put_comment(p, COMMENT_CONTRADICTION "%s: %s",
				    contradiction_rule__name(all.at[i].rule), text);
		else
			p->error = -ENOMEM;
	}
}

/* Puts what is known of the whole run. A file of an interval has none of this: its amounts are not
 * of the whole run, and readers would find contradictions. */
static void put_run(struct pprof *p)
{
	const struct profile *profile = p->profile;

	if (profile->refused)
		put_comment(p, COMMENT_REFUSED ": %s", profile->refused);
	put_facts(p);
	if (profile->survival_age_s[0] > 0)
		put_survival_ages(p);
	for (int i = 0; i < REGION_MEMORY_KINDS; i++)
		if (profile->regions.kind_bytes[i] > 0)
			put_comment(p, COMMENT_KIND "%s: %.15g",
				    region_memory__name((enum region_memory)i),
				    profile->regions.kind_bytes[i]);
}

static void put_comments(struct pprof *p)
{
	const struct profile *profile = p->profile;
	enum profile_part part = !p->interval	     ? profile->part
				 : p->interval->live ? PART_CHANGE
						     : PART_LIVE;
	const struct profile_counter *lost;

	put_comment(p, COMMENT_WHAT ": %s", profile_what__name(profile->what));
	if (profile->mode)
		put_comment(p, COMMENT_MODE ": %s", profile_mode__name(profile->mode));
	if (profile->drawn)
		put_comment(p, COMMENT_DRAWN ": %s", profile_drawn__name(profile->drawn));
	if (*profile->comm)
		put_comment(p, COMMENT_COMM ": %s", profile->comm);
	if (profile->exe && *profile->exe)
		put_comment(p, COMMENT_EXE ": %s", profile->exe);
	if (part)
		put_comment(p, COMMENT_PART ": %s", profile_part__name(part));
	else
		put_run(p);
	for (size_t i = 0; (lost = profile__loss(profile, i)); i++)
		if (lost->count)
			put_comment(p, "%s%s: %" PRIu64,
				    i < profile->lost.n ? COMMENT_LOST : COMMENT_RUN_LOST,
				    lost->name, lost->count);
	if (!part)
		put_findings(p);
	if (p->threads_left_out)
		put_comment(p, COMMENT_LOST "threads_left_out: %zu", profile->n_threads);
}

/* Adds a name to a regular expression, with its special characters quoted. */
static void add_quoted(struct message *m, const char *name)
{
	for (; *name; name++) {
		bool plain = (*name & 0x80) || *name == '_' || (*name >= '0' && *name <= '9') ||
			     ((*name | 0x20) >= 'a' && (*name | 0x20) <= 'z');

		if (!plain)
			message__append(m, "\\", 1);
		message__append(m, name, 1);
	}
}

/* Adds a function's name, if it is new. */
static void add_dropped(struct pprof *p, struct intern *names, struct message *regex,
			const char *name)
{
	_cleanup_free_ char *printable = name ? text_printable(name) : NULL;
	uint32_t number;
	int rc;

	if (name && !printable)
		p->error = -ENOMEM;
	if (!printable || !*printable || strlen(printable) > MAX_DROP_BYTES)
		return;
	rc = intern__add(names, printable, strlen(printable), &number);
	if (rc < 0)
		p->error = rc;
	if (rc <= 0)
		return;
	message__append(regex, names->n > 1 ? "|" : "^(", names->n > 1 ? 1 : 2);
	add_quoted(regex, printable);
}

/* Puts drop_frames, which lets readers leave out allocation functions, as collapsed stacks do.
 * These functions do not tell who holds memory. */
static void put_drop_frames(struct pprof *p)
{
	const struct profile *profile = p->profile;
	struct message regex = {};
	struct intern names = {};

	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		uint32_t n = first_frame(profile, site);

		for (uint32_t k = 0; k < n && names.n < MAX_DROP && !p->error; k++)
			add_dropped(
				p, &names, &regex,
				profile_location__function(profile__location(profile, site, k)));
	}
	if (names.n) {
		message__append(&regex, ")$", 3);
		if (regex.failed)
			p->error = -ENOMEM;
		else
			pprof__put_number(p, PROFILE_DROP_FRAMES, pprof__string(p, regex.bytes));
	}
	free(regex.bytes);
	intern__clear(&names);
}

static void put_strings(struct pprof *p)
{
	for (uint32_t i = 0; i < p->strings.n && !p->error; i++) {
		size_t len;
		const void *text = intern__get(&p->strings, i, &len);

		pprof__put_field(p, PROFILE_STRING_TABLE, text, len);
	}
}

static void put_profile(struct pprof *p)
{
	const struct profile *profile = p->profile;
	const struct encode_interval *interval = p->interval;

	pprof__string(p, ""); /* the string with the number 0 is empty */
	for (int i = 0; i < (interval ? STANDARD_VALUES : VALUES); i++)
		put_value_type(p, PROFILE_SAMPLE_TYPE, pprof_values[i].type, pprof_values[i].unit);
	put_sites(p);
	put_mappings(p);
	put_locations(p);
	put_functions(p);
	put_drop_frames(p);
	pprof__put_number(p, PROFILE_TIME_NANOS,
			  interval ? interval->from_ns : profile->start_unix_ns);
	pprof__put_number(p, PROFILE_DURATION_NANOS,
			  interval ? interval->until_ns - interval->from_ns
				   : to_integer(profile->duration_s * 1e9));
	if (profile->interval_bytes) {
		put_value_type(p, PROFILE_PERIOD_TYPE, PERIOD_TYPE, PERIOD_UNIT);
		pprof__put_number(p, PROFILE_PERIOD, profile->interval_bytes);
	}
	put_comments(p);
	if (!interval)
		pprof_own__put(p);
	pprof__put_number(p, PROFILE_DEFAULT_SAMPLE_TYPE,
			  pprof__string(p, pprof_values[VALUE_INUSE_SPACE].type));
	put_strings(p);
}

static int encode(const struct profile *profile, const struct encode_interval *interval,
		  struct sink *sink)
{
	struct pprof p = {.profile = profile, .interval = interval, .sink = sink};
	uint64_t n_samples = profile->n_sites;

	for (size_t i = 0; i < profile->n_sites; i++) {
		n_samples += profile->sites[i].n_threads;
		p.n_blocks += profile->sites[i].n_blocks;
	}
	p.max_value = (uint64_t)INT64_MAX / (n_samples + 1);
	p.uses = calloc(profile->n_mappings + 1, sizeof(*p.uses));
	p.named = calloc(profile->n_threads + 1, sizeof(*p.named));
	/* 16 asks for gzip's frame; the time in this frame stays 0, so that equal profiles are
	 * equal files */
	if (!p.uses || !p.named ||
	    deflateInit2(&p.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(p.uses);
		free(p.named);
		return -ENOMEM;
	}
	put_profile(&p);
	if (!p.error)
		pprof__deflate(&p, NULL, 0, Z_FINISH);
	deflateEnd(&p.zip);
	intern__clear(&p.strings);
	intern__clear(&p.functions);
	free(p.message.bytes);
	free(p.part.bytes);
	free(p.uses);
	free(p.named);
	return p.error;
}

int encode_pprof(const struct profile *profile, struct sink *sink)
{
	return encode(profile, NULL, sink);
}

int encode_pprof_interval(const struct profile *profile, const struct encode_interval *interval,
			  struct sink *sink)
{
	return encode(profile, interval, sink);
}
