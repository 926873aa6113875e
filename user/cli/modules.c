// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/cli.h"

#define MAX_FILE (1 << 20)

static int read_modules(const char *path, struct modules **ret, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = malloc(MAX_FILE + 1);
	ssize_t len;

	if (fd < 0)
		return error__set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (!text)
		return error__set(err, -ENOMEM, "cannot read %s: out of memory", path);
	len = io__read(fd, text, MAX_FILE + 1);
	if (len < 0)
		return error__set(err, (int)len, "cannot read %s: %s", path, strerror((int)-len));
	if (len > MAX_FILE)
		return error__set(err, -EFBIG,
				  "%s is larger than 1 MiB: this is not a file of rules", path);
	return modules__parse(path, text, (size_t)len, ret, err);
}

int load_modules(const char *path, struct modules **ret)
{
	struct error err = {};

	modules__free(*ret);
	*ret = NULL;
	return read_modules(path, ret, &err) ? fail(&err) : 0;
}
