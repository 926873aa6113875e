/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and addresses that lead to this host only. */
#ifndef MEMTRACE_AGENT_LOOPBACK_H
#define MEMTRACE_AGENT_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Is host (len characters, without a port) localhost, 127.x.x.x or [::1]? Other names may lead to
 * this host, too, but whoever controls them can change that. */
bool loopback__is_name(const char *host, size_t len);

/* Would a secret that is sent to this URL leave the host unencrypted? True if the URL begins with
 * http:// and its host is not one of the names above. */
bool loopback__exposes(const char *url);

/* Is the address 127.x.x.x or ::1? */
bool loopback__is_address(const struct sockaddr *address);

#endif
