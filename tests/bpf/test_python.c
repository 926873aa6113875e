// SPDX-License-Identifier: BSD-2-Clause
/* Frames of Python, laid out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host_stack.h"
#include "no_tables.h"
#include "python.bpf.h"

#define SELF 0x7f0000001740ULL

/* Words of the memory: */
enum { CURRENT, MAIN, INTERPRETER = 16, THREADS = 32, CFRAME = 1000, FRAMES = 2000 };

static const struct abi_python how = {
	.eval_start = 0x1000,
	.eval_end = 0x2000,
	.cold_start = 0x500,
	.cold_end = 0x600,
	.current = STACK_ADDR + 8 * CURRENT,
	.interpreter = STACK_ADDR + 8 * MAIN,
	.threads = 16,
	.next = 8,
	.thread_id = 24,
	.frame = 32,
	.cframe_frame = 8,
	.code = 32,
	.previous = 48,
	.instruction = 56,
	.last = 68,
	.instructions = 184,
	.last_value = 1,
	.through_cframe = 1,
	.frame_bytes = 72,
};

/* The type of frame objects, in a version of Python that has them. */
#define FRAME_TYPE 0x905cc0ULL

static const struct abi_python old = {
	.eval_start = 0x1000,
	.eval_end = 0x2000,
	.current = STACK_ADDR + 8 * CURRENT,
	.interpreter = STACK_ADDR + 8 * MAIN,
	.threads = 16,
	.next = 8,
	.thread_id = 24,
	.frame = 32,
	.code = 32,
	.previous = 48,
	.frame_type = FRAME_TYPE,
	.instruction = 104,
	.last = 116,
	.last_value = 1,
	.frame_bytes = 120,
	.index_shift = 1,
};

__u32 random_u32(void)
{
	return 0;
}

__u64 trampoline_addr(void)
{
	return 0;
}

__u64 thread_pointer(void)
{
	return SELF;
}

static uint64_t code(size_t i)
{
	return 0x7f1234560000ULL + 256 * i;
}

/* Frame i, whose caller is frame i + 1, runs instruction number i. */
static void lay_frame(size_t i, bool last)
{
	uint64_t *frame = memory + FRAMES + 16 * i;

	frame[4] = code(i);
	frame[6] = at(FRAMES + 16 * (i + 1));
	frame[7] = code(i) + how.instructions + 2 * i;
	frame[8] = last ? 1ULL << 32 : 0;
}

/* Frame object i, whose caller is i + 1, runs the instruction at byte 2 i. */
static void lay_object(size_t i, bool last)
{
	uint64_t *frame = memory + FRAMES + 16 * i;

	frame[1] = FRAME_TYPE;
	frame[4] = code(i);
	frame[6] = at(FRAMES + 16 * (i + 1));
	frame[13] = 77ULL << 32 | 2 * i; /* the upper half is another field */
	frame[14] = (uint64_t)last << 32;
}

/* Lays out n threads. Number self is the one that runs. */
static void lay_threads(size_t n, size_t self)
{
	memset(memory, 0, sizeof(memory));
	memory[MAIN] = at(INTERPRETER);
	memory[INTERPRETER + 2] = at(THREADS);
	for (size_t i = 0; i < n; i++) {
		uint64_t *thread = memory + THREADS + 8 * i;

		thread[1] = i + 1 < n ? at(THREADS + 8 * (i + 1)) : 0;
		thread[3] = i == self ? SELF : i + 1;
		thread[4] = at(CFRAME);
	}
	memory[CFRAME + 1] = at(FRAMES);
}

static void begin(struct unwind *u, uint32_t max_frames)
{
	memset(u, 0, sizeof(*u));
	u->max_frames = max_frames;
	u->stack.n = 2;
	u->stack.ip[0] = 1;
	u->stack.ip[1] = 0x1500;
}

/* Walks the Python frames of one native frame of the interpreter. Returns what the last step
 * returned. */
static int walk_by(struct unwind *u, const struct abi_python *python)
{
	int rc = 0;

	python_enter(u, python);
	for (int i = 0; i < 2 * ABI_STACK_FRAMES && u->python_runs && !rc; i++)
		rc = python_step(u, python);
	return rc;
}

static int walk(struct unwind *u)
{
	return walk_by(u, &how);
}

