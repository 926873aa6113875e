// SPDX-License-Identifier: BSD-2-Clause
#include "session/build.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "capture/alloc_table.h"
#include "capture/snapshot.h"
#include "proc/process.h"
#include "session/allocators_own.h"
#include "session/large_blocks.h"
#include "session/large_trend.h"
#include "session/region_trend.h"
#include "session/books.h"
#include "session/refusals.h"
#include "session/trend.h"

DEFINE_CLEANUP(struct perf_map *, cleanup_perf_map, perf_map__free)

bool budget__is_windowed(const struct budget *b)
{
	const struct windows *w = &b->pace.windows;

	return b->survivors.n_windows ||
	       (b->pace.begun && !w->n_windows && !w->continuous_ns && !w->windows_ns);
}

void target__clear(struct target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	if (t->perf_map.root_fd >= 0)
		close(t->perf_map.root_fd);
	maps__free(&t->maps);
	allocators__free(t->allocators);
	python_names__free(t->python);
	region_source__free(t->regions);
	region_book__free(&t->book);
	resident_pieces__free(&t->resident);
	large_blocks__free(t);
	series__free(&t->region_series);
	books__free(t);
	memset(t, 0, sizeof(*t));
	t->pidfd = t->perf_map.root_fd = -1;
}

/* --- the sites of a process --- */

static int compare_site_stacks(const void *a, const void *b)
{
	const struct abi_site_key *x = a, *y = b;

	return stack_key__compare(&x->stack, &y->stack);
}

long process_sites__find(const struct process_sites *s, const struct abi_stack_key *stack)
{
	const struct abi_site_key key = {.stack = *stack};
	const struct abi_site_key *found =
		s->n ? bsearch(&key, s->keys, s->n, sizeof(key), compare_site_stacks) : NULL;

	return found && s->site_of[found - s->keys] != NO_SITE ? found - s->keys : -1;
}

/* --- the parts of a profile --- */

/* Adds a stack that was seen `times` times, and counts how it ends. */
static int add_stack(struct profile *p, const struct abi_stack *stack, uint64_t times,
		     size_t *ret_site, uint64_t ends[STACK_END_MAX], uint64_t *bridged)
{
	uint32_t end = stack->end & ~STACK_BRIDGED;
	int rc = profile__add_site(p, (const uint64_t *)stack->ip, stack->n,
				   end == STACK_END_TRUNCATED, ret_site);

	if (rc)
		return rc;
	p->sites[*ret_site].complete = end == STACK_END_COMPLETE;
	p->stacks_walked += times;
	if (end == STACK_END_COMPLETE)
		p->stacks_complete += times;
	else if (end < STACK_END_MAX)
		ends[end] += times;
	if (stack->end & STACK_BRIDGED)
		*bridged += times;
	return 0;
}

static int add_ends(struct profile *p, const uint64_t ends[STACK_END_MAX], uint64_t bridged)
{
	static const char *const end_names[STACK_END_MAX] = {
#define X(id, name) [STACK_END_##id] = "stacks_end_" name,
		ABI_STACK_ENDS(X)
#undef X
	};

	for (int end = STACK_END_COMPLETE + 1; end < STACK_END_MAX; end++)
		if (end != STACK_END_TRUNCATED && profile__add_lost(p, end_names[end], ends[end]))
			return -ENOMEM;
	return profile__add_lost(p, "stacks_bridged", bridged);
}

_Static_assert(PROFILE_AGES == ABI_AGES, "one for each class");

/* Fills in a site's life, except for its blocks that live at the end: add_live() adds these.
 * low_bytes and low_objects count only blocks of the present program: blocks that an exec took away
 * are subtracted. */
