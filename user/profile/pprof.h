/* SPDX-License-Identifier: BSD-2-Clause */
/* What the encoder and the decoder of pprof (profile.proto) agree on: the numbers of its fields,
 * and how a memtrace profile is stored in it.
 *
 * Values of a sample, all of which add up when profiles are merged:
 *
 *	alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes
 *	inuse_samples/count	live samples that were recorded: struct estimate's `samples`
 *	inuse_sampled/bytes	the sizes of these samples, added up: `sampled_bytes`
 *	inuse_variance/bytes	the variance of inuse_space, divided by the period (the sampling
 *				interval). The division makes it about as large as inuse_space
 *	growth_per_hour/bytes	0 if growth is not known (see the file's comment growth_known); may
 *				be negative. This value is always there: pprof compares and merges
 *				only profiles with the same value types
 *
 * A stack has up to one sample for each thread that holds some of its memory, with the labels
 * `thread` (the thread's name) and `tid`. One more sample without these two labels has all that
 * belongs to no thread: what was allocated and freed, growth, and numeric labels that describe the
 * stack. inuse_samples, inuse_sampled and inuse_variance are shared out among a stack's samples by
 * bytes. All samples have the labels `pid`, `comm` and `bytes` (the mean size of a block), where
 * these are known.
 *
 * Comments are lines "key: value". The keys are in pprof_facts[], or are COMMENT_ names. Readers
 * show all comments above each report, so a comment that says nothing is left out.
 *
 * Data that no other reader can use is in memtrace's own fields (enum pprof_own_field and the enums
 * after it). Their numbers begin at 1000, and readers of protobuf skip them. These fields are lost
 * when another tool rewrites the file. Real numbers in them are packed doubles, so that they are
 * not rounded. */
#ifndef MEMTRACE_PROFILE_PPROF_H
#define MEMTRACE_PROFILE_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

enum pprof_profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING_TABLE,
	PROFILE_DROP_FRAMES,
	PROFILE_KEEP_FRAMES,
	PROFILE_TIME_NANOS,
	PROFILE_DURATION_NANOS,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_SAMPLE_TYPE,
};

enum pprof_value_type_field {
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT,
};

enum pprof_sample_field {
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE,
	SAMPLE_LABEL,
};

enum pprof_label_field {
	LABEL_KEY = 1,
	LABEL_STR,
	LABEL_NUM,
	LABEL_NUM_UNIT,
};

enum pprof_mapping_field {
	MAPPING_ID = 1,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILENAME,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
};

/* LOCATION_ADDRESS is the addr of struct profile_location, minus 1. This address lies in the
 * instruction that calls. */
enum pprof_location_field {
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID,
	LOCATION_ADDRESS,
	LOCATION_LINE, /* innermost first */
};

enum pprof_line_field {
	LINE_FUNCTION_ID = 1,
	LINE_LINE,
};

enum pprof_function_field {
	FUNCTION_ID = 1,
	FUNCTION_NAME,
	FUNCTION_SYSTEM_NAME, /* of a frame whose name is not known: the reason
			       * (REASON_SYSTEM_NAME) */
	FUNCTION_FILENAME,
	FUNCTION_START_LINE,
};

/* memtrace's own fields of a profile. */
enum pprof_own_field {
	PROFILE_OWN_VERSION = 1000, /* PPROF_OWN_VERSION; older files have none of these fields */
	PROFILE_OWN_LIFE = 1001,    /* 1: struct profile_life's heights_known */
	PROFILE_OWN_THREAD = 1002,  /* a thread that is in no sample's labels */
	PROFILE_OWN_TRANSFER = 1003,
	PROFILE_OWN_RESIDENT = 1004,
	PROFILE_OWN_PROBE = 1005,
	PROFILE_OWN_NOT_TRACED = 1006, /* struct profile's not_traced: a text */
	PROFILE_OWN_WHY = 1007,
};

