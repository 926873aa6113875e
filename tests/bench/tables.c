// SPDX-License-Identifier: BSD-2-Clause
/* Measures what the unwind table of one ELF file costs to build. Usage: tables FILE. Prints
 * {"rows", "bytes", "fdes", "bad_rows", "skipped", "seconds", "peak_bytes"}. "seconds" is CPU time.
 * "bytes" is the size on the kernel side: whole chunks of rows, and one chunk more for the index.
 * "peak_bytes" is the most memory that this process had. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/abi.h"
#include "elf/unwind.h"

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* getrusage() is not used: its maximum includes the time before the exec. */
static long peak_kib(void)
{
	_cleanup_fclose_ FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (status && fgets(line, sizeof(line), status) && sscanf(line, "VmHWM: %ld", &kib) != 1)
		;
	return kib;
}

int main(int argc, char **argv)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	struct error err = {};
	double begin, end;
	size_t chunks;

	if (argc != 2) {
		fputs("usage: tables FILE\n", stderr);
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "tables: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	begin = cpu_s();
	if (elf_image__open_code(fd, argv[1], &image, &err) ||
	    unwind_table__build(image, 0, &table, &err)) {
		fprintf(stderr, "tables: %s\n", err.text);
		return 1;
	}
	end = cpu_s();
	chunks = (table->n + ABI_CHUNK_ROWS - 1) / ABI_CHUNK_ROWS + 1;
	printf("{\"rows\": %zu, \"bytes\": %zu, \"fdes\": %zu, \"bad_rows\": %zu, \"skipped\": %zu"
	       ", \"seconds\": %.6f, \"peak_bytes\": %ld}\n",
	       table->n, chunks * sizeof(struct abi_unwind_chunk), table->fdes, table->bad_rows,
	       table->skipped, end - begin, peak_kib() * 1024);
	return 0;
}
