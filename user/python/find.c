// SPDX-License-Identifier: BSD-2-Clause
#include "python/python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "elf/decode.h"
#include "elf/image.h"
#include "proc/memory.h"

#define MAX_EVAL_BYTES (1u << 20)
#define MAX_COLD_BYTES (256u << 10)
#define BEHIND_TARGET  128 /* bytes of code that the last branch into the cold part leads to */

/* GCC moves rarely executed code of a function elsewhere (-freorder-blocks-and-partition), where no
 * symbol of a stripped file names it. The function's conditional branches lead there. */
static int find_cold_part(const struct elf_image *image, const struct elf_symbol *eval,
			  uint64_t *ret_start, uint64_t *ret_end)
{
	_cleanup_free_ uint8_t *code = malloc(eval->size);
	struct decoder decoder = {};
	uint64_t low = UINT64_MAX, high = 0;
	long len;

	if (!code)
		return -ENOMEM;
	len = elf_image__read_code(image, eval->vaddr, code, eval->size);
	if (len < 0 || decoder__open(&decoder)) {
		decoder__close(&decoder);
		return 0;
	}
	for (size_t off = 0; off < (size_t)len;) {
		const uint8_t *opcode = code + off;
		int64_t rel;
		size_t left = (size_t)len - off;
		uint64_t target;

		if (!decoder__decode(&decoder, code, (size_t)len, off, eval->vaddr)) {
			off++;
			continue;
		}
		if (opcode[0] == 0x0f && decode__branch(opcode, left, &rel)) {
			target = eval->vaddr + off + (uint64_t)rel;
			if (target < eval->vaddr || target >= eval->vaddr + eval->size) {
				low = target < low ? target : low;
				high = target > high ? target : high;
			}
		}
		off += decoder.insn->size;
	}
	decoder__close(&decoder);
	if (high >= low && high - low <= MAX_COLD_BYTES) {
		*ret_start = low;
		*ret_end = high + BEHIND_TARGET;
	}
	return 0;
}

static bool may_be_python(const struct map_entry *entry)
{
	const char *name = base_name(entry->path);

	return entry->executable && entry->file.inode &&
	       (!strncmp(name, "python", 6) || !strncmp(name, "libpython", 9));
}

static int look(pid_t pid, const struct map_entry *entry, struct python *ret)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = maps__open_file(pid, entry);
	struct elf_symbol eval, runtime, type, version;
	uint64_t vaddr, bias, number;
	int rc;

	if (fd < 0)
		return fd;
	rc = elf_image__open(fd, entry->path, &image, NULL);
	if (rc)
		return rc;
	if (elf_image__find_function(image, "_PyEval_EvalFrameDefault", &eval) ||
	    elf_image__find_object(image, "_PyRuntime", &runtime) ||
	    elf_image__find_object(image, "PyCode_Type", &type) ||
	    elf_image__find_object(image, "Py_Version", &version) ||
	    elf_image__mapping_to_vaddr(image, entry->off, &vaddr) || eval.size > MAX_EVAL_BYTES)
		return -ENOENT;
	bias = entry->start - vaddr;
	rc = memory__read(pid, bias + version.vaddr, &number, sizeof(number));
	if (rc)
		return rc;
	*ret = (struct python){
		.layout = python_layout__find((uint32_t)(number >> 16)),
		.eval_start = bias + eval.vaddr,
		.eval_end = bias + eval.vaddr + eval.size,
		.runtime = bias + runtime.vaddr,
		.code_type = bias + type.vaddr,
	};
	if (!ret->layout || number >> 32)
		return -ENOENT;
	rc = find_cold_part(image, &eval, &ret->cold_start, &ret->cold_end);
	if (ret->cold_end) {
		ret->cold_start += bias;
		ret->cold_end += bias;
	}
	return rc;
}

int python__find(pid_t pid, const struct maps *maps, struct python *ret)
{
	int rc = -ENOENT;

	for (size_t i = 0; i < maps->n && rc; i++) {
		struct python found;
		int err = may_be_python(&maps->entries[i]) ? look(pid, &maps->entries[i], &found)
							   : -ENOENT;

		if (!err)
			*ret = found;
		if (err != -ENOENT)
			rc = err;
	}
	return rc;
}
