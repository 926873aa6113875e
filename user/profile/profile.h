/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of a profile: capture/ fills in addresses and numbers, symbolize/ fills in names, and
 * encode/ only reads. One struct profile describes one process over one run. A profile owns
 * everything that the pointers in these structs point to, unless a comment says otherwise.
 * profile__free() frees it. */
#ifndef MEMTRACE_PROFILE_PROFILE_H
#define MEMTRACE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/file_id.h"
#include "base/optional.h"
#include "profile/estimate.h"
#include "profile/growth.h"
#include "profile/regions.h"
#include "profile/resident.h"
#include "profile/run.h"
#include "profile/survival.h"
#include "profile/why.h"

/* Why a frame has no name. Each reason is a counter in every output that lists losses. */
#define UNRESOLVED_REASONS(X)                                                                      \
	X(NAMED, "named")			  /* the frame has a name */                       \
	X(NO_MAPPING, "no_mapping")		  /* the address lies in no known mapping */       \
	X(NOT_A_FILE, "not_a_file")		  /* anonymous memory: JIT code, trampolines */    \
	X(NO_FILE, "file_not_readable")		  /* the mapped file could not be opened */        \
	X(BAD_ELF, "bad_elf")			  /* no ELF file, or a broken one */               \
	X(UNREAD, "symbols_not_read")		  /* reading symbols failed or took too long */    \
	X(NO_SYMBOLS, "no_symbols")		  /* the file has no symbol table at all */        \
	X(NO_SYMBOL_HERE, "no_symbol_at_address") /* no symbol covers the address */               \
	X(INTERPRETED, "interpreted")		  /* interpreted code: its name was not read */

enum unresolved_reason {
#define X(id, name) UNRESOLVED_##id,
	UNRESOLVED_REASONS(X)
#undef X
		UNRESOLVED_MAX
};

/* "no_mapping", ... */
const char *unresolved_reason__name(enum unresolved_reason reason);

struct profile_mapping {
	uint64_t start, end, off; /* start, end: run-time addresses; off: file offset of start */
	struct file_id file;
	char perms[5];
	bool deleted;
	char *path;	/* "" for none */
	char *build_id; /* hex, or NULL; symbolize fills it in */
};

/* A function of the source. A function that the compiler inlined is a frame, too. */
struct profile_frame {
	char *name; /* without parameter list. If the name is not known, "module+0xoff" with the
		     * file offset of the location's addr - 1, or "0xaddr" with addr - 1 */
	char *file; /* source file of the call or statement (path at compile time); NULL: unknown */
	uint32_t line; /* 0: unknown */
};

/* Some locations have no address: the locations of a file that has only names of functions, and the
 * location of LARGE_UNSEEN (large.h). In place of an address, each of these locations gets a
 * distinct number from PROFILE_NO_ADDR upwards, where no code can be. All these numbers are below
 * PROFILE_FRAME_ADDR. The frames of an interpreter have numbers from PROFILE_FRAME_ADDR on: such a
 * number contains the address of a code object (ABI_PYTHON_FRAME in bpf/abi.h), and no code object
 * lies in the first 64 KiB of memory. A frame of an interpreter has the same number in all profiles
 * of a run. */
#define PROFILE_NO_ADDR	   (1ULL << 63)
#define PROFILE_FRAME_ADDR (PROFILE_NO_ADDR + (1ULL << 32))

/* The kinds of a profile's stacks. Drawn stacks were not recorded by a run (profile/drawing.h). */
enum profile_drawn {
	DRAWN_NOTHING, /* stacks that a run has recorded */
	DRAWN_PATHS,   /* paths of pointers: why_report__paths() */
	DRAWN_ORIGINS, /* functions that probably made the blocks: heap_report__stacks() */
	DRAWN_CENSUS,  /* blocks by place, class and size: heap_report__stacks() */
	DRAWN_KINDS
};

