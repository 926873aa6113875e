/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads the kernel side, attaches its probes and reads its tables. This is the only room that sees
 * libbpf and the skeleton. Order of use: new, add_process and attach for each process, activate,
 * counters as often as wanted, deactivate, detach, drain, free. */
#ifndef MEMTRACE_CAPTURE_CAPTURE_H
#define MEMTRACE_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "capture/allocator.h"
#include "capture/features.h"
#include "capture/region_source.h"
#include "capture/self.h"
#include "elf/binary.h"

struct capture; /* opaque */
struct capture_drain;

/* The unwind tables of a usual process take 1 to 3 MB together, those of clang 8 MB. A hundred
 * different programs share most of their tables. */
#define UNWIND_DEFAULT_BYTES (96ULL << 20)

struct capture_options {
	uint64_t interval;	/* mean bytes between samples, 1 .. ABI_MAX_INTERVAL; 1: exact */
	int kind;		/* enum probe_kind, or -1: the best that works */
	uint32_t max_processes; /* traced at a time; 0 = 64 */
	uint32_t max_live;	/* live samples; 0 = 1,048,576 */
	uint32_t max_stacks;	/* distinct stacks; 0 = 65,536 */
	uint32_t max_sites;	/* stack and process pairs; 0 = 131,072 */
	uint32_t max_frames;	/* frames per stack, 2 .. ABI_STACK_FRAMES; 0 = ABI_STACK_FRAMES */
	uint64_t max_unwind;	/* bytes of unwind tables; 0 = UNWIND_DEFAULT_BYTES */
	bool regions;		/* capture__attach_regions() will be called */
	bool faults;		/* page faults are recorded instead of allocations */
	bool windows;		/* capture__watch_ends() will be called */
	/* capture__machine_counters() will be called: the cost of all probes together is wanted */
	bool machine;
	bool verbose;			 /* libbpf's messages on stderr */
	const struct alloc_extra *extra; /* functions that the user named; owned by the caller */
	size_t n_extra;
	/* Which processes are traced besides those of capture__add_process(), and from when on:
	 * struct abi_selection. capture__new() fills in selection.self. */
	struct abi_selection selection;
};

/* Loads the programs for the best kind of probe that works here, or for options->kind. 0 or
 * negative errno with err. */
int capture__new(const struct capture_options *options, struct capture **ret, struct error *err);
void capture__free(struct capture *capture);

/* The kind of probe whose programs are loaded. */
enum probe_kind capture__kind(const struct capture *capture);

/* Do probes for a single process stop working if its main thread ends before its other threads? */
bool capture__needs_main_thread(const struct capture *capture);

/* Begins to trace process pid: its calls are counted from activation on. *ret_process is the number
 * under which all records of the process are found, even when another process has the pid later. 0;
 * -EEXIST when the selection traces the process already; -E2BIG when too many processes are traced;
 * other negative errno. */
int capture__add_process(struct capture *capture, pid_t pid, uint32_t *ret_process,
			 struct error *err);

/* Ends tracing process pid, which is alive: its calls are not counted any more. The records of the
 * process are kept, like those of a process that has ended. 0, or negative errno when the process
 * is not traced or has ended. */
int capture__release_process(struct capture *capture, pid_t pid);

/* Finds out under which number process pid is traced. *ret_exec_ns: when its last exec was,
 * monotonic; 0: there was none since its tracing began. 0; -ENOENT: it is not traced, or it runs in
 * another process's memory; -ESRCH: it has ended; other negative errno. */
int capture__process_of(struct capture *capture, pid_t pid, uint32_t *ret_process,
			uint64_t *ret_exec_ns);

/* Returns the numbers of all processes that have counters: those that are traced, and those that
 * have ended but were not dropped. The caller frees *ret. 0 or negative errno. */
int capture__processes(struct capture *capture, uint32_t **ret, size_t *ret_n);

/* Drops the mappings, the counters and the peak of a process that has ended. */
void capture__drop_process(struct capture *capture, uint32_t process);

/* Deletes the records of all processes that were dropped, to make room in the kernel's tables.
 * `drain` holds a copy of these records. `stacks`: also deletes the stacks that no site and no call
 * of the remaining processes names. Do not set `stacks` while regions are recorded: the stacks of
 * regions have no sites. The drain's stacks must ascend by `lo`, then `hi`. If memory runs out,
 * records or stacks are left to the next call. */
