// SPDX-License-Identifier: BSD-2-Clause
/* Names the functions at given addresses of one ELF file, as `addr2line -f -e FILE` does.
 * Usage: names [-C] FILE <LIST. Each line of LIST is a virtual address in hexadecimal. For each,
 * one line is printed: the name, or "??" if there is none. -C demangles. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbolize/symtab.h"

#define PATIENCE_S 600

DEFINE_CLEANUP(struct symtab *, cleanup_symtab, symtab__free)

int main(int argc, char **argv)
{
	_cleanup_(cleanup_symtab) struct symtab *symtab = NULL;
	int demangled = argc == 3 && !strcmp(argv[1], "-C"), debug_fd = -1, err;
	_cleanup_close_ int fd = -1;
	const char *path = argv[argc - 1];
	char line[64];

	if (argc != 2 + demangled) {
		fputs("usage: names [-C] FILE <LIST\n", stderr);
		return 2;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 ? -errno
		     : symtab__open(fd, &debug_fd, SYMTAB_FUNCTIONS, PATIENCE_S, NULL, &symtab);
	if (err) {
		fprintf(stderr, "names: %s: %s\n", path, strerror(-err));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		const char *name = symtab__find(symtab, strtoull(line, NULL, 16), NULL);
		_cleanup_free_ char *pretty = demangled && name ? demangle(name) : NULL;

		puts(pretty ? pretty : name ? name : "??");
	}
	return 0;
}
