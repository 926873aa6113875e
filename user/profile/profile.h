/* SPDX-License-Identifier: BSD-2-Clause */
/* The model in the middle: capture fills in addresses and numbers, symbolize fills in names, encode
 * only reads. One struct profile is one process over one run. Everything a pointer here points to
 * is owned by the profile and freed by profile__free(), unless it says otherwise. */
#ifndef MEMTRACE_PROFILE_PROFILE_H
#define MEMTRACE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_id.h"
#include "profile/estimate.h"
#include "profile/growth.h"
#include "profile/regions.h"
#include "profile/resident.h"
#include "profile/survival.h"

/* Why a frame has no name. Each is a counter in every output that lists losses. */
#define UNRESOLVED_REASONS(X)                                                                      \
	X(NAMED, "named")			  /* it has one */                                 \
	X(NO_MAPPING, "no_mapping")		  /* the address lies in no known mapping */       \
	X(NOT_A_FILE, "not_a_file")		  /* anonymous memory: JIT code, trampolines */    \
	X(NO_FILE, "file_not_readable")		  /* the mapped file could not be opened */        \
	X(BAD_ELF, "bad_elf")			  /* it is no ELF file or a broken one */          \
	X(UNREAD, "symbols_not_read")		  /* reading them failed or took too long */       \
	X(NO_SYMBOLS, "no_symbols")		  /* the file has no symbol table at all */        \
	X(NO_SYMBOL_HERE, "no_symbol_at_address") /* it has, but none covers the address */

enum unresolved_reason {
#define X(id, name) UNRESOLVED_##id,
	UNRESOLVED_REASONS(X)
#undef X
		UNRESOLVED_MAX
};

/* "no_mapping", ... */
const char *unresolved_reason__name(enum unresolved_reason reason);

struct profile_mapping {
	uint64_t start, end, off; /* run-time addresses; file offset of start */
	struct file_id file;
	char perms[5];
	bool deleted;
	char *path;	/* "" for none */
	char *build_id; /* hex, or NULL; symbolize fills it in */
};

/* A function as the source has it: what compilers inline is still a function of somebody's. */
struct profile_frame {
	char *name; /* without parameter list. For an unresolved one "module+0xoff" (file offset of
		     * addr - 1) or "0xaddr" */
	char *file; /* of the call or statement, as compiled; NULL: unknown */
	uint32_t line; /* 0: unknown */
};

/* No code is there: locations of a file that tells names without addresses are numbered from here
 * on, to be distinct. */
#define PROFILE_NO_ADDR (1ULL << 63)

/* One address of a stack. Distinct by addr within a profile. */
struct profile_location {
	uint64_t addr;	 /* as captured: entry + 1 for the allocator (leaf), return addresses above.
			  * What is looked up and shown is addr - 1. Never 0. */
	int32_t mapping; /* index into mappings, -1 for none */
	struct profile_frame *frames; /* innermost first: the inlined ones, then the function whose
				       * code it is; none until symbolized */
	size_t n_frames;
	enum unresolved_reason reason;
	bool note; /* no code: it says something of the stacks through it (profile/view.h) */
};

struct profile_thread {
	uint32_t tid;
	char name[16]; /* NUL-terminated; what the kernel calls comm; any bytes */
};

/* What one thread holds of one site. */
struct profile_site_thread {
	uint32_t thread; /* index into threads */
	double objects, bytes;
};

#define PROFILE_SURVIVAL_AGES 5

/* What one thread freed of another's or of its own; or, with freer 0, all that owner allocated.
 * Estimates. */
struct profile_transfer {
	uint32_t owner, freer; /* tids: of who allocated, of who freed */
	uint64_t samples;
	double objects, bytes;
};

#define PROFILE_AGES 10

/* The course of a stack's memory over a run. */
struct site_life {
	double high_objects, high_bytes; /* the most that it ever held */
	double low_objects, low_bytes; /* the least since a third of the run was over, as far as it
					* was looked at */
	/* Objects by age when they were freed, and of those that live at the end: 10 us times 10^i
	 * and less, the last class any older. Objects that realloc moved have ended, too; of those
	 * whose end was not seen no age is known. */
	double ended[PROFILE_AGES], living[PROFILE_AGES];
	struct half_life half_life; /* by the wall clock; of windows alone */
};

/* The class of an age in nanoseconds. */
int profile_age_class(uint64_t ns);

