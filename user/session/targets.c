// SPDX-License-Identifier: BSD-2-Clause
/* The processes of a run, and the news of them: what they map, what they become, how they end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/vector.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "session/budget.h"
#include "session/internal.h"

/* How often Python is looked for again in a process whose loader was not ready: after 5, 10, ...
 * ms, 2.5 s in all. */
#define PYTHON_LOOKS	9
#define PYTHON_AGAIN_NS 5000000ULL

/* Mappings that are gone are kept to name older stacks, but at most MAX_GONE of them: a process may
 * map at new addresses again and again. When there are more, memtrace forgets all mappings that are
 * gone. Frames in them then count as frames without a mapping. */
#define MAX_GONE 16384

struct target *targets__add(struct session *s)
{
	struct target *t;

	if (VECTOR_RESERVE(s->targets, s->room, s->n_targets + 1))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->pidfd = t->perf_map.root_fd = -1;
	t->withdrawals_before = s->n_withdrawals;
	s->targets[s->n_targets++] = t;
	s->n_met++;
	return t;
}

void targets__remove(struct session *s, struct target *t)
{
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i] == t) {
			targets__forget_entry(s, i);
			memmove(s->targets + i, s->targets + i + 1,
				(--s->n_targets - i) * sizeof(*s->targets));
			break;
		}
	if (s->scheduler.begun)
		scheduler__forget(&s->scheduler, &t->budget.pace);
	if (t->process) {
		status__keep(s, t);
		capture__drop_process(s->capture, t->process);
	}
	s->files_idle = true;
	target__clear(t);
	free(t);
}

/* --- files --- */

static void note_short(struct session *s, bool is_short)
{
	s->files_refused += is_short;
	s->files_short = s->files_short || is_short;
	s->files_idle = s->files_idle || is_short;
}

/* Returns when an uninvited process became a target. */
static uint64_t began_ns(const struct target *t)
{
	return t->begun_by_exec_ns ?: t->start_ns;
}

/* The wall clock at a moment of the run. The result is right only for moments shortly before now:
 * the wall clock may be set, and the monotonic clock stands still while the machine sleeps. */
static uint64_t wall_clock_ns(uint64_t monotonic_ns)
{
	return clock__now_ns(CLOCK_REALTIME) - clock__now_ns(CLOCK_MONOTONIC) + monotonic_ns;
}

/* Has this known file changed since the target began? Then it is perhaps not the target's file: the
 * target's file was deleted, and a new file got its inode number. (The vdso is left out, because
 * memtrace has its own copy of it.) */
static bool is_newer(const struct session *s, const struct target *t, const struct file_id *file)
{
	struct file_state state;

	return began_ns(t) && !file_id__equal(file, &FILE_ID_VDSO) &&
	       binaries__state(s->binaries, file, &state) &&
	       clock__to_ns(&state.changed) > wall_clock_ns(began_ns(t));
}

int targets__hold_file(struct session *s, struct target *t, struct map_entry *entry)
{
	const struct file_id *known = binaries__real(s->binaries, &entry->file);
	pid_t pid = t->info.pid;
	_cleanup_close_ int root = -1;
	struct binary *binary, *whole;
	struct file_id real;
	int fd, rc;

	if (known)
		entry->real = *known;
	if (!entry->file.inode)
		return 0;
	whole = binaries__find(s->binaries, &entry->file);
	if (whole && !binaries__may_be_copied(s->binaries, &entry->file)) {
		t->missed_file = t->missed_file || is_newer(s, t, &entry->file);
		return 0;
	}
	fd = maps__open_file(pid, entry);
	real = fd < 0 || !s->everywhere ? entry->file
					: capture__real_file(s->capture, fd, &entry->file);
	if (whole && (fd < 0 || file_id__equal(&real, &entry->real))) {
		if (fd >= 0) {
			close(fd);
			binaries__keep_real(s->binaries, &entry->file);
		}
		return 0;
	}
	/* The file was written to, and this process may run the new contents with the old probes.
	 * (The first change of a file of overlayfs makes another file below it.) */
	if (s->everywhere && known && file_id__equal(&real, &entry->real) &&
	    capture__probes_file(s->capture, &real, NULL))
		rewritten__note(s, &real);
	else if (s->everywhere && known && fd >= 0)
		rewritten__check_copies(s);
	if (fd < 0) {
		note_short(s, fd == -EMFILE || fd == -ENFILE);
		return fd;
	}
	entry->real = real;
	root = process__open(pid, "root", O_PATH | O_DIRECTORY);
	rc = binaries__add(s->binaries, &entry->file, fd, root, entry->path, &binary);
	note_short(s, rc == -EMFILE);
	if (!rc)
		binaries__set_real(s->binaries, &entry->file, &real);
	return 0;
}

