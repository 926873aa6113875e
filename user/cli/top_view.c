// SPDX-License-Identifier: BSD-2-Clause
/* Handles keys. There are three levels (processes, one process's stacks, one stack), and help,
 * which covers any of them. */
#include "cli/top_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/text.h"

/* Selects a row and remembers its process or stack. */
static void select_row(struct top_view *view, size_t row)
{
	view->selected = row;
	free(view->stack);
	view->stack = NULL;
	if (view->level == PROCESSES)
		view->pid = 0;
	if (row >= view->n_rows)
		return;
	/* if the first row is selected, the first row stays selected, even if another stack moves
	 * there */
	if (view->level != PROCESSES) {
		if (row)
			view->stack = strdup(view->rows[row].group->key);
	} else if (row) {
		view->pid = view->rows[row].process->profile->pid;
		view->regions = profile__is_regions(view->rows[row].process->profile);
	}
}

static void move(struct top_view *view, uint32_t key)
{
	bool list = !view->help && view->level != STACK;
	size_t *at = list ? &view->selected : &view->text_first;
	size_t n = list				   ? view->n_rows
		   : view->text_lines > view->page ? view->text_lines - view->page + 1
						   : 1;
	size_t last = n ? n - 1 : 0, to = *at, page = view->page ? view->page : 1;

	if (key == TOP_KEY_UP || key == 'k')
		to = to ? to - 1 : 0;
	else if (key == TOP_KEY_DOWN || key == 'j')
		to++;
	else if (key == TOP_KEY_PAGE_UP)
		to = to > page ? to - page : 0;
	else if (key == TOP_KEY_PAGE_DOWN)
		to += page;
	else
		to = key == TOP_KEY_HOME ? 0 : last;
	to = to > last ? last : to;
	if (list)
		select_row(view, to);
	*at = to;
}

static void enter(struct top_view *view)
{
	const struct row *row = view->selected < view->n_rows ? &view->rows[view->selected] : NULL;

	if (!row || view->level == STACK)
		return;
	if (view->level == STACKS) {
		char *key = strdup(row->group->key);

		if (!key)
			return;
		free(view->stack);
		view->stack = key;
		view->level = STACK;
		view->text_first = 0;
		return;
	}
	view->pid = row->process->profile->pid;
	view->regions = profile__is_regions(row->process->profile);
	view->level = STACKS;
	view->selected = view->first = 0;
	*view->filter = '\0';
}

static void leave(struct top_view *view)
{
	if (view->level == STACK) {
		view->level = STACKS;
	} else if (view->level == STACKS && view->many) {
		view->level = PROCESSES;
		free(view->stack);
		view->stack = NULL;
		*view->filter = '\0';
	}
}

static void edit(struct top_view *view, uint32_t key)
{
	size_t len = strlen(view->filter);

	if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE) {
		view->editing = false;
		if (key == TOP_KEY_ESCAPE)
			*view->filter = '\0';
	} else if (key == TOP_KEY_BACKSPACE) {
		while (len && (view->filter[--len] & 0xc0) == 0x80)
			;
		view->filter[len] = '\0';
	} else if (key < 0x110000 && (key < 0xd800 || key > 0xdfff) && !is_control(key) &&
		   len + 5 < FILTER_BYTES) {
		char *to = view->filter + len;

		if (key < 0x80) {
			*to++ = (char)key;
		} else {
			if (key < 0x800) {
				*to++ = (char)(0xc0 | key >> 6);
			} else {
				*to++ = key < 0x10000 ? (char)(0xe0 | key >> 12)
						      : (char)(0xf0 | key >> 18);
				if (key >= 0x10000)
					*to++ = (char)(0x80 | (key >> 12 & 0x3f));
				*to++ = (char)(0x80 | (key >> 6 & 0x3f));
			}
			*to++ = (char)(0x80 | (key & 0x3f));
		}
		*to = '\0';
	}
}

enum top_action top_view__press(struct top_view *view, uint32_t key)
{
	*view->note = '\0';
	if (view->editing) {
		edit(view, key);
		return TOP_NOTHING;
	}
	if (key == 'q')
		return TOP_QUIT;
	if (top_view__arrange(view)) /* out of memory: there are no rows */
		return TOP_NOTHING;
	switch (key) {
	case TOP_KEY_UP:
	case TOP_KEY_DOWN:
	case TOP_KEY_PAGE_UP:
	case TOP_KEY_PAGE_DOWN:
	case TOP_KEY_HOME:
	case TOP_KEY_END:
	case 'k':
	case 'j':
		move(view, key);
		return TOP_NOTHING;
	case '?':
		view->help = !view->help;
		view->text_first = 0;
		return TOP_NOTHING;
	}
	if (view->help) {
		view->help = false;
		view->text_first = 0;
		return TOP_NOTHING;
	}
	switch (key) {
	case 'l':
		view->sort = TOP_BY_LIVE;
		break;
	case 'g':
		view->sort = TOP_BY_GROWTH;
		break;
	case 'a':
		view->sort = TOP_BY_RATE;
		break;
	case ' ':
	case 'p':
		view->paused = !view->paused;
		return view->paused ? TOP_NOTHING : TOP_UNPAUSE;
	case TOP_KEY_ENTER:
	case TOP_KEY_RIGHT:
		enter(view);
		break;
	case TOP_KEY_ESCAPE:
		if (*view->filter && view->level != STACK)
			*view->filter = '\0';
		else
			leave(view);
		break;
	case TOP_KEY_LEFT:
	case TOP_KEY_BACKSPACE:
		leave(view);
		break;
	case '/':
		view->editing = view->level != STACK;
		break;
	case 'w':
		return TOP_WRITE;
	}
	return TOP_NOTHING;
}

struct profile *top_view__profile(const struct top_view *view, size_t i)
{
	if (view->level == PROCESSES)
		return i < view->n_processes ? view->processes[i].profile : NULL;
	return i || !top_view__process(view) ? NULL : top_view__process(view)->profile;
}

bool top_view__paused(const struct top_view *view)
{
	return view->paused;
}

void top_view__set_status(struct top_view *view, const struct top_status *status)
{
	view->status = *status;
}

void top_view__say(struct top_view *view, bool warning, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(view->note, sizeof(view->note), fmt, ap);
	va_end(ap);
	view->warning = warning;
}

struct top_view *top_view__new(enum top_sort sort, bool many)
{
	struct top_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->sort = sort;
	view->many = many;
	view->level = many ? PROCESSES : STACKS;
	return view;
}

void top_view__show_runtime(struct top_view *view, bool show)
{
	view->show_runtime = show;
}

void top_view__free(struct top_view *view)
{
	if (!view)
		return;
	top_processes__free(view->processes, view->n_processes);
	free(view->marks.list);
	free(view->next_marks.list);
	free(view->stack);
	free(view->rows);
	free(view);
}
