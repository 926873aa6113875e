// SPDX-License-Identifier: BSD-2-Clause
/* What the rows must say comes from outside: from elfutils' reading of the same .eh_frame, and,
 * where a program breaks or a limit is ours, from the bytes as written here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "elf/image.h"
#include "elf/unwind.h"

#define SP(off)		    UNWIND_RULE(UNWIND_SP, off, 0, 0)
#define SP_SAVED(off, slot) UNWIND_RULE(UNWIND_SP, off, 1, slot)
#define BP_SAVED(off, slot) UNWIND_RULE(UNWIND_BP, off, 1, slot)
#define BAD		    UNWIND_BAD
#define NONE		    UNWIND_NONE

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static struct elf_image *open_image(int fd)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	if (elf_image__open(fd, "test", &image, &err) != 0)
		fail_msg("%s", err.text);
	return image;
}

static struct unwind_table *build(const struct elf_image *image)
{
	struct unwind_table *table = NULL;
	struct error err = {0};

	if (unwind_table__build(image, 0, &table, &err) != 0)
		fail_msg("%s", err.text);
	return table;
}

static struct unwind_table *build_fd(int fd)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);

	return build(image);
}

/* What the header promises of any table. */
static void check_shape(const struct unwind_table *table)
{
	size_t bad = 0;

	for (size_t i = 0; i < table->n; i++) {
		uint32_t rule = table->rows[i].rule;

		if (i > 0) {
			assert_true(table->rows[i].pc > table->rows[i - 1].pc);
			assert_true(rule != table->rows[i - 1].rule);
		}
		assert_true(UNWIND_RULE_KIND(rule) <= UNWIND_BAD);
		if (UNWIND_RULE_RBP_SAVED(rule))
			assert_true(UNWIND_RULE_RBP_SLOT(rule) >= 1);
		else
			assert_int_equal(UNWIND_RULE_RBP_SLOT(rule), 0);
		if (UNWIND_RULE_KIND(rule) != UNWIND_SP && UNWIND_RULE_KIND(rule) != UNWIND_BP)
			assert_int_equal(UNWIND_RULE_CFA_OFF(rule), 0);
		bad += UNWIND_RULE_KIND(rule) == UNWIND_BAD;
	}
	assert_int_equal(bad, table->bad_rows);
	if (table->n) {
		assert_int_not_equal(table->rows[0].rule, UNWIND_NONE);
		assert_int_equal(table->rows[table->n - 1].rule, UNWIND_NONE);
	}
}

/* --- elfutils -----------------------------------------------------------------------------------
 */

struct oracle {
	Elf *elf;
	Dwarf_CFI *cfi;
	uint64_t entry; /* e_entry */
};

static struct oracle open_oracle(int fd)
{
	struct oracle oracle;

	elf_version(EV_CURRENT);
	oracle.elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(oracle.elf);
	oracle.entry = elf64_getehdr(oracle.elf)->e_entry;
	oracle.cfi = dwarf_getcfi_elf(oracle.elf);
	if (!oracle.cfi)
		fail_msg("elfutils: %s", dwarf_errmsg(-1));
	return oracle;
}

static void close_oracle(struct oracle *oracle)
{
	dwarf_cfi_end(oracle->cfi);
	elf_end(oracle->elf);
}

/* Where elfutils finds a register. */
struct place {
	enum { SAME, UNDEFINED, AT_CFA, IS_CFA, AT_RSP, ELSEWHERE } kind;
	int64_t off;
};

static struct place place_of(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	struct place place = {.kind = ELSEWHERE};
	size_t n;

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &n), 0);
	if (n == 0) {
		place.kind = ops == mem ? UNDEFINED : SAME;
	} else if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_breg7) {
		/* An expression begins with the CFA on its stack; the last one pushed counts. */
		place.kind = AT_RSP;
		place.off = ops[1].number;
	} else if (ops[0].atom == DW_OP_call_frame_cfa) {
		size_t i = 1;

		if (i < n && ops[i].atom == DW_OP_plus_uconst)
			place.off = ops[i++].number;
		if (i == n)
			place.kind = AT_CFA;
		else if (i + 1 == n && ops[i].atom == DW_OP_stack_value)
			place.kind = IS_CFA;
	}
	return place;
}

static bool is_place(struct place place, int kind, int64_t off)
{
	return (int)place.kind == kind && place.off == off;
}

static uint32_t rule_of_frame(Dwarf_Frame *frame)
{
	static const uint8_t plt[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15,
				      DW_OP_and,   DW_OP_lit11,	 DW_OP_ge,
				      DW_OP_lit3,  DW_OP_shl,	 DW_OP_plus};
	struct place rbp = place_of(frame, 6), rsp = place_of(frame, 7), ra = place_of(frame, 16);
	uint32_t slot = 0;
	bool is_signal;
	Dwarf_Op *cfa;
	size_t n;

	if (ra.kind == UNDEFINED)
		return UNWIND_END;
	assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &is_signal), 16);
	if (dwarf_frame_cfa(frame, &cfa, &n) != 0)
		return BAD;
	if (is_signal)
		return n == 2 && cfa[0].atom == DW_OP_breg7 &&
				       cfa[0].number ==
					       offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) &&
				       cfa[1].atom == DW_OP_deref &&
				       is_place(rbp, AT_RSP,
						offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP])) &&
				       is_place(ra, AT_RSP,
						offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]))
			       ? UNWIND_SIGNAL
			       : BAD;
	if (!is_place(ra, AT_CFA, -8) || !is_place(rsp, IS_CFA, 0))
		return BAD;
	if (rbp.kind == AT_CFA && rbp.off < 0 && rbp.off >= -8 * 4095 && rbp.off % 8 == 0)
		slot = -rbp.off / 8;
	else if (rbp.kind != SAME)
		return BAD;
	if (n == sizeof(plt)) {
		for (size_t i = 0; i < n; i++)
			if (cfa[i].atom != plt[i])
				return BAD;
		return cfa[0].number == 8 && cfa[1].number == 0
			       ? UNWIND_RULE(UNWIND_PLT, 0, slot > 0, slot)
			       : BAD;
	}
	if (n != 1 || cfa[0].atom != DW_OP_bregx || (cfa[0].number != 6 && cfa[0].number != 7) ||
	    cfa[0].number2 > 8 * 65535 || cfa[0].number2 % 8 != 0)
		return BAD;
	return UNWIND_RULE(cfa[0].number == 7 ? UNWIND_SP : UNWIND_BP, cfa[0].number2, slot > 0,
			   slot);
}

