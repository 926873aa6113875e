// SPDX-License-Identifier: BSD-2-Clause
/* gcc, objcopy and strip make the files. A directory stands for the root directory of a machine
 * with these files. The descriptor's link in /proc/self/fd shows which file was found. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "elf/debug_file.h"
#include "tests/unit/elf/shell.h"

static char dir[] = "/tmp/memtrace-debug-file-XXXXXX";

/* id: a stripped program with build-id and .gnu_debuglink; id.debug: its debug file. crc: a program
 * without build-id. other: a program of another build. crc and other have .gnu_debuglink and a
 * debug file, too. */
static int make_files(void **state)
{
	static const char *const source = "int shown(int x) { return x + 1; }"
					  "int main(int argc, char **argv)"
					  "{ (void)argv; return shown(argc) == 0; }";

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	shell_run(dir, "echo '%s' > p.c", source);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"id", "crc", "other"};
		static const char *const flags[] = {"-Wl,--build-id", "-Wl,--build-id=none",
						    "-O2 -Wl,--build-id=0x1234567890abcdef"};

		shell_run(dir,
			  "gcc -g %s -o %s.full p.c; objcopy --only-keep-debug %s.full %s.debug;"
			  "strip -o %s %s.full; objcopy --add-gnu-debuglink=%s.debug %s",
			  flags[i], names[i], names[i], names[i], names[i], names[i], names[i],
			  names[i]);
	}
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	shell_run(dir, "rm -rf %s", dir);
	return 0;
}

/* Makes root, a machine that has only the program, as usr/bin/prog. */
static void new_root(const char *program)
{
	shell_run(dir,
		  "rm -rf root outside; mkdir -p root/usr/bin root/usr/lib/debug outside;"
		  "cp %s root/usr/bin/prog",
		  program);
}

/* The path of the debug file for the build-id, by binutils's rule, without the first slash. */
static const char *id_path(const char *program)
{
	static char path[256];
	char command[512], id[129] = "";
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "readelf -n %s/%s | sed -n 's/.*Build ID: \\([0-9a-f]*\\)$/\\1/p'", dir, program);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%128s", id), 1);
	pclose(pipe);
	snprintf(path, sizeof(path), "usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	return path;
}

static int open_below(const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Searches the tree root (a name below dir, or "/") for the debug file of program; path is the
 * program's name in that tree. Returns the found file's name below dir, or NULL and *ret_err. */
static const char *look(const char *root, const char *program, const char *path, int *ret_err)
{
	_cleanup_close_ int root_fd = -1, program_fd = open_below(program, O_RDONLY), fd = -1;
	static char found[PATH_MAX];
	char link[64];
	ssize_t len;

	root_fd = *root == '/' ? open("/", O_PATH | O_CLOEXEC) : open_below(root, O_PATH);
	alarm(20); /* ends a call that waits for the writer of a FIFO, or reads without end */
	fd = debug_file__open(root_fd, program_fd, path);
	alarm(0);
	assert_int_equal(fcntl(program_fd, F_GETFD), FD_CLOEXEC); /* still open */
	assert_int_equal(fcntl(root_fd, F_GETFD), FD_CLOEXEC);
	*ret_err = fd < 0 ? fd : 0;
	if (fd < 0)
		return NULL;
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, found, sizeof(found) - 1);
	assert_true(len > 0);
	found[len] = '\0';
	assert_memory_equal(found, dir, strlen(dir));
	return found + strlen(dir) + 1;
}

/* Searches for the debug file of usr/bin/prog in the tree root. expected: its name below root, or
 * NULL if none may be found. */
static void assert_found(const char *expected)
{
	int err;
	const char *found = look("root", "root/usr/bin/prog", "/usr/bin/prog", &err);

	if (!expected) {
		if (found)
			fail_msg("found %s", found);
		assert_int_equal(err, -ENOENT);
		return;
	}
	assert_non_null(found);
	assert_memory_equal(found, "root/", 5);
	assert_string_equal(found + 5, expected);
}