/* memtrace's own field of a location. */
enum pprof_own_location_field {
	LOCATION_OWN_FRAME = 1000, /* its addr, if this is PROFILE_FRAME_ADDR or higher */
};

/* memtrace's own fields of a sample. */
enum pprof_own_sample_field {
	/* how much the values up to VALUE_INUSE_VARIANCE lost by rounding: signed numbers (zigzag),
	 * packed, in units of 1 / OWN_PARTS */
	SAMPLE_OWN_REMAINDERS = 1000,
	SAMPLE_OWN_STACK = 1001, /* in a stack's sample without a thread */
};

#define OWN_PARTS      65536.0
#define OWN_REMAINDERS (VALUE_INUSE_VARIANCE + 1)

/* Fields of a stack. All fields except the last two are lists of packed doubles. A list is absent
 * if all its doubles are 0, or if the comment beside its name says so. */
enum pprof_own_stack_field {
	OWN_STACK_FREED = 1, /* objects, bytes; absent if equal to allocated minus live */
	OWN_STACK_LIFE,	  /* struct site_life: low_objects, low_bytes, high_objects, high_bytes */
	OWN_STACK_LIVING, /* by class of age */
	OWN_STACK_HALF_LIFE, /* s, low_s, high_s; may be infinite */
	OWN_STACK_PEAK,	     /* objects, bytes, if not whole numbers */
	OWN_STACK_ENDED,     /* by class of age, if not whole numbers: LABEL_FREED is rounded */
	OWN_STACK_WHY,
	/* Its sampled blocks, if blocks were asked for: pairs of signed numbers (zigzag), packed.
	 * The first number is the difference between the block's address and the address of the
	 * previous block in this list. The second number is the size. If the profile has more than
	 * ORIGINS_MAX_KNOWN blocks, its file has only this many of them, chosen evenly. */
	OWN_STACK_BLOCKS,
};

/* struct site_why */
enum pprof_own_site_why_field {
	OWN_SITE_WHY_HELD = 1, /* `asked` is the sum of the first four */
	OWN_SITE_WHY_LOST,
	OWN_SITE_WHY_IN_DOUBT,
	OWN_SITE_WHY_GONE,
	OWN_SITE_WHY_FOLLOWED,
	OWN_SITE_WHY_HOLDER, /* in order */
};

/* struct site_holder */
enum pprof_own_holder_field {
	OWN_HOLDER_PATH = 1, /* a text */
	OWN_HOLDER_BLOCKS,
};

/* struct profile_why */
enum pprof_own_why_field {
	OWN_WHY_FAILED = 1, /* texts */
	OWN_WHY_DOUBT,
	OWN_WHY_SCANS,
	OWN_WHY_SECONDS, /* a double */
	OWN_WHY_NO_REGISTERS,
};

/* Raised when a field changes its meaning, not when a field is added. */
#define PPROF_OWN_VERSION 1

enum pprof_own_thread_field {
	OWN_THREAD_TID = 1,
	OWN_THREAD_NAME, /* a text */
};

/* struct profile_transfer */
enum pprof_own_transfer_field {
	OWN_TRANSFER_OWNER = 1,
	OWN_TRANSFER_FREER,
	OWN_TRANSFER_SAMPLES,
	OWN_TRANSFER_AMOUNT, /* doubles: objects, bytes */
};

/* struct resident */
enum pprof_own_resident_field {
	OWN_RESIDENT_VMRSS = 1, /* bytes */
	OWN_RESIDENT_SWAP,
	OWN_RESIDENT_HUGE,
	OWN_RESIDENT_HUGETLB,
	OWN_RESIDENT_HEAP_SPLIT, /* flags */
	OWN_RESIDENT_HEAP_WINDOWED,
	OWN_RESIDENT_FROM_START,
	OWN_RESIDENT_FOLLOWED,
	OWN_RESIDENT_FOLLOWED_S, /* a double */
	OWN_RESIDENT_SKIPPED,
	OWN_RESIDENT_ROW, /* in order; readers compute the sums from the rows */
	OWN_RESIDENT_CENSUS,
	OWN_RESIDENT_CENSUS_FAILED, /* a text */
};

