// SPDX-License-Identifier: BSD-2-Clause
#include "agent/feed.h"

#include "agent/packet.h"

int feed__pair(int ret[2])
{
	return packet__pair(ret);
}

int feed__send(int fd, const struct feed_message *message, int memory)
{
	return packet__send(fd, message, sizeof(*message), memory);
}

int feed__receive(int fd, struct feed_message *ret, int *ret_memory)
{
	return packet__receive(fd, ret, sizeof(*ret), ret_memory);
}
