// SPDX-License-Identifier: BSD-2-Clause
/* Unwind tables for the kernel side. A table is built once per binary, and all processes that map
 * the binary share it. All tables together have a limit of memory, because a target's files decide
 * how much memory its tables would take. A table that does not fit is left out and counted. A table
 * that no process uses stays until its room is needed. So if a program is started again and again,
 * the kernel side still has the tables of the program's files. */
#include "capture/internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "elf/image.h"
#include "elf/unwind.h"

_Static_assert((int)UNWIND_NONE == (int)ABI_UNWIND_NONE && (int)UNWIND_SP == (int)ABI_UNWIND_SP &&
		       (int)UNWIND_BP == (int)ABI_UNWIND_BP &&
		       (int)UNWIND_PLT == (int)ABI_UNWIND_PLT &&
		       (int)UNWIND_SIGNAL == (int)ABI_UNWIND_SIGNAL &&
		       (int)UNWIND_END == (int)ABI_UNWIND_END &&
		       (int)UNWIND_BAD == (int)ABI_UNWIND_BAD &&
		       (int)UNWIND_GO == (int)ABI_UNWIND_GO,
	       "kinds of rule");

/* If memory is short for a table, the caller tries again at once, but only this many times for each
 * file. A file may need more memory than there will ever be. */
#define MAX_SHORT 8

#define UNUSED_START (1ULL << 62) /* above every address: the search among mappings ends there */

/* What memtrace notes about the table of one binary. */
struct unwind_entry {
	bool tried;	   /* the table was built once: n_chunks and base are known */
	uint32_t n_chunks; /* chunks of the table; 0: the file has no table */
	uint32_t number;   /* the table's number in the kernel; 0: not loaded */
	uint64_t base;	   /* vaddr at which the table's pcs begin */
	uint32_t users;	   /* processes that map the binary */
	uint64_t let_go;   /* value of the store's `clock` when the table lost its last user */
	bool refused;	   /* at least once there was no room for the table */
	uint8_t n_short;   /* how often memory was short for the table, up to MAX_SHORT */
};

/* The tables that a process uses. */
struct unwind_user {
	uint32_t process;
	size_t *entries; /* indices of the store's entries, each once */
	size_t n;
};

/* Tells the kernel side which table belongs to a part of a file. The kernel side needs this when a
 * process has just mapped that part. */
struct unwind_part {
	struct abi_file_part key;
	struct abi_file_table table;
	size_t entry; /* index, among the store's entries, of the binary that has the table */
};

void unwind_store__free(struct unwind_store *store)
{
	for (size_t i = 0; i < store->n_users; i++)
		free(store->users[i].entries);
	free(store->users);
	free(store->entries);
	free(store->parts);
	memset(store, 0, sizeof(*store));
}

/* --- tables in the kernel --- */

static void forget_table(struct unwind_store *store, struct unwind_entry *e)
{
	store->n_chunks -= e->n_chunks;
	e->number = 0;
}

/* Makes sure that from now on no process finds the entry's table by a file. */
static void forget_parts(struct capture *c, size_t entry)
{
	struct unwind_store *store = &c->unwind;
	size_t n = 0;

	for (size_t i = 0; i < store->n_parts; i++) {
		struct unwind_part *part = &store->parts[i];

		if (part->entry == entry)
			bpf_map__delete_elem(c->skel->maps.tables_by_file, &part->key,
					     sizeof(part->key), 0);
		else
			store->parts[n++] = *part;
	}
	store->n_parts = n;
}

/* Counts, once for each file, that there was no room for its table, or no memory. */
static void refuse_table(struct unwind_store *store, struct unwind_entry *e)
{
	store->refused += !e->refused;
	e->refused = true;
}

/* Puts many tables into the kernel with one call, because each call waits until all BPF programs
 * that are running have returned. If that call fails, puts the tables one by one. If this fails for
 * a table, too, the table keeps its number, because the kernel side already uses the number. The
 * number then leads to no table. */
