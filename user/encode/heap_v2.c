// SPDX-License-Identifier: BSD-2-Clause
/* The estimate of a stack is S bytes in C objects. The file gives readers two integers, s bytes in
 * n objects. With f(x) = 1 / (1 - exp(-x/R)) and x = s/n, a reader computes
 *
 *	bytes = s f(x)		objects = n f(x).
 *
 * Both are multiplied by the same f(x), so x must be S/C. Then s = S / f(x) and n = s/x. For a
 * stack whose samples are all of one size, n is the number of samples: an integer. Then only s is
 * rounded. For mixed sizes n is not an integer. Rounding n shifts the bytes by up to R/2, which is
 * 10 % of a stack of three samples. For the same mix of sizes the shift always has the same
 * direction, so the error does not average out over many stacks.
 *
 * Readers add up the entries of equal stacks. So a stack is written as two entries if its rounded
 * pair (n, s) misses S by more than TOLERANCE * S. The first entry has n1 = floor(n) - 1 objects of
 * s1 bytes in total. The second entry has one object of s2 bytes, which stands for the rest of the
 * stack's bytes. If objects have the average size, the rest is what one to two objects stand for.
 * No object stands for less than R bytes, so the rest is not below R either. Then s2 f(s2) = rest
 * can be solved. s1 is chosen so that the objects of both entries add up to C. If this choice
 * leaves a rest below R, the stack is not split.
 *
 * No pair can express less than R bytes, and no sample at the file's interval stands for less. But
 * a sample of windows may stand for less, and a filter may leave less of a stack. If the bytes of
 * such a stack are too few for an object, the stack is not written. Its bytes are carried to the
 * next stack. So the sum of all stacks is wrong by at most half an object. Objects of no bytes are
 * left out, because readers divide by the size. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/text.h"

#define TOLERANCE 0.005
/* Limit for the integers of a pair. Doubles are exact up to 2^53, and no average block has more
 * than 2^50 bytes. */
#define MAX_COUNT 0x1p53

struct pair {
	uint64_t objects, bytes;
};

struct pairs {
	struct pair pair[2];
	int n; /* number of pairs in use */
};

/* Returns the factor f that a reader multiplies by. */
static double scale(double size, double interval)
{
	return 1 / -expm1(-size / interval);
}

/* Returns the total size s of n objects that a reader turns into `bytes`: s f(s/n) = bytes. Let t =
 * s/(nR) and v = bytes/(nR). The equation is then t / (1 - exp(-t)) = v, and has a solution if v >
 * 1. The left side is convex and at least max(t, 1 + t/2), so Newton's method comes down from
 * min(v, 2(v - 1)) without overshooting. */
static double size_for_bytes(double bytes, double n, double interval)
{
	double v = bytes / (n * interval), t = fmin(v, 2 * (v - 1));

	if (!(v > 1))
		return 1;
	for (int i = 0; i < 50; i++) {
		double p = -expm1(-t), miss = t / p - v;
		double step = miss / ((p - t * (1 - p)) / (p * p));

		if (!(step > 1e-15 * t))
			break;
		t -= step;
	}
	return t * n * interval;
}

static struct pair whole(double objects, double bytes)
{
	return (struct pair){.objects = (uint64_t)fmin(fmax(round(objects), 1), MAX_COUNT),
			     .bytes = (uint64_t)fmin(fmax(round(bytes), 1), MAX_COUNT)};
}

static double pair_bytes(struct pair pair, double interval)
{
	return (double)pair.bytes * scale((double)pair.bytes / (double)pair.objects, interval);
}

/* Returns the single pair that comes nearest to the objects and bytes. */
static struct pair invert(double objects, double bytes, double interval)
{
	double x = bytes / objects, n;

	if (!(bytes > 0) || !(objects > 0) || !isfinite(bytes) || !isfinite(objects))
		return (struct pair){};
	n = fmax(round(objects / scale(x, interval)), 1);
	return whole(n, n * x);
}

/* Finds two pairs that together stand for the objects and bytes. False: no such pairs exist. */
static bool invert_split(double objects, double bytes, double interval, struct pairs *ret_pairs)
{
	double x = bytes / objects, n = floor(objects / scale(x, interval)) - 1;
	double rest, left;
	struct pair first;

	if (n < 1)
		return false;
	rest = bytes - n * x * scale(x, interval);
	left = objects - scale(size_for_bytes(rest, 1, interval), interval);
	if (!(left > n))
		return false;
	/* solves n f(x1) = left for x1 */
	first = whole(n, -interval * log1p(-n / left) * n);
	rest = bytes - pair_bytes(first, interval);
	if (!(rest >= interval))
		return false;
	*ret_pairs = (struct pairs){.pair = {first, whole(1, size_for_bytes(rest, 1, interval))},
				    .n = 2};
	return true;
}

