/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side in user space's hands: load it, attach it, read it. The only room that sees
 * libbpf and the skeleton. Order of use: new, add_target and attach for each process, activate,
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

/* A usual process's tables take 1 to 3 MB together, clang's 8; a hundred different programs share
 * most of theirs. */
#define UNWIND_DEFAULT_BYTES (96ULL << 20)

struct capture_options {
	uint64_t interval;	/* mean bytes between samples, 1 .. ABI_MAX_INTERVAL; 1: exact */
	int kind;		/* enum probe_kind, or -1: the best that works */
	uint32_t max_processes; /* at a time; 0 = 64 */
	uint32_t max_live;	/* live samples; 0 = 1,048,576 */
	uint32_t max_stacks;	/* distinct stacks; 0 = 65,536 */
	uint32_t max_sites;	/* stack and process pairs; 0 = 131,072 */
	uint32_t max_frames;	/* per stack, 2 .. ABI_STACK_FRAMES; 0 = ABI_STACK_FRAMES */
	uint64_t max_unwind;	/* bytes of unwind tables; 0 = UNWIND_DEFAULT_BYTES */
	bool regions;		/* capture__attach_regions() will be called */
	bool faults;		/* page faults are recorded, in the place of allocations */
	bool windows;		/* capture__watch_ends() will be called */
	/* what all probes cost together is to be known: capture__machine_counters() */
	bool machine;
	bool verbose;			 /* libbpf's messages on stderr */
	const struct alloc_extra *extra; /* functions that the user named; the caller's */
	size_t n_extra;
	/* Which processes are traced besides those that are added: from their next exec on. self is
	 * filled in. */
	struct abi_selection selection;
};

/* Loads the programs for the best kind of probe that works here, or the one asked for. 0 or
 * negative errno with err. */
int capture__new(const struct capture_options *options, struct capture **ret, struct error *err);
void capture__free(struct capture *capture);

enum probe_kind capture__kind(const struct capture *capture);

/* Are probes in one process silent when its main thread has ended, though others go on? */
bool capture__needs_main_thread(const struct capture *capture);

/* Makes process pid traced: its calls are counted from activation on. *ret_process: its number,
 * under which all that is recorded of it is found, whatever becomes of the pid. 0, -EEXIST when it
 * is traced already (by the selection), -E2BIG for too many, other negative errno. */
int capture__add_process(struct capture *capture, pid_t pid, uint32_t *ret_process,
			 struct error *err);

/* Drops all that is recorded of a process that has ended. */
void capture__drop_process(struct capture *capture, uint32_t process);

/* Deletes what a drain has told of processes that have ended, for others' sake; with stacks also
 * the stacks that no other's sites and calls name any more (those of regions have no sites: not
 * while they are recorded). The drain's stacks are ascending by lo, then hi. processes: n numbers,
 * which it sorts. What cannot be done for want of memory is left for the next time. */
void capture__drop_records(struct capture *capture, const struct capture_drain *drain,
			   uint32_t *processes, size_t n, bool stacks);

/* Processes that the selection would have taken, had there been room for more at a time. */
uint64_t capture__processes_refused(const struct capture *capture);

/* Calls fn for each piece of news of processes (struct abi_event, valid for the call) since the
 * last time, in the order in which they happened on their CPUs. 0 or negative errno. *ret_lost: how
 * many found no room, over the whole run. */
int capture__events(struct capture *capture, void (*fn)(void *ctx, const struct abi_event *event),
		    void *ctx, uint64_t *ret_lost);
/* Readable when there are any. */
int capture__events_fd(const struct capture *capture);

/* Does the selection take processes that run this file, as long as it stays what it is? For by_exe
 * only. */
int capture__judge_program(struct capture *capture, const struct abi_program *program, bool wanted);

/* Tells the kernel side which code a process has mapped where, building the unwind tables of files
 * that are new; these work from capture__put_tables() on. Call again whenever that changes. Only
 * files among the binaries are known. When there is no room for a table, tables that no process
 * uses any more make it, the one let go first first; is there still none, the file goes without.
 * How many mappings found no place (the highest ones of more than ABI_MAX_MAPPINGS), or negative
 * errno.
 *
 * Other processes that map one of these files find its table from then on by themselves, before
 * they are told of here. */
