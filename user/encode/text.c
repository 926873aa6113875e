// SPDX-License-Identifier: BSD-2-Clause
#include "encode/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "encode/encode.h"

/* If a process uses less than this share of a core, its cost may be limited to a share of a core
 * (pace/windows.h). */
#define LITTLE_CPU 0.5
#define DEAR_PCT   1 /* per cent of CPU time; a lower cost is not put as a share of a core */

size_t utf8_next(const char *text, uint32_t *ret_code)
{
	const unsigned char *p = (const unsigned char *)text;
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t code;
	size_t len;

	if (*p < 0x80) {
		*ret_code = *p;
		return *p ? 1 : 0;
	}
	if (*p >= 0xc0 && *p < 0xe0)
		len = 2;
	else if (*p >= 0xe0 && *p < 0xf0)
		len = 3;
	else if (*p >= 0xf0 && *p < 0xf8)
		len = 4;
	else
		return 0;
	code = *p & (0xff >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80) /* also returns 0 at the NUL that ends the text */
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	*ret_code = code;
	return len;
}

bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
	       (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

char *text_printable(const char *text)
{
	_cleanup_free_ char *out = malloc(strlen(text) + 1);
	size_t n = 0;

	if (!out)
		return NULL;
	while (*text) {
		uint32_t code;
		size_t len = utf8_next(text, &code);

		if (!len || is_control(code)) {
			out[n++] = '?';
			text += len ? len : 1;
		} else {
			memcpy(out + n, text, len);
			n += len;
			text += len;
		}
	}
	out[n] = '\0';
	return_ptr(out);
}

char *text_profile_name(const struct profile *profile)
{
	if (*profile->comm)
		return text_printable(profile->comm);
	return text_printable(profile->file ? base_name(profile->file) : "?");
}

size_t text_columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* Returns a copy of a C++ name without its template arguments: a<b<c>>::d -> a<..>::d. */
static char *elide_arguments(const char *name)
{
	size_t depth = 0;
	char *out, *to;

	if (strstr(name, "operator")) /* in an operator's name, '<' need not open arguments */
		return strdup(name);
	to = out = malloc(4 * strlen(name) + 1); /* "<" may become "<..>" */
	if (!out)
		return NULL;
	for (; *name; name++) {
		if (!depth && !strncmp(name, "<>", 2)) { /* no arguments */
			to = stpcpy(to, "<>");
			name++;
		} else if (*name == '<') {
			if (!depth++)
				to = stpcpy(to, "<..>");
		} else if (*name == '>' && depth) {
			depth--;
		} else if (!depth) {
			*to++ = *name;
		}
	}
	*to = '\0';
	return out;
}

static const char *skip_columns(const char *text, size_t columns)
{
	while (columns-- && *text) {
		do
			text++;
		while ((*text & 0xc0) == 0x80);
	}
	return text;
}

char *text_shorten(const char *name, size_t max)
{
	_cleanup_free_ char *elided = NULL;
	size_t columns, head = (max - 2) / 2, tail = max - 2 - head;
	char *out;

	if (text_columns(name) <= max)
		return strdup(name);
	elided = elide_arguments(name);
	if (!elided)
		return NULL;
	columns = text_columns(elided);
	if (columns <= max)
		return_ptr(elided);
	if (asprintf(&out, "%.*s..%s", (int)(skip_columns(elided, head) - elided), elided,
		     skip_columns(elided, columns - tail)) < 0)
		return NULL;
	return out;
}

char *text_unqualified(const char *name, size_t max)
{
	_cleanup_free_ char *elided = elide_arguments(name);
	const char *part = elided, *end, *next;
	size_t columns;

	if (!elided)
		return NULL;
	columns = text_columns(elided);
	/* behind "operator", "::" may belong to the name of a type */
	end = strstr(elided, "operator");
	while (columns > max && (next = strstr(part, "::")) && (!end || next < end)) {
		for (next += 2; part < next; part++)
			columns -= (*part & 0xc0) != 0x80;
	}
	return strdup(part);
}

const char *frame_walk__next(struct frame_walk *walk)
{
	const struct profile_location *location;

	if (walk->location >= walk->site->n_locations)
		return NULL;
	location = profile__location(walk->profile, walk->site, walk->location);
	if (walk->slots)
		walk->slot =
			walk->slots->first[walk->site->locations[walk->location]] + walk->index;
	walk->frame = walk->index < location->n_frames ? &location->frames[walk->index] : NULL;
	if (++walk->index >= location->n_frames) {
		walk->location++;
		walk->index = 0;
	}
	if (walk->frame && *walk->frame->name)
		return walk->frame->name;
	snprintf(walk->buf, sizeof(walk->buf), "0x%" PRIx64, location->addr - 1);
	return walk->buf;
}

uint32_t first_frame(const struct profile *profile, const struct profile_site *site)
{
	static const char plumbing[] = "operator new";
	uint32_t first = 0, n = site->n_locations;
	const char *name;

	/* If a stack has only allocator frames, its last one is shown. A view's notes are not
	 * frames. */
	while (n && profile__location(profile, site, n - 1)->note)
		n--;
	/* in profiles of faults, the leaf itself touched the memory */
	if (profile->leaf_holds || profile__is_faults(profile))
		return 0;
	do {
		if (first + 1 >= n)
			break;
		name = profile_location__function(profile__location(profile, site, ++first));
	} while (name && !strncmp(name, plumbing, sizeof(plumbing) - 1) &&
		 strchr("[(", name[sizeof(plumbing) - 1]));
	return first;
}

uint64_t to_integer(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p63 ? (uint64_t)llround(value) : UINT64_MAX / 2;
}

double scale_bytes(double bytes, const char **ret_unit, double *ret_divisor)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double divisor = 1;
	size_t unit = 0;

	/* A number that would be printed as 1024.0 is shown in the next unit. */
	while (unit < 6 && fabs(bytes / divisor) >= (unit ? 1023.95 : 1023.5)) {
		divisor *= 1024;
		unit++;
	}
	*ret_unit = units[unit];
	if (ret_divisor)
		*ret_divisor = divisor;
	return bytes / divisor;
}