static struct site_life life_of(const struct build *b, const struct abi_site_key *key,
				const struct abi_site *site, const struct abi_peak *peak)
{
	uint64_t begin_ns = trend__begin_ns(b), third = begin_ns + (b->end_ns - begin_ns) / 3;
	struct site_life life = {
		.high_objects = (double)site->high_objects_q16 / 65536,
		.high_bytes = (double)site->high_bytes,
		.low_bytes = (double)site->alloc_bytes - (double)site->freed_bytes,
		.low_objects =
			((double)site->alloc_objects_q16 - (double)site->freed_objects_q16) / 65536,
	};
	__u64 gone_objects_q16, gone_bytes;

	abi_site__gone(site, peak, &gone_objects_q16, &gone_bytes);
	for (size_t i = 0; b->series && i < b->series->n; i++) {
		const struct series_point *then;

		if (b->series->snapshots[i].time_ns < third)
			continue;
		then = series__find(&b->series->snapshots[i], key);
		life.low_bytes = fmin(life.low_bytes, then ? then->bytes : 0);
		life.low_objects = fmin(life.low_objects, then ? then->objects : 0);
	}
	life.low_bytes = fmax(life.low_bytes - (double)(int64_t)gone_bytes, 0);
	life.low_objects = fmax(life.low_objects - (double)(int64_t)gone_objects_q16 / 65536, 0);
	for (int i = 0; i < ABI_AGES; i++)
		life.ended[i] = (double)site->ended_objects_q16[i] / 65536;
	return life;
}

/* Finds the moment at which the process held most. */
static void add_peak(const struct build *b, struct profile *p, struct abi_peak *ret)
{
	p->peak.known = p->life.heights_known &&
			!capture__peak(b->capture, b->target->process, ret) && ret->time_ns;
	if (p->peak.known && ret->time_ns > b->begin_ns)
		p->peak.s = fmin((double)(ret->time_ns - b->begin_ns) / 1e9, p->duration_s);
}

static void add_site_peak(struct profile_site *site, const struct abi_site *found,
			  const struct abi_peak *peak)
{
	__u64 objects_q16, bytes;

	abi_site__at_peak(found, peak, &objects_q16, &bytes);
	site->peak_objects = (double)objects_q16 / 65536;
	site->peak_bytes = (double)bytes;
}

/* Adds the process's sites, and notes their numbers. */
static int add_sites(const struct build *b, struct profile *p, const struct process_sites *s)
{
	struct abi_peak peak = {};
	uint64_t ends[STACK_END_MAX] = {}, bridged = 0, missing = 0;

	add_peak(b, p, &peak);
	for (size_t i = 0; i < s->n; i++) {
		struct profile_site *site;
		const struct abi_stack *stack =
			snapshot__find_stack(&b->drain->stacks, &s->keys[i].stack);
		int rc;

		/* A site is made after its stack was stored. But the stack may have been removed
		 * from the table at that very moment. When it is put back, there may be no room for
		 * it any more. */
		if (!stack || !stack->n || stack->n > ABI_STACK_FRAMES) {
			s->site_of[i] = NO_SITE;
			missing += s->sites[i].alloc_samples;
			continue;
		}
		rc = add_stack(p, stack, s->sites[i].alloc_samples, &s->site_of[i], ends, &bridged);
		if (rc)
			return rc;
		site = &p->sites[s->site_of[i]];
		site->alloc_objects = (double)s->sites[i].alloc_objects_q16 / 65536;
		site->alloc_bytes = (double)s->sites[i].alloc_bytes;
		site->freed_objects = (double)s->sites[i].freed_objects_q16 / 65536;
		site->freed_bytes = (double)s->sites[i].freed_bytes;
		if (p->life.heights_known)
			site->life = life_of(b, &s->keys[i], &s->sites[i], &peak);
		if (p->peak.known)
			add_site_peak(site, &s->sites[i], &peak);
	}
	p->dropped += missing;
	if (profile__add_lost(p, "stacks_missing", missing))
		return -ENOMEM;
	return add_ends(p, ends, bridged);
}

/* Does the process have no anonymous page at the address (any more)? Bits of the page's word in
 * /proc/PID/pagemap: 63: the page is present; 62: it is in swap; 61: it belongs to a file, or is
 * shared. */
static bool page_gone(int pagemap_fd, uint64_t addr)
{
	uint64_t word;

	return pagemap_fd >= 0 &&
	       pread(pagemap_fd, &word, sizeof(word), (off_t)(addr / 4096 * sizeof(word))) ==
		       sizeof(word) &&
	       (!(word >> 62) || (word >> 61 & 1));
}

static int open_pagemap(const struct build *b)
{
	if (!b->faults || b->target->ended)
		return -1;
	return process__open(b->target->info.pid, "pagemap", O_RDONLY);
}

