/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The types that the kernel side and the user side share. This is the only header that both sides
 * include. Types have fixed widths and explicit padding, and hold no pointers. Every map key and
 * value that user space reads or writes is defined here. */
#ifndef MEMTRACE_BPF_ABI_H
#define MEMTRACE_BPF_ABI_H

#include <linux/types.h>

#define ABI_STACK_FRAMES   127		/* addresses per stack, the allocator function included */
#define ABI_MAX_FUNCS	   4096		/* probed functions at a time, in all files */
#define ABI_MAX_OBJECTS	   256		/* allocators at a time, in all files: abi_func.object */
#define ABI_MAX_INNER	   24		/* return addresses in one allocator: abi_object.inner */
#define ABI_MAX_OUTER	   72		/* function bodies of one allocator: abi_object.outer */
#define ABI_MAX_INTERVAL   (1ULL << 32) /* bytes; the fixed-point arithmetic allows no more */
#define ABI_COMM_LEN	   16		/* TASK_COMM_LEN */
#define ABI_COSTS	   16		/* cost classes of probes: abi_func.cost */
#define ABI_MAX_WANTED	   16		/* names or users that select processes */
#define ABI_MAX_MAPPINGS   1024		/* executable mappings of a process; a power of two */
#define ABI_CHUNK_ROWS	   2048		/* unwind rows per chunk; a power of two */
#define ABI_MAX_TABLES	   4096		/* unwind tables, one per binary */
#define ABI_MAX_FILE_PARTS 16384	/* mapped parts of files, each with its unwind table */
#define ABI_NO_WINDOW	   (~0ULL)
#define ABI_AGES	   10	    /* age classes of freed blocks */
#define ABI_AGE_NS	   10000ULL /* the first age class ends at 10 us */
#define ABI_MAX_MARKERS	   256	    /* markers at a time, in all files: abi_func.marker */
#define ABI_MAX_POOLS	   16384    /* pools with sampled blocks, at a time */
#define ABI_MAX_POOLED	   65536    /* sampled blocks in pools, at a time */
/* Stack buffers per CPU. On a preemptible kernel, a task may lose the CPU while it walks its stack.
 * The task keeps its buffer, so the next task on this CPU needs another one. ABI_SCRATCH_EXACT is
 * for runs in which each call is a sample: there, tasks walk stacks half of the time. */
#define ABI_SCRATCH	  4
#define ABI_SCRATCH_EXACT 16

/* Losses and oddities, in one list for the kernel side and the user side: X(enumerator, name, what
 * it means). */
#define ABI_LOST_COUNTERS(X)                                                                       \
	X(LIVE_FULL, "live_full", "sample dropped: the table of live blocks is full")              \
	X(NO_MEMORY, "no_memory", "sample dropped: the kernel had no memory for it")               \
	X(STACKS_FULL, "stacks_full", "sample dropped: the stack store is full")                   \
	X(SITES_FULL, "sites_full", "sample dropped: the site table is full")                      \
	X(INFLIGHT_FULL, "inflight_full", "sample dropped: too many calls under way")              \
	X(SCRATCH_BUSY, "scratch_busy", "sample dropped: no stack buffer free on this CPU")        \
	X(RESULT_FAULT, "result_unreadable", "sample dropped: stack or result could not be read")  \
	X(RESULT_UNKNOWN, "result_unknown",                                                        \
	  "sample dropped: the function may throw, and its ret instructions are not known")        \
	X(STACK_TRUNCATED, "stacks_truncated", "stack cut at the limit of frames")                 \
	X(FREED_UNOBSERVED, "freed_unobserved",                                                    \
	  "block proven dead by a new one at its address; its free was not seen")                  \
	X(DROPPED_BY_EXEC, "dropped_by_exec", "block of a program that exec replaced")             \
	X(THREADS_FULL, "thread_names_full", "thread name not recorded")                           \
	X(TRANSFERS_FULL, "thread_pairs_full",                                                     \
	  "birth or free of a block not recorded for its pair of threads (owner, freer)")          \
	X(POOLED, "pooled_lost",                                                                   \
	  "block not recorded as a block of its pool: it seems live after the pool's end")         \
	X(OUTER_CALLS, "outer_calls_lost",                                                         \
	  "call not noted that may call another probed function: both may be counted")             \
	X(REGION_CALLS, "region_calls_lost",                                                       \
	  "call of mmap, munmap, mremap or brk not recorded: no room for it")

enum abi_lost {
#define X(id, name, text) LOST_##id,
	ABI_LOST_COUNTERS(X)
#undef X
		LOST_MAX
};

/* What a probed function does, and with which of its arguments. Below, `size`, `count`, `ptr`,
 * `out` and `pool` are the arguments whose numbers are in abi_func.size_arg, count_arg, ptr_arg,
 * out_arg and pool_arg. Numbers 1 to 6 are the arguments of the calling convention. Numbers 7 to 15
 * are the registers rax, r10, r11, rbx, r12 to r15 and rbp. Some functions move an argument into
 * such a register before the probe is reached. 0: the function has no such argument. */
