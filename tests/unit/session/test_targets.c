// SPDX-License-Identifier: BSD-2-Clause
/* Beginning and end of a run's targets, and the search of their files for allocators. Every process
 * is the test itself, because its mappings are real. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "fake_capture.h"

static const struct map_entry *first_file(const struct target *t)
{
	for (size_t i = 0; i < t->maps.n; i++)
		if (t->maps.entries[i].executable && t->maps.entries[i].file.inode)
			return &t->maps.entries[i];
	fail_msg("this process runs no file");
	return NULL;
}

static int mark_of_first(struct session *s, const struct target *t)
{
	return *binaries__mark(s->binaries, &first_file(t)->file);
}

static void files_are_looked_through_once(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	fake.brings_probes = true;
	t = meet(s, 1);
	assert_int_equal(fake.n_finds, 1);
	assert_int_equal(s->n_attached, 1);
	assert_int_equal(mark_of_first(s, t), FILE_SEEN);
	meet(s, 2);
	assert_int_equal(fake.n_finds, 1);
	end(s);
}

/* The file below is asked for once, and is known for later processes, too. */
static void files_of_overlayfs_have_files_below(void **state)
{
	const struct file_id below = {8, 1, 77};
	struct session *s = begin();

	(void)state;
	fake.below = below.inode;
	assert_true(file_id__equal(map_entry__real(first_file(meet(s, 1))), &below));
	fake.below = 78;
	assert_true(file_id__equal(map_entry__real(first_file(meet(s, 2))), &below));
	end(s);
}

/* The process ended during the search. The files are searched again for the next process that maps
 * them. */
static void what_fails_for_the_moment_is_tried_again(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	fake.found = -ESRCH;
	t = meet(s, 1);
	assert_int_equal(mark_of_first(s, t), FILE_NEW);
	assert_string_equal(files__not_traced(s, t), "its files could not be opened");
	fake.found = 0;
	meet(s, 2);
	assert_int_equal(fake.n_finds, 2);
	assert_int_equal(mark_of_first(s, t), FILE_SEEN);
	end(s);
}

static void no_room_for_probes_is_told_and_tried_again(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	fake.attached = -ENOSPC;
	t = meet(s, 1);
	assert_int_equal(fake.n_attaches, 2); /* the other allocators are still tried */
	assert_int_equal(s->probes_refused, 1);
	assert_true(s->files_short);
	assert_string_equal(files__not_traced(s, t), "there is no room for more probes");
	t->maps_changed = true; /* files__let_go() sets this when it has made room */
	targets__tell_mappings(s);
	assert_int_equal(mark_of_first(s, t), FILE_SEEN);
	assert_int_equal(s->probes_refused, 1);
	end(s);
}

static void what_the_kernel_refuses_is_not_tried_again(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	fake.attached = -EINVAL;
	t = meet(s, 1);
	assert_int_equal(mark_of_first(s, t), FILE_REFUSED);
	assert_string_equal(files__not_traced(s, t), "its allocator cannot be probed");
	meet(s, 2);
	assert_int_equal(fake.n_finds, 1);
	end(s);
}

static void an_unknown_malloc_marks_its_own_file(void **state)
{
	struct session *s = begin();
	struct target *t = targets__add(s);
	size_t unknown = 0, seen = 0;

	(void)state;
	t->info.pid = getpid();
	t->process = 1;
	assert_int_equal(targets__refresh_maps(s, t), 0);
	fake.unknown = first_file(t)->path;
	targets__tell_mappings(s);
	for (size_t i = 0; i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];

		if (!e->executable || !e->file.inode)
			continue;
		unknown += *binaries__mark(s->binaries, &e->file) == FILE_UNKNOWN;
		seen += *binaries__mark(s->binaries, &e->file) == FILE_SEEN;
	}
	assert_true(unknown == 1 && seen > 0);
	assert_string_equal(files__not_traced(s, t), "its malloc is of no known allocator");
	end(s);
}