static void frames_take_the_place_of_the_native_one(void **state)
{
	struct unwind u;

	(void)state;
	lay_threads(3, 1);
	for (size_t i = 0; i < 5; i++)
		lay_frame(i, i == 2 || i == 4);
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.n, 4);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(u.stack.ip[1 + i], abi_python_frame(code(i), i));
		assert_int_equal(abi_python_code(u.stack.ip[1 + i]), code(i));
	}
	/* At the interpreter's next native frame, the walk goes on behind the last Python frame
	 * that was found. */
	u.stack.ip[u.stack.n++] = 0x1600;
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.n, 6);
	assert_int_equal(u.stack.ip[4], abi_python_frame(code(3), 3));
	assert_int_equal(u.stack.ip[5], abi_python_frame(code(4), 4));
}

/* Frames as Python 3.11 marks them while a generator passes an exception on. In a frame that has
 * called native code, the last byte of the depth is 0xff. */
static void a_generator_that_passes_an_exception_on_has_no_native_frame(void **state)
{
	struct abi_python marked = how;
	struct unwind u;

	(void)state;
	marked.depth = 67;
	lay_threads(1, 0);
	for (size_t i = 0; i < 4; i++)
		lay_frame(i, true);
	memory[FRAMES + 8] |= 0xffULL << 24;
	/* frame 1 is the generator; frame 2 has called its callee, frame 0; frame 3 has called
	 * frame 2 */
	memory[FRAMES + 16 * 2 + 8] |= 0xffULL << 24;
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk_by(&u, &marked), 0);
	assert_int_equal(u.stack.n, 2);
	u.stack.ip[u.stack.n++] = 0x1600;
	assert_int_equal(walk_by(&u, &marked), 0);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.stack.ip[2], abi_python_frame(code(1), 1));
	assert_int_equal(u.stack.ip[3], abi_python_frame(code(2), 2));
	/* frame 1 is not the first frame, so its mark counts even though its depth is not 0xff */
	lay_frame(0, false);
	lay_frame(1, true);
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk_by(&u, &marked), 0);
	assert_int_equal(u.stack.n, 3);
	assert_int_equal(u.stack.ip[2], abi_python_frame(code(1), 1));
}

static void code_of_the_function_is_recognized(void **state)
{
	(void)state;
	assert_true(python_runs_at(&how, 0x1000) && python_runs_at(&how, 0x1fff));
	assert_true(python_runs_at(&how, 0x500) && !python_runs_at(&how, 0x600));
	assert_false(python_runs_at(&how, 0xfff) || python_runs_at(&how, 0x2000));
}

static void threads_are_found(void **state)
{
	(void)state;
	lay_threads(PYTHON_MAX_THREADS + 1, PYTHON_MAX_THREADS - 1);
	assert_int_equal(python_thread(&how, SELF), at(THREADS + 8 * (PYTHON_MAX_THREADS - 1)));
	lay_threads(PYTHON_MAX_THREADS + 1, PYTHON_MAX_THREADS);
	assert_int_equal(python_thread(&how, SELF), 0);
	/* the thread holds the interpreter's lock */
	memory[CURRENT] = at(THREADS + 8 * PYTHON_MAX_THREADS);
	assert_int_equal(python_thread(&how, SELF), memory[CURRENT]);
	/* the list of threads is a circle */
	lay_threads(2, 5);
	memory[THREADS + 9] = at(THREADS);
	assert_int_equal(python_thread(&how, SELF), 0);
	memory[MAIN] = 0;
	assert_int_equal(python_thread(&how, SELF), 0);
}

static void a_frame_that_is_none_ends_it(void **state)
{
	struct unwind u;

	(void)state;
	lay_threads(1, 5); /* the thread has no Python state: its native frame stays */
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.n, 2);
	assert_int_equal(u.stack.ip[1], 0x1500);
	lay_threads(1, 0); /* an address that is not mapped */
	memory[CFRAME + 1] = 0x10;
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.n, 2);
	lay_threads(1, 0); /* a code object that cannot be one */
	lay_frame(0, false);
	lay_frame(1, false);
	memory[FRAMES + 16 + 4] |= 8;
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.n, 2);
	assert_int_equal(u.stack.ip[1], abi_python_frame(code(0), 0));
	/* an instruction outside of the code */
	lay_frame(0, true);
	memory[FRAMES + 7] = code(0);
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk(&u), 0);
	assert_int_equal(u.stack.ip[1], abi_python_frame(code(0), ABI_PYTHON_UNKNOWN));
}