enum abi_role {
	ROLE_ALLOC = 1,	 /* new block of size [* count] bytes; its address is in rax, or *out */
	ROLE_REALLOC,	 /* block ptr gets size [* count] bytes; its new address: rax, or *out */
	ROLE_TAKEN,	 /* not a function, but a place in a function's code (pymalloc): block ptr
			  * has just been taken from pool */
	ROLE_MARK_ALLOC, /* a marker: the target has sampled a new block */
	ROLE_FREE,	 /* frees block ptr */
	ROLE_MARK_FREE,	 /* a marker: a block that the target had sampled is freed */
	ROLE_POOL_END,	 /* pool ptr ends, and all blocks that were taken from it end, too */
	ROLE_POOL_FREE,	 /* like ROLE_POOL_END; also frees the pool, which is itself a block */
	ROLE_POOL_LEFT,	 /* pool ptr ends, and its blocks stay */
};

/* Returns true for the roles of functions that make no block. The return of such a function is not
 * awaited. */
static inline int abi_role__frees(__u8 role)
{
	return role >= ROLE_FREE;
}

/* Is this the role of a marker? At a marker, the target reports its own samples. */
static inline int abi_role__is_marker(__u8 role)
{
	return role == ROLE_MARK_ALLOC || role == ROLE_MARK_FREE;
}

#define WRAPS_AWAITED 1 /* abi_func.wraps: the return of each call is awaited */
/* abi_func.wraps: returns are not awaited. The stack of a sample shows whether the sample was taken
 * inside a call of the function. This needs a stack of native frames. */
#define WRAPS_BY_STACK 2

#define OUTER_DIRECT 1 /* abi_func.outer: the function calls or jumps to another probed function */
/* abi_func.outer: any code of the function's library may do so (abi_object.text_...) */
#define OUTER_WITHIN 2

/* One probed function; its index in the table is the probe's attach cookie. */
struct abi_func {
	__u8 role;
	__u8 size_arg;
	__u8 count_arg; /* size is size_arg * count_arg, checked for overflow */
	__u8 ptr_arg;
	__u8 out_arg; /* posix_memalign: where the result is stored, valid when rax is 0 */
	__u8 cost;    /* cost class of a hit: index in abi_process_cpu.calls; set by user space */
	__u8 object;  /* index of the struct abi_object of the function's allocator */
	/* OUTER_...: the function may hand its call over to another probed function. A freeing
	 * function has one of these values, too, if such a function may call it */
	__u8 outer;
	__u32 delta;   /* bytes from the function's entry to the probe */
	__u8 in_place; /* xallocx: the block never moves. rax is its new size. The call has
			* succeeded if rax is at least the size asked for */
	__u8 exits;    /* the function may throw: its ret instructions are probed, not its return */
	__u8 blind;    /* the function may throw, and its ret instructions are not known */
	/* WRAPS_...: the function belongs to an allocator on top of other allocators. While the
	 * function runs, calls of the other allocators are not counted */
	__u8 wraps;
	__u8 pool_arg;	/* number of the argument that is the block's pool */
	__u8 pool_word; /* the word in front of the block tells its pool: ABI_POOL_... */
	/* bytes that a new pool takes for itself; they are added to the size. If size_arg is 0: the
	 * size of each block that the function makes */
	__u16 own;
	__u16 marker; /* ROLE_MARK_...: index of its struct abi_marker; set by user space */
	/* A thread takes all its blocks from one pool, so the function has no argument for the
	 * pool. */
	__u8 pool_thread;
	__u8 pooled; /* the function's blocks end at the latest when their pool ends; set by user
		      * space */
	__u64 vaddr; /* ELF virtual address of the function's entry */
};

/* Where a marker's argument is when the marker is reached. */
enum abi_place_kind {
	PLACE_CONSTANT = 1, /* the number `value` */
	PLACE_REGISTER,	    /* in the register `base` */
	PLACE_MEMORY,	    /* in memory at base + (index << shift) + value */
};

struct abi_place {
	__s64 value;
	__u8 kind; /* enum abi_place_kind; 0: the marker has no such argument */
	/* registers, numbered like the arguments of struct abi_func; 16 is rsp; 0: none */
	__u8 base, index;
	__u8 shift;	/* 0 to 3 */
	__u8 bytes;	/* 1, 2, 4 or 8 */
	__u8 is_signed; /* a number of less than 8 bytes is widened with its sign */
	__u8 pad[2];
};

/* A marker: a place in the target's code where the target reports its own samples. */
struct abi_marker {
	struct abi_place ptr;	   /* the block's address */
	struct abi_place size;	   /* ROLE_MARK_ALLOC: bytes as requested */
	struct abi_place weighted; /* ROLE_MARK_ALLOC: bytes that the sample stands for */
};

struct abi_range {
	__u64 start, end; /* end exclusive */
};

