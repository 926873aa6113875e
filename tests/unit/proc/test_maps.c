// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "proc/maps.h"

/* Lines as Linux 6.18 writes them. */
static const char text[] =
	"55d0c0a00000-55d0c0a02000 r--p 00000000 fe:00 393231                     /usr/bin/cat\n"
	"55d0c0a02000-55d0c0a07000 r-xp 00002000 fe:00 393231                     /usr/bin/cat\n"
	"55d0c1b55000-55d0c1b76000 rw-p 00000000 00:00 0                          [heap]\n"
	"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
	"7f1111000000-7f1111001000 rw-s 00000000 00:01 1033                       /memfd:a b "
	"(deleted)\n"
	"7f2222000000-7f2222001000 r-xp 00000000 103:0f 77                        /tmp/x\\012y\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void parse(const char *lines, struct maps *maps, size_t want_skipped)
{
	size_t skipped = 99;

	assert_int_equal(maps__parse(lines, strlen(lines), maps, &skipped), 0);
	assert_int_equal(skipped, want_skipped);
}

static void test_parse(void **state)
{
	struct maps maps;

	(void)state;
	parse(text, &maps, 0);
	assert_int_equal(maps.n, 7);
	assert_int_equal(maps.entries[1].start, 0x55d0c0a02000);
	assert_int_equal(maps.entries[1].end, 0x55d0c0a07000);
	assert_int_equal(maps.entries[1].off, 0x2000);
	assert_int_equal(maps.entries[1].file.dev_major, 0xfe);
	assert_int_equal(maps.entries[1].file.inode, 393231);
	assert_string_equal(maps.entries[1].perms, "r-xp");
	assert_true(maps.entries[1].executable);
	assert_false(maps.entries[0].executable);
	assert_string_equal(maps.entries[1].path, "/usr/bin/cat");
	assert_false(maps.entries[1].deleted);
	assert_string_equal(maps.entries[2].path, "[heap]");
	assert_string_equal(maps.entries[3].path, "");
	assert_string_equal(maps.entries[4].path, "/memfd:a b");
	assert_true(maps.entries[4].deleted);
	assert_string_equal(maps.entries[5].path, "/tmp/x\ny");
	assert_int_equal(maps.entries[5].file.dev_major, 0x103);
	assert_int_equal(maps.entries[5].file.dev_minor, 0x0f);
	assert_int_equal(maps.entries[6].start, 0xffffffffff600000);
	maps__free(&maps);
	assert_int_equal(maps.n, 0);
}

/* Names that the target may choose, and how they must be read. */
static void test_parse_hostile_names(void **state)
{
	static const struct {
		const char *raw, *path;
		bool deleted;
	} cases[] = {
		{"/a\\012b", "/a\nb", false},
		{"/a\\134b", "/a\\134b", false}, /* the kernel does not escape the backslash */
		{"/a\\01", "/a\\01", false},
		{"/a\\", "/a\\", false},
		{"/x (deleted)", "/x", true},
		{"/x (deleted) (deleted)", "/x (deleted)", true},
		{"/ (deleted)", "/", true},
		{"/x (deleted) ", "/x (deleted) ", false},
		{"[anon:x (deleted)", "[anon:x (deleted)", false},
		{"/a  b\t;\x1b[31m\xff", "/a  b\t;\x1b[31m\xff", false},
		{"/00400000-00500000 r-xp 0 0:0 1 /bin/x", "/00400000-00500000 r-xp 0 0:0 1 /bin/x",
		 false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct maps maps;
		char line[256];

		snprintf(line, sizeof(line), "1000-2000 r-xp 00000000 08:01 5     %s\n",
			 cases[i].raw);
		parse(line, &maps, 0);
		assert_int_equal(maps.n, 1);
		assert_string_equal(maps.entries[0].path, cases[i].path);
		assert_int_equal(maps.entries[0].deleted, cases[i].deleted);
		maps__free(&maps);
	}
}

static void test_parse_skips_what_is_malformed(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"1000",
		"1000-",
		"1000-2000",
		"1000-2000 r-xp",
		"1000-2000 r-xp 0 08:01",
		"1000-2000 r-xp 0 08:01 ",
		"1000-2000 r-xp 0 08:01 5x",
		"1000-2000 rqxp 0 08:01 5",
		"1000-2000 r-x- 0 08:01 5",
		"2000-1000 r-xp 0 08:01 5",
		"1000-1000 r-xp 0 08:01 5",
		"-1000-2000 r-xp 0 08:01 5",
		" 1000-2000 r-xp 0 08:01 5",
		"0x1000-2000 r-xp 0 08:01 5",
		"1000-2000 r-xp 0 100000000:01 5",
		"11111111111111111-22222222222222222 r-xp 0 08:01 5",
		"1000-2000 r-xp 0 08:01 18446744073709551616",
		"Size:                  4 kB",
	};
	static const char with_nul[] = "1000-2000 r-xp 0 08:01 5 /a\0b\n";
	struct maps maps;
	size_t skipped;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char lines[256];

		snprintf(lines, sizeof(lines), "%s\n5000-6000 ---p 0 00:00 0\n", bad[i]);
		parse(lines, &maps, 1);
		assert_int_equal(maps.n, 1);
		assert_int_equal(maps.entries[0].start, 0x5000);
		maps__free(&maps);
	}
	assert_int_equal(maps__parse(with_nul, sizeof(with_nul) - 1, &maps, &skipped), 0);
	assert_int_equal(skipped, 1);
	assert_int_equal(maps.n, 0);
	maps__free(&maps);

	/* Mappings in descending order, and overlapping ones. */
	parse("5000-6000 ---p 0 0:0 0\n5800-7000 ---p 0 0:0 0\n1000-2000 ---p 0 0:0 0\n"
	      "6000-7000 ---p 0 0:0 0\n",
	      &maps, 2);
	assert_int_equal(maps.n, 2);
	maps__free(&maps);
}

