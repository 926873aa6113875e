// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/binary.h"

static char dir[] = "/tmp/memtrace-binary-XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return chdir("/") || system(command);
}

static int open_descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(list))
		n++;
	closedir(list);
	return n;
}

/* Returns how many binaries have been added. */
static size_t n_binaries(const struct binaries *binaries)
{
	char *array = NULL;
	size_t n = 0;

	assert_int_equal(binaries__grow(binaries, &array, &n, 1), 0);
	free(array);
	return n;
}

static void run(const char *command)
{
	assert_int_equal(system(command), 0);
}

/* Compiles a library. flags go to gcc and tell it the build-id. */
static void make_library(const char *name, const char *flags)
{
	char command[512];

	run("echo 'int f(int x) { return x + 1; }' >f.c");
	snprintf(command, sizeof(command), "gcc -shared -fPIC -o %s %s f.c", name, flags);
	run(command);
}

/* Adds a file of dir as if the maps of a process named it. */
static struct binary *add(struct binaries *binaries, const char *name, struct file_id *ret_id)
{
	struct binary *binary = NULL;
	int fd = open(name, O_RDONLY | O_CLOEXEC), root = open("/", O_PATH | O_CLOEXEC);
	char path[512];
	struct stat st;

	assert_true(fd >= 0 && !fstat(fd, &st));
	*ret_id = (struct file_id){1, 2, st.st_ino};
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(binaries__add(binaries, ret_id, fd, root, path, &binary), 0);
	close(root);
	assert_ptr_equal(binaries__find(binaries, ret_id), binary);
	return binary;
}

static void test_known_once(void **state)
{
	int before = open_descriptors();
	struct binaries *binaries;
	struct binary *a, *b;
	struct file_id id_a, id_b, unknown = {1, 2, 1};
	struct file_state known;
	struct stat st;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	assert_false(binaries__state(binaries, &unknown, &known));
	assert_null(binaries__find(binaries, &unknown));
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	make_library("b.so", "-Wl,--build-id=0xbbbbbbbb");
	a = add(binaries, "a.so", &id_a);
	b = add(binaries, "b.so", &id_b);
	assert_true(a && b && a != b);
	assert_int_equal(n_binaries(binaries), 2);
	assert_string_equal(elf_image__build_id(a->image), "aaaaaaaa");
	/* a third id is unknown */
	assert_null(binaries__find(binaries, &unknown));
	assert_int_equal(stat("b.so", &st), 0);
	assert_true(binaries__state(binaries, &id_b, &known));
	assert_int_equal(known.size, st.st_size);
	assert_memory_equal(&known.changed, &st.st_ctim, sizeof(known.changed));
	/* a file is still known after its name was removed */
	run("rm a.so");
	assert_ptr_equal(binaries__find(binaries, &id_a), a);
	binaries__free(binaries);
	assert_int_equal(open_descriptors(), before);
	binaries__free(NULL);
}

/* Copies of a library, as in many containers, count as one binary. A file with the same build-id
 * and other content is another binary. */
static void test_copies(void **state)
{
	struct binaries *binaries;
	struct binary *a, *b;
	struct file_id id_a, id_b;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	run("cp a.so copy.so; cp a.so liar.so; cp a.so open.so; chmod 666 open.so");
	run("printf x | dd of=liar.so bs=1 seek=$(($(stat -c %s liar.so) - 1)) conv=notrunc "
	    "2>/dev/null");
	a = add(binaries, "a.so", &id_a);
	b = add(binaries, "copy.so", &id_b);
	assert_ptr_equal(a, b);
	assert_memory_not_equal(&id_a, &id_b, sizeof(id_a));
	assert_ptr_equal(binaries__find(binaries, &id_a), a);
	assert_int_equal(n_binaries(binaries), 1);
	assert_ptr_not_equal(add(binaries, "liar.so", &id_b), a);
	assert_int_equal(n_binaries(binaries), 2);
	/* A file to which anybody may write must not be used in place of a protected copy. */
	binaries__free(binaries);
	assert_int_equal(binaries__new(&binaries), 0);
	b = add(binaries, "open.so", &id_b);
	assert_ptr_not_equal(add(binaries, "a.so", &id_a), b);
	binaries__free(binaries);
}

