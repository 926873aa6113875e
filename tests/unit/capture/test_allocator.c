// SPDX-License-Identifier: BSD-2-Clause
/* Finds the allocators of real processes: /bin/sleep, which is not instrumented, and this test,
 * whose malloc is the sanitizer's. Needs no root. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/allocator.h"
#include "proc/link_map.h"
#include "proc/memory.h"
#include "proc/process.h"

static pid_t sleeper;

/* Four pools in this program, as the table knows them. Nobody calls the functions of the second
 * pool, as if the compiler had copied them into their callers. A function of the third pool has a
 * part NAME.part.0, which other functions call, too. So it looks as if the compiler had copied the
 * rest of the function into these callers. A function of the first pool also has such a part, but
 * nobody else calls the part. The fourth pool is PHP's. */
void *ngx_palloc(void *pool, size_t size);
void ngx_destroy_pool(void *pool);
void *palloc(size_t size);
void MemoryContextDelete(void *context);
bool MemoryContextContains(void *context, void *block);
void *apr_palloc(void *pool, size_t size);
void apr_pool_destroy(void *pool);
void apr_pool_clear(void *pool);
void *php_alloc(size_t size) __asm__("_emalloc");
void *php_alloc_56(void) __asm__("_emalloc_56");
void php_free(void *block) __asm__("_efree");
void shutdown_memory_manager(bool silent, bool full);
void *ngx_part(void *pool, size_t size) __asm__("ngx_palloc.part.0");
void *apr_part(void *pool, size_t size) __asm__("apr_palloc.part.0");

/* PHP's description of its server begins with the server's name. */
struct {
	const char *name;
} sapi_module;

__attribute__((noipa)) void *php_alloc(size_t size)
{
	return (char *)&sapi_module + size;
}

__attribute__((noipa, used)) void *php_alloc_56(void)
{
	return &sapi_module;
}

__attribute__((noipa, used)) void php_free(void *block)
{
	*(char *)block = 0;
}

__attribute__((noipa, used)) void shutdown_memory_manager(bool silent, bool full)
{
	sapi_module.name = silent || full ? "cli" : NULL;
}

__attribute__((noipa)) void *ngx_part(void *pool, size_t size)
{
	return (char *)pool + size;
}

__attribute__((noipa)) void *ngx_palloc(void *pool, size_t size)
{
	return (char *)ngx_part(pool, size) + 1;
}

__attribute__((noipa)) void *apr_part(void *pool, size_t size)
{
	return (char *)pool + size;
}

__attribute__((noipa)) void *apr_palloc(void *pool, size_t size)
{
	return size ? apr_part(pool, size) : pool;
}

__attribute__((noipa)) void apr_pool_clear(void *pool)
{
	*(char *)pool = 0;
}

__attribute__((noipa)) void apr_pool_destroy(void *pool)
{
	*(char *)pool = 0;
}

__attribute__((noipa)) void ngx_destroy_pool(void *pool)
{
	*(char *)pool = 0;
}

__attribute__((noipa, used)) void *palloc(size_t size)
{
	return (void *)size;
}

__attribute__((noipa, used)) void MemoryContextDelete(void *context)
{
	*(char *)context = 0;
}

__attribute__((noipa, used)) bool MemoryContextContains(void *context, void *block)
{
	return context == block;
}

/* Memory contexts as in PostgreSQL 16, whose functions are called through a table. The only direct
 * call of an allocating function is the pool's own. */
void *AllocSetAlloc(void *context, size_t size);
void *AllocSetRealloc(void *block, size_t size);
void AllocSetFree(void *block);
void AllocSetReset(void *context);
void AllocSetDelete(void *context);
void *AllocSetGetChunkContext(void *block);

__attribute__((noipa)) void *AllocSetAlloc(void *context, size_t size)
{
	return (char *)context + size;
}

__attribute__((noipa)) void *AllocSetRealloc(void *block, size_t size)
{
	return (char *)AllocSetAlloc(block, size) + 1;
}

__attribute__((noipa)) void AllocSetFree(void *block)
{
	*(char *)block = 0;
}

__attribute__((noipa)) void AllocSetReset(void *context)
{
	*(char *)context = 1;
}

