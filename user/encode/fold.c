// SPDX-License-Identifier: BSD-2-Clause
#include "encode/fold.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/own_frame.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define HASH_LEN      19     /* "::h" and 16 digits */
#define ARGUMENTS     "<..>" /* replaces template and generic arguments */

struct folded {
	const char *name;
	size_t *close; /* of the name: brackets__match() */
	/* The folded name so far. It is never longer than the name plus two bytes for each '<'. */
	char *text;
	size_t len;
};

static const struct {
	const char *path, *name;
} short_names[] = {
	{"alloc::boxed::Box", "Box"},
	{"alloc::collections::binary_heap::BinaryHeap", "BinaryHeap"},
	{"alloc::collections::btree::map::BTreeMap", "BTreeMap"},
	{"alloc::collections::btree::set::BTreeSet", "BTreeSet"},
	{"alloc::collections::vec_deque::VecDeque", "VecDeque"},
	{"alloc::rc::Rc", "Rc"},
	{"alloc::string::String", "String"},
	{"alloc::sync::Arc", "Arc"},
	{"alloc::vec::Vec", "Vec"},
	{"hashbrown::map::HashMap", "HashMap"},
	{"hashbrown::set::HashSet", "HashSet"},
	{"std::collections::hash::map::HashMap", "HashMap"},
	{"std::collections::hash::set::HashSet", "HashSet"},
	{"std::__detail::_Map_base" ARGUMENTS, "std::unordered_map" ARGUMENTS},
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* open points to '<' or '[' in the name. Returns where it is closed; NULL: it is not closed before
 * `end`. */
static const char *close_of(const struct folded *to, const char *open, const char *end)
{
	size_t at = to->close[open - to->name];

	return at < (size_t)(end - to->name) ? to->name + at : NULL;
}

/* Can a '<' after this character begin arguments? */
static bool follows_name(char c)
{
	return is_word(c) || c == ')' || c == ':' || c == '}';
}

static void put(struct folded *to, const char *text, size_t len)
{
	memcpy(to->text + to->len, text, len);
	to->len += len;
	to->text[to->len] = '\0';
}

static bool ends_with(const struct folded *to, const char *text)
{
	size_t len = strlen(text);

	return to->len >= len && !memcmp(to->text + to->len - len, text, len);
}

/* Replaces the end of the written text if it is a type with a standard short name:
 * std::basic_string<char, ...> is std::string, std::basic_ostream<wchar_t> is std::wostream. */
static bool put_typedef(struct folded *to, const char *arguments)
{
	static const struct {
		const char *type, *prefix;
	} characters[] = {{"char", ""},
			  {"wchar_t", "w"},
			  {"char8_t", "u8"},
			  {"char16_t", "u16"},
			  {"char32_t", "u32"}};
	static const char start[] = "std::basic_";
	char name[32];
	size_t at = to->len;

	while (at && is_word(to->text[at - 1]))
		at--;
	if (at < 5 || !starts_with(to->text + at - 5, start) ||
	    (at > 5 && is_word(to->text[at - 6])))
		return false;
	at += strlen("basic_");
	for (size_t i = 0; i < ARRAY_SIZE(characters); i++) {
		size_t len = strlen(characters[i].type);

		if (!starts_with(arguments, characters[i].type) ||
		    (arguments[len] != ',' && arguments[len] != '>'))
			continue;
		if (to->len - at >= sizeof(name))
			return false;
		strcpy(name, to->text + at);
		to->len = at - strlen("basic_");
		put(to, characters[i].prefix, strlen(characters[i].prefix));
		put(to, name, strlen(name));
		return true;
	}
	return false;
}

/* name points to the word "operator". Puts the word and the symbols after it, without template
 * arguments. Returns the rest of the name. */
static const char *put_operator(struct folded *to, const char *name, const char *end)
{
	static const char *const symbols[] = {
		"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<",  ">",
		"==",  "!=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "&&", "||", "++",
		"--",  "+",   "-",   "*",   "/",  "%",	"&",  "|",  "^",  "!",	"~",  "=",  ","};
	const char *open, *close;

	put(to, name, strlen("operator"));
	name += strlen("operator");
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		if (!starts_with(name, symbols[i]))
			continue;
		put(to, symbols[i], strlen(symbols[i]));
		name += strlen(symbols[i]);
		open = name + (*name == ' ');
		close = *open == '<' ? close_of(to, open, end) : NULL;
		if (close)
			name = close + 1;
		break;
	}
	return name;
}

static void put_path(struct folded *to, const char *name, const char *end);

/* Puts <impl Trait for Type>, which occurs in the middle of a path. The names before "<impl" only
 * tell where the impl was written. If Type is a path, Type replaces these names. */
static void put_impl(struct folded *to, size_t path, const char *type, const char *end)
{
	const char *of = NULL, *close;

	for (const char *p = type; p < end; p++) {
		if (*p == '<' && (close = close_of(to, p, end)))
			p = close;
		else if (starts_with(p, " for "))
			of = p + 5;
	}
	type = of ? of : type;
	while (*type == '&' || starts_with(type, "mut "))
		type += *type == '&' ? 1 : 4;
	for (const char *p = type; p < end && (is_word(*p) || *p == ':'); p++) {
		if (*p != ':')
			continue;
		to->len = path;
		put_path(to, type, end);
		return;
	}
	to->len -= 2; /* removes "::", because a type such as [T] has no path */
	to->text[to->len] = '\0';
}

