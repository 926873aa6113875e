// SPDX-License-Identifier: GPL-2.0-only
/* Handles starts, execs and ends of processes: decides which processes are traced, and reports to
 * user space. */
#include "ctime.bpf.h"
#include "maps.bpf.h"
#include "peak.bpf.h"
#include "process.bpf.h"

#define SIGNAL_GROUP_EXIT 4 /* include/linux/sched/signal.h: all threads are about to end */

/* Returns the CPU time of a task and of its process's threads that have ended. */
static __always_inline __u64 cpu_ns(const struct task_struct *task)
{
	return task->signal->sum_sched_runtime + task->se.sum_exec_runtime;
}

static __always_inline void tell(enum abi_event_kind kind, const struct abi_process *process,
				 __u32 parent, struct task_struct *task,
				 const struct abi_program *exe, __u64 now, bool by_thread,
				 __u32 death)
{
	struct abi_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count(&events_lost, 1);
		return;
	}
	event->kind = kind;
	event->process = process ? process->id : 0;
	event->parent = parent;
	event->tgid = task->tgid;
	event->by_thread = by_thread;
	event->death = death;
	event->time_ns = now;
	event->anon_bytes = 0;
	event->cpu_ns = cpu_ns(task);
	event->exe = *exe;
	bpf_probe_read_kernel(event->comm, sizeof(event->comm), task->comm);
	bpf_ringbuf_submit(event, 0);
}

/* Begins to trace the process whose main thread is leader. NULL: there is no room for it. */
static __always_inline struct abi_process *begin_process(struct task_struct *leader)
{
	struct abi_process empty = {}, *process;
	__u32 id, row;

	process = bpf_task_storage_get(&processes, leader, &empty, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!process) {
		count(&processes_refused, 1);
		return NULL;
	}
	if (bpf_map_pop_elem(&free_processes, &id)) {
		bpf_task_storage_delete(&processes, leader);
		count(&processes_refused, 1);
		return NULL;
	}
	row = id & process_rows;
	bpf_map_update_elem(&row_owners, &row, &id, BPF_ANY);
	process->id = id;
	process->borrowed = 0;
	process->exec_ns = 0;
	process->interval = config.interval;
	return process;
}

