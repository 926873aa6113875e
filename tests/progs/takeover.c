/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates in a library (argv[1]: library.so), unloads the library, maps code of its own at the
 * same addresses and allocates there, too. From then on, the library's names are wrong there. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static void allocate(size_t size)
{
	void *p = malloc(size);

	__asm__ volatile("" : : "r"(p) : "memory");
}

int main(int argc, char **argv)
{
	static const unsigned char code[] = {
		0x55,		  /* push %rbp */
		0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
		0xff, 0xd6,	  /* call *%rsi */
		0x5d,		  /* pop %rbp */
		0xc3,		  /* ret */
	};
	void (*leaf)(void (*)(size_t), size_t);
	void *library, *place;
	char line[8];

	printf("ready %d\n", getpid());
	fflush(stdout);
	if (argc < 2 || read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;
	library = dlopen(argv[1], RTLD_NOW);
	leaf = library ? dlsym(library, "lib_leaf") : NULL;
	if (!leaf)
		return 2;
	usleep(300000); /* time for a tracer to learn of the library */
	leaf(allocate, 3001);
	dlclose(library);
	place = (void *)((uintptr_t)leaf & ~(PAGE - 1));
	if (mmap(place, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place)
		return 3;
	place = (void *)(uintptr_t)leaf;
	memcpy(place, code, sizeof(code));
	usleep(300000);
	((void (*)(size_t, void (*)(size_t)))place)(3002, allocate);
	puts("{}");
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0; /* "quit", or the end */
}