/* "10us", "100us", ... "1000s", "more": up to which age a class goes. */
const char *profile_age__name(int class);

/* Adds what another stack's memory did: their highs need not have been at the same time, so that
 * the sum is the most that it can have been. */
void site_life__merge(struct site_life *life, const struct site_life *other);

/* One stack and what was allocated there. */
struct profile_site {
	uint32_t *locations; /* indices, leaf (the allocator function) first */
	uint32_t n_locations;
	bool complete;	     /* it reaches the process's or thread's start */
	bool truncated;	     /* the walk stopped at its limit; more callers exist */
	bool allocators_own; /* of regions: a traced allocator took them, for the heap */
	/* of regions, when it was asked for: what of them is in memory */
	struct resident_bytes resident;

	struct estimate live;		   /* allocated during the run and not freed */
	double alloc_objects, alloc_bytes; /* estimated, over the run */
	/* Of windows: the variance of alloc_bytes, bytes^2, and the standard error that it shares
	 * with all others of its run, bytes. 0 where it is not known, and of continuous runs: there
	 * the interval tells (estimate__of_bytes()). */
	double alloc_variance, alloc_common;
	double freed_objects, freed_bytes; /* of those, freed again */
	double peak_objects,
		/* when the profile's has_peak is set: held when the process held most, estimated */
		peak_bytes;
	struct growth growth; /* when the profile's has_growth is set */
	bool replaces; /* windows show that its blocks stay, and the process does not grow by them:
			* they take the place of older ones, or are freed where no window sees it */
	/* Share of what was allocated more than so long before the end that was live at the end, by
	 * the profile's survival_age_s; NaN: nothing was. */
	double survival[PROFILE_SURVIVAL_AGES];
	/* Share of what is live that is older than that, estimated as the live bytes are; NaN: not
	 * known. */
	double older[PROFILE_SURVIVAL_AGES];
	struct site_life life;		     /* when the profile's has_life, has_ages are set */
	struct profile_site_thread *threads; /* live by allocating thread, ascending by thread */
	size_t n_threads;
};

/* A named count of something lost or left out; name points to static storage or to what
 * profile__keep() returned. */
struct profile_counter {
	const char *name;
	uint64_t count;
	bool of_run; /* of all processes together: the same loss stands in each one's profile */
};

/* One probe that was attached. Strings owned. */
struct profile_probe {
	char *function;	   /* "malloc" */
	char *object;	   /* path of the file */
	uint64_t offset;   /* file offset of the probed instruction */
	char *instruction; /* "push %r12" */
	bool emulated;	   /* by the kernel; else single-stepped */
	const char *kind;  /* "session", "multi" or "perf"; static */
	double cost_ns;	   /* calibrated cost of one hit, 0 when unknown */
};

/* What became of the blocks that were sampled in windows: how many of those born were seen to be
 * freed, to be replaced by another block at their address, to be mapped no more, to have changed;
 * and how many of the rest are unchanged (ledger/survivors.h). */
struct profile_evidence {
	uint64_t born, freed, replaced, unmapped, changed, unchanged;
};

/* What tracing has cost memtrace itself: all processes of the run together. */
struct run_cost {
	bool known;
	double cpu_pct; /* of one core, over the run */
	bool host_known;
	double host_pct;       /* share of the machine's CPU time that probes took, if known */
	uint64_t user_bytes;   /* largest resident set */
	uint64_t kernel_bytes; /* the kernel's tables, at the end of the run */
	bool at_most;	       /* kernel_bytes is what these may grow to: this kernel does not count
				* what they have (before Linux 6.4) */
};

/* By how much the process's anonymous memory grows, which the kernel knows, and what of that the
 * stacks explain; the remainder, its difference, is what they do not: what the allocator keeps for
 * itself, memory that was not its. */
struct process_growth {
	double bytes_per_s;	  /* NaN: unknown */
	struct growth attributed; /* of all stacks together */
	/* of what the program maps by itself, as far as that was looked at */
	double regions;
	/* Windowed: by how many blocks a second the process has more, by the counts of its calls,
	 * without any stack; 95 %. NaN: not known. */
	double blocks_per_s, blocks_low, blocks_high;
};

/* What a stack is weighed by. */
enum profile_weight {
	WEIGHT_LIVE, /* bytes */
	WEIGHT_OBJECTS,
	WEIGHT_ALLOCATED, /* bytes, over the run */
	WEIGHT_FREED,	  /* of these */
	WEIGHT_GROWTH,	  /* bytes per second, where it grows */
	WEIGHT_PEAK,	  /* bytes, when the process held most */
	PROFILE_WEIGHTS
};

