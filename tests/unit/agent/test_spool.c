// SPDX-License-Identifier: BSD-2-Clause
/* The spool: its names, its bounds, and the process that writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/spool.h"
#include "base/clock.h"
#include "tests/unit/encode/fixture.h"

static char path[64];
static int dir = -1;
/* The fake file system does not answer as long as this file exists. "": it always answers. */
static char hung[80];

int __real_spool_dir__open(const char *where);
int __wrap_spool_dir__open(const char *where);

int __wrap_spool_dir__open(const char *where)
{
	double until = clock__monotonic_s() + 30;

	while (*hung && !access(hung, F_OK) && clock__monotonic_s() < until)
		usleep(1000);
	return __real_spool_dir__open(where);
}

/* Number of further times that another mt-spool makes room during a write. */
static int others;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
	size_t n;

	if (others-- > 0)
		assert_int_equal(spool_dir__make_room(dir, 0, &n), 0);
	return __real_fsync(fd);
}

static void put(const char *name, off_t bytes);

/* This file is replaced by another one just before it is locked. "": none is. */
static char replaced[SPOOL_NAME + 1];

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
	if (operation == LOCK_EX && *replaced) {
		assert_int_equal(unlinkat(dir, replaced, 0), 0);
		put(replaced, 3);
		*replaced = '\0';
	}
	return __real_flock(fd, operation);
}

static int begin(void **state)
{
	(void)state;
	strcpy(path, "/tmp/memtrace-spool-XXXXXX");
	if (!mkdtemp(path))
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int end(void **state)
{
	const struct dirent *found;
	DIR *all = fdopendir(dir);

	(void)state;
	if (!all)
		return -1;
	rewinddir(all);
	while ((found = readdir(all)))
		unlinkat(dir, found->d_name, 0);
	closedir(all);
	return rmdir(path);
}

static void put(const char *name, off_t bytes)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	close(fd);
}

static bool is_there(const char *name)
{
	return !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static struct profile *profile_of(const char *comm)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 100, 1, "malloc", "keep", "main");
	end_profile(profile);
	profile->pid = 42;
	profile->start_unix_ns = 1700000000000000000u;
	profile->duration_s = 10;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	return profile;
}

static void assert_named(const char *comm, const char *wanted)
{
	struct profile *profile = profile_of(comm);
	char name[SPOOL_NAME];

	spool_dir__name(profile, name);
	assert_string_equal(name, wanted);
	profile__free(profile);
}

static void a_name_is_safe(void **state)
{
	(void)state;
	assert_named("redis-server", "20231114T221330Z.redis-server.42.pb.gz");
	assert_named("../../etc/x", "20231114T221330Z..._.._etc_x.42.pb.gz");
	assert_named("a b\n\"<\xff", "20231114T221330Z.a_b____.42.pb.gz");
	assert_named("", "20231114T221330Z..42.pb.gz");
	assert_named("a_name_that_is_too_long", "20231114T221330Z.a_name_that_is_.42.pb.gz");
}

static void kinds_have_names_of_their_own(void **state)
{
	struct profile *profile = profile_of("x");
	char name[SPOOL_NAME];

	(void)state;
	profile->what = PROFILE_REGIONS;
	spool_dir__name(profile, name);
	assert_string_equal(name, "20231114T221330Z.x.42.regions.pb.gz");
	profile->what = PROFILE_FAULTS;
	spool_dir__name(profile, name);
	assert_string_equal(name, "20231114T221330Z.x.42.faults.pb.gz");
	profile__free(profile);
}

static void the_oldest_go_first(void **state)
{
	char name[SPOOL_NAME];
	size_t n;

	(void)state;
	for (int i = 0; i < SPOOL_FILES; i++) {
		snprintf(name, sizeof(name), "20231114T22%04dZ.x.1.pb.gz", i);
		put(name, 100);
	}
	put("20231114T0.pb.gz", 100); /* a file that is not the spool's */
	put("notes.txt", 100);
	assert_int_equal(symlinkat("notes.txt", dir, "20231114T000000Z.x.1.pb.gz"), 0);
	put(".20231114T220000Z.x.1.pb.gz", 100); /* half-written */
	assert_int_equal(spool_dir__make_room(dir, 100, &n), 0);
	assert_int_equal(n, 1);
	assert_false(is_there("20231114T220000Z.x.1.pb.gz"));
	assert_true(is_there("20231114T220001Z.x.1.pb.gz"));
	assert_false(is_there(".20231114T220000Z.x.1.pb.gz"));
	assert_true(is_there("notes.txt") && is_there("20231114T0.pb.gz"));
	assert_true(is_there("20231114T000000Z.x.1.pb.gz"));
	put("20231114T220010Z.x.1.pb.gz", (off_t)SPOOL_BYTES); /* sparse */
	assert_int_equal(spool_dir__make_room(dir, 100, &n), 0);
	assert_int_equal(n, 10);
	assert_false(is_there("20231114T220010Z.x.1.pb.gz"));
	assert_true(is_there("20231114T220011Z.x.1.pb.gz"));
}