void capture__drop_records(struct capture *capture, const struct capture_drain *drain, bool stacks);

/* Is the process with this number alive? *ret_pid: its pid. */
typedef bool capture_lives_fn(void *ctx, uint32_t process, pid_t *ret_pid);
/* Deletes entries that nobody needs, even if their processes live. These entries are calls that
 * were under way when the probes were taken out, or when the thread of the call ended. If names of
 * threads take much room, names of threads that have ended are deleted, too. Call it now and
 * then. */
void capture__sweep(struct capture *capture, capture_lives_fn *lives, void *ctx);

/* Number of processes that fit the selection, but are not traced, or are no longer traced after an
 * exec. The reason: at that time there was no room for more processes, or the kernel had no
 * memory. */
uint64_t capture__processes_refused(const struct capture *capture);

/* Calls fn for each borrower. A borrower runs in the memory of a traced process without being a
 * thread of it: a child of vfork() until its exec, or a child of clone() with CLONE_VM. What a
 * borrower allocates belongs to the traced process. A borrower that has ended is forgotten after
 * the call. */
void capture__borrowers(struct capture *capture,
			void (*fn)(void *ctx, pid_t pid, const struct abi_borrower *borrower),
			void *ctx);
/* capture__borrowers_changes(): how often a borrower has begun or ended so far. This call is cheap.
 * capture__borrowers_lost(): how many borrowers could not be noted. */
uint64_t capture__borrowers_changes(const struct capture *capture);
uint64_t capture__borrowers_lost(const struct capture *capture);

/* Calls fn for each event of processes since the last call. The events of one CPU come in the order
 * in which they happened. The struct abi_event is valid only while fn runs. 0 or negative errno.
 * *ret_lost: number of events of the whole run that found no room. */
int capture__events(struct capture *capture, void (*fn)(void *ctx, const struct abi_event *event),
		    void *ctx, uint64_t *ret_lost);
/* A descriptor that is readable when there are events. */
int capture__events_fd(const struct capture *capture);

/* Tells the kernel side whether the selection takes processes that run this file (`wanted`). The
 * verdict is valid while the file stays unchanged. If there is no room for it, all earlier verdicts
 * are forgotten. Only for a selection with `by_exe`. */
int capture__judge_program(struct capture *capture, const struct abi_program *program, bool wanted);

/* Tells the kernel side which code a process has mapped at which addresses. Builds the unwind
 * tables of files that are new; they work after capture__put_tables(). Call it again whenever the
 * mappings change. Only files that `binaries` holds get tables. When there is no room for a table,
 * tables that no process uses any more are removed, the longest unused one first. If there is still
 * no room, the file gets no table. Returns how many mappings were left out, or negative errno. If
 * there are more than ABI_MAX_MAPPINGS mappings, the highest ones are left out.
 *
 * When another process maps one of these files later, the kernel side finds the table by itself,
 * before this function is called for that process. */
int capture__set_mappings(struct capture *capture, const struct binaries *binaries,
			  uint32_t process, const struct maps *maps);

/* Puts the tables that have been built so far into the kernel. They work at once. The call takes
 * 10 ms or more, so make one call for many processes, after all urgent work. */
void capture__put_tables(struct capture *capture);

/* Tells the kernel side how to find Python's frames in the process, until
 * capture__forget_mappings(). 0 or negative errno. */
int capture__set_python(struct capture *capture, uint32_t process, const struct abi_python *how);
/* Forgets the mappings of a process that has ended. Its unwind tables may be removed when other
 * tables need the room. */
void capture__forget_mappings(struct capture *capture, uint32_t process);

/* Forgets what is noted of the unwind table of the binary that had this index. false: the table is
 * still in the kernel, or in use. Then no other binary may get this index yet. */
bool capture__forget_binary(struct capture *capture, size_t index);

/* Number of files whose unwind table was refused at least once: there was no room within
 * `max_unwind`, no free number or no memory. */
uint32_t capture__tables_refused(const struct capture *capture);
/* Has the kernel refused the programs that unwind by tables, although it has all features that the
 * programs need? Then stacks come from frame pointers only. */
bool capture__unwinding_refused(const struct capture *capture);

