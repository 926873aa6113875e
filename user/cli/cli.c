// SPDX-License-Identifier: BSD-2-Clause
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#define MAX_SECONDS 1e9

char *printable(char *text)
{
	/* Replaces control characters, because a terminal obeys them. Bytes from 0x80 to 0x9f are
	 * replaced, too: some terminals take them for C1 controls. */
	for (char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c) || ((unsigned char)*c & 0xe0) == 0x80)
			*c = '?';
	return text;
}

static void (*hearer)(const char *text);

void complain_to(void (*hear)(const char *text))
{
	hearer = hear;
}

static void vcomplain(const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	printable(text);
	if (hearer)
		hearer(text);
	else
		fprintf(stderr, "memtrace: %s\n", text);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
}

int fail(const struct error *err)
{
	struct rlimit limit;

	complain("%s", err->text);
	/* probes of the kind perf need many descriptors for each process */
	if (err->code == -EMFILE && !strstr(err->text, "ulimit") &&
	    !getrlimit(RLIMIT_NOFILE, &limit))
		complain("it may have %llu files open (ulimit -Hn): as root, raise the limit with "
			 "`ulimit -n 4096` (systemd: LimitNOFILE=4096)",
			 (unsigned long long)limit.rlim_cur);
	return EXIT_FAILED;
}

int no_memory(void)
{
	complain("out of memory");
	return EXIT_FAILED;
}

void end_signals(sigset_t *ret)
{
	struct sigaction hangup;

	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
		sigaddset(ret, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
}

int take_signals(const sigset_t *signals)
{
	int fd;

	sigprocmask(SIG_BLOCK, signals, NULL);
	fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		complain("cannot take signals: %s", strerror(errno));
	return fd;
}

void release_signals(int signal_fd, const sigset_t *signals)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	sigprocmask(SIG_UNBLOCK, signals, NULL);
}

int usage_error(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
	fprintf(stderr, "Try 'memtrace %s --help'.\n", command);
	return EXIT_USAGE;
}

int unknown_option(const char *command, char *const *argv)
{
	const char *text = argv[optind - 1];

	if (optopt && optopt < 256) /* a one-letter option; several may follow one dash */
		return usage_error(command, "there is no option -%c", optopt);
	return usage_error(command,
			   "there is no option %s; an option may be shortened only if no other "
			   "option begins with the same letters",
			   text);
}

int end_output(int status)
{
	if (status)
		return status;
	if (fflush(stdout))
		complain("cannot write to standard output: %s", strerror(errno));
	else if (ferror(stdout)) /* an earlier write failed, and its errno is lost */
		complain("cannot write all of the output to standard output");
	else
		return 0;
	return EXIT_FAILED;
}

static int parse_number(const char *text, uint64_t min, uint64_t max, const char *suffixes,
			uint64_t *ret)
{
	unsigned long long value;
	const char *suffix;
	char *end;
	int shift = 0;

	if (!isdigit((unsigned char)text[0])) /* strtoull would accept signs and blanks */
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || end[1])
			return -EINVAL;
		shift = 10 * (int)(suffix - suffixes + 1);
	}
	if (value > max >> shift || value << shift < min)
		return -EINVAL;
	*ret = (uint64_t)value << shift;
	return 0;
}

int parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse_number(text, min, max, "KMG", ret);
}

int parse_seconds(const char *text, double *ret)
{
	char *end;
	double seconds = strtod(text, &end), unit = 1;

	if (end != text && *end && !end[1])
		unit = *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : 0;
	else if (end == text || *end)
		return -EINVAL;
	if (!(seconds * unit > 0 && seconds * unit <= MAX_SECONDS))
		return -EINVAL;
	*ret = seconds * unit;
	return 0;
}

int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse_number(text, min, max, "", ret);
}