static void test_places(void **state)
{
	const char *places[] = {id_path("id"), "usr/bin/id.debug", "usr/bin/.debug/id.debug",
				"usr/lib/debug/usr/bin/id.debug", "usr/lib/debug/bin/id.debug"};
	const size_t n = sizeof(places) / sizeof(*places);

	(void)state;
	new_root("id");
	assert_found(NULL);
	for (size_t i = 0; i < n; i++)
		shell_run(dir, "mkdir -p $(dirname root/%s); cp id.debug root/%s", places[i],
			  places[i]);
	/* of the places that still have a file, the first is used */
	for (size_t i = 0; i < n; i++) {
		assert_found(places[i]);
		shell_run(dir, "rm root/%s", places[i]);
	}
	assert_found(NULL);
	shell_run(dir,
		  "cp id.debug root/; cp id.debug root/usr/lib; cp id.debug root/usr/lib/debug");
	assert_found(NULL); /* other places are not searched */
}

static void test_places_by_crc(void **state)
{
	static const char *const places[] = {"usr/bin/crc.debug", "usr/bin/.debug/crc.debug",
					     "usr/lib/debug/usr/bin/crc.debug"};

	(void)state;
	new_root("crc");
	shell_run(dir, "mkdir -p root/usr/bin/.debug root/usr/lib/debug/usr/bin");
	for (size_t i = 0; i < 3; i++)
		shell_run(dir, "cp crc.debug root/%s", places[i]);
	assert_found(places[0]);
	shell_run(dir, "printf x >> root/%s", places[0]); /* one byte more */
	assert_found(places[1]);
	shell_run(dir, "cp other.debug root/%s", places[1]);
	assert_found(places[2]);
	shell_run(dir, "printf x | dd of=root/%s bs=1 seek=100 conv=notrunc status=none",
		  places[2]);
	assert_found(NULL);
}

/* A file with the right name that belongs to another build is refused. */
static void test_others(void **state)
{
	const char *by_id = id_path("id");

	(void)state;
	new_root("id");
	shell_run(dir, "mkdir -p $(dirname root/%s); cp other.debug root/%s", by_id, by_id);
	assert_found(NULL);
	shell_run(dir, "cp id.debug root/usr/bin");
	assert_found("usr/bin/id.debug");
	shell_run(dir, "cp crc.debug root/usr/bin/id.debug"); /* no build-id at all */
	assert_found(NULL);

	/* Only the build-id counts. A debug file with a right CRC and a wrong build-id is refused.
	 * One with a wrong CRC and the right build-id is used. */
	shell_run(dir,
		  "cp other.debug link.debug; cp id both; objcopy --remove-section=.gnu_debuglink "
		  "both;"
		  "objcopy --add-gnu-debuglink=link.debug both");
	new_root("both");
	shell_run(dir, "cp link.debug root/usr/bin");
	assert_found(NULL);
	shell_run(dir, "cp id.debug root/usr/bin/link.debug");
	assert_found("usr/bin/link.debug");
}

/* /lib and /usr/lib are one directory on most systems. Debug files may be under either name. */
static void test_merged_usr(void **state)
{
	int err;

	(void)state;
	new_root("id");
	shell_run(dir,
		  "mkdir -p root/usr/lib/x root/usr/lib/debug/lib/x root/usr/lib/debug/usr/lib/x;"
		  "ln -s usr/lib root/lib; cp id root/usr/lib/x/id.so;"
		  "cp id.debug root/usr/lib/debug/lib/x");
	assert_string_equal(look("root", "id", "/usr/lib/x/id.so", &err),
			    "root/usr/lib/debug/lib/x/id.debug");
	assert_string_equal(look("root", "id", "/lib/x/id.so", &err),
			    "root/usr/lib/debug/lib/x/id.debug");
	shell_run(dir, "mv root/usr/lib/debug/lib/x/id.debug root/usr/lib/debug/usr/lib/x");
	assert_string_equal(look("root", "id", "/usr/lib/x/id.so", &err),
			    "root/usr/lib/debug/usr/lib/x/id.debug");
	assert_string_equal(look("root", "id", "/lib/x/id.so", &err),
			    "root/usr/lib/debug/usr/lib/x/id.debug");
	shell_run(dir, "mv root/usr/lib/debug/usr/lib/x/id.debug root/usr/lib/x");
	assert_string_equal(look("root", "id", "/lib/x/id.so", &err), "root/usr/lib/x/id.debug");

	/* The program is at the top of the tree. */
	shell_run(dir, "rm root/usr/lib/x/id.debug; cp id.debug root/");
	assert_string_equal(look("root", "id", "/id", &err), "root/id.debug");
	shell_run(dir, "mv root/id.debug root/usr/lib/debug");
	assert_string_equal(look("root", "id", "/id", &err), "root/usr/lib/debug/id.debug");
	assert_string_equal(look("root", "id", "/usr/id", &err), "root/usr/lib/debug/id.debug");
	assert_null(look("root", "id", "/usrx/id", &err));
	assert_int_equal(err, -ENOENT);
}