/* What was traced. */
enum profile_what { PROFILE_HEAP, PROFILE_REGIONS, PROFILE_FAULTS, PROFILE_WHATS };

/* "heap", "regions", "faults" */
const char *profile_what__name(enum profile_what what);

/* How. */
enum profile_mode {
	MODE_UNKNOWN, /* another tool's, or of a file that does not say: the rest of it is 0 */
	MODE_CONTINUOUS,
	MODE_WINDOWED,
	PROFILE_MODES
};

/* "continuous", "windowed"; "": unknown */
const char *profile_mode__name(enum profile_mode mode);

struct profile {
	/* the run */
	enum profile_what what;
	pid_t pid;
	/* name of the process, as it is: encoders see to what is not printable */
	char comm[64];
	char *exe; /* path of its program or "" */
	/* why no call of its allocator was to be seen; static; NULL: it was traced */
	const char *not_traced;
	const char *file;     /* that it was read from, profile__keep(); NULL: of this run */
	unsigned own_version; /* of a file of memtrace's: PPROF_OWN_VERSION; 0: an older one */
	enum profile_mode mode;
	bool leaf_holds; /* stacks begin with who allocates: the allocator was left out */
	bool no_objects; /* only bytes are known, all numbers of objects are 0 */
	/* nor what was allocated in all: it is what is live, and nothing was freed */
	bool no_allocated;
	enum profile_weight weight; /* what is in the place of live bytes; but in a view
				     * (profile/view.h) they are themselves */
	/* windowed: how many, and the time spent in them; and continuously */
	uint64_t n_windows;
	double windows_s, continuous_s;
	bool has_growth; /* of each site, and of the process */
	struct process_growth growth;
	bool has_life; /* of each site: life.low_ and high_; of what is traced continuously */
	/* of each site: life.ended, and life.living; of windows they are estimates */
	bool has_ages;
	bool no_living; /* but not life.living: it is of a file that does not say it */
	bool has_peak;	/* of each site; of what is traced continuously */
	double peak_s;	/* when that was, seconds from the start */
	double survival_age_s[PROFILE_SURVIVAL_AGES]; /* ascending; 0: it is not known */
	struct profile_evidence evidence;	      /* windowed */
	double heap_mapped_bytes; /* windowed: what the heap may be in is mapped; no live bytes are
				   * more. 0: not known */
	/* R; 1 = exact; 0: not known, nor is any variance. Where it changed, the
	 * coarsest: of live memory each sample's own is in the estimate, of what is
	 * known by sums alone the variance is no more than with this */
	uint64_t interval_bytes;
	/* what was asked for, where it was made coarser to keep the limit; 0: it was not */
	uint64_t asked_interval_bytes;
	uint64_t start_unix_ns; /* wall clock at the start */
	double duration_s;
	uint64_t alloc_calls, free_calls, samples; /* samples: allocations recorded */
	uint64_t dropped; /* samples that had no room and are missing from every figure: live bytes
			   * are then a lower bound, whatever their interval says */
	uint64_t stacks_walked, stacks_complete; /* samples by stack: all, and those whose stack
						  * reaches the process's or thread's start */
	double overhead_pct;  /* estimated share of the target's CPU time that tracing took, 0..100,
			       * negative when unknown */
	uint64_t cpu_time_ns; /* used by the target during the run; 0 unknown */
	uint64_t children_cpu_ns; /* of a command that has ended: by its children, which were not
				  * traced; 0: none, or unknown */
	uint64_t rss_start_bytes, rss_end_bytes; /* resident set at the start of the run (0 when the
						  * process began later) and at its end (0 when it
						  * ended before) */
	uint32_t n_live_threads;		 /* threads that it has at the end of the run */
	bool ended;	  /* during the run: what is live was so at its exit */
	double planned_s; /* what the run of a process that was named was to take; 0: until told */
	struct run_cost own; /* of the run: the same in each one's profile */

	/* regions: live bytes by kind of memory, and those of before the run that were given back
	 * during it, negative when unknown */
	double kind_bytes[REGION_MEMORY_KINDS], earlier_gone_bytes;
	double regions_followed_s; /* from the start on, then it was too dear; 0: to the end */

