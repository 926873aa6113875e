// SPDX-License-Identifier: BSD-2-Clause
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *advice(int code)
{
	switch (code) {
	case -ENOSPC:
	case -EDQUOT:
		return ": free some space there, or write to another place";
	case -EROFS:
	case -EACCES:
	case -EPERM:
		return ": write to a place where you may create files";
	case -ENOENT:
	case -ENOTDIR:
		return ": create the directory first, or write to another place";
	default:
		return "";
	}
}

static int fail(struct error *err, int code, const char *path)
{
	return error__set(err, code, "cannot write %s: %s%s", path, strerror(-code), advice(code));
}

int outfile__open(struct outfile *out, const char *path, struct error *err)
{
	struct stat st;
	int fd, code;

	/* rename() would replace a device or a FIFO. On a directory it would fail, but late. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return error__set(err, -EEXIST,
				  "cannot write %s: a %s of that name exists: choose another name",
				  path, S_ISDIR(st.st_mode) ? "directory" : "special file");
	out->path = strdup(path);
	if (!out->path || asprintf(&out->temp, "%s.XXXXXX", path) < 0) {
		out->temp = NULL;
		code = -ENOMEM;
		goto fail;
	}
	fd = mkostemp(out->temp, O_CLOEXEC);
	if (fd < 0) {
		code = -errno;
		goto fail;
	}
	out->stream = fdopen(fd, "w");
	if (!out->stream) {
		code = -errno;
		close(fd);
		unlink(out->temp);
		goto fail;
	}
	/* mkstemp() makes the file with mode 0600. A profile holds addresses and names, but no
	 * other secrets. So it gets the mode that the umask gives any new file. */
	mode_t mask = umask(0);

	umask(mask);
	if (fchmod(fd, 0666 & ~mask)) {
		code = -errno;
		outfile__discard(out);
		return fail(err, code, path);
	}
	return 0;
fail:
	free(out->path);
	free(out->temp);
	memset(out, 0, sizeof(*out));
	return fail(err, code, path);
}

int outfile__commit(struct outfile *out, struct error *err)
{
	int code = 0;

	errno = 0;
	if (fflush(out->stream) || ferror(out->stream))
		code = errno ? -errno : -EIO;
	else if (fsync(fileno(out->stream)) && errno != EINVAL)
		code = -errno;
	if (fclose(out->stream) && !code)
		code = -errno;
	out->stream = NULL;
	if (!code && rename(out->temp, out->path))
		code = -errno;
	if (code) {
		unlink(out->temp);
		fail(err, code, out->path);
	}
	free(out->path);
	free(out->temp);
	memset(out, 0, sizeof(*out));
	return code;
}

void outfile__discard(struct outfile *out)
{
	if (!out->stream)
		return;
	fclose(out->stream);
	unlink(out->temp);
	free(out->path);
	free(out->temp);
	memset(out, 0, sizeof(*out));
}

int outfile__fail(struct outfile *out, int code, struct error *err)
{
	if (out->stream)
		fail(err, code, out->path);
	outfile__discard(out);
	return code;
}

int outfile__check(const char *path, struct error *err)
{
	struct outfile out = {};
	int code = outfile__open(&out, path, err);

	if (!code && fputc('\n', out.stream) != EOF && fflush(out.stream))
		code = fail(err, -errno, path);
	outfile__discard(&out);
	return code;
}
