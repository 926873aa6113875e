// SPDX-License-Identifier: BSD-2-Clause
#include "session/books.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "capture/snapshot.h"
#include "ledger/old_windows.h"

#define WAITS_THREADS 128 /* waits are counted in processes of at most this many threads */

/* While a window goes on, a new block may have been allocated at `addr` after the tables were read.
 * This block stays in the table for the next part of the window. */
static void forget_block(void *ctx, uint64_t addr)
{
	const struct budget *b = ctx;

	capture__forget_block(b->capture, b->process, addr, b->pace.end_ns);
}

int books__begin(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t seed[2];

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	b->capture = s->capture;
	b->process = t->process;
	if (s->calibrated)
		net_clock__init(
			&b->clock,
			(s->calibration.alloc_ns[INSN_PUSH] + s->calibration.free_ns[INSN_PUSH]) /
				2,
			s->calibration.spread);
	survivors__init(&b->survivors, seed);
	b->survivors.forget = forget_block;
	b->survivors.ctx = b;
	capture__watch_ends(s->capture, t->info.pid, true);
	return 0;
}

void books__free(struct target *t)
{
	run_time__close(&t->budget.run);
	survivors__free(&t->budget.survivors);
	net_clock__free(&t->budget.clock);
	reallocs__free(&t->budget.reallocs);
}

/* From the first window on, also asks how many bytes the process has read and written. Before that,
 * this figure is of no use. Asking takes a while, because the kernel asks all threads. */
void books__note_totals(struct target *t, uint64_t now_ns, double cpu_ns, double cost_ns,
			enum net_clock_edge edge)
{
	uint64_t bytes;
	double work = NAN;

	if ((edge || t->budget.pace.windows.n_windows) && !process__io_bytes(t->info.pid, &bytes))
		work = (double)bytes;
	t->budget.pace.failed +=
		net_clock__add(&t->budget.clock, now_ns, cpu_ns, cost_ns, work, edge) != 0;
}

void books__note_waits(struct target *t)
{
	uint64_t before = t->budget.waits.threads;

	if (process__waits(t->info.pid, WAITS_THREADS, &t->budget.waits))
		t->budget.waits = (struct process_waits){};
	if (t->budget.waits.threads && t->budget.waits.threads == before)
		net_clock__note_waits(&t->budget.clock, (double)t->budget.waits.n);
}

static void note_calls(struct budget *b, const struct target *t)
{
	b->open_allocs = t->alloc_calls;
	b->open_net_blocks = capture__net_blocks(&t->counters);
}

void books__opened(struct session *s, struct target *t)
{
	note_calls(&t->budget, t);
	capture__watch_ends(s->capture, t->info.pid, true);
}

void books__rest(struct session *s, struct target *t)
{
	capture__watch_ends(s->capture, t->info.pid, false);
}

/* --- windows --- */

static int read_memory(void *ctx, struct memory_read *reads, size_t n)
{
	const struct target *t = ctx;

	return memory__read_all(t->info.pid, reads, n);
}

/* Gives the target's live blocks to its ledger. live: sorted. */
static int meet(struct target *t, const struct capture_table *live)
{
	struct budget *b = &t->budget;
	struct survivors_window window = {
		.start_ns = b->pace.start_ns,
		.end_ns = b->pace.end_ns > b->pace.start_ns ? b->pace.end_ns : b->pace.start_ns + 1,
		.interval = b->interval,
		.continuous = b->stretch,
	};
	struct snapshot_live his = snapshot__live_of(live, t->process);
	_cleanup_free_ struct abi_live *blocks = calloc(his.n + 1, sizeof(*blocks));
	_cleanup_free_ uint64_t *addrs = calloc(his.n + 1, sizeof(*addrs));
	size_t found = 0;

	if (!blocks || !addrs)
		return -ENOMEM;
	for (size_t i = 0; i < his.n; i++) {
		/* blocks of the program that ran before the exec are dropped */
		if (his.blocks[i].birth_ns < t->exec_ns) {
			forget_block(b, his.keys[i].addr);
			continue;
		}
		addrs[found] = his.keys[i].addr;
		blocks[found++] = his.blocks[i];
	}
	/* alloc_calls leaves out calls that an allocator makes to itself. If another CPU counts
	 * such a call at this moment, alloc_calls may be too high by one. */
	if (t->alloc_calls > b->open_allocs)
		window.allocs = t->alloc_calls - b->open_allocs;
	window.net_blocks = capture__net_blocks(&t->counters) - b->open_net_blocks;
	/* When a pool ends, it is not known how many blocks end with it. A target that samples
	 * itself reports samples, not blocks. */
	window.bulk = t->counters.pool_takes || t->counters.pool_ends ||
		      (t->allocators && allocators__are_reported(t->allocators));
	return survivors__meet(&b->survivors, &window, clock__now_ns(CLOCK_MONOTONIC), addrs,
			       blocks, found, read_memory, t);
}

