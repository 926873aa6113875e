/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the parts of top_view.h: the data (top_state.c), how they are drawn (top_draw.c), and
 * what keys do (top_view.c). */
#ifndef MEMTRACE_CLI_TOP_INTERNAL_H
#define MEMTRACE_CLI_TOP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/top_view.h"
#include "encode/table.h"
#include "profile/profile.h"

#define FILTER_BYTES 128
#define NOTE_BYTES   512

enum level {
	PROCESSES,
	STACKS,
	STACK,
};

/* The figures of a process or of a stack. */
struct numbers {
	struct estimate live;
	struct growth growth;
	double alloc_bytes, alloc_objects; /* since the start */
	double rate;			   /* bytes a second */
	struct interval rate_interval;	   /* NaN: not known */
};

struct process {
	struct profile *profile;
	struct group *groups;	/* the process's stacks */
	struct numbers *stacks; /* the figures of each group */
	size_t n;
	struct numbers numbers;
	struct contradictions findings;
	bool gone; /* the process has ended, and is shown only because it is open on the screen */
};

/* How much a stack had allocated at one moment. */
struct mark {
	uint64_t id;
	double bytes;
};

struct marks {
	struct mark *list; /* ascending by id; owned */
	size_t n;
	double elapsed_s;
};

/* A row of a list. */
struct row {
	const struct process *process;
	const struct numbers *numbers;
	const struct group *group; /* NULL: the row is a process */
};

struct top_view {
	bool many;
	bool show_runtime; /* as in struct table_options */
	enum level level;
	enum top_sort sort;
	bool paused, help, editing; /* editing: the filter */
	char filter[FILTER_BYTES];
	char note[NOTE_BYTES];
	bool warning;
	struct top_status status;
	bool known;	  /* at least one update had a profile */
	double elapsed_s; /* time of the last update: seconds since the start */
	struct process *processes;
	size_t n_processes;
	struct marks marks, next_marks; /* rates are computed from the changes since `marks` */
	/* The user's place: process, kind of profile, stack. */
	pid_t pid;
	bool regions;
	char *stack;	  /* the selected group's key; owned; NULL: always the first row */
	struct row *rows; /* rows of the list, sorted and filtered; owned */
	size_t n_rows, selected, first;
	size_t page; /* rows for which the last drawing had room */
	/* while a text is shown instead of a list: number of the text's first line on the screen */
	size_t text_first;
	size_t text_lines; /* lines of that text at the last drawing */
};

/* Makes the rows of the list, and finds the selected row among them. If the row has gone, the row
 * that is now in its place is selected. 0 or -ENOMEM. */
int top_view__arrange(struct top_view *view);

/* Returns the process that is open on the screen, or NULL. */
struct process *top_view__process(const struct top_view *view);

/* Returns the row of the stack that is open on the screen, or NULL. */
const struct row *top_view__stack(const struct top_view *view);

/* For qsort_r(): compares by the enum top_sort at ctx. */
int top_row__compare(const void *a, const void *b, void *ctx);

/* Is there live memory, or a rate above 0? */
bool top_numbers__any(const struct numbers *numbers);

/* Returns the 95 % interval of live memory; NaN: the figure is exact or only a bound, so it has
 * no interval. */
struct interval top_live_interval(const struct profile *profile, const struct estimate *live);

void top_processes__free(struct process *processes, size_t n);

#endif
