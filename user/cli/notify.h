/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the service manager what becomes of us, as sd_notify(3) does: one datagram to the socket in
 * $NOTIFY_SOCKET. (A static program cannot have libsystemd in it.) Without a manager, nothing
 * happens. */
#ifndef MEMTRACE_CLI_NOTIFY_H
#define MEMTRACE_CLI_NOTIFY_H

/* Lines as "READY=1". 0; 1: nobody wants to know; negative errno. Does not wait. */
int notify__say(const char *text);

/* RELOADING=1, with the time that Type=notify-reload demands. */
int notify__say_reloading(void);

/* How often the manager wants WATCHDOG=1, seconds: half of its patience. 0: never. */
double notify__watchdog_s(void);

#endif
