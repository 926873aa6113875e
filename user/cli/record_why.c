// SPDX-License-Identifier: BSD-2-Clause
/* record --leaks --why: after the run, finds out who holds the blocks of the stacks that grow. If
 * the search fails, the profile is still written, without the holders. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/evenly.h"
#include "base/vector.h"
#include "capture/registers.h"
#include "cli/record_internal.h"
#include "cli/why.h"
#include "profile/match.h"

#define STACKS	   10	/* at most this many stacks: those that grow most surely */
#define BLOCKS	   1000 /* at most this many blocks, of all these stacks together */
#define PATIENCE_S 10.0 /* time limit for one scan */
/* time limit for the scans of one process; a scan that would probably end later is the last one */
#define WITHIN_S 20.0
#define RUN_S	 60.0 /* time limit for all processes of the run */

_Static_assert(BLOCKS <= WHY_MAX_PATHS && BLOCKS <= WHY_MAX_ADDRS, "all of them are followed");

/* --- registers: the kernel programs that read them are loaded before the run --- */

struct process_registers {
	pid_t pid;
	struct registers *registers;
};

static void load_registers(struct record_config *c, pid_t pid)
{
	struct registers *registers;

	if (VECTOR_ADD_ROOM(c->registers, c->n_registers) || registers__new(pid, &registers))
		return; /* the report then says that registers could not be read */
	c->registers[c->n_registers++] = (struct process_registers){pid, registers};
}

void record_why__begin(struct record_config *c, struct session *session)
{
	if (!c->why)
		return;
	for (size_t i = 0; i < c->trace.n_pids && i < SESSION_SEPARATE; i++)
		load_registers(c, c->trace.pids[i]);
	if (session__command(session))
		load_registers(c, session__command(session));
}

/* --- which stacks, and which of their blocks --- */

/* A stack that grows. Its sites differ in return addresses only. */
struct suspect {
	const struct match_site *sites;
	size_t n_sites, n_blocks;
	struct growth growth;
	struct site_why *why; /* who holds its blocks; owned by the profile after answer() */
	struct why_row *rows; /* one for each block that was followed */
	size_t n_rows;
};

struct asking {
	const struct record_config *config;
	struct profile *profile;
	struct suspect *suspects;
	size_t n_suspects;
	struct asked { /* ascending by address */
		uint64_t addr, size;
		size_t suspect;
	} asked[BLOCKS];
	size_t n_asked;
	int signals;
};

static int read_registers(pid_t pid, struct root_threads *threads, void *ctx)
{
	const struct asking *a = ctx;

	for (size_t i = 0; i < a->config->n_registers; i++)
		if (a->config->registers[i].pid == pid)
			return why_registers__add(a->config->registers[i].registers, threads);
	return why_registers__add(NULL, threads);
}

static int compare_suspects(const void *a, const void *b)
{
	const struct suspect *x = a, *y = b;

	return growth__compare(&x->growth, &y->growth);
}

static int compare_asked(const void *a, const void *b)
{
	const struct asked *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int find_suspects(struct asking *a, const struct match *match)
{
	const struct profile *p = a->profile;

	a->suspects = calloc(match->n_stacks + 1, sizeof(*a->suspects));
	if (!a->suspects)
		return -ENOMEM;
	for (size_t i = 0; i < match->n_stacks; i++) {
		struct suspect s = {.sites = &match->sites[match->first[i]],
				    .n_sites = match->first[i + 1] - match->first[i]};

		struct growth_sum growth = {};

		for (size_t k = 0; k < s.n_sites; k++) {
			const struct profile_site *site = &p->sites[s.sites[k].site];

			growth_sum__add(&growth, &site->growth);
			s.n_blocks += site->n_blocks;
		}
		s.growth = growth.total;
		if (s.n_blocks && s.growth.bytes_per_s > 0 && isfinite(s.growth.low))
			a->suspects[a->n_suspects++] = s;
	}
	qsort(a->suspects, a->n_suspects, sizeof(*a->suspects), compare_suspects);
	if (a->n_suspects > STACKS)
		a->n_suspects = STACKS;
	return 0;
}

/* Chooses n blocks of the stack, evenly spread over all its blocks. */
static void take_blocks(struct asking *a, size_t suspect, size_t n)
{
	const struct suspect *s = &a->suspects[suspect];
	size_t number = 0;

	for (size_t i = 0; i < s->n_sites; i++) {
		const struct profile_site *site = &a->profile->sites[s->sites[i].site];

		for (size_t k = 0; k < site->n_blocks; k++, number++)
			if (evenly__chosen(number, n, s->n_blocks))
				a->asked[a->n_asked++] = (struct asked){
					site->blocks[k].addr, site->blocks[k].size, suspect};
	}
}

static void choose_blocks(struct asking *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_suspects; i++) {
		size_t share = BLOCKS / a->n_suspects, has = a->suspects[i].n_blocks;

		take_blocks(a, i, has < share ? has : share);
	}
	qsort(a->asked, a->n_asked, sizeof(*a->asked), compare_asked);
	/* Windows may have sampled a block and also a later block at the same address. */
	for (size_t i = 0; i < a->n_asked; i++)
		if (!n || a->asked[i].addr != a->asked[n - 1].addr)
			a->asked[n++] = a->asked[i];
	a->n_asked = n;
}