static void a_child_is_a_target_until_it_ends(void **state)
{
	struct session *s = begin();
	struct target *child;

	(void)state;
	meet(s, 1);
	say(EVENT_FORK, 2, 1, 200);
	say(EVENT_FORK, 2, 1, 200); /* reported twice, added once */
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2);
	child = targets__find_process(s, 2);
	assert_true(child->uninvited && child->start_ns == 200 && child->maps.n > 0);
	fake.samples = 1; /* the child has a sample to report */
	say(EVENT_EXIT, 2, 0, 300);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2);
	assert_true(child->ended && child->end_ns == 300);
	assert_int_equal(fake.n_forgotten, 1);
	targets__note_end(s, child); /* a second end changes nothing */
	assert_int_equal(fake.n_forgotten, 1);
	assert_true(targets__find(s, getpid()) == targets__find_process(s, 1));
	fake.samples = 0; /* a child without samples is removed */
	say(EVENT_FORK, 3, 1, 400);
	say(EVENT_EXIT, 3, 0, 500);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2);
	assert_int_equal(fake.n_dropped, 1);
	end(s);
}

static bool has_map(const struct target *t, uint64_t addr)
{
	return maps__find(&t->maps, addr) != NULL;
}

/* A child may have called exec before memtrace reads its mappings. Then the parent's mappings are
 * not the child's. memtrace takes the parent's mappings only for a child that has ended already. */
static void a_child_has_its_own_mappings_if_they_can_be_read(void **state)
{
	char path[] = "/parent";
	struct map_entry only_parents = {.start = 0x1000,
					 .end = 0x2000,
					 .executable = true,
					 .file = {8, 1, 12345},
					 .path = path};
	pid_t gone = fork();
	struct session *s = begin();
	struct target *parent;

	(void)state;
	if (!gone)
		_exit(0);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	parent = meet(s, 1);
	maps__insert(&parent->maps, &only_parents);
	assert_true(has_map(parent, 0x1000));
	say(EVENT_FORK, 2, 1, 200);
	targets__take_news(s);
	assert_true(targets__find_process(s, 2)->maps.n > 0);
	assert_false(has_map(targets__find_process(s, 2), 0x1000));
	say(EVENT_FORK, 3, 1, 300);
	fake.events[0].tgid = (uint32_t)gone;
	targets__take_news(s);
	assert_true(has_map(targets__find_process(s, 3), 0x1000));
	end(s);
}

/* CPU time from before the exec that made the process a target does not count. */
static void cpu_time_counts_from_the_start(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	say(EVENT_NEW, 1, 0, 100);
	fake.events[0].cpu_ns = 60000000000;
	targets__take_news(s);
	t = targets__find_process(s, 1);
	t->cpu_now_ns = 61000000000;
	assert_int_equal(target__cpu_used_ns(t), 1000000000);
	end(s);
}

/* A process may be gone when memtrace hears of its end. Its clock is gone, too. */
static void cpu_time_counts_to_the_end(void **state)
{
	struct session *s = begin();
	struct session_status status;
	pid_t gone = fork();

	(void)state;
	if (!gone)
		_exit(0);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	fake.samples = 1;
	for (int i = 0; i < 2; i++) {
		say(i ? EVENT_EXIT : EVENT_NEW, 1, 0, 100 + (uint64_t)i);
		fake.events[i].tgid = (uint32_t)gone;
		fake.events[i].cpu_ns = i ? 5000000000 : 2000000000;
	}
	targets__take_news(s);
	assert_int_equal(s->n_targets, 1);
	assert_true(s->targets[0]->ended);
	assert_int_equal(target__cpu_used_ns(s->targets[0]), 3000000000);
	s->stopped = true;
	s->stop_ns = 1000000000;
	session__status(s, &status);
	assert_true(status.cpu_cores == 3);
	end(s);
}

static void the_wall_clock_is_noted_with_the_start(void **state)
{
	struct session *s = begin();
	uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC), unix_ns = clock__now_ns(CLOCK_REALTIME);
	struct target *t;

	(void)state;
	say(EVENT_NEW, 1, 0, now_ns - 5000000000);
	targets__take_news(s);
	t = targets__find_process(s, 1);
	assert_non_null(t);
	/* 5 s ago; the two clocks were read at slightly different times */
	assert_in_range(t->start_unix_ns, unix_ns - 5100000000, unix_ns - 4900000000);
	end(s);
}

