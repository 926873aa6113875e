// SPDX-License-Identifier: BSD-2-Clause
#include "cli/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

int notify__say(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	socklen_t size;
	size_t len;

	if (!path || !*path)
		return 1;
	len = strlen(path);
	if ((*path != '/' && *path != '@') || len >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, path, len);
	if (*path == '@') /* an address in the abstract namespace */
		address.sun_path[0] = '\0';
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*path == '/'));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address, size) <
	    0)
		return -errno;
	return 0;
}

int notify__say_reloading(void)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 clock__now_ns(CLOCK_MONOTONIC) / 1000);
	return notify__say(text);
}

double notify__watchdog_s(void)
{
	const char *microseconds = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	char *end;
	double s;

	if (!microseconds || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	s = strtod(microseconds, &end) / 1e6 / 2;
	return end != microseconds && !*end && s > 0 ? s : 0;
}
