// SPDX-License-Identifier: BSD-2-Clause
/* Decides which functions a process uses, among all functions of the allocators in its files. */
#include "capture/allocator.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/vector.h"
#include "capture/patch.h"
#include "proc/environ.h"
#include "proc/link_map.h"
#include "proc/memory.h"
#include "proc/process.h"

struct search {
	struct allocators *all;
	struct alloc_files *files;
	const struct alloc_names *names;
	pid_t pid;
	const struct maps *maps;
	const struct alloc_extra *extra;
	size_t n_extra;
	enum alloc_scope scope;
	bool late;		     /* the search is only for files that were mapped after tracing
				      * began */
	bool shared;		     /* a dynamic linker is at work */
	char *exe;		     /* path of the program */
	bool taken[ALLOC_MAX_NAMES]; /* an earlier file in link order exports the name */
};

/* --- one allocator --- */

/* Has the process changed the instruction in its memory? 1, 0, or -ETIMEDOUT: unknown. */
static int is_patched(const struct search *s, const struct file_id *file,
		      const struct code_place *insn)
{
	size_t which;

	return patch__find(s->pid, s->maps, file, insn, 1, &which);
}

/* Adds the ret instructions of a function. If one of them cannot be used, adds none and notes why
 * the function's results are lost. 0, or -ETIMEDOUT as in is_patched(). */
static int add_exits(const struct search *s, struct allocator *a, struct alloc_point *point,
		     const struct code_place *exits, size_t n)
{
	const char *why = NULL;
	size_t n_exits = a->n_exits;

	for (size_t i = 0; i < n && !why; i++) {
		int patched = is_patched(s, &a->file, &exits[i]);
		bool known = false;

		for (size_t j = 0; j < n_exits; j++)
			known = known || a->exits[j] == exits[i].off;
		if (patched < 0)
			return patched;
		if (patched)
			why = "a ret instruction was patched";
		else if (!known && n_exits == ALLOC_MAX_EXITS)
			why = "too many ret instructions";
		else if (!known) {
			a->exit_bytes[n_exits] = exits[i].byte;
			a->exits[n_exits++] = exits[i].off;
		}
	}
	if (!why) {
		a->n_exits = n_exits;
		return 0;
	}
	point->func.exits = 0;
	point->func.blind = 1;
	snprintf(point->site.why, sizeof(point->site.why), "its results are lost: %s", why);
	return 0;
}

static int add_point(const struct search *s, struct allocator *a, const struct alloc_part *part,
		     const struct alloc_offer *offer, struct error *err)
{
	struct alloc_point *point = &a->points[a->n_points];
	int patched, rc = 0;

	if (offer->rc)
		return error__set(err, offer->rc, "%s of %s cannot be probed: %s", offer->name,
				  a->path, offer->why);
	patched = offer->site.nop ? 0 : is_patched(s, &a->file, &offer->insn);
	if (patched > 0)
		return error__set(err, -EBUSY,
				  "the code of %s in pid %d is not that of %s: it was patched "
				  "while running, and is left alone",
				  offer->name, s->pid, a->path);
	*point = (struct alloc_point){.name = offer->name,
				      .func = offer->func,
				      .place = offer->insn,
				      .bytes = offer->bytes,
				      .site = offer->site,
				      .marker = offer->marker,
				      .semaphore = offer->semaphore};
	rc = patched;
	if (!rc && point->func.exits)
		rc = add_exits(s, a, point, part->exits + offer->first_exit, offer->n_exits);
	if (rc)
		return error__set(
			err, rc,
			"the code of %s in pid %d could not be read in time, and may have "
			"been patched: it is left alone",
			offer->name, s->pid);
	a->n_points++;
	return 0;
}

bool alloc_point__is_essential(const struct allocator *a, size_t i)
{
	if (a->points[i].func.role != ROLE_ALLOC)
		return a->points[i].func.role < ROLE_POOL_END || alloc_family__is_pool(a->family);
	while (i-- > 0)
		if (a->points[i].func.role == ROLE_ALLOC)
			return false;
	return true;
}

const char *alloc_point__loss(const struct alloc_point *point)
{
	switch (point->func.role) {
	case ROLE_POOL_END:
	case ROLE_POOL_FREE:
		return "blocks of the pools that it ends look live";
	case ROLE_POOL_LEFT:
		return "blocks that it takes out of a pool may look freed";
	default:
		return "what it allocates is missing";
	}
}

