// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

/* The kinds of labels. */
enum label_kind {
	KIND_OTHER = 1,
	KIND_THREAD,
	KIND_TID,
	KIND_PID,
	KIND_COMM,
	KIND_INCOMPLETE, /* the kinds from here on are memtrace's own */
	KIND_TRUNCATED,
	KIND_ALLOCATORS_OWN,
	KIND_LARGEST,
	KIND_SQUARES,
	KIND_COMMON,
	KIND_MOST,
	KIND_LEAST,
	KIND_ALLOC_ERROR,
	KIND_ALLOC_COMMON,
	KIND_GROWTH_LOW,
	KIND_GROWTH_HIGH,
	KIND_REPLACES,
	KIND_PEAK_OBJECTS,
	KIND_PEAK_SPACE,
	KIND_SURVIVAL,					    /* plus the index of the age */
	KIND_OLDER = KIND_SURVIVAL + PROFILE_SURVIVAL_AGES, /* plus the index of the age */
	KIND_FREED = KIND_OLDER + PROFILE_SURVIVAL_AGES,    /* plus the class of the age */
};

struct label {
	uint64_t key, str; /* indices of strings */
	uint64_t num;
};

/* What the labels of one sample say. */
struct labels {
	bool has_thread;
	uint64_t thread; /* index of the name's text */
	bool has_tid;
	uint64_t tid;
	bool incomplete, truncated, allocators_own, has_low, has_high, replaces;
	double largest, root_of_squares, common, most, least, alloc_error, alloc_common, low, high,
		peak_objects, peak_bytes;
	double freed[PROFILE_AGES];
	double survival[PROFILE_SURVIVAL_AGES], older[PROFILE_SURVIVAL_AGES];
};

struct samples {
	const struct pprof_file *file;
	const struct pprof_places *places;
	struct profile *profile;
	uint8_t *kinds; /* enum label_kind, by the key's text; 0: not looked up yet */
	/* of the sample that is being read */
	uint64_t *addrs; /* room for MAX_STACK_FRAMES */
	size_t n_addrs;
	int64_t values[PPROF_MAX_TYPES];
	size_t n_values;
	struct labels labels;
	double remainders[OWN_REMAINDERS]; /* rounding errors of the values, in their units */
	struct pprof_own_stack own;
};

static int read_stack(struct samples *samples, struct field *field)
{
	const struct pprof_file *file = samples->file;
	bool done = false;
	uint64_t id;
	int rc;

	while ((rc = wire__next_number(file->input, field, &done, &id)) > 0) {
		ptrdiff_t found = pprof_table__find(&file->locations, id);

		if (found < 0)
			return pprof_file__bad(file, field->at,
					       "a reference to a missing location");
		if (samples->n_addrs == MAX_STACK_FRAMES)
			return pprof_file__bad(file, field->at,
					       "a stack of more frames than can be read");
		samples->addrs[samples->n_addrs++] = samples->places->locations[found].addr;
	}
	return rc;
}

static int read_values(struct samples *samples, struct field *field)
{
	const struct pprof_file *file = samples->file;
	bool done = false;
	uint64_t value;
	int rc;

	while ((rc = wire__next_number(file->input, field, &done, &value)) > 0) {
		if (samples->n_values == file->n_types)
			return pprof_file__bad(file, field->at,
					       "a sample with more values than types of them");
		samples->values[samples->n_values++] = (int64_t)value;
	}
	return rc;
}

static int read_label(const struct pprof_file *file, const struct field *field, struct label *ret)
{
	const struct pprof_member members[] = {
		{LABEL_KEY, MEMBER_TEXT, &ret->key},
		{LABEL_STR, MEMBER_TEXT, &ret->str},
		{LABEL_NUM, MEMBER_NUMBER, &ret->num},
	};
	int rc = wire__want_bytes(file->input, field);

	return rc ? rc
		  : pprof_file__members(file, field->bytes, members,
					sizeof(members) / sizeof(*members));
}

