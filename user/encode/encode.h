/* SPDX-License-Identifier: BSD-2-Clause */
/* Profile in, bytes out. Encoders are pure: they read a sorted, symbolized profile and write to a
 * sink; they return the sink's error (0 or negative errno) and print nothing. */
#ifndef MEMTRACE_ENCODE_ENCODE_H
#define MEMTRACE_ENCODE_ENCODE_H

#include <stdbool.h>

#include "base/sink.h"
#include "profile/diff.h"
#include "profile/modules.h"
#include "profile/profile.h"
#include "profile/replicas.h"

/* jemalloc's threaded heap profile, "heap_v2/R". Every reader multiplies a line's numbers by
 * 1 / (1 - exp(-(s/n)/R)) with the line's own average size s/n, so what is written is not the
 * estimate but the integers that this arithmetic turns into it: with S bytes and C objects
 * estimated, x = S/C, bytes = S (1 - exp(-x/R)), objects = bytes / x (jemalloc's prof_unbias). A
 * stack of few samples and mixed sizes, whose bytes rounding would miss, is written as two entries,
 * which readers add up. Sites with nothing live are written too (their accumulated numbers count).
 * Ends with MAPPED_LIBRARIES in the form of /proc/PID/maps. */
int encode_heap_v2(const struct profile *profile, struct sink *sink);

/* The same with its names, for readers that have neither the program nor its debug information: a
 * section of symbols, "0xADDR outer--inlined", and the stacks in the form of one line for each
 * (gperftools'), which all that know such files read. There is no line "--- heap" between the two:
 * jeprof takes it or leaves it, google-pprof stops there. Threads are not in it. In names two
 * dashes have a blank between them, which are else the end of a name; controls and bytes that are
 * not UTF-8 become '?'. */
int encode_symbolized(const struct profile *profile, struct sink *sink);

/* "root;caller;leaf BYTES\n", live bytes rounded, lines of the same names merged and sorted by
 * name; lines that round to 0 are left out. As in `jeprof --collapsed`, the allocator function
 * itself is not a frame, nor is an operator new that called it (a stack of nothing else keeps one).
 * ';' in names becomes ':', control characters and bytes that are not UTF-8 become '?'; blanks
 * within a name stay (consumers split at the last blank). Of a view (profile/view.h) the number is
 * what it is weighed by, and its root the first frame. */
int encode_collapsed(const struct profile *profile, struct sink *sink);

/* profile.proto, gzipped, for pprof and all that reads it, and for memtrace itself: profile/pprof.h
 * says what is where, and decode/decode.h reads all of it back. Readers open with inuse_space,
 * leave out the functions that were probed (drop_frames; not of faults), and show the comments with
 * `pprof -comments`. Only mappings that stacks go through, and the program's, are written. Strings
 * are made printable. */
int encode_pprof(const struct profile *profile, struct sink *sink);
struct svg_options {
	/* an older profile of the like, sorted and symbolized, or NULL */
	const struct profile *base;
};

/* A flame graph (icicles: callers above), one file that needs no other and is a picture also where
 * scripts do not run. Width is live bytes, or what a view (profile/view.h) is weighed by; frames of
 * one name and module below the same callers are one box, largest first; inlined functions and the
 * allocation functions are boxes. With a base, colours tell by how much each frame has grown or
 * shrunk since, and whether that is more than sampling error; the script switches to widths by the
 * base, where what only that has shows. Boxes of less than a quarter of a pixel, and more where
 * there would be more than 20,000, are folded into one for each parent ("(n smaller)"); so are
 * frames deeper than 1,024 into their caller. Names longer than 400 characters are shortened;
 * controls and bytes that are not UTF-8 become '?'. The same profile gives the same bytes. options
 * may be NULL. */
int encode_svg(const struct profile *profile, const struct svg_options *options, struct sink *sink);

/* More columns than any table takes: nothing is shortened or left out for want of room. */
#define TABLE_UNCUT (1u << 24)

