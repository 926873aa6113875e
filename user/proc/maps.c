// SPDX-License-Identifier: BSD-2-Clause
/* /proc/PID/maps: one line for each mapping,
 *
 *	7f12a000-7f12c000 r-xp 00002000 fe:01 1234   /usr/lib/libc.so.6
 *
 * The kernel writes the numbers, but whoever named the file chose the path. In a path, the kernel
 * escapes only the newline (\012), not even the backslash. So a file whose name really holds "\012"
 * looks as if its name held a newline. In the same way, a file really called "x (deleted)" looks
 * like a deleted file x. A path is therefore only a hint for people. The device and inode numbers
 * tell which file is meant, and maps__open_file() trusts only these numbers. */
#include "proc/maps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/far.h"
#include "base/io.h"
#include "base/search.h"
#include "base/vector.h"
#include "proc/process.h"

/* bytes. A text of 65,530 mappings (the default vm.max_map_count) with the longest paths fits. A
 * longer text counts as an attempt to use up memtrace's memory. */
#define MAPS_TEXT_MAX (512u << 20)

static const char deleted_suffix[] = " (deleted)";

struct cursor {
	const char *pos, *end;
};

/* Parses an unsigned number as the kernel writes it: no sign, no blank, lower-case hex. */
static bool take_number(struct cursor *in, unsigned int base, uint64_t *ret)
{
	const char *start = in->pos;
	uint64_t value = 0;

	for (; in->pos < in->end; in->pos++) {
		char c = *in->pos;
		unsigned int digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (base == 16 && c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else
			break;
		if (value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	*ret = value;
	return in->pos > start;
}

static bool take_char(struct cursor *in, char c)
{
	if (in->pos == in->end || *in->pos != c)
		return false;
	in->pos++;
	return true;
}

static bool take_perms(struct cursor *in, char perms[5])
{
	static const char *const allowed[] = {"r-", "w-", "x-", "sp"};

	if (in->end - in->pos < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = in->pos[i];

		if (c != allowed[i][0] && c != allowed[i][1])
			return false;
		perms[i] = c;
	}
	perms[4] = '\0';
	in->pos += 4;
	return true;
}

static char *copy_unescaped(const char *text, size_t len)
{
	char *copy = malloc(len + 1);
	size_t n = 0;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (len - i >= 4 && memcmp(text + i, "\\012", 4) == 0) {
			copy[n++] = '\n';
			i += 3;
		} else {
			copy[n++] = text[i];
		}
	}
	copy[n] = '\0';
	return copy;
}

int maps__parse_line(const char *line, size_t len, struct map_entry *ret)
{
	struct cursor in = {line, line + len};
	struct map_entry entry = {0};
	uint64_t major, minor;
	size_t path_len;

	if (memchr(line, '\0', len))
		return -EINVAL;
	if (!take_number(&in, 16, &entry.start) || !take_char(&in, '-') ||
	    !take_number(&in, 16, &entry.end) || !take_char(&in, ' ') ||
	    !take_perms(&in, entry.perms) || !take_char(&in, ' ') ||
	    !take_number(&in, 16, &entry.off) || !take_char(&in, ' ') ||
	    !take_number(&in, 16, &major) || !take_char(&in, ':') ||
	    !take_number(&in, 16, &minor) || !take_char(&in, ' ') ||
	    !take_number(&in, 10, &entry.file.inode))
		return -EINVAL;
	if (in.pos < in.end && *in.pos != ' ')
		return -EINVAL;
	if (entry.start >= entry.end || major > UINT32_MAX || minor > UINT32_MAX)
		return -EINVAL;

	while (take_char(&in, ' '))
		;
	path_len = in.end - in.pos;
	if (path_len > strlen(deleted_suffix) && *in.pos == '/' &&
	    memcmp(in.end - strlen(deleted_suffix), deleted_suffix, strlen(deleted_suffix)) == 0) {
		entry.deleted = true;
		path_len -= strlen(deleted_suffix);
	}
	entry.path = copy_unescaped(in.pos, path_len);
	if (!entry.path)
		return -ENOMEM;
	entry.file.dev_major = major;
	entry.file.dev_minor = minor;
	entry.executable = entry.perms[2] == 'x';
	if (!entry.file.inode && !strcmp(entry.path, "[vdso]"))
		entry.file = FILE_ID_VDSO;
	*ret = entry;
	return 0;
}

int maps__parse(const char *text, size_t len, struct maps *ret_maps, size_t *ret_skipped)
{
	struct maps maps = {0};
	size_t room = 0, skipped = 0;
	const char *end = text + len;

	while (text < end) {
		const char *newline = memchr(text, '\n', end - text);
		size_t line_len = (newline ? newline : end) - text;
		struct map_entry entry;
		int err;

		err = maps__parse_line(text, line_len, &entry);
		/* The kernel lists mappings by ascending address, even if the process changes them
		 * meanwhile. */
		if (!err && maps.n && entry.start < maps.entries[maps.n - 1].end) {
			free(entry.path);
			err = -EINVAL;
		}
		if (!err) {
			err = VECTOR_RESERVE(maps.entries, room, maps.n + 1);
			if (err)
				free(entry.path);
			else
				maps.entries[maps.n++] = entry;
		}
		if (err == -EINVAL) {
			skipped++;
		} else if (err) {
			maps__free(&maps);
			return err;
		}
		text += line_len + (newline ? 1 : 0);
	}
	*ret_maps = maps;
	if (ret_skipped)
		*ret_skipped = skipped;
	return 0;
}

int maps__read(pid_t pid, struct maps *ret_maps)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = process__open(pid, "maps", O_RDONLY);
	size_t len = 0;
	int err;

	if (fd < 0)
		return fd;
	err = io__read_all(fd, MAPS_TEXT_MAX, &text, &len);
	if (err)
		return err;
	return maps__parse(text, len, ret_maps, NULL);
}

/* Returns the index of the first entry that ends above addr; maps->n when there is none. */
static size_t first_ending_above(const struct maps *maps, uint64_t addr)
{
	return SEARCH_FIRST(i, maps->n, maps->entries[i].end > addr);
}

const struct map_entry *maps__find(const struct maps *maps, uint64_t addr)
{
	size_t i = first_ending_above(maps, addr);

	if (i == maps->n || maps->entries[i].start > addr)
		return NULL;
	return &maps->entries[i];
}

bool maps__replaces_code(const struct maps *maps, const struct map_entry *entry)
{
	for (size_t i = first_ending_above(maps, entry->start);
	     i < maps->n && maps->entries[i].start < entry->end; i++) {
		const struct map_entry *old = &maps->entries[i];

		if (old->executable && old->file.inode &&
		    (!file_id__equal(&old->file, &entry->file) ||
		     old->start - old->off != entry->start - entry->off))
			return true;
	}
	return false;
}

static int copy_entry(const struct map_entry *entry, struct map_entry *ret_copy)
{
	struct map_entry copy = *entry;

	copy.path = strdup(entry->path ? entry->path : "");
	if (!copy.path)
		return -ENOMEM;
	*ret_copy = copy;
	return 0;
}

/* Cuts everything below `start` off the entry. An offset has a meaning only if there is a file. */
static void cut_head(struct map_entry *entry, uint64_t start)
{
	if (entry->file.inode)
		entry->off += start - entry->start;
	entry->start = start;
}

int maps__insert(struct maps *maps, const struct map_entry *entry)
{
	struct map_entry *entries, added, tail;
	size_t first, last;
	bool split;

	if (entry->start >= entry->end)
		return -EINVAL;

	/* Everything that can fail is done before the first change. */
	if (copy_entry(entry, &added))
		return -ENOMEM;
	entries = reallocarray(maps->entries, maps->n + 2, sizeof(*entries));
	if (!entries) {
		free(added.path);
		return -ENOMEM;
	}
	maps->entries = entries;

	/* The entries [first, last) overlap the new one. */
	first = first_ending_above(maps, added.start);
	last = first;
	while (last < maps->n && entries[last].start < added.end)
		last++;

	split = first < last && entries[first].start < added.start &&
		entries[first].end > added.end;
	if (split) {
		if (copy_entry(&entries[first], &tail)) {
			free(added.path);
			return -ENOMEM;
		}
		cut_head(&tail, added.end);
	}

	if (first < last && entries[first].start < added.start)
		entries[first++].end = added.start;
	if (first < last && entries[last - 1].end > added.end)
		cut_head(&entries[--last], added.end);
	for (size_t i = first; i < last; i++)
		free(entries[i].path);

	memmove(&entries[first + 1 + split], &entries[last], (maps->n - last) * sizeof(*entries));
	maps->n = maps->n - (last - first) + 1 + split;
	entries[first] = added;
	if (split)
		entries[first + 1] = tail;
	return 0;
}

int maps__copy(const struct maps *maps, struct maps *ret_maps)
{
	struct maps copy = {0};

	if (maps->n) {
		copy.entries = calloc(maps->n, sizeof(*copy.entries));
		if (!copy.entries)
			return -ENOMEM;
	}
	for (; copy.n < maps->n; copy.n++) {
		if (copy_entry(&maps->entries[copy.n], &copy.entries[copy.n])) {
			maps__free(&copy);
			return -ENOMEM;
		}
	}
	*ret_maps = copy;
	return 0;
}

void maps__free(struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->entries[i].path);
	free(maps->entries);
	*maps = (struct maps){0};
}