void capture__put_tables(struct capture *c)
{
	int fd = bpf_map__fd(c->skel->maps.unwind_tables);
	struct unwind_store *store = &c->unwind;
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t n = (uint32_t)store->n_new;
	bool all;

	if (!n)
		return;
	all = !bpf_map_update_batch(fd, store->new_numbers, store->new_fds, &n, &opts);
	for (size_t i = 0; i < store->n_new; i++) {
		if (!all &&
		    bpf_map_update_elem(fd, &store->new_numbers[i], &store->new_fds[i], BPF_ANY))
			refuse_table(store, &store->entries[store->new_entries[i]]);
		close(store->new_fds[i]);
	}
	store->n_new = 0;
}

/* Writes a table into a map of its own. A descriptor or negative errno. */
static int load_table(const struct unwind_table *table)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_INNER_MAP);
	_cleanup_free_ struct abi_unwind_chunk *index = NULL, *chunk = NULL;
	size_t n_chunks = (table->n + ABI_CHUNK_ROWS - 1) / ABI_CHUNK_ROWS;
	_cleanup_close_ int fd = -1;
	uint32_t key;

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
	return take_fd(&fd);
}

/* Takes a table out of the kernel. The caller makes sure that no process's mappings name the table.
 * The deletion waits until all running BPF programs have ended. So when another table gets the
 * number, no walk uses it for the old table any more. */
static void unload_table(struct capture *c, size_t entry)
{
	capture__put_tables(c); /* a table that still waits would otherwise be put into the kernel
				 * later, when another table may have its number */
	forget_parts(c, entry);
	bpf_map_delete_elem(bpf_map__fd(c->skel->maps.unwind_tables),
			    &c->unwind.entries[entry].number);
	forget_table(&c->unwind, &c->unwind.entries[entry]);
}

/* Makes room for n more chunks, if possible. */
static bool make_room(struct capture *c, size_t n)
{
	struct unwind_store *store = &c->unwind;
	size_t idle = 0;

	for (size_t i = 0; i < store->n_entries; i++)
		if (store->entries[i].number && !store->entries[i].users)
			idle += store->entries[i].n_chunks;
	if (store->n_chunks - idle + n > store->max_chunks)
		return false;
	while (store->n_chunks + n > store->max_chunks) {
		struct unwind_entry *oldest = NULL;

		for (size_t i = 0; i < store->n_entries; i++) {
			struct unwind_entry *e = &store->entries[i];

			if (e->number && !e->users && (!oldest || e->let_go < oldest->let_go))
				oldest = e;
		}
		unload_table(c, (size_t)(oldest - store->entries));
	}
	return true;
}

/* Returns a number that no table has; 0: none is left. */
static uint32_t free_number(const struct unwind_store *store)
{
	bool taken[ABI_MAX_TABLES] = {true};

	for (size_t i = 0; i < store->n_entries; i++)
		taken[store->entries[i].number] = true;
	for (uint32_t number = 1; number < ABI_MAX_TABLES; number++)
		if (!taken[number])
			return number;
	return 0;
}

bool capture__forget_binary(struct capture *c, size_t index)
{
	struct unwind_store *store = &c->unwind;

	if (index >= store->n_entries)
		return true;
	if (store->entries[index].number || store->entries[index].users)
		return false;
	store->entries[index] = (struct unwind_entry){};
	return true;
}

/* Builds the binary's table, if the file has one and if there is room for it. The table is in the
 * kernel after the next capture__put_tables() at the latest. 0; -ENOMEM: it may help to try again.
 * Afterwards e->number is 0 if there is no table. */