static struct pairs invert_exactly(double objects, double bytes, double interval)
{
	struct pairs pairs = {.pair = {invert(objects, bytes, interval)}, .n = 1};
	double n;

	if (!pairs.pair[0].objects)
		return (struct pairs){};
	if (fabs(pair_bytes(pairs.pair[0], interval) - bytes) <= TOLERANCE * bytes ||
	    invert_split(objects, bytes, interval, &pairs))
		return pairs;
	/* With so few objects, no pair has both the right number of objects and the right bytes. So
	 * only the bytes are made right. n is rounded down, because more than bytes/R objects
	 * cannot stand for so few bytes. */
	n = fmax(floor(objects / scale(bytes / objects, interval)), 1);
	pairs.pair[0] = whole(n, size_for_bytes(bytes, n, interval));
	return pairs;
}

/* Returns the pairs of one stack. *left_over adds up the bytes of small stacks. A small stack gets
 * a pair if *left_over is at least half of what an object stands for, and no pair otherwise. */
static struct pairs invert_carrying(double objects, double bytes, double interval,
				    double *left_over)
{
	double x = bytes / objects, one = x * scale(x, interval); /* bytes an object stands for */

	if (!(bytes > 0) || !(objects > 0) || !isfinite(one) || bytes >= one * (1 - TOLERANCE))
		return invert_exactly(objects, bytes, interval);
	*left_over += bytes;
	if (*left_over < one / 2)
		return (struct pairs){};
	*left_over -= one;
	return (struct pairs){.pair = {whole(1, x)}, .n = 1};
}

static void put_counts(struct sink *sink, const char *who, struct pair live, struct pair accum,
		       const char *end)
{
	sink__printf(sink, "  t%s: %" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "]%s", who,
		     live.objects, live.bytes, accum.objects, accum.bytes, end);
}

static void put_thread(struct sink *sink, const struct profile_thread *thread, struct pair live,
		       const char *end)
{
	char tid[16];

	/* It is not known how much each thread has freed. So a thread's accumulated numbers are
	 * written as zeros, as jemalloc does unless prof_accum is on. */
	snprintf(tid, sizeof(tid), "%" PRIu32, thread->tid);
	put_counts(sink, tid, live, (struct pair){}, end);
}

/* Puts the head: totals of the process and of each thread. Programs skip the head; people read
 * it. */
static int put_head(const struct profile *profile, double interval, struct sink *sink)
{
	_cleanup_free_ struct profile_site_thread *held =
		calloc(profile->n_threads ? profile->n_threads : 1, sizeof(*held));
	double objects = 0, bytes = 0, alloc_objects = 0, alloc_bytes = 0;

	if (!held)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		objects += site->live.objects;
		bytes += site->live.bytes;
		alloc_objects += site->alloc_objects;
		alloc_bytes += site->alloc_bytes;
		for (size_t k = 0; k < site->n_threads; k++) {
			held[site->threads[k].thread].objects += site->threads[k].objects;
			held[site->threads[k].thread].bytes += site->threads[k].bytes;
		}
	}
	sink__printf(sink, "heap_v2/%" PRIu64 "\n", (uint64_t)interval);
	put_counts(sink, "*", invert(objects, bytes, interval),
		   invert(alloc_objects, alloc_bytes, interval), "\n");
	for (size_t i = 0; i < profile->n_threads; i++) {
		_cleanup_free_ char *name = text_printable(profile->threads[i].name);

		if (!name)
			return -ENOMEM;
		put_thread(sink, &profile->threads[i],
			   invert(held[i].objects, held[i].bytes, interval), *name ? " " : "");
		sink__printf(sink, "%s\n", name);
	}
	return sink->error;
}

/* Locations with a name but no address get addresses that no process has. These addresses are far
 * apart, because some readers subtract one from a caller's address. For an interpreter's frame, a
 * hash of its number is used, because the number itself is too large. 57 bits are enough for all
 * frames of a profile to differ: two of 100,000 are the same with a probability of about 10^-7. The
 * hash is the same in all profiles of a run, because `jeprof --base` matches stacks by address. */
#define NAMES_BEGIN  (1ULL << 62)
#define FRAMES_BEGIN (NAMES_BEGIN | 1ULL << 61)
#define FRAMES_HASH  0x9e3779b97f4a7c15 /* 2^64 / golden ratio (Knuth) */

