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
 * still removing, and would then get the old instruction. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

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

void rewritten__watch(struct session *s, const struct allocators *allocators)
{
	for (size_t i = 0; i < allocators->n && s->writes_fd >= 0; i++) {
		const struct allocator *a = allocators->list[i];
		char path[32];
		int wd;

		if (a->fd < 0 || VECTOR_ADD_ROOM(s->watched, s->n_watched))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
		wd = inotify_add_watch(s->writes_fd, path, IN_MODIFY | IN_ONESHOT);
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

void rewritten__take(struct session *s)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t len;

	while (s->writes_fd >= 0 && (len = read(s->writes_fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event =
				(const struct inotify_event *)(buf + at);
			const struct watched_file *written = find_watched(s, event->wd);

			at += (ssize_t)sizeof(*event) + event->len;
			if (written && event->mask & IN_MODIFY) {
				const struct file_id file = written->file;

				rewritten__note(s, &file);
			}
		}
}
