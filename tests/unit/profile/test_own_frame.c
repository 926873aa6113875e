// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "profile/own_frame.h"

static void functions_of_runtimes_are_known(void **state)
{
	static const char *const yes[] = {
		"std::vector<int, std::allocator<int> >::push_back",
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
		">::append",
		"std::map<int, app::Session>::operator[]",
		"int& std::vector<int>::emplace_back<int>",
		"std::operator<< <std::char_traits<char> >",
		"std::function<void (int)>::operator()",
		"__gnu_cxx::__normal_iterator<char*, std::string>::operator*",
		"__cxxabiv1::__cxa_throw",
		"operator new",
		"operator new[](unsigned long)",
		"operator delete",
		"std::vector<bool>::operator bool",
		/* Rust, by both manglings */
		"<alloc::alloc::Global>::grow_impl_runtime",
		"<alloc::raw_vec::RawVecInner<_>>::reserve::do_reserve_and_handle::<alloc::alloc:"
		":Global>",
		"alloc::vec::Vec<T,A>::push",
		"alloc::vec::from_elem::<app::Session>",
		"<alloc::vec::Vec<app::Session>>::push",
		"<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
		"<app::Session as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
		"<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
		"<[app::Session]>::to_vec",
		"<str>::repeat",
		"<app::Rows as "
		"core::iter::traits::iterator::Iterator>::collect::<alloc::vec::Vec<u8>>",
		"<&dyn core::ops::function::Fn<(), Output = i32> + core::marker::Sync as "
		"core::ops::function::FnOnce<()>>::call_once",
		"<&mut alloc::string::String as core::fmt::Write>::write_str",
		"hashbrown::rustc_entry::<impl hashbrown::map::HashMap<K,V,S,A>>::rustc_entry",
		"std::collections::hash::map::HashMap<K,V,S,A>::entry",
		"core::ops::function::FnOnce::call_once",
		"core::unicode::unicode_data::grapheme_extend::lookup",
		/* Go */
		"runtime.mallocgc",
		"runtime/debug.FreeOSMemory",
		"strings.(*Builder).grow",
		"net/http.(*conn).serve",
		"_cgo_1234_Cfunc__Cmalloc",
		"main._Cfunc_CString",
		"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_start",
		"__libc_start_main",
	};
	static const char *const no[] = {
		"main",
		"handle_request",
		"app::std::vector",
		"stdio_open",
		"Foo::operator new",
		"app::Cache<std::string, std::vector<int> >::insert",
		"operator<< <app::Session>",
		"app::f(std::string)",
		/* the type that an operator returns does not show where the operator is defined */
		"app::Cache<int>::operator std::vector<int, std::allocator<int> >",
		"app::Cache<std::string>::operator std::string",
		"app::Row::operator unsigned long",
		"core::Engine::start", /* a namespace of C++ */
		"core::net::Server::accept",
		"alloc::Pool::get",
		"<app::Cache<alloc::vec::Vec<u8>> as core::ops::drop::Drop>::drop",
		"<app::Session as core::clone::Clone>::clone",
		"<alloc::vec::Vec<u8> as app::Pack>::pack",
		"<app::Rows as core::iter::traits::iterator::Iterator>::next",
		"<T as app::Pack>::pack",
		"app::main::{{closure}}",
		"serde_json::from_str::<app::Config>",
		"main.handle",
		"github.com/user/strings.Grow",
		"example.org/runtime.Start",
		"sort.isra.0",
		"fmt.part.3",
		"time.cold",
		"start_thread",
		"_ZN3app6insertERKSt6vectorIiSaIiEE",
		"<module>",
		"<",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!function__is_runtime(yes[i]))
			fail_msg("%s is a runtime's", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (function__is_runtime(no[i]))
			fail_msg("%s is the program's", no[i]);
}

static void files_of_runtimes_are_known(void **state)
{
	static const char *const yes[] = {
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/libc-2.31.so",
		"/lib/libc.musl-x86_64.so.1",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/ld-2.31.so",
		"/lib/ld-musl-x86_64.so.1",
		"/usr/lib/libstdc++.so.6.0.30",
		"/usr/lib/libc++.so.1",
		"/usr/lib/libc++abi.so.1",
		"libm.so.6",
		"/usr/lib/libgcc_s.so.1",
		"/usr/lib/libjemalloc.so.2",
		"/usr/lib/libtcmalloc_minimal.so.4",
		"/home/u/.rustup/lib/libstd-0a1b2c3d4e5f6789.so",
		"/lib/libnss_files.so.2",
		"[vdso]",
	};
	static const char *const no[] = {
		"/usr/bin/server",
		"/usr/lib/libc-client.so.2007",
		"/usr/lib/libcrypto.so.3",
		"/usr/lib/libmysqlclient.so",
		"/usr/lib/libpython3.11.so.1.0",
		"/opt/app/libstd.so",
		"/opt/libc.so.d/plugin.so",
		"/usr/bin/ld",
		"[heap]",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!path__is_runtime(yes[i]))
			fail_msg("%s is a runtime's", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (path__is_runtime(no[i]))
			fail_msg("%s is no runtime's", no[i]);
}

static void interpreters_and_their_libraries_are_known(void **state)
{
	static const char *const interpreters[] = {
		"/usr/bin/python3.11",
		"/usr/bin/python3",
		"/usr/bin/python3.11-dbg",
		"/opt/python3.13t",
		"python",
		"/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
		"/usr/lib/libpython3.13t.so.1.0",
		"/usr/bin/node",
		"/usr/bin/nodejs",
		"/usr/lib/x86_64-linux-gnu/libnode.so.108",
	};
	static const char *const no_interpreters[] = {
		"/usr/bin/python-config",
		"/usr/bin/pythonista",
		"/usr/bin/nodefs",
		"/usr/bin/node_exporter",
		"/srv/node/server",
		"/usr/lib/libnodes.so",
		"/usr/lib/libboost_python311.so.1.74.0",
		"",
	};
	static const char *const libraries[] = {
		"/usr/lib/python3.11/json/decoder.py",
		"/usr/lib/python3/dist-packages/yaml/__init__.py",
		"/usr/local/lib/python3.12/dist-packages/numpy/core/numeric.py",
		"/srv/app/venv/lib/python3.11/site-packages/flask/app.py",
		"/usr/lib64/python3.12/threading.py",
		"/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",
		"<frozen importlib._bootstrap>",
		"/srv/app/node_modules/sharp/build/Release/sharp.node",
	};
	static const char *const no_libraries[] = {
		"/srv/app/server.py",
		"/home/u/python3/app.py",
		"/opt/lib/python3-app/main.py",
		"<string>",
		"<stdin>",
		"/srv/site-packages.py",
		"/usr/bin/server",
		"",
	};
	static const struct {
		const char *name;
		enum frame_owner owner;
	} scripts[] = {
		/* names of Node.js 20 */
		{"JS:*work /srv/app/a.js:3:14", FRAME_OWN},
		{"JS:* /srv/app/a.js:4:30", FRAME_OWN},
		{"Eval:~ /srv/app/a.js:1:1", FRAME_OWN},
		{"JS:^listOnTimeout node:internal/timers:524:25", FRAME_OF_LIBRARY},
		{"JS:~readFileSync node:fs:441:22", FRAME_OF_LIBRARY},
		{"JS:~Module._load node:internal/modules/cjs/loader:1:2", FRAME_OF_LIBRARY},
		{"Eval:~ node:events:1:1", FRAME_OF_LIBRARY},
		{"LazyCompile:*realpath internal/fs/utils.js:1", FRAME_OF_LIBRARY},
		{"JS:*handle /srv/app/node_modules/express/lib/router/index.js:136:31",
		 FRAME_OF_LIBRARY},
		{"Builtin:InterpreterEntryTrampoline", FRAME_OF_INTERPRETER},
		{"BytecodeHandler:CallProperty1", FRAME_OF_INTERPRETER},
		/* C++ */
		{"JS::Compile", FRAME_OWN},
		{"Builtin::Call", FRAME_OWN},
		{"Function::f node:x", FRAME_OWN},
		{"main", FRAME_OWN},
		{"JS:", FRAME_OWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(interpreters) / sizeof(*interpreters); i++)
		if (!path__is_interpreter(interpreters[i]))
			fail_msg("%s is an interpreter", interpreters[i]);
	for (size_t i = 0; i < sizeof(no_interpreters) / sizeof(*no_interpreters); i++)
		if (path__is_interpreter(no_interpreters[i]))
			fail_msg("%s is no interpreter", no_interpreters[i]);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		if (!path__is_library(libraries[i]))
			fail_msg("%s is a library's", libraries[i]);
	for (size_t i = 0; i < sizeof(no_libraries) / sizeof(*no_libraries); i++)
		if (path__is_library(no_libraries[i]))
			fail_msg("%s is no library's", no_libraries[i]);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
		if (function__script_owner(scripts[i].name) != scripts[i].owner)
			fail_msg("%s is not of owner %d", scripts[i].name, scripts[i].owner);
}

/* If the program is the interpreter itself, the program's file is not a library. Nevertheless the
 * interpreter's functions are not the user's. */
static void frames_of_scripts_go_by_their_source(void **state)
{
	struct profile *profile = profile__new();
	struct profile_location in_python = {.addr = 0x1500, .mapping = 0},
				in_module = {.addr = 0x3500, .mapping = 1},
				script = {.addr = 1ULL << 63 | 8, .mapping = -1};
	struct profile_mapping python = {.start = 0x1000,
					 .end = 0x2000,
					 .perms = "r-xp",
					 .path = "/usr/bin/python3.11"},
			       module = {.start = 0x3000,
					 .end = 0x4000,
					 .perms = "r-xp",
					 .path = "/venv/lib/python3.11/site-packages/np/core.so"};

	(void)state;
	profile->exe = strdup("/usr/bin/python3.11");
	assert_int_equal(profile__add_mapping(profile, &python), 0);
	assert_int_equal(profile__add_mapping(profile, &module), 0);
	assert_int_equal(profile__frame_owner(profile, &in_python, "PyDict_New", NULL),
			 FRAME_OF_INTERPRETER);
	assert_int_equal(profile__frame_owner(profile, &in_python, "PyMem_Malloc", NULL),
			 FRAME_OF_ALLOCATOR);
	assert_int_equal(profile__frame_owner(profile, &in_module, "core.so+0x12", NULL),
			 FRAME_OF_INTERPRETER);
	assert_int_equal(profile__frame_owner(profile, &script, "loads",
					      "/usr/lib/python3.11/json/__init__.py"),
			 FRAME_OF_LIBRARY);
	assert_int_equal(profile__frame_owner(profile, &script, "remember", "/srv/app/server.py"),
			 FRAME_OWN);
	assert_int_equal(profile__frame_owner(profile, &script, "[python]", NULL),
			 FRAME_OF_INTERPRETER);
	assert_int_equal(profile__frame_owner(profile, &script, "v8::Function::Call", NULL),
			 FRAME_OF_INTERPRETER);
	/* the file of the program is not a library, even if a package installed it */
	free(profile->exe);
	profile->exe = strdup(module.path);
	assert_int_equal(profile__frame_owner(profile, &in_module, "parse", NULL), FRAME_OWN);
	profile__free(profile);
}

static void frames_go_by_file_and_name(void **state)
{
	struct profile *profile = profile__new();
	struct profile_location in_libc = {.addr = 0x1500, .mapping = 0},
				in_program = {.addr = 0x3500, .mapping = 1},
				nowhere = {.addr = 0x9000, .mapping = -1},
				note = {.addr = 1, .mapping = -1, .note = true};
	struct profile_mapping libc = {.start = 0x1000,
				       .end = 0x2000,
				       .perms = "r-xp",
				       .path = "/lib/libc.so.6"},
			       program = {.start = 0x3000,
					  .end = 0x4000,
					  .perms = "r-xp",
					  .path = "/usr/bin/server"};

	(void)state;
	assert_int_equal(profile__add_mapping(profile, &libc), 0);
	assert_int_equal(profile__add_mapping(profile, &program), 0);
	assert_int_equal(profile__frame_owner(profile, &in_libc, "fopen", NULL), FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &in_libc, "libc.so.6+0x1234", NULL),
			 FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &in_libc, "malloc", NULL),
			 FRAME_OF_ALLOCATOR);
	assert_int_equal(profile__frame_owner(profile, &in_program, "fopen", NULL), FRAME_OWN);
	assert_int_equal(profile__frame_owner(profile, &in_program, "server+0x1234", NULL),
			 FRAME_OWN);
	assert_int_equal(
		profile__frame_owner(profile, &in_program, "std::vector<int>::push_back", NULL),
		FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &in_program, "xmalloc", NULL),
			 FRAME_OF_ALLOCATOR);
	/* in a file without mappings, only names may show the modules */
	assert_int_equal(profile__frame_owner(profile, &nowhere, "libc.so.6+0x1234", NULL),
			 FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &nowhere, "server+0x1234", NULL), FRAME_OWN);
	assert_int_equal(profile__frame_owner(profile, &nowhere, "compiled_by_a_jit", NULL),
			 FRAME_OWN);
	assert_int_equal(profile__frame_owner(profile, &nowhere, "0x7f0012345678", NULL),
			 FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &nowhere, "", NULL), FRAME_OF_RUNTIME);
	assert_int_equal(profile__frame_owner(profile, &note, "worker-#", NULL), FRAME_OF_RUNTIME);
	/* the program itself is no library, even if its name is a library's */
	profile->exe = strdup("/lib/libc.so.6");
	assert_int_equal(profile__frame_owner(profile, &in_libc, "fopen", NULL), FRAME_OWN);
	profile__free(profile);
}