/* How to recognize calls that an allocator makes to itself. For example, a realloc that moves its
 * block calls malloc. Such an inner call must not be counted again. All values are ELF virtual
 * addresses of one file. */
struct abi_object {
	__u32 n_inner, n_outer;
	__u64 text_start, text_end; /* code of a library that is nothing but an allocator; else 0 */
	__u64 low, high;	    /* a range that holds all addresses in inner and outer; low >
				     * high: both are empty */
	__u64 inner[ABI_MAX_INNER]; /* return addresses of the allocator's direct calls to a probed
						* function */
	struct abi_range outer[ABI_MAX_OUTER]; /* bodies of functions with abi_func.outer */
	__u32 header; /* 1: each block's size stands in front of the block, as in glibc */
	__u32 pad;
};

/* The key of a stack: 128 bits of a hash, which is keyed with a secret of this run of memtrace. Two
 * stacks do not share a key by chance (probability 2^-64 with 2^32 stacks). The target cannot make
 * two stacks share a key, because it cannot see the secret. */
struct abi_stack_key {
	__u64 lo, hi;
};

/* Why the walk of a stack ended: X(enumerator, name). Only COMPLETE means that the walk reached the
 * stack's outermost frame. */
#define ABI_STACK_ENDS(X)                                                                          \
	X(COMPLETE, "complete")		    /* the start of a process, thread or coroutine */      \
	X(TRUNCATED, "truncated")	    /* the limit of frames */                              \
	X(NO_MAPPING, "no_mapping")	    /* code in no known mapping: JIT, just mapped */       \
	X(NO_TABLE, "no_table")		    /* the table of its file is not loaded (yet) */        \
	X(NO_RULE, "no_rule")		    /* the code has no unwind information */               \
	X(BAD_RULE, "bad_rule")		    /* its information does not fit into a table */        \
	X(UNREADABLE, "unreadable")	    /* the stack's memory could not be read */             \
	X(NO_PROGRESS, "no_progress")	    /* the next frame is not above this one */             \
	X(FRAME_POINTERS, "frame_pointers") /* the chain of frame pointers ended */

enum abi_stack_end {
#define X(id, name) STACK_END_##id,
	ABI_STACK_ENDS(X)
#undef X
		STACK_END_MAX
};

/* A flag beside the reason in abi_stack.end: the walk has followed frame pointers through code that
 * has no unwind information. Some such code keeps frame pointers (V8's), some does not (LLVM's
 * JIT). The walk cannot tell which does, so a caller may be missing. */
#define STACK_BRIDGED 0x100

struct abi_stack {
	__u32 n;   /* addresses in ip */
	__u32 end; /* enum abi_stack_end, and STACK_BRIDGED */
	/* leaf first: allocator entry + 1, then return addresses, and frames of Python */
	__u64 ip[ABI_STACK_FRAMES];
};

/* How to find the frames of CPython in a process. Offsets are in bytes. */
struct abi_python {
	__u64 eval_start, eval_end; /* addresses of the function that interprets Python's code */
	__u64 cold_start, cold_end; /* addresses of this function's rarely executed part */
	/* address of a pointer, which points to the state of the thread that holds the
	 * interpreter's lock; 0: this version of Python has no such pointer */
	__u64 current;
	__u64 interpreter; /* address of the pointer to the main interpreter */
	/* address of the type of frames, which are objects up to Python 3.10; 0: frames are not
	 * objects */
	__u64 frame_type;
	__u16 threads; /* offset, in the interpreter's state, of the pointer to the first thread's
			* state */
	/* offsets in a thread's state: */
	__u16 next;	    /* pointer to the next thread's state */
	__u16 thread_id;    /* pthread_self() */
	__u16 frame;	    /* pointer to the innermost frame; if through_cframe: to a cframe */
	__u16 cframe_frame; /* offset, in a cframe, of the pointer to the innermost frame */
	/* offsets in a frame: */
	__u16 code;	   /* pointer to the code object */
	__u16 previous;	   /* pointer to the caller's frame */
	__u16 instruction; /* pointer to the instruction being executed; in a frame that is an
			    * object: the instruction's index */
	__u16 last;	   /* a byte. One native frame interprets several frames; in the last of
			    * these the byte has the value `last_value` */
	/* a byte that is 0xff if the frame has called native code, not Python; 0: there is no such
	 * byte, and `last` alone shows the last frame */
	__u16 depth;
	__u16 instructions; /* offset, in a code object, of the first instruction */
	__u8 last_value;
	__u8 last_is_empty; /* the frame with `last_value` belongs to no function */
	__u8 through_cframe;
	__u8 frame_bytes; /* how many bytes of a frame are read: less than 128 */
	__u8 index_shift; /* f_lasti, shifted right by this, is the instruction's number */
	__u8 pad[5];
};

/* In a stack, a frame of Python stands in place of an address. Bit 63 of the frame is set; no
 * address of a process has this bit. The lowest 20 bits are the number of the instruction being
 * executed. The bits between are the address of the frame's code object, divided by 16. */
