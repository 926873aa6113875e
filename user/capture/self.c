// SPDX-License-Identifier: BSD-2-Clause
#include "capture/self.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "proc/maps.h"

/* In assembly, so that the instruction under the probe is of the intended class. */
#define STUB(name, body)                                                                           \
	void name(uint64_t arg);                                                                   \
	__asm__(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name                   \
		", @function\n" #name ":\n" body "ret\n.size " #name ", . - " #name                \
		"\n.popsection\n")

STUB(memtrace_alloc_push, "push %rbx\npop %rbx\nmov %rdi, %rax\n");
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

/* 16 KiB of code, half of an L1 instruction cache. Each line of the cache holds one
 * function. */
#define OTHER_FUNCTIONS 256
#define OTHER_LINE	64
#define STRING(x)	STRING_(x)
#define STRING_(x)	#x

__asm__(".pushsection .text\n.p2align 6\nmemtrace_other_code:\n.rept " STRING(
	OTHER_FUNCTIONS) "\nret\n.balign " STRING(OTHER_LINE) ", 0xcc\n.endr\n.popsection\n");
extern const char memtrace_other_code[] __attribute__((visibility("hidden")));

void self__other_work(void)
{
	for (size_t i = 0; i < OTHER_FUNCTIONS; i++)
		((void (*)(void))(uintptr_t)(memtrace_other_code + i * OTHER_LINE))();
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
