// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "encode/fold.h"
#include "encode/where.h"
#include "tests/unit/encode/fixture.h"

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

static void names_are_folded(void **state)
{
	static const struct {
		const char *name, *folded;
	} cases[] = {
		{"main", "main"},
		{"", ""},
		{STRING "::append", "std::string::append"},
		{STRING "::basic_string", "std::string"},
		{STRING "::basic_string<std::allocator<char> >", "std::string"},
		{"std::__1::basic_string<char, std::__1::char_traits<char> >::resize",
		 "std::string::resize"},
		{"std::basic_ostream<wchar_t, std::char_traits<wchar_t> >::write",
		 "std::wostream::write"},
		{"std::basic_thing<int>::f", "std::basic_thing<..>::f"},
		{"std::vector<int, std::allocator<int> >::vector", "std::vector<..>"},
		{"std::vector<" STRING ", std::allocator<" STRING " > >::push_back",
		 "std::vector<..>::push_back"},
		{"std::_V2::error_category::name", "std::error_category::name"},
		{"Session::Session", "Session::Session"},
		{"app::Cache<int, Less<2> >::insert<char>", "app::Cache<..>::insert<..>"},
		{"app::f[abi:cxx11]", "app::f"},
		{"std::operator<< <std::char_traits<char> >", "std::operator<<"},
		{"std::operator+<char, std::char_traits<char>, std::allocator<char> >",
		 "std::operator+"},
		{"app::operator==<int>", "app::operator=="},
		{"app::Ptr<int>::operator*", "app::Ptr<..>::operator*"},
		{"app::operator<", "app::operator<"},
		{"app::operator<=><int>", "app::operator<=>"},
		{"app::Ptr<int>::operator->", "app::Ptr<..>::operator->"},
		{"std::function<void (int)>::operator()", "std::function<..>::operator()"},
		{"app::run<&app::operator<< <int> >", "app::run<..>"},
		{"app::run(std::vector<int>)::{lambda(int)#1}::operator()",
		 "app::run(std::vector<..>)::{lambda(int)#1}::operator()"},
		{"(anonymous namespace)::f<int>", "(anonymous namespace)::f<..>"},
		{"app::f<>", "app::f<>"}, /* a pack of no types */
		{"app::f<..>", "app::f<..>"},
		/* libiberty's names of a program that g++ 12 has built */
		{"app::Cache<" STRING ", app::Session>::each<main::{lambda(app::Session&)#1}>",
		 "app::Cache<..>::each<..>"},
		{"app::Cache<" STRING ", app::Session>::operator std::vector<" STRING
		 ", std::allocator<" STRING " > >",
		 "app::Cache<..>::operator std::vector<..>"},
		{"app::Cache<" STRING ", app::Session>::operator<<", "app::Cache<..>::operator<<"},
		{"app::Cache<" STRING ", app::Session>::operator()", "app::Cache<..>::operator()"},
		{"app::Cache<" STRING ", app::Session>::operator[]", "app::Cache<..>::operator[]"},
		{"app::Cache<" STRING ", app::Session>::operator new",
		 "app::Cache<..>::operator new"},
		{"app::operator>><app::Session>", "app::operator>>"},
		{"app::make<40, int, int>", "app::make<..>"},
		{"std::_Sp_counted_ptr_inplace<app::Session, std::allocator<void>, "
		 "(__gnu_cxx::_Lock_policy)2>::~_Sp_counted_ptr_inplace",
		 "std::_Sp_counted_ptr_inplace<..>::~_Sp_counted_ptr_inplace"},
		/* Rust */
		{"alloc::vec::Vec<T,A>::push", "Vec<..>::push"},
		{"<alloc::vec::Vec<u8>>::with_capacity", "Vec<..>::with_capacity"},
		{"alloc::vec::from_elem::<u8>", "alloc::vec::from_elem<..>"},
		{"<app::Cache<alloc::vec::Vec<u8>> as core::ops::drop::Drop>::drop",
		 "app::Cache<..>::drop"},
		{"<&mut alloc::string::String as core::fmt::Write>::write_str",
		 "String::write_str"},
		{"<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
		 "alloc::vec::spec_from_elem::SpecFromElem::from_elem"},
		{"<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
		 "alloc::slice::to_vec_in::ConvertVec::to_vec"},
		{"<str>::repeat", "str::repeat"},
		{"<[u8]>::repeat", "[u8]::repeat"},
		{"<fn() as core::ops::function::FnOnce<()>>::call_once",
		 "core::ops::function::FnOnce<..>::call_once"},
		{"<alloc::alloc::Global>::grow_impl_runtime",
		 "alloc::alloc::Global::grow_impl_runtime"},
		{"hashbrown::rustc_entry::<impl hashbrown::map::HashMap<K,V,S,A>>::rustc_entry",
		 "HashMap<..>::rustc_entry"},
		{"app::show::<impl core::fmt::Display for app::Session>::fmt", "app::Session::fmt"},
		{"std::collections::hash::map::HashMap<K,V,S,A>::entry", "HashMap<..>::entry"},
		{"app::main::h0123456789abcdef", "app::main"},
		{"app::main::h0123456789abcdeg", "app::main::h0123456789abcdeg"},
		/* libiberty's names of a program that rustc 1.63 has built, with both manglings */
		{"a::map_all::<i32, alloc::string::String, a::main::{closure#1}>",
		 "a::map_all<..>"},
		{"<a::Cache<a::Row> as a::Store>::put", "a::Cache<..>::put"},
		{"<a::Row as core::ops::bit::Shl<u32>>::shl", "a::Row::shl"},
		{"core::ptr::drop_in_place::<<std::thread::Builder>::spawn_unchecked_<"
		 "a::main::{closure#0}, usize>::{closure#1}>",
		 "core::ptr::drop_in_place<..>"},
		{"<<std::thread::Builder>::spawn_unchecked_<a::main::{closure#0}, usize>"
		 "::{closure#1} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
		 "core::ops::function::FnOnce<..>::call_once::{shim:vtable#0}"},
		{"<alloc::raw_vec::RawVec<_, _>>::reserve::do_reserve_and_handle::<(u8, a::Row), "
		 "alloc::alloc::Global>",
		 "alloc::raw_vec::RawVec<..>::reserve::do_reserve_and_handle<..>"},
		{"<hashbrown::map::HashMap<alloc::string::String, alloc::vec::Vec<a::Row>, "
		 "std::collections::hash::map::RandomState>>::rustc_entry",
		 "HashMap<..>::rustc_entry"},
		{"app::main::{{closure}}", "app::main::{{closure}}"},
		/* Go */
		{"main.Map[go.shape.int_0,go.shape.string_1]", "main.Map[...]"},
		{"main.(*Cache[go.shape.string_0,go.shape.[]uint8_1]).Put",
		 "main.(*Cache[...]).Put"},
		{"main.Map[...]", "main.Map[...]"},
		{"main.f[go.shape.int", "main.f[go.shape.int"},
		/* neither C++ nor Rust */
		{"<module>", "<module>"},
		{"Ljava/lang/Object;::<init>", "Ljava/lang/Object;::<init>"},
		{"a < b", "a < b"},
		{"f<unclosed", "f<unclosed"},
		{">>>", ">>>"},
		{"libc.so.6+0x1234", "libc.so.6+0x1234"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *folded = fold_name(cases[i].name);

		assert_string_equal(folded, cases[i].folded);
		free(folded);
	}
}

/* A file chooses names freely, so a name must not take time that is quadratic in its length. */
static void long_names_take_linear_time(void **state)
{
	static const char *const parts[] = {"a<", "a<[abi:", "x[go.shape.", "a::<impl ",
					    "operator< <"};
	size_t room = 1 << 18;
	char *name = malloc(room + 1);
	clock_t begin = clock();

	(void)state;
	assert_non_null(name);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		size_t len = strlen(parts[i]), n = 0;
		char *folded;

		for (; n + len <= room; n += len)
			memcpy(name + n, parts[i], len);
		name[n] = '\0';
		folded = fold_name(name);
		assert_string_equal(folded, name); /* no bracket is closed */
		free(folded);
	}
	free(name);
	assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
}

