// SPDX-License-Identifier: BSD-2-Clause
/* Writes a target's names, of all kinds, in every format: the output must keep the form that
 * readers expect. The input is a few stacks, then strings. Each string ends with a NUL and serves
 * as a name, a path or a thread. */
#include "fuzz.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "decode/decode.h"
#include "encode/encode.h"
#include "encode/text.h"
#include "proc/maps.h"
#include "profile/view.h"

#define MAX_STRINGS  64
#define MAPPINGS_ARE "\nMAPPED_LIBRARIES:\n"

static char *strings[MAX_STRINGS];
static size_t n_strings;

static const char *string(uint64_t i)
{
	return n_strings ? strings[i % n_strings] : "";
}

static struct profile *build(struct fuzz_input *in)
{
	struct profile *p = profile__new();
	size_t site, thread, n = fuzz_take(in, 1) % 8;
	const uint8_t *stacks;

	require(p);
	p->interval_bytes = fuzz_take(in, 3) + 1;
	p->mode = MODE_CONTINUOUS;
	p->exe = NULL;
	stacks = in->pos;
	in->pos += (size_t)(in->end - in->pos) < 16 * n ? (size_t)(in->end - in->pos) : 16 * n;
	for (n_strings = 0; in->pos < in->end && n_strings < MAX_STRINGS;) {
		size_t len = strnlen((const char *)in->pos, (size_t)(in->end - in->pos));

		strings[n_strings++] = fuzz_string(in->pos, len);
		in->pos += len + (in->pos + len < in->end);
	}
	in->end = in->pos;
	in->pos = stacks;

	snprintf(p->comm, sizeof(p->comm), "%s", string(0));
	for (uint64_t i = 0; i < 4; i++) {
		struct profile_mapping m = {.start = 4096 * i + 1,
					    .end = 4096 * (i + 1),
					    .file.inode = i,
					    .perms = "r-xp",
					    .deleted = i & 1,
					    .path = (char *)string(i + 1)};
		struct profile_probe probe = {.function = (char *)string(i),
					      .object = (char *)string(i + 2),
					      .instruction = (char *)string(i + 3),
					      .kind = "perf"};

		require(!profile__add_mapping(p, &m) && !profile__add_probe(p, &probe));
	}
	require(!profile__add_file(p, string(5)) && !profile__add_lost(p, "live_full", 3));
	for (size_t i = 0; i < n; i++) {
		uint64_t addrs[8] = {0}, count;

		for (size_t k = 0; k < 8; k++)
			addrs[k] = fuzz_take(in, 1);
		require(!profile__add_site(p, addrs, fuzz_take(in, 1) % 9, false, &site));
		require(!profile__add_thread(p, (uint32_t)fuzz_take(in, 1), string(i), &thread));
		count = fuzz_take(in, 1) % 4;
		for (uint64_t size = fuzz_take(in, 4); count; count--)
			require(!profile__add_live(p, site, thread, size));
		p->sites[site].alloc_bytes = p->sites[site].live.bytes;
		p->sites[site].alloc_objects = p->sites[site].live.objects;
		fuzz_take(in, 1);
	}
	require(!profile__sort(p));
	for (size_t i = 0; i < p->n_locations; i++) {
		const char *name = string(p->locations[i].addr);
		size_t n_frames = 1 + p->locations[i].addr % 3;
		struct profile_frame *frames;

		if (!*name)
			continue;
		frames = calloc(n_frames, sizeof(*frames));
		for (size_t k = 0; k < n_frames; k++) /* inlined functions, some of a known file */
			frames[k] = (struct profile_frame){strdup(k ? string(k) : name),
							   k & 1 ? strdup(name) : NULL, 7};
		profile_location__set_frames(&p->locations[i], frames, n_frames);
	}
	return p;
}

static int append(void *ctx, const void *data, size_t len)
{
	require(fwrite(data, 1, len, ctx) == len);
	return 0;
}

/* Returns the encoder's output, which must be text without a NUL. */
static char *encoded(const struct profile *p, int (*encode)(const struct profile *, struct sink *))
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct sink sink = {.write = append, .ctx = out};

	require(out && !encode(p, &sink) && !fclose(out));
	require(strlen(text) == len);
	require(!len || text[len - 1] == '\n');
	return text;
}

