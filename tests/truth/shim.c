/* SPDX-License-Identifier: BSD-2-Clause */
/* A library to preload, which adds a leak to a server that has none. Each SHIM_EVERY-th call of
 * read, recv or accept4 by the server leaks a block of SHIM_SIZE bytes. The account is in the
 * mapped file SHIM_ACCOUNT: three numbers of 64 bits (calls, leaked blocks, their bytes). All
 * processes that map the file add to the same numbers. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

static volatile uint64_t *account;
static uint64_t every, size;

__attribute__((constructor)) static void open_account(void)
{
	const char *path = getenv("SHIM_ACCOUNT"), *text = getenv("SHIM_EVERY");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	every = text ? strtoull(text, NULL, 10) : 100;
	text = getenv("SHIM_SIZE");
	size = text ? strtoull(text, NULL, 10) : 200;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED && every)
		account = p;
}

void shim_forget(void);

/* Not static, so that a stripped library keeps the name of this function. */
NOINLINE void shim_forget(void)
{
	void *p = malloc(size);

	if (!p)
		abort();
	memset(p, 's', size);
	__asm__ volatile("" : "+r"(p) : : "memory");
	__atomic_fetch_add(&account[1], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&account[2], size, __ATOMIC_RELAXED);
}

static void count_call(void)
{
	if (account && __atomic_add_fetch(&account[0], 1, __ATOMIC_RELAXED) % every == 0)
		shim_forget();
}

#define NEXT(name)                                                                                 \
	static __typeof__(&(name)) next;                                                           \
	if (!next)                                                                                 \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

ssize_t read(int fd, void *buffer, size_t n)
{
	NEXT(read);
	count_call();
	return next(fd, buffer, n);
}

ssize_t recv(int fd, void *buffer, size_t n, int flags)
{
	NEXT(recv);
	count_call();
	return next(fd, buffer, n, flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	NEXT(accept4);
	count_call();
	return next(fd, addr, len, flags);
}
