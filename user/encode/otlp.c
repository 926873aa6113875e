// SPDX-License-Identifier: BSD-2-Clause
/* OTLP profiles: opentelemetry/proto/profiles/v1development/profiles.proto. The first entry of each
 * table is empty, so that index 0 means "none". The number of a location or stack is its index in
 * the profile + 1. */
#include "encode/encode.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/pprof_parts.h"
#include "encode/text.h"

/* Readers take the kind of the profile from these names (Pyroscope: period_type, Parca: scope). */
#define KIND	  "memory"
#define KIND_UNIT "bytes"

/* if all stacks together have more samples than this, samples are not divided by thread */
#define MOST_THREAD_SAMPLES 16000

enum request_field { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY };
enum resource_profiles_field { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES };
enum resource_field { RESOURCE_ATTRIBUTES = 1 };
enum scope_profiles_field { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES };
enum scope_field { SCOPE_NAME = 1, SCOPE_VERSION };
enum key_value_field { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE };
enum any_value_field { ANY_STRING = 1, ANY_INT = 3 };

enum dictionary_field {
	DICTIONARY_MAPPING = 1,
	DICTIONARY_LOCATION,
	DICTIONARY_FUNCTION,
	DICTIONARY_LINK,
	DICTIONARY_STRING,
	DICTIONARY_ATTRIBUTE,
	DICTIONARY_STACK,
};

enum otlp_profile_field {
	OTLP_PROFILE_SAMPLE_TYPE = 1,
	OTLP_PROFILE_SAMPLES,
	OTLP_PROFILE_TIME,
	OTLP_PROFILE_DURATION,
	OTLP_PROFILE_PERIOD_TYPE,
	OTLP_PROFILE_PERIOD,
	OTLP_PROFILE_ID,
};

enum otlp_sample_field { OTLP_SAMPLE_STACK = 1, OTLP_SAMPLE_VALUES, OTLP_SAMPLE_ATTRIBUTES };
enum otlp_value_type_field { OTLP_TYPE = 1, OTLP_UNIT };
enum otlp_mapping_field {
	OTLP_MAPPING_START = 1,
	OTLP_MAPPING_LIMIT,
	OTLP_MAPPING_OFFSET,
	OTLP_MAPPING_FILE,
	OTLP_MAPPING_ATTRIBUTES,
};
enum otlp_location_field {
	OTLP_LOCATION_MAPPING = 1,
	OTLP_LOCATION_ADDRESS,
	OTLP_LOCATION_LINES,
	OTLP_LOCATION_ATTRIBUTES,
};
enum otlp_line_field { OTLP_LINE_FUNCTION = 1, OTLP_LINE_LINE };
enum otlp_function_field { OTLP_FUNCTION_NAME = 1, OTLP_FUNCTION_FILE = 3 };
enum otlp_stack_field { OTLP_STACK_LOCATIONS = 1 };
enum otlp_attribute_field { OTLP_ATTRIBUTE_KEY = 1, OTLP_ATTRIBUTE_VALUE };

struct otlp {
	const struct profile *profile;
	const struct otlp_options *options;
	/* attributes: entries of the table, encoded */
	struct intern strings, functions, attributes;
	struct message dictionary, part, inner, list;
	uint32_t *mappings; /* for each mapping: its number in the file; 0: it has no locations */
	bool no_threads;    /* samples are not divided by thread, because they would be too many */
	int error;
};

static uint64_t string(struct otlp *o, const char *text)
{
	_cleanup_free_ char *printable = text_printable(text);
	uint32_t number = 0;

	if (!printable || intern__add(&o->strings, printable, strlen(printable), &number) < 0)
		o->error = -ENOMEM;
	return number;
}

/* Writes o->part as an entry of a table, and empties it. */
static void put_entry(struct otlp *o, enum dictionary_field table)
{
	message__bytes(&o->dictionary, table, o->part.bytes, o->part.len);
	o->part.len = 0;
}

static void put_any_value(struct message *to, int field, struct message *scratch, const char *text,
			  int64_t number)
{
	scratch->len = 0;
	if (text) {
		message__bytes(scratch, ANY_STRING, text, strlen(text));
	} else {
		/* not message__uint(), which leaves out 0 */
		message__varint(scratch, ANY_INT << 3 | WIRE_VARINT);
		message__varint(scratch, (uint64_t)number);
	}
	message__bytes(to, field, scratch->bytes, scratch->len);
}