static uint32_t oracle_rule(struct oracle *oracle, uint64_t vaddr)
{
	Dwarf_Frame *frame;
	uint32_t rule;

	if (dwarf_cfi_addrframe(oracle->cfi, vaddr, &frame) != 0)
		return strcmp(dwarf_errmsg(-1), "no matching address range") == 0 ? NONE : BAD;
	rule = rule_of_frame(frame);
	free(frame);
	return rule;
}

static size_t row_at(const struct unwind_table *table, uint64_t vaddr)
{
	size_t i = 0;

	while (i + 1 < table->n && table->base + table->rows[i + 1].pc <= vaddr)
		i++;
	return i;
}

/* Around the entry, where the file says nothing, the table says that stacks end there. */
static bool is_entry_gap(const struct unwind_table *table, const struct oracle *oracle,
			 uint64_t vaddr)
{
	return oracle->entry && row_at(table, vaddr) == row_at(table, oracle->entry);
}

static void compare_at(const struct unwind_table *table, struct oracle *oracle, const char *what,
		       uint64_t vaddr)
{
	uint32_t mine = unwind_table__find(table, vaddr), theirs = oracle_rule(oracle, vaddr);

	if (mine == UNWIND_END && theirs == NONE && is_entry_gap(table, oracle, vaddr))
		return;
	if (mine != theirs)
		fail_msg("%s: at %#llx our rule is %#x, elfutils' %#x", what,
			 (unsigned long long)vaddr, mine, theirs);
}

/* --- real files ---------------------------------------------------------------------------------
 */

static const char *const files[] = {
	"/lib64/ld-linux-x86-64.so.2",
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/proc/self/exe",
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	"/usr/bin/python3.11",
	"/usr/bin/redis-server",
	"/bin/bash",
	"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	"/usr/bin/node",
};

/* The number of FDEs that .eh_frame_hdr lists, or 0. */
static size_t listed_fdes(int fd)
{
	uint32_t header[3] = {0};
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	assert_int_equal(io__pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		io__pread(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr));
		if (phdr.p_type == PT_GNU_EH_FRAME)
			io__pread(fd, header, sizeof(header), phdr.p_offset);
	}
	return header[2];
}

static void compare_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unwind_table *table;
	struct elf_image *image;
	struct oracle oracle;
	uint64_t start, end;
	size_t stride;
	double before;

	if (fd < 0) {
		print_message("%s: not on this machine\n", path);
		return;
	}
	image = open_image(fd);
	before = now();
	table = build(image);
	print_message("%s: %zu rows, %zu functions, %zu bad, %.3f s\n", path, table->n, table->fdes,
		      table->bad_rows, now() - before);
	check_shape(table);
	assert_true(table->n > 100);
	assert_int_equal(table->skipped, 0);
	assert_int_equal(table->fdes, listed_fdes(fd));
	assert_int_equal(elf_image__code_span(image, &start, &end), 0);
	assert_true(table->base == start);
	assert_true(table->rows[table->n - 1].pc <= end - start);

	oracle = open_oracle(fd);
	stride = table->n / 20000 + 1;
	for (size_t i = 0; i < table->n; i += stride) {
		compare_at(table, &oracle, path, table->base + table->rows[i].pc);
		compare_at(table, &oracle, path, table->base + table->rows[i].pc - 1);
	}
	for (int i = 0; i < 20000; i++)
		compare_at(table, &oracle, path, start + next_random() % (end - start));
	close_oracle(&oracle);
	unwind_table__free(table);
	elf_image__free(image);
}

static void test_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		compare_file(files[i]);
}

/* The kernel itself says where a signal handler returns to. */
static void test_restorer(void **state)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action = {0};
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t vaddr;
	Dl_info info;

	(void)state;
	/* SIG_IGN through sigaction(): glibc adds its trampoline to any action. */
	assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
	assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof(action.mask)), 0);
	assert_non_null(action.restorer);
	assert_true(dladdr(action.restorer, &info));
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	table = build_fd(fd);
	vaddr = (uintptr_t)action.restorer - (uintptr_t)info.dli_fbase;
	assert_int_equal(unwind_table__find(table, vaddr), UNWIND_SIGNAL);
	/* A lookup made for return addresses, one byte in front of them, must find it too. */
	assert_int_equal(unwind_table__find(table, vaddr - 1), UNWIND_SIGNAL);
	assert_int_not_equal(unwind_table__find(table, vaddr - 2), UNWIND_SIGNAL);
}

/* --- sections written by hand -------------------------------------------------------------------
 */

#define CODE	 0x1000 /* vaddr and offset of the code */
#define CODE_LEN 0x1000
#define FRAMES	 0x2000 /* vaddr and offset of .eh_frame */
#define SHSTRTAB 0x300

struct draft {
	unsigned char *bytes;
	size_t n, room;
	size_t cie;   /* the last one's position */
	size_t entry; /* the open one's */
};