uint64_t heap_v2_addr(const struct profile_location *location)
{
	if (location->addr < PROFILE_NO_ADDR)
		return location->addr;
	if (location->addr < PROFILE_FRAME_ADDR)
		return NAMES_BEGIN + 16 * (location->addr - PROFILE_NO_ADDR);
	return FRAMES_BEGIN + 16 * (location->addr * FRAMES_HASH >> 7);
}

static void put_addresses(const struct profile *profile, const struct profile_site *site,
			  struct sink *sink)
{
	sink__puts(sink, "@");
	for (uint32_t i = 0; i < site->n_locations; i++)
		sink__printf(sink, " 0x%" PRIx64,
			     heap_v2_addr(profile__location(profile, site, i)));
	sink__puts(sink, "\n");
}

/* Bytes of earlier stacks that were too few for an object. */
struct left_over {
	double live, accum;
};

struct counts {
	struct pairs live, accum;
};

static struct counts counts_of(const struct profile_site *site, double interval,
			       struct left_over *left_over)
{
	return (struct counts){
		.live = invert_carrying(site->live.objects, site->live.bytes, interval,
					&left_over->live),
		.accum = invert_carrying(site->alloc_objects, site->alloc_bytes, interval,
					 &left_over->accum),
	};
}

static void put_site(const struct profile *profile, const struct profile_site *site,
		     double interval, struct left_over *left_over, struct sink *sink)
{
	struct counts counts = counts_of(site, interval, left_over);
	struct pairs live = counts.live, accum = counts.accum;
	int n = live.n > accum.n ? live.n : accum.n;

	for (size_t i = 0; i < site->n_threads && n < 2; i++) {
		if (invert_exactly(site->threads[i].objects, site->threads[i].bytes, interval).n ==
		    2)
			n = 2;
	}
	for (int entry = 0; entry < n; entry++) {
		put_addresses(profile, site, sink);
		put_counts(sink, "*", live.pair[entry], accum.pair[entry], "\n");
		for (size_t i = 0; i < site->n_threads; i++) {
			const struct profile_site_thread *held = &site->threads[i];
			struct pairs share = invert_exactly(held->objects, held->bytes, interval);

			if (live.pair[entry].objects && share.pair[entry].objects)
				put_thread(sink, &profile->threads[held->thread], share.pair[entry],
					   "\n");
		}
	}
}

/* Column at which the kernel starts the path: 25 + 6 * sizeof(void *) - 1 (fs/proc/task_mmu.c), and
 * a blank. */
#define PATH_COLUMN 73

/* Puts one line of /proc/PID/maps. The kernel writes a newline in a path as \012; all control
 * characters are written like that here. Bytes that are not UTF-8 are written in this way, too,
 * because readers in Rust give up on them. */
static void put_mapping(const struct profile_mapping *mapping, struct sink *sink)
{
	bool vdso = file_id__equal(&mapping->file, &FILE_ID_VDSO);
	char head[160];
	int len = snprintf(head, sizeof(head),
			   "%08" PRIx64 "-%08" PRIx64 " %s %08" PRIx64 " %02x:%02x %" PRIu64 " ",
			   mapping->start, mapping->end, mapping->perms, mapping->off,
			   mapping->file.dev_major, mapping->file.dev_minor,
			   vdso ? 0 : mapping->file.inode);

	sink__puts(sink, head);
	if (mapping->path && *mapping->path) {
		sink__printf(sink, "%*s", len < PATH_COLUMN ? PATH_COLUMN - len : 1, "");
		for (const char *p = mapping->path; *p;) {
			uint32_t code;
			size_t n = utf8_next(p, &code);

			if (n && !is_control(code)) {
				sink__write(sink, p, n);
				p += n;
			} else {
				sink__printf(sink, "\\%03o", (unsigned char)*p++);
			}
		}
		if (mapping->deleted)
			sink__puts(sink, " (deleted)");
	}
	sink__puts(sink, "\n");
}

static void put_mappings(const struct profile *profile, struct sink *sink)
{
	sink__puts(sink, "\nMAPPED_LIBRARIES:\n");
	for (size_t i = 0; i < profile->n_mappings; i++)
		put_mapping(&profile->mappings[i], sink);
}

/* Returns the interval that the file states. In a windowed run the interval differs from window to
 * window, and samples also stand for the time between windows. In a continuous run the interval may
 * have changed. In both cases no single interval holds for all samples. So the file states the
 * interval that gives the whole profile its variance: at an interval R, the variance of `bytes` is
 * R times bytes. */
