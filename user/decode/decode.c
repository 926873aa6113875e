// SPDX-License-Identifier: BSD-2-Clause
/* Finds out which format a file has. Also has the functions that the readers of all formats
 * share. */
#include "decode/decode.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "decode/internal.h"
#include "profile/pprof.h"

#define LOOK_AT 65536 /* at most this many first bytes of a file decide if it is text */
/* The kernel gives only tids below this number. Threads with an impossible tid get tids from this
 * number on. */
#define FIRST_OWN_TID (1u << 31)
/* size of a slot in the look-up tables that a profile is built with; half of the slots stay
 * empty */
#define INDEX_BYTES 16

const struct decode_limits decode_limits = {
	.items = 1u << 22,
	.locations = 1u << 21,
	.frames = 1u << 24,
	.bytes = 1u << 30,
	.written_frames = PROFILE_MAX_WRITTEN_FRAMES,
	.written_bytes = PROFILE_MAX_WRITTEN_BYTES,
};

/* --- errors --- */

static int vbad(const struct input *in, int code, const char *what, size_t where, const char *fmt,
		va_list ap)
{
	char text[400];

	vsnprintf(text, sizeof(text), fmt, ap);
	return error__set(in->err, code, "%s: %s %zu: %s", in->name, what, where, text);
}

int input__bad_line(const struct input *in, int code, size_t line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	code = vbad(in, code, "line", line, fmt, ap);
	va_end(ap);
	return code;
}

int input__bad_byte(const struct input *in, int code, size_t byte, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	code = vbad(in, code, "byte", byte, fmt, ap);
	va_end(ap);
	return code;
}

/* --- text --- */

bool input__next_line(const struct input *in, struct line *line)
{
	const char *start = line->number ? line->text + line->len + 1 : in->bytes;
	const char *end = in->bytes + in->len, *newline;

	if (start >= end)
		return false;
	newline = memchr(start, '\n', (size_t)(end - start));
	line->text = start;
	line->len = (size_t)((newline ? newline : end) - start);
	line->number++;
	return true;
}

bool line__starts(const struct line *line, const char *word)
{
	return line->len >= strlen(word) && !memcmp(line->text, word, strlen(word));
}