static void put(struct draft *draft, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	if (draft->n + n > draft->room) {
		draft->room = 2 * (draft->n + n);
		draft->bytes = realloc(draft->bytes, draft->room);
		assert_non_null(draft->bytes);
	}
	memcpy(draft->bytes + draft->n, bytes, n);
	draft->n += n;
}

static void put_number(struct draft *draft, uint64_t value, size_t n)
{
	put(draft, &value, n);
}

static void open_entry(struct draft *draft)
{
	draft->entry = draft->n;
	put_number(draft, 0, 4);
}

static void close_entry(struct draft *draft)
{
	uint32_t len = draft->n - draft->entry - 4;

	memcpy(draft->bytes + draft->entry, &len, 4);
}

#define BYTES(...)                                                                                 \
	(const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

/* CFA = rsp + 8, return address at CFA - 8: all functions begin so. */
#define USUAL DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1

/* head: version to augmentation data; code alignment 1 and data alignment -8 are in it. */
static void put_cie(struct draft *draft, const void *head, size_t head_len, const void *program,
		    size_t program_len)
{
	open_entry(draft);
	draft->cie = draft->entry;
	put_number(draft, 0, 4);
	put(draft, head, head_len);
	put(draft, program, program_len);
	close_entry(draft);
}

static void put_usual_cie(struct draft *draft)
{
	put_cie(draft, BYTES(1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b), BYTES(USUAL));
}

static void open_fde(struct draft *draft)
{
	open_entry(draft);
	put_number(draft, draft->n - draft->cie, 4);
}

/* For a usual CIE: pcrel sdata4. */
static void put_fde(struct draft *draft, uint32_t pc, uint32_t len, const void *program,
		    size_t program_len)
{
	open_fde(draft);
	put_number(draft, (uint32_t)(CODE + pc - (FRAMES + draft->n)), 4);
	put_number(draft, len, 4);
	put_number(draft, 0, 1);
	put(draft, program, program_len);
	close_entry(draft);
}

/* An ELF file with the draft as .eh_frame. */
static int make_file(const struct draft *draft)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	const Elf64_Ehdr ehdr = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = 0x40,
		.e_shoff = 0x100,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2,
	};
	const Elf64_Phdr phdrs[2] = {
		{PT_LOAD, PF_R | PF_X, CODE, CODE, CODE, CODE_LEN, CODE_LEN, 0x1000},
		{PT_LOAD, PF_R, FRAMES, FRAMES, FRAMES, draft->n, draft->n, 0x1000},
	};
	const Elf64_Shdr shdrs[3] = {
		{0},
		{1, SHT_PROGBITS, SHF_ALLOC, FRAMES, FRAMES, draft->n, 0, 0, 8, 0},
		{11, SHT_STRTAB, 0, 0, SHSTRTAB, sizeof(names), 0, 0, 1, 0},
	};
	int fd = memfd_create("unwind", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	assert_int_equal(pwrite(fd, phdrs, sizeof(phdrs), 0x40), sizeof(phdrs));
	assert_int_equal(pwrite(fd, shdrs, sizeof(shdrs), 0x100), sizeof(shdrs));
	assert_int_equal(pwrite(fd, names, sizeof(names), SHSTRTAB), sizeof(names));
	assert_int_equal(ftruncate(fd, FRAMES), 0);
	assert_int_equal(pwrite(fd, draft->bytes, draft->n, FRAMES), draft->n);
	return fd;
}

static int build_draft(struct draft *draft, size_t max_rows, struct unwind_table **ret_table,
		       bool ask_elfutils)
{
	_cleanup_close_ int fd = make_file(draft);
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);
	int ret = unwind_table__build(image, max_rows, ret_table, NULL);

	free(draft->bytes);
	draft->bytes = NULL;
	if (ret)
		return ret;
	check_shape(*ret_table);
	if (ask_elfutils) {
		struct oracle oracle = open_oracle(fd);

		for (uint64_t vaddr = CODE; vaddr < CODE + 0x200; vaddr++)
			compare_at(*ret_table, &oracle, "by hand", vaddr);
		close_oracle(&oracle);
	}
	return 0;
}

static void assert_rows(const char *name, const struct unwind_table *table,
			const struct unwind_row *rows, size_t n)
{
	for (size_t i = 0; i < n || i < table->n; i++) {
		if (i >= n || i >= table->n || table->rows[i].pc != rows[i].pc ||
		    table->rows[i].rule != rows[i].rule)
			fail_msg("%s: row %zu of %zu is %#x %#x, expected %zu: %#x %#x", name, i,
				 table->n, i < table->n ? table->rows[i].pc : 0,
				 i < table->n ? table->rows[i].rule : 0, n, i < n ? rows[i].pc : 0,
				 i < n ? rows[i].rule : 0);
	}
}

#define ROWS(...)                                                                                  \
	(const struct unwind_row[]){__VA_ARGS__},                                                  \
		sizeof((const struct unwind_row[]){__VA_ARGS__}) / sizeof(struct unwind_row)

#define ADVANCE(n) (DW_CFA_advance_loc | (n))
#define PLT_WITH(lit)                                                                              \
	DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,    \
		lit, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus

