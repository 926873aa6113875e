// SPDX-License-Identifier: BSD-2-Clause
#include "capture/self.h"

#include <errno.h>
#include <unistd.h>

#include "proc/maps.h"

/* Written in assembly so that the instruction under the probe is the one meant. */
#define STUB(name, body)                                                                           \
	void name(uint64_t arg);                                                                   \
	__asm__(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name                   \
		", @function\n" #name ":\n" body "ret\n.size " #name ", . - " #name                \
		"\n.popsection\n")

STUB(memtrace_alloc_push, "push %rbx\npop %rbx\n");
STUB(memtrace_alloc_jump, "test %rsp, %rsp\njne 1f\nnop\n1:\n");
STUB(memtrace_alloc_nop, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n");
STUB(memtrace_alloc_step, "mov %rdi, %rax\n");
STUB(memtrace_free_push, "push %rbx\npop %rbx\n");
STUB(memtrace_free_jump, "test %rsp, %rsp\njne 1f\nnop\n1:\n");
STUB(memtrace_free_nop, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n");
STUB(memtrace_free_step, "mov %rdi, %rax\n");

static const struct self_stub stubs[INSN_CLASSES][2] = {
	[INSN_PUSH] = {{memtrace_alloc_push, 0}, {memtrace_free_push, 0}},
	[INSN_JUMP] = {{memtrace_alloc_jump, 3}, {memtrace_free_jump, 3}},
	[INSN_NOP] = {{memtrace_alloc_nop, 0}, {memtrace_free_nop, 0}},
	[INSN_STEP] = {{memtrace_alloc_step, 0}, {memtrace_free_step, 0}},
};

const char *insn_class__name(enum insn_class class)
{
	static const char *const names[] = {"push", "jump", "5-byte nop", "single-stepped"};

	return names[class];
}

struct self_stub self__stub(enum insn_class class, int role)
{
	return stubs[class][role];
}

int self__offset(const void *addr, uint64_t *ret_off)
{
	const struct map_entry *entry;
	struct maps maps;
	int rc = maps__read(getpid(), &maps);

	if (rc)
		return rc;
	entry = maps__find(&maps, (uintptr_t)addr);
	if (entry && entry->file.inode)
		*ret_off = (uintptr_t)addr - entry->start + entry->off;
	else
		rc = -ENOENT;
	maps__free(&maps);
	return rc;
}
