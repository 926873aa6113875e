// SPDX-License-Identifier: BSD-2-Clause
/* usage: emit PROFILE FORMAT
 * Writes a profile made by hand in one of the formats; check.sh gives it to other programs.
 * PROFILE is exact or sampled. FORMAT is heap, symbolized, collapsed, pprof, table, json, modules
 * (JSON with components, of a snapshot), the name of a weight or a root (collapsed stacks of that
 * view), or symbols (the symbol section of a symbolized heap profile as `jeprof --raw` writes it,
 * so that jeprof needs no binary). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/encode.h"
#include "profile/view.h"

#define MALLOC	     0x7f0000001001 /* entry + 1 */
#define OPERATOR_NEW 0x7f0000002011
#define START_THREAD 0x7f0000003011
#define CACHE_INSERT 0x401011
#define WORKER	     0x402011
#define PARSE	     0x403011
#define MAIN	     0x404011
#define SCRATCH	     0x405011
#define UNKNOWN	     0x406011

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	uint64_t addr;
	const char *name;
	enum unresolved_reason reason;
} names[] = {
	{MALLOC, "malloc", UNRESOLVED_NAMED},
	{OPERATOR_NEW, "operator new", UNRESOLVED_NAMED},
	{START_THREAD, "start_thread", UNRESOLVED_NAMED},
	{CACHE_INSERT, "cache_insert", UNRESOLVED_NAMED},
	{WORKER, "worker", UNRESOLVED_NAMED},
	{PARSE, "parse", UNRESOLVED_NAMED},
	{MAIN, "main", UNRESOLVED_NAMED},
	{SCRATCH, "scratch", UNRESOLVED_NAMED},
	{UNKNOWN, "leaky+0x6010", UNRESOLVED_NO_SYMBOL_HERE},
};

static const uint64_t cache[] = {MALLOC, OPERATOR_NEW, CACHE_INSERT, WORKER, START_THREAD};
static const uint64_t parse[] = {MALLOC, PARSE, MAIN, UNKNOWN};
static const uint64_t scratch[] = {MALLOC, SCRATCH, MAIN};

static void must(int err)
{
	if (err) {
		fprintf(stderr, "emit: %s\n", strerror(-err));
		exit(1);
	}
}

/* Adds n live blocks of `size` bytes that thread `tid` allocated. */
static void add_live(struct profile *profile, size_t site, uint32_t tid, uint64_t size, int n)
{
	size_t thread;

	must(profile__add_thread(profile, tid, tid == 10 ? "main" : "worker", &thread));
	for (int i = 0; i < n; i++)
		must(profile__add_live(profile, site, thread, size));
	profile->samples += (uint64_t)n;
}

static void finish_sites(struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		profile->sites[i].alloc_objects += profile->sites[i].live.objects;
		profile->sites[i].alloc_bytes += profile->sites[i].live.bytes;
		profile->sites[i].alloc_objects += profile->sites[i].freed_objects;
		profile->sites[i].alloc_bytes += profile->sites[i].freed_bytes;
	}
}

static void fill(struct profile *profile, bool exact)
{
	struct profile_mapping mappings[] = {
		{.start = 0x7f0000000000,
		 .end = 0x7f0000100000,
		 .off = 0x1000,
		 .perms = "r-xp",
		 .file.dev_major = 8,
		 .file.dev_minor = 1,
		 .file.inode = 8,
		 .path = (char *)"/usr/lib/libc.so.6"},
		{.start = 0x400000,
		 .end = 0x500000,
		 .perms = "r-xp",
		 .file.dev_major = 8,
		 .file.dev_minor = 1,
		 .file.inode = 7,
		 .path = (char *)"/usr/bin/leaky"},
	};
	struct profile_probe probe = {.function = (char *)"malloc",
				      .object = (char *)"/usr/lib/libc.so.6",
				      .offset = 0x1000,
				      .instruction = (char *)"push %r12",
				      .emulated = true,
				      .kind = "session"};
	size_t a, b, c;

	profile->pid = 4711;
	strcpy(profile->comm, "leaky");
	profile->mode = MODE_CONTINUOUS;
	profile->duration_s = 10;
	profile->overhead_pct = optional__of(2.1);
	profile->interval_bytes = exact ? 1 : 524288;
	must(profile__add_site(profile, parse, ARRAY_SIZE(parse), false, &a));
	must(profile__add_site(profile, cache, ARRAY_SIZE(cache), false, &b));
	must(profile__add_site(profile, scratch, ARRAY_SIZE(scratch), false, &c));
	if (exact) {
		add_live(profile, a, 10, 100, 10);
		add_live(profile, b, 11, 4096, 4);
		profile->sites[a].freed_objects = 15;
		profile->sites[a].freed_bytes = 1500;
		profile->sites[c].freed_objects = 5;
		profile->sites[c].freed_bytes = 320;
		profile->samples = 34;
		profile->alloc_calls = 34;
		profile->free_calls = 20;
	} else {
		add_live(profile, a, 10, 16, 4);
		add_live(profile, b, 11, 32 << 20, 2);
		add_live(profile, c, 10, 16, 1);
		add_live(profile, c, 11, 32 << 20, 1);
		profile->alloc_calls = 163000;
		profile->free_calls = 12;
	}
	finish_sites(profile);
	for (size_t i = 0; i < ARRAY_SIZE(mappings); i++)
		must(profile__add_mapping(profile, &mappings[i]));
	must(profile__add_lost(profile, "live_full", 0));
	must(profile__add_lost(profile, "stacks_truncated", 3));
	must(profile__add_probe(profile, &probe));
	must(profile__add_file(profile, "memtrace.4711.heap"));
	must(profile__add_file(profile, "caf\xe9 \"1\"\n"));
	must(profile__sort(profile));
	for (size_t i = 0; i < profile->n_locations; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			if (profile->locations[i].addr != names[k].addr)
				continue;
			must(profile_location__set_name(&profile->locations[i], names[k].name));
			profile->locations[i].reason = names[k].reason;
		}
	}
}

