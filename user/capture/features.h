/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel offers for probes. memtrace tries each feature, and never relies on the kernel's
 * version. */
#ifndef MEMTRACE_CAPTURE_FEATURES_H
#define MEMTRACE_CAPTURE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The kinds of probe, best first. */
enum probe_kind {
	PROBE_SESSION, /* one program for entry and return, which decides at each call whether the
			* return is trapped (Linux 6.13) */
	PROBE_MULTI,   /* one link for many entries, another for their returns (Linux 6.6) */
	PROBE_PERF,    /* one perf event per probe (Linux 5.15, for the probe's cookie) */
	PROBE_KINDS
};

/* "session", "multi", "perf". */
const char *probe_kind__name(enum probe_kind kind);

struct features {
	bool btf;	       /* /sys/kernel/btf/vmlinux is there */
	int kind[PROBE_KINDS]; /* 0: works; else the negative errno of the step that failed */
	/* uprobe_multi with a pid sees only one thread of the process, so PROBE_MULTI is not used
	 * (a bug of 6.6.0-6.6.34, 6.7, 6.8 and 6.9.0-6.9.4) */
	bool multi_one_thread;
	bool tables; /* bpf_loop is there (5.17): needed to unwind stacks by tables */
	/* a return probe kills a process if its seccomp filter does not allow uretprobe, the
	 * kernel's own system call for return probes (a bug of 6.11 to 6.13) */
	bool seccomp_kills;
	bool shadow_stacks_kill; /* features__shadow_stacks_kill() */
	bool init_pid_ns;	 /* memtrace is in the initial pid namespace */
};

/* Tries all features, in some tens of milliseconds, with probes on memtrace's own code. */
void features__probe(struct features *ret);

/* Does memtrace see the same pids as the kernel side? */
bool features__init_pid_ns(void);

/* Tries only features.tables, and returns it. */
bool features__tables(void);

/* Tries only features.seccomp_kills, and returns it. The trial runs on a child of memtrace's
 * own. */
bool features__seccomp_kills(void);

/* Does a return probe kill a process that has a shadow stack? True for kernels from 6.6 to 6.10 on
 * a CPU with shadow stacks (user_shstk in /proc/cpuinfo). These kernels give processes shadow
 * stacks, but do not update them when a return address changes. Their lists of symbols lack
 * shstk_update_last_frame. The function only reads the list of symbols and /proc/cpuinfo, and runs
 * no trial. Source: arch/x86/kernel/shstk.c. */
bool features__shadow_stacks_kill(void);

/* Why perf uprobes are refused with -EACCES: the fix of CVE-2025-38466 (5.10.240, 5.15.189,
 * 6.1.146, 6.6.99, 6.12.39, 6.15.7). */
#define PERF_REFUSED "perf uprobes need CAP_SYS_ADMIN (since the fix of CVE-2025-38466)"

/* Does a link of uprobe_multi look for its probes by its path when it removes them? On overlayfs
 * the path leads to another file once a container has changed the file. The kernel then frees the
 * memory of probes that are still in place (6.6 to 6.11). Since 6.12 a link remembers its probes.
 * Source: bpf_uprobe_unregister() of kernel/trace/bpf_trace.c. */
bool features__multi_loses_probes(void);

/* Tries one kind of probe, and returns features.kind[kind]. */
int features__try_kind(enum probe_kind kind);

/* Creates a uprobe_multi or uprobe_session link over `cnt` file offsets of `path` for process pid.
 * `ret_probe`: the probes are on return instead of entry. `semaphores`: for each probe the file
 * offset of its semaphore, or 0; NULL: no probe has one. While a probe is in place, the kernel adds
 * 1 to its semaphore, a 16-bit number in the memory of the process. memtrace makes the system call
 * itself: libbpf has these links only since 1.3 and 1.6, and Debian 12 has libbpf 1.1. A
 * descriptor, or negative errno. Source: struct bpf_attr of linux/bpf.h. */
int uprobe_multi_link(int prog_fd, enum probe_kind kind, bool ret_probe, const char *path,
		      const uint64_t *offs, const uint64_t *cookies, const uint64_t *semaphores,
		      uint32_t cnt, pid_t pid);

/* Creates a link for one offset through a perf event, whose config1 is the path and config2 the
 * offset. `semaphore`: the file offset of the probe's semaphore, below 2^32, or 0. Returns the
 * link's descriptor, and the event's in *ret_event, or negative errno. Closing both descriptors
 * takes the probe out. */
int uprobe_perf_link(int prog_fd, bool ret_probe, const char *path, uint64_t off, uint64_t cookie,
		     uint64_t semaphore, pid_t pid, int *ret_event);

#define ATTACH_TYPE_UPROBE_MULTI   48 /* BPF_TRACE_UPROBE_MULTI */
#define ATTACH_TYPE_UPROBE_SESSION 57 /* BPF_TRACE_UPROBE_SESSION */

#endif
