// SPDX-License-Identifier: BSD-2-Clause
#include "agent/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "encode/encode.h"

int packet__pair(int ret[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) ? -errno
											  : 0;
}

int packet__send(int fd, const void *bytes, size_t size, int memory)
{
	union {
		struct cmsghdr header; /* aligns `bytes` */
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec piece = {(void *)bytes, size};
	struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1};
	ssize_t n;

	if (memory >= 0) {
		struct cmsghdr *c;

		packet.msg_control = control.bytes;
		packet.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&packet);
		*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(sizeof(int))};
		memcpy(CMSG_DATA(c), &memory, sizeof(int));
	}
	do
		n = sendmsg(fd, &packet, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	/* ETOOMANYREFS: too many sent descriptors wait for the other side to receive them */
	return errno == ETOOMANYREFS ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
}

int packet__receive(int fd, void *bytes, size_t size, int *ret_memory)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec piece = {bytes, size};
	struct msghdr packet = {.msg_iov = &piece,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	*ret_memory = -1;
	/* ECONNRESET is reported once, if the other side ended before it had read all packets from
	 * this side. Packets from the other side may still wait to be read. */
	do
		n = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (!n)
		return -EPIPE;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&packet); c; c = CMSG_NXTHDR(&packet, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(ret_memory, CMSG_DATA(c), sizeof(int));
	if ((size_t)n == size && !(packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 1;
	if (*ret_memory >= 0)
		close(*ret_memory);
	*ret_memory = -1;
	return -EPROTO;
}

int packet__of_profile(const struct profile *profile, int *ret_memory)
{
	_cleanup_close_ int memory = memfd_create("memtrace profile", MFD_CLOEXEC);
	struct sink sink;
	FILE *stream;
	int copy, rc;

	if (memory < 0)
		return -errno;
	copy = fcntl(memory, F_DUPFD_CLOEXEC, 0);
	stream = copy < 0 ? NULL : fdopen(copy, "w");
	if (!stream) {
		rc = -errno;
		if (copy >= 0)
			close(copy);
		return rc;
	}
	sink = sink__to_stream(stream);
	rc = encode_pprof(profile, &sink);
	if (fclose(stream) && !rc)
		rc = -errno;
	if (rc)
		return rc;
	*ret_memory = memory;
	memory = -1;
	return 0;
}