/* A target's figures stay in the totals of the run after the target was removed. */
static void totals_outlive_targets(void **state)
{
	struct session *s = begin();
	struct session_status status;
	struct target *t;

	(void)state;
	fake.samples = 5;
	t = meet(s, 1);
	t->alloc_calls = 70;
	t->counters.alloc_bytes = 7000;
	t->counters.samples = 5;
	t->ended = s->stopped = true;
	for (int i = 0; i < 2; i++) {
		session__status(s, &status);
		assert_int_equal(status.samples, 5);
		assert_int_equal(status.alloc_calls, 70);
		assert_true(status.alloc_bytes == 7000);
		if (!i)
			targets__remove(s, t);
	}
	assert_int_equal(s->n_targets, 0);
	end(s);
}

/* Of three targets, two have windows. First one of these two ends, then the other two targets
 * end. */
static void who_has_ended_has_no_windows(void **state)
{
	struct session *s = begin();
	struct session_status status;

	(void)state;
	for (uint32_t i = 1; i <= 3; i++)
		meet(s, i)->budget.pace.windows.budget = i < 3 ? 0.05 : 0;
	s->stopped = true;
	session__status(s, &status);
	assert_int_equal(status.running, 3);
	assert_int_equal(status.windowed, 2);
	s->targets[0]->ended = true;
	session__status(s, &status);
	assert_int_equal(status.running, 2);
	assert_int_equal(status.windowed, 1);
	s->targets[1]->ended = s->targets[2]->ended = true;
	session__status(s, &status); /* all targets have ended: counts those that had windows */
	assert_int_equal(status.running, 0);
	assert_int_equal(status.windowed, 2);
	end(s);
}

/* All samples of a process were dropped, because a table of the kernel side was full. The process
 * stays a target, so that its profile can say so. */
static void a_process_that_lost_its_samples_is_kept(void **state)
{
	struct session *s = begin();

	(void)state;
	meet(s, 1);
	say(EVENT_FORK, 2, 1, 200);
	targets__take_news(s);
	fake.dropped = 3;
	say(EVENT_EXIT, 2, 0, 300);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2);
	assert_true(targets__find_process(s, 2)->ended);
	assert_int_equal(fake.n_dropped, 0);
	end(s);
}

static void a_victim_is_kept_and_its_last_size_noted(void **state)
{
	struct session *s = begin();
	struct target *child;

	(void)state;
	s->victims = VICTIMS_OF_MEMORY;
	meet(s, 1);
	say(EVENT_FORK, 2, 1, 200);
	targets__take_news(s);
	child = targets__find_process(s, 2);
	/* the event names a pid: it concerns the newest target with this pid */
	say(EVENT_VICTIM, 0, 0, 300);
	fake.events[fake.n_events - 1].anon_bytes = 64 << 20;
	targets__take_news(s);
	assert_true(child->is_victim && !child->ended && !child->death);
	assert_int_equal(child->anon.n, 1);
	assert_int_equal(child->anon.at[0].bytes, 64 << 20);
	assert_int_equal(child->anon.at[0].time_ns, 300);
	targets__read_size(child); /* adds nothing, because the memory is already being freed */
	assert_int_equal(child->anon.n, 1);
	say(EVENT_EXIT, 2, 0, 400);
	fake.events[fake.n_events - 1].death = ABI_DEATH_OOM | 9;
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2); /* the child stays, although it has no sample */
	assert_int_equal(child->death, ABI_DEATH_OOM | 9);
	assert_true(child->ended && child->end_ns == 400);
	assert_true(targets__ended_as_victim(s, child));
	child->death = SIGSEGV | 0x80; /* with a core dump */
	assert_false(targets__ended_as_victim(s, child));
	s->victims = VICTIMS_ALL;
	assert_true(targets__ended_as_victim(s, child));
	child->death = SIGKILL;
	assert_true(targets__ended_as_victim(s, child));
	child->death = SIGTERM;
	assert_false(targets__ended_as_victim(s, child));
	child->death = 0;
	assert_false(targets__ended_as_victim(s, child));
	child->death = SIGKILL;
	s->victims = VICTIMS_NONE;
	assert_false(targets__ended_as_victim(s, child));
	end(s);
}

