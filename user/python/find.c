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

/* _PyEval_EvalFrameDefault has 40 to 90 KB. Decoding more code would take too long, because the
 * tracer cannot take care of its probes meanwhile. */
#define MAX_EVAL_BYTES (256u << 10)
#define MAX_COLD_BYTES (256u << 10)
#define BEHIND_TARGET  128 /* bytes of the cold part behind the highest branch target */

/* Finds the cold part of the function `eval`. GCC moves rarely executed code of a function
 * elsewhere (-freorder-blocks-and-partition), where no symbol of a stripped file names it. The
 * function's conditional branches lead there. */
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

/* --- files --- */

/* What is known of a file. Addresses are virtual addresses as in the file. */
struct python_file {
	bool is_python;
	uint64_t eval_start, eval_end, cold_start, cold_end, runtime, code_type;
	uint64_t version; /* the value of Py_Version; 0: the file has no such variable, as before
			   * 3.11 */
	/* the next two members are for versions before 3.11; for other versions they are 0 and
	 * NULL */
	uint64_t frame_type;
	const struct python_layout *layout;
	uint64_t shift; /* vaddr - file offset of the code */
};

struct python_files {
	const struct binaries *binaries;
	struct elf_meanwhile meanwhile;
	struct python_file **at; /* indexed by binary->index; NULL: the file was not read yet */
	size_t n;
};

int python_files__new(const struct binaries *binaries, const struct elf_meanwhile *meanwhile,
		      struct python_files **ret)
{
	struct python_files *files = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	files->binaries = binaries;
	files->meanwhile = *meanwhile;
	*ret = files;
	return 0;
}

void python_files__free(struct python_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->n; i++)
		free(files->at[i]);
	free(files->at);
	free(files);
}

void python_files__forget(struct python_files *files, size_t index)
{
	if (index >= files->n)
		return;
	free(files->at[index]);
	files->at[index] = NULL;
}

static int read_file(int fd, const struct map_entry *entry, const struct elf_meanwhile *meanwhile,
		     struct python_file *file)
{
	static const char *const names[] = {"_PyEval_EvalFrameDefault",
					    "_PyRuntime",
					    "PyCode_Type",
					    "Py_Version",
					    "PyFrame_Type",
					    NULL};
	const struct elf_wanted wanted = {elf_wanted__is_listed, names, *meanwhile};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	struct elf_symbol eval, runtime, type, version = {}, frame = {};
	const struct python_layout *layout = NULL;
	uint64_t vaddr;
	int rc = elf_image__open(fd, entry->path, &wanted, &image, NULL);

	if (rc)
		return rc == -ENOMEM ? rc : 0;
	if (elf_image__find_function(image, "_PyEval_EvalFrameDefault", &eval) ||
	    elf_image__find_object(image, "_PyRuntime", &runtime) ||
	    elf_image__find_object(image, "PyCode_Type", &type) ||
	    elf_image__mapping_to_vaddr(image, entry->off, &vaddr) || eval.size > MAX_EVAL_BYTES)
		return 0;
	if (elf_image__find_object(image, "Py_Version", &version)) {
		layout = python_layout__find_old(runtime.size);
		if (!layout || elf_image__find_object(image, "PyFrame_Type", &frame))
			return 0;
	}
	file->is_python = true;
	file->eval_start = eval.vaddr;
	file->eval_end = eval.vaddr + eval.size;
	file->runtime = runtime.vaddr;
	file->code_type = type.vaddr;
	file->version = version.vaddr;
	file->frame_type = frame.vaddr;
	file->layout = layout;
	file->shift = vaddr - entry->off;
	return find_cold_part(image, &eval, &file->cold_start, &file->cold_end);
}

/* Reads the file behind entry, or finds it in the cache. 0; -ENOENT: the file is not one of the
 * binaries; other negative errno. */
static int file_of(struct python_files *files, const struct map_entry *entry,
		   const struct python_file **ret)
{
	const struct binary *binary = binaries__find(files->binaries, &entry->file);
	_cleanup_free_ struct python_file *file = NULL;
	_cleanup_close_ int fd = -1;
	int rc;

	if (!binary)
		return -ENOENT;
	if (binaries__grow(files->binaries, &files->at, &files->n, sizeof(*files->at)))
		return -ENOMEM;
	*ret = files->at[binary->index];
	if (*ret)
		return 0;
	fd = binaries__open(files->binaries, &entry->file);
	if (fd < 0)
		return fd;
	file = calloc(1, sizeof(*file));
	rc = file ? read_file(fd, entry, &files->meanwhile, file) : -ENOMEM;
	if (rc)
		return rc;
	*ret = files->at[binary->index] = file;
	file = NULL;
	return 0;
}

/* --- processes --- */

/* Finds the layout for the version of the file in this process. 0; -ENOENT: there is none; other
 * errors as of python_layout__check(). */
static int find_layout(pid_t pid, const struct python_file *file, uint64_t bias,
		       const struct python_layout **ret)
{
	const struct python_layout *layout = file->layout;
	uint64_t number;
	int rc;

	if (layout) {
		*ret = layout;
		return python_layout__check(layout, pid, bias + file->frame_type,
					    bias + file->code_type);
	}
	rc = memory__read(pid, bias + file->version, &number, sizeof(number));
	if (rc)
		return rc;
	*ret = number >> 32 ? NULL : python_layout__find((uint32_t)(number >> 16));
	return *ret ? 0 : -ENOENT;
}

static int look(struct python_files *files, pid_t pid, const struct map_entry *entry,
		struct python *ret)
{
	const struct python_layout *layout = NULL;
	const struct python_file *file;
	uint64_t bias;
	int rc = file_of(files, entry, &file);

	if (rc)
		return rc;
	if (!file->is_python)
		return -ENOENT;
	bias = entry->start - entry->off - file->shift;
	rc = find_layout(pid, file, bias, &layout);
	if (rc)
		return rc;
	*ret = (struct python){
		.layout = layout,
		.eval_start = bias + file->eval_start,
		.eval_end = bias + file->eval_end,
		.runtime = bias + file->runtime,
		.code_type = bias + file->code_type,
		.frame_type = file->frame_type ? bias + file->frame_type : 0,
	};
	if (file->cold_end) {
		ret->cold_start = bias + file->cold_start;
		ret->cold_end = bias + file->cold_end;
	}
	return 0;
}

int python__find(struct python_files *files, pid_t pid, const struct maps *maps, struct python *ret)
{
	int rc = -ENOENT;

	for (size_t i = 0; i < maps->n && rc; i++) {
		struct python found;
		int err = may_be_python(&maps->entries[i])
				  ? look(files, pid, &maps->entries[i], &found)
				  : -ENOENT;

		if (!err)
			*ret = found;
		if (err != -ENOENT)
			rc = err;
	}
	return rc;
}
