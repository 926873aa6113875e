/* SPDX-License-Identifier: BSD-2-Clause */
/* Decides whose code a frame is. People look for their own function that asked for memory. The
 * functions that it called to get the memory (a string's constructor, fopen, malloc) are the same
 * in every program.
 *
 * A frame is
 *
 *   the allocator's    when its function allocates for any caller:
 *			profile__is_allocator_frame();
 *   the runtime's      in three cases. Its file is a library of the system's runtime (libc, ld.so,
 *			libstdc++, libgcc_s, an allocator's, ...) and not the program itself. Its
 *			function belongs to a language's standard library or runtime, which
 *			compilers put into the program: std:: and __gnu_cxx:: of C++, core::,
 *			alloc:: and std:: of Rust, the standard packages of Go, what runs before
 *			main. Or the frame has neither name nor file;
 *   an interpreter's   in two cases. It is native code of Python or Node.js: the interpreter itself
 *			(v8:: in any file), or a module that it has loaded from a directory of its
 *			libraries. Or it is a function of Python whose name was not read ([python]);
 *   a library's        when its source file is in a directory of an interpreter's libraries
 *			(lib/python3, site-packages, dist-packages, node_modules), or is in the
 *			interpreter (<frozen os>, node:internal/...);
 *   own		in all other cases.
 *
 * Other libraries (libssl, boost, a plugin) are own, because the user wants to see that they ask
 * for memory. If no frame of a stack is own, frames of the interpreter and its libraries are named.
 * Only names and paths decide. A wrong guess moves the beginning of the shown stack by some frames,
 * and changes no number. */
#ifndef MEMTRACE_PROFILE_OWN_FRAME_H
#define MEMTRACE_PROFILE_OWN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* In ascending order of how much a frame tells about the program. */
enum frame_owner {
	FRAME_OF_ALLOCATOR,
	FRAME_OF_RUNTIME,
	FRAME_OF_INTERPRETER,
	FRAME_OF_LIBRARY,
	FRAME_OWN,
};

/* Returns the owner of a frame of location. name: the frame's name, or the address as text. file:
 * the frame's source file; NULL: not known. */
enum frame_owner profile__frame_owner(const struct profile *profile,
				      const struct profile_location *location, const char *name,
				      const char *file);

/* "/usr/lib/libc.so.6": is a file with this path a library of the system's runtime? */
bool path__is_runtime(const char *path);

/* Is this the name of a function of a standard library or runtime? */
bool function__is_runtime(const char *name);

/* "/usr/bin/python3.11", "/usr/lib/libnode.so.108": is a file with this path Python or Node.js? */
bool path__is_interpreter(const char *path);

/* Is this mapped file or source file in a directory where Python or Node.js keep libraries, or
 * within the interpreter? */
bool path__is_library(const char *path);

/* Returns the owner of a function by the name that V8 gives to code that it has compiled:
 * "JS:*parse /app/a.js:1:9", "Builtin:Call". The owner is the interpreter, a library or the program
 * itself. Functions with other names are own. */
enum frame_owner function__script_owner(const char *name);

/* Functions without a name are called "libc.so.6+0x27249". Returns the length of the module's name;
 * 0: name has no such form. */
size_t function__module_length(const char *name);

/* Rust's "<Type as Trait>::rest" and "<Type>::rest". The members point into the name; trait is NULL
 * if there is none. */
struct qualified_name {
	const char *type, *trait, *rest; /* rest begins with "::" */
	size_t type_len, trait_len;
};

/* false: the name is not such a qualified name. */
bool qualified_name__parse(const char *name, struct qualified_name *ret);

#define BRACKET_ALONE SIZE_MAX

/* Finds the bracket that closes each '<' and each '[' of the name, in linear time. The brackets in
 * "->" and in comparison operators do not count. For each character of the name, close[] has an
 * element. It becomes the index of the closing bracket, or BRACKET_ALONE. */
void brackets__match(const char *name, size_t *close);

/* Copies name without template arguments (in angle brackets), a compiler's suffix and a return
 * type. */
void function__simplify(const char *name, char *out, size_t size);

#endif