/* Asserts that put_where() prints expected for the profile's first site. */
static void assert_where(const struct profile *profile, size_t room, const char *expected)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(put_where(profile, &profile->sites[0], room, false, &sink), 0);
	assert_string_equal(text.bytes, expected);
	free(text.bytes);
}

static void own_code_comes_first(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "operator new", STRING "::_M_create",
	      STRING "::basic_string<std::allocator<char> >", "open_session",
	      "std::function<void (int)>::operator()", "main");
	end_profile(profile);
	assert_where(profile, 200,
		     "open_session (via std::string) < std::function<..>::operator() < main");
	assert_where(profile, 69,
		     "open_session (via std::string) < std::function<..>::operator() < main");
	assert_where(profile, 67, "open_session (via std::string) < ...");
	/* the name takes 12 columns, " (via std::string)" 18, " < ..." 6 */
	assert_where(profile, 36, "open_session (via std::string) < ...");
	assert_where(profile, 35, "open_session (via string) < ...");
	assert_where(profile, 24, "open_session < ...");
	profile__free(profile);
}

/* Static functions of a stripped server have no names. If not all frames fit, runs of
 * frames without names are only counted, so that named callers behind them are printed. */
static void addresses_do_not_crowd_out_names(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "db+0xd6eb6b", "db+0xd6ed51", "db+0xd7f049",
	      "db+0xd7ac69", "ha_write_row", "db+0x1234", "do_command", "main");
	end_profile(profile);
	assert_where(
		profile, 200,
		"db+0xd6eb6b < db+0xd6ed51 < db+0xd7f049 < db+0xd7ac69 < ha_write_row < db+0x1234"
		" < do_command < main");
	assert_where(profile, 70,
		     "db+0xd6eb6b < (3 without names) < ha_write_row < db+0x1234 < ...");
	assert_where(profile, 52, "db+0xd6eb6b < (3 without names) < ha_write_row < ...");
	profile__free(profile);
}