__attribute__((noipa)) void AllocSetDelete(void *context)
{
	*(char *)context = 2;
}

__attribute__((noipa)) void *AllocSetGetChunkContext(void *block)
{
	return block;
}

void *volatile methods[] = {AllocSetAlloc, AllocSetRealloc, AllocSetFree,
			    AllocSetReset, AllocSetDelete,  AllocSetGetChunkContext};

static int start_sleeper(void **state)
{
	struct link_object objects[64];

	(void)state;
	sleeper = fork();
	if (!sleeper) {
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(127);
	}
	/* wait at most 5 s, until the child executes sleep and its dynamic linker has finished */
	for (int i = 0; i < 500; i++) {
		struct maps maps;

		usleep(10000);
		if (link_map__read(sleeper, objects, 64) < 3 || maps__read(sleeper, &maps))
			continue;
		for (size_t j = 0; j < maps.n && strstr(maps.entries[0].path, "/sleep"); j++)
			if (maps.entries[j].executable && strstr(maps.entries[j].path, "libc.so")) {
				maps__free(&maps);
				return 0;
			}
		maps__free(&maps);
	}
	return -1;
}

static int stop_sleeper(void **state)
{
	(void)state;
	kill(sleeper, SIGKILL);
	waitpid(sleeper, NULL, 0);
	return 0;
}

static struct allocators *find_with(pid_t pid, int want, struct error *err,
				    const struct alloc_extra *extra, size_t n_extra)
{
	struct allocators *all = NULL;
	struct maps maps;

	assert_int_equal(maps__read(pid, &maps), 0);
	assert_int_equal(allocators__find(NULL, pid, &maps, ALLOC_OWN, extra, n_extra, &all, err),
			 want);
	if (all) /* no new file was mapped, so this must add nothing */
		assert_int_equal(allocators__find_more(all, NULL, pid, &maps, extra, n_extra), 0);
	maps__free(&maps);
	return all;
}

static struct allocators *find(pid_t pid, int want, struct error *err)
{
	return find_with(pid, want, err, NULL, 0);
}

static const struct alloc_point *point(const struct allocator *a, const char *name)
{
	for (size_t i = 0; i < a->n_points; i++)
		if (!strcmp(a->points[i].name, name))
			return &a->points[i];
	return NULL;
}

static void glibc_is_found(void **state)
{
	static const char *const wanted[] = {"malloc", "calloc",  "realloc", "posix_memalign",
					     "valloc", "pvalloc", "free"};
	struct error err = {};
	struct allocators *all = find(sleeper, 0, &err);
	struct allocator *a = all->list[0];

	(void)state;
	assert_int_equal(all->n, 1);
	assert_string_equal(a->family, "glibc");
	assert_non_null(strstr(a->path, "libc.so.6"));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_non_null(point(a, wanted[i]));
	/* one of the two has a probe: they may be two names of one function */
	assert_true(point(a, "aligned_alloc") || point(a, "memalign"));
	assert_int_equal(point(a, "malloc")->func.size_arg, 1);
	assert_int_equal(point(a, "calloc")->func.count_arg, 1);
	assert_int_equal(point(a, "posix_memalign")->func.out_arg, 1);
	assert_int_equal(point(a, "free")->func.role, ROLE_FREE);
	allocators__free(all);
}

