/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading the numbers of .eh_frame from bytes that may lie: no read passes the end. */
#ifndef MEMTRACE_ELF_CURSOR_H
#define MEMTRACE_ELF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const unsigned char *pos, *end;
	bool broken; /* something was read beyond the end; reads give 0 from then on */
};

/* A little-endian number of len bytes, 8 at most. Here and not in cursor.c: it is called for each
 * byte of a program, and a copy of known length is one instruction. */
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

void cursor__skip(struct cursor *cursor, uint64_t len);

/* LEB128 numbers of 10 bytes at most; a longer one breaks the cursor. */
uint64_t cursor__uleb(struct cursor *cursor);
int64_t cursor__sleb(struct cursor *cursor);

/* A pointer's number in that encoding (DW_EH_PE_*), before what it is relative to is added. An
 * unknown encoding breaks the cursor. */
uint64_t cursor__number(struct cursor *cursor, uint8_t encoding);

/* An address in that encoding; here is the vaddr at which the cursor stands. */
uint64_t cursor__address(struct cursor *cursor, uint8_t encoding, uint64_t here);

/* A cursor for the bytes of an expression or block whose length stands at the cursor, which ends up
 * behind them. Empty when they do not fit. */
struct cursor cursor__block(struct cursor *cursor);

#endif
