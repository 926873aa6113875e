// SPDX-License-Identifier: BSD-2-Clause
/* Fields that only memtrace writes. A later version may have more fields, and more numbers in a
 * field. Both are skipped. */
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "decode/pprof_parts.h"
#include "profile/origins.h"

#define MAX_TID INT32_MAX /* the kernel has no larger tid */

/* Reads n packed doubles of any value. */
static int take_any_reals(const struct pprof_file *file, const struct field *field, double *ret,
			  size_t n)
{
	int rc = wire__want_bytes(file->input, field);

	if (rc)
		return rc;
	if ((size_t)(field->bytes.end - field->bytes.pos) < n * sizeof(uint64_t))
		return pprof_file__bad(file, field->at, "fewer numbers than there should be");
	for (size_t i = 0; i < n; i++) {
		uint64_t wire;

		memcpy(&wire, field->bytes.pos + i * sizeof(wire), sizeof(wire));
		wire = le64toh(wire);
		memcpy(&ret[i], &wire, sizeof(wire));
	}
	return 0;
}

int pprof_own__take_reals(const struct pprof_file *file, const struct field *field, double most,
			  double *ret, size_t n)
{
	int rc = take_any_reals(file, field, ret, n);

	for (size_t i = 0; i < n && !rc; i++)
		if (!(ret[i] >= 0 && ret[i] <= most))
			rc = pprof_file__bad(file, field->at, "an impossible number");
	return rc;
}

static int64_t from_zigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ -(value & 1));
}

/* --- samples --- */

int pprof_own__read_remainders(const struct pprof_file *file, struct field *field,
			       double ret[OWN_REMAINDERS])
{
	bool done = false;
	uint64_t number;
	int rc;

	for (int i = 0; (rc = wire__next_number(file->input, field, &done, &number)) > 0; i++) {
		double parts = (double)from_zigzag(number);

		if (i >= OWN_REMAINDERS)
			continue;
		if (!(fabs(parts) <= 2 * OWN_PARTS))
			return pprof_file__bad(file, field->at, "an impossible number");
		ret[i] = parts / OWN_PARTS;
	}
	return rc;
}

static int read_stack_part(const struct pprof_file *file, const struct field *part,
			   struct pprof_own_stack *ret)
{
	double numbers[4] = {};
	int rc;

	switch (part->number) {
	case OWN_STACK_FREED:
		ret->has_freed = true;
		return pprof_own__take_reals(file, part, MAX_VALUE, ret->freed, 2);
	case OWN_STACK_LIFE:
		rc = pprof_own__take_reals(file, part, MAX_VALUE, numbers, 4);
		ret->life.low_objects = numbers[0];
		ret->life.low_bytes = numbers[1];
		ret->life.high_objects = numbers[2];
		ret->life.high_bytes = numbers[3];
		return rc;
	case OWN_STACK_LIVING:
		return pprof_own__take_reals(file, part, MAX_VALUE, ret->life.living, PROFILE_AGES);
	case OWN_STACK_HALF_LIFE:
		rc = pprof_own__take_reals(file, part, INFINITY, numbers, 3);
		ret->life.half_life = (struct half_life){numbers[0], numbers[1], numbers[2]};
		return rc;
	case OWN_STACK_PEAK:
		ret->has_peak = true;
		return pprof_own__take_reals(file, part, MAX_VALUE, ret->peak, 2);
	case OWN_STACK_WHY:
		ret->why = *part;
		ret->has_why = true;
		return wire__want_bytes(file->input, part);
	case OWN_STACK_BLOCKS:
		ret->blocks = *part;
		ret->has_blocks = true;
		return 0;
	case OWN_STACK_ENDED:
		ret->has_ended = true;
		return pprof_own__take_reals(file, part, MAX_VALUE, ret->life.ended, PROFILE_AGES);
	default:
		return 0;
	}
}

int pprof_own__read_stack(const struct pprof_file *file, const struct field *field,
			  struct pprof_own_stack *ret)
{
	struct bytes in = field->bytes;
	struct field part;
	int rc = wire__want_bytes(file->input, field);

	ret->any = true;
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = read_stack_part(file, &part, ret);
	return rc;
}

/* Reads the sampled blocks of a stack into the site. An address without a size is left out. */
static int set_blocks(const struct pprof_file *file, const struct field *field,
		      struct profile_site *site)
{
	struct field left = *field;
	uint64_t addr = 0, numbers[2], n = 0;
	bool done = false;
	int rc;

