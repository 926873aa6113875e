// SPDX-License-Identifier: BSD-2-Clause
/* The fields that only memtrace reads: see enum pprof_own_field. */
#include "encode/pprof_parts.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/evenly.h"
#include "profile/origins.h"

static void message__reals(struct message *m, int field, const double *values, size_t n)
{
	uint64_t wire[16];

	for (size_t i = 0; i < n; i++) {
		memcpy(&wire[i], &values[i], sizeof(wire[i]));
		wire[i] = htole64(wire[i]);
	}
	message__bytes(m, field, wire, n * sizeof(*wire));
}

static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

/* Adds the values unless all are 0: an absent field means 0. */
static bool add_known(struct message *m, int field, const double *values, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		any |= values[i] != 0;
	if (any)
		message__reals(m, field, values, n);
	return any;
}

bool pprof_own__add_remainders(struct pprof *p, const double values[OWN_REMAINDERS],
			       const uint64_t written[OWN_REMAINDERS])
{
	int64_t parts[OWN_REMAINDERS];
	bool any = false;

	for (int i = 0; i < OWN_REMAINDERS; i++) {
		double remainder = fmax(values[i], 0) - (double)written[i];

		/* a value above the limit for readers was cut, so it has no rounding error to
		 * store */
		parts[i] = fabs(remainder) < 2 ? llround(OWN_PARTS * remainder) : 0;
		any |= parts[i] != 0;
	}
	if (!any)
		return false;
	p->part.len = 0;
	for (int i = 0; i < OWN_REMAINDERS; i++)
		message__varint(&p->part, zigzag(parts[i]));
	message__bytes(&p->message, SAMPLE_OWN_REMAINDERS, p->part.bytes, p->part.len);
	p->part.len = 0;
	return true;
}

/* Is `freed` just `allocated` minus `live`? Then readers can compute it. */
static bool is_difference(double freed, double allocated, double live)
{
	return fabs(fmax(allocated - live, 0) - freed) <= 1 / OWN_PARTS;
}

static bool are_whole(const double *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (values[i] != rint(values[i]))
			return false;
	return true;
}

/* Adds to a stack's fields who holds the stack's blocks. */
static void add_site_why(struct pprof *p, const struct site_why *why)
{
	struct message of = {}, holder = {};

	message__uint(&of, OWN_SITE_WHY_HELD, why->held);
	message__uint(&of, OWN_SITE_WHY_LOST, why->lost);
	message__uint(&of, OWN_SITE_WHY_IN_DOUBT, why->in_doubt);
	message__uint(&of, OWN_SITE_WHY_GONE, why->gone);
	message__uint(&of, OWN_SITE_WHY_FOLLOWED, why->followed);
	for (size_t i = 0; i < why->n_holders; i++) {
		holder.len = 0;
		message__uint(&holder, OWN_HOLDER_PATH, pprof__string(p, why->holders[i].path));
		message__uint(&holder, OWN_HOLDER_BLOCKS, why->holders[i].blocks);
		message__bytes(&of, OWN_SITE_WHY_HOLDER, holder.bytes, holder.len);
	}
	message__bytes(&p->part, OWN_STACK_WHY, of.bytes, of.len);
	p->part.failed |= of.failed || holder.failed;
	free(of.bytes);
	free(holder.bytes);
}

static bool add_blocks(struct pprof *p, const struct profile_site *site)
{
	struct message list = {};
	uint64_t before = 0;

	for (size_t i = 0; i < site->n_blocks; i++) {
		const struct profile_block *block = &site->blocks[i];

		if (!evenly__chosen(p->next_block++, ORIGINS_MAX_KNOWN, p->n_blocks))
			continue;
		message__varint(&list, zigzag((int64_t)(block->addr - before)));
		message__varint(&list, zigzag((int64_t)block->size));
		before = block->addr;
	}
	if (list.len)
		message__bytes(&p->part, OWN_STACK_BLOCKS, list.bytes, list.len);
	p->part.failed |= list.failed;
	free(list.bytes);
	return list.len;
}