/* Returns the number of an attribute in its table. */
static uint64_t attribute(struct otlp *o, const char *key, const char *text, int64_t number)
{
	_cleanup_free_ char *printable = text ? text_printable(text) : NULL;
	struct message entry = {}, scratch = {};
	uint32_t found = 0;

	if (text && !printable)
		o->error = -ENOMEM;
	message__uint(&entry, OTLP_ATTRIBUTE_KEY, string(o, key));
	put_any_value(&entry, OTLP_ATTRIBUTE_VALUE, &scratch, printable, number);
	if (entry.failed || scratch.failed ||
	    intern__add(&o->attributes, entry.bytes, entry.len, &found) < 0)
		o->error = -ENOMEM;
	free(entry.bytes);
	free(scratch.bytes);
	return found;
}

static void put_value_type(struct otlp *o, struct message *to, int field, const char *type,
			   const char *unit)
{
	o->inner.len = 0;
	message__uint(&o->inner, OTLP_TYPE, string(o, type));
	message__uint(&o->inner, OTLP_UNIT, string(o, unit));
	message__bytes(to, field, o->inner.bytes, o->inner.len);
}

static void put_indices(struct otlp *o, struct message *to, int field, const uint64_t *indices,
			size_t n)
{
	o->list.len = 0;
	for (size_t i = 0; i < n; i++)
		message__varint(&o->list, indices[i]);
	message__bytes(to, field, o->list.bytes, o->list.len);
}

/* --- the dictionary --- */

static void put_mappings(struct otlp *o)
{
	const struct profile *profile = o->profile;
	uint32_t n = 0;

	for (size_t i = 0; i < profile->n_locations; i++)
		if (profile->locations[i].mapping >= 0)
			o->mappings[profile->locations[i].mapping] = 1;
	put_entry(o, DICTIONARY_MAPPING);
	for (size_t i = 0; i < profile->n_mappings && !o->error; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];
		uint64_t id;

		if (!o->mappings[i])
			continue;
		o->mappings[i] = ++n;
		message__uint(&o->part, OTLP_MAPPING_START, mapping->start);
		message__uint(&o->part, OTLP_MAPPING_LIMIT, mapping->end);
		message__uint(&o->part, OTLP_MAPPING_OFFSET, mapping->off);
		message__uint(&o->part, OTLP_MAPPING_FILE, string(o, mapping->path ?: ""));
		if (mapping->build_id) {
			id = attribute(o, "process.executable.build_id.gnu", mapping->build_id, 0);
			put_indices(o, &o->part, OTLP_MAPPING_ATTRIBUTES, &id, 1);
		}
		put_entry(o, DICTIONARY_MAPPING);
	}
}

static uint64_t function(struct otlp *o, const struct profile_frame *frame)
{
	uint32_t key[2] = {(uint32_t)string(o, frame->name),
			   frame->file ? (uint32_t)string(o, frame->file) : 0};
	uint32_t number = 0;

	if (intern__add(&o->functions, key, sizeof(key), &number) < 0)
		o->error = -ENOMEM;
	return (uint64_t)number + 1;
}

/* Returns the number of the attribute that says to which interpreter the location's frame
 * belongs. */
static uint64_t frame_type(struct otlp *o, const struct profile_location *location)
{
	return attribute(o, "profile.frame.type",
			 location->addr >= PROFILE_FRAME_ADDR ? "cpython" : "native", 0);
}

static void put_locations(struct otlp *o)
{
	const struct profile *profile = o->profile;

	put_entry(o, DICTIONARY_LOCATION);
	for (size_t i = 0; i < profile->n_locations && !o->error; i++) {
		const struct profile_location *location = &profile->locations[i];
		uint64_t type = frame_type(o, location);

		if (location->mapping >= 0)
			message__uint(&o->part, OTLP_LOCATION_MAPPING,
				      o->mappings[location->mapping]);
		if (location->addr < PROFILE_NO_ADDR)
			message__uint(&o->part, OTLP_LOCATION_ADDRESS, location->addr - 1);
		for (size_t k = 0; k < location->n_frames; k++) {
			o->inner.len = 0;
			message__uint(&o->inner, OTLP_LINE_FUNCTION,
				      function(o, &location->frames[k]));
			message__uint(&o->inner, OTLP_LINE_LINE, location->frames[k].line);
			message__bytes(&o->part, OTLP_LOCATION_LINES, o->inner.bytes, o->inner.len);
		}
		put_indices(o, &o->part, OTLP_LOCATION_ATTRIBUTES, &type, 1);
		put_entry(o, DICTIONARY_LOCATION);
	}
}

