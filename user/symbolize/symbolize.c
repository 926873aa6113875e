// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allowance.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "symbolize/clean.h"
#include "symbolize/dwarf.h"
#include "symbolize/lines.h"
#include "symbolize/symtab.h"

/* at most this many bytes of answers from DWARF; if there are more, answers are dropped */
#define LINES_MAX_BYTES (32ULL << 20)
/* seconds per file; libLLVM with full debug information takes several */
#define DWARF_PATIENCE_S 20
#define NAMES_PATIENCE_S 20  /* seconds per file; chromium takes some 5 */
#define FAILING_S	 120 /* seconds for all symbol tables that cannot be read */
/* seconds per file after FAILING_S is used up; nearly all sound files need less */
#define HASTE_S 1
/* DWARF is read only if this many seconds are left, or a tenth of lines_s if that is less. With
 * less time, reading would fail in any case */
#define LEAST_LINES_S 1
/* If reading the DWARF of a file failed after at least this many seconds, the file has to wait
 * before it is read again. */
#define SLOW_LINES_S 1

/* What is known of a binary's names. */
struct names {
	struct symtab *symtab; /* NULL: the table is not in memory */
	/* why reading the symbols failed; UNRESOLVED_NAMED: it did not */
	enum unresolved_reason reason;
	bool passes; /* the failure may be temporary: try again */
	/* CLOCK_MONOTONIC: if reading took too long, when to try again; 0: at the next use */
	uint64_t due_ns;
	uint64_t used; /* last use, by the symbolizer's clock */
	struct lines lines;
	uint64_t lines_due_ns; /* CLOCK_MONOTONIC: until then, DWARF is not read again */
};

struct symbolizer {
	struct symbolize_options options;
	const struct binaries *binaries;
	struct names *names; /* indexed by binary */
	size_t n_names;
	uint64_t bytes;				 /* of the tables in memory */
	uint64_t clock;				 /* ticks at each use of a table */
	struct allowance for_lines, for_failing; /* seconds */
};

/* A location whose binary is known. */
struct place {
	struct binary *binary;
	uint64_t vaddr;
	uint32_t location;
};

static double seconds_since(uint64_t start_ns)
{
	return (double)(clock__now_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
}

/* Returns how many seconds are left now. */
static double left_in(struct allowance *seconds)
{
	return allowance__renew(seconds, clock__now_ns(CLOCK_MONOTONIC));
}

/* Subtracts the time since start_ns. */
static void spend(struct allowance *seconds, uint64_t start_ns)
{
	seconds->left = fmax(0, seconds->left - seconds_since(start_ns));
}

int symbolizer__new(const struct symbolize_options *options, const struct binaries *binaries,
		    struct symbolizer **ret_symbolizer)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
	double share = options->share > 0 ? options->share : SYMBOLIZE_SHARE;

	if (!symbolizer)
		return -ENOMEM;
	symbolizer->options = *options;
	if (!symbolizer->options.max_bytes)
		symbolizer->options.max_bytes = SYMBOLS_DEFAULT_BYTES;
	symbolizer->for_lines = (struct allowance)ALLOWANCE(
		options->lines_s > 0 ? options->lines_s : LINES_DEFAULT_S, share);
	symbolizer->for_failing = (struct allowance)ALLOWANCE(
		options->failing_s > 0 ? options->failing_s : FAILING_S, share);
	symbolizer->binaries = binaries;
	*ret_symbolizer = symbolizer;
	return 0;
}

void symbolizer__free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->n_names; i++) {
		symtab__free(symbolizer->names[i].symtab);
		lines__clear(&symbolizer->names[i].lines);
	}
	free(symbolizer->names);
	free(symbolizer);
}

/* --- symbol tables --- */

static void drop_symtab(struct symbolizer *symbolizer, struct names *names)
{
	if (names->symtab)
		symbolizer->bytes -= symtab__bytes(names->symtab);
	symtab__free(names->symtab);
	names->symtab = NULL;
}

