// SPDX-License-Identifier: BSD-2-Clause
/* The table of lines of a Python code object. It is read by the rules of each version. The input's
 * first byte is the object's first line. */
#include "fuzz.h"

#include "python/python.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_code code = {};

	if (!size)
		return 0;
	code.first_line = data[0];
	code.n_lines = size - 1;
	code.lines = malloc(size);
	require(code.lines);
	memcpy(code.lines, data + 1, size - 1);
	code.n_units = 8 * size;
	for (int kind = PYTHON_LOCATIONS; kind <= PYTHON_LINE_STEPS; kind++) {
		code.lines_kind = (enum python_lines)kind;
		for (uint64_t unit = 0; unit < 64; unit++)
			require(python_code__line(&code, unit) >= 0);
		require(!python_code__line(&code, 8 * size));
	}
	python_code__clear(&code);
	return 0;
}