/* The agent pushes profiles that cover only a part of a run. It also sends such profiles as answers
 * to requests (encode_pprof_interval()). They have amounts, but few facts about the run. duration_s
 * is the length of the part. */
enum profile_part {
	PART_ALL,    /* of the whole run */
	PART_LIVE,   /* allocated: in this part; live: at its end */
	PART_CHANGE, /* allocated: in this part; live: how much live memory grew in it */
	PROFILE_PARTS
};

/* One address of a stack. In a profile, no two locations have the same addr. */
struct profile_location {
	uint64_t addr;	 /* as captured. For the allocator (the leaf): its entry + 1. For a caller:
			  * the return address. addr - 1 is looked up and shown. Never 0. */
	int32_t mapping; /* index into mappings, -1 for none */
	struct profile_frame *frames; /* innermost first: inlined functions, then the function that
				       * they are inlined in; none until symbolized */
	size_t n_frames;
	enum unresolved_reason reason;
	bool note; /* the location is not code, but a text about the stacks that have it
		    * (profile/view.h) */
};

struct profile_thread {
	uint32_t tid;
	char name[16]; /* what the kernel calls comm: any bytes, NUL-terminated */
};

/* The part of a site's live memory that one thread allocated. */
struct profile_site_thread {
	uint32_t thread; /* index into threads */
	double objects, bytes;
};

#define PROFILE_SURVIVAL_AGES 5

/* Memory that the thread `owner` allocated and the thread `freer` freed. If `freer` is 0, the
 * figures are all memory that `owner` allocated. The figures are estimates. */
struct profile_transfer {
	uint32_t owner, freer; /* tids; both may be the same thread */
	uint64_t samples;
	double objects, bytes;
};

#define PROFILE_AGES 10

/* How a stack's memory changed over a run. */
struct site_life {
	double high_objects, high_bytes; /* the most that the stack ever held */
	double low_objects, low_bytes;	 /* the least that the stack held at the end of the run, and
					  * in the snapshots of the last two thirds of the run */
	/* Numbers of objects by age. ended: objects that have ended, by their age when they were
	 * freed. living: objects that live at the end of the run, by their age then. Class i holds
	 * ages up to 10 us times 10^i, the last class all older ones. Objects that realloc moved
	 * have ended, too. If the end of an object was not seen, its age is not known. */
	double ended[PROFILE_AGES], living[PROFILE_AGES];
	struct half_life half_life; /* by the wall clock; only known from windows */
};

/* The class of an age in nanoseconds. */
int profile_age_class(uint64_t ns);

/* "10us", "100us", ... "1000s", "more": the oldest age of a class. */
const char *profile_age__name(int class);

/* Adds the life of another stack to `life`. The two stacks may have held most at different times,
 * so the sum of their `high_...` is an upper bound. */
void site_life__merge(struct site_life *life, const struct site_life *other);

/* A live block that was sampled. */
struct profile_block {
	uint64_t addr, size; /* size: what the program asked for */
};

/* One stack and the memory that was allocated there. */
struct profile_site {
	uint32_t *locations; /* indices, leaf (the allocator function) first */
	uint32_t n_locations;
	bool complete;	     /* the stack reaches the process's or thread's start */
	bool truncated;	     /* the walk stopped at its limit; more callers exist */
	bool allocators_own; /* regions: a traced allocator mapped this memory, for the heap */
	/* the site is allocators_own, but its allocator is a pool whose blocks are in no stack of
	 * the heap profile. Not stored in files */
	bool unseen_pools;
	/* regions: how much of this memory is resident, if that was asked for */
	struct resident_bytes resident;

