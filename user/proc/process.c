// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/far.h"
#include "base/hash.h"
#include "base/in_root.h"
#include "base/io.h"
#include "base/vector.h"
#include "proc/thread.h"

#define STATUS_MAX    (1 << 20)	 /* bytes; the line "Groups:" may have 65,536 numbers */
#define PID_MAX_LIMIT (4 << 20)	 /* include/linux/threads.h: no pid is above this limit */
#define PF_KTHREAD    0x00200000 /* include/linux/sched.h; ABI, because stat shows the flags */
/* include/linux/posix-timers_types.h: in a clock id, selects the CPU time that the scheduler
 * counts */
#define CPUCLOCK_SCHED 2

/* Reads a small /proc file, below dir_fd or at an absolute path, and ends the text with a NUL. Cuts
 * off text that does not fit. Returns the length or negative errno. */
static ssize_t read_text(int dir_fd, const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	len = io__read(fd, buf, size - 1);
	if (len >= 0)
		buf[len] = '\0';
	return len;
}

/* Copies a name, with '?' for control characters. The target chooses the name, and memtrace prints
 * it on terminals and in line-based formats. */
static void copy_name(char *dst, size_t size, const char *src, size_t len)
{
	size_t n = len < size ? len : size - 1;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = src[i];

		dst[i] = c < 0x20 || c == 0x7f ? '?' : src[i];
	}
	dst[n] = '\0';
}

/* Parses "PID (COMM) STATE PPID ...", whose fields proc(5) counts from 1. COMM may hold ')' and
 * blanks. No other field holds a ')', so the last ')' ends COMM. */
static int parse_stat(const char *text, struct process_info *info)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	const char *pos;

	if (!open || !close || close < open || close[1] != ' ' || !close[2])
		return -EINVAL;
	copy_name(info->comm, sizeof(info->comm), open + 1, close - open - 1);
	info->state = close[2];
	pos = close + 3;
	for (int field = 4; field <= 24; field++) {
		char *end;
		uint64_t value = strtoull(pos, &end, 10);

		if (end == pos)
			return -EINVAL;
		pos = end;
		switch (field) {
		case 4:
			info->parent = (pid_t)value;
			break;
		case 9:
			info->kernel_thread = value & PF_KTHREAD;
			break;
		case 10:
			info->minor_faults = value;
			break;
		case 20:
			info->threads = value;
			break;
		case 22:
			info->start_ticks = value;
			break;
		case 24:
			info->rss_bytes = value * sysconf(_SC_PAGESIZE);
			break;
		}
	}
	return 0;
}

/* Returns what follows "KEY:" at the start of a line of a status file; NULL when there is no such
 * line. The target chooses the text of one line only, "Name:", and in this line the kernel escapes
 * newlines. */
