// SPDX-License-Identifier: BSD-2-Clause
/* Notices when somebody writes to a file that has probes for all processes. The kernel remembers
 * probes by their offset in the file. If the file gets new contents in place (as by cp), the kernel
 * puts breakpoints at the old offsets into the next process that runs the file. These breakpoints
 * may lie inside instructions, and then the process crashes. Nobody can write to a program that
 * runs, but its probes stay for a while after its last process (files.c), and a library can always
 * be written to.
 *
 * inotify tells of the first write. The probes are then taken out, mostly before the new contents
 * are run. The file gets no probes any more: new probes could meet old probes that the kernel is
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

/* Returns the first file with this watch descriptor. A file has only one, however often it is
 * watched. But after a copy, a file of overlayfs stands for two files below it. */
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

/* Returns the events to watch for. There are more of them for a file of overlayfs, because its
 * first change copies the file. The kernel would then put probes into the copy. */
static uint32_t changes(const struct allocator *a)
{
	return IN_MODIFY | (is_above(a) ? IN_ATTRIB | IN_MOVE_SELF | IN_CLOSE_WRITE : 0);
}

static bool is_watched_as(const struct session *s, int wd, const struct file_id *file)
{
	for (size_t i = 0; i < s->n_watched; i++)
		if (s->watched[i].wd == wd && file_id__equal(&s->watched[i].file, file))
			return true;
	return false;
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
		if (wd >= 0 && !is_watched_as(s, wd, &a->file))
			s->watched[s->n_watched++] = (struct watched_file){wd, a->file};
	}
}

void rewritten__forget(struct session *s, const struct file_id *file)
{
	for (size_t i = s->n_watched; i-- > 0;) {
		int wd = s->watched[i].wd;

		if (!file_id__equal(&s->watched[i].file, file))
			continue;
		s->watched[i] = s->watched[--s->n_watched];
		if (!find_watched(s, wd))
			inotify_rm_watch(s->writes_fd, wd);
	}
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

bool rewritten__is_copied(const void *session, const struct allocator *a)
{
	const struct session *s = session;
	_cleanup_close_ int fd = -1;
	struct file_id real;
	char path[32];

	if (!is_above(a) || a->fd < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	real = capture__real_file(s->capture, fd, &a->through);
	return !file_id__equal(&real, &a->file) && !file_id__equal(&real, &a->through);
}

void rewritten__check_copies(struct session *s)
{
	const struct allocator *a;

	while ((a = files__find_attached(s, rewritten__is_copied, s)))
		files__reopen(s, a);
}

static void note_event(struct session *s, const struct inotify_event *event)
{
	/* NULL: the file was copied, or the watch has ended */
	const struct watched_file *written = find_watched(s, event->wd);

	if (written && event->mask & IN_MODIFY) {
		const struct file_id file = written->file;

		rewritten__note(s, &file);
	}
}

void rewritten__take(struct session *s)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t len;

	/* one read at a time: somebody may change files for ever */
	len = s->writes_fd < 0 ? 0 : read(s->writes_fd, buf, sizeof(buf));
	if (len > 0)
		rewritten__check_copies(s);
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event = (const struct inotify_event *)(buf + at);

		at += (ssize_t)sizeof(*event) + event->len;
		note_event(s, event);
	}
}