	struct estimate live;		   /* allocated during the run and not freed */
	double alloc_objects, alloc_bytes; /* allocated over the run, estimated */
	/* Only from windows. alloc_variance: the variance of alloc_bytes, in bytes^2. alloc_common:
	 * the part of the error of alloc_bytes that all sites of the run share, as a standard error
	 * in bytes. Both are 0 if they are not known, and in continuous runs. For continuous runs
	 * estimate__of_bytes() gives the interval of alloc_bytes. */
	double alloc_variance, alloc_common;
	double freed_objects, freed_bytes; /* freed, of what was allocated over the run */
	/* if the profile's peak.known: estimate of what the stack held when the process held its
	 * most */
	double peak_objects, peak_bytes;
	struct growth growth; /* if the profile's growth.stacks_known */
	bool replaces; /* windows show that the stack's blocks stay, but the process does not grow:
		        * the blocks replace older ones, or are freed outside of windows */
	/* For each age A in the profile's survival_age_s: of the bytes that were allocated more
	 * than A before the end of the run, the share that is still live. NaN: no bytes were
	 * allocated so early. */
	double survival[PROFILE_SURVIVAL_AGES];
	/* For each of these ages: the share of live memory that is older than the age. The share is
	 * an estimate, as the live bytes are. NaN: not known. */
	double older[PROFILE_SURVIVAL_AGES];
	struct site_life life;		     /* the profile's life tells which members are known */
	struct profile_site_thread *threads; /* parts of live memory, by allocating thread,
					      * ascending */
	size_t n_threads;
	/* Sampled blocks that may be live at the end of the run, if blocks were asked for. Of the
	 * file formats, only pprof has these blocks. */
	struct profile_block *blocks;
	size_t n_blocks;
	struct site_why *why; /* who holds the stack's blocks; NULL: nobody asked; owned */
};

/* One probe that was attached. Strings owned. */
struct profile_probe {
	char *function;	   /* "malloc" */
	char *object;	   /* path of the file */
	uint64_t offset;   /* file offset of the probed instruction */
	char *instruction; /* "push %r12" */
	bool emulated;	   /* the kernel emulates the instruction; else it single-steps it */
	const char *kind;  /* "session", "multi", "perf" or "tracepoint"; static */
	double cost_ns;	   /* calibrated cost of one hit, 0 when unknown */
};

/* What became of the blocks that were sampled in windows (ledger/survivors.h). born: number of
 * these blocks. Each other member counts a part of these blocks. freed: blocks that were seen to be
 * freed. replaced: blocks at whose address another block was found. unmapped: blocks whose address
 * is no longer mapped. changed: blocks whose contents have changed. unchanged: all other blocks
 * that were found with the same contents. */
struct profile_evidence {
	uint64_t born, freed, replaced, unmapped, changed, unchanged;
};

/* How a process was traced in windows. All 0: it was not traced in windows. */
struct profile_windows {
	uint64_t n;
	double seconds;	     /* length of all windows together */
	double continuous_s; /* length of continuous tracing before, between or after windows */
	struct profile_evidence evidence;
	double heap_mapped_bytes; /* size of the mappings that may hold the heap: an upper limit of
				   * live bytes. 0: not known */
};

/* Figures that only a profile of regions has. */
struct profile_regions {
	double kind_bytes[REGION_MEMORY_KINDS]; /* live bytes, by kind of memory */
	/* bytes that were given back during the run, of regions that were mapped before the run */
	struct optional earlier_gone_bytes;
	/* Seconds from the start after which regions were no longer followed, because following
	 * them cost too much. Not known: they were followed to the end. */
	struct optional stopped_s;
};

/* How fast the process's anonymous memory grows, as the kernel counts it, and how much of this
 * growth the stacks explain. The remainder is memory that the allocator keeps for itself, and
 * memory that is not the allocator's. */
struct process_growth {
	struct optional bytes_per_s; /* a few windows are enough to know it, but not to know which
				      * stacks grow */
	bool stacks_known; /* each site has `growth`, and `attributed` and `regions` are known */
	struct growth attributed; /* growth of all stacks together */
	/* growth of the regions as profile__own_growth() adds it up; 0 if regions were not
	 * traced */
	double regions;
	/* Windowed: how many blocks per second the process gains, with the 95 % interval. These
	 * figures come from the numbers of the process's calls, not from its stacks. */
	struct optional blocks_per_s, blocks_low, blocks_high;
};