#define ABI_PYTHON_FRAME   (1ULL << 63)
#define ABI_PYTHON_UNKNOWN 0xfffffULL /* the instruction's number is not known */

static inline __u64 abi_python_frame(__u64 code, __u64 instruction)
{
	return ABI_PYTHON_FRAME | code >> 4 << 20 | instruction;
}

static inline __u64 abi_python_code(__u64 frame)
{
	return (frame & ~ABI_PYTHON_FRAME) >> 20 << 4;
}

/* One executable mapping of a process and how to unwind there. */
struct abi_mapping {
	__u64 start, end; /* run-time addresses; in an unused entry, start is 1 << 62 */
	__u64 bias;	  /* run-time address - bias = pc in the unwind table */
	__u32 table;	  /* number of its unwind table; 0: none */
	__u32 pad;
};

struct abi_mappings {
	struct abi_mapping entries[ABI_MAX_MAPPINGS]; /* ascending by start */
};

/* A program's file, or a library's. */
struct abi_file {
	__u64 inode;
	__u32 dev; /* as the kernel has it: major << 20 | minor */
	__u32 pad;
};

/* Question and answer of real_file() in files.bpf.c. */
struct abi_real_file {
	__u64 addr;	      /* an address in a mapping of the asking process */
	struct abi_file file; /* the file whose pages are mapped there; inode 0: unknown */
};

/* A program's file as an exec found it. Later the file may have another path, or its inode number
 * may belong to another file. In both cases the time of change (ctime) differs, with one exception:
 * another file takes the inode number within a tick of the clock. Then the generation differs. */
struct abi_program {
	struct abi_file file;
	__u64 changed_s; /* ctime */
	__u32 changed_ns;
	__u32 generation; /* 0 where the file system has none */
};

/* User space's verdict on a file: does it fit --exe? The verdict is valid while the file has this
 * ctime and generation. */
struct abi_verdict {
	__u64 changed_s;
	__u32 changed_ns;
	__u32 generation;
	__u32 wanted;
	__u32 pad;
};

/* A mapped part of a file. It begins at page `page` of the file. */
struct abi_file_part {
	struct abi_file file;
	__u64 page;
};

/* The unwind table of a part of a file. It is valid until the file changes. */
struct abi_file_table {
	__u64 size;	 /* the file's size, bytes */
	__u64 changed_s; /* the file's time of change (ctime), which nobody can set */
	__u32 changed_ns;
	__u32 number; /* the table's number */
	__u64 shift;  /* address - start of the mapping + shift = pc in the table, modulo 2^64 */
};

/* A chunk of an unwind table. Its rows are as in user/elf/unwind.h, ascending by pc. Unused rows
 * have pc ~0. Chunk 0 is the table's index: the pc of row i in chunk 0 is the first pc of chunk i +
 * 1. */
struct abi_unwind_chunk {
	struct {
		__u32 pc, rule;
	} rows[ABI_CHUNK_ROWS];
};

/* Kinds of rule: enum unwind_kind of user/elf/unwind.h, in the same order. */
enum abi_unwind_kind {
	ABI_UNWIND_NONE,
	ABI_UNWIND_SP,
	ABI_UNWIND_BP,
	ABI_UNWIND_PLT,
	ABI_UNWIND_SIGNAL,
	ABI_UNWIND_END,
	ABI_UNWIND_BAD,
	ABI_UNWIND_GO,
};

/* A site is a stack in one process. */
struct abi_site_key {
	struct abi_stack_key stack;
	__u32 process; /* struct abi_process's id */
	__u32 pad;
};

/* Sums over the samples of a site. A sample has z bytes, and was taken with probability p. It
 * counts as 1/p objects (16 binary places) and z/p bytes (rounded to whole bytes). */
struct abi_site {
	__u64 alloc_samples, freed_samples;
	__u64 alloc_objects_q16, freed_objects_q16;
	__u64 alloc_bytes, freed_bytes;
	/* Samples of reallocs whose growth is known, and the sum of these growths, weighted like
	 * bytes. A block that shrinks counts as negative growth: two's complement. */
	__u64 grown_samples, grown_bytes;
	/* Samples whose birth and end were seen in the same window. The end: realloc replaced the
	 * block (moved), or it was freed (ended). */
	__u64 moved_samples, ended_samples;
	/* The most that the site ever held. CPUs that raise these values at the same time may
	 * overtake each other. At worst the values are a little too low. */
	__u64 high_objects_q16, high_bytes;
	/* Objects whose end was seen, by their age at that end. Class i holds ages up to ABI_AGE_NS
	 * times 10^i. The last class holds all higher ages. */
	__u64 ended_objects_q16[ABI_AGES];
	/* What the site held at peak number peak_n of the process: abi_site__at_peak(). */
	__u64 peak_n, peak_objects_q16, peak_bytes;
	/* What the site held at the last exec. The exec removed these blocks without frees. The
	 * values are noted at the site's first change after the exec: abi_site__gone(). */
	__u64 gone_objects_q16, gone_bytes;
};

