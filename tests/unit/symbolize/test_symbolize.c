// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/binary.h"
#include "proc/maps.h"
#include "symbolize/dwarf.h"
#include "symbolize/symbolize.h"
#include "symbolize/symtab.h"

#include "fixture.h"

__attribute__((noinline)) int known_function(int x);
__attribute__((noinline)) int known_function(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static const struct symbolize_options defaults;

static void add_maps(struct profile *profile, const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *entry = &maps->entries[i];
		struct profile_mapping mapping = {
			.start = entry->start,
			.end = entry->end,
			.off = entry->off,
			.file = entry->file,
			.deleted = entry->deleted,
			.path = entry->path,
		};

		memcpy(mapping.perms, entry->perms, sizeof(mapping.perms));
		assert_int_equal(profile__add_mapping(profile, &mapping), 0);
	}
}

/* A profile of one stack in the address space of pid. */
static struct profile *make_profile(pid_t pid, const uint64_t *addrs, size_t n)
{
	struct profile *profile = profile__new();
	struct maps maps;
	size_t site;

	assert_non_null(profile);
	profile->interval_bytes = 1;
	assert_int_equal(maps__read(pid, &maps), 0);
	add_maps(profile, &maps);
	maps__free(&maps);
	assert_int_equal(profile__add_site(profile, addrs, n, false, &site), 0);
	assert_int_equal(profile__sort(profile), 0);
	return profile;
}

/* A symbolizer and the files it knows. */
struct namer {
	struct binaries *binaries;
	struct symbolizer *symbolizer;
};

static struct namer new_namer(const struct symbolize_options *options)
{
	struct namer namer;

	assert_int_equal(binaries__new(&namer.binaries), 0);
	assert_int_equal(symbolizer__new(options, namer.binaries, &namer.symbolizer), 0);
	return namer;
}

static void free_namer(struct namer *namer)
{
	symbolizer__free(namer->symbolizer);
	binaries__free(namer->binaries);
}

static void hold_all(struct namer *namer, pid_t pid)
{
	struct binary *binary;
	struct maps maps;

	assert_int_equal(maps__read(pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++) {
		const struct map_entry *e = &maps.entries[i];
		int fd;

		if (!e->executable || !e->file.inode || binaries__find(namer->binaries, &e->file))
			continue;
		fd = maps__open_file(pid, e);
		if (fd >= 0)
			assert_int_equal(
				binaries__add(namer->binaries, &e->file, fd, -1, e->path, &binary),
				0);
	}
	maps__free(&maps);
}

static const struct profile_location *at(const struct profile *profile, uint64_t addr)
{
	for (size_t i = 0; i < profile->n_locations; i++)
		if (profile->locations[i].addr == addr)
			return &profile->locations[i];
	fail_msg("no location 0x%lx", addr);
	return NULL;
}

static void assert_location(const struct profile *profile, uint64_t addr, const char *name,
			    enum unresolved_reason reason)
{
	const struct profile_location *location = at(profile, addr);

	assert_non_null(profile_location__function(location));
	assert_string_equal(profile_location__function(location), name);
	assert_int_equal(location->reason, reason);
}

/* The address of a vdso function. The program's own dynamic linker finds the function by its
 * version. */
static uint64_t vdso_function(const char *name)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);

	assert_non_null(vdso);
	return (uintptr_t)dlvsym(vdso, name, "LINUX_2.6");
}

static void test_own_process(void **state)
{
	struct namer namer = new_namer(&defaults);
	uint64_t stack =
		(uintptr_t)__builtin_frame_address(0); /* ASan may move variables to the heap */
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addrs[] = {(uintptr_t)known_function + 1,
			    (uintptr_t)known_function + 5, /* a return address in the function */
			    (uintptr_t)test_own_process + 20,
			    vdso_function("__vdso_gettimeofday") + 1,
			    stack + 1,
			    0x1001,
			    1,
			    (uintptr_t)anon + 0x21};
	struct profile *profile = make_profile(getpid(), addrs, sizeof(addrs) / sizeof(*addrs));
	const struct profile_location *location;

	(void)state;
	hold_all(&namer, getpid());
	for (int round = 0; round < 2; round++) { /* a second time changes nothing */
		assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
		assert_location(profile, addrs[0], "known_function", UNRESOLVED_NAMED);
		assert_location(profile, addrs[1], "known_function", UNRESOLVED_NAMED);
		assert_location(profile, addrs[2], "test_own_process", UNRESOLVED_NAMED);
		assert_location(profile, addrs[3], "gettimeofday", UNRESOLVED_NAMED);
		location = at(profile, addrs[4]);
		assert_int_equal(location->reason, UNRESOLVED_NOT_A_FILE);
		assert_memory_equal(profile_location__function(location), "[stack]+0x", 10);
		assert_location(profile, addrs[5], "0x1000", UNRESOLVED_NO_MAPPING);
		assert_location(profile, addrs[6], "0x0", UNRESOLVED_NO_MAPPING);
		location = at(profile, addrs[7]);
		assert_int_equal(location->reason, UNRESOLVED_NOT_A_FILE);
		assert_memory_equal(profile_location__function(location), "[anon]+0x", 9);
		location = at(profile, addrs[0]);
		assert_non_null(profile->mappings[location->mapping].build_id);
	}
	munmap(anon, 4096);
	profile__free(profile);
	free_namer(&namer);
}

