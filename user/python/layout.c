// SPDX-License-Identifier: BSD-2-Clause
#include "python/python.h"

#include <stddef.h>

static const struct python_layout layouts[] = {
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
		.depth = 67, /* the highest byte of stacktop, -1 but while it calls Python */
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
		if (layouts[i].version == version)
			return &layouts[i];
	return NULL;
}