int allocator__patched_in(const struct allocator *a, pid_t pid, const struct maps *maps,
			  const char **ret)
{
	_cleanup_free_ struct code_place *places =
		calloc(a->n_points + a->n_exits + 1, sizeof(*places));
	_cleanup_free_ const char **names = calloc(a->n_points + 1, sizeof(*names));
	size_t n_points = 0, n, which;
	int rc;

	if (!places || !names)
		return -ETIMEDOUT;
	for (size_t i = 0; i < a->n_points; i++)
		if (!a->points[i].site.nop) { /* nops are not compared: other tools may have put a
					       * call there */
			names[n_points] = a->points[i].name;
			places[n_points++] = a->points[i].place;
		}
	n = n_points;
	for (size_t i = 0; i < a->n_exits; i++)
		places[n++] = (struct code_place){.off = a->exits[i], .byte = a->exit_bytes[i]};
	rc = patch__find(pid, maps, &a->file, places, n, &which);
	if (rc == 1)
		*ret = which < n_points ? names[which] : "a function that may throw";
	return rc;
}

static void allocator__free(struct allocator *a)
{
	if (!a)
		return;
	if (a->fd >= 0)
		close(a->fd);
	free(a->points);
	free(a->path);
	free(a);
}

DEFINE_CLEANUP(struct allocator *, cleanup_allocator, allocator__free)

/* Do calls by this name reach the function in this file? */
static bool is_used(const struct search *s, const struct alloc_file *file,
		    const struct alloc_alias *alias)
{
	size_t m = s->names->malloc;

	if (!alias->exported || s->late || !s->shared || s->scope == ALLOC_ALL)
		return true; /* the function may be called by the file's own code, by code that
			      * knows its address, or by another process */
	if (s->taken[alias->name])
		return false;
	/* If the process uses another file's malloc, it uses no function that belongs to this
	 * file's malloc. For example, with jemalloc it does not use glibc's pvalloc. */
	return !s->taken[m] || !file->exports[m] ||
	       !alloc_name__is_plain(s->names->name[alias->name]);
}

static bool is_there(const struct allocators *all, const struct file_id *file, const char *family)
{
	for (size_t i = 0; i < all->n; i++)
		if (file_id__equal(&all->list[i]->file, file) &&
		    !strcmp(all->list[i]->family, family))
			return true;
	return false;
}

/* Adds an allocator with the used functions of a part. If no function of the part is used, adds no
 * allocator. */
static int add_allocator(struct search *s, const struct map_entry *entry,
			 const struct alloc_file *file, const struct alloc_part *part,
			 struct error *err)
{
	_cleanup_(cleanup_allocator) struct allocator *a = NULL;
	bool used[ABI_MAX_FUNCS] = {};
	size_t n_used = 0;
	int rc = 0;

	for (size_t i = 0; i < part->n_aliases; i++)
		if (is_used(s, file, &part->aliases[i])) {
			size_t offer = part->aliases[i].offer;

			/* follow the chain of functions that only hand calls over; the chain may be
			 * a circle */
			for (size_t n = 0; offer != ALLOC_NOWHERE && n < part->n_offers; n++) {
				used[offer] = true;
				offer = part->offers[offer].leads_to;
			}
		}
	for (size_t i = 0; i < part->n_offers; i++)
		n_used += used[i] = used[i] && part->offers[i].leads_to == ALLOC_NOWHERE;
	if (!n_used || is_there(s->all, map_entry__real(entry), part->family))
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return error__set(err, -ENOMEM, "out of memory");
	a->fd = -1;
	if (VECTOR_ADD_ROOM(s->all->list, s->all->n))
		return error__set(err, -ENOMEM, "out of memory");
	a->family = part->family;
	a->path = strdup(entry->path);
	a->file = *map_entry__real(entry);
	a->through = entry->file;
	a->object = part->object;
	memcpy(a->takers, part->takers, sizeof(a->takers));
	a->n_takers = part->n_takers;
	a->points = calloc(n_used, sizeof(*a->points));
	a->fd = alloc_files__open(s->files, s->pid, entry);
	if (a->fd >= 0)
		a->fd = maps__to_probe(a->fd, s->pid, entry);
	if (a->fd < 0)
		return error__set(err, a->fd, "cannot open %s of pid %d: %s", entry->path, s->pid,
				  strerror(-a->fd));
	if (!a->path || !a->points)
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < part->n_offers && !rc; i++)
		if (used[i])
			rc = add_point(s, a, part, &part->offers[i], err);
	if (rc)
		return rc;
	s->all->list[s->all->n++] = a;
	a = NULL;
	return 0;
}

