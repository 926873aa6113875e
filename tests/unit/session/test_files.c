// SPDX-License-Identifier: BSD-2-Clause
/* Probes are taken out of files that no process needs any more. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/vector.h"
#include "session/internal.h"

static const struct file_id below = {8, 1, 77};

/* Has the room capture been told to take the probes out of the file `below`? */
static bool released;

void __wrap_capture__release(struct capture *capture, const struct file_id *file);
void __wrap_capture__release(struct capture *capture, const struct file_id *file)
{
	(void)capture;
	released = released || file_id__equal(file, &below);
}

static bool is_releasing;

bool __wrap_capture__is_releasing(struct capture *capture);
bool __wrap_capture__is_releasing(struct capture *capture)
{
	(void)capture;
	return is_releasing;
}

static bool gets_probes = true;
static uint64_t probes_since_ns;

bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns);
bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns)
{
	(void)capture, (void)file;
	if (ret_since_ns)
		*ret_since_ns = probes_since_ns;
	return gets_probes;
}

/* The process whose allocator was refused; 0: none. */
static pid_t refused;

int __wrap_capture__refuse(struct capture *capture, const struct allocator *allocator, pid_t pid,
			   const char *text);
int __wrap_capture__refuse(struct capture *capture, const struct allocator *allocator, pid_t pid,
			   const char *text)
{
	(void)capture, (void)allocator;
	assert_non_null(strstr(text, "/program was changed in its container"));
	refused = pid;
	return 0;
}

/* Makes a program's file known, as the file number `inode` of an overlay over `below`. */
static struct file_id add_overlay(struct session *s, uint64_t inode)
{
	const struct file_id id = {0, 40, inode};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct binary *binary;

	assert_int_equal(binaries__add(s->binaries, &id, fd, -1, "/program", &binary), 0);
	binaries__set_real(s->binaries, &id, &below);
	*binaries__mark(s->binaries, &id) = FILE_SEEN;
	return id;
}

static struct target *add_target(struct session *s, const struct file_id *file)
{
	char path[] = "/program";
	const struct map_entry entry = {.start = 4096,
					.end = 8192,
					.file = *file,
					.real = below,
					.executable = true,
					.path = path};
	struct target *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	assert_int_equal(maps__insert(&t->maps, &entry), 0);
	assert_int_equal(VECTOR_ADD_ROOM(s->targets, s->n_targets), 0);
	s->targets[s->n_targets++] = t;
	return t;
}

/* Gives the file `below` probes through another file. */
static void place_probes(struct session *s, const struct file_id *through)
{
	struct allocators *allocators = calloc(1, sizeof(*allocators));
	struct allocator *a = calloc(1, sizeof(*a));

	assert_true(allocators && a);
	allocators->list = calloc(1, sizeof(struct allocator *));
	assert_non_null(allocators->list);
	allocators->list[0] = a;
	allocators->n = allocators->n_attached = 1;
	a->fd = -1;
	a->family = "glibc";
	a->file = below;
	a->through = *through;
	assert_int_equal(VECTOR_ADD_ROOM(s->attached, s->n_attached), 0);
	s->attached[s->n_attached++] = allocators;
}

/* Two overlays over one file, which has probes through the first one. */
static void set_up(struct session *s, struct file_id *first, struct file_id *second)
{
	static const struct session_selection all;

	released = false;
	*s = (struct session){.everywhere = true,
			      .selection = &all,
			      .files_idle = true,
			      .files_short = true,
			      .writes_fd = -1};
	assert_int_equal(binaries__new(&s->binaries), 0);
	*first = add_overlay(s, 1);
	*second = add_overlay(s, 2);
	place_probes(s, first);
}

static void end(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		maps__free(&s->targets[i]->maps);
		free(s->targets[i]);
	}
	for (size_t i = 0; i < s->n_attached; i++)
		allocators__free(s->attached[i]);
	free(s->targets);
	free(s->attached);
	free(s->reopened);
	binaries__free(s->binaries);
}

/* Probes hold the file through which they were placed, and its file system. */
static void probes_are_placed_again_through_another_file(void **state)
{
	struct file_id first, second;
	struct target *t;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	t = add_target(&s, &second);
	files__let_go(&s);
	assert_true(released);
	assert_int_equal(s.n_attached, 0);
	assert_null(binaries__mark(s.binaries, &first));
	assert_int_equal(*binaries__mark(s.binaries, &second), FILE_NEW);
	assert_true(t->probes_due);
	end(&s);
}

/* A container has changed the file, and has a copy of its own now. */
static void probes_that_find_no_other_file_are_refused(void **state)
{
	struct file_id first, second;
	struct target *t;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	s.files_short = false;
	s.files_idle = false;
	t = add_target(&s, &first);
	t->info.pid = 1234;
	for (int i = 0; i < 2; i++) {
		gets_probes = !i;
		refused = 0;
		t->probes_due = false;
		if (i)
			place_probes(&s, &first);
		files__reopen(&s, s.attached[0]->list[0]);
		assert_true(released && t->probes_due);
		files__let_go(&s);
		assert_int_equal(refused, 0); /* the target's turn to get probes comes now */
		files__let_go(&s);
		assert_int_equal(refused, i ? 1234 : 0);
		assert_int_equal(s.n_reopened, 0);
	}
	gets_probes = true;
	end(&s);
}