static void aliases_are_probed_once(void **state)
{
	struct allocators *all = find(sleeper, 0, NULL);
	struct allocator *a = all->list[0];

	(void)state;
	for (size_t i = 0; i < a->n_points; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(a->points[i].place.off, a->points[j].place.off);
	/* a function that ends in a jump to another probed function is not probed */
	assert_null(point(a, "reallocarray"));
	allocators__free(all);
}

#define INT3 0xcc /* a breakpoint */

static void probes_stand_on_emulated_instructions(void **state)
{
	struct allocators *all = find(sleeper, 0, NULL);
	struct allocator *a = all->list[0];
	struct maps maps;

	(void)state;
	assert_int_equal(maps__read(sleeper, &maps), 0);
	for (size_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *p = &a->points[i];
		struct probe_site site;
		uint8_t bytes[16];

		assert_true(p->site.emulated);
		assert_true(p->func.delta < 32);
		/* the process's memory holds the same instruction */
		for (size_t j = 0; j < maps.n; j++) {
			const struct map_entry *e = &maps.entries[j];

			if (!e->executable || e->file.inode != a->file.inode ||
			    p->place.off < e->off || p->place.off - e->off >= e->end - e->start)
				continue;
			assert_int_equal(memory__read(sleeper, e->start + p->place.off - e->off,
						      bytes, sizeof(bytes)),
					 0);
			if (bytes[0] == INT3) /* the breakpoint of another tracer */
				continue;
			assert_int_equal(probe_site__choose(bytes, sizeof(bytes), 0, 0, 0, &site),
					 0);
			assert_true(site.emulated);
		}
	}
	maps__free(&maps);
	allocators__free(all);
}

static void calls_to_itself_are_known(void **state)
{
	struct allocators *all = find(sleeper, 0, NULL);
	struct allocator *a = all->list[0];
	const struct abi_object *o = &a->object;
	bool realloc_body = false;

	(void)state;
	/* at least one inner call: realloc calls malloc */
	assert_true(o->n_inner >= 1);
	assert_true(o->low < o->high);
	for (uint32_t i = 0; i < o->n_outer; i++)
		realloc_body |= o->outer[i].start == point(a, "realloc")->func.vaddr;
	assert_true(realloc_body);
	for (uint32_t i = 0; i < o->n_inner; i++)
		assert_in_range(o->inner[i], o->low, o->high);
	allocators__free(all);
}

/* This test is linked with the sanitizer, so its malloc is not glibc's. glibc is mapped, too, but
 * the first definition in link order counts. */
static void interposed_malloc_is_refused_by_name(void **state)
{
	struct error err = {};
	struct allocators *all = find(getpid(), -ENOTSUP, &err);
	char exe[256] = {};

	(void)state;
	assert_null(all);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_true(strstr(err.text, exe) || strstr(err.text, "asan"));
}

/* A function that the user names is found once, with the user's description. The table's row for
 * the function is ignored. */
static void named_functions_come_first(void **state)
{
	const struct alloc_extra extra[] = {
		{"libc.so.6", "calloc", {.role = ROLE_ALLOC, .size_arg = 2, .wraps = 1}},
		{"exe", "main", {.role = ROLE_FREE, .ptr_arg = 1}},
	};
	struct allocators *all = find_with(sleeper, 0, NULL, extra, 1);
	struct error err = {};

	(void)state;
	assert_int_equal(all->n, 2);
	assert_string_equal(all->list[0]->family, "named");
	assert_int_equal(all->list[0]->n_points, 1);
	assert_int_equal(point(all->list[0], "calloc")->func.wraps, 1);
	assert_null(point(all->list[1], "calloc"));
	assert_non_null(point(all->list[1], "malloc"));
	allocators__free(all);

	assert_null(find_with(sleeper, -ENOENT, &err, extra, 2));
	assert_non_null(strstr(err.text, "sleep has no function main"));
}

#define JEMALLOC "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

/* jemalloc comes before glibc in link order, so no call reaches glibc's functions. */
static void preloaded_jemalloc_is_found(void **state)
{
	struct allocators *all;
	struct allocator *a;
	pid_t saved = sleeper;

	if (access(JEMALLOC, R_OK))
		skip();
	setenv("LD_PRELOAD", JEMALLOC, 1);
	assert_int_equal(start_sleeper(state), 0);
	unsetenv("LD_PRELOAD");
	all = find(sleeper, 0, NULL);
	stop_sleeper(state);
	sleeper = saved;

	a = all->list[0];
	assert_int_equal(all->n, 1);
	assert_string_equal(a->family, "jemalloc");
	assert_non_null(point(a, "mallocx"));
	assert_int_equal(point(a, "xallocx")->func.in_place, 1);
	/* free has one argument, so its probe may follow instructions that write other registers */
	assert_true(point(a, "free")->site.emulated);
	/* operator new may throw, and its exits are known */
	assert_int_equal(point(a, "_Znwm")->func.exits, 1);
	assert_true(a->n_exits > 0);
	/* operator new[] is only a jump to operator new */
	assert_null(point(a, "_Znam"));
	allocators__free(all);
}

/* --- files whose functions are cached --- */

static struct binaries *binaries;
static struct alloc_files *files;

static void know(pid_t pid, const struct map_entry *entry)
{
	struct binary *binary;
	int fd = maps__open_file(pid, entry);

	assert_true(fd >= 0);
	assert_int_equal(binaries__add(binaries, &entry->file, fd, -1, entry->path, &binary), 0);
}

static void know_all(pid_t pid, const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		if (maps->entries[i].executable && maps->entries[i].file.inode &&
		    !file_id__equal(&maps->entries[i].file, &FILE_ID_VDSO) &&
		    !binaries__find(binaries, &maps->entries[i].file))
			know(pid, &maps->entries[i]);
}

/* Makes all files of the sleeper known. Returns the family of its malloc. */
static const char *family_of_sleeper(size_t *ret_points)
{
	struct allocators *all = NULL;
	const char *family;
	struct maps maps;

	assert_int_equal(maps__read(sleeper, &maps), 0);
	know_all(sleeper, &maps);
	assert_int_equal(allocators__find(files, sleeper, &maps, ALLOC_OWN, NULL, 0, &all, NULL),
			 0);
	assert_int_equal(all->n, 1);
	assert_non_null(point(all->list[0], "malloc"));
	family = all->list[0]->family;
	*ret_points = all->list[0]->n_points;
	allocators__free(all);
	maps__free(&maps);
	return family;
}

/* A file's functions are the same for all processes, but each process may use different ones. */
static void remembered_files_decide_nothing(void **state)
{
	size_t first, again;
	pid_t saved = sleeper;

	assert_string_equal(family_of_sleeper(&first), "glibc");
	if (!access(JEMALLOC, R_OK)) {
		setenv("LD_PRELOAD", JEMALLOC, 1);
		assert_int_equal(start_sleeper(state), 0);
		unsetenv("LD_PRELOAD");
		assert_string_equal(family_of_sleeper(&again), "jemalloc");
		stop_sleeper(state);
		sleeper = saved;
	}
	assert_string_equal(family_of_sleeper(&again), "glibc");
	assert_int_equal(again, first);
}

static size_t count_family(const struct allocators *all, const char *family)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += !strcmp(all->list[i]->family, family);
	return n;
}