/* The text must be UTF-8, and nothing in it except newlines may move a cursor. */
static void check_printable(const char *text)
{
	uint32_t code;

	for (size_t n; *text; text += n) {
		n = utf8_next(text, &code);
		require(n && (code == '\n' || !is_control(code)));
	}
}

static void check_collapsed(char *text)
{
	check_printable(text);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *number = strrchr(line, ' '), *end;

		require(number && number > line && isdigit(number[1]));
		require(strtoull(number, &end, 10) && !*end);
	}
}

static void check_heap(char *text)
{
	char *list = strstr(text, MAPPINGS_ARE), *line;
	struct maps maps;
	size_t skipped;

	check_printable(text);
	require(list);
	*list = '\0';
	list += strlen(MAPPINGS_ARE);
	require(!maps__parse(list, strlen(list), &maps, &skipped));
	require(maps.n == 4 && !skipped);
	maps__free(&maps);

	line = strtok(text, "\n");
	require(line && !strncmp(line, "heap_v2/", 8) && strspn(line + 8, "0123456789"));
	while ((line = strtok(NULL, "\n"))) {
		uint64_t n[5];

		if (line[0] == '@')
			require(strspn(line, "@ 0x123456789abcdef") == strlen(line));
		else if (!strncmp(line, "  t*: ", 6))
			require(sscanf(line, "  t*: %lu: %lu [%lu: %lu]", n, n + 1, n + 2, n + 3) ==
				4);
		else
			require(sscanf(line, "  t%lu: %lu: %lu [%lu: %lu]", n, n + 1, n + 2, n + 3,
				       n + 4) == 5);
	}
}

static const char *json_value(const char *p);

static const char *json_string(const char *p)
{
	uint32_t code;

	require(*p++ == '"');
	while (*p != '"') {
		size_t n = utf8_next(p, &code);

		require(n && !is_control(code));
		if (*p == '\\') {
			p++;
			require(*p && strchr("\"\\/bfnrtu", *p));
			for (int i = 0; *p == 'u' && i < 4; i++)
				require(isxdigit((unsigned char)p[1 + i]));
		}
		p += n;
	}
	return p + 1;
}

/* Returns the address after a list of values, or of names and values. */
static const char *json_list(const char *p, char close)
{
	p++;
	if (*p == close)
		return p + 1;
	for (;;) {
		if (close == '}') {
			p = json_string(p);
			p += strspn(p, " ");
			require(*p++ == ':');
			p += strspn(p, " ");
		}
		p = json_value(p);
		if (*p == close)
			return p + 1;
		require(*p++ == ',');
		p += strspn(p, " ");
	}
}

static const char *json_value(const char *p)
{
	size_t n;

	switch (*p) {
	case '"':
		return json_string(p);
	case '[':
		return json_list(p, ']');
	case '{':
		return json_list(p, '}');
	}
	n = !strncmp(p, "null", 4) || !strncmp(p, "true", 4) ? 4
	    : !strncmp(p, "false", 5)			     ? 5
							     : strspn(p, "0123456789.eE+-");
	require(n);
	return p + n;
}

/* Elements must be closed in the right order, and exactly one must be a script. The text must have
 * only characters and references that XML allows. */
static void check_svg(const char *p)
{
	const char *open[16];
	size_t depth = 0, scripts = 0;
	uint32_t code;

	for (const char *at = p; *at; at += utf8_next(at, &code))
		require(utf8_next(at, &code) &&
			(code == '\n' || code == '\t' || !is_control(code)) && code != 0xfffe &&
			code != 0xffff);
	while (*p) {
		const char *end = p + 1 + strcspn(p + 1, "<>");

		if (*p == '&') {
			require(!strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4) ||
				!strncmp(p, "&amp;", 5) || !strncmp(p, "&quot;", 6));
		} else if (!strncmp(p, "<![CDATA[", 9)) {
			end = strstr(p, "]]>");
			require(end);
			p = end + 2;
		} else if (*p == '<') {
			require(*end == '>');
			scripts += !strncmp(p, "<script", 7);
			if (p[1] == '/') {
				size_t len = (size_t)(end - p - 2);

				require(depth && !strncmp(open[--depth], p + 2, len) &&
					strchr(" >", open[depth][len]));
			} else if (p[1] != '?' && end[-1] != '/') {
				require(depth < 16);
				open[depth++] = p + 1;
			}
			p = end;
		} else {
			require(*p != '>');
		}
		p++;
	}
	require(!depth && scripts == 1);
}