/* A file that was not kept open is not read, even if its path exists. */
static void test_not_held(void **state)
{
	struct namer namer = new_namer(&defaults);
	uint64_t addr = (uintptr_t)known_function + 1;
	struct profile *profile = make_profile(getpid(), &addr, 1);
	size_t len = strlen(program_invocation_short_name);

	(void)state;
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_int_equal(at(profile, addr)->reason, UNRESOLVED_NO_FILE);
	assert_memory_equal(profile_location__function(at(profile, addr)),
			    program_invocation_short_name, len);
	assert_memory_equal(profile_location__function(at(profile, addr)) + len, "+0x", 3);
	profile__free(profile);
	free_namer(&namer);
}

/* The process has ended and its program is deleted. The file that was kept open can still be
 * read. */
static void test_held_survives(void **state)
{
	static const char source[] =
		"#include <unistd.h>\n"
		"__attribute__((noinline)) int hook(int x) { return x + pause(); }\n"
		"int main(void) { return hook(1); }\n";
	struct namer namer = new_namer(&defaults);
	struct profile *profile;
	struct maps maps;
	char path[512], command[1024], line[64] = "";
	uint64_t hook, base = 0;
	FILE *pipe;
	pid_t pid;

	(void)state;
	assert_true(fixture_write("t.c", source, strlen(source)));
	assert_true(fixture_run("gcc -O1 -fno-optimize-sibling-calls -pie -fPIE -o target t.c"));
	snprintf(command, sizeof(command), "nm %s/target | awk '$3 == \"hook\" { print $1 }'",
		 fixture_dir);
	pipe = popen(command, "r");
	assert_non_null(fgets(line, sizeof(line), pipe));
	pclose(pipe);
	hook = strtoull(line, NULL, 16);
	snprintf(path, sizeof(path), "%s/target", fixture_dir);
	pid = fork();
	if (!pid) {
		execl(path, path, NULL);
		_exit(1);
	}
	for (int i = 0; i < 500 && !base; i++) { /* until it has executed its program */
		usleep(10000);
		assert_int_equal(maps__read(pid, &maps), 0);
		for (size_t k = 0; k < maps.n; k++)
			if (!maps.entries[k].off && !strcmp(maps.entries[k].path, path))
				base = maps.entries[k].start;
		maps__free(&maps);
	}
	assert_true(base);
	hook += base + 1;
	profile = make_profile(pid, &hook, 1);
	hold_all(&namer, pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(fixture_run("rm target"));

	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_location(profile, hook, "hook", UNRESOLVED_NAMED);
	profile__free(profile);
	free_namer(&namer);
}

/* Maps a file of the directory as code, and symbolizes the address at the file's offset `off`. */
static void with_mapped(const char *file, uint64_t off, const char *name,
			enum unresolved_reason reason)
{
	struct namer namer = new_namer(&defaults);
	struct profile *profile;
	struct stat st;
	char path[512], *code;
	uint64_t addr;
	size_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, file);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	len = (size_t)st.st_size;
	code = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_true(code != MAP_FAILED);
	addr = (uintptr_t)code + off + 1;
	profile = make_profile(getpid(), &addr, 1);
	hold_all(&namer, getpid());
	munmap(code, len);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_location(profile, addr, name, reason);
	profile__free(profile);
	free_namer(&namer);
}