/* struct heap_slack, in bytes */
enum pprof_own_slack_field {
	OWN_SLACK_PAGES = 1,
	OWN_SLACK_LIVE,
	OWN_SLACK_WHOLE_FREE,
	OWN_SLACK_TRIMMABLE,
	OWN_SLACK_FREE,
	OWN_SLACK_CACHED,
};

enum pprof_own_resident_row_field {
	OWN_ROW_KIND = 1, /* a text: resident_kind__name() */
	OWN_ROW_NAME,	  /* a text */
	OWN_ROW_BYTES,	  /* with a sign (zigzag) */
	OWN_ROW_INTERVAL, /* doubles: low, high; NaN: not known */
	OWN_ROW_ANONYMOUS,
	OWN_ROW_SWAP,
	OWN_ROW_MAPPINGS,
};

/* struct profile_probe. Texts are indices in the table of strings */
enum pprof_own_probe_field {
	OWN_PROBE_FUNCTION = 1, /* texts */
	OWN_PROBE_OBJECT,
	OWN_PROBE_INSTRUCTION,
	OWN_PROBE_KIND,
	OWN_PROBE_OFFSET,
	OWN_PROBE_EMULATED,
	OWN_PROBE_COST_NS, /* a double */
};

/* Protobuf's wire types: the low three bits of a field's tag. */
enum protobuf_wire {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5,
};

enum pprof_value {
	VALUE_ALLOC_OBJECTS,
	VALUE_ALLOC_SPACE,
	VALUE_INUSE_OBJECTS,
	VALUE_INUSE_SPACE,
	VALUE_INUSE_SAMPLES,
	VALUE_INUSE_SAMPLED,
	VALUE_INUSE_VARIANCE,
	VALUE_GROWTH,
	VALUES
};

extern const struct pprof_value_name {
	const char *type, *unit;
} pprof_values[VALUES];

/* Type and unit of PROFILE_PERIOD, which is the sampling interval. */
#define PERIOD_TYPE "space"
#define PERIOD_UNIT "bytes"

#define PER_HOUR 3600.0 /* growth: per second in a profile, per hour in its file */
#define PPM	 1e6	/* shares: parts of one in a profile, of a million in its file */

#define DELETED_SUFFIX	   " (deleted)" /* of a mapping's filename, as the kernel shows it */
#define REASON_SYSTEM_NAME "[%s]"	/* unresolved_reason__name(): FUNCTION_SYSTEM_NAME */

/* Labels of any sample; other tools write them, too. */
#define LABEL_THREAD "thread" /* its name */
#define LABEL_TID    "tid"
#define LABEL_PID    "pid"
#define LABEL_COMM   "comm"
#define LABEL_BYTES  "bytes" /* the mean size of a block */

/* Numeric labels of a stack's sample without a thread. */
#define LABEL_INCOMPLETE     "stack_incomplete"	      /* 1: the stack does not reach the start */
#define LABEL_TRUNCATED	     "stack_truncated"	      /* 1: more callers exist */
#define LABEL_ALLOCATORS_OWN "allocators_own"	      /* 1: regions for the heap */
#define LABEL_LARGEST	     "largest_sample"	      /* bytes: sqrt(variance_max) */
#define LABEL_COMMON	     "common_error"	      /* bytes: common, of windows */
#define LABEL_MOST	     "live_at_most"	      /* bytes: most */
#define LABEL_LEAST	     "live_at_least"	      /* bytes: least */
#define LABEL_ALLOC_ERROR    "allocated_error"	      /* bytes: sqrt(alloc_variance), of windows */
#define LABEL_ALLOC_COMMON   "allocated_common_error" /* bytes: alloc_common */
#define LABEL_SQUARES	     "root_of_squares" /* bytes: sqrt(squares), if sizes of blocks differ */
#define LABEL_GROWTH_LOW     "growth_per_hour_low" /* bytes; the interval's ends */
#define LABEL_GROWTH_HIGH    "growth_per_hour_high"
#define LABEL_REPLACES	     "growth_replaces" /* 1: struct profile_site.replaces */
#define LABEL_PEAK_OBJECTS   "peak_objects"    /* held by all threads when the process held most */
#define LABEL_PEAK_SPACE     "peak_space"      /* the bytes of these objects */
/* followed by profile_age__name(): objects freed at an age of that class */
#define LABEL_FREED    "freed_aged_"
#define LABEL_SURVIVAL "survival_%gs_ppm" /* by age: the share still live, parts of a million */