/* --- out of the root --- */

/* Puts a link at `place` in the root. The link leads to `directory`, outside of the root. */
static void lay_link(const char *place, const char *directory)
{
	shell_run(dir, "rm -rf root/%s; mkdir -p $(dirname root/%s); ln -s %s root/%s", place,
		  place, directory, place);
}

static void test_links_stay_inside(void **state)
{
	char outside[PATH_MAX], up[PATH_MAX], by_id[256];

	(void)state;
	new_root("id");
	strcpy(by_id, id_path("id"));
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	snprintf(up, sizeof(up), "../../../../../../../../../../../..%s/outside", dir);
	shell_run(dir, "mkdir -p outside/$(dirname %s) outside/usr/bin", by_id);
	shell_run(dir, "cp id.debug outside/%s; cp id.debug outside/id.debug", by_id);

	for (int i = 0; i < 2; i++) { /* absolute links, then links with ../ */
		const char *to = i ? up : outside;
		char target[2 * PATH_MAX];
		struct stat st;

		snprintf(target, sizeof(target), "%s/usr/lib/debug/.build-id", to);
		lay_link("usr/lib/debug/.build-id", target);
		lay_link("usr/bin/.debug", to);
		snprintf(target, sizeof(target), "%s/id.debug", to);
		lay_link("usr/bin/id.debug", target);
		lay_link("usr/lib/debug/usr/bin", to);
		/* From this process's root directory, the links lead to the files outside. */
		snprintf(target, sizeof(target), "%s/root/%s", dir, by_id);
		assert_int_equal(stat(target, &st), 0);
		snprintf(target, sizeof(target), "%s/root/usr/bin/id.debug", dir);
		assert_int_equal(stat(target, &st), 0);
		assert_found(NULL);
	}

	/* From the machine's root, the same links may lead to files inside of the root. */
	shell_run(dir, "mkdir -p root/%s; cp -r outside/. root/%s", dir, dir);
	snprintf(outside, sizeof(outside), "%s/outside/%s", dir + 1, by_id);
	assert_found(NULL);
	shell_run(dir, "mkdir -p root/%s/outside; cp -r outside/. root/%s/outside", dir, dir);
	assert_found(outside);
	shell_run(dir, "rm -r root/usr/lib/debug/.build-id");
	snprintf(outside, sizeof(outside), "%s/outside/id.debug", dir + 1);
	assert_found(outside);

	/* On Fedora, the files named by build-id are links to debug files named by program. */
	shell_run(dir,
		  "rm -rf root/usr/lib/debug/*; mkdir -p $(dirname root/%s) "
		  "root/usr/lib/debug/usr/bin;"
		  "cp id.debug root/usr/lib/debug/usr/bin/prog.debug; rm root/usr/bin/id.debug;"
		  "ln -s ../../usr/bin/prog.debug root/%s",
		  by_id, by_id);
	assert_found("usr/lib/debug/usr/bin/prog.debug");
}

/* A magic link of /proc leads to its file even if the file is outside of the root. Such a link is
 * not followed. */
