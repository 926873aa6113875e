// SPDX-License-Identifier: BSD-2-Clause
/* What memtrace alone reads of its files: see enum pprof_own_field. */
#include "encode/pprof_parts.h"

#include <endian.h>
#include <string.h>

static void message__reals(struct message *m, int field, const double *values, size_t n)
{
	uint64_t wire[16];

	for (size_t i = 0; i < n; i++) {
		memcpy(&wire[i], &values[i], sizeof(wire[i]));
		wire[i] = htole64(wire[i]);
	}
	message__bytes(m, field, wire, n * sizeof(*wire));
}

/* Those that no sample names. */
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

void pprof_own__put(struct pprof *p)
{
	pprof__put_number(p, PROFILE_OWN_VERSION, PPROF_OWN_VERSION);
	put_threads(p);
	put_transfers(p);
}
