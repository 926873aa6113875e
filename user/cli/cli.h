/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that all commands share. */
#ifndef MEMTRACE_CLI_CLI_H
#define MEMTRACE_CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "capture/allocator.h"
#include "profile/modules.h"
#include "profile/profile.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2

/* The sampling interval without -i, bytes. */
#define DEFAULT_INTERVAL (512 << 10)

/* Each function runs one command. argv[0] is the command's name. Returns the exit status. */
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_why(int argc, char **argv);

extern const struct command command_record, command_top, command_report, command_diff,
	command_leaks, command_heap, command_agent, command_check, command_why;

/* Prints "memtrace: ..." on stderr. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Passes complaints to hear() from now on, and no longer writes them to stderr. NULL: complaints go
 * to stderr again. */
void complain_to(void (*hear)(const char *text));

/* Complains with the text of `err`. Returns EXIT_FAILED. */
int fail(const struct error *err);

/* Complains of missing memory. Returns EXIT_FAILED. */
int no_memory(void);

/* Fills in the signals that end tracing: SIGINT, SIGTERM, and SIGHUP unless it is ignored. (nohup
 * ignores SIGHUP: the program is to go on after its terminal is closed.) Ignores SIGPIPE. */
void end_signals(sigset_t *ret);

/* Returns a descriptor from which the signals are read from now on (signalfd(2)). It is closed on
 * exec and never blocks. -1 after a complaint. */
int take_signals(const sigset_t *signals);

/* Lets signals end memtrace from now on, because memtrace may block forever: on a pipe that nobody
 * reads, or on a terminal stopped by Ctrl-S. Signals that came before are dropped, because they
 * have already ended the tracing. */
void release_signals(int signal_fd, const sigset_t *signals);

/* Complains, and adds "Try 'memtrace COMMAND --help'.". Returns EXIT_USAGE. */
int usage_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output and returns status. If status is 0 and some output could not be written,
 * complains and returns EXIT_FAILED. */
int end_output(int status);

/* Calls usage_error() when getopt_long() has returned '?': names the unknown option. */
int unknown_option(const char *command, char *const *argv);

/* Replaces control characters by '?', because names come from other processes. Returns text. */
char *printable(char *text);

/* Parses a whole number from min to max with an optional suffix K, M or G (powers of 1024, either
 * case): "512K" is 524288. 0 or -EINVAL. */
int parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

/* Reads the rules of --modules (profile/modules.h) from the user's file. *ret is freed and
 * replaced. 0, or EXIT_FAILED after a complaint. */
int load_modules(const char *path, struct modules **ret);

/* The functions that the user has named with --alloc, --free or --end. All zero: none. */
#define MAX_EXTRA 64
struct alloc_options {
	struct alloc_extra list[MAX_EXTRA];
	size_t n;
};

/* Takes the value of command's option "alloc", "free" or "end". The strings are never freed. 0, or
 * the exit status after a complaint. */
int add_alloc_option(struct alloc_options *options, const char *command, const char *option,
		     const char *text);

/* Parses a time: "30", "30s", "5m" or "1h". 0, or -EINVAL: the text is no time, or the time is not
 * above 0. */
int parse_seconds(const char *text, double *ret);
/* Parses a whole number from min to max. 0 or -EINVAL. */
int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

#endif