/* Reads every prefix of a valid text, in a buffer of exactly its length, so that ASan sees reads
 * beyond it. */
static void test_parse_truncated(void **state)
{
	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		_cleanup_free_ char *copy = malloc(len ? len : 1);
		struct maps maps;

		memcpy(copy, text, len);
		assert_int_equal(maps__parse(copy, len, &maps, NULL), 0);
		assert_true(maps.n <= 7);
		maps__free(&maps);
	}
}

static void test_parse_random(void **state)
{
	static const char alphabet[] = "0123456789abcdef- rwxps:/\\012(deleted)[]\n\n\n";

	(void)state;
	srand(1);
	for (int round = 0; round < 20000; round++) {
		size_t len = rand() % 200;
		_cleanup_free_ char *copy = malloc(len + 1);
		struct maps maps;

		for (size_t i = 0; i < len; i++)
			copy[i] = rand() % 20 ? alphabet[rand() % (sizeof(alphabet) - 1)] : rand();
		if (len > 60)
			memcpy(copy, text + (rand() % 4) * 86, 50);
		assert_int_equal(maps__parse(copy, len, &maps, NULL), 0);
		for (size_t i = 0; i < maps.n; i++) {
			assert_true(maps.entries[i].start < maps.entries[i].end);
			assert_true(i == 0 || maps.entries[i - 1].end <= maps.entries[i].start);
		}
		maps__free(&maps);
	}
}

static void test_find(void **state)
{
	struct maps maps, empty = {0};

	(void)state;
	parse(text, &maps, 0);
	assert_null(maps__find(&empty, 0x1000));
	assert_null(maps__find(&maps, 0));
	assert_null(maps__find(&maps, 0x55d0c09fffff));
	assert_ptr_equal(maps__find(&maps, 0x55d0c0a00000), &maps.entries[0]);
	assert_ptr_equal(maps__find(&maps, 0x55d0c0a01fff), &maps.entries[0]);
	assert_ptr_equal(maps__find(&maps, 0x55d0c0a02000), &maps.entries[1]);
	assert_null(maps__find(&maps, 0x55d0c0a07000));
	assert_ptr_equal(maps__find(&maps, 0xffffffffff600fff), &maps.entries[6]);
	assert_null(maps__find(&maps, UINT64_MAX));
	maps__free(&maps);
}

static struct map_entry region(uint64_t start, uint64_t end, uint64_t off, const char *path)
{
	return (struct map_entry){
		.start = start,
		.end = end,
		.off = off,
		.file.inode = path[0] == '/' ? 1 : 0,
		.perms = "r-xp",
		.executable = true,
		.path = (char *)path,
	};
}

static void insert(struct maps *maps, uint64_t start, uint64_t end, uint64_t off, const char *path)
{
	struct map_entry entry = region(start, end, off, path);

	assert_int_equal(maps__insert(maps, &entry), 0);
}

static void expect(const struct maps *maps, size_t i, uint64_t start, uint64_t end, uint64_t off,
		   const char *path)
{
	assert_true(i < maps->n);
	assert_int_equal(maps->entries[i].start, start);
	assert_int_equal(maps->entries[i].end, end);
	assert_int_equal(maps->entries[i].off, off);
	assert_string_equal(maps->entries[i].path, path);
}

