// SPDX-License-Identifier: BSD-2-Clause
/* Some programs report samples of their own by markers. Tests which probes such a program would
 * get. The tests compile programs with markers and run them. Needs no root. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "capture/allocator.h"

/* AT: the instruction at the markers; ALLOC, FREE: the arguments; COUNTER: the semaphore. */
static const char source[] =
	"#include <unistd.h>\n#include <stdlib.h>\n"
	"#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n"
	"#define MARK(name, arguments) \\\n"
	" __asm__ volatile(\"990: \" AT \"\\n\" \\\n"
	" \".pushsection .note.stapsdt,\\\"?\\\",\\\"note\\\"\\n.balign 4\\n\" \\\n"
	" \".4byte 992f-991f, 994f-993f, 3\\n991: .asciz \\\"stapsdt\\\"\\n992: .balign 4\\n\" \\\n"
	" \"993: .8byte 990b, _.stapsdt.base, \" COUNTER \"\\n.asciz \\\"otel_memory\\\"\\n\" \\\n"
	" \".asciz \\\"\" name \"\\\"\\n.asciz \\\"\" arguments \"\\\"\\n\" \\\n"
	" \"994: .balign 4\\n.popsection\\n\")\n"
	"__asm__(\".pushsection .stapsdt.base,\\\"a\\\"\\n\"\n"
	" \"_.stapsdt.base: .space 1\\n.popsection\\n\");\n"
	"__attribute__((section(\".probes\"), used)) unsigned short counters[2];\n"
	"int main(void)\n{\n"
	"#ifdef ALLOC\n MARK(\"alloc\", ALLOC);\n#endif\n"
	"#ifdef FREE\n MARK(\"free\", FREE);\n#endif\n"
	"#ifdef MANY\n __asm__ volatile(\".rept 130\");\n MARK(\"free\", \"8@%rdi\");\n"
	" __asm__ volatile(\".endr\");\n#endif\n"
	" free(malloc(9));\n if (write(1, \"x\", 1) == 1)\n  pause();\n return 0;\n}\n";

#define GOOD                                                                                       \
	"-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7 8@-8(%rbp)\"' -DFREE='\"8@%rsi\"' "                 \
	"-DCOUNTER='\"counters\"'"

static char dir[] = "/tmp/test_markers.XXXXXX";

static int make_dir(void **state)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64];

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/x.c", dir);
	file = fopen(path, "w");
	return !file || fputs(source, file) < 0;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* Makes the program, starts it, and waits for the byte that the program writes once it is
 * loaded. */
static pid_t run(const char *options)
{
	char command[512], path[64], byte;
	int out[2];
	pid_t pid;

	snprintf(command, sizeof(command), "cd %s && gcc -O1 %s x.c -o x", dir, options);
	if (system(command))
		fail_msg("%s", command);
	snprintf(path, sizeof(path), "%s/x", dir);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends the program if a test fails */
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execl(path, "x", NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &byte, 1), 1);
	close(out[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct allocators *find_in(pid_t pid, bool markers, enum alloc_scope scope)
{
	const struct alloc_how how = {.markers = markers};
	struct alloc_files *files;
	struct allocators *all = NULL;
	struct error err = {};
	struct maps maps;

	assert_int_equal(alloc_files__new(NULL, &how, &files), 0);
	assert_int_equal(maps__read(pid, &maps), 0);
	if (allocators__find(files, pid, &maps, scope, NULL, 0, &all, &err))
		fail_msg("%s", err.text);
	assert_int_equal(allocators__find_more(all, files, pid, &maps, NULL, 0), 0);
	maps__free(&maps);
	alloc_files__free(files);
	return all;
}

static const struct allocator *get(const struct allocators *all, const char *family)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->list[i]->family, family))
			return all->list[i];
	return NULL;
}

static const struct alloc_point *point_of(const struct allocator *a, enum abi_role role)
{
	for (size_t i = 0; i < a->n_points; i++)
		if (a->points[i].func.role == role)
			return &a->points[i];
	fail_msg("no point of role %d", role);
	return NULL;
}

static void check_place(const struct abi_place *place, enum abi_place_kind kind, int base,
			int64_t value, int bytes)
{
	assert_int_equal(place->kind, kind);
	assert_int_equal(place->base, base);
	assert_int_equal(place->value, value);
	assert_int_equal(place->bytes, bytes);
}

