/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the service manager memtrace's state, as sd_notify(3) does: one datagram to the socket in
 * $NOTIFY_SOCKET. (A static program cannot have libsystemd in it.) Without a manager, nothing
 * happens. */
#ifndef MEMTRACE_CLI_NOTIFY_H
#define MEMTRACE_CLI_NOTIFY_H

/* Sends text, which consists of lines such as "READY=1". Does not wait. 0; 1: there is no manager;
 * negative errno. */
int notify__say(const char *text);

/* Sends RELOADING=1, with the time that Type=notify-reload demands. */
int notify__say_reloading(void);

/* Returns the seconds from one WATCHDOG=1 to the next: half of the manager's time limit. 0: none is
 * to be sent. */
double notify__watchdog_s(void);

#endif