static int add_live(const struct build *b, struct profile *p, const struct process_sites *s)
{
	_cleanup_close_ int pagemap = open_pagemap(b);
	struct snapshot_live live = snapshot__live_of(&b->drain->live, b->target->process);
	uint64_t dropped = 0;

	for (size_t i = 0; i < live.n; i++) {
		const struct abi_live *block = &live.blocks[i];
		size_t thread;
		double seen = estimate__probability(block->size, block->interval);
		uint64_t age_ns;
		long site;
		int rc;

		if (block->birth == BIRTH_ENDED)
			continue;
		if (block->birth_ns < b->target->exec_ns) {
			dropped++;
			continue;
		}
		site = process_sites__find(s, &block->stack);
		if (site < 0 || page_gone(pagemap, live.keys[i].addr))
			continue;
		rc = profile__add_thread(p, block->tid, "", &thread);
		if (!rc)
			rc = profile__add_live_seen(p, s->site_of[site], thread, block->size, seen);
		if (!rc && b->blocks)
			rc = profile__add_block(p, s->site_of[site], live.keys[i].addr,
						block->size);
		if (rc)
			return rc;
		/* a block may be born after the snapshot's time, but before the table is read */
		age_ns = b->end_ns > block->birth_ns ? b->end_ns - block->birth_ns : 0;
		p->sites[s->site_of[site]].life.living[profile_age_class(age_ns)] += 1 / seen;
	}
	/* Adds this number to the number of blocks that the kernel side itself has dropped. */
	return profile__add_lost(p, "dropped_by_exec", dropped);
}

/* Adds which threads freed the memory of which threads. Not called for a process that is traced in
 * windows, because windows see few of the frees. */
static int add_transfers(const struct build *b, struct profile *p)
{
	const struct abi_transfer_key *keys = b->drain->transfers.keys;
	const struct abi_transfer *values = b->drain->transfers.values;

	for (size_t i = 0; i < b->drain->transfers.n; i++) {
		const struct profile_transfer transfer = {
			.owner = keys[i].owner,
			.freer = keys[i].freer,
			.samples = values[i].samples,
			.objects = (double)values[i].objects_q16 / 65536,
			.bytes = (double)values[i].bytes,
		};

		if (keys[i].process == b->target->process && profile__add_transfer(p, &transfer))
			return -ENOMEM;
	}
	return 0;
}

static int add_threads(const struct build *b, struct profile *p)
{
	const uint32_t *tids = b->drain->threads.keys;
	const struct abi_thread *threads = b->drain->threads.values;

	for (size_t i = 0; i < b->drain->threads.n; i++) {
		char name[ABI_COMM_LEN + 1] = {};
		size_t thread;
		int rc;

		if (threads[i].process != b->target->process)
			continue;
		memcpy(name, threads[i].comm, ABI_COMM_LEN);
		rc = profile__add_thread(p, tids[i], name, &thread);
		if (rc)
			return rc;
	}
	return 0;
}

static int add_mappings(const struct build *b, struct profile *p)
{
	for (size_t i = 0; i < b->target->maps.n; i++) {
		const struct map_entry *e = &b->target->maps.entries[i];
		struct profile_mapping mapping = {
			.start = e->start,
			.end = e->end,
			.off = e->off,
			.file = e->file,
			.deleted = e->deleted,
			.path = e->path,
		};
		int rc;

		memcpy(mapping.perms, e->perms, sizeof(mapping.perms));
		rc = profile__add_mapping(p, &mapping);
		if (rc)
			return rc;
	}
	return 0;
}

static int add_probes(const struct build *b, struct profile *p)
{
	const char *kind = probe_kind__name(capture__kind(b->capture));
	const struct capture_probe *probes;
	size_t n;

	probes = capture__probes(b->capture, &n);
	for (size_t i = 0; i < n; i++) {
		const struct alloc_point *point = probes[i].point;
		struct profile_probe probe = {
			.function = (char *)point->name,
			.object = probes[i].allocator->path,
			.offset = point->place.off,
			.instruction = (char *)point->site.instruction,
			.emulated = point->site.emulated,
			/* if a function frees, its probe never asks for a return probe */
			.kind = capture__kind(b->capture) == PROBE_SESSION &&
						(abi_role__frees(point->func.role) ||
						 point->func.role == ROLE_TAKEN ||
						 point->func.role == ROLE_MARK_ALLOC)
					? probe_kind__name(PROBE_MULTI)
					: kind,
			.cost_ns = b->calibration ? calibration__cost_ns(b->calibration, point) : 0,
		};
		int rc;

		if (probes[i].pid && probes[i].pid != b->target->info.pid)
			continue;
		rc = profile__add_probe(p, &probe);
		if (rc)
			return rc;
	}
	return 0;
}