int take_decimal(const char **pos, const char *end, uint64_t *ret)
{
	const char *start = *pos;
	uint64_t value = 0;

	for (; *pos < end && **pos >= '0' && **pos <= '9'; ++*pos) {
		uint64_t digit = (uint64_t)(**pos - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*ret = value;
	return *pos > start ? 0 : -EINVAL;
}

/* --- the profile --- */

void draft__clear(struct draft *draft)
{
	intern__clear(&draft->stacks);
	intern__clear(&draft->names);
	intern__clear(&draft->threads);
}

int draft__refuse(struct draft *draft, const char *static_why)
{
	draft->why = static_why;
	return -EFBIG;
}

int draft__take(struct draft *draft, size_t bytes)
{
	/* Includes the allocator's header, and rounds up as glibc does: a name of one letter takes
	 * 32 bytes. */
	draft->n_bytes += bytes < 24 ? 32 : (bytes + 8 + 15) & ~(size_t)15;
	return draft->n_bytes > draft->limits->bytes
		       ? draft__refuse(draft,
				       "names and tables take more memory than any profile does")
		       : 0;
}

int draft__site(struct draft *draft, const uint64_t *addrs, size_t n, size_t *ret_site)
{
	struct profile *profile = draft->profile;
	size_t n_locations = profile->n_locations;
	uint32_t number;
	int rc;

	if (n > MAX_STACK_FRAMES)
		return draft__refuse(draft, "a stack of more frames than can be read");
	rc = intern__add(&draft->stacks, addrs, n * sizeof(*addrs), &number);
	if (rc < 0)
		return rc;
	*ret_site = number;
	if (!rc)
		return 0;
	draft->n_frames += n;
	if (number >= draft->limits->items)
		return draft__refuse(draft, "more stacks than any profile has");
	if (draft->n_frames > draft->limits->frames)
		return draft__refuse(draft, "more frames in all stacks than any profile has");
	rc = profile__add_site(profile, addrs, n, false, ret_site);
	if (rc)
		return rc;
	if (profile->n_locations > draft->limits->locations)
		return draft__refuse(draft, "more addresses than any profile has");
	/* the memory that the stack takes in draft->stacks: its addresses, and two slots, because
	 * half of the slots stay empty */
	if (draft__take(draft, n * sizeof(*addrs) + 2 * sizeof(struct intern_slot)) ||
	    draft__take(draft, sizeof(*profile->sites)) ||
	    draft__take(draft, n * sizeof(uint32_t)) ||
	    draft__take(draft, (profile->n_locations - n_locations) *
				       (sizeof(*profile->locations) + 2 * INDEX_BYTES)))
		return -EFBIG;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		profile->sites[*ret_site].survival[i] = profile->sites[*ret_site].older[i] = NAN;
	profile->sites[*ret_site].growth.low = profile->sites[*ret_site].growth.high = NAN;
	profile->sites[*ret_site].freed_objects = profile->sites[*ret_site].freed_bytes = NAN;
	return 0;
}

int draft__name(struct draft *draft, const char *name, size_t len, uint64_t *ret_addr)
{
	uint32_t number;
	int rc;

	len = len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES;
	rc = intern__add(&draft->names, name, len, &number);
	if (rc < 0)
		return rc;
	if (number >= draft->limits->items)
		return draft__refuse(draft, "more functions than any profile has");
	if (rc && draft__take(draft, len + 2 * sizeof(struct intern_slot)))
		return -EFBIG;
	*ret_addr = PROFILE_NO_ADDR + number;
	return 0;
}

/* Adds a value to a sum over all stacks. False: the value or the sum is impossible. */
static bool add_up(double *sum, double value)
{
	*sum += value;
	return value >= 0 && *sum <= MAX_VALUE;
}

int draft__add(struct draft *draft, size_t index, const struct estimate *live, double alloc_objects,
	       double alloc_bytes)
{
	struct profile_site *site = &draft->profile->sites[index];

	if (!add_up(&draft->sums.objects, live->objects) ||
	    !add_up(&draft->sums.bytes, live->bytes) ||
	    !add_up(&draft->sums.samples, (double)live->samples) ||
	    !add_up(&draft->sums.sampled_bytes, (double)live->sampled_bytes) ||
	    !add_up(&draft->sums.alloc_objects, alloc_objects) ||
	    !add_up(&draft->sums.alloc_bytes, alloc_bytes))
		return draft__refuse(
			draft,
			"up to here it counts more than 2^62 objects or bytes: no machine has "
			"them");
	estimate__merge(&site->live, live);
	site->alloc_objects += alloc_objects;
	site->alloc_bytes += alloc_bytes;
	return 0;
}

int draft__thread(struct draft *draft, uint64_t tid, const char *name, size_t *ret_thread)
{
	struct profile *profile = draft->profile;
	size_t n = profile->n_threads;
	int rc;

	if (tid >= FIRST_OWN_TID) {
		char key[sizeof(tid) + sizeof(profile->threads->name)] = "";
		uint32_t number;

		memcpy(key, &tid, sizeof(tid));
		if (tid == NO_TID)
			memcpy(key + sizeof(tid), name,
			       strnlen(name, sizeof(profile->threads->name)));
		rc = intern__add(&draft->threads, key, sizeof(key), &number);
		if (rc < 0)
			return rc;
		if (number >= draft->limits->items)
			return draft__refuse(draft, "more threads than any profile has");
		tid = FIRST_OWN_TID + number;
	}
	rc = profile__add_thread(profile, (uint32_t)tid, name, ret_thread);
	if (rc || profile->n_threads == n)
		return rc;
	if (profile->n_threads > draft->limits->items)
		return draft__refuse(draft, "more threads than any profile has");
	return draft__take(draft, sizeof(*profile->threads) + 2 * INDEX_BYTES +
					  2 * sizeof(struct intern_slot));
}

int draft__held(struct draft *draft, size_t site, size_t thread, double objects, double bytes)
{
	/* Several entries for one site and thread are all counted, because this function does not
	 * know whether an entry is new. */
	if (++draft->n_held > draft->limits->items)
		return draft__refuse(draft,
				     "more shares of threads in stacks than any profile has");
	if (draft__take(draft, 2 * sizeof(struct profile_site_thread) + 2 * INDEX_BYTES))
		return -EFBIG;
	return profile__add_held(draft->profile, site, thread, objects, bytes);
}

int draft__mapping(struct draft *draft, const struct profile_mapping *mapping)
{
	if (draft->profile->n_mappings >= draft->limits->items)
		return draft__refuse(draft, "more mappings than any profile has");
	if (draft__take(draft, sizeof(*mapping)) || draft__take(draft, strlen(mapping->path) + 1) ||
	    (mapping->build_id && draft__take(draft, strlen(mapping->build_id) + 1)))
		return -EFBIG;
	return profile__add_mapping(draft->profile, mapping);
}

struct estimate unsampled(double n, double s, uint64_t interval)
{
	double x = s / n, p, w;

	if (!(n > 0))
		return (struct estimate){};
	/* Blocks of 0 bytes are never sampled, so their number cannot be scaled up. */
	if (!interval || !(x > 0))
		return (struct estimate){.objects = n, .bytes = s, .squares = s * x};
	p = -expm1(-x / (double)interval);
	w = interval > 1 ? x / p * (x / p) * exp(-x / (double)interval) : 0;
	return (struct estimate){.samples = (uint64_t)fmin(n, 0x1p62),
				 .sampled_bytes = (uint64_t)fmin(s, 0x1p62),
				 .objects = n / p,
				 .bytes = s / p,
				 .variance = n * w,
				 .variance_max = w,
				 .squares = n * (x / p) * (x / p)};
}

/* Gives the location one frame of that name, and counts the memory for it. */
static int set_name(struct draft *draft, struct profile_location *location, const char *name)
{
	if (draft__take(draft, sizeof(*location->frames)) || draft__take(draft, strlen(name) + 1))
		return -EFBIG;
	return profile_location__set_name(location, name);
}

int draft__name_by_offset(struct draft *draft, struct profile_location *location, const char *path,
			  uint64_t off)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	_cleanup_free_ char *name = NULL;
	int rc;

	if (path && path[0] != '[' && slash && slash[1])
		path = slash + 1;
	if (path && *path)
		rc = asprintf(&name, "%.*s+0x%" PRIx64, MAX_NAME_BYTES, path, off);
	else
		rc = asprintf(&name, "0x%" PRIx64, off);
	if (rc < 0) {
		name = NULL;
		return -ENOMEM;
	}
	return set_name(draft, location, name);
}

int draft__sort(struct draft *draft)
{
	struct profile *profile = draft->profile;
	int rc = profile__sort(profile);

	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		struct profile_location *location = &profile->locations[i];
		_cleanup_free_ char *name = NULL;
		const char *text;
		size_t len;

		if (location->addr < PROFILE_NO_ADDR ||
		    location->addr - PROFILE_NO_ADDR >= draft->names.n)
			continue;
		text = intern__get(&draft->names, (uint32_t)(location->addr - PROFILE_NO_ADDR),
				   &len);
		name = strndup(text, len);
		rc = name ? set_name(draft, location, name) : -ENOMEM;
		location->reason = UNRESOLVED_NAMED;
	}
	return rc;
}

