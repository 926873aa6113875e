// SPDX-License-Identifier: BSD-2-Clause
/* Two processes. The parent finds sections by their names, with bounds, and reads a stream of
 * records, with bounds. The child is alone with libdw: it indexes the ranges of the compile units
 * once, keeping only those that hold an address (.debug_aranges is not asked, for clang writes
 * none), then walks the DIEs of each of these units once, into what holds an address only.
 *
 * The stream: per address a struct record, then its frames, each a struct wire_frame and the bytes
 * of its two strings. Same machine, same program: no byte order, and no version. How it all went is
 * the child's exit status. */
#include "symbolize/dwarf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "symbolize/clean.h"
#include "symbolize/sandbox.h"

#define DEBUG_ROOT	 "/usr/lib/debug"
#define MAX_SECTIONS	 65536	    /* headers looked at; real files have some 40 */
#define MAX_BUILD_ID	 64	    /* bytes; real ones have 20 */
#define MAX_ADDRESSES	 (1u << 24) /* per call */
#define MAX_PATIENCE_S	 86400.0
#define MAX_STREAM_BYTES (256u << 20) /* from the child, */
#define ADDRESS_BYTES	 (16u << 10)  /* and per address, on average; clang's take 1 KiB */
#define MEMORY_BYTES	 (4ull << 30) /* for the child, files not counted */
#define UNITS_AT_ONCE	 64
#define MAX_DEPTH	 512 /* of nested DIEs; real ones reach some 50 */
#define NONE		 UINT32_MAX

/* Where sandbox__leave puts them. */
enum { FILE_FD = SANDBOX_FIRST_FD, OUT_FD };

/* How the child ends, unless it is killed. */
enum { EXIT_DONE, EXIT_FAILED, EXIT_NO_DWARF, EXIT_NO_SANDBOX };

struct dwarf_test_hooks dwarf__test_hooks;

struct record {
	uint32_t at; /* index of the address, each at most once */
	uint32_t n;  /* frames, 1 to DWARF_MAX_FRAMES */
};

struct wire_frame {
	uint32_t line;
	uint32_t function_len, file_len; /* bytes without a NUL, to NAME_MAX_BYTES; NONE: NULL */
};

/* --- sections by name, for both processes: no library, everything bounded --- */

static bool read_section(int fd, const Elf64_Ehdr *elf, size_t i, Elf64_Shdr *ret)
{
	uint64_t off;

	return !__builtin_add_overflow(elf->e_shoff, i * sizeof(*ret), &off) &&
	       io__pread(fd, ret, sizeof(*ret), off) == sizeof(*ret);
}

/* The first section of that name that has bytes in the file. */
static bool find_section(int fd, const char *wanted, Elf64_Shdr *ret)
{
	char name[32];
	size_t n, names_at, len = strlen(wanted) + 1;
	Elf64_Shdr first, names, section;
	Elf64_Ehdr elf;

	if (io__pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_shentsize != sizeof(section) ||
	    !elf.e_shoff || !read_section(fd, &elf, 0, &first))
		return false;
	n = elf.e_shnum ? elf.e_shnum : first.sh_size;
	names_at = elf.e_shstrndx == SHN_XINDEX ? first.sh_link : elf.e_shstrndx;
	if (!read_section(fd, &elf, names_at, &names))
		return false;
	for (size_t i = 1; i < n && i < MAX_SECTIONS; i++) {
		uint64_t off;

		if (!read_section(fd, &elf, i, &section))
			return false;
		if (section.sh_type == SHT_NOBITS || !section.sh_size ||
		    __builtin_add_overflow(names.sh_offset, section.sh_name, &off) ||
		    io__pread(fd, name, len, off) != (ssize_t)len || memcmp(name, wanted, len) != 0)
			continue;
		*ret = section;
		return true;
	}
	return false;
}

bool dwarf__present(int fd)
{
	Elf64_Shdr section;

	return find_section(fd, ".debug_info", &section) ||
	       find_section(fd, ".zdebug_info", &section);
}

/* --- child: the file that dwz moved common things to --- */

static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* .gnu_debugaltlink: a path, NUL, a build-id. Opened as nobody, below the debug root only; whether
 * it is the right file is seen later, in the sandbox. A descriptor or -1. */