/* Puts probes on the functions of those allocators that have no probes yet. pid: the process; 0:
 * all present and future processes. (With pid 0, an allocator that has probes only in single
 * processes counts as one without probes.) The probes do nothing until activation. 0, or negative
 * errno with err for the first allocator that could not be attached. Then no probe is left on this
 * allocator, and the allocators after it need another call. -EOPNOTSUPP: the kernel takes no probe
 * on an essential function of the allocator (alloc_point__is_essential()), or capture__refuse() has
 * forbidden its probes. Other functions that the kernel refuses get no probe. */
int capture__attach(struct capture *capture, struct allocators *allocators, pid_t pid,
		    struct error *err);

/* A function of an allocator that gets no probe, in one process or in all. */
struct capture_refusal {
	pid_t pid; /* 0: in all processes */
	struct file_id file;
	const char *family; /* name of the allocator's family; static */
	uint64_t vaddr;	    /* vaddr of the function; 0: a ret instruction was refused, or
			     * capture__refuse() has made the refusal */
	/* the whole allocator is not traced; else only this function is not traced */
	bool whole;
	/* 0: the refusal holds. Otherwise the time (CLOCK_MONOTONIC) at which it ceased to hold:
	 * the file was released (its inode number may belong to another file now), or
	 * capture__allow() was called */
	uint64_t gone_ns;
	uint64_t number; /* the run's refusals are numbered from 1 on, by time */
	char text[640];	 /* for people: function, reason, consequence */
};
#define CAPTURE_GONE_REFUSALS 256
/* The refusals of the run, in any order, each of them once. The list has all refusals that hold. Of
 * those that no longer hold, it has the latest ones, about CAPTURE_GONE_REFUSALS of them. The
 * capture owns them. They are valid until the next capture__attach(), capture__resume() or
 * capture__refuse(). */
const struct capture_refusal *capture__refusals(const struct capture *capture, size_t *ret_n);

/* Forbids probes on the allocator in process pid or, when pid is 0, in every process. The caller
 * takes out the probes that are already in place. text: as in struct capture_refusal. 0 or
 * -ENOMEM. */
int capture__refuse(struct capture *capture, const struct allocator *allocator, pid_t pid,
		    const char *text);
/* Allows probes again on the allocators of this family in the file, after capture__refuse() has
 * forbidden them in every process. Afterwards the caller calls capture__attach() for the file. */
void capture__allow(struct capture *capture, const struct file_id *file, const char *family);

/* Finds the file into which the kernel puts the probes of the file behind fd. On overlayfs, this is
 * a file of a layer below. Since Linux 6.7, /proc/PID/maps does not show it. `file` is what maps
 * shows. It is also the result on other file systems, or if the answer is unknown. */
struct file_id capture__real_file(struct capture *capture, int fd, const struct file_id *file);

/* Does the file have probes for all processes? True also while a pause has taken them out.
 * *ret_since_ns (may be NULL): when all of them were in place, CLOCK_MONOTONIC. */
bool capture__probes_file(const struct capture *capture, const struct file_id *file,
			  uint64_t *ret_since_ns);

/* Begins to take out the file's probes for all processes. Call it when no traced process runs the
 * file any more. capture__probes() does not list these probes any more. When they are gone, other
 * allocators can use their room in the kernel's tables. */
void capture__release(struct capture *capture, const struct file_id *file);
/* Are probes of released files still in place? Until they are gone, they take room in the kernel's
 * tables. */
bool capture__is_releasing(struct capture *capture);

/* Begins to take out those probes on the allocators' functions that are for process pid alone. The
 * probes are gone some 10 ms later. Their links are closed later still, after the kernel has waited
 * for all CPUs. This takes 50 ms or more, and seconds when a CPU is starved. pid 0: takes out the
 * probes for all processes. While the probes for all processes are out, capture__attach() with pid
 * 0 only notes new probes, and capture__resume() places them. */
void capture__pause(struct capture *capture, pid_t pid);
/* Takes out a process's probes for good, including the probes for regions on libc's functions.
 * capture__probes() does not list them any more, and the process's allocators may be freed. */
void capture__leave(struct capture *capture, pid_t pid);
/* Number of links of process pid that are still being closed; pid -1: of all processes. With probes
 * of the kind perf, all links of a process count as one, and an attach waits until they are
 * closed. */
