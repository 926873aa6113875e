// SPDX-License-Identifier: BSD-2-Clause
/* Does the process leak, and where? Stacks are ranked by evidence. Each stack gets a few sentences:
 * whether it surely grows, its share of all growth, whether its blocks are ever freed, and what
 * would make the answer surer. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/json.h"
#include "encode/table.h"
#include "encode/text.h"
#include "encode/where.h"

#define DEFAULT_TOP   10
#define DEFAULT_WIDTH 100
#define HOLDER_MAX    60 /* columns of a function's name in a sentence */
/* if more than this share of a stack's examined blocks are lost, the stack is said to lose its
 * blocks */
#define LOST_SHARE 0.5
#define HOLDERS	   2 /* at most this many holders of a stack's blocks are printed */
/* at most this many stacks that may grow, but do not surely grow, are printed */
#define MAYBE 3
/* Let q be a stack's survival at the last age, divided by its survival at the first age. If q is
 * FLAT or more, the blocks stay, like those of a leak. If q is STEEP or less, the blocks are freed,
 * like those of a cache. */
#define FLAT  0.8
#define STEEP 0.5
/* If a stack grows by this many samples within the time that is examined, its growth is found in 95
 * of 100 cases. This holds if the time is cut into eight segments and the error is taken from their
 * spread (profile/growth.h). */
#define SAMPLES_FOUND 20
/* If more than this share of a run is traced continuously, growth is known as well as in a
 * continuous run (session/windowed_trend.c). */
#define NEARLY_ALL 0.8
#define LONGEST	   60 /* a run of at most this many times the present length is advised */
#define LEAST_RATE 1  /* bytes per second: slower growth is not mentioned */
#define MUCH_PCT   20 /* per cent of CPU time: the value of --max-overhead that is advised */
/* bytes per second: if a process grows faster, its growth is always mentioned */
#define GROWS (16 << 10)

/* What is known of one stack, or of a group of stacks that are printed the same. */
struct suspect {
	const struct profile *profile;
	const struct profile_site *site;
	double rate, low, high; /* bytes per second */
	double live;
	size_t index; /* index in the given order */
	bool sure;
	/* True: the next four fields are known. Of the memory that was allocated more than
	 * `young_s` ago, the share `young` is still live. `old` and `old_s` are the same for a
	 * higher age. */
	bool aged;
	double young_s, young, old_s, old;
	double oldest_s;   /* some of the stack's memory is older than this; 0: not known */
	struct growth now; /* growth that the last profile alone shows, at the end of the run; low
			    * is NaN: not known */
	bool replaces;	   /* as in struct profile_site */
	const struct site_why *why; /* who holds its blocks; NULL: not asked */
	unsigned rises;		    /* the stack grew in this many of `steps`; 0: not known */
	size_t steps;
};

static bool is_flat(const struct suspect *s)
{
	return s->aged && s->young > 0 && s->old >= FLAT * s->young;
}

static bool is_steep(const struct suspect *s)
{
	return s->aged && s->old <= STEEP * s->young;
}

/* May the growth be over? The stack has grown from the first profile to the last, but the last
 * profile alone does not show that it still grows. */
static bool is_over(const struct suspect *s)
{
	return s->sure && isfinite(s->now.low) && s->now.low <= 0 && s->now.high < s->rate;
}

/* Is the estimated growth too small to be mentioned? (The high end of its interval may be
 * large.) */
static bool is_none(const struct suspect *s)
{
	return s->rate < LEAST_RATE;
}

/* Returns the rank of the evidence. Stacks that surely grow come first. Of these, flat stacks lead.
 * Steep stacks, and stacks whose growth may be over, are last of these. Stacks that may grow
 * follow. Ties are ordered by growth__compare(). */
static int evidence(const struct suspect *s)
{
	return !s->sure ? 0 : is_steep(s) || is_over(s) ? 1 : is_flat(s) ? 3 : 2;
}