/* ALLOC_ALL finds the functions that any process may call, also those that this process does not
 * use. They are found even after the process has ended, because its files are still open. */
static void everybodys_outlive_the_process(void **state)
{
	bool preload = !access(JEMALLOC, R_OK);
	struct allocators *all = NULL;
	pid_t saved = sleeper;
	struct maps maps;

	if (preload)
		setenv("LD_PRELOAD", JEMALLOC, 1);
	assert_int_equal(start_sleeper(state), 0);
	unsetenv("LD_PRELOAD");
	assert_int_equal(maps__read(sleeper, &maps), 0);
	know_all(sleeper, &maps);
	for (int gone = 0; gone < 2; gone++) {
		assert_int_equal(
			allocators__find(files, sleeper, &maps, ALLOC_ALL, NULL, 0, &all, NULL), 0);
		assert_int_equal(count_family(all, "jemalloc"), preload);
		assert_int_equal(count_family(all, "glibc"), 1);
		for (size_t i = 0; i < all->n; i++)
			if (!strcmp(all->list[i]->family, "glibc")) {
				assert_non_null(point(all->list[i], "malloc"));
				assert_true(all->list[i]->object.n_inner > 0);
			}
		allocators__free(all);
		if (!gone)
			stop_sleeper(state);
	}
	/* The user names a function of the program (exe). The process has ended, so the file of its
	 * program is not known. */
	assert_int_equal(allocators__find(files, sleeper, &maps, ALLOC_ALL,
					  &(struct alloc_extra){.file = "exe", .symbol = "f"}, 1,
					  &all, NULL),
			 -ESRCH);
	maps__free(&maps);
	sleeper = saved;
}