void symbolizer__forget(struct symbolizer *symbolizer, size_t index)
{
	struct names *names;

	if (index >= symbolizer->n_names)
		return;
	names = &symbolizer->names[index];
	drop_symtab(symbolizer, names);
	lines__clear(&names->lines);
	*names = (struct names){};
}

/* Drops the least recently used tables until the others fit into max_bytes. Never drops the table
 * of `in_use`. */
static void evict(struct symbolizer *symbolizer, const struct names *in_use)
{
	while (symbolizer->bytes > symbolizer->options.max_bytes) {
		struct names *oldest = NULL;

		for (size_t i = 0; i < symbolizer->n_names; i++) {
			struct names *names = &symbolizer->names[i];

			if (names->symtab && names != in_use &&
			    (!oldest || names->used < oldest->used))
				oldest = names;
		}
		if (!oldest)
			return;
		drop_symtab(symbolizer, oldest);
	}
}

static const struct stream_waiting *who_waits(const struct symbolizer *symbolizer)
{
	return symbolizer->options.waiting.fn ? &symbolizer->options.waiting : NULL;
}

/* Reading a file began at start_ns and took too long. Returns when the file may be read again: it
 * waits so long that its reading takes no more than its share of the time. */
static uint64_t due_after(const struct allowance *seconds, uint64_t start_ns)
{
	return start_ns + (uint64_t)(seconds_since(start_ns) * (1 + 1 / seconds->per_s) * 1e9);
}

/* All files that fail share one time budget. When it is used up, each further file gets only
 * HASTE_S. Sound files do not use the budget, because they may be read again and again. */
static int read_symbols(struct symbolizer *symbolizer, struct binary *binary, struct names *names)
{
	struct allowance *seconds = &symbolizer->for_failing;
	double patience_s = fmax(HASTE_S, fmin(NAMES_PATIENCE_S, left_in(seconds)));
	uint64_t start_ns = clock__now_ns(CLOCK_MONOTONIC);
	int err = symtab__open(binary->fd, &binary->debug_fd, SYMTAB_FUNCTIONS, patience_s,
			       who_waits(symbolizer), &names->symtab);

	if (err)
		spend(seconds, start_ns);
	/* A lack of processes or descriptors says nothing about the file. Nor does a lack of time:
	 * the machine may have been busy. */
	names->passes = err == -EAGAIN || err == -EMFILE || err == -ENFILE || err == -ETIMEDOUT;
	names->due_ns = err == -ETIMEDOUT ? due_after(seconds, start_ns) : 0;
	return err;
}

static bool may_try_again(struct symbolizer *symbolizer, const struct names *names)
{
	if (!names->due_ns)
		return names->passes;
	return clock__now_ns(CLOCK_MONOTONIC) >= names->due_ns &&
	       left_in(&symbolizer->for_failing) >= HASTE_S;
}

/* Reads the binary's symbols if they are not in memory. Returns 0, or -ENOMEM. After 0, `reason` in
 * the binary's `struct names` says whether there are symbols. */
static int load(struct symbolizer *symbolizer, struct binary *binary)
{
	struct names *names = &symbolizer->names[binary->index];
	int err;

	names->used = ++symbolizer->clock;
	if (names->symtab)
		return 0;
	if (names->reason != UNRESOLVED_NAMED && !may_try_again(symbolizer, names))
		return 0;
	names->reason = UNRESOLVED_NAMED;
	err = binary->image ? read_symbols(symbolizer, binary, names) : -ENOEXEC;
	if (err == -ENOMEM)
		return err;
	if (err) {
		names->reason = err == -ENOEXEC ? UNRESOLVED_BAD_ELF : UNRESOLVED_UNREAD;
		return 0;
	}
	symbolizer->bytes += symtab__bytes(names->symtab);
	evict(symbolizer, names);
	return 0;
}

/* --- one location --- */