/* --- which file's functions are used --- */

static bool is_named(const struct alloc_extra *extra, const char *exe, const char *path)
{
	if (!strcmp(extra->file, "exe"))
		return exe && !strcmp(exe, path);
	if (strchr(extra->file, '/'))
		return !strcmp(extra->file, path);
	return !strcmp(extra->file, base_name(path));
}

/* Does the process use the pool whose functions the compiler has copied in the file? With
 * PYTHONMALLOC=malloc, the process's table of allocators names other functions. A process that has
 * only just begun has not read its environment yet, so memtrace looks into the environment
 * itself. */
static bool uses_copy(const struct search *s, const struct map_entry *entry,
		      const struct alloc_file *file)
{
	uint64_t bias = entry->start - entry->off - file->code_shift, function;

	if (s->scope != ALLOC_OWN && environ__has(s->pid, "PYTHONMALLOC=malloc"))
		return false;
	if (!file->copy.slot || !file->copy.usual)
		return true;
	return memory__read(s->pid, bias + file->copy.slot, &function, sizeof(function)) ||
	       function == bias + file->copy.usual;
}

/* Does PHP take its blocks from its own pool, and not one by one from malloc? */
static bool uses_request_pool(const struct search *s)
{
	char variable[] = "USE_ZEND_ALLOC=?";

	variable[sizeof(variable) - 2] = '\0';
	if (!environ__has(s->pid, variable))
		return true;
	/* PHP takes the value as a number. */
	for (const char *digit = "123456789"; *digit; digit++) {
		variable[sizeof(variable) - 2] = *digit;
		if (environ__has(s->pid, variable))
			return true;
	}
	return false;
}

static void note_unseen(const struct search *s, const struct map_entry *entry,
			const struct alloc_file *file)
{
	struct alloc_unseen *unseen = &s->all->unseen;

	if (!file->copied || unseen->family || !uses_copy(s, entry, file) ||
	    (alloc_family__is_request(file->copied) && !uses_request_pool(s)))
		return;
	unseen->family = file->copied;
	unseen->file = *map_entry__real(entry);
	snprintf(unseen->text, sizeof(unseen->text),
		 "%s of %.160s cannot be seen: the compiler has copied its functions into their "
		 "callers (-flto)%s%s. %s",
		 file->copied, entry->path, file->why[0] ? ", and " : "", file->why,
		 alloc_family__is_language(file->copied)
			 ? "Of Python's objects, only those above 512 bytes are counted. To count "
			   "all, start the program with PYTHONMALLOC=malloc in its environment"
		 : alloc_family__is_request(file->copied)
			 ? "Its blocks are in no figure. To count all, start the program with "
			   "USE_ZEND_ALLOC=0 in its environment"
			 : "What it takes from malloc is counted instead of its blocks");
}

/* Pools are called so often that probes in the pools of all processes would use up the whole
 * machine's limit of overhead. Without a language's pool, most of the language's objects are
 * missing, and the output says so. For other pools, the memory that they take from malloc is
 * counted instead. */
static void leave_pool_out(const struct search *s, const struct map_entry *entry,
			   const struct alloc_part *part)
{
	struct alloc_unseen *unseen = &s->all->unseen;

	if (unseen->family ||
	    !(alloc_family__is_language(part->family) || alloc_family__is_request(part->family)))
		return;
	unseen->family = part->family;
	unseen->file = *map_entry__real(entry);
	snprintf(unseen->text, sizeof(unseen->text),
		 "%s of %.200s is called too often to be probed in all processes at once. To count "
		 "its blocks, name the process with -p",
		 part->family, entry->path);
}

static bool is_markers(const char *family)
{
	return !strcmp(family, ALLOC_MARKERS);
}

bool allocators__have(const struct allocators *all, const char *family)
{
	for (size_t i = 0; all && i < all->n; i++)
		if (!strcmp(all->list[i]->family, family))
			return true;
	return false;
}

