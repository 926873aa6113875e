/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting a command so that probes are in place before its first allocation. It is held by ptrace
 * only from its exec until the dynamic linker has mapped what it starts with; then it is let go and
 * runs untraced by ptrace. */
#ifndef MEMTRACE_SESSION_LAUNCH_H
#define MEMTRACE_SESSION_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct launch {
	pid_t pid;	      /* 0: none */
	bool waiting;	      /* to become the command */
	int go_fd, report_fd; /* then: it may; why it could not. Else closed */
	bool held;	      /* stopped under ptrace */
	bool loading;	      /* a dynamic linker is at work (at the stop: about to be) */
	uint64_t interp_addr; /* somewhere in the dynamic linker's mapping, 0: static program */
	bool maps_code;	      /* the system call under way maps a file as code */
};

/* Forks the process that is to become argv, and has it wait: what memtrace takes or gives up from
 * now on (capabilities, limits, signals) is not the command's. The process ends with memtrace. 0,
 * or negative errno with err. */
int launch__fork(char *const argv[], struct launch *ret, struct error *err);

/* Lets it become the command, called name; returns with the process stopped after its exec, nothing
 * of it run. 0, or negative errno with err (command not found, not executable, ...): nothing is
 * left. */
int launch__start(struct launch *launch, const char *name, struct error *err);

/* Lets the dynamic linker go on until it has mapped one more file as code. 1: it has; 0: loading is
 * over, the process stands at a system call before or at the first of the program's own; -ESRCH: it
 * is gone (already reaped, wait status in *ret_status); other negative errno. */
int launch__next_mapping(struct launch *launch, int *ret_status);

/* Lets it run, for good. */
int launch__release(struct launch *launch);

/* Kills it and waits, if it is waiting, held or running. */
void launch__kill(struct launch *launch);

#endif
