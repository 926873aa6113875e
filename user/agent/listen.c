// SPDX-License-Identifier: BSD-2-Clause
#include "agent/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/loopback.h"
#include "base/cleanup.h"

#define BACKLOG	    128
#define UNIX_PREFIX "unix:"

/* Splits "host:port", "port" or ":port". false: the text has none of these forms. */
static bool split(const char *address, char host[256], char port[16])
{
	const char *colon = strrchr(address, ':'), *number = colon ? colon + 1 : address;
	size_t len = colon ? (size_t)(colon - address) : 0;

	if (!*number || strspn(number, "0123456789") != strlen(number) || strlen(number) > 5 ||
	    strtoul(number, NULL, 10) > UINT16_MAX || len >= 256)
		return false;
	if (len > 1 && address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
		if (!len)
			return false;
	}
	memcpy(host, address, len);
	host[len] = '\0';
	if (!len)
		strcpy(host, "127.0.0.1");
	strcpy(port, number);
	return true;
}

int listen_address__parse(const char *text, struct listen_address *ret, struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};
	struct addrinfo *found;
	char host[256], port[16];

	if (!strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX))) {
		const char *path = text + strlen(UNIX_PREFIX);
		size_t len = strlen(path);

		if (*path != '/' || path[len - 1] == '/' || len >= PATH_MAX)
			return error__set(err, -EINVAL,
					  "'%s' is not a unix socket; "
					  "an example is unix:/run/memtrace/socket",
					  text);
		*ret = (struct listen_address){.path = path};
		return 0;
	}
	if (!split(text, host, port) ||
	    getaddrinfo(!strcmp(host, "localhost") ? "127.0.0.1" : host, port, &hints, &found))
		return error__set(
			err, -EINVAL,
			"'%s' is not an address with a port; an example is 127.0.0.1:" AGENT_PORT,
			text);
	*ret = (struct listen_address){.len = found->ai_addrlen,
				       .is_for_other_hosts = !loopback__is_address(found->ai_addr)};
	memcpy(&ret->address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int open_tcp(const char *text, const struct listen_address *address, struct listener *ret,
		    struct error *err)
{
	_cleanup_close_ int fd =
		socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (const struct sockaddr *)&address->address, address->len) ||
	    listen(fd, BACKLOG))
		return error__set(err, -errno, "cannot listen on %s: %s", text, strerror(errno));
	*ret = (struct listener){.fd = take_fd(&fd), .directory = -1};
	return 0;
}

/* Removes the socket of this address if nobody listens on it. 0: the name is free. */
static int remove_stale(const struct sockaddr_un *address, int directory, const char *name)
{
	_cleanup_close_ int probe = -1;
	struct stat st;

	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return -errno;
	if (!connect(probe, (const struct sockaddr *)address, sizeof(*address)))
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return errno == EAGAIN ? -EADDRINUSE : -errno; /* EAGAIN: its backlog is full */
	return unlinkat(directory, name, 0) ? -errno : 0;
}

/* The directory is opened once, and the socket is named relative to it. So even if directories are
 * renamed meanwhile, the stale socket is removed from the directory in which the new one is
 * made. */
static int open_unix(const char *path, struct listener *ret, struct error *err)
{
	_cleanup_close_ int fd = -1, directory = -1;
	const char *name = strrchr(path, '/') + 1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char parent[PATH_MAX];
	struct stat st;
	mode_t mask;
	int rc;

	snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
	directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return error__set(err, -errno, "cannot listen on %s: %s: %s", path, parent,
				  strerror(errno));
	if (snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory,
		     name) >= (int)sizeof(address.sun_path))
		return error__set(err, -ENAMETOOLONG, "the name of %s is too long for a socket",
				  path);
	rc = remove_stale(&address, directory, name);
	if (rc == -EEXIST)
		return error__set(err, rc, "cannot listen on %s: this is not a socket", path);
	fd = rc ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (!rc && fd < 0)
		rc = -errno;
	if (!rc) {
		mask = umask(0117); /* the socket's mode becomes 0660 */
		rc = bind(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
		umask(mask);
	}
	if (rc || listen(fd, BACKLOG) || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW)) {
		rc = rc ?: -errno;
		return error__set(err, rc, "cannot listen on %s: %s", path, strerror(-rc));
	}
	*ret = (struct listener){.fd = take_fd(&fd),
				 .directory = take_fd(&directory),
				 .name = name,
				 .inode = st.st_ino};
	return 0;
}

int listener__open(const char *text, struct listener *ret, struct error *err)
{
	struct listen_address address;
	int rc = listen_address__parse(text, &address, err);

	if (rc)
		return rc;
	return address.path ? open_unix(address.path, ret, err)
			    : open_tcp(text, &address, ret, err);
}

/* May the two addresses overlap, so that a listener on one prevents a listener on the other? */
static bool clash(const char *a, const char *b)
{
	struct listen_address of[2];
	struct error ignored = {};
	char host[256], ports[2][16];

	if (listen_address__parse(a, &of[0], &ignored) ||
	    listen_address__parse(b, &of[1], &ignored))
		return false;
	if (of[0].path && of[1].path)
		return !strcmp(of[0].path, of[1].path);
	return !of[0].path && !of[1].path && split(a, host, ports[0]) && split(b, host, ports[1]) &&
	       strtoul(ports[0], NULL, 10) == strtoul(ports[1], NULL, 10);
}

int listener__try(const char *text, const char *const *held, size_t n_held, struct error *err)
{
	struct listener listener;
	struct error why = {};
	int rc = listener__open(text, &listener, &why);

	if (!rc)
		listener__close(&listener);
	for (size_t i = 0; rc == -EADDRINUSE && i < n_held; i++)
		if (clash(text, held[i]))
			rc = 0;
	if (rc)
		*err = why;
	return rc;
}

void listener__close(struct listener *l)
{
	struct stat st;

	close(l->fd);
	if (l->directory < 0)
		return;
	/* if somebody has replaced the socket, the new socket is not removed */
	if (!fstatat(l->directory, l->name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == l->inode)
		unlinkat(l->directory, l->name, 0);
	close(l->directory);
}
