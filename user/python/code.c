// SPDX-License-Identifier: BSD-2-Clause
#include "python/python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/memory.h"
#include "python/word.h"

/* characters. A longer name or path is not read. If a shorter one has more than PYTHON_NAME_BYTES,
 * it is cut */
#define MAX_TEXT  4096
#define MAX_LINES (48u << 10) /* bytes of a table of lines */
/* a code object has at most this many bytes in front of its instructions */
#define HEAD 208

/* Offsets of fields: OB_TYPE in any object, OB_SIZE in an object of variable size. */
#define OB_TYPE 8
#define OB_SIZE 16

/* Offsets in PyASCIIObject, and bits of its state. */
#define STR_LENGTH  16
#define STR_STATE   32
#define STR_HEAD    40
#define STR_COMPACT 0x20
#define STR_ASCII   0x40
#define BYTES_TEXT  32 /* PyBytesObject.ob_sval */

static size_t put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* Reads a str. 0; -ENOENT: the object is no str, or is empty or longer than MAX_TEXT; other
 * negative errno. */
static int read_text(pid_t pid, const struct python_layout *layout, uint64_t addr, char **ret)
{
	_cleanup_free_ unsigned char *raw = NULL;
	_cleanup_free_ char *text = NULL;
	unsigned char head[STR_HEAD];
	uint64_t length, kind;
	uint32_t state;
	size_t n = 0;
	int rc = memory__read(pid, addr, head, sizeof(head));

	if (rc)
		return rc;
	length = python__word(head, STR_LENGTH);
	memcpy(&state, head + STR_STATE, sizeof(state));
	kind = state >> 2 & 7;
	if (!length || length > MAX_TEXT || !(state & STR_COMPACT) ||
	    (kind != 1 && kind != 2 && kind != 4))
		return -ENOENT;
	raw = malloc(length * kind);
	text = malloc(length * 4 < PYTHON_NAME_BYTES ? length * 4 + 1 : PYTHON_NAME_BYTES);
	if (!raw || !text)
		return -ENOMEM;
	rc = memory__read(pid, addr + (state & STR_ASCII ? layout->ascii : layout->unicode), raw,
			  length * kind);
	for (size_t i = 0; i < length && n + 4 < PYTHON_NAME_BYTES && !rc; i++) {
		uint32_t c = 0;

		memcpy(&c, raw + i * kind, kind);
		n += put_utf8(text + n, c ? c : '?');
	}
	if (rc)
		return rc;
	text[n] = '\0';
	*ret = text;
	text = NULL;
	return 0;
}

/* Returns how many bytes of a code object are read. */
static size_t head_of(const struct python_layout *layout)
{
	return layout->instructions ? layout->instructions : layout->lines + sizeof(uint64_t);
}

/* Sets `identity` to words by which a code object differs from a later one at the same address. */
static void identify(const struct python_layout *layout, const unsigned char *head,
		     uint64_t identity[3])
{
	identity[0] = python__word(head, layout->name);
	identity[1] = python__word(head, layout->lines);
	identity[2] = python__word(head, layout->code_bytes ? layout->code_bytes : OB_SIZE);
}

/* Counts the instructions of a code object. code_bytes: the address of the bytes object with the
 * instructions. Each instruction has 2 bytes. */
static int count_units(pid_t pid, uint64_t code_bytes, uint64_t *ret)
{
	unsigned char head[BYTES_TEXT];
	int rc = memory__read(pid, code_bytes, head, sizeof(head));

	if (!rc)
		*ret = python__word(head, OB_SIZE) / 2;
	return rc;
}

/* Like read_text(). But a str that cannot be used leaves *ret NULL, and is no error: for example,
 * compile(text, "", "exec") gives its code an empty file name. */
static int read_file_name(pid_t pid, const struct python_layout *layout, uint64_t addr, char **ret)
{
	int rc = read_text(pid, layout, addr, ret);

	return rc == -ENOENT ? 0 : rc;
}

/* Reads the table of lines. A table of more than MAX_LINES is left out: the top level of a large
 * module of constants may have one. The code's name is still worth knowing. */
static int read_lines(pid_t pid, uint64_t addr, struct python_code *code)
{
	unsigned char head[BYTES_TEXT];
	int rc = memory__read(pid, addr, head, sizeof(head));
	uint64_t n;

	if (rc)
		return rc;
	n = python__word(head, OB_SIZE);
	if (n > MAX_LINES)
		return 0;
	code->lines = malloc(n + 1);
	if (!code->lines)
		return -ENOMEM;
	code->n_lines = n;
	return n ? memory__read(pid, addr + BYTES_TEXT, code->lines, n) : 0;
}

int python_code__read(pid_t pid, const struct python *python, uint64_t addr,
		      struct python_code *ret)
{
	const struct python_layout *layout = python->layout;
	struct python_code code = {};
	unsigned char head[HEAD];
	int rc = memory__read(pid, addr, head, head_of(layout));