/* What a process holds, the most that it has held, and when that was (bpf/peak.bpf.h). Estimates,
 * as in struct abi_site. */
struct abi_peak {
	__u64 live_bytes; /* bytes that the process holds now; two's complement */
	__u64 bytes;	  /* the most bytes that it has held */
	__u64 time_ns;	  /* time at which the process held the most, CLOCK_MONOTONIC; 0: it never
			   * held anything */
	/* number of peaks so far; each peak is higher than the one before. An exec also adds 1, and
	 * the peaks begin anew */
	__u64 n;
	/* `n` just after the last exec; 0: there was no exec. If abi_site.peak_n is lower, the
	 * site has not changed since, and all that it held belongs to the program before the
	 * exec. */
	__u64 base;
};

/* Tells how many of the site's objects and bytes an exec has removed without frees. */
static inline void abi_site__gone(const struct abi_site *site, const struct abi_peak *peak,
				  __u64 *ret_objects_q16, __u64 *ret_bytes)
{
	int changed = site->peak_n >= peak->base;

	*ret_objects_q16 = changed ? site->gone_objects_q16
				   : site->alloc_objects_q16 - site->freed_objects_q16;
	*ret_bytes = changed ? site->gone_bytes : site->alloc_bytes - site->freed_bytes;
}

/* Tells what the site held when the process held most. */
static inline void abi_site__at_peak(const struct abi_site *site, const struct abi_peak *peak,
				     __u64 *ret_objects_q16, __u64 *ret_bytes)
{
	*ret_objects_q16 = *ret_bytes = 0;
	if (site->peak_n < peak->base)
		return;
	if (site->peak_n >= peak->n) { /* peak_n is above n if *site was read later than *peak */
		*ret_objects_q16 = site->peak_objects_q16;
		*ret_bytes = site->peak_bytes;
	} else {
		*ret_objects_q16 =
			site->alloc_objects_q16 - site->freed_objects_q16 - site->gone_objects_q16;
		*ret_bytes = site->alloc_bytes - site->freed_bytes - site->gone_bytes;
	}
	if ((__s64)*ret_bytes < 0 || (__s64)*ret_objects_q16 < 0)
		*ret_objects_q16 = *ret_bytes = 0;
}

/* The key stands for the blocks that the thread `owner` allocated and the thread `freer` freed. The
 * two may be the same thread. If `freer` is 0: all blocks that `owner` allocated. The values are
 * sums over samples, as in struct abi_site. */
struct abi_transfer_key {
	__u32 process;
	__u32 owner, freer; /* tids */
	__u32 pad;
};

struct abi_transfer {
	__u64 samples, objects_q16, bytes;
};

struct abi_live_key {
	__u64 addr;
	__u32 process;
	__u32 pad;
};

/* A filter for addresses that may be tracked blocks. For each hash of a key, it counts the blocks
 * in the live table. bpf/filter.bpf.h says how the counters are kept. */
#define ABI_FILTER_BITS	 16
#define ABI_FILTER_SLOTS (1U << ABI_FILTER_BITS)

static inline __u32 abi_filter_slot(const struct abi_live_key *key)
{
	/* Blocks stand at regular distances. If a single multiplication made their hashes, the
	 * hashes would have regular distances, too. At some distances the hashes would hit few of
	 * the counters. */
	__u64 hash = (key->addr + key->process * 0xd1b54a32d192ed03ULL) * 0x9e3779b97f4a7c15ULL;

	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
	return (__u32)(hash >> (64 - ABI_FILTER_BITS));
}

enum abi_birth {
	BIRTH_NEW,     /* all bytes of the block are new. Also the value after a realloc, if
			* abi_process.window_ns is 0 */
	BIRTH_GROWN,   /* made by realloc: `grown` of its bytes are new */
	BIRTH_UNKNOWN, /* made by realloc: the old size is not known */
	BIRTH_ENDED,   /* the block was freed or moved, but its address stays watched:
			* abi_process.watch */
};

struct abi_live {
	__u64 size;	/* as requested, bytes */
	__u64 interval; /* sampling interval at its birth: mean bytes between samples */
	__u64 birth_ns; /* CLOCK_MONOTONIC */
	struct abi_stack_key stack;
	__u32 tid;
	__u32 birth; /* enum abi_birth */
	/* BIRTH_GROWN: by how many bytes this block is larger than the block that it replaced;
	 * never below -size. BIRTH_ENDED: the part of a window in which a free at its address was
	 * last reported (abi_process.part); 0: no free was reported in a window. */
	__s64 grown;
};

/* A pool. The key is its process and address: struct abi_live_key. */
struct abi_pool {
	__u64 number; /* unique in this run of memtrace, from 1 */
	__u64 first;  /* address of the first block in its list; 0: the list is empty */
	/* Address of a block. The ends of this block and of all blocks after it in the list were
	 * reported in the part of a window that told_in names. 0: no end was reported. */
	__u64 told;
	__s64 told_in;
	__u32 busy; /* lock of the pool's list; 1: taken */
	__u32 pad;
};