bool target__maps_code(const struct target *t, const struct file_id *file)
{
	for (size_t i = 0; i < t->maps.n; i++)
		if (t->maps.entries[i].executable &&
		    file_id__equal(map_entry__real(&t->maps.entries[i]), file))
			return true;
	return false;
}

uint64_t build__exec_untraced(const struct build *b)
{
	const struct target *t = b->target;

	/* if the target has no list of its own allocators, the probes are for all processes, so
	 * they are in the new program, too */
	if (!t->exec_ns || !t->allocators)
		return 0;
	for (size_t i = 0; i < t->allocators->n && !t->exec_by_thread; i++) {
		const struct allocator *a = t->allocators->list[i];

		/* an allocator whose blocks the program reports itself has no probes */
		if (!a->reported && target__maps_code(t, &a->file))
			return 0;
	}
	return 1;
}

/* Returns 1 if the main thread has ended and the probes have therefore gone silent, although other
 * threads go on. To find the process of a probe, the kernel looks for the process's main thread.
 * For some kinds of probe the kernel does this at each call. For the other kinds it does this when
 * probes are placed (each window places them), and when another tracer takes a probe out. regions:
 * answers for the probes that see regions. */
static uint64_t main_thread_ended(const struct build *b, bool regions)
{
	const struct target *t = b->target;
	bool silent = regions ? t->regions_silent : t->silent;
	bool own = regions ? t->regions && !t->regions->syscalls : t->allocators != NULL;

	return t->headless && (silent || (own && capture__needs_main_thread(b->capture)));
}

/* Has an exec left the probes for the process's regions behind? As build__exec_untraced(). */
static uint64_t exec_left_regions(const struct target *t)
{
	return t->exec_ns && t->regions && !t->regions->syscalls &&
	       (t->exec_by_thread || !target__maps_code(t, &t->regions->file));
}

static int add_lost(const struct build *b, struct profile *p)
{
	static const char *const names[LOST_MAX] = {
#define X(id, name, text) [LOST_##id] = name,
		ABI_LOST_COUNTERS(X)
#undef X
	};
	const struct abi_process_cpu *c = &b->target->counters;
	int rc = 0;

	for (int i = 0; i < LOST_MAX && !rc; i++)
		rc = profile__add_lost(p, names[i], c->lost[i]);
	/* these count losses of the heap and of regions alike: both record stacks */
	p->dropped = c->lost[LOST_NO_MEMORY] + c->lost[LOST_STACKS_FULL] +
		     c->lost[LOST_SCRATCH_BUSY] + c->lost[LOST_RESULT_FAULT];
	p->dropped += profile__is_regions(p) ? c->lost[LOST_REGION_CALLS]
					     : c->lost[LOST_LIVE_FULL] + c->lost[LOST_SITES_FULL] +
						       c->lost[LOST_INFLIGHT_FULL];
	/* These calls did not end by returning, or were under way at the end of the run. */
	if (!rc)
		rc = profile__add_lost(p, "returns_missing",
				       c->armed > c->returned ? c->armed - c->returned : 0);
	if (!rc)
		rc = profile__add_lost(p, "exec_untraced",
				       profile__is_regions(p) ? exec_left_regions(b->target)
							      : build__exec_untraced(b));
	if (!rc)
		rc = profile__add_lost(p, "main_thread_ended",
				       main_thread_ended(b, profile__is_regions(p)));
	if (!rc)
		rc = profile__add_lost(p, "not_traced", b->not_traced != NULL);
	if (!rc)
		rc = profile__add_lost(p, "code_replaced", b->target->code_replaced);
	if (!rc)
		rc = profile__add_lost(p, "mappings_left_out", b->target->mappings_left_out);
	if (!rc)
		rc = profile__add_lost(p, "borrowers_unseen", b->target->borrowers_unseen);
	if (!rc && !profile__is_regions(p))
		rc = refusals__add(b, p);
	return rc;
}

