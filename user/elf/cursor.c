// SPDX-License-Identifier: BSD-2-Clause
#include "elf/cursor.h"

#include <dwarf.h>

#define MAX_LEB_BYTES 10

void cursor__skip(struct cursor *cursor, uint64_t len)
{
	if (cursor->broken || (uint64_t)(cursor->end - cursor->pos) < len)
		cursor->broken = true;
	else
		cursor->pos += len;
}

/* Reads seven bits from each byte, the lowest first. *ret_bits: how many bits were read. */
static uint64_t read_leb(struct cursor *cursor, unsigned int *ret_bits)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < MAX_LEB_BYTES; i++) {
		uint64_t byte = cursor__bytes(cursor, 1);

		value |= (byte & 0x7f) << 7 * i;
		if (!(byte & 0x80)) {
			*ret_bits = 7 * (i + 1);
			return value;
		}
	}
	cursor->broken = true;
	*ret_bits = 64;
	return 0;
}

uint64_t cursor__uleb(struct cursor *cursor)
{
	unsigned int bits;

	return read_leb(cursor, &bits);
}

int64_t cursor__sleb(struct cursor *cursor)
{
	unsigned int bits;
	uint64_t value = read_leb(cursor, &bits);

	if (bits < 64 && value >> (bits - 1) & 1)
		value |= ~0ull << bits;
	return value;
}

uint64_t cursor__number(struct cursor *cursor, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cursor__bytes(cursor, 8);
	case DW_EH_PE_uleb128:
		return cursor__uleb(cursor);
	case DW_EH_PE_udata2:
		return cursor__bytes(cursor, 2);
	case DW_EH_PE_udata4:
		return cursor__bytes(cursor, 4);
	case DW_EH_PE_sleb128:
		return cursor__sleb(cursor);
	case DW_EH_PE_sdata2:
		return (int16_t)cursor__bytes(cursor, 2);
	case DW_EH_PE_sdata4:
		return (int32_t)cursor__bytes(cursor, 4);
	default:
		cursor->broken = true;
		return 0;
	}
}

/* Only one kind of relative address is read: an address relative to its own place (pcrel). The
 * other kinds (datarel, textrel, funcrel) have no defined base in .eh_frame on x86-64, and no tool
 * emits them. */
uint64_t cursor__address(struct cursor *cursor, uint8_t encoding, uint64_t here)
{
	uint64_t value = cursor__number(cursor, encoding);

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return here + value;
	default:
		cursor->broken = true;
		return 0;
	}
}

struct cursor cursor__block(struct cursor *cursor)
{
	uint64_t len = cursor__uleb(cursor);
	struct cursor block = {.pos = cursor->pos};

	cursor__skip(cursor, len);
	block.end = cursor->broken ? block.pos : cursor->pos;
	return block;
}
