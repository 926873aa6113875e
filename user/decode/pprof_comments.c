// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

#define MAX_AGE_S    1e9
#define MAX_COUNTERS 1000

#define SEEN_WHAT  (1ULL << 63)
#define OLD_FAULTS "growth" /* older versions wrote this word for faults */

/* The next four functions find the values of COMMENT_WHAT, COMMENT_MODE, COMMENT_DRAWN and
 * COMMENT_PART. */

/* Returns PROFILE_WHATS if the value is not a known one. */
static enum profile_what find_what(const char *value)
{
	enum profile_what what = PROFILE_HEAP;

	if (!strcmp(value, OLD_FAULTS))
		return PROFILE_FAULTS;
	while (what < PROFILE_WHATS && strcmp(profile_what__name(what), value))
		what++;
	return what;
}

static enum profile_mode find_mode(const char *value)
{
	enum profile_mode mode = MODE_UNKNOWN;

	while (mode < PROFILE_MODES && strcmp(profile_mode__name(mode), value))
		mode++;
	return mode < PROFILE_MODES ? mode : MODE_UNKNOWN;
}

static enum profile_drawn find_drawn(const char *value)
{
	enum profile_drawn drawn = DRAWN_NOTHING;

	while (drawn < DRAWN_KINDS && strcmp(profile_drawn__name(drawn), value))
		drawn++;
	return drawn < DRAWN_KINDS ? drawn : DRAWN_NOTHING;
}

static enum profile_part find_part(const char *value)
{
	enum profile_part part = PART_ALL;

	while (part < PROFILE_PARTS && strcmp(profile_part__name(part), value))
		part++;
	return part < PROFILE_PARTS ? part : PART_ALL;
}

/* Is the text a number in digits and nothing else? */
static bool take_number(const char *text, uint64_t *ret)
{
	const char *pos = text;

	return !take_decimal(&pos, text + strlen(text), ret) && !*pos;
}

/* Returns the real number that a text begins with; NaN: it begins with none. */
static double real_number(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	return end > text ? value : NAN;
}

/* Returns the value, limited to low .. high; NaN stays. */
static double within(double value, double low, double high)
{
	return value < low ? low : value > high ? high : value;
}

static void set_fact(struct profile *profile, const struct pprof_fact *fact, const char *value)
{
	void *at = pprof_fact__at(fact, profile);
	bool optional = fact->type == FACT_OPTIONAL || fact->type == FACT_OPTIONAL_SIGNED;
	bool negative = fact->type == FACT_SIGNED || fact->type == FACT_OPTIONAL_SIGNED;
	uint64_t n;

	if (optional || negative || fact->type == FACT_REAL) {
		double real = within(real_number(value), negative ? -MAX_VALUE : 0, MAX_VALUE);

		if (optional)
			*(struct optional *)at = optional__of(real);
		else if (isfinite(real))
			*(double *)at = real;
		return;
	}
	if (!take_number(value, &n))
		return;
	if (fact->type == FACT_UINT64)
		*(uint64_t *)at = n;
	else if (fact->type == FACT_BOOL)
		*(bool *)at = n != 0;
	else if (n <= INT32_MAX)
		*(uint32_t *)at = (uint32_t)n;
}

/* Only names like memtrace's own are accepted, because names are printed on terminals unchanged.
 * docs/memtrace.schema.json says how they begin. */
static bool is_counter_name(const char *name)
{
	return *name >= 'a' && *name <= 'z' &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] && strlen(name) < 64;
}

static int add_counter(struct profile *profile, const char *name, const char *value, bool of_run)
{
	const char *kept;
	uint64_t n;

	if (!take_number(value, &n) || !n || !is_counter_name(name) ||
	    profile->lost.n >= MAX_COUNTERS || profile->run->lost.n >= MAX_COUNTERS)
		return 0;
	/* a name must not be in both lists, because JSON would have its key twice */
	if (profile_counters__count(of_run ? &profile->lost : &profile->run->lost, name))
		return 0;
	kept = profile__keep(profile, name);
	if (!kept)
		return -ENOMEM;
	return of_run ? profile_run__note_lost(profile->run, kept, n)
		      : profile__add_lost(profile, kept, n);
}

static void set_survival_ages(struct profile *profile, const char *value)
{
	char *end;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++, value = end) {
		double age = strtod(value, &end);

		if (end == value)
			break;
		profile->survival_age_s[i] = isnan(age) ? 0 : within(age, 0, MAX_AGE_S);
	}
}

/* Returns the rest of `key` if it begins with `word`, else NULL. */
static const char *behind(const char *key, const char *word)
{
	return strncmp(key, word, strlen(word)) ? NULL : key + strlen(word);
}

/* Uses a comment if it is one of memtrace's. A value that is set already stays, so a merged profile
 * has the values of its first profile. Two kinds of values are added up instead, as samples are:
 * counts of losses, and the bytes of each kind of memory. (Of several equal comments pprof keeps
 * one, so equal values count once.) */