/* Keys are the addresses that jeprof looks up: the leaf's address itself, and the addresses of
 * other frames less 1. */
static void put_symbols(void)
{
	printf("--- symbol\nbinary=/usr/bin/leaky\n");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		printf("0x%016" PRIx64 " %s\n", names[i].addr - (names[i].addr != MALLOC),
		       names[i].name);
	printf("---\n--- heap\n");
}

/* Writes the collapsed stacks of the view of this name. Returns 2 if there is none. */
static int put_view(struct profile *profile, const char *name, struct sink *sink)
{
	struct view_options options = {};
	struct profile_view view;

	for (int i = 0; i < PROFILE_WEIGHTS; i++)
		if (!strcmp(name, profile_weight__name((enum profile_weight)i)))
			options.weight = (enum profile_weight)i;
	for (int i = 0; i < PROFILE_ROOTS; i++)
		if (!strcmp(name, profile_root__name((enum profile_root)i)))
			options.root = (enum profile_root)i;
	if (!view_options__any(&options))
		return 2;
	if (options.weight == WEIGHT_GROWTH) { /* the largest grows, the others do not */
		profile->growth.stacks_known = true;
		for (size_t i = 0; i < profile->n_sites; i++)
			profile->sites[i].growth.bytes_per_s = i ? -5 : 120.4;
	}
	if (view_options__refusal(&options, profile))
		return 1;
	must(profile_view__init(&view, profile, &options));
	must(encode_collapsed(&view.profile, sink));
	profile_view__clear(&view);
	return 0;
}

static void put_modules(struct profile *profile, struct sink *sink)
{
	static const char rules[] =
		"cache/\"entries\" function ^cache_insert$\ncache function ^worker$\nrest "
		"function ^scratch$\n";
	struct modules *modules = NULL;
	struct error err = {};

	must(modules__parse("rules", rules, strlen(rules), &modules, &err));
	profile->n_snapshots = 1;
	must(encode_json_with(profile, &(struct json_options){.modules = modules}, sink));
	modules__free(modules);
}

int main(int argc, char **argv)
{
	struct sink sink = sink__to_stream(stdout);
	struct table_options options = {.width = 100};
	struct profile *profile = profile__new();
	const char *format = argc == 3 ? argv[2] : "";
	int status = 0;

	if (!profile || (argc == 3 && strcmp(argv[1], "exact") && strcmp(argv[1], "sampled")))
		return 2;
	if (argc == 3)
		fill(profile, !strcmp(argv[1], "exact"));
	if (!strcmp(format, "heap"))
		must(encode_heap_v2(profile, &sink));
	else if (!strcmp(format, "symbolized"))
		must(encode_symbolized(profile, &sink));
	else if (!strcmp(format, "collapsed"))
		must(encode_collapsed(profile, &sink));
	else if (!strcmp(format, "pprof"))
		must(encode_pprof(profile, &sink));
	else if (!strcmp(format, "table"))
		must(encode_table(profile, &options, &sink));
	else if (!strcmp(format, "json"))
		must(encode_json(profile, &sink));
	else if (!strcmp(format, "modules"))
		put_modules(profile, &sink);
	else if (!strcmp(format, "symbols"))
		put_symbols();
	else
		status = argc == 3 ? put_view(profile, format, &sink) : 2;
	profile__free(profile);
	return fflush(stdout) ? 1 : status;
}