/* Processes without a sample. A process that had probes during all of its life made no call. If the
 * probes in the code of all processes were out during a part of its life, it may have made
 * calls. */
static void who_ended_while_nobody_looked_is_counted(void **state)
{
	static const struct {
		uint64_t begin, end;
		bool counted;
	} lives[] = {
		{1000, 1100, false}, {1900, 1990, false}, /* probes are everywhere until 2,000 */
		{1950, 2050, true},  {2100, 2200, true},
		{2900, 3100, true}, /* probes are everywhere from 3,000 on */
		{3100, 3200, false},
	};
	const uint64_t begin_ns = clock__now_ns(CLOCK_MONOTONIC); /* all files are older */
	struct session *s = begin();

	(void)state;
	meet(s, 1);
	s->scheduler.host.everywhere = true;
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++) {
		uint64_t before = s->unseen;

		if (lives[i].end > 2000 && s->scheduler.host.everywhere &&
		    !s->scheduler.host.returned_ns)
			host__left(&s->scheduler.host, begin_ns + 2000, begin_ns + 2000);
		if (lives[i].end > 3000 && !s->scheduler.host.everywhere)
			host__returned(&s->scheduler.host, begin_ns + 3000);
		say(EVENT_FORK, 2, 1, begin_ns + lives[i].begin);
		targets__take_news(s);
		s->scheduler.begun = true; /* not earlier: the new target must not be scheduled */
		say(EVENT_EXIT, 2, 0, begin_ns + lives[i].end);
		targets__take_news(s);
		s->scheduler.begun = false;
		assert_int_equal(s->n_targets, 1);
		assert_int_equal(s->unseen - before, lives[i].counted);
	}
	end(s);
}

/* The target's file was deleted before memtrace could open it, and a later program's file has the
 * same inode number. The allocators of the later file must not be taken for the target's. */
static void a_file_with_the_same_inode_is_not_its_own(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);
	struct map_entry gone = *first_file(t);
	char path[] = "/nonexistent/program";
	struct binary *binary;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	gone.path = path;
	gone.start = 0x10000;
	gone.end = 0x20000;
	gone.file.inode += 1000000;
	handlers.mapped(handlers.ctx, getpid(), &gone);
	assert_null(binaries__mark(s->binaries, &gone.file));
	assert_int_equal(binaries__add(s->binaries, &gone.file, fd, -1, path, &binary), 0);
	*binaries__mark(s->binaries, &gone.file) = FILE_SEEN;
	say(EVENT_EXIT, 1, 0, 300);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 0);
	assert_int_equal(s->unseen, 1);
	end(s);
}

/* News of several programs comes at once. The first program's file is deleted, and the second
 * program's file has its inode number and is known. The third program began after this file was
 * made, so it may run this file. */
static void a_newer_file_is_not_its_own(void **state)
{
	struct session *s = begin();
	struct watch_handlers handlers = targets__handlers(s);
	char path[] = "/tmp/memtrace-test-targets-XXXXXX";
	int fd = mkstemp(path);
	struct map_entry entry;
	struct binary *binary;

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	entry = *first_file(meet(s, 1));
	entry.path = path;
	entry.start = 0x10000;
	entry.end = 0x20000;
	entry.file.inode += 1000000;
	assert_int_equal(binaries__add(s->binaries, &entry.file, fd, -1, path, &binary), 0);
	*binaries__mark(s->binaries, &entry.file) = FILE_SEEN;
	handlers.mapped(handlers.ctx, getpid(), &entry);
	say(EVENT_EXIT, 1, 0, 300);
	targets__take_news(s);
	assert_int_equal(s->unseen, 1);

	say(EVENT_NEW, 3, 0, clock__now_ns(CLOCK_MONOTONIC) + 1000000000);
	targets__take_news(s);
	handlers.mapped(handlers.ctx, getpid(), &entry);
	say(EVENT_EXIT, 3, 0, clock__now_ns(CLOCK_MONOTONIC) + 2000000000);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 0);
	assert_int_equal(s->unseen, 1);
	end(s);
}

/* After a target's maps were read, the watch may still report the exec with which the target
 * began. */