/* Makes a name such as "libc.so.6+0x1234", "[heap]+0x10" or "[anon]+0x20". NULL: out of memory. */
static char *offset_name(const char *module, uint64_t off)
{
	const char *slash = strrchr(module, '/');
	char *name;

	if (module[0] != '[' && slash && slash[1])
		module = slash + 1;
	if (asprintf(&name, "%.*s+0x%" PRIx64, NAME_MAX_BYTES, *module ? module : "[anon]", off) <
	    0)
		return NULL;
	clean_name(name);
	return name;
}

static int set_build_id(struct profile_mapping *mapping, const struct binary *binary)
{
	const char *build_id = binary->image ? elf_image__build_id(binary->image) : NULL;

	if (mapping->build_id || !build_id)
		return 0;
	mapping->build_id = strdup(build_id);
	return mapping->build_id ? 0 : -ENOMEM;
}

/* Looks up the function that covers the byte at off of a mapped file. The symbol table owns
 * *ret_function. If no function is found, *ret_reason says why. ret_place->binary stays NULL if the
 * file's symbols could not be read, or if the byte's vaddr is not known. */
static int look_up(struct symbolizer *symbolizer, struct profile_mapping *mapping, uint64_t off,
		   struct place *ret_place, enum unresolved_reason *ret_reason,
		   const char **ret_function)
{
	struct binary *binary;
	struct symtab *symtab;
	int err;

	if (!mapping->file.inode) {
		*ret_reason = UNRESOLVED_NOT_A_FILE;
		return 0;
	}
	binary = binaries__find(symbolizer->binaries, &mapping->file);
	if (!binary) {
		*ret_reason = UNRESOLVED_NO_FILE;
		return 0;
	}
	err = load(symbolizer, binary);
	if (!err)
		err = set_build_id(mapping, binary);
	if (err)
		return err;
	symtab = symbolizer->names[binary->index].symtab;
	if (!symtab) {
		*ret_reason = symbolizer->names[binary->index].reason;
		return 0;
	}
	*ret_reason = symtab__empty(symtab) ? UNRESOLVED_NO_SYMBOLS : UNRESOLVED_NO_SYMBOL_HERE;
	if (elf_image__off_to_vaddr(binary->image, off, &ret_place->vaddr))
		return 0;
	ret_place->binary = binary;
	*ret_function = symtab__find(symtab, ret_place->vaddr, NULL);
	if (*ret_function)
		*ret_reason = UNRESOLVED_NAMED;
	return 0;
}

static char *readable(const struct symbolizer *symbolizer, const char *function)
{
	return symbolizer->options.raw_names ? strdup(function) : demangle(function);
}

static int name_location(struct symbolizer *symbolizer, struct profile *profile,
			 struct profile_location *location, const struct perf_map *jit,
			 struct place *ret_place)
{
	struct profile_mapping *mapping =
		location->mapping < 0 ? NULL : &profile->mappings[location->mapping];
	uint64_t addr = location->addr - 1,
		 off = mapping ? addr - mapping->start + mapping->off : 0;
	enum unresolved_reason reason = UNRESOLVED_NO_MAPPING;
	_cleanup_free_ char *name = NULL;
	const char *function = NULL;
	int err;

	if (mapping) {
		err = look_up(symbolizer, mapping, off, ret_place, &reason, &function);
		if (err)
			return err;
	}
	if (function) {
		name = readable(symbolizer, function);
	} else if (jit && !ret_place->binary && perf_map__find(jit, addr, NULL)) {
		/* also for a JIT that maps its code from a file of its own */
		name = strdup(perf_map__find(jit, addr, NULL));
		reason = UNRESOLVED_NAMED;
	} else if (mapping) {
		name = offset_name(mapping->path, off);
	} else if (asprintf(&name, "0x%" PRIx64, addr) < 0) {
		name = NULL;
	}
	if (!name || profile_location__set_name(location, name))
		return -ENOMEM;
	location->reason = reason;
	return 0;
}