/* Is this code without a file the kernel's own? Every process has [vsyscall]. A process that meets
 * a uprobe gets [uprobes] (on some kernels also [uprobes-trampoline]), so nearly every traced
 * process has it. No process can choose such a name: the names of prctl(2) begin with "[anon". */
static bool is_kernels_own(const struct map_entry *entry)
{
	return !strcmp(entry->path, "[vsyscall]") || !strncmp(entry->path, "[uprobes", 8);
}

/* If a process runs code that it has generated, finds the place of its perf map. The perf map may
 * have names for this code. It is read when the profile is made, perhaps after the process's end,
 * but its place can be found only while the process lives. The place costs a descriptor, which
 * keeps the process's root mounted. */
static void note_jit(struct target *t, const struct map_entry *entry)
{
	if (t->perf_map.root_fd < 0 && !is_kernels_own(entry))
		process__find_perf_map(t->info.pid, &t->perf_map);
}

/* Do the mappings have the same name, and the same offset at each address? */
static bool is_same_code(const struct map_entry *a, const struct map_entry *b)
{
	return a->off - a->start == b->off - b->start && !strcmp(a->path, b->path);
}

/* A mapping keeps the file below, even if overlayfs has another one now. old: the known mapping at
 * the same address, or NULL. */
static void keep_real(const struct map_entry *old, struct map_entry *entry)
{
	if (old && old->real.inode && is_same_code(old, entry) &&
	    file_id__equal(&old->file, &entry->file))
		entry->real = old->real;
}

/* As maps__replaces_code(). But news of the mapping may have named the file below that of
 * overlayfs. */
static bool replaces_code(const struct target *t, const struct map_entry *entry)
{
	const struct map_entry *old = maps__find(&t->maps, entry->start);

	return !(t->maps_stale && old && is_same_code(old, entry)) &&
	       maps__replaces_code(&t->maps, entry);
}

int targets__refresh_maps(struct session *s, struct target *t)
{
	struct maps now;
	int rc = maps__read(t->info.pid, &now);

	if (rc)
		return rc;
	if (!now.n) { /* the process is gone, or going: keeps the maps known so far */
		maps__free(&now);
		return -ESRCH;
	}
	for (size_t i = 0; i < now.n; i++) {
		struct map_entry *e = &now.entries[i];
		const struct map_entry *old = maps__find(&t->maps, e->start);

		t->code_replaced += e->executable && replaces_code(t, e);
		if (e->executable && e->file.inode)
			t->missed_file = targets__hold_file(s, t, e) < 0 || t->missed_file;
		else if (e->executable)
			note_jit(t, e);
		keep_real(old, e);
		maps__insert(&t->maps, e);
	}
	t->maps_stale = false;
	t->n_mapped = now.n;
	if (t->maps.n > now.n + MAX_GONE) {
		maps__free(&t->maps);
		t->maps = now;
	} else {
		maps__free(&now);
	}
	t->maps_changed = true;
	return 0;
}

static size_t count_code(const struct maps *maps)
{
	size_t n = 0;

	for (size_t i = 0; i < maps->n; i++)
		n += maps->entries[i].executable && maps->entries[i].file.inode;
	return n;
}