/* Copies share a binary, but each copy is a file of its own, with its own mark. After a copy's name
 * was removed, the copy's own descriptor is used. */
static void test_copies_are_files(void **state)
{
	struct binaries *binaries;
	struct file_id id_a, id_b, unknown = {1, 2, 1};
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	run("cp a.so copy.so");
	assert_ptr_equal(add(binaries, "a.so", &id_a), add(binaries, "copy.so", &id_b));
	assert_int_equal(*binaries__mark(binaries, &id_a), 0);
	*binaries__mark(binaries, &id_a) = 2;
	assert_int_equal(*binaries__mark(binaries, &id_a), 2);
	assert_int_equal(*binaries__mark(binaries, &id_b), 0);
	assert_null(binaries__mark(binaries, &unknown));
	run("rm a.so copy.so");
	fd = binaries__open(binaries, &id_b);
	assert_true(fd >= 0 && !fstat(fd, &st));
	assert_int_equal(st.st_ino, id_b.inode);
	close(fd);
	assert_int_equal(binaries__open(binaries, &unknown), -ENOENT);
	binaries__free(binaries);
}

/* Adds a sparse file of 1 GiB in memory. All these files begin like a.so, but each ends
 * differently. */
static void add_liar(struct binaries *binaries, int i)
{
	struct file_id id = {1, 3, (uint64_t)i + 1};
	struct binary *binary = NULL;
	int fd = memfd_create("liar", MFD_CLOEXEC);
	char command[64];

	assert_true(fd >= 0 && !fchmod(fd, 0644));
	snprintf(command, sizeof(command), "cat a.so >/proc/%d/fd/%d", getpid(), fd);
	run(command);
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	assert_int_equal(pwrite(fd, &i, sizeof(i), (1 << 30) - sizeof(i)), sizeof(i));
	assert_int_equal(binaries__add(binaries, &id, fd, -1, "/liar", &binary), 0);
}

static void ignore(void *ctx, const struct file_id *id, const struct file_id *real, bool last)
{
	(void)ctx, (void)id, (void)real, (void)last;
}

/* Each file is compared with all earlier ones, and this work must have a limit. The limit grows
 * with time. */
static void test_many_liars(void **state)
{
	struct binaries *binaries;
	struct file_id id;
	struct binary *a;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	run("cp a.so copy.so; cp a.so late.so; cp a.so later.so");
	a = add(binaries, "a.so", &id);
	for (int i = 0; i < 3; i++)
		add_liar(binaries, i);
	assert_ptr_equal(add(binaries, "copy.so", &id), a);
	for (int i = 3; i < 30; i++)
		add_liar(binaries, i);
	assert_ptr_not_equal(add(binaries, "late.so", &id), a);
	binaries__evict(binaries, 1, UINT64_MAX, ignore, NULL);
	assert_ptr_not_equal(add(binaries, "late.so", &id), a);
	binaries__evict(binaries, 1000000001, UINT64_MAX, ignore, NULL);
	assert_ptr_equal(add(binaries, "later.so", &id), a);
	binaries__free(binaries);
}

static void test_copy_of_another_owner(void **state)
{
	struct binaries *binaries;
	struct binary *theirs;
	struct file_id id;

	(void)state;
	if (geteuid()) {
		print_message("changing a file's owner takes root\n");
		skip();
	}
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	run("cp a.so theirs.so; chown 65534 theirs.so");
	theirs = add(binaries, "theirs.so", &id);
	assert_ptr_not_equal(add(binaries, "a.so", &id), theirs);
	binaries__free(binaries);
}