bool pprof_own__add_stack(struct pprof *p, const struct profile_site *site)
{
	const struct profile *profile = p->profile;
	const struct site_life *life = &site->life;
	const double freed[] = {site->freed_objects, site->freed_bytes},
		     heights[] = {life->low_objects, life->low_bytes, life->high_objects,
				  life->high_bytes},
		     half_life[] = {life->half_life.s, life->half_life.low_s,
				    life->half_life.high_s},
		     peak[] = {site->peak_objects, site->peak_bytes};
	struct message *m = &p->part;
	bool any = false;

	m->len = 0;
	if (!profile->no_allocated &&
	    !(is_difference(freed[0], site->alloc_objects, site->live.objects) &&
	      is_difference(freed[1], site->alloc_bytes, site->live.bytes))) {
		message__reals(m, OWN_STACK_FREED, freed, 2);
		any = true;
	}
	if (profile->life.heights_known)
		any |= add_known(m, OWN_STACK_LIFE, heights, 4);
	if (profile->life.living_known)
		any |= add_known(m, OWN_STACK_LIVING, life->living, PROFILE_AGES);
	if (profile->life.ages_known)
		any |= add_known(m, OWN_STACK_HALF_LIFE, half_life, 3);
	if (profile->life.ages_known && !are_whole(life->ended, PROFILE_AGES))
		any |= add_known(m, OWN_STACK_ENDED, life->ended, PROFILE_AGES);
	if (profile->peak.known && !are_whole(peak, 2))
		any |= add_known(m, OWN_STACK_PEAK, peak, 2);
	if (site->why) {
		add_site_why(p, site->why);
		any = true;
	}
	any |= add_blocks(p, site);
	if (any)
		message__bytes(&p->message, SAMPLE_OWN_STACK, m->bytes, m->len);
	m->len = 0;
	return any;
}

/* Puts the threads that no sample names. */
static void put_threads(struct pprof *p)
{
	for (size_t i = 0; i < p->profile->n_threads && !p->error; i++) {
		const struct profile_thread *thread = &p->profile->threads[i];

		if (p->named[i])
			continue;
		message__uint(&p->message, OWN_THREAD_TID, thread->tid);
		message__uint(&p->message, OWN_THREAD_NAME, pprof__string(p, thread->name));
		pprof__put_message(p, PROFILE_OWN_THREAD);
	}
}

static void put_transfers(struct pprof *p)
{
	for (size_t i = 0; i < p->profile->n_transfers && !p->error; i++) {
		const struct profile_transfer *transfer = &p->profile->transfers[i];
		const double amount[] = {transfer->objects, transfer->bytes};

		message__uint(&p->message, OWN_TRANSFER_OWNER, transfer->owner);
		message__uint(&p->message, OWN_TRANSFER_FREER, transfer->freer);
		message__uint(&p->message, OWN_TRANSFER_SAMPLES, transfer->samples);
		message__reals(&p->message, OWN_TRANSFER_AMOUNT, amount, 2);
		pprof__put_message(p, PROFILE_OWN_TRANSFER);
	}
}

static void add_census(struct pprof *p, const struct heap_slack *census)
{
	struct message *m = &p->part;

	m->len = 0;
	message__uint(m, OWN_SLACK_PAGES, census->pages);
	message__uint(m, OWN_SLACK_LIVE, census->live);
	message__uint(m, OWN_SLACK_WHOLE_FREE, census->whole_free);
	message__uint(m, OWN_SLACK_TRIMMABLE, census->trimmable);
	message__uint(m, OWN_SLACK_FREE, census->free);
	message__uint(m, OWN_SLACK_CACHED, census->cached);
	message__bytes(&p->message, OWN_RESIDENT_CENSUS, m->bytes, m->len);
}