/* A sampled block of a pool. */
struct abi_pooled {
	__u64 pool, number;  /* address and number of the block's pool */
	__u64 before, after; /* addresses of its neighbours in the pool's list; 0: none */
};

/* What was seen at the address of a sampled block while its process is traced in windows. The
 * ledger needs each event with its time (user/ledger/survivors.h). */
enum abi_end_kind {
	END_FREED = 1, /* the block was freed */
	END_MOVED,     /* realloc has replaced the block by another one, at the same or another
			* address, or has freed it */
	END_UNSEEN,    /* a new sampled block is at the block's address: the free of the old block
			* was not seen */
	END_AGAIN,     /* a later block at the block's address was freed: reported once per part of
			* a window (abi_process.part) */
};

struct abi_end {
	struct abi_live block; /* the sampled block that is, or was, at addr */
	__u64 addr;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 process;
	__u32 kind; /* enum abi_end_kind */
};

/* The key of a call between its entry and its return. It holds the thread and the stack pointer, so
 * that nested calls do not overwrite each other. */
struct abi_inflight_key {
	__u64 sp; /* stack pointer at entry: it points to the return address */
	__u32 tid;
	__u32 pad;
};

/* Values of abi_func.pool_word: what the word in front of a block is. ABI_POOL_WORD: the address of
 * the block's pool. ABI_POOL_CHUNK: a header of PostgreSQL 16 or later (chunk.bpf.h). No pool has
 * the address 1 or 2. */
#define ABI_POOL_WORD	1ULL
#define ABI_POOL_CHUNK	2ULL
#define ABI_POOL_THREAD (1ULL << 63) /* plus a tid: pool of this thread; no address has this bit */

struct abi_inflight {
	struct abi_stack_key stack;
	struct abi_live old; /* the block being reallocated, taken out of the live table */
	__u64 old_addr;	     /* 0: the block was not tracked */
	__u64 size;
	/* size of the old block, bytes; 0: it was not looked up, or is not known */
	__u64 had;
	/* pool that the new block is taken from; 0: none; ABI_POOL_WORD, ABI_POOL_CHUNK: see
	 * abi_func.pool_word; ABI_POOL_THREAD with a tid: see abi_func.pool_thread */
	__u64 pool;
	__u64 out;	/* posix_memalign: address of the result */
	__u64 in_place; /* xallocx: address of the block */
	__u64 ret;	/* return address, if the function may throw; else 0 */
	__u64 interval; /* the interval that the sample was drawn with; the process's interval may
			 * change while the call runs */
	__u32 sampled;	/* the new block is a sample */
	__u32 process;
	__u32 birth;  /* enum abi_birth */
	__u32 header; /* `had` was read from the old block's header: compare it with the size in the
		       * new block's header */
};

/* A call that takes memory from the kernel or gives it back, as reported to user space. */
enum abi_region_kind {
	REGION_MMAP = 1,
	REGION_MUNMAP,
	REGION_MREMAP,
	REGION_BRK,
};

struct abi_region_call {
	__u32 kind; /* enum abi_region_kind */
	__u32 process, tid;
	__u32 pad;
	/* what is mapped after the call (brk: addr is the new break); munmap: what the call
	 * unmapped */
	__u64 addr, len;
	/* mremap: what was mapped before; brk: old_addr is the old break */
	__u64 old_addr, old_len;
	__u64 flags;		 /* as given to mmap or mremap */
	__u64 entry_ns, exit_ns; /* CLOCK_MONOTONIC */
	/* all zero: no stack. The call only gives memory back, or its stack was lost (counted). */
	struct abi_stack_key stack;
};

/* What memtrace notes about a process. The kernel keeps this struct with the main thread's task. So
 * the struct comes and goes with the process, and a later process with the same pid does not
 * inherit it. */
struct abi_process {
	/* unique in this run of memtrace, from 1; its low bits are the process's row of counters
	 * (maps.bpf.h) */
	__u32 id;
	__u32 borrowed; /* a child of vfork, or of clone() with CLONE_VM: until its exec it runs in
			 * its parent's memory and has its parent's id */
	__u64 exec_ns;	/* time of the last exec: blocks born before it are gone */
	__u64 interval; /* mean bytes between samples; 1: every allocation */
	/* All probes have been in place since this time. ABI_NO_WINDOW: not all probes are in
	 * place, or the last one was placed only just now. 0: the probes are always in place. */
	__u64 window_ns;
	__u32 watch; /* the process is traced in windows, so ends of sampled blocks are reported
		      * (struct abi_end). Freed blocks stay in the live table, as BIRTH_ENDED */
	/* How many parts of the window are over. User space counts in each part whether an address
	 * was freed. window_ns + part identifies the part, because windows are at least a
	 * millisecond apart. */
	__u32 part;
};

/* The most processes with abi_process.borrowed that may exist at a time. A process that has called
 * exec or has ended still counts until user space has read its entry. */