/* A file is overwritten in place, so the same inode becomes another library. */
static void test_written_to(void **state)
{
	struct binaries *binaries;
	struct binary *before, *after;
	struct file_id id, again;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	make_library("b.so", "-Wl,--build-id=0xbbbbbbbb -Wl,-z,noseparate-code");
	before = add(binaries, "a.so", &id);
	run("sleep 0.02; cat b.so >a.so");
	assert_null(binaries__find(binaries, &id));
	after = add(binaries, "a.so", &again);
	assert_memory_equal(&id, &again, sizeof(id));
	assert_ptr_not_equal(before, after);
	assert_string_equal(elf_image__build_id(after->image), "bbbbbbbb");
	binaries__free(binaries);
}

/* A binary has two copies, and holds a descriptor of one of them. This copy is overwritten in
 * place. From then on the binary holds a descriptor of the other copy. */
static void test_copy_written_to(void **state)
{
	struct file_id id_a, id_b, again;
	struct binaries *binaries;
	struct binary *old;
	struct stat st;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	make_library("c.so", "-Wl,--build-id=0xcccccccc -Wl,-z,noseparate-code");
	run("cp a.so b.so");
	old = add(binaries, "a.so", &id_a);
	assert_ptr_equal(add(binaries, "b.so", &id_b), old);
	assert_int_equal(fstat(old->fd, &st), 0);
	assert_int_equal(st.st_ino, id_a.inode);
	run("sleep 0.02; cat c.so >a.so");
	assert_ptr_not_equal(add(binaries, "a.so", &again), old);
	assert_ptr_equal(binaries__find(binaries, &id_b), old);
	assert_int_equal(fstat(old->fd, &st), 0);
	assert_int_equal(st.st_ino, id_b.inode);
	binaries__free(binaries);
}

static struct file_id gone[4], gone_real[4];
static bool gone_last[4];
static size_t n_gone;

static void note_gone(void *ctx, const struct file_id *id, const struct file_id *real, bool last)
{
	(void)ctx;
	assert_true(n_gone < 4);
	gone[n_gone] = *id;
	gone_real[n_gone] = *real;
	gone_last[n_gone++] = last;
}

static size_t evict(struct binaries *binaries, uint64_t now_ns)
{
	n_gone = 0;
	return binaries__evict(binaries, now_ns, 10, note_gone, NULL);
}

/* Has this process a descriptor of the file? */
static bool is_held(uint64_t inode)
{
	bool held = false;
	struct stat st;

	for (int fd = 3; fd < 64; fd++)
		held = held || (!fstat(fd, &st) && st.st_ino == inode);
	return held;
}

/* Unused files are closed after a while. A deleted file is closed at once, because only this
 * process's descriptor still holds its disk blocks. */
static void test_unused_are_let_go(void **state)
{
	struct binary *a, *b, *again;
	struct binaries *binaries;
	struct file_id id_a, id_b;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	make_library("b.so", "-Wl,--build-id=0xbbbbbbbb");
	a = add(binaries, "a.so", &id_a);
	b = add(binaries, "b.so", &id_b);
	for (uint64_t now = 100; now < 200; now += 10) {
		binaries__use(binaries, &id_a);
		binaries__use(binaries, &id_b);
		assert_int_equal(evict(binaries, now), 0);
	}
	binaries__use(binaries, &id_a);
	assert_int_equal(evict(binaries, 200), 1);
	assert_int_equal(evict(binaries, 209), 2);
	assert_int_equal(n_gone, 0);
	assert_int_equal(evict(binaries, 210), 1);
	assert_int_equal(n_gone, 1);
	assert_memory_equal(&gone[0], &id_b, sizeof(id_b));
	assert_null(binaries__find(binaries, &id_b));
	assert_false(is_held(id_b.inode));
	assert_ptr_equal(binaries__find(binaries, &id_a), a);
	/* use of a file starts its idle time anew */
	binaries__use(binaries, &id_a);
	assert_int_equal(evict(binaries, 219), 0);
	assert_int_equal(evict(binaries, 220), 1);
	run("rm a.so");
	assert_int_equal(evict(binaries, 221), 0);
	assert_int_equal(n_gone, 1);
	assert_false(is_held(id_a.inode));
	/* without binaries__reuse(), an index is never given to another binary */
	again = add(binaries, "b.so", &id_b);
	assert_int_equal(again->index, 2);
	assert_int_equal(n_binaries(binaries), 3);
	(void)b;
	binaries__free(binaries);
}