	if (!rc && python__word(head, OB_TYPE) != python->code_type)
		rc = -ENOENT;
	if (!rc)
		rc = read_text(pid, layout, python__word(head, layout->name), &code.name);
	if (!rc)
		rc = read_file_name(pid, layout, python__word(head, layout->file), &code.file);
	if (!rc)
		rc = read_lines(pid, python__word(head, layout->lines), &code);
	if (!rc) {
		identify(layout, head, code.identity);
		code.n_units = code.identity[2];
		if (layout->code_bytes)
			rc = count_units(pid, code.identity[2], &code.n_units);
	}
	if (rc) {
		python_code__clear(&code);
		return rc;
	}
	memcpy(&code.first_line, head + layout->first_line, sizeof(code.first_line));
	code.lines_kind = layout->lines_kind;
	*ret = code;
	return 0;
}

int python_code__is_same(pid_t pid, const struct python *python, uint64_t addr,
			 const struct python_code *code)
{
	const struct python_layout *layout = python->layout;
	unsigned char head[HEAD];
	uint64_t identity[3];
	int line, rc = memory__read(pid, addr, head, head_of(layout));

	if (rc)
		return rc;
	memcpy(&line, head + layout->first_line, sizeof(line));
	identify(layout, head, identity);
	return python__word(head, OB_TYPE) == python->code_type && line == code->first_line &&
	       !memcmp(identity, code->identity, sizeof(identity));
}

void python_code__clear(struct python_code *code)
{
	free(code->name);
	free(code->file);
	free(code->lines);
	*code = (struct python_code){};
}

/* Reads a number that has 6 bits in each byte, the lowest bits first. Bit 6 is set if another byte
 * follows. The number's lowest bit is its sign. */
static int read_number(const unsigned char **pos, const unsigned char *end)
{
	uint32_t value = 0;
	unsigned int shift = 0;
	unsigned char byte = 0x40;

	while (*pos < end && byte & 0x40) {
		byte = *(*pos)++;
		if (shift < 30)
			value |= (uint32_t)(byte & 63) << shift;
		shift += 6;
	}
	return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

static int line_or_none(int64_t line)
{
	return line < 0 || line > INT32_MAX ? 0 : (int)line;
}

/* The table has pairs of bytes. The first byte is the distance to the next place in the code. The
 * second is the signed change of the line from this place to the next. Source:
 * Objects/lnotab_notes.txt of CPython 3.9. */
static int line_by_steps(const struct python_code *code, uint64_t unit)
{
	int64_t line = code->first_line;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < code->n_lines; i += 2) {
		at += code->lines[i];
		if (at > 2 * unit)
			break;
		line += (int8_t)code->lines[i + 1];
	}
	return line_or_none(line);
}

/* The table has pairs of bytes. The first byte is the length of a range of code. The second is the
 * signed change of the line from the preceding range to this one. A change of -128 means that this
 * range has no line. Source: Objects/lnotab_notes.txt of CPython 3.10. */
static int line_by_ranges(const struct python_code *code, uint64_t unit)
{
	int64_t line = code->first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < code->n_lines; i += 2) {
		int8_t further = (int8_t)code->lines[i + 1];

		end += code->lines[i];
		if (further != INT8_MIN)
			line += further;
		if (2 * unit < end)
			return further == INT8_MIN ? 0 : line_or_none(line);
	}
	return 0;
}

/* Each entry begins with a byte that has bit 7 set, 4 bits for the entry's kind, and 3 bits for its
 * number of instructions minus 1. All other bytes have bit 7 clear. Source: Objects/locations.md of
 * CPython (3.11 and later). */
static int line_by_locations(const struct python_code *code, uint64_t unit)
{
	const unsigned char *pos = code->lines, *end = pos + code->n_lines;
	int64_t line = code->first_line;
	uint64_t at = 0;

	while (pos < end) {
		unsigned char byte = *pos++, kind = byte >> 3 & 15;

		if (!(byte & 0x80))
			return 0;
		if (kind == 13 || kind == 14)
			line += read_number(&pos, end);
		else if (kind >= 10 && kind <= 12)
			line += kind - 10;
		at += (byte & 7) + 1;
		if (unit < at)
			return kind == 15 ? 0 : line_or_none(line);
		while (pos < end && !(*pos & 0x80))
			pos++;
	}
	return 0;
}

int python_code__line(const struct python_code *code, uint64_t unit)
{
	if (unit >= code->n_units || !code->lines)
		return 0;
	switch (code->lines_kind) {
	case PYTHON_LINE_STEPS:
		return line_by_steps(code, unit);
	case PYTHON_LINE_RANGES:
		return line_by_ranges(code, unit);
	default:
		return line_by_locations(code, unit);
	}
}