static int by_evidence(const void *a, const void *b)
{
	const struct suspect *x = a, *y = b;

	int order = growth__compare(&(struct growth){x->rate, x->low, x->high},
				    &(struct growth){y->rate, y->low, y->high});

	if (evidence(x) != evidence(y))
		return evidence(y) - evidence(x);
	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Puts " (95 %: 1.0 - 1.5 MiB)", if the figure has an error. */
static void put_interval(double low, double high, struct sink *sink)
{
	char interval[48];

	if (!isfinite(low) || !isfinite(high) || low == high)
		return;
	if (low > 0) {
		format_interval((struct interval){low, high}, interval, sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	} else {
		sink__printf(sink, " (95 %%: up to %s)", format_bytes(fmax(high, 0), interval));
	}
}

/* Says whether the stack's blocks are freed as they get older. */
static void put_ages(const struct suspect *s, struct sink *sink)
{
	if (!s->aged)
		return;
	if (is_flat(s))
		sink__puts(sink, ", and hardly any of it is freed as it gets older");
	else if (is_steep(s))
		sink__puts(sink, ", though most of it is freed as it gets older, as a cache's is");
	else
		sink__puts(sink, ", and some of it is freed as it gets older");
	sink__printf(sink, " (held of what is older than %.3g s: %.0f %%, than %.3g s: %.0f %%)",
		     s->young_s, 100 * s->young, s->old_s, 100 * s->old);
}

static bool mostly_windows(const struct profile *profile)
{
	return profile__is_windowed(profile) &&
	       profile->windows.continuous_s < NEARLY_ALL * profile->duration_s;
}

/* Does the limit (--max-overhead) set the number of samples? Otherwise -i sets it. */
static bool is_limited(const struct profile *profile)
{
	return profile->asked_interval_bytes || profile__is_windowed(profile);
}

static int put_advice(const struct suspect *s, struct sink *sink)
{
	_cleanup_free_ char *holder = where_holder(s->profile, s->site, HOLDER_MAX, false);
	double error = s->rate - s->low, times = ceil(error * error / (s->rate * s->rate) * 1.5);

	if (!holder)
		return -ENOMEM;
	if (s->why && s->why->lost > LOST_SHARE * (double)s->why->asked)
		sink__printf(sink,
			     "   To confirm: look at %s: who drops the last pointer to what is "
			     "allocated there, and does not free it?\n",
			     holder);
	else if (!s->sure && !isfinite(s->low))
		sink__puts(sink,
			   "   To confirm: trace longer, and judge that profile by itself: it "
			   "tells how sure this growth is.\n");
	else if (!s->sure && error > 0 && times < LONGEST)
		sink__printf(
			sink,
			"   To confirm: this may be chance; a run about %.0f times as long, or %s, "
			"would tell.\n",
			fmax(times, 2),
			is_limited(s->profile) ? "a larger limit (--max-overhead)"
					       : "an interval (-i) as much smaller");
	else if (!s->sure)
		sink__puts(sink,
			   "   To confirm: this may well be chance; a longer run would tell.\n");
	else if (is_flat(s))
		sink__printf(sink,
			     "   To confirm: look at %s: who is to free what is allocated there, "
			     "and when?\n",
			     holder);
	else
		sink__printf(
			sink,
			"   To confirm: a run three times as long tells whether it levels off, as "
			"what fills up does; if it does not, look at %s.\n",
			holder);
	return sink->error;
}

/* The findings about one profile, or about several. */
struct finding {
	struct suspect *suspects; /* by_evidence() */
	size_t n, n_sure;
	bool judged;	  /* the profile shows which growth is sure */
	double whole;	  /* all growth, bytes per second; a stack's growth is printed as a share of
			   * `whole`. 0 or less: not known */
	const char *what; /* the words for `whole` */
	bool of_process;  /* `whole` is the process's growth, not the sum of the stacks */
	/* growth of the process's anonymous memory, bytes per second */
	struct optional process;
	double least; /* growth that would have been found in 95 of 100 cases; NaN: not known */
	bool limited; /* is_limited() */
	/* windows show that the process gains blocks, but perhaps not which stack gains them */
	bool somebody;
	/* Filters have left out stacks. Growth of the process that the remaining stacks do not
	 * explain may be in the stacks left out. */
	bool filtered;
	/* no stack surely grows, and the stacks that may grow explain less than half of the
	 * process's growth: most of what grows is not malloc's memory */
	bool elsewhere;
};

static void finding__clear(struct finding *finding)
{
	free(finding->suspects);
}

static void finding__sort(struct finding *finding)
{
	qsort(finding->suspects, finding->n, sizeof(*finding->suspects), by_evidence);
	for (size_t i = 0; i < finding->n; i++)
		finding->n_sure += finding->suspects[i].sure;
}

/* Puts "60 of 100 sampled blocks (60 %)". */
static void put_count(uint64_t n, const struct site_why *why, struct sink *sink)
{
	sink__printf(sink, "%" PRIu64 " of %" PRIu64 " sampled block%s (%.0f %%)", n, why->asked,
		     plural(why->asked), 100.0 * (double)n / (double)why->asked);
}

/* Says who holds the stack's blocks, or that they are lost. */
static int put_why(const struct site_why *why, struct sink *sink)
{
	uint64_t told = 0;

	if (!why || !why->asked)
		return 0;
	if (why->lost) {
		sink__puts(sink, "   Lost: ");
		put_count(why->lost, why, sink);
		sink__puts(sink, ". No pointer to them is left.\n");
	}
	for (size_t i = 0; i < why->n_holders && i < HOLDERS; i++) {
		const struct site_holder *holder = &why->holders[i];
		_cleanup_free_ char *path = text_printable(holder->path);

		if (!path)
			return -ENOMEM;
		sink__puts(sink, "   Held: ");
		put_count(holder->blocks, why, sink);
		sink__printf(sink, " by %s%s\n", path, i ? "." : ": see what removes from it.");
		told += holder->blocks;
	}
	if (why->followed > told) {
		sink__puts(sink, "   Held in other ways: ");
		put_count(why->followed - told, why, sink);
		sink__puts(sink, ".\n");
	}
	if (why->held > why->followed) {
		sink__puts(sink, "   Held by chains too long to be followed: ");
		put_count(why->held - why->followed, why, sink);
		sink__puts(sink, ".\n");
	}
	if (why->in_doubt) {
		sink__puts(sink, "   In doubt: ");
		put_count(why->in_doubt, why, sink);
		sink__puts(sink, ": not reached in the last full scan, but not "
				 "surely lost.\n");
	}
	if (why->gone) {
		sink__puts(sink, "   Not found: ");
		put_count(why->gone, why, sink);
		sink__puts(sink, ", freed meanwhile or in memory of a pool.\n");
	}
	return sink->error;
}

/* Says how reliable the sentences of put_why() are. */
static int put_why_doubts(const struct profile *profile, struct sink *sink)
{
	const struct profile_why *why = profile->why;
	_cleanup_free_ char *text = NULL;

	if (!why)
		return 0;
	text = text_printable(why->failed ? why->failed : why->doubt ? why->doubt : "");
	if (!text)
		return -ENOMEM;
	if (why->failed)
		sink__printf(sink, "Who holds the blocks is not known: %s.\n", text);
	else if (why->doubt)
		sink__printf(sink, "No block is called lost: %s.\n", text);
	if (!why->failed && why->no_registers)
		sink__puts(sink, "Threads' registers could not be read: a block to which only a "
				 "register leads is called lost.\n");
	return sink->error;
}

static int put_suspect(const struct suspect *s, size_t number, const struct finding *finding,
		       const struct table_options *options, struct sink *sink)
{
	unsigned width = options->width ? options->width : DEFAULT_WIDTH;
	char rate[16], live[16], now[20], range[CELL_SIZE];
	int err;

	sink__printf(sink, options->color ? BOLD "%zu. " : "%zu. ", number);
	err = put_where(s->profile, s->site, width - 4, options->show_runtime, sink);
	if (err)
		return err;
	sink__puts(sink, options->color ? RESET "\n   " : "\n   ");
	if (is_none(s)) {
		sink__printf(sink, "may grow, by up to %s/s (95 %%), if it does at all",
			     format_bytes(s->high, rate));
	} else {
		sink__printf(sink, "%s by %s/s", s->sure ? "surely grows," : "may grow,",
			     format_bytes(s->rate, rate));
		put_interval(s->low, s->high, sink);
		if (s->rate <= finding->whole)
			sink__printf(sink, ", %.0f %% of what %s by",
				     100 * s->rate / finding->whole, finding->what);
	}
	sink__printf(sink, ", and holds %s", format_bytes(s->live, live));
	if (s->steps > 1)
		sink__printf(sink, "; it was more in %u of %zu steps", s->rises, s->steps);
	put_ages(s, sink);
	if (s->oldest_s > 0)
		sink__printf(sink, "; its oldest is older than %.3g s", s->oldest_s);
	sink__puts(sink, ".\n");
	if (is_over(s)) {
		format_range(s->now.low, s->now.high, range, sizeof(range));
		sink__printf(
			sink,
			"   But the growth may have ended: by the last profile alone, at the end "
			"of the run, it was %s/s (95 %%: %s).\n",
			format_change(s->now.bytes_per_s, now), range);
	}
	if (s->replaces)
		sink__puts(sink,
			   "   The process does not grow by as much: these blocks take the place "
			   "of older ones, or they are freed at moments that no window saw.\n");
	err = put_why(s->why, sink);
	return err ? err : put_advice(s, sink);
}

/* Puts the end of the head line. */
static void put_verdict(const struct finding *finding, struct sink *sink)
{
	size_t sure = finding->n_sure;

	if (!finding->judged)
		sink__puts(sink, ": what grows is seen, but not whether it is more than chance\n");
	else if (sure)
		sink__printf(sink, ": %zu stack%s surely grow%s\n", sure, sure == 1 ? "" : "s",
			     sure == 1 ? "s" : "");
	else if (finding->filtered)
		sink__puts(sink, ": no stack of this selection surely grows\n");
	else if (finding->elsewhere)
		sink__puts(sink, ": no stack surely grows, but the process does; most of its "
				 "growth is in none of the stacks that were seen, so it is not "
				 "malloc's memory (a JVM's or V8's own heap, a pool, mapped "
				 "memory): --rss and --what regions tell more\n");
	else if (finding->process.known && finding->process.value >= GROWS)
		sink__printf(sink, ": no stack surely grows, but the process does; %s\n",
			     finding->n ? "its growth may be in these stacks"
					: "its growth is in none of the stacks that were seen");
	else
		sink__puts(sink, ": no stack surely grows, nothing is seen to leak\n");
}

/* Puts the stacks that surely grow, or some that may grow. Then says how fast a leak could grow
 * without being found. */
static int put_suspects(const struct finding *finding, const struct table_options *options,
			struct sink *sink)
{
	size_t top = options->top ? options->top : DEFAULT_TOP, sure = finding->n_sure, shown = 0,
	       maybe = 0;
	bool replaced = false;
	char rate[16];
	int err = 0;

	for (size_t i = 0; !err && i < finding->n && shown < top; i++) {
		const struct suspect *s = &finding->suspects[i];

		if (!s->sure && (sure || finding->elsewhere || maybe++ >= MAYBE))
			break;
		replaced |= s->replaces;
		err = put_suspect(s, ++shown, finding, options, sink);
	}
	if (!sure && finding->somebody && !finding->filtered && shown > 1 && !replaced)
		sink__printf(sink,
			     "More blocks come than go in the process as a whole, and its memory "
			     "grows: windows do not tell which of these stacks grow. A longer run, "
			     "or --max-overhead %d, would.\n",
			     MUCH_PCT);
	if (sure > shown)
		sink__printf(sink, "(%zu more stack%s surely grow%s)\n", sure - shown,
			     sure - shown == 1 ? "" : "s", sure - shown == 1 ? "s" : "");
	if (isfinite(finding->least))
		sink__printf(
			sink,
			"What could have been missed: a stack that grows by %s/s or more is found "
			"in 95 of 100 such runs, a slower one may not be. A longer run or a %s "
			"sees "
			"slower ones.\n",
			format_bytes(finding->least, rate),
			finding->limited ? "larger limit (--max-overhead)"
					 : "smaller interval (-i)");
	return err ? err : sink->error;
}

/* Puts the members that all findings have, and the stacks. */
static void put_finding_json(struct json *json, const struct finding *finding)
{
	struct json list;

	json__put_bool(json, "judged", finding->judged);
	json__put_uint(json, "surely_grow", finding->n_sure);
	json__put_text(json, "growth_of", finding->of_process ? "process" : "stacks");
	json__put_real(json, "growth_bytes_per_s", finding->whole > 0 ? finding->whole : NAN);
	json__put_real(json, "least_growth_bytes_per_s", finding->least);
	list = json__open(json, "stacks", "[");
	for (size_t i = 0; i < finding->n; i++) {
		const struct suspect *s = &finding->suspects[i];
		struct json item = json__open(&list, NULL, "{");

		json__put_bool(&item, "surely_grows", s->sure);
		json__put_real(&item, "growth_bytes_per_s", s->rate);
		json__put_real(&item, "growth_low", s->low);
		json__put_real(&item, "growth_high", s->high);
		if (s->replaces)
			json__put_bool(&item, "growth_replaces", true);
		json__put_real(&item, "live_bytes", s->live);
		if (s->aged) {
			json__put_text(&item, "freed_with_age",
				       is_flat(s)    ? "hardly any"
				       : is_steep(s) ? "most"
						     : "some");
			json__put_real(&item, "young_s", s->young_s);
			json__put_real(&item, "young_held", s->young);
			json__put_real(&item, "old_s", s->old_s);
			json__put_real(&item, "old_held", s->old);
		}
		if (s->oldest_s > 0)
			json__put_real(&item, "oldest_s", s->oldest_s);
		if (s->steps > 1) {
			json__put_uint(&item, "rises", s->rises);
			json__put_uint(&item, "steps", s->steps);
		}
		json__put_why(&item, s->why);
		json__put_frames(&item, s->profile, s->site);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]}\n");
}

/* --- of one profile --- */

/* Fills in the ages of a stack or group. Survival is known for single stacks only. For a group of
 * stacks that are printed the same, the ages of one stack are used, if this stack holds at least
 * half of the group's memory. */
static void add_ages(struct suspect *s, const struct profile *profile,
		     const struct profile_site *site, double live)
{
	int first = -1, last = -1;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		if (profile->survival_age_s[i] > s->oldest_s && site->older[i] > 0)
			s->oldest_s = profile->survival_age_s[i];
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		if (!(profile->survival_age_s[i] > 0) || !isfinite(site->survival[i]))
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	if (first == last || site->live.bytes < live / 2)
		return;
	s->aged = true;
	s->young_s = profile->survival_age_s[first];
	s->young = site->survival[first];
	s->old_s = profile->survival_age_s[last];
	s->old = site->survival[last];
}

/* Returns how many allocated bytes one sample in windows stands for. These include bytes that were
 * allocated between windows. The result is the variance of the allocated bytes divided by the
 * allocated bytes. 0: not known. */
static double windows_sample(const struct profile *profile)
{
	double share = profile__watched_s(profile) / profile->duration_s, variance = 0, bytes = 0;

	for (size_t i = 0; i < profile->n_sites; i++) {
		variance += profile->sites[i].alloc_variance;
		bytes += profile->sites[i].alloc_bytes;
	}
	if (variance > 0 && bytes > 0)
		return variance / bytes;
	/* a file of an older memtrace has no variance */
	return share > 0 ? (double)profile->interval_bytes / share : 0;
}

/* Returns how fast a stack must have grown to be found. NaN: not known, for example because samples
 * of the stack may have been lost. In windows only blocks from the middle half of the run count. In
 * a continuous run, or in windows that missed little, the last two thirds count. */
static double least_growth(const struct profile *profile)
{
	bool windowed = mostly_windows(profile);
	double watched = profile->duration_s * (windowed ? 1 / 2.0 : 2 / 3.0);
	double stands_for = windowed ? windows_sample(profile) : (double)profile->interval_bytes;

	if (profile__misses_calls(profile))
		return NAN;
	return stands_for > 1 && watched > 0 ? SAMPLES_FOUND * stands_for / watched : NAN;
}

/* Raises finding->least in a run of windows. How much growth could be missed follows from the
 * number of samples only if all samples have similar weights. In windows the weights differ: a
 * second of continuous tracing may bring most samples, and tells little about the rest of the run.
 * Two kinds of growth raise the bound. One kind is a stack's growth, if this growth is possible but
 * not sure. The other kind is growth of the process that no stack explains. */
static void raise_least(const struct profile *profile, struct finding *finding)
{
	const struct process_growth *growth = &profile->growth;

	if (!mostly_windows(profile) || !isfinite(finding->least))
		return;
	if (growth->bytes_per_s.known)
		finding->least = fmax(finding->least, growth->bytes_per_s.value -
							      growth->attributed.bytes_per_s -
							      growth->regions);
	for (size_t i = 0; i < finding->n; i++)
		if (!finding->suspects[i].sure)
			finding->least = fmax(finding->least, finding->suspects[i].high);
}

const char *leaks__refusal(const struct profile *profile)
{
	if (profile__lost_count(profile, "not_traced"))
		return "its process was not traced";
	if (profile__lost_count(profile, "exec_untraced"))
		return "its process became another program by exec, which was not traced";
	if (profile->part)
		return DIFF_OF_PART;
	if (profile->growth.stacks_known)
		return NULL;
	if (profile__is_windowed(profile))
		return "it does not tell growth, for it had fewer than three windows: a longer "
		       "run has more, and so has one with "
		       "--max-overhead 5";
	return profile->start_unix_ns
		       ? "it does not tell growth, for its run was too short: run half a minute, "
			 "or compare with an older profile of the process: memtrace leaks OLD NEW"
		       : "files of its kind keep neither growth nor time; memtrace's .pb.gz do";
}

/* Is it sure that more than half of the process's growth is in no stack? This is so if a stack that
 * grew by half of this growth would have been found, and all stacks together grow by less. */
static bool is_elsewhere(const struct profile *profile, const struct finding *finding)
{
	const struct process_growth *g = &profile->growth;
	double half = g->bytes_per_s.known ? g->bytes_per_s.value / 2 : 0;

	return !finding->n_sure && !finding->filtered && 2 * half >= GROWS &&
	       finding->least < half && g->attributed.high + fmax(g->regions, 0) < half;
}

static int find_in_profile(const struct profile *profile, struct finding *finding)
{
	struct group *groups = NULL;
	size_t n_groups = 0;
	int err;

	*finding = (struct finding){.judged = true,
				    .what = "all growing stacks grow",
				    .process = profile->growth.bytes_per_s,
				    .least = least_growth(profile),
				    .limited = is_limited(profile),
				    .somebody = profile__is_windowed(profile) &&
						optional__is_above(profile->growth.blocks_low, 0) &&
						optional__is_above(profile->growth.bytes_per_s, 0),
				    .filtered = profile__is_filtered(profile)};
	if (leaks__refusal(profile))
		return -EINVAL;
	err = group_sites(profile, &groups, &n_groups, GROUPS_BY_GROWTH);
	if (err)
		return err;
	finding->suspects = calloc(n_groups + 1, sizeof(*finding->suspects));
	for (size_t i = 0; finding->suspects && i < n_groups; i++) {
		const struct growth *growth = &groups[i].growth;
		struct suspect *s = &finding->suspects[finding->n];

		if (groups[i].site->allocators_own || !(growth->bytes_per_s > 0) ||
		    !isfinite(growth->low) || !(growth->high >= LEAST_RATE))
			continue;
		*s = (struct suspect){.profile = profile,
				      .site = groups[i].site,
				      .rate = growth->bytes_per_s,
				      .low = growth->low,
				      .high = growth->high,
				      .live = groups[i].live.bytes,
				      .now = {.low = NAN},
				      .why = groups[i].why,
				      .sure = growth->low > 0,
				      .replaces = groups[i].site->replaces && !(growth->low > 0)};
		add_ages(s, profile, s->site, s->live);
		finding->whole += s->rate;
		s->index = finding->n++;
	}
	free_groups(groups, n_groups);
	if (!finding->suspects)
		return -ENOMEM;
	if (optional__is_above(profile->growth.bytes_per_s, 0)) {
		finding->whole = profile->growth.bytes_per_s.value;
		finding->what = "the process grows";
		finding->of_process = true;
	}
	raise_least(profile, finding);
	finding__sort(finding);
	finding->elsewhere = is_elsewhere(profile, finding);
	return 0;
}

/* put_not_anonymous() does not mention growth of fewer bytes. Starting to use a large program, or
 * reading a file once, causes as much growth. */
#define LEAST_NOT_ANONYMOUS (16 << 20)

/* Says how fast the process grows. Also says how much of this growth the stacks explain, unless a
 * filter has left out stacks: then it is not known how much the remaining stacks explain. */
static void put_process(const struct profile *profile, struct sink *sink)
{
	char a[16], b[16];

	if (!optional__is_above(profile->growth.bytes_per_s, 0) || profile__is_regions(profile))
		return;
	sink__printf(sink, "Its anonymous memory grows by %s/s",
		     format_bytes(profile->growth.bytes_per_s.value, a));
	if (!profile__is_filtered(profile))
		sink__printf(sink, ", of which the stacks explain %s/s",
			     format_bytes(profile->growth.attributed.bytes_per_s, b));
	sink__puts(sink, ".\n");
}

/* If most of the growth is shared memory and mapped files, says so. Otherwise "nothing grows" would
 * be an all-clear for a process whose shared memory fills the machine. */
static void put_not_anonymous(const struct profile *profile, struct sink *sink)
{
	double grown = (double)profile->rss_end_bytes - (double)profile->rss_start_bytes;
	char a[16], b[16];

	if (!profile->rss_start_bytes || !profile->rss_end_bytes ||
	    profile->file_growth_bytes < LEAST_NOT_ANONYMOUS ||
	    profile->file_growth_bytes < grown / 2)
		return;
	sink__printf(sink,
		     "Its resident set has %s by %s in the run. What it has of shared memory and "
		     "mapped files has grown by %s (--rss tells which).\n",
		     grown < 0 ? "shrunk" : "grown", format_bytes(fabs(grown), a),
		     format_bytes(profile->file_growth_bytes, b));
}

int encode_leaks(const struct profile *profile, const struct table_options *options,
		 struct sink *sink)
{
	_cleanup_(finding__clear) struct finding finding = {};
	_cleanup_free_ char *comm = text_printable(profile->comm);
	int err = comm ? find_in_profile(profile, &finding) : -ENOMEM;

	if (err)
		return err;
	sink__printf(sink, "memtrace: pid %d (%s), %.1f s%s%s", (int)profile->pid, comm,
		     profile->duration_s, profile->mode ? " " : "",
		     profile_mode__name(profile->mode));
	put_verdict(&finding, sink);
	if (finding.filtered)
		sink__printf(sink, "note: %s\n", diff_warning__text(DIFF_WARN_FILTERED));
	put_process(profile, sink);
	put_not_anonymous(profile, sink);
	err = put_contradictions(profile, "", sink);
	if (!err)
		err = put_suspects(&finding, options, sink);
	if (!err)
		err = put_why_doubts(profile, sink);
	if (err)
		return err;
	put_lost(profile, options->color, sink);
	return sink->error;
}

int encode_leaks_json(const struct profile *profile, struct sink *sink)
{
	_cleanup_(finding__clear) struct finding finding = {};
	struct json json;
	int err = find_in_profile(profile, &finding);

	if (err)
		return err;
	json = json__open_document(sink, profile_what__name(profile->what));
	json__put_identity(&json, profile);
	json__put_real(&json, "seconds", profile->duration_s);
	json__put_lost(&json, profile);
	err = json__put_contradictions(&json, profile);
	json__put_why_search(&json, profile->why);
	if (profile->file_growth_bytes != 0)
		json__put_real(&json, "file_growth_bytes", profile->file_growth_bytes);
	put_finding_json(&json, &finding);
	return err ? err : sink->error;
}

/* --- of several --- */

const char *diff_leaks__refusal(const struct diff *diff)
{
	const struct profile *last = diff->profiles[diff->n_profiles - 1];

	if (diff->measure == DIFF_GROWTH ||
	    (diff->windowed && !diff->one_run && last->growth.stacks_known))
		return "they are of windows, and each tells by itself what grows: memtrace leaks "
		       "FILE, with the last one";
	if (diff->windowed && !last->growth.stacks_known) /* few windows show no trend */
		return leaks__refusal(last);
	if (diff->profiles[0]->pid != last->pid)
		return "they are of several processes: run 'memtrace leaks FILE' for each file. To "
		       "compare them, run 'memtrace diff', for replicas with --per-process";
	if (diff->warnings & 1u << DIFF_WARN_UNTIMED)
		return "they do not say when they were taken, so how fast anything grows is not "
		       "known: memtrace diff OLD NEW";
	if (!diff->one_run)
		return "they are of several runs, each of which has what was allocated during its"
		       " own: memtrace leaks FILE "
		       "tells what grows in each; snapshots of one run (--every) can be compared";
	if (!isfinite(diff->seconds))
		return "the last one is not later than the first: the oldest comes first";
	return NULL;
}

static int find_in_diff(const struct diff *diff, struct finding *finding)
{
	const struct profile *last = diff->profiles[diff->n_profiles - 1];

	*finding = (struct finding){.judged = !(diff->warnings & DIFF_UNSURE),
				    .whole = diff->total.change.bytes / diff->seconds,
				    .what = "all stacks together grow",
				    .process = last->growth.stacks_known ? last->growth.bytes_per_s
									 : (struct optional){},
				    .least = diff__least_growth(diff),
				    .limited = is_limited(last),
				    .filtered = diff->warnings & 1u << DIFF_WARN_FILTERED};
	if (diff_leaks__refusal(diff))
		return -EINVAL;
	finding->suspects = calloc(diff->n_stacks + 1, sizeof(*finding->suspects));
	if (!finding->suspects)
		return -ENOMEM;
	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct diff_stack *stack = &diff->stacks[i];
		struct suspect *s = &finding->suspects[finding->n];

		if (stack->site->allocators_own || !(stack->change.bytes > 0) ||
		    !(fmax(stack->change.high, stack->change.bytes) / diff->seconds >= LEAST_RATE))
			continue;
		*s = (struct suspect){.profile = stack->profile,
				      .site = stack->site,
				      .rate = stack->change.bytes / diff->seconds,
				      .low = stack->change.low / diff->seconds,
				      .high = stack->change.high / diff->seconds,
				      .live = stack->change.to,
				      .sure = stack->grows,
				      .rises = stack->rises,
				      .steps = diff->n_profiles - 1,
				      .now = stack->now};
		if (stack->last)
			s->why = stack->last->why;
		if (stack->last)
			add_ages(s, last, stack->last, stack->change.to);
		s->index = finding->n++;
	}
	finding__sort(finding);
	return 0;
}

