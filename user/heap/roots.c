// SPDX-License-Identifier: BSD-2-Clause
#include "heap/roots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "heap/image.h"
#include "proc/epoll.h"
#include "proc/process.h"

#define RED_ZONE    128
#define MAX_THREADS 65536
#define WORD	    sizeof(uint64_t)

/* --- threads --- */

static int add_value(struct root_value **values, size_t *n, pid_t tid, uint64_t value)
{
	if (VECTOR_ADD_ROOM(*values, *n))
		return -ENOMEM;
	(*values)[(*n)++] = (struct root_value){.value = value, .tid = tid};
	return 0;
}

int root_threads__add(struct root_threads *threads, pid_t tid, uint64_t value)
{
	return add_value(&threads->values, &threads->n_values, tid, value);
}

int root_threads__add_thread(struct root_threads *threads, const struct thread_state *thread)
{
	if (VECTOR_ADD_ROOM(threads->list, threads->n))
		return -ENOMEM;
	threads->list[threads->n++] = *thread;
	return 0;
}

struct thread_state *root_threads__find(struct root_threads *threads, pid_t tid)
{
	size_t i = SEARCH_FIRST(k, threads->n, threads->list[k].tid >= tid);

	return i < threads->n && threads->list[i].tid == tid ? &threads->list[i] : NULL;
}

void root_threads__clear(struct root_threads *threads)
{
	free(threads->list);
	free(threads->values);
	*threads = (struct root_threads){};
}

int root_threads__add_epoll(struct root_threads *threads, pid_t pid)
{
	struct epoll_kept data;
	int err = epoll_kept__read(pid, &data);

	for (size_t i = 0; !err && i < data.n; i++)
		err = root_threads__add(threads, 0, data.list[i]);
	threads->unread_epolls += data.unread;
	free(data.list);
	return err;
}

static int add_thread(struct root_threads *threads, pid_t pid, pid_t tid)
{
	struct thread_state thread;
	uint64_t args[THREAD_ARGS];
	size_t n = 0;
	int err = 0;

	if (thread_state__read(pid, tid, &thread, args, &n)) {
		thread = (struct thread_state){.tid = tid};
		threads->running++;
	}
	for (size_t i = 0; !err && i < n; i++)
		err = root_threads__add(threads, tid, args[i]);
	return err ? err : root_threads__add_thread(threads, &thread);
}