int capture__set_mappings(struct capture *capture, const struct binaries *binaries,
			  uint32_t process, const struct maps *maps);

/* Puts in place the tables that have been built so far. They work at once, but the call takes 10 ms
 * and more: one for many processes, after all that is urgent. */
void capture__put_tables(struct capture *capture);

/* The process has ended: its tables may go when others need the room. */
void capture__forget_mappings(struct capture *capture, uint32_t process);

/* Files whose unwind tables found no room within max_unwind at least once. */
uint32_t capture__tables_refused(const struct capture *capture);

/* Puts probes on the functions of those allocators of process pid that have none yet; or, when pid
 * is 0, in all processes, present and to come, on those that have none of that kind. They do
 * nothing until activation. 0, or negative errno with err for the first that could not be attached:
 * of that allocator no probe is left, and those after it are still to be attached by another call.
 * -EOPNOTSUPP: the kernel takes no probe on an essential function of it
 * (alloc_point__is_essential()). Of others it goes without them. */
int capture__attach(struct capture *capture, struct allocators *allocators, pid_t pid,
		    struct error *err);

/* Where the kernel takes no probe on a function of an allocator, in whichever process. */
struct capture_refusal {
	pid_t pid; /* 0: of all processes */
	struct file_id file;
	const char *family; /* the allocator's; static */
	uint64_t vaddr;	    /* of the function; 0: an instruction at which one returns */
	bool whole;	/* its allocator is not traced for it; else only the function is missing */
	bool gone;	/* the file was released: its number may be another's by now */
	char text[640]; /* which function, which reason, what follows: for people */
};
/* All that there were in the run, in their order. The capture's, and valid until the next attach or
 * resume. */
const struct capture_refusal *capture__refusals(const struct capture *capture, size_t *ret_n);

/* No probe is to come to the allocator in process pid, or, 0, in any. Those that stand there are
 * the caller's to take out. text: as of the refusal. 0 or -ENOMEM. */
int capture__refuse(struct capture *capture, const struct allocator *allocator, pid_t pid,
		    const char *text);

/* Are there probes in the file for all processes, even though they may be out at the moment?
 * *ret_since_ns (may be NULL): when the file got its first ones, monotonic. */
bool capture__probes_file(const struct capture *capture, const struct file_id *file,
			  uint64_t *ret_since_ns);

/* Nobody who is traced runs the file any more: begins to take those probes out of it that stand
 * there for all processes. They are among the capture's probes no more, and their room in the
 * kernel's tables is others' when they are gone. */
void capture__release(struct capture *capture, const struct file_id *file);

/* Begins to take the probes on the allocators' functions out of process pid alone: they are gone
 * some 10 ms later, but to let the links go the kernel waits for all CPUs, 50 ms and more; on a
 * starved one for seconds. pid 0: the probes in all processes; while these are out,
 * capture__attach() with pid 0 takes down what is to be put in place with them. */
void capture__pause(struct capture *capture, pid_t pid);
/* How many links of process pid are still to go; pid -1: of all. Of the kind perf a whole process's
 * count as one, and while there is one, an attach waits for it. */
size_t capture__pausing(struct capture *capture, pid_t pid);
/* Puts the probes on the allocators' functions back; links that are still to go do not matter. 0 or
 * negative errno with err, and none is back; those that are refused stay out, which is no error.
 * Allocators that are only resumed need never have been attached, and are not among the capture's
 * probes. */
int capture__resume(struct capture *capture, struct allocators *allocators, pid_t pid,
		    struct error *err);

/* From now on one sample is taken per interval bytes of process pid. An exec at this very moment
 * may go unnoticed by the kernel side. 0 or negative errno. */
int capture__set_interval(struct capture *capture, pid_t pid, uint64_t interval);
/* Likewise: its probes, which come and go, are all in place since start_ns; ABI_NO_WINDOW: they are
 * not. */