static void what_rust_calls_is_told(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "realloc", "alloc::alloc::realloc",
	      "<alloc::alloc::Global>::grow_impl_runtime",
	      "<alloc::raw_vec::RawVecInner>::finish_grow", "<alloc::vec::Vec<u8>>::reserve",
	      "<alloc::string::String as core::fmt::Write>::write_str", "alloc::fmt::format",
	      "<app::Session as app::Named>::name", "app::main",
	      "core::ops::function::FnOnce::call_once", "std::rt::lang_start::{{closure}}",
	      "std::panicking::catch_unwind::<i32, app::F>", "std::rt::lang_start_internal", "main",
	      "__libc_start_main", "_start");
	end_profile(profile);
	assert_where(profile, 500,
		     "app::Session::name (via alloc::fmt::format) < app::main < "
		     "core::ops::function::FnOnce::call_once < "
		     "(3 of the runtime) < main < __libc_start_main < _start");
	profile__free(profile);
}

/* Two stacks through the same library function may differ in the function that it called. The
 * called function is printed if there is room. */
static void library_calls_are_told_apart(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", STRING "::basic_string",
	      "std::map<" STRING ", int>::operator[]", "add<int>", "main");
	end_profile(profile);
	assert_where(profile, 100, "add<..> (via std::string < std::map<..>::operator[]) < main");
	assert_where(profile, 45, "add<..> (via std::map<..>::operator[]) < main");
	assert_where(profile, 40, "add<..> (via map<..>::operator[]) < main");
	profile__free(profile);
}