static const char *status_value(const char *text, const char *key)
{
	size_t len = strlen(key);

	while (text && *text) {
		if (strncmp(text, key, len) == 0 && text[len] == ':')
			return text + len + 1;
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return NULL;
}

/* Finds the user whose rights the process has, in the line "Uid: REAL EFFECTIVE SAVED FS" of a
 * status file. */
static int parse_euid(const char *status, uint32_t *ret_euid)
{
	const char *uids = status_value(status, "Uid");
	unsigned int euid;

	if (!uids || sscanf(uids, "%*u %u", &euid) != 1)
		return -EINVAL;
	*ret_euid = euid;
	return 0;
}

/* Is `word` among the words from `words` to the end of the line? */
static bool is_among(const char *words, const char *word)
{
	size_t len = strlen(word);

	while (*words && *words != '\n') {
		size_t n;

		words += strspn(words, " \t");
		n = strcspn(words, " \t\n");
		if (n == len && !memcmp(words, word, len))
			return true;
		words += n;
	}
	return false;
}

#define IDENT_BYTES (EI_CLASS + 1)

/* Runs in mt-files. Reads the first bytes of a process's program. */
static int read_ident(int dir_fd, const void *in, void *out)
{
	_cleanup_close_ int fd = openat(dir_fd, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	(void)in;
	return fd >= 0 && pread(fd, out, IDENT_BYTES, 0) == IDENT_BYTES ? FAR_NO_FD : -EIO;
}

static bool is_compat32(int dir_fd)
{
	unsigned char ident[IDENT_BYTES];
	struct far_work work = {
		.fn = read_ident, .fd = dir_fd, .out = ident, .out_bytes = sizeof(ident)};
	struct statx st;

	if (statx(dir_fd, "exe", AT_STATX_DONT_SYNC, STATX_INO, &st))
		return false;
	work.key = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	return far__do(&work) >= 0 && memcmp(ident, ELFMAG, SELFMAG) == 0 &&
	       ident[EI_CLASS] == ELFCLASS32;
}

static bool has_ended(const struct process_info *thread)
{
	return thread->state == 'Z' || thread->state == 'X';
}

bool process__lives(const struct process_info *info)
{
	return !has_ended(info) || info->threads > 1;
}

bool process__is_headless(const struct process_info *info)
{
	return has_ended(info) && info->threads > 1;
}

/* Returns the id of a thread of pid that has not ended; 0: there is none. */
static pid_t find_living(pid_t pid)
{
	_cleanup_closedir_ DIR *threads = process__open_threads(pid);
	struct process_info thread;
	pid_t tid;

	while ((tid = process__next_thread(threads)))
		if (!process__read_stat(tid, &thread) && !has_ended(&thread))
			return tid;
	return 0;
}

pid_t process__living_thread(pid_t pid)
{
	struct process_info info;
	pid_t tid = 0;

	if (!process__read_stat(pid, &info) && process__is_headless(&info))
		tid = find_living(pid);
	return tid ? tid : pid;
}

int process__open(pid_t pid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", process__living_thread(pid), name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

int process__read(pid_t pid, struct process_info *ret_info)
{
	struct process_info info = {.pid = pid};
	_cleanup_free_ char *status = malloc(STATUS_MAX);
	_cleanup_close_ int dir_fd = -1, living_fd = -1;
	const char *tgid, *features;
	char text[4096];
	ssize_t n;
	int err, of_memory;

	/* All files are read below one directory descriptor. If meanwhile the process ends and
	 * another process gets its pid, further reads fail. They do not read the other process. */
	snprintf(text, sizeof(text), "/proc/%d", pid);
	dir_fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;

	n = read_text(dir_fd, "stat", text, sizeof(text));
	if (n < 0)
		return n;
	err = parse_stat(text, &info);
	if (err)
		return err;

	n = status ? read_text(dir_fd, "status", status, STATUS_MAX) : -ENOMEM;
	if (n < 0)
		return n;
	tgid = status_value(status, "Tgid");
	if (!tgid)
		return -EINVAL;
	info.tgid = strtol(tgid, NULL, 10);
	err = parse_euid(status, &info.euid);
	if (err)
		return err;
	features = status_value(status, "x86_Thread_features");
	info.shadow_stack = features && is_among(features, "shstk");

	if (process__is_headless(&info)) {
		snprintf(text, sizeof(text), "task/%d", process__living_thread(pid));
		living_fd = openat(dir_fd, text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	of_memory = living_fd < 0 ? dir_fd : living_fd;
	n = readlinkat(of_memory, "exe", info.exe, sizeof(info.exe) - 1);
	info.exe[n < 0 ? 0 : n] = '\0';
	info.compat32 = is_compat32(of_memory);
	*ret_info = info;
	return 0;
}

int process__read_stat(pid_t pid, struct process_info *ret_info)
{
	struct process_info info = {.pid = pid};
	char path[32], text[4096];
	ssize_t n;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	n = read_text(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return n;
	err = parse_stat(text, &info);
	if (!err)
		*ret_info = info;
	return err;
}

/* Adds up sizes in pid's status. If the first size is missing, this is an error; the others may be
 * missing. 0 or negative errno. */
static int read_sizes(pid_t pid, const char *const *names, size_t n_names, uint64_t *ret_bytes)
{
	_cleanup_close_ int fd = process__open(pid, "status", O_RDONLY);
	_cleanup_free_ char *text = malloc(STATUS_MAX);
	uint64_t sum = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = text ? io__read(fd, text, STATUS_MAX - 1) : -ENOMEM;
	if (n <= 0)
		return n ? (int)n : -ESRCH;
	text[n] = '\0';
	for (size_t i = 0; i < n_names; i++) {
		const char *value = status_value(text, names[i]);

		if (!value && !i)
			return -ESRCH; /* the process is about to end, and has no memory any more */
		sum += value ? strtoull(value, NULL, 10) : 0;
	}
	*ret_bytes = 1024 * sum;
	return 0;
}

int process__anon_bytes(pid_t pid, uint64_t *ret_bytes)
{
	/* The huge pages that the administrator has reserved are only in HugetlbPages. */
	static const char *const names[] = {"RssAnon", "VmSwap", "HugetlbPages"};

	return read_sizes(pid, names, sizeof(names) / sizeof(names[0]), ret_bytes);
}

int process__file_bytes(pid_t pid, uint64_t *ret_bytes)
{
	static const char *const names[] = {"RssFile", "RssShmem"};

	return read_sizes(pid, names, sizeof(names) / sizeof(names[0]), ret_bytes);
}

int process__rss_bytes(pid_t pid, uint64_t *ret_bytes)
{
	static const char *const name = "VmRSS";

	return read_sizes(pid, &name, 1, ret_bytes);
}

DIR *process__open_threads(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return opendir(path);
}

pid_t process__next_thread(DIR *threads)
{
	struct dirent *entry;

	while (threads && (entry = readdir(threads)))
		if (*entry->d_name != '.')
			return atoi(entry->d_name);
	return 0;
}

size_t process__stack_pointers(pid_t pid, uint64_t *sps, size_t max)
{
	_cleanup_closedir_ DIR *threads = process__open_threads(pid);
	uint64_t args[THREAD_ARGS];
	struct thread_state thread;
	size_t n = 0, n_args;
	pid_t tid;

	while (n < max && (tid = process__next_thread(threads)))
		if (!thread_state__read(pid, tid, &thread, args, &n_args) && thread.sp)
			sps[n++] = thread.sp;
	return n;
}

/* read_text() of a thread's file. */
static ssize_t read_thread_text(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	return read_text(AT_FDCWD, path, buf, size);
}

bool process__sleeps(pid_t pid, size_t max)
{
	_cleanup_closedir_ DIR *threads = process__open_threads(pid);
	struct process_info thread;
	char text[1024];
	size_t n = 0;
	pid_t tid;

	while ((tid = process__next_thread(threads))) {
		if (n++ == max || read_thread_text(pid, tid, "stat", text, sizeof(text)) <= 0 ||
		    parse_stat(text, &thread) || strchr("RD", thread.state))
			return false;
	}
	return n > 0;
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Lists the pids among the names in /proc, in ascending order. 0 or negative errno. */
static int list_pids(pid_t **ret_pids, size_t *ret_n)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, size = 0;
	struct dirent *entry;

	if (!dir)
		return -errno;
	while (errno = 0, (entry = readdir(dir))) {
		char *end;
		unsigned long pid = strtoul(entry->d_name, &end, 10);

		/* Other names in /proc do not begin with a digit, and no process has the pid 0. */
		if (*end || !pid || pid > PID_MAX_LIMIT)
			continue;
		if (VECTOR_RESERVE(pids, size, n + 1))
			return -ENOMEM;
		pids[n++] = (pid_t)pid;
	}
	if (errno)
		return -errno;
	if (n)
		qsort(pids, n, sizeof(*pids), compare_pids);
	*ret_pids = pids;
	*ret_n = n;
	pids = NULL;
	return 0;
}

int process__each(int (*fn)(pid_t pid, void *ctx), void *ctx)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;
	int ret = list_pids(&pids, &n);

	for (size_t i = 0; !ret && i < n; i++)
		ret = fn(pids[i], ctx);
	return ret;
}

int process__cpu_time_ns(pid_t pid, uint64_t *ret_ns)
{
	struct timespec ts;

	/* A clock id has 29 bits for the pid. Pid 0, or a pid that does not fit, would mean
	 * memtrace itself. */
	if (pid <= 0 || pid > PID_MAX_LIMIT)
		return -ESRCH;
	/* clock_getcpuclockid() is not needed. It makes the same clock id, and asks the kernel
	 * whether the process exists. But clock_gettime() fails anyway if the process does not
	 * exist. */
	if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | CPUCLOCK_SCHED), &ts) < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	*ret_ns = clock__to_ns(&ts);
	return 0;
}

int process__io_bytes(pid_t pid, uint64_t *ret_bytes)
{
	char path[64], text[512];
	uint64_t read_bytes, written;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	n = read_text(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	if (sscanf(text, "rchar: %" SCNu64 " wchar: %" SCNu64, &read_bytes, &written) != 2)
		return -EINVAL;
	*ret_bytes = read_bytes + written;
	return 0;
}

int process__waits(pid_t pid, size_t max, struct process_waits *ret)
{
	_cleanup_closedir_ DIR *threads = process__open_threads(pid);
	_cleanup_free_ char *status = malloc(STATUS_MAX);
	struct process_waits sum = {};
	size_t n = 0;
	pid_t tid;

	if (!threads || !status)
		return threads ? -ENOMEM : -errno;
	while ((tid = process__next_thread(threads))) {
		const char *waits;
		ssize_t len;

		if (n++ == max)
			return -E2BIG;
		len = read_thread_text(pid, tid, "status", status, STATUS_MAX);
		if (len < 0)
			return (int)len;
		waits = status_value(status, "voluntary_ctxt_switches");
		if (!waits)
			return -EINVAL;
		sum.n += strtoull(waits, NULL, 10);
		sum.threads += hash__keyed(&tid, sizeof(tid));
	}
	*ret = sum;
	return n ? 0 : -ESRCH;
}

uint64_t process__auxv(pid_t pid, uint64_t type)
{
	_cleanup_close_ int fd = process__open(pid, "auxv", O_RDONLY);
	Elf64_auxv_t vector[64];
	ssize_t len;

	len = fd < 0 ? 0 : io__read(fd, vector, sizeof(vector));
	for (ssize_t i = 0; i < len / (ssize_t)sizeof(vector[0]); i++)
		if (vector[i].a_type == type)
			return vector[i].a_un.a_val;
	return 0;
}

/* Finds the path of the process's perf map, and the user that must own the map. The pid in the path
 * is the last pid in the line "NStgid:" of the process's status file. This line has a pid for each
 * pid namespace, the innermost one last. */
static int perf_map_name(int dir_fd, char *path, size_t size, uid_t *ret_owner)
{
	_cleanup_free_ char *text = malloc(STATUS_MAX);
	const char *pids;
	uint32_t owner;
	ssize_t n;
	long pid;
	char *end;
	int err;

	if (!text)
		return -ENOMEM;
	n = read_text(dir_fd, "status", text, STATUS_MAX);
	if (n < 0)
		return n;
	err = parse_euid(text, &owner);
	if (err)
		return err;
	pids = status_value(text, "NStgid");
	if (!pids) /* a kernel without pid namespaces */
		pids = status_value(text, "Tgid");
	if (!pids)
		return -EINVAL;
	do {
		pid = strtol(pids, &end, 10);
		pids = end;
	} while (*end == '\t');
	if (pid <= 0)
		return -EINVAL;
	snprintf(path, size, "tmp/perf-%ld.map", pid);
	*ret_owner = owner;
	return 0;
}

int process__find_perf_map(pid_t pid, struct perf_map_place *ret)
{
	struct perf_map_place place = {.root_fd = -1};
	_cleanup_close_ int dir_fd = process__open(pid, "", O_RDONLY | O_DIRECTORY);
	int err;

	if (dir_fd < 0)
		return dir_fd;
	err = perf_map_name(dir_fd, place.path, sizeof(place.path), &place.owner);
	if (err)
		return err;
	place.root_fd = openat(dir_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place.root_fd < 0)
		return -errno;
	*ret = place;
	return 0;
}

const char *process__why(int rc)
{
	switch (rc) {
	case -ESRCH:
	case -ENOENT:
		return "it has ended";
	case -EACCES:
	case -EPERM:
		if (geteuid())
			return "not permitted: run as root or with CAP_SYS_PTRACE";
		return "refused to root: by a security module, or because memtrace runs in a "
		       "container";
	default:
		return strerror(-rc);
	}
}

int process__open_perf_map(const struct perf_map_place *place)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	fd = in_root__open_file(place->root_fd, place->path, false, &st);
	if (fd < 0)
		return fd;
	return st.st_uid == place->owner ? take_fd(&fd) : -EPERM;
}
