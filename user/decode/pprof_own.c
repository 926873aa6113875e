// SPDX-License-Identifier: BSD-2-Clause
/* What memtrace alone has in its files. A later version may have more fields, and more numbers in
 * one: these are skipped. */
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

#define MAX_TID INT32_MAX /* the kernel has none beyond */

/* Takes n packed doubles, each of 0 to most. */
static int take_reals(const struct pprof_file *file, const struct field *field, double most,
		      double *ret, size_t n)
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
		if (!(ret[i] >= 0 && ret[i] <= most))
			return pprof_file__bad(file, field->at, "a number that cannot be");
	}
	return 0;
}

/* --- samples --- */

int pprof_own__read_remainders(const struct pprof_file *file, struct field *field,
			       double ret[OWN_REMAINDERS])
{
	bool done = false;
	uint64_t number;
	int rc;

	for (int i = 0; (rc = wire__next_number(file->input, field, &done, &number)) > 0; i++) {
		double parts = (double)(int64_t)(number >> 1 ^ -(number & 1));

		if (i >= OWN_REMAINDERS)
			continue;
		if (!(fabs(parts) <= 2 * OWN_PARTS))
			return pprof_file__bad(file, field->at, "a number that cannot be");
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
		return take_reals(file, part, MAX_VALUE, ret->freed, 2);
	case OWN_STACK_LIFE:
		rc = take_reals(file, part, MAX_VALUE, numbers, 4);
		ret->life.low_objects = numbers[0];
		ret->life.low_bytes = numbers[1];
		ret->life.high_objects = numbers[2];
		ret->life.high_bytes = numbers[3];
		return rc;
	case OWN_STACK_LIVING:
		return take_reals(file, part, MAX_VALUE, ret->life.living, PROFILE_AGES);
	case OWN_STACK_HALF_LIFE:
		rc = take_reals(file, part, INFINITY, numbers, 3);
		ret->life.half_life = (struct half_life){numbers[0], numbers[1], numbers[2]};
		return rc;
	case OWN_STACK_PEAK:
		ret->has_peak = true;
		return take_reals(file, part, MAX_VALUE, ret->peak, 2);
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

void pprof_own__set_stack(const struct pprof_own_stack *own, struct profile_site *site)
{
	double ended[PROFILE_AGES];

	if (!own->any)
		return;
	if (own->has_freed) {
		site->freed_objects = own->freed[0];
		site->freed_bytes = own->freed[1];
	}
	if (own->has_peak) {
		site->peak_objects = own->peak[0];
		site->peak_bytes = own->peak[1];
	}
	memcpy(ended, site->life.ended, sizeof(ended));
	site->life = own->life;
	memcpy(site->life.ended, ended, sizeof(ended));
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
	return name ? making__thread(file->making, tid, name, &thread) : -ENOMEM;
}

static int read_transfer(const struct pprof_file *file, const struct field *field)
{
	struct making *making = file->making;
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
			     ? take_reals(file, &part, MAX_VALUE, amount, 2)
			     : 0;
	if (rc)
		return rc;
	if (!owner || owner > MAX_TID || freer > MAX_TID)
		return pprof_file__bad(file, field->at, "a number of a thread that cannot be");
	if (making->profile->n_transfers == making->limits->items)
		return making__refuse(making, "more transfers than any profile has");
	if (making__take(making, 2 * sizeof(transfer))) /* arrays grow by doubling */
		return -EFBIG;
	transfer.owner = (uint32_t)owner;
	transfer.freer = (uint32_t)freer;
	transfer.objects = amount[0];
	transfer.bytes = amount[1];
	return profile__add_transfer(making->profile, &transfer);
}

static int read_field(const struct pprof_file *file, const struct field *field)
{
	struct profile *profile = file->making->profile;
	int rc;

	switch (field->number) {
	case PROFILE_OWN_VERSION:
		rc = wire__want_number(file->input, field);
		profile->own_version =
			(unsigned)(field->value < UINT32_MAX ? field->value : UINT32_MAX);
		return rc;
	case PROFILE_OWN_LIFE:
		profile->has_life = field->value;
		return wire__want_number(file->input, field);
	case PROFILE_OWN_THREAD:
		return wire__want_bytes(file->input, field) ?: read_thread(file, field);
	case PROFILE_OWN_TRANSFER:
		return wire__want_bytes(file->input, field) ?: read_transfer(file, field);
	default:
		return 0;
	}
}

int pprof_own__read(const struct pprof_file *file)
{
	struct bytes in = wire__message(file->input);
	struct field field;
	struct profile *profile = file->making->profile;
	int rc = 0;

	while (!rc && (rc = wire__next(file->input, &in, &field)) > 0) {
		rc = read_field(file, &field);
		if (rc == -EFBIG)
			rc = pprof_file__too_much(file, field.at);
	}
	profile->no_living = !profile->own_version;
	return rc;
}
