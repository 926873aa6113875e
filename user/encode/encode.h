/* SPDX-License-Identifier: BSD-2-Clause */
/* Profile in, bytes out. Encoders are pure: they read a sorted, symbolized profile and write to a
 * sink; they return the sink's error (0 or negative errno) and print nothing. */
#ifndef MEMTRACE_ENCODE_ENCODE_H
#define MEMTRACE_ENCODE_ENCODE_H

#include <stdbool.h>

#include "base/sink.h"
#include "profile/diff.h"
#include "profile/heap.h"
#include "profile/modules.h"
#include "profile/profile.h"
#include "profile/replicas.h"
#include "profile/why.h"

/* jemalloc's threaded heap profile, "heap_v2/R". R is the sampling interval. If no single interval
 * holds for all samples, as in windows, R is the interval that gives the profile its variance.
 * Every reader multiplies the numbers of each line by 1 / (1 - exp(-(s/n)/R)), where s/n is the
 * line's own average size. The file therefore does not hold the estimate, but the integers that
 * this arithmetic turns into the estimate. For an estimate of S bytes and C objects, with x = S/C,
 * these integers are bytes = S (1 - exp(-x/R)) and objects = bytes / x (jemalloc's prof_unbias). If
 * a stack has few samples of mixed sizes, rounding to integers would change its bytes. Such a stack
 * is written as two entries, which readers add up. Sites with nothing live are written too, for
 * their accumulated numbers. The file ends with MAPPED_LIBRARIES in the form of /proc/PID/maps. */
int encode_heap_v2(const struct profile *profile, struct sink *sink);

/* Returns the address that these files have for a location. A location without an address gets an
 * address that no process has. */
uint64_t heap_v2_addr(const struct profile_location *location);

/* A heap profile with names, for readers that have neither the program nor its debug information. A
 * section of symbols, "0xADDR outer--inlined", comes first. The stacks follow in gperftools' form,
 * which all readers of such files know: one line for each stack. There is no line "--- heap"
 * between the two sections, because google-pprof would stop at this line; jeprof does not need it.
 * Threads are left out. Two dashes end a name, so two dashes within a name get a blank between
 * them. Controls and bytes that are not UTF-8 become '?'. */
int encode_symbolized(const struct profile *profile, struct sink *sink);

/* Lines "root;caller;leaf BYTES\n", where BYTES is live bytes, rounded. Lines with the same names
 * are merged, and lines are sorted by their names. Lines that round to 0 are left out. As in
 * `jeprof --collapsed`, the allocator function itself is left out, and so is an operator new that
 * called it. A stack that consists only of such frames keeps the outermost one. ';' in names
 * becomes ':', control characters and bytes that are not UTF-8 become '?'; blanks within a name
 * stay (consumers split at the last blank). For a view (profile/view.h) the number is the weight of
 * the view, and the first frame is the view's root. */
int encode_collapsed(const struct profile *profile, struct sink *sink);

/* profile.proto, gzipped, for pprof, for other readers of this format, and for memtrace itself.
 * profile/pprof.h describes the fields, and decode/decode.h reads all of them back. Readers show
 * inuse_space first, leave out the probed functions (drop_frames; not for faults), and show the
 * comments with `pprof -comments`. Only the program's mapping, and the mappings that stacks go
 * through, are written. Strings are made printable. */
int encode_pprof(const struct profile *profile, struct sink *sink);

/* --- profiles that are pushed to collectors --- */

#define STANDARD_VALUES 4 /* alloc_objects, alloc_space, inuse_objects, inuse_space */

/* The part of a run that a pushed profile covers. */
struct encode_interval {
	uint64_t from_ns, until_ns; /* begin and end of the interval, by the wall clock */
	/* For each site: the objects and bytes allocated in the interval. NULL: not known, so 0 is
	 * written. */
	const double (*allocated)[2];
	/* For each site: the growth of live memory in the interval, in objects and bytes; negative
	 * if it has shrunk. Set for pprof only. NULL: the live memory at the end is written. */
	const double (*live)[2];
	size_t most_sites; /* at most this many sites are written: the first ones of the profile */
};

/* Computes the values to write for a site, in the order of enum pprof_value. */
void encode_interval__values(const struct encode_interval *interval,
			     const struct profile_site *site, size_t index,
			     double values[STANDARD_VALUES]);

/* Returns the number of sites that are written. */
size_t encode_interval__n_sites(const struct encode_interval *interval,
				const struct profile *profile);

/* Like encode_pprof(), but with only the four values that every reader knows, and with nothing that
 * only memtrace reads. Each stack has one sample. Samples have no labels, because receivers make a
 * series of each label. */
