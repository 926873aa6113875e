// SPDX-License-Identifier: BSD-2-Clause
#include "proc/link_map.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MAX_PHDRS   64
#define MAX_DYNAMIC 512

int process_memory__read(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = {buf, len};
	struct iovec remote = {(void *)(uintptr_t)addr, len};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EFAULT;
}

uint64_t process_auxv__get(pid_t pid, uint64_t type)
{
	_cleanup_close_ int fd = -1;
	Elf64_auxv_t vector[64];
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : io__read(fd, vector, sizeof(vector));
	for (ssize_t i = 0; i < len / (ssize_t)sizeof(vector[0]); i++)
		if (vector[i].a_type == type)
			return vector[i].a_un.a_val;
	return 0;
}

/* Run-time address of the program's dynamic section; 0 when it has none. */
static int find_dynamic(pid_t pid, uint64_t *ret_addr)
{
	uint64_t phdrs_addr = process_auxv__get(pid, AT_PHDR), n = process_auxv__get(pid, AT_PHNUM);
	uint64_t bias = 0, dynamic = 0;
	Elf64_Phdr phdrs[MAX_PHDRS];
	bool has_dynamic = false;
	int code;

	if (!phdrs_addr || !n || n > MAX_PHDRS)
		return -ENODATA;
	code = process_memory__read(pid, phdrs_addr, phdrs, n * sizeof(phdrs[0]));
	if (code)
		return code;
	for (uint64_t i = 0; i < n; i++) {
		if (phdrs[i].p_type == PT_PHDR)
			bias = phdrs_addr - phdrs[i].p_vaddr;
		if (phdrs[i].p_type == PT_DYNAMIC) {
			dynamic = phdrs[i].p_vaddr;
			has_dynamic = true;
		}
	}
	*ret_addr = has_dynamic ? bias + dynamic : 0;
	return 0;
}

long link_map__read(pid_t pid, uint64_t *ret_dynamics, size_t max)
{
	uint64_t addr, debug_addr = 0;
	struct r_debug debug;
	struct link_map map;
	size_t n = 0;
	int code = find_dynamic(pid, &addr);

	if (code)
		return code;
	if (!addr)
		return 0;
	for (int i = 0; i < MAX_DYNAMIC; i++) {
		Elf64_Dyn dyn;

		code = process_memory__read(pid, addr + (uint64_t)i * sizeof(dyn), &dyn,
					    sizeof(dyn));
		if (code)
			return code;
		if (dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == DT_DEBUG)
			debug_addr = dyn.d_un.d_ptr;
	}
	if (!debug_addr) /* a static-PIE program, or the dynamic linker has not come so far */
		return -ENODATA;
	code = process_memory__read(pid, debug_addr, &debug, sizeof(debug));
	if (code)
		return code;
	for (addr = (uintptr_t)debug.r_map; addr && n < max; addr = (uintptr_t)map.l_next) {
		code = process_memory__read(pid, addr, &map, sizeof(map));
		if (code)
			return code;
		ret_dynamics[n++] = (uintptr_t)map.l_ld;
	}
	return n ? (long)n : -ENODATA;
}
