// SPDX-License-Identifier: BSD-2-Clause
#include "elf/stapsdt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cursor.h"

#define MAX_NOTES_BYTES (16u << 20)
#define MAX_ARGUMENTS	12 /* as many as <sys/sdt.h> can write */
#define NOTE_TYPE	3
#define OWNER		"stapsdt"

/* --- notes --- */

/* Reads the text at the cursor, up to its NUL. Returns NULL if there is no NUL. */
static const char *read_text(struct cursor *cursor)
{
	const char *text = (const char *)cursor->pos;
	const unsigned char *end =
		cursor->broken ? NULL
			       : memchr(cursor->pos, '\0', (size_t)(cursor->end - cursor->pos));

	if (!end) {
		cursor->broken = true;
		return NULL;
	}
	cursor->pos = end + 1;
	return text;
}

/* Returns the note's next part, of `bytes` bytes, and moves the cursor behind it. Parts are padded
 * to a multiple of 4 bytes. */
static struct cursor take_part(struct cursor *cursor, uint64_t bytes)
{
	struct cursor part = *cursor;

	cursor__skip(cursor, bytes);
	if (!cursor->broken)
		part.end = cursor->pos;
	part.broken = cursor->broken;
	/* the last note's padding may be cut off */
	if (bytes % 4 && !cursor->broken)
		cursor->pos += (size_t)(cursor->end - cursor->pos) < 4 - bytes % 4
				       ? (size_t)(cursor->end - cursor->pos)
				       : 4 - bytes % 4;
	return part;
}

/* Reads the description of one note. False: it is broken. base: vaddr of .stapsdt.base, 0: the file
 * has no such section. */
static bool read_marker(struct cursor desc, uint64_t base, const char **ret_provider,
			struct stapsdt_marker *ret)
{
	uint64_t noted_base, shift;

	ret->vaddr = cursor__bytes(&desc, 8);
	noted_base = cursor__bytes(&desc, 8);
	ret->semaphore = cursor__bytes(&desc, 8);
	*ret_provider = read_text(&desc);
	ret->name = read_text(&desc);
	ret->arguments = read_text(&desc);
	/* prelink moves the section, but does not adjust the notes */
	shift = base && noted_base ? base - noted_base : 0;
	ret->vaddr += shift;
	if (ret->semaphore)
		ret->semaphore += shift;
	return !desc.broken;
}

int stapsdt__each(const struct elf_image *image, const char *provider,
		  int (*fn)(const struct stapsdt_marker *marker, void *ctx), void *ctx)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	struct cursor cursor;
	uint64_t base = 0;
	size_t size;
	int rc;

	rc = elf_image__read_notes(image, ".note.stapsdt", MAX_NOTES_BYTES, &bytes, &size);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	elf_image__section_vaddr(image, ".stapsdt.base", &base);
	cursor = (struct cursor){.pos = bytes, .end = bytes + size};
	while (cursor.pos < cursor.end) {
		uint64_t owner_bytes = cursor__bytes(&cursor, 4);
		uint64_t desc_bytes = cursor__bytes(&cursor, 4);
		uint64_t type = cursor__bytes(&cursor, 4);
		struct cursor owner = take_part(&cursor, owner_bytes);
		struct cursor desc = take_part(&cursor, desc_bytes);
		struct stapsdt_marker marker = {};
		const char *of;

		if (cursor.broken)
			return 0;
		if (type != NOTE_TYPE || owner_bytes != sizeof(OWNER) ||
		    memcmp(owner.pos, OWNER, sizeof(OWNER)) != 0)
			continue;
		if (!read_marker(desc, base, &of, &marker))
			return 0;
		if (strcmp(of, provider) != 0)
			continue;
		rc = fn(&marker, ctx);
		if (rc)
			return rc;
	}
	return 0;
}

/* --- arguments --- */

/* A register's names for its lowest 8, 4, 2 and 1 bytes. */
static const struct {
	const char *names[4];
	uint8_t number;
} registers[] = {
	{{"rdi", "edi", "di", "dil"}, 1},      {{"rsi", "esi", "si", "sil"}, 2},
	{{"rdx", "edx", "dx", "dl"}, 3},       {{"rcx", "ecx", "cx", "cl"}, 4},
	{{"r8", "r8d", "r8w", "r8b"}, 5},      {{"r9", "r9d", "r9w", "r9b"}, 6},
	{{"rax", "eax", "ax", "al"}, 7},       {{"r10", "r10d", "r10w", "r10b"}, 8},
	{{"r11", "r11d", "r11w", "r11b"}, 9},  {{"rbx", "ebx", "bx", "bl"}, 10},
	{{"r12", "r12d", "r12w", "r12b"}, 11}, {{"r13", "r13d", "r13w", "r13b"}, 12},
	{{"r14", "r14d", "r14w", "r14b"}, 13}, {{"r15", "r15d", "r15w", "r15b"}, 14},
	{{"rbp", "ebp", "bp", "bpl"}, 15},     {{"rsp", "esp", "sp", "spl"}, STAPSDT_RSP},
};

