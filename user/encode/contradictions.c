// SPDX-License-Identifier: BSD-2-Clause
/* Describes in sentences the contradictions that profile/contradictions.h has found. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "encode/json.h"
#include "encode/table.h"
#include "encode/text.h"

static bool is_split(const struct profile *profile)
{
	return profile->resident && profile->resident->heap_split;
}

/* Returns the harmless reasons why live memory may be more than the resident memory. */
static const char *why_not_resident(const struct profile *profile, const struct contradiction *c)
{
	struct estimate live = profile__live(profile);
	bool estimated = live.variance > 0 || live.common > 0;

	if (estimated && estimate__interval(&live).low <= c->fact)
		return "believe the lower part of its interval, unless its blocks are not all "
		       "touched";
	if (!is_split(profile))
		return profile__is_windowed(profile)
			       ? "its blocks are not all touched, or are swapped out, or the "
				 "estimate is wrong"
			       : "its blocks are not all touched, or are swapped out";
	return profile__is_windowed(profile)
		       ? "its blocks are not all touched, or the estimate is wrong"
		       : "its blocks are not all touched";
}

static void put_sentence(const struct profile *profile, const struct contradiction *c, FILE *out)
{
	bool windowed = profile__is_windowed(profile);
	char fact[32], more[32], count[32];

	format_bytes(c->fact, fact);
	format_bytes(fabs(c->figure - c->fact), more);
	with_commas(to_integer(c->fact), count);
	switch (c->rule) {
	case CONTRADICTION_FREES_UNSEEN:
		fprintf(out,
			"%s block%s found dead only because a new one took the same place: no free "
			"was seen (freed_unobserved), as when a heap is destroyed at once; more of "
			"what is shown as live may be gone",
			count, c->fact > 1 ? "s were" : " was");
		return;
	case CONTRADICTION_BLOCKS_UNSEEN:
		fprintf(out,
			"%s allocation%s, allocators or functions could not be followed "
			"(result_unknown, allocators_refused, functions_refused): live is more "
			"than is "
			"shown",
			count, plural(to_integer(c->fact)));
		return;
	case CONTRADICTION_PROBES_SILENT:
		fputs("nothing was seen after the main thread had ended (main_thread_ended): what "
		      "is shown as live may be gone, and more may be live",
		      out);
		return;
	case CONTRADICTION_PROBES_WITHDRAWN:
		fprintf(out,
			"memtrace was held up, and its probes were taken out %s time%s "
			"(probes_withdrawn): "
			"what is shown as live may be gone, and more may be live",
			count, plural(to_integer(c->fact)));
		return;
	case CONTRADICTION_LIVE_ABOVE_ALLOCATED:
		fprintf(out, "live is %s more than was allocated and not freed (%s)%s", more, fact,
			c->sure	   ? ""
			: windowed ? ": both are estimates from windows"
				   : ": it was freed while this was read, or the figures are "
				     "wrong");
		return;
	case CONTRADICTION_LIVE_ABOVE_MAPPED:
		fprintf(out, "live is %s more than the heap has mapped (%s)%s", more, fact,
			c->sure ? "" : ": believe the lower part of its interval");
		return;
	case CONTRADICTION_LIVE_ABOVE_RESIDENT:
		fprintf(out, "live is %s more than %s (%s): %s", more,
			is_split(profile) ? "the heap's resident and swapped memory"
					  : "the whole resident set",
			fact, why_not_resident(profile, c));
		return;
	case CONTRADICTION_GROWTH_ABOVE_PROCESS:
		fprintf(out,
			"the stacks grow by %s/s more than the process's anonymous memory (%s/s): "
			"their blocks take the place of freed ones, or are not touched%s",
			more, format_change(c->fact, fact),
			windowed ? ", or the estimate is wrong" : "");
		return;
	case CONTRADICTION_GROWTH_OF_ROWS:
		fprintf(out,
			"the growths of the single stacks add up to %s/s, not to the growth of "
			"all stacks together (%s/s)",
			format_change(c->figure, more), format_change(c->fact, fact));
		return;
	case CONTRADICTION_KINDS_OF_REGIONS:
		fprintf(out, "the kinds of regions add up to %s, not to all that are live (%s)",
			format_bytes(c->figure, more), fact);
		return;
	case CONTRADICTION_PEAK_BELOW_LIVE:
		fprintf(out, "live (%s) is %s more than at the highest moment%s", fact, more,
			c->sure ? ""
				: ": threads that allocate at once may have hidden a higher one");
		return;
	case CONTRADICTION_THREADS_ABOVE_STACK:
		fprintf(out, "threads' shares of a stack add up to %s more than is live of it (%s)",
			more, fact);
		return;
	case CONTRADICTION_MAX:
		return;
	}
}

char *contradiction_text(const struct profile *profile, const struct contradiction *c)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	put_sentence(profile, c, out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

const char *contradiction_word(const struct contradiction *finding)
{
	return finding->sure ? "CONTRADICTION: " : "note: ";
}

int put_contradictions(const struct profile *profile, const char *before, struct sink *sink)
{
	struct contradictions all = profile__contradictions(profile);

	for (size_t i = 0; i < all.n; i++) {
		_cleanup_free_ char *text = contradiction_text(profile, &all.at[i]);

		if (!text)
			return -ENOMEM;
		sink__printf(sink, "%s%s%s\n", before, contradiction_word(&all.at[i]), text);
	}
	return sink->error;
}

int json__put_contradictions(struct json *json, const struct profile *profile)
{
	struct contradictions all = profile__contradictions(profile);
	struct json list = json__open(json, "contradictions", "[");

	for (size_t i = 0; i < all.n; i++) {
		const struct contradiction *c = &all.at[i];
		_cleanup_free_ char *text = contradiction_text(profile, c);
		struct json item;

		if (!text)
			return -ENOMEM;
		item = json__open(&list, NULL, "{");
		json__put_text(&item, "rule", contradiction_rule__name(c->rule));
		json__put_bool(&item, "sure", c->sure);
		json__put_real(&item, "figure", c->figure);
		json__put_real(&item, "fact", c->fact);
		json__put_text(&item, "text", text);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
	return 0;
}