static void test_reasons(void **state)
{
	static const char source[] = "int main(void) { return 0; }\n";

	(void)state;
	assert_true(fixture_write("text", "hello\n", 6));
	with_mapped("text", 3, "text+0x3", UNRESOLVED_BAD_ELF);
	assert_true(fixture_write("m.c", source, strlen(source)));
	assert_true(fixture_run("gcc -o plain m.c && gcc -static -o bare m.c && strip bare"));
	with_mapped("bare", 0x1010, "bare+0x1010", UNRESOLVED_NO_SYMBOLS);
	with_mapped("plain", 0x10, "plain+0x10", UNRESOLVED_NO_SYMBOL_HERE); /* its header */
	assert_true(fixture_run("truncate -s 1M plain"));
	with_mapped("plain", 0xf0000, "plain+0xf0000", UNRESOLVED_NO_SYMBOL_HERE); /* behind it */
}

static void test_hostile_paths(void **state)
{
	(void)state;
	assert_true(fixture_write("a\nb\033[31m;c", "hello\n", 6));
	with_mapped("a\nb\033[31m;c", 1, "a?b?[31m;c+0x1", UNRESOLVED_BAD_ELF);
	assert_true(fixture_write("\xff", "hello\n", 6));
	with_mapped("\xff", 1, "?+0x1", UNRESOLVED_BAD_ELF);
}

static void test_hostile_symbols(void **state)
{
	static const char source[] = ".globl abc\n"
				     ".type abc, @function\n"
				     ".size abc, 16\n"
				     "abc:\n"
				     ".skip 16\n"
				     ".section .note.GNU-stack, \"\"\n";

	(void)state;
	assert_true(fixture_write("h.s", source, strlen(source)));
	assert_true(fixture_run("gcc -c -o h.o h.s && "
				"objcopy --redefine-sym abc=\"$(printf 'a\\nb\\033c')\" h.o && "
				"gcc -nostdlib -shared -o h.so h.o && "
				"objdump -h h.so | awk '$2 == \".text\" { print $6 }' > h.off"));
	{
		char path[512], line[64];
		FILE *f;

		snprintf(path, sizeof(path), "%s/h.off", fixture_dir);
		f = fopen(path, "r");
		assert_non_null(fgets(line, sizeof(line), f));
		fclose(f);
		with_mapped("h.so", strtoull(line, NULL, 16) + 4, "a?b?c", UNRESOLVED_NAMED);
	}
}

