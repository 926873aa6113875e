/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses probe sites in functions given as bytes. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_PROBE_SITE_FIXTURE_H
#define MEMTRACE_TESTS_UNIT_ELF_PROBE_SITE_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/probe_site.h"

#define VADDR	 0x401000ull
#define N(array) (sizeof(array) / sizeof(*(array)))

/* Chooses the site in a copy that ends with the code, so that ASan sees each read beyond it. */
static inline int choose(const uint8_t *code, size_t len, uint64_t size, struct probe_site *site)
{
	_cleanup_free_ uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, code, len);
	return probe_site__choose(copy, len, VADDR, size, PROBE_SITE_ALL_ARGS, site);
}

/* Chooses the site in a whole function, given as bytes. */
#define CHOOSE(site, ...)                                                                          \
	({                                                                                         \
		static const uint8_t code_[] = {__VA_ARGS__};                                      \
		choose(code_, sizeof(code_), sizeof(code_), site);                                 \
	})

static inline void assert_site(const struct probe_site *site, uint32_t delta, bool emulated,
			       bool nop)
{
	if (site->delta != delta || site->emulated != emulated || site->nop != nop)
		fail_msg("+%u \"%s\" emulated %d nop %d (%s), expected +%u %d %d", site->delta,
			 site->instruction, site->emulated, site->nop, site->why, delta, emulated,
			 nop);
	assert_true(site->instruction[0] != '\0');
	assert_int_equal(emulated, site->why[0] == '\0');
}

#define TEST_RDI  0x48, 0x85, 0xff /* test %rdi,%rdi */
#define JE_OVER	  0x74, 0x01	   /* je over the ret */
#define PUSH_RBP  0x55
#define RET	  0xc3
#define NOP5	  0x0f, 0x1f, 0x44, 0x00, 0x00
#define MOV_EAX_1 0xb8, 1, 0, 0, 0	       /* mov $1,%eax */
#define UNKNOWN	  0x0f, 0x04, 0x90, 0x90, 0x90 /* 0f 04: unknown to every decoder */

#endif
