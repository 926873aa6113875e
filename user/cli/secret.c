// SPDX-License-Identifier: BSD-2-Clause
#include "cli/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/cli.h"

int secret__read(const char *command, const char *path, bool guarded, size_t max, char **ret)
{
	/* O_NONBLOCK: open() of a FIFO would wait for its other end */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t len;
	int rc = fd < 0 || fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;

	if (!rc && guarded && st.st_mode & (S_IROTH | S_IWOTH)) {
		complain("%s: everybody may read or write %s: chmod o= %s", command, path, path);
		return EXIT_FAILED;
	}
	if (!rc)
		rc = io__read_all(fd, max, &text, &len);
	if (!rc && strlen(text) != len)
		rc = -EINVAL;
	if (rc) {
		complain("%s: cannot read %s: %s", command, path, strerror(-rc));
		return EXIT_FAILED;
	}
	*ret = text;
	text = NULL;
	return 0;
}

int secret__read_token(const char *command, const char *path, bool guarded, size_t least,
		       size_t max, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int rc = secret__read(command, path, guarded, max, &text);
	size_t len;

	if (rc)
		return rc;
	len = strlen(text);
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	if (len < least || strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"0123456789-._~+/=") != len) {
		complain("%s: %s must have one bearer token: %zu or more letters, digits and "
			 "-._~+/=",
			 command, path, least);
		return EXIT_FAILED;
	}
	*ret = text;
	text = NULL;
	return 0;
}