/* Even if there is little memory for symbol tables, the answers are the same. */
static void test_eviction(void **state)
{
	const struct symbolize_options tiny = {.max_bytes = 1};
	struct namer namer = new_namer(&defaults), small = new_namer(&tiny);
	uint64_t addrs[] = {
		(uintptr_t)known_function + 1, (uintptr_t)dlsym(RTLD_DEFAULT, "lfind") + 1,
		(uintptr_t)dlsym(RTLD_DEFAULT, "elf_begin") + 1, (uintptr_t)test_own_process + 1};
	struct profile *profile = make_profile(getpid(), addrs, 4);
	struct profile *again = make_profile(getpid(), addrs, 4);

	(void)state;
	hold_all(&namer, getpid());
	hold_all(&small, getpid());
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_int_equal(symbolizer__symbolize(small.symbolizer, again, NULL, NULL), 0);
	assert_int_equal(symbolizer__symbolize(small.symbolizer, again, NULL, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		assert_location(again, addrs[i], profile_location__function(at(profile, addrs[i])),
				UNRESOLVED_NAMED);
	assert_location(again, addrs[1], "lfind", UNRESOLVED_NAMED);
	profile__free(profile);
	profile__free(again);
	free_namer(&namer);
	free_namer(&small);
}

static bool forget(void *ctx, size_t index)
{
	symbolizer__forget(ctx, index);
	return true;
}

/* Holds the one file that addr is in. */
static void hold_one(struct namer *namer, const struct maps *maps, uint64_t addr)
{
	const struct map_entry *e = maps__find(maps, addr);
	struct binary *binary;

	assert_non_null(e);
	assert_int_equal(binaries__add(namer->binaries, &e->file, maps__open_file(getpid(), e), -1,
				       e->path, &binary),
			 0);
	assert_int_equal(binary->index, 0);
}

static void ignore(void *ctx, const struct file_id *id, const struct file_id *real, bool last)
{
	(void)ctx, (void)id, (void)real, (void)last;
}

/* A binary that gets the index of another one does not get the other one's names. */
static void test_index_of_another(void **state)
{
	/* lines would give the right name, too */
	const struct symbolize_options no_lines = {.no_lines = true};
	uint64_t addrs[] = {(uintptr_t)known_function + 1,
			    (uintptr_t)dlsym(RTLD_DEFAULT, "lfind") + 1};
	struct profile *profile = make_profile(getpid(), addrs, 2);
	struct namer namer = new_namer(&no_lines);
	struct maps maps;

	(void)state;
	binaries__reuse(namer.binaries, forget, namer.symbolizer);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	hold_one(&namer, &maps, addrs[1]);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_location(profile, addrs[1], "lfind", UNRESOLVED_NAMED);
	binaries__evict(namer.binaries, 1, 0, ignore, NULL);
	hold_one(&namer, &maps, addrs[0]);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_location(profile, addrs[0], "known_function", UNRESOLVED_NAMED);
	maps__free(&maps);
	profile__free(profile);
	free_namer(&namer);
}

/* The symbol of a C++ library: demangled, and mangled with raw_names. */
static void test_raw_names(void **state)
{
	static const char source[] = "namespace outer { int inner(int x) { return x; } }\n";
	const struct symbolize_options raw = {.raw_names = true};
	const struct symbolize_options *options[] = {&defaults, &raw};
	static const char *const names[] = {"outer::inner", "_ZN5outer5innerEi"};
	char path[512];
	void *library;

	(void)state;
	assert_true(fixture_write("raw.cc", source, strlen(source)));
	assert_true(fixture_run("g++ -shared -fPIC -o raw.so raw.cc"));
	snprintf(path, sizeof(path), "%s/raw.so", fixture_dir);
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	for (int i = 0; i < 2; i++) {
		struct namer namer = new_namer(options[i]);
		uint64_t addr = (uintptr_t)dlsym(library, names[1]) + 1;
		struct profile *profile = make_profile(getpid(), &addr, 1);

		hold_all(&namer, getpid());
		assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
		assert_location(profile, addr, names[i], UNRESOLVED_NAMED);
		profile__free(profile);
		free_namer(&namer);
	}
	dlclose(library);
}

static void never_end(void)
{
	for (;;)
		__asm__ volatile("");
}

/* Even if many files take for ever, their total time is limited, and later calls take no time. */
static void test_patience(void **state)
{
	const struct symbolize_options hasty = {.lines_s = 0.3};
	struct namer namer = new_namer(&hasty);
	uint64_t addr = (uintptr_t)known_function + 1;

	(void)state;
	hold_all(&namer, getpid());
	dwarf__test_hooks.in_child = never_end;
	alarm(60);
	for (int i = 0; i < 1000; i++) {
		struct profile *profile = make_profile(getpid(), &addr, 1);

		assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
		assert_location(profile, addr, "known_function", UNRESOLVED_NAMED);
		assert_int_equal(profile->lost.n, 2);
		assert_string_equal(profile->lost.at[0].name, "debug_info_failed");
		assert_int_equal(profile->lost.at[0].count, 1);
		profile__free(profile);
	}
	alarm(0);
	dwarf__test_hooks.in_child = NULL;
	free_namer(&namer);
}

/* Names known_function. Returns whether its file and line were found. */
static bool finds_line(struct namer *namer)
{
	uint64_t addr = (uintptr_t)known_function + 1;
	struct profile *profile = make_profile(getpid(), &addr, 1);
	bool found;

	assert_int_equal(symbolizer__symbolize(namer->symbolizer, profile, NULL, NULL), 0);
	found = at(profile, addr)->frames->file;
	assert_int_equal(profile->lost.at[0].count, !found);
	profile__free(profile);
	return found;
}

/* Files have used up the time. A long run still gets lines later, because time comes back. */
static void test_time_comes_back(void **state)
{
	const struct symbolize_options quick = {.lines_s = 0.9, .share = 1};
	struct namer namer = new_namer(&quick);

	(void)state;
	hold_all(&namer, getpid());
	alarm(60);
	dwarf__test_hooks.in_child = never_end;
	assert_false(finds_line(&namer));
	dwarf__test_hooks.in_child = NULL;
	for (useconds_t us = 100000; !finds_line(&namer); us *= 2)
		usleep(us);
	alarm(0);
	free_namer(&namer);
}

/* A file that is slow and fails is not read again at once, but later. */
static void test_slow_file_waits(void **state)
{
	const struct symbolize_options quick = {.lines_s = 1.2, .share = 1};
	struct namer namer = new_namer(&quick);

	(void)state;
	hold_all(&namer, getpid());
	alarm(60);
	dwarf__test_hooks.in_child = never_end;
	assert_false(finds_line(&namer)); /* takes 1.2 s */
	dwarf__test_hooks.in_child = NULL;
	usleep(600000);
	assert_false(finds_line(&namer)); /* there is time, but not for this file */
	while (!finds_line(&namer))
		usleep(100000);
	alarm(0);
	free_namer(&namer);
}

static void fail_at_once(void)
{
	_exit(1);
}

/* If the symbol reader fails, the file does not count as one without symbols. The file is not read
 * again. */
static void test_unread(void **state)
{
	struct namer namer = new_namer(&defaults);
	uint64_t addr = (uintptr_t)known_function + 1;

	(void)state;
	hold_all(&namer, getpid());
	symtab__test_hooks.in_child = fail_at_once;
	for (int i = 0; i < 2; i++) {
		struct profile *profile = make_profile(getpid(), &addr, 1);

		assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
		assert_int_equal(at(profile, addr)->reason, UNRESOLVED_UNREAD);
		profile__free(profile);
		symtab__test_hooks.in_child = NULL;
	}
	free_namer(&namer);
}

static enum unresolved_reason reason_of_function(struct namer *namer)
{
	uint64_t addr = (uintptr_t)known_function + 1;
	struct profile *profile = make_profile(getpid(), &addr, 1);
	enum unresolved_reason reason;

	assert_int_equal(symbolizer__symbolize(namer->symbolizer, profile, NULL, NULL), 0);
	reason = at(profile, addr)->reason;
	profile__free(profile);
	return reason;
}

/* If the symbol reader takes too long, perhaps because the machine is busy, the file is tried again
 * after a while. */
static void test_unread_in_time(void **state)
{
	const struct symbolize_options quick = {.failing_s = 1, .share = 1, .no_lines = true};
	struct namer namer = new_namer(&quick);

	(void)state;
	hold_all(&namer, getpid());
	alarm(60);
	symtab__test_hooks.in_child = never_end;
	assert_int_equal(reason_of_function(&namer), UNRESOLVED_UNREAD); /* takes 1 s */
	symtab__test_hooks.in_child = NULL;
	assert_int_equal(reason_of_function(&namer), UNRESOLVED_UNREAD);
	while (reason_of_function(&namer) != UNRESOLVED_NAMED)
		usleep(100000);
	alarm(0);
	free_namer(&namer);
}

/* If there is no descriptor left to start the reader, the file is tried again later. */
static void test_unread_for_now(void **state)
{
	struct namer namer = new_namer(&defaults);
	uint64_t addr = (uintptr_t)known_function + 1;
	struct rlimit usual, none;
	struct profile *profile;

	(void)state;
	hold_all(&namer, getpid());
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	none = (struct rlimit){0, usual.rlim_max};
	profile = make_profile(getpid(), &addr, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_int_equal(at(profile, addr)->reason, UNRESOLVED_UNREAD);
	profile__free(profile);

	profile = make_profile(getpid(), &addr, 1);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, NULL), 0);
	assert_location(profile, addr, "known_function", UNRESOLVED_NAMED);
	profile__free(profile);
	free_namer(&namer);
}

static uint64_t failures(const struct profile *profile)
{
	assert_int_equal(profile->lost.n, 2);
	assert_string_equal(profile->lost.at[0].name, "debug_info_failed");
	return profile->lost.at[0].count;
}

/* DWARF is read once per address. Known addresses keep their answers if the reader fails later. */
static void test_asked_once(void **state)
{
	struct namer namer = new_namer(&defaults);
	uint64_t known = (uintptr_t)known_function + 1,
		 addrs[] = {known, (uintptr_t)test_own_process + 1};
	struct profile *first = make_profile(getpid(), &known, 1);
	struct profile *again = make_profile(getpid(), &known, 1);
	struct profile *more = make_profile(getpid(), addrs, 2);
	struct profile *all = make_profile(getpid(), addrs, 2);
	const struct profile_frame *frame, *same;

	(void)state;
	hold_all(&namer, getpid());
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, first, NULL, NULL), 0);
	assert_int_equal(failures(first), 0);
	frame = at(first, known)->frames;
	assert_non_null(frame->file);
	assert_non_null(strstr(frame->file, "test_symbolize.c"));

	dwarf__test_hooks.in_child = fail_at_once;
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, again, NULL, NULL), 0);
	assert_int_equal(failures(again), 0);
	/* a new address fails, but the known one keeps its name; the new one may be tried again */
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, more, NULL, NULL), 0);
	assert_int_equal(failures(more), 1);
	assert_null(at(more, addrs[1])->frames->file);
	dwarf__test_hooks.in_child = NULL;
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, all, NULL, NULL), 0);
	assert_int_equal(failures(all), 0);
	assert_non_null(at(all, addrs[1])->frames->file);

	same = at(again, known)->frames;
	assert_string_equal(same->file, frame->file);
	assert_string_equal(same->name, frame->name);
	assert_int_equal(same->line, frame->line);
	assert_string_equal(at(more, known)->frames->file, frame->file);
	assert_string_equal(at(all, known)->frames->file, frame->file);
	profile__free(first);
	profile__free(again);
	profile__free(more);
	profile__free(all);
	free_namer(&namer);
}