static void test_magic_links(void **state)
{
	_cleanup_close_ int fd = open_below("id.debug", O_RDONLY);
	char path[PATH_MAX];
	struct stat st;
	int err;

	(void)state;
	new_root("id");
	shell_run(dir, "ln -s /proc/%d/fd/%d root/usr/bin/id.debug", getpid(), fd);
	snprintf(path, sizeof(path), "%s/root/usr/bin/prog", dir);
	assert_null(look("/", "id", path, &err));
	assert_int_equal(err, -ENOENT);
	shell_run(dir,
		  "rm root/usr/bin/id.debug; ln -s /proc/%d/root%s/id.debug root/usr/bin/id.debug",
		  getpid(), dir);
	assert_null(look("/", "id", path, &err));
	assert_int_equal(err, -ENOENT);
	shell_run(dir, "rm root/usr/bin/id.debug; ln -s %s/id.debug root/usr/bin/id.debug", dir);
	assert_string_equal(look("/", "id", path, &err), "id.debug"); /* a usual link is followed */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(stat(path, &st), 0);
}

/* --- files that are no debug files --- */

static void test_no_files(void **state)
{
	static const char *const makers[] = {
		"mkfifo %s",
		"mkdir %s",
		"ln -s /dev/zero %s",
		"ln -s /dev/full %s",
		"ln -s id.debug %s",
		"ln -s . %s",
		": > %s",
		"printf '\\177ELF' > %s",
		"head -c 100 id.debug > %s",
		"truncate -s 1T %s",
		"gcc -g -Wl,--build-id -c -o %s p.c",
		"cp /proc/self/maps %s",
	};
	const char *by_id = id_path("id");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	int err, fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/root/usr/bin/prog", dir);
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		char place[256], command[512];

		new_root("id");
		for (int k = 0; k < 2; k++) {
			snprintf(place, sizeof(place), "root/%s", k ? "usr/bin/id.debug" : by_id);
			shell_run(dir, "mkdir -p $(dirname %s)", place);
			snprintf(command, sizeof(command), makers[i], place);
			shell_run(dir, "%s", command);
		}
		assert_found(NULL);
		assert_null(look("/", "id", path, &err)); /* "/" has /dev/zero */
		assert_int_equal(err, -ENOENT);
		shell_run(dir, "mkdir -p root/usr/bin/.debug; cp id.debug root/usr/bin/.debug");
		assert_found("usr/bin/.debug/id.debug"); /* the search goes on in the next place */
	}

	new_root("id");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/root/usr/bin/id.debug", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_found(NULL);
	close(fd);
}

/* A program is never its own debug file, not even under another name. */
static void test_itself(void **state)
{
	const char *by_id = id_path("id");

	(void)state;
	new_root("id");
	shell_run(dir,
		  "cd root/usr/bin; ln -s prog id.debug; mkdir .debug; ln prog .debug/id.debug");
	shell_run(dir, "mkdir -p $(dirname root/%s); ln root/usr/bin/prog root/%s", by_id, by_id);
	assert_found(NULL);
	shell_run(dir, "rm root/usr/bin/.debug/id.debug; cp id.debug root/usr/bin/.debug/");
	assert_found("usr/bin/.debug/id.debug");
}

/* --- hostile links --- */

/* Makes linked: a copy of the program with these bytes as .gnu_debuglink. */
static void set_link(const char *program, const void *bytes, size_t len)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/link.bin", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	shell_run(dir,
		  "objcopy --remove-section=.gnu_debuglink %s linked;"
		  "objcopy --add-section=.gnu_debuglink=link.bin linked",
		  program);
}