int encode_pprof_interval(const struct profile *profile, const struct encode_interval *interval,
			  struct sink *sink);

struct otlp_attribute {
	const char *key, *text; /* made printable */
	int64_t number;		/* if text is NULL */
};

struct otlp_options {
	struct encode_interval interval;
	const struct otlp_attribute *resource; /* attributes of the traced process */
	size_t n_resource;
	uint8_t id[16]; /* the profile's id; a profile sent again has the same id */
};

/* A request of opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export, as in
 * opentelemetry-proto 1.9 to 1.11 (alpha: later versions may differ). It holds four profiles, one
 * for each standard value, which share one dictionary. In the profiles of memory in use, each
 * thread that holds memory of a stack has its own sample, with the thread's name and id. If there
 * were more than 16,000 such samples, samples are not divided by thread. */
int encode_otlp(const struct profile *profile, const struct otlp_options *options,
		struct sink *sink);
struct pyroscope_label {
	const char *name, *value; /* value: made printable */
};

struct pyroscope_push {
	const struct pyroscope_label *labels; /* ordered by name */
	size_t n_labels;
	const char *id;	     /* of the profile: a UUID, as text */
	const void *profile; /* as encode_pprof_interval() writes it */
	size_t size;
};

/* A request of Pyroscope's push API (push.v1.PusherService/Push): a series with one profile. */
int encode_pyroscope(const struct pyroscope_push *push, struct sink *sink);

struct svg_options {
	/* an older profile of the same kind, sorted and symbolized; or NULL */
	const struct profile *base;
};

/* A flame graph (icicles: callers above) in one file that needs no other file. Where scripts do not
 * run, the picture is still complete. A box's width shows live bytes, or the weight of a view
 * (profile/view.h). Frames with the same name and module below the same callers are one box. The
 * largest box comes first. Inlined functions and allocation functions are boxes, too. With a base,
 * the colour of a frame shows how much the frame has grown or shrunk since the base. It also shows
 * whether the change exceeds the sampling error. The script can switch to the base's widths. Frames
 * that only the base has are visible then. Boxes of one parent that are narrower than a quarter of
 * a pixel are folded into one box, "(n smaller)". If more than 20,000 boxes would be left, wider
 * ones are folded, too. Frames deeper than 1,024 are folded into their caller. Names longer than
 * 400 characters are shortened; controls and bytes that are not UTF-8 become '?'. The same profile
 * gives the same bytes. options may be NULL. */
int encode_svg(const struct profile *profile, const struct svg_options *options, struct sink *sink);

/* More columns than any table needs: nothing is shortened or left out to save room. */
#define TABLE_UNCUT (1u << 24)

struct table_options {
	unsigned top;	/* rows; 0 = 20 */
	unsigned width; /* columns of the terminal; 0 = 100; TABLE_UNCUT: no limit */
	bool color;	/* ANSI escapes */
	bool leaks;	/* rows show growth and are sorted by growth, if it is known */
	/* Rows are sorted by this weight, and show it beside live bytes. The profile must have the
	 * weight (profile/view.h). */
	enum profile_weight weight;
	bool churn; /* rows show allocation per second and lifetime instead of live memory */
	bool tree;  /* a tree instead of rows: below each function that holds memory, its callers */
	/* True: stacks begin at the leaf, and all frames but the allocator's are named. False:
	 * stacks begin with the program's own code (encode/where.h). The figures are the same. */
	bool show_runtime;
	double min_share_pct; /* per cent of live bytes; callers with less are summed up on one
			       * line; 0 = 1 */
};

/* For people: how much memory each pool of threads allocated, freed and still owns. A pool consists
 * of threads whose names differ only in numbers. A matrix of the first pools follows: who freed
 * whose memory. For a windowed run, only the live memory that each pool owns is written, with its
 * interval. */
int encode_threads(const struct profile *profile, const struct table_options *options,
		   struct sink *sink);

/* For people: for each stack the bytes that it allocated, the bytes freed, and the bytes that it
 * held: the least, the current and the most. Rows descend by allocated bytes. */
int encode_sites(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);

/* For people: for each stack the ages of its objects when they were freed, and the ages of the
 * objects that still live. For a windowed run, the ages are estimated from survival. Rows descend
 * by objects allocated per second, because short-lived objects cost time for each call, but hold
 * little memory. */
int encode_lifetimes(const struct profile *profile, const struct table_options *options,
		     struct sink *sink);