/* Looks for a Python among the target's files. For this, code of a file may be decoded. */
static void seek_python(struct session *s, struct target *t)
{
	struct abi_python how;
	int rc;

	if (t->python)
		return;
	rc = python_names__new(s->python_files, t->info.pid, &t->maps, &t->python, &how);
	if (rc != -ENOENT) /* -ENOENT: no memory of the process was read, and no time was lost */
		capture__beat(s->capture);
	if (!rc && capture__set_python(s->capture, t->process, &how)) {
		/* out of memory: without the kernel's part, the names are of no use */
		python_names__free(t->python);
		t->python = NULL;
		rc = -EAGAIN;
	}
	/* tries again later and later, but not for ever: perhaps the process is not what its file's
	 * name says */
	t->python_due_ns =
		rc == -EAGAIN && t->python_looks < PYTHON_LOOKS
			? clock__now_ns(CLOCK_MONOTONIC) + (PYTHON_AGAIN_NS << t->python_looks++)
			: 0;
}

/* If the kernel side has no room for all mappings that a target ever had, it is told only the
 * present mappings. */
void targets__tell_mappings(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct maps now = {};
		int left_out;

		if (!t->maps_changed) {
			if (t->python_due_ns && !t->ended &&
			    clock__now_ns(CLOCK_MONOTONIC) >= t->python_due_ns &&
			    !scheduler__has_window(&s->scheduler))
				seek_python(s, t);
			continue;
		}
		t->maps_changed = false;
		t->probes_due = true;
		if (t->ended)
			continue;
		if (count_code(&t->maps) > ABI_MAX_MAPPINGS)
			maps__read(t->info.pid, &now);
		seek_python(s, t);
		left_out = capture__set_mappings(s->capture, s->binaries, t->process,
						 now.n ? &now : &t->maps);
		maps__free(&now);
		if (left_out < 0)
			t->maps_changed = true; /* the next attempt may succeed */
		else if ((uint64_t)left_out > t->mappings_left_out)
			t->mappings_left_out = (uint64_t)left_out;
	}
	capture__put_tables(s->capture);
	for (size_t i = 0; i < s->n_targets; i++) {
		bool due = s->targets[i]->probes_due;

		s->targets[i]->probes_due = false; /* it may become due again */
		if (due)
			targets__provide_probes(s, s->targets[i]);
		if (!scheduler__has_window(&s->scheduler))
			targets__judge_exec(s, s->targets[i]);
	}
}

/* --- news --- */

static bool on_wanted(void *ctx, pid_t pid)
{
	return targets__find(ctx, pid) != NULL;
}

/* Has the target ended, although its end was not noticed yet, and has another process got its pid?
 * Then news of this pid is about the other process. */
static bool is_anothers(const struct target *t)
{
	struct pollfd end = {.fd = t->pidfd, .events = POLLIN};
	struct process_info now;

	return t->pidfd >= 0 && poll(&end, 1, 0) == 1 && !process__read_stat(t->info.pid, &now) &&
	       now.start_ticks != t->info.start_ticks;
}

static void on_mapped(void *ctx, pid_t pid, const struct map_entry *entry)
{
	struct session *s = ctx;
	struct target *t = targets__find(s, pid);
	struct map_entry held = *entry;
	const struct map_entry *old;
	bool replaces;
	int rc;

	if (!t || is_anothers(t))
		return;
	old = maps__find(&t->maps, entry->start);
	/* On some kernels (6.12 is one) the news names the file below the file of overlayfs.
	 * /proc/PID/maps names the file of overlayfs. */
	if (old && entry->file.inode && file_id__equal(&old->real, &entry->file)) {
		held.file = old->file;
		held.real = old->real;
	}
	t->code_changed = t->code_changed || (old && old->executable && held.file.inode &&
					      file_id__equal(&old->file, &held.file));
	replaces = maps__replaces_code(&t->maps, &held);
	t->code_replaced += replaces;
	rc = targets__hold_file(s, t, &held);
	/* -ESTALE: this news is of a new mapping, or another file is mapped there by now. Then the
	 * maps are read. */
	t->maps_stale = t->maps_stale || rc == -ESTALE;
	t->missed_file = t->missed_file || (rc < 0 && rc != -ESTALE);
	keep_real(old, &held);
	if (!entry->file.inode) {
		note_jit(t, entry);
		/* Generated code matters only where it has replaced other code. */
		if (!replaces)
			return;
	}
	maps__insert(&t->maps, &held);
	t->maps_changed = true;
	if (t->maps.n > t->n_mapped + MAX_GONE)
		targets__refresh_maps(s, t);
}