static int compare_threads(const void *a, const void *b)
{
	const struct thread_state *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

int root_threads__read(pid_t pid, struct root_threads *ret)
{
	_cleanup_closedir_ DIR *dir = process__open_threads(pid);
	_cleanup_(root_threads__clear) struct root_threads threads = {};
	pid_t tid;

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((tid = process__next_thread(dir))) {
		if (threads.n == MAX_THREADS)
			threads.running++;
		else if (add_thread(&threads, pid, tid))
			return -ENOMEM;
	}
	if (threads.n)
		qsort(threads.list, threads.n, sizeof(*threads.list), compare_threads);
	*ret = threads;
	threads = (struct root_threads){};
	return 0;
}

/* --- which memory --- */

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool same_file(const struct map_entry *a, const struct map_entry *b)
{
	return a->file.inode && file_id__equal(&a->file, &b->file);
}

/* Returns the kind of the root that mapping i forms. ROOT_KINDS: the mapping is no root. */
static enum root_kind judge(const struct maps *maps, size_t i)
{
	const struct map_entry *e = &maps->entries[i];
	const struct map_entry *before = i ? e - 1 : NULL;
	bool writable = e->perms[1] == 'w', shared = e->perms[3] == 's';

	if (e->perms[0] != 'r')
		return ROOT_KINDS;
	if (shared)
		return image__is_plain(e) ? ROOT_ANONYMOUS : ROOT_KINDS;
	if (e->file.inode) {
		/* RELRO: read-only since the dynamic linker has filled it in */
		bool relro = !e->executable && i + 1 < maps->n && e[1].start == e->end &&
			     e[1].perms[1] == 'w' && same_file(e, e + 1);

		return file_id__equal(&e->file, &FILE_ID_VDSO) ? ROOT_KINDS
		       : writable || relro		       ? ROOT_DATA
							       : ROOT_KINDS;
	}
	if (!strcmp(e->path, "[stack]"))
		return ROOT_STACK;
	if (*e->path == '[' && strcmp(e->path, "[heap]") && !starts_with(e->path, "[anon"))
		return ROOT_KINDS; /* [vvar], [vsyscall] */
	/* bss: anonymous memory right behind the data of a file */
	if (writable && !*e->path && before && before->end == e->start && before->file.inode &&
	    before->perms[1] == 'w' && before->perms[3] == 'p')
		return ROOT_DATA;
	return ROOT_ANONYMOUS;
}

/* --- the list --- */

struct list {
	struct root *roots;
	size_t n;
};

static int add(struct list *list, struct root root)
{
	root.start = (root.start + WORD - 1) / WORD * WORD;
	root.end = root.end / WORD * WORD;
	if (root.start >= root.end)
		return 0;
	if (VECTOR_ADD_ROOM(list->roots, list->n))
		return -ENOMEM;
	list->roots[list->n++] = root;
	return 0;
}

/* Adds a root without the ranges that allocators own. */
static int add_without(struct list *list, struct root root, const struct root_range *owned,
		       size_t n_owned)
{
	size_t i = SEARCH_FIRST(k, n_owned, owned[k].end > root.start);
	int err = 0;

	for (; !err && i < n_owned && owned[i].start < root.end; i++) {
		struct root part = root;

		part.end = owned[i].start;
		if (part.end > part.start)
			err = add(list, part);
		root.start = owned[i].end > root.start ? owned[i].end : root.start;
	}
	return err || root.start >= root.end ? err : add(list, root);
}

static int compare_values(const void *a, const void *b)
{
	const struct root_value *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

static int compare_roots(const void *a, const void *b)
{
	const struct root *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

/* Does mapping i begin with a stack? A guard page lies below the stack of a thread. */
static bool is_stack(const struct maps *maps, size_t i)
{
	const struct map_entry *e = &maps->entries[i];

	return !strcmp(e->path, "[stack]") ||
	       (i && e[-1].end == e->start && !strncmp(e[-1].perms, "---p", 4));
}

/* Adds a mapping that holds stacks. Each stack is a root, from its stack pointer up to the next
 * stack pointer. below: memory below the lowest stack pointer may be in use, too. */
static int add_stack(struct list *list, struct root root, bool below, const struct root_value *sps,
		     size_t n, const struct root_range *owned, size_t n_owned)
{
	uint64_t end = root.end;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		uint64_t from = sps[i].value - RED_ZONE;

		if ((i || !below) && from > root.start)
			root.start = from;
		root.end = i + 1 < n ? sps[i + 1].value - RED_ZONE : end;
		root.kind = ROOT_STACK;
		root.tid = sps[i].tid;
		err = add_without(list, root, owned, n_owned);
		root.start = root.end > root.start ? root.end : root.start;
	}
	return err;
}

static int take_values(const struct root_threads *threads, const struct root_range *owned,
		       size_t n_owned, struct roots *roots)
{
	int err = 0;

	for (size_t i = 0; !err && i < threads->n_values; i++)
		err = add_value(&roots->values, &roots->n_values, threads->values[i].tid,
				threads->values[i].value);
	/* If a stack pointer leads into the heap, the stack is a block, which counts as a whole. */
	for (size_t i = 0; !err && i < threads->n; i++) {
		uint64_t sp = threads->list[i].sp;
		size_t k = SEARCH_FIRST(r, n_owned, owned[r].end > sp);

		if (k < n_owned && owned[k].start <= sp)
			err = add_value(&roots->values, &roots->n_values, threads->list[i].tid, sp);
	}
	return err;
}

/* Lists the stack pointers that are known, ascending. */
static int take_sps(const struct root_threads *threads, struct root_value **ret, size_t *ret_n)
{
	int err = 0;

	for (size_t i = 0; !err && i < threads->n; i++)
		if (threads->list[i].sp)
			err = add_value(ret, ret_n, threads->list[i].tid, threads->list[i].sp);
	if (*ret_n)
		qsort(*ret, *ret_n, sizeof(**ret), compare_values);
	return err;
}

int roots__find(const struct maps *maps, const struct root_threads *threads,
		const struct root_range *owned, size_t n_owned, struct roots *ret)
{
	_cleanup_(roots__clear) struct roots roots = {};
	_cleanup_free_ struct root_value *sps = NULL;
	struct list list = {};
	size_t n_sps = 0;
	int err = take_sps(threads, &sps, &n_sps);

	if (!err)
		err = take_values(threads, owned, n_owned, &roots);
	for (size_t i = 0; !err && i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];
		size_t from = SEARCH_FIRST(k, n_sps, sps[k].value > e->start);
		size_t to = SEARCH_FIRST(k, n_sps, sps[k].value >= e->end);
		struct root root = {.start = e->start, .end = e->end, .kind = judge(maps, i)};

		if (root.kind == ROOT_KINDS)
			continue;
		/* Only memory without a file is split into stacks. A stack in a file's data has
		 * other data around it, and this data holds roots, too. */
		if (to > from && root.kind != ROOT_DATA)
			err = add_stack(&list, root, !is_stack(maps, i), sps + from, to - from,
					owned, n_owned);
		else
			err = add_without(&list, root, owned, n_owned);
		roots.list = list.roots;
		roots.n = list.n;
	}
	if (err)
		return err;
	if (roots.n)
		qsort(roots.list, roots.n, sizeof(*roots.list), compare_roots);
	*ret = roots;
	roots = (struct roots){};
	return 0;
}

void roots__clear(struct roots *roots)
{
	free(roots->list);
	free(roots->values);
	*roots = (struct roots){};
}