static void test_hostile_links(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool found;
	} cases[] = {
		{"good\0\0\0\0\1\2\3\4", 12, true},
		{"good\0xyz\1\2\3\4more", 16, true},
		{"good\0\0\0\0\1\2\3", 11, false}, /* no room for the CRC */
		{"good\0", 5, false},
		{"good", 4, false},
		{"g", 1, false},
		{"\0\0\0\0\1\2\3\4", 8, false}, /* no name */
		{"x/good\0\0\1\2\3\4", 12, false},
		{"/good\0\0\0\1\2\3\4", 12, false},
		{"../bin/good\0\1\2\3\4", 16, false},
		{".\0\0\0\1\2\3\4", 8, false},
		{"..\0\0\1\2\3\4", 8, false},
	};
	char name[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		set_link("id", cases[i].bytes, cases[i].len);
		new_root("linked");
		shell_run(dir, "cp id.debug root/usr/bin/good; mkdir root/usr/bin/x; cp id.debug "
			       "root/usr/bin/x;"
			       "cp id.debug root/usr/bin/x/good; cp id.debug root/good; ls -s root "
			       ">/dev/null");
		assert_found(cases[i].found ? "usr/bin/good" : NULL);
	}

	/* Names as long as a file's name can be, and longer. */
	for (size_t len = 253; len < 258; len++) {
		memset(name, 'n', sizeof(name));
		memset(name + len, '\0', 8);
		set_link("id", name, (len + 4) / 4 * 4 + 4);
		new_root("linked");
		if (len <= 255)
			shell_run(dir, "cp id.debug root/usr/bin/%s", name);
		else
			shell_run(dir, "cp id.debug root/usr/bin/%.255s", name);
		if (len <= 255) {
			char expected[320];

			snprintf(expected, sizeof(expected), "usr/bin/%s", name);
			assert_found(expected);
		} else {
			assert_found(NULL);
		}
	}
	memset(name, 'n', sizeof(name)); /* without a NUL */
	set_link("id", name, sizeof(name));
	new_root("linked");
	assert_found(NULL);
}

/* Some bytes have the CRC crc. Returns the CRC of these bytes with len zero bytes after them. */
static uint32_t crc_of_zeros(uint32_t crc, uint64_t len)
{
	static const unsigned char zeros[4096];
	uLong block = crc32(0, zeros, sizeof(zeros));

	for (z_off_t size = sizeof(zeros); len >= sizeof(zeros); size *= 2) {
		if (len & (uint64_t)size) {
			crc = (uint32_t)crc32_combine(crc, block, size);
			len -= (uint64_t)size;
		}
		block = crc32_combine(block, block, size);
	}
	return (uint32_t)crc32(crc, zeros, (uInt)len);
}

/* Makes usr/bin/big of this size: the bytes of crc.debug and then zeros. The program's
 * .gnu_debuglink names this file and has its right CRC. */
static void large_file(uint64_t size)
{
	_cleanup_free_ unsigned char *head = NULL;
	_cleanup_close_ int fd = open_below("crc.debug", O_RDONLY);
	unsigned char link[12] = "big";
	struct stat st;
	uint32_t crc;

	assert_int_equal(fstat(fd, &st), 0);
	head = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, head, (size_t)st.st_size), st.st_size);
	crc = crc_of_zeros((uint32_t)crc32(0, head, (uInt)st.st_size), size - (uint64_t)st.st_size);
	memcpy(link + 4, &crc, sizeof(crc));
	set_link("crc", link, 8);
	new_root("linked");
	shell_run(dir, "cp crc.debug root/usr/bin/big; truncate -s %lu root/usr/bin/big", size);
}

/* At most 1 GiB is read for a CRC, even if the file that a program names is larger. */
static void test_large_files(void **state)
{
	(void)state;
	large_file(100 << 20);
	assert_found("usr/bin/big");
	large_file((1ull << 30) + 1);
	assert_found(NULL);

	/* The limit is for all files together: of two files of 600 MiB, the second is not read. */
	large_file(600 << 20);
	shell_run(dir, "cd root/usr/bin; mkdir .debug; cp --sparse=always big .debug/; "
		       "printf x | dd of=big bs=1 seek=9999999 conv=notrunc status=none");
	assert_found(NULL);
	shell_run(dir, "cd root/usr/bin; mv .debug/big .");
	assert_found("usr/bin/big");
}

/* Many programs with large debug files may take only so much time together. This must be the last
 * test. */
static void test_many_large_files(void **state)
{
	int n = 0, err;

	(void)state;
	large_file(900 << 20);
	while (n < 5 && look("root", "root/usr/bin/prog", "/usr/bin/prog", &err))
		n++;
	assert_in_range(n, 1, 4);
	/* there is still room for a small file */
	large_file(1 << 20);
	assert_found("usr/bin/big");
}

/* --- hostile and odd programs --- */

