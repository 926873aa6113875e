// SPDX-License-Identifier: BSD-2-Clause
#include "agent/loopback.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

bool loopback__is_name(const char *host, size_t len)
{
	return (len == 9 && !strncasecmp(host, "localhost", len)) ||
	       (len == 5 && !strncmp(host, "[::1]", len)) ||
	       (len > 4 && !strncmp(host, "127.", 4) && strspn(host, "0123456789.") == len);
}

bool loopback__exposes(const char *url)
{
	const char *host = url + strlen("http://"), *rest;
	size_t len;

	if (strncmp(url, "http://", strlen("http://")))
		return false;
	len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
	if (len > strlen(host) || !loopback__is_name(host, len))
		return true;
	/* Only a port may follow. In http://localhost:80@example.org the host is behind the "@". */
	rest = host + len;
	if (*rest == ':')
		rest += 1 + strspn(rest + 1, "0123456789");
	return *rest && !strchr("/?#", *rest);
}

bool loopback__is_address(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ((const uint8_t *)&((const struct sockaddr_in *)(const void *)address)
				->sin_addr)[0] == 127;
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(
		       &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}
