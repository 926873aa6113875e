/* SPDX-License-Identifier: BSD-2-Clause */
/* The container of a process, read from the path of the process's cgroup. Runtimes name the cgroup
 * of a container by the container's id, which is 64 hexadecimal digits. The kubelet puts this
 * cgroup below a cgroup that is named by the pod's uid:
 *
 *	/kubepods/burstable/pod<uid>/<id>                                        cgroupfs
 *	/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope        systemd
 *	/docker/<id>, /system.slice/docker-<id>.scope, /machine.slice/libpod-<id>.scope
 *
 * If the path has several ids, the first one behind the pod's uid counts. If there is no pod, the
 * first one counts. The path has no names of pods or namespaces. A process that may make cgroups
 * can choose the path, so the target can forge id and pod. But id and pod contain only the
 * characters that the definitions below name. */
#ifndef MEMTRACE_PROC_CONTAINER_H
#define MEMTRACE_PROC_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

#define CONTAINER_ID  64 /* hexadecimal digits */
#define CONTAINER_POD 36 /* at most this many hexadecimal digits and dashes */

/* The container's id and its pod's uid, as texts; "": there is none. */
struct container {
	char id[CONTAINER_ID + 1], pod[CONTAINER_POD + 1];
};

/* Parses the path of a cgroup, which begins at the root of the tree. False: the cgroup is not a
 * container's. */
bool container__parse(const char *path, struct container *ret);

/* Finds the container of a process: the first cgroup in /proc/PID/cgroup that is a container's.
 * False: there is none, or the process is gone; *ret is empty then. */
bool container__of(pid_t pid, struct container *ret);

#endif