static void stacks_without_own_code_are_told_from_the_leaf(void **state)
{
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "libc.so.6+0x7a123", "std::vector<int>::reserve",
	      "std::thread::join", "libstdc++.so.6+0x11", "__libc_start_main", "_start");
	end_profile(profile);
	assert_where(profile, 500,
		     "libc.so.6+0x7a123 < std::vector<..>::reserve < std::thread::join < "
		     "libstdc++.so.6+0x11 < "
		     "__libc_start_main < _start");
	profile__free(profile);
	profile = new_profile(1);
	STACK(profile, 1, 100, 1, "malloc", "libc.so.6+0x7a123", "server+0x10", "main");
	end_profile(profile);
	assert_where(profile, 500, "server+0x10 (via libc.so.6) < main");
	profile__free(profile);
	profile = new_profile(1);
	STACK(profile, 1, 100, 1, "malloc", "xmalloc");
	end_profile(profile);
	assert_where(profile, 500, "xmalloc");
	profile__free(profile);
}

static struct profile_location *find_location(struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->n_locations; i++)
		if (!strcmp(profile->locations[i].frames[0].name, name))
			return &profile->locations[i];
	fail_msg("no function %s", name);
	return NULL;
}

static void set_source(struct profile *profile, const char *name, const char *file)
{
	find_location(profile, name)->frames[0].file = strdup(file);
}

enum { PYTHON, JSON }; /* mappings of new_script() */

static void set_mapping(struct profile *profile, const char *name, int32_t mapping)
{
	find_location(profile, name)->mapping = mapping;
}

static struct profile *new_script(void)
{
	struct profile *profile = new_profile(1);
	struct profile_mapping mappings[] = {
		[PYTHON] = {.start = 0x1000,
			    .end = 0x2000,
			    .perms = "r-xp",
			    .path = "/usr/bin/python3.11"},
		[JSON] = {.start = 0x3000,
			  .end = 0x4000,
			  .perms = "r-xp",
			  .path = "/usr/lib/python3.11/lib-dynload/_json.so"},
	};

	for (int i = PYTHON; i <= JSON; i++)
		assert_int_equal(profile__add_mapping(profile, &mappings[i]), 0);
	profile->exe = strdup("/usr/bin/python3.11");
	return profile;
}

/* Debian's python3.11, whose inner functions have no names. */
static void scripts_come_before_their_interpreter(void **state)
{
	struct profile *profile = new_script();

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "python3.11+0xfe83b", "PyUnicode_Substring",
	      "_json.so+0x7725", "JSONDecoder.decode", "loads", "remember", "handle", "<module>",
	      "PyEval_EvalCode", "python3.11+0x247d96", "python3.11+0x2456ee",
	      "python3.11+0x25176f", "__libc_start_main", "_start");
	end_profile(profile);
	set_mapping(profile, "_json.so+0x7725", JSON);
	set_mapping(profile, "PyUnicode_Substring", PYTHON);
	set_mapping(profile, "PyEval_EvalCode", PYTHON);
	set_source(profile, "JSONDecoder.decode", "/usr/lib/python3.11/json/decoder.py");
	set_source(profile, "loads", "/usr/lib/python3.11/json/__init__.py");
	set_source(profile, "remember", "/srv/app/server.py");
	assert_where(profile, 500,
		     "remember (via PyUnicode_Substring < loads) < handle < <module> < "
		     "PyEval_EvalCode < (5 of the runtime)");
	assert_where(profile, 47, "remember (via loads) < handle < <module> < ...");
	profile__free(profile);
}

/* If the script itself calls a builtin, the row shows the interpreter's function that is nearest to
 * the allocation. The name of this function says what the builtin makes. */
static void builtins_are_told_by_what_they_make(void **state)
{
	struct profile *profile = new_script();

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "PyList_New", "_PyObject_MakeTpCall", "remember");
	end_profile(profile);
	set_mapping(profile, "PyList_New", PYTHON);
	set_mapping(profile, "_PyObject_MakeTpCall", PYTHON);
	set_source(profile, "remember", "/srv/app/server.py");
	assert_where(profile, 500, "remember (via PyList_New)");
	profile__free(profile);
}

/* A script runs in an event loop that is in a library of its own. No frame names the script. The
 * library calls the interpreter. Such a call says nothing about the program. A call by a function
 * of the executable would say something. */
