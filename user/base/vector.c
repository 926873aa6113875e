// SPDX-License-Identifier: BSD-2-Clause
#include "base/vector.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ROOM 4

static int resize(void *array, size_t room, size_t element_size)
{
	void *elements;

	if (room > PTRDIFF_MAX / element_size)
		return -ENOMEM;
	memcpy(&elements, array, sizeof(elements)); /* a pointer of any type */
	elements = reallocarray(elements, room, element_size);
	if (!elements)
		return -ENOMEM;
	memcpy(array, &elements, sizeof(elements));
	return 0;
}

int vector__reserve(void *array, size_t *room, size_t n, size_t element_size)
{
	size_t wanted = *room < LEAST_ROOM ? LEAST_ROOM : *room;
	int rc;

	if (n <= *room)
		return 0;
	while (wanted < n && wanted <= SIZE_MAX / 2)
		wanted *= 2;
	if (wanted < n)
		return -ENOMEM;
	rc = resize(array, wanted, element_size);
	if (!rc)
		*room = wanted;
	return rc;
}

int vector__add_room(void *array, size_t n, size_t element_size)
{
	if (n & (n - 1))
		return 0;
	if (n > SIZE_MAX / 2)
		return -ENOMEM;
	return resize(array, n ? 2 * n : 1, element_size);
}
