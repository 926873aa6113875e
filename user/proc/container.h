/* SPDX-License-Identifier: BSD-2-Clause */
/* In which container a process is, as far as the path of its cgroup tells. Runtimes name the cgroup
 * of a container by its id, which is 64 hexadecimal digits; the kubelet has it below one named by
 * the pod's uid:
 *
 *	/kubepods/burstable/pod<uid>/<id>                                        cgroupfs
 *	/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope        systemd
 *	/docker/<id>, /system.slice/docker-<id>.scope, /machine.slice/libpod-<id>.scope
 *
 * The path has no names of pods or namespaces. A process that may make cgroups can choose the path,
 * so the text is a claim of the target's; but it has no other characters than those below. */
#ifndef MEMTRACE_PROC_CONTAINER_H
#define MEMTRACE_PROC_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

#define CONTAINER_ID  64 /* hexadecimal digits */
#define CONTAINER_POD 36 /* hexadecimal digits, and dashes between */

/* Text; "": there is none. */
struct container {
	char id[CONTAINER_ID + 1], pod[CONTAINER_POD + 1];
};

/* path: of a cgroup, from its root. False: of no container. */
bool container__parse(const char *path, struct container *ret);

/* Of the process, by /proc/PID/cgroup: the first of its cgroups that is a container's. False: none
 * is, or the process is gone; *ret is empty then. */
bool container__of(pid_t pid, struct container *ret);

#endif