static void put_functions(struct otlp *o)
{
	put_entry(o, DICTIONARY_FUNCTION);
	for (uint32_t i = 0; i < o->functions.n; i++) {
		uint32_t key[2];
		size_t len;

		memcpy(key, intern__get(&o->functions, i, &len), sizeof(key));
		message__uint(&o->part, OTLP_FUNCTION_NAME, key[0]);
		message__uint(&o->part, OTLP_FUNCTION_FILE, key[1]);
		put_entry(o, DICTIONARY_FUNCTION);
	}
}

/* Puts the stacks, leaf first as in the profile. */
static void put_stacks(struct otlp *o, size_t n)
{
	put_entry(o, DICTIONARY_STACK);
	for (size_t i = 0; i < n && !o->error; i++) {
		const struct profile_site *site = &o->profile->sites[i];

		o->list.len = 0;
		for (uint32_t k = 0; k < site->n_locations; k++)
			message__varint(&o->list, (uint64_t)site->locations[k] + 1);
		message__bytes(&o->part, OTLP_STACK_LOCATIONS, o->list.bytes, o->list.len);
		put_entry(o, DICTIONARY_STACK);
	}
}

static void put_table(struct otlp *o, enum dictionary_field table, const struct intern *entries)
{
	for (uint32_t i = 0; i < entries->n; i++) {
		size_t len;
		const void *bytes = intern__get(entries, i, &len);

		message__bytes(&o->dictionary, table, bytes, len);
	}
}

/* --- the profiles --- */

/* Puts one sample, unless it rounds to 0. */
static void put_sample(struct otlp *o, struct message *to, size_t site, double value,
		       struct carry *carry, const struct profile_thread *thread)
{
	uint64_t n = carry__take(carry, value), attributes[2];

	if (!n)
		return;
	o->part.len = 0;
	message__uint(&o->part, OTLP_SAMPLE_STACK, site + 1);
	put_indices(o, &o->part, OTLP_SAMPLE_VALUES, &n, 1);
	if (thread) {
		attributes[0] = attribute(o, "thread.id", NULL, thread->tid);
		attributes[1] = attribute(o, "thread.name", thread->name, 0);
		put_indices(o, &o->part, OTLP_SAMPLE_ATTRIBUTES, attributes, 2);
	}
	message__bytes(to, OTLP_PROFILE_SAMPLES, o->part.bytes, o->part.len);
	o->part.len = 0;
}

/* Puts the samples of one kind of value. Memory in use has a sample for each thread. */
static void put_samples(struct otlp *o, struct message *to, int kind, size_t n)
{
	struct carry carry = {};

	for (size_t i = 0; i < n && !o->error; i++) {
		const struct profile_site *site = &o->profile->sites[i];
		double values[STANDARD_VALUES], left;

		encode_interval__values(&o->options->interval, site, i, values);
		left = values[kind];
		for (size_t k = 0; k < site->n_threads && kind >= VALUE_INUSE_OBJECTS; k++) {
			const struct profile_site_thread *held = &site->threads[k];
			double part = kind == VALUE_INUSE_OBJECTS ? held->objects : held->bytes;

			if (o->no_threads || !(part > 0))
				continue;
			if (part > left)
				part = left;
			put_sample(o, to, i, part, &carry, &o->profile->threads[held->thread]);
			left -= part;
		}
		/* a tiny rest is only the rounding error of doubles, and is left out */
		if (left > 1e-9 * values[kind])
			put_sample(o, to, i, left, &carry, NULL);
	}
}

static void put_profile(struct otlp *o, struct message *to, int kind, size_t n)
{
	const struct encode_interval *interval = &o->options->interval;
	uint64_t time = htole64(interval->from_ns);
	struct message profile = {};
	uint8_t id[16];

	memcpy(id, o->options->id, sizeof(id));
	id[sizeof(id) - 1] ^= (uint8_t)kind; /* gives each of the four profiles its own id */
	put_value_type(o, &profile, OTLP_PROFILE_SAMPLE_TYPE, pprof_values[kind].type,
		       pprof_values[kind].unit);
	put_samples(o, &profile, kind, n);
	message__varint(&profile, OTLP_PROFILE_TIME << 3 | WIRE_FIXED64);
	message__append(&profile, &time, sizeof(time));
	message__uint(&profile, OTLP_PROFILE_DURATION, interval->until_ns - interval->from_ns);
	put_value_type(o, &profile, OTLP_PROFILE_PERIOD_TYPE, KIND, KIND_UNIT);
	message__uint(&profile, OTLP_PROFILE_PERIOD, o->profile->interval_bytes ?: 1);
	message__bytes(&profile, OTLP_PROFILE_ID, id, sizeof(id));
	message__bytes(to, SCOPE_PROFILES_PROFILES, profile.bytes, profile.len);
	to->failed |= profile.failed;
	free(profile.bytes);
}

