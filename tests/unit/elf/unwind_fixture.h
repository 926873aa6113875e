/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds unwind tables, and fails the test if one cannot be built. Checks what elf/unwind.h
 * promises of every table. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_UNWIND_FIXTURE_H
#define MEMTRACE_TESTS_UNIT_ELF_UNWIND_FIXTURE_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "elf/unwind.h"
#include "open_image.h"

#define SP(off)		    UNWIND_RULE(UNWIND_SP, off, 0, 0)
#define SP_SAVED(off, slot) UNWIND_RULE(UNWIND_SP, off, 1, slot)
#define BP_SAVED(off, slot) UNWIND_RULE(UNWIND_BP, off, 1, slot)
#define BAD		    UNWIND_BAD
#define NONE		    UNWIND_NONE

static const char libc_path[] = "/lib/x86_64-linux-gnu/libc.so.6";

static inline uint64_t next_random(void)
{
	static uint64_t random_state = 88172645463325252u;

	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static inline struct unwind_table *build(const struct elf_image *image)
{
	struct unwind_table *table = NULL;
	struct error err = {0};

	if (unwind_table__build(image, 0, &table, &err) != 0)
		fail_msg("%s", err.text);
	return table;
}

static inline struct unwind_table *build_fd(int fd)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);

	return build(image);
}

/* Checks what elf/unwind.h promises of every table. */
static inline void check_shape(const struct unwind_table *table)
{
	size_t bad = 0;

	for (size_t i = 0; i < table->n; i++) {
		uint32_t rule = table->rows[i].rule;

		if (i > 0) {
			assert_true(table->rows[i].pc > table->rows[i - 1].pc);
			assert_true(rule != table->rows[i - 1].rule);
		}
		assert_true(UNWIND_RULE_KIND(rule) <= UNWIND_BAD);
		if (UNWIND_RULE_IS_REALIGNED(rule))
			assert_true(UNWIND_RULE_CFA_OFF(rule) >= 8);
		else if (UNWIND_RULE_RBP_SAVED(rule))
			assert_true(UNWIND_RULE_RBP_SLOT(rule) >= 1);
		else
			assert_int_equal(UNWIND_RULE_RBP_SLOT(rule), 0);
		if (UNWIND_RULE_KIND(rule) != UNWIND_SP && UNWIND_RULE_KIND(rule) != UNWIND_BP)
			assert_int_equal(UNWIND_RULE_CFA_OFF(rule), 0);
		bad += UNWIND_RULE_KIND(rule) == UNWIND_BAD;
	}
	assert_int_equal(bad, table->bad_rows);
	if (table->n) {
		assert_int_not_equal(table->rows[0].rule, UNWIND_NONE);
		assert_int_equal(table->rows[table->n - 1].rule, UNWIND_NONE);
	}
}

/* Copies a file into memory, for a test to change. */
static inline int copy_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int copy = memfd_create("copy", MFD_CLOEXEC);
	struct stat st;
	void *bytes;

	assert_true(fd >= 0 && copy >= 0 && fstat(fd, &st) == 0);
	bytes = malloc(st.st_size);
	assert_non_null(bytes);
	assert_int_equal(io__pread(fd, bytes, st.st_size, 0), st.st_size);
	assert_int_equal(write(copy, bytes, st.st_size), st.st_size);
	free(bytes);
	return copy;
}

#endif