/* Counts frames without a name, by reason. */
static int add_unresolved(struct profile *p)
{
	static const char *const names[UNRESOLVED_MAX] = {
#define X(id, name) [UNRESOLVED_##id] = "frames_" name,
		UNRESOLVED_REASONS(X)
#undef X
	};
	uint64_t counts[UNRESOLVED_MAX] = {};
	int rc = 0;

	for (size_t i = 0; i < p->n_locations; i++)
		counts[p->locations[i].reason]++;
	for (int i = UNRESOLVED_NAMED + 1; i < UNRESOLVED_MAX && !rc; i++)
		rc = profile__add_lost(p, names[i], counts[i]);
	return rc;
}

/* Reads what the target's perf map says of the profile's addresses. 0 or -ENOMEM. */
static int read_perf_map(const struct build *b, const struct profile *p, struct perf_map **ret,
			 uint64_t *ret_skipped)
{
	_cleanup_free_ uint64_t *addrs = NULL;
	_cleanup_close_ int fd = -1;
	size_t skipped;

	if (b->target->perf_map.root_fd >= 0)
		fd = process__open_perf_map(&b->target->perf_map);
	if (fd < 0)
		return 0;
	addrs = calloc(p->n_locations + 1, sizeof(*addrs));
	if (!addrs)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_locations; i++)
		addrs[i] = p->locations[i].addr - 1;
	if (!perf_map__read(fd, &(struct perf_map_wanted){addrs, p->n_locations}, ret, &skipped))
		*ret_skipped = skipped;
	capture__beat(b->capture);
	return 0;
}

static int symbolize(const struct build *b, struct profile *p)
{
	_cleanup_(cleanup_perf_map) struct perf_map *jit = NULL;
	struct frame_namer namer;
	uint64_t skipped = 0;

	if (read_perf_map(b, p, &jit, &skipped))
		return -ENOMEM;
	if (profile__add_lost(p, "perf_map_skipped", skipped))
		return -ENOMEM;
	if (b->target->python && !b->target->ended) {
		for (size_t i = 0; i < p->n_locations; i++)
			python_names__learn(b->target->python, b->target->info.pid,
					    p->locations[i].addr, b->capture);
		python_names__check(b->target->python, b->target->info.pid, b->capture);
	}
	namer = python_names__namer(b->target->python);
	return symbolizer__symbolize(b->symbolizer, p, jit, &namer);
}

/* Fills in what is known without reading the kernel's tables. 0 or -ENOMEM. */
static int begin_profile(const struct build *b, struct profile *p)
{
	profile__join(p, b->run);
	p->withdrawals = b->withdrawals;
	p->pid = b->target->info.pid;
	p->process_start_ticks = b->target->info.start_ticks;
	memcpy(p->comm, b->target->info.comm, sizeof(p->comm));
	p->exe = strdup(b->target->info.exe);
	p->not_traced = b->not_traced;
	p->mode = budget__is_windowed(&b->target->budget) ? MODE_WINDOWED : MODE_CONTINUOUS;
	p->interval_bytes = b->interval;
	p->asked_interval_bytes = b->interval > b->asked_interval ? b->asked_interval : 0;
	p->sampled_by_target =
		b->target->allocators && allocators__are_reported(b->target->allocators);
	if (p->mode == MODE_CONTINUOUS && b->finest_interval &&
	    b->finest_interval < b->asked_interval)
		p->finest_interval_bytes = b->finest_interval;
	if (b->target->rss_start_bytes && b->target->rss_bytes)
		p->resident_change_bytes = optional__of((double)b->target->rss_bytes -
							(double)b->target->rss_start_bytes);
	p->start_unix_ns = b->start_unix_ns;
	p->duration_s = b->duration_s;
	p->planned_s = b->planned_s;
	p->ended = b->target->ended;
	p->killed_by_signal = b->target->death & ABI_DEATH_SIGNAL;
	p->out_of_memory = b->target->death & ABI_DEATH_OOM;
	p->overhead_pct = b->overhead_pct;
	p->others_pct = b->others_pct;
	p->cpu_time_ns = b->cpu_time_ns;
	p->children_cpu_ns = b->target->children_cpu_ns;
	return p->exe ? 0 : -ENOMEM;
}

/* Call it when everything is in the profile: sorts the profile, and looks up the names. 0 or
 * -ENOMEM. */
