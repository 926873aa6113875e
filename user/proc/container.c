// SPDX-License-Identifier: BSD-2-Clause
#include "proc/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define HEX	   "0123456789abcdef"
#define MOST_LINES 64 /* lines of /proc/PID/cgroup that are read: one for each hierarchy */

#define DIGITS 32 /* digits of a uid without dashes */

/* Finds "pod" with a uid behind it, and copies the uid. In names of systemd's slices the uid has
 * underscores instead of dashes. The uid of a static pod is a hash without dashes. Returns what
 * follows the uid; NULL: there is no pod. */
static const char *find_pod(const char *name, char ret[CONTAINER_POD + 1])
{
	for (const char *at = strstr(name, "pod"); at; at = strstr(at + 1, "pod")) {
		const char *uid = at + strlen("pod");
		size_t len = strspn(uid, HEX "-_");

		if (len != CONTAINER_POD && (len != DIGITS || strspn(uid, HEX) != len))
			continue;
		for (size_t i = 0; i < len; i++)
			ret[i] = uid[i] == '_' ? '-' : uid[i];
		ret[len] = '\0';
		return uid + len;
	}
	return NULL;
}

/* Finds the first id in the path, and copies it. False: there is none. */
static bool find_id(const char *path, char ret[CONTAINER_ID + 1])
{
	for (const char *at = path; *at;) {
		size_t len = strspn(at, HEX);

		if (len == CONTAINER_ID) {
			memcpy(ret, at, len);
			ret[len] = '\0';
			return true;
		}
		at += len ?: 1;
	}
	return false;
}

/* The id of the pod's container stands behind the pod in the path. If the pod's machine is a
 * container itself, the id of the machine stands before the pod. */
bool container__parse(const char *path, struct container *ret)
{
	const char *end;

	*ret = (struct container){};
	end = find_pod(path, ret->pod);
	if (end && find_id(end, ret->id))
		return true;
	ret->pod[0] = '\0';
	return find_id(path, ret->id);
}

bool container__of(pid_t pid, struct container *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	char path[32];

	*ret = (struct container){};
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	file = fopen(path, "re");
	for (int i = 0; file && i < MOST_LINES && getline(&line, &room, file) > 0; i++) {
		/* the line has the form "number:controllers:path" */
		const char *colon = strchr(line, ':');

		colon = colon ? strchr(colon + 1, ':') : NULL;
		if (colon && container__parse(colon + 1, ret))
			return true;
	}
	return false;
}