/* Replaces the target's maps by the maps of the new program. (EVENT_EXEC reports that the old
 * program's memory is gone.) The kernel side forgot the old mappings at the exec. They are
 * forgotten here, too. Then their unwind tables make room for new tables. */
static void on_exec(void *ctx, pid_t pid, uint64_t time_ns)
{
	struct session *s = ctx;
	struct target *t = targets__find(s, pid);

	/* Ignores the exec that made the process a target, and earlier ones: the maps were read
	 * after these execs. */
	if (!t || time_ns < t->begun_by_exec_ns || is_anothers(t))
		return;
	t->program_replaced = true;
	maps__free(&t->maps);
	s->files_idle = true;
	if (t->perf_map.root_fd >= 0) /* the process may now belong to another user */
		close(t->perf_map.root_fd);
	t->perf_map.root_fd = -1;
	capture__forget_mappings(s->capture, t->process);
	python_names__free(t->python);
	t->python = NULL;
	t->python_looks = 0; /* the new program's loader is not ready either */
	t->maps_changed = true;
	allocators__new_program(t->allocators);
	targets__refresh_maps(s, t);
	files__note_late_begin(s, t, time_ns);
	process__read(pid, &t->info);
}

static void on_lost(void *ctx, uint64_t n)
{
	struct session *s = ctx;

	s->watch_lost += n;
}

struct watch_handlers targets__handlers(struct session *s)
{
	return (struct watch_handlers){on_wanted, on_mapped, on_exec, on_lost, s};
}

void targets__welcome(struct session *s, const struct abi_event *event)
{
	struct target *parent = targets__find_process(s, event->parent), *t = targets__add(s);

	if (!t) {
		capture__drop_process(s->capture, event->process);
		s->processes_refused++;
		return;
	}
	t->process = event->process;
	t->uninvited = true;
	t->cpu_start_ns = event->cpu_ns;
	t->start_ns = event->time_ns;
	t->start_unix_ns = event->time_ns ? wall_clock_ns(event->time_ns) : 0;
	if (event->kind == EVENT_NEW)
		t->begun_by_exec_ns = event->time_ns;
	if (process__read((pid_t)event->tgid, &t->info)) { /* gone already */
		t->info.pid = (pid_t)event->tgid;
		memcpy(t->info.comm, event->comm, sizeof(event->comm));
		t->info.comm[sizeof(event->comm) - 1] = '\0';
	}
	t->headless = process__is_headless(&t->info);
	/* A child gets its parent's mappings only if the child is gone already. A child that can be
	 * read may have called exec since. If its new program is static, it would look like a
	 * library beside the parent's files. Then the search for allocators would find only
	 * exported functions. */
	if (targets__refresh_maps(s, t) && event->kind == EVENT_FORK && parent)
		t->maps_changed = !maps__copy(&parent->maps, &t->maps) && t->maps.n;
	for (size_t i = 0; event->kind == EVENT_FORK && parent && i < t->maps.n; i++)
		keep_real(maps__find(&parent->maps, t->maps.entries[i].start), &t->maps.entries[i]);
	files__note_late_begin(s, t, event->time_ns);
	budget__welcome(s, t);
}

void targets__begin(struct session *s, const struct abi_event *event)
{
	if (active__is_paused(s, (pid_t)event->tgid)) {
		capture__release_process(s->capture, (pid_t)event->tgid);
		capture__drop_process(s->capture, event->process);
	} else {
		targets__welcome(s, event);
	}
}

/* Notes the victim's size at this moment, as its last size. Its memory is about to be freed: sizes
 * read from now on would show the freeing, not what the program did. */
static void note_victim(struct session *s, const struct abi_event *event)
{
	struct target *t = targets__find(s, (pid_t)event->tgid);

	if (!t || t->is_victim)
		return;
	t->is_victim = true;
	if (event->anon_bytes)
		sizes__add(&t->anon, event->time_ns, event->anon_bytes);
}

