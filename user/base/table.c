// SPDX-License-Identifier: BSD-2-Clause
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

#define LEAST_SLOTS 64

int table__reserve(struct table *table, size_t n)
{
	size_t n_slots = table->n_slots ? table->n_slots : LEAST_SLOTS;
	uint32_t *slots;

	if (n > UINT32_MAX)
		return -ENOMEM;
	while (n_slots / 2 < n)
		n_slots *= 2;
	if (n_slots == table->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(table->slots);
	*table = (struct table){slots, n_slots};
	return 1;
}

void table__clear(struct table *table)
{
	free(table->slots);
	*table = (struct table){};
}