static void a_file_appears_whole(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC);
	char text[16] = "";
	int fd;

	(void)state;
	assert_int_equal(write(memory, "profile", 7), 7);
	assert_int_equal(spool_dir__write(dir, "a", memory), 0);
	assert_int_equal(spool_dir__write(dir, "a", memory), 0); /* replaces the file */
	fd = openat(dir, "a", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 7);
	assert_string_equal(text, "profile");
	close(fd);
	assert_false(is_there(".a"));
	assert_int_equal(mkdirat(dir, "b", 0700), 0); /* a directory has this name */
	assert_true(spool_dir__write(dir, "b", memory) < 0);
	assert_false(is_there(".b"));
	assert_int_equal(unlinkat(dir, "b", AT_REMOVEDIR), 0);
	close(memory);
}

/* A new mt-spool begins while an old one still writes to a slow disk. */
static void what_is_being_written_stays(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(memory, "profile", 7), 7);
	put(".20231114T220000Z.x.1.pb.gz", 100); /* left by an mt-spool that was killed */
	others = 1;
	assert_int_equal(spool_dir__write(dir, "20231114T220001Z.x.1.pb.gz", memory), 0);
	assert_true(is_there("20231114T220001Z.x.1.pb.gz"));
	assert_false(is_there(".20231114T220001Z.x.1.pb.gz"));
	assert_false(is_there(".20231114T220000Z.x.1.pb.gz"));
	close(memory);
}

/* Two mt-spools write files of one name. The file of the first mt-spool is deleted before it is
 * locked. The first mt-spool must not give the final name to the half-written file of the
 * second. */
static void a_file_of_another_is_left_alone(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(memory, "profile", 7), 7);
	strcpy(replaced, ".20231114T220001Z.x.1.pb.gz");
	assert_int_equal(spool_dir__write(dir, "20231114T220001Z.x.1.pb.gz", memory), -EEXIST);
	assert_false(is_there("20231114T220001Z.x.1.pb.gz"));
	assert_true(is_there(".20231114T220001Z.x.1.pb.gz"));
	close(memory);
}

static struct spool_report report_of(struct spool *spool)
{
	double until = clock__monotonic_s() + 20;
	struct spool_report report;

	while (!spool__report(spool, &report)) {
		assert_true(clock__monotonic_s() < until);
		usleep(1000);
	}
	return report;
}

static void another_process_writes(void **state)
{
	struct profile *profile = profile_of("victim");
	struct spool spool = {.fd = -1};
	struct spool_report report;
	struct error err = {};

	(void)state;
	assert_int_equal(spool__open(&spool, path, &err), 0);
	assert_int_equal(spool__keep(&spool, profile), 0);
	report = report_of(&spool);
	assert_int_equal(report.error, 0);
	assert_string_equal(report.name, "20231114T221330Z.victim.42.pb.gz");
	assert_true(is_there(report.name));
	assert_int_equal(spool.n_written, 1);
	/* another process of this pid and name ends in the same second */
	for (int i = 2; i <= 3; i++) {
		char name[SPOOL_NAME];

		assert_int_equal(spool__keep(&spool, profile), 0);
		report = report_of(&spool);
		snprintf(name, sizeof(name), "20231114T221330Z.victim.42-%d.pb.gz", i);
		assert_string_equal(report.name, name);
		assert_true(is_there(name));
	}
	assert_true(is_there("20231114T221330Z.victim.42.pb.gz"));
	assert_int_equal(spool.n_written, 3);
	/* the number of profiles that wait is bounded */
	spool.n_waiting = SPOOL_WAITING;
	assert_int_equal(spool__keep(&spool, profile), 0);
	assert_int_equal(spool.n_lost, 1);
	spool.n_waiting = 0;
	/* a profile that cannot be written is lost */
	assert_int_equal(unlinkat(dir, report.name, 0), 0);
	assert_int_equal(mkdirat(dir, report.name, 0700), 0);
	assert_int_equal(spool__keep(&spool, profile), 0);
	assert_true(report_of(&spool).error < 0);
	assert_int_equal(spool.n_lost, 2);
	assert_int_equal(unlinkat(dir, report.name, AT_REMOVEDIR), 0);
	/* spool__close() waits until all is written */
	assert_int_equal(spool__keep(&spool, profile), 0);
	spool__close(&spool);
	assert_int_equal(spool.n_written, 4);
	assert_true(is_there(report.name));
	profile__free(profile);
}