static int open_alternate(int file_fd)
{
	const char *root = dwarf__test_hooks.debug_root ? dwarf__test_hooks.debug_root : DEBUG_ROOT;
	char link[PATH_MAX + MAX_BUILD_ID], path[2 * PATH_MAX], hex[2 * MAX_BUILD_ID + 1], *base;
	size_t root_len = strlen(root), path_len, id_len;
	Elf64_Shdr section;
	ssize_t len;
	int fd;

	if (!find_section(file_fd, ".gnu_debugaltlink", &section) || section.sh_size > sizeof(link))
		return -1;
	len = io__pread(file_fd, link, section.sh_size, section.sh_offset);
	if (len <= 0)
		return -1;
	path_len = strnlen(link, (size_t)len);
	id_len = (size_t)len - path_len;
	if (id_len < 3 || id_len - 1 > MAX_BUILD_ID)
		return -1;
	for (size_t i = 0; i < id_len - 1; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)link[path_len + 1 + i]);
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", root, hex, hex + 2);
	fd = open_regular(path);
	if (fd >= 0)
		return fd;

	/* Debian's links are absolute; Fedora's lead from the debug file to the same directory. */
	if (link[0] == '/') {
		if (strncmp(link, root, root_len) != 0 || link[root_len] != '/' ||
		    strstr(link, "/../"))
			return -1;
		return open_regular(link);
	}
	base = strrchr(link, '/');
	snprintf(path, sizeof(path), "%s/.dwz/%s", root, base ? base + 1 : link);
	return open_regular(path);
}

/* The one that fd holds, if it is the one that dwarf wants; or NULL. */
static Dwarf *check_alternate(Dwarf *dwarf, int fd)
{
	const void *wanted_id, *id;
	const char *path;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(dwarf, &path, &wanted_id);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (len <= 0 || !elf || dwelf_elf_gnu_build_id(elf, &id) != len ||
	    memcmp(id, wanted_id, (size_t)len) != 0)
		return NULL;
	return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}

/* --- child: which unit holds which address --- */

/* Our own memory is not freed here: the child ends soon, and all at once. */
struct unit {
	Dwarf_Die die;
	const char *directory;	/* or NULL */
	Dwarf_Files *files;	/* or NULL */
	const uint64_t *vaddrs; /* those in this unit, ascending */
	const uint32_t *at;	/* their indexes in the whole */
	uint32_t *scope;	/* per address the innermost known scope of it, or NONE */
	size_t n;
	struct scope {
		Dwarf_Die die;
		uint32_t parent; /* index of the scope it was inlined to; NONE: it was not */
	} * scopes;
	size_t n_scopes, room;
};

static void *must(void *memory)
{
	if (!memory)
		_exit(EXIT_FAILED);
	return memory;
}

/* First index with vaddrs[index] >= vaddr. */
static size_t lower_bound(const uint64_t *vaddrs, size_t n, uint64_t vaddr)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (vaddrs[mid] < vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The next range of a DIE that is not empty. What a linker has thrown away starts at 0, or at 1
 * where a 0 would end the list, and lies above real code then. *off begins at 0. */
static bool next_range(Dwarf_Die *die, ptrdiff_t *off, uint64_t *ret_start, uint64_t *ret_end)
{
	Dwarf_Addr base;

	while ((*off = dwarf_ranges(die, *off, &base, ret_start, ret_end)) > 0)
		if (*ret_start > 1 && *ret_start < *ret_end)
			return true;
	return false;
}

/* For each address its unit, and the length of the range that says so: of several the shortest is
 * believed, for wrong ones are long. */
struct claim {
	uint64_t len;
	uint32_t unit; /* index, or NONE */
};

/* The offsets of the units that hold an address. */
static size_t index_units(Dwarf *dwarf, const uint64_t *vaddrs, size_t n, struct claim *claims,
			  Dwarf_Off **ret_units)
{
	size_t n_units = 0, room = 0;
	Dwarf_CU *cu = NULL;
	Dwarf_Off *units = NULL;
	Dwarf_Die die;
	uint8_t type;

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct claim){UINT64_MAX, NONE};
	/* Ends at the first header that is broken: what follows cannot be found. */
	while (!dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, NULL)) {
		uint64_t start, end;
		ptrdiff_t off = 0;
		bool used = false;

		if ((type != DW_UT_compile && type != DW_UT_skeleton) ||
		    (dwarf_tag(&die) != DW_TAG_compile_unit &&
		     dwarf_tag(&die) != DW_TAG_skeleton_unit))
			continue;
		while (next_range(&die, &off, &start, &end)) {
			for (size_t i = lower_bound(vaddrs, n, start); i < n && vaddrs[i] < end;
			     i++) {
				if (end - start >= claims[i].len)
					continue;
				claims[i] = (struct claim){end - start, (uint32_t)n_units};
				used = true;
			}
		}
		if (!used)
			continue;
		if (n_units == room) {
			room = room ? 2 * room : 256;
			units = must(reallocarray(units, room, sizeof(*units)));
		}
		units[n_units++] = dwarf_dieoffset(&die);
	}
	*ret_units = units;
	return n_units;
}