static void a_circle_ends_at_the_limit(void **state)
{
	struct unwind u;

	(void)state;
	lay_threads(1, 0);
	lay_frame(0, false);
	memory[FRAMES + 6] = at(FRAMES);
	for (uint32_t most = 2; most <= ABI_STACK_FRAMES; most += 25) {
		begin(&u, most);
		assert_int_equal(walk(&u), 1);
		assert_int_equal(u.stack.n, most);
		assert_int_equal(u.stack.end, STACK_END_TRUNCATED);
	}
}

/* A thread whose innermost frame is an object, which begins at the first word of FRAMES. */
static void lay_objects(size_t n)
{
	lay_threads(1, 0);
	memory[THREADS + 4] = at(FRAMES);
	for (size_t i = 0; i < n; i++)
		lay_object(i, true);
}

static void objects_take_the_places_of_native_frames(void **state)
{
	struct unwind u;

	(void)state;
	lay_objects(4);
	lay_object(1, false); /* a generator without a native frame */
	memory[FRAMES + 16 * 3 + 6] = 0;
	memory[FRAMES + 16 * 3 + 13] = UINT32_MAX; /* a frame that has not begun */
	begin(&u, ABI_STACK_FRAMES);
	assert_int_equal(walk_by(&u, &old), 0);
	assert_int_equal(u.stack.n, 2);
	assert_int_equal(u.stack.ip[1], abi_python_frame(code(0), 0));
	u.stack.ip[u.stack.n++] = 0x1600;
	assert_int_equal(walk_by(&u, &old), 0);
	assert_int_equal(u.stack.n, 4);
	assert_int_equal(u.stack.ip[2], abi_python_frame(code(1), 1));
	assert_int_equal(u.stack.ip[3], abi_python_frame(code(2), 2));
	u.stack.ip[u.stack.n++] = 0x1700;
	assert_int_equal(walk_by(&u, &old), 0);
	assert_int_equal(u.stack.n, 5);
	assert_int_equal(u.stack.ip[4], abi_python_frame(code(3), ABI_PYTHON_UNKNOWN));
	/* there are no more frame objects: the native frame stays */
	u.stack.ip[u.stack.n++] = 0x1800;
	assert_int_equal(walk_by(&u, &old), 0);
	assert_int_equal(u.stack.n, 6);
	assert_int_equal(u.stack.ip[5], 0x1800);
}

static void what_is_no_frame_object_ends_it(void **state)
{
	struct unwind u;

	(void)state;
	lay_objects(3);
	memory[FRAMES + 16 + 1]++; /* another type */
	begin(&u, ABI_STACK_FRAMES);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(walk_by(&u, &old), 0);
		u.stack.ip[u.stack.n++] = 0x1600;
	}
	assert_int_equal(u.stack.n, 5);
	assert_int_equal(u.stack.ip[1], abi_python_frame(code(0), 0));
	for (int i = 2; i < 5; i++)
		assert_int_equal(u.stack.ip[i], 0x1600);
}

/* A forged chain of frames that leads back to its first frame. None of these frames has a native
 * frame. */
static void a_circle_of_objects_ends_at_the_limit(void **state)
{
	struct unwind u;

	(void)state;
	lay_objects(2);
	lay_object(0, false);
	lay_object(1, false);
	memory[FRAMES + 16 + 6] = at(FRAMES);
	for (uint32_t most = 2; most <= ABI_STACK_FRAMES; most += 25) {
		begin(&u, most);
		assert_int_equal(walk_by(&u, &old), 1);
		assert_int_equal(u.stack.n, most);
		assert_int_equal(u.stack.end, STACK_END_TRUNCATED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_take_the_place_of_the_native_one),
		cmocka_unit_test(a_generator_that_passes_an_exception_on_has_no_native_frame),
		cmocka_unit_test(code_of_the_function_is_recognized),
		cmocka_unit_test(threads_are_found),
		cmocka_unit_test(a_frame_that_is_none_ends_it),
		cmocka_unit_test(a_circle_ends_at_the_limit),
		cmocka_unit_test(objects_take_the_places_of_native_frames),
		cmocka_unit_test(what_is_no_frame_object_ends_it),
		cmocka_unit_test(a_circle_of_objects_ends_at_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