	/* growth: change of the resident set over the run, bytes; NaN when unknown */
	double resident_change_bytes;

	char *refused; /* which functions could not be probed, why, what follows; NULL: none */
	/* of the whole process: what its resident set is made of; NULL: not known */
	struct resident *resident;

	struct profile_mapping *mappings; /* ascending by start */
	size_t n_mappings;
	struct profile_location *locations; /* ascending by addr */
	size_t n_locations;
	struct profile_thread *threads; /* ascending by tid */
	size_t n_threads;
	/* ascending by owner, then freer; none where it is not known */
	struct profile_transfer *transfers;
	size_t n_transfers;
	struct profile_site *sites; /* after profile__sort: descending by live.bytes */
	size_t n_sites;
	struct profile_counter *lost; /* every named counter, zero ones included */
	size_t n_lost;
	struct profile_probe *probes;
	size_t n_probes;
	char **files; /* what was written, for the summary and --json */
	size_t n_files;
	size_t n_snapshots; /* of these: the first ones, written while the run went on */
	char **kept;	    /* profile__keep() */
	size_t n_kept;

	struct profile_build *build; /* private: look-up tables, until profile__sort() */
};

/* Windowed: seconds in which the probes were in place. */
double profile__watched_s(const struct profile *profile);

/* A zeroed profile, or NULL. */
struct profile *profile__new(void);
void profile__free(struct profile *profile);

/* --- building: all return 0 or -ENOMEM, except where said; in any order, in amortised constant
 * time each --- */

/* A stack as the kernel recorded it, leaf first; a 0 among addrs is left out, for it is no address.
 * Call once per distinct stack (profile__cut_implausible() merges equal ones, nothing else does).
 * *ret_site is its index until profile__sort(). */
int profile__add_site(struct profile *profile, const uint64_t *addrs, size_t n, bool truncated,
		      size_t *ret_site);

/* Adds thread tid, or renames it when name is not empty (NULL: no name); *ret_thread is its index,
 * which profile__sort() may change (it renumbers all uses). */
int profile__add_thread(struct profile *profile, uint32_t tid, const char *name,
			size_t *ret_thread);

/* One live sampled allocation of size bytes made by thread (index) at site. interval_bytes must be
 * set before. -EINVAL for an index that does not exist. */
int profile__add_live(struct profile *profile, size_t site, size_t thread, uint64_t size);

/* The same of one that was seen with probability p. */
int profile__add_live_seen(struct profile *profile, size_t site, size_t thread, uint64_t size,
			   double p);

/* The same of what an estimate says of any number of them. */
int profile__add_live_estimate(struct profile *profile, size_t site, size_t thread,
			       const struct estimate *estimate);

/* What thread (index) holds of what is in the site's live memory already. -EINVAL as above. */
int profile__add_held(struct profile *profile, size_t site, size_t thread, double objects,
		      double bytes);

/* Adds to what freer freed of owner's memory; they come in any order, no pair twice. */
int profile__add_transfer(struct profile *profile, const struct profile_transfer *transfer);

/* A copy of text that lives as long as the profile; NULL: no memory. */
const char *profile__keep(struct profile *profile, const char *text);

/* These copy the strings they are given (NULL is ""; a build_id may stay NULL). A counter that is
 * there already grows by count. */
int profile__add_mapping(struct profile *profile, const struct profile_mapping *mapping);
int profile__add_lost(struct profile *profile, const char *static_name, uint64_t count);
/* The same for a count that is not the process's own but the run's. One that is there already
 * becomes the larger of both. */
int profile__add_run_lost(struct profile *profile, const char *static_name, uint64_t count);
int profile__add_probe(struct profile *profile, const struct profile_probe *probe);
int profile__add_file(struct profile *profile, const char *path);

/* Gives a location its frames, in place of those it has; the array and its strings are the
 * location's from then on. */
void profile_location__set_frames(struct profile_location *location, struct profile_frame *frames,
				  size_t n);
/* The same for one frame of which no more than a name is known, which is copied. 0 or -ENOMEM. */
int profile_location__set_name(struct profile_location *location, const char *name);

/* The function whose code the location is; NULL until symbolized. */
static inline const char *profile_location__function(const struct profile_location *location)
{
	return location->n_frames ? location->frames[location->n_frames - 1].name : NULL;
}