/* One function at 0x10 .. 0x50 with this program. */
static const struct program {
	const char *name;
	const unsigned char *bytes;
	size_t n;
	const struct unwind_row *rows;
	size_t n_rows;
	bool broken;
} programs[] = {
	{"empty", NULL, 0, ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"push rbp; mov rsp, rbp; pop; ret",
	 BYTES(ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2, ADVANCE(3),
	       DW_CFA_def_cfa_register, 6, ADVANCE(0x10), DW_CFA_def_cfa, 7, 8, DW_CFA_restore | 6),
	 ROWS({0x10, SP(8)}, {0x11, SP_SAVED(16, 2)}, {0x14, BP_SAVED(16, 2)}, {0x24, SP(8)},
	      {0x50, NONE}),
	 false},
	{"advances of all sizes",
	 BYTES(DW_CFA_advance_loc1, 1, DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc2, 1, 0,
	       DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 1, 0, 0, 0, DW_CFA_def_cfa_offset,
	       32, ADVANCE(0), DW_CFA_def_cfa_offset, 40),
	 ROWS({0x10, SP(8)}, {0x11, SP(16)}, {0x12, SP(24)}, {0x13, SP(40)}, {0x50, NONE}), false},
	{"a change taken back within one address",
	 BYTES(ADVANCE(4), DW_CFA_def_cfa_offset, 16, ADVANCE(0), DW_CFA_def_cfa_offset, 8),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"beyond the end",
	 BYTES(ADVANCE(0x3f), DW_CFA_def_cfa_offset, 16, ADVANCE(0x3f), DW_CFA_def_cfa_offset, 24),
	 ROWS({0x10, SP(8)}, {0x4f, SP(16)}, {0x50, NONE}), false},
	{"exactly to the end", BYTES(ADVANCE(0x20), ADVANCE(0x20), DW_CFA_def_cfa_offset, 16),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"remember and restore, nested",
	 BYTES(DW_CFA_remember_state, ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
	       DW_CFA_remember_state, ADVANCE(1), DW_CFA_def_cfa, 6, 24, ADVANCE(1),
	       DW_CFA_restore_state, ADVANCE(1), DW_CFA_restore_state),
	 ROWS({0x10, SP(8)}, {0x11, SP_SAVED(16, 2)}, {0x12, BP_SAVED(24, 2)},
	      {0x13, SP_SAVED(16, 2)}, {0x14, SP(8)}, {0x50, NONE}),
	 false},
	{"signed and extended forms",
	 BYTES(DW_CFA_def_cfa_sf, 7, 0x7e, ADVANCE(1), DW_CFA_def_cfa_offset_sf, 0x7d, ADVANCE(1),
	       DW_CFA_offset_extended, 6, 3, ADVANCE(1), DW_CFA_offset_extended_sf, 6, 4,
	       ADVANCE(1), DW_CFA_restore_extended, 6, ADVANCE(1), DW_CFA_offset_extended_sf, 6,
	       0x7c),
	 ROWS({0x10, SP(16)}, {0x11, SP(24)}, {0x12, SP_SAVED(24, 3)}, {0x13, SP_SAVED(24, 4)},
	      {0x14, SP(24)}, {0x15, BAD}, {0x50, NONE}),
	 false},
	{"the rbp that cannot be said",
	 BYTES(DW_CFA_undefined, 6, ADVANCE(1), DW_CFA_same_value, 6, ADVANCE(1), DW_CFA_register,
	       6, 3, ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_expression, 6, 2,
	       DW_OP_breg6, 0, ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_offset, 6, 2,
	       ADVANCE(1), DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_offset_sf, 6, 2, ADVANCE(1),
	       DW_CFA_restore | 6, ADVANCE(1), DW_CFA_val_expression, 6, 1, DW_OP_lit0),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD}, {0x15, SP(8)},
	      {0x16, BAD}, {0x17, SP(8)}, {0x18, BAD}, {0x19, SP(8)}, {0x1a, BAD}, {0x50, NONE}),
	 false},
	{"the return address elsewhere",
	 BYTES(DW_CFA_offset | 16, 2, ADVANCE(1), DW_CFA_restore | 16, ADVANCE(1), DW_CFA_register,
	       16, 5, ADVANCE(1), DW_CFA_restore | 16, ADVANCE(1), DW_CFA_same_value, 16,
	       ADVANCE(1), DW_CFA_undefined, 16),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD},
	      {0x15, UNWIND_END}, {0x50, NONE}),
	 false},
	{"the caller's rsp is not the CFA",
	 BYTES(DW_CFA_same_value, 7, ADVANCE(1), DW_CFA_val_offset, 7, 0, ADVANCE(1),
	       DW_CFA_register, 7, 2, ADVANCE(1), DW_CFA_restore | 7, ADVANCE(1), DW_CFA_val_offset,
	       7, 1),
	 ROWS({0x10, BAD}, {0x11, SP(8)}, {0x12, BAD}, {0x13, SP(8)}, {0x14, BAD}, {0x50, NONE}),
	 false},
	{"other registers, whatever their rules",
	 BYTES(DW_CFA_offset | 3, 2, DW_CFA_undefined, 17, DW_CFA_same_value, 12, DW_CFA_register,
	       1, 2, DW_CFA_expression, 10, 1, DW_OP_lit0, DW_CFA_val_expression, 0, 0,
	       DW_CFA_GNU_args_size, 0x80, 1, DW_CFA_nop, DW_CFA_restore | 3, DW_CFA_val_offset, 15,
	       9),
	 ROWS({0x10, SP(8)}, {0x50, NONE}), false},
	{"CFAs that cannot be said",
	 BYTES(DW_CFA_def_cfa, 10, 0, ADVANCE(1), DW_CFA_def_cfa, 7, 12, ADVANCE(1),
	       DW_CFA_def_cfa_sf, 7, 1, ADVANCE(1), DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78,
	       DW_OP_deref, ADVANCE(1), DW_CFA_def_cfa, 6, 0x10),
	 ROWS({0x10, BAD}, {0x14, UNWIND_RULE(UNWIND_BP, 16, 0, 0)}, {0x50, NONE}), false},
	{"the largest that can",
	 BYTES(DW_CFA_def_cfa_offset, 0xf8, 0xff, 0x1f, DW_CFA_offset | 6, 0xff, 0x1f, ADVANCE(1),
	       DW_CFA_def_cfa_offset, 0x80, 0x80, 0x20, ADVANCE(1), DW_CFA_def_cfa_offset, 8,
	       ADVANCE(1), DW_CFA_offset | 6, 0x80, 0x20, ADVANCE(1), DW_CFA_offset | 6, 0),
	 ROWS({0x10, SP_SAVED(524280, 4095)}, {0x11, BAD}, {0x12, SP_SAVED(8, 4095)}, {0x13, BAD},
	      {0x50, NONE}),
	 false},
	{"a lazy PLT", BYTES(PLT_WITH(DW_OP_lit11)), ROWS({0x10, UNWIND_PLT}, {0x50, NONE}), false},
	{"PLTs with another meaning",
	 BYTES(PLT_WITH(DW_OP_lit10), ADVANCE(1), PLT_WITH(DW_OP_lit9), ADVANCE(1),
	       PLT_WITH(DW_OP_lit11)),
	 ROWS({0x10, BAD}, {0x12, UNWIND_PLT}, {0x50, NONE}), false},

	{"an opcode that there is not", BYTES(ADVANCE(2), 0x3e),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"restore without remember", BYTES(ADVANCE(2), DW_CFA_restore_state),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"cut off in an operand", BYTES(ADVANCE(2), DW_CFA_def_cfa, 7),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"cut off in an advance", BYTES(ADVANCE(2), DW_CFA_advance_loc4, 1, 0, 0),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"an expression beyond the end", BYTES(ADVANCE(2), DW_CFA_expression, 3, 2, DW_OP_lit0),
	 ROWS({0x10, SP(8)}, {0x12, BAD}, {0x50, NONE}), true},
	{"an endless number",
	 BYTES(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	       0x80, 0x80, 0),
	 ROWS({0x10, BAD}, {0x50, NONE}), true},
	{"a register for a CFA that is an expression",
	 BYTES(PLT_WITH(DW_OP_lit11), ADVANCE(2), DW_CFA_def_cfa_register, 6),
	 ROWS({0x10, UNWIND_PLT}, {0x12, BAD}, {0x50, NONE}), true},
};