/* Is the file behind fd the one that /proc/PID/maps shows as `id`? On overlayfs and btrfs, fstat()
 * shows another device (and inode) than maps does. So if fstat() does not show `id`, memtrace maps
 * the file and looks up its device and inode in memtrace's own maps. */
static bool is_file(int fd, const struct file_id *id)
{
	_cleanup_(maps__free) struct maps own = {};
	const struct map_entry *at;
	struct file_id shown;
	struct stat st;
	void *page;
	bool is;

	if (fstat(fd, &st))
		return false;
	shown = (struct file_id){major(st.st_dev), minor(st.st_dev), st.st_ino};
	if (file_id__equal(&shown, id))
		return true;
	page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return false;
	at = maps__read(getpid(), &own) ? NULL : maps__find(&own, (uintptr_t)page);
	is = at && file_id__equal(&at->file, id);
	munmap(page, 1);
	return is;
}

/* Opens `path` if it is a regular file. An open with O_PATH does not run the open method of a FIFO
 * or device. The file is then opened again through the O_PATH descriptor, so the name cannot come
 * to mean another file in between. O_NONBLOCK is needed because a lease delays even the open of a
 * regular file. `id` (may be NULL): the file must have this id. If fstat() shows another id, a
 * regular file is opened all the same, because on some file systems only a file's mapping shows its
 * id. */
