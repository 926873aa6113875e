// SPDX-License-Identifier: BSD-2-Clause
#include "proc/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define HEX	   "0123456789abcdef"
#define MOST_LINES 64 /* lines of /proc/PID/cgroup: one for each hierarchy */

/* Finds "pod" with a uid behind it. The uid has dashes, or underscores in names of systemd's
 * slices. */
static void find_pod(const char *name, char ret[CONTAINER_POD + 1])
{
	for (const char *at = strstr(name, "pod"); at; at = strstr(at + 1, "pod")) {
		const char *uid = at + strlen("pod");
		size_t len = strspn(uid, HEX "-_");

		if (len != CONTAINER_POD)
			continue;
		for (size_t i = 0; i < len; i++)
			ret[i] = uid[i] == '_' ? '-' : uid[i];
		ret[len] = '\0';
		return;
	}
}

bool container__parse(const char *path, struct container *ret)
{
	*ret = (struct container){};
	for (const char *at = path; *at;) {
		size_t len = strspn(at, HEX);

		if (len == CONTAINER_ID) {
			memcpy(ret->id, at, len);
			ret->id[len] = '\0';
			find_pod(path, ret->pod);
			return true;
		}
		at += len ?: 1;
	}
	return false;
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
		/* number:controllers:path */
		const char *colon = strchr(line, ':');

		colon = colon ? strchr(colon + 1, ':') : NULL;
		if (colon && container__parse(colon + 1, ret))
			return true;
	}
	return false;
}