#define INTERPRETED (1ULL << 63)

static int name_frame(void *ctx, uint64_t addr, struct profile_frame *ret)
{
	if (!(addr & INTERPRETED))
		return -ENOENT;
	if (addr == INTERPRETED + 2)
		return 0; /* its name is not known */
	*ret = (struct profile_frame){strdup(ctx), strdup("/srv/a\npp.py"), 7};
	return 0;
}

/* Frames of a script get the interpreter's names, and addresses of code get the code's names. */
static void test_interpreted(void **state)
{
	struct frame_namer interpreter = {name_frame, "Klass.\x01g"};
	struct namer namer = new_namer(&defaults);
	uint64_t addrs[] = {INTERPRETED + 1, INTERPRETED + 2, (uintptr_t)known_function + 1};
	struct profile *profile = make_profile(getpid(), addrs, 3);

	(void)state;
	hold_all(&namer, getpid());
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, NULL, &interpreter), 0);
	assert_location(profile, addrs[0], "Klass.?g", UNRESOLVED_NAMED);
	assert_string_equal(at(profile, addrs[0])->frames->file, "/srv/a?pp.py");
	assert_int_equal(at(profile, addrs[0])->frames->line, 7);
	assert_location(profile, addrs[1], "[python]", UNRESOLVED_INTERPRETED);
	assert_location(profile, addrs[2], "known_function", UNRESOLVED_NAMED);
	profile__free(profile);
	free_namer(&namer);
}