static void test_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const struct program *program = &programs[i];
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
		struct draft draft = {0};

		put_usual_cie(&draft);
		put_fde(&draft, 0x10, 0x40, program->bytes, program->n);
		assert_int_equal(build_draft(&draft, 0, &table, true), 0);
		assert_rows(program->name, table, program->rows, program->n_rows);
		assert_int_equal(table->fdes, 1);
		assert_int_equal(table->skipped, program->broken);
		assert_true(table->base == CODE);
	}
}

/* Forms that no compiler of today writes. */
static void test_rare_forms(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *negative = NULL, *deep = NULL,
							     *huge = NULL;
	struct draft draft = {0};

	(void)state;
	put_usual_cie(&draft);
	put_fde(&draft, 0, 0x10, BYTES(DW_CFA_GNU_negative_offset_extended, 6, 2));
	put_fde(&draft, 0x10, 0x10, BYTES(DW_CFA_GNU_negative_offset_extended, 3, 2));
	assert_int_equal(build_draft(&draft, 0, &negative, true), 0);
	assert_rows("negative", negative, ROWS({0, BAD}, {0x10, SP(8)}, {0x20, NONE}));

	/* More states remembered than we keep; elfutils keeps any number. */
	draft = (struct draft){0};
	put_usual_cie(&draft);
	open_fde(&draft);
	put_number(&draft, (uint32_t)(CODE - (FRAMES + draft.n)), 4);
	put_number(&draft, 0x100, 5);
	for (int i = 0; i < 64; i++)
		put(&draft, BYTES(DW_CFA_remember_state));
	put(&draft, BYTES(ADVANCE(8), DW_CFA_def_cfa_offset, 16, ADVANCE(8), DW_CFA_restore_state,
			  ADVANCE(8), DW_CFA_remember_state, ADVANCE(8), DW_CFA_remember_state));
	close_entry(&draft);
	assert_int_equal(build_draft(&draft, 0, &deep, false), 0);
	assert_rows("deep", deep,
		    ROWS({0, SP(8)}, {8, SP(16)}, {16, SP(8)}, {32, BAD}, {0x100, NONE}));

	/* Products beyond 64 bits. */
	draft = (struct draft){0};
	put_cie(&draft,
		BYTES(1, 'z', 'R', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x80,
		      0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f, 16, 1, 0x1b),
		BYTES(DW_CFA_def_cfa, 7, 8));
	put_fde(&draft, 0, 0x10,
		BYTES(DW_CFA_offset | 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
		      DW_CFA_def_cfa_sf, 7, 0x7f, DW_CFA_GNU_negative_offset_extended, 6, 0x7f,
		      DW_CFA_def_cfa, 0x87, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		      1, DW_CFA_advance_loc4, 0xff, 0xff, 0xff, 0xff, DW_CFA_def_cfa, 7, 8));
	assert_int_equal(build_draft(&draft, 0, &huge, true), 0);
	assert_rows("huge", huge, ROWS({0, BAD}, {0x10, NONE}));
	assert_int_equal(huge->skipped, 0);
}