static void put_resource(struct otlp *o, struct message *to)
{
	struct message resource = {};

	for (size_t i = 0; i < o->options->n_resource; i++) {
		const struct otlp_attribute *a = &o->options->resource[i];
		_cleanup_free_ char *printable = a->text ? text_printable(a->text) : NULL;

		if (a->text && !printable)
			o->error = -ENOMEM;
		o->part.len = 0;
		message__bytes(&o->part, KEY_VALUE_KEY, a->key, strlen(a->key));
		put_any_value(&o->part, KEY_VALUE_VALUE, &o->inner, printable, a->number);
		message__bytes(&resource, RESOURCE_ATTRIBUTES, o->part.bytes, o->part.len);
	}
	o->part.len = 0;
	message__bytes(to, RESOURCE_PROFILES_RESOURCE, resource.bytes, resource.len);
	to->failed |= resource.failed;
	free(resource.bytes);
}

/* The resource and the scope are always written, because readers use them without a check. */
static void put_resource_profiles(struct otlp *o, struct message *to, size_t n)
{
	struct message scope = {};

	o->part.len = 0;
	message__bytes(&o->part, SCOPE_NAME, KIND, strlen(KIND));
	message__bytes(&o->part, SCOPE_VERSION, MEMTRACE_VERSION, strlen(MEMTRACE_VERSION));
	message__bytes(&scope, SCOPE_PROFILES_SCOPE, o->part.bytes, o->part.len);
	/* bytes in use come first, because readers show the first profile first */
	put_profile(o, &scope, VALUE_INUSE_SPACE, n);
	for (int kind = 0; kind < VALUE_INUSE_SPACE; kind++)
		put_profile(o, &scope, kind, n);
	put_resource(o, to);
	message__bytes(to, RESOURCE_PROFILES_SCOPE_PROFILES, scope.bytes, scope.len);
	to->failed |= scope.failed;
	free(scope.bytes);
}

static void put_dictionary(struct otlp *o, size_t n)
{
	put_mappings(o);
	put_locations(o);
	put_functions(o);
	put_stacks(o, n);
	put_entry(o, DICTIONARY_LINK);
	put_table(o, DICTIONARY_ATTRIBUTE, &o->attributes);
	put_table(o, DICTIONARY_STRING, &o->strings);
}

static size_t count_thread_samples(const struct profile *profile, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += profile->sites[i].n_threads;
	return count;
}

int encode_otlp(const struct profile *profile, const struct otlp_options *options,
		struct sink *sink)
{
	struct otlp o = {.profile = profile, .options = options};
	size_t n = encode_interval__n_sites(&options->interval, profile);
	struct message profiles = {}, head = {};
	uint32_t none;

	o.no_threads = count_thread_samples(profile, n) > MOST_THREAD_SAMPLES;
	o.mappings = calloc(profile->n_mappings + 1, sizeof(*o.mappings));
	if (!o.mappings || intern__add(&o.strings, "", 0, &none) < 0 ||
	    intern__add(&o.attributes, "", 0, &none) < 0)
		o.error = -ENOMEM;
	if (!o.error) {
		put_resource_profiles(&o, &profiles, n);
		put_dictionary(&o, n); /* written last, because the profiles add entries to it */
	}
	message__bytes(&head, REQUEST_RESOURCE_PROFILES, profiles.bytes, profiles.len);
	message__varint(&head, REQUEST_DICTIONARY << 3 | WIRE_BYTES);
	message__varint(&head, o.dictionary.len);
	if (!o.error && (profiles.failed || head.failed || o.dictionary.failed || o.part.failed ||
			 o.inner.failed || o.list.failed))
		o.error = -ENOMEM;
	if (!o.error)
		o.error = sink__write(sink, head.bytes, head.len)
				  ?: sink__write(sink, o.dictionary.bytes, o.dictionary.len);
	intern__clear(&o.strings);
	intern__clear(&o.functions);
	intern__clear(&o.attributes);
	free(o.dictionary.bytes);
	free(o.part.bytes);
	free(o.inner.bytes);
	free(o.list.bytes);
	free(profiles.bytes);
	free(head.bytes);
	free(o.mappings);
	return o.error;
}