/* The table of one profile, for people. It begins with a head line about the run. Contradictions
 * follow: between figures, or between figures and facts about the process
 * (profile/contradictions.h). Then come the rows: live memory by stack, with 95 % interval,
 * objects, share and the most useful frames. Files that were written and losses that are not zero
 * come last. All names are printed with control characters replaced, because they come from the
 * target. If there is too little room for frames, the column OBJECTS is left out. If that is not
 * enough, SHARE is left out, too (in a table of leaks: LIVE). A line says which columns are left
 * out. If the profile comes from a file that does not say how the profile was made, the head line
 * has only the known facts. */
int encode_table(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);

/* Puts a part of a line. This part names the profile's contradictions first. If any stack surely
 * grows, it then names the stack that grows fastest, with the interval of its growth. Of options,
 * only width and show_runtime are used. 0 or -errno. */
int encode_fastest(const struct profile *profile, const struct table_options *options,
		   struct sink *sink);

/* During a run: one line (without a newline) about a process. The line says how long and how the
 * process has been traced. The text of encode_fastest() follows. */
int encode_leader(const struct profile *profile, const struct table_options *options,
		  struct sink *sink);

/* For people: live memory by component (profile/modules.h), indented like the tree of components,
 * and the remainder that no rule claims. Growth is shown where it is known. Top components and the
 * remainder add up to the profile. If alone is set, the first lines of encode_table() are put above
 * the components, and losses that are not zero are put below them. All names are printed with
 * control characters replaced. */
int encode_modules(const struct profile *profile, const struct modules *modules, bool alone,
		   struct sink *sink);

/* For people: the parts of the process's resident set (profile/resident.h), in KiB. The first rows
 * add up to the Rss of smaps. Two further parts follow: the difference between Rss and VmRSS, and
 * memory that neither of them counts. Each kind of memory shows its largest rows and sums up the
 * others in one row. Only estimated figures have intervals. Uses only width of options, which may
 * be NULL. All names are printed with control characters replaced. */
int encode_resident(const struct profile *profile, const struct table_options *options,
		    struct sink *sink);

/* What the rows are sorted by, descending. */
enum process_sort {
	SORT_GROWTH,
	SORT_LIVE, /* the order of SORT_GROWTH, except for processes traced in windows */
	SORT_RSS,
	PROCESS_SORTS
};

/* "growth", ... */
const char *process_sort__name(enum process_sort sort);

struct process_table_options {
	enum process_sort sort;
	unsigned top;	   /* rows; 0 = 20 */
	unsigned width;	   /* as in struct table_options */
	bool color;	   /* ANSI escapes */
	bool show_runtime; /* as in struct table_options */
};

/* The table of processes, for people: which process of a run leaks, and where. It has a head line
 * about the run, and a row for each process, ended processes last. Below the rows are sums, the
 * cost of memtrace itself, contradictions in the figures of each process, and the losses of all
 * processes, one figure for each kind of loss.
 *
 * LIVE is memory that a process allocated during the run and has not freed. GROWTH/s is LIVE
 * divided by the length of the run, because all LIVE memory was allocated during the run. The
 * length is the longest duration_s of all processes. (A process that began later held nothing
 * before its beginning.) The interval of GROWTH/s is the interval of LIVE, divided by the same
 * length. For a process traced in windows LIVE is estimated, and GROWTH/s is the growth of its
 * stacks (profile/growth.h). With too few windows to estimate growth, GROWTH/s is LIVE divided by
 * the length, which is an upper bound. Memory that the process had allocated before the run and
 * freed during the run is not subtracted, because memtrace does not see it. If no live block was
 * sampled, the interval is that of profile__live_interval(). ">=" means that the figure is a lower
 * bound, "<=" that it is an upper bound, and "~" that it is both (profile__is_lower_bound()). PEAK
 * is the most that the process held at any time; "-": not known, as in windows. The column PEAK is
 * present if the PEAK of some process is larger than its LIVE. RSS is the resident memory at the
 * end, CHANGE its change over the run. TOP SITE is the function that holds most memory. Ended
 * processes are ordered by their peak. Sums cover the processes that still exist. The sum of RSS
 * counts shared pages once for each process.
 *
 * If width leaves no room for the function, columns are left out, THREADS and COST first, and a
 * line says which columns. Names are printed with control characters replaced. */
int encode_processes(const struct profile *const *profiles, size_t n,
		     const struct process_table_options *options, struct sink *sink);

/* JSON: one object on one line, ended by a newline. docs/json.md says what each key means, and
 * docs/memtrace.schema.json where each key occurs. Bytes are integers. In names that are not UTF-8,
 * U+FFFD replaces each invalid byte.
 *
 * ENCODE_JSON_VERSION is the value of the key "version". It grows when a key is removed or changes
 * its meaning, not when one is added. */
#define ENCODE_JSON_VERSION 1
int encode_json(const struct profile *profile, struct sink *sink);