static void put_resident(struct pprof *p, const struct resident *r)
{
	struct message *m = &p->message;

	message__uint(m, OWN_RESIDENT_VMRSS, (uint64_t)r->vmrss_bytes);
	message__uint(m, OWN_RESIDENT_SWAP, r->swap_bytes);
	message__uint(m, OWN_RESIDENT_HUGE, r->huge_bytes);
	message__uint(m, OWN_RESIDENT_HUGETLB, r->hugetlb_bytes);
	message__uint(m, OWN_RESIDENT_HEAP_SPLIT, r->heap_split);
	message__uint(m, OWN_RESIDENT_HEAP_WINDOWED, r->heap_windowed);
	message__uint(m, OWN_RESIDENT_FROM_START, r->from_start);
	message__uint(m, OWN_RESIDENT_FOLLOWED, r->followed);
	if (r->stopped_s.known)
		message__reals(m, OWN_RESIDENT_FOLLOWED_S, &r->stopped_s.value, 1);
	message__uint(m, OWN_RESIDENT_SKIPPED, r->skipped);
	for (size_t i = 0; i < r->n; i++) {
		const struct resident_row *row = &r->rows[i];
		const double interval[] = {row->interval.low, row->interval.high};

		p->part.len = 0;
		message__uint(&p->part, OWN_ROW_KIND,
			      pprof__string(p, resident_kind__name(row->kind)));
		message__uint(&p->part, OWN_ROW_NAME, pprof__string(p, row->name));
		message__uint(&p->part, OWN_ROW_BYTES, zigzag(row->bytes));
		add_known(&p->part, OWN_ROW_INTERVAL, interval, 2);
		message__uint(&p->part, OWN_ROW_ANONYMOUS, row->anonymous);
		message__uint(&p->part, OWN_ROW_SWAP, row->swap);
		message__uint(&p->part, OWN_ROW_MAPPINGS, row->mappings);
		message__bytes(m, OWN_RESIDENT_ROW, p->part.bytes, p->part.len);
	}
	if (r->census)
		add_census(p, r->census);
	message__uint(m, OWN_RESIDENT_CENSUS_FAILED,
		      r->census_failed ? pprof__string(p, r->census_failed) : 0);
	p->part.len = 0;
	pprof__put_message(p, PROFILE_OWN_RESIDENT);
}

static void put_why(struct pprof *p, const struct profile_why *why)
{
	struct message *m = &p->message;

	message__uint(m, OWN_WHY_FAILED, why->failed ? pprof__string(p, why->failed) : 0);
	message__uint(m, OWN_WHY_DOUBT, why->doubt ? pprof__string(p, why->doubt) : 0);
	message__uint(m, OWN_WHY_SCANS, why->scans);
	add_known(m, OWN_WHY_SECONDS, &why->seconds, 1);
	message__uint(m, OWN_WHY_NO_REGISTERS, why->no_registers);
	pprof__put_message(p, PROFILE_OWN_WHY);
}

static void put_probes(struct pprof *p)
{
	for (size_t i = 0; i < p->profile->n_probes && !p->error; i++) {
		const struct profile_probe *probe = &p->profile->probes[i];
		struct message *m = &p->message;

		message__uint(m, OWN_PROBE_FUNCTION, pprof__string(p, probe->function));
		message__uint(m, OWN_PROBE_OBJECT, pprof__string(p, probe->object));
		message__uint(m, OWN_PROBE_INSTRUCTION, pprof__string(p, probe->instruction));
		message__uint(m, OWN_PROBE_KIND, pprof__string(p, probe->kind));
		message__uint(m, OWN_PROBE_OFFSET, probe->offset);
		message__uint(m, OWN_PROBE_EMULATED, probe->emulated);
		add_known(m, OWN_PROBE_COST_NS, &probe->cost_ns, 1);
		pprof__put_message(p, PROFILE_OWN_PROBE);
	}
}

void pprof_own__put(struct pprof *p)
{
	pprof__put_number(p, PROFILE_OWN_VERSION, PPROF_OWN_VERSION);
	pprof__put_number(p, PROFILE_OWN_LIFE, p->profile->life.heights_known);
	put_threads(p);
	put_transfers(p);
	if (p->profile->resident && !p->error)
		put_resident(p, p->profile->resident);
	if (p->profile->why && !p->error)
		put_why(p, p->profile->why);
	put_probes(p);
	if (p->profile->not_traced)
		pprof__put_number(p, PROFILE_OWN_NOT_TRACED,
				  pprof__string(p, p->profile->not_traced));
}