static int provide_table(struct capture *c, const struct binary *binary, struct unwind_entry *e)
{
	struct unwind_store *store = &c->unwind;
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	uint32_t number;
	int fd = -1, rc;

	if (e->number || (e->tried && !e->n_chunks))
		return 0;
	if (e->tried && !make_room(c, e->n_chunks)) {
		refuse_table(store, e);
		return 0;
	}
	e->tried = true;
	e->n_chunks = 0;
	rc = binary->image ? elf_image__open_code(binary->fd, binary->path, &image, NULL)
			   : -ENOEXEC;
	if (!rc)
		rc = unwind_table__build(image, 0, &table, NULL);
	if (rc == -ENOMEM) { /* the next attempt may succeed */
		e->tried = false;
		refuse_table(store, e);
		if (e->n_short == MAX_SHORT)
			return 0;
		e->n_short++;
		return rc;
	}
	if (rc)
		return 0;
	if (!table->n || table->n > (size_t)ABI_CHUNK_ROWS * ABI_CHUNK_ROWS)
		return 0;
	e->n_chunks = (uint32_t)((table->n + ABI_CHUNK_ROWS - 1) / ABI_CHUNK_ROWS) + 1;
	e->base = table->base;
	number = make_room(c, e->n_chunks) ? free_number(store) : 0;
	if (number)
		fd = load_table(table);
	if (fd < 0) {
		refuse_table(store, e);
		return 0;
	}
	e->number = number;
	store->n_chunks += e->n_chunks;
	store->new_numbers[store->n_new] = number;
	store->new_fds[store->n_new] = fd;
	store->new_entries[store->n_new++] = binary->index;
	if (store->n_new == NEW_TABLES)
		capture__put_tables(c);
	return 0;
}

/* --- the files by which tables are found --- */

/* Returns the index at which `key` stands among the parts, or would stand. */
static size_t find_part(const struct unwind_store *store, const struct abi_file_part *key)
{
	return SEARCH_FIRST(i, store->n_parts,
			    memcmp(&store->parts[i].key, key, sizeof(*key)) >= 0);
}

/* Lets the kernel side find the table of a mapping by the mapping's file, for processes that map
 * this file later. If there is no room for this, such a process gets the table a little later, when
 * capture__set_mappings() records its mappings. */
static void provide_part(struct capture *c, const struct binaries *binaries,
			 const struct map_entry *e, const struct abi_mapping *mapping, size_t entry)
{
	struct unwind_store *store = &c->unwind;
	struct unwind_part part = {
		.key = {.file = {.inode = e->file.inode,
				 .dev = e->file.dev_major << 20 | e->file.dev_minor},
			.page = e->off / 4096},
		.table = {.number = mapping->table, .shift = mapping->start - mapping->bias},
		.entry = entry,
	};
	size_t at = find_part(store, &part.key);
	struct file_state state;
	bool known;

	if (!binaries__state(binaries, &e->file, &state))
		return;
	part.table.size = state.size;
	part.table.changed_s = (uint64_t)state.changed.tv_sec;
	part.table.changed_ns = (uint32_t)state.changed.tv_nsec;
	known = at < store->n_parts && !memcmp(&store->parts[at].key, &part.key, sizeof(part.key));
	if (known && !memcmp(&store->parts[at].table, &part.table, sizeof(part.table)))
		return;
	if (!known && VECTOR_ADD_ROOM(store->parts, store->n_parts))
		return;
	if (bpf_map__update_elem(c->skel->maps.tables_by_file, &part.key, sizeof(part.key),
				 &part.table, sizeof(part.table), BPF_ANY))
		return;
	if (!known)
		memmove(store->parts + at + 1, store->parts + at,
			(store->n_parts++ - at) * sizeof(part));
	store->parts[at] = part;
}

/* --- the processes that use tables --- */

static struct unwind_user *find_user(struct unwind_store *store, uint32_t process)
{
	for (size_t i = 0; i < store->n_users; i++)
		if (store->users[i].process == process)
			return &store->users[i];
	return NULL;
}

static void let_go(struct unwind_store *store, struct unwind_user *user)
{
	for (size_t i = 0; i < user->n; i++) {
		struct unwind_entry *e = &store->entries[user->entries[i]];

		if (!--e->users)
			e->let_go = ++store->clock;
	}
	free(user->entries);
	user->entries = NULL;
	user->n = 0;
}

static int add_user(struct unwind_store *store, uint32_t process, struct unwind_user **ret)
{
	if (VECTOR_ADD_ROOM(store->users, store->n_users))
		return -ENOMEM;
	*ret = &store->users[store->n_users++];
	**ret = (struct unwind_user){.process = process};
	return 0;
}

/* Fills in *to for a mapping. If the mapping has a table, adds the index of the table's entry to
 * uses[]. */
