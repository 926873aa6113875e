// SPDX-License-Identifier: BSD-2-Clause
/* Finding the allocator of real processes: /bin/sleep, which nobody has instrumented, and this test
 * itself, whose malloc is the sanitizer's. Needs no root. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/allocator.h"
#include "proc/link_map.h"
#include "proc/process.h"

static pid_t sleeper;

static int start_sleeper(void **state)
{
	uint64_t dynamics[64];

	(void)state;
	sleeper = fork();
	if (!sleeper) {
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(127);
	}
	/* until its dynamic linker has finished: at most 5 s */
	for (int i = 0; i < 500; i++) {
		struct maps maps;

		usleep(10000);
		if (link_map__read(sleeper, dynamics, 64) < 3 || maps__read(sleeper, &maps))
			continue;
		for (size_t j = 0; j < maps.n; j++)
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

static struct allocator *find(pid_t pid, int want, struct error *err)
{
	struct allocator *a = NULL;
	struct maps maps;

	assert_int_equal(maps__read(pid, &maps), 0);
	assert_int_equal(allocator__find(pid, &maps, false, &a, err), want);
	maps__free(&maps);
	return a;
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
	struct allocator *a = find(sleeper, 0, &err);

	(void)state;
	assert_string_equal(a->family, "glibc");
	assert_non_null(strstr(a->path, "libc.so.6"));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_non_null(point(a, wanted[i]));
	/* one of the two, or both where they are different functions */
	assert_true(point(a, "aligned_alloc") || point(a, "memalign"));
	assert_int_equal(point(a, "malloc")->func.size_arg, 1);
	assert_int_equal(point(a, "calloc")->func.count_arg, 1);
	assert_int_equal(point(a, "posix_memalign")->func.out_arg, 1);
	assert_int_equal(point(a, "free")->func.role, ROLE_FREE);
	allocator__free(a);
}

static void aliases_are_probed_once(void **state)
{
	struct allocator *a = find(sleeper, 0, NULL);

	(void)state;
	for (size_t i = 0; i < a->n_points; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(a->points[i].off, a->points[j].off);
	/* and what ends in another probed function is not probed itself */
	assert_null(point(a, "reallocarray"));
	allocator__free(a);
}

static void probes_stand_on_emulated_instructions(void **state)
{
	struct allocator *a = find(sleeper, 0, NULL);
	struct maps maps;

	(void)state;
	assert_int_equal(maps__read(sleeper, &maps), 0);
	for (size_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *p = &a->points[i];
		uint8_t bytes[16];

		assert_true(p->site.emulated);
		assert_true(p->func.delta < 32);
		/* at run time the very instruction is there */
		for (size_t j = 0; j < maps.n; j++) {
			const struct map_entry *e = &maps.entries[j];

			if (!e->executable || e->file.inode != a->file.inode || p->off < e->off ||
			    p->off - e->off >= e->end - e->start)
				continue;
			assert_int_equal(process__read_memory(sleeper, e->start + p->off - e->off,
							      bytes, sizeof(bytes)),
					 0);
			assert_true(probe_site__is_emulated(bytes, sizeof(bytes), NULL));
		}
	}
	maps__free(&maps);
	allocator__free(a);
}

static void calls_to_itself_are_known(void **state)
{
	struct allocator *a = find(sleeper, 0, NULL);
	const struct abi_object *o = &a->object;
	bool realloc_body = false;

	(void)state;
	/* realloc calls malloc: at least that one */
	assert_true(o->n_inner >= 1);
	assert_true(o->low < o->high);
	for (uint32_t i = 0; i < o->n_outer; i++)
		realloc_body |= o->outer[i].start == point(a, "realloc")->func.vaddr;
	assert_true(realloc_body);
	for (uint32_t i = 0; i < o->n_inner; i++)
		assert_in_range(o->inner[i], o->low, o->high);
	allocator__free(a);
}

/* Linked with the sanitizer, this test's own malloc is not glibc's, though glibc is mapped too: the
 * first definition in link order counts. */
static void interposed_malloc_is_refused_by_name(void **state)
{
	struct error err = {};
	struct allocator *a = find(getpid(), -ENOTSUP, &err);
	char exe[256] = {};

	(void)state;
	assert_null(a);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_true(strstr(err.text, exe) || strstr(err.text, "asan"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glibc_is_found),
		cmocka_unit_test(aliases_are_probed_once),
		cmocka_unit_test(probes_stand_on_emulated_instructions),
		cmocka_unit_test(calls_to_itself_are_known),
		cmocka_unit_test(interposed_malloc_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, start_sleeper, stop_sleeper);
}