static void test_without_sections(void **state)
{
	const char *by_id = id_path("id");

	(void)state;
	/* e_shoff; e_shnum and e_shstrndx */
	shell_run(dir, "cp id bare; printf '\\0\\0\\0\\0\\0\\0\\0\\0' | "
		       "dd of=bare bs=1 seek=40 conv=notrunc status=none; printf '\\0\\0\\0\\0' | "
		       "dd of=bare bs=1 seek=60 conv=notrunc status=none");
	new_root("bare");
	shell_run(dir,
		  "mkdir -p $(dirname root/%s); cp id.debug root/%s; cp id.debug root/usr/bin/",
		  by_id, by_id);
	assert_found(by_id);
	shell_run(dir, "rm root/%s", by_id);
	assert_found(NULL); /* .gnu_debuglink is a section */
}

static void assert_refused(const char *program, const char *path, int expected)
{
	int err;

	assert_null(look("root", program, path, &err));
	assert_int_equal(err, expected);
}

static void test_errors(void **state)
{
	_cleanup_close_ int root_fd = -1;
	struct rlimit old, few;
	char path[2 * PATH_MAX];

	(void)state;
	new_root("id");
	shell_run(dir,
		  "cp id.debug root/usr/bin; echo hello > text; : > empty; gcc -c -o object.o p.c;"
		  "printf '\\001' > one; cp id id32; dd if=one of=id32 bs=1 seek=4 conv=notrunc "
		  "status=none;"
		  "head -c 63 id > cut");
	root_fd = open_below("root", O_PATH);
	assert_refused("text", "/usr/bin/prog", -ENOEXEC);
	assert_refused("empty", "/usr/bin/prog", -ENOEXEC);
	assert_refused("object.o", "/usr/bin/prog", -ENOEXEC);
	assert_refused("id32", "/usr/bin/prog", -ENOEXEC);
	assert_refused("cut", "/usr/bin/prog", -ENOEXEC);
	assert_refused("root", "/usr/bin/prog", -EISDIR);
	assert_refused("id", "usr/bin/prog", -EINVAL);
	assert_refused("id", "", -EINVAL);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[PATH_MAX] = '\0';
	assert_refused("id", path, -EINVAL);
	path[PATH_MAX - 1] = '\0';
	assert_refused("id", path, -ENOENT);
	path[PATH_MAX - 3] = '/';
	assert_refused("id", path, -ENOENT);
	assert_int_equal(debug_file__open(root_fd, -1, "/usr/bin/prog"), -EBADF);

	{
		_cleanup_close_ int fd = open_below("id", O_RDONLY);

		assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
		few = old;
		few.rlim_cur = 3;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_equal(debug_file__open(root_fd, fd, "/usr/bin/prog"), -EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	}
	assert_found("usr/bin/id.debug");
}

static unsigned char *read_whole(const char *name, size_t *ret_len)
{
	_cleanup_close_ int fd = open_below(name, O_RDONLY);
	unsigned char *bytes;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	*ret_len = (size_t)st.st_size;
	bytes = malloc(*ret_len);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, *ret_len), st.st_size);
	return bytes;
}

/* Headers claim sizes of 512 GiB, and the sparse file is that large. Under ASan, an attempt to
 * allocate so much memory ends the test. */
static void test_huge_claims(void **state)
{
	const uint64_t huge = 1ull << 39;
	_cleanup_free_ unsigned char *bytes = NULL;
	Elf64_Ehdr *header;
	size_t len;

	(void)state;
	bytes = read_whole("id", &len);
	header = (Elf64_Ehdr *)bytes;
	for (int i = 0; i < header->e_shnum; i++) {
		Elf64_Shdr *section = (Elf64_Shdr *)(bytes + header->e_shoff) + i;

		if (section->sh_type == SHT_NOTE || i == header->e_shstrndx)
			section->sh_size = huge;
	}
	for (int i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr *segment = (Elf64_Phdr *)(bytes + header->e_phoff) + i;

		if (segment->p_type == PT_NOTE)
			segment->p_filesz = huge;
	}
	for (int round = 0; round < 3; round++) {
		_cleanup_close_ int fd = -1;

		if (round == 1)
			header->e_shoff = header->e_shnum = 0;
		if (round == 2) { /* too many sections: the end of the file cuts off the table */
			header->e_shoff = huge + len - 3000000;
			header->e_shnum = 65000;
		}
		shell_run(dir, "cp id huge");
		fd = open_below("huge", O_WRONLY);
		assert_int_equal(pwrite(fd, bytes, len, 0), len);
		assert_int_equal(ftruncate(fd, (off_t)(huge + len)), 0);
		new_root("crc");
		shell_run(dir, "mv huge root/usr/bin/prog; cp id.debug root/usr/bin");
		/* In round 0 the link can still be read, and its CRC confirms the debug file. */
		assert_found(round == 0 ? "usr/bin/id.debug" : NULL);
	}
}