/* --- child: which functions, inlined in which, hold an address --- */

/* Gives the DIE's addresses that so far belong to parent to a new scope, if there are any. Its
 * index or NONE. */
static uint32_t enter_scope(struct unit *unit, Dwarf_Die *die, uint32_t parent)
{
	uint32_t scope = NONE;
	uint64_t start, end;
	ptrdiff_t off = 0;

	while (next_range(die, &off, &start, &end)) {
		for (size_t i = lower_bound(unit->vaddrs, unit->n, start);
		     i < unit->n && unit->vaddrs[i] < end; i++) {
			if (unit->scope[i] != parent)
				continue;
			if (scope == NONE) {
				if (unit->n_scopes == unit->room) {
					unit->room = unit->room ? 2 * unit->room : 1024;
					unit->scopes = must(reallocarray(unit->scopes, unit->room,
									 sizeof(*unit->scopes)));
				}
				scope = (uint32_t)unit->n_scopes++;
				unit->scopes[scope] = (struct scope){*die, parent};
			}
			unit->scope[i] = scope;
		}
	}
	return scope;
}

/* May a block hold addresses of the scope? One without ranges of its own may. */
static bool block_matters(const struct unit *unit, Dwarf_Die *die, uint32_t scope)
{
	uint64_t start, end;
	ptrdiff_t off = 0;

	if (!dwarf_hasattr(die, DW_AT_ranges) && !dwarf_hasattr(die, DW_AT_high_pc))
		return true;
	while (next_range(die, &off, &start, &end))
		for (size_t i = lower_bound(unit->vaddrs, unit->n, start);
		     i < unit->n && unit->vaddrs[i] < end; i++)
			if (unit->scope[i] == scope)
				return true;
	return false;
}

/* Walks the children of a DIE that lies in scope (NONE: in no function). everywhere: also into
 * functions that hold no address themselves, for functions that are nested in them. */
static void walk(struct unit *unit, Dwarf_Die *parent, uint32_t scope, bool everywhere, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return;
	do {
		uint32_t entered;

		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			entered = enter_scope(unit, &die, NONE);
			if (entered != NONE || everywhere)
				walk(unit, &die, entered, everywhere, depth + 1);
			break;
		case DW_TAG_inlined_subroutine:
			entered = scope == NONE ? NONE : enter_scope(unit, &die, scope);
			if (entered != NONE || everywhere)
				walk(unit, &die, entered, everywhere, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_with_stmt:
			if (everywhere || (scope != NONE && block_matters(unit, &die, scope)))
				walk(unit, &die, scope, everywhere, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
		case DW_TAG_interface_type:
		case DW_TAG_enumeration_type: /* Rust's have methods */
			if (everywhere || scope == NONE)
				walk(unit, &die, NONE, everywhere, depth + 1);
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

/* --- child: what to say of an address --- */

struct answer {
	struct wire_frame wire;
	const char *function, *file, *directory; /* directory: goes before file, or NULL */
};

static void set_function(struct answer *answer, Dwarf_Die *die)
{
	static const unsigned int names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
					     DW_AT_name};
	Dwarf_Attribute attr;

	for (size_t i = 0; !answer->function && i < sizeof(names) / sizeof(*names); i++)
		answer->function = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));
}

static void set_file(struct answer *answer, const struct unit *unit, const char *file)
{
	if (!file || !*file || !strcmp(file, "???")) /* libdw's word for none */
		return;
	answer->file = file;
	answer->directory = *file == '/' ? NULL : unit->directory;
}

static uint64_t number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &value) ? 0 : value;
}

