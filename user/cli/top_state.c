// SPDX-License-Identifier: BSD-2-Clause
/* The data of top: the current profiles, their stacks, recent rates, and the rows made from these.
 * The selected row is remembered by its process or stack, not by its position, because rows change
 * places. */
#include "cli/top_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_OVER_S 10.0 /* rates cover the last 10 to 20 seconds */

static void process__clear(struct process *process)
{
	free_groups(process->groups, process->n);
	free(process->stacks);
	profile__free(process->profile);
}

void top_processes__free(struct process *processes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		process__clear(&processes[i]);
	free(processes);
}

/* Hashes the key of a stack by FNV-1a. A target could make two of its stacks collide, but would
 * only confuse its own rates. */
static uint64_t mark_id(const struct profile *profile, const char *key)
{
	uint64_t hash =
		0xcbf29ce484222325ull ^ (uint64_t)profile->pid << 1 ^ profile__is_regions(profile);

	for (hash *= 0x100000001b3ull; *key; key++)
		hash = (hash ^ (unsigned char)*key) * 0x100000001b3ull;
	return hash;
}

static int compare_marks(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static double marked_bytes(const struct marks *marks, uint64_t id)
{
	const struct mark key = {.id = id};
	const struct mark *mark =
		marks->n ? bsearch(&key, marks->list, marks->n, sizeof(key), compare_marks) : NULL;

	return mark ? mark->bytes : 0;
}

/* Stores how much each stack has allocated so far. Later rates are computed from the difference to
 * these amounts. */
static int remember(struct top_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->n_processes; i++)
		n += view->processes[i].n;
	view->next_marks = (struct marks){.list = calloc(n + 1, sizeof(struct mark)),
					  .elapsed_s = view->elapsed_s};
	if (!view->next_marks.list)
		return -ENOMEM;
	for (size_t i = 0; i < view->n_processes; i++) {
		const struct process *p = &view->processes[i];

		for (size_t k = 0; k < p->n; k++)
			view->next_marks.list[view->next_marks.n++] = (struct mark){
				mark_id(p->profile, p->groups[k].key), p->stacks[k].alloc_bytes};
	}
	qsort(view->next_marks.list, n, sizeof(struct mark), compare_marks);
	return 0;
}

/* Returns the interval of a rate. A rate that is a lower bound has no interval. A rate from windows
 * has no interval either, because it is not known here how much windows differ from each other. */
static struct interval rate_interval(const struct profile *profile, double bytes, double seconds)
{
	struct estimate estimate = estimate__of_bytes(bytes, profile->interval_bytes);
	struct interval ret;

	if (profile__is_exact(profile) || profile__is_windowed(profile) ||
	    profile__is_lower_bound(profile))
		return (struct interval){NAN, NAN};
	if (!(bytes > 0))
		return (struct interval){0, estimate__unseen(profile->interval_bytes) / seconds};
	ret = estimate__interval(&estimate);
	return (struct interval){ret.low / seconds, ret.high / seconds};
}

struct interval top_live_interval(const struct profile *profile, const struct estimate *live)
{
	struct interval ret = profile__live_interval(profile, live);

	if (profile__is_exact(profile) || !isfinite(ret.low) || !isfinite(ret.high))
		return (struct interval){NAN, NAN};
	return ret;
}

/* Returns the growth to show as long as the profile has no growth of its own, perhaps until the end
 * of the run. Live memory was allocated since the start, so it has grown from 0. The growth gets no
 * interval: memory that only fills up at first must not be shown as surely growing. (Live bytes
 * from windows estimate all that a process holds. The process may have held as much before the run,
 * so no growth follows from them.) */
static struct growth growth_since_start(const struct profile *profile, const struct estimate *live)
{
	if (profile__is_windowed(profile))
		return (struct growth){NAN, NAN, NAN};
	return (struct growth){profile->duration_s > 0 ? live->bytes / profile->duration_s : 0, NAN,
			       NAN};
}