static void mutate(const char *victim, const char *name, unsigned int rounds)
{
	_cleanup_close_ int root_fd = open_below("root", O_PATH), fd = -1;
	_cleanup_close_ int out = open_below(name, O_WRONLY);
	_cleanup_free_ unsigned char *good = NULL, *bad = NULL;
	uint64_t x = 0x9e3779b97f4a7c15ull;
	unsigned int found = 0, err = 0;
	size_t len, headers;

	good = read_whole(victim, &len);
	bad = malloc(len);
	fd = open_below("root/usr/bin/prog", O_RDONLY);
	memcpy(&headers, good + offsetof(Elf64_Ehdr, e_shoff), sizeof(headers));
	for (unsigned int i = 0; i < rounds; i++) {
		_cleanup_close_ int got = -1;
		size_t size;

		memcpy(bad, good, len);
		for (unsigned int k = 0; k <= i % 8; k++) {
			size_t at;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* mostly in the header, notes, names and section headers */
			at = i % 4 == 0	  ? (x >> 16) % len
			     : i % 4 == 1 ? (x >> 16) % 1024
			     : i % 4 == 2 ? (x >> 16) % 64
					  : headers + (x >> 16) % (len - headers);
			bad[at] = (unsigned char)(x % 3 ? x >> 8 : x % 5 ? 0xff : 0);
		}
		size = i % 10 == 9 ? 1 + (x >> 20) % len : len;
		assert_int_equal(pwrite(out, bad, size, 0), size);
		assert_int_equal(ftruncate(out, (off_t)size), 0);
		got = debug_file__open(root_fd, fd, "/usr/bin/prog");
		assert_true(got >= 0 || got == -ENOENT || got == -ENOEXEC);
		found += got >= 0;
		err += got < 0;
	}
	print_message("%s: %u found, %u not\n", victim, found, err);
	assert_true(found > rounds / 20 && err > rounds / 20);
}

static void test_mutated(void **state)
{
	const char *by_id = id_path("id");
	char path[512];

	(void)state;
	alarm(120);
	new_root("id");
	shell_run(dir, "cp id.debug root/usr/bin/");
	mutate("id", "root/usr/bin/prog", 3000);
	new_root("crc");
	shell_run(dir, "cp crc.debug root/usr/bin/");
	mutate("crc", "root/usr/bin/prog", 2000);
	new_root("id");
	shell_run(dir, "mkdir -p $(dirname root/%s); cp id.debug root/%s", by_id, by_id);
	snprintf(path, sizeof(path), "root/%s", by_id);
	mutate("id.debug", path, 2000);
	alarm(0);
}

static int count_descriptors(void)
{
	_cleanup_closedir_ DIR *fds = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(fds))
		n++;
	return n;
}

static int n_before;

static void test_first(void **state)
{
	(void)state;
	n_before = count_descriptors();
}

static void test_no_descriptor_is_left(void **state)
{
	(void)state;
	assert_int_equal(count_descriptors(), n_before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_places_by_crc),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_merged_usr),
		cmocka_unit_test(test_links_stay_inside),
		cmocka_unit_test(test_magic_links),
		cmocka_unit_test(test_no_files),
		cmocka_unit_test(test_itself),
		cmocka_unit_test(test_hostile_links),
		cmocka_unit_test(test_large_files),
		cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_huge_claims),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_no_descriptor_is_left),
		cmocka_unit_test(test_many_large_files),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
