// SPDX-License-Identifier: BSD-2-Clause
#include "profile/own_frame.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Files whose name begins with one of these texts and goes on with ".so" or a version, as in
 * libc-2.31.so. */
static const char *const libraries[] = {
	/* of C */
	"libc",
	"libm",
	"libmvec",
	"libpthread",
	"libdl",
	"librt",
	"libanl",
	"libutil",
	"libnsl",
	"libresolv",
	"libBrokenLocale",
	"libthread_db",
	/* of compilers */
	"libstdc++",
	"libsupc++",
	"libc++",
	"libc++abi",
	"libgcc_s",
	"libunwind",
	"libatomic",
	"libgomp",
	"libomp",
	"libiomp5",
	"libquadmath",
	"libgfortran",
	"libgnat",
	"libgo",
	"libasan",
	"libtsan",
	"libubsan",
	"liblsan",
	/* allocators */
	"libjemalloc",
	"libtcmalloc",
	"libtcmalloc_minimal",
	"libtcmalloc_and_profiler",
	"libmimalloc",
	"libmimalloc-secure",
	"libhoard",
	"ld",
};

/* Files whose name begins with one of these texts. */
static const char *const library_prefixes[] = {
	"libnss_", /* plugins of libc */
	"libc.musl-",	"ld-linux", "ld-musl-",
	"ld64.so",	"libstd-", /* of Rust, followed by a hash */
	"libtcmalloc_",
};

/* --- Python and Node.js --- */

/* Files of the interpreters: the name goes on with a version, or with nothing. */
static const char *const interpreters[] = {"python", "node", "nodejs", "libpython", "libnode"};

/* Directories of modules that come with an interpreter, or are installed for it. */
static const char *const library_dirs[] = {
	"/lib/python3", "/lib64/python3", "/site-packages/", "/dist-packages/", "/node_modules/",
};

/* Names of source files within an interpreter. */
static const char *const library_files[] = {"<frozen ", "node:"};

/* What V8 writes before a function's name in the perf map, by the kind of its code. */
static const char *const scripts[] = {"JS:", "Eval:", "Script:", "LazyCompile:", "Function:"};
static const char *const v8_code[] = {"Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"};

/* If one of these texts follows a function's name, the function's script is not the program's
 * own. */
static const char *const script_places[] = {" node:", " internal/", "/node_modules/"};

/* --- C, C++, Rust and Go --- */

/* Functions whose name, without template arguments, begins with one of these are the runtime's. */
static const char *const namespaces[] = {
	"std::",       "__gnu_cxx::",	      "__gnu_debug::", "__cxxabiv1::",
	"hashbrown::", "compiler_builtins::", "__rustc::",
};

/* Prefixes of the runtime's names before demangling (--no-demangle). */
static const char *const mangled[] = {
	"_ZSt", "_ZNSt",     "_ZNKSt",	 "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_Znw",
	"_Zna", "_ZN5alloc", "_ZN4core", "_ZN3std",	  "_ZN9hashbrown",
};

/* Modules of Rust's crates core and alloc that allocate or call back. The crates as a whole are not
 * listed, because C++ programs often use these two names for namespaces of their own. */
static const char *const rust_modules[] = {
	"core::alloc::",   "core::array::",	 "core::cell::",	 "core::clone::",
	"core::cmp::",	   "core::convert::",	 "core::default::",	 "core::fmt::",
	"core::hash::",	   "core::intrinsics::", "core::iter::",	 "core::mem::",
	"core::num::",	   "core::ops::",	 "core::option::",	 "core::panicking::",
	"core::panic::",   "core::pin::",	 "core::ptr::",		 "core::result::",
	"core::slice::",   "core::str::",	 "core::marker::",	 "core::unicode::",
	"core::ascii::",   "core::char::",	 "core::ffi::",		 "alloc::alloc::",
	"alloc::borrow::", "alloc::boxed::",	 "alloc::collections::", "alloc::ffi::",
	"alloc::fmt::",	   "alloc::macros::",	 "alloc::raw_vec::",	 "alloc::rc::",
	"alloc::slice::",  "alloc::str::",	 "alloc::string::",	 "alloc::sync::",
	"alloc::vec::",
};

/* Go's standard packages, or the first part of their paths. The first part of other libraries'
 * paths has a dot (github.com). A package with any other name is the program's. */