static int set_mapping(struct capture *c, const struct binaries *binaries,
		       const struct map_entry *e, struct abi_mapping *to, size_t *uses,
		       size_t *n_uses)
{
	const struct binary *binary = binaries__find(binaries, &e->file);
	struct unwind_entry *entry;
	uint64_t vaddr;
	int rc;

	*to = (struct abi_mapping){.start = e->start, .end = e->end};
	if (!binary || !binary->image || elf_image__mapping_to_vaddr(binary->image, e->off, &vaddr))
		return 0;
	entry = &c->unwind.entries[binary->index];
	rc = provide_table(c, binary, entry);
	if (rc || !entry->number)
		return rc;
	to->table = entry->number;
	to->bias = e->start - (vaddr - entry->base);
	provide_part(c, binaries, e, to, binary->index);
	for (size_t i = 0; i < *n_uses; i++)
		if (uses[i] == binary->index)
			return 0;
	uses[(*n_uses)++] = binary->index;
	entry->users++;
	return 0;
}

int capture__set_mappings(struct capture *c, const struct binaries *binaries, uint32_t process,
			  const struct maps *maps)
{
	_cleanup_free_ struct abi_mappings *m = NULL;
	_cleanup_free_ size_t *uses = NULL;
	struct unwind_store *store = &c->unwind;
	struct unwind_user *user = find_user(store, process);
	size_t n = 0, n_uses = 0, left_out = 0;
	int rc;

	capture__beat(c);
	if (!c->skel->rodata->use_tables)
		return 0;
	m = malloc(sizeof(*m));
	uses = calloc(ABI_MAX_MAPPINGS, sizeof(*uses));
	if (!m || !uses)
		return -ENOMEM;
	rc = binaries__grow(binaries, &store->entries, &store->n_entries, sizeof(*store->entries));
	if (!rc && !user)
		rc = add_user(store, process, &user);
	for (size_t i = 0; i < ABI_MAX_MAPPINGS; i++)
		m->entries[i] = (struct abi_mapping){.start = UNUSED_START};
	for (size_t i = 0; i < maps->n && !rc; i++) {
		const struct map_entry *e = &maps->entries[i];

		if (!e->executable || !e->file.inode)
			continue;
		capture__beat(c);
		if (n == ABI_MAX_MAPPINGS)
			left_out++;
		else
			rc = set_mapping(c, binaries, e, &m->entries[n++], uses, &n_uses);
	}
	if (!rc)
		rc = bpf_map__update_elem(c->skel->maps.mappings, &process, sizeof(process), m,
					  sizeof(*m), BPF_ANY);
	/* On failure the kernel keeps the old mappings, so their tables must stay as well. */
	if (rc) {
		for (size_t i = 0; i < n_uses; i++)
			store->entries[uses[i]].users--;
		return rc;
	}
	/* The new mappings are counted before the old ones are released, so that a table that both
	 * have stays in use. */
	let_go(store, user);
	user->entries = uses;
	user->n = n_uses;
	uses = NULL;
	return (int)left_out;
}

int capture__set_python(struct capture *c, uint32_t process, const struct abi_python *how)
{
	int rc = bpf_map__update_elem(c->skel->maps.pythons, &process, sizeof(process), how,
				      sizeof(*how), BPF_ANY);

	if (!rc)
		c->skel->bss->any_python = 1;
	return rc;
}

void capture__forget_mappings(struct capture *c, uint32_t process)
{
	struct unwind_user *user = find_user(&c->unwind, process);

	bpf_map__delete_elem(c->skel->maps.pythons, &process, sizeof(process), 0);
	/* if a child has ended before its mappings were read, it has no struct unwind_user, but it
	 * has a copy of its parent's entry in the kernel */
	bpf_map__delete_elem(c->skel->maps.mappings, &process, sizeof(process), 0);
	if (!user)
		return;
	let_go(&c->unwind, user);
	*user = c->unwind.users[--c->unwind.n_users];
}

bool capture__unwinding_refused(const struct capture *c)
{
	return c->unwinding_refused;
}

uint32_t capture__tables_refused(const struct capture *c)
{
	return c->unwind.refused;
}
