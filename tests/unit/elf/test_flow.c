// SPDX-License-Identifier: BSD-2-Clause
/* What registers hold along paths through code of this program. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "elf/flow.h"

#define CODE(name, body) ".globl " name "\n.type " name ", @function\n" name ":\n" body "\n"

__asm__(".text\n" CODE("copies", "mov %rdi, %rax; lea 8(%rax), %rcx; sub $-8, %rdi; ud2") CODE(
	"numbers", "mov $-1, %ebx; movabs $0x123456789abc, %r8; mov 16, %r9; ud2")
		CODE("memory", "mov 8(%rdi), %rax; mov %rax, (%rsi,%rdx,8); movl $7, 4(%rax)\n"
			       "add $1, %rax; mov %fs:(%rdi), %rcx; cmpl %ecx, 4(%rdi,%rdx,8); ud2")
			CODE("writes", "mov %rdi, %rax; mov $1, %al; mov %rsi, %rcx; imul %r9; ud2")
				CODE("branches", "je copies; jmp copies; call copies; jmp *%rax")
					CODE("broken", ".byte 0x06"));

extern const char copies[], numbers[], memory[], writes[], branches[], broken[];

/* Numbers of registers. */
enum { RDI = 1, RSI, RDX, RCX, R8, R9, RAX, RBX = 10 };

static struct elf_image *image;
static struct flow flow;
static struct flow_registers first, now;
static uint64_t bias, vaddr;

static int open_self(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_symbol symbol;

	(void)state;
	if (elf_image__open(fd, "self", NULL, &image, NULL) ||
	    elf_image__find_function(image, "copies", &symbol))
		return -1;
	bias = (uintptr_t)copies - symbol.vaddr;
	return flow__open(&flow, image);
}

static int close_self(void **state)
{
	(void)state;
	flow__close(&flow);
	elf_image__free(image);
	return 0;
}

static void begin(const char *code)
{
	assert_int_equal(flow__begin(&flow, true, &now), 0);
	first = now;
	vaddr = (uintptr_t)code - bias;
}

static struct flow_effect step(void)
{
	struct flow_effect effect;

	assert_int_equal(flow__step(&flow, vaddr, &now, &effect), 0);
	vaddr += effect.len;
	return effect;
}

static void run(const char *code)
{
	begin(code);
	while (step().next == FLOW_ON)
		;
}

static void is(unsigned int reg, struct flow_value value, uint64_t more)
{
	value.off += more;
	assert_true(flow_value__equal(now.of[reg], value));
}

static void values_are_followed(void **state)
{
	(void)state;
	run(copies);
	is(RAX, first.of[RDI], 0);
	is(RCX, first.of[RDI], 8);
	is(RDI, first.of[RDI], 8);
	assert_int_equal(flow__holder(&now, first.of[RDI]), RAX);
	assert_int_equal(flow__holder(&now, first.of[RAX]), 0);
	run(numbers);
	is(RBX, (struct flow_value){FLOW_NUMBER, 0xffffffff}, 0);
	is(R8, (struct flow_value){FLOW_NUMBER, 0x123456789abc}, 0);
	assert_int_equal(flow__origin(&flow, now.of[R9]).at.off, 16);
	assert_int_equal(flow__origin(&flow, now.of[R9]).at.id, FLOW_NUMBER);
}

static void memory_is_told(void **state)
{
	struct flow_effect effect;
	struct flow_value loaded;

	(void)state;
	begin(memory);
	effect = step();
	loaded = effect.loaded;
	assert_int_equal(effect.load.bytes, 8);
	assert_int_equal(effect.load.vaddr, (uintptr_t)memory - bias);
	assert_true(effect.load.at.id == first.of[RDI].id && effect.load.at.off == 8);
	is(RAX, loaded, 0);
	assert_int_equal(flow__origin(&flow, loaded).at.off, 8);
	effect = step();
	assert_true(effect.store.indexed && flow_value__equal(effect.stored, loaded));
	effect = step();
	assert_true(effect.store.bytes == 4 && effect.store.at.off == 4 && !effect.store.indexed);
	assert_true(effect.stored.id == FLOW_NUMBER && effect.stored.off == 7);
	step();
	is(RAX, loaded, 1);
	assert_int_equal(flow__origin(&flow, now.of[RAX]).bytes, 0);
	assert_int_equal(step().load.bytes, 0); /* the segment's base is not known */
	effect = step();
	assert_true(effect.load.indexed && effect.load.bytes == 4 && !effect.store.bytes);
}

static void what_is_written_is_forgotten(void **state)
{
	(void)state;
	run(writes);
	is(RCX, first.of[RSI], 0);
	assert_int_equal(flow__holder(&now, first.of[RDX]), 0); /* imul */
	assert_int_not_equal(now.of[RAX].id, first.of[RDI].id);
}

static void ends_of_paths(void **state)
{
	struct flow_effect effect;

	(void)state;
	begin(branches);
	effect = step();
	assert_true(effect.next == FLOW_BRANCH && effect.target == (uintptr_t)copies - bias);
	effect = step();
	assert_true(effect.next == FLOW_JUMP && effect.target == (uintptr_t)copies - bias);
	assert_int_equal(step().next, FLOW_END);
	assert_int_equal(step().next, FLOW_END);
	begin(broken);
	assert_int_equal(flow__step(&flow, vaddr, &now, &effect), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest list[] = {
		cmocka_unit_test(values_are_followed),
		cmocka_unit_test(memory_is_told),
		cmocka_unit_test(what_is_written_is_forgotten),
		cmocka_unit_test(ends_of_paths),
	};

	return cmocka_run_group_tests(list, open_self, close_self);
}