#define N_REGISTERS (sizeof(registers) / sizeof(registers[0]))

/* Reads a register, such as "%rdi". whole: only the names for all 8 bytes are allowed. Returns the
 * register's number, or 0 if there is no such register. */
static uint8_t read_register(const char **at, bool whole)
{
	const char *p = *at;
	size_t len;

	if (*p++ != '%')
		return 0;
	len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789");
	for (size_t i = 0; i < N_REGISTERS; i++)
		for (size_t j = 0; j < (whole ? 1 : 4); j++) {
			const char *name = registers[i].names[j];

			if (strlen(name) != len || memcmp(name, p, len) != 0)
				continue;
			*at = p + len;
			return registers[i].number;
		}
	return 0;
}

/* Reads a number in decimal, or in hexadecimal with 0x in front. */
static bool read_number(const char **at, int64_t *ret)
{
	const char *p = *at, *digits = "0123456789abcdef";
	bool negative = *p == '-';
	unsigned int radix = 10;
	uint64_t value = 0;
	size_t n = 0;

	p += negative || *p == '+';
	if (p[0] == '0' && (p[1] | 0x20) == 'x') {
		radix = 16;
		p += 2;
	}
	for (;; n++, p++) {
		char c = *p >= 'A' && *p <= 'F' ? (char)(*p | 0x20) : *p;
		const char *digit = c ? strchr(digits, c) : NULL;

		if (!digit || (unsigned int)(digit - digits) >= radix)
			break;
		if (__builtin_mul_overflow(value, radix, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(digit - digits), &value))
			return false;
	}
	if (!n)
		return false;
	*ret = (int64_t)(negative ? 0 - value : value);
	*at = p;
	return true;
}

/* Reads what stands in parentheses: "(%rbp)", "(%rax,%rbx,8)", "(,%rbx,8)". */
static bool read_place(const char **at, struct stapsdt_argument *a)
{
	const char *p = *at;
	int64_t scale = 1;

	if (*p++ != '(')
		return false;
	if (*p != ',') {
		a->base = read_register(&p, true);
		if (!a->base)
			return false;
	}
	if (*p == ',') {
		p++;
		a->index = read_register(&p, true);
		if (!a->index || a->index == STAPSDT_RSP)
			return false;
		if (*p == ',') {
			p++;
			if (!read_number(&p, &scale))
				return false;
		}
	}
	if (*p++ != ')' || (scale != 1 && scale != 2 && scale != 4 && scale != 8))
		return false;
	a->shift = (uint8_t)__builtin_ctzll((uint64_t)scale);
	a->kind = STAPSDT_MEMORY;
	*at = p;
	return true;
}

/* Reads one argument: its size in bytes (negative: a signed number), '@', and the operand. */
static bool read_argument(const char **at, struct stapsdt_argument *ret)
{
	struct stapsdt_argument a = {};
	const char *p = *at;
	int64_t bytes;

	if (!read_number(&p, &bytes) || *p++ != '@')
		return false;
	if (bytes < -8 || bytes > 8)
		return false;
	a.is_signed = bytes < 0;
	bytes = bytes < 0 ? -bytes : bytes;
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
		return false;
	a.bytes = (uint8_t)bytes;
	if (*p == '$') {
		p++;
		a.kind = STAPSDT_CONSTANT;
		if (!read_number(&p, &a.value))
			return false;
	} else if (*p == '%') {
		a.kind = STAPSDT_REGISTER;
		a.base = read_register(&p, false);
		if (!a.base)
			return false;
	} else {
		if (*p != '(' && !read_number(&p, &a.value))
			return false;
		if (!read_place(&p, &a))
			return false;
	}
	if (*p && *p != ' ')
		return false;
	*at = p;
	*ret = a;
	return true;
}

int stapsdt__parse(const char *text, struct stapsdt_argument *ret_arguments, size_t max)
{
	struct stapsdt_argument found[MAX_ARGUMENTS];
	size_t n = 0;

	for (const char *p = text;;) {
		p += strspn(p, " ");
		if (!*p)
			break;
		if (n == max || n == MAX_ARGUMENTS)
			return -E2BIG;
		if (!read_argument(&p, &found[n++]))
			return -EINVAL;
	}
	if (n)
		memcpy(ret_arguments, found, n * sizeof(*found));
	return (int)n;
}
