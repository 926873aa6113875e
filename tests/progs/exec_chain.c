/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates in before_exec, executes itself, allocates in after_exec. The blocks of before_exec end
 * with the old address space, although nobody freed them. Says "ready" and waits for "go" once,
 * before the exec. After the exec the process, whose pid is the same, prints the truth. The truth
 * lists the blocks of before_exec under "gone". With --same, the new program waits, and
 * then allocates in before_exec, too. */
#define TRUTH_BLOCKS_LOG2 14
#include "truth.h"

#define BEFORE 3000
#define AFTER  500

NOINLINE static void *before_exec(size_t size)
{
	return T_MALLOC(size);
}

NOINLINE static void *after_exec(size_t size)
{
	return T_MALLOC(size);
}

int main(int argc, char **argv)
{
	/* volatile: otherwise the compiler makes two loops of the one below */
	volatile bool second = truth_flag(argc, argv, "--second");
	bool same = truth_flag(argc, argv, "--same");
	char live_bytes[24], exit_status[24];
	char *args[] = {argv[0],     "--second", "--gone", live_bytes, "--exit",
			exit_status, NULL,	 NULL,	   NULL};
	void *p = NULL;

	truth_init(argc, argv);
	if (!second)
		truth_ready();
	if (second && same) /* so that memtrace knows the new mappings, and the stacks are whole */
		usleep(500000);
	/* one loop for both programs: the calls have the same stack */
	for (size_t i = 0; i < (second ? AFTER : BEFORE); i++) {
		p = second && !same ? after_exec(64 + i) : before_exec((second ? 64 : 100) + i);
		if (second && i % 4 == 0)
			T_FREE(p);
	}
	if (!second) {
		snprintf(live_bytes, sizeof(live_bytes), "%" PRIu64, truth_functions[0].live_bytes);
		snprintf(exit_status, sizeof(exit_status), "%d", truth_exit_status);
		if (truth_auto)
			args[6] = "--auto";
		if (same)
			args[truth_auto ? 7 : 6] = "--same";
		execv("/proc/self/exe", args);
		perror("exec_chain: execv");
		return 99;
	}
	truth_print_open();
	printf(", \"gone\": {\"before_exec\": {\"live_bytes\": %" PRIu64
	       ", \"live_objects\": %d}}}\n",
	       truth_number(argc, argv, "--gone", 0), BEFORE);
	return truth_finish();
}