static int take_comment(struct profile *profile, const char *key, const char *value, uint64_t *seen)
{
	const char *rest;

	for (size_t i = 0; i < n_pprof_facts; i++) {
		if (strcmp(key, pprof_facts[i].key) || *seen >> i & 1)
			continue;
		*seen |= 1ULL << i;
		set_fact(profile, &pprof_facts[i], value);
		return 0;
	}
	if (!strcmp(key, COMMENT_WHAT)) {
		enum profile_what what = find_what(value);

		if (!(*seen & SEEN_WHAT))
			profile->what = what < PROFILE_WHATS ? what : PROFILE_HEAP;
		*seen |= SEEN_WHAT;
	} else if (!strcmp(key, COMMENT_MODE) && !profile->mode) {
		profile->mode = find_mode(value);
	} else if (!strcmp(key, COMMENT_DRAWN) && !profile->drawn) {
		profile->drawn = find_drawn(value);
	} else if (!strcmp(key, COMMENT_PART) && !profile->part) {
		profile->part = find_part(value);
	} else if (!strcmp(key, COMMENT_COMM) && !*profile->comm) {
		snprintf(profile->comm, sizeof(profile->comm), "%s", value);
	} else if (!strcmp(key, COMMENT_EXE) && !profile->exe) {
		profile->exe = strdup(value);
		return profile->exe ? 0 : -ENOMEM;
	} else if (!strcmp(key, COMMENT_REFUSED) && !profile->refused) {
		profile->refused = strdup(value);
		return profile->refused ? 0 : -ENOMEM;
	} else if (!strcmp(key, COMMENT_SURVIVAL) && !(profile->survival_age_s[0] > 0)) {
		set_survival_ages(profile, value);
	} else if ((rest = behind(key, COMMENT_KIND))) {
		double bytes = fmax(within(real_number(value), 0, MAX_VALUE), 0);

		for (int i = 0; i < REGION_MEMORY_KINDS; i++)
			if (!strcmp(rest, region_memory__name((enum region_memory)i)))
				profile->regions.kind_bytes[i] =
					fmin(profile->regions.kind_bytes[i] + bytes, MAX_VALUE);
	} else if ((rest = behind(key, COMMENT_RUN_LOST))) {
		return add_counter(profile, rest, value, true);
	} else if ((rest = behind(key, COMMENT_LOST))) {
		return add_counter(profile, rest, value, false);
	}
	return 0;
}

/* Is this the comment that memtrace writes into each of its files, and that no other program
 * writes? */
static bool is_own(const struct pprof_file *file, uint64_t comment)
{
	char line[64];

	for (enum profile_what what = PROFILE_HEAP; what < PROFILE_WHATS; what++) {
		snprintf(line, sizeof(line), COMMENT_WHAT ": %s", profile_what__name(what));
		if (pprof_file__text_is(file, comment, line))
			return true;
	}
	return pprof_file__text_is(file, comment, COMMENT_WHAT ": " OLD_FAULTS);
}

int pprof_comments__read(struct pprof_file *file)
{
	struct profile *profile = file->draft->profile;
	uint64_t seen = 0; /* bits: indices in pprof_facts[], and SEEN_WHAT */

	for (size_t i = 0; i < file->n_comments && !file->own; i++)
		file->own = is_own(file, file->comments[i]);
	for (size_t i = 0; i < file->n_comments && file->own; i++) {
		_cleanup_free_ char *comment = pprof_file__copy_text(file, file->comments[i]);
		char *colon = comment ? strstr(comment, ": ") : NULL;
		int rc;

		if (!comment)
			return -ENOMEM;
		if (!colon)
			continue;
		*colon = '\0';
		rc = take_comment(profile, comment, colon + 2, &seen);
		if (rc)
			return rc;
	}
	profile->growth.stacks_known &= file->value_at[VALUE_GROWTH] >= 0;
	if (file->time_ns > 0)
		profile->start_unix_ns = (uint64_t)file->time_ns;
	if (file->duration_ns > 0)
		profile->duration_s = (double)file->duration_ns / 1e9;
	if (pprof_file__text_is(file, file->period_type, PERIOD_TYPE) &&
	    pprof_file__text_is(file, file->period_unit, PERIOD_UNIT) &&
	    file->period <= MAX_INTERVAL)
		profile->interval_bytes = file->period;
	/* The file of a part of a run has no variances, so they are computed from the period. In
	 * two cases this is not possible: a change is a difference of two estimates, and windows
	 * add an error of their own. */
	if (profile->part == PART_CHANGE || (profile->part && profile__is_windowed(profile)))
		profile->interval_bytes = profile__is_exact(profile) ? 1 : 0;
	profile->no_objects = file->value_at[VALUE_INUSE_OBJECTS] < 0 || profile->no_objects;
	return 0;
}