/* --- the answers --- */

static struct asked *find_asked(struct asking *a, uint64_t addr)
{
	const struct asked key = {.addr = addr};

	return bsearch(&key, a->asked, a->n_asked, sizeof(key), compare_asked);
}

/* Counts the verdict on a block. doubt: the search was not good enough to call any block lost. */
static void count_verdict(struct site_why *why, enum why_verdict verdict, bool doubt)
{
	why->asked++;
	switch (verdict) {
	case WHY_HELD:
		why->held++;
		break;
	case WHY_LOST:
		++*(doubt ? &why->in_doubt : &why->lost);
		break;
	case WHY_IN_DOUBT:
		why->in_doubt++;
		break;
	default:
		why->gone++;
	}
}

/* Gives each stack the rows of its blocks. */
static int share_rows(struct asking *a, struct why_report *report)
{
	for (size_t i = 0; i < report->n_rows; i++) {
		const struct asked *asked = find_asked(a, report->rows[i].example);
		struct suspect *s = asked ? &a->suspects[asked->suspect] : NULL;

		if (!s)
			continue;
		if (VECTOR_ADD_ROOM(s->rows, s->n_rows))
			return -ENOMEM;
		s->rows[s->n_rows++] = report->rows[i];
		report->rows[i] = (struct why_row){};
	}
	return 0;
}

static int name_holders(struct suspect *s)
{
	struct site_why *why = s->why;

	why->followed = s->n_rows;
	s->n_rows = why_rows__merge(s->rows, s->n_rows);
	why->holders = calloc(SITE_HOLDERS, sizeof(*why->holders));
	if (!why->holders)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_rows && i < SITE_HOLDERS; i++) {
		why->holders[i] =
			(struct site_holder){why_row__text(&s->rows[i]), s->rows[i].blocks};
		if (!why->holders[i].path)
			return -ENOMEM;
		why->n_holders++;
	}
	return 0;
}

/* Returns the site that stands for the stack in other outputs: the site that holds most. */
static struct profile_site *largest_site(struct profile *p, const struct suspect *s)
{
	struct profile_site *largest = &p->sites[s->sites[0].site];

	for (size_t i = 1; i < s->n_sites; i++) {
		struct profile_site *site = &p->sites[s->sites[i].site];

		if (site->live.bytes > largest->live.bytes)
			largest = site;
	}
	return largest;
}

static int answer(struct asking *a, const struct why *why, struct why_report *report)
{
	struct profile *p = a->profile;
	int rc;

	for (size_t i = 0; i < a->n_suspects; i++) {
		struct suspect *s = &a->suspects[i];

		s->why = calloc(1, sizeof(*s->why));
		if (!s->why)
			return -ENOMEM;
		largest_site(p, s)->why = s->why;
	}
	for (size_t i = 0; i < why->n_blocks; i++)
		count_verdict(a->suspects[a->asked[i].suspect].why, why->blocks[i].verdict,
			      report->doubt[0]);
	rc = share_rows(a, report);
	for (size_t i = 0; i < a->n_suspects && !rc; i++)
		rc = name_holders(&a->suspects[i]);
	for (int i = 0; i < WHY_N_LOSSES && !rc; i++)
		rc = profile__add_lost(p, why_loss__name(i), report->losses[i]);
	if (!rc && report->doubt[0]) {
		p->why->doubt = strdup(report->doubt);
		rc = p->why->doubt ? 0 : -ENOMEM;
	}
	p->why->scans = why->scans;
	p->why->seconds = why->seconds;
	p->why->no_registers = !why->registers;
	return rc;
}