void targets__note_exec(struct session *s, struct target *t, uint64_t exec_ns)
{
	struct abi_process_cpu counters;

	t->exec_ns = exec_ns;
	t->program_replaced = true;
	if (s->what & WHAT_REGIONS)
		region_book__exec(&t->book, exec_ns);
	series__free(&t->region_series);
	/* the thread that called exec is the main thread now */
	t->headless = t->silent = t->regions_silent = t->malloc_unknown = false;
	t->malloc_looks = 0;
	t->malloc_due_ns = exec_ns; /* now */
	if (!capture__counters(s->capture, t->process, &counters)) {
		t->gone_bytes = (double)counters.alloc_bytes - (double)counters.freed_bytes;
		t->exec_calls = capture__alloc_calls(&counters);
		t->exec_samples = counters.samples;
	}
	survivors__exec(&t->budget.survivors, exec_ns);
	t->budget.pace.cut = true;
	t->budget.coarsest = t->budget.finest = t->budget.interval;
	reallocs__exec(&t->budget.reallocs);
}

static void on_event(void *ctx, const struct abi_event *event)
{
	struct session *s = ctx;
	struct target *t = targets__find_process(s, event->process);

	switch (event->kind) {
	case EVENT_NEW:
	case EVENT_FORK:
		if (!t)
			targets__begin(s, event);
		break;
	case EVENT_EXEC:
		if (!t)
			break;
		t->exec_by_thread = t->exec_by_thread || event->by_thread;
		if (event->time_ns > t->exec_ns) /* sweep__lost_news() may have been first */
			targets__note_exec(s, t, event->time_ns);
		break;
	case EVENT_HEADLESS:
		if (t)
			t->headless = true;
		break;
	case EVENT_EXIT:
		/* The end of a named target is known from its pidfd, the end of a selected target
		 * from this event. The end is only noted here, because news of its last mappings is
		 * still to be read. */
		if (!t) { /* the news of its beginning was lost: gives its number back */
			capture__drop_process(s->capture, event->process);
			s->records_left = true;
			break;
		}
		t->death = event->death;
		/* the process's CPU clock may be gone by now */
		if (event->cpu_ns + t->lent_ns > t->cpu_now_ns)
			t->cpu_now_ns = event->cpu_ns + t->lent_ns;
		if (t->uninvited)
			t->exit_ns = event->time_ns;
		break;
	case EVENT_VICTIM:
		note_victim(s, event);
		break;
	case EVENT_UNKNOWN:
		selection__judge(s, event);
		break;
	}
}

void targets__take_events(struct session *s)
{
	capture__events(s->capture, on_event, s, &s->events_lost);
}

void targets__read_size(struct target *t)
{
	struct process_info now;
	uint64_t anon;

	if (t->ended || t->is_victim || process__read_stat(t->info.pid, &now) ||
	    now.start_ticks != t->info.start_ticks || !process__lives(&now))
		return;
	if (!now.rss_bytes) /* the main thread has ended, and perhaps the other threads, too */
		process__rss_bytes(t->info.pid, &now.rss_bytes);
	if (now.rss_bytes) /* 0 shortly before the process's end: keeps the last figures */
		t->rss_bytes = now.rss_bytes;
	if (now.rss_bytes && process__file_bytes(t->info.pid, &t->file_bytes))
		t->file_bytes = t->file_start_bytes; /* not known: nothing is said to grow */
	t->threads = now.threads;
	if (!process__anon_bytes(t->info.pid, &anon))
		sizes__add(&t->anon, clock__now_ns(CLOCK_MONOTONIC), anon);
}

void targets__note_sizes(struct target *t)
{
	t->rss_start_bytes = t->rss_bytes;
	t->file_start_bytes = t->file_bytes;
}

#define SILENCE_EVERY_NS 1000000000

/* Notes if the kernel has taken probes of the target out. The kernel does so when another tracer
 * takes its own probe out of the same function. It then looks for processes that do not need a
 * probe there any more, and mistakes a process whose main thread has ended for such a process. This
 * function looks once a second. */