static int open_regular(const char *path, const struct file_id *id)
{
	struct file_id own;
	_cleanup_close_ int handle = -1;
	char reopen[64];
	struct stat st;
	int fd;

	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0 || fstat(handle, &st) < 0)
		return -errno;
	own = (struct file_id){major(st.st_dev), minor(st.st_dev), st.st_ino};
	if (!S_ISREG(st.st_mode))
		return !id || file_id__equal(&own, id) ? -EINVAL : -ESTALE;
	snprintf(reopen, sizeof(reopen), "/proc/self/fd/%d", handle);
	fd = open(reopen, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (id && !is_file(fd, id)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/* Copies memtrace's own vdso into a file in memory. The target's vdso is not copied, because the
 * target may have written to it. A descriptor or negative errno. */
static int open_vdso(const struct map_entry *entry)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_(maps__free) struct maps own = {};
	_cleanup_close_ int fd = -1;
	const struct map_entry *at;
	size_t size;
	int rc;

	rc = image ? maps__read(getpid(), &own) : -ENOENT;
	if (rc)
		return rc;
	at = maps__find(&own, (uintptr_t)image);
	size = at ? at->end - at->start : 0;
	if (!size || size != entry->end - entry->start)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, image, size) != (ssize_t)size)
		return -EIO;
	return take_fd(&fd);
}