/* Where the address is. */
static void set_line(struct answer *answer, struct unit *unit, uint64_t vaddr)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, vaddr);
	int number;

	if (!line)
		return;
	set_file(answer, unit, dwarf_linesrc(line, NULL, NULL));
	if (!dwarf_lineno(line, &number) && number > 0)
		answer->wire.line = (uint32_t)number;
}

/* Where the inlined function of die was called. */
static void set_call(struct answer *answer, const struct unit *unit, Dwarf_Die *die)
{
	uint64_t line = number(die, DW_AT_call_line);

	if (unit->files && dwarf_hasattr(die, DW_AT_call_file))
		set_file(answer, unit,
			 dwarf_filesrc(unit->files, number(die, DW_AT_call_file), NULL, NULL));
	answer->wire.line = line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t cut(size_t len)
{
	return len < NAME_MAX_BYTES ? (uint32_t)len : NAME_MAX_BYTES;
}

static void send(FILE *out, const void *data, size_t len)
{
	if (len && fwrite(data, len, 1, out) != 1)
		_exit(EXIT_FAILED);
}

static void send_answer(FILE *out, struct answer *answer)
{
	char joined[NAME_MAX_BYTES + 1];
	const char *file = answer->file;

	if (file && answer->directory) {
		size_t len = strlen(answer->directory);

		snprintf(joined, sizeof(joined), "%s%s%s", answer->directory,
			 len && answer->directory[len - 1] == '/' ? "" : "/", file);
		file = joined;
	}
	answer->wire.function_len = answer->function ? cut(strlen(answer->function)) : NONE;
	answer->wire.file_len = file ? cut(strlen(file)) : NONE;
	send(out, &answer->wire, sizeof(answer->wire));
	if (answer->function)
		send(out, answer->function, answer->wire.function_len);
	if (file)
		send(out, file, answer->wire.file_len);
}

static void send_address(FILE *out, struct unit *unit, size_t i)
{
	struct answer answers[DWARF_MAX_FRAMES] = {0};
	uint32_t scope = unit->scope[i];
	size_t n = 0;

	set_line(&answers[0], unit, unit->vaddrs[i]);
	if (scope != NONE) {
		while (unit->scopes[scope].parent != NONE) {
			set_function(&answers[n], &unit->scopes[scope].die);
			if (n < DWARF_MAX_FRAMES - 1)
				n++;
			answers[n] = (struct answer){0};
			set_call(&answers[n], unit, &unit->scopes[scope].die);
			scope = unit->scopes[scope].parent;
		}
		set_function(&answers[n], &unit->scopes[scope].die);
	} else if (!answers[0].file && !answers[0].wire.line) {
		return;
	}
	n++;
	send(out, &(struct record){unit->at[i], (uint32_t)n}, sizeof(struct record));
	for (size_t k = 0; k < n; k++)
		send_answer(out, &answers[k]);
}

static void resolve_unit(FILE *out, struct unit *unit)
{
	Dwarf_Attribute attr;
	size_t n_files, missing = 0;

	unit->directory = dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &attr));
	if (dwarf_getsrcfiles(&unit->die, &unit->files, &n_files))
		unit->files = NULL;
	for (size_t i = 0; i < unit->n; i++)
		unit->scope[i] = NONE;
	unit->n_scopes = 0;
	walk(unit, &unit->die, NONE, false, 0);
	for (size_t i = 0; i < unit->n; i++)
		missing += unit->scope[i] == NONE;
	if (missing)
		walk(unit, &unit->die, NONE, true, 0);
	for (size_t i = 0; i < unit->n; i++)
		send_address(out, unit, i);
	if (fflush(out)) /* from here on the parent has it */
		_exit(EXIT_FAILED);
}