static void an_exec_that_is_older_than_the_target_changes_nothing(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);

	(void)state;
	handlers.exec(handlers.ctx, getpid(), 50);
	assert_int_equal(fake.n_forgotten, 0);
	handlers.exec(handlers.ctx, getpid(), 150);
	assert_int_equal(fake.n_forgotten, 1);
	assert_true(t->maps_changed && t->maps.n > 0);
	handlers.exec(handlers.ctx, 1, 150); /* a pid of no target */
	assert_int_equal(fake.n_forgotten, 1);
	end(s);
}

/* The loader of each new program needs some time, in which Python is looked for again and again. */
static void each_program_has_its_own_looks_for_python(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);

	(void)state;
	t->python_looks = 9;
	handlers.exec(handlers.ctx, getpid(), 150);
	assert_int_equal(t->python_looks, 0);
	end(s);
}

/* Another process got the target's pid before the target's end was reported. */
static void news_of_a_successor_is_not_its_own(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);
	struct map_entry other = *first_file(t);
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(0);
	t->pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(t->pidfd >= 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	t->info.start_ticks--; /* as if the process that now has the pid began later */
	handlers.exec(handlers.ctx, getpid(), 150);
	assert_int_equal(fake.n_forgotten, 0);
	other.file.inode += 1000000;
	handlers.mapped(handlers.ctx, getpid(), &other);
	assert_int_equal(t->code_replaced, 0);
	t->info.start_ticks++;
	handlers.exec(handlers.ctx, getpid(), 150);
	assert_int_equal(fake.n_forgotten, 1);
	end(s);
}

/* New code is mapped in place of other code. Earlier frames at its addresses then get the names of
 * the new code, so this is counted. */
static void code_that_takes_others_place_is_counted(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);
	struct map_entry other = *first_file(t);
	char path[256] = "";

	(void)state;
	strncpy(path, other.path, sizeof(path) - 1); /* mapped() frees the old path */
	other.path = path;
	handlers.mapped(handlers.ctx, getpid(), &other);
	assert_int_equal(t->code_replaced, 0); /* the same file was mapped again */
	other.off += 4096;
	handlers.mapped(handlers.ctx, getpid(), &other);
	assert_int_equal(t->code_replaced, 1);
	assert_true(t->maps_changed);
	end(s);
}

/* Some kernels report the file below instead of the file of overlayfs. Then the maps are read,
 * which show the file of overlayfs. */
static void news_of_another_file_lets_maps_be_read(void **state)
{
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);
	struct map_entry other = *first_file(t);
	const struct file_id file = other.file;
	bool missed = t->missed_file;
	char path[256] = "";

	(void)state;
	strncpy(path, other.path, sizeof(path) - 1); /* mapped() frees the old path */
	other.path = path;
	other.file.inode += 1000000;
	handlers.mapped(handlers.ctx, getpid(), &other);
	assert_true(t->maps_stale);
	assert_int_equal(t->missed_file, missed);
	t->code_replaced = 0; /* the test's process had this mapping before */
	targets__take_news(s);
	assert_false(t->maps_stale);
	assert_int_equal(t->code_replaced, 0);
	assert_true(file_id__equal(&first_file(t)->file, &file));
	end(s);
}

/* Once the file below is known, news of this file counts as news of the known mapping. Here the
 * process makes its code executable again, perhaps after a change. */
static void news_of_the_file_below_is_of_the_mapping(void **state)
{
	struct session *s = begin();
	struct watch_handlers handlers = targets__handlers(s);
	struct map_entry again;
	char path[256] = "";
	struct target *t;

	(void)state;
	fake.below = 77;
	t = meet(s, 1);
	again = *first_file(t);
	strncpy(path, again.path, sizeof(path) - 1);
	again.path = path;
	again.file = again.real;
	again.real = (struct file_id){};
	handlers.mapped(handlers.ctx, getpid(), &again);
	assert_true(t->code_changed && !t->maps_stale && !t->code_replaced);
	end(s);
}

/* A probe brings a mapping of the kernel, [uprobes], into the process. This is no code of a JIT
 * compiler, so no descriptor is spent on the place of a perf map. */