int encode_diff_leaks(const struct diff *diff, const struct table_options *options,
		      struct sink *sink)
{
	const struct profile *last = diff->profiles[diff->n_profiles - 1];
	_cleanup_(finding__clear) struct finding finding = {};
	_cleanup_free_ char *comm = text_printable(last->comm);
	int err = comm ? find_in_diff(diff, &finding) : -ENOMEM;

	if (err)
		return err;
	sink__printf(sink, "memtrace: pid %d (%s), %zu profiles over %.1f s", (int)last->pid, comm,
		     diff->n_profiles, diff->seconds);
	put_verdict(&finding, sink);
	for (unsigned i = 0; i < DIFF_WARNINGS_MAX; i++)
		if (diff->warnings & 1u << i)
			sink__printf(sink, "note: %s\n", diff_warning__text((enum diff_warning)i));
	err = put_suspects(&finding, options, sink);
	if (!err)
		err = put_why_doubts(last, sink);
	return err ? err : put_each_doubt(diff->profiles, diff->n_profiles, options->color, sink);
}

int encode_diff_leaks_json(const struct diff *diff, struct sink *sink)
{
	_cleanup_(finding__clear) struct finding finding = {};
	struct json json;
	int err = find_in_diff(diff, &finding);

	if (err)
		return err;
	json = json__open_document(sink, profile_what__name(diff->profiles[0]->what));
	json__put_real(&json, "seconds", diff->seconds);
	err = json__put_profiles(&json, diff);
	json__put_warnings(&json, diff->warnings);
	json__put_why_search(&json, diff->profiles[diff->n_profiles - 1]->why);
	put_finding_json(&json, &finding);
	return err ? err : sink->error;
}