size_t capture__pausing(struct capture *capture, pid_t pid);
/* Puts the probes on the allocators' functions back. Does not wait for links that are still being
 * closed. 0, or negative errno with err: then no probe is back. Refused probes stay out, which is
 * no error. Takes the first allocators->n_attached allocators. To include allocators that were
 * never attached, the caller may set this number. But capture__probes() does not list the probes of
 * these allocators. */
int capture__resume(struct capture *capture, struct allocators *allocators, pid_t pid,
		    struct error *err);

/* How many live samples the kernel's table has room for. */
uint32_t capture__max_live(const struct capture *capture);

/* From now on, takes one sample per `interval` bytes that process pid allocates, on average. If the
 * process calls exec at this very moment, the kernel side may miss the exec. 0 or negative
 * errno. */
int capture__set_interval(struct capture *capture, pid_t pid, uint64_t interval);
/* For a process that is traced in windows: tells the kernel side that all probes of the process
 * have been in place since `start_ns`. ABI_NO_WINDOW: they are not in place. The kernel side may
 * miss an exec, as with capture__set_interval(). 0 or negative errno. */
int capture__set_window(struct capture *capture, pid_t pid, uint64_t start_ns);
/* Tells the kernel side that a part of the process's window is over, and that the window goes on.
 * Later frees at an address (END_AGAIN) are reported once in each part. The kernel side may miss an
 * exec, as with capture__set_interval(). 0 or negative errno. */
int capture__next_part(struct capture *capture, pid_t pid);

/* `watch`: true if from now on the kernel side is to report the ends of sampled blocks of process
 * pid, and to watch their addresses (struct abi_end). With `watch`, a block that has ended stays in
 * the live table as BIRTH_ENDED until capture__forget_block(). 0 or negative errno. */
int capture__watch_ends(struct capture *capture, pid_t pid, bool watch);
/* Calls fn for each reported end since the last call. The ends on one CPU come in the order in
 * which they happened. The struct abi_end is valid only while fn runs. *ret_lost: number of ends of
 * the whole run for which there was no room. 0 or negative errno. */
int capture__read_ends(struct capture *capture, void (*fn)(void *ctx, const struct abi_end *end),
		       void *ctx, uint64_t *ret_lost);

/* Puts probes on the libc functions of a source in process pid. */
int capture__attach_regions(struct capture *capture, const struct region_source *source, pid_t pid,
			    struct error *err);
/* Begins to take the probes of capture__attach_regions() out again, as capture__pause() does. */
void capture__detach_regions(struct capture *capture, pid_t pid);
/* Instead of probes in libc, uses tracepoints to see regions at the system calls of traced
 * processes. Meanwhile each system call of the machine takes longer
 * (capture__calibrate_regions()). */
int capture__attach_region_syscalls(struct capture *capture, struct error *err);
void capture__detach_region_syscalls(struct capture *capture);

/* Sees page faults of traced processes through tracepoints. Needs options->faults.
 * capture__detach() removes these tracepoints, and a calibration calls capture__detach() at its
 * end. So call this function again afterwards. */
int capture__attach_faults(struct capture *capture, struct error *err);

/* From now on capture__events() calls fn for each reported call of mmap and the like. The struct
 * abi_region_call is valid only while fn runs. fn NULL: nothing is called. */
void capture__on_region_call(struct capture *capture,
			     void (*fn)(void *ctx, const struct abi_region_call *call), void *ctx);

/* One probe of the run, as reports need it. */
struct capture_probe {
	/* the allocator that was attached, and one of its points; the caller owns both */
	const struct alloc_point *point;
	const struct allocator *allocator;
	pid_t pid; /* 0: in all processes */
};
const struct capture_probe *capture__probes(const struct capture *capture, size_t *ret_n);

/* Is a probe that was placed only in process pid missing in the process's code? The kernel may have
 * taken it out together with another tracer's probe. `maps`: the process's address space. If the
 * memory cannot be read, returns false. */
bool capture__misses_probes(const struct capture *capture, pid_t pid, const struct maps *maps);

/* Before capture__activate() and after capture__deactivate(), probes that are in place do
 * nothing. */
void capture__activate(struct capture *capture);
void capture__deactivate(struct capture *capture);

/* Takes all probes out of all targets, and also removes the tracepoints for regions and faults. */
void capture__detach(struct capture *capture);