/* Three files on overlayfs. Two of them share the pages of one file on a layer below. */
static void test_files_of_one_layer(void **state)
{
	const struct file_id below = {8, 1, 77}, other = {8, 1, 78};
	struct file_id a, b, c, changed;
	struct binaries *binaries;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	make_library("b.so", "-Wl,--build-id=0xbbbbbbbb");
	make_library("c.so", "-Wl,--build-id=0xcccccccc");
	add(binaries, "a.so", &a);
	add(binaries, "b.so", &b);
	add(binaries, "c.so", &c);
	assert_null(binaries__real(binaries, &below));
	assert_memory_equal(binaries__real(binaries, &a), &a, sizeof(a));
	binaries__set_real(binaries, &a, &below);
	binaries__set_real(binaries, &b, &below);
	binaries__set_real(binaries, &c, &other);
	assert_memory_equal(binaries__real(binaries, &a), &below, sizeof(below));

	*binaries__mark(binaries, &c) = 5;
	binaries__mark_all(binaries, &below, 7);
	assert_int_equal(*binaries__mark(binaries, &a), 7);
	assert_int_equal(*binaries__mark(binaries, &b), 7);
	assert_int_equal(*binaries__mark(binaries, &c), 5);

	binaries__use(binaries, &a);
	binaries__use(binaries, &c);
	evict(binaries, 100);
	binaries__use(binaries, &a);
	binaries__use(binaries, &c);
	evict(binaries, 110);
	assert_int_equal(n_gone, 1);
	assert_memory_equal(&gone[0], &b, sizeof(b));
	assert_memory_equal(&gone_real[0], &below, sizeof(below));
	assert_false(gone_last[0]);
	evict(binaries, 120);
	evict(binaries, 130);
	assert_int_equal(n_gone, 2);
	assert_true(gone_last[0] && gone_last[1]);

	/* new contents in place: the file on the layer below may be another one now */
	add(binaries, "a.so", &a);
	binaries__set_real(binaries, &a, &below);
	run("sleep 0.02; cat c.so >a.so");
	assert_memory_equal(binaries__real(binaries, &a), &below, sizeof(below));
	add(binaries, "a.so", &changed);
	assert_memory_equal(binaries__real(binaries, &a), &a, sizeof(a));
	binaries__free(binaries);
}

static size_t n_asked, n_refusals;

static bool forget(void *ctx, size_t index)
{
	assert_int_equal(index, *(size_t *)ctx);
	n_asked++;
	return !n_refusals || !n_refusals--;
}

/* Many new files in a short time do not make the arrays longer. An index is reused only after all
 * code that stores data under the index has dropped the data. */
static void test_indexes_are_reused(void **state)
{
	struct binaries *binaries;
	struct file_id id, stays;
	size_t expected = 1;
	char name[32];

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	binaries__reuse(binaries, forget, &expected);
	make_library("stays.so", "-Wl,--build-id=0xaaaaaaaa");
	assert_int_equal(add(binaries, "stays.so", &stays)->index, 0);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "cp stays.so %d.so", i);
		run(name);
		snprintf(name, sizeof(name), "printf %d >>%d.so", i, i); /* changes the content */
		run(name);
		snprintf(name, sizeof(name), "%d.so", i);
		assert_int_equal(add(binaries, name, &id)->index, 1);
		assert_int_equal(n_binaries(binaries), 2);
		assert_int_equal(unlink(name), 0);
		binaries__use(binaries, &stays);
		evict(binaries, 100);
		assert_null(binaries__find(binaries, &id));
	}
	assert_int_equal(n_asked, 19);
	n_refusals = 1;
	make_library("a.so", "-Wl,--build-id=0xbbbbbbbb");
	make_library("b.so", "-Wl,--build-id=0xcccccccc");
	assert_int_equal(add(binaries, "a.so", &id)->index, 2);
	assert_int_equal(add(binaries, "b.so", &id)->index, 1);
	assert_int_equal(n_binaries(binaries), 3);
	binaries__free(binaries);
}