/* Names a location with `namer`. 0; -ENOENT: the location is an address of code; -ENOMEM. */
static int name_by(const struct frame_namer *namer, struct profile_location *location)
{
	struct profile_frame frame = {}, *frames;
	int err = namer->fn(namer->ctx, location->addr, &frame);

	if (err)
		return err;
	location->reason = frame.name ? UNRESOLVED_NAMED : UNRESOLVED_INTERPRETED;
	if (!frame.name)
		frame.name = strdup("[python]");
	frames = calloc(1, sizeof(*frames));
	if (!frame.name || !frames) {
		free(frame.name);
		free(frame.file);
		free(frames);
		return -ENOMEM;
	}
	clean_name(frame.name);
	if (frame.file)
		clean_name(frame.file);
	*frames = frame;
	profile_location__set_frames(location, frames, 1);
	return 0;
}

/* --- inlined functions and lines --- */

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->binary->index != y->binary->index)
		return x->binary->index < y->binary->index ? -1 : 1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static char *file_name(const char *file)
{
	char *name = strndup(file, NAME_MAX_BYTES);

	if (name)
		clean_name(name);
	return name;
}

/* Replaces the one frame of a location by the frames from DWARF. If the location has a name, the
 * outermost frame keeps this name: the name comes from the symbol table, which has the linker's
 * names. */
static int set_frames(const struct symbolizer *symbolizer, struct profile_location *location,
		      const struct dwarf_frames *found)
{
	bool named = location->reason == UNRESOLVED_NAMED;
	const char *outer = profile_location__function(location);
	struct profile_frame *frames = calloc(found->n, sizeof(*frames));
	bool all = frames != NULL;

	for (size_t i = 0; i < found->n && all; i++) {
		const struct dwarf_frame *from = &found->frames[i];
		bool last = i + 1 == found->n;

		if (last && (named || !from->function))
			frames[i].name = strdup(outer);
		else if (from->function)
			frames[i].name = readable(symbolizer, from->function);
		else
			frames[i].name = strdup("[inlined]");
		frames[i].line = from->line;
		frames[i].file = from->file ? file_name(from->file) : NULL;
		all = frames[i].name && (frames[i].file || !from->file);
	}
	if (!all) {
		for (size_t i = 0; frames && i < found->n; i++) {
			free(frames[i].name);
			free(frames[i].file);
		}
		free(frames);
		return -ENOMEM;
	}
	if (found->frames[found->n - 1].function)
		location->reason = UNRESOLVED_NAMED;
	profile_location__set_frames(location, frames, found->n);
	return 0;
}

/* Reads the DWARF behind fd. Returns what dwarf__resolve() returns; -EBUSY: there is no time for
 * reading now. After a slow reading that failed, a file has to wait. Otherwise the reading would
 * fail again for each profile, and leave no time for other files. */
static int read_lines(struct symbolizer *symbolizer, struct names *names, int fd,
		      const uint64_t *vaddrs, size_t n, struct dwarf_frames *found)
{
	struct allowance *seconds = &symbolizer->for_lines;
	double left_s = left_in(seconds);
	uint64_t start_ns = clock__now_ns(CLOCK_MONOTONIC);
	int err;

	if (left_s < fmin(LEAST_LINES_S, seconds->most / 10) || start_ns < names->lines_due_ns)
		return -EBUSY;
	err = dwarf__resolve(fd, vaddrs, n, fmin(DWARF_PATIENCE_S, left_s), who_waits(symbolizer),
			     found);
	spend(seconds, start_ns);
	if (err && seconds_since(start_ns) >= SLOW_LINES_S)
		names->lines_due_ns = due_after(seconds, start_ns);
	return err;
}

/* Asks a binary's DWARF about addresses for which there is no answer yet. Adds 1 to *failed when
 * the debug information cannot be used. 0 or -ENOMEM. */