/* Tells which members of struct site_life are known. It is the same for all sites. */
struct profile_life {
	bool heights_known; /* low_... and high_...; only if traced continuously */
	bool ages_known;    /* ended and half_life; for windows they are estimates */
	bool living_known;  /* living; files of old versions may have only the ages of `ended` */
};

/* When the process held its most. */
struct profile_peak {
	bool known; /* each site has a peak; only if traced continuously */
	double s;   /* from the start, seconds */
};

/* The figure that a stack is weighed by. */
enum profile_weight {
	WEIGHT_LIVE, /* bytes */
	WEIGHT_OBJECTS,
	WEIGHT_ALLOCATED, /* bytes, over the run */
	WEIGHT_FREED,	  /* bytes that were allocated during the run and freed */
	WEIGHT_GROWTH,	  /* bytes per second; 0 for stacks that do not grow */
	WEIGHT_PEAK,	  /* bytes that were held when the process held its most */
	PROFILE_WEIGHTS
};

/* What was traced. */
enum profile_what { PROFILE_HEAP, PROFILE_REGIONS, PROFILE_FAULTS, PROFILE_WHATS };

/* "heap", "regions", "faults" */
const char *profile_what__name(enum profile_what what);

/* How it was traced. */
enum profile_mode {
	MODE_UNKNOWN, /* the profile is another tool's, or its file does not have the mode */
	MODE_CONTINUOUS,
	MODE_WINDOWED,
	PROFILE_MODES
};

/* "continuous", "windowed"; "": unknown */
const char *profile_mode__name(enum profile_mode mode);
/* "paths", "origins", "census"; "": DRAWN_NOTHING */
const char *profile_drawn__name(enum profile_drawn drawn);
/* "live", "change"; "": PART_ALL */
const char *profile_part__name(enum profile_part part);