static __always_inline bool same_comm(const char *a, const char *b)
{
	for (int i = 0; i < ABI_COMM_LEN; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

/* Does the current process fit the selection? task: its main thread. Sets *unknown if all else
 * fits, but user space has not judged the present state of the program's file. */
static __always_inline bool fits(struct task_struct *task, const struct abi_program *exe,
				 bool *unknown)
{
	__u32 user = task->cred->euid.val;
	char comm[ABI_COMM_LEN];
	bool found;

	*unknown = false;
	if (!selection.dynamic || (__u32)task->tgid == selection.self)
		return false;
	if (selection.n_users) {
		found = false;
		for (int i = 0; i < ABI_MAX_WANTED; i++)
			found = found ||
				((__u32)i < selection.n_users && selection.users[i] == user);
		if (!found)
			return false;
	}
	if (selection.n_comms) {
		bpf_probe_read_kernel(comm, sizeof(comm), task->comm);
		found = false;
		for (int i = 0; i < ABI_MAX_WANTED; i++)
			found = found || ((__u32)i < selection.n_comms &&
					  same_comm(comm, (const char *)selection.comms[i]));
		if (!found)
			return false;
	}
	if (selection.cgroup &&
	    bpf_get_current_ancestor_cgroup_id((int)selection.cgroup_level) != selection.cgroup)
		return false;
	if (selection.by_exe) {
		struct abi_verdict *judged = bpf_map_lookup_elem(&judged_files, &exe->file);

		*unknown = !judged || judged->changed_s != exe->changed_s ||
			   judged->changed_ns != exe->changed_ns ||
			   judged->generation != exe->generation;
		return !*unknown && judged->wanted;
	}
	return true;
}

struct inode___generation { /* vmlinux.h lacks this field */
	__u32 i_generation;
} __attribute__((preserve_access_index));

static __always_inline void read_exe(struct task_struct *task, struct abi_program *exe)
{
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);

	exe->file.inode = BPF_CORE_READ(inode, i_ino);
	exe->file.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	exe->file.pad = 0;
	exe->generation = BPF_CORE_READ((struct inode___generation *)inode, i_generation);
	read_changed(inode, &exe->changed_s, &exe->changed_ns);
}

/* Moves a process's struct abi_process from `headless` to the task of the process's new main
 * thread. A thread that calls exec ends all other threads and takes the main thread's place, but
 * keeps its own task. The struct was kept with the old main thread's task, which is gone. */
static __always_inline struct abi_process *inherit(struct task_struct *task)
{
	__u32 pid = (__u32)task->tgid;
	struct abi_process *left = bpf_map_lookup_elem(&headless, &pid), *process = NULL;

	if (!left)
		return NULL;
	if (process_cpu(left->id)) { /* a dropped process may still have a note here */
		process = bpf_task_storage_get(&processes, task, left,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!process) /* from now on no call of the process is recorded */
			count(&processes_refused, 1);
	}
	bpf_map_delete_elem(&headless, &pid);
	return process;
}

/* Notes that a child of vfork, or of clone() with CLONE_VM alone, begins. What the child allocates
 * counts for its parent, but the child's CPU time is its own. User space must know of the child;
 * otherwise the parent would seem to be at rest. */
static __always_inline void begin_borrower(struct task_struct *child, __u32 process)
{
	struct abi_borrower borrower = {.process = process};
	__u32 pid = (__u32)child->tgid;

	if (bpf_map_update_elem(&borrowers, &pid, &borrower, BPF_ANY))
		count(&borrowers_lost, 1);
	count(&borrowers_changes, 1);
}

/* Notes that a borrower calls exec, or ends. task is the borrower's last thread. */
static __always_inline void end_borrower(struct task_struct *task)
{
	__u32 pid = (__u32)task->tgid;
	struct abi_borrower *borrower = bpf_map_lookup_elem(&borrowers, &pid);

	if (!borrower)
		return;
	/* + 1: the scheduler may have noted no time at all if the borrower lived only briefly */
	borrower->cpu_ns = cpu_ns(task) + 1;
	borrower->ended = 1;
	count(&borrowers_changes, 1);
}

static __always_inline int exec(struct task_struct *task, int old_pid)
{
	struct task_struct *leader = task->group_leader;
	struct abi_process *process;
	__u64 now = bpf_ktime_get_ns();
	struct abi_peak *peak;
	struct abi_program exe;
	bool fit, unknown, child = false;

	if (!leader)
		return 0;
	process = bpf_task_storage_get(&processes, leader, NULL, 0);
	if (!process && old_pid != task->tgid) {
		process = inherit(leader);
		/* a borrower is never in `headless`: if nothing was found there, the task may be a
		 * borrower */
		if (!process)
			end_borrower(task);
	}
	if (process && process->borrowed) {
		end_borrower(task);
		bpf_task_storage_delete(&processes, leader);
		process = NULL;
		child = selection.follow;
	}
	if (!process && !selection.dynamic && !child)
		return 0;
	read_exe(task, &exe);
	fit = fits(task, &exe, &unknown) || child;
	if (process && selection.dynamic && !selection.follow && !fit) {
		/* If `unknown` is true, user space makes the process a target again as soon as it
		 * finds that the new program fits. Until then, calls of the new program must not
		 * count for the old one. */
		tell(EVENT_EXIT, process, 0, task, &exe, now, false, 0);
		bpf_task_storage_delete(&processes, leader);
		process = NULL;
	}
	if (process) {
		process->exec_ns = now;
		peak = process_peak(process->id);
		if (peak)
			peak_exec(peak);
		bpf_map_delete_elem(&mappings, &process->id);
		tell(EVENT_EXEC, process, 0, task, &exe, now, old_pid != task->tgid, 0);
	} else if (fit) {
		process = begin_process(leader);
		if (process)
			tell(EVENT_NEW, process, 0, task, &exe, now, false, 0);
	} else if (unknown) {
		tell(EVENT_UNKNOWN, NULL, 0, task, &exe, now, false, 0);
	}
	return 0;
}

/* Handles an exec. It replaces the address space: blocks recorded before the exec are gone, and so
 * are the mappings of the old program's code. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_exec, struct task_struct *task, int old_pid)
{
	exec(task, old_pid);
	__sync_fetch_and_add(&changes, 1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_fork, struct task_struct *parent, struct task_struct *child)
{
	struct abi_process *theirs, *process;
	struct abi_mappings *known;
	struct abi_program exe = {};

	if (child->pid != child->tgid) /* a new thread, not a new process */
		return 0;
	theirs = process_of(parent);
	if (!theirs)
		return 0;
	if (child->mm == parent->mm) { /* a child of vfork: its allocations count for its parent */
		struct abi_process borrowed = *theirs;

		borrowed.borrowed = 1;
		if (bpf_task_storage_get(&processes, child, &borrowed,
					 BPF_LOCAL_STORAGE_GET_F_CREATE))
			begin_borrower(child, theirs->id);
		else /* without an entry, the child's end would not be noted */
			count(&borrowers_lost, 1);
		return 0;
	}
	if (!selection.follow && !selection.dynamic)
		return 0;
	process = begin_process(child);
	if (!process)
		return 0;
	/* The child has the same code in the same places. */
	known = bpf_map_lookup_elem(&mappings, &theirs->id);
	if (known)
		bpf_map_update_elem(&mappings, &process->id, known, BPF_ANY);
	tell(EVENT_FORK, process, theirs->id, child, &exe, bpf_ktime_get_ns(), false, 0);
	return 0;
}