	free(site->blocks); /* if there are several such fields, the last one counts */
	site->blocks = NULL;
	site->n_blocks = 0;
	while ((rc = wire__next_number(file->input, &left, &done, &numbers[n % 2])) > 0) {
		if (n++ % 2 == 0)
			continue;
		addr += (uint64_t)from_zigzag(numbers[0]);
		if (from_zigzag(numbers[1]) < 0)
			return pprof_file__bad(file, field->at, "an impossible number");
		if (++file->draft->n_blocks > ORIGINS_MAX_KNOWN)
			return pprof_file__bad(file, field->at, "more blocks than any file has");
		if (draft__take(file->draft, sizeof(*site->blocks)))
			return pprof_file__too_much(file, field->at);
		if (VECTOR_ADD_ROOM(site->blocks, site->n_blocks))
			return -ENOMEM;
		site->blocks[site->n_blocks++] =
			(struct profile_block){addr, (uint64_t)from_zigzag(numbers[1])};
	}
	return rc;
}

int pprof_own__set_stack(const struct pprof_file *file, const struct pprof_own_stack *own,
			 struct profile_site *site)
{
	double ended[PROFILE_AGES];
	int rc;

	if (!own->any)
		return 0;
	if (own->has_freed) {
		site->freed_objects = own->freed[0];
		site->freed_bytes = own->freed[1];
	}
	if (own->has_peak) {
		site->peak_objects = own->peak[0];
		site->peak_bytes = own->peak[1];
	}
	memcpy(ended, own->has_ended ? own->life.ended : site->life.ended, sizeof(ended));
	site->life = own->life;
	memcpy(site->life.ended, ended, sizeof(ended));
	rc = own->has_blocks ? set_blocks(file, &own->blocks, site) : 0;
	return rc || !own->has_why ? rc : pprof_why__set_site(file, &own->why, site);
}

/* --- the profile --- */

static int read_thread(const struct pprof_file *file, const struct field *field)
{
	uint64_t tid = 0, text = 0;
	const struct pprof_member members[] = {
		{OWN_THREAD_TID, MEMBER_NUMBER, &tid},
		{OWN_THREAD_NAME, MEMBER_TEXT, &text},
	};
	_cleanup_free_ char *name = NULL;
	size_t thread;
	int rc = pprof_file__members(file, field->bytes, members, 2);

	if (rc)
		return rc;
	name = pprof_file__copy_text(file, text);
	return name ? draft__thread(file->draft, tid, name, &thread) : -ENOMEM;
}

static int read_transfer(const struct pprof_file *file, const struct field *field)
{
	struct draft *draft = file->draft;
	struct profile_transfer transfer = {};
	uint64_t owner = 0, freer = 0;
	const struct pprof_member members[] = {
		{OWN_TRANSFER_OWNER, MEMBER_NUMBER, &owner},
		{OWN_TRANSFER_FREER, MEMBER_NUMBER, &freer},
		{OWN_TRANSFER_SAMPLES, MEMBER_NUMBER, &transfer.samples},
	};
	struct bytes in = field->bytes;
	double amount[2] = {};
	struct field part;
	int rc = pprof_file__members(file, field->bytes, members, 3);

	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = part.number == OWN_TRANSFER_AMOUNT
			     ? pprof_own__take_reals(file, &part, MAX_VALUE, amount, 2)
			     : 0;
	if (rc)
		return rc;
	if (!owner || owner > MAX_TID || freer > MAX_TID)
		return pprof_file__bad(file, field->at, "an impossible thread number");
	if (draft->profile->n_transfers == draft->limits->items)
		return draft__refuse(draft, "more transfers than any profile has");
	if (draft__take(draft, 2 * sizeof(transfer))) /* arrays grow by doubling */
		return -EFBIG;
	transfer.owner = (uint32_t)owner;
	transfer.freer = (uint32_t)freer;
	transfer.objects = amount[0];
	transfer.bytes = amount[1];
	return profile__add_transfer(draft->profile, &transfer);
}

/* --- the resident set --- */

/* Limit for all rows together, so that sums do not overflow. */
#define MAX_RESIDENT (1ULL << 60)

struct resident_reader {
	const struct pprof_file *file;
	struct resident *resident;
	uint64_t sum; /* sum of all numbers so far */
};

/* Adds to reader->sum. False: the sum is larger than possible. */
static bool add_up(struct resident_reader *reader, uint64_t bytes)
{
	reader->sum += bytes < MAX_RESIDENT ? bytes : MAX_RESIDENT;
	return reader->sum < MAX_RESIDENT;
}