/* A JIT's map names only code that is in no ELF file. */
static void test_jit(void **state)
{
	struct namer namer = new_namer(&defaults);
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addrs[] = {(uintptr_t)code + 0x21, (uintptr_t)known_function + 1, 0x2001};
	struct profile *profile = make_profile(getpid(), addrs, 3);
	struct perf_map *jit;
	char text[256];
	size_t skipped;

	(void)state;
	hold_all(&namer, getpid());
	snprintf(text, sizeof(text),
		 "%lx 40 LazyCompile:*hot /app.js:3\n%lx 10 liar\n2000 10 gone\n",
		 (unsigned long)(uintptr_t)code, (unsigned long)(uintptr_t)known_function);
	assert_int_equal(perf_map__parse(text, strlen(text), NULL, &jit, &skipped), 0);
	assert_int_equal(symbolizer__symbolize(namer.symbolizer, profile, jit, NULL), 0);
	assert_location(profile, addrs[0], "LazyCompile:*hot /app.js:3", UNRESOLVED_NAMED);
	assert_location(profile, addrs[1], "known_function", UNRESOLVED_NAMED);
	assert_location(profile, addrs[2], "gone", UNRESOLVED_NAMED);
	perf_map__free(jit);
	munmap(code, 4096);
	profile__free(profile);
	free_namer(&namer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_process),	cmocka_unit_test(test_not_held),
		cmocka_unit_test(test_held_survives),	cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_hostile_paths),	cmocka_unit_test(test_hostile_symbols),
		cmocka_unit_test(test_eviction),	cmocka_unit_test(test_index_of_another),
		cmocka_unit_test(test_raw_names),	cmocka_unit_test(test_jit),
		cmocka_unit_test(test_patience),	cmocka_unit_test(test_time_comes_back),
		cmocka_unit_test(test_slow_file_waits), cmocka_unit_test(test_asked_once),
		cmocka_unit_test(test_interpreted),	cmocka_unit_test(test_unread),
		cmocka_unit_test(test_unread_in_time),	cmocka_unit_test(test_unread_for_now),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