/* The whole; an exit status. */
static int resolve(FILE *out, int alternate_fd, const uint64_t *vaddrs, size_t n)
{
	struct claim *claims = must(calloc(n, sizeof(*claims)));
	uint32_t *at = must(calloc(n, sizeof(*at))), *ends;
	uint64_t *sorted = must(calloc(n, sizeof(*sorted)));
	struct unit unit = {.scope = must(calloc(n, sizeof(*unit.scope)))};
	size_t n_units;
	Dwarf *dwarf, *alternate = NULL;
	Dwarf_Off *units;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(FILE_FD, ELF_C_READ_MMAP, NULL);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!dwarf)
		return EXIT_NO_DWARF;
	if (alternate_fd >= 0)
		alternate = check_alternate(dwarf, alternate_fd);

	/* Addresses by unit, ascending in each: a counting sort. */
	n_units = index_units(dwarf, vaddrs, n, claims, &units);
	ends = must(calloc(n_units + 1, sizeof(*ends)));
	for (size_t i = 0; i < n; i++)
		if (claims[i].unit != NONE)
			ends[claims[i].unit + 1]++;
	for (size_t u = 0; u < n_units; u++)
		ends[u + 1] += ends[u];
	for (size_t i = 0; i < n; i++) {
		if (claims[i].unit == NONE)
			continue;
		at[ends[claims[i].unit]] = (uint32_t)i;
		sorted[ends[claims[i].unit]++] = vaddrs[i];
	}
	for (size_t u = 0, begin = 0; u < n_units; begin = ends[u++]) {
		if (u % UNITS_AT_ONCE == 0) { /* libdw keeps all it has read of a unit */
			dwarf_end(dwarf);
			dwarf = must(dwarf_begin_elf(elf, DWARF_C_READ, NULL));
			if (alternate)
				dwarf_setalt(dwarf, alternate);
		}
		unit.vaddrs = sorted + begin;
		unit.at = at + begin;
		unit.n = ends[u] - begin;
		if (unit.n && dwarf_offdie(dwarf, units[u], &unit.die))
			resolve_unit(out, &unit);
	}
	return EXIT_DONE;
}

static _Noreturn void run_child(pid_t parent, int file_fd, int out_fd, unsigned int cpu_s,
				const uint64_t *vaddrs, size_t n)
{
	const int fds[] = {file_fd, out_fd};
	uint64_t memory_bytes = MEMORY_BYTES;
	int alternate_fd;
	struct stat st;
	FILE *out;

	if (sandbox__leave(parent, fds, sizeof(fds) / sizeof(*fds)))
		_exit(EXIT_NO_SANDBOX);
	out = must(fdopen(OUT_FD, "w"));
	alternate_fd = open_alternate(FILE_FD);
	/* Files are mapped whole, which costs no memory. */
	if (!fstat(FILE_FD, &st))
		memory_bytes += (uint64_t)st.st_size;
	if (alternate_fd >= 0 && !fstat(alternate_fd, &st))
		memory_bytes += (uint64_t)st.st_size;
	if (sandbox__seal(cpu_s, memory_bytes, OUT_FD))
		_exit(EXIT_NO_SANDBOX);

	if (dwarf__test_hooks.in_child)
		dwarf__test_hooks.in_child();
	_exit(resolve(out, alternate_fd, vaddrs, n));
}

/* --- parent --- */

struct stream {
	int fd;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	size_t left;	      /* bytes that may still come */
	size_t at, end;	      /* what buf holds that was not taken yet */
	unsigned char buf[65536];
};

/* Waits for some bytes. Their number, 0 at the end, or negative errno. */
static ssize_t stream__fill(struct stream *stream)
{
	struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};
	ssize_t len;

	for (;;) {
		uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC), left_ms;
		int ready;

		if (now_ns >= stream->deadline_ns)
			return -ETIMEDOUT;
		left_ms = (stream->deadline_ns - now_ns) / 1000000 + 1;
		ready = poll(&poll_fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		len = read(stream->fd, stream->buf, sizeof(stream->buf));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		stream->at = 0;
		stream->end = (size_t)len;
		if ((size_t)len > stream->left)
			return -ECHILD;
		stream->left -= (size_t)len;
		return len;
	}
}

/* Exactly len bytes: 1; none, at the end: 0; else negative errno. */
static int stream__read(struct stream *stream, void *to, size_t len)
{
	for (size_t got = 0, n; got < len; got += n) {
		if (stream->at == stream->end) {
			ssize_t more = stream__fill(stream);

			if (more < 0)
				return (int)more;
			if (!more)
				return got ? -ECHILD : 0;
		}
		n = stream->end - stream->at;
		if (n > len - got)
			n = len - got;
		memcpy((char *)to + got, stream->buf + stream->at, n);
		stream->at += n;
	}
	return 1;
}