static enum resident_kind find_resident_kind(const struct pprof_file *file, uint64_t text)
{
	enum resident_kind kind = RESIDENT_HEAP_LIVE;

	while (kind < RESIDENT_N_KINDS &&
	       !pprof_file__text_is(file, text, resident_kind__name(kind)))
		kind++;
	/* a later version may have more kinds; their rows count as left out, so that the sum stays
	 * right */
	return kind < RESIDENT_N_KINDS ? kind : RESIDENT_LEFT_OUT;
}

/* Adds a row. After success, the resident set owns the row's name. */
static int add_resident_row(struct resident_reader *reader, const struct field *field,
			    const struct resident_row *row)
{
	struct draft *draft = reader->file->draft;
	struct resident *r = reader->resident;

	if (r->n && row->kind < r->rows[r->n - 1].kind)
		return pprof_file__bad(reader->file, field->at,
				       "a row of the resident set that is not in order");
	if (!add_up(reader, (uint64_t)(row->bytes < 0 ? -row->bytes : row->bytes)) ||
	    !add_up(reader, row->anonymous) || !add_up(reader, row->swap) ||
	    !add_up(reader, row->mappings))
		return pprof_file__bad(reader->file, field->at,
				       "more in the resident set than any machine has");
	if (draft__take(draft, 2 * sizeof(*row)) || draft__take(draft, strlen(row->name) + 1))
		return -EFBIG;
	if (VECTOR_ADD_ROOM(r->rows, r->n))
		return -ENOMEM;
	r->rows[r->n++] = *row;
	r->smaps_bytes += row->bytes;
	if (row->kind == RESIDENT_HEAP_LIVE || row->kind == RESIDENT_HEAP)
		r->heap_bytes += row->bytes;
	return 0;
}

static int read_resident_row(struct resident_reader *reader, const struct field *field)
{
	const struct pprof_file *file = reader->file;
	struct resident_row row = {};
	uint64_t kind = 0, name = 0, bytes = 0;
	const struct pprof_member members[] = {
		{OWN_ROW_KIND, MEMBER_TEXT, &kind},
		{OWN_ROW_NAME, MEMBER_TEXT, &name},
		{OWN_ROW_BYTES, MEMBER_NUMBER, &bytes},
		{OWN_ROW_ANONYMOUS, MEMBER_NUMBER, &row.anonymous},
		{OWN_ROW_SWAP, MEMBER_NUMBER, &row.swap},
		{OWN_ROW_MAPPINGS, MEMBER_NUMBER, &row.mappings},
	};
	struct bytes in = field->bytes;
	double interval[2] = {};
	struct field part;
	int rc = wire__want_bytes(file->input, field);

	if (!rc)
		rc = pprof_file__members(file, field->bytes, members,
					 sizeof(members) / sizeof(*members));
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = part.number == OWN_ROW_INTERVAL ? take_any_reals(file, &part, interval, 2) : 0;
	if (rc)
		return rc;
	row.kind = find_resident_kind(file, kind);
	row.bytes = from_zigzag(bytes);
	if (row.bytes == INT64_MIN)
		row.bytes = INT64_MAX; /* add_resident_row() refuses this number */
	row.interval = (struct interval){interval[0], interval[1]};
	row.name = pprof_file__copy_text(file, name);
	rc = row.name ? add_resident_row(reader, field, &row) : -ENOMEM;
	if (rc)
		free(row.name);
	return rc;
}

/* Reads the result of a census. Its numbers must add up, because code that prints them subtracts
 * some of them from others. */
static int read_resident_census(struct resident_reader *reader, const struct field *field)
{
	const struct pprof_file *file = reader->file;
	struct heap_slack slack = {};
	const struct pprof_member members[] = {
		{OWN_SLACK_PAGES, MEMBER_NUMBER, &slack.pages},
		{OWN_SLACK_LIVE, MEMBER_NUMBER, &slack.live},
		{OWN_SLACK_WHOLE_FREE, MEMBER_NUMBER, &slack.whole_free},
		{OWN_SLACK_TRIMMABLE, MEMBER_NUMBER, &slack.trimmable},
		{OWN_SLACK_FREE, MEMBER_NUMBER, &slack.free},
		{OWN_SLACK_CACHED, MEMBER_NUMBER, &slack.cached},
	};
	int rc = wire__want_bytes(file->input, field);

	if (!rc)
		rc = pprof_file__members(file, field->bytes, members,
					 sizeof(members) / sizeof(*members));
	if (rc)
		return rc;
	if (!heap_slack__adds_up(&slack) || !add_up(reader, slack.pages) ||
	    !add_up(reader, slack.cached))
		return pprof_file__bad(file, field->at,
				       "a census of the resident set that does not add up");
	return draft__take(file->draft, sizeof(slack))
		       ? -EFBIG
		       : resident__take_census(reader->resident, &slack);
}