static void note_silence(const struct session *s, struct target *t)
{
	struct maps maps;
	uint64_t now;

	if (!t->headless || t->ended || s->stop_ns || s->everywhere)
		return;
	now = clock__now_ns(CLOCK_MONOTONIC);
	if (t->silence_look_ns && now < t->silence_look_ns + SILENCE_EVERY_NS)
		return;
	t->silence_look_ns = now;
	if (maps__read(t->info.pid, &maps))
		return;
	if (t->allocators && !t->silent)
		t->silent = capture__misses_probes(s->capture, t->info.pid, &maps);
	if (t->regions && !t->regions_stopped_ns && !t->regions_silent)
		t->regions_silent = region_source__is_bare(t->regions, t->info.pid, &maps);
	maps__free(&maps);
}

void targets__read(struct session *s, struct target *t)
{
	uint64_t cpu;

	note_silence(s, t);
	/* CPU time that the target uses after the end of the run does not count. */
	if (!t->ended && !s->stop_ns && !targets__cpu_ns(t, &cpu))
		t->cpu_now_ns = cpu;
	/* for page faults, the last size of a target that has ended is wanted, too */
	if (s->what & WHAT_FAULTS)
		targets__read_size(t);
	capture__counters(s->capture, t->process, &t->counters);
	t->alloc_calls = capture__alloc_calls(&t->counters);
	t->free_calls = capture__free_calls(&t->counters);
	budget__note_surcharges(s, t);
	t->probe_ns = budget__cost_ns(s, t);
}

/* Was one of the target's files without probes when the target began? Perhaps that file was never
 * searched for allocators, or could not be opened any more. */
static bool was_late(struct session *s, const struct target *t)
{
	if (t->missed_file)
		return true;
	for (size_t i = 0; i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];
		const unsigned char *mark = files__mark(s, e);

		if (!e->executable || !e->file.inode)
			continue;
		if (!mark || *mark == FILE_NEW || *mark == FILE_REFUSED ||
		    files__is_late(s, e, began_ns(t)))
			return true;
	}
	return !t->maps.n;
}

/* Did the target end before it had a window, or while probes were out of the code of all
 * processes? */
static bool waited(const struct session *s, const struct target *t)
{
	if (t->alloc_calls || t->free_calls)
		return false;
	return budget__is_windowed(&t->budget) ||
	       (s->everywhere && s->scheduler.begun &&
		!host__was_everywhere(&s->scheduler.host, began_ns(t), t->end_ns));
}

/* May the process have made calls that no probe saw? (Some of the processes for which the answer is
 * yes made no calls.) */
static bool is_unseen(struct session *s, const struct target *t)
{
	return (s->what & WHAT_HEAP) && (waited(s, t) || was_late(s, t));
}

void targets__take_news(struct session *s)
{
	/* News is handled in this order: new processes, their mappings, ended processes. News of
	 * mappings is read before news of processes, and delivered after it. So the process of each
	 * mapping is known by then. */
	if (s->watch)
		watch__read(s->watch);
	targets__take_events(s);
	if (s->n_orphans) { /* calls whose processes were not known yet: the news of the processes
			     * is here now */
		targets__take_events(s);
		region_calls__find_parents(s);
	}
	if (s->watch)
		watch__deliver(s->watch);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->maps_stale)
			continue;
		/* the pid of a process that has ended may be another's by now */
		if (t->exit_ns || t->ended || targets__refresh_maps(s, t))
			t->missed_file = true;
		t->maps_stale = false;
		guard__wait(s);
	}
	sweep__lost_news(s);
	sweep__lost_mappings(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		/* the pid of a process that has ended may be another's by now */
		if (t->code_changed && !t->exit_ns && !t->ended) {
			t->code_changed = false;
			patched__look_again(s, t);
			guard__wait(s);
		}
	}
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i]->exit_ns && !s->targets[i]->ended) {
			targets__note_end(s, s->targets[i]);
			s->targets[i]->end_ns = s->targets[i]->exit_ns;
		}
	targets__tell_mappings(s);
	region_calls__settle(s, false);
	for (size_t i = 0; i < s->n_targets;)
		if (targets__leaves_nothing(s, s->targets[i])) {
			s->unseen += !s->targets[i]->released && is_unseen(s, s->targets[i]);
			targets__remove(s, s->targets[i]);
		} else {
			i++;
		}
}