static enum label_kind find_kind(const struct samples *samples, uint64_t key)
{
	const struct pprof_file *file = samples->file;
	const double *ages_s = samples->profile->survival_age_s;
	static const char *const names[] = {
		[KIND_THREAD] = LABEL_THREAD,
		[KIND_TID] = LABEL_TID,
		[KIND_PID] = LABEL_PID,
		[KIND_COMM] = LABEL_COMM,
		[KIND_INCOMPLETE] = LABEL_INCOMPLETE,
		[KIND_TRUNCATED] = LABEL_TRUNCATED,
		[KIND_ALLOCATORS_OWN] = LABEL_ALLOCATORS_OWN,
		[KIND_LARGEST] = LABEL_LARGEST,
		[KIND_SQUARES] = LABEL_SQUARES,
		[KIND_COMMON] = LABEL_COMMON,
		[KIND_MOST] = LABEL_MOST,
		[KIND_LEAST] = LABEL_LEAST,
		[KIND_ALLOC_ERROR] = LABEL_ALLOC_ERROR,
		[KIND_ALLOC_COMMON] = LABEL_ALLOC_COMMON,
		[KIND_GROWTH_LOW] = LABEL_GROWTH_LOW,
		[KIND_GROWTH_HIGH] = LABEL_GROWTH_HIGH,
		[KIND_REPLACES] = LABEL_REPLACES,
		[KIND_PEAK_OBJECTS] = LABEL_PEAK_OBJECTS,
		[KIND_PEAK_SPACE] = LABEL_PEAK_SPACE,
	};
	char survival[48], older[48], freed[48];

	for (int i = KIND_THREAD; i < (file->own ? KIND_SURVIVAL : KIND_INCOMPLETE); i++)
		if (pprof_file__text_is(file, key, names[i]))
			return (enum label_kind)i;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES && file->own; i++) {
		snprintf(survival, sizeof(survival), LABEL_SURVIVAL, ages_s[i]);
		snprintf(older, sizeof(older), LABEL_OLDER, ages_s[i]);
		if (ages_s[i] > 0 && pprof_file__text_is(file, key, survival))
			return (enum label_kind)(KIND_SURVIVAL + i);
		if (ages_s[i] > 0 && pprof_file__text_is(file, key, older))
			return (enum label_kind)(KIND_OLDER + i);
	}
	for (int i = 0; i < PROFILE_AGES && file->own; i++) {
		snprintf(freed, sizeof(freed), LABEL_FREED "%s", profile_age__name(i));
		if (pprof_file__text_is(file, key, freed))
			return (enum label_kind)(KIND_FREED + i);
	}
	return KIND_OTHER;
}

static void take_comm(const struct samples *samples, uint64_t number)
{
	struct profile *profile = samples->profile;
	struct bytes comm = pprof_file__text(samples->file, number);

	if (comm.pos)
		snprintf(profile->comm, sizeof(profile->comm), "%.*s", (int)(comm.end - comm.pos),
			 (const char *)comm.pos);
}

static double to_share(double ppm)
{
	return fmin(fmax(ppm / PPM, 0), 1);
}

/* Uses a label. A file may have samples of several processes: the profile gets the pid and comm of
 * the first process. */
static void use_label(struct samples *samples, const struct label *label)
{
	struct labels *labels = &samples->labels;
	struct profile *profile = samples->profile;
	uint8_t *kind = &samples->kinds[label->key];
	int64_t number = (int64_t)label->num;

	if (!*kind)
		*kind = (uint8_t)find_kind(samples, label->key);
	switch (*kind) {
	case KIND_OTHER:
		return;
	case KIND_THREAD:
		labels->has_thread = label->str;
		labels->thread = label->str;
		return;
	case KIND_TID:
		labels->has_tid = true;
		labels->tid = label->num;
		return;
	case KIND_PID:
		if (!profile->pid && number > 0 && number <= INT32_MAX)
			profile->pid = (pid_t)number;
		return;
	case KIND_COMM:
		if (!*profile->comm)
			take_comm(samples, label->str);
		return;
	case KIND_INCOMPLETE:
		labels->incomplete = label->num;
		return;
	case KIND_TRUNCATED:
		labels->truncated = label->num;
		return;
	case KIND_ALLOCATORS_OWN:
		labels->allocators_own = label->num;
		return;
	case KIND_LARGEST:
		labels->largest = fmax((double)number, 0);
		return;
	case KIND_SQUARES:
		labels->root_of_squares = fmax((double)number, 0);
		return;
	case KIND_COMMON:
		labels->common = fmax((double)number, 0);
		return;
	case KIND_MOST:
		labels->most = fmax((double)number, 0);
		return;
	case KIND_LEAST:
		labels->least = fmax((double)number, 0);
		return;
	case KIND_ALLOC_ERROR:
		labels->alloc_error = fmax((double)number, 0);
		return;
	case KIND_ALLOC_COMMON:
		labels->alloc_common = fmax((double)number, 0);
		return;
	case KIND_GROWTH_LOW:
		labels->has_low = true;
		labels->low = (double)number / PER_HOUR;
		return;
	case KIND_GROWTH_HIGH:
		labels->has_high = true;
		labels->high = (double)number / PER_HOUR;
		return;
	case KIND_REPLACES:
		labels->replaces = label->num;
		return;
	case KIND_PEAK_OBJECTS:
		labels->peak_objects = fmax((double)number, 0);
		return;
	case KIND_PEAK_SPACE:
		labels->peak_bytes = fmax((double)number, 0);
		return;
	default:
		if (*kind < KIND_OLDER)
			labels->survival[*kind - KIND_SURVIVAL] = to_share((double)number);
		else if (*kind < KIND_FREED)
			labels->older[*kind - KIND_OLDER] = to_share((double)number);
		else
			labels->freed[*kind - KIND_FREED] = fmax((double)number, 0);
	}
}

