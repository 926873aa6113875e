/* SPDX-License-Identifier: BSD-2-Clause */
/* A service whose work is done by child processes, one after the other. A child gives up privileges
 * for good, so it cannot start anew with another configuration. The parent keeps its privileges,
 * and only waits for signals and for its child. */
#ifndef MEMTRACE_CLI_SUPERVISE_H
#define MEMTRACE_CLI_SUPERVISE_H

#include <stdbool.h>

#define SERVICE_TERMINATED (128 + 15) /* as shells say it */

struct service {
	/* Is the configuration valid? Complains if not. 0, or an exit status. Called in a child of
	 * its own, which is killed after some seconds. */
	int (*check)(void *ctx);
	/* Does the work, in a child, until SIGTERM or until the work is done. alive: a descriptor
	 * that does not block. The child writes a byte to it when it has started, and about every
	 * second while it works. Returns an exit status; SERVICE_TERMINATED: a signal ended the
	 * work. Only the parent knows whether the whole service is to end then. If the service goes
	 * on, the work is not done, and the parent starts another child. */
	int (*work)(void *ctx, int alive);
	void *ctx;
	/* Called in the parent. adopt(): the last check has accepted a configuration, which is in
	 * force from now on. worked: a child has started with the configuration that was in force
	 * before. revert(): no child could start, so the last configuration that worked is in force
	 * again. revert() returns false if no configuration has worked. Both may be NULL. */
	void (*adopt)(void *ctx, bool worked);
	bool (*revert)(void *ctx);
};

/* Runs the service until SIGTERM, SIGINT or SIGQUIT, or until the work is done. After SIGHUP, if
 * the configuration is valid, the child is ended and another one is started. If this child cannot
 * start, a child with the configuration from before is started. A child that is killed, or fails
 * after its start, is started again, after a longer wait each time. The service manager gets each
 * change of state (cli/notify.h). From now on, complaints that nobody reads are dropped
 * (cli/nowait.h), also those of the children. Returns an exit status. */
int supervise(const struct service *service);

#endif
