// SPDX-License-Identifier: BSD-2-Clause
/* libiberty demangles the names. The names come from the target, so there are three dangers. The
 * first is deep recursion. The second is output that doubles with every few characters of input
 * (substitutions and back references). The third is work that doubles in the same way, but makes no
 * output. Against recursion, libiberty's own limit stays on.
 *
 * Against large output, a callback takes the output, and ends the demangler by longjmp as soon as
 * the output is longer than NAME_MAX_BYTES. With a callback, both demanglers keep their memory on
 * the stack, so the longjmp leaks nothing. An identifier in Rust's punycode is the exception:
 * libiberty frees the identifier's memory only after the callback has returned. So the callback
 * returns when it gets such an identifier, and calls longjmp at the next piece of output. The next
 * piece is ASCII, because there is an ASCII piece between any two punycode identifiers.
 *
 * Against work without output, a timer sends a signal, and the signal's handler ends the demangler
 * by longjmp. The demanglers may be interrupted: apart from punycode, they allocate no memory, take
 * no lock and change no static data. For a Rust name, a timer is set only if the name's binders may
 * be long. All other work of Rust's demangler is at most one pass over the name for each piece of
 * output. A Rust name that may have both long binders and punycode is not demangled. */
#include "symbolize/symtab.h"

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <libiberty/demangle.h>

#include "base/allowance.h"
#include "base/clock.h"
#include "symbolize/clean.h"

#define NAME_US	      20000 /* CPU time for one name; long real names take less than 1000 */
#define MAX_LIFETIMES 1000  /* limit for all binders of a Rust name; real names have a handful */
/* A name that takes longer than FREE_NS is slow. Slow names may take SLOW_NS of CPU time at once,
 * and one part in SLOW_SHARE of the time in the long run. */
#define FREE_NS	   100000
#define SLOW_NS	   2000000000
#define SLOW_SHARE 20

struct output {
	char text[NAME_MAX_BYTES + 1];
	size_t len;
	bool rust;
	jmp_buf leave;
};

/* Who has called longjmp: the callback (FULL), or the signal's handler (LATE). */
enum { FULL = 1, LATE };

/* Where the handler of the timer's signal jumps to; NULL: this thread is not demangling a name that
 * has a timer. */
static _Thread_local jmp_buf *volatile on_late;

static struct allowance slow_ns = ALLOWANCE(SLOW_NS, 1e9 / SLOW_SHARE);
static double least_ns; /* no name is demangled while less than this is left of slow_ns */

static uint64_t left_mangled;

/* Does this piece of output come from punycode? In a Rust name, no other piece contains non-ASCII
 * bytes. */
static bool is_punycode(const struct output *out, const char *part, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (part[i] & 0x80)
			return out->rust;
	return false;
}

static void take(const char *part, size_t len, void *opaque)
{
	struct output *out = opaque;
	size_t room = NAME_MAX_BYTES - out->len;

	if (!len) /* if the length is 0, part may be NULL */
		return;
	memcpy(out->text + out->len, part, len < room ? len : room);
	if (len > room) {
		out->len = NAME_MAX_BYTES;
		if (!is_punycode(out, part, len))
			longjmp(out->leave, FULL);
		return;
	}
	out->len += len;
}

static void leave_late(int signal)
{
	(void)signal;
	if (on_late)
		longjmp(*on_late, LATE);
}

