// SPDX-License-Identifier: BSD-2-Clause
/* usage: emit_svg diff|hostile|names|huge
 * Writes the flame graph of profiles made by hand, for a real browser to open
 * (tests/live/test_svg.py):
 *   diff     a server before and after: stacks that grew, shrank, may have changed, and ended
 *   hostile  names with markup and scripts, which must stay text
 *   names    long names of C++ and Rust in boxes that are too narrow for them
 *   huge     100,000 stacks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/huge.h"

#define INTERVAL 65536
/* 16 * INTERVAL: a block of this size is missed with a probability of exp(-16). */
#define BLOCK (1 << 20)

static struct profile *before(void)
{
	struct profile *p = new_profile(INTERVAL);

	p->pid = 4000;
	STACK(p, 1, BLOCK, 8, "malloc", "session_new", "session_insert", "login", "handle_request",
	      "worker", "start_thread");
	STACK(p, 1, BLOCK, 20, "malloc", "render_page", "page_cache", "handle_request", "worker",
	      "start_thread");
	STACK(p, 1, 64, 9, "calloc", "parse_headers", "parse_request", "handle_request", "worker",
	      "start_thread");
	STACK(p, 1, BLOCK, 6, "malloc", "read_file", "load_config", "main", "_start");
	STACK(p, 1, BLOCK, 10, "malloc", "build_index", "load_index", "main", "_start");
	end_profile(p);
	return p;
}

/* Changes from before(), in MiB: sessions 8 -> 24, pages 20 -> 8, the index 10 -> 0, a new journal
 * 0 -> 26, the configuration 6 -> 6. Also some headers, 9 samples -> 11: this is within sampling
 * error. */
static struct profile *after(void)
{
	struct profile *p = new_profile(INTERVAL);

	STACK(p, 1, BLOCK, 24, "malloc", "session_new", "session_insert", "login", "handle_request",
	      "worker", "start_thread");
	STACK(p, 1, BLOCK, 8, "malloc", "render_page", "page_cache", "handle_request", "worker",
	      "start_thread");
	STACK(p, 1, 64, 11, "calloc", "parse_headers", "parse_request", "handle_request", "worker",
	      "start_thread");
	STACK(p, 1, BLOCK, 6, "malloc", "read_file", "load_config", "main", "_start");
	STACK(p, 1, BLOCK, 26, "malloc", "journal_append", "journal", "worker", "start_thread");
	end_profile(p);
	return p;
}

static struct profile *hostile(void)
{
	struct profile *p = new_profile(1);

	strcpy(p->comm, "<script>fail()");
	STACK(p, 1, 60, 1, "malloc", "</text><script>fail()</script>", "main");
	STACK(p, 1, 20, 1, "malloc", "]]></script><script>fail()</script>", "main");
	STACK(p, 1, 10, 1, "malloc", "\"'`${fail()}&#0;&lt;\\u0022\xff\x01\n", "main");
	STACK(p, 1, 9, 1, "malloc", "operator<<",
	      "</metadata><image href=\"x\" onerror=\"fail()\"/>", "main");
	STACK(p, 1, 1, 1, "malloc", "\u202e\u6f22\u5b57\U0001f600", "main");
	end_profile(p);
	return p;
}

/* Each name is in boxes of all widths. */
static struct profile *names(void)
{
	static const char *const all[] = {
		"clang::Parser::ParseDeclarationOrFunctionDefinition",
		"std::__detail::_Hashtable_alloc<std::allocator<std::pair<int const, std::string>"
		" > >::_M_allocate",
		"<alloc::vec::Vec<T, A> as core::clone::Clone>::clone",
		"ns::operator<< <ns::key<int> >",
		"PyImport_ImportModuleLevelObject",
		"\u6f22\u5b57::\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57",
		"libclang-cpp.so.14+0x1badf94",
		"(anonymous namespace)::Foo::bar",
	};
	struct profile *p = new_profile(1);
	char caller[32];

	for (unsigned i = 0; i < 16; i++) {
		snprintf(caller, sizeof(caller), "caller_%u", i);
		/* all names are in one stack */
		STACK(p, 1, 1000 + 100 * i * i, 1, all[(i + 7) % 8], all[(i + 6) % 8],
		      all[(i + 5) % 8], all[(i + 4) % 8], all[(i + 3) % 8], all[(i + 2) % 8],
		      all[(i + 1) % 8], all[i % 8], caller);
	}
	end_profile(p);
	return p;
}

int main(int argc, char **argv)
{
	const char *which = argc == 2 ? argv[1] : "";
	struct sink sink = sink__to_stream(stdout);
	struct profile *profile = NULL, *base = NULL;
	int err = 2;

	if (!strcmp(which, "diff")) {
		profile = after();
		base = before();
	} else if (!strcmp(which, "hostile")) {
		profile = hostile();
	} else if (!strcmp(which, "names")) {
		profile = names();
	} else if (!strcmp(which, "huge")) {
		profile = huge_profile();
	}
	if (profile) {
		struct svg_options options = {.base = base};

		err = encode_svg(profile, &options, &sink) || fflush(stdout);
	}
	profile__free(profile);
	profile__free(base);
	return err;
}
