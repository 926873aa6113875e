// SPDX-License-Identifier: BSD-2-Clause
/* Finds the callers of a function, and where a jump through a pointer leads. */
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define MAX_SCAN_BYTES (1ull << 30) /* limit of the bytes of code that are searched */
#define SCAN_CHUNK     (256u << 10)
/* A longer table of relocations is used only up to this limit (bytes), because it is searched again
 * for each slot. */
#define MAX_RELOCATION_BYTES (16u << 20)
/* All searches for the slots of one image together read at most this many bytes of relocations,
 * which takes some two seconds. A hostile file may have thousands of jumps by slots, and each
 * slot's relocation may be at the end of a large table. */
#define MAX_SEARCHED (4ULL << 30)

/* Calls fn for each piece of all executable segments, with the piece's vaddr. The pieces overlap by
 * n_more bytes: an instruction that begins in the last n_more bytes of a piece is whole in the next
 * piece. */
static void scan_code(const struct elf_image *image, size_t n_more,
		      void (*fn)(const unsigned char *code, size_t len, uint64_t vaddr, void *ctx),
		      void *ctx)
{
	_cleanup_free_ unsigned char *chunk = malloc(SCAN_CHUNK);
	uint64_t budget = MAX_SCAN_BYTES;

	if (!chunk)
		return;
	for (size_t s = 0; s < image->n_segments; s++) {
		const struct segment *segment = &image->segments[s];
		uint64_t pos = 0;

		if (!segment->executable)
			continue;
		while (segment->size - pos > n_more && budget) {
			uint64_t want = segment->size - pos;
			ssize_t n;

			if (want > SCAN_CHUNK)
				want = SCAN_CHUNK;
			n = io__pread(image->fd, chunk, want, segment->off + pos);
			if (n <= (ssize_t)n_more)
				break;
			fn(chunk, (size_t)n, segment->vaddr + pos, ctx);
			pos += (uint64_t)n - n_more;
			budget -= budget < (uint64_t)n ? budget : (uint64_t)n;
		}
	}
}

/* Returns the vaddr to which the 4 bytes at rel lead. These bytes hold a distance from their own
 * end. next: the vaddr of this end. */
static uint64_t relative(const unsigned char *rel, uint64_t next)
{
	int32_t value;

	memcpy(&value, rel, sizeof(value));
	return next + (uint64_t)(int64_t)value;
}

struct callers {
	uint64_t vaddr; /* vaddr of the function or pointer that is searched for */
	uint64_t *found;
	size_t n, max;
};

static void find_calls(const unsigned char *code, size_t len, uint64_t vaddr, void *ctx)
{
	/* A call cannot begin in the last 4 bytes. memchr() is fast: it looks at many bytes at a
	 * time. */
	const unsigned char *end = code + len - 4;
	struct callers *callers = ctx;

	for (const unsigned char *at = code; (at = memchr(at, 0xe8, (size_t)(end - at))); at++) {
		uint64_t next = vaddr + (uint64_t)(at - code) + 5;

		if (relative(at + 1, next) != callers->vaddr)
			continue;
		if (callers->n < callers->max)
			callers->found[callers->n] = next;
		callers->n++;
	}
}

size_t elf_image__direct_callers(const struct elf_image *image, uint64_t vaddr,
				 uint64_t *ret_vaddrs, size_t max)
{
	struct callers callers = {.vaddr = vaddr, .found = ret_vaddrs, .max = max};

	scan_code(image, 4, find_calls, &callers);
	return callers.n;
}

/* Counts mov rel(%rip), %reg (8b); call *rel(%rip) and jmp *rel(%rip) (ff /2, ff /4). */
static void find_loads(const unsigned char *code, size_t len, uint64_t vaddr, void *ctx)
{
	struct callers *loads = ctx;

	for (size_t i = 0; i + 6 <= len; i++) {
		bool load = code[i] == 0x8b && (code[i + 1] & 0xc7) == 0x05;

		load = load || (code[i] == 0xff && (code[i + 1] == 0x15 || code[i + 1] == 0x25));
		loads->n += load && relative(code + i + 2, vaddr + i + 6) == loads->vaddr;
	}
}

