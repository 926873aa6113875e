/* SPDX-License-Identifier: BSD-2-Clause */
/* Maps the code of a library (argv[1]) at argv[2] addresses, one after the other. No address is
 * used twice, and each mapping is removed before the next one is made. Then allocates. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST 0x100000000000UL /* no other memory is mapped there */
#define PAGE  4096UL

int main(int argc, char **argv)
{
	int fd = argc < 3 ? -1 : open(argv[1], O_RDONLY), places = argc < 3 ? 0 : atoi(argv[2]);
	char line[8];
	void *p;

	printf("ready %d\n", getpid());
	fflush(stdout);
	if (fd < 0 || read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;
	for (int i = 0; i < places; i++) {
		void *at = (void *)(FIRST + 2 * PAGE * (uintptr_t)i);

		if (mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != at)
			return 2;
		munmap(at, PAGE);
		if (i % 100 == 99)
			usleep(1000); /* a tracer must be able to keep up */
	}
	p = malloc(3001);
	__asm__ volatile("" : : "r"(p) : "memory");
	printf("{\"places\": %d}\n", places);
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0; /* "quit", or the end */
}
