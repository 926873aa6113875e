// SPDX-License-Identifier: BSD-2-Clause
/* The functions that a user names:
 *
 *   --alloc FILE:FUNCTION(size=N[*M][,ptr=N][,pool=N][,throws])->ret	(or ->*N)
 *   --free  FILE:FUNCTION(ptr=N)
 *   --end   FILE:FUNCTION(pool=N)
 *
 * FILE is the path of a mapped file, or the last part of the path. "exe" is the program. FUNCTION
 * is the linker's name of the function. N and M are numbers of arguments, from 1: size=2*3 is the
 * product of arguments 2 and 3. ptr= is the old block that a function like realloc gets. pool= is
 * the pool of the block; --end names a function that frees all blocks of a pool at once. ->ret: the
 * function returns the block. ->*1: the function stores the block where argument 1 points, and
 * returns 0 on success. throws: an exception may leave the function, so it gets no return probe.
 * For functions of C++ and Rust, throws is assumed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

#define MAX_ARG 6

/* Reads an argument's number at *pos, and moves *pos after it. 0 or -EINVAL. */
static int take_arg(const char **pos, uint8_t *ret)
{
	if (**pos < '1' || **pos > '0' + MAX_ARG)
		return -EINVAL;
	*ret = (uint8_t)(*(*pos)++ - '0');
	return 0;
}

static bool take_word(const char **pos, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*pos, word, len) != 0)
		return false;
	*pos += len;
	return true;
}

/* Parses the text in brackets, up to the closing one. Returns NULL, or what is wrong. */
static const char *take_arguments(const char **pos, struct abi_func *func)
{
	static const char bad_number[] = "an argument's number is 1 to 6";

	do {
		if (take_word(pos, "size=")) {
			if (take_arg(pos, &func->size_arg) ||
			    (take_word(pos, "*") && take_arg(pos, &func->count_arg)))
				return bad_number;
		} else if (take_word(pos, "ptr=")) {
			if (take_arg(pos, &func->ptr_arg))
				return bad_number;
		} else if (take_word(pos, "pool=")) {
			if (take_arg(pos, &func->pool_arg))
				return bad_number;
		} else if (take_word(pos, "throws")) {
			func->exits = 1;
		} else {
			return "only size=, ptr=, pool= and throws may stand in brackets";
		}
	} while (take_word(pos, ","));
	return take_word(pos, ")")	      ? NULL
	       : **pos >= '0' && **pos <= '9' ? bad_number
					      : "a comma or the closing bracket is missing";
}

/* Parses an option's text into func. *ret_colon is the colon between file and function. Returns
 * NULL, or what is wrong. */
static const char *parse(const char *text, enum abi_role role, struct abi_func *func,
			 const char **ret_colon)
{
	const char *open = strchr(text, '('), *colon, *pos, *why;

	colon = open ? memrchr(text, ':', (size_t)(open - text)) : strrchr(text, ':');
	if (!colon || colon == text || colon + 1 == open || !colon[1])
		return "it must begin with FILE:FUNCTION";
	if (!open)
		return role == ROLE_FREE       ? "ptr= is missing, as in lib.so:f(ptr=1)"
		       : role == ROLE_POOL_END ? "pool= is missing, as in lib.so:f(pool=1)"
					       : "size= is missing, as in lib.so:f(size=1)->ret";
	pos = open + 1;
	why = take_arguments(&pos, func);
	if (why)
		return why;
	if (role == ROLE_FREE) {
		if (!func->ptr_arg || func->size_arg || func->pool_arg || func->exits)
			return "it must have ptr= and nothing else, as in lib.so:f(ptr=1)";
		func->role = role;
	} else if (role == ROLE_POOL_END) {
		if (!func->pool_arg || func->size_arg || func->ptr_arg || func->exits)
			return "it must have pool= and nothing else, as in lib.so:f(pool=1)";
		func->role = role;
		func->ptr_arg = func->pool_arg;
		func->pool_arg = 0;
	} else {
		if (!func->size_arg)
			return "size= is missing, as in lib.so:f(size=1)->ret";
		if (take_word(&pos, "->*")) {
			if (take_arg(&pos, &func->out_arg))
				return "the number of an argument, 1 to 6, must follow ->*";
		} else if (!take_word(&pos, "->ret")) {
			return "the end must say where the block's address is: ->ret or ->*N";
		}
		func->role = func->ptr_arg ? ROLE_REALLOC : ROLE_ALLOC;
		func->wraps = WRAPS_AWAITED;
		func->exits |= !strncmp(colon + 1, "_Z", 2) || !strncmp(colon + 1, "_R", 2);
	}
	if (*pos)
		return "there is text after the end";
	*ret_colon = colon;
	return NULL;
}

int add_alloc_option(struct alloc_options *options, const char *command, const char *option,
		     const char *text)
{
	enum abi_role role = !strcmp(option, "free")  ? ROLE_FREE
			     : !strcmp(option, "end") ? ROLE_POOL_END
						      : ROLE_ALLOC;
	struct alloc_extra *extra = &options->list[options->n];
	const char *why, *colon;
	char *file;

	if (options->n == MAX_EXTRA)
		return usage_error(command, "at most %d --alloc, --free and --end", MAX_EXTRA);
	memset(extra, 0, sizeof(*extra));
	why = parse(text, role, &extra->func, &colon);
	if (why)
		return usage_error(command, "--%s '%s': %s", option, text, why);
	extra->file = file = strndup(text, (size_t)(colon - text));
	extra->symbol = file ? strndup(colon + 1, strcspn(colon + 1, "(")) : NULL;
	if (!extra->symbol) {
		free(file);
		return no_memory();
	}
	options->n++;
	return 0;
}
