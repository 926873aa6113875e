// SPDX-License-Identifier: BSD-2-Clause
/* Each allocation of each reader fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/unit/decode/fixture.h"
#include "tests/unit/failing.h"

static int write_told(void *ctx, const void *data, size_t len)
{
	return fwrite(data, 1, len, ctx) == len ? 0 : -EIO;
}

static int decode_text(void *ctx, FILE *told)
{
	const struct text *text = ctx;
	struct sink sink = {.write = write_told, .ctx = told};
	struct profile *profile = NULL;
	struct error err = {};
	int rc = decode_bytes("FILE", text->bytes, text->len, &profile, &err);

	failing_in = 0;
	if (rc) {
		assert_null(profile);
		assert_int_equal(err.code, rc);
		assert_non_null(strstr(err.text, "memory"));
	} else {
		assert_int_equal(encode_json(profile, &sink), 0);
	}
	profile__free(profile);
	return rc;
}

static void readers_say_that_memory_is_out(void **state)
{
	static const struct {
		const char *name;
		encoder_fn encode;
	} formats[] = {
		{"heap_v2", encode_heap_v2},
		{"symbolized", encode_symbolized},
		{"collapsed", encode_collapsed},
		{"pprof", encode_pprof},
	};
	struct profile *p = new_profile(1024);

	(void)state;
	p->exe = strdup("/usr/bin/leaky");
	STACK(p, 1, 100, 3, "malloc", "std::string::append(char const*)", "keep", "main");
	STACK(p, 2, 64, 50, "calloc", "cache", "worker", "start");
	assert_int_equal(profile__add_lost(p, "live_full", 3), 0);
	add_inlined(p, "keep", "small");
	end_profile(p);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct text text = {};
		struct sink sink = {.write = text_write, .ctx = &text};

		assert_int_equal(formats[i].encode(p, &sink), 0);
		fail_each_allocation(formats[i].name, decode_text, &text);
		free(text.bytes);
	}
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_say_that_memory_is_out),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