int books__meet(struct session *s, struct target *const *targets, size_t n)
{
	_cleanup_(capture_table__free) struct capture_table live = {};
	int rc = n ? capture__read_live(s->capture, &live) : 0;

	if (!rc)
		rc = snapshot__sort_live(&live);
	for (size_t i = 0; i < n && !rc; i++)
		rc = meet(targets[i], &live);
	return rc;
}

static void on_end(void *ctx, const struct abi_end *end)
{
	struct target *t = targets__find_process(ctx, end->process);

	if (t && end->block.birth_ns >= t->exec_ns)
		survivors__note_end(&t->budget.survivors, end);
}

/* Records the target's window in its ledger. sites: sorted. */
static int harvest(struct target *t, const struct capture_table *sites)
{
	struct snapshot_sites his = snapshot__sites_of(sites, t->process);
	struct budget *b = &t->budget;
	int rc;

	/* in a stretch of continuous tracing the kernel's tables have all blocks */
	rc = survivors__in_stretch(&b->survivors)
		     ? reallocs__pass_over(&b->reallocs, &his)
		     : reallocs__harvest(&b->reallocs, b->pace.start_ns, b->pace.end_ns, &his);
	/* must come before survivors__harvest(): that function counts how many of the blocks born
	 * in a stretch of continuous tracing are left */
	if (!rc)
		rc = survivors__take_sites(&b->survivors, &his);
	net_clock__learn(&b->clock);
	windows__feel(&b->pace.windows, b->clock.felt);
	if (!rc)
		rc = survivors__harvest(&b->survivors, &b->clock);
	if (!rc)
		rc = old_windows__drop(&b->survivors, &b->clock, &b->reallocs);
	note_calls(b, t); /* if the window goes on, its next part begins here */
	return rc;
}

int books__harvest(struct session *s, struct target *const *targets, size_t n)
{
	_cleanup_(capture_table__free) struct capture_table sites = {};
	_cleanup_free_ struct target **unmet = calloc(n + 1, sizeof(*unmet));
	size_t n_unmet = 0;
	int rc = unmet ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !rc; i++) {
		if (targets[i]->budget.survivors.met)
			continue;
		/* its window goes on, or the process has ended */
		capture__next_part(s->capture, targets[i]->info.pid);
		unmet[n_unmet++] = targets[i];
	}
	if (!rc)
		rc = books__meet(s, unmet, n_unmet);
	if (!rc)
		rc = capture__read_ends(s->capture, on_end, s, &s->ends_lost);
	if (!rc)
		rc = capture__read_sites(s->capture, &sites);
	if (!rc)
		rc = snapshot__sort_sites(&sites);
	for (size_t i = 0; i < n && !rc; i++) {
		rc = harvest(targets[i], &sites);
		if (!rc)
			books__look(targets[i], clock__now_ns(CLOCK_MONOTONIC));
		guard__wait(s); /* there may be hundreds of targets */
	}
	return rc;
}

int books__pass_over(struct session *s, struct target *t)
{
	_cleanup_(capture_table__free) struct capture_table sites = {};
	struct snapshot_sites his;
	int rc = capture__read_sites(s->capture, &sites);

	if (!rc)
		rc = snapshot__sort_sites(&sites);
	if (rc)
		return rc;
	his = snapshot__sites_of(&sites, t->process);
	rc = reallocs__pass_over(&t->budget.reallocs, &his);
	return rc ? rc : survivors__pass_over(&t->budget.survivors, &his);
}

void books__look(struct target *t, uint64_t now_ns)
{
	if (!t->budget.survivors.n_windows)
		return;
	/* reading the memory of a process that is gone fails, so only -ENOMEM counts as a
	 * failure */
	t->budget.pace.failed += survivors__look(&t->budget.survivors, &t->budget.clock, now_ns,
						 read_memory, t) == -ENOMEM ||
				 survivors__compare(&t->budget.survivors, &t->budget.clock);
}

void books__read_bound(struct target *t)
{
	struct maps maps;
	uint64_t sum = 0;

	if (t->ended || maps__read(t->info.pid, &maps))
		return;
	for (size_t i = 0; i < maps.n; i++) {
		const struct map_entry *e = &maps.entries[i];

		if (!e->file.inode && e->perms[1] == 'w' && e->perms[3] == 'p' &&
		    strcmp(e->path, "[stack]"))
			sum += e->end - e->start;
	}
	maps__free(&maps);
	if (sum)
		t->heap_bound_bytes = sum;
}