/* Encodings of pointers and forms of CIEs; each describes the function at 0x10 .. 0x20. */
static void test_cies(void **state)
{
	static const struct unwind_row good[] = {{0x10, SP(8)}, {0x20, NONE}};
	static const struct {
		unsigned char head[24];
		size_t head_len;
		bool pcrel;
		size_t width;  /* of pointers */
		bool has_size; /* augmentation data in FDEs */
		size_t extra;  /* their bytes */
		bool sound;
	} cies[] = {
		{{1, 0, 1, 0x78, 16}, 5, false, 8, false, 0, true},
		{{3, 0, 1, 0x78, 0x90, 0}, 6, false, 8, false, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x00}, 9, false, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x10}, 9, true, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03}, 9, false, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x0b}, 9, false, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1c}, 9, true, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x04}, 9, false, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x02}, 9, false, 2, true, 0, true},
		{{1, 'z', 'P', 'L', 'R', 0, 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b},
		 17,
		 true,
		 4,
		 true,
		 4,
		 true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x3b}, 9, true, 4, true, 0, false}, /* datarel */
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x05}, 9, false, 8, true, 0, false},
		{{2, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false}, /* version */
		{{1, 'z', 'Q', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false},
		{{1, 'e', 'h', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 15, 1, 0x1b}, 9, true, 4, true, 0, false}, /* RA */
		{{1, 'z', 'R', 'Q', 0, 1, 0x78, 16, 1, 0x1b}, 10, true, 4, true, 0, false},
		{{1, 'z', 'P', 'R', 0, 1, 0x78, 16, 10, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b},
		 19,
		 true,
		 4,
		 true,
		 0,
		 false}, /* aligned */
		/* programs that break, and that advance */
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x3e}, 10, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, ADVANCE(1)}, 10, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 0x7f, 0x1b}, 9, true, 4, true, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cies) / sizeof(*cies); i++) {
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
		struct draft draft = {0};
		int ret;

		put_cie(&draft, cies[i].head, cies[i].head_len, BYTES(USUAL));
		open_fde(&draft);
		put_number(&draft, CODE + 0x10 - (cies[i].pcrel ? FRAMES + draft.n : 0),
			   cies[i].width);
		put_number(&draft, 0x10, cies[i].width);
		if (cies[i].has_size)
			put_number(&draft, cies[i].extra, 1);
		put_number(&draft, 0, cies[i].extra);
		close_entry(&draft);
		ret = build_draft(&draft, 0, &table, cies[i].sound);
		if (cies[i].sound) {
			assert_int_equal(ret, 0);
			assert_rows("CIE", table, good, 2);
			assert_int_equal(table->skipped, 0);
		} else if (ret != -ENOEXEC) {
			fail_msg("CIE %zu was taken", i);
		}
	}
}

/* cfa and ra: the lower 7 bits of the offset, which is 128 more */
#define UCONTEXT(cfa, ra)                                                                          \
	DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0x80 | (cfa), 1, DW_OP_deref,                   \
		DW_CFA_expression, 6, 3, DW_OP_breg7, 0xf8, 0, DW_CFA_expression, 16, 3,           \
		DW_OP_breg7, 0x80 | (ra), 1

static void test_signal_frames(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	struct draft draft = {0};

	(void)state;
	put_cie(&draft, BYTES(1, 'z', 'R', 'S', 0, 1, 0x78, 16, 1, 0x1b), NULL, 0);
	/* one byte in front of the function, as glibc writes it */
	put_fde(&draft, 0xf, 0x11, BYTES(UCONTEXT(160 - 128, 168 - 128)));
	put_fde(&draft, 0x20, 0x10, BYTES(UCONTEXT(168 - 128, 168 - 128)));
	put_fde(&draft, 0x30, 0x10, BYTES(UCONTEXT(160 - 128, 176 - 128)));
	put_fde(&draft, 0x40, 0x10, BYTES(USUAL));
	put_fde(&draft, 0x50, 0x10, BYTES(USUAL, DW_CFA_undefined, 16));
	/* the same without the 'S' */
	put_usual_cie(&draft);
	put_fde(&draft, 0x60, 0x10, BYTES(UCONTEXT(160 - 128, 168 - 128)));
	assert_int_equal(build_draft(&draft, 0, &table, true), 0);
	assert_rows("signal", table,
		    ROWS({0xf, UNWIND_SIGNAL}, {0x20, BAD}, {0x50, UNWIND_END}, {0x60, BAD},
			 {0x70, NONE}));
}

static void put_set_loc_fde(struct draft *draft, uint32_t pc, uint64_t vaddr)
{
	open_fde(draft);
	put_number(draft, (uint32_t)(CODE + pc - (FRAMES + draft->n)), 4);
	put_number(draft, 0x40, 5);
	put_number(draft, DW_CFA_set_loc, 1);
	put_number(draft, (uint32_t)(vaddr - (FRAMES + draft->n)), 4);
	put(draft, BYTES(DW_CFA_def_cfa_offset, 16));
	close_entry(draft);
}