static const char *const go_packages[] = {
	"archive",  "bufio",   "bytes",	  "cmp",      "compress", "container", "context", "crypto",
	"database", "debug",   "embed",	  "encoding", "errors",	  "expvar",    "flag",	  "fmt",
	"go",	    "hash",    "html",	  "image",    "index",	  "internal",  "io",	  "iter",
	"log",	    "maps",    "math",	  "mime",     "net",	  "os",	       "path",	  "plugin",
	"reflect",  "regexp",  "runtime", "slices",   "sort",	  "strconv",   "strings", "sync",
	"syscall",  "testing", "text",	  "time",     "unicode",  "unique",    "unsafe",  "vendor",
};

/* Functions of the C library that run before main, and that a static program contains. crosscall2
 * is Go's: through it, C calls Go. start_thread is left out: it may be a function of the
 * program. */
static const char *const starts[] = {
	"_start",
	"__libc_start_main",
	"__libc_start_main_impl",
	"__libc_start_call_main",
	"__libc_csu_init",
	"_dl_start_user",
	"__clone",
	"__clone3",
	"clone3",
	"crosscall2",
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool any_begins(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (starts_with(text, list[i]))
			return true;
	return false;
}

/* --- names in angle brackets --- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* If the word "operator" stands at p in the name, returns its length, together with a following
 * operator of angle brackets. Else returns 0. */
static size_t operator_length(const char *name, const char *p)
{
	static const char *const operators[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>",
						"<=",  ">=",  "->",  "<",   ">"};
	static const char word[] = "operator";
	size_t len = strlen(word);

	if (*p != 'o' || (p > name && is_word(p[-1])) || !starts_with(p, word))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++)
		if (starts_with(p + len, operators[i]))
			return len + strlen(operators[i]);
	return len;
}

/* Finds the '>' that closes the '<' at open; NULL: none does. */
static const char *angle_close(const char *open)
{
	size_t depth = 0, skip;

	for (const char *p = open; *p; p++) {
		skip = operator_length(open, p);
		if (skip)
			p += skip - 1;
		else if (*p == '<')
			depth++;
		else if (*p == '>' && p[-1] != '-' && !--depth)
			return p;
	}
	return NULL;
}

/* Closes the bracket that was opened last, if one is open. While a bracket is open, its element of
 * close[] is the index of the bracket that was open before it. */
static void close_last(size_t *close, size_t *open, size_t at)
{
	size_t opened = *open;

	if (opened == BRACKET_ALONE)
		return;
	*open = close[opened];
	close[opened] = at;
}

static void forget_open(size_t *close, size_t open)
{
	while (open != BRACKET_ALONE) {
		size_t before = close[open];

		close[open] = BRACKET_ALONE;
		open = before;
	}
}

void brackets__match(const char *name, size_t *close)
{
	size_t angle = BRACKET_ALONE, square = BRACKET_ALONE, skip;

	for (size_t i = 0; name[i]; i++)
		close[i] = BRACKET_ALONE;
	for (size_t i = 0; name[i]; i++) {
		skip = operator_length(name, name + i);
		if (skip) {
			i += skip - 1;
		} else if (name[i] == '<') {
			close[i] = angle;
			angle = i;
		} else if (name[i] == '>' && (!i || name[i - 1] != '-')) {
			close_last(close, &angle, i);
		} else if (name[i] == '[') {
			close[i] = square;
			square = i;
		} else if (name[i] == ']') {
			close_last(close, &square, i);
		}
	}
	forget_open(close, angle);
	forget_open(close, square);
}

/* Finds " as " between `from` and `end`, outside of all brackets. NULL: there is none. */
static const char *find_as(const char *from, const char *end)
{
	size_t depth = 0;

	for (const char *p = from; p + 4 <= end; p++) {
		if (strchr("<([", *p))
			depth++;
		else if (depth && (strchr(")]", *p) || (*p == '>' && p[-1] != '-')))
			depth--;
		else if (!depth && starts_with(p, " as "))
			return p;
	}
	return NULL;
}

bool qualified_name__parse(const char *name, struct qualified_name *ret)
{
	const char *close = *name == '<' ? angle_close(name) : NULL, *as;

	if (!close || !starts_with(close, ">::"))
		return false;
	as = find_as(name + 1, close);
	*ret = (struct qualified_name){.type = name + 1, .rest = close + 1};
	ret->type_len = (size_t)((as ? as : close) - ret->type);
	if (as) {
		ret->trait = as + 4;
		ret->trait_len = (size_t)(close - ret->trait);
	}
	return true;
}