static void event_loops_are_not_the_programs_own(void **state)
{
	struct profile_mapping uv = {.start = 0x5000,
				     .end = 0x6000,
				     .perms = "r-xp",
				     .path = "/usr/lib/x86_64-linux-gnu/libuv.so.1"};

	(void)state;
	for (int embedded = 0; embedded < 2; embedded++) {
		struct profile *profile = new_script();

		assert_int_equal(profile__add_mapping(profile, &uv), 0);
		STACK(profile, 1, 100, 1, "malloc", "PyList_New", "uv_run", "spin", "main");
		end_profile(profile);
		set_mapping(profile, "PyList_New", PYTHON);
		set_mapping(profile, "uv_run", JSON + 1);
		free(profile->mappings[PYTHON].path);
		profile->mappings[PYTHON].path = strdup("/usr/lib/libpython3.11.so.1.0");
		free(profile->exe);
		profile->exe = strdup(embedded ? "/usr/bin/app" : "/usr/bin/python3.11");
		set_mapping(profile, "spin", embedded ? -1 : PYTHON);
		set_mapping(profile, "main", embedded ? -1 : PYTHON);
		assert_where(profile, 500,
			     embedded ? "spin (via PyList_New) < main"
				      : "PyList_New < uv_run < spin < main");
		profile__free(profile);
	}
}

/* If frames are only counted, and one of them is a library's, the row calls them "of libraries" and
 * not "of the runtime". */
static void libraries_are_counted_as_such(void **state)
{
	static const char *const names[] = {"get", "call", "run", "serve", "wrap"};
	struct profile *profile = new_script();

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "view", "get", "call", "run", "serve", "wrap", "start");
	end_profile(profile);
	set_source(profile, "view", "/srv/app/views.py");
	set_source(profile, "start", "/srv/app/views.py");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		set_source(profile, names[i], "/usr/lib/python3/dist-packages/django/base.py");
	assert_where(profile, 500, "view < get < (4 of libraries) < start");
	profile__free(profile);
}

/* A script's class may have the name of a package of Go. */
static void rules_for_other_languages_say_nothing_of_scripts(void **state)
{
	struct profile *profile = new_script();

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "PyList_New", "strings.Repeat", "main");
	end_profile(profile);
	set_mapping(profile, "PyList_New", PYTHON);
	set_source(profile, "strings.Repeat", "/srv/app/strings.py");
	assert_where(profile, 500, "strings.Repeat (via PyList_New) < main");
	profile__free(profile);
}

/* If no frame is the script's, the row shows the interpreter's frames. */
static void interpreters_without_scripts_are_told_from_the_leaf(void **state)
{
	struct profile *profile = new_script();

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "libc.so.6+0x10", "PyList_New", "loads",
	      "_PyObject_MakeTpCall", "python3.11+0x10", "Py_BytesMain", "__libc_start_main",
	      "_start");
	end_profile(profile);
	set_mapping(profile, "PyList_New", PYTHON);
	set_mapping(profile, "_PyObject_MakeTpCall", PYTHON);
	set_mapping(profile, "Py_BytesMain", PYTHON);
	set_source(profile, "loads", "/usr/lib/python3.11/json/__init__.py");
	assert_where(
		profile, 500,
		"PyList_New (via libc.so.6) < loads < _PyObject_MakeTpCall < python3.11+0x10 < "
		"Py_BytesMain < __libc_start_main < _start");
	profile__free(profile);
}

/* Three stacks. Their order, figures and number of rows do not depend on the frames that are
 * shown. */
static struct profile *new_mixed(void)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 300, 2, "malloc", "operator new", STRING "::basic_string",
	      "std::vector<int>::push_back", "open_session", "main");
	STACK(profile, 1, 200, 2, "malloc", "operator new", STRING "::append", "open_session",
	      "main");
	STACK(profile, 1, 100, 2, "malloc", "std::thread::join", "__libc_start_main");
	end_profile(profile);
	return profile;
}