static void test_insert(void **state)
{
	struct maps maps = {0}, copy;
	struct map_entry bad;

	(void)state;
	insert(&maps, 0x4000, 0x8000, 0x1000, "/a");
	insert(&maps, 0x1000, 0x2000, 0, "/b");
	insert(&maps, 0x9000, 0xa000, 0, "[heap]");
	assert_int_equal(maps.n, 3);
	expect(&maps, 0, 0x1000, 0x2000, 0, "/b");
	expect(&maps, 1, 0x4000, 0x8000, 0x1000, "/a");

	/* A mapping in the middle of an entry splits it. The second part's offset is larger. */
	insert(&maps, 0x5000, 0x6000, 0, "/c");
	assert_int_equal(maps.n, 5);
	expect(&maps, 1, 0x4000, 0x5000, 0x1000, "/a");
	expect(&maps, 2, 0x5000, 0x6000, 0, "/c");
	expect(&maps, 3, 0x6000, 0x8000, 0x3000, "/a");
	assert_int_equal(maps__copy(&maps, &copy), 0);

	/* A mapping over the end of one entry, all of another, and the beginning of a third. */
	insert(&maps, 0x4800, 0x7000, 0x70, "/d");
	assert_int_equal(maps.n, 5);
	expect(&maps, 1, 0x4000, 0x4800, 0x1000, "/a");
	expect(&maps, 2, 0x4800, 0x7000, 0x70, "/d");
	expect(&maps, 3, 0x7000, 0x8000, 0x4000, "/a");
	expect(&maps, 4, 0x9000, 0xa000, 0, "[heap]");

	/* The offset of an entry without a file does not change. */
	insert(&maps, 0x8800, 0x9800, 0, "/e");
	expect(&maps, 4, 0x8800, 0x9800, 0, "/e");
	expect(&maps, 5, 0x9800, 0xa000, 0, "[heap]");

	/* A mapping over exactly one entry, then one over all of them. */
	insert(&maps, 0x4800, 0x7000, 0, "/f");
	assert_int_equal(maps.n, 6);
	expect(&maps, 2, 0x4800, 0x7000, 0, "/f");
	insert(&maps, 0, UINT64_MAX, 0, "/g");
	assert_int_equal(maps.n, 1);
	expect(&maps, 0, 0, UINT64_MAX, 0, "/g");

	/* The inserted entry is one of the list itself. */
	assert_int_equal(maps__insert(&maps, &maps.entries[0]), 0);
	assert_int_equal(maps.n, 1);

	bad = region(0x2000, 0x1000, 0, "/x");
	assert_int_equal(maps__insert(&maps, &bad), -EINVAL);
	bad = region(0x2000, 0x2000, 0, "/x");
	assert_int_equal(maps__insert(&maps, &bad), -EINVAL);
	maps__free(&maps);

	/* The copy has not changed. */
	assert_int_equal(copy.n, 5);
	expect(&copy, 3, 0x6000, 0x8000, 0x3000, "/a");
	maps__free(&copy);
}

static void test_replaces_code(void **state)
{
	static const char lines[] = "10000-20000 r-xp 1000 08:01 7 /lib/a\n"
				    "20000-30000 rw-p 11000 08:01 7 /lib/a\n"
				    "30000-40000 r-xp 0 00:00 0 \n";
	struct file_id a = {8, 1, 7}, b = {8, 1, 8}, none = {};
	const struct {
		uint64_t start, end, off;
		struct file_id file;
		bool replaces;
	} cases[] = {
		{0x10000, 0x20000, 0x1000, a, false},	{0x11000, 0x12000, 0x2000, a, false},
		{0x11000, 0x12000, 0x3000, a, true},	{0x10000, 0x20000, 0x1000, b, true},
		{0x1f000, 0x30000, 0x0, none, true},	{0x0, 0x10001, 0x0, none, true},
		{0x0, 0x10000, 0x0, b, false},		{0x20000, 0x50000, 0x0, b, false},
		{0x100000, 0x200000, 0x0, none, false},
	};
	struct maps maps;

	(void)state;
	assert_int_equal(maps__parse(lines, strlen(lines), &maps, NULL), 0);
	assert_int_equal(maps.n, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct map_entry entry = {.start = cases[i].start,
					  .end = cases[i].end,
					  .off = cases[i].off,
					  .file = cases[i].file};

		if (maps__replaces_code(&maps, &entry) != cases[i].replaces)
			fail_msg("case %zu", i);
	}
	maps__free(&maps);
}