void function__simplify(const char *name, char *out, size_t size)
{
	static const char *const suffixes[] = {".part.",     ".isra.", ".constprop.",
					       ".lto_priv.", ".cold",  " [clone "};
	size_t n = 0, depth = 0;
	char *end, *blank;

	for (const char *p = name; *p && n < size - 1; p++) {
		if (*p == '<')
			depth++;
		else if (*p == '>' && depth)
			depth--;
		else if (!depth)
			out[n++] = *p;
	}
	out[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		end = strstr(out, suffixes[i]);
		if (end)
			*end = '\0';
	}
	/* "app::Row::operator std::string": the blank in this name does not follow a return type */
	end = strstr(out, "operator ");
	blank = end ? memrchr(out, ' ', (size_t)(end - out)) : strrchr(out, ' ');
	if (blank && strstr(out, "::"))
		memmove(out, blank + 1, strlen(blank + 1) + 1);
}

/* --- functions --- */

/* Skips the references, pointers and keywords in front of a type or trait, and returns where its
 * path begins. NULL: the type has no path, like u8, [T] and T. */
static const char *path_of(const char *text, size_t len)
{
	static const char *const before[] = {"&",    "*const ", "*mut ",    "mut ",
					     "dyn ", "impl ",	"'static ", "'_ "};
	const char *end = text + len, *p;

	for (size_t i = 0; i < ARRAY_SIZE(before); i++)
		if (starts_with(text, before[i])) {
			text += strlen(before[i]);
			i = (size_t)-1;
		}
	for (p = text; p < end && is_word(*p);)
		p++;
	return p > text && p < end && starts_with(p, "::") ? text : NULL;
}

static bool is_standard(const char *path)
{
	return any_begins(path, namespaces, ARRAY_SIZE(namespaces)) ||
	       any_begins(path, rust_modules, ARRAY_SIZE(rust_modules));
}

/* Is this a function of a trait of the standard library, compiled for a type of the program? In
 * that case only the type is the program's. */
static bool is_blanket(const struct qualified_name *q, const char *trait)
{
	static const char into[] = "core::convert::Into",
			  iterator[] = "core::iter::traits::iterator::Iterator";

	if (starts_with(trait, iterator))
		return strcmp(q->rest, "::next") != 0;
	return starts_with(trait, into) ||
	       (starts_with(trait, "alloc::") && !starts_with(trait, "alloc::borrow::"));
}

/* Is it a function of the runtime? A function of a type or trait of the program is own, except
 * where is_blanket() is true. */
static bool is_qualified_runtime(const struct qualified_name *q)
{
	const char *type = path_of(q->type, q->type_len),
		   *trait = q->trait ? path_of(q->trait, q->trait_len) : NULL;

	if (trait && is_standard(trait) && is_blanket(q, trait))
		return true;
	return (!type || is_standard(type)) && (!trait || is_standard(trait));
}

/* Is it a function of Go's standard packages ("strings.(*Builder).grow", "net/http.Get",
 * "runtime.mallocgc", "runtime/debug.F"), or one that cgo makes for calls of C? */
static bool is_go_runtime(const char *name)
{
	size_t len = strcspn(name, "./");
	const char *dot = strrchr(name, '/');

	if (starts_with(name, "_cgo_") || strstr(name, "._Cfunc_"))
		return true;
	dot = strchr(dot ? dot : name, '.');
	if (!dot || (!isalpha((unsigned char)dot[1]) && dot[1] != '('))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(go_packages); i++)
		if (strlen(go_packages[i]) == len && !strncmp(name, go_packages[i], len))
			return true;
	return false;
}

bool function__is_runtime(const char *name)
{
	struct qualified_name q;
	char simple[512];

	if (starts_with(name, "operator new") || starts_with(name, "operator delete"))
		return true;
	if (any_begins(name, mangled, ARRAY_SIZE(mangled)))
		return true;
	if (qualified_name__parse(name, &q))
		return is_qualified_runtime(&q);
	function__simplify(name, simple, sizeof(simple));
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (!strcmp(simple, starts[i]))
			return true;
	return is_standard(simple) || is_go_runtime(simple);
}

size_t function__module_length(const char *name)
{
	const char *plus = strrchr(name, '+');

	if (!plus || plus == name || !starts_with(plus, "+0x") || !plus[3] ||
	    plus[3 + strspn(plus + 3, "0123456789abcdef")])
		return 0;
	return (size_t)(plus - name);
}

/* --- files --- */