static int name_unnamed(struct draft *draft, struct profile_location *location)
{
	const struct profile_mapping *mapping =
		location->mapping < 0 ? NULL : &draft->profile->mappings[location->mapping];
	uint64_t addr = location->addr - 1;

	location->reason = !mapping		   ? UNRESOLVED_NO_MAPPING
			   : *mapping->path == '/' ? UNRESOLVED_NO_SYMBOLS
						   : UNRESOLVED_NOT_A_FILE;
	if (mapping && *mapping->path)
		return draft__name_by_offset(draft, location, mapping->path,
					     addr - mapping->start + mapping->off);
	return draft__name_by_offset(draft, location, NULL, addr);
}

/* Does the file lack figures of allocated memory? memtrace's own file of a run that sampled nothing
 * has these figures: they are 0. (A filtered file may lack them: filters may leave out all memory,
 * and the allocated figures, too.) */
static bool lacks_allocated(const struct draft *draft)
{
	const struct profile *profile = draft->profile;
	bool own_run = (profile->own_version && profile->mode && !profile__is_filtered(profile)) ||
		       profile->part == PART_CHANGE;

	if (draft->sums.alloc_objects + draft->sums.alloc_bytes > 0)
		return false;
	return !own_run || draft->sums.objects + draft->sums.bytes > 0;
}