static void put_path(struct folded *to, const char *name, const char *end)
{
	static const char *const inlined[] = {
		"__cxx11::", "__1::", "__ndk1::", "_V2::", "__cxx1998::", "__debug::"};
	size_t path = to->len; /* where the path begins */
	const char *close;

	while (name < end) {
		char last = to->len ? to->text[to->len - 1] : '\0';

		if (!is_word(last) && starts_with(name, "operator") && !is_word(name[8])) {
			name = put_operator(to, name, end);
			continue;
		}
		if (ends_with(to, "std::")) {
			size_t i = 0;

			while (i < ARRAY_SIZE(inlined) && !starts_with(name, inlined[i]))
				i++;
			if (i < ARRAY_SIZE(inlined)) {
				name += strlen(inlined[i]);
				continue;
			}
		}
		close = *name == '<' || *name == '[' ? close_of(to, name, end) : NULL;
		if (close && starts_with(name, "[abi:")) {
			name = close + 1;
			continue;
		}
		if (close && starts_with(name, "[go.shape.")) {
			put(to, "[...]", 5); /* as in Go's own traces */
			name = close + 1;
			continue;
		}
		if (!close || *name == '[' || !follows_name(last) || starts_with(name, "<init>") ||
		    starts_with(name, "<clinit>")) {
			if (*name == ' ' || *name == '(' || *name == ',')
				path = to->len + 1;
			put(to, name++, 1);
			continue;
		}
		if (ends_with(to, "::") && starts_with(name, "<impl ")) {
			put_impl(to, path, name + 6, close);
		} else if (!put_typedef(to, name + 1)) {
			if (ends_with(to, "::"))
				to->len -= 2;
			put(to, close == name + 1 ? "<>" : ARGUMENTS,
			    close == name + 1 ? 2 : strlen(ARGUMENTS));
		}
		name = close + 1;
	}
}

/* Returns where the last part of a path begins, after "::". If the path has only one part, returns
 * the text itself. */
static char *last_part(char *text)
{
	size_t depth = 0;

	for (size_t i = strlen(text); i--;) {
		if (strchr(")}]", text[i]))
			depth++;
		else if (depth && strchr("({[", text[i]))
			depth--;
		else if (!depth && text[i] == ':' && i && text[i - 1] == ':')
			return text + i + 1;
	}
	return text;
}

/* Removes the last part of a constructor's name, such as std::vector<..>::vector or
 * std::string::basic_string<..>. */
static void drop_constructor(char *text)
{
	char *last = last_part(text), *type, *end = strchr(last, '<');
	size_t type_len, len = end ? (size_t)(end - last) : strlen(last);

	if (!starts_with(text, "std::") || last < text + 7 || strchr(last, '('))
		return;
	last[-2] = '\0';
	type = last_part(text);
	type_len = strcspn(type, "<");
	if ((type_len == len && !strncmp(type, last, len)) ||
	    (starts_with(last, "basic_") && type_len >= len - 6 &&
	     !strncmp(type + type_len - (len - 6), last + 6, len - 6)))
		return;
	last[-2] = ':';
}

static bool has_hash(const char *name, size_t len)
{
	return len > HASH_LEN && starts_with(name + len - HASH_LEN, "::h") &&
	       strspn(name + len - HASH_LEN + 3, "0123456789abcdef") == HASH_LEN - 3;
}

static bool is_path(const char *type, size_t len)
{
	size_t i = 0;

	while (i < len && is_word(type[i]))
		i++;
	return i && i + 2 < len && starts_with(type + i, "::");
}

char *fold_name(const char *name)
{
	size_t len = strlen(name);
	const char *end = name + len;
	_cleanup_free_ size_t *closed_at = malloc((len + 1) * sizeof(*closed_at));
	struct folded to = {.name = name, .close = closed_at, .text = calloc(1, 3 * len + 1)};
	struct qualified_name q;

	if (!closed_at || !to.text) {
		free(to.text);
		return NULL;
	}
	brackets__match(name, to.close);
	if (has_hash(name, len))
		end -= HASH_LEN;
	if (qualified_name__parse(name, &q)) {
		while (q.type_len && (*q.type == '&' || starts_with(q.type, "mut "))) {
			size_t skip = *q.type == '&' ? 1 : 4;

			q.type += skip;
			q.type_len -= skip;
		}
		if (!q.trait || is_path(q.type, q.type_len))
			put_path(&to, q.type, q.type + q.type_len);
		else
			put_path(&to, q.trait, q.trait + q.trait_len);
		name = q.rest;
	}
	if (name < end)
		put_path(&to, name, end);
	drop_constructor(to.text);
	for (size_t i = 0; i < ARRAY_SIZE(short_names); i++) {
		size_t before = strlen(short_names[i].path), after = strlen(short_names[i].name);
		char *rest = to.text + before;

		if (!starts_with(to.text, short_names[i].path) || is_word(*rest))
			continue;
		memmove(to.text, short_names[i].name, after);
		memmove(to.text + after, rest, strlen(rest) + 1);
		break;
	}
	return to.text;
}
