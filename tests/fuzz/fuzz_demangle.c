// SPDX-License-Identifier: BSD-2-Clause
/* Demangles a linker's symbol name. */
#include "fuzz.h"

#include "symbolize/clean.h"
#include "symbolize/symtab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *mangled = fuzz_string(data, size), *name = demangle(mangled);

	require(name && strlen(name) <= NAME_MAX_BYTES);
	require(!name[0] == !mangled[0]);
	for (const char *p = name; *p; p += printable_sequence((const unsigned char *)p))
		require(printable_sequence((const unsigned char *)p));
	free(name);
	free(mangled);
	return 0;
}
