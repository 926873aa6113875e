/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups, version 2: which processes belong together. memtrace's BPF programs compare a
 * group's number with bpf_get_current_ancestor_cgroup_id(level). struct cgroup has this number and
 * this level. Parts of the tree may be delegated to other users. These users choose the names of
 * their groups, so a name may have any bytes but '/' and newline. */
#ifndef MEMTRACE_PROC_CGROUP_H
#define MEMTRACE_PROC_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct cgroup {
	uint64_t id;	/* the inode number of its directory; the root's is 1 */
	uint32_t level; /* depth below the root; the root's is 0 */
	char *path;	/* PATH of "0::PATH" in /proc/PID/cgroup, such as "/system.slice/x"; the
			 * root's is "/"; freed with free() */
};

/* Finds the cgroup called `path`: "/system.slice/x" as in /proc/PID/cgroup, or the name of the
 * cgroup's directory, "/sys/fs/cgroup/system.slice/x". 0, or negative errno with err set. -EINVAL:
 * the path is not absolute or has a ".." in it; -ENODEV: /proc/self/mountinfo shows no mount of the
 * whole tree of cgroup2; -ENOENT: there is no such cgroup; -ENOTDIR: the path names something else,
 * such as a cgroup of version 1. */
int cgroup__open(const char *path, struct cgroup *ret_cgroup, struct error *err);

/* Finds the cgroup of the container with this id. The id has at least 8 characters of
 * [0-9a-zA-Z_.-]. The name of the cgroup's directory is the id, or contains it (docker-ID.scope,
 * crio-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, lxc.payload.ID, ID). If there are
 * several such cgroups, the one nearest to the root is taken. The cgroups of the container's
 * monitor (libpod-conmon-ID.scope, lxc.monitor.ID) do not count. Looks at 100,000 cgroups at most,
 * 16 levels deep. 0, or negative errno with err set. -EINVAL: this is no id; -ENODEV: as for
 * cgroup__open(); -ENOENT: there is no such cgroup; -ENOTUNIQ: several are equally near to the
 * root, and err lists some; -E2BIG: there are too many cgroups to search. */
int cgroup__find_container(const char *id, struct cgroup *ret_cgroup, struct error *err);

/* Is the process in the cgroup or in one below it, according to /proc/PID/cgroup? false when there
 * is no such process. */
bool cgroup__holds(const struct cgroup *cgroup, pid_t pid);

#endif
