// SPDX-License-Identifier: BSD-2-Clause
/* The text of /proc/PID/maps and, after an empty line, mappings that are made later. */
#include "fuzz.h"

#include "proc/maps.h"

#define MAX_ENTRIES 64 /* more entries are slow, and test nothing new */
#define MAX_INSERTS 16

/* The mapping at an address. */
struct place {
	uint64_t addr, off;
	const struct map_entry *entry;
	char *path;
};

static void check(const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];

		require(e->start < e->end);
		require(!i || e[-1].end <= e->start);
		require(e->path && strlen(e->perms) == 4);
		require(e->executable == (e->perms[2] == 'x'));
		require(maps__find(maps, e->start) == e && maps__find(maps, e->end - 1) == e);
		require(!i || e[-1].end == e->start || maps__find(maps, e->start - 1) == NULL);
	}
}

static bool same(const struct map_entry *a, const struct map_entry *b)
{
	return a->start == b->start && a->end == b->end && a->off == b->off &&
	       a->file.inode == b->file.inode && a->deleted == b->deleted &&
	       !strcmp(a->perms, b->perms) && !strcmp(a->path, b->path);
}

/* Writes the list as the kernel does. Reading this text must give the same list. */
static void check_text(const struct maps *maps)
{
	struct maps again;
	size_t len, skipped;
	char *text;
	FILE *out = open_memstream(&text, &len);

	require(out);
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];

		fprintf(out, "%08lx-%08lx %s %08lx fe:01 %lu ", e->start, e->end, e->perms, e->off,
			e->file.inode);
		for (const char *p = e->path; *p; p++)
			fputs(*p == '\n' ? "\\012" : (char[]){*p, '\0'}, out);
		fprintf(out, "%s\n", e->deleted ? " (deleted)" : "");
	}
	fclose(out);
	require(!maps__parse(text, len, &again, &skipped));
	require(!skipped && again.n == maps->n);
	for (size_t i = 0; i < maps->n; i++)
		require(same(&maps->entries[i], &again.entries[i]));
	maps__free(&again);
	free(text);
}

static struct place look(const struct maps *maps, uint64_t addr)
{
	const struct map_entry *e = maps__find(maps, addr);
	struct place place = {.addr = addr, .entry = e};

	if (e) {
		place.off = e->file.inode ? e->off + (addr - e->start) : e->off;
		place.path = strdup(e->path);
		require(place.path);
	}
	return place;
}

/* Each address in the new mapping must belong to it. All other addresses must stay as they were. */
static void insert(struct maps *maps, const struct map_entry *entry)
{
	size_t n = 2 * maps->n + 4, k = 0;
	struct place *before = calloc(n, sizeof(*before));

	require(before);
	for (size_t i = 0; i < maps->n; i++) {
		before[k++] = look(maps, maps->entries[i].start);
		before[k++] = look(maps, maps->entries[i].end - 1);
	}
	before[k++] = look(maps, entry->start - 1);
	before[k++] = look(maps, entry->start);
	before[k++] = look(maps, entry->end - 1);
	before[k++] = look(maps, entry->end);
	require(!maps__insert(maps, entry));
	check(maps);
	for (size_t i = 0; i < n; i++) {
		struct place *was = &before[i], now = look(maps, was->addr);

		if (was->addr >= entry->start && was->addr < entry->end) {
			require(now.entry && same(now.entry, entry));
		} else {
			require(!now.entry == !was->path);
			require(!was->path ||
				(!strcmp(now.path, was->path) && now.off == was->off));
		}
		free(was->path);
		free(now.path);
	}
	free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *more = memmem(data, size, "\n\n", 2);
	size_t len = more ? (size_t)(more + 2 - data) : size, skipped, lines = 0;
	struct maps maps, added, copy;
	char *text = fuzz_copy(data, len);

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n' || i + 1 == len;
	require(!maps__parse(text, len, &maps, &skipped));
	require(maps.n + skipped == lines);
	check(&maps);
	check_text(&maps);

	require(!maps__copy(&maps, &copy) && copy.n == maps.n);
	for (size_t i = 0; i < maps.n; i++)
		require(same(&maps.entries[i], &copy.entries[i]));
	for (int i = 0; i < MAX_INSERTS && len < size && copy.n < MAX_ENTRIES; i++) {
		const uint8_t *end = memchr(data + len, '\n', size - len);
		size_t line = end ? (size_t)(end + 1 - (data + len)) : size - len;

		require(!maps__parse((const char *)data + len, line, &added, NULL));
		if (added.n)
			insert(&copy, &added.entries[0]);
		maps__free(&added);
		len += line;
	}
	maps__free(&copy);
	maps__free(&maps);
	free(text);
	return 0;
}
