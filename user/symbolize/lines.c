// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

/* Index of vaddr, or the index at which to insert it. */
static size_t position(const struct lines *lines, uint64_t vaddr)
{
	return SEARCH_FIRST(i, lines->n, lines->vaddrs[i] >= vaddr);
}

const struct dwarf_frames *lines__find(const struct lines *lines, uint64_t vaddr)
{
	size_t at = position(lines, vaddr);

	return at < lines->n && lines->vaddrs[at] == vaddr ? &lines->frames[at] : NULL;
}

static size_t size_of(const struct dwarf_frames *frames)
{
	size_t bytes = sizeof(uint64_t) + sizeof(*frames);

	for (size_t i = 0; i < frames->n; i++) {
		const struct dwarf_frame *frame = &frames->frames[i];

		bytes += sizeof(*frame);
		bytes += frame->function ? strlen(frame->function) + 1 : 0;
		bytes += frame->file ? strlen(frame->file) + 1 : 0;
	}
	return bytes;
}

int lines__add(struct lines *lines, const uint64_t *vaddrs, struct dwarf_frames *frames, size_t n,
	       bool only_found)
{
	size_t room = lines->n + n, a = 0, b = 0, to = 0;
	struct dwarf_frames *merged_frames = calloc(room + 1, sizeof(*merged_frames));
	uint64_t *merged = calloc(room + 1, sizeof(*merged));

	if (!merged || !merged_frames) {
		free(merged);
		free(merged_frames);
		return -ENOMEM;
	}
	while (a < lines->n || b < n) {
		if (a < lines->n && (b == n || lines->vaddrs[a] < vaddrs[b])) {
			merged[to] = lines->vaddrs[a];
			merged_frames[to++] = lines->frames[a++];
			continue;
		}
		if (frames[b].n || !only_found) {
			lines->bytes += size_of(&frames[b]);
			merged[to] = vaddrs[b];
			merged_frames[to++] = frames[b];
		}
		frames[b++] = (struct dwarf_frames){};
	}
	free(lines->vaddrs);
	free(lines->frames);
	lines->vaddrs = merged;
	lines->frames = merged_frames;
	lines->n = to;
	return 0;
}

void lines__clear(struct lines *lines)
{
	dwarf_frames__free(lines->frames, lines->n);
	free(lines->frames);
	free(lines->vaddrs);
	memset(lines, 0, sizeof(*lines));
}
