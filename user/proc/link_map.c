// SPDX-License-Identifier: BSD-2-Clause
#include "proc/link_map.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>

#include "proc/memory.h"
#include "proc/process.h"

#define MAX_PHDRS   64
#define MAX_DYNAMIC 512
#define AT_ONCE	    32 /* dynamic entries in one read; real programs have some 30 */

/* Finds the run-time address of the program's dynamic section. *ret_addr 0: there is none, or no
 * dynamic linker reads it. In a static PIE only the program itself reads its dynamic section. There
 * glibc also keeps a list of objects, but this list does not tell which function a call reaches. 0
 * or negative errno. */
static int find_dynamic(pid_t pid, uint64_t *ret_addr)
{
	uint64_t phdrs_addr = process__auxv(pid, AT_PHDR), n = process__auxv(pid, AT_PHNUM);
	uint64_t bias = 0, dynamic = 0;
	Elf64_Phdr phdrs[MAX_PHDRS];
	bool has_dynamic = false, has_interp = false;
	int code;

	if (!phdrs_addr || !n || n > MAX_PHDRS)
		return -ENODATA;
	code = memory__read(pid, phdrs_addr, phdrs, n * sizeof(phdrs[0]));
	if (code)
		return code;
	for (uint64_t i = 0; i < n; i++) {
		if (phdrs[i].p_type == PT_PHDR)
			bias = phdrs_addr - phdrs[i].p_vaddr;
		has_interp |= phdrs[i].p_type == PT_INTERP;
		if (phdrs[i].p_type == PT_DYNAMIC) {
			dynamic = phdrs[i].p_vaddr;
			has_dynamic = true;
		}
	}
	*ret_addr = has_dynamic && has_interp ? bias + dynamic : 0;
	return 0;
}

/* Finds the run-time address of struct r_debug, which the dynamic linker makes for debuggers.
 * *ret_addr 0: the dynamic linker has not written the address yet. 0 or negative errno. */
static int find_debug(pid_t pid, uint64_t dynamic, uint64_t *ret_addr)
{
	Elf64_Dyn dyns[AT_ONCE];
	struct memory_read reads[AT_ONCE];

	*ret_addr = 0;
	for (size_t done = 0; done < MAX_DYNAMIC; done += AT_ONCE) {
		int code;

		for (size_t i = 0; i < AT_ONCE; i++)
			reads[i] = (struct memory_read){dynamic + (done + i) * sizeof(dyns[0]),
							&dyns[i], sizeof(dyns[0]), false};
		code = memory__read_all(pid, reads, AT_ONCE);
		if (code)
			return code;
		for (size_t i = 0; i < AT_ONCE; i++) {
			if (!reads[i].ok)
				return -EFAULT;
			if (dyns[i].d_tag == DT_NULL)
				return 0;
			if (dyns[i].d_tag == DT_DEBUG)
				*ret_addr = dyns[i].d_un.d_ptr;
		}
	}
	return 0;
}

long link_map__read(pid_t pid, struct link_object *ret, size_t max)
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
	code = find_debug(pid, addr, &debug_addr);
	if (code)
		return code;
	if (!debug_addr) /* the dynamic linker has not written the address yet */
		return -ENODATA;
	code = memory__read(pid, debug_addr, &debug, sizeof(debug));
	if (code)
		return code;
	for (addr = (uintptr_t)debug.r_map; addr && n < max; addr = (uintptr_t)map.l_next) {
		code = memory__read(pid, addr, &map, sizeof(map));
		if (code)
			return code;
		ret[n++] = (struct link_object){(uintptr_t)map.l_ld, addr};
	}
	return n ? (long)n : -ENODATA;
}