struct profile {
	struct profile_run *run; /* facts that all profiles of the run share; never NULL */
	enum profile_what what;
	pid_t pid;
	/* name of the process, unchanged: encoders escape what is not printable */
	char comm[64];
	char *exe; /* path of its program; "" or NULL: not known */
	/* why no call of the process's allocator could be traced; static; NULL: calls were
	 * traced */
	const char *not_traced;
	/* file or URL that the profile was read from, kept by profile__keep(); NULL: the profile is
	 * of this run, and was not read from a file */
	const char *file;
	unsigned own_version; /* PPROF_OWN_VERSION of the file; 0: not in the file */
	enum profile_mode mode;
	bool leaf_holds; /* the allocator's frames are left out: stacks begin with the allocator's
			  * caller */
	enum profile_drawn drawn;
	enum profile_part part;
	bool no_objects; /* only bytes are known, all object counts are 0 */
	/* the allocated total is not known: `alloc_...` is set to what is live, and `freed_...` to
	 * 0 */
	bool no_allocated;
	enum profile_weight weight;	/* the figure that is stored in the place of live bytes;
					 * WEIGHT_LIVE except in a view (profile/view.h) */
	struct profile_windows windows; /* all 0 unless windowed */
	struct process_growth growth;
	struct profile_life life;
	struct profile_peak peak;
	double survival_age_s[PROFILE_SURVIVAL_AGES]; /* ascending; 0: not known */
	/* The sampling interval R. 1: exact. 0: not known, and then no variance is known either. If
	 * the interval changed during the run, this is the coarsest one. The estimate of live
	 * memory uses each sample's own interval. Other figures are known only as sums: their
	 * variance is at most the variance that the coarsest interval gives. */
	uint64_t interval_bytes;
	/* the interval that was asked for, if a coarser interval was used to limit the overhead;
	 * else 0 */
	uint64_t asked_interval_bytes;
	/* The target itself took the samples and reported them. alloc_calls and free_calls then
	 * count the reports. The number of blocks is not known. */
	bool sampled_by_target;
	/* the finest interval, if continuous tracing used a finer one than was asked for; else 0 */
	uint64_t finest_interval_bytes;
	uint64_t start_unix_ns; /* wall clock at the start */
	/* when the process started, as in struct process_info. This time and the pid together
	 * identify the process; 0: not known */
	uint64_t process_start_ticks;
	double duration_s;
	uint64_t alloc_calls, free_calls, samples; /* samples: recorded allocations */
	uint64_t dropped; /* samples for which there was no room. They are missing from every
			   * figure. If there are any, live bytes are a lower bound, whatever their
			   * interval says */
	uint64_t stacks_walked, stacks_complete; /* stacks_walked: samples whose stack was walked.
						  * stacks_complete: the part of these samples whose
						  * stack reaches the start of the process or
						  * thread */
	/* estimated share of the target's CPU time that tracing took, 0..100 */
	struct optional overhead_pct;
	double others_pct;    /* extra cost of calls because other tracers had probes on the same
			       * functions, in % of the calls' own cost. Included in overhead_pct */
	uint64_t cpu_time_ns; /* used by the target during the run; 0 unknown */
	uint64_t children_cpu_ns; /* if a traced command has ended: CPU time of its children, which
				   * were not traced. 0: there were none, or their time is not
				   * known */
	uint32_t n_strays; /* number of the process's children that lived at the end of the run and
			    * were not traced; 0 also if these children were not counted: in a
			    * profile of regions, in snapshots, with a selection */
	uint64_t rss_start_bytes, rss_end_bytes; /* resident set at the run's start (0: the process
						  * began later) and end (0: it ended before) */
	/* growth of the resident part of mapped files and shared memory; 0: not known */
	double file_growth_bytes;
	uint32_t n_live_threads; /* at the end of the run */
	bool ended; /* the process ended during the run: "live" then means live at its end */
	uint32_t killed_by_signal; /* number of the signal that ended it; 0: none did, or unknown */
	bool out_of_memory; /* it was killed because memory was short, in its cgroup or on the whole
			     * machine */
	double planned_s;   /* planned length of the run; 0: none was planned, or the user did not
			     * name this process */
	/* how often during the run all probes were taken out because memtrace hung */
	uint64_t withdrawals;

	struct profile_regions regions; /* only in a profile of regions */
	/* change of the resident set over the run; only shown for a profile of page faults */
	struct optional resident_change_bytes;

	char *refused; /* which functions could not be probed, why, and what follows; NULL: none */
	/* what the whole process's resident set is made of; NULL: not known */
	struct resident *resident;
	/* how the search for the holders of blocks went (struct profile_site's why); NULL: there
	 * was no search */
	struct profile_why *why;

	struct profile_mapping *mappings; /* ascending by start */
	size_t n_mappings;
	struct profile_location *locations; /* ascending by addr */
	size_t n_locations;
	struct profile_thread *threads; /* ascending by tid */
	size_t n_threads;
	/* ascending by owner, then freer; none if not known */
	struct profile_transfer *transfers;
	size_t n_transfers;
	struct profile_site *sites; /* after profile__sort: descending by live.bytes */
	size_t n_sites;
	/* Losses of this process, also those with a count of 0. Losses that are of no single
	 * process are in `run`. Names are static, or kept by profile__keep(). */
	struct profile_counters lost;
	struct profile_probe *probes;
	size_t n_probes;
	char **files; /* files that were written, for the summary and --json */
	size_t n_files;
	size_t n_snapshots; /* the first n_snapshots files were written during the run */
	char **kept;	    /* texts of profile__keep() */
	size_t n_kept;

	struct profile_build *build; /* private: look-up tables, until profile__sort() */
};