bool allocators__are_reported(const struct allocators *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (is_markers(all->list[i]->family))
			return true;
	return false;
}

/* If the process reports samples of its own, marks its other allocators as reported. Otherwise
 * memtrace would sample the same blocks a second time. */
static void set_reported(struct allocators *all)
{
	bool reported = allocators__are_reported(all);

	for (size_t i = 0; i < all->n; i++)
		all->list[i]->reported = reported && !is_markers(all->list[i]->family);
}

/* Does this search use markers? It does if its scope is ALLOC_OWN, and if the files were mapped
 * before tracing began. If a library with markers is loaded later, the calls of the allocators'
 * functions are already traced. The library's blocks would then count twice: by these calls and by
 * the markers. */
static bool wants_markers(const struct search *s)
{
	return s->scope == ALLOC_OWN && !s->late;
}

static void note_markers(struct search *s, const struct map_entry *entry,
			 const struct alloc_file *file)
{
	if (wants_markers(s) && file->markers_why[0] && !s->all->markers_why[0])
		snprintf(s->all->markers_why, sizeof(s->all->markers_why),
			 "the markers " ALLOC_MARKERS " of %.256s are not used: %s", entry->path,
			 file->markers_why);
}

/* Does the process run PHP's command-line program? Such a process has one request, which ends with
 * the process. PHP's servers call themselves otherwise: "fpm-fcgi", "cli-server", "apache2handler".
 * */
static bool is_one_request(const struct search *s, const struct map_entry *entry,
			   const struct alloc_file *file)
{
	uint64_t bias = entry->start - entry->off - file->code_shift, name;
	char text[4];

	return file->sapi && !memory__read(s->pid, bias + file->sapi, &name, sizeof(name)) &&
	       !memory__read(s->pid, name, text, sizeof(text)) && !memcmp(text, "cli", 4);
}

/* Notes that PHP's pool is not probed. All blocks of a request end at once. A run in windows does
 * not see which blocks end, so blocks of ended requests would look live. Perf uprobes are too slow
 * for windows. They are removed one by one, and the pool has 70 of them, so each window would take
 * seconds. */
static void leave_requests_out(const struct search *s, const struct map_entry *entry,
			       const struct alloc_part *part)
{
	struct alloc_unseen *unseen = &s->all->unseen;

	if (unseen->family)
		return;
	unseen->family = part->family;
	unseen->file = *map_entry__real(entry);
	snprintf(unseen->text, sizeof(unseen->text),
		 "%s of %.200s is not probed in a run with a limit of overhead%s. To count its "
		 "blocks, use --max-overhead off",
		 part->family, entry->path,
		 part->slow ? " on this kernel, which is slow to remove its probes"
			    : ", because all its blocks are freed at the end of the request. What "
			      "PHP keeps longer is from malloc, and is counted");
}

/* Adds one allocator of a file, unless it is a pool that this run does not probe. 0 or negative
 * errno. */
static int read_part(struct search *s, const struct map_entry *entry, const struct alloc_file *file,
		     const struct alloc_part *part, struct error *err)
{
	bool request = alloc_family__is_request(part->family);

	if (is_markers(part->family) && !wants_markers(s))
		return 0;
	if (request && !uses_request_pool(s))
		return 0;
	if (s->scope == ALLOC_ALL && alloc_family__is_pool(part->family)) {
		leave_pool_out(s, entry, part);
		return 0;
	}
	if (request && part->endless && (part->slow || !is_one_request(s, entry, file))) {
		leave_requests_out(s, entry, part);
		return 0;
	}
	if (file->copy.copied && alloc_family__is_language(part->family) &&
	    !uses_copy(s, entry, file))
		return 0;
	return add_allocator(s, entry, file, part, err);
}