static void markers_take_the_place_of_malloc(void **state)
{
	pid_t pid = run(GOOD);
	struct allocators *all = find_in(pid, true, ALLOC_OWN);
	const struct allocator *markers = get(all, ALLOC_MARKERS), *libc = get(all, "glibc");
	const struct alloc_point *alloc, *freeing;

	(void)state;
	assert_true(allocators__are_reported(all));
	assert_true(markers && libc);
	assert_true(libc->reported && !markers->reported);
	assert_string_equal(all->markers_why, "");
	assert_int_equal(markers->n_points, 2);
	alloc = point_of(markers, ROLE_MARK_ALLOC);
	check_place(&alloc->marker.ptr, PLACE_REGISTER, 1, 0, 8);
	check_place(&alloc->marker.size, PLACE_CONSTANT, 0, 7, 4);
	check_place(&alloc->marker.weighted, PLACE_MEMORY, 15, -8, 8);
	assert_true(alloc->semaphore && alloc->semaphore % 2 == 0);
	assert_true(alloc->site.emulated);
	assert_int_equal(alloc->place.byte, 0x90);
	freeing = point_of(markers, ROLE_MARK_FREE);
	check_place(&freeing->marker.ptr, PLACE_REGISTER, 2, 0, 8);
	for (size_t i = 0; i < markers->n_points; i++) /* if one is missing, figures are wrong */
		assert_true(alloc_point__is_essential(markers, i));
	allocators__free(all);
	end(pid);
}

static void check_malloc(const struct allocators *all, const char *why)
{
	const struct allocator *libc = get(all, "glibc");

	assert_false(allocators__are_reported(all));
	assert_null(get(all, ALLOC_MARKERS));
	assert_true(libc && !libc->reported);
	if (!strstr(all->markers_why, why) || !*why != !all->markers_why[0])
		fail_msg("%s", all->markers_why);
}

static void nobody_asks_for_markers(void **state)
{
	pid_t pid = run(GOOD);
	struct allocators *all = find_in(pid, false, ALLOC_OWN);

	(void)state;
	check_malloc(all, "");
	allocators__free(all);
	/* probes in the code of all processes */
	all = find_in(pid, true, ALLOC_ALL);
	check_malloc(all, "");
	allocators__free(all);
	end(pid);
}

static void check_refused(const char *options, const char *why)
{
	pid_t pid = run(options);
	struct allocators *all = find_in(pid, true, ALLOC_OWN);

	check_malloc(all, why);
	allocators__free(all);
	end(pid);
}

/* With markers that cannot be used, the program is traced by its calls of malloc. */
static void useless_markers_are_left_alone(void **state)
{
	(void)state;
	check_refused("-DAT='\"nop\"' -DCOUNTER='\"0\"'", "");
	check_refused("-DAT='\"cpuid\"' -DALLOC='\"8@%rdi 4@$7 8@$9\"' -DFREE='\"8@%rsi\"' "
		      "-DCOUNTER='\"0\"'",
		      "no nop");
	check_refused("-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7\"' -DFREE='\"8@%rsi\"' "
		      "-DCOUNTER='\"0\"'",
		      "not understood");
	check_refused("-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7 8@x(%rip)\"' -DFREE='\"8@%rsi\"' "
		      "-DCOUNTER='\"0\"'",
		      "not understood");
	check_refused("-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7 8@$9\"' -DCOUNTER='\"0\"'",
		      "only one of");
	check_refused(GOOD " -DMANY", "more than");
	/* addresses that are in no segment, and an odd one */
	check_refused("-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7 8@$9\"' -DFREE='\"8@%rsi\"' "
		      "-DCOUNTER='\"0x7fffffff0000\"'",
		      "semaphore");
	check_refused("-DAT='\"nop\"' -DALLOC='\"8@%rdi 4@$7 8@$9\"' -DFREE='\"8@%rsi\"' "
		      "-DCOUNTER='\"counters + 1\"'",
		      "semaphore");
}

static void a_nop_of_five_bytes_will_do(void **state)
{
	pid_t pid = run("-DAT='\".byte 0x0f,0x1f,0x44,0,0\"' -DALLOC='\"8@%rdi 4@$7 8@$9\"' "
			"-DFREE='\"8@%rsi\"' -DCOUNTER='\"0\"'");
	struct allocators *all = find_in(pid, true, ALLOC_OWN);

	(void)state;
	assert_true(allocators__are_reported(all));
	assert_true(get(all, ALLOC_MARKERS)->points[0].site.nop);
	assert_int_equal(get(all, ALLOC_MARKERS)->points[0].semaphore, 0);
	allocators__free(all);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(markers_take_the_place_of_malloc),
		cmocka_unit_test(nobody_asks_for_markers),
		cmocka_unit_test(useless_markers_are_left_alone),
		cmocka_unit_test(a_nop_of_five_bytes_will_do),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