/* Tells the keeper that all is well. The keeper is a process of its own. It takes all probes out
 * when memtrace dies, or when it gets no beat for as long as its patience lasts. The functions that
 * read tables, attach probes or add processes send beats by themselves. */
void capture__beat(struct capture *capture);
/* How long the keeper waits for a beat, in milliseconds; 0 (at first): for ever. */
void capture__set_patience(struct capture *capture, unsigned patience_ms);
/* Does the keeper run? Somebody may have killed it. */
bool capture__is_kept(struct capture *capture);
/* The time when the keeper took the probes out, CLOCK_MONOTONIC; 0: it did not take them out. It
 * also takes out all probes that are placed later, until capture__accept_withdrawal(). */
uint64_t capture__withdrawn_ns(const struct capture *capture);
/* Takes out the remaining probes, waits until they are gone, and allows new probes. Afterwards no
 * probe is in place, as after capture__pause() with pid 0 and capture__detach(). */
void capture__accept_withdrawal(struct capture *capture);

/* Reads the largest number of bytes that a process held at one time. 0 or negative errno. */
int capture__peak(struct capture *capture, uint32_t process, struct abi_peak *ret);

/* Reads a process's counters, added up over the CPUs. `until_sample` and `drawn_for` have no
 * meaning in *ret. 0 or negative errno. */
int capture__counters(struct capture *capture, uint32_t process, struct abi_process_cpu *ret);

/* Reads the counters of all processes that hit a probe, traced or not, added up. Only calls,
 * samples, the time for the stacks of samples (`stack_ns`) and the probes of other tracers are
 * counted. Needs options->machine. 0 or negative errno. */
int capture__machine_counters(struct capture *capture, struct abi_process_cpu *ret);

/* By how many blocks the process has grown, according to the counters: allocations that added a
 * block minus frees that ended one. */
int64_t capture__net_blocks(const struct abi_process_cpu *counters);

/* Number of calls of allocating and of freeing functions, according to the counters. Calls of
 * allocating functions inside other calls (abi_process_cpu.inner) are not included. */
uint64_t capture__alloc_calls(const struct abi_process_cpu *counters);
uint64_t capture__free_calls(const struct abi_process_cpu *counters);

/* Is this kernel unable to report a process that it has chosen to kill because memory is short
 * (EVENT_VICTIM)? EVENT_EXIT has the cause of death in any case. */
bool capture__victims_unseen(const struct capture *capture);

/* How often the kernel could not run a BPF program because another one was running on the same
 * CPU. */
uint64_t capture__missed_runs(struct capture *capture);

/* Memory that the kernel holds for this capture, bytes. *ret_at_most: this kernel (before Linux
 * 6.4) does not count the tables' present size, so the result is the size to which the tables may
 * grow. */
uint64_t capture__kernel_bytes(const struct capture *capture, bool *ret_at_most);

/* The memory that the kernel will hold on a machine of `cpus` possible CPUs, computed from the
 * sizes of the tables. */
struct capture_footprint {
	uint64_t at_once;  /* bytes, before anything is recorded */
	uint64_t for_cpus; /* part of at_once that exists once per CPU, summed over the CPUs */
	uint64_t at_most;  /* bytes, when all tables are full */
};
int capture__footprint(const struct capture_options *options, int cpus,
		       struct capture_footprint *ret); /* 0 or negative errno */

/* Returns how many processes may be traced at a time: `wanted`, or fewer on a machine of many CPUs.
 * The reason: each process has counters for each CPU. */
uint32_t capture__processes_for(uint32_t wanted, int cpus);
int capture__cpus(void); /* possible CPUs; 1 when their number is unknown */

/* Compares by lo, then by hi; returns as strcmp() does. */
static inline int stack_key__compare(const struct abi_stack_key *a, const struct abi_stack_key *b)
{
	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return (a->hi > b->hi) - (a->hi < b->hi);
}

/* The whole content of a map: n keys and values, in no order. */
struct capture_table {
	void *keys, *values;
	size_t n;
};
void capture_table__free(struct capture_table *table);

/* All records of the kernel's tables. After deactivation nothing changes while they are read.
 * In a snapshot, which is taken before deactivation, the tables may be of slightly different
 * moments. `live` includes the blocks that are being reallocated. */