/* Adds the allocators in the file behind entry. 0 or negative errno. */
static int read_file(struct search *s, const struct map_entry *entry, struct error *err)
{
	_cleanup_free_ const struct alloc_extra **extra = NULL;
	const struct alloc_file *file;
	struct error why = {};
	size_t n_extra = 0, m = s->names->malloc;
	int rc;

	for (size_t i = 0; i < s->all->n_seen; i++)
		if (file_id__equal(&s->all->seen[i], &entry->file))
			return 0;
	extra = calloc(s->n_extra + 1, sizeof(*extra));
	if (!extra || VECTOR_ADD_ROOM(s->all->seen, s->all->n_seen))
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < s->n_extra; i++)
		if (is_named(&s->extra[i], s->exe, entry->path))
			extra[n_extra++] = &s->extra[i];
	rc = alloc_files__look(s->files, s->pid, entry, s->shared, extra, n_extra, &file, &why);
	if (rc != -EMFILE && rc != -ENFILE)
		s->all->seen[s->all->n_seen++] = entry->file;
	if (rc < 0)
		return error__set(err, rc, "%s", why.text);
	if (rc > 0)
		snprintf(s->all->unopened, sizeof(s->all->unopened), "%.*s",
			 (int)sizeof(s->all->unopened) - 1, why.text);
	rc = 0;
	for (size_t i = 0; i < file->n_parts && !rc; i++)
		rc = read_part(s, entry, file, &file->parts[i], err);
	if (rc)
		return rc;
	note_unseen(s, entry, file);
	note_markers(s, entry, file);
	if (file->defines[m] && !file->known && !s->late &&
	    (!s->shared || (file->exports[m] && !s->taken[m])))
		snprintf(s->all->unknown, sizeof(s->all->unknown), "%s", entry->path);
	for (size_t i = 0; i < s->names->n; i++)
		s->taken[i] |= file->exports[i];
	return 0;
}

/* Returns the executable mapping of the file that is mapped at addr, or NULL. */
static const struct map_entry *code_of(const struct maps *maps, uint64_t addr)
{
	const struct map_entry *at = maps__find(maps, addr);

	if (!at || !at->file.inode)
		return NULL;
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->entries[i];

		if (e->executable && file_id__equal(&e->file, &at->file))
			return e;
	}
	return NULL;
}

/* Like read_file(). If the file cannot be used, but the search can go on without it, counts the
 * file in n_refused and returns 0. */
static int try_file(struct search *s, const struct map_entry *entry, struct error *err)
{
	int rc = read_file(s, entry, err);

	if (!rc || (!s->late && (s->scope != ALLOC_ALL || alloc_error__passes(rc))))
		return rc;
	s->all->n_refused++;
	return 0;
}

static int read_all(struct search *s, struct error *err)
{
	const struct maps *maps = s->maps;
	bool listed = !s->late && s->scope != ALLOC_LOADING;
	struct link_object objects[1024];
	long n = listed ? link_map__read(s->pid, objects, 1024) : -ENODATA;
	int rc = 0;

	/* A process that has ended, or has only begun, has no list of loaded files. Then its files
	 * are searched for one that asks for a dynamic linker. A late search may be for a static
	 * program that an exec has begun: such a program has no interpreter. */
	s->shared = n > 0 || s->scope == ALLOC_LOADING ||
		    (n < 0 && alloc_files__have_interp(s->files, maps)) ||
		    (s->late && process__auxv(s->pid, AT_BASE));
	for (long i = 0; i < n && !rc; i++) {
		const struct map_entry *entry = code_of(maps, objects[i].dynamic);

		rc = entry ? try_file(s, entry, err) : 0;
	}
	/* Without a list, the process is a static program or is still being loaded. If it is being
	 * loaded, the files mapped so far are in link order. With a list, files that are not on it
	 * were loaded in other ways. */
	for (size_t i = 0; i < maps->n && !rc; i++) {
		const struct map_entry *entry = &maps->entries[i];

		if (!entry->executable || !entry->file.inode ||
		    file_id__equal(&entry->file, &FILE_ID_VDSO))
			continue;
		rc = try_file(s, entry, err);
	}
	return rc;
}

static char *read_exe(pid_t pid)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", process__living_thread(pid));
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return strdup(path);
}

/* Begins a search. If `files` is NULL, makes a store of files for this search and sets *own to it.
 * The caller frees search.exe and *own. 0 or -ENOMEM. */
static int begin_search(struct search *s, struct alloc_files *files, struct alloc_files **own)
{
	if (!files) {
		if (alloc_files__new(NULL, &(struct alloc_how){.tables = true, .pools = true}, own))
			return -ENOMEM;
		files = *own;
	}
	s->files = files;
	s->names = alloc_files__names(files);
	s->exe = read_exe(s->pid);
	return 0;
}

DEFINE_CLEANUP(struct alloc_files *, cleanup_files, alloc_files__free)