size_t elf_image__loads(const struct elf_image *image, uint64_t slot)
{
	struct callers loads = {.vaddr = slot};

	scan_code(image, 5, find_loads, &loads);
	return loads.n;
}

struct jumps {
	void (*fn)(uint64_t target, void *ctx);
	void *ctx;
};

static void find_jumps(const unsigned char *code, size_t len, uint64_t vaddr, void *ctx)
{
	const struct jumps *jumps = ctx;

	for (size_t i = 0; i + 5 <= len; i++)
		if (code[i] == 0xe9 || (i && code[i - 1] == 0x0f && (code[i] & 0xf0) == 0x80))
			jumps->fn(relative(code + i + 1, vaddr + i + 5), jumps->ctx);
}

void elf_image__each_jump(const struct elf_image *image, void (*fn)(uint64_t target, void *ctx),
			  void *ctx)
{
	scan_code(image, 5, find_jumps, &(struct jumps){fn, ctx});
}

/* Where 4 bytes in the code may be an address of [low, high). */
struct mentions {
	uint64_t low, high;
	uint64_t *found;
	size_t n, max;
	void (*meanwhile)(void *ctx);
	void *ctx;
};

/* Records where 4 bytes may be an address of [low, high). An instruction has an address in absolute
 * form, or relative to the instruction's end. Up to 4 bytes of a constant may come between the
 * address and that end. */
static void find_mentions(const unsigned char *code, size_t len, uint64_t vaddr, void *ctx)
{
	struct mentions *m = ctx;
	uint64_t size = m->high - m->low;

	for (size_t i = 0; i + 4 <= len; i++) {
		uint64_t from_end = relative(code + i, vaddr + i + 4) - m->low;
		uint64_t absolute = relative(code + i, 0) - m->low;

		if (absolute >= size && from_end >= size && from_end + 1 >= size &&
		    from_end + 2 >= size && from_end + 4 >= size)
			continue;
		if (m->n < m->max)
			m->found[m->n] = vaddr + i;
		m->n++;
	}
	m->meanwhile(m->ctx);
}

size_t elf_image__mentions(const struct elf_image *image, uint64_t low, uint64_t high,
			   uint64_t *ret_vaddrs, size_t max, void (*meanwhile)(void *ctx),
			   void *ctx)
{
	struct mentions mentions = {.low = low,
				    .high = high,
				    .found = ret_vaddrs,
				    .max = max,
				    .meanwhile = meanwhile,
				    .ctx = ctx};

	scan_code(image, 3, find_mentions, &mentions);
	return mentions.n;
}

static int search_slot(const struct elf_image *image, const struct relocations *table,
		       uint64_t slot, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= table->size; i += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;

		memcpy(&rela, table->bytes + i, sizeof(rela));
		if (rela.r_offset != slot)
			continue;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE) {
			*ret_vaddr = (uint64_t)rela.r_addend;
			return 0;
		}
		if ((ELF64_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
		     ELF64_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
		    !elf_image__dynamic_function(image, ELF64_R_SYM(rela.r_info), ret_vaddr))
			return -ENOENT;
		return 0;
	}
	return -ENOENT;
}

int elf_image__slot_function(struct elf_image *image, uint64_t slot, uint64_t *ret_vaddr)
{
	static const char *const sections[] = {".rela.plt", ".rela.dyn"};
	int rc = -ENOENT;

	for (int i = 0; i < 2 && rc == -ENOENT; i++) {
		struct relocations *table = &image->relocations[i];
		uint64_t vaddr;

		if (!table->read) {
			table->read = true;
			elf_image__read_section(image, sections[i], &table->bytes, &table->size,
						&vaddr);
			if (table->size > MAX_RELOCATION_BYTES)
				table->size = MAX_RELOCATION_BYTES;
		}
		if (image->searched >= MAX_SEARCHED)
			return -ENOENT;
		image->searched += table->size;
		rc = search_slot(image, table, slot, ret_vaddr);
	}
	return rc;
}
