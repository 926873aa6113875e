# SPDX-License-Identifier: BSD-2-Clause
"""Programs and libraries with huge amounts of code. Tests and benchmarks check that memtrace does
not hang on them."""
import os
import struct
import subprocess

ALLOCATOR = ("void *mi_malloc(unsigned long n) { return (void *)(n * 0); }\n"
             "void mi_free(void *p) { (void)p; }\n")
MAPPER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char line[8];

	(void)argc;
	if (!fgets(line, sizeof(line), stdin) ||
	    mmap(NULL, 1UL << 30, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) ==
		    MAP_FAILED)
		return 1;
	puts("mapped");
	fflush(stdout);
	return !fgets(line, sizeof(line), stdin);
}
"""


def compiled(directory, name, source, *options):
    """Compiles the C source with gcc. Returns the path of the program."""
    path = os.path.join(directory, name)
    subprocess.run(["gcc", "-x", "c", "-", "-O1", "-o", path, *options], input=source, text=True,
                   check=True)
    return path


def mapper(directory):
    """A program: when it is told "map", it maps its argument as code, and says "mapped". It ends at
    the next line."""
    return compiled(directory, "mapper", MAPPER)


def hostile_library(directory, code=""):
    return compiled(directory, "hostile.so", ALLOCATOR + code, "-shared", "-fPIC", "-nostdlib")


def sparse_library(directory):
    """A library that takes some KiB on the disk. Its program header claims a GiB of code."""
    library = hostile_library(directory)
    with open(library, "r+b") as file:
        header = file.read(64)
        table, (size, n) = (struct.unpack_from("<Q", header, 32)[0],
                            struct.unpack_from("<HH", header, 54))
        for entry in range(table, table + n * size, size):
            file.seek(entry)
            kind, flags, offset = struct.unpack("<IIQ", file.read(16))
            if kind == 1 and flags & 1:  # PT_LOAD, PF_X
                file.seek(entry + 32)
                file.write(struct.pack("<QQ", 1 << 30, 1 << 30))
                os.truncate(library, offset + (1 << 30))
    return library


def library_of_calls(directory):
    """A library with 256 MiB of code, in which a call begins at every byte."""
    return hostile_library(directory, '__asm__(".text\\n.fill 268435456, 1, 0xe8\\n");\n')