int capture__set_window(struct capture *capture, pid_t pid, uint64_t start_ns);

/* Are ends of sampled blocks of process pid told from now on, and their addresses watched (struct
 * abi_end)? Blocks that have ended stay in the live table then, as BIRTH_ENDED, until
 * capture__forget_block(). 0 or negative errno. */
int capture__watch_ends(struct capture *capture, pid_t pid, bool watch);
/* Calls fn for each end told of since the last time (valid for the call), in the order in which
 * they happened on their CPUs. *ret_lost: how many found no room, over the whole run. 0 or negative
 * errno. */
int capture__read_ends(struct capture *capture, void (*fn)(void *ctx, const struct abi_end *end),
		       void *ctx, uint64_t *ret_lost);

/* Puts probes on the functions of a source (of libc's) in process pid. */
int capture__attach_regions(struct capture *capture, const struct region_source *source, pid_t pid,
			    struct error *err);
/* Begins to take them out again, as capture__pause() does. */
void capture__detach_regions(struct capture *capture, pid_t pid);
/* The same for the system calls of traced processes, seen through tracepoints: each system call of
 * the machine takes longer meanwhile (capture__calibrate_regions()). */
int capture__attach_region_syscalls(struct capture *capture, struct error *err);
void capture__detach_region_syscalls(struct capture *capture);

/* Sees page faults of traced processes, through tracepoints, as options->faults asked for; to be
 * called again after capture__detach(), as which calibrating ends. */
int capture__attach_faults(struct capture *capture, struct error *err);

/* Calls fn for each call heard of from now on (struct abi_region_call, valid for the call), from
 * within capture__events(). NULL: nobody. */
void capture__on_region_call(struct capture *capture,
			     void (*fn)(void *ctx, const struct abi_region_call *call), void *ctx);

/* What one probe of the run does: for reports. */
struct capture_probe {
	const struct alloc_point *point; /* of the allocator that was attached: the caller's */
	const struct allocator *allocator;
	pid_t pid; /* 0: in all processes */
};
const struct capture_probe *capture__probes(const struct capture *capture, size_t *ret_n);

void capture__activate(struct capture *capture);
void capture__deactivate(struct capture *capture);

/* Takes all probes out of all targets. */
void capture__detach(struct capture *capture);

/* A process of its own, the keeper, takes all probes out when it has not been told for as long as
 * the patience lasts that all is well, and when we die. What reads tables, attaches and takes in
 * processes tells it by itself. */
void capture__beat(struct capture *capture);
/* Milliseconds; 0 (at first): for ever. */
void capture__set_patience(struct capture *capture, unsigned patience_ms);
/* Is it there? Somebody may have killed it. */
bool capture__is_kept(struct capture *capture);
/* When the keeper took the probes out, CLOCK_MONOTONIC; 0: it did not. Probes that are placed from
 * then on go as well, until capture__accept_withdrawal(). */
uint64_t capture__withdrawn_ns(const struct capture *capture);
/* Takes out whatever is left, waits until it is gone, and lets probes be placed again. No probe is
 * in place then, as after capture__pause() of all and capture__detach(). */
void capture__accept_withdrawal(struct capture *capture);

/* What a process held at most. 0 or negative errno. */
int capture__peak(struct capture *capture, uint32_t process, struct abi_peak *ret);

/* A process's counters, added up over the CPUs. until_sample and drawn_for mean nothing there. */
int capture__counters(struct capture *capture, uint32_t process, struct abi_process_cpu *ret);

/* The same of all processes that met a probe, traced or not: calls, samples and what their
 * stacks took alone. Only with the option. */
int capture__machine_counters(struct capture *capture, struct abi_process_cpu *ret);

/* By how many blocks the process has more than before, by counters: allocations that added one less
 * frees that ended one. */
int64_t capture__net_blocks(const struct abi_process_cpu *counters);

/* Calls of allocating and of freeing functions, by counters. */
uint64_t capture__alloc_calls(const struct abi_process_cpu *counters);
uint64_t capture__free_calls(const struct abi_process_cpu *counters);

