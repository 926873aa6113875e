// SPDX-License-Identifier: BSD-2-Clause
#include "encode/svg_head.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/table.h"
#include "encode/text.h"

/* About how many columns fit into the title, and into each other line. */
#define TITLE_COLUMNS 120
#define COLUMNS	      175

/* Breaks text into lines at blanks. */
static void wrap(char *text)
{
	size_t columns = 0, after_blank = 0, limit = TITLE_COLUMNS;
	char *blank = NULL;

	for (; *text; text++) {
		if ((*text & 0xc0) == 0x80)
			continue;
		columns++;
		after_blank++;
		if (*text == '\n') {
			columns = 0;
			limit = COLUMNS;
			blank = NULL;
		} else if (*text == ' ') {
			blank = text;
			after_blank = 0;
		}
		if (columns > limit && blank) {
			*blank = '\n';
			blank = NULL;
			columns = after_blank;
			limit = COLUMNS;
		}
	}
}

static int put_process(FILE *out, const struct profile *profile)
{
	_cleanup_free_ char *name = text_profile_name(profile);

	if (!name)
		return -ENOMEM;
	fputs(name, out);
	if (profile->pid > 0)
		fprintf(out, " (pid %d)", (int)profile->pid);
	return 0;
}

/* Returns the words that say in the title what the bytes mean. */
static const char *what_it_is(const struct profile *profile)
{
	switch (profile->weight) {
	case WEIGHT_ALLOCATED:
		return "allocated during the run";
	case WEIGHT_FREED:
		return "allocated during the run and freed again";
	case WEIGHT_GROWTH:
		return "growth of all stacks that grow";
	case WEIGHT_PEAK:
		return "live heap at its highest";
	default:
		break;
	}
	if (profile->drawn)
		return drawn_what(profile);
	if (profile->part == PART_CHANGE)
		return "what was gained in a part of a run";
	if (profile__is_regions(profile))
		return "live regions";
	if (profile__is_faults(profile))
		return "memory first touched and still there";
	return profile__is_windowed(profile) ? "live heap, from windows" : "live heap";
}

const char *svg_what(const struct profile *profile)
{
	static const char *const live[2][2] = {{NULL, "live, at most"},
					       {"live, at least", "live, about"}},
				 *const peak[2][2] = {{"live at the highest moment",
						       "live at the highest moment, at most"},
						      {"live at the highest moment, at least",
						       "live at the highest moment, about"}};
	bool lower = profile__is_lower_bound(profile), upper = profile__is_upper_bound(profile);

	switch (profile->weight) {
	case WEIGHT_ALLOCATED:
		return lower ? "allocated, at least" : "allocated";
	case WEIGHT_FREED:
		return lower ? "freed, at least" : "freed";
	case WEIGHT_GROWTH:
		return "growth";
	case WEIGHT_PEAK:
		return peak[lower][upper];
	default:
		break;
	}
	if (profile->drawn)
		return profile->drawn == DRAWN_PATHS	? "held or lost"
		       : profile->drawn == DRAWN_CENSUS ? "in the heap"
							: "in use";
	if (profile->part == PART_CHANGE)
		return "gained";
	if (live[lower][upper])
		return live[lower][upper];
	if (profile__is_faults(profile))
		return "still there";
	return profile__is_windowed(profile) ? "live, from windows" : "live";
}

const char *svg_unit(const struct profile *profile)
{
	if (profile__is_regions(profile))
		return "piece";
	if (profile->drawn)
		return "block";
	return profile__is_faults(profile) ? "page" : "object";
}

