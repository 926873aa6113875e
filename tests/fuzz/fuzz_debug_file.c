// SPDX-License-Identifier: BSD-2-Clause
/* A program that names its debug file. It may name any file, but only a debug file of its own may
 * be opened. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "elf/debug_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char dir[] = "/usr/lib/x86_64-linux-gnu";
	int fd = fuzz_file(data, size), root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), found;
	struct stat st;

	require(root >= 0);
	found = debug_file__open(root, fd, dir);
	require(found < 0 || (!fstat(found, &st) && S_ISREG(st.st_mode)));
	if (found >= 0)
		close(found);
	require(fcntl(fd, F_GETFD) >= 0); /* still open: it is the caller's */
	close(fd);
	close(root);
	return 0;
}
