// SPDX-License-Identifier: BSD-2-Clause
#include "session/python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"
#include "python/python.h"

#define MAX_CODES 32768	      /* code objects of a process; a large service has some 20,000 */
#define MAX_BYTES (16u << 20) /* of the code objects' names and tables of lines */

struct known {
	uint64_t addr;
	struct python_code code; /* name NULL: not readable */
	bool doubtful;		 /* another object has the address now */
};

struct python_names {
	struct python python;
	struct known *codes;
	size_t n, bytes;
	size_t checked; /* where python_names__check() continues */
	struct table by_addr;
};

int python_names__new(struct python_files *files, pid_t pid, const struct maps *maps,
		      struct python_names **ret, struct abi_python *ret_how)
{
	struct python python;
	const struct python_layout *l;
	struct python_names *names;
	int rc = python__find(files, pid, maps, &python);

	if (rc)
		return rc;
	names = calloc(1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	names->python = python;
	l = python.layout;
	*ret_how = (struct abi_python){
		.eval_start = python.eval_start,
		.eval_end = python.eval_end,
		.cold_start = python.cold_start,
		.cold_end = python.cold_end,
		.current = l->current ? python.runtime + l->current : 0,
		.interpreter = python.runtime + l->interpreter,
		.frame_type = python.frame_type,
		.threads = l->threads,
		.next = l->next,
		.thread_id = l->thread_id,
		.frame = l->frame,
		.cframe_frame = l->cframe_frame,
		.code = l->frame_code,
		.previous = l->previous,
		.instruction = l->instruction,
		.last = l->last,
		.depth = l->depth,
		.instructions = l->instructions,
		.last_value = l->last_value,
		.last_is_empty = l->last_is_empty,
		.through_cframe = l->through_cframe,
		.frame_bytes = l->frame_bytes,
		.index_shift = l->index_shift,
	};
	*ret = names;
	return 0;
}

void python_names__free(struct python_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->n; i++)
		python_code__clear(&names->codes[i].code);
	free(names->codes);
	table__clear(&names->by_addr);
	free(names);
}

static uint32_t *slot_of(const struct python_names *names, uint64_t addr)
{
	return TABLE_SLOT(&names->by_addr, hash__keyed(&addr, sizeof(addr)), i,
			  names->codes[i].addr == addr);
}

static struct known *find(const struct python_names *names, uint64_t addr)
{
	uint32_t *slot = names->n ? slot_of(names, addr) : NULL;

	return slot && *slot ? &names->codes[*slot - 1] : NULL;
}

static size_t bytes_of(const struct python_code *code)
{
	size_t file = code->file ? strlen(code->file) : 0;

	return code->name ? strlen(code->name) + file + code->n_lines : 0;
}

void python_names__learn(struct python_names *names, pid_t pid, uint64_t frame,
			 struct capture *capture)
{
	uint64_t addr = abi_python_code(frame);
	struct python_code code = {};
	int rc;

	if (!(frame & ABI_PYTHON_FRAME) || names->n == MAX_CODES || names->bytes > MAX_BYTES ||
	    find(names, addr))
		return;
	rc = python_code__read(pid, &names->python, addr, &code);
	capture__beat(capture);
	if (rc && rc != -ENOENT && rc != -EFAULT)
		return; /* the next attempt may succeed */
	if (VECTOR_ADD_ROOM(names->codes, names->n) ||
	    (rc = table__reserve(&names->by_addr, names->n + 1)) < 0) {
		python_code__clear(&code);
		return;
	}
	for (size_t i = 0; rc && i < names->n; i++)
		*slot_of(names, names->codes[i].addr) = (uint32_t)i + 1;
	*slot_of(names, addr) = (uint32_t)names->n + 1;
	names->bytes += bytes_of(&code);
	names->codes[names->n++] = (struct known){.addr = addr, .code = code};
}

void python_names__check(struct python_names *names, pid_t pid, struct capture *capture)
{
	uint64_t end = clock__now_ns(CLOCK_MONOTONIC) + PYTHON_CHECK_MS * 1000000ULL;

	for (size_t i = 0; i < names->n && clock__now_ns(CLOCK_MONOTONIC) < end; i++) {
		struct known *known = &names->codes[names->checked++ % names->n];
		int same;

		if (!known->code.name || known->doubtful)
			continue;
		same = python_code__is_same(pid, &names->python, known->addr, &known->code);
		if (same < 0 && same != -EFAULT)
			return; /* the process has ended, or does not answer */
		known->doubtful = same != 1;
		capture__beat(capture);
	}
}

static int name_frame(void *ctx, uint64_t addr, struct profile_frame *ret)
{
	const struct python_names *names = ctx;
	const struct known *known;

	if (!(addr & ABI_PYTHON_FRAME))
		return -ENOENT;
	known = names ? find(names, abi_python_code(addr)) : NULL;
	if (!known || known->doubtful || !known->code.name ||
	    ((addr & ABI_PYTHON_UNKNOWN) != ABI_PYTHON_UNKNOWN &&
	     (addr & ABI_PYTHON_UNKNOWN) >= known->code.n_units))
		return 0;
	ret->name = strdup(known->code.name);
	ret->file = known->code.file ? strdup(known->code.file) : NULL;
	ret->line =
		(uint32_t)((addr & ABI_PYTHON_UNKNOWN) == ABI_PYTHON_UNKNOWN
				   ? known->code.first_line
				   : python_code__line(&known->code, addr & ABI_PYTHON_UNKNOWN));
	if (ret->name && (ret->file || !known->code.file))
		return 0;
	free(ret->name);
	free(ret->file);
	*ret = (struct profile_frame){};
	return -ENOMEM;
}

struct frame_namer python_names__namer(struct python_names *names)
{
	return (struct frame_namer){name_frame, names};
}