static void its_end_is_noticed(void **state)
{
	struct profile *profile = profile_of("victim");
	struct spool spool = {.fd = -1};
	struct error err = {};

	(void)state;
	assert_int_equal(spool__open(&spool, path, &err), 0);
	kill(spool.pid, SIGKILL);
	assert_string_equal(report_of(&spool).name, "");
	assert_int_equal(spool.fd, -1);
	assert_int_equal(spool__keep(&spool, profile), 0);
	assert_int_equal(spool.n_lost, 1);
	spool__close(&spool);
	profile__free(profile);
}

static void what_is_no_directory_is_refused(void **state)
{
	struct spool spool = {.fd = -1};
	struct error err = {};

	(void)state;
	assert_int_equal(spool__open(&spool, "/nonexistent", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent"));
	err = (struct error){};
	assert_true(spool__open(&spool, "/proc", &err) < 0);
	assert_non_null(strstr(err.text, "/proc"));
	assert_int_equal(spool.fd, -1);
}

/* A trial reports the errors that opening the spool would report. It changes nothing. */
static void a_trial_finds_the_same(void **state)
{
	struct error err = {};
	double begin = clock__monotonic_s();

	(void)state;
	put(".20231114T220000Z.x.1.pb.gz", 100); /* mt-spool is writing it */
	assert_int_equal(spool__try(path, &err), 0);
	assert_true(is_there(".20231114T220000Z.x.1.pb.gz"));
	assert_int_equal(spool__try("/nonexistent", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent"));
	err = (struct error){};
	assert_int_equal(spool__try("/dev/null", &err), -ENOTDIR);
	/* a disk that does not answer may answer later */
	put("hung", 0);
	snprintf(hung, sizeof(hung), "%s/hung", path);
	assert_int_equal(spool__try("/nonexistent", &err), 0);
	assert_true(clock__monotonic_s() - begin < 4);
	*hung = '\0';
}

/* The disk does not answer at the start. Nevertheless spool__open() returns after two seconds.
 * SPOOL_WAITING profiles wait, and are written when the disk answers. Further profiles are lost. */
static void the_start_does_not_wait_for_a_disk(void **state)
{
	struct profile *profile = profile_of("victim");
	struct spool spool = {.fd = -1};
	struct spool_report report;
	struct error err = {};
	double begin = clock__monotonic_s();

	(void)state;
	put("hung", 0);
	snprintf(hung, sizeof(hung), "%s/hung", path);
	assert_int_equal(spool__open(&spool, path, &err), 0);
	assert_true(spool.is_slow);
	assert_true(clock__monotonic_s() - begin < 4);
	begin = clock__monotonic_s();
	for (int i = 0; i < SPOOL_WAITING + 3; i++)
		assert_int_equal(spool__keep(&spool, profile), 0);
	assert_true(clock__monotonic_s() - begin < 1);
	assert_false(spool__report(&spool, &report));
	assert_int_equal(spool.n_waiting, SPOOL_WAITING);
	assert_int_equal(spool.n_lost, 3);
	assert_int_equal(unlinkat(dir, "hung", 0), 0);
	report = report_of(&spool);
	assert_string_equal(report.name, "");
	assert_int_equal(report.error, 0);
	assert_false(spool.is_slow);
	for (int i = 0; i < SPOOL_WAITING; i++)
		assert_int_equal(report_of(&spool).error, 0);
	assert_int_equal(spool.n_written, SPOOL_WAITING);
	assert_int_equal(spool.n_waiting, 0);
	assert_true(is_there("20231114T221330Z.victim.42.pb.gz"));
	spool__close(&spool);
	*hung = '\0';
	profile__free(profile);
}

/* When the disk answers at last, nothing can be written to it. */
static void a_slow_directory_may_be_none(void **state)
{
	struct profile *profile = profile_of("victim");
	struct spool spool = {.fd = -1};
	struct spool_report report;
	struct error err = {};

	(void)state;
	put("hung", 0);
	snprintf(hung, sizeof(hung), "%s/hung", path);
	assert_int_equal(spool__open(&spool, "/nonexistent", &err), 0);
	assert_int_equal(spool__keep(&spool, profile), 0);
	assert_int_equal(unlinkat(dir, "hung", 0), 0);
	report = report_of(&spool);
	assert_string_equal(report.name, "");
	assert_int_equal(report.error, -ENOENT);
	assert_int_equal(spool.fd, -1);
	assert_int_equal(spool.n_lost, 1);
	spool__close(&spool);
	*hung = '\0';
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(a_name_is_safe),
		TEST(kinds_have_names_of_their_own),
		TEST(the_oldest_go_first),
		TEST(a_file_appears_whole),
		TEST(what_is_being_written_stays),
		TEST(a_file_of_another_is_left_alone),
		TEST(another_process_writes),
		TEST(its_end_is_noticed),
		TEST(what_is_no_directory_is_refused),
		TEST(a_trial_finds_the_same),
		TEST(the_start_does_not_wait_for_a_disk),
		TEST(a_slow_directory_may_be_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