#define ABI_MAX_BORROWERS 16384

/* A process with abi_process.borrowed. The entry stays until user space has read that the process
 * has called exec or has ended. */
struct abi_borrower {
	__u32 process; /* id of the process in whose memory it runs */
	__u32 ended;   /* 1: the borrower has called exec, or has ended */
	__u64 cpu_ns;  /* if `ended` is 1: CPU time that the borrower had used, at least 1 */
};

/* A process's state on one CPU. */
struct abi_process_cpu {
	/* id of the process that this state belongs to. If a process finds another id here, it has
	 * not run on this CPU yet */
	__u32 process;
	__u32 pad;
	/* bytes to the next sample; valid only if drawn_for is the process's interval */
	__s64 until_sample;
	__u64 drawn_for;
	__u64 samples;	       /* allocations recorded */
	__u64 stack_ns;	       /* time spent on taking the stacks of heap samples */
	__u64 armed, returned; /* recorded calls whose return was awaited; those that returned */
	__u64 inner;	       /* calls that an allocator made to itself; they are in `calls`,
				* too */
	/* those of the `inner` calls that were made inside calls of pools. They added blocks, and
	 * the frees of these blocks are counted. With WRAPS_BY_STACK, only the stack shows
	 * that a call is an inner one, so only calls chosen as samples are recognized */
	__u64 inner_of_pools;
	/* calls that add no block, although their function allocates (realloc of a block), and
	 * markers of samples */
	__u64 no_births;
	/* calls that do not end exactly one block, although their function frees: free(NULL), a
	 * free inside another free, the end of a pool. Markers of ends of samples count, too */
	__u64 no_deaths;
	/* calls that ended all blocks of a pool; the number of these blocks is not known */
	__u64 pool_ends;
	__u64 pool_takes;		/* calls of functions with abi_func.pooled */
	__u64 alloc_bytes, freed_bytes; /* estimates, as in struct abi_site */
	/* calls of mmap and the like; time spent on taking their stacks */
	__u64 region_calls, region_stack_ns;
	/* Intervals of the target's own samples (ROLE_MARK_ALLOC) may be larger than the process's
	 * interval. This is the largest of them; 0: there were none. To join the CPUs' values, take
	 * the maximum, not the sum */
	__u64 marked_interval;
	/* Probes of other tracers on the same functions (others.bpf.h). other_looks: how often they
	 * were counted. others_trapped: how often one of them made the kernel trap the call's
	 * return. others_visited: how many of them were for other processes, summed over all looks.
	 * others_run: how many were for this process or for all processes, summed likewise. */
	__u64 other_looks, others_trapped, others_visited, others_run;
	__u64 lost[LOST_MAX];
	__u64 calls[ABI_COSTS]; /* probe hits, by abi_func.cost */
};

/* Which processes are traced besides those that user space names. A process that fits the selection
 * is traced from its exec on. With `dynamic` or `follow`, a child that a traced process forks is
 * traced at once. All given conditions must hold. If there are several names, one of them must fit;
 * the same holds for users. */
struct abi_selection {
	__u32 dynamic; /* 1: any process that fits; 0: only children, if `follow` is set */
	__u32 follow;  /* children of traced processes */
	__u32 n_comms, n_users;
	char comms[ABI_MAX_WANTED][ABI_COMM_LEN];
	__u32 users[ABI_MAX_WANTED];
	__u64 cgroup; /* id of the cgroup that the process must be in, or below; 0: any */
	__u32 cgroup_level;
	__u32 by_exe; /* the program's file must have a verdict `wanted` in the map judged_files */
	__u32 self;   /* memtrace's own tgid, never traced */
	__u32 pad;
};

enum abi_event_kind {
	/* a process is traced from now on. Either its new program fits the selection, or the
	 * process was a borrower and `follow` is set */
	EVENT_NEW = 1,
	EVENT_FORK,	/* a fork's child is traced from now on; `parent` is its parent's id */
	EVENT_EXEC,	/* a traced process runs another program */
	EVENT_EXIT,	/* a traced process has ended, or its new program does not fit */
	EVENT_HEADLESS, /* a process's main thread has ended, other threads go on */
	EVENT_UNKNOWN,	/* an exec of a file that is not judged yet in its present state; `process`
			 * is 0 */
	/* the kernel is about to kill a process because memory is short. Reported for every
	 * process, traced or not. `process` is 0, and only `tgid`, `time_ns` and `anon_bytes` are
	 * set */
	EVENT_VICTIM,
};

/* Bits of abi_event.death. The low bits are the number of the signal that ended the process; 0:
 * none did. */
#define ABI_DEATH_SIGNAL 0x7f
#define ABI_DEATH_OOM	 0x100 /* the kernel had chosen the process when memory was short */