static void qualified_names_are_taken_apart(void **state)
{
	static const char name[] = "<app::Cache<&dyn Fn() -> u8> as core::ops::Drop>::drop";
	struct qualified_name q;

	(void)state;
	assert_true(qualified_name__parse(name, &q));
	assert_int_equal(q.type_len, strlen("app::Cache<&dyn Fn() -> u8>"));
	assert_int_equal(q.trait_len, strlen("core::ops::Drop"));
	assert_string_equal(q.rest, "::drop");
	assert_true(qualified_name__parse("<str>::repeat", &q));
	assert_null(q.trait);
	assert_false(qualified_name__parse("<module>", &q));
	assert_false(qualified_name__parse("<a<b>::c", &q));
	assert_false(qualified_name__parse("main", &q));
	assert_int_equal(function__module_length("a+b.so+0x12"), 6);
	assert_int_equal(function__module_length("operator+0x"), 0);
	assert_int_equal(function__module_length("operator+"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_runtimes_are_known),
		cmocka_unit_test(files_of_runtimes_are_known),
		cmocka_unit_test(interpreters_and_their_libraries_are_known),
		cmocka_unit_test(frames_of_scripts_go_by_their_source),
		cmocka_unit_test(frames_go_by_file_and_name),
		cmocka_unit_test(qualified_names_are_taken_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
