/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles made by hand and sinks that keep what they get. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_ENCODE_FIXTURE_H
#define MEMTRACE_TESTS_ENCODE_FIXTURE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/abi.h"
#include "encode/encode.h"

struct text {
	char *bytes;
	size_t len, room;
};

static inline int text_write(void *ctx, const void *data, size_t len)
{
	struct text *text = ctx;

	if (text->len + len + 1 > text->room) {
		text->room = 2 * (text->len + len + 1);
		text->bytes = realloc(text->bytes, text->room);
		assert_non_null(text->bytes);
	}
	memcpy(text->bytes + text->len, data, len);
	text->len += len;
	text->bytes[text->len] = '\0';
	return 0;
}

static inline int failing_write(void *ctx, const void *data, size_t len)
{
	int *calls_left = ctx;

	(void)data;
	(void)len;
	return (*calls_left)-- > 0 ? 0 : -ENOSPC;
}

typedef int (*encoder_fn)(const struct profile *profile, struct sink *sink);

/* Returns the encoder's output. The caller calls free(). */
static inline char *encoded(encoder_fn encode, const struct profile *profile)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode(profile, &sink), 0);
	return text.bytes ? text.bytes : strdup("");
}

static struct table_options table_options;

static inline int encode_with_options(const struct profile *profile, struct sink *sink)
{
	return encode_table(profile, &table_options, sink);
}

/* Returns the profile's table. The caller calls free(). */
static inline char *table_of(const struct profile *profile, struct table_options options)
{
	table_options = options;
	return encoded(encode_with_options, profile);
}

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

/* Checks that the encoder returns the sink's error for each write that fails. */
static inline void assert_reports_failures(encoder_fn encode, const struct profile *profile)
{
	int calls = 0, left, err;

	do {
		struct sink sink = {.write = failing_write, .ctx = &left};

		left = calls++;
		err = encode(profile, &sink);
		assert_true(err == (left < 0 ? -ENOSPC : 0));
	} while (err);
	assert_true(calls > 1);
}

static inline struct profile *new_profile(uint64_t interval)
{
	struct profile *profile = profile__new();

	assert_non_null(profile);
	profile->interval_bytes = interval;
	profile->pid = 4711;
	strcpy(profile->comm, "leaky");
	profile->mode = MODE_CONTINUOUS;
	profile->duration_s = 10;
	return profile;
}

/* Adds a site whose frames have these addresses and names. */
static inline size_t add_site_at(struct profile *profile, const uint64_t *addrs,
				 const char *const *names, size_t n_names)
{
	size_t site;

	assert_int_equal(profile__add_site(profile, addrs, n_names, false, &site), 0);
	for (size_t i = 0; i < n_names; i++) {
		struct profile_location *location =
			&profile->locations[profile->sites[site].locations[i]];

		if (location->n_frames)
			continue;
		assert_int_equal(profile_location__set_name(location, names[i]), 0);
		location->reason = UNRESOLVED_NAMED;
	}
	return site;
}

/* Adds a site whose frames have these names. A name has the same address in all sites. The site has
 * n live blocks of size bytes, of thread tid. Call end_profile() after the last site. */
static inline size_t add_stack(struct profile *profile, const char *const *names, size_t n_names,
			       uint32_t tid, uint64_t size, int n)
{
	uint64_t addrs[64] = {};
	size_t site, thread;

	for (size_t i = 0; i < n_names; i++) {
		addrs[i] = 5381;
		for (const char *c = names[i]; *c; c++)
			addrs[i] = addrs[i] * 33 + (unsigned char)*c;
		addrs[i] &= 0x7fffffffffff;
	}
	site = add_site_at(profile, addrs, names, n_names);
	assert_int_equal(profile__add_thread(profile, tid, NULL, &thread), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(profile__add_live(profile, site, thread, size), 0);
	return site;
}

/* Adds a site with n live blocks of 100 bytes, which a function of Python allocated for main. */
static inline void add_python(struct profile *profile, uint64_t code, const char *name, int n)
{
	const uint64_t addrs[] = {abi_python_frame(code, 3), 0x1235};
	const char *const names[] = {name, "main"};
	size_t site, thread;

	assert_int_equal(profile__add_site(profile, addrs, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(profile__add_live(profile, site, thread, 100), 0);
	for (int i = 0; i < 2; i++) {
		struct profile_location *location =
			&profile->locations[profile->sites[site].locations[i]];

		assert_int_equal(profile_location__set_name(location, names[i]), 0);
		location->reason = UNRESOLVED_NAMED;
	}
}

#define STACK(profile, tid, size, n, ...)                                                          \
	add_stack(profile, (const char *const[]){__VA_ARGS__},                                     \
		  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), tid, size, n)

/* Adds the inlined function inner to the function outer, which calls inner at line 7 of a.c. The
 * address is at b.h:3, in inner. */
static inline void add_inlined(struct profile *profile, const char *outer, const char *inner)
{
	struct profile_frame *frames = calloc(2, sizeof(*frames));

	frames[0] = (struct profile_frame){strdup(inner), strdup("b.h"), 3};
	frames[1] = (struct profile_frame){strdup(outer), strdup("dir \"1\"/a.c"), 7};
	for (size_t i = 0; i < profile->n_locations; i++) {
		const char *name = profile_location__function(&profile->locations[i]);

		if (name && !strcmp(name, outer)) {
			profile_location__set_frames(&profile->locations[i], frames, 2);
			return;
		}
	}
	fail_msg("no function %s", outer);
}

static inline void end_profile(struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		profile->samples += site->live.samples;
		if (site->alloc_bytes < site->live.bytes) {
			site->alloc_bytes = site->live.bytes;
			site->alloc_objects = site->live.objects;
		}
	}
	if (profile->alloc_calls < profile->samples)
		profile->alloc_calls = profile->samples;
	assert_int_equal(profile__sort(profile), 0);
}

#endif