int allocators__find(struct alloc_files *files, pid_t pid, const struct maps *maps,
		     enum alloc_scope scope, const struct alloc_extra *extra, size_t n_extra,
		     struct allocators **ret, struct error *err)
{
	_cleanup_(cleanup_files) struct alloc_files *own = NULL;
	struct allocators *all = calloc(1, sizeof(*all));
	struct search search = {.all = all,
				.pid = pid,
				.maps = maps,
				.extra = extra,
				.n_extra = n_extra,
				.scope = scope};
	int rc;

	if (!all || begin_search(&search, files, &own)) {
		free(all);
		return error__set(err, -ENOMEM, "out of memory");
	}
	rc = n_extra && !search.exe ? error__set(err, -ESRCH, "pid %d has ended", pid)
				    : read_all(&search, err);
	free(search.exe);
	set_reported(all);
	if (allocators__are_reported(all)) {
		/* the process reports its blocks by markers, so it does not matter which malloc it
		 * has, or which pool cannot be seen */
		all->unknown[0] = '\0';
		all->unseen = (struct alloc_unseen){};
	}
	if (!rc && all->unknown[0] && !n_extra && scope != ALLOC_ALL)
		rc = error__set(
			err, -ENOTSUP,
			"malloc of pid %d is that of %s, an allocator that memtrace does not "
			"know (known: glibc, musl, jemalloc, tcmalloc, mimalloc); its functions "
			"can be named with --alloc and --free",
			pid, all->unknown);
	if (!rc && !all->n && !((all->unknown[0] || all->n_refused) && scope == ALLOC_ALL))
		rc = error__set(
			err, -ENOENT,
			"no allocator found in pid %d: none of its %zu mapped files has a symbol "
			"malloc (a stripped static program, or one with a run-time of its own, "
			"as Go has). --what faults or --what regions shows its memory without an "
			"allocator%s%s",
			pid, all->n_seen, all->unopened[0] ? ". " : "", all->unopened);
	if (rc) {
		allocators__free(all);
		return rc;
	}
	*ret = all;
	return 0;
}

void allocators__new_program(struct allocators *all)
{
	if (all)
		all->n_seen = 0;
}

size_t allocators__find_more(struct allocators *all, struct alloc_files *files, pid_t pid,
			     const struct maps *maps, const struct alloc_extra *extra,
			     size_t n_extra)
{
	_cleanup_(cleanup_files) struct alloc_files *own = NULL;
	struct search search = {.all = all,
				.pid = pid,
				.maps = maps,
				.extra = extra,
				.n_extra = n_extra,
				.late = true};
	size_t before = all->n;

	if (begin_search(&search, files, &own))
		return 0;
	read_all(&search, NULL);
	free(search.exe);
	set_reported(all);
	if (allocators__are_reported(all))
		all->unseen = (struct alloc_unseen){};
	return all->n - before;
}

int alloc_extra__locate(const struct alloc_extra *extra, pid_t pid, const struct maps *maps,
			const struct map_entry **ret, struct error *err)
{
	_cleanup_(cleanup_files) struct alloc_files *files = NULL;
	_cleanup_free_ char *exe = read_exe(pid);
	const struct alloc_file *file;
	int rc;

	if (alloc_files__new(NULL, &(struct alloc_how){.tables = true, .pools = true}, &files))
		return error__set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *entry = &maps->entries[i];

		if (!entry->executable || !entry->file.inode || !is_named(extra, exe, entry->path))
			continue;
		rc = alloc_files__look(files, pid, entry, true, &extra, 1, &file, err);
		if (rc)
			return rc < 0 ? rc : -rc;
		*ret = entry;
		return 0;
	}
	return error__set(err, -ENXIO, "no file %s is mapped (yet)", extra->file);
}

size_t allocators__drop(struct allocators *all,
			bool (*is_to_go)(const void *ctx, const struct allocator *allocator),
			const void *ctx)
{
	size_t n = 0, n_attached = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (is_to_go(ctx, all->list[i])) {
			allocator__free(all->list[i]);
			continue;
		}
		n_attached += i < all->n_attached;
		all->list[n++] = all->list[i];
	}
	all->n = n;
	all->n_attached = n_attached;
	return n;
}

void allocators__free(struct allocators *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		allocator__free(all->list[i]);
	free(all->list);
	free(all->seen);
	free(all);
}