static void set_rate(const struct top_view *view, const struct profile *profile, double before,
		     struct numbers *n)
{
	double bytes = n->alloc_bytes - before, seconds = view->elapsed_s - view->marks.elapsed_s;

	/* In windows each update scales all figures anew, so the difference between two updates is
	 * no rate. The rate of the whole run is shown instead. */
	if (profile__is_windowed(profile)) {
		bytes = n->alloc_bytes;
		seconds = profile->duration_s;
	}
	/* the process may have been traced for less time */
	seconds = fmin(seconds, profile->duration_s);
	n->rate = seconds > 0 && bytes > 0 ? bytes / seconds : 0;
	n->rate_interval = seconds > 0 ? rate_interval(profile, fmax(bytes, 0), seconds)
				       : (struct interval){NAN, NAN};
}

static int process__init(const struct top_view *view, struct process *process)
{
	const struct profile *profile = process->profile;
	struct growth_sum growth = {};
	double before = 0;
	int rc = group_sites(profile, &process->groups, &process->n, GROUPS_BY_NAME);

	if (rc)
		return rc;
	process->stacks = calloc(process->n + 1, sizeof(*process->stacks));
	if (!process->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < process->n; i++) {
		const struct group *group = &process->groups[i];
		struct numbers *n = &process->stacks[i];
		double marked = marked_bytes(&view->marks, mark_id(profile, group->key));

		*n = (struct numbers){.live = group->live,
				      .growth = profile->growth.stacks_known
							? group->growth
							: growth_since_start(profile, &group->live),
				      .alloc_bytes = group->alloc_bytes,
				      .alloc_objects = group->alloc_objects};
		set_rate(view, profile, marked, n);
		estimate__merge(&process->numbers.live, &group->live);
		process->numbers.alloc_bytes += n->alloc_bytes;
		process->numbers.alloc_objects += n->alloc_objects;
		before += marked;
		if (!group->site->allocators_own)
			growth_sum__add(&growth, &n->growth);
	}
	if (profile->growth.stacks_known && !profile__is_regions(profile))
		growth.total = profile->growth.attributed;
	else if (!profile->growth.stacks_known)
		growth.total = growth_since_start(profile, &process->numbers.live);
	process->numbers.growth = growth.total;
	process->findings = profile__contradictions(profile);
	set_rate(view, profile, before, &process->numbers);
	return 0;
}

static bool is_looked_at(const struct top_view *view, const struct profile *profile)
{
	return profile->pid == view->pid && profile__is_regions(profile) == view->regions;
}

struct process *top_view__process(const struct top_view *view)
{
	for (size_t i = 0; i < view->n_processes; i++)
		if (is_looked_at(view, view->processes[i].profile))
			return &view->processes[i];
	return NULL;
}

int top_view__update(struct top_view *view, struct profile **profiles, size_t n, double elapsed_s)
{
	struct process *processes = calloc(n + 1, sizeof(*processes)),
		       *old = top_view__process(view);
	size_t n_old = view->n_processes, made = 0;
	double old_s = view->elapsed_s;
	int rc = processes ? 0 : -ENOMEM;
	bool found = false;

	view->elapsed_s = elapsed_s;
	if (elapsed_s >= view->next_marks.elapsed_s + RATE_OVER_S) {
		free(view->marks.list);
		view->marks = view->next_marks;
		view->next_marks = (struct marks){};
	}
	for (size_t i = 0; i < n; i++) {
		if (rc) {
			profile__free(profiles[i]);
			continue;
		}
		processes[made].profile = profiles[i];
		found = found || (old && is_looked_at(view, profiles[i]));
		rc = process__init(view, &processes[made++]);
	}
	free(profiles);
	if (rc) {
		view->elapsed_s = old_s;
		top_processes__free(processes, made);
		return rc;
	}
	if (old && !found && view->many && view->level != PROCESSES) {
		processes[made] = *old;
		processes[made++].gone = true;
		*old = view->processes[--n_old];
	}
	top_processes__free(view->processes, n_old);
	view->processes = processes;
	view->n_processes = made;
	free(view->rows);
	view->rows = NULL;
	view->n_rows = 0;
	if (!view->known && !view->many && made) {
		view->pid = processes[0].profile->pid;
		view->regions = profile__is_regions(processes[0].profile);
	}
	view->many = view->many || made > 1;
	view->known = view->known || made;
	return view->next_marks.list ? 0 : remember(view);
}

