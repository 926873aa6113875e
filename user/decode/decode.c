// SPDX-License-Identifier: BSD-2-Clause
/* Which format it is, and what all of them need. */
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

#define LOOK_AT 65536 /* bytes that tell text from what is none */

DEFINE_CLEANUP(struct profile *, cleanup_profile, profile__free)

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

char *offset_name(const char *path, uint64_t off)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char *name;
	int rc;

	if (path && path[0] != '[' && slash && slash[1])
		path = slash + 1;
	if (path && *path)
		rc = asprintf(&name, "%.*s+0x%" PRIx64, MAX_NAME_BYTES, path, off);
	else
		rc = asprintf(&name, "0x%" PRIx64, off);
	return rc < 0 ? NULL : name;
}

/* --- the profile --- */

void making__clear(struct making *making)
{
	intern__clear(&making->stacks);
	intern__clear(&making->names);
	intern__clear(&making->threads);
}

int making__site(struct making *making, const uint64_t *addrs, size_t n, size_t *ret_site)
{
	struct profile *profile = making->profile;
	uint32_t number;
	int rc;

	if (n > MAX_STACK_FRAMES)
		return -EFBIG;
	rc = intern__add(&making->stacks, addrs, n * sizeof(*addrs), &number);
	if (rc < 0)
		return rc;
	*ret_site = number;
	if (!rc)
		return 0;
	making->n_frames += n;
	if (making->n_frames > MAX_FRAMES || number >= MAX_ITEMS)
		return -EFBIG;
	rc = profile__add_site(profile, addrs, n, false, ret_site);
	if (rc)
		return rc;
	if (profile->n_locations > MAX_LOCATIONS)
		return -EFBIG;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		profile->sites[*ret_site].survival[i] = profile->sites[*ret_site].older[i] = NAN;
	profile->sites[*ret_site].growth.low = profile->sites[*ret_site].growth.high = NAN;
	return 0;
}

int making__name(struct making *making, const char *name, size_t len, uint64_t *ret_addr)
{
	uint32_t number;
	int rc;

	len = len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES;
	rc = intern__add(&making->names, name, len, &number);
	if (rc < 0)
		return rc;
	if (number >= MAX_ITEMS || (rc && making__take_text(making, len)))
		return -EFBIG;
	*ret_addr = PROFILE_NO_ADDR + number;
	return 0;
}

int making__take_text(struct making *making, size_t len)
{
	making->n_text += len + 1;
	return making->n_text > MAX_TEXT ? -EFBIG : 0;
}

struct estimate unsampled(double n, double s, uint64_t interval)
{
	double x = s / n, p, w;

	if (!(n > 0))
		return (struct estimate){};
	/* A mean of no bytes has no probability; such blocks are as many as they are. */
	if (!interval || !(x > 0))
		return (struct estimate){.objects = n, .bytes = s};
	p = -expm1(-x / (double)interval);
	w = interval > 1 ? x / p * (x / p) * exp(-x / (double)interval) : 0;
	return (struct estimate){.samples = (uint64_t)fmin(n, 0x1p62),
				 .sampled_bytes = (uint64_t)fmin(s, 0x1p62),
				 .objects = n / p,
				 .bytes = s / p,
				 .variance = n * w,
				 .variance_max = w};
}

int making__sort(struct making *making)
{
	struct profile *profile = making->profile;
	int rc = profile__sort(profile);

	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		struct profile_location *location = &profile->locations[i];
		_cleanup_free_ char *name = NULL;
		const char *text;
		size_t len;

		if (location->addr < PROFILE_NO_ADDR ||
		    location->addr - PROFILE_NO_ADDR >= making->names.n)
			continue;
		text = intern__get(&making->names, (uint32_t)(location->addr - PROFILE_NO_ADDR),
				   &len);
		name = strndup(text, len);
		rc = name ? profile_location__set_name(location, name) : -ENOMEM;
		location->reason = UNRESOLVED_NAMED;
	}
	return rc;
}