/* --- one process --- */

static bool is_cancelled(void *ctx)
{
	const struct asking *a = ctx;
	struct pollfd fd = {.fd = a->signals, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

DEFINE_CLEANUP(struct why_makers *, cleanup_makers, why_makers__free)

static int look(struct asking *a, struct error *err)
{
	_cleanup_(cleanup_makers) struct why_makers *makers = NULL;
	uint64_t addrs[BLOCKS], sizes[BLOCKS];
	const struct why_options options = {
		.choice = {.addrs = addrs, .sizes = sizes, .n_addrs = a->n_asked},
		.patience_s = PATIENCE_S,
		.within_s = WITHIN_S,
		.registers = read_registers,
		.cancelled = is_cancelled,
		.ctx = a,
	};
	struct why_report report;
	struct why why;
	int rc;

	for (size_t i = 0; i < a->n_asked; i++) {
		addrs[i] = a->asked[i].addr;
		sizes[i] = a->asked[i].size;
	}
	rc = why__run(a->profile->pid, &options, &why, err);
	if (rc)
		return rc;
	rc = why_makers__new(a->profile, &makers);
	if (!rc)
		rc = why_report__make(a->profile->pid, &why, true, makers, &report);
	if (!rc) {
		rc = answer(a, &why, &report);
		why_report__clear(&report);
	}
	why__clear(&why);
	return rc ? error__set(err, rc, "out of memory") : 0;
}

static void clear_asking(struct asking *a)
{
	for (size_t i = 0; i < a->n_suspects; i++)
		why_rows__free(a->suspects[i].rows, a->suspects[i].n_rows);
	free(a->suspects);
	free(a);
}

DEFINE_CLEANUP(struct asking *, cleanup_asking, clear_asking)

static int ask(const struct record_config *c, struct profile *p, bool late, int signals,
	       struct error *err)
{
	_cleanup_(cleanup_asking) struct asking *a = calloc(1, sizeof(*a));
	_cleanup_(match__clear) struct match match = {};
	const struct profile *only = p;
	int rc;

	p->why = calloc(1, sizeof(*p->why));
	if (!a || !p->why)
		return error__set(err, -ENOMEM, "out of memory");
	a->config = c;
	a->profile = p;
	a->signals = signals;
	if (p->ended)
		return error__set(err, -ESRCH, "the process had ended");
	if (!p->growth.stacks_known)
		return error__set(err, -ENODATA, "the run was too short to tell what grows");
	rc = match__stacks(&only, 1, &match_limits, &match, err);
	if (rc)
		return rc;
	rc = find_suspects(a, &match);
	if (rc)
		return error__set(err, rc, "out of memory");
	choose_blocks(a);
	if (!a->n_asked)
		return error__set(err, -ENOENT, "no live block of a growing stack was sampled");
	if (late)
		return error__set(err, -ETIMEDOUT, "other processes took too long");
	return look(a, err);
}

void record_why__ask(struct record_config *c, struct profile *const *profiles, size_t n,
		     int signals)
{
	double until = clock__monotonic_s() + RUN_S;

	for (size_t i = 0; c->why && i < n; i++) {
		struct profile *p = profiles[i];
		struct error err = {};

		if (p->what != PROFILE_HEAP)
			continue;
		if (!ask(c, p, clock__monotonic_s() > until, signals, &err) || !p->why)
			continue;
		p->why->failed = strdup(err.text);
	}
	for (size_t i = 0; i < c->n_registers; i++)
		registers__free(c->registers[i].registers);
	free(c->registers);
	c->registers = NULL;
	c->n_registers = 0;
}