static int take_census_failed(struct resident_reader *reader, uint64_t text)
{
	const struct pprof_file *file = reader->file;
	struct resident *r = reader->resident;

	if (pprof_file__text_is(file, text, ""))
		return 0;
	r->census_failed = pprof_file__copy_text(file, text);
	if (!r->census_failed)
		return -ENOMEM;
	return draft__take(file->draft, strlen(r->census_failed) + 1) ? -EFBIG : 0;
}

static int read_resident_numbers(struct resident_reader *reader, const struct field *field)
{
	const struct pprof_file *file = reader->file;
	struct resident *r = reader->resident;
	uint64_t vmrss = 0, split = 0, windowed = 0, from_start = 0, followed = 0, failed = 0;
	const struct pprof_member members[] = {
		{OWN_RESIDENT_VMRSS, MEMBER_NUMBER, &vmrss},
		{OWN_RESIDENT_SWAP, MEMBER_NUMBER, &r->swap_bytes},
		{OWN_RESIDENT_HUGE, MEMBER_NUMBER, &r->huge_bytes},
		{OWN_RESIDENT_HUGETLB, MEMBER_NUMBER, &r->hugetlb_bytes},
		{OWN_RESIDENT_HEAP_SPLIT, MEMBER_NUMBER, &split},
		{OWN_RESIDENT_HEAP_WINDOWED, MEMBER_NUMBER, &windowed},
		{OWN_RESIDENT_FROM_START, MEMBER_NUMBER, &from_start},
		{OWN_RESIDENT_FOLLOWED, MEMBER_NUMBER, &followed},
		{OWN_RESIDENT_SKIPPED, MEMBER_NUMBER, &r->skipped},
		{OWN_RESIDENT_CENSUS_FAILED, MEMBER_TEXT, &failed},
	};
	int rc = pprof_file__members(file, field->bytes, members,
				     sizeof(members) / sizeof(*members));

	if (rc)
		return rc;
	if (!add_up(reader, vmrss))
		return pprof_file__bad(file, field->at,
				       "more in the resident set than any machine has");
	r->vmrss_bytes = (int64_t)vmrss;
	r->heap_split = split;
	r->heap_windowed = windowed;
	r->from_start = from_start;
	r->followed = followed;
	return take_census_failed(reader, failed);
}

/* Are the first two rows the heap's rows? Code that prints the resident set relies on this
 * order. */
static bool has_heap_rows(const struct resident *r)
{
	size_t n = 0;

	while (n < r->n && r->rows[n].kind <= RESIDENT_HEAP)
		n++;
	return n == 2 && r->rows[0].kind == RESIDENT_HEAP_LIVE && r->rows[1].kind == RESIDENT_HEAP;
}

static int read_resident(const struct pprof_file *file, const struct field *field)
{
	struct profile *profile = file->draft->profile;
	struct resident *r = calloc(1, sizeof(*r));
	struct resident_reader reader = {.file = file, .resident = r};
	struct bytes in = field->bytes;
	struct field part;
	int rc;

	if (!r)
		return -ENOMEM;
	/* if the file has several resident sets, the last one counts */
	resident__free(profile->resident);
	profile->resident = r;
	if (draft__take(file->draft, sizeof(*r)))
		return -EFBIG;
	rc = read_resident_numbers(&reader, field);
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0) {
		if (part.number == OWN_RESIDENT_ROW)
			rc = read_resident_row(&reader, &part);
		else if (part.number == OWN_RESIDENT_CENSUS)
			rc = read_resident_census(&reader, &part);
		else if (part.number == OWN_RESIDENT_FOLLOWED_S) {
			r->stopped_s.known = true;
			rc = pprof_own__take_reals(file, &part, MAX_VALUE, &r->stopped_s.value, 1);
		} else
			rc = 0;
	}
	if (!rc && r->heap_split && !has_heap_rows(r))
		rc = pprof_file__bad(file, field->at, "a resident set without its heap");
	return rc;
}

/* --- probes --- */