static void runtimes_are_shown_if_asked_for(void **state)
{
	struct profile *profile = new_mixed();
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	char *holder;

	(void)state;
	assert_int_equal(put_where(profile, &profile->sites[0], 500, true, &sink), 0);
	assert_string_equal(text.bytes, "std::string < std::vector<..>::push_back < open_session < "
					"main");
	free(text.bytes);
	holder = where_holder(profile, &profile->sites[0], 100, true);
	assert_string_equal(holder, "std::string");
	free(holder);
	holder = where_holder(profile, &profile->sites[0], 100, false);
	assert_string_equal(holder, "open_session");
	free(holder);
	profile__free(profile);
}

/* Removes the text of the last column. */
static void cut_where(char *text)
{
	const char *title = strstr(text, WHERE_TITLE), *line = title;
	char *to;
	size_t column;

	assert_non_null(title);
	while (line > text && line[-1] != '\n')
		line--;
	column = (size_t)(title - line);
	for (to = text, line = text; *line;) {
		size_t len = strcspn(line, "\n");
		const char *next = line + len + (line[len] == '\n');

		if (line > title && len > column)
			len = column;
		memmove(to, line, len);
		to += len;
		*to++ = '\n';
		line = next;
	}
	*to = '\0';
}

static void figures_do_not_depend_on_what_is_shown(void **state)
{
	struct profile *profile = new_mixed();
	static const struct table_options kinds[] = {
		{}, {.weight = WEIGHT_ALLOCATED}, {.churn = true}, {.width = 60}, {.top = 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct table_options shown = kinds[i];
		char *hiding = table_of(profile, kinds[i]), *showing;

		shown.show_runtime = true;
		showing = table_of(profile, shown);
		assert_has(hiding, "  open_session ");
		assert_has(showing, "  std::string < ");
		cut_where(hiding);
		cut_where(showing);
		assert_string_equal(hiding, showing);
		free(hiding);
		free(showing);
	}
	profile__free(profile);
}

static void trees_begin_with_the_same_frames(void **state)
{
	struct profile *profile = new_mixed();
	char *text = table_of(profile, (struct table_options){.tree = true});

	(void)state;
	assert_has(text, "  open_session (via std::string::append) < main\n");
	free(text);
	text = table_of(profile, (struct table_options){.tree = true, .show_runtime = true});
	assert_has(text, "  std::string::append < open_session < main\n");
	free(text);
	profile__free(profile);
}

static void hostile_names_stay_in_their_line(void **state)
{
	struct profile *profile = new_profile(1);
	char *holder;

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "std::evil\x1b[2J<int>", "own\n<x>", "main");
	end_profile(profile);
	assert_where(profile, 500, "own?<x> (via std::evil?[2J<..>) < main");
	holder = where_holder(profile, &profile->sites[0], 4, false);
	assert_string_equal(holder, "o..>");
	free(holder);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_folded),
		cmocka_unit_test(long_names_take_linear_time),
		cmocka_unit_test(own_code_comes_first),
		cmocka_unit_test(addresses_do_not_crowd_out_names),
		cmocka_unit_test(what_rust_calls_is_told),
		cmocka_unit_test(library_calls_are_told_apart),
		cmocka_unit_test(stacks_without_own_code_are_told_from_the_leaf),
		cmocka_unit_test(scripts_come_before_their_interpreter),
		cmocka_unit_test(builtins_are_told_by_what_they_make),
		cmocka_unit_test(event_loops_are_not_the_programs_own),
		cmocka_unit_test(libraries_are_counted_as_such),
		cmocka_unit_test(rules_for_other_languages_say_nothing_of_scripts),
		cmocka_unit_test(interpreters_without_scripts_are_told_from_the_leaf),
		cmocka_unit_test(runtimes_are_shown_if_asked_for),
		cmocka_unit_test(figures_do_not_depend_on_what_is_shown),
		cmocka_unit_test(trees_begin_with_the_same_frames),
		cmocka_unit_test(hostile_names_stay_in_their_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