/* Returns for how many seconds the probes of a windowed run were in place. */
double profile__watched_s(const struct profile *profile);

/* A zeroed profile with a run of its own, or NULL. */
struct profile *profile__new(void);
/* Makes the profile share `run`, and drops the run that it had. */
void profile__join(struct profile *profile, struct profile_run *run);
void profile__free(struct profile *profile);
DEFINE_CLEANUP(struct profile *, cleanup_profile, profile__free)

/* --- building. All functions return 0 or -ENOMEM, unless their comment says something else. Calls
 * may come in any order, and take amortised constant time each --- */

/* Adds a stack as the kernel recorded it, leaf first. A 0 in addrs is not an address and is left
 * out. Call once per distinct stack: only profile__cut_implausible() merges equal stacks.
 * *ret_site: the site's index, valid until profile__sort(). */
int profile__add_site(struct profile *profile, const uint64_t *addrs, size_t n, bool truncated,
		      size_t *ret_site);

/* Adds thread tid, or renames it when name is not empty (NULL: no name). *ret_thread: the thread's
 * index. profile__sort() may change this index, and then corrects it in all sites. */
int profile__add_thread(struct profile *profile, uint32_t tid, const char *name,
			size_t *ret_thread);

/* Adds one live sampled allocation of `size` bytes. `site` and `thread` are the indices of the
 * stack and the thread that made it. Set interval_bytes before the call. -EINVAL: there is no such
 * index. */
int profile__add_live(struct profile *profile, size_t site, size_t thread, uint64_t size);

/* profile__add_live() for an allocation that was seen with probability p. */
int profile__add_live_seen(struct profile *profile, size_t site, size_t thread, uint64_t size,
			   double p);

/* profile__add_live() for any number of allocations, given by an estimate. */
int profile__add_live_estimate(struct profile *profile, size_t site, size_t thread,
			       const struct estimate *estimate);

/* Adds objects and bytes to what a thread holds of a site's live memory. site, thread: indices.
 * The site's own figures must include these objects and bytes already. -EINVAL as above. */
int profile__add_held(struct profile *profile, size_t site, size_t thread, double objects,
		      double bytes);

/* Adds a block to the site's blocks. -EINVAL: there is no such site. */
int profile__add_block(struct profile *profile, size_t site, uint64_t addr, uint64_t size);

/* Adds the memory that one thread allocated and one thread freed (another thread, or the same).
 * Pairs of threads may come in any order, but no pair may come twice. */
int profile__add_transfer(struct profile *profile, const struct profile_transfer *transfer);

/* Copies the text and returns the copy, which lives as long as the profile. NULL: out of memory. */
const char *profile__keep(struct profile *profile, const char *text);

/* Each of the following functions adds one element. They copy its strings, except for a counter's
 * name and a probe's kind. A NULL string becomes "", except that a NULL build_id stays NULL. If the
 * counter exists already, profile__add_lost() adds count to it. */
int profile__add_mapping(struct profile *profile, const struct profile_mapping *mapping);
int profile__add_lost(struct profile *profile, const char *static_name, uint64_t count);
/* Adds the losses of another profile. Losses of a whole run are not added up: of the two runs'
 * counts, the larger one stays. The names are not copied. */
int profile__add_losses(struct profile *profile, const struct profile *of);
/* The i-th counter of losses: first the counters of the process, then the counters of the run.
 * NULL: there are no more. */
const struct profile_counter *profile__loss(const struct profile *profile, size_t i);
int profile__add_probe(struct profile *profile, const struct profile_probe *probe);
int profile__add_file(struct profile *profile, const char *path);

/* Frees what a site owns. */
void profile_site__clear(struct profile_site *site);

/* Replaces the location's frames. The location owns the array and its strings from then on. */
void profile_location__set_frames(struct profile_location *location, struct profile_frame *frames,
				  size_t n);