/* Compares with a model: an array with the owner of each page. */
static void test_insert_model(void **state)
{
	static const char *const paths[] = {"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"};
	int owner[64];
	uint64_t off[64];
	struct maps maps = {0};

	(void)state;
	srand(2);
	memset(owner, 0xff, sizeof(owner));
	for (int round = 0; round < 3000; round++) {
		int start = rand() % 64, end = start + 1 + rand() % (64 - start), who = rand() % 8;

		insert(&maps, start, end, 1000 * round, paths[who]);
		for (int i = start; i < end; i++) {
			owner[i] = who;
			off[i] = 1000 * round + (i - start);
		}
		for (int i = 0; i < 64; i++) {
			const struct map_entry *entry = maps__find(&maps, i);

			if (owner[i] < 0) {
				assert_null(entry);
				continue;
			}
			assert_non_null(entry);
			assert_string_equal(entry->path, paths[owner[i]]);
			assert_int_equal(entry->off + (i - entry->start), off[i]);
		}
		for (size_t i = 1; i < maps.n; i++)
			assert_true(maps.entries[i - 1].end <= maps.entries[i].start);
	}
	maps__free(&maps);
}

static void test_read_self(void **state)
{
	const struct map_entry *code, *stack;
	struct maps maps;

	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	code = maps__find(&maps, (uint64_t)(uintptr_t)&maps__read);
	assert_non_null(code);
	assert_true(code->executable);
	assert_true(code->file.inode != 0);
	stack = maps__find(&maps, (uint64_t)(uintptr_t)&maps);
	assert_non_null(stack);
	assert_false(stack->executable);
	maps__free(&maps);
}