static void files_are_read_once(void **state)
{
	char path[] = "/tmp/memtrace-test-XXXXXX", zeroes[4096] = {0};
	const struct map_entry *libc = NULL, *entry = NULL;
	const struct alloc_file *first, *again;
	struct maps maps, own;
	int fd, copy = mkstemp(path);
	struct stat st;
	ssize_t n;
	char *p;

	(void)state;
	assert_int_equal(maps__read(sleeper, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		if (maps.entries[i].executable && strstr(maps.entries[i].path, "libc.so"))
			libc = &maps.entries[i];
	assert_non_null(libc);
	fd = maps__open_file(sleeper, libc);
	assert_true(fd >= 0 && copy >= 0);
	while ((n = sendfile(copy, fd, NULL, 1 << 20)) > 0)
		;
	assert_int_equal(n, 0);
	assert_int_equal(fstat(copy, &st), 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, copy, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(maps__read(getpid(), &own), 0);
	entry = maps__find(&own, (uintptr_t)p);
	assert_non_null(entry);

	/* a file that is not kept open is read each time */
	assert_int_equal(alloc_files__look(files, getpid(), entry, true, NULL, 0, &first, NULL), 0);
	assert_true(first->known && first->n_parts == 1);
	know(getpid(), entry);
	assert_int_equal(alloc_files__look(files, getpid(), entry, true, NULL, 0, &first, NULL), 0);
	assert_int_equal(alloc_files__look(files, getpid(), entry, true, NULL, 0, &again, NULL), 0);
	assert_ptr_equal(first, again);
	assert_string_equal(first->parts[0].family, "glibc");
	/* With a dynamic linker, direct calls of malloc come from the library itself, so they are
	 * inner calls. Without a dynamic linker, all code calls malloc directly, so a direct call
	 * need not be an inner call. */
	assert_true(first->parts[0].object.n_inner > 0);
	assert_int_equal(alloc_files__look(files, getpid(), entry, false, NULL, 0, &again, NULL),
			 0);
	assert_int_equal(again->parts[0].object.n_inner, 0);

	/* If its contents change, the file counts as another file. */
	assert_int_equal(pwrite(copy, zeroes, sizeof(zeroes), 0), sizeof(zeroes));
	assert_int_equal(alloc_files__look(files, getpid(), entry, true, NULL, 0, &again, NULL), 0);
	assert_int_equal(again->n_parts, 0);

	munmap(p, 4096);
	unlink(path);
	close(copy);
	close(fd);
	maps__free(&own);
	maps__free(&maps);
}

static void a_file_that_cannot_be_opened_is_named(void **state)
{
	struct map_entry gone = {.start = 1 << 20,
				 .end = 2 << 20,
				 .file = {.inode = 1},
				 .perms = "r-xp",
				 .executable = true,
				 .path = "/nowhere/libgone.so"};
	struct maps maps = {&gone, 1};
	struct allocators *all;
	struct error err = {};

	(void)state;
	assert_int_equal(allocators__find(NULL, getpid(), &maps, ALLOC_OWN, NULL, 0, &all, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "no allocator found"));
	assert_non_null(strstr(err.text, "/nowhere/libgone.so could not be opened"));
}

static int start_remembering(void **state)
{
	(void)state;
	return binaries__new(&binaries)
		       ?: alloc_files__new(binaries,
					   &(struct alloc_how){.copies = true, .pools = true},
					   &files);
}

static int stop_remembering(void **state)
{
	(void)state;
	alloc_files__free(files);
	binaries__free(binaries);
	return 0;
}

static const struct allocator *family(const struct allocators *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->list[i]->family, name))
			return all->list[i];
	return NULL;
}

/* A pool whose functions are called is found. It is left out if probes are in all processes. */
static void pools_are_found(void **state)
{
	struct alloc_extra own = {.file = "exe", .symbol = "main", .func.role = ROLE_FREE};
	struct allocators *all = NULL;
	const struct allocator *pool;
	struct error err = {};
	struct maps maps;
	char room[16];

	(void)state;
	ngx_destroy_pool(ngx_palloc(room, 8));
	apr_pool_clear(apr_palloc(room, 8));
	apr_pool_destroy(apr_part(room, 8));
	all = find_with(getpid(), 0, &err, &own, 1);
	pool = family(all, "nginx");
	assert_non_null(pool);
	assert_int_equal(pool->n_points, 2);
	for (size_t i = 0; i < pool->n_points; i++) {
		bool allocates = !strcmp(pool->points[i].name, "ngx_palloc");

		assert_int_equal(pool->points[i].func.role,
				 allocates ? ROLE_ALLOC : ROLE_POOL_FREE);
		assert_true(alloc_point__is_essential(pool, i));
	}
	assert_null(family(all, "apr"));
	assert_string_equal(all->unseen.family, "apr"); /* its functions are copied */
	assert_non_null(strstr(all->unseen.text, "copied"));
	assert_null(strstr(all->unseen.text, "Python"));
	allocators__free(all);

	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(allocators__find(NULL, getpid(), &maps, ALLOC_ALL, NULL, 0, &all, NULL),
			 0);
	assert_null(family(all, "nginx"));
	allocators__free(all);
	maps__free(&maps);
}

/* A pool whose functions are called through pointers needs no direct calls. A direct call of its
 * allocating function is not counted, because it is the pool's own. */
static void a_pool_behind_pointers_is_found(void **state)
{
	static const struct {
		const char *name;
		enum abi_role role;
	} want[] = {
		{"AllocSetAlloc", ROLE_ALLOC},	    {"AllocSetRealloc", ROLE_REALLOC},
		{"AllocSetFree", ROLE_FREE},	    {"AllocSetReset", ROLE_POOL_END},
		{"AllocSetDelete", ROLE_POOL_FREE},
	};
	struct alloc_extra own = {.file = "exe", .symbol = "main", .func.role = ROLE_FREE};
	const struct allocator *pool;
	struct allocators *all;
	struct error err = {};
	uint64_t within;

	(void)state;
	all = find_with(getpid(), 0, &err, &own, 1);
	pool = family(all, "postgres");
	assert_non_null(pool);
	assert_int_equal(pool->n_points, 5);
	for (size_t i = 0; i < 5; i++) {
		size_t j = 0;

		while (j < 5 && strcmp(pool->points[i].name, want[j].name) != 0)
			j++;
		assert_true(j < 5);
		assert_int_equal(pool->points[i].func.role, want[j].role);
		assert_true(alloc_point__is_essential(pool, i));
		if (pool->points[i].func.role == ROLE_REALLOC) {
			within = pool->object.inner[0] - pool->points[i].func.vaddr;
			assert_true(within < pool->points[i].bytes);
		}
	}
	assert_int_equal(pool->object.n_inner, 1);
	allocators__free(all);
}

/* The allocators of this process in a run with a limit. copies: as in struct alloc_how. */
static struct allocators *find_limited(enum alloc_scope scope, bool copies)
{
	struct alloc_extra own = {.file = "exe", .symbol = "main", .func.role = ROLE_FREE};
	struct alloc_files *limited;
	struct allocators *all;
	struct error err = {};
	struct maps maps;

	assert_int_equal(alloc_files__new(NULL, &(struct alloc_how){.copies = copies}, &limited),
			 0);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	if (allocators__find(limited, getpid(), &maps, scope, &own, 1, &all, &err))
		fail_msg("%s", err.text);
	maps__free(&maps);
	alloc_files__free(limited);
	return all;
}

/* Without a limit, memtrace sees all blocks of PHP's pool, and their end. A function that allocates
 * for one size class has no size argument, but memtrace knows the size of its blocks. */
static void phps_pool_ends_with_the_request(void **state)
{
	struct alloc_extra own = {.file = "exe", .symbol = "main", .func.role = ROLE_FREE};
	const struct allocator *pool;
	struct allocators *all;
	struct error err = {};
	size_t n_ends = 0;

	(void)state;
	sapi_module.name = "fpm-fcgi";
	assert_non_null(php_alloc(0)); /* the call keeps the compiler from removing the function */
	all = find_with(getpid(), 0, &err, &own, 1);
	pool = family(all, "zend_mm");
	assert_non_null(pool);
	assert_int_equal(pool->n_points, 4);
	for (size_t i = 0; i < pool->n_points; i++) {
		const struct abi_func *func = &pool->points[i].func;

		assert_int_equal(func->pool_thread, func->role != ROLE_FREE);
		assert_int_equal(func->own, strcmp(pool->points[i].name, "_emalloc_56") ? 0 : 56);
		n_ends += func->role == ROLE_POOL_END;
	}
	assert_int_equal(n_ends, 1);
	allocators__free(all);
}

/* With a limit, the ends of requests are not followed. So PHP's servers are left out, and a text
 * says so. PHP's command-line program is not left out, because it has only one request. */
static void phps_servers_are_left_out_with_a_limit(void **state)
{
	const struct allocator *pool;
	struct allocators *all;

	(void)state;
	sapi_module.name = "cli-server";
	all = find_limited(ALLOC_OWN, true);
	assert_null(family(all, "zend_mm"));
	assert_string_equal(all->unseen.family, "zend_mm");
	assert_non_null(strstr(all->unseen.text, "--max-overhead off"));
	allocators__free(all);

	sapi_module.name = "cli";
	all = find_limited(ALLOC_OWN, true);
	pool = family(all, "zend_mm");
	assert_non_null(pool);
	assert_int_equal(pool->n_points, 3);
	for (size_t i = 0; i < pool->n_points; i++) {
		assert_true(pool->points[i].func.role < ROLE_POOL_END);
		assert_false(pool->points[i].func.pool_thread);
	}
	allocators__free(all);

	all = find_limited(ALLOC_OWN, false);
	assert_null(family(all, "zend_mm"));
	assert_non_null(strstr(all->unseen.text, "on this kernel"));
	allocators__free(all);

	all = find_limited(ALLOC_ALL, false);
	assert_null(family(all, "zend_mm"));
	assert_string_equal(all->unseen.family, "zend_mm");
	assert_non_null(strstr(all->unseen.text, "with -p"));
	allocators__free(all);
}

/* There is room for all names of the table. */
static void no_name_is_left_out(void **state)
{
	struct alloc_names names;
	size_t n = 0;

	(void)state;
	alloc_names__collect(&names);
	for (const struct alloc_family *f = alloc_families; f->name; f++) {
		n++;
		for (size_t l = 0; l < ALLOC_MAX_LISTS && f->functions[l]; l++)
			for (const struct alloc_function *fn = f->functions[l]; fn->name; fn++)
				assert_true(alloc_names__find(&names, fn->name) != SIZE_MAX);
	}
	assert_int_equal(n, ALLOC_FAMILIES);
}

/* An allocator is traced only if malloc, free and realloc have probes. Without free or realloc,
 * freed blocks would look live. Without malloc, most blocks would be missing. */
static void what_must_be_probed(void **state)
{
	struct alloc_point points[] = {
		{.name = "free", .func.role = ROLE_FREE},
		{.name = "malloc", .func.role = ROLE_ALLOC},
		{.name = "realloc", .func.role = ROLE_REALLOC},
		{.name = "posix_memalign", .func.role = ROLE_ALLOC},
	};
	const struct allocator allocator = {.family = "glibc", .points = points, .n_points = 4};

	(void)state;
	assert_true(alloc_point__is_essential(&allocator, 0));
	assert_true(alloc_point__is_essential(&allocator, 1));
	assert_true(alloc_point__is_essential(&allocator, 2));
	assert_false(alloc_point__is_essential(&allocator, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glibc_is_found),
		cmocka_unit_test(aliases_are_probed_once),
		cmocka_unit_test(probes_stand_on_emulated_instructions),
		cmocka_unit_test(calls_to_itself_are_known),
		cmocka_unit_test(interposed_malloc_is_refused_by_name),
		cmocka_unit_test(named_functions_come_first),
		cmocka_unit_test(preloaded_jemalloc_is_found),
		cmocka_unit_test(a_file_that_cannot_be_opened_is_named),
		cmocka_unit_test(what_must_be_probed),
		cmocka_unit_test(pools_are_found),
		cmocka_unit_test(a_pool_behind_pointers_is_found),
		cmocka_unit_test(phps_pool_ends_with_the_request),
		cmocka_unit_test(phps_servers_are_left_out_with_a_limit),
		cmocka_unit_test(no_name_is_left_out),
		cmocka_unit_test_setup_teardown(remembered_files_decide_nothing, start_remembering,
						stop_remembering),
		cmocka_unit_test_setup_teardown(everybodys_outlive_the_process, start_remembering,
						stop_remembering),
		cmocka_unit_test_setup_teardown(files_are_read_once, start_remembering,
						stop_remembering),
	};

	return cmocka_run_group_tests(tests, start_sleeper, stop_sleeper);
}