struct json_options {
	const struct modules *modules; /* or NULL */
	bool all_stacks;	       /* "stacks" also has stacks with nothing live */
	/* "stacks" also has stacks that held memory at the process's peak */
	bool peak_stacks;
	/* "heap": what a census has found; "heap_failed": why there is no census. NULL: the key is
	 * left out */
	const struct heap_report *heap;
	const char *heap_failed;
};
int encode_json_with(const struct profile *profile, const struct json_options *options,
		     struct sink *sink);

/* --- several profiles: profile/diff.h, profile/replicas.h --- */

/* The table of a comparison, for people. It begins with what was compared, warnings and the total
 * change. Then comes a row for each stack: first stacks that surely grow, then stacks that surely
 * shrink, then the other stacks by change. The end says how many changes may be chance, the least
 * growth that would have been found, and what each profile lost. A row has the change with its 95 %
 * interval, and the change per second where known. Then come the bytes before and after, EVIDENCE
 * (is the change more than chance?), and the most useful frames. A step leads from one profile to
 * the next. With more than two profiles, EVIDENCE says in how many steps the stack grew, and PER
 * SECOND is the trend, if there is one. A difference of a few blocks "may be chance" even if every
 * byte is certain (profile/diff.h). Uses only top, width, color and show_runtime of options. */
int encode_diff(const struct diff *diff, const struct table_options *options, struct sink *sink);

/* JSON of a diff, as encode_json() writes it. */
int encode_diff_json(const struct diff *diff, struct sink *sink);

/* "root;caller;leaf OLD NEW\n": the bytes in the first and the last profile, as difffolded.pl
 * writes them for flamegraph.pl. Everything else is as in encode_collapsed(). */
int encode_diff_collapsed(const struct diff *diff, struct sink *sink);

/* For people: the replicas, the most abnormal first, and each stack that holds unusually much
 * memory in one replica. */
int encode_replicas(const struct replicas *replicas, const struct table_options *options,
		    struct sink *sink);

/* JSON of replicas, as encode_json() writes it. */
int encode_replicas_json(const struct replicas *replicas, struct sink *sink);

/* For people: does the process leak, and where? Stacks are ranked by evidence. For each stack,
 * sentences give its numbers and a way to confirm the leak. The last lines say which leaks the run
 * was not able to show. -EINVAL: the profile or diff is refused (leaks__refusal()). */
int encode_leaks(const struct profile *profile, const struct table_options *options,
		 struct sink *sink);
int encode_diff_leaks(const struct diff *diff, const struct table_options *options,
		      struct sink *sink);

/* JSON, as encode_json() writes it, of all stacks that surely or perhaps grow. They are ranked by
 * evidence as in encode_leaks(). */
int encode_leaks_json(const struct profile *profile, struct sink *sink);
int encode_diff_leaks_json(const struct diff *diff, struct sink *sink);

/* Returns why leaks cannot be judged, in words for people (static); NULL: they can be judged. */
const char *leaks__refusal(const struct profile *profile);
const char *diff_leaks__refusal(const struct diff *diff);

/* The report of memtrace why, for people. It has the scans and what they missed, the blocks that
 * the user asked for and who holds them, and the lost blocks. Each table has at most `top` rows. */
int encode_why(const struct why_report *report, unsigned int top, struct sink *sink);

/* JSON of the whole report, as encode_json() writes it. */
int encode_why_json(const struct why_report *report, struct sink *sink);

/* Are the figures of an allocator too doubtful to be printed? If so, `text` receives the reason. */
bool heap_report__refusal(const struct census *census, char *text, size_t size);

/* A census for people, with at most `top` rows of sizes, of C++ classes and of functions. */
int encode_heap_report(const struct heap_report *report, unsigned top, struct sink *sink);

/* JSON of the whole report, as encode_json() writes it. */
int encode_heap_report_json(const struct heap_report *report, struct sink *sink);

/* 1536 -> "1.5 KiB" into buf (>= 16 bytes); returns buf. */
const char *format_bytes(double bytes, char *buf);

/* Formats the cost of tracing: "12 %" of the CPU time of the traced processes. If the processes use
 * little of a core, this share says little about the effect of tracing. In this case a cost of 1 %
 * or more is given as a share of a core: "0.42 % of a core". Returns true if the cost is given as a
 * share of a core. overhead_pct: the cost in per cent of the processes' CPU time. cpu_cores: how
 * many cores the processes use on average; 0: not known. */
bool format_cost(double overhead_pct, double cpu_cores, char buf[32]);

/* Formats the cost of tracing a profile's process, for a column: "12.5%" or "0.42% core"; "" if not
 * known. */
void format_cost_cell(const struct profile *profile, char buf[32]);

#endif