/* More text than the first buffer holds. */
static void test_read_many(void **state)
{
	enum { N = 3000 };
	long page = sysconf(_SC_PAGESIZE);
	struct maps maps;
	char *area;

	(void)state;
	area = mmap(NULL, 2 * N * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(area != MAP_FAILED);
	for (int i = 0; i < N; i++)
		assert_int_equal(mprotect(area + 2 * i * page, page, PROT_READ), 0);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_true(maps.n >= 2 * N);
	for (int i = 0; i < N; i++) {
		const struct map_entry *entry =
			maps__find(&maps, (uint64_t)(uintptr_t)(area + 2 * i * page));

		assert_non_null(entry);
		assert_string_equal(entry->perms, "r--p");
	}
	maps__free(&maps);
	munmap(area, 2 * N * page);
}

static void test_read_missing(void **state)
{
	struct maps maps;
	pid_t child;

	(void)state;
	assert_int_equal(maps__read(0, &maps), -ESRCH);
	assert_int_equal(maps__read(-1, &maps), -ESRCH);
	assert_int_equal(maps__read(0x7fffffff, &maps), -ESRCH);

	/* A zombie exists, with an empty address space. */
	child = fork();
	if (child == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(maps__read(child, &maps), 0);
	assert_int_equal(maps.n, 0);
	maps__free(&maps);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(maps__read(child, &maps), -ESRCH);
}

/* A directory with a mapped file in it. */
struct scene {
	char dir[64], path[128], other[128];
	void *mapping;
	struct maps maps;
	struct map_entry entry; /* of the mapping, in maps */
};

static void write_file(const char *path, const char *content)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(pwrite(fd, content, strlen(content), 0), strlen(content));
}

static void look(struct scene *scene)
{
	const struct map_entry *entry;

	maps__free(&scene->maps);
	assert_int_equal(maps__read(getpid(), &scene->maps), 0);
	entry = maps__find(&scene->maps, (uint64_t)(uintptr_t)scene->mapping);
	assert_non_null(entry);
	scene->entry = *entry;
}

static void set_scene(struct scene *scene, const char *name)
{
	_cleanup_close_ int fd = -1;

	*scene = (struct scene){.dir = "/tmp/memtrace-maps-XXXXXX"};
	assert_non_null(mkdtemp(scene->dir));
	snprintf(scene->path, sizeof(scene->path), "%s/%s", scene->dir, name);
	snprintf(scene->other, sizeof(scene->other), "%s/other", scene->dir);
	write_file(scene->path, "the mapped one");
	fd = open(scene->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	scene->mapping = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(scene->mapping != MAP_FAILED);
	look(scene);
}

static void clear_scene(struct scene *scene)
{
	maps__free(&scene->maps);
	munmap(scene->mapping, 4096);
	unlink(scene->path);
	unlink(scene->other);
	assert_int_equal(rmdir(scene->dir), 0);
}

static void assert_opens_the_mapped_one(const struct map_entry *entry)
{
	_cleanup_close_ int fd = maps__open_file(getpid(), entry);
	char buf[32] = "";

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(pread(fd, buf, 14, 0), 14);
	assert_string_equal(buf, "the mapped one");
}

static void test_names_from_the_kernel(void **state)
{
	struct scene scene;

	(void)state;
	set_scene(&scene, "new\nline");
	assert_string_equal(scene.entry.path, scene.path);
	assert_opens_the_mapped_one(&scene.entry);
	clear_scene(&scene);

	set_scene(&scene, "back\\134slash ");
	assert_string_equal(scene.entry.path, scene.path);
	clear_scene(&scene);

	set_scene(&scene, "gone");
	unlink(scene.path);
	look(&scene);
	assert_true(scene.entry.deleted);
	assert_string_equal(scene.entry.path, scene.path);
	clear_scene(&scene);
}

/* Returns an entry with an extent that map_files does not have. Other ways to open the file must be
 * used. */
static struct map_entry unknown_extent(const struct map_entry *entry)
{
	struct map_entry other = *entry;

	other.start += 1;
	return other;
}

static bool may_follow_map_files(const struct map_entry *entry)
{
	char link[96];
	struct stat st;

	snprintf(link, sizeof(link), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, entry->start,
		 entry->end);
	return stat(link, &st) == 0;
}

static void test_open_file(void **state)
{
	struct map_entry entry;
	struct scene scene;
	struct stat st;

	(void)state;
	set_scene(&scene, "file");
	assert_opens_the_mapped_one(&scene.entry);

	/* btrfs shows another device in stat() than in maps */
	entry = unknown_extent(&scene.entry);
	assert_opens_the_mapped_one(&entry);
	/* The process does not exist, so the path itself is opened. */
	assert_int_equal(close(maps__open_file(0x7fffffff, &entry)), 0);

	/* Another file gets the name. */
	write_file(scene.other, "another one");
	assert_int_equal(rename(scene.other, scene.path), 0);
	assert_int_equal(maps__open_file(getpid(), &entry), -ESTALE);
	if (may_follow_map_files(&scene.entry))
		assert_opens_the_mapped_one(&scene.entry);

	/* A FIFO gets the name. The open must not block. (The alarm would kill the test.) */
	assert_int_equal(unlink(scene.path), 0);
	assert_int_equal(mkfifo(scene.path, 0600), 0);
	alarm(10);
	assert_int_equal(maps__open_file(getpid(), &entry), -ESTALE);
	assert_int_equal(stat(scene.path, &st), 0);
	entry.file.inode = st.st_ino;
	entry.file.dev_major = major(st.st_dev);
	entry.file.dev_minor = minor(st.st_dev);
	assert_int_equal(maps__open_file(getpid(), &entry), -EINVAL);
	alarm(0);

	assert_int_equal(unlink(scene.path), 0);
	assert_int_equal(maps__open_file(getpid(), &entry), -ENOENT);
	if (may_follow_map_files(&scene.entry))
		assert_opens_the_mapped_one(&scene.entry);
	clear_scene(&scene);
}

static void test_open_file_of_no_file(void **state)
{
	struct map_entry entry = region(0x1000, 0x2000, 0, "[heap]");
	const struct map_entry *shared;
	struct maps maps;
	void *zero;
	int fd;

	(void)state;
	assert_int_equal(maps__open_file(getpid(), &entry), -ENOENT);
	entry.file.inode = 5;
	assert_int_equal(maps__open_file(getpid(), &entry), -ENOENT);

	/* A mapped device. */
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	zero = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_true(zero != MAP_FAILED);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	shared = maps__find(&maps, (uint64_t)(uintptr_t)zero);
	assert_non_null(shared);
	assert_true(maps__open_file(getpid(), shared) < 0);
	maps__free(&maps);
	munmap(zero, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_hostile_names),
		cmocka_unit_test(test_parse_skips_what_is_malformed),
		cmocka_unit_test(test_parse_truncated),
		cmocka_unit_test(test_parse_random),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_insert),
		cmocka_unit_test(test_replaces_code),
		cmocka_unit_test(test_insert_model),
		cmocka_unit_test(test_read_self),
		cmocka_unit_test(test_read_many),
		cmocka_unit_test(test_read_missing),
		cmocka_unit_test(test_names_from_the_kernel),
		cmocka_unit_test(test_open_file),
		cmocka_unit_test(test_open_file_of_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
