/* SPDX-License-Identifier: BSD-2-Clause */
/* A service whose work is done by a child, again and again. The child gives up privileges for good,
 * so it cannot begin anew with another configuration. The parent keeps them, and does nothing else:
 * it waits, for signals and for the child. */
#ifndef MEMTRACE_CLI_SUPERVISE_H
#define MEMTRACE_CLI_SUPERVISE_H

struct service {
	/* Is what is configured now fit to be started with? Complains if not. 0, or an exit status.
	 * Called in a child of its own, which is killed after some seconds. */
	int (*check)(void *ctx);
	/* The work, in a child: until SIGTERM, or until it is done. alive: the child writes a byte
	 * there when it has started, and while it works, every second or so; it does not block.
	 * Returns an exit status. */
	int (*work)(void *ctx, int alive);
	void *ctx;
};

/* Runs the service until SIGTERM, SIGINT or SIGQUIT, or until the work is done. SIGHUP: if the
 * configuration is fit, the child is ended, and another one is started. A child that is killed, or
 * fails after it had started, is started again, later each time. The service manager is told
 * (cli/notify.h). Returns an exit status. */
int supervise(const struct service *service);

#endif