/* Ends building: sorts mappings, sets each location's mapping (that of addr - 1), sorts threads and
 * sites (live bytes, then allocated bytes, descending; ties by addresses so that equal input gives
 * equal output) and renumbers their uses. In linear-logarithmic time. May be called again. */
int profile__sort(struct profile *profile);

/* --- arithmetic --- */

/* Cuts every stack that is not complete at its first frame (from the leaf) that cannot be code: one
 * whose addr - 1 lies in no mapping, or in one that is not executable; sites that become equal are
 * merged (estimates, totals, threads). What a frame-pointer walk through a program without frame
 * pointers collects is removed that way. The leaf and its immediate caller are kept whatever they
 * are, for they were read, not guessed. Locations that no stack uses any more are removed. *ret_cut
 * (may be NULL): sites that lost frames. Needs profile__sort() first, and sorts again. 0 or
 * -ENOMEM. */
int profile__cut_implausible(struct profile *profile, size_t *ret_cut);

/* Is it a profile of regions, of page faults? */
bool profile__is_regions(const struct profile *profile);
bool profile__is_faults(const struct profile *profile);
/* Of regions: by how much those that no allocator has taken for itself grow, bytes per second. */
double profile__own_growth(const struct profile *profile);
/* Does any of its stacks surely grow (what an allocator takes for itself left out)? */
bool profile__leaks(const struct profile *profile);
/* Was it not traced all the time? */
bool profile__is_windowed(const struct profile *profile);
/* Does it tell what the process grows by? Few windows tell that, but not by which stacks. */
bool profile__knows_process_growth(const struct profile *profile);
/* Is what it says to be live no more than a lower bound: samples were dropped, blocks were
 * allocated where no probe sees it, or regions were not followed to the end? */
bool profile__is_lower_bound(const struct profile *profile);
/* No more than an upper bound: every allocation was to be recorded, but blocks were freed where no
 * probe sees it? With both it is neither. */
bool profile__is_upper_bound(const struct profile *profile);
/* Is every allocation recorded, all the time? Not of a file that does not say how it was
 * sampled. */
bool profile__is_exact(const struct profile *profile);
/* And no counter says that some was missed all the same: only then is anything called exact. */
bool profile__is_surely_exact(const struct profile *profile);

/* The sampling interval that was asked for; 0: not known. */
uint64_t profile__asked_interval(const struct profile *profile);

/* What the counter of that name says; 0 where there is none. */
uint64_t profile__lost_count(const struct profile *profile, const char *name);

/* The counter of stacks that were left out of a profile on purpose: it is a part of what it was. */
#define LOST_FILTERED "filtered_stacks"

/* What all stacks of a symbolized profile come to when they are written out with all names, inlined
 * functions among them. by_thread: once for each thread that holds any of a stack, and once for
 * none. 0 or -ENOMEM. */
struct profile_extent {
	uint64_t frames, bytes;
};
/* More than any profile comes to, but not more than what a file can be made to. */
#define PROFILE_MAX_WRITTEN_FRAMES (1ULL << 26)
#define PROFILE_MAX_WRITTEN_BYTES  (1ULL << 31)
int profile__written(const struct profile *profile, bool by_thread, struct profile_extent *ret);

/* Memory that a sorted profile takes, bytes; what its allocator adds left out. */
size_t profile__bytes(const struct profile *profile);

/* Live memory of all sites together. Windows may sample much more finely than the continuous
 * stretches of the same run. So the error allows for one sample that a continuous stretch happened
 * not to take: it weighs one interval there, or all that was allocated then if that is less. */
struct estimate profile__live(const struct profile *profile);

/* What all sites together held when the process held most. */
struct estimate profile__peak(const struct profile *profile);

/* Share of the recorded stacks that reach the start of their process or thread, per cent; NaN when
 * no stack was walked. */
double profile__stacks_complete_pct(const struct profile *profile);

/* The site's locations i-th from the leaf. */
static inline const struct profile_location *profile__location(const struct profile *profile,
							       const struct profile_site *site,
							       size_t i)
{
	return &profile->locations[site->locations[i]];
}

/* Is this the name of an allocation function (malloc, calloc, operator new, xmalloc, g_malloc, ...)
 * or a container's allocator plumbing, which says nothing about who holds the memory? Used to pick
 * the frames that tell the story, never to drop data. */
bool profile__is_allocator_frame(const char *name);
/* Are all the functions of a symbolized location such? */
bool profile_location__is_allocators(const struct profile_location *location);

#endif