static void set_timer(suseconds_t us)
{
	/* The timer goes off again and again, because another thread may get the first signal. */
	struct itimerval timer = {{.tv_usec = us}, {.tv_usec = us}};

	setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* Lets the timer's signal call leave_late(). SA_NODEFER: longjmp does not unblock the signal. */
static void listen(void)
{
	struct sigaction action = {.sa_handler = leave_late, .sa_flags = SA_NODEFER | SA_RESTART};
	static bool done;
	sigset_t set;

	if (done)
		return;
	sigemptyset(&action.sa_mask);
	sigaction(SIGVTALRM, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGVTALRM);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	done = true;
}

/* While Rust's demangler skips a part of a name that it does not print, it still counts up to the
 * number of lifetimes of each binder. This number may be 2^64. A binder is 'G' and a number in base
 * 62, behind the type's 'F' or 'D'. These characters may also be a part of an identifier. */
static bool may_have_long_binders(const char *name)
{
	static const char digits[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	uint64_t total = 0;

	for (const char *p = name; *p; p++) {
		const char *end = p + 2, *digit;
		uint64_t n = 0;

		if ((p[0] != 'F' && p[0] != 'D') || p[1] != 'G')
			continue;
		for (; *end && (digit = strchr(digits, *end)); end++)
			if (n <= MAX_LIFETIMES)
				n = n * 62 + (uint64_t)(digit - digits);
		if (*end == '_')
			total += n + 2;
	}
	return total > MAX_LIFETIMES;
}

/* An identifier in punycode is 'u', its length and its text. */
static bool may_have_punycode(const char *name)
{
	while ((name = strchr(name, 'u')))
		if (isdigit((unsigned char)*++name))
			return true;
	return false;
}

typedef int callback_demangler(const char *name, int options, demangle_callbackref callback,
			       void *opaque);

/* Without DMGL_PARAMS the output has no parameter lists and no return types. Without DMGL_VERBOSE
 * it has no Rust hashes. */
static bool run(callback_demangler *demangler, const char *name, bool timed, struct output *out)
{
	bool ok;

	out->len = 0;
	switch (setjmp(out->leave)) {
	case 0:
		if (timed) {
			listen();
			on_late = &out->leave;
			set_timer(NAME_US);
		}
		ok = demangler(name, DMGL_NO_OPTS, take, out) && out->len;
		break;
	case FULL:
		ok = true;
		break;
	default:
		ok = false;
		left_mangled++;
	}
	on_late = NULL;
	if (timed)
		set_timer(0);
	return ok;
}

/* Rust is tried first, because Rust's legacy names are Itanium names, too. Legacy names have
 * neither binders nor punycode. */
static bool run_right(const char *name, struct output *out)
{
	bool long_binders = name[1] == 'R' && may_have_long_binders(name);

	out->rust = true;
	if (long_binders && may_have_punycode(name)) {
		left_mangled++;
		return false;
	}
	if (run(rust_demangle_callback, name, long_binders, out))
		return true;
	out->rust = false;
	return name[1] == 'Z' && run(cplus_demangle_v3_callback, name, true, out);
}

/* Returns how much time slow names may take now. */
static double renew(void)
{
	return allowance__renew(&slow_ns, clock__now_ns(CLOCK_MONOTONIC));
}

/* Demangles the name, if slow names have left time for it. */
static bool run_if_allowed(const char *name, struct output *out)
{
	uint64_t start_ns, took_ns;
	bool ok;

	if (renew() < least_ns) {
		left_mangled++;
		return false;
	}
	start_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID);
	ok = run_right(name, out);
	took_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	if (took_ns > FREE_NS)
		slow_ns.left -= (double)took_ns;
	return ok;
}

void demangle__begin(void)
{
	double left_ns = renew();

	least_ns = left_ns > 0 ? left_ns / 2 : 0;
}

uint64_t demangle__left(void)
{
	return left_mangled;
}

char *demangle(const char *name)
{
	struct output out;
	size_t len = strnlen(name, NAME_MAX_BYTES);
	char *ret;

	/* A name that does not begin with _Z or _R is not mangled. A name that was cut cannot be
	 * demangled. */
	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R') && len < NAME_MAX_BYTES &&
	    run_if_allowed(name, &out))
		ret = strndup(out.text, out.len);
	else
		ret = strndup(name, len);
	if (ret)
		clean_name(ret);
	return ret;
}
