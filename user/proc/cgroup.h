/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups, version 2: which processes belong together. The kernel's programs compare the
 * number of a group with bpf_get_current_ancestor_cgroup_id(level); here are both. Names of groups
 * may come from whoever a part of the tree was delegated to: any bytes but '/' and newline. */
#ifndef MEMTRACE_PROC_CGROUP_H
#define MEMTRACE_PROC_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct cgroup {
	uint64_t id;	/* the inode number of its directory; the root's is 1 */
	uint32_t level; /* depth below the root, whose own is 0 */
	char *path;	/* as "0::PATH" in /proc/PID/cgroup has it: "/system.slice/x"; the root's
			 * is "/"; owned */
};

/* The cgroup called path: "/system.slice/x" as in /proc/PID/cgroup, or the name of its directory,
 * "/sys/fs/cgroup/system.slice/x". 0, or negative errno with err saying so: -EINVAL path is not
 * absolute or has a ".." in it; -ENODEV no cgroup2 file system is mounted here from its root (the
 * one that /proc/self/mountinfo tells of is taken); -ENOENT no such cgroup; -ENOTDIR the path is
 * something else's, such as a cgroup of version 1. */
int cgroup__open(const char *path, struct cgroup *ret_cgroup, struct error *err);

/* The cgroup of the container id: at least 8 characters of [0-9a-zA-Z_.-], all or part of the
 * directory's name (docker-ID.scope, crio-ID.scope, cri-containerd-ID.scope, libpod-ID.scope,
 * lxc.payload.ID, ID). Of several the one nearest to the root, without those of the container's
 * monitor (libpod-conmon-ID.scope, lxc.monitor.ID). Looks at 100,000 cgroups at most, 16 levels
 * deep. 0, or negative errno with err saying so: -EINVAL not an id; -ENODEV as above; -ENOENT none;
 * -ENOTUNIQ several equally near, of which err lists some; -E2BIG too many cgroups to tell. */
int cgroup__find_container(const char *id, struct cgroup *ret_cgroup, struct error *err);

/* Is the process in the cgroup or one below it, by /proc/PID/cgroup? false when there is no such
 * process. */
bool cgroup__holds(const struct cgroup *cgroup, pid_t pid);

/* Frees what it holds; nothing to do on a zeroed one. */
void cgroup__clear(struct cgroup *cgroup);

#endif