/* Returns a value of the sample, rounded as in the file. memtrace's encoder carries the rounding
 * error of one sample to the next one. So the sum of such values over all samples is right. */
static double rounded_of(const struct samples *samples, enum pprof_value value)
{
	int at = samples->file->value_at[value];

	return at < 0 ? 0 : (double)samples->values[at];
}

/* Returns the value before it was rounded. */
static double value_of(const struct samples *samples, enum pprof_value value)
{
	double rounded = rounded_of(samples, value);

	if (value >= OWN_REMAINDERS || samples->remainders[value] == 0)
		return rounded;
	return fmax(rounded + samples->remainders[value], 0);
}

/* Returns the sample's live memory as an estimate. The error comes from the file. If the file lacks
 * the error, it is computed as for a profiler that sampled by the file's period. */
static struct estimate live_of(const struct samples *samples)
{
	const struct labels *labels = &samples->labels;
	double objects = value_of(samples, VALUE_INUSE_OBJECTS),
	       bytes = value_of(samples, VALUE_INUSE_SPACE);
	uint64_t interval = samples->profile->interval_bytes;
	struct estimate live = {.objects = objects, .bytes = bytes};

	if (samples->file->value_at[VALUE_INUSE_VARIANCE] >= 0) {
		live.samples = (uint64_t)rounded_of(samples, VALUE_INUSE_SAMPLES);
		live.sampled_bytes = (uint64_t)rounded_of(samples, VALUE_INUSE_SAMPLED);
		live.variance =
			value_of(samples, VALUE_INUSE_VARIANCE) * (double)(interval ? interval : 1);
		live.variance_max = labels->largest * labels->largest;
		live.squares = labels->root_of_squares * labels->root_of_squares;
		live.common = labels->common;
		live.least = labels->least;
	} else if (interval && objects > 0 && bytes > 0) {
		double p = -expm1(-bytes / objects / (double)interval);

		live = unsampled(objects * p, bytes * p, interval);
		live.objects = objects; /* the file's number: the number from unsampled() may have a
					 * rounding error */
		live.bytes = bytes;
	}
	return live;
}

static int add_held(const struct samples *samples, size_t site, const struct estimate *live)
{
	const struct labels *labels = &samples->labels;
	struct draft *draft = samples->file->draft;
	_cleanup_free_ char *name = NULL;
	size_t thread;
	int rc;

	if (!labels->has_thread && !labels->has_tid)
		return 0;
	name = pprof_file__copy_text(samples->file, labels->thread);
	if (!name)
		return -ENOMEM;
	rc = draft__thread(draft, labels->has_tid ? labels->tid : NO_TID, name, &thread);
	if (!rc && (live->objects > 0 || live->bytes > 0))
		rc = draft__held(draft, site, thread, live->objects, live->bytes);
	return rc;
}

static void add_growth(struct growth *to, double bytes_per_s, const struct labels *labels)
{
	to->bytes_per_s += bytes_per_s;
	if (!labels->has_low || !labels->has_high)
		return;
	/* In a merged profile, a stack may have several intervals. The sum of the intervals is
	 * used, although it is too wide. */
	to->low = (isnan(to->low) ? 0 : to->low) + labels->low;
	to->high = (isnan(to->high) ? 0 : to->high) + labels->high;
}