int draft__finish(struct draft *draft)
{
	struct profile *profile = draft->profile;
	struct profile_extent written;
	int rc = 0;

	for (size_t i = 0; i < profile->n_locations && !rc; i++)
		if (!profile->locations[i].n_frames)
			rc = name_unnamed(draft, &profile->locations[i]);
	if (rc)
		return rc;
	profile->no_allocated = lacks_allocated(draft);
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		/* the file has no allocated amounts, so the least possible amounts are taken: the
		 * live amounts */
		if (profile->no_allocated) {
			site->alloc_objects = site->live.objects;
			site->alloc_bytes = site->live.bytes;
		}
		/* A file lacks the sum of squares if readers can compute it from the other figures.
		 * It is computed here, for each stack by itself. It cannot be computed for several
		 * stacks together: if the sums of some stacks were known, they would be taken for
		 * the sum of all stacks. */
		if (!(site->live.squares > 0))
			site->live.squares = estimate__squares(&site->live);
		if (!profile->no_allocated && !isnan(site->freed_bytes))
			continue; /* the file has figures of freed memory */
		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
	}
	rc = profile__written(profile, false, &written);
	if (!rc && (written.frames > draft->limits->written_frames ||
		    written.bytes > draft->limits->written_bytes))
		rc = draft__refuse(draft, "its stacks, written out, are longer than any profile's");
	return rc;
}

/* --- files --- */

/* Unpacks a gzip file, which may consist of several gzip files, one after the other. */
static int unpack(const struct input *in, char **ret_bytes, size_t *ret_len)
{
	z_stream zip = {.next_in = (Bytef *)in->bytes, .avail_in = (uInt)in->len};
	_cleanup_free_ char *bytes = NULL;
	size_t room = 0, len = 0;
	int rc = inflateInit2(&zip, MAX_WBITS + 16);

	while (rc == Z_OK) {
		if (len == room) {
			char *bigger;

			room = room ? 2 * room : 4 * in->len + 4096;
			if (room > DECODE_MAX_BYTES + 1)
				room = DECODE_MAX_BYTES + 1;
			bigger = len < room ? realloc(bytes, room) : NULL;
			if (!bigger) {
				inflateEnd(&zip);
				return len < room ? -ENOMEM
						  : error__set(in->err, -EFBIG,
							       "%s: more than %u MiB when unpacked",
							       in->name, DECODE_MAX_BYTES >> 20);
			}
			bytes = bigger;
		}
		zip.next_out = (Bytef *)bytes + len;
		zip.avail_out = (uInt)(room - len);
		rc = inflate(&zip, Z_NO_FLUSH);
		len = room - zip.avail_out;
		if (rc == Z_STREAM_END && zip.avail_in)
			rc = inflateReset(&zip);
		else if (rc == Z_BUF_ERROR && !zip.avail_out)
			rc = Z_OK;
	}
	inflateEnd(&zip);
	if (rc == Z_MEM_ERROR)
		return -ENOMEM;
	if (rc == Z_BUF_ERROR)
		return input__bad_byte(in, -EINVAL, in->len,
				       "the gzip stream was cut short: its end is missing");
	if (rc != Z_STREAM_END)
		return input__bad_byte(in, -EINVAL, in->len - zip.avail_in,
				       "the gzip stream is broken: %s",
				       zip.msg ? zip.msg : "it needs a dictionary");
	*ret_bytes = bytes;
	*ret_len = len;
	bytes = NULL;
	return 0;
}

