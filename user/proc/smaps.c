// SPDX-License-Identifier: BSD-2-Clause
/* The head of a mapping is the same line as in /proc/PID/maps. Lines "Name:   12 kB" follow, and
 * other lines that are not needed here. A head begins with a digit or a lower-case letter, every
 * other line with a capital letter. */
#include "proc/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "proc/process.h"

/* a path has at most 4 KiB, and the kernel writes each newline as four characters */
#define LINE_MAX_BYTES (64 << 10)

struct smaps_reader {
	smaps_fn fn;
	void *ctx;
	struct smaps_entry entry;
	bool open;    /* `entry` is a mapping for which fn was not called yet */
	uint64_t end; /* end of the last mapping */
	uint64_t skipped;
};

static int tell(struct smaps_reader *r)
{
	int rc = r->open ? r->fn(r->ctx, &r->entry) : 0;

	free(r->entry.map.path);
	r->entry = (struct smaps_entry){};
	r->open = false;
	return rc;
}

static int take_head(struct smaps_reader *r, const char *line, size_t len)
{
	int rc = tell(r);

	if (rc)
		return rc;
	rc = maps__parse_line(line, len, &r->entry.map);
	if (rc == -EINVAL) {
		r->skipped++;
		return 0;
	}
	if (rc)
		return rc;
	/* The kernel lists mappings by ascending address, even if the process changes them
	 * meanwhile. */
	r->open = r->entry.map.start >= r->end;
	if (r->open)
		r->end = r->entry.map.end;
	else
		r->skipped++;
	return 0;
}

/* Parses "       12 kB". */
static bool parse_kilobytes(const char *text, const char *end, uint64_t *ret)
{
	uint64_t value = 0;
	const char *digits;

	while (text < end && *text == ' ')
		text++;
	for (digits = text; text < end && *text >= '0' && *text <= '9'; text++) {
		if (value > UINT64_MAX / 1024 / 10 - 1)
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	*ret = 1024 * value;
	return text > digits && end - text == 3 && !memcmp(text, " kB", 3);
}

static void take_number(struct smaps_reader *r, const char *line, size_t len)
{
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
		{"Rss:", offsetof(struct smaps_entry, rss)},
		{"Anonymous:", offsetof(struct smaps_entry, anonymous)},
		{"AnonHugePages:", offsetof(struct smaps_entry, huge)},
		{"Swap:", offsetof(struct smaps_entry, swap)},
		{"Shared_Hugetlb:", offsetof(struct smaps_entry, hugetlb)},
		{"Private_Hugetlb:", offsetof(struct smaps_entry, hugetlb)},
	};

	for (size_t i = 0; r->open && i < sizeof(fields) / sizeof(*fields); i++) {
		size_t n = strlen(fields[i].name);
		uint64_t *field = (uint64_t *)((char *)&r->entry + fields[i].at), bytes;

		if (len < n || memcmp(line, fields[i].name, n))
			continue;
		/* no field may be larger than the mapping, so sums of fields cannot overflow */
		if (parse_kilobytes(line + n, line + len, &bytes) &&
		    bytes <= r->entry.map.end - r->entry.map.start - *field)
			*field += bytes;
		else
			r->skipped++;
		return;
	}
}

static int take_line(struct smaps_reader *r, const char *line, size_t len)
{
	if (len && *line >= 'A' && *line <= 'Z') {
		take_number(r, line, len);
		return 0;
	}
	return take_head(r, line, len);
}

int smaps__read_fd(int fd, smaps_fn fn, void *ctx, uint64_t *ret_skipped)
{
	struct smaps_reader r = {.fn = fn, .ctx = ctx};
	_cleanup_free_ char *text = malloc(LINE_MAX_BYTES);
	bool overlong = false; /* the rest of the current line must be skipped */
	size_t have = 0;
	ssize_t n = 1;
	int rc = text ? 0 : -ENOMEM;

	while (!rc && n) {
		char *line = text, *newline;

		n = io__read(fd, text + have, LINE_MAX_BYTES - have);
		if (n < 0) {
			rc = (int)n;
			break;
		}
		have += (size_t)n;
		while (!rc && (newline = memchr(line, '\n', have))) {
			if (!overlong)
				rc = take_line(&r, line, (size_t)(newline - line));
			overlong = false;
			have -= (size_t)(newline + 1 - line);
			line = newline + 1;
		}
		if (have == LINE_MAX_BYTES ||
		    (!n && have)) { /* a line without a newline tells nothing of a mapping */
			if (!rc)
				rc = tell(&r);
			r.skipped += !overlong;
			overlong = true;
			have = 0;
		}
		memmove(text, line, have);
	}
	if (!rc)
		rc = tell(&r);
	free(r.entry.map.path);
	*ret_skipped = r.skipped;
	return rc;
}

int smaps__read(pid_t pid, smaps_fn fn, void *ctx, uint64_t *ret_skipped)
{
	_cleanup_close_ int fd = process__open(pid, "smaps", O_RDONLY);

	if (fd < 0)
		return fd;
	return smaps__read_fd(fd, fn, ctx, ret_skipped);
}