/* The target maps the file that was below before the copy. */
static void a_copys_mark_is_not_the_mappings(void **state)
{
	const struct file_id copy = {8, 1, 78};
	struct file_id first, second;
	struct map_entry entry;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	entry = add_target(&s, &first)->maps.entries[0];
	assert_int_equal(*files__mark(&s, &entry), FILE_SEEN);
	binaries__set_real(s.binaries, &first, &copy);
	assert_null(files__mark(&s, &entry));
	entry.real = copy;
	assert_int_equal(*files__mark(&s, &entry), FILE_SEEN);
	end(&s);
}

static void probes_stay_when_another_file_goes(void **state)
{
	struct file_id first, second;
	struct target *t;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	t = add_target(&s, &first);
	files__let_go(&s);
	assert_false(released);
	assert_int_equal(s.n_attached, 1);
	assert_null(binaries__mark(s.binaries, &second));
	assert_int_equal(*binaries__mark(s.binaries, &first), FILE_SEEN);
	assert_false(t->probes_due);
	end(&s);
}

/* There was no room for a target's probes. Room comes some time after a file was released. */
static void probes_are_tried_again_until_all_room_has_come(void **state)
{
	struct file_id first, second;
	struct target *t;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	t = add_target(&s, &second);
	is_releasing = true;
	for (int i = 0; i < 4; i++) {
		s.files_short = true;
		s.files_next_ns = 0;
		t->probes_due = false;
		files__let_go(&s);
		assert_int_equal(t->probes_due, i < 3);
		is_releasing = i < 1;
	}
	end(&s);
}

static void a_refusal_holds_for_all_files(void **state)
{
	struct file_id first, second;
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	files__refuse(&s, &below);
	assert_true(released);
	assert_int_equal(*binaries__mark(s.binaries, &first), FILE_REFUSED);
	assert_int_equal(*binaries__mark(s.binaries, &second), FILE_REFUSED);
	end(&s);
}

/* A program's calls from before the file's probes are missing if the program has begun during the
 * run. Programs from before the run were not seen then anyway. */
static void probes_may_be_late(void **state)
{
	enum { OLD, FORKED, BEGUN, REPLACED, ENDED, HELD, N };
	struct file_id first, second;
	struct target *t[N];
	struct session s;

	(void)state;
	set_up(&s, &first, &second);
	for (int i = 0; i < N; i++)
		t[i] = add_target(&s, &first);
	t[FORKED]->start_ns = t[BEGUN]->start_ns = t[ENDED]->start_ns = 100;
	t[BEGUN]->begun_by_exec_ns = t[ENDED]->begun_by_exec_ns = t[HELD]->begun_by_exec_ns = 100;
	t[REPLACED]->program_replaced = t[ENDED]->ended = true;
	t[HELD]->info.pid = s.launch.pid = 1234;
	s.launch.held = true;
	files__note_late(&s, &below);
	for (int i = 0; i < N; i++)
		assert_int_equal(t[i]->allocators_late, i != OLD && i != HELD);
	files__note_late(&s, &(struct file_id){8, 1, 78}); /* nobody maps this file */
	assert_int_equal(t[BEGUN]->allocators_late, 1);
	/* the file had probes, and has got them back */
	s.launch.held = false;
	files__reopen(&s, s.attached[0]->list[0]);
	files__note_late(&s, &below);
	for (int i = 0; i < N; i++)
		assert_int_equal(t[i]->allocators_late,
				 i == OLD || i == HELD || i == ENDED ? 1 : 2);
	end(&s);
}

/* The news of the beginning is taken after the probes were placed. */
static void probes_may_come_before_the_news(void **state)
{
	struct file_id first, second;
	struct session s;
	struct target *t;

	(void)state;
	set_up(&s, &first, &second);
	t = add_target(&s, &first);
	probes_since_ns = 100;
	files__note_late_begin(&s, t, 101);
	files__note_late_begin(&s, t, 0);
	assert_int_equal(t->allocators_late, 0);
	files__note_late_begin(&s, t, 99);
	assert_int_equal(t->allocators_late, 1);
	s.everywhere = false;
	files__note_late_begin(&s, t, 99);
	assert_int_equal(t->allocators_late, 1);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probes_are_placed_again_through_another_file),
		cmocka_unit_test(probes_that_find_no_other_file_are_refused),
		cmocka_unit_test(a_copys_mark_is_not_the_mappings),
		cmocka_unit_test(probes_stay_when_another_file_goes),
		cmocka_unit_test(probes_are_tried_again_until_all_room_has_come),
		cmocka_unit_test(a_refusal_holds_for_all_files),
		cmocka_unit_test(probes_may_be_late),
		cmocka_unit_test(probes_may_come_before_the_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
