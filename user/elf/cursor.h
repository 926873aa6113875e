/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the numbers of .eh_frame from bytes that are not trusted: no read passes the end. */
#ifndef MEMTRACE_ELF_CURSOR_H
#define MEMTRACE_ELF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const unsigned char *pos, *end;
	bool broken; /* a read has reached beyond the end; all later reads return 0 */
};

/* Reads a little-endian number of len bytes, 8 at most. The function is inline, because it is
 * called for each byte of a program. Then the compiler often knows len, and the copy is one
 * instruction. */
static inline uint64_t cursor__bytes(struct cursor *cursor, size_t len)
{
	uint64_t value = 0;

	if (cursor->broken || (size_t)(cursor->end - cursor->pos) < len) {
		cursor->broken = true;
		return 0;
	}
	memcpy(&value, cursor->pos, len);
	cursor->pos += len;
	return value;
}

/* Moves the cursor by len bytes. If fewer bytes are left, the cursor becomes broken. */
void cursor__skip(struct cursor *cursor, uint64_t len);

/* Read LEB128 numbers of 10 bytes at most; a longer one breaks the cursor. */
uint64_t cursor__uleb(struct cursor *cursor);
int64_t cursor__sleb(struct cursor *cursor);

/* Reads the number that stands for a pointer. encoding: how it is written (DW_EH_PE_*). If the
 * pointer is relative to an address, this address is not added. An unknown encoding breaks the
 * cursor. */
uint64_t cursor__number(struct cursor *cursor, uint8_t encoding);

/* Reads an address in the given encoding. here: the vaddr of the cursor's position. */
uint64_t cursor__address(struct cursor *cursor, uint8_t encoding, uint64_t here);

/* Returns a cursor over an expression or block whose length stands at the given cursor, and moves
 * the given cursor behind the block. The result is empty when the block reaches beyond the end. */
struct cursor cursor__block(struct cursor *cursor);

#endif
