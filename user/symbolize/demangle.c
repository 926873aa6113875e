// SPDX-License-Identifier: BSD-2-Clause
/* libiberty demangles the names. The names come from the target, so there are two dangers: deep
 * recursion, and output that doubles with every few characters of input (substitutions and back
 * references). Against recursion, libiberty's own limit stays on. Against large output, a callback
 * takes the output, and leaves libiberty by longjmp as soon as the output is longer than
 * NAME_MAX_BYTES. With a callback, both demanglers keep their memory on the stack, so the longjmp
 * leaks nothing. The exception is an identifier in Rust's punycode: libiberty frees its memory only
 * after the callback has returned. So the callback returns when it gets such an identifier, and
 * leaves libiberty at the next piece of output. The next piece is ASCII, because there is an ASCII
 * piece between any two punycode identifiers. */
#include "symbolize/symtab.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "symbolize/clean.h"

struct output {
	char text[NAME_MAX_BYTES + 1];
	size_t len;
	bool rust;
	jmp_buf full;
};

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

	if (!len) /* part may be NULL in this case */
		return;
	memcpy(out->text + out->len, part, len < room ? len : room);
	if (len > room) {
		out->len = NAME_MAX_BYTES;
		if (!is_punycode(out, part, len))
			longjmp(out->full, 1);
		return;
	}
	out->len += len;
}

/* Demangles the name. Without DMGL_PARAMS the output has no parameter lists and no return types.
 * Without DMGL_VERBOSE it has no Rust hashes. Rust is tried first, because Rust's legacy names are
 * Itanium names, too. */
static bool run(const char *name, struct output *out)
{
	out->len = 0;
	out->rust = true;
	if (setjmp(out->full))
		return true;
	if (rust_demangle_callback(name, DMGL_NO_OPTS, take, out) && out->len)
		return true;
	out->len = 0;
	out->rust = false;
	return cplus_demangle_v3_callback(name, DMGL_NO_OPTS, take, out) && out->len;
}

char *demangle(const char *name)
{
	struct output out;
	size_t len = strnlen(name, NAME_MAX_BYTES);
	char *ret;

	/* A name that does not begin with _Z or _R is not mangled. A name that was cut cannot be
	 * demangled. */
	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R') && len < NAME_MAX_BYTES &&
	    run(name, &out))
		ret = strndup(out.text, out.len);
	else
		ret = strndup(name, len);
	if (ret)
		clean_name(ret);
	return ret;
}