/* What the helper process mt-files (base/far.h) is told: open the file of this mapping. */
struct mapped {
	pid_t pid;
	uint64_t start, end;
	struct file_id file;
	char path[8192]; /* "": the mapping has no path that can be opened */
};

static void name_link(const struct mapped *m, char link[96])
{
	snprintf(link, 96, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, m->pid, m->start, m->end);
}

static int open_mapped(const struct mapped *m)
{
	_cleanup_free_ char *in_root = NULL;
	char link[96];
	int fd, root_fd;

	/* The kernel's own link to the mapped file is right even when the file is deleted or
	 * another file has its name. But meanwhile the process may have mapped another file at
	 * these addresses. */
	name_link(m, link);
	fd = open_regular(link, NULL);
	if (fd >= 0 && !is_file(fd, &m->file)) {
		close(fd);
		return -ESTALE;
	}
	if (fd >= 0 || fd == -EINVAL)
		return fd;

	/* The link could not be followed. Either memtrace has neither CAP_SYS_ADMIN nor
	 * CAP_CHECKPOINT_RESTORE, or the mapping's start or end has changed meanwhile. */
	if (!*m->path)
		return -ENOENT;
	if (asprintf(&in_root, "/proc/%d/root%s", m->pid, m->path) < 0) {
		in_root = NULL;
		return -ENOMEM;
	}
	root_fd = open_regular(in_root, &m->file);
	if (root_fd >= 0)
		return root_fd;
	fd = open_regular(m->path, &m->file);
	/* Of the two errors, -ESTALE from inside the target's root says more: it says that another
	 * file has this name there. */
	return fd >= 0 || root_fd != -ESTALE ? fd : root_fd;
}

/* Runs in mt-files. Opens the file of a mapping. */
static int open_and_keep(int none, const void *in, void *out)
{
	int fd = open_mapped(in);

	(void)none, (void)out;
	return fd < 0 ? fd : far__keep(fd);
}

int maps__open_file(pid_t pid, const struct map_entry *entry)
{
	struct mapped m;
	struct far_work work = {.fn = open_and_keep,
				.key = (uint64_t)entry->file.dev_major << 32 |
				       entry->file.dev_minor,
				.fd = -1,
				.in = &m};
	size_t len = entry->path && entry->path[0] == '/' ? strlen(entry->path) : 0;

	if (!entry->file.inode)
		return -ENOENT;
	if (file_id__equal(&entry->file, &FILE_ID_VDSO))
		return open_vdso(entry);
	memset(&m, 0, sizeof(m)); /* this clears padding, too, because far__do() compares all bytes
				   * of two requests */
	m.pid = process__living_thread(pid);
	m.start = entry->start;
	m.end = entry->end;
	m.file = entry->file;
	if (len < sizeof(m.path))
		memcpy(m.path, entry->path, len);
	work.in_bytes = offsetof(struct mapped, path) + (len < sizeof(m.path) ? len : 0) + 1;
	return far__do(&work);
}

int maps__to_probe(int opened, pid_t pid, const struct map_entry *entry)
{
	_cleanup_close_ int fd = opened;
	const struct mapped m = {
		.pid = process__living_thread(pid), .start = entry->start, .end = entry->end};
	_cleanup_close_ int handle = -1;
	struct file_id own;
	struct statx st;
	char link[96];

	if (!far__is_copy(fd))
		return take_fd(&fd);
	name_link(&m, link);
	handle = open(link, O_PATH | O_CLOEXEC);
	if (handle < 0 ||
	    statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st))
		return -errno;
	own = (struct file_id){st.stx_dev_major, st.stx_dev_minor, st.stx_ino};
	return file_id__equal(&own, &entry->file) ? take_fd(&handle) : -ESTALE;
}