/* The same where the end may not come. 0 or negative errno. */
static int stream__read_all(struct stream *stream, void *to, size_t len)
{
	int got = stream__read(stream, to, len);

	return got > 0 || !len ? 0 : got < 0 ? got : -ECHILD;
}

static int read_string(struct stream *stream, uint32_t len, char **ret_string)
{
	_cleanup_free_ char *string = NULL;
	int err;

	if (len == NONE)
		return 0;
	if (len > NAME_MAX_BYTES)
		return -ECHILD;
	string = malloc(len + 1);
	if (!string)
		return -ENOMEM;
	err = stream__read_all(stream, string, len);
	if (err)
		return err;
	string[len] = '\0';
	clean_name(string);
	*ret_string = string;
	string = NULL;
	return 0;
}

static int read_frames(struct stream *stream, struct dwarf_frames *frames)
{
	for (size_t i = 0; i < frames->n; i++) {
		struct dwarf_frame *frame = &frames->frames[i];
		struct wire_frame wire;
		int err;

		err = stream__read_all(stream, &wire, sizeof(wire));
		if (!err)
			err = read_string(stream, wire.function_len, &frame->function);
		if (!err)
			err = read_string(stream, wire.file_len, &frame->file);
		if (err)
			return err;
		frame->line = wire.line;
	}
	return 0;
}

/* All that the child says. */
static int receive(struct stream *stream, size_t n, struct dwarf_frames *ret)
{
	struct record record;
	int got;

	while ((got = stream__read(stream, &record, sizeof(record))) > 0) {
		struct dwarf_frames frames = {.n = record.n};
		int err;

		if (record.at >= n || ret[record.at].n || !record.n || record.n > DWARF_MAX_FRAMES)
			return -ECHILD;
		frames.frames = calloc(frames.n, sizeof(*frames.frames));
		if (!frames.frames)
			return -ENOMEM;
		err = read_frames(stream, &frames);
		if (err) {
			dwarf_frames__free(&frames, 1);
			return err;
		}
		ret[record.at] = frames;
	}
	return got;
}

/* Ends the child, if it has not ended by itself. What its end says. */
static int reap(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -ECHILD;
	switch (WEXITSTATUS(status)) {
	case EXIT_DONE:
		return 0;
	case EXIT_NO_DWARF:
		return -ENODATA;
	case EXIT_NO_SANDBOX:
		return -EPERM;
	default:
		return -ECHILD;
	}
}

int dwarf__resolve(int fd, const uint64_t *vaddrs, size_t n, double patience_s,
		   struct dwarf_frames *ret)
{
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	_cleanup_free_ struct stream *stream = NULL;
	pid_t parent = getpid(), pid;
	sigset_t all, old;
	int fds[2], err, end;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct dwarf_frames){0};
	if (n > MAX_ADDRESSES)
		return -EINVAL;
	if (!dwarf__present(fd))
		return -ENODATA;
	if (!n)
		return 0;
	patience_s = patience_s > 0 ? fmin(patience_s, MAX_PATIENCE_S) : 0;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	stream->deadline_ns = clock__now_ns(CLOCK_MONOTONIC) + (uint64_t)(patience_s * 1e9);
	stream->fd = read_fd;
	stream->left =
		n < MAX_STREAM_BYTES / ADDRESS_BYTES ? (n + 1) * ADDRESS_BYTES : MAX_STREAM_BYTES;
	stream->at = stream->end = 0;

	/* The child never unblocks them: our handlers are not for it, nor is the terminal's ^C. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (!pid)
		run_child(parent, fd, write_fd, (unsigned int)patience_s + 1, vaddrs, n);
	err = pid < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;

	close(write_fd);
	write_fd = -1;
	err = receive(stream, n, ret);
	/* Its own closing of the pipe is part of its end, after which a signal changes no status.
	 */
	end = reap(pid);
	return err ? err : end;
}

void dwarf_frames__free(struct dwarf_frames *frames, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < frames[i].n; k++) {
			free(frames[i].frames[k].function);
			free(frames[i].frames[k].file);
		}
		free(frames[i].frames);
		frames[i] = (struct dwarf_frames){0};
	}
}