/* Returns why a process ends: bits ABI_DEATH_... of abi_event.death. task is the process's last
 * thread. */
static __always_inline __u32 death_of(struct task_struct *task)
{
	return ((__u32)task->exit_code & ABI_DEATH_SIGNAL) |
	       (task->signal->oom_mm ? ABI_DEATH_OOM : 0);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	struct abi_process *process;
	struct abi_program exe = {};
	__u32 pid = (__u32)task->tgid;

	/* Other threads go on. One of these may call exec, and become the main thread:
	 * inherit(). */
	if (task->signal->live.counter) {
		if ((__u32)task->pid != pid || task->signal->flags & SIGNAL_GROUP_EXIT)
			return 0;
		process = process_of(task);
		if (!process || process->borrowed)
			return 0;
		if (bpf_map_update_elem(&headless, &pid, process, BPF_ANY))
			count(&processes_refused, 1);
		/* meanwhile the other threads may have ended, too, or memtrace may have released
		 * the process */
		if (!task->signal->live.counter || !process_of(task))
			bpf_map_delete_elem(&headless, &pid);
		tell(EVENT_HEADLESS, process, 0, task, &exe, bpf_ktime_get_ns(), false, 0);
		return 0;
	}
	/* this is done even if the process is not traced any more: the next process with this pid
	 * must not inherit the entry */
	bpf_map_delete_elem(&headless, &pid);
	process = process_of(task);
	if (!process)
		return 0;
	if (process->borrowed)
		end_borrower(task);
	else
		tell(EVENT_EXIT, process, 0, task, &exe, bpf_ktime_get_ns(), false, death_of(task));
	return 0;
}

/* --- victims --- */

/* The tracepoint's event, which has this field since Linux 6.9. From then on the tracepoint gives
 * the victim's task; before, it gave the victim's pid. */
struct trace_event_raw_mark_victim___task {
	unsigned long anon_rss;
} __attribute__((preserve_access_index));

struct percpu_counter___rss {
	__s64 count;
} __attribute__((preserve_access_index));

struct mm_struct___percpu { /* since Linux 6.2 */
	struct percpu_counter___rss rss_stat[4];
} __attribute__((preserve_access_index));

struct atomic64___rss {
	__s64 counter;
} __attribute__((preserve_access_index));

struct mm_rss_stat___old {
	struct atomic64___rss count[4];
} __attribute__((preserve_access_index));

struct mm_struct___old {
	struct mm_rss_stat___old rss_stat;
} __attribute__((preserve_access_index));

#define RSS_ANON   1 /* MM_ANONPAGES of include/linux/mm_types_task.h */
#define PAGE_BYTES 4096

/* Returns the task's anonymous memory in bytes. The figure is as exact as in the kernel's own
 * message about the kill. */
static __always_inline __u64 anon_bytes(struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	__s64 pages = 0;

	if (!mm)
		return 0;
	if (bpf_core_field_exists(struct mm_struct___percpu, rss_stat[RSS_ANON].count))
		pages = BPF_CORE_READ((struct mm_struct___percpu *)mm, rss_stat[RSS_ANON].count);
	else if (bpf_core_field_exists(struct mm_struct___old, rss_stat.count[RSS_ANON].counter))
		pages = BPF_CORE_READ((struct mm_struct___old *)mm,
				      rss_stat.count[RSS_ANON].counter);
	return pages > 0 ? (__u64)pages * PAGE_BYTES : 0;
}

/* Reports a victim (EVENT_VICTIM). A raw tracepoint needs no tracefs. Its program may not look up
 * the victim's struct abi_process, so the event names the victim by its pid. */
SEC("raw_tp/mark_victim")
int task_victim(struct bpf_raw_tracepoint_args *ctx)
{
	struct abi_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	struct task_struct *task = NULL;
	__u32 tgid;

	if (!event) {
		count(&events_lost, 1);
		return 0;
	}
	if (bpf_core_field_exists(struct trace_event_raw_mark_victim___task, anon_rss)) {
		task = (struct task_struct *)ctx->args[0];
		tgid = (__u32)BPF_CORE_READ(task, tgid);
	} else {
		tgid = (__u32)ctx->args[0];
		/* usually the victim is the process that asked for memory */
		if (bpf_get_current_pid_tgid() >> 32 == tgid)
			task = (struct task_struct *)bpf_get_current_task();
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = EVENT_VICTIM;
	event->tgid = tgid;
	event->time_ns = bpf_ktime_get_ns();
	event->anon_bytes = task ? anon_bytes(task) : 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}
