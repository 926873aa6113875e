/* SPDX-License-Identifier: GPL-2.0-only */
/* Frames of CPython in a stack. One native frame of _PyEval_EvalFrameDefault interprets one Python
 * function, or from 3.11 on several of them that have called each other. The thread's state points
 * to the innermost Python frame, and each Python frame to its caller's. A mark in a Python frame
 * tells that the native function was entered there. When the walk of the native stack reaches a
 * frame of _PyEval_EvalFrameDefault, it puts the Python frames up to the mark in place of that
 * frame. Then the walk continues.
 *
 * Up to 3.10 Python frames are objects on the heap.
 *
 * While a generator A passes an exception on to a generator B ("yield from"), A has no native
 * frame. Up to 3.10 the Python frame of A has no mark during this time. 3.11 leaves the mark in the
 * frame. So in 3.11 the walk ignores a mark if two conditions hold. First, the mark is in the first
 * Python frame that the walk puts in place of a native frame. Second, this Python frame has noted
 * the depth of its stack, as a frame does when it calls Python.
 *
 * Where each field lies depends on Python's version. User space finds the offsets (struct
 * abi_python). The target may forge the data that the walk reads, and so send the walk in circles.
 * Each step reads one frame, so the limit of frames ends such a walk. */
#ifndef MEMTRACE_BPF_PYTHON_BPF_H
#define MEMTRACE_BPF_PYTHON_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "unwind.bpf.h"

#define PYTHON_MAX_THREADS 64 /* at most this many threads are searched for the running one */
#define PYTHON_TYPE_WORD   1  /* in an object, index of the word that points to the object's type */

static __always_inline bool python_runs_at(const struct abi_python *python, __u64 pc)
{
	return (pc >= python->eval_start && pc < python->eval_end) ||
	       (pc >= python->cold_start && pc < python->cold_end);
}

/* Returns the address of the state of the thread whose thread pointer (pthread_self()) is self. 0:
 * there is none. */
static __always_inline __u64 python_thread(const struct abi_python *python, __u64 self)
{
	__u64 thread = 0, id;
	__u32 i;

	if (python->current && !read_user_u64(&thread, python->current) && thread &&
	    !read_user_u64(&id, thread + python->thread_id) && id == self)
		return thread;
	if (read_user_u64(&thread, python->interpreter) || !thread ||
	    read_user_u64(&thread, thread + python->threads))
		return 0;
	for (i = 0; i < PYTHON_MAX_THREADS && thread; i++) {
		if (read_user_u64(&id, thread + python->thread_id))
			return 0;
		if (id == self)
			return thread;
		if (read_user_u64(&thread, thread + python->next))
			return 0;
	}
	return 0;
}

/* Prepares the steps along Python frames. The native walk has reached a frame of the interpreter's
 * function, and has put this frame at the end of the stack. */
static __always_inline void python_enter(struct unwind *u, const struct abi_python *python)
{
	if (!u->python_known) {
		__u64 thread = python_thread(python, thread_pointer());

		u->python_known = 1;
		u->python_frame = 0;
		if (thread && !read_user_u64(&u->python_frame, thread + python->frame) &&
		    u->python_frame && python->through_cframe)
			read_user_u64(&u->python_frame, u->python_frame + python->cframe_frame);
	}
	u->python_runs = u->python_frame != 0;
	u->python_first = 1;
}

/* Reads the next Python frame. Puts the frame into the stack if it makes sense and belongs to a
 * function. 0: the walk goes on; 1: the walk is over. */
static __always_inline int python_step(struct unwind *u, const struct abi_python *python)
{
	__u64 code, instruction, unit, last, depth;
	__u32 n = u->stack.n;

	if (read_user(u->python_words, python->frame_bytes & (8 * PYTHON_WORDS - 1),
		      u->python_frame) ||
	    (python->frame_type && u->python_words[PYTHON_TYPE_WORD] != python->frame_type)) {
		u->python_runs = u->python_frame = 0;
		return 0;
	}
	code = u->python_words[(python->code >> 3) & (PYTHON_WORDS - 1)];
	instruction = u->python_words[(python->instruction >> 3) & (PYTHON_WORDS - 1)];
	last = u->python_words[(python->last >> 3) & (PYTHON_WORDS - 1)];
	last = (last >> (8 * (python->last & 7))) & 0xff;
	depth = u->python_words[(python->depth >> 3) & (PYTHON_WORDS - 1)];
	depth = (depth >> (8 * (python->depth & 7))) & 0xff;
	u->python_frame = u->python_words[(python->previous >> 3) & (PYTHON_WORDS - 1)];
	if (last == python->last_value && (!python->depth || !u->python_first || depth == 0xff)) {
		u->python_runs = 0;
		if (python->last_is_empty)
			return 0;
	}
	if (!u->python_frame)
		u->python_runs = 0;
	if (!code || (code & 15) || code >> 47) {
		u->python_runs = u->python_frame = 0;
		return 0;
	}
	unit = (instruction - code - python->instructions) >> 1;
	if (python->frame_type)
		unit = (__u32)instruction >> (python->index_shift & 31);
	if (unit > ABI_PYTHON_UNKNOWN)
		unit = ABI_PYTHON_UNKNOWN;
	if (u->python_first) {
		u->python_first = 0;
		n--;
	}
	if (n >= ABI_STACK_FRAMES || n >= u->max_frames) {
		u->stack.end = STACK_END_TRUNCATED;
		return 1;
	}
	u->stack.ip[n] = abi_python_frame(code, unit);
	u->stack.n = n + 1;
	return 0;
}

#endif