void put_samples_per(uint64_t finest, uint64_t asked, uint64_t interval, struct sink *sink)
{
	const char *unit;
	double size;

	sink__puts(sink, "one sample per ");
	if (finest || asked) {
		size = scale_bytes((double)(finest ?: asked), &unit, NULL);
		sink__printf(sink, "%.4g %s to ", size, unit);
	}
	size = scale_bytes((double)interval, &unit, NULL);
	sink__printf(sink, "%.4g %s%s", size, unit, asked ? " (to keep the limit)" : "");
}

const char *sampled_word(const struct profile *profile)
{
	if (profile->sampled_by_target)
		return "that the program took itself";
	return profile->alloc_calls == 1 ? "allocation" : "allocations";
}

const char *format_bytes(double bytes, char *buf)
{
	const char *unit;
	double value;

	if (!isfinite(bytes))
		return strcpy(buf, "?");
	value = scale_bytes(bytes, &unit, NULL);
	/* %.3g, because impossible values such as 1e30 must fit into 16 bytes as well. */
	if (fabs(value) >= 1e6)
		snprintf(buf, 16, "%.3g %s", value, unit);
	else
		snprintf(buf, 16, "%.*f %s", *unit == 'B' ? 0 : 1, value, unit);
	return buf;
}

const char *format_change(double bytes, char *buf)
{
	char size[16];

	snprintf(buf, 20, "%s%s",
		 bytes > 0   ? "+"
		 : bytes < 0 ? "-"
			     : "",
		 format_bytes(fabs(bytes), size));
	return buf;
}

void format_interval(struct interval interval, char *buf, size_t size)
{
	const char *unit;
	double divisor, high = scale_bytes(interval.high, &unit, &divisor);
	int decimals = *unit == 'B' ? 0 : 1;

	snprintf(buf, size, "%.*f - %.*f %s", decimals, interval.low / divisor, decimals, high,
		 unit);
}

void format_range(double low, double high, char *buf, size_t size)
{
	const char *unit;
	double divisor;
	int decimals;

	*buf = '\0';
	if (!isfinite(low) || !isfinite(high) || low == high)
		return;
	scale_bytes(fmax(fabs(low), fabs(high)), &unit, &divisor);
	decimals = *unit == 'B' ? 0 : 1;
	snprintf(buf, size, "%+.*f to %+.*f %s", decimals, low / divisor, decimals, high / divisor,
		 unit);
}

bool format_cost(double overhead_pct, double cpu_cores, char buf[32])
{
	bool of_a_core = overhead_pct >= DEAR_PCT && cpu_cores > 0 && cpu_cores < LITTLE_CPU;
	double pct = of_a_core ? overhead_pct * cpu_cores : overhead_pct;

	snprintf(buf, 32, "%.*f %%%s",
		 of_a_core && pct < 1 ? 2
		 : pct < 10	      ? 1
				      : 0,
		 pct, of_a_core ? " of a core" : "");
	return of_a_core;
}

const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

const char *with_commas(uint64_t value, char *buf)
{
	char digits[24], *to = buf;
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return buf;
}