#define LABEL_OLDER "older_%gs_ppm" /* share of live memory that is older than this age */

/* Comments besides pprof_facts[]. */
#define COMMENT_WHAT	 "what"	    /* heap, regions or faults (in older files growth) */
#define COMMENT_MODE	 "mode"	    /* continuous or windowed */
#define COMMENT_DRAWN	 "drawn"    /* paths, origins or census */
#define COMMENT_PART	 "interval" /* live or change: the file is of a part of a run */
#define COMMENT_COMM	 "comm"
#define COMMENT_EXE	 "exe"
#define COMMENT_REFUSED	 "refused"	       /* functions that could not be probed, in words */
#define COMMENT_SURVIVAL "survival_age_s"      /* ages, with blanks between them */
#define COMMENT_KIND	 "live_bytes_of_kind_" /* followed by region_memory__name() */
#define COMMENT_LOST	 "lost_"	       /* followed by the name of a counter above 0 */
#define COMMENT_RUN_LOST "lost_by_run_"	       /* the same, for losses of the whole run */
/* followed by the rule's name (profile/contradictions.h): a sentence */
#define COMMENT_CONTRADICTION "contradiction_"

enum pprof_fact_type {
	FACT_UINT64,
	FACT_UINT32,
	FACT_INT, /* 0 or more */
	FACT_BOOL,
	FACT_REAL,	      /* 0 or more */
	FACT_SIGNED,	      /* real */
	FACT_OPTIONAL,	      /* struct optional, 0 or more */
	FACT_OPTIONAL_SIGNED, /* struct optional */
};

/* Which profiles have a fact. */
enum pprof_fact_of {
	FACT_OF_ANY,
	FACT_OF_GROWING,	/* profiles with growth.stacks_known */
	FACT_OF_PROCESS_GROWTH, /* the same, and profiles with profile__knows_process_growth() */
	FACT_OF_WINDOWED,
	FACT_OF_REGIONS,
	FACT_OF_FAULTS,	   /* what: faults */
	FACT_OF_HOST_COST, /* profiles whose run has cost.host_known */
};

/* A member of a profile, or of its run, that is written as a comment. */
struct pprof_fact {
	const char *key;
	enum pprof_fact_type type;
	enum pprof_fact_of of;
	bool of_run;
	size_t offset; /* in struct profile_run or struct profile */
	double absent; /* value that means "not known", and is not written; may be NaN */
};

extern const struct pprof_fact pprof_facts[];
extern const size_t n_pprof_facts;

/* Returns the address of a fact in the profile or its run. Callers that may change the profile may
 * write to this address. */
void *pprof_fact__at(const struct pprof_fact *fact, const struct profile *profile);
/* The value of a fact; NaN: it is not known. A FACT_UINT64 may lose digits. */
double pprof_fact__get(const struct pprof_fact *fact, const struct profile *profile);
/* Does this profile lack the fact? */
bool pprof_fact__is_absent(const struct pprof_fact *fact, const struct profile *profile);

/* Sets every fact of a new profile, which is read from a file, to its absent value. */
void pprof_facts__clear(struct profile *profile);

#endif