static int finish_profile(const struct build *b, struct profile *p)
{
	size_t cut = 0;
	int rc = profile__sort(p);

	if (!rc)
		rc = profile__cut_implausible(p, b->target->python != NULL, &cut);
	if (!rc)
		rc = profile__add_lost(p, "stacks_cut", cut);
	if (!rc)
		rc = symbolize(b, p);
	if (!rc)
		rc = large_trend__name(p);
	if (!rc)
		rc = add_unresolved(p);
	return rc;
}

/* Counts as freed what was allocated and is no longer held. */
static void balance(struct profile *p)
{
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];
		double bytes = site->alloc_bytes - site->live.bytes;
		double objects = site->alloc_objects - site->live.objects;

		site->freed_bytes = bytes > 0 ? bytes : 0;
		/* a region cut in two counts as two */
		site->freed_objects = objects > 0 ? objects : 0;
	}
}

int build__profile(const struct build *b, struct profile **ret)
{
	_cleanup_(cleanup_profile) struct profile *p = profile__new();
	struct snapshot_sites drained = snapshot__sites_of(&b->drain->sites, b->target->process);
	_cleanup_free_ size_t *site_of = calloc(drained.n + 1, sizeof(*site_of));
	struct process_sites sites = {drained.keys, drained.sites, drained.n, site_of};
	int rc;

	if (!p || !site_of)
		return -ENOMEM;
	rc = begin_profile(b, p);
	p->what = b->faults ? PROFILE_FAULTS : PROFILE_HEAP;
	p->life.heights_known = !b->faults && !budget__is_windowed(&b->target->budget);
	p->life.ages_known = p->life.living_known = !b->faults;
	p->alloc_calls = b->target->alloc_calls;
	p->free_calls = b->target->free_calls;
	p->samples = b->target->counters.samples;
	p->rss_start_bytes = b->target->rss_start_bytes;
	p->rss_end_bytes = b->target->ended ? 0 : b->target->rss_bytes;
	if (b->target->rss_start_bytes)
		p->file_growth_bytes =
			(double)b->target->file_bytes - (double)b->target->file_start_bytes;
	p->n_strays = b->target->n_strays;
	p->n_live_threads = b->target->threads;
	if (!rc)
		rc = add_lost(b, p);
	if (!rc)
		rc = add_mappings(b, p);
	if (!rc)
		rc = add_probes(b, p);
	if (!rc)
		rc = add_threads(b, p);
	if (!rc)
		rc = add_sites(b, p, &sites);
	if (!rc)
		rc = b->target->budget.survivors.n_windows ? trend__add_windowed(b, p, &sites)
							   : add_live(b, p, &sites);
	if (!rc && !b->faults && !b->target->budget.survivors.n_windows && !profile__unknown_why(p))
		rc = trend__add_growth(b, p, &sites);
	if (!rc && b->faults)
		balance(p);
	if (!rc && p->life.heights_known)
		rc = add_transfers(b, p);
	if (!rc)
		rc = finish_profile(b, p);
	if (rc)
		return rc;
	*ret = p;
	p = NULL;
	return 0;
}

/* --- regions --- */

static int add_region_probes(const struct build *b, struct profile *p)
{
	const struct region_source *source = b->target->regions;
	static const char *const calls[] = {"mmap", "munmap", "mremap", "brk"};
	int rc = 0;

	for (size_t i = 0; source && !source->syscalls && i < source->n_points && !rc; i++) {
		const struct region_point *point = &source->points[i];
		struct profile_probe probe = {
			.function = (char *)point->name,
			.object = source->path,
			.offset = point->place.off,
			.instruction = (char *)point->site.instruction,
			.emulated = point->site.emulated,
			.kind = probe_kind__name(capture__kind(b->capture)),
		};

		rc = profile__add_probe(p, &probe);
	}
	for (size_t i = 0; (!source || source->syscalls) && i < 4 && !rc; i++) {
		struct profile_probe probe = {
			.function = (char *)calls[i],
			.object = "",
			.instruction = "syscall",
			.emulated = true,
			.kind = "tracepoint",
		};

		rc = profile__add_probe(p, &probe);
	}
	return rc;
}

/* Adds the book's sites to the profile. site_of[i] becomes the number that the book's i-th site has
 * in the profile. */
