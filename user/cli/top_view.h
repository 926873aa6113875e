/* SPDX-License-Identifier: BSD-2-Clause */
/* The screen of `memtrace top` as rows of text: profiles and keys in, lines out. It knows no
 * terminal and no clock. Names come from the targets, so they are made printable. */
#ifndef MEMTRACE_CLI_TOP_VIEW_H
#define MEMTRACE_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* The figure by which rows are sorted, the largest first. */
enum top_sort {
	TOP_BY_LIVE,
	TOP_BY_GROWTH, /* rows that surely grow come first */
	TOP_BY_RATE,   /* bytes allocated a second */
	TOP_SORTS
};

/* Keys that are not characters. A character's key is its code point. */
enum top_key {
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
};

/* What the caller has to do after a key. (The caller runs the tracing.) */
enum top_action {
	TOP_NOTHING,
	TOP_QUIT,
	TOP_WRITE,   /* write a snapshot of each top_view__profile() */
	TOP_UNPAUSE, /* update the state soon */
};

enum top_style {
	TOP_PLAIN,
	TOP_HEAD,     /* the head: text about the run */
	TOP_WARNING,  /* losses, complaints */
	TOP_TITLES,   /* titles of the columns */
	TOP_SELECTED, /* the selected row */
};

struct top_line {
	char *text; /* printable UTF-8, of no more characters than the width */
	enum top_style style;
};

struct top_screen {
	struct top_line *lines; /* the lines, as many as the screen has */
	size_t n;
};

void top_screen__clear(struct top_screen *screen);

/* The part of the state of the run that the profiles do not have. */
struct top_status {
	double elapsed_s;
	struct optional overhead_pct;
	double cpu_cores;		/* cores that all processes together use, on average */
	size_t running, windowed;	/* processes */
	double alloc_per_s, free_per_s; /* calls */
	bool ended;			/* all processes have ended */
};

struct top_view;

/* Makes a view. many: there may be several processes, so a list of processes comes first. NULL: no
 * memory. */
struct top_view *top_view__new(enum top_sort sort, bool many);
void top_view__free(struct top_view *view);

/* Sets whether stacks begin with the frames of the runtime. By default they do not. */
void top_view__show_runtime(struct top_view *view, bool show);

/* Gives the view the profiles of this moment, elapsed_s after the start, sorted and symbolized. The
 * view owns them and the array from then on, also on failure. If the view has many processes, the
 * process that is open on the screen may have no profile in the array. The view then shows the
 * process's last profile, and says that the process has ended. 0 or -ENOMEM. */
int top_view__update(struct top_view *view, struct profile **profiles, size_t n, double elapsed_s);

/* Copies the status, which the screen's head shows. */
void top_view__set_status(struct top_view *view, const struct top_status *status);

/* Shows a message until the next key. */
void top_view__say(struct top_view *view, bool warning, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Handles a key that was pressed: a code point or one of enum top_key. */
enum top_action top_view__press(struct top_view *view, uint32_t key);

/* Has a key stopped the updates of the screen? */
bool top_view__paused(const struct top_view *view);

/* Returns the i-th profile on the screen: of all processes, or of the process that is open. NULL:
 * there are no more. */
struct profile *top_view__profile(const struct top_view *view, size_t i);

/* Draws the screen, of width columns and height lines, at least one of each. 0 or -ENOMEM; the
 * caller clears ret. */
int top_view__draw(struct top_view *view, size_t width, size_t height, struct top_screen *ret);

#endif