struct abi_event {
	__u32 kind; /* enum abi_event_kind */
	__u32 process, parent;
	__u32 tgid;
	__u32 by_thread;  /* EVENT_EXEC: called by another thread than the main one */
	__u32 death;	  /* EVENT_EXIT: cause of death, ABI_DEATH_... */
	__u64 time_ns;	  /* CLOCK_MONOTONIC */
	__u64 anon_bytes; /* EVENT_VICTIM: its anonymous memory at time_ns; 0: not known */
	/* EVENT_NEW, EVENT_UNKNOWN, EVENT_EXIT: CPU time that the process had used by then */
	__u64 cpu_ns;
	struct abi_program exe;
	char comm[ABI_COMM_LEN];
};

/* The latest thread that had a certain thread id. */
struct abi_thread {
	__u32 process;
	__u32 pad;
	__u64 comm[ABI_COMM_LEN / 8]; /* text, stored in words, which are compared quickly */
};

/* The last call of a thread into a function that may hand the call over to another one:
 * abi_func.outer. */
struct abi_outer_call {
	__u64 sp, ret, size;
	__u64 vaddr;	/* abi_func.vaddr of the function. No function hands calls over to itself,
			 * so a new call of the same function is no inner call */
	__u64 inner_sp; /* sp of the last inner call whose function may also hand its calls over; 0:
			 * there was none */
	/* The call under way into a function that wraps (WRAPS_AWAITED); wrap_sp 0: none. */
	__u64 wrap_sp, wrap_ret;
	__u64 wrap_vaddr; /* abi_func.vaddr of this function */
	/* The last call into a function that is WRAPS_BY_STACK; pool_sp 0: none. */
	__u64 pool_sp, pool_ret;
};

/* The thread that was the last to hit a probe on a CPU, and what a probe needs to know of it
 * (bpf/running.bpf.h). */
struct abi_running {
	__u64 turn;	/* the thread's number, and how often it had been switched out before */
	__u64 start_ns; /* when the thread began: no other thread with the same number has this
			 * time */
	__u64 changes;	/* the global counter `changes` when this was noted (bpf/maps.bpf.h) */
	__u64 interval; /* sampling interval of the thread's process */
	__u64 outer_sp; /* sp of the thread's abi_outer_call; 0: the thread has none */
	__u32 process;
	__u32 pad;
};

/* Run-wide settings, constant once the programs are loaded. */
struct abi_config {
	__u64 interval; /* sampling interval that a process begins with */
	__u64 hash_seed[2];
	__u32 max_frames; /* <= ABI_STACK_FRAMES */
	__u32 pad;
};

#define ABI_ASSERT(type, size) _Static_assert(sizeof(type) == (size), "layout of " #type)
ABI_ASSERT(struct abi_func, 32);
ABI_ASSERT(struct abi_place, 16);
ABI_ASSERT(struct abi_marker, 48);
ABI_ASSERT(struct abi_object, 48 + 8 * ABI_MAX_INNER + 16 * ABI_MAX_OUTER);
ABI_ASSERT(struct abi_stack, 8 + 8 * ABI_STACK_FRAMES);
ABI_ASSERT(struct abi_python, 88);
ABI_ASSERT(struct abi_real_file, 24);
ABI_ASSERT(struct abi_file_part, 24);
ABI_ASSERT(struct abi_file_table, 32);
ABI_ASSERT(struct abi_site_key, 24);
ABI_ASSERT(struct abi_site, 136 + 8 * ABI_AGES);
ABI_ASSERT(struct abi_peak, 40);
ABI_ASSERT(struct abi_transfer_key, 16);
ABI_ASSERT(struct abi_transfer, 24);
ABI_ASSERT(struct abi_live_key, 16);
ABI_ASSERT(struct abi_live, 56);
ABI_ASSERT(struct abi_pool, 40);
ABI_ASSERT(struct abi_pooled, 32);
ABI_ASSERT(struct abi_inflight_key, 16);
ABI_ASSERT(struct abi_inflight, 152);
ABI_ASSERT(struct abi_region_call, 88);
ABI_ASSERT(struct abi_end, 80);
ABI_ASSERT(struct abi_process, 40);
ABI_ASSERT(struct abi_borrower, 16);
ABI_ASSERT(struct abi_process_cpu, 24 + 152 + 8 * LOST_MAX + 8 * ABI_COSTS);
ABI_ASSERT(struct abi_selection, 16 + 16 * ABI_MAX_WANTED + 4 * ABI_MAX_WANTED + 24);
ABI_ASSERT(struct abi_event, 96);
ABI_ASSERT(struct abi_verdict, 24);
ABI_ASSERT(struct abi_thread, 24);
ABI_ASSERT(struct abi_running, 48);
ABI_ASSERT(struct abi_config, 32);

/* What registers.bpf.c reports of a thread. */
#define ABI_REGISTERS 15
struct abi_registers {
	__u32 tid;
	__u32 unused;
	__u64 sp, pc, bp;
	__u64 tp; /* thread pointer: the base of fs */
	/* all general registers but the stack pointer, in no particular order */
	__u64 values[ABI_REGISTERS];
};

#endif