static void only_generated_code_has_a_perf_map(void **state)
{
	char names[][24] = {"[uprobes]", "[uprobes-trampoline]", "[vsyscall]", "", "[anon:jit]"};
	struct session *s = begin();
	struct target *t = meet(s, 1);
	struct watch_handlers handlers = targets__handlers(s);

	(void)state;
	assert_int_equal(t->perf_map.root_fd, -1);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct map_entry code = {.start = 0x7fffffffe000,
					 .end = 0x7ffffffff000,
					 .perms = "r-xp",
					 .executable = true,
					 .path = names[i]};

		handlers.mapped(handlers.ctx, getpid(), &code);
		assert_int_equal(t->perf_map.root_fd >= 0, i >= 3);
		if (t->perf_map.root_fd >= 0)
			close(t->perf_map.root_fd);
		t->perf_map.root_fd = -1;
	}
	end(s);
}

/* --- the index --- */

static struct target *find_slowly(const struct session *s, pid_t pid, uint32_t process)
{
	for (size_t i = s->n_targets; i--;)
		if (pid ? s->targets[i]->info.pid == pid && !s->targets[i]->ended
			: s->targets[i]->process == process)
			return s->targets[i];
	return NULL;
}

/* Targets begin, end and are removed, and their pids are used again. A search by the index finds
 * the same target as a search through all of them. */
static void an_index_finds_what_is_there(void **state)
{
	struct session s = {};
	uint64_t random = 1;
	uint32_t process = 0;

	(void)state;
	for (int step = 0; step < 20000; step++) {
		unsigned drawn = (unsigned)((random = random * 6364136223846793005u + 1) >> 33);
		size_t most = step / 5000 % 2 ? 20 : 400,
		       at = s.n_targets ? drawn % s.n_targets : 0;
		pid_t pid = 1 + (pid_t)(drawn % 700);
		struct target *t;

		if (s.n_targets < most && drawn % 8 < 4) {
			t = targets__add(&s);
			assert_non_null(t);
			assert_null(targets__find(&s, 701)); /* the target has no pid yet */
			if (!find_slowly(&s, pid, 0))
				t->info.pid = pid;
			else
				t->info.pid = 1000 + step;
			assert_ptr_equal(targets__find(&s, t->info.pid), t);
			t->process = ++process;
		} else if (s.n_targets && drawn % 8 < 5) {
			s.targets[at]->ended = true;
		} else if (s.n_targets && (s.n_targets > most || drawn % 8 == 5)) {
			targets__remove(&s, s.targets[at]);
		}
		assert_ptr_equal(targets__find(&s, pid), find_slowly(&s, pid, 0));
		if (process)
			assert_ptr_equal(targets__find_process(&s, 1 + drawn % process),
					 find_slowly(&s, 0, 1 + drawn % process));
	}
	assert_true(s.index.n < 3 * 400); /* the index does not grow for ever */
	while (s.n_targets)
		targets__remove(&s, s.targets[0]);
	target_index__clear(&s.index);
	free(s.targets);
}

/* Probes of a process's own may be taken out of its code when its main thread has ended. */
static void probes_that_are_gone_are_noticed(void **state)
{
	struct session *s = begin();
	struct allocators own = {};
	struct target *t;

	(void)state;
	t = meet(s, 1);
	t->allocators = &own;
	fake.misses_probes = true;
	s->everywhere = false;
	targets__read(s, t); /* the main thread lives: the probes are out between windows */
	assert_false(t->silent);
	t->headless = true;
	s->everywhere = true; /* probes in the code of all processes stay */
	targets__read(s, t);
	assert_false(t->silent);
	s->everywhere = false;
	fake.misses_probes = false;
	targets__read(s, t);
	assert_false(t->silent);
	fake.misses_probes = true;
	targets__read(s, t); /* looks once a second */
	assert_false(t->silent);
	t->silence_look_ns = 0;
	s->stop_ns = 1;
	targets__read(s, t); /* memtrace itself has taken them out */
	assert_false(t->silent);
	s->stop_ns = 0;
	targets__read(s, t);
	assert_true(t->silent);
	t->allocators = NULL;
	s->everywhere = true;
	end(s);
}

/* A program that was seen to allocate may execute another program whose allocator gets no
 * probes. */