bool path__is_runtime(const char *path)
{
	const char *name = base_name(path);

	if (*path == '[') /* [vdso], but not [heap] or [stack], which are not libraries */
		return starts_with(path, "[vdso") || starts_with(path, "[vsyscall") ||
		       starts_with(path, "[uprobes");
	if (any_begins(name, library_prefixes, ARRAY_SIZE(library_prefixes)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		const char *rest = name + strlen(libraries[i]);

		if (starts_with(name, libraries[i]) &&
		    (starts_with(rest, ".so") || (*rest == '-' && isdigit((unsigned char)rest[1]))))
			return true;
	}
	return false;
}

bool path__is_interpreter(const char *path)
{
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++) {
		const char *rest = name + strlen(interpreters[i]);

		if (!starts_with(name, interpreters[i]))
			continue;
		for (; isdigit((unsigned char)*rest) ||
		       (*rest == '.' && isdigit((unsigned char)rest[1]));)
			rest++;
		rest += *rest == 'd' || *rest == 't'; /* built for debugging, or without the GIL */
		if (!*rest || !strcmp(rest, "-dbg") || starts_with(rest, ".so"))
			return true;
	}
	return false;
}

bool path__is_library(const char *path)
{
	if (any_begins(path, library_files, ARRAY_SIZE(library_files)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(library_dirs); i++) {
		const char *found = strstr(path, library_dirs[i]);
		size_t len = strlen(library_dirs[i]);

		/* "/lib/python3.11/", but not "/lib/python3-app/" */
		if (found && (found[len - 1] == '/' || strchr("0123456789./", found[len])))
			return true;
	}
	return false;
}

/* Does the name begin with one of `kinds`? "JS:~f" begins with "JS:", but the name JS::f of C++
 * does not count. */
static bool is_code_of(const char *name, const char *const *kinds, size_t n)
{
	return any_begins(name, kinds, n) && strchr(name, ':')[1] != ':';
}

enum frame_owner function__script_owner(const char *name)
{
	if (is_code_of(name, v8_code, ARRAY_SIZE(v8_code)))
		return FRAME_OF_INTERPRETER;
	if (!is_code_of(name, scripts, ARRAY_SIZE(scripts)))
		return FRAME_OWN;
	for (size_t i = 0; i < ARRAY_SIZE(script_places); i++)
		if (strstr(name, script_places[i]))
			return FRAME_OF_LIBRARY;
	return FRAME_OWN;
}

/* --- frames --- */

static bool is_address(const char *name)
{
	return starts_with(name, "0x") && name[2] &&
	       !name[2 + strspn(name + 2, "0123456789abcdef")];
}

/* file may be NULL: not known. */
static bool is_python(const char *file)
{
	size_t len = file ? strlen(file) : 0;

	return len > 3 && !strcmp(file + len - 3, ".py");
}

/* Returns the owner of a frame that is neither the allocator's nor the runtime's. path: the path of
 * the frame's mapped file, or "". */
static enum frame_owner owner_of_other(const struct profile *profile, const char *path,
				       const char *name, const char *file)
{
	bool is_exe = profile->exe && !strcmp(path, profile->exe);

	if (file && path__is_library(file))
		return FRAME_OF_LIBRARY;
	if (path__is_interpreter(path) || starts_with(name, "v8::") || !strcmp(name, "[python]") ||
	    (!is_exe && path__is_library(path)))
		return FRAME_OF_INTERPRETER;
	return function__script_owner(name);
}

enum frame_owner profile__frame_owner(const struct profile *profile,
				      const struct profile_location *location, const char *name,
				      const char *file)
{
	const char *path = location->mapping >= 0 ? profile->mappings[location->mapping].path : "";
	size_t module = function__module_length(name);
	char in_name[256];

	if (profile__is_allocator_frame(name))
		return FRAME_OF_ALLOCATOR;
	if (location->note || !*name || is_address(name))
		return FRAME_OF_RUNTIME;
	/* in a profile file without mappings, frame names may still begin with a module's name */
	if (!*path && module && module < sizeof(in_name)) {
		memcpy(in_name, name, module);
		in_name[module] = '\0';
		path = in_name;
	}
	if (*path && path__is_runtime(path) && (!profile->exe || strcmp(path, profile->exe)))
		return FRAME_OF_RUNTIME;
	/* the rules for C++, Rust and Go do not apply to a function of Python, such as
	 * image.load */
	if (!module && !is_python(file) && function__is_runtime(name))
		return FRAME_OF_RUNTIME;
	return owner_of_other(profile, path, name, file);
}