/* Order, overlaps, gaps and ends of entries. */
static void test_layout(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *sorted = NULL, *cut = NULL,
							     *moved = NULL;
	struct draft draft = {0};

	(void)state;
	put_usual_cie(&draft);
	put_fde(&draft, 0x40, 0x10, BYTES(DW_CFA_def_cfa_offset, 16));
	put_fde(&draft, 0x10, 0x10, BYTES(ADVANCE(8), DW_CFA_def_cfa_offset, 16));
	put_fde(&draft, 0x20, 0x10, BYTES(DW_CFA_def_cfa_offset, 16)); /* goes on like the last */
	put_fde(&draft, 0x38, 0x08, NULL, 0);
	put_number(&draft, 0, 4); /* an end in the middle */
	put_fde(&draft, 0x60, 0x10, NULL, 0);
	put_fde(&draft, 0x70, 0, BYTES(DW_CFA_def_cfa_offset, 16));
	put_number(&draft, 0, 4);
	assert_int_equal(build_draft(&draft, 0, &sorted, false), 0);
	assert_rows("sorted", sorted,
		    ROWS({0x10, SP(8)}, {0x18, SP(16)}, {0x30, NONE}, {0x38, SP(8)}, {0x40, SP(16)},
			 {0x50, NONE}, {0x60, SP(8)}, {0x70, NONE}));
	assert_int_equal(sorted->fdes, 5);
	assert_int_equal(sorted->skipped, 0);
	assert_int_equal(unwind_table__find(sorted, 0), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0xf), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0x10), SP(8));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x2f), SP(16));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x30), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0x6f), SP(8));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x70), NONE);
	assert_int_equal(unwind_table__find(sorted, UINT64_MAX), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + (1ull << 32) + 0x10), NONE);

	draft = (struct draft){0};
	put_usual_cie(&draft);
	put_fde(&draft, 0x10, 0x20, NULL, 0);
	put_fde(&draft, 0x18, 0x08, BYTES(DW_CFA_def_cfa_offset, 16)); /* wholly inside: left out */
	put_fde(&draft, 0x20, 0x20,
		BYTES(DW_CFA_def_cfa_offset, 24, ADVANCE(8), DW_CFA_def_cfa_offset, 32, ADVANCE(16),
		      DW_CFA_def_cfa_offset, 40));
	put_fde(&draft, 0x3f, 0x11, BYTES(0x3e)); /* broken where it is cut */
	put_fde(&draft, 0xff8, 0x08, NULL, 0);
	put_fde(&draft, 0xff8, 0x09, NULL, 0);	    /* beyond the segment */
	put_fde(&draft, -CODE, 0x10, NULL, 0);	    /* at 0: discarded by the linker */
	put_fde(&draft, 0x80, 0xffffffff, NULL, 0); /* a negative length */
	open_entry(&draft);			    /* of a CIE in front of the section */
	put_number(&draft, 0x7fffffff, 4);
	put_number(&draft, 0, 8);
	close_entry(&draft);
	put_number(&draft, 2, 4); /* shorter than its id */
	put_number(&draft, 0, 2);
	put_number(&draft, 0xffffffff, 4);
	put_number(&draft, 0, 8);
	assert_int_equal(build_draft(&draft, 0, &cut, false), 0);
	assert_rows("cut", cut,
		    ROWS({0x10, SP(8)}, {0x30, SP(32)}, {0x38, SP(40)}, {0x40, BAD}, {0x50, NONE},
			 {0xff8, SP(8)}, {0x1000, NONE}));
	assert_int_equal(cut->fdes, 4);
	assert_int_equal(cut->skipped, 8);

	draft = (struct draft){0};
	put_usual_cie(&draft);
	put_set_loc_fde(&draft, 0x10, CODE + 0x18);
	put_set_loc_fde(&draft, 0x50, CODE + 0x4f);
	put_set_loc_fde(&draft, 0x90, CODE - 1);
	put_set_loc_fde(&draft, 0xd0, CODE + 0x110);
	assert_int_equal(build_draft(&draft, 0, &moved, false), 0);
	assert_rows("moved", moved,
		    ROWS({0x10, SP(8)}, {0x18, SP(16)}, {0x50, BAD}, {0xd0, SP(8)}, {0x110, NONE}));
}

static void put_functions(struct draft *draft, size_t n)
{
	put_usual_cie(draft);
	for (size_t i = 0; i < n; i++)
		put_fde(draft, 2 * i, 1, NULL, 0);
}

static void test_limits(void **state)
{
	struct unwind_table *table = NULL;
	struct elf_image *image;
	struct draft draft = {0};
	struct error err = {0};
	Elf64_Phdr phdr;
	int fd;

	(void)state;
	put_functions(&draft, 3);
	assert_int_equal(build_draft(&draft, 5, &table, false), -E2BIG);
	draft = (struct draft){0};
	put_functions(&draft, 3);
	assert_int_equal(build_draft(&draft, 6, &table, false), 0);
	assert_int_equal(table->n, 6);
	unwind_table__free(table);

	/* Only an end: nothing to say, nothing wrong. */
	draft = (struct draft){0};
	put_number(&draft, 0, 4);
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->n, 0);
	assert_int_equal(unwind_table__find(table, CODE), NONE);
	unwind_table__free(table);

	draft = (struct draft){0};
	for (int i = 0; i < 512; i++)
		put_number(&draft, next_random() | 0x80000000, 8);
	fd = make_file(&draft);
	image = open_image(fd);
	assert_int_equal(unwind_table__build(image, 0, &table, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, ".eh_frame"));
	elf_image__free(image);

	/* No .eh_frame: the section gets another name. */
	assert_int_equal(pwrite(fd, "x", 1, SHSTRTAB + 2), 1);
	image = open_image(fd);
	table = build(image);
	assert_int_equal(table->n, 0);
	unwind_table__free(table);
	elf_image__free(image);
	assert_int_equal(pwrite(fd, "e", 1, SHSTRTAB + 2), 1);

	/* The second segment becomes executable and far away. */
	assert_int_equal(pread(fd, &phdr, sizeof(phdr), 0x40 + sizeof(phdr)), sizeof(phdr));
	phdr.p_flags = PF_R | PF_X;
	phdr.p_vaddr = CODE + (1ull << 32);
	assert_int_equal(pwrite(fd, &phdr, sizeof(phdr), 0x40 + sizeof(phdr)), sizeof(phdr));
	image = open_image(fd);
	assert_int_equal(unwind_table__build(image, 0, &table, NULL), -ERANGE);
	elf_image__free(image);
	close(fd);
	free(draft.bytes);
}

/* --- hostile files ------------------------------------------------------------------------------
 */

static int copy_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int copy = memfd_create("copy", MFD_CLOEXEC);
	struct stat st;
	void *bytes;

	assert_true(fd >= 0 && copy >= 0 && fstat(fd, &st) == 0);
	bytes = malloc(st.st_size);
	assert_non_null(bytes);
	assert_int_equal(io__pread(fd, bytes, st.st_size, 0), st.st_size);
	assert_int_equal(write(copy, bytes, st.st_size), st.st_size);
	free(bytes);
	return copy;
}

static const char libc_path[] = "/lib/x86_64-linux-gnu/libc.so.6";