struct capture_drain {
	struct capture_table live;   /* struct abi_live_key -> struct abi_live */
	struct capture_table sites;  /* struct abi_site_key -> struct abi_site */
	struct capture_table stacks; /* struct abi_stack_key -> struct abi_stack */
	/* calls under way: struct abi_inflight_key -> struct abi_inflight */
	struct capture_table inflight;
	struct capture_table threads;	/* uint32_t tid -> struct abi_thread */
	struct capture_table transfers; /* struct abi_transfer_key -> struct abi_transfer */
};
int capture__drain(struct capture *capture, struct capture_drain *ret, struct error *err);

/* Reads only the live blocks, of all processes. 0 or negative errno. */
int capture__read_live(struct capture *capture, struct capture_table *ret);
/* Reads only the sites, of all processes. 0 or negative errno. */
int capture__read_sites(struct capture *capture, struct capture_table *ret);
/* Reads only the stacks, of all processes. 0 or negative errno. */
int capture__read_stacks(struct capture *capture, struct capture_table *ret);
/* Stops watching an address: deletes its block from the live table. A block that lives and was born
 * after until_ns (CLOCK_MONOTONIC) stays: it has taken the address meanwhile. */
void capture__forget_block(struct capture *capture, uint32_t process, uint64_t addr,
			   uint64_t until_ns);
void capture_drain__free(struct capture_drain *drain);

/* Average cost of one call with this capture's kind of probe, in nanoseconds, by the class of the
 * probed instruction. alloc_ns: for an allocating function. free_ns: for a freeing function. Both
 * include the time of the BPF programs. The cost of samples is in sample_ns. */
struct calibration {
	double alloc_ns[INSN_CLASSES], free_ns[INSN_CLASSES];
	/* additional cost of a sampled allocation and its free (the trap at the return, the writing
	 * of tables), without the walk of its stack. 0: each call is a sample, so alloc_ns and
	 * free_ns include this cost */
	double sample_ns;
	/* additional cost of each call when calls are very rare (calibration__rarity_ns()). Between
	 * two rare calls, the caches lose the kernel's code and tables */
	double rare_ns;
	/* relative standard deviation of all these costs between rounds; it is large if other
	 * processes disturb the measurement */
	double spread;
};

/* Measures the calibration on a child of memtrace's own, in about half a second. Must run before
 * the first capture__attach() and outside activation. 0 or negative errno. */
int capture__calibrate(struct capture *capture, struct calibration *ret);

/* What tracing of regions costs, in nanoseconds, without the walks of stacks. libc_call_ns: a call
 * of mmap or munmap that is seen at libc's functions. syscall_call_ns: a call of mmap or munmap
 * that is seen at the system calls. syscall_other_ns: any other system call of the machine while
 * regions are seen at the system calls. */
struct region_calibration {
	double libc_call_ns, syscall_call_ns, syscall_other_ns;
};

/* Measures these costs on a child process of memtrace's own. Meanwhile, for some hundredths of a
 * second, every system call of the machine costs more. Needs options->regions. 0 or negative
 * errno. */
int capture__calibrate_regions(struct capture *capture, struct region_calibration *ret);

/* Cost in nanoseconds of all counted calls of mmap and the like, without the walks of their stacks.
 * syscalls: the calls were seen as system calls. The cost of the process's other system calls is
 * not included. */
double region_calibration__total_ns(const struct region_calibration *calibration,
				    const struct abi_process_cpu *counters, bool syscalls);

/* `calls` calls that are spread over `over_ns` nanoseconds cost more than the same number of calls
 * in a row. Returns how much more, in nanoseconds. */
double calibration__rarity_ns(const struct calibration *calibration, uint64_t calls,
			      double over_ns);

/* Cost in nanoseconds of one call that hits a probe at this point. */
double calibration__cost_ns(const struct calibration *calibration, const struct alloc_point *point);

/* Cost in nanoseconds of the counted samples and of the walks of their stacks, without the cost of
 * the sampled calls themselves. */
double calibration__samples_ns(const struct calibration *calibration,
			       const struct abi_process_cpu *counters);

/* Cost in nanoseconds of all counted calls and samples. */
double calibration__total_ns(const struct calibration *calibration,
			     const struct abi_process_cpu *counters);

#endif
