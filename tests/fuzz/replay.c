// SPDX-License-Identifier: BSD-2-Clause
/* Runs a fuzz target with the empty input, and with each file of a directory, its corpus. Usage:
 * fuzz_NAME DIRECTORY. Status 1: there is no file. An input that fails ends the program at once. */
#include <dirent.h>
#include <fcntl.h>

#include "base/io.h"
#include "fuzz.h"

#define MAX_BYTES (1 << 20)
#define SECONDS	  10 /* for one input; it takes milliseconds */

static void replay(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	uint8_t *data = malloc(MAX_BYTES);
	ssize_t size;

	require(fd >= 0 && data);
	size = io__read(fd, data, MAX_BYTES);
	require(size >= 0 && size < MAX_BYTES);
	close(fd);
	fprintf(stderr, "input %s\n", name);
	/* a buffer of exactly the input's size */
	data = realloc(data, size ? (size_t)size : 1);
	require(data);
	alarm(SECONDS);
	LLVMFuzzerTestOneInput(data, (size_t)size);
	alarm(0);
	free(data);
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	const struct dirent *entry;
	int n = 0;

	if (!dir) {
		fprintf(stderr, "usage: %s DIRECTORY (which must exist)\n", argv[0]);
		return 1;
	}
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		replay(dirfd(dir), entry->d_name);
		n++;
	}
	closedir(dir);
	if (!n)
		fprintf(stderr, "%s: no inputs\n", argv[1]);
	return !n;
}