/* Stripped of its section headers, a file gives the same table through PT_GNU_EH_FRAME. */
static void test_without_sections(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *with = NULL, *without = NULL;
	_cleanup_close_ int fd = copy_file(libc_path);
	Elf64_Ehdr ehdr;

	(void)state;
	with = build_fd(fd);
	assert_int_equal(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	ehdr.e_shoff = 0;
	ehdr.e_shnum = 0;
	ehdr.e_shstrndx = 0;
	assert_int_equal(pwrite(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	without = build_fd(fd);
	assert_int_equal(with->n, without->n);
	assert_int_equal(with->fdes, without->fdes);
	assert_int_equal(without->skipped, 0);
	assert_memory_equal(with->rows, without->rows, with->n * sizeof(*with->rows));
}

static void build_anything(const struct elf_image *image)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;

	switch (unwind_table__build(image, 0, &table, NULL)) {
	case 0:
		check_shape(table);
		break;
	case -ENOEXEC:
		assert_null(table);
		break;
	default:
		fail();
	}
}

static void test_mutations(void **state)
{
	_cleanup_close_ int fd = copy_file(libc_path);
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);
	_cleanup_free_ unsigned char *bytes = NULL, *mutated = NULL;
	uint64_t vaddr, off;
	double before = now();
	size_t size;

	(void)state;
	assert_int_equal(elf_image__read_eh_frame(image, &bytes, &size, &vaddr), 0);
	assert_int_equal(elf_image__vaddr_to_off(image, vaddr, &off), 0);
	mutated = malloc(size);
	assert_non_null(mutated);
	for (int i = 0; i < 5000; i++) {
		size_t n = 1 + next_random() % (i % 10 == 0 ? 2000 : 20);

		memcpy(mutated, bytes, size);
		while (n--) {
			size_t pos = next_random() % size;

			switch (next_random() % 4) {
			case 0:
				mutated[pos] ^= 1u << next_random() % 8;
				break;
			case 1:
				mutated[pos] = next_random();
				break;
			case 2:
				mutated[pos] = next_random() % 2 ? 0xff : 0;
				break;
			case 3: /* a piece from elsewhere */
				for (size_t from = next_random() % size, len = next_random() % 32;
				     len && pos < size && from < size; len--)
					mutated[pos++] = bytes[from++];
				break;
			}
		}
		/* Lengths decide how far reading goes: keep them in most. */
		if (i % 4 != 0) {
			for (size_t pos = 0; size - pos >= 4;) {
				uint32_t len;

				memcpy(&len, bytes + pos, 4);
				memcpy(mutated + pos, &len, 4);
				pos += 4 + (size_t)len;
			}
		}
		assert_int_equal(pwrite(fd, mutated, size, off), size);
		build_anything(image);
	}
	print_message("5000 mutations of libc's .eh_frame: %.1f s\n", now() - before);
}

/* The file ends earlier: at each of its section's first bytes, then at random places. The image was
 * opened when it was whole, as when a target cuts it in that moment, or is opened again. */
static void test_truncations(void **state)
{
	_cleanup_close_ int fd = copy_file("/lib64/ld-linux-x86-64.so.2");
	_cleanup_(elf_image__cleanup) struct elf_image *whole = open_image(fd);
	_cleanup_free_ unsigned char *bytes = NULL;
	uint64_t vaddr, off;
	size_t size;

	(void)state;
	assert_int_equal(elf_image__read_eh_frame(whole, &bytes, &size, &vaddr), 0);
	assert_int_equal(elf_image__vaddr_to_off(whole, vaddr, &off), 0);
	for (size_t i = 0; i < 1000; i++) {
		_cleanup_free_ char *tail = NULL;
		size_t end = off + (i < 500 ? i : next_random() % size);
		struct elf_image *again;
		struct stat st;

		assert_int_equal(fstat(fd, &st), 0);
		tail = malloc(st.st_size - end);
		assert_non_null(tail);
		assert_int_equal(pread(fd, tail, st.st_size - end, end), st.st_size - end);
		assert_int_equal(ftruncate(fd, end), 0);
		build_anything(whole);
		if (elf_image__open(fd, "cut", &again, NULL) == 0) {
			build_anything(again);
			elf_image__free(again);
		}
		assert_int_equal(pwrite(fd, tail, st.st_size - end, end), st.st_size - end);
	}

	/* A short section in a sound file: each cut of a small one. */
	for (size_t i = 1; i < 4096; i++) {
		struct draft draft = {0};
		int copy;

		put(&draft, bytes, i);
		copy = make_file(&draft);
		free(draft.bytes);

		_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(copy);

		build_anything(image);
		close(copy);
	}
}

/* Many FDEs of one long CIE, many CIEs, many states at one address: work that could multiply. */
static void test_multiplied_work(void **state)
{
	static const unsigned char nops[1 << 20];
	struct unwind_table *table = NULL;
	struct draft draft = {0};
	double before;

	(void)state;
	open_entry(&draft);
	put(&draft, BYTES(0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, USUAL));
	put(&draft, nops, sizeof(nops));
	close_entry(&draft);
	for (int i = 0; i < 200000; i++)
		put_fde(&draft, i % CODE_LEN, 1, NULL, 0);
	before = now();
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->fdes, CODE_LEN);
	assert_int_equal(table->skipped, 200000 - CODE_LEN);
	unwind_table__free(table);

	draft = (struct draft){0};
	for (int i = 0; i < 200000; i++)
		put_usual_cie(&draft);
	for (int i = 0; i < 200000; i++)
		put_fde(&draft, 0, CODE_LEN, BYTES(ADVANCE(0), ADVANCE(0), ADVANCE(0), ADVANCE(0)));
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->n, 2);
	unwind_table__free(table);
	assert_true(now() - before < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_rare_forms),
		cmocka_unit_test(test_cies),
		cmocka_unit_test(test_signal_frames),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_restorer),
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_multiplied_work),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
