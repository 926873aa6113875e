// SPDX-License-Identifier: BSD-2-Clause
/* The texts for functions that are not essential and cannot be probed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "capture/allocator.h"

/* mimalloc is traced also without the functions that end its heaps. Such a function allocates
 * nothing, so no allocation is missing. */
static void the_end_of_a_pool_is_missed(void **state)
{
	struct alloc_point points[] = {
		{.name = "mi_free", .func.role = ROLE_FREE},
		{.name = "mi_malloc", .func.role = ROLE_ALLOC},
		{.name = "mi_zalloc", .func.role = ROLE_ALLOC},
		{.name = "mi_heap_destroy", .func.role = ROLE_POOL_END},
		{.name = "mi_heap_delete", .func.role = ROLE_POOL_LEFT},
	};
	const struct allocator allocator = {.family = "mimalloc", .points = points, .n_points = 5};

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(alloc_point__is_essential(&allocator, i), i < 2);
	assert_non_null(strstr(alloc_point__loss(&points[2]), "allocates is missing"));
	assert_non_null(strstr(alloc_point__loss(&points[3]), "look live"));
	assert_non_null(strstr(alloc_point__loss(&points[4]), "look freed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_of_a_pool_is_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
