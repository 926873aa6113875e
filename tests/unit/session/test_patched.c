// SPDX-License-Identifier: BSD-2-Clause
/* Tests what makes memtrace search all processes for code that they have changed. The linker
 * replaces the capture, and the search. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/internal.h"

static const struct allocator probed = {.family = "glibc", .file = {8, 1, 100}};

static struct {
	bool is_refused;
	size_t n_searches, n_allowed, n_stops;
	int region_code; /* has the code of the regions' functions changed? */
} fake;

const struct capture_probe *__wrap_capture__probes(const struct capture *capture, size_t *ret_n);
const struct capture_probe *__wrap_capture__probes(const struct capture *capture, size_t *ret_n)
{
	static const struct capture_probe probe = {.allocator = &probed};

	(void)capture;
	*ret_n = 1;
	return &probe;
}

bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns);
bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns)
{
	(void)capture, (void)ret_since_ns;
	return file_id__equal(file, &probed.file);
}

const struct capture_refusal *__wrap_capture__refusals(const struct capture *capture,
						       size_t *ret_n);
const struct capture_refusal *__wrap_capture__refusals(const struct capture *capture, size_t *ret_n)
{
	static struct capture_refusal refusal = {.whole = true};

	(void)capture;
	refusal.family = probed.family;
	refusal.file = (struct file_id){8, 1, 200};
	refusal.gone_ns = !fake.is_refused;
	*ret_n = 1;
	return &refusal;
}

void __wrap_capture__allow(struct capture *capture, const struct file_id *file, const char *family);
void __wrap_capture__allow(struct capture *capture, const struct file_id *file, const char *family)
{
	(void)capture, (void)file, (void)family;
	fake.n_allowed++;
}

int __wrap_process__each(int (*fn)(pid_t pid, void *ctx), void *ctx);
int __wrap_process__each(int (*fn)(pid_t pid, void *ctx), void *ctx)
{
	(void)fn, (void)ctx;
	fake.n_searches++;
	return 0;
}

int __wrap_region_source__patched_in(const struct region_source *source, pid_t pid,
				     const struct maps *maps, const char **ret);
int __wrap_region_source__patched_in(const struct region_source *source, pid_t pid,
				     const struct maps *maps, const char **ret)
{
	(void)source, (void)pid, (void)maps;
	*ret = "mmap";
	return fake.region_code;
}

void __wrap_region_calls__stop(struct session *s, struct target *t);
void __wrap_region_calls__stop(struct session *s, struct target *t)
{
	(void)s, (void)t;
	fake.n_stops++;
}

static size_t searches_for(struct session *s, const char *family, uint64_t inode)
{
	struct allocator a = {.family = family, .file = {8, 1, inode}}, *list[] = {&a};
	struct allocators allocators = {.list = list, .n = 1};

	fake.n_searches = 0;
	patched__look_everywhere(s, &allocators);
	return fake.n_searches;
}

static void only_what_may_get_probes_is_searched_for(void **state)
{
	struct session s = {.everywhere = true};

	(void)state;
	assert_int_equal(searches_for(&s, probed.family, 100), 0);
	assert_int_equal(searches_for(&s, "jemalloc", 100), 1);
	assert_int_equal(searches_for(&s, probed.family, 200), 1);
	fake.is_refused = true;
	assert_int_equal(searches_for(&s, probed.family, 200), 0);
	assert_int_equal(searches_for(&s, "jemalloc", 200), 1);
	fake.is_refused = false;
}

/* Each new program brings the same library, so the search must not go on for ever. */
static void a_lifted_refusal_does_not_let_all_be_searched(void **state)
{
	struct patcher ended = {.pid = -1, .file = {8, 1, 200}, .family = probed.family};
	struct session s = {.everywhere = true, .patchers = &ended, .n_patchers = 1};

	(void)state;
	assert_int_equal(binaries__new(&s.binaries), 0);
	patched__lift(&s);
	assert_int_equal(fake.n_allowed, 1);
	assert_int_equal(s.n_patchers, 0);
	assert_int_equal(searches_for(&s, probed.family, 200), 1);
	assert_int_equal(searches_for(&s, probed.family, 100), 0);
	binaries__free(s.binaries);
}

/* One target's libc was found, and then another target's code showed that probes on libc are not
 * enough. The probes on system calls are in nobody's code, and see the regions of all targets. */
static void patched_code_stops_no_probes_on_system_calls(void **state)
{
	struct region_source libc = {};
	struct target t = {.regions = &libc};
	struct session s = {.region_place = REGIONS_SYSCALLS};

	(void)state;
	fake.n_stops = 0;
	fake.region_code = 1;
	patched__look_again(&s, &t);
	assert_int_equal(fake.n_stops, 0);
	s.region_place = REGIONS_LIBC;
	patched__look_again(&s, &t);
	assert_int_equal(fake.n_stops, 1);
}

/* Code that cannot be read at one moment may be unchanged. It does not count as changed, and is
 * read again later. */
static void unread_code_stops_no_regions(void **state)
{
	struct region_source libc = {};
	struct target t = {.regions = &libc};
	struct session s = {.region_place = REGIONS_LIBC};

	(void)state;
	fake.n_stops = 0;
	fake.region_code = -ETIMEDOUT;
	patched__look_again(&s, &t);
	assert_int_equal(fake.n_stops, 0);
	assert_true(t.code_changed);
	t.code_changed = false;
	fake.region_code = 0;
	patched__look_again(&s, &t);
	assert_int_equal(fake.n_stops, 0);
	assert_false(t.code_changed);
	fake.region_code = 1;
	patched__look_again(&s, &t);
	assert_int_equal(fake.n_stops, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_may_get_probes_is_searched_for),
		cmocka_unit_test(a_lifted_refusal_does_not_let_all_be_searched),
		cmocka_unit_test(patched_code_stops_no_probes_on_system_calls),
		cmocka_unit_test(unread_code_stops_no_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