struct table_options {
	unsigned top;	/* rows; 0 = 20 */
	unsigned width; /* columns of the terminal; 0 = 100; TABLE_UNCUT: of no terminal */
	bool color;	/* ANSI escapes */
	bool leaks;	/* rows by growth, which they show, where it is known */
	/* rows by that, with what is live beside it: what the profile knows
	 * (profile/view.h) */
	enum profile_weight weight;
	bool churn; /* rows by what they allocate per second, and how long that lives, in the place
		     * of what is live */
	bool tree;  /* who holds memory and, below each, who called it, in the place of rows */
	double min_share_pct; /* of what is live, that a caller in the tree has at least; 0 = 1 */
};

/* Who allocated, who freed whose memory and who owns what is left, by pool of threads whose names
 * differ in numbers only; and a matrix of the first of them. Of windows: who
 * owns what is live, with its interval. For people, as are the next two. */
int encode_threads(const struct profile *profile, const struct table_options *options,
		   struct sink *sink);

/* By stack: allocated, freed, and the least, present and most that it held. Descending by allocated
 * bytes. */
int encode_sites(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);

/* By stack: how old its objects were when they were freed, and are that live; of windows as their
 * survival tells. Descending by objects per second: what a short life costs. */
int encode_lifetimes(const struct profile *profile, const struct table_options *options,
		     struct sink *sink);

/* For people: a head line of the run, live memory by stack (bytes with 95 % interval, objects,
 * share, the frames that tell the story), where figures contradict each other or what is known of
 * the process (profile/contradictions.h), files written, losses that are not zero. All names are
 * printed with control characters replaced: they come from the target. On a narrow terminal OBJECTS
 * and SHARE (with leaks, LIVE) are left out, which a line says. Of a profile that was read from a
 * file that does not say how it was made, the head line says what is known. */
int encode_table(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);

/* While a run goes on, one line (without its end) of a process: how long it has been traced and
 * how, and the stack that grows fastest, with the interval of that, if one surely grows. width:
 * columns; 0 = 100. */
int encode_leader(const struct profile *profile, unsigned width, struct sink *sink);

/* For people: live memory by component (profile/modules.h), indented as the tree is, and the
 * remainder that no rule claims; with growth where it is known. Components at the top and the
 * remainder add up to the profile. Where it stands alone, the lines that encode_table() begins with
 * stand before it, and losses that are not zero below it. All names are printed with control
 * characters replaced. */
int encode_modules(const struct profile *profile, const struct modules *modules, bool alone,
		   struct sink *sink);

/* For people: what the process's resident set is made of (profile/resident.h), in KiB: rows that
 * add up to the Rss of smaps, the difference to VmRSS, and what is in neither. Of each kind the
 * largest rows, the others in one; intervals where figures are estimated, and nowhere else. Of
 * options, which may be NULL, width is used. All names are printed with control characters
 * replaced. */
int encode_resident(const struct profile *profile, const struct table_options *options,
		    struct sink *sink);

/* What the rows are sorted by, descending. */
enum process_sort {
	SORT_GROWTH,
	SORT_LIVE, /* the same order, but for processes traced in windows */
	SORT_RSS,
	PROCESS_SORTS
};

/* "growth", ... */
const char *process_sort__name(enum process_sort sort);

struct process_table_options {
	enum process_sort sort;
	unsigned top;	/* rows; 0 = 20 */
	unsigned width; /* as above */
	bool color;	/* ANSI escapes */
};

/* For people: which of the processes of one run is leaking, and where. A head line of the run; a
 * row for each process, those that ended last; sums; what memtrace itself cost; losses of all by
 * name.
 *
 * LIVE is what a process allocated during the run and has not freed. All of it came since the run
 * began, so GROWTH/s is LIVE divided by the length of the run, which is the longest duration_s (a
 * process that began later grew from nothing), and its interval is LIVE's divided likewise. Of a
 * process traced in windows, whose LIVE is estimated, GROWTH/s is the growth of its stacks
 * (profile/growth.h). What the process freed of memory from before the run is not taken off: it is
 * not seen. Where nothing live was sampled, the interval ends at -ln(0.025) R: more would have been
 * sampled with a probability of 97.5 %. ">=": samples were dropped. PEAK is what it held at its
 * highest; "-": not known, as in windows; the column is there when some process held more than it
 * does at its end. RSS is at the end, CHANGE over the run; TOP SITE the function that holds most.
 * Those that ended are ordered by what they held at their highest. Sums are of the processes that
 * are still there; their RSS counts shared pages once for each.
 *
 * Where width leaves no room for the function, columns go, THREADS and COST first, and a line says
 * which. Names are printed with control characters replaced. */