static double interval_of(const struct profile *profile)
{
	struct estimate live = profile__live(profile);
	double interval = profile->interval_bytes ? (double)profile->interval_bytes : 1;

	if ((profile__is_windowed(profile) || profile->asked_interval_bytes ||
	     profile->finest_interval_bytes) &&
	    live.bytes > 0)
		interval = fmin(fmax(round(live.variance / live.bytes), 1), interval);
	return interval;
}

int encode_heap_v2(const struct profile *profile, struct sink *sink)
{
	double interval = interval_of(profile);
	struct left_over left_over = {};
	int err = put_head(profile, interval, sink);

	if (err)
		return err;
	for (size_t i = 0; i < profile->n_sites; i++) {
		/* Readers would add the counts of an '@' line without addresses to the stack before
		 * it. */
		if (profile->sites[i].n_locations)
			put_site(profile, &profile->sites[i], interval, &left_over, sink);
	}
	put_mappings(profile, sink);
	return sink->error;
}

/* --- with its names --- */

/* Puts a name into a line in which "--" separates names. Readers have no way to quote "--", so a
 * blank is put between two dashes within a name. */
static int put_joined(const char *name, bool last, struct sink *sink)
{
	_cleanup_free_ char *printable = text_printable(name);

	if (!printable)
		return -ENOMEM;
	for (const char *p = printable; *p; p++) {
		sink__write(sink, p, 1);
		if (*p == '-' && (p[1] == '-' || (!p[1] && !last)))
			sink__puts(sink, " ");
	}
	return sink->error;
}

/* Puts the names of one address, outermost first. Names that are addresses, and empty names, are
 * left out: readers make such names themselves. */
static int put_symbol(const struct profile_location *location, uint64_t addr, struct sink *sink)
{
	size_t n = location->n_frames, last = 0;
	int rc = 0;

	while (last < n && !*location->frames[last].name)
		last++;
	if (last == n || !strncmp(location->frames[n - 1].name, "0x", 2))
		return 0;
	sink__printf(sink, "0x%016" PRIx64 " ", addr);
	for (size_t i = n; i-- && !rc;) {
		if (!*location->frames[i].name)
			continue;
		rc = put_joined(location->frames[i].name, i == last, sink);
		if (i > last)
			sink__puts(sink, "--");
	}
	sink__puts(sink, "\n");
	return rc;
}

/* Puts the names of all addresses that readers look up. jeprof looks up a caller by its address
 * minus one, google-pprof by its address. Both look up the leaf by its address. */
static int put_symbols(const struct profile *profile, struct sink *sink)
{
	_cleanup_free_ char *binary = text_printable(profile->exe ? profile->exe : "");
	int rc = binary ? 0 : -ENOMEM;

	sink__puts(sink, "--- symbol\n");
	if (!rc && *binary)
		sink__printf(sink, "binary=%s\n", binary);
	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		const struct profile_location *location = &profile->locations[i];

		rc = put_symbol(location, heap_v2_addr(location) - 1, sink);
		if (!rc)
			rc = put_symbol(location, heap_v2_addr(location), sink);
	}
	sink__puts(sink, "---\n");
	return rc;
}

static void put_pair_counts(struct pair live, struct pair accum, struct sink *sink)
{
	sink__printf(sink, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "] ", live.objects,
		     live.bytes, accum.objects, accum.bytes);
}

int encode_symbolized(const struct profile *profile, struct sink *sink)
{
	double interval = interval_of(profile), alloc_objects = 0, alloc_bytes = 0;
	struct estimate live = profile__live(profile);
	struct left_over left_over = {};
	int rc = put_symbols(profile, sink);

	for (size_t i = 0; i < profile->n_sites; i++) {
		alloc_objects += profile->sites[i].alloc_objects;
		alloc_bytes += profile->sites[i].alloc_bytes;
	}
	sink__puts(sink, "heap profile: ");
	put_pair_counts(invert(live.objects, live.bytes, interval),
			invert(alloc_objects, alloc_bytes, interval), sink);
	sink__printf(sink, "@ heap_v2/%" PRIu64 "\n", (uint64_t)interval);
	for (size_t i = 0; i < profile->n_sites && !rc; i++) {
		const struct profile_site *site = &profile->sites[i];
		struct counts counts = {};

		if (site->n_locations)
			counts = counts_of(site, interval, &left_over);
		for (int k = 0; k < counts.live.n || k < counts.accum.n; k++) {
			put_pair_counts(counts.live.pair[k], counts.accum.pair[k], sink);
			put_addresses(profile, site, sink);
		}
	}
	put_mappings(profile, sink);
	return rc ? rc : sink->error;
}