/* Replaces the location's frames by one frame that has only a name. The name is copied. 0 or
 * -ENOMEM. */
int profile_location__set_name(struct profile_location *location, const char *name);

/* Returns the function that contains the location's code, not a function that is inlined there;
 * NULL until symbolized. */
static inline const char *profile_location__function(const struct profile_location *location)
{
	return location->n_frames ? location->frames[location->n_frames - 1].name : NULL;
}

/* Ends building. Sorts mappings and sets each location's mapping (the mapping that holds addr - 1).
 * Sorts locations and threads, and corrects their numbers in the sites. Sorts sites by live bytes,
 * then allocated bytes, descending; ties by addresses, so that equal input gives equal output. In
 * linear-logarithmic time. May be called again. */
int profile__sort(struct profile *profile);

/* --- arithmetic --- */

/* Cuts each incomplete stack before the first frame, counted from the leaf, that cannot be code. A
 * frame cannot be code if its addr - 1 lies in no mapping, or in a mapping that is not executable.
 * Sites that become equal are merged (estimates, totals, threads). The cut removes what a
 * frame-pointer walk collects in a program without frame pointers. The leaf and its immediate
 * caller always stay: they were read, not guessed. A location whose addr has bit 63 set cannot be
 * code either. But if `interpreted` is true, such a location is a frame of Python (bpf/abi.h), and
 * stays. Locations that no stack uses any more are removed. *ret_cut (may be NULL): number of sites
 * that lost frames. Needs profile__sort() first, and sorts again. 0 or -ENOMEM. */
int profile__cut_implausible(struct profile *profile, bool interpreted, size_t *ret_cut);

/* Is it a profile of regions? Of page faults? */
bool profile__is_regions(const struct profile *profile);
bool profile__is_faults(const struct profile *profile);
/* For a profile of regions: returns the sum of its stacks' growth, in bytes per second. Of the
 * stacks that are allocators_own, only those with unseen_pools are added. */
double profile__own_growth(const struct profile *profile);
/* Does any of its stacks surely grow? What an allocator maps for itself does not count. */
bool profile__leaks(const struct profile *profile);
/* Was it traced in windows, not all the time? */
bool profile__is_windowed(const struct profile *profile);
/* Is it known how fast the process grows? A few windows are enough to know this, but not to know
 * which stacks grow. */
bool profile__knows_process_growth(const struct profile *profile);
/* May calls be missing at any time of the run? Yes, if samples were dropped, if the kernel did not
 * run the probes' program for some calls, if the probes were taken out for a time, if no probe saw
 * some of the allocations, or if regions were not followed to the end. */
bool profile__misses_calls(const struct profile *profile);
/* Are its live bytes only a lower bound? Yes, if profile__misses_calls(), or if the probes came
 * some time after the program had begun (allocators_late). */
bool profile__is_lower_bound(const struct profile *profile);
/* Are its live bytes only an upper bound? Yes, if the probes were taken out for a time, if the
 * kernel did not run their program for some calls, if calls that give regions back may be lost, if
 * the main thread's end silenced the probes, or if memtrace records every allocation but no probe
 * saw some of the frees. For page faults the answer is always no. If profile__is_lower_bound() is
 * true as well, live bytes are neither a lower nor an upper bound. */
bool profile__is_upper_bound(const struct profile *profile);
/* If nothing is known of what the process holds, returns why it was not traced: a text for people,
 * static or owned by the profile. NULL: something is known. */
const char *profile__unknown_why(const struct profile *profile);
/* The 95 % interval of `live` in bytes. `live` is the profile's live memory, or a part of it: the
 * live memory of a stack or a component. If none of this memory was sampled, the interval begins at
 * 0 and ends at estimate__unseen(), or at 0 if the process allocated nothing. In windows the high
 * end is not known in this case, because any amount may have been missed. An end that is not known
 * is NaN: the high end of a lower bound, the low end of an upper bound, and both ends if the file
 * does not say how it was sampled. */
