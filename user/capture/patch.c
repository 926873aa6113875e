// SPDX-License-Identifier: BSD-2-Clause
#include "capture/patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/memory.h"

#define BREAKPOINT 0xcc

static bool is_code_of(const struct map_entry *entry, const struct file_id *file)
{
	return entry->executable && file_id__equal(map_entry__real(entry), file);
}

struct code_place code_place__in(const uint8_t *code, uint32_t delta, uint64_t off)
{
	struct code_place ret = {
		.off = off,
		.byte = code[delta],
		.n_before = delta < CODE_BEFORE ? (uint8_t)delta : CODE_BEFORE,
	};

	memcpy(ret.before, code + delta - ret.n_before, ret.n_before);
	return ret;
}

/* One read for each place in each mapping of the file. A file has several mappings of code if some
 * pages of the code were changed. */
struct batch {
	struct memory_read *reads;
	uint8_t (*bytes)[CODE_BEFORE + 1];
	size_t *which; /* index of the place */
	size_t n;
};

static void add_mapping(struct batch *b, const struct map_entry *entry,
			const struct code_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at = places[i].off - entry->off, before = places[i].n_before;

		if (places[i].off < entry->off || at >= entry->end - entry->start)
			continue;
		before = before < at ? before : at;
		b->reads[b->n] = (struct memory_read){entry->start + at - before, b->bytes[b->n],
						      before + 1, false};
		b->which[b->n++] = i;
	}
}

static bool is_changed(const struct memory_read *read, const uint8_t *bytes,
		       const struct code_place *place)
{
	size_t before = read->len - 1;
	const uint8_t *own = place->before + place->n_before - before;

	if (!read->ok)
		return false;
	for (size_t i = 0; i <= before; i++)
		if (bytes[i] != (i < before ? own[i] : place->byte) && bytes[i] != BREAKPOINT)
			return true;
	return false;
}

/* Frees a batch's arrays. */
static void batch__free(struct batch *b)
{
	free(b->reads);
	free(b->bytes);
	free(b->which);
}

/* Reads the places in all mappings of the file. 0, also if there are no mappings; or negative
 * errno, as memory__read_all(). */
static int read_places(pid_t pid, const struct maps *maps, const struct file_id *file,
		       const struct code_place *places, size_t n, struct batch *b)
{
	size_t room = 0;

	for (size_t i = 0; i < maps->n; i++)
		room += is_code_of(&maps->entries[i], file) ? n : 0;
	if (!room)
		return 0;
	b->reads = calloc(room, sizeof(*b->reads));
	b->bytes = calloc(room, sizeof(*b->bytes));
	b->which = calloc(room, sizeof(*b->which));
	if (!b->reads || !b->bytes || !b->which)
		return -ENOMEM;
	for (size_t i = 0; i < maps->n; i++)
		if (is_code_of(&maps->entries[i], file))
			add_mapping(b, &maps->entries[i], places, n);
	return b->n ? memory__read_all(pid, b->reads, b->n) : 0;
}

int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret)
{
	_cleanup_(batch__free) struct batch b = {};
	int rc = read_places(pid, maps, file, places, n, &b);

	/* -ESRCH: the process has ended, and cannot be harmed. -EPERM: each further attempt would
	 * get the same answer. */
	if (rc && rc != -ESRCH && rc != -EPERM)
		return -ETIMEDOUT;
	for (size_t i = 0; i < b.n; i++)
		if (is_changed(&b.reads[i], b.bytes[i], &places[b.which[i]])) {
			*ret = b.which[i];
			return 1;
		}
	return 0;
}

bool patch__is_bare(pid_t pid, const struct maps *maps, const struct file_id *file,
		    const struct code_place *places, size_t n)
{
	_cleanup_(batch__free) struct batch b = {};

	if (read_places(pid, maps, file, places, n, &b))
		return false;
	for (size_t i = 0; i < b.n; i++)
		if (b.reads[i].ok && b.bytes[i][b.reads[i].len - 1] == places[b.which[i]].byte)
			return true;
	return false;
}
