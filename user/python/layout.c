// SPDX-License-Identifier: BSD-2-Clause
#include "python/python.h"

#include <stddef.h>

static const struct python_layout layouts[] = {
	{
		.version = 0x309,
		.runtime_bytes = 656,
		.frame_size = 368,
		.code_size = 176,
		.frame_members = {{"f_back", 24}, {"f_code", 32}, {"f_lasti", 104}},
		.code_members = {{"co_code", 48},
				 {"co_filename", 104},
				 {"co_name", 112},
				 {"co_firstlineno", 40},
				 {"co_lnotab", 120}},
		.current = 568,
		.interpreter = 40,
		.threads = 8,
		.next = 8,
		.thread_id = 176,
		.frame = 24,
		.frame_code = 32,
		.previous = 24,
		.instruction = 104, /* f_lasti, in bytes */
		.index_shift = 1,
		.last = 116, /* f_executing */
		.last_value = 1,
		.frame_bytes = 120,
		.code_bytes = 48,
		.file = 104,
		.name = 112,
		.first_line = 40,
		.lines = 120,
		.lines_kind = PYTHON_LINE_STEPS,
		.ascii = 48,
		.unicode = 72,
	},
	{
		.version = 0x30a,
		.runtime_bytes = 672,
		.frame_size = 360,
		.code_size = 176,
		/* f_lasti (offset 96) is not declared. The check covers it all the same: it lies
		 * between a declared field and the end of the frame, whose size is known */
		.frame_members = {{"f_back", 24}, {"f_code", 32}, {"f_trace_opcodes", 85}},
		.code_members = {{"co_code", 48},
				 {"co_filename", 104},
				 {"co_name", 112},
				 {"co_firstlineno", 40},
				 {"co_linetable", 120}},
		.current = 568,
		.interpreter = 40,
		.threads = 8,
		.next = 8,
		.thread_id = 176,
		.frame = 24,
		.frame_code = 32,
		.previous = 24,
		.instruction = 96, /* f_lasti, in instructions */
		.last = 80,	   /* f_stackdepth, -1 while the frame is executed */
		.last_value = 0xff,
		.frame_bytes = 104,
		.code_bytes = 48,
		.file = 104,
		.name = 112,
		.first_line = 40,
		.lines = 120,
		.lines_kind = PYTHON_LINE_RANGES,
		.ascii = 48,
		.unicode = 72,
	},
	{
		.version = 0x30b,
		.current = 576,
		.interpreter = 48,
		.threads = 16,
		.next = 8,
		.thread_id = 152,
		.frame = 56,
		.through_cframe = true,
		.cframe_frame = 8,
		.frame_code = 32,
		.previous = 48,
		.instruction = 56,
		.last = 68, /* is_entry */
		.last_value = 1,
		/* the highest byte of stacktop. stacktop is -1 unless the frame is calling
		 * Python */
		.depth = 67,
		.frame_bytes = 72,
		.instructions = 184,
		.file = 112,
		.name = 128,
		.first_line = 72,
		.lines = 136,
		.ascii = 48,
		.unicode = 72,
	},
	{
		.version = 0x30c,
		.interpreter = 48,
		.threads = 72,
		.next = 8,
		.thread_id = 136,
		.frame = 56,
		.through_cframe = true,
		.cframe_frame = 0,
		.frame_code = 0,
		.previous = 8,
		.instruction = 56,
		.last = 70,	 /* owner */
		.last_value = 3, /* FRAME_OWNED_BY_CSTACK */
		.last_is_empty = true,
		.frame_bytes = 72,
		.instructions = 192,
		.file = 112,
		.name = 128,
		.first_line = 68,
		.lines = 136,
		.ascii = 40,
		.unicode = 56,
	},
	{
		.version = 0x30d,
		.interpreter = 640,
		.threads = 7344,
		.next = 8,
		.thread_id = 152,
		.frame = 72,
		.frame_code = 0,
		.previous = 8,
		.instruction = 56,
		.last = 70,
		.last_value = 3,
		.last_is_empty = true,
		.frame_bytes = 72,
		.instructions = 200,
		.file = 112,
		.name = 128,
		.first_line = 68,
		.lines = 136,
		.ascii = 40,
		.unicode = 56,
	},
};

const struct python_layout *python_layout__find(uint32_t version)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].version == version && !layouts[i].runtime_bytes)
			return &layouts[i];
	return NULL;
}

const struct python_layout *python_layout__find_old(uint64_t runtime_bytes)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].runtime_bytes && layouts[i].runtime_bytes == runtime_bytes)
			return &layouts[i];
	return NULL;
}
