// SPDX-License-Identifier: BSD-2-Clause
/* Unwind tables for the kernel side: built once per binary file, shared by all processes that map
 * it. */
#include "capture/internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/unwind.h"

_Static_assert((int)UNWIND_NONE == (int)ABI_UNWIND_NONE && (int)UNWIND_SP == (int)ABI_UNWIND_SP &&
		       (int)UNWIND_BP == (int)ABI_UNWIND_BP &&
		       (int)UNWIND_PLT == (int)ABI_UNWIND_PLT &&
		       (int)UNWIND_SIGNAL == (int)ABI_UNWIND_SIGNAL &&
		       (int)UNWIND_END == (int)ABI_UNWIND_END &&
		       (int)UNWIND_BAD == (int)ABI_UNWIND_BAD,
	       "kinds of rule");

/* Kernel memory for tables, over all files: a process's own binaries decide how much they would
 * take. libLLVM's table is 7.6 MB, a usual process's are 1 to 3 MB together. */
#define MAX_CHUNKS (96 * 1024 * 1024 / sizeof(struct abi_unwind_chunk))

#define UNUSED_START (1ULL << 62) /* above every address: ends the search among mappings */

/* One file. */
struct binary {
	struct file_id file;
	uint32_t table; /* its number in the kernel; 0: it has none */
	uint64_t base;	/* of its table, a vaddr */
	struct elf_image *image;
};

void unwind_store__free(struct unwind_store *store)
{
	for (size_t i = 0; i < store->n; i++)
		elf_image__free(store->binaries[i].image);
	free(store->binaries);
	memset(store, 0, sizeof(*store));
}

/* Writes a table into a map of its own and that one into the table of tables. 0 or negative errno.
 */
static int load_table(struct capture *c, uint32_t number, const struct unwind_table *table)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_INNER_MAP);
	_cleanup_free_ struct abi_unwind_chunk *index = NULL, *chunk = NULL;
	size_t n_chunks = (table->n + ABI_CHUNK_ROWS - 1) / ABI_CHUNK_ROWS;
	_cleanup_close_ int fd = -1;
	uint32_t key;

	if (n_chunks > ABI_CHUNK_ROWS || c->unwind.n_chunks + n_chunks + 1 > MAX_CHUNKS)
		return -E2BIG;
	index = malloc(sizeof(*index));
	chunk = malloc(sizeof(*chunk));
	if (!index || !chunk)
		return -ENOMEM;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "memtrace_unwind", sizeof(key), sizeof(*chunk),
			    (uint32_t)n_chunks + 1, &opts);
	if (fd < 0)
		return -errno;
	memset(index, 0xff, sizeof(*index));
	for (key = 1; key <= n_chunks; key++) {
		size_t first = (size_t)(key - 1) * ABI_CHUNK_ROWS, n = table->n - first;

		n = n < ABI_CHUNK_ROWS ? n : ABI_CHUNK_ROWS;
		memset(chunk, 0xff, sizeof(*chunk));
		for (size_t i = 0; i < n; i++) {
			chunk->rows[i].pc = table->rows[first + i].pc;
			chunk->rows[i].rule = table->rows[first + i].rule;
		}
		index->rows[key - 1].pc = chunk->rows[0].pc;
		if (bpf_map_update_elem(fd, &key, chunk, BPF_ANY))
			return -errno;
	}
	key = 0;
	if (bpf_map_update_elem(fd, &key, index, BPF_ANY))
		return -errno;
	if (bpf_map_update_elem(bpf_map__fd(c->skel->maps.unwind_tables), &number, &fd, BPF_ANY))
		return -errno;
	c->unwind.n_chunks += n_chunks + 1;
	return 0;
}

/* The file behind a mapping, with its table built and loaded if it has one. NULL: out of memory. */
static struct binary *find_binary(struct capture *c, pid_t pid, const struct map_entry *entry)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	struct unwind_store *store = &c->unwind;
	_cleanup_close_ int fd = -1;
	struct binary *b;

	for (size_t i = 0; i < store->n; i++) {
		b = &store->binaries[i];
		if (file_id__equal(&b->file, &entry->file))
			return b;
	}
	b = realloc(store->binaries, (store->n + 1) * sizeof(*b));
	if (!b)
		return NULL;
	store->binaries = b;
	b = &store->binaries[store->n];
	memset(b, 0, sizeof(*b));
	b->file = entry->file;
	fd = maps__open_file(pid, entry);
	if (fd < 0 && (fd == -ESRCH || fd == -ENOENT || fd == -EMFILE))
		return b; /* not kept: the next time may go better */
	store->n++;
	if (fd < 0 || elf_image__open_code(fd, entry->path, &b->image, NULL))
		return b;
	if (store->n_tables + 1 < ABI_MAX_TABLES &&
	    !unwind_table__build(b->image, 0, &table, NULL) && table->n &&
	    !load_table(c, store->n_tables + 1, table)) {
		b->table = ++store->n_tables;
		b->base = table->base;
	}
	elf_image__close_file(b->image);
	return b;
}

/* The ELF address of a mapping's first byte. A segment need not begin on a page, its mapping does.
 */
static int vaddr_of_start(const struct elf_image *image, uint64_t off, uint64_t *ret)
{
	int rc = elf_image__off_to_vaddr(image, off, ret);

	if (rc) {
		rc = elf_image__off_to_vaddr(image, off + 4095, ret);
		*ret -= 4095;
	}
	return rc;
}

int capture__set_mappings(struct capture *c, pid_t pid, const struct maps *maps)
{
	_cleanup_free_ struct abi_mappings *m = NULL;
	uint32_t tgid = (uint32_t)pid;
	size_t n = 0;

	if (!c->skel->rodata->use_tables)
		return 0;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++)
		m->entries[i] = (struct abi_mapping){.start = UNUSED_START};
	for (size_t i = 0; i < maps->n && n < ABI_MAX_MAPPINGS; i++) {
		const struct map_entry *e = &maps->entries[i];
		struct abi_mapping *to = &m->entries[n];
		const struct binary *b;
		uint64_t vaddr;

		if (!e->executable || !e->file.inode)
			continue;
		b = find_binary(c, pid, e);
		if (!b)
			return -ENOMEM;
		*to = (struct abi_mapping){.start = e->start, .end = e->end};
		if (b->table && !vaddr_of_start(b->image, e->off, &vaddr)) {
			to->table = b->table;
			to->bias = e->start - (vaddr - b->base);
		}
		n++;
	}
	return bpf_map__update_elem(c->skel->maps.mappings, &tgid, sizeof(tgid), m, sizeof(*m),
				    BPF_ANY);
}