static int add_region_sites(const struct build *b, struct profile *p, size_t *site_of)
{
	const struct region_book *book = &b->target->book;
	uint64_t ends[STACK_END_MAX] = {}, bridged = 0;
	struct profile_site *site;

	for (size_t i = 0; i < book->n_sites; i++) {
		const struct abi_stack *stack =
			snapshot__find_stack(&b->drain->stacks, &book->sites[i].stack);
		int rc;

		if (!stack || !stack->n || stack->n > ABI_STACK_FRAMES) {
			site_of[i] = NO_SITE; /* cannot happen: the stack was stored before */
			continue;
		}
		rc = add_stack(p, stack, book->sites[i].objects, &site_of[i], ends, &bridged);
		if (rc)
			return rc;
		site = &p->sites[site_of[i]];
		site->alloc_objects = (double)book->sites[i].objects;
		site->alloc_bytes = (double)book->sites[i].bytes;
	}
	return add_ends(p, ends, bridged);
}

static int add_live_regions(const struct build *b, struct profile *p, const size_t *site_of)
{
	const struct region_book *book = &b->target->book;

	for (size_t i = 0; i < book->map.n; i++) {
		const struct region *r = &book->map.at[i];
		size_t thread;
		int rc;

		if (r->site == EARLIER_SITE || site_of[r->site] == NO_SITE)
			continue;
		rc = profile__add_thread(p, r->tid, "", &thread);
		if (!rc)
			rc = profile__add_live(p, site_of[r->site], thread, r->end - r->start);
		if (rc)
			return rc;
		p->regions.kind_bytes[r->kind] += (double)(r->end - r->start);
	}
	balance(p);
	return 0;
}

/* Adds how much of each stack's regions is in memory. */
static void add_resident_regions(const struct build *b, struct profile *p, const size_t *site_of)
{
	const struct resident_pieces *pieces = &b->target->resident;

	for (size_t i = 0; i < pieces->n; i++) {
		const struct resident_piece *piece = &pieces->at[i];

		if (piece->kind == RESIDENT_MAPPED && site_of[piece->site] != NO_SITE)
			resident_bytes__add(&p->sites[site_of[piece->site]].resident,
					    &piece->bytes);
	}
}

int build__regions(const struct build *b, struct profile **ret)
{
	const struct region_book *book = &b->target->book;
	_cleanup_(cleanup_profile) struct profile *p = profile__new();
	_cleanup_free_ size_t *site_of = NULL;
	uint64_t earlier_gone;
	int rc;

	site_of = calloc(book->n_sites + 1, sizeof(*site_of));
	if (!p || !site_of)
		return -ENOMEM;
	rc = begin_profile(b, p);
	p->what = PROFILE_REGIONS;
	p->mode = MODE_CONTINUOUS; /* even where the heap is traced in windows */
	p->interval_bytes = 1;
	p->asked_interval_bytes = p->finest_interval_bytes = 0;
	p->sampled_by_target = false;
	p->alloc_calls = p->samples = book->taken;
	p->free_calls = book->calls - book->taken;
	region_book__live(book, &earlier_gone);
	if (book->earlier_known)
		p->regions.earlier_gone_bytes = optional__of((double)earlier_gone);
	if (!rc)
		rc = add_lost(b, p);
	if (!rc)
		rc = profile__add_lost(p, "regions_too_many", book->too_many);
	if (!rc)
		rc = profile__add_lost(p, "regions_stopped", b->target->regions_stopped_ns != 0);
	if (b->target->regions_stopped_ns)
		p->regions.stopped_s =
			optional__of((double)(b->target->regions_stopped_ns - b->begin_ns) / 1e9);
	if (!rc)
		rc = profile__add_lost(p, "dropped_by_exec", book->dropped_by_exec);
	p->dropped += book->too_many;
	if (!rc)
		rc = add_mappings(b, p);
	if (!rc)
		rc = add_region_probes(b, p);
	if (!rc)
		rc = add_threads(b, p);
	if (!rc)
		rc = add_region_sites(b, p, site_of);
	if (!rc)
		rc = add_live_regions(b, p, site_of);
	if (!rc)
		add_resident_regions(b, p, site_of);
	if (!rc)
		rc = region_trend__add_growth(b, p, site_of);
	if (!rc)
		rc = finish_profile(b, p);
	if (rc)
		return rc;
	allocators_own__mark_sites(b, p);
	allocators_own__mark_pieces(b, p);
	*ret = p;
	p = NULL;
	return 0;
}
