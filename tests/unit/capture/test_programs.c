// SPDX-License-Identifier: BSD-2-Clause
/* What all programs and maps of the kernel side must have. Nothing is loaded here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "capture/internal.h"

#define CALL_HELPER (BPF_JMP | BPF_CALL)

static bool makes_tail_call(const struct bpf_program *program)
{
	const struct bpf_insn *code = bpf_program__insns(program);
	size_t n = bpf_program__insn_cnt(program);

	for (size_t i = 0; i < n; i++)
		if (code[i].code == CALL_HELPER && !code[i].src_reg &&
		    code[i].imm == BPF_FUNC_tail_call)
			return true;
	return false;
}

/* A uprobe's program without a tail call makes preemptible kernels since 6.13 panic
 * (bpf/own_stack.bpf.h). */
static void test_no_private_stacks(void **state)
{
	struct memtrace_bpf *skel = memtrace_bpf__open();
	struct bpf_program *program;
	int uprobes = 0;

	(void)state;
	assert_non_null(skel);
	bpf_object__for_each_program(program, skel->obj)
	{
		if (strncmp(bpf_program__section_name(program), "uprobe", 6) != 0)
			continue;
		uprobes++;
		if (!makes_tail_call(program))
			fail_msg("%s does not begin with NO_PRIVATE_STACK",
				 bpf_program__name(program));
	}
	assert_true(uprobes >= 10);
	memtrace_bpf__destroy(skel);
}

/* Before Linux 6.1, the kernel warns of a uprobe's program that uses a hash map whose memory is not
 * allocated beforehand, or refuses the program. The storage of tasks must keep the flag. */
static void test_no_map_grows_on_old_kernels(void **state)
{
	struct memtrace_bpf *skel = memtrace_bpf__open();
	int hashes = 0, storages = 0;
	struct bpf_map *map;

	(void)state;
	assert_non_null(skel);
	capture__preallocate(skel);
	bpf_object__for_each_map(map, skel->obj)
	{
		enum bpf_map_type type = bpf_map__type(map);
		bool grows = bpf_map__map_flags(map) & BPF_F_NO_PREALLOC;

		hashes += type == BPF_MAP_TYPE_HASH;
		storages += type == BPF_MAP_TYPE_TASK_STORAGE;
		if (grows != (type == BPF_MAP_TYPE_TASK_STORAGE))
			fail_msg("%s %s", bpf_map__name(map), grows ? "grows" : "does not grow");
	}
	assert_true(hashes >= 13 && storages >= 2);
	memtrace_bpf__destroy(skel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_private_stacks),
		cmocka_unit_test(test_no_map_grows_on_old_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