static int encode_picture(const struct profile *p, struct sink *sink)
{
	return encode_svg(p, NULL, sink);
}

static int encode_difference(const struct profile *p, struct sink *sink)
{
	const struct svg_options options = {.base = p};

	return encode_svg(p, &options, sink);
}

static int encode_rows(const struct profile *p, struct sink *sink)
{
	const struct table_options options = {.top = 8, .width = 60};

	return encode_table(p, &options, sink);
}

static int encode_pages(const struct profile *p, struct sink *sink)
{
	const struct table_options options = {.width = 60};

	return encode_resident(p, &options, sink);
}

static int encode_both(const struct profile *p, struct sink *sink)
{
	const struct process_table_options options = {.top = 1, .width = 80};

	return encode_processes((const struct profile *const[]){p, p}, 2, &options, sink);
}

/* For all names, the pprof file must be read back with the same totals. */
static void check_pprof(const struct profile *p)
{
	char *bytes;
	size_t len;
	FILE *out = open_memstream(&bytes, &len);
	struct sink sink = {.write = append, .ctx = out};
	struct profile *again;

	require(out && !encode_pprof(p, &sink) && !fclose(out));
	require(!decode_bytes("own", bytes, len, &again, NULL));
	require(fabs(profile__live(again).bytes - profile__live(p).bytes) < 1);
	require(fabs(profile__live(again).objects - profile__live(p).objects) < 1);
	profile__free(again);
	free(bytes);
}

/* For all names, a view must have as many bytes as the profile. */
static void check_views(const struct profile *p)
{
	for (int root = ROOT_THREAD; root < PROFILE_ROOTS; root++) {
		const struct view_options options = {.root = (enum profile_root)root};
		double bytes = profile__live(p).bytes;
		struct profile_view view;
		char *text;

		if (view_options__refusal(&options, p))
			continue;
		require(!profile_view__init(&view, p, &options));
		require(fabs(profile__live(&view.profile).bytes - bytes) <= 1e-5 * bytes);
		text = encoded(&view.profile, encode_collapsed);
		check_collapsed(text);
		free(text);
		text = encoded(&view.profile, encode_picture);
		check_svg(text);
		free(text);
		profile_view__clear(&view);
	}
}

/* Read back, a symbolized file must not have more stacks or locations. */
static void check_symbolized(const struct profile *p)
{
	char *text = encoded(p, encode_symbolized);
	struct profile *again = NULL;
	size_t stacks = 0;

	check_printable(text);
	for (const char *at = text; (at = strstr(at, "] @ 0x")); at++)
		stacks++;
	require(!decode_bytes("own", text, strlen(text), &again, NULL));
	require(again->n_sites <= stacks && again->n_locations <= p->n_locations);
	profile__free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	struct profile *p = build(&in);
	struct resident_pieces pieces = {};
	char *text;

	for (unsigned kind = 0; kind < RESIDENT_N_KINDS && n_strings; kind++) {
		/* all memory of the kind "mapped" belongs to sites */
		const struct resident_piece piece = {
			.kind = kind,
			.bytes = {.rss = kind == RESIDENT_MAPPED ? p->n_sites << 12 : kind << 12}};

		resident_pieces__add(&pieces, &piece, string(kind));
	}
	for (size_t i = 0; i < p->n_sites && n_strings; i++)
		p->sites[i].resident.rss = 4096;
	require(!resident__make(&pieces, p, p, NULL, 0, false, &p->resident));
	resident_pieces__free(&pieces);
	require(!resident__take_census(
		p->resident, &(struct heap_slack){size << 12, size << 11, size, 0, size, 0}));

	text = encoded(p, encode_collapsed);
	check_collapsed(text);
	free(text);
	text = encoded(p, encode_heap_v2);
	check_heap(text);
	free(text);
	check_views(p);
	check_symbolized(p);
	text = encoded(p, encode_picture);
	check_svg(text);
	free(text);
	text = encoded(p, encode_difference);
	check_svg(text);
	free(text);
	text = encoded(p, encode_rows);
	check_printable(text);
	free(text);
	text = encoded(p, encode_pages);
	check_printable(text);
	free(text);
	text = encoded(p, encode_both);
	check_printable(text);
	free(text);
	text = encoded(p, encode_json);
	require(!strcmp(json_value(text), "\n"));
	free(text);
	check_pprof(p);

	profile__free(p);
	while (n_strings)
		free(strings[--n_strings]);
	return 0;
}