static int add_sample(const struct samples *samples, const uint8_t *at)
{
	const struct labels *labels = &samples->labels;
	struct draft *draft = samples->file->draft;
	size_t index, n = draft->stacks.n;
	struct profile_site *site;
	struct estimate live;
	double most;
	int rc;

	for (int i = 0; i < VALUE_GROWTH; i++)
		if (samples->file->value_at[i] >= 0 &&
		    samples->values[samples->file->value_at[i]] < 0)
			return pprof_file__bad(
				samples->file, at,
				"a negative value: it is the difference of two profiles");
	live = live_of(samples);
	rc = draft__site(draft, samples->addrs, samples->n_addrs, &index);
	if (rc)
		return rc;
	site = &samples->profile->sites[index];
	if (draft->stacks.n > n)
		site->complete = samples->file->own;
	most = fmax(site->live.most, labels->most);
	rc = draft__add(draft, index, &live, value_of(samples, VALUE_ALLOC_OBJECTS),
			value_of(samples, VALUE_ALLOC_SPACE));
	if (rc)
		return rc;
	/* only one sample of a stack has this label, and the label is of the whole stack */
	site->live.most = most;
	site->complete = site->complete && !labels->incomplete;
	site->truncated = site->truncated || labels->truncated;
	site->allocators_own = site->allocators_own || labels->allocators_own;
	site->replaces = site->replaces || labels->replaces;
	site->alloc_variance += labels->alloc_error * labels->alloc_error;
	site->alloc_common += labels->alloc_common;
	site->peak_objects += labels->peak_objects;
	site->peak_bytes += labels->peak_bytes;
	for (int i = 0; i < PROFILE_AGES; i++)
		site->life.ended[i] += labels->freed[i];
	rc = pprof_own__set_stack(samples->file, &samples->own, site);
	if (rc)
		return rc;
	if (samples->profile->growth.stacks_known)
		add_growth(&site->growth, value_of(samples, VALUE_GROWTH) / PER_HOUR, labels);
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		if (isfinite(labels->survival[i]))
			site->survival[i] = labels->survival[i];
		if (isfinite(labels->older[i]))
			site->older[i] = labels->older[i];
	}
	return add_held(samples, index, &live);
}

static int read_part(struct samples *samples, struct field *part)
{
	struct label label = {};
	int rc;

	switch (part->number) {
	case SAMPLE_LOCATION_ID:
		return read_stack(samples, part);
	case SAMPLE_VALUE:
		return read_values(samples, part);
	case SAMPLE_LABEL:
		rc = read_label(samples->file, part, &label);
		if (!rc)
			use_label(samples, &label);
		return rc;
	case SAMPLE_OWN_REMAINDERS:
		return samples->file->own ? pprof_own__read_remainders(samples->file, part,
								       samples->remainders)
					  : 0;
	case SAMPLE_OWN_STACK:
		return samples->file->own
			       ? pprof_own__read_stack(samples->file, part, &samples->own)
			       : 0;
	default:
		return 0;
	}
}

static int read_sample(struct samples *samples, const struct field *field)
{
	const struct pprof_file *file = samples->file;
	struct bytes in = field->bytes;
	struct field part;
	int rc = 0;

	samples->labels = (struct labels){};
	samples->own = (struct pprof_own_stack){};
	memset(samples->remainders, 0, sizeof(samples->remainders));
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		samples->labels.survival[i] = samples->labels.older[i] = NAN;
	samples->n_addrs = samples->n_values = 0;
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = read_part(samples, &part);
	if (rc)
		return rc;
	if (samples->n_values != file->n_types)
		return pprof_file__bad(file, field->at,
				       "a sample with fewer values than types of them");
	rc = add_sample(samples, field->at);
	return rc == -EFBIG ? pprof_file__too_much(file, field->at) : rc;
}

int pprof_samples__read(const struct pprof_file *file, const struct pprof_places *places)
{
	struct samples samples = {.file = file, .places = places, .profile = file->draft->profile};
	struct bytes in = wire__message(file->input);
	struct field field;
	int rc = 0;

	samples.addrs = calloc(MAX_STACK_FRAMES, sizeof(*samples.addrs));
	samples.kinds = calloc(file->n_strings + 1, 1);
	if (!samples.addrs || !samples.kinds)
		rc = -ENOMEM;
	while (!rc && (rc = wire__next(file->input, &in, &field)) > 0)
		rc = field.number == PROFILE_SAMPLE ? read_sample(&samples, &field) : 0;
	free(samples.addrs);
	free(samples.kinds);
	return rc;
}
