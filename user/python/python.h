/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython in another process: where its interpreter is, and what its code objects are called. All
 * that is read from that process may be forged. So each read has a deadline (proc/memory.h), and
 * each length has a limit. An object counts as a code object only if its type is PyCode_Type. */
#ifndef MEMTRACE_PYTHON_PYTHON_H
#define MEMTRACE_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/binary.h"
#include "elf/image.h"
#include "proc/maps.h"

/* How a code object stores its table of line numbers. */
enum python_lines {
	PYTHON_LOCATIONS,   /* from 3.11 on, with columns */
	PYTHON_LINE_RANGES, /* 3.10 */
	PYTHON_LINE_STEPS,  /* up to 3.9 */
};

/* A field that a type itself has declared to the interpreter (PyMemberDef). */
struct python_member {
	const char *name;
	uint16_t off;
};

#define PYTHON_MEMBERS 6

/* Where a version of CPython stores its data: offsets in bytes. Source: CPython's pycore_runtime.h,
 * pycore_interp.h, pycore_frame.h, cpython/pystate.h, cpython/code.h, cpython/frameobject.h,
 * cpython/unicodeobject.h. */
struct python_layout {
	uint32_t version; /* major << 8 | minor */
	/* Before 3.11 no variable tells the version, and frames are objects. So the sizes and
	 * fields below distinguish this layout from those of other versions. runtime_bytes 0: the
	 * version is 3.11 or later. */
	uint16_t runtime_bytes, frame_size, code_size;
	struct python_member frame_members[PYTHON_MEMBERS], code_members[PYTHON_MEMBERS];
	/* offsets in _PyRuntime; current 0: the version has no such member */
	uint16_t current, interpreter;
	uint16_t threads; /* offset in PyInterpreterState */
	/* offsets in PyThreadState; cframe_frame: in _PyCFrame, if the thread's state points to
	 * one */
	uint16_t next, thread_id, frame, cframe_frame;
	bool through_cframe;
	/* offsets in _PyInterpreterFrame, or in PyFrameObject. One native frame interprets several
	 * frames of Python. last: offset of a byte, which has the value last_value in the last of
	 * these frames. last_is_empty: this last frame belongs to no function. depth: offset of a
	 * byte, which is 0xff if the frame has called native code, not Python. If the offset
	 * `depth` is 0, `last` alone decides */
	uint16_t frame_code, previous, instruction, last, depth;
	uint8_t last_value;
	bool last_is_empty;
	uint8_t frame_bytes; /* number of bytes that are read of a frame */
	/* f_lasti of PyFrameObject, shifted right by index_shift, is the number of the
	 * instruction */
	uint8_t index_shift;
	/* offsets in PyCodeObject: of the first instruction (instructions), or of the pointer to
	 * the bytes object that holds the instructions (code_bytes). The member that is not used is
	 * 0 */
	uint16_t instructions, code_bytes;
	uint16_t file, name, first_line, lines;
	enum python_lines lines_kind;
	uint16_t ascii, unicode; /* the text in an ASCII str, and in any other str */
};

/* Returns the layout of a version. NULL: the version is not known, or is before 3.11. */
const struct python_layout *python_layout__find(uint32_t version);
/* Finds a version older than 3.11 by the size of its _PyRuntime, and returns its layout. NULL: no
 * such version is known. */
const struct python_layout *python_layout__find_old(uint64_t runtime_bytes);

/* Do the types of frames and code objects in the process match layout, which is of a version before
 * 3.11? 0: they do; -ENOENT: they do not; -EAGAIN: the loader has not filled in the types' pointers
 * yet; other negative errno. */
int python_layout__check(const struct python_layout *layout, pid_t pid, uint64_t frame_type,
			 uint64_t code_type);

/* A CPython that a process has mapped. Addresses are run-time addresses. */
struct python {
	const struct python_layout *layout;
	uint64_t eval_start, eval_end; /* _PyEval_EvalFrameDefault */
	uint64_t cold_start, cold_end; /* the rarely executed part of it; both 0: not known */
	uint64_t runtime;	       /* _PyRuntime */
	uint64_t code_type;	       /* PyCode_Type */
	uint64_t frame_type;	       /* PyFrame_Type; 0: in this version frames are not objects */
};

/* A cache of what was read from files, so that each file is read once, however many processes run
 * it. Opaque. */
struct python_files;

/* Makes an empty cache. binaries: the known files; other files are ignored. The caller keeps
 * `binaries` until python_files__free(). meanwhile: is called while a file is read. 0 or
 * -ENOMEM. */
int python_files__new(const struct binaries *binaries, const struct elf_meanwhile *meanwhile,
		      struct python_files **ret);
void python_files__free(struct python_files *files);

/* Forgets what was read from the file whose binary has, or had, this index. */
void python_files__forget(struct python_files *files, size_t index);

/* Looks for CPython 3.9 to 3.13 in the process: in files whose names begin with python or
 * libpython. 0; -ENOENT: the process has no CPython of a known version; -EAGAIN: it has a CPython
 * before 3.11, but the loader has not filled in the pointers of this CPython yet; other negative
 * errno. */
int python__find(struct python_files *files, pid_t pid, const struct maps *maps,
		 struct python *ret);

#define PYTHON_NAME_BYTES 1024

struct python_code {
	char *name; /* UTF-8, not trusted; cut to PYTHON_NAME_BYTES */
	char *file; /* likewise; NULL: it has no name that can be read */
	int first_line;
	uint64_t n_units;     /* instructions */
	unsigned char *lines; /* co_linetable, or co_lnotab; NULL: it is too large to be read */
	size_t n_lines;
	enum python_lines lines_kind;
	/* The first two words are the addresses of the object's name and of its table of lines. The
	 * third word is the address of its instructions or, from 3.11 on, their number */
	uint64_t identity[3];
};

/* Reads the code object at addr. 0: the caller must clear *ret later. -ENOENT: the object is not a
 * code object, or its content makes no sense; other negative errno. */
int python_code__read(pid_t pid, const struct python *python, uint64_t addr,
		      struct python_code *ret);
/* Is the object at addr still the one that was read? 1: yes; 0: no; -EFAULT: no memory is there;
 * other negative errno: not known. */
int python_code__is_same(pid_t pid, const struct python *python, uint64_t addr,
			 const struct python_code *code);
void python_code__clear(struct python_code *code);

/* Returns the line of an instruction; 0: none. */
int python_code__line(const struct python_code *code, uint64_t unit);

#endif
