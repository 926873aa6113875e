/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow by doubling. */
#ifndef MEMTRACE_BASE_VECTOR_H
#define MEMTRACE_BASE_VECTOR_H

#include <stddef.h>

/* Makes room for n elements. `array` is a pointer to an allocation of `room` elements. `room` is a
 * size_t. The macro changes both variables. 0; -ENOMEM: nothing has changed. */
#define VECTOR_RESERVE(array, room, n) vector__reserve(&(array), &(room), (n), sizeof(*(array)))

/* Makes room for one more element behind the first n. The allocation doubles whenever n is a power
 * of two, so its size need not be stored. The caller may remove elements of such an array, but must
 * not make the allocation smaller. 0; -ENOMEM: nothing has changed. */
#define VECTOR_ADD_ROOM(array, n) vector__add_room(&(array), (n), sizeof(*(array)))

/* The functions behind these macros. array: the address of the pointer, of any type. */
int vector__reserve(void *array, size_t *room, size_t n, size_t element_size);
int vector__add_room(void *array, size_t n, size_t element_size);

#endif