static bool is_gzip(const struct input *in)
{
	return in->len >= 2 && !memcmp(in->bytes, "\x1f\x8b", 2);
}

/* Is the file text? A binary file, such as one of pprof, has a byte near its start that no text
 * has. */
static bool is_text(const struct input *in)
{
	size_t n = in->len < LOOK_AT ? in->len : LOOK_AT;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)in->bytes[i];

		if (c < ' ' && c != '\t' && c != '\n' && c != '\r')
			return false;
	}
	return true;
}

static int decode_content(const struct input *in, struct draft *draft)
{
	static const char *const heads[] = {"heap_v2/", "heap profile:", "--- symbol"};
	const struct line all = {.text = in->bytes, .len = in->len};

	if (!in->len)
		return error__set(in->err, -EINVAL, "%s: is empty", in->name);
	/* Only the beginning of the text decides. So a damaged heap profile is read as a heap
	 * profile, and the error says where the damage is. */
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (line__starts(&all, heads[i]))
			return decode_heap(in, draft);
	return is_text(in) ? decode_collapsed(in, draft) : decode_pprof(in, draft);
}

static int decode(const struct decode_limits *limits, const struct input *in,
		  struct profile **ret_profile)
{
	_cleanup_(cleanup_profile) struct profile *profile = profile__new();
	struct draft draft = {.profile = profile, .limits = limits};
	int rc = profile ? 0 : -ENOMEM;

	if (!rc) {
		pprof_facts__clear(profile);
		rc = decode_content(in, &draft);
	}
	if (!rc)
		rc = draft__finish(&draft);
	draft__clear(&draft);
	if (rc == -ENOMEM)
		error__set(in->err, rc, "%s: out of memory", in->name);
	else if (rc) /* if in->err is set already, error__set() does not change it */
		error__set(in->err, rc, "%s: %s", in->name, draft.why ? draft.why : strerror(-rc));
	if (rc)
		return rc;
	*ret_profile = profile;
	profile = NULL;
	return 0;
}

int decode_within(const struct decode_limits *limits, const char *name, const void *data,
		  size_t len, struct profile **ret_profile, struct error *err)
{
	struct error own = {};
	struct input in = {.name = name, .bytes = data, .len = len, .err = err ? err : &own};
	_cleanup_free_ char *bytes = NULL;
	int rc;

	if (len > DECODE_MAX_BYTES)
		return error__set(err, -EFBIG, "%s: more than %u MiB", name,
				  DECODE_MAX_BYTES >> 20);
	if (is_gzip(&in)) {
		rc = unpack(&in, &bytes, &in.len);
		if (rc)
			return rc == -ENOMEM ? error__set(err, rc, "%s: out of memory", name) : rc;
		in.bytes = bytes;
		in.packed = true;
	}
	return decode(limits, &in, ret_profile);
}

int decode_bytes(const char *name, const void *data, size_t len, struct profile **ret_profile,
		 struct error *err)
{
	return decode_within(&decode_limits, name, data, len, ret_profile, err);
}

int decode_file(const char *path, struct profile **ret_profile, struct error *err)
{
	bool standard = !strcmp(path, "-");
	const char *name = standard ? "standard input" : path;
	_cleanup_close_ int opened = -1;
	_cleanup_free_ char *bytes = NULL;
	int fd = STDIN_FILENO, rc;
	size_t len = 0;

	if (!standard) {
		fd = opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			return error__set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	}
	rc = io__read_all(fd, DECODE_MAX_BYTES, &bytes, &len);
	if (rc == -EFBIG)
		return error__set(err, rc, "%s: more than %u MiB", name, DECODE_MAX_BYTES >> 20);
	if (rc)
		return error__set(err, rc, "cannot read %s: %s", name, strerror(-rc));
	rc = decode_bytes(name, bytes, len, ret_profile, err);
	if (rc)
		return rc;
	(*ret_profile)->file = profile__keep(*ret_profile, name);
	if (!(*ret_profile)->file) {
		profile__free(*ret_profile);
		*ret_profile = NULL;
		return error__set(err, -ENOMEM, "%s: no memory", name);
	}
	return 0;
}