/* Puts "12.0 MiB (95 %: 10.4 - 13.8 MiB) in 13,836 objects". */
static void put_amount(FILE *out, const struct profile *profile, const struct estimate *live)
{
	struct interval interval = estimate__interval(live);
	uint64_t objects = to_integer(live->objects);
	char text[48];

	/* a profile from a file may have bytes without objects */
	if (!(live->objects > 0 || live->bytes > 0)) {
		double high = profile__live_interval(profile, live).high;

		fputs(isnan(high) || high > 0 ? "not known" : "nothing", out);
		return;
	}
	fputs(bound_words(profile__is_lower_bound(profile), profile__is_upper_bound(profile)), out);
	if (profile->weight == WEIGHT_OBJECTS) {
		objects = to_integer(live->bytes);
		fprintf(out, "%s %s%s", with_commas(objects, text), svg_unit(profile),
			objects == 1 ? "" : "s");
		return;
	}
	fputs(format_bytes(live->bytes, text), out);
	if (profile->weight == WEIGHT_GROWTH)
		fputs("/s", out);
	if (interval.high > interval.low && profile->interval_bytes &&
	    !profile__is_lower_bound(profile)) {
		format_interval(interval, text, sizeof(text));
		fprintf(out, " (95 %%: %s)", text);
	}
	if (live->objects > 0)
		fprintf(out, " in %s %s%s", with_commas(objects, text), svg_unit(profile),
			objects == 1 ? "" : "s");
}

static int put_sampling(FILE *out, const struct profile *profile)
{
	struct sink sink = sink__to_stream(out);
	char samples[32], calls[32];

	with_commas(profile->samples, samples);
	with_commas(profile->alloc_calls, calls);
	if (profile->drawn) {
		fputs(drawn_how(profile), out);
	} else if (profile->part) { /* the counts of the whole run are not in its file */
		put_foreign_sampling(profile, &sink);
	} else if (profile__is_regions(profile)) {
		fprintf(out, "%s%s calls that took memory",
			profile__is_surely_exact(profile) ? "exact: " : "", calls);
	} else if (profile__is_faults(profile)) {
		fprintf(out, "%s of %s page fault%s recorded", samples, calls,
			plural(profile->alloc_calls));
	} else if (!profile->mode || !profile->interval_bytes) {
		put_foreign_sampling(profile, &sink);
	} else if (profile__is_exact(profile)) {
		fprintf(out, "%s%s of %s allocation%s recorded",
			profile__is_surely_exact(profile) ? "exact: " : "", samples, calls,
			plural(profile->alloc_calls));
	} else {
		put_samples_per(profile->finest_interval_bytes, profile->asked_interval_bytes,
				profile->interval_bytes, &sink);
		fprintf(out, ": %s sample%s of %s %s", samples, plural(profile->samples), calls,
			sampled_word(profile));
	}
	return sink.error;
}

/* Puts how the profile was made, in one line. */
static int put_run(FILE *out, const struct profile *profile)
{
	int rc;

	time_t seconds = (time_t)(profile->start_unix_ns / 1000000000);
	struct tm tm;
	char when[32];

	if (profile->mode || profile->duration_s > 0)
		fprintf(out, "%.1f s%s%s", profile->duration_s, profile->mode ? " " : "",
			profile_mode__name(profile->mode));
	if (profile->windows.n)
		fprintf(out, " (%" PRIu64 " windows of %.0f ms, %.1f s continuous)",
			profile->windows.n,
			1000 * profile->windows.seconds / (double)profile->windows.n,
			profile->windows.continuous_s);
	if (profile->mode || profile->duration_s > 0)
		fputs(", ", out);
	rc = put_sampling(out, profile);
	if (profile->stacks_walked)
		fprintf(out, "; %.1f %% of stacks complete", profile__stacks_complete_pct(profile));
	if (seconds && gmtime_r(&seconds, &tm) &&
	    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm))
		fprintf(out, "; %s", when);
	fputc('\n', out);
	return rc;
}

