// SPDX-License-Identifier: BSD-2-Clause
#include "agent/guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define SCHEME "Bearer "

int guard__to_memory(const struct guard *g)
{
	const char *const texts[] = {g->token ?: "", g->cert ?: "", g->key ?: ""};
	_cleanup_close_ int fd = memfd_create("memtrace guard", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		size_t len = strlen(texts[i]) + 1; /* with its NUL */
		ssize_t n = write(fd, texts[i], len);

		if (n != (ssize_t)len)
			return n < 0 ? -errno : -ENOSPC;
	}
	return take_fd(&fd);
}

int guard__from_memory(int fd, struct guard *ret)
{
	struct guard g = {};
	char **const texts[] = {&g.token, &g.cert, &g.key};
	char bytes[GUARD_TOKEN_MOST + 2 * GUARD_PEM_MOST + 3], *at = bytes;
	ssize_t n = io__pread(fd, bytes, sizeof(bytes), 0);

	if (n < 0)
		return (int)n;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char *end = memchr(at, '\0', (size_t)(bytes + n - at));

		if (!end || (end > at && !(*texts[i] = strdup(at)))) {
			guard__clear(&g);
			return end ? -ENOMEM : -EPROTO;
		}
		at = end + 1;
	}
	explicit_bzero(bytes, (size_t)n);
	*ret = g;
	return 0;
}

bool guard__admits(const struct guard *g, const char *authorization)
{
	size_t len, given;
	unsigned char differ;

	if (!g->token)
		return true;
	if (!authorization || strncasecmp(authorization, SCHEME, strlen(SCHEME)))
		return false;
	authorization += strlen(SCHEME);
	len = strlen(g->token);
	given = strlen(authorization);
	differ = given != len;
	for (size_t i = 0; i < given; i++)
		differ |= (unsigned char)(authorization[i] ^ g->token[i % len]);
	return !differ;
}

void guard__clear(struct guard *g)
{
	char *texts[] = {g->token, g->cert, g->key};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (texts[i])
			explicit_bzero(texts[i], strlen(texts[i]));
		free(texts[i]);
	}
	*g = (struct guard){};
}
