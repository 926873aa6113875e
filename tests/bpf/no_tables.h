/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaces functions of the kernel side: there are no unwind tables and no mappings. Include it
 * before the header that is tested. */
#ifndef MEMTRACE_TESTS_NO_TABLES_H
#define MEMTRACE_TESTS_NO_TABLES_H

#include "unwind.bpf.h"

__u64 original_return(__u64 slot, __u64 trampoline)
{
	(void)slot;
	(void)trampoline;
	return 0;
}

int ask_mapping(__u64 addr, struct abi_mapping *ret)
{
	(void)addr;
	*ret = (struct abi_mapping){};
	return 0;
}

static const struct abi_unwind_chunk *unwind_chunk(__u32 table, __u32 chunk)
{
	(void)table;
	(void)chunk;
	return NULL;
}

#endif
