/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that changes its own copy of the C library's code, as hot patching and some agents do.
 * The program makes malloc and free (with --mmap: mmap and munmap) begin with a jump to functions
 * of its own. It patches the code before it says "ready". With --later it does not patch until it
 * gets the word "patch", after the first "go". It answers "patch" with {}. After each "go" it calls
 * both functions many times and prints {"calls": N, "own": N}. calls: how often it called them;
 * own: how often its own functions ran. If a tracer overwrites the jumps, the two numbers differ,
 * or the program crashes. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "truth.h"

#define CALLS 1000

static volatile unsigned long own;

NOINLINE static void *own_malloc(size_t size)
{
	static char block[4096];

	own++;
	return size < sizeof(block) ? block : NULL;
}

NOINLINE static void own_free(void *p)
{
	(void)p;
	own++;
}

NOINLINE static void *own_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	own++;
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

NOINLINE static int own_munmap(void *addr, size_t len)
{
	own++;
	return (int)syscall(SYS_munmap, addr, len);
}

/* Writes a jump over any distance: jmp *0(%rip), followed by the address. */
static void patch(void *code, void *to)
{
	static const unsigned char jump[6] = {0xff, 0x25};
	char *page = (char *)((uintptr_t)code & ~4095UL);

	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	memcpy(code, jump, sizeof(jump));
	memcpy((char *)code + sizeof(jump), &to, sizeof(to));
	if (mprotect(page, 8192, PROT_READ | PROT_EXEC))
		abort();
}

static void patch_both(bool of_mmap)
{
	patch(dlsym(RTLD_DEFAULT, of_mmap ? "mmap" : "malloc"),
	      of_mmap ? (void *)own_mmap : (void *)own_malloc);
	patch(dlsym(RTLD_DEFAULT, of_mmap ? "munmap" : "free"),
	      of_mmap ? (void *)own_munmap : (void *)own_free);
}

static void call_both(bool of_mmap)
{
	void *volatile p;

	if (of_mmap) {
		p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(p, 4096);
	} else {
		p = malloc(100);
		free(p);
	}
}

int main(int argc, char **argv)
{
	bool later = truth_flag(argc, argv, "--later"), patched = !later;
	bool of_mmap = truth_flag(argc, argv, "--mmap");

	truth_init(argc, argv);
	if (!later)
		patch_both(of_mmap);
	truth_ready();
	do {
		own = 0;
		for (int i = 0; i < CALLS; i++)
			call_both(of_mmap);
		printf("{\"calls\": %d, \"own\": %lu}\n", 2 * CALLS, own);
		fflush(stdout);
		if (!patched) {
			if (!truth_await("patch"))
				return 1;
			patch_both(of_mmap);
			patched = true;
			printf("{}\n");
			fflush(stdout);
		}
	} while (truth_await("go"));
	return truth_exit_status;
}