struct interval profile__live_interval(const struct profile *profile, const struct estimate *live);
/* Is every allocation recorded, all the time? false if the file that the profile was read from does
 * not say how it was sampled. */
bool profile__is_exact(const struct profile *profile);
/* Is it exact, was it recorded by a run (and not drawn), and does no counter say that something was
 * missed? Outputs call figures exact only then. */
bool profile__is_surely_exact(const struct profile *profile);

/* The sampling interval that was asked for; 0: not known. */
uint64_t profile__asked_interval(const struct profile *profile);

/* Were all dropped samples (profile->dropped) lost because tables had no room? */
bool profile__lacks_room(const struct profile *profile);

/* The value of the process's counter of losses with that name; 0 if there is none. */
uint64_t profile__lost_count(const struct profile *profile, const char *name);

/* Counters of what a filter has left out: whole stacks, and live bytes. A filter by thread or age
 * can leave out live bytes although all stacks are kept. */
#define LOST_FILTERED	    "filtered_stacks"
#define LOST_FILTERED_BYTES "filtered_bytes"
/* Has a filter left something out, so that the profile is only a part of the original? */
bool profile__is_filtered(const struct profile *profile);

/* profile__written() finds how large a symbolized profile is when all its stacks are written out
 * with all names, also the names of inlined functions. by_thread: each stack counts once for each
 * thread that holds some of its memory, and once more without a thread. 0 or -ENOMEM. */
struct profile_extent {
	uint64_t frames, bytes;
};
/* Real profiles stay below these limits; a hostile file may not. */
#define PROFILE_MAX_WRITTEN_FRAMES (1ULL << 26)
#define PROFILE_MAX_WRITTEN_BYTES  (1ULL << 31)
int profile__written(const struct profile *profile, bool by_thread, struct profile_extent *ret);

/* Bytes of memory that a sorted profile takes, without the allocator's overhead. Left out are the
 * resident set (`resident`), and who holds blocks (`why` of the profile and of its sites). */
size_t profile__bytes(const struct profile *profile);

/* Live memory of all sites together. A run in windows may also have continuous stretches. These may
 * be sampled much more coarsely than windows, so a stretch may by chance have missed memory that is
 * live. The fine samples of windows do not show this error. So the error of the result allows for
 * one sample of a continuous stretch. This sample stands for the bytes of one interval, or for all
 * bytes allocated in such stretches if these are fewer.
 *
 * In windows the errors of stacks differ widely. One stack may be known well, and another hardly at
 * all. The sum of all errors then puts the low end of the total near 0. But no stack holds less
 * than 0 bytes, so the total is at least the low end of each single stack. */
struct estimate profile__live(const struct profile *profile);

/* The memory that all sites together held when the process held its most. */
struct estimate profile__peak(const struct profile *profile);

/* Share of the recorded stacks that reach the start of their process or thread, per cent; NaN when
 * no stack was walked. */
double profile__stacks_complete_pct(const struct profile *profile);

/* The i-th location of the site, counted from the leaf. */
static inline const struct profile_location *profile__location(const struct profile *profile,
							       const struct profile_site *site,
							       size_t i)
{
	return &profile->locations[site->locations[i]];
}

/* Is this the name of an allocation function (malloc, calloc, operator new, xmalloc, g_malloc, ...)
 * or of a function through which a container allocates? A frame with such a name says nothing about
 * who holds the memory. The answer decides only which frames are shown. It never drops data. */
bool profile__is_allocator_frame(const char *name);
/* Are all functions of a symbolized location allocation functions? */
bool profile_location__is_allocators(const struct profile_location *location);

/* Finds a pool function of a server that got memory from malloc in one of the stacks. If there is
 * such a function, the run did not probe the pool's functions. Returns its name (static), or
 * NULL. */
const char *profile__pool_above_malloc(const struct profile *profile);

#endif
