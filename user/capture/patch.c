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
	return entry->executable && file_id__equal(&entry->file, file);
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

bool patch__is_bare(pid_t pid, const struct maps *maps, const struct file_id *file,
		    const struct code_place *place)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];
		uint64_t at = place->off - e->off;
		uint8_t byte;

		if (is_code_of(e, file) && place->off >= e->off && at < e->end - e->start &&
		    !memory__read(pid, e->start + at, &byte, 1) && byte == place->byte)
			return true;
	}
	return false;
}

int patch__find(pid_t pid, const struct maps *maps, const struct file_id *file,
		const struct code_place *places, size_t n, size_t *ret)
{
	_cleanup_free_ struct memory_read *reads = NULL;
	_cleanup_free_ uint8_t(*bytes)[CODE_BEFORE + 1] = NULL;
	_cleanup_free_ size_t *which = NULL;
	size_t room = 0;
	struct batch b;
	int rc;

	for (size_t i = 0; i < maps->n; i++)
		room += is_code_of(&maps->entries[i], file) ? n : 0;
	if (!room)
		return 0;
	reads = calloc(room, sizeof(*reads));
	bytes = calloc(room, sizeof(*bytes));
	which = calloc(room, sizeof(*which));
	if (!reads || !bytes || !which)
		return -ETIMEDOUT;
	b = (struct batch){reads, bytes, which, 0};
	for (size_t i = 0; i < maps->n; i++)
		if (is_code_of(&maps->entries[i], file))
			add_mapping(&b, &maps->entries[i], places, n);
	rc = b.n ? memory__read_all(pid, reads, b.n) : 0;
	/* -ESRCH: the process has ended, and cannot be harmed. -EPERM: each further attempt would
	 * get the same answer. */
	if (rc && rc != -ESRCH && rc != -EPERM)
		return -ETIMEDOUT;
	for (size_t i = 0; i < b.n; i++)
		if (is_changed(&reads[i], bytes[i], &places[which[i]])) {
			*ret = which[i];
			return 1;
		}
	return 0;
}