int encode_processes(const struct profile *const *profiles, size_t n,
		     const struct process_table_options *options, struct sink *sink);

/* JSON: one object on one line, ended by a newline. docs/json.md says what each key means, and
 * docs/memtrace.schema.json where it stands. Bytes are integers; names that are not UTF-8 have the
 * offending bytes replaced by U+FFFD.
 *
 * ENCODE_JSON_VERSION is the key "version". It grows when a key is removed or changes its meaning,
 * not when one is added. */
#define ENCODE_JSON_VERSION 1
int encode_json(const struct profile *profile, struct sink *sink);

struct json_options {
	const struct modules *modules; /* or NULL */
	bool all_stacks;	       /* stacks has those of which nothing is live, too, */
	bool peak_stacks;	       /* or those that held anything when the process held most */
};
int encode_json_with(const struct profile *profile, const struct json_options *options,
		     struct sink *sink);

/* --- several profiles: profile/diff.h, profile/replicas.h --- */

/* For people: what was compared, what to know of it, the change of all together; a row for each
 * stack (what surely grows, what surely shrinks, the rest by its change): the change with its 95 %
 * interval, per second where that is known, from and to, whether it is more than chance, the frames
 * that tell the story; how many may be chance, and the least growth that would have been found;
 * losses by profile. Of more than two profiles EVIDENCE says in how many of the steps it became
 * more, and PER SECOND is the trend where there is one. "may be chance" is said of a difference
 * whose every byte is certain, too, when it is one of a few blocks (profile/diff.h). Of options,
 * top, width and color are used. */
int encode_diff(const struct diff *diff, const struct table_options *options, struct sink *sink);

/* JSON of a diff, as encode_json() writes it. */
int encode_diff_json(const struct diff *diff, struct sink *sink);

/* "root;caller;leaf OLD NEW\n": first and last, as difffolded.pl writes it for flamegraph.pl,
 * otherwise as encode_collapsed(). */
int encode_diff_collapsed(const struct diff *diff, struct sink *sink);

/* For people: the replicas, the odd one first, and each stack of which one has more than is
 * ordinary. */
int encode_replicas(const struct replicas *replicas, const struct table_options *options,
		    struct sink *sink);

/* JSON of replicas, as encode_json() writes it. */
int encode_replicas_json(const struct replicas *replicas, struct sink *sink);

/* For people: does it leak, and where? Stacks ranked by evidence, each in a sentence with its
 * numbers, and what would confirm it; what could not have been seen. Of a profile with growth, or
 * of a diff that is not refused (-EINVAL). */
int encode_leaks(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);
int encode_diff_leaks(const struct diff *diff, const struct table_options *options,
		      struct sink *sink);

/* JSON of all stacks that grow, surely or perhaps, by the same evidence, as encode_json() writes
 * it. */
int encode_leaks_json(const struct profile *profile, struct sink *sink);
int encode_diff_leaks_json(const struct diff *diff, struct sink *sink);

/* Why there is no telling what leaks, in words for people (static); NULL: there is. */
const char *leaks__refusal(const struct profile *profile);
const char *diff_leaks__refusal(const struct diff *diff);

/* 1536 -> "1.5 KiB" into buf (>= 16 bytes); returns buf. */
const char *format_bytes(double bytes, char *buf);

/* What tracing takes: "12 %" of the CPU time of who is traced, or "0.4 % of a core" of who uses
 * little of one (a share of that says nothing of what is felt): true. overhead_pct: of their CPU
 * time; cpu_cores: that they use on the average, 0: not known. */
bool format_cost(double overhead_pct, double cpu_cores, char buf[32]);

/* The same of a profile's process in a column: "12.5%" or "0.42% core"; "" if it is not known. */
void format_cost_cell(const struct profile *profile, char buf[32]);

#endif
