/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between processes of the agent, each perhaps with a file in memory. */
#ifndef MEMTRACE_AGENT_PACKET_H
#define MEMTRACE_AGENT_PACKET_H

#include <stddef.h>

#include "profile/profile.h"

/* Makes a pair of SOCK_SEQPACKET sockets. Both are closed on exec, and neither blocks. 0 or
 * negative errno. */
int packet__pair(int ret[2]);

/* Sends a datagram. memory: a descriptor to send along, which the caller still owns; -1: none.
 * Returns 0; -EAGAIN: the other side has not read enough of what was sent; -EPIPE: the other side
 * is gone; or another negative errno. */
int packet__send(int fd, const void *bytes, size_t size, int memory);

/* Receives the next datagram, which must have this size. *ret_memory: the descriptor that came
 * along, which the caller owns; -1: none. Returns 1; 0: there is no datagram now; -EPIPE: the other
 * side is gone; -EPROTO: the datagram has another size; or another negative errno. */
int packet__receive(int fd, void *bytes, size_t size, int *ret_memory);

/* Makes a file in memory with the profile as encode_pprof() writes it. The caller owns the
 * descriptor. 0 or negative errno. */
int packet__of_profile(const struct profile *profile, int *ret_memory);

#endif
