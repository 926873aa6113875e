// SPDX-License-Identifier: BSD-2-Clause
/* Notices when somebody writes to a file that has probes for all processes. The kernel remembers
 * probes by their offset in the file. If the file gets new contents in place (as by cp), the kernel
 * puts breakpoints at the old offsets into the next process that runs the file. These breakpoints
 * may lie inside instructions, and then the process crashes. Nobody can write to a program that
 * runs, but its probes stay for a while after its last process (files.c), and a library can always
 * be written to.
 *
 * inotify tells of the first write. The probes are then taken out, mostly before the new contents
 * are run. The file gets no probes any more: new probes could meet old ones that the kernel is
 * still removing, and would then get the old instruction.
 *
 * A file of overlayfs is copied before the first write, and the probes are in the file of the layer
 * below, which nobody writes to. But the kernel would put new probes into the copy. So the probes
 * are placed again through another file that still has the pages of the layer below. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "session/internal.h"

#define MAX_FAMILIES 8 /* allocators in one file */

void rewritten__begin(struct session *s)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (!s->everywhere)
		return;
	s->writes_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (s->writes_fd >= 0)
		epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->writes_fd, &event);
}

/* Returns the file with this watch descriptor. A file has one, however often it is watched. */
static const struct watched_file *find_watched(const struct session *s, int wd)
{
	for (size_t i = 0; i < s->n_watched; i++)
		if (s->watched[i].wd == wd)
			return &s->watched[i];
	return NULL;
}

/* Does the allocator's file have its pages from another file, as on overlayfs? */
static bool is_above(const struct allocator *a)
{
	return !file_id__equal(&a->file, &a->through);
}

/* The first change of a file of overlayfs copies the file. The kernel would then put probes into
 * the copy. */
static uint32_t changes(const struct allocator *a)
{
	return IN_MODIFY | (is_above(a) ? IN_ATTRIB | IN_MOVE_SELF | IN_CLOSE_WRITE : 0);
}

void rewritten__watch(struct session *s, const struct allocators *allocators)
{
	for (size_t i = 0; i < allocators->n && s->writes_fd >= 0; i++) {
		const struct allocator *a = allocators->list[i];
		char path[32];
		int wd;

		if (a->fd < 0 || VECTOR_ADD_ROOM(s->watched, s->n_watched))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
		wd = inotify_add_watch(s->writes_fd, path, changes(a));
		/* if it fails, a write is noticed only when a process runs the file */
		if (wd >= 0 && !find_watched(s, wd))
			s->watched[s->n_watched++] = (struct watched_file){wd, a->file};
	}
}

void rewritten__forget(struct session *s, const struct file_id *file)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_watched; i++)
		if (file_id__equal(&s->watched[i].file, file))
			inotify_rm_watch(s->writes_fd, s->watched[i].wd);
		else
			s->watched[n++] = s->watched[i];
	s->n_watched = n;
}

void rewritten__note(struct session *s, const struct file_id *file)
{
	const char *families[MAX_FAMILIES];
	char text[640] = "";
	size_t n = 0;

	for (size_t i = 0; i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n && n < MAX_FAMILIES; j++) {
			const struct allocator *a = s->attached[i]->list[j];

			if (!file_id__equal(&a->file, file))
				continue;
			families[n++] = a->family;
			snprintf(text, sizeof(text),
				 "%.400s was written to while it had probes. It gets no probes any "
				 "more, because they could be at wrong places: this allocator is "
				 "not traced",
				 a->path);
		}
	files__refuse(s, file);
	for (size_t i = 0; i < n; i++) {
		const struct allocator of_file = {.family = families[i], .file = *file};

		capture__refuse(s->capture, &of_file, 0, text);
	}
}

/* Returns the allocator whose probes were placed in the file first, or NULL. */
static const struct allocator *find_placed(const struct session *s, const struct file_id *file)
{
	for (size_t i = 0; i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n; j++)
			if (file_id__equal(&s->attached[i]->list[j]->file, file))
				return s->attached[i]->list[j];
	return NULL;
}

/* Have the pages of the file through which the probes were placed become those of another file? */
static bool is_copied(struct session *s, const struct allocator *a)
{
	_cleanup_close_ int fd = -1;
	struct file_id real;
	char path[32];

	if (!is_above(a))
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	real = capture__real_file(s->capture, fd, &a->through);
	return !file_id__equal(&real, &a->file) && !file_id__equal(&real, &a->through);
}

static void note_event(struct session *s, const struct file_id *file, uint32_t mask)
{
	const struct allocator *a = find_placed(s, file);
	bool copied = a && is_copied(s, a);

	if (copied && binaries__have_other(s->binaries, file, &a->through))
		files__reopen(s, file);
	else if (copied || mask & IN_MODIFY)
		rewritten__note(s, file);
}

void rewritten__take(struct session *s)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t len;

	/* one read at a time: somebody may change files for ever */
	if (s->writes_fd >= 0 && (len = read(s->writes_fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event =
				(const struct inotify_event *)(buf + at);
			const struct watched_file *written = find_watched(s, event->wd);

			at += (ssize_t)sizeof(*event) + event->len;
			if (written && !(event->mask & IN_IGNORED)) {
				const struct file_id file = written->file;

				note_event(s, &file, event->mask);
			}
		}
}
