/* SPDX-License-Identifier: BSD-2-Clause */
/* The screen of `memtrace top` as rows of text: profiles and keys in, lines out. Knows no
 * terminal and no clock. All that it prints of names is made printable: they come from the
 * targets. */
#ifndef MEMTRACE_CLI_TOP_VIEW_H
#define MEMTRACE_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* What rows are sorted by, descending. */
enum top_sort {
	TOP_BY_LIVE,
	TOP_BY_GROWTH, /* what surely grows before what may not */
	TOP_BY_RATE,   /* bytes allocated a second */
	TOP_SORTS
};

/* Keys that are no characters; those are their code points. */
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

/* What a key asks of who runs the tracing. */
enum top_action {
	TOP_NOTHING,
	TOP_QUIT,
	TOP_WRITE,   /* a snapshot: of top_view__profile() */
	TOP_UNPAUSE, /* the state is to be fresh again */
};

enum top_style {
	TOP_PLAIN,
	TOP_HEAD,     /* of the run */
	TOP_WARNING,  /* losses, complaints */
	TOP_TITLES,   /* of the columns */
	TOP_SELECTED, /* the row where the user is */
};

struct top_line {
	char *text; /* printable UTF-8, of no more characters than the width */
	enum top_style style;
};

struct top_screen {
	struct top_line *lines; /* as many as the height */
	size_t n;
};

void top_screen__clear(struct top_screen *screen);

/* How the run stands, beyond what the profiles tell. */
struct top_status {
	double elapsed_s;
	double overhead_pct;		/* negative: unknown */
	double cpu_cores;		/* that all processes together use, on the average */
	size_t running, windowed;	/* processes */
	double alloc_per_s, free_per_s; /* calls */
	bool ended;			/* all of them have */
};

struct top_view;

/* many: there may be several processes, so that a list of them comes first. NULL: no memory. */
struct top_view *top_view__new(enum top_sort sort, bool many);
void top_view__free(struct top_view *view);

/* The profiles of the moment, sorted and symbolized, elapsed_s after the start; they and the
 * array are the view's from then on, also when it fails. With many, the process that the user
 * looks at stays when it is not among them any more, as an ended one. 0 or -ENOMEM. */
int top_view__update(struct top_view *view, struct profile **profiles, size_t n, double elapsed_s);

void top_view__set_status(struct top_view *view, const struct top_status *status);

/* Says something, until the next key. */
void top_view__say(struct top_view *view, bool warning, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The user has pressed a key, a code point or one of enum top_key. */
enum top_action top_view__press(struct top_view *view, uint32_t key);

bool top_view__paused(const struct top_view *view);

/* The i-th of the profiles that are on the screen: of all processes, or of the one that the user
 * looks at; NULL: there are no more. */
struct profile *top_view__profile(const struct top_view *view, size_t i);

/* What is to be seen, on so many columns and lines, of which there is one of each at least. 0 or
 * -ENOMEM; ret is to be cleared. */
int top_view__draw(struct top_view *view, size_t width, size_t height, struct top_screen *ret);

#endif
