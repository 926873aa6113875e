/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts a command so that probes are in place before its first allocation. ptrace holds the
 * command only from its exec until the dynamic linker has mapped the libraries that it starts with.
 * Then ptrace lets it go. */
#ifndef MEMTRACE_SESSION_LAUNCH_H
#define MEMTRACE_SESSION_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct launch {
	pid_t pid;    /* 0: none */
	bool waiting; /* it waits to become the command */
	/* While `waiting` is true: a byte in go_fd lets it go on, and report_fd tells why its exec
	 * failed. Else both are closed. */
	int go_fd, report_fd;
	bool held;	      /* stopped under ptrace */
	bool loading;	      /* a dynamic linker is at work (at the stop after exec: about to
			       * begin) */
	uint64_t interp_addr; /* an address in the dynamic linker's mapping; 0: the program is
			       * static */
	bool maps_code;	      /* the present system call maps a file as code */
};

/* Forks the process that is to become argv, and makes it wait. The command does not inherit what
 * memtrace takes or gives up from now on (capabilities, limits, signals). Until launch__release(),
 * the process ends when memtrace ends. 0, or negative errno with err. */
int launch__fork(char *const argv[], struct launch *ret, struct error *err);

/* Lets the process become the command. name: the command's name, for messages. Returns with the
 * process stopped after its exec, before any of its code has run. 0, or negative errno with err
 * (command not found, not executable, ...): no process is left. */
int launch__start(struct launch *launch, const char *name, struct error *err);

/* Lets the dynamic linker go on until it has mapped one more file as code. 1: it has. 0: loading is
 * over, and the process is stopped at a system call. This is the program's first system call, or an
 * earlier one. -ESRCH: the process is gone (already reaped, wait status in *ret_status). Other
 * negative errno. */
int launch__next_mapping(struct launch *launch, int *ret_status);

/* Detaches ptrace: the command runs freely from now on. 0 or negative errno. */
int launch__release(struct launch *launch);

/* Kills the process and waits for its end, whether it is waiting, held or running. */
void launch__kill(struct launch *launch);

#endif