static void who_executes_another_program_may_be_traced_no_more(void **state)
{
	struct session *s = begin();
	struct target *t;

	(void)state;
	fake.attached = -EINVAL;
	t = meet(s, 1);
	fake.samples = 5;
	targets__read(s, t);
	assert_null(files__not_traced(s, t));
	targets__note_exec(s, t, 200);
	assert_string_equal(files__not_traced(s, t), "its allocator cannot be probed");
	fake.samples = 6;
	targets__read(s, t);
	assert_null(files__not_traced(s, t));
	end(s);
}

/* A target with probes of its own executes a program. Its malloc is looked at as long as the
 * dynamic linker may still map files, and the last look counts. */
static void malloc_after_an_exec_is_looked_at(void **state)
{
	struct session *s = begin();
	struct allocators none = {};
	struct target *t = meet(s, 1);
	int looks = 0;

	(void)state;
	s->everywhere = false;
	t->allocators = &none;
	fake.own = true;
	fake.found = -ENOTSUP;
	targets__judge_exec(s, t); /* no exec yet */
	assert_null(files__not_traced(s, t));
	targets__note_exec(s, t, 200);
	assert_null(files__not_traced(s, t));
	targets__judge_exec(s, t);
	assert_string_equal(files__not_traced(s, t), "its malloc is of no known allocator");
	fake.found = 0;
	targets__judge_exec(s, t); /* the next look is not due yet */
	assert_non_null(files__not_traced(s, t));
	t->malloc_due_ns = 1;
	targets__judge_exec(s, t);
	assert_null(files__not_traced(s, t));
	fake.found = -ESRCH; /* tells nothing */
	for (; t->malloc_due_ns && looks < 100; looks++) {
		t->malloc_due_ns = 1;
		targets__judge_exec(s, t);
	}
	assert_in_range(looks, 1, 20);
	assert_null(files__not_traced(s, t));
	t->allocators = NULL;
	s->everywhere = true;
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_looked_through_once),
		cmocka_unit_test(files_of_overlayfs_have_files_below),
		cmocka_unit_test(what_fails_for_the_moment_is_tried_again),
		cmocka_unit_test(no_room_for_probes_is_told_and_tried_again),
		cmocka_unit_test(what_the_kernel_refuses_is_not_tried_again),
		cmocka_unit_test(an_unknown_malloc_marks_its_own_file),
		cmocka_unit_test(malloc_after_an_exec_is_looked_at),
		cmocka_unit_test(a_child_is_a_target_until_it_ends),
		cmocka_unit_test(a_child_has_its_own_mappings_if_they_can_be_read),
		cmocka_unit_test(cpu_time_counts_from_the_start),
		cmocka_unit_test(cpu_time_counts_to_the_end),
		cmocka_unit_test(the_wall_clock_is_noted_with_the_start),
		cmocka_unit_test(totals_outlive_targets),
		cmocka_unit_test(probes_that_are_gone_are_noticed),
		cmocka_unit_test(who_executes_another_program_may_be_traced_no_more),
		cmocka_unit_test(who_has_ended_has_no_windows),
		cmocka_unit_test(a_process_that_lost_its_samples_is_kept),
		cmocka_unit_test(a_victim_is_kept_and_its_last_size_noted),
		cmocka_unit_test(who_ended_while_nobody_looked_is_counted),
		cmocka_unit_test(a_file_with_the_same_inode_is_not_its_own),
		cmocka_unit_test(a_newer_file_is_not_its_own),
		cmocka_unit_test(an_exec_that_is_older_than_the_target_changes_nothing),
		cmocka_unit_test(each_program_has_its_own_looks_for_python),
		cmocka_unit_test(news_of_a_successor_is_not_its_own),
		cmocka_unit_test(code_that_takes_others_place_is_counted),
		cmocka_unit_test(news_of_another_file_lets_maps_be_read),
		cmocka_unit_test(news_of_the_file_below_is_of_the_mapping),
		cmocka_unit_test(only_generated_code_has_a_perf_map),
		cmocka_unit_test(an_index_finds_what_is_there),
	};

	return cmocka_run_group_tests_name("targets", tests, NULL, NULL);
}