/* A binary stays as long as one of its files is used. Its unused files are still closed. */
static void test_copies_are_let_go(void **state)
{
	struct file_id id_a, id_b, id_c;
	struct binaries *binaries;
	struct binary *a;
	struct stat st;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("a.so", "-Wl,--build-id=0xaaaaaaaa");
	run("cp a.so b.so; cp a.so c.so");
	a = add(binaries, "a.so", &id_a);
	add(binaries, "b.so", &id_b);
	add(binaries, "c.so", &id_c);
	run("rm a.so c.so");
	binaries__use(binaries, &id_b);
	assert_int_equal(evict(binaries, 100), 0);
	assert_int_equal(n_gone, 2);
	assert_false(is_held(id_a.inode));
	assert_false(is_held(id_c.inode));
	assert_ptr_equal(binaries__find(binaries, &id_b), a);
	assert_int_equal(fstat(a->fd, &st), 0);
	assert_int_equal(st.st_ino, id_b.inode);
	run("rm b.so");
	assert_int_equal(evict(binaries, 101), 0);
	assert_false(is_held(id_b.inode));
	binaries__free(binaries);
}

static void test_not_elf(void **state)
{
	struct binaries *binaries;
	struct file_id id;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	run("echo text >text; : >empty");
	assert_null(add(binaries, "text", &id)->image);
	assert_null(add(binaries, "empty", &id)->image);
	assert_int_equal(n_binaries(binaries), 2);
	binaries__free(binaries);
}

static void test_debug_file(void **state)
{
	struct binaries *binaries;
	struct binary *binary;
	struct file_id id;

	(void)state;
	assert_int_equal(binaries__new(&binaries), 0);
	make_library("d.so", "-g -Wl,--build-id=0xdddddddd");
	run("objcopy --only-keep-debug d.so d.debug; strip d.so; "
	    "objcopy --add-gnu-debuglink=d.debug d.so");
	binary = add(binaries, "d.so", &id);
	assert_true(binary->debug_fd >= 0);
	make_library("e.so", "-Wl,--build-id=0xeeeeeeee");
	assert_int_equal(add(binaries, "e.so", &id)->debug_fd, -1);
	binaries__free(binaries);
}

/* Even if processes map many files, descriptors are left for other uses. */
static void test_descriptors_are_left(void **state)
{
	struct rlimit limit, little;
	struct binaries *binaries;
	struct binary *binary;
	int err = 0, n = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	little = (struct rlimit){100, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &little), 0);
	assert_int_equal(binaries__new(&binaries), 0);
	while (!err && n < 100) {
		char name[16];
		struct stat st;
		int fd;

		snprintf(name, sizeof(name), "many%d", n++);
		fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0 && !fstat(fd, &st));
		err = binaries__add(binaries, &(struct file_id){1, 2, st.st_ino}, fd, -1, name,
				    &binary);
	}
	assert_int_equal(err, -EMFILE);
	assert_int_equal(n - 1, n_binaries(binaries));
	assert_true(n > 20);
	assert_true(open_descriptors() <= 80);
	binaries__free(binaries);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_once),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_copies_are_files),
		cmocka_unit_test(test_many_liars),
		cmocka_unit_test(test_copy_of_another_owner),
		cmocka_unit_test(test_written_to),
		cmocka_unit_test(test_copy_written_to),
		cmocka_unit_test(test_not_elf),
		cmocka_unit_test(test_unused_are_let_go),
		cmocka_unit_test(test_files_of_one_layer),
		cmocka_unit_test(test_indexes_are_reused),
		cmocka_unit_test(test_copies_are_let_go),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_descriptors_are_left),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