/* Puts the growth of the whole profile since the base. */
static void put_change(FILE *out, const struct tree *tree)
{
	struct tree_change change = tree_node__change(tree, &tree->nodes[0]);
	char text[3][32], count[32];

	fprintf(out, "change %s", format_change(change.bytes, text[0]));
	if (change.interval.high > change.interval.low)
		fprintf(out, " (95 %%: %s to %s)", format_change(change.interval.low, text[1]),
			format_change(change.interval.high, text[2]));
	if (change.bytes != 0 && tree->unsure)
		fputs(", with unknown error", out);
	else if (change.bytes != 0)
		fprintf(out, ", %s sampling error",
			tree_change__exceeds_error(&change) ? "more than" : "within");
	if (tree->gone_stacks)
		fprintf(out,
			"; only the base has %s in %s stack%s, which show with widths by the base",
			format_bytes(tree->gone_bytes, text[0]),
			with_commas(tree->gone_stacks, count), tree->gone_stacks == 1 ? "" : "s");
	fputc('\n', out);
	/* without these words, readers would think that colours rule out chance */
	if (!tree->unsure)
		fputs("a change beyond the sampling error may still be chance, because blocks come "
		      "and go: `memtrace diff` tells which stacks grow beyond chance\n",
		      out);
}

/* Puts what is missing from the picture: INCOMPLETE, and the counters that are not zero. Puts
 * contradictions, too. */
static int put_losses(FILE *out, const struct profile *profile, const char *whose)
{
	_cleanup_free_ char *text = NULL, *printable = NULL;
	char count[32];
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	struct sink sink;

	if (!stream)
		return -ENOMEM;
	if (profile->dropped)
		fprintf(out, "%sINCOMPLETE: %s samples %sare missing\n", whose,
			with_commas(profile->dropped, count),
			profile__lacks_room(profile) ? "had no room and " : "");
	if (profile->regions.stopped_s.known)
		fprintf(out, "%sINCOMPLETE: followed for the first %.1f s only\n", whose,
			profile->regions.stopped_s.value);
	sink = sink__to_stream(out);
	if (put_contradictions(profile, whose, &sink)) {
		fclose(stream);
		return -ENOMEM;
	}
	sink = sink__to_stream(stream);
	put_lost(profile, false, &sink);
	if (fclose(stream) || sink.error)
		return -ENOMEM;
	if (!len)
		return 0;
	text[len - 1] = '\0'; /* cuts off the last newline */
	printable = text_printable(text);
	if (!printable)
		return -ENOMEM;
	fprintf(out, "%s%s\n", whose, printable);
	return 0;
}

static int put_lines(FILE *out, const struct profile *profile, const struct profile *base,
		     const struct tree *tree)
{
	int rc = put_process(out, profile);

	if (!rc && base) {
		fputs(" against ", out);
		rc = put_process(out, base);
	}
	if (rc)
		return rc;
	fprintf(out, ": %s: ", what_it_is(profile));
	put_amount(out, profile, &tree->nodes[0].live);
	fputc('\n', out);
	if (base) {
		put_change(out, tree);
		/* missed memory is not part of the sampling error that put_change() has named */
		if (profile__is_lower_bound(profile) || profile__is_lower_bound(base))
			fprintf(out, "%s\n", diff_warning__text(DIFF_WARN_INCOMPLETE));
		fputs("new: ", out);
	}
	rc = put_run(out, profile);
	if (base && !rc) {
		fprintf(out, "base: %s: ", what_it_is(base));
		put_amount(out, base, &tree->nodes[0].base);
		fputs("; ", out);
		rc = put_run(out, base);
	}
	if (!rc)
		rc = put_losses(out, profile, base ? "new: " : "");
	return rc || !base ? rc : put_losses(out, base, "base: ");
}

int svg_head(const struct profile *profile, const struct profile *base, const struct tree *tree,
	     char **ret_text)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int rc;

	if (!out)
		return -ENOMEM;
	rc = put_lines(out, profile, base, tree);
	if (ferror(out))
		rc = -ENOMEM;
	if (fclose(out) || rc)
		return rc ? rc : -ENOMEM;
	wrap(text);
	*ret_text = text;
	text = NULL;
	return 0;
}