static int read_probe(const struct pprof_file *file, const struct field *field)
{
	static const char *const kinds[] = {"session", "multi", "perf", "tracepoint"};
	struct draft *draft = file->draft;
	struct profile_probe probe = {.kind = ""};
	uint64_t function = 0, object = 0, instruction = 0, kind = 0, emulated = 0;
	const struct pprof_member members[] = {
		{OWN_PROBE_FUNCTION, MEMBER_TEXT, &function},
		{OWN_PROBE_OBJECT, MEMBER_TEXT, &object},
		{OWN_PROBE_INSTRUCTION, MEMBER_TEXT, &instruction},
		{OWN_PROBE_KIND, MEMBER_TEXT, &kind},
		{OWN_PROBE_OFFSET, MEMBER_NUMBER, &probe.offset},
		{OWN_PROBE_EMULATED, MEMBER_NUMBER, &emulated},
	};
	_cleanup_free_ char *a = NULL, *b = NULL, *c = NULL;
	struct bytes in = field->bytes;
	struct field part;
	int rc = pprof_file__members(file, field->bytes, members,
				     sizeof(members) / sizeof(*members));

	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0)
		rc = part.number == OWN_PROBE_COST_NS
			     ? pprof_own__take_reals(file, &part, MAX_VALUE, &probe.cost_ns, 1)
			     : 0;
	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (pprof_file__text_is(file, kind, kinds[i]))
			probe.kind = kinds[i];
	probe.emulated = emulated;
	probe.function = a = pprof_file__copy_text(file, function);
	probe.object = b = pprof_file__copy_text(file, object);
	probe.instruction = c = pprof_file__copy_text(file, instruction);
	if (!a || !b || !c)
		return -ENOMEM;
	if (draft->profile->n_probes == draft->limits->items)
		return draft__refuse(draft, "more probes than any profile has");
	if (draft__take(draft, 2 * sizeof(probe)) || draft__take(draft, strlen(a) + 1) ||
	    draft__take(draft, strlen(b) + 1) || draft__take(draft, strlen(c) + 1))
		return -EFBIG;
	return profile__add_probe(draft->profile, &probe);
}

/* Reads why the process was not traced. If there are several such fields, the first one counts. */
static int read_not_traced(const struct pprof_file *file, const struct field *field)
{
	struct profile *profile = file->draft->profile;
	struct bytes text = pprof_file__text(file, field->value);
	_cleanup_free_ char *copy = NULL;
	int rc = wire__want_number(file->input, field);

	if (rc || text.pos == text.end || profile->not_traced)
		return rc;
	copy = pprof_file__copy_text(file, field->value);
	if (!copy)
		return -ENOMEM;
	/* Characters other than ASCII are replaced, because the text is printed on terminals
	 * unchanged. memtrace itself writes only ASCII into this field. */
	for (char *at = copy; *at; at++)
		*at = *at < ' ' || *at > '~' ? '?' : *at;
	if (draft__take(file->draft, strlen(copy) + 1))
		return -EFBIG;
	profile->not_traced = profile__keep(profile, copy);
	return profile->not_traced ? 0 : -ENOMEM;
}

static int read_field(const struct pprof_file *file, const struct field *field)
{
	struct profile *profile = file->draft->profile;
	int rc;

	switch (field->number) {
	case PROFILE_OWN_VERSION:
		rc = wire__want_number(file->input, field);
		profile->own_version =
			(unsigned)(field->value < UINT32_MAX ? field->value : UINT32_MAX);
		return rc;
	case PROFILE_OWN_LIFE:
		profile->life.heights_known = field->value;
		return wire__want_number(file->input, field);
	case PROFILE_OWN_THREAD:
		return wire__want_bytes(file->input, field) ?: read_thread(file, field);
	case PROFILE_OWN_TRANSFER:
		return wire__want_bytes(file->input, field) ?: read_transfer(file, field);
	case PROFILE_OWN_RESIDENT:
		return wire__want_bytes(file->input, field) ?: read_resident(file, field);
	case PROFILE_OWN_PROBE:
		return wire__want_bytes(file->input, field) ?: read_probe(file, field);
	case PROFILE_OWN_NOT_TRACED:
		return read_not_traced(file, field);
	case PROFILE_OWN_WHY:
		return wire__want_bytes(file->input, field) ?: pprof_why__read(file, field);
	default:
		return 0;
	}
}

int pprof_own__read(const struct pprof_file *file)
{
	struct bytes in = wire__message(file->input);
	struct field field;
	struct profile *profile = file->draft->profile;
	int rc = 0;

	while (!rc && (rc = wire__next(file->input, &in, &field)) > 0) {
		rc = read_field(file, &field);
		if (rc == -EFBIG)
			rc = pprof_file__too_much(file, field.at);
	}
	profile->life.living_known = profile->life.ages_known && profile->own_version;
	return rc;
}