static int ask(struct symbolizer *symbolizer, const struct binary *binary, const uint64_t *vaddrs,
	       size_t n, uint64_t *failed)
{
	_cleanup_free_ struct dwarf_frames *found = calloc(n, sizeof(*found));
	struct names *names = &symbolizer->names[binary->index];
	int fd, err = -ENODATA;

	if (!found)
		return -ENOMEM;
	fd = dwarf__present(binary->fd) ? binary->fd : binary->debug_fd;
	if (fd >= 0 && (fd == binary->fd || dwarf__present(fd)))
		err = read_lines(symbolizer, names, fd, vaddrs, n, found);
	if (err == -ENOMEM)
		goto out;
	if (err && err != -ENODATA)
		++*failed;
	/* After a failure keep only the answers that were found: the others may be found next
	 * time. */
	err = lines__add(&names->lines, vaddrs, found, n, err && err != -ENODATA);
out:
	dwarf_frames__free(found, n);
	return err;
}

/* Adds inlined functions and lines to the locations of all places. The places are of one binary,
 * ascending by vaddr. *failed: as in ask(). */
static int add_lines(struct symbolizer *symbolizer, struct profile *profile,
		     const struct place *places, size_t n, uint64_t *failed)
{
	const struct binary *binary = places[0].binary;
	const struct lines *lines = &symbolizer->names[binary->index].lines;
	_cleanup_free_ uint64_t *vaddrs = calloc(n, sizeof(*vaddrs));
	size_t n_vaddrs = 0;
	int err = 0;

	if (!vaddrs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!lines__find(lines, places[i].vaddr) &&
		    (!n_vaddrs || vaddrs[n_vaddrs - 1] != places[i].vaddr))
			vaddrs[n_vaddrs++] = places[i].vaddr;
	if (n_vaddrs)
		err = ask(symbolizer, binary, vaddrs, n_vaddrs, failed);
	for (size_t i = 0; i < n && !err; i++) {
		const struct dwarf_frames *found = lines__find(lines, places[i].vaddr);

		if (found && found->n)
			err = set_frames(symbolizer, &profile->locations[places[i].location],
					 found);
	}
	return err;
}

/* Drops all answers from DWARF if they take more than LINES_MAX_BYTES. */
static void forget_lines(struct symbolizer *symbolizer)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < symbolizer->n_names; i++)
		bytes += symbolizer->names[i].lines.bytes;
	for (size_t i = 0; i < symbolizer->n_names && bytes > LINES_MAX_BYTES; i++)
		lines__clear(&symbolizer->names[i].lines);
}

int symbolizer__symbolize(struct symbolizer *symbolizer, struct profile *profile,
			  const struct perf_map *jit, const struct frame_namer *namer)
{
	_cleanup_free_ struct place *places = NULL;
	uint64_t failed = 0, mangled = demangle__left();
	size_t n = 0, end;
	int err;

	demangle__begin();
	err = binaries__grow(symbolizer->binaries, &symbolizer->names, &symbolizer->n_names,
			     sizeof(*symbolizer->names));
	if (err)
		return err;
	places = calloc(profile->n_locations + 1, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_locations; i++) {
		struct place *place = &places[n];

		stream_waiting__call(who_waits(symbolizer));
		*place = (struct place){.location = (uint32_t)i};
		err = namer ? name_by(namer, &profile->locations[i]) : -ENOENT;
		if (err == -ENOENT)
			err = name_location(symbolizer, profile, &profile->locations[i], jit,
					    place);
		if (err)
			return err;
		n += place->binary != NULL;
	}
	forget_lines(symbolizer);
	if (symbolizer->options.no_lines)
		n = 0;
	qsort(places, n, sizeof(*places), compare_places);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && places[end].binary == places[i].binary; end++)
			;
		stream_waiting__call(who_waits(symbolizer));
		err = add_lines(symbolizer, profile, places + i, end - i, &failed);
		if (err)
			return err;
	}
	err = profile__add_lost(profile, "debug_info_failed", failed);
	return err ? err
		   : profile__add_lost(profile, "names_left_mangled", demangle__left() - mangled);
}
