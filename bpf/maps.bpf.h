/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps and globals of a run. User space sets some of the sizes before loading
 * (capture__size_maps). All maps and globals are weak: each program file defines them, and the
 * linker joins equal definitions. */
#ifndef MEMTRACE_BPF_MAPS_BPF_H
#define MEMTRACE_BPF_MAPS_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* The sampled blocks that are alive. Memory is allocated as entries are added (BPF_F_NO_PREALLOC).
 * Otherwise a table for a million blocks would take 140 MB, even for a target that holds a thousand
 * samples. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_live_key);
	__type(value, struct abi_live);
} live __weak SEC(".maps");

/* Pools, and the sampled blocks that belong to pools (pool.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ABI_MAX_POOLS);
	__type(key, struct abi_live_key);
	__type(value, struct abi_pool);
} pools __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ABI_MAX_POOLED);
	__type(key, struct abi_live_key);
	__type(value, struct abi_pooled);
} pooled __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_site_key);
	__type(value, struct abi_site);
} sites __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct abi_transfer_key);
	__type(value, struct abi_transfer);
} transfers __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_stack_key);
	__type(value, struct abi_stack);
} stacks __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct abi_inflight_key);
	__type(value, struct abi_inflight);
} inflight __weak SEC(".maps");

/* region_calls: calls of mmap and the like that are under way. regions: calls that have returned,
 * for user space to read. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct abi_inflight_key);
	__type(value, struct abi_region_call);
} region_calls __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} regions __weak SEC(".maps");

/* Ends of sampled blocks in processes that are traced in windows (struct abi_end). User space reads
 * the ring when a window is over. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} ends __weak SEC(".maps");

/* Traced processes. The key is the main thread's task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct abi_process);
} processes __weak SEC(".maps");

/* The traced processes whose main thread has ended while other threads run. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32); /* a process's pid */
	__type(value, struct abi_process);
} headless __weak SEC(".maps");

/* The borrowers: processes that run in the memory of a traced process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ABI_MAX_BORROWERS);
	__type(key, __u32); /* a borrower's pid */
	__type(value, struct abi_borrower);
} borrowers __weak SEC(".maps");

/* The counters of each process. Their memory is allocated beforehand, so that no new process is
 * missed for want of memory. The map is an array, because every hit of a probe looks up an entry.
 * The kernel compiles a look-up in an array to a few instructions, but a look-up in a hash table to
 * two calls. A process's row is id & process_rows; row 0 is nobody's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_process_cpu);
} process_cpus __weak SEC(".maps");

/* The peak of each process: what the process held when it held most. The index is the process's
 * row. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_peak);
} peaks __weak SEC(".maps");

/* The owner of each row: a process's id; 0: nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} row_owners __weak SEC(".maps");

/* The ids of future processes, one for each row that is free. User space fills the queue. When a
 * process is dropped, user space empties the counters of the process's row, and puts the row's next
 * id here: the row's last id plus process_rows + 1. So no id comes twice. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_processes __weak SEC(".maps");

/* The counters of the whole machine, if probes are in the code of all processes. They include calls
 * of processes that are not traced. The map has a single entry. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_process_cpu);
} machine_cpus __weak SEC(".maps");

/* The code mappings of each process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32); /* the process's id */
	__type(value, struct abi_mappings);
} mappings __weak SEC(".maps");

/* How to find Python's frames in each process that runs Python. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u32); /* the process's id */
	__type(value, struct abi_python);
} pythons __weak SEC(".maps");

/* Events of processes: struct abi_event. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events __weak SEC(".maps");

/* Verdicts of user space on programs' files, for --exe. When the table is full, user space empties
 * it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct abi_file);
	__type(value, struct abi_verdict);
} judged_files __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tid */
	__type(value, struct abi_thread);
} threads __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct abi_outer_call);
} outer_calls __weak SEC(".maps");

/* The last thread to hit a probe on each CPU. The map has a single entry. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_running);
} runnings __weak SEC(".maps");

/* Initial values of map entries: they are too large for the programs' stacks. */
const struct abi_site no_site __weak = {};
const struct abi_transfer no_transfer __weak = {};
const struct abi_inflight no_call __weak = {};

/* User space sets the following variables before loading. From then on they are constant. */
const volatile struct abi_selection selection __weak = {};
const volatile struct abi_config config __weak = {};
/* True if stacks are walked by unwind tables. Then the kernel has bpf_loop() (since Linux 5.17),
 * which this walk needs. */
const volatile bool use_tables __weak = false;
/* True if the return of every call is trapped, whether the call is sampled or not (ways "multi" and
 * "perf" of heap.bpf.c). */
const volatile bool returns_always __weak = false;

/* True if the programs are attached by uprobe_multi links. others_look() works only then. */
const volatile bool counts_others __weak = false;

/* True if user space wants the cost of all probes together. If false, nothing is counted in
 * machine_cpus. */
const volatile bool count_machine __weak = false;

/* The mask that makes a process's row from its id. It is one less than a power of two. */
const volatile __u32 process_rows __weak = 0;

/* No call is recorded before user space sets this, which it does when everything is attached. */
volatile __u32 active __weak;
__u64 ends_lost __weak;		/* number of entries for which the ring `ends` had no room */
__u64 n_pools __weak;		/* pools that have had a sampled block so far */
__u64 events_lost __weak;	/* number of entries for which the ring `events` had no room */
__u64 processes_refused __weak; /* number of processes that were to be traced, but for which there
				 * was no room */
__u64 borrowers_changes __weak; /* how often a borrower has begun or ended so far */
__u64 borrowers_lost __weak;	/* number of borrowers for which there was no room */
/* Counts the changes of the data that notes are made from (running.bpf.h). Whoever makes such a
 * change (an exec, or user space) raises the counter afterwards. */
volatile __u64 changes __weak;
/* True if some function of the table is WRAPS_AWAITED. */
volatile __u32 any_wraps __weak;
volatile __u32 any_pools __weak; /* true if some function of the table is WRAPS_BY_STACK */
/* True once user space has put a process into `pythons`. */
volatile __u32 any_python __weak;
struct abi_func funcs[ABI_MAX_FUNCS] __weak;
struct abi_marker markers[ABI_MAX_MARKERS] __weak;
struct abi_object objects[ABI_MAX_OBJECTS] __weak;
__u32 live_filter[ABI_FILTER_SLOTS] __weak; /* index: the hash of a key of `live` (filter.bpf.h) */

static __always_inline void count(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/* Returns the machine's counters on this CPU; NULL: they are not wanted. */
static __always_inline struct abi_process_cpu *machine_cpu(void)
{
	__u32 only = 0;

	return count_machine ? bpf_map_lookup_elem(&machine_cpus, &only) : NULL;
}

static __always_inline void lose(struct abi_process_cpu *cpu, enum abi_lost what)
{
	count(&cpu->lost[what], 1);
}

#define E_TOO_BIG (-7) /* -E2BIG: what a full hash map answers */

/* Counts a failed insertion into a map. err is the error. It tells whether the map was full
 * (counted as `full`) or there was no memory. */
static __always_inline void lose_insert(struct abi_process_cpu *cpu, long err, enum abi_lost full)
{
	lose(cpu, err == E_TOO_BIG ? full : LOST_NO_MEMORY);
}

#endif