/* --- rows: which, in what order --- */

static int compare_numbers(const struct numbers *a, const struct numbers *b, enum top_sort sort)
{
	double x = a->live.bytes, y = b->live.bytes;

	if (sort == TOP_BY_GROWTH)
		return growth__compare(&a->growth, &b->growth);
	if (sort == TOP_BY_RATE) {
		x = a->rate;
		y = b->rate;
	}
	return (x < y) - (x > y);
}

int top_row__compare(const void *a, const void *b, void *ctx)
{
	const struct row *x = a, *y = b;
	const enum top_sort *sort = ctx;
	bool own_x = x->group && x->group->site->allocators_own,
	     own_y = y->group && y->group->site->allocators_own;
	int order;

	/* regions that an allocator maps for the heap are no leak, so they come last */
	if (*sort == TOP_BY_GROWTH && own_x != own_y)
		return own_x ? 1 : -1;
	order = compare_numbers(x->numbers, y->numbers, *sort);
	if (order)
		return order;
	if (x->group && y->group)
		return strcmp(x->group->key, y->group->key);
	return (x->process->profile->pid > y->process->profile->pid) -
	       (x->process->profile->pid < y->process->profile->pid);
}

bool top_numbers__any(const struct numbers *n)
{
	return n->live.bytes > 0 || n->live.objects > 0 || n->rate > 0;
}

static bool has_word(const struct top_view *view, const struct process *process)
{
	if (strcasestr(process->profile->comm, view->filter))
		return true;
	for (size_t i = 0; i < process->n; i++)
		if (strcasestr(process->groups[i].key, view->filter))
			return true;
	return false;
}

static bool is_selected(const struct top_view *view, const struct row *row)
{
	if (row->group)
		return view->stack && !strcmp(view->stack, row->group->key);
	return view->pid && is_looked_at(view, row->process->profile);
}

int top_view__arrange(struct top_view *view)
{
	const struct process *one = view->level == PROCESSES ? NULL : top_view__process(view);
	size_t most = view->level == PROCESSES ? view->n_processes : one ? one->n : 0;

	free(view->rows);
	view->n_rows = 0;
	view->rows = calloc(most + 1, sizeof(*view->rows));
	if (!view->rows)
		return -ENOMEM;
	for (size_t i = 0; i < most; i++) {
		const struct process *p = one ? one : &view->processes[i];
		const struct row row = {p, one ? &p->stacks[i] : &p->numbers,
					one ? &p->groups[i] : NULL};

		if (one ? !strcasestr(p->groups[i].key, view->filter) : !has_word(view, p))
			continue;
		if (view->level == STACKS && !top_numbers__any(row.numbers))
			continue;
		view->rows[view->n_rows++] = row;
	}
	qsort_r(view->rows, view->n_rows, sizeof(*view->rows), top_row__compare, &view->sort);
	for (size_t i = 0; i < view->n_rows; i++)
		if (is_selected(view, &view->rows[i]))
			view->selected = i;
	if (view->selected >= view->n_rows)
		view->selected = view->n_rows ? view->n_rows - 1 : 0;
	return 0;
}

const struct row *top_view__stack(const struct top_view *view)
{
	for (size_t i = 0; i < view->n_rows; i++)
		if (is_selected(view, &view->rows[i]))
			return &view->rows[i];
	return NULL;
}
