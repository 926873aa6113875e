// SPDX-License-Identifier: BSD-2-Clause
/* There are two processes. The child runs libdw (dwarf_child.h). The parent, in this file, reads
 * section names and the child's stream, and checks all bounds. */
#include "symbolize/dwarf.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "elf/headers.h"
#include "sandbox/child.h"
#include "symbolize/clean.h"
#include "symbolize/dwarf_child.h"

#define MAX_ADDRESSES	 (1u << 24)   /* most addresses per call */
#define MAX_STREAM_BYTES (256u << 20) /* most bytes from the child */
/* the stream has at most this many bytes per address, on average; addresses in clang take 1 KiB */
#define ADDRESS_BYTES (16u << 10)

struct dwarf_test_hooks dwarf__test_hooks;

bool dwarf__present(int fd)
{
	struct elf_headers headers;
	Elf64_Shdr section;

	return !elf_headers__read(fd, "", &headers, NULL) &&
	       (elf_headers__find_section(&headers, ".debug_info", 0, &section) ||
		elf_headers__find_section(&headers, ".zdebug_info", 0, &section));
}

static int read_string(struct stream *stream, uint32_t len, char **ret_string)
{
	_cleanup_free_ char *string = NULL;
	int err;

	if (len == DWARF_NO_STRING)
		return 0;
	if (len > NAME_MAX_BYTES)
		return -ECHILD;
	string = malloc(len + 1);
	if (!string)
		return -ENOMEM;
	err = stream__read_all(stream, string, len);
	if (err)
		return err;
	string[len] = '\0';
	clean_name(string);
	*ret_string = string;
	string = NULL;
	return 0;
}

static int read_frames(struct stream *stream, struct dwarf_frames *frames)
{
	for (size_t i = 0; i < frames->n; i++) {
		struct dwarf_frame *frame = &frames->frames[i];
		struct dwarf_wire_frame wire;
		int err;

		err = stream__read_all(stream, &wire, sizeof(wire));
		if (!err)
			err = read_string(stream, wire.function_len, &frame->function);
		if (!err)
			err = read_string(stream, wire.file_len, &frame->file);
		if (err)
			return err;
		frame->line = wire.line;
	}
	return 0;
}

/* Reads the child's whole stream. */
static int receive(struct stream *stream, size_t n, struct dwarf_frames *ret)
{
	struct dwarf_record record;
	int got;

	while ((got = stream__read(stream, &record, sizeof(record))) > 0) {
		struct dwarf_frames frames = {.n = record.n};
		int err;

		if (record.at >= n || ret[record.at].n || !record.n || record.n > DWARF_MAX_FRAMES)
			return -ECHILD;
		frames.frames = calloc(frames.n, sizeof(*frames.frames));
		if (!frames.frames)
			return -ENOMEM;
		err = read_frames(stream, &frames);
		if (err) {
			dwarf_frames__free(&frames, 1);
			return err;
		}
		ret[record.at] = frames;
	}
	return got;
}

int dwarf__resolve(int fd, const uint64_t *vaddrs, size_t n, double patience_s,
		   const struct stream_waiting *waiting, struct dwarf_frames *ret)
{
	struct dwarf_child ctx = {vaddrs, n, dwarf__test_hooks.debug_root};
	const struct child_task task = {
		.file_fd = fd,
		.other_fd = -1,
		.open_other = dwarf_child__open_other,
		.read = dwarf_child__read,
		.ctx = &ctx,
		.patience_s = patience_s,
		.waiting = waiting,
		.max_bytes = n < MAX_STREAM_BYTES / ADDRESS_BYTES ? (n + 1) * ADDRESS_BYTES
								  : MAX_STREAM_BYTES,
		.in_child = dwarf__test_hooks.in_child,
	};
	struct child *child;
	int err, end;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct dwarf_frames){0};
	if (n > MAX_ADDRESSES)
		return -EINVAL;
	if (!dwarf__present(fd))
		return -ENODATA;
	if (!n)
		return 0;
	err = child__start(&task, &child);
	if (err)
		return err;
	err = receive(child__stream(child), n, ret);
	end = child__end(child);
	return err ? err : end;
}

void dwarf_frames__free(struct dwarf_frames *frames, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < frames[i].n; k++) {
			free(frames[i].frames[k].function);
			free(frames[i].frames[k].file);
		}
		free(frames[i].frames);
		frames[i] = (struct dwarf_frames){0};
	}
}