/* How often the kernel could not run a program because another was running on the CPU. */
uint64_t capture__missed_runs(struct capture *capture);

/* Memory that the kernel holds for all this, bytes. *ret_at_most: rather what its tables may grow
 * to, for this kernel (before Linux 6.4) does not count what they have. */
uint64_t capture__kernel_bytes(const struct capture *capture, bool *ret_at_most);

/* What the same will be on a machine of so many possible CPUs, from the sizes of the tables. */
struct capture_footprint {
	uint64_t at_once;  /* bytes, before anything is recorded, */
	uint64_t for_cpus; /* of these for the CPUs, each as much */
	uint64_t at_most;  /* bytes, when all tables are full */
};
int capture__footprint(const struct capture_options *options, int cpus,
		       struct capture_footprint *ret); /* 0 or negative errno */

/* How many processes may be traced at a time when so many are wanted: the more CPUs, the fewer, for
 * each has counters for each CPU. */
uint32_t capture__processes_for(uint32_t wanted, int cpus);
int capture__cpus(void); /* possible ones; 1 when that cannot be told */

/* Ascending; as strcmp. */
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

/* Everything recorded, read in batches; meant for after deactivation, when nothing changes. */
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

/* The live blocks alone, of all processes. 0 or negative errno. */
int capture__read_live(struct capture *capture, struct capture_table *ret);
/* The same of the sites. */
int capture__read_sites(struct capture *capture, struct capture_table *ret);
/* A block is not followed any more. */
void capture__forget_block(struct capture *capture, uint32_t process, uint64_t addr);
void capture_drain__free(struct capture_drain *drain);

/* Average cost of one call with this capture's probe, in nanoseconds: of an allocating function and
 * of a freeing one, by the class of the probed instruction. Includes the BPF programs at this
 * capture's interval. */
struct calibration {
	double alloc_ns[INSN_CLASSES], free_ns[INSN_CLASSES];
	/* more than that, and the stack, of a sampled allocation and its free: a return, tables. 0:
	 * each call is a sample */
	double sample_ns;
	double rare_ns; /* more than that, of each call, where they are few: the caches have lost
			 * the kernel's code and tables since the last one
			 * (calibration__rarity_ns()) */
	/* by how much all of these went up and down meanwhile, relative, as a standard deviation:
	 * others of the machine */
	double spread;
};

/* Measures it on a child of memtrace's own, in about half a second. Must come before the
 * first capture__attach and outside activation. 0 or negative errno. */
int capture__calibrate(struct capture *capture, struct calibration *ret);

/* What it costs, in nanoseconds, that regions are seen: one call of mmap or munmap at libc's
 * functions, and at the system calls; and there every other system call of the machine. Stacks are
 * not walked in it. */
struct region_calibration {
	double libc_call_ns, syscall_call_ns, syscall_other_ns;
};

/* Measures it on a child, too. Meanwhile, for some hundredths of a second, every system call of the
 * machine costs more. The capture was made with regions. 0 or negative errno. */
int capture__calibrate_regions(struct capture *capture, struct region_calibration *ret);

/* Nanoseconds that all calls of mmap and its like counted have cost, stacks aside; syscalls: they
 * were seen as system calls (what the process's other ones cost there is not in it). */
double region_calibration__total_ns(const struct region_calibration *calibration,
				    const struct abi_process_cpu *counters, bool syscalls);

/* Nanoseconds that so many calls, one after the other over so much time, cost more than calls in a
 * row do. */
double calibration__rarity_ns(const struct calibration *calibration, uint64_t calls,
			      double over_ns);

/* Nanoseconds that one call costs at a probe like this. */
double calibration__cost_ns(const struct calibration *calibration, const struct alloc_point *point);

/* Nanoseconds that samples, and their stacks, have cost beyond their calls. */
double calibration__samples_ns(const struct calibration *calibration,
			       const struct abi_process_cpu *counters);

/* Nanoseconds that all calls counted, and samples, have cost. */
double calibration__total_ns(const struct calibration *calibration,
			     const struct abi_process_cpu *counters);

#endif