static int name_by_offset(const struct profile *profile, struct profile_location *location)
{
	const struct profile_mapping *mapping =
		location->mapping < 0 ? NULL : &profile->mappings[location->mapping];
	uint64_t addr = location->addr - 1;
	_cleanup_free_ char *name = NULL;

	location->reason = !mapping		   ? UNRESOLVED_NO_MAPPING
			   : *mapping->path == '/' ? UNRESOLVED_NO_SYMBOLS
						   : UNRESOLVED_NOT_A_FILE;
	name = mapping && *mapping->path
		       ? offset_name(mapping->path, addr - mapping->start + mapping->off)
		       : offset_name(NULL, addr);
	return name ? profile_location__set_name(location, name) : -ENOMEM;
}

int making__finish(struct making *making)
{
	struct profile *profile = making->profile;
	_cleanup_free_ uint32_t *lengths = calloc(profile->n_locations + 1, sizeof(*lengths));
	double allocated = 0;
	uint64_t total = 0;

	if (!lengths)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_locations; i++) {
		struct profile_location *location = &profile->locations[i];

		if (!location->n_frames && name_by_offset(profile, location))
			return -ENOMEM;
		for (size_t k = 0; k < location->n_frames; k++)
			lengths[i] += (uint32_t)strlen(location->frames[k].name) + 1;
	}
	for (size_t i = 0; i < profile->n_sites; i++)
		allocated += profile->sites[i].alloc_objects + profile->sites[i].alloc_bytes;
	profile->no_allocated = !(allocated > 0);
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		for (uint32_t k = 0; k < site->n_locations; k++)
			total += lengths[site->locations[k]];
		if (profile->no_allocated) { /* the file does not say; what lives was, at least */
			site->alloc_objects = site->live.objects;
			site->alloc_bytes = site->live.bytes;
		}
		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
	}
	return total > MAX_STACK_TEXT ? -EFBIG : 0;
}

/* --- files --- */

/* Reads what can be read of fd. 0; negative errno, -EFBIG for too much. */
static int read_all(int fd, char **ret_bytes, size_t *ret_len)
{
	_cleanup_free_ char *bytes = NULL;
	size_t room = 1 << 16, len = 0;

	for (;;) {
		char *bigger = realloc(bytes, room);
		ssize_t n;

		if (!bigger)
			return -ENOMEM;
		bytes = bigger;
		n = io__read(fd, bytes + len, room - len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
		if (len < room)
			break;
		if (len > DECODE_MAX_BYTES)
			return -EFBIG;
		room *= 2;
	}
	*ret_bytes = bytes;
	*ret_len = len;
	bytes = NULL;
	return 0;
}

/* What a gzip file holds, which may be several of them one after the other. */
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

/* Binary files, pprof's among them, soon have a byte that no text has. */
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

static int decode_content(const struct input *in, struct making *making)
{
	static const char *const heads[] = {"heap_v2/", "heap profile:", "--- symbol"};
	struct line first = {};

	if (!is_text(in))
		return decode_pprof(in, making);
	if (!input__next_line(in, &first))
		return error__set(in->err, -EINVAL, "%s: is empty", in->name);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (line__starts(&first, heads[i]))
			return decode_heap(in, making);
	return decode_collapsed(in, making);
}

static int decode(const struct input *in, struct profile **ret_profile)
{
	_cleanup_(cleanup_profile) struct profile *profile = profile__new();
	struct making making = {.profile = profile};
	int rc = profile ? 0 : -ENOMEM;

	if (!rc) {
		pprof_facts__clear(profile);
		rc = decode_content(in, &making);
	}
	if (!rc)
		rc = making__finish(&making);
	making__clear(&making);
	if (rc == -ENOMEM)
		error__set(in->err, rc, "%s: out of memory", in->name);
	else if (rc) /* unless it is said already */
		error__set(in->err, rc,
			   "%s: larger than any profile: too many stacks, or names too long",
			   in->name);
	if (rc)
		return rc;
	*ret_profile = profile;
	profile = NULL;
	return 0;
}

int decode_bytes(const char *name, const void *data, size_t len, struct profile **ret_profile,
		 struct error *err)
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
	}
	return decode(&in, ret_profile);
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
	rc = read_all(fd, &bytes, &len);
	if (rc == -EFBIG)
		return error__set(err, rc, "%s: more than %u MiB", name, DECODE_MAX_BYTES >> 20);
	if (rc)
		return error__set(err, rc, "cannot read %s: %s", name, strerror(-rc));
	return decode_bytes(name, bytes, len, ret_profile, err);
}
